/* Instances of models: declarations, and functions that all models share. */
#include "base/buf.h"
#include "model/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct rp_net *rp_net_new(const struct rp_recipe *r, int64_t batch)
{
    const struct rp_model *model = rp_model_of(r);
    struct rp_net *m = rp_alloc(model->size);
    m->model = model;
    m->batch = batch;
    m->parallel = (int)r->parallel_tensor;
    m->seed_init = (uint64_t)r->seed_init;
    m->seed_dropout = (uint64_t)r->seed_dropout;
    m->init_range = (float)r->model_initializer_range;
    m->input = rp_alloc(model->input_size);
    model->configure(m, r);
    model->declare(m);
    model->declare_input(m, m->input);
    for (int c = 0; c < RP_TENSOR_CLASSES; c++) {
        rp_tensors_end(&m->tensors[c]);
        for (int i = 0; (c == RP_WEIGHT || c == RP_BUFFER) && i < m->tensors[c].n; i++)
            RP_BUG_IF(m->tensors[c].t[i].dtype != RP_F32); /* state roots, checkpoints and optimizers take them for floats */
    }
    return m;
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

int rp_net_alive(const struct rp_net *m, struct rp_err *err)
{
    if (m->alive && m->alive(m->alive_arg))
        return rp_fail(err, RP_INTERRUPTED, "stopped in the middle of a step");
    return 0;
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

void rp_net_parts(struct rp_net *m, long rows, long width, size_t gathered)
{
    int levels = 1;
    if (m->parallel == 1)
        return;
    for (int n = m->parallel; n > 1; n = (n + 1) / 2)
        levels++;
    size_t n = (size_t)levels * (size_t)rows * (size_t)width;
    m->partial_floats = n > m->partial_floats ? n : m->partial_floats;
    m->gathered_floats = gathered > m->gathered_floats ? gathered : m->gathered_floats;
    rp_net_use_rows(m, RP_OP_copy_columns, rows, width);
    rp_net_use_rows(m, RP_OP_bias_add, rows, width);
}

void rp_net_groups(struct rp_net *m, struct rp_row_groups *g, long keys, long sources)
{
    struct rp_tensors *l = &m->tensors[RP_INPUT];
    RP_BUG_IF(m->n_groups == RP_GROUPS_MAX);
    rp_tensors_add(l, &(struct rp_tensor){.name = "keys of groups", .at = &g->key, .dtype = RP_I32, .dim = {keys}});
    rp_tensors_add(l, &(struct rp_tensor){.name = "starts of groups", .at = &g->start, .dtype = RP_I32, .dim = {keys + 1}});
    rp_tensors_add(l, &(struct rp_tensor){.name = "rows of groups", .at = &g->source, .dtype = RP_I32, .dim = {sources}});
    m->groups[m->n_groups++] = &g->n;
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
