#include "cli/replay_progress.h"

#include "base/clock.h"
#include "base/interrupt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void rp_replay_show_estimate(void *arg, int64_t first, int64_t steps, const double seconds[2])
{
    struct rp_replay_progress *p = arg;
    char time[64] = "", to[32] = "";
    if (seconds)
        snprintf(time, sizeof time, ", %.*f to %.*f s here", seconds[0] < 9.5, seconds[0], seconds[0] < 9.5, seconds[1]);
    if (steps > 1)
        snprintf(to, sizeof to, "s %" PRId64 " to", first);
    rp_progress_note(&p->line, "replay: step%s %" PRId64 "%s", to, first + steps - 1, time);
    p->start_ns = rp_now_ns();
}

void rp_replay_show_remark(void *arg, const char *text)
{
    struct rp_replay_progress *p = arg;
    rp_progress_note(&p->line, "replay: %s", text);
}

int rp_replay_show_step(void *arg, int64_t step, int64_t steps)
{
    struct rp_replay_progress *p = arg;
    double each = (double)(rp_now_ns() - p->start_ns) / 1e9 / (double)(step ? step : 1);
    if (step > p->shown)
        rp_progress_step(&p->line, (int)step, (int)steps, NAN, 0, "", each * (double)(steps - step));
    p->shown = step;
    return rp_interrupted();
}
