/* State shared by the checks: inner header of verify/.
 *
 * What:    the bundle and, as checks pass, its parsed parts.
 * Flow:    a check may use what earlier fatal checks filled in.
 * Owner:   rp_verify() frees everything.
 * Extend:  a part that several checks need is a field of struct rp_verify_state.
 */
#pragma once

#include "backend/backend.h"
#include "bundle/bundle.h"
#include "recipe/recipe.h"
#include "run/records.h"
#include "run/results.h"
#include "run/telemetry.h"
#include "sign/dsse.h"
#include "verify/verify.h"

struct rp_verify_state {
    const char *path;
    const struct rp_verify_opts *o;
    struct rp_verification *v;
    int fd;                       /* container: the open file, for members that are not kept in memory; -1 */
    struct rp_bundle bundle;      /* container */
    struct rp_envelope envelope;  /* signature */
    struct rp_key_pair *key;      /* signature: of key.pem */
    json_t *statement;            /* statement */
    json_t *run, *before, *after; /* schema; captures of node 0 */
    int nodes;                    /* schema */
    struct rp_captures *node;     /* schema: [nodes], of those after the first; NULL where a failed run lacks one */
    struct rp_records records;    /* schema: of all ranks, as one list */
    struct rp_all_ranks ranks;    /* schema */
    struct rp_telemetry telemetry;  /* telemetry: of the slowest rank, whose times `records` has; n 0: none */
    struct rp_recipe recipe;      /* schema: the recorded settings, with the batch size that was planned */
};

/* 0 passed (or a note, a warning or skipped), -1 failed with the message in *err; result->text is the remark of a check that passed. */
#define VERIFY(id, severity, proves, how)                                                                                       \
    int rp_check_##id(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
#include "verify/checks.def"
#undef VERIFY

int rp_verify_on_cpu(const struct rp_verify_state *s, int rank); /* the rank trained on processors */
/* A rank of run.json's world, NULL if it has no list; the state with the captures of that node, NULL where a failed run lacks them. */
const json_t *rp_verify_rank(const struct rp_verify_state *s, int64_t rank);
struct rp_verify_state rp_verify_node(const struct rp_verify_state *s, int node);
/* The device of a rank against the captures of its node, which *one has; set: the settings of run.json are those of its process. */
int rp_verify_device_of(const struct rp_verify_state *one, const json_t *device, int set, struct rp_err *err) rp_must_check;
/* Processors on which the CPU ranks of a node could run, all together; `most` if that is fewer, or they do not say. */
int rp_verify_processors(const json_t *run, int node, int most);
/* Threads of all ranks that compute at once: of each node at most those that it has, more take turns. before: capture of node 0; node:
 * [nodes], those of the others. */
int64_t rp_verify_threads(const json_t *run, const json_t *before, const struct rp_captures *node, int nodes);
/* Of several ranks: devices, processors and memory of each against the captures of its node. */
int rp_verify_places(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;

/* The run was made by a clean build of the same commit as this program. */
int rp_verify_same_build(const struct rp_verify_state *s);
/* Seconds since 1970 of a time of a document that passed its schema; NaN for a date that does not exist. */
double rp_verify_wall(const json_t *j, const char *key);
/* A setting that differs from the recipe and is not about where and how long to run, and what set it; NULL: none. */
const char *rp_verify_changed_setting(const struct rp_verify_state *s, const char **by);
struct rp_degrees rp_verify_degrees(const json_t *run); /* ranks of each kind; 1 x 1 x 1 where they are not numbers of ranks */
int64_t rp_verify_steps(const json_t *run); /* of its results: warm-up and timed */
int rp_verify_cpu(struct rp_device_info *out, const json_t *run); /* its device; -1 where that is not a CPU */

void rp_verify_window(const struct rp_verify_state *s, int64_t *from, int64_t *to); /* start and end of the timed steps, or -1 */
/* By the signer's own key, or by one that countersigned: its time and nonce are the signer's choice. */
int rp_verify_own_challenge(const struct rp_verify_state *s, const struct rp_challenge *c);
/* Who made it: "'lab'" of the trust store, "SHA256:..., which is not in your trust store", or a public value. */
void rp_verify_challenger(char out[RP_CHALLENGER], const struct rp_verify_state *s, const struct rp_challenge *c);
/* Of a run of several ranks (check_world.c): the node of rank i, and that node's captures, NULL of a run that failed. */
int rp_verify_node_of(const struct rp_verify_state *s, int i);
const json_t *rp_verify_capture(const struct rp_verify_state *s, int node, int after);
enum rp_route rp_verify_route(const struct rp_verify_state *s); /* of the messages of its ranks */
/* The clock of each rank, as run.json has it; the caller frees it. */
int rp_verify_clocks(struct rp_rank_clock **out, const struct rp_verify_state *s, int ranks, struct rp_err *err) rp_must_check;
/* Places, steps and exchanges; captures of several nodes; how many machines those are. */
int rp_verify_machines(const struct rp_verify_state *s);
int rp_verify_world(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
int rp_verify_nodes(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
/* Whole days between the making of its signer's key and the first line of the ledger; 0: less than one, or unknown. */
int64_t rp_verify_ledger_gap(const json_t *run);
int rp_verify_complete(const struct rp_verify_state *s);                            /* the run reached its end */
/* Figures of a rank's device samples, {"reason"}, or NULL; whether it has less than half of those that its timed window should have. */
const json_t *rp_verify_telemetry(const struct rp_verify_state *s, int rank);
int rp_verify_few_samples(const struct rp_verify_state *s, int rank);

/* One line for each valid countersignature. */
void rp_signatures_text(struct rp_buf *out, const struct rp_verification *v);

/* One line for each valid time stamp. */
void rp_timestamps_text(struct rp_buf *out, const struct rp_verification *v);

/* Printable ASCII into the result's text; 0, so that a check can end with it. The others also set the state. */
int rp_check_text(struct rp_check_result *result, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define rp_check_note(result, ...) ((result)->state = RP_CHECK_NOTE, rp_check_text(result, __VA_ARGS__))
#define rp_check_warn(result, ...) ((result)->state = RP_CHECK_WARNING, rp_check_text(result, __VA_ARGS__))
#define rp_check_skip(result, ...) ((result)->state = RP_CHECK_SKIPPED, rp_check_text(result, __VA_ARGS__))
/* The first difference of two documents as "results/flops_per_s is 9, expected 3.5". 0 if they are equal. */
int rp_check_differ(char *text, size_t size, const json_t *is, const json_t *expected);
