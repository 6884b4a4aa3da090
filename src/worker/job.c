/* Jobs and plans as JSON, and the choice of a backend. */
#include "worker/job.h"

#include "base/json.h"
#include "base/object.h"
#include "base/text.h"
#include "comm/comm.h"
#include "worker/worker.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RP_OBJECT_LIST "worker/job.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "worker/job.def"
#include "base/object_tables.inc.h"

/* What this process takes of the memory that is left until the worker of a run has taken its own: captures, data, page
 * tables. */
#define RESERVE(available) ((32u << 20) + (available) / 64)
/* What NCCL takes of a GPU's memory to connect it with others, which is known only then: the largest batch leaves that
 * much. */
#define FOR_NCCL ((uint64_t)1 << 30)

const char *rp_step_key_name(enum rp_step_key key)
{
    static const char *const names[] = {
#define STEP_KEY(name, form, when, least) #name,
#include "worker/step.def"
#undef STEP_KEY
    };
    return names[key];
}

static json_t *encode_rank(const struct rp_rank_of *r)
{
    struct rp_job_place p = {0};
    const int n = r ? rp_degrees_world(r->degrees) : 0;
    if (!r)
        return NULL;
    p = (struct rp_job_place){.rank = r->rank,
                              .data = r->degrees.data,
                              .tensor = r->degrees.tensor,
                              .pipeline = r->degrees.pipeline,
                              .hosts = rp_alloc((size_t)n * sizeof *p.hosts),
                              .hosts_n = n,
                              .gpus = rp_alloc((size_t)n * sizeof *p.gpus),
                              .gpus_n = n,
                              .cpu_sets = rp_alloc((size_t)n * sizeof *p.cpu_sets),
                              .cpu_sets_n = n,
                              .id = rp_strdup(r->id),
                              .address = rp_strdup(r->address)};
    for (int i = 0; i < n; i++) {
        p.hosts[i] = r->host[i];
        p.gpus[i] = r->gpu[i];
        p.cpu_sets[i] = r->cpu_set ? r->cpu_set[i] : 0;
    }
    rp_hex(p.key, r->key, sizeof r->key);
    json_t *j = rp_object_json(&p, &rp_type_job_place);
    explicit_bzero(p.key, sizeof p.key);
    rp_object_fini(&p, &rp_type_job_place);
    return j;
}

/* NULL: not that of a rank. */
static struct rp_rank_of *rank_of(const struct rp_job_place *p, struct rp_err *err)
{
    const int64_t world = p->data * p->tensor * p->pipeline;
    if (world < 1 || world > 9999 || p->rank >= world || p->hosts_n != world || p->gpus_n != world ||
        p->cpu_sets_n != world)
        return rp_fail_null(err, RP_MALFORMED, "job: world: not that of a rank");
    struct rp_rank_of *r = rp_alloc(sizeof *r);
    r->rank = (int)p->rank;
    r->degrees = (struct rp_degrees){(int)p->data, (int)p->tensor, (int)p->pipeline};
    r->host = rp_alloc((size_t)world * sizeof *r->host);
    r->gpu = rp_alloc((size_t)world * sizeof *r->gpu);
    r->cpu_set = rp_alloc((size_t)world * sizeof *r->cpu_set);
    for (int64_t i = 0; i < world; i++) {
        r->host[i] = (int)p->hosts[i];
        r->gpu[i] = p->gpus[i] > 0;
        r->cpu_set[i] = (int)p->cpu_sets[i];
    }
    RP_BUG_IF(rp_unhex(r->key, sizeof r->key, p->key) < 0);
    RP_FORMAT(r->id, "%s", p->id);
    RP_FORMAT(r->address, "%s", p->address);
    return r;
}

static void free_rank(struct rp_rank_of *r)
{
    if (!r)
        return;
    free(r->host);
    free(r->gpu);
    free(r->cpu_set);
    explicit_bzero(r->key, sizeof r->key);
    free(r);
}

json_t *rp_job_encode(const struct rp_job *job)
{
    json_t *micro = json_array();
    for (int64_t i = 0; i < job->n_micro; i++)
        json_array_append_new(micro, json_integer((json_int_t)job->micro_batch[i]));
    return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:b, s:b, s:s*, s:o*}", "recipe",
                     rp_recipe_to_json(job->recipe), "backend", job->backend->name, "data", job->data, "batch",
                     (json_int_t)job->batch, "first", (json_int_t)job->first, "steps", (json_int_t)job->steps, "micros",
                     (json_int_t)job->micros, "micro_batches", micro, "counts", job->counts, "profiles", job->profiles,
                     "root_key", job->root_key, "world", encode_rank(job->rank));
}

/* The micro-batches that a job is about, if it is about single ones. */
static int take_micro_batches(struct rp_job *job, const struct rp_job_message *m, struct rp_err *err)
{
    job->micros = m->micros;
    job->n_micro = m->micro_batches_n;
    job->micro_batch = rp_alloc((size_t)job->n_micro * sizeof *job->micro_batch);
    for (int64_t i = 0; i < job->n_micro; i++) {
        job->micro_batch[i] = m->micro_batches[i];
        if (job->micro_batch[i] < 0 || job->micro_batch[i] >= job->micros)
            return rp_fail(err, RP_MALFORMED, "job: micro_batches: a step has no micro-batch %lld",
                           (long long)job->micro_batch[i]);
    }
    return 0;
}

static int take_job(struct rp_job *job, const struct rp_job_message *m, const struct rp_backend *const *backends,
                    struct rp_err *err)
{
    job->backend = rp_backend_find(backends, m->backend);
    if (!job->backend)
        return rp_fail(err, RP_MALFORMED, "job: this worker has no backend '%.64s'", m->backend);
    job->recipe = rp_alloc(sizeof *job->recipe);
    if (rp_recipe_from_json(job->recipe, m->recipe, err) < 0)
        return rp_wrap(err, "job");
    job->data = rp_strdup(m->data);
    job->batch = m->batch;
    job->first = m->first;
    job->counts = m->counts > 0 && !job->backend->separate_memory;
    job->profiles = m->profiles > 0 && !job->backend->separate_memory;
    job->steps = m->steps;
    job->root_key = rp_text_copy(m->root_key);
    if (take_micro_batches(job, m, err) < 0)
        return -1;
    return m->world && !(job->rank = rank_of(m->world, err)) ? -1 : 0;
}

int rp_job_decode(struct rp_job *job, const json_t *j, const struct rp_backend *const *backends, struct rp_err *err)
{
    struct rp_job_message m;
    *job = (struct rp_job){0};
    const int failed =
        rp_object_take(&m, &rp_type_job_message, j, "job", err) < 0 || take_job(job, &m, backends, err) < 0;
    if (m.world)
        explicit_bzero(m.world->key, sizeof m.world->key);
    rp_object_fini(&m, &rp_type_job_message);
    if (failed)
        rp_job_fini(job);
    return failed ? -1 : 0;
}

void rp_job_fini(struct rp_job *job)
{
    if (job->recipe)
        rp_recipe_fini(job->recipe);
    free(job->recipe);
    free(job->data);
    free(job->micro_batch);
    free((char *)(uintptr_t)job->root_key);
    free_rank((struct rp_rank_of *)(uintptr_t)job->rank);
    *job = (struct rp_job){0};
}

int64_t rp_job_steps(const struct rp_recipe *r)
{
    return r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps;
}

int rp_job_has_micro_losses(const struct rp_recipe *r)
{
    const int64_t micros = rp_recipe_micro_batches(r);
    return micros > 1 && micros <= RP_MICRO_LOSSES_STEP && rp_job_steps(r) <= RP_MICRO_LOSSES_RUN / micros;
}

struct rp_device_opts rp_job_device(const struct rp_recipe *r)
{
    return (struct rp_device_opts){.isa = rp_choice_name(RP_ISAS, r->run_isa),
                                   .threads = (int)r->run_threads,
                                   .device = r->run_device,
                                   .answer_s = (int)r->run_hang_seconds,
                                   .numerics = rp_recipe_numerics(r),
                                   .any_tensor_core = r->train_tensor_core == RP_TENSOR_CORE_auto};
}

/* NULL if it can train this recipe here, else the reason. */
static const char *why_unusable(const struct rp_backend *b, const struct rp_device_opts *o)
{
    return rp_is_mixed(o->numerics) && !b->mixed ? "it computes in strict fp32 alone" : b->unavailable(o);
}

/* A GPU that is named is meant: nothing else trains in its place. */
static const struct rp_backend *named_device(const struct rp_recipe *r, const struct rp_device_opts *o,
                                             struct rp_err *err)
{
    char shown[72];
    rp_excerpt(shown, r->run_device);
    if (r->run_backend == RP_BACKEND_cpu)
        return rp_fail_null(err, RP_USAGE, "run.device names GPU '%s', and run.backend is cpu: leave one of them out",
                            shown);
    const struct rp_backend *b = rp_backend_find(rp_backends, rp_choice_name(RP_BACKENDS, RP_BACKEND_cuda));
    const char *reason = b ? why_unusable(b, o) : "this build has no backend for GPUs";
    return reason ? rp_fail_null(err, RP_UNAVAILABLE,
                                 "GPU '%s' cannot be used here: %s; without run.device (--device) the CPU can train",
                                 shown, reason)
                  : (void *)b;
}

const struct rp_backend *rp_job_backend(const struct rp_recipe *r, struct rp_err *passed, struct rp_err *err)
{
    const char *name = rp_choice_name(RP_BACKENDS, r->run_backend), *reason = "none is built in";
    struct rp_device_opts o = rp_job_device(r);
    *passed = (struct rp_err){0};
    if (r->run_device && *r->run_device && r->run_backend != RP_BACKEND_cuda)
        return named_device(r, &o, err);
    if (r->run_backend != RP_BACKEND_auto) {
        const struct rp_backend *b = rp_backend_find(rp_backends, name);
        reason = b ? why_unusable(b, &o) : "this build has no such backend";
        return reason ? rp_fail_null(err, RP_UNAVAILABLE, "backend '%s' cannot be used here: %s", name, reason)
                      : (void *)b;
    }
    for (const struct rp_backend *const *b = rp_backends; *b; b++) {
        reason = why_unusable(*b, &o);
        if (!reason)
            return *b;
        (void)rp_fail(passed, RP_UNAVAILABLE, "%s: %s", (*b)->name, reason);
    }
    return rp_fail_null(err, RP_UNAVAILABLE, "no backend can be used here: %s", reason);
}

static int send_job(struct rp_process *w, const json_t *job, struct rp_err *err)
{
    if (rp_frame_write(w->fd, RP_FRAME_JOB, job, err) == 0)
        return 0;
    rp_process_kill(w);
    return rp_wrap(err, "starting %s", w->name);
}

int rp_worker_start(struct rp_process *w, const json_t *job, struct rp_err *err)
{
    return rp_process_start_self(w, RP_WORKER_ARG, rp_worker_main, "the worker", err) < 0 ? -1 : send_job(w, job, err);
}

int rp_job_start(struct rp_process *w, const struct rp_job *job, struct rp_err *err)
{
    RP_JSON *body = rp_job_encode(job);
    if (!job->backend->remote)
        return rp_worker_start(w, body, err);
    return rp_worker_start_gpu(w, err) < 0 ? -1 : send_job(w, body, err);
}

json_t *rp_plan_to_json(const struct rp_plan *plan)
{
    json_t *bytes = json_object();
    for (int c = 0; c < RP_CLASS_COUNT; c++)
        json_object_set_new(bytes, rp_class_key((enum rp_class)c), json_integer((json_int_t)plan->bytes[c]));
    json_t *j = json_pack("{s:I, s:I, s:o, s:I, s:I, s:I, s:f, s:s}", "batch", (json_int_t)plan->batch, "parameters",
                          (json_int_t)plan->parameters, "bytes", bytes, "host_bytes", (json_int_t)plan->host,
                          "decoder_bytes", (json_int_t)plan->decoders, "total_bytes", (json_int_t)plan->total,
                          "flops_per_sample", plan->flops_per_sample, "flops_formula", plan->flops_formula);
    if (plan->connections)
        json_object_set_new(j, "connection_bytes", json_integer((json_int_t)plan->connections));
    if (plan->available != RP_MEMORY_UNKNOWN) {
        json_object_set_new(j, "available_bytes", json_integer((json_int_t)plan->available));
        json_object_set_new(j, "max_batch", json_integer((json_int_t)plan->max_batch));
    }
    if (plan->hardware_flops_formula) {
        json_object_set_new(j, "hardware_flops_per_sample", json_real(plan->hardware_flops_per_sample));
        json_object_set_new(j, "hardware_flops_formula", json_string(plan->hardware_flops_formula));
    }
    return j;
}

int rp_job_plan(struct rp_plan *plan, const struct rp_recipe *r, int64_t batch, struct rp_comm *comm,
                const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err)
{
    struct rp_recipe sized = *r; /* shallow: only the batch differs */
    uint64_t available = b->memory(o);
    int index;
    if (comm && available != RP_MEMORY_UNKNOWN && !b->separate_memory)
        available /= (uint64_t)rp_comm_ranks_here(comm, &index);
    if (batch > 0)
        sized.train_batch_size = batch;
    if (sized.train_batch_size == RP_BATCH_MAX && available == RP_MEMORY_UNKNOWN)
        return rp_fail(
            err, RP_UNAVAILABLE,
            "train.batch_size max: how much memory can be used is unknown, as /proc is not mounted; mount it, or "
            "give a number");
    if (sized.train_batch_size == RP_BATCH_MAX && !b->separate_memory)
        available -= available < RESERVE(available) ? available : RESERVE(available);
    if (sized.train_batch_size == RP_BATCH_MAX && b->remote && comm && comm->size[RP_GROUP_WORLD] > 1 &&
        comm->route == RP_ROUTE_DEVICE)
        available -= available < FOR_NCCL ? available : FOR_NCCL;
    if (rp_train_plan(plan, &sized, comm, b, o, available, err) < 0)
        return -1;
    const double gib = 1.0 / (1u << 30);
    if (plan->max_batch < 1) {
        struct rp_plan least; /* *plan, which --plan prints, stays that of the recipe's batch */
        sized.train_batch_size = 1;
        if (rp_train_plan(&least, &sized, comm, b, o, available, err) < 0)
            return -1;
        return rp_fail(
            err, RP_UNAVAILABLE, "not even batch size 1 fits: it needs %.2f GiB, %.2f GiB can be used here%s",
            (double)least.total * gib, (double)least.available * gib,
            r->workload == RP_MODEL_gpt && r->train_recompute != RP_RECOMPUTE_full ? "; try --set train.recompute=full"
                                                                                   : "");
    }
    if (plan->total > plan->available)
        return rp_fail(
            err, RP_UNAVAILABLE,
            "batch size %lld needs %.2f GiB, %.2f GiB can be used here; the largest that fits is %lld (try --set "
            "train.batch_size=%lld, or max)",
            (long long)plan->batch, (double)plan->total * gib, (double)plan->available * gib,
            (long long)plan->max_batch, (long long)plan->max_batch);
    return 0;
}
