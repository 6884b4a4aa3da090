/* One warp: groups of threads, which branches split, and the instructions at which they meet.
 *
 * Lanes at the same instruction are a group and execute it together. A branch that only some take splits the group; in lockstep groups that
 * come to the same instruction are one again, in the other orders only where the program makes them meet. An instruction that exchanges
 * something waits until every lane that it names, and that has not returned, is at the same instruction.
 */
#include "tests/ptx/run.h"

static long budget; /* instructions that are left of the turn */

/* ---- meetings ---- */

static void remove_group(struct ptx_warp *w, int k)
{
    w->group[k] = w->group[--w->groups];
}

static void add_group(struct ptx_warp *w, u32 mask, u32 pc)
{
    w->group[w->groups++] = (struct ptx_group){mask, pc, READY};
}

void ptx_split(struct ptx_warp *w, struct ptx_group *g)
{
    u32 m = g->mask, pc = g->pc;
    if (!ptx_launch.split)
        return;
    g->mask = m & -m;
    for (m &= m - 1; m; m &= m - 1)
        add_group(w, m & -m, pc);
}

/* Groups that wait at one instruction are one group. */
static void join_waiting(struct ptx_warp *w)
{
    for (int k = 0; k < w->groups; k++)
        for (int j = k + 1; j < w->groups && w->group[k].state != READY;)
            if (w->group[j].state != READY && w->group[j].pc == w->group[k].pc) {
                w->group[k].mask |= w->group[j].mask;
                remove_group(w, j);
            } else {
                j++;
            }
}

/* Whether every lane that the instruction names is in the group. */
static int is_complete(const struct ptx_warp *w, const struct ptx_group *g)
{
    const struct ptx_insn *i = &w->kernel->code[g->pc];
    u32 named = w->live;
    if (i->op != OP_BLOCK_BARRIER) {
        const u32 *mask = ptx_row32(w, i->s[3]);
        named = mask[__builtin_ctz(g->mask)];
        EACH_LANE(g->mask)
            if (mask[lane] != named)
                ptx_fault(w, g->pc, (int)lane, "threads that meet name different lanes");
    }
    if (g->mask & ~named)
        ptx_fault(w, g->pc, __builtin_ctz(g->mask & ~named), "a thread meets others and does not name itself");
    return (named & w->live & ~g->mask) == 0;
}

static void shuffle(const struct ptx_warp *w, const struct ptx_group *g)
{
    const struct ptx_insn *i = &w->kernel->code[g->pc];
    const u32 *a = ptx_row32(w, i->s[0]), *b = ptx_row32(w, i->s[1]), *c = ptx_row32(w, i->s[2]);
    u32 out[LANES], valid = 0;
    EACH_LANE(g->mask) {
        u32 by = b[lane] & 31, segment = c[lane] >> 8 & 31, clamp = c[lane] & 31;
        s32 limit = (s32)((lane & segment) | (clamp & ~segment)); /* the last lane that may be named; for up the first */
        s32 from = i->how == 0   ? (s32)lane - (s32)by
                   : i->how == 1 ? (s32)(lane + by)
                   : i->how == 2 ? (s32)(lane ^ by)
                                 : (s32)((lane & segment) | (by & ~segment));
        int is_valid = i->how == 0 ? from >= limit : from <= limit;
        from = is_valid ? from : (s32)lane;
        if (!(g->mask >> from & 1))
            ptx_fault(w, g->pc, (int)lane, "takes the value of lane %d, which is not here", from);
        out[lane] = a[from];
        valid |= (u32)is_valid << lane;
    }
    EACH_LANE(i->d[0] >= 0 ? g->mask : 0)
        ptx_row32(w, i->d[0])[lane] = out[lane];
    if (i->pd[0] >= 0)
        w->p[i->pd[0]] = (w->p[i->pd[0]] & ~g->mask) | valid;
}

static void vote(const struct ptx_warp *w, const struct ptx_group *g)
{
    const struct ptx_insn *i = &w->kernel->code[g->pc];
    u32 m = g->mask, yes = (w->p[i->ps[0]] ^ i->flip) & m;
    int answers[] = {0, yes != 0, yes == m, yes == 0 || yes == m};
    if (i->how)
        w->p[i->pd[0]] = (w->p[i->pd[0]] & ~m) | (answers[i->how] ? m : 0);
    EACH_LANE(i->how ? 0 : m)
        ptx_row32(w, i->d[0])[lane] = yes;
}

/* A group for which all are there goes through its meeting, or waits for its block from now on. 0: no group is complete. */
static int meet(struct ptx_warp *w)
{
    join_waiting(w);
    for (int k = 0; k < w->groups; k++) {
        struct ptx_group *g = &w->group[k];
        if (g->state != AT_WARP || !is_complete(w, g))
            continue;
        switch (w->kernel->code[g->pc].op) {
        case OP_SHUFFLE:
            shuffle(w, g);
            break;
        case OP_VOTE:
            vote(w, g);
            break;
        case OP_WARP_BARRIER:
            w->epoch++;
            break;
        default:
            g->state = AT_BLOCK;
            return 1;
        }
        g->pc++;
        g->state = READY;
        ptx_split(w, g);
        return 1;
    }
    return 0;
}

static _Noreturn void stuck(const struct ptx_warp *w)
{
    int k = 0;
    while (k + 1 < w->groups && w->group[k].state != AT_WARP)
        k++;
    const struct ptx_group *g = &w->group[k], *other = &w->group[k || w->groups == 1 ? 0 : 1];
    ptx_fault(w, g->pc, __builtin_ctz(g->mask), "waits for lanes (%#x of %#x are here) that are at line %d or have returned", g->mask, w->live,
              w->kernel->code[other->pc].line);
}

/* ---- running ---- */

enum ended { SPLIT, WAITS, LOOKED, GONE, MET, SPENT };

/* The lanes m of the group return; the others go on. */
static enum ended leave(struct ptx_warp *w, int k, u32 m)
{
    struct ptx_group *g = &w->group[k];
    w->live &= ~m;
    g->mask &= ~m;
    g->pc++;
    if (g->mask)
        return SPLIT;
    remove_group(w, k);
    return GONE;
}

/* The lanes m of the group wait at a meeting, and those whose guard is off go on. */
static enum ended come_to_meeting(struct ptx_warp *w, int k, u32 m)
{
    struct ptx_group *g = &w->group[k];
    if (m != g->mask) {
        add_group(w, g->mask & ~m, g->pc + 1);
        g->mask = m;
        return SPLIT;
    }
    g->state = AT_WARP;
    return WAITS;
}

/* Runs a group until it comes to instruction `stop`, where another one is, or anything else happens. */
static enum ended run_group(struct ptx_warp *w, int k, u32 stop)
{
    struct ptx_group *g = &w->group[k];
    struct ptx_insn *const code = w->kernel->code;
    char *const hits = w->kernel->hits;
    const u32 last = w->kernel->n - 1; /* not in the text */
    for (int is_first = 1;; is_first = 0) {
        struct ptx_insn *i = &code[g->pc];
        u32 m = g->mask;
        if (g->pc >= stop)
            return MET;
        if (!is_first && budget-- <= 0)
            return SPENT;
        if (i->guard >= 0)
            m &= w->p[i->guard] ^ i->guard_flip;
        if (g->pc < last && (m || i->op == OP_BRANCH)) /* a branch is executed whether or not it is taken */
            hits[g->pc] = '1';
        if (!m) {
            g->pc++;
            continue;
        }
        if (i->op == OP_BRANCH) {
            if (m != g->mask) {
                add_group(w, m, i->target);
                g->mask &= ~m;
                g->pc++;
                return SPLIT;
            }
            g->pc = i->target;
        } else if (i->op == OP_EXIT) {
            return leave(w, k, m);
        } else if (i->op >= OP_SHUFFLE) {
            return come_to_meeting(w, k, m);
        } else {
            ptx_execute(w, g->pc, i, m);
            g->pc++;
            if (i->order != O_WEAK)
                return LOOKED;
        }
    }
}

/* In lockstep, groups at one instruction are one. */
static void join_ready(struct ptx_warp *w)
{
    for (int k = 0; k < w->groups; k++)
        for (int j = k + 1; j < w->groups && w->group[k].state == READY;)
            if (w->group[j].state == READY && w->group[j].pc == w->group[k].pc) {
                w->group[k].mask |= w->group[j].mask;
                remove_group(w, j);
            } else {
                j++;
            }
}

/* The group that runs next, and where it stops: in lockstep the one that is furthest back, up to the next one. Lanes that only look at memory
 * let others go first. -1: every group waits. */
static int next_group(struct ptx_warp *w, u32 avoid, u32 *stop)
{
    int ready[LANES], n = 0, furthest_back = -1;
    *stop = ~0u;
    if (ptx_launch.lockstep && w->groups > 1)
        join_ready(w);
    for (int k = 0; k < w->groups; k++)
        if (w->group[k].state == READY && w->group[k].mask != avoid) {
            ready[n++] = k;
            if (furthest_back < 0 || w->group[k].pc < w->group[furthest_back].pc)
                furthest_back = k;
        }
    if (!n)
        return avoid ? next_group(w, 0, stop) : -1;
    if (!ptx_launch.lockstep)
        return ready[shim_options.order == SHIM_SCRAMBLED ? shim_random() % (u32)n : (u32)n - 1];
    for (int k = 0; k < n; k++)
        if (ready[k] != furthest_back && w->group[ready[k]].pc < *stop)
            *stop = w->group[ready[k]].pc;
    return furthest_back;
}

enum ptx_ran ptx_run_warp(struct ptx_warp *w)
{
    int looks = 0, has_moved = 0;
    u32 avoid = 0;
    budget = ptx_launch.lockstep ? 1 << 30 : shim_options.order == SHIM_SCRAMBLED ? (long)(shim_random() % 200) : 1 << 30;
    while (w->groups) {
        u32 stop;
        int k = next_group(w, avoid, &stop);
        if (k < 0) {
            if (w->groups == 1 && w->group[0].state == AT_BLOCK && w->group[0].mask == w->live)
                break;
            if (!meet(w))
                stuck(w);
            continue;
        }
        avoid = 0;
        switch (run_group(w, k, stop)) {
        case WAITS:
            has_moved = 1;
            if (meet(w) && !shim_options.ahead)
                return RAN;
            break;
        case LOOKED:
            avoid = w->group[k].mask;
            if (++looks >= 2 * w->groups)
                return has_moved ? RAN : ONLY_LOOKED;
            break;
        case SPENT:
            return RAN;
        default:
            break;
        }
    }
    return RAN;
}
