/* AVX-512 kernel: 8 x 48 tiles, 24 accumulators of 16 floats.
 *
 *              b0         b1         b2          3 loads of B per k-step (from L2: 192 bytes in 12 cycles)
 *   a[0] *  r[0][0]    r[0][1]    r[0][2]        one scalar broadcast of A feeds three FMAs: 11 loads for 24 FMAs
 *   a[1] *  r[1][2] <- r[1][1] <- r[1][0]        rows alternate direction, so that neighbours share an operand
 *   ...
 *
 * Every instruction of the inner step is its own volatile asm: the compiler may not change their order, which is worth
 * several percent. An asm instruction cannot be contracted or reassociated either. */
#include "backend/cpu/gemm.h"

#include <immintrin.h>

#define MR 8
#define TALL 12 /* rows of tiles of 32 columns */
#define NR 48
#define V 3 /* vectors per row of a tile */
#define UNROLL _Pragma("GCC unroll 16")
#define ALWAYS static inline __attribute__((always_inline))

#define FMA(acc, x, y) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y))
#define LOAD(x, p, bytes) __asm__ volatile("vmovaps %c2(%1), %0" : "=v"(x) : "r"(p), "i"(bytes))
#define BROADCAST(x, p, bytes) __asm__ volatile("vbroadcastss %c2(%1), %0" : "=v"(x) : "r"(p), "i"(bytes))
#define BROADCAST_ROW(x, p, rows, step, bytes)                                                                         \
    __asm__ volatile("vbroadcastss %c3(%1,%2," #rows "), %0" : "=v"(x) : "r"(p), "r"(step), "i"(bytes))

/* The compiler keeps integers that do not fit in vector registers rather than on the stack, and an instruction that
 * moves one back takes a cycle of a port of the FMAs. */
#define NO_SPILLS __asm__ volatile("" ::: "xmm28", "xmm29", "xmm30", "xmm31")

enum gemm_avx512_form { PACKED_ROWS, ROWS_IN_PLACE, PAIRS_IN_PLACE };

/* Where the rows of A are at this k-step: in place by pointers three rows apart, since an x86 address can add one or
 * two steps but not three, or where they come in two parts by pointers two rows apart; packed by one pointer. */
struct gemm_avx512_rows {
    const char *at[TALL / 2];
    long step; /* bytes between rows */
};

ALWAYS __m512 broadcast(const struct gemm_avx512_rows *a, const int i, const int form, const int k)
{
    __m512 x;
    const int each = form == PAIRS_IN_PLACE ? 2 : 3;
    const char *p = a->at[form == PACKED_ROWS ? 0 : i / each];
    if (form == PACKED_ROWS)
        BROADCAST(x, p, 4 * (k * RP_GEMM_GROUP + i));
    else if (i % each == 0)
        BROADCAST(x, p, 4 * k);
    else if (i % each == 1)
        BROADCAST_ROW(x, p, 1, a->step, 4 * k);
    else
        BROADCAST_ROW(x, p, 2, a->step, 4 * k);
    return x;
}

/* One k-step. B sits in named registers: left alone, the compiler moves accumulators about. */
ALWAYS void step(__m512 r[TALL][V], const struct gemm_avx512_rows *a, const float *b, const int rows, const int vectors,
                 const int form, const int k)
{
    register __m512 b0 __asm__("zmm24"), b1 __asm__("zmm25"), b2 __asm__("zmm26");
    LOAD(b0, b, 4 * (k * NR));
    if (vectors > 1)
        LOAD(b1, b, 4 * (k * NR + 16));
    if (vectors > 2)
        LOAD(b2, b, 4 * (k * NR + 32));
    UNROLL for (int i = 0; i < rows; i++) {
        const __m512 x = broadcast(a, i, form, k);
        if (i & 1) {
            if (vectors > 2)
                FMA(r[i][2], x, b2);
            if (vectors > 1)
                FMA(r[i][1], x, b1);
            FMA(r[i][0], x, b0);
        } else {
            FMA(r[i][0], x, b0);
            if (vectors > 1)
                FMA(r[i][1], x, b1);
            if (vectors > 2)
                FMA(r[i][2], x, b2);
        }
    }
}

ALWAYS void advance(struct gemm_avx512_rows *a, const int form, const long k)
{
    const long bytes = 4 * (form == PACKED_ROWS ? k * RP_GEMM_GROUP : k);
    UNROLL for (int n = 0; n < TALL / 2; n++) a->at[n] += bytes;
}

/* Fetch the lines of a tile of C (and of `add`) one at a time: all at once would fill the core's 16 line buffers. */
struct tile_lines {
    const char *at;
    long row_gap;
    int left;
};

ALWAYS struct tile_lines tile_lines(const float *p, long ld, int rows)
{
    return (struct tile_lines){(const char *)p, ld * (long)sizeof(float) - 2 * 64, p ? V * rows : 0};
}

ALWAYS void fetch_line(struct tile_lines *l)
{
    _mm_prefetch(l->at, _MM_HINT_T0);
    l->at += --l->left % V ? 64 : l->row_gap;
}

ALWAYS void copy_vectors(const struct rp_gemm_copy *c, const int vectors)
{
    UNROLL for (int v = 0; v < vectors; v++) _mm512_store_ps(c->to + c->at[v], _mm512_loadu_ps(c->from + 16 * v));
    if (c->ahead)
        UNROLL for (int v = 0; v < vectors; v++) _mm_prefetch((const char *)(c->ahead + 16 * v), _MM_HINT_T1);
}

/* one, other: what gemm.c and weight gradients of convolutions mostly have; a loop over vectors takes twice as long */
ALWAYS void copy_piece(struct rp_gemm_copy *c, const int one, const int other)
{
    if (c->vectors == one)
        copy_vectors(c, one);
    else if (c->vectors == other)
        copy_vectors(c, other);
    else
        for (int v = 0; v < c->vectors; v++) {
            _mm512_store_ps(c->to + c->at[v], _mm512_loadu_ps(c->from + 16 * v));
            if (c->ahead)
                _mm_prefetch((const char *)(c->ahead + 16 * v), _MM_HINT_T1);
        }
    if (c->ahead)
        c->ahead += c->step;
    c->from += c->step;
    c->to += c->to_step;
    c->pieces--;
}

ALWAYS const float *four_steps(__m512 r[TALL][V], struct gemm_avx512_rows *a, const float *b, const int rows,
                               const int vectors, const int form)
{
    step(r, a, b, rows, vectors, form, 0);
    step(r, a, b, rows, vectors, form, 1);
    step(r, a, b, rows, vectors, form, 2);
    step(r, a, b, rows, vectors, form, 3);
    advance(a, form, 4);
    return b + 4 * NR;
}

/* All k-steps of a tile; `step` in fours, hints once per sixteen. */
ALWAYS void chain_in_place(__m512 r[TALL][V], const struct rp_tile *t, const int rows, const int vectors)
{
    long bytes = t->lda * (long)sizeof(float);
    const char *p = (const char *)t->a;
    struct gemm_avx512_rows a = {{p, p + 3 * bytes, p + 6 * bytes, p + 9 * bytes}, bytes};
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step, far = t->far;
    struct rp_gemm_copy copy1 = t->copy[1];
    struct tile_lines c = tile_lines(t->next_c, t->ldc, rows), add = tile_lines(t->next_add, t->ldadd, rows);

    for (long n = t->k / 16; n > 0; n--) {
        NO_SPILLS;
        _mm_prefetch(h0, _MM_HINT_T1);
        _mm_prefetch(h1, _MM_HINT_T1);
        if (far) {
            _mm_prefetch(h0 + far, _MM_HINT_T1);
            _mm_prefetch(h1 + far, _MM_HINT_T1);
        }
        h0 += s0;
        h1 += s1;
        if (c.left)
            fetch_line(&c);
        else if (add.left)
            fetch_line(&add);
        if (copy1.pieces)
            copy_piece(&copy1, 3, 3);
        for (int four = 0; four < 4; four++)
            b = four_steps(r, &a, b, rows, vectors, ROWS_IN_PLACE);
    }
    for (long n = t->k % 16; n > 0; n--) {
        step(r, &a, b, rows, vectors, ROWS_IN_PLACE, 0);
        advance(&a, ROWS_IN_PLACE, 1);
        b += NR;
    }
}

/* The same of few k-steps, a multiple of 16: all lines of the next tile of C, in two rows per sixteen steps, or one;
 * no branches, which cost more than the lines. */
#define SHORT 128

ALWAYS void fetch_row(const char **p, long step, const int vectors)
{
    UNROLL for (int v = 0; v < vectors; v++) _mm_prefetch(*p + 64 * v, _MM_HINT_T0);
    *p += step;
}

ALWAYS void chain_short(__m512 r[TALL][V], const struct rp_tile *t, const int vectors)
{
    long bytes = t->lda * (long)sizeof(float);
    const char *p = (const char *)t->a;
    struct gemm_avx512_rows a = {{p, p + 3 * bytes, p + 6 * bytes, p + 9 * bytes}, bytes};
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at, *c = (const char *)t->next_c;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step, next_row = t->ldc * (long)sizeof(float);
    const int twice = t->k < SHORT;

    for (long n = t->k / 16; n > 0; n--) {
        NO_SPILLS;
        _mm_prefetch(h0, _MM_HINT_T1);
        _mm_prefetch(h1, _MM_HINT_T1);
        h0 += s0;
        h1 += s1;
        fetch_row(&c, next_row, vectors);
        if (twice)
            fetch_row(&c, next_row, vectors);
        UNROLL for (int four = 0; four < 4; four++) b = four_steps(r, &a, b, MR, vectors, ROWS_IN_PLACE);
    }
}

/* The same of a packed one, whose runs may be shorter than sixteen. */
ALWAYS void chain_packed(__m512 r[TALL][V], const struct rp_tile *t, const int rows, const int vectors)
{
    const char *p = (const char *)t->a;
    struct gemm_avx512_rows a = {.at = {p}};
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step;
    struct rp_gemm_copy copy0 = t->copy[0], copy1 = t->copy[1];
    const struct rp_gemm_run all = {t->k, 0}, *run = t->runs ? t->runs : &all;
    struct tile_lines c = tile_lines(t->next_c, t->ldc, rows), add = tile_lines(t->next_add, t->ldadd, rows);

    for (long left = t->k; left > 0; left -= run->steps, b += run->skip, run++)
        for (long steps = run->steps; steps > 0; steps -= 16) {
            const long some = steps < 16 ? steps : 16;
            NO_SPILLS;
            _mm_prefetch(h0, _MM_HINT_T1);
            _mm_prefetch(h1, _MM_HINT_T1);
            h0 += s0;
            h1 += s1;
            if (c.left)
                fetch_line(&c);
            else if (add.left)
                fetch_line(&add);
            if (copy0.pieces)
                copy_piece(&copy0, 2, 4);
            if (copy1.pieces)
                copy_piece(&copy1, 3, 3);
            for (long four = some / 4; four > 0; four--)
                b = four_steps(r, &a, b, rows, vectors, PACKED_ROWS);
            for (long one = some % 4; one > 0; one--) {
                step(r, &a, b, rows, vectors, PACKED_ROWS, 0);
                advance(&a, PACKED_ROWS, 1);
                b += NR;
            }
        }
}

/* In place, by runs. */
ALWAYS void chain_in_runs(__m512 r[TALL][V], const struct rp_tile *t, const int rows, const int vectors)
{
    const long bytes = t->lda * (long)sizeof(float), jump = t->jump * (long)sizeof(float);
    const char *p = (const char *)t->a;
    struct gemm_avx512_rows a = {.step = bytes};
    UNROLL for (int n = 0; n < TALL / 2; n++) a.at[n] = p + 2 * n * bytes + (t->jump_row <= 2 * n ? jump : 0);
    const float *b = t->b;
    const char *h0 = t->ahead[0].at, *h1 = t->ahead[1].at;
    const long s0 = t->ahead[0].step, s1 = t->ahead[1].step;
    const struct rp_gemm_run *run = t->runs;
    struct tile_lines c = tile_lines(t->next_c, t->ldc, rows);

    for (long left = t->k; left > 0; left -= run->steps, advance(&a, PAIRS_IN_PLACE, run->skip), run++)
        for (long steps = run->steps; steps > 0; steps -= 16) {
            const long some = steps < 16 ? steps : 16;
            NO_SPILLS;
            _mm_prefetch(h0, _MM_HINT_T1);
            _mm_prefetch(h1, _MM_HINT_T1);
            h0 += s0;
            h1 += s1;
            if (c.left)
                fetch_line(&c);
            for (long four = some / 4; four > 0; four--)
                b = four_steps(r, &a, b, rows, vectors, PAIRS_IN_PLACE);
            for (long one = some % 4; one > 0; one--) {
                step(r, &a, b, rows, vectors, PAIRS_IN_PLACE, 0);
                advance(&a, PAIRS_IN_PLACE, 1);
                b += NR;
            }
        }
}

enum gemm_avx512_chain { CHAIN_PACKED, CHAIN_IN_PLACE, CHAIN_SHORT, CHAIN_IN_RUNS };

ALWAYS void tile(const struct rp_tile *t, const int rows, const int vectors, const enum gemm_avx512_chain chain)
{
    __m512 r[TALL][V];
    const __m512 zero = _mm512_setzero_ps();
    const unsigned long long mask = (1ull << t->cols) - 1;
    const __mmask16 m[V] = {(__mmask16)mask, (__mmask16)(mask >> 16), (__mmask16)(mask >> 32)};

    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) r[i][v] = zero;
    if (t->from)
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = _mm512_maskz_loadu_ps(m[v], t->from + i * t->ldfrom + 16 * v);
    if (chain == CHAIN_SHORT)
        chain_short(r, t, vectors);
    else if (chain == CHAIN_IN_RUNS)
        chain_in_runs(r, t, rows, vectors);
    else if (chain == CHAIN_IN_PLACE)
        chain_in_place(r, t, rows, vectors);
    else
        chain_packed(r, t, rows, vectors);
    if (t->sum)
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(m[v], t->sum + i * t->ldsum + 16 * v), r[i][v]);
    if (t->last) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            r[i][v] = _mm512_add_ps(r[i][v], zero);
        if (t->bias)
            UNROLL for (int v = 0; v < vectors; v++) {
                const __m512 x = _mm512_maskz_loadu_ps(m[v], t->bias + 16 * v);
                UNROLL for (int i = 0; i < rows; i++) r[i][v] = _mm512_add_ps(r[i][v], x);
            }
        if (t->add)
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
                r[i][v] = _mm512_add_ps(r[i][v], _mm512_maskz_loadu_ps(m[v], t->add + i * t->ldadd + 16 * v));
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        _mm512_mask_storeu_ps(t->c + i * t->ldc + 16 * v, m[v], r[i][v]);
}

/* By rows and vectors: the columns that the last panel of a GEMM lacks are not computed. */
#define TILE(rows, vectors)                                                                                            \
    static __attribute__((noinline)) void in_place_##rows##_##vectors(const struct rp_tile *t)                         \
    {                                                                                                                  \
        tile(t, rows, vectors, CHAIN_IN_PLACE);                                                                        \
    }                                                                                                                  \
    static __attribute__((noinline)) void packed_##rows##_##vectors(const struct rp_tile *t)                           \
    {                                                                                                                  \
        tile(t, rows, vectors, CHAIN_PACKED);                                                                          \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 3)
TILES(8)
TILES(4)
TILES(2)
TILES(1)
#define IN_PLACE(rows) {in_place_##rows##_1, in_place_##rows##_2, in_place_##rows##_3}
#define PACKED(rows) {packed_##rows##_1, packed_##rows##_2, packed_##rows##_3}
typedef void (*tile_fn)(const struct rp_tile *t);
static const tile_fn in_place_of[4][V] = {IN_PLACE(1), IN_PLACE(2), IN_PLACE(4), IN_PLACE(8)};
static const tile_fn packed_of[4][V] = {PACKED(1), PACKED(2), PACKED(4), PACKED(8)};

#define WHOLE(name, rows, vectors, chain)                                                                              \
    static __attribute__((noinline)) void name##_##vectors(const struct rp_tile *t)                                    \
    {                                                                                                                  \
        tile(t, rows, vectors, chain);                                                                                 \
    }
WHOLE(shortened, MR, 2, CHAIN_SHORT)
WHOLE(shortened, MR, 3, CHAIN_SHORT)
WHOLE(runs, MR, 1, CHAIN_IN_RUNS)
WHOLE(runs, MR, 2, CHAIN_IN_RUNS)
WHOLE(runs, MR, 3, CHAIN_IN_RUNS)
WHOLE(tall_in_place, TALL, 2, CHAIN_IN_PLACE)
WHOLE(tall_runs, TALL, 2, CHAIN_IN_RUNS)

/* The part of tile t that starts at row i. */
static struct rp_tile from_row(const struct rp_tile *t, int i, long a_step)
{
    struct rp_tile s = *t;
    s.a += i * a_step;
    s.c += i * t->ldc;
    s.from = t->from ? t->from + i * t->ldfrom : NULL;
    s.sum = t->sum ? t->sum + i * t->ldsum : NULL;
    s.add = t->add ? t->add + i * t->ldadd : NULL;
    s.next_c = s.next_add = NULL;
    s.copy[0].pieces = s.copy[1].pieces = 0;
    return s;
}

/* a_step: floats between rows of A */
ALWAYS void run_rows(const struct rp_tile *t, int rows, const tile_fn of[4][V], long a_step)
{
    const int v = (t->cols - 1) / 16;
    if (rows == MR) {
        of[3][v](t);
        return;
    }
    for (int i = 0; i < rows;) {
        struct rp_tile s = from_row(t, i, a_step);
        int n = rows - i >= 4 ? 2 : rows - i >= 2 ? 1 : 0;
        of[n][v](&s);
        i += 1 << n;
    }
}

static void in_place(const struct rp_tile *t, int rows)
{
    if (rows == TALL) {
        tall_in_place_2(t);
        return;
    }
    if (t->is_short && rows == MR && t->cols > 16 && t->k <= SHORT && t->k % 16 == 0 && t->next_c) {
        (t->cols > 32 ? shortened_3 : shortened_2)(t);
        return;
    }
    run_rows(t, rows, in_place_of, t->lda);
}

static void packed(const struct rp_tile *t, int rows)
{
    run_rows(t, rows, packed_of, 1);
}

static void in_runs(const struct rp_tile *t, int rows)
{
    static const tile_fn of[V] = {runs_1, runs_2, runs_3};
    if (rows == TALL)
        tall_runs_2(t);
    else
        of[(t->cols - 1) / 16](t);
}

static void copy_row(float *dst, long stride, const float *src, const float *ahead, int panels)
{
    for (; panels > 0; panels--, src += NR, ahead += NR, dst += stride)
        UNROLL for (int v = 0; v < V; v++) {
            _mm_prefetch((const char *)(ahead + 16 * v), _MM_HINT_T0);
            _mm512_store_ps(dst + 16 * v, _mm512_loadu_ps(src + 16 * v));
        }
}

/* 16 x 16: pairs of floats, then pairs of doubles, then quarters of a register change places. */
ALWAYS void transpose16(float *dst, const float *src, long ld)
{
    __m512 r[16], t[16];
    UNROLL for (int i = 0; i < 16; i++) {
        r[i] = _mm512_loadu_ps(src + i * ld);
        _mm_prefetch((const char *)(src + i * ld + 48), _MM_HINT_T0);
    }
    UNROLL for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int h = 0; h < 2; h++) {
        __m512d x = _mm512_castps_pd(t[4 * i + h]), y = _mm512_castps_pd(t[4 * i + 2 + h]);
        r[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
        r[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int h = 0; h < 2; h++) {
        t[8 * h + i] = _mm512_shuffle_f32x4(r[8 * h + i], r[8 * h + 4 + i], 0x88);
        t[8 * h + 4 + i] = _mm512_shuffle_f32x4(r[8 * h + i], r[8 * h + 4 + i], 0xdd);
    }
    UNROLL for (int i = 0; i < 8; i++) {
        _mm512_storeu_ps(dst + (long)i * NR, _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88));
        _mm512_storeu_ps(dst + (long)(8 + i) * NR, _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd));
    }
}

static void transpose(float *dst, const float *src, long ld, int cols)
{
    for (int j = 0; j < cols; j += 16)
        transpose16(dst + j, src + j * ld, ld);
}

static void copy_group(float *dst, const float *src, long ld, int k)
{
    for (int p = 0; p < k; p++)
        _mm512_store_ps(dst + (long)p * RP_GEMM_GROUP, _mm512_loadu_ps(src + p * ld));
}

const struct rp_gemm_kernel rp_gemm_avx512 = {MR, NR, 16, TALL, 2, in_place, packed, in_runs, RP_CONV_COLS / NR,
                                              copy_row, transpose, copy_group};
