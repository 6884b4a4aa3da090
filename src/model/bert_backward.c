/* Backward: one micro-batch's gradient, every element of the block written. Shapes and what overwrites what stand in bert.h.
 *
 * m->dy [R, H] is the gradient of a layer's output on the way down: layer norm's backward leaves the residual's gradient in it, and
 * the data gradient that meets the residual adds into it (`add` of the GEMM). */
#include "model/bert.h"
#include "model/linear.h"

/* Decoder and transform; the gradient of the gathered rows replaces a->h. */
static void masked_lm(struct rp_bert *m)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    struct rp_bert_acts *a = &m->a;
    struct rp_bert_tensors *d = &m->dw;
    const struct rp_dropout none = {.scale = 1.0f};
    int n = c->batch * c->predictions, h = c->hidden;
    op->colsum(m->dev, d->mlm_bias, a->logits, n, c->vocab, m->work);
    rp_linear_wgrad(m->dev, d->word, a->logits, a->t, n, h, c->vocab);
    float *dt = a->t; /* t was needed last for the decoder's weight gradient */
    rp_linear_dgrad(m->dev, dt, a->logits, m->w.word, NULL, n, h, c->vocab);
    op->layernorm_backward(m->dev, dt, NULL, d->mlm_ln_w, d->mlm_ln_b, NULL, dt, a->xhat_t, a->rstd_t, m->w.mlm_ln_w, NULL, &none, n,
                           h, m->work);
    op->gelu_backward(m->dev, dt, d->mlm_b, dt, a->tu, n, h, m->work);
    rp_linear_wgrad(m->dev, d->mlm_w, dt, a->h, n, h, h);
    rp_linear_dgrad(m->dev, a->h, dt, m->w.mlm_w, NULL, n, h, h);
}

/* Classifier and pooler; the gradient of the first tokens replaces a->cls. */
static void next_sentence(struct rp_bert *m)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    struct rp_bert_acts *a = &m->a;
    struct rp_bert_tensors *d = &m->dw;
    int n = c->batch, h = c->hidden;
    op->colsum(m->dev, d->nsp_b, a->nsp_logits, n, 2, m->work);
    rp_linear_wgrad(m->dev, d->nsp_w, a->nsp_logits, a->pool, n, h, 2);
    rp_linear_dgrad(m->dev, m->dpool, a->nsp_logits, m->w.nsp_w, NULL, n, h, 2);
    op->tanh_backward(m->dev, m->dpool, d->pool_b, m->dpool, a->pool, n, h, m->work);
    rp_linear_wgrad(m->dev, d->pool_w, m->dpool, a->cls, n, h, h);
    rp_linear_dgrad(m->dev, a->cls, m->dpool, m->w.pool_w, NULL, n, h, h);
}

/* Both heads meet: dy = 0, += rows of predictions, += rows of first tokens. */
static void join_heads(struct rp_bert *m, const struct rp_bert_input *in)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    op->fill(m->dev, m->dy, 0.0f, (size_t)c->batch * (size_t)c->seq * (size_t)c->hidden);
    op->row_sums(m->dev, m->dy, m->a.h, &in->by_masked, c->hidden, 0);
    op->row_sums(m->dev, m->dy, m->a.cls, &in->by_cls, c->hidden, 1);
}

/* y2, g, xhat1 and u of the layer end up holding gradients. */
static void feed_forward(struct rp_bert *m, int l, int micro, int64_t step)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    const struct rp_bert_layer_tensors *w = &m->w.layer[l];
    struct rp_bert_layer_tensors *d = &m->dw.layer[l];
    struct rp_bert_layer_acts *a = &m->a.layer[l];
    int rows = c->batch * c->seq, h = c->hidden;
    struct rp_dropout drop = rp_bert_dropout(m, c->hidden_dropout, step, 3 * l + 3, micro, c->seq);
    float *dx = a->y2; /* the layer above and the heads are done with it */
    op->layernorm_backward(m->dev, m->dy, dx, d->ln2_w, d->ln2_b, d->down_b, m->dy, a->xhat2, a->rstd2, w->ln2_w, a->mask2, &drop,
                           rows, h, m->work);
    rp_linear_wgrad(m->dev, d->down_w, dx, a->g, rows, c->inner, h);
    float *du = a->g;
    rp_linear_dgrad(m->dev, du, dx, w->down_w, NULL, rows, c->inner, h);
    op->gelu_backward(m->dev, du, d->up_b, du, a->u, rows, c->inner, m->work);
    rp_linear_wgrad(m->dev, d->up_w, du, a->y1, rows, h, c->inner);
    rp_linear_dgrad(m->dev, m->dy, du, w->up_w, m->dy, rows, h, c->inner);
}

/* x [R, H]: the layer's input. Leaves its gradient in m->dy. */
static void attention(struct rp_bert *m, int l, const float *x, int micro, int64_t step)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    const struct rp_bert_layer_tensors *w = &m->w.layer[l];
    struct rp_bert_layer_tensors *d = &m->dw.layer[l];
    struct rp_bert_layer_acts *a = &m->a.layer[l];
    int rows = c->batch * c->seq, h = c->hidden;
    struct rp_dropout drop = rp_bert_dropout(m, c->hidden_dropout, step, 3 * l + 2, micro, c->seq);
    struct rp_attention at = rp_bert_attention(m, micro, step, l);
    float *dx = a->y2, *dctx = a->xhat1, *dqkv = a->u;
    op->layernorm_backward(m->dev, m->dy, dx, d->ln1_w, d->ln1_b, d->out_b, m->dy, a->xhat1, a->rstd1, w->ln1_w, a->mask1, &drop, rows,
                           h, m->work);
    rp_linear_wgrad(m->dev, d->out_w, dx, a->ctx, rows, h, h);
    rp_linear_dgrad(m->dev, dctx, dx, w->out_w, NULL, rows, h, h);
    op->attention_backward(m->dev, dqkv, d->qkv_b, dctx, a->ctx, a->row_max, a->row_inv, a->mask_p, a->qkv, &at, m->work);
    rp_linear_wgrad(m->dev, d->qkv_w, dqkv, x, rows, h, 3 * h);
    rp_linear_dgrad(m->dev, m->dy, dqkv, w->qkv_w, m->dy, rows, h, 3 * h);
}

/* The decoder's gradient of the word embedding is there already: the rows of the input add to it. */
static void embeddings(struct rp_bert *m, const struct rp_bert_input *in, int micro, int64_t step)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    struct rp_bert_acts *a = &m->a;
    struct rp_bert_tensors *d = &m->dw;
    int rows = c->batch * c->seq, h = c->hidden;
    const struct rp_dropout none = {.scale = 1.0f};
    struct rp_dropout drop = rp_bert_dropout(m, c->hidden_dropout, step, 0, micro, c->seq);
    float *dz = m->dy;
    if (drop.threshold) {
        dz = a->x0; /* layer 0's weight gradient was the last to read it */
        op->dropout_backward(m->dev, dz, m->dy, a->mask0, &drop, rows, h);
    }
    op->layernorm_backward(m->dev, dz, NULL, d->ln_w, d->ln_b, NULL, dz, a->xhat0, a->rstd0, m->w.ln_w, NULL, &none, rows, h, m->work);
    op->fill(m->dev, d->position, 0.0f, (size_t)c->positions * (size_t)h);
    op->fill(m->dev, d->type, 0.0f, (size_t)c->types * (size_t)h);
    op->row_sums(m->dev, d->word, dz, &in->by_word, h, 1);
    op->row_sums(m->dev, d->position, dz, &in->by_position, h, 0);
    op->row_sums(m->dev, d->type, dz, &in->by_type, h, 0);
}

int rp_bert_backward(struct rp_bert *m, int micro, int64_t step, float *block, struct rp_err *err)
{
    const struct rp_bert_input *in = &m->input[micro];
    rp_bert_bind(m, &m->dw, block);
    masked_lm(m);
    next_sentence(m);
    join_heads(m, in);
    for (int l = m->c.layers - 1; l >= 0; l--) {
        feed_forward(m, l, micro, step);
        if (rp_bert_alive(m, err) < 0)
            return -1;
        attention(m, l, l ? m->a.layer[l - 1].y2 : m->a.x0, micro, step);
        if (rp_bert_alive(m, err) < 0)
            return -1;
    }
    embeddings(m, in, micro, step);
    return m->dev->backend->sync(m->dev, err);
}
