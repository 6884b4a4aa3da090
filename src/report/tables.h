/* The tables of a run that report.md and the page of `repro report` share.
 *
 * What:    one function per table; each reads run.json only.
 * Flow:    run.json -> blocks of a document.
 * Owner:   the caller's document; nothing of run.json is kept.
 * Extend:  a figure is a row in tables.c. report.md is sealed: another row of it needs a new version of the bundle's documents.
 */
#pragma once

#include "report/doc.h"

/* A percentile needs that many timed steps: of fewer it is the longest step under another name. */
#define RP_P90_STEPS 10
#define RP_P99_STEPS 100
int rp_table_has_steps_for(const json_t *run, const char *pointer); /* 1 for any pointer that is not such a percentile */

void rp_table_ranks(struct rp_doc *d, const json_t *run);   /* of a run of several */
void rp_table_places(struct rp_doc *d, const json_t *run);  /* of a run of several: devices, processors and memory of each */
void rp_table_windows(struct rp_doc *d, const json_t *run); /* nothing for a single window */
void rp_table_figures(struct rp_doc *d, const json_t *run);
void rp_table_telemetry(struct rp_doc *d, const json_t *run);
void rp_table_devices(struct rp_doc *d, const json_t *run); /* telemetry of each rank; nothing for one */
void rp_table_ceilings(struct rp_doc *d, const json_t *run);
void rp_table_exchange(struct rp_doc *d, const json_t *run);    /* of several ranks, where their exchanges were measured */
void rp_table_overrides(struct rp_doc *d, const json_t *run);   /* nothing where nothing was overridden */
void rp_table_changes(struct rp_doc *d, const json_t *run);     /* of the environment, during the run */
void rp_table_agreement(struct rp_doc *d, const json_t *run);   /* with the run that it replicates */
void rp_table_differences(struct rp_doc *d, const json_t *run); /* between the machines of those two */
