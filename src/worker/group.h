/* The workers of a run as one: started together, read together, ended together.
 *
 * What:    one worker a rank, on this machine or started by other processes of the job; how each of them is, and which
 *          one made the others fail.
 * Flow:    rp_workers_start() -> rp_workers_next() until rp_workers_finished() or a failure -> rp_workers_end().
 *          Another process of the job starts its own ranks with rp_workers_start_own(), and passes frames on
 *          (supervise/run_job.c).
 * Owner:   the group owns its processes; the job's connections are borrowed.
 * Extend:  a frame that concerns the group itself is a case of take_frame().
 *
 * A rank that fails makes others fail that wait for it. Those name it in their FAILED frame ("lost"), or write that it
 * was another one; the reason of the run is the failure of a rank that blames no other one, if there is one, else of
 * the rank that is named most often, in the words of the first that names it. A rank that only hears from others that
 * it is gone ("lost": itself) is no witness: they cannot reach it.
 *
 * Frames of ranks of other processes arrive as RELAY {"rank", "frame": its number, "body"}. The leader sends them JOB
 * {"job": as in job.h, without "data"; "first", "count": their ranks}, PEERS and STOP, at the end with "kill": whatever
 * still runs.
 */
#pragma once

#include "launch/join.h"
#include "worker/job.h"

struct rp_group_of_workers;

/* Why a run ended early. People get the message, which may name hosts, addresses and files; documents, which are
 * published, get rp_run_reason_text(): the code, the rank and the place, in words of this program. */
struct rp_run_reason {
    struct rp_err err;
    int rank;       /* of several: the one that failed; -1: none, or unknown */
    char place[96]; /* "timed after step 3, state root"; "": before a phase */
    int ended;      /* of a worker that ended without a word: as in struct rp_process */
};
/* Sets rank and place; the message stays. */
void rp_run_reason_at(struct rp_run_reason *r, int rank, const char *place);
/* "unavailable, rank 3, timed after step 3, signal 9: not possible on this machine: ..." */
void rp_run_reason_text(struct rp_buf *out, const struct rp_run_reason *r);

/* The ranks of a job that this process starts, and what they have in common. */
struct rp_own_ranks {
    struct rp_rank_of of; /* rank: unused */
    int first, count;
};

/* The other processes of the job, which start their own ranks. */
struct rp_job_world {
    struct rp_join *join;
    const unsigned char *key; /* of the job */
    const char *id;
};

/* Its ranks train on GPUs, by what it said when it joined: "backend" of its `about`. */
int rp_job_member_has_gpus(const struct rp_job_member *m);
/* The first process on its host that may use the same processors, by "cpus" of their `about`. */
int rp_job_member_cpu_set(const struct rp_join *j, int member);

/* Starts all workers; the ranks of a run of several find each other. world NULL: all ranks are here. NULL: *err, and
 * nothing runs here. */
struct rp_group_of_workers *rp_workers_start(const struct rp_job *job, struct rp_degrees degrees,
                                             const struct rp_job_world *world, struct rp_err *err) rp_must_check;
/* Those of a process that does not lead: frames about finding each other are for the caller. */
struct rp_group_of_workers *rp_workers_start_own(const struct rp_job *job, const struct rp_own_ranks *own,
                                                 struct rp_err *err) rp_must_check;
/* To every worker of this process. */
void rp_workers_tell(struct rp_group_of_workers *g, enum rp_frame type, const json_t *body);
/* The next frame of any rank: 1, or 0 after timeout_ms, a signal or the end of a worker. The caller owns *body. */
int rp_workers_next(struct rp_group_of_workers *g, int timeout_ms, int *rank, enum rp_frame *type, json_t **body);
int rp_workers_finished(const struct rp_group_of_workers *g); /* every rank has sent DONE, or failed */
int rp_workers_failed(const struct rp_group_of_workers *g);   /* a rank has failed, or is gone */
/* By a signal to another process of the job; who: its ranks and host. */
int rp_workers_asked_to_stop(const struct rp_group_of_workers *g, char who[200]);
/* A worker of this process that ended without a word, each once: 1, its rank, how it ended (struct rp_process) and
 * what happened to it. */
int rp_workers_take_gone(struct rp_group_of_workers *g, int *rank, int *ended, struct rp_err *reason);
/* Why, naming the rank if there are several. */
void rp_workers_reason(const struct rp_group_of_workers *g, struct rp_run_reason *r);
/* A rank was silent for longer than limit_ns: 1, and *r names it. */
int rp_workers_hung(const struct rp_group_of_workers *g, uint64_t limit_ns, struct rp_run_reason *r);
/* ns in which no message was read: they do not count as silence of a rank. */
void rp_workers_excuse(struct rp_group_of_workers *g, uint64_t ns);
void rp_workers_stop(struct rp_group_of_workers *g); /* sends STOP to all */
/* Ends those of this process that have sent DONE or FAILED in order, kills the others, and frees the group. */
void rp_workers_end(struct rp_group_of_workers *g);
pid_t rp_workers_pid(const struct rp_group_of_workers *g, int rank); /* of this process */
