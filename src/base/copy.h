/* Copies of bytes, as memmove() makes them.
 *
 * What:    on x86-64, memcpy() and memmove() of musl use `rep movsq` for all sizes, which takes 30 cycles before it
 *          copies the first byte: 7 % of the time of `verify` with many records and 10 % of `compare`. A program
 *          linked with musl there has rp_copy_bytes() under both names.
 * Flow:    (to, from, bytes) -> to; the ranges may overlap.
 * Gotchas: musl calls it before there is a stack guard: no function of copy.c may have an array. The compiler makes
 *          memcpy() of loops that copy bytes: none of copy.c may be one.
 */
#pragma once

#include <stddef.h>

void *rp_copy_bytes(void *to, const void *from, size_t n);
