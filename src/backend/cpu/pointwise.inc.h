/* Activations, optimizers, and sums over whole tensors.
 * Compiled once per instruction set by ops_<isa>.c. Loops over functions.h have no dependence between elements (ivdep):
 * in and out are the same tensor or do not overlap. */

#define RUN 4096 /* elements handed to a thread at a time, and to a function between two vector passes */

/* ---- activations ---- */

struct act_job {
    float *out;
    const float *dy, *x;
    float *work; /* 64-row sums, [block, width] */
    long rows, width;
};

static void run_tanh(float *y, const float *x, long n)
{
#pragma GCC ivdep
    for (long i = 0; i < n; i++)
        y[i] = r_tanh(x[i]);
}

static void run_tanh_backward(float *dx, const float *dy, const float *y, long n)
{
#pragma GCC ivdep
    for (long i = 0; i < n; i++)
        dx[i] = dy[i] * __builtin_fmaf(-y[i], y[i], 1.0f);
}

/* A gradient and the column sums of its 64-row block, row by row while the row is in the cache. */
RP_LANE void act_backward_block(const struct act_job *o, int part,
                                void (*run)(float *, const float *, const float *, long))
{
    const long r0 = (long)part * RP_COLSUM_ROWS, width = o->width;
    float *sum = o->work + part * width;
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (long r = r0; r < o->rows && r < r0 + RP_COLSUM_ROWS; r++) {
        float *dx = o->out + r * width;
        run(dx, o->dy + r * width, o->x + r * width, width);
        row_add(sum, dx, width);
    }
}

/* cpu_<name>_forward() and cpu_<name>_backward(), which makes its gradient from `kept`: the input, or the output. */
#define ACTIVATION(name)                                                                                               \
    static void name##_part(void *arg, int part, int thread)                                                           \
    {                                                                                                                  \
        const struct act_job *o = arg;                                                                                 \
        long all = o->rows * o->width, i = (long)part * RUN;                                                           \
        (void)thread;                                                                                                  \
        run_##name(o->out + i, o->x + i, all - i < RUN ? all - i : RUN);                                               \
    }                                                                                                                  \
    static void cpu_##name##_forward(struct rp_dev *dev, float *y, const float *x, int rows, int width)                \
    {                                                                                                                  \
        struct act_job o = {.out = y, .x = x, .rows = rows, .width = width};                                           \
        rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(o.rows *o.width, RUN), name##_part, &o);                           \
        low_store(dev, y, (size_t)rows * (size_t)width);                                                               \
    }                                                                                                                  \
    static void name##_backward_part(void *arg, int part, int thread)                                                  \
    {                                                                                                                  \
        (void)thread;                                                                                                  \
        act_backward_block(arg, part, run_##name##_backward);                                                          \
    }                                                                                                                  \
    static void cpu_##name##_backward(struct rp_dev *dev, float *dx, float *dbias, const float *dy, const float *kept, \
                                      int rows,                                                                        \
                                      int width, float *work)                                                          \
    {                                                                                                                  \
        struct act_job o = {dx, dy, kept, work, rows, width};                                                          \
        rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(rows, RP_COLSUM_ROWS), name##_backward_part, &o);                  \
        if (rp_is_mixed(dev->numerics)) {                                                                              \
            low_store(dev, dx, (size_t)rows * (size_t)width);                                                          \
            cpu_colsum(dev, dbias, dx, rows, width, work); /* of what is stored */                                     \
        } else                                                                                                         \
            colsum_finish(rp_cpu_of(dev), 1, (float *const[3]){dbias}, (float *const[3]){work}, rows, width);          \
    }
ACTIVATION(gelu)
ACTIVATION(gelu_tanh)
ACTIVATION(tanh)
#undef ACTIVATION

/* ---- whole tensors: one job struct, parts of RUN elements ---- */

struct tensor_job {
    float *w, *m, *v; /* w: what is written */
    const float *a, *b;
    float value;
    size_t n;
    const struct rp_adam *adam;
    const struct rp_sgd *sgd;
    const struct rp_lars *lars;
};

static long part_of(size_t n, int part)
{
    size_t left = n - (size_t)part * RUN;
    return left < RUN ? (long)left : RUN;
}

static int parts_of(size_t n)
{
    return (int)((n + RUN - 1) / RUN);
}

static void add_part(void *arg, int part, int thread)
{
    const struct tensor_job *o = arg;
    size_t i = (size_t)part * RUN;
    (void)thread;
    EACH_VECTOR(part_of(o->n, part), { vput(o->w + i + j, vget_far(o->a + i + j, n) + vget_far(o->b + i + j, n), n); });
}

static void cpu_add(struct rp_dev *dev, float *dst, const float *a, const float *b, size_t n)
{
    struct tensor_job o = {.w = dst, .a = a, .b = b, .n = n};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), add_part, &o);
}

static void cpu_add_stored(struct rp_dev *dev, float *dst, const float *a, const float *b, size_t n)
{
    cpu_add(dev, dst, a, b, n);
    low_store(dev, dst, n);
}

static void cpu_round_stored(struct rp_dev *dev, float *dst, const float *src, const float *add, size_t n)
{
    if (add)
        cpu_add_stored(dev, dst, src, add, n);
    else
        low_round(dev, dst, src, n);
}

static void fill_part(void *arg, int part, int thread)
{
    const struct tensor_job *o = arg;
    float *w = o->w + (size_t)part * RUN;
    (void)thread;
    EACH_VECTOR(part_of(o->n, part), { vput_far(w + j, vset1(o->value), n); });
}

static void cpu_fill(struct rp_dev *dev, float *dst, float value, size_t n)
{
    struct tensor_job o = {.w = dst, .value = value, .n = n};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), fill_part, &o);
}

static void square_part(void *arg, int part, int thread)
{
    const struct tensor_job *o = arg;
    const float *x = o->a + (size_t)part * RP_NORM_CHUNK;
    size_t left = o->n - (size_t)part * RP_NORM_CHUNK;
    long count = left < RP_NORM_CHUNK ? (long)left : RP_NORM_CHUNK;
    struct sum128 s;
    (void)thread;
    sum_start(&s);
    EACH_VECTOR(count, {
        vf v = vget_far(x + j, n) * vset1(o->value);
        s.lane[l] = s.lane[l] + v * v;
    });
    o->w[part] = sum_end(&s);
}

static void cpu_square_sums(struct rp_dev *dev, float *out, const float *x, float factor, size_t n)
{
    struct tensor_job o = {.w = out, .a = x, .value = factor, .n = n};
    rp_pool_run(rp_cpu_of(dev)->pool, (int)((n + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK), square_part, &o);
}

static void cpu_tree_sum(struct rp_dev *dev, float *out, const float *x, size_t n)
{
    float stack[64]; /* a binary counter of partial sums */
    int top = 0;
    (void)dev;
    for (size_t i = 0; i < n; i++) {
        float s = x[i];
        for (size_t b = i; b & 1; b >>= 1)
            s = stack[--top] + s;
        stack[top++] = s;
    }
    for (; top > 1; top--)
        stack[top - 2] = stack[top - 2] + stack[top - 1];
    out[0] = n ? stack[0] : 0.0f;
}

/* ---- optimizers ---- */

/* `correct` and `decay` are constants where this is called, so that each combination is its own straight loop. */
RP_LANE void adam_run(const struct tensor_job *o, int part, int lamb, int correct, int decay)
{
    const struct rp_adam *a = o->adam;
    const size_t i = (size_t)part * RUN;
    float *w = o->w + i, *m = o->m + i, *v = o->v + i;
    const float *g = o->b + i, *w_in = o->a + i;
    const vf scale = vset1(a->grad_scale), b1 = vset1(a->beta1), c1 = vset1(a->one_minus_beta1), b2 = vset1(a->beta2);
    const vf c2 = vset1(a->one_minus_beta2), eps = vset1(a->eps), wd = vset1(a->weight_decay), lr = vset1(a->lr);
    const vf f1 = vset1(a->correct1), f2 = vset1(a->correct2);
    EACH_VECTOR(part_of(o->n, part), {
        vf gs = vget(g + j, n) * scale;
        vf m1 = vfma(b1, vget(m + j, n), c1 * gs), v1 = vfma(b2, vget(v + j, n), c2 * (gs * gs));
        vput(m + j, m1, n);
        vput(v + j, v1, n);
        vf old = vget(w_in + j, n);
        vf mh = m1, vh = v1;
        if (correct) {
            mh = m1 * f1;
            vh = v1 * f2;
        }
        vf u = mh / (vsqrt(vh) + eps);
        if (decay)
            u = vfma(wd, old, u);
        vput(w + j, lamb ? u : vfnma(lr, u, old), n);
    });
}

RP_LANE void adam_choose(const struct tensor_job *o, int part, int lamb)
{
    int correct = o->adam->bias_correction, decay = o->adam->weight_decay != 0.0f;
    if (correct && decay)
        adam_run(o, part, lamb, 1, 1);
    else if (correct)
        adam_run(o, part, lamb, 1, 0);
    else if (decay)
        adam_run(o, part, lamb, 0, 1);
    else
        adam_run(o, part, lamb, 0, 0);
}

static void adam_part(void *arg, int part, int thread)
{
    (void)thread;
    adam_choose(arg, part, 0);
}

static void lamb_part(void *arg, int part, int thread)
{
    (void)thread;
    adam_choose(arg, part, 1);
}

static void cpu_adam_update(struct rp_dev *dev, float *w, float *m, float *v, const float *g, size_t n,
                            const struct rp_adam *a)
{
    struct tensor_job o = {.w = w, .m = m, .v = v, .a = w, .b = g, .n = n, .adam = a};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), adam_part, &o);
}

static void cpu_lamb_direction(struct rp_dev *dev, float *u_over_g, float *m, float *v, const float *w, size_t n,
                               const struct rp_adam *a)
{
    struct tensor_job o = {.w = u_over_g, .m = m, .v = v, .a = w, .b = u_over_g, .n = n, .adam = a};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), lamb_part, &o);
}

static void lamb_apply_part(void *arg, int part, int thread)
{
    const struct tensor_job *o = arg;
    size_t i = (size_t)part * RUN;
    (void)thread;
    EACH_VECTOR(part_of(o->n, part),
                { vput(o->w + i + j, vfnma(vset1(o->value), vget(o->a + i + j, n), vget(o->w + i + j, n)), n); });
}

static void cpu_lamb_apply(struct rp_dev *dev, float *w, const float *u, const float *sums, float lr, size_t n)
{
    float norm_w = __builtin_sqrtf(sums[0]), norm_u = __builtin_sqrtf(sums[1]);
    float ratio = norm_w > 0.0f && norm_u > 0.0f ? norm_w / norm_u : 1.0f;
    struct tensor_job o = {.w = w, .a = u, .value = lr * ratio, .n = n};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), lamb_apply_part, &o);
}

static void sgd_part(void *arg, int part, int thread)
{
    const struct tensor_job *o = arg;
    const struct rp_sgd *a = o->sgd;
    const size_t i = (size_t)part * RUN;
    float *w = o->w + i, *m = o->m + i;
    const float *g = o->a + i;
    const vf scale = vset1(a->grad_scale), momentum = vset1(a->momentum), wd = vset1(a->weight_decay),
             lr = vset1(a->lr);
    (void)thread;
    EACH_VECTOR(part_of(o->n, part), {
        const vf old = vget(w + j, n);
        vf d = vget(g + j, n) * scale;
        if (a->weight_decay != 0.0f)
            d = vfma(wd, old, d);
        const vf m1 = vfma(momentum, vget(m + j, n), d);
        vput(m + j, m1, n);
        vput(w + j, vfnma(lr, a->nesterov ? vfma(momentum, m1, d) : m1, old), n);
    });
}

static void cpu_sgd_update(struct rp_dev *dev, float *w, float *m, const float *g, size_t n, const struct rp_sgd *a)
{
    struct tensor_job o = {.w = w, .m = m, .a = g, .n = n, .sgd = a};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), sgd_part, &o);
}

/* value: lr * trust */
static void lars_part(void *arg, int part, int thread)
{
    const struct tensor_job *o = arg;
    const struct rp_lars *a = o->lars;
    const size_t i = (size_t)part * RUN;
    float *w = o->w + i, *m = o->m + i;
    const float *g = o->a + i;
    const vf scale = vset1(a->grad_scale), momentum = vset1(a->momentum), wd = vset1(a->weight_decay),
             rate = vset1(o->value);
    (void)thread;
    EACH_VECTOR(part_of(o->n, part), {
        const vf old = vget(w + j, n);
        vf v = vget(g + j, n) * scale;
        if (a->adapt)
            v = vfma(wd, old, v);
        v = rate * v;
        const vf m1 = momentum * vget(m + j, n) - v;
        vf u = m1;
        if (a->nesterov)
            u = momentum * m1 - v;
        vput(m + j, m1, n);
        vput(w + j, old + u, n);
    });
}

static void cpu_lars_update(struct rp_dev *dev, float *w, float *m, const float *g, const float *sums, size_t n,
                            const struct rp_lars *a)
{
    float trust = 1.0f;
    if (a->adapt) {
        const float nw = __builtin_sqrtf(sums[0]), ng = __builtin_sqrtf(sums[1]) * a->grad_scale;
        trust = nw > 0.0f && ng > 0.0f ? a->eeta * nw / (__builtin_fmaf(a->weight_decay, nw, ng) + a->eps) : 1.0f;
    }
    struct tensor_job o = {.w = w, .m = m, .a = g, .value = a->lr * trust, .n = n, .lars = a};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), lars_part, &o);
}

struct running_job {
    float *r;
    const float *x;
    float factor, momentum;
    size_t n;
};

static void running_part(void *arg, int part, int thread)
{
    const struct running_job *o = arg;
    const size_t i = (size_t)part * RUN;
    const vf factor = vset1(o->factor), momentum = vset1(o->momentum), rest = vset1(1.0f - o->momentum);
    (void)thread;
    EACH_VECTOR(part_of(o->n, part), {
        const vf x = vget(o->x + i + j, n) * factor;
        vput(o->r + i + j, vfma(momentum, x, rest * vget(o->r + i + j, n)), n);
    });
}

static void cpu_running_update(struct rp_dev *dev, float *r, const float *x, float factor, float momentum, size_t n)
{
    struct running_job o = {r, x, factor, momentum, n};
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), running_part, &o);
}

/* ---- initialisation ---- */

#define INIT_COUNTERS 256

struct init_job {
    float *w;
    size_t n;
    float std;
    uint64_t seed;
    uint32_t tensor;
    int truncated;
};

static void init_part(void *arg, int part, int thread)
{
    const struct init_job *o = arg;
    uint32_t x[4][INIT_COUNTERS], word[4 * INIT_COUNTERS];
    float z[4 * INIT_COUNTERS];
    uint64_t c = (uint64_t)part * INIT_COUNTERS;
    uint32_t k0 = (uint32_t)o->seed, k1 = (uint32_t)(o->seed >> 32);
    (void)thread;
    for (uint32_t i = 0; i < INIT_COUNTERS; i++) {
        x[0][i] = (uint32_t)(c + i);
        x[1][i] = (uint32_t)((c + i) >> 32);
        x[2][i] = RP_PHILOX_INIT;
        x[3][i] = o->tensor;
    }
    for (int r = 0; r < 10; r++, k0 += RP_PHILOX_W0, k1 += RP_PHILOX_W1)
        for (int i = 0; i < INIT_COUNTERS; i++) {
            uint64_t p0 = (uint64_t)RP_PHILOX_M0 * x[0][i], p1 = (uint64_t)RP_PHILOX_M1 * x[2][i];
            x[0][i] = (uint32_t)(p1 >> 32) ^ x[1][i] ^ k0;
            x[1][i] = (uint32_t)p1;
            x[2][i] = (uint32_t)(p0 >> 32) ^ x[3][i] ^ k1;
            x[3][i] = (uint32_t)p0;
        }
    for (int i = 0; i < INIT_COUNTERS; i++)
        for (int k = 0; k < 4; k++)
            word[4 * i + k] = x[k][i];
    for (int i = 0; i < 4 * INIT_COUNTERS; i++)
        z[i] = o->std * (o->truncated ? r_truncated_normal(word[i]) : r_normal(word[i]));
    size_t left = o->n - 4 * c;
    memcpy(o->w + 4 * c, z, (left < 4 * INIT_COUNTERS ? left : 4 * INIT_COUNTERS) * sizeof *z);
}

static void cpu_init_normal(struct rp_dev *dev, float *w, size_t n, float std, uint64_t seed, uint32_t tensor,
                            int truncated)
{
    struct init_job o = {w, n, std, seed, tensor, truncated};
    rp_pool_run(rp_cpu_of(dev)->pool, (int)((n + 4 * INIT_COUNTERS - 1) / (4 * INIT_COUNTERS)), init_part, &o);
}

/* ---- perturbation ---- */

#define PERTURB_COUNTERS 256

struct perturb_job {
    float *w;
    size_t n, piece; /* elements of a part of the work */
    const struct rp_perturbation *p;
};

/* Elements [e, e + n) of the whole tensor, at most 2 * PERTURB_COUNTERS - 1. */
static void perturb_elements(float *w, const struct rp_perturbation *p, uint64_t e, size_t n)
{
    uint32_t x[4][PERTURB_COUNTERS], k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
    const int counters = (int)((e + n - 1) / 2 - e / 2) + 1;
    for (int i = 0; i < counters; i++) {
        x[0][i] = (uint32_t)(e / 2 + (uint64_t)i);
        x[1][i] = (uint32_t)((e / 2 + (uint64_t)i) >> 32);
        x[2][i] = p->root;
        x[3][i] = p->tensor;
    }
    for (int r = 0; r < 10; r++, k0 += RP_PHILOX_W0, k1 += RP_PHILOX_W1)
        for (int i = 0; i < counters; i++) {
            uint64_t p0 = (uint64_t)RP_PHILOX_M0 * x[0][i], p1 = (uint64_t)RP_PHILOX_M1 * x[2][i];
            x[0][i] = (uint32_t)(p1 >> 32) ^ x[1][i] ^ k0;
            x[1][i] = (uint32_t)p1;
            x[2][i] = (uint32_t)(p0 >> 32) ^ x[3][i] ^ k1;
            x[3][i] = (uint32_t)p0;
        }
    for (size_t j = 0; j < n; j++) {
        const size_t k = (size_t)(e % 2) + j;
        const uint32_t word[2] = {x[2 * (k % 2)][k / 2], x[2 * (k % 2) + 1][k / 2]};
        w[j] = r_perturbed(w[j], word, p->scale);
    }
}

/* A piece may lie in several runs. */
static void perturb_part(void *arg, int part, int thread)
{
    const struct perturb_job *o = arg;
    const struct rp_perturbation *p = o->p;
    size_t j = (size_t)part * o->piece, end = j + o->piece < o->n ? j + o->piece : o->n, n;
    (void)thread;
    for (; j < end; j += n) {
        const size_t left = p->parts == 1 ? end - j : p->run - j % p->run;
        const uint64_t e = p->parts == 1 ? j : ((uint64_t)(j / p->run) * p->parts + p->part) * p->run + j % p->run;
        n = left < end - j ? left : end - j;
        perturb_elements(o->w + j, p, e, n);
    }
}

static void cpu_perturb(struct rp_dev *dev, float *w, size_t n, const struct rp_perturbation *p)
{
    struct perturb_job o = {w, n, 2 * PERTURB_COUNTERS - 2, p};
    rp_pool_run(rp_cpu_of(dev)->pool, (int)((n + o.piece - 1) / o.piece), perturb_part, &o);
}

/* ---- not finite ---- */

struct finite_job {
    const float *x;
    size_t n;
    _Atomic(int64_t) first; /* n: none */
};

static void finite_part(void *arg, int part, int thread)
{
    struct finite_job *o = arg;
    const float *x = o->x + (size_t)part * RUN;
    long n = part_of(o->n, part);
    uint32_t bad = 0;
    (void)thread;
    for (long i = 0; i < n; i++)
        bad |= (r_bits(x[i]) & 0x7f800000u) == 0x7f800000u;
    if (!bad)
        return;
    long i = 0;
    while ((r_bits(x[i]) & 0x7f800000u) != 0x7f800000u)
        i++;
    int64_t at = (int64_t)part * RUN + i, seen = atomic_load(&o->first);
    while (at < seen && !atomic_compare_exchange_weak(&o->first, &seen, at))
        ;
}

static void cpu_find_nonfinite(struct rp_dev *dev, int64_t *index, const float *x, size_t n)
{
    struct finite_job o = {.x = x, .n = n};
    atomic_init(&o.first, (int64_t)n);
    rp_pool_run(rp_cpu_of(dev)->pool, parts_of(n), finite_part, &o);
    int64_t first = atomic_load(&o.first);
    *index = first < (int64_t)n ? first : -1;
}

static void cpu_find_nonfinite_stored(struct rp_dev *dev, int64_t *index, const float *x, size_t n)
{
    cpu_find_nonfinite(dev, index, x, n);
}
