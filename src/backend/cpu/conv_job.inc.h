/* Convolution as a GEMM whose left operand is gathered from the image, see struct rp_conv. Compiled once per
 * instruction set by ops_<isa>.c; the tiles are those of cpu->gemm.
 *
 * Forward and data gradient:
 *
 *     weights, packed once per call for all threads: panels of nr columns, [panel][k][nr], zero padded
 *                      +----+----+----+
 *     image            | p0 | p1 | p2 |   a chunk x one block of k: stays in L2 while the rows of a task pass by
 *   +--------+ strip   +----+----+----+
 *   | mr rows| ======> |tile|tile|tile|   a strip: mr pixels x the block's k, gathered into L1; +0 for padding
 *   +--------+         +----+----+----+
 *
 * A pixel's k-steps are runs: channels of `pixels` neighbours in a row of the image, which are contiguous. Forward has
 * kernel_h runs of kernel_w pixels. The data gradient takes the input pixels in stride * stride classes, (h mod stride,
 * w mod stride), whose pixels have the same taps; a run is one tap, and taps that no pixel of the class has are not
 * computed. Since a chain ends with + (+0), its absent terms are neutral, but they count where chains end. So are terms
 * of pixels outside the image, unless a weight is infinite or NaN: where it saves enough, the grid is cut into regions
 * whose pixels have the same taps inside.
 *
 * Here: the job of a call. conv.inc.h has its plan and tasks, conv_regions.inc.h divides the grid, conv_pack.inc.h
 * packs weights, conv_gather.inc.h gathers strips, conv_runs.inc.h has those that need not be gathered. The weight
 * gradient is in conv_weights.inc.h. */

#include "backend/cpu/gemm.h"

#include <limits.h>

#define CONV_KC RP_CONV_KC
#define CONV_COLS RP_CONV_COLS
#define CONV_ROWS RP_CONV_ROWS

static size_t conv_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Columns cut into panels of nr, but the last two of two vectors rather than of three and one: a tile of one vector
 * loads as much as it multiplies. A packed panel has nr columns in either case. */
struct conv_panels {
    long nr, n, count, whole, narrow; /* the first `whole` panels have nr columns, the others `narrow` */
};

static struct conv_panels conv_panels_of(const struct rp_gemm_kernel *kernel, long n)
{
    struct conv_panels p = {
        .nr = kernel->nr, .n = n, .count = blocks_of(n, kernel->nr), .whole = n / kernel->nr, .narrow = kernel->nr};
    const long rest = n % kernel->nr;
    if (p.whole && rest && rest <= kernel->lanes && kernel->nr == 3 * kernel->lanes) {
        p.whole--;
        p.narrow = 2 * kernel->lanes;
    }
    return p;
}

RP_LANE long conv_column(const struct conv_panels *p, long panel)
{
    const long at = panel <= p->whole ? panel * p->nr : p->whole * p->nr + (panel - p->whole) * p->narrow;
    return at < p->n ? at : p->n;
}

RP_LANE long conv_columns(const struct conv_panels *p, long panel)
{
    return conv_column(p, panel + 1) - conv_column(p, panel);
}

/* ---- forward and data gradient ---- */

/* Scratch of a thread: a strip, then planes of part_rows x CONV_COLS for the running chain and for the sum of those
 * before it. */
#define CONV_STRIP_LD (CONV_KC + 16) /* rows of a strip not 4 KiB apart */
#define CONV_STRIP_FLOATS ((size_t)RP_GEMM_GROUP * CONV_STRIP_LD)
#define CONV_PLANE_FLOATS ((size_t)CONV_ROWS * CONV_COLS)

/* C[rows, n] = chains over k of A[rows, k] * B[k, n], rows being the pixels of a grid. */
struct conv_job {
    struct rp_cpu *cpu;
    const struct rp_gemm_kernel *kernel;
    /* A: pixel (h, w) of the grid takes, for run r, `pixels` pixels of the image from (h*step + dh, w*step + dw) */
    const float *image;
    long image_h, image_w, channels, step;
    long grid_h, grid_w, rows, k;
    long runs, runs_w, pixels;   /* run r is (r / runs_w, r % runs_w) */
    long dh, dw, dh_run, dw_run; /* of run (0, 0), and from one run to the next */
    /* B: weights [out_c, taps, in_c] */
    const float *w;
    long n, taps, in_c, segment;
    int is_gradient;             /* k is (tap, oc) instead of (tap, ic) */
    long tap, tap_h, tap_w;      /* gradient: the tap of run (0, 0), and from one run to the next */
    float *packed;
    /* C: rows of n; pixel (h, w) of the grid is pixel (h*out_step + out_h0, w*out_step + out_w0) */
    float *out;
    const float *add;
    long out_h, out_w, out_step, out_h0, out_w0;
    float *sums;                 /* 64-row sums of C, [block, n], or NULL */
    /* plan */
    int is_plain;                /* A lies in memory as it is */
    struct conv_panels panels;
    long chunks, part_rows;
    struct conv_region whole, region[CONV_REGIONS];
    int regions;                 /* 1: the whole grid with all taps */
    atomic_int *is_spoiled;      /* set if a weight is infinite or NaN */
};

/* A pixel of the grid. */
struct conv_pixel {
    long n, h, w;
};

static struct conv_pixel conv_pixel_at(const struct conv_region *g, long row)
{
    return (struct conv_pixel){row / (g->grid_h * g->grid_w), g->first_h + row / g->grid_w % g->grid_h,
                               g->first_w + row % g->grid_w};
}

/* n pixels later, a few: without the divisions of conv_pixel_at(), which a strip of short tiles would wait for. */
RP_LANE void conv_advance(const struct conv_region *g, struct conv_pixel *p, long n)
{
    for (p->w += n; p->w >= g->first_w + g->grid_w; p->w -= g->grid_w)
        if (++p->h == g->first_h + g->grid_h) {
            p->h = g->first_h;
            p->n++;
        }
}

RP_LANE struct conv_pixel conv_pixel_after(const struct conv_region *g, const struct conv_pixel *p, long n)
{
    struct conv_pixel q = *p;
    conv_advance(g, &q, n);
    return q;
}

RP_LANE void conv_copy(float *restrict dst, const float *restrict src, long n)
{
    long i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
        UNROLL for (int v = 0; v < 4; v++) vstore(dst + i + v * W, vload(src + i + v * W));
    for (; i + W <= n; i += W)
        vstore(dst + i, vload(src + i));
    if (i < n)
        vstore_n(dst + i, vload_n(src + i, (int)(n - i)), (int)(n - i));
}

RP_LANE void conv_zero(float *dst, long n)
{
    long i = 0;
    for (; i + W <= n; i += W)
        vstore(dst + i, vset1(0.0f));
    if (i < n)
        vstore_n(dst + i, vset1(0.0f), (int)(n - i));
}

RP_LANE long conv_clamp(long x, long low, long high)
{
    return x < low ? low : x > high ? high : x;
}

/* Where the tap of a run is among the weights. */
static long conv_tap(const struct conv_job *o, long run)
{
    return o->tap + run / o->runs_w * o->tap_h + run % o->runs_w * o->tap_w;
}
