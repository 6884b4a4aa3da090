#include "tests/cuda/device_code.h"

#include "base/buf.h"

#include <ctype.h>
#include <elf.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every instruction on floating-point numbers that PTX may have: each rounds once, to nearest, keeps subnormals, and
 * says so; or does not round at all. Without .rn, ptxas may contract a product and a sum. */
static const char *const allowed[] = {
    "add.rn.f32", "sub.rn.f32",   "mul.rn.f32", "fma.rn.f32",       "div.rn.f32",
    "rcp.rn.f32", "sqrt.rn.f32",  "neg.f32",    "abs.f32",          "min.f32",
    "max.f32",    "copysign.f32", "selp.f32",   "slct.f32.s32",     "setp.*.f32",
    "mov.f32",    "ld.*f32",      "st.*f32",    "cvt.rn.f32.[su]*", "cvt.r[nzmp]i.[su]*.f32",
    "shfl.*b32",  "mov.b32",      "mov.b64",
    /* Instructions on 16 bits: one rounding, or none; products of matrices are those of ops/tensor_core.h. */
    "cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.f32.f16", "mma.sync.aligned.m*.f32.f16.f16.f32",
    "mma.sync.aligned.m*.f32.bf16.bf16.f32", "wgmma.mma_async.sync.aligned.m*.f32.f16.f16",
    "wgmma.mma_async.sync.aligned.m*.f32.bf16.bf16", "wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned",
    "wgmma.wait_group.sync.aligned",
};

void code_free(struct code *c)
{
    free(c->row);
    *c = (struct code){0};
}

struct code_kernel *code_find(const struct code *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->row[i].name, name) == 0)
            return &c->row[i];
    return NULL;
}

static struct code_kernel *kernel(struct code *c, const char *name, size_t length)
{
    char text[sizeof c->row->name];
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    struct code_kernel *k = code_find(c, text);
    if (k)
        return k;
    c->row = realloc(c->row, (size_t)(c->n + 1) * sizeof *c->row);
    if (!c->row)
        abort();
    k = &c->row[c->n++];
    *k = (struct code_kernel){0};
    memcpy(k->name, text, sizeof text);
    return k;
}

/* ---- PTX ---- */

static int has_floats(const char *op)
{
    static const char *const types[] = {".f32", ".f64", ".f16", ".bf16", ".tf32", ".e4m3", ".e5m2", ".ftz", ".approx"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strstr(op, types[i]))
            return 1;
    return strncmp(op, "mma", 3) == 0 || strncmp(op, "wmma", 4) == 0 || strncmp(op, "wgmma", 5) == 0 ||
           strncmp(op, "tcgen", 5) == 0;
}

static void count(struct code_kernel *k, const char *op, int is_marked)
{
    int is_fma = strcmp(op, "fma.rn.f32") == 0, is_allowed = !has_floats(op);
    k->fused += is_fma;
    k->written += is_fma && is_marked;
    k->products += strncmp(op, "mul.rn.f32", 10) == 0;
    k->sums += strcmp(op, "add.rn.f32") == 0 || strcmp(op, "sub.rn.f32") == 0;
    k->expands += strncmp(op, "div.", 4) == 0 || strncmp(op, "rcp.", 4) == 0 || strncmp(op, "sqrt.", 5) == 0;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        is_allowed |= fnmatch(allowed[i], op, 0) == 0;
    if (!is_allowed && !*k->refused)
        snprintf(k->refused, sizeof k->refused, "%.63s", op);
}

/* "@%p1 mul.rn.f32 %f1, %f2, %f3;" and what follows on the line, which comes from asm() in the sources */
static void count_line(struct code_kernel *k, char *line)
{
    int is_marked = strstr(line, "// written") != NULL;
    char *comment = strstr(line, "//"), *rest = NULL;
    if (comment)
        *comment = 0;
    for (char *s = strtok_r(line, ";{}", &rest); s; s = strtok_r(NULL, ";{}", &rest)) {
        s += strspn(s, " \t");
        if (*s == '@')
            s += strcspn(s, " \t");
        s += strspn(s, " \t");
        s[strcspn(s, " \t")] = 0;
        if (islower((unsigned char)*s) && s[strlen(s) - 1] != ':')
            count(k, s, is_marked);
    }
}

int code_read_ptx(struct code *c, const char *path, struct rp_err *err)
{
    RP_BUF text = {0};
    struct code_kernel *k = NULL;
    char *rest = NULL;
    if (rp_read_file(&text, path, 64 << 20, err) < 0)
        return -1;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *entry = strstr(line, ".entry "), *function = strstr(line, ".func ");
        if (entry)
            k = kernel(c, entry + 7, strcspn(entry + 7, "( "));
        else if (function)
            k = kernel(c, "a function", 10);
        else if (k)
            count_line(k, line);
    }
    return k ? 0 : rp_fail(err, RP_MALFORMED, "'%s' has no kernel", path);
}

/* ---- machine code: instructions of 16 bytes, the low nine bits the operation, three more how its operands come
 * ---- */

enum { FFMA = 0x023, FFMA2 = 0x049 };

static void count_words(struct code_kernel *k, const unsigned char *code, size_t bytes)
{
    for (size_t at = 0; at + 16 <= bytes; at += 16) {
        int op = (code[at] | code[at + 1] << 8) & 0x1ff;
        k->fused += op == FFMA ? 1 : op == FFMA2 ? 2 : 0;
    }
}

int code_each_text(const char *path,
                   void (*each)(void *user, const char *kernel, const unsigned char *code, size_t bytes), void *user,
                   struct rp_err *err)
{
    RP_BUF file = {0};
    if (rp_read_file(&file, path, 64 << 20, err) < 0)
        return -1;
    const Elf64_Ehdr *h = (const void *)file.data;
    if (file.size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
        h->e_shoff + (uint64_t)h->e_shnum * sizeof(Elf64_Shdr) > file.size || h->e_shstrndx >= h->e_shnum)
        return rp_fail(err, RP_MALFORMED, "'%s' is no cubin", path);
    const Elf64_Shdr *s = (const void *)(file.data + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++) {
        const char *name = file.data + s[h->e_shstrndx].sh_offset + s[i].sh_name;
        if (name < file.data + file.size && strncmp(name, ".text.", 6) == 0 &&
            s[i].sh_offset + s[i].sh_size <= file.size)
            each(user, name + 6, (const unsigned char *)file.data + s[i].sh_offset, s[i].sh_size);
    }
    return 0;
}

static void add_text(void *user, const char *name, const unsigned char *code, size_t bytes)
{
    count_words(kernel(user, name, strlen(name)), code, bytes);
}

int code_read_cubin(struct code *c, const char *path, struct rp_err *err)
{
    return code_each_text(path, add_text, c, err);
}

/* ---- what ptxas said ---- */

int code_read_statistics(struct code *c, const char *path, struct rp_err *err)
{
    RP_BUF text = {0};
    struct code_kernel *k = NULL;
    char *rest = NULL;
    if (rp_read_file(&text, path, 8 << 20, err) < 0)
        return -1;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *name = strstr(line, "entry function '"), *used = strstr(line, "Used "),
                   *shared = strstr(line, " bytes smem");
        int stack, stores, loads;
        if (name)
            k = kernel(c, name + 16, strcspn(name + 16, "'"));
        else if (k && used)
            k->registers = atoi(used + 5);
        if (k && sscanf(line, " %d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack, &stores,
                        &loads) == 3) {
            k->stack = stack;
            k->spills = stores + loads;
        }
        while (shared && shared > line && isdigit((unsigned char)shared[-1]))
            shared--;
        if (k && shared)
            k->shared = atoi(shared);
    }
    return 0;
}
