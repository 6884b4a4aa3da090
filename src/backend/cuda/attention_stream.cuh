/* Attention in streams: a block keeps a tile of its own rows of a head in shared memory, and all other rows pass by, 64
 * at a time.
 *
 * What:    the streams that the kernels of attention_stream.cu and attention_stream_backward.cu consist of. Nothing
 *          depends on the length of the sequence except the number of tiles.
 * Flow:    for each tile of 64 other rows, in stages of shared memory that are copied two ahead (before sm_80: mostly
 *          loaded one ahead):
 *
 *     dots      s[own, other] = chain over columns of x[own] y[other]        stages of 64 rows x 16 columns
 *     rows      c[own, column] += sum over others of p[own, other] g[other]  stages of 16 rows x 16 W columns
 *
 *          p is made of s by the kernel and goes through a square in shared memory, [own, RP_ATT_SQUARE_PITCH], or
 *          through global memory.
 * Extend:  W, the columns of a thread: 4, 6 or 8, a constant like `rows`. Thread column `col` has columns 4 col ..
 *          4 col + 3 and, with W > 4, 64 + (W - 4) col and its neighbours; wider heads take 128 columns at a time.
 */
#pragma once

#include "backend/cuda/attention.cuh"

#define STREAM_COLUMNS 8 /* most columns of a thread */
#define STREAM_STEPS (RP_ATT_KEYS / RP_ATT_STEP) /* stages of rows in a tile */

/* Two of a kind: the tiles of own rows, and the other rows of dots. */
struct stream {
    float *own[2], *square, *row, *stage; /* row: words of each own or other row */
    const float *dots[2], *rows;          /* first column of the head in row 0 */
    int dots_ld[2], rows_ld;
    int pitch, stage_floats;        /* of own; of a stage */
    int dim, steps, whole;          /* steps: stages of 16 columns */
    int first, begin, others;       /* the first own row; other rows: begin (a multiple of 64) .. others - 1 */
    int column;                     /* the first of `rows` */
};

/* Where a pass is: the stage that is started next, and the slot that is read next. */
struct passing {
    int k, step, slot, at;
};

#if RP_ASYNC
#define STREAM_AHEAD 2
#define STREAM_UNROLL RP_ATT_STEP
struct stream_load {
    int none;
};
#else
#define STREAM_AHEAD 1
#define STREAM_UNROLL 4 /* columns: the stage on its way takes registers too */
struct stream_load {
    float4 v[2];
};
#endif

RP_DEVICE int stream_next(int slot)
{
    return slot + 1 == RP_ATT_STAGES ? 0 : slot + 1;
}

/* The other rows of the next stage: 64 rows x 16 columns of dots. A pass has `dots` (0..2) of them for each tile and
 * `products` (0 or 1). Stages after the end are not copied, but their offsets are computed: at most 128 rows after the
 * sequence; these may wrap, and nothing uses them. */
RP_DEVICE struct att_part stream_dots_part(const int dots, const struct stream *f, const struct passing *at)
{
    const int second = dots > 1 && at->step >= f->steps, d = (second ? at->step - f->steps : at->step) * RP_ATT_STEP;
    const int ld = second ? f->dots_ld[1] : f->dots_ld[0];
    const struct att_part part = {second ? f->dots[1] : f->dots[0], at->k * ld + d, ld, f->others - at->k,
                                  f->dim - d, f->whole};
    return part;
}

/* The same of 16 rows, from column `first` of those that the pass takes. */
RP_DEVICE struct att_part stream_rows_part(const int dots, const struct stream *f, const struct passing *at,
                                           const int first)
{
    const int column = f->column + first, k = at->k + (at->step - dots * f->steps) * RP_ATT_STEP;
    const int at_k = k * f->rows_ld + column;
    const struct att_part part = {f->rows, at_k, f->rows_ld, f->others - k, f->dim - column, f->whole};
    return part;
}

/* Starts the next stage. */
RP_DEVICE void stream_start(const int W, const int dots, const int products, const struct stream *f, const struct passing *at,
                            struct stream_load *load)
{
#if RP_ASYNC
    float *to = f->stage + at->slot * f->stage_floats;
    (void)load;
#endif
    if (products == 0 || at->step < dots * f->steps) {
        const struct att_part part = stream_dots_part(dots, f, at);
        if (part.rows > 0) {
#if RP_ASYNC
            att_copy(RP_ATT_KEYS, RP_ATT_STEP / 4, to, RP_ATT_STEP_PITCH, &part);
#else
            att_load(RP_ATT_KEYS, RP_ATT_STEP / 4, load->v, &part);
#endif
        }
    } else {
        const struct att_part part = stream_rows_part(dots, f, at, 0);
        if (part.rows > 0) {
#if RP_ASYNC
            const struct att_part more = stream_rows_part(dots, f, at, RP_ATT_DIM);
            att_copy(RP_ATT_STEP, 16, to, 16 * W, &part);
            if (W > 4)
                att_copy(RP_ATT_STEP, 4 * (W - 4), to + RP_ATT_DIM, 16 * W, &more);
#else
            if (W < 8)
                att_load(RP_ATT_STEP, 16, load->v, &part);
#endif
        }
    }
    rp_copy_commit();
}

/* To the stage after. Before sm_80: stores what stream_start() loaded; columns from 64 on, and all of the widest heads,
 * are copied here, as they would take registers. */
RP_DEVICE void stream_land(const int W, const struct stream *f, struct passing *at, const int dots, const int products,
                           const struct stream_load *load)
{
#if !RP_ASYNC
    float *to = f->stage + at->slot * f->stage_floats;
    if (products == 0 || at->step < dots * f->steps) {
        if (f->others - at->k > 0)
            att_store(RP_ATT_KEYS, RP_ATT_STEP / 4, to, RP_ATT_STEP_PITCH, load->v);
    } else {
        const struct att_part part = stream_rows_part(dots, f, at, 0),
                              more = stream_rows_part(dots, f, at, RP_ATT_DIM);
        if (part.rows > 0) {
            if (W < 8)
                att_store(RP_ATT_STEP, 16, to, 16 * W, load->v);
            else
                att_copy(RP_ATT_STEP, 16, to, 16 * W, &part);
            if (W > 4)
                att_copy(RP_ATT_STEP, 4 * (W - 4), to + RP_ATT_DIM, 16 * W, &more);
        }
    }
#else
    (void)W, (void)load;
#endif
    at->slot = stream_next(at->slot);
    if (++at->step == dots * f->steps + products * STREAM_STEPS) {
        at->step = 0;
        at->k += RP_ATT_KEYS;
    }
}

/* Starts a pass: the stages before the first one that is waited for. No thread may still read a stage. */
RP_DEVICE struct passing stream_begin(const int W, const int dots, const int products, const struct stream *f)
{
    struct passing at = {f->begin, 0, 0, 0};
    struct stream_load load;
    RP_NO_UNROLL
    for (int t = 0; t < STREAM_AHEAD; t++) {
        stream_start(W, dots, products, f, &at, &load);
        stream_land(W, f, &at, dots, products, &load);
    }
    return at;
}

/* s = chains over the columns of own tile `which` and the stages that come. */
RP_DEVICE void stream_dots(const int rows, const int W, const int dots, const int products, const struct stream *f, struct passing *at,
                           float (*s)[4], const int which)
{
    const struct att_owner me = att_owner();
    const float *x = f->own[which] + me.row * f->pitch, *y = f->stage + me.col * RP_ATT_STEP_PITCH;
    /* registers */
    const int chains = rows * W * dots, unroll = chains >= 128 ? 4 : chains >= 96 && STREAM_UNROLL > 8 ? 8 : STREAM_UNROLL;
    struct stream_load load;
    att_clear(rows, s);
    RP_NO_UNROLL
    for (int d = 0; d < f->steps; d++) {
        rp_copy_wait(STREAM_AHEAD - 1);
        __syncthreads();
        stream_start(W, dots, products, f, at, &load);
        RP_NO_UNROLL
        for (int e = 0; e < RP_ATT_STEP; e += unroll)
            att_dots(rows, unroll, s, x + d * RP_ATT_STEP + e, f->pitch, y + at->at * f->stage_floats + e, RP_ATT_STEP_PITCH);
        stream_land(W, f, at, dots, products, &load);
        at->at = stream_next(at->at);
    }
}

/* o[i][.] = a * v: W columns of a row of a stage, in the order of ATT_STEP */
#define STREAM_STEP(rows, W, o, element, v)                                                                            \
    do {                                                                                                               \
        const float *at_ = (v);                                                                                        \
        const float4 v_ = att_read(at_ + 4 * col);                                                                     \
        float4 w_ = make_float4(0.0f, 0.0f, 0.0f, 0.0f);                                                               \
        if ((W) == 8)                                                                                                  \
            w_ = att_read(at_ + RP_ATT_DIM + 4 * col);                                                                 \
        if ((W) == 6) {                                                                                                \
            const float2 two_ = *(const float2 *)(const void *)(at_ + RP_ATT_DIM + 2 * col);                           \
            w_.x = two_.x;                                                                                             \
            w_.y = two_.y;                                                                                             \
        }                                                                                                              \
        const float factor_[STREAM_COLUMNS] = {v_.x, v_.y, v_.z, v_.w, w_.x, w_.y, w_.z, w_.w};                        \
        RP_UNROLL                                                                                                      \
        for (int i = 0; i < (rows); i++) {                                                                             \
            const float a_ = (element);                                                                                \
            RP_UNROLL                                                                                                  \
            for (int n_ = 0; n_ < (W); n_++) {                                                                         \
                const int j_ = i % 2 ? (W) - 1 - n_ : n_;                                                              \
                (o)[i][j_] = fmaf(a_, factor_[j_], (o)[i][j_]);                                                        \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* o += the square times the stages that come, other rows from k. */
RP_DEVICE void stream_rows(const int rows, const int W, const int dots, const int products, const struct stream *f,
                           struct passing *at, float (*o)[STREAM_COLUMNS], int k)
{
    const struct att_owner me = att_owner();
    const float *p = f->square + me.row * RP_ATT_SQUARE_PITCH;
    const int col = me.col;
    struct stream_load load;
    RP_NO_UNROLL
    for (int t = 0; t < STREAM_STEPS; t++, k += RP_ATT_STEP, p += RP_ATT_STEP) {
        rp_copy_wait(STREAM_AHEAD - 1);
        __syncthreads();
        stream_start(W, dots, products, f, at, &load);
        const float *v = f->stage + at->at * f->stage_floats;
        if (k < f->others) {
            RP_UNROLL_BY(STREAM_UNROLL / 4)
            for (int n = 0; n < RP_ATT_STEP; n += 4) {
                float4 a[ATT_ROWS];
                RP_UNROLL
                for (int i = 0; i < rows; i++)
                    a[i] = att_read(p + 8 * i * RP_ATT_SQUARE_PITCH + n);
                STREAM_STEP(rows, W, o, a[i].x, v + (n + 0) * 16 * W);
                STREAM_STEP(rows, W, o, a[i].y, v + (n + 1) * 16 * W);
                STREAM_STEP(rows, W, o, a[i].z, v + (n + 2) * 16 * W);
                STREAM_STEP(rows, W, o, a[i].w, v + (n + 3) * 16 * W);
            }
        }
        stream_land(W, f, at, dots, products, &load);
        at->at = stream_next(at->at);
    }
}

RP_DEVICE void stream_clear(const int rows, const int W, float (*o)[STREAM_COLUMNS])
{
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < W; j++)
            o[i][j] = 0.0f;
    }
}

RP_DEVICE void stream_put_square(const int rows, const struct stream *f, float (*s)[4])
{
    const struct att_owner me = att_owner();
    float *p = f->square + me.row * RP_ATT_SQUARE_PITCH + me.col;
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            p[8 * i * RP_ATT_SQUARE_PITCH + 16 * j] = s[i][j];
    }
}

/* Starts copying own rows into tile `which`. */
RP_DEVICE void stream_own(const int rows, const struct stream *f, const int which, const float *from, int ld, int seq)
{
    RP_NO_UNROLL
    for (int d = 0; d < f->dim; d += RP_ATT_STEP) {
        const struct att_part part = {from, f->first * ld + d, ld, seq - f->first, f->dim - d, f->whole};
        att_copy(RP_ATT_QUERIES(rows), RP_ATT_STEP / 4, f->own[which] + d, f->pitch, &part);
    }
}

/* The ends of a row's chains, from column f->column on. */
RP_DEVICE void stream_put_row(const int W, const struct stream *f, const float *o, float *at)
{
    const int col = att_owner().col, left = f->dim - f->column;
    att_put(at + 4 * col, att_ended(o), left - 4 * col, f->whole);
    if (W == 8)
        att_put(at + RP_ATT_DIM + 4 * col, att_ended(o + 4), left - RP_ATT_DIM - 4 * col, f->whole);
    if (W == 6 && left > RP_ATT_DIM + 2 * col)
        at[RP_ATT_DIM + 2 * col] = o[4] + 0.0f;
    if (W == 6 && left > RP_ATT_DIM + 2 * col + 1)
        at[RP_ATT_DIM + 2 * col + 1] = o[5] + 0.0f;
}

/* Into own rows; to: the head's first column in row 0. */
RP_DEVICE void stream_put(const int rows, const int W, const struct stream *f, float (*o)[STREAM_COLUMNS], float *to, const int ld, const int seq)
{
    const struct att_owner me = att_owner();
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        const int row = f->first + me.row + 8 * i;
        if (row < seq)
            stream_put_row(W, f, o[i], to + row * ld + f->column);
    }
}

/* Divides the shared memory: `tiles` of own rows, a square if there is one, `words` of own or other rows. */
RP_DEVICE void stream_shared(const int rows, const int W, const int tiles, const int squares, const int words,
                             struct stream *f)
{
    f->steps = (f->dim + RP_ATT_STEP - 1) / RP_ATT_STEP;
    f->pitch = f->steps * RP_ATT_STEP + 4;
    f->stage_floats = RP_ATT_STREAM_STAGE(W);
    f->own[0] = RP_SHARED(float);
    f->own[1] = f->own[0] + (tiles - 1) * RP_ATT_QUERIES(rows) * f->pitch;
    f->square = f->own[1] + RP_ATT_QUERIES(rows) * f->pitch;
    f->row = f->square + squares * RP_ATT_QUERIES(rows) * RP_ATT_SQUARE_PITCH;
    f->stage = f->row + words;
    f->column = 0;
}
