/* A program that is not ours, run as without us, while what it writes is copied.
 *
 * What:    starts it, passes its output and our signals on, keeps the beginning and the end of what it writes, and reports how it ended.
 * Flow:    argv -> rp_command_run() -> struct rp_command_end.
 * Owner:   rp_command_end_fini() frees what was kept.
 * Extend:  another way in which it can end is a field of struct rp_command_end, and of command_facts in run/facts.def.
 *
 * The command has our standard input, our working directory, environment and process group; its standard output and
 * error are pipes. A signal from a terminal reaches the whole group and is not passed on a second time.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/* At most RP_BUNDLE_LOG_MAX bytes: half of them from the beginning, half from the end, in whole lines where there are
 * any. */
struct rp_kept {
    struct rp_buf head;
    char *tail;    /* a ring; NULL: there is none yet */
    size_t at, n;  /* where its next byte goes, and how many it has */
    int64_t bytes; /* that were written */
};
void rp_kept_add(struct rp_kept *k, const char *data, size_t size);
void rp_kept_text(struct rp_buf *out, int64_t *dropped, const struct rp_kept *k);
void rp_kept_fini(struct rp_kept *k);
int rp_kept_file(struct rp_kept *k, const char *path, struct rp_err *err) rp_must_check; /* a regular file */

struct rp_command_end {
    struct rp_kept out, errors;
    int exit_status, signal; /* -1: the other one applies */
    int interrupted;         /* a signal came to us; the last one, or 0 */
    double wall_s, user_s, system_s;
    int64_t peak_rss_bytes;
};
/* The file that a shell would execute for that word. RP_UNAVAILABLE, and *status what a shell would end with: 126 or
 * 127. */
char *rp_command_find(const char *word, int *status, struct rp_err *err) rp_must_check;
/* Runs the file with argv to its end. out: where its standard output goes, 1 or 2. -1: it could not be started, *status
 * as above; after it was started nothing fails. */
int rp_command_run(struct rp_command_end *end, const char *file, char *const argv[], int out, int *status,
                   struct rp_err *err) rp_must_check;
void rp_command_end_fini(struct rp_command_end *end);
