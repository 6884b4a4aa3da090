#!/bin/bash
# Write the table of device code (src/backend/cuda/cuda.h): OUT.S with the bytes, OUT.c with the table, and print a line for each image:
# "sm_90 SHA256 BYTES", of its parts one after another as the driver gets them.
# usage: gen-images.sh OUT DIRECTORY ARCH... -- NAME...     DIRECTORY/ARCH/NAME and DIRECTORY/ARCH/NAME.zst are there
set -euo pipefail
out=$1 dir=$2
shift 2
archs=()
while [ "$1" != -- ]; do
    archs+=("$1")
    shift
done
shift
{
    echo '    .section .rodata'
    for arch in "${archs[@]}"; do
        for name; do
            printf '    .balign 16\n    .hidden rp_%s_%s\n    .globl rp_%s_%s\nrp_%s_%s:\n    .incbin "%s"\n' \
                "$arch" "$name" "$arch" "$name" "$arch" "$name" "$dir/$arch/$name.zst"
        done
    done
    echo '    .section .note.GNU-stack,"",@progbits'
} >"$out.S"
{
    printf '#include "backend/cuda/cuda.h"\n'
    for arch in "${archs[@]}"; do
        printf '\nextern const unsigned char'
        printf " rp_${arch}_%s[]" "$1"
        [ $# = 1 ] || printf ", rp_${arch}_%s[]" "${@:2}"
        printf ';\nstatic const struct rp_cuda_part parts_%s[] = {\n' "$arch"
        for name; do
            printf '    {"%s", rp_%s_%s, %s, %s},\n' "$name" "$arch" "$name" \
                "$(stat -c %s "$dir/$arch/$name.zst")" "$(stat -c %s "$dir/$arch/$name")"
        done
        printf '};\n'
    done
    printf '\nconst struct rp_cuda_image rp_cuda_images[] = {\n'
    for arch in "${archs[@]}"; do
        sum=$(cat "${@/#/$dir/$arch/}" | sha256sum | cut -d' ' -f1)
        printf '    {%s, %d, parts_%s, %d, "%s"},\n' "${arch#*_}" "$([ "${arch%_*}" = sm ])$?" "$arch" $# "$sum"
    done
    printf '};\nconst int rp_cuda_image_count = %d;\n' ${#archs[@]}
} >"$out.c"
for arch in "${archs[@]}"; do
    echo "$arch $(cat "${@/#/$dir/$arch/}" | sha256sum | cut -d' ' -f1) $(cat "${@/#/$dir/$arch/}" | wc -c)"
done
