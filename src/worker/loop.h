/* Shared by the files of a worker: one job while it is done.
 *
 * What:    the state of a job, frames to the parent, and what is in them.
 * Flow:    phases.c goes through the phases; loop_connect.c connects a rank to others, loop_report.c makes records,
 *          loop.c sends them.
 * Owner:   rp_worker_train() owns everything in it.
 * Extend:  a phase is a function of phases.c, and what it adds to DONE a field of the state and of rp_loop_send_done().
 */
#pragma once

#include "base/buf.h"
#include "train/train.h"
#include "worker/job.h"
#include "worker/rank.h"
#include "worker/worker.h"

struct rp_loop {
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
    int stop; /* the parent asked for it, or is gone */
    struct rp_comm *comm;
    int lost;              /* the rank that could not be connected, or -1 */
    struct rp_comm placed; /* of one of several ranks, before it is connected */
    int waiting;           /* the rank that this one waits for, or -1 */
    int64_t step;          /* -1 before the first */
    uint64_t root_ns;      /* spent on state roots so far: a phase of its own */
    int64_t peak_rss;      /* bytes */
    int64_t skipped;       /* damaged samples that others replaced */
    json_t *phases, *trained, *roots, *ceilings, *device_bytes;
    struct rp_exchange_sizes exchange;
};

/* ---- loop.c ---- */

/* Sends one frame and takes the reference; stops if the parent is gone. */
void rp_loop_send(struct rp_loop *l, enum rp_frame type, json_t *body);
/* Callbacks with a struct rp_loop: this rank works, or waits for another, which is no progress of this one. They return
 * whether to stop. */
int rp_loop_alive(void *arg);
int rp_loop_waiting(void *arg, int rank);
void rp_loop_leave_phase(struct rp_loop *l, const char *phase, uint64_t start_ns);

/* ---- loop_connect.c ---- */

/* One of several ranks: connects it to the others. */
int rp_loop_connect(struct rp_loop *l, struct rp_err *err) rp_must_check;
/* The recipe's device, or the one that this rank has of those of its host. */
struct rp_device_opts rp_loop_device_opts(const struct rp_loop *l);

/* ---- loop_report.c ---- */

json_t *rp_loop_float_json(float x); /* as hexadecimal text */
json_t *rp_loop_begin_record(const struct rp_loop *l, const char *phase);
json_t *rp_loop_step_record(const struct rp_loop *l, const struct rp_step_result *s, uint64_t start, uint64_t end);
void rp_loop_add_integer(json_t *record, enum rp_step_key key, int64_t value);
/* before: of the communicator when the step began */
void rp_loop_add_exchange(json_t *record, const struct rp_loop *l, const struct rp_comm_count *before);
/* Whether the run, of which this may be a replay of some steps, has a root when `steps` of them are done, in addition
 * to the one at its end. */
int rp_loop_has_root(const struct rp_loop *l, int64_t steps);
/* Adds the state root to the record; the roots of the tensors are kept as `which` for the bundle. perturbs: the state
 * goes on from there. */
int rp_loop_add_root(struct rp_loop *l, json_t *record, const char *which, int perturbs,
                     struct rp_err *err) rp_must_check;
void rp_loop_send_done(struct rp_loop *l);
