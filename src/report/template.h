/* Templates: texts of this program with figures of a JSON document in them.
 *
 * What:    lines of reports and pages, and how `cli` prints the document that a command returns; --json prints the
 *          same one.
 * Flow:    document, template -> text, Markdown or HTML.
 * Owner:   the caller's buffer; documents are borrowed.
 * Extend:  another way to show a value is a form of report/figure.h; what a template cannot say, the document lacks.
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>

/* Copies a template of this program and replaces in it
 *
 *   {POINTER FORM}   that figure of the document: in HTML with its source, in Markdown escaped for it. Unknown:
 *                    "unknown" in HTML, "-" elsewhere. {POINTER FORM 12} has at least twelve characters in a text, -12
 *                    with the blanks after it.
 *   [POINTER:TEXT]   TEXT, a template too, unless the value is absent, null, false, 0 or empty. Of an array or object
 *                    TEXT is repeated for each element, where its pointers begin: { t} is the element itself, # its
 *                    number from 0, and @ its name. Not in HTML.
 *   [!POINTER:TEXT]  TEXT if the value is one of these
 *
 * "{/count t} file{/count s}[/list:[#:,] {/name t}][!/list: none]" -> "2 files a, b" */
enum rp_fill { RP_FILL_TEXT, RP_FILL_MD, RP_FILL_HTML, RP_FILL_COLOURED /* a text for a terminal */ };
void rp_fill(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *member, const char *template);

/* Adds the filled template, a text or a coloured one. In it a tab ends a cell, and so does \r, after which the next
 * cell is aligned to the right; a line may begin with one. Lines of cells that follow each other are a table, its
 * columns as wide as their cells; those of more than 80 characters do not count. */
void rp_show(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *template);
/* The last cell of a line that is longer than `width` characters is wrapped between words, below where it begins; 0:
 * no line is. */
void rp_show_wrapped(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *template, int width);
