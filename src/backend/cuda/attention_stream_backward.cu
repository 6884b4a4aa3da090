/* Attention, backward, in streams (see attention_stream.cuh), so that a head is spread over many blocks: one kernel computes dk and dv of
 * 32 keys of a head from the queries that pass by, the other dq of 8 * rows queries from the keys. Both compute s and dp; a head in one
 * block (attention_backward.cu) does so once, but there are not always enough heads to keep a GPU busy.
 *
 *     keys          s = k q^T, dp = v do^T; p, pd, ds; dv += pd do, dk += ds q      two squares: pd, ds
 *     queries       s = q k^T, dp = do v^T; p, ds; dq += ds k
 *
 * p is computed from the stored maximum and 1 / sum; attention_dots has computed D. */
#include "backend/cuda/attention_stream.cuh"

struct backward {
    struct stream f;
    const struct rp_attention_backward_args *a;
    const uint8_t *keys; /* of the sample; NULL: all */
    size_t rows;         /* of row_max, row_inv, big_d and mask before this head */
    float *dx;           /* the head's first element in dqkv */
    int sample;
};

/* Words of a query: of the other rows in `keys`, of the own ones in `queries`. The last is in `keys` the decisions for the own keys, in
 * `queries` the first key. */
#define KEEP_PAIRS (4 * RP_ATT_KEYS) /* in `queries`: after the words of all queries, two for 64 keys */

/* Chains s and g of a query and a key become pd and ds. on: the key is attended to; kept: not dropped out */
RP_DEVICE void to_gradients(const struct rp_attention_backward_args *a, float *s, float *g, const float4 *query, int on, int kept)
{
    const float p = att_exp((*s + 0.0f) * a->scale - query->x, (uint32_t)on) * query->y;
    const float dp = kept ? (*g + 0.0f) * a->keep_scale : 0.0f;
    const float ds = (p * (dp - query->z)) * a->scale;
    *s = kept ? p * a->keep_scale : 0.0f;
    *g = on ? ds : 0.0f;
}

/* The words of query number `q`; zeros after the sequence. key: the first of the 32 with decisions. */
RP_DEVICE float4 query_words(const struct backward *b, int q, int key)
{
    const struct rp_attention_backward_args *a = b->a;
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (q < a->seq) {
        const size_t at = b->rows + (size_t)q;
        v.x = a->row_max[at];
        v.y = a->row_inv[at];
        v.z = a->big_d[at];
        if (a->mask)
            v.w = *(const float *)(const void *)(a->mask + at * (size_t)(a->padded / 8) + (size_t)(key / 8));
    }
    return v;
}

RP_DEVICE struct backward head_of(const int rows, const int W, const int squares, const struct rp_attention_backward_args *a, int tile)
{
    struct backward b;
    const int head = (int)(blockIdx.x / (unsigned)a->blocks), sample = head / a->heads, column = head % a->heads * a->dim;
    b.a = a;
    b.f.dim = a->dim;
    b.f.whole = a->whole;
    stream_shared(rows, W, 2, squares, &b.f);
    b.f.first = tile * RP_ATT_QUERIES(rows);
    b.f.begin = 0;
    b.keys = a->keys ? a->keys + (size_t)sample * (size_t)a->seq : 0;
    b.sample = sample;
    b.rows = (size_t)head * (size_t)a->seq;
    b.dx = a->dqkv + (size_t)sample * (size_t)a->seq * (size_t)a->ld + (size_t)column;
    const float *x = a->qkv + (size_t)sample * (size_t)a->seq * (size_t)a->ld + (size_t)column;
    b.f.dots[0] = b.f.rows[0] = b.f.rows[1] = x;
    b.f.dots_ld[0] = b.f.rows_ld[0] = b.f.rows_ld[1] = b.f.dots_ld[1] = a->ld;
    b.f.dots[1] = a->d_o + (size_t)sample * (size_t)a->seq * (size_t)a->width + (size_t)column;
    return b;
}

/* ---- dk and dv of 32 keys ---- */

#define KEYS 4 /* own rows of a thread */

/* Bit i: own key row + 8 i is attended to. */
RP_DEVICE uint32_t own_on(const struct backward *b)
{
    const int first = b->f.first + att_owner().row;
    uint32_t on = 0;
    RP_UNROLL
    for (int i = 0; i < KEYS; i++)
        on |= (uint32_t)(first + 8 * i < b->a->seq && (!b->keys || b->keys[first + 8 * i])) << i;
    return on;
}

/* s, g: own keys and queries from q. */
RP_DEVICE void key_gradients(const struct backward *b, float (*s)[4], float (*g)[4], uint32_t on, int q)
{
    const struct att_owner me = att_owner();
    RP_UNROLL
    for (int j = 0; j < 4; j++) {
        const int query = att_again(me.col + 16 * j), ahead = b->a->causal ? q + query - b->f.first - me.row : RP_ATT_KEYS;
        const int before = att_first(b->a->first, b->sample, b->a->seq, q + query) - b->f.first - me.row;
        const float4 words = att_read(b->f.row + 4 * query);
        const uint32_t keep = b->a->mask ? __float_as_uint(words.w) >> me.row : ~0u;
        RP_UNROLL
        for (int i = 0; i < KEYS; i++)
            to_gradients(b->a, &s[i][j], &g[i][j], &words, (int)(on >> i & 1) & (ahead >= 8 * i) & (before <= 8 * i),
                         (int)(keep >> 8 * i & 1));
    }
}

RP_DEVICE void of_keys(const int W, const struct backward *b)
{
    const struct stream *f = &b->f;
    const int query = (int)threadIdx.x % RP_ATT_KEYS, seq = b->a->seq;
    struct passing at = stream_begin(W, 2, 2, f);
    float dk[KEYS][STREAM_COLUMNS], dv[KEYS][STREAM_COLUMNS];
    float4 words = query_words(b, f->begin + query, f->first);
    const uint32_t on = own_on(b);
    stream_clear(KEYS, W, dk);
    stream_clear(KEYS, W, dv);
    RP_NO_UNROLL
    for (int q = f->begin; q < f->others; q += RP_ATT_KEYS) {
        float s[ATT_ROWS][4], g[ATT_ROWS][4];
        if ((int)threadIdx.x < RP_ATT_KEYS)
            att_write(f->row + 4 * query, words);
        words = query_words(b, q + RP_ATT_KEYS + query, f->first);
        stream_dots(KEYS, W, 2, 2, f, &at, s, 0);
        stream_dots(KEYS, W, 2, 2, f, &at, g, 1);
        key_gradients(b, s, g, on, q);
        stream_put_square(KEYS, f, 0, s);
        stream_put_square(KEYS, f, 1, g);
        stream_rows(KEYS, W, 2, 2, f, &at, dv, 0, q);
        stream_rows(KEYS, W, 2, 2, f, &at, dk, 1, q);
    }
    stream_put(KEYS, W, f, dk, b->dx + b->a->width, b->a->ld, seq);
    stream_put(KEYS, W, f, dv, b->dx + 2 * b->a->width, b->a->ld, seq);
    __syncthreads();
}

/* Queries up to the last that attends to a key up to `last`. */
RP_DEVICE int queries_of(const struct backward *b, int last)
{
    int from = last < b->a->seq ? last : b->a->seq, to = b->a->seq; /* the query of that key attends to it */
    RP_NO_UNROLL
    while (b->a->first && from < to) {
        const int middle = from + (to - from) / 2;
        if (att_first(b->a->first, b->sample, b->a->seq, middle) > last)
            to = middle;
        else
            from = middle + 1;
    }
    return to;
}

RP_DEVICE void keys(const int W, const struct rp_attention_backward_args *a)
{
    struct backward b = head_of(KEYS, W, 2, a, (int)(blockIdx.x % (unsigned)a->blocks));
    b.f.rows[0] = b.f.dots[1];
    b.f.rows_ld[0] = b.f.dots_ld[1] = a->width;
    b.f.others = b.f.first < att_keys(b.keys, a->seq, att_owner().lane) ? queries_of(&b, b.f.first + RP_ATT_QUERIES(KEYS) - 1) : 0;
    b.f.begin = a->causal ? b.f.first / RP_ATT_KEYS * RP_ATT_KEYS : 0;
    stream_own(KEYS, &b.f, 0, b.f.dots[0] + a->width, a->ld, a->seq);
    stream_own(KEYS, &b.f, 1, b.f.dots[0] + 2 * a->width, a->ld, a->seq);
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += 16 * W) {
        b.f.column = c;
        of_keys(W, &b);
    }
}

/* ---- dq of queries ---- */

/* Bit j: key k + col + 16 j is attended to by some query. */
RP_DEVICE uint32_t keys_on(const struct backward *b, int k)
{
    uint32_t on = 0;
    k += att_owner().col;
    RP_UNROLL
    for (int j = 0; j < 4; j++, k += 16)
        on |= (uint32_t)(k < b->f.others && (!b->keys || b->keys[k])) << j;
    return on;
}

/* A word of the decisions of an own query for 64 keys: of query thread / 2. */
RP_DEVICE float pair_word(const int rows, const struct backward *b, int k)
{
    const struct rp_attention_backward_args *a = b->a;
    const int q = b->f.first + (int)threadIdx.x / 2;
    if (!a->mask || (int)threadIdx.x >= 2 * RP_ATT_QUERIES(rows) || q >= a->seq || k >= b->f.others)
        return 0.0f;
    return ((const float *)(const void *)(a->mask + (b->rows + (size_t)q) * (size_t)(a->padded / 8) + (size_t)(k / 8)))[threadIdx.x % 2];
}

/* s, g: own queries and keys from k. */
RP_DEVICE void query_gradients(const int rows, const struct backward *b, float (*s)[4], float (*g)[4], uint32_t all, int k)
{
    const struct att_owner me = att_owner();
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const int q = att_again(me.row + 8 * i), ahead = b->a->causal ? b->f.first + q - k - me.col : RP_ATT_KEYS;
        const float4 words = att_read(b->f.row + 4 * q);
        const uint32_t on = att_from(all, (int)__float_as_uint(words.w) - k - me.col);
        const float2 pair = *(const float2 *)(const void *)(b->f.row + KEEP_PAIRS + 2 * q);
        const uint32_t none = b->a->mask ? 0u : ~0u;
        const uint32_t keep[2] = {(__float_as_uint(pair.x) | none) >> me.col, (__float_as_uint(pair.y) | none) >> me.col};
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            to_gradients(b->a, &s[i][j], &g[i][j], &words, (int)(on >> j & 1) & (ahead >= 16 * j), (int)(keep[j / 2] >> 16 * (j % 2) & 1));
    }
}

RP_DEVICE void of_queries(const int rows, const int W, const struct backward *b)
{
    const struct stream *f = &b->f;
    struct passing at = stream_begin(W, 2, 1, f);
    float dq[ATT_ROWS][STREAM_COLUMNS], word = pair_word(rows, b, f->begin);
    stream_clear(rows, W, dq);
    RP_NO_UNROLL
    for (int k = f->begin; k < f->others; k += RP_ATT_KEYS) {
        float s[ATT_ROWS][4], g[ATT_ROWS][4];
        if ((int)threadIdx.x < 2 * RP_ATT_QUERIES(rows))
            f->row[KEEP_PAIRS + (int)threadIdx.x] = word;
        word = pair_word(rows, b, k + RP_ATT_KEYS);
        stream_dots(rows, W, 2, 1, f, &at, s, 0);
        stream_dots(rows, W, 2, 1, f, &at, g, 1);
        query_gradients(rows, b, s, g, keys_on(b, k), k);
        stream_put_square(rows, f, 0, g);
        stream_rows(rows, W, 2, 1, f, &at, dq, 0, k);
    }
    stream_put(rows, W, f, dq, b->dx, b->a->ld, b->a->seq);
    __syncthreads();
}

RP_DEVICE void queries(const int rows, const int W, const struct rp_attention_backward_args *a)
{
    struct backward b = head_of(rows, W, 1, a, a->blocks - 1 - (int)(blockIdx.x % (unsigned)a->blocks)); /* causal: the longest first */
    const float *q = b.f.dots[0], *d_o = b.f.dots[1];
    const int seq = a->seq, end = a->causal && b.f.first + RP_ATT_QUERIES(rows) < seq ? b.f.first + RP_ATT_QUERIES(rows) : seq;
    b.f.others = att_keys(b.keys, end, att_owner().lane);
    b.f.begin = att_first(a->first, b.sample, seq, b.f.first) / RP_ATT_KEYS * RP_ATT_KEYS;
    b.f.dots[0] = b.f.rows[0] = q + a->width;
    b.f.dots[1] = q + 2 * a->width;
    stream_own(rows, &b.f, 0, q, a->ld, seq);
    stream_own(rows, &b.f, 1, d_o, a->width, seq);
    if ((int)threadIdx.x < RP_ATT_QUERIES(rows)) {
        const int row = b.f.first + (int)threadIdx.x;
        float4 words = query_words(&b, row, 0);
        words.w = __uint_as_float((uint32_t)att_first(a->first, b.sample, seq, row));
        att_write(b.f.row + 4 * (int)threadIdx.x, words);
    }
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += 16 * W) {
        b.f.column = c;
        of_queries(rows, W, &b);
    }
}

#define STREAM_KEYS(W)                                                                                                 \
    RP_KERNEL(attention_keys_##W)                                                                                      \
    {                                                                                                                  \
        keys(W, &a);                                                                                                   \
    }
#define STREAM_QUERIES(rows, W)                                                                                        \
    RP_KERNEL(attention_queries_##rows##x##W)                                                                          \
    {                                                                                                                  \
        queries(rows, W, &a);                                                                                          \
    }
STREAM_KEYS(4)
STREAM_KEYS(6)
STREAM_KEYS(8)
STREAM_QUERIES(8, 4)
STREAM_QUERIES(8, 6)
STREAM_QUERIES(8, 8)
STREAM_QUERIES(4, 4)
STREAM_QUERIES(4, 6)
STREAM_QUERIES(4, 8)
