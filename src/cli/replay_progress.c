#include "cli/replay_progress.h"

#include "base/clock.h"
#include "base/interrupt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void rp_replay_show_estimate(void *arg, const char *work, const double seconds[2])
{
    struct rp_replay_progress *p = arg;
    char time[64] = "";
    if (seconds)
        snprintf(time, sizeof time, ", %.*f to %.*f s here", seconds[0] < 9.5, seconds[0], seconds[0] < 9.5,
                 seconds[1]);
    rp_progress_note(&p->line, "replay: %s%s", work, time);
    p->start_ns = rp_now_ns();
}

void rp_replay_show_remark(void *arg, const char *text)
{
    struct rp_replay_progress *p = arg;
    rp_progress_note(&p->line, "replay: %s", text);
}

int rp_replay_show_step(void *arg, const char *what, int64_t step, int64_t steps)
{
    struct rp_replay_progress *p = arg;
    double each = (double)(rp_now_ns() - p->start_ns) / 1e9 / (double)(step ? step : 1);
    if (step > p->shown)
        rp_progress_step(&p->line,
                         &(struct rp_progress_at){.what = what, .step = (int)step, .total = (int)steps, .loss = NAN,
                                                  .unit = "", .left_s = each * (double)(steps - step)});
    p->shown = step;
    return rp_interrupted();
}
