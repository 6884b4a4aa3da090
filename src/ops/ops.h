/* Operations: argument structs, the table a backend fills, and sizes of what they need.
 *
 * What:    ops.def lists every operation once; this header makes the function table from it.
 * Flow:    model code calls dev->op->gemm(dev, &g) and never names a backend.
 * Owner:   all pointers are borrowed device memory; nothing is allocated by an operation.
 * Extend:  a row in ops.def, its literal definition in reference.c, its kernel per backend, its case in tests/ops/.
 */
#pragma once

#include "ops/tree.h"

#ifndef __CUDACC_RTC__
#include "ops/numerics.h"

#include <stddef.h>
#include <stdint.h>
#endif


/* An element of a stored tensor (ops.def). What it is belongs to the device: the files of a device and of its kernels
 * define RP_STORED_TYPE as its type before they include this; for all others it is incomplete, so that they neither
 * read stored tensors nor do arithmetic on their addresses, for which there is rp_stored_at(). */
#ifdef RP_STORED_TYPE
typedef RP_STORED_TYPE rp_stored;
#else
typedef struct rp_stored rp_stored;
#endif

#define RP_SEGMENT_WGRAD 512    /* weight gradient: chains of this many rows, added in order */
#define RP_SEGMENT_LONG 2048    /* forward and data gradient with K > RP_CHAIN_MAX: chains of this many */
#define RP_CHAIN_MAX 4096       /* ... up to here: one chain */
#define RP_CONV_CHAIN 512       /* weight gradient of a convolution: chains of this many rows, added in order ... */
#define RP_CONV_GROUP 4096      /* ... up to this many; a balanced tree over such groups */
#define RP_COLSUM_ROWS 64       /* rows per sequential block of a column sum */
#define RP_LOW_CHAIN 8192       /* mixed precision: the longest chain of k-steps */
#define RP_NORM_CHUNK 4096      /* elements per chunk of a global norm */
#define RP_LEAF_BYTES 16384     /* bytes per leaf of a state root */

/* k-steps per chain for a forward or data-gradient product; 0 = one chain */
static inline int rp_segment(int k)
{
    return k > RP_CHAIN_MAX ? RP_SEGMENT_LONG : 0;
}

/* C[i,j] = add[i,j]? + (bias[j]? + (chains of fma over k, + (+0.0f))).
 * ta: A is stored [k,m] instead of [m,k]; tb: B is stored [n,k] instead of [k,n].
 * segment 0: one chain over k; L: chains of L k-steps (the last shorter), their sums added in order.
 * Order of the epilogue, each one rounding: s = chains + (+0.0f); s = s + bias[j]; s = s + add[i,j]. `add` may be `c`.
 * Mixed precision: A and B are rounded to 16 bits, chains are rp_tc_chain() over k-steps that are padded with zeros to
 * whole blocks, and `segment` is not read: with ta, a weight gradient, chains of rp_low_segment(m, n, k) k-steps are
 * added in a balanced tree; else chains of RP_LOW_CHAIN in order. The last step of the epilogue rounds to 16 bits
 * what goes to `c`, and nothing that goes to `c32`. */
struct rp_gemm {
    int ta, tb, m, n, k, segment;
    const rp_stored *a;
    long lda;
    const rp_stored *b;
    long ldb;
    rp_stored *c; /* the result, as it is stored; NULL: in c32 */
    float *c32;   /* the result in fp32, a weight gradient or a part of a sum; NULL: in c */
    long ldc;
    const float *bias;    /* [n] or NULL */
    const rp_stored *add; /* with c: [m, ldadd] or NULL */
    const float *add32;   /* with c32, likewise */
    long ldadd;
};

/* A convolution of NHWC images, or a window that moves like one. Output pixel (oh, ow) takes input pixels (oh*stride +
 * kh - pad_top, ow*stride + kw - pad_left); those outside the image are +0. Asymmetric padding follows from out_h and
 * out_w. Forward, per output element: a chain over k = (kh, kw, ic), kh slowest, in segments by rp_segment(kernel_h *
 * kernel_w * in_c). dgrad, per input element: a chain over k = (kh, kw, oc), in segments by rp_segment(kernel_h *
 * kernel_w * out_c); k is counted whether or not a term exists, and terms without an output pixel are +0. wgrad, per
 * weight: chains of RP_CONV_CHAIN rows (n, oh, ow), n slowest, added in order within groups of RP_CONV_GROUP rows; a
 * balanced tree adds the groups. Terms outside the image are +0. Mixed precision: as products of that many k-steps by
 * struct rp_gemm. Forward: channels are padded with zeros to rp_low_channels(in_c) and the taps of each kh to
 * rp_low_row(); dgrad: so are kw and out_c; wgrad: chains over rows, in segments by rp_low_segment(out_c, taps,
 * rows). */
struct rp_conv {
    int batch, in_h, in_w, in_c, out_h, out_w, out_c, kernel_h, kernel_w, stride, pad_top, pad_left;
};

/* One dropout site in one step. Element (sample, row, col) is kept when word [e % 4] of
 * Philox4x32-10(key = seed, counter = {e/4, sample, site, step}) >= threshold, with e = row * rp_mask_stride(width) +
 * col, row counted within the sample and sample counted over the whole global batch. threshold = floor(p * 2^32), scale
 * = 1/(1-p). counter word 0 is e/4, word 1 the sample, word 2 the site, word 3 the step; key word 0 is the low half of
 * the seed. */
struct rp_dropout {
    uint64_t seed;
    uint32_t step, site;
    uint32_t first_sample;   /* global index of the first sample in the tensor */
    int rows_per_sample;     /* hidden: seq; attention: heads * seq */
    uint32_t threshold;      /* 0: no dropout, mask unused */
    float scale;
};

/* The arguments of residual_layernorm_forward; layernorm_forward ignores residual, drop, mask and z; layernorm_apply
 * reads kept, mean, rstd, gamma and beta. */
struct rp_layernorm {
    int rows, width;
    float eps;
    const rp_stored *x;            /* [rows, width] */
    const rp_stored *residual;     /* [rows, width], added to dropout(x) */
    const struct rp_dropout *drop; /* of x; NULL: no dropout */
    const float *gamma, *beta;     /* [width] */
    rp_stored *y;                  /* [rows, width] */
    /* [rows, width]: xhat; in mixed precision, which does not round xhat, the sum that is normalised, of which xhat is
     * computed again. In place: kept == x */
    rp_stored *kept;
    float *mean;                   /* [rows]: mixed precision alone */
    float *rstd;                   /* [rows] */
    rp_stored *z;                  /* [rows, width]: the sum, for a pre-norm layer, or NULL; in place: z == residual */
    uint8_t *mask;                 /* decisions, rp_mask_bytes(rows, width); unused without dropout */
};

/* The arguments of layernorm_backward. */
struct rp_layernorm_grad {
    int rows, width;
    const rp_stored *dy;           /* [rows, width]: gradient of y */
    const rp_stored *add;          /* [rows, width]: gradient of the normalised sum from its other uses; NULL: none */
    const rp_stored *kept;         /* [rows, width], with mean and rstd [rows]: of struct rp_layernorm */
    const float *mean, *rstd;
    const float *gamma;            /* [width] */
    const struct rp_dropout *drop; /* of x; NULL or with threshold 0: no dropout */
    const uint8_t *mask;           /* its decisions */
    rp_stored *dz;                 /* [rows, width]: gradient of the residual; in place: dz == dy, dz == add */
    rp_stored *dx;                 /* [rows, width]: gradient of x; without dropout it may be NULL or equal dz */
    float *dgamma, *dbeta;         /* [width] */
    float *dbias;                  /* [width]: colsum(dx), of dz where dx is NULL; NULL: not computed */
    float *work;                   /* rp_colsum_work(rows, 3 * width) floats */
};

/* score[q,k] = chain over d of q*k, times scale; m = max over unmasked k, + (+0) so that a zero has one form;
 * e = r_exp(score - m); l = sum128(e) with e = +0 for masked keys; p = e * (1/l); pd = dropout(p);
 * o = chain over k of pd*v, masked keys skipped. causal: keys after q are masked for q, and those before its first key.
 * Backward: D = chain over d of do*o; dpd = chain over d of do*v; ds = (p * (dropout'(dpd) - D)) * scale;
 * dq = chain over k of ds*k; dk = chain over q of ds*q; dv = chain over q of pd*do; masked keys have dk = dv = +0.
 * Mixed precision streams over tiles of RP_LOW_KEYS keys: NUMERICS.md. */
#define RP_LOW_KEYS 64
struct rp_attention {
    int batch, seq, heads, head_dim; /* width = heads * head_dim */
    /* its number within the sample, which dropout counts with: others are on other ranks */
    int first_head;
    float scale;                     /* 1/sqrt(head_dim), computed by the host in fp32: 1.0f / sqrtf(head_dim) */
    int causal;                      /* query q attends to keys 0..q only; then key_mask is NULL */
    const uint8_t *key_mask;         /* [batch, seq], 1 = attend; at least one 1 per sample; NULL: all */
    /* [batch, seq], causal only: query q attends to keys first_key[q]..q; never less than the one before; NULL: 0 */
    const int32_t *first_key;
    /* rows_per_sample = heads * seq, width = seq; rows of a sample count from first_head * seq */
    struct rp_dropout drop;
};

/* The arguments of attention_backward. qkv, o, row_max, row_inv and mask are those of attention_forward. */
struct rp_attention_grad {
    const struct rp_attention *a;
    const rp_stored *d_o;           /* [batch*seq, width]: gradient of o */
    const rp_stored *qkv;           /* [batch*seq, 3*width] */
    const rp_stored *o;             /* [batch*seq, width] */
    const float *row_max, *row_inv; /* [batch*heads*seq] */
    const uint8_t *mask;
    rp_stored *dqkv;                /* [batch*seq, 3*width] */
    float *dbias;                   /* [3*width]: colsum(dqkv) */
    float *work;                    /* rp_colsum_work(batch*seq, 3*width) floats */
};

/* The arguments of batchnorm_forward; batchnorm_apply reads rstd and ignores eps, var and work. */
struct rp_batchnorm {
    int rows, width;
    float eps;
    int relu;                         /* y = y > 0 ? y : +0, after `add` */
    const rp_stored *x;               /* [rows, width] */
    const float *mean, *gamma, *beta; /* [width] */
    const rp_stored *add;             /* [rows, width] or NULL */
    /* [rows, width]; forward, NULL for the statistics alone; in place: y == x, y == add */
    rp_stored *y;
    float *var, *rstd;                /* [width] */
    float *work;                      /* rp_colsum_work(rows, width) floats */
};

/* The arguments of batchnorm_backward. In place: dx == dy or dadd == dy; dx == x. */
struct rp_batchnorm_grad {
    int rows, width;
    const rp_stored *dy;              /* [rows, width]: gradient of y */
    const rp_stored *x;               /* [rows, width] */
    const rp_stored *y;               /* [rows, width]: the output, where a relu follows; NULL: no relu */
    const float *mean, *rstd, *gamma; /* [width] */
    rp_stored *dx;                    /* [rows, width] */
    rp_stored *dadd;                  /* [rows, width]: gradient of what was added, or NULL */
    float *dgamma, *dbeta;            /* [width] */
    float *work;                      /* rp_colsum_work(rows, 2 * width) floats */
};

/* Source rows grouped by the row they are summed into; made on the host by sorting, keys ascending. */
struct rp_row_groups {
    int n;                /* groups */
    const int32_t *key;   /* [n] row of dst */
    const int32_t *start; /* [n+1] into source */
    const int32_t *source; /* [start[n]] rows of src, ascending within a group */
};

/* gs = g * grad_scale;  m = fma(beta1, m, one_minus_beta1 * gs);  v = fma(beta2, v, one_minus_beta2 * (gs*gs));
 * mh = m * correct1, vh = v * correct2 when bias correction is on (else m, v themselves, no multiplication);
 * u = mh / (sqrt(vh) + eps);  u = fma(weight_decay, w, u) when weight_decay != 0;  w = fma(-lr, u, w). */
struct rp_adam {
    float grad_scale, lr, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, weight_decay;
    int bias_correction;
    float correct1, correct2;
};

/* gs = g * grad_scale;  d = fma(weight_decay, w, gs) when weight_decay != 0, else gs;  m = fma(momentum, m, d);
 * u = nesterov ? fma(momentum, m, d) : m;  w = fma(-lr, u, w). */
struct rp_sgd {
    float grad_scale, lr, momentum, weight_decay;
    int nesterov;
};

/* gs = g * grad_scale;  adapt: nw = sqrt(sums[0]), ng = sqrt(sums[1]) * grad_scale;  trust = nw > 0 and ng > 0 ?
 * (eeta*nw) / (fma(weight_decay, nw, ng) + eps) : 1;  d = fma(weight_decay, w, gs);  not adapt: trust = 1, d = gs.
 * rate = lr * trust;  v = rate * d;  m = momentum*m - v;  w = w + (nesterov ? momentum*m - v : m), each product
 *                                                         rounded. */
struct rp_lars {
    float grad_scale, lr, momentum, weight_decay, eeta, eps;
    int adapt, nesterov;
};

/* What moves every weight after a state root of a run that answers a challenge. Element j of a rank's part is element
 * e = (j / run * parts + part) * run + j % run of the whole tensor; parts 1: e = j. */
struct rp_perturbation {
    uint64_t seed;
    uint32_t root, tensor; /* steps trained before the root; number of the weight */
    float scale;           /* 2^-10 times the standard deviation of the initialisation */
    uint32_t parts, part;
    size_t run;            /* at least 1 */
};

struct rp_dev;

#ifndef __CUDACC_RTC__
struct rp_backend;
struct rp_ops;
struct rp_dev {
    const struct rp_backend *backend;
    const struct rp_ops *op;
    enum rp_numerics numerics; /* the arithmetic of its operations */
    size_t stored_bytes;       /* of an element of a stored tensor: 4, in mixed precision 2 if it keeps 16 bits */
    /* the backend's own fields follow */
};

/* Element i of a stored tensor. */
static inline rp_stored *rp_stored_at(const struct rp_dev *dev, const rp_stored *x, long i)
{
    return (rp_stored *)((char *)(uintptr_t)x + i * (long)dev->stored_bytes);
}

enum rp_op {
#define OP(name, types, args, names) RP_OP_##name,
#include "ops/ops.def"
#undef OP
    RP_OP_COUNT
};
struct rp_op_info {
    const char *name;
    unsigned types; /* it computes in: RP_IN_F32 ... */
};
extern const struct rp_op_info rp_op_info[RP_OP_COUNT]; /* reference.c */

struct rp_ops {
#define OP(name, types, args, names) void(*name) RP_OP_ARGS args;
#define RP_OP_ARGS(...) (struct rp_dev * dev, __VA_ARGS__)
#define RP_OP_CALL(...) (dev, __VA_ARGS__) /* of the names: a call with the arguments of a function by RP_OP_ARGS */
#include "ops/ops.def"
#undef OP
};

/* Takes a struct rp_conv. */
static inline int rp_op_is_conv(enum rp_op op)
{
    return op == RP_OP_conv_forward || op == RP_OP_conv_dgrad || op == RP_OP_conv_wgrad || op == RP_OP_maxpool_forward ||
           op == RP_OP_maxpool_backward;
}

/* The arguments of layernorm_forward for a backend whose residual_layernorm_forward does both. */
static inline struct rp_layernorm rp_layernorm_plain(const struct rp_layernorm *n)
{
    struct rp_layernorm plain = *n;
    plain.residual = NULL;
    plain.drop = NULL;
    plain.z = NULL;
    plain.mask = NULL;
    return plain;
}

/* The literal definition of every operation: plain scalar loops on the host. ops/reference.c. */
extern const struct rp_ops rp_reference_ops;
#endif

/* The bits past the width are 0; attention decides for masked keys too, but those after a causal query are 0.
 * bytes of dropout decisions for `rows` rows of `width`: bit (col & 7) of byte row*stride/8 + col/8, stride =
 * rp_mask_stride */
static inline size_t rp_mask_bytes(long rows, long width)
{
    return (size_t)rows * (size_t)(rp_mask_stride(width) / 8);
}
/* floats of scratch for a column sum over rows x width */
static inline size_t rp_colsum_work(long rows, long width)
{
    return (size_t)((rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS) * (size_t)width;
}


/* Mixed precision: k-steps of a chain of a weight gradient [m, n] over k rows. */
static inline int rp_low_segment(int m, int n, int k)
{
    const long units = ((m + 127l) / 128) * ((n + 127l) / 128);
    long pieces = 1;
    while (units * pieces < 192 && k >= 2048 * pieces)
        pieces *= 2;
    const long length = (k + 64 * pieces - 1) / (64 * pieces) * 64;
    return (int)(length < 64 ? 64 : length < RP_LOW_CHAIN ? length : RP_LOW_CHAIN);
}
/* Mixed precision: channels of a pixel, and k-steps of a row of taps, with the zeros that fill blocks. */
static inline int rp_low_channels(int channels)
{
    return channels < 16 ? (channels + 3) / 4 * 4 : (channels + 15) / 16 * 16;
}
static inline int rp_low_row(int kernel_w, int channels)
{
    return (kernel_w * rp_low_channels(channels) + 15) / 16 * 16;
}

static inline long rp_conv_rows(const struct rp_conv *c)
{
    return (long)c->batch * c->out_h * c->out_w;
}
/* Terms of an output element, and weights of an output channel. */
static inline int rp_conv_taps(const struct rp_conv *c)
{
    return c->kernel_h * c->kernel_w * c->in_c;
}
/* floats of scratch for a weight gradient: the sum of each group, unless there is one */
static inline size_t rp_conv_wgrad_work(const struct rp_conv *c)
{
    long groups = (rp_conv_rows(c) + RP_CONV_GROUP - 1) / RP_CONV_GROUP;
    return groups > 1 ? (size_t)groups * (size_t)c->out_c * (size_t)rp_conv_taps(c) : 0;
}
