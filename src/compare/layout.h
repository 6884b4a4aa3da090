/* Layouts: results in the tables of the reports of 2020 and 2021, filled from bundles, published tables and imports.
 *
 * What:    the layouts and their tables (layouts.def), one renderer of tables (cells.c), and what groups results into
 *          them.
 * Flow:    struct rp_rows -> rp_layout_write() -> struct rp_doc.
 * Owner:   borrowed rows; the caller owns the document.
 * Extend:  a layout is rows of layouts.def. A value that no word names yet is one function and one row of cells.c. A
 *          grouping that none of shapes.c, cards.c, cases.c and scaling.c does is a function of that kind. A cell
 *          without evidence is RP_NO_EVIDENCE, never a number.
 */
#pragma once

#include "compare/result.h"
#include "report/doc.h"

enum rp_layout_table {
#define TABLE(id, missing, columns) RP_TABLE_##id,
#include "compare/layouts.def"
    RP_TABLES,
};

struct rp_layout {
    const char *name, *heading, *note; /* note: NULL where there is none */
    enum rp_layout_table table;        /* TABLE(id) of that id */
    void (*put)(struct rp_doc *d, const struct rp_rows *rows);
};
extern const struct rp_layout rp_layouts[]; /* ended by a row without a name */

void rp_layout_write(struct rp_doc *d, const char *name, const struct rp_rows *rows); /* name: of the list */

/* The contents of a folder: bundles, verified with the key.pem next to them, and published tables. *failed: bundles
 * that did not verify. */
int rp_index(struct rp_doc *d, const char *folder, int *failed, struct rp_err *err) rp_must_check;

/* ---- groupings of results ---- */

/* nodes x devices by framework; speed-up over one device */
void rp_shapes_put(struct rp_doc *d, const struct rp_rows *rows);
/* devices x precision and batch size; how to repeat each bundle */
void rp_cards_put(struct rp_doc *d, const struct rp_rows *rows);
/* cases of the GPT report x frameworks; FLOP/s and confounders */
void rp_cases_put(struct rp_doc *d, const struct rp_rows *rows);
void rp_scaling_put(struct rp_doc *d, const struct rp_rows *rows); /* worlds of one work against the smallest */
void rp_bundle_put(struct rp_doc *d, const struct rp_result *row); /* how to repeat a bundle */

/* ---- tables ---- */

/* What the cells of a line are of. */
struct rp_line {
    const struct rp_result *row;  /* NULL: no result belongs here, and each cell is RP_NO_EVIDENCE */
    const struct rp_result *base; /* the result of one device, or the case of the report; NULL: none */
    const json_t *entry;          /* of a comparison: its pair, its place in a series or its confounder; NULL */
    int64_t number;               /* of the line, or its devices */
    int several;                  /* results that belong in the cell, of which it shows the first; 0 and 1: one */
};
#define RP_SEVERAL "A cell with '(first of N)' shows the first of N results that belong there"

/* A table with its columns; columns and a line of cells for each, which may be those of several tables. optional: with
 * those columns. prefix: of the titles. */
void rp_layout_begin(struct rp_doc *d, enum rp_layout_table table, int optional);
void rp_layout_columns(struct rp_doc *d, enum rp_layout_table table, int optional, const char *prefix);
void rp_layout_cells(struct rp_doc *d, enum rp_layout_table table, int optional, const struct rp_line *line);
/* The whole table, without the columns marked '*' whose cells are the same in all lines: a paragraph before it has
 * these. */
void rp_layout_varying(struct rp_doc *d, enum rp_layout_table table, const struct rp_line *line, int n);
/* A line for each column, title and value; with the state of a captured value that is not known. */
void rp_layout_turned(struct rp_doc *d, enum rp_layout_table table, const struct rp_line *line);

/* As the FLOPs of the GPT report have it, in all cases. */
#define RP_GPT_PUBLISHED_VOCABULARY 51200

/* ---- names ---- */

/* A set of texts, in the order in which they were added. */
struct rp_layout_names {
    char **name;
    int n;
};
/* its index */
int rp_layout_names_add(struct rp_layout_names *names, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rp_layout_names_join(struct rp_buf *out, const struct rp_layout_names *names, int most); /* "a, b, ..." */
void rp_layout_names_fini(struct rp_layout_names *names);

/* framework, and the variant of a published table: "OneFlow, no gradient clipping" */
char *rp_result_name(const struct rp_result *row);
int rp_result_is(const char *property, const char *text); /* equal, ignoring case; NULL is equal to nothing */
/* As reports name it: amp of fp16 and bf16, which stand beside it; NULL: unknown. */
const char *rp_result_precision(const struct rp_result *row);
