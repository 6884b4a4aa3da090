/* GEMM: a kernel for each tile of gemm.def, and the sum over the segments of a parallel split-K. */
#include "backend/cuda/gemm.cuh"

RP_DEVICE void gemm_begin_both(struct gemm_side *a, struct gemm_side *b, const struct rp_gemm_args *g,
                               const struct gemm_shape *s, const struct gemm_out *o, int k0)
{
    gemm_begin(a, g->a, g->lda, !g->ta, s->rows, gemm_threads(s), s->how_a, o->row0, g->m, k0);
    gemm_begin(b, g->b, g->ldb, g->tb, s->columns, gemm_threads(s), s->how_b, o->column0, g->n, k0);
}

#define GEMM_ARGS rp_gemm_args
#define GEMM_OF(args) (args)
#define GEMM_BEGIN(a, b, args, s, o, k0, from, stages) gemm_begin_both(a, b, args, s, o, k0)
#define GEMM_FRONT RP_GEMM_FRONT
#define GEMM_ADDS 1
#define GEMM_WIDE(args, s) ((args)->wide)
#include "backend/cuda/gemm_block.cuh"

#define TILE(name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b, from, before, rate)            \
    RP_KERNEL(gemm_##name)                                                                                                                 \
    {                                                                                                                                      \
        const struct gemm_shape s = {blocks, rows, columns, thread_rows, thread_columns, down, across, RP_GEMM_##how_a, RP_GEMM_##how_b};  \
        if (__CUDA_ARCH__ >= 10 * from && __CUDA_ARCH__ < 10 * before)                                                                     \
            gemm_block(&a, &s);                                                                                                            \
        else                                                                                                                               \
            RP_TRAP();                                                                                                                     \
    }
#include "backend/cuda/gemm.def"
#undef TILE

/* c = ((part 0 + part 1) + part 2) + ... + bias + add, `width` floats a thread */
RP_DEVICE void gemm_sum(const struct rp_gemm_args *g, int width)
{
    const unsigned across = (unsigned)(g->n / width), count = (unsigned)g->m * across;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int row = (int)(i / across), column = (int)(i % across) * width;
        const float *part = g->part + row * g->ldpart + column;
        float x[4];
        gemm_get(x, part, width);
        for (int segment = 1; segment < g->segments; segment++)
            gemm_add(x, part += g->m * g->ldpart, width);
        if (g->bias)
            gemm_add(x, g->bias + column, width);
        if (g->add)
            gemm_add(x, g->add + row * g->ldadd + column, width);
        gemm_set(g->c + row * g->ldc + column, x, width);
    }
}

RP_KERNEL(gemm_sum)
{
    if (a.wide)
        gemm_sum(&a, 4);
    else
        gemm_sum(&a, 1);
}
