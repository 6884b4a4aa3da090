/* Batch norm. Limited by memory: statistics in one pass, their use in another, since every element depends on all rows.
 * The mean comes with x from conv_forward. Forward reads x for the variance, then x and the addend, and writes y.
 * Backward reads dy, x and, of a relu, y for the sums, and the same again for dx. If there is memory for the gradient
 * before the relu, dadd or dx in place of dy, the first pass writes it, and the second reads that and x. Compiled once
 * per instruction set by ops_<isa>.c. */

/* Rows are read as they lie in memory, which is twice as fast as 128 columns of many rows at a time: the sums pass
 * through L1 instead. Short rows follow each other closely enough for several at a time, which load the vectors of the
 * columns, and load and store the sums, once. */
#define BATCH_ROWS 4
#define BATCH_SHORT 128

/* Passes that write a tensor take several rows only if a vector is a whole cache line: with AVX2, which writes four
 * lines in parts, in turns, they are a fifth slower. */
#define BATCH_WRITES_SHORT (W * sizeof(float) >= 64 ? BATCH_SHORT : 0)

/* Runs the statement for rows r..end, `some` of them from row r on at a time, which is a constant there: 1, or in rows
 * of at most `most` elements BATCH_ROWS. */
#define BATCH_EACH(width, most, r, end, statement)                                                                     \
    do {                                                                                                               \
        for (; (width) <= (long)(most) && (r) + BATCH_ROWS <= (end); (r) += BATCH_ROWS) {                              \
            const int some = BATCH_ROWS;                                                                               \
            statement;                                                                                                 \
        }                                                                                                              \
        for (; (r) < (end); (r)++) {                                                                                   \
            const int some = 1;                                                                                        \
            statement;                                                                                                 \
        }                                                                                                              \
    } while (0)

/* An output of at least this many bytes bypasses the caches, unless it is in place of an input, whose lines are there:
 * it would be evicted before it is read again, and a plain store reads each line first. The pool's locked atomic
 * additions order such stores like others. */
#define BATCH_STREAM ((size_t)16 << 20)

struct batch_job {
    float *y, *dadd;
    const float *x, *mean, *rstd, *gamma, *beta, *add, *dy, *kept; /* kept: the output of a relu, or NULL */
    float *sum, *second;                                           /* 64-row sums, [block, width] */
    const float *s1, *s2;
    int relu, stream;
    long rows, width;
};

static long batch_rows(const struct batch_job *o, int part)
{
    return least_of(RP_COLSUM_ROWS, o->rows - (long)part * RP_COLSUM_ROWS);
}

/* The sums take the last rows first: what computed the tensor wrote them last, and the second pass begins with those
 * that the sums read last. What the caches still hold is not read from memory. */
static int batch_from_last(const struct batch_job *o, int part)
{
    return blocks_of(o->rows, RP_COLSUM_ROWS) - 1 - part;
}

static int batch_streams(const float *y, long rows, long width)
{
    const size_t bytes = (size_t)rows * (size_t)width * sizeof *y;
    return width % W == 0 && (uintptr_t)y % (W * sizeof *y) == 0 && bytes >= BATCH_STREAM;
}

RP_LANE void batch_put(float *p, vf x, int n, const int stream)
{
    if (stream)
        vstream(p, x);
    else
        vput(p, x, n);
}

/* Adds the squared differences of `rows` rows from r0. */
RP_LANE void batch_variance_rows(const struct batch_job *o, long r0, const int rows, float *sum)
{
    const float *x = o->x + r0 * o->width;
    EACH_VECTOR(o->width, {
        const vf mean = vget(o->mean + j, n);
        vf s = vget(sum + j, n);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const vf d = vget_far(x + r * o->width + j, n) - mean;
            s = s + d * d;
        }
        vput(sum + j, s, n);
    });
}

/* 64-row sums of the squared differences. */
static void batch_variance_part(void *arg, int part, int thread)
{
    const struct batch_job *o = arg;
    const int block = batch_from_last(o, part);
    float *sum = o->sum + block * o->width;
    long r = (long)block * RP_COLSUM_ROWS;
    const long end = r + batch_rows(o, block);
    (void)thread;
    memset(sum, 0, (size_t)o->width * sizeof *sum);
    BATCH_EACH(o->width, BATCH_SHORT, r, end, batch_variance_rows(o, r, some, sum));
}

RP_LANE void batch_apply_rows(const struct batch_job *o, long r0, const int rows, const int add, const int relu,
                              const int stream)
{
    const long at = r0 * o->width;
    const float *x = o->x + at, *a = add ? o->add + at : NULL;
    float *y = o->y + at;
    EACH_VECTOR(o->width, {
        const vf mean = vget(o->mean + j, n);
        const vf rstd = vget(o->rstd + j, n);
        const vf gamma = vget(o->gamma + j, n);
        const vf beta = vget(o->beta + j, n);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const long i = r * o->width + j;
            vf v = vfma((vget_far(x + i, n) - mean) * rstd, gamma, beta);
            if (add)
                v = v + vget_far(a + i, n);
            batch_put(y + i, relu ? vmax(v, vset1(0.0f)) : v, n, stream);
        }
    });
}

RP_LANE void batch_apply(const struct batch_job *o, long r, long end, const int stream)
{
    if (o->add && o->relu)
        BATCH_EACH(o->width, BATCH_WRITES_SHORT, r, end, batch_apply_rows(o, r, some, 1, 1, stream));
    else if (o->add)
        BATCH_EACH(o->width, BATCH_WRITES_SHORT, r, end, batch_apply_rows(o, r, some, 1, 0, stream));
    else if (o->relu)
        BATCH_EACH(o->width, BATCH_WRITES_SHORT, r, end, batch_apply_rows(o, r, some, 0, 1, stream));
    else
        BATCH_EACH(o->width, BATCH_WRITES_SHORT, r, end, batch_apply_rows(o, r, some, 0, 0, stream));
}

static void batch_apply_part(void *arg, int part, int thread)
{
    const struct batch_job *o = arg;
    const long r0 = (long)part * RP_COLSUM_ROWS, end = r0 + batch_rows(o, part);
    (void)thread;
    if (o->stream)
        batch_apply(o, r0, end, 1);
    else
        batch_apply(o, r0, end, 0);
}

static void cpu_batchnorm_apply(struct rp_dev *dev, const struct rp_batchnorm *a)
{
    struct batch_job o = {.y = a->y, .x = a->x, .mean = a->mean, .rstd = a->rstd, .gamma = a->gamma, .beta = a->beta,
                          .add = a->add, .relu = a->relu, .rows = a->rows, .width = a->width};
    o.stream = a->y != a->x && a->y != a->add && batch_streams(a->y, a->rows, a->width);
    rp_pool_run(rp_cpu_of(dev)->pool, blocks_of(a->rows, RP_COLSUM_ROWS), batch_apply_part, &o);
    low_store(dev, a->y, (size_t)a->rows * (size_t)a->width);
}

static void cpu_batchnorm_forward(struct rp_dev *dev, const struct rp_batchnorm *a)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct batch_job o = {.x = a->x, .mean = a->mean, .sum = a->work, .rows = a->rows, .width = a->width};
    const vf inv = vset1(1.0f / (float)a->rows);
    float *var = a->var, *rstd = a->rstd;
    rp_pool_run(cpu->pool, blocks_of(a->rows, RP_COLSUM_ROWS), batch_variance_part, &o);
    colsum_finish(cpu, 1, (float *const[3]){var}, (float *const[3]){a->work}, a->rows, a->width);
    EACH_VECTOR((long)a->width, {
        const vf v = vget(var + j, n) * inv;
        vput(var + j, v, n);
        vput(rstd + j, vset1(1.0f) / vsqrt(v + vset1(a->eps)), n);
    });
    if (a->y)
        cpu_batchnorm_apply(dev, a);
}

/* Adds dz*xhat and dz of `rows` rows from r0, and writes dz if it is wanted. */
RP_LANE void batch_sums_rows(const struct batch_job *o, long r0, const int rows, float *sum, float *second,
                             const int kept, const int dadd)
{
    const long at = r0 * o->width;
    const float *dy = o->dy + at, *x = o->x + at, *y = kept ? o->kept + at : NULL;
    float *da = dadd ? o->dadd + at : NULL;
    EACH_VECTOR(o->width, {
        const vf mean = vget(o->mean + j, n);
        const vf rstd = vget(o->rstd + j, n);
        vf s = vget(sum + j, n);
        vf t = vget(second + j, n);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const long i = r * o->width + j;
            vf dz = vget_far(dy + i, n);
            if (kept)
                dz = vpositive(vget_far(y + i, n), dz);
            if (dadd)
                vput(da + i, dz, n);
            s = s + dz * ((vget_far(x + i, n) - mean) * rstd);
            t = t + dz;
        }
        vput(sum + j, s, n);
        vput(second + j, t, n);
    });
}

/* 64-row sums of dz*xhat and of dz. */
static void batch_sums_part(void *arg, int part, int thread)
{
    const struct batch_job *o = arg;
    const int block = batch_from_last(o, part);
    float *sum = o->sum + block * o->width, *second = o->second + block * o->width;
    long r = (long)block * RP_COLSUM_ROWS;
    const long end = r + batch_rows(o, block);
    (void)thread;
    memset(sum, 0, (size_t)o->width * sizeof *sum);
    memset(second, 0, (size_t)o->width * sizeof *second);
    if (o->kept && o->dadd)
        BATCH_EACH(o->width, BATCH_SHORT, r, end, batch_sums_rows(o, r, some, sum, second, 1, 1));
    else if (o->kept)
        BATCH_EACH(o->width, BATCH_SHORT, r, end, batch_sums_rows(o, r, some, sum, second, 1, 0));
    else if (o->dadd)
        BATCH_EACH(o->width, BATCH_SHORT, r, end, batch_sums_rows(o, r, some, sum, second, 0, 1));
    else
        BATCH_EACH(o->width, BATCH_SHORT, r, end, batch_sums_rows(o, r, some, sum, second, 0, 0));
}

RP_LANE void batch_gradient_rows(const struct batch_job *o, long r0, const int rows, const int kept, const int stream)
{
    const long at = r0 * o->width;
    const float *dy = o->dy + at, *x = o->x + at, *y = kept ? o->kept + at : NULL;
    float *dx = o->y + at;
    EACH_VECTOR(o->width, {
        const vf mean = vget(o->mean + j, n);
        const vf rstd = vget(o->rstd + j, n);
        const vf s1 = vget(o->s1 + j, n);
        const vf s2 = vget(o->s2 + j, n);
        const vf scale = vget(o->gamma + j, n) * rstd;
        UNROLL for (int r = 0; r < rows; r++)
        {
            const long i = r * o->width + j;
            vf dz = vget_far(dy + i, n);
            if (kept)
                dz = vpositive(vget_far(y + i, n), dz);
            const vf xhat = (vget_far(x + i, n) - mean) * rstd;
            batch_put(dx + i, vfnma(xhat, s2, dz - s1) * scale, n, stream);
        }
    });
}

RP_LANE void batch_gradient(const struct batch_job *o, long r, long end, const int stream)
{
    if (o->kept)
        BATCH_EACH(o->width, BATCH_WRITES_SHORT, r, end, batch_gradient_rows(o, r, some, 1, stream));
    else
        BATCH_EACH(o->width, BATCH_WRITES_SHORT, r, end, batch_gradient_rows(o, r, some, 0, stream));
}

static void batch_gradient_part(void *arg, int part, int thread)
{
    const struct batch_job *o = arg;
    const long r0 = (long)part * RP_COLSUM_ROWS, end = r0 + batch_rows(o, part);
    (void)thread;
    if (o->stream)
        batch_gradient(o, r0, end, 1);
    else
        batch_gradient(o, r0, end, 0);
}

static void cpu_batchnorm_backward(struct rp_dev *dev, const struct rp_batchnorm_grad *g)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    const int blocks = blocks_of(g->rows, RP_COLSUM_ROWS);
    float *sum = g->work, *second = sum + rp_colsum_work(g->rows, g->width);
    float *s1 = sum, *s2 = second; /* the sums are done with when these are written */
    const vf inv = vset1(1.0f / (float)g->rows);
    float *dz = g->dadd ? g->dadd : g->y && g->dx == g->dy ? g->dx : NULL;
    struct batch_job o = {.y = g->dx, .dadd = dz, .x = g->x, .mean = g->mean, .rstd = g->rstd, .gamma = g->gamma,
                          .dy = g->dy, .kept = g->y, .sum = sum, .second = second, .s1 = s1, .s2 = s2, .rows = g->rows,
                          .width = g->width};
    o.stream = g->dx != g->dy && g->dx != g->x && batch_streams(g->dx, g->rows, g->width);
    rp_pool_run(cpu->pool, blocks, batch_sums_part, &o);
    colsum_finish(cpu, 2, (float *const[3]){g->dgamma, g->dbeta}, (float *const[3]){sum, second}, g->rows, g->width);
    EACH_VECTOR((long)g->width, {
        vput(s1 + j, vget(g->dbeta + j, n) * inv, n);
        vput(s2 + j, vget(g->dgamma + j, n) * inv, n);
    });
    if (dz) { /* neither dy nor y is read again */
        o.dy = dz;
        o.kept = NULL;
    }
    rp_pool_run(cpu->pool, blocks, batch_gradient_part, &o);
    low_store(dev, g->dx, (size_t)g->rows * (size_t)g->width);
}
