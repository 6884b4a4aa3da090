/* One warp of machine code: branches, and the instructions at which lanes meet.
 *
 * A convergence barrier B0 to B15 is the mask of the lanes that BSSY executed together; each lane has its own copy.
 * BSYNC waits until all of these that have neither returned nor left by BREAK are at the same BSYNC. WARPSYNC waits for
 * the lanes of its mask. Shuffles and votes are executed by the lanes that are there. BRA.DIV leads lanes that came
 * apart to code that joins them first: it is taken if some are not there, or always with SASS_DIVERGED=1.
 *
 * Groups of a warp take turns only at branches and meetings: they share the uniform registers, and ptxas sets these and
 * uses them in code that only some lanes execute.
 */
#include "tests/sass/sass.h"

static long budget; /* instructions that are left of the turn */

/* ---- meetings ---- */

/* The lanes that the group has to wait for. */
static u32 wanted(const struct simt_warp *w, const struct simt_group *g)
{
    const struct sass_insn *i = &w->kernel->sass[g->pc];
    u32 first = (u32)__builtin_ctz(g->mask), want = w->live;
    if (i->op == SASS_BSYNC)
        want = sass_row(w, SASS_ROW(ROW_B + i->barrier))[first];
    else if (i->op == SASS_WARPSYNC && !(i->flags & EVERY_LANE))
        want = sass_row(w, i->s[0])[first];
    return want & w->live;
}

static _Noreturn void stuck(const struct simt_warp *w)
{
    int k = 0;
    while (k + 1 < w->groups && w->group[k].state != AT_WARP)
        k++;
    const struct simt_group *g = &w->group[k];
    simt_fault(w, g->pc, __builtin_ctz(g->mask), "lanes %#x wait for %#x of %#x, of which some are elsewhere", g->mask,
               wanted(w, g), w->live);
}

/* A group for which all are there goes through its meeting, or waits for its block from now on. 0: no group is
 * complete. */
static int meet(struct simt_warp *w)
{
    for (int k = 0; k < w->groups; k++) {
        const struct simt_group *g = &w->group[k];
        u32 want = wanted(w, g), have = 0, pc = g->pc;
        if (g->state != AT_WARP)
            continue;
        for (int j = 0; j < w->groups; j++)
            if (w->group[j].state == AT_WARP && w->group[j].pc == pc && wanted(w, &w->group[j]) == want)
                have |= w->group[j].mask;
        if (have & ~want)
            simt_fault(w, pc, __builtin_ctz(have & ~want), "a lane waits for others and is not one of them");
        if (have != want)
            continue;
        for (int j = 0; j < w->groups;)
            if (w->group[j].state == AT_WARP && w->group[j].pc == pc && !(w->group[j].mask & ~have))
                simt_remove_group(w, j);
            else
                j++;
        int is_block = w->kernel->sass[pc].op == SASS_BAR;
        if (w->kernel->sass[pc].op == SASS_WARPSYNC) {
            w->epoch++;
            simt_barriers_join(w, have);
        }
        simt_add_group(w, have, is_block ? pc : pc + 1);
        if (is_block)
            w->group[w->groups - 1].state = AT_BLOCK;
        return 1;
    }
    return 0;
}

/* ---- running ---- */

enum ended { SPLIT, WAITS, LOOKED, GONE, MET, SPENT };

/* The lanes m of the group return; the others go on. */
static enum ended leave(struct simt_warp *w, int k, u32 m)
{
    struct simt_group *g = &w->group[k];
    w->live &= ~m;
    g->mask &= ~m;
    g->pc++;
    if (g->mask)
        return SPLIT;
    simt_remove_group(w, k);
    return GONE;
}

/* The lanes m of the group jump; the others go on. 0: there are no others. */
static int jump(struct simt_warp *w, int k, u32 m, u32 to)
{
    struct simt_group *g = &w->group[k];
    if (to >= w->kernel->n)
        simt_fault(w, g->pc, __builtin_ctz(m), "jumps out of the kernel");
    if (m == g->mask) {
        g->pc = to;
        return 0;
    }
    g->mask &= ~m;
    g->pc++;
    simt_add_group(w, m, to);
    return 1;
}

/* Lanes that meet different sets wait as groups of their own. */
static enum ended come_to_meeting(struct simt_warp *w, int k, const struct sass_insn *i, u32 m)
{
    struct simt_group *g = &w->group[k];
    u32 pc = g->pc;
    if (m != g->mask) {
        simt_add_group(w, g->mask & ~m, pc + 1);
        g->mask = m;
        return SPLIT;
    }
    g->state = AT_WARP;
    const u32 *set = i->op == SASS_BSYNC                          ? sass_row(w, SASS_ROW(ROW_B + i->barrier))
                     : i->flags & EVERY_LANE || i->op == SASS_BAR ? NULL
                                                                  : sass_row(w, i->s[0]);
    while (set) {
        u32 same = 0, first = set[__builtin_ctz(w->group[k].mask)];
        EACH_LANE(w->group[k].mask)
        same |= (u32)(set[lane] == first) << lane;
        if (same == w->group[k].mask)
            break;
        simt_add_group(w, same, pc);
        w->group[w->groups - 1].state = AT_WARP;
        w->group[k].mask &= ~same;
    }
    return WAITS;
}

static void change_barrier(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    u32 *set = sass_row(w, SASS_ROW(ROW_B + i->barrier));
    switch (i->op) {
    case SASS_BSSY:
        EACH_LANE(m)
        set[lane] = m;
        break;
    case SASS_BREAK: {
        u32 all = 0;
        EACH_LANE(m)
        all |= set[lane];
        EACH_LANE(all)
        set[lane] &= ~m;
        break;
    }
    default: /* BMOV: out of the barrier (imm 1) or into it */
        if (i->imm)
            sass_put(w, i->d, m, set);
        EACH_LANE(m)
        set[lane] = !i->imm ? sass_row(w, i->s[0])[lane] : i->how == H_CLEAR ? 0 : set[lane];
    }
}

/* The lanes of m that a branch takes. */
static u32 takes(const struct simt_warp *w, const struct sass_insn *i, u32 mask, u32 m)
{
    static int is_always = -1;
    if (i->how == H_ANY) /* all go where one of them does */
        return m & sass_get(w, i, 0) ? mask : 0;
    if (!(i->flags & DIVERGED))
        return m & sass_get(w, i, 0);
    if (is_always < 0)
        is_always = simt_setting("DIVERGED") && *simt_setting("DIVERGED") == '1';
    u32 named = sass_row(w, i->s[0])[0];
    named = i->s[0] == SASS_ROW(ROW_ZERO) ? ~0u : i->sign[0] & INVERTED ? ~named : named;
    return is_always || (named & w->live) != mask ? m : 0;
}

/* Jumps to where the lanes' registers say. */
static int jump_by_register(struct simt_warp *w, int k, const struct sass_insn *i, u32 m)
{
    const u32 *to = sass_row(w, i->s[0]);
    u32 pc = w->group[k].pc, same = 0, first = to[__builtin_ctz(m)];
    EACH_LANE(m)
    same |= (u32)(to[lane] == first) << lane;
    u32 at = i->op == SASS_BRX ? first + (pc + 1) * 16 + (u32)i->imm : first;
    if (at % 16)
        simt_fault(w, pc, __builtin_ctz(m), "jumps to %#x", at);
    if (same != m) { /* the others come here again */
        w->group[k].mask &= ~same;
        simt_add_group(w, same, at / 16);
        return 1;
    }
    return jump(w, k, m, at / 16);
}

/* An instruction that branches or meets. -1: it is none. */
static int control(struct simt_warp *w, int k, const struct sass_insn *i, u32 m)
{
    struct simt_group *g = &w->group[k];
    enum { GOES_ON = MET };
    u32 t;
    switch (i->op) {
    case SASS_BRA:
        t = takes(w, i, g->mask, m);
        if (!t)
            g->pc++;
        return t && jump(w, k, t, i->target) ? SPLIT : GOES_ON;
    case SASS_CALL:
        return jump(w, k, m, i->target) ? SPLIT : GOES_ON;
    case SASS_BRX:
    case SASS_RET:
        return jump_by_register(w, k, i, m) ? SPLIT : GOES_ON;
    case SASS_EXIT:
        return leave(w, k, m);
    case SASS_BSSY:
    case SASS_BREAK:
    case SASS_BMOV:
        change_barrier(w, i, m);
        g->pc++;
        return GOES_ON;
    case SASS_BSYNC:
    case SASS_WARPSYNC:
    case SASS_BAR:
        return come_to_meeting(w, k, i, m);
    case SASS_ENDCOLLECTIVE: /* of a meeting at one instruction: whoever came together stays together */
        g->pc++;
        return GOES_ON;
    case SASS_YIELD:
    case SASS_NANOSLEEP:
        g->pc++;
        return LOOKED;
    case SASS_BPT:
        simt_fault(w, g->pc, __builtin_ctz(m), "the kernel ended itself");
    case SASS_NONE:
        simt_fault(w, g->pc, __builtin_ctz(m), "ran off the end of the kernel");
    default:
        return -1;
    }
}

/* Runs a group until it comes to instruction `stop`, where another one is, or anything else happens. */
static enum ended run_group(struct simt_warp *w, int k, u32 stop)
{
    struct simt_group *g = &w->group[k];
    char *const hits = w->kernel->hits;
    for (int is_first = 1, has_looked = 0;; is_first = 0) {
        const struct sass_insn *i = &w->kernel->sass[g->pc];
        u32 m = g->mask & (w->p[i->guard] ^ i->guard_flip);
        if (g->pc >= stop)
            return MET;
        if (!is_first && budget-- <= 0)
            return SPENT;
        if ((m || i->op == SASS_BRA) && hits[g->pc] != '-') /* a branch is executed whether or not it is taken */
            hits[g->pc] = '1';
        if (!m) {
            g->pc++;
            continue;
        }
        int ended = control(w, k, i, m);
        if (ended < 0) {
            sass_execute(w, g->pc, i, m);
            g->pc++;
            has_looked |= i->flags & STRONG;
        } else if (ended != MET) {
            return (enum ended)ended;
        } else if (has_looked) {
            return LOOKED;
        }
    }
}

/* The group whose turn ended between two branches, -1: none. */
static int resumed(struct simt_warp *w)
{
    for (int k = 0; k < w->groups; k++)
        if (w->resumes && w->group[k].mask == w->resumes && w->group[k].state == READY) {
            w->resumes = 0;
            return k;
        }
    return -1;
}

enum simt_ran simt_run_warp(struct simt_warp *w)
{
    int looks = 0, has_moved = 0;
    u32 avoid = 0;
    budget = simt_turn();
    while (w->groups) {
        u32 stop = ~0u;
        int k = resumed(w);
        if (k < 0)
            k = simt_next_group(w, avoid, &stop);
        if (k < 0) {
            if (w->groups == 1 && w->group[0].state == AT_BLOCK && w->group[0].mask == w->live)
                break;
            if (!meet(w))
                stuck(w);
            continue;
        }
        if (!(w->group[k].mask & ~avoid)) /* all others have looked too, or wait */
            avoid = 0;
        switch (run_group(w, k, stop)) {
        case WAITS:
            has_moved = 1;
            if (meet(w) && !shim_options.ahead)
                return RAN;
            break;
        case LOOKED:
            avoid |= w->group[k].mask;
            if (++looks >= 2 * w->groups)
                return has_moved ? RAN : ONLY_LOOKED;
            break;
        case SPENT:
            w->resumes = w->group[k].mask; /* of a turn that is shorter than a look, too */
            return has_moved || !w->waits_at ? RAN : ONLY_LOOKED;
        default:
            break;
        }
    }
    return RAN;
}
