/* BERT pre-training as a workload: plan, samples of a step, forward, backward, tree, optimizer, evidence.
 *
 * A step is G micro-batches of B sequences; sequence b of micro-batch i of step s is sample (s * G + i) * B + b of the data set.
 * --init from a file with moments goes on where they were: the file's step is added to every step number, so the samples, the
 * dropout and the schedule continue as if the run had never stopped. */
#include "base/buf.h"
#include "data/bert_data.h"
#include "model/bert_step.h"
#include "model/checkpoint.h"
#include "model/linear.h"
#include "model/state_root.h"
#include "workload/prefetch.h"
#include "workload/workload.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Names under which others' files carry tied or untrained tensors. */
static const struct rp_alias aliases[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    {"bert.embeddings.position_ids", NULL},
    {NULL, NULL},
};

struct rp_train {
    struct rp_bert *model;
    struct rp_optim optim;
    struct rp_bert_data *data;
    int64_t base, done;  /* steps behind the file we started from; steps completed in all */
    void *host;          /* one micro-batch of samples, below */
    struct rp_bert_samples view;
    struct rp_bert_sample *rows; /* [B] pointers into host, as the reader wants them */
    int32_t *next;               /* [B] */
    struct rp_prefetch *ahead;   /* where the device works on its own: the next step's micro-batches are made meanwhile, or NULL */
    struct rp_bert_input *staged; /* [micros] in host memory, the thread's */
};

#define AHEAD_BYTES ((uint64_t)256 << 20) /* more than that is not made in advance */

/* -- plan -- */

/* Code, stacks and C library of the static program, the record being read; measured: 4.5 MB. The data set's index is not in it. */
#define HOST_BYTES ((uint64_t)5 << 20)

static size_t host_sample_bytes(const struct rp_bert_config *c)
{
    return (size_t)c->seq * 9 + (size_t)c->predictions * 12 + 4;
}

#define USES 64

/* Every call that a step makes, the largest of those that differ in size only. */
static int uses_of(struct rp_op_use use[USES], const struct rp_bert_config *c, uint64_t parameters)
{
    const int h = c->hidden, rows = c->batch * c->seq, masked = c->batch * c->predictions, whole = (int)(parameters / (uint64_t)h) + 1;
    const int layers[][3] = {{rows, h, 3 * h}, {rows, h, h}, {rows, h, c->inner}, {rows, c->inner, h}, {masked, h, h},
                             {masked, h, c->vocab}, {c->batch, h, h}, {c->batch, h, 2}};
    const struct rp_op_use of_rows[] = {
        {.op = RP_OP_embed_forward, .rows = rows, .width = h}, {.op = RP_OP_layernorm_forward, .rows = rows, .width = h},
        {.op = RP_OP_residual_layernorm_forward, .rows = rows, .width = h}, {.op = RP_OP_layernorm_backward, .rows = rows, .width = h},
        {.op = RP_OP_dropout_forward, .rows = rows, .width = h}, {.op = RP_OP_dropout_backward, .rows = rows, .width = h},
        {.op = RP_OP_gelu_forward, .rows = rows, .width = c->inner}, {.op = RP_OP_gelu_backward, .rows = rows, .width = c->inner},
        {.op = RP_OP_tanh_forward, .rows = c->batch, .width = h}, {.op = RP_OP_tanh_backward, .rows = c->batch, .width = h},
        {.op = RP_OP_colsum, .rows = masked, .width = c->vocab}, {.op = RP_OP_gather_rows, .rows = masked, .width = h},
        {.op = RP_OP_row_sums, .rows = rows, .width = h}, {.op = RP_OP_softmax_xent, .rows = masked, .width = c->vocab},
        {.op = RP_OP_weighted_sum, .rows = masked, .width = 1},
    };
    static const enum rp_op of_tensors[] = {RP_OP_add, RP_OP_fill, RP_OP_square_sums, RP_OP_tree_sum, RP_OP_adam_update,
                                            RP_OP_lamb_direction, RP_OP_lamb_apply, RP_OP_init_normal, RP_OP_digest_leaves,
                                            RP_OP_find_nonfinite};
    int n = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        n += rp_linear_uses(use + n, layers[i][0], layers[i][1], layers[i][2]);
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        use[n++] = of_rows[i];
    for (size_t i = 0; i < sizeof of_tensors / sizeof *of_tensors; i++)
        use[n++] = (struct rp_op_use){.op = of_tensors[i], .rows = whole, .width = h};
    for (enum rp_op op = RP_OP_attention_forward; op <= RP_OP_attention_backward; op++)
        use[n++] = (struct rp_op_use){.op = op, .batch = c->batch, .seq = c->seq, .heads = c->heads, .head_dim = h / c->heads};
    return n;
}

static int size_for(struct rp_plan *p, struct rp_bert_config *c, int64_t batch, const struct rp_backend *backend,
                    const struct rp_device_opts *o, struct rp_err *err)
{
    struct rp_bert_input *none;
    struct rp_op_use use[USES];
    size_t workspace;
    c->batch = (int)batch;
    rp_bert_size(c, p->bytes, &p->parameters);
    if (rp_backend_ask(backend, o, use, uses_of(use, c, p->parameters), &workspace, err) < 0)
        return -1;
    p->bytes[RP_CLASS_BACKEND] = workspace;
    p->host = HOST_BYTES + (uint64_t)batch * host_sample_bytes(c) + (uint64_t)c->micros * sizeof *none +
              p->bytes[RP_CLASS_INPUT] / (uint64_t)c->micros;
    p->total = backend->separate_memory ? 0 : p->host;
    for (int i = 0; i < RP_CLASS_COUNT; i++)
        p->total += p->bytes[i];
    p->batch = batch;
    return 0;
}

#define BATCH_MOST 65536

/* Into c, with the largest batch that can be addressed; an empty plan. */
static int begin_plan(struct rp_plan *plan, struct rp_bert_config *c, int64_t *most, const struct rp_recipe *r, struct rp_err *err)
{
    *plan = (struct rp_plan){0};
    if (rp_bert_config_from(c, r, err) < 0)
        return -1;
    *most = BATCH_MOST < INT_MAX / c->seq ? BATCH_MOST : INT_MAX / c->seq;
    if (r->train_batch_size > *most)
        return rp_fail(err, RP_USAGE, "train.batch_size %lld is more than %lld, the most this model can address",
                       (long long)r->train_batch_size, (long long)*most);
    plan->flops_formula = rp_bert_flops_formula;
    return 0;
}

static int bert_size(struct rp_plan *plan, const struct rp_recipe *r, const struct rp_backend *backend, const struct rp_device_opts *o,
                     struct rp_err *err)
{
    struct rp_bert_config c;
    int64_t most;
    if (begin_plan(plan, &c, &most, r, err) < 0)
        return -1;
    if (r->train_batch_size < 1)
        return rp_fail(err, RP_USAGE, "train.batch_size %lld is no number of sequences", (long long)r->train_batch_size);
    plan->flops_per_sample = rp_bert_flops(&c);
    return size_for(plan, &c, r->train_batch_size, backend, o, err);
}

static int bert_plan(struct rp_plan *plan, const struct rp_recipe *r, const struct rp_backend *backend, const struct rp_device_opts *o,
                     struct rp_err *err)
{
    struct rp_bert_config c;
    int64_t lo = 0, hi; /* the largest that fits is in [lo, hi] */
    if (begin_plan(plan, &c, &hi, r, err) < 0)
        return -1;
    uint64_t available = backend->memory(o);
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (size_for(plan, &c, mid, backend, o, err) == 0 && plan->total <= available)
            lo = mid;
        else
            hi = mid - 1;
    }
    if (size_for(plan, &c, r->train_batch_size != RP_BATCH_MAX ? r->train_batch_size : lo > 0 ? lo : 1, backend, o, err) < 0)
        return -1;
    plan->available = available;
    plan->max_batch = lo;
    plan->flops_per_sample = rp_bert_flops(&c);
    return 0;
}

/* -- open and close -- */

static void bert_close(struct rp_train *t)
{
    if (!t)
        return;
    rp_prefetch_free(t->ahead);
    for (int i = 0; t->staged && t->model && i < t->model->c.micros; i++)
        free(t->staged[i].start);
    free(t->staged);
    rp_bert_close(t->model);
    rp_optim_fini(&t->optim);
    rp_bert_data_close(t->data);
    free(t->host);
    free(t->rows);
    free(t);
}

/* One buffer: ids, types, positions, labels, weights, next, mask */
static void lay_samples(struct rp_train *t, const struct rp_bert_config *c)
{
    size_t b = (size_t)c->batch, r = b * (size_t)c->seq, p = b * (size_t)c->predictions;
    t->host = rp_alloc(b * host_sample_bytes(c));
    t->rows = rp_alloc(b * sizeof *t->rows);
    int32_t *ids = t->host, *types = ids + r, *positions = types + r, *labels = positions + p;
    float *weights = (float *)(labels + p);
    t->next = (int32_t *)(weights + p);
    uint8_t *mask = (uint8_t *)(t->next + b);
    t->view = (struct rp_bert_samples){ids, types, mask, positions, labels, weights, t->next};
    for (size_t i = 0; i < b; i++)
        t->rows[i] = (struct rp_bert_sample){.input_ids = ids + i * (size_t)c->seq,
                                             .input_mask = mask + i * (size_t)c->seq,
                                             .segment_ids = types + i * (size_t)c->seq,
                                             .masked_lm_positions = positions + i * (size_t)c->predictions,
                                             .masked_lm_ids = labels + i * (size_t)c->predictions,
                                             .masked_lm_weights = weights + i * (size_t)c->predictions};
}

/* The blocks of a checkpoint and of a state root. */
static void blocks_of(const struct rp_train *t, float *block[3])
{
    block[0] = t->model->parameters;
    block[1] = t->model->moment[0];
    block[2] = t->model->moment[1];
}

static int start(struct rp_train *t, const struct rp_recipe *r, const char *data, struct rp_err *err)
{
    struct rp_bert *m = t->model;
    struct rp_bert_limits limits = {.seq = m->c.seq, .predictions = m->c.predictions, .vocab = m->c.vocab, .type_vocab = m->c.types};
    t->data = rp_bert_data_open(data, &limits, r->data_shuffle, (uint64_t)r->seed_data, err);
    if (!t->data)
        return -1;
    lay_samples(t, &m->c);
    rp_optim_init(&t->optim, r, &m->manifest);
    if (!r->run_init || !*r->run_init)
        return rp_bert_init(m, err);
    float *block[3];
    blocks_of(t, block);
    if (rp_checkpoint_load(r->run_init, m->dev, &m->manifest, block, aliases, &t->base, err) < 0)
        return rp_wrap(err, "--init");
    t->done = t->base;
    return 0;
}

/* -- input -- */

/* Samples of micro-batch i of a step into the view. */
static int read_samples(struct rp_train *t, int64_t step, int i, struct rp_err *err)
{
    const struct rp_bert_config *c = &t->model->c;
    int64_t sample = ((t->base + step) * c->micros + i) * c->batch;
    for (int b = 0; b < c->batch; b++) {
        if (rp_bert_data_get(t->data, sample + b, &t->rows[b], err) < 0)
            return -1;
        t->next[b] = t->rows[b].next_sentence_label;
    }
    return 0;
}

/* All micro-batches of a step into host memory; in the thread, which alone reads data. */
static int prepare_step(void *arg, int64_t step, struct rp_err *err)
{
    struct rp_train *t = arg;
    for (int i = 0; i < t->model->c.micros; i++)
        if (read_samples(t, step, i, err) < 0 || rp_bert_prepare(&t->model->c, &t->staged[i], &t->view, err) < 0)
            return -1;
    return 0;
}

/* A device with memory of its own works while this program waits: that is when the next step's input is made. */
static int start_ahead(struct rp_train *t, const struct rp_plan *plan, const struct rp_dev *dev, struct rp_err *err)
{
    if (!dev->backend->separate_memory || plan->bytes[RP_CLASS_INPUT] > AHEAD_BYTES)
        return 0;
    t->staged = rp_alloc((size_t)t->model->c.micros * sizeof *t->staged);
    for (int i = 0; i < t->model->c.micros; i++)
        rp_bert_staging(&t->model->c, &t->staged[i]);
    t->ahead = rp_prefetch_new(prepare_step, t, err);
    return t->ahead ? 0 : -1;
}

static struct rp_train *bert_open(const struct rp_recipe *r, const struct rp_plan *plan, struct rp_dev *dev, const char *data,
                                  rp_alive_fn alive, void *alive_arg, struct rp_err *err)
{
    struct rp_bert_config c;
    if (rp_bert_config_from(&c, r, err) < 0)
        return NULL;
    c.batch = (int)plan->batch;
    struct rp_train *t = rp_alloc(sizeof *t);
    t->model = rp_bert_open(&c, dev, err);
    if (t->model) {
        t->model->alive = alive;
        t->model->alive_arg = alive_arg;
    }
    if (!t->model || start(t, r, data, err) < 0 || start_ahead(t, plan, dev, err) < 0) {
        bert_close(t);
        return NULL;
    }
    return t;
}

/* -- a step -- */

static int load_ahead(struct rp_train *t, int64_t step, struct rp_err *err)
{
    if (rp_prefetch_take(t->ahead, step, err) < 0)
        return -1;
    for (int i = 0; i < t->model->c.micros; i++)
        if (rp_bert_upload(t->model, i, &t->staged[i], err) < 0)
            return -1;
    rp_prefetch_start(t->ahead, step + 1);
    return rp_bert_alive(t->model, err);
}

static int bert_load(struct rp_train *t, int64_t step, struct rp_err *err)
{
    if (t->ahead)
        return load_ahead(t, step, err);
    for (int i = 0; i < t->model->c.micros; i++)
        if (read_samples(t, step, i, err) < 0 || rp_bert_input(t->model, i, &t->view, err) < 0 || rp_bert_alive(t->model, err) < 0)
            return -1;
    return 0;
}

static int bert_step(struct rp_train *t, int64_t step, struct rp_step_result *out, struct rp_err *err)
{
    struct rp_bert *m = t->model;
    struct rp_bert_result r;
    int64_t at = t->base + step;
    if (rp_bert_step(m, &t->optim, at, &r, err) < 0)
        return -1;
    *out = (struct rp_step_result){.loss = r.loss,
                                   .grad_norm = r.norm,
                                   .part = {r.mlm, r.nsp},
                                   .learning_rate = rp_learning_rate(&t->optim, at + 1),
                                   .samples = (int64_t)m->c.micros * m->c.batch};
    for (int i = 0; i < m->c.micros; i++)
        out->counter[0] += m->input[i].tokens;
    out->counter[1] = out->samples * m->c.seq;
    t->done = at + 1;
    return 0;
}

/* -- evidence -- */

static int bert_root(struct rp_train *t, char hex[65], json_t **tensors, struct rp_err *err)
{
    float *block[3];
    blocks_of(t, block);
    return rp_state_root(hex, tensors, t->model->dev, &t->model->manifest, (const float *const *)block, t->model->leaves, err);
}

static int bert_root_of(const struct rp_recipe *r, const json_t *tensors, char hex[65], struct rp_err *err)
{
    struct rp_bert_config c;
    struct rp_manifest m = {0};
    if (rp_bert_config_from(&c, r, err) < 0)
        return -1;
    rp_bert_manifest(&m, &c);
    int failed = rp_state_root_of(hex, &m, tensors, err);
    rp_manifest_fini(&m);
    return failed;
}

static int bert_save(struct rp_train *t, const char *path, struct rp_err *err)
{
    float *block[3];
    blocks_of(t, block);
    return rp_checkpoint_save(path, t->model->dev, &t->model->manifest, block, t->done, t->model->alive, t->model->alive_arg, err);
}

extern const struct rp_model rp_model_bert; /* model/bert.c */
extern const struct rp_workload rp_workload_bert;
const struct rp_workload rp_workload_bert = {
    .model = &rp_model_bert,
    .plan = bert_plan,
    .size = bert_size,
    .open = bert_open,
    .close = bert_close,
    .load = bert_load,
    .step = bert_step,
    .root = bert_root,
    .root_of = bert_root_of,
    .save = bert_save,
};
