/* From an opcode and its operands to an instruction.
 *
 * An opcode is a name and a type: what is a row of ops.def matches as a whole, "add.rn" with f32, so that a modifier
 * that no row has is refused. The others take their modifiers one after the other in the order of the PTX ISA; the rest
 * of the opcode must be empty. Every function takes words from the same opcode, so that instructions of memory and of
 * matrices, which are in decode_memory.inc.h and decode_matrix.inc.h, are parts of this file.
 */
#include "tests/ptx/ptx.h"

#include "tests/shim/matrix.h"

#include <stdio.h>
#include <string.h>

static struct simt_kernel *kernel;
static struct ptx_insn *insn;
static struct ptx_operand *operand;
static int operands;
static char *modifiers; /* what is left of the opcode */

enum kind { KIND_INTEGER, KIND_BITS, KIND_WORD, KIND_SHIFT, KIND_WIDE, KIND_FLOAT, KIND_DIVIDE };
static const struct {
    const char *name;
    enum kind kind;
    enum ptx_op op;
    int sources;
} rows[] = {
#define ROW(kind, id, name, sources, expression) {name, KIND_##kind, OP_##id, sources},
#include "tests/ptx/ops.def"
#undef ROW
};

/* ---- modifiers and types ---- */

static int take(const char *modifier)
{
    size_t n = strlen(modifier);
    if (strncmp(modifiers, modifier, n) != 0 || (modifiers[n] && modifiers[n] != '.'))
        return 0;
    modifiers += n;
    return 1;
}

static void must_take(const char *modifier)
{
    if (!take(modifier))
        simt_refuse("'%s' is expected instead of '%s'", modifier, modifiers);
}

/* The index of the modifier in the list, which ends with NULL; -1: none of them is next. */
static int take_one_of(const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (take(list[i]))
            return i;
    return -1;
}

static enum ptx_type take_type(void)
{
    size_t n = *modifiers == '.' ? strcspn(modifiers + 1, ".") : 0;
    char name[16] = "";
    if (n && n < sizeof name)
        memcpy(name, modifiers + 1, n);
    enum ptx_type t = ptx_type_named(name);
    if (t == T_NONE)
        simt_refuse("a type is expected instead of '%s'", modifiers);
    modifiers += n + 1;
    return t;
}

enum ptx_type ptx_type_named(const char *name)
{
    static const struct {
        const char *name;
        enum ptx_type type;
    } types[] = {{"u8", T_U8},   {"b8", T_U8},   {"s8", T_S8},   {"u16", T_U16}, {"b16", T_U16}, {"s16", T_S16},
                 {"u32", T_U32}, {"b32", T_U32}, {"s32", T_S32}, {"u64", T_U64}, {"b64", T_U64}, {"s64", T_S64},
                 {"f32", T_F32}, {"pred", T_PRED}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return T_NONE;
}

enum ptx_width ptx_width_of(enum ptx_type t)
{
    return t == T_PRED ? W_PRED : t == T_U64 || t == T_S64 ? W64 : t <= T_S16 ? W16 : W32;
}

int ptx_bytes_of(enum ptx_type t)
{
    static const int bytes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 0};
    return bytes[t];
}

/* ---- operands ---- */

static void expect_operands(int n)
{
    if (operands != n)
        simt_refuse("%d operands are expected, not %d", n, operands);
}

/* Registers of 16 and 32 bits have rows of one size. */
static int is_same_row(enum ptx_width a, enum ptx_width b)
{
    return a == b || ((a == W16 || a == W32) && (b == W16 || b == W32));
}

static s32 source(const struct ptx_operand *o, enum ptx_width width)
{
    if (o->kind == K_IMMEDIATE)
        return ptx_constant_place(kernel, (u64)o->value, width);
    if (o->kind == K_NAME && (width == W32 || width == W64))
        return ptx_constant_place(kernel, ptx_symbol(o->name), width);
    if (o->kind != K_REGISTER || o->negated || !is_same_row(o->width, width))
        simt_refuse("operand '%s' has another kind or size than expected", o->name);
    return o->place;
}

static s32 destination(const struct ptx_operand *o, enum ptx_width width)
{
    if (o->kind == K_SINK)
        return -1;
    if (o->kind != K_REGISTER || !is_same_row(o->width, width))
        simt_refuse("destination '%s' has another kind or size than expected", o->name);
    return o->place;
}

static s32 predicate(const struct ptx_operand *o)
{
    if (o->kind == K_IMMEDIATE) { /* mov.pred %p1, 0 */
        s32 *place = &kernel->always[o->value != 0];
        if (*place < 0)
            *place = (s32)kernel->preds++;
        return *place;
    }
    if (o->kind != K_REGISTER || o->width != W_PRED)
        simt_refuse("'%s' is expected to be a predicate", o->name);
    return o->place;
}

static s32 predicate_written(const struct ptx_operand *o)
{
    return o->kind == K_SINK ? -1 : predicate(o);
}

static void take_sources(const struct ptx_operand *o, int n, enum ptx_width width)
{
    for (int i = 0; i < n; i++)
        insn->s[i] = source(&o[i], width);
}

/* [register + displacement] or [symbol + displacement] as s[which], imm or imm2 */
static void take_address(const struct ptx_operand *o, enum ptx_space space, int which)
{
    s64 displacement = o->value + (o->kind == K_ADDRESS && o->place < 0 && o->name[0] ? (s64)ptx_symbol(o->name) : 0);
    if (o->kind != K_ADDRESS || (o->parts && insn->op != OP_TENSOR_COPY))
        simt_refuse("an address is expected");
    if (o->place >= 0 && o->width != W64 && (o->width != W32 || space == S_GENERIC || space == S_GLOBAL))
        simt_refuse("an address in a register of another size");
    insn->s[which] = o->place;
    *(which ? &insn->imm2 : &insn->imm) = displacement;
    if (which == 0)
        insn->wide_s = o->width == W64;
}

static enum ptx_space take_space(void)
{
    static const char *const spaces[] = {".global", ".shared", ".local", ".const", ".param", NULL};
    return (enum ptx_space)(take_one_of(spaces) + 1);
}

/* ---- lane by lane ---- */

static int kind_has(enum kind kind, enum ptx_type t)
{
    switch (kind) {
    case KIND_FLOAT:
        return t == T_F32;
    case KIND_WORD:
        return t == T_U32 || t == T_S32;
    case KIND_WIDE:
        return t >= T_U16 && t <= T_S32;
    case KIND_BITS:
        return t >= T_U16 && t <= T_F32;
    default:
        return t >= T_U16 && t <= T_S64;
    }
}

static enum ptx_type as_bits(enum ptx_type t)
{
    return t == T_F32 || t == T_S32 ? T_U32 : t == T_S64 ? T_U64 : t == T_S16 ? T_U16 : t;
}

/* The opcode as a row of ops.def; 0: it is not one. */
static int decode_row(const char *name, enum ptx_type t)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) != 0 || !kind_has(rows[i].kind, t))
            continue;
        enum kind kind = rows[i].kind;
        enum ptx_width narrow = ptx_width_of(t), wide = kind == KIND_WIDE ? (narrow == W32 ? W64 : W32) : narrow;
        expect_operands(1 + rows[i].sources);
        insn->op = (u8)rows[i].op;
        insn->type = (u8)(kind == KIND_BITS ? as_bits(t) : t);
        insn->d[0] = destination(&operand[0], wide);
        for (int k = 0; k < rows[i].sources; k++)
            insn->s[k] = source(&operand[1 + k], kind == KIND_SHIFT && k == 1 ? W32 : k == 2 ? wide : narrow);
        if (insn->d[0] < 0)
            simt_refuse("the result goes nowhere");
        return 1;
    }
    return 0;
}

static int decode_predicates(const char *name, enum ptx_type t)
{
    static const char *const names[] = {"and", "or", "xor", "not", "mov"};
    for (int i = 0; t == T_PRED && i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            int sources = i < 3 ? 2 : 1;
            expect_operands(1 + sources);
            insn->op = (u8)(OP_AND_PRED + i);
            insn->pd[0] = predicate(&operand[0]);
            for (int k = 0; k < sources; k++) {
                insn->ps[k] = predicate(&operand[1 + k]);
                if (operand[1 + k].negated)
                    simt_refuse("a negated operand");
            }
            return 1;
        }
    return 0;
}

static void decode_selp(void)
{
    enum ptx_type t = as_bits(take_type());
    expect_operands(4);
    insn->type = (u8)t;
    insn->d[0] = destination(&operand[0], ptx_width_of(t));
    take_sources(&operand[1], 2, ptx_width_of(t));
    insn->ps[0] = predicate(&operand[3]);
}

static void decode_setp(void)
{
    static const char *const names[] = {".eq",  ".ne",  ".lt",  ".le",  ".gt",  ".ge",  ".equ", ".neu",
                                        ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan", NULL};
    static const char *const joins[] = {".and", ".or", ".xor", NULL};
    int how = take_one_of(names), k = 1;
    insn->join = (u8)(take_one_of(joins) + 1);
    enum ptx_type t = take_type();
    if (how < 0 || t == T_PRED || (how >= C_EQU && t != T_F32))
        simt_refuse("a comparison of another kind");
    insn->how = (u8)how;
    insn->type = (u8)t;
    insn->pd[0] = predicate_written(&operand[0]);
    if (operands > 1 && operand[1].is_pair)
        insn->pd[1] = predicate_written(&operand[k++]);
    expect_operands(k + 2 + (insn->join != J_NONE));
    take_sources(&operand[k], 2, ptx_width_of(t));
    if (insn->join) {
        insn->ps[0] = predicate(&operand[k + 2]);
        insn->flip = operand[k + 2].negated ? ~0u : 0;
    }
}

/* cvt.rn.f16.f32, cvt.rn.bf16x2.f32, cvt.f32.f16 ...; 0: another conversion */
static int decode_cvt_low(void)
{
    static const char *const low[] = {".f16", ".bf16", ".f16x2", ".bf16x2", NULL};
    char *const begin = modifiers;
    const int to_low = take(".rn"), from_low = !to_low && take(".f32");
    const int which = to_low || from_low ? take_one_of(low) : -1;
    if (which < 0 || (from_low && which >= 2)) {
        modifiers = begin;
        return 0;
    }
    const int numbers = which >= 2 ? 2 : 1;
    if (to_low)
        must_take(".f32");
    expect_operands(1 + numbers);
    insn->op = to_low ? OP_TO_LOW : OP_FROM_LOW;
    insn->from = which % 2 ? RP_TC_BF16 : RP_TC_FP16;
    insn->d[0] = destination(&operand[0], to_low && numbers == 1 ? W16 : W32);
    take_sources(&operand[1], numbers, from_low ? W16 : W32);
    return 1;
}

static void decode_cvt(void)
{
    static const char *const rounds[] = {".rn", ".rni", ".rzi", ".rmi", ".rpi", NULL};
    if (decode_cvt_low())
        return;
    insn->how = (u8)(take_one_of(rounds) + 1);
    enum ptx_type to = take_type(), from = take_type();
    int rounds_to_integer = insn->how >= R_NEAR_INTEGER;
    if (from == T_PRED || to == T_PRED || (from == T_F32) != rounds_to_integer ||
        (to == T_F32 && from != T_F32) != (insn->how == R_NEAR))
        simt_refuse("a conversion of another kind");
    expect_operands(2);
    enum ptx_width d = operand[0].width, s = operand[1].kind == K_REGISTER ? operand[1].width : ptx_width_of(from);
    if (operand[0].kind != K_REGISTER || d < ptx_width_of(to) || s < ptx_width_of(from))
        simt_refuse("a register that is smaller than the type");
    insn->type = (u8)to;
    insn->from = (u8)from;
    insn->wide_d = d == W64;
    insn->wide_value = s == W64;
    insn->d[0] = destination(&operand[0], d);
    insn->s[0] = source(&operand[1], s);
}

static void decode_cvta(void)
{
    int to_space = take(".to");
    insn->space = (u8)take_space();
    must_take(".u64");
    if (insn->space == S_GENERIC)
        simt_refuse("a conversion of addresses without a space");
    expect_operands(2);
    insn->op = to_space ? OP_TO_SPACE : OP_TO_GENERIC;
    insn->d[0] = destination(&operand[0], W64);
    insn->s[0] = source(&operand[1], W64);
}

/* mov.b64 {a, b}, %rd; mov.b64 %rd, {a, b}, the same of b32 and halves; mov.u32 %r, %tid.x: the other moves are rows */
static void decode_mov(void)
{
    enum ptx_type t = take_type();
    expect_operands(2);
    struct ptx_operand *vector = operand[0].kind == K_VECTOR ? &operand[0] : &operand[1];
    if (operand[1].kind == K_SPECIAL) {
        if (ptx_width_of(t) != W32)
            simt_refuse("a special register of another size");
        insn->op = OP_SPECIAL;
        insn->how = (u8)operand[1].value;
        insn->d[0] = destination(&operand[0], W32);
        return;
    }
    const enum ptx_width whole = ptx_width_of(t), half = whole == W64 ? W32 : W16;
    if (vector->kind != K_VECTOR || vector->parts != 2 || (whole != W64 && whole != W32))
        simt_refuse("a vector of another size");
    for (int k = 0; k < 2; k++)
        if (vector->part[k].kind == K_REGISTER && vector->part[k].width != half)
            simt_refuse("'%s' is not half of the other operand", vector->part[k].name);
    insn->op = vector == operand ? OP_UNPACK : OP_PACK;
    insn->type = whole == W64 ? T_U64 : T_U32;
    if (insn->op == OP_PACK) {
        insn->d[0] = destination(&operand[0], whole);
        take_sources(vector->part, 2, half);
    } else {
        insn->s[0] = source(&operand[1], whole);
        insn->d[0] = destination(&vector->part[0], half);
        insn->d[1] = destination(&vector->part[1], half);
    }
}

#include "tests/ptx/decode_memory.inc.h"

/* ---- control ---- */

static void decode_nanosleep(void)
{
    must_take(".u32");
    expect_operands(1);
    insn->s[0] = source(&operand[0], W32);
}

static void decode_bra(void)
{
    take(".uni");
    expect_operands(1);
    ptx_want_label(operand[0].name);
}

static void decode_ret(void)
{
    take(".uni");
    expect_operands(0);
}

static void decode_shfl(void)
{
    static const char *const kinds[] = {".up", ".down", ".bfly", ".idx", NULL};
    must_take(".sync");
    int how = take_one_of(kinds), k = 1;
    must_take(".b32");
    if (how < 0)
        simt_refuse("a shuffle of another kind");
    insn->how = (u8)how;
    insn->d[0] = destination(&operand[0], W32);
    if (operands > 1 && operand[1].is_pair)
        insn->pd[0] = predicate_written(&operand[k++]);
    expect_operands(k + 4);
    take_sources(&operand[k], 4, W32); /* value, lane or distance, clamp and segment, mask of lanes */
}

static void decode_vote(void)
{
    static const char *const kinds[] = {".ballot", ".any", ".all", ".uni", NULL};
    must_take(".sync");
    int how = take_one_of(kinds);
    must_take(how ? ".pred" : ".b32");
    if (how < 0)
        simt_refuse("a vote of another kind");
    expect_operands(3);
    insn->how = (u8)how;
    if (how)
        insn->pd[0] = predicate(&operand[0]);
    else
        insn->d[0] = destination(&operand[0], W32);
    insn->ps[0] = predicate(&operand[1]);
    insn->flip = operand[1].negated ? ~0u : 0;
    insn->s[3] = source(&operand[2], W32);
}

#include "tests/ptx/decode_matrix.inc.h"

static void decode_bar(void)
{
    int is_warp = take(".warp");
    (void)(!is_warp && take(".cta"));
    must_take(".sync");
    take(".aligned");
    expect_operands(1);
    insn->op = is_warp ? OP_WARP_BARRIER : OP_BLOCK_BARRIER;
    if (is_warp)
        insn->s[3] = source(&operand[0], W32);
    else if (operand[0].kind != K_IMMEDIATE || operand[0].value)
        simt_refuse("a barrier other than 0");
}

static void decode_trap(void)
{
    expect_operands(0);
}

static const struct {
    const char *name;
    enum ptx_op op;
    void (*decode)(void);
} others[] = {{"selp", OP_SELECT, decode_selp},          {"setp", OP_COMPARE, decode_setp},
              {"cvt", OP_CONVERT, decode_cvt},           {"cvta", OP_NONE, decode_cvta},
              {"mov", OP_NONE, decode_mov},              {"ld", OP_LOAD, decode_ld},
              {"st", OP_STORE, decode_st},               {"atom", OP_NONE, decode_atom},
              {"red", OP_NONE, decode_red},              {"cp", OP_NONE, decode_cp},
              {"fence", OP_FENCE, decode_fence},         {"membar", OP_FENCE, decode_fence},
              {"bra", OP_BRANCH, decode_bra},            {"ret", OP_EXIT, decode_ret},
              {"exit", OP_EXIT, decode_ret},             {"shfl", OP_SHUFFLE, decode_shfl},
              {"vote", OP_VOTE, decode_vote},            {"bar", OP_NONE, decode_bar},
              {"barrier", OP_NONE, decode_bar},          {"trap", OP_TRAP, decode_trap},
              {"nanosleep", OP_SLEEP, decode_nanosleep}, {"mbarrier", OP_NONE, decode_mbarrier},
              {"mma", OP_MULTIPLY, decode_mma},          {"ldmatrix", OP_LOAD_MATRIX, decode_ldmatrix},
              {"wgmma", OP_PRODUCT, decode_wgmma}};

void ptx_decode(struct simt_kernel *k, struct ptx_insn *to, char *opcode, struct ptx_operand *of, int n)
{
    kernel = k;
    insn = to;
    operand = of;
    operands = n;
    char *last = strrchr(opcode, '.');
    int is_plain = n > 0 && last && of[0].kind == K_REGISTER;
    is_plain = is_plain && of[n - 1].kind != K_VECTOR && of[n - 1].kind != K_SPECIAL;
    if (is_plain) {
        *last = '\0';
        enum ptx_type t = ptx_type_named(last + 1);
        int found = t != T_NONE && (decode_row(opcode, t) || decode_predicates(opcode, t));
        *last = '.';
        if (found)
            return;
    }
    size_t name = strcspn(opcode, ".");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].name) == name && strncmp(others[i].name, opcode, name) == 0) {
            modifiers = opcode + name;
            insn->op = (u8)others[i].op;
            others[i].decode();
            if (*modifiers)
                simt_refuse("unknown modifier '%s' of '%s'", modifiers, opcode);
            return;
        }
    simt_refuse("unknown instruction '%s'", opcode);
}
