/* Layouts: results in the tables of the reports of 2020 and 2021, filled from bundles, published tables and imports.
 *
 * What:    one table of layouts (layouts.def), one file each.
 * Flow:    struct rp_rows -> rp_layout_<id>() -> struct rp_doc.
 * Owner:   borrowed rows; the caller owns the document.
 * Extend:  one row in layouts.def and one file. A cell without evidence is RP_NO_EVIDENCE, never a number.
 */
#pragma once

#include "compare/result.h"
#include "report/doc.h"

struct rp_layout {
    const char *name, *what;
    void (*write)(struct rp_doc *d, const struct rp_rows *rows);
};
extern const struct rp_layout rp_layouts[]; /* ended by a row without a name */

#define LAYOUT(id, name, what) void rp_layout_##id(struct rp_doc *d, const struct rp_rows *rows);
#include "compare/layouts.def"
#undef LAYOUT

/* The contents of a folder: bundles, verified with the key.pem next to them, and published tables. *failed: bundles that did not verify. */
int rp_index(struct rp_doc *d, const char *folder, int *failed, struct rp_err *err) rp_must_check;

/* ---- what layouts share ---- */

/* A set of texts, in the order in which they were added. */
struct rp_layout_names {
    char **name;
    int n;
};
int rp_layout_names_add(struct rp_layout_names *names, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* its index */
void rp_layout_names_join(struct rp_buf *out, const struct rp_layout_names *names, int most); /* "a, b, ..." */
void rp_layout_names_fini(struct rp_layout_names *names);

char *rp_result_name(const struct rp_result *row); /* framework, and the variant of a published table: "OneFlow, no gradient clipping" */
int rp_result_is(const char *property, const char *text); /* equal, ignoring case; NULL is equal to nothing */

/* One cell of a result for each word of a list: a key of result.def, or
 *   name        as rp_result_name()
 *   hardware    as rp_result_hardware()
 *   throughput  as published, or of a bundle; RP_NO_EVIDENCE without one
 *   rate        the same with its unit
 *   tokens      tokens per second, as rp_result_tokens()
 *   unit interval
 *   status      how it is verified: "verified", "published, unsigned"
 *   source      FILE or FILE:LINE
 *   evidence    the same with the names of raw logs
 *   value low high   figures for programs
 * missing: of what is unknown. */
void rp_result_cells(struct rp_doc *d, const struct rp_result *row, const char *words, const char *missing);
/* Throughput of the first of n results that belong in one cell, or NULL; a cell of several is marked, and RP_LAYOUT_SEVERAL explains it. */
void rp_layout_throughput(struct rp_doc *d, const struct rp_result *row, int n);
#define RP_LAYOUT_SEVERAL "A cell with '(first of N)' shows the first of N results that belong there"
/* A line with the numbers of results that are verified, unsigned or not verified. */
void rp_layout_footnote(struct rp_doc *d, const struct rp_rows *rows);
