/* Attention in mixed precision: one head of one sample at a time, queries in blocks. Compiled once per instruction set
 * by ops_<isa>.c.
 *
 * Forward, the scores of a block against all its keys exist at once; the maximum, the sums of exponentials and the
 * context then stream over tiles of RP_LOW_KEYS keys, as ops/NUMERICS.md has it. Backward, dk and dv are chains over
 * queries, which go on from block to block. Keys after the last query of a block have no term there: a chain does not
 * change by zero products. */

#define LOW_QUERIES 64 /* a multiple of every contract's block */

struct low_head {
    const struct rp_attention *a;
    struct rp_cpu *cpu;
    const struct rp_arithmetic *arithmetic;
    void *tiles; /* scratch of tc_gemm.c */
    long dim, seq, width, ld, x0, o0, row0;
    const uint8_t *keys;
    const int32_t *first;
    /* scratch; rp_cpu_low_attention() adds up the same sizes */
    uint16_t *q, *k, *v, *g; /* [seq][dim] */
    uint16_t *ds, *p;        /* [LOW_QUERIES][seq] */
    float *s, *dp;           /* [LOW_QUERIES][seq] */
    float *out;              /* [LOW_QUERIES][dim] */
    float *dk, *dv;          /* [seq][dim] */
};

struct low_attention_job {
    struct rp_cpu *cpu;
    const struct rp_arithmetic *arithmetic;
    const struct rp_attention *a;
    const float *qkv, *d_o, *o;
    float *out, *row_max, *row_inv; /* out: o forward, dqkv backward */
    const float *max_in, *inv_in;
    uint8_t *mask;
    const uint8_t *decided;
    struct decider decider;
};

static void *low_take(char **at, size_t bytes)
{
    void *p = *at;
    *at += rp_low_aligned(bytes);
    return p;
}

static void low_rows_to_bits(uint16_t *dst, const float *src, const struct low_head *x, long ld)
{
    for (long i = 0; i < x->seq; i++)
        low_convert(dst + i * x->dim, src + i * ld, x->dim, x->arithmetic->format);
}

static struct low_head low_head_of(const struct low_attention_job *o, int part, int thread)
{
    const struct rp_attention *a = o->a;
    const long b = part / a->heads, h = part % a->heads, width = (long)a->heads * a->head_dim;
    struct low_head x = {.a = a, .cpu = o->cpu, .arithmetic = o->arithmetic, .dim = a->head_dim, .seq = a->seq,
                         .width = width, .ld = 3 * width, .x0 = b * a->seq * 3 * width + h * a->head_dim,
                         .o0 = b * a->seq * width + h * a->head_dim, .row0 = (b * a->heads + h) * a->seq};
    const size_t rows = (size_t)x.seq * (size_t)x.dim,
                 block = (size_t)LOW_QUERIES * (size_t)(x.seq > RP_LOW_KEYS ? x.seq : RP_LOW_KEYS);
    char *at = (char *)low_scratch(o->cpu) + (size_t)thread * rp_cpu_low_attention(a->seq, a->head_dim);
    x.tiles = o->cpu->scratch + (size_t)thread * rp_tc_scratch(o->cpu->tc);
    x.keys = a->key_mask ? a->key_mask + b * a->seq : NULL;
    x.first = a->first_key ? a->first_key + b * a->seq : NULL;
    x.q = low_take(&at, rows * 2);
    x.k = low_take(&at, rows * 2);
    x.v = low_take(&at, rows * 2);
    x.g = low_take(&at, rows * 2);
    x.ds = low_take(&at, block * 2);
    x.p = low_take(&at, block * 2);
    x.s = low_take(&at, block * 4);
    x.dp = low_take(&at, block * 4);
    x.out = low_take(&at, (size_t)LOW_QUERIES * (size_t)x.dim * 4);
    x.dk = low_take(&at, rows * 4);
    x.dv = low_take(&at, rows * 4);
    low_rows_to_bits(x.q, o->qkv + x.x0, &x, x.ld);
    low_rows_to_bits(x.k, o->qkv + x.x0 + width, &x, x.ld);
    low_rows_to_bits(x.v, o->qkv + x.x0 + 2 * width, &x, x.ld);
    return x;
}

/* One product in the head's arithmetic, by this thread alone. */
static void low_multiply(const struct low_head *x, struct rp_tc_gemm g)
{
    g.format = x->arithmetic->format;
    g.tc = x->arithmetic->tc;
    rp_tc_gemm_run(x->cpu->tc, NULL, 1, x->tiles, &g, NULL);
}

/* Keys that some query of a block attends to are before this. */
static long low_keys_of(const struct low_head *x, long q0, long n)
{
    return x->a->causal && q0 + n < x->seq ? q0 + n : x->seq;
}

/* Which of keys k0.. a query attends to. */
static void low_attended(uint8_t *counts, const struct low_head *x, long q, long k0, long n)
{
    for (long i = 0; i < n; i++) {
        const long k = k0 + i;
        counts[i] = (uint8_t)((!x->a->causal || k <= q) && (!x->keys || x->keys[k]) && (!x->first || k >= x->first[q]));
    }
}

/* exp(s[i] - most) where it counts, else +0. */
static void low_exp(float *restrict e, const float *restrict s, const uint8_t *restrict counts, float most, long n)
{
#pragma GCC ivdep
    for (long i = 0; i < n; i++)
        e[i] = r_exp(s[i] - most);
    for (long i = 0; i < n; i++)
        e[i] = counts[i] ? e[i] : 0.0f;
}

/* ---- forward ---- */

struct low_query {
    float most, sum[4];
};

/* A tile of one query: p [RP_LOW_KEYS] and the factor of what is summed so far. kept: bits, or NULL. */
static float low_tile_row(uint16_t *p, struct low_query *r, const struct low_head *x, const float *scores, long q,
                          long k0, long n, const uint8_t *kept)
{
    float s[RP_LOW_KEYS], e[RP_LOW_KEYS], most = r->most, part[4] = {0};
    uint8_t counts[RP_LOW_KEYS];
    low_attended(counts, x, q, k0, n);
    for (long i = 0; i < n; i++) {
        s[i] = scores[i] * x->a->scale;
        most = counts[i] && s[i] > most ? s[i] : most;
    }
    most = most + 0.0f;
    if (most == -__builtin_inff()) {
        memset(p, 0, RP_LOW_KEYS * sizeof *p);
        return 1.0f;
    }
    const float rescale = r->most == most ? 1.0f : r->most == -__builtin_inff() ? 0.0f : r_exp(r->most - most);
    low_exp(e, s, counts, most, n);
    for (long i = 0; i < n; i++)
        part[i % 8 / 2] = part[i % 8 / 2] + e[i];
    for (int i = 0; i < 4; i++)
        r->sum[i] = __builtin_fmaf(r->sum[i], rescale, part[i]);
    for (long i = 0; kept && i < n; i++)
        e[i] = kept[(k0 + i) / 8] >> ((k0 + i) & 7) & 1 ? e[i] : 0.0f;
    low_convert(p, e, n, x->arithmetic->format);
    r->most = most;
    return rescale;
}

static void low_forward_block(const struct low_attention_job *o, const struct low_head *x, long q0, long n)
{
    const long keys = low_keys_of(x, q0, n), dim = x->dim, mask_ld = rp_mask_stride(x->seq) / 8;
    const int drops = o->mask != NULL;
    struct low_query row[LOW_QUERIES];
    low_multiply(x, (struct rp_tc_gemm){.m = (int)n, .n = (int)keys, .k = (int)dim, /* S = Q K^T */
                                        .a = x->q + q0 * dim, .lda = dim, .b = x->k, .ldb = dim, .tb = 1,
                                        .c = x->s, .ldc = keys});
    for (long i = 0; i < n; i++) {
        row[i] = (struct low_query){.most = -__builtin_inff()};
        memset(x->out + i * dim, 0, (size_t)dim * sizeof *x->out);
        if (drops)
            decide_first(o->mask + (x->row0 + q0 + i) * mask_ld, &o->decider, x->row0 + q0 + i,
                         x->a->causal ? q0 + i + 1 : x->seq);
    }
    for (long k0 = 0; k0 < keys; k0 += RP_LOW_KEYS) {
        const long wide = keys - k0 < RP_LOW_KEYS ? keys - k0 : RP_LOW_KEYS;
        for (long i = 0; i < n; i++) {
            const uint8_t *kept = drops ? o->mask + (x->row0 + q0 + i) * mask_ld : NULL;
            const float rescale =
                low_tile_row(x->p + i * RP_LOW_KEYS, &row[i], x, x->s + i * keys + k0, q0 + i, k0, wide, kept);
            for (long d = 0; d < dim; d++)
                x->out[i * dim + d] = x->out[i * dim + d] * rescale;
        }
        low_multiply(x, (struct rp_tc_gemm){.m = (int)n, .n = (int)dim, .k = (int)wide, /* O += P V */
                                            .a = x->p, .lda = RP_LOW_KEYS, .b = x->v + k0 * dim, .ldb = dim,
                                            .c = x->out, .ldc = dim, .continues = 1});
    }
    for (long i = 0; i < n; i++) {
        const float inv = 1.0f / ((row[i].sum[0] + row[i].sum[1]) + (row[i].sum[2] + row[i].sum[3]));
        const float factor = drops ? inv * x->a->drop.scale : inv;
        float *out = x->out + i * dim;
        o->row_max[x->row0 + q0 + i] = row[i].most;
        o->row_inv[x->row0 + q0 + i] = inv;
        for (long d = 0; d < dim; d++)
            out[d] = out[d] * factor;
        low_round_row(o->out + x->o0 + (q0 + i) * x->width, out, dim, x->arithmetic->format);
    }
}

static void low_forward_part(void *arg, int part, int thread)
{
    const struct low_attention_job *o = arg;
    const struct low_head x = low_head_of(o, part, thread);
    for (long q0 = 0; q0 < x.seq; q0 += LOW_QUERIES)
        low_forward_block(o, &x, q0, x.seq - q0 < LOW_QUERIES ? x.seq - q0 : LOW_QUERIES);
}

/* ---- backward ---- */

static float low_dot(const float *a, const float *b, long width)
{
    struct sum128 s;
    sum_start(&s);
    EACH_VECTOR(width, { s.lane[l] = s.lane[l] + vget(a + j, n) * vget(b + j, n); });
    return sum_end(&s);
}

/* Gradients of the scores of one query, and its probabilities after dropout, as 16 bits. s and dp are overwritten. */
static void low_backward_row(const struct low_attention_job *o, const struct low_head *x, long q, long i, long keys)
{
    const float big_d = low_dot(o->d_o + x->o0 + q * x->width, o->o + x->o0 + q * x->width, x->dim);
    const float most = o->max_in[x->row0 + q], inv = o->inv_in[x->row0 + q], scale = x->a->scale,
                drop = x->a->drop.scale;
    const uint8_t *bits = o->decided ? o->decided + (x->row0 + q) * (rp_mask_stride(x->seq) / 8) : NULL;
    float *restrict s = x->s + i * keys, *restrict dp = x->dp + i * keys;
    for (long k0 = 0; k0 < keys; k0 += RP_LOW_KEYS) {
        const long n = keys - k0 < RP_LOW_KEYS ? keys - k0 : RP_LOW_KEYS;
        float e[RP_LOW_KEYS], kept[RP_LOW_KEYS];
        uint8_t counts[RP_LOW_KEYS];
        low_attended(counts, x, q, k0, n);
        for (long k = 0; k < n; k++)
            kept[k] = !bits || bits[(k0 + k) / 8] >> ((k0 + k) & 7) & 1 ? 1.0f : 0.0f;
        for (long k = 0; k < n; k++)
            s[k0 + k] = s[k0 + k] * scale;
        low_exp(e, s + k0, counts, most, n);
        for (long k = 0; k < n; k++) {
            const float p = e[k] * inv, at = dp[k0 + k];
            const float d = !bits ? at : kept[k] != 0.0f ? at * drop : 0.0f;
            const float ds = (p * (d - big_d)) * scale;
            s[k0 + k] = !bits ? p : kept[k] != 0.0f ? p * drop : 0.0f;
            dp[k0 + k] = counts[k] ? ds : 0.0f;
        }
    }
    low_convert(x->p + i * keys, s, keys, x->arithmetic->format);
    low_convert(x->ds + i * keys, dp, keys, x->arithmetic->format);
}

static void low_backward_block(const struct low_attention_job *o, const struct low_head *x, long q0, long n)
{
    const long keys = low_keys_of(x, q0, n), dim = x->dim;
    low_multiply(x, (struct rp_tc_gemm){.m = (int)n, .n = (int)keys, .k = (int)dim, /* S = Q K^T */
                                        .a = x->q + q0 * dim, .lda = dim, .b = x->k, .ldb = dim, .tb = 1,
                                        .c = x->s, .ldc = keys});
    low_multiply(x, (struct rp_tc_gemm){.m = (int)n, .n = (int)keys, .k = (int)dim, /* dP = dO V^T */
                                        .a = x->g + q0 * dim, .lda = dim, .b = x->v, .ldb = dim, .tb = 1,
                                        .c = x->dp, .ldc = keys});
    for (long i = 0; i < n; i++)
        low_backward_row(o, x, q0 + i, i, keys);
    low_multiply(x, (struct rp_tc_gemm){.m = (int)n, .n = (int)dim, .k = (int)keys, /* dQ = dS K */
                                        .a = x->ds, .lda = keys, .b = x->k, .ldb = dim, .c = x->out, .ldc = dim});
    low_multiply(x, (struct rp_tc_gemm){.m = (int)keys, .n = (int)dim, .k = (int)n, /* dK += dS^T Q */
                                        .a = x->ds, .lda = keys, .ta = 1, .b = x->q + q0 * dim, .ldb = dim,
                                        .c = x->dk, .ldc = dim, .continues = 1});
    low_multiply(x, (struct rp_tc_gemm){.m = (int)keys, .n = (int)dim, .k = (int)n, /* dV += P^T dO */
                                        .a = x->p, .lda = keys, .ta = 1, .b = x->g + q0 * dim, .ldb = dim,
                                        .c = x->dv, .ldc = dim, .continues = 1});
    for (long i = 0; i < n; i++)
        low_round_row(o->out + x->x0 + (q0 + i) * x->ld, x->out + i * dim, dim, x->arithmetic->format);
}

static void low_backward_part(void *arg, int part, int thread)
{
    const struct low_attention_job *o = arg;
    const struct low_head x = low_head_of(o, part, thread);
    const size_t rows = (size_t)x.seq * (size_t)x.dim;
    low_rows_to_bits(x.g, o->d_o + x.o0, &x, x.width);
    memset(x.dk, 0, rows * sizeof *x.dk);
    memset(x.dv, 0, rows * sizeof *x.dv);
    for (long q0 = 0; q0 < x.seq; q0 += LOW_QUERIES)
        low_backward_block(o, &x, q0, x.seq - q0 < LOW_QUERIES ? x.seq - q0 : LOW_QUERIES);
    for (long i = 0; i < x.seq; i++) {
        float *out = o->out + x.x0 + i * x.ld;
        low_round_row(out + x.width, x.dk + i * x.dim, x.dim, x.arithmetic->format);
        low_round_row(out + 2 * x.width, x.dv + i * x.dim, x.dim, x.arithmetic->format);
    }
}

/* ---- operations ---- */

static void low_attention(struct low_attention_job *o, rp_part_fn part)
{
    const struct rp_cpu *cpu = o->cpu;
    RP_BUG_IF(rp_cpu_low_tiles(cpu->isa, cpu->threads) +
                  (size_t)cpu->threads * rp_cpu_low_attention(o->a->seq, o->a->head_dim) >
              (size_t)cpu->threads * cpu->scratch_each);
    rp_pool_run(cpu->pool, o->a->batch * o->a->heads, part, o);
}

static void low_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                  const float *qkv, const struct rp_attention *a)
{
    struct low_attention_job job = {.cpu = rp_cpu_of(dev), .arithmetic = rp_arithmetic_of(dev->numerics), .a = a,
                                    .qkv = qkv, .out = o, .row_max = row_max, .row_inv = row_inv,
                                    .mask = dropout_on(&a->drop) ? mask : NULL,
                                    .decider = decider_of(&a->drop, a->seq)};
    job.decider.before = (long)a->first_head * a->seq;
    low_attention(&job, low_forward_part);
}

static void low_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    const struct rp_attention *a = g->a;
    struct low_attention_job job = {.cpu = rp_cpu_of(dev), .arithmetic = rp_arithmetic_of(dev->numerics), .a = a,
                                    .qkv = g->qkv, .d_o = g->d_o, .o = g->o, .out = g->dqkv, .max_in = g->row_max,
                                    .inv_in = g->row_inv, .decided = dropout_on(&a->drop) ? g->mask : NULL};
    low_attention(&job, low_backward_part);
    cpu_colsum(dev, g->dbias, g->dqkv, a->batch * a->seq, 3 * a->heads * a->head_dim, g->work);
}
