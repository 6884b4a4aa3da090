/* Inner header of the tensor core's products: what tc_gemm.c packs, and a kernel reads.
 *
 * What:    one table of functions per instruction set, the packed forms, and the range of exponents that chooses a
 *          path.
 * Flow:    tc_gemm.c -> pack_a, pack_b, load, mark_invalid, tile, store of tc_tile.inc.h.
 *
 *                   packed, for each block of F k-steps: numbers, exponent words, signs
 *   group of A        double[F][rows], uint32_t[F][rows], uint32_t[rows]; words and signs twice, in both halves
 *   panel of B        double[F][cols], uint16_t[F][cols], uint16_t[cols]
 *   tile of C         double[rows][cols]
 *
 * Exponent words are 16 times a sum's biased exponent in a double: a sum of two is the top of a double's upper half. */
#pragma once

#include "backend/cpu/tc_gemm.h"

#define RP_TC_KC 256   /* k-steps that are packed at once, a multiple of 64 */
#define RP_TC_MC 96    /* rows of A packed at once, a multiple of every `rows` */
#define RP_TC_NC 768   /* columns of B packed at once, a multiple of every `cols` */
#define RP_TC_STEPS 64 /* k-steps of a panel that stay in the first cache while the groups of A pass by */

/* What is known of the numbers of a group, a panel or a tile. */
struct rp_tc_range {
    int least, most;    /* exponents of those that are not zero: least > most if there is none */
    int infinite, zero; /* whether there are infinities and zeros; of groups and panels */
};

/* One panel or group of a k-block: element (row r or column r, step s) is source[r * along + s * step]. */
struct rp_tc_source {
    const uint16_t *at;
    long along, step;
    int count, steps; /* that exist; the rest is zeros */
};

/* Bytes of a packed block of F products. */
static inline size_t rp_tc_group_bytes(int rows, int products)
{
    return (size_t)products * (size_t)rows * (sizeof(double) + sizeof(uint32_t)) + (size_t)rows * sizeof(uint32_t);
}
static inline size_t rp_tc_panel_bytes(int cols, int products)
{
    return (size_t)products * (size_t)cols * (sizeof(double) + sizeof(uint16_t)) + (size_t)cols * sizeof(uint16_t);
}

/* Groups of A, one below the other, that pass the same blocks of a panel. */
struct rp_tc_run {
    const void *a, *b; /* packed, from the first block on */
    size_t group_step; /* bytes from a group to the next */
    double *tile;      /* [groups][rows][cols] */
    int groups, blocks;
    int least; /* exponent word that E has at least */
};

struct rp_tc_kernel {
    int rows, cols;
    /* `blocks` blocks of F products to dst. */
    void (*pack_a)(void *dst, const struct rp_tc_source *s, enum rp_tc_format format, int products, int blocks,
                   struct rp_tc_range *range);
    void (*pack_b)(void *dst, const struct rp_tc_source *s, enum rp_tc_format format, int products, int blocks,
                   struct rp_tc_range *range);
    /* A tile of C to doubles and back; elements outside C are +0. -0 becomes +0: a result is never -0. `range` is that
     * of the finite numbers. */
    void (*load)(double *tile, const float *c, long ldc, int rows, int cols, struct rp_tc_range *range);
    void (*store)(float *c, long ldc, int rows, int cols, const double *tile);
    /* NaN to the elements of tile[rows][cols] that have a product of an infinity and a zero in these blocks. */
    void (*mark_invalid)(double *tile, const void *a, const void *b, enum rp_tc_format format, int products,
                         int blocks);
    /* tile = chain of blocks from tile. general: sums may be subnormal, overflow or be at the floor of E. Runs with
     * rounding toward zero. */
    void (*tile)(const struct rp_tc_run *run, int products, int general);
};

extern const struct rp_tc_kernel rp_tc_avx2, rp_tc_avx512, rp_tc_avx512_popcount, rp_tc_neon;
