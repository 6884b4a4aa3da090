/* GPT-2: learned positions, pre-norm decoder layers with causal attention, final norm, and logits from the token embedding itself.
 *
 * Sizes in comments: B batch, S seq, R = B * S rows, H hidden, I inner, V rows of the embedding (the padded vocabulary).
 *
 * Dropout sites: 0 embeddings; layer l from 0: 3l+1 attention probabilities, 3l+2 attention output, 3l+3 feed-forward output.
 *
 * z [R, H] is the sum of residuals. Every norm adds the output of the branch before it to z, keeps the normalised sum (kept), and writes
 * y [R, H], which all norms share: backward makes it again from what was kept. In the backward pass z is the gradient of the
 * sum and dt [R, H] that of the branch's output; y is overwritten by the gradient of y; mlp.g by those of g, u and ctx, mlp.u
 * by that of qkv.
 *
 * Logits exist for BLOCK rows at a time. As their loss needs no other row, their gradients are computed at once, in the forward pass: the
 * weight gradient of each block is one chain (RP_SEGMENT_WGRAD rows) added to that of the blocks before it.
 *
 * A stage of several has the layers [from, to): z is what it receives and passes on, forward the sum of residuals after the last layer's
 * branch, backward its gradient. The first stage owns the word embedding; the last one has a copy for the logits, whose gradient it computes.
 * t tensor-parallel ranks divide heads, I and V; z, y and dt are whole on each, and equal.
 *
 * train.recompute: `selective` keeps no ctx, decisions of attention dropout, row maxima and sums, and no output of GELU; `full` keeps of
 * each layer only its input and the decisions of its last dropout. Backward makes the rest again, with the same bits. */
/* Longer than 600 lines: declarations, forward and backward passes of one model change together. */
#include "model/declare.h"
#include "model/nn/attention.h"
#include "model/nn/groups.h"
#include "model/nn/linear.h"
#include "model/nn/mlp.h"
#include "model/nn/vocabulary.h"

#include "base/buf.h"

#include <math.h>
#include <string.h>

#define BLOCK RP_SEGMENT_WGRAD

/* y = norm of z after it received the output of a branch */
struct gpt_norm {
    float *w, *b;       /* [H] */
    rp_stored *kept;    /* [R, H], see struct rp_layernorm; the branch's output is written to it */
    float *mean, *rstd; /* [R]; mean in mixed precision alone */
    uint8_t *mask;      /* decisions of the branch's dropout */
    rp_stored *z;       /* the sum: the net's, or this layer's own if layers are computed again */
    int site;           /* of the branch's dropout; -1: no branch comes before, z has been computed */
};

struct gpt_layer {
    struct gpt_norm norm1, norm2; /* before attention, before the feed-forward part */
    struct rp_nn_attention attention;
    struct rp_nn_mlp mlp;
};

struct gpt {
    struct rp_net net;
    int vocab, padded, hidden, layers, inner, positions, seq, batch, rows;
    int heads, words;     /* of this rank; words: rows of the embedding */
    int from, to;         /* layers of this stage */
    int is_first, is_last; /* stage */
    float eps;
    double hidden_dropout, attention_dropout, embedding_dropout;
    int eod, no_eod_loss, reset_positions, reset_attention; /* task.eod_token, and what it does to a sequence */
    const int32_t *first_key; /* of the micro-batch, see struct rp_attention; NULL: documents attend to those before them */
    enum rp_recompute recompute;
    enum rp_activation act;
    rp_stored *word, *position; /* [V, H], [positions, H] */
    struct gpt_layer *layer;
    struct gpt_norm last;
    uint8_t *mask0, *mask_out; /* decisions of the dropout of embeddings, and of the last branch of a stage that others follow */
    float *mean_out, *rstd_out; /* scratch of such a stage */
    struct rp_nn_loss xent;
    rp_stored *z, *y, *dt; /* [R, H] */
    rp_stored *logits;     /* [BLOCK, V/t] */
    float *loss;           /* [R] */
};

struct gpt_input {
    struct rp_input in;
    int32_t *ids, *labels;           /* [R], rows are b * S + s */
    int32_t *positions, *first_keys; /* [R]; NULL unless documents reset positions, or attention */
    float *coef;                     /* [R] */
    struct rp_row_groups by_word, by_position; /* by_word: of this rank's rows */
    struct rp_nn_lookup lookup;
};

static void configure(struct rp_net *net, const struct rp_recipe *r)
{
    struct gpt *m = (struct gpt *)net;
    m->vocab = (int)r->model_vocab_size;
    m->padded = (int)r->model_padded_vocab_size;
    m->hidden = (int)r->model_hidden_size;
    m->layers = (int)r->model_num_hidden_layers;
    m->heads = (int)r->model_num_attention_heads / rp_net_ranks(net);
    m->words = m->padded / rp_net_ranks(net);
    m->is_first = net->first == 0;
    m->is_last = net->end == m->layers + 2;
    m->from = m->is_first ? 0 : net->first - 1;
    m->to = m->is_last ? m->layers : net->end - 1;
    m->inner = (int)r->model_intermediate_size;
    m->positions = (int)r->model_max_position_embeddings;
    m->seq = (int)r->task_seq_length;
    m->batch = (int)net->batch;
    m->rows = m->batch * m->seq;
    m->eps = (float)r->model_layer_norm_eps;
    m->hidden_dropout = r->model_hidden_dropout_prob;
    m->attention_dropout = r->model_attention_probs_dropout_prob;
    m->embedding_dropout = r->model_embedding_dropout_prob;
    m->eod = (int)r->task_eod_token;
    m->no_eod_loss = r->task_eod_mask_loss;
    m->reset_positions = r->task_reset_position_ids;
    m->reset_attention = r->task_reset_attention_mask;
    m->recompute = (enum rp_recompute)r->train_recompute;
    m->act = (enum rp_activation)r->model_hidden_act;
}

static struct rp_attention attention_of(const struct gpt *m, int l)
{
    const int d = m->hidden / rp_net_ranks(&m->net) / m->heads;
    return (struct rp_attention){.batch = m->batch, .seq = m->seq, .heads = m->heads, .head_dim = d,
                                 .first_head = rp_net_rank(&m->net) * m->heads, .scale = 1.0f / sqrtf((float)d),
                                 .causal = 1, .first_key = m->first_key,
                                 .drop = rp_net_dropout(&m->net, m->attention_dropout, 3 * l + 1, m->heads * m->seq)};
}

/* ---- declarations ---- */

#define MATRIX_INIT RP_INIT_NORMAL
#define H "transformer.h.%d."

/* The index of a weight in this order is the key of its initialisation and its place in norms and state roots: never reorder. */
static void declare_layer(struct rp_net *net, struct gpt_layer *a, int l)
{
    const struct gpt *m = (const struct gpt *)net;
    const long h = m->hidden, inner = m->inner;
    const double out = 1.0 / sqrt(2.0 * m->layers); /* of what is added to z */
#define AT .layer = l, .stage = l
    SCALE(&a->norm1.w, H "ln_1.weight", h, AT);
    BIAS(&a->norm1.b, H "ln_1.bias", h, AT);
    MATRIX(&a->attention.qkv_w, H "attn.c_attn.weight", h, 3 * h, AT, .shard = 2, .pieces = 3);
    BIAS(&a->attention.qkv_b, H "attn.c_attn.bias", 3 * h, AT, .shard = 1, .pieces = 3);
    MATRIX(&a->attention.out_w, H "attn.c_proj.weight", h, h, AT, .shard = 1, .scale = out);
    BIAS(&a->attention.out_b, H "attn.c_proj.bias", h, AT);
    SCALE(&a->norm2.w, H "ln_2.weight", h, AT);
    BIAS(&a->norm2.b, H "ln_2.bias", h, AT);
    MATRIX(&a->mlp.up_w, H "mlp.c_fc.weight", h, inner, AT, .shard = 2);
    BIAS(&a->mlp.up_b, H "mlp.c_fc.bias", inner, AT, .shard = 1);
    MATRIX(&a->mlp.down_w, H "mlp.c_proj.weight", inner, h, AT, .shard = 1, .scale = out);
    BIAS(&a->mlp.down_b, H "mlp.c_proj.bias", h, AT);
}

/* layer: in forward order, which the last norm follows as one more; p: of the branch before */
static void declare_norm(struct rp_net *net, struct gpt_norm *n, double p, const char *name, const char *mean,
                         const char *rstd, const char *mask, int layer, int shared, int share_mask)
{
    const int l = layer <= ((const struct gpt *)net)->layers ? layer : 0;
    const struct gpt *m = (const struct gpt *)net;
    ACT(&n->kept, name, m->rows, m->hidden, .layer = l, .stage = layer, .shared = shared,
        .made_by = "gemm or residual_layernorm_forward");
    if (net->is_mixed)
        NUMBERS(&n->mean, mean, m->rows, .layer = l, .stage = layer, .shared = shared);
    NUMBERS(&n->rstd, rstd, m->rows, .layer = l, .stage = layer, .shared = shared);
    if (p > 0 && n->site >= 0)
        ADD(RP_ACTIVATION, .at = &n->mask, .name = mask, .dtype = RP_U8, .dim = {(long)rp_mask_bytes(m->rows, m->hidden)}, .layer = l,
            .stage = layer, .shared = share_mask);
}

static void declare_activations(struct rp_net *net, struct gpt_layer *a, int l)
{
    const struct gpt *m = (const struct gpt *)net;
    const struct rp_attention at = attention_of(m, l - 1);
    const int full = m->recompute == RP_RECOMPUTE_full;
    a->norm1.site = l - 1 > m->from ? 3 * (l - 1) : -1;
    a->norm2.site = 3 * l - 1;
    a->attention.recompute = a->mlp.recompute = m->recompute;
    a->attention.in_first = a->mlp.in_first = 1;
    a->mlp.act = m->act;
    if (full)
        ACT(&a->norm1.z, "layer %d input", m->rows, m->hidden, AT);
    declare_norm(net, &a->norm1, m->hidden_dropout, "layer %d input, normalised", "layer %d input mean", "layer %d input rstd",
                 "layer %d input mask", l, full, 0);
    rp_nn_attention_declare(net, &a->attention, &at, m->attention_dropout, l);
    declare_norm(net, &a->norm2, m->hidden_dropout, "layer %d attention output, normalised", "layer %d attention output mean",
                 "layer %d attention output rstd", "layer %d attention output mask", l, full, full);
    rp_nn_mlp_declare(net, &a->mlp, m->rows, m->hidden, m->inner,
                      (size_t)m->rows * 3 * (size_t)(m->hidden / rp_net_ranks(net)), l);
}
#undef AT

static void declare_head(struct rp_net *net)
{
    struct gpt *m = (struct gpt *)net;
    const int rows = m->rows < BLOCK ? m->rows : BLOCK, h = m->hidden, v = m->words;
    ACT(&m->logits, "logits", rows, m->padded, .stage = m->layers + 1, .shard = 2);
    NUMBERS(&m->loss, "loss of each token", m->rows, .stage = m->layers + 1, .made_by = "gemm or softmax_xent");
    NUMBERS(&net->loss, "loss", 1, .stage = m->layers + 1);
    rp_linear_use(net, rows, h, v, 0);
    if (m->rows % BLOCK)
        rp_linear_use(net, m->rows % BLOCK, h, v, 0);
    rp_linear_use_parts(net, rows, h, v, 1);
    rp_nn_loss_declare(net, &m->xent, rows, v);
    rp_net_use_rows(net, RP_OP_weighted_sum, m->rows, 1);
}

static void declare(struct rp_net *net)
{
    static const enum rp_op row_ops[] = {RP_OP_embed_forward, RP_OP_dropout_forward, RP_OP_dropout_backward, RP_OP_layernorm_forward,
                                         RP_OP_residual_layernorm_forward, RP_OP_layernorm_backward, RP_OP_layernorm_apply, RP_OP_row_sums,
                                         RP_OP_gather_rows, RP_OP_copy_columns, RP_OP_add_stored, RP_OP_colsum};
    struct gpt *m = (struct gpt *)net;
    const long r = m->rows, h = m->hidden;
    const size_t tied = (size_t)m->words * (size_t)h;
    m->layer = rp_net_array(net, m->layers, sizeof *m->layer);
    MATRIX(&m->word, "transformer.wte.weight", m->padded, h, .shard = 1, .least = m->vocab, .stage_again = m->layers + 1);
    MATRIX(&m->position, "transformer.wpe.weight", m->positions, h, .stage = 0);
    for (int l = 0; l < m->layers; l++)
        declare_layer(net, &m->layer[l], l + 1);
    SCALE(&m->last.w, "transformer.ln_f.weight", h, .stage = m->layers + 1);
    BIAS(&m->last.b, "transformer.ln_f.bias", h, .stage = m->layers + 1);
    if (!m->is_first || !m->is_last)
        rp_net_reserve_received(net, tied < RP_TIED_PIECE ? tied : RP_TIED_PIECE);
    else
        ADD(RP_SECOND_GRADIENT, .name = "lookups of transformer.wte.weight", .dim = {m->padded, h}, .shard = 1, .of = 0);
    if (m->embedding_dropout > 0)
        ADD(RP_ACTIVATION, .at = &m->mask0, .name = "mask of embeddings", .dtype = RP_U8, .dim = {(long)rp_mask_bytes(r, h)});
    ACT(&m->z, "sum of residuals", r, h, .stage = net->first, .made_by = "embed_forward or residual_layernorm_forward");
    net->boundary = &m->z;
    net->boundary_elements = (size_t)r * (size_t)h;
    for (int l = 0; l < m->layers; l++)
        declare_activations(net, &m->layer[l], l + 1);
    m->last.site = 3 * m->layers;
    declare_norm(net, &m->last, m->hidden_dropout, "output, normalised", "output mean", "output rstd", "output mask", m->layers + 1, 0, 0);
    declare_head(net);
    if (!m->is_last && m->hidden_dropout > 0) {
        ADD(RP_ACTIVATION, .at = &m->mask_out, .name = "mask of a stage's output", .dtype = RP_U8, .dim = {(long)rp_mask_bytes(r, h)},
            .stage = net->first);
        if (net->is_mixed) {
            ADD(RP_SCRATCH, .at = &m->mean_out, .name = "mean of a stage's output", .dim = {r});
            ADD(RP_SCRATCH, .at = &m->rstd_out, .name = "rstd of a stage's output", .dim = {r});
        }
    }
    ADD(RP_SCRATCH, .at = &m->y, .name = "output of a norm", .dtype = RP_STORED, .dim = {r, h});
    ADD(RP_SCRATCH, .at = &m->dt, .name = "gradient of a branch's output", .dtype = RP_STORED, .dim = {r, h});
    rp_net_work(net, r, 3 * h);
    for (size_t i = 0; i < sizeof row_ops / sizeof *row_ops; i++)
        rp_net_use_rows(net, row_ops[i], r, h);
}

static void declare_input(struct rp_net *net, struct rp_input *input)
{
    const struct gpt *m = (const struct gpt *)net;
    struct gpt_input *in = (struct gpt_input *)input;
    const long r = m->rows;
    IN(&in->ids, "token ids", RP_I32, r);
    IN(&in->labels, "labels", RP_I32, r);
    if (m->reset_positions)
        IN(&in->positions, "positions in documents", RP_I32, r);
    if (m->reset_attention)
        IN(&in->first_keys, "first keys of queries", RP_I32, r);
    IN(&in->coef, "coefficients of tokens", RP_F32, r);
    rp_net_groups(net, &in->by_word, r < m->vocab ? r : m->vocab, r);
    rp_net_groups(net, &in->by_position, m->seq, r);
    rp_nn_lookup_declare(net, &in->lookup, m->rows);
}

static int fields(const struct rp_net *net, struct rp_sample_field *f)
{
    const struct gpt *m = (const struct gpt *)net;
    f[0] = (struct rp_sample_field){"tokens", RP_I32, m->seq + 1, m->vocab};
    return 1;
}

/* Where the document of each token begins: its end-of-document token is its last. What was cut off before a sequence is not counted. */
static void find_documents(const struct gpt *m, const struct gpt_input *in, int32_t *position)
{
    int start = 0;
    for (int i = 0; i < m->rows; i++) {
        const int s = i % m->seq;
        if (s == 0 || in->ids[i - 1] == m->eod)
            start = s;
        position[i] = m->reset_positions ? s - start : s;
        if (in->positions)
            in->positions[i] = position[i];
        if (in->first_keys)
            in->first_keys[i] = start;
    }
}

static int has_loss(const struct gpt *m, int32_t token)
{
    return !m->no_eod_loss || token != m->eod;
}

static int prepare(const struct rp_net *net, struct rp_input *input, void *const *column, struct rp_err *err)
{
    const struct gpt *m = (const struct gpt *)net;
    struct gpt_input *in = (struct gpt_input *)input;
    const int32_t *tokens = column[0];
    RP_FREE int32_t *position = rp_alloc((size_t)m->rows * sizeof *position);
    int counted = 0;
    for (int i = 0; i < m->rows; i++) {
        const int32_t *t = tokens + (long)(i / m->seq) * (m->seq + 1) + i % m->seq;
        in->ids[i] = t[0];
        in->labels[i] = t[1];
        counted += has_loss(m, t[0]);
    }
    if (!counted)
        return rp_fail(err, RP_MALFORMED, "every token is task.eod_token, %d, and task.eod_mask_loss leaves those out: no loss is left", m->eod);
    find_documents(m, in, position);
    for (int i = 0; i < m->rows; i++)
        in->coef[i] = has_loss(m, in->ids[i]) ? 1.0f / (float)counted : 0.0f;
    const int32_t words = rp_net_rank(net) * m->words;
    rp_group_rows_in(&in->by_word, in->ids, m->rows, words, words + m->words);
    rp_nn_lookup_prepare(net, &in->lookup, in->ids, m->rows, m->words);
    rp_group_rows(&in->by_position, position, m->rows);
    input->counter[0] = m->rows;
    return 0;
}

/* ---- forward ---- */

static struct rp_dropout norm_dropout(const struct gpt *m, const struct gpt_norm *n)
{
    return rp_net_dropout(&m->net, n->site >= 0 ? m->hidden_dropout : 0, n->site, m->seq);
}

/* y of the norm of x, and what it keeps. */
static void norm_alone(const struct gpt *m, const struct gpt_norm *n, const rp_stored *x)
{
    const struct rp_layernorm a = {.rows = m->rows, .width = m->hidden, .eps = m->eps, .x = x, .gamma = n->w,
                                   .beta = n->b, .y = m->y, .kept = n->kept, .mean = n->mean, .rstd = n->rstd};
    m->net.dev->op->layernorm_forward(m->net.dev, &a);
}

/* z = residual + the branch's output in n->kept; y. sum NULL: z is not needed. */
static void add_norm(const struct gpt *m, const struct gpt_norm *n, rp_stored *sum, const rp_stored *residual)
{
    if (n->site < 0) {
        norm_alone(m, n, residual);
        return;
    }
    const struct rp_dropout drop = norm_dropout(m, n);
    const struct rp_layernorm a = {.rows = m->rows, .width = m->hidden, .eps = m->eps, .x = n->kept,
                                   .residual = residual, .drop = &drop, .gamma = n->w, .beta = n->b, .y = m->y,
                                   .kept = n->kept, .mean = n->mean, .rstd = n->rstd, .z = sum, .mask = n->mask};
    m->net.dev->op->residual_layernorm_forward(m->net.dev, &a);
}

/* z of layer l's input. */
static rp_stored *input_of(const struct gpt *m, int l)
{
    return m->recompute == RP_RECOMPUTE_full ? m->layer[l].norm1.z : m->z;
}

static void embed(struct gpt *m, const struct gpt_input *in)
{
    struct rp_dev *dev = m->net.dev;
    struct rp_dropout drop = rp_net_dropout(&m->net, m->embedding_dropout, 0, m->seq);
    const int divided = rp_net_ranks(&m->net) > 1;
    rp_stored *z = input_of(m, 0);
    if (divided)
        rp_nn_lookup_rows(&m->net, &in->lookup, m->y, m->word, m->hidden);
    dev->op->embed_forward(dev, z, divided ? in->lookup.place : in->ids, NULL, in->positions, divided ? m->y : m->word, NULL, m->position,
                           m->rows, m->seq, m->hidden);
    if (drop.threshold)
        dev->op->dropout_forward(dev, z, m->mask0, z, &drop, m->rows, m->hidden);
}

/* From the output of the layer before, in norm1.kept, to this layer's, in out. */
static void layer_forward(struct gpt *m, int l, rp_stored *out)
{
    const struct gpt_layer *a = &m->layer[l];
    const struct rp_attention at = attention_of(m, l);
    add_norm(m, &a->norm1, input_of(m, l), l > m->from ? m->z : input_of(m, l));
    rp_nn_attention_forward(&m->net, &a->attention, &at, a->norm2.kept, m->y);
    add_norm(m, &a->norm2, m->z, input_of(m, l));
    rp_nn_mlp_forward(&m->net, &a->mlp, out, m->y);
}

/* Loss of rows i to i + n - 1, and the gradients of y and of the embedding. */
static void head_block(struct gpt *m, const struct gpt_input *in, int i, int n)
{
    struct rp_dev *dev = m->net.dev;
    const int h = m->hidden, v = m->words;
    rp_stored *y = rp_stored_at(dev, m->y, (long)i * h);
    float *g = rp_net_grad(&m->net, m->word);
    const struct rp_gemm wgrad = {.ta = 1, .m = v, .n = h, .k = n, .segment = RP_SEGMENT_WGRAD, .a = m->logits, .lda = v, .b = y, .ldb = h,
                                  .c32 = g, .ldc = h, .add32 = i ? g : NULL, .ldadd = h};
    rp_linear_forward(dev, m->logits, y, m->word, NULL, n, h, v, 0);
    rp_nn_loss(&m->net, &m->xent, m->loss + i, m->logits, in->labels + i, in->coef + i, n, v);
    rp_net_watch_gradient(&m->net, m->logits, (size_t)n * (size_t)v);
    if (m->net.overflowed)
        return;
    dev->op->gemm(dev, &wgrad);
    rp_linear_dgrad_parts(&m->net, y, m->logits, m->word, NULL, n, h, v, 0, 1);
}

static void copy_rows(const struct gpt *m, rp_stored *to, const rp_stored *from)
{
    struct rp_dev *dev = m->net.dev;
    dev->op->copy_columns(dev, to, m->hidden, from, m->hidden, m->rows, m->hidden, (int)dev->stored_bytes);
}

/* The first stage makes z, the others have it from the stage before. */
static void begin(struct gpt *m, const struct gpt_input *in)
{
    if (m->is_first)
        embed(m, in);
    else if (m->recompute == RP_RECOMPUTE_full)
        copy_rows(m, input_of(m, m->from), m->z);
}

/* z of the next stage: the sum with the output of the last branch, in dt. */
static void pass_on(struct gpt *m)
{
    struct rp_dev *dev = m->net.dev;
    const struct rp_dropout drop = rp_net_dropout(&m->net, m->hidden_dropout, 3 * m->to, m->seq);
    const struct gpt_norm *any = &m->layer[m->to - 1].norm2;
    const struct rp_layernorm sum = {.rows = m->rows, .width = m->hidden, .eps = m->eps, .x = m->dt, .residual = m->z,
                                     .drop = &drop, .gamma = any->w, .beta = any->b, .y = m->y, .kept = m->dt,
                                     .mean = m->mean_out, .rstd = m->rstd_out, .z = m->z, .mask = m->mask_out};
    if (drop.threshold && m->net.is_mixed) { /* as the norm that follows makes it on one rank: one rounding, after the addition */
        dev->op->residual_layernorm_forward(dev, &sum);
        return;
    }
    if (drop.threshold)
        dev->op->dropout_forward(dev, m->dt, m->mask_out, m->dt, &drop, m->rows, m->hidden);
    dev->op->add_stored(dev, m->z, m->z, m->dt, (size_t)m->rows * (size_t)m->hidden);
}

/* Where the output of layer l goes. */
static rp_stored *output_of(const struct gpt *m, int l)
{
    return l + 1 < m->to ? m->layer[l + 1].norm1.kept : m->is_last ? m->last.kept : m->dt;
}

static int forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct gpt *m = (struct gpt *)net;
    const struct gpt_input *in = (const struct gpt_input *)input;
    m->first_key = in->first_keys;
    begin(m, in);
    for (int l = m->from; l < m->to; l++) {
        layer_forward(m, l, output_of(m, l));
        if (rp_net_alive(net, err) < 0)
            return -1;
    }
    if (!m->is_last) {
        pass_on(m);
        return 0;
    }
    add_norm(m, &m->last, NULL, m->z);
    for (int i = 0; i < m->rows; i += BLOCK) {
        head_block(m, in, i, m->rows - i < BLOCK ? m->rows - i : BLOCK);
        if (!net->overflowed && rp_net_alive(net, err) < 0)
            return -1;
    }
    net->dev->op->weighted_sum(net->dev, net->loss, m->loss, in->coef, m->rows);
    return 0;
}

/* ---- backward ---- */

/* y is the gradient of the norm's output: adds to z, makes dt, and the gradient of the bias in the branch before. first: z is empty. */
static void norm_backward(const struct gpt *m, const struct gpt_norm *n, float *branch_bias, int first)
{
    const struct rp_dropout drop = norm_dropout(m, n);
    struct rp_layernorm_grad g = {.rows = m->rows, .width = m->hidden, .dy = m->y, .add = first ? NULL : m->z,
                                  .kept = n->kept, .mean = n->mean, .rstd = n->rstd, .gamma = n->w, .mask = n->mask,
                                  .dz = m->z, .dgamma = rp_net_vector_grad(&m->net, n->w), .dbeta = rp_net_vector_grad(&m->net, n->b),
                                  .work = m->net.work};
    if (n->site >= 0) {
        g.drop = &drop;
        g.dx = m->dt;
        g.dbias = branch_bias;
    }
    m->net.dev->op->layernorm_backward(m->net.dev, &g);
}

/* The output of a norm again, in y. */
static void apply_norm(const struct gpt *m, const struct gpt_norm *n)
{
    const struct rp_layernorm a = {.rows = m->rows, .width = m->hidden, .gamma = n->w, .beta = n->b, .y = m->y, .kept = n->kept,
                                   .mean = n->mean, .rstd = n->rstd};
    m->net.dev->op->layernorm_apply(m->net.dev, &a);
}

/* What the layer's forward pass made and did not keep. */
static void compute_again(struct gpt *m, int l)
{
    const struct gpt_layer *a = &m->layer[l];
    const struct rp_attention at = attention_of(m, l);
    if (m->recompute == RP_RECOMPUTE_selective) {
        rp_nn_attention_context(&m->net, &a->attention, &at, NULL);
        rp_nn_mlp_activate(&m->net, &a->mlp);
    }
    if (m->recompute != RP_RECOMPUTE_full)
        return;
    const rp_stored *z = input_of(m, l);
    norm_alone(m, &a->norm1, z);
    rp_nn_attention_forward(&m->net, &a->attention, &at, a->norm2.kept, m->y);
    add_norm(m, &a->norm2, NULL, z);
    rp_nn_mlp_inner(&m->net, &a->mlp, m->y);
}

/* From dt, the gradient of the layer's output, and z, that of the sum, to those of the layer before. */
static int layer_backward(struct gpt *m, int l, struct rp_err *err)
{
    struct gpt_layer *a = &m->layer[l];
    const struct rp_attention at = attention_of(m, l);
    compute_again(m, l);
    apply_norm(m, &a->norm2);
    rp_nn_mlp_backward(&m->net, &a->mlp, m->y, NULL, m->dt, m->y);
    norm_backward(m, &a->norm2, rp_net_vector_grad(&m->net, a->attention.out_b), 0);
    if (rp_net_alive(&m->net, err) < 0)
        return -1;
    apply_norm(m, &a->norm1);
    rp_nn_attention_backward(&m->net, &a->attention, &at, m->y, NULL, m->dt, m->y, a->mlp.g, a->mlp.u);
    norm_backward(m, &a->norm1, l > m->from ? rp_net_vector_grad(&m->net, m->layer[l - 1].mlp.down_b) : NULL, 0);
    rp_net_gradients_ready(&m->net, l + 1);
    return rp_net_alive(&m->net, err);
}

static void embed_backward(struct gpt *m, const struct gpt_input *in)
{
    const struct rp_net *net = &m->net;
    struct rp_dev *dev = net->dev;
    struct rp_dropout drop = rp_net_dropout(net, m->embedding_dropout, 0, m->seq);
    float *position = rp_net_grad(net, m->position);
    float *lookups = m->is_last ? rp_net_second_grad(net, 0) : rp_net_grad(net, m->word); /* with a stage for each there are no two here */
    if (drop.threshold)
        dev->op->dropout_backward(dev, m->z, m->z, m->mask0, &drop, m->rows, m->hidden);
    dev->op->fill(dev, position, 0.0f, (size_t)m->positions * (size_t)m->hidden);
    dev->op->fill(dev, lookups, 0.0f, (size_t)m->words * (size_t)m->hidden);
    if (in->by_word.n)
        dev->op->row_sums(dev, lookups, m->z, &in->by_word, m->hidden, 0);
    dev->op->row_sums(dev, position, m->z, &in->by_position, m->hidden, 0);
}

/* z is the gradient of what pass_on() made: dt, and the gradient of the last branch's bias. */
static void take_back(struct gpt *m, float *bias)
{
    struct rp_dev *dev = m->net.dev;
    struct rp_dropout drop = rp_net_dropout(&m->net, m->hidden_dropout, 3 * m->to, m->seq);
    if (drop.threshold)
        dev->op->dropout_backward(dev, m->dt, m->z, m->mask_out, &drop, m->rows, m->hidden);
    else
        copy_rows(m, m->dt, m->z);
    dev->op->colsum(dev, bias, m->dt, m->rows, m->hidden, m->net.work);
}

static int backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct gpt *m = (struct gpt *)net;
    float *bias = rp_net_vector_grad(net, m->layer[m->to - 1].mlp.down_b);
    m->first_key = ((const struct gpt_input *)input)->first_keys;
    if (rp_net_alive(net, err) < 0)
        return -1;
    if (m->is_last)
        norm_backward(m, &m->last, bias, 1);
    else
        take_back(m, bias);
    for (int l = m->to - 1; l >= m->from; l--)
        if (layer_backward(m, l, err) < 0)
            return -1;
    if (m->is_first)
        embed_backward(m, (const struct gpt_input *)input);
    return 0;
}

/* ---- what documents say of it ---- */

/* Of each pair of a query and a key that it attends to: 4 H forward. */
static double flops(const struct rp_net *net)
{
    const struct gpt *m = (const struct gpt *)net;
    double s = m->seq, h = m->hidden, i = m->inner, v = m->padded;
    return 3 * (m->layers * (s * (8 * h * h + 4 * h * i) + 4 * h * (s * (s + 1) / 2)) + 2 * s * h * v);
}

/* The scores that the attention's own backward pass computes again are no part of it, as in flops(). */
static double recompute_flops(const struct rp_net *net)
{
    const struct gpt *m = (const struct gpt *)net;
    double s = m->seq, h = m->hidden, i = m->inner, attention = 4 * h * (s * (s + 1) / 2);
    return m->recompute == RP_RECOMPUTE_full          ? m->layers * (s * (8 * h * h + 2 * h * i) + attention)
           : m->recompute == RP_RECOMPUTE_selective ? m->layers * attention
                                                      : 0;
}

/* The last norm leaves vectors of length sqrt(H), the embedding is normal with the initialiser's range. */
static void untrained(const struct rp_net *net, double *guessing, double *logit_width)
{
    const struct gpt *m = (const struct gpt *)net;
    *guessing = log(m->padded);
    *logit_width = (double)net->init_range * sqrt(m->hidden);
}

static const char *size_name(const struct rp_recipe *r)
{
    static const struct {
        int64_t layers, hidden, heads;
        const char *name;
    } sizes[] = {{12, 768, 12, "gpt2-124m"}, {24, 1024, 16, "gpt2-355m"}, {36, 1280, 20, "gpt2-774m"}, {48, 1600, 25, "gpt2-1558m"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (r->model_num_hidden_layers == sizes[i].layers && r->model_hidden_size == sizes[i].hidden &&
            r->model_num_attention_heads == sizes[i].heads && r->model_intermediate_size == 4 * sizes[i].hidden &&
            r->model_vocab_size == 50257)
            return sizes[i].name;
    return NULL;
}

static int layers(const struct rp_recipe *r)
{
    return (int)r->model_num_hidden_layers;
}

static int64_t tokens(const struct rp_recipe *r)
{
    return r->task_seq_length;
}

static const struct rp_alias aliases[] = {
    {"lm_head.weight", "transformer.wte.weight"},
    {"transformer.h.%d.attn.bias", NULL}, /* the causal mask */
    {"transformer.h.%d.attn.masked_bias", NULL},
    {NULL, NULL},
};

static const struct rp_public public_form = {
    .class = "GPT2LMHeadModel",
    .end_token = "task.eod_token",
    .prefix = "transformer.",
    .alias = aliases,
};

extern const struct rp_model rp_model_gpt;
const struct rp_model rp_model_gpt = {
    .name = "gpt",
    .sample_unit = "sequences",
    .task = "pre-training",
    .counter = {{.name = "tokens", .per_sample = tokens}},
    .public = &public_form,
    .size_name = size_name,
    .flops_formula = "3 x forward matrix products (backward counted as 2 x forward), attention to keys up to the query only, recomputation not "
                     "counted: 3 * (L*(S*(8*H*H + 4*H*I) + 2*H*S*(S+1)) + 2*S*H*V) per sequence, V the padded vocabulary",
    .recompute_formula = "flops_per_sample + what train.recompute computes again: none 0; selective, attention, L*2*H*S*(S+1); full, each layer "
                         "without its last product, L*(S*(8*H*H + 2*H*I) + 2*H*S*(S+1)) per sequence",
    .size = sizeof(struct gpt),
    .input_size = sizeof(struct gpt_input),
    .layers = layers,
    .configure = configure,
    .declare = declare,
    .declare_input = declare_input,
    .fields = fields,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .recompute_flops = recompute_flops,
    .untrained = untrained,
};
