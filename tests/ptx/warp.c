/* One warp of PTX: branches and the instructions at which threads meet.
 *
 * An instruction that exchanges something waits until every lane that it names, and that has not returned, is at the
 * same instruction.
 */
#include "tests/ptx/ptx.h"
#include "tests/simt/products.h"

static long budget; /* instructions that are left of the turn */

/* ---- meetings ---- */

/* Whether every lane that the instruction names is in the group. */
static int is_complete(const struct simt_warp *w, const struct simt_group *g)
{
    const struct ptx_insn *i = &w->kernel->code[g->pc];
    u32 named = w->live;
    if (i->op >= OP_MULTIPLY && i->op <= OP_PRODUCT_WAIT) {
        if (w->live != ~0u)
            simt_fault(w, g->pc, __builtin_ctz(~w->live), "a lane is missing: the whole warp has to be here");
    } else if (i->op != OP_BLOCK_BARRIER) {
        const u32 *mask = simt_row32(w, i->s[3]);
        named = mask[__builtin_ctz(g->mask)];
        EACH_LANE(g->mask)
            if (mask[lane] != named)
                simt_fault(w, g->pc, (int)lane, "threads that meet name different lanes");
    }
    if (g->mask & ~named)
        simt_fault(w, g->pc, __builtin_ctz(g->mask & ~named), "a thread meets others and does not name itself");
    return (named & w->live & ~g->mask) == 0;
}

static void shuffle(const struct simt_warp *w, const struct simt_group *g)
{
    const struct ptx_insn *i = &w->kernel->code[g->pc];
    u32 out[LANES];
    u32 valid = simt_shuffle(w, g->pc, g->mask, i->how, simt_row32(w, i->s[0]), simt_row32(w, i->s[1]),
                             simt_row32(w, i->s[2]), out);
    EACH_LANE(i->d[0] >= 0 ? g->mask : 0)
        simt_row32(w, i->d[0])[lane] = out[lane];
    if (i->pd[0] >= 0)
        w->p[i->pd[0]] = (w->p[i->pd[0]] & ~g->mask) | valid;
}

static void vote(const struct simt_warp *w, const struct simt_group *g)
{
    const struct ptx_insn *i = &w->kernel->code[g->pc];
    u32 m = g->mask, yes = (w->p[i->ps[0]] ^ i->flip) & m;
    int answers[] = {0, yes != 0, yes == m, yes == 0 || yes == m};
    if (i->how)
        w->p[i->pd[0]] = (w->p[i->pd[0]] & ~m) | (answers[i->how] ? m : 0);
    EACH_LANE(i->how ? 0 : m)
        simt_row32(w, i->d[0])[lane] = yes;
}

/* A group for which all are there goes through its meeting, or waits for its block from now on. 0: no group is
 * complete. */
static int meet(struct simt_warp *w)
{
    simt_join_groups(w, 0);
    for (int k = 0; k < w->groups; k++) {
        struct simt_group *g = &w->group[k];
        if (g->state != AT_WARP || !is_complete(w, g))
            continue;
        switch (w->kernel->code[g->pc].op) {
        case OP_SHUFFLE:
            shuffle(w, g);
            break;
        case OP_VOTE:
            vote(w, g);
            break;
        case OP_MULTIPLY:
            ptx_multiply(w, g->pc);
            break;
        case OP_LOAD_MATRIX:
            ptx_load_matrix(w, g->pc);
            break;
        case OP_PRODUCT:
            ptx_product(w, g->pc);
            break;
        case OP_PRODUCT_FENCE:
            ptx_product_fence(w);
            break;
        case OP_PRODUCT_COMMIT:
            simt_product_commit(w);
            break;
        case OP_PRODUCT_WAIT:
            ptx_product_wait(w, g->pc);
            break;
        case OP_WARP_BARRIER:
            w->epoch++;
            simt_barriers_join(w, g->mask);
            break;
        default:
            g->state = AT_BLOCK;
            return 1;
        }
        g->pc++;
        g->state = READY;
        simt_split(w, g);
        return 1;
    }
    return 0;
}

static _Noreturn void stuck(const struct simt_warp *w)
{
    int k = 0;
    while (k + 1 < w->groups && w->group[k].state != AT_WARP)
        k++;
    const struct simt_group *g = &w->group[k], *other = &w->group[k || w->groups == 1 ? 0 : 1];
    simt_fault(w, g->pc, __builtin_ctz(g->mask),
               "waits for lanes (%#x of %#x are here) that are at line %d or have returned", g->mask, w->live,
               w->kernel->code[other->pc].line);
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

/* The lanes m of the group wait at a meeting, and those whose guard is off go on. */
static enum ended come_to_meeting(struct simt_warp *w, int k, u32 m)
{
    struct simt_group *g = &w->group[k];
    if (m != g->mask) {
        simt_add_group(w, g->mask & ~m, g->pc + 1);
        g->mask = m;
        return SPLIT;
    }
    g->state = AT_WARP;
    return WAITS;
}

/* Runs a group until it comes to instruction `stop`, where another one is, or anything else happens. */
static enum ended run_group(struct simt_warp *w, int k, u32 stop)
{
    struct simt_group *g = &w->group[k];
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
        if (i->touches)
            ptx_touch(w, g->pc);
        if (i->op == OP_BRANCH) {
            if (m != g->mask) {
                simt_add_group(w, m, i->target);
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

enum simt_ran simt_run_warp(struct simt_warp *w)
{
    int looks = 0, has_moved = 0;
    u32 avoid = 0;
    budget = simt_turn();
    while (w->groups) {
        u32 stop;
        int k = simt_next_group(w, avoid, &stop);
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
        case SPENT: /* of a turn that is shorter than a look, too */
            return has_moved || !w->waits_at ? RAN : ONLY_LOOKED;
        default:
            break;
        }
    }
    return RAN;
}
