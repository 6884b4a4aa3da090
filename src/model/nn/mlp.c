#include "model/nn/mlp.h"

#include "model/nn/linear.h"

void rp_nn_gelu_use(struct rp_net *m, enum rp_activation act, long rows, long width)
{
    rp_net_use_rows(m, act == RP_ACTIVATION_gelu_tanh ? RP_OP_gelu_tanh_forward : RP_OP_gelu_forward, rows, width);
    rp_net_use_rows(m, act == RP_ACTIVATION_gelu_tanh ? RP_OP_gelu_tanh_backward : RP_OP_gelu_backward, rows, width);
}

void rp_nn_gelu_forward(struct rp_dev *dev, enum rp_activation act, rp_stored *g, const rp_stored *u, int rows,
                        int width)
{
    if (act == RP_ACTIVATION_gelu_tanh)
        dev->op->gelu_tanh_forward(dev, g, u, rows, width);
    else
        dev->op->gelu_forward(dev, g, u, rows, width);
}

void rp_nn_gelu_backward(struct rp_dev *dev, enum rp_activation act, rp_stored *du, float *dbias, const rp_stored *dg,
                         const rp_stored *u, int rows, int width, float *work)
{
    if (act == RP_ACTIVATION_gelu_tanh)
        dev->op->gelu_tanh_backward(dev, du, dbias, dg, u, rows, width, work);
    else
        dev->op->gelu_backward(dev, du, dbias, dg, u, rows, width, work);
}

void rp_nn_mlp_declare(struct rp_net *m, struct rp_nn_mlp *a, int rows, int hidden, int inner, size_t room, int layer)
{
    struct rp_tensors *l = &m->tensors[RP_ACTIVATION];
    const int own = inner / rp_net_ranks(m);
    a->rows = rows;
    a->hidden = hidden;
    a->inner = own;
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d intermediate", .at = &a->u, .dtype = RP_STORED,
                                          .dim = {rows, inner}, .room = room, .layer = layer, .stage = layer,
                                          .shard = 2, .shared = a->recompute == RP_RECOMPUTE_full, .made_by = "gemm"});
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d intermediate after GELU", .at = &a->g, .dtype = RP_STORED,
                                          .dim = {rows, inner}, .layer = layer,
                                          .room = (size_t)rows * (size_t)(hidden / rp_net_ranks(m)),
                                          .stage = layer, .shard = 2, .shared = a->recompute != RP_RECOMPUTE_none,
                                          .made_by = "gelu_forward or gelu_tanh_forward"});
    rp_net_work(m, rows, own);
    rp_linear_use(m, rows, hidden, own, a->in_first);
    rp_linear_use(m, rows, own, hidden, a->in_first);
    rp_linear_use_parts(m, rows, hidden, own, 1);
    rp_nn_gelu_use(m, a->act, rows, own);
}

void rp_nn_mlp_activate(struct rp_net *m, const struct rp_nn_mlp *a)
{
    rp_nn_gelu_forward(m->dev, a->act, a->g, a->u, a->rows, a->inner);
}

void rp_nn_mlp_inner(struct rp_net *m, const struct rp_nn_mlp *a, const rp_stored *x)
{
    rp_linear_forward(m->dev, a->u, x, a->up_w, a->up_b, a->rows, a->hidden, a->inner, a->in_first);
    rp_nn_mlp_activate(m, a);
}

void rp_nn_mlp_forward(struct rp_net *m, const struct rp_nn_mlp *a, rp_stored *y, const rp_stored *x)
{
    rp_nn_mlp_inner(m, a, x);
    rp_linear_forward_parts(m, y, a->g, a->down_w, a->down_b, a->rows, a->inner, a->hidden, a->in_first);
}

void rp_nn_mlp_backward(struct rp_net *m, const struct rp_nn_mlp *a, rp_stored *dx, const rp_stored *add,
                        const rp_stored *dy, const rp_stored *x)
{
    rp_stored *du = a->g;
    rp_linear_wgrad(m->dev, rp_net_grad(m, a->down_w), dy, a->g, a->rows, a->inner, a->hidden, a->in_first);
    rp_linear_dgrad(m->dev, du, dy, a->down_w, NULL, a->rows, a->inner, a->hidden, a->in_first);
    rp_nn_gelu_backward(m->dev, a->act, du, rp_net_vector_grad(m, a->up_b), du, a->u, a->rows, a->inner, m->work);
    rp_linear_wgrad(m->dev, rp_net_grad(m, a->up_w), du, x, a->rows, a->hidden, a->inner, a->in_first);
    rp_linear_dgrad_parts(m, dx, du, a->up_w, add, a->rows, a->hidden, a->inner, a->in_first, 1);
}
