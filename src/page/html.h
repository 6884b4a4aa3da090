/* Text and figures of a page: the one place where what strangers wrote becomes HTML, SVG or CSV.
 *
 * What:    one escaping function for text and quoted attributes alike, figures that name where they come from, cells of CSV.
 * Flow:    bytes of a bundle -> text in which nothing is markup; (document, JSON pointer, form) -> <data value data-src data-form>.
 * Owner:   the caller's buffer.
 * Extend:  a new way of showing a value is a letter in rp_form(); check.c compares with what it gives.
 */
#ifndef RP_PAGE_HTML_H
#define RP_PAGE_HTML_H

#include "base/buf.h"

#include <jansson.h>

#define RP_HTML_LIMIT 600 /* characters of one foreign text; longer ones are in the bundle */

/* Safe as text of HTML and SVG and between the double quotes of an attribute. Markup characters become entities; malformed bytes, control
 * characters, what turns the direction of writing and what nobody sees U+FFFD. After `limit` characters "..." stands for
 * the rest; 0: no limit. */
void rp_html(struct rp_buf *out, const char *text, size_t size, size_t limit);
void rp_html_text(struct rp_buf *out, const char *text); /* one line: line ends and tabs are blanks; RP_HTML_LIMIT */
void rp_html_lines(struct rp_buf *out, const char *text, size_t size); /* for <pre>: line ends and tabs stay */

/* The part at an RFC 6901 pointer ("/results/step_s/median"), or NULL. */
const json_t *rp_pointer(const json_t *document, const char *pointer);
/* One name as a step of a pointer: "/" and its characters escaped. */
void rp_pointer_add(struct rp_buf *out, const char *name);

/* A value as text of a page, not yet escaped. Forms: "t" as it is; "d3" with three decimals, "d1/1048576" or "d2*100" scaled before;
 * "x" a hex float in decimal; "u" a value of a capture with its unit; "e" whether two runs have the same bits; "q" between
 * quotes. 0, or -1: there is nothing known to show, and "unknown" stands there. */
int rp_form(struct rp_buf *out, const json_t *value, const char *form);

/* <data> with source and exact value; member "run.json". `value` is what the pointer leads to, NULL: looked up in document. */
int rp_figure(struct rp_buf *out, const json_t *document, const char *member, const char *pointer, const char *form);

/* A text as a cell of CSV: quoted, and with ' before what a spreadsheet would take for a formula. */
void rp_csv_text(struct rp_buf *out, const char *text);
/* A finite number that reads back as the same double, or nothing. */
void rp_csv_number(struct rp_buf *out, double x);
/* A link to download bytes that are in the page. */
void rp_html_download(struct rp_buf *out, const struct rp_buf *csv, const char *file, const char *source, const char *text);

#endif
