/* Mixed precision: products with the sums of a tensor core (tc_gemm.h): matrices and convolutions.
 * Compiled once per instruction set by ops_<isa>.c. */

#include "backend/cpu/low.h"

/* ---- products ---- */

/* C = op(A) op(B) of 16-bit operands; pieces of `length` k-steps are added in a balanced tree or in order. */
struct low_product {
    struct rp_cpu *cpu;
    struct rp_tc_gemm g; /* all k-steps; c, ldc and continues are set for each piece */
    long length;
    int tree;
    float *c;
    long ldc;
    const float *bias, *add;
    long ldadd;
    int f32;
};

/* Rows of the epilogue. */
struct low_end_job {
    const struct low_product *p;
    float *partial;      /* [pieces][rows][n] */
    size_t plane;        /* floats of a piece */
    long pieces, row0, rows;
};

/* The sum of pieces, into the first of them; `width` floats from `at` on. */
static void low_join(float *at, size_t plane, long pieces, long width, int tree)
{
    if (pieces == 1)
        return;
    const long left = tree ? rp_tree_split(pieces) : pieces - 1;
    low_join(at, plane, left, width, tree);
    low_join(at + (size_t)left * plane, plane, pieces - left, width, tree);
    const float *b = at + (size_t)left * plane;
    EACH_VECTOR(width, { vput(at + j, vget(at + j, n) + vget(b + j, n), n); });
}

static void low_end_part(void *arg, int part, int thread)
{
    const struct low_end_job *o = arg;
    const struct low_product *p = o->p;
    const long width = p->g.n, row = o->row0 + part;
    float *s = o->partial + (size_t)part * (size_t)width, *c = p->c + row * p->ldc;
    const float *add = p->add ? p->add + row * p->ldadd : NULL;
    (void)thread;
    low_join(s, o->plane, o->pieces, width, p->tree);
    if (p->bias)
        EACH_VECTOR(width, { vput(s + j, vget(s + j, n) + vget(p->bias + j, n), n); });
    if (add)
        EACH_VECTOR(width, { vput(s + j, vget(s + j, n) + vget(add + j, n), n); });
    if (p->f32)
        memcpy(c, s, (size_t)width * sizeof *c);
    else
        low_round_row(c, s, width, p->g.format);
}

/* Scratch behind that of the threads' tiles. */
static void *low_scratch(struct rp_cpu *cpu)
{
    return cpu->scratch + rp_cpu_low_tiles(cpu->isa, cpu->threads);
}

/* partial: rp_cpu_low_partial() bytes. */
static void low_product(struct low_product *p, float *partial)
{
    const long pieces = p->g.k > p->length ? (p->g.k + p->length - 1) / p->length : 1,
               most = rp_cpu_low_rows(pieces, p->g.n);
    const long k = p->g.k;
    for (long row = 0; row < p->g.m; row += most) {
        const long rows = p->g.m - row < most ? p->g.m - row : most;
        struct low_end_job end = {p, partial, (size_t)rows * (size_t)p->g.n, pieces, row, rows};
        for (long i = 0; i < pieces; i++) {
            struct rp_tc_gemm g = p->g;
            const long k0 = i * p->length;
            g.m = (int)rows;
            g.k = (int)(k - k0 < p->length ? k - k0 : p->length);
            g.a += g.ta ? k0 * g.lda + row : row * g.lda + k0;
            g.b += g.tb ? k0 : k0 * g.ldb;
            g.c = partial + (size_t)i * end.plane;
            g.ldc = g.n;
            rp_tc_gemm_run(p->cpu->tc, p->cpu->pool, p->cpu->threads, p->cpu->scratch, &g, NULL);
        }
        rp_pool_run(p->cpu->pool, (int)rows, low_end_part, &end);
    }
}

/* ---- gemm ---- */

/* Rows of fp32 to 16 bits, without gaps. */
struct low_pack_job {
    uint16_t *dst;
    const float *src;
    long ld, width;
    enum rp_tc_format format;
};

static void low_pack_part(void *arg, int part, int thread)
{
    const struct low_pack_job *o = arg;
    (void)thread;
    low_convert(o->dst + part * o->width, o->src + part * o->ld, o->width, o->format);
}

static uint16_t *low_pack(struct rp_cpu *cpu, void *memory, const float *src, long rows, long width, long ld,
                          enum rp_tc_format format)
{
    struct low_pack_job o = {memory, src, ld, width, format};
    rp_pool_run(cpu->pool, (int)rows, low_pack_part, &o);
    return memory;
}

static void low_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    const struct rp_arithmetic *arithmetic = rp_arithmetic_of(dev->numerics);
    const size_t a_bytes = rp_low_aligned((size_t)g->m * (size_t)g->k * 2),
                 b_bytes = rp_low_aligned((size_t)g->n * (size_t)g->k * 2);
    char *memory = low_scratch(cpu);
    if (g->m <= 0 || g->n <= 0)
        return;
    RP_BUG_IF(rp_cpu_low_tiles(cpu->isa, cpu->threads) + a_bytes + b_bytes + rp_cpu_low_partial(g->m, g->n, g->k) >
              (size_t)cpu->threads * cpu->scratch_each);
    const long a_rows = g->ta ? g->k : g->m, b_rows = g->tb ? g->n : g->k;
    struct low_product p = {
        .cpu = cpu, .c = g->c, .ldc = g->ldc, .bias = g->bias, .add = g->add, .ldadd = g->ldadd, .f32 = g->c32 != NULL};
    p.length = g->ta ? rp_low_segment(g->m, g->n, g->k) : RP_LOW_CHAIN;
    p.tree = g->ta;
    p.g = (struct rp_tc_gemm){
        .format = arithmetic->format, .tc = arithmetic->tc, .ta = g->ta, .tb = g->tb, .m = g->m, .n = g->n, .k = g->k};
    p.g.lda = g->ta ? g->m : g->k;
    p.g.ldb = g->tb ? g->k : g->n;
    p.g.a = low_pack(cpu, memory, g->a, a_rows, p.g.lda, g->lda, arithmetic->format);
    p.g.b = low_pack(cpu, memory + a_bytes, g->b, b_rows, p.g.ldb, g->ldb, arithmetic->format);
    low_product(&p, (float *)(void *)(memory + a_bytes + b_bytes));
}

static void cpu_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    struct rp_gemm h = *g;
    if (g->c32) { /* in memory the same */
        h.c = g->c32;
        h.add = g->add32;
    }
    if (rp_is_mixed(dev->numerics))
        low_gemm(dev, &h);
    else
        rp_cpu_gemm(dev, &h);
}

/* ---- convolution: products of gathered pixels ---- */

struct low_conv_job {
    const struct rp_conv *c;
    const uint16_t *image; /* 16 bits of x, or of dy for a data gradient */
    uint16_t *pixels;      /* [rows][k] */
    const float *w;
    uint16_t *weights;
    long row0, k, row, each; /* row: k-steps of a kh; each: of a tap */
    enum rp_tc_format format;
};

/* Output pixels with their taps, [kh][kw][channels]; each and row have zeros at their ends. */
static void low_pixel_part(void *arg, int part, int thread)
{
    const struct low_conv_job *o = arg;
    const struct rp_conv *c = o->c;
    const long r = o->row0 + part, n = r / (c->out_h * c->out_w), oh = r / c->out_w % c->out_h, ow = r % c->out_w;
    uint16_t *dst = o->pixels + part * o->k;
    (void)thread;
    memset(dst, 0, (size_t)o->k * sizeof *dst);
    for (long kh = 0; kh < c->kernel_h; kh++)
        for (long kw = 0; kw < c->kernel_w; kw++) {
            const long h = oh * c->stride + kh - c->pad_top, w = ow * c->stride + kw - c->pad_left;
            if (h >= 0 && h < c->in_h && w >= 0 && w < c->in_w)
                memcpy(dst + kh * o->row + kw * o->each, o->image + ((n * c->in_h + h) * c->in_w + w) * c->in_c,
                       (size_t)c->in_c * sizeof *dst);
        }
}

/* Input pixels with the output pixels that take them, [kh][kw][channels]. */
static void low_taken_part(void *arg, int part, int thread)
{
    const struct low_conv_job *o = arg;
    const struct rp_conv *c = o->c;
    const long p = o->row0 + part, n = p / (c->in_h * c->in_w), ih = p / c->in_w % c->in_h, iw = p % c->in_w;
    uint16_t *dst = o->pixels + part * o->k;
    (void)thread;
    memset(dst, 0, (size_t)o->k * sizeof *dst);
    for (long kh = 0; kh < c->kernel_h; kh++)
        for (long kw = 0; kw < c->kernel_w; kw++) {
            const long h = ih + c->pad_top - kh, w = iw + c->pad_left - kw;
            if (h >= 0 && w >= 0 && h % c->stride == 0 && w % c->stride == 0 && h / c->stride < c->out_h &&
                w / c->stride < c->out_w)
                memcpy(dst + kh * o->row + kw * o->each,
                       o->image + ((n * c->out_h + h / c->stride) * c->out_w + w / c->stride) * c->out_c,
                       (size_t)c->out_c * sizeof *dst);
        }
}

/* Weights of an output channel: [kh][kw][in_c] with the zeros of pixels. */
static void low_weights_part(void *arg, int part, int thread)
{
    const struct low_conv_job *o = arg;
    const struct rp_conv *c = o->c;
    uint16_t *dst = o->weights + part * o->k;
    (void)thread;
    memset(dst, 0, (size_t)o->k * sizeof *dst);
    for (long kh = 0; kh < c->kernel_h; kh++)
        for (long kw = 0; kw < c->kernel_w; kw++)
            low_convert(dst + kh * o->row + kw * o->each,
                        o->w + ((part * c->kernel_h + kh) * c->kernel_w + kw) * c->in_c, c->in_c, o->format);
}

/* Weights of one (kh, kw): rows [out_c][in_c]. */
static void low_turned_part(void *arg, int part, int thread)
{
    const struct low_conv_job *o = arg;
    const struct rp_conv *c = o->c;
    const long kh = part / c->kernel_w, kw = part % c->kernel_w, tap = kh * o->row + kw * o->each;
    (void)thread;
    for (long i = 0; i < c->out_c; i++)
        low_convert(o->weights + (tap + i) * c->in_c, o->w + ((i * c->kernel_h + kh) * c->kernel_w + kw) * c->in_c,
                    c->in_c, o->format);
}

/* Where the parts of the scratch are; rp_cpu_low_conv() adds up the same sizes. */
struct low_conv_room {
    uint16_t *image, *other, *pixels;
    float *partial;
};

static struct low_conv_room low_conv_room(struct rp_cpu *cpu, size_t image, size_t other, size_t pixels)
{
    char *at = low_scratch(cpu);
    struct low_conv_room r = {.image = (uint16_t *)(void *)at};
    at += rp_low_aligned(image * sizeof(uint16_t));
    r.other = (uint16_t *)(void *)at;
    at += rp_low_aligned(other * sizeof(uint16_t));
    r.pixels = (uint16_t *)(void *)at;
    at += rp_low_aligned(pixels * sizeof(uint16_t));
    r.partial = (float *)(void *)at;
    return r;
}

static struct low_product low_conv_product(struct rp_dev *dev)
{
    const struct rp_arithmetic *arithmetic = rp_arithmetic_of(dev->numerics);
    return (struct low_product){
        .cpu = rp_cpu_of(dev), .length = RP_LOW_CHAIN, .g = {.format = arithmetic->format, .tc = arithmetic->tc}};
}

static void low_check_room(const struct rp_cpu *cpu, const struct rp_conv *c, enum rp_op op)
{
    RP_BUG_IF(rp_cpu_low_tiles(cpu->isa, cpu->threads) + rp_cpu_low_conv(c, op) >
              (size_t)cpu->threads * cpu->scratch_each);
}

static void low_conv_forward(struct rp_dev *dev, float *y, const float *x, const float *w, const struct rp_conv *c)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct low_product p = low_conv_product(dev);
    const long inputs = (long)c->batch * c->in_h * c->in_w, rows = rp_conv_rows(c),
               row = rp_low_row(c->kernel_w, c->in_c);
    const long k = c->kernel_h * row, most = rp_cpu_low_pixels(k);
    const struct low_conv_room room =
        low_conv_room(cpu, (size_t)(inputs * c->in_c), (size_t)(c->out_c * k), (size_t)(most * k));
    struct low_conv_job o = {.c = c, .pixels = room.pixels, .w = w, .weights = room.other, .k = k, .row = row,
                             .each = rp_low_channels(c->in_c), .format = p.g.format};
    low_check_room(cpu, c, RP_OP_conv_forward);
    o.image = low_pack(cpu, room.image, x, inputs, c->in_c, c->in_c, o.format);
    rp_pool_run(cpu->pool, c->out_c, low_weights_part, &o);
    for (o.row0 = 0; o.row0 < rows; o.row0 += most) {
        const long n = rows - o.row0 < most ? rows - o.row0 : most;
        rp_pool_run(cpu->pool, (int)n, low_pixel_part, &o);
        p.g.tb = 1;
        p.g.m = (int)n;
        p.g.n = c->out_c;
        p.g.k = (int)k;
        p.g.a = o.pixels;
        p.g.b = o.weights;
        p.g.lda = p.g.ldb = k;
        p.c = y + o.row0 * c->out_c;
        p.ldc = c->out_c;
        low_product(&p, room.partial);
    }
}

static void low_conv_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add,
                           const struct rp_conv *c)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct low_product p = low_conv_product(dev);
    const long inputs = (long)c->batch * c->in_h * c->in_w, rows = rp_conv_rows(c),
               row = rp_low_row(c->kernel_w, c->out_c);
    const long k = c->kernel_h * row, most = rp_cpu_low_pixels(k);
    const struct low_conv_room room =
        low_conv_room(cpu, (size_t)(rows * c->out_c), (size_t)(k * c->in_c), (size_t)(most * k));
    struct low_conv_job o = {.c = c, .pixels = room.pixels, .w = w, .weights = room.other, .k = k, .row = row,
                             .each = rp_low_channels(c->out_c), .format = p.g.format};
    low_check_room(cpu, c, RP_OP_conv_dgrad);
    o.image = low_pack(cpu, room.image, dy, rows, c->out_c, c->out_c, o.format);
    memset(o.weights, 0, (size_t)(k * c->in_c) * sizeof *o.weights);
    rp_pool_run(cpu->pool, c->kernel_h * c->kernel_w, low_turned_part, &o);
    for (o.row0 = 0; o.row0 < inputs; o.row0 += most) {
        const long n = inputs - o.row0 < most ? inputs - o.row0 : most;
        rp_pool_run(cpu->pool, (int)n, low_taken_part, &o);
        p.g.m = (int)n;
        p.g.n = c->in_c;
        p.g.k = (int)k;
        p.g.a = o.pixels;
        p.g.b = o.weights;
        p.g.lda = k;
        p.g.ldb = c->in_c;
        p.c = dx + o.row0 * c->in_c;
        p.ldc = p.ldadd = c->in_c;
        p.add = add ? add + o.row0 * c->in_c : NULL;
        low_product(&p, room.partial);
    }
}

static void low_conv_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, const struct rp_conv *c)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct low_product p = low_conv_product(dev);
    const long inputs = (long)c->batch * c->in_h * c->in_w, rows = rp_conv_rows(c), taps = rp_conv_taps(c);
    const long length = rp_low_segment(c->out_c, (int)taps, (int)rows), pieces = (rows + length - 1) / length;
    const struct low_conv_room room =
        low_conv_room(cpu, (size_t)(inputs * c->in_c), (size_t)(rows * c->out_c), (size_t)(length * taps));
    struct low_conv_job o = {.c = c, .pixels = room.pixels, .k = taps, .row = (long)c->kernel_w * c->in_c,
                             .each = c->in_c, .format = p.g.format};
    struct low_end_job end = {&p, room.partial, (size_t)c->out_c * (size_t)taps, pieces, 0, c->out_c};
    low_check_room(cpu, c, RP_OP_conv_wgrad);
    o.image = low_pack(cpu, room.image, x, inputs, c->in_c, c->in_c, o.format);
    const uint16_t *g = low_pack(cpu, room.other, dy, rows, c->out_c, c->out_c, o.format);
    p.tree = p.f32 = 1;
    p.c = dw;
    p.ldc = taps;
    p.g.ta = 1;
    p.g.m = c->out_c;
    p.g.n = (int)taps;
    p.g.lda = c->out_c;
    p.g.ldb = p.g.ldc = taps;
    p.g.b = o.pixels;
    for (o.row0 = 0; o.row0 < rows; o.row0 += length) {
        p.g.k = (int)(rows - o.row0 < length ? rows - o.row0 : length);
        rp_pool_run(cpu->pool, p.g.k, low_pixel_part, &o);
        p.g.a = g + o.row0 * c->out_c;
        p.g.c = room.partial + (size_t)(o.row0 / length) * end.plane;
        rp_tc_gemm_run(cpu->tc, cpu->pool, cpu->threads, cpu->scratch, &p.g, NULL);
    }
    rp_pool_run(cpu->pool, c->out_c, low_end_part, &end);
}
