/* Attention, forward, for sequences of any length: a block makes the outputs of 8 * rows queries of one head of one
 * sample in three passes over the keys (see attention_stream.cuh), and then those of other queries.
 *
 *     top           the scores, and the largest of each query
 *     sums          e, and sum128 of it: a thread has the lanes of its columns
 *     outputs       o[q, d] = chain over k of p * v
 *
 * The first `kept_tiles` tiles of 64 keys are in the block's slab of global memory: as scores after the first pass, as
 * e after the second one. Later tiles are computed again in each pass. A thread reads what it has written itself:
 * [tile][row of the thread][thread][its four keys].
 *
 * attention.cu has the scores in shared memory instead, where there is room for all of a query. */
#include "backend/cuda/attention_stream.cuh"
#include "ops/philox.h"

struct forward {
    struct stream f;
    const struct rp_attention_forward_args *a;
    const uint8_t *keys; /* of the sample; NULL: all */
    int sample, head;
    int kept_end;        /* keys f.begin .. kept_end - 1 are in the slab */
};

/* ---- kept tiles ---- */

/* This thread's first element of the tile of keys from k. Computed each time: an address would take registers over all
 * loops. */
RP_DEVICE float *kept_at(const int rows, const struct forward *b, int k)
{
    const int floats = RP_ATT_QUERIES(rows) * RP_ATT_KEYS;
    const int at = (k - b->f.begin) * RP_ATT_QUERIES(rows) + 4 * att_again((int)threadIdx.x);
    return b->a->slabs + ((size_t)blockIdx.x * (size_t)(b->a->kept_tiles * floats) + (size_t)at);
}
RP_DEVICE void keep_tile(const int rows, float *to, float (*s)[4])
{
    RP_UNROLL
    for (int i = 0; i < rows; i++)
        att_write(to + 4 * RP_ATT_THREADS * i, make_float4(s[i][0], s[i][1], s[i][2], s[i][3]));
}
RP_DEVICE void take_tile(const int rows, const float *from, float (*s)[4])
{
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const float4 v = att_read(from + 4 * RP_ATT_THREADS * i);
        s[i][0] = v.x;
        s[i][1] = v.y;
        s[i][2] = v.z;
        s[i][3] = v.w;
    }
}

/* ---- softmax ---- */

/* Bit j: key k + col + 16 j is attended to by some query. */
RP_DEVICE uint32_t keys_on(const struct forward *b, int k)
{
    const int col = att_owner().col;
    uint32_t on = 0;
    RP_UNROLL
    for (int j = 0; j < 4; j++, k += 16)
        on |= (uint32_t)(k + col < b->f.others && (!b->keys || b->keys[k + col])) << j;
    return on;
}

/* The bits of `on` for keys from the first of query row + 8 i up to it. */
RP_DEVICE uint32_t attended(const struct forward *b, const struct att_owner *me, uint32_t on, int i, int k)
{
    const int row = b->f.first + me->row + 8 * i, ahead = row - k - me->col;
    on = att_from(on, att_first(b->a->first, b->sample, b->a->seq, row) - k - me->col);
    return !b->a->causal || ahead >= 48 ? on : ahead < 0 ? 0 : on & ((2u << ahead / 16) - 1);
}

RP_DEVICE float larger(float x, float y)
{
    return y > x ? y : x;
}

RP_DEVICE size_t row_number(const struct forward *b, int row)
{
    return ((size_t)b->sample * (size_t)b->a->heads + (size_t)b->head) * (size_t)b->a->seq + (size_t)row;
}

/* Words of an own row. */
enum { TOP, INV, KEEP };

/* s: the scores of the tile that comes. */
RP_DEVICE void scores(const int rows, const int W, const int products, const struct forward *b, const struct stream *f,
                      struct passing *at, float (*s)[4])
{
    stream_dots(rows, W, 1, products, f, at, s, 0);
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            s[i][j] = (s[i][j] + 0.0f) * b->a->scale;
    }
}

RP_DEVICE void top_of_scores(const int rows, const int W, const struct forward *b)
{
    const struct stream *f = &b->f;
    struct passing at = stream_begin(W, 1, 0, f);
    float m[ATT_ROWS];
    RP_UNROLL
    for (int i = 0; i < rows; i++)
        m[i] = -__builtin_inff();
    RP_NO_UNROLL
    for (int k = f->begin; k < f->others; k += RP_ATT_KEYS) {
        float s[ATT_ROWS][4];
        scores(rows, W, 0, b, f, &at, s);
        if (k < b->kept_end)
            keep_tile(rows, kept_at(rows, b, k), s);
        const uint32_t all = keys_on(b, k);
        const struct att_owner me = att_owner();
        RP_UNROLL
        for (int i = 0; i < rows; i++) {
            const uint32_t on = attended(b, &me, all, i, k);
            RP_UNROLL
            for (int j = 0; j < 4; j++)
                m[i] = on >> j & 1 ? larger(m[i], s[i][j]) : m[i];
        }
    }
    const struct att_owner me = att_owner();
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        m[i] = larger(m[i], __shfl_xor_sync(RP_ALL_LANES, m[i], 1));
        m[i] = larger(m[i], __shfl_xor_sync(RP_ALL_LANES, m[i], 8));
        m[i] = larger(m[i], __shfl_xor_sync(RP_ALL_LANES, m[i], 16));
        if ((me.col & 7) == 0)
            f->square[(me.row + 8 * i) * RP_ATT_SQUARE_PITCH + me.col / 8] = m[i];
    }
    __syncthreads();
    if ((int)threadIdx.x < RP_ATT_QUERIES(rows)) {
        const float *two = f->square + (int)threadIdx.x * RP_ATT_SQUARE_PITCH;
        const float top = larger(two[0], two[1]) + 0.0f;
        const int row = f->first + (int)threadIdx.x;
        f->row[4 * (int)threadIdx.x + TOP] = top;
        if (row < b->a->seq)
            b->a->row_max[row_number(b, row)] = top;
    }
    __syncthreads();
}

/* s becomes e. */
RP_DEVICE void exponentials(const int rows, const struct forward *b, float (*s)[4], uint32_t all, int k)
{
    const struct att_owner me = att_owner();
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const uint32_t on = attended(b, &me, all, i, k);
        /* rows one by one: together they would take all registers */
        const float top = b->f.row[4 * att_again(me.row + 8 * i) + TOP];
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            s[i][j] = att_exp(s[i][j] - top, on >> j);
    }
}

/* Adds e of keys from k to the lanes. */
RP_DEVICE void add_lanes(const int rows, float (*low)[4], float (*high)[4], float (*e)[4], int k)
{
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            if (k & RP_ATT_KEYS)
                high[i][j] = high[i][j] + e[i][j];
            else
                low[i][j] = low[i][j] + e[i][j];
    }
}

/* Lane col + 16 j of sum128 is low[.][j] of column `col`, lane 64 + col + 16 j high[.][j]. */
RP_DEVICE void sums_of_scores(const int rows, const int W, const struct forward *b)
{
    struct stream rest = b->f;
    float low[ATT_ROWS][4], high[ATT_ROWS][4], s[ATT_ROWS][4];
    const struct stream *f = &rest;
    rest.begin = b->kept_end;
    att_clear(rows, low);
    att_clear(rows, high);
    RP_NO_UNROLL
    for (int k = b->f.begin; k < b->kept_end; k += RP_ATT_KEYS) {
        float *at = kept_at(rows, b, k);
        take_tile(rows, at, s);
        exponentials(rows, b, s, keys_on(b, k), k);
        keep_tile(rows, at, s);
        add_lanes(rows, low, high, s, k);
    }
    if (b->kept_end < f->others) {
        struct passing at = stream_begin(W, 1, 0, f);
        RP_NO_UNROLL
        for (int k = f->begin; k < f->others; k += RP_ATT_KEYS) {
            scores(rows, W, 0, b, f, &at, s);
            exponentials(rows, b, s, keys_on(b, k), k);
            add_lanes(rows, low, high, s, k);
        }
    }
    const struct att_owner me = att_owner();
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            low[i][j] = low[i][j] + high[i][j];
        low[i][0] = (low[i][0] + low[i][2]) + (low[i][1] + low[i][3]);
        f->square[(me.row + 8 * i) * RP_ATT_SQUARE_PITCH + me.col] = low[i][0];
    }
    __syncthreads();
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        float l = low[i][0] + f->square[(me.row + 8 * i) * RP_ATT_SQUARE_PITCH + (me.col ^ 8)];
        l = l + __shfl_xor_sync(RP_ALL_LANES, l, 16);
        l = l + __shfl_xor_sync(RP_ALL_LANES, l, 8);
        l = l + __shfl_xor_sync(RP_ALL_LANES, l, 1);
        const float inv = 1.0f / l;
        const int row = f->first + me.row + 8 * i;
        if (me.col == 0) {
            f->row[4 * (me.row + 8 * i) + INV] = inv;
            if (row < b->a->seq)
                b->a->row_inv[row_number(b, row)] = inv;
        }
    }
    __syncthreads();
}

/* ---- decisions ---- */

/* For keys k .. k + 3 of query `row`, as four bits. Those past the sequence, or after a causal query, are 0. */
RP_DEVICE uint32_t decide(const struct forward *b, int row, int k)
{
    const struct rp_attention_forward_args *a = b->a;
    const uint32_t block = (uint32_t)((a->first_head + b->head) * a->seq + row) * (uint32_t)(a->padded / 4) + (uint32_t)(k / 4);
    uint32_t x[4] = {block, a->first_sample + (uint32_t)b->sample, a->site, a->step};
    const int end = a->causal && row < a->seq ? row + 1 : a->seq;
    const uint32_t past = k + 3 < end ? 0xf : k < end ? (1u << (end - k)) - 1 : 0;
    uint32_t low = (uint32_t)a->seed, high = (uint32_t)(a->seed >> 32);
    RP_OPAQUE(low); /* the round keys are computed again each time instead of taking 20 registers */
    RP_OPAQUE(high);
    rp_philox(x, (uint64_t)high << 32 | low);
    return ((uint32_t)(x[0] >= a->threshold) | (uint32_t)(x[1] >= a->threshold) << 1 | (uint32_t)(x[2] >= a->threshold) << 2 |
            (uint32_t)(x[3] >= a->threshold) << 3) &
           past;
}

/* Of all own queries for keys k .. k + 63, into their rows and the mask: 16 lanes a query. */
RP_DEVICE void decisions(const int rows, const struct forward *b, int k)
{
    const struct rp_attention_forward_args *a = b->a;
    const int quad = (int)threadIdx.x % 16, lane = (int)threadIdx.x % 8;
    RP_NO_UNROLL
    for (int q = (int)threadIdx.x / 16; q < RP_ATT_QUERIES(rows); q += RP_ATT_THREADS / 16) {
        const int row = b->f.first + q, word_at = quad / 8;
        uint32_t word = decide(b, row, k + 4 * quad) << 4 * lane;
        word |= __shfl_xor_sync(RP_ALL_LANES, word, 1);
        word |= __shfl_xor_sync(RP_ALL_LANES, word, 2);
        word |= __shfl_xor_sync(RP_ALL_LANES, word, 4);
        if (lane == 0) {
            b->f.row[4 * q + KEEP + word_at] = __uint_as_float(word);
            if (row < a->seq)
                ((uint32_t *)(void *)a->mask)[row_number(b, row) * (size_t)(a->padded / 32) + (size_t)(k / 32 + word_at)] = word;
        }
    }
}

/* Zeros for keys from k to the end of the rows of the mask. */
RP_DEVICE void no_decisions(const int rows, const struct forward *b, int k)
{
    const struct att_owner me = att_owner();
    const int words = b->a->padded / 32;
    for (int q = me.warp; q < RP_ATT_QUERIES(rows) && b->f.first + q < b->a->seq; q += RP_ATT_THREADS / RP_WARP)
        for (int w = k / 32 + me.lane; w < words; w += RP_WARP)
            ((uint32_t *)(void *)b->a->mask)[row_number(b, b->f.first + q) * (size_t)words + (size_t)w] = 0;
}

/* ---- outputs ---- */

/* e becomes p after dropout. */
RP_DEVICE void probabilities(const int rows, const struct forward *b, float (*s)[4])
{
    const struct att_owner me = att_owner();
    const float scale = b->a->keep_scale;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const float4 row = att_read(b->f.row + 4 * att_again(me.row + 8 * i));
        const uint32_t keep[2] = {__float_as_uint(row.z) >> me.col, __float_as_uint(row.w) >> me.col};
        RP_UNROLL
        for (int j = 0; j < 4; j++) {
            s[i][j] = s[i][j] * row.y;
            if (b->a->threshold)
                s[i][j] = keep[j / 2] >> 16 * (j % 2) & 1 ? s[i][j] * scale : 0.0f;
        }
    }
}

/* Of keys in the slab. e of the next tile is on its way during a product, from sm_80 on: before, a stage is on its way
 * in registers too. */
RP_DEVICE void outputs_of_kept(const int rows, const int W, const struct forward *b, float (*o)[STREAM_COLUMNS])
{
    struct stream f = b->f;
    float s[ATT_ROWS][4];
    f.others = b->kept_end;
    struct passing at = stream_begin(W, 0, 1, &f);
#if RP_ASYNC
    take_tile(rows, kept_at(rows, b, f.begin), s);
#endif
    RP_NO_UNROLL
    for (int k = f.begin; k < f.others; k += RP_ATT_KEYS) {
        if (b->a->threshold)
            decisions(rows, b, k);
#if !RP_ASYNC
        take_tile(rows, kept_at(rows, b, k), s);
#endif
        __syncthreads(); /* the square was read, decisions are there */
        probabilities(rows, b, s);
        stream_put_square(rows, &f, s);
#if RP_ASYNC
        if (k + RP_ATT_KEYS < f.others)
            take_tile(rows, kept_at(rows, b, k + RP_ATT_KEYS), s);
#endif
        stream_rows(rows, W, 0, 1, &f, &at, o, k);
    }
    __syncthreads();
}

RP_DEVICE void outputs_of_rest(const int rows, const int W, const struct forward *b, float (*o)[STREAM_COLUMNS])
{
    struct stream f = b->f;
    f.begin = b->kept_end;
    struct passing at = stream_begin(W, 1, 1, &f);
    RP_NO_UNROLL
    for (int k = f.begin; k < f.others; k += RP_ATT_KEYS) {
        float s[ATT_ROWS][4];
        if (b->a->threshold)
            decisions(rows, b, k);
        scores(rows, W, 1, b, &f, &at, s);
        exponentials(rows, b, s, keys_on(b, k), k);
        probabilities(rows, b, s);
        stream_put_square(rows, &f, s);
        stream_rows(rows, W, 1, 1, &f, &at, o, k);
    }
    __syncthreads();
}

/* Columns from f.column on. */
RP_DEVICE void outputs(const int rows, const int W, const struct forward *b)
{
    float o[ATT_ROWS][STREAM_COLUMNS];
    stream_clear(rows, W, o);
    if (b->f.begin < b->kept_end)
        outputs_of_kept(rows, W, b, o);
    if (b->kept_end < b->f.others)
        outputs_of_rest(rows, W, b, o);
    float *to = b->a->o + (size_t)b->sample * (size_t)b->a->seq * (size_t)b->a->width + (size_t)(b->head * b->a->dim);
    stream_put(rows, W, &b->f, o, to, b->a->width, b->a->seq);
}

/* Decisions for keys that no own query attends to. */
RP_DEVICE void other_decisions(const int rows, const struct forward *b)
{
    const int end = (b->f.others + RP_ATT_KEYS - 1) / RP_ATT_KEYS * RP_ATT_KEYS;
    for (int k = 0; k < b->f.begin; k += RP_ATT_KEYS)
        decisions(rows, b, k);
    if (b->a->causal)
        no_decisions(rows, b, end);
    else
        for (int k = end; k < b->a->padded; k += RP_ATT_KEYS)
            decisions(rows, b, k);
}

/* ---- queries ---- */

/* Tile number `tile` of queries of head number `head` of all samples. */
RP_DEVICE void forward_tile(const int rows, const int W, const struct rp_attention_forward_args *a, int head, int tile)
{
    struct forward b;
    const int seq = a->seq;
    b.a = a;
    b.sample = head / a->heads;
    b.head = head % a->heads;
    b.f.dim = a->dim;
    b.f.whole = a->whole;
    stream_shared(rows, W, 1, 1, 4 * RP_ATT_KEYS, &b.f);
    b.f.first = tile * RP_ATT_QUERIES(rows);
    const float *x = a->qkv + (size_t)b.sample * (size_t)seq * (size_t)a->ld + (size_t)(b.head * a->dim);
    b.f.dots[0] = b.f.dots[1] = x + a->width;
    b.f.rows = x + 2 * a->width;
    b.f.dots_ld[0] = b.f.dots_ld[1] = b.f.rows_ld = a->ld;
    b.keys = a->keys ? a->keys + (size_t)b.sample * (size_t)seq : 0;
    /* tiles before it have no key of own queries */
    b.f.begin = att_first(a->first, b.sample, seq, b.f.first) / RP_ATT_KEYS * RP_ATT_KEYS;
    const int end = b.f.first + RP_ATT_QUERIES(rows);
    b.f.others = att_keys(b.keys, a->causal && end < seq ? end : seq, att_owner().lane);
    b.kept_end = b.f.begin + a->kept_tiles * RP_ATT_KEYS;
    b.kept_end = b.kept_end < b.f.others ? b.kept_end : b.f.others;
    stream_own(rows, &b.f, 0, x, a->ld, seq);
    top_of_scores(rows, W, &b);
    sums_of_scores(rows, W, &b);
    if (a->threshold)
        other_decisions(rows, &b);
    RP_NO_UNROLL
    for (int c = 0; c < (W < STREAM_COLUMNS ? 1 : a->dim); c += 16 * W) { /* only the widest may have several */
        b.f.column = c;
        outputs(rows, W, &b);
    }
    rp_copy_wait(0); /* without keys no stage waited for the own rows: the next tile copies to the same addresses */
}

/* Tiles in order of their length (causal: the last one of every head first), a round at a time, every second one
 * backwards: so all blocks have about the same work. */
RP_DEVICE void forward(const int rows, const int W, const struct rp_attention_forward_args *a)
{
    const unsigned heads = (unsigned)a->tiles / (unsigned)a->blocks;
    RP_NO_UNROLL
    for (unsigned round = 0; round * gridDim.x < (unsigned)a->tiles; round++) {
        const unsigned n = round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
        if (n < (unsigned)a->tiles)
            forward_tile(rows, W, a, (int)(n % heads), a->blocks - 1 - (int)(n / heads));
    }
}

#define STREAM_FORWARD(rows, W)                                                                                        \
    RP_KERNEL(attention_stream_##rows##x##W)                                                                           \
    {                                                                                                                  \
        forward(rows, W, &a);                                                                                          \
    }
STREAM_FORWARD(8, 4)
STREAM_FORWARD(8, 6)
STREAM_FORWARD(8, 8)
STREAM_FORWARD(4, 4)
STREAM_FORWARD(4, 6)
STREAM_FORWARD(4, 8)
