/* Instances of models: declarations, and functions that all models share. */
#include "base/buf.h"
#include "model/model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rp_stage_begin(int layers, int stages, int stage)
{
    return (int)(((long)stage * layers + stages - 1) / stages);
}

/* The other remedy is named only where the model can be divided so (agree.c). */
static int refuse_tensor_ranks(const struct rp_recipe *r, int ranks, struct rp_err *err)
{
    const int64_t divided[] = {r->model_num_attention_heads, r->model_intermediate_size, r->model_padded_vocab_size};
    char divisors[64] = "", other[48];
    int is_possible = 1;
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++)
        is_possible = is_possible && divided[i] % ranks == 0;
    for (int64_t d = 1, n = 0; d <= r->parallel_tensor; d++)
        if (r->parallel_tensor % d == 0)
            n += snprintf(divisors + n, sizeof divisors - (size_t)n, "%s%lld", n ? ", " : "", (long long)d);
    snprintf(other, sizeof other, ", or --set parallel.tensor=%d", ranks);
    return rp_fail(
        err, RP_USAGE,
        "%d tensor-parallel ranks, and parallel.tensor, which fixes the arithmetic, is %lld: choose one of %s%s", ranks,
        (long long)r->parallel_tensor, divisors, is_possible ? other : "");
}

int rp_net_check_ranks(const struct rp_recipe *r, struct rp_degrees ranks, struct rp_err *err)
{
    const struct rp_model *model = rp_model_of(r);
    const int layers = model->layers ? model->layers(r) : 1;
    if (ranks.tensor > 1 && !model->layers)
        return rp_fail(err, RP_USAGE,
                       "%d tensor-parallel ranks: %s supports data parallelism only, as in --layout %dx1x1",
                       ranks.tensor, model->name, ranks.data * ranks.tensor * ranks.pipeline);
    if (r->parallel_tensor % ranks.tensor != 0)
        return refuse_tensor_ranks(r, ranks.tensor, err);
    if (!model->layers && ranks.pipeline > 1)
        return rp_fail(err, RP_USAGE, "%d pipeline stages: %s supports data parallelism only, as in --layout %dx1x1",
                       ranks.pipeline, model->name, ranks.data * ranks.tensor * ranks.pipeline);
    if (ranks.pipeline > layers)
        return rp_fail(err, RP_USAGE, "%d pipeline stages are more than the %d layers of the model", ranks.pipeline,
                       layers);
    return 0;
}

/* The layers of this rank's stage, and what its lists of tensors have of the model (scratch and input: all). */
static void set_stage(struct rp_net *m, const struct rp_recipe *r)
{
    static const enum rp_tensor_class staged[] = {RP_WEIGHT, RP_BUFFER, RP_SECOND_GRADIENT, RP_ACTIVATION};
    const int stages = m->comm->size[RP_GROUP_PIPELINE], stage = m->comm->rank[RP_GROUP_PIPELINE];
    const int layers = m->model->layers ? m->model->layers(r) : 0;
    RP_BUG_IF(m->parallel % rp_net_ranks(m) != 0 || (stages > 1 && stages > layers));
    m->first = stage ? rp_stage_begin(layers, stages, stage) + 1 : 0;
    m->end = stage + 1 < stages ? rp_stage_begin(layers, stages, stage + 1) + 1 : layers + 2;
    for (int c = 0; c < RP_TENSOR_CLASSES; c++) {
        m->tensors[c].ranks = rp_net_ranks(m);
        m->tensors[c].rank = rp_net_rank(m);
    }
    for (size_t i = 0; stages > 1 && i < sizeof staged / sizeof *staged; i++) {
        m->tensors[staged[i]].first = m->first;
        m->tensors[staged[i]].end = m->end;
    }
}

struct rp_net *rp_net_new(const struct rp_recipe *r, int64_t batch)
{
    return rp_net_new_on(r, batch, rp_comm_self(), sizeof(float));
}

struct rp_net *rp_net_new_on(const struct rp_recipe *r, int64_t batch, struct rp_comm *c, size_t stored_bytes)
{
    const struct rp_model *model = rp_model_of(r);
    struct rp_net *m = rp_alloc(model->size);
    m->comm = c;
    m->model = model;
    m->batch = batch;
    m->parallel = (int)r->parallel_tensor;
    m->loss_scale = 1.0f;
    m->is_mixed = rp_is_mixed(rp_recipe_numerics(r));
    m->gathers_copies = m->is_mixed && r->parallel_optimizer_state != RP_OPTIMIZER_STATE_replicated;
    m->seed_init = (uint64_t)r->seed_init;
    m->seed_dropout = (uint64_t)r->seed_dropout;
    m->init_range = (float)r->model_initializer_range;
    m->input = rp_alloc(model->input_size);
    for (int k = 0; k < RP_TENSOR_CLASSES; k++)
        m->tensors[k].stored_bytes = stored_bytes;
    set_stage(m, r);
    model->configure(m, r);
    model->declare(m);
    model->declare_input(m, m->input);
    for (int k = 0; k < RP_TENSOR_CLASSES; k++) {
        rp_tensors_end(&m->tensors[k]);
        /* state roots, checkpoints and optimizers take them for floats */
        for (int i = 0; (k == RP_WEIGHT || k == RP_BUFFER) && i < m->tensors[k].n; i++)
            RP_BUG_IF(m->tensors[k].t[i].dtype != RP_F32);
    }
    return m;
}

void rp_net_bind_weights(struct rp_net *m, float *masters, const size_t *master, rp_stored *w)
{
    m->masters = masters;
    m->w = w;
    if (master)
        rp_tensors_bind_vectors(&m->tensors[RP_WEIGHT], masters, master);
    else
        rp_tensors_bind(&m->tensors[RP_WEIGHT], masters, 0);
    rp_tensors_bind_copies(&m->tensors[RP_WEIGHT], w, m->dev->stored_bytes);
}

void rp_net_bind_buffers(struct rp_net *m, float *block)
{
    m->buffers = block;
    rp_tensors_bind(&m->tensors[RP_BUFFER], block, 0);
}

/* Its place in the block of gradients is that of the list, also where masters are divided. */
float *rp_net_vector_grad(const struct rp_net *m, const float *w)
{
    const struct rp_tensor *t = rp_tensors_bound(&m->tensors[RP_WEIGHT], w);
    RP_BUG_IF(!t);
    return rp_tensor_in(m->g, t);
}

void rp_net_free(struct rp_net *m)
{
    if (!m)
        return;
    for (int c = 0; c < RP_TENSOR_CLASSES; c++)
        rp_tensors_fini(&m->tensors[c]);
    free(m->input);
    free(m->array);
    free(m->use);
    free(m);
}

int rp_net_exchanged(const struct rp_net *m, struct rp_err *err)
{
    if (m->failed.code)
        *err = m->failed;
    return m->failed.code ? -1 : 0;
}

int rp_net_alive(const struct rp_net *m, struct rp_err *err)
{
    if (rp_net_exchanged(m, err) < 0)
        return -1;
    if (m->overflowed)
        return rp_fail(err, RP_MISMATCH, "the gradient is not finite");
    if (m->alive && m->alive(m->alive_arg))
        return rp_fail(err, RP_INTERRUPTED, "stopped in the middle of a step");
    return 0;
}

/* Looks at the tensors that are whole on every tensor-parallel rank: those are the same there, so that all ranks stop
 * at the same layer. */
static void watch_overflow(struct rp_net *m, int layer)
{
    const struct rp_tensors *l = &m->tensors[RP_WEIGHT];
    for (int i = 0; i < l->n && !m->overflowed; i++) {
        int64_t at = -1;
        if (l->t[i].stage == layer && l->t[i].count && l->t[i].ranks == 1)
            m->dev->op->find_nonfinite(m->dev, &at, rp_tensor_in(m->g, &l->t[i]), l->t[i].count);
        m->overflowed = at >= 0 ? layer + 1 : 0;
    }
}

void rp_net_gradients_ready(struct rp_net *m, int layer)
{
    if (m->watches_overflow)
        watch_overflow(m, layer);
    if (m->gradients_ready)
        m->gradients_ready(m, layer, m->gradients_ready_arg);
}

/* Is it true on any tensor-parallel rank? */
static int any_rank(struct rp_net *m, int yes)
{
    const int ranks = rp_net_ranks(m);
    RP_FREE int *all = rp_alloc((size_t)ranks * sizeof *all);
    if (ranks == 1 || m->failed.code)
        return yes;
    if (rp_comm_all_gather(m->comm, RP_GROUP_TENSOR, all, &yes, sizeof yes, &m->failed) < 0)
        return 0;
    for (int i = 0; i < ranks; i++)
        yes |= all[i];
    return yes;
}

void rp_net_watch_gradient(struct rp_net *m, const rp_stored *gradient, size_t n)
{
    int64_t at = -1;
    if (!m->watches_overflow || m->overflowed)
        return;
    m->dev->op->find_nonfinite_stored(m->dev, &at, gradient, n);
    m->overflowed = any_rank(m, at >= 0) ? INT_MAX : 0;
}

void *rp_net_array(struct rp_net *m, long n, size_t size)
{
    RP_BUG_IF(m->array);
    return m->array = rp_alloc((size_t)n * size);
}

void rp_net_use(struct rp_net *m, struct rp_op_use use)
{
    for (int i = 0; i < m->uses; i++)
        if (memcmp(&m->use[i], &use, sizeof use) == 0) /* ints alone: no padding */
            return;
    m->use = rp_realloc(m->use, (size_t)(m->uses + 1) * sizeof *m->use);
    m->use[m->uses++] = use;
}

void rp_net_use_rows(struct rp_net *m, enum rp_op op, long rows, long width)
{
    RP_BUG_IF(rows > INT_MAX || width > INT_MAX);
    rp_net_use(m, (struct rp_op_use){.op = op, .rows = (int)rows, .width = (int)width});
}

void rp_net_work(struct rp_net *m, long rows, long width)
{
    size_t n = rp_colsum_work(rows, width);
    m->work_floats = n > m->work_floats ? n : m->work_floats;
}

void rp_net_parts(struct rp_net *m, size_t partial, size_t gathered)
{
    m->partial_floats = partial > m->partial_floats ? partial : m->partial_floats;
    m->gathered_floats = gathered > m->gathered_floats ? gathered : m->gathered_floats;
}

void rp_net_reserve_received(struct rp_net *m, size_t floats)
{
    m->received_floats = floats > m->received_floats ? floats : m->received_floats;
}

void rp_net_count(struct rp_net *m, int *count)
{
    RP_BUG_IF(m->n_groups == RP_GROUPS_MAX);
    m->groups[m->n_groups++] = count;
}

void rp_net_groups(struct rp_net *m, struct rp_row_groups *g, long keys, long sources)
{
    struct rp_tensors *l = &m->tensors[RP_INPUT];
    rp_tensors_add(l, &(struct rp_tensor){.name = "keys of groups", .at = &g->key, .dtype = RP_I32, .dim = {keys}});
    rp_tensors_add(
        l, &(struct rp_tensor){.name = "starts of groups", .at = &g->start, .dtype = RP_I32, .dim = {keys + 1}});
    rp_tensors_add(l,
                   &(struct rp_tensor){.name = "rows of groups", .at = &g->source, .dtype = RP_I32, .dim = {sources}});
    rp_net_count(m, &g->n);
}

struct rp_dropout rp_net_dropout(const struct rp_net *m, double p, int site, int rows_per_sample)
{
    return (struct rp_dropout){
        .seed = m->seed_dropout,
        .step = (uint32_t)m->step,
        .site = (uint32_t)site,
        .first_sample = (uint32_t)m->micro * (uint32_t)m->batch,
        .rows_per_sample = rows_per_sample,
        .threshold = (uint32_t)(p * 4294967296.0),
        .scale = (float)(1.0 / (1.0 - p)),
    };
}

/* ---- exchange ---- */

void rp_net_exchange(struct rp_net *m, enum rp_group g, const struct rp_transfer *t, int n)
{
    struct rp_err err = {0};
    if (m->failed.code)
        return;
    if (m->dev->backend->sync(m->dev, &err) < 0 || rp_comm_exchange_device(m->comm, g, t, n, &err) < 0)
        m->failed = err;
}

void rp_net_gather_rows(struct rp_net *m, rp_stored *x, const int *at, long width)
{
    const int own = rp_net_rank(m), ranks = rp_net_ranks(m);
    const size_t row = (size_t)width * m->dev->stored_bytes;
    RP_FREE struct rp_transfer *t = rp_alloc(2 * (size_t)ranks * sizeof *t);
    int n = 0;
    for (int i = 0; i < ranks; i++)
        if (i != own) {
            t[n++] =
                (struct rp_transfer){i, 1, (char *)x + (size_t)at[own] * row, (size_t)(at[own + 1] - at[own]) * row};
            t[n++] = (struct rp_transfer){i, 0, (char *)x + (size_t)at[i] * row, (size_t)(at[i + 1] - at[i]) * row};
        }
    rp_net_exchange(m, RP_GROUP_TENSOR, t, n);
}

#define WIDTH_MAX 1.0  /* the approximation below fails for wider logits */
#define FIRST_OFF 0.25 /* error of the expectation: layers in between, few tensors */
#define FIRST_DEVIATIONS 6.0

/* Logits of an untrained model are normal with some width: the loss has the mean guess + width^2 / 2, and the same
 * width. */
struct rp_loss_expected rp_model_expected_loss(const struct rp_recipe *r, int64_t samples)
{
    struct rp_net *m = rp_net_new(r, 1);
    struct rp_loss_expected e = {.off = -1};
    double width;
    m->model->untrained(m, &e.guess, &width);
    rp_net_free(m);
    e.first = e.guess + width * width / 2;
    if (width <= WIDTH_MAX)
        e.off = FIRST_OFF + width * width / 4 + FIRST_DEVIATIONS * width * sqrt(2 / (double)samples);
    return e;
}
