/* The worker's side: one job, from its JOB frame to DONE. run_phases() lists its phases. Longer than
 * 600 lines: the phases share one state, struct loop, and what they add to DONE changes with them. */
#include "base/clock.h"
#include "base/json.h"
#include "optim/loss_scale.h"
#include "train/products.h"
#include "train/profile.h"
#include "worker/measure_ceilings.h"
#include "worker/measure_exchange.h"
#include "worker/job.h"
#include "worker/worker.h"
#include "worker/rank.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#define ALIVE_EVERY_NS 200000000u

struct loop {
    int fd;
    struct rp_job job;
    const struct rp_backend *backend;
    struct rp_device_opts device;
    struct rp_plan plan;
    struct rp_dev *dev;
    const struct rp_sampler *sampler;
    const struct rp_device_ranks *device_ranks;
    char device_number[RP_DEVICE_NUMBER]; /* of one of several ranks; "": the recipe's */
    struct rp_train *train;
    struct rp_buf in;
    uint64_t alive_ns;
    int stop;      /* the parent asked for it, or is gone */
    struct rp_comm *comm;
    int lost;      /* the rank that could not be connected, or -1 */
    struct rp_comm placed; /* of one of several ranks, before it is connected */
    int waiting;   /* the rank that this one waits for, or -1 */
    int64_t step;  /* -1 before the first */
    uint64_t root_ns; /* spent on state roots so far: a phase of its own */
    int64_t peak_rss; /* bytes */
    int64_t skipped;  /* damaged samples that others replaced */
    json_t *phases, *roots, *ceilings, *device_bytes;
    struct rp_exchange_sizes exchange;
};

/* Sends one frame and takes the reference; stops if the parent is gone. */
static void send_frame(struct loop *l, enum rp_frame type, json_t *body)
{
    struct rp_err err;
    if (rp_frame_write(l->fd, type, body, &err) < 0)
        l->stop = 1;
    json_decref(body);
}

/* Sets l->stop if the parent has sent STOP or closed the socket. Never blocks. */
static void read_parent(struct loop *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    while (!l->stop && poll(&p, 1, 0) > 0) {
        char bytes[4096];
        struct rp_err err;
        enum rp_frame type;
        json_t *body;
        ssize_t n = read(l->fd, bytes, sizeof bytes);
        if (n <= 0) {
            l->stop = 1;
            return;
        }
        rp_buf_add(&l->in, bytes, (size_t)n);
        int got = rp_frame_decode(&l->in, &type, &body, &err);
        if (got < 0 || (got > 0 && type == RP_FRAME_STOP))
            l->stop = 1;
        json_decref(body);
    }
}

static int report_alive(void *arg)
{
    struct loop *l = arg;
    uint64_t now = rp_now_ns();
    if (now - l->alive_ns < ALIVE_EVERY_NS)
        return l->stop;
    l->alive_ns = now;
    read_parent(l);
    if (!l->stop)
        send_frame(l, RP_FRAME_ALIVE, l->waiting < 0 ? json_object() : json_pack("{s:i}", "waiting", l->waiting));
    return l->stop;
}

/* While another rank is waited for, which is no progress of this one. */
static int report_waiting(void *arg, int rank)
{
    struct loop *l = arg;
    l->waiting = rank;
    int stop = report_alive(l);
    l->waiting = -1;
    return stop;
}

static void enter_phase(struct loop *l, const char *phase, int64_t steps)
{
    send_frame(l, RP_FRAME_PHASE, json_pack("{s:s, s:I}", "phase", phase, "steps", (json_int_t)steps));
}

static void leave_phase(struct loop *l, const char *phase, uint64_t start_ns)
{
    double before = json_number_value(json_object_get(l->phases, phase));
    json_object_set_new(l->phases, phase, json_real(before + (double)(rp_now_ns() - start_ns) * 1e-9));
}

static int read_job(int fd, struct rp_buf *in, json_t **body, struct rp_err *err)
{
    enum rp_frame type;
    int got = 0;
    while ((got = rp_frame_decode(in, &type, body, err)) == 0) {
        char bytes[65536];
        ssize_t n = RP_RETRY(read(fd, bytes, sizeof bytes));
        if (n <= 0)
            return rp_fail(err, RP_IO, "the parent closed before it sent a job");
        rp_buf_add(in, bytes, (size_t)n);
    }
    if (got > 0 && type != RP_FRAME_JOB)
        return rp_fail(err, RP_MALFORMED, "expected a job as the first record");
    return got < 0 ? -1 : 0;
}

static void start_sampling(const struct loop *l)
{
    char address[32] = "";
    if (l->backend->address)
        l->backend->address(l->dev, address);
    if (l->sampler)
        l->sampler->start(address, l->fd);
}

/* Adds the rates of exchanges to the ceilings of the device, of one of several ranks. All of them measure, whatever one of them has of the
 * device. */
static int measure_exchange(struct loop *l, json_t *ceilings, size_t room, struct rp_err *err)
{
    if (l->comm->size[RP_GROUP_WORLD] == 1)
        return 0;
    json_t *is = rp_exchange_ceilings(l->dev, l->comm, room, report_alive, l, err);
    if (!is)
        return -1;
    if (ceilings && json_array_size(is))
        json_object_set(ceilings, "exchange", is);
    json_decref(is);
    return 0;
}

/* Measures the peak rates of the device, stored as `when`; the device holds no blocks then. */
static int measure_ceilings(struct loop *l, const char *when, struct rp_err *err)
{
    if (!l->job.recipe->measure_ceilings || l->stop)
        return 0;
    struct rp_ceiling_size size = rp_ceiling_size(l->dev, &l->plan);
    uint64_t t0 = rp_now_ns();
    enter_phase(l, "ceilings", 0);
    if (rp_comm_barrier(l->comm, RP_GROUP_WORLD, err) < 0) /* all ranks at once, as when they train */
        return l->stop ? 0 : -1;
    json_t *is = rp_ceilings(l->dev, &size, report_alive, l, err);
    int failed = (!is && err->code != RP_OK) || (!l->stop && measure_exchange(l, is, size.copy, err) < 0);
    leave_phase(l, "ceilings", t0);
    json_object_set_new(l->ceilings, when, is ? is : json_null());
    return !failed || l->stop ? 0 : rp_wrap(err, "measuring the device %s the run", when);
}

/* Waits for where the others are. */
static int read_peers(struct loop *l, json_t **peers, struct rp_err *err)
{
    enum rp_frame type;
    int got;
    while ((got = rp_frame_decode(&l->in, &type, peers, err)) == 0 || (got > 0 && type == RP_FRAME_COUNT)) {
        char bytes[65536];
        json_decref(*peers);
        ssize_t n = RP_RETRY(read(l->fd, bytes, sizeof bytes));
        if (n <= 0) {
            l->stop = 1;
            return rp_fail(err, RP_INTERRUPTED, "the parent closed before all ranks were there");
        }
        rp_buf_add(&l->in, bytes, (size_t)n);
    }
    if (got < 0 || type == RP_FRAME_PEERS)
        return got < 0 ? -1 : 0;
    json_decref(*peers);
    *peers = NULL;
    l->stop = type == RP_FRAME_STOP;
    return rp_fail(err, l->stop ? RP_INTERRUPTED : RP_MALFORMED, "expected the list of ranks");
}

/* peers: body of the PEERS frame */
static struct rp_world_opts world_opts(struct loop *l, const json_t *peers)
{
    return (struct rp_world_opts){.rank = l->job.rank, .listener = -1, .peers = peers, .route = l->placed.route,
                                  .silence_s = (double)l->job.recipe->run_hang_seconds, .waiting = report_waiting, .waiting_arg = l,
                                  .lost = &l->lost};
}

/* The recipe's device, or the one that this rank has of those of its host. */
static struct rp_device_opts device_opts(const struct loop *l)
{
    struct rp_device_opts o = rp_job_device(l->job.recipe);
    if (*l->device_number)
        o.device = l->device_number;
    return o;
}

static int connect_devices(struct loop *l, struct rp_err *err)
{
    RP_JSON *peers = NULL;
    json_t *about = NULL;
    const struct rp_device_opts o = device_opts(l);
    struct rp_comm *c = l->device_ranks->prepare(&l->placed, &o, &about, err);
    if (!c)
        return -1;
    l->comm = c;
    send_frame(l, RP_FRAME_LISTEN, about);
    if (read_peers(l, &peers, err) < 0)
        return -1;
    const struct rp_world_opts world = world_opts(l, peers);
    return l->device_ranks->connect(c, &world, err);
}

/* Ranks that divide tensors or layers exchange stored tensors, whose numbers have 16 bits in mixed precision on GPUs and
 * 32 on processors. */
static int check_storage(const struct rp_rank_of *rank, const struct rp_recipe *r, struct rp_err *err)
{
    int gpus = 0;
    for (int i = 0; i < rp_degrees_world(rank->degrees); i++)
        gpus += rank->gpu[i];
    if (!rp_is_mixed(rp_recipe_numerics(r)) || gpus == 0 || gpus == rp_degrees_world(rank->degrees) ||
        rank->degrees.tensor * rank->degrees.pipeline == 1)
        return 0;
    return rp_fail(err, RP_USAGE, "in mixed precision, ranks on GPUs and on processors can divide micro-batches alone, not tensors or "
                   "layers: take --layout %dx1x1, or GPUs for all", rp_degrees_world(rank->degrees));
}

/* One of several ranks: connects it to the others. */
static int connect_ranks(struct loop *l, struct rp_err *err)
{
    const struct rp_rank_of *rank = l->job.rank;
    RP_JSON *peers = NULL;
    int port, listener;
    if (!rank)
        return 0;
    if (check_storage(rank, l->job.recipe, err) < 0)
        return -1;
    rp_world_place(&l->placed, rank, l->job.recipe);
    rp_world_share_cpus(&l->placed);
    if (l->job.backend->separate_memory) {
        const struct rp_device_opts o = device_opts(l);
        RP_BUG_IF(!l->device_ranks);
        if (l->device_ranks->choose(rank, &o, l->placed.route == RP_ROUTE_STAGED, l->device_number, err) < 0)
            return -1;
        if (l->placed.route == RP_ROUTE_DEVICE)
            return connect_devices(l, err);
    }
    listener = rp_world_listen(rank, &port, err);
    if (listener < 0)
        return -1;
    send_frame(l, RP_FRAME_LISTEN, json_pack("{s:i}", "port", port));
    if (read_peers(l, &peers, err) < 0) {
        close(listener);
        return -1;
    }
    struct rp_world_opts o = world_opts(l, peers);
    o.listener = listener;
    struct rp_comm *c = rp_world_open(&o, err);
    if (!c)
        return -1;
    l->comm = c;
    return 0;
}

static int open_device(struct loop *l, struct rp_err *err)
{
    struct rp_recipe *r = l->job.recipe;
    struct rp_device_info device = {0};
    if (l->job.batch > 0)
        r->train_batch_size = l->job.batch;
    l->backend = l->job.backend;
    l->device = device_opts(l);
    if (rp_job_plan(&l->plan, r, l->job.batch, l->comm, l->backend, &l->device, err) < 0)
        return -1;
    if (r->train_batch_size == RP_BATCH_MAX)
        r->train_batch_size = l->plan.batch;
    l->dev = l->backend->open(&l->device, l->plan.bytes[RP_CLASS_BACKEND], err);
    if (!l->dev)
        return rp_wrap(err, "backend '%s'", l->backend->name);
    if (l->comm->op->attach)
        l->comm->op->attach(l->comm, l->dev);
    l->backend->info(l->dev, &device);
    RP_FREE char *cpus = rp_world_cpu_list();
    send_frame(l, RP_FRAME_HELLO, json_pack("{s:i, s:s, s:o, s:o, s:s*}", "pid", (int)getpid(), "backend", l->backend->name, "device",
                                            rp_device_json(&device), "plan", rp_plan_to_json(&l->plan), "cpus", cpus));
    return 0;
}

static int open_training(struct loop *l, struct rp_err *err)
{
    struct rp_recipe *r = l->job.recipe;
    uint64_t t0 = rp_now_ns();
    enter_phase(l, "initialising", 0);
    l->train = rp_train_open(&(struct rp_train_opts){.recipe = r, .plan = &l->plan, .dev = l->dev, .comm = l->comm, .data = l->job.data,
                                                     .format = rp_data_format_of(r), .micros = l->job.micros, .alive = report_alive,
                                                     .alive_arg = l}, err);
    leave_phase(l, "initialising", t0);
    if (l->train)
        l->exchange = rp_train_exchange(l->train);
    if (l->train && l->job.counts)
        rp_products_begin(l->dev);
    return l->train ? 0 : -1;
}

/* ---- records ---- */

static void add_value(json_t *record, enum rp_step_key key, json_t *value)
{
    json_object_set_new(record, rp_step_key_name(key), value);
}

static void add_integer(json_t *record, enum rp_step_key key, int64_t value)
{
    add_value(record, key, json_integer((json_int_t)value));
}

static json_t *hex_of(float x)
{
    char text[32];
    rp_float_hex(text, x);
    return json_string(text);
}

static json_t *begin_record(const struct loop *l, const char *phase)
{
    json_t *record = json_object();
    add_value(record, RP_STEP_phase, json_string(phase));
    add_integer(record, RP_STEP_rank, l->comm->rank[RP_GROUP_WORLD]);
    add_integer(record, RP_STEP_step, l->step);
    return record;
}

/* Loss parts and counters by the names that the model declares; a model without them has no such key. */
static void add_named(json_t *record, const struct rp_model *m, const struct rp_step_result *s)
{
    json_t *parts = json_object(), *counters = json_object();
    for (int i = 0; i < rp_model_loss_parts(m); i++)
        json_object_set_new(parts, m->loss_part[i], hex_of(s->part[i]));
    for (int i = 0; i < rp_model_counters(m); i++)
        json_object_set_new(counters, m->counter[i].name, json_integer((json_int_t)s->counter[i]));
    if (json_object_size(parts))
        add_value(record, RP_STEP_loss_parts, json_incref(parts));
    if (json_object_size(counters))
        add_value(record, RP_STEP_counters, json_incref(counters));
    json_decref(parts);
    json_decref(counters);
}

static json_t *micro_losses(const struct rp_step_result *s)
{
    RP_BUF text = {0};
    char one[32];
    for (int64_t i = 0; i < s->micros; i++) {
        rp_float_hex(one, s->micro_loss[i]);
        rp_buf_printf(&text, "%s%s", i ? " " : "", one);
    }
    return json_stringn(text.data, text.size);
}

static json_t *step_record(const struct loop *l, const struct rp_step_result *s, uint64_t start, uint64_t end)
{
    const struct rp_recipe *r = l->job.recipe;
    int64_t timed = l->step - r->measure_warmup_steps;
    json_t *record = begin_record(l, timed < 0 ? "warm-up" : "timed");
    add_integer(record, RP_STEP_repeat, timed < 0 ? 0 : timed / r->measure_timed_steps);
    add_integer(record, RP_STEP_start_ns, (int64_t)start);
    add_integer(record, RP_STEP_end_ns, (int64_t)end);
    add_value(record, RP_STEP_loss, hex_of(s->loss));
    add_value(record, RP_STEP_grad_norm, hex_of(s->overflow ? INFINITY : s->grad_norm));
    add_integer(record, RP_STEP_input_ns, (int64_t)rp_train_input_ns(l->train));
    add_value(record, RP_STEP_learning_rate, json_real(s->learning_rate));
    add_integer(record, RP_STEP_samples, s->samples);
    if (rp_loss_is_scaled(r)) {
        add_value(record, RP_STEP_loss_scale, hex_of(s->loss_scale));
        add_integer(record, RP_STEP_overflow, s->overflow);
    }
    if (rp_job_has_micro_losses(r))
        add_value(record, RP_STEP_micro_losses, micro_losses(s));
    add_named(record, rp_model_of(r), s);
    return record;
}

/* Whether the run, of which this may be a replay of some steps, has a root when `steps` of them are done, in addition
 * to the one at its end. */
static int has_root(const struct loop *l, int64_t steps)
{
    const int64_t every = l->job.recipe->evidence_state_root_every, done = l->job.first + steps;
    return every > 0 ? done % every == 0 : done == 0;
}

/* Adds the state root to the record; the roots of the tensors are kept as `which` for the bundle. perturbs: the state
 * goes on from there. */
static int take_root(struct loop *l, json_t *record, const char *which, int perturbs, struct rp_err *err)
{
    char hex[65];
    json_t *tensors = NULL;
    uint64_t t0 = rp_now_ns();
    send_frame(l, RP_FRAME_ALIVE, json_pack("{s:s}", "in", "state root"));
    if (rp_train_root(l->train, hex, which ? &tensors : NULL, err) < 0)
        return -1;
    if (l->job.root_key) {
        char keyed[65];
        if (rp_train_keyed_root(l->train, keyed, l->job.root_key, err) < 0)
            return -1;
        add_value(record, RP_STEP_keyed_root, json_string(keyed));
    }
    if (perturbs && rp_train_perturb(l->train, err) < 0)
        return -1;
    uint64_t ns = rp_now_ns() - t0;
    add_value(record, RP_STEP_state_root, json_string(hex));
    add_integer(record, RP_STEP_root_ns, (int64_t)ns);
    l->root_ns += ns;
    if (which)
        json_object_set_new(l->roots, which, tensors);
    leave_phase(l, "state_roots", t0);
    return 0;
}

/* before: of the communicator when the step began */
static void add_exchange(json_t *record, const struct loop *l, const struct rp_comm_count *before)
{
    const struct rp_comm_count *now = &l->comm->count;
    if (l->comm->size[RP_GROUP_WORLD] == 1)
        return;
    add_integer(record, RP_STEP_exchange_ns, (int64_t)(now->exchange_ns - before->exchange_ns));
    if (!l->comm->waits_unknown)
        add_integer(record, RP_STEP_wait_ns, (int64_t)(now->wait_ns - before->wait_ns));
    if (l->exchange.overlaps)
        add_integer(record, RP_STEP_overlap_ns, (int64_t)(now->overlap_ns - before->overlap_ns));
}

static int train_step(struct loop *l, int64_t last, struct rp_err *err)
{
    const struct rp_backend *b = l->backend;
    struct rp_step_result s = {0};
    uint64_t device_ns = 0;
    if (rp_train_load(l->train, l->step, err) < 0)
        return -1;
    const struct rp_comm_count before = l->comm->count;
    uint64_t start = rp_now_ns();
    if (b->time_begin && b->time_begin(l->dev, err) < 0)
        return -1;
    const int profiles = l->job.profiles && l->step >= l->job.recipe->measure_warmup_steps;
    if (profiles)
        rp_profile_begin(l->dev);
    if (rp_train_step(l->train, l->step, &s, err) < 0)
        return -1;
    uint64_t end = rp_now_ns(); /* a step ends with a sync: the device is done */
    if (profiles)
        rp_profile_end(l->dev);
    if (b->time_end && b->time_end(l->dev, &device_ns, err) < 0)
        return -1;
    RP_JSON *record = step_record(l, &s, start, end);
    add_exchange(record, l, &before);
    if (b->time_end)
        add_integer(record, RP_STEP_device_ns, (int64_t)device_ns);
    if (l->step == last ? take_root(l, record, "final", 0, err) < 0
                        : has_root(l, l->step + 1) && take_root(l, record, NULL, 1, err) < 0)
        return -1;
    send_frame(l, RP_FRAME_STEP, json_incref(record));
    return 0;
}

/* The state before the first step. */
static int record_beginning(struct loop *l, struct rp_err *err)
{
    RP_JSON *init = begin_record(l, "init");
    if (take_root(l, init, "init", has_root(l, 0), err) < 0)
        return -1;
    send_frame(l, RP_FRAME_STEP, json_incref(init));
    return 0;
}

/* Of a replay: single micro-batches of the first step. */
static int compute_micro_batches(struct loop *l, struct rp_err *err)
{
    uint64_t t0 = rp_now_ns();
    float loss;
    enter_phase(l, "timed", 1);
    for (int64_t i = 0; i < l->job.n_micro && !report_alive(l); i++) {
        const int64_t micro = l->job.micro_batch[i];
        if (rp_train_micro_loss(l->train, micro, &loss, err) < 0)
            return l->stop ? 0 : -1;
        send_frame(l, RP_FRAME_STEP, json_pack("{s:I, s:o}", "micro_batch", (json_int_t)micro, "loss", hex_of(loss)));
    }
    leave_phase(l, "timed", t0);
    return 0;
}

static int train_all_steps(struct loop *l, struct rp_err *err)
{
    const struct rp_recipe *r = l->job.recipe;
    int64_t all = rp_job_steps(r), n = l->job.steps > 0 && l->job.steps < all ? l->job.steps : all;
    if (record_beginning(l, err) < 0)
        return -1;
    if (l->job.micros)
        return compute_micro_batches(l, err);
    if (rp_comm_barrier(l->comm, RP_GROUP_WORLD, err) < 0) /* so that no rank waits for another in its first step */
        return -1;
    for (l->step = 0; l->step < n && !report_alive(l); l->step++) {
        int timed = l->step >= r->measure_warmup_steps;
        uint64_t t0 = rp_now_ns(), roots = l->root_ns;
        if (l->step == 0 || l->step == r->measure_warmup_steps)
            enter_phase(l, timed ? "timed" : "warm-up", timed ? n - l->step : r->measure_warmup_steps);
        if (train_step(l, n - 1, err) < 0) {
            if (l->stop)
                break; /* in the middle of a step: the records have all complete ones */
            return -1;
        }
        leave_phase(l, timed ? "timed" : "warm_up", t0 + (l->root_ns - roots));
    }
    return 0;
}

static int save_state(struct loop *l, struct rp_err *err)
{
    const char *path = l->job.recipe->run_save;
    uint64_t t0 = rp_now_ns();
    if (!path || !*path || l->stop || l->job.profiles)
        return 0;
    enter_phase(l, "saving", 0);
    if (rp_train_save(l->train, path, l->job.recipe, err) < 0 && !l->stop)
        return -1;
    leave_phase(l, "saving", t0);
    return 0;
}

/* A step allocates nothing, so the peak is known after the last one. */
static int measure_memory(struct loop *l, struct rp_err *err)
{
    struct rusage u;
    uint64_t reserved, used;
    getrusage(RUSAGE_SELF, &u);
    l->skipped = rp_train_skipped(l->train);
    l->peak_rss = (int64_t)u.ru_maxrss * 1024;
    if (!l->backend->used_memory)
        return 0;
    if (l->backend->used_memory(l->dev, &reserved, &used, err) < 0)
        return -1;
    l->device_bytes = json_pack("{s:I, s:I}", "reserved", (json_int_t)reserved, "used", (json_int_t)used);
    return 0;
}

/* Frees the memory of the run first, which takes a moment: not worth it for a run that was asked to stop. */
static int measure_ceilings_after(struct loop *l, struct rp_err *err)
{
    if (!l->job.recipe->measure_ceilings || l->stop || !l->backend->release)
        return 0;
    rp_train_close(l->train);
    l->train = NULL;
    l->backend->release(l->dev);
    return measure_ceilings(l, "after", err);
}

static void stop_sampling(const struct loop *l)
{
    if (l->sampler)
        l->sampler->stop();
}

/* How this rank exchanged with others; NULL: there were none. */
static json_t *exchange_json(const struct loop *l)
{
    struct rp_connections c;
    if (l->comm->size[RP_GROUP_WORLD] == 1)
        return NULL;
    l->comm->op->connections(l->comm, &c);
    json_t *connections =
        json_pack("{s:i, s:i, s:i, s:i, s:s*}", "shared_memory", c.shared_memory, "tls", c.tls, "tls_on_host",
                  c.tls_on_host, "refused", c.refused, "nccl", *c.nccl ? c.nccl : NULL);
    json_t *sent = json_object();
    for (int g = 0; g < RP_GROUPS; g++)
        json_object_set_new(sent, rp_group_name((enum rp_group)g), json_integer((json_int_t)l->comm->count.sent_in[g]));
    return json_pack("{s:o, s:i, s:I, s:I, s:I, s:o}", "connections", connections, "levels", l->exchange.levels,
                     "bytes_per_step", (json_int_t)l->exchange.sent_bytes, "bytes_per_step_between_hosts",
                     (json_int_t)l->exchange.between_bytes, "sent_bytes", (json_int_t)l->comm->count.sent_bytes,
                     "sent_bytes_by_group", sent);
}

/* NULL: they were not counted. */
static json_t *products_json(const struct loop *l)
{
    if (!l->job.counts)
        return NULL;
    const struct rp_products p = rp_products_end(l->dev);
    return json_pack("{s:f, s:f}", "all", p.all, "spared", p.spared);
}

/* NULL: there is none. */
static json_t *profile_json(const struct loop *l)
{
    struct rp_profile p;
    if (!l->job.profiles)
        return NULL;
    rp_profile_take(&p);
    json_t *j = rp_object_json(&p, &rp_type_profile);
    rp_object_fini(&p, &rp_type_profile);
    return j;
}

static void send_done(struct loop *l)
{
    const json_t *ceilings = json_object_size(l->ceilings) ? l->ceilings : NULL;
    send_frame(l, RP_FRAME_DONE,
               json_pack("{s:I, s:I, s:O, s:b, s:O, s:O*, s:O*, s:o*, s:o*, s:o*}", "peak_rss_bytes", (json_int_t)l->peak_rss,
                         "skipped_samples", (json_int_t)l->skipped, "phases_s", l->phases, "stopped", l->stop,
                         "tensor_roots", l->roots, "device_bytes", l->device_bytes, "ceilings", ceilings, "exchange",
                         exchange_json(l), "products", products_json(l), "profile",
                         profile_json(l)));
}

static int run_phases(struct loop *l, const json_t *job, const struct rp_backend *const *backends, struct rp_err *err)
{
    if (rp_job_decode(&l->job, job, backends, err) < 0 || connect_ranks(l, err) < 0 || open_device(l, err) < 0)
        return -1;
    start_sampling(l);
    if (measure_ceilings(l, "before", err) < 0 || open_training(l, err) < 0 || train_all_steps(l, err) < 0 || save_state(l, err) < 0 ||
        measure_memory(l, err) < 0 || measure_ceilings_after(l, err) < 0)
        return -1;
    stop_sampling(l);
    if (!l->stop && rp_comm_barrier(l->comm, RP_GROUP_WORLD, err) < 0 && !l->stop) /* nobody leaves whom others still need */
        return -1;
    send_done(l);
    return 0;
}

/* If memory runs out, the kernel kills this process first, and its parent can report it. */
static void volunteer_for_oom(void)
{
    RP_FD fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "800", 3) < 0)
        return;
}

/* lost: the rank that is gone, or RP_LOST_SOME; -1: none */
static json_t *failure_body(const struct rp_err *err, int64_t step, int lost)
{
    json_t *j = json_pack("{s:i, s:s, s:I}", "code", (int)err->code, "message", err->msg, "step", (json_int_t)step);
    if (lost != -1)
        json_object_set_new(j, "lost", json_integer(lost));
    return j;
}

int rp_worker_train(int fd, struct rp_buf *in, const json_t *job, const struct rp_backend *const *backends,
                    const struct rp_sampler *sampler, const struct rp_device_ranks *device_ranks)
{
    struct rp_err err = {0};
    struct loop l = {.fd = fd, .step = -1, .waiting = -1, .lost = -1, .in = *in, .sampler = sampler, .device_ranks = device_ranks,
                     .comm = rp_comm_self(), .phases = json_object(), .roots = json_object(),
                     .ceilings = json_object()};
    *in = (struct rp_buf){0};
    volunteer_for_oom();
    int failed = run_phases(&l, job, backends, &err) < 0;
    if (failed && !l.stop)
        send_frame(&l, RP_FRAME_FAILED, failure_body(&err, l.step, l.lost != -1 ? l.lost : l.comm->lost));
    stop_sampling(&l);
    if (l.train)
        rp_train_close(l.train);
    l.comm->op->close(l.comm); /* before the device, whose stream it uses */
    if (l.dev)
        l.backend->close(l.dev);
    rp_job_fini(&l.job);
    rp_buf_fini(&l.in);
    json_decref(l.phases);
    json_decref(l.roots);
    json_decref(l.ceilings);
    json_decref(l.device_bytes);
    return failed ? rp_exit_status(err.code) : 0;
}

int rp_worker_main(int fd)
{
    struct rp_err err = {0};
    RP_BUF in = {0};
    RP_JSON *job = NULL;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (read_job(fd, &in, &job, &err) == 0)
        return rp_worker_train(fd, &in, job, rp_backends, NULL, NULL);
    RP_JSON *body = failure_body(&err, -1, -1);
    struct rp_err ignored; /* a parent that is gone */
    (void)!rp_frame_write(fd, RP_FRAME_FAILED, body, &ignored);
    return rp_exit_status(err.code);
}
