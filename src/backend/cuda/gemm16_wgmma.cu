/* GEMM with tensor cores by wgmma, which takes both operands from shared memory and adds while its threads go on: a
 * kernel for each tile of gemm16_wgmma.def and both formats, for sm_90a alone.
 *
 * What:    the interface, the segments and the bits of gemm16.cu: every element of C is one chain of blocks of 16
 *          products, k ascending, because products on the same registers are added in the order of their issue.
 * Flow:    two warpgroups compute, a third one, the last, copies. Between them is a ring of WGMMA_STAGES stages of 64
 *          k-steps, in lines of 128 bytes, swizzled, with two mbarriers each:
 *
 *            copies:    wait for empty --asynchronous copies--> stage ... landed, fence of proxies --> arrive at full
 *            by maps:   one thread waits for empty, expects the bytes at full --boxes of 64 x 64 numbers--> stage
 *            products:  wait for full --> wgmma of the stage ... those of the stage before complete --> arrive at its
 *                       empty
 *
 * Between wgmma_fence() and wgmma_wait() nothing touches the sums, else ptxas waits after every instruction. Copies and
 * stores write shared memory as the generic proxy, wgmma reads it as the asynchronous one: a thread orders what it
 * wrote by proxy_fence(), then arrives. A thread that copies is WGMMA_AHEAD stages ahead of those that it has
 * announced.
 */
#define RP_WGMMA
#define TC_DEPTH RP_WGMMA_DEPTH
#define TC_SWIZZLED
#define WGMMA_COPIERS 128   /* threads that copy */
#define WGMMA_COMPUTERS 256 /* threads that compute, the first ones */
#define WGMMA_THREADS (WGMMA_COMPUTERS + WGMMA_COPIERS)
#define GEMM16_WRITERS(s) WGMMA_THREADS
#include "backend/cuda/gemm16.cuh"

#define WGMMA_STAGES RP_WGMMA_STAGES
#define WGMMA_UNIT RP_WGMMA_UNIT
#define WGMMA_SUMS 128      /* of a thread: 64 x 256 by 128 threads */
#define WGMMA_AHEAD 2

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

/* ---- the ring ---- */

/* A place in the ring: its stage, its mbarriers, and the parity of the phase of this round. Phases complete once a
 * round. */
struct wgmma_place {
    rp_smem stage, full, empty;
    int at;
    unsigned parity;
};

RP_DEVICE int wgmma_stage_floats(const struct gemm16_shape *s)
{
    return gemm16_floats(s->rows) + gemm16_floats(s->columns);
}

RP_DEVICE struct wgmma_place wgmma_first(const struct gemm16_shape *s)
{
    struct wgmma_place p;
    p.stage = (rp_smem_of(RP_SHARED(float)) + WGMMA_UNIT - 1) / WGMMA_UNIT * WGMMA_UNIT;
    p.full = RP_SMEM_AFTER(p.stage, WGMMA_STAGES * wgmma_stage_floats(s));
    p.empty = p.full + WGMMA_STAGES * 8;
    p.at = 0;
    p.parity = 0;
    return p;
}

RP_DEVICE void wgmma_advance(struct wgmma_place *p, const struct gemm16_shape *s)
{
    const int is_last = p->at == WGMMA_STAGES - 1, back = is_last ? WGMMA_STAGES : 0;
    p->stage += 4 * (unsigned)wgmma_stage_floats(s) - 4 * (unsigned)(back * wgmma_stage_floats(s));
    p->full += 8 - 8 * (unsigned)back;
    p->empty += 8 - 8 * (unsigned)back;
    p->at += 1 - back;
    p->parity ^= (unsigned)is_last;
}

RP_DEVICE void mbarrier_init(rp_smem barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
RP_DEVICE void mbarrier_expect(rp_smem barrier, int bytes) /* and arrives */
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
RP_DEVICE void mbarrier_arrive(rp_smem barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* Until the phase of that parity is complete. A barrier is in phase 0: the one before it, of parity 1, is complete. */
RP_DEVICE void mbarrier_wait(rp_smem barrier, unsigned parity)
{
    unsigned is_complete;
    do {
        asm volatile("{\n"
                     ".reg .pred complete;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, complete;\n"
                     "}"
                     : "=r"(is_complete)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!is_complete);
}

/* Full counts the threads that copy, empty the warps that compute. */
RP_DEVICE void wgmma_begin_ring(const struct gemm16_shape *s, int copiers)
{
    struct wgmma_place p = wgmma_first(s);
    if (threadIdx.x == 0) {
        RP_UNROLL
        for (int i = 0; i < WGMMA_STAGES; i++) {
            mbarrier_init(p.full + 8 * (unsigned)i, copiers);
            mbarrier_init(p.empty + 8 * (unsigned)i, WGMMA_COMPUTERS / RP_WARP);
        }
        proxy_fence(); /* copies by tensor maps complete them */
    }
    __syncthreads();
}

/* ---- products ---- */

/* Keeps the compiler from moving what touches the sums over this point. */
RP_DEVICE void wgmma_hold(float *sum)
{
    RP_UNROLL
    for (int i = 0; i < WGMMA_SUMS; i++)
        asm volatile("" : "+f"(sum[i])::"memory");
}

#define WGMMA_8(d, i)                                                                                                  \
    "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3]), "+f"((d)[i + 4]), "+f"((d)[i + 5]),            \
        "+f"((d)[i + 6]), "+f"((d)[i + 7])
#define WGMMA_64(d, i)                                                                                                 \
    WGMMA_8(d, i), WGMMA_8(d, i + 8), WGMMA_8(d, i + 16), WGMMA_8(d, i + 24), WGMMA_8(d, i + 32), WGMMA_8(d, i + 40),  \
        WGMMA_8(d, i + 48), WGMMA_8(d, i + 56)
/* transposed: whether A and B come by rows */
#define WGMMA_AS(d, a, b, type, transposed)                                                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " "                                      \
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"             \
                 "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"            \
                 "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,"            \
                 "%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"            \
                 "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"               \
                 "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,"               \
                 "%126,%127}, %128, %129, 1, 1, 1, " transposed ";"                                                    \
                 : WGMMA_64(d, 0), WGMMA_64(d, 64)                                                                     \
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
/* d += 64 rows of A times 256 columns of B, 16 k-steps, by a warpgroup */
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
    uint64_t a = wgmma_operand(stage + (unsigned)group * 64 * TC_DEPTH * 2);
    uint64_t b = wgmma_operand(RP_SMEM_AFTER(stage, gemm16_floats(s->rows)));
    wgmma_fence();
    RP_UNROLL
    for (int i = 0; i < TC_DEPTH / 16; i++) {
        wgmma_multiply(sum, a, b, s);
        a = wgmma_next(a, s->a_by_k);
        b = wgmma_next(b, s->b_by_k);
    }
    wgmma_commit();
}

/* ---- the two parts of a block ---- */

/* One operand of a tile: where the thread begins to copy it. */
RP_DEVICE void wgmma_begin(struct gemm16_side *x, const uint16_t *from, int64_t pitch, int by_k, int tile_rows, int row0, int rows, int k0,
                           int fast)
{
    const int lines = WGMMA_COMPUTERS / (by_k ? TC_DEPTH / TC_PIECE : tile_rows / TC_PIECE); /* of the threads before */
    gemm16_begin(x, from, pitch, by_k, tile_rows, WGMMA_COPIERS, row0, rows, k0, fast);
    x->line -= lines;
    x->from -= lines * pitch;
}

RP_DEVICE void wgmma_copy(const struct rp_gemm16_args *g, const struct gemm16_shape *s, int row, int column, int k0, int steps)
{
    const int stages = (steps + TC_DEPTH - 1) / TC_DEPTH;
    struct wgmma_place to = wgmma_first(s), landed = to;
    struct gemm16_side a, b;
    wgmma_begin(&a, g->a, g->lda, s->a_by_k, s->rows, row, g->m, k0, g->fast_a);
    wgmma_begin(&b, g->b, g->ldb, s->b_by_k, s->columns, column, g->n, k0, g->fast_b);
    RP_NO_UNROLL
    for (int n = 0; n < stages + WGMMA_AHEAD; n++) {
        if (n < stages) {
            mbarrier_wait(to.empty, to.parity ^ 1);
            gemm16_copy(&a, NULL, to.stage, s->a_by_k, 0, s->rows, WGMMA_COPIERS, steps - n * TC_DEPTH);
            gemm16_copy(&b, NULL, RP_SMEM_AFTER(to.stage, gemm16_floats(s->rows)), s->b_by_k, 0, s->columns, WGMMA_COPIERS,
                        steps - n * TC_DEPTH);
            wgmma_advance(&to, s);
        }
        rp_copy_commit();
        if (n >= WGMMA_AHEAD) {
            rp_copy_wait(WGMMA_AHEAD);
            proxy_fence();
            mbarrier_arrive(landed.full);
            wgmma_advance(&landed, s);
        }
    }
}

/* A box of a matrix: its first number in a line, and its first line. */
RP_DEVICE void wgmma_copy_box(rp_smem to, const struct rp_tensor_map *map, int number, int line, rp_smem barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map),
                 "r"(number), "r"(line), "r"(barrier)
                 : "memory");
}
RP_DEVICE void wgmma_copy_boxes(rp_smem to, const struct rp_tensor_map *map, int by_k, int rows, int row, int k, rp_smem barrier)
{
    RP_UNROLL
    for (int i = 0; i < rows; i += RP_WGMMA_BOX)
        wgmma_copy_box(to + (unsigned)i * TC_DEPTH * 2, map, by_k ? k : row + i, by_k ? row + i : k, barrier);
}

RP_DEVICE void wgmma_copy_by_map(const struct rp_gemm16_wgmma_args *x, const struct gemm16_shape *s, int row, int column, int k0, int steps)
{
    struct wgmma_place to = wgmma_first(s);
    RP_NO_UNROLL
    for (int n = 0; n < steps; n += TC_DEPTH) {
        mbarrier_wait(to.empty, to.parity ^ 1);
        mbarrier_expect(to.full, 4 * wgmma_stage_floats(s));
        wgmma_copy_boxes(to.stage, &x->a, s->a_by_k, s->rows, row, k0 + n, to.full);
        wgmma_copy_boxes(RP_SMEM_AFTER(to.stage, gemm16_floats(s->rows)), &x->b, s->b_by_k, s->columns, column, k0 + n, to.full);
        wgmma_advance(&to, s);
    }
}

RP_DEVICE void wgmma_chains(float *sum, const struct gemm16_shape *s, int steps)
{
    const int stages = (steps + TC_DEPTH - 1) / TC_DEPTH;
    struct wgmma_place p = wgmma_first(s);
    rp_smem before = 0;
    RP_NO_UNROLL
    for (int n = 0; n < stages; n++) {
        mbarrier_wait(p.full, p.parity);
        wgmma_stage(sum, p.stage, s);
        wgmma_wait(1);
        if (n > 0 && threadIdx.x % RP_WARP == 0)
            mbarrier_arrive(before); /* the products of the stage before are complete */
        before = p.empty;
        wgmma_advance(&p, s);
    }
    wgmma_wait(0);
    wgmma_hold(sum);
}

RP_DEVICE void wgmma_clear(float *sum)
{
    RP_UNROLL
    for (int i = 0; i < WGMMA_SUMS; i++)
        sum[i] = 0.0f;
    wgmma_hold(sum);
}

RP_DEVICE void wgmma_block(const struct rp_gemm16_wgmma_args *x, const struct gemm16_shape *s)
{
    const struct rp_gemm16_args *const g = &x->g;
    const int k0 = (int)blockIdx.y * g->length, steps = g->k - k0 < g->length ? g->k - k0 : g->length;
    float sum[WGMMA_SUMS];
    int row, column;
    gemm16_tile(&row, &column, g, s);
    wgmma_begin_ring(s, x->by_map ? 1 : WGMMA_COPIERS);
    if (threadIdx.x >= WGMMA_COMPUTERS) {
        if (!x->by_map)
            wgmma_copy(g, s, row, column, k0, steps);
        else if (threadIdx.x == WGMMA_COMPUTERS)
            wgmma_copy_by_map(x, s, row, column, k0, steps);
        wgmma_clear(sum);
    } else {
        wgmma_clear(sum);
        wgmma_chains(sum, s, steps);
    }
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
