/* The sections of one bundle on a page: inner header of page/.
 *
 * What:    the list of sections, and what each of them reads.
 * Flow:    struct rp_section -> HTML of one section.
 * Owner:   borrowed; rp_section_init() fills it.
 * Extend:  a section is a row of RP_SECTIONS and rp_section_NAME(). Figures go through rp_figure(), text through
 *          rp_html_text(); no scripts, no inline styles. What depends on the author (verdict, trust, ledger) goes into
 *          the box (box.h).
 */
#pragma once

#include "page/page.h"
#include "page/plot.h"
#include "report/doc.h"
#include "report/escape.h"
#include "report/figure.h"

#define RP_RUN "run.json"
#define RP_BEFORE RP_OF_NODE(0, ".before.json")

/* In the order of the page. X(id, entry of the contents, heading) */
#define RP_SECTIONS(X)                                                                                                 \
    X(command, "Command", "The command, measured by its own log")                                                      \
    X(agreement, "Agreement", "Agreement with the replicated run")                                                     \
    X(steps, "Steps", "Throughput and steps")                                                                          \
    X(ranks, "Ranks", "Ranks")                                                                                         \
    X(phases, "Time", "Where the time went")                                                                           \
    X(loss, "Loss", "Loss")                                                                                            \
    X(device, "Device", "The device during training")                                                                  \
    X(ceilings, "Ceilings", "Ceilings of the device")                                                                  \
    X(memory, "Memory", "Memory")                                                                                      \
    X(baselines, "Baselines", "Published results")                                                                     \
    X(topology, "Topology", "Topology")                                                                                \
    X(environment, "Environment", "Environment")                                                                       \
    X(settings, "Settings", "Settings")                                                                                \
    X(attempts, "Attempts", "Attempts")                                                                                \
    X(signatures, "Signatures", "Countersignatures")                                                                   \
    X(repeat, "Verify it", "Verify and repeat it")

/* A source that is not a member but an entry of `verify --json`. */
#define RP_OF_SIGNATURES "verify/signatures"

struct rp_section {
    struct rp_buf *out;
    int index; /* of the bundle on the page: part of every id */
    const struct rp_shown_bundle *b;
    const json_t *run; /* rp_run_shown() */
    const struct rp_facts *facts;
    const struct rp_figures *figures;
    const json_t *before; /* the capture of that node */
    int node;
    const struct rp_records *records;
    const struct rp_telemetry *telemetry; /* of the rank whose times the run has; n 0: none */
    int rank;                             /* that rank: the slowest */
    char digest[RP_SHA256_HEX];           /* of statement.dsse.json: identifies the bundle */
};

/* Fills it for a bundle that did not fail. */
void rp_section_init(struct rp_section *s, struct rp_buf *out, int index, const struct rp_shown_bundle *b);
void rp_section_contents(struct rp_section *s); /* <nav> with a link to each section */
void rp_section_bundle(struct rp_section *s);   /* all sections; index 0: alone on its page */

#define SECTION(id, entry, title) void rp_section_##id(struct rp_section *s);
RP_SECTIONS(SECTION)
#undef SECTION

/* Adds HTML in which each {POINTER FORM} is that figure of the run (report/figure.h). */
void rp_section_fill(struct rp_section *s, const char *html);
/* The same; a pointer that begins with "~" is one of the slowest rank: {~/device/isa t}. */
void rp_section_fill_slowest(struct rp_section *s, const char *html);
/* of report/tables.h */
void rp_section_table(struct rp_section *s, void (*table)(struct rp_doc *, struct rp_run_documents *));
/* A link to download bytes that are inside the page; kind: "step". */
void rp_section_download(struct rp_section *s, const struct rp_buf *csv, const char *kind, const char *source);
/* A value of the run that is neither null nor empty; a pointer may begin with "~" too. */
int rp_section_has(const struct rp_section *s, const char *pointer);
/* The recipe's own title, which --set did not replace: a page has it as the name of the bundle. Else NULL. */
const char *rp_page_title(const struct rp_facts *f);
const char *rp_page_recipe(const struct rp_facts *f);                              /* its recipe, without "embedded:" */
/* of that node's capture before the run */
int rp_before_figure(struct rp_section *s, const char *pointer, const char *form);
/* the same, with the capture of another node */
struct rp_section rp_section_of_node(const struct rp_section *s, int node);
/* Throughput first, then the machine: above everything else on the page of a bundle. */
void rp_section_headline(struct rp_section *s);
