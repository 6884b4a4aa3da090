/* Attention, backward, in streams (see attention_stream.cuh), so that a head is spread over many blocks of three
 * kernels:
 *
 *     gradients     s = k q^T, dp = v do^T; pd, ds of 64 keys, as [key][query] into global memory
 *     keys          dv = pd do, dk = ds q      of 64 keys: rows of these matrices, from the queries that pass by
 *     queries       dq = ds^T k                of 64 queries: columns of ds, from the keys that pass by
 *
 * They are launched for as many keys as there is room for pd and ds; dq continues its chains then. p is computed from
 * the stored maximum and 1 / sum; attention_dots has computed D. A head in one block (attention_backward.cu) has pd and
 * ds in shared memory, but there are not always enough heads to keep a GPU busy. */
#include "backend/cuda/attention_stream.cuh"

#define OWN RP_ATT_QUERIES(8) /* keys, or queries, of a block */

struct backward {
    struct stream f;
    const struct rp_attention_backward_args *a;
    const uint8_t *keys; /* of the sample; NULL: all */
    size_t rows;         /* of row_max, row_inv, big_d and mask before this head */
    float *dx;           /* the head's first element in dqkv */
    float *ds, *pd;      /* and in the matrices, of key a->from */
    int sample, pitch;   /* pitch: of the matrices */
};

RP_DEVICE struct backward head_of(const struct rp_attention_backward_args *a, int number, int first)
{
    struct backward b;
    const int head = a->head + number, sample = head / a->heads, column = head % a->heads * a->dim;
    b.a = a;
    b.f.dim = a->dim;
    b.f.whole = a->whole;
    b.f.first = first;
    b.f.begin = 0;
    b.f.column = 0;
    b.keys = a->keys ? a->keys + (size_t)sample * (size_t)a->seq : 0;
    b.sample = sample;
    b.rows = (size_t)head * (size_t)a->seq;
    b.pitch = (a->seq + RP_ATT_KEYS - 1) / RP_ATT_KEYS * RP_ATT_KEYS;
    b.ds = a->ds + (size_t)number * (size_t)a->span * (size_t)b.pitch;
    b.pd = a->pd + (size_t)number * (size_t)a->span * (size_t)b.pitch;
    b.dx = a->dqkv + (size_t)sample * (size_t)a->seq * (size_t)a->ld + (size_t)column;
    const float *x = a->qkv + (size_t)sample * (size_t)a->seq * (size_t)a->ld + (size_t)column;
    b.f.dots[0] = b.f.rows = x;
    b.f.dots_ld[0] = b.f.dots_ld[1] = b.f.rows_ld = a->ld;
    b.f.dots[1] = a->d_o + (size_t)sample * (size_t)a->seq * (size_t)a->width + (size_t)column;
    return b;
}

/* The queries of own keys. */
RP_DEVICE void find_queries(struct backward *b)
{
    const struct rp_attention_backward_args *a = b->a;
    const int last = b->f.first + OWN - 1;
    int from = last < a->seq ? last : a->seq;
    int to = b->f.first < att_keys(b->keys, a->seq, att_owner().lane) ? a->seq : 0;
    RP_NO_UNROLL
    while (a->first && from < to) { /* the first whose document begins after `last`, to which its own query attends */
        const int middle = from + (to - from) / 2;
        if (att_first(a->first, b->sample, a->seq, middle) > last)
            to = middle;
        else
            from = middle + 1;
    }
    b->f.others = to;
    b->f.begin = a->causal ? b->f.first : 0;
}

/* ---- pd and ds of 64 keys ---- */

/* Words of a query: maximum, 1 / sum, D, its first key; after those of all, two of decisions for own keys. Two sets: a
 * thread may still read one while another one writes the next. */
#define WORDS (6 * RP_ATT_KEYS)
#define KEEP_PAIRS (4 * RP_ATT_KEYS)

struct words {
    float4 query;
    float keep;
};

/* Those that this thread fetches, of queries from q; zeros after the sequence. */
RP_DEVICE struct words get_words(const struct backward *b, int q)
{
    const struct rp_attention_backward_args *a = b->a;
    const int one = q + (int)threadIdx.x % RP_ATT_KEYS, pair = q + (int)threadIdx.x / 2;
    struct words w = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), 0.0f};
    if (one < a->seq) {
        w.query.x = a->row_max[b->rows + (size_t)one];
        w.query.y = a->row_inv[b->rows + (size_t)one];
        w.query.z = a->big_d[b->rows + (size_t)one];
        w.query.w = __uint_as_float((uint32_t)att_first(a->first, b->sample, a->seq, one));
    }
    if (a->mask && pair < a->seq)
        w.keep = ((const float *)(const void *)(a->mask + (b->rows + (size_t)pair) * (size_t)(a->padded / 8) +
                                                (size_t)(b->f.first / 8)))[threadIdx.x % 2];
    return w;
}
RP_DEVICE void put_words(float *row, const struct words *w)
{
    if ((int)threadIdx.x < RP_ATT_KEYS)
        att_write(row + 4 * threadIdx.x, w->query);
    row[KEEP_PAIRS + (int)threadIdx.x] = w->keep;
}

/* Chains s and g of a query and a key become pd and ds. on: the key is attended to; kept: not dropped out */
RP_DEVICE void to_gradients(const struct rp_attention_backward_args *a, float *s, float *g, const float4 *query, int on,
                            int kept)
{
    const float p = att_exp((*s + 0.0f) * a->scale - query->x, (uint32_t)on) * query->y;
    const float dp = kept ? (*g + 0.0f) * a->keep_scale : 0.0f;
    const float ds = (p * (dp - query->z)) * a->scale;
    *s = kept ? p * a->keep_scale : 0.0f;
    *g = on ? ds : 0.0f;
}

/* Bit i: own key row + 8 i is attended to. */
RP_DEVICE uint32_t own_on(const struct backward *b)
{
    const int first = b->f.first + att_owner().row;
    uint32_t on = 0;
    RP_UNROLL
    for (int i = 0; i < 8; i++)
        on |= (uint32_t)(first + 8 * i < b->a->seq && (!b->keys || b->keys[first + 8 * i])) << i;
    return on;
}

/* s, g: own keys and queries from q. row: the words of these queries */
RP_DEVICE void key_gradients(const struct backward *b, const float *row, float (*s)[4], float (*g)[4], uint32_t on,
                             int q)
{
    const struct att_owner me = att_owner();
    const uint32_t none = b->a->mask ? 0u : ~0u;
    RP_UNROLL
    for (int j = 0; j < 4; j++) {
        const int query = att_again(me.col + 16 * j), ahead = b->a->causal ? q + query - b->f.first - me.row : RP_ATT_KEYS;
        const float4 words = att_read(row + 4 * query);
        const float2 pair = *(const float2 *)(const void *)(row + KEEP_PAIRS + 2 * query);
        const uint32_t keep[2] = {(__float_as_uint(pair.x) | none) >> me.row,
                                  (__float_as_uint(pair.y) | none) >> me.row};
        const int before = (int)__float_as_uint(words.w) - b->f.first - me.row;
        RP_UNROLL
        for (int i = 0; i < 8; i++)
            to_gradients(b->a, &s[i][j], &g[i][j], &words, (int)(on >> i & 1) & (ahead >= 8 * i) & (before <= 8 * i),
                         (int)(keep[i / 4] >> 8 * (i % 4) & 1));
    }
}

RP_DEVICE void put_matrix(const struct backward *b, float *matrix, float (*s)[4], int q)
{
    const struct att_owner me = att_owner();
    float *to = matrix + (b->f.first - b->a->from + me.row) * b->pitch + q + me.col;
    RP_UNROLL
    for (int i = 0; i < 8; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            to[8 * i * b->pitch + 16 * j] = s[i][j];
    }
}

RP_DEVICE void gradients(const struct rp_attention_backward_args *a)
{
    struct backward b =
        head_of(a, (int)(blockIdx.x / (unsigned)a->blocks), a->from + (int)(blockIdx.x % (unsigned)a->blocks) * OWN);
    struct stream *f = &b.f;
    stream_shared(8, 4, 2, 0, 2 * WORDS, f);
    find_queries(&b);
    stream_own(8, f, 0, f->dots[0] + a->width, a->ld, a->seq);
    stream_own(8, f, 1, f->dots[0] + 2 * a->width, a->ld, a->seq);
    f->dots_ld[1] = a->width;
    struct passing at = stream_begin(4, 2, 0, f);
    struct words words = get_words(&b, f->begin);
    const uint32_t on = own_on(&b);
    RP_NO_UNROLL
    for (int q = f->begin; q < f->others; q += RP_ATT_KEYS) {
        float *row = f->row + (q / RP_ATT_KEYS & 1) * WORDS;
        float s[ATT_ROWS][4], g[ATT_ROWS][4];
        put_words(row, &words);
        words = get_words(&b, q + RP_ATT_KEYS);
        stream_dots(8, 4, 2, 0, f, &at, s, 0);
        stream_dots(8, 4, 2, 0, f, &at, g, 1);
        key_gradients(&b, row, s, g, on, q);
        put_matrix(&b, b.pd, s, q);
        put_matrix(&b, b.ds, g, q);
    }
}

/* ---- products with pd and ds ---- */

/* A stage: 16 others, with 64 elements of the matrix for each, and 16 W columns. across: of dq, the others are rows of
 * the matrix. */
struct pair {
    struct att_part p, x, more; /* more: columns from 64 on */
};
RP_DEVICE struct pair pair_of(const int across, const struct backward *b, int k)
{
    const struct stream *f = &b->f;
    const int ld = f->rows_ld, left = f->others - k, at = k * ld + f->column;
    const int matrix = across ? (k - b->a->from) * b->pitch + f->first : (f->first - b->a->from) * b->pitch + k;
    const struct pair p = {{b->ds, matrix, b->pitch, across ? left : OWN, across ? OWN : left, 1},
                           {f->rows, at, ld, left, f->dim - f->column, f->whole},
                           {f->rows, at + RP_ATT_DIM, ld, left, f->dim - f->column - RP_ATT_DIM, f->whole}};
    return p;
}

#define PAIR_X(across) ((across) ? RP_ATT_STEP * OWN : RP_ATT_STAGE) /* floats of a stage before the columns */
#define PAIR_PITCH(across) ((across) ? OWN : RP_ATT_STEP_PITCH)
#define PAIR_HEIGHT(across) ((across) ? RP_ATT_STEP : OWN)
#define PAIR_QUADS(across) (((across) ? OWN : RP_ATT_STEP) / 4)

struct pair_load {
    float4 p[2], x[2]; /* before sm_80 */
};

/* Starts the stage of others from k, if there are any; before sm_80 pair_land() ends it. */
RP_DEVICE void pair_start(const int across, const int W, const struct backward *b, int k, int slot,
                          struct pair_load *load)
{
    const struct pair p = pair_of(across, b, k);
#if RP_ASYNC
    float *to = b->f.stage + slot * b->f.stage_floats;
    (void)load;
    if (k < b->f.others) {
        att_copy(PAIR_HEIGHT(across), PAIR_QUADS(across), to, PAIR_PITCH(across), &p.p);
        att_copy(RP_ATT_STEP, 16, to + PAIR_X(across), 16 * W, &p.x);
        if (W > 4)
            att_copy(RP_ATT_STEP, 4 * (W - 4), to + PAIR_X(across) + RP_ATT_DIM, 16 * W, &p.more);
    }
    rp_copy_commit();
#else
    (void)slot;
    if (k < b->f.others) {
        att_load(PAIR_HEIGHT(across), PAIR_QUADS(across), load->p, &p.p);
        if (W < 8)
            att_load(RP_ATT_STEP, 16, load->x, &p.x);
    }
#endif
}
RP_DEVICE void pair_land(const int across, const int W, const struct backward *b, int k, int slot,
                         const struct pair_load *load)
{
#if RP_ASYNC
    (void)across, (void)W, (void)b, (void)k, (void)slot, (void)load;
#else
    float *to = b->f.stage + slot * b->f.stage_floats;
    if (k < b->f.others) {
        const struct pair p = pair_of(across, b, k);
        att_store(PAIR_HEIGHT(across), PAIR_QUADS(across), to, PAIR_PITCH(across), load->p);
        if (W < 8)
            att_store(RP_ATT_STEP, 16, to + PAIR_X(across), 16 * W, load->x);
        else /* they would take registers */
            att_copy(RP_ATT_STEP, 16, to + PAIR_X(across), 16 * W, &p.x);
        if (W > 4)
            att_copy(RP_ATT_STEP, 4 * (W - 4), to + PAIR_X(across) + RP_ATT_DIM, 16 * W, &p.more);
    }
#endif
}

/* c += matrix times columns, for all others. */
RP_DEVICE void multiply(const int across, const int W, const struct backward *b, float (*c)[STREAM_COLUMNS])
{
    const struct att_owner me = att_owner();
    const int col = me.col;
    struct pair_load load;
    int slot = 0, at = 0, next = b->f.begin;
    RP_NO_UNROLL
    for (int t = 0; t < STREAM_AHEAD; t++, next += RP_ATT_STEP, slot = stream_next(slot)) {
        pair_start(across, W, b, next, slot, &load);
        pair_land(across, W, b, next, slot, &load);
    }
    RP_NO_UNROLL
    for (int k = b->f.begin; k < b->f.others; k += RP_ATT_STEP, next += RP_ATT_STEP) {
        rp_copy_wait(STREAM_AHEAD - 1);
        __syncthreads();
        pair_start(across, W, b, next, slot, &load);
        const float *p = b->f.stage + at * b->f.stage_floats + (across ? 4 * me.row : me.row * RP_ATT_STEP_PITCH);
        const float *v = b->f.stage + at * b->f.stage_floats + PAIR_X(across);
        if (across) {
            RP_UNROLL_BY(STREAM_UNROLL)
            for (int n = 0; n < RP_ATT_STEP; n++) {
                const float4 x = att_read(p + n * OWN), y = att_read(p + n * OWN + 32);
                const float a[8] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
                STREAM_STEP(8, W, c, a[i], v + n * 16 * W);
            }
        } else {
            RP_UNROLL_BY(STREAM_UNROLL / 4)
            for (int n = 0; n < RP_ATT_STEP; n += 4) {
                float4 a[8];
                RP_UNROLL
                for (int i = 0; i < 8; i++)
                    a[i] = att_read(p + 8 * i * RP_ATT_STEP_PITCH + n);
                STREAM_STEP(8, W, c, a[i].x, v + (n + 0) * 16 * W);
                STREAM_STEP(8, W, c, a[i].y, v + (n + 1) * 16 * W);
                STREAM_STEP(8, W, c, a[i].z, v + (n + 2) * 16 * W);
                STREAM_STEP(8, W, c, a[i].w, v + (n + 3) * 16 * W);
            }
        }
        pair_land(across, W, b, next, slot, &load);
        slot = stream_next(slot);
        at = stream_next(at);
    }
}

/* dk or dv of own keys. */
RP_DEVICE void keys(const int W, const struct rp_attention_backward_args *a)
{
    const int number = (int)(blockIdx.x / 2), is_dv = (int)(blockIdx.x % 2);
    struct backward b = head_of(a, number / a->blocks, a->from + number % a->blocks * OWN);
    find_queries(&b);
    b.f.stage = RP_SHARED(float);
    b.f.stage_floats = PAIR_X(0) + RP_ATT_STEP * 16 * W;
    if (is_dv) {
        b.ds = b.pd;
        b.f.rows = b.f.dots[1];
        b.f.rows_ld = a->width;
    }
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += 16 * W) {
        float sum[8][STREAM_COLUMNS];
        b.f.column = c;
        stream_clear(8, W, sum);
        multiply(0, W, &b, sum);
        stream_put(8, W, &b.f, sum, b.dx + (1 + is_dv) * a->width, a->ld, a->seq);
        __syncthreads();
    }
}

/* Own query number i of a thread: 4 row + i % 4 + 32 (i / 4), from b->f.first on. */
RP_DEVICE int query_of(const struct backward *b, int i)
{
    return b->f.first + 4 * att_owner().row + i % 4 + 32 * (i / 4);
}

/* Chains as an earlier launch has left them. */
RP_DEVICE void get_chains(const int W, const struct backward *b, float (*dq)[STREAM_COLUMNS])
{
    const int left = b->f.dim - b->f.column, col = att_owner().col;
    RP_UNROLL
    for (int i = 0; i < 8; i++) {
        const int row = query_of(b, i);
        const float *at = b->dx + row * b->a->ld + b->f.column;
        RP_UNROLL
        for (int j = 0; j < W; j++) {
            const int column = j < 4 ? 4 * col + j : RP_ATT_DIM + (W - 4) * col + j - 4;
            if (row < b->a->seq && column < left)
                dq[i][j] = at[column];
        }
    }
}

RP_DEVICE void queries(const int W, const struct rp_attention_backward_args *a)
{
    const int tile = a->blocks - 1 - (int)(blockIdx.x % (unsigned)a->blocks); /* causal: the longest first */
    struct backward b = head_of(a, (int)(blockIdx.x / (unsigned)a->blocks), tile * OWN);
    const int seq = a->seq, end = a->causal && b.f.first + OWN < seq ? b.f.first + OWN : seq;
    const int others = att_keys(b.keys, end, att_owner().lane);
    const int begin = att_first(a->first, b.sample, seq, b.f.first) / OWN * OWN;
    b.f.stage = RP_SHARED(float);
    b.f.stage_floats = PAIR_X(1) + RP_ATT_STEP * 16 * W;
    b.f.rows = b.f.dots[0] + a->width;
    b.f.begin = begin > a->from ? begin : a->from;
    b.f.others = others < a->from + a->span ? others : a->from + a->span;
    if (b.f.begin >= b.f.others && a->from > 0)
        return;
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += 16 * W) {
        float dq[8][STREAM_COLUMNS];
        b.f.column = c;
        stream_clear(8, W, dq);
        if (a->from > 0)
            get_chains(W, &b, dq);
        multiply(1, W, &b, dq);
        RP_UNROLL
        for (int i = 0; i < 8; i++) {
            const int row = query_of(&b, i);
            if (row < seq)
                stream_put_row(W, &b.f, dq[i], b.dx + row * a->ld + c);
        }
        __syncthreads();
    }
}

RP_KERNEL(attention_gradients)
{
    gradients(&a);
}
#define STREAM_BACKWARD(W)                                                                                             \
    RP_KERNEL(attention_keys_##W)                                                                                      \
    {                                                                                                                  \
        keys(W, &a);                                                                                                   \
    }                                                                                                                  \
    RP_KERNEL(attention_queries_##W)                                                                                   \
    {                                                                                                                  \
        queries(W, &a);                                                                                                \
    }
STREAM_BACKWARD(4)
STREAM_BACKWARD(6)
STREAM_BACKWARD(8)
