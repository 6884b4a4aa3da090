/* Registers share places.
 *
 * PTX has a new register for nearly every result, thousands in an unrolled loop: those of a warp would not fit into the
 * cache. Two registers share a place where no path through the kernel has both alive. The intervals in which a register
 * is alive come from a data-flow analysis over basic blocks; they are packed first come, first served. A write under a
 * guard keeps what the other lanes have, so it does not begin a life. Constants have a place of their own, which is
 * filled once.
 */
#include "tests/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

struct life {
    u32 first, last; /* instructions; first > last: the register is never named */
    s32 place;
};

struct flow {
    struct simt_kernel *k;
    u32 rows, words; /* of the arena; words of a set of rows */
    u32 *block_of, *begin, blocks; /* block of each instruction; first instruction of each block, and the end */
    u64 *in, *out, *uses, *defines; /* a set of rows for each block */
    u8 *is_constant;
    struct life *life;
};

static void *zeros(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

static int has(const u64 *set, u32 n)
{
    return (int)(set[n / 64] >> n % 64 & 1);
}
static void add(u64 *set, u32 n)
{
    set[n / 64] |= (u64)1 << n % 64;
}

static int ends_block(const struct ptx_insn *i)
{
    return i->op == OP_BRANCH || i->op == OP_EXIT || i->op == OP_TRAP;
}

static void find_blocks(struct flow *f)
{
    const struct simt_kernel *k = f->k;
    u8 *leads = zeros(k->n + 1, 1);
    leads[0] = 1;
    for (u32 i = 0; i < k->n; i++) {
        if (k->code[i].op == OP_BRANCH)
            leads[k->code[i].target] = 1;
        if (ends_block(&k->code[i]))
            leads[i + 1] = 1;
    }
    f->begin = zeros(k->n + 2, sizeof *f->begin);
    f->block_of = zeros(k->n + 1, sizeof *f->block_of);
    for (u32 i = 0; i < k->n; i++) {
        if (leads[i])
            f->begin[f->blocks++] = i;
        f->block_of[i] = f->blocks - 1;
    }
    f->begin[f->blocks] = k->n;
    free(leads);
}

/* What each block reads before it writes it, and what it writes first. */
static void find_uses(struct flow *f)
{
    for (u32 n = 0; n < f->k->n; n++) {
        const struct ptx_insn *i = &f->k->code[n];
        u64 *uses = &f->uses[f->block_of[n] * f->words], *defines = &f->defines[f->block_of[n] * f->words];
        for (int k = 0; k < PTX_SOURCES; k++)
            if (i->s[k] >= 0 && !has(defines, (u32)i->s[k] / SIMT_ROW))
                add(uses, (u32)i->s[k] / SIMT_ROW);
        for (int k = 0; k < i->sums; k++)
            if (!has(defines, (u32)i->sum[k] / SIMT_ROW))
                add(uses, (u32)i->sum[k] / SIMT_ROW);
        for (int k = 0; k < PTX_RESULTS; k++) {
            u32 row = (u32)i->d[k] / SIMT_ROW;
            if (i->d[k] < 0)
                continue;
            if (i->guard < 0 && !has(uses, row))
                add(defines, row);
            else if (i->guard >= 0 && !has(defines, row))
                add(uses, row);
        }
    }
}

static int flows(struct flow *f, u32 to, u32 from_insn)
{
    u64 changed = 0;
    if (from_insn >= f->k->n)
        return 0;
    const u64 *in = &f->in[f->block_of[from_insn] * f->words];
    u64 *out = &f->out[to * f->words];
    for (u32 w = 0; w < f->words; w++) {
        changed |= in[w] & ~out[w];
        out[w] |= in[w];
    }
    return changed != 0;
}

/* Rows alive at the begin and end of each block, to a fixed point. */
static void find_alive(struct flow *f)
{
    memcpy(f->in, f->uses, (size_t)f->blocks * f->words * sizeof *f->in);
    for (int changed = 1; changed;) {
        changed = 0;
        for (u32 b = f->blocks; b-- > 0;) {
            u32 last = f->begin[b + 1] - 1;
            const struct ptx_insn *i = &f->k->code[last];
            if (i->op == OP_BRANCH)
                changed |= flows(f, b, i->target);
            if (!ends_block(i) || i->guard >= 0)
                changed |= flows(f, b, last + 1);
            for (u32 w = b * f->words; w < (b + 1) * f->words; w++)
                f->in[w] = f->uses[w] | (f->out[w] & ~f->defines[w]);
        }
    }
}

static void extend(struct flow *f, u32 row, u32 at)
{
    struct life *x = &f->life[row];
    x->first = at < x->first ? at : x->first;
    x->last = at > x->last ? at : x->last;
}

static void find_lives(struct flow *f)
{
    for (u32 n = 0; n < f->rows; n++)
        f->life[n] = (struct life){~0u, 0, -1};
    for (u32 n = 0; n < f->k->n; n++) {
        const struct ptx_insn *i = &f->k->code[n];
        for (int k = 0; k < PTX_SOURCES; k++)
            if (i->s[k] >= 0)
                extend(f, (u32)i->s[k] / SIMT_ROW, n);
        for (int k = 0; k < PTX_RESULTS; k++)
            if (i->d[k] >= 0)
                extend(f, (u32)i->d[k] / SIMT_ROW, n);
        for (int k = 0; k < i->sums; k++)
            extend(f, (u32)i->sum[k] / SIMT_ROW, n);
    }
    for (u32 b = 0; b < f->blocks; b++)
        for (u32 n = 0; n < f->rows; n++) {
            if (has(&f->in[b * f->words], n))
                extend(f, n, f->begin[b]);
            if (has(&f->out[b * f->words], n))
                extend(f, n, f->begin[b + 1] - 1);
        }
}

static const struct life *lives_to_sort;
static int by_first(const void *a, const void *b)
{
    const struct life *x = &lives_to_sort[*(const u32 *)a], *y = &lives_to_sort[*(const u32 *)b];
    return x->first < y->first ? -1 : x->first > y->first;
}
static int by_last(const void *a, const void *b)
{
    const struct life *x = &lives_to_sort[*(const u32 *)a], *y = &lives_to_sort[*(const u32 *)b];
    return x->last < y->last ? -1 : x->last > y->last;
}

/* A place for each life: one that ended before it begins, or a new one. Sources and results of one instruction never
 * share. */
static u32 pack(struct flow *f)
{
    const u8 *is_wide = f->k->is_wide;
    u32 *starts = zeros(f->rows, sizeof *starts), *ends = zeros(f->rows, sizeof *ends), n = 0, ended = 0, arena = 0,
        spares[2] = {0, 0};
    s32 *spare[2] = {zeros(f->rows, sizeof **spare), zeros(f->rows, sizeof **spare)};
    for (u32 i = 0; i < f->rows; i++) {
        if (f->is_constant[i])
            f->life[i] = (struct life){0, ~0u - 1, -1};
        if (f->life[i].first <= f->life[i].last)
            starts[n++] = i;
    }
    memcpy(ends, starts, n * sizeof *ends);
    lives_to_sort = f->life;
    qsort(starts, n, sizeof *starts, by_first);
    qsort(ends, n, sizeof *ends, by_last);
    for (u32 i = 0; i < n; i++) {
        struct life *x = &f->life[starts[i]];
        for (; f->life[ends[ended]].last < x->first; ended++)
            spare[is_wide[ends[ended]]][spares[is_wide[ends[ended]]]++] = f->life[ends[ended]].place;
        int wide = is_wide[starts[i]];
        x->place = spares[wide] ? spare[wide][--spares[wide]] : (s32)arena;
        if (x->place == (s32)arena)
            arena += wide ? 2 * SIMT_ROW : SIMT_ROW;
    }
    free(starts), free(ends), free(spare[0]), free(spare[1]);
    return arena;
}

static void move(const struct flow *f, s32 *place)
{
    if (*place >= 0)
        *place = f->life[(u32)*place / SIMT_ROW].place;
}

void ptx_share_places(struct simt_kernel *k)
{
    struct flow f = {.k = k, .rows = k->arena / SIMT_ROW};
    f.words = (f.rows + 63) / 64;
    find_blocks(&f);
    f.in = zeros((size_t)f.blocks * f.words, sizeof *f.in);
    f.out = zeros((size_t)f.blocks * f.words, sizeof *f.out);
    f.uses = zeros((size_t)f.blocks * f.words, sizeof *f.uses);
    f.defines = zeros((size_t)f.blocks * f.words, sizeof *f.defines);
    f.is_constant = zeros(f.rows, 1);
    f.life = zeros(f.rows, sizeof *f.life);
    for (u32 i = 0; i < k->constants; i++)
        f.is_constant[k->constant[i].place / SIMT_ROW] = 1;
    find_uses(&f);
    find_alive(&f);
    find_lives(&f);
    k->arena = pack(&f);
    for (u32 n = 0; n < k->n; n++) {
        for (int i = 0; i < PTX_SOURCES; i++)
            move(&f, &k->code[n].s[i]);
        for (int i = 0; i < PTX_RESULTS; i++)
            move(&f, &k->code[n].d[i]);
        for (int i = 0; i < k->code[n].sums; i++)
            move(&f, &k->code[n].sum[i]);
    }
    for (u32 i = 0; i < k->constants; i++)
        k->constant[i].place = (u32)f.life[k->constant[i].place / SIMT_ROW].place;
    free(f.begin), free(f.block_of), free(f.in), free(f.out), free(f.uses), free(f.defines), free(f.is_constant),
        free(f.life);
    free(k->is_wide);
    k->is_wide = NULL;
}
