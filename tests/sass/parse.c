/* Reads nvdisasm's text of one kernel: labels, guards, mnemonics and operands; decode.c makes instructions of them. */
#include "tests/sass/sass.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 16 /* of an instruction */

int sass_line;
const char *sass_file = "?";

_Noreturn void simt_refuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "sass: %s:%d: ", sass_file, sass_line);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(70);
}

/* ---- labels: ".L_x_3:" or "$name:" alone on a line, for the next instruction ---- */

static struct label {
    char name[96];
    u32 insn;
} * labels;
static int n_labels, labels_room;

static void add_label(const char *name, size_t n, u32 insn)
{
    if (n_labels == labels_room) {
        labels_room = labels_room ? 2 * labels_room : 256;
        labels = simt_grow(labels, (size_t)labels_room * sizeof *labels);
    }
    if (n >= sizeof labels->name)
        simt_refuse("a label is too long");
    snprintf(labels[n_labels].name, sizeof labels->name, "%.*s", (int)n, name);
    labels[n_labels++].insn = insn;
}

static u32 find_label(const char *name)
{
    for (int i = 0; i < n_labels; i++)
        if (strcmp(labels[i].name, name) == 0)
            return labels[i].insn;
    simt_refuse("there is no label '%s'", name);
}

/* ---- operands ---- */

static const char *at;

static int is_next(const char *text)
{
    size_t n = strlen(text);
    return strncmp(at, text, n) == 0 ? at += n, 1 : 0;
}

static void skip_blanks(void)
{
    at += strspn(at, " \t");
}

/* R12, RZ, UR4, URZ: its row */
static int read_register(s32 *row, int *is_uniform)
{
    const char *p = at;
    *is_uniform = *p == 'U';
    p += *is_uniform;
    if (*p++ != 'R' || (*p != 'Z' && !isdigit((unsigned char)*p)))
        return 0;
    if (*p == 'Z') {
        at = p + 1;
        *row = SASS_ROW(ROW_ZERO);
        return 1;
    }
    char *end;
    unsigned long n = strtoul(p, &end, 10);
    if (n > 254)
        simt_refuse("a register of that number");
    at = end;
    *row = SASS_ROW((*is_uniform ? ROW_U : ROW_R) + (int)n);
    return 1;
}

/* "0x1f", "-0x4", "+0x10", "+-0x8": what is written, to 64 bits */
static s64 read_offset(void)
{
    char *end;
    is_next("+");
    int minus = is_next("-");
    if (at[0] != '0' || at[1] != 'x')
        simt_refuse("a number is expected at '%.20s'", at);
    u64 v = strtoull(at, &end, 16);
    at = end;
    return minus ? -(s64)v : (s64)v;
}

/* "[R4.64+UR6+0x10]" after '[' */
static void read_address(struct sass_operand *o)
{
    int is_uniform;
    s32 row;
    o->kind = K_ADDRESS;
    o->base = o->uniform = SASS_ROW(ROW_ZERO);
    while (!is_next("]")) {
        is_next("+");
        if (!read_register(&row, &is_uniform)) {
            o->value = read_offset();
            continue;
        }
        *(is_uniform ? &o->uniform : &o->base) = row;
        if (!is_uniform)
            o->number = 1; /* there is a base */
        if (is_next(".64"))
            o->base_wide = 1;
        else if (is_next(".U32"))
            o->base_wide = 2;
        else if (is_next(".X16"))
            o->scale = 4;
        else if (is_next(".X8"))
            o->scale = 3;
        else if (is_next(".X4"))
            o->scale = 2;
    }
}

/* "[0x0][0x210]", "[0x3][R15+0x10]" */
static void read_constant(struct sass_operand *o)
{
    is_next("[");
    s64 bank = read_offset();
    if (!is_next("][") || bank < 0 || bank > 3)
        simt_refuse("a bank of constants at '%.20s'", at);
    read_address(o);
    o->kind = K_CONSTANT;
    o->is_uniform = o->uniform != SASS_ROW(ROW_ZERO);
    o->scale = (u8)bank;
}

/* A decimal number of floating point: "0.5", "-16", "+INF", "-QNAN" */
static void read_float(struct sass_operand *o)
{
    char *end;
    o->kind = K_FLOAT;
    int minus = is_next("-");
    is_next("+");
    if (is_next("INF")) {
        o->real = minus ? -HUGE_VAL : HUGE_VAL;
    } else if (is_next("QNAN")) {
        o->real = NAN;
        o->sign = minus ? NEGATED : 0;
    } else {
        o->real = strtod(at, &end);
        if (end == at)
            simt_refuse("an operand of another kind at '%.20s'", at);
        at = end;
        o->real = minus ? -o->real : o->real;
    }
}

static void read_name(struct sass_operand *o, const char *end)
{
    size_t n = strcspn(at, end);
    if (n >= sizeof o->name)
        simt_refuse("a name is too long");
    snprintf(o->name, sizeof o->name, "%.*s", (int)n, at);
    at += n;
}

static int read_predicate(struct sass_operand *o)
{
    const char *p = at + (*at == '!');
    int is_uniform = *p == 'U';
    p += is_uniform;
    if (p[0] != 'P' || (p[1] != 'T' && (p[1] < '0' || p[1] > '6')) || isalnum((unsigned char)p[2]))
        return 0;
    o->kind = K_PREDICATE;
    o->sign = *at == '!' ? NEGATED : 0;
    o->number = (is_uniform ? PRED_U : 0) + (p[1] == 'T' ? 7u : (u32)(p[1] - '0'));
    at = p + 2;
    return 1;
}

static void read_modified(struct sass_operand *o)
{
    const char *begin = at;
    o->sign = is_next("-") ? NEGATED : is_next("~") ? INVERTED : 0;
    int is_absolute = is_next("|");
    o->sign |= is_absolute ? ABSOLUTE : 0;
    if (read_register(&o->base, &o->is_uniform)) {
        o->kind = K_REGISTER;
        is_next(".reuse");
        if (at[0] == '.' && at[1] == 'B' && at[2] >= '0' && at[2] <= '3') {
            o->byte = (u8)(at[2] - '0' + 1);
            at += 3;
        }
        o->byte = is_next(".H0_H0") ? 5 : is_next(".H1_H1") ? 6 : o->byte;
        is_next(".reuse");
    } else if (is_next("c[") || is_next("cx[")) {
        at--;
        read_constant(o);
    } else if (at[0] == '0' && at[1] == 'x' && !is_absolute && o->sign != INVERTED) {
        o->value = o->sign ? -read_offset() : read_offset();
        o->kind = K_NUMBER;
        o->sign = 0;
    } else {
        at = begin;
        o->sign = 0;
        read_float(o);
        return;
    }
    if (is_absolute && !is_next("|"))
        simt_refuse("'|' is expected at '%.20s'", at);
    is_next(".reuse");
}

static void read_operand(struct sass_operand *o)
{
    *o = (struct sass_operand){.kind = K_NONE};
    if (is_next("desc[")) {
        at += strcspn(at, "]") + 1;
        if (!is_next("["))
            simt_refuse("an address is expected at '%.20s'", at);
        read_address(o);
    } else if (is_next("[")) {
        read_address(o);
    } else if (is_next("`(")) {
        o->kind = K_LABEL;
        read_name(o, ")");
        is_next(")");
        o->target = find_label(o->name);
    } else if (strncmp(at, "SR", 2) == 0) {
        o->kind = K_SPECIAL;
        read_name(o, " ,;");
    } else if (strncmp(at, "SB", 2) == 0 && isdigit((unsigned char)at[2])) {
        o->kind = K_COUNTER;
        at += 3;
    } else if (at[0] == 'B' && isdigit((unsigned char)at[1])) {
        char *end;
        o->kind = K_BARRIER;
        o->number = (u32)strtoul(at + 1, &end, 10);
        at = end;
    } else if (is_next("gdesc[")) {
        o->kind = K_MATRICES;
        if (!read_register(&o->base, &o->is_uniform) || !o->is_uniform || !is_next("]"))
            simt_refuse("descriptors of matrices in uniform registers are expected at '%.20s'", at);
        o->byte = is_next(".tnspA");
        o->byte |= is_next(".tnspB") ? 2 : 0;
    } else if (is_next("gsb0")) {
        o->kind = K_GROUPS;
    } else if (is_next("PR")) {
        o->kind = K_PREDICATES;
    } else if (!read_predicate(o)) {
        read_modified(o);
    }
}

/* ---- instructions ---- */

static struct sass_insn *new_insn(struct simt_kernel *k)
{
    if (k->n == k->room) {
        k->room = k->room ? 2 * k->room : 1024;
        k->sass = simt_grow(k->sass, k->room * sizeof *k->sass);
    }
    struct sass_insn *i = &k->sass[k->n++];
    *i = (struct sass_insn){.guard = PRED_TRUE,
                            .line = sass_line,
                            .pd = {PRED_SINK, PRED_SINK},
                            .ps = {PRED_FALSE, PRED_FALSE, PRED_FALSE}};
    i->d = SASS_ROW(ROW_SINK);
    for (int s = 0; s < 4; s++)
        i->s[s] = SASS_ROW(ROW_ZERO);
    return i;
}

/* "@!P0 FFMA R0, R1, -R2, c[0x0][0x160]" up to ';' or a comment */
static void read_instruction(struct sass_unit *u)
{
    struct sass_operand operand[8], guard;
    int operands = 0;
    char mnemonic[64];
    struct sass_insn *i = new_insn(u->k);
    if (is_next("@")) {
        if (!read_predicate(&guard))
            simt_refuse("a predicate is expected at '%.20s'", at);
        i->guard = (u8)guard.number;
        i->guard_flip = guard.sign ? ~0u : 0;
        skip_blanks();
    }
    size_t n = strcspn(at, " \t;");
    if (!n || n >= sizeof mnemonic)
        simt_refuse("a mnemonic is expected at '%.20s'", at);
    snprintf(mnemonic, sizeof mnemonic, "%.*s", (int)n, at);
    at += n;
    for (skip_blanks(); *at && *at != ';' && *at != '('; skip_blanks()) {
        if (operands == 8)
            simt_refuse("too many operands");
        read_operand(&operand[operands++]);
        skip_blanks();
        is_next(","); /* before a label or the displacement of BRX there is none */
    }
    sass_decode(u, i, mnemonic, operand, operands);
}

/* A line that begins with an address in a comment: the text after it, and the address; NULL: no instruction */
static const char *instruction_text(const char *line, u64 *address)
{
    char *end;
    line += strspn(line, " \t");
    if (line[0] != '/' || line[1] != '*')
        return NULL;
    *address = strtoull(line + 2, &end, 16);
    if (end[0] != '*' || end[1] != '/')
        return NULL;
    return end + 2 + strspn(end + 2, " \t");
}

static void find_labels(char **line, int first, int end)
{
    u64 address;
    u32 n = 0;
    n_labels = 0;
    for (sass_line = first; sass_line < end; sass_line++) {
        const char *text = line[sass_line];
        size_t length = strlen(text);
        if (instruction_text(text, &address))
            n++;
        else if (length && text[length - 1] == ':' && !isspace((unsigned char)*text))
            add_label(text, length - 1, n);
    }
}

/* Padding, and what a guard never lets run. */
static int is_padding(const struct simt_kernel *k, u32 pc)
{
    const struct sass_insn *i = &k->sass[pc];
    int is_never = i->guard % PRED_U == PRED_TRUE && i->guard_flip;
    int is_end = i->op == SASS_BRA && i->target == pc && i->guard == PRED_TRUE;
    return i->op == SASS_NOP || is_never || is_end;
}

/* For coverage: - does not count; s is a function that NVIDIA's division or root calls for operands near the ends of
 * the range. */
static void mark(struct simt_kernel *k)
{
    static const char internal[] = "$__internal";
    int next = 0, is_slow = 0;
    for (u32 n = 0; n + 1 < k->n; n++) {
        for (; next < n_labels && labels[next].insn <= n; next++)
            if (labels[next].name[0] != '.')
                is_slow = strncmp(labels[next].name, internal, sizeof internal - 1) == 0;
        if (is_padding(k, n))
            k->hits[n] = '-';
        else if (is_slow)
            k->hits[n] = 's';
    }
}

/* A strong store that a fence comes before releases. A strong load or an atomic acquires what it returned at the
 * invalidation that its thread executes next. */
static void find_order(struct simt_kernel *k)
{
    int is_fenced = 0;
    for (u32 n = 0; n < k->n; n++) {
        struct sass_insn *i = &k->sass[n];
        switch (i->op) {
        case SASS_MEMBAR:
            is_fenced = 1;
            break;
        case SASS_LD:
        case SASS_LDG:
            i->order = i->flags & STRONG ? OBSERVE : READ;
            is_fenced = 0;
            break;
        case SASS_ST:
        case SASS_STG:
            i->order = i->flags & STRONG ? (is_fenced ? RELEASE : ATOMIC) : WRITE;
            is_fenced = 0;
            break;
        case SASS_RED:
            i->order = ATOMIC;
            break;
        case SASS_ATOM:
            i->order = OBSERVE;
            break;
        default:
            break;
        }
    }
}

void sass_parse(struct sass_unit *u, char **line, int first, int end)
{
    struct simt_kernel *k = u->k;
    u64 address;
    find_labels(line, first, end);
    for (sass_line = first; sass_line < end; sass_line++) {
        at = instruction_text(line[sass_line], &address);
        if (!at)
            continue;
        if (address != (u64)k->n * BYTES)
            simt_refuse("an instruction is expected at %#x", k->n * BYTES);
        for (const char *c = at; *c; c++)
            k->text = (k->text ^ (u8)*c) * 1099511628211u;
        read_instruction(u);
    }
    sass_line = end - 1;
    new_insn(k)->op = SASS_NONE; /* not in the text: whoever comes here ran off the end */
    find_order(k);
    k->hits = simt_hits(k, u->arch);
    mark(k);
}
