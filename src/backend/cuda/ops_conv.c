/* Convolutions: the choice of a tile of conv.def, which does not affect the bits, and its arguments. A window of one
 * pixel without stride and padding can be a GEMM, the weight gradient one for each group of rows. */
#include "backend/cuda/inner.h"

enum direction { FORWARD, DGRAD, WGRAD };

static const struct conv_tile {
    const char *name;
    enum direction direction;
    enum rp_cuda_kernel kernel;
    int threads, blocks, rows, columns, thread_rows, vectors, from, before, rate;
} tiles[] = {
#define ROW(direction, lower, name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across,         \
            vectors, from, before,                                                                                     \
            rate)                                                                                                      \
    {#lower "_" #name, direction, RP_KERNEL_conv_##lower##_##name, threads, blocks, rows, columns, thread_rows,        \
        vectors, from, before,                                                                                         \
     rate},
#define FORWARD(...) ROW(FORWARD, forward, __VA_ARGS__)
#define DGRAD(...) ROW(DGRAD, dgrad, __VA_ARGS__)
#define WGRAD(...) ROW(WGRAD, wgrad, __VA_ARGS__)
#include "backend/cuda/conv.def"
#undef FORWARD
#undef DGRAD
#undef WGRAD
};
#define TILES ((int)(sizeof tiles / sizeof *tiles))

/* What a kernel has to do. */
struct conv_task {
    enum direction direction;
    int vectors;               /* copied and written 16 bytes at a time */
    int terms, chains;         /* of a sum at most; sums that are added up through shared memory */
    int parts;
    long rows[RP_CONV_PARTS];  /* of C, for each part */
    int part_terms[RP_CONV_PARTS];
    long columns;
    struct rp_gemm_args gemm;  /* of a weight gradient */
};

/* ---- parts of a data gradient ---- */

static int conv_count_taps(int kernel, int first, int stride)
{
    return first < kernel ? (kernel - first + stride - 1) / stride : 0;
}

/* Pixels of `size` whose place, shifted by the padding, has this remainder: returns how many; *first: the first. */
static int conv_count_pixels(int size, int pad, int remainder, int stride, int *first)
{
    *first = ((remainder - pad) % stride + stride) % stride;
    return *first < size ? (size - *first + stride - 1) / stride : 0;
}

/* The parts, those with most terms first; `first` is left. */
static int conv_find_parts(struct rp_conv_part part[RP_CONV_PARTS], const struct rp_conv *v)
{
    int n = 0;
    for (int a = 0; a < v->stride; a++)
        for (int b = 0; b < v->stride; b++) {
            struct rp_conv_part p = {.tap_top = a, .tap_left = b, .taps_h = conv_count_taps(v->kernel_h, a, v->stride),
                                     .taps_w = conv_count_taps(v->kernel_w, b, v->stride)};
            p.height = conv_count_pixels(v->in_h, v->pad_top, a, v->stride, &p.to_top);
            p.width = conv_count_pixels(v->in_w, v->pad_left, b, v->stride, &p.to_left);
            if (!p.height || !p.width)
                continue;
            p.top = (p.to_top + v->pad_top - a) / v->stride;
            p.left = (p.to_left + v->pad_left - b) / v->stride;
            p.by_taps_w = p.taps_w ? 65536u / (unsigned)p.taps_w + 1 : 0;
            int at = n++;
            for (; at > 0 && part[at - 1].taps_h * part[at - 1].taps_w < p.taps_h * p.taps_w; at--)
                part[at] = part[at - 1];
            part[at] = p;
        }
    return n;
}

/* ---- choice ---- */

static struct conv_task conv_make_task(enum rp_op op, const struct rp_conv *v, int is_aligned)
{
    const enum direction direction = op == RP_OP_conv_forward ? FORWARD : op == RP_OP_conv_dgrad ? DGRAD : WGRAD;
    struct conv_task j = {.direction = direction, .parts = 1};
    const int taps = v->kernel_h * v->kernel_w, rows = (int)rp_conv_rows(v);
    struct rp_conv_part part[RP_CONV_PARTS];
    switch (j.direction) {
    case FORWARD:
        j.rows[0] = rows;
        j.columns = v->out_c;
        j.terms = j.part_terms[0] = taps * v->in_c;
        break;
    case DGRAD:
        j.parts = conv_find_parts(part, v);
        for (int i = 0; i < j.parts; i++) {
            j.rows[i] = (long)v->batch * part[i].height * part[i].width;
            j.part_terms[i] = part[i].taps_h * part[i].taps_w * v->out_c;
        }
        j.columns = v->in_c;
        j.terms = taps * v->out_c;
        j.vectors = is_aligned && v->in_c % 4 == 0;
        break;
    case WGRAD: {
        const struct rp_gemm g = {.ta = 1, .m = v->out_c, .n = taps * v->in_c, .k = rows, .segment = RP_CONV_CHAIN,
                                  .lda = v->out_c, .ldb = v->in_c, .ldc = (long)taps * v->in_c};
        j.gemm = rp_cuda_gemm_arguments(&g, RP_CONV_GROUP);
        j.vectors = is_aligned && v->in_c % 4 == 0 && v->out_c % 4 == 0;
        break;
    }
    }
    j.chains = j.direction != WGRAD && rp_segment(j.terms) ? 2 : 1;
    return j;
}

static long conv_count_tiles(const struct conv_tile *t, const struct conv_task *j, int part)
{
    return (j->rows[part] + t->rows - 1) / t->rows * ((j->columns + t->columns - 1) / t->columns);
}

/* As conv.cu divides it. */
static size_t conv_count_bytes(const struct rp_cuda *c, const struct conv_tile *t, const struct conv_task *j)
{
    const size_t table = j->direction == WGRAD ? RP_GEMM_FRONT + 2 * RP_CONV_CHAIN : 4 * (size_t)t->rows;
    const size_t saved = j->chains > 1 ? (size_t)t->rows * (size_t)t->columns : 0;
    return sizeof(float) * (table + rp_cuda_tile_floats(c, t->rows, t->columns, t->thread_rows) + saved);
}

static int conv_check_fit(const struct rp_cuda *c, const struct conv_tile *t, const struct conv_task *j)
{
    return t->direction == j->direction && c->image->arch >= t->from && c->image->arch < t->before &&
           (j->vectors || !t->vectors) && conv_count_bytes(c, t, j) <= c->gpu.shared_max;
}

static struct rp_cuda_tile conv_get_size(const struct rp_cuda *c, const struct conv_tile *t, const struct conv_task *j)
{
    return (struct rp_cuda_tile){t->threads / 32, t->blocks, t->rows, t->columns, t->thread_rows, t->rate,
                                 conv_count_bytes(c, t, j)};
}

static double conv_estimate_cycles(const struct rp_cuda *c, const struct conv_tile *t, const struct conv_task *j,
                                   enum rp_gemm_mode mode)
{
    const struct rp_cuda_tile size = conv_get_size(c, t, j);
    if (j->direction == WGRAD)
        return rp_cuda_gemm_estimate(c, &size, &j->gemm, mode);
    double blocks = 0, terms = 0;
    for (int i = 0; i < j->parts; i++) {
        blocks += (double)conv_count_tiles(t, j, i);
        terms += (double)conv_count_tiles(t, j, i) * j->part_terms[i];
    }
    const double all = rp_cuda_waves(c, &size, blocks, blocks > 0 ? terms / blocks : 0);
    /* the first part has most terms: others may fill the multiprocessors next to its blocks, but do not shorten them */
    const double first = rp_cuda_waves(c, &size, (double)conv_count_tiles(t, j, 0), j->part_terms[0]);
    return all > first ? all : first;
}

/* Whether a tile can compute it, by one block for each tile of C, or (weight gradient) one for each chain, in turn. */
static int conv_check_mode(const struct rp_cuda *c, const struct conv_tile *t, const struct conv_task *j,
                           enum rp_gemm_mode mode)
{
    const struct rp_cuda_tile size = conv_get_size(c, t, j);
    const int is_split = j->direction == WGRAD && mode == RP_GEMM_SERIAL;
    return conv_check_fit(c, t, j) &&
           (mode == RP_GEMM_WHOLE || (is_split && rp_cuda_gemm_allows(c, &size, &j->gemm, mode)));
}

struct conv_plan {
    const struct conv_tile *tile;
    enum rp_gemm_mode mode;
    double cycles;
};

static struct conv_plan conv_choose_plan(const struct rp_cuda *c, const struct conv_task *j)
{
    struct conv_plan plan[2 * TILES], *best = plan;
    int n = 0;
    for (int i = 0; i < TILES; i++)
        for (int mode = RP_GEMM_WHOLE; mode <= RP_GEMM_SERIAL; mode++) {
            const struct conv_tile *t = &tiles[i];
            if (!conv_check_mode(c, t, j, (enum rp_gemm_mode)mode))
                continue;
            plan[n] = (struct conv_plan){t, (enum rp_gemm_mode)mode,
                                         conv_estimate_cycles(c, t, j, (enum rp_gemm_mode)mode)};
            plan[n].cycles *= (c->conv_forced == i + 1 ? 1e-12 : 1) * (c->gemm_forced.mode == mode + 1 ? 1e-6 : 1);
            best = plan[n].cycles < best->cycles ? &plan[n] : best;
            n++;
        }
    RP_BUG_IF(n == 0); /* a tile for each direction fits everything */
    return c->gemm_rotates ? plan[c->convs % n] : *best;
}

static int conv_get_group(const struct conv_task *j)
{
    return j->direction == WGRAD ? RP_CONV_GROUP : 0;
}

/* Whether it can be the GEMM *g, and that is faster than the best tile of conv.def. */
static int conv_check_gemm(const struct rp_cuda *c, const struct rp_conv *v, const struct conv_task *j,
                           struct rp_gemm *g)
{
    const int rows = (int)rp_conv_rows(v), is_forward = j->direction == FORWARD;
    if (!rp_cuda_is_pointwise(v))
        return 0;
    g->ta = j->direction == WGRAD;
    g->tb = is_forward;
    g->m = g->ta ? v->out_c : rows;
    g->k = g->ta ? rows : is_forward ? v->in_c : v->out_c;
    g->lda = is_forward ? v->in_c : v->out_c;
    g->ldb = v->in_c;
    g->ldc = g->ldadd = g->n = is_forward ? v->out_c : v->in_c;
    g->segment = g->ta ? RP_CONV_CHAIN : rp_segment(g->k);
    if (c->gemm_rotates)
        return c->convs & 1;
    return rp_cuda_gemm_choice(c, g, conv_get_group(j)).cycles <= conv_choose_plan(c, j).cycles;
}

struct rp_cuda_conv rp_cuda_conv_choice(const struct rp_cuda *c, enum rp_op op, const struct rp_conv *v)
{
    struct rp_cuda_conv result = {0};
    struct rp_gemm g = {0};
    const struct conv_task j = conv_make_task(op, v, 1);
    if (conv_check_gemm(c, v, &j, &g)) {
        result.gemm = rp_cuda_gemm_choice(c, &g, conv_get_group(&j));
        result.cycles = result.gemm.cycles;
    } else {
        const struct conv_plan p = conv_choose_plan(c, &j);
        result.tile = (int)(p.tile - tiles) + 1;
        result.cycles = p.cycles;
    }
    if (j.gemm.groups > 1)
        result.cycles += rp_cuda_sum_cycles(c, sizeof(float) * (double)rp_conv_wgrad_work(v));
    return result;
}

const char *rp_cuda_conv_tile(const struct rp_cuda *c, int number, int *usable)
{
    *usable = number >= 1 && number <= TILES && c->image->arch >= tiles[number - 1].from &&
              c->image->arch < tiles[number - 1].before;
    return number >= 1 && number <= TILES ? tiles[number - 1].name : NULL;
}

/* ---- launches ---- */

static const struct conv_tile *conv_begin_tile(struct rp_cuda *c, const struct conv_plan *p)
{
    c->conv_done = (struct rp_cuda_gemm){(int)(p->tile - tiles) + 1, (int)p->mode + 1, p->cycles};
    c->convs++;
    return p->tile;
}

static void conv_begin_gemm(struct rp_cuda *c)
{
    c->conv_done = (struct rp_cuda_gemm){0};
    c->convs++;
}

static void conv_launch_tiles(struct rp_cuda *c, const struct conv_task *j, struct rp_conv_args *a)
{
    const struct conv_plan p = conv_choose_plan(c, j);
    const struct conv_tile *t = conv_begin_tile(c, &p);
    long blocks = 0;
    for (int i = 0; i < j->parts; i++) {
        a->part[i].first = (int)blocks;
        blocks += conv_count_tiles(t, j, i);
    }
    a->terms = j->terms;
    a->segment = rp_segment(j->terms) ? rp_segment(j->terms) : j->terms;
    a->parts = j->parts;
    rp_cuda_launch(c, t->kernel, (struct rp_grid){(unsigned)blocks, 1, 1}, conv_count_bytes(c, t, j), a);
}

void rp_cuda_op_conv_forward(struct rp_dev *dev, rp_stored *y, float *mean, const rp_stored *x, const rp_stored *w,
                             const struct rp_conv *v, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const int rows = (int)rp_conv_rows(v);
    const struct conv_task j = conv_make_task(RP_OP_conv_forward, v, 1);
    struct rp_gemm g = {.a = x, .b = w, .c = y};
    if (rp_is_mixed(dev->numerics)) {
        rp_cuda_conv16_forward(c, y, x, w, v);
    } else if (conv_check_gemm(c, v, &j, &g)) {
        rp_cuda_op_gemm(dev, &g);
        conv_begin_gemm(c);
    } else {
        struct rp_conv_args a = {.c = rp_cuda_floats(y), .a = rp_cuda_floats(x), .b = rp_cuda_floats(w),
                                 .images = v->batch, .height = v->in_h, .width = v->in_w, .channels = v->in_c,
                                 .to_height = v->out_h, .to_width = v->out_w, .columns = v->out_c, .step = v->stride,
                                 .direction = 1, .to_step = 1, .tap_step = 1, .kernel_w = v->kernel_w,
                                 .taps = v->kernel_h * v->kernel_w, .by_channels = RP_CONV_BY(v->in_c),
                                 .wide = v->out_c % 4 == 0 && RP_ALIGNED(y)};
        a.part[0] = (struct rp_conv_part){.height = v->out_h, .width = v->out_w, .top = -v->pad_top,
                                          .left = -v->pad_left, .taps_h = v->kernel_h, .taps_w = v->kernel_w,
                                          .by_taps_w = 65536u / (unsigned)v->kernel_w + 1};
        conv_launch_tiles(c, &j, &a);
    }
    if (!mean)
        return;
    rp_cuda_column_sums(c, work, y, rows, v->out_c);
    rp_cuda_column_mean(c, mean, NULL, 0, work, rows, v->out_c);
}

void rp_cuda_op_conv_dgrad(struct rp_dev *dev, rp_stored *dx, const rp_stored *dy, const rp_stored *w,
                           const rp_stored *add, const struct rp_conv *v)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const struct conv_task j = conv_make_task(RP_OP_conv_dgrad, v, RP_ALIGNED(w, dx, add));
    struct rp_gemm g = {.a = dy, .b = w, .c = dx, .add = add};
    if (rp_is_mixed(dev->numerics)) {
        rp_cuda_conv16_dgrad(c, dx, dy, w, add, v);
        return;
    }
    if (conv_check_gemm(c, v, &j, &g)) {
        rp_cuda_op_gemm(dev, &g);
        conv_begin_gemm(c);
        return;
    }
    struct rp_conv_args a = {.c = rp_cuda_floats(dx), .a = rp_cuda_floats(dy), .b = rp_cuda_floats(w),
                             .add = rp_cuda_floats(add), .images = v->batch, .height = v->out_h, .width = v->out_w,
                             .channels = v->out_c, .to_height = v->in_h, .to_width = v->in_w, .columns = v->in_c,
                             .step = 1, .direction = -1, .to_step = v->stride, .tap_step = v->stride,
                             .kernel_w = v->kernel_w, .taps = v->kernel_h * v->kernel_w,
                             .by_channels = RP_CONV_BY(v->out_c), .wide = v->in_c % 4 == 0 && RP_ALIGNED(dx, add)};
    conv_find_parts(a.part, v);
    conv_launch_tiles(c, &j, &a);
}

static void conv_launch_wgrad(struct rp_cuda *c, const struct conv_task *j, struct rp_conv_wgrad_args *a)
{
    const struct conv_plan p = conv_choose_plan(c, j);
    const struct conv_tile *t = conv_begin_tile(c, &p);
    const struct rp_cuda_tile size = conv_get_size(c, t, j);
    const unsigned blocks = (unsigned)rp_cuda_gemm_blocks(&size, &a->g, p.mode);
    a->g.mode = p.mode;
    rp_cuda_launch(c, t->kernel, (struct rp_grid){blocks, 1, 1}, size.shared, a);
}

void rp_cuda_op_conv_wgrad(struct rp_dev *dev, float *dw, const rp_stored *dy, const rp_stored *x,
                           const struct rp_conv *v, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const struct conv_task j = conv_make_task(RP_OP_conv_wgrad, v, RP_ALIGNED(dy, x, dw, work));
    const int groups = j.gemm.groups;
    const size_t n = (size_t)j.gemm.m * (size_t)j.gemm.n;
    float *to = groups > 1 ? work : dw;
    struct rp_gemm g = {.a = dy, .b = x, .c32 = to};
    if (rp_is_mixed(dev->numerics)) {
        rp_cuda_conv16_wgrad(c, dw, dy, x, v);
        return;
    }
    if (conv_check_gemm(c, v, &j, &g)) {
        rp_cuda_gemm_groups(c, &g, RP_CONV_GROUP);
        conv_begin_gemm(c);
    } else {
        struct rp_conv_wgrad_args a = {
            .g = j.gemm, .conv = *v, .by_out_h = RP_CONV_BY(v->out_h), .by_out_w = RP_CONV_BY(v->out_w)};
        a.g.a = rp_cuda_floats(dy);
        a.g.b = rp_cuda_floats(x);
        a.g.c = a.g.part = to;
        a.g.ldpart = a.g.ldc;
        a.g.semaphores = c->semaphores;
        a.g.wide = j.gemm.n % 4 == 0 && RP_ALIGNED(to);
        conv_launch_wgrad(c, &j, &a);
    }
    if (groups > RP_GROUP_TREE_MOST)
        rp_cuda_tree(c, dw, work, groups, (long)n);
    else if (groups > 1)
        RP_LAUNCH(c, group_tree, SPREAD4(c, group_tree, n),
                  rp_cuda_kernels[RP_KERNEL_group_tree].threads * RP_GROUP_TREE_LEVELS * 4 * sizeof(float), .out = dw,
                  .work = work, .n = n, .groups = groups, .wide = n % 4 == 0 && RP_ALIGNED(dw, work));
}
