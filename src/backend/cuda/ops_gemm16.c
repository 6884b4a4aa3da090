/* GEMM in mixed precision: the choice of a tile of gemm16.def, the segments of k, and how they are added. The segments
 * are part of the arithmetic (ops/ops.h), the tile is not. */
#include "backend/cuda/inner.h"

#include <string.h>

static const struct tile16 {
    const char *name;
    enum rp_cuda_kernel kernel[2]; /* by enum rp_tc_format */
    int threads, blocks, rows, columns, a_by_k, b_by_k, from, before, wgmma;
} tiles[] = {
#define TILE16(name, threads, blocks, rows, columns, down, across, a_by_k, b_by_k, from, before)                       \
    {#name,   {RP_KERNEL_gemm16_f16_##name, RP_KERNEL_gemm16_bf16_##name},                                             \
     threads, blocks,                                                                                                  \
     rows,    columns,                                                                                                 \
     a_by_k,  b_by_k,                                                                                                  \
     from,    before,                                                                                                  \
     0},
#include "backend/cuda/gemm16.def"
#undef TILE16
#define WGMMA16(name, threads, blocks, rows, columns, a_by_k, b_by_k)                                                  \
    {#name,   {RP_KERNEL_gemm16_f16_##name, RP_KERNEL_gemm16_bf16_##name},                                             \
     threads, blocks,                                                                                                  \
     rows,    columns,                                                                                                 \
     a_by_k,  b_by_k,                                                                                                  \
     90,      91,                                                                                                      \
     1},
#include "backend/cuda/gemm16_wgmma.def"
#undef WGMMA16
};
#define TILES ((int)(sizeof tiles / sizeof *tiles))

static int is_compiled(const struct rp_cuda *c, const struct tile16 *t)
{
    return t->wgmma ? c->more != NULL : c->image->arch >= t->from && c->image->arch < t->before;
}

const char *rp_cuda_gemm16_tile(const struct rp_cuda *c, int number, int *usable)
{
    *usable = number >= 1 && number <= TILES && is_compiled(c, &tiles[number - 1]);
    return number >= 1 && number <= TILES ? tiles[number - 1].name : NULL;
}

size_t rp_cuda_gemm16_shared(const struct rp_cuda *c, int rows, int columns)
{
    const int stages = c->image->arch >= 80 ? RP_GEMM16_STAGES_ASYNC : RP_GEMM16_STAGES_HELD;
    const size_t copies = (size_t)stages * (size_t)(rows + columns) * RP_GEMM16_DEPTH * sizeof(uint16_t);
    const size_t band = (size_t)RP_GEMM16_BAND * (size_t)(columns + RP_GEMM16_PAD) * sizeof(float);
    return copies > band ? copies : band;
}

static size_t shared_bytes(const struct rp_cuda *c, const struct tile16 *t)
{
    if (t->wgmma)
        return (size_t)RP_WGMMA_STAGES * (size_t)(t->rows + t->columns) * RP_WGMMA_DEPTH * sizeof(uint16_t) +
               RP_WGMMA_BARRIERS + RP_WGMMA_UNIT;
    return rp_cuda_gemm16_shared(c, t->rows, t->columns);
}

/* wgmma is chosen once it gave the right sums, or where a test or proof.c names it. */
static int fits(const struct rp_cuda *c, const struct tile16 *t, const struct rp_gemm *g)
{
    if (t->wgmma && !c->has_wgmma && c->gemm_forced.tile != t - tiles + 1)
        return 0;
    return is_compiled(c, t) && shared_bytes(c, t) <= c->gpu.shared_max && t->a_by_k == !g->ta && t->b_by_k == !!g->tb;
}

static int64_t tile_count(const struct tile16 *t, int m, int n)
{
    return (int64_t)((m + t->rows - 1) / t->rows) * ((n + t->columns - 1) / t->columns);
}

/* Multiply-adds of a multiprocessor for each k-step: rounds in which all have blocks, times what a block has to do. A
 * block of 64 x 64 loads twice as much for each product as one of 128 x 128: counted as a rate of two thirds, an
 * assumption. */
static double cost(const struct rp_cuda *c, const struct tile16 *t, int m, int n, int segments)
{
    const double at_once = (double)c->multiprocessors * t->blocks, blocks = (double)tile_count(t, m, n) * segments;
    const int64_t rounds = (int64_t)((blocks + at_once - 1) / at_once);
    return (double)rounds * t->blocks * t->rows * t->columns * (t->rows < 128 ? 1.5 : 1.0);
}

/* On sm_90 mma.sync reaches about 62 % of the tensor cores' rate, as others have measured: a cycle of wgmma counts as
 * much less. */
#define WGMMA_WEIGHT 0.62

static const struct tile16 *choose(const struct rp_cuda *c, const struct rp_gemm *g, int segments)
{
    const struct tile16 *best = NULL;
    double least = 0;
    int fitting = 0, turn = c->gemms / 4;
    for (int i = 0; i < TILES; i++)
        fitting += fits(c, &tiles[i], g);
    RP_BUG_IF(fitting == 0);
    turn %= fitting;
    for (int i = 0; i < TILES; i++) {
        if (!fits(c, &tiles[i], g))
            continue;
        const double here = c->gemm_forced.tile == i + 1 || (c->gemm_rotates && turn-- == 0) ? 0
                            : cost(c, &tiles[i], g->m, g->n, segments) * (tiles[i].wgmma ? WGMMA_WEIGHT : 1);
        if (!best || here < least) {
            best = &tiles[i];
            least = here;
        }
    }
    return best;
}

static int length_of(const struct rp_gemm *g)
{
    return g->ta ? rp_low_segment(g->m, g->n, g->k) : RP_LOW_CHAIN;
}

struct rp_cuda_gemm rp_cuda_gemm16_choice(const struct rp_cuda *c, const struct rp_gemm *g, int rate)
{
    const int segments = rp_cuda_low_segments(g->k, length_of(g));
    const struct tile16 *t = choose(c, g, segments);
    return (struct rp_cuda_gemm){.tile = (int)(t - tiles) + 1,
                                 .cycles = cost(c, t, g->m, g->n, segments) * g->k / segments / rate};
}

static int is_aligned(const void *p, int64_t pitch, size_t element, size_t numbers)
{
    return (uintptr_t)p % (numbers * element) == 0 && (size_t)pitch % numbers == 0;
}

/* A map of an operand for boxes of the kernel. 0: the driver makes none, as where memory is not aligned. */
static int map_of(const struct rp_cuda *c, struct rp_tensor_map *map, const uint16_t *from, int64_t pitch, int by_k,
                  int rows, int k)
{
    const cuuint64_t numbers[] = {(cuuint64_t)(by_k ? k : rows), (cuuint64_t)(by_k ? rows : k)};
    const cuuint64_t bytes[] = {(cuuint64_t)pitch * sizeof *from};
    const cuuint32_t box[] = {RP_WGMMA_BOX, RP_WGMMA_BOX}, step[] = {1, 1};
    _Static_assert(sizeof *map == sizeof(CUtensorMap), "what the driver fills");
    _Static_assert(RP_WGMMA_BOX == RP_WGMMA_DEPTH, "a box has as many numbers as lines");
    CUresult r = c->d->cuTensorMapEncodeTiled(
        (CUtensorMap *)(void *)map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, (void *)(uintptr_t)from, numbers, bytes, box,
        step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS;
}

static void launch_wgmma(struct rp_cuda *c, const struct tile16 *t, struct rp_grid grid, const struct rp_gemm16_args *g,
                         enum rp_tc_format format)
{
    struct rp_gemm16_wgmma_args x;
    memset(&x, 0, sizeof x); /* graph.c compares all of its bytes */
    x.g = *g;
    x.by_map = g->fast_a && g->fast_b && (g->segments == 1 || g->length % RP_WGMMA_DEPTH == 0) &&
               map_of(c, &x.a, g->a, g->lda, t->a_by_k, g->m, g->k) &&
               map_of(c, &x.b, g->b, g->ldb, t->b_by_k, g->n, g->k);
    rp_cuda_launch(c, t->kernel[format], grid, shared_bytes(c, t), &x);
}

static void launch(struct rp_cuda *c, const struct tile16 *t, struct rp_gemm16_args *x, enum rp_tc_format format)
{
    const struct rp_grid grid = {(unsigned)tile_count(t, x->m, x->n), (unsigned)x->segments, 1};
    if (x->segments > 1)
        x->part = rp_cuda_workspace(c, (size_t)x->m * rp_cuda_low_row_bytes(x->n, x->segments));
    if (t->wgmma)
        launch_wgmma(c, t, grid, x, format);
    else
        rp_cuda_launch(c, t->kernel[format], grid, shared_bytes(c, t), x);
    if (x->segments == 1)
        return;
    const enum rp_cuda_kernel sum = format == RP_TC_BF16 ? RP_KERNEL_gemm16_sum_bf16 : RP_KERNEL_gemm16_sum_f16;
    rp_cuda_launch(c, sum, rp_cuda_spread(c, sum, (size_t)x->m * ((size_t)x->n + 1) / 2), 0, x);
}

/* Results of segments are in the workspace until all are there: a GEMM of many is computed in bands of rows. */
void rp_cuda_gemm16(struct rp_cuda *c, const struct rp_gemm *g)
{
    const struct rp_arithmetic *of = rp_arithmetic_of(c->dev.numerics);
    const size_t element = g->c32 ? sizeof(float) : sizeof(uint16_t);
    char *const c_at = g->c32 ? (char *)g->c32 : (char *)g->c;
    const char *const add = g->c32 ? (const char *)g->add32 : (const char *)g->add;
    const int length = length_of(g), segments = rp_cuda_low_segments(g->k, length);
    const size_t row = rp_cuda_low_row_bytes(g->n, segments);
    int64_t band = row ? (int64_t)(c->workspace_bytes / row) : INT32_MAX;
    RP_BUG_IF(!rp_cuda_has_arithmetic(c->gpu.capability, c->dev.numerics) ||
              !rp_cuda_has_arithmetic(c->image->arch, c->dev.numerics) || band < 1);
    band -= band > 64 ? band % 64 : 0; /* keeps the alignment */
    const struct tile16 *t = choose(c, g, segments);
    c->gemms++;
    c->gemm_done = (struct rp_cuda_gemm){.tile = (int)(t - tiles) + 1};
    struct rp_gemm16_args x = {.bias = g->bias, .lda = g->lda, .ldb = g->ldb, .ldc = g->ldc, .ldadd = g->ldadd,
                               .ldpart = rp_cuda_low_pitch(g->n), .n = g->n, .k = g->k, .length = length,
                               .segments = segments, .f32 = g->c32 != NULL, .in_tree = g->ta,
                               .b = (const uint16_t *)(const void *)g->b};
    x.fast_b = is_aligned(x.b, g->ldb, sizeof(uint16_t), 8);
    for (int64_t i = 0; i < g->m; i += band) {
        x.a = (const uint16_t *)(const void *)g->a + i * (g->ta ? 1 : g->lda);
        x.c = c_at + (size_t)(i * g->ldc) * element;
        x.add = add ? add + (size_t)(i * g->ldadd) * element : NULL;
        x.m = (int)(g->m - i < band ? g->m - i : band);
        x.fast_a = is_aligned(x.a, g->lda, sizeof(uint16_t), 8);
        x.pairs = is_aligned(x.c, g->ldc, element, 2);
        launch(c, t, &x, of->format);
    }
}
