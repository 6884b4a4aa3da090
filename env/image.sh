#!/bin/bash
# Build the container images of the Dockerfile with docker, or with buildah where there is no docker daemon.
#
#   env/image.sh VERSION [BASE]      makes repro:VERSION (scratch) and repro:VERSION-cuda (on BASE)
#
# TARGETS="scratch cuda" names others; IMAGE_ARGS is given to the tool (for example --build-arg BUILDER=...).
# PLATFORMS=linux/amd64,linux/arm64 makes each a manifest list of both; docker needs its containerd image store for it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
base=${2:-}
git() { command git -c safe.directory='*' "$@"; }
commit=$(git rev-parse HEAD 2>/dev/null || sed -n 's/^\([0-9a-f]\{40\}\) .*/\1/p' env/commit)
dirty=unknown
if git rev-parse HEAD >/dev/null 2>&1; then
    dirty=clean
    [ -z "$(git status --porcelain -- src env recipes results/published Makefile)" ] || dirty=dirty
fi
if docker info >/dev/null 2>&1; then
    tool="docker build"
elif command -v buildah >/dev/null; then
    tool="buildah build --format oci --layers" # both images come from one build
    # Inside a container there is no right to make another: chroot is enough to run make.
    export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
else
    echo "image: neither a docker daemon nor buildah here; install buildah" >&2
    exit 1
fi
for target in ${TARGETS:-scratch cuda}; do
    case $target in
    scratch) stage=scratch-image tag=repro:$version ;;
    *) stage=$target tag=repro:$version-$target ;;
    esac
    name=(-t "$tag")
    if [ -n "${PLATFORMS:-}" ]; then
        name=(--platform "$PLATFORMS" "${name[@]}")
        if [ "${tool%% *}" = buildah ]; then
            buildah manifest rm "$tag" >/dev/null 2>&1 || buildah rmi "$tag" >/dev/null 2>&1 || : # a list would get longer
            name=(--platform "$PLATFORMS" --manifest "$tag" --build-arg "BUILDPLATFORM=$(buildah info --format '{{.host.os}}/{{.host.arch}}')")
        fi
    fi
    # shellcheck disable=SC2086
    $tool --target "$stage" "${name[@]}" --build-arg VERSION="$version" --build-arg COMMIT="${commit:-unknown}" \
        --build-arg DIRTY="$dirty" ${base:+--build-arg BASE="$base"} ${IMAGE_ARGS:-} .
    echo "  IMAGE   $tag"
done
