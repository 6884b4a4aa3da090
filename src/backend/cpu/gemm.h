/* GEMM: the interface between the driver (gemm.c) and the kernels (gemm_<isa>.c).
 *
 * What:    one register tile of C, the packed forms of A and B that it reads, and a table row per instruction set.
 * Flow:    gemm.c cuts a GEMM into tiles and packs; a kernel computes one tile and stores it with the epilogue.
 * Extend:  a new instruction set is one file with the functions of struct rp_gemm_kernel and one row in gemm.c.
 *
 * Why the bits are the same everywhere: every element of C is one chain of fma over ascending k, whatever the tile is.
 * Tile sizes, packing, threads and reloading a chain's accumulator from memory are free (rule 14).
 *
 *            B, packed: panels of nr columns, [panel][k][nr], zero padded columns
 *                     +----+----+----+
 *                     | p0 | p1 | p2 |   a chunk: stays in L2 while all rows pass by
 *     A               +----+----+----+
 *   +------+  strip   +----+----+----+
 *   | mr   | =======> |tile|tile|tile|   a tile: mr x nr accumulators in registers
 *   +------+          +----+----+----+
 *   | mr   |
 *   A is read in place, [row][k], one scalar broadcast per element; or, stored transposed, from groups of 16 rows
 *   packed as [k][16], one cache line per k, that 16/mr strips share.
 */
#pragma once

#include "backend/cpu/inner.h"

#define RP_GEMM_GROUP 16   /* rows of A^T packed side by side: one cache line */
#define RP_GEMM_KC 768     /* most k-steps packed at once; a multiple of 16 */
#define RP_GEMM_NR_MAX 48  /* widest panel of any kernel */

/* Lines to fetch while a tile computes: one at `at` per 16 k-steps, then `at += step` bytes. Only a hint. */
struct rp_gemm_stream {
    const char *at;
    long step;
};

/* Pieces of rows that the tile also packs, one per 16 k-steps of a run, the last of which may be fewer. Piece
 * i is `vectors` vectors side by side at from + i*step; vector v goes to to + i*to_step + at[v]. Not a hint, it must be
 * done: there are at most as many pieces. Only for whole tiles (rows == mr, cols == nr or not). Also fetches as many
 * pieces from `ahead` on into L2: a hint. */
struct rp_gemm_copy {
    const float *from;
    const float *ahead; /* NULL: none */
    float *to;          /* aligned to a vector, like at[v] and to_step */
    const int *at;
    long step, to_step;
    int vectors, pieces;
};

/* k-steps that follow each other in memory, then `skip` floats that no step takes: of B for packed tiles, of A for
 * those in place. */
struct rp_gemm_run {
    long steps, skip;
};

/* One visit of one tile: c = epilogue(sum + chain(from, k steps)). The number of rows is a parameter of the kernel. */
struct rp_tile {
    const float *a; /* in place: [rows][k], row stride lda; packed: [k][16] */
    long lda;
    const float *b; /* [k][nr], aligned to a vector */
    const struct rp_gemm_run *runs; /* k steps together; packed tiles may have NULL, one run; else of in_runs only */
    long jump;                      /* in_runs: floats added to the address of rows of A from jump_row, even, on */
    int jump_row;
    long k;
    int cols;       /* 1..nr columns that exist */
    int last;       /* this visit ends the sum over all k: + (+0.0f), then bias, then add */
    float *c;
    const float *from; /* the chain so far; NULL starts it from +0 */
    const float *sum;  /* the sum of the chains before this one, added as sum + chain; NULL if there is none */
    const float *bias; /* [cols] or NULL; looked at only when `last`, like add */
    const float *add;
    long ldc, ldfrom, ldsum, ldadd;
    struct rp_gemm_stream ahead[2]; /* source lines of A and B that are wanted next, into L2 */
    long far;                       /* bytes: tiles in place also fetch the lines this far after `ahead`; 0: none */
    struct rp_gemm_copy copy[2];    /* only of kernels with `copies` */
    int is_short; /* few k-steps, and C is large: a tile in place may fetch all of next_c, even beyond the last row */
    const float *next_c, *next_add; /* the tile after this one, into L1; next_add may be NULL */
};

typedef void (*rp_tile_fn)(const struct rp_tile *t, int rows);

struct rp_gemm_kernel {
    int mr, nr, lanes; /* register tile; mr divides RP_GEMM_GROUP, lanes divides nr */
    int tall; /* rows of tiles of two vectors of columns, in place or by runs: mr or this many, at most RP_GEMM_GROUP */
    int copies;                  /* 1: packed tiles do the work of tile.copy; 2: tiles in place that of copy[1], too */
    rp_tile_fn in_place, packed; /* rows 1..mr */
    rp_tile_fn in_runs;          /* in place by tile.runs, mr rows or tall ones; NULL: there is none */
    int runs_panels;             /* the most panels of a strip for which in_runs pays */
    /* panels x nr columns of one k row: src[p*nr + j] -> dst[p*stride + j]; `ahead`: a row that is wanted soon */
    void (*copy_row)(float *dst, long stride, const float *src, const float *ahead, int panels);
    /* 16 k-steps of `cols` columns stored as rows: src[j*ld + k] -> dst[k*nr + j], j < cols, a multiple of `lanes` */
    void (*transpose)(float *dst, const float *src, long ld, int cols);
    /* A^T: k rows of 16 floats, src[p*ld + i] -> dst[p*16 + i] */
    void (*copy_group)(float *dst, const float *src, long ld, int k);
};

#define ROW(X, name, ...) extern const struct rp_gemm_kernel rp_gemm_##name;
RP_ISA_ROWS(ROW, )
#undef ROW
extern const struct rp_gemm_kernel rp_gemm_scalar_fma;
