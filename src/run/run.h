/* A run as its bundle has it.
 *
 * What:    facts.json and run.json as structs, the captures of every node, the records of all ranks and the recorded
 *          settings; and questions about them: on which node and device a rank was, when its steps were timed, how
 *          many threads there were.
 * Flow:    a bundle's members, whose form has been checked -> struct rp_run -> checks, page, comparison.
 * Owner:   rp_run_fini() frees everything; what functions return belongs to the run. The two documents are counted
 *          references.
 * Extend:  a question that two files have is a function here.
 *
 * A command that somebody else's program ran (doc->command) has captures, and nothing else of these but the telemetry
 * of a device.
 *
 * A rank and a node are numbers from 0, and exist: rp_run_documents_read() has compared the lists. A run of one rank
 * has rank 0 on node 0. Captures are NULL where a run that failed lacks them.
 */
#pragma once

#include "backend/backend.h"
#include "comm/comm.h"
#include "recipe/recipe.h"
#include "run/facts.h"
#include "run/records.h"
#include "run/telemetry.h"

#include <jansson.h>

/* facts.json and run.json, as they are in the bundle. */
struct rp_run_documents {
    int references;
    struct rp_facts facts;
    struct rp_figures figures;
    /* Both members of another program's command, else NULL. Then `facts` and `figures` have what these share with a run
     * (status, times, program, ledger, clocks and hosts of processes, telemetry of all devices, changes of the
     * machines; recipe_name is the command's name); there are no ranks, no recipe and no records, and other texts are
     * empty. */
    struct rp_command_facts *command;
    struct rp_command_figures *observed;
    json_t *facts_json, *figures_json; /* the same */
    json_t *shown;                     /* rp_run_shown() */
};
/* Reads two documents that follow their schemas, and takes a reference of each. RP_MALFORMED: their lists of ranks or
 * nodes do not fit. */
struct rp_run_documents *rp_run_documents_read(json_t *facts, json_t *figures, struct rp_err *err) rp_must_check;
/* The same of the bundle of a command. */
struct rp_run_documents *rp_run_documents_read_command(json_t *facts, json_t *figures,
                                                       struct rp_err *err) rp_must_check;
struct rp_run_documents *rp_run_documents_use(struct rp_run_documents *d); /* another reference; NULL is fine */
/* Frees the JSON documents and the roots of tensors; the other values remain. For comparisons of many bundles. */
void rp_run_documents_shrink(struct rp_run_documents *d);
void rp_run_documents_free(struct rp_run_documents *d); /* drops one */
/* Both as one document, for renderers: what both have is merged, rank by rank and key by key, so that
 * "/rank/3/device/name" (of facts.json) and "/rank/3/timed_s" (of run.json) stand side by side. Its key "run.json" is
 * that member alone, by which rp_figure() tells the source of a value. Borrowed. */
const json_t *rp_run_shown(struct rp_run_documents *d);

struct rp_captures {
    json_t *before, *after;
};
struct rp_run {
    struct rp_run_documents *doc;
    const struct rp_facts *facts;     /* of doc */
    const struct rp_figures *figures; /* of doc; while a run is sealed, not yet there */
    struct rp_captures *node;         /* [nodes] */
    int nodes;
    char recipe_sha256[RP_SHA256_HEX]; /* of recipe.yaml */
    struct rp_recipe recipe;           /* the recorded settings, with the batch size that was planned */
    struct rp_records records;         /* of all ranks, as one list */
    struct rp_all_ranks ranks;
    struct rp_telemetry telemetry; /* of the slowest rank, whose times `records` has, or the first sampled device of a
                                    * command; n 0: none */
};
void rp_run_fini(struct rp_run *r);

/* ---- ranks and nodes ---- */
int rp_facts_nodes(const struct rp_facts *f);                     /* the highest number of a rank's node, plus 1 */
const char *rp_rank_kind(const struct rp_facts *f, int64_t rank); /* "cpu" or "cuda": of its device, or the backend's */
const char *rp_facts_kind(const struct rp_facts *f);              /* that of all ranks, or "mixed" */
int rp_rank_on_cpu(const struct rp_facts *f, int64_t rank);
/* "rank 3" or "node 1" between two texts, for messages; "" where the run has only one. */
#define RP_WHO 64
const char *rp_run_rank_text(char out[RP_WHO], const struct rp_run *r, const char *before, int64_t rank,
                             const char *after);
const char *rp_run_node_text(char out[RP_WHO], const struct rp_run *r, const char *before, int64_t node,
                             const char *after);
/* The capture of a node, before or after the run; NULL: there is none. */
const json_t *rp_run_capture(const struct rp_run *r, int node, int after);
double rp_run_expected_samples(const struct rp_run *r, int rank); /* of its device, that its timed window should have */
int rp_run_lacks_samples(const struct rp_run *r, int rank);       /* it has less than half of them */
enum rp_route rp_run_route(const struct rp_run *r);               /* of the messages of its ranks */
#define RP_CLOCK_ERROR_MOST 10000000000ll /* ns, half of a round trip: connections that take longer are given up */
/* The clock of each rank as facts.json has it; the caller frees it. RP_MALFORMED: it contradicts itself. */
int rp_run_clocks(struct rp_rank_clock **out, const struct rp_facts *f, struct rp_err *err) rp_must_check;
struct rp_degrees rp_facts_degrees(const struct rp_facts *f); /* ranks of each kind */

/* ---- devices ---- */
#define RP_CPUS_MAX 65536 /* numbers of processors */
/* Sets set[i] of "0-3,8", [RP_CPUS_MAX]; -1 for another form, or a number that is too large. */
int rp_cpu_list(unsigned char *set, const char *list);
/* Processors on which the CPU ranks of a node could run, all together; `most` if that is fewer, or they do not say. */
int rp_run_processors(const struct rp_run *r, int node, int most);
/* Devices that compute at once: GPUs, of which several ranks may share one, or threads, of each node at most those that
 * it has. */
int64_t rp_run_devices(const struct rp_run *r);
/* "8 threads of AMD EPYC", "8 x NVIDIA H200"; and with ranks and nodes before it:
 * "32 ranks on 4 nodes: 8 threads of AMD EPYC", "8 ranks on 1 node: 8 x NVIDIA H200"; printable ASCII. */
#define RP_PLACE_TEXT 240
const char *rp_run_devices_text(char out[RP_PLACE_TEXT], const struct rp_run *r);
const char *rp_run_place_text(char out[RP_PLACE_TEXT], const struct rp_run *r);
/* What the capture before a command found: "8 x NVIDIA H200, 96 threads of AMD EPYC"; which of it the command used is
 * not known. */
const char *rp_run_machine_text(char out[RP_PLACE_TEXT], const struct rp_run *r);
/* Ranks on processors may have different ones: threads of all, 0: unknown; their instruction set or "mixed", NULL:
 * unknown. */
int64_t rp_facts_threads(const struct rp_facts *f);
const char *rp_facts_isa(const struct rp_facts *f);
/* 0 for a rank that reported its device, else -1. */
int rp_rank_device(struct rp_device_info *out, const struct rp_facts *f, int64_t rank);
const char *rp_rank_device_text(char text[RP_DEVICE_TEXT], const struct rp_facts *f,
                                int64_t rank); /* "Xeon, avx512, 2 threads" */

/* ---- settings, steps, time ---- */
int rp_facts_complete(const struct rp_facts *f); /* it reached its end */
/* The recorded value of a key of the recipe, or NULL. */
const json_t *rp_facts_setting(const struct rp_facts *f, const char *key);
/* "recipe", "command line", ...; "": it has no such key */
const char *rp_facts_origin(const struct rp_facts *f, const char *key);
/* A degree of parallelism decides the arithmetic, whatever number of ranks computes it: the product of the degrees of
 * a run. */
int64_t rp_facts_parallel(const struct rp_facts *f);
int64_t rp_figures_steps(const struct rp_figures *f);                   /* warm-up and timed */
void rp_run_window(const struct rp_run *r, int64_t *from, int64_t *to); /* start and end of the timed steps, or -1 */
/* A setting that differs from the recipe and is not about where and how long to run, and what set it; NULL: none. */
const char *rp_facts_changed_setting(const struct rp_facts *f, const char **by);
/* The same for one key with its recorded value and origin; NULL: it is the recipe's. */
const char *rp_setting_changed_by(const char *key, const json_t *entry);
int rp_facts_same_build(
    const struct rp_facts *f); /* a clean build of the commit of this program made it, and this one is clean */
/* The rate of a run, or that of the only result in the log of a command; NaN: unknown. *unit: "" where it is. */
double rp_run_throughput(const struct rp_run_documents *d, const char **unit);
/* to train, of the only result in the log of a command; NaN: unknown */
double rp_run_minutes(const struct rp_run_documents *d);
#define RP_MEASURED_BY_LOG "measured by its own log" /* said wherever a command's figures are shown */
/* Whole days between the making of its signer's key and the first line of the ledger; 0: less than one, or unknown. */
int64_t rp_facts_ledger_gap(const struct rp_facts *f);
/* The rate of the only counter, tokens, where every sample has the same number of them; else 0. */
double rp_figures_tokens(const struct rp_figures *f);
/* Seconds since 1970 of a time of a document that passed its schema; NaN for a date that does not exist. */
double rp_wall_time(const char *time);
double rp_captured_at(const json_t *capture); /* the same of its time */
/* The arithmetic and what was scaled: "fp16, tc16, loss scale 65536 to 131072, 3 steps skipped (2 of 16 timed ones)";
 * "" of strict fp32. */
#define RP_PRECISION_TEXT 160
const char *rp_figures_precision(char out[RP_PRECISION_TEXT], const struct rp_figures *f);
/* Whether the GPUs of a run in mixed precision gave the sums of its arithmetic before it began: "tensor cores tested
 * before the run: the sums of repro-fp16-tc16/0", "tensor cores not tested before the run"; "": it used none. */
#define RP_TENSOR_CORES_TEXT 160
const char *rp_tensor_cores_text(char out[RP_TENSOR_CORES_TEXT], const struct rp_facts *f,
                                 const struct rp_figures *figures);
/* What numerics.def says of an arithmetic; "": this program does not know it. */
const char *rp_numerics_what(const char *name);
const char *rp_numerics_of(const struct rp_recipe *r); /* the arithmetic that follows from the recipe: "repro-fp32/1" */
