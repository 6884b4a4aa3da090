/* ResNet-50: forward and backward passes. */
#include "model/resnet50.h"

#include "base/buf.h"
#include "model/nn/linear.h"

/* ---- forward ---- */

/* x and statistics of a. */
static void convolve(struct rp_resnet *m, struct rp_conv_norm *a, const rp_stored *in)
{
    struct rp_dev *dev = m->net.dev;
    dev->op->conv_forward(dev, a->x, rp_net_statistic(&m->net, a->running_mean), in, a->w, &a->c, m->net.work);
}

/* [B, size, size, 3] */
static void scale_images(struct rp_resnet *m, const struct rp_resnet_input *in, rp_stored *image)
{
    m->net.dev->op->scale_pixels(m->net.dev, image, in->image, m->scale, m->shift,
                                 (size_t)m->net.batch * (size_t)m->size * (size_t)m->size, 3);
}

/* The arguments of the norm of a's x. */
static struct rp_batchnorm norm_of(const struct rp_resnet *m, const struct rp_conv_norm *a, rp_stored *y,
                                   const rp_stored *add, int relu)
{
    return (struct rp_batchnorm){.rows = (int)rp_conv_rows(&a->c), .width = a->c.out_c, .eps = m->eps, .relu = relu,
                                 .x = a->x, .mean = rp_net_statistic(&m->net, a->running_mean), .gamma = a->gamma,
                                 .beta = a->beta, .add = add, .y = y, .var = rp_net_statistic(&m->net, a->running_var),
                                 .rstd = a->rstd, .work = m->net.work};
}

/* y = norm of a's x, + add. */
static void normalise(struct rp_resnet *m, const struct rp_conv_norm *a, rp_stored *y, const rp_stored *add, int relu)
{
    const struct rp_batchnorm n = norm_of(m, a, y, add, relu);
    m->net.dev->op->batchnorm_forward(m->net.dev, &n);
}

static void block_forward(struct rp_resnet *m, struct rp_resnet_block *k, const rp_stored *x)
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
static void squared_weights(struct rp_resnet *m)
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

static struct rp_linear fc_layer(const struct rp_resnet *m, const struct rp_conv *last)
{
    return (struct rp_linear){.w = m->fc_w, .b = m->fc_b, .rows = (int)m->net.batch, .in = last->out_c,
                              .out = m->classes};
}

static void classify(struct rp_resnet *m, const struct rp_resnet_input *in, const struct rp_conv *last,
                     const rp_stored *x)
{
    struct rp_dev *dev = m->net.dev;
    const struct rp_linear fc = fc_layer(m, last);
    const int b = (int)m->net.batch, f = last->out_c, n = m->classes;
    dev->op->avgpool_forward(dev, m->features, x, b, last->out_h * last->out_w, f);
    rp_linear_forward(&m->net, &fc, m->logits, m->features);
    dev->op->argmax_rows(dev, m->best, m->logits, n, b, n);
    if (m->smoothing > 0)
        dev->op->softmax_xent_smoothed(dev, m->loss, m->logits, n, in->label, in->coef, m->net.loss_scale, b, n,
                                       m->smoothing);
    else
        dev->op->softmax_xent(dev, m->loss, m->logits, n, in->label, in->coef, m->net.loss_scale, b, n, 1);
    dev->op->weighted_sum(dev, m->net.loss, m->loss, in->coef, b);
}

int rp_resnet_forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct rp_resnet *m = (struct rp_resnet *)net;
    const struct rp_resnet_input *in = (const struct rp_resnet_input *)input;
    struct rp_dev *dev = net->dev;
    rp_stored *unused = m->block[0].y;
    scale_images(m, in, unused);
    convolve(m, &m->stem, unused);
    normalise(m, &m->stem, unused, NULL, 1);
    dev->op->maxpool_forward(dev, m->pooled, m->which, unused, &m->pool);
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
int rp_resnet_measure(struct rp_net *net, struct rp_input *input, struct rp_err *err)
{
    const struct rp_resnet *m = (const struct rp_resnet *)net;
    const struct rp_resnet_input *in = (const struct rp_resnet_input *)input;
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

/* dx (may be dy) = gradient of a's x; y: its output, where a relu follows, or NULL. add: gradient of what was added, or
 * NULL. */
static void norm_backward(struct rp_resnet *m, const struct rp_conv_norm *a, rp_stored *dx, rp_stored *add,
                          const rp_stored *dy, const rp_stored *y)
{
    const struct rp_batchnorm_grad g = {.rows = (int)rp_conv_rows(&a->c), .width = a->c.out_c, .dy = dy, .x = a->x,
                                        .y = y, .mean = rp_net_statistic(&m->net, a->running_mean), .rstd = a->rstd,
                                        .gamma = a->gamma, .dx = dx, .dadd = add,
                                        .dgamma = rp_net_vector_grad(&m->net, a->gamma),
                                        .dbeta = rp_net_vector_grad(&m->net, a->beta), .work = m->net.work};
    m->net.dev->op->batchnorm_backward(m->net.dev, &g);
}

static void weight_gradient(struct rp_resnet *m, const struct rp_conv_norm *a, const rp_stored *dy, const rp_stored *x)
{
    m->net.dev->op->conv_wgrad(m->net.dev, rp_net_grad(&m->net, a->w), dy, x, &a->c, m->dw_work);
}

static void input_gradient(struct rp_resnet *m, const struct rp_conv_norm *a, rp_stored *dx, const rp_stored *dy,
                           const rp_stored *add)
{
    m->net.dev->op->conv_dgrad(m->net.dev, dx, dy, a->w, add, &a->c);
}

/* y = the output of a's norm and its relu, again. */
static void recompute_norm(struct rp_resnet *m, const struct rp_conv_norm *a, rp_stored *y)
{
    const struct rp_batchnorm n = norm_of(m, a, y, NULL, 1);
    m->net.dev->op->batchnorm_apply(m->net.dev, &n);
}

/* The gradient of the input of a group's first block, which is written over the shortcut's x and the block's y. */
static rp_stored *shortcut_backward(struct rp_resnet *m, const struct rp_resnet_block *k, rp_stored *grad,
                                    const rp_stored *x)
{
    const struct rp_conv *c = &k->shortcut.c;
    const rp_stored *end = rp_stored_at(m->net.dev, k->y, rp_conv_rows(c) * c->out_c);
    rp_stored *dx = k->shortcut.x;
    RP_BUG_IF(rp_stored_at(m->net.dev, dx, (long)c->batch * c->in_h * c->in_w * c->in_c) > end);
    norm_backward(m, &k->shortcut, grad, NULL, grad, NULL);
    weight_gradient(m, &k->shortcut, grad, x);
    input_gradient(m, &k->shortcut, dx, grad, NULL);
    return dx;
}

/* grad: gradient of the block's output. That of its input, see the head of resnet50.h. */
static rp_stored *block_backward(struct rp_resnet *m, const struct rp_resnet_block *k, rp_stored *grad,
                                 const rp_stored *x)
{
    const struct rp_conv_norm *a = k->conv;
    rp_stored *outer = a[2].x, *inner = k->y;
    for (int i = 0; i < 2 && m->recompute != RP_RECOMPUTE_none; i++)
        recompute_norm(m, &a[i], a[i].y);
    norm_backward(m, &a[2], outer, grad, grad, k->y);
    weight_gradient(m, &a[2], outer, a[1].y);
    input_gradient(m, &a[2], inner, outer, NULL);
    norm_backward(m, &a[1], inner, NULL, inner, a[1].y);
    weight_gradient(m, &a[1], inner, a[0].y);
    input_gradient(m, &a[1], outer, inner, NULL);
    norm_backward(m, &a[0], outer, NULL, outer, a[0].y);
    weight_gradient(m, &a[0], outer, x);
    if (k->shortcut.c.out_c)
        grad = shortcut_backward(m, k, grad, x);
    input_gradient(m, &a[0], grad, outer, grad);
    return grad;
}

/* grad: gradient of the pooled stem. All that the first block kept is free. */
static void stem_backward(struct rp_resnet *m, const struct rp_resnet_input *in, const rp_stored *grad)
{
    rp_stored *again = m->block[0].y, *dx = m->block[0].conv[2].x;
    recompute_norm(m, &m->stem, again);
    m->net.dev->op->maxpool_backward(m->net.dev, dx, grad, m->which, &m->pool);
    norm_backward(m, &m->stem, dx, NULL, dx, again);
    scale_images(m, in, again);
    weight_gradient(m, &m->stem, dx, again);
}

int rp_resnet_backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct rp_resnet *m = (struct rp_resnet *)net;
    struct rp_dev *dev = net->dev;
    const struct rp_conv *last = &m->block[m->all - 1].conv[2].c;
    const struct rp_linear fc = fc_layer(m, last);
    const int b = (int)net->batch, f = last->out_c, n = m->classes;
    rp_stored *grad = m->grad;
    rp_net_watch_gradient(net, m->logits, (size_t)b * (size_t)n);
    if (rp_net_alive(net, err) < 0)
        return -1;
    dev->op->colsum(dev, rp_net_vector_grad(net, m->fc_b), m->logits, b, n, net->work);
    rp_linear_wgrad(net, &fc, m->logits, m->features);
    rp_linear_dgrad(net, &fc, m->features, m->logits, NULL);
    dev->op->avgpool_backward(dev, grad, m->features, b, last->out_h * last->out_w, f);
    rp_net_gradients_ready(net, m->all + 1);
    for (int i = m->all - 1; i >= 0; i--) {
        if (rp_net_alive(net, err) < 0)
            return -1;
        grad = block_backward(m, &m->block[i], grad, i ? m->block[i - 1].y : m->pooled);
        rp_net_gradients_ready(net, i + 1);
    }
    stem_backward(m, (const struct rp_resnet_input *)input, grad);
    return 0;
}
