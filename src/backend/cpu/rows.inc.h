/* Rows: embedding, layer norm, dropout, column sums, gathering and segmented sums of rows.
 * Compiled once per instruction set by ops_<isa>.c. */

static int blocks_of(long n, long size)
{
    return (int)((n + size - 1) / size);
}

/* ---- column sums ---- */

/* work[span rows ..] += in the shape of the balanced tree: merging aligned neighbours of 1, 2, 4, ... blocks splits at
 * the largest power of two below n. The sum ends in row 0 and goes to dst. */
struct colsum_job {
    float *dst[3], *work[3];
    long blocks, width;
};

static void colsum_part(void *arg, int part, int thread)
{
    const struct colsum_job *c = arg;
    long chunks = blocks_of(c->width, 128), j0 = part % chunks * 128, width = c->width;
    float *w = c->work[part / chunks] + j0, *dst = c->dst[part / chunks] + j0;
    long cols = width - j0 < 128 ? width - j0 : 128;
    (void)thread;
    for (long span = 1; span < c->blocks; span *= 2)
        for (long i = 0; i + span < c->blocks; i += 2 * span) {
            float *a = w + i * width, *b = a + span * width;
            EACH_VECTOR(cols, { vput(a + j, vget(a + j, n) + vget(b + j, n), n); });
        }
    memcpy(dst, w, (size_t)cols * sizeof *dst);
}

/* dst[i] for the first `sums` of the 64-row sums in work[i]. */
static void colsum_finish(struct rp_cpu *cpu, int sums, float *const dst[3], float *const work[3], long rows,
                          long width)
{
    struct colsum_job c = {.blocks = blocks_of(rows, RP_COLSUM_ROWS), .width = width};
    for (int i = 0; i < sums; i++) {
        c.dst[i] = dst[i];
        c.work[i] = work[i];
    }
    rp_pool_run(cpu->pool, sums * blocks_of(width, 128), colsum_part, &c);
}

/* out[j] = +0 + x[0,j] + x[1,j] + ... for cols columns of at most 64 rows. */
static void colsum_block(float *out, const float *x, long ld, long rows, long cols)
{
    for (long j0 = 0; j0 < cols; j0 += 128) {
        long here = cols - j0 < 128 ? cols - j0 : 128;
        struct sum128 s;
        sum_start(&s);
        for (long r = 0; r < rows; r++) {
            const float *p = x + r * ld + j0;
            EACH_VECTOR(here, { s.lane[l] = s.lane[l] + vget(p + j, n); });
        }
        EACH_VECTOR(here, { vput(out + j0 + j, s.lane[l], n); });
    }
}

RP_LANE void row_add(float *sum, const float *x, long width)
{
    EACH_VECTOR(width, { vput(sum + j, vget(sum + j, n) + vget(x + j, n), n); });
}

struct rows_job {
    struct rp_cpu *cpu;
    float *out;
    const float *in, *bias;
    float *work;
    long rows, width;
};

static void colsum_rows_part(void *arg, int part, int thread)
{
    const struct rows_job *o = arg;
    long r0 = (long)part * RP_COLSUM_ROWS, rows = o->rows - r0 < RP_COLSUM_ROWS ? o->rows - r0 : RP_COLSUM_ROWS;
    (void)thread;
    colsum_block(o->work + part * o->width, o->in + r0 * o->width, o->width, rows, o->width);
}

static void cpu_colsum(struct rp_dev *dev, float *dbias, const float *dy, int rows, int width, float *work)
{
    struct rows_job o = {.cpu = rp_cpu_of(dev), .in = dy, .work = work, .rows = rows, .width = width};
    rp_pool_run(o.cpu->pool, blocks_of(rows, RP_COLSUM_ROWS), colsum_rows_part, &o);
    colsum_finish(o.cpu, 1, (float *const[3]){dbias}, (float *const[3]){work}, rows, width);
}

static void bias_part(void *arg, int part, int thread)
{
    const struct rows_job *o = arg;
    (void)thread;
    for (long r = part * 16l; r < o->rows && r < part * 16l + 16; r++) {
        float *y = o->out + r * o->width;
        const float *x = o->in + r * o->width;
        EACH_VECTOR(o->width, { vput(y + j, vget(x + j, n) + vget(o->bias + j, n), n); });
    }
}

static void cpu_bias_add(struct rp_dev *dev, float *y, const float *x, const float *bias, int rows, int width)
{
    struct rows_job o = {.cpu = rp_cpu_of(dev), .out = y, .in = x, .bias = bias, .rows = rows, .width = width};
    rp_pool_run(o.cpu->pool, blocks_of(rows, 16), bias_part, &o);
    low_store(dev, y, (size_t)rows * (size_t)width);
}

/* ---- embedding ---- */

struct embed_job {
    float *z;
    const int32_t *ids, *type_ids, *position_ids;
    const float *word, *type, *position;
    long rows, seq, width;
};

static void embed_part(void *arg, int part, int thread)
{
    const struct embed_job *o = arg;
    (void)thread;
    for (long r = part * 16l; r < o->rows && r < part * 16l + 16; r++) {
        const float *w = o->word + o->ids[r] * o->width, *t = o->type ? o->type + o->type_ids[r] * o->width : NULL;
        const float *p = o->position + (o->position_ids ? o->position_ids[r] : r % o->seq) * o->width;
        float *z = o->z + r * o->width;
        EACH_VECTOR(o->width, {
            vf x = vget(w + j, n);
            if (t)
                x = x + vget(t + j, n);
            vput(z + j, x + vget(p + j, n), n);
        });
    }
}

static void cpu_embed_forward(struct rp_dev *dev, float *z, const int32_t *ids, const int32_t *type_ids,
                              const int32_t *position_ids, const float *word, const float *type, const float *position,
                              int rows, int seq, int width)
{
    struct embed_job o = {z, ids, type_ids, position_ids, word, type, position, rows, seq, width};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(rows, 16), embed_part, &o);
    low_store(dev, z, (size_t)rows * (size_t)width);
}

/* ---- layer norm ---- */

struct norm_job {
    const struct rp_layernorm *norm; /* residual NULL: none */
    struct decider decider;
    int keeps_sum; /* in mixed precision */
};

/* kept holds z, and then xhat unless keeps_sum; the row stays in the first-level cache for the three passes. */
RP_LANE float norm_row(float *y, float *kept, float mean, const float *gamma, const float *beta, float eps, long width,
                       const int keeps_sum)
{
    struct sum128 s;
    const vf vmean = vset1(mean);
    sum_start(&s);
    EACH_VECTOR(width, {
        vf d = vget(kept + j, n) - vmean;
        d = n == W ? d : vfirst(d, n);
        s.lane[l] = s.lane[l] + d * d;
    });
    float var = sum_end(&s) * (1.0f / (float)width);
    float rstd = 1.0f / __builtin_sqrtf(var + eps);
    const vf vrstd = vset1(rstd);
    EACH_VECTOR(width, {
        vf h = (vget(kept + j, n) - vmean) * vrstd;
        if (!keeps_sum)
            vput(kept + j, h, n);
        vput_far(y + j, vfma(h, vget(gamma + j, n), vget(beta + j, n)), n);
    });
    return rstd;
}

static void norm_part(void *arg, int part, int thread)
{
    const struct norm_job *job = arg;
    const struct rp_layernorm *o = job->norm;
    const long width = o->width, mask_ld = rp_mask_stride(width) / 8;
    (void)thread;
    for (long r = part * 16l; r < o->rows && r < part * 16l + 16; r++) {
        const float *x = o->x + r * width, *res = o->residual ? o->residual + r * width : NULL;
        float *z = o->kept + r * width, *sum = o->z ? o->z + r * width : NULL;
        struct sum128 s;
        sum_start(&s);
        if (dropout_on(o->drop)) {
            uint8_t *bits = o->mask + r * mask_ld;
            const vf scale = vset1(o->drop->scale);
            decide_row(bits, &job->decider, r);
            EACH_VECTOR(width, {
                vf v = vkeep(bits, j, vget_far(x + j, n) * scale) + vget_far(res + j, n);
                vput(z + j, v, n);
                if (sum)
                    vput(sum + j, v, n);
                s.lane[l] = s.lane[l] + v;
            });
        } else if (o->residual) {
            EACH_VECTOR(width, {
                vf v = vget_far(x + j, n) + vget_far(res + j, n);
                vput(z + j, v, n);
                if (sum)
                    vput(sum + j, v, n);
                s.lane[l] = s.lane[l] + v;
            });
        } else {
            EACH_VECTOR(width, {
                vf v = vget_far(x + j, n);
                vput(z + j, v, n);
                if (sum)
                    vput(sum + j, v, n);
                s.lane[l] = s.lane[l] + v;
            });
        }
        float mean = sum_end(&s) * (1.0f / (float)width);
        if (job->keeps_sum) {
            o->mean[r] = mean;
            o->rstd[r] = norm_row(o->y + r * width, z, mean, o->gamma, o->beta, o->eps, width, 1);
        } else
            o->rstd[r] = norm_row(o->y + r * width, z, mean, o->gamma, o->beta, o->eps, width, 0);
    }
}

/* dst = dropout(src). */
static void drop_rows(struct rp_dev *dev, float *dst, uint8_t *mask, const float *src, const struct rp_dropout *drop,
                      int rows, int width);

/* The sum is stored before it is normalised. */
static void low_residual_layernorm(struct rp_dev *dev, const struct rp_layernorm *n)
{
    const size_t all = (size_t)n->rows * (size_t)n->width;
    struct rp_layernorm plain = rp_layernorm_plain(n);
    plain.x = n->kept;
    drop_rows(dev, n->kept, n->mask, n->x, n->drop, n->rows, n->width);
    dev->op->add_stored(dev, n->kept, n->kept, n->residual, all);
    if (n->z)
        memcpy(n->z, n->kept, all * sizeof *n->z);
    struct norm_job o = {&plain, decider_of(NULL, n->width), 1};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(n->rows, 16), norm_part, &o);
    low_store(dev, n->y, all);
}

static void cpu_residual_layernorm_forward(struct rp_dev *dev, const struct rp_layernorm *n)
{
    struct norm_job o = {n, decider_of(n->drop, n->width), rp_is_mixed(dev->numerics)};
    if (n->residual && rp_is_mixed(dev->numerics)) {
        low_residual_layernorm(dev, n);
        return;
    }
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(n->rows, 16), norm_part, &o);
    low_store(dev, n->y, (size_t)n->rows * (size_t)n->width);
}

static void cpu_layernorm_forward(struct rp_dev *dev, const struct rp_layernorm *n)
{
    const struct rp_layernorm plain = rp_layernorm_plain(n);
    cpu_residual_layernorm_forward(dev, &plain);
}

/* xhat from what was kept: the sum that was normalised if of_sum. */
RP_LANE vf xhat_of(vf kept, vf mean, vf rstd, int n, const int of_sum)
{
    if (!of_sum)
        return kept;
    const vf h = (kept - mean) * rstd;
    return n == W ? h : vfirst(h, n);
}

RP_LANE void apply_row(const struct rp_layernorm *o, long r, const int of_sum)
{
    const vf mean = vset1(of_sum ? o->mean[r] : 0.0f), rstd = vset1(of_sum ? o->rstd[r] : 0.0f);
    float *y = o->y + r * o->width;
    const float *kept = o->kept + r * o->width;
    EACH_VECTOR(o->width, {
        const vf h = xhat_of(vget_far(kept + j, n), mean, rstd, n, of_sum);
        vput_far(y + j, vfma(h, vget(o->gamma + j, n), vget(o->beta + j, n)), n);
    });
}

static void apply_part(void *arg, int part, int thread)
{
    const struct norm_job *o = arg;
    (void)thread;
    for (long r = part * 16l; r < o->norm->rows && r < part * 16l + 16; r++)
        if (o->keeps_sum)
            apply_row(o->norm, r, 1);
        else
            apply_row(o->norm, r, 0);
}

static void cpu_layernorm_apply(struct rp_dev *dev, const struct rp_layernorm *n)
{
    struct norm_job o = {.norm = n, .keeps_sum = rp_is_mixed(dev->numerics)};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(n->rows, 16), apply_part, &o);
    low_store(dev, n->y, (size_t)n->rows * (size_t)n->width);
}

/* One row of the 64-row block whose sums are dgamma, dbeta, dbias. */
RP_LANE void norm_back_row(const struct rp_layernorm_grad *o, long r, float *dgamma, float *dbeta, float *dbias,
                           const int of_sum)
{
    const long width = o->width;
    const float *dy = o->dy + r * width, *kept = o->kept + r * width, *gamma = o->gamma;
    const float inv = 1.0f / (float)width;
    const vf mean = vset1(of_sum ? o->mean[r] : 0.0f), rstd = vset1(o->rstd[r]);
    struct sum128 s;
    sum_start(&s);
    EACH_VECTOR(width, {
        vf g = vget_far(dy + j, n), h = xhat_of(vget_far(kept + j, n), mean, rstd, n, of_sum);
        s.lane[l] = s.lane[l] + g * vget(gamma + j, n);
        vput(dgamma + j, vget(dgamma + j, n) + g * h, n);
        vput(dbeta + j, vget(dbeta + j, n) + g, n);
    });
    const vf s1 = vset1(sum_end(&s) * inv);
    sum_start(&s);
    EACH_VECTOR(width, {
        vf dh = vget(dy + j, n) * vget(gamma + j, n);
        s.lane[l] = s.lane[l] + dh * xhat_of(vget(kept + j, n), mean, rstd, n, of_sum);
    });
    const int drops = dropout_on(o->drop);
    const vf s2 = vset1(sum_end(&s) * inv), scale = vset1(drops ? o->drop->scale : 1.0f);
    const uint8_t *bits = drops ? o->mask + r * (rp_mask_stride(width) / 8) : NULL;
    float *dz = o->dz + r * width, *dx = o->dx ? o->dx + r * width : NULL;
    const float *add = o->add ? o->add + r * width : NULL;
    EACH_VECTOR(width, {
        vf dh = vget(dy + j, n) * vget(gamma + j, n);
        vf d = vfnma(xhat_of(vget(kept + j, n), mean, rstd, n, of_sum), s2, dh - s1) * rstd;
        if (add)
            d = d + vget_far(add + j, n);
        vf e = bits ? vkeep(bits, j, d * scale) : d;
        vput(dz + j, d, n);
        if (dx)
            vput_far(dx + j, e, n);
        if (dbias)
            vput(dbias + j, vget(dbias + j, n) + e, n);
    });
}

/* 64-row sums of dgamma, dbeta, dbias: in thirds of work, [block, width] each. */
static void norm_back_part(void *arg, int part, int thread)
{
    const struct rp_layernorm_grad *o = arg;
    const long r0 = (long)part * RP_COLSUM_ROWS;
    const size_t bytes = (size_t)o->width * sizeof(float), each = rp_colsum_work(o->rows, o->width);
    float *dgamma = o->work + (long)part * o->width, *dbeta = dgamma + each, *dbias = o->dbias ? dbeta + each : NULL;
    (void)thread;
    memset(dgamma, 0, bytes);
    memset(dbeta, 0, bytes);
    if (dbias)
        memset(dbias, 0, bytes);
    for (long r = r0; r < o->rows && r < r0 + RP_COLSUM_ROWS; r++)
        if (o->mean)
            norm_back_row(o, r, dgamma, dbeta, dbias, 1);
        else
            norm_back_row(o, r, dgamma, dbeta, dbias, 0);
}

static void cpu_dropout_backward(struct rp_dev *dev, float *dx, const float *dy, const uint8_t *mask,
                                 const struct rp_dropout *drop, int rows, int width);

static void cpu_layernorm_backward(struct rp_dev *dev, const struct rp_layernorm_grad *g)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct rp_layernorm_grad o = *g;
    const size_t each = rp_colsum_work(g->rows, g->width), all = (size_t)g->rows * (size_t)g->width;
    const int drops_stored = rp_is_mixed(dev->numerics) && g->dx && dropout_on(g->drop);
    if (rp_is_mixed(dev->numerics)) /* sums are over what is stored, and dx is of the dz that is */
        o.dbias = NULL;
    else
        o.mean = NULL; /* xhat was kept */
    if (drops_stored) {
        o.dx = NULL;
        o.drop = NULL;
    }
    rp_pool_run(cpu->pool, blocks_of(g->rows, RP_COLSUM_ROWS), norm_back_part, &o);
    low_store(dev, g->dz, all);
    if (drops_stored)
        cpu_dropout_backward(dev, g->dx, g->dz, g->mask, g->drop, g->rows, g->width);
    else if (g->dx && g->dx != g->dz)
        low_store(dev, g->dx, all);
    colsum_finish(cpu, o.dbias ? 3 : 2, (float *const[3]){g->dgamma, g->dbeta, g->dbias},
                  (float *const[3]){g->work, g->work + each, g->work + 2 * each}, g->rows, g->width);
    if (g->dbias && !o.dbias)
        cpu_colsum(dev, g->dbias, g->dx ? g->dx : g->dz, g->rows, g->width, g->work);
}

/* ---- dropout ---- */

struct dropout_job {
    float *y;
    const float *x;
    uint8_t *mask;         /* written forward */
    const uint8_t *decided; /* read backward */
    struct decider decider;
    long rows, width;
};

static void dropout_part(void *arg, int part, int thread)
{
    const struct dropout_job *o = arg;
    const long width = o->width, mask_ld = rp_mask_stride(width) / 8;
    (void)thread;
    for (long r = part * 16l; r < o->rows && r < part * 16l + 16; r++) {
        const float *x = o->x + r * width;
        float *y = o->y + r * width;
        if (!dropout_on(o->decider.drop)) {
            if (y != x)
                memcpy(y, x, (size_t)width * sizeof *y);
            continue;
        }
        const vf scale = vset1(o->decider.drop->scale);
        const uint8_t *bits = o->decided ? o->decided + r * mask_ld : o->mask + r * mask_ld;
        if (!o->decided)
            decide_row(o->mask + r * mask_ld, &o->decider, r);
        EACH_VECTOR(width, { vput_far(y + j, vkeep(bits, j, vget_far(x + j, n) * scale), n); });
    }
}

static void drop_rows(struct rp_dev *dev, float *dst, uint8_t *mask, const float *src, const struct rp_dropout *drop,
                      int rows, int width)
{
    struct dropout_job o = {dst, src, mask, NULL, decider_of(drop, width), rows, width};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(rows, 16), dropout_part, &o);
}

static void cpu_dropout_forward(struct rp_dev *dev, float *y, uint8_t *mask, const float *x,
                                const struct rp_dropout *drop, int rows, int width)
{
    drop_rows(dev, y, mask, x, drop, rows, width);
    low_store(dev, y, (size_t)rows * (size_t)width);
}

static void cpu_dropout_backward(struct rp_dev *dev, float *dx, const float *dy, const uint8_t *mask,
                                 const struct rp_dropout *drop, int rows, int width)
{
    struct dropout_job o = {dx, dy, NULL, mask, decider_of(drop, width), rows, width};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(rows, 16), dropout_part, &o);
    low_store(dev, dx, (size_t)rows * (size_t)width);
}

/* ---- gathering rows and adding them up ---- */

struct gather_job {
    float *y;
    const float *x;
    const int32_t *index;
    long n, width;
};

static void gather_part(void *arg, int part, int thread)
{
    const struct gather_job *o = arg;
    (void)thread;
    for (long i = part * 32l; i < o->n && i < part * 32l + 32; i++)
        memcpy(o->y + i * o->width, o->x + o->index[i] * o->width, (size_t)o->width * sizeof *o->y);
}

static void cpu_gather_rows(struct rp_dev *dev, float *y, const float *x, const int32_t *index, int n, int width)
{
    struct gather_job o = {y, x, index, n, width};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(n, 32), gather_part, &o);
}

struct columns_job {
    char *dst;
    const char *src;
    long ldd, lds, rows, cols; /* in bytes */
};

static void columns_part(void *arg, int part, int thread)
{
    const struct columns_job *o = arg;
    (void)thread;
    for (long r = part * 32l; r < o->rows && r < part * 32l + 32; r++)
        memcpy(o->dst + r * o->ldd, o->src + r * o->lds, (size_t)o->cols);
}

static void cpu_copy_columns(struct rp_dev *dev, void *dst, long ldd, const void *src, long lds, int rows, int cols,
                             int bytes)
{
    struct columns_job o = {dst, src, ldd * bytes, lds * bytes, rows, (long)cols * bytes};
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(rows, 32), columns_part, &o);
}

struct row_sums_job {
    struct rp_cpu *cpu;
    float *dst;
    const float *src;
    const struct rp_row_groups *groups;
    long width, items, batch; /* an item is 128 columns of one group */
    int add;
};

/* 128 columns of one group: a binary counter of partial sums, merged as soon as two neighbours have the same size. */
static void group_sum(float *dst, const float *src, const int32_t *source, long count, long width, long cols, int add,
                      float *stack)
{
    int top = 0;
    for (long i = 0; i < count; i++) {
        struct sum128 s;
        const float *p = src + source[i] * width;
        sum_start(&s);
        EACH_VECTOR(cols, { s.lane[l] = vget(p + j, n); });
        for (long b = i; b & 1; b >>= 1) {
            const float *q = stack + --top * 128;
            UNROLL for (int l = 0; l < VECTORS_128; l++) s.lane[l] = vload(q + l * W) + s.lane[l];
        }
        float *q = stack + top++ * 128;
        UNROLL for (int l = 0; l < VECTORS_128; l++) vstore(q + l * W, s.lane[l]);
    }
    for (; top > 1; top--) {
        float *a = stack + (top - 2) * 128, *b = a + 128;
        for (int j = 0; j < 128; j += W)
            vstore(a + j, vload(a + j) + vload(b + j));
    }
    EACH_VECTOR(cols, {
        vf t = vload(stack + j);
        if (add)
            t = vget(dst + j, n) + t;
        vput(dst + j, t, n);
    });
}

static void row_sums_part(void *arg, int part, int thread)
{
    const struct row_sums_job *o = arg;
    const struct rp_row_groups *g = o->groups;
    long chunks = blocks_of(o->width, 128);
    for (long i = part * o->batch; i < o->items && i < (part + 1) * o->batch; i++) {
        long group = i / chunks, j0 = i % chunks * 128, cols = o->width - j0 < 128 ? o->width - j0 : 128;
        group_sum(o->dst + g->key[group] * o->width + j0, o->src + j0, g->source + g->start[group],
                  g->start[group + 1] - g->start[group], o->width, cols, o->add, rp_cpu_scratch(o->cpu, thread));
    }
}

static void cpu_row_sums(struct rp_dev *dev, float *dst, const float *src, const struct rp_row_groups *groups,
                         int width, int add)
{
    struct row_sums_job o = {
        .cpu = rp_cpu_of(dev), .dst = dst, .src = src, .groups = groups, .width = width, .add = add};
    RP_BUG_IF(o.cpu->scratch_each < RP_CPU_ROW_SUMS_SCRATCH);
    o.items = (long)groups->n * blocks_of(width, 128);
    o.batch = o.items > 512 ? 16 : 1;
    rp_pool_run(o.cpu->pool, blocks_of(o.items, o.batch), row_sums_part, &o);
}
