/* Attention, forward: one block makes the outputs of 8 * rows queries of one head of one sample, in two passes over the
 * keys.
 *
 *     scores        p[q, k] = (chain over d of q * k) * scale      keys in stages of 64 x 16, three of them in shared
 *                                                                  memory
 *     softmax       in place, a warp four queries at a time        all scores of a query are here: nothing is rescaled
 *     outputs       o[q, d] = chain over k of p * v                values in stages of 16 x 64
 *
 * Heads wider than 64 are processed 64 columns at a time: the chain of a score then continues from its stored value.
 * Keys after the last one attended to are skipped. Stages are copied two ahead; before sm_80 they are loaded one ahead,
 * through registers. */
#include "backend/cuda/attention.cuh"
#include "ops/philox.h"

struct forward {
    const struct rp_attention_forward_args *a;
    struct att_owner me;
    float *p, *q, *stage; /* squares of [queries, RP_ATT_SQUARE_PITCH], [queries, RP_ATT_TILE_PITCH], stages */
    uint8_t *on;          /* [padded seq]: the key mask, +0 past its end */
    const float *x;       /* the head's first element in qkv */
    int square;           /* floats from square to square */
    int sample, head, first; /* first: query */
    int keys;             /* up to the last attended to */
};

/* ---- stages ---- */

/* One stage, or nothing: `rows` of it <= 0. */
struct stage {
    struct att_part part;
    int values; /* 16 rows x 64 columns, else 64 x 16 */
    int slot;
};

#if RP_ASYNC
#define PREFETCH 2
struct prefetch {
    int none;
};
RP_DEVICE void stage_start(const struct forward *f, const struct stage *s, struct prefetch *prefetch)
{
    float *to = f->stage + s->slot * RP_ATT_STAGE;
    (void)prefetch;
    if (s->part.rows > 0 && s->values)
        att_copy(RP_ATT_STEP, 16, to, RP_ATT_DIM, &s->part);
    else if (s->part.rows > 0)
        att_copy(RP_ATT_KEYS, RP_ATT_STEP / 4, to, RP_ATT_STEP_PITCH, &s->part);
    rp_copy_commit();
}
RP_DEVICE void stage_land(const struct forward *f, const struct stage *s, const struct prefetch *prefetch)
{
    (void)f, (void)s, (void)prefetch;
}
#else
#define PREFETCH 1
struct prefetch {
    float4 v[ATT_FOURS(RP_ATT_KEYS, RP_ATT_STEP / 4)];
};
RP_DEVICE void stage_start(const struct forward *f, const struct stage *s, struct prefetch *prefetch)
{
    (void)f;
    if (s->part.rows > 0 && s->values)
        att_load(RP_ATT_STEP, 16, prefetch->v, &s->part);
    else if (s->part.rows > 0)
        att_load(RP_ATT_KEYS, RP_ATT_STEP / 4, prefetch->v, &s->part);
}
RP_DEVICE void stage_land(const struct forward *f, const struct stage *s, const struct prefetch *prefetch)
{
    float *to = f->stage + s->slot * RP_ATT_STAGE;
    if (s->part.rows > 0 && s->values)
        att_store(RP_ATT_STEP, 16, to, RP_ATT_DIM, prefetch->v);
    else if (s->part.rows > 0)
        att_store(RP_ATT_KEYS, RP_ATT_STEP / 4, to, RP_ATT_STEP_PITCH, prefetch->v);
}
#endif

RP_DEVICE int next_slot(int slot)
{
    return slot + 1 == RP_ATT_STAGES ? 0 : slot + 1;
}

/* Keys from `tile` * 64, columns from c + `step` * 16. */
RP_DEVICE struct stage key_stage(const struct forward *f, int c, int tile, int step, int slot)
{
    const struct rp_attention_forward_args *a = f->a;
    const int k = tile * RP_ATT_KEYS, d = c + step * RP_ATT_STEP;
    struct stage s = {{f->x + a->width, k * a->ld + d, a->ld, f->keys - k, a->dim - d, a->whole}, 0, slot};
    return s;
}

/* Values number `t` * 16 on, columns from c. */
RP_DEVICE struct stage value_stage(const struct forward *f, int c, int t, int slot)
{
    const struct rp_attention_forward_args *a = f->a;
    const int k = t * RP_ATT_STEP;
    struct stage s = {{f->x + 2 * a->width, k * a->ld + c, a->ld, f->keys - k, a->dim - c, a->whole}, 1, slot};
    return s;
}

/* Starts the first PREFETCH stages; no thread may still read the slots. */
RP_DEVICE void values_begin(const struct forward *f, int c)
{
    struct prefetch prefetch;
    for (int t = 0; t < PREFETCH; t++) {
        const struct stage s = value_stage(f, c, t, t);
        stage_start(f, &s, &prefetch);
        stage_land(f, &s, &prefetch);
    }
}

/* ---- scores ---- */

/* Stores a tile of chains: finished scores with the last columns, else the chains so far. */
RP_DEVICE void put_scores(const int rows, const struct forward *f, float (*s)[4], int tile, int last)
{
    const float scale = f->a->scale;
    float *p = f->p + tile * f->square + f->me.row * RP_ATT_SQUARE_PITCH + f->me.col;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            p[8 * i * RP_ATT_SQUARE_PITCH + 16 * j] = last ? (s[i][j] + 0.0f) * scale : s[i][j];
    }
}

RP_DEVICE void get_scores(const int rows, const struct forward *f, float (*s)[4], int tile)
{
    const float *p = f->p + tile * f->square + f->me.row * RP_ATT_SQUARE_PITCH + f->me.col;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            s[i][j] = p[8 * i * RP_ATT_SQUARE_PITCH + 16 * j];
    }
}

/* Columns c .. c + 64 of all scores. */
RP_DEVICE void scores(const int rows, const struct forward *f, int c)
{
    const int left = f->a->dim - c, steps = left < RP_ATT_DIM ? (left + RP_ATT_STEP - 1) / RP_ATT_STEP : RP_ATT_DIM / RP_ATT_STEP;
    const int tiles = (f->keys + RP_ATT_KEYS - 1) / RP_ATT_KEYS;
    const struct att_part queries = {f->x, f->first * f->a->ld + c, f->a->ld, f->a->seq - f->first, left, f->a->whole};
    struct prefetch prefetch;
    struct stage next;
    float s[ATT_ROWS][4];
    int tile = 0, step = 0, slot = 0; /* of the stage to be started */
    att_copy(RP_ATT_QUERIES(rows), RP_ATT_DIM / 4, f->q, RP_ATT_TILE_PITCH, &queries);
    for (int t = 0; t < PREFETCH; t++) {
        next = key_stage(f, c, tile, step, slot);
        stage_start(f, &next, &prefetch);
        stage_land(f, &next, &prefetch);
        slot = next_slot(slot);
        if (++step == steps) {
            step = 0;
            tile++;
        }
    }
    const float *x = f->q + f->me.row * RP_ATT_TILE_PITCH, *y = f->stage + f->me.col * RP_ATT_STEP_PITCH;
    int at = 0;
    for (int made = 0; made < tiles; made++) {
        if (c > 0)
            get_scores(rows, f, s, made);
        else
            att_clear(rows, s);
        RP_NO_UNROLL
        for (int d = 0; d < steps; d++) {
            rp_copy_wait(PREFETCH - 1);
            __syncthreads();
            next = key_stage(f, c, tile, step, slot);
            stage_start(f, &next, &prefetch);
            att_dots(rows, RP_ATT_STEP, s, x + d * RP_ATT_STEP, RP_ATT_TILE_PITCH, y + at * RP_ATT_STAGE, RP_ATT_STEP_PITCH);
            stage_land(f, &next, &prefetch);
            at = next_slot(at);
            slot = next_slot(slot);
            if (++step == steps) {
                step = 0;
                tile++;
            }
        }
        put_scores(rows, f, s, made, left <= RP_ATT_DIM);
    }
    rp_copy_wait(0); /* without keys no stage waited for the queries */
    __syncthreads();
}

/* ---- softmax ---- */

/* Of two values of every lane, lanes without `bit` keep lo and the others hi, each added to its partner's. */
RP_DEVICE float fold(float lo, float hi, int lane, int bit)
{
    const int up = lane & bit;
    return (up ? hi : lo) + __shfl_xor_sync(RP_ALL_LANES, up ? lo : hi, bit);
}
RP_DEVICE float larger(float x, float y)
{
    return y > x ? y : x;
}
RP_DEVICE float fold_larger(float lo, float hi, int lane, int bit)
{
    const int up = lane & bit;
    return larger(up ? hi : lo, __shfl_xor_sync(RP_ALL_LANES, up ? lo : hi, bit));
}

RP_DEVICE uint32_t fold_bits(uint32_t lo, uint32_t hi, int lane, int bit)
{
    const int up = lane & bit;
    return (up ? hi : lo) | __shfl_xor_sync(RP_ALL_LANES, up ? lo : hi, bit);
}

/* Lanes 8 i .. 8 i + 7 get the largest of m[i] over all lanes, + (+0). */
RP_DEVICE float largest_of_rows(const float *m, int lane)
{
    float x = fold_larger(fold_larger(m[0], m[2], lane, 16), fold_larger(m[1], m[3], lane, 16), lane, 8);
    RP_UNROLL
    for (int bit = 4; bit > 0; bit /= 2)
        x = larger(x, __shfl_xor_sync(RP_ALL_LANES, x, bit));
    return x + 0.0f;
}

/* Lanes 8 i .. 8 i + 7 get sum128 of row i, where lane t holds the sums of elements 4 t + j, j < 4, of every 128:
 * halving by 64, 32, 16, 8 and 4 is between lanes 16, 8, 4, 2, 1 apart, by 2 and 1 between j. x + y = y + x, so either
 * partner has the sum's bits. */
RP_DEVICE float sums_of_rows(float (*l)[4], int lane)
{
    float x[4];
    RP_UNROLL
    for (int j = 0; j < 4; j++)
        x[j] = fold(fold(l[0][j], l[2][j], lane, 16), fold(l[1][j], l[3][j], lane, 16), lane, 8);
    float s = fold(fold(x[0], x[2], lane, 4), fold(x[1], x[3], lane, 4), lane, 2);
    s = s + __shfl_xor_sync(RP_ALL_LANES, s, 1);
    s = s + __shfl_xor_sync(RP_ALL_LANES, s, 4);
    return s + __shfl_xor_sync(RP_ALL_LANES, s, 2);
}

/* Where key k of a row lies, from the row's start. */
RP_DEVICE int place(const struct forward *f, int k)
{
    return k / RP_ATT_KEYS * f->square + k % RP_ATT_KEYS;
}
/* Four bytes of the mask, where there are four keys. */
RP_DEVICE uint32_t four_keys(const struct forward *f, int k)
{
    return *(const uint32_t *)(const void *)(f->on + k);
}

/* Four rows' scores of keys before the first one that the query attends to become -inf; a lane writes what it reads. */
RP_DEVICE void hide_documents_before(const struct forward *f, float *p, int row)
{
    RP_NO_UNROLL
    for (int i = 0; i < 4; i++) {
        const int first = att_first(f->a->first, f->sample, f->a->seq, row + i);
        RP_NO_UNROLL
        for (int k = 4 * f->me.lane; k < first; k += 128)
            for (int j = 0; j < 4 && k + j < first; j++)
                p[i * RP_ATT_SQUARE_PITCH + place(f, k) + j] = -__builtin_inff();
    }
}

/* The bytes of `on` for keys k .. k + 3 that query `row` attends to. */
RP_DEVICE uint32_t attended(const struct forward *f, uint32_t on, int row, int k)
{
    const int n = row + 1 - k; /* keys up to the query */
    return !f->a->causal || n > 3 ? on : n > 0 ? on & ((1u << 8 * n) - 1) : 0;
}

/* Scores of four rows, the first of them query `row`, become e; m: their largest. Returns, in lanes 8 i .. 8 i + 7,
 * sum128 of row i. */
RP_DEVICE float exponentials(const struct forward *f, float *p, int row, const float *m)
{
    const int lane = f->me.lane;
    float l[4][4];
    att_clear(4, l);
    for (int k = 4 * lane; k < f->keys; k += 128) {
        const uint32_t all = four_keys(f, k);
        RP_UNROLL
        for (int i = 0; i < 4; i++) {
            const uint32_t on = attended(f, all, row + i, k);
            float4 e = att_read(p + i * RP_ATT_SQUARE_PITCH + place(f, k));
            e.x = att_exp(e.x - m[i], on);
            e.y = att_exp(e.y - m[i], on >> 8);
            e.z = att_exp(e.z - m[i], on >> 16);
            e.w = att_exp(e.w - m[i], on >> 24);
            l[i][0] = l[i][0] + e.x;
            l[i][1] = l[i][1] + e.y;
            l[i][2] = l[i][2] + e.z;
            l[i][3] = l[i][3] + e.w;
            att_write(p + i * RP_ATT_SQUARE_PITCH + place(f, k), e);
        }
    }
    return sums_of_rows(l, lane);
}

/* Decisions for keys k .. k + 3 of query `row`, as four bits. Those past the sequence, or after a causal query, are
 * 0. */
RP_DEVICE uint32_t decide(const struct forward *f, uint64_t seed, int row, int k)
{
    const struct rp_attention_forward_args *a = f->a;
    const uint32_t block = (uint32_t)((a->first_head + f->head) * a->seq + row) * (uint32_t)(a->padded / 4) + (uint32_t)(k / 4);
    uint32_t x[4] = {block, a->first_sample + (uint32_t)f->sample, a->site, a->step};
    const int end = a->causal && row < a->seq ? row + 1 : a->seq;
    const uint32_t past = k + 3 < end ? 0xf : k < end ? (1u << (end - k)) - 1 : 0;
    rp_philox(x, seed);
    return ((uint32_t)(x[0] >= a->threshold) | (uint32_t)(x[1] >= a->threshold) << 1 | (uint32_t)(x[2] >= a->threshold) << 2 |
            (uint32_t)(x[3] >= a->threshold) << 3) &
           past;
}

/* Eight lanes' decisions are a word of the mask: of row i in lanes 2 i and 2 i + 1 of the eight. k: the first key of
 * this lane */
RP_DEVICE void put_decisions(const struct forward *f, int row, int k, const uint32_t *four)
{
    const struct rp_attention_forward_args *a = f->a;
    const int lane = f->me.lane, shift = 4 * (lane & 7);
    const uint32_t even = fold_bits(four[0] << shift, four[2] << shift, lane, 4);
    const uint32_t odd = fold_bits(four[1] << shift, four[3] << shift, lane, 4);
    uint32_t word = fold_bits(even, odd, lane, 2);
    word |= __shfl_xor_sync(RP_ALL_LANES, word, 1);
    row += lane >> 1 & 3;
    if (lane % 2 == 0 && row < a->seq) {
        const size_t at = ((size_t)f->sample * (size_t)a->heads + (size_t)f->head) * (size_t)a->seq + (size_t)row;
        ((uint32_t *)(void *)a->mask)[at * (size_t)(a->padded / 32) + (size_t)(k / 32)] = word;
    }
}

/* e of four rows, the first of them query `row`, become p after dropout; +0 past the last key, as far as outputs()
 * reads. */
RP_DEVICE void probabilities(const struct forward *f, float *p, int row, const float *inv)
{
    const uint32_t threshold = f->a->threshold;
    const float scale = f->a->keep_scale;
    const int end = threshold ? f->a->padded : (f->keys + RP_ATT_STEP - 1) / RP_ATT_STEP * RP_ATT_STEP;
    for (int k = 4 * f->me.lane; k < end; k += 128) {
        uint32_t keep[4] = {0, 0, 0, 0};
        if (threshold) {
            /* recomputes the ten round keys for every four rows: kept over the loop they would take 20 registers */
            uint32_t low = (uint32_t)f->a->seed, high = (uint32_t)(f->a->seed >> 32);
            RP_OPAQUE(low);
            RP_OPAQUE(high);
            RP_UNROLL
            for (int i = 0; i < 4; i++)
                keep[i] = decide(f, (uint64_t)high << 32 | low, row + i, k);
            put_decisions(f, row, k, keep);
        }
        RP_UNROLL
        for (int i = 0; i < 4; i++) {
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k < f->keys)
                v = att_read(p + i * RP_ATT_SQUARE_PITCH + place(f, k));
            v = make_float4(v.x * inv[i], v.y * inv[i], v.z * inv[i], v.w * inv[i]);
            if (threshold)
                v = make_float4(keep[i] & 1 ? v.x * scale : 0.0f, keep[i] & 2 ? v.y * scale : 0.0f, keep[i] & 4 ? v.z * scale : 0.0f,
                                keep[i] & 8 ? v.w * scale : 0.0f);
            att_write(p + i * RP_ATT_SQUARE_PITCH + place(f, k), v);
        }
    }
}

RP_DEVICE void softmax(const int rows, const struct forward *f)
{
    const struct rp_attention_forward_args *a = f->a;
    const int lane = f->me.lane;
    RP_NO_UNROLL
    for (int r = 4 * f->me.warp; r < RP_ATT_QUERIES(rows); r += RP_ATT_THREADS / 8) {
        float *p = f->p + r * RP_ATT_SQUARE_PITCH, m[4], inv[4];
        if (a->first)
            hide_documents_before(f, p, f->first + r);
        RP_UNROLL
        for (int i = 0; i < 4; i++)
            m[i] = -__builtin_inff();
        for (int k = 4 * lane; k < f->keys; k += 128) {
            const uint32_t all = four_keys(f, k);
            RP_UNROLL
            for (int i = 0; i < 4; i++) {
                const uint32_t on = attended(f, all, f->first + r + i, k);
                const float4 s = att_read(p + i * RP_ATT_SQUARE_PITCH + place(f, k));
                m[i] = on & 0xffu ? larger(m[i], s.x) : m[i];
                m[i] = on & 0xff00u ? larger(m[i], s.y) : m[i];
                m[i] = on & 0xff0000u ? larger(m[i], s.z) : m[i];
                m[i] = on & 0xff000000u ? larger(m[i], s.w) : m[i];
            }
        }
        float top = largest_of_rows(m, lane);
        RP_UNROLL
        for (int i = 0; i < 4; i++)
            m[i] = __shfl_sync(RP_ALL_LANES, top, 8 * i);
        float one = 1.0f / exponentials(f, p, f->first + r, m);
        RP_UNROLL
        for (int i = 0; i < 4; i++)
            inv[i] = __shfl_sync(RP_ALL_LANES, one, 8 * i);
        const int row = f->first + r + lane / 8;
        if (lane % 8 == 0 && row < a->seq) {
            const size_t at = ((size_t)f->sample * (size_t)a->heads + (size_t)f->head) * (size_t)a->seq + (size_t)row;
            a->row_max[at] = top;
            a->row_inv[at] = one;
        }
        probabilities(f, p, f->first + r, inv);
    }
}

/* ---- outputs ---- */

/* Columns c .. c + 64; values_begin() was called. */
RP_DEVICE void outputs(const int rows, const struct forward *f, int c)
{
    const struct rp_attention_forward_args *a = f->a;
    struct prefetch prefetch;
    float o[ATT_ROWS][4];
    const float *p = f->p + f->me.row * RP_ATT_SQUARE_PITCH, *v = f->stage + 4 * f->me.col;
    int at = 0, slot = PREFETCH;
    att_clear(rows, o);
    RP_NO_UNROLL
    for (int t = 0; t * RP_ATT_STEP < f->keys; t++) {
        rp_copy_wait(PREFETCH - 1);
        __syncthreads();
        const struct stage next = value_stage(f, c, t + PREFETCH, slot);
        stage_start(f, &next, &prefetch);
        att_rows(rows, RP_ATT_STEP, o, p + place(f, t * RP_ATT_STEP), RP_ATT_SQUARE_PITCH, v + at * RP_ATT_STAGE, RP_ATT_DIM);
        stage_land(f, &next, &prefetch);
        at = next_slot(at);
        slot = next_slot(slot);
    }
    float *to = a->o + (size_t)f->sample * (size_t)a->seq * (size_t)a->width + (size_t)(f->head * a->dim + c + 4 * f->me.col);
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const int row = f->first + f->me.row + 8 * i;
        if (row < a->seq)
            att_put(to + row * a->width, att_ended(o[i]), a->dim - c - 4 * f->me.col, a->whole);
    }
}

RP_DEVICE void forward(const int rows, const struct rp_attention_forward_args *a)
{
    struct forward f;
    const int head = (int)(blockIdx.x / (unsigned)a->blocks);
    f.a = a;
    f.me = att_owner();
    f.square = RP_ATT_QUERIES(rows) * RP_ATT_SQUARE_PITCH;
    f.sample = head / a->heads;
    f.head = head % a->heads;
    f.first = (int)(blockIdx.x % (unsigned)a->blocks) * RP_ATT_QUERIES(rows);
    f.p = RP_SHARED(float);
    f.q = f.p + a->padded / RP_ATT_KEYS * f.square;
    f.stage = f.q + RP_ATT_QUERIES(rows) * RP_ATT_TILE_PITCH;
    f.on = (uint8_t *)(f.stage + RP_ATT_STAGES * RP_ATT_STAGE);
    f.x = a->qkv + (size_t)f.sample * (size_t)a->seq * (size_t)a->ld + (size_t)f.head * (size_t)a->dim;
    const uint8_t *keys = a->keys ? a->keys + (size_t)f.sample * (size_t)a->seq : 0;
    for (int k = (int)threadIdx.x; k < a->padded; k += RP_ATT_THREADS)
        f.on[k] = (uint8_t)(k < a->seq && (!keys || keys[k]));
    __syncthreads();
    f.keys = att_keys(f.on, a->causal && f.first + RP_ATT_QUERIES(rows) < a->seq ? f.first + RP_ATT_QUERIES(rows) : a->seq, f.me.lane);
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += RP_ATT_DIM)
        scores(rows, &f, c);
    values_begin(&f, 0);
    f.me = att_owner();
    softmax(rows, &f);
    f.me = att_owner();
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += RP_ATT_DIM) {
        if (c > 0) {
            __syncthreads();
            values_begin(&f, c);
        }
        outputs(rows, &f, c);
    }
}

RP_KERNEL(attention_forward_64)
{
    forward(8, &a);
}
RP_KERNEL(attention_forward_32)
{
    forward(4, &a);
}
RP_KERNEL(attention_forward_16)
{
    forward(2, &a);
}
