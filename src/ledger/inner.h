/* Lines of a ledger: shared by the files of ledger/.
 *
 * What:    reading, finishing and checking the signature of one line; marks of runs in progress.
 * Flow:    JSON of a line -> signature -> digest -> bytes.
 * Owner:   the caller.
 * Extend:  what every line has is added in append.c; line.def describes it.
 */
#pragma once

#include "ledger/ledger.h"

/* One line of text with its newline, checked by itself, without its signature; NULL with *err. *line, finished by the
 * caller in any case, has the keys of line.def. The position is checked against n, the rest of the chain by the
 * caller. */
json_t *rp_ledger_line(struct rp_ledger_line *line, const char *text, size_t size, int64_t n,
                       struct rp_err *err) rp_must_check;
/* The line's bytes with signature (unless key is NULL) and digest, which also become members of `line`. */
int rp_ledger_line_finish(struct rp_buf *out, json_t *line, const struct rp_key_pair *key, char head[RP_SHA256_HEX],
                          struct rp_err *err) rp_must_check;
/* RP_SIGNATURE: not by that key; RP_MALFORMED: not signed. */
int rp_ledger_line_check(const struct rp_ledger_line *line, const json_t *json, const struct rp_key_pair *key,
                         struct rp_err *err) rp_must_check;
/* "key" of the first signed line, and the key in it. */
json_t *rp_ledger_key_json(const struct rp_ledger_writer *w);
struct rp_key_pair *rp_ledger_line_key(const struct rp_ledger_key *key, struct rp_err *err) rp_must_check;

/* FILE.running, or -1. */
int rp_ledger_running_open(const char *path);
int rp_ledger_running_mark(int fd, int64_t position); /* until the descriptor is closed, by a crash too; 0 or -1 */
int rp_ledger_running_is(int fd, int64_t position);   /* 1: marked by another process; 0; -1: unknown */
