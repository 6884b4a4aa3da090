/* Forward: samples -> losses of one micro-batch. Shapes stand in bert.h. */
#include "model/bert.h"
#include "model/linear.h"

#include <math.h>
#include <stdio.h>

static void embeddings(struct rp_bert *m, const struct rp_bert_input *in, int micro, int64_t step)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    struct rp_bert_acts *a = &m->a;
    int rows = c->batch * c->seq;
    struct rp_dropout drop = rp_bert_dropout(m, c->hidden_dropout, step, 0, micro, c->seq);
    op->embed_forward(m->dev, a->xhat0, in->ids, in->types, m->w.word, m->w.type, m->w.position, rows, c->seq, c->hidden);
    op->layernorm_forward(m->dev, a->x0, a->xhat0, a->rstd0, a->xhat0, m->w.ln_w, m->w.ln_b, c->eps, rows, c->hidden);
    if (drop.threshold)
        op->dropout_forward(m->dev, a->x0, a->mask0, a->x0, &drop, rows, c->hidden);
}

/* x [R, H]: the layer's input */
static void layer(struct rp_bert *m, int l, const float *x, int micro, int64_t step)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    const struct rp_bert_layer_tensors *w = &m->w.layer[l];
    struct rp_bert_layer_acts *a = &m->a.layer[l];
    int rows = c->batch * c->seq, h = c->hidden;
    struct rp_attention attention = rp_bert_attention(m, micro, step, l);
    struct rp_dropout drop1 = rp_bert_dropout(m, c->hidden_dropout, step, 3 * l + 2, micro, c->seq);
    struct rp_dropout drop2 = rp_bert_dropout(m, c->hidden_dropout, step, 3 * l + 3, micro, c->seq);

    rp_linear_forward(m->dev, a->qkv, x, w->qkv_w, w->qkv_b, rows, h, 3 * h);
    op->attention_forward(m->dev, a->ctx, a->row_max, a->row_inv, a->mask_p, a->qkv, &attention);
    rp_linear_forward(m->dev, a->xhat1, a->ctx, w->out_w, w->out_b, rows, h, h);
    op->residual_layernorm_forward(m->dev, a->y1, a->xhat1, a->rstd1, a->mask1, a->xhat1, x, &drop1, w->ln1_w, w->ln1_b, c->eps, rows,
                                   h);
    rp_linear_forward(m->dev, a->u, a->y1, w->up_w, w->up_b, rows, h, c->inner);
    op->gelu_forward(m->dev, a->g, a->u, rows, c->inner);
    rp_linear_forward(m->dev, a->xhat2, a->g, w->down_w, w->down_b, rows, c->inner, h);
    op->residual_layernorm_forward(m->dev, a->y2, a->xhat2, a->rstd2, a->mask2, a->xhat2, a->y1, &drop2, w->ln2_w, w->ln2_b, c->eps,
                                   rows, h);
}

/* Masked-language-model head on the gathered rows; logits become their gradient. */
static void masked_lm(struct rp_bert *m, const struct rp_bert_input *in, const float *x)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    struct rp_bert_acts *a = &m->a;
    int n = c->batch * c->predictions, h = c->hidden;
    op->gather_rows(m->dev, a->h, x, in->masked, n, h);
    rp_linear_forward(m->dev, a->tu, a->h, m->w.mlm_w, m->w.mlm_b, n, h, h);
    op->gelu_forward(m->dev, a->xhat_t, a->tu, n, h);
    op->layernorm_forward(m->dev, a->t, a->xhat_t, a->rstd_t, a->xhat_t, m->w.mlm_ln_w, m->w.mlm_ln_b, c->eps, n, h);
    rp_linear_forward(m->dev, a->logits, a->t, m->w.word, m->w.mlm_bias, n, h, c->vocab);
    op->softmax_xent(m->dev, a->mlm_loss, a->logits, c->vocab, in->labels, in->coef, n, c->vocab);
    op->weighted_sum(m->dev, &a->loss[0], a->mlm_loss, in->coef, n);
}

static void next_sentence(struct rp_bert *m, const struct rp_bert_input *in, const float *x)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_ops *op = m->dev->op;
    struct rp_bert_acts *a = &m->a;
    int n = c->batch, h = c->hidden;
    op->gather_rows(m->dev, a->cls, x, in->cls, n, h);
    rp_linear_forward(m->dev, a->pool, a->cls, m->w.pool_w, m->w.pool_b, n, h, h);
    op->tanh_forward(m->dev, a->pool, a->pool, n, h);
    rp_linear_forward(m->dev, a->nsp_logits, a->pool, m->w.nsp_w, m->w.nsp_b, n, h, 2);
    op->softmax_xent(m->dev, a->nsp_loss, a->nsp_logits, 2, in->nsp_labels, in->nsp_coef, n, 2);
    op->weighted_sum(m->dev, &a->loss[1], a->nsp_loss, in->nsp_coef, n);
}

int rp_bert_forward(struct rp_bert *m, int micro, int64_t step, float *mlm, float *nsp, struct rp_err *err)
{
    const struct rp_bert_input *in = &m->input[micro];
    const float *x = m->a.x0;
    float loss[2];
    embeddings(m, in, micro, step);
    for (int l = 0; l < m->c.layers; l++) {
        layer(m, l, x, micro, step);
        x = m->a.layer[l].y2;
        if (rp_bert_alive(m, err) < 0)
            return -1;
    }
    masked_lm(m, in, x);
    next_sentence(m, in, x);
    if (m->dev->backend->sync(m->dev, err) < 0 ||
        m->dev->backend->download(m->dev, loss, m->a.loss, sizeof loss, err) < 0)
        return -1;
    *mlm = loss[0];
    *nsp = loss[1];
    return 0;
}

/* -- where the first NaN or Inf is -- */

struct blame {
    struct rp_bert *m;
    int64_t step;
    int micro;
    struct rp_err *err;
};

/* 1 when x holds one: *err is filled */
static int blamed(struct blame *b, const char *tensor, int l, const char *op, const float *x, size_t n)
{
    int64_t at = -1;
    char name[128], where[32] = "";
    b->m->dev->op->find_nonfinite(b->m->dev, &at, x, n);
    if (at < 0)
        return 0;
    if (l >= 0)
        snprintf(where, sizeof where, "layer %d ", l);
    snprintf(name, sizeof name, "%s%s", where, tensor);
    (void)rp_fail(b->err, RP_MISMATCH,
                  "step %lld, micro-batch %d: the loss is not finite; the first NaN or Inf is in tensor '%s' (element %lld), made by "
                  "operation %s; a lower learning rate, or --init from finite values, may help",
                  (long long)b->step, b->micro, name, (long long)at, op);
    return 1;
}

static int blamed_layer(struct blame *b, int l, size_t rows)
{
    const struct rp_bert_config *c = &b->m->c;
    const struct rp_bert_layer_acts *a = &b->m->a.layer[l];
    size_t h = (size_t)c->hidden;
    return blamed(b, "query, key, value", l, "gemm", a->qkv, rows * 3 * h) ||
           blamed(b, "attention context", l, "attention_forward", a->ctx, rows * h) ||
           blamed(b, "attention output, normalised", l, "gemm or residual_layernorm_forward", a->xhat1, rows * h) ||
           blamed(b, "attention output", l, "residual_layernorm_forward", a->y1, rows * h) ||
           blamed(b, "intermediate", l, "gemm", a->u, rows * (size_t)c->inner) ||
           blamed(b, "intermediate after GELU", l, "gelu_forward", a->g, rows * (size_t)c->inner) ||
           blamed(b, "feed-forward output, normalised", l, "gemm or residual_layernorm_forward", a->xhat2, rows * h) ||
           blamed(b, "feed-forward output", l, "residual_layernorm_forward", a->y2, rows * h);
}

int rp_bert_blame_forward(struct rp_bert *m, int64_t step, int micro, struct rp_err *err)
{
    const struct rp_bert_config *c = &m->c;
    const struct rp_bert_acts *a = &m->a;
    struct blame b = {m, step, micro, err};
    size_t rows = (size_t)c->batch * (size_t)c->seq, n = (size_t)c->batch * (size_t)c->predictions, h = (size_t)c->hidden;
    for (int i = 0; i < m->manifest.n; i++) {
        const struct rp_tensor *t = &m->manifest.t[i];
        if (blamed(&b, t->name, -1, step == 0 ? "initialisation" : "the optimizer", m->parameters + t->offset, t->count))
            return -1;
    }
    if (blamed(&b, "embeddings, normalised", -1, "embed_forward or layernorm_forward", a->xhat0, rows * h) ||
        blamed(&b, "embeddings", -1, "layernorm_forward", a->x0, rows * h))
        return -1;
    for (int l = 0; l < c->layers; l++)
        if (blamed_layer(&b, l, rows))
            return -1;
    if (blamed(&b, "mlm transform before GELU", -1, "gemm", a->tu, n * h) ||
        blamed(&b, "mlm transform", -1, "layernorm_forward", a->t, n * h) ||
        blamed(&b, "mlm loss", -1, "gemm or softmax_xent", a->mlm_loss, n) ||
        blamed(&b, "pooled output", -1, "tanh_forward", a->pool, (size_t)c->batch * h) ||
        blamed(&b, "next-sentence loss", -1, "gemm or softmax_xent", a->nsp_loss, (size_t)c->batch))
        return -1;
    return rp_fail(err, RP_MISMATCH, "step %lld, micro-batch %d: the loss is not finite: weighted_sum overflowed over finite terms",
                   (long long)step, micro);
}
