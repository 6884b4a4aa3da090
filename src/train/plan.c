/* How much memory a recipe takes, class by class, and the largest batch that fits. */
#include "comm/mesh.h"
#include "train/pipeline.h"
#include "train/state.h"

#include <limits.h>

/* Code, stacks and C library of the static program, and one record; measured: 4.5 MB. Without the data set's index. */
#define HOST_BYTES ((uint64_t)5 << 20)
#define BATCH_MOST 65536

int rp_train_check_ranks(const struct rp_recipe *r, const struct rp_comm *c, struct rp_err *err)
{
    const int64_t micros = rp_recipe_micro_batches(r);
    if (c->size[RP_GROUP_DATA] > micros)
        return rp_fail(
            err, RP_USAGE,
            "%d ranks divide a step by its micro-batches, and the recipe has %lld of them (train.accumulation_steps * "
            "parallel.data): start at most %lld rank%s, or raise train.accumulation_steps",
            c->size[RP_GROUP_DATA], (long long)micros, (long long)micros, micros == 1 ? "" : "s");
    return rp_net_check_ranks(
        r, (struct rp_degrees){c->size[RP_GROUP_DATA], c->size[RP_GROUP_TENSOR], c->size[RP_GROUP_PIPELINE]}, err);
}

int rp_train_blocks(const struct rp_exchange *x, const struct rp_comm *c)
{
    const int r = c->rank[RP_GROUP_DATA], n = c->size[RP_GROUP_DATA];
    const int64_t first = rp_first_micro(x->micros, r, n);
    const int own = rp_grad_tree_blocks(first, rp_first_micro(x->micros, r + 1, n) - first);
    RP_BUG_IF(own > RP_GRADIENT_BLOCKS);
    return own > x->blocks ? own : x->blocks;
}

void rp_train_share_state(struct rp_shares *s, const struct rp_recipe *r, const struct rp_net *m, size_t bucket)
{
    if (r->parallel_optimizer_state == RP_OPTIMIZER_STATE_replicated)
        rp_shares_init_whole(s, &m->tensors[RP_WEIGHT], m->parallel, m->comm);
    else
        rp_shares_init(s, &m->tensors[RP_WEIGHT], m->parallel, m->comm, bucket);
    if (m->gathers_copies && s->n > 1)
        rp_shares_divide_masters(s);
}

void rp_train_declare(struct rp_net *m, struct rp_trained *x, size_t room, float **room_at)
{
    static const enum rp_op whole[] = {RP_OP_add, RP_OP_fill, RP_OP_square_sums, RP_OP_tree_sum, RP_OP_init_normal,
                                       RP_OP_perturb, RP_OP_digest_leaves, RP_OP_find_nonfinite};
    struct rp_tensors *l = &m->tensors[RP_SCRATCH];
    long chunks = 0;
    size_t weight = rp_state_leaves(&m->tensors[RP_WEIGHT], m->parallel),
           buffer = rp_state_leaves(&m->tensors[RP_BUFFER], m->parallel);
    size_t leaves = weight > buffer ? weight : buffer;
    for (int i = 0; i < m->tensors[RP_WEIGHT].n; i++) {
        const struct rp_tensor *t = &m->tensors[RP_WEIGHT].t[i];
        chunks += (long)rp_tensor_whole_parts(t, m->parallel, RP_NORM_CHUNK);
        if (m->parallel > 1 && t->shard && t->count / (size_t)rp_tensor_shards(t, m->parallel) > m->gathered_floats)
            m->gathered_floats = t->count / (size_t)rp_tensor_shards(t, m->parallel);
    }
    rp_tensors_add(l, &(struct rp_tensor){.name = "column sums", .at = &m->work, .dim = {(long)m->work_floats}});
    if (x->optimizer->adapts && m->comm->size[RP_GROUP_WORLD] > 1)
        chunks *= 2;
    rp_tensors_add(l, &(struct rp_tensor){.name = "sums of chunks", .at = &x->chunks, .dim = {chunks}});
    rp_tensors_add(l, &(struct rp_tensor){.name = "sums", .at = &x->sums, .dim = {4}});
    rp_tensors_add(
        l, &(struct rp_tensor){.name = "digests", .at = &x->leaves, .dtype = RP_U8, .dim = {(long)leaves * 32}});
    if (room)
        rp_tensors_add(l, &(struct rp_tensor){.name = "nodes of other ranks", .at = room_at, .dim = {(long)room}});
    if (m->parallel > 1) {
        rp_tensors_add(
            l, &(struct rp_tensor){.name = "partial sums", .at = &m->partial, .dim = {(long)m->partial_floats}});
        rp_tensors_add(
            l, &(struct rp_tensor){.name = "gathered columns", .at = &m->gathered, .dim = {(long)m->gathered_floats}});
    }
    if (m->received_floats)
        rp_tensors_add(l, &(struct rp_tensor){.name = "parts from other ranks", .at = &m->received,
                                              .dim = {(long)m->received_floats}});
    rp_tensors_end(l);
    const long width = RP_NORM_CHUNK, rows = (long)(m->tensors[RP_WEIGHT].elements / (size_t)width) + 1;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        rp_net_use_rows(m, whole[i], rows, width);
    for (int i = 0; i < x->optimizer->uses; i++)
        rp_net_use_rows(m, x->optimizer->use[i], rows, width);
}

/* Bytes of one sample as a reader delivers it. */
static size_t sample_bytes(const struct rp_net *m)
{
    struct rp_sample_field f[RP_FIELDS_MAX];
    size_t bytes = 0;
    for (int i = 0, n = m->model->fields(m, f); i < n; i++)
        bytes += (size_t)f[i].count * rp_dtype_bytes(f[i].dtype);
    return bytes;
}

static uint64_t decoder_bytes(const struct rp_recipe *r, const struct rp_device_opts *o)
{
    const struct rp_data_format *format = rp_data_format_of(r);
    struct rp_data_opts data = rp_data_opts_of(r, 1);
    data.image.device_threads = o->threads;
    return format->working_bytes ? format->working_bytes(&data) : 0;
}

/* An equal part of the rings of the rank's host, which two ranks share, and its own buffers. */
static uint64_t connection_bytes(const struct rp_comm *c, const struct rp_backend *backend)
{
    struct rp_mesh_memory m;
    uint64_t here = 0;
    if (backend->separate_memory || c->size[RP_GROUP_WORLD] == 1)
        return 0;
    rp_mesh_memory(&m,
                   (struct rp_degrees){c->size[RP_GROUP_DATA], c->size[RP_GROUP_TENSOR], c->size[RP_GROUP_PIPELINE]},
                   c->host, c->rank[RP_GROUP_WORLD], 0);
    for (int i = 0; i < c->size[RP_GROUP_WORLD]; i++)
        here += !c->host || c->host[i] == c->host[c->rank[RP_GROUP_WORLD]];
    return m.host / here + m.buffers;
}

/* What is planned, apart from the batch. */
struct sizing {
    const struct rp_recipe *recipe;
    struct rp_comm *comm;
    const struct rp_backend *backend;
    const struct rp_device_opts *opts;
    uint64_t connections; /* bytes */
};

/* *plan stays as it is where an operation is refused. */
static int size_for(struct rp_plan *plan, const struct sizing *s, int64_t batch, struct rp_err *err)
{
    const struct rp_recipe *r = s->recipe;
    const struct rp_backend *backend = s->backend;
    struct rp_comm *comm = s->comm;
    struct rp_trained trained = {.optimizer = rp_optimizer_of(r)};
    struct rp_plan sized = {0}, *p = &sized;
    const size_t stored_bytes = rp_stored_bytes(backend, rp_recipe_numerics(r));
    struct rp_net *m = rp_net_new_on(r, batch, comm, stored_bytes);
    const struct rp_tensors *t = m->tensors;
    const int64_t micros = rp_recipe_micro_batches(r);
    const int rank = comm->rank[RP_GROUP_DATA], ranks = comm->size[RP_GROUP_DATA];
    const uint64_t own = (uint64_t)(rp_first_micro(micros, rank + 1, ranks) - rp_first_micro(micros, rank, ranks));
    const size_t bucket = rp_overlap_bucket(r, comm);
    struct rp_shares shares, state;
    struct rp_exchange exchange;
    float *room;
    size_t workspace;
    rp_shares_init(&shares, &m->tensors[RP_WEIGHT], m->parallel, comm, bucket);
    rp_train_share_state(&state, r, m, bucket);
    rp_exchange_open(&exchange, m, &shares, micros);
    rp_train_declare(m, &trained, exchange.room, &room);
    struct rp_device_opts device = *s->opts;
    device.numerics = rp_recipe_numerics(r);
    p->bytes[RP_CLASS_PARAMETERS] = state.masters * sizeof(float) + t[RP_BUFFER].bytes;
    if (rp_is_mixed(device.numerics)) /* copies of matrices */
        p->bytes[RP_CLASS_PARAMETERS] += t[RP_WEIGHT].bytes / sizeof(float) * stored_bytes;
    p->bytes[RP_CLASS_GRADIENTS] =
        rp_net_gradient_floats(m) * sizeof(float) * (uint64_t)rp_train_blocks(&exchange, comm);
    p->bytes[RP_CLASS_OPTIMIZER] =
        rp_shares_slots(&state) * sizeof(float) * (uint64_t)rp_optimizer_slots(rp_optimizer_of(r));
    rp_exchange_close(&exchange);
    rp_shares_fini(&state);
    rp_shares_fini(&shares);
    p->bytes[RP_CLASS_ACTIVATIONS] = rp_tensors_set_bytes(&t[RP_ACTIVATION], rp_pipeline_sets(comm, (int64_t)own));
    p->bytes[RP_CLASS_SCRATCH] = t[RP_SCRATCH].bytes;
    p->bytes[RP_CLASS_INPUT] = t[RP_INPUT].bytes * own;
    p->host = HOST_BYTES + (uint64_t)batch * sample_bytes(m) + own * m->model->input_size + t[RP_INPUT].bytes;
    p->decoders = decoder_bytes(r, s->opts);
    p->connections = s->connections;
    p->parameters = t[RP_WEIGHT].whole;
    p->flops_per_sample = m->model->flops(m);
    p->flops_formula = m->model->flops_formula;
    p->hardware_flops_per_sample = p->flops_per_sample + (m->model->recompute_flops ? m->model->recompute_flops(m) : 0);
    p->hardware_flops_formula = m->model->recompute_formula;
    int failed = rp_backend_ask(backend, &device, m->use, m->uses, &workspace, err) < 0;
    rp_net_free(m);
    if (failed)
        return -1;
    p->bytes[RP_CLASS_BACKEND] = workspace;
    p->total = backend->separate_memory ? 0 : p->host + p->decoders + p->connections;
    for (int i = 0; i < RP_CLASS_COUNT; i++)
        p->total += p->bytes[i];
    p->batch = batch;
    *plan = sized;
    return 0;
}

/* The largest batch whose rows can be counted; an empty plan. */
static int begin_plan(struct rp_plan *plan, int64_t *most, const struct rp_recipe *r, struct rp_err *err)
{
    struct rp_sample_field f[RP_FIELDS_MAX];
    struct rp_net *m = rp_net_new(r, 1);
    *plan = (struct rp_plan){0};
    *most = BATCH_MOST;
    for (int i = 0, n = m->model->fields(m, f); i < n; i++)
        *most = *most < INT_MAX / f[i].count ? *most : INT_MAX / f[i].count;
    rp_net_free(m);
    if (r->train_batch_size > *most)
        return rp_fail(err, RP_USAGE, "train.batch_size %lld is more than %lld, the most this model can address",
                       (long long)r->train_batch_size, (long long)*most);
    return 0;
}

int rp_train_size(struct rp_plan *plan, const struct rp_recipe *r, struct rp_comm *comm,
                  const struct rp_backend *backend, const struct rp_device_opts *o, struct rp_err *err)
{
    int64_t most;
    if (begin_plan(plan, &most, r, err) < 0)
        return -1;
    if (r->train_batch_size < 1)
        return rp_fail(err, RP_USAGE, "train.batch_size %lld is not a number of samples",
                       (long long)r->train_batch_size);
    comm = comm ? comm : rp_comm_self();
    if (rp_train_check_ranks(r, comm, err) < 0)
        return -1;
    const struct sizing s = {r, comm, backend, o, connection_bytes(comm, backend)};
    return size_for(plan, &s, r->train_batch_size, err);
}

int rp_train_exchange_at(struct rp_exchange_sizes *out, const struct rp_recipe *r, struct rp_comm *place,
                         struct rp_err *err)
{
    struct rp_plan unused;
    int64_t most;
    if (begin_plan(&unused, &most, r, err) < 0 || rp_train_check_ranks(r, place, err) < 0)
        return -1;
    struct rp_net *m = rp_net_new_on(r, r->train_batch_size, place, sizeof(float)); /* for its weights */
    struct rp_shares shares;
    struct rp_exchange x;
    const size_t bucket = rp_overlap_bucket(r, place);
    rp_shares_init(&shares, &m->tensors[RP_WEIGHT], m->parallel, place, bucket);
    rp_exchange_open(&x, m, &shares, rp_recipe_micro_batches(r));
    *out = (struct rp_exchange_sizes){x.levels, x.sent_bytes, x.between_bytes, rp_overlap_here(bucket, place)};
    rp_exchange_close(&x);
    rp_shares_fini(&shares);
    rp_net_free(m);
    return 0;
}

int rp_train_plan(struct rp_plan *plan, const struct rp_recipe *r, struct rp_comm *comm,
                  const struct rp_backend *backend, const struct rp_device_opts *o, uint64_t available,
                  struct rp_err *err)
{
    int64_t lo = 0, hi; /* the largest that fits is in [lo, hi] */
    struct rp_err ignored;
    comm = comm ? comm : rp_comm_self();
    if (begin_plan(plan, &hi, r, err) < 0 || rp_train_check_ranks(r, comm, err) < 0)
        return -1;
    const struct sizing s = {r, comm, backend, o, connection_bytes(comm, backend)};
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (size_for(plan, &s, mid, &ignored) == 0 && plan->total <= available)
            lo = mid;
        else
            hi = mid - 1;
    }
    *plan = (struct rp_plan){0};
    const int64_t batch = r->train_batch_size != RP_BATCH_MAX ? r->train_batch_size : lo > 0 ? lo : 1;
    if (size_for(plan, &s, batch, err) < 0)
        return -1;
    plan->available = available;
    plan->max_batch = lo;
    return 0;
}
