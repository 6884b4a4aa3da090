#!/bin/bash
# Both images, built with buildah on a Debian 12 made here, then what is in them: labels, environment, the program that runs. The steps of the
# Dockerfile are executed as they are written. What env/build-deps.sh and env/fetch-cuda.sh made, and the device code, come from this build:
# dependencies.sh and device_code.sh test how these are made. The bytes of the program are those of this build. Last, both images as lists for
# x86-64 and 64-bit Arm, which is cross-compiled, and the programs for Arm started in an emulator, the GPU worker with the glibc of its base.
# timeout: 900
. "$TEST_DIR/common.inc"
[ "${LONG:-0}" != 0 ] || skip "takes minutes: LONG=1"
need buildah debootstrap
[ "$(id -u)" = 0 ] || skip "making a base with debootstrap needs root"

own_container_storage
export BUILDAH_ISOLATION=chroot
{ container=$(buildah from scratch) && buildah rm "$container"; } >/dev/null 2>why.txt || skip "buildah does not work here: $(tail -n 1 why.txt)"
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' | awk '$2 == "bookworm" {print $1; exit}')
[ -n "$mirror" ] || skip "apt knows no archive of Debian 12"
debootstrap --variant=minbase bookworm base "$mirror" >debootstrap.txt 2>&1 || skip "debootstrap cannot make a base: $(tail -n 1 debootstrap.txt)"
rm -f base/etc/apt/sources.list
cp /etc/apt/sources.list.d/debian.sources base/etc/apt/sources.list.d/ 2>/dev/null || cp /etc/apt/sources.list base/etc/apt/
container=$(buildah from scratch)
buildah copy -q "$container" base / >/dev/null
buildah config --cmd /bin/bash "$container"
buildah commit -q "$container" localhost/base >/dev/null
buildah rm "$container" >/dev/null
rm -rf base

# The build stage until its packages are installed. The compiler and the kernel headers there decide the key under which it looks for the
# dependencies; the layers are taken from the cache below.
copy_sources tree
cp "$TOP/Dockerfile" "$TOP/.dockerignore" tree/
sed '/env\/setup.sh/q' tree/Dockerfile >packages.Dockerfile
buildah build --layers --format oci --pull=never -f packages.Dockerfile --build-arg BUILDER=localhost/base -t packages tree >packages.txt 2>&1 ||
    { tail -n 40 packages.txt >&2; fail "the packages cannot be installed"; }
container=$(buildah from --pull=never localhost/packages)
key=$(buildah run "$container" -- env/deps-key.sh)
buildah rm "$container" >/dev/null
real=$(deps_dir)
mkdir -p "deps/$key"
take() { # FILE... FOLDER: links, where both are on one file system
    cp -rl "$@" 2>/dev/null || cp -r "$@"
}
take "$real/$("$TOP/env/deps-key.sh")"/{sysroot,used.lock} "deps/$key/"
cuda=$("$REPRO" version --json | jq 'if .gpu_worker then 1 else 0 end') # what this build could have, the image can
[ "$cuda" = 0 ] || take "$real/device" "$("$TOP/env/fetch-cuda.sh" --dir "$real")" deps/

commit=$(git -C tree -c safe.directory="*" rev-parse HEAD 2>/dev/null || echo unknown)
IMAGE_ARGS="--pull=never --build-arg CUDA=$cuda --build-arg BUILDER=localhost/base --build-arg DEPS_DIR=/mnt/deps --volume $PWD/deps:/mnt/deps:rw" \
    tree/env/image.sh 1.2.3 localhost/base >image.txt 2>&1 || { tail -n 40 image.txt >&2; fail "the images do not build"; }
for image in repro:1.2.3 repro:1.2.3-cuda; do
    buildah inspect --type image "$image" >inspect.json
    jq -e --arg c "$commit" '.OCIv1.config.Labels | .["org.opencontainers.image.version"] == "1.2.3" and
        .["org.opencontainers.image.revision"] == $c' inspect.json >/dev/null || fail "the labels of $image"
done
jq -e '.OCIv1.config.Env | index("NVIDIA_VISIBLE_DEVICES=all") and index("NVIDIA_DRIVER_CAPABILITIES=compute,utility")' inspect.json >/dev/null ||
    fail "the environment of the image for GPUs"
made_by='[.compiler, .commit, .dirty]'
for image in repro:1.2.3 repro:1.2.3-cuda; do
    container=$(buildah from --pull=never "$image")
    root=$(buildah mount "$container")
    program=/usr/local/bin/repro # in every image, as in the manifests of 'repro launch'
    buildah inspect --type image "$image" | jq -e '.OCIv1.config | .WorkingDir == "/work" and .Entrypoint == ["/usr/local/bin/repro"] and
        (.Env | index("HOME=/work") and index("XDG_CONFIG_HOME=/key") and any(.[]; startswith("PATH=") and contains("/usr/local/bin")))' >/dev/null ||
        fail "the working directory, home or path of $image"
    [ "$(stat -c %a "$root/work" "$root/key" | sort -u)" = 1777 ] || fail "not every user may write to the volumes of $image"
    chroot "$root" $program version --json >version.json || fail "the program of $image does not run"
    jq -e --arg cuda "$cuda" '(.gpu_worker != null) == ($cuda == "1")' version.json >/dev/null || fail "the GPU worker of $image"
    jq -e --arg c "$commit" '.commit == $c' version.json >/dev/null || fail "the commit of $image: $(jq .commit version.json)"
    # What a Debian 12 builds is what a Debian 12 builds, here or in a container: published tables and device code included.
    [ "$(jq -c "$made_by" version.json)" != "$("$REPRO" version --json | jq -c "$made_by")" ] || cmp "$root$program" "$REPRO"
    [ "$image" != repro:1.2.3 ] || [ "$(find "$root" -type f | wc -l)" = 1 ] || fail "the scratch image holds more than the program"
    buildah umount "$container" >/dev/null
done

arm=$(RP_GCC=aarch64-linux-gnu-gcc "$TOP/env/deps-key.sh" 2>why.txt) || skip "the images are good; no list of both machines: $(cat why.txt)"
need qemu-aarch64-static
[ ! -d "$real/$arm/sysroot" ] || { mkdir -p "deps/$arm" && take "$real/$arm"/{sysroot,used.lock} "deps/$arm/"; }
libraries=$("$TOP/env/fetch-arm64.sh" --dir "$real")
"$TOP/env/fetch-arm64.sh" "$real" >/dev/null || skip "the images are good; no glibc for 64-bit Arm to make a base of"
mkdir -p base/usr/lib/aarch64-linux-gnu
ln -s usr/lib base/lib
cp -a "$libraries"/usr/lib/ld-linux-aarch64.so.1 base/usr/lib/
cp -a "$libraries"/usr/lib/aarch64-linux-gnu/{ld-linux-aarch64.so.1,lib{c,m}.so.6,libdl.so.2,libpthread.so.0,librt.so.1} base/usr/lib/aarch64-linux-gnu/
container=$(buildah from scratch)
buildah copy -q "$container" base / >/dev/null
buildah config --arch arm64 "$container"
buildah commit -q "$container" localhost/base-arm64 >/dev/null
buildah rm "$container" >/dev/null
buildah manifest create localhost/bases localhost/base localhost/base-arm64 >/dev/null
PLATFORMS=linux/amd64,linux/arm64 \
    IMAGE_ARGS="--pull=never --build-arg CUDA=$cuda --build-arg BUILDER=localhost/base --build-arg DEPS_DIR=/mnt/deps --volume $PWD/deps:/mnt/deps:rw" \
    tree/env/image.sh both localhost/bases >both.txt 2>&1 || { tail -n 40 both.txt >&2; fail "the images for both machines do not build"; }
for image in repro:both repro:both-cuda; do
    buildah manifest inspect "$image" >list.json
    [ "$(jq -r '[.manifests[].platform.architecture] | sort | join(" ")' list.json)" = "amd64 arm64" ] ||
        { cat list.json >&2; fail "other machines are in the list $image"; }
    container=$(buildah from --pull=never --arch arm64 "localhost/$image")
    root=$(buildah mount "$container")
    in_image() { # ARGUMENT...: of the program, which finds /proc there, as in every container
        # shellcheck disable=SC2016 # for sh
        as_on_arm sh -ec 'mkdir -p "$0/proc" && mount --rbind /proc "$0/proc" && exec chroot "$0" /usr/local/bin/repro "$@"' "$root" "$@"
    }
    qemu-aarch64-static "$root/usr/local/bin/repro" version --json >version.json || fail "the program for 64-bit Arm does not start"
    jq -e --arg c "$commit" --arg cuda "$cuda" '.commit == $c and (.gpu_worker != null) == ($cuda == "1")' version.json >/dev/null ||
        fail "the program for 64-bit Arm: $(jq -c '[.commit, .gpu_worker != null]' version.json)"
    if in_image version >/dev/null 2>why.txt; then
        in_image capture --probe gpu --json >capture.json || fail "the program for 64-bit Arm in $image"
        case $image-$cuda in # without a glibc, with it
        *-0) ;;
        *:both-1) jq -e '.probes.gpu.worker.detail | contains("/lib/ld-linux-aarch64.so.1")' capture.json >/dev/null ;;
        *) jq -e '.probes.gpu.worker.value == "present"' capture.json >/dev/null ;;
        esac || fail "the GPU worker for 64-bit Arm in $image: $(jq -c .probes.gpu.worker capture.json)"
    else
        echo "not started in $image for 64-bit Arm: $(tail -n 1 why.txt)"
    fi
done
