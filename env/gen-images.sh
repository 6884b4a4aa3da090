#!/bin/bash
# Write the table of device code (src/backend/cuda/inner.h): OUT.S with the bytes, OUT.c with the table, and print a line for each image:
# "sm_90 SHA256 BYTES", of its parts one after another as the driver gets them.
# usage: gen-images.sh OUT DIRECTORY ARCH... -- NAME... -- MORE...     DIRECTORY/ARCH/NAME and DIRECTORY/ARCH/NAME.zst are there.
# An ARCH that ends with a, sm_90a, has the parts MORE, which are loaded besides those of another image.
set -euo pipefail
out=$1 dir=$2
shift 2
archs=() all=() more=()
while [ "$1" != -- ]; do
    archs+=("$1")
    shift
done
shift
while [ "$1" != -- ]; do
    all+=("$1")
    shift
done
shift
more=("$@")
choose() { # ARCH: sets `parts`
    parts=("${all[@]}")
    [ "${1%a}" = "$1" ] || parts=("${more[@]}")
}
{
    echo '    .section .rodata'
    for arch in "${archs[@]}"; do
        choose "$arch"
        for name in "${parts[@]}"; do
            printf '    .balign 16\n    .hidden rp_%s_%s\n    .globl rp_%s_%s\nrp_%s_%s:\n    .incbin "%s"\n' \
                "$arch" "$name" "$arch" "$name" "$arch" "$name" "$dir/$arch/$name.zst"
        done
    done
    echo '    .section .note.GNU-stack,"",@progbits'
} >"$out.S"
{
    printf '#include "backend/cuda/inner.h"\n'
    for arch in "${archs[@]}"; do
        choose "$arch"
        printf '\nextern const unsigned char'
        printf " rp_${arch}_%s[]" "${parts[0]}"
        [ ${#parts[@]} = 1 ] || printf ", rp_${arch}_%s[]" "${parts[@]:1}"
        printf ';\nstatic const struct rp_cuda_part parts_%s[] = {\n' "$arch"
        for name in "${parts[@]}"; do
            printf '    {"%s", rp_%s_%s, %s, %s},\n' "$name" "$arch" "$name" \
                "$(stat -c %s "$dir/$arch/$name.zst")" "$(stat -c %s "$dir/$arch/$name")"
        done
        printf '};\n'
    done
    printf '\nconst struct rp_cuda_image rp_cuda_images[] = {\n'
    for arch in "${archs[@]}"; do
        choose "$arch"
        number=${arch#*_}
        sum=$(cat "${parts[@]/#/$dir/$arch/}" | sha256sum | cut -d' ' -f1)
        printf '    {%s, %d, parts_%s, %d, "%s", %d},\n' "${number%a}" "$([ "${arch%_*}" = sm ])$?" "$arch" ${#parts[@]} "$sum" \
            "$([ "${arch%a}" = "$arch" ])$?"
    done
    printf '};\nconst int rp_cuda_image_count = %d;\n' ${#archs[@]}
} >"$out.c"
for arch in "${archs[@]}"; do
    choose "$arch"
    echo "$arch $(cat "${parts[@]/#/$dir/$arch/}" | sha256sum | cut -d' ' -f1) $(cat "${parts[@]/#/$dir/$arch/}" | wc -c)"
done
