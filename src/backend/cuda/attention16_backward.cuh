/* The backward pass of attention with tensor cores: att16_big_d(), then att16_gradients() for dk and dv of 64 keys, and
 * for dq of 64 queries. Both compute scores and probabilities again. */
#pragma once

#include "backend/cuda/attention16.cuh"

/* What both gradients do: own rows, keys or queries, against tiles of the others. Of a pair the score is own row times
 * other row. */
struct att16_backward {
    const struct rp_attention16_backward_args *a;
    struct att16_head h;
    float *around;
    rp_smem own, stage;  /* own: two matrices; stage: the same two of the others */
    int first, row;      /* first own row of the block, of the warp */
};

/* Of a stage in shared memory, after the matrices: of each query its row_max, row_inv, D and first key; decisions about
 * 64 keys of 64 queries, two words each; whether a key is attended to. */
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

/* A stage: lines other0 on. The decisions are those of the queries among own or other lines about the 64 keys from k0
 * on. */
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

/* Of a score and of what the output's gradient gives for it: the gradient of the score and the probability after
 * dropout, in their places. */
RP_DEVICE void att16_pair(const struct att16_backward *b, float *s, float *dp, float4 about, int on, int kept)
{
    const float p = r_exp_below(*s * b->a->scale - about.x) * about.y;
    const float d = b->a->mask ? kept ? *dp * b->a->keep_scale : 0.0f : *dp, pd = b->a->mask ? kept ? p * b->a->keep_scale : 0.0f : p;
    *s = on ? (p * (d - about.z)) * b->a->scale : 0.0f;
    *dp = on ? pd : 0.0f;
}

/* 16 lines of a stage, number `slice`: their gradients of scores and probabilities as fragments. own_about: of
 * queries. */
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
