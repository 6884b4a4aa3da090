/* AVX2 kernel: 4 x 24 tiles, 12 accumulators of 8 floats; with 3 vectors of B and 1 broadcast of A that is all 16
 * registers.
 *
 *              b0         b1         b2
 *   a[0] *  r[0][0]    r[0][1]    r[0][2]        7 loads for 12 FMAs; 6 x 16 would need 8 and leaves rows over:
 *   a[1] *  r[1][0]    ...                       BERT's row counts divide by 4 and its widths by 24
 *
 * Volatile asm keeps the order of instructions, as in gemm_avx512.c. */
#include "backend/cpu/gemm.h"

#include <immintrin.h>

#define MR 4
#define TALL 6 /* rows of tiles of 16 columns: eight accumulators would wait for their own results */
#define NR 24
#define V 3
#define UNROLL _Pragma("GCC unroll 8")
#define ALWAYS static inline __attribute__((always_inline))

#define FMA(acc, x, y) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(x), "x"(y))
#define BROADCAST(x, p) __asm__ volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(*(p)))
#define LOAD(x, p) __asm__ volatile("vmovaps %1, %0" : "=x"(x) : "m"(*(const __m256 *)(p)))

/* Where the rows of A are: in place by pointers two rows apart, packed by one. */
struct gemm_avx2_rows {
    const char *p0, *p2, *p4;
    long step; /* bytes between rows */
};

ALWAYS const float *row_at(const struct gemm_avx2_rows *a, int i, int in_place, int k)
{
    if (!in_place)
        return (const float *)a->p0 + k * RP_GEMM_GROUP + i;
    return (const float *)((i < 2 ? a->p0 : i < 4 ? a->p2 : a->p4) + (i % 2) * a->step) + k;
}

ALWAYS void step(__m256 r[TALL][V], const struct gemm_avx2_rows *a, const float *b, const int rows, const int vectors,
                 const int in_place, const int k)
{
    /* named: left alone, the compiler moves accumulators about */
    register __m256 b0 __asm__("ymm12"), b1 __asm__("ymm13"), b2 __asm__("ymm14");
    LOAD(b0, b + k * NR);
    if (vectors > 1)
        LOAD(b1, b + k * NR + 8);
    if (vectors > 2)
        LOAD(b2, b + k * NR + 16);
    UNROLL for (int i = 0; i < rows; i++) {
        register __m256 x __asm__("ymm15");
        BROADCAST(x, row_at(a, i, in_place, k));
        FMA(r[i][0], x, b0);
        if (vectors > 1)
            FMA(r[i][1], x, b1);
        if (vectors > 2)
            FMA(r[i][2], x, b2);
    }
}

ALWAYS void advance(struct gemm_avx2_rows *a, int in_place, long k)
{
    long bytes = (in_place ? k : k * RP_GEMM_GROUP) * (long)sizeof(float);
    a->p0 += bytes;
    a->p2 += bytes;
    a->p4 += bytes;
}

/* The next tile of C: two lines of each row, one row per 16 k-steps. */
ALWAYS void fetch_row(const float *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
    _mm_prefetch((const char *)(p + NR - 1), _MM_HINT_T0);
}

ALWAYS void copy_piece(struct rp_gemm_copy *c)
{
    for (int v = 0; v < c->vectors; v++)
        _mm256_store_ps(c->to + c->at[v], _mm256_loadu_ps(c->from + 8 * v));
    if (c->ahead) {
        for (int v = 0; v < c->vectors; v += 2)
            _mm_prefetch((const char *)(c->ahead + 8 * v), _MM_HINT_T1);
        c->ahead += c->step;
    }
    c->from += c->step;
    c->to += c->to_step;
    c->pieces--;
}

ALWAYS const float *four_steps(__m256 r[TALL][V], struct gemm_avx2_rows *a, const float *b, const int rows,
                               const int vectors, const int in_place)
{
    step(r, a, b, rows, vectors, in_place, 0);
    step(r, a, b, rows, vectors, in_place, 1);
    step(r, a, b, rows, vectors, in_place, 2);
    step(r, a, b, rows, vectors, in_place, 3);
    advance(a, in_place, 4);
    return b + 4 * NR;
}

/* All k-steps of a tile; `step` in fours, hints once per sixteen. */
ALWAYS void chain_in_place(__m256 r[TALL][V], const struct rp_tile *t, const int rows, const int vectors)
{
    long bytes = t->lda * (long)sizeof(float);
    const char *p = (const char *)t->a;
    struct gemm_avx2_rows a = {p, p + 2 * bytes, p + 4 * bytes, bytes};
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step;

    for (long n = 0; n < t->k / 16; n++) {
        _mm_prefetch(h0, _MM_HINT_T1);
        _mm_prefetch(h1, _MM_HINT_T1);
        h0 += s0;
        h1 += s1;
        if (n < rows && t->next_c)
            fetch_row(t->next_c + n * t->ldc);
        else if (n >= rows && n < 2 * rows && t->next_add)
            fetch_row(t->next_add + (n - rows) * t->ldadd);
        for (int four = 0; four < 4; four++)
            b = four_steps(r, &a, b, rows, vectors, 1);
    }
    for (long n = t->k % 16; n > 0; n--) {
        step(r, &a, b, rows, vectors, 1, 0);
        advance(&a, 1, 1);
        b += NR;
    }
}

/* The same of a packed one, whose runs may be shorter than sixteen. */
ALWAYS void chain_packed(__m256 r[TALL][V], const struct rp_tile *t, const int rows, const int vectors)
{
    const char *p = (const char *)t->a;
    struct gemm_avx2_rows a = {p, p, p, 0};
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step;
    struct rp_gemm_copy copy0 = t->copy[0], copy1 = t->copy[1];
    const struct rp_gemm_run all = {t->k, 0}, *run = t->runs ? t->runs : &all;

    for (long left = t->k, n = 0; left > 0; left -= run->steps, b += run->skip, run++)
        for (long steps = run->steps; steps > 0; steps -= 16, n++) {
            const long some = steps < 16 ? steps : 16;
            _mm_prefetch(h0, _MM_HINT_T1);
            _mm_prefetch(h1, _MM_HINT_T1);
            h0 += s0;
            h1 += s1;
            if (n < rows && t->next_c)
                fetch_row(t->next_c + n * t->ldc);
            else if (n >= rows && n < 2 * rows && t->next_add)
                fetch_row(t->next_add + (n - rows) * t->ldadd);
            if (copy0.pieces)
                copy_piece(&copy0);
            if (copy1.pieces)
                copy_piece(&copy1);
            for (long four = some / 4; four > 0; four--)
                b = four_steps(r, &a, b, rows, vectors, 0);
            for (long one = some % 4; one > 0; one--) {
                step(r, &a, b, rows, vectors, 0, 0);
                advance(&a, 0, 1);
                b += NR;
            }
        }
}

/* In place, by runs. */
ALWAYS void chain_in_runs(__m256 r[TALL][V], const struct rp_tile *t, const int rows, const int vectors)
{
    const long bytes = t->lda * (long)sizeof(float), jump = t->jump * (long)sizeof(float);
    const char *p = (const char *)t->a;
    struct gemm_avx2_rows a = {p, p + 2 * bytes + (t->jump_row <= 2 ? jump : 0),
                               p + 4 * bytes + (t->jump_row <= 4 ? jump : 0), bytes};
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step;
    const struct rp_gemm_run *run = t->runs;

    for (long left = t->k, n = 0; left > 0; left -= run->steps, advance(&a, 1, run->skip), run++)
        for (long steps = run->steps; steps > 0; steps -= 16, n++) {
            const long some = steps < 16 ? steps : 16;
            _mm_prefetch(h0, _MM_HINT_T1);
            _mm_prefetch(h1, _MM_HINT_T1);
            h0 += s0;
            h1 += s1;
            if (n < rows && t->next_c)
                fetch_row(t->next_c + n * t->ldc);
            for (long four = some / 4; four > 0; four--)
                b = four_steps(r, &a, b, rows, vectors, 1);
            for (long one = some % 4; one > 0; one--) {
                step(r, &a, b, rows, vectors, 1, 0);
                advance(&a, 1, 1);
                b += NR;
            }
        }
}

/* Lanes that exist, one all-ones or zero word per column: lane v of the mask of `cols` is edge[NR - cols + v]. */
static const int edge[2 * NR] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                 -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

ALWAYS __m256i lanes(int cols, int v)
{
    return _mm256_loadu_si256((const __m256i *)(edge + NR - cols + 8 * v));
}

ALWAYS __m256 load(const float *p, int cols, int v, int whole)
{
    return whole ? _mm256_loadu_ps(p + 8 * v) : _mm256_maskload_ps(p + 8 * v, lanes(cols, v));
}

ALWAYS void store(float *p, __m256 x, int cols, int v, int whole)
{
    if (whole)
        _mm256_storeu_ps(p + 8 * v, x);
    else
        _mm256_maskstore_ps(p + 8 * v, lanes(cols, v), x);
}

enum gemm_avx2_chain { CHAIN_PACKED, CHAIN_IN_PLACE, CHAIN_IN_RUNS };

ALWAYS void tile(const struct rp_tile *t, const int rows, const int vectors, const enum gemm_avx2_chain chain,
                 const int whole)
{
    __m256 r[TALL][V];
    const int n = t->cols;
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) r[i][v] = _mm256_setzero_ps();
    if (t->from)
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = load(t->from + i * t->ldfrom, n, v, whole);
    if (chain == CHAIN_IN_RUNS)
        chain_in_runs(r, t, rows, vectors);
    else if (chain == CHAIN_IN_PLACE)
        chain_in_place(r, t, rows, vectors);
    else
        chain_packed(r, t, rows, vectors);
    if (t->sum)
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = _mm256_add_ps(load(t->sum + i * t->ldsum, n, v, whole), r[i][v]);
    if (t->last) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = _mm256_add_ps(r[i][v], _mm256_setzero_ps());
        if (t->bias)
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
                r[i][v] = _mm256_add_ps(r[i][v], load(t->bias, n, v, whole));
        if (t->add)
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
                r[i][v] = _mm256_add_ps(r[i][v], load(t->add + i * t->ldadd, n, v, whole));
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        store(t->c + i * t->ldc, r[i][v], n, v, whole);
}

/* By rows and vectors, whole panels and those whose last vector has a mask: columns that the last panel lacks are not
 * computed. */
#define EDGE(rows, vectors)                                                                                            \
    static __attribute__((noinline)) void in_place_##rows##_##vectors(const struct rp_tile *t)                         \
    {                                                                                                                  \
        tile(t, rows, vectors, CHAIN_IN_PLACE, 0);                                                                     \
    }                                                                                                                  \
    static __attribute__((noinline)) void packed_##rows##_##vectors(const struct rp_tile *t)                           \
    {                                                                                                                  \
        tile(t, rows, vectors, CHAIN_PACKED, 0);                                                                       \
    }
#define TILE(rows)                                                                                                     \
    static __attribute__((noinline)) void in_place_##rows(const struct rp_tile *t)                                     \
    {                                                                                                                  \
        tile(t, rows, V, CHAIN_IN_PLACE, 1);                                                                           \
    }                                                                                                                  \
    static __attribute__((noinline)) void packed_##rows(const struct rp_tile *t)                                       \
    {                                                                                                                  \
        tile(t, rows, V, CHAIN_PACKED, 1);                                                                             \
    }                                                                                                                  \
    EDGE(rows, 1)                                                                                                      \
    EDGE(rows, 2)                                                                                                      \
    EDGE(rows, 3)
TILE(4)
TILE(3)
TILE(2)
TILE(1)
static __attribute__((noinline)) void in_place_tall(const struct rp_tile *t)
{
    tile(t, TALL, 2, CHAIN_IN_PLACE, 0);
}

#define RUNS(name, rows, vectors, whole)                                                                               \
    static __attribute__((noinline)) void name(const struct rp_tile *t)                                                \
    {                                                                                                                  \
        tile(t, rows, vectors, CHAIN_IN_RUNS, whole);                                                                  \
    }
RUNS(runs_1, MR, 1, 0)
RUNS(runs_2, MR, 2, 0)
RUNS(runs_3, MR, 3, 0)
RUNS(runs_whole, MR, 3, 1)
RUNS(runs_tall, TALL, 2, 0)

/* [rows - 1][vectors - 1], and last the whole panel */
typedef void (*tile_fn)(const struct rp_tile *t);
#define FUNCTIONS(form, rows) {form##_##rows##_1, form##_##rows##_2, form##_##rows##_3, form##_##rows}
static const tile_fn in_place_of[MR][V + 1] = {FUNCTIONS(in_place, 1), FUNCTIONS(in_place, 2), FUNCTIONS(in_place, 3),
                                               FUNCTIONS(in_place, 4)};
static const tile_fn packed_of[MR][V + 1] = {FUNCTIONS(packed, 1), FUNCTIONS(packed, 2), FUNCTIONS(packed, 3),
                                             FUNCTIONS(packed, 4)};

static void in_place(const struct rp_tile *t, int rows)
{
    if (rows == TALL)
        in_place_tall(t);
    else
        in_place_of[rows - 1][t->cols == NR ? V : (t->cols - 1) / 8](t);
}

static void packed(const struct rp_tile *t, int rows)
{
    packed_of[rows - 1][t->cols == NR ? V : (t->cols - 1) / 8](t);
}

static void in_runs(const struct rp_tile *t, int rows)
{
    static const tile_fn of[V + 1] = {runs_1, runs_2, runs_3, runs_whole};
    if (rows == TALL)
        runs_tall(t);
    else
        of[t->cols == NR ? V : (t->cols - 1) / 8](t);
}

static void copy_row(float *dst, long stride, const float *src, const float *ahead, int panels)
{
    for (; panels > 0; panels--, src += NR, ahead += NR, dst += stride) {
        _mm_prefetch((const char *)ahead, _MM_HINT_T0);
        _mm_prefetch((const char *)(ahead + 16), _MM_HINT_T0);
        UNROLL for (int v = 0; v < V; v++) _mm256_store_ps(dst + 8 * v, _mm256_loadu_ps(src + 8 * v));
    }
}

/* 8 x 8: pairs of floats, then pairs of pairs, then halves of a register change places. */
ALWAYS void transpose8(float *dst, const float *src, long ld)
{
    __m256 r[8], t[8];
    UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(src + i * ld);
    UNROLL for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int h = 0; h < 2; h++) {
        __m256d x = _mm256_castps_pd(t[4 * i + h]), y = _mm256_castps_pd(t[4 * i + 2 + h]);
        r[4 * i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
        r[4 * i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
    }
    UNROLL for (int i = 0; i < 4; i++) {
        _mm256_store_ps(dst + i * NR, _mm256_permute2f128_ps(r[i], r[4 + i], 0x20));
        _mm256_store_ps(dst + (4 + i) * NR, _mm256_permute2f128_ps(r[i], r[4 + i], 0x31));
    }
}

static void transpose(float *dst, const float *src, long ld, int cols)
{
    for (int j = 0; j < cols; j += 8) {
        transpose8(dst + j, src + j * ld, ld);
        transpose8(dst + j + 8 * NR, src + j * ld + 8, ld);
    }
}

static void copy_group(float *dst, const float *src, long ld, int k)
{
    for (int p = 0; p < k; p++) {
        _mm256_store_ps(dst + (long)p * RP_GEMM_GROUP, _mm256_loadu_ps(src + p * ld));
        _mm256_store_ps(dst + (long)p * RP_GEMM_GROUP + 8, _mm256_loadu_ps(src + p * ld + 8));
    }
}

/* in_runs: past more panels, gathering costs less than the misses of L1 that it saves */
#define RUNS_PANELS 3
const struct rp_gemm_kernel rp_gemm_avx2 = {MR, NR, 8, TALL, 1, in_place, packed, in_runs, RUNS_PANELS, copy_row,
                                            transpose, copy_group};
