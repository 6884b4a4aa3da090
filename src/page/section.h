/* The sections of one bundle on a page: inner header of page/.
 *
 * What:    what every section reads, and the sections.
 * Flow:    struct rp_section -> HTML of one section.
 * Owner:   borrowed; bundle.c fills it.
 * Extend:  a section is a function here and a line in bundle.c.
 */
#ifndef RP_PAGE_SECTION_H
#define RP_PAGE_SECTION_H

#include "page/html.h"
#include "page/page.h"
#include "page/plot.h"

#define RP_RUN "run.json"
#define RP_BEFORE RP_OF_NODE(0, ".before.json")
#define RP_STEPS RP_OF_RANK(0, ".jsonl")
#define RP_SAMPLES RP_OF_RANK(0, ".samples.jsonl")

/* A source that is no member but what verify --json says under this name. */
#define RP_OF_SIGNATURES "verify/signatures"

/* What the first line of a bundle begins with on a page, up to the digest of its statement. */
#define RP_HTML_MARK "<section class=\"bundle\" data-bundle=\""
#define RP_MARKDOWN_MARK "> statement SHA-256 `"

struct rp_section {
    struct rp_buf *out;
    int index; /* of the bundle on the page: part of every id */
    const struct rp_shown_bundle *b;
    const json_t *run, *before;
    const struct rp_records *records;
    const struct rp_samples *samples; /* n 0: none */
    char digest[RP_SHA256_HEX]; /* of statement.dsse.json: which bundle this is */
};

/* Fills it for a bundle that did not fail. */
void rp_section_init(struct rp_section *s, struct rp_buf *out, int index, const struct rp_shown_bundle *b);
void rp_section_bundle(struct rp_section *s); /* all of them; index 0: alone on its page, whose title is its */
void rp_section_markdown(struct rp_section *s); /* who signed, on what it ran, and the sealed report */

void rp_section_agreement(struct rp_section *s);
void rp_section_attempts(struct rp_section *s);
void rp_section_signatures(struct rp_section *s);
int rp_section_is_there(const struct rp_section *s, const char *id); /* some are only there when the bundle has what they show */
void rp_section_steps(struct rp_section *s);
void rp_section_loss(struct rp_section *s);
void rp_section_device(struct rp_section *s);
void rp_section_memory(struct rp_section *s);
void rp_section_baselines(struct rp_section *s);
void rp_section_ceilings(struct rp_section *s);
void rp_section_topology(struct rp_section *s);
void rp_section_environment(struct rp_section *s);
void rp_section_settings(struct rp_section *s);
void rp_section_repeat(struct rp_section *s);

/* Of so many timed steps on a percentile of them says something; 1 for any other figure. */
#define RP_P90_STEPS 10
#define RP_P99_STEPS 100
int rp_section_has_steps_for(const struct rp_section *s, const char *pointer);
void rp_section_throughput(struct rp_section *s, int with_unit); /* the value */
void rp_section_interval(struct rp_section *s, const char *before); /* "LOW to HIGH"; nothing where there is none */
/* What trained, and how: its name where it has one; its instruction set and threads, or its compute capability. */
void rp_section_hardware(struct rp_section *s);
void rp_section_how(struct rp_section *s);
void rp_section_open(struct rp_section *s, const char *id, const char *title); /* <section> with its heading */
void rp_section_close(struct rp_section *s);
/* A table with a caption and names of columns, separated by '|'; '#' before one of figures. */
void rp_table_open(struct rp_buf *out, const char *caption, const char *columns);
void rp_table_close(struct rp_buf *out);
/* Figures of run.json, and of the capture before the run. */
int rp_run_figure(struct rp_section *s, const char *pointer, const char *form);
int rp_before_figure(struct rp_section *s, const char *pointer, const char *form);
/* <tr> of a name, a figure of run.json and a unit, which is a figure itself where it begins with '/'; left out where there is no such
 * figure. */
void rp_run_row(struct rp_section *s, const char *name, const char *pointer, const char *form, const char *unit);

#endif
