/* NEON kernel: 8 x 12 tiles, 24 accumulators of 4 floats; with 3 vectors of B and 2 or 4 of A these are most of the 32
 * registers. A's elements are lanes of its vectors: rows of a packed group, or four k-steps of four rows that are read
 * in place, for which B is loaded twice. tests/bench/neon.sh counts the instructions.
 *
 * Volatile asm keeps the order of instructions: the compiler would load all of A first, and keep accumulators in
 * memory. */
#include "backend/cpu/gemm.h"

#include <arm_neon.h>
#include <string.h>

#define MR 8
#define NR 12
#define V 3
#define UNROLL _Pragma("GCC unroll 8")
#define ALWAYS static inline __attribute__((always_inline))

#define LOAD(x, p) __asm__ volatile("ldr %q0, %1" : "=w"(x) : "m"(*(const float32x4_t *)(p)))
#define FMA(acc, x, y, lane) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #lane "]" : "+w"(acc) : "w"(x), "w"(y))
#define BROADCAST(x, p) __asm__ volatile("ld1r {%0.4s}, %1" : "=w"(x) : "Q"(*(p)))

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && defined __OPTIMIZE__ && !defined __clang__
#pragma GCC optimize("O3")
#endif

/* r[v] = fma(x[v], lane of y, r[v]) */
ALWAYS void add_lane(float32x4_t r[V], const float32x4_t x[V], const float32x4_t y, const int lane, const int vectors)
{
    UNROLL for (int v = 0; v < vectors; v++)
    {
        if (lane == 0)
            FMA(r[v], x[v], y, 0);
        else if (lane == 1)
            FMA(r[v], x[v], y, 1);
        else if (lane == 2)
            FMA(r[v], x[v], y, 2);
        else
            FMA(r[v], x[v], y, 3);
    }
}

/* One k-step of rows that lie side by side: whole vectors of a group of 16 are there, also where rows do not exist. */
ALWAYS void step_packed(float32x4_t r[MR][V], const float *a, const float *b, const int rows, const int vectors)
{
    float32x4_t x[V], y[MR / 4];
    UNROLL for (int v = 0; v < vectors; v++) LOAD(x[v], b + 4 * v);
    UNROLL for (int i = 0; i < rows; i += 4) LOAD(y[i / 4], a + i);
    UNROLL for (int i = 0; i < rows; i++) add_lane(r[i], x, y[i / 4], i % 4, vectors);
}

/* Four k-steps in place, four rows after the other. */
ALWAYS void steps_in_place(float32x4_t r[MR][V], const char *const row[MR], long at, const float *b, const int rows,
                           const int vectors)
{
    UNROLL for (int first = 0; first < rows; first += 4)
    {
        const int end = first + 4 < rows ? first + 4 : rows;
        float32x4_t x[V], y[4];
        UNROLL for (int i = first; i < end; i++) LOAD(y[i - first], row[i] + at);
        UNROLL for (int k = 0; k < 4; k++)
        {
            UNROLL for (int v = 0; v < vectors; v++) LOAD(x[v], b + k * NR + 4 * v);
            UNROLL for (int i = first; i < end; i++) add_lane(r[i], x, y[i - first], k, vectors);
        }
    }
}

ALWAYS void step_in_place(float32x4_t r[MR][V], const float *a, long lda, const float *b, const int rows,
                          const int vectors)
{
    float32x4_t x[V], y;
    UNROLL for (int v = 0; v < vectors; v++) LOAD(x[v], b + 4 * v);
    UNROLL for (int i = 0; i < rows; i++)
    {
        BROADCAST(y, a + i * lda);
        add_lane(r[i], x, y, 0, vectors);
    }
}

ALWAYS void chain(float32x4_t r[MR][V], const struct rp_tile *t, const int rows, const int vectors, const int in_place)
{
    const float *a = t->a, *b = t->b, *h0 = (const float *)t->ahead[0].at, *h1 = (const float *)t->ahead[1].at;
    const char *row[MR]; /* with an offset in bytes, an address of each is one instruction's */
    const struct rp_gemm_run all = {t->k, 0}, *run = !in_place && t->runs ? t->runs : &all;
    UNROLL for (int i = 0; i < rows; i++) row[i] = (const char *)(a + i * t->lda);
    for (long k = 0; k < t->k; b += run->skip, run++) {
        const long end = k + run->steps;
        for (; k + 4 <= end; k += 4, b += 4 * NR) {
            if (k % 16 < 4) {
                __builtin_prefetch(h0, 0, 2);
                __builtin_prefetch(h1, 0, 2);
                h0 = (const float *)((const char *)h0 + t->ahead[0].step);
                h1 = (const float *)((const char *)h1 + t->ahead[1].step);
            }
            if (in_place)
                steps_in_place(r, row, k * (long)sizeof *a, b, rows, vectors);
            else
                UNROLL for (int i = 0; i < 4; i++)
                    step_packed(r, a + (k + i) * RP_GEMM_GROUP, b + i * NR, rows, vectors);
        }
        for (; k < end; k++, b += NR)
            if (in_place)
                step_in_place(r, a + k, t->lda, b, rows, vectors);
            else
                step_packed(r, a + k * RP_GEMM_GROUP, b, rows, vectors);
    }
}

/* Vector v of the first n columns; lanes that do not exist are +0, and their memory is not touched. */
ALWAYS float32x4_t load(const float *p, int n, int v, const int whole)
{
    float lane[4] = {0};
    if (whole || n >= 4 * v + 4)
        return vld1q_f32(p + 4 * v);
    for (int i = 0; 4 * v + i < n; i++)
        lane[i] = p[4 * v + i];
    return vld1q_f32(lane);
}

ALWAYS void store(float *p, float32x4_t x, int n, int v, const int whole)
{
    float lane[4];
    if (whole || n >= 4 * v + 4) {
        vst1q_f32(p + 4 * v, x);
        return;
    }
    vst1q_f32(lane, x);
    for (int i = 0; 4 * v + i < n; i++)
        p[4 * v + i] = lane[i];
}

ALWAYS void tile(const struct rp_tile *t, const int rows, const int vectors, const int in_place, const int whole)
{
    float32x4_t r[MR][V];
    const int n = t->cols;
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = t->from ? load(t->from + i * t->ldfrom, n, v, whole) : vdupq_n_f32(0.0f);
    }
    chain(r, t, rows, vectors, in_place);
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int v = 0; v < vectors; v++)
        {
            float32x4_t x = t->sum ? load(t->sum + i * t->ldsum, n, v, whole) + r[i][v] : r[i][v];
            if (t->last) {
                x = x + vdupq_n_f32(0.0f);
                x = t->bias ? x + load(t->bias, n, v, whole) : x;
                x = t->add ? x + load(t->add + i * t->ldadd, n, v, whole) : x;
            }
            store(t->c + i * t->ldc, x, n, v, whole);
        }
    }
}

/* By rows and vectors, whole panels and those whose last vector may be a part: columns that the last panel lacks are
 * not computed. */
#define TILE(name, vectors, whole, rows)                                                                               \
    static __attribute__((noinline)) void in_place_##rows##_##name(const struct rp_tile *t)                            \
    {                                                                                                                  \
        tile(t, rows, vectors, 1, whole);                                                                              \
    }                                                                                                                  \
    static __attribute__((noinline)) void packed_##rows##_##name(const struct rp_tile *t)                              \
    {                                                                                                                  \
        tile(t, rows, vectors, 0, whole);                                                                              \
    }
#define ROWS(rows) TILE(1, 1, 0, rows) TILE(2, 2, 0, rows) TILE(3, 3, 0, rows) TILE(whole, V, 1, rows)
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
ROWS(5)
ROWS(6)
ROWS(7)
ROWS(8)

typedef void (*tile_fn)(const struct rp_tile *t);
#define FUNCTIONS(form, rows) {form##_##rows##_1, form##_##rows##_2, form##_##rows##_3, form##_##rows##_whole}
#define TABLE(form)                                                                                                    \
    {FUNCTIONS(form, 1), FUNCTIONS(form, 2), FUNCTIONS(form, 3), FUNCTIONS(form, 4),                                   \
     FUNCTIONS(form, 5), FUNCTIONS(form, 6), FUNCTIONS(form, 7), FUNCTIONS(form, 8)}
static const tile_fn in_place_of[MR][V + 1] = TABLE(in_place);
static const tile_fn packed_of[MR][V + 1] = TABLE(packed);

static void in_place(const struct rp_tile *t, int rows)
{
    in_place_of[rows - 1][t->cols == NR ? V : (t->cols - 1) / 4](t);
}

static void packed(const struct rp_tile *t, int rows)
{
    packed_of[rows - 1][t->cols == NR ? V : (t->cols - 1) / 4](t);
}

static void copy_row(float *dst, long stride, const float *src, const float *ahead, int panels)
{
    (void)ahead;
    for (int p = 0; p < panels; p++)
        memcpy(dst + p * stride, src + (long)p * NR, NR * sizeof *dst);
}

ALWAYS void transpose_4(float *dst, const float *src, long ld)
{
    const float32x4x2_t a = vtrnq_f32(vld1q_f32(src), vld1q_f32(src + ld));
    const float32x4x2_t b = vtrnq_f32(vld1q_f32(src + 2 * ld), vld1q_f32(src + 3 * ld));
    UNROLL for (int i = 0; i < 2; i++)
    {
        vst1q_f32(dst + i * NR, vcombine_f32(vget_low_f32(a.val[i]), vget_low_f32(b.val[i])));
        vst1q_f32(dst + (i + 2) * NR, vcombine_f32(vget_high_f32(a.val[i]), vget_high_f32(b.val[i])));
    }
}

static void transpose(float *dst, const float *src, long ld, int cols)
{
    for (int j = 0; j < cols; j += 4)
        for (int k = 0; k < 16; k += 4)
            transpose_4(dst + k * NR + j, src + j * ld + k, ld);
}

static void copy_group(float *dst, const float *src, long ld, int k)
{
    for (int p = 0; p < k; p++)
        memcpy(dst + (long)p * RP_GEMM_GROUP, src + p * ld, RP_GEMM_GROUP * sizeof *dst);
}

const struct rp_gemm_kernel rp_gemm_neon = {MR, NR, 4, MR, 0, in_place, packed, NULL, 0, copy_row, transpose,
                                            copy_group};
