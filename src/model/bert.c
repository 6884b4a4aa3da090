/* The list of tensors and the layout of memory. One function per tensor class lays out; with no block behind it, it only counts. */
#include "model/bert.h"

#include "base/buf.h"
#include "model/model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rp_bert_config_from(struct rp_bert_config *c, const struct rp_recipe *r, struct rp_err *err)
{
    *c = (struct rp_bert_config){
        .vocab = (int)r->model_vocab_size,
        .hidden = (int)r->model_hidden_size,
        .layers = (int)r->model_num_hidden_layers,
        .heads = (int)r->model_num_attention_heads,
        .inner = (int)r->model_intermediate_size,
        .positions = (int)r->model_max_position_embeddings,
        .types = (int)r->model_type_vocab_size,
        .pair = 2,
        .seq = (int)r->task_seq_length,
        .predictions = (int)r->task_max_predictions,
        .batch = (int)r->train_batch_size,
        .micros = (int)r->train_accumulation_steps,
        .moments = 2,
        .eps = (float)r->model_layer_norm_eps,
        .init_range = (float)r->model_initializer_range,
        .hidden_dropout = r->model_hidden_dropout_prob,
        .attention_dropout = r->model_attention_probs_dropout_prob,
        .seed_init = (uint64_t)r->seed_init,
        .seed_dropout = (uint64_t)r->seed_dropout,
    };
    if (c->hidden % c->heads)
        return rp_fail(err, RP_USAGE, "model.hidden_size %d is not divisible by model.num_attention_heads %d", c->hidden, c->heads);
    if (c->seq > c->positions)
        return rp_fail(err, RP_USAGE, "task.seq_length %d is longer than model.max_position_embeddings %d", c->seq, c->positions);
    if (c->predictions > c->seq)
        return rp_fail(err, RP_USAGE, "task.max_predictions_per_seq %d is more than task.seq_length %d", c->predictions, c->seq);
    return 0;
}

/* -- tensors -- */

void rp_bert_manifest(struct rp_manifest *m, const struct rp_bert_config *c)
{
#define TENSOR(field, name, init, rows, cols, joined) rp_manifest_add(m, name, RP_INIT_##init, c->rows, c->cols, joined);
#define LAYER(field, name, init, rows, cols, joined)                                                                   \
    snprintf(full, sizeof full, "bert.encoder.layer.%d.%s", l, name);                                                  \
    rp_manifest_add(m, full, RP_INIT_##init, c->rows, c->cols, joined);
#define LAYERS                                                                                                         \
    for (int l = 0; l < c->layers; l++) {                                                                              \
        char full[96];
#define LAYERS_END }
#include "model/bert_tensors.def"
    m->floats = (m->floats + 15) & ~(size_t)15; /* blocks follow each other */
}

void rp_bert_bind(const struct rp_bert *m, struct rp_bert_tensors *t, float *block)
{
    const struct rp_tensor *at = m->manifest.t;
#define TENSOR(field, name, init, rows, cols, joined) t->field = block + at++->offset;
#define LAYER(field, name, init, rows, cols, joined) t->layer[l].field = block + at++->offset;
#define LAYERS for (int l = 0; l < m->c.layers; l++) {
#define LAYERS_END }
#include "model/bert_tensors.def"
}

/* -- memory -- */

/* A block being laid out: every piece starts on 64 bytes; without a base it only counts. */
struct lay {
    char *base;
    size_t at;
};

static void *take(struct lay *l, size_t count, size_t size)
{
    size_t at = l->at;
    l->at = (at + count * size + 63) & ~(size_t)63;
    return l->base ? l->base + at : NULL;
}

static float *floats(struct lay *l, size_t count)
{
    return take(l, count, sizeof(float));
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t rows_of(const struct rp_bert_config *c)
{
    return (size_t)c->batch * (size_t)c->seq;
}

static size_t predictions_of(const struct rp_bert_config *c)
{
    return (size_t)c->batch * (size_t)c->predictions;
}

static void lay_activations(struct rp_bert *m, struct lay *b)
{
    const struct rp_bert_config *c = &m->c;
    struct rp_bert_acts *a = &m->a;
    size_t r = rows_of(c), h = (size_t)c->hidden, inner = (size_t)c->inner, p = predictions_of(c), n = (size_t)c->batch;
    size_t scores = r * (size_t)c->heads; /* rows of attention */
    size_t hidden_mask = c->hidden_dropout > 0 ? rp_mask_bytes((long)r, (long)h) : 0;
    size_t score_mask = c->attention_dropout > 0 ? rp_mask_bytes((long)scores, c->seq) : 0;
    a->xhat0 = floats(b, r * h);
    a->rstd0 = floats(b, r);
    a->x0 = floats(b, r * h);
    a->mask0 = take(b, hidden_mask, 1);
    for (int i = 0; i < c->layers; i++) {
        struct rp_bert_layer_acts *l = &a->layer[i];
        l->qkv = floats(b, r * 3 * h);
        l->row_max = floats(b, scores);
        l->row_inv = floats(b, scores);
        l->mask_p = take(b, score_mask, 1);
        l->ctx = floats(b, r * h);
        l->xhat1 = floats(b, r * h);
        l->rstd1 = floats(b, r);
        l->mask1 = take(b, hidden_mask, 1);
        l->y1 = floats(b, r * h);
        l->u = floats(b, r * max_size(inner, 3 * h));
        l->g = floats(b, r * inner);
        l->xhat2 = floats(b, r * h);
        l->rstd2 = floats(b, r);
        l->mask2 = take(b, hidden_mask, 1);
        l->y2 = floats(b, r * h);
    }
    a->h = floats(b, p * h);
    a->tu = floats(b, p * h);
    a->xhat_t = floats(b, p * h);
    a->rstd_t = floats(b, p);
    a->t = floats(b, p * h);
    a->logits = floats(b, p * (size_t)c->vocab);
    a->mlm_loss = floats(b, p);
    a->cls = floats(b, n * h);
    a->pool = floats(b, n * h);
    a->nsp_logits = floats(b, n * 2);
    a->nsp_loss = floats(b, n);
    a->loss = floats(b, 2);
}

static void lay_scratch(struct rp_bert *m, struct lay *b)
{
    const struct rp_bert_config *c = &m->c;
    size_t r = rows_of(c), h = (size_t)c->hidden, chunks = 0, leaves = 0;
    long rows = (long)r, p = (long)predictions_of(c);
    size_t work = rp_colsum_work(rows, 3l * c->hidden);
    work = max_size(work, rp_colsum_work(rows, c->inner));
    work = max_size(work, rp_colsum_work(p, 3l * c->hidden));
    work = max_size(work, rp_colsum_work(p, c->vocab));
    for (int i = 0; i < m->manifest.n; i++) {
        size_t n = m->manifest.t[i].count;
        chunks += (n + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK;
        leaves = max_size(leaves, (n * sizeof(float) + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES);
    }
    m->dy = floats(b, r * h);
    m->dpool = floats(b, (size_t)c->batch * h);
    m->work = floats(b, work);
    m->norm_chunks = floats(b, chunks);
    m->sums = floats(b, 4);
    m->leaves = take(b, leaves, 32);
}

static void lay_groups(struct rp_row_groups *g, struct lay *b, size_t keys, size_t sources)
{
    g->key = take(b, keys, sizeof(int32_t));
    g->start = take(b, keys + 1, sizeof(int32_t));
    g->source = take(b, sources, sizeof(int32_t));
}

static void lay_input(const struct rp_bert_config *c, struct rp_bert_input *in, struct lay *b)
{
    size_t r = rows_of(c), p = predictions_of(c), n = (size_t)c->batch, at = b->at;
    in->start = b->base ? b->base + at : NULL;
    in->ids = take(b, r, 4);
    in->types = take(b, r, 4);
    in->key_mask = take(b, r, 1);
    in->masked = take(b, p, 4);
    in->labels = take(b, p, 4);
    in->coef = take(b, p, 4);
    in->cls = take(b, n, 4);
    in->nsp_labels = take(b, n, 4);
    in->nsp_coef = take(b, n, 4);
    lay_groups(&in->by_word, b, r < (size_t)c->vocab ? r : (size_t)c->vocab, r);
    lay_groups(&in->by_position, b, (size_t)c->seq, r);
    lay_groups(&in->by_type, b, (size_t)c->types, r);
    lay_groups(&in->by_masked, b, p, p);
    lay_groups(&in->by_cls, b, n, n);
    in->bytes = b->at - at;
}

int rp_bert_gradient_blocks(int micros)
{
    int n = 1; /* floor(log2(micros)) + 1: the most partial sums a binary counter holds, with the leaf being written */
    while (micros >>= 1)
        n++;
    return n;
}

void rp_bert_size(const struct rp_bert_config *c, uint64_t bytes[RP_CLASS_COUNT], uint64_t *parameters)
{
    struct rp_bert m = {.c = *c};
    struct lay acts = {0}, scratch = {0}, input = {0};
    struct rp_bert_input slot;
    rp_bert_manifest(&m.manifest, c);
    m.a.layer = rp_alloc((size_t)c->layers * sizeof *m.a.layer);
    lay_activations(&m, &acts);
    lay_scratch(&m, &scratch);
    lay_input(c, &slot, &input);
    uint64_t block = m.manifest.floats * sizeof(float);
    memset(bytes, 0, RP_CLASS_COUNT * sizeof *bytes);
    bytes[RP_CLASS_PARAMETERS] = block;
    bytes[RP_CLASS_GRADIENTS] = block * (uint64_t)rp_bert_gradient_blocks(c->micros);
    bytes[RP_CLASS_OPTIMIZER] = block * (uint64_t)c->moments;
    bytes[RP_CLASS_ACTIVATIONS] = acts.at;
    bytes[RP_CLASS_SCRATCH] = scratch.at;
    bytes[RP_CLASS_INPUT] = input.at * (uint64_t)c->micros;
    if (parameters)
        *parameters = m.manifest.parameters;
    free(m.a.layer);
    rp_manifest_fini(&m.manifest);
}

const char rp_bert_flops_formula[] =
    "3 x forward matrix products (backward counted as 2 x forward), padding included: "
    "3 * (L*S*(8*H*H + 4*H*I + 4*S*H) + P*(2*H*H + 2*H*V) + 2*H*H + 4*H) per sequence";

double rp_bert_flops(const struct rp_bert_config *c)
{
    double s = c->seq, h = c->hidden, i = c->inner, v = c->vocab, p = c->predictions;
    return 3 * (c->layers * s * (8 * h * h + 4 * h * i + 4 * s * h) + p * (2 * h * h + 2 * h * v) + 2 * h * h + 4 * h);
}

/* -- open and close -- */

/* One block of the class, NULL and *err when it cannot be had. */
static void *block(struct rp_bert *m, enum rp_class c, uint64_t bytes, struct rp_err *err)
{
    void *p = m->dev->backend->block(m->dev, c, bytes, err);
    if (!p)
        (void)rp_wrap(err, "%s, %.1f MB", rp_class_name(c), (double)bytes * 1e-6);
    return p;
}

static int allocate(struct rp_bert *m, struct rp_err *err)
{
    uint64_t bytes[RP_CLASS_COUNT];
    rp_bert_size(&m->c, bytes, NULL);
    size_t n = m->manifest.floats;
    float *moments;
    struct lay acts = {0}, scratch = {0}, input = {0};
    if (!(m->parameters = block(m, RP_CLASS_PARAMETERS, bytes[RP_CLASS_PARAMETERS], err)) ||
        !(m->gradient[0] = block(m, RP_CLASS_GRADIENTS, bytes[RP_CLASS_GRADIENTS], err)) ||
        !(moments = block(m, RP_CLASS_OPTIMIZER, bytes[RP_CLASS_OPTIMIZER], err)) ||
        !(acts.base = block(m, RP_CLASS_ACTIVATIONS, bytes[RP_CLASS_ACTIVATIONS], err)) ||
        !(scratch.base = block(m, RP_CLASS_SCRATCH, bytes[RP_CLASS_SCRATCH], err)) ||
        !(input.base = block(m, RP_CLASS_INPUT, bytes[RP_CLASS_INPUT], err)))
        return -1;
    m->moment[0] = moments;
    m->moment[1] = moments + n;
    m->gradients = rp_bert_gradient_blocks(m->c.micros);
    for (int i = 1; i < m->gradients; i++)
        m->gradient[i] = m->gradient[0] + (size_t)i * n;
    lay_activations(m, &acts);
    lay_scratch(m, &scratch);
    for (int i = 0; i < m->c.micros; i++)
        lay_input(&m->c, &m->input[i], &input);
    rp_bert_bind(m, &m->w, m->parameters);
    return 0;
}

void rp_bert_staging(const struct rp_bert_config *c, struct rp_bert_input *staging)
{
    struct lay count = {0}, real = {0};
    lay_input(c, staging, &count);
    real.base = rp_alloc(count.at);
    lay_input(c, staging, &real);
}

struct rp_bert *rp_bert_open(const struct rp_bert_config *c, struct rp_dev *dev, struct rp_err *err)
{
    RP_BUG_IF(c->batch < 1 || (int64_t)c->batch * c->seq > INT_MAX || rp_bert_gradient_blocks(c->micros) > RP_GRADIENT_BLOCKS);
    struct rp_bert *m = rp_alloc(sizeof *m);
    size_t layers = (size_t)c->layers;
    m->c = *c;
    m->dev = dev;
    m->a.layer = rp_alloc(layers * sizeof *m->a.layer);
    m->w.layer = rp_alloc(layers * sizeof *m->w.layer);
    m->dw.layer = rp_alloc(layers * sizeof *m->dw.layer);
    m->input = rp_alloc((size_t)c->micros * sizeof *m->input);
    rp_bert_manifest(&m->manifest, c);
    rp_bert_staging(c, &m->staging);
    if (allocate(m, err) < 0) {
        rp_bert_close(m);
        return NULL;
    }
    return m;
}

void rp_bert_close(struct rp_bert *m)
{
    if (!m)
        return;
    free(m->staging.start);
    free(m->input);
    free(m->a.layer);
    free(m->w.layer);
    free(m->dw.layer);
    rp_manifest_fini(&m->manifest);
    free(m);
}

int rp_bert_init(struct rp_bert *m, struct rp_err *err)
{
    for (int i = 0; i < m->manifest.n; i++) {
        const struct rp_tensor *t = &m->manifest.t[i];
        float *w = m->parameters + t->offset;
        if (t->init == RP_INIT_NORMAL)
            m->dev->op->init_normal(m->dev, w, t->count, m->c.init_range, m->c.seed_init, (uint32_t)i);
        else
            m->dev->op->fill(m->dev, w, t->init == RP_INIT_ONE ? 1.0f : 0.0f, t->count);
    }
    return m->dev->backend->sync(m->dev, err);
}

/* -- shared by forward and backward -- */

struct rp_dropout rp_bert_dropout(const struct rp_bert *m, double p, int64_t step, int site, int micro, int rows_per_sample)
{
    return (struct rp_dropout){
        .seed = m->c.seed_dropout,
        .step = (uint32_t)step,
        .site = (uint32_t)site,
        .first_sample = (uint32_t)micro * (uint32_t)m->c.batch,
        .rows_per_sample = rows_per_sample,
        .threshold = (uint32_t)(p * 4294967296.0),
        .scale = (float)(1.0 / (1.0 - p)),
    };
}

struct rp_attention rp_bert_attention(const struct rp_bert *m, int micro, int64_t step, int layer)
{
    const struct rp_bert_config *c = &m->c;
    int d = c->hidden / c->heads;
    return (struct rp_attention){
        .batch = c->batch,
        .seq = c->seq,
        .heads = c->heads,
        .head_dim = d,
        .scale = 1.0f / sqrtf((float)d),
        .key_mask = m->input[micro].key_mask,
        .drop = rp_bert_dropout(m, c->attention_dropout, step, 3 * layer + 1, micro, c->heads * c->seq),
    };
}

int rp_bert_alive(const struct rp_bert *m, struct rp_err *err)
{
    if (m->alive && m->alive(m->alive_arg))
        return rp_fail(err, RP_INTERRUPTED, "stopped in the middle of a step");
    return 0;
}

/* -- what others know of it -- */

static int64_t padded_tokens(const struct rp_recipe *r)
{
    return r->task_seq_length;
}

static const char *alias(const struct rp_recipe *r)
{
    static const struct {
        const char *name;
        int64_t layers, hidden, heads, inner, vocabulary;
    } known[] = {{"bert-base", 12, 768, 12, 3072, 30522}, {"bert-large", 24, 1024, 16, 4096, 30522}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].layers == r->model_num_hidden_layers && known[i].hidden == r->model_hidden_size &&
            known[i].heads == r->model_num_attention_heads && known[i].inner == r->model_intermediate_size &&
            known[i].vocabulary == r->model_vocab_size)
            return known[i].name;
    return NULL;
}

#define WIDTH_MAX 1.0  /* logits wider than this are not described by their variance */
#define FIRST_OFF 0.25 /* of the expectation itself: layers in between, a model of few tensors */
#define FIRST_DEVIATIONS 6.0

/* Guessing: ln V for a masked word, ln 2 for the next sentence. The last layer norm leaves vectors of length sqrt(H), and decoder weights
 * are normal with the initialiser's range: so logits are normal with width range * sqrt(H), and the loss of a word is ln V + width^2 / 2
 * in the mean and has that width itself. The pooler's tanh keeps the other pair of logits as narrow. */
static struct rp_loss_expected expected_loss(const struct rp_recipe *r, int64_t samples)
{
    double width = r->model_initializer_range * sqrt((double)r->model_hidden_size), words = (double)samples;
    struct rp_loss_expected e = {.guess = log((double)r->model_vocab_size) + log(2), .off = -1};
    e.first = e.guess + width * width / 2;
    if (width <= WIDTH_MAX)
        e.off = FIRST_OFF + width * width / 4 + FIRST_DEVIATIONS * width * sqrt(2 / words);
    return e;
}

extern const struct rp_model rp_model_bert;
const struct rp_model rp_model_bert = {
    .name = "bert",
    .sample_unit = "sequences",
    .task = "pre-training",
    .loss_part = {"mlm", "nsp"},
    .counter = {{.name = "tokens", .most = 1}, {.name = "padded_tokens", .per_sample = padded_tokens}},
    .alias = alias,
    .expected_loss = expected_loss,
};
