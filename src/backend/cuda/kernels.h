/* The argument structs of kernels.def: the host fills one and launches, the kernel gets it by value as `a`.
 *
 * What:    plain structs of pointers to device memory and sizes; at most 4 KiB each. rp_stored is what the kernel is
 *          compiled for (device.h); a kernel of strict fp32 alone has float *.
 * Flow:    ops_*.c -> rp_cuda_launch() -> RP_KERNEL(name).    Owner: none; pointers are the device's.
 * Extend:  a struct here, a row in kernels.def, RP_KERNEL(name) in a .cu file, the launch in ops_*.c.
 */
#pragma once

#include "ops/ops.h"

/* `wide`, in every struct: all tensors are aligned to 16 bytes, and the length of rows is a multiple of 4. */

/* ---- rows.cu ---- */

/* type NULL: not added */
struct rp_embed_forward_args {
    rp_stored *z;
    const int32_t *ids, *type_ids, *position_ids; /* position_ids NULL: row % seq */
    const rp_stored *word, *type, *position;
    int rows, seq, width, wide;
};
struct rp_gather_rows_args {
    rp_stored *y;
    const rp_stored *x;
    const int32_t *index;
    int n, width, wide;
};
struct rp_dropout_forward_args {
    rp_stored *y;
    uint8_t *mask;
    const rp_stored *x;
    struct rp_dropout drop;
    int rows, width, wide;
};
struct rp_dropout_backward_args {
    rp_stored *dx;
    const rp_stored *dy;
    const uint8_t *mask;
    struct rp_dropout drop;
    int rows, width, wide;
};
/* z = dropout(x) + residual (NULL: none), stored unless z is NULL, then the norm of z. layernorm_kept: `wide` rows of
 * at most RP_NORM_KEPT columns */
#define RP_NORM_KEPT 1024
struct rp_layernorm_forward_args {
    rp_stored *y, *z, *kept;
    float *rstd;
    uint8_t *mask;
    const rp_stored *x, *residual;
    const float *gamma, *beta;
    struct rp_dropout drop;
    float eps, inv; /* inv: 1 / width */
    int rows, width, wide;
};
struct rp_layernorm_apply_args {
    rp_stored *y;
    const rp_stored *kept;
    const float *gamma, *beta;
    int rows, width, wide;
};
struct rp_copy_columns_args {
    float *dst;
    const float *src;
    long ldd, lds;
    int rows, cols, wide;
};
struct rp_bias_add_args {
    rp_stored *y;
    const float *x, *bias;
    int rows, width, wide;
};
/* sums[2 * row] = s1, sums[2 * row + 1] = s2 for rows row0 .. end - 1 */
struct rp_layernorm_sums_args {
    float *sums;
    const rp_stored *dy, *kept;
    const float *gamma;
    long row0, end;
    float inv;
    int width, wide;
};
/* The same rows, row0 a multiple of 64: dz, with `add` added unless it is NULL, dx (NULL: not computed), and
 * work[p * part + block * width + column], the sums over 64 rows of p = 0: dgamma, 1: dbeta, 2: dbias. threshold 0: no
 * dropout. */
struct rp_layernorm_columns_args {
    rp_stored *dz, *dx;
    float *work;
    const rp_stored *dy, *add, *kept;
    const float *rstd, *gamma, *sums;
    const uint8_t *mask;
    long part, row0, end;
    uint32_t threshold;
    float scale;
    int bias, width;
};
/* The fields of struct rp_row_groups; add: dst +=. Shared memory: RP_GROUP_LEVELS float4 for each thread. */
#define RP_GROUP_SMALL 64 /* rows of the longest group that one warp adds up; a block adds up longer ones */
#define RP_GROUP_LEVELS 3 /* of a binary counter up to 64 / 8 */
struct rp_row_sums_args {
    float *dst;
    const rp_stored *src;
    const int32_t *key, *start, *source;
    int n, width, add, wide;
};
/* Groups of more than `small` rows: a strip of `columns` columns for each block (x), groups distributed over y. Shared
 * memory: a word for each warp, and RP_TREE_FLOATS. */
struct rp_row_sums_long_args {
    float *dst;
    const rp_stored *src;
    const int32_t *key, *start, *source;
    int n, width, add, small, columns;
};
/* sum[y][column] = tree over work[y * part + block * width + column]; RP_TREE_COLUMNS columns for each block (x) */
#define RP_TREE_COLUMNS 8
struct rp_column_tree_args {
    float *sum[3];
    const float *work;
    long part;
    int blocks, width;
};
/* Floats of shared memory of one tree, see tree.cuh. */
#define RP_TREE_LEVELS 40
#define RP_TREE_TILE(warps, columns) ((warps) * ((columns) + 1))
#define RP_TREE_FLOATS(warps, columns) (2 * RP_TREE_TILE(warps, columns) + RP_TREE_LEVELS * (columns))

/* ---- pointwise.cu ---- */

struct rp_gelu_forward_args {
    rp_stored *g;
    const rp_stored *u;
    size_t n;
    int wide;
};
struct rp_tanh_forward_args {
    rp_stored *y;
    const rp_stored *x;
    size_t n;
    int wide;
};
/* The tanh forms of GELU: as for the erf forms */
struct rp_gelu_tanh_forward_args {
    rp_stored *g;
    const rp_stored *u;
    size_t n;
    int wide;
};
/* Gradients, and work[block * width + column], their sums over 64 rows */
struct rp_gelu_backward_args {
    rp_stored *du;
    float *work;
    const rp_stored *dg, *u;
    int rows, width;
};
struct rp_gelu_tanh_backward_args {
    rp_stored *du;
    float *work;
    const rp_stored *dg, *u;
    int rows, width;
};
struct rp_tanh_backward_args {
    rp_stored *dx;
    float *work;
    const rp_stored *dy, *y;
    int rows, width;
};
struct rp_colsum_args {
    float *work;
    const rp_stored *x;
    int rows, width;
};

/* ---- batchnorm.cu ---- */

/* work[block * width + column]: sums over 64 rows of (x - mean)^2 */
struct rp_batchnorm_squares_args {
    float *work;
    const rp_stored *x;
    const float *mean;
    int rows, width;
};
/* work[p * part + block * width + column]: of p = 0: dz * xhat, 1: dz; y NULL: no ReLU */
struct rp_batchnorm_sums_args {
    float *work;
    const rp_stored *dy, *x, *y;
    const float *mean, *rstd;
    long part;
    int rows, width;
};
/* mean = tree over the blocks' sums * inv; rstd = 1 / sqrt(mean + eps), or NULL. Grid and shared memory as of
 * column_tree. */
struct rp_column_mean_args {
    float *mean, *rstd;
    const float *work;
    float inv, eps;
    int blocks, width;
};
/* quads: rows times the fours of a row, the last of which may be shorter; less than 2^32. Tensors that may be NULL as
 * in ops.def. */
struct rp_batchnorm_apply_args {
    rp_stored *y;
    const rp_stored *x, *add;
    const float *mean, *rstd, *gamma, *beta;
    size_t quads;
    int relu, width, wide;
};
struct rp_batchnorm_backward_args {
    rp_stored *dx, *dadd;
    const rp_stored *dy, *x, *y;
    const float *mean, *rstd, *gamma, *dgamma, *dbeta;
    size_t quads;
    float inv;
    int width, wide;
};

/* ---- pool.cu ---- */

/* quads as above, of the pixels that are written; `wide` includes `which` */
struct rp_maxpool_forward_args {
    rp_stored *y;
    uint8_t *which;
    const rp_stored *x;
    size_t quads;
    struct rp_conv conv;
    int wide;
};
struct rp_maxpool_backward_args {
    rp_stored *dx;
    const rp_stored *dy;
    const uint8_t *which;
    size_t quads;
    struct rp_conv conv;
    int wide;
};
/* A block for each image and RP_WARP channels. Shared memory: RP_AVGPOOL_FLOATS. */
#define RP_AVGPOOL_FLOATS (128 * 32)
struct rp_avgpool_forward_args {
    rp_stored *y;
    const rp_stored *x;
    float inv;
    int pixels, width;
};
struct rp_avgpool_backward_args {
    rp_stored *dx;
    const rp_stored *dy;
    size_t quads;
    float inv;
    int pixels, width, wide;
};
/* n: elements; wide: x and pixel are aligned */
struct rp_scale_pixels_args {
    rp_stored *x;
    const uint8_t *pixel;
    size_t n;
    float scale[4], shift[4];
    int width, wide;
};

/* ---- loss.cu ---- */

/* A block for each row. Shared memory: RP_XENT_FLOATS. */
#define RP_XENT_FLOATS (2 * 4096 + 128)
struct rp_softmax_xent_args {
    rp_stored *logits;
    float *loss;
    long ld;
    const int32_t *labels;
    const float *coef;
    int classes;
};
/* The same for a row of `shards` parts of `each` classes. Shared memory: RP_XENT_SHARDS_FLOATS. */
#define RP_XENT_SHARDS_MOST 128
#define RP_XENT_SHARDS_FLOATS (RP_XENT_SHARDS_MOST + 1024)
struct rp_softmax_xent_shards_args {
    rp_stored *logits;
    float *loss;
    long ld;
    const int32_t *labels;
    const float *coef;
    int shards, each;
};
/* One block. Shared memory: 128 floats. */
struct rp_weighted_sum_args {
    float *out;
    const float *loss, *coef;
    int n;
};

/* A block for each row. rest: 1 - smoothing; share: 1 / classes; each: smoothing * share. Shared memory: 128 floats. */
struct rp_softmax_xent_smoothed_args {
    rp_stored *logits;
    float *loss;
    long ld;
    const int32_t *labels;
    const float *coef;
    float smoothing, rest, share, each;
    int classes;
};
/* A warp for each of n rows. */
struct rp_argmax_rows_args {
    int32_t *index;
    const rp_stored *x;
    long ld;
    int n, classes;
};

/* ---- optim.cu ---- */

struct rp_square_sums_args {
    float *out;
    const float *x;
    size_t n;
    int wide;
};
/* One block. Shared memory: RP_TREE_FLOATS of one column. */
struct rp_tree_sum_args {
    float *out;
    const float *x;
    size_t n;
};
struct rp_adam_update_args {
    float *w, *m, *v;
    const float *g;
    size_t n;
    struct rp_adam adam;
    int wide;
};
struct rp_lamb_direction_args {
    float *u_over_g, *m, *v;
    const float *w;
    size_t n;
    struct rp_adam adam;
    int wide;
};
struct rp_lamb_apply_args {
    float *w;
    const float *u, *sums;
    float lr;
    size_t n;
    int wide;
};
struct rp_sgd_update_args {
    float *w, *m;
    const float *g;
    size_t n;
    struct rp_sgd sgd;
    int wide;
};
struct rp_lars_update_args {
    float *w, *m;
    const float *g, *sums;
    size_t n;
    struct rp_lars lars;
    int wide;
};
/* rest: 1 - momentum */
struct rp_running_update_args {
    float *r;
    const float *x;
    size_t n;
    float factor, momentum, rest;
    int wide;
};
struct rp_init_normal_args {
    float *w;
    size_t n;
    float std;
    uint64_t seed;
    uint32_t tensor;
    int truncated, wide;
};

/* runs: of this part before w; n and p.run are below 2^32 unless p.parts is 1 */
struct rp_perturb_args {
    float *w;
    size_t n;
    uint64_t runs;
    struct rp_perturbation p;
};

/* ---- evidence.cu ---- */

struct rp_digest_leaves_args {
    uint8_t *leaves;
    const float *x;
    size_t n;
    int wide;
};
struct rp_find_nonfinite_args {
    unsigned long long *first; /* all ones */
    const float *x;
    size_t n;
    int wide;
};

/* ---- whole.cu ---- */

/* dst[i] = a[i] + b[i]; dst may be a */
struct rp_add_args {
    float *dst;
    const float *a, *b;
    size_t n;
    int wide;
};
struct rp_fill_args {
    float *dst;
    float value;
    size_t n;
    int wide;
};

/* How a kernel of gemm.def copies an operand; from PIXELS on, of conv.def, see conv.cuh. */
enum rp_gemm_how {
    RP_GEMM_K, RP_GEMM_R, RP_GEMM_R1, RP_GEMM_ANY,
    RP_GEMM_PIXELS, RP_GEMM_FILTERS, RP_GEMM_TAPS, RP_GEMM_TAPS1, RP_GEMM_ROWS, RP_GEMM_ROWS1, RP_GEMM_WINDOWS, RP_GEMM_WINDOWS1
};

/* The arguments of such a kernel, see struct rp_gemm. How segments (at least one, the last may be shorter) are summed:
 *   WHOLE     one block computes all segments of a tile; the sum so far is in `part`, the final sum in c
 *   PARALLEL  split-K: a block per tile and segment writes to its own matrix of m rows in `part`; gemm_sum adds these
 *   SERIAL    split-K: a block per tile and segment waits for the segment before and adds to `part`, the last one to c.
 *             semaphores[0] is the next block number, semaphores[1 + tile] the segment that may write. All are 0
 *             between launches.
 * k may be divided into groups of group_k each, a multiple of `segment`; the last one may be shorter. Each has tiles, a
 * matrix of m rows in c (and in `part`), and `segments` segments of its own, the last one last_segments; several groups
 * have neither bias nor add, and are not PARALLEL.
 * wide: c, part, bias, add and n can be accessed 4 floats at a time. `part` may be c, unless c is also `add`. */
enum rp_gemm_mode { RP_GEMM_WHOLE, RP_GEMM_PARALLEL, RP_GEMM_SERIAL };
struct rp_gemm_args {
    const float *a, *b;
    float *c, *part;
    const float *bias, *add;
    unsigned *semaphores;
    int64_t lda, ldb, ldc, ldpart, ldadd;
    int ta, tb, m, n, k, segment, segments, groups, group_k, last_segments, mode, wide;
};
/* Shared memory: FRONT floats for the block's number; then stages of DEPTH k-steps of both operands, reused for BAND
 * rows of each thread's results while they are written. async: sm_80 and later, where asynchronous copies allow more
 * stages. */
#define RP_GEMM_DEPTH(async) ((async) ? 16 : 8)
#define RP_GEMM_STAGES(async) ((async) ? 3 : 2)
#define RP_GEMM_BAND(async) ((async) ? 4 : 2)
#define RP_GEMM_PAD 4
#define RP_GEMM_FRONT 32
/* Accesses to C that a thread has in flight while it writes a band, of `count`. */
#define RP_GEMM_IN_FLIGHT(count, registers) ((registers) <= 128 || (count) % 4 ? 2 : (count) % 6 ? 4 : 6)

/* A convolution as a GEMM: C has a row for each pixel of the image that is written, and `columns` channels. A row of A
 * is gathered from the other image, the terms of which there may be taps_h * taps_w * channels, tap by tap; B has a
 * weight for each of them and each column. Forward there is one part. A data gradient has one for each pair of
 * remainders of a pixel's row and column by the stride: only every stride-th tap contributes to such a pixel. The sum
 * over its terms is cut where the sum over all `terms` would be, present or not. */
#define RP_CONV_KERNEL_MOST 15 /* rows and columns of the window: bits of a mask */
#define RP_CONV_STRIDE_MOST 4
#define RP_CONV_PARTS (RP_CONV_STRIDE_MOST * RP_CONV_STRIDE_MOST)
struct rp_conv_part {
    int first;                   /* block */
    int height, width;           /* rows of C: (image, y, x) with y < height, x < width */
    int top, left;               /* of the gathered image: the pixel of the first tap for y = x = 0 */
    int to_top, to_left;         /* of the image that is written: the pixel of y = x = 0 */
    int tap_top, tap_left;       /* of the window: the first tap that is present */
    int taps_h, taps_w;
    unsigned by_taps_w;          /* 65536 / taps_w + 1 */
};
struct rp_conv_args {
    float *c;
    const float *a, *b, *add;    /* a: the gathered image; b: the weights; add: NULL, or may be c */
    int images, height, width, channels;     /* of the gathered image */
    int to_height, to_width, columns;        /* of the image that is written */
    /* pixels of a from a y to the next, and from a tap that is present to the next: 1 or -1 */
    int step, direction;
    /* ... of c from a y to the next; of the window from a tap that is present to the next */
    int to_step, tap_step;
    int kernel_w, taps;          /* of the window: its width, all its taps */
    unsigned by_channels;        /* RP_CONV_BY(channels) */
    int terms, segment;          /* of a sum; the terms of a chain */
    int parts, wide;             /* wide: c, add and columns can be accessed 4 floats at a time */
    struct rp_conv_part part[RP_CONV_PARTS];
};
/* n / d is the high word of n * RP_CONV_BY(d), for n * d < 2^32; for d = 1 of (n + 1) * RP_CONV_BY(d). */
#define RP_CONV_BY(d) ((d) == 1 ? ~0u : 0xffffffffu / (unsigned)(d) + 1)
/* Weight gradient: the GEMM g with a group for each RP_CONV_GROUP rows and a segment for each chain. a: dy; b: x,
 * gathered; m output channels, n = taps * channels of x, k rows. */
struct rp_conv_wgrad_args {
    struct rp_gemm_args g;
    struct rp_conv conv;
    unsigned by_out_h, by_out_w; /* RP_CONV_BY */
};
/* out[i] = tree over the groups of work[group * n + i]. Shared memory: RP_GROUP_TREE_LEVELS float4 for each thread. */
#define RP_GROUP_TREE_MOST 128  /* groups */
#define RP_GROUP_TREE_LEVELS 5  /* of a binary counter up to 128 / 8 */
struct rp_group_tree_args {
    float *out;
    const float *work;
    size_t n;
    int groups, wide;
};
/* Shared memory: a uint4 for each row of a tile, see conv.cuh; stages as above; and where a sum has several chains, the
 * sum so far of each of the tile's elements. A weight gradient: FRONT floats as a GEMM, a uint2 for each row of a
 * chain, stages. */

/* See struct rp_attention and attention.cu. width: heads * dim; ld: of qkv, 3 * width; padded: rp_mask_stride(seq);
 * blocks: of queries, per head; whole: heads and tensors lie so that every four columns are 16-byte aligned.
 * (seq + 128) * ld < 2^31. Streams only: `tiles` of queries of all heads; in `slabs` every block has `kept_tiles` tiles
 * of RP_ATT_KEYS scores of its own queries. */
struct rp_attention_forward_args {
    float *o, *row_max, *row_inv, *slabs;
    uint8_t *mask; /* written when threshold != 0 */
    const float *qkv;
    const uint8_t *keys; /* NULL: all, as with `causal` */
    const int32_t *first; /* with `causal`: first key of each query of each sample; NULL: 0 */
    uint64_t seed;
    int seq, heads, first_head, dim, width, ld, padded, blocks, whole, causal, tiles, kept_tiles;
    float scale, keep_scale;
    uint32_t step, site, first_sample, threshold;
};
/* big_d[row of row_max] = chain over a head's columns of d_o * o; rows: of d_o. A thread for each row and head. */
struct rp_attention_dots_args {
    float *big_d;
    const float *d_o, *o;
    int rows, seq, heads, dim, whole;
};
/* Streams only: pd and ds of `span` keys from key `from` on, multiples of 64, of heads (of all samples) from number
 * `head` on: [head][key][query, up to the next 64th] (rp_cuda_attention_strip() has their size); blocks: of 64 of these
 * keys, or of queries, per head. */
struct rp_attention_backward_args {
    float *dqkv, *pd, *ds;
    const float *d_o, *row_max, *row_inv, *big_d, *qkv;
    const uint8_t *mask, *keys; /* mask: NULL without dropout, keep_scale is 1 then; keys: NULL: all */
    const int32_t *first;       /* as forward */
    int seq, heads, dim, width, ld, padded, blocks, whole, causal, head, from, span;
    float scale, keep_scale;
};

#if !defined(__CUDACC__) || defined(RP_TENSOR_CORES) || defined(RP_STORE)
#include "backend/cuda/kernels16.h"
#endif
