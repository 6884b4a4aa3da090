/* The worker's side: one job, from its JOB frame to DONE. run_phases() lists its phases. */
#include "worker/loop.h"

#include "base/clock.h"
#include "base/json.h"
#include "train/products.h"
#include "train/profile.h"
#include "worker/measure_ceilings.h"
#include "worker/measure_exchange.h"
#include "worker/worker.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static void enter_phase(struct rp_loop *l, const char *phase, int64_t steps)
{
    rp_loop_send(l, RP_FRAME_PHASE, json_pack("{s:s, s:I}", "phase", phase, "steps", (json_int_t)steps));
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

static void start_sampling(const struct rp_loop *l)
{
    char address[32] = "";
    if (l->backend->address)
        l->backend->address(l->dev, address);
    if (l->sampler)
        l->sampler->start(address, l->fd);
}

/* Adds the rates of exchanges to the ceilings of the device, of one of several ranks. All of them measure, whatever one
 * of them has of the device. */
static int measure_exchange(struct rp_loop *l, json_t *ceilings, size_t room, struct rp_err *err)
{
    if (l->comm->size[RP_GROUP_WORLD] == 1)
        return 0;
    json_t *is = rp_exchange_ceilings(l->dev, l->comm, room, rp_loop_alive, l, err);
    if (!is)
        return -1;
    if (ceilings && json_array_size(is))
        json_object_set(ceilings, "exchange", is);
    json_decref(is);
    return 0;
}

/* Measures the peak rates of the device, stored as `when`; the device holds no blocks then. */
static int measure_ceilings(struct rp_loop *l, const char *when, struct rp_err *err)
{
    if (!l->job.recipe->measure_ceilings || l->stop)
        return 0;
    struct rp_ceiling_size size = rp_ceiling_size(l->dev, &l->plan);
    uint64_t t0 = rp_now_ns();
    enter_phase(l, "ceilings", 0);
    if (rp_comm_barrier(l->comm, RP_GROUP_WORLD, err) < 0) /* all ranks at once, as when they train */
        return l->stop ? 0 : -1;
    json_t *is = rp_ceilings(l->dev, &size, rp_loop_alive, l, err);
    int failed = (!is && err->code != RP_OK) || (!l->stop && measure_exchange(l, is, size.copy, err) < 0);
    rp_loop_leave_phase(l, "ceilings", t0);
    json_object_set_new(l->ceilings, when, is ? is : json_null());
    return !failed || l->stop ? 0 : rp_wrap(err, "measuring the device %s the run", when);
}

static int open_device(struct rp_loop *l, struct rp_err *err)
{
    struct rp_recipe *r = l->job.recipe;
    struct rp_device_info device = {0};
    if (l->job.batch > 0)
        r->train_batch_size = l->job.batch;
    l->backend = l->job.backend;
    l->device = rp_loop_device_opts(l);
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
    rp_loop_send(l, RP_FRAME_HELLO,
                 json_pack("{s:i, s:s, s:o, s:o, s:s*}", "pid", (int)getpid(), "backend", l->backend->name, "device",
                           rp_device_json(&device), "plan", rp_plan_to_json(&l->plan), "cpus", cpus));
    return 0;
}

static int open_training(struct rp_loop *l, struct rp_err *err)
{
    struct rp_recipe *r = l->job.recipe;
    uint64_t t0 = rp_now_ns();
    enter_phase(l, "initialising", 0);
    l->train = rp_train_open(&(struct rp_train_opts){.recipe = r, .plan = &l->plan, .dev = l->dev, .comm = l->comm,
                                                     .data = l->job.data, .format = rp_data_format_of(r),
                                                     .micros = l->job.micros, .alive = rp_loop_alive, .alive_arg = l},
                             err);
    rp_loop_leave_phase(l, "initialising", t0);
    if (l->train)
        l->exchange = rp_train_exchange(l->train);
    if (l->train && l->job.counts)
        rp_products_begin(l->dev);
    return l->train ? 0 : -1;
}

static int train_step(struct rp_loop *l, int64_t last, struct rp_err *err)
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
    RP_JSON *record = rp_loop_step_record(l, &s, start, end);
    rp_loop_add_exchange(record, l, &before);
    if (b->time_end)
        rp_loop_add_integer(record, RP_STEP_device_ns, (int64_t)device_ns);
    if (l->step == last ? rp_loop_add_root(l, record, "final", 0, err) < 0
                        : rp_loop_has_root(l, l->step + 1) && rp_loop_add_root(l, record, NULL, 1, err) < 0)
        return -1;
    rp_loop_send(l, RP_FRAME_STEP, json_incref(record));
    return 0;
}

/* The state before the first step. */
static int record_beginning(struct rp_loop *l, struct rp_err *err)
{
    RP_JSON *init = rp_loop_begin_record(l, "init");
    if (rp_loop_add_root(l, init, "init", rp_loop_has_root(l, 0), err) < 0)
        return -1;
    rp_loop_send(l, RP_FRAME_STEP, json_incref(init));
    return 0;
}

/* Single micro-batches of the first step, in a replay. */
static int compute_micro_batches(struct rp_loop *l, struct rp_err *err)
{
    uint64_t t0 = rp_now_ns();
    float loss;
    enter_phase(l, "timed", 1);
    for (int64_t i = 0; i < l->job.n_micro && !rp_loop_alive(l); i++) {
        const int64_t micro = l->job.micro_batch[i];
        if (rp_train_micro_loss(l->train, micro, &loss, err) < 0)
            return l->stop ? 0 : -1;
        rp_loop_send(l, RP_FRAME_STEP,
                     json_pack("{s:I, s:o}", "micro_batch", (json_int_t)micro, "loss", rp_loop_float_json(loss)));
    }
    rp_loop_leave_phase(l, "timed", t0);
    return 0;
}

/* All steps by the clock of their times, whose rate can be set, and by the one whose rate cannot. */
static json_t *trained_json(uint64_t monotonic_ns, uint64_t raw_ns)
{
    return json_pack("{s:f, s:f}", "monotonic", (double)(rp_now_ns() - monotonic_ns) * 1e-9, "raw",
                     (double)(rp_raw_ns() - raw_ns) * 1e-9);
}

static int train_all_steps(struct rp_loop *l, struct rp_err *err)
{
    const struct rp_recipe *r = l->job.recipe;
    int64_t all = rp_job_steps(r), n = l->job.steps > 0 && l->job.steps < all ? l->job.steps : all;
    if (record_beginning(l, err) < 0)
        return -1;
    if (l->job.micros)
        return compute_micro_batches(l, err);
    if (rp_comm_barrier(l->comm, RP_GROUP_WORLD, err) < 0) /* so that no rank waits for another in its first step */
        return -1;
    const uint64_t monotonic = rp_now_ns(), raw = rp_raw_ns();
    for (l->step = 0; l->step < n && !rp_loop_alive(l); l->step++) {
        int timed = l->step >= r->measure_warmup_steps;
        uint64_t t0 = rp_now_ns(), roots = l->root_ns;
        if (l->step == 0 || l->step == r->measure_warmup_steps)
            enter_phase(l, timed ? "timed" : "warm-up", timed ? n - l->step : r->measure_warmup_steps);
        if (train_step(l, n - 1, err) < 0) {
            if (l->stop)
                break; /* in the middle of a step: the records have all complete ones */
            return -1;
        }
        rp_loop_leave_phase(l, timed ? "timed" : "warm_up", t0 + (l->root_ns - roots));
    }
    l->trained = trained_json(monotonic, raw);
    return 0;
}

static int save_state(struct rp_loop *l, struct rp_err *err)
{
    const char *path = l->job.recipe->run_save;
    uint64_t t0 = rp_now_ns();
    if (!path || !*path || l->stop || l->job.profiles)
        return 0;
    enter_phase(l, "saving", 0);
    if (rp_train_save(l->train, path, l->job.recipe, err) < 0 && !l->stop)
        return -1;
    rp_loop_leave_phase(l, "saving", t0);
    return 0;
}

/* A step allocates nothing, so the peak is known after the last one. */
static int measure_memory(struct rp_loop *l, struct rp_err *err)
{
    struct rusage u = {0};
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
static int measure_ceilings_after(struct rp_loop *l, struct rp_err *err)
{
    if (!l->job.recipe->measure_ceilings || l->stop || !l->backend->release)
        return 0;
    rp_train_close(l->train);
    l->train = NULL;
    l->backend->release(l->dev);
    return measure_ceilings(l, "after", err);
}

static void stop_sampling(const struct rp_loop *l)
{
    if (l->sampler)
        l->sampler->stop();
}

static int run_phases(struct rp_loop *l, const json_t *job, const struct rp_backend *const *backends,
                      struct rp_err *err)
{
    if (rp_job_decode(&l->job, job, backends, err) < 0 || rp_loop_connect(l, err) < 0 || open_device(l, err) < 0)
        return -1;
    start_sampling(l);
    if (measure_ceilings(l, "before", err) < 0 || open_training(l, err) < 0 || train_all_steps(l, err) < 0 ||
        save_state(l, err) < 0 || measure_memory(l, err) < 0 || measure_ceilings_after(l, err) < 0)
        return -1;
    stop_sampling(l);
    /* no rank may leave while others need it */
    if (!l->stop && rp_comm_barrier(l->comm, RP_GROUP_WORLD, err) < 0 && !l->stop)
        return -1;
    rp_loop_send_done(l);
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
    struct rp_loop l = {.fd = fd, .step = -1, .waiting = -1, .lost = -1, .in = *in, .sampler = sampler,
                        .device_ranks = device_ranks, .comm = rp_comm_self(), .phases = json_object(),
                        .roots = json_object(), .ceilings = json_object()};
    *in = (struct rp_buf){0};
    volunteer_for_oom();
    int failed = run_phases(&l, job, backends, &err) < 0;
    if (failed && !l.stop)
        rp_loop_send(&l, RP_FRAME_FAILED, failure_body(&err, l.step, l.lost != -1 ? l.lost : l.comm->lost));
    stop_sampling(&l);
    if (l.train)
        rp_train_close(l.train);
    l.comm->op->close(l.comm); /* before the device, whose stream it uses */
    if (l.dev)
        l.backend->close(l.dev);
    rp_job_fini(&l.job);
    rp_buf_fini(&l.in);
    json_decref(l.phases);
    json_decref(l.trained);
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
