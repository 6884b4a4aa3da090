/* Mixed precision on a CPU: sizes of its scratch.
 *
 * What:    scratch of an operation is that of the tiles of all threads (tc_gemm.h), then one area for the operation.
 * Flow:    needs() of cpu.c; low*.inc.h use it.
 * Extend:  an operation that needs more is a case of rp_cpu_low_scratch().
 */
#pragma once

#include "backend/cpu/inner.h"
#include "backend/cpu/tc_gemm.h"

static inline size_t rp_low_aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Bytes of all threads together, for a call of that size; 0: none. */
size_t rp_cpu_low_scratch(enum rp_isa isa, int threads, const struct rp_op_use *u);

/* Its parts. */
size_t rp_cpu_low_tiles(enum rp_isa isa, int threads);
/* Rows of a product [m, n] that are computed at once, of `pieces` sums each; bytes of these sums. */
long rp_cpu_low_rows(long pieces, long n);
size_t rp_cpu_low_partial(long m, long n, long k);
/* For one head, each thread. */
size_t rp_cpu_low_attention(int seq, int head_dim);
/* Pixels whose k-steps of `row` elements are gathered at once; and bytes of these and of the weights of a
 * convolution. */
long rp_cpu_low_pixels(long row);
size_t rp_cpu_low_conv(const struct rp_conv *c, enum rp_op op);
