/* Attention with tensor cores, in mixed precision: tiles of 64 keys, as NUMERICS.md has them.
 *
 * What:    att16_forward(): the outputs of 64 queries of a head; att16_gradients(): dq of 64 queries, or dk and dv of 64 keys. Four
 *          warps, each with 16 of those rows; `width`, a constant, is 64 or 128 columns, of which a head may have fewer.
 * Flow:    every matrix lies in shared memory line by line, as in global memory, for both products that it takes part in
 *          (TC_BY_LINES, TC_BY_ROWS). Scores stay in registers: what a lane has of them is, rounded, its fragment of the product after.
 *
 *   lane l of a warp, of 16 rows and 16 columns: rows l / 4 and 8 more; columns 2 (l % 4) and the next, and 8 more
 *
 * That is how sm_75 and later have sums (tc_row(), tc_column()), and the lanes of the contract's four partial sums of a row: column i
 * belongs to sum i % 8 / 2. sm_70 has them elsewhere: there they pass through shared memory (`around`).
 *
 * Chains: a score is one over the head's columns, an output or a gradient one over keys or queries in ascending order. A tile without any
 * attended key changes nothing, so what is masked as a whole may be left out.
 */
#pragma once

#include "backend/cuda/tensor_core.cuh"
#include "ops/functions.h"
#include "ops/philox.h"

#define ATT16_TILES (RP_ATT16_LINES / 16) /* of 16 keys, in a tile of keys */
#define ATT16_MOST (128 / 16)             /* tiles of 16 columns in a head */

/* Of the sample and head of a block. */
struct att16_head {
    const uint8_t *keys;  /* [seq], 1 = attend; NULL: all */
    const int32_t *first; /* [seq]: first key of each query; NULL: 0 */
    int64_t row;          /* its first row of row_max, row_inv, mask */
    int sample, head, block, seq, causal;
};

RP_DEVICE int att16_lane(void)
{
    return (int)(threadIdx.x % RP_WARP);
}
RP_DEVICE int att16_warp(void)
{
    return (int)(threadIdx.x / RP_WARP);
}

/* number: of a block, `blocks` of them a head. */
RP_DEVICE struct att16_head att16_head_of(int number, int blocks, const uint8_t *keys, const int32_t *first, int seq, int heads, int causal)
{
    const int all = number / blocks;
    struct att16_head h;
    h.sample = all / heads;
    h.head = all % heads;
    h.block = number % blocks;
    h.row = (int64_t)all * seq;
    h.keys = keys ? keys + (int64_t)h.sample * seq : 0;
    h.first = first ? first + (int64_t)h.sample * seq : 0;
    h.seq = seq;
    h.causal = causal;
    return h;
}

/* ---- tiles in shared memory ---- */

/* `lines` lines of `width` numbers. from: the first one's; inside: lines of the tensor from there on; dim: columns of a head. */
RP_DEVICE void att16_copy(rp_smem tile, const uint16_t *from, int64_t pitch, int inside, int dim, int fast, const int lines, const int width)
{
    const int pieces = width / TC_PIECE;
#if RP_ASYNC
    RP_UNROLL
#else
    RP_UNROLL_BY(2) /* each takes four registers until it is stored */
#endif
    for (int i = 0; i < lines * pieces / RP_ATT16_THREADS; i++) {
        const int n = (int)threadIdx.x + i * RP_ATT16_THREADS, line = n / pieces, piece = n % pieces;
        const int numbers = line < inside ? tc_limit(dim - TC_PIECE * piece, TC_PIECE) : 0;
        const uint16_t *const at = numbers ? from + line * pitch + TC_PIECE * piece : from;
        const int place = tc_place(TC_BY_LINES, width, line, piece);
#if RP_ASYNC
        if (fast) {
            rp_copy16_part_to(tile, place, at, 2 * numbers);
            continue;
        }
#endif
        tc_put(tile, place, tc_gather(at, numbers, fast));
    }
}

RP_DEVICE int att16_floats(int lines, int width)
{
    return lines * width / 2;
}

/* sum[i] (16 x 16) += 16 lines of a, from `row` on, times lines of b, 16 i + `column` on, over all columns. */
RP_DEVICE void att16_dots(float *sum, rp_smem a, int row, rp_smem b, int column, const int tiles, const int width, const int format)
{
    RP_UNROLL
    for (int i = 0; i < 8 * tiles; i++)
        sum[i] = 0.0f;
    RP_UNROLL
    for (int slice = 0; slice < width / 16; slice++) {
        uint32_t fa[TC_FRAGMENT], fb[TC_FRAGMENT];
        tc_load(fa, a, TC_BY_LINES, width, row, slice, 0);
        RP_UNROLL
        for (int i = 0; i < tiles; i++) {
            tc_load(fb, b, TC_BY_LINES, width, column + 16 * i, slice, 1);
            tc_multiply(sum + 8 * i, fa, fb, 1, 1, format);
        }
    }
}

/* sum[d] (16 x 16, columns 16 d on) += a times lines 16 * slice on of b. */
RP_DEVICE void att16_add(float *sum, const uint32_t *a, rp_smem b, int slice, const int width, const int format)
{
    RP_UNROLL
    for (int d = 0; d < width / 16; d++) {
        uint32_t fb[TC_FRAGMENT];
        tc_load(fb, b, TC_BY_ROWS, width, 16 * d, slice, 1);
        tc_multiply(sum + 8 * d, a, fb, 1, 0, format);
    }
}

/* ---- scores in registers ---- */

RP_DEVICE int att16_row(int pair)
{
    return att16_lane() / 4 + 8 * (pair & 1);
}
RP_DEVICE int att16_column(int pair)
{
    return 2 * (att16_lane() % 4) + 8 * (pair >> 1);
}

/* A warp's room in shared memory on sm_70: 16 lines of 20 floats. */
#define ATT16_AROUND_PITCH 20

/* A tile of 16 x 16 from where tc_multiply() has it to att16_row(), att16_column(). */
RP_DEVICE void att16_spread(float *x, float *around)
{
#if __CUDA_ARCH__ >= 750
    (void)x, (void)around;
#else
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++)
        *(float2 *)(void *)(around + tc_row(pair) * ATT16_AROUND_PITCH + tc_column(pair)) = make_float2(x[2 * pair], x[2 * pair + 1]);
    __syncwarp();
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++) {
        const float2 v = *(const float2 *)(const void *)(around + att16_row(pair) * ATT16_AROUND_PITCH + att16_column(pair));
        x[2 * pair] = v.x;
        x[2 * pair + 1] = v.y;
    }
    __syncwarp();
#endif
}

/* Such a tile, rounded, as the rows of a product: by k. */
RP_DEVICE void att16_pack(uint32_t *f, const float *x, float *around, const int format)
{
#if __CUDA_ARCH__ >= 750
    (void)around;
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++)
        f[pair] = tc_round(x[2 * pair + 1], format) << 16 | tc_round(x[2 * pair], format);
#else
    const int lane = att16_lane(), line = (lane & 3) + 4 * (lane >> 4) + 8 * tc_quarter(lane, 0);
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++)
        ((uint32_t *)(void *)(around + att16_row(pair) * ATT16_AROUND_PITCH))[att16_column(pair) / 2] =
            tc_round(x[2 * pair + 1], format) << 16 | tc_round(x[2 * pair], format);
    __syncwarp();
    RP_UNROLL
    for (int i = 0; i < 2; i++) {
        const uint4 v = *(const uint4 *)(const void *)(around + line * ATT16_AROUND_PITCH + 4 * i);
        f[4 * i] = v.x;
        f[4 * i + 1] = v.y;
        f[4 * i + 2] = v.z;
        f[4 * i + 3] = v.w;
    }
    __syncwarp();
#endif
}

/* of[0], of[1]: a number of row l / 4 and of the row 8 below. to[0], to[1]: the same of the rows of sums in tc_row(0), tc_row(1). */
RP_DEVICE void att16_rows(float *to, const float *of)
{
#if __CUDA_ARCH__ >= 750
    to[0] = of[0];
    to[1] = of[1];
#else
    float first = of[0], second = of[1];
    RP_UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = tc_row(i);
        const float x = __shfl_sync(RP_ALL_LANES, first, 4 * (row & 7)), y = __shfl_sync(RP_ALL_LANES, second, 4 * (row & 7));
        to[i] = row < 8 ? x : y;
    }
#endif
}

/* 16 rows of a result from `row` on, of which `inside` exist, times factor[pair & 1]; pairs: two numbers are aligned. */
RP_DEVICE void att16_store(uint16_t *to, int64_t pitch, int inside, int dim, int pairs, const float *sum, const float *factor, const int width,
                           const int format)
{
    RP_UNROLL
    for (int d = 0; d < width / 16; d++)
        RP_UNROLL
        for (int pair = 0; pair < 4; pair++) {
            const int row = tc_row(pair), column = 16 * d + tc_column(pair);
            const float *const x = sum + 8 * d + 2 * pair;
            uint16_t *const at = to + row * pitch + column;
            const uint32_t low = tc_round(x[0] * factor[pair & 1], format), high = tc_round(x[1] * factor[pair & 1], format);
            if (row >= inside || column >= dim)
                continue;
            if (pairs) {
                *(uint32_t *)(void *)at = high << 16 | low;
            } else {
                at[0] = (uint16_t)low;
                if (column + 1 < dim)
                    at[1] = (uint16_t)high;
            }
        }
}

/* Bits from .. to - 1 of a word; from and to may be outside of it. */
RP_DEVICE uint32_t att16_bits(int from, int to)
{
    const int low = tc_limit(from, 32), high = tc_limit(to, 32);
    return (high == 32 ? 0xffffffffu : (1u << high) - 1) & (low == 32 ? 0u : 0xffffffffu << low);
}

/* ---- forward ---- */

struct att16_forward {
    const struct rp_attention16_args *a;
    struct att16_head h;
    rp_smem shared;
    float *around;          /* of the warp, on sm_70 */
    const uint16_t *x;      /* the head's first element in qkv */
    int q0;                 /* first query of the warp */
    float most[2], sum[2];  /* of rows l / 4 and 8 more: the largest score, and the partial sum of the lane */
};

#define ATT16_STAGES (RP_ASYNC ? RP_ATT16_STAGES_ASYNC : 1)

/* Keys and values of tile n. */
RP_DEVICE void att16_copy_keys(const struct att16_forward *f, int n, int stage, const int width)
{
    const struct rp_attention16_args *a = f->a;
    const int size = att16_floats(RP_ATT16_LINES, width), k0 = n * RP_ATT16_LINES;
    const rp_smem to = RP_SMEM_AFTER(f->shared, (1 + 2 * stage) * size);
    const uint16_t *const from = f->x + (int64_t)k0 * a->ld + a->width;
    att16_copy(to, from, a->ld, a->seq - k0, a->dim, a->fast, RP_ATT16_LINES, width);
    att16_copy(RP_SMEM_AFTER(to, size), from + a->width, a->ld, a->seq - k0, a->dim, a->fast, RP_ATT16_LINES, width);
}

/* Decisions of a lane on 64 keys from k0 on: bit 4 i + j is key 8 i + 4 (l % 4 / 2) + j, of the row that l % 2 says. */
RP_DEVICE uint32_t att16_decide(const struct att16_forward *f, int k0)
{
    const struct rp_attention16_args *a = f->a;
    const int lane = att16_lane(), q = f->q0 + lane / 4 + 8 * (lane & 1), k1 = k0 + 4 * (lane >> 1 & 1);
    const int end = a->causal && q < a->seq ? q + 1 : a->seq;
    const uint32_t first = (uint32_t)((a->first_head + f->h.head) * a->seq + q) * (uint32_t)(a->padded / 4);
    uint32_t bits = 0;
    RP_NO_UNROLL
    for (int i = 0; i < 8; i++) {
        const int k = k1 + 8 * i;
        uint32_t x[4] = {first + (uint32_t)(k / 4), a->first_sample + (uint32_t)f->h.sample, a->site, a->step};
        rp_philox(x, a->seed);
        const uint32_t four = (uint32_t)(x[0] >= a->threshold) | (uint32_t)(x[1] >= a->threshold) << 1 |
                              (uint32_t)(x[2] >= a->threshold) << 2 | (uint32_t)(x[3] >= a->threshold) << 3;
        bits |= (four & att16_bits(0, end - k)) << 4 * i;
    }
    return bits;
}

/* Four bits of every eight. */
RP_DEVICE uint32_t att16_widen(uint32_t x)
{
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
}

/* 64 keys of a row are two words of the mask: lanes 0 and 1 of four write the first of their rows, 2 and 3 the second. */
RP_DEVICE void att16_put_decisions(const struct att16_forward *f, int k0, uint32_t bits)
{
    const int lane = att16_lane(), q = f->q0 + lane / 4 + 8 * (lane & 1), second = lane >> 1 & 1;
    const uint32_t other = __shfl_xor_sync(RP_ALL_LANES, bits, 2), low = second ? other : bits, high = second ? bits : other;
    const uint32_t word = att16_widen(low >> 16 * second & 0xffff) | att16_widen(high >> 16 * second & 0xffff) << 4;
    if (q < f->a->seq)
        ((uint32_t *)(void *)f->a->mask)[(f->h.row + q) * (f->a->padded / 32) + k0 / 32 + second] = word;
}

/* Whether keys of a tile are attended to at all: bit i of word w is key k0 + 32 w + i. */
RP_DEVICE void att16_keys_on(uint32_t *on, const struct att16_head *h, int k0)
{
    RP_UNROLL
    for (int w = 0; w < 2; w++) {
        const int k = k0 + 32 * w + att16_lane();
        on[w] = __ballot_sync(RP_ALL_LANES, k < h->seq && (!h->keys || h->keys[k]));
    }
}

/* Of those, which query q attends to. */
RP_DEVICE uint32_t att16_attended(uint32_t on, const struct att16_head *h, int q, int k)
{
    const int end = h->causal ? q + 1 : h->seq, first = h->first && q < h->seq ? h->first[q] : 0;
    return on & att16_bits(first - k, end - k);
}

/* Scores become exponentials; `most`, `sum` and, in rescale, what outputs so far are multiplied with. on: of keys of the tile. */
RP_DEVICE void att16_softmax(struct att16_forward *f, float *s, const uint32_t *on, int k0, float *rescale)
{
    const int column = 2 * (att16_lane() % 4);
    RP_UNROLL
    for (int r = 0; r < 2; r++) {
        const int q = f->q0 + att16_lane() / 4 + 8 * r;
        float most = f->most[r], part = 0.0f;
        RP_UNROLL
        for (int i = 0; i < 8; i++) { /* eights of keys */
            const uint32_t bits = att16_attended(on[i / 4], &f->h, q, k0 + 32 * (i / 4)) >> (8 * (i % 4) + column);
            RP_UNROLL
            for (int e = 0; e < 2; e++) {
                float *const x = s + 8 * (i / 2) + 2 * (2 * (i % 2) + r) + e;
                *x = bits >> e & 1 ? *x * f->a->scale : -__builtin_inff();
                most = *x > most ? *x : most;
            }
        }
        RP_UNROLL
        for (int lanes = 1; lanes < 4; lanes *= 2) {
            const float other = __shfl_xor_sync(RP_ALL_LANES, most, lanes);
            most = other > most ? other : most;
        }
        most = most + 0.0f;
        const float from = most == -__builtin_inff() ? 0.0f : most;
        rescale[r] = f->most[r] == most ? 1.0f : f->most[r] == -__builtin_inff() ? 0.0f : r_exp_below(f->most[r] - most);
        RP_UNROLL
        for (int i = 0; i < 16; i++) {
            float *const x = s + 8 * (i / 4) + 2 * (2 * (i / 2 % 2) + r) + i % 2;
            *x = r_exp_below(*x - from);
            part = part + *x;
        }
        f->sum[r] = fmaf(f->sum[r], rescale[r], part);
        f->most[r] = most;
    }
}

/* Exponentials of keys that are dropped become +0. own: of att16_decide(). */
RP_DEVICE void att16_drop(float *s, uint32_t own)
{
    const uint32_t other = __shfl_xor_sync(RP_ALL_LANES, own, 1);
    const int odd = att16_lane() & 1;
    const uint32_t bits[2] = {(odd ? other : own) >> 2 * odd, (odd ? own : other) >> 2 * odd};
    RP_UNROLL
    for (int r = 0; r < 2; r++)
        RP_UNROLL
        for (int i = 0; i < 16; i++) {
            float *const x = s + 8 * (i / 4) + 2 * (2 * (i / 2 % 2) + r) + i % 2;
            *x = bits[r] >> (4 * (i / 2) + i % 2) & 1 ? *x : 0.0f;
        }
}

RP_DEVICE void att16_tile(struct att16_forward *f, float *o, int n, int stage, const int width, const int format)
{
    const int size = att16_floats(RP_ATT16_LINES, width), k0 = n * RP_ATT16_LINES;
    const rp_smem keys = RP_SMEM_AFTER(f->shared, (1 + 2 * stage) * size);
    float s[8 * ATT16_TILES], of_row[2], factor[2];
    uint32_t on[2];
    att16_keys_on(on, &f->h, k0);
    att16_dots(s, f->shared, 16 * att16_warp(), keys, 0, ATT16_TILES, width, format);
    RP_UNROLL
    for (int i = 0; i < ATT16_TILES; i++)
        att16_spread(s + 8 * i, f->around);
    att16_softmax(f, s, on, k0, of_row);
    if (f->a->threshold) {
        const uint32_t bits = att16_decide(f, k0);
        att16_put_decisions(f, k0, bits);
        att16_drop(s, bits);
    }
    att16_rows(factor, of_row);
    RP_UNROLL
    for (int d = 0; d < width / 16; d++)
        RP_UNROLL
        for (int i = 0; i < 8; i++)
            o[8 * d + i] = o[8 * d + i] * factor[i >> 1 & 1];
    RP_UNROLL
    for (int i = 0; i < ATT16_TILES; i++) {
        uint32_t p[TC_FRAGMENT];
        att16_pack(p, s + 8 * i, f->around, format);
        att16_add(o, p, RP_SMEM_AFTER(keys, size), i, width, format);
    }
}

RP_DEVICE void att16_finish(struct att16_forward *f, const float *o, const int width, const int format)
{
    const struct rp_attention16_args *a = f->a;
    float of_row[2], factor[2];
    RP_UNROLL
    for (int r = 0; r < 2; r++) {
        const int q = f->q0 + att16_lane() / 4 + 8 * r;
        float l = f->sum[r];
        l = l + __shfl_xor_sync(RP_ALL_LANES, l, 1);
        l = l + __shfl_xor_sync(RP_ALL_LANES, l, 2);
        const float inv = 1.0f / l;
        of_row[r] = a->threshold ? inv * a->keep_scale : inv;
        if (q < a->seq && att16_lane() % 4 == 0) {
            a->row_max[f->h.row + q] = f->most[r];
            a->row_inv[f->h.row + q] = inv;
        }
    }
    att16_rows(factor, of_row);
    att16_store(a->o + ((int64_t)f->h.sample * a->seq + f->q0) * a->width + f->h.head * a->dim, a->width, a->seq - f->q0, a->dim, a->pairs, o,
                factor, width, format);
}

/* In causal attention the blocks with most keys come first. */
RP_DEVICE void att16_forward(const struct rp_attention16_args *a, const int width, const int format)
{
    struct att16_forward f;
    float o[8 * ATT16_MOST];
    f.a = a;
    f.h = att16_head_of((int)blockIdx.x, a->blocks, a->keys, a->first, a->seq, a->heads, a->causal);
    f.h.block = a->causal ? a->blocks - 1 - f.h.block : f.h.block;
    f.shared = rp_smem_of(RP_SHARED(float));
    f.around = RP_SHARED(float) + (1 + 2 * ATT16_STAGES) * att16_floats(RP_ATT16_LINES, width) + 16 * ATT16_AROUND_PITCH * att16_warp();
    f.x = a->qkv + (int64_t)f.h.sample * a->seq * a->ld + f.h.head * a->dim;
    f.q0 = f.h.block * RP_ATT16_LINES + 16 * att16_warp();
    const int q0 = f.h.block * RP_ATT16_LINES, last = q0 + RP_ATT16_LINES < a->seq ? q0 + RP_ATT16_LINES : a->seq;
    const int tiles = ((a->causal ? last : a->seq) + RP_ATT16_LINES - 1) / RP_ATT16_LINES;
    RP_UNROLL
    for (int i = 0; i < 8 * width / 16; i++)
        o[i] = 0.0f;
    f.most[0] = f.most[1] = -__builtin_inff();
    f.sum[0] = f.sum[1] = 0.0f;
    att16_copy(f.shared, f.x + (int64_t)q0 * a->ld, a->ld, a->seq - q0, a->dim, a->fast, RP_ATT16_LINES, width);
#if RP_ASYNC
    att16_copy_keys(&f, 0, 0, width);
    rp_copy_commit();
    RP_NO_UNROLL
    for (int n = 0; n < tiles; n++) {
        rp_copy_wait(0);
        __syncthreads(); /* tile n is complete, and the one before has been read */
        if (n + 1 < tiles)
            att16_copy_keys(&f, n + 1, (n + 1) % ATT16_STAGES, width);
        rp_copy_commit();
        att16_tile(&f, o, n, n % ATT16_STAGES, width, format);
    }
#else
    RP_NO_UNROLL
    for (int n = 0; n < tiles; n++) {
        __syncthreads(); /* the tile before has been read */
        att16_copy_keys(&f, n, 0, width);
        __syncthreads();
        att16_tile(&f, o, n, 0, width, format);
    }
#endif
    for (int n = tiles; a->threshold && n < a->padded / RP_ATT16_LINES; n++)
        att16_put_decisions(&f, n * RP_ATT16_LINES, 0);
    att16_finish(&f, o, width, format);
}

/* ---- backward ---- */

/* What both gradients do: own rows, keys or queries, against tiles of the others. Of a pair the score is own row times other row. */
struct att16_backward {
    const struct rp_attention16_backward_args *a;
    struct att16_head h;
    float *around;
    rp_smem own, stage;  /* own: two matrices; stage: the same two of the others */
    int first, row;      /* first own row of the block, of the warp */
};

/* Of a stage in shared memory, after the matrices: of each query its row_max, row_inv, D and first key; decisions about 64 keys of 64
 * queries, two words each; whether a key is attended to. */
#define ATT16_ABOUT (4 * RP_ATT16_LINES)
#define ATT16_WORDS (2 * RP_ATT16_LINES)
#define ATT16_EXTRA (ATT16_ABOUT + ATT16_WORDS + RP_ATT16_LINES / 4)
RP_DEVICE int att16_other_lines(int width) /* keeps a stage of wide heads as large as one of others */
{
    return RP_ATT16_LINES * 64 / width;
}

RP_DEVICE int att16_stage_floats(int width)
{
    return 2 * att16_floats(att16_other_lines(width), width) + ATT16_EXTRA;
}

/* Row q of what is known of queries. */
RP_DEVICE float4 att16_about(const struct att16_backward *b, int q)
{
    const int64_t at = b->h.row + q;
    if (q >= b->h.seq)
        return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(b->a->row_max[at], b->a->row_inv[at], b->a->big_d[at], r_float(b->h.first ? (uint32_t)b->h.first[q] : 0));
}

/* Lines line0 on of queries and their outputs' gradients, or of keys and values. */
RP_DEVICE void att16_copy_rows(const struct att16_backward *b, rp_smem to, int line0, const int queries, const int lines, const int width)
{
    const struct rp_attention16_backward_args *a = b->a;
    const int inside = a->seq - line0, size = att16_floats(lines, width);
    const int64_t row = (int64_t)b->h.sample * a->seq + line0, column = b->h.head * a->dim;
    const uint16_t *const x = a->qkv + row * a->ld + column;
    if (queries) {
        att16_copy(to, x, a->ld, inside, a->dim, a->fast, lines, width);
        att16_copy(RP_SMEM_AFTER(to, size), a->d_o + row * a->width + column, a->width, inside, a->dim, a->fast_o, lines, width);
    } else {
        att16_copy(to, x + a->width, a->ld, inside, a->dim, a->fast, lines, width);
        att16_copy(RP_SMEM_AFTER(to, size), x + 2 * a->width, a->ld, inside, a->dim, a->fast, lines, width);
    }
}

/* A stage: lines other0 on. The decisions are those of the queries among own or other lines about the 64 keys from k0 on. */
RP_DEVICE void att16_copy_stage(const struct att16_backward *b, int stage, int other0, const int of_keys, const int width)
{
    const int lines = att16_other_lines(width), t = (int)threadIdx.x;
    const rp_smem to = RP_SMEM_AFTER(b->stage, stage * att16_stage_floats(width));
    float *const extra = rp_smem_at(to, 2 * att16_floats(lines, width));
    const int q0 = of_keys ? other0 : b->first, k0 = of_keys ? b->first : other0, queries = of_keys ? lines : RP_ATT16_LINES;
    att16_copy_rows(b, to, other0, of_keys, lines, width);
    if (of_keys && t < lines)
        *(float4 *)(void *)(extra + 4 * t) = att16_about(b, other0 + t);
    if (b->a->mask && t < 2 * queries) {
        const int q = q0 + t / 2, word = k0 / 32 + t % 2;
        ((uint32_t *)(void *)(extra + ATT16_ABOUT))[t] =
            q < b->h.seq && word < b->a->padded / 32 ? ((const uint32_t *)(const void *)b->a->mask)[(b->h.row + q) * (b->a->padded / 32) + word] : 0;
    }
    if (!of_keys && t < lines)
        ((uint8_t *)(void *)(extra + ATT16_ABOUT + ATT16_WORDS))[t] =
            other0 + t < b->h.seq && (!b->h.keys || b->h.keys[other0 + t]);
}

/* Of a score and of what the output's gradient gives for it: the gradient of the score and the probability after dropout, in their places. */
RP_DEVICE void att16_pair(const struct att16_backward *b, float *s, float *dp, float4 about, int on, int kept)
{
    const float p = r_exp_below(*s * b->a->scale - about.x) * about.y;
    const float d = b->a->mask ? kept ? *dp * b->a->keep_scale : 0.0f : *dp, pd = b->a->mask ? kept ? p * b->a->keep_scale : 0.0f : p;
    *s = on ? (p * (d - about.z)) * b->a->scale : 0.0f;
    *dp = on ? pd : 0.0f;
}

/* 16 lines of a stage, number `slice`: their gradients of scores and probabilities as fragments. own_about: of queries. */
RP_DEVICE void att16_square(const struct att16_backward *b, uint32_t *ds, uint32_t *p, rp_smem at, int other0, int slice, const float4 *own_about,
                            const int *own_on, const int of_keys, const int width, const int format)
{
    const int lines = att16_other_lines(width), size = att16_floats(lines, width), warp = att16_warp();
    const float *const extra = rp_smem_at(at, 2 * size);
    const uint32_t *const words = (const uint32_t *)(const void *)(extra + ATT16_ABOUT);
    const uint8_t *const keys_on = (const uint8_t *)(const void *)(extra + ATT16_ABOUT + ATT16_WORDS);
    float s[8], dp[8];
    att16_dots(s, b->own, 16 * warp, at, 16 * slice, 1, width, format);
    att16_dots(dp, RP_SMEM_AFTER(b->own, att16_floats(RP_ATT16_LINES, width)), 16 * warp, RP_SMEM_AFTER(at, size), 16 * slice, 1, width, format);
    att16_spread(s, b->around);
    att16_spread(dp, b->around);
    RP_UNROLL
    for (int i = 0; i < 8; i++) {
        const int own = 16 * warp + att16_row(i / 2), line = 16 * slice + att16_column(i / 2) + i % 2;
        const int q = of_keys ? other0 + line : b->first + own, k = of_keys ? b->first + own : other0 + line;
        const float4 about = of_keys ? *(const float4 *)(const void *)(extra + 4 * line) : own_about[i / 2 % 2];
        const int in_query = of_keys ? line : own, in_keys = of_keys ? own : line;
        const int on = (of_keys ? own_on[i / 2 % 2] : keys_on[line]) && q < b->h.seq && (!b->h.causal || k <= q) && k >= (int)r_bits(about.w);
        const int kept = b->a->mask ? words[2 * in_query + in_keys / 32] >> in_keys % 32 & 1 : 0;
        att16_pair(b, s + i, dp + i, about, on, kept);
    }
    att16_pack(ds, s, b->around, format);
    if (of_keys)
        att16_pack(p, dp, b->around, format);
}

RP_DEVICE void att16_stage(const struct att16_backward *b, float *sum, float *sum_v, int stage, int other0, const float4 *own_about,
                           const int *own_on, const int of_keys, const int width, const int format)
{
    const int lines = att16_other_lines(width);
    const rp_smem at = RP_SMEM_AFTER(b->stage, stage * att16_stage_floats(width));
    RP_NO_UNROLL
    for (int slice = 0; slice < lines / 16; slice++) {
        uint32_t ds[TC_FRAGMENT], p[TC_FRAGMENT];
        att16_square(b, ds, p, at, other0, slice, own_about, own_on, of_keys, width, format);
        att16_add(sum, ds, at, slice, width, format);
        if (of_keys)
            att16_add(sum_v, p, RP_SMEM_AFTER(at, att16_floats(lines, width)), slice, width, format);
    }
}

/* dk and dv of 64 keys, or dq of 64 queries. */
RP_DEVICE void att16_gradients(const struct rp_attention16_backward_args *a, const int of_keys, const int width, const int format)
{
    const float one[2] = {1.0f, 1.0f};
    const int lines = att16_other_lines(width), own_floats = 2 * att16_floats(RP_ATT16_LINES, width);
    float sum[8 * ATT16_MOST], sum_v[8 * ATT16_MOST];
    float4 own_about[2];
    int own_on[2];
    struct att16_backward b;
    b.a = a;
    b.h = att16_head_of((int)blockIdx.x, a->blocks, a->keys, a->first, a->seq, a->heads, a->causal);
    b.h.block = a->causal && !of_keys ? a->blocks - 1 - b.h.block : b.h.block;
    b.own = rp_smem_of(RP_SHARED(float));
    b.stage = RP_SMEM_AFTER(b.own, own_floats);
    b.around = RP_SHARED(float) + own_floats + ATT16_STAGES * att16_stage_floats(width) + 16 * ATT16_AROUND_PITCH * att16_warp();
    b.first = b.h.block * RP_ATT16_LINES;
    b.row = b.first + 16 * att16_warp();
    RP_UNROLL
    for (int r = 0; r < 2; r++) {
        const int own = b.row + att16_lane() / 4 + 8 * r;
        own_about[r] = of_keys ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : att16_about(&b, own);
        own_on[r] = own < a->seq && (!of_keys || !b.h.keys || b.h.keys[own]);
    }
    RP_UNROLL
    for (int i = 0; i < 8 * width / 16; i++)
        sum[i] = sum_v[i] = 0.0f;
    /* causal: queries from these keys on, keys up to these queries */
    const int from = a->causal && of_keys ? b.first : 0, to = a->causal && !of_keys && b.first + RP_ATT16_LINES < a->seq ? b.first + RP_ATT16_LINES : a->seq;
    att16_copy_rows(&b, b.own, b.first, !of_keys, RP_ATT16_LINES, width);
#if RP_ASYNC
    int stage = 0;
    att16_copy_stage(&b, 0, from, of_keys, width);
    rp_copy_commit();
    RP_NO_UNROLL
    for (int at = from; at < to; at += lines) {
        rp_copy_wait(0);
        __syncthreads(); /* this stage is complete, and the one before has been read */
        if (at + lines < to)
            att16_copy_stage(&b, stage ^ 1, at + lines, of_keys, width);
        rp_copy_commit();
        att16_stage(&b, sum, sum_v, stage, at, own_about, own_on, of_keys, width, format);
        stage ^= 1;
    }
#else
    RP_NO_UNROLL
    for (int at = from; at < to; at += lines) {
        __syncthreads(); /* the stage before has been read */
        att16_copy_stage(&b, 0, at, of_keys, width);
        __syncthreads();
        att16_stage(&b, sum, sum_v, 0, at, own_about, own_on, of_keys, width, format);
    }
#endif
    uint16_t *const out = a->dqkv + ((int64_t)b.h.sample * a->seq + b.row) * a->ld + b.h.head * a->dim;
    att16_store(out + (of_keys ? a->width : 0), a->ld, a->seq - b.row, a->dim, a->pairs, sum, one, width, format);
    if (of_keys)
        att16_store(out + 2 * a->width, a->ld, a->seq - b.row, a->dim, a->pairs, sum_v, one, width, format);
}

/* big_d[row of row_max] = sum128 over a head's columns of d_o * o; a warp for each row and head. */
RP_DEVICE void att16_big_d(const struct rp_attention16_dots_args *a, const int format)
{
    const int64_t number = (int64_t)blockIdx.x * (blockDim.x / RP_WARP) + att16_warp();
    const int row = (int)(number / a->heads), head = (int)(number % a->heads), sample = row / a->seq, q = row % a->seq;
    const int64_t at = (int64_t)row * a->heads * a->dim + head * a->dim;
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row >= a->rows)
        return;
    RP_UNROLL
    for (int i = 0; i < 4; i++) { /* lane l of the warp has lanes l, l + 32, l + 64 and l + 96 of the sum */
        const int d = att16_lane() + 32 * i;
        if (d < a->dim)
            x[i] = x[i] + tc_value(a->d_o[at + d], format) * tc_value(a->o[at + d], format);
    }
    float s = (x[0] + x[2]) + (x[1] + x[3]);
    RP_UNROLL
    for (int step = 16; step; step /= 2)
        s = s + __shfl_xor_sync(RP_ALL_LANES, s, step);
    if (att16_lane() == 0)
        a->big_d[((int64_t)sample * a->heads + head) * a->seq + q] = s;
}
