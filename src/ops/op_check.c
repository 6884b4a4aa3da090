/* One case per operation, see op_check.h: it makes each tensor once for every side, with equal contents, and runs the
 * reference on the copies of side 0 and the devices on theirs; then compare() compares these with those. For devices
 * that keep 16 bits of stored tensors, they are rounded on every side, converted for the call, and back. */
#define RP_STORED_TYPE float
#include "ops/op_check.h"

#include "base/buf.h"
#include "ops/functions.h"
#include "ops/low.h"
#include "ops/philox.h"

#include <stdlib.h>
#include <string.h>

#define SIDES (1 + RP_OP_DEVICES) /* the reference, devices */
#define TENSORS (14 + SIDES)      /* and a work area for each side */
#define GUARD 64 /* bytes before and after each tensor */

struct tensor {
    void *side[SIDES];
    size_t bytes;
    size_t begin; /* of the data: GUARD, more for unaligned data */
    int is_float;
    int is_work; /* scratch: not compared; one side only */
    int is_foreign[SIDES]; /* memory->take()'s */
};

struct ctx {
    int sides;
    const struct rp_ops *table[SIDES];
    struct rp_dev *dev[SIDES];
    const struct rp_op_memory *memory;
    struct rp_err failed;              /* of memory->take() */
    const struct rp_op_shape *shape;
    uint64_t seed, drawn;
    uint32_t word[4];                  /* of the block that is being drawn */
    struct tensor tensor[TENSORS];
    int tensors;
    const struct rp_ops *own[SIDES];   /* what is called with converted tensors */
    int has_overrun[SIDES];            /* elements outside of a converted tensor were written */
};

typedef struct {
    float *of[SIDES];
} each; /* of each side one */

#include "ops/op_check_stored.inc.h"

static uint32_t draw(struct ctx *c)
{
    if (c->drawn % 4 == 0) {
        memcpy(c->word, (uint32_t[4]){(uint32_t)(c->drawn / 4)}, sizeof c->word);
        rp_philox(c->word, c->seed);
    }
    return c->word[c->drawn++ % 4];
}

/* Uniform in (-scale, scale), 24 significant bits: operations on such values are not exact by chance. */
static float draw_float(struct ctx *c, float scale)
{
    uint32_t kind = c->shape->small == 2 ? 1 : c->shape->small ? draw(c) % 16 : 15;
    if (kind < 4)
        return kind == 0 ? 0.0f : kind == 1 ? -0.0f : (float)((int32_t)(draw(c) >> 8) - 0x800000) * 0x1p-149f;
    return ((float)(int32_t)(draw(c) | 1u) * 0x1p-31f) * scale;
}

static size_t whole_bytes(const struct tensor *t)
{
    return (t->begin + t->bytes + GUARD + 63) / 64 * 64;
}

/* If a device has no more memory, the case continues in the process's own, on the reference's side only, and counts as
 * failed. */
static void *side(struct ctx *c, struct tensor *t, int k)
{
    void *p = NULL;
    if (k > 0 && c->memory && c->failed.code == RP_OK)
        p = c->memory->take(c->dev[k], whole_bytes(t), &c->failed);
    t->is_foreign[k] = p != NULL;
    if (!p)
        p = aligned_alloc(64, whole_bytes(t));
    RP_BUG_IF(!p);
    memset(p, 0x5a, whole_bytes(t));
    return p;
}

/* offset: bytes past a multiple of 64 */
static struct tensor *tensor_at(struct ctx *c, size_t bytes, size_t offset)
{
    RP_BUG_IF(c->tensors == TENSORS);
    struct tensor *t = &c->tensor[c->tensors++];
    *t = (struct tensor){.bytes = bytes, .begin = GUARD + offset};
    for (int k = 0; k < c->sides; k++)
        t->side[k] = side(c, t, k);
    return t;
}

static struct tensor *tensor(struct ctx *c, size_t bytes)
{
    return tensor_at(c, bytes, 0);
}

static size_t float_offset(const struct ctx *c)
{
    return (size_t)c->shape->offset * sizeof(float);
}

static void *data_of(const struct tensor *t, int side)
{
    return (char *)t->side[side] + t->begin;
}

/* A work area of one side. */
static float *work_of(struct ctx *c, int k, size_t n)
{
    RP_BUG_IF(c->tensors == TENSORS);
    struct tensor *t = &c->tensor[c->tensors++];
    *t = (struct tensor){.bytes = n * sizeof(float), .begin = GUARD + float_offset(c), .is_work = 1};
    t->side[k] = side(c, t, k);
    return data_of(t, k);
}

/* A tensor that holds 0x5a bytes until it is written. */
static each blank(struct ctx *c, size_t n)
{
    struct tensor *t = tensor_at(c, n * sizeof(float), float_offset(c));
    each p;
    t->is_float = 1;
    for (int k = 0; k < c->sides; k++)
        p.of[k] = data_of(t, k);
    return p;
}

/* Gives every side the n elements that side 0 has. */
#define SHARE(x, n)                                                                                                    \
    for (int k = 1; k < c->sides; k++)                                                                                 \
    memcpy((x).of[k], (x).of[0], (size_t)(n) * sizeof *(x).of[0])

static each filled(struct ctx *c, size_t n, float scale)
{
    each p = blank(c, n);
    for (size_t i = 0; i < n; i++)
        p.of[0][i] = draw_float(c, scale);
    SHARE(p, n);
    return p;
}

static each filled_positive(struct ctx *c, size_t n, float scale)
{
    each p = blank(c, n);
    for (size_t i = 0; i < n; i++)
        p.of[0][i] = __builtin_fabsf(draw_float(c, scale));
    SHARE(p, n);
    return p;
}

struct bytes {
    uint8_t *of[SIDES];
};

static struct bytes blank_bytes(struct ctx *c, size_t n)
{
    struct tensor *t = tensor(c, n);
    struct bytes p;
    for (int k = 0; k < c->sides; k++)
        p.of[k] = data_of(t, k);
    return p;
}

struct ints {
    int32_t *of[SIDES];
};

static struct ints indices(struct ctx *c, size_t n, int below)
{
    struct tensor *t = tensor(c, n * sizeof(int32_t));
    struct ints p;
    for (int k = 0; k < c->sides; k++)
        p.of[k] = data_of(t, k);
    for (size_t i = 0; i < n; i++)
        p.of[0][i] = (int32_t)(draw(c) % (uint32_t)below);
    SHARE(p, n);
    return p;
}

static struct rp_dropout dropout_of(const struct rp_op_shape *s, int rows_per_sample)
{
    double p = s->dropout;
    struct rp_dropout d = {.seed = 0x123456789abcdefull ^ s->seed, .step = 3, .site = 17, .first_sample = 5,
                           .rows_per_sample = rows_per_sample, .threshold = (uint32_t)(p * 4294967296.0),
                           .scale = (float)(1.0 / (1.0 - p))};
    if (d.threshold && s->variant & RP_VARIANT_AT_THRESHOLD) {
        uint32_t x[4] = {0, d.first_sample, d.site, d.step};
        rp_philox(x, d.seed);
        d.threshold = x[0];
    }
    return d;
}

static int sample_rows(const struct rp_op_shape *s)
{
    return s->rows > 3 ? s->rows / 3 : 1;
}

static int sides(const struct ctx *c)
{
    return c->failed.code == RP_OK ? c->sides : 1;
}

static int has(const struct rp_op_shape *s, enum rp_variant bit)
{
    return (s->variant & (unsigned)bit) != 0;
}

#define EVERY(name, ...)                                                                                               \
    for (int k = 0; k < sides(c); k++)                                                                                 \
    c->table[k]->name(c->dev[k], __VA_ARGS__)
#define CASE(name) static void case_##name(struct ctx *c, const struct rp_op_shape *s)
#define ROWS s->rows
#define WIDTH s->width
#define ALL ((size_t)s->rows * (size_t)s->width)

CASE(gemm)
{
    int ta = has(s, RP_VARIANT_TA), tb = has(s, RP_VARIANT_TB), aligned = has(s, RP_VARIANT_ALIGNED), m = ROWS,
        n = WIDTH, d = s->depth;
    long lda = (ta ? m : d) + (aligned ? 4 : 3), ldb = (tb ? d : n) + (aligned ? 8 : 5);
    long ldc = n + (aligned && !has(s, RP_VARIANT_ODD_C) ? 4 : 1);
    each a = filled(c, (size_t)lda * (size_t)(ta ? d : m), 2.0f),
         b = filled(c, (size_t)ldb * (size_t)(tb ? n : d), 2.0f);
    each out = filled(c, (size_t)ldc * (size_t)m, 1.0f), bias = filled(c, (size_t)n, 1.0f),
         add = filled(c, (size_t)ldc * (size_t)m, 1.0f);
    for (int k = 0; k < sides(c); k++) {
        struct rp_gemm g = {.ta = ta, .tb = tb, .m = m, .n = n, .k = d, .segment = s->segment, .a = a.of[k],
                            .lda = lda, .b = b.of[k], .ldb = ldb, .ldc = ldc, .ldadd = ldc};
        const float *addend = !has(s, RP_VARIANT_ADD) ? NULL : s->in_place ? out.of[k] : add.of[k];
        g.bias = has(s, RP_VARIANT_BIAS) ? bias.of[k] : NULL;
        if (s->seed % 2 || has(s, RP_VARIANT_ODD_C)) {
            g.c32 = out.of[k];
            g.add32 = addend;
        } else {
            g.c = out.of[k];
            g.add = addend;
        }
        c->table[k]->gemm(c->dev[k], &g);
    }
}

CASE(embed_forward)
{
    int seq = sample_rows(s);
    struct ints ids = indices(c, (size_t)ROWS, 50), types = indices(c, (size_t)ROWS, 2),
                positions = indices(c, (size_t)ROWS, seq);
    each word = filled(c, 50 * (size_t)WIDTH, 1.0f), type = filled(c, 2 * (size_t)WIDTH, 1.0f);
    each position = filled(c, (size_t)seq * (size_t)WIDTH, 1.0f), z = blank(c, ALL);
    EVERY(embed_forward, z.of[k], ids.of[k], types.of[k], has(s, RP_VARIANT_POSITION_IDS) ? positions.of[k] : NULL,
          word.of[k], has(s, RP_VARIANT_NO_TYPES) ? NULL : type.of[k], position.of[k], ROWS, seq, WIDTH);
}

CASE(layernorm_forward)
{
    each x = filled(c, ALL, 3.0f), gamma = filled(c, (size_t)WIDTH, 2.0f), beta = filled(c, (size_t)WIDTH, 2.0f);
    each y = blank(c, ALL), kept = s->in_place ? x : blank(c, ALL), mean = blank(c, (size_t)ROWS),
         rstd = blank(c, (size_t)ROWS);
    for (int k = 0; k < sides(c); k++) {
        const struct rp_layernorm n = {.rows = ROWS, .width = WIDTH, .eps = 1e-12f, .x = x.of[k], .gamma = gamma.of[k],
                                       .beta = beta.of[k], .y = y.of[k], .kept = kept.of[k], .mean = mean.of[k],
                                       .rstd = rstd.of[k]};
        c->table[k]->layernorm_forward(c->dev[k], &n);
    }
}

CASE(residual_layernorm_forward)
{
    struct rp_dropout d = dropout_of(s, sample_rows(s));
    each x = filled(c, ALL, 3.0f), residual = filled(c, ALL, 3.0f), gamma = filled(c, (size_t)WIDTH, 2.0f);
    each beta = filled(c, (size_t)WIDTH, 2.0f), y = blank(c, ALL), kept = s->in_place ? x : blank(c, ALL);
    each mean = blank(c, (size_t)ROWS), rstd = blank(c, (size_t)ROWS);
    struct bytes mask = blank_bytes(c, rp_mask_bytes(ROWS, WIDTH));
    each z = s->in_place ? residual : blank(c, ALL);
    for (int k = 0; k < sides(c); k++) {
        const struct rp_layernorm n = {.rows = ROWS, .width = WIDTH, .eps = 1e-5f, .x = x.of[k],
                                       .residual = residual.of[k], .drop = &d, .gamma = gamma.of[k], .beta = beta.of[k],
                                       .y = y.of[k], .kept = kept.of[k], .mean = mean.of[k], .rstd = rstd.of[k],
                                       .z = has(s, RP_VARIANT_KEEP_SUM) ? z.of[k] : NULL, .mask = mask.of[k]};
        c->table[k]->residual_layernorm_forward(c->dev[k], &n);
    }
}

CASE(layernorm_apply)
{
    each kept = filled(c, ALL, 2.0f), gamma = filled(c, (size_t)WIDTH, 2.0f), beta = filled(c, (size_t)WIDTH, 2.0f),
         y = blank(c, ALL);
    each mean = filled(c, (size_t)ROWS, 1.0f), rstd = filled_positive(c, (size_t)ROWS, 2.0f);
    for (int k = 0; k < sides(c); k++) {
        const struct rp_layernorm n = {.rows = ROWS, .width = WIDTH, .gamma = gamma.of[k], .beta = beta.of[k],
                                       .y = y.of[k], .kept = kept.of[k], .mean = mean.of[k], .rstd = rstd.of[k]};
        c->table[k]->layernorm_apply(c->dev[k], &n);
    }
}

CASE(layernorm_backward)
{
    struct rp_dropout d = dropout_of(s, sample_rows(s));
    size_t w = (size_t)WIDTH;
    each dy = filled(c, ALL, 2.0f), kept = filled(c, ALL, 2.0f), rstd = filled_positive(c, (size_t)ROWS, 2.0f),
         gamma = filled(c, w, 2.0f);
    each dz = s->in_place ? dy : blank(c, ALL), dx = blank(c, ALL), dgamma = blank(c, w), dbeta = blank(c, w),
         dbias = blank(c, w);
    struct bytes mask = blank_bytes(c, rp_mask_bytes(ROWS, WIDTH));
    each x = filled(c, ALL, 1.0f), forward = blank(c, ALL), add = filled(c, ALL, 2.0f),
         mean = filled(c, (size_t)ROWS, 1.0f);
    if (has(s, RP_VARIANT_ADD_OVER))
        dz = add;
    EVERY(dropout_forward, forward.of[k], mask.of[k], x.of[k], &d, ROWS, WIDTH);
    for (int k = 0; k < sides(c); k++) {
        struct rp_layernorm_grad g = {.rows = ROWS, .width = WIDTH, .dy = dy.of[k], .kept = kept.of[k],
                                      .mean = mean.of[k], .rstd = rstd.of[k], .gamma = gamma.of[k],
                                      .mask = mask.of[k], .dz = dz.of[k], .dgamma = dgamma.of[k],
                                      .dbeta = dbeta.of[k],
                                      .work = work_of(c, k, rp_colsum_work(ROWS, 3l * WIDTH))};
        g.add = has(s, RP_VARIANT_ADD_GRADIENT) ? add.of[k] : NULL;
        g.drop = s->dropout == 0 && has(s, RP_VARIANT_NO_DROP) ? NULL : &d;
        g.dx = s->dropout == 0 && has(s, RP_VARIANT_NO_DX) ? NULL : dx.of[k];
        g.dbias = has(s, RP_VARIANT_NO_DBIAS) ? NULL : dbias.of[k];
        c->table[k]->layernorm_backward(c->dev[k], &g);
    }
}

CASE(dropout_forward)
{
    struct rp_dropout d = dropout_of(s, sample_rows(s));
    each x = filled(c, ALL, 2.0f), y = s->in_place ? x : blank(c, ALL);
    struct bytes mask = blank_bytes(c, rp_mask_bytes(ROWS, WIDTH));
    EVERY(dropout_forward, y.of[k], mask.of[k], x.of[k], &d, ROWS, WIDTH);
}

CASE(dropout_backward)
{
    struct rp_dropout d = dropout_of(s, sample_rows(s));
    each dy = filled(c, ALL, 2.0f), dx = s->in_place ? dy : blank(c, ALL);
    struct bytes mask = blank_bytes(c, rp_mask_bytes(ROWS, WIDTH));
    for (size_t i = 0; i < rp_mask_bytes(ROWS, WIDTH); i++)
        mask.of[0][i] = (uint8_t)draw(c);
    SHARE(mask, rp_mask_bytes(ROWS, WIDTH));
    EVERY(dropout_backward, dx.of[k], dy.of[k], mask.of[k], &d, ROWS, WIDTH);
}

CASE(gelu_forward)
{
    each u = filled(c, ALL, 6.0f), g = blank(c, ALL);
    EVERY(gelu_forward, g.of[k], u.of[k], ROWS, WIDTH);
}

CASE(gelu_tanh_forward)
{
    each u = filled(c, ALL, 6.0f), g = blank(c, ALL);
    EVERY(gelu_tanh_forward, g.of[k], u.of[k], ROWS, WIDTH);
}

/* Gradients with column sums. */
#define BACKWARD_CASE(name, scale)                                                                                     \
    CASE(name)                                                                                                         \
    {                                                                                                                  \
        each dy = filled(c, ALL, 2.0f), x = filled(c, ALL, scale), dx = s->in_place ? dy : blank(c, ALL);              \
        each dbias = blank(c, (size_t)WIDTH);                                                                          \
        for (int k = 0; k < sides(c); k++) {                                                                           \
            float *work = work_of(c, k, rp_colsum_work(ROWS, WIDTH));                                                  \
            c->table[k]->name(c->dev[k], dx.of[k], dbias.of[k], dy.of[k], x.of[k], ROWS, WIDTH, work);                 \
        }                                                                                                              \
    }
BACKWARD_CASE(gelu_backward, 6.0f)
BACKWARD_CASE(gelu_tanh_backward, 6.0f)
BACKWARD_CASE(tanh_backward, 1.0f)

CASE(tanh_forward)
{
    each x = filled(c, ALL, 12.0f), y = blank(c, ALL);
    EVERY(tanh_forward, y.of[k], x.of[k], ROWS, WIDTH);
}

CASE(colsum)
{
    each dy = filled(c, ALL, 2.0f), dbias = blank(c, (size_t)WIDTH);
    for (int k = 0; k < sides(c); k++) {
        float *work = work_of(c, k, rp_colsum_work(ROWS, WIDTH));
        c->table[k]->colsum(c->dev[k], dbias.of[k], dy.of[k], ROWS, WIDTH, work);
    }
}

CASE(bias_add)
{
    each x = filled(c, ALL, 2.0f), bias = filled(c, (size_t)WIDTH, 2.0f),
         y = s->in_place && !is_narrow(c) ? x : blank(c, ALL);
    EVERY(bias_add, y.of[k], x.of[k], bias.of[k], ROWS, WIDTH);
}

static struct bytes key_mask(struct ctx *c, const struct rp_op_shape *s)
{
    size_t n = (size_t)s->batch * (size_t)s->seq;
    struct bytes m = blank_bytes(c, n);
    for (int b = 0; b < s->batch; b++) {
        int length = has(s, RP_VARIANT_SHORT_SAMPLES) ? 1 + (int)(draw(c) % (uint32_t)s->seq) : s->seq, any = 0;
        uint8_t *row = m.of[0] + (size_t)b * (size_t)s->seq;
        for (int i = 0; i < s->seq; i++) {
            row[i] = (uint8_t)(i < length && (!has(s, RP_VARIANT_KEY_HOLES) || draw(c) % 4));
            any |= row[i];
        }
        if (!any)
            row[draw(c) % (uint32_t)s->seq] = 1;
    }
    SHARE(m, n);
    return m;
}

#include "ops/op_check_attention.inc.h"

CASE(gather_rows)
{
    each x = filled(c, ALL, 2.0f), y = blank(c, 2 * ALL);
    struct ints index = indices(c, 2 * (size_t)ROWS, ROWS);
    EVERY(gather_rows, y.of[k], x.of[k], index.of[k], 2 * ROWS, WIDTH);
}

CASE(copy_columns)
{
    const int aligned = has(s, RP_VARIANT_ALIGNED), at = aligned ? 4 : 1;
    const long lds = WIDTH + (aligned ? 4 : 3), ldd = WIDTH + (aligned ? 8 : 5);
    each src = filled(c, (size_t)lds * (size_t)ROWS, 2.0f), dst = filled(c, (size_t)ldd * (size_t)ROWS, 2.0f);
    EVERY(copy_columns, dst.of[k] + at, ldd, src.of[k] + at, lds, ROWS, WIDTH, is_narrow(c) && s->seed % 2 ? 2 : 4);
}

/* Keys ascending with gaps, by default groups of 1, 2, 3, ... rows. */
static int group_rows(const struct rp_op_shape *s, int group)
{
    if (has(s, RP_VARIANT_ONE_GROUP))
        return s->rows;
    if (!has(s, RP_VARIANT_SINGLES))
        return group + 1;
    return group % 97 == 50 ? 70 : 1;
}
CASE(row_sums)
{
    each src = filled(c, ALL, 2.0f);
    struct ints key = indices(c, (size_t)ROWS, 1), start = indices(c, (size_t)ROWS + 1, 1),
                source = indices(c, (size_t)ROWS, ROWS);
    int groups = 0, used = 0;
    while (used < ROWS) {
        used += group_rows(s, groups) < ROWS - used ? group_rows(s, groups) : ROWS - used;
        for (int k = 0; k < c->sides; k++) {
            key.of[k][groups] = 2 * groups + 1;
            start.of[k][groups + 1] = used;
        }
        groups++;
    }
    each dst = filled(c, (2 * (size_t)groups + 1) * (size_t)WIDTH, 2.0f);
    for (int k = 0; k < sides(c); k++) {
        struct rp_row_groups g = {groups, key.of[k], start.of[k], source.of[k]};
        c->table[k]->row_sums(c->dev[k], dst.of[k], src.of[k], &g, WIDTH, has(s, RP_VARIANT_ADD_ROWS));
    }
}

/* Strict fp32 has none. */
static float loss_scale(const struct ctx *c)
{
    return rp_is_mixed(c->dev[0]->numerics) ? 1024.0f : 1.0f;
}

CASE(softmax_xent)
{
    long ld = WIDTH + 3;
    each z = filled(c, (size_t)ROWS * (size_t)ld, 9.0f), loss = blank(c, (size_t)ROWS),
         coef = filled(c, (size_t)ROWS, 0.01f);
    struct ints labels = indices(c, (size_t)ROWS, WIDTH);
    EVERY(softmax_xent, loss.of[k], z.of[k], ld, labels.of[k], coef.of[k], loss_scale(c), ROWS, WIDTH,
          s->shards ? s->shards : 1);
}

CASE(softmax_xent_smoothed)
{
    long ld = WIDTH + 3;
    each z = filled(c, (size_t)ROWS * (size_t)ld, 9.0f), loss = blank(c, (size_t)ROWS),
         coef = filled(c, (size_t)ROWS, 0.01f);
    struct ints labels = indices(c, (size_t)ROWS, WIDTH);
    EVERY(softmax_xent_smoothed, loss.of[k], z.of[k], ld, labels.of[k], coef.of[k], loss_scale(c), ROWS, WIDTH,
          0.1f);
}

#include "ops/op_check_images.inc.h"

#include "ops/op_check_whole.inc.h"

static void (*const cases[RP_OP_COUNT])(struct ctx *c, const struct rp_op_shape *s) = {
#define OP(name, types, args, names) case_##name,
#include "ops/ops.def"
#undef OP
};

static int compare_tensors(const struct ctx *c, int k, enum rp_op op, struct rp_err *err)
{
    const char *name = rp_op_info[op].name;
    for (int i = 0; i < c->tensors; i++) {
        const struct tensor *t = &c->tensor[i];
        const unsigned char *a = t->side[0], *b = t->side[k];
        size_t at = 0;
        if (t->is_work || !memcmp(a, b, whole_bytes(t)))
            continue;
        while (a[at] == b[at])
            at++;
        if (at < t->begin || at >= t->begin + t->bytes)
            return rp_fail(err, RP_MISMATCH, "%s: tensor %d of the case: a byte outside the tensor was written", name,
                           i);
        if (!t->is_float)
            return rp_fail(err, RP_MISMATCH, "%s: tensor %d of the case: byte %zu is 0x%02x, the reference has 0x%02x",
                           name, i, at - t->begin, b[at], a[at]);
        float x, y;
        at = (at - t->begin) / 4;
        memcpy(&x, a + t->begin + 4 * at, 4);
        memcpy(&y, b + t->begin + 4 * at, 4);
        return rp_fail(err, RP_MISMATCH, "%s: tensor %d of the case: element %zu is %a, the reference has %a", name, i,
                       at, (double)y, (double)x);
    }
    return 0;
}

static void give_back(const struct ctx *c, const struct tensor *t)
{
    for (int k = 0; k < c->sides; k++)
        if (t->is_foreign[k])
            c->memory->give(c->dev[k], t->side[k]);
        else
            free(t->side[k]);
}

/* What the device of side k did wrong, if anything. */
static int result_of(const struct ctx *c, int k, enum rp_op op, struct rp_err *err)
{
    if (c->failed.code != RP_OK) {
        *err = c->failed;
        return rp_wrap(err, "%s", rp_op_info[op].name);
    }
    if (compare_tensors(c, k, op, err) < 0)
        return -1;
    return c->has_overrun[k]
               ? rp_fail(err, RP_MISMATCH, "%s: an element outside of a stored tensor was written", rp_op_info[op].name)
               : 0;
}

/* The devices of c with the reference; err: one for each. */
static int compare(struct ctx *c, enum rp_op op, const struct rp_op_shape *s, struct rp_err *err)
{
    struct rp_dev reference = {.op = &rp_reference_ops, .numerics = c->dev[1]->numerics};
    struct rp_ops table[SIDES];
    int failed = 0;
    c->table[0] = reference.op;
    c->dev[0] = &reference;
    c->shape = s;
    c->seed = s->seed * 64 + (uint64_t)op;
    comparing = c;
    for (int k = 0; is_narrow(c) && k < c->sides; k++) {
        c->own[k] = c->table[k];
        table[k] = *c->own[k];
        stored_rows_of(&table[k]);
        c->table[k] = &table[k];
    }
    cases[op](c, s);
    comparing = NULL;
    for (int k = 1; c->memory && c->failed.code == RP_OK && k < c->sides; k++)
        (void)!c->memory->wait(c->dev[k], &c->failed);
    for (int k = 1; k < c->sides; k++) {
        err[k - 1].code = RP_OK;
        failed += result_of(c, k, op, &err[k - 1]) < 0;
    }
    for (int i = 0; i < c->tensors; i++)
        give_back(c, &c->tensor[i]);
    return failed;
}

int rp_ops_compare(const struct rp_op_memory *memory, const struct rp_ops *ops, struct rp_dev *dev, enum rp_op op,
                   const struct rp_op_shape *s, struct rp_err *err)
{
    struct ctx c = {.sides = 2, .table = {NULL, ops}, .dev = {NULL, dev}, .memory = memory};
    return compare(&c, op, s, err) ? -1 : 0;
}

int rp_ops_compare_all(const struct rp_op_memory *memory, struct rp_dev *const *dev, int n, enum rp_op op,
                       const struct rp_op_shape *s, struct rp_err *err)
{
    struct ctx c = {.sides = 1 + n, .memory = memory};
    RP_BUG_IF(n < 1 || n > RP_OP_DEVICES);
    for (int i = 0; i < n; i++) {
        RP_BUG_IF(dev[i]->numerics != dev[0]->numerics || dev[i]->stored_bytes != dev[0]->stored_bytes);
        c.table[i + 1] = dev[i]->op;
        c.dev[i + 1] = dev[i];
    }
    return compare(&c, op, s, err);
}
