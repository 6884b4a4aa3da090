/* Every figure of a run, from what was observed.
 *
 * What:    run.json as a function of facts.json, the records and telemetry of all ranks, the captures and, of a
 *          replication, its original.
 * Flow:    struct rp_run without figures -> rp_derive() -> struct rp_figures; when a run is sealed and again in
 *          `verify`.
 * Owner:   the figures own what they hold: rp_object_fini().
 * Extend:  a figure is a row of figures.def and a line in the function that computes its object.
 */
#pragma once

#include "bundle/bundle.h"
#include "run/facts.h"
#include "run/run.h"
#include "run/telemetry.h"

/* All figures but telemetry and agreement. RP_MISMATCH: the records do not agree with the settings, or the captures
 * have another form. */
int rp_derive(struct rp_figures *out, const struct rp_run *r, struct rp_err *err) rp_must_check;
/* All figures of a command but telemetry. node: the captures of all its nodes. log: the bytes of the member of log/
 * that has its figures; NULL: there is none. *why: what the importer refused, if figures.log.read is false.
 * RP_MISMATCH: this program has no importer of that name. */
int rp_derive_command(struct rp_command_figures *out, const struct rp_command_facts *facts,
                      const struct rp_captures *node, const struct rp_buf *log, struct rp_err *why,
                      struct rp_err *err) rp_must_check;
/* The telemetry of one of its devices, from start to end of the process that sampled it; then of all devices. */
void rp_derive_device(struct rp_command_figures *f, int device, const struct rp_telemetry *s,
                      const struct rp_command_process *p);
void rp_derive_devices(struct rp_command_figures *f);
/* What figures.recipe_sha256 of a command is: its ledger entries have it. */
void rp_command_sha256(char out[RP_SHA256_HEX], const struct rp_command_facts *facts);
/* The name of the member of log/ with the figures; NULL: there is none. */
const char *rp_command_log_member(char out[RP_MEMBER_NAME], const struct rp_command_facts *facts);
/* What was kept of that log; NULL: there is none. */
const struct rp_kept_facts *rp_command_log_kept(const struct rp_command_facts *facts);
int rp_command_log_reads(const struct rp_log_facts *log, const struct rp_buf *bytes); /* the importer finds a figure */
/* What the signer chose, and the log does not have: "global_batch=64, images/s, from step 10"; "": nothing. */
const char *rp_command_log_given(char text[160], const struct rp_log_facts *log);
/* Bytes that the bundle may have of the output of a process, and of the log. */
size_t rp_command_output_most(int64_t processes, int is_log);
/* The longest time that a result of the log says it was measured over, and whether the command was too short for it:
 * then the log is of something else, or its times were read as what they are not. 0: the log has no times. */
double rp_command_log_s(const struct rp_command_figures *figures);
int rp_command_too_short(const struct rp_command_figures *figures);
/* The time that the steps took whose rates the log prints without times, if the command was too short for it; 0: it was
 * not, or samples per step are unknown. Samples per step that are misread give it, too. */
double rp_command_rates_s(const struct rp_command_figures *figures);
/* The telemetry of one rank's device, in the window of its own timed steps; then of all ranks. */
void rp_derive_telemetry(struct rp_figures *f, int rank, const struct rp_telemetry *s,
                         const struct rp_rank_share *share);
void rp_derive_telemetry_of_all(struct rp_figures *f, const struct rp_facts *facts, const struct rp_records *rs);

int rp_command_nodes(const struct rp_command_facts *facts); /* the highest number of a process's node, plus 1 */
int rp_changes_most(int nodes); /* that run.json lists of a node */

/* ---- parts of rp_derive() ---- */
/* Between the captures of each node, added to a list of nodes. */
int rp_derive_changes(struct rp_node_figures **node, int64_t *n, const struct rp_captures *of, int nodes,
                      struct rp_err *err) rp_must_check;
void rp_derive_results(struct rp_figures *f, const struct rp_records *rs, const struct rp_model *m);
void rp_derive_ceilings(struct rp_figures *f, const struct rp_facts *facts);
/* Rates of the device of a rank, in a run of `ranks`; NULL if t is NULL. The caller frees it after rp_object_fini(). */
struct rp_ceiling_rates *rp_ceiling_rates_of(const struct rp_ceiling_times *t, int64_t ranks);

/* n bootstrap resamples of the headline figure, as for its interval; 0 if fewer than two steps were timed. */
int rp_results_resample(double *out, int n, const struct rp_records *rs);
/* Nanoseconds from the start of a timed step to that of the next one of its repeat, without a state root between; the
 * last one of a repeat (next NULL) to its own end. */
int64_t rp_cycle_ns(const struct rp_step_record *r, const struct rp_step_record *next);
