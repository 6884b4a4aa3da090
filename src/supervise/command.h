/* A program that is not ours, run as without us, while what it writes is copied.
 *
 * What:    starts it, passes its output and our signals on, keeps the beginning and the end of what it writes, and
 *          reports how it ended.
 * Flow:    argv -> rp_command_run() -> struct rp_command_end.
 * Owner:   rp_command_end_fini() frees what was kept.
 * Extend:  another way in which it can end is a field of struct rp_command_end, and of command_process in
 *          run/facts.def.
 *
 * The command has our standard input, our working directory, environment and process group; its standard output and
 * error are pipes. A signal from a terminal reaches the whole group and is not passed on a second time.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/* At most `most` bytes: half of them from the beginning, half from the end, in whole lines where there are any. */
struct rp_kept {
    size_t most; /* 0: RP_BUNDLE_LOG_MAX */
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
    int64_t start_ns, end_ns; /* rp_now_ns() */
    double user_s, system_s;
    int64_t peak_rss_bytes;
};
/* The file that a shell would execute for that word. RP_UNAVAILABLE, and *status what a shell would end with: 126 or
 * 127. */
char *rp_command_find(const char *word, int *status, struct rp_err *err) rp_must_check;
struct rp_command_opts {
    const char *file;
    char *const *argv;
    int out;               /* where its standard output goes, 1 or 2 */
    size_t out_most, errors_most; /* bytes that are kept of each */
    int inherited;         /* a descriptor that the command keeps although this program closes it on exec; 0: none */
    void (*tick)(void *arg); /* called several times a second while the command runs; NULL: none */
    void *arg;
};
/* Runs it to its end. -1: it could not be started, *status as above; after it was started nothing fails. */
int rp_command_run(struct rp_command_end *end, const struct rp_command_opts *o, int *status,
                   struct rp_err *err) rp_must_check;
/* From any thread: a signal to the command, if it runs, and to what it has started: a shell does not pass one on. */
int rp_command_signal(int sig); /* 0: it does not run */
int rp_command_interrupts(void); /* how often Ctrl-C came since it was started */
void rp_command_end_fini(struct rp_command_end *end);
