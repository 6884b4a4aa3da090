/* What is this verifier's in a replay: settings, limits, and what is counted. */
#include "verify/replay/inner.h"

int rp_replay_set_local(struct rp_recipe *r, const char *const (*local)[2], int n, struct rp_err *err)
{
    for (int i = 0; i < n; i++)
        if (local[i][1] && rp_recipe_set(r, local[i][0], local[i][1], RP_FROM_COMMAND_LINE, err) < 0)
            return -1;
    return 0;
}

const char *rp_replay_unit(const struct rp_replaying *p, int64_t n)
{
    return p->of_micros ? n == 1 ? "micro-batch" : "micro-batches" : n == 1 ? "step" : "steps";
}

double rp_replay_limit_s(const struct rp_replaying *p)
{
    return (double)(p->o->limit_ns ? p->o->limit_ns : RP_REPLAY_LIMIT_NS) / 1e9;
}
