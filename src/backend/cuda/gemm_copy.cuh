/* The operands of one tile of a GEMM: from global to shared memory, see gemm.cuh. */
#pragma once

#include "backend/cuda/device.h"

#define DEPTH RP_GEMM_DEPTH(RP_ASYNC)
#define STAGES RP_GEMM_STAGES(RP_ASYNC)
#define BAND RP_GEMM_BAND(RP_ASYNC)
#define HALVES (DEPTH / 8) /* copies of 8 k-steps in a row of a tile */
#define MOST 16            /* rows or columns of a thread */
#ifdef RP_SHIM
#define TURNING 0          /* a C compiler vectorises this order; the bits are the same */
#else
#define TURNING 1
#endif

struct gemm_shape {
    int blocks, rows, columns, thread_rows, thread_columns, warps_down, warps_across;
    enum rp_gemm_how how_a, how_b;
};

RP_DEVICE int gemm_threads(const struct gemm_shape *s)
{
    return 32 * s->warps_down * s->warps_across;
}
RP_DEVICE int gemm_lanes_down(const struct gemm_shape *s)
{
    return s->rows / (s->warps_down * s->thread_rows);
}
RP_DEVICE int gemm_lanes_across(const struct gemm_shape *s)
{
    return s->columns / (s->warps_across * s->thread_columns);
}

/* ---- an operand ---- */

/* The copies of this thread for one operand: some passes over a tile, each of which covers whole rows of it or whole
 * k-steps. Distances between elements of the matrix are in bytes, those within a stage in floats. */
struct gemm_side {
    const float *base;    /* of the matrix */
    const char *from;     /* the thread's first element of the tile to be copied next */
    int64_t pass, tile;   /* from there to that of the next pass, and of the next tile */
    int to, to_pass;      /* its place in a stage */
    int k, k_pass;        /* its k-step within the tile */
    int row, row_pass;    /* its row in the matrix, which has `rows`: checked for ANY */
    int rows;
    /* R, 192 rows: two passes cover 128, then one the last 64: from the first element to the one there */
    int64_t odd;
    int odd_to, odd_k;
};

/* Rows that one pass of 16-byte copies covers: a power of two. */
RP_DEVICE int gemm_wide(int tile_rows)
{
    return tile_rows == 192 ? 128 : tile_rows;
}
RP_DEVICE int gemm_copies(int tile_rows, int threads, enum rp_gemm_how how)
{
    return tile_rows * DEPTH / threads / (how == RP_GEMM_R ? 4 : 1);
}
RP_DEVICE int gemm_is_odd(int i, int tile_rows, int threads, enum rp_gemm_how how)
{
    return how == RP_GEMM_R && i >= gemm_wide(tile_rows) * DEPTH / threads / 4;
}

/* A pass of K is HALVES copies. */
RP_DEVICE int gemm_pass(int i, enum rp_gemm_how how)
{
    return how == RP_GEMM_K ? i / HALVES : i;
}
RP_DEVICE int gemm_half(int i, enum rp_gemm_how how)
{
    return how == RP_GEMM_K ? i % HALVES * 8 : 0;
}
/* The offset of copy i from `to` (or odd_to): constant except for ANY. */
RP_DEVICE int gemm_place(const struct gemm_side *x, int i, int tile_rows, int threads, enum rp_gemm_how how)
{
    return gemm_is_odd(i, tile_rows, threads, how) ? 0 : gemm_pass(i, how) * x->to_pass + gemm_half(i, how) * (tile_rows + RP_GEMM_PAD);
}

/* Of the tile with first row `row` and first k-step k0. A row of the matrix is contiguous in k if by_k. */
RP_DEVICE void gemm_begin(struct gemm_side *x, const float *base, int64_t pitch, int by_k, int tile_rows, int threads, enum rp_gemm_how how,
                          int row, int rows, int k0)
{
    const int t = (int)threadIdx.x, vectors = how == RP_GEMM_R ? gemm_wide(tile_rows) / 4 : tile_rows, room = tile_rows + RP_GEMM_PAD;
    const int along_k = how == RP_GEMM_K || (how == RP_GEMM_ANY && by_k), steps = how == RP_GEMM_K ? 8 : DEPTH;
    const int r = along_k ? t / steps : t % vectors * (how == RP_GEMM_R ? 4 : 1);
    const int64_t row_pitch = along_k ? pitch : 1, k_pitch = along_k ? 1 : pitch;
    x->base = base;
    x->k = along_k ? t % steps : t / vectors;
    x->row = row + r;
    x->rows = rows;
    x->row_pass = along_k ? threads / steps : 0;
    x->k_pass = along_k ? 0 : threads / vectors;
    x->from = (const char *)(base + x->row * row_pitch + (k0 + x->k) * k_pitch);
    x->tile = 4 * DEPTH * k_pitch;
    x->pass = 4 * (x->row_pass * row_pitch + x->k_pass * k_pitch);
    x->to = x->k * room + r;
    x->to_pass = x->row_pass + x->k_pass * room;
    RP_OPAQUE64(x->pass); /* else these are computed again for every tile */
    RP_OPAQUE(x->to);
    if (how == RP_GEMM_R && tile_rows == 192) {
        x->odd_k = t / 16;
        x->odd = 4 * ((x->odd_k - x->k) * pitch + (128 + t % 16 * 4 - r));
        x->odd_to = x->odd_k * room + 128 + t % 16 * 4;
        RP_OPAQUE64(x->odd);
        RP_OPAQUE(x->odd_to);
    }
}

/* One copy, to `place` floats after `to`. Without asynchronous copies the data stay in registers, `held`, until
 * gemm_put(). guard: if !inside, zeros are stored, and `from` is any readable address. */
RP_DEVICE void gemm_copy_one(float *held, rp_smem to, int place, const void *from, int sixteen, int guard, int inside)
{
#if RP_ASYNC
    (void)held;
    if (sixteen && guard)
        rp_copy16_or_zero_to(to, place, from, inside);
    else if (sixteen)
        rp_copy16_to(to, place, from);
    else if (guard)
        rp_copy4_or_zero_to(to, place, from, inside);
    else
        rp_copy4_to(to, place, from);
#else
    (void)to, (void)place;
    if (!sixteen) {
        held[0] = !guard || inside ? rp_load4(from) : 0.0f;
        return;
    }
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (!guard || inside)
        v = rp_load16(from);
    held[0] = v.x;
    held[1] = v.y;
    held[2] = v.z;
    held[3] = v.w;
#endif
}

/* Starts copying the next tile; its first `front` k-steps are zeros (guard: front may be > 0). */
RP_DEVICE void gemm_copy(struct gemm_side *x, float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how, int guard,
                         int front)
{
    const int sixteen = how == RP_GEMM_R, any = how == RP_GEMM_ANY;
    const char *at = x->from;
    rp_smem to = rp_smem_of(stage + x->to);
    RP_OPAQUE_SMEM(to); /* so that the offsets between copies are constants of the instructions */
    RP_UNROLL
    for (int i = 0; i < gemm_copies(tile_rows, threads, how); i++, held += sixteen ? 4 : 1) {
        const int odd = gemm_is_odd(i, tile_rows, threads, how), pass = gemm_pass(i, how), half = gemm_half(i, how);
        const char *from = odd ? x->from + x->odd : at + 4 * half;
        int inside = 1;
        if (guard)
            inside = (odd ? x->odd_k : x->k + pass * x->k_pass + half) >= front;
        if (any)
            inside = inside && x->row + pass * x->row_pass < x->rows;
        if (!inside)
            from = (const char *)x->base;
        gemm_copy_one(held, odd ? rp_smem_of(stage + x->odd_to) : to, gemm_place(x, i, tile_rows, threads, how), from, sixteen,
                      guard || any, inside);
        if (how != RP_GEMM_K || half == 8 * (HALVES - 1)) {
            at += x->pass;
            RP_OPAQUE64(at);
        }
    }
    x->from += x->tile;
}

#if !RP_ASYNC
RP_DEVICE void gemm_put(const struct gemm_side *x, const float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how)
{
    RP_UNROLL
    for (int i = 0; i < gemm_copies(tile_rows, threads, how); i++) {
        float *to = stage + (gemm_is_odd(i, tile_rows, threads, how) ? x->odd_to : x->to) + gemm_place(x, i, tile_rows, threads, how);
        if (how == RP_GEMM_R)
            *(float4 *)(void *)to = make_float4(held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]);
        else
            *to = held[i];
    }
}
#endif
