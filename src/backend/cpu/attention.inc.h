/* Attention, forward and backward, one head of one sample at a time in a thread's scratch.
 * Compiled once per instruction set by ops_<isa>.c.
 *
 * Every product is a set of chains with lanes along the output's columns: a row-major operand is broadcast, the other
 * has its columns in vector registers, so scores need k (and v, backward) transposed, and all other products use rows
 * as they are.
 *
 *     s [q,k] = sum_d q[q,d] kT[d,k]      dp[q,k] = sum_d do[q,d] vT[d,k]
 *     o [q,d] = sum_k p[q,k] v[k,d]       dq[q,d] = sum_k ds[q,k] k[k,d]
 *     dk[k,d] = sum_q ds[q,k] q[q,d]      dv[k,d] = sum_q p[q,k] do[q,d]
 *
 * Forward, the scores of QUERIES queries against all their keys are in scratch: the maximum and the sum128 need whole
 * rows. Backward, they are known, and s and dp exist as squares of BLOCK queries and keys only: key blocks outside and
 * query blocks inside, both ascending, so that the chains of dq (over keys), dk and dv (over queries) continue from
 * block to block in their order.
 *
 * Work that cannot change a bit is skipped: keys after the last one attended to (p = +0), causal: keys after the query
 * and blocks of keys before the first of all queries of a block, and, backward, queries after the last whose gradient
 * is not zero: fma(0, x, s) = s for finite x, except for the sign of a zero, which every chain's + (+0) fixes. Keys
 * before the first of one query have a score of -inf there. */

#define BLOCK RP_ATT_BLOCK
#define QUERIES RP_ATT_QUERIES
#define LDK (BLOCK + RP_ATT_SKEW) /* row stride of transposed blocks and of squares */
/* a row of scores ends with +0 up to a multiple of this: what a tile reads, and a vector more: end_row() */
#define ROW_END (W > TILE_ROWS ? W : TILE_ROWS)
#define VALUES 512 /* keys whose values stay in the cache for QUERIES queries */
#define AHEAD_MOST 256 /* longer sequences have no next head in the cache */

/* One thread's scratch, in floats; rp_cpu_attention_scratch() in ops.c adds up the same sizes. */
struct att_scratch {
    float *q, *g, *dq;  /* [seq, dim]; g: do; forward: q and the chains of o (in g) of QUERIES rows */
    float *kt, *vt;     /* [dim, LDK]: transposed keys and values of a block; forward: kt of every block */
    float *k, *dk, *dv; /* [BLOCK, dim] */
    float *v;           /* [seq, dim] */
    float *s, *dp;      /* [BLOCK, LDK]; forward: s [QUERIES, seq + SKEW] */
    float *bias;        /* [seq]: 0 attended to, -inf masked */
    float *big_d;       /* [seq] */
    uint8_t *bits;      /* [seq / 8]: as in a mask of decisions, 1 attended to */
};

static float *att_take(float **memory, long floats)
{
    float *p = *memory;
    *memory = p + floats;
    return p;
}

static struct att_scratch att_scratch_of(float *memory, size_t bytes, long seq, long dim, int backward)
{
    const float *start = memory;
    const long n = rp_mask_stride(seq), ldc = padded(dim), square = BLOCK * LDK;
    struct att_scratch t = {0};
    t.q = att_take(&memory, (backward ? n : QUERIES) * ldc);
    t.g = att_take(&memory, (backward ? n : QUERIES) * ldc);
    t.kt = att_take(&memory, (backward ? 1 : n / BLOCK) * dim * LDK);
    t.s = att_take(&memory, backward ? square : QUERIES * (n + RP_ATT_SKEW));
    if (backward) {
        t.dq = att_take(&memory, n * ldc);
        t.vt = att_take(&memory, dim * LDK);
        t.k = att_take(&memory, BLOCK * ldc);
        t.dk = att_take(&memory, BLOCK * ldc);
        t.dv = att_take(&memory, BLOCK * ldc);
        t.dp = att_take(&memory, square);
        t.big_d = att_take(&memory, n);
    } else {
        t.v = att_take(&memory, n * ldc);
    }
    t.bias = att_take(&memory, n);
    t.bits = (uint8_t *)att_take(&memory, n / 32);
    RP_BUG_IF((size_t)(memory - start) * sizeof *memory > bytes);
    return t;
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
    int splits;     /* parts of one head */
    long width;
};

struct head {
    const struct att_job *o;
    struct att_scratch t;
    long seq, dim, ld, ldc, keys; /* ldc: of rows in scratch; keys: up to the last attended to */
    long sample, row0, q0, o0;    /* row0: of row_max and mask; q0, o0: first element in qkv and in o */
    const int32_t *first;         /* of each query: the first key it attends to; NULL: 0 */
    int holes;                    /* some of the keys are masked: t.bias, t.bits */
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

/* x->keys, and which of them are masked. */
static void find_keys(struct head *x, const uint8_t *attend)
{
    x->keys = x->seq;
    if (!attend)
        return;
    while (x->keys > 0 && !attend[x->keys - 1])
        x->keys--;
    for (long k = 0; k < x->keys; k++)
        x->holes |= !attend[k];
    if (!x->holes)
        return;
    memset(x->t.bits, 0, (size_t)rp_mask_stride(x->seq) / 8);
    for (long k = 0; k < rp_mask_stride(x->keys); k++) {
        int yes = k < x->keys && attend[k];
        x->t.bias[k] = yes ? 0.0f : -__builtin_inff();
        x->t.bits[k / 8] = (uint8_t)(x->t.bits[k / 8] | yes << (k & 7));
    }
}

static struct head head_of(const struct att_job *o, long sample, long h, int thread)
{
    const struct rp_attention *a = o->a;
    struct head x = {.o = o, .seq = a->seq, .dim = a->head_dim, .ld = 3 * o->width, .ldc = padded(a->head_dim),
                     .sample = sample, .row0 = (sample * a->heads + h) * a->seq};
    x.t = att_scratch_of(rp_cpu_scratch(o->cpu, thread), o->cpu->scratch_each, a->seq, a->head_dim, o->d_o != NULL);
    x.q0 = sample * a->seq * x.ld + h * a->head_dim;
    x.o0 = sample * a->seq * o->width + h * a->head_dim;
    x.first = a->first_key ? a->first_key + sample * a->seq : NULL;
    find_keys(&x, a->key_mask ? a->key_mask + sample * a->seq : NULL);
    x.ahead = ahead_of(o, &x, a->seq <= AHEAD_MOST && o->splits == 1 && h + 1 < a->heads && (h + 1) % o->heads_each);
    return x;
}

/* Query q attends to keys before this one only. */
static long keys_of(const struct head *x, long q)
{
    return x->o->a->causal ? q + 1 : x->keys;
}

/* The block in which the keys of queries from q on begin; a multiple of 128, so that a sum128 may begin there. */
static long keys_begin(const struct head *x, long q)
{
    _Static_assert(BLOCK % 128 == 0, "lanes of sum128");
    return x->first ? x->first[q] / BLOCK * BLOCK : 0;
}

static long row_end(long n)
{
    return (n + ROW_END - 1) / ROW_END * ROW_END;
}

/* Scores that become +0 where they are exponentials: of n keys from k0 on, those before the first of query q, and what
 * follows them. */
static void cut_row(const struct head *x, float *s, long q, long k0, long n)
{
    const long end = row_end(n), first = x->first ? least_of(x->first[q] - k0, n) : 0;
    for (long k = 0; k < first; k++)
        s[k] = -__builtin_inff();
    for (; n < end; n++)
        s[n] = -__builtin_inff();
}

/* A tile reads as many columns of its rows as the last of them has: more than row_end() of the others, where tiles do
 * not divide it. */
RP_LANE void end_row(float *end)
{
    _Static_assert(ROW_END % TILE_ROWS == 0 || TILE_ROWS <= W + 1, "less than a vector");
    if (ROW_END % TILE_ROWS)
        vstore(end, vset1(0.0f));
}

/* ---- forward ---- */

/* The largest of scores times scale. */
RP_LANE float scores_max(const struct head *x, const float *s, long wide, const int holes)
{
    const vf scale = vset1(x->o->a->scale);
    const float *bias = x->t.bias;
    struct sum128 top; /* lanes of their own: one maximum would wait for the one before */
    max_start(&top);
    EACH_VECTOR(wide, {
        vf v = vload(s + j) * scale;
        if (holes)
            v = v + vload(bias + j);
        top.lane[l] = vmax(top.lane[l], v);
    });
    return max_end(&top) + 0.0f;
}

/* Scores become exponentials; their sum. */
RP_LANE float scores_exp(const struct head *x, float *s, long wide, float m, const int holes)
{
    const vf scale = vset1(x->o->a->scale), vm = vset1(m);
    const uint8_t *bits = x->t.bits;
    struct sum128 sum;
    sum_start(&sum);
#if W == 16
    EACH_VECTOR(wide, {
        vf e = vexp_below(vload(s + j) * scale - vm);
        if (holes)
            e = vkeep(bits, j, e);
        vstore(s + j, e);
        sum.lane[l] = sum.lane[l] + e;
    });
#else /* the sum's lanes fill the registers */
    for (long k = 0; k < wide; k += W) {
        vf e = vexp_below(vload(s + k) * scale - vm);
        vstore(s + k, holes ? vkeep(bits, k, e) : e);
    }
    EACH_VECTOR(wide, { sum.lane[l] = sum.lane[l] + vload(s + j); });
#endif
    return sum_end(&sum);
}

/* Exponentials become probabilities after dropout. */
static void scores_scale(const struct head *x, float *s, long q, long k0, long wide, float inv)
{
    const struct att_job *o = x->o;
    const long row = x->row0 + q;
    const vf vinv = vset1(inv);
    if (o->mask) {
        uint8_t *bits = o->mask + row * (o->decider.stride / 8);
        const vf keep_scale = vset1(o->a->drop.scale);
        decide_first(bits, &o->decider, row, o->a->causal ? keys_of(x, q) : o->decider.width);
        for (long k = 0; k < wide; k += W)
            vstore(s + k, vkeep(bits + k0 / 8, k, (vload(s + k) * vinv) * keep_scale));
    } else {
        for (long k = 0; k < wide; k += W)
            vstore(s + k, vload(s + k) * vinv);
    }
    end_row(s + wide);
}

#define TOGETHER 4 /* queries: each pass over one overlaps the reductions of the others */

/* Scores of queries q .. q + rows - 1 with the keys from k0 on become probabilities after dropout; with holes, k0
 * is 0. */
static void softmax_rows(const struct head *x, float *s, long lds, long q, long rows, long k0)
{
    const struct att_job *o = x->o;
    float m[TOGETHER], inv[TOGETHER];
    long wide[TOGETHER];
    for (long r = 0; r < rows; r++) {
        const long n = keys_of(x, q + r) - k0;
        float *row = s + r * lds;
        cut_row(x, row, q + r, k0, n);
        wide[r] = row_end(n);
        m[r] = x->holes ? scores_max(x, row, wide[r], 1) : scores_max(x, row, wide[r], 0);
    }
    for (long r = 0; r < rows; r++) {
        float *row = s + r * lds;
        inv[r] = 1.0f / (x->holes ? scores_exp(x, row, wide[r], m[r], 1) : scores_exp(x, row, wide[r], m[r], 0));
    }
    for (long r = 0; r < rows; r++) {
        o->row_max[x->row0 + q + r] = m[r];
        o->row_inv[x->row0 + q + r] = inv[r];
        scores_scale(x, s + r * lds, q + r, k0, wide[r], inv[r]);
    }
}

static void forward_block(struct head *x, long q0, long rows)
{
    const struct att_job *o = x->o;
    const long begin = keys_begin(x, q0), keys = keys_of(x, q0 + rows - 1), lds = rp_mask_stride(x->seq) + RP_ATT_SKEW;
    const int causal = o->a->causal;
    pack_rows(x->t.q, o->qkv + x->q0 + q0 * x->ld, x->ld, rows, x->dim);
    for (long k0 = begin; k0 < keys; k0 += BLOCK) {
        struct product s = {.rows = rows, .cols = least_of(BLOCK, padded(keys - k0)), .steps = x->dim, .a = x->t.q,
                            .ar = x->ldc, .at = 1, .b = x->t.kt + k0 / BLOCK * x->dim * LDK, .ldb = LDK,
                            .c = x->t.s + k0, .ldc = lds, .edge = causal ? EDGE_COLUMNS : EDGE_NONE, .shift = q0 - k0};
        chains(&x->ahead, &s);
    }
    for (long r = 0; r < rows; r += TOGETHER)
        softmax_rows(x, x->t.s + r * lds + begin, lds, q0 + r, least_of(TOGETHER, rows - r), begin);
    for (long k0 = begin; k0 < keys; k0 += VALUES) {
        int last = k0 + VALUES >= keys;
        struct product p = {.rows = rows, .cols = x->dim, .steps = least_of(VALUES, keys - k0), .a = x->t.s + k0,
                            .ar = lds, .at = 1, .b = x->t.v + k0 * x->ldc, .ldb = x->ldc,
                            .from = k0 > begin ? x->t.g : NULL, .ldf = x->ldc,
                            .c = last ? o->out + x->o0 + q0 * o->width : x->t.g, .ldc = last ? o->width : x->ldc,
                            .edge = causal ? EDGE_STEPS_TO : EDGE_NONE, .shift = q0 - k0};
        chains(&x->ahead, &p);
    }
}

/* Queries from .. to - 1. */
static void forward_head(struct head *x, long from, long to)
{
    const float *k = x->o->qkv + x->q0 + x->o->width, *v = k + x->o->width;
    const long begin = keys_begin(x, from), keys = keys_of(x, to - 1);
    for (long k0 = begin; k0 < keys; k0 += BLOCK)
        pack_transposed(x->t.kt + k0 / BLOCK * x->dim * LDK, LDK, k + k0 * x->ld, x->ld, least_of(BLOCK, keys - k0),
                        x->dim);
    pack_rows(x->t.v + begin * x->ldc, v + begin * x->ld, x->ld, keys - begin, x->dim);
    for (long q = from; q < to; q += QUERIES)
        forward_block(x, q, least_of(QUERIES, to - q));
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
static void output_products(const struct head *x, long from, long to)
{
    const long ld = x->o->width;
    const float *g = x->o->d_o + x->o0, *y = x->o->o + x->o0;
    for (long q = from; q < to; q += 8) {
        const float *gq = g + q * ld, *yq = y + q * ld;
        long rows = to - q < 8 ? to - q : 8, d = 0;
        float s[8] = {0};
#if W == 4
        vf low = vset1(0.0f), high = low;
        for (; rows == 8 && d + 8 <= x->dim; d += 8) {
            float gt[64], yt[64];
            transpose_8(gt, 8, gq + d, ld);
            transpose_8(yt, 8, yq + d, ld);
            UNROLL for (int i = 0; i < 64; i += 8)
            {
                low = vfma(vload(gt + i), vload(yt + i), low);
                high = vfma(vload(gt + i + 4), vload(yt + i + 4), high);
            }
        }
        vstore(s, low);
        vstore(s + 4, high);
#elif W > 1
        __m256 sum = _mm256_setzero_ps();
        for (; rows == 8 && d + 8 <= x->dim; d += 8) {
            float gt[64], yt[64];
            transpose_8(gt, 8, gq + d, ld);
            transpose_8(yt, 8, yq + d, ld);
            UNROLL for (int i = 0; i < 64; i += 8) sum =
                _mm256_fmadd_ps(_mm256_loadu_ps(gt + i), _mm256_loadu_ps(yt + i), sum);
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

/* n products of a row with the keys from k0 on: scores in s become p after dropout, products in dp become ds. */
RP_LANE void gradient_run(const struct head *x, float *s, float *dp, long q, long k0, long n, const int holes,
                          const int drop)
{
    const struct att_job *o = x->o;
    const long row = x->row0 + q;
    const vf scale = vset1(o->a->scale), big_d = vset1(x->t.big_d[q]), keep_scale = vset1(o->a->drop.scale);
    const vf m = vset1(o->max_in[row]), inv = vset1(o->inv_in[row]);
    const uint8_t *bits = drop ? o->decided + row * (o->decider.stride / 8) + k0 / 8 : NULL,
                  *attended = x->t.bits + k0 / 8;
    for (long k = 0; k < n; k += W) {
        vf p = vexp_below(vload(s + k) * scale - m), g = vload(dp + k);
        if (holes)
            p = vkeep(attended, k, p);
        p = p * inv;
        if (drop)
            g = vkeep(bits, k, g * keep_scale);
        vstore(s + k, drop ? vkeep(bits, k, p * keep_scale) : p);
        vstore(dp + k, (p * (g - big_d)) * scale);
    }
}

static void gradient_row(const struct head *x, float *s, float *dp, long q, long k0, long n)
{
    cut_row(x, s, q, k0, n);
    n = row_end(n);
    if (x->holes && x->o->decided)
        gradient_run(x, s, dp, q, k0, n, 1, 1);
    else if (x->holes)
        gradient_run(x, s, dp, q, k0, n, 1, 0);
    else if (x->o->decided)
        gradient_run(x, s, dp, q, k0, n, 0, 1);
    else
        gradient_run(x, s, dp, q, k0, n, 0, 0);
    end_row(s + n);
    end_row(dp + n);
}

/* 64-row sums of this head's columns of dqkv, rows from .. to - 1, which are +0 from `rows` on. */
static void bias_sums(const struct head *x, const float *src, long from, long to, long rows)
{
    const struct att_job *o = x->o;
    const long column = (src - o->out) % x->ld;
    for (long r = from; o->work && r < to; r += RP_COLSUM_ROWS) {
        long here = rows - r < 0 ? 0 : least_of(rows - r, RP_COLSUM_ROWS);
        colsum_block(o->work + (x->sample * x->seq + r) / RP_COLSUM_ROWS * x->ld + column, src + r * x->ld, x->ld, here,
                     x->dim);
    }
}

static void clear_rows(float *p, long ld, long from, long to, long cols)
{
    for (long r = from; r < to; r++)
        memset(p + r * ld, 0, (size_t)cols * sizeof *p);
}

/* What a part of a head's gradient consists of: dk and dv of some keys, dq of some queries, or all three of
 * everything. */
struct gradient {
    long q0, q1, k0, k1; /* blocks of queries and keys; k1 is beyond x->keys in the part that writes the last rows */
    int queries, keys;   /* dq is wanted; dk and dv are wanted */
};

/* The square of queries from q and keys from k: p in s, ds in dp. */
static void gradient_square(struct head *x, long q, long rows, long k, long keys)
{
    const int causal = x->o->a->causal;
    struct product s = {.rows = rows, .cols = padded(keys), .steps = x->dim, .a = x->t.q + q * x->ldc, .ar = x->ldc,
                        .at = 1, .b = x->t.kt, .ldb = LDK, .c = x->t.s, .ldc = LDK,
                        .edge = causal ? EDGE_COLUMNS : EDGE_NONE, .shift = q - k};
    chains(&x->ahead, &s);
    s.a = x->t.g + q * x->ldc;
    s.b = x->t.vt;
    s.c = x->t.dp;
    chains(&x->ahead, &s);
    for (long r = 0; r < rows; r++)
        gradient_row(x, x->t.s + r * LDK, x->t.dp + r * LDK, q + r, k, least_of(keys, keys_of(x, q + r) - k));
}

/* dq of a square, and its part of dk and dv. */
static void gradient_products(struct head *x, const struct gradient *part, long q, long rows, long k, long keys)
{
    const int causal = x->o->a->causal, first = q == (causal && part->q0 < k ? k : part->q0);
    const int last = q + rows == part->q1 || k < keys_begin(x, q + rows);
    const long begin = keys_begin(x, q) > part->k0 ? keys_begin(x, q) : part->k0;
    const long width = x->o->width;
    float *dq = x->o->out + x->q0, *dk = dq + width + k * x->ld;
    if (part->queries) {
        int done = k + BLOCK >= keys_of(x, q + rows - 1);
        struct product d = {.rows = rows, .cols = x->dim, .steps = keys, .a = x->t.dp, .ar = LDK, .at = 1, .b = x->t.k,
                            .ldb = x->ldc, .from = k > begin ? x->t.dq + q * x->ldc : NULL, .ldf = x->ldc,
                            .c = done ? dq + q * x->ld : x->t.dq + q * x->ldc, .ldc = done ? x->ld : x->ldc,
                            .edge = causal ? EDGE_STEPS_TO : EDGE_NONE, .shift = q - k};
        chains(&x->ahead, &d);
    }
    if (part->keys) {
        struct product d = {.rows = keys, .cols = x->dim, .steps = rows, .a = x->t.dp, .ar = 1, .at = LDK,
                            .b = x->t.q + q * x->ldc, .ldb = x->ldc, .from = first ? NULL : x->t.dk, .ldf = x->ldc,
                            .c = last ? dk : x->t.dk, .ldc = last ? x->ld : x->ldc,
                            .edge = causal ? EDGE_STEPS_FROM : EDGE_NONE, .shift = q - k};
        chains(&x->ahead, &d);
        d.a = x->t.s;
        d.b = x->t.g + q * x->ldc;
        d.from = first ? NULL : x->t.dv;
        d.c = last ? dk + width : x->t.dv;
        chains(&x->ahead, &d);
    }
}

static void backward_head(struct head *x, struct gradient part)
{
    const struct att_job *o = x->o;
    const long live = live_queries(x), q_end = part.q1, k_end = part.k1;
    const float *q = o->qkv + x->q0, *k = q + o->width, *v = k + o->width;
    float *dq = o->out + x->q0, *dk = dq + o->width, *dv = dk + o->width;
    long first = part.q0;
    part.q1 = least_of(part.q1, live);
    part.k1 = least_of(part.k1, x->keys);
    if (part.q0 < part.q1) {
        output_products(x, part.q0, part.q1);
        pack_rows(x->t.q + part.q0 * x->ldc, q + part.q0 * x->ld, x->ld, part.q1 - part.q0, x->dim);
        pack_rows(x->t.g + part.q0 * x->ldc, o->d_o + x->o0 + part.q0 * o->width, o->width, part.q1 - part.q0, x->dim);
    }
    for (long k0 = part.k0; k0 < part.k1; k0 += BLOCK) {
        long keys = least_of(BLOCK, part.k1 - k0);
        first = o->a->causal && part.q0 < k0 ? k0 : part.q0;
        if (first >= part.q1) {
            part.k1 = k0;
            break;
        }
        if (k0 < keys_begin(x, first))
            continue;
        pack_transposed(x->t.kt, LDK, k + k0 * x->ld, x->ld, keys, x->dim);
        pack_transposed(x->t.vt, LDK, v + k0 * x->ld, x->ld, keys, x->dim);
        if (part.queries)
            pack_rows(x->t.k, k + k0 * x->ld, x->ld, keys, x->dim);
        for (long q0 = first; q0 < part.q1 && k0 >= keys_begin(x, q0); q0 += BLOCK) {
            long rows = least_of(BLOCK, part.q1 - q0);
            gradient_square(x, q0, rows, k0, keys);
            gradient_products(x, &part, q0, rows, k0, keys);
        }
    }
    if (part.queries) {
        clear_rows(dq, x->ld, part.q1 > part.q0 ? part.q1 : part.q0, q_end, x->dim);
        bias_sums(x, dq, part.q0, q_end, part.q1);
    }
    if (part.keys) {
        clear_rows(dk, x->ld, part.k1 > part.k0 ? part.k1 : part.k0, k_end, x->dim);
        clear_rows(dv, x->ld, part.k1 > part.k0 ? part.k1 : part.k0, k_end, x->dim);
        bias_sums(x, dk, part.k0, k_end, part.k1);
        bias_sums(x, dv, part.k0, k_end, part.k1);
    }
}

/* ---- operations ---- */

/* A part of a head: all of it, or, forward, some of its queries; backward, half of the parts compute dk and dv of some
 * keys, and the others dq of some queries. The longest parts come first. */
static void attention_part(struct head *x, int split)
{
    const struct att_job *o = x->o;
    const int causal = o->a->causal, both = o->d_o && o->splits > 1, pieces = both ? o->splits / 2 : o->splits;
    const int keys = both && split < pieces;
    const long each = ((x->seq + pieces - 1) / pieces + BLOCK - 1) / BLOCK * BLOCK;
    const long piece = keys || !causal ? split % pieces : pieces - 1 - split % pieces;
    const long from = least_of(piece * each, x->seq), to = least_of(from + each, x->seq);
    if (from == to)
        return;
    if (!o->d_o)
        forward_head(x, from, to);
    else if (!both)
        backward_head(x, (struct gradient){0, x->seq, 0, x->seq, 1, 1});
    else if (keys)
        backward_head(x, (struct gradient){causal ? from : 0, x->seq, from, to, 0, 1});
    else
        backward_head(x, (struct gradient){from, to, 0, causal ? to : x->seq, 1, 0});
}

static void attention_parts(void *arg, int part, int thread)
{
    const struct att_job *o = arg;
    int groups = blocks_of(o->a->heads, o->heads_each), split = part % o->splits, group = part / o->splits;
    int first = group % groups * o->heads_each;
    for (int h = first; h < o->a->heads && h < first + o->heads_each; h++) {
        struct head x = head_of(o, group / groups, h, thread);
        attention_part(&x, split);
    }
}

/* Consecutive heads of a sample use its rows of qkv while they are cached; if there are few samples, their heads are
 * distributed, and if there are few heads and many tokens, the heads are split. Split backward, scores are computed
 * twice: 7 products instead of 5. */
static void attention_run(struct att_job *o)
{
    const int heads = o->a->batch * o->a->heads, threads = o->cpu->threads, most = blocks_of(o->a->seq, 2 * BLOCK);
    o->heads_each = o->a->batch >= 8 * threads ? o->a->heads : 1;
    o->splits = 1;
    if (!o->d_o && heads < 4 * threads)
        o->splits = (int)least_of(blocks_of(4 * threads, heads), most);
    else if (o->d_o && most > 1 && 3 * heads < 2 * threads * blocks_of(heads, threads))
        o->splits = 2 * (int)least_of(blocks_of(4 * threads, heads), most);
    rp_pool_run(o->cpu->pool, o->a->batch * blocks_of(o->a->heads, o->heads_each) * o->splits, attention_parts, o);
}

static void cpu_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                  const float *qkv, const struct rp_attention *a)
{
    struct att_job job = {.cpu = rp_cpu_of(dev), .a = a, .qkv = qkv, .out = o, .row_max = row_max, .row_inv = row_inv,
                          .mask = dropout_on(&a->drop) ? mask : NULL, .decider = decider_of(&a->drop, a->seq),
                          .width = (long)a->heads * a->head_dim};
    if (rp_is_mixed(dev->numerics)) {
        low_attention_forward(dev, o, row_max, row_inv, mask, qkv, a);
        return;
    }
    job.decider.before = (long)a->first_head * a->seq;
    attention_run(&job);
}

static void cpu_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    const struct rp_attention *a = g->a;
    int aligned = a->seq % RP_COLSUM_ROWS == 0;
    struct att_job job = {.cpu = rp_cpu_of(dev), .a = a, .qkv = g->qkv, .d_o = g->d_o, .o = g->o, .out = g->dqkv,
                          .max_in = g->row_max, .inv_in = g->row_inv, .decided = dropout_on(&a->drop) ? g->mask : NULL,
                          .work = aligned ? g->work : NULL, .decider = decider_of(&a->drop, a->seq),
                          .width = (long)a->heads * a->head_dim};
    if (rp_is_mixed(dev->numerics)) {
        low_attention_backward(dev, g);
        return;
    }
    attention_run(&job);
    if (aligned)
        colsum_finish(job.cpu, 1, (float *const[3]){g->dbias}, (float *const[3]){g->work}, (long)a->batch * a->seq,
                      3 * job.width);
    else
        cpu_colsum(dev, g->dbias, g->dqkv, a->batch * a->seq, (int)(3 * job.width), g->work);
}
