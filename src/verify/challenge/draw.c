#include "verify/challenge/draw.h"

/* Steps up to a root, from the step after the root before it. Returns how many parts there are, and part `wanted` in *first and *steps. */
static uint64_t find_part(int64_t *first, int64_t *steps, const struct rp_records *rs, uint64_t wanted)
{
    char root[RP_SHA256_HEX];
    int64_t from = 0;
    uint64_t n = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        rp_record_root(root, rs, &rs->r[i]);
        if (rs->r[i].step < 0 || !*root)
            continue;
        if (n++ == wanted) {
            *first = from;
            *steps = rs->r[i].step + 1 - from;
        }
        from = rs->r[i].step + 1;
    }
    return n;
}

int rp_draw_part(int64_t *first, int64_t *steps, const struct rp_records *records, const struct rp_challenge *c, const char *statement,
                 struct rp_err *err)
{
    uint64_t parts = find_part(first, steps, records, UINT64_MAX);
    if (!parts)
        return rp_fail(err, RP_UNAVAILABLE, "no part can be drawn: the run has no state root after a step");
    find_part(first, steps, records, rp_challenge_draw(c, statement, parts));
    return 0;
}
