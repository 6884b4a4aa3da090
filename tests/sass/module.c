/* The files of a directory: cubins (NAME) with nvdisasm's text of them (NAME.sass), and what a launch puts into
 * constant memory.
 *
 *   SASS_DIR=DIRECTORY     the kernels, with those of DIRECTORYa (sm_90a); whatever machine code the program gives the
 *                          driver is not looked at
 *   SASS_DIVERGED=1        branches for lanes that came apart (BRA.DIV) are always taken
 *   SASS_SLOW=1            quotients take the way for operands near the ends of the range
 *   SASS_ERROR=1           reciprocals and roots of the special function unit are wrong in the last place
 *
 * Of a cubin: constant memory (.nv.constant3 of the module, .nv.constant2 of a kernel), bytes and place of the
 * parameters, threads of a block, shared memory.
 */
#include "tests/sass/sass.h"

#include <dirent.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char simt_form[] = "SASS";

/* Words of c[0x0] before the parameters, by the byte at which these begin. A generic address of shared memory has
 * SHARED_WINDOW in its upper half; kernels only compare such addresses with 0. */
#define SHARED_WINDOW 0x70000000u
#define STACK 0xfffdc0u
#define CONSTANT_WINDOW 0x71000000u /* the upper half of generic addresses of c[0x0] */
static const struct sass_layout layouts[] = {
    {.params = 0x160, .ntid = 0, .nctaid = 0xc, .window = 0x18, .stack = 0x28, .descriptor = 0x118},
    {.params = 0x210, .ntid = 0, .nctaid = 0xc, .window = 0x18, .stack = 0x28, .descriptor = 0x208, .generic = 0x198},
    {.params = 0x380, .ntid = 0x360, .nctaid = 0x370, .window = ~0u, .stack = 0x37c, .descriptor = 0x358},
};

/* ---- constant memory ---- */

static u8 launch_bank[8192]; /* c[0x0] */
static u64 launch_of_bank;

static int is_launch_word(const struct sass_layout *y, u32 params, u32 at)
{
    return (at >= y->params && at < y->params + params) || (at >= y->ntid && at < y->ntid + 12) ||
           (at >= y->nctaid && at < y->nctaid + 12) || at == y->window || at == y->window + 4 || at == y->stack ||
           at == y->descriptor || at == y->descriptor + 4 ||
           (y->generic && (at == y->generic || at == y->generic + 4));
}

void sass_known(const struct sass_unit *u, u32 bank, u32 at)
{
    if (at % 4 || (bank ? at + 4 > u->bank_bytes[bank] : !is_launch_word(u->layout, u->first + u->k->params, at)))
        simt_refuse("what is at c[0x%x][0x%x] is not known", bank, at);
}

s32 sass_number_row(struct simt_kernel *k, u64 value)
{
    for (u32 i = 0; i < k->constants; i += 2)
        if (k->constant[i].value == (u32)value && k->constant[i + 1].value == value >> 32)
            return (s32)k->constant[i].place;
    k->constant = simt_grow(k->constant, (k->constants + 2) * sizeof *k->constant);
    for (int part = 0; part < 2; part++, k->arena += SIMT_ROW)
        k->constant[k->constants++] = (struct simt_constant){k->arena, 0, (u32)(value >> 32 * part)};
    return (s32)(k->arena - 2 * SIMT_ROW);
}

/* The word and the next one. */
s32 sass_word_row(const struct sass_unit *unit, u32 bank, u32 at)
{
    struct sass_unit *u = unit->k->own;
    u32 word[2] = {0, 0};
    sass_known(u, bank, at);
    if (bank) {
        memcpy(word, u->bank[bank] + at, at + 8 <= u->bank_bytes[bank] ? 8 : 4);
        return sass_number_row(u->k, (u64)word[1] << 32 | word[0]);
    }
    for (int i = 0; i < u->words; i += 2)
        if (u->word[i].at == at)
            return u->word[i].row;
    u->word = simt_grow(u->word, (size_t)(u->words + 2) * sizeof *u->word);
    for (u32 part = 0; part < 2; part++, u->k->arena += SIMT_ROW)
        u->word[u->words++] = (struct sass_word){at + 4 * part, (s32)u->k->arena};
    return (s32)(u->k->arena - 2 * SIMT_ROW);
}

static void fill_bank(const struct sass_unit *u)
{
    const struct simt_launch *n = &simt_launch;
    const struct sass_layout *y = u->layout;
    const u32 block[] = {n->block.x, n->block.y, n->block.z}, grid[] = {n->grid.x, n->grid.y, n->grid.z},
              window[] = {0, SHARED_WINDOW}, stack = STACK,
              constants[] = {y->params, CONSTANT_WINDOW};
    memset(launch_bank, 0, sizeof launch_bank);
    memcpy(launch_bank + y->ntid, block, sizeof block);
    memcpy(launch_bank + y->nctaid, grid, sizeof grid);
    memcpy(launch_bank + y->stack, &stack, sizeof stack);
    if (y->window != ~0u)
        memcpy(launch_bank + y->window, window, sizeof window);
    if (y->generic)
        memcpy(launch_bank + y->generic, constants, sizeof constants);
    memcpy(launch_bank + y->params + u->first, n->args, u->k->params);
    launch_of_bank = n->number;
}

u32 sass_constant(const struct simt_warp *w, u32 pc, u32 lane, u32 bank, u64 at)
{
    const struct sass_unit *u = w->kernel->own;
    u32 word;
    if (at % 4 || (bank ? at + 4 > u->bank_bytes[bank] : !is_launch_word(u->layout, u->first + u->k->params, (u32)at)))
        simt_fault(w, pc, (int)lane, "reads c[0x%x][0x%llx], which nothing defines", bank, (unsigned long long)at);
    memcpy(&word, (bank ? u->bank[bank] : launch_bank) + at, sizeof word);
    return word;
}

const void *sass_parameters(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes)
{
    const struct sass_unit *u = w->kernel->own;
    const u64 at = address - ((u64)CONSTANT_WINDOW << 32);
    if (at % 64 || at < u->layout->params + u->first ||
        at + bytes > u->layout->params + u->first + u->k->params)
        simt_fault(w, pc, (int)lane, "reads %u bytes at %#llx, which are not parameters aligned to 64 bytes", bytes,
                   (unsigned long long)address);
    return launch_bank + at;
}

void simt_fill_registers(struct simt_warp *w)
{
    const struct sass_unit *u = w->kernel->own;
    memset(sass_row(w, SASS_ROW(ROW_B)), 0, (size_t)SASS_BARRIERS * SIMT_ROW);
    if (w->kernel->has_proxies)
        sass_products_begin(w);
    if (w->launch == simt_launch.number)
        return;
    w->launch = simt_launch.number;
    if (launch_of_bank != simt_launch.number)
        fill_bank(u);
    for (int i = 0; i < u->words; i++) {
        u32 *row = sass_row(w, u->word[i].row), word;
        memcpy(&word, launch_bank + u->word[i].at, sizeof word);
        for (int l = 0; l < LANES; l++)
            row[l] = word;
    }
}

void simt_describe(const struct simt_kernel *k, u32 pc, char *out, size_t room)
{
    const char *line = k->line[k->sass[pc].line];
    snprintf(out, room, "%s:%d: %s", k->file, k->sass[pc].line + 1, line + strspn(line, " \t"));
}

/* ---- cubins ---- */

struct cubin {
    u8 *bytes;
    size_t size;
    const Elf64_Shdr *section;
    int sections;
    const char *names;
    int arch;
};

static struct cubin read_cubin(const char *path)
{
    struct cubin c = {0};
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        simt_refuse("cannot read '%s'", path);
    c.size = (size_t)ftell(f);
    c.bytes = simt_grow(NULL, c.size);
    rewind(f);
    if (c.size < sizeof(Elf64_Ehdr) || fread(c.bytes, 1, c.size, f) != c.size)
        simt_refuse("cannot read '%s'", path);
    fclose(f);
    const Elf64_Ehdr *e = (const void *)c.bytes;
    c.section = (const void *)(c.bytes + e->e_shoff);
    c.sections = e->e_shnum;
    if (memcmp(c.bytes, ELFMAG, SELFMAG) != 0 || e->e_shoff % 8 ||
        e->e_shoff + e->e_shnum * sizeof *c.section > c.size || e->e_shstrndx >= e->e_shnum)
        simt_refuse("'%s' is not a cubin", path);
    c.names = (const char *)c.bytes + c.section[e->e_shstrndx].sh_offset;
    return c;
}

static const Elf64_Shdr *find_section(const struct cubin *c, const char *prefix, const char *kernel)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", prefix, kernel);
    for (int i = 0; i < c->sections; i++)
        if (strcmp(c->names + c->section[i].sh_name, name) == 0)
            return &c->section[i];
    return NULL;
}

static void take_bank(struct sass_unit *u, const struct cubin *c, int bank, const char *prefix, const char *kernel)
{
    const Elf64_Shdr *s = find_section(c, prefix, kernel);
    u->bank[bank] = s ? c->bytes + s->sh_offset : NULL;
    u->bank_bytes[bank] = s ? (u32)s->sh_size : 0;
}

/* Attributes of a kernel: format, attribute, bytes of the value, value (for format 4). */
static void read_attributes(struct sass_unit *u, const struct cubin *c)
{
    enum { WITH_SIZE = 4, MAX_THREADS = 5, PARAMETERS = 10, PARAMETER = 23 };
    const Elf64_Shdr *s = find_section(c, ".nv.info.", u->k->name);
    u32 threads[3] = {0, 0, 0};
    u16 params[2] = {0, 0}, first = 0; /* place, bytes; where the only parameter begins there */
    for (u64 at = 0; s && at + 4 <= s->sh_size;) {
        const u8 *p = c->bytes + s->sh_offset + at;
        u16 size = (u16)(p[2] | p[3] << 8);
        if (p[0] == WITH_SIZE && p[1] == MAX_THREADS)
            memcpy(threads, p + 4, sizeof threads);
        if (p[0] == WITH_SIZE && p[1] == PARAMETERS)
            memcpy(params, p + 8, sizeof params);
        if (p[0] == WITH_SIZE && p[1] == PARAMETER)
            memcpy(&first, p + 10, sizeof first);
        at += p[0] == WITH_SIZE ? 4u + size : 4u;
    }
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
        if (layouts[k].params == params[0])
            u->layout = &layouts[k];
    if (!threads[0] || !u->layout)
        simt_refuse("kernel '%s' has no threads, or parameters at %#x", u->k->name, params[0]);
    u->k->threads = threads[0] * threads[1] * threads[2];
    u->first = first;
    u->k->params = (u32)params[1] - first;
    s = find_section(c, ".nv.shared.", u->k->name);
    u->k->shared = s && s->sh_size > simt_shared_base ? (u32)s->sh_size - simt_shared_base : 0;
}

static void read_kernel(const struct cubin *c, char **line, int first, int end, const char *name, size_t length)
{
    struct sass_unit *u = simt_grow(NULL, sizeof *u);
    struct simt_kernel *k = simt_grow(NULL, sizeof *k);
    *k = (struct simt_kernel){
        .file = sass_file, .line = line, .preds = PREDS, .always = {PRED_FALSE, PRED_TRUE}, .own = u};
    *u = (struct sass_unit){.k = k, .arch = c->arch};
    snprintf(k->name, sizeof k->name, "%.*s", (int)length, name);
    for (u32 n = 0; n < 4; n++) {
        k->constant = simt_grow(k->constant, (k->constants + 1) * sizeof *k->constant);
        k->constant[k->constants++] = (struct simt_constant){(u32)SASS_ROW(ROW_ZERO + n), 0, 0};
    }
    k->arena = (u32)SASS_ROW(ROW_CONSTANTS);
    k->text = 14695981039346656037u;
    take_bank(u, c, 3, ".nv.constant3", "");
    take_bank(u, c, 2, ".nv.constant2.", k->name);
    read_attributes(u, c);
    sass_parse(u, line, first, end);
    k->next = simt_kernels;
    simt_kernels = k;
}

/* ---- text ---- */

/* "EF_CUDA_SM90" or, from sm_100 on, "\t.target\tsm_100" */
static int arch_of(const char *text)
{
    static const char *const before[] = {"EF_CUDA_SM", "\t.target\tsm_"};
    for (int k = 0; k < 2; k++) {
        const char *p = strstr(text, before[k]);
        if (p)
            return atoi(p + strlen(before[k]));
    }
    simt_refuse("the text does not say for which architecture it is");
}

/* Every section "\t.section\t.text.NAME,..." up to the next one. */
static void read_text(struct cubin *c, char *text)
{
    static const char section[] = "\t.section\t", code[] = ".text.";
    int n = 0, first = -1, lines = 1;
    c->arch = arch_of(text);
    simt_shared_base = c->arch < 90 ? 0 : 1024;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    char **line = simt_grow(NULL, (size_t)lines * sizeof *line);
    while (text)
        line[n++] = strsep(&text, "\n");
    for (int i = 0; i <= n; i++) {
        if (i < n && strncmp(line[i], section, sizeof section - 1) != 0)
            continue;
        if (first >= 0) {
            const char *name = line[first] + sizeof section - 1 + sizeof code - 1;
            read_kernel(c, line, first + 1, i, name, strcspn(name, ","));
        }
        first = i < n && strncmp(line[i] + sizeof section - 1, code, sizeof code - 1) == 0 ? i : -1;
    }
}

static void read_directory(const char *path, int is_wanted)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char full[4096], *suffix = strrchr(e->d_name, '.');
        if (!suffix || strcmp(suffix, ".sass") != 0)
            continue;
        snprintf(full, sizeof full, "%s/%s", path, e->d_name);
        sass_file = strdup(full);
        *strrchr(full, '.') = '\0';
        struct cubin c = read_cubin(full);
        read_text(&c, simt_read_file(sass_file));
    }
    if (is_wanted && (!d || !simt_kernels))
        simt_refuse("there are no kernels in '%s'", path);
    if (d)
        closedir(d);
}

/* A module that the program loads. */
const char *shim_module(const void *image)
{
    const char *directory = simt_setting("DIR");
    (void)image;
    if (!directory)
        return "set SASS_DIR to a directory with machine code and its text";
    if (!simt_kernels) {
        char more[4096];
        read_directory(directory, 1);
        snprintf(more, sizeof more, "%sa", directory);
        read_directory(more, 0);
    }
    return NULL;
}
