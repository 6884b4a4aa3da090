/* GPT-2: forward and backward passes; gpt.h describes what they do to memory. */
#include "model/gpt.h"

#include "model/nn/linear.h"

/* ---- forward ---- */

static struct rp_dropout norm_dropout(const struct rp_gpt *m, const struct rp_gpt_norm *n)
{
    return rp_net_dropout(&m->net, n->site >= 0 ? m->hidden_dropout : 0, n->site, m->seq);
}

/* y of the norm of x, and what it keeps. */
static void norm_forward(const struct rp_gpt *m, const struct rp_gpt_norm *n, const rp_stored *x)
{
    const struct rp_layernorm a = {.rows = m->rows, .width = m->hidden, .eps = m->eps, .x = x, .gamma = n->w,
                                   .beta = n->b, .y = m->y, .kept = n->kept, .mean = n->mean, .rstd = n->rstd};
    m->net.dev->op->layernorm_forward(m->net.dev, &a);
}

/* z = residual + the branch's output in n->kept; y. sum NULL: z is not needed. */
static void add_norm_forward(const struct rp_gpt *m, const struct rp_gpt_norm *n, rp_stored *sum,
                             const rp_stored *residual)
{
    if (n->site < 0) {
        norm_forward(m, n, residual);
        return;
    }
    const struct rp_dropout drop = norm_dropout(m, n);
    const struct rp_layernorm a = {.rows = m->rows, .width = m->hidden, .eps = m->eps, .x = n->kept,
                                   .residual = residual, .drop = &drop, .gamma = n->w, .beta = n->b, .y = m->y,
                                   .kept = n->kept, .mean = n->mean, .rstd = n->rstd, .z = sum, .mask = n->mask};
    m->net.dev->op->residual_layernorm_forward(m->net.dev, &a);
}

/* z of layer l's input. */
static rp_stored *layer_input(const struct rp_gpt *m, int l)
{
    return m->recompute == RP_RECOMPUTE_full ? m->layer[l].norm1.z : m->z;
}

static void embed_forward(struct rp_gpt *m, const struct rp_gpt_input *in)
{
    struct rp_dev *dev = m->net.dev;
    struct rp_dropout drop = rp_net_dropout(&m->net, m->embedding_dropout, 0, m->seq);
    const int divided = rp_net_ranks(&m->net) > 1;
    rp_stored *z = layer_input(m, 0);
    if (divided)
        rp_nn_lookup_rows(&m->net, &in->lookup, m->y, m->word, m->hidden);
    dev->op->embed_forward(dev, z, divided ? in->lookup.place : in->ids, NULL, in->positions, divided ? m->y : m->word,
                           NULL, m->position, m->rows, m->seq, m->hidden);
    if (drop.threshold)
        dev->op->dropout_forward(dev, z, m->mask0, z, &drop, m->rows, m->hidden);
}

/* From the output of the layer before, in norm1.kept, to this layer's, in out. */
static void layer_forward(struct rp_gpt *m, int l, rp_stored *out)
{
    const struct rp_gpt_layer *a = &m->layer[l];
    const struct rp_attention at = rp_gpt_attention(m, l);
    add_norm_forward(m, &a->norm1, layer_input(m, l), l > m->from ? m->z : layer_input(m, l));
    rp_nn_attention_forward(&m->net, &a->attention, &at, a->norm2.kept, m->y);
    add_norm_forward(m, &a->norm2, m->z, layer_input(m, l));
    rp_nn_mlp_forward(&m->net, &a->mlp, out, m->y);
}

/* Loss of rows i to i + n - 1, and the gradients of y and of the embedding. */
static void head_block_forward(struct rp_gpt *m, const struct rp_gpt_input *in, int i, int n)
{
    struct rp_dev *dev = m->net.dev;
    const int h = m->hidden, v = m->words;
    const struct rp_linear head = {.w = m->word, .rows = n, .in = h, .out = v};
    rp_stored *y = rp_stored_at(dev, m->y, (long)i * h);
    float *g = rp_net_grad(&m->net, m->word);
    const struct rp_gemm wgrad = {.ta = 1, .m = v, .n = h, .k = n, .segment = RP_SEGMENT_WGRAD, .a = m->logits,
                                  .lda = v, .b = y, .ldb = h, .c32 = g, .ldc = h, .add32 = i ? g : NULL, .ldadd = h};
    rp_linear_forward(&m->net, &head, m->logits, y);
    rp_nn_loss(&m->net, &m->xent, m->loss + i, m->logits, in->labels + i, in->coef + i, n, v);
    rp_net_watch_gradient(&m->net, m->logits, (size_t)n * (size_t)v);
    if (m->net.overflowed)
        return;
    dev->op->gemm(dev, &wgrad);
    rp_linear_dgrad_parts(&m->net, &head, y, m->logits, NULL, 1);
}

static void copy_rows(const struct rp_gpt *m, rp_stored *to, const rp_stored *from)
{
    struct rp_dev *dev = m->net.dev;
    dev->op->copy_columns(dev, to, m->hidden, from, m->hidden, m->rows, m->hidden, (int)dev->stored_bytes);
}

/* The first stage makes z, the others have it from the stage before. */
static void begin_stage(struct rp_gpt *m, const struct rp_gpt_input *in)
{
    if (m->is_first)
        embed_forward(m, in);
    else if (m->recompute == RP_RECOMPUTE_full)
        copy_rows(m, layer_input(m, m->from), m->z);
}

/* z of the next stage: the sum with the output of the last branch, in dt. */
static void pass_sum_on(struct rp_gpt *m)
{
    struct rp_dev *dev = m->net.dev;
    const struct rp_dropout drop = rp_net_dropout(&m->net, m->hidden_dropout, 3 * m->to, m->seq);
    const struct rp_gpt_norm *any = &m->layer[m->to - 1].norm2;
    const struct rp_layernorm sum = {.rows = m->rows, .width = m->hidden, .eps = m->eps, .x = m->dt, .residual = m->z,
                                     .drop = &drop, .gamma = any->w, .beta = any->b, .y = m->y, .kept = m->dt,
                                     .mean = m->mean_out, .rstd = m->rstd_out, .z = m->z, .mask = m->mask_out};
    /* as the norm that follows makes it on one rank: one rounding, after the addition */
    if (drop.threshold && m->net.is_mixed) {
        dev->op->residual_layernorm_forward(dev, &sum);
        return;
    }
    if (drop.threshold)
        dev->op->dropout_forward(dev, m->dt, m->mask_out, m->dt, &drop, m->rows, m->hidden);
    dev->op->add_stored(dev, m->z, m->z, m->dt, (size_t)m->rows * (size_t)m->hidden);
}

/* Where the output of layer l goes. */
static rp_stored *layer_output(const struct rp_gpt *m, int l)
{
    return l + 1 < m->to ? m->layer[l + 1].norm1.kept : m->is_last ? m->last.kept : m->dt;
}

int rp_gpt_forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct rp_gpt *m = (struct rp_gpt *)net;
    const struct rp_gpt_input *in = (const struct rp_gpt_input *)input;
    m->first_key = in->first_keys;
    begin_stage(m, in);
    for (int l = m->from; l < m->to; l++) {
        layer_forward(m, l, layer_output(m, l));
        if (rp_net_alive(net, err) < 0)
            return -1;
    }
    if (!m->is_last) {
        pass_sum_on(m);
        return 0;
    }
    add_norm_forward(m, &m->last, NULL, m->z);
    for (int i = 0; i < m->rows; i += RP_GPT_BLOCK) {
        head_block_forward(m, in, i, m->rows - i < RP_GPT_BLOCK ? m->rows - i : RP_GPT_BLOCK);
        if (!net->overflowed && rp_net_alive(net, err) < 0)
            return -1;
    }
    net->dev->op->weighted_sum(net->dev, net->loss, m->loss, in->coef, m->rows);
    return 0;
}

/* ---- backward ---- */

/* y is the gradient of the norm's output: adds to z, makes dt, and the gradient of the bias in the branch before.
 * first: z is empty. */
static void norm_backward(const struct rp_gpt *m, const struct rp_gpt_norm *n, float *branch_bias, int first)
{
    const struct rp_dropout drop = norm_dropout(m, n);
    struct rp_layernorm_grad g = {.rows = m->rows, .width = m->hidden, .dy = m->y, .add = first ? NULL : m->z,
                                  .kept = n->kept, .mean = n->mean, .rstd = n->rstd, .gamma = n->w, .mask = n->mask,
                                  .dz = m->z, .dgamma = rp_net_vector_grad(&m->net, n->w),
                                  .dbeta = rp_net_vector_grad(&m->net, n->b), .work = m->net.work};
    if (n->site >= 0) {
        g.drop = &drop;
        g.dx = m->dt;
        g.dbias = branch_bias;
    }
    m->net.dev->op->layernorm_backward(m->net.dev, &g);
}

/* The output of a norm again, in y. */
static void apply_norm(const struct rp_gpt *m, const struct rp_gpt_norm *n)
{
    const struct rp_layernorm a = {.rows = m->rows, .width = m->hidden, .gamma = n->w, .beta = n->b, .y = m->y,
                                   .kept = n->kept, .mean = n->mean, .rstd = n->rstd};
    m->net.dev->op->layernorm_apply(m->net.dev, &a);
}

/* What the layer's forward pass made and did not keep. */
static void recompute_layer(struct rp_gpt *m, int l)
{
    const struct rp_gpt_layer *a = &m->layer[l];
    const struct rp_attention at = rp_gpt_attention(m, l);
    if (m->recompute == RP_RECOMPUTE_selective) {
        rp_nn_attention_context(&m->net, &a->attention, &at, NULL);
        rp_nn_mlp_activate(&m->net, &a->mlp);
    }
    if (m->recompute != RP_RECOMPUTE_full)
        return;
    const rp_stored *z = layer_input(m, l);
    norm_forward(m, &a->norm1, z);
    rp_nn_attention_forward(&m->net, &a->attention, &at, a->norm2.kept, m->y);
    add_norm_forward(m, &a->norm2, NULL, z);
    rp_nn_mlp_inner(&m->net, &a->mlp, m->y);
}

/* From dt, the gradient of the layer's output, and z, that of the sum, to those of the layer before. */
static int layer_backward(struct rp_gpt *m, int l, struct rp_err *err)
{
    struct rp_gpt_layer *a = &m->layer[l];
    const struct rp_attention at = rp_gpt_attention(m, l);
    recompute_layer(m, l);
    apply_norm(m, &a->norm2);
    rp_nn_mlp_backward(&m->net, &a->mlp, m->y, NULL, m->dt, m->y);
    norm_backward(m, &a->norm2, rp_net_vector_grad(&m->net, a->attention.out_b), 0);
    if (rp_net_alive(&m->net, err) < 0)
        return -1;
    apply_norm(m, &a->norm1);
    rp_nn_attention_backward(
        &m->net, &a->attention, &at,
        &(struct rp_nn_attention_grad){.dx = m->y, .dy = m->dt, .x = m->y, .dctx = a->mlp.g, .dqkv = a->mlp.u});
    norm_backward(m, &a->norm1, l > m->from ? rp_net_vector_grad(&m->net, m->layer[l - 1].mlp.down_b) : NULL, 0);
    rp_net_gradients_ready(&m->net, l + 1);
    return rp_net_alive(&m->net, err);
}

static void embed_backward(struct rp_gpt *m, const struct rp_gpt_input *in)
{
    const struct rp_net *net = &m->net;
    struct rp_dev *dev = net->dev;
    struct rp_dropout drop = rp_net_dropout(net, m->embedding_dropout, 0, m->seq);
    float *position = rp_net_grad(net, m->position);
    /* only one stage has both uses of the weight */
    float *lookups = m->is_last ? rp_net_second_grad(net, 0) : rp_net_grad(net, m->word);
    if (drop.threshold)
        dev->op->dropout_backward(dev, m->z, m->z, m->mask0, &drop, m->rows, m->hidden);
    dev->op->fill(dev, position, 0.0f, (size_t)m->positions * (size_t)m->hidden);
    dev->op->fill(dev, lookups, 0.0f, (size_t)m->words * (size_t)m->hidden);
    if (in->by_word.n)
        dev->op->row_sums(dev, lookups, m->z, &in->by_word, m->hidden, 0);
    dev->op->row_sums(dev, position, m->z, &in->by_position, m->hidden, 0);
}

/* z is the gradient of what pass_sum_on() made: dt, and the gradient of the last branch's bias. */
static void take_sum_back(struct rp_gpt *m, float *bias)
{
    struct rp_dev *dev = m->net.dev;
    struct rp_dropout drop = rp_net_dropout(&m->net, m->hidden_dropout, 3 * m->to, m->seq);
    if (drop.threshold)
        dev->op->dropout_backward(dev, m->dt, m->z, m->mask_out, &drop, m->rows, m->hidden);
    else
        copy_rows(m, m->dt, m->z);
    dev->op->colsum(dev, bias, m->dt, m->rows, m->hidden, m->net.work);
}

int rp_gpt_backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct rp_gpt *m = (struct rp_gpt *)net;
    float *bias = rp_net_vector_grad(net, m->layer[m->to - 1].mlp.down_b);
    m->first_key = ((const struct rp_gpt_input *)input)->first_keys;
    if (rp_net_alive(net, err) < 0)
        return -1;
    if (m->is_last)
        norm_backward(m, &m->last, bias, 1);
    else
        take_sum_back(m, bias);
    for (int l = m->to - 1; l >= m->from; l--)
        if (layer_backward(m, l, err) < 0)
            return -1;
    if (m->is_first)
        embed_backward(m, (const struct rp_gpt_input *)input);
    return 0;
}
