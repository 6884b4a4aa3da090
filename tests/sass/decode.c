/* Instructions: a mnemonic with its modifiers, and which operands it takes (ops.def), into struct sass_insn. */
#include "tests/sass/sass.h"
#include "tests/shim/matrix.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *operands, *modifiers;
} ops[] = {
    {"", "", ""},
#define OP(name, operands, modifiers) {#name, operands, modifiers},
#include "tests/sass/ops.def"
#undef OP
};
#define OPS (int)(sizeof ops / sizeof *ops)

/* ---- modifiers ---- */

enum field { NOTHING, FLAGS, COMPARE, JOIN, ROUND, TYPE, INTEGER, HOW, BYTES };
static const struct {
    const char *name;
    enum field field;
    u32 value;
} modifiers[] = {
    /* clang-format off */
    {"EQ", COMPARE, C_EQ}, {"NE", COMPARE, C_NE}, {"LT", COMPARE, C_LT}, {"LE", COMPARE, C_LE},
    {"GT", COMPARE, C_GT}, {"GE", COMPARE, C_GE}, {"NUM", COMPARE, C_NUM}, {"NAN", COMPARE, C_NAN},
    {"EQU", COMPARE, C_EQU}, {"NEU", COMPARE, C_NEU}, {"LTU", COMPARE, C_LTU}, {"LEU", COMPARE, C_LEU},
    {"GTU", COMPARE, C_GTU}, {"GEU", COMPARE, C_GEU}, {"AND", JOIN, J_AND}, {"OR", JOIN, J_OR},
    {"XOR", JOIN, J_XOR}, {"RM", ROUND, R_DOWN}, {"RP", ROUND, R_UP}, {"RZ", ROUND, R_ZERO}, {"U32", TYPE, T_U32},
    {"S32", TYPE, T_S32}, {"U64", TYPE, T_U64}, {"S64", TYPE, T_S64}, {"U8", TYPE, T_U8}, {"S8", TYPE, T_S8},
    {"U16", TYPE, T_U16}, {"S16", TYPE, T_S16}, {"F32", NOTHING, 0}, {"TRUNC", INTEGER, I_TRUNC},
    {"FLOOR", INTEGER, I_FLOOR}, {"CEIL", INTEGER, I_CEIL}, {"ADD", HOW, H_ADD}, {"MIN", HOW, H_MIN},
    {"MAX", HOW, H_MAX}, {"EXCH", HOW, H_EXCH}, {"UP", HOW, H_UP}, {"DOWN", HOW, H_DOWN}, {"BFLY", HOW, H_BFLY},
    {"IDX", HOW, H_IDX}, {"ANY", HOW, H_ANY}, {"RCP", HOW, H_RCP}, {"RSQ", HOW, H_RSQ}, {"CLEAR", HOW, H_CLEAR},
    {"32", BYTES, 4}, {"64", BYTES, 8}, {"128", BYTES, 16}, {"WIDE", FLAGS, WIDE}, {"HI", FLAGS, HI},
    {"X", FLAGS, X}, {"EX", FLAGS, EX}, {"SX32", FLAGS, SX32}, {"FTZ", FLAGS, FTZ}, {"L", FLAGS, LEFT},
    {"R", NOTHING, 0}, {"W", FLAGS, WRAP}, {"SH", FLAGS, SHIFT}, {"E", FLAGS, EXTENDED}, {"STRONG", FLAGS, STRONG},
    {"DIV", FLAGS, DIVERGED}, {"RELU", FLAGS, RELU}, {"ZFILL", FLAGS, ZERO_FILL}, {"BF16", FLAGS, BRAIN},
    {"MT88", FLAGS, TRANSPOSED}, {"WARP", NOTHING, 0},
    {"COLLECTIVE", NOTHING, 0}, {"ALL", FLAGS, EVERY_LANE},
    /* what the operands show, what only concerns speed, or what is so here in any case */
    {"MOV", NOTHING, 0}, {"SHL", NOTHING, 0}, {"IADD", NOTHING, 0}, {"LUT", NOTHING, 0}, {"MMA", NOTHING, 0},
    {"NTZ", NOTHING, 0}, {"U", NOTHING, 0}, {"SYS", NOTHING, 0}, {"GPU", NOTHING, 0}, {"CTA", NOTHING, 0},
    {"SC", NOTHING, 0},
    {"CONSTANT", NOTHING, 0}, {"BYPASS", NOTHING, 0}, {"IVALL", NOTHING, 0}, {"TRAP", NOTHING, 0},
    {"REL", NOTHING, 0}, {"NOINC", NOTHING, 0}, {"NODEC", NOTHING, 0}, {"RECONVERGENT", NOTHING, 0},
    {"RELIABLE", NOTHING, 0}, {"SYNC", NOTHING, 0}, {"DEFER_BLOCKING", NOTHING, 0},
    {"M88", NOTHING, 0}, {"F16", NOTHING, 0},
    {"PACK_AB", NOTHING, 0},
    /* clang-format on */
};

static int has_word(const char *list, const char *word, size_t n)
{
    for (; *list; list += strcspn(list, " "), list += *list == ' ')
        if (strcspn(list, " ") == n && memcmp(list, word, n) == 0)
            return 1;
    return 0;
}

/* Modifiers whose name means something else for some instructions. */
static int modify_specially(struct sass_insn *i, const char *name, size_t n)
{
    int is_atomic = i->op == SASS_RED || i->op == SASS_ATOM;
    if (i->op == SASS_FMNMX && n == 3 && memcmp(name, "NAN", 3) == 0)
        i->flags |= NAN_WINS;
    else if (is_atomic && (memcmp(name, "AND", n) == 0 || memcmp(name, "XOR", n) == 0 || memcmp(name, "OR", n) == 0))
        i->how = *name == 'A' ? H_AND : *name == 'X' ? H_XOR : H_OR;
    else if (i->op == SASS_DEPBAR && n == 2)
        return 1;
    else if (i->op == SASS_HMMA && *name == '1')
        i->imm = n == 5 ? SHIM_M16N8K16 : SHIM_M16N8K8;
    else if (i->op == SASS_HGMMA && *name == '6') /* 64x256x16 */
        i->imm = 256;
    else if (i->op == SASS_UTMALDG) /* 2D */
        return 1;
    else if (i->op == SASS_SYNCS) /* check_barrier() looks at all of them */
        return 1;
    else if (i->op == SASS_WARPGROUP && n > 2)
        i->how = *name == 'A' ? H_ARRIVE : H_WAIT;
    else if (i->op == SASS_FENCE)
        return 1;
    else if (i->op == SASS_LDSM && n <= 2) /* 4 matrices of numbers of 16 bits */
        i->bytes = 16;
    else
        return 0;
    return 1;
}

static void modify(struct sass_insn *i, const char *mnemonic, const char *name, size_t n)
{
    if (!has_word(ops[i->op].modifiers, name, n))
        simt_refuse("unknown modifier '%.*s' of '%s'", (int)n, name, mnemonic);
    if (modify_specially(i, name, n))
        return;
    for (size_t k = 0; k < sizeof modifiers / sizeof *modifiers; k++) {
        if (strlen(modifiers[k].name) != n || memcmp(modifiers[k].name, name, n) != 0)
            continue;
        u32 value = modifiers[k].value;
        switch (modifiers[k].field) {
        case FLAGS:
            i->flags |= value;
            return;
        case NOTHING:
            return;
        default: {
            u8 *const field[] = {[COMPARE] = &i->compare, [JOIN] = &i->join, [ROUND] = &i->round, [TYPE] = &i->type,
                                 [INTEGER] = &i->integer, [HOW] = &i->how,   [BYTES] = &i->bytes};
            *field[modifiers[k].field] = (u8)value;
            return;
        }
        }
    }
    simt_refuse("modifier '%.*s' of '%s' has no meaning yet", (int)n, name, mnemonic);
}

static int find_op(const char *name, size_t n)
{
    for (int k = 1; k < OPS; k++)
        if (strlen(ops[k].name) == n && memcmp(ops[k].name, name, n) == 0)
            return k;
    return 0;
}

/* UIADD3 is IADD3 on uniform registers; some have an old and a new name. */
static void read_mnemonic(struct sass_insn *i, const char *mnemonic)
{
    static const struct {
        const char *name;
        u8 op, is_uniform;
    } names[] = {{"REDG", SASS_RED, 0},
                 {"ATOMG", SASS_ATOM, 0},
                 {"LDCU", SASS_LDC, 1},
                 {"S2UR", SASS_S2R, 1},
                 {"VOTEU", SASS_VOTE, 1}};
    size_t n = strcspn(mnemonic, ".");
    int op = find_op(mnemonic, n), is_uniform = 0;
    for (size_t k = 0; !op && k < sizeof names / sizeof *names; k++)
        if (strlen(names[k].name) == n && memcmp(names[k].name, mnemonic, n) == 0) {
            op = names[k].op;
            is_uniform = names[k].is_uniform;
        }
    if (!op && *mnemonic == 'U' && (op = find_op(mnemonic + 1, n - 1)) != 0)
        is_uniform = 1;
    if (!op)
        simt_refuse("unknown instruction '%s'", mnemonic);
    i->op = (u8)op;
    i->flags = is_uniform ? UNIFORM : 0;
    i->type = op == SASS_RED || op == SASS_ATOM ? T_U32 : T_S32; /* unless a modifier names another one */
    for (const char *p = mnemonic + n; *p;) {
        size_t length = strcspn(++p, ".");
        modify(i, mnemonic, p, length);
        p += length;
    }
}

/* ---- operands ---- */

static int fits(char letter, const struct sass_operand *o)
{
    switch (letter) {
    case 'd':
        return o->kind == K_REGISTER && !o->sign && !o->byte;
    case 'P':
        return o->kind == K_PREDICATE && !o->sign;
    case 'p':
        return o->kind == K_PREDICATE;
    case 's':
        return o->kind == K_REGISTER || o->kind == K_NUMBER || o->kind == K_FLOAT || o->kind == K_CONSTANT;
    case 't':
        return o->kind == K_REGISTER || o->kind == K_CONSTANT;
    case 'q':
        return o->kind == K_PREDICATE || o->kind == K_REGISTER;
    case 'b':
        return o->kind == K_BARRIER || o->kind == K_REGISTER;
    case 'm':
        return o->kind == K_ADDRESS || o->kind == K_CONSTANT;
    case 'L':
        return o->kind == K_LABEL;
    case 'r':
        return o->kind == K_SPECIAL;
    case 'B':
        return o->kind == K_BARRIER;
    case 'c':
        return o->kind == K_COUNTER;
    case 'n':
        return o->kind == K_NUMBER;
    case 'g':
        return o->kind == K_MATRICES;
    case 'o':
        return o->kind == K_GROUPS;
    default:
        return o->kind == K_PREDICATES;
    }
}

static u32 float_bits(double x)
{
    float f = (float)x;
    u32 bits;
    memcpy(&bits, &f, sizeof bits);
    return isnan(x) ? 0x7fffffff : bits;
}

/* To binary16, which nvdisasm prints exactly. */
static u32 half_bits(double x)
{
    u32 minus = signbit(x) ? 0x8000 : 0;
    int e;
    x = fabs(x);
    if (x == 0 || isinf(x))
        return minus | (x == 0 ? 0 : 0x7c00);
    double fraction = frexp(x, &e); /* x = fraction * 2^e, 0.5 <= fraction < 1 */
    double ulps = e < -13 ? ldexp(x, 24) : ldexp(fraction, 11) - 1024;
    u32 bits = (u32)ulps + (e < -13 ? 0 : (u32)(e + 14) << 10);
    if (isnan(x) || ulps != floor(ulps) || e > 16)
        simt_refuse("%g has no half precision", x);
    return minus | bits;
}

static s32 source_row(const struct sass_unit *u, const struct sass_operand *o)
{
    switch (o->kind) {
    case K_REGISTER:
        return o->base;
    case K_NUMBER:
        return sass_number_row(u->k, (u64)o->value);
    case K_FLOAT:
        return sass_number_row(u->k, float_bits(o->real) | (o->sign & NEGATED ? 0x80000000u : 0));
    default:
        if (o->number || o->is_uniform)
            simt_refuse("a constant at an address of a register");
        return sass_word_row(u, o->scale, (u32)o->value);
    }
}

struct taken {
    int sources, written, read, numbers, addresses;
};

static void take_source(const struct sass_unit *u, struct sass_insn *i, const struct sass_operand *o, int k)
{
    i->s[k] = source_row(u, o);
    i->sign[k] = o->kind == K_FLOAT ? 0 : o->sign;
    i->byte[k] = o->byte;
}

static void take_address(const struct sass_unit *u, struct sass_insn *i, const struct sass_operand *o, int k)
{
    if ((i->op == SASS_LDC) != (o->kind == K_CONSTANT))
        simt_refuse("an address of another kind");
    if (o->kind == K_CONSTANT) {
        i->bank = o->scale;
        if (!o->number && !o->is_uniform)
            for (u32 done = 0; done < (i->bytes ? i->bytes : 4); done += 4)
                sass_known(u, o->scale, (u32)o->value + done);
    }
    i->base[k] = o->base;
    i->uniform[k] = o->uniform;
    i->base_wide[k] = o->base_wide;
    i->scale[k] = o->kind == K_CONSTANT ? 0 : o->scale;
    i->offset[k] = o->value;
    if (i->flags & EXTENDED && o->number && !o->base_wide && !(i->op == SASS_LDGSTS && k == 0))
        i->base_wide[k] = 1; /* before sm_80 it is not written */
}

static void take(const struct sass_unit *u, struct sass_insn *i, char letter, const struct sass_operand *o,
                 struct taken *t)
{
    switch (letter) {
    case 'd':
        i->d = o->base == SASS_ROW(ROW_ZERO) ? SASS_ROW(ROW_SINK) : o->base;
        if (o->is_uniform != ((i->flags & UNIFORM) != 0 || i->op == SASS_R2UR) &&
            ((i->op != SASS_SYNCS && i->op != SASS_ELECT) || o->base != SASS_ROW(ROW_ZERO)))
            simt_refuse("the result goes to a register of another kind");
        break;
    case 'P':
        i->pd[t->written++] = (u8)(o->number % PRED_U == PRED_TRUE ? PRED_SINK : o->number);
        break;
    case 'p':
        i->ps[t->read] = (u8)o->number;
        i->flip[t->read++] = o->sign ? ~0u : 0;
        break;
    case 's':
    case 't':
        take_source(u, i, o, t->sources++);
        break;
    case 'q':
        take(u, i, o->kind == K_PREDICATE ? 'p' : 's', o, t);
        break;
    case 'b':
        i->imm = o->kind == K_BARRIER ? t->numbers : i->imm; /* the barrier is read (1) or written (0) */
        t->numbers++;
        if (o->kind == K_BARRIER)
            i->barrier = (u8)o->number;
        else if (t->numbers == 1)
            i->d = o->base == SASS_ROW(ROW_ZERO) ? SASS_ROW(ROW_SINK) : o->base;
        else
            take_source(u, i, o, 0);
        break;
    case 'm':
        take_address(u, i, o, t->addresses++);
        break;
    case 'L':
        i->target = o->target;
        break;
    case 'B':
        i->barrier = (u8)o->number;
        break;
    case 'g':
        i->s[t->sources++] = o->base;
        i->how = o->byte;
        break;
    case 'o':
        i->flags |= i->op == SASS_HGMMA ? ENDS_GROUP : 0;
        break;
    case 'n':
        i->imm |= (t->numbers ? o->value << 32 : o->value & 0xffffffff);
        t->numbers++;
        break;
    default:
        break;
    }
    if (i->barrier >= SASS_BARRIERS)
        simt_refuse("a convergence barrier of that number");
}

static int special_register(const char *name)
{
    static const char *const names[] = {"SRZ",        "SR_TID.X",   "SR_TID.Y",   "SR_TID.Z",
                                        "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_CgaCtaId",
                                        "SR_LANEID",  "SR_SWINHI",  "SR_LTMASK",  NULL};
    int k = 0;
    while (names[k] && strcmp(names[k], name) != 0)
        k++;
    if (!names[k])
        simt_refuse("unknown special register '%s'", name);
    return k;
}

/* mbarriers: what an arrival returns goes nowhere. Its source is the bytes that it expects, none with A1T0. */
static void check_barrier(const struct sass_unit *u, struct sass_insn *i, const char *mnemonic)
{
    static const char *const forms[] = {"SYNCS.EXCH.64", "SYNCS.ARRIVE.TRANS64", "SYNCS.ARRIVE.TRANS64.A1T0",
                                        "SYNCS.PHASECHK.TRANS64.TRYWAIT"};
    int form = 0;
    while (form < 4 && strcmp(forms[form], mnemonic) != 0)
        form++;
    if (form == 4 || i->d != SASS_ROW(ROW_SINK) || i->sign[0] || (form == 2 && i->s[0] != SASS_ROW(ROW_ZERO)) ||
        (form == 3) != (i->pd[0] != PRED_SINK))
        simt_refuse("a barrier of another kind");
    i->how = (u8[]){H_EXCH, H_ARRIVE, H_ARRIVE, H_WAIT}[form];
    i->flags |= form == 3 ? STRONG : 0; /* what waits lets others run */
    u->k->has_barriers = 1;
}

static void check_integers(const struct sass_insn *i)
{
    int is_minmax = i->op == SASS_IMNMX || i->op == SASS_VIMNMX,
        is_64 = i->op == SASS_IMNMX && (i->type == T_S64 || i->type == T_U64);
    if (is_minmax && !(i->op == SASS_VIMNMX && i->flags & RELU && i->pd[0] == i->pd[1]) &&
        (i->pd[0] != PRED_SINK || i->pd[1] != PRED_SINK || (is_64 && (i->ps[1] % PRED_U != PRED_TRUE || !i->flip[1]))))
        simt_refuse("a minimum with other predicates");
    if (i->op == SASS_LEA && !(i->flags & HI) && (i->flags & (X | SX32)))
        simt_refuse("the lower half of a shifted sum with a carry");
    if (i->flags & RELU && i->type != T_S32)
        simt_refuse("a result without a sign that would be 0 if it were negative");
    if (i->op == SASS_IMAD && i->flags & X && i->flags & (WIDE | HI))
        simt_refuse("a wide product with a carry");
    if ((i->op == SASS_LEA && i->pd[0] != PRED_SINK && i->sign[1] == NEGATED) ||
        (i->op == SASS_IADD3 && i->flags & X && (i->sign[0] | i->sign[1] | i->sign[2]) & NEGATED))
        simt_refuse("a negated source of a sum with carries");
    if (i->op == SASS_FLO && i->type != T_U32)
        simt_refuse("the first bit of a signed number");
}

/* Of half precision there are only a way to load a constant, -0 * 0 + number, and a conversion, -0 + number or
 * number + -0. */
static void check_halves(const struct sass_unit *u, struct sass_insn *i, const char *mnemonic,
                         const struct sass_operand *o)
{
    if (i->op == SASS_HFMA2) {
        if (o[1].base != SASS_ROW(ROW_ZERO) || o[1].sign != NEGATED || o[2].base != SASS_ROW(ROW_ZERO) || o[2].sign ||
            o[3].kind != K_FLOAT || o[4].kind != K_FLOAT)
            simt_refuse("arithmetic in half precision");
        i->s[0] = sass_number_row(u->k, half_bits(o[3].real) << 16 | half_bits(o[4].real));
        i->sign[0] = 0;
    }
    if (i->op == SASS_HADD2) {
        const int zero = o[2].base == SASS_ROW(ROW_ZERO) ? 1 : 0, number = 1 - zero;
        if (o[1 + zero].base != SASS_ROW(ROW_ZERO) || o[1 + zero].sign != NEGATED || i->sign[number] ||
            i->byte[number] < 5 || strcmp(mnemonic, "HADD2.F32") != 0)
            simt_refuse("arithmetic in half precision");
        i->s[1] = i->s[number];
        i->byte[1] = i->byte[number];
        i->sign[1] = 0;
    }
    for (int k = 0; k < 4; k++)
        if (i->byte[k] > 4 && i->op != SASS_HADD2)
            simt_refuse("half of a register");
}

static void check_matrices(const struct sass_unit *u, const struct sass_insn *i, const char *mnemonic)
{
    if ((i->op == SASS_HMMA || i->op == SASS_LDSM) && (i->sign[0] | i->sign[1] | i->sign[2]))
        simt_refuse("a negated matrix");
    if (i->op == SASS_LDSM && !strstr(mnemonic, "88.4"))
        simt_refuse("matrices of another number");
    if (i->op == SASS_HMMA && (i->imm != SHIM_M16N8K16 || !strstr(mnemonic, ".F32")) &&
        strcmp(mnemonic, "HMMA.1688.F32") != 0)
        simt_refuse("a product of matrices of another kind");
    if (i->op == SASS_HGMMA) {
        if (i->imm != 256 || !strstr(mnemonic, ".F32") || i->d != i->s[1] || i->sign[1] ||
            i->d + SASS_ROW(128) > SASS_ROW(ROW_ZERO))
            simt_refuse("a product of matrices of another kind");
        u->k->has_proxies = 1;
    }
    if (i->op == SASS_UTMALDG) {
        if (strcmp(mnemonic, "UTMALDG.2D") != 0 || i->uniform[0] == SASS_ROW(ROW_ZERO) ||
            i->uniform[1] == SASS_ROW(ROW_ZERO) || i->base[0] != SASS_ROW(ROW_ZERO) ||
            i->base[1] != SASS_ROW(ROW_ZERO) || i->offset[0] || i->offset[1])
            simt_refuse("a copy of a tensor of another kind");
        u->k->has_proxies = u->k->has_barriers = 1;
    }
}

/* What the letters and modifiers do not say. */
static void check(const struct sass_unit *u, struct sass_insn *i, const char *mnemonic,
                  const struct sass_operand *operand, int operands)
{
    check_integers(i);
    check_halves(u, i, mnemonic, operand);
    check_matrices(u, i, mnemonic);
    if ((i->op == SASS_ISETP || i->op == SASS_FSETP) && (!i->compare || !i->join))
        simt_refuse("a comparison of another kind");
    if ((i->op == SASS_SHFL || i->op == SASS_VOTE || i->op == SASS_MUFU || i->op == SASS_RED || i->op == SASS_ATOM) &&
        !i->how && !(i->flags & EVERY_LANE))
        simt_refuse("'%s' of another kind", mnemonic);
    if (i->op == SASS_S2R || i->op == SASS_CS2R)
        i->imm = special_register(operand[1].name);
    if (i->op == SASS_BAR && i->imm)
        simt_refuse("a barrier other than 0");
    if (i->op == SASS_BRA && i->flags & DIVERGED && operands == 2 && operand[0].kind != K_REGISTER)
        simt_refuse("a branch of diverged lanes with a predicate");
    if (i->op == SASS_SYNCS)
        check_barrier(u, i, mnemonic);
    if (i->op == SASS_ELECT && i->d != SASS_ROW(ROW_SINK))
        simt_refuse("an election of another kind");
    if (i->op == SASS_WARPGROUP && operands != (i->how == H_WAIT ? 2 : 0))
        simt_refuse("a wait for products of another kind");
    if (i->op == SASS_FENCE && strcmp(mnemonic, "FENCE.VIEW.ASYNC.S") != 0)
        simt_refuse("a fence of another kind");
    if (i->op == SASS_F2F && strcmp(mnemonic, "F2F.BF16.F32") != 0 && strcmp(mnemonic, "F2F.F16.F32") != 0)
        simt_refuse("a conversion of another kind");
    if (i->ps[0] == PRED_FALSE && (i->op == SASS_BRA || i->op == SASS_LDGSTS))
        i->ps[0] = PRED_TRUE;
    if (!i->bytes)
        i->bytes = i->op == SASS_CS2R                     ? 8
                   : i->type == T_U8 || i->type == T_S8   ? 1
                   : i->type == T_U16 || i->type == T_S16 ? 2
                                                          : 4;
}

void sass_decode(const struct sass_unit *u, struct sass_insn *i, const char *mnemonic,
                 const struct sass_operand *operand, int operands)
{
    struct taken t = {0};
    int k = 0, is_optional = 0;
    read_mnemonic(i, mnemonic);
    for (const char *letter = ops[i->op].operands; *letter; letter++) {
        if (*letter == '[' || *letter == ']') {
            is_optional = *letter == '[';
        } else if (k < operands && fits(*letter, &operand[k])) {
            take(u, i, *letter, &operand[k++], &t);
        } else if (!is_optional) {
            simt_refuse("operand %d of '%s' has another kind than expected", k + 1, mnemonic);
        }
    }
    if (k != operands)
        simt_refuse("'%s' has %d operands, not %d", mnemonic, operands, k);
    check(u, i, mnemonic, operand, operands);
}
