/* The argument structs of kernels16.def. Part of kernels.h, which see. */
#pragma once

#include "ops/ops.h"

/* C = sum over k of A * B, + bias + add. A and B have 16 bits, bias 32; C and add 32 if f32, else 16.
 * Blocks are tiles of C (x) and segments of `length` k-steps, the last shorter (y). More than one segment: each is one chain, stored to
 * part[segment][m][ldpart], and gemm16_sum adds them: in order, or in a balanced tree. fast: 16 bytes of an operand are aligned. */
#define RP_GEMM16_DEPTH 32       /* k-steps of a stage */
#define RP_GEMM16_STAGES_ASYNC 4 /* with asynchronous copies */
#define RP_GEMM16_STAGES_HELD 2  /* without */
#define RP_GEMM16_BAND 64        /* rows of C in shared memory at a time */
#define RP_GEMM16_PAD 8          /* floats after each of them, so that a warp's rows are in other banks */
struct rp_gemm16_args {
    const uint16_t *a, *b;
    const float *bias;
    const void *add;
    void *c;
    float *part;
    int64_t lda, ldb, ldc, ldadd, ldpart;
    int m, n, k, length, segments, f32, fast_a, fast_b, pairs; /* pairs: two numbers of C and of add are aligned */
    int in_tree;
};
