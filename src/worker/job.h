/* A job for a worker, as the JSON body of the JOB frame, and the frames that answer it.
 *
 * What:    one struct and its JSON form; `run` and replay build it, the worker's loop reads it.
 * Flow:    struct rp_job -> JSON -> struct rp_job on the other side of the socket.
 * Owner:   recipe is borrowed when encoding; rp_job_decode() fills an owned copy that rp_job_fini() frees.
 * Extend:  a field here, one line in rp_job_encode() and one in rp_job_decode().
 *
 * Before a job, a DEVICE frame may be sent to repro-gpu, which answers VALUES {"probe": "device", "values": {"name",
 * "capability", "shared_bytes": of a block, "memory": available to a run}}, or {"unavailable": why} as the values.
 *
 * Of several ranks (RANKED), the job has "world": {"rank", "data", "tensor", "pipeline": ranks of each kind, "hosts":
 * [number of the host of each rank], "gpus": [0 or 1: whether each rank trains on a GPU], "id": of the job, "key": 64
 * hex digits, "address": where to listen}. The worker first answers LISTEN {"port"}, on a GPU that uses NCCL {"nccl":
 * the number of NCCL's version, "gpu": its UUID, "id": of NCCL's communicator, from rank 0}, and goes on after PEERS
 * {"peers": [{"address", "port"} of each rank], "ranks": [body of LISTEN of each rank]}.
 *
 * Answers, in order:
 *   HELLO  {"pid", "backend", "device", "plan": rp_plan_to_json()}
 *   PHASE  {"phase": "ceilings" | "initialising" | "warm-up" | "timed" | "saving", "steps": planned steps of the phase}
 *   STEP   one record as in run/records.h, first {"step": -1, "phase": "init", "rank": 0, "state_root", "root_ns"};
 *          with root_key also "keyed_root" next to each "state_root" of a job of micro-batches, after the init record:
 *          {"micro_batch": number, "loss"} of each, in order
 *   ALIVE  {}, {"waiting": the rank whose messages it waits for}, or {"in": "state root"}: what begins within a phase
 *   TELEMETRY  one line as in run/telemetry.h, from another thread, or {"reason": why there are none}
 *   DONE   {"peak_rss_bytes", "skipped_samples": rp_train_skipped(), "phases_s": {...}, "trained_s": {...},
 *           "stopped": bool, "tensor_roots": {"init": {...}, "final": {...}},
 *           "device_bytes": {"reserved", "used"} (where the device has memory of its own),
 *           "products": {"all", "spared"} of all steps (of a job that counts them),
 *           "profile": as in train/profile.def, of the timed steps (of a job that profiles them),
 *           "ceilings": {"before", "after": as in measure_ceilings.h, or null} (unless the recipe turns them off)}
 *   FAILED {"code": enum rp_code, "message", "step"}, with "lost": the rank, if it failed because that one is gone; -2:
 *          one of the others; for a worker that ended without a word, the process that started it sends this with
 *          "ended" of struct rp_process
 * With several ranks DONE also has "exchange": {"connections": as in facts.json, "levels", "bytes_per_step",
 * "bytes_per_step_between_hosts", "sent_bytes"}: sent by this rank.
 */
#pragma once

#include "base/err.h"
#include "process/process.h"
#include "recipe/recipe.h"
#include "train/train.h"

#include <jansson.h>
#include <stdint.h>

enum rp_step_key {
#define STEP_KEY(name, form, when, least) RP_STEP_##name,
#include "worker/step.def"
#undef STEP_KEY
    RP_STEP_KEYS
};
const char *rp_step_key_name(enum rp_step_key key);
/* The most micro-batches of a step, over all ranks, and of all steps together, whose losses are recorded one by one: a
 * line of records is read as a whole, and verify has all of these losses in memory, 4 bytes each. */
#define RP_MICRO_LOSSES_STEP 4096
#define RP_MICRO_LOSSES_RUN (8ll << 20)
/* In which records a key of step.def is. */
enum rp_step_when {
    RP_WHEN_ALWAYS = 1, RP_WHEN_STEPS = 2, RP_WHEN_ROOTS = 4, RP_WHEN_CLOCK = 8, RP_WHEN_MODEL = 16, RP_WHEN_KEYED = 32,
    RP_WHEN_RANKED = 64, RP_WHEN_WAITS = 128, RP_WHEN_OVERLAPPED = 256, RP_WHEN_SCALED = 512, RP_WHEN_MICROS = 1024
};

/* One of several ranks. */
struct rp_rank_of {
    int rank;
    struct rp_degrees degrees; /* ranks of each kind */
    int *host, *gpu;           /* [world] number of each rank's host; whether it trains on a GPU */
    /* [world] equal numbers: ranks of a host whose processes may use the same processors; NULL: all of a host */
    int *cpu_set;
    unsigned char key[32]; /* of the job; wiped when a decoded job is freed */
    char id[65];
    char address[64];             /* where to listen; "": everywhere */
};
static inline int rp_degrees_world(struct rp_degrees d)
{
    return d.data * d.tensor * d.pipeline;
}

struct rp_job {
    const struct rp_rank_of *rank; /* NULL: the only one */
    struct rp_recipe *recipe; /* resolved */
    const struct rp_backend *backend; /* the one that run.backend selects */
    char *data;               /* directory, file or glob of the samples */
    int64_t batch;            /* batch size if the recipe has max, else 0 */
    const char *root_key;     /* of a replication: rp_agreement_key(), for keyed roots; NULL: none. Owned if decoded */
    int64_t first;            /* of a replay: the step of the run that is step 0 here; state roots depend on it */
    int counts;               /* products that need not be computed (train/products.h), on a CPU */
    int profiles;             /* the operations of timed steps (train/profile.h), on a CPU; nothing is saved */
    int64_t steps;            /* stop after this many steps in all; 0: as in the recipe. Replay uses it. */
    /* 0, or the micro-batches of a step, of which a replay computes the losses of those with the numbers
     * micro_batch[n_micro]; the recipe has one a step then */
    int64_t micros;
    int64_t *micro_batch;     /* owned if decoded */
    int64_t n_micro;
};

json_t *rp_job_encode(const struct rp_job *job);
/* Fills job->recipe with heap memory. backends: the list that contains job->backend. */
int rp_job_decode(struct rp_job *job, const json_t *j, const struct rp_backend *const *backends,
                  struct rp_err *err) rp_must_check;
void rp_job_fini(struct rp_job *job); /* of a decoded job */

/* The steps of the recipe: warm-up + repeats * timed. */
int64_t rp_job_steps(const struct rp_recipe *r);
/* Whether its step records have the losses of single micro-batches: there are several in a step, and not too many. */
int rp_job_has_micro_losses(const struct rp_recipe *r);

/* The device options of a recipe: run.isa, run.threads, run.device. They point into the recipe. */
struct rp_device_opts rp_job_device(const struct rp_recipe *r);
/* The backend of the recipe: run.backend, or with auto the first usable one. passed->msg: the last one that auto
 * skipped and why, or "". */
const struct rp_backend *rp_job_backend(const struct rp_recipe *r, struct rp_err *passed,
                                        struct rp_err *err) rp_must_check;
/* Start the worker of job->backend, with the job. */
int rp_job_start(struct rp_process *w, const struct rp_job *job, struct rp_err *err) rp_must_check;

/* {"batch", "max_batch", "parameters", "bytes": {"parameters": n, ...}, "total_bytes", "available_bytes",
 * "flops_per_sample", ...} */
json_t *rp_plan_to_json(const struct rp_plan *plan);
/* Plans the memory of the recipe; RP_UNAVAILABLE with the largest batch that fits if it does not. batch as in
 * rp_job. */
int rp_job_plan(struct rp_plan *plan, const struct rp_recipe *r, int64_t batch, struct rp_comm *comm,
                const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err) rp_must_check;
