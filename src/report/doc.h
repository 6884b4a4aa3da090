/* Documents of headings, paragraphs, commands and tables, written as text, Markdown, CSV, HTML or JSON.
 *
 * What:    what `compare`, its layouts and the tables of reports and pages are made of.
 * Flow:    blocks in, in order -> rp_doc_write() -> bytes.
 * Owner:   struct rp_doc copies every text, cleaned; zero-initialise it, rp_doc_fini().
 * Extend:  another format is a function in doc.c and a case of rp_doc_write(); it escapes through escape.h, so that a
 *          text cannot end a cell, begin a heading, hide behind an escape sequence or become a spreadsheet's formula.
 */
#pragma once

#include "base/buf.h"
#include "report/template.h"

#include <jansson.h>

#define RP_NO_EVIDENCE "no evidence" /* a cell for which nothing was measured */
#define RP_UNKNOWN "unknown"         /* a property that a report does not give */

enum rp_doc_format {
    RP_DOC_TEXT,
    RP_DOC_MD,
    RP_DOC_CSV,  /* tables only, separated by empty lines; where there are headings, columns give heading and title */
    RP_DOC_HTML, /* a title becomes the caption of the next table */
};

struct rp_doc {
    struct rp_doc_block *block;
    int n;
    int width;       /* of lines as text, in characters; 0: unlimited */
    enum rp_fill as; /* HTML: figures name their source; TEXT: it may be written in every format but HTML */
};

void rp_doc_fini(struct rp_doc *d);
#define RP_DOC __attribute__((cleanup(rp_doc_fini))) struct rp_doc
enum rp_doc_part { RP_DOC_HEADING, RP_DOC_LINE, RP_DOC_TITLE, RP_DOC_COMMAND, RP_DOC_TABLE, RP_DOC_CELL };
void rp_doc_add(struct rp_doc *d, enum rp_doc_part part, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define rp_doc_heading(d, ...) rp_doc_add(d, RP_DOC_HEADING, __VA_ARGS__)
#define rp_doc_line(d, ...) rp_doc_add(d, RP_DOC_LINE, __VA_ARGS__)       /* a paragraph */
#define rp_doc_title(d, ...) rp_doc_add(d, RP_DOC_TITLE, __VA_ARGS__)     /* a paragraph that names the next table */
#define rp_doc_command(d, ...) rp_doc_add(d, RP_DOC_COMMAND, __VA_ARGS__) /* to be pasted into a shell */
/* A table and the names of its columns, separated by '|'; '#' before one of figures, which are aligned to the right;
 * NULL: none yet. More columns, then the cells row by row, follow. */
void rp_doc_table(struct rp_doc *d, const char *columns);
void rp_doc_begin_column(struct rp_doc *d, int number);
#define rp_doc_column(d, number, ...) (rp_doc_begin_column(d, number), rp_doc_cell(d, __VA_ARGS__))
#define rp_doc_cell(d, ...) rp_doc_add(d, RP_DOC_CELL, __VA_ARGS__)
/* One cell: the text, or `missing` where it is NULL or "". */
void rp_doc_text(struct rp_doc *d, const char *text, const char *missing);
/* Cells with figures of rp_run_shown(): one with a literal text after it, or a template (template.h). */
void rp_doc_figure(struct rp_doc *d, const json_t *run, const char *pointer, const char *form, const char *after);
void rp_doc_fill(struct rp_doc *d, const json_t *run, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

void rp_doc_write(struct rp_buf *out, const struct rp_doc *d, enum rp_doc_format format);
json_t *rp_doc_json(const struct rp_doc *d); /* [{"heading"} | {"text"} | {"command"} | {"columns", "rows"}] */

/* <table> with caption and columns as of rp_doc_table(), for tables of a page with more than texts and figures. */
void rp_html_table(struct rp_buf *out, const char *caption, const char *columns);
void rp_html_table_end(struct rp_buf *out);
