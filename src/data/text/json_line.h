/* One line of a JSONL corpus, read as Python's json.loads reads it: what other tools for such files accept.
 *
 * What:    the value of "text" in an object of any other members, which are only checked.
 * Flow:    bytes of a line -> the text in UTF-8.
 * Owner:   the caller owns the text.
 * Extend:  another member is another name in json_line.c, which keeps the string of that one alone.
 *
 * As there: NaN, Infinity, -Infinity and numbers of any size are values, the last of equal keys counts, "\u0000" is a
 * character, a lone surrogate is allowed outside "text" (in it no tokenizer could encode it). Control characters in
 * strings, a byte order mark and anything after the object are refused.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* RP_MALFORMED: "column 17: expected ..., found ..."; columns count bytes from 1. */
int rp_json_line_text(const char *line, size_t n, struct rp_buf *text, struct rp_err *err) rp_must_check;
