/* What an instruction does, as the PTX ISA defines it, on the lanes of a warp.
 *
 * The rows of ops.def become loops over 32 lanes, which the compiler makes vectors of; lanes that are not in the mask keep what they have.
 * Compile with -ffp-contract=off: each operation rounds once.
 */
#include "ops/functions.h"
#include "ops/low.h"
#include "tests/ptx/ptx.h"

#define NAN_BITS 0x7fffffffu

static u32 permuted(u32 a, u32 b, u32 by)
{
    u64 both = (u64)b << 32 | a;
    u32 out = 0;
    for (int k = 0; k < 4; k++) {
        u32 how = by >> 4 * k & 15, byte = (u32)(both >> 8 * (how & 7)) & 255;
        if (how & 8)
            byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * k;
    }
    return out;
}

static u32 inserted(u32 a, u32 b, u32 at, u32 bits)
{
    at &= 255;
    bits &= 255;
    if (at > 31 || !bits)
        return b;
    u32 mask = (bits > 31 ? ~0u : (1u << bits) - 1) << at;
    return (b & ~mask) | (a << at & mask);
}

static u32 reversed(u32 x)
{
    u32 r = 0;
    for (int k = 0; k < 32; k++)
        r |= (x >> k & 1) << (31 - k);
    return r;
}

static float smaller(float a, float b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : r_bits(a) >> 31 ? a : b;
}
static float larger(float a, float b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : r_bits(a) >> 31 ? b : a;
}

/* ---- conversions ---- */

static float rounded(float x, int how)
{
    return how == R_NEAR_INTEGER   ? __builtin_rintf(x)
           : how == R_ZERO_INTEGER ? __builtin_truncf(x)
           : how == R_DOWN_INTEGER ? __builtin_floorf(x)
                                   : __builtin_ceilf(x);
}

/* Saturates; a NaN is 0, or the highest bit alone of 64. */
static u64 to_integer(float x, int how, enum ptx_type t)
{
    int bits = 8 * ptx_bytes_of(t), is_signed = t == T_S8 || t == T_S16 || t == T_S32 || t == T_S64;
    double least = is_signed ? -__builtin_ldexp(1, bits - 1) : 0, limit = __builtin_ldexp(1, bits - is_signed), v = rounded(x, how);
    if (x != x)
        return bits == 64 ? (u64)1 << 63 : 0;
    if (v < least)
        return is_signed ? (u64)1 << (bits - 1) : 0;
    if (v >= limit)
        return is_signed ? ((u64)1 << (bits - 1)) - 1 : ~0ull >> (64 - bits);
    return is_signed ? (u64)(s64)v : (u64)v;
}

static void convert(const struct simt_warp *w, const struct ptx_insn *i, u32 m)
{
    enum ptx_type to = (enum ptx_type)i->type, from = (enum ptx_type)i->from;
    int is_signed = from == T_S8 || from == T_S16 || from == T_S32 || from == T_S64;
    EACH_LANE(m) {
        u64 x = ptx_extend(i->wide_value ? simt_row64(w, i->s[0])[lane] : simt_row32(w, i->s[0])[lane], from);
        if (from == T_F32 && to == T_F32) {
            float r = rounded(r_float((u32)x), i->how);
            x = r != r ? NAN_BITS : r_bits(r);
        } else if (from == T_F32) {
            x = to_integer(r_float((u32)x), i->how, to);
        } else if (to == T_F32) {
            x = r_bits(is_signed ? (float)(s64)x : (float)x);
        }
        x = ptx_extend(x, to);
        if (i->wide_d)
            simt_row64(w, i->d[0])[lane] = x;
        else
            simt_row32(w, i->d[0])[lane] = (u32)x;
    }
}

/* Two numbers: the first is the upper half. */
static void convert_low(const struct simt_warp *w, const struct ptx_insn *i, u32 m)
{
    const enum rp_tc_format f = (enum rp_tc_format)i->from;
    EACH_LANE(m) {
        u32 x = simt_row32(w, i->s[0])[lane];
        if (i->op == OP_FROM_LOW)
            x = rp_low_value(f, (u16)x);
        else if (i->s[1] < 0)
            x = rp_low_of(f, x);
        else
            x = (u32)rp_low_of(f, x) << 16 | rp_low_of(f, simt_row32(w, i->s[1])[lane]);
        simt_row32(w, i->d[0])[lane] = x;
    }
}

/* cvta and cvta.to: an address has its space in its top bits, or is one of that space alone */
static void convert_address(const struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    u64 window = i->space == S_GLOBAL || i->space == S_CONST ? 0 : PTX_WINDOW(i->space);
    EACH_LANE(m) {
        u64 x = simt_row64(w, i->s[0])[lane];
        if (i->op == OP_TO_GENERIC ? window && x >> 32 : PTX_WINDOW(PTX_WINDOW_OF(x)) != window)
            simt_fault(w, pc, (int)lane, "%#llx is not an address of that space", (unsigned long long)x);
        simt_row64(w, i->d[0])[lane] = i->op == OP_TO_GENERIC ? x + window : x - window;
    }
}

/* ---- the rest that is not a row ---- */

static u32 special(const struct simt_warp *w, int which, u32 lane)
{
    const struct shim_dim *b = &simt_launch.block, *g = &simt_launch.grid, *at = &w->block->index;
    u32 t = w->first + lane;
    const u32 value[] = {t % b->x, t / b->x % b->y, t / b->x / b->y, b->x, b->y, b->z, at->x,          at->y,
                         at->z,    g->x,            g->y,            g->z, lane, w->first / LANES, (1u << lane) - 1};
    return value[which];
}

static void set_predicate(const struct simt_warp *w, s32 which, u32 m, u32 value)
{
    if (which >= 0)
        w->p[which] = (w->p[which] & ~m) | (value & m);
}

static u32 joined(int how, u32 a, u32 b)
{
    return how == J_AND ? a & b : how == J_OR ? a | b : how == J_XOR ? a ^ b : a;
}

#define COMPARED(type, slot, row)                                                                                                          \
    {                                                                                                                                      \
        const slot *A = row(w, i->s[0]), *B = row(w, i->s[1]);                                                                             \
        for (int l = 0; l < LANES; l++) {                                                                                                  \
            type a, b;                                                                                                                     \
            memcpy(&a, &A[l], sizeof a);                                                                                                   \
            memcpy(&b, &B[l], sizeof b);                                                                                                   \
            less |= (u32)(a < b) << l;                                                                                                     \
            more |= (u32)(a > b) << l;                                                                                                     \
            equal |= (u32)(a == b) << l;                                                                                                   \
        }                                                                                                                                  \
        break;                                                                                                                             \
    }

static void compare(const struct simt_warp *w, const struct ptx_insn *i, u32 m)
{
    u32 less = 0, more = 0, equal = 0, yes;
    switch (i->type) {
    case T_U16:
        COMPARED(u16, u32, simt_row32)
    case T_S16:
        COMPARED(s16, u32, simt_row32)
    case T_U32:
        COMPARED(u32, u32, simt_row32)
    case T_S32:
        COMPARED(s32, u32, simt_row32)
    case T_U64:
        COMPARED(u64, u64, simt_row64)
    case T_S64:
        COMPARED(s64, u64, simt_row64)
    default:
        COMPARED(float, u32, simt_row32)
    }
    u32 unordered = ~(less | more | equal); /* a NaN: none of the three */
    const u32 answers[] = {[C_EQ] = equal,
                           [C_NE] = less | more,
                           [C_LT] = less,
                           [C_LE] = less | equal,
                           [C_GT] = more,
                           [C_GE] = more | equal,
                           [C_EQU] = equal | unordered,
                           [C_NEU] = less | more | unordered,
                           [C_LTU] = less | unordered,
                           [C_LEU] = less | equal | unordered,
                           [C_GTU] = more | unordered,
                           [C_GEU] = more | equal | unordered,
                           [C_NUM] = ~unordered,
                           [C_NAN] = unordered};
    u32 by = i->join ? w->p[i->ps[0]] ^ i->flip : 0;
    yes = answers[i->how];
    set_predicate(w, i->pd[0], m, joined(i->join, yes, by));
    set_predicate(w, i->pd[1], m, joined(i->join, ~yes, by));
}

static void pack_or_unpack(const struct simt_warp *w, const struct ptx_insn *i, u32 m)
{
    EACH_LANE(m) {
        if (i->type == T_U32 && i->op == OP_PACK) {
            simt_row32(w, i->d[0])[lane] = simt_row32(w, i->s[1])[lane] << 16 | (u16)simt_row32(w, i->s[0])[lane];
            continue;
        }
        if (i->op == OP_PACK) {
            simt_row64(w, i->d[0])[lane] = (u64)simt_row32(w, i->s[1])[lane] << 32 | simt_row32(w, i->s[0])[lane];
            continue;
        }
        const int bits = i->type == T_U32 ? 16 : 32;
        u64 x = bits == 16 ? simt_row32(w, i->s[0])[lane] : simt_row64(w, i->s[0])[lane];
        for (int k = 0; k < 2; k++)
            if (i->d[k] >= 0)
                simt_row32(w, i->d[k])[lane] = (u32)(x >> k * bits & (~0ull >> (64 - bits)));
    }
}

static void select_by(const struct simt_warp *w, const struct ptx_insn *i, u32 m)
{
    u32 by = w->p[i->ps[0]] ^ i->flip;
    if (i->type == T_U64) {
        u64 *d = simt_row64(w, i->d[0]), *a = simt_row64(w, i->s[0]), *b = simt_row64(w, i->s[1]);
        for (int l = 0; l < LANES; l++)
            d[l] = m >> l & 1 ? (by >> l & 1 ? a[l] : b[l]) : d[l];
        return;
    }
    u32 *d = simt_row32(w, i->d[0]), *a = simt_row32(w, i->s[0]), *b = simt_row32(w, i->s[1]);
    for (int l = 0; l < LANES; l++)
        d[l] = m >> l & 1 ? (by >> l & 1 ? a[l] : b[l]) : d[l];
}

static void others(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    u32 a = i->ps[0] >= 0 ? w->p[i->ps[0]] : 0, b = i->ps[1] >= 0 ? w->p[i->ps[1]] : 0;
    switch (i->op) {
    case OP_AND_PRED:
        set_predicate(w, i->pd[0], m, a & b);
        break;
    case OP_OR_PRED:
        set_predicate(w, i->pd[0], m, a | b);
        break;
    case OP_XOR_PRED:
        set_predicate(w, i->pd[0], m, a ^ b);
        break;
    case OP_NOT_PRED:
        set_predicate(w, i->pd[0], m, ~a);
        break;
    case OP_MOV_PRED:
        set_predicate(w, i->pd[0], m, a);
        break;
    case OP_SPECIAL:
        EACH_LANE(m)
            simt_row32(w, i->d[0])[lane] = special(w, i->how, lane);
        break;
    case OP_PACK:
    case OP_UNPACK:
        pack_or_unpack(w, i, m);
        break;
    case OP_CONVERT:
        convert(w, i, m);
        break;
    case OP_TO_LOW:
    case OP_FROM_LOW:
        convert_low(w, i, m);
        break;
    case OP_TO_SPACE:
    case OP_TO_GENERIC:
        convert_address(w, pc, i, m);
        break;
    case OP_ATOMIC:
        ptx_atomic(w, pc, i, m);
        break;
    case OP_COPY:
        ptx_copy(w, pc, i, m);
        break;
    case OP_COPY_COMMIT:
        EACH_LANE(m)
            w->committed[lane]++;
        break;
    case OP_COPY_WAIT:
        simt_copy_wait(w, m, i->imm);
        break;
    case OP_FENCE: /* stores are seen at once; what is ordered is a question for races.c */
        if (simt_launch.races)
            simt_races_fence(w, m);
        break;
    case OP_PROXY_FENCE:
        EACH_LANE(m)
            w->proxies[lane]++;
        break;
    case OP_BARRIER_INIT:
    case OP_BARRIER_ARRIVE:
    case OP_BARRIER_WAIT:
        ptx_barrier(w, pc, i, m);
        break;
    case OP_TENSOR_COPY:
        ptx_tensor_copy(w, pc, i, m);
        break;
    case OP_SLEEP: /* the load before it has let others run */
        break;
    case OP_TRAP:
        simt_fault(w, pc, __builtin_ctz(m), "the kernel ended itself");
    default:
        simt_fault(w, pc, -1, "this instruction cannot be executed");
    }
}

/* ---- rows: loops over lanes, made from ops.def ---- */

typedef float __attribute__((may_alias)) row_float;
static inline row_float *row_float_at(const struct simt_warp *w, s32 place)
{
    return (row_float *)simt_row32(w, place);
}

/* d[l] = expression, in lanes of m; what the sources are called in the expression is declared by `sources`. */
#define LOOP(slot, ROW_OF, sources, expression)                                                                                            \
    {                                                                                                                                      \
        slot *D = ROW_OF(w, i->d[0]);                                                                                                      \
        _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++)                                                                               \
        {                                                                                                                                  \
            sources;                                                                                                                       \
            D[l] = m >> l & 1 ? (slot)(expression) : D[l];                                                                                 \
        }                                                                                                                                  \
        break;                                                                                                                             \
    }
/* A source's row; one that is not there is the first again, and not used. */
#define S(ROW_OF, k, n) ROW_OF(w, i->s[(k) < (n) ? (k) : 0])[l]
#define SAME(slot, ROW_OF, type, as, n, expression)                                                                                        \
    LOOP(slot, ROW_OF,                                                                                                                     \
         type a = (type)S(ROW_OF, 0, n); type b = (type)S(ROW_OF, 1, n); type c = (type)S(ROW_OF, 2, n); type e = (type)S(ROW_OF, 3, n);   \
         (void)a; (void)b; (void)c; (void)e, (as)(expression))
#define SHIFTED(slot, ROW_OF, type, as, expression)                                                                                        \
    LOOP(slot, ROW_OF, type a = (type)S(ROW_OF, 0, 2); u32 b = S(simt_row32, 1, 2), (as)(expression))
#define WIDENED(slot, ROW_OF, type, wide, n, expression)                                                                                   \
    LOOP(slot, ROW_OF, wide a = (wide)(type)S(simt_row32, 0, n); wide b = (wide)(type)S(simt_row32, 1, n);                                   \
         wide c = n > 2 ? (wide)ROW_OF(w, i->s[n > 2 ? 2 : 0])[l] : 0; (void)c, expression)

#define CASE(id, type) case OP_##id << 4 | (type):
#define KIND_BITS(id, n, e)                                                                                                                \
    CASE(id, T_U16) SAME(u32, simt_row32, u16, u16, n, e)                                                                                   \
    CASE(id, T_U32) SAME(u32, simt_row32, u32, u32, n, e)                                                                                   \
    CASE(id, T_U64) SAME(u64, simt_row64, u64, u64, n, e)
#define KIND_INTEGER(id, n, e)                                                                                                             \
    KIND_BITS(id, n, e)                                                                                                                    \
    CASE(id, T_S16) SAME(u32, simt_row32, s16, u16, n, e)                                                                                   \
    CASE(id, T_S32) SAME(u32, simt_row32, s32, u32, n, e)                                                                                   \
    CASE(id, T_S64) SAME(u64, simt_row64, s64, u64, n, e)
#define KIND_WORD(id, n, e)                                                                                                                \
    CASE(id, T_U32) SAME(u32, simt_row32, u32, u32, n, e)                                                                                   \
    CASE(id, T_S32) SAME(u32, simt_row32, s32, u32, n, e)
#define KIND_DIVIDE(id, n, e) KIND_INTEGER(id, n, (no_divisor |= (u32)!b << l, b = b ? b : 1, e))
#define KIND_SHIFT(id, n, e)                                                                                                               \
    CASE(id, T_U16) SHIFTED(u32, simt_row32, u16, u16, e)                                                                                   \
    CASE(id, T_S16) SHIFTED(u32, simt_row32, s16, u16, e)                                                                                   \
    CASE(id, T_U32) SHIFTED(u32, simt_row32, u32, u32, e)                                                                                   \
    CASE(id, T_S32) SHIFTED(u32, simt_row32, s32, u32, e)                                                                                   \
    CASE(id, T_U64) SHIFTED(u64, simt_row64, u64, u64, e)                                                                                   \
    CASE(id, T_S64) SHIFTED(u64, simt_row64, s64, u64, e)
#define KIND_WIDE(id, n, e)                                                                                                                \
    CASE(id, T_U16) WIDENED(u32, simt_row32, u16, u32, n, e)                                                                                \
    CASE(id, T_S16) WIDENED(u32, simt_row32, s16, s32, n, e)                                                                                \
    CASE(id, T_U32) WIDENED(u64, simt_row64, u32, u64, n, e)                                                                                \
    CASE(id, T_S32) WIDENED(u64, simt_row64, s32, s64, n, e)
#define KIND_FLOAT(id, n, e)                                                                                                               \
    CASE(id, T_F32)                                                                                                                        \
    LOOP(row_float, row_float_at, float a = S(row_float_at, 0, n); float b = S(row_float_at, 1, n); float c = S(row_float_at, 2, n);       \
         (void)b; (void)c; float r = e, r != r ? one_nan : r)

void ptx_execute(struct simt_warp *w, u32 pc, const struct ptx_insn *i, u32 m)
{
    const float one_nan = r_float(NAN_BITS);
    u32 no_divisor = 0;
    switch (i->op << 4 | i->type) {
#define ROW(kind, id, name, sources, expression) KIND_##kind(id, sources, expression)
#include "tests/ptx/ops.def"
#undef ROW
    default:
        switch (i->op) {
        case OP_LOAD:
            ptx_load(w, pc, i, m);
            break;
        case OP_STORE:
            ptx_store(w, pc, i, m);
            break;
        case OP_COMPARE:
            compare(w, i, m);
            break;
        case OP_SELECT:
            select_by(w, i, m);
            break;
        default:
            others(w, pc, i, m);
        }
    }
    if (no_divisor & m)
        simt_fault(w, pc, __builtin_ctz(no_divisor & m), "divides by zero");
}
