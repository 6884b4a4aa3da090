/* Softmax cross-entropy and weighted sums. Compiled once per instruction set by ops_<isa>.c.
 *
 * A row of logits fits into the second-level cache: the pass that finds its maximum waits for memory, and the pass with
 * the exponentials for instructions. So the latter prefetches the next row of its part. */

#define XENT_ROWS 8 /* of a part, unless there are too few for all threads */

struct xent_job {
    float *loss, *logits;
    long ld;
    const int32_t *labels;
    const float *coef;
    long classes;
    int shards;
    float smoothing, scale;
    const struct rp_arithmetic *low; /* NULL: strict fp32 */
    long rows, each;                 /* each: of a part */
};

static float row_max(const float *z, long width)
{
    struct sum128 m;
    max_start(&m);
    EACH_VECTOR(width, {
        if (n == W)
            m.lane[l] = vmax(m.lane[l], vload(z + j));
        else
            for (long i = j; i < width; i++)
                m.lane[l] = vmax(m.lane[l], vset1(z[i]));
    });
    return max_end(&m) + 0.0f;
}

/* z becomes e; the sum128 of a shard. next: the same shard of the next row, or NULL. */
static float sum_of_shard(float *z, const float *next, float m, long classes)
{
    struct sum128 s;
    sum_start(&s);
    const vf vm = vset1(m);
    EACH_VECTOR(classes, {
        if (next && j % 16 == 0)
            __builtin_prefetch(next + j, 1, 2);
        vf e = vexp_below(vget(z + j, n) - vm);
        e = n == W ? e : vfirst(e, n);
        vput(z + j, e, n);
        s.lane[l] = s.lane[l] + e;
    });
    return sum_end(&s);
}

static float sum_of_shards(float *z, const float *next, float m, long shards, long each)
{
    if (shards == 1)
        return sum_of_shard(z, next, m, each);
    const long left = rp_tree_split(shards), half = left * each;
    float a = sum_of_shards(z, next, m, left, each);
    float b = sum_of_shards(z + half, next ? next + half : NULL, m, shards - left, each);
    return a + b;
}

static void xent_row(const struct xent_job *o, long row, const float *next)
{
    float *z = o->logits + row * o->ld, coef = o->coef[row] * o->scale;
    const long classes = o->classes, label = o->labels[row];
    float m = row_max(z, classes), at_label = z[label] - m;
    float sum = sum_of_shards(z, next, m, o->shards, classes / o->shards), inv = 1.0f / sum, e_label = z[label];
    o->loss[row] = r_log(sum) - at_label;
    EACH_VECTOR(classes, { vput(z + j, (vget(z + j, n) * vset1(inv)) * vset1(coef), n); });
    z[label] = (e_label * inv - 1.0f) * coef;
    if (o->low)
        low_round_row(z, z, classes, o->low->format);
}

static void xent_part(void *arg, int part, int thread)
{
    const struct xent_job *o = arg;
    const long end = least_of(o->rows, (part + 1) * o->each);
    (void)thread;
    for (long r = part * o->each; r < end; r++)
        xent_row(o, r, r + 1 < end ? o->logits + (r + 1) * o->ld : NULL);
}

static void cpu_softmax_xent(struct rp_dev *dev, float *loss, float *logits, long ld, const int32_t *labels,
                             const float *coef, float scale, int n, int classes, int shards)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    const long each = least_of(XENT_ROWS, blocks_of(n, 4 * cpu->threads));
    struct xent_job o = {loss, logits, ld, labels, coef, classes, shards, 0.0f, scale, low_of(dev), n, each};
    rp_pool_run(cpu->pool, blocks_of(n, each), xent_part, &o);
}

static void xent_smoothed_part(void *arg, int part, int thread)
{
    const struct xent_job *o = arg;
    float *z = o->logits + part * o->ld;
    const float coef = o->coef[part] * o->scale, a = o->smoothing, share = 1.0f / (float)o->classes, rest = 1.0f - a,
                each = a * share;
    const long classes = o->classes, label = o->labels[part];
    struct sum128 s;
    (void)thread;
    sum_start(&s);
    EACH_VECTOR(classes, { s.lane[l] = s.lane[l] + vget(z + j, n); });
    const float m = row_max(z, classes), mean = sum_end(&s) * share, at_label = z[label] - m;
    const float sum = sum_of_shard(z, NULL, m, classes), inv = 1.0f / sum, e_label = z[label], log = r_log(sum);
    o->loss[part] = __builtin_fmaf(a, log - (mean - m), rest * (log - at_label));
    EACH_VECTOR(classes, { vput(z + j, (vget(z + j, n) * vset1(inv) - vset1(each)) * vset1(coef), n); });
    z[label] = (e_label * inv - each - rest) * coef;
    if (o->low)
        low_round_row(z, z, classes, o->low->format);
}

static void cpu_softmax_xent_smoothed(struct rp_dev *dev, float *loss, float *logits, long ld, const int32_t *labels,
                                      const float *coef, float scale, int n, int classes, float smoothing)
{
    struct xent_job o = {loss, logits, ld, labels, coef, classes, 1, smoothing, scale, low_of(dev), n, 1};
    rp_pool_run(rp_cpu_of(dev)->pool, n, xent_smoothed_part, &o);
}

static void cpu_weighted_sum(struct rp_dev *dev, float *out, const float *loss, const float *coef, int n_rows)
{
    struct sum128 s;
    (void)dev;
    sum_start(&s);
    EACH_VECTOR((long)n_rows, { s.lane[l] = s.lane[l] + vget(coef + j, n) * vget(loss + j, n); });
    out[0] = sum_end(&s);
}
