/* The timed window of a log: its first and last line, and the throughput between them.
 *
 * What:    steps with the time at their end, with their own duration, or with nothing but a printed rate; throughput
 *          from the best of them.
 * Flow:    rp_window_step() for every line with a step -> rp_window_finish() -> throughput, samples, window, estimator
 *          of a result.
 * Owner:   struct rp_log_window owns its samples; zero-initialise it, rp_window_fini().
 * Extend:  another source of time is a branch of rp_window_finish(); it has to be named in the estimator.
 *
 * With times:      samples of the steps after the first line of the window, over the seconds between its first line and
 *                  its last.
 * With durations:  samples of all steps of the window over the sum of their durations.
 * With rates only: their harmonic mean (samples over seconds if every rate covers as many samples), named as such.
 */
#pragma once

#include "import/imported.h"
#include "import/lines.h"

#include <stdint.h>

struct rp_step {
    int64_t epoch,
        step; /* epoch -1: unknown. Of several lines with the same step (one of every process) the first counts. */
    double time, duration; /* seconds; NaN: unknown. Time is that of the end of the step. */
    double rate;           /* as printed, NaN: none */
};

struct rp_log_window {
    int64_t from, to; /* steps that count; to 0: all that come */
    int of_day;       /* times are since midnight: a day may end between two */
    int skip_first;   /* without the first step of the log, which compiles, allocates and fills caches */
    int mean;         /* durations are means over the steps since the line before */
    double tokens;    /* of a step, which count where its samples are unknown; 0: unknown too */
    /* so far: */
    int64_t steps_seen, epoch, first, last,
        before; /* first and last inside the window; before: the last step seen at all */
    int64_t first_line, last_line, stamped, timed, spaced, repeated;
    double start, stop, seconds, rates, inverse_rates, day;
    int64_t rate_count, stride; /* stride: steps between two stamps, 0 where it varies */
    int64_t gap;                /* steps between the last two lines seen */
    int64_t timed_gap;          /* of every line with a duration; -1: it varies */
    int beyond;                 /* a step after the window was seen */
    int closed;                 /* by an end of the epoch */
    enum { RP_BY_NOTHING, RP_BY_TIME, RP_BY_DURATION, RP_BY_RATE } by; /* what the first step of the window has */
    int64_t lacking;                                                   /* steps without it, which do not count */
    double *sample;             /* seconds of each stride, or of each duration, or rates */
    int64_t samples, room;
};

void rp_window_fini(struct rp_log_window *w);
int rp_window_step(struct rp_log_window *w, const struct rp_step *s, const struct rp_lines *at,
                   struct rp_err *err) rp_must_check;
/* Needs global_batch (rp_imported_infer() is called) unless there are rates only. unit: of samples. RP_MALFORMED where
 * the window is empty.
 */
int rp_window_finish(struct rp_log_window *w, struct rp_imported *d, const char *unit, const char *rate_unit,
                     const struct rp_lines *at, struct rp_err *err) rp_must_check;
/* A note where what the log itself prints is more than half a percent off the throughput. Tokens count as samples where
 * the sequence length is known. where: "in its summary". */
void rp_window_disagree(struct rp_imported *d, double printed, const char *unit, const char *where);
