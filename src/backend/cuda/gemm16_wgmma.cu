/* GEMM with tensor cores by wgmma, which takes both operands from shared memory and adds while its threads go on: a
 * kernel for each tile of gemm16_wgmma.def and both formats, for sm_90a alone.
 *
 * What:    the interface, the segments and the bits of gemm16.cu: every element of C is one chain of blocks of 16
 *          products, k ascending, because products on the same registers are added in the order of their issue.
 * Flow:    global --asynchronous copies--> shared: WGMMA_STAGES stages of 64 k-steps, in lines of 128 bytes, swizzled
 *          --> fence of proxies, barrier --> wgmma of a stage, while the one after the next is copied --> sums.
 *
 * Between wgmma_fence() and wgmma_wait() nothing touches the sums, else ptxas waits after every instruction. Copies and
 * stores write shared memory as the generic proxy, wgmma reads it as the asynchronous one: a thread orders what it wrote
 * by proxy_fence(), then the barrier orders the threads. A stage is overwritten after the barrier behind the wait for
 * the products that read it.
 */
#define RP_WGMMA
#define TC_DEPTH RP_WGMMA_DEPTH
#define TC_SWIZZLED
#include "backend/cuda/gemm16.cuh"

#define WGMMA_STAGES RP_WGMMA_STAGES
#define WGMMA_UNIT RP_WGMMA_UNIT
#define WGMMA_SUMS 64 /* of a thread: 64 x 128 by 128 threads */

RP_DEVICE void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
RP_DEVICE void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until all but the newest n groups are complete. n: a constant */
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
RP_DEVICE void proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Keeps the compiler from moving what touches the sums over this point. */
RP_DEVICE void wgmma_hold(float *sum)
{
    RP_UNROLL
    for (int i = 0; i < WGMMA_SUMS; i++)
        asm volatile("" : "+f"(sum[i])::"memory");
}

#define WGMMA_8(d, i)                                                                                                  \
    "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3]), "+f"((d)[i + 4]), "+f"((d)[i + 5]),             \
        "+f"((d)[i + 6]), "+f"((d)[i + 7])
/* transposed: whether A and B come by rows */
#define WGMMA_AS(d, a, b, type, transposed)                                                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " "                                      \
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
                 "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,"    \
                 "%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, " transposed ";"            \
                 : WGMMA_8(d, 0), WGMMA_8(d, 8), WGMMA_8(d, 16), WGMMA_8(d, 24), WGMMA_8(d, 32), WGMMA_8(d, 40),       \
                   WGMMA_8(d, 48), WGMMA_8(d, 56)                                                                      \
                 : "l"(a), "l"(b)                                                                                      \
                 : "memory")
#define WGMMA_OF(d, a, b, type, a_by_k, b_by_k)                                                                        \
    do {                                                                                                               \
        if (a_by_k && b_by_k)                                                                                          \
            WGMMA_AS(d, a, b, type, "0, 0");                                                                           \
        else if (a_by_k)                                                                                               \
            WGMMA_AS(d, a, b, type, "0, 1");                                                                           \
        else if (b_by_k)                                                                                               \
            WGMMA_AS(d, a, b, type, "1, 0");                                                                           \
        else                                                                                                           \
            WGMMA_AS(d, a, b, type, "1, 1");                                                                           \
    } while (0)
/* d += 64 rows of A times 128 columns of B, 16 k-steps, by a warpgroup */
RP_DEVICE void wgmma_multiply(float *d, uint64_t a, uint64_t b, const struct gemm16_shape *s)
{
    if (s->format == TC_BF16)
        WGMMA_OF(d, a, b, "bf16", s->a_by_k, s->b_by_k);
    else
        WGMMA_OF(d, a, b, "f16", s->a_by_k, s->b_by_k);
}

/* What wgmma takes for an operand: where it begins, in units of 16 bytes. Eight lines are 1,024 bytes; by rows the next
 * 64 rows come after 64 lines. Swizzled by 128 bytes. */
#define WGMMA_EIGHT_LINES ((uint64_t)(WGMMA_UNIT / 16) << 32)
#define WGMMA_NEXT_ROWS ((uint64_t)(TC_DEPTH * 128 / 16) << 16)
#define WGMMA_SWIZZLE_128 ((uint64_t)1 << 62)
RP_DEVICE uint64_t wgmma_operand(rp_smem at)
{
    return WGMMA_SWIZZLE_128 | WGMMA_EIGHT_LINES | WGMMA_NEXT_ROWS | (at & 0x3ffff) >> 4;
}
/* 16 k-steps further: within the lines, or 16 lines. */
RP_DEVICE uint64_t wgmma_next(uint64_t operand, int by_k)
{
    return operand + (by_k ? 32 : 16 * 128) / 16;
}

/* The products of a stage, as one group. */
RP_DEVICE void wgmma_stage(float *sum, rp_smem stage, const struct gemm16_shape *s)
{
    const int group = (int)threadIdx.x / 128;
    uint64_t a = wgmma_operand(stage + (unsigned)group * 64 * TC_DEPTH * 2), b = wgmma_operand(RP_SMEM_AFTER(stage, gemm16_floats(s->rows)));
    wgmma_fence();
    RP_UNROLL
    for (int i = 0; i < TC_DEPTH / 16; i++) {
        wgmma_multiply(sum, a, b, s);
        a = wgmma_next(a, s->a_by_k);
        b = wgmma_next(b, s->b_by_k);
    }
    wgmma_commit();
}

/* `steps` k-steps. Stage n is in place n % WGMMA_STAGES; the copies are WGMMA_STAGES - 2 stages ahead. */
RP_DEVICE void wgmma_chains(float *sum, struct gemm16_side *a, struct gemm16_side *b, const struct gemm16_shape *s, int steps)
{
    const int size = gemm16_floats(s->rows) + gemm16_floats(s->columns), stages = (steps + TC_DEPTH - 1) / TC_DEPTH;
    rp_smem const shared = (rp_smem_of(RP_SHARED(float)) + WGMMA_UNIT - 1) / WGMMA_UNIT * WGMMA_UNIT;
    int to = 0, at = 0;
    RP_NO_UNROLL
    for (int n = 0; n < WGMMA_STAGES - 2; n++) {
        if (n < stages)
            gemm16_copy_both(a, b, NULL, RP_SMEM_AFTER(shared, to), s, steps - n * TC_DEPTH);
        rp_copy_commit();
        to += size;
    }
    wgmma_hold(sum);
    RP_NO_UNROLL
    for (int n = 0; n < stages; n++) {
        rp_copy_wait(WGMMA_STAGES - 3);
        proxy_fence();
        __syncthreads(); /* stage n is complete, and the one before the last has been read */
        wgmma_stage(sum, RP_SMEM_AFTER(shared, at), s);
        if (n + WGMMA_STAGES - 2 < stages)
            gemm16_copy_both(a, b, NULL, RP_SMEM_AFTER(shared, to), s, steps - (n + WGMMA_STAGES - 2) * TC_DEPTH);
        rp_copy_commit();
        wgmma_wait(1);
        to = to == (WGMMA_STAGES - 1) * size ? 0 : to + size;
        at = at == (WGMMA_STAGES - 1) * size ? 0 : at + size;
    }
    wgmma_wait(0);
    wgmma_hold(sum);
}

RP_DEVICE void wgmma_block(const struct rp_gemm16_args *g, const struct gemm16_shape *s)
{
    const int k0 = (int)blockIdx.y * g->length, steps = g->k - k0 < g->length ? g->k - k0 : g->length;
    float sum[WGMMA_SUMS];
    struct gemm16_side a, b;
    int row, column;
    gemm16_tile(&row, &column, g, s);
    RP_UNROLL
    for (int i = 0; i < WGMMA_SUMS; i++)
        sum[i] = 0.0f;
    gemm16_begin(&a, g->a, g->lda, s->a_by_k, s->rows, gemm16_threads(s), row, g->m, k0, g->fast_a);
    gemm16_begin(&b, g->b, g->ldb, s->b_by_k, s->columns, gemm16_threads(s), column, g->n, k0, g->fast_b);
    wgmma_chains(sum, &a, &b, s, steps);
    gemm16_epilogue(g, NULL, sum, s, row, column);
}

/* A warp has 16 rows and all columns: the sums of wgmma are those of 16 x 16 tiles side by side. */
#define WGMMA_KERNEL(kernel, format, rows, columns, a_by_k, b_by_k)                                                    \
    RP_KERNEL(kernel)                                                                                                  \
    {                                                                                                                  \
        const struct gemm16_shape s = {rows, columns, rows / 16, 1, a_by_k, b_by_k, format, 0, 0};                     \
        wgmma_block(&a, &s);                                                                                           \
    }
#define WGMMA16(name, threads, blocks, rows, columns, a_by_k, b_by_k)                                                  \
    WGMMA_KERNEL(gemm16_f16_##name, TC_FP16, rows, columns, a_by_k, b_by_k)                                            \
    WGMMA_KERNEL(gemm16_bf16_##name, TC_BF16, rows, columns, a_by_k, b_by_k)
#include "backend/cuda/gemm16_wgmma.def"
