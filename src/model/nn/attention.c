#include "model/nn/attention.h"

#include "model/nn/linear.h"

void rp_nn_attention_declare(struct rp_net *m, struct rp_nn_attention *a, const struct rp_attention *at, double p,
                             int layer)
{
    struct rp_tensors *l = &m->tensors[RP_ACTIVATION];
    const long rows = (long)at->batch * at->seq, h = (long)at->heads * at->head_dim, scores = rows * at->heads;
    const long hidden = h * rp_net_ranks(m);
    const int again = a->recompute != RP_RECOMPUTE_none, all = a->recompute == RP_RECOMPUTE_full;
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d query, key, value", .at = &a->qkv, .dtype = RP_STORED,
                                          .dim = {rows, 3 * hidden}, .layer = layer, .stage = layer, .shard = 2,
                                          .shared = all, .made_by = "gemm"});
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d row maxima", .at = &a->row_max, .dim = {scores},
                                          .layer = layer, .stage = layer, .shared = again});
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d row sums", .at = &a->row_inv, .dim = {scores},
                                          .layer = layer, .stage = layer, .shared = again});
    if (p > 0)
        rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d attention mask", .at = &a->mask, .dtype = RP_U8,
                                              .layer = layer, .stage = layer, .shared = again,
                                              .dim = {(long)rp_mask_bytes(scores, at->seq)}});
    rp_tensors_add(l, &(struct rp_tensor){.name = "layer %d attention context", .at = &a->ctx, .dtype = RP_STORED,
                                          .dim = {rows, hidden}, .layer = layer,
                                          .stage = layer, .shard = 2, .shared = again, .made_by = "attention_forward"});
    rp_net_work(m, rows, 3 * h);
    rp_linear_use(m, (int)rows, (int)hidden, 3 * (int)h, a->in_first);
    rp_linear_use(m, (int)rows, (int)h, (int)hidden, a->in_first);
    rp_linear_use_parts(m, (int)rows, (int)hidden, (int)h, 1);
    rp_linear_use_parts(m, (int)rows, (int)hidden, 3 * (int)h, 3);
    struct rp_op_use u = {.op = RP_OP_attention_forward, .rows = (int)rows, .width = (int)h, .batch = at->batch,
                          .seq = at->seq, .heads = at->heads, .head_dim = at->head_dim, .causal = at->causal};
    rp_net_use(m, u);
    u.op = RP_OP_attention_backward;
    rp_net_use(m, u);
}

/* The projection from x, whose columns `out` ranks divide, and that to y, whose `in` they divide. */
static struct rp_linear qkv_layer(const struct rp_net *m, const struct rp_nn_attention *a,
                                  const struct rp_attention *at)
{
    const int h = at->heads * at->head_dim;
    return (struct rp_linear){.w = a->qkv_w, .b = a->qkv_b, .rows = at->batch * at->seq, .in = h * rp_net_ranks(m),
                              .out = 3 * h, .in_first = a->in_first};
}

static struct rp_linear out_layer(const struct rp_net *m, const struct rp_nn_attention *a,
                                  const struct rp_attention *at)
{
    const int h = at->heads * at->head_dim;
    return (struct rp_linear){.w = a->out_w, .b = a->out_b, .rows = at->batch * at->seq, .in = h,
                              .out = h * rp_net_ranks(m), .in_first = a->in_first};
}

void rp_nn_attention_context(struct rp_net *m, const struct rp_nn_attention *a, const struct rp_attention *at,
                             const rp_stored *x)
{
    const struct rp_linear qkv = qkv_layer(m, a, at);
    if (x)
        rp_linear_forward(m, &qkv, a->qkv, x);
    m->dev->op->attention_forward(m->dev, a->ctx, a->row_max, a->row_inv, a->mask, a->qkv, at);
}

void rp_nn_attention_forward(struct rp_net *m, const struct rp_nn_attention *a, const struct rp_attention *at,
                             rp_stored *y, const rp_stored *x)
{
    const struct rp_linear out = out_layer(m, a, at);
    rp_nn_attention_context(m, a, at, x);
    rp_linear_forward_parts(m, &out, y, a->ctx);
}

void rp_nn_attention_backward(struct rp_net *m, const struct rp_nn_attention *a, const struct rp_attention *at,
                              const struct rp_nn_attention_grad *to)
{
    const struct rp_linear qkv = qkv_layer(m, a, at), out = out_layer(m, a, at);
    rp_linear_wgrad(m, &out, to->dy, a->ctx);
    rp_linear_dgrad(m, &out, to->dctx, to->dy, NULL);
    const struct rp_attention_grad g = {.a = at, .d_o = to->dctx, .qkv = a->qkv, .o = a->ctx, .row_max = a->row_max,
                                        .row_inv = a->row_inv, .mask = a->mask, .dqkv = to->dqkv,
                                        .dbias = rp_net_vector_grad(m, a->qkv_b), .work = m->work};
    m->dev->op->attention_backward(m->dev, &g);
    rp_linear_wgrad(m, &qkv, to->dqkv, to->x);
    rp_linear_dgrad_parts(m, &qkv, to->dx, to->dqkv, to->add, 3);
}
