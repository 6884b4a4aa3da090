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

static void ref_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask, const float *qkv,
                                  const struct rp_attention *a)
{
    const long before = (long)a->first_head * a->seq;
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
                int keep = dropout_on(&a->drop) && (!a->causal || k <= q) ? decide(mask, &a->drop, before, h.row0 + q, k, a->seq) : 1;
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
