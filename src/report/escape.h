/* Foreign text in the formats that this program writes.
 *
 * What:    one escaping function per format: HTML (text and quoted attributes, also in SVG), Markdown, CSV, words of a
 *          shell.
 * Flow:    text of a stranger -> text in which nothing is markup, a formula or an escape sequence.
 * Owner:   the caller's buffer.
 * Extend:  another format is a function here; documents and pages write foreign text through nothing else.
 */
#pragma once

#include "base/buf.h"

#define RP_HTML_LIMIT 600 /* characters of one foreign text; the bundle has longer ones in full */

/* Markup characters become entities; malformed bytes, control characters, characters that reverse the text direction
 * and invisible ones become U+FFFD. "..." replaces what follows `limit` characters; 0: no limit. */
void rp_html(struct rp_buf *out, const char *text, size_t size, size_t limit);
/* one line: line ends and tabs become blanks; RP_HTML_LIMIT */
void rp_html_text(struct rp_buf *out, const char *text);
void rp_html_lines(struct rp_buf *out, const char *text, size_t size); /* for <pre>: line ends and tabs stay */

/* Clean text (base/text.h) as Markdown: no markup, no HTML, no links. */
void rp_md_text(struct rp_buf *out, const char *text);
/* Any text for a code span of Markdown: one line of printable ASCII that cannot end it; at most RP_HTML_LIMIT bytes. */
void rp_md_code(struct rp_buf *out, const char *text);

/* A cell of CSV: quoted where necessary, with ' before what a spreadsheet would take for a formula. */
void rp_csv_text(struct rp_buf *out, const char *text);
void rp_csv_number(struct rp_buf *out, double x); /* reads back as the same double; nothing where it is not finite */

/* The text as one word of a shell, quoted where necessary; free() it. */
char *rp_shell_word(const char *text);
/* A command line of a stranger, whose words may be quoted as rp_shell_word() does, with every word quoted again where
 * necessary: it runs one program, and nothing in it is expanded, joined or redirected. free() it. NULL: its first words
 * are not `begin`, or it ends in a quote. */
char *rp_shell_words(const char *text, const char *begin);
