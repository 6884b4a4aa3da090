/* The gradient of a step: forward and backward of every micro-batch of this rank, the tree over them, and where the first NaN is. */
#include "train/inner.h"

#include <math.h>

static void at_micro(struct rp_train *t, int64_t i, int64_t step)
{
    t->net->step = step;
    t->net->micro = t->first + i;
}

int rp_train_forward(struct rp_train *t, int64_t i, int64_t step, float *block, struct rp_losses *l, struct rp_err *err)
{
    struct rp_net *m = t->net;
    int parts = rp_model_loss_parts(m->model), n = parts ? parts : 1;
    *l = (struct rp_losses){0};
    at_micro(t, i, step);
    m->g = block;
    if (m->model->forward(m, rp_train_view(t, i), err) < 0 || m->dev->backend->sync(m->dev, err) < 0 ||
        m->dev->backend->download(m->dev, l->part, m->loss, (size_t)n * sizeof *l->part, err) < 0)
        return -1;
    l->loss = l->part[0];
    for (int k = 1; k < n; k++)
        l->loss += l->part[k];
    return m->model->measure ? m->model->measure(m, rp_train_view(t, i), err) : 0;
}

int rp_train_backward(struct rp_train *t, int64_t i, int64_t step, struct rp_err *err)
{
    at_micro(t, i, step);
    return t->net->model->backward(t->net, rp_train_view(t, i), err) < 0 ? -1 : t->net->dev->backend->sync(t->net->dev, err);
}

/* ---- where the first NaN or Inf is ---- */

/* Searches one list in order: -1 and *err if a tensor contains one, else 0. made_by: replaces that of the tensors, unless NULL. */
static int report_list(const struct rp_train *t, const struct rp_tensors *list, float *block, const char *made_by, struct rp_err *err)
{
    const struct rp_net *m = t->net;
    for (int i = 0; i < list->n; i++) {
        const struct rp_tensor *x = &list->t[i];
        const char *op = made_by ? made_by : x->made_by;
        char name[RP_TENSOR_NAME];
        int64_t at = -1;
        if (op)
            m->dev->op->find_nonfinite(m->dev, &at, rp_tensor_in(block, x), x->count);
        if (at >= 0)
            return rp_fail(err, RP_MISMATCH,
                           "step %lld, micro-batch %lld: the loss is not finite; the first NaN or Inf is in tensor '%s' (element %lld), "
                           "made by operation %s; a lower learning rate, or --init from finite values, may help",
                           (long long)m->step, (long long)m->micro, rp_tensor_name(name, x), (long long)at, op);
    }
    return 0;
}

/* After forward, before backward. Always -1. */
static int report_loss(const struct rp_train *t, struct rp_err *err)
{
    const struct rp_net *m = t->net;
    const char *origin = m->step == 0 ? "initialisation" : "the optimizer";
    if (report_list(t, &m->tensors[RP_WEIGHT], t->state.w, origin, err) < 0 ||
        report_list(t, &m->tensors[RP_BUFFER], t->state.buffer, origin, err) < 0 ||
        report_list(t, &m->tensors[RP_ACTIVATION], t->activations, NULL, err) < 0)
        return -1;
    return rp_fail(err, RP_MISMATCH, "step %lld, micro-batch %lld: the loss is not finite: its sum overflowed over finite terms",
                   (long long)m->step, (long long)m->micro);
}

int rp_train_report_gradient(const struct rp_train *t, int64_t step, struct rp_err *err)
{
    const struct rp_tensors *weights = &t->net->tensors[RP_WEIGHT];
    for (int i = weights->n - 1; i >= 0; i--) { /* the heads come last in the list and first in the backward pass */
        const struct rp_tensor *x = &weights->t[i];
        char name[RP_TENSOR_NAME];
        int64_t at = -1;
        t->net->dev->op->find_nonfinite(t->net->dev, &at, rp_tensor_in(t->gradient[0], x), x->count);
        if (at >= 0)
            return rp_fail(err, RP_MISMATCH,
                           "step %lld: the gradient norm is not finite; NaN or Inf in the gradient of tensor '%s' (element %lld), made by "
                           "the backward pass; a lower learning rate may help",
                           (long long)step, rp_tensor_name(name, x), (long long)at);
    }
    return rp_fail(err, RP_MISMATCH, "step %lld: the gradient norm overflowed in operation square_sums; every gradient is finite",
                   (long long)step);
}

/* ---- the tree ---- */

/* Each use of a weight has been summed over the micro-batches on its own. */
static void add_second_gradients(struct rp_train *t)
{
    const struct rp_net *m = t->net;
    t->net->g = t->gradient[0];
    for (int i = 0; i < m->tensors[RP_SECOND_GRADIENT].n; i++) {
        const struct rp_tensor *w = &m->tensors[RP_WEIGHT].t[m->tensors[RP_SECOND_GRADIENT].t[i].of];
        float *g = rp_tensor_in(m->g, w);
        m->dev->op->add(m->dev, g, g, rp_net_second_grad(m, i), w->count);
    }
}

int rp_train_gradient(struct rp_train *t, int64_t step, struct rp_losses *sum, struct rp_err *err)
{
    struct rp_grad_tree tree;
    rp_grad_tree_init(&tree, t->net->dev, t->gradient, t->gradients, rp_net_gradient_floats(t->net));
    for (int64_t i = 0; i < t->own; i++) {
        struct rp_losses l;
        if (rp_train_forward(t, i, step, rp_grad_tree_leaf(&tree), &l, err) < 0)
            return -1;
        if (!isfinite(l.loss))
            return report_loss(t, err);
        if (rp_train_backward(t, i, step, err) < 0)
            return -1;
        rp_grad_tree_push(&tree, t->first + i, &l);
    }
    rp_grad_tree_finish(&tree, sum);
    add_second_gradients(t);
    return 0;
}
