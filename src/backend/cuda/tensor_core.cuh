/* Tensor cores: products of 16 x 16 x 16 by one warp, for each family of GPUs.
 *
 * What:    a tile of 16 rows and 16 columns of C in eight floats a lane, and fragments of 16 rows and 16 k-steps of an
 *          operand, read from shared memory. One source for three instructions; which one is used is the arithmetic
 *          (ops/tensor_core.h).
 * Flow:    shared memory -> tc_load() -> tc_multiply() -> tc_row(), tc_column(): where the floats of a lane are.
 *
 * An operand is in shared memory in one of three ways, in pieces of 16 bytes:
 *   by k      lines are its rows, 32 k-steps of 64 bytes: four pieces
 *   by rows   lines are k-steps, `rows` of the tile: rows / 8 pieces
 *   by lines  lines are its rows, `rows` k-steps: what another product has by rows
 * A piece is moved within its line, so that neither the copies nor the loads of fragments have bank conflicts: piece p
 * of line n is at p ^ TC_TURN_K(n), or p ^ TC_TURN_ROWS(n).
 *
 *   sm_80 on   mma.m16n8k16, two for a tile      C: lane l has rows l / 4, and 8 more; columns 2 (l % 4), and 8 more:
 *                                                pairs
 *   sm_75      mma.m16n8k8, four: k ascending    the same
 *   sm_70      mma.m8n8k4, four: k ascending     quads 0 to 3 of lanes and of those 16 above have quarters of the tile
 *
 * ldmatrix transposes what is by rows; sm_70 has another form of mma instead. Registers are addressed by constants
 * alone.
 */
#pragma once

#ifndef RP_SHIM
#define RP_TENSOR_CORES /* before device.h: kernels16.def is wanted */
#endif
#include "backend/cuda/device.h"

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

#include "backend/cuda/stored.cuh"

/* ---- fragments and tiles ---- */

#ifndef TC_DEPTH
#define TC_DEPTH RP_GEMM16_DEPTH /* k-steps of an operand's tile in shared memory */
#endif
#define TC_PIECE 8               /* numbers of 16 bytes */
#define TC_BY_ROWS 0
#define TC_BY_K 1
#define TC_BY_LINES 2

#if __CUDA_ARCH__ >= 750
#define TC_FRAGMENT 4 /* registers of 16 rows and 16 k-steps */
#define TC_TURN_K(line) ((line) >> 1 & 3)
#define TC_TURN_ROWS(line) ((line)&7)
#else
#define TC_FRAGMENT 8
#define TC_TURN_K(line) (((line) >> 1 & 1) | ((line) >> 2 & 2))
#define TC_TURN_ROWS(line) (((line)&3) * 2)
#endif

/* Where piece `piece` of line `line` is, in floats from the tile's begin. rows: of the tile, or numbers of a line.
 * TC_SWIZZLED: as wgmma reads it with the swizzle of 128 bytes, in lines of 64 numbers: one below the other the pieces
 * 0 to 7 of all lines, then the pieces 8 to 15. */
RP_DEVICE int tc_place(int by_k, int rows, int line, int piece)
{
#ifdef TC_SWIZZLED
    return 4 * ((piece / 8 * TC_DEPTH + line) * 8 + (piece % 8 ^ line % 8));
#else
    return by_k == TC_BY_K ? 4 * (line * (TC_DEPTH / TC_PIECE) + (piece ^ TC_TURN_K(line)))
                           : 4 * (line * (rows / TC_PIECE) + (piece ^ TC_TURN_ROWS(line)));
#endif
}

RP_DEVICE int tc_limit(int x, int most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* Number by number, or 16 bytes at once. */
RP_DEVICE uint4 tc_gather(const uint16_t *from, int inside, int fast)
{
    uint32_t v[TC_PIECE / 2] = {0, 0, 0, 0};
    if (fast && inside == TC_PIECE)
        return *(const uint4 *)(const void *)from;
    RP_UNROLL
    for (int i = 0; i < TC_PIECE; i++)
        v[i / 2] |= i < inside ? (uint32_t)from[i] << 16 * (i % 2) : 0;
    return make_uint4(v[0], v[1], v[2], v[3]);
}

RP_DEVICE void tc_put(rp_smem tile, int place, uint4 v)
{
    *(uint4 *)(void *)rp_smem_at(tile, place) = v;
}

#if __CUDA_ARCH__ < 750
/* The row of the tile that a lane has of A, or its column of B: quads 0 to 3 have the quarters. */
RP_DEVICE int tc_quarter(int lane, int is_b)
{
    return is_b ? lane >> 3 & 1 : lane >> 2 & 1;
}
RP_DEVICE void tc_load_quads(uint32_t *f, rp_smem tile, int by_k, int rows, int row, int slice, int is_b)
{
    const int lane = (int)(threadIdx.x % RP_WARP), above = lane >> 4, quarter = tc_quarter(lane, is_b);
    RP_UNROLL
    for (int i = 0; by_k && i < 2; i++) {
        const int line = row + (lane & 3) + 4 * above + 8 * quarter;
        const uint4 v = *(const uint4 *)(const void *)rp_smem_at(tile, tc_place(by_k, rows, line, 2 * slice + i));
        f[4 * i] = v.x;
        f[4 * i + 1] = v.y;
        f[4 * i + 2] = v.z;
        f[4 * i + 3] = v.w;
    }
    RP_UNROLL
    for (int q = 0; !by_k && q < 4; q++) {
        const int line = 16 * slice + 4 * q + (lane & 3);
        const int place = tc_place(0, rows, line, row / TC_PIECE + quarter) + 2 * above;
        const uint2 v = *(const uint2 *)(const void *)rp_smem_at(tile, place);
        f[2 * q] = v.x;
        f[2 * q + 1] = v.y;
    }
}
#endif

/* The fragment of rows row to row + 15, a multiple of 16, and k-steps 16 * slice to 16 * slice + 15. Columns of B are
 * rows. */
RP_DEVICE void tc_load(uint32_t *f, rp_smem tile, int by_k, int rows, int row, int slice, int is_b)
{
#if __CUDA_ARCH__ >= 750
    const int lane = (int)(threadIdx.x % RP_WARP);
    (void)is_b;
    if (by_k)
        rp_ldmatrix_x4(f, RP_SMEM_AFTER(tile, tc_place(by_k, rows, row + (lane & 15), 2 * slice + (lane >> 4))));
    else
        rp_ldmatrix_x4_trans(f, RP_SMEM_AFTER(tile, tc_place(0, rows, 16 * slice + (lane & 7) + 8 * (lane >> 4),
                                                             row / TC_PIECE + (lane >> 3 & 1))));
#else
    tc_load_quads(f, tile, by_k, rows, row, slice, is_b);
#endif
}

/* c = a * b + c, 16 k-steps, in ascending order where the instruction takes fewer */
RP_DEVICE void tc_multiply(float *c, const uint32_t *a, const uint32_t *b, int a_by_k, int b_by_k, int format)
{
#if __CUDA_ARCH__ >= 800
    (void)a_by_k, (void)b_by_k;
    RP_UNROLL
    for (int half = 0; half < 2; half++) {
        const uint32_t columns[2] = {b[half], b[half + 2]};
        rp_mma_m16n8k16(c + 4 * half, a, columns, format);
    }
#elif __CUDA_ARCH__ >= 750
    (void)a_by_k, (void)b_by_k;
    RP_UNROLL
    for (int half = 0; half < 2; half++) {
        rp_mma_m16n8k8(c + 4 * half, a, b + half, format);
        rp_mma_m16n8k8(c + 4 * half, a + 2, b + half + 2, format);
    }
#else
    (void)format;
    RP_UNROLL
    for (int q = 0; q < 4; q++)
        rp_mma_m8n8k4(c, a + 2 * q, b + 2 * q, (a_by_k ? 0 : 1) | (b_by_k ? 0 : 2));
#endif
}

/* Row and first column of c[2 * pair] and c[2 * pair + 1] in a lane's tile, pair < 4. */
RP_DEVICE int tc_row(int pair)
{
    const int lane = (int)(threadIdx.x % RP_WARP);
#if __CUDA_ARCH__ >= 750
    return lane / 4 + 8 * (pair & 1);
#else
    return (lane & 1) + 2 * (pair & 1) + 4 * (lane >> 4) + 8 * tc_quarter(lane, 0);
#endif
}
RP_DEVICE int tc_column(int pair)
{
    const int lane = (int)(threadIdx.x % RP_WARP);
#if __CUDA_ARCH__ >= 750
    return 2 * (lane % 4) + 8 * (pair >> 1);
#else
    return (lane & 2) + 4 * (pair >> 1) + 8 * tc_quarter(lane, 1);
#endif
}
