/* Layouts: results in the tables of the reports of 2020 and 2021, filled from bundles, published tables and imports.
 *
 * What:    one table of layouts (layouts.def), one file each.
 * Flow:    struct rp_rows -> rp_layout_<id>() -> struct rp_doc.
 * Owner:   borrowed rows; the caller owns the document.
 * Extend:  one row in layouts.def and one file. A cell without evidence is rp_doc_text(d, NULL, RP_NO_EVIDENCE), never a number.
 */
#ifndef RP_COMPARE_LAYOUT_H
#define RP_COMPARE_LAYOUT_H

#include "compare/doc.h"
#include "compare/row.h"

struct rp_layout {
    const char *name, *what;
    void (*write)(struct rp_doc *d, const struct rp_rows *rows);
};
extern const struct rp_layout rp_layouts[]; /* ended by a row without a name */

#define LAYOUT(id, name, what) void rp_layout_##id(struct rp_doc *d, const struct rp_rows *rows);
#include "compare/layouts.def"
#undef LAYOUT

/* Not of rows but of a folder: what is there, bundles verified with the key.pem beside them; *failed: how many did not verify. */
int rp_index(struct rp_doc *d, const char *folder, int *failed, struct rp_err *err) rp_must_check;

/* ---- what layouts share ---- */

/* A set of texts in the order in which they were met. */
struct rp_layout_names {
    char **name;
    int n;
};
int rp_layout_names_add(struct rp_layout_names *names, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* its index */
void rp_layout_names_fini(struct rp_layout_names *names);

char *rp_row_name(const struct rp_row *row);           /* framework, and the variant that a report means: "OneFlow, no gradient clipping" */
int rp_row_is(const char *property, const char *text); /* equal but for case; NULL is equal to nothing */
/* Throughput as published, or of a bundle; "no evidence" for NULL or one without a figure. */
void rp_layout_throughput(struct rp_doc *d, const struct rp_row *row);
/* The same of the first of n results that belong into one cell; where n > 1 the cell says so, and RP_LAYOUT_SEVERAL stands below. */
void rp_layout_throughput_of(struct rp_doc *d, const struct rp_row *row, int n);
#define RP_LAYOUT_SEVERAL "A cell with '(first of N)' shows the first of N results that belong there"
/* Where a figure comes from: "FILE:LINE", a bundle's file, with the names of its raw logs. */
void rp_layout_evidence(struct rp_doc *d, const struct rp_row *row);
/* One line that says which results are unsigned, which bundles did not verify. */
void rp_layout_footnote(struct rp_doc *d, const struct rp_rows *rows);

#endif
