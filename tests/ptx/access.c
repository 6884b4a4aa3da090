/* Every access to memory: aligned, in its address space, within what the kernel may touch, ordered.
 *
 * cp.async lands as late as it may, at the wait that covers it (SHIM_LATE=0: at once); NaN is there until then.
 */
#include "tests/ptx/run.h"

#include <stdlib.h>

static void *global_at(const struct ptx_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, const char *verb)
{
    static struct {
        uintptr_t begin, end;
        u32 generation;
    } last[64]; /* mostly an instruction goes to the same block of memory again */
    if (address & (bytes - 1))
        ptx_fault(w, pc, (int)lane, "%s %u bytes at %#llx, which is not aligned", verb, bytes, (unsigned long long)address);
    if (last[pc & 63].generation != shim_generation || address < last[pc & 63].begin || address + bytes > last[pc & 63].end) {
        last[pc & 63].generation = shim_generation;
        if (!shim_range(address, &last[pc & 63].begin, &last[pc & 63].end) || address + bytes > last[pc & 63].end) {
            last[pc & 63].generation = 0;
            if (ptx_launch.strict || address < 65536 || address >> 47)
                ptx_fault(w, pc, (int)lane, "%s %u bytes at %#llx, outside of all memory of the GPU", verb, bytes, (unsigned long long)address);
        }
    }
    return (void *)(uintptr_t)address; /* NOLINT */
}

static void *shared_at(const struct ptx_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, enum ptx_access kind, const char *verb)
{
    u64 at = address - PTX_SHARED_BASE;
    u32 other = 0;
    if (address & (bytes - 1))
        ptx_fault(w, pc, (int)lane, "%s %u bytes at %#llx of shared memory, which is not aligned", verb, bytes, (unsigned long long)address);
    if (at >= w->block->shared_bytes || at + bytes > w->block->shared_bytes)
        ptx_fault(w, pc, (int)lane, "%s %u bytes at %lld of shared memory of %u", verb, bytes, (long long)at, w->block->shared_bytes);
    const char *race = ptx_launch.races ? ptx_race_shared(w, lane, (u32)at, bytes, kind, &other) : NULL;
    if (race)
        ptx_fault(w, pc, (int)lane, "%s byte %lld of shared memory, %s (thread %u)", verb, (long long)at, race, other);
    return w->block->shared + at;
}

static void check_range(const struct ptx_warp *w, u32 pc, u32 lane, u64 offset, u32 bytes, u64 size, const char *verb, const char *where)
{
    if ((offset & (bytes - 1)) || offset >= size || offset + bytes > size)
        ptx_fault(w, pc, (int)lane, "%s %u bytes at %#llx of %s of %llu bytes", verb, bytes, (unsigned long long)offset, where, (unsigned long long)size);
}

static void check_order(const struct ptx_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, enum ptx_access kind, const char *verb)
{
    u32 other = 0;
    const char *race = ptx_launch.races ? ptx_race_global(w, lane, address, bytes, kind, &other) : NULL;
    if (race)
        ptx_fault(w, pc, (int)lane, "%s %u bytes at %#llx, %s (block %u of the grid)", verb, bytes, (unsigned long long)address, race, other);
}

static enum ptx_access access_of(const struct ptx_insn *i)
{
    return i->order == O_RELAXED   ? (i->op == OP_LOAD || (i->op == OP_ATOMIC && i->d[0] >= 0) ? OBSERVE : ATOMIC)
           : i->order == O_ACQUIRE ? ACQUIRE
           : i->order == O_RELEASE ? RELEASE
           : i->op == OP_STORE     ? WRITE
                                   : READ;
}

static void *any_at(const struct ptx_warp *w, u32 pc, u32 lane, const struct ptx_insn *i, u64 address)
{
    u32 bytes = (u32)i->bytes * i->vec;
    int is_write = i->op != OP_LOAD;
    const char *verb = is_write ? "writes" : "reads";
    enum ptx_space space = (enum ptx_space)i->space;
    if (space == S_GENERIC) {
        space = (enum ptx_space)PTX_WINDOW_OF(address);
        address -= PTX_WINDOW(space);
        if (space == S_GENERIC)
            space = address >= (u64)(uintptr_t)ptx_constants_begin && address < (u64)(uintptr_t)ptx_constants_end ? S_CONST : S_GLOBAL;
    }
    if (is_write && (space == S_CONST || space == S_PARAM))
        ptx_fault(w, pc, (int)lane, "writes memory that only can be read");
    switch (space) {
    case S_SHARED:
        return shared_at(w, pc, lane, address, bytes, is_write ? WRITE : READ, verb);
    case S_LOCAL:
        check_range(w, pc, lane, address, bytes, w->kernel->local, verb, "local memory");
        return w->local + (size_t)lane * w->kernel->local + address;
    case S_CONST:
        check_range(w, pc, lane, address - (u64)(uintptr_t)ptx_constants_begin, bytes, (u64)(ptx_constants_end - ptx_constants_begin), verb, "constants");
        return (void *)(uintptr_t)address; /* NOLINT */
    case S_PARAM:
        check_range(w, pc, lane, address, bytes, w->kernel->params, verb, "parameters");
        return (void *)(uintptr_t)(ptx_launch.args + address);
    case S_GLOBAL: {
        void *p = global_at(w, pc, lane, address, bytes, verb);
        const char *race = w->kernel->has_nc ? ptx_race_nc(address, bytes, i->is_nc, is_write) : NULL;
        if (race)
            ptx_fault(w, pc, (int)lane, "%s %#llx, %s", verb, (unsigned long long)address, race);
        check_order(w, pc, lane, address, bytes, access_of(i), verb);
        return p;
    }
    default:
        ptx_fault(w, pc, (int)lane, "%s %#llx, an address of no space", verb, (unsigned long long)address);
    }
}

static u64 address_of(const struct ptx_warp *w, const struct ptx_insn *i, u32 lane)
{
    u64 base = i->s[0] < 0 ? 0 : i->wide_s ? ptx_row64(w, i->s[0])[lane] : ptx_row32(w, i->s[0])[lane];
    return base + (u64)i->imm;
}

u64 ptx_extend(u64 x, enum ptx_type t)
{
    switch (t) {
    case T_U8:
        return (u8)x;
    case T_S8:
        return (u64)(s64)(s8)x;
    case T_U16:
        return (u16)x;
    case T_S16:
        return (u64)(s64)(s16)x;
    case T_U32:
    case T_F32:
        return (u32)x;
    case T_S32:
        return (u64)(s64)(s32)x;
    default:
        return x;
    }
}

static u64 get(const struct ptx_warp *w, s32 place, int is_wide, u32 lane)
{
    return is_wide ? ptx_row64(w, place)[lane] : ptx_row32(w, place)[lane];
}

void ptx_load(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    EACH_LANE(m) {
        const u8 *p = any_at(w, pc, lane, i, address_of(w, i, lane));
        for (int k = 0; k < i->vec; k++) {
            u64 x = 0;
            if (i->d[k] < 0)
                continue;
            if (i->bytes == 4 && !i->wide_d) { /* most of them */
                memcpy(&ptx_row32(w, i->d[k])[lane], p + 4 * k, 4);
                continue;
            }
            memcpy(&x, p + k * i->bytes, i->bytes);
            x = ptx_extend(x, (enum ptx_type)i->type);
            if (i->wide_d)
                ptx_row64(w, i->d[k])[lane] = x;
            else
                ptx_row32(w, i->d[k])[lane] = (u32)x;
        }
    }
}

void ptx_store(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    EACH_LANE(m) {
        u8 *p = any_at(w, pc, lane, i, address_of(w, i, lane));
        for (int k = 0; k < i->vec; k++) {
            u64 x = get(w, i->s[1 + k], i->wide_value, lane);
            memcpy(p + k * i->bytes, &x, i->bytes);
        }
    }
}

void ptx_atomic(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    enum ptx_type t = (enum ptx_type)i->type;
    EACH_LANE(m) {
        u8 *p = any_at(w, pc, lane, i, address_of(w, i, lane));
        u64 old = 0, b = ptx_extend(get(w, i->s[1], i->wide_value, lane), t);
        memcpy(&old, p, i->bytes);
        old = ptx_extend(old, t);
        int is_less = t == T_S32 || t == T_S64 ? (s64)b < (s64)old : b < old;
        u64 made[] = {[A_ADD] = old + b,
                      [A_MIN] = is_less ? b : old,
                      [A_MAX] = is_less ? old : b,
                      [A_EXCH] = b,
                      [A_OR] = old | b,
                      [A_AND] = old & b};
        memcpy(p, &made[i->how], i->bytes);
        if (i->d[0] >= 0 && i->wide_d)
            ptx_row64(w, i->d[0])[lane] = old;
        else if (i->d[0] >= 0)
            ptx_row32(w, i->d[0])[lane] = (u32)old;
    }
}

/* ---- asynchronous copies ---- */

static void land(const struct ptx_warp *w, const struct ptx_copy *c, u32 m)
{
    EACH_LANE(m) {
        u8 *to = shared_at(w, c->pc, lane, c->to[lane], c->bytes, LAND, "copies to");
        memset(to, 0, c->bytes);
        if (c->inside[lane])
            memcpy(to, (const void *)(uintptr_t)c->from[lane], c->inside[lane]); /* NOLINT */
    }
}

void ptx_copy_start(struct ptx_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    if (w->copies == w->copies_room) {
        w->copies_room = w->copies_room ? 2 * w->copies_room : 64;
        w->copy = ptx_grow(w->copy, (size_t)w->copies_room * sizeof *w->copy);
    }
    struct ptx_copy *c = &w->copy[w->copies];
    c->mask = m;
    c->pc = pc;
    c->bytes = i->bytes;
    EACH_LANE(m) {
        c->group[lane] = w->committed[lane];
        c->to[lane] = (u32)address_of(w, i, lane);
        c->from[lane] = ptx_row64(w, i->s[1])[lane] + (u64)i->imm2;
        c->inside[lane] = i->s[2] < 0 ? i->bytes : ptx_row32(w, i->s[2])[lane];
        if (c->inside[lane] > i->bytes)
            ptx_fault(w, pc, (int)lane, "copies %u bytes of %u", c->inside[lane], i->bytes);
        if (c->from[lane] & (i->bytes - 1u))
            ptx_fault(w, pc, (int)lane, "copies %u bytes from %#llx, which is not aligned", i->bytes, (unsigned long long)c->from[lane]);
        for (u32 done = 0; done < c->inside[lane]; done += 4)
            global_at(w, pc, lane, c->from[lane] + done, 4, "copies from");
        if (c->inside[lane])
            check_order(w, pc, lane, c->from[lane], c->inside[lane], READ, "copies from");
        memset(shared_at(w, pc, lane, c->to[lane], i->bytes, WRITE, "copies to"), 0xff, i->bytes);
    }
    if (shim_options.late)
        w->copies++;
    else
        land(w, c, m);
}

void ptx_copy_wait(struct ptx_warp *w, u32 m, s64 newest)
{
    int left = 0;
    for (int k = 0; k < w->copies; k++) {
        struct ptx_copy *c = &w->copy[k];
        u32 now = 0;
        EACH_LANE(c->mask & m)
            now |= (u32)(newest < 0 || c->group[lane] + (u64)newest < w->committed[lane]) << lane;
        land(w, c, now);
        c->mask &= ~now;
        if (c->mask && left != k)
            w->copy[left] = *c;
        left += c->mask != 0;
    }
    w->copies = left;
}
