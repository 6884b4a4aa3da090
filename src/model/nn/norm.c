#include "model/nn/norm.h"

void rp_nn_norm_declare(struct rp_net *m, struct rp_nn_norm *n, const char *normalised, const char *name,
                        const char *made_by, int layer)
{
    struct rp_tensors *l = &m->tensors[RP_ACTIVATION];
    int stage = n->stage ? n->stage : layer;
    struct rp_tensor t = {.name = normalised, .at = &n->kept, .dtype = RP_STORED, .dim = {n->rows, n->width},
                          .layer = layer, .stage = stage, .made_by = made_by};
    rp_tensors_add(l, &t);
    if (m->is_mixed)
        rp_tensors_add(
            l, &(struct rp_tensor){.name = "mean", .at = &n->mean, .dim = {n->rows}, .layer = layer, .stage = stage});
    rp_tensors_add(
        l, &(struct rp_tensor){.name = "rstd", .at = &n->rstd, .dim = {n->rows}, .layer = layer, .stage = stage});
    if (n->p > 0)
        rp_tensors_add(l, &(struct rp_tensor){.name = "dropout mask", .at = &n->mask, .dtype = RP_U8, .layer = layer,
                                              .stage = stage, .dim = {(long)rp_mask_bytes(n->rows, n->width)}});
    t.name = name;
    t.at = &n->y;
    t.made_by = n->plain ? "layernorm_forward" : "residual_layernorm_forward";
    rp_tensors_add(l, &t);
    rp_net_work(m, n->rows, 3l * n->width);
    rp_net_use_rows(m, n->plain ? RP_OP_layernorm_forward : RP_OP_residual_layernorm_forward, n->rows, n->width);
    rp_net_use_rows(m, RP_OP_layernorm_backward, n->rows, n->width);
}

static struct rp_dropout dropout(const struct rp_net *m, const struct rp_nn_norm *n)
{
    return rp_net_dropout(m, n->p, n->site, n->rows / (int)m->batch);
}

void rp_nn_norm_forward(struct rp_net *m, const struct rp_nn_norm *n, const rp_stored *residual)
{
    const struct rp_dropout drop = dropout(m, n);
    const struct rp_layernorm a = {.rows = n->rows, .width = n->width, .eps = n->eps, .x = n->kept,
                                   .residual = residual, .drop = &drop, .gamma = n->w, .beta = n->b, .y = n->y,
                                   .kept = n->kept, .mean = n->mean, .rstd = n->rstd, .mask = n->mask};
    if (n->plain)
        m->dev->op->layernorm_forward(m->dev, &a);
    else
        m->dev->op->residual_layernorm_forward(m->dev, &a);
}

void rp_nn_norm_backward(struct rp_net *m, const struct rp_nn_norm *n, rp_stored *dy, rp_stored *dx, float *dbias)
{
    const struct rp_dropout drop = dropout(m, n);
    const struct rp_layernorm_grad g = {.rows = n->rows, .width = n->width, .dy = dy, .kept = n->kept, .mean = n->mean,
                                        .rstd = n->rstd, .gamma = n->w, .drop = &drop, .mask = n->mask, .dz = dy,
                                        .dx = dx, .dgamma = rp_net_vector_grad(m, n->w),
                                        .dbeta = rp_net_vector_grad(m, n->b), .dbias = dbias, .work = m->work};
    m->dev->op->layernorm_backward(m->dev, &g);
}
