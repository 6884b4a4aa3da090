/* The gradient of a step: forward and backward of every micro-batch of this rank, the tree over them, and where the first NaN is. */
#include "base/buf.h"
#include "train/inner.h"

#include <math.h>
#include <stdlib.h>

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

/* What a rank found in its share: the last tensor of the list, as heads come last there and first in the backward pass. */
struct found {
    int64_t tensor, element; /* -1: none */
};

static struct found find_in_share(const struct rp_train *t)
{
    const struct rp_tensors *weights = &t->net->tensors[RP_WEIGHT];
    for (int i = weights->n - 1; i >= 0; i--) {
        const struct rp_tensor *x = &weights->t[i];
        size_t first, n = rp_share_of_tensor(&t->state.shares.of[t->state.shares.own], x, &first);
        int64_t at = -1;
        if (n)
            t->net->dev->op->find_nonfinite(t->net->dev, &at, rp_tensor_in(t->gradient[0], x) + first, n);
        if (at >= 0)
            return (struct found){i, (int64_t)first + at};
    }
    return (struct found){-1, -1};
}

int rp_train_report_gradient(const struct rp_train *t, int64_t step, struct rp_err *err)
{
    const int ranks = t->state.shares.n;
    RP_FREE struct found *all = rp_alloc((size_t)ranks * sizeof *all);
    struct found own = find_in_share(t), last = {-1, -1};
    char name[RP_TENSOR_NAME];
    if (rp_comm_all_gather(t->comm, RP_GROUP_DATA, all, &own, sizeof own, err) < 0)
        return -1;
    for (int i = 0; i < ranks; i++)
        if (all[i].tensor > last.tensor || (all[i].tensor == last.tensor && all[i].element < last.element))
            last = all[i];
    if (last.tensor >= 0)
        return rp_fail(err, RP_MISMATCH,
                       "step %lld: the gradient norm is not finite; NaN or Inf in the gradient of tensor '%s' (element %lld), made by "
                       "the backward pass; a lower learning rate may help",
                       (long long)step, rp_tensor_name(name, &t->net->tensors[RP_WEIGHT].t[last.tensor]), (long long)last.element);
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
        size_t first, n = rp_share_of_tensor(&t->state.shares.of[t->state.shares.own], w, &first);
        float *g = rp_tensor_in(m->g, w) + first;
        if (n)
            m->dev->op->add(m->dev, g, g, rp_net_second_grad(m, i) + first, n);
    }
}

/* The own micro-batches, as far as the tree merges them. */
static int sum_own(struct rp_train *t, int64_t step, struct rp_grad_tree *tree, struct rp_err *err)
{
    rp_grad_tree_init(tree, t->net->dev, t->gradient, t->gradients, rp_net_gradient_floats(t->net));
    for (int64_t i = 0; i < t->own; i++) {
        struct rp_losses l;
        if (rp_train_forward(t, i, step, rp_grad_tree_leaf(tree), &l, err) < 0)
            return -1;
        if (!isfinite(l.loss))
            return report_loss(t, err);
        if (rp_train_backward(t, i, step, err) < 0)
            return -1;
        rp_grad_tree_push(tree, t->first + i, &l);
    }
    return 0;
}

int rp_train_gradient(struct rp_train *t, int64_t step, struct rp_losses *sum, struct rp_err *err)
{
    struct rp_grad_tree tree;
    if (sum_own(t, step, &tree, err) < 0)
        return -1;
    if (t->comm->size[RP_GROUP_DATA] == 1)
        rp_grad_tree_finish(&tree, sum);
    else if (t->net->dev->backend->sync(t->net->dev, err) < 0 || rp_exchange_gradient(&t->exchange, t->gradient, t->room, &tree, sum, err) < 0)
        return -1;
    add_second_gradients(t);
    return 0;
}
