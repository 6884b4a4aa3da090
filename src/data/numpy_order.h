/* numpy's legacy random orders, RandomState(seed).shuffle(), which Megatron-LM orders its samples by.
 *
 * What:    MT19937 of Matsumoto and Nishimura, seeded by init_genrand() as RandomState(seed) does, and numpy's shuffle
 *          of an array.
 * Flow:    seed -> struct rp_mt19937 -> shuffled array; the state goes on, so the order of calls matters.
 *
 * numpy's shuffle: for i = n - 1 down to 1, exchange element i with element j, j uniform in 0..i: words of the
 * generator, cut to the bits of i, until one is at most i. numpy promises that this stream stays the same (NEP 19).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rp_mt19937 {
    uint32_t word[624];
    int at;
};

void rp_mt19937_init(struct rp_mt19937 *g, uint32_t seed);
uint32_t rp_mt19937_next(struct rp_mt19937 *g);
void rp_numpy_shuffle(struct rp_mt19937 *g, uint32_t *v, uint32_t n);
