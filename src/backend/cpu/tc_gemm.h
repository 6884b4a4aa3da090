/* Products of 16-bit matrices, summed as a tensor core sums them (ops/tensor_core.h), at the speed of vectors.
 *
 * What:    C = chains of blocks over ascending k, in fp32; the bits of rp_tc_chain() on every instruction set.
 * Flow:    tc_gemm.c cuts C into tiles and packs A and B; a kernel (tc_tile_<isa>.c, from tc_tile.inc.h) passes the
 *          blocks of one k-block by one tile. Between k-blocks a chain is in C: it is an fp32 number.
 * Owner:   the caller's matrices, pool and scratch. Nothing is allocated.
 * Extend:  a new instruction set is a file that includes tc_tile.inc.h and a row of rp_tc_kernel().
 *
 * How a product costs one fused multiply-add of doubles. The sum of a block is formed in an accumulator that starts
 * at M = 1.5 * 2^(E - N + 52): its last bit is q = 2^(E - N), the unit of the block. With rounding toward zero,
 * fma(a, b, acc) adds the exact product rounded *down* to a multiple of q (acc is positive), and at most 17 terms of
 * less than 4 * 2^E never leave the binade of M. The contract rounds toward zero instead, so a negative term that is
 * no multiple of q has to be one q larger. Two steps make that exact:
 *  1. B is stored as b * (1 + 2^-30). A positive product (its own last bit is at least 2^-22 of it) does not reach the
 *     next multiple of q by that, and a negative one is pushed below its own: it is always one q too small, also where
 *     it was a multiple of q.
 *  2. So the error is one q per negative term. Their number, a population count of signs, is added to the last bits of
 *     M beforehand.
 * Zeros are stored as 2^-300 with the sign that was counted: rounded down, they are 0 or -q, as a term of their sign.
 * The addend is one more term, stored as it is and multiplied by 1 + 2^-27. E is the largest sum of exponents, of 16
 * bits each, so that one instruction compares those of 16 or 32 elements.
 *
 * Infinities and NaN are packed as they are: an fma of doubles does with them what the contract asks for, whatever M
 * is, and an infinite or NaN sum stays that in the blocks after it. Two cases need more. An infinity times a zero is
 * NaN, which its stand-in 2^-300 would hide: where a group and a panel have both, the elements that have such a
 * product are made NaN before the first block. A finite sum of 2^128 or more becomes an infinity at the end of its
 * block. */
#pragma once

#include "backend/cpu/inner.h"
#include "ops/tensor_core.h"

/* C[i,j] = chain of k-steps from +0, or from C with `continues`. A chain is padded with zero products to whole
 * blocks, which changes nothing. Matrices are rows of `ld` elements. */
struct rp_tc_gemm {
    enum rp_tc_format format;
    struct rp_tc tc;
    int ta, tb, m, n, k; /* as of rp_gemm: ta: A is stored [k,m]; tb: B is stored [n,k] */
    const uint16_t *a, *b;
    long lda, ldb;
    float *c;
    long ldc;
    int continues;
};

/* How many tiles took which path: all of them give the same bits. */
struct rp_tc_paths {
    uint64_t fast;    /* exponents of finite terms are so far from their limits that no finite sum can be subnormal,
                         overflow or be at the floor of E */
    uint64_t general; /* any operands: where contracts of two chips might differ (tensor_core.h) */
    uint64_t invalid; /* of these, tiles in which products of an infinity and a zero were looked for */
};

struct rp_tc_kernel; /* tc_tile.h */

/* The vector kernels of an instruction set; NULL: scalar. popcount 0: as if the CPU had no AVX512_VPOPCNTDQ. */
const struct rp_tc_kernel *rp_tc_kernel(enum rp_isa isa, int popcount);
/* Bytes of scratch that every thread needs, a multiple of 64. */
size_t rp_tc_scratch(const struct rp_tc_kernel *kernel);
/* scratch: threads * rp_tc_scratch() bytes, 64-byte aligned. pool NULL: this thread alone. paths: counted up if not
 * NULL. */
void rp_tc_gemm_run(const struct rp_tc_kernel *kernel, struct rp_pool *pool, int threads, void *scratch,
                    const struct rp_tc_gemm *g, struct rp_tc_paths *paths);
