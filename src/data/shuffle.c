#include "data/shuffle.h"

#include "base/err.h"
#include "ops/philox.h"

uint64_t rp_shuffle(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch)
{
    int bits = 2;
    while (bits < 62 && (n - 1) >> bits)
        bits += 2;
    const int half = bits / 2;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t l = i >> half, r = i & mask;
        for (uint32_t round = 0; round < 8; round++) {
            uint32_t word[4] = {(uint32_t)r, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)};
            rp_philox(word, seed);
            uint64_t t = l ^ (word[0] & mask);
            l = r;
            r = t;
        }
        i = l << half | r;
    } while (i >= n); /* the walk along a cycle of a permutation returns below n, at the latest at its start */
    return i;
}

int64_t rp_sample_record(int64_t sample, int64_t records, int shuffle, uint64_t seed)
{
    RP_BUG_IF(sample < 0 || records < 1);
    uint64_t n = (uint64_t)records, s = (uint64_t)sample;
    return (int64_t)(shuffle ? rp_shuffle(s % n, n, seed, s / n) : s % n);
}
