/* The literal definition of operations on whole tensors, of updates of weights and of evidence: a part of reference.c,
 * which includes it once. */

static void ref_add(struct rp_dev *dev, float *dst, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void ref_fill(struct rp_dev *dev, float *dst, float value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = value;
}

static void ref_round_stored(struct rp_dev *dev, float *dst, const float *src, const float *add, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = stored(dev, add ? src[i] + add[i] : src[i]);
}

static void ref_add_stored(struct rp_dev *dev, float *dst, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = stored(dev, a[i] + b[i]);
}

static void ref_square_sums(struct rp_dev *dev, float *out, const float *x, float factor, size_t n)
{
    for (size_t c = 0; c * RP_NORM_CHUNK < n; c++) {
        struct reference_sum128 sum;
        sum128_start(&sum);
        for (size_t i = c * RP_NORM_CHUNK; i < n && i < (c + 1) * RP_NORM_CHUNK; i++)
            sum128_add(&sum, (long)i, (x[i] * factor) * (x[i] * factor));
        out[c] = sum128_end(&sum);
    }
}

static void ref_tree_sum(struct rp_dev *dev, float *out, const float *x, size_t n)
{
    out[0] = n ? tree(x, (long)n, 1) : 0.0f;
}

/* Moments of element i, and the update before the learning rate. */
static float adam_direction(float *m, float *v, float w, float g, const struct rp_adam *a)
{
    float gs = g * a->grad_scale;
    *m = __builtin_fmaf(a->beta1, *m, a->one_minus_beta1 * gs);
    *v = __builtin_fmaf(a->beta2, *v, a->one_minus_beta2 * (gs * gs));
    float mh = a->bias_correction ? *m * a->correct1 : *m;
    float vh = a->bias_correction ? *v * a->correct2 : *v;
    float u = mh / (__builtin_sqrtf(vh) + a->eps);
    return a->weight_decay != 0.0f ? __builtin_fmaf(a->weight_decay, w, u) : u;
}

static void ref_adam_update(struct rp_dev *dev, float *w, float *m, float *v, const float *g, size_t n,
                            const struct rp_adam *a)
{
    for (size_t i = 0; i < n; i++)
        w[i] = __builtin_fmaf(-a->lr, adam_direction(m + i, v + i, w[i], g[i], a), w[i]);
}

static void ref_lamb_direction(struct rp_dev *dev, float *u_over_g, float *m, float *v, const float *w, size_t n,
                               const struct rp_adam *a)
{
    for (size_t i = 0; i < n; i++)
        u_over_g[i] = adam_direction(m + i, v + i, w[i], u_over_g[i], a);
}

static void ref_lamb_apply(struct rp_dev *dev, float *w, const float *u, const float *sums, float lr, size_t n)
{
    float norm_w = __builtin_sqrtf(sums[0]), norm_u = __builtin_sqrtf(sums[1]);
    float ratio = norm_w > 0.0f && norm_u > 0.0f ? norm_w / norm_u : 1.0f;
    float rate = lr * ratio;
    for (size_t i = 0; i < n; i++)
        w[i] = __builtin_fmaf(-rate, u[i], w[i]);
}

static void ref_sgd_update(struct rp_dev *dev, float *w, float *m, const float *g, size_t n, const struct rp_sgd *a)
{
    for (size_t i = 0; i < n; i++) {
        const float gs = g[i] * a->grad_scale,
                    d = a->weight_decay != 0.0f ? __builtin_fmaf(a->weight_decay, w[i], gs) : gs;
        m[i] = __builtin_fmaf(a->momentum, m[i], d);
        w[i] = __builtin_fmaf(-a->lr, a->nesterov ? __builtin_fmaf(a->momentum, m[i], d) : m[i], w[i]);
    }
}

static void ref_lars_update(struct rp_dev *dev, float *w, float *m, const float *g, const float *sums, size_t n,
                            const struct rp_lars *a)
{
    float trust = 1.0f;
    if (a->adapt) {
        const float nw = __builtin_sqrtf(sums[0]), ng = __builtin_sqrtf(sums[1]) * a->grad_scale;
        trust = nw > 0.0f && ng > 0.0f ? a->eeta * nw / (__builtin_fmaf(a->weight_decay, nw, ng) + a->eps) : 1.0f;
    }
    const float rate = a->lr * trust;
    for (size_t i = 0; i < n; i++) {
        const float gs = g[i] * a->grad_scale, d = a->adapt ? __builtin_fmaf(a->weight_decay, w[i], gs) : gs,
                    v = rate * d;
        m[i] = a->momentum * m[i] - v;
        w[i] = w[i] + (a->nesterov ? a->momentum * m[i] - v : m[i]);
    }
}

static void ref_running_update(struct rp_dev *dev, float *r, const float *x, float factor, float momentum, size_t n)
{
    const float rest = 1.0f - momentum;
    for (size_t i = 0; i < n; i++)
        r[i] = __builtin_fmaf(momentum, x[i] * factor, rest * r[i]);
}

static void ref_init_normal(struct rp_dev *dev, float *w, size_t n, float std, uint64_t seed, uint32_t tensor,
                            int truncated)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x[4] = {(uint32_t)(i / 4), (uint32_t)((uint64_t)(i / 4) >> 32), RP_PHILOX_INIT, tensor};
        rp_philox(x, seed);
        w[i] = std * (truncated ? r_truncated_normal(x[i % 4]) : r_normal(x[i % 4]));
    }
}

static void ref_perturb(struct rp_dev *dev, float *w, size_t n, const struct rp_perturbation *p)
{
    for (size_t j = 0; j < n; j++) {
        const uint64_t e = p->parts == 1 ? j : ((uint64_t)(j / p->run) * p->parts + p->part) * p->run + j % p->run;
        uint32_t x[4] = {(uint32_t)(e / 2), (uint32_t)(e / 2 >> 32), p->root, p->tensor};
        rp_philox(x, p->seed);
        w[j] = r_perturbed(w[j], x + 2 * (e % 2), p->scale);
    }
}

/* ---- evidence ---- */

static void ref_digest_leaves(struct rp_dev *dev, uint8_t *leaves, const float *x, size_t n)
{
    const size_t leaf = RP_LEAF_BYTES / 4;
    for (size_t l = 0; l * leaf < n; l++) {
        unsigned char bytes[RP_LEAF_BYTES];
        size_t count = n - l * leaf < leaf ? n - l * leaf : leaf;
        for (size_t i = 0; i < count; i++) {
            float f = x[l * leaf + i];
            uint32_t b = f != f ? 0x7fc00000u : r_bits(f);
            for (int byte = 0; byte < 4; byte++)
                bytes[4 * i + (size_t)byte] = (unsigned char)(b >> (8 * byte));
        }
        rp_sha256_bytes(leaves + RP_SHA256_SIZE * l, bytes, 4 * count);
    }
}

static void ref_find_nonfinite(struct rp_dev *dev, int64_t *index, const float *x, size_t n)
{
    *index = -1;
    for (size_t i = 0; i < n && *index < 0; i++)
        if ((r_bits(x[i]) & 0x7f800000u) == 0x7f800000u)
            *index = (int64_t)i;
}

static void ref_find_nonfinite_stored(struct rp_dev *dev, int64_t *index, const float *x, size_t n)
{
    ref_find_nonfinite(dev, index, x, n);
}
