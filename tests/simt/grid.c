/* Launches of compiled kernels: blocks of a grid, several resident at a time, and their warps. In the place of
 * tests/shim/shim.c in the tests' libcuda.
 *
 *   PTX_DIR, SASS_DIR=DIRECTORY    where the kernels are (tests/ptx/parse.c, tests/sass/parse.c)
 *   PTX_STRICT, SASS_STRICT=0      kernels may touch any memory of the process: for tests whose tensors are not the
 *                                  driver's memory
 *   PTX_RACES, SASS_RACES=1        accesses that nothing orders are faults (races.c)
 *   PTX_SPLIT=1                    each thread of a warp on its own between meetings
 *   PTX_COVERAGE, SASS_COVERAGE=DIRECTORY  gets what was executed (coverage.c)
 *   SHIM_ORDER, SHIM_LATE, SHIM_AHEAD, SHIM_RESIDENT, SHIM_SEED   as in tests/shim/run.h; here SHIM_LATE=1 and
 *                                                                 SHIM_RESIDENT=4 unless given
 *
 * SHIM_ORDER=0 runs the threads of a warp in lockstep as far as they can be, 1 the last group first, 2 groups, warps
 * and blocks at random, a random number of instructions each.
 */
#include "backend/cuda/kernels.h"
#include "tests/simt/simt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define IDLE_ROUNDS 10000 /* in which every block only looked at memory: a deadlock */

struct shim_options shim_options = {.late = 1, .resident = 4, .ahead = 1, .seed = 1};
struct simt_launch simt_launch = {.strict = 1};
struct simt_kernel *simt_kernels;
static struct simt_block *resident[SHIM_RESIDENT];
static u32 epochs;
static jmp_buf out;
static char fault[768];

_Noreturn void simt_fault(const struct simt_warp *w, u32 pc, int lane, const char *format, ...)
{
    va_list list;
    char text[256], where[320];
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    simt_describe(w->kernel, pc, where, sizeof where);
    snprintf(fault, sizeof fault, "%s, block %u %u %u, thread %d: %s: %s", w->kernel->name, w->block->index.x,
             w->block->index.y, w->block->index.z, lane < 0 ? -1 : (int)w->first + lane, text, where);
    longjmp(out, 1);
}

void shim_fault(const char *what)
{
    snprintf(fault, sizeof fault, "%s", what);
    longjmp(out, 1);
}

const char *simt_setting(const char *name)
{
    char variable[64];
    snprintf(variable, sizeof variable, "%s_%s", simt_form, name);
    return getenv(variable);
}

void *simt_grow(void *p, size_t bytes)
{
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        abort();
    return p;
}

char *simt_read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    if (!f || getdelim(&text, &size, '\0', f) < 0)
        simt_refuse("cannot read '%s'", path);
    fclose(f);
    return text;
}

/* ---- blocks ---- */

static void *make_room(void *p, size_t *room, size_t bytes)
{
    if (bytes <= *room)
        return p;
    free(p);
    *room = (bytes + 4095) / 4096 * 4096;
    p = aligned_alloc(64, *room);
    if (!p)
        abort();
    return p;
}

/* Registers start as NaN. Those of the previous launch may stay: a kernel may not read them either. */
static void set_kernel(struct simt_warp *w, const struct simt_kernel *k)
{
    w->r = make_room(w->r, &w->r_room, k->arena + 64);
    w->p = make_room(w->p, &w->p_room, (k->preds + 1) * sizeof *w->p);
    memset(w->r, 0xff, k->arena);
    memset(w->p, 0xff, k->preds * sizeof *w->p);
    for (u32 i = 0; i < k->constants; i++)
        for (int l = 0; l < LANES; l++)
            if (k->constant[i].is_wide)
                simt_row64(w, (s32)k->constant[i].place)[l] = k->constant[i].value;
            else
                simt_row32(w, (s32)k->constant[i].place)[l] = (u32)k->constant[i].value;
    for (int i = 0; i < 2; i++)
        if (k->always[i] >= 0)
            w->p[k->always[i]] = i ? ~0u : 0;
    w->kernel = k;
}

static u32 lanes_of(u32 warp)
{
    u32 n = simt_launch.threads - LANES * warp;
    return n >= LANES ? ~0u : (1u << n) - 1;
}

static void start_warp(struct simt_block *b, u32 k)
{
    struct simt_warp *w = &b->warp[k];
    w->block = b;
    w->first = LANES * k;
    w->live = lanes_of(k);
    w->groups = 1;
    w->group[0] = (struct simt_group){w->live, 0, READY};
    w->copies = 0;
    w->epoch = 0;
    w->resumes = 0;
    w->waits_at = 0;
    memset(w->committed, 0, sizeof w->committed);
    memset(w->proxies, 0, sizeof w->proxies);
    if (w->kernel != simt_launch.kernel)
        set_kernel(w, simt_launch.kernel);
    w->local = make_room(w->local, &w->local_room, (size_t)w->kernel->local * LANES);
    memset(w->local, 0xff, (size_t)w->kernel->local * LANES);
    simt_fill_registers(w);
    simt_split(w, &w->group[0]);
}

/* Shared memory starts as NaN, so that reading it uninitialised shows in the results. */
static void start_block(int place, u32 number, size_t shared)
{
    struct simt_block *b = resident[place];
    const struct shim_dim *g = &simt_launch.grid;
    if (!b) {
        b = resident[place] = memset(simt_grow(NULL, sizeof *b), 0, sizeof *b);
        b->shared = aligned_alloc(128, SHIM_SHARED_MAX / 128 * 128 + 128);
        b->place = place;
        if (!b->shared)
            abort();
    }
    b->is_live = 1;
    b->index = (struct shim_dim){number % g->x, number / g->x % g->y, number / g->x / g->y};
    b->number = number;
    b->shared_bytes = (u32)shared;
    b->epoch = ++epochs;
    b->barriers = 0;
    b->slow = shim_options.order == SHIM_SCRAMBLED && shim_random() % 3 == 0 ? 1u << shim_random() % 6 : 1;
    b->seen.n = b->soon.n = 0;
    b->observers = 0;
    b->tensor_copies = 0;
    b->warps = (int)((simt_launch.threads + LANES - 1) / LANES);
    if (simt_launch.kernel->has_barriers)
        simt_barriers_begin(b);
    memset(b->shared, 0xff, shared);
    if (b->unfenced)
        memset(b->unfenced, 0, (SHIM_SHARED_MAX / 4 + 4) * sizeof *b->unfenced);
    for (int k = 0; k < b->warps; k++)
        start_warp(b, (u32)k);
}

static int waits_for_block(const struct simt_warp *w)
{
    return w->groups == 1 && w->group[0].state == AT_BLOCK;
}

/* All warps go on if every one is at a barrier. */
static int release(struct simt_block *b)
{
    const struct simt_warp *waits = NULL;
    for (int k = 0; k < b->warps; k++) {
        if (b->warp[k].groups && !waits_for_block(&b->warp[k]))
            return 0;
        waits = b->warp[k].groups ? &b->warp[k] : waits;
    }
    if (!waits)
        return 0;
    for (int k = 0; k < b->warps; k++) {
        struct simt_warp *w = &b->warp[k];
        if (w->live != lanes_of((u32)k))
            simt_fault(waits, waits->group[0].pc, -1, "threads of warp %d returned while others wait at a barrier", k);
        if (w->group[0].pc != waits->group[0].pc)
            simt_fault(waits, waits->group[0].pc, -1, "warp %d waits at another barrier, instruction %u", k,
                       w->group[0].pc);
        w->group[0].state = READY;
    }
    for (int k = 0; k < b->warps; k++) {
        b->warp[k].group[0].pc++;
        simt_split(&b->warp[k], &b->warp[k].group[0]);
    }
    b->epoch = ++epochs;
    simt_races_barrier(b);
    return 1;
}

/* 0: the block could only look at memory. */
static int take_turn(struct simt_block *b)
{
    u32 order[SHIM_THREADS / LANES];
    int has_moved = 0, groups = 0;
    shim_arrange(order, (u32)b->warps);
    for (int k = 0; k < b->warps; k++) {
        struct simt_warp *w = &b->warp[order[k]];
        if (w->groups && !waits_for_block(w))
            has_moved |= simt_run_warp(w) == RAN;
    }
    for (int k = 0; k < b->warps; k++)
        groups += b->warp[k].groups;
    b->is_live = groups != 0;
    if (!b->is_live)
        simt_tensor_check_end(b);
    return has_moved | release(b) | !b->is_live;
}

static const char *run_blocks(const u32 *start, u32 blocks, size_t shared)
{
    int places = shim_options.resident < 1               ? 1
                 : shim_options.resident > SHIM_RESIDENT ? SHIM_RESIDENT
                                                         : shim_options.resident,
        idle = 0;
    for (u32 next = 0, finished = 0; finished < blocks;) {
        int has_moved = 0;
        for (int i = 0; i < places; i++) {
            if (!resident[i] || !resident[i]->is_live) {
                if (next == blocks)
                    continue;
                start_block(i, start[next++], shared);
            }
            if (resident[i]->slow > 1 && shim_random() % resident[i]->slow)
                continue;
            has_moved |= take_turn(resident[i]);
            finished += !resident[i]->is_live;
        }
        idle = has_moved ? 0 : idle + 1;
        for (int i = 0; idle == IDLE_ROUNDS && simt_launch.kernel->has_barriers && i < places; i++)
            if (resident[i])
                simt_barriers_stuck(resident[i]);
        if (idle == IDLE_ROUNDS)
            return "every resident block waits for another one";
    }
    return NULL;
}

static const char *run_grid(size_t shared)
{
    u32 blocks, *const start = shim_arrange_blocks(simt_launch.grid, &blocks);
    for (int i = 0; i < SHIM_RESIDENT; i++)
        if (resident[i])
            resident[i]->is_live = 0;
    const char *wrong = setjmp(out) ? fault : run_blocks(start, blocks, shared);
    free(start);
    return wrong;
}

/* ---- kernels ---- */

static const struct {
    const char *name;
    size_t args;
    u32 threads;
} kernels[] = {
#define KERNEL(name, args, threads, blocks) {#name, sizeof(struct args), threads},
#include "backend/cuda/kernels.def"
#undef KERNEL
};

static struct simt_kernel *find(const char *kernel)
{
    char name[96];
    snprintf(name, sizeof name, "rp_%s", kernel);
    struct simt_kernel *k = simt_kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    return k;
}

/* The compiled kernel's own size, which is what a driver copies; both sides have to agree on it and on the threads. */
size_t shim_args_size(const char *kernel)
{
    const struct simt_kernel *k = find(kernel);
    for (size_t i = 0; k && i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, kernel) == 0 &&
            (kernels[i].args != k->params || kernels[i].threads != k->threads)) {
            fprintf(stderr, "%s: kernel %s takes %u bytes and %u threads, the host gives %zu and %u\n", simt_form,
                    kernel, k->params, k->threads, kernels[i].args, kernels[i].threads);
            return 0;
        }
    return k ? k->params : 0;
}

const char *shim_launch(const char *kernel, struct shim_dim grid, struct shim_dim block, size_t shared,
                        const void *args)
{
    static int has_begun;
    struct simt_kernel *k = find(kernel);
    if (!has_begun++) {
        const char *strict = simt_setting("STRICT"), *races = simt_setting("RACES"), *split = simt_setting("SPLIT");
        simt_launch.strict = !strict || *strict != '0';
        simt_launch.races = races && *races == '1';
        simt_launch.split = split && *split == '1';
    }
    if (!k)
        return "there is no such kernel";
    size_t all_shared = (k->shared + 127) / 128 * 128 + shared;
    const char *refused = shim_refuse_launch(grid, block, k->threads, all_shared);
    if (refused)
        return refused;
    k->launches++;
    simt_launch.kernel = k;
    simt_launch.number++;
    simt_launch.grid = grid;
    simt_launch.block = block;
    simt_launch.threads = k->threads;
    simt_launch.args = args;
    simt_launch.lockstep = shim_options.order == SHIM_FORWARD && !simt_launch.split;
    shim_random_state = shim_options.seed * 0x9e3779b97f4a7c15u + k->launches;
    simt_races_begin();
    return run_grid(all_shared);
}
