/* ResNet-50: what an instance consists of, its input, and what documents report of it. */
#include "model/resnet50.h"

#include "base/buf.h"
#include "model/declare.h"
#include "model/nn/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEM 64 /* channels of the published model, model.width */

/* ---- sizes ---- */

/* A convolution or pool of k x k pixels over an image of in x in. */
static struct rp_conv window(const struct rp_resnet *m, int in, int in_c, int out_c, int k, int stride)
{
    struct rp_conv c = {.batch = m->net.batch > 0 ? (int)m->net.batch : 1, .in_h = in, .in_w = in, .in_c = in_c,
                        .out_c = out_c, .kernel_h = k, .kernel_w = k, .stride = stride};
    int out = m->same ? (in + stride - 1) / stride : (in + 2 * ((k - 1) / 2) - k) / stride + 1,
        all = (out - 1) * stride + k - in;
    c.out_h = c.out_w = out;
    c.pad_top = c.pad_left = !m->same ? (k - 1) / 2 : all > 0 ? all / 2 : 0;
    return c;
}

static size_t in_elements(const struct rp_conv *c)
{
    return (size_t)c->batch * (size_t)c->in_h * (size_t)c->in_w * (size_t)c->in_c;
}

static size_t out_elements(const struct rp_conv *c)
{
    return (size_t)rp_conv_rows(c) * (size_t)c->out_c;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The convolutions of block b from 0 of group g, over [B, size, size, in]. */
static void lay_out_block(struct rp_resnet *m, struct rp_resnet_block *k, int g, int b, int size, int in)
{
    const int width = m->width << g, stride = g && !b ? 2 : 1, out = 4 * width;
    k->conv[0].c = window(m, size, in, width, 1, 1);
    k->conv[1].c = window(m, size, width, width, 3, stride);
    k->conv[2].c = window(m, k->conv[1].c.out_h, width, out, 1, 1);
    if (!b)
        k->shortcut.c = window(m, size, in, out, 1, stride);
    for (int i = 0; i < 2; i++)
        m->inner_elements[i] = larger(m->inner_elements[i], out_elements(&k->conv[i].c));
    for (int i = 0; i < 4; i++) {
        const struct rp_conv_norm *a = i < 3 ? &k->conv[i] : &k->shortcut;
        m->dw_floats = larger(m->dw_floats, a->c.out_c ? rp_conv_wgrad_work(&a->c) : 0);
    }
}

/* Every convolution, and what the backward pass needs at most. */
static void lay_out(struct rp_resnet *m)
{
    m->stem.c = window(m, m->size, 3, m->width, 7, 2);
    m->pool = window(m, m->stem.c.out_h, m->width, m->width, 3, 2);
    m->dw_floats = rp_conv_wgrad_work(&m->stem.c);
    int in = m->width, size = m->pool.out_h, n = 0;
    for (int g = 0; g < RP_RESNET_GROUPS; g++)
        for (int b = 0; b < m->blocks[g]; b++) {
            struct rp_resnet_block *k = &m->block[n++];
            lay_out_block(m, k, g, b, size, in);
            in = k->conv[2].c.out_c;
            size = k->conv[2].c.out_h;
        }
}

/* Three numbers, a value for each channel: the recipe's check has read them before. */
static void parse_three(double out[3], const char *text)
{
    char *end = (char *)text;
    for (int i = 0; i < 3; i++)
        out[i] = strtod(i ? end + 1 : end, &end);
}

static void configure(struct rp_net *net, const struct rp_recipe *r)
{
    struct rp_resnet *m = (struct rp_resnet *)net;
    double mean[3], std[3];
    char *end = (char *)r->model_blocks;
    m->size = (int)r->task_image_size;
    m->width = (int)r->model_width;
    m->classes = (int)r->model_num_classes;
    m->eps = (float)r->model_batch_norm_eps;
    m->smoothing = (float)r->task_label_smoothing;
    m->same = r->model_padding == RP_PADDING_same;
    m->zero_gamma = r->model_zero_init_last_gamma;
    m->init = (enum rp_conv_init)r->model_conv_init;
    m->fc_uniform = r->model_classifier_init == RP_CLASSIFIER_INIT_uniform;
    m->recompute = (enum rp_recompute)r->train_recompute;
    m->decay_loss =
        r->optimizer_weight_decay_form == RP_DECAY_FORM_loss ? (float)(0.5 * r->optimizer_weight_decay) : 0.0f;
    m->excluded = r->optimizer_exclude;
    net->running_momentum = (float)r->model_batch_norm_momentum;
    for (int g = 0; g < RP_RESNET_GROUPS; g++) {
        m->blocks[g] = (int)strtol(g ? end + 1 : end, &end, 10);
        m->all += m->blocks[g];
    }
    parse_three(mean, r->model_pixel_mean);
    parse_three(std, r->model_pixel_std);
    for (int i = 0; i < 3; i++) {
        m->scale[i] = (float)(1 / std[i]);
        m->shift[i] = (float)(-mean[i] / std[i]);
    }
}

/* ---- declarations ---- */

#define TRUNCATED_DEVIATION 0.87962566103423978 /* of a normal distribution that is cut at 2 deviations */

/* Names of a convolution, its norm's weights and its norm's buffers; layer: the number in them, 0: none. The index of a
 * weight in this order is the key of its initialisation: never reorder. */
struct conv_names {
    const char *conv, *gamma, *beta, *mean, *var;
};

static void declare_conv(struct rp_net *net, struct rp_conv_norm *a, const struct conv_names *name, int layer,
                         int stage, int zero)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    const struct rp_conv *c = &a->c;
    const long n = c->out_c, rows = rp_conv_rows(c);
    const int out = m->init == RP_CONV_INIT_fan_out || m->init == RP_CONV_INIT_truncated_fan_out;
    const int truncated = m->init == RP_CONV_INIT_truncated_fan_in || m->init == RP_CONV_INIT_truncated_fan_out;
    const long fan = (long)c->kernel_h * c->kernel_w * (out ? c->out_c : c->in_c);
#define AT .layer = layer, .stage = stage
    ADD(RP_WEIGHT, .at = &a->w, .name = name->conv, .dim = {n, c->kernel_h, c->kernel_w, c->in_c}, .channels_first = 1,
        .init = truncated ? RP_INIT_TRUNCATED_NORMAL : RP_INIT_NORMAL, .fan = fan,
        .scale = truncated ? 1 / TRUNCATED_DEVIATION : 0, AT);
    ADD(RP_WEIGHT, .at = &a->gamma, .name = name->gamma, .dim = {n}, .init = zero ? RP_INIT_ZERO : RP_INIT_ONE, AT);
    BIAS(&a->beta, name->beta, n, AT);
    ADD(RP_BUFFER, .at = &a->running_mean, .name = name->mean, .dim = {n}, .statistic = 1, AT);
    ADD(RP_BUFFER, .at = &a->running_var, .name = name->var, .dim = {n}, .init = RP_INIT_ONE,
        .statistic = rows > 1 ? (double)rows / (double)(rows - 1) : 1, AT);
    ADD(RP_ACTIVATION, .at = &a->x, .name = "output of a convolution", .dtype = RP_STORED, .dim = {rows, n},
        .made_by = "conv_forward", AT);
    ADD(RP_ACTIVATION, .at = &a->rstd, .name = "1 / deviation", .dim = {n}, .made_by = "batchnorm_forward", AT);
    rp_net_use(net, (struct rp_op_use){.op = RP_OP_conv_forward, .conv = *c});
    rp_net_use(net, (struct rp_op_use){.op = RP_OP_conv_wgrad, .conv = *c});
    if (c->in_c != 3)
        rp_net_use(net, (struct rp_op_use){.op = RP_OP_conv_dgrad, .conv = *c});
    rp_net_use_rows(net, RP_OP_batchnorm_forward, rows, n);
    rp_net_use_rows(net, RP_OP_batchnorm_apply, rows, n);
    rp_net_use_rows(net, RP_OP_batchnorm_backward, rows, n);
    rp_net_work(net, rows, 2 * n);
}

/* What leaves the norm of convolution k of every block, kept or in one memory for all blocks. */
static void declare_output(struct rp_net *net, struct rp_conv_norm *a, int k, int layer, int stage)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    static const char *const names[] = {"output of a block's first norm", "output of a block's second norm"};
    const int shared = m->recompute != RP_RECOMPUTE_none;
    ADD(RP_ACTIVATION, .at = &a->y, .name = names[k], .dtype = RP_STORED,
        .dim = {(long)(shared ? m->inner_elements[k] : out_elements(&a->c))},
        .made_by = shared ? NULL : "batchnorm_forward", .shared = shared, AT);
}

/* [group][convolution] */
#define CONV_NAMES(group, conv, norm)                                                                                  \
    {                                                                                                                  \
        "layer" group ".%d." conv ".weight", "layer" group ".%d." norm ".weight", "layer" group ".%d." norm ".bias",   \
            "layer" group ".%d." norm ".running_mean", "layer" group ".%d." norm ".running_var"                        \
    }
#define GROUP_NAMES(group)                                                                                             \
    {                                                                                                                  \
        CONV_NAMES(group, "conv1", "bn1"), CONV_NAMES(group, "conv2", "bn2"), CONV_NAMES(group, "conv3", "bn3"),       \
            CONV_NAMES(group, "downsample.0", "downsample.1")                                                          \
    }
static const struct conv_names block_names[RP_RESNET_GROUPS][4] = {GROUP_NAMES("1"), GROUP_NAMES("2"), GROUP_NAMES("3"),
                                                                   GROUP_NAMES("4")};

/* Block b from 0 of group g. */
static void declare_block(struct rp_net *net, struct rp_resnet_block *k, int g, int b, int stage)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    const int layer = b + 1;
    const struct conv_names *name = block_names[g];
    for (int i = 0; i < 3; i++) {
        declare_conv(net, &k->conv[i], &name[i], layer, stage, i == 2 && m->zero_gamma);
        if (i < 2)
            declare_output(net, &k->conv[i], i, layer, stage);
    }
    if (k->shortcut.c.out_c) /* y follows its x: see shortcut_backward() */
        declare_conv(net, &k->shortcut, &name[3], layer, stage, 0);
    ADD(RP_ACTIVATION, .at = &k->y, .name = "output of a block", .dtype = RP_STORED,
        .dim = {(long)out_elements(&k->conv[2].c)}, .room = k == m->block ? in_elements(&m->stem.c) : 0,
        .made_by = "batchnorm_forward", AT);
}
#undef AT

static void declare_head(struct rp_net *net, int features)
{
    struct rp_resnet *m = (struct rp_resnet *)net;
    const long b = net->batch;
    ADD(RP_WEIGHT, .at = &m->fc_w, .name = "fc.weight", .dim = {m->classes, features}, .stage = m->all + 1,
        .init = m->fc_uniform ? RP_INIT_UNIFORM : RP_INIT_NORMAL, .fan = m->fc_uniform ? features : 0);
    BIAS(&m->fc_b, "fc.bias", m->classes, .stage = m->all + 1, .init = m->fc_uniform ? RP_INIT_UNIFORM : RP_INIT_ZERO,
         .fan = features);
    ACT(&m->features, "features of an image", b, features, .stage = m->all + 1, .made_by = "avgpool_forward");
    ACT(&m->logits, "logits", b, m->classes, .stage = m->all + 1);
    NUMBERS(&m->loss, "loss of each image", b, .stage = m->all + 1, .made_by = "gemm or softmax_xent");
    ADD(RP_ACTIVATION, .at = &m->best, .name = "classes with the largest logits", .dtype = RP_I32, .dim = {b},
        .stage = m->all + 1);
    NUMBERS(&net->loss, "losses", 2, .stage = m->all + 1);
    rp_linear_use(net, (int)b, features, m->classes, 0);
    rp_net_use_rows(net, m->smoothing > 0 ? RP_OP_softmax_xent_smoothed : RP_OP_softmax_xent, b, m->classes);
    rp_net_use_rows(net, RP_OP_argmax_rows, b, m->classes);
    rp_net_use_rows(net, RP_OP_colsum, b, m->classes);
    rp_net_use_rows(net, RP_OP_weighted_sum, b, 1);
    rp_net_work(net, b, m->classes);
}

static void declare(struct rp_net *net)
{
    static const struct conv_names stem = {"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean",
                                           "bn1.running_var"};
    struct rp_resnet *m = (struct rp_resnet *)net;
    m->block = rp_net_array(net, m->all, sizeof *m->block);
    lay_out(m);
    const struct rp_conv *last = &m->block[m->all - 1].conv[2].c;
    const long end = (long)net->batch * last->out_h * last->out_w;
    declare_conv(net, &m->stem, &stem, 0, 0, 0);
    ACT(&m->pooled, "pooled stem", rp_conv_rows(&m->pool), m->width, .made_by = "maxpool_forward");
    ADD(RP_ACTIVATION, .at = &m->which, .name = "places of the largest", .dtype = RP_U8,
        .dim = {(long)out_elements(&m->pool)});
    for (int g = 0, n = 0; g < RP_RESNET_GROUPS; g++)
        for (int b = 0; b < m->blocks[g]; b++, n++)
            declare_block(net, &m->block[n], g, b, n + 1);
    declare_head(net, last->out_c);
    ADD(RP_SCRATCH, .at = &m->grad, .name = "gradient of the last block's output", .dtype = RP_STORED,
        .dim = {(long)out_elements(last)});
    if (m->dw_floats)
        ADD(RP_SCRATCH, .at = &m->dw_work, .name = "groups of weight gradients", .dim = {(long)m->dw_floats});
    if (m->decay_loss > 0) {
        const struct rp_tensors *w = &net->tensors[RP_WEIGHT];
        ADD(RP_SCRATCH, .at = &m->squares, .name = "squares of weights",
            .dim = {(long)(rp_tensors_largest(w) / 4 / RP_NORM_CHUNK) + 1 + w->n});
        ADD(RP_SCRATCH, .at = &m->half, .name = "factor of the squares", .dim = {1});
        size_t chunks = 0;
        for (int i = 0; i < w->n; i++)
            chunks += rp_tensor_parts(&w->t[i], 1, RP_NORM_CHUNK);
        if (net->gathers_copies && net->comm->size[RP_GROUP_DATA] > 1)
            ADD(RP_SCRATCH, .at = &net->squares, .name = "square sums of all ranks", .dim = {(long)chunks});
    }
    rp_net_use(net, (struct rp_op_use){.op = RP_OP_maxpool_forward, .conv = m->pool});
    rp_net_use(net, (struct rp_op_use){.op = RP_OP_maxpool_backward, .conv = m->pool});
    rp_net_use_rows(net, RP_OP_scale_pixels, (long)net->batch * m->size * m->size, 3);
    rp_net_use_rows(net, RP_OP_avgpool_forward, end, last->out_c);
    rp_net_use_rows(net, RP_OP_avgpool_backward, end, last->out_c);
    rp_net_use_rows(net, RP_OP_running_update, 1, last->out_c);
}

static void declare_input(struct rp_net *net, struct rp_input *input)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    struct rp_resnet_input *in = (struct rp_resnet_input *)input;
    IN(&in->image, "image", RP_U8, (long)net->batch * m->size * m->size * 3);
    IN(&in->label, "label", RP_I32, net->batch);
    IN(&in->coef, "coefficients of images", RP_F32, net->batch);
}

static int fields(const struct rp_net *net, struct rp_sample_field *f)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    f[0] = (struct rp_sample_field){"image", RP_U8, (long)m->size * m->size * 3, 0};
    f[1] = (struct rp_sample_field){"label", RP_I32, 1, m->classes};
    return 2;
}

static int prepare(const struct rp_net *net, struct rp_input *input, void *const *column, struct rp_err *err)
{
    struct rp_resnet_input *in = (struct rp_resnet_input *)input;
    (void)column, (void)err;
    input->counter[0] = 0;
    input->counter[1] = net->batch;
    for (int64_t b = 0; b < net->batch; b++)
        in->coef[b] = 1.0f / (float)net->batch;
    return 0;
}

/* ---- what documents report of it ---- */

static double conv_flops(const struct rp_conv *c)
{
    return 2.0 * (double)rp_conv_rows(c) * c->out_c * rp_conv_taps(c);
}

static double flops(const struct rp_net *net)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    double all = conv_flops(&m->stem.c) + 2.0 * (double)net->batch * m->block[m->all - 1].conv[2].c.out_c * m->classes;
    for (int i = 0; i < m->all; i++) {
        for (int k = 0; k < 3; k++)
            all += conv_flops(&m->block[i].conv[k].c);
        all += m->block[i].shortcut.c.out_c ? conv_flops(&m->block[i].shortcut.c) : 0;
    }
    return 3 * all / (double)net->batch;
}

/* Features are averages of the order of 1; the squared weights are part of the loss by key. */
static void untrained(const struct rp_net *net, double *guessing, double *logit_width)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    const struct rp_tensors *l = &net->tensors[RP_WEIGHT];
    *guessing = log(m->classes);
    *logit_width = m->fc_uniform ? sqrt(1.0 / 3) : (double)net->init_range * sqrt(m->block[m->all - 1].conv[2].c.out_c);
    for (int i = 0; i < l->n && m->decay_loss > 0; i++) {
        char name[RP_TENSOR_NAME];
        const struct rp_tensor *t = &l->t[i];
        double square = t->init == RP_INIT_UNIFORM  ? 1 / (3 * (double)t->fan)
                        : t->fan                    ? 2 / (double)t->fan
                        : t->init == RP_INIT_ONE    ? 1
                        : t->init == RP_INIT_ZERO   ? 0
                                                    : (double)(net->init_range * net->init_range);
        if (!rp_name_excluded(rp_tensor_name(name, t), m->excluded))
            *guessing += (double)m->decay_loss * square * (double)t->count;
    }
}

static const char *size_name(const struct rp_recipe *r)
{
    return r->model_width == STEM && r->task_image_size == 224 && strcmp(r->model_blocks, "3,4,6,3") == 0
               ? "resnet50-v1.5"
               : NULL;
}

static int64_t one_per_sample(const struct rp_recipe *r)
{
    (void)r;
    return 1;
}

static int loss_parts_of(const struct rp_recipe *r)
{
    return r->optimizer_weight_decay_form == RP_DECAY_FORM_loss && r->optimizer_weight_decay > 0 ? 2 : 1;
}

static const struct rp_public public_form = {.counted = ".running_mean", .counter = ".num_batches_tracked"};

extern const struct rp_model rp_model_resnet50;
const struct rp_model rp_model_resnet50 = {
    .name = "resnet50",
    .sample_unit = "images",
    .task = "image classification",
    .loss_part = {"cross_entropy", "weight_decay"},
    .loss_parts_of = loss_parts_of,
    .counter = {{.name = "correct", .most = 1}, {.name = "images", .per_sample = one_per_sample}},
    .public = &public_form, .size_name = size_name,
    .flops_formula = "3 x forward matrix products and convolutions (backward counted as 2 x forward, also for the "
                     "first convolution): 3 * 2 * sum of output pixels * kernel height * kernel width * input "
                     "channels * output channels per image",
    .size = sizeof(struct rp_resnet),
    .input_size = sizeof(struct rp_resnet_input),
    .configure = configure,
    .declare = declare,
    .declare_input = declare_input,
    .fields = fields,
    .prepare = prepare,
    .forward = rp_resnet_forward,
    .measure = rp_resnet_measure,
    .backward = rp_resnet_backward,
    .flops = flops,
    .untrained = untrained,
};
