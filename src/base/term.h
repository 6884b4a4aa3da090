/* The terminal: width, colour, and one line of progress that rewrites itself.
 *
 * What:    a line of progress on stderr: a rewriting line on a terminal, plain lines elsewhere; or JSON lines for
 *          programs.
 * Flow:    phase/step updates in -> bytes on stderr. NO_COLOR, COLUMNS and TERM=dumb are respected.
 * Extend:  another field on the line goes into rp_progress_step().
 */
#pragma once

#include <stdint.h>

struct rp_progress {
    int fd, tty, colour, width, quiet; /* set by rp_progress_init */
    int every;                         /* without a terminal: one plain line per this many steps */
    char phase[32];
    uint64_t start_ns, last_ns;
    int open; /* a rewriting line is on the screen */
    int json; /* set by the caller: every line is an object with "event": "phase", "step" or "note" */
};

void rp_progress_init(struct rp_progress *m, int fd, int quiet);
void rp_progress_phase(struct rp_progress *m, const char *phase, const char *detail); /* "unpacking", "warm-up", ... */
/* step of total in this phase, from 1, of what: "step", "micro-batch"; loss NaN, rate 0 (samples/s) and eta_s < 0:
 * unknown, not shown */
void rp_progress_step(struct rp_progress *m, const char *what, int step, int total, float loss, double rate,
                      const char *unit, double eta_s);
/* a full line above */
void rp_progress_note(struct rp_progress *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rp_progress_end(struct rp_progress *m); /* leaves the cursor at the start of a fresh line */

int rp_use_colour(int fd);
int rp_columns(int fd);
