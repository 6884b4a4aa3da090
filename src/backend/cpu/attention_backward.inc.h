/* Attention, backward: dq, dk and dv of one head, or of a part of it, by squares of BLOCK queries and keys; see
 * attention_head.inc.h. */

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
