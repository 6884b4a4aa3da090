/* Whole numbers as bytes, the least significant first.
 *
 * What:    rp_put_le() and rp_get_le(), for formats that are read on other machines or by other processes.
 * Flow:    a number and its size in bytes, 1 to 8 -> bytes, and back.
 * Owner:   bytes are the caller's.
 * Extend:  never: formats depend on it.
 */
#pragma once

#include <stdint.h>

static inline void rp_put_le(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static inline uint64_t rp_get_le(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}
