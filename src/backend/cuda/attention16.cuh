/* Attention with tensor cores, in mixed precision: tiles of 64 keys, as NUMERICS.md has them.
 *
 * What:    what both passes share: copies of tiles, products, and scores in registers. A block has 64 queries or keys
 *          of a head and four warps, each with 16 of those rows; `width`, a constant, is 64 or 128 columns, of which a
 *          head may have fewer. attention16_forward.cuh has the outputs of 64 queries, attention16_backward.cuh dq of
 *          64 queries, or dk and dv of 64 keys.
 * Flow:    every matrix lies in shared memory line by line, as in global memory, for both products that it takes part
 *          in (TC_BY_LINES, TC_BY_ROWS). Scores stay in registers: what a lane has of them is, rounded, its fragment of
 *          the product after.
 *
 *   lane l of a warp, of 16 rows and 16 columns: rows l / 4 and 8 more; columns 2 (l % 4) and the next, and 8 more
 *
 * That is how sm_75 and later have sums (tc_row(), tc_column()), and the lanes of the contract's four partial sums of a
 * row: column i belongs to sum i % 8 / 2. sm_70 has them elsewhere: there they pass through shared memory (`around`).
 *
 * Chains: a score is one over the head's columns, an output or a gradient one over keys or queries in ascending order.
 * A tile without any attended key changes nothing, so what is masked as a whole may be left out.
 */
#pragma once

#include "backend/cuda/tensor_core.cuh"
#include "ops/functions.h"
#include "ops/philox.h"

#define ATT16_TILES (RP_ATT16_LINES / 16) /* of 16 keys, in a tile of keys */
#define ATT16_MOST (128 / 16)             /* tiles of 16 columns in a head */
#define ATT16_STAGES (RP_ASYNC ? RP_ATT16_STAGES_ASYNC : 1)

/* Of the sample and head of a block. */
struct att16_head {
    const uint8_t *keys;  /* [seq], 1 = attend; NULL: all */
    const int32_t *first; /* [seq]: first key of each query; NULL: 0 */
    int64_t row;          /* its first row of row_max, row_inv, mask */
    int sample, head, block, seq, causal;
};

RP_DEVICE int att16_lane(void)
{
    return (int)(threadIdx.x % RP_WARP);
}
RP_DEVICE int att16_warp(void)
{
    return (int)(threadIdx.x / RP_WARP);
}

/* number: of a block, `blocks` of them a head. */
RP_DEVICE struct att16_head att16_head_of(int number, int blocks, const uint8_t *keys, const int32_t *first, int seq, int heads, int causal)
{
    const int all = number / blocks;
    struct att16_head h;
    h.sample = all / heads;
    h.head = all % heads;
    h.block = number % blocks;
    h.row = (int64_t)all * seq;
    h.keys = keys ? keys + (int64_t)h.sample * seq : 0;
    h.first = first ? first + (int64_t)h.sample * seq : 0;
    h.seq = seq;
    h.causal = causal;
    return h;
}

/* ---- tiles in shared memory ---- */

/* `lines` lines of `width` numbers. from: the first one's; inside: lines of the tensor from there on; dim: columns of a
 * head. */
RP_DEVICE void att16_copy(rp_smem tile, const uint16_t *from, int64_t pitch, int inside, int dim, int fast, const int lines, const int width)
{
    const int pieces = width / TC_PIECE;
#if RP_ASYNC
    RP_UNROLL
#else
    RP_UNROLL_BY(2) /* each takes four registers until it is stored */
#endif
    for (int i = 0; i < lines * pieces / RP_ATT16_THREADS; i++) {
        const int n = (int)threadIdx.x + i * RP_ATT16_THREADS, line = n / pieces, piece = n % pieces;
        const int numbers = line < inside ? tc_limit(dim - TC_PIECE * piece, TC_PIECE) : 0;
        const uint16_t *const at = numbers ? from + line * pitch + TC_PIECE * piece : from;
        const int place = tc_place(TC_BY_LINES, width, line, piece);
#if RP_ASYNC
        if (fast) {
            rp_copy16_part_to(tile, place, at, 2 * numbers);
            continue;
        }
#endif
        tc_put(tile, place, tc_gather(at, numbers, fast));
    }
}

RP_DEVICE int att16_floats(int lines, int width)
{
    return lines * width / 2;
}

/* sum[i] (16 x 16) += 16 lines of a, from `row` on, times lines of b, 16 i + `column` on, over all columns. */
RP_DEVICE void att16_dots(float *sum, rp_smem a, int row, rp_smem b, int column, const int tiles, const int width, const int format)
{
    RP_UNROLL
    for (int i = 0; i < 8 * tiles; i++)
        sum[i] = 0.0f;
    RP_UNROLL
    for (int slice = 0; slice < width / 16; slice++) {
        uint32_t fa[TC_FRAGMENT], fb[TC_FRAGMENT];
        tc_load(fa, a, TC_BY_LINES, width, row, slice, 0);
        RP_UNROLL
        for (int i = 0; i < tiles; i++) {
            tc_load(fb, b, TC_BY_LINES, width, column + 16 * i, slice, 1);
            tc_multiply(sum + 8 * i, fa, fb, 1, 1, format);
        }
    }
}

/* sum[d] (16 x 16, columns 16 d on) += a times lines 16 * slice on of b. */
RP_DEVICE void att16_add(float *sum, const uint32_t *a, rp_smem b, int slice, const int width, const int format)
{
    RP_UNROLL
    for (int d = 0; d < width / 16; d++) {
        uint32_t fb[TC_FRAGMENT];
        tc_load(fb, b, TC_BY_ROWS, width, 16 * d, slice, 1);
        tc_multiply(sum + 8 * d, a, fb, 1, 0, format);
    }
}

/* ---- scores in registers ---- */

RP_DEVICE int att16_row(int pair)
{
    return att16_lane() / 4 + 8 * (pair & 1);
}
RP_DEVICE int att16_column(int pair)
{
    return 2 * (att16_lane() % 4) + 8 * (pair >> 1);
}

/* A warp's room in shared memory on sm_70: 16 lines of 20 floats. */
#define ATT16_AROUND_PITCH 20

/* A tile of 16 x 16 from where tc_multiply() has it to att16_row(), att16_column(). */
RP_DEVICE void att16_spread(float *x, float *around)
{
#if __CUDA_ARCH__ >= 750
    (void)x, (void)around;
#else
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++)
        *(float2 *)(void *)(around + tc_row(pair) * ATT16_AROUND_PITCH + tc_column(pair)) = make_float2(x[2 * pair], x[2 * pair + 1]);
    __syncwarp();
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++) {
        const float2 v = *(const float2 *)(const void *)(around + att16_row(pair) * ATT16_AROUND_PITCH + att16_column(pair));
        x[2 * pair] = v.x;
        x[2 * pair + 1] = v.y;
    }
    __syncwarp();
#endif
}

/* Such a tile, rounded, as the rows of a product: by k. */
RP_DEVICE void att16_pack(uint32_t *f, const float *x, float *around, const int format)
{
#if __CUDA_ARCH__ >= 750
    (void)around;
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++)
        f[pair] = tc_round(x[2 * pair + 1], format) << 16 | tc_round(x[2 * pair], format);
#else
    const int lane = att16_lane(), line = (lane & 3) + 4 * (lane >> 4) + 8 * tc_quarter(lane, 0);
    RP_UNROLL
    for (int pair = 0; pair < 4; pair++)
        ((uint32_t *)(void *)(around + att16_row(pair) * ATT16_AROUND_PITCH))[att16_column(pair) / 2] =
            tc_round(x[2 * pair + 1], format) << 16 | tc_round(x[2 * pair], format);
    __syncwarp();
    RP_UNROLL
    for (int i = 0; i < 2; i++) {
        const uint4 v = *(const uint4 *)(const void *)(around + line * ATT16_AROUND_PITCH + 4 * i);
        f[4 * i] = v.x;
        f[4 * i + 1] = v.y;
        f[4 * i + 2] = v.z;
        f[4 * i + 3] = v.w;
    }
    __syncwarp();
#endif
}

/* of[0], of[1]: a number of row l / 4 and of the row 8 below. to[0], to[1]: the same of the rows of sums in tc_row(0),
 * tc_row(1). */
RP_DEVICE void att16_rows(float *to, const float *of)
{
#if __CUDA_ARCH__ >= 750
    to[0] = of[0];
    to[1] = of[1];
#else
    float first = of[0], second = of[1];
    RP_UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = tc_row(i);
        const float x = __shfl_sync(RP_ALL_LANES, first, 4 * (row & 7)), y = __shfl_sync(RP_ALL_LANES, second, 4 * (row & 7));
        to[i] = row < 8 ? x : y;
    }
#endif
}

/* 16 rows of a result from `row` on, of which `inside` exist, times factor[pair & 1]; pairs: two numbers are
 * aligned. */
RP_DEVICE void att16_store(uint16_t *to, int64_t pitch, int inside, int dim, int pairs, const float *sum, const float *factor, const int width,
                           const int format)
{
    RP_UNROLL
    for (int d = 0; d < width / 16; d++)
        RP_UNROLL
        for (int pair = 0; pair < 4; pair++) {
            const int row = tc_row(pair), column = 16 * d + tc_column(pair);
            const float *const x = sum + 8 * d + 2 * pair;
            uint16_t *const at = to + row * pitch + column;
            const uint32_t low = tc_round(x[0] * factor[pair & 1], format), high = tc_round(x[1] * factor[pair & 1], format);
            if (row >= inside || column >= dim)
                continue;
            if (pairs) {
                *(uint32_t *)(void *)at = high << 16 | low;
            } else {
                at[0] = (uint16_t)low;
                if (column + 1 < dim)
                    at[1] = (uint16_t)high;
            }
        }
}

/* Bits from .. to - 1 of a word; from and to may be outside of it. */
RP_DEVICE uint32_t att16_bits(int from, int to)
{
    const int low = tc_limit(from, 32), high = tc_limit(to, 32);
    return (high == 32 ? 0xffffffffu : (1u << high) - 1) & (low == 32 ? 0u : 0xffffffffu << low);
}
