/* What an instruction does on the lanes of a warp: integers, selections, predicates; float.c has the rest of the
 * arithmetic. Most are loops over 32 lanes, which the compiler makes vectors of.
 */
#include "tests/sass/lanes.h"

void sass_put(const struct simt_warp *w, s32 place, u32 m, const u32 *value)
{
    u32 *d = sass_row(w, place);
    if (place >= SASS_ROW(ROW_U) && place < SASS_ROW(ROW_SINK))
        EACH d[l] = value[__builtin_ctz(m)];
    else
        EACH_PARALLEL d[l] = m >> l & 1 ? value[l] : d[l];
}

/* ---- integers ---- */

static u32 carried(const struct simt_warp *w, const struct sass_insn *i, int k)
{
    return i->flags & X ? sass_get(w, i, k) : 0;
}

static void multiply_add(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    int is_signed = i->type == T_S32;
    u64 p[LANES], add[LANES], sum[LANES];
    u32 carry = carried(w, i, 0), overflow = 0;
    if (!(i->flags & (WIDE | HI))) {
        PUT(a[l] * b[l] + c[l] + (carry >> l & 1))
        return;
    }
    pairs(w, i, 2, add);
    EACH p[l] = is_signed ? (u64)((s64)(s32)a[l] * (s32)b[l]) : (u64)a[l] * b[l];
    EACH sum[l] = p[l] + add[l];
    EACH overflow |= (u32)(sum[l] < p[l]) << l;
    if (i->flags & WIDE)
        put_pair(w, i, m, sum);
    else
        PUT(sum[l] >> 32)
    sass_set(w, i->pd[0], m, overflow);
}

/* A negated source is its complement and one more, so that carries are those of the hardware. */
static void add_three(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u64 sum[LANES];
    u32 first = carried(w, i, 0), second = carried(w, i, 1), carry = 0, more = 0;
    if (i->bytes == 8) {
        u64 a[LANES], b[LANES], c[LANES];
        pairs(w, i, 0, a), pairs(w, i, 1, b), pairs(w, i, 2, c);
        EACH sum[l] = a[l] + b[l] + c[l];
        put_pair(w, i, m, sum);
        if (i->pd[0] != PRED_SINK || i->pd[1] != PRED_SINK)
            simt_fault(w, pc, -1, "the carry of 64 bits is not defined here");
        return;
    }
    EACH sum[l] = (first >> l & 1) + (second >> l & 1);
    for (int k = 0; k < 3; k++) {
        const u32 *r = sass_row(w, i->s[k]);
        u32 flip = i->sign[k] ? ~0u : 0, one = i->sign[k] == NEGATED;
        EACH sum[l] += (u64)(r[l] ^ flip) + one;
    }
    EACH carry |= (u32)(sum[l] >> 32 >= 1) << l;
    EACH more |= (u32)(sum[l] >> 32 >= 2) << l;
    if (i->pd[0] != PRED_SINK && i->pd[1] == PRED_SINK && more & m)
        simt_fault(w, pc, __builtin_ctz(more & m), "a sum has two carries and one predicate");
    PUT(sum[l])
    sass_set(w, i->pd[0], m, carry);
    sass_set(w, i->pd[1], m, more);
}

/* (a << shift) + b; HI: the upper half of the 64 bits of c and a, or of a with its sign */
static void shifted_add(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    u64 sum[LANES];
    u32 carry = carried(w, i, 0), overflow = 0, shift = (u32)i->imm & 31;
    EACH {
        u32 high = i->flags & SX32 ? (u32)((s32)a[l] >> 31) : c[l];
        u64 v = ((u64)high << 32 | a[l]) << shift;
        sum[l] = (u64)(u32)(i->flags & HI ? v >> 32 : v) + b[l] + (carry >> l & 1);
    }
    EACH overflow |= (u32)(sum[l] >> 32 & 1) << l;
    PUT(sum[l])
    sass_set(w, i->pd[0], m, overflow);
}

static u32 looked_up(u32 a, u32 b, u32 c, u32 table)
{
    u32 out = 0;
    for (int k = 0; k < 8; k++)
        if (table >> k & 1)
            out |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return out;
}

static void logic(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    u32 some = 0, out[LANES] = {0};
    for (int k = 0; k < 8; k++) {
        u32 fa = k & 4 ? 0 : ~0u, fb = k & 2 ? 0 : ~0u, fc = k & 1 ? 0 : ~0u;
        if (i->imm >> k & 1)
            EACH out[l] |= (a[l] ^ fa) & (b[l] ^ fb) & (c[l] ^ fc);
    }
    EACH some |= (u32)(out[l] != 0) << l;
    PUT(out[l])
    sass_set(w, i->pd[0], m, some | sass_get(w, i, 0));
}

/* The 64 bits of c and a, shifted by b. */
static void shift(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    u32 most = i->type == T_U64 || i->type == T_S64 ? 64 : 32;
    int is_signed = i->type == T_S32 || i->type == T_S64;
    EACH {
        u32 by = i->flags & WRAP ? b[l] & (most - 1) : b[l] > most ? most : b[l], half = by / 2;
        u64 v = (u64)c[l] << 32 | a[l];
        v = i->flags & LEFT ? v << half << (by - half)
            : is_signed     ? (u64)((s64)v >> half >> (by - half))
                            : v >> half >> (by - half);
        ta[l] = (u32)(i->flags & HI ? v >> 32 : v);
    }
    PUT(ta[l])
}

static void permute(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    EACH {
        u64 both = (u64)c[l] << 32 | a[l];
        u32 out = 0;
        for (int k = 0; k < 4; k++) {
            u32 how = b[l] >> 4 * k & 15, byte = (u32)(both >> 8 * (how & 7)) & 255;
            out |= (how & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * k;
        }
        ta[l] = out;
    }
    PUT(ta[l])
}

static void smaller_or_larger(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    u32 smaller = sass_get(w, i, 0);
    if (i->type == T_S64 || i->type == T_U64) {
        u64 x[LANES], y[LANES], flip = i->type == T_S64 ? 1ull << 63 : 0;
        pairs(w, i, 0, x), pairs(w, i, 1, y);
        EACH x[l] = ((x[l] ^ flip) < (y[l] ^ flip)) == (smaller >> l & 1) ? x[l] : y[l];
        put_pair(w, i, m, x);
        return;
    }
    SOURCES(integer);
    u32 flip = i->type == T_S32 ? 0x80000000 : 0;
    if (i->op == SASS_VIADDMNMX) {
        EACH tb[l] = a[l] + b[l];
        a = tb;
        b = c;
    }
    EACH {
        u32 out = ((a[l] ^ flip) < (b[l] ^ flip)) == (smaller >> l & 1) ? a[l] : b[l];
        tc[l] = i->flags & RELU && (s32)out < 0 ? 0 : out;
    }
    if (i->pd[0] != PRED_SINK) { /* whether the second was taken; where they are equal, either may be said */
        u32 taken = 0;
        EACH taken |= (u32)(a[l] == b[l] ? l & 1 : ((a[l] ^ flip) < (b[l] ^ flip)) != (smaller >> l & 1)) << l;
        sass_set(w, i->pd[0], m, taken);
    }
    PUT(tc[l])
}

static u32 reversed(u32 x)
{
    u32 r = 0;
    for (int k = 0; k < 32; k++)
        r |= (x >> k & 1) << (31 - k);
    return r;
}

/* ---- predicates ---- */

static u32 joined(int how, u32 a, u32 b)
{
    return how == J_AND ? a & b : how == J_OR ? a | b : a ^ b;
}

static u32 answer(int how, u32 less, u32 more, u32 equal)
{
    u32 unordered = ~(less | more | equal); /* a NaN: none of the three */
    const u32 answers[] = {[C_EQ] = equal,
                           [C_NE] = less | more,
                           [C_LT] = less,
                           [C_LE] = less | equal,
                           [C_GT] = more,
                           [C_GE] = more | equal,
                           [C_NUM] = ~unordered,
                           [C_NAN] = unordered,
                           [C_EQU] = equal | unordered,
                           [C_NEU] = less | more | unordered,
                           [C_LTU] = less | unordered,
                           [C_LEU] = less | equal | unordered,
                           [C_GTU] = more | unordered,
                           [C_GEU] = more | equal | unordered};
    return answers[how];
}

#define COMPARED(type, A, B)                                                                                           \
    EACH                                                                                                               \
    {                                                                                                                  \
        type x_ = (type)(A), y_ = (type)(B);                                                                           \
        less |= (u32)(x_ < y_) << l;                                                                                   \
        more |= (u32)(x_ > y_) << l;                                                                                   \
        equal |= (u32)(x_ == y_) << l;                                                                                 \
    }

static void compare(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    u32 less = 0, more = 0, equal = 0, by = sass_get(w, i, 0);
    if (i->op == SASS_FSETP) {
        SOURCES(floats);
        COMPARED(float, r_float(a[l]), r_float(b[l]))
    } else if (i->type == T_S64 || i->type == T_U64) {
        u64 x[LANES], y[LANES];
        pairs(w, i, 0, x), pairs(w, i, 1, y);
        if (i->type == T_S64)
            COMPARED(s64, x[l], y[l])
        else
            COMPARED(u64, x[l], y[l])
    } else {
        SOURCES(integer);
        if (i->type == T_S32)
            COMPARED(s32, a[l], b[l])
        else
            COMPARED(u32, a[l], b[l])
    }
    u32 yes = answer(i->compare, less, more, equal);
    if (i->flags & EX) { /* where the upper halves are equal, the comparison of the lower ones counts */
        u32 lower = sass_get(w, i, 1);
        yes = i->compare == C_NE ? ~equal | lower : (yes & ~equal) | (equal & lower);
    }
    sass_set(w, i->pd[0], m, joined(i->join, yes, by));
    sass_set(w, i->pd[1], m, joined(i->join, ~yes, by));
}

static void predicates(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    u32 a = sass_get(w, i, 0), b = sass_get(w, i, 1), c = sass_get(w, i, 2);
    sass_set(w, i->pd[0], m, looked_up(a, b, c, (u32)i->imm));
    sass_set(w, i->pd[1], m, looked_up(a, b, c, (u32)(i->imm >> 32)));
}

static void predicates_to_register(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    u32 mask = (u32)i->imm;
    if (i->op == SASS_R2P) {
        for (int k = 0; k < 7; k++) {
            u32 bits = 0;
            EACH bits |= (a[l] >> k & 1) << l;
            if (mask >> k & 1)
                sass_set(w, (u32)k, m, bits);
        }
        return;
    }
    EACH {
        u32 bits = 0;
        for (int k = 0; k < 7; k++)
            bits |= (w->p[k] >> l & 1) << k;
        ta[l] = (a[l] & ~mask) | (bits & mask);
    }
    PUT(ta[l])
}

/* ---- the rest ---- */

static void select_by(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    u32 by = sass_get(w, i, 0);
    if (i->bytes == 8) {
        u64 a[LANES], b[LANES];
        pairs(w, i, 0, a), pairs(w, i, 1, b);
        EACH a[l] = by >> l & 1 ? a[l] : b[l];
        put_pair(w, i, m, a);
    } else if (i->op == SASS_FSEL) {
        SOURCES(floats);
        PUT(by >> l & 1 ? a[l] : b[l])
    } else {
        SOURCES(integer);
        PUT(by >> l & 1 ? a[l] : b[l])
    }
}

static void move(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    if (i->op == SASS_R2UR) { /* a uniform register has one value */
        EACH_LANE(m)
        if (a[lane] != a[__builtin_ctz(m)])
            simt_fault(w, pc, (int)lane, "lanes have different values for a uniform register");
        sass_put(w, i->d, m, a);
    } else if (i->bytes == 8) {
        u64 wide[LANES];
        pairs(w, i, 0, wide);
        put_pair(w, i, m, wide);
    } else {
        PUT(a[l])
    }
}

static void special(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    const struct shim_dim *b = &simt_launch.block, *at = &w->block->index;
    u32 out[LANES];
    EACH {
        u32 lane = (u32)l, t = w->first + lane;
        const u32 value[] = {0, t % b->x, t / b->x % b->y, t / b->x / b->y, at->x, at->y, at->z,
                             0, lane,     0x70000000,      (1u << lane) - 1};
        out[l] = value[i->imm];
    }
    sass_put(w, i->d, m, out);
    if (i->op == SASS_CS2R && i->bytes == 8)
        sass_put(w, i->d + SASS_ROW(1), m, out);
}

static void vote(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    u32 yes = sass_get(w, i, 0) & m, out[LANES];
    EACH out[l] = yes;
    sass_put(w, i->d, m, out);
    sass_set(w, i->pd[0], i->flags & UNIFORM ? ~0u : m, (i->how == H_ANY ? yes != 0 : yes == m) ? ~0u : 0);
}

static void shuffle(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    SOURCES(integer);
    u32 out[LANES] = {0}, valid = simt_shuffle(w, pc, m, i->how - H_UP, a, b, c, out);
    PUT(out[l])
    sass_set(w, i->pd[0], m, valid);
}

static int execute_integer(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    switch (i->op) {
    case SASS_IMAD:
        multiply_add(w, i, m);
        return 1;
    case SASS_IADD3:
    case SASS_IADD:
    case SASS_VIADD:
        add_three(w, pc, i, m);
        return 1;
    case SASS_LEA:
        shifted_add(w, i, m);
        return 1;
    case SASS_LOP3:
        logic(w, i, m);
        return 1;
    case SASS_SHF:
        shift(w, i, m);
        return 1;
    case SASS_PRMT:
        permute(w, i, m);
        return 1;
    case SASS_IMNMX:
    case SASS_VIMNMX:
    case SASS_VIADDMNMX:
        smaller_or_larger(w, i, m);
        return 1;
    case SASS_IABS:
    case SASS_BREV:
    case SASS_POPC:
    case SASS_FLO: {
        SOURCES(integer);
        if (i->op == SASS_IABS)
            PUT((s32)a[l] < 0 ? -a[l] : a[l])
        else if (i->op == SASS_BREV)
            PUT(reversed(a[l]))
        else if (i->op == SASS_POPC)
            PUT(__builtin_popcount(a[l]))
        else
            PUT(!a[l] ? ~0u : i->flags & SHIFT ? (u32)__builtin_clz(a[l]) : 31u - (u32)__builtin_clz(a[l]))
        return 1;
    }
    default:
        return 0;
    }
}

void sass_execute(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u32 active = m;
    if (i->flags & UNIFORM)
        m = ~0u; /* once for the warp: every lane has the same value */
    if (sass_float(w, i, m) || execute_integer(w, pc, i, m) || sass_access(w, pc, i, active) ||
        sass_matrix(w, pc, i, active) || sass_product(w, pc, i, active))
        return;
    switch (i->op) {
    case SASS_ISETP:
    case SASS_FSETP:
        compare(w, i, m);
        break;
    case SASS_PLOP3:
        predicates(w, i, m);
        break;
    case SASS_P2R:
    case SASS_R2P:
        predicates_to_register(w, i, m);
        break;
    case SASS_SEL:
    case SASS_FSEL:
        select_by(w, i, m);
        break;
    case SASS_MOV:
    case SASS_HFMA2:
    case SASS_R2UR:
        move(w, pc, i, m);
        break;
    case SASS_S2R:
    case SASS_CS2R:
        special(w, i, m);
        break;
    case SASS_ELECT: /* one of the lanes that are here */
        m = active & sass_get(w, i, 0);
        sass_set(w, i->pd[0], active, m & -m);
        break;
    case SASS_VOTE:
        vote(w, i, active);
        break;
    case SASS_SHFL:
        shuffle(w, pc, i, m);
        break;
    default:
        simt_fault(w, pc, -1, "this instruction cannot be executed");
    }
}
