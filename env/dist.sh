#!/bin/bash
# Make the files of a release from a built program: what `make dist` does.
#
#   env/dist.sh OUT PROGRAM DEPS_TXT VERSION COMMIT clean|dirty|unknown ARCH [VARIABLE=VALUE...]
#
# OUT        is replaced. In it, with NAME = repro-VERSION-linux-ARCH:
#              NAME, repro.1, repro.bash, repro.fish, _repro, LICENSES.txt   the program, and what it prints
#              NAME.spdx.json                   SBOM: what is linked, from DEPS_TXT
#              NAME.intoto.json                 provenance: an in-toto statement with a predicate of SLSA v1
#              SHA256SUMS                       of all of them
#            and with a key:
#              NAME.intoto.dsse.json            the statement in a signed DSSE envelope, instead of NAME.intoto.json
#              SHA256SUMS.minisig               as minisign writes it, without a time
#              minisign.pub, key.pem            the public key
# DEPS_TXT   lines "package version sha256 file" (BUILD/static/gen/deps.txt)
# VARIABLE   variables of make that change the program
# REPRO_KEY  the environment names an Ed25519 private key in PEM form: `repro key new`
#
# No time except SOURCE_DATE_EPOCH, and no path or host, goes into any file: the same program gives the same bytes.
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC
out=$1 program=$2 deps=$3 version=$4 commit=$5 state=$6 arch=$7
shift 7
name=repro-$version-linux-$arch
key=${REPRO_KEY:-}
run=("$program") # for another machine: in an emulator
[ "$arch" = "$(uname -m)" ] || run=("qemu-$arch-static" "$program")

die() {
    echo "dist: $*" >&2
    exit 1
}

# package, its relationship to the program in the words of SPDX, licence as an SPDX expression
licenses() {
    cat <<'END'
bzip2                     STATIC_LINK          bzip2-1.0.6
hwloc                     STATIC_LINK          BSD-3-Clause
http-parser               STATIC_LINK          MIT
jansson                   STATIC_LINK          MIT
libarchive                STATIC_LINK          BSD-2-Clause
libgcc                    STATIC_LINK          GPL-3.0-or-later WITH GCC-exception-3.1
libgit2                   STATIC_LINK          GPL-2.0-only WITH GCC-exception-2.0
libjpeg-turbo             STATIC_LINK          IJG AND BSD-3-Clause AND Zlib
libyaml                   STATIC_LINK          MIT
libzstd                   STATIC_LINK          BSD-3-Clause OR GPL-2.0-only
lz4                       STATIC_LINK          BSD-2-Clause
musl                      STATIC_LINK          MIT
openssl                   STATIC_LINK          Apache-2.0
xz-utils                  STATIC_LINK          LicenseRef-xz-public-domain
zlib                      STATIC_LINK          Zlib
nvidia-cuda-runtime-cu12  STATIC_LINK          LicenseRef-NVIDIA-CUDA-Toolkit
cuda-toolkit              STATIC_LINK          LicenseRef-NVIDIA-CUDA-Toolkit
nvidia-nvml-dev-cu12      BUILD_DEPENDENCY_OF  LicenseRef-NVIDIA-CUDA-Toolkit
nvidia-cuda-nvrtc-cu12    BUILD_TOOL_OF        LicenseRef-NVIDIA-CUDA-Toolkit
END
}

digest() { # FILE
    sha256sum <"$1" | cut -d' ' -f1
}

purl() { # PACKAGE VERSION
    local encoded=${2//+/%2B}
    case $1 in
    nvidia-*) echo "pkg:pypi/$1@$encoded" ;;
    cuda-toolkit) echo "pkg:generic/$1@$encoded" ;;
    libgcc) echo "pkg:deb/debian/gcc-12@$encoded?arch=source" ;;
    *) echo "pkg:deb/debian/$1@$encoded?arch=source" ;;
    esac
}

# Lines "package version sha256 file" of all that is linked or compiled with: DEPS_TXT and the compiler's own library.
inputs() {
    local gcc
    sed '/^fell-forward:/d' "$deps"
    gcc=$("${run[@]}" version | sed -n 's/^compiler *[a-z0-9_-]*gcc (Debian \([^)]*\)).*/\1/p')
    echo "libgcc ${gcc:-$("${CC:-gcc}" -dumpfullversion)} $(digest "$("${CC:-gcc}" -print-libgcc-file-name)") libgcc.a"
}

spdx_package() { # ID NAME VERSION LICENSE SHA256 FILE [PURL]
    printf '%s' "    {
      \"SPDXID\": \"SPDXRef-$1\",
      \"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"$5\"}],
      \"copyrightText\": \"NOASSERTION\",
      \"downloadLocation\": \"NOASSERTION\","
    [ -z "${7:-}" ] || printf '%s' "
      \"externalRefs\": [
        {\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceLocator\": \"$7\", \"referenceType\": \"purl\"}
      ],"
    printf '%s' "
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"NOASSERTION\",
      \"licenseDeclared\": \"$4\",
      \"name\": \"$2\",
      \"packageFileName\": \"$6\",
      \"versionInfo\": \"$3\"
    }"
}

# A package of Debian is two files, the original and Debian's patches, and so two packages of SPDX.
spdx() {
    local package version_of sha256 file known kind license id comma relations=''
    printf '%s\n' "{
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"creationInfo\": {
    \"created\": \"$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)\",
    \"creators\": [\"Tool: repro-make-dist-$version\"]
  },
  \"dataLicense\": \"CC0-1.0\",
  \"documentDescribes\": [\"SPDXRef-repro\"],
  \"documentNamespace\": \"urn:repro:sbom:$name:$(digest "$out/$name")\",
  \"hasExtractedLicensingInfos\": [
    {
      \"extractedText\": \"liblzma is in the public domain. 'repro version --licenses' prints the notice.\",
      \"licenseId\": \"LicenseRef-xz-public-domain\",
      \"name\": \"public domain notice of XZ Utils\"
    },
    {
      \"extractedText\": \"EULA of the NVIDIA CUDA Toolkit. 'repro version --licenses' prints it.\",
      \"licenseId\": \"LicenseRef-NVIDIA-CUDA-Toolkit\",
      \"name\": \"NVIDIA CUDA Toolkit EULA\"
    }
  ],
  \"name\": \"$name\",
  \"packages\": ["
    spdx_package repro repro "$version" Apache-2.0 "$(digest "$out/$name")" "$name"
    while read -r package version_of sha256 file; do
        known=$(licenses | grep "^$package ") || die "the licence of '$package' is not known: add it to env/dist.sh"
        # shellcheck disable=SC2086 # columns
        set -- $known
        kind=$2
        shift 2
        license=$*
        id=${package//[^a-z0-9]/-}
        printf ',\n'
        if [[ $file = *.debian.tar.* || $file = *.diff.* ]]; then
            spdx_package "$id-patches" "$package-debian-patches" "$version_of" "$license" "$sha256" "$file"
            relations+="|$id-patches PATCH_FOR $id"
        else
            spdx_package "$id" "$package" "$version_of" "$license" "$sha256" "$file" "$(purl "$package" "$version_of")"
            case $kind in
            *_OF) relations+="|$id $kind repro" ;;
            *) relations+="|repro $kind $id" ;;
            esac
        fi
    done < <(inputs)
    printf '\n  ],\n  "relationships": ['
    comma=
    tr '|' '\n' <<<"DOCUMENT DESCRIBES repro$relations" | while read -r package kind id; do
        printf '%s\n    {"relatedSpdxElement": "SPDXRef-%s", ' "$comma" "$id"
        printf '"relationshipType": "%s", "spdxElementId": "SPDXRef-%s"}' "$kind" "$package"
        comma=,
    done
    printf '\n  ],\n  "spdxVersion": "SPDX-2.3"\n}\n'
}

# Building the commit again with these variables, dependencies and compiler gives the same files.
provenance() { # VARIABLE=VALUE...
    local file comma='' variable package version_of sha256
    printf '{\n  "_type": "https://in-toto.io/Statement/v1",\n  "predicate": {\n    "buildDefinition": {\n'
    printf '      "buildType": "urn:repro:make-dist:1",\n'
    printf '      "externalParameters": {"commit": "%s", "tree": "%s", "variables": {' "$commit" "$state"
    for variable; do
        printf '%s"%s": "%s"' "$comma" "${variable%%=*}" "${variable#*=}"
        comma=', '
    done
    printf '}},\n      "internalParameters": {"compiler": "%s", "source_date_epoch": %s},\n' \
        "$("${run[@]}" version | sed -n 's/^compiler *//p')" "$SOURCE_DATE_EPOCH"
    printf '      "resolvedDependencies": [\n'
    printf '        {"digest": {"gitCommit": "%s"}, "name": "repro"}' "$commit"
    while read -r package version_of sha256 file; do
        printf ',\n        {"digest": {"sha256": "%s"}, "name": "%s", "uri": "%s"}' \
            "$sha256" "$file" "$(purl "$package" "$version_of")"
    done < <(inputs)
    printf '\n      ]\n    },\n'
    printf '    "runDetails": {"builder": {"id": "urn:repro:make-dist", "version": {"repro": "%s"}}}\n  },\n' "$version"
    printf '  "predicateType": "https://slsa.dev/provenance/v1",\n  "subject": [\n'
    comma=
    for file in "$out"/*; do
        printf '%s    {"digest": {"sha256": "%s"}, "name": "%s"}' "$comma" "$(digest "$file")" "${file##*/}"
        comma=$',\n'
    done
    printf '\n  ]\n}\n'
}

sign() { # FILE: 64 bytes to stdout
    openssl pkeyutl -sign -inkey "$key" -rawin -in "$1"
}

# DSSE v1, in the form that bundles have.
envelope() { # STATEMENT
    local type=application/vnd.in-toto+json
    { printf 'DSSEv1 %d %s %d ' ${#type} $type "$(stat -c %s "$1")" && cat "$1"; } >"$tmp/pae"
    printf '{\n  "payload": "%s",\n  "payloadType": "%s",\n' "$(base64 -w0 <"$1")" "$type"
    printf '  "signatures": [\n    {\n      "keyid": "%s",\n      "sig": "%s"\n    }\n  ]\n}\n' \
        "$("${run[@]}" key show "$key" | grep -o -m1 'SHA256:[0-9a-f]*')" "$(sign "$tmp/pae" | base64 -w0)"
}

# "ED": of the BLAKE2b-512 of the file; the number of the key stands in the public key.
minisign() { # FILE
    local comment
    comment="file:${1##*/}"$'\t'hashed
    openssl dgst -blake2b512 -binary "$1" >"$tmp/digest"
    sign "$tmp/digest" >"$tmp/sig"
    { cat "$tmp/sig" && printf '%s' "$comment"; } >"$tmp/both"
    echo "untrusted comment: signature of $name"
    {
        printf ED
        sed -n 2p "$out/minisign.pub" | base64 -d | head -c 10 | tail -c 8
        cat "$tmp/sig"
    } | base64 -w0
    printf '\ntrusted comment: %s\n' "$comment"
    sign "$tmp/both" | base64 -w0
    echo
}

[ -z "$key" ] || command -v openssl >/dev/null || die "openssl is not installed: it signs with $key"
[ -z "$key" ] || [ -r "$key" ] || die "REPRO_KEY names '$key', which cannot be read"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rm -rf "$out"
mkdir -p "$out"
install -m 755 "$program" "$out/$name"
"${run[@]}" help --man >"$out/repro.1"
"${run[@]}" help --completion bash >"$out/repro.bash"
"${run[@]}" help --completion fish >"$out/repro.fish"
"${run[@]}" help --completion zsh >"$out/_repro"
"${run[@]}" version --licenses >"$out/LICENSES.txt"
spdx >"$out/$name.spdx.json"
provenance "$@" >"$tmp/statement.json"
if [ -n "$key" ]; then
    "${run[@]}" key show "$key" --form pem >"$out/key.pem"
    "${run[@]}" key show "$key" --form minisign >"$out/minisign.pub"
    envelope "$tmp/statement.json" >"$out/$name.intoto.dsse.json"
else
    cp "$tmp/statement.json" "$out/$name.intoto.json"
fi
(cd "$out" && sha256sum -- *) >"$tmp/SHA256SUMS"
mv "$tmp/SHA256SUMS" "$out/SHA256SUMS"
if [ -n "$key" ]; then
    minisign "$out/SHA256SUMS" >"$out/SHA256SUMS.minisig"
    echo "dist: signed by $(sed -n 's/.*"keyid": "\(.*\)",/\1/p' "$out/$name.intoto.dsse.json")"
else
    echo "dist: not signed: REPRO_KEY names no key"
fi
[ "$state" = clean ] || echo "dist: not a release: the sources are not a clean commit but '$state'"
sed -n 's/^fell-forward: /dist: not the pinned version: /p' "$deps"
