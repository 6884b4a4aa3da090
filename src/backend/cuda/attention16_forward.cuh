/* The forward pass of attention with tensor cores: att16_forward() makes the outputs of 64 queries of a head. */
#pragma once

#include "backend/cuda/attention16.cuh"

struct att16_forward {
    const struct rp_attention16_args *a;
    struct att16_head h;
    rp_smem shared;
    float *around;          /* of the warp, on sm_70 */
    const uint16_t *x;      /* the head's first element in qkv */
    int q0;                 /* first query of the warp */
    float most[2], sum[2];  /* of rows l / 4 and 8 more: the largest score, and the partial sum of the lane */
};

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

/* 64 keys of a row are two words of the mask: lanes 0 and 1 of four write the first of their rows, 2 and 3 the
 * second. */
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

/* Scores become exponentials; `most`, `sum` and, in rescale, what outputs so far are multiplied with. on: of keys of
 * the tile. */
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
