/* GEMM: cutting into tiles, packing, order of work. The arithmetic is in gemm_<isa>.c, the picture in gemm.h.
 *
 * Columns are cut into chunks; a task is one chunk times a part of the rows (all rows, unless there are more threads
 * than chunks); its k-steps are cut into blocks. For each block a thread packs its own copy of the chunk of B, then
 * passes all strips of A by it. Tasks are taken from a shared counter; nothing else is shared, so there is no barrier
 * inside a GEMM.
 *
 * Packing is hidden where it would show. The next band of A^T, one or two groups of rows, is packed by the tiles of
 * this one: each copies a few pieces between its k-steps (struct rp_gemm_copy) and fetches those of the next tile. A
 * piece is a k-step of the band: its two lines are neighbours in memory, and half as many pieces take half as many
 * instructions. The next block's B, when few rows use it, is packed in slices, one a tile: between its k-steps where A
 * is [m,k] and B [k,n] and the kernel can, else after it, its source lines fetched by the tile before.
 *
 * Where a sum lives until its last visit:
 *
 *     one chain            C itself, loaded again by the next block (rule 14)
 *     chains of L > KC     sum of finished chains in C, the running chain in a plane of the scratch
 *     chains of L <= KC    a block holds whole chains; the sum in C
 *     add == c             C must stay as it is until the last visit: another plane instead of C
 */
#include "backend/cpu/gemm.h"

#include <stdatomic.h>
#include <string.h>

#define GROUP RP_GEMM_GROUP
#define GROUPS_MOST 2 /* of A^T in a band; four displace more of B from L2 than they save */
#define KC RP_GEMM_KC
#define COLS_IN_PLACE 192 /* columns of packed B while A is read in place: 0.6 MB of L2 ... */
#define COLS_PACKED 384   /* ... and while A^T is packed, once per chunk: 1.2 MB */
#define ROWS_AHEAD 1024   /* B is packed ahead if its block is used by at most this many rows */
#define STEPS_PER_THREAD 500000.0 /* multiplications worth waking a thread for */

/* Scratch of one thread, in floats: two buffers for B, two for bands of A^T, planes for sums. */
#define B_FLOATS ((size_t)KC * COLS_PACKED)
#define GROUP_FLOATS ((size_t)(KC + 16) * GROUP) /* no multiple of 4 KiB: else stores look like loads of the other */
#define A_FLOATS (GROUPS_MOST * GROUP_FLOATS)
#define PLANE_FLOATS(rows) ((size_t)(rows) * COLS_IN_PLACE)
#define LAST_OF_LINE (GROUP - 1) /* 16 floats that lie across two lines: the first line came with those before */
#define PLANE_ROWS_LEAST 64 /* a group of rows by COLS_PACKED columns, twice */
#define PLANE_ROWS_MOST 4096

static int min(int a, int b)
{
    return a < b ? a : b;
}

static int cut(int a, int b) /* how many pieces of b make a */
{
    return (a + b - 1) / b;
}

/* One GEMM, shared by its threads. */
struct gemm_job {
    const struct rp_gemm *g;
    const struct rp_gemm_kernel *kernel;
    struct rp_cpu *cpu;
    int threads;
    int segment;   /* k-steps of a chain, 1..k */
    int span;      /* k-steps that blocks are cut from: one chain, or several whole short ones */
    int panels, chunks, chunk_cols; /* chunk_cols: the widest, padded */
    int parts, part_rows;
    int pack_ahead;
    int copies_b; /* tiles pack the next block's B between their k-steps */
    int band;     /* rows of A^T packed at a time, whole groups */
    int sum_plane, chain_plane; /* which plane of the scratch, -1: none */
    size_t plane_floats;
    atomic_int next; /* task to be taken: chunk * parts + part */
};

/* One k-block of one task. */
struct gemm_block {
    int valid;
    int j, cols;   /* columns of the chunk */
    int i0, i1;    /* rows of the part */
    int s0, s1;    /* the span that the block belongs to */
    int k0, k;     /* its k-steps */
};

struct worker {
    struct gemm_job *job;
    float *b[2], *a[2], *plane[2];
    int flip;              /* which b is in use */
    struct gemm_block now, next;
    int panels;            /* of this block */
    int ahead, ahead_done; /* units of the next block's B: all, packed already */
    uint64_t ahead_rate;   /* units per tile, see rate() */
    int tiles;             /* of a band of A^T */
    uint64_t band_rate;    /* k-steps per tile */
    int a_vector[GROUPS_MOST * GROUP]; /* where the vectors of a k-step of a band, and of a panel, are when packed */
    int b_vector[RP_GEMM_NR_MAX];
};

/* `total` spread over `parts`: after n parts, due(rate, n, total) of them; no division in the loop over tiles. */
static uint64_t rate(int total, long parts)
{
    return ((uint64_t)total << 32) / (uint64_t)parts + 1;
}

static int due(uint64_t per_part, long n, int total)
{
    uint64_t x = per_part * (uint64_t)n >> 32;
    return x < (uint64_t)total ? (int)x : total;
}

/* k-steps of the next block when `left` of the span remain: equal blocks rather than a short last one. */
static int block_steps(int left)
{
    int n = cut(left, KC);
    return n == 1 ? left : cut(cut(left, n), 16) * 16;
}

static int chunk_start(const struct gemm_job *j, int chunk)
{
    return min((int)((long)chunk * j->panels / j->chunks) * j->kernel->nr, j->g->n);
}

static int take_task(struct gemm_job *j, struct gemm_block *b)
{
    const struct rp_gemm *g = j->g;
    for (;;) {
        int t = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (t >= j->chunks * j->parts)
            return 0;
        int chunk = t / j->parts;
        b->i0 = t % j->parts * j->part_rows;
        if (b->i0 >= g->m)
            continue;
        b->i1 = min(b->i0 + j->part_rows, g->m);
        b->j = chunk_start(j, chunk);
        b->cols = chunk_start(j, chunk + 1) - b->j;
        b->s0 = b->k0 = 0;
        b->s1 = min(j->span, g->k);
        b->k = block_steps(b->s1);
        return 1;
    }
}

/* The block after *b; with `early`, none rather than one of the last tasks, which an idle thread could start now. */
static struct gemm_block block_after(struct gemm_job *j, struct gemm_block b, int early)
{
    int k = j->g->k;
    if (b.valid && b.k0 + b.k < k) {
        b.k0 += b.k;
        if (b.k0 == b.s1) {
            b.s0 = b.s1;
            b.s1 = min(b.s0 + j->span, k);
        }
        b.k = block_steps(b.s1 - b.k0);
        return b;
    }
    int late = atomic_load_explicit(&j->next, memory_order_relaxed) + 2 * j->threads > j->chunks * j->parts;
    b.valid = !(early && late) && take_task(j, &b);
    return b;
}

/* ---- packing B ---- */

/* B is packed by units: a k-step of the whole chunk; or a k-step of one panel, panel after panel, where tiles copy
 * them; or, where B is stored [n,k], 16 k-steps of one panel. */
static int panels_of_unit(const struct gemm_job *j, const struct gemm_block *b)
{
    return j->g->tb || j->copies_b ? 1 : cut(b->cols, j->kernel->nr);
}

static int units_of_panel(const struct gemm_job *j, const struct gemm_block *b)
{
    return j->g->tb ? cut(b->k, 16) : b->k;
}

static int b_units(const struct gemm_job *j, const struct gemm_block *b)
{
    return cut(b->cols, j->kernel->nr) / panels_of_unit(j, b) * units_of_panel(j, b);
}

static const float *b_unit_source(const struct gemm_job *j, const struct gemm_block *b, int unit)
{
    const struct rp_gemm *g = j->g;
    const int per_panel = units_of_panel(j, b), p = unit % per_panel;
    const long col = b->j + (long)(unit / per_panel) * j->kernel->nr;
    return g->tb ? g->b + col * g->ldb + b->k0 + p * 16 : g->b + (b->k0 + p) * g->ldb + col;
}

/* k-step p of panels first..last-1; soon: also fetch the k-step 8 after it */
static void pack_b_row(const struct gemm_job *j, const struct gemm_block *b, float *dst, int p, int first, int last,
                       int soon)
{
    const int nr = j->kernel->nr, exist = min(last * nr, b->cols) - first * nr, whole = exist / nr, rest = exist % nr;
    const long stride = (long)b->k * nr;
    const float *src = j->g->b + (b->k0 + p) * j->g->ldb + b->j + (long)first * nr;
    float *d = dst + first * stride + (long)p * nr;
    j->kernel->copy_row(d, stride, src, soon ? src + 8 * j->g->ldb : src, whole);
    if (rest) {
        d += whole * stride;
        memcpy(d, src + (long)whole * nr, (size_t)rest * sizeof *d);
        memset(d + rest, 0, (size_t)(nr - rest) * sizeof *d);
    }
}

static void pack_b_rows(const struct gemm_job *j, const struct gemm_block *b, float *dst, int unit, int end)
{
    int panels = panels_of_unit(j, b);
    if (unit == 0 && end == b_units(j, b)) { /* all at once: in the order of memory */
        panels = cut(b->cols, j->kernel->nr);
        end = b->k;
    }
    for (; unit < end; unit++)
        pack_b_row(j, b, dst, unit % b->k, unit / b->k, unit / b->k + panels, unit + 8 < end);
}

static void pack_b_transposed(const struct gemm_job *j, const struct gemm_block *b, float *dst, int unit, int end)
{
    const int nr = j->kernel->nr, per_panel = cut(b->k, 16);
    const long ldb = j->g->ldb;
    for (; unit < end; unit++) {
        int panel = unit / per_panel, p = unit % per_panel * 16, steps = min(16, b->k - p);
        int cols = min(nr, b->cols - panel * nr), c = 0;
        const float *src = b_unit_source(j, b, unit);
        float *d = dst + ((long)panel * b->k + p) * nr;
        if (steps == 16) {
            c = cols - cols % j->kernel->lanes;
            j->kernel->transpose(d, src, ldb, c);
        }
        for (; c < nr; c++)
            for (int s = 0; s < steps; s++)
                d[s * nr + c] = c < cols ? src[c * ldb + s] : 0.0f;
    }
}

static void pack_b(const struct gemm_job *j, const struct gemm_block *b, float *dst, int unit, int end)
{
    (j->g->tb ? pack_b_transposed : pack_b_rows)(j, b, dst, unit, end);
}

/* ---- packing A^T ---- */

static const float *group_source(const struct gemm_job *j, const struct gemm_block *b, int i, int p)
{
    return j->g->a + (long)(b->k0 + p) * j->g->lda + i;
}

/* k-steps p..end of the group of rows that starts at i */
static void pack_group(const struct gemm_job *j, const struct gemm_block *b, float *dst, int i, int p, int end)
{
    int rows = min(GROUP, b->i1 - i);
    const float *src = group_source(j, b, i, p);
    dst += (long)p * GROUP;
    if (rows == GROUP) {
        j->kernel->copy_group(dst, src, j->g->lda, end - p);
        return;
    }
    for (; p < end; p++, src += j->g->lda, dst += GROUP)
        for (int r = 0; r < GROUP; r++)
            dst[r] = r < rows ? src[r] : 0.0f;
}

/* The same of a band: group after group, GROUP_FLOATS apart. */
static void pack_band(const struct gemm_job *j, const struct gemm_block *b, float *dst, int i, int p, int end)
{
    for (const int last = min(i + j->band, b->i1); i < last; i += GROUP, dst += GROUP_FLOATS)
        pack_group(j, b, dst, i, p, end);
}

/* ---- tiles ---- */

/* Where a tile keeps a partial result. */
struct gemm_place {
    float *at;
    long ld;
};

static struct gemm_place result_at(const struct worker *w, int plane, int i, int col)
{
    const struct rp_gemm *g = w->job->g;
    const struct gemm_block *b = &w->now;
    if (plane < 0)
        return (struct gemm_place){g->c + i * g->ldc + b->j + col, g->ldc};
    return (struct gemm_place){w->plane[plane] + (long)(i - b->i0) * w->job->chunk_cols + col, w->job->chunk_cols};
}

/* Where a tile is: i and col (within the chunk), and which one comes after it. */
struct position {
    int i, rows, col, next_i, next_col;
};

/* The next piece goes on with the lines where this one stopped. */
static void advance_lines(struct rp_tile *t)
{
    const long steps = t->k / 16;
    for (int s = 0; s < 2; s++)
        t->ahead[s].at += steps * t->ahead[s].step;
    for (int s = 0; s < 2; s++) {
        struct rp_gemm_copy *copy = &t->copy[s];
        const int copied = min(copy->pieces, (int)steps);
        copy->from += copied * copy->step;
        copy->to += copied * copy->to_step;
        if (copy->ahead)
            copy->ahead += copied * copy->step;
        copy->pieces -= copied;
    }
}

/* All chains of the block for one tile: one piece, or several whole short chains whose sum stays in L1. */
static void compute_tile(const struct worker *w, struct rp_tile *t, const struct position *at)
{
    const struct gemm_job *j = w->job;
    const struct rp_gemm *g = j->g;
    const struct gemm_block *b = &w->now;
    const rp_tile_fn kernel = g->ta ? j->kernel->packed : j->kernel->in_place;
    const struct gemm_place c = result_at(w, -1, at->i, at->col), sum = result_at(w, j->sum_plane, at->i, at->col);
    const struct gemm_place chain = b->s0 ? result_at(w, j->chain_plane, at->i, at->col) : sum;
    const long next_i = at->next_i - at->i, next_col = at->next_col - at->col;
    const int piece = min(j->segment, b->k), chains = piece == j->segment;

    for (int p = 0; p < b->k; p += piece) {
        int head = chains || b->k0 == b->s0, tail = chains || b->k0 + b->k == b->s1;
        t->k = min(piece, b->k - p);
        t->last = tail && b->k0 + p + t->k == g->k;
        const struct gemm_place to = t->last ? c : tail ? sum : chain;
        t->c = to.at;
        t->ldc = to.ld;
        t->from = head ? NULL : chain.at;
        t->ldfrom = chain.ld;
        t->sum = tail && b->s0 + p ? sum.at : NULL;
        t->ldsum = sum.ld;
        t->next_c = p ? NULL : t->c + next_i * t->ldc + next_col;
        t->next_add = t->last && t->add && g->add != g->c ? t->add + next_i * g->ldadd + next_col : NULL;
        kernel(t, at->rows);
        advance_lines(t);
        t->a += t->k * (g->ta ? GROUP : 1);
        t->b += t->k * j->kernel->nr;
    }
}

/* Source lines of the rows of A that come next. In place: tile q of a strip fetches rows q and q + panels of the next
 * strip. */
static void aim_in_place(const struct worker *w, struct rp_tile *t, const struct position *at, int q)
{
    const int mr = w->job->kernel->mr;
    const float *next = at->i + 2 * mr <= w->now.i1 ? t->a + mr * t->lda : t->a;
    for (int s = 0; s < 2; s++) {
        int row = q + s * w->panels;
        t->ahead[s].at = (const char *)(row < mr ? next + row * t->lda : t->a);
        t->ahead[s].step = row < mr ? 64 : 0;
    }
}

/* A^T: while the tiles of a band run, the next one is packed in as many slices. Of a band of one group tile q fetches
 * what is packed after tile q + 1, or, since a tile fetches k/16 lines, after the next few tiles; after the last slice,
 * the first of the band after. Of a band of two, copies fetch. */
static void aim_packed(const struct worker *w, struct rp_tile *t, int band, int q)
{
    const struct gemm_job *j = w->job;
    const struct gemm_block *b = &w->now;
    int every = w->tiles >> 4, slice = q + (every ? every : 1), row = band + j->band;
    t->ahead[0].at = t->ahead[1].at = (const char *)t->a;
    t->ahead[0].step = t->ahead[1].step = 0;
    if (slice >= w->tiles) {
        row += j->band;
        slice = 0;
    }
    if (j->band > GROUP || (every > 1 && q % every) || row >= b->i1)
        return;
    t->ahead[0].at = (const char *)(group_source(j, b, row, due(w->band_rate, slice, b->k)) + LAST_OF_LINE);
    t->ahead[0].step = j->g->lda * (long)sizeof(float);
}

/* How many pieces of each copy a tile can pack: one per 16 k-steps. */
static int pieces_of_tile(const struct worker *w)
{
    const int k = w->now.k, chain = min(w->job->segment, k);
    return k / chain * (chain / 16) + k % chain / 16;
}

/* Gives the kernel what it packs of the share p..end of the next band's k-steps that belongs to this tile. A band of
 * two groups: it also fetches the next tile's share, or that of the first tile of the band after. */
static int give_a_copy(const struct worker *w, struct rp_tile *t, float *dst, int row, int p, int end)
{
    const struct gemm_job *j = w->job;
    const int wraps = end >= w->now.k, soon_row = wraps ? row + j->band : row;
    if (!j->kernel->copies || w->now.i1 - row < j->band)
        return p;
    t->copy[0] = (struct rp_gemm_copy){.from = group_source(j, &w->now, row, p), .to = dst + (long)p * GROUP,
                                       .at = w->a_vector, .step = j->g->lda, .to_step = GROUP,
                                       .vectors = j->band / j->kernel->lanes,
                                       .pieces = min(end - p, pieces_of_tile(w))};
    if (j->band > GROUP && w->now.i1 - soon_row >= j->band)
        t->copy[0].ahead = group_source(j, &w->now, soon_row, wraps ? 0 : end) + LAST_OF_LINE;
    return p + t->copy[0].pieces;
}

/* The second stream goes to the next block's B while that is being packed. */
static void aim_ahead(const struct worker *w, struct rp_tile *t)
{
    const struct rp_gemm *g = w->job->g;
    if (w->ahead_done < w->ahead && !w->job->copies_b) {
        t->ahead[1].at = (const char *)b_unit_source(w->job, &w->next, w->ahead_done);
        t->ahead[1].step = g->tb ? g->ldb * (long)sizeof(float) : 64;
    }
}

/* Gives the kernel what it packs of the next block's B up to unit `end`, which is due after this tile: a whole panel
 * stored [k,n]. */
static void give_b_copy(struct worker *w, struct rp_tile *t, int end)
{
    const struct gemm_job *j = w->job;
    const struct gemm_block *b = &w->next;
    const int nr = j->kernel->nr, unit = w->ahead_done;
    if (!j->copies_b || unit >= end || (unit / b->k + 1) * nr > b->cols)
        return;
    const int pieces = min(min(end - unit, b->k - unit % b->k), pieces_of_tile(w));
    t->copy[1] = (struct rp_gemm_copy){.from = b_unit_source(j, b, unit), .to = w->b[!w->flip] + (long)unit * nr,
                                       .at = w->b_vector, .step = j->g->ldb, .to_step = nr,
                                       .vectors = nr / j->kernel->lanes, .pieces = pieces};
    w->ahead_done += pieces;
    if (w->ahead_done < w->ahead)
        t->copy[1].ahead = b_unit_source(j, b, w->ahead_done);
}

/* Pack the share of the next block's B that is due after `done` tiles. */
static void pack_ahead(struct worker *w, long done)
{
    int end = due(w->ahead_rate, done, w->ahead);
    if (end > w->ahead_done)
        pack_b(w->job, &w->next, w->b[!w->flip], w->ahead_done, end);
    w->ahead_done = end;
}

/* One strip of up to mr rows past all panels; `done` tiles of the block are done. */
static void run_strip(struct worker *w, int i, long done)
{
    const struct gemm_job *j = w->job;
    const struct rp_gemm *g = j->g;
    const struct gemm_block *b = &w->now;
    const int mr = j->kernel->mr, nr = j->kernel->nr, in_band = (i - b->i0) % j->band, band = i - in_band;
    const int parity = (i - b->i0) / j->band % 2, row_follows = i + 2 * mr <= b->i1,
              band_follows = g->ta && band + j->band < b->i1;
    const float *const packed = w->a[parity] + in_band / GROUP * GROUP_FLOATS + in_band % GROUP;
    const float *const a = g->ta ? packed : g->a + i * g->lda + b->k0;
    int slice = in_band / mr * w->panels;
    struct rp_tile t;

    t.copy[0] = t.copy[1] = (struct rp_gemm_copy){.pieces = 0};
    t.runs = NULL;
    t.far = 0;
    t.is_short = 0;
    t.lda = g->lda;
    t.ldadd = g->ldadd;
    for (int q = 0; q < w->panels; q++, slice++) {
        const int col = q * nr, wrap = q + 1 == w->panels;
        const struct position at = {.i = i, .rows = min(mr, b->i1 - i), .col = col,
                                    .next_i = wrap && row_follows ? i + mr : i,
                                    .next_col = !wrap ? col + nr : row_follows ? 0 : col};
        t.a = a;
        t.b = w->b[w->flip] + (long)col * b->k;
        t.cols = min(nr, b->cols - col);
        t.bias = g->bias ? g->bias + b->j + col : NULL;
        t.add = g->add ? g->add + i * g->ldadd + b->j + col : NULL;
        if (g->ta)
            aim_packed(w, &t, band, slice);
        else
            aim_in_place(w, &t, &at, q);
        aim_ahead(w, &t);
        int p = due(w->band_rate, slice, b->k), end = due(w->band_rate, slice + 1, b->k);
        if (band_follows)
            p = give_a_copy(w, &t, w->a[!parity], band + j->band, p, end);
        if (at.rows == mr)
            give_b_copy(w, &t, due(w->ahead_rate, done + 1, w->ahead));
        compute_tile(w, &t, &at);
        if (band_follows && p < end)
            pack_band(j, b, w->a[!parity], band + j->band, p, end);
        pack_ahead(w, ++done);
    }
}

/* All tiles of the block, its B being packed. */
static void run_block(struct worker *w)
{
    const struct gemm_job *j = w->job;
    const struct gemm_block *b = &w->now;
    const int mr = j->kernel->mr;
    long done = 0;

    w->panels = cut(b->cols, j->kernel->nr);
    w->tiles = j->band / mr * w->panels;
    w->band_rate = rate(b->k, w->tiles);
    w->ahead = j->pack_ahead && w->next.valid ? b_units(j, &w->next) : 0;
    w->ahead_done = 0;
    w->ahead_rate = rate(w->ahead, (long)cut(b->i1 - b->i0, mr) * w->panels);
    if (j->g->ta)
        pack_band(j, b, w->a[0], b->i0, 0, b->k);
    for (int i = b->i0; i < b->i1; i += mr, done += w->panels)
        run_strip(w, i, done);
}

static void work(void *arg, int part, int thread)
{
    struct gemm_job *j = arg;
    struct worker w = {.job = j};
    float *p = rp_cpu_scratch(j->cpu, thread);
    const int lanes = j->kernel->lanes;
    int packed = 0;
    (void)part;
    for (int v = 0; v < j->kernel->nr / lanes; v++)
        w.b_vector[v] = v * lanes;
    for (int v = 0; v < j->band / lanes; v++)
        w.a_vector[v] = v * lanes / GROUP * (int)GROUP_FLOATS + v * lanes % GROUP;
    for (int i = 0; i < 2; i++) {
        w.b[i] = p + (size_t)i * B_FLOATS;
        w.a[i] = p + 2 * B_FLOATS + (size_t)i * A_FLOATS;
        w.plane[i] = p + 2 * B_FLOATS + 2 * A_FLOATS + (size_t)i * j->plane_floats;
    }
    for (w.now = block_after(j, w.now, 0); w.now.valid; w.now = w.next.valid ? w.next : block_after(j, w.now, 0)) {
        w.next = block_after(j, w.now, 1);
        if (!packed)
            pack_b(j, &w.now, w.b[w.flip], 0, b_units(j, &w.now));
        run_block(&w);
        packed = w.ahead > 0;
        w.flip = !w.flip;
    }
}

/* ---- the plan of a product ---- */

/* Planes get what the packing buffers leave: parts of the rows are cut so that their sums fit. */
static void plan_chains(struct gemm_job *j)
{
    const size_t left = j->cpu->scratch_each / sizeof(float) - 2 * B_FLOATS - 2 * A_FLOATS,
                 most = PLANE_FLOATS(PLANE_ROWS_MOST);
    const struct rp_gemm *g = j->g;
    RP_BUG_IF(j->cpu->scratch_each < rp_cpu_gemm_scratch(1, 0));
    j->segment = g->segment > 0 && g->segment < g->k ? g->segment : g->k;
    j->span = j->segment >= KC || j->segment == g->k ? j->segment : g->k <= KC ? g->k : KC / j->segment * j->segment;
    int planes = 0;
    j->sum_plane = g->add && g->add == g->c && (g->k > KC || j->segment < g->k) ? planes++ : -1;
    j->chain_plane = j->segment > KC && j->segment < g->k ? planes++ : -1;
    j->plane_floats = planes ? (left < most ? left : most) / (size_t)planes / GROUP * GROUP : 0;
}

/* Chunks: a multiple of the threads while they are few. Parts of the rows: only when chunks are fewer than threads, or
 * when partial sums must fit into a plane. */
static void plan_tasks(struct gemm_job *j)
{
    const struct rp_gemm *g = j->g;
    const int nr = j->kernel->nr, widest = g->ta ? COLS_PACKED : COLS_IN_PLACE;
    const double worth = (double)g->m * g->n * g->k / STEPS_PER_THREAD;
    j->threads = worth < j->cpu->threads ? 1 + (int)worth : j->cpu->threads;
    j->panels = cut(g->n, nr);
    j->chunks = cut(g->n, widest);
    if (j->chunks < 16 * j->threads)
        j->chunks = cut(j->chunks, j->threads) * j->threads;
    j->chunks = min(j->chunks, j->panels);
    j->chunk_cols = cut(j->panels, j->chunks) * nr;
    j->parts = j->chunks < j->threads ? cut(j->threads, j->chunks) : 1;
    j->part_rows = cut(cut(g->m, j->parts), GROUP) * GROUP;
    if (j->plane_floats) {
        int most = (int)(j->plane_floats / (size_t)j->chunk_cols) / GROUP * GROUP;
        j->part_rows = min(j->part_rows, most);
    }
    j->parts = cut(g->m, j->part_rows);
    j->copies_b = j->kernel->copies > 1 && !g->ta && !g->tb; /* copies of A^T leave no time for those of B */
    j->band = (j->kernel->copies > 1 ? GROUPS_MOST : 1) * GROUP;
    j->pack_ahead = j->part_rows <= ROWS_AHEAD;
}

void rp_cpu_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    struct rp_cpu *cpu = rp_cpu_of(dev);
    struct gemm_job j = {.g = g, .kernel = cpu->gemm, .cpu = cpu};
    plan_chains(&j);
    plan_tasks(&j);
    rp_pool_run(cpu->pool, j.threads, work, &j);
}

const struct rp_gemm_kernel *rp_cpu_gemm_kernel(enum rp_isa isa)
{
    static const struct rp_gemm_kernel *const kernels[RP_ISA_COUNT] = {
#define ROW(X, name, machine, ...) [RP_ISA_##name] = RP_KERNELS_##machine(&rp_gemm_##name),
        RP_ISA_ROWS(ROW, )
#undef ROW
    };
    return isa == RP_ISA_scalar && rp_isa_chooses_fma() ? RP_KERNELS_x86_64(&rp_gemm_scalar_fma) : kernels[isa];
}

/* Planes for the rows whose sums a forward product or data gradient keeps apart; short chains have only the smallest
 * ones. */
size_t rp_cpu_gemm_scratch(int rows, int segment)
{
    int most = segment > 0 && segment <= KC ? 0 : min(rows, PLANE_ROWS_MOST);
    return (2 * B_FLOATS + 2 * A_FLOATS + PLANE_FLOATS(most < PLANE_ROWS_LEAST ? PLANE_ROWS_LEAST : most)) *
           sizeof(float);
}
