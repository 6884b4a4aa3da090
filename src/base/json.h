/* JSON helpers over jansson: bounded parsing with good messages, canonical writing, typed getters.
 *
 * Flow:    bytes -> json_t (duplicate keys refused; depth, texts and number of values bounded); json_t -> text with
 *          sorted keys and a final newline. Only step records, of which a run has many, have a reader of their own
 *          (run/records.c).
 * Owner:   json_t are reference counted by jansson; RP_JSON drops the reference at scope end.
 * Extend:  a new type of field gets its getter next to the others, with the path in its message.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/number_text.h"

#include <jansson.h>

void rp_json_decref(json_t **j);
#define RP_JSON __attribute__((cleanup(rp_json_decref))) json_t

/* `what` names the document in messages ("run.json"); the message carries line and column. NULL: the text is one line,
 * which the caller names. */
json_t *rp_json_parse(const char *data, size_t size, const char *what, struct rp_err *err) rp_must_check;
/* The same for at most that many values, each of which may take 200 bytes: for documents from others, where memory is
 * bounded. */
json_t *rp_json_parse_most(const char *data, size_t size, int64_t values, const char *what,
                           struct rp_err *err) rp_must_check;
/* The same; *own: whether the text is exactly what rp_json_write() makes of the document, or made of it before it wrote
 * the shortest reals. */
json_t *rp_json_parse_own(const char *data, size_t size, int64_t values, int *own, const char *what,
                          struct rp_err *err) rp_must_check;
/* Sorted keys, two-space indent, the shortest reals that are the same numbers, "\n" at the end: equal documents are
 * equal bytes. */
void rp_json_write(struct rp_buf *out, const json_t *j);
void rp_json_write_ascii(struct rp_buf *out, const json_t *j); /* other characters as \u escapes: safe for a terminal */
/* compact, one line, reals with 17 digits, "\n": JSON lines */
void rp_json_write_line(struct rp_buf *out, const json_t *j);
void rp_json_write_plain(struct rp_buf *out, const json_t *j); /* the same without "\n"; a string as it is */

/* obj.key must exist and have that type; `what` names the document. */
int rp_json_str(const json_t *obj, const char *key, const char **out, const char *what,
                struct rp_err *err) rp_must_check;
int rp_json_int(const json_t *obj, const char *key, int64_t *out, const char *what, struct rp_err *err) rp_must_check;
/* borrowed */
json_t *rp_json_obj(const json_t *obj, const char *key, const char *what, struct rp_err *err) rp_must_check;
/* borrowed */
json_t *rp_json_arr(const json_t *obj, const char *key, const char *what, struct rp_err *err) rp_must_check;

/* "results/throughput/interval/0": by keys and indices; NULL if the value is absent. Borrowed. */
const json_t *rp_json_at(const json_t *j, const char *path);
const char *rp_json_text_at(const json_t *j, const char *path);  /* "" if the value is absent or not a string */
long long rp_json_integer_at(const json_t *j, const char *path); /* 0 if it is absent or not an integer */
