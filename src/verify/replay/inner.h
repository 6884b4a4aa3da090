/* Shared by the files of the replay.
 *
 * What:    struct rp_replaying, one call of rp_replay(), and what each file has for the others.
 * Flow:    replay.c starts the worker (replay_local.c: what is set here) and reads its frames -> replay_compare.c,
 *          replay_state.c -> struct
 *          rp_replay_result.
 * Owner:   rp_replay() owns everything in it.
 */
#pragma once

#include "data/store.h"
#include "process/process.h"
#include "verify/replay/replay.h"

struct rp_replaying {
    const struct rp_replay_opts *o;
    struct rp_replay_result *out;
    const struct rp_facts *run;
    const struct rp_records *records;
    struct rp_recipe recipe;
    struct rp_data_set data;
    struct rp_process worker;
    int64_t steps;     /* to train */
    int64_t of_micros, n_micro; /* micro-batches of a step, and of those to compute; 0: whole steps are trained */
    char *dir, *saved; /* temporary file of the state that is compared with the owner's, or NULL */
    json_t *roots[2];  /* per tensor, of this replay: before the first step, after the last */
    int done, idle;    /* idle: nothing else ran here before */
    int64_t ns[2], timed; /* sums over steps but the first: recorded, here */
    uint64_t stop_ns; /* when the worker was asked to stop, or 0 */
    uint64_t looked_ns; /* when check_progress() was here last; 0: never */
    uint64_t end_ns, limit_bytes; /* when it has to be over; most memory, RP_MEMORY_UNKNOWN: no limit */
};

/* The record of a step of the run, or of the state before the first; NULL: there is none. */
const struct rp_step_record *rp_replay_record(const struct rp_replaying *p, int64_t step);
/* One record against the recorded one, in the order of the computation. */
void rp_replay_compare_step(struct rp_replaying *p, const json_t *body);
/* Does nothing unless a state root differs: the first divergent tensor, if both sides have tensor roots of that
 * state. */
void rp_replay_name_tensor(struct rp_replaying *p);

/* ---- replay.c ---- */

#define RP_REPLAY_POLL_MS 200

/* ---- replay_local.c ---- */

/* Keys with values that are this verifier's; value NULL: not set. */
int rp_replay_set_local(struct rp_recipe *r, const char *const (*local)[2], int n, struct rp_err *err) rp_must_check;
/* What is counted: "step", "steps", "micro-batches". */
const char *rp_replay_unit(const struct rp_replaying *p, int64_t n);
double rp_replay_limit_s(const struct rp_replaying *p);

/* ---- replay_state.c ---- */

/* --state has the root that was recorded after the last replayed step. */
int rp_replay_check_result(const struct rp_replaying *p, struct rp_err *err) rp_must_check;
/* The temporary file to which the replay saves its own state; its comparison with --state, element by element. */
int rp_replay_make_file(struct rp_replaying *p, struct rp_err *err) rp_must_check;
void rp_replay_remove_file(struct rp_replaying *p, pid_t worker);
int rp_replay_compare_files(struct rp_replaying *p, struct rp_err *err) rp_must_check;
/* Can training have led to the state, in a run that answers a challenge and starts from its seeds, and a part after its
 * first? */
int rp_replay_judge_state(struct rp_replaying *p, struct rp_err *err) rp_must_check;
