/* A run as its bundle has it.
 *
 * What:    run.json, the captures of every node, the records of all ranks and the recorded settings; and questions about
 *          them: on which node and device a rank was, when its steps were timed, how many threads there were.
 * Flow:    a bundle's members, whose form has been checked -> struct rp_run -> checks, page, comparison.
 * Owner:   rp_run_fini() frees everything; what functions return belongs to the run.
 * Extend:  a question that two files have is a function here.
 *
 * A rank and a node are numbers from 0. Captures are NULL where a run that failed lacks them.
 */
#pragma once

#include "backend/backend.h"
#include "comm/comm.h"
#include "recipe/recipe.h"
#include "run/records.h"
#include "run/results.h"
#include "run/telemetry.h"

#include <jansson.h>

struct rp_captures {
    json_t *before, *after;
};
struct rp_run {
    json_t *json;             /* run.json */
    struct rp_captures *node; /* [nodes] */
    int nodes;
    struct rp_recipe recipe;   /* the recorded settings, with the batch size that was planned */
    struct rp_records records; /* of all ranks, as one list */
    struct rp_all_ranks ranks;
    struct rp_telemetry telemetry; /* of the slowest rank, whose times `records` has; n 0: none */
};
void rp_run_fini(struct rp_run *r);

/* ---- ranks and nodes ---- */
const json_t *rp_run_rank(const struct rp_run *r, int64_t rank);   /* of run.json's world; NULL if it has no list */
const json_t *rp_run_device(const struct rp_run *r, int64_t rank); /* of that rank, or of the run */
int rp_run_on_cpu(const struct rp_run *r, int64_t rank);
int rp_run_node_of(const struct rp_run *r, int64_t rank); /* 0 where run.json names a node that does not exist */
/* Of a node, before or after the run; NULL: there is none. */
const json_t *rp_run_capture(const struct rp_run *r, int node, int after);
/* Figures of a rank's device samples, {"reason"}, or NULL. */
const json_t *rp_run_rank_telemetry(const struct rp_run *r, int rank);
double rp_run_expected_samples(const struct rp_run *r, int rank); /* that its timed window should have */
int rp_run_lacks_samples(const struct rp_run *r, int rank);       /* it has less than half of them */
enum rp_route rp_run_route(const struct rp_run *r);               /* of the messages of its ranks */
/* The clock of each rank as run.json has it; the caller frees it. RP_MALFORMED: it contradicts itself. */
int rp_run_clocks(struct rp_rank_clock **out, const struct rp_run *r, int ranks, struct rp_err *err) rp_must_check;

/* ---- devices ---- */
#define RP_CPUS_MAX 65536 /* numbers of processors, as in threads of run.schema.json */
/* Sets set[i] of "0-3,8", [RP_CPUS_MAX]; -1 for another form, or a number that is too large. */
int rp_cpu_list(unsigned char *set, const char *list);
/* Processors on which the CPU ranks of a node could run, all together; `most` if that is fewer, or they do not say. */
int rp_run_processors(const struct rp_run *r, int node, int most);
/* Devices that compute at once: GPUs, of which several ranks may share one, or threads, of each node at most those that
 * it has. */
int64_t rp_run_devices(const struct rp_run *r);

/* ---- settings, steps, time ---- */
struct rp_degrees
rp_run_layout(const json_t *run);          /* ranks of each kind; 1 x 1 x 1 where they are not numbers of ranks */
int rp_run_is_complete(const json_t *run); /* it reached its end */
int64_t rp_run_steps(const json_t *run);   /* of its results: warm-up and timed */
int rp_run_cpu(struct rp_device_info *out, const json_t *run);          /* its device; -1 where that is not a CPU */
void rp_run_window(const struct rp_run *r, int64_t *from, int64_t *to); /* start and end of the timed steps, or -1 */
/* A setting that differs from the recipe and is not about where and how long to run, and what set it; NULL: none. */
const char *rp_run_changed_setting(const json_t *run, const char **by);
int rp_run_same_build(
    const json_t *run); /* a clean build of the commit of this program made it, and this one is clean */
/* Whole days between the making of its signer's key and the first line of the ledger; 0: less than one, or unknown. */
int64_t rp_run_ledger_gap(const json_t *run);
/* Seconds since 1970 of a time of a document that passed its schema; NaN for a date that does not exist. */
double rp_wall_time(const json_t *document, const char *key);
