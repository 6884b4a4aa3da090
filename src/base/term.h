/* The terminal: width, colour, and one line of progress that rewrites itself.
 *
 * What:    a line of progress on stderr: a rewriting line on a terminal, plain lines elsewhere; or JSON lines for
 *          programs.
 * Flow:    phase/step updates in -> bytes on stderr. NO_COLOR, COLUMNS and TERM=dumb are respected.
 * Extend:  another field on the line goes into struct rp_progress_at and rp_progress_step().
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
/* A step that has been done, of this phase. */
struct rp_progress_at {
    const char *what; /* "step", "micro-batch" */
    int step, total;  /* from 1 */
    float loss;       /* NaN: unknown, not shown */
    double rate;      /* per second; 0: unknown */
    const char *unit; /* of the rate: "samples" */
    double left_s;    /* until the end; < 0: unknown */
};
void rp_progress_step(struct rp_progress *m, const struct rp_progress_at *at);
/* a full line above */
void rp_progress_note(struct rp_progress *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rp_progress_end(struct rp_progress *m); /* leaves the cursor at the start of a fresh line */

int rp_use_colour(int fd);
int rp_columns(int fd);
