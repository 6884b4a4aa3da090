/* Reads PTX as NVRTC and nvcc write it: directives, declarations, labels; instructions go to decode.c. One file: every
 * function is part of one recursive descent over the same state. */
#include "tests/ptx/ptx.h"
#include "tests/shim/driver.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct simt_kernel *kernel; /* the one that is read; NULL between kernels */
static const char *file = "?";
static int line, target, target_is_a;
static char *at; /* in the text */

_Noreturn void simt_refuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "ptx: %s:%d: ", file, line);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(70);
}

/* ---- symbols: variables of the module, then those of the kernel ---- */

struct symbol {
    char name[96];
    enum ptx_space space;
    u64 address;
    int is_dynamic; /* the launch's shared memory, after what the kernel declares */
};
static struct symbol *symbols;
static int n_symbols, n_of_module;

#define CONSTANTS_ROOM (1 << 20)
static u8 constants[CONSTANTS_ROOM] __attribute__((aligned(256)));
u8 *ptx_constants_begin = constants, *ptx_constants_end = constants;

static void add_symbol(const char *name, enum ptx_space space, u64 address, int is_dynamic)
{
    symbols = simt_grow(symbols, (size_t)(n_symbols + 1) * sizeof *symbols);
    symbols[n_symbols] = (struct symbol){.space = space, .address = address, .is_dynamic = is_dynamic};
    snprintf(symbols[n_symbols++].name, sizeof symbols->name, "%s", name);
}

u64 ptx_symbol(const char *name)
{
    for (int i = n_symbols; i-- > 0;)
        if (strcmp(symbols[i].name, name) == 0) {
            const struct symbol *s = &symbols[i];
            return s->is_dynamic ? simt_shared_base + (kernel->shared + 127) / 128 * 128
                                 : s->address + (s->space == S_SHARED ? simt_shared_base : 0);
        }
    simt_refuse("'%s' is not declared", name);
}

/* ---- registers ---- */

static struct declaration {
    char prefix[64];
    int count; /* 0: one register of exactly this name */
    enum ptx_width width;
    u32 first;
} *declared;
static int n_declared;

static u32 add_rows(u32 registers, int is_wide)
{
    u32 first = kernel->arena, rows = registers * (is_wide ? 2 : 1);
    kernel->is_wide = simt_grow(kernel->is_wide, first / SIMT_ROW + rows);
    for (u32 i = 0; i < rows; i++)
        kernel->is_wide[first / SIMT_ROW + i] = is_wide && i % 2 == 0;
    kernel->arena += rows * SIMT_ROW;
    return first;
}

static void declare(const char *prefix, int count, enum ptx_width width)
{
    u32 n = count ? (u32)count : 1;
    declared = simt_grow(declared, (size_t)(n_declared + 1) * sizeof *declared);
    struct declaration *d = &declared[n_declared++];
    *d = (struct declaration){.count = count, .width = width};
    snprintf(d->prefix, sizeof d->prefix, "%s", prefix);
    if (width == W_PRED) {
        d->first = kernel->preds;
        kernel->preds += n;
    } else {
        d->first = add_rows(n, width == W64);
    }
}

/* A register declared as "%r<9>" or by its whole name; the last declaration counts. */
static int find_register(const char *name, struct ptx_operand *o)
{
    size_t n = strlen(name), digits = n;
    while (digits && isdigit((unsigned char)name[digits - 1]))
        digits--;
    for (int i = n_declared; i-- > 0;) {
        const struct declaration *d = &declared[i];
        int k = d->count ? atoi(name + digits) : 0;
        if (d->count
                ? digits == n || strlen(d->prefix) != digits || memcmp(d->prefix, name, digits) != 0 || k >= d->count
                : strcmp(d->prefix, name) != 0)
            continue;
        o->kind = K_REGISTER;
        o->width = d->width;
        o->place = (s32)(d->first + (u32)k * (d->width == W_PRED ? 1 : d->width == W64 ? 2 * SIMT_ROW : SIMT_ROW));
        return 1;
    }
    return 0;
}

s32 ptx_constant_place(struct simt_kernel *k, u64 value, enum ptx_width width)
{
    u32 is_wide = width == W64;
    value = is_wide ? value : (u32)value;
    for (u32 i = 0; i < k->constants; i++)
        if (k->constant[i].value == value && k->constant[i].is_wide == is_wide)
            return (s32)k->constant[i].place;
    k->constant = simt_grow(k->constant, (k->constants + 1) * sizeof *k->constant);
    k->constant[k->constants++] = (struct simt_constant){add_rows(1, (int)is_wide), is_wide, value};
    return (s32)k->constant[k->constants - 1].place;
}

/* ---- words ---- */

/* Blanks and comments. */
static void skip(void)
{
    for (;; at++) {
        if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n");
        line += *at == '\n';
        if (!*at || !isspace((unsigned char)*at))
            return;
    }
}

static void expect(char c)
{
    skip();
    if (*at != c)
        simt_refuse("'%c' is expected at '%.20s'", c, at);
    at++;
}

static int is_next(char c)
{
    skip();
    return *at == c ? at++, 1 : 0;
}

/* A name, with what `more` has. */
static void read_word(char *out, size_t room, const char *more)
{
    size_t n = 0;
    skip();
    for (; isalnum((unsigned char)*at) || *at == '_' || *at == '$' || *at == '%' || (*at && strchr(more, *at));
         out[n++] = *at++)
        if (n + 1 == room)
            simt_refuse("a name is too long");
    out[n] = '\0';
    if (!n)
        simt_refuse("a name is expected at '%.20s'", at);
}

/* 12, -3, 0x1F, 0f3F800000 as its bits */
static s64 read_number(void)
{
    char *end;
    int minus = is_next('-'), is_float = at[0] == '0' && (at[1] == 'f' || at[1] == 'F');
    u64 v = is_float ? strtoull(at + 2, &end, 16) : strtoull(at, &end, 0);
    if (end == at || (is_float && (end != at + 10 || minus)) || *end == 'd' || *end == 'D')
        simt_refuse("a number is expected at '%.20s'", at);
    at = end + (*end == 'U');
    return minus ? -(s64)v : (s64)v;
}

static s32 special_register(const char *name)
{
    static const char *const names[] = {"%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
                                        "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
                                        "%nctaid.y", "%nctaid.z", "%laneid",  "%warpid",  "%lanemask_lt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return (s32)i;
    return -1;
}

/* ---- operands ---- */

static void read_operand(struct ptx_operand *o);

static void read_vector(struct ptx_operand *o)
{
    o->kind = K_VECTOR;
    do {
        o->part = simt_grow(o->part, (size_t)(o->parts + 1) * sizeof *o->part);
        read_operand(&o->part[o->parts++]);
    } while (is_next(','));
    expect('}');
}

/* [register], [symbol], with + or - a number; [number]; [register, {coordinates}] */
static void read_address(struct ptx_operand *o)
{
    skip();
    if (isdigit((unsigned char)*at)) {
        o->value = read_number();
    } else {
        read_word(o->name, sizeof o->name, "");
        if (find_register(o->name, o))
            o->name[0] = '\0';
        skip();
        if (is_next('+') || *at == '-')
            o->value = read_number();
        if (is_next(',')) {
            struct ptx_operand coordinates = {.place = -1};
            expect('{');
            read_vector(&coordinates);
            o->part = coordinates.part;
            o->parts = coordinates.parts;
        }
    }
    o->kind = K_ADDRESS;
    expect(']');
}

static void read_operand(struct ptx_operand *o)
{
    *o = (struct ptx_operand){.place = -1};
    if (is_next('{')) {
        read_vector(o);
    } else if (is_next('[')) {
        read_address(o);
    } else if (isdigit((unsigned char)*at) || *at == '-') {
        o->kind = K_IMMEDIATE;
        o->value = read_number();
    } else {
        o->negated = is_next('!');
        read_word(o->name, sizeof o->name, ".");
        if (strcmp(o->name, "_") == 0)
            o->kind = K_SINK;
        else if ((o->value = special_register(o->name)) >= 0)
            o->kind = K_SPECIAL;
        else if (!find_register(o->name, o))
            o->kind = K_NAME;
        if (o->kind == K_NAME && o->name[0] == '%')
            simt_refuse("'%s' is not declared", o->name);
    }
}

/* ---- labels ---- */

static struct label {
    char name[64];
    u32 insn;
    int line;
} *labels, *wanted;
static int n_labels, n_wanted;

static void add_label(struct label **list, int *n, const char *name, u32 insn)
{
    *list = simt_grow(*list, (size_t)(*n + 1) * sizeof **list);
    snprintf((*list)[*n].name, sizeof (*list)->name, "%s", name);
    (*list)[*n].line = line;
    (*list)[(*n)++].insn = insn;
}

void ptx_want_label(const char *name)
{
    add_label(&wanted, &n_wanted, name, kernel->n);
}

int ptx_target(void)
{
    return target;
}
int ptx_target_is_a(void)
{
    return target_is_a;
}

static void resolve_labels(void)
{
    int end = line;
    for (int i = 0; i < n_wanted; i++) {
        int k = 0;
        while (k < n_labels && strcmp(labels[k].name, wanted[i].name) != 0)
            k++;
        line = wanted[i].line;
        if (k == n_labels)
            simt_refuse("there is no label '%s'", wanted[i].name);
        kernel->code[wanted[i].insn].target = labels[k].insn;
    }
    line = end;
}

/* ---- instructions ---- */

static struct ptx_insn *new_insn(void)
{
    if (kernel->n == kernel->room) {
        kernel->room = kernel->room ? 2 * kernel->room : 256;
        kernel->code = simt_grow(kernel->code, kernel->room * sizeof *kernel->code);
    }
    struct ptx_insn *i = &kernel->code[kernel->n];
    *i = (struct ptx_insn){.pd = {-1, -1}, .ps = {-1, -1}, .guard = -1, .line = line};
    memset(i->d, 0xff, sizeof i->d);
    memset(i->s, 0xff, sizeof i->s);
    return i;
}

static void read_instruction(void)
{
    struct ptx_operand operand[8];
    int operands = 0;
    char opcode[96];
    struct ptx_insn *i = new_insn();
    if (is_next('@')) {
        i->guard_flip = is_next('!') ? ~0u : 0;
        read_operand(&operand[0]);
        if (operand[0].kind != K_REGISTER || operand[0].width != W_PRED)
            simt_refuse("'%s' is expected to be a predicate", operand[0].name);
        i->guard = operand[0].place;
    }
    read_word(opcode, sizeof opcode, ".:");
    for (int is_pair = 0; !is_next(';'); is_pair = is_next('|')) {
        if (operands && !is_pair)
            expect(',');
        if (operands == 8)
            simt_refuse("too many operands");
        read_operand(&operand[operands]);
        operand[operands++].is_pair = is_pair;
    }
    ptx_decode(kernel, i, opcode, operand, operands);
    kernel->n++;
    for (int k = 0; k < operands; k++)
        free(operand[k].part);
}

/* ---- declarations ---- */

static void read_registers(void)
{
    char type[16], name[64];
    read_word(type, sizeof type, ".");
    enum ptx_type t = ptx_type_named(type + 1);
    if (t == T_NONE || t == T_U8 || t == T_S8)
        simt_refuse("registers of type '%s'", type);
    do {
        int count = 0;
        read_word(name, sizeof name, "");
        if (is_next('<')) {
            count = (int)read_number();
            expect('>');
        }
        declare(name, count, ptx_width_of(t));
    } while (is_next(','));
    expect(';');
}

struct variable {
    char name[96];
    u32 align, bytes, element;
    int is_open; /* [] */
};

/* " .align 4 .b8 name[48]" */
static struct variable read_variable(void)
{
    struct variable v = {.align = 1};
    char word[96];
    for (read_word(word, sizeof word, "."); word[0] == '.'; read_word(word, sizeof word, "."))
        if (strcmp(word, ".align") == 0)
            v.align = (u32)read_number();
        else if (!(v.element = (u32)ptx_bytes_of(ptx_type_named(word + 1))))
            simt_refuse("unknown '%s' of a variable", word);
    snprintf(v.name, sizeof v.name, "%s", word);
    v.bytes = v.element;
    if (is_next('[')) {
        v.is_open = is_next(']');
        if (!v.is_open) {
            v.bytes = v.element * (u32)read_number();
            expect(']');
        }
    }
    v.align = v.align < v.element ? v.element : v.align;
    if (!v.element)
        simt_refuse("variable '%s' has no type", v.name);
    return v;
}

static u32 round_up(u64 n, u32 align)
{
    return (u32)((n + align - 1) / align * align);
}

static void read_constant(void)
{
    struct variable v = read_variable();
    u8 *to = constants + round_up((u64)(ptx_constants_end - constants), v.align);
    if (v.is_open || to + v.bytes > constants + CONSTANTS_ROOM)
        simt_refuse("no room for constant '%s'", v.name);
    ptx_constants_end = to + v.bytes;
    add_symbol(v.name, S_CONST, (u64)(uintptr_t)to, 0);
    if (is_next('=')) {
        int is_list = is_next('{');
        u32 n = 0;
        do {
            u64 x = (u64)read_number();
            if (++n * v.element > v.bytes)
                simt_refuse("too many values for '%s'", v.name);
            memcpy(to + (n - 1) * v.element, &x, v.element);
        } while (is_list && is_next(','));
        if (is_list)
            expect('}');
    }
    expect(';');
}

static int has_dynamic;

static void read_shared(void)
{
    struct variable v = read_variable();
    expect(';');
    if (v.is_open) {
        if (has_dynamic++ || 128 % v.align)
            simt_refuse("a second name for the launch's shared memory, or one with a larger alignment than 128");
        add_symbol(v.name, S_SHARED, 0, 1);
        return;
    }
    if (!kernel)
        simt_refuse("shared memory '%s' of a module", v.name);
    kernel->shared = round_up(kernel->shared, v.align);
    add_symbol(v.name, S_SHARED, kernel->shared, 0);
    kernel->shared += v.bytes;
}

static void read_local(void)
{
    struct variable v = read_variable();
    expect(';');
    kernel->local = round_up(kernel->local, v.align);
    add_symbol(v.name, S_LOCAL, kernel->local, 0);
    kernel->local += v.bytes;
}

/* ---- kernels ---- */

static u64 hash_of(const char *text, size_t n)
{
    u64 hash = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (u8)text[i]) * 1099511628211u;
    return hash;
}

/* "name(.param .align 8 .b8 name_param_0[48]) .maxntid 256, 1, 1 .minnctapersm 4 {" */
static void begin_kernel(char **lines)
{
    char word[32];
    const char *next = strstr(at, ".entry");
    kernel = simt_grow(NULL, sizeof *kernel);
    *kernel = (struct simt_kernel){.file = file, .line = lines, .always = {-1, -1}};
    kernel->text = hash_of(at, next ? (size_t)(next - at) : strlen(at));
    read_word(kernel->name, sizeof kernel->name, "");
    expect('(');
    read_word(word, sizeof word, ".");
    if (strcmp(word, ".param") != 0)
        simt_refuse("kernel '%s' has no parameter", kernel->name);
    struct variable v = read_variable();
    expect(')');
    n_of_module = n_symbols;
    kernel->params = v.bytes;
    kernel->params_aligned = v.align;
    add_symbol(v.name, S_PARAM, 0, 0);
    while (!is_next('{')) {
        u32 n[3] = {1, 1, 1};
        int k = 0;
        read_word(word, sizeof word, ".");
        do
            n[k++] = (u32)read_number();
        while (k < 3 && is_next(','));
        if (strcmp(word, ".maxntid") == 0)
            kernel->threads = n[0] * n[1] * n[2];
        else if (strcmp(word, ".minnctapersm") != 0)
            simt_refuse("unknown directive '%s' of a kernel", word);
    }
    if (!kernel->threads)
        simt_refuse("kernel '%s' has no launch bounds", kernel->name);
}

static void end_kernel(void)
{
    resolve_labels();
    new_insn()->op = OP_EXIT; /* after the last one */
    kernel->n++;
    ptx_share_places(kernel);
    ptx_find_touches(kernel);
    kernel->hits = simt_hits(kernel, target);
    for (struct simt_kernel **k = &simt_kernels; *k; k = &(*k)->next)
        if (strcmp((*k)->name, kernel->name) == 0)
            simt_refuse("kernel '%s' is there already", kernel->name);
    kernel->next = simt_kernels;
    simt_kernels = kernel;
    kernel = NULL;
    n_wanted = n_labels = n_declared = 0;
    n_symbols = n_of_module;
}

/* A directive within a kernel, or within the module. */
static void read_directive(char **lines)
{
    char word[32];
    read_word(word, sizeof word, ".");
    if (kernel && strcmp(word, ".reg") == 0)
        read_registers();
    else if (kernel && strcmp(word, ".local") == 0)
        read_local();
    else if (strcmp(word, ".shared") == 0)
        read_shared();
    else if (!kernel && (strcmp(word, ".const") == 0 || strcmp(word, ".global") == 0))
        read_constant();
    else if (!kernel && strcmp(word, ".entry") == 0)
        begin_kernel(lines);
    else if (!kernel && strcmp(word, ".target") == 0) {
        int of = 0;
        char a = 0;
        skip();
        if (sscanf(at, "sm_%d%c", &of, &a) < 1)
            simt_refuse("a target that is no GPU");
        const int capability = (int)shim_number("SHIM_CAPABILITY", (uint64_t)of);
        /* Text of compute_90 on a GPU of 8.0: the sums of that GPU's tensor cores. */
        of = of < capability ? of : capability;
        if (target && target != of)
            simt_refuse("another target than the modules before");
        target = of;
        target_is_a = a == 'a';
        at += strcspn(at, "\n");
    } else if (strcmp(word, ".version") == 0 || strcmp(word, ".pragma") == 0)
        at += strcspn(at, "\n");
    else if (strcmp(word, ".address_size") == 0) {
        if (read_number() != 64)
            simt_refuse("addresses that do not have 64 bits");
    } else if (kernel || (strcmp(word, ".visible") != 0 && strcmp(word, ".extern") != 0))
        simt_refuse("unknown directive '%s'", word);
}

static char **lines_of(const char *text)
{
    size_t n = 3;
    for (const char *s = text; *s; s++)
        n += *s == '\n';
    char **list = simt_grow(NULL, n * sizeof *list), *rest = strdup(text);
    for (size_t i = 1; i < n; i++)
        list[i] = rest ? strsep(&rest, "\n") : NULL;
    return list;
}

static void read_module(char *text)
{
    char **lines = lines_of(text);
    int depth = 0;
    at = text;
    line = 1;
    n_symbols = n_of_module = has_dynamic = 0;
    for (skip(); *at; skip()) {
        size_t name = strspn(at, "$_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
        if (*at == '.') {
            int was_kernel = kernel != NULL;
            read_directive(lines);
            depth += !was_kernel && kernel;
        } else if (!kernel) {
            simt_refuse("a directive is expected at '%.20s'", at);
        } else if (is_next('{')) {
            depth++;
        } else if (is_next('}')) {
            if (--depth == 0)
                end_kernel();
        } else if (name && at[name] == ':') {
            at[name] = '\0';
            add_label(&labels, &n_labels, at, kernel->n);
            at += name + 1;
        } else {
            read_instruction();
        }
    }
    if (kernel)
        simt_refuse("kernel '%s' has no end", kernel->name);
}

void ptx_read(const char *name, const char *text)
{
    static u64 seen[64];
    static int n;
    u64 hash = hash_of(text, strlen(text));
    for (int i = 0; i < n; i++)
        if (seen[i] == hash)
            return;
    if (n == 64)
        simt_refuse("more than 64 modules");
    seen[n++] = hash;
    file = strdup(name);
    char *copy = strdup(text);
    read_module(copy);
    free(copy);
}
