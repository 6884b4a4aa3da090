/* Tensor cores: products of 16 x 16 x 16 by one warp, for each family of GPUs.
 *
 * What:    a tile of 16 rows and 16 columns of C in eight floats a lane, and fragments of 16 rows and 16 k-steps of an operand,
 *          read from shared memory. One source for three instructions; which one is used is the arithmetic (ops/tensor_core.h).
 * Flow:    shared memory -> tc_load() -> tc_multiply() -> tc_row(), tc_column(): where the floats of a lane are.
 *
 * An operand is in shared memory in one of two ways, in pieces of 16 bytes:
 *   by k      lines are its rows, 32 k-steps of 64 bytes: four pieces
 *   by rows   lines are k-steps, `rows` of the tile: rows / 8 pieces
 * A piece is moved within its line, so that neither the copies nor the loads of fragments have bank conflicts: piece p of line
 * n is at p ^ TC_TURN_K(n), or p ^ TC_TURN_ROWS(n).
 *
 *   sm_80 on   mma.m16n8k16, two for a tile      C: lane l has rows l / 4, and 8 more; columns 2 (l % 4), and 8 more: pairs
 *   sm_75      mma.m16n8k8, four: k ascending    the same
 *   sm_70      mma.m8n8k4, four: k ascending     quads 0 to 3 of lanes and of those 16 above have quarters of the tile
 *
 * ldmatrix transposes what is by rows; sm_70 has another form of mma instead. Registers are addressed by constants alone.
 */
#pragma once

#include "backend/cuda/device.h"

#define TC_FP16 0 /* enum rp_tc_format */
#define TC_BF16 1

#ifndef RP_SHIM
/* d = a * b + d, by all lanes of a warp together */
RP_DEVICE void rp_mma_m16n8k16(float *d, const uint32_t *a, const uint32_t *b, int format)
{
#if __CUDA_ARCH__ >= 800
    if (format == TC_BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
RP_DEVICE void rp_mma_m16n8k8(float *d, const uint32_t *a, const uint32_t *b, int format)
{
#if __CUDA_ARCH__ >= 750
    (void)format; /* fp16: what has bf16 has m16n8k16 */
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}
/* layout: 1: A comes by columns, 2: B comes by rows. A constant. */
#define TC_MMA_884(layouts)                                                                                            \
    asm volatile("mma.sync.aligned.m8n8k4." layouts ".f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, "            \
                 "{%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"                                                               \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]))
RP_DEVICE void rp_mma_m8n8k4(float *d, const uint32_t *a, const uint32_t *b, int layout)
{
#if __CUDA_ARCH__ == 700
    if (layout == 0)
        TC_MMA_884("row.col");
    else if (layout == 1)
        TC_MMA_884("col.col");
    else if (layout == 2)
        TC_MMA_884("row.row");
    else
        TC_MMA_884("col.row");
#endif
}
#if RP_ASYNC
/* An asynchronous copy of 16 bytes: the first `bytes` of them, an even number, and zeros. */
RP_DEVICE void rp_copy16_part_to(rp_smem to, int floats, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + 4 * (unsigned)floats), "l"(from), "r"(bytes)
                 : "memory");
}
#endif
/* Four matrices of 8 rows of 16 bytes: lanes 8j to 8j + 7 give the rows of matrix j. */
RP_DEVICE void rp_ldmatrix_x4(uint32_t *d, rp_smem from)
{
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
#endif
}
RP_DEVICE void rp_ldmatrix_x4_trans(uint32_t *d, rp_smem from)
{
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
#endif
}
#endif
