/* The progress of a replay on the terminal: what `verify` and `challenge answer` share.
 *
 * What:    callbacks for struct rp_replay_opts: an estimate of the time before the first step, then one line that
 *          counts steps.
 * Flow:    rp_replay() -> begin, progress -> struct rp_progress.
 * Owner:   the caller's struct, whose line it has initialised and ends.
 */
#pragma once

#include "base/term.h"

#include <stdint.h>

struct rp_replay_progress {
    struct rp_progress line;
    int64_t shown; /* steps; the replay also calls between steps */
    uint64_t start_ns;
};

/* .begin, .remark and .progress of struct rp_replay_opts; arg is a struct rp_replay_progress. */
void rp_replay_show_estimate(void *arg, const char *work, const double seconds[2]);
void rp_replay_show_remark(void *arg, const char *text);
int rp_replay_show_step(void *arg, const char *what, int64_t step, int64_t steps);
