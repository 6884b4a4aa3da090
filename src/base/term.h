/* The terminal: width, colour, and one line of progress that rewrites itself.
 *
 * What:    a progress meter on stderr: a rewriting line on a terminal, plain lines elsewhere.
 * Flow:    phase/step updates in -> bytes on stderr. NO_COLOR, COLUMNS and TERM=dumb are respected.
 * Extend:  another field on the line goes into rp_meter_step().
 */
#pragma once

#include <stdint.h>

struct rp_meter {
    int fd, tty, colour, width, quiet; /* set by rp_meter_init */
    int every;                         /* without a terminal: one plain line per this many steps */
    char phase[32];
    uint64_t start_ns, last_ns;
    int open; /* a rewriting line is on the screen */
};

void rp_meter_init(struct rp_meter *m, int fd, int quiet);
void rp_meter_phase(struct rp_meter *m, const char *phase, const char *detail); /* "unpacking", "warm-up", ... */
/* step of total in this phase, from 1; loss NaN, rate 0 (samples/s) and eta_s < 0: unknown, not shown */
void rp_meter_step(struct rp_meter *m, int step, int total, float loss, double rate, const char *unit, double eta_s);
void rp_meter_note(struct rp_meter *m, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* a full line above */
void rp_meter_end(struct rp_meter *m); /* leaves the cursor at the start of a fresh line */

int rp_use_colour(int fd);
int rp_columns(int fd);
