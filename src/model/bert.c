/* BERT pre-training as its authors published it: embeddings (word, position, type), post-LN encoder layers with erf
 * GELU, pooler, masked-language-model head with the tied decoder, next-sentence head.
 *
 * Sizes in comments: B batch, S seq, R = B * S rows, H hidden, I inner, V vocab, P predictions, M = B * P.
 *
 * Dropout sites: 0 embeddings; layer l from 0: 3l+1 attention probabilities, 3l+2 attention output, 3l+3 feed-forward
 * output.
 *
 * Losses of a micro-batch: mlm = weighted_sum(coef, loss) with coef[i] = w[i] / (sum128(w) + 1e-5f), all M slots
 * counted (an unused slot has weight 0); nsp = weighted_sum with coef 1/B; loss = mlm + nsp.
 *
 * dy [R, H] is the gradient of the current layer's output: layer norm's backward leaves the residual's gradient in it,
 * and the data gradient that joins the residual is added to it. In mixed precision the gradients of both heads are
 * added in fp32 first (sum). Tensors that are no longer needed are overwritten: norm2.y by the gradient of a dropout's
 * input, mlp.g by gradients of g and u, norm1.kept by the gradient of ctx, mlp.u by that of qkv. */
#include "base/buf.h"
#include "model/declare.h"
#include "model/nn/attention.h"
#include "model/nn/classifier.h"
#include "model/nn/groups.h"
#include "model/nn/linear.h"
#include "model/nn/mlp.h"
#include "model/nn/norm.h"

#include <math.h>
#include <string.h>

struct bert_layer {
    struct rp_nn_attention attention;
    struct rp_nn_norm norm1; /* y: what enters the feed-forward part */
    struct rp_nn_mlp mlp;
    struct rp_nn_norm norm2; /* y: what leaves the layer */
};

struct bert {
    struct rp_net net;
    /* rows: R, slots: M */
    int vocab, hidden, layers, heads, inner, positions, types, seq, predictions, batch, rows, slots;
    float eps;
    double hidden_dropout, attention_dropout;
    enum rp_activation act;
    rp_stored *word, *position, *type;            /* [V, H], [positions, H], [types, H] */
    rp_stored *pool_w, *mlm_w;                    /* [H, H] */
    float *pool_b, *mlm_b;                        /* [H] */
    struct bert_layer *layer;
    struct rp_nn_norm norm0, mlm_norm;            /* of embeddings, whose y enters layer 0; of the transform, [M, H] */
    uint8_t *mask0;
    rp_stored *h, *tu;                            /* [M, H]: gathered rows, transform before GELU */
    rp_stored *cls, *pool;                        /* [B, H] */
    struct rp_nn_classifier mlm, nsp;             /* mlm.w is the word embedding */
    rp_stored *dy, *dpool;                        /* scratch [R, H], [B, H] */
    float *sum;                                   /* [R, H]; mixed precision alone */
};

struct bert_input {
    struct rp_input in;
    int32_t *ids, *types;           /* [R], rows are b * S + s */
    uint8_t *key_mask;              /* [R] */
    int32_t *masked, *labels;       /* [M] row of each prediction; what it should be */
    float *coef;                    /* [M] */
    int32_t *cls, *nsp_labels;      /* [B] row of the first token */
    float *nsp_coef;                /* [B] */
    /* rows of R, M and B summed into what was looked up */
    struct rp_row_groups by_word, by_position, by_type, by_masked, by_cls;
};

static void configure(struct rp_net *net, const struct rp_recipe *r)
{
    struct bert *m = (struct bert *)net;
    m->vocab = (int)r->model_vocab_size;
    m->hidden = (int)r->model_hidden_size;
    m->layers = (int)r->model_num_hidden_layers;
    m->heads = (int)r->model_num_attention_heads;
    m->inner = (int)r->model_intermediate_size;
    m->positions = (int)r->model_max_position_embeddings;
    m->types = (int)r->model_type_vocab_size;
    m->seq = (int)r->task_seq_length;
    m->predictions = (int)r->task_max_predictions;
    m->batch = (int)net->batch;
    m->rows = m->batch * m->seq;
    m->slots = m->batch * m->predictions;
    m->eps = (float)r->model_layer_norm_eps;
    m->hidden_dropout = r->model_hidden_dropout_prob;
    m->attention_dropout = r->model_attention_probs_dropout_prob;
    m->act = (enum rp_activation)r->model_hidden_act;
}

static struct rp_attention attention_of(const struct bert *m, const struct bert_input *in, int l)
{
    int d = m->hidden / m->heads;
    return (struct rp_attention){.batch = m->batch, .seq = m->seq, .heads = m->heads, .head_dim = d,
                                 .scale = 1.0f / sqrtf((float)d), .key_mask = in ? in->key_mask : NULL,
                                 .drop = rp_net_dropout(&m->net, m->attention_dropout, 3 * l + 1, m->heads * m->seq)};
}

#define MATRIX_INIT RP_INIT_TRUNCATED_NORMAL
#define ENCODER "bert.encoder.layer.%d."

/* The index of a weight in this order is the key of its initialisation and its place in norms and state roots: never
 * reorder. */
static void declare_layer(struct rp_net *net, struct bert_layer *a, int l)
{
    const struct bert *m = (const struct bert *)net;
    long h = m->hidden, inner = m->inner;
    a->norm1 = (struct rp_nn_norm){
        .rows = m->rows, .width = m->hidden, .site = 3 * l - 1, .eps = m->eps, .p = m->hidden_dropout};
    a->norm2 =
        (struct rp_nn_norm){.rows = m->rows, .width = m->hidden, .site = 3 * l, .eps = m->eps, .p = m->hidden_dropout};
#define AT .layer = l, .stage = l
    MATRIX(&a->attention.qkv_w, ENCODER "attention.self.query.weight", h, h, AT, .shard = 1);
    MATRIX(NULL, ENCODER "attention.self.key.weight", h, h, AT, .shard = 1, .joined = 1);
    MATRIX(NULL, ENCODER "attention.self.value.weight", h, h, AT, .shard = 1, .joined = 1);
    BIAS(&a->attention.qkv_b, ENCODER "attention.self.query.bias", h, AT, .shard = 1);
    BIAS(NULL, ENCODER "attention.self.key.bias", h, AT, .shard = 1, .joined = 1);
    BIAS(NULL, ENCODER "attention.self.value.bias", h, AT, .shard = 1, .joined = 1);
    MATRIX(&a->attention.out_w, ENCODER "attention.output.dense.weight", h, h, AT, .shard = 2);
    BIAS(&a->attention.out_b, ENCODER "attention.output.dense.bias", h, AT);
    SCALE(&a->norm1.w, ENCODER "attention.output.LayerNorm.weight", h, AT);
    BIAS(&a->norm1.b, ENCODER "attention.output.LayerNorm.bias", h, AT);
    MATRIX(&a->mlp.up_w, ENCODER "intermediate.dense.weight", inner, h, AT, .shard = 1);
    BIAS(&a->mlp.up_b, ENCODER "intermediate.dense.bias", inner, AT, .shard = 1);
    MATRIX(&a->mlp.down_w, ENCODER "output.dense.weight", h, inner, AT, .shard = 2);
    BIAS(&a->mlp.down_b, ENCODER "output.dense.bias", h, AT);
    SCALE(&a->norm2.w, ENCODER "output.LayerNorm.weight", h, AT);
    BIAS(&a->norm2.b, ENCODER "output.LayerNorm.bias", h, AT);
}

static void declare_layer_activations(struct rp_net *net, struct bert_layer *a, int l)
{
    const struct bert *m = (const struct bert *)net;
    const struct rp_attention at = attention_of(m, NULL, l - 1);
    rp_nn_attention_declare(net, &a->attention, &at, m->attention_dropout, l);
    rp_nn_norm_declare(net, &a->norm1, "layer %d attention output, normalised", "layer %d attention output",
                       "gemm or residual_layernorm_forward", l);
    a->mlp.act = m->act;
    rp_nn_mlp_declare(net, &a->mlp, m->rows, m->hidden, m->inner, (size_t)m->rows * 3 * (size_t)m->hidden, l);
    rp_nn_norm_declare(net, &a->norm2, "layer %d feed-forward output, normalised", "layer %d feed-forward output",
                       "gemm or residual_layernorm_forward", l);
}
#undef AT

static void declare_weights(struct rp_net *net)
{
    struct bert *m = (struct bert *)net;
    long h = m->hidden, v = m->vocab;
    MATRIX(&m->word, "bert.embeddings.word_embeddings.weight", v, h, .shard = 1);
    MATRIX(&m->position, "bert.embeddings.position_embeddings.weight", m->positions, h, .stage = 0);
    MATRIX(&m->type, "bert.embeddings.token_type_embeddings.weight", m->types, h, .stage = 0);
    SCALE(&m->norm0.w, "bert.embeddings.LayerNorm.weight", h, .stage = 0);
    BIAS(&m->norm0.b, "bert.embeddings.LayerNorm.bias", h, .stage = 0);
    for (int l = 0; l < m->layers; l++)
        declare_layer(net, &m->layer[l], l + 1);
#define AT .stage = m->layers + 1
    MATRIX(&m->pool_w, "bert.pooler.dense.weight", h, h, AT);
    BIAS(&m->pool_b, "bert.pooler.dense.bias", h, AT);
    BIAS(&m->mlm.b, "cls.predictions.bias", v, AT, .shard = 1);
    MATRIX(&m->mlm_w, "cls.predictions.transform.dense.weight", h, h, AT);
    BIAS(&m->mlm_b, "cls.predictions.transform.dense.bias", h, AT);
    SCALE(&m->mlm_norm.w, "cls.predictions.transform.LayerNorm.weight", h, AT);
    BIAS(&m->mlm_norm.b, "cls.predictions.transform.LayerNorm.bias", h, AT);
    MATRIX(&m->nsp.w, "cls.seq_relationship.weight", 2, h, AT);
    BIAS(&m->nsp.b, "cls.seq_relationship.bias", 2, AT);
}

static void declare(struct rp_net *net)
{
    static const enum rp_op row_ops[] = {RP_OP_embed_forward, RP_OP_dropout_forward, RP_OP_dropout_backward,
                                         RP_OP_tanh_forward,  RP_OP_tanh_backward,   RP_OP_gather_rows,
                                         RP_OP_row_sums,      RP_OP_round_stored};
    struct bert *m = (struct bert *)net;
    long r = m->rows, h = m->hidden, n = m->slots, b = m->batch;
    m->layer = rp_net_array(net, m->layers, sizeof *m->layer);
    m->norm0 = (struct rp_nn_norm){.rows = m->rows, .width = m->hidden, .eps = m->eps, .plain = 1};
    m->mlm_norm =
        (struct rp_nn_norm){.rows = m->slots, .width = m->hidden, .eps = m->eps, .plain = 1, .stage = m->layers + 1};
    m->mlm = (struct rp_nn_classifier){.rows = m->slots, .width = m->hidden, .classes = m->vocab};
    m->nsp = (struct rp_nn_classifier){.rows = m->batch, .width = m->hidden, .classes = 2};
    declare_weights(net);
    rp_nn_norm_declare(net, &m->norm0, "embeddings, normalised", "embeddings", "embed_forward or layernorm_forward", 0);
    if (m->hidden_dropout > 0)
        ADD(RP_ACTIVATION, .at = &m->mask0, .name = "mask of embeddings", .dtype = RP_U8,
            .dim = {(long)rp_mask_bytes(r, h)});
    for (int l = 0; l < m->layers; l++)
        declare_layer_activations(net, &m->layer[l], l + 1);
    ACT(&m->h, "rows of predictions", n, h, AT);
    ACT(&m->tu, "mlm transform before GELU", n, h, AT, .made_by = "gemm");
    rp_nn_norm_declare(net, &m->mlm_norm, "mlm transform, normalised", "mlm transform", NULL, 0);
    rp_nn_classifier_declare(net, &m->mlm, "mlm logits", "mlm loss", m->layers + 1);
    ACT(&m->cls, "rows of first tokens", b, h, AT);
    ACT(&m->pool, "pooled output", b, h, AT, .made_by = "tanh_forward");
    rp_nn_classifier_declare(net, &m->nsp, "next-sentence logits", "next-sentence loss", m->layers + 1);
    NUMBERS(&net->loss, "losses", 2, AT);
#undef AT
    ADD(RP_SCRATCH, .at = &m->dy, .name = "gradient of a layer's output", .dtype = RP_STORED, .dim = {r, h});
    ADD(RP_SCRATCH, .at = &m->dpool, .name = "gradient of the pooled output", .dtype = RP_STORED, .dim = {b, h});
    if (net->is_mixed)
        ADD(RP_SCRATCH, .at = &m->sum, .name = "sum of the heads' gradients", .dim = {r, h});
    rp_net_work(net, n, 3 * h);
    rp_linear_use(net, m->slots, m->hidden, m->hidden, 0);
    rp_linear_use(net, m->batch, m->hidden, m->hidden, 0);
    rp_nn_gelu_use(net, m->act, r > n ? r : n, h);
    for (size_t i = 0; i < sizeof row_ops / sizeof *row_ops; i++)
        rp_net_use_rows(net, row_ops[i], r > n ? r : n, h);
}

static void declare_input(struct rp_net *net, struct rp_input *input)
{
    const struct bert *m = (const struct bert *)net;
    struct bert_input *in = (struct bert_input *)input;
    long r = m->rows, n = m->slots, b = m->batch;
    IN(&in->ids, "input_ids", RP_I32, r);
    IN(&in->types, "segment_ids", RP_I32, r);
    IN(&in->key_mask, "input_mask", RP_U8, r);
    IN(&in->masked, "rows of predictions", RP_I32, n);
    IN(&in->labels, "masked_lm_ids", RP_I32, n);
    IN(&in->coef, "coefficients of predictions", RP_F32, n);
    IN(&in->cls, "rows of first tokens", RP_I32, b);
    IN(&in->nsp_labels, "next_sentence_labels", RP_I32, b);
    IN(&in->nsp_coef, "coefficients of sentences", RP_F32, b);
    rp_net_groups(net, &in->by_word, r < m->vocab ? r : m->vocab, r);
    rp_net_groups(net, &in->by_position, m->seq, r);
    rp_net_groups(net, &in->by_type, m->types, r);
    rp_net_groups(net, &in->by_masked, n, n);
    rp_net_groups(net, &in->by_cls, b, b);
}

enum { IDS, MASK, SEGMENTS, POSITIONS, LABELS, WEIGHTS, NEXT, FIELDS };

static int fields(const struct rp_net *net, struct rp_sample_field *f)
{
    const struct bert *m = (const struct bert *)net;
    f[IDS] = (struct rp_sample_field){"input_ids", RP_I32, m->seq, m->vocab};
    f[MASK] = (struct rp_sample_field){"input_mask", RP_U8, m->seq, 2};
    f[SEGMENTS] = (struct rp_sample_field){"segment_ids", RP_I32, m->seq, m->types};
    f[POSITIONS] = (struct rp_sample_field){"masked_lm_positions", RP_I32, m->predictions, m->seq};
    f[LABELS] = (struct rp_sample_field){"masked_lm_ids", RP_I32, m->predictions, m->vocab};
    f[WEIGHTS] = (struct rp_sample_field){"masked_lm_weights", RP_F32, m->predictions, 0};
    f[NEXT] = (struct rp_sample_field){"next_sentence_labels", RP_I32, 1, 2};
    return FIELDS;
}

static int prepare(const struct rp_net *net, struct rp_input *input, void *const *column, struct rp_err *err)
{
    const struct bert *m = (const struct bert *)net;
    struct bert_input *in = (struct bert_input *)input;
    const int32_t *positions = column[POSITIONS];
    const float *weights = column[WEIGHTS];
    float sum = rp_sum128(weights, m->slots), total = sum + 1e-5f;
    if (!(sum > 0))
        return rp_fail(err, RP_MALFORMED, "masked_lm_weights add up to %g: no masked token has a loss", sum);
    for (int i = 0; i < m->slots; i++) {
        in->masked[i] = i / m->predictions * m->seq + positions[i];
        in->coef[i] = weights[i] / total;
    }
    for (int b = 0; b < m->batch; b++) {
        in->cls[b] = b * m->seq;
        in->nsp_coef[b] = 1.0f / (float)m->batch;
    }
    RP_FREE int32_t *position = rp_alloc((size_t)m->rows * sizeof *position);
    input->counter[0] = 0;
    input->counter[1] = m->rows;
    for (int i = 0; i < m->rows; i++) {
        input->counter[0] += in->key_mask[i];
        position[i] = i % m->seq;
    }
    rp_group_rows(&in->by_word, in->ids, m->rows);
    rp_group_rows(&in->by_position, position, m->rows);
    rp_group_rows(&in->by_type, in->types, m->rows);
    rp_group_rows(&in->by_masked, in->masked, m->slots);
    rp_group_rows(&in->by_cls, in->cls, m->batch);
    return 0;
}

static void embed(struct bert *m, const struct bert_input *in)
{
    struct rp_dev *dev = m->net.dev;
    struct rp_dropout drop = rp_net_dropout(&m->net, m->hidden_dropout, 0, m->seq);
    dev->op->embed_forward(dev, m->norm0.kept, in->ids, in->types, NULL, m->word, m->type, m->position, m->rows, m->seq,
                           m->hidden);
    rp_nn_norm_forward(&m->net, &m->norm0, NULL);
    if (drop.threshold)
        dev->op->dropout_forward(dev, m->norm0.y, m->mask0, m->norm0.y, &drop, m->rows, m->hidden);
}

static const rp_stored *layer_forward(struct bert *m, const struct bert_input *in, int l, const rp_stored *x)
{
    struct bert_layer *a = &m->layer[l];
    struct rp_attention at = attention_of(m, in, l);
    rp_nn_attention_forward(&m->net, &a->attention, &at, a->norm1.kept, x);
    rp_nn_norm_forward(&m->net, &a->norm1, x);
    rp_nn_mlp_forward(&m->net, &a->mlp, a->norm2.kept, a->norm1.y);
    rp_nn_norm_forward(&m->net, &a->norm2, a->norm1.y);
    return a->norm2.y;
}

static struct rp_linear mlm_layer(const struct bert *m)
{
    return (struct rp_linear){.w = m->mlm_w, .b = m->mlm_b, .rows = m->slots, .in = m->hidden, .out = m->hidden};
}

static struct rp_linear pool_layer(const struct bert *m)
{
    return (struct rp_linear){.w = m->pool_w, .b = m->pool_b, .rows = m->batch, .in = m->hidden, .out = m->hidden};
}

static void masked_lm(struct bert *m, const struct bert_input *in, const rp_stored *x)
{
    struct rp_dev *dev = m->net.dev;
    const struct rp_linear l = mlm_layer(m);
    int n = m->slots, h = m->hidden;
    dev->op->gather_rows(dev, m->h, x, in->masked, n, h);
    rp_linear_forward(&m->net, &l, m->tu, m->h);
    rp_nn_gelu_forward(dev, m->act, m->mlm_norm.kept, m->tu, n, h);
    rp_nn_norm_forward(&m->net, &m->mlm_norm, NULL);
    rp_nn_classifier_forward(&m->net, &m->mlm, &m->net.loss[0], m->mlm_norm.y, in->labels, in->coef);
}

static void next_sentence(struct bert *m, const struct bert_input *in, const rp_stored *x)
{
    struct rp_dev *dev = m->net.dev;
    const struct rp_linear l = pool_layer(m);
    dev->op->gather_rows(dev, m->cls, x, in->cls, m->batch, m->hidden);
    rp_linear_forward(&m->net, &l, m->pool, m->cls);
    dev->op->tanh_forward(dev, m->pool, m->pool, m->batch, m->hidden);
    rp_nn_classifier_forward(&m->net, &m->nsp, &m->net.loss[1], m->pool, in->nsp_labels, in->nsp_coef);
}

static int forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct bert *m = (struct bert *)net;
    const struct bert_input *in = (const struct bert_input *)input;
    const rp_stored *x = m->norm0.y;
    m->mlm.w = m->word;
    embed(m, in);
    for (int l = 0; l < m->layers; l++) {
        x = layer_forward(m, in, l, x);
        if (rp_net_alive(net, err) < 0)
            return -1;
    }
    masked_lm(m, in, x);
    next_sentence(m, in, x);
    return 0;
}

static void masked_lm_backward(struct bert *m)
{
    const struct rp_linear l = mlm_layer(m);
    rp_stored *dt = m->mlm_norm.y; /* last read for the decoder's weight gradient */
    rp_nn_classifier_backward(&m->net, &m->mlm, dt, dt);
    rp_nn_norm_backward(&m->net, &m->mlm_norm, dt, NULL, NULL);
    rp_nn_gelu_backward(&m->net, m->act, dt, m->mlm_b, m->tu, m->slots, m->hidden);
    rp_linear_wgrad(&m->net, &l, dt, m->h);
    rp_linear_dgrad(&m->net, &l, m->h, dt, NULL);
}

static void next_sentence_backward(struct bert *m)
{
    struct rp_net *net = &m->net;
    const struct rp_linear l = pool_layer(m);
    rp_nn_classifier_backward(net, &m->nsp, m->dpool, m->pool);
    net->dev->op->tanh_backward(net->dev, m->dpool, rp_net_vector_grad(net, m->pool_b), m->dpool, m->pool, m->batch,
                                m->hidden, net->work);
    rp_linear_wgrad(net, &l, m->dpool, m->cls);
    rp_linear_dgrad(net, &l, m->cls, m->dpool, NULL);
}

/* x [R, H]: the layer's input. Leaves its gradient in m->dy. */
static int layer_backward(struct bert *m, const struct bert_input *in, int l, const rp_stored *x, struct rp_err *err)
{
    struct bert_layer *a = &m->layer[l];
    struct rp_attention at = attention_of(m, in, l);
    rp_stored *dx = a->norm2.y; /* no longer used by the layer above and the heads */
    rp_nn_norm_backward(&m->net, &a->norm2, m->dy, dx, rp_net_vector_grad(&m->net, a->mlp.down_b));
    rp_nn_mlp_backward(&m->net, &a->mlp, m->dy, m->dy, dx, a->norm1.y);
    if (rp_net_alive(&m->net, err) < 0)
        return -1;
    rp_nn_norm_backward(&m->net, &a->norm1, m->dy, dx, rp_net_vector_grad(&m->net, a->attention.out_b));
    rp_nn_attention_backward(&m->net, &a->attention, &at,
                             &(struct rp_nn_attention_grad){.dx = m->dy, .add = m->dy, .dy = dx, .x = x,
                                                            .dctx = a->norm1.kept, .dqkv = a->mlp.u});
    rp_net_gradients_ready(&m->net, l + 1);
    return rp_net_alive(&m->net, err);
}

/* Adds the rows of the input to the decoder's gradient of the word embedding. */
static void embed_backward(struct bert *m, const struct bert_input *in)
{
    const struct rp_net *net = &m->net;
    struct rp_dev *dev = net->dev;
    struct rp_dropout drop = rp_net_dropout(net, m->hidden_dropout, 0, m->seq);
    rp_stored *dz = m->dy;
    float *position = rp_net_grad(net, m->position), *type = rp_net_grad(net, m->type);
    if (drop.threshold) {
        dz = m->norm0.y; /* last read by layer 0's weight gradient */
        dev->op->dropout_backward(dev, dz, m->dy, m->mask0, &drop, m->rows, m->hidden);
    }
    rp_nn_norm_backward(&m->net, &m->norm0, dz, NULL, NULL);
    dev->op->fill(dev, position, 0.0f, (size_t)m->positions * (size_t)m->hidden);
    dev->op->fill(dev, type, 0.0f, (size_t)m->types * (size_t)m->hidden);
    dev->op->row_sums(dev, rp_net_grad(net, m->word), dz, &in->by_word, m->hidden, 1);
    dev->op->row_sums(dev, position, dz, &in->by_position, m->hidden, 0);
    dev->op->row_sums(dev, type, dz, &in->by_type, m->hidden, 0);
}

/* dy: the sum of what both heads read of the last layer's output. */
static void add_heads(struct bert *m, const struct bert_input *in)
{
    const struct rp_net *net = &m->net;
    struct rp_dev *dev = net->dev;
    const size_t all = (size_t)m->rows * (size_t)m->hidden;
    float *sum = net->is_mixed ? m->sum : rp_net_strict(net, m->dy);
    dev->op->fill(dev, sum, 0.0f, all);
    dev->op->row_sums(dev, sum, m->h, &in->by_masked, m->hidden, 0);
    dev->op->row_sums(dev, sum, m->cls, &in->by_cls, m->hidden, 1);
    if (net->is_mixed)
        dev->op->round_stored(dev, m->dy, sum, NULL, all);
}

static int backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct bert *m = (struct bert *)net;
    const struct bert_input *in = (const struct bert_input *)input;
    rp_net_watch_gradient(net, m->mlm.logits, (size_t)m->slots * (size_t)m->vocab);
    if (rp_net_alive(net, err) < 0)
        return -1;
    masked_lm_backward(m);
    next_sentence_backward(m);
    rp_net_gradients_ready(net, m->layers + 1);
    add_heads(m, in);
    for (int l = m->layers - 1; l >= 0; l--)
        if (layer_backward(m, in, l, l ? m->layer[l - 1].norm2.y : m->norm0.y, err) < 0)
            return -1;
    embed_backward(m, in);
    return 0;
}

static double flops(const struct rp_net *net)
{
    const struct bert *m = (const struct bert *)net;
    double s = m->seq, h = m->hidden, i = m->inner, v = m->vocab, p = m->predictions;
    return 3 * (m->layers * s * (8 * h * h + 4 * h * i + 4 * s * h) + p * (2 * h * h + 2 * h * v) + 2 * h * h + 4 * h);
}

/* Guessing costs ln V for a masked word and ln 2 for the next sentence. The last layer norm leaves vectors of length
 * sqrt(H), decoder weights are normal with the initialiser's range; the pooler's tanh keeps the logits of the next
 * sentence as narrow. */
static void untrained(const struct rp_net *net, double *guessing, double *logit_width)
{
    const struct bert *m = (const struct bert *)net;
    *guessing = log(m->vocab) + log(2);
    *logit_width = (double)net->init_range * sqrt(m->hidden);
}

static const char *size_name(const struct rp_recipe *r)
{
    const int64_t is[] = {r->model_num_hidden_layers, r->model_hidden_size, r->model_num_attention_heads,
                          r->model_intermediate_size, r->model_vocab_size};
    static const int64_t base[] = {12, 768, 12, 3072, 30522}, large[] = {24, 1024, 16, 4096, 30522};
    return memcmp(is, base, sizeof is) == 0 ? "bert-base" : memcmp(is, large, sizeof is) == 0 ? "bert-large" : NULL;
}

static int64_t padded_tokens(const struct rp_recipe *r)
{
    return r->task_seq_length;
}

static const struct rp_alias aliases[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    {"bert.embeddings.position_ids", NULL},
    {NULL, NULL},
};

/* The names of TensorFlow's variables, which the first converted files kept. */
static const struct rp_old_ending old_endings[] = {
    {"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}, {NULL, NULL}};

#define POOLER "bert.pooler."
#define PREDICTIONS "cls.predictions."
#define SENTENCES "cls.seq_relationship."
static const struct rp_lacking lacking[] = {
    {"BertForMaskedLM", {POOLER, SENTENCES}},
    {"BertForMaskedLM with pooler", {SENTENCES}}, /* of transformers before 4 */
    {"BertModel", {PREDICTIONS, SENTENCES}},
    {"BertModel without pooler", {POOLER, PREDICTIONS, SENTENCES}},
    {"BertForNextSentencePrediction", {PREDICTIONS}},
    {NULL, {NULL}},
};

static const struct rp_public public_form = {
    .class = "BertForPreTraining",
    .prefix = "bert.",
    .alias = aliases,
    .old = old_endings,
    .lacking = lacking,
};

extern const struct rp_model rp_model_bert;
const struct rp_model rp_model_bert = {
    .name = "bert",
    .sample_unit = "sequences",
    .task = "pre-training",
    .loss_part = {"mlm", "nsp"},
    .counter = {{.name = "tokens", .most = 1}, {.name = "padded_tokens", .per_sample = padded_tokens}},
    .public = &public_form,
    .size_name = size_name,
    .flops_formula = "3 x forward matrix products (backward counted as 2 x forward), padding included: "
                     "3 * (L*S*(8*H*H + 4*H*I + 4*S*H) + P*(2*H*H + 2*H*V) + 2*H*H + 4*H) per sequence",
    .size = sizeof(struct bert),
    .input_size = sizeof(struct bert_input),
    .configure = configure,
    .declare = declare,
    .declare_input = declare_input,
    .fields = fields,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .untrained = untrained,
};
