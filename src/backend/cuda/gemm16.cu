/* GEMM with tensor cores: a kernel for each tile of gemm16.def and both formats, and the sum over segments. */
#include "backend/cuda/gemm16.cuh"

#define GEMM16_KERNEL(kernel, format, rows, columns, down, across, a_by_k, b_by_k, from, before)                       \
    RP_KERNEL(kernel)                                                                                                  \
    {                                                                                                                  \
        const struct gemm16_shape s = {rows, columns, down, across, a_by_k, b_by_k, format, 0, 0};                     \
        if (__CUDA_ARCH__ >= 10 * (from) && __CUDA_ARCH__ < 10 * (before))                                             \
            gemm16_block(&a, &s, 0);                                                                                   \
        else                                                                                                           \
            RP_TRAP();                                                                                                 \
    }
#define TILE16(name, threads, blocks, rows, columns, down, across, a_by_k, b_by_k, from, before)                                         \
    GEMM16_KERNEL(gemm16_f16_##name, TC_FP16, rows, columns, down, across, a_by_k, b_by_k, from, before)                                 \
    GEMM16_KERNEL(gemm16_bf16_##name, TC_BF16, rows, columns, down, across, a_by_k, b_by_k, from < 80 ? 80 : from, before)
#include "backend/cuda/gemm16.def"
#undef TILE16

/* The balanced tree, as a binary counter: bit b of the number of segments before this one says whether level b has a
 * sum. */
#define GEMM16_LEVELS 12 /* segments are fewer than 2^12 */
RP_DEVICE float gemm16_count(float *level, int number, float x)
{
    int is_kept = 0;
    RP_UNROLL
    for (int b = 0; b < GEMM16_LEVELS; b++) {
        const int is_set = number >> b & 1;
        if (!is_kept && is_set)
            x = level[b] + x;
        if (!is_kept && !is_set)
            level[b] = x;
        is_kept |= !is_set;
    }
    return x;
}
/* What the counter has after `number` segments, smallest first. */
RP_DEVICE float gemm16_counted(const float *level, int number)
{
    float x = 0.0f;
    int has_some = 0;
    RP_UNROLL
    for (int b = 0; b < GEMM16_LEVELS; b++)
        if (number >> b & 1) {
            x = has_some ? level[b] + x : level[b];
            has_some = 1;
        }
    return x;
}

RP_DEVICE void gemm16_sum(const struct rp_gemm16_args *g, int format)
{
    const int across = (g->n + 1) / 2;
    const int64_t pairs = (int64_t)g->m * across, size = g->m * g->ldpart;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += (int64_t)gridDim.x * blockDim.x) {
        const int row = (int)(i / across), column = (int)(i % across) * 2;
        const float *part = g->part + row * g->ldpart + column;
        float level[2][GEMM16_LEVELS] = {{0.0f}}, x = 0.0f, y = 0.0f;
        for (int n = 0; n < g->segments; n++, part += size) {
            const float2 v = *(const float2 *)(const void *)part;
            if (g->in_tree) {
                gemm16_count(level[0], n, v.x);
                gemm16_count(level[1], n, v.y);
            } else {
                x = n ? x + v.x : v.x;
                y = n ? y + v.y : v.y;
            }
        }
        if (g->in_tree) {
            x = gemm16_counted(level[0], g->segments);
            y = gemm16_counted(level[1], g->segments);
        }
        gemm16_finish(g, row, column, x, y, format, GEMM16_MATRIX);
    }
}

RP_KERNEL(gemm16_sum_f16)
{
    gemm16_sum(&a, TC_FP16);
}

RP_KERNEL(gemm16_sum_bf16)
{
#if __CUDA_ARCH__ >= 800
    gemm16_sum(&a, TC_BF16);
#else
    (void)a;
    RP_TRAP();
#endif
}
