/* Operations that are timed around the device's own. */
#include "train/profile.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RP_OBJECT_LIST "train/profile.def"
#include "base/object_tables.inc.h"

#define FORM_TEXT 16
#define ROWS_MAX 256

struct cost {
    double flops, bytes;
    char form[FORM_TEXT];
};

struct row {
    enum rp_op op;
    struct cost sum;
    int64_t calls;
    uint64_t ns;
};

static struct {
    const struct rp_ops *op; /* the device's own */
    struct row row[ROWS_MAX];
    int rows;
    int64_t steps;
    uint64_t begun_ns, ns;
} the;

/* ---- what a call computes and moves; a stored tensor has dev->stored_bytes an element, here S, all others have 4
 * ---- */

#define S (double)dev->stored_bytes
#define ELEMENTS ((double)rows * width)

static struct cost moved(double bytes)
{
    return (struct cost){.bytes = bytes};
}

static struct cost of_gemm(const struct rp_dev *dev, const struct rp_gemm *g)
{
    const double m = g->m, n = g->n, k = g->k, out = (g->c ? S : 4) * (g->add || g->add32 ? 2 : 1);
    struct cost c = {.flops = 2 * m * n * k, .bytes = S * (m * k + k * n) + out * m * n};
    snprintf(c.form, sizeof c.form, "%c%c", g->ta ? 'T' : 'N', g->tb ? 'T' : 'N');
    return c;
}

static double image_elements(const struct rp_conv *v)
{
    return (double)v->batch * v->in_h * v->in_w * v->in_c;
}

/* weight: bytes of a weight; added: elements of an addend. */
static struct cost of_conv(const struct rp_dev *dev, const struct rp_conv *v, double weight, double added)
{
    const double outputs = (double)rp_conv_rows(v) * v->out_c, taps = rp_conv_taps(v);
    struct cost c = {.flops = 2 * outputs * taps,
                     .bytes = S * (image_elements(v) + outputs + added) + weight * taps * v->out_c};
    snprintf(c.form, sizeof c.form, "%dx%d/%d", v->kernel_h, v->kernel_w, v->stride);
    return c;
}

static struct cost of_pool(const struct rp_dev *dev, const struct rp_conv *v)
{
    const double outputs = (double)rp_conv_rows(v) * v->out_c;
    return moved(S * (image_elements(v) + outputs) + outputs);
}

/* products: of a visible pair of query and key, per element of a head. A causal query sees half of the keys; those that
 * padding hides count. */
static struct cost of_attention(const struct rp_dev *dev, const struct rp_attention *a, double products, double tensors)
{
    const double rows = (double)a->batch * a->seq, width = (double)a->heads * a->head_dim;
    const double keys = a->causal ? (a->seq + 1) / 2.0 : a->seq;
    return (struct cost){.flops = 2 * products * rows * keys * width, .bytes = tensors * S * ELEMENTS};
}

static struct cost of_layernorm(const struct rp_dev *dev, const struct rp_layernorm *n, double tensors)
{
    const double rows = n->rows, width = n->width;
    return moved((tensors + (n->z != NULL)) * S * ELEMENTS);
}

static struct cost of_layernorm_grad(const struct rp_dev *dev, const struct rp_layernorm_grad *g)
{
    const double rows = g->rows, width = g->width;
    return moved((3 + (g->add != NULL) + (g->dx && g->dx != g->dz)) * S * ELEMENTS);
}

/* Every element depends on statistics of all rows: x is read for these, and again for y. */
static struct cost of_batchnorm(const struct rp_dev *dev, const struct rp_batchnorm *n, double statistics)
{
    const double rows = n->rows, width = n->width;
    return moved((statistics + (n->y ? 2 + (n->add != NULL) : 0)) * S * ELEMENTS);
}

static struct cost of_batchnorm_grad(const struct rp_dev *dev, const struct rp_batchnorm_grad *g)
{
    const double rows = g->rows, width = g->width;
    return moved((2 * (2 + (g->y != NULL)) + 1 + (g->dadd != NULL)) * S * ELEMENTS);
}

#define COST_gemm of_gemm(dev, g)
#define COST_embed_forward moved(2 * S * ELEMENTS) /* types and positions are few */
#define COST_layernorm_forward of_layernorm(dev, n, 3)
#define COST_residual_layernorm_forward of_layernorm(dev, n, 4)
#define COST_layernorm_apply moved(2 * S * n->rows * n->width)
#define COST_layernorm_backward of_layernorm_grad(dev, g)
#define COST_dropout_forward moved(2 * S * ELEMENTS + ELEMENTS / 8)
#define COST_dropout_backward moved(2 * S * ELEMENTS + ELEMENTS / 8)
#define COST_gelu_forward moved(2 * S * ELEMENTS)
#define COST_gelu_backward moved(3 * S * ELEMENTS)
#define COST_gelu_tanh_forward moved(2 * S * ELEMENTS)
#define COST_gelu_tanh_backward moved(3 * S * ELEMENTS)
#define COST_tanh_forward moved(2 * S * ELEMENTS)
#define COST_tanh_backward moved(3 * S * ELEMENTS)
#define COST_colsum moved(S * ELEMENTS)
#define COST_bias_add moved((4 + S) * ELEMENTS)
#define COST_attention_forward of_attention(dev, a, 2, 4)
#define COST_attention_backward of_attention(dev, g->a, 5, 8)
#define COST_gather_rows moved(2 * S * n * width)
#define COST_copy_columns moved(2.0 * bytes * rows * cols)
#define COST_row_sums moved((S * groups->start[groups->n] + (add ? 8 : 4) * groups->n) * width)
#define COST_conv_forward of_conv(dev, c, S, 0)
#define COST_conv_dgrad of_conv(dev, c, S, add ? image_elements(c) : 0)
#define COST_conv_wgrad of_conv(dev, c, 4, 0)
#define COST_batchnorm_forward of_batchnorm(dev, n, 1)
#define COST_batchnorm_apply of_batchnorm(dev, n, 0)
#define COST_batchnorm_backward of_batchnorm_grad(dev, g)
#define COST_maxpool_forward of_pool(dev, c)
#define COST_maxpool_backward of_pool(dev, c)
#define COST_avgpool_forward moved(S * batch * (pixels + 1.0) * width)
#define COST_avgpool_backward moved(S * batch * (pixels + 1.0) * width)
#define COST_scale_pixels moved((1 + S) * (double)n * width)
#define COST_argmax_rows moved(S * n * classes)
#define COST_softmax_xent moved(2 * S * n * classes)
#define COST_softmax_xent_smoothed moved(2 * S * n * classes)
#define COST_weighted_sum moved(8.0 * n)
#define COST_add moved(12.0 * (double)n)
#define COST_fill moved(4.0 * (double)n)
#define COST_round_stored moved((4 + S * (add ? 2 : 1)) * (double)n)
#define COST_add_stored moved(3 * S * (double)n)
#define COST_square_sums moved(4.0 * (double)n)
#define COST_tree_sum moved(4.0 * (double)n)
#define COST_adam_update moved(28.0 * (double)n)
#define COST_lamb_direction moved(28.0 * (double)n)
#define COST_lamb_apply moved(12.0 * (double)n)
#define COST_sgd_update moved(20.0 * (double)n)
#define COST_lars_update moved(20.0 * (double)n)
#define COST_running_update moved(12.0 * (double)n)
#define COST_init_normal moved(4.0 * (double)n)
#define COST_perturb moved(8.0 * (double)n)
#define COST_digest_leaves moved(4.0 * (double)n)
#define COST_find_nonfinite moved(4.0 * (double)n)
#define COST_find_nonfinite_stored moved(S * (double)n)

/* ---- counting ---- */

static struct row *row_of(enum rp_op op, const char *form)
{
    int i = 0;
    while (i < the.rows && (the.row[i].op != op || strcmp(the.row[i].sum.form, form) != 0))
        i++;
    RP_BUG_IF(i == ROWS_MAX);
    if (i == the.rows) {
        the.rows++;
        the.row[i] = (struct row){.op = op};
        RP_FORMAT(the.row[i].sum.form, "%s", form);
    }
    return &the.row[i];
}

static void count(enum rp_op op, const struct cost *c, uint64_t ns)
{
    struct row *r = row_of(op, c->form);
    r->calls++;
    r->ns += ns;
    r->sum.flops += c->flops;
    r->sum.bytes += c->bytes;
}

#define OP(name, types, args, names)                                                                                   \
    static void timed_##name RP_OP_ARGS args                                                                           \
    {                                                                                                                  \
        const struct cost cost = COST_##name;                                                                          \
        const uint64_t start = rp_now_ns();                                                                            \
        the.op->name RP_OP_CALL names;                                                                                 \
        count(RP_OP_##name, &cost, rp_now_ns() - start);                                                               \
    }
#include "ops/ops.def"
#undef OP

static const struct rp_ops timed = {
#define OP(name, types, args, names) .name = timed_##name,
#include "ops/ops.def"
#undef OP
};

void rp_profile_begin(struct rp_dev *dev)
{
    RP_BUG_IF(dev->backend->separate_memory);
    the.op = dev->op;
    dev->op = &timed;
    the.begun_ns = rp_now_ns();
}

void rp_profile_end(struct rp_dev *dev)
{
    the.ns += rp_now_ns() - the.begun_ns;
    the.steps++;
    dev->op = the.op;
}

static int longest_first(const void *a, const void *b)
{
    const double x = ((const struct rp_operation_times *)a)->seconds,
                 y = ((const struct rp_operation_times *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

void rp_profile_take(struct rp_profile *out)
{
    *out = (struct rp_profile){.steps = the.steps, .seconds = (double)the.ns * 1e-9};
    for (int i = 0; i < the.rows; i++) {
        const struct row *r = &the.row[i];
        struct rp_operation_times *t = rp_object_add(&out->operations, &out->operations_n, &rp_type_operation_times);
        *t = (struct rp_operation_times){.op = rp_strdup(rp_op_info[r->op].name), .form = rp_strdup(r->sum.form),
                                         .calls = r->calls, .seconds = (double)r->ns * 1e-9, .flops = r->sum.flops,
                                         .bytes = r->sum.bytes};
    }
    if (out->operations_n)
        qsort(out->operations, (size_t)out->operations_n, sizeof *out->operations, longest_first);
    the.rows = 0;
    the.steps = 0;
    the.ns = 0;
}
