/* The gradient of a step: that of every micro-batch of this rank, the tree over them, and the other ranks'. */
#include "train/inner.h"
#include "train/pipeline.h"

/* Each use of a weight has been summed over the micro-batches on its own. */
static void add_second_gradients(struct rp_train *t)
{
    const struct rp_net *m = t->net;
    t->net->g = t->gradient[0];
    for (int i = 0; i < m->tensors[RP_SECOND_GRADIENT].n; i++) {
        const struct rp_tensor *w = &m->tensors[RP_WEIGHT].t[m->tensors[RP_SECOND_GRADIENT].t[i].of];
        size_t first, n = rp_share_of_tensor(&t->shares, t->shares.own, w, &first);
        float *g = rp_tensor_in(m->g, w) + first;
        if (n)
            m->dev->op->add(m->dev, g, g, rp_net_second_grad(m, i) + first, n);
    }
}

/* What no thread has exchanged yet, and the losses. */
static int exchange_rest(struct rp_train *t, const struct rp_grad_tree *own, struct rp_losses *sum, struct rp_err *err)
{
    struct rp_dev *dev = t->net->dev;
    if (!t->overlap)
        rp_exchange_begin(&t->exchange);
    if (dev->backend->sync(dev, err) < 0)
        return -1;
    while (rp_exchange_bucket(&t->exchange) >= 0)
        if (rp_exchange_piece(&t->exchange, dev, t->gradient, t->room, err) < 0 || dev->backend->sync(dev, err) < 0)
            return -1;
    return rp_exchange_losses(&t->exchange, own, sum, err);
}

int rp_train_gradient(struct rp_train *t, int64_t step, struct rp_losses *sum, struct rp_err *err)
{
    struct rp_grad_tree tree;
    if (rp_pipeline_sum(t, step, &tree, err) < 0)
        return -1;
    if (t->comm->size[RP_GROUP_DATA] == 1)
        rp_grad_tree_finish(&tree, sum);
    else if (exchange_rest(t, &tree, sum, err) < 0)
        return -1;
    if (rp_pipeline_share_losses(t, sum, err) < 0 || rp_pipeline_add_tied(t, err) < 0)
        return -1;
    add_second_gradients(t);
    return t->replicated ? rp_exchange_block(&t->exchange, t->gradient[0], NULL, err) : 0;
}
