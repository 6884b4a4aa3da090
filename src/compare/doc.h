/* Documents of headings, paragraphs, commands and tables, written as text, Markdown, CSV or JSON.
 *
 * What:    what `compare` and its layouts print; the one place where a foreign text meets a format.
 * Flow:    blocks in, in order -> rp_doc_write() -> bytes.
 * Owner:   struct rp_doc copies every text, cleaned; zero-initialise it, rp_doc_fini().
 * Extend:  another format is a function in doc.c and a row in rp_doc_write(). Nobody but doc.c writes a character of markup: a text can
 *          therefore not end a cell, begin a heading, hide behind an escape sequence or become a formula of a spreadsheet.
 */
#ifndef RP_COMPARE_DOC_H
#define RP_COMPARE_DOC_H

#include "base/buf.h"

#include <jansson.h>

#define RP_NO_EVIDENCE "no evidence" /* of a cell that nothing measured */
#define RP_UNKNOWN "unknown"         /* of a property that a report does not say */

enum rp_doc_format { RP_DOC_TEXT, RP_DOC_MD, RP_DOC_CSV };

struct rp_doc {
    struct rp_doc_block *block;
    int n;
    int width; /* of lines in the format for people, in characters; 0: whatever they take */
};

void rp_doc_fini(struct rp_doc *d);
void rp_doc_heading(struct rp_doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rp_doc_line(struct rp_doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* a paragraph */
void rp_doc_title(struct rp_doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* a paragraph that names the next table */
void rp_doc_command(struct rp_doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* to be pasted into a shell */
/* A table: then its columns, then its cells row by row. A column of numbers stands to the right. */
void rp_doc_table(struct rp_doc *d);
void rp_doc_column(struct rp_doc *d, int number, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void rp_doc_cell(struct rp_doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rp_doc_text(struct rp_doc *d, const char *text, const char *missing); /* one cell: the text, or `missing` where it is NULL or "" */

/* CSV has the tables alone, an empty line between them; in a document with headings two columns in front of each say below which heading
 * it stands, and its title. */
void rp_doc_write(struct rp_buf *out, const struct rp_doc *d, enum rp_doc_format format);
json_t *rp_doc_json(const struct rp_doc *d); /* [{"heading"} | {"text"} | {"command"} | {"columns", "rows"}] */
/* 'text' as one word of a shell, quoted where it must be. */
char *rp_doc_quoted(const char *text);

#endif
