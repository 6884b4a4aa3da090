/* Philox4x32-10, the counter-based generator that every random decision of repro-fp32/1 comes from.
 *
 * What:    Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), ten rounds.
 * Flow:    128-bit counter and 64-bit key -> four 32-bit words; no state.
 * Owner:   the caller's arrays.
 * Extend:  never; a new use takes a key (seed) or a counter word that no other use has: see NUMERICS.md.
 */
#pragma once

#ifndef __CUDACC_RTC__ /* it has no such header: backend/cuda/device.h makes the types */
#include <stdint.h>
#endif

#define RP_PHILOX_M0 0xd2511f53u
#define RP_PHILOX_M1 0xcd9e8d57u
#define RP_PHILOX_W0 0x9e3779b9u /* added to key word 0 between rounds */
#define RP_PHILOX_W1 0xbb67ae85u
#define RP_PHILOX_INIT 0x494e4954u /* "INIT": counter word 2 of parameter initialisation */

/* x: counter in, random words out; key word 0 is the low half of `key`. */
static inline void rp_philox(uint32_t x[4], uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)RP_PHILOX_M0 * x[0], p1 = (uint64_t)RP_PHILOX_M1 * x[2];
        uint32_t y0 = (uint32_t)(p1 >> 32) ^ x[1] ^ k0;
        uint32_t y2 = (uint32_t)(p0 >> 32) ^ x[3] ^ k1;
        x[0] = y0;
        x[1] = (uint32_t)p1;
        x[2] = y2;
        x[3] = (uint32_t)p0;
        k0 += RP_PHILOX_W0;
        k1 += RP_PHILOX_W1;
    }
}
