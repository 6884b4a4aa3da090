/* The workers of a run as one: started together, read together, ended together.
 *
 * What:    one worker a rank, on this machine; how each of them is, and which one made the others fail.
 * Flow:    rp_workers_start() -> rp_workers_next() until rp_workers_finished() or a failure -> rp_workers_end().
 * Owner:   the group owns its processes.
 * Extend:  ranks of other hosts arrive as frames of a control channel: another source in rp_workers_next().
 *
 * A rank that fails makes others fail that wait for it. Those name it in their FAILED frame ("lost"); the reason of the run is the failure of
 * a rank that names no other one, if there is one, and else of the rank that is named most often.
 */
#pragma once

#include "worker/job.h"

struct rp_group_of_workers;

/* Starts all workers; the ranks of a run of several find each other. NULL: *err, and nothing runs. */
struct rp_group_of_workers *rp_workers_start(const struct rp_job *job, struct rp_degrees degrees, struct rp_err *err) rp_must_check;
/* The next frame of any rank: 1, or 0 after timeout_ms, a signal or the end of a worker. The caller owns *body. */
int rp_workers_next(struct rp_group_of_workers *g, int timeout_ms, int *rank, enum rp_frame *type, json_t **body);
int rp_workers_finished(const struct rp_group_of_workers *g); /* every rank has sent DONE, or failed */
int rp_workers_failed(const struct rp_group_of_workers *g);   /* a rank has failed, or is gone */
/* Why, naming the rank if there are several. */
void rp_workers_reason(const struct rp_group_of_workers *g, struct rp_err *err);
/* A rank was silent for longer than limit_ns: 1, and *err names it. */
int rp_workers_hung(const struct rp_group_of_workers *g, uint64_t limit_ns, struct rp_err *err);
void rp_workers_stop(struct rp_group_of_workers *g); /* sends STOP to all */
/* Ends those that have sent DONE or FAILED in order, kills the others, and frees the group. */
void rp_workers_end(struct rp_group_of_workers *g);
pid_t rp_workers_pid(const struct rp_group_of_workers *g, int rank);
