/* The tables of a run that `report` shows as Markdown and on pages.
 *
 * What:    one function per table; each reads facts.json and run.json only, that of findings captures only.
 * Flow:    facts.json and run.json -> blocks of a document.
 * Owner:   the caller's document; nothing of the run is kept.
 * Extend:  a row of facts.def or figures.def that has a label is a row of rp_table_figures(), in a form by its type and
 *          unit; a unit that is scaled for people is a row of units[]. A number without a unit is a share, shown as
 *          percentage.
 */
#pragma once

#include "report/doc.h"

struct rp_facts; /* run/facts.h */
struct rp_figures;
struct rp_run_documents; /* run/run.h */
struct rp_run;

/* A percentile needs that many timed steps: of fewer it is the longest step under another name. */
#define RP_P90_STEPS 10
#define RP_P99_STEPS 100
/* 1 for any pointer that is not such a percentile */
int rp_table_has_steps_for(const struct rp_figures *f, const char *pointer);

void rp_table_ranks(struct rp_doc *d, struct rp_run_documents *r);   /* nothing for one */
/* devices and memory of each rank; nothing for one */
void rp_table_places(struct rp_doc *d, struct rp_run_documents *r);
void rp_table_windows(struct rp_doc *d, struct rp_run_documents *r); /* nothing for a single window */
void rp_table_figures(struct rp_doc *d, struct rp_run_documents *r); /* what has a label; what is unknown is left out */
void rp_table_telemetry(struct rp_doc *d, struct rp_run_documents *r);
void rp_table_devices(struct rp_doc *d, struct rp_run_documents *r); /* telemetry of each rank; nothing for one */
void rp_table_ceilings(struct rp_doc *d, struct rp_run_documents *r);
/* of several ranks, where their exchanges were measured */
void rp_table_exchange(struct rp_doc *d, struct rp_run_documents *r);
void rp_table_overrides(struct rp_doc *d, struct rp_run_documents *r);   /* nothing where nothing was overridden */
/* of the environment, on every node, during the run */
void rp_table_changes(struct rp_doc *d, struct rp_run_documents *r);
void rp_table_agreement(struct rp_doc *d, struct rp_run_documents *r);   /* with the run that it replicates */
void rp_table_differences(struct rp_doc *d, struct rp_run_documents *r); /* between the machines of those two */

/* A command: the results of its log, its words and end, its files and streams. */
void rp_table_command(struct rp_doc *d, struct rp_run_documents *r);

/* Findings in the captures before a run or a command; nothing where doctor finds nothing. */
void rp_table_findings(struct rp_doc *d, const struct rp_run *r);

/* The first rank of which telemetry is missing or ended early, and facts.json has the reason; -1: there is none. */
int64_t rp_without_telemetry(const struct rp_facts *f);
