#include "model/nn/mlp.h"

#include "model/nn/linear.h"

void rp_nn_mlp_declare(struct rp_net *m, struct rp_nn_mlp *a, int rows, int hidden, int inner, size_t room, int layer)
{
    struct rp_tensors *l = &m->tensors[RP_ACTIVATION];
    const int tanh = a->act == RP_ACTIVATION_gelu_tanh;
    a->rows = rows;
    a->hidden = hidden;
    a->inner = inner;
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d intermediate", .at = &a->u, .dim = {rows, inner}, .room = room, .layer = layer,
                                          .stage = layer, .shard = 2, .shared = a->recompute == RP_RECOMPUTE_full, .made_by = "gemm"});
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d intermediate after GELU", .at = &a->g, .dim = {rows, inner}, .layer = layer,
                                          .room = (size_t)rows * (size_t)hidden * sizeof(float),
                                          .stage = layer, .shard = 2, .shared = a->recompute != RP_RECOMPUTE_none,
                                          .made_by = tanh ? "gelu_tanh_forward" : "gelu_forward"});
    rp_net_work(m, rows, inner);
    rp_linear_use(m, rows, hidden, inner, a->in_first);
    rp_linear_use(m, rows, inner, hidden, a->in_first);
    rp_net_use_rows(m, tanh ? RP_OP_gelu_tanh_forward : RP_OP_gelu_forward, rows, inner);
    rp_net_use_rows(m, tanh ? RP_OP_gelu_tanh_backward : RP_OP_gelu_backward, rows, inner);
}

void rp_nn_mlp_activate(struct rp_net *m, const struct rp_nn_mlp *a)
{
    if (a->act == RP_ACTIVATION_gelu_tanh)
        m->dev->op->gelu_tanh_forward(m->dev, a->g, a->u, a->rows, a->inner);
    else
        m->dev->op->gelu_forward(m->dev, a->g, a->u, a->rows, a->inner);
}

void rp_nn_mlp_inner(struct rp_net *m, const struct rp_nn_mlp *a, const float *x)
{
    rp_linear_forward(m->dev, a->u, x, a->up_w, a->up_b, a->rows, a->hidden, a->inner, a->in_first);
    rp_nn_mlp_activate(m, a);
}

void rp_nn_mlp_forward(struct rp_net *m, const struct rp_nn_mlp *a, float *y, const float *x)
{
    rp_nn_mlp_inner(m, a, x);
    rp_linear_forward(m->dev, y, a->g, a->down_w, a->down_b, a->rows, a->inner, a->hidden, a->in_first);
}

void rp_nn_mlp_backward(struct rp_net *m, const struct rp_nn_mlp *a, float *dx, const float *add, const float *dy, const float *x)
{
    float *du = a->g;
    rp_linear_wgrad(m->dev, rp_net_grad(m, a->down_w), dy, a->g, a->rows, a->inner, a->hidden, a->in_first);
    rp_linear_dgrad(m->dev, du, dy, a->down_w, NULL, a->rows, a->inner, a->hidden, a->in_first);
    (a->act == RP_ACTIVATION_gelu_tanh ? m->dev->op->gelu_tanh_backward : m->dev->op->gelu_backward)(
        m->dev, du, rp_net_grad(m, a->up_b), du, a->u, a->rows, a->inner, m->work);
    rp_linear_wgrad(m->dev, rp_net_grad(m, a->up_w), du, x, a->rows, a->hidden, a->inner, a->in_first);
    rp_linear_dgrad(m->dev, dx, du, a->up_w, add, a->rows, a->hidden, a->inner, a->in_first);
}
