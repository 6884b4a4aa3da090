/* A run of several processes: mpirun, srun and others start one per rank or per node. Process 0 leads: it decides,
 * records and seals; the others train their ranks, capture their machines and pass everything on.
 *
 * What:    joining, with the comparison of everything that has to be equal; captures of all hosts; the part of the
 *          others.
 * Flow:    options, environment -> rp_run_job_detect(); recipe and samples -> rp_run_job_join(); process 0
 *          goes on in cli/run_session.c with the workers of all (worker/group.h), the others in rp_run_job_follow().
 * Owner:   struct rp_run_job owns its connections: rp_run_job_fini().
 * Extend:  another quantity that has to be equal is a line of facts_of().
 *
 * While a process is busy with something else, a thread keeps its connections alive: rp_run_job_tend() and _untend().
 */
#pragma once

#include "supervise/joining.h"
#include "worker/group.h"
#include "worker/job.h"
#include "worker/rank.h"

#include <pthread.h>

struct rp_run_job {
    int several; /* 0: one process */
    int ranks;   /* that this process brings */
    struct rp_joining joining;
    int tended;
    int stop;    /* asks the thread to end */
    pthread_t thread;
};

struct rp_run_job_opts {
    const struct rp_recipe *recipe; /* what this process would train; NULL: nothing, like the two below */
    const char *samples;            /* digest of the data */
    /* GPUs exchange by NCCL, processors by sockets: one job has one kind, unless all use sockets */
    const char *backend;
    int other_programs;             /* --allow-different-programs */
    const json_t *about;            /* what the others should know besides; NULL: nothing */
};

/* ranks: --ranks, 0: not given. RP_USAGE: a launcher and --ranks both say how many there are. */
int rp_run_job_detect(struct rp_run_job *j, const struct rp_joining_opts *o, int ranks,
                      struct rp_err *err) rp_must_check;
int rp_run_job_join(struct rp_run_job *j, const struct rp_joining_opts *o, const struct rp_run_job_opts *what,
                    struct rp_progress *progress, struct rp_err *err) rp_must_check;
void rp_run_job_fini(struct rp_run_job *j);
void rp_run_job_tend(struct rp_run_job *j);
void rp_run_job_untend(struct rp_run_job *j);

/* ---- process 0 ---- */

/* Hosts of the job, at least 1. */
int rp_run_job_hosts(const struct rp_run_job *j);
/* Captures of the hosts that are not this one: document[h], and *xml[h] if hwloc worked there; [hosts], entry 0 stays
 * as it is. */
int rp_run_job_ask_captures(struct rp_run_job *j, const char *salt, int identify, struct rp_err *err) rp_must_check;
int rp_run_job_take_captures(struct rp_run_job *j, json_t **document, struct rp_buf *xml,
                             struct rp_err *err) rp_must_check;
/* [world] the host of each rank; the caller frees it. */
int *rp_run_job_rank_hosts(const struct rp_run_job *j);
int rp_run_job_gpus(const struct rp_run_job *j); /* ranks on GPUs */
/* Of rank 0, once the processes have joined. */
struct rp_cpu_sharers rp_run_job_cpu_sharers(const struct rp_run_job *j);
/* reason NULL: the run was sealed. */
void rp_run_job_end(struct rp_run_job *j, const struct rp_err *reason);

/* ---- the others ---- */

/* Captures this machine for process 0, which asked by CAPTURE. */
int rp_run_job_send_capture(struct rp_run_job *j, const json_t *asked, struct rp_err *err) rp_must_check;

struct rp_follow_opts {
    const struct rp_recipe *recipe; /* as this process loaded it: run.isa, run.threads and the like are its own */
    const struct rp_backend *backend;
    const char *data;               /* the samples here */
    const char *layout;             /* --layout of this process, NULL: none */
    int identify;
    int (*check)(void *arg, struct rp_err *err); /* -1: the job is over, with *err; NULL: none */
    void *check_arg;
    struct rp_progress *progress;
};
/* Until process 0 ends the job. */
int rp_run_job_follow(struct rp_run_job *j, const struct rp_follow_opts *o, struct rp_err *err) rp_must_check;
