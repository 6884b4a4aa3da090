/* Groups of threads of one warp: which branches split, and which join again.
 *
 * Lanes at the same instruction are a group and execute it together. A branch that only some take splits the group; in
 * lockstep groups that come to the same instruction are one again, in the other orders only where the program makes
 * them meet.
 */
#include "tests/simt/simt.h"

void simt_remove_group(struct simt_warp *w, int k)
{
    w->group[k] = w->group[--w->groups];
}

void simt_add_group(struct simt_warp *w, u32 mask, u32 pc)
{
    w->group[w->groups++] = (struct simt_group){mask, pc, READY};
}

void simt_split(struct simt_warp *w, struct simt_group *g)
{
    u32 m = g->mask, pc = g->pc;
    if (!simt_launch.split)
        return;
    g->mask = m & -m;
    for (m &= m - 1; m; m &= m - 1)
        simt_add_group(w, m & -m, pc);
}

void simt_join_groups(struct simt_warp *w, int is_ready)
{
    for (int k = 0; k < w->groups; k++)
        for (int j = k + 1; j < w->groups && (w->group[k].state == READY) == is_ready;)
            if ((w->group[j].state == READY) == is_ready && w->group[j].pc == w->group[k].pc) {
                w->group[k].mask |= w->group[j].mask;
                simt_remove_group(w, j);
            } else {
                j++;
            }
}

int simt_next_group(struct simt_warp *w, u32 avoid, u32 *stop)
{
    int ready[LANES], n = 0, furthest_back = -1;
    *stop = ~0u;
    if (simt_launch.lockstep && w->groups > 1)
        simt_join_groups(w, 1);
    for (int k = 0; k < w->groups; k++)
        if (w->group[k].state == READY && w->group[k].mask & ~avoid) {
            ready[n++] = k;
            if (furthest_back < 0 || w->group[k].pc < w->group[furthest_back].pc)
                furthest_back = k;
        }
    if (!n)
        return avoid ? simt_next_group(w, 0, stop) : -1;
    if (!simt_launch.lockstep)
        return ready[shim_options.order == SHIM_SCRAMBLED ? shim_random() % (u32)n : (u32)n - 1];
    for (int k = 0; k < n; k++)
        if (ready[k] != furthest_back && w->group[ready[k]].pc < *stop)
            *stop = w->group[ready[k]].pc;
    return furthest_back;
}

long simt_turn(void)
{
    return !simt_launch.lockstep && shim_options.order == SHIM_SCRAMBLED ? (long)(shim_random() % 200) : 1 << 22;
}

u32 simt_shuffle(const struct simt_warp *w, u32 pc, u32 mask, int how, const u32 *a, const u32 *b, const u32 *c,
                 u32 *out)
{
    u32 valid = 0;
    EACH_LANE(mask)
    {
        u32 by = b[lane] & 31, segment = c[lane] >> 8 & 31, clamp = c[lane] & 31;
        s32 limit =
            (s32)((lane & segment) | (clamp & ~segment)); /* the last lane that may be named; for up the first */
        s32 from = how == 0   ? (s32)lane - (s32)by
                   : how == 1 ? (s32)(lane + by)
                   : how == 2 ? (s32)(lane ^ by)
                              : (s32)((lane & segment) | (by & ~segment));
        int is_valid = how == 0 ? from >= limit : from <= limit;
        from = is_valid ? from : (s32)lane;
        if (!(mask >> from & 1))
            simt_fault(w, pc, (int)lane, "takes the value of lane %d, which is not here", from);
        out[lane] = a[from];
        valid |= (u32)is_valid << lane;
    }
    return valid;
}
