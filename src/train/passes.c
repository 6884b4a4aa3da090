/* Forward and backward of one micro-batch, and where the first NaN or Inf is. */
#include "base/buf.h"
#include "train/inner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct rp_net *at_micro(struct rp_train *t, int64_t i, int64_t step, float *block)
{
    struct rp_net *m = t->set[i % t->sets];
    m->step = step;
    m->micro = t->first + i;
    m->g = block;
    m->loss_scale = t->state.scale.scale;
    m->watches_overflow = t->scale_rule.is_dynamic;
    return m;
}

int rp_train_forward(struct rp_train *t, int64_t i, int64_t step, float *block, struct rp_losses *l, struct rp_err *err)
{
    struct rp_net *m = at_micro(t, i, step, block);
    int parts = rp_model_loss_parts(m->model), n = parts ? parts : 1;
    *l = (struct rp_losses){0};
    m->overflowed = 0;
    if (m->model->forward(m, rp_train_view(t, i), err) < 0 || m->dev->backend->sync(m->dev, err) < 0)
        return -1;
    if (!m->loss) /* other stages follow */
        return 0;
    if (m->dev->backend->download(m->dev, l->part, m->loss, (size_t)n * sizeof *l->part, err) < 0)
        return -1;
    l->loss = l->part[0];
    for (int k = 1; k < n; k++)
        l->loss += l->part[k];
    return m->model->measure ? m->model->measure(m, rp_train_view(t, i), err) : 0;
}

/* The step's norm is not finite whatever gradients of earlier layers are: they need not be computed, here or on the
 * stages before, which an infinity tells. Those that are complete may be on their way to other ranks already
 * (overlap.h). */
static void end_early(struct rp_net *m)
{
    const struct rp_tensors *l = &m->tensors[RP_WEIGHT];
    for (int i = 0; i < l->n; i++)
        if (l->t[i].stage < m->overflowed - 1 && l->t[i].count)
            m->dev->op->fill(m->dev, rp_tensor_in(m->g, &l->t[i]), INFINITY, l->t[i].count);
    if (m->boundary) {
        m->dev->op->fill(m->dev, m->work, INFINITY, 1);
        m->dev->op->round_stored(m->dev, *m->boundary, m->work, NULL, 1);
    }
}

int rp_train_backward(struct rp_train *t, int64_t i, int64_t step, float *block, struct rp_err *err)
{
    struct rp_net *m = at_micro(t, i, step, block);
    if (!m->loss)
        rp_net_watch_gradient(m, *m->boundary, m->boundary_elements);
    const int failed = m->model->backward(m, rp_train_view(t, i), err) < 0;
    if (failed && !m->overflowed)
        return -1;
    if (failed)
        end_early(m);
    m->overflowed = 0;
    return m->dev->backend->sync(m->dev, err);
}

/* ---- where the first NaN or Inf is ---- */

/* What is not finite, for messages: on a stage that others follow the loss is not known. */
static const char *not_finite(char text[80], const struct rp_net *m)
{
    const struct rp_comm *c = m->comm;
    if (m->loss)
        snprintf(text, 80, "the loss is not finite");
    else
        snprintf(text, 80, "the output of pipeline stage %d (rank %d) is not finite", c->rank[RP_GROUP_PIPELINE],
                 c->rank[RP_GROUP_WORLD]);
    return text;
}

static int report_tensor(const struct rp_net *m, const struct rp_tensor *x, int64_t at, const char *made_by,
                         struct rp_err *err)
{
    char name[RP_TENSOR_NAME], what[80];
    return rp_fail(err, RP_MISMATCH,
                   "step %lld, micro-batch %lld: %s; the first NaN or Inf is in tensor '%s' (element %lld), "
                   "made by operation %s; a lower learning rate, or --init from finite values, may help",
                   (long long)m->step, (long long)m->micro, not_finite(what, m), rp_tensor_name(name, x), (long long)at,
                   made_by);
}

/* Searches one list in order: -1 and *err if a tensor contains one, else 0. block: of `sets` sets, of which this is
 * one. made_by: replaces that of the tensors, unless NULL. */
static int report_list(const struct rp_net *m, const struct rp_tensors *list, void *block, int set, int sets,
                       const char *made_by, struct rp_err *err)
{
    for (int i = 0; i < list->n; i++) {
        const struct rp_tensor *x = &list->t[i];
        const char *op = made_by ? made_by : x->made_by;
        int64_t at = -1;
        if (op && x->count && x->dtype == RP_STORED)
            m->dev->op->find_nonfinite_stored(m->dev, &at, rp_tensors_in_set(list, block, set, sets, x), x->count);
        else if (op && x->count)
            m->dev->op->find_nonfinite(m->dev, &at, rp_tensors_in_set(list, block, set, sets, x), x->count);
        if (at >= 0)
            return report_tensor(m, x, at, op, err);
    }
    return 0;
}

/* The weights as operations take them: masters of matrices may be current on other ranks alone. */
static int report_weights(const struct rp_train *t, const struct rp_net *m, const char *origin, struct rp_err *err)
{
    const struct rp_tensors *list = &m->tensors[RP_WEIGHT];
    for (int i = 0; i < list->n; i++) {
        const struct rp_tensor *x = &list->t[i];
        int64_t at = -1;
        if (x->count && t->rounded && rp_tensor_dims(x) > 1)
            m->dev->op->find_nonfinite_stored(m->dev, &at,
                                              rp_stored_at(m->dev, t->rounded, (long)(x->offset / x->each)), x->count);
        else if (x->count)
            m->dev->op->find_nonfinite(m->dev, &at, rp_trained_values(&t->state, x, -1), x->count);
        if (at >= 0)
            return report_tensor(m, x, at, origin, err);
    }
    return 0;
}

int rp_train_check_output(const struct rp_train *t, int64_t i, struct rp_err *err)
{
    const struct rp_net *m = t->set[i % t->sets];
    int64_t at = -1;
    if (m->loss)
        return 0;
    m->dev->op->find_nonfinite_stored(m->dev, &at, *m->boundary, m->boundary_elements);
    return at < 0 ? 0 : rp_train_report_loss(t, i, err);
}

int rp_train_report_loss(const struct rp_train *t, int64_t i, struct rp_err *err)
{
    const int set = (int)(i % t->sets);
    const struct rp_net *m = t->set[set];
    const char *origin = m->step == 0 ? "initialisation" : "the optimizer";
    if (report_weights(t, m, origin, err) < 0 ||
        report_list(m, &m->tensors[RP_BUFFER], t->state.buffer, 0, 1, origin, err) < 0 ||
        report_list(m, &m->tensors[RP_ACTIVATION], t->activations, set, t->sets, NULL, err) < 0)
        return -1;
    char what[80];
    return rp_fail(err, RP_MISMATCH, "step %lld, micro-batch %lld: %s: %s", (long long)m->step, (long long)m->micro,
                   not_finite(what, m),
                   m->loss ? "its sum overflowed over finite terms"
                           : "an operation after the last tensor that is kept made it so");
}

/* What a rank found in its share: the last tensor of the list, as heads come last there and first in the backward
 * pass. */
struct nonfinite_at {
    int64_t tensor, element; /* -1: none */
};

static struct nonfinite_at find_in_share(const struct rp_train *t)
{
    const struct rp_tensors *weights = &t->net->tensors[RP_WEIGHT];
    for (int i = weights->n - 1; i >= 0; i--) {
        const struct rp_tensor *x = &weights->t[i];
        size_t first, n = rp_share_of_tensor(&t->state.shares, t->state.shares.own, x, &first);
        int64_t at = -1;
        if (n)
            t->net->dev->op->find_nonfinite(t->net->dev, &at, rp_tensor_in(t->gradient[0], x) + first, n);
        if (at >= 0)
            return (struct nonfinite_at){i, (int64_t)rp_tensor_whole_element(x, weights->rank, first + (size_t)at)};
    }
    return (struct nonfinite_at){-1, -1};
}

int rp_train_report_gradient(const struct rp_train *t, int64_t step, struct rp_err *err)
{
    const int ranks = t->comm->size[RP_GROUP_WORLD], rank = t->comm->rank[RP_GROUP_WORLD];
    RP_FREE struct nonfinite_at *all = rp_alloc((size_t)ranks * sizeof *all);
    struct nonfinite_at own = find_in_share(t), last = {-1, -1};
    char name[RP_TENSOR_NAME];
    all[rank] = own;
    if (rp_comm_all_gather(t->comm, RP_GROUP_WORLD, all, &all[rank], sizeof own, err) < 0)
        return -1;
    for (int i = 0; i < ranks; i++)
        if (all[i].tensor > last.tensor || (all[i].tensor == last.tensor && all[i].element < last.element))
            last = all[i];
    if (last.tensor >= 0)
        return rp_fail(err, RP_MISMATCH,
                       "step %lld: the gradient norm is not finite; NaN or Inf in the gradient of tensor '%s' (element "
                       "%lld), made by the backward pass; a lower learning rate may help",
                       (long long)step, rp_tensor_name(name, &t->net->tensors[RP_WEIGHT].t[last.tensor]),
                       (long long)last.element);
    return rp_fail(err, RP_MISMATCH,
                   "step %lld: the gradient norm overflowed in operation square_sums; every gradient is finite",
                   (long long)step);
}
