/* GEMM: the choice of a tile of gemm.def, and of how the segments of a long k are added. None of it affects the bits.
 * The weight gradient of a convolution whose window is one pixel is such a GEMM for each group of rows. */
#include "backend/cuda/inner.h"

/* Cycles of a multiprocessor. Except for LAUNCH_CYCLES they were measured, like the rates of gemm.def and conv.def, on
 * an H200 (132 multiprocessors, 1.98 GHz) on 2026-11-27. With 6 us for each launch, the estimates of 192 GEMMs and
 * convolutions then differ from their times by 2.5 % on average. */
#define LAUNCH_CYCLES 3000.0 /* of a second kernel */
#define EDGE_CYCLES 2500.0   /* before and after the main loops of tiles, in addition to writing them */
#define WRITE_BYTES 13.0     /* of C, in each of these cycles */
#define SERIAL_CYCLES 2000.0 /* each time that the threads of a segment read and write what they can have in flight */

static const struct tile {
    const char *name;
    enum rp_cuda_kernel kernel;
    int warps, blocks, rows, columns, thread_rows;
    enum rp_gemm_how how_a, how_b;
    int from, before, rate;
} tiles[] = {
#define TILE(name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b, from,      \
             before, rate)                                                                                             \
    {#name,       RP_KERNEL_gemm_##name, down * across,   blocks, rows,   columns,                                     \
     thread_rows, RP_GEMM_##how_a,       RP_GEMM_##how_b, from,   before, rate},
#include "backend/cuda/gemm.def"
#undef TILE
};
#define TILES ((int)(sizeof tiles / sizeof *tiles))

struct ops_gemm_plan {
    const struct tile *tile;
    enum rp_gemm_mode mode;
    double cycles;
};

static int aligned(const void *p, int64_t pitch)
{
    return ((uintptr_t)p & 15) == 0 && pitch % 4 == 0;
}

static int fits_operand(enum rp_gemm_how how, int by_k, int tile_rows, int rows, const float *p, int64_t pitch)
{
    switch (how) {
    case RP_GEMM_K:
        return by_k && rows >= tile_rows;
    case RP_GEMM_R:
        return !by_k && rows >= tile_rows && rows % 4 == 0 && aligned(p, pitch);
    case RP_GEMM_R1:
        return !by_k && rows >= tile_rows;
    default: /* ANY */
        break;
    }
    return 1;
}

static int compiled(const struct rp_cuda *c, const struct tile *t)
{
    return c->image->arch >= t->from && c->image->arch < t->before;
}
const char *rp_cuda_gemm_tile(const struct rp_cuda *c, int number, int *usable)
{
    *usable = number >= 1 && number <= TILES && compiled(c, &tiles[number - 1]);
    return number >= 1 && number <= TILES ? tiles[number - 1].name : NULL;
}

size_t rp_cuda_tile_floats(const struct rp_cuda *c, int rows, int columns, int thread_rows)
{
    const int async = c->image->arch >= 80;
    const size_t steps = (size_t)RP_GEMM_STAGES(async) * (size_t)RP_GEMM_DEPTH(async),
                 stages = steps * (size_t)(rows + columns + 2 * RP_GEMM_PAD),
                 band = (size_t)(rows / thread_rows * RP_GEMM_BAND(async)) * (size_t)(columns + RP_GEMM_PAD);
    return stages > band ? stages : band;
}

static size_t shared_bytes(const struct rp_cuda *c, const struct tile *t)
{
    return sizeof(float) * (RP_GEMM_FRONT + rp_cuda_tile_floats(c, t->rows, t->columns, t->thread_rows));
}

static struct rp_cuda_tile size_of(const struct rp_cuda *c, const struct tile *t)
{
    return (struct rp_cuda_tile){t->warps, t->blocks, t->rows, t->columns, t->thread_rows, t->rate, shared_bytes(c, t)};
}

static int fits(const struct rp_cuda *c, const struct tile *t, const struct rp_gemm_args *g)
{
    return compiled(c, t) && shared_bytes(c, t) <= c->gpu.shared_max &&
           fits_operand(t->how_a, !g->ta, t->rows, g->m, g->a, g->lda) &&
           fits_operand(t->how_b, g->tb, t->columns, g->n, g->b, g->ldb);
}

static int64_t part_pitch(const struct rp_gemm_args *g)
{
    return ((int64_t)g->n + 3) / 4 * 4;
}
static size_t part_bytes(const struct rp_gemm_args *g)
{
    return (size_t)g->m * (size_t)part_pitch(g) * sizeof(float);
}
/* Tiles of all groups. */
static int64_t tile_count(const struct rp_cuda_tile *t, const struct rp_gemm_args *g)
{
    return (int64_t)((g->m + t->rows - 1) / t->rows) * ((g->n + t->columns - 1) / t->columns) * g->groups;
}
int64_t rp_cuda_gemm_blocks(const struct rp_cuda_tile *t, const struct rp_gemm_args *g, enum rp_gemm_mode mode)
{
    return tile_count(t, g) * (mode == RP_GEMM_WHOLE ? 1 : g->segments);
}

/* ---- choice ---- */

/* Blocks that a multiprocessor runs at the same time. */
static int blocks_together(const struct rp_cuda *c, const struct rp_cuda_tile *t)
{
    const size_t room = (c->gpu.shared_max + 1024) / (t->shared + 1024);
    return room < (size_t)t->blocks ? (int)room : t->blocks;
}

/* A multiprocessor with 64 multiply-adds a cycle instead of 128. */
static int is_half(const struct rp_cuda *c)
{
    return c->image->arch <= 80;
}

/* The share of a tile's rate that `warps` warps of a multiprocessor reach: few cannot saturate its four parts. The
 * shares of half multiprocessors are assumptions. */
static double busy_share(const struct rp_cuda *c, int warps)
{
    static const double full[] = {0.43, 0.86, 0.90, 1.0, 1.0}, half[] = {0.40, 0.80, 0.95, 0.98, 1.0};
    const int each = warps / 4 < 4 ? warps / 4 : 4;
    return is_half(c) ? half[each] : full[each];
}

/* Cycles of one block's main loop over `terms` terms, while the multiprocessor runs as many blocks as fit. A half one
 * has twice the time to start the other instructions of a loop. */
static double tile_work(const struct rp_cuda *c, const struct rp_cuda_tile *t, double terms)
{
    const double work = (double)t->rows * t->columns * terms;
    if (!is_half(c))
        return work / (128.0 * t->rate / 100.0);
    const double rate = 64.0 * (t->rate < 50 ? 2.0 * t->rate / 100.0 : 1.0);
    return work / (rate * busy_share(c, blocks_together(c, t) * t->warps));
}

/* `blocks`: of one multiprocessor */
static double edge_cycles(const struct rp_cuda_tile *t, int blocks)
{
    return EDGE_CYCLES + (double)sizeof(float) * blocks * t->rows * t->columns / WRITE_BYTES;
}

/* Cycles of a segment that waits for the one before: the bands of a tile, as gemm_write() adds and writes them. */
static double serial_cycles(const struct rp_cuda *c, const struct rp_cuda_tile *t)
{
    const int band = RP_GEMM_BAND(c->image->arch >= 80), threads = 32 * t->warps;
    const int count = t->rows / t->thread_rows * band * t->columns / 4 / threads;
    const int most = RP_GEMM_IN_FLIGHT(count, 65536 / threads / t->blocks);
    return SERIAL_CYCLES * (t->thread_rows / band) * ((count + most - 1) / most);
}

/* Modelled as waves: the blocks that fit run concurrently and share a multiprocessor's arithmetic units. */
double rp_cuda_waves(const struct rp_cuda *c, const struct rp_cuda_tile *t, double blocks, double terms)
{
    const int together = blocks_together(c, t);
    const double per_wave = (double)c->multiprocessors * together, work = tile_work(c, t, terms);
    const int64_t waves = (int64_t)(blocks / per_wave);
    const double left = blocks - (double)waves * per_wave;
    const int last = left > 0 ? (int)((left + c->multiprocessors - 1) / c->multiprocessors) : 0;
    const double cycles = (double)waves * (together * work + edge_cycles(t, together));
    if (!last)
        return cycles;
    const double slower = busy_share(c, together * t->warps) / busy_share(c, last * t->warps);
    return cycles + last * work * slower + edge_cycles(t, last);
}

double rp_cuda_sum_cycles(const struct rp_cuda *c, double bytes)
{
    return LAUNCH_CYCLES + 2.0 * bytes / (32.0 * c->multiprocessors); /* 32 bytes a cycle and multiprocessor */
}

double rp_cuda_gemm_estimate(const struct rp_cuda *c, const struct rp_cuda_tile *t, const struct rp_gemm_args *g,
                             enum rp_gemm_mode mode)
{
    const int together = blocks_together(c, t), split = mode != RP_GEMM_WHOLE;
    double count = (double)tile_count(t, g), per_wave = (double)c->multiprocessors * together;
    double parts = split ? (g->groups - 1.0) * g->segments + g->last_segments : g->groups;
    double blocks = count / g->groups * parts;
    double cycles = rp_cuda_waves(c, t, blocks, g->k / parts);
    if (mode == RP_GEMM_WHOLE)
        cycles += (double)(int64_t)((blocks + per_wave - 1) / per_wave) * (g->segments - 1) * edge_cycles(t, together);
    if (mode == RP_GEMM_SERIAL) { /* segments of a tile that run together end together, then wait for each other */
        const double at_once = per_wave / count;
        cycles += serial_cycles(c, t) * (at_once < g->segments ? at_once : g->segments);
    }
    if (mode == RP_GEMM_PARALLEL)
        cycles += rp_cuda_sum_cycles(c, (double)part_bytes(g) * g->segments);
    return cycles;
}

int rp_cuda_gemm_allows(const struct rp_cuda *c, const struct rp_cuda_tile *t, const struct rp_gemm_args *g,
                        enum rp_gemm_mode mode)
{
    if (mode == RP_GEMM_WHOLE)
        return 1;
    if (g->segments == 1 || rp_cuda_gemm_blocks(t, g, mode) > INT32_MAX)
        return 0;
    return mode == RP_GEMM_SERIAL ? tile_count(t, g) < RP_CUDA_SEMAPHORES
                                  : g->groups == 1 && part_bytes(g) * (size_t)g->segments <= c->workspace_bytes;
}

static struct ops_gemm_plan choose(const struct rp_cuda *c, const struct rp_gemm_args *g)
{
    struct ops_gemm_plan plans[TILES * 3] = {0}, *best = plans;
    int n = 0;
    for (int i = 0; i < TILES; i++)
        for (int mode = RP_GEMM_WHOLE; mode <= RP_GEMM_SERIAL && fits(c, &tiles[i], g); mode++) {
            const struct rp_cuda_tile t = size_of(c, &tiles[i]);
            if (!rp_cuda_gemm_allows(c, &t, g, (enum rp_gemm_mode)mode))
                continue;
            struct ops_gemm_plan p = {&tiles[i], (enum rp_gemm_mode)mode,
                                      rp_cuda_gemm_estimate(c, &t, g, (enum rp_gemm_mode)mode)};
            p.cycles *= (c->gemm_forced.tile == i + 1 ? 1e-12 : 1) * (c->gemm_forced.mode == mode + 1 ? 1e-6 : 1);
            plans[n++] = p;
            best = p.cycles < best->cycles ? &plans[n - 1] : best;
        }
    RP_BUG_IF(n == 0); /* one tile fits every GEMM, and WHOLE is always allowed */
    return c->gemm_rotates ? plans[c->gemms / 4 % n] : *best;
}

/* ---- launches ---- */

static int64_t or_zero(const void *p, int64_t pitch)
{
    return p ? pitch : 0;
}

static void launch_gemm(struct rp_cuda *c, struct rp_gemm_args *g)
{
    struct ops_gemm_plan p = choose(c, g);
    c->gemms++;
    const struct rp_cuda_tile t = size_of(c, p.tile);
    const unsigned blocks = (unsigned)rp_cuda_gemm_blocks(&t, g, p.mode);
    int wide =
        g->n % 4 == 0 && aligned(g->c, g->ldc) && aligned(g->bias, 0) && aligned(g->add, or_zero(g->add, g->ldadd));
    c->gemm_done.tile = (int)(p.tile - tiles) + 1;
    c->gemm_done.mode = (int)p.mode + 1;
    g->mode = p.mode;
    g->part = g->c;
    g->ldpart = g->ldc;
    g->semaphores = c->semaphores;
    if (p.mode == RP_GEMM_PARALLEL || (g->segments > 1 && g->add == g->c)) {
        g->part = rp_cuda_workspace(c, part_bytes(g) * (size_t)(p.mode == RP_GEMM_PARALLEL ? g->segments : 1));
        g->ldpart = part_pitch(g);
    }
    g->wide = p.mode == RP_GEMM_PARALLEL ? g->n % 4 == 0 : wide;
    rp_cuda_launch(c, p.tile->kernel, (struct rp_grid){blocks, 1, 1}, t.shared, g);
    if (p.mode == RP_GEMM_PARALLEL) {
        g->wide = wide;
        rp_cuda_launch(c, RP_KERNEL_gemm_sum,
                       rp_cuda_spread(c, RP_KERNEL_gemm_sum, (size_t)g->m * (size_t)g->n / (wide ? 4 : 1)), 0, g);
    }
}

static int segments_of(int k, int segment)
{
    return k > 0 ? (k - 1) / segment + 1 : 1;
}

struct rp_gemm_args rp_cuda_gemm_arguments(const struct rp_gemm *g, int group)
{
    const int segment = g->segment && g->segment < g->k ? g->segment : g->k > 0 ? g->k : 1;
    const int groups = group ? segments_of(g->k, group) : 1, group_k = groups > 1 ? group : g->k;
    return (struct rp_gemm_args){.a = rp_cuda_floats(g->a), .b = rp_cuda_floats(g->b),
                                 .c = g->c32 ? g->c32 : rp_cuda_floats(g->c), .bias = g->bias,
                                 .add = g->c32 ? g->add32 : rp_cuda_floats(g->add), .lda = g->lda, .ldb = g->ldb,
                                 .ldc = g->ldc, .ldadd = g->ldadd, .ta = g->ta, .tb = g->tb, .m = g->m, .n = g->n,
                                 .k = g->k, .segment = segment, .segments = segments_of(group_k, segment),
                                 .groups = groups, .group_k = group_k,
                                 .last_segments = segments_of(g->k - (groups - 1) * group_k, segment)};
}

struct rp_cuda_gemm rp_cuda_gemm_choice(const struct rp_cuda *c, const struct rp_gemm *g, int group)
{
    struct rp_gemm_args x = rp_cuda_gemm_arguments(g, group);
    struct ops_gemm_plan p = choose(c, &x);
    return (struct rp_cuda_gemm){(int)(p.tile - tiles) + 1, (int)p.mode + 1, p.cycles};
}

/* If C is also `add`, sums of segments cannot be kept in C before the last one: they are in the workspace, and a large
 * GEMM is computed in bands of rows. */
void rp_cuda_op_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    if (rp_is_mixed(dev->numerics)) {
        rp_cuda_gemm16(c, g);
        return;
    }
    struct rp_gemm_args all = rp_cuda_gemm_arguments(g, 0);
    int64_t fit = (int64_t)(c->workspace_bytes / ((size_t)part_pitch(&all) * sizeof(float)));
    int64_t band = all.segments > 1 && all.add == all.c ? fit : INT32_MAX;
    band -= band > 64 ? band % 64 : 0; /* keeps the alignment */
    RP_BUG_IF(band < 1);
    for (int64_t i = 0; i < g->m; i += band) {
        struct rp_gemm_args x = all;
        x.a += i * (g->ta ? 1 : g->lda);
        x.c += i * g->ldc;
        x.add = all.add ? all.add + i * g->ldadd : NULL;
        x.m = (int)(g->m - i < band ? g->m - i : band);
        launch_gemm(c, &x);
    }
}

void rp_cuda_gemm_groups(struct rp_cuda *c, const struct rp_gemm *g, int group)
{
    struct rp_gemm_args x = rp_cuda_gemm_arguments(g, group);
    RP_BUG_IF(x.bias || x.add || (x.groups > 1 && group % x.segment));
    launch_gemm(c, &x);
}
