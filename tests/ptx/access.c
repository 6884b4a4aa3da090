/* Loads, stores, atomics and copies of PTX: in which space an address is, and what is read or written there. */
#include "tests/ptx/ptx.h"

static void check_range(const struct simt_warp *w, u32 pc, u32 lane, u64 offset, u32 bytes, u64 size, const char *verb,
                        const char *where)
{
    if ((offset & (bytes - 1)) || offset >= size || offset + bytes > size)
        simt_fault(w, pc, (int)lane, "%s %u bytes at %#llx of %s of %llu bytes", verb, bytes,
                   (unsigned long long)offset, where, (unsigned long long)size);
}

static enum simt_access access_of(const struct ptx_insn *i)
{
    return i->order == O_RELAXED   ? (i->op == OP_LOAD || (i->op == OP_ATOMIC && i->d[0] >= 0) ? OBSERVE : ATOMIC)
           : i->order == O_ACQUIRE ? ACQUIRE
           : i->order == O_RELEASE ? RELEASE
           : i->op == OP_STORE     ? WRITE
                                   : READ;
}

static void *any_at(const struct simt_warp *w, u32 pc, u32 lane, const struct ptx_insn *i, u64 address)
{
    u32 bytes = (u32)i->bytes * i->vec;
    int is_write = i->op != OP_LOAD;
    const char *verb = is_write ? "writes" : "reads";
    enum ptx_space space = (enum ptx_space)i->space;
    if (space == S_GENERIC) {
        space = (enum ptx_space)PTX_WINDOW_OF(address);
        address -= PTX_WINDOW(space);
        if (space == S_GENERIC)
            space = address >= (u64)(uintptr_t)ptx_constants_begin && address < (u64)(uintptr_t)ptx_constants_end
                        ? S_CONST
                        : S_GLOBAL;
    }
    if (is_write && (space == S_CONST || space == S_PARAM))
        simt_fault(w, pc, (int)lane, "writes memory that only can be read");
    switch (space) {
    case S_SHARED:
        return simt_shared_at(w, pc, lane, address, bytes, is_write ? WRITE : READ, verb);
    case S_LOCAL:
        check_range(w, pc, lane, address, bytes, w->kernel->local, verb, "local memory");
        return w->local + (size_t)lane * w->kernel->local + address;
    case S_CONST:
        check_range(w, pc, lane, address - (u64)(uintptr_t)ptx_constants_begin, bytes,
                    (u64)(ptx_constants_end - ptx_constants_begin), verb, "constants");
        return (void *)(uintptr_t)address; /* NOLINT */
    case S_PARAM:
        check_range(w, pc, lane, address, bytes, w->kernel->params, verb, "parameters");
        return (void *)(uintptr_t)(simt_launch.args + address);
    case S_GLOBAL: {
        void *p = simt_global_at(w, pc, lane, address, bytes, verb);
        const char *race = w->kernel->has_nc ? simt_race_nc(address, bytes, i->is_nc, is_write) : NULL;
        if (race)
            simt_fault(w, pc, (int)lane, "%s %#llx, %s", verb, (unsigned long long)address, race);
        simt_check_order(w, pc, lane, address, bytes, access_of(i), verb);
        return p;
    }
    default:
        simt_fault(w, pc, (int)lane, "%s %#llx, an address of no space", verb, (unsigned long long)address);
    }
}

u64 ptx_address_of(const struct simt_warp *w, const struct ptx_insn *i, u32 lane)
{
    u64 base = i->s[0] < 0 ? 0 : i->wide_s ? simt_row64(w, i->s[0])[lane] : simt_row32(w, i->s[0])[lane];
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

static u64 get(const struct simt_warp *w, s32 place, int is_wide, u32 lane)
{
    return is_wide ? simt_row64(w, place)[lane] : simt_row32(w, place)[lane];
}

void ptx_load(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    EACH_LANE(m) {
        const u8 *p = any_at(w, pc, lane, i, ptx_address_of(w, i, lane));
        for (int k = 0; k < i->vec; k++) {
            u64 x = 0;
            if (i->d[k] < 0)
                continue;
            if (i->bytes == 4 && !i->wide_d) { /* most of them */
                memcpy(&simt_row32(w, i->d[k])[lane], p + 4 * k, 4);
                continue;
            }
            memcpy(&x, p + k * i->bytes, i->bytes);
            x = ptx_extend(x, (enum ptx_type)i->type);
            if (i->wide_d)
                simt_row64(w, i->d[k])[lane] = x;
            else
                simt_row32(w, i->d[k])[lane] = (u32)x;
        }
    }
}

void ptx_store(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    EACH_LANE(m) {
        u8 *p = any_at(w, pc, lane, i, ptx_address_of(w, i, lane));
        for (int k = 0; k < i->vec; k++) {
            u64 x = get(w, i->s[1 + k], i->wide_value, lane);
            memcpy(p + k * i->bytes, &x, i->bytes);
        }
    }
}

void ptx_atomic(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    enum ptx_type t = (enum ptx_type)i->type;
    EACH_LANE(m) {
        u8 *p = any_at(w, pc, lane, i, ptx_address_of(w, i, lane));
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
            simt_row64(w, i->d[0])[lane] = old;
        else if (i->d[0] >= 0)
            simt_row32(w, i->d[0])[lane] = (u32)old;
    }
}

/* A map is a parameter of the kernel. */
void ptx_tensor_copy(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    EACH_LANE(m)
    {
        const u64 map = simt_row64(w, i->s[1])[lane] + (u64)i->imm2, at = map - PTX_WINDOW(S_PARAM);
        if (PTX_WINDOW_OF(map) != S_PARAM || at % 64)
            simt_fault(w, pc, (int)lane, "a map at %#llx, which is no parameter that is aligned to 64 bytes",
                       (unsigned long long)map);
        check_range(w, pc, lane, at, 64, w->kernel->params, "reads", "parameters");
        check_range(w, pc, lane, at + 64, 64, w->kernel->params, "reads", "parameters");
        simt_tensor_issue(w, pc, lane, simt_launch.args + at, ptx_address_of(w, i, lane),
                          (s32)simt_row32(w, i->s[2])[lane], (s32)simt_row32(w, i->s[3])[lane],
                          simt_row32(w, i->s[4])[lane]);
    }
}

void ptx_barrier(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    u32 complete = 0;
    EACH_LANE(m)
    {
        const u64 at = ptx_address_of(w, i, lane);
        const u32 value = i->s[1] < 0 ? 0 : simt_row32(w, i->s[1])[lane];
        if (i->op == OP_BARRIER_INIT)
            simt_barrier_init(w, pc, lane, at, value);
        else if (i->op == OP_BARRIER_ARRIVE)
            simt_barrier_arrive(w, pc, lane, at, value);
        else
            complete |= (u32)simt_barrier_is_complete(w, pc, lane, at, value) << lane;
    }
    if (w->waits_at && i->op == OP_BARRIER_WAIT)
        simt_tensor_land(w->block, w->waits_at);
    if (i->op == OP_BARRIER_WAIT)
        w->p[i->pd[0]] = (w->p[i->pd[0]] & ~m) | complete;
}

void ptx_copy(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    struct simt_copy *c = simt_new_copy(w, pc, m, i->bytes);
    EACH_LANE(m) {
        c->to[lane] = (u32)ptx_address_of(w, i, lane);
        c->from[lane] = simt_row64(w, i->s[1])[lane] + (u64)i->imm2;
        c->inside[lane] = i->s[2] < 0 ? i->bytes : simt_row32(w, i->s[2])[lane];
    }
    simt_copy_start(w, c);
}
