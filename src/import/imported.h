/* An imported result under construction: facts, figures, and the line of the log that each of them comes from.
 *
 * What:    struct rp_imported: the row of the document, and the source of every value.
 * Flow:    rp_imported_text/count() while lines are read, rp_imported_throughput() at the end -> rp_import_add().
 * Owner:   an imported result owns its documents; zero-initialise it, rp_imported_fini().
 * Extend:  another property is a row of facts.def.
 *
 * The first value counts: a later line with another value is noted, and so is one that --set contradicts.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#include <jansson.h>
#include <stdint.h>

#define RP_DRAFT_NAMED 0    /* in place of a line: from the name of the file */
#define RP_DRAFT_GIVEN (-1) /* from the command line */

struct rp_imported {
    json_t *row;   /* {"label", ..., "throughput", "samples"}; an absent key is unknown */
    json_t *from;  /* key -> number of a line, [first, last], "name of the file" or "command line" */
    /* {"printed": {"value", "unit", "count"}: the log's own rate, "window": {"steps", "seconds"}}; NULL: nothing */
    json_t *
        extra;
    double value;       /* the throughput; NaN, or 0 in a new one: none */
    char unit[40];      /* of it */
    int64_t line;       /* its first; 0: none */
    char *file;         /* name of the log */
    char sha256[RP_SHA256_HEX]; /* of its bytes, once it is read */
    struct rp_buf note;
    char *same; /* drafts of several files with the same text here are repeats of one result; NULL: not a repeat */
};

void rp_imported_fini(struct rp_imported *d);
/* Empty text, and a key that has a value already, change nothing; a different value is noted. */
void rp_imported_text(struct rp_imported *d, const char *key, const char *text, int64_t line);
void rp_imported_textn(struct rp_imported *d, const char *key, const char *text, size_t n, int64_t line);
/* Only where the key has no value: what is known is not contradicted. */
void rp_imported_default(struct rp_imported *d, const char *key, const char *text, int64_t line);
void rp_imported_fact(struct rp_imported *d, const char *key, const char *text,
                      int64_t line); /* of a key of facts.def, by its kind */
void rp_imported_count(struct rp_imported *d, const char *key, int64_t value,
                       int64_t line);                                  /* below 0 or above 1e15: ignored */
int64_t rp_imported_get(const struct rp_imported *d, const char *key); /* -1: unknown */
const char *rp_imported_get_text(const struct rp_imported *d, const char *key); /* NULL: unknown */
void rp_imported_note(struct rp_imported *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* "; " between; cut when too long */
/* What is measured has a value between these: ratios stay finite. */
#define RP_FIGURE_LEAST 1e-15
#define RP_FIGURE_MOST 1e15
static inline int rp_is_figure(double value)
{
    return value >= RP_FIGURE_LEAST && value < RP_FIGURE_MOST;
}
/* estimator and timed_window describe the method; value: a figure */
void rp_imported_throughput(struct rp_imported *d, double value, const char *unit, int64_t first_line,
                            int64_t last_line);
void rp_imported_beside(struct rp_imported *d, const char *key, json_t *v); /* takes the reference */
void rp_imported_real(struct rp_imported *d, const char *key, double value, int64_t line);

/* Infers global_batch and devices from batch_per_device, accumulation, nodes and gpus_per_node. */
void rp_imported_infer(struct rp_imported *d);
/* "sequences/s" or "images/s" if the model is known to have these, else "samples/s". */
const char *rp_imported_unit(const struct rp_imported *d);
/* How certainly a metric or column of that name is the training throughput, 0 most; -1: it is not.
 * "samples_per_second", "img/s", with or without "train_", "training.", "average_" before it, in any case. */
int rp_rate_rank(const char *name);
/* The unit of samples, and that of a rate of this name: `given`, else by model and name. A sample is a sequence or an
 * image if either indicates it. */
void rp_imported_units(const struct rp_imported *d, const char *given, const char *rate_unit, const char **unit,
                       const char **of_rate);
/* The unit of a rate in words of other programs ("img/s", "seq/s", "tokens_per_sec"), or NULL. */
const char *rp_unit_of(const char *word);

enum rp_fact_kind { RP_FACT_TEXT, RP_FACT_COUNT };
struct rp_fact {
    const char *key, *meaning;
    enum rp_fact_kind kind;
};
extern const struct rp_fact rp_facts[]; /* ended by a row without a key */
/* "key=value" of --set, before other values are added. RP_USAGE. */
int rp_imported_set(struct rp_imported *d, const char *assignment, struct rp_err *err) rp_must_check;
