/* Products as a tensor core sums them: cutting into tiles, packing, choice of path, order of work. The arithmetic is
 * in tc_tile.inc.h.
 *
 * A task is a chunk of columns times a part of the rows. Its k-steps are cut into blocks of RP_TC_KC; for each, a
 * thread packs its own copy of the chunk of B, then RP_TC_MC rows of A at a time, and passes all panels of the chunk
 * by them. A panel goes by in slices of RP_TC_STEPS k-steps that stay in the first cache, while the sums of RP_TC_MC
 * rows wait in doubles. Tasks share nothing. */
#include "backend/cpu/float_mode.h"
#include "backend/cpu/tc_tile.h"

#include <stdatomic.h>
#include <string.h>

#define GROUPS_MOST RP_TC_MC /* groups of A that are packed at once */
#define TOGETHER 8           /* groups whose chains fill each other's waiting time */
#define PANELS_MOST (RP_TC_NC / 8) /* of the narrowest tile */

static int min(int a, int b)
{
    return a < b ? a : b;
}

static int cut(int a, int b) /* how many pieces of b make a */
{
    return (a + b - 1) / b;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* The smallest blocks take most, since each has its signs. */
static size_t a_bytes(const struct rp_tc_kernel *kernel)
{
    return aligned((size_t)(RP_TC_MC / kernel->rows * (RP_TC_KC / 4)) * rp_tc_group_bytes(kernel->rows, 4));
}

static size_t b_bytes(const struct rp_tc_kernel *kernel)
{
    return aligned((size_t)(RP_TC_NC / kernel->cols * (RP_TC_KC / 4)) * rp_tc_panel_bytes(kernel->cols, 4));
}

size_t rp_tc_scratch(const struct rp_tc_kernel *kernel)
{
    if (!kernel)
        return 0;
    return a_bytes(kernel) + b_bytes(kernel) + aligned(RP_TC_MC * (size_t)kernel->cols * sizeof(double));
}

struct job {
    const struct rp_tc_gemm *g;
    const struct rp_tc_kernel *kernel;
    unsigned char *scratch;
    int chunks, chunk_cols, part_rows; /* chunk_cols: a multiple of kernel->cols */
    _Atomic uint64_t fast, general, invalid;
};

/* What one thread has packed. */
struct work {
    const struct job *job;
    unsigned char *a, *b;
    double *tile;
    size_t group, panel; /* bytes of a block */
    int k0, k, blocks;   /* of the k-block */
    int starts;          /* its chains begin at +0 */
    struct rp_tc_range a_range[GROUPS_MOST], b_range[PANELS_MOST];
    struct rp_tc_paths paths;
};

static const struct rp_tc_range no_range = {.least = 9999, .most = -9999};

/* ---- without a kernel: one element at a time ---- */

static uint16_t element(const uint16_t *x, long ld, int transposed, long line, long k)
{
    return transposed ? x[k * ld + line] : x[line * ld + k];
}

static void compute_element(const struct rp_tc_gemm *g, long i, long j)
{
    uint16_t a[16], b[16];
    uint32_t c = 0;
    float *const at = g->c + i * g->ldc + j;
    if (g->continues)
        memcpy(&c, at, sizeof c);
    for (int k = 0; k < g->k; k += g->tc.products) {
        for (int s = 0; s < g->tc.products; s++) {
            const int exists = k + s < g->k;
            a[s] = exists ? element(g->a, g->lda, g->ta, i, k + s) : 0;
            b[s] = exists ? element(g->b, g->ldb, !g->tb, j, k + s) : 0;
        }
        c = rp_tc_block(g->format, g->tc, a, b, c);
    }
    memcpy(at, &c, sizeof c);
}

static void compute_elements(const struct rp_tc_gemm *g, int i, int rows, int j, int cols)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            compute_element(g, i + r, j + c);
}

/* ---- packing ---- */

static void pack_b(struct work *w, int j0, int cols)
{
    const struct rp_tc_gemm *g = w->job->g;
    const int width = w->job->kernel->cols;
    for (int p = 0; p * width < cols; p++) {
        const int j = j0 + p * width;
        const struct rp_tc_source s = {
            .at = g->tb ? g->b + j * g->ldb + w->k0 : g->b + w->k0 * g->ldb + j,
            .along = g->tb ? g->ldb : 1,
            .step = g->tb ? 1 : g->ldb,
            .count = min(width, cols - p * width),
            .steps = w->k,
        };
        w->b_range[p] = no_range;
        w->job->kernel->pack_b(w->b + (size_t)p * (size_t)w->blocks * w->panel, &s, g->format, g->tc.products,
                               w->blocks, &w->b_range[p]);
    }
}

static void pack_a(struct work *w, int i0, int rows)
{
    const struct rp_tc_gemm *g = w->job->g;
    const int height = w->job->kernel->rows;
    for (int q = 0; q * height < rows; q++) {
        const int i = i0 + q * height;
        const struct rp_tc_source s = {
            .at = g->ta ? g->a + w->k0 * g->lda + i : g->a + i * g->lda + w->k0,
            .along = g->ta ? 1 : g->lda,
            .step = g->ta ? g->lda : 1,
            .count = min(height, rows - q * height),
            .steps = w->k,
        };
        w->a_range[q] = no_range;
        w->job->kernel->pack_a(w->a + (size_t)q * (size_t)w->blocks * w->group, &s, g->format, g->tc.products,
                               w->blocks, &w->a_range[q]);
    }
}

/* ---- tiles ---- */

enum path { FAST, GENERAL };

#define SAFE_LEAST                                                                                                     \
    (-101) /* every result is a multiple of 2^(-101 - 25): none is subnormal, none is at the floor of E */
#define SAFE_MOST 125

/* 2^(the result) >= x */
static int log2_up(int x)
{
    int bits = 0;
    while (1 << bits < x)
        bits++;
    return bits;
}

static enum path choose_path(const struct rp_tc_range *a, const struct rp_tc_range *b, const struct rp_tc_range *c,
                             int k)
{
    /* a product is below 2^(2 + its exponent) */
    const int far = a->least + b->least >= SAFE_LEAST && a->most + b->most + 2 + log2_up(k) <= SAFE_MOST;
    return far && c->least >= SAFE_LEAST && c->most <= SAFE_MOST ? FAST : GENERAL;
}

/* The word of the least E (tc_tile.h). A contract without a floor: below the exponent of any fp32 number, and above
 * that of stand-ins of zeros. */
static int least_word(const struct rp_tc *tc, enum path path)
{
    const int least = path == FAST ? SAFE_LEAST : tc->floor < -200 ? -200 : tc->floor;
    return (1023 + least) * 16;
}

/* An infinity times a zero, in the products of group q and panel p. */
static void mark_invalid(struct work *w, int q, int p)
{
    const struct rp_tc_range *const a = &w->a_range[q], *const b = &w->b_range[p];
    const struct rp_tc_gemm *const g = w->job->g;
    const struct rp_tc_kernel *const kernel = w->job->kernel;
    if (!(a->infinite && b->zero) && !(a->zero && b->infinite))
        return;
    kernel->mark_invalid(w->tile + q * kernel->rows * kernel->cols, w->a + (size_t)q * (size_t)w->blocks * w->group,
                         w->b + (size_t)p * (size_t)w->blocks * w->panel, g->format, g->tc.products, w->blocks);
    w->paths.invalid++;
}

/* One panel past the packed rows of A. */
static void pass_panel(struct work *w, int p, int i0, int rows, int j, int cols)
{
    const struct job *const job = w->job;
    const struct rp_tc_gemm *const g = job->g;
    const struct rp_tc_kernel *const kernel = job->kernel;
    const int groups = cut(rows, kernel->rows), slice = RP_TC_STEPS / g->tc.products;
    const unsigned char *const b = w->b + (size_t)p * (size_t)w->blocks * w->panel;
    enum path path[GROUPS_MOST];
    for (int q = 0; q < groups; q++) {
        const int i = i0 + q * kernel->rows;
        struct rp_tc_range c = no_range;
        kernel->load(w->tile + q * kernel->rows * kernel->cols, g->c + i * g->ldc + j, g->ldc,
                     w->starts ? 0 : min(kernel->rows, i0 + rows - i), cols, &c);
        path[q] = choose_path(&w->a_range[q], &w->b_range[p], &c, w->k);
        w->paths.fast += path[q] == FAST;
        w->paths.general += path[q] == GENERAL;
        mark_invalid(w, q, p);
    }
    for (int first = 0; first < w->blocks; first += slice) {
        struct rp_tc_run run = {.b = b + (size_t)first * w->panel,
                                .blocks = min(slice, w->blocks - first),
                                .group_step = (size_t)w->blocks * w->group};
        for (int q = 0; q < groups; q += run.groups) {
            run.a = w->a + ((size_t)q * (size_t)w->blocks + (size_t)first) * w->group;
            run.tile = w->tile + q * kernel->rows * kernel->cols;
            run.least = least_word(&g->tc, path[q]);
            run.groups = 1;
            while (run.groups < TOGETHER && q + run.groups < groups && path[q + run.groups] == path[q])
                run.groups++;
            kernel->tile(&run, g->tc.products, path[q] == GENERAL);
        }
    }
    for (int q = 0; q < groups; q++) {
        const int i = i0 + q * kernel->rows, count = min(kernel->rows, i0 + rows - i);
        kernel->store(g->c + i * g->ldc + j, g->ldc, count, cols, w->tile + q * kernel->rows * kernel->cols);
    }
}

static void run_task(void *arg, int task, int thread)
{
    struct job *const job = arg;
    const struct rp_tc_gemm *const g = job->g;
    const int i0 = task / job->chunks * job->part_rows, rows = min(job->part_rows, g->m - i0);
    const int j0 = task % job->chunks * job->chunk_cols, cols = min(job->chunk_cols, g->n - j0);
    if (!job->kernel) {
        compute_elements(g, i0, rows, j0, cols);
        return;
    }
    struct work w = {.job = job, .a = job->scratch + (size_t)thread * rp_tc_scratch(job->kernel)};
    w.b = w.a + a_bytes(job->kernel);
    w.tile = (double *)(w.b + b_bytes(job->kernel));
    w.group = rp_tc_group_bytes(job->kernel->rows, g->tc.products);
    w.panel = rp_tc_panel_bytes(job->kernel->cols, g->tc.products);
    const uint64_t mode = rp_float_mode();
    rp_float_mode_set((mode & ~(uint64_t)RP_FLOAT_SUBNORMALS) | RP_FLOAT_TOWARD_ZERO);
    for (w.k0 = 0; w.k0 < g->k; w.k0 += RP_TC_KC) {
        w.k = min(RP_TC_KC, g->k - w.k0);
        w.blocks = cut(w.k, g->tc.products);
        w.starts = w.k0 == 0 && !g->continues;
        pack_b(&w, j0, cols);
        for (int i = 0; i < rows; i += RP_TC_MC) {
            const int height = min(RP_TC_MC, rows - i);
            pack_a(&w, i0 + i, height);
            for (int p = 0; p * job->kernel->cols < cols; p++) {
                const int j = p * job->kernel->cols;
                pass_panel(&w, p, i0 + i, height, j0 + j, min(job->kernel->cols, cols - j));
            }
        }
    }
    rp_float_mode_set(mode);
    atomic_fetch_add_explicit(&job->fast, w.paths.fast, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->general, w.paths.general, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->invalid, w.paths.invalid, memory_order_relaxed);
}

/* Packing costs as much as some forty rows or columns more: parts are large, and as many as keep the threads busy to
 * the end. */
static int divide(struct job *job, int threads)
{
    const struct rp_tc_gemm *g = job->g;
    const int width = job->kernel ? job->kernel->cols : 16, tasks = threads == 1 ? 1 : 2 * threads;
    job->chunk_cols = min(RP_TC_NC, cut(g->n, width) * width);
    job->chunks = cut(g->n, job->chunk_cols);
    int parts = min(cut(g->m, RP_TC_MC), cut(tasks, job->chunks));
    job->part_rows = cut(cut(g->m, parts), RP_TC_MC) * RP_TC_MC;
    parts = cut(g->m, job->part_rows);
    if (job->chunks * parts < threads) { /* few rows */
        job->chunk_cols = cut(cut(g->n, cut(threads, parts)), width) * width;
        job->chunks = cut(g->n, job->chunk_cols);
    }
    return job->chunks * parts;
}

void rp_tc_gemm_run(const struct rp_tc_kernel *kernel, struct rp_pool *pool, int threads, void *scratch,
                    const struct rp_tc_gemm *g, struct rp_tc_paths *paths)
{
    RP_BUG_IF(g->tc.products != 4 && g->tc.products != 8 && g->tc.products != 16);
    if (g->m <= 0 || g->n <= 0)
        return;
    struct job job = {.g = g, .kernel = kernel, .scratch = scratch};
    const int tasks = divide(&job, threads);
    if (g->k <= 0) {
        for (long i = 0; i < g->m && !g->continues; i++)
            memset(g->c + i * g->ldc, 0, (size_t)g->n * sizeof *g->c);
        return;
    }
    if (pool)
        rp_pool_run(pool, tasks, run_task, &job);
    else
        for (int i = 0; i < tasks; i++)
            run_task(&job, i, 0);
    if (paths) {
        paths->fast += job.fast;
        paths->general += job.general;
        paths->invalid += job.invalid;
    }
}

const struct rp_tc_kernel *rp_tc_kernel(enum rp_isa isa, int popcount)
{
#if defined __x86_64__
    if (isa == RP_ISA_avx512)
        return popcount && __builtin_cpu_supports("avx512vpopcntdq") ? &rp_tc_avx512_popcount : &rp_tc_avx512;
    return isa == RP_ISA_avx2 ? &rp_tc_avx2 : NULL;
#else
    (void)popcount;
    return isa == RP_ISA_neon ? &rp_tc_neon : NULL;
#endif
}
