/* The literal definition of attention: a part of reference.c, which includes it once. */

/* Where one head of one sample lies in qkv, and its rows in row_max, row_inv and mask. */
struct reference_head {
    const struct rp_attention *a;
    const uint8_t *keys; /* [seq], 1 = attend; NULL: all */
    const int32_t *first; /* [seq]: the first key of each query; NULL: 0 */
    long width, ld;      /* ld: row stride of qkv and dqkv */
    long x0, o0, row0;   /* first element in qkv (its q) and in o, first row of decisions */
};

static struct reference_head head_of(const struct rp_attention *a, long b, long h)
{
    long width = (long)a->heads * a->head_dim;
    return (struct reference_head){a,
                                   a->key_mask ? a->key_mask + b * a->seq : NULL,
                                   a->first_key ? a->first_key + b * a->seq : NULL,
                                   width,
                                   3 * width,
                                   b * a->seq * 3 * width + h * a->head_dim,
                                   b * a->seq * width + h * a->head_dim,
                                   (b * a->heads + h) * a->seq};
}

static int attended(const struct reference_head *h, long q, long k)
{
    return (!h->a->causal || k <= q) && (!h->keys || h->keys[k]) && (!h->first || k >= h->first[q]);
}

static float chain(const float *x, const float *y, long n)
{
    float s = 0.0f;
    for (long d = 0; d < n; d++)
        s = __builtin_fmaf(x[d], y[d], s);
    return s + 0.0f;
}

static float score(const struct reference_head *h, const float *qkv, long q, long k)
{
    const float *x = qkv + h->x0;
    return chain(x + q * h->ld, x + k * h->ld + h->width, h->a->head_dim) * h->a->scale;
}

/* ---- mixed precision: over tiles of RP_LOW_KEYS keys ---- */

/* The score of a query and a key. */
static float low_score(const struct rp_dev *dev, const struct reference_head *h, const float *qkv, long q, long k)
{
    const float *x = qkv + h->x0;
    struct low_chain s = low_begin(dev, 0.0f);
    for (long d = 0; d < h->a->head_dim; d++)
        low_add(&s, dev, x[q * h->ld + d], x[k * h->ld + h->width + d]);
    return low_end(&s, dev) * h->a->scale;
}

/* The running state of a query's row: the largest score so far, sums of exponentials, and the context. */
struct low_row {
    float most, sum[4];
    float *context; /* [head_dim] */
};

/* Keys k0 to k0 + n - 1: their scores, attended or not, and what dropout decided. */
static void low_tile(const struct rp_dev *dev, struct low_row *r, const struct reference_head *h, const float *v,
                     long k0, long n, const float *scores, const uint8_t *counts, const uint8_t *kept)
{
    float most = r->most, e[RP_LOW_KEYS] = {0};
    for (long i = 0; i < n; i++)
        most = counts[i] && scores[i] > most ? scores[i] : most;
    most = most + 0.0f;
    if (most == -__builtin_inff())
        return;
    const float rescale = r->most == most ? 1.0f : r->most == -__builtin_inff() ? 0.0f : r_exp(r->most - most);
    float part[4] = {0};
    for (long i = 0; i < n; i++) {
        e[i] = counts[i] ? r_exp(scores[i] - most) : 0.0f;
        part[i % 8 / 2] = part[i % 8 / 2] + e[i];
    }
    for (int p = 0; p < 4; p++)
        r->sum[p] = __builtin_fmaf(r->sum[p], rescale, part[p]);
    for (long d = 0; d < h->a->head_dim; d++) {
        struct low_chain s = low_begin(dev, r->context[d] * rescale);
        for (long i = 0; i < n; i++)
            low_add(&s, dev, kept[i] ? e[i] : 0.0f, v[(k0 + i) * h->ld + d]);
        r->context[d] = low_end(&s, dev);
    }
    r->most = most;
}

static void low_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                  const float *qkv, const struct rp_attention *a)
{
    const long before = (long)a->first_head * a->seq;
    const int drops = dropout_on(&a->drop);
    for (long bh = 0; bh < (long)a->batch * a->heads; bh++) {
        struct reference_head h = head_of(a, bh / a->heads, bh % a->heads);
        for (long q = 0; q < a->seq; q++) {
            struct low_row r = {.most = -__builtin_inff(), .context = o + h.o0 + q * h.width};
            for (long d = 0; d < a->head_dim; d++)
                r.context[d] = 0.0f;
            for (long k0 = 0; k0 < a->seq; k0 += RP_LOW_KEYS) {
                const long n = a->seq - k0 < RP_LOW_KEYS ? a->seq - k0 : RP_LOW_KEYS;
                float scores[RP_LOW_KEYS];
                uint8_t counts[RP_LOW_KEYS], kept[RP_LOW_KEYS];
                for (long i = 0; i < n; i++) {
                    const long k = k0 + i;
                    counts[i] = (uint8_t)attended(&h, q, k);
                    kept[i] = drops && (!a->causal || k <= q)
                                  ? (uint8_t)decide(mask, &a->drop, before, h.row0 + q, k, a->seq)
                                  : 1;
                    scores[i] = counts[i] ? low_score(dev, &h, qkv, q, k) : 0.0f;
                }
                low_tile(dev, &r, &h, qkv + h.x0 + 2 * h.width, k0, n, scores, counts, kept);
            }
            const float inv = 1.0f / ((r.sum[0] + r.sum[1]) + (r.sum[2] + r.sum[3]));
            row_max[h.row0 + q] = r.most;
            row_inv[h.row0 + q] = inv;
            for (long d = 0; d < a->head_dim; d++)
                r.context[d] = stored(dev, r.context[d] * (drops ? inv * a->drop.scale : inv));
        }
    }
}

/* One query and one key: the gradient of its score, and the probability after dropout, both as they are stored. */
struct low_pair {
    float ds, p;
};

static struct low_pair low_pair_of(const struct rp_dev *dev, const struct rp_attention_grad *g,
                                   const struct reference_head *h, long q, long k)
{
    const struct rp_attention *a = g->a;
    const float *go = g->d_o + h->o0 + q * h->width, *o = g->o + h->o0 + q * h->width,
                *v = g->qkv + h->x0 + 2 * h->width;
    struct reference_sum128 sum;
    struct low_chain s = low_begin(dev, 0.0f);
    if (!attended(h, q, k))
        return (struct low_pair){0.0f, 0.0f};
    sum128_start(&sum);
    for (long d = 0; d < a->head_dim; d++) {
        sum128_add(&sum, d, go[d] * o[d]);
        low_add(&s, dev, go[d], v[k * h->ld + d]);
    }
    const float p = r_exp(low_score(dev, h, g->qkv, q, k) - g->row_max[h->row0 + q]) * g->row_inv[h->row0 + q];
    float dp = low_end(&s, dev), pd = p;
    if (dropout_on(&a->drop)) {
        const int keep = decided(g->mask, h->row0 + q, k, a->seq);
        dp = keep ? dp * a->drop.scale : 0.0f;
        pd = keep ? p * a->drop.scale : 0.0f;
    }
    return (struct low_pair){stored(dev, (p * (dp - sum128_end(&sum))) * a->scale), stored(dev, pd)};
}

static void low_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    const struct rp_attention *a = g->a;
    const long rows = (long)a->batch * a->seq, width = (long)a->heads * a->head_dim, seq = a->seq;
    for (long bh = 0; bh < (long)a->batch * a->heads; bh++) {
        struct reference_head h = head_of(a, bh / a->heads, bh % a->heads);
        const float *x = g->qkv + h.x0;
        RP_FREE struct low_pair *pair = rp_alloc((size_t)(seq * seq) * sizeof *pair);
        for (long i = 0; i < seq * seq; i++)
            pair[i] = low_pair_of(dev, g, &h, i / seq, i % seq);
        for (long i = 0; i < seq; i++)
            for (long d = 0; d < a->head_dim; d++) {
                struct low_chain dq = low_begin(dev, 0.0f), dk = dq, dv = dq;
                for (long j = 0; j < seq; j++) {
                    low_add(&dq, dev, pair[i * seq + j].ds, x[j * h.ld + h.width + d]);
                    low_add(&dk, dev, pair[j * seq + i].ds, x[j * h.ld + d]);
                    low_add(&dv, dev, pair[j * seq + i].p, g->d_o[h.o0 + j * h.width + d]);
                }
                float *out = g->dqkv + h.x0 + i * h.ld + d;
                out[0] = stored(dev, low_end(&dq, dev));
                out[h.width] = stored(dev, low_end(&dk, dev));
                out[2 * h.width] = stored(dev, low_end(&dv, dev));
            }
    }
    ref_colsum(dev, g->dbias, g->dqkv, (int)rows, (int)(3 * width), g->work);
}

/* ---- strict fp32 ---- */

static void ref_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                  const float *qkv, const struct rp_attention *a)
{
    const long before = (long)a->first_head * a->seq;
    if (is_mixed(dev)) {
        low_attention_forward(dev, o, row_max, row_inv, mask, qkv, a);
        return;
    }
    for (long bh = 0; bh < (long)a->batch * a->heads; bh++) {
        struct reference_head h = head_of(a, bh / a->heads, bh % a->heads);
        const float *v = qkv + h.x0 + 2 * h.width;
        for (long q = 0; q < a->seq; q++) {
            struct reference_sum128 sum;
            float m = -__builtin_inff();
            for (long k = 0; k < a->seq; k++) {
                float s = attended(&h, q, k) ? score(&h, qkv, q, k) : m;
                m = s > m ? s : m;
            }
            m = m + 0.0f; /* +0 and -0 are one maximum */
            sum128_start(&sum);
            for (long k = 0; k < a->seq; k++)
                sum128_add(&sum, k, attended(&h, q, k) ? r_exp(score(&h, qkv, q, k) - m) : 0.0f);
            float inv = 1.0f / sum128_end(&sum);
            row_max[h.row0 + q] = m;
            row_inv[h.row0 + q] = inv;
            float *out = o + h.o0 + q * h.width;
            for (long d = 0; d < a->head_dim; d++)
                out[d] = 0.0f;
            for (long k = 0; k < a->seq; k++) {
                int keep = dropout_on(&a->drop) && (!a->causal || k <= q)
                               ? decide(mask, &a->drop, before, h.row0 + q, k, a->seq)
                               : 1;
                if (!attended(&h, q, k))
                    continue;
                float pd = r_exp(score(&h, qkv, q, k) - m) * inv;
                if (dropout_on(&a->drop))
                    pd = keep ? pd * a->drop.scale : 0.0f;
                for (long d = 0; d < a->head_dim; d++)
                    out[d] = __builtin_fmaf(pd, v[k * h.ld + d], out[d]);
            }
            for (long d = 0; d < a->head_dim; d++)
                out[d] = out[d] + 0.0f;
        }
    }
}

static void ref_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    const struct rp_attention *a = g->a;
    long rows = (long)a->batch * a->seq, width = (long)a->heads * a->head_dim;
    if (is_mixed(dev)) {
        low_attention_backward(dev, g);
        return;
    }
    for (long i = 0; i < rows * 3 * width; i++)
        g->dqkv[i] = 0.0f;
    for (long bh = 0; bh < (long)a->batch * a->heads; bh++) {
        struct reference_head h = head_of(a, bh / a->heads, bh % a->heads);
        const float *x = g->qkv + h.x0;
        float *dx = g->dqkv + h.x0;
        for (long q = 0; q < a->seq; q++) {
            const float *go = g->d_o + h.o0 + q * h.width;
            float big_d = chain(go, g->o + h.o0 + q * h.width, a->head_dim);
            for (long k = 0; k < a->seq; k++) {
                if (!attended(&h, q, k))
                    continue;
                float p = r_exp(score(&h, g->qkv, q, k) - g->row_max[h.row0 + q]) * g->row_inv[h.row0 + q];
                float dp = chain(go, x + k * h.ld + 2 * h.width, a->head_dim), pd = p;
                if (dropout_on(&a->drop)) {
                    int keep = decided(g->mask, h.row0 + q, k, a->seq);
                    dp = keep ? dp * a->drop.scale : 0.0f;
                    pd = keep ? p * a->drop.scale : 0.0f;
                }
                float ds = (p * (dp - big_d)) * a->scale;
                for (long d = 0; d < a->head_dim; d++) {
                    float *dq = dx + q * h.ld + d, *dk = dx + k * h.ld + h.width + d, *dv = dk + h.width;
                    *dq = __builtin_fmaf(ds, x[k * h.ld + h.width + d], *dq); /* over keys */
                    *dk = __builtin_fmaf(ds, x[q * h.ld + d], *dk);           /* over queries */
                    *dv = __builtin_fmaf(pd, go[d], *dv);
                }
            }
        }
    }
    for (long i = 0; i < rows * 3 * width; i++)
        g->dqkv[i] = g->dqkv[i] + 0.0f;
    ref_colsum(dev, g->dbias, g->dqkv, (int)rows, (int)(3 * width), g->work);
}
