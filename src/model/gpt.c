/* GPT-2: what an instance consists of, its input, and what documents report of it. */
#include "model/gpt.h"

#include "base/buf.h"
#include "model/declare.h"
#include "model/nn/linear.h"

#include <math.h>
#include <string.h>

static void configure(struct rp_net *net, const struct rp_recipe *r)
{
    struct rp_gpt *m = (struct rp_gpt *)net;
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

struct rp_attention rp_gpt_attention(const struct rp_gpt *m, int l)
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

/* The index of a weight in this order is the key of its initialisation and its place in norms and state roots: never
 * reorder. */
static void declare_layer(struct rp_net *net, struct rp_gpt_layer *a, int l)
{
    const struct rp_gpt *m = (const struct rp_gpt *)net;
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

struct norm_names {
    const char *kept, *mean, *rstd, *mask;
};
#define NORM_NAMES(of) {of ", normalised", of " mean", of " rstd", of " mask"}

/* layer: in forward order, which the last norm follows as one more. shared, share_mask: by all layers. */
static void declare_norm(struct rp_net *net, struct rp_gpt_norm *n, const struct norm_names *name, int layer,
                         int shared, int share_mask)
{
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    const int l = layer <= m->layers ? layer : 0;
    ACT(&n->kept, name->kept, m->rows, m->hidden, .layer = l, .stage = layer, .shared = shared,
        .made_by = "gemm or residual_layernorm_forward");
    if (net->is_mixed)
        NUMBERS(&n->mean, name->mean, m->rows, .layer = l, .stage = layer, .shared = shared);
    NUMBERS(&n->rstd, name->rstd, m->rows, .layer = l, .stage = layer, .shared = shared);
    if (m->hidden_dropout > 0 && n->site >= 0)
        ADD(RP_ACTIVATION, .at = &n->mask, .name = name->mask, .dtype = RP_U8,
            .dim = {(long)rp_mask_bytes(m->rows, m->hidden)}, .layer = l, .stage = layer, .shared = share_mask);
}

static void declare_activations(struct rp_net *net, struct rp_gpt_layer *a, int l)
{
    static const struct norm_names before = NORM_NAMES("layer %d input"),
                                   between = NORM_NAMES("layer %d attention output");
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    const struct rp_attention at = rp_gpt_attention(m, l - 1);
    const int full = m->recompute == RP_RECOMPUTE_full;
    a->norm1.site = l - 1 > m->from ? 3 * (l - 1) : -1;
    a->norm2.site = 3 * l - 1;
    a->attention.recompute = a->mlp.recompute = m->recompute;
    a->attention.in_first = a->mlp.in_first = 1;
    a->mlp.act = m->act;
    if (full)
        ACT(&a->norm1.z, "layer %d input", m->rows, m->hidden, AT);
    declare_norm(net, &a->norm1, &before, l, full, 0);
    rp_nn_attention_declare(net, &a->attention, &at, m->attention_dropout, l);
    declare_norm(net, &a->norm2, &between, l, full, full);
    rp_nn_mlp_declare(net, &a->mlp, m->rows, m->hidden, m->inner,
                      (size_t)m->rows * 3 * (size_t)(m->hidden / rp_net_ranks(net)), l);
}
#undef AT

static void declare_head(struct rp_net *net)
{
    struct rp_gpt *m = (struct rp_gpt *)net;
    const int rows = m->rows < RP_GPT_BLOCK ? m->rows : RP_GPT_BLOCK, h = m->hidden, v = m->words;
    ACT(&m->logits, "logits", rows, m->padded, .stage = m->layers + 1, .shard = 2);
    NUMBERS(&m->loss, "loss of each token", m->rows, .stage = m->layers + 1, .made_by = "gemm or softmax_xent");
    NUMBERS(&net->loss, "loss", 1, .stage = m->layers + 1);
    rp_linear_use(net, rows, h, v, 0);
    if (m->rows % RP_GPT_BLOCK)
        rp_linear_use(net, m->rows % RP_GPT_BLOCK, h, v, 0);
    rp_linear_use_parts(net, rows, h, v, 1);
    rp_nn_loss_declare(net, &m->xent, rows, v);
    rp_net_use_rows(net, RP_OP_weighted_sum, m->rows, 1);
}

static void declare(struct rp_net *net)
{
    static const enum rp_op row_ops[] = {RP_OP_embed_forward,
                                         RP_OP_dropout_forward,
                                         RP_OP_dropout_backward,
                                         RP_OP_layernorm_forward,
                                         RP_OP_residual_layernorm_forward,
                                         RP_OP_layernorm_backward,
                                         RP_OP_layernorm_apply,
                                         RP_OP_row_sums,
                                         RP_OP_gather_rows,
                                         RP_OP_copy_columns,
                                         RP_OP_add_stored,
                                         RP_OP_colsum};
    static const struct norm_names output = NORM_NAMES("output");
    struct rp_gpt *m = (struct rp_gpt *)net;
    const long r = m->rows, h = m->hidden;
    const size_t tied = (size_t)m->words * (size_t)h;
    m->layer = rp_net_array(net, m->layers, sizeof *m->layer);
    MATRIX(&m->word, "transformer.wte.weight", m->padded, h, .shard = 1, .least = m->vocab,
           .stage_again = m->layers + 1);
    MATRIX(&m->position, "transformer.wpe.weight", m->positions, h, .stage = 0);
    for (int l = 0; l < m->layers; l++)
        declare_layer(net, &m->layer[l], l + 1);
    SCALE(&m->last.w, "transformer.ln_f.weight", h, .stage = m->layers + 1);
    BIAS(&m->last.b, "transformer.ln_f.bias", h, .stage = m->layers + 1);
    if (!m->is_first || !m->is_last)
        rp_net_reserve_received(net, tied < RP_TIED_PIECE ? tied : RP_TIED_PIECE);
    else
        ADD(RP_SECOND_GRADIENT, .name = "lookups of transformer.wte.weight", .dim = {m->padded, h}, .shard = 1,
            .of = 0);
    if (m->embedding_dropout > 0)
        ADD(RP_ACTIVATION, .at = &m->mask0, .name = "mask of embeddings", .dtype = RP_U8,
            .dim = {(long)rp_mask_bytes(r, h)});
    ACT(&m->z, "sum of residuals", r, h, .stage = net->first, .made_by = "embed_forward or residual_layernorm_forward");
    net->boundary = &m->z;
    net->boundary_elements = (size_t)r * (size_t)h;
    for (int l = 0; l < m->layers; l++)
        declare_activations(net, &m->layer[l], l + 1);
    m->last.site = 3 * m->layers;
    declare_norm(net, &m->last, &output, m->layers + 1, 0, 0);
    declare_head(net);
    if (!m->is_last && m->hidden_dropout > 0) {
        ADD(RP_ACTIVATION, .at = &m->mask_out, .name = "mask of a stage's output", .dtype = RP_U8,
            .dim = {(long)rp_mask_bytes(r, h)}, .stage = net->first);
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
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    struct rp_gpt_input *in = (struct rp_gpt_input *)input;
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
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    f[0] = (struct rp_sample_field){"tokens", RP_I32, m->seq + 1, m->vocab};
    return 1;
}

/* Where the document of each token begins: its end-of-document token is its last. What was cut off before a sequence is
 * not counted. */
static void find_documents(const struct rp_gpt *m, const struct rp_gpt_input *in, int32_t *position)
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

static int has_loss(const struct rp_gpt *m, int32_t token)
{
    return !m->no_eod_loss || token != m->eod;
}

static int prepare(const struct rp_net *net, struct rp_input *input, void *const *column, struct rp_err *err)
{
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    struct rp_gpt_input *in = (struct rp_gpt_input *)input;
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
        return rp_fail(err, RP_MALFORMED,
                       "every token is task.eod_token, %d, and task.eod_mask_loss leaves those out: no loss is left",
                       m->eod);
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

/* ---- what documents report of it ---- */

/* Attention takes 4 H forward for each pair of a query and a key that it attends to. */
static double flops(const struct rp_net *net)
{
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    double s = m->seq, h = m->hidden, i = m->inner, v = m->padded;
    return 3 * (m->layers * (s * (8 * h * h + 4 * h * i) + 4 * h * (s * (s + 1) / 2)) + 2 * s * h * v);
}

/* As in flops(), the scores that the attention's own backward pass recomputes are not counted. */
static double recompute_flops(const struct rp_net *net)
{
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    double s = m->seq, h = m->hidden, i = m->inner, attention = 4 * h * (s * (s + 1) / 2);
    return m->recompute == RP_RECOMPUTE_full          ? m->layers * (s * (8 * h * h + 2 * h * i) + attention)
           : m->recompute == RP_RECOMPUTE_selective ? m->layers * attention
                                                      : 0;
}

/* The last norm leaves vectors of length sqrt(H), the embedding is normal with the initialiser's range. */
static void untrained(const struct rp_net *net, double *guessing, double *logit_width)
{
    const struct rp_gpt *m = (const struct rp_gpt *)net;
    *guessing = log(m->padded);
    *logit_width = (double)net->init_range * sqrt(m->hidden);
}

static const char *size_name(const struct rp_recipe *r)
{
    static const struct {
        int64_t layers, hidden, heads;
        const char *name;
    } sizes[] = {{12, 768, 12, "gpt2-124m"},
                 {24, 1024, 16, "gpt2-355m"},
                 {36, 1280, 20, "gpt2-774m"},
                 {48, 1600, 25, "gpt2-1558m"}};
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
    .name = "gpt", .sample_unit = "sequences", .task = "pre-training",
    .counter = {{.name = "tokens", .per_sample = tokens}}, .public = &public_form, .size_name = size_name,
    .flops_formula =
        "3 x forward matrix products (backward counted as 2 x forward), attention to keys up to the query only, "
        "recomputation not counted: 3 * (L*(S*(8*H*H + 4*H*I) + 2*H*S*(S+1)) + 2*S*H*V) per sequence, V the padded "
        "vocabulary",
    .recompute_formula = "flops_per_sample + what train.recompute computes again: none 0; selective, attention, "
                         "L*2*H*S*(S+1); full, each layer without its last product, L*(S*(8*H*H + 2*H*I) + "
                         "2*H*S*(S+1)) per sequence",
    .size = sizeof(struct rp_gpt),
    .input_size = sizeof(struct rp_gpt_input),
    .layers = layers,
    .configure = configure,
    .declare = declare,
    .declare_input = declare_input,
    .fields = fields,
    .prepare = prepare,
    .forward = rp_gpt_forward,
    .backward = rp_gpt_backward,
    .flops = flops,
    .recompute_flops = recompute_flops,
    .untrained = untrained,
};
