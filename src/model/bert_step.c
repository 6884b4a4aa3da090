#include "model/bert_step.h"

#include "model/grad_tree.h"

#include <math.h>

struct rp_trained rp_bert_trained(const struct rp_bert *m)
{
    return (struct rp_trained){.dev = m->dev,
                               .manifest = &m->manifest,
                               .w = m->parameters,
                               .m = m->moment[0],
                               .v = m->moment[1],
                               .g = m->gradient[0],
                               .chunks = m->norm_chunks,
                               .sums = m->sums};
}

int rp_bert_gradient(struct rp_bert *m, int64_t step, struct rp_bert_result *sum, struct rp_err *err)
{
    struct rp_grad_tree tree;
    struct rp_losses l;
    rp_grad_tree_init(&tree, m->dev, m->gradient, m->gradients, m->manifest.floats);
    for (int i = 0; i < m->c.micros; i++) {
        if (rp_bert_forward(m, i, step, &l.mlm, &l.nsp, err) < 0)
            return -1;
        l.loss = l.mlm + l.nsp;
        if (!isfinite(l.loss))
            return rp_bert_blame_forward(m, step, i, err);
        if (rp_bert_backward(m, i, step, rp_grad_tree_leaf(&tree), err) < 0)
            return -1;
        rp_grad_tree_push(&tree, i, &l);
    }
    rp_grad_tree_finish(&tree, &l);
    *sum = (struct rp_bert_result){.loss = l.loss, .mlm = l.mlm, .nsp = l.nsp};
    return 0;
}

/* Which tensor's gradient made the norm NaN or Inf. Always -1. */
static int blame_gradient(const struct rp_bert *m, int64_t step, struct rp_err *err)
{
    for (int i = m->manifest.n - 1; i >= 0; i--) { /* the heads come last in the list and first in the backward pass */
        const struct rp_tensor *x = &m->manifest.t[i];
        int64_t at = -1;
        m->dev->op->find_nonfinite(m->dev, &at, m->gradient[0] + x->offset, x->count);
        if (at >= 0)
            return rp_fail(err, RP_MISMATCH,
                           "step %lld: the gradient norm is not finite; NaN or Inf in the gradient of tensor '%s' (element %lld), made by "
                           "%s of the backward pass; a lower learning rate may help",
                           (long long)step, x->name, (long long)at,
                           x->dims == 2 ? "operation gemm or row_sums" : "operation layernorm_backward, gelu_backward or colsum");
    }
    return rp_fail(err, RP_MISMATCH, "step %lld: the gradient norm overflowed in operation square_sums; every gradient is finite",
                   (long long)step);
}

int rp_bert_step(struct rp_bert *m, const struct rp_optim *o, int64_t step, struct rp_bert_result *out, struct rp_err *err)
{
    struct rp_trained x = rp_bert_trained(m);
    float inv = 1.0f / (float)m->c.micros;
    if (rp_bert_gradient(m, step, out, err) < 0 || rp_global_norm(&out->norm, &x, inv, err) < 0)
        return -1;
    if (!isfinite(out->norm))
        return blame_gradient(m, step, err);
    rp_optim_step(o, &x, step + 1, out->norm, inv);
    out->loss *= inv;
    out->mlm *= inv;
    out->nsp *= inv;
    return m->dev->backend->sync(m->dev, err);
}
