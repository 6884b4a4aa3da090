/* Attention, backward: one block computes all gradients of one head of one sample, so that no sum is split over blocks.
 * It iterates over squares of 64 keys x 8 * rows queries, keys in the outer loop, both ascending; p is recomputed from
 * the stored maximum and 1 / sum.
 *
 *     s  = q k^T           dv += pd^T do      over queries: in registers until the next 64 keys
 *     dp = do v^T          dk += ds^T q       the same
 *     p, pd, ds            dq += ds k         over keys: in memory, where a chain waits for the next 64
 *
 * One square of shared memory holds pd, then ds. While dq is computed, the next queries are copied. attention_dots has
 * computed D = do o of every query. Causal: squares whose queries all come before their keys are skipped. Heads wider
 * than 64 are processed 64 columns at a time, with all chains except s and dp in memory. */
#include "backend/cuda/attention.cuh"

struct backward {
    const struct rp_attention_backward_args *a;
    struct att_owner me;
    /* tiles of keys, values, queries and gradients of outputs, pitch RP_ATT_TILE_PITCH; the square */
    float *k, *v, *q, *g, *p;
    float *row;               /* [queries, 4]: maximum, 1 / sum, decisions for 64 keys */
    float *big_d;             /* [queries, 2]: D, first key */
    const float *x, *d_o;     /* the head's first element in qkv and d_o */
    float *dx;                /* in dqkv */
    size_t rows;              /* of row_max, row_inv, big_d and mask before this head */
    const uint8_t *on;        /* [seq]: the key mask, or NULL */
    int keys;                 /* up to the last attended to */
};

/* ---- tiles ---- */

RP_DEVICE void copy_queries(const int rows, const struct backward *b, int q0, int c)
{
    const struct rp_attention_backward_args *a = b->a;
    const struct att_part q = {b->x, q0 * a->ld + c, att_again(a->ld), a->seq - q0, a->dim - c, a->whole};
    att_copy(RP_ATT_QUERIES(rows), RP_ATT_DIM / 4, b->q, RP_ATT_TILE_PITCH, &q);
}
RP_DEVICE void copy_gradients(const int rows, const struct backward *b, int q0, int c)
{
    const struct rp_attention_backward_args *a = b->a;
    const struct att_part g = {b->d_o, q0 * a->width + c, att_again(a->width), a->seq - q0, a->dim - c, a->whole};
    att_copy(RP_ATT_QUERIES(rows), RP_ATT_DIM / 4, b->g, RP_ATT_TILE_PITCH, &g);
}
/* which: 1 keys, 2 values */
RP_DEVICE void copy_keys(const struct backward *b, float *to, const int which, int k0, int c)
{
    const struct rp_attention_backward_args *a = b->a;
    const struct att_part k = {b->x + which * a->width, k0 * a->ld + c, att_again(a->ld), b->keys - k0, a->dim - c, a->whole};
    att_copy(RP_ATT_KEYS, RP_ATT_DIM / 4, to, RP_ATT_TILE_PITCH, &k);
}

/* The four words of every query, its D and its first key; zeros after the sequence. */
RP_DEVICE void copy_rows(const int rows, const struct backward *b, int q0, int k0)
{
    const struct rp_attention_backward_args *a = b->a;
    const int word = (int)threadIdx.x % 4;
    RP_NO_UNROLL
    for (int q = (int)threadIdx.x / 4; q < RP_ATT_QUERIES(rows); q += RP_ATT_THREADS / 4) {
        const int inside = q0 + q < a->seq && (word < 2 || a->mask);
        const size_t at = b->rows + (size_t)(inside ? q0 + q : 0);
        const float *from = word == 1 ? a->row_inv + at : a->row_max + at;
        if (word > 1 && inside)
            from = (const float *)(const void *)(a->mask + at * (size_t)(a->padded / 8) + (size_t)(k0 / 8)) + (word - 2);
#if RP_ASYNC
        rp_copy4_or_zero(b->row + 4 * q + word, from, inside);
#else
        b->row[4 * q + word] = inside ? *from : 0.0f;
#endif
    }
    if ((int)threadIdx.x < 2 * RP_ATT_QUERIES(rows)) {
        const int q = q0 + (int)threadIdx.x / 2, is_key = (int)threadIdx.x % 2, inside = q < a->seq && (!is_key || a->first);
        const float *from = a->big_d + b->rows + (inside ? q : 0);
        if (is_key && inside)
            from = (const float *)(const void *)(a->first + (size_t)(blockIdx.x / (unsigned)a->heads) * (size_t)a->seq + (size_t)q);
#if RP_ASYNC
        rp_copy4_or_zero(b->big_d + threadIdx.x, from, inside);
#else
        b->big_d[threadIdx.x] = inside ? *from : 0.0f;
#endif
    }
}

/* ---- the square ---- */

/* How many of a tile's `all` columns, queries or keys exist, rounded up to 16: the padding is +0 and adds nothing. */
RP_DEVICE int steps_of(const int all, int left)
{
    return left < all ? (left + 15) / 16 * 16 : all;
}

/* Columns at a time: more would take too many registers. */
#define UNROLL 8

/* Products of queries and keys, and of the gradients of outputs and values. */
RP_DEVICE void add_products(const int rows, const struct backward *b, float (*s)[4], float (*g)[4], int columns)
{
    const struct att_owner me = att_owner();
    const int x = me.row * RP_ATT_TILE_PITCH, y = me.col * RP_ATT_TILE_PITCH;
    RP_NO_UNROLL
    for (int d = 0; d < columns; d += UNROLL)
        att_dots(rows, UNROLL, s, b->q + x + d, RP_ATT_TILE_PITCH, b->k + y + d, RP_ATT_TILE_PITCH);
    RP_NO_UNROLL
    for (int d = 0; d < columns; d += UNROLL)
        att_dots(rows, UNROLL, g, b->g + x + d, RP_ATT_TILE_PITCH, b->v + y + d, RP_ATT_TILE_PITCH);
}

/* Bit j: key k0 + col + 16 j is attended to. */
RP_DEVICE uint32_t keys_on(const struct backward *b, int k0)
{
    uint32_t on = 0;
    RP_UNROLL
    for (int j = 0; j < 4; j++) {
        const int k = k0 + b->me.col + 16 * j;
        on |= (uint32_t)(k < b->keys && (!b->on || b->on[k])) << j;
    }
    return on;
}

/* The bits of `on` for keys up to the query, which is `ahead` after key k0 + col. */
RP_DEVICE uint32_t attended(const struct backward *b, uint32_t on, int ahead)
{
    return !b->a->causal || ahead >= 48 ? on : ahead < 0 ? 0 : on & ((2u << ahead / 16) - 1);
}

/* Chains s and g become pd and ds; +0 where the key is not attended to. Without dropout all are kept, times 1. */
RP_DEVICE void to_gradients(const int rows, const struct backward *b, float (*s)[4], float (*g)[4], int q0, int k0, uint32_t keys)
{
    const struct att_owner me = att_owner();
    const struct rp_attention_backward_args *a = b->a;
    const uint32_t all = a->mask ? 0u : ~0u;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const int q = att_again(me.row + 8 * i); /* rows one by one: together they would take all registers */
        const float4 row = att_read(b->row + 4 * q);
        const float2 pair = *(const float2 *)(const void *)(b->big_d + 2 * q);
        const uint32_t on = att_from(attended(b, keys, q0 + q - k0 - me.col), (int)__float_as_uint(pair.y) - k0 - me.col);
        const uint32_t keep[2] = {(__float_as_uint(row.z) | all) >> me.col, (__float_as_uint(row.w) | all) >> me.col};
        RP_UNROLL
        for (int j = 0; j < 4; j++) {
            const float p = att_exp((s[i][j] + 0.0f) * a->scale - row.x, on >> j) * row.y;
            const int kept = keep[j / 2] >> 16 * (j % 2) & 1;
            const float dp = kept ? (g[i][j] + 0.0f) * a->keep_scale : 0.0f;
            const float ds = (p * (dp - pair.x)) * a->scale;
            s[i][j] = kept ? p * a->keep_scale : 0.0f;
            g[i][j] = on >> j & 1 ? ds : 0.0f;
        }
    }
}

RP_DEVICE void put_square(const int rows, const struct backward *b, float (*s)[4])
{
    const struct att_owner me = att_owner();
    float *p = b->p + me.row * RP_ATT_SQUARE_PITCH + me.col;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            p[8 * i * RP_ATT_SQUARE_PITCH + 16 * j] = s[i][j];
    }
}

/* c[64 keys, 64] += square^T y, y: b->q or b->g */
RP_DEVICE void add_over_queries(const struct backward *b, float (*c)[4], const float *y, int queries)
{
    const struct att_owner me = att_owner();
    RP_NO_UNROLL
    for (int q = 0; q < queries; q += 16)
        att_columns(16, c, b->p + 4 * me.row + q * RP_ATT_SQUARE_PITCH, RP_ATT_SQUARE_PITCH, y + 4 * me.col + q * RP_ATT_TILE_PITCH,
                    RP_ATT_TILE_PITCH);
}

/* dq[8 * rows queries, 64] += square k */
RP_DEVICE void add_over_keys(const int rows, const struct backward *b, float (*dq)[4], int keys)
{
    const struct att_owner me = att_owner();
    RP_NO_UNROLL
    for (int k = 0; k < keys; k += 16)
        att_rows(rows, 16, dq, b->p + me.row * RP_ATT_SQUARE_PITCH + k, RP_ATT_SQUARE_PITCH,
                 b->k + 4 * me.col + k * RP_ATT_TILE_PITCH, RP_ATT_TILE_PITCH);
}

/* ---- chains in memory ---- */

/* This thread's row i of a tile, from the tile's first: queries (rows of them), or keys. */
RP_DEVICE int row_of(const struct backward *b, const int keys, int i)
{
    return keys ? 4 * b->me.row + i % 4 + 32 * (i / 4) : b->me.row + 8 * i;
}

/* which: 0 dq, 1 dk, 2 dv. A tile from row `first`, columns from c. */
RP_DEVICE void get_chains(const int rows, const struct backward *b, float (*s)[4], const int which, int first, int c)
{
    const struct rp_attention_backward_args *a = b->a;
    const int left = a->dim - c - 4 * b->me.col, ld = att_again(a->ld);
    const float *from = b->dx + which * a->width + c + 4 * b->me.col;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const int row = first + row_of(b, which, i), inside = row < a->seq;
        if (a->whole && inside && left > 0) {
            const float4 v = att_read(from + row * ld);
            s[i][0] = v.x;
            s[i][1] = v.y;
            s[i][2] = v.z;
            s[i][3] = v.w;
        } else {
            RP_UNROLL
            for (int j = 0; j < 4; j++)
                s[i][j] = inside && left > j ? from[row * ld + j] : 0.0f;
        }
    }
}

/* last: they end here */
RP_DEVICE void put_chains(const int rows, const struct backward *b, float (*s)[4], const int which, int first, int c, int last)
{
    const struct rp_attention_backward_args *a = b->a;
    const int ld = att_again(a->ld);
    float *to = b->dx + which * a->width + c + 4 * b->me.col;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const int row = first + row_of(b, which, i);
        const float4 v = last ? att_ended(s[i]) : make_float4(s[i][0], s[i][1], s[i][2], s[i][3]);
        if (row < a->seq)
            att_put(to + row * ld, v, a->dim - c - 4 * b->me.col, a->whole);
    }
}

/* dk and dv of keys past the last tile. */
RP_DEVICE void put_nothing(const struct backward *b)
{
    const struct rp_attention_backward_args *a = b->a;
    const int from = (b->keys + RP_ATT_KEYS - 1) / RP_ATT_KEYS * RP_ATT_KEYS;
    for (int row = from + b->me.warp; row < a->seq; row += RP_ATT_THREADS / RP_WARP)
        for (int d = b->me.lane; d < a->dim; d += RP_WARP)
            b->dx[row * a->ld + a->width + d] = b->dx[row * a->ld + 2 * a->width + d] = 0.0f;
}

/* The first queries of the squares with keys from k0; a tile of keys begins at one of queries. */
RP_DEVICE int first_query(const struct backward *b, int k0)
{
    return b->a->causal ? k0 : 0;
}
/* 1: no square after this one has these queries. */
RP_DEVICE int ends_queries(const int rows, const struct backward *b, int q0, int k0)
{
    return k0 + RP_ATT_KEYS >= (b->a->causal && q0 + RP_ATT_QUERIES(rows) < b->keys ? q0 + RP_ATT_QUERIES(rows) : b->keys);
}

/* ---- heads of up to 64 columns ---- */

RP_DEVICE void start_queries(const int rows, const struct backward *b, int q0, int k0)
{
    copy_queries(rows, b, q0, 0);
    copy_gradients(rows, b, q0, 0);
    copy_rows(rows, b, q0, k0);
}

/* Starts copying the tiles of the square after (q0, k0), if there is one. */
RP_DEVICE void start_next(const int rows, const struct backward *b, int q0, int k0)
{
    if (q0 + RP_ATT_QUERIES(rows) < b->a->seq)
        start_queries(rows, b, q0 + RP_ATT_QUERIES(rows), k0);
    else if (k0 + RP_ATT_KEYS < b->keys) {
        start_queries(rows, b, first_query(b, k0 + RP_ATT_KEYS), k0 + RP_ATT_KEYS);
        copy_keys(b, b->v, 2, k0 + RP_ATT_KEYS, 0);
    }
    rp_copy_commit();
}

/* One square, whose tiles are being copied; dk and dv: this thread's parts. */
RP_DEVICE void square(const int rows, const struct backward *b, float (*dk)[4], float (*dv)[4], int q0, int k0, uint32_t on)
{
    const struct rp_attention_backward_args *a = b->a;
    const int columns = steps_of(RP_ATT_DIM, a->dim), queries = steps_of(RP_ATT_QUERIES(rows), a->seq - q0);
    float s[ATT_ROWS][4], g[ATT_ROWS][4];
    rp_copy_wait(0);
    __syncthreads();
    att_clear(rows, s);
    att_clear(rows, g);
    add_products(rows, b, s, g, columns);
    to_gradients(rows, b, s, g, q0, k0, on);
    put_square(rows, b, s);
    __syncthreads();
    add_over_queries(b, dv, b->g, queries);
    __syncthreads();
    put_square(rows, b, g);
    if (k0 > 0)
        get_chains(rows, b, s, 0, q0, 0);
    else
        att_clear(rows, s);
    __syncthreads();
    add_over_queries(b, dk, b->q, queries);
    __syncthreads();
    start_next(rows, b, q0, k0);
    add_over_keys(rows, b, s, steps_of(RP_ATT_KEYS, b->keys - k0));
    put_chains(rows, b, s, 0, q0, 0, ends_queries(rows, b, q0, k0));
}

RP_DEVICE void narrow(const int rows, const struct backward *b)
{
    float dk[8][4], dv[8][4];
    start_queries(rows, b, 0, 0);
    copy_keys(b, b->v, 2, 0, 0);
    RP_NO_UNROLL
    for (int k0 = 0; k0 < b->keys; k0 += RP_ATT_KEYS) {
        const uint32_t on = keys_on(b, k0);
        __syncthreads(); /* the keys before have been read */
        copy_keys(b, b->k, 1, k0, 0);
        rp_copy_commit();
        att_clear(8, dk);
        att_clear(8, dv);
        RP_NO_UNROLL
        for (int q0 = first_query(b, k0); q0 < b->a->seq; q0 += RP_ATT_QUERIES(rows))
            square(rows, b, dk, dv, q0, k0, on);
        put_chains(8, b, dk, 1, k0, 0, 1);
        put_chains(8, b, dv, 2, k0, 0, 1);
    }
}

/* ---- wider heads ---- */

/* Waits for the copies of all threads. */
RP_DEVICE void arrive(void)
{
    rp_copy_commit();
    rp_copy_wait(0);
    __syncthreads();
}

/* pd and ds of one square, over all columns. */
RP_DEVICE void wide_products(const int rows, const struct backward *b, float (*s)[4], float (*g)[4], int q0, int k0)
{
    const struct rp_attention_backward_args *a = b->a;
    att_clear(rows, s);
    att_clear(rows, g);
    RP_NO_UNROLL
    for (int c = 0; c < a->dim; c += RP_ATT_DIM) {
        const int columns = steps_of(RP_ATT_DIM, a->dim - c);
        __syncthreads();
        copy_queries(rows, b, q0, c);
        copy_gradients(rows, b, q0, c);
        copy_keys(b, b->k, 1, k0, c);
        copy_keys(b, b->v, 2, k0, c);
        if (c == 0)
            copy_rows(rows, b, q0, k0);
        arrive();
        add_products(rows, b, s, g, columns);
    }
    to_gradients(rows, b, s, g, q0, k0, keys_on(b, k0));
}

/* Columns from c of dk (which 1, with queries) or dv (2, with gradients of outputs), on from memory. */
RP_DEVICE void wide_columns(const int rows, const struct backward *b, const int which, int q0, int k0, int c)
{
    const int seq = b->a->seq;
    float s[8][4];
    if (q0 > first_query(b, k0))
        get_chains(8, b, s, which, k0, c);
    else
        att_clear(8, s);
    add_over_queries(b, s, which == 1 ? b->q : b->g, steps_of(RP_ATT_QUERIES(rows), seq - q0));
    put_chains(8, b, s, which, k0, c, q0 + RP_ATT_QUERIES(rows) >= seq);
}

RP_DEVICE void wide_square(const int rows, const struct backward *b, int q0, int k0)
{
    const int dim = b->a->dim;
    float s[ATT_ROWS][4], g[ATT_ROWS][4];
    wide_products(rows, b, s, g, q0, k0);
    put_square(rows, b, s);
    RP_NO_UNROLL
    for (int c = 0; c < dim; c += RP_ATT_DIM) {
        __syncthreads();
        copy_gradients(rows, b, q0, c);
        arrive();
        wide_columns(rows, b, 2, q0, k0, c);
    }
    __syncthreads();
    put_square(rows, b, g);
    RP_NO_UNROLL
    for (int c = 0; c < dim; c += RP_ATT_DIM) {
        __syncthreads();
        copy_queries(rows, b, q0, c);
        copy_keys(b, b->k, 1, k0, c);
        arrive();
        wide_columns(rows, b, 1, q0, k0, c);
        if (k0 > 0)
            get_chains(rows, b, s, 0, q0, c);
        else
            att_clear(rows, s);
        add_over_keys(rows, b, s, steps_of(RP_ATT_KEYS, b->keys - k0));
        put_chains(rows, b, s, 0, q0, c, ends_queries(rows, b, q0, k0));
    }
}

/* ---- D ---- */

/* A thread for each row and head. */
RP_KERNEL(attention_dots)
{
    const unsigned number = blockIdx.x * blockDim.x + threadIdx.x, row = number / (unsigned)a.heads, head = number % (unsigned)a.heads;
    if (row >= (unsigned)a.rows)
        return;
    const size_t at = ((size_t)row * (size_t)a.heads + head) * (size_t)a.dim;
    const float *x = a.d_o + at, *y = a.o + at;
    float s = 0.0f;
    int d = 0;
    RP_NO_UNROLL
    for (; a.whole && d < a.dim; d += 4) {
        const float4 u = att_read(x + d), v = att_read(y + d);
        s = fmaf(u.x, v.x, s);
        s = fmaf(u.y, v.y, s);
        s = fmaf(u.z, v.z, s);
        s = fmaf(u.w, v.w, s);
    }
    RP_NO_UNROLL
    for (; d < a.dim; d++)
        s = fmaf(x[d], y[d], s);
    const unsigned sample = row / (unsigned)a.seq;
    a.big_d[((size_t)sample * (size_t)a.heads + head) * (size_t)a.seq + row % (unsigned)a.seq] = s + 0.0f;
}

/* ---- kernels ---- */

RP_DEVICE struct backward head_of(const int rows, const struct rp_attention_backward_args *a)
{
    struct backward b;
    const int sample = (int)blockIdx.x / a->heads, head = (int)blockIdx.x % a->heads;
    const size_t row = (size_t)sample * (size_t)a->seq, at = row * (size_t)a->width + (size_t)(head * a->dim);
    b.a = a;
    b.me = att_owner();
    b.k = RP_SHARED(float);
    b.v = b.k + RP_ATT_KEYS * RP_ATT_TILE_PITCH;
    b.q = b.v + RP_ATT_KEYS * RP_ATT_TILE_PITCH;
    b.g = b.q + RP_ATT_QUERIES(rows) * RP_ATT_TILE_PITCH;
    b.p = b.g + RP_ATT_QUERIES(rows) * RP_ATT_TILE_PITCH;
    b.row = b.p + RP_ATT_QUERIES(rows) * RP_ATT_SQUARE_PITCH;
    b.big_d = b.row + RP_ATT_QUERIES(rows) * 4;
    b.x = a->qkv + row * (size_t)a->ld + (size_t)(head * a->dim);
    b.dx = a->dqkv + row * (size_t)a->ld + (size_t)(head * a->dim);
    b.d_o = a->d_o + at;
    b.rows = (size_t)blockIdx.x * (size_t)a->seq;
    b.on = a->keys ? a->keys + row : 0;
    b.keys = att_keys(b.on, a->seq, b.me.lane);
    return b;
}

RP_KERNEL(attention_backward_64)
{
    const struct backward b = head_of(8, &a);
    narrow(8, &b);
    put_nothing(&b);
}
RP_KERNEL(attention_backward_32)
{
    const struct backward b = head_of(4, &a);
    narrow(4, &b);
    put_nothing(&b);
}
RP_KERNEL(attention_backward_wide)
{
    const struct backward b = head_of(4, &a);
    RP_NO_UNROLL
    for (int k0 = 0; k0 < b.keys; k0 += RP_ATT_KEYS)
        RP_NO_UNROLL
        for (int q0 = first_query(&b, k0); q0 < a.seq; q0 += RP_ATT_QUERIES(4))
            wide_square(4, &b, q0, k0);
    put_nothing(&b);
}
