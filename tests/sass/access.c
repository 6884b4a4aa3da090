/* Loads, stores, atomics and copies of machine code. Every address passes tests/simt/memory.c. */
#include "tests/sass/sass.h"

u64 sass_address(const struct simt_warp *w, const struct sass_insn *i, int k, u32 lane)
{
    u64 base = sass_row(w, i->base[k])[lane], uniform = sass_row(w, i->uniform[k])[lane];
    int is_wide = i->flags & EXTENDED && !(i->op == SASS_LDGSTS && k == 0);
    if (i->base_wide[k] == 1)
        base |= (u64)sass_row(w, i->base[k] + SASS_ROW(1))[lane] << 32;
    if (is_wide)
        uniform |= (u64)sass_row(w, i->uniform[k] + SASS_ROW(1))[lane] << 32;
    u64 a = (base << i->scale[k]) + uniform + (u64)i->offset[k];
    return is_wide ? a : (u32)a;
}

static void *global(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 lane, const char *verb)
{
    u64 a = sass_address(w, i, 0, lane);
    void *p = simt_global_at(w, pc, lane, a, i->bytes, verb);
    simt_check_order(w, pc, lane, a, i->bytes, (enum simt_access)i->order, verb);
    return p;
}

static void *shared(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 lane, enum simt_access kind,
                    const char *verb)
{
    return simt_shared_at(w, pc, lane, sass_address(w, i, 0, lane), i->bytes, kind, verb);
}

static void load(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u32 *d[4];
    for (int k = 0; k < 4; k++)
        d[k] = sass_row(w, i->d + (4 * k < i->bytes ? SASS_ROW(i->d == SASS_ROW(ROW_SINK) ? 0 : k) : 0));
    EACH_LANE(m)
    {
        const void *p = i->op == SASS_LDS ? shared(w, pc, i, lane, READ, "reads") : global(w, pc, i, lane, "reads");
        u32 word[4] = {0};
        if (i->bytes == 4) {
            memcpy(&d[0][lane], p, 4);
            continue;
        }
        memcpy(word, p, i->bytes);
        if (i->type == T_S8)
            word[0] = (u32)(s32)(s8)word[0];
        else if (i->type == T_S16)
            word[0] = (u32)(s32)(s16)word[0];
        for (int k = 0; 4 * k < i->bytes; k++)
            d[k][lane] = word[k];
    }
}

static void store(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    int words = i->bytes / 4;
    EACH_LANE(m)
    {
        u8 *p = i->op == SASS_STS ? shared(w, pc, i, lane, WRITE, "writes") : global(w, pc, i, lane, "writes");
        if (!words)
            memcpy(p, &sass_row(w, i->s[0])[lane], i->bytes);
        for (int k = 0; k < words; k++)
            memcpy(p + 4 * k, &sass_row(w, i->s[0] + SASS_ROW(k))[lane], 4);
    }
}

/* All words are read first: the address may be in one of the registers that are written. */
static void load_constant(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u32 word[4][LANES] = {{0}};
    int words = i->bytes / 4;
    for (int k = 0; k < words; k++)
        EACH_LANE(m)
    word[k][lane] = sass_constant(w, pc, lane, i->bank, sass_address(w, i, 0, lane) + 4 * (u64)k);
    for (int k = 0; k < words; k++)
        sass_put(w, i->d + (i->d == SASS_ROW(ROW_SINK) ? 0 : SASS_ROW(k)), m, word[k]);
}

static u64 word_of(const struct simt_warp *w, const struct sass_insn *i, u32 lane)
{
    u64 high = i->bytes == 8 ? sass_row(w, i->s[0] + SASS_ROW(1))[lane] : 0;
    return high << 32 | sass_row(w, i->s[0])[lane];
}

static void atomic(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u64 flip = i->type == T_S32 ? 0x80000000 : 0;
    EACH_LANE(m)
    {
        u8 *p = global(w, pc, i, lane, "changes");
        u64 old = 0, b = word_of(w, i, lane);
        memcpy(&old, p, i->bytes);
        int is_less = (b ^ flip) < (old ^ flip);
        const u64 made[] = {[H_ADD] = old + b,
                            [H_MIN] = is_less ? b : old,
                            [H_MAX] = is_less ? old : b,
                            [H_AND] = old & b,
                            [H_OR] = old | b,
                            [H_XOR] = old ^ b,
                            [H_EXCH] = b};
        memcpy(p, &made[i->how], i->bytes);
        if (i->op != SASS_ATOM || i->d == SASS_ROW(ROW_SINK))
            continue;
        sass_row(w, i->d)[lane] = (u32)old;
        if (i->bytes == 8)
            sass_row(w, i->d + SASS_ROW(1))[lane] = (u32)(old >> 32);
    }
}

/* Lanes whose predicate is false copy zeros. With .ZFILL the last bytes are zeros, as many as the address is beyond its
 * alignment: so ptxas passes the number of bytes of cp.async. */
static void copy(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    struct simt_copy *c = simt_new_copy(w, pc, m, i->bytes);
    u32 inside = sass_get(w, i, 0);
    EACH_LANE(m)
    {
        c->to[lane] = (u32)sass_address(w, i, 0, lane);
        c->from[lane] = sass_address(w, i, 1, lane);
        c->inside[lane] = inside >> lane & 1 ? i->bytes : 0;
        if (i->flags & ZERO_FILL && c->inside[lane]) {
            const u32 zeros = (u32)c->from[lane] & (i->bytes - 1u);
            c->inside[lane] -= zeros;
            c->from[lane] -= zeros;
        }
    }
    simt_copy_start(w, c);
}

/* What initialises a barrier has the arrivals that are missing, as their distance from 2^20, in bits 1 and 43 on. */
static u32 arrivals(const struct simt_warp *w, u32 pc, u32 lane, const struct sass_insn *i)
{
    const u32 low = sass_row(w, i->s[0])[lane], high = sass_row(w, i->s[0] + SASS_ROW(1))[lane], left = low >> 1;
    if (low & 1 || left >> 20 || high != left << 11)
        simt_fault(w, pc, (int)lane, "initialises a barrier with %#x %#x", low, high);
    return (1u << 20) - left;
}

/* The parity of a phase is the highest bit. */
static void barrier(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u32 complete = 0;
    EACH_LANE(m)
    {
        const u64 at = sass_address(w, i, 0, lane);
        const u32 value = sass_row(w, i->s[0])[lane];
        if (i->how == H_EXCH)
            simt_barrier_init(w, pc, lane, at, arrivals(w, pc, lane, i));
        else if (i->how == H_ARRIVE)
            simt_barrier_arrive(w, pc, lane, at, value);
        else
            complete |= (u32)simt_barrier_is_complete(w, pc, lane, at, value & 0x7fffffff ? 2 : value >> 31) << lane;
    }
    if (w->waits_at && i->how == H_WAIT)
        simt_tensor_land(w->block, w->waits_at);
    if (i->how == H_WAIT)
        sass_set(w, i->pd[0], m, complete);
}

/* Four uniform registers: where to in shared memory, the barrier, the number, the line; two: where the map is. */
static void tensor_copy(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    const u32 lane = (u32)__builtin_ctz(m);
    u32 word[4], at[2];
    for (int k = 0; k < 4; k++)
        word[k] = sass_row(w, i->uniform[0] + SASS_ROW(k))[0];
    for (int k = 0; k < 2; k++)
        at[k] = sass_row(w, i->uniform[1] + SASS_ROW(k))[0];
    const void *map = sass_parameters(w, pc, lane, (u64)at[1] << 32 | at[0], 128);
    simt_tensor_issue(w, pc, lane, map, word[0], (s32)word[2], (s32)word[3], word[1]);
}

int sass_access(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    switch (i->op) {
    case SASS_LD:
    case SASS_LDG:
    case SASS_LDS:
        load(w, pc, i, m);
        return 1;
    case SASS_ST:
    case SASS_STG:
    case SASS_STS:
        store(w, pc, i, m);
        return 1;
    case SASS_LDC:
        load_constant(w, pc, i, m);
        return 1;
    case SASS_RED:
    case SASS_ATOM:
        atomic(w, pc, i, m);
        return 1;
    case SASS_LDGSTS:
        copy(w, pc, i, m);
        return 1;
    case SASS_LDGDEPBAR:
        EACH_LANE(m)
        w->committed[lane]++;
        return 1;
    case SASS_DEPBAR:
        simt_copy_wait(w, m, i->imm);
        return 1;
    case SASS_CCTL: /* what this block's cache had of other blocks' writes is gone: the end of a fence that acquires */
        if (simt_launch.races)
            simt_races_fence(w, m);
        return 1;
    case SASS_FENCE: /* of proxies */
        EACH_LANE(m)
        w->proxies[lane]++;
        return 1;
    case SASS_UTMALDG:
        tensor_copy(w, pc, i, m);
        return 1;
    case SASS_SYNCS:
        barrier(w, pc, i, m);
        return 1;
    case SASS_MEMBAR: /* stores are seen at once; which of them are ordered is for find_order() and races.c */
    case SASS_ERRBAR:
    case SASS_CGAERRBAR:
    case SASS_NOP:
        return 1;
    default:
        return 0;
    }
}
