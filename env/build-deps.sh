#!/bin/bash
# Build what the static program is linked from, against musl, into a sysroot.
#
#   env/build-deps.sh DEPS_DIR
#
# DEPS_DIR/cache            verified downloads
# DEPS_DIR/KEY/used.lock    the sources that were really used (env/fetch-deps.sh)
# DEPS_DIR/KEY/part/NAME    one finished dependency: include/ lib/ licenses/, src/ of what repro-gpu needs too
# DEPS_DIR/KEY/sysroot      all of them together, with sources.txt for the build record and LICENSES.txt
# DEPS_DIR/KEY/log/NAME.log
#
# A part is built in a temporary directory and gets its name by rename, and so does the sysroot: what has its name is
# whole, whatever was killed in between, and a later call resumes with the first part that is missing. KEY
# (env/deps-key.sh) covers the lock, this file and the compiler, so several checkouts and machines may share DEPS_DIR:
# what is built for is the machine of the compiler, RP_GCC.
#
# To add a dependency: its rows in deps.lock, a build_NAME function, NAME in one of the two lanes at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
deps=$(cd "$1" && pwd)
key=$("$here/deps-key.sh")
top=$deps/$key
jobs=${JOBS:-$(nproc)}
sysroot=$top/sysroot
target=$("${RP_GCC:-gcc}" -dumpmachine)
machine=${target%%-*} # x86_64, aarch64
builder=$(uname -m)
tools= # the prefix of binutils
[ "$machine" = "$builder" ] || tools=$target-

refuse_forward() {
    local line
    [ -n "${STRICT:-}" ] || return 0
    line=$(awk -F'\t' 'NF > 6 && $7 != "" {print $1 " " $7 " -> " $2; exit}' "$1")
    [ -z "$line" ] && return 0
    echo "build-deps: a pinned version had left the archive ($line) and STRICT is set" >&2
    exit 1
}

if [ -d "$sysroot" ]; then
    refuse_forward "$top/used.lock"
    exit 0
fi
mkdir -p "$top/part" "$top/log"
exec 9>"$deps/.lock"
flock -n 9 || { echo "waiting for another build of the dependencies in $deps" && flock 9; }
[ ! -d "$sysroot" ] || exit 0
rm -rf "$top"/tmp.*
"$here/fetch-deps.sh" "$deps/cache" "$top/used.lock"
tmp=$(mktemp -d "$top/tmp.XXXXXX")
stage=$tmp/sysroot # what is finished so far: the compiler's sysroot while the rest is built
mkdir -p "$stage/include" "$stage/lib" "$stage/uapi" "$stage/licenses"

export RP_SYSROOT=$stage PATH=$here:$PATH
export SOURCE_DATE_EPOCH=1700000000 LC_ALL=C TZ=UTC PKG_CONFIG_LIBDIR=/nonexistent
unset CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKELEVEL CONFIG_SITE
# musl has no checked string functions and Debian 12 no package of headers that would add them (fortify-headers), so
# _FORTIFY_SOURCE would be a flag without effect; it is left out here and in the Makefile.
cflags="-O2 -fPIE -fstack-protector-strong -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables"
cflags+=" -w"
for_machine=("--host=$machine-linux-musl" "--build=$builder-linux-gnu" "AR=${tools}ar" "RANLIB=${tools}ranlib" "STRIP=${tools}strip")
export RP_PREFIX=$tmp # not a flag: OpenSSL keeps its command line in the library

source_file() { # PACKAGE KIND
    awk -F'\t' -v p="$1" -v k="$2" '$1 == p && $3 == k {print $4}' "$top/used.lock"
}

unpack() { # PACKAGE: its sources, patched, in the current directory
    local diff patch f
    tar xf "$deps/cache/$(source_file "$1" tar)" --strip-components=1 --no-same-owner
    diff=$(source_file "$1" diff)
    if [ -n "$diff" ]; then
        tar xf "$deps/cache/$diff" --no-same-owner
        if [ -f debian/patches/series ]; then
            while read -r patch _; do
                case $patch in '' | \#*) continue ;; esac
                patch -p1 -s -f --no-backup-if-mismatch <"debian/patches/$patch"
            done <debian/patches/series
        fi
    fi
    # A patch may have touched configure.ac: keep make from asking for autotools.
    for f in aclocal.m4 configure config.h.in; do
        [ ! -f $f ] || touch -d '+1 sec' $f
    done
    find . -name Makefile.in -exec touch -d '+2 sec' {} +
}

compile() { # LIBRARY "FLAGS" FILE...: FILE... into $part/lib/LIBRARY
    local lib=$1 flags=$2
    shift 2
    mkdir -p objects # what build_NAME has put there becomes part of the library
    # shellcheck disable=SC2016
    printf '%s\n' "$@" | xargs -P "$jobs" -I {} sh -c 'repro-cc $0 -c "$1" -o "objects/$(echo "$1" | tr / _).o"' "$cflags $flags" {}
    (cd objects && LC_ALL=C "${tools}ar" rcsD "$part/lib/$lib" ./*.o)
}

headers() { cp -r "$@" "$part/include/"; }
library() { cp "$1" "$part/lib/"; }
notice() { # NAME FILE...
    local name=$1
    shift
    cat "$@" >"$part/licenses/$name"
}

build_uapi() { # the kernel's headers, which musl leaves to the distribution
    mkdir -p "$part/uapi"
    local from=/usr/include asm=/usr/include/$target/asm
    [ -z "$tools" ] || from=/usr/$target/include asm=/usr/$target/include/asm
    cp -r "$from/linux" "$from/asm-generic" "$part/uapi/"
    cp -r "$asm" "$part/uapi/asm"
    # libgcc is part of every program gcc links.
    local f
    for f in /usr/share/doc/gcc-*-base/copyright; do
        [ ! -f "$f" ] || notice libgcc "$f"
    done
}

build_musl() {
    unpack musl
    CC=${RP_GCC:-gcc} CFLAGS="-ffile-prefix-map=$tmp=." CROSS_COMPILE=$tools \
        ./configure --prefix="$part" --disable-shared --disable-wrapper --enable-optimize >/dev/null
    make -s -j"$jobs" install-libs install-headers
    notice musl COPYRIGHT
}

build_openssl() { # libcrypto: digests, Ed25519, key files; libssl: TLS 1.3 between ranks (no-psk is about older versions)
    unpack openssl
    # shellcheck disable=SC2086
    CC=repro-cc AR=${tools}ar RANLIB=${tools}ranlib perl Configure "linux-$machine" --prefix=/usr --libdir=lib --openssldir=/etc/ssl \
        no-shared no-dso no-engine no-async \
        no-afalgeng no-tests no-makedepend no-legacy no-module no-ui-console no-ssl3 no-tls1 no-tls1_1 no-tls1_2 no-dtls no-comp no-cmp no-cms \
        no-ct no-srp no-psk no-gost no-idea no-md4 no-mdc2 no-rc2 no-rc4 no-rc5 no-rmd160 no-seed no-camellia \
        no-aria no-bf no-cast no-des no-dsa no-whirlpool no-sm2 no-sm3 no-sm4 no-siv no-srtp no-sctp no-ec2m no-rfc3779 \
        no-nextprotoneg no-ocb no-ocsp no-sock $cflags >/dev/null
    make -s build_generated >/dev/null
    make -s -j"$jobs" libcrypto.a libssl.a
    library libcrypto.a
    library libssl.a
    headers include/openssl
    notice openssl LICENSE.txt
}

build_zlib() {
    unpack zlib
    compile libz.a "-DHAVE_UNISTD_H -DHAVE_STDARG_H -DHAVE_HIDDEN -D_LARGEFILE64_SOURCE=1" adler32.c crc32.c deflate.c infback.c \
        inffast.c inflate.c inftrees.c trees.c zutil.c compress.c uncompr.c gzclose.c gzlib.c gzread.c gzwrite.c
    headers zlib.h zconf.h
    notice zlib LICENSE
}

build_zstd() {
    unpack libzstd
    compile libzstd.a "-DXXH_NAMESPACE=ZSTD_ -DZSTD_LEGACY_SUPPORT=0 -DDEBUGLEVEL=0 -DZSTD_MULTITHREAD" \
        lib/common/*.c lib/compress/*.c lib/decompress/*.c lib/decompress/*.S
    headers lib/zstd.h lib/zstd_errors.h
    notice zstd LICENSE
}

build_xz() {
    unpack xz-utils
    ./configure -q "${for_machine[@]}" --prefix=/usr --disable-shared --disable-xz \
        --disable-xzdec --disable-lzmadec --disable-lzmainfo --disable-lzma-links --disable-scripts --disable-doc \
        --disable-nls CC=repro-cc CFLAGS="$cflags"
    make -s -j"$jobs" -C src/liblzma
    library src/liblzma/.libs/liblzma.a
    headers src/liblzma/api/lzma.h src/liblzma/api/lzma
    notice xz COPYING
}

build_lz4() {
    unpack lz4
    compile liblz4.a "-DXXH_NAMESPACE=LZ4_" lib/*.c
    headers lib/lz4.h lib/lz4hc.h lib/lz4frame.h
    notice lz4 lib/LICENSE
}

build_bzip2() {
    unpack bzip2
    compile libbz2.a "-D_FILE_OFFSET_BITS=64" blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c
    headers bzlib.h
    notice bzip2 LICENSE
}

build_libarchive() { # what src/data/archive*.c call: reading tar and zip, writing ustar, with five compressions
    unpack libarchive
    ./configure -q "${for_machine[@]}" --prefix=/usr --disable-shared --enable-static \
        --disable-bsdtar --disable-bsdcpio --disable-bsdcat --disable-acl --disable-xattr --without-xml2 --without-expat \
        --without-openssl --without-nettle --without-mbedtls --without-libb2 --without-iconv --with-zlib --with-zstd \
        --with-lzma --with-bz2lib --with-lz4 --disable-dependency-tracking CC=repro-cc CFLAGS="$cflags" LDFLAGS="-static -L$stage/lib"
    # archive_write_set_format.c refers to every format, in a function that is never called: the linker drops it.
    compile libarchive.a "-DHAVE_CONFIG_H -I." libarchive/xxhash.c libarchive/archive_{acl,check_magic,cryptor,hmac,options,ppmd8,rb,util,virtual}.c \
        libarchive/archive_{entry,entry_sparse,entry_xattr,string,string_sprintf}.c \
        libarchive/archive_read{,_add_passphrase,_open_fd,_open_memory,_support_format_tar,_support_format_zip}.c \
        libarchive/archive_write{,_set_format,_set_format_ustar,_set_options}.c \
        libarchive/archive_{read_support,write_add}_filter_{bzip2,gzip,lz4,xz,zstd}.c
    headers libarchive/archive.h libarchive/archive_entry.h
    notice libarchive COPYING
}

build_jansson() {
    unpack jansson
    sed -e 's/@json_inline@/inline/' -e 's/@json_have_\(long_long\|localeconv\|atomic_builtins\|sync_builtins\)@/1/' \
        src/jansson_config.h.in >src/jansson_config.h
    if grep '@json_' src/jansson_config.h; then
        return 1 # an option this list does not know
    fi
    local f
    for f in HAVE_STDINT_H HAVE_ENDIAN_H HAVE_FCNTL_H HAVE_SCHED_H HAVE_UNISTD_H HAVE_SYS_PARAM_H HAVE_SYS_STAT_H \
        HAVE_SYS_TIME_H HAVE_SYS_TYPES_H HAVE_CLOSE HAVE_GETPID HAVE_GETTIMEOFDAY HAVE_OPEN HAVE_READ HAVE_SCHED_YIELD \
        HAVE_ATOMIC_BUILTINS HAVE_LOCALE_H HAVE_SETLOCALE USE_URANDOM; do
        echo "#define $f 1"
    done >src/jansson_private_config.h
    echo "#define INITIAL_HASHTABLE_ORDER 3" >>src/jansson_private_config.h
    compile libjansson.a "-DHAVE_CONFIG_H -Isrc" src/*.c
    mkdir -p "$part/src/jansson" # repro-gpu compiles it once more, against glibc
    cp src/*.[ch] "$part/src/jansson/"
    headers src/jansson.h src/jansson_config.h
    notice jansson LICENSE
}

build_yaml() {
    unpack libyaml
    local v
    v=$(sed -n 's/^m4_define(\[YAML_\(MAJOR\|MINOR\|PATCH\)\], *\([0-9]*\))/\2/p' configure.ac | paste -sd' ')
    # shellcheck disable=SC2086
    set -- $v
    printf '#define YAML_VERSION_MAJOR %d\n#define YAML_VERSION_MINOR %d\n#define YAML_VERSION_PATCH %d\n#define YAML_VERSION_STRING "%d.%d.%d"\n' \
        "$1" "$2" "$3" "$1" "$2" "$3" >include/config.h
    compile libyaml.a "-Iinclude -DHAVE_CONFIG_H" src/*.c
    headers include/yaml.h
    notice libyaml License
}

build_http_parser() { # only libgit2 needs it
    unpack http-parser
    compile libhttp_parser.a "-DHTTP_PARSER_STRICT=1" http_parser.c
    headers http_parser.h
    notice http-parser LICENSE-MIT
}

build_libgit2() { # commits and dirty state of local repositories: no https, ssh, ntlm, iconv
    unpack libgit2
    local have="THREADS ARCH_64 USE_NSEC USE_STAT_MTIM USE_FUTIMENS REGEX_REGCOMP SHA1_COLLISIONDETECT SHA256_BUILTIN
        RAND_GETENTROPY RAND_GETLOADAVG" f
    mkdir -p config/git2/sys
    for f in $have; do
        grep -q "cmakedefine GIT_$f\b" src/features.h.in || return 1 # renamed upstream: this list must follow
        echo "#define GIT_$f 1"
    done >config/git2/sys/features.h
    compile libgit2.a "-std=gnu90 -D_GNU_SOURCE -Iinclude -Iconfig -Isrc/util -Isrc/libgit2 -DSHA1DC_NO_STANDARD_INCLUDES=1
        -DSHA1DC_CUSTOM_INCLUDE_SHA1_C=\"git2_util.h\" -DSHA1DC_CUSTOM_INCLUDE_UBC_CHECK_C=\"git2_util.h\"" \
        src/util/*.c src/util/allocators/*.c src/util/unix/*.c src/util/hash/collisiondetect.c src/util/hash/sha1dc/*.c \
        src/util/hash/builtin.c src/util/hash/rfc6234/*.c src/libgit2/*.c src/libgit2/streams/*.c \
        src/libgit2/transports/*.c src/libgit2/xdiff/*.c
    headers include/git2.h include/git2
    notice libgit2 COPYING
}

build_hwloc() { # processors, caches, memory and PCI devices from /sys: no plugins, no cpuid, no library of a vendor
    unpack hwloc
    ./configure -q "${for_machine[@]}" --prefix=/usr --disable-shared --enable-static \
        --disable-libxml2 --disable-pci --disable-libudev --disable-cuda --disable-nvml --disable-rsmi --disable-levelzero \
        --disable-opencl --disable-gl --disable-cairo --disable-cpuid --disable-dependency-tracking CC=repro-cc CFLAGS="$cflags"
    make -s -j"$jobs" -C hwloc libhwloc.la
    library hwloc/.libs/libhwloc.a
    mkdir -p "$part/include/hwloc/autogen"
    headers include/hwloc.h
    local f
    for f in autogen/config.h bitmap.h cpukinds.h deprecated.h diff.h distances.h export.h helper.h inlines.h memattrs.h rename.h; do
        cp include/hwloc/$f "$part/include/hwloc/$f"
    done
    notice hwloc COPYING
}

build_jpeg() { # libjpeg-turbo, on x86-64 with its assembly; the coders of both entropy methods, as Debian's
    unpack libjpeg-turbo
    local v f simd=jsimd_none.c
    v=$(sed -n 's/^set(VERSION \([0-9.]*\))/\1/p' CMakeLists.txt)
    sed -e 's/@JPEG_LIB_VERSION@/62/' -e "s/@VERSION@/$v/" -e 's/@BITS_IN_JSAMPLE@/8/' \
        -e "s/@LIBJPEG_TURBO_VERSION_NUMBER@/$(echo "$v" | awk -F. '{printf "%d%03d%03d", $1, $2, $3}')/" \
        -e '/RIGHT_SHIFT_IS_UNSIGNED/d' -e 's/^#cmakedefine /#define /' jconfig.h.in >jconfig.h
    sed -e 's/@BUILD@/0/' -e 's/@INLINE@/__inline__ __attribute__((always_inline))/' -e 's/@THREAD_LOCAL@/__thread/' \
        -e 's/@CMAKE_PROJECT_NAME@/libjpeg-turbo/' -e "s/@VERSION@/$v/" -e 's/@SIZE_T@/8/' -e '/HAVE_INTRIN_H$/d' \
        -e 's/^#cmakedefine HAVE_BUILTIN_CTZL/&  1/' -e 's/^#cmakedefine /#define /' jconfigint.h.in >jconfigint.h
    sed 's/@COPYRIGHT_YEAR@/2009-2023/' jversion.h.in >jversion.h
    if grep '^#.*@\|cmakedefine' jconfig.h jconfigint.h; then
        return 1 # an option this list does not know
    fi
    mkdir objects
    if [ "$machine" = x86_64 ]; then
        simd=simd/x86_64/jsimd.c
        for f in simd/x86_64/*.asm; do
            case $f in *ext-*) continue ;; esac # included by the others
            nasm -f elf64 -DELF -D__x86_64__ -DPIC -Isimd/nasm/ -Isimd/x86_64/ "$f" -o "objects/$(basename "$f").o"
        done
    fi
    # shellcheck disable=SC2046
    compile libjpeg.a "-I. -Isimd" "$simd" \
        $(sed -n '/^set(JPEG_SOURCES/,/)$/p' CMakeLists.txt | sed '/\${/,$d' | grep -o '[a-z0-9]*\.c') jaricom.c jcarith.c jdarith.c
    headers jpeglib.h jconfig.h jmorecfg.h jerror.h
    notice libjpeg-turbo LICENSE.md README.ijg
}

# Build NAME unless it is there, then add it to the stage. Runs in a subshell of its own, so that `set -e` counts.
part() { # NAME
    local name=$1
    if [ ! -d "$top/part/$name" ]; then
        part=$tmp/out.$name
        mkdir -p "$part/lib" "$part/include" "$part/licenses" "$tmp/work.$name"
        cd "$tmp/work.$name"
        "build_$name"
        mv "$part" "$top/part/$name"
        rm -rf "$tmp/work.$name"
    fi
    cp -rl "$top/part/$name/." "$stage/"
}

lane() { # NAME...: one after the other
    local name start
    for name; do
        start=$SECONDS
        # No `||` here: it would switch `set -e` off inside.
        (part "$name") >"$top/log/$name.log" 2>&1 &
        if ! wait $!; then
            tail -n 30 "$top/log/$name.log" >&2
            echo "build-deps: $name failed; the whole log is $top/log/$name.log" >&2
            return 1
        fi
        echo "  DEP     $name ($((SECONDS - start)) s)"
    done
}

lane uapi musl
# Two lanes: OpenSSL takes as long as all others together, and their configure scripts leave a core idle.
lane openssl &
first=$!
lane zlib zstd xz lz4 bzip2 libarchive jansson yaml http_parser libgit2 hwloc jpeg &
second=$!
failed=0
wait $first || failed=1
wait $second || failed=1
[ $failed = 0 ] || exit 1

awk -F'\t' '{print $1, $2, $5, $4} NF > 6 && $7 != "" && !seen[$1]++ {forward[++n] = "fell-forward: " $1 " " $7 " -> " $2}
    END {for (i = 1; i <= n; i++) print forward[i]}' "$top/used.lock" >"$stage/sources.txt"
for f in "$stage"/licenses/*; do
    printf '%s\n==== %s ====\n\n' "" "$(basename "$f")"
    cat "$f"
done >"$stage/LICENSES.txt"
mv "$stage" "$sysroot"
rm -rf "$tmp"
echo "  DEPS    $sysroot"
