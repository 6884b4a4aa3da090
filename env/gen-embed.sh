#!/bin/sh
# Write the table of embedded files (src/base/embed.h): OUT.S with the bytes, OUT.c with the names.
# usage: gen-embed.sh OUT FILE...       FILE is a path from the top of the repository, or NAME=PATH
set -eu
out=$1
shift
{
    echo '    .section .rodata'
    i=0
    for f; do
        printf '    .balign 16\n    .hidden rp_embedded_%d\n    .globl rp_embedded_%d\nrp_embedded_%d:\n    .incbin "%s"\n' $i $i $i "${f#*=}"
        printf '    .hidden rp_embedded_%d_end\n    .globl rp_embedded_%d_end\nrp_embedded_%d_end:\n    .byte 0\n' $i $i $i
        i=$((i + 1))
    done
    echo '    .section .note.GNU-stack,"",@progbits'
} >"$out.S"
{
    printf '#include "base/embed.h"\n\n'
    i=0
    for f; do
        printf 'extern const unsigned char rp_embedded_%d[];\n#define SIZE_%d %d\n' $i $i "$(stat -L -c %s "${f#*=}")"
        i=$((i + 1))
    done
    printf '\nconst struct rp_embed rp_embed_table[] = {\n'
    i=0
    for f; do
        printf '    {"%s", rp_embedded_%d, SIZE_%d},\n' "${f%%=*}" $i $i
        i=$((i + 1))
    done
    printf '    {0},\n};\n'
} >"$out.c"
