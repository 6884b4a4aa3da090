/* The order of samples: which record of a data set each sample of a run is.
 *
 * What:    a permutation of the records for every epoch, without state, any sample in O(1), the same on every machine.
 * Flow:    (sample number, number of records, seed) -> record number.
 * Extend:  another order is a function here and a choice of data.shuffle.
 *
 * Sample s belongs to epoch e = s / n and is record P_e(s mod n), n the number of records. Without shuffling P_e is the
 * identity. With it P_e is a permutation of 0..n-1 by cycle-walking a Feistel network: w = number of bits of n-1, at
 * least 2, rounded up to even; x of w bits is split in halves (L, R); eight rounds (L, R) = (R, L xor (F(r, R) mod
 * 2^(w/2))), where F is word 0 of Philox4x32-10(key = seed, counter = (R, r, e low, e high)); repeated until x < n.
 */
#pragma once

#include <stdint.h>

/* The permutation itself: bijective on 0..n-1 for every (seed, epoch). */
uint64_t rp_shuffle(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);

/* The record of a sample, below `records`. shuffle 0: file order. */
int64_t rp_sample_record(int64_t sample, int64_t records, int shuffle, uint64_t seed);
