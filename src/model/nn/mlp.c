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

void rp_nn_gelu_backward(struct rp_net *m, enum rp_activation act, rp_stored *du, const float *b, const rp_stored *u,
                         int rows, int width)
{
    float *db = rp_net_vector_grad(m, b);
    if (act == RP_ACTIVATION_gelu_tanh)
        m->dev->op->gelu_tanh_backward(m->dev, du, db, du, u, rows, width, m->work);
    else
        m->dev->op->gelu_backward(m->dev, du, db, du, u, rows, width, m->work);
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

static struct rp_linear up_layer(const struct rp_nn_mlp *a)
{
    return (struct rp_linear){.w = a->up_w, .b = a->up_b, .rows = a->rows, .in = a->hidden, .out = a->inner,
                              .in_first = a->in_first};
}

static struct rp_linear down_layer(const struct rp_nn_mlp *a)
{
    return (struct rp_linear){.w = a->down_w, .b = a->down_b, .rows = a->rows, .in = a->inner, .out = a->hidden,
                              .in_first = a->in_first};
}

void rp_nn_mlp_activate(struct rp_net *m, const struct rp_nn_mlp *a)
{
    rp_nn_gelu_forward(m->dev, a->act, a->g, a->u, a->rows, a->inner);
}

void rp_nn_mlp_inner(struct rp_net *m, const struct rp_nn_mlp *a, const rp_stored *x)
{
    const struct rp_linear up = up_layer(a);
    rp_linear_forward(m, &up, a->u, x);
    rp_nn_mlp_activate(m, a);
}

void rp_nn_mlp_forward(struct rp_net *m, const struct rp_nn_mlp *a, rp_stored *y, const rp_stored *x)
{
    const struct rp_linear down = down_layer(a);
    rp_nn_mlp_inner(m, a, x);
    rp_linear_forward_parts(m, &down, y, a->g);
}

void rp_nn_mlp_backward(struct rp_net *m, const struct rp_nn_mlp *a, rp_stored *dx, const rp_stored *add,
                        const rp_stored *dy, const rp_stored *x)
{
    const struct rp_linear up = up_layer(a), down = down_layer(a);
    rp_stored *du = a->g;
    rp_linear_wgrad(m, &down, dy, a->g);
    rp_linear_dgrad(m, &down, du, dy, NULL);
    rp_nn_gelu_backward(m, a->act, du, a->up_b, a->u, a->rows, a->inner);
    rp_linear_wgrad(m, &up, du, x);
    rp_linear_dgrad_parts(m, &up, dx, du, add, 1);
}
