/* Attention, forward and backward, one head of one sample at a time in a thread's scratch.
 * Compiled once per instruction set by ops_<isa>.c.
 *
 * Every product is a set of chains with lanes along the output's columns: a row-major operand is broadcast, the other has its columns in
 * vector registers, so scores need k (and v, backward) transposed, and all other products use rows as they are.
 *
 *     s [q,k] = sum_d q[q,d] kT[d,k]      dp[q,k] = sum_d do[q,d] vT[d,k]
 *     o [q,d] = sum_k p[q,k] v[k,d]       dq[q,d] = sum_k ds[q,k] k[k,d]
 *     dk[k,d] = sum_q ds[q,k] q[q,d]      dv[k,d] = sum_q p[q,k] do[q,d]
 *
 * Work that cannot change a bit is skipped: keys after the last one attended to (p = +0), and, backward, queries after the last
 * whose gradient is not zero: fma(0, x, s) = s for finite x, except for the sign of a zero, which every chain's + (+0) fixes.
 * Heads wider than COLUMNS are processed in column chunks; a chain over d then continues from the stored score. */

#define PAD RP_ATT_PAD
#define COLUMNS RP_ATT_COLUMNS
#define SKEW RP_ATT_SKEW

static long padded(long n)
{
    return (n + PAD - 1) & ~(long)(PAD - 1);
}

/* One thread's scratch, in floats; rp_cpu_attention_scratch() in ops.c adds up the same sizes. */
struct att_scratch {
    float *kt, *vt;     /* [COLUMNS, seq]: transposed keys and values */
    float *q, *k, *v;   /* [seq, COLUMNS]; v holds do in the backward pass */
    float *bias;        /* [seq]: 0 attended to, -inf masked */
    uint32_t *keep;     /* [seq]: all ones, 0 */
    float *big_d;       /* [seq] */
    float *s, *dp;      /* [seq, seq + SKEW] */
};

static struct att_scratch att_scratch_of(void *memory, long seq)
{
    struct att_scratch t;
    long n = padded(seq);
    t.kt = memory;
    t.vt = t.kt + COLUMNS * (n + SKEW);
    t.q = t.vt + COLUMNS * (n + SKEW);
    t.k = t.q + n * COLUMNS;
    t.v = t.k + n * COLUMNS;
    t.bias = t.v + n * COLUMNS;
    t.keep = (uint32_t *)(void *)(t.bias + n);
    t.big_d = t.bias + 2 * n;
    t.s = t.big_d + n;
    t.dp = t.s + n * (n + SKEW);
    return t;
}

/* ---- reading ahead ---- */

/* Rows of the tensors that the next head of the sample will read (and, backward, write), prefetched one at a time while tiles are
 * computed: they are far apart in memory, where no hardware prefetches. */
struct ahead {
    const float *from[8];
    long ld[8];
    int tensors, lines; /* lines: 64-byte lines of a row */
    int tensor;         /* the next one; `tensors`: done */
    long row, rows;     /* of each tensor */
};

#define AHEAD_STEPS 16 /* of a tile between two prefetched rows: more at once would wait for each other */

RP_LANE void look_ahead(struct ahead *a)
{
    if (a->tensor == a->tensors)
        return;
    const char *p = (const char *)(a->from[a->tensor] + a->row * a->ld[a->tensor]);
    for (int l = 0; l < a->lines; l++)
        __builtin_prefetch(p + 64 * l, 0, 2);
    if (++a->row == a->rows) {
        a->row = 0;
        a->tensor++;
    }
}

/* ---- chains ---- */

/* c[i, 0..vectors*W) = chain over t of a[i*ar + t*at] * b[t, .] + (+0), for `rows` <= TILE_ROWS rows and the first `cols` columns;
 * continues from c if `more`. Reads TILE_ROWS rows of a and whole vectors of b. */
RP_LANE void tile(struct ahead *ahead, const int vectors, long steps, const float *a, long ar, long at, const float *b, long ldb,
                  float *c, long ldc, long rows, long cols, int more)
{
    vf s[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int i = 0; i < TILE_ROWS; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++) s[i][j] = vset1(0.0f);
    }
    if (more) {
        UNROLL for (int i = 0; i < TILE_ROWS; i++)
        {
            UNROLL for (int j = 0; j < vectors; j++) s[i][j] = i < rows ? vload(c + i * ldc + j * W) : s[i][j];
        }
    }
    for (long t = 0; t < steps;) {
        long end = steps - t < AHEAD_STEPS ? steps : t + AHEAD_STEPS;
        look_ahead(ahead);
        for (; t < end; t++) {
            vf bt[TILE_VECTORS];
            UNROLL for (int j = 0; j < vectors; j++) bt[j] = vload(b + t * ldb + j * W);
            UNROLL for (int i = 0; i < TILE_ROWS; i++)
            {
                vf ai = vset1(a[i * ar + t * at]);
                UNROLL for (int j = 0; j < vectors; j++) s[i][j] = vfma(ai, bt[j], s[i][j]);
            }
        }
    }
    UNROLL for (int i = 0; i < TILE_ROWS; i++)
    {
        if (i < rows) {
            UNROLL for (int j = 0; j < vectors; j++)
            {
                long left = cols - j * W;
                if (left >= W)
                    vstore(c + i * ldc + j * W, s[i][j] + vset1(0.0f));
                else if (left > 0)
                    vstore_n(c + i * ldc + j * W, s[i][j] + vset1(0.0f), (int)left);
            }
        }
    }
}

/* c[rows, cols] = chains as above. b has whole vectors up to cols rounded up to W, a whole tiles of rows. */
static void chains(struct ahead *ahead, long rows, long cols, long steps, const float *a, long ar, long at, const float *b, long ldb,
                   float *c, long ldc, int more)
{
    long vectors = (cols + W - 1) / W;
    for (long v = 0; v < vectors;) {
        long left = vectors - v, take = left >= TILE_VECTORS ? TILE_VECTORS : left;
        if (TILE_VECTORS == 3 && left == 4)
            take = 2; /* 2 + 2 keeps more products per load than 3 + 1 */
        const float *bv = b + v * W;
        float *cv = c + v * W;
        for (long i = 0; i < rows; i += TILE_ROWS) {
            long here = rows - i;
            if (take == 3)
                tile(ahead, TILE_VECTORS, steps, a + i * ar, ar, at, bv, ldb, cv + i * ldc, ldc, here, cols - v * W, more);
            else if (take == 2)
                tile(ahead, 2, steps, a + i * ar, ar, at, bv, ldb, cv + i * ldc, ldc, here, cols - v * W, more);
            else
                tile(ahead, 1, steps, a + i * ar, ar, at, bv, ldb, cv + i * ldc, ldc, here, cols - v * W, more);
        }
        v += take;
    }
}

/* ---- packing ---- */

/* dst[0..padded(rows), 0..padded(cols)) = src, zeros around; rows of dst are padded(cols) long. */
static void pack_rows(float *dst, const float *src, long ld, long rows, long cols)
{
    long ldd = padded(cols);
    for (long r = 0; r < rows; r++) {
        const float *p = src + r * ld;
        float *q = dst + r * ldd;
        long j = 0;
        for (; j + W <= cols; j += W)
            vstore(q + j, vload(p + j));
        for (; j < cols; j++)
            q[j] = p[j];
        for (; j < ldd; j++)
            q[j] = 0.0f;
    }
    memset(dst + rows * ldd, 0, (size_t)((padded(rows) - rows) * ldd) * sizeof *dst);
}

#if W > 1
/* 8 x 8 floats: dst[j, i] = src[i, j] */
RP_LANE void transpose_8(float *dst, long ldd, const float *src, long ld)
{
    __m256 r[8], t[8];
    UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(src + i * ld);
    UNROLL for (int i = 0; i < 8; i += 2)
    {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        _mm256_storeu_ps(dst + i * ldd, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * ldd, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#endif

/* dst[j, i] = src[i, j] for rows x cols, zeros in i = rows .. padded(rows). */
static void pack_transposed(float *dst, long ldd, const float *src, long ld, long rows, long cols)
{
    long i = 0;
#if W > 1
    for (; i + 8 <= rows; i += 8) {
        long j = 0;
        for (; j + 8 <= cols; j += 8)
            transpose_8(dst + j * ldd + i, ldd, src + i * ld + j, ld);
        for (; j < cols; j++)
            for (long k = i; k < i + 8; k++)
                dst[j * ldd + k] = src[k * ld + j];
    }
#endif
    for (; i < padded(rows); i++)
        for (long j = 0; j < cols; j++)
            dst[j * ldd + i] = i < rows ? src[i * ld + j] : 0.0f;
}

/* ---- one head ---- */

struct att_job {
    struct rp_cpu *cpu;
    const struct rp_attention *a;
    const float *qkv, *d_o, *o;
    float *out, *row_max, *row_inv; /* out: o forward, dqkv backward */
    const float *max_in, *inv_in;
    uint8_t *mask;
    const uint8_t *decided;
    float *work; /* 64-row sums of dqkv, [block, 3*width], or NULL when blocks straddle samples */
    struct decider decider;
    int heads_each; /* heads of one sample per part */
    long width;
};

struct head {
    const struct att_job *o;
    struct att_scratch t;
    long seq, dim, ld, keys, ldk, lds; /* keys: up to the last attended to; ldk: of kt, vt; lds: of s, dp */
    long sample, row0, q0, o0;         /* row0: of row_max and mask; q0, o0: first element in qkv and in o */
    struct ahead ahead;
};

/* The next head; nothing if it is not in this part. */
static struct ahead ahead_of(const struct att_job *o, const struct head *x, int next)
{
    const float *q = o->qkv + x->q0 + x->dim;
    struct ahead a = {.from = {q, q + o->width, q + 2 * o->width}, .ld = {x->ld, x->ld, x->ld}, .tensors = 3,
                      .lines = (int)((x->dim * 4 + 63) / 64), .rows = x->seq};
    if (o->d_o) {
        a.from[3] = o->d_o + x->o0 + x->dim;
        a.from[4] = o->o + x->o0 + x->dim;
        a.ld[3] = a.ld[4] = o->width;
        for (int i = 0; i < 3; i++) {
            a.from[5 + i] = o->out + x->q0 + x->dim + i * o->width;
            a.ld[5 + i] = x->ld;
        }
        a.tensors = 8;
    }
    a.tensor = next ? 0 : a.tensors;
    return a;
}

static struct head head_of(const struct att_job *o, long sample, long h, void *memory)
{
    const struct rp_attention *a = o->a;
    struct head x = {.o = o, .t = att_scratch_of(memory, a->seq), .seq = a->seq, .dim = a->head_dim, .ld = 3 * o->width,
                     .sample = sample, .row0 = (sample * a->heads + h) * a->seq};
    const uint8_t *attend = a->key_mask + sample * a->seq;
    for (x.keys = a->seq; x.keys > 0 && !attend[x.keys - 1]; x.keys--)
        ;
    for (long k = 0; k < padded(x.keys); k++) {
        int yes = k < x.keys && attend[k];
        x.t.bias[k] = yes ? 0.0f : -__builtin_inff();
        x.t.keep[k] = yes ? ~0u : 0;
    }
    x.ldk = x.lds = padded(x.keys) + SKEW;
    x.q0 = sample * a->seq * x.ld + h * a->head_dim;
    x.o0 = sample * a->seq * o->width + h * a->head_dim;
    x.ahead = ahead_of(o, &x, h + 1 < a->heads && (h + 1) % o->heads_each);
    return x;
}

static long chunk_of(const struct head *x, long c)
{
    return x->dim - c < COLUMNS ? x->dim - c : COLUMNS;
}

static void run_masked_exp(float *s, const uint32_t *keep, float m, long n)
{
#pragma GCC ivdep
    for (long k = 0; k < n; k++)
        s[k] = r_float(r_bits(r_exp_below(s[k] - m)) & keep[k]);
}

static void run_probabilities(float *s, const uint32_t *keep, float scale, float m, float inv, long n)
{
#pragma GCC ivdep
    for (long k = 0; k < n; k++)
        s[k] = r_float(r_bits(r_exp_below(s[k] * scale - m)) & keep[k]) * inv;
}

/* Scores of query q in s become probabilities after dropout. */
static void softmax_row(const struct head *x, long q)
{
    const struct att_job *o = x->o;
    const long wide = padded(x->keys), row = x->row0 + q;
    float *s = x->t.s + q * x->lds;
    const vf scale = vset1(o->a->scale);
    vf top = vset1(-__builtin_inff());
    for (long k = 0; k < wide; k += W) {
        vf v = vload(s + k) * scale;
        vstore(s + k, v);
        top = vmax(top, v + vload(x->t.bias + k));
    }
    float m = vhmax(top) + 0.0f;
    run_masked_exp(s, x->t.keep, m, wide);
    struct sum128 sum;
    sum_start(&sum);
    EACH_VECTOR(wide, { sum.lane[l] = sum.lane[l] + vget(s + j, n); });
    float inv = 1.0f / sum_end(&sum);
    o->row_max[row] = m;
    o->row_inv[row] = inv;
    const vf vinv = vset1(inv);
    if (o->mask) {
        uint8_t *bits = o->mask + row * (o->decider.stride / 8);
        const vf keep_scale = vset1(o->a->drop.scale);
        decide_row(bits, &o->decider, row);
        for (long k = 0; k < wide; k += W)
            vstore(s + k, vkeep(bits, k, (vload(s + k) * vinv) * keep_scale));
    } else {
        for (long k = 0; k < wide; k += W)
            vstore(s + k, vload(s + k) * vinv);
    }
}

#define QUERIES 32 /* processed together: their scores stay in the cache */

static void forward_head(const struct att_job *o, long sample, long h, void *memory)
{
    struct head x = head_of(o, sample, h, memory);
    const float *q = o->qkv + x.q0, *k = q + o->width, *v = k + o->width;
    const long last = (x.dim - 1) / COLUMNS * COLUMNS;
    for (long c = 0; c <= last; c += COLUMNS) {
        long cols = chunk_of(&x, c), ldc = padded(cols);
        pack_rows(x.t.q, q + c, x.ld, x.seq, cols);
        pack_transposed(x.t.kt, x.ldk, k + c, x.ld, x.keys, cols);
        if (c < last)
            chains(&x.ahead, x.seq, padded(x.keys), cols, x.t.q, ldc, 1, x.t.kt, x.ldk, x.t.s, x.lds, c > 0);
    }
    const long cols = chunk_of(&x, last), ldc = padded(cols);
    if (last == 0)
        pack_rows(x.t.v, v, x.ld, x.keys, cols);
    for (long i = 0; i < x.seq; i += QUERIES) {
        long rows = x.seq - i < QUERIES ? x.seq - i : QUERIES;
        float *s = x.t.s + i * x.lds;
        chains(&x.ahead, rows, padded(x.keys), cols, x.t.q + i * ldc, ldc, 1, x.t.kt, x.ldk, s, x.lds, last > 0);
        for (long r = i; r < i + rows; r++)
            softmax_row(&x, r);
        if (last == 0)
            chains(&x.ahead, rows, cols, x.keys, s, x.lds, 1, x.t.v, ldc, o->out + x.o0 + i * o->width, o->width, 0);
    }
    for (long c = 0; c <= last && last > 0; c += COLUMNS) {
        long here = chunk_of(&x, c);
        pack_rows(x.t.v, v + c, x.ld, x.keys, here);
        chains(&x.ahead, x.seq, here, x.keys, x.t.s, x.lds, 1, x.t.v, padded(here), o->out + x.o0 + c, o->width, 0);
    }
}

/* ---- backward ---- */

/* Queries up to the last whose incoming gradient has a nonzero element. */
static long live_queries(const struct head *x)
{
    long q = x->seq;
    for (; q > 0; q--) {
        const float *g = x->o->d_o + x->o0 + (q - 1) * x->o->width;
        uint32_t any = 0;
        for (long d = 0; d < x->dim; d++)
            any |= r_bits(g[d]) << 1;
        if (any)
            break;
    }
    return q;
}

/* big_d[q] = chain over d of do * o. Eight queries are the lanes where there are eight and eight elements of a row. */
static void output_products(const struct head *x, long queries)
{
    const long ld = x->o->width;
    const float *g = x->o->d_o + x->o0, *y = x->o->o + x->o0;
    for (long q = 0; q < queries; q += 8) {
        const float *gq = g + q * ld, *yq = y + q * ld;
        long rows = queries - q < 8 ? queries - q : 8, d = 0;
        float s[8] = {0};
#if W > 1
        __m256 sum = _mm256_setzero_ps();
        for (; rows == 8 && d + 8 <= x->dim; d += 8) {
            float gt[64], yt[64];
            transpose_8(gt, 8, gq + d, ld);
            transpose_8(yt, 8, yq + d, ld);
            UNROLL for (int i = 0; i < 64; i += 8) sum = _mm256_fmadd_ps(_mm256_loadu_ps(gt + i), _mm256_loadu_ps(yt + i), sum);
        }
        _mm256_storeu_ps(s, sum);
#endif
        for (long i = 0; i < rows; i++) {
            for (long e = d; e < x->dim; e++)
                s[i] = __builtin_fmaf(gq[i * ld + e], yq[i * ld + e], s[i]);
            x->t.big_d[q + i] = s[i] + 0.0f;
        }
    }
}

/* Query q: scores in s become p after dropout, products in dp become ds. */
static void gradient_row(const struct head *x, long q)
{
    const struct att_job *o = x->o;
    const long n = padded(x->keys), row = x->row0 + q;
    float *s = x->t.s + q * x->lds, *dp = x->t.dp + q * x->lds;
    run_probabilities(s, x->t.keep, o->a->scale, o->max_in[row], o->inv_in[row], n);
    const vf scale = vset1(o->a->scale), big_d = vset1(x->t.big_d[q]), keep_scale = vset1(o->a->drop.scale);
    const uint8_t *bits = o->decided ? o->decided + row * (o->decider.stride / 8) : NULL;
    for (long k = 0; k < n; k += W) {
        vf p = vload(s + k), g = vload(dp + k);
        if (bits) {
            g = vkeep(bits, k, g * keep_scale);
            vstore(s + k, vkeep(bits, k, p * keep_scale));
        }
        vstore(dp + k, (p * (g - big_d)) * scale);
    }
}

/* 64-row sums of this head's columns of dqkv; rows from `rows` on are +0. */
static void bias_sums(const struct head *x, long column, const float *src, long rows)
{
    const struct att_job *o = x->o;
    for (long r = 0; r < x->seq; r += RP_COLSUM_ROWS) {
        long here = rows - r < 0 ? 0 : rows - r < RP_COLSUM_ROWS ? rows - r : RP_COLSUM_ROWS;
        colsum_block(o->work + (x->sample * x->seq + r) / RP_COLSUM_ROWS * x->ld + column, src + r * x->ld, x->ld, here, x->dim);
    }
}

static void clear_rows(float *p, long ld, long from, long to, long cols)
{
    for (long r = from; r < to; r++)
        memset(p + r * ld, 0, (size_t)cols * sizeof *p);
}

static void pack_backward(const struct head *x, long c, long queries, int transposed)
{
    const struct att_job *o = x->o;
    const float *q = o->qkv + x->q0 + c, *k = q + o->width, *v = k + o->width;
    long cols = chunk_of(x, c);
    pack_rows(x->t.q, q, x->ld, queries, cols);
    pack_rows(x->t.k, k, x->ld, x->keys, cols);
    pack_rows(x->t.v, o->d_o + x->o0 + c, o->width, queries, cols);
    if (transposed) {
        pack_transposed(x->t.kt, x->ldk, k, x->ld, x->keys, cols);
        pack_transposed(x->t.vt, x->ldk, v, x->ld, x->keys, cols);
    }
}

static void backward_head(const struct att_job *o, long sample, long h, void *memory)
{
    struct head x = head_of(o, sample, h, memory);
    const struct att_scratch *t = &x.t;
    const long queries = live_queries(&x), keys = padded(x.keys), last = (x.dim - 1) / COLUMNS * COLUMNS;
    float *dq = o->out + x.q0, *dk = dq + o->width, *dv = dk + o->width;
    output_products(&x, queries);
    for (long c = 0; c <= last; c += COLUMNS) {
        long cols = chunk_of(&x, c), ldc = padded(cols);
        pack_backward(&x, c, queries, 1);
        chains(&x.ahead, queries, keys, cols, t->q, ldc, 1, t->kt, x.ldk, t->s, x.lds, c > 0);
        chains(&x.ahead, queries, keys, cols, t->v, ldc, 1, t->vt, x.ldk, t->dp, x.lds, c > 0);
    }
    for (long q = 0; q < queries; q++)
        gradient_row(&x, q);
    for (long c = 0; c <= last; c += COLUMNS) {
        long cols = chunk_of(&x, c), ldc = padded(cols);
        if (last > 0)
            pack_backward(&x, c, queries, 0);
        chains(&x.ahead, queries, cols, x.keys, t->dp, x.lds, 1, t->k, ldc, dq + c, x.ld, 0);
        chains(&x.ahead, x.keys, cols, queries, t->dp, 1, x.lds, t->q, ldc, dk + c, x.ld, 0);
        chains(&x.ahead, x.keys, cols, queries, t->s, 1, x.lds, t->v, ldc, dv + c, x.ld, 0);
    }
    clear_rows(dq, x.ld, queries, x.seq, x.dim);
    clear_rows(dk, x.ld, x.keys, x.seq, x.dim);
    clear_rows(dv, x.ld, x.keys, x.seq, x.dim);
    if (o->work) {
        bias_sums(&x, h * x.dim, dq, queries);
        bias_sums(&x, h * x.dim + o->width, dk, x.keys);
        bias_sums(&x, h * x.dim + 2 * o->width, dv, x.keys);
    }
}

/* ---- operations ---- */

static void attention_part(void *arg, int part, int thread)
{
    const struct att_job *o = arg;
    int groups = blocks_of(o->a->heads, o->heads_each), first = part % groups * o->heads_each;
    for (int h = first; h < o->a->heads && h < first + o->heads_each; h++) {
        if (o->d_o)
            backward_head(o, part / groups, h, rp_cpu_scratch(o->cpu, thread));
        else
            forward_head(o, part / groups, h, rp_cpu_scratch(o->cpu, thread));
    }
}

/* Consecutive heads of a sample use its rows of qkv while they are cached; if there are few samples, their heads are distributed. */
static void attention_run(struct att_job *o)
{
    RP_BUG_IF(o->cpu->scratch_each < rp_cpu_attention_scratch(o->a->seq));
    o->heads_each = o->a->batch >= 8 * o->cpu->threads ? o->a->heads : 1;
    rp_pool_run(o->cpu->pool, o->a->batch * blocks_of(o->a->heads, o->heads_each), attention_part, o);
}

static void cpu_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask, const float *qkv,
                                  const struct rp_attention *a)
{
    if (a->causal) {
        rp_reference_ops.attention_forward(dev, o, row_max, row_inv, mask, qkv, a);
        return;
    }
    struct att_job job = {.cpu = rp_cpu_of(dev), .a = a, .qkv = qkv, .out = o, .row_max = row_max, .row_inv = row_inv,
                          .mask = dropout_on(&a->drop) ? mask : NULL, .decider = decider_of(&a->drop, a->seq),
                          .width = (long)a->heads * a->head_dim};
    attention_run(&job);
}

static void cpu_attention_backward(struct rp_dev *dev, float *dqkv, float *dbias, const float *d_o, const float *o,
                                   const float *row_max, const float *row_inv, const uint8_t *mask, const float *qkv,
                                   const struct rp_attention *a, float *work)
{
    if (a->causal) {
        rp_reference_ops.attention_backward(dev, dqkv, dbias, d_o, o, row_max, row_inv, mask, qkv, a, work);
        return;
    }
    int aligned = a->seq % RP_COLSUM_ROWS == 0;
    struct att_job job = {.cpu = rp_cpu_of(dev), .a = a, .qkv = qkv, .d_o = d_o, .o = o, .out = dqkv, .max_in = row_max,
                          .inv_in = row_inv, .decided = dropout_on(&a->drop) ? mask : NULL, .work = aligned ? work : NULL,
                          .decider = decider_of(&a->drop, a->seq), .width = (long)a->heads * a->head_dim};
    attention_run(&job);
    if (aligned)
        colsum_finish(job.cpu, 1, (float *const[3]){dbias}, (float *const[3]){work}, (long)a->batch * a->seq, 3 * job.width);
    else
        cpu_colsum(dev, dbias, dqkv, a->batch * a->seq, (int)(3 * job.width), work);
}
