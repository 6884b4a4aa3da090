/* ResNet-50 v1.5: stem, four groups of bottleneck blocks with the stride in the 3x3 convolution, average pool, linear classifier.
 *
 * Sizes in comments: B batch, P output pixels of a convolution, C channels. Images are NHWC everywhere; weights [out, kh, kw, in].
 *
 *   block:  x -> conv1 1x1 -> norm, relu -> conv2 3x3 -> norm, relu -> conv3 1x1 -> norm -> + shortcut, relu -> y
 *           shortcut: x, or in the first block of a group a 1x1 convolution with the group's stride and a norm
 *
 * A batch norm takes the statistics of its micro-batch. Mean and variance are written where the tree over micro-batches sums them, and move
 * the running statistics once a step.
 *
 * Of a convolution its output x is kept, which its norm needs; y, what leaves the norm, is kept, or with train.recompute selective computed
 * again from x for conv1 and conv2, in memory that all blocks share.
 *
 * One file although long: forward, backward and declarations follow one layout of blocks and change together.
 *
 * Backward: `grad` holds the gradient of a block's output, then that of its input; `other` has the same size. */
/* Longer than 600 lines: declarations, forward and backward passes of one model change together. */
#include "base/buf.h"
#include "model/declare.h"
#include "model/nn/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS 4
#define STEM 64 /* channels of the published model, model.width */

/* A convolution and its batch norm. */
struct conv_norm {
    struct rp_conv c;
    rp_stored *w;                                     /* [out, kh, kw, in] */
    float *gamma, *beta, *running_mean, *running_var; /* [out] */
    rp_stored *x, *y;                                 /* [B, P, out] before and after the norm. y NULL: written elsewhere */
    float *rstd;                                      /* [out] */
};

struct resnet_block {
    struct conv_norm conv[3], shortcut; /* of which out_c is 0 if there is none */
    rp_stored *y;
};

struct resnet {
    struct rp_net net;
    int size, width, classes, blocks[GROUPS], all;
    float eps, smoothing, decay_loss;           /* decay_loss: half the factor of the squared weights in the loss, or 0 */
    const char *excluded;                       /* from weight decay */
    int same, zero_gamma, fc_uniform;           /* padding as TensorFlow's SAME; the last norm of a block begins at 0; PyTorch's fc */
    enum rp_conv_init init;
    enum rp_recompute recompute;
    float scale[3], shift[3];                   /* of pixels */
    rp_stored *image;                           /* [B, size, size, 3] */
    struct conv_norm stem;
    struct rp_conv pool;
    rp_stored *pooled;                          /* what enters the first block */
    uint8_t *which;                             /* places of the largest values */
    struct resnet_block *block;
    rp_stored *features, *logits;               /* [B, C], [B, classes] */
    float *loss;                                /* [B] */
    int32_t *best;                              /* [B] */
    rp_stored *fc_w;                            /* [classes, C] */
    float *fc_b;
    rp_stored *grad, *other, *inner[2];         /* scratch */
    size_t grad_elements, inner_elements[2], dw_floats; /* the most that it holds */
    float *dw_work, *squares, *half;            /* scratch of weight gradients; of the squared weights */
};

struct resnet_input {
    struct rp_input in;
    uint8_t *image;                             /* [B, size, size, 3] */
    int32_t *label;                             /* [B] */
    float *coef;                                /* [B] */
};

/* ---- sizes ---- */

/* A convolution or pool of k x k pixels over an image of in x in. */
static struct rp_conv window(const struct resnet *m, int in, int in_c, int out_c, int k, int stride)
{
    struct rp_conv c = {.batch = m->net.batch > 0 ? (int)m->net.batch : 1, .in_h = in, .in_w = in, .in_c = in_c, .out_c = out_c,
                        .kernel_h = k, .kernel_w = k, .stride = stride};
    int out = m->same ? (in + stride - 1) / stride : (in + 2 * ((k - 1) / 2) - k) / stride + 1, all = (out - 1) * stride + k - in;
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
static void lay_out_block(struct resnet *m, struct resnet_block *k, int g, int b, int size, int in)
{
    const int width = m->width << g, stride = g && !b ? 2 : 1, out = 4 * width;
    k->conv[0].c = window(m, size, in, width, 1, 1);
    k->conv[1].c = window(m, size, width, width, 3, stride);
    k->conv[2].c = window(m, k->conv[1].c.out_h, width, out, 1, 1);
    if (!b)
        k->shortcut.c = window(m, size, in, out, 1, stride);
    m->grad_elements = larger(m->grad_elements, larger(in_elements(&k->conv[0].c), out_elements(&k->conv[2].c)));
    for (int i = 0; i < 2; i++)
        m->inner_elements[i] = larger(m->inner_elements[i], out_elements(&k->conv[i].c));
    for (int i = 0; i < 4; i++) {
        const struct conv_norm *a = i < 3 ? &k->conv[i] : &k->shortcut;
        m->dw_floats = larger(m->dw_floats, a->c.out_c ? rp_conv_wgrad_work(&a->c) : 0);
    }
}

/* Every convolution, and what the backward pass needs at most. */
static void lay_out(struct resnet *m)
{
    m->stem.c = window(m, m->size, 3, m->width, 7, 2);
    m->pool = window(m, m->stem.c.out_h, m->width, m->width, 3, 2);
    m->grad_elements = out_elements(&m->stem.c);
    m->dw_floats = rp_conv_wgrad_work(&m->stem.c);
    int in = m->width, size = m->pool.out_h, n = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int b = 0; b < m->blocks[g]; b++) {
            struct resnet_block *k = &m->block[n++];
            lay_out_block(m, k, g, b, size, in);
            in = k->conv[2].c.out_c;
            size = k->conv[2].c.out_h;
        }
}

/* Three numbers, a value for each channel: the recipe's check has read them before. */
static void numbers(double out[3], const char *text)
{
    char *end = (char *)text;
    for (int i = 0; i < 3; i++)
        out[i] = strtod(i ? end + 1 : end, &end);
}

static void configure(struct rp_net *net, const struct rp_recipe *r)
{
    struct resnet *m = (struct resnet *)net;
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
    m->decay_loss = r->optimizer_weight_decay_form == RP_DECAY_FORM_loss ? (float)(0.5 * r->optimizer_weight_decay) : 0.0f;
    m->excluded = r->optimizer_exclude;
    net->running_momentum = (float)r->model_batch_norm_momentum;
    for (int g = 0; g < GROUPS; g++) {
        m->blocks[g] = (int)strtol(g ? end + 1 : end, &end, 10);
        m->all += m->blocks[g];
    }
    numbers(mean, r->model_pixel_mean);
    numbers(std, r->model_pixel_std);
    for (int i = 0; i < 3; i++) {
        m->scale[i] = (float)(1 / std[i]);
        m->shift[i] = (float)(-mean[i] / std[i]);
    }
}

/* ---- declarations ---- */

#define TRUNCATED_DEVIATION 0.87962566103423978 /* of a normal distribution that is cut at 2 deviations */

/* Names of a convolution, its norm's weights and its norm's buffers; layer: the number in them, 0: none. The index of a weight in this order is
 * the key of its initialisation: never reorder. */
struct conv_names {
    const char *conv, *gamma, *beta, *mean, *var;
};

static void declare_conv(struct rp_net *net, struct conv_norm *a, const struct conv_names *name, int layer, int stage, int zero)
{
    const struct resnet *m = (const struct resnet *)net;
    const struct rp_conv *c = &a->c;
    const long n = c->out_c, rows = rp_conv_rows(c);
    const int out = m->init == RP_CONV_INIT_fan_out || m->init == RP_CONV_INIT_truncated_fan_out;
    const int truncated = m->init == RP_CONV_INIT_truncated_fan_in || m->init == RP_CONV_INIT_truncated_fan_out;
    const long fan = (long)c->kernel_h * c->kernel_w * (out ? c->out_c : c->in_c);
#define AT .layer = layer, .stage = stage
    ADD(RP_WEIGHT, .at = &a->w, .name = name->conv, .dim = {n, c->kernel_h, c->kernel_w, c->in_c}, .channels_first = 1,
        .init = truncated ? RP_INIT_TRUNCATED_NORMAL : RP_INIT_NORMAL, .fan = fan, .scale = truncated ? 1 / TRUNCATED_DEVIATION : 0, AT);
    ADD(RP_WEIGHT, .at = &a->gamma, .name = name->gamma, .dim = {n}, .init = zero ? RP_INIT_ZERO : RP_INIT_ONE, AT);
    BIAS(&a->beta, name->beta, n, AT);
    ADD(RP_BUFFER, .at = &a->running_mean, .name = name->mean, .dim = {n}, .statistic = 1, AT);
    ADD(RP_BUFFER, .at = &a->running_var, .name = name->var, .dim = {n}, .init = RP_INIT_ONE,
        .statistic = rows > 1 ? (double)rows / (double)(rows - 1) : 1, AT);
    ADD(RP_ACTIVATION, .at = &a->x, .name = "output of a convolution", .dtype = RP_STORED, .dim = {rows, n}, .made_by = "conv_forward", AT);
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
static void declare_output(struct rp_net *net, struct conv_norm *a, int k, int layer, int stage)
{
    const struct resnet *m = (const struct resnet *)net;
    static const char *const names[] = {"output of a block's first norm", "output of a block's second norm"};
    const int shared = m->recompute != RP_RECOMPUTE_none;
    ADD(RP_ACTIVATION, .at = &a->y, .name = names[k], .dtype = RP_STORED,
        .dim = {(long)(shared ? m->inner_elements[k] : out_elements(&a->c))},
        .made_by = shared ? NULL : "batchnorm_forward", .shared = shared, AT);
}

/* [group][convolution] */
#define CONV_NAMES(group, conv, norm)                                                                                                      \
    {                                                                                                                                      \
        "layer" group ".%d." conv ".weight", "layer" group ".%d." norm ".weight", "layer" group ".%d." norm ".bias",                       \
            "layer" group ".%d." norm ".running_mean", "layer" group ".%d." norm ".running_var"                                            \
    }
#define GROUP_NAMES(group)                                                                                                                 \
    {                                                                                                                                      \
        CONV_NAMES(group, "conv1", "bn1"), CONV_NAMES(group, "conv2", "bn2"), CONV_NAMES(group, "conv3", "bn3"),                           \
            CONV_NAMES(group, "downsample.0", "downsample.1")                                                                              \
    }
static const struct conv_names block_names[GROUPS][4] = {GROUP_NAMES("1"), GROUP_NAMES("2"), GROUP_NAMES("3"), GROUP_NAMES("4")};

/* Block b from 0 of group g. */
static void declare_block(struct rp_net *net, struct resnet_block *k, int g, int b, int stage)
{
    const struct resnet *m = (const struct resnet *)net;
    const int layer = b + 1;
    const struct conv_names *name = block_names[g];
    for (int i = 0; i < 3; i++) {
        declare_conv(net, &k->conv[i], &name[i], layer, stage, i == 2 && m->zero_gamma);
        if (i < 2)
            declare_output(net, &k->conv[i], i, layer, stage);
    }
    if (k->shortcut.c.out_c)
        declare_conv(net, &k->shortcut, &name[3], layer, stage, 0);
    ADD(RP_ACTIVATION, .at = &k->y, .name = "output of a block", .dtype = RP_STORED, .dim = {(long)out_elements(&k->conv[2].c)},
        .made_by = "batchnorm_forward", AT);
}
#undef AT

static void declare_head(struct rp_net *net, int features)
{
    struct resnet *m = (struct resnet *)net;
    const long b = net->batch;
    ADD(RP_WEIGHT, .at = &m->fc_w, .name = "fc.weight", .dim = {m->classes, features}, .stage = m->all + 1,
        .init = m->fc_uniform ? RP_INIT_UNIFORM : RP_INIT_NORMAL, .fan = m->fc_uniform ? features : 0);
    BIAS(&m->fc_b, "fc.bias", m->classes, .stage = m->all + 1, .init = m->fc_uniform ? RP_INIT_UNIFORM : RP_INIT_ZERO, .fan = features);
    ACT(&m->features, "features of an image", b, features, .stage = m->all + 1, .made_by = "avgpool_forward");
    ACT(&m->logits, "logits", b, m->classes, .stage = m->all + 1);
    NUMBERS(&m->loss, "loss of each image", b, .stage = m->all + 1, .made_by = "gemm or softmax_xent");
    ADD(RP_ACTIVATION, .at = &m->best, .name = "classes with the largest logits", .dtype = RP_I32, .dim = {b}, .stage = m->all + 1);
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
    static const struct conv_names stem = {"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"};
    struct resnet *m = (struct resnet *)net;
    m->block = rp_net_array(net, m->all, sizeof *m->block);
    lay_out(m);
    const struct rp_conv *last = &m->block[m->all - 1].conv[2].c;
    const long end = (long)net->batch * last->out_h * last->out_w;
    ACT(&m->image, "normalised images", (long)net->batch * m->size * m->size, 3, .made_by = "scale_pixels");
    declare_conv(net, &m->stem, &stem, 0, 0, 0);
    ACT(&m->stem.y, "output of the stem", rp_conv_rows(&m->stem.c), m->width, .made_by = "batchnorm_forward");
    ACT(&m->pooled, "pooled stem", rp_conv_rows(&m->pool), m->width, .made_by = "maxpool_forward");
    ADD(RP_ACTIVATION, .at = &m->which, .name = "places of the largest", .dtype = RP_U8, .dim = {(long)out_elements(&m->pool)});
    for (int g = 0, n = 0; g < GROUPS; g++)
        for (int b = 0; b < m->blocks[g]; b++, n++)
            declare_block(net, &m->block[n], g, b, n + 1);
    declare_head(net, last->out_c);
    ADD(RP_SCRATCH, .at = &m->grad, .name = "gradient of a block's output", .dtype = RP_STORED, .dim = {(long)m->grad_elements});
    ADD(RP_SCRATCH, .at = &m->other, .name = "gradient inside a block", .dtype = RP_STORED,
        .dim = {(long)m->grad_elements}); /* the two change roles */
    ADD(RP_SCRATCH, .at = &m->inner[0], .name = "gradient of the first norm", .dtype = RP_STORED, .dim = {(long)m->inner_elements[0]});
    ADD(RP_SCRATCH, .at = &m->inner[1], .name = "gradient of the second norm", .dtype = RP_STORED, .dim = {(long)m->inner_elements[1]});
    if (m->dw_floats)
        ADD(RP_SCRATCH, .at = &m->dw_work, .name = "groups of weight gradients", .dim = {(long)m->dw_floats});
    if (m->decay_loss > 0) {
        const struct rp_tensors *w = &net->tensors[RP_WEIGHT];
        ADD(RP_SCRATCH, .at = &m->squares, .name = "squares of weights", .dim = {(long)(rp_tensors_largest(w) / 4 / RP_NORM_CHUNK) + 1 + w->n});
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
    const struct resnet *m = (const struct resnet *)net;
    struct resnet_input *in = (struct resnet_input *)input;
    IN(&in->image, "image", RP_U8, (long)net->batch * m->size * m->size * 3);
    IN(&in->label, "label", RP_I32, net->batch);
    IN(&in->coef, "coefficients of images", RP_F32, net->batch);
}

static int fields(const struct rp_net *net, struct rp_sample_field *f)
{
    const struct resnet *m = (const struct resnet *)net;
    f[0] = (struct rp_sample_field){"image", RP_U8, (long)m->size * m->size * 3, 0};
    f[1] = (struct rp_sample_field){"label", RP_I32, 1, m->classes};
    return 2;
}

static int prepare(const struct rp_net *net, struct rp_input *input, void *const *column, struct rp_err *err)
{
    struct resnet_input *in = (struct resnet_input *)input;
    (void)column, (void)err;
    input->counter[0] = 0;
    input->counter[1] = net->batch;
    for (int64_t b = 0; b < net->batch; b++)
        in->coef[b] = 1.0f / (float)net->batch;
    return 0;
}

/* ---- forward ---- */

/* x and statistics of a. */
static void convolve(struct resnet *m, struct conv_norm *a, const rp_stored *in)
{
    struct rp_dev *dev = m->net.dev;
    dev->op->conv_forward(dev, a->x, rp_net_statistic(&m->net, a->running_mean), in, a->w, &a->c, m->net.work);
}

/* The arguments of the norm of a's x. */
static struct rp_batchnorm norm_of(const struct resnet *m, const struct conv_norm *a, rp_stored *y, const rp_stored *add,
                                   int relu)
{
    return (struct rp_batchnorm){.rows = (int)rp_conv_rows(&a->c), .width = a->c.out_c, .eps = m->eps, .relu = relu,
                                 .x = a->x, .mean = rp_net_statistic(&m->net, a->running_mean), .gamma = a->gamma,
                                 .beta = a->beta, .add = add, .y = y, .var = rp_net_statistic(&m->net, a->running_var),
                                 .rstd = a->rstd, .work = m->net.work};
}

/* y = norm of a's x, + add. */
static void normalise(struct resnet *m, const struct conv_norm *a, rp_stored *y, const rp_stored *add, int relu)
{
    const struct rp_batchnorm n = norm_of(m, a, y, add, relu);
    m->net.dev->op->batchnorm_forward(m->net.dev, &n);
}

static void block_forward(struct resnet *m, struct resnet_block *k, const rp_stored *x)
{
    const rp_stored *add = x, *in = x;
    if (k->shortcut.c.out_c) {
        convolve(m, &k->shortcut, x);
        normalise(m, &k->shortcut, k->y, NULL, 0);
        add = k->y;
    }
    for (int i = 0; i < 2; i++) {
        convolve(m, &k->conv[i], in);
        normalise(m, &k->conv[i], k->conv[i].y, NULL, 1);
        in = k->conv[i].y;
    }
    convolve(m, &k->conv[2], in);
    normalise(m, &k->conv[2], k->y, add, 1);
}

/* loss[1] = decay/2 * sum of squares of every weight that decays */
static void squared_weights(struct resnet *m)
{
    struct rp_dev *dev = m->net.dev;
    const struct rp_tensors *l = &m->net.tensors[RP_WEIGHT];
    float *tensor = m->squares, *chunk = m->squares + l->n;
    size_t before = 0;
    int n = 0;
    if (m->decay_loss == 0) {
        dev->op->fill(dev, m->net.loss + 1, 0.0f, 1);
        return;
    }
    for (int i = 0; i < l->n; before += rp_tensor_parts(&l->t[i++], 1, RP_NORM_CHUNK)) {
        char name[RP_TENSOR_NAME];
        const struct rp_tensor *t = &l->t[i];
        if (rp_name_excluded(rp_tensor_name(name, t), m->excluded))
            continue;
        if (!m->net.squares)
            dev->op->square_sums(dev, chunk, rp_tensor_in(m->net.masters, t), 1.0f, t->count);
        dev->op->tree_sum(dev, tensor + n++, m->net.squares ? m->net.squares + before : chunk,
                          rp_tensor_parts(t, 1, RP_NORM_CHUNK));
    }
    dev->op->tree_sum(dev, chunk, tensor, (size_t)n);
    dev->op->fill(dev, m->half, m->decay_loss, 1);
    dev->op->weighted_sum(dev, m->net.loss + 1, chunk, m->half, 1);
}

static void classify(struct resnet *m, const struct resnet_input *in, const struct rp_conv *last, const rp_stored *x)
{
    struct rp_dev *dev = m->net.dev;
    const int b = (int)m->net.batch, f = last->out_c, n = m->classes;
    dev->op->avgpool_forward(dev, m->features, x, b, last->out_h * last->out_w, f);
    rp_linear_forward(dev, m->logits, m->features, m->fc_w, m->fc_b, b, f, n, 0);
    dev->op->argmax_rows(dev, m->best, m->logits, n, b, n);
    if (m->smoothing > 0)
        dev->op->softmax_xent_smoothed(dev, m->loss, m->logits, n, in->label, in->coef, m->net.loss_scale, b, n,
                                       m->smoothing);
    else
        dev->op->softmax_xent(dev, m->loss, m->logits, n, in->label, in->coef, m->net.loss_scale, b, n, 1);
    dev->op->weighted_sum(dev, m->net.loss, m->loss, in->coef, b);
}

static int forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct resnet *m = (struct resnet *)net;
    const struct resnet_input *in = (const struct resnet_input *)input;
    struct rp_dev *dev = net->dev;
    dev->op->scale_pixels(dev, m->image, in->image, m->scale, m->shift, (size_t)net->batch * (size_t)m->size * (size_t)m->size, 3);
    convolve(m, &m->stem, m->image);
    normalise(m, &m->stem, m->stem.y, NULL, 1);
    dev->op->maxpool_forward(dev, m->pooled, m->which, m->stem.y, &m->pool);
    const rp_stored *x = m->pooled;
    for (int i = 0; i < m->all; i++) {
        if (rp_net_alive(net, err) < 0)
            return -1;
        block_forward(m, &m->block[i], x);
        x = m->block[i].y;
    }
    classify(m, in, &m->block[m->all - 1].conv[2].c, x);
    squared_weights(m);
    return 0;
}

/* Images whose class has the largest logit. */
static int measure(struct rp_net *net, struct rp_input *input, struct rp_err *err)
{
    const struct resnet *m = (const struct resnet *)net;
    const struct resnet_input *in = (const struct resnet_input *)input;
    const size_t bytes = (size_t)net->batch * sizeof(int32_t);
    RP_FREE int32_t *best = rp_alloc(bytes), *label = rp_alloc(bytes);
    if (net->dev->backend->download(net->dev, best, m->best, bytes, err) < 0 ||
        net->dev->backend->download(net->dev, label, in->label, bytes, err) < 0)
        return -1;
    input->counter[0] = 0;
    for (int64_t b = 0; b < net->batch; b++)
        input->counter[0] += best[b] == label[b];
    return 0;
}

/* ---- backward ---- */

/* dx (may be dy) = gradient of a's x; y: its output, where a relu follows, or NULL. add: gradient of what was added, or NULL. */
static void norm_backward(struct resnet *m, const struct conv_norm *a, rp_stored *dx, rp_stored *add, const rp_stored *dy,
                          const rp_stored *y)
{
    const struct rp_batchnorm_grad g = {.rows = (int)rp_conv_rows(&a->c), .width = a->c.out_c, .dy = dy, .x = a->x,
                                        .y = y, .mean = rp_net_statistic(&m->net, a->running_mean), .rstd = a->rstd,
                                        .gamma = a->gamma, .dx = dx, .dadd = add,
                                        .dgamma = rp_net_vector_grad(&m->net, a->gamma),
                                        .dbeta = rp_net_vector_grad(&m->net, a->beta), .work = m->net.work};
    m->net.dev->op->batchnorm_backward(m->net.dev, &g);
}

static void weight_gradient(struct resnet *m, const struct conv_norm *a, const rp_stored *dy, const rp_stored *x)
{
    m->net.dev->op->conv_wgrad(m->net.dev, rp_net_grad(&m->net, a->w), dy, x, &a->c, m->dw_work);
}

static void input_gradient(struct resnet *m, const struct conv_norm *a, rp_stored *dx, const rp_stored *dy, const rp_stored *add)
{
    m->net.dev->op->conv_dgrad(m->net.dev, dx, dy, a->w, add, &a->c);
}

static void recompute_norm(struct resnet *m, const struct conv_norm *a)
{
    const struct rp_batchnorm n = norm_of(m, a, a->y, NULL, 1);
    if (m->recompute != RP_RECOMPUTE_none)
        m->net.dev->op->batchnorm_apply(m->net.dev, &n);
}

/* The gradient of the block's output, in *grad, becomes that of its input. */
static void block_backward(struct resnet *m, const struct resnet_block *k, rp_stored **grad, rp_stored **other, const rp_stored *x)
{
    const struct conv_norm *a = k->conv;
    recompute_norm(m, &a[0]);
    recompute_norm(m, &a[1]);
    norm_backward(m, &a[2], *other, *grad, *grad, k->y);
    weight_gradient(m, &a[2], *other, a[1].y);
    input_gradient(m, &a[2], m->inner[1], *other, NULL);
    norm_backward(m, &a[1], m->inner[1], NULL, m->inner[1], a[1].y);
    weight_gradient(m, &a[1], m->inner[1], a[0].y);
    input_gradient(m, &a[1], m->inner[0], m->inner[1], NULL);
    norm_backward(m, &a[0], m->inner[0], NULL, m->inner[0], a[0].y);
    weight_gradient(m, &a[0], m->inner[0], x);
    if (k->shortcut.c.out_c) {
        norm_backward(m, &k->shortcut, *grad, NULL, *grad, NULL);
        weight_gradient(m, &k->shortcut, *grad, x);
        input_gradient(m, &k->shortcut, *other, *grad, NULL);
        rp_stored *t = *grad;
        *grad = *other;
        *other = t;
    }
    input_gradient(m, &a[0], *grad, m->inner[0], *grad);
}

static int backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct resnet *m = (struct resnet *)net;
    struct rp_dev *dev = net->dev;
    const struct rp_conv *last = &m->block[m->all - 1].conv[2].c;
    const int b = (int)net->batch, f = last->out_c, n = m->classes;
    rp_stored *grad = m->grad, *other = m->other;
    (void)input;
    rp_net_watch_gradient(net, m->logits, (size_t)b * (size_t)n);
    if (rp_net_alive(net, err) < 0)
        return -1;
    dev->op->colsum(dev, rp_net_vector_grad(net, m->fc_b), m->logits, b, n, net->work);
    rp_linear_wgrad(dev, rp_net_grad(net, m->fc_w), m->logits, m->features, b, f, n, 0);
    rp_linear_dgrad(dev, m->features, m->logits, m->fc_w, NULL, b, f, n, 0);
    dev->op->avgpool_backward(dev, grad, m->features, b, last->out_h * last->out_w, f);
    rp_net_gradients_ready(net, m->all + 1);
    for (int i = m->all - 1; i >= 0; i--) {
        if (rp_net_alive(net, err) < 0)
            return -1;
        block_backward(m, &m->block[i], &grad, &other, i ? m->block[i - 1].y : m->pooled);
        rp_net_gradients_ready(net, i + 1);
    }
    dev->op->maxpool_backward(dev, other, grad, m->which, &m->pool);
    norm_backward(m, &m->stem, other, NULL, other, m->stem.y);
    weight_gradient(m, &m->stem, other, m->image);
    return 0;
}

/* ---- what documents say of it ---- */

static double conv_flops(const struct rp_conv *c)
{
    return 2.0 * (double)rp_conv_rows(c) * c->out_c * rp_conv_taps(c);
}

static double flops(const struct rp_net *net)
{
    const struct resnet *m = (const struct resnet *)net;
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
    const struct resnet *m = (const struct resnet *)net;
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
    return r->model_width == STEM && r->task_image_size == 224 && strcmp(r->model_blocks, "3,4,6,3") == 0 ? "resnet50-v1.5" : NULL;
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
    .public = &public_form,
    .size_name = size_name,
    .flops_formula = "3 x forward matrix products and convolutions (backward counted as 2 x forward, also for the first convolution): 3 * 2 * sum of "
                     "output pixels * kernel height * kernel width * input channels * output channels per image",
    .size = sizeof(struct resnet),
    .input_size = sizeof(struct resnet_input),
    .configure = configure,
    .declare = declare,
    .declare_input = declare_input,
    .fields = fields,
    .prepare = prepare,
    .forward = forward,
    .measure = measure,
    .backward = backward,
    .flops = flops,
    .untrained = untrained,
};
