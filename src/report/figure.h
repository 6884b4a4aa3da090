/* Figures: values of a JSON document, shown with the place that they come from.
 *
 * What:    JSON pointers, the forms in which a value is shown.
 * Flow:    (document, JSON pointer, form) -> text, or <data value data-src data-form> in HTML.
 * Owner:   the caller's buffer; documents are borrowed.
 * Extend:  another way to show a value is a letter in rp_form().
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>

/* The part at an RFC 6901 pointer ("/results/step_s/median"), or NULL. */
const json_t *rp_pointer(const json_t *document, const char *pointer);
/* Adds a name to a pointer: "/" and the name, escaped. */
void rp_pointer_add(struct rp_buf *out, const char *name);

/* Adds a value as text, not yet escaped. Forms: "t" as it is, "t12" its first 12 bytes; "p" as it is, also where it is
 * long; "d3" with three decimals, "d1/1048576" or "d2*100" scaled first; "i" like "d", an interval of two
 * numbers, "i*1e-9" with as many decimals as make three digits; "b" bytes in a handy unit; "s" the ending of a counted
 * noun; "x" a float {"value", "hex"} in decimal, "h" in decimal and as hex float; "u" a value of a capture with its
 * unit, "r" with the unit in which it was captured; "e" whether two runs have the same bits; "q" quoted; "a" the date
 * of a time; "c:FAILED=31,note=33" the state of a check, on a terminal in these colours (SGR); "l" the lines of a text
 * of this program. 0, or -1: nothing is known, and nothing is added. */
int rp_form(struct rp_buf *out, const json_t *value, const char *form);

/* Text in which every number of four digits or more has its thousands separated: "12300 - 4560.75 MB" is
 * "12,300 - 4,560.75 MB". For people: files of numbers have none. */
void rp_put_grouped(struct rp_buf *out, const char *text);

/* <data> with source, form and exact value, the text of a quantity grouped; "unknown" and -1 where nothing is known.
 * member: of the document; of rp_run_shown(), whose values are of two members, the one that has the value is named in
 * its place. */
int rp_figure(struct rp_buf *out, const json_t *document, const char *member, const char *pointer, const char *form);
