/* The products of attention: chains with lanes along the output's columns, and packing for them.
 * Compiled once per instruction set by ops_<isa>.c. */

#define PAD RP_ATT_PAD

static long padded(long n)
{
    return (n + PAD - 1) & ~(long)(PAD - 1);
}

static long least_of(long a, long b)
{
    return a < b ? a : b;
}

/* ---- reading ahead ---- */

/* Rows of the tensors that the next head of the sample will read (and, backward, write), prefetched one at a time while
 * tiles are computed: they are far apart in memory, where no hardware prefetches. */
struct ahead {
    const float *from[8];
    long ld[8];
    int tensors, lines; /* lines: 64-byte lines of a row */
    int tensor;         /* the next one; `tensors`: done */
    long row, rows;     /* of each tensor */
};

#define AHEAD_STEPS 16 /* of a tile between two prefetched rows: more at once would wait for each other */

RP_LANE void look_ahead(struct ahead *a)
{
    if (a->tensor == a->tensors)
        return;
    const char *p = (const char *)(a->from[a->tensor] + a->row * a->ld[a->tensor]);
    for (int l = 0; l < a->lines; l++)
        __builtin_prefetch(p + 64 * l, 0, 2);
    if (++a->row == a->rows) {
        a->row = 0;
        a->tensor++;
    }
}

/* ---- chains ---- */

/* What a causal mask leaves of a product, where row i of the first operand is the query (or key) i of a block and
 * `shift` is the first query of the block less its first key. The rest is +0, or is not read. */
enum edge {
    EDGE_NONE,
    EDGE_COLUMNS,   /* rows are queries, columns keys: columns up to i + shift */
    EDGE_STEPS_TO,  /* rows are queries, steps keys: steps up to i + shift */
    EDGE_STEPS_FROM /* rows are keys, steps queries: steps from i - shift on */
};

/* c[i, j] = from[i, j] + chain over t of a[i*ar + t*at] * b[t, j], + (+0), for all rows i and columns j. */
struct product {
    long rows, cols, steps;
    const float *a; /* whole tiles of rows */
    long ar, at;    /* one of them is 1 */
    const float *b; /* whole vectors up to cols rounded up to W */
    long ldb;
    const float *from; /* the chain so far, whole vectors; NULL: +0 */
    long ldf;
    float *c;
    long ldc;
    enum edge edge;
    long shift;
};

#define STEPS 4 /* in an iteration of a tile's loop: its counters compete with the products for two ports */

#if W >= 8 && !defined __SANITIZE_ADDRESS__ /* which does not see what asm reads */
/* As in gemm_avx512.c: volatile asm keeps the order of instructions, the operands of a step have named registers, and
 * no integer is kept in a vector register. */
#if W == 16
#define NAMED(v, wide, narrow) register vf v __asm__("zmm" #wide)
#define NO_SPILLS __asm__ volatile("" ::: "xmm29", "xmm30", "xmm31")
#else
#define NAMED(v, wide, narrow) register vf v __asm__("ymm" #narrow)
#define NO_SPILLS __asm__ volatile("" ::: "xmm15")
#endif
#define FMA(acc, x, y) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y))
#define LOAD(x, p, bytes) __asm__ volatile("vmovups %c2(%1), %0" : "=v"(x) : "r"(p), "i"(bytes))
#define BROADCAST(x, p, bytes) __asm__ volatile("vbroadcastss %c2(%1), %0" : "=v"(x) : "r"(p), "i"(bytes))
#define BROADCAST_ROW(x, p, rows, row, bytes)                                                                          \
    __asm__ volatile("vbroadcastss %c3(%1,%2," #rows "), %0" : "=v"(x) : "r"(p), "r"(row), "i"(bytes))
#define ADVANCE(p, bytes) __asm__ volatile("add %1, %0" : "+r"(p) : "r"(bytes) : "cc")

/* Where the next step of a tile reads: rows 0 to 2 of the first operand from `low` on, rows 3 to 5 from `high` on,
 * since an x86 address can add one or two rows but not three. */
struct tile_at {
    const char *low, *high, *b;
    long row, step, ldb; /* in bytes; row and step: of the first operand */
};

/* Rows alternate direction, so that neighbours share an operand. */
RP_LANE void tile_steps(vf s[TILE_ROWS][TILE_VECTORS], const int rows, const int vectors, struct tile_at *at,
                        const int across, const int steps)
{
    UNROLL for (int u = 0; u < steps; u++)
    {
        NAMED(b0, 24, 12);
        NAMED(b1, 25, 13);
        NAMED(b2, 26, 12); /* with AVX2 a tile has two vectors */
        NAMED(b3, 27, 13);
        NAMED(x, 28, 14);
        LOAD(b0, at->b, 0);
        if (vectors > 1)
            LOAD(b1, at->b, 4 * W);
        if (vectors > 2)
            LOAD(b2, at->b, 8 * W);
        if (vectors > 3)
            LOAD(b3, at->b, 12 * W);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const char *p = i < 3 ? at->low : at->high;
            if (across)
                BROADCAST(x, at->low, 4 * i);
            else if (i % 3 == 0)
                BROADCAST(x, p, 4 * u);
            else if (i % 3 == 1)
                BROADCAST_ROW(x, p, 1, at->row, 4 * u);
            else
                BROADCAST_ROW(x, p, 2, at->row, 4 * u);
            if (i % 2 == 0)
                FMA(s[i][0], x, b0);
            if (i % 2 == 0 && vectors > 1)
                FMA(s[i][1], x, b1);
            if (i % 2 == 0 && vectors > 2)
                FMA(s[i][2], x, b2);
            if (vectors > 3)
                FMA(s[i][3], x, b3);
            if (i % 2 && vectors > 2)
                FMA(s[i][2], x, b2);
            if (i % 2 && vectors > 1)
                FMA(s[i][1], x, b1);
            if (i % 2)
                FMA(s[i][0], x, b0);
        }
        ADVANCE(at->b, at->ldb);
        if (across)
            ADVANCE(at->low, at->step);
    }
    if (!across) {
        at->low += 4 * steps;
        at->high += 4 * steps;
    }
}

/* Steps t to end - 1 of a tile. */
RP_LANE void tile_run(struct ahead *ahead, vf s[TILE_ROWS][TILE_VECTORS], const int rows, const int vectors,
                      const struct product *p, const int across, long i0, long j0, long t, long end)
{
    struct tile_at at = {.row = across ? 4 : 4 * p->ar, .step = across ? 4 * p->at : 4, .ldb = 4 * p->ldb};
    at.low = (const char *)p->a + i0 * at.row + t * at.step;
    at.high = at.low + 3 * at.row;
    at.b = (const char *)(p->b + j0) + t * at.ldb;
    __asm__ volatile("" ::: "memory"); /* the asm of a step does not say what it reads */
    for (long left = end - t; left > 0; left -= AHEAD_STEPS) {
        const long some = least_of(left, AHEAD_STEPS);
        NO_SPILLS;
        look_ahead(ahead);
        for (long n = some / STEPS; n > 0; n--)
            tile_steps(s, rows, vectors, &at, across, STEPS);
        for (long n = some % STEPS; n > 0; n--)
            tile_steps(s, rows, vectors, &at, across, 1);
    }
}
#else
RP_LANE void tile_step(vf s[TILE_ROWS][TILE_VECTORS], const int rows, const int vectors, const float *a, long ar,
                       const float *b)
{
    vf bt[TILE_VECTORS];
    UNROLL for (int j = 0; j < vectors; j++) bt[j] = vload(b + j * W);
    UNROLL for (int i = 0; i < rows; i++)
    {
        const vf ai = vset1(a[i * ar]);
        UNROLL for (int j = 0; j < vectors; j++) s[i][j] = vfma(ai, bt[j], s[i][j]);
    }
}

/* With both strides variable, addresses do not fit into the registers. */
RP_LANE void tile_run(struct ahead *ahead, vf s[TILE_ROWS][TILE_VECTORS], const int rows, const int vectors,
                      const struct product *p, const int across, long i0, long j0, long t, long steps)
{
    const long ar = across ? 1 : p->ar, at = across ? p->at : 1, ldb = p->ldb;
    const float *a = p->a + i0 * ar, *b = p->b + j0;
    while (t < steps) {
        long end = least_of(steps, t + AHEAD_STEPS);
        look_ahead(ahead);
        for (; t + STEPS <= end; t += STEPS) {
            UNROLL for (int u = 0; u < STEPS; u++)
                tile_step(s, rows, vectors, a + (t + u) * at, ar, b + (t + u) * ldb);
        }
        for (; t < end; t++)
            tile_step(s, rows, vectors, a + t * at, ar, b + t * ldb);
    }
}
#endif

RP_LANE void tile_store(vf s[TILE_ROWS][TILE_VECTORS], const int height, const int vectors, float *c, long ldc,
                        const long rows, const long cols)
{
    UNROLL for (int i = 0; i < height; i++)
    {
        if (i < rows) {
            UNROLL for (int j = 0; j < vectors; j++)
            {
                const long left = cols - j * W;
                if (left >= W)
                    vstore(c + i * ldc + j * W, s[i][j] + vset1(0.0f));
                else if (left > 0)
                    vstore_n(c + i * ldc + j * W, s[i][j] + vset1(0.0f), (int)left);
            }
        }
    }
}

/* `height` rows from i0, `vectors` vectors from column j0. Off the mask's edge up to height - 1 steps, or less than a
 * vector of columns, are computed needlessly. across: ar is 1, otherwise at is 1. */
RP_LANE void tile(struct ahead *ahead, const int height, const int vectors, const struct product *p, const int across,
                  long i0, long j0)
{
    const long rows = p->rows - i0, cols = p->cols - j0, ldc = p->ldc;
    long t = 0, steps = p->steps;
    if (p->edge == EDGE_STEPS_TO)
        steps = least_of(steps, i0 + height + p->shift);
    if (p->edge == EDGE_STEPS_FROM && i0 > p->shift)
        t = i0 - p->shift;
    const float *from = p->from ? p->from + i0 * p->ldf + j0 : NULL;
    float *c = p->c + i0 * ldc + j0;
    vf s[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int i = 0; i < height; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++) s[i][j] = vset1(0.0f);
    }
    if (from) {
        UNROLL for (int i = 0; i < height; i++)
        {
            UNROLL for (int j = 0; j < vectors; j++) s[i][j] = i < rows ? vload(from + i * p->ldf + j * W) : s[i][j];
        }
    }
    tile_run(ahead, s, height, vectors, p, across, i0, j0, t, steps);
    if (rows >= height && cols >= vectors * W)
        tile_store(s, height, vectors, c, ldc, height, vectors * W);
    else
        tile_store(s, height, vectors, c, ldc, rows, cols);
}

/* tile() with `vectors` as a constant, 1 to TILE_VECTORS. */
RP_LANE void tile_of(struct ahead *ahead, const int height, long vectors, const struct product *p, const int across,
                     long i0, long j0)
{
    switch (vectors) {
#if TILE_VECTORS > 3
    case 4:
        tile(ahead, height, 4, p, across, i0, j0);
        break;
#endif
#if TILE_VECTORS > 2
    case 3:
        tile(ahead, height, 3, p, across, i0, j0);
        break;
#endif
    case 2:
        tile(ahead, height, 2, p, across, i0, j0);
        break;
    default:
        tile(ahead, height, 1, p, across, i0, j0);
    }
}

/* Rows of the next tile: blocks of 32 and 128 rows, which 6 does not divide, end with two tiles of 4. */
static long tile_rows(long left)
{
    return left <= SHORT_ROWS || (left > TILE_ROWS && left <= 2 * SHORT_ROWS) ? SHORT_ROWS : TILE_ROWS;
}

RP_LANE void chains_run(struct ahead *ahead, const struct product *p, const int across)
{
    long vectors = (p->cols + W - 1) / W;
    for (long v = 0; v < vectors;) {
        long left = vectors - v, take = left >= TILE_VECTORS ? TILE_VECTORS : left, i = 0;
        if (left > TILE_VECTORS && left < 2 * TILE_VECTORS)
            take = (left + 1) / 2; /* 2 + 2 keeps more products per load than 3 + 1 */
        if (p->edge == EDGE_COLUMNS && v * W > p->shift)
            i = (v * W - p->shift) / TILE_ROWS * TILE_ROWS;
        while (i < p->rows) {
            const long height = tile_rows(p->rows - i);
            long wide = take;
            if (p->edge == EDGE_COLUMNS)
                wide = least_of(take, (i + height - 1 + p->shift) / W - v + 1);
            if (height == TILE_ROWS)
                tile_of(ahead, TILE_ROWS, wide, p, across, i, v * W);
            else
                tile_of(ahead, SHORT_ROWS, wide, p, across, i, v * W);
            i += height;
        }
        v += take;
    }
}

static __attribute__((noinline)) void chains(struct ahead *ahead, const struct product *p)
{
    if (p->at != 1)
        chains_run(ahead, p, 1);
    else
        chains_run(ahead, p, 0);
}

/* ---- packing ---- */

/* dst[0..padded(rows), 0..padded(cols)) = src, zeros around; rows of dst are padded(cols) long. */
static void pack_rows(float *dst, const float *src, long ld, long rows, long cols)
{
    long ldd = padded(cols);
    for (long r = 0; r < rows; r++) {
        const float *p = src + r * ld;
        float *q = dst + r * ldd;
        long j = 0;
        for (; j + W <= cols; j += W)
            vstore(q + j, vload(p + j));
        for (; j < cols; j++)
            q[j] = p[j];
        for (; j < ldd; j++)
            q[j] = 0.0f;
    }
    memset(dst + rows * ldd, 0, (size_t)((padded(rows) - rows) * ldd) * sizeof *dst);
}

#if W == 4
RP_LANE void transpose_4(float *dst, long ldd, const float *src, long ld)
{
    const float32x4x2_t a = vtrnq_f32(vld1q_f32(src), vld1q_f32(src + ld)); /* [0] of a: 00 10 02 12 */
    const float32x4x2_t b = vtrnq_f32(vld1q_f32(src + 2 * ld), vld1q_f32(src + 3 * ld));
    UNROLL for (int i = 0; i < 2; i++)
    {
        vst1q_f32(dst + i * ldd, vcombine_f32(vget_low_f32(a.val[i]), vget_low_f32(b.val[i])));
        vst1q_f32(dst + (i + 2) * ldd, vcombine_f32(vget_high_f32(a.val[i]), vget_high_f32(b.val[i])));
    }
}

/* 8 x 8 floats: dst[j, i] = src[i, j] */
RP_LANE void transpose_8(float *dst, long ldd, const float *src, long ld)
{
    UNROLL for (int i = 0; i < 4; i++)
        transpose_4(dst + i / 2 * 4 * ldd + i % 2 * 4, ldd, src + i % 2 * 4 * ld + i / 2 * 4, ld);
}
#elif W > 1
/* 8 x 8 floats: dst[j, i] = src[i, j] */
RP_LANE void transpose_8(float *dst, long ldd, const float *src, long ld)
{
    __m256 r[8], t[8];
    UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(src + i * ld);
    UNROLL for (int i = 0; i < 8; i += 2)
    {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        _mm256_storeu_ps(dst + i * ldd, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * ldd, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#endif

/* dst[j, i] = src[i, j] for rows x cols, zeros in i = rows .. padded(rows). */
static void pack_transposed(float *dst, long ldd, const float *src, long ld, long rows, long cols)
{
    long i = 0;
#if W > 1
    for (; i + 8 <= rows; i += 8) {
        long j = 0;
        for (; j + 8 <= cols; j += 8)
            transpose_8(dst + j * ldd + i, ldd, src + i * ld + j, ld);
        for (; j < cols; j++)
            for (long k = i; k < i + 8; k++)
                dst[j * ldd + k] = src[k * ld + j];
    }
#endif
    for (; i < padded(rows); i++)
        for (long j = 0; j < cols; j++)
            dst[j * ldd + i] = i < rows ? src[i * ld + j] : 0.0f;
}
