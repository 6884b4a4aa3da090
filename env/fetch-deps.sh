#!/bin/bash
# Fetch the sources named by env/deps.lock.
#
#   env/fetch-deps.sh CACHE USED
#
# CACHE  directory of downloads; a file gets its name there only after its digest has been checked
# USED   written last, by rename: the lock's rows as they were really used, plus a seventh column with the pinned
#        version where a package has left the archive and its current version took its place
#
# Files come from CACHE, from $DEPS_MIRROR (a directory), or through apt from this machine's own Debian sources, read
# as source archives with a private apt state, so nothing of the machine changes and no privilege is needed.
# STRICT=1 refuses to fall forward. OFFLINE=1 refuses to use the network. DEPS_LOCK names another lock file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lock=${DEPS_LOCK:-$here/deps.lock}
mkdir -p "$1"
cache=$(cd "$1" && pwd)
used=$2
tmp=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

die() {
    echo "fetch-deps: $*" >&2
    exit 1
}

digest_is() { # FILE SHA256
    [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

# Prints the options of an apt that sees this machine's sources as source archives. The index is read once per run.
apt_options=
apt_open() {
    [ -z "$apt_options" ] || return 0
    local a=$tmp/apt f found=
    [ -z "${OFFLINE:-}" ] || die "a source is missing in $cache and OFFLINE is set"
    command -v apt-get >/dev/null || die "no apt-get here: put the files of $lock into a directory and name it in DEPS_MIRROR"
    mkdir -p "$a/list" "$a/state/partial" "$a/cache/archives/partial"
    for f in /etc/apt/sources.list.d/*.sources; do
        [ -f "$f" ] && sed -E 's/^Types:.*/Types: deb-src/' "$f" >"$a/list/${f##*/}" && found=1
    done
    for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$f" ] && sed -nE 's/^deb(-src)?[ \t]+/deb-src /p' "$f" | sort -u >"$a/list/${f##*/}" && found=1
    done
    [ -n "$found" ] || die "apt has no sources configured on this machine"
    apt_options="-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$a/list -o Dir::State::Lists=$a/state
        -o Dir::Cache=$a/cache -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Acquire::Languages=none"
    # A foreign repository without sources makes this fail; what matters is whether the packages are found below.
    # shellcheck disable=SC2086
    apt-get $apt_options -qq update >"$tmp/apt.log" 2>&1 || true
}

# Download one kind (tar or diff) of one version into $tmp/got; prints the file's path.
apt_get() { # PACKAGE VERSION KIND
    local f
    rm -rf "$tmp/got"
    mkdir "$tmp/got"
    # shellcheck disable=SC2086
    (cd "$tmp/got" && apt-get $apt_options -qq source --download-only "--$3-only" "$1=$2") >"$tmp/apt.log" 2>&1 || return 1
    for f in "$tmp"/got/*; do
        case $3:${f##*/} in
        *.asc | *.dsc) ;;
        tar:*.orig.tar.*) echo "$f" && return 0 ;;
        diff:*.debian.tar.* | diff:*.diff.gz) echo "$f" && return 0 ;;
        esac
    done
    return 1
}

keep() { # FILE: into the cache under its own name, whole or not at all
    mv -f "$1" "$cache/.new.$$" && mv -f "$cache/.new.$$" "$cache/${1##*/}"
}

fetch_pinned() { # PACKAGE VERSION KIND FILE SHA256
    local got
    digest_is "$cache/$4" "$5" && return 0
    if [ -n "${DEPS_MIRROR:-}" ] && digest_is "$DEPS_MIRROR/$4" "$5"; then
        cp "$DEPS_MIRROR/$4" "$tmp/$4" && keep "$tmp/$4"
        return 0
    fi
    apt_open
    got=$(apt_get "$1" "$2" "$3") || return 1
    digest_is "$got" "$5" || die "$4 has another digest than $lock says (expected sha256 $5): refusing it"
    keep "$got"
}

versions() { # PACKAGE: what the archive has, newest first
    # shellcheck disable=SC2086
    apt-cache $apt_options showsrc --only-source "$1" 2>/dev/null | sed -n 's/^Version: //p' | sort -ruV
}

# The pinned version has left the archive: take the newest one that really downloads. apt checks its digests against
# the signed index; the rows written here record them.
fall_forward() { # PACKAGE PINNED KINDS
    local pkg=$1 pinned=$2 kinds=$3 v kind got rows
    apt_open
    for v in $(versions "$pkg"); do
        [ "$v" != "$pinned" ] || continue
        rows=
        for kind in tar diff; do
            if got=$(apt_get "$pkg" "$v" $kind); then
                rows+=$(printf '%s\t%s\t%s\t%s\t%s\t%s\t%s' "$pkg" "$v" $kind "${got##*/}" \
                    "$(sha256sum <"$got" | cut -d' ' -f1)" "$(stat -c %s "$got")" "$pinned")$'\n'
                keep "$got"
            elif [[ $kinds = *" $kind "* ]]; then
                continue 2
            fi
        done
        echo "fetch-deps: $pkg $pinned has left the archive; using its current version $v" >&2
        printf '%s' "$rows" >>"$tmp/used"
        return 0
    done
    sed 's/^/  /' "$tmp/apt.log" >&2
    die "cannot download $pkg $pinned, nor any other version: is the network reachable? (else name a directory with its files in DEPS_MIRROR)"
}

rows=$(grep -v '^#' "$lock") || die "no rows in $lock"
: >"$tmp/used"
for pkg in $(cut -f1 <<<"$rows" | uniq); do
    kinds=" "
    gone=
    while IFS=$'\t' read -r _ pinned kind file sha _; do
        version=$pinned
        kinds+="$kind "
        [ -n "$gone" ] || fetch_pinned "$pkg" "$version" "$kind" "$file" "$sha" || gone=1
    done < <(awk -F'\t' -v p="$pkg" '$1 == p' <<<"$rows")
    if [ -z "$gone" ]; then
        awk -F'\t' -v p="$pkg" '$1 == p' <<<"$rows" >>"$tmp/used"
    elif [ -n "${STRICT:-}" ]; then
        die "$pkg $version is not in the archive any more and STRICT is set: change $lock, or name a directory with its files in DEPS_MIRROR"
    else
        fall_forward "$pkg" "$version" "$kinds"
    fi
done
mv "$tmp/used" "$used.new.$$"
mv "$used.new.$$" "$used"
