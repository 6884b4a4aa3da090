/* The argument structs of kernels16.def. Part of kernels.h, which see. */
#pragma once

#include "backend/cuda/kernels.h"

#ifndef RP_STORE /* files have the structs of their own kernels: their text stays the same when others change */
/* C = sum over k of A * B, + bias + add. A and B have 16 bits, bias 32; C and add 32 if f32, else 16.
 * Blocks are tiles of C (x) and segments of `length` k-steps, the last shorter (y). More than one segment: each is one
 * chain, stored to part[segment][m][ldpart], and gemm16_sum adds them: in order, or in a balanced tree. fast: 16 bytes
 * of an operand are aligned. */
#define RP_GEMM16_DEPTH 32       /* k-steps of a stage */
#define RP_GEMM16_STAGES_ASYNC 4 /* with asynchronous copies */
#define RP_GEMM16_STAGES_HELD 2  /* without */
#define RP_WGMMA_DEPTH 64        /* of gemm16_wgmma.cu ... */
#define RP_WGMMA_STAGES 4        /* ... with one block of a multiprocessor */
#define RP_WGMMA_UNIT 1024       /* bytes of eight lines: the stages begin at a multiple */
#define RP_WGMMA_BARRIERS 64     /* bytes of two for each stage, after the stages */
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

#if defined(RP_WGMMA) || !defined(__CUDACC__)
/* by_map: A and B are copied by tensor maps, in boxes of RP_WGMMA_DEPTH k-steps of RP_WGMMA_BOX rows: g.fast_a,
 * g.fast_b, and no segment but the last ends within a stage. A map is what the driver made of a matrix: 128 bytes that
 * only the GPU reads. */
#define RP_WGMMA_BOX 64
struct __attribute__((aligned(64))) rp_tensor_map {
    uint64_t of_driver[16];
};
struct rp_gemm16_wgmma_args {
    struct rp_gemm16_args g;
    int by_map;
    struct rp_tensor_map a, b;
};
#endif

/* A convolution as the product g of operands that are gathered: see conv16.cuh. g.a: the image, or dy of a weight
 * gradient; g.b: the weights, or the image of a weight gradient. A data gradient with a stride has a product for the
 * pixels of each phase: those at_h + n * step, at_w + n * step, which meet taps tap + n * tap_down + n * tap_across. */
struct rp_conv16_args {
    struct rp_gemm16_args g;
    int height, width, channels;   /* of the gathered image */
    int to_height, to_width;       /* of that whose pixels are rows of C, or k-steps */
    int depth, each, row;          /* channels of a tap, with padding, and k-steps of a row of taps */
    /* backward: taps go back from a pixel; row of C that is row 0 of g */
    int kernel_h, kernel_w, stride, pad_top, pad_left, backward, first_row;
    /* in the weights: the first, to the next row and column of taps, all of a channel */
    int tap, tap_down, tap_across, taps;
    int step, at_h, at_w, all_height, all_width; /* pixels of C: of a phase, in the whole image */
    /* RP_CONV_BY; taps: kernel_w * channels */
    unsigned by_to_height, by_to_width, by_row, by_each, by_taps, by_channels, by_stride;
};

/* See struct rp_attention. width: heads * dim; ld: of qkv, 3 * width; padded: rp_mask_stride(seq); blocks: of
 * RP_ATT16_LINES queries, per head, or in a backward pass of keys; fast: 16 bytes of a head's columns are aligned in
 * qkv; pairs: so are two numbers of the result. */
#define RP_ATT16_THREADS 128
#define RP_ATT16_LINES 64       /* queries, or keys, of a block; keys of a tile */
#define RP_ATT16_DIM 128        /* most columns of a head */
#define RP_ATT16_STAGES_ASYNC 2 /* with asynchronous copies; without, one */
struct rp_attention16_args {
    uint16_t *o;
    float *row_max, *row_inv;
    uint8_t *mask; /* written when threshold != 0 */
    const uint16_t *qkv;
    const uint8_t *keys;  /* NULL: all */
    const int32_t *first; /* first key of each query of each sample; NULL: 0 */
    uint64_t seed;
    int seq, heads, first_head, dim, width, ld, padded, blocks, fast, pairs, causal;
    float scale, keep_scale;
    uint32_t step, site, first_sample, threshold;
};
/* fast_o: as fast, of d_o */
struct rp_attention16_backward_args {
    uint16_t *dqkv;
    const uint16_t *qkv, *d_o;
    const float *row_max, *row_inv, *big_d;
    const uint8_t *mask, *keys; /* mask: NULL without dropout; keys: NULL: all */
    const int32_t *first;
    int seq, heads, dim, width, ld, padded, blocks, fast, fast_o, pairs, causal;
    float scale, keep_scale;
};
/* big_d[row of row_max] = sum128 over a head's columns of d_o * o; rows: of d_o */
struct rp_attention16_dots_args {
    float *big_d;
    const uint16_t *d_o, *o;
    int rows, seq, heads, dim;
};
/* Bytes of shared memory of blocks for heads of `width` columns, 64 or 128, with that many stages; sm_70 passes sums
 * through more. */
#define RP_ATT16_TILE(lines, width) ((size_t)(lines) * (width) * 2)
#define RP_ATT16_AROUND(arch) ((arch) < 75 ? (size_t)4 * 16 * 20 * 4 : 0)
#define RP_ATT16_FORWARD_SHARED(width, stages, arch)                                                                   \
    ((size_t)(1 + 2 * (stages)) * RP_ATT16_TILE(RP_ATT16_LINES, width) + RP_ATT16_AROUND(arch))
#define RP_ATT16_BACKWARD_SHARED(width, stages, arch)                                                                  \
    (2 * RP_ATT16_TILE(RP_ATT16_LINES, width) +                                                                        \
     (size_t)(stages) * (2 * RP_ATT16_TILE(RP_ATT16_LINES * 64 / (width), width) + (size_t)RP_ATT16_LINES * 25) +      \
     RP_ATT16_AROUND(arch))
#endif

#ifndef RP_TENSOR_CORES
/* ---- stored.def: n has what strict fp32 has, which comes first ---- */

struct rp_layernorm_forward16_args {
    struct rp_layernorm_forward_args n;
    float *mean; /* of each row; what is kept is z */
};
struct rp_layernorm_apply16_args {
    struct rp_layernorm_apply_args n;
    const float *mean, *rstd;
};
struct rp_layernorm_sums16_args {
    struct rp_layernorm_sums_args n;
    const float *mean, *rstd;
};
struct rp_layernorm_columns16_args {
    struct rp_layernorm_columns_args n;
    const float *mean;
};
/* scale: of the loss */
struct rp_softmax_xent16_args {
    struct rp_softmax_xent_args n;
    float scale;
};
struct rp_softmax_xent_shards16_args {
    struct rp_softmax_xent_shards_args n;
    float scale;
};
struct rp_softmax_xent_smoothed16_args {
    struct rp_softmax_xent_smoothed_args n;
    float scale;
};

/* add: NULL, or may be dst */
struct rp_round_stored_args {
    rp_stored *dst;
    const float *src;
    const rp_stored *add;
    size_t n;
    int wide;
};
/* dst may be a */
struct rp_add_stored_args {
    rp_stored *dst;
    const rp_stored *a, *b;
    size_t n;
    int wide;
};
struct rp_copy_stored_args {
    rp_stored *dst;
    const rp_stored *src;
    long ldd, lds;
    int rows, cols;
};
struct rp_find_stored_args {
    unsigned long long *first; /* all ones */
    const rp_stored *x;
    size_t n;
    int wide;
};
struct rp_scaled_squares_args {
    float *out;
    const float *x;
    float factor;
    size_t n;
    int wide;
};
#endif
