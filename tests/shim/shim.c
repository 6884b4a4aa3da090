/* The scheduler: fibers, meetings, resident blocks. */
#include "backend/cuda/kernels.h"
#include "ops/low.h"
#include "tests/shim/driver.h"
#include "tests/shim/matrix.h"
#ifdef SHIM_CHECKED
#include "tests/shim/planted.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define STACK_BYTES ((size_t)128 << 10)
#define COPIES 4096
#define SPINS 100000 /* rounds in which nobody did anything but look: a deadlock */

enum state { READY, SPINNING, AT_BLOCK, AT_WARP, DONE };

struct copy {
    unsigned char *to;
    const unsigned char *from;
    int bytes, inside, group, landed; /* inside: bytes that are not zeros */
};

struct fiber {
    void *stack_pointer;
    enum state state;
    const char *where; /* of the meeting it waits at */
    int line;
    unsigned id;
    uint64_t value;
    void *offer; /* to the other lanes of its warp */
    int copies, group;
    struct copy *copy;
};

struct block {
    int live, at; /* which of the resident ones */
    struct shim_dim index;
    unsigned char *shared, *stacks;
    struct fiber fiber[SHIM_THREADS];
    unsigned warp_epoch[SHIM_THREADS / 32];
    uint32_t stamp, number;
};

struct shim_options shim_options = {.resident = 1, .seed = 1};
struct shim_dim threadIdx, blockIdx, blockDim, gridDim;
struct shim_place shim_now;
void (*shim_on_copy)(const void *to, const void *from, size_t inside, size_t bytes, int landed);

static struct block *resident[SHIM_RESIDENT];
static struct block *now;    /* the block that runs */
static struct fiber *me;     /* the fiber that runs; NULL: the scheduler */
static void *scheduler;      /* its stack pointer */
static const char *fault;
static unsigned threads;
static size_t shared_bytes, args_bytes;
static int capability; /* of the device, at this launch */
static int is_other;   /* this kernel is one of shim_options.other_in */
static uint32_t stamps;
static void (*body)(const void *args);
static const void *body_args;

/* ---- fibers ---- */

void shim_swap(void **save, void *to);
__asm__(".text\n.globl shim_swap\n.type shim_swap, @function\nshim_swap:\n"
        " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size shim_swap, . - shim_swap\n");

static __attribute__((noinline)) void yield(enum state state, const char *where, int line)
{
    me->state = state;
    me->where = where;
    me->line = line;
    shim_swap(&me->stack_pointer, scheduler);
}

static void entry(void)
{
    body(body_args);
    for (;;)
        yield(DONE, "", 0);
}

void shim_fault(const char *what)
{
    fault = what;
    if (!me)
        abort();
    for (;;)
        yield(DONE, "", 0);
}

/* ---- what kernels call ---- */

void *shim_shared(void)
{
    return now->shared;
}

void shim_syncthreads(const char *where, int line)
{
    yield(AT_BLOCK, where, line);
}

void shim_syncwarp(const char *where, int line)
{
    yield(AT_WARP, where, line);
}

/* Publish, meet, read, meet: a lane may not publish again before its neighbours have read. */
uint64_t shim_exchange(uint64_t value, unsigned from, const char *where, int line)
{
    me->value = value;
    yield(AT_WARP, where, line);
    struct fiber *other = &now->fiber[(me->id & ~31u) + from];
    if ((me->id & ~31u) + from >= threads || other->state == DONE)
        shim_fault("an exchange reads a lane that is not there or has returned");
    uint64_t got = other->value;
    yield(AT_WARP, where, line);
    return got;
}

uint32_t shim_ballot(int predicate, const char *where, int line)
{
    uint32_t bits = 0;
    me->value = predicate != 0;
    yield(AT_WARP, where, line);
    for (unsigned lane = 0; lane < 32 && (me->id & ~31u) + lane < threads; lane++) {
        const struct fiber *f = &now->fiber[(me->id & ~31u) + lane];
        bits |= f->state == DONE ? 0 : (uint32_t)f->value << lane;
    }
    yield(AT_WARP, where, line);
    return bits;
}

/* The first lane that goes on after all have come does the work for its warp; `offer` is on the stack of each until
 * they meet again. */
struct lane_of_product {
    float *d;
    const uint32_t *a, *b;
    int is_done;
};

/* Offers of all 32 lanes. */
static void meet_whole_warp(void *offer, void **offers, const char *where, int line)
{
    me->offer = offer;
    yield(AT_WARP, where, line);
    struct fiber *first = &now->fiber[me->id & ~31u];
    for (unsigned lane = 0; lane < 32; lane++) {
        if ((me->id & ~31u) + lane >= threads || first[lane].state == DONE)
            shim_fault("a lane of the warp is not there or has returned, and a matrix takes all");
        offers[lane] = first[lane].offer;
    }
}

void shim_mma(int form, unsigned layout, int format, float *d, const uint32_t *a, const uint32_t *b, const char *where,
              int line)
{
    struct lane_of_product own = {d, a, b, 0}, *lane[SHIM_LANES];
    struct shim_product p = {.form = (enum shim_form)form, .layout = layout, .format = (enum rp_tc_format)format};
    struct shim_registers r;
    if (!shim_tc_of(p.form, capability, &p.tc))
        shim_fault("this device has no such product of matrices");
    p.tc = shim_options.other.products && is_other ? shim_options.other : p.tc;
    meet_whole_warp(&own, (void **)lane, where, line);
    if (!own.is_done) {
        for (int l = 0; l < SHIM_LANES; l++) {
            for (int i = 0; i < shim_registers_a(p.form); i++)
                r.a[i][l] = lane[l]->a[i];
            for (int i = 0; i < shim_registers_b(p.form); i++)
                r.b[i][l] = lane[l]->b[i];
            for (int i = 0; i < shim_registers_c(p.form); i++)
                r.c[i][l] = __float_as_uint(lane[l]->d[i]);
        }
        shim_multiply(&p, &r);
        for (int l = 0; l < SHIM_LANES; l++) {
            for (int i = 0; i < shim_registers_c(p.form); i++)
                lane[l]->d[i] = __uint_as_float(r.c[i][l]);
            lane[l]->is_done = 1;
        }
    }
    yield(AT_WARP, where, line);
}

uint32_t shim_low_of(int format, float x)
{
    return rp_low_of((enum rp_tc_format)format, __float_as_uint(x));
}
float shim_low_value(int format, uint32_t bits)
{
    return __uint_as_float(rp_low_value((enum rp_tc_format)format, (uint16_t)bits));
}

void shim_spread(uint32_t *d, const void *row, int matrices, int is_transposed, const char *where, int line)
{
    uint16_t own[8], (*offer[SHIM_LANES])[8], rows[SHIM_LANES][8];
    memcpy(own, row, sizeof own);
    if (capability < 75)
        shim_fault("this device has no ldmatrix");
    meet_whole_warp(&own, (void **)offer, where, line);
    for (int l = 0; l < SHIM_LANES; l++)
        memcpy(rows[l], *offer[l], sizeof rows[l]);
    for (int j = 0; j < matrices; j++)
        d[j] = shim_matrix_register((const uint16_t(*)[8])rows, j, (int)(me->id & 31u), is_transposed);
    yield(AT_WARP, where, line);
}

void shim_trap(void)
{
    shim_fault("the kernel ended itself: it is not made for this architecture");
}

void shim_spin(void)
{
    if (me)
        yield(SPINNING, "", 0);
}

/* ---- asynchronous copies ---- */

static void land(struct copy *c)
{
    for (int i = 0; i < c->bytes && !c->landed; i++)
        c->to[i] = i < c->inside ? c->from[i] : 0;
    c->landed = 1;
}

static void start_copy(void *to, const void *from, int bytes, int inside)
{
    struct copy c = {to, from, bytes, inside, me->group, 0};
    unsigned char *p = to;
    if (inside < 0 || inside > bytes || inside % 2)
        shim_fault("an asynchronous copy takes more bytes than it has, or half a number");
    if (((uintptr_t)to | (uintptr_t)from) & ((size_t)bytes - 1))
        shim_fault("an asynchronous copy is not aligned to its size");
    if (p < now->shared || p + bytes > now->shared + shared_bytes)
        shim_fault("an asynchronous copy writes outside of shared memory");
    if (shim_on_copy)
        shim_on_copy(to, from, (size_t)inside, (size_t)bytes, 0);
    if (!shim_options.late)
        land(&c);
    if (c.landed && !shim_on_copy)
        return;
    if (!c.landed)
        memset(c.to, 0xff, (size_t)bytes); /* NaN in every format */
    if (me->copies == COPIES)
        shim_fault("too many asynchronous copies that nobody waits for");
    if (!me->copy)
        me->copy = malloc(COPIES * sizeof *me->copy);
    me->copy[me->copies++] = c;
}

void rp_copy16(void *to, const void *from)
{
    start_copy(to, from, 16, 16);
}

void rp_copy4(void *to, const void *from)
{
    start_copy(to, from, 4, 4);
}

void rp_copy4_or_zero(void *to, const void *from, int inside)
{
    start_copy(to, from, 4, inside ? 4 : 0);
}

void rp_copy16_or_zero(void *to, const void *from, int inside)
{
    start_copy(to, from, 16, inside ? 16 : 0);
}

void rp_copy16_part(void *to, const void *from, int bytes)
{
    start_copy(to, from, 16, bytes);
}

void rp_copy_commit(void)
{
    me->group++;
}

/* The newest copy lands first: nothing orders two copies to one address. */
void rp_copy_wait(int newest)
{
    int left = 0;
    for (int i = me->copies - 1; i >= 0; i--)
        if (me->copy[i].group < me->group - newest) {
            land(&me->copy[i]);
            if (shim_on_copy)
                shim_on_copy(me->copy[i].to, NULL, 0, (size_t)me->copy[i].bytes, 1);
        }
    for (int i = 0; i < me->copies; i++)
        if (me->copy[i].group >= me->group - newest)
            me->copy[left++] = me->copy[i];
    me->copies = left;
}

/* ---- blocks ---- */

static struct block *place(int i)
{
    if (!resident[i]) {
        resident[i] = calloc(1, sizeof **resident);
        resident[i]->at = i;
        resident[i]->shared = aligned_alloc(128, (SHIM_SHARED_MAX + 127) / 128 * 128);
        resident[i]->stacks = mmap(NULL, SHIM_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!resident[i]->shared || resident[i]->stacks == MAP_FAILED)
            abort();
    }
    return resident[i];
}

/* Shared memory starts as NaN: what nobody wrote shows in the results. */
static void start_block(int at, unsigned number)
{
    struct block *b = place(at);
    b->live = 1;
    b->index = (struct shim_dim){number % gridDim.x, number / gridDim.x % gridDim.y, number / gridDim.x / gridDim.y};
    b->stamp = b->number = ++stamps;
    memset(b->shared, 0xff, shared_bytes);
    memset(b->warp_epoch, 0, sizeof b->warp_epoch);
    for (unsigned i = 0; i < threads; i++) {
        struct fiber *f = &b->fiber[i];
        uintptr_t *top = (uintptr_t *)(void *)(b->stacks + (i + 1) * STACK_BYTES) - 2;
        top[0] = (uintptr_t)entry; /* entered as if it had been called */
        top[1] = 0;
        f->stack_pointer = top - 6;
        f->state = READY;
        f->id = i;
        f->copies = f->group = 0;
    }
}

static void run_fiber(struct block *b, struct fiber *f)
{
    now = b;
    me = f;
    blockIdx = b->index;
    threadIdx =
        (struct shim_dim){f->id % blockDim.x, f->id / blockDim.x % blockDim.y, f->id / (blockDim.x * blockDim.y)};
    shim_now = (struct shim_place){b->shared, shared_bytes, args_bytes, body_args, f->id, b->warp_epoch[f->id / 32],
                                   b->stamp,  b->number,    b->at};
    shim_swap(&scheduler, f->stack_pointer);
    shim_now.shared = NULL;
    me = NULL;
}

/* The warp that begins with thread w goes on if all its live lanes have arrived; 1 if it does. */
static int release_warp(struct block *b, unsigned w)
{
    unsigned end = w + 32 < threads ? w + 32 : threads, waiting = 0, done = 0;
    const struct fiber *first = NULL;
    for (unsigned i = w; i < end; i++) {
        const struct fiber *f = &b->fiber[i];
        done += f->state == DONE;
        waiting += f->state == AT_WARP;
        first = f->state == AT_WARP && !first ? f : first;
        if (f->state == AT_WARP && (f->line != first->line || strcmp(f->where, first->where)))
            fault = "lanes of one warp meet at different places";
    }
    if (!waiting || waiting + done < end - w)
        return 0;
    for (unsigned i = w; i < end; i++)
        if (b->fiber[i].state == AT_WARP)
            b->fiber[i].state = READY;
    b->warp_epoch[w / 32]++;
    return 1;
}

static int release_warps(struct block *b)
{
    int released = 0;
    for (unsigned w = 0; w < threads; w += 32)
        released |= release_warp(b, w);
    return released;
}

static int release_block(struct block *b)
{
    unsigned waiting = 0, done = 0;
    const struct fiber *first = NULL;
    for (unsigned i = 0; i < threads; i++) {
        const struct fiber *f = &b->fiber[i];
        done += f->state == DONE;
        waiting += f->state == AT_BLOCK;
        first = f->state == AT_BLOCK && !first ? f : first;
        if (f->state == AT_BLOCK && (f->line != first->line || strcmp(f->where, first->where)))
            fault = "threads of one block meet at different barriers";
    }
    if (!waiting || waiting + done < threads)
        return 0;
    if (done)
        fault = "some threads of a block returned while others wait at a barrier";
    for (unsigned i = 0; i < threads; i++)
        b->fiber[i].state = b->fiber[i].state == AT_BLOCK ? READY : b->fiber[i].state;
    b->stamp = ++stamps;
    return 1;
}

/* Each of n threads from the first one on that can run does, once. 1 if one did more than look at memory. */
static int run_threads(struct block *b, unsigned first, unsigned n)
{
    static unsigned order[SHIM_THREADS];
    int moved = 0;
    shim_arrange(order, n);
    for (unsigned i = 0; i < n && !fault; i++) {
        struct fiber *f = &b->fiber[first + order[i]];
        if (f->state != READY && f->state != SPINNING)
            continue;
        run_fiber(b, f);
        moved |= f->state != SPINNING;
    }
    return moved;
}

/* Warp by warp, each as far as it gets without the others. */
static int run_ahead(struct block *b)
{
    static unsigned order[SHIM_THREADS / 32];
    unsigned warps = (threads + 31) / 32;
    int moved = 0;
    shim_arrange(order, warps);
    for (unsigned i = 0; i < warps; i++) {
        unsigned w = 32 * order[i], n = threads - w < 32 ? threads - w : 32;
        do
            moved |= run_threads(b, w, n);
        while (release_warp(b, w) && !fault);
    }
    return moved;
}

/* 0: the block could do nothing but look at memory. */
static int turn(struct block *b)
{
    unsigned done = 0;
    int moved = shim_options.ahead ? run_ahead(b) : run_threads(b, 0, threads);
    for (unsigned i = 0; i < threads; i++)
        done += b->fiber[i].state == DONE;
    b->live = done < threads;
    return moved | release_warps(b) | release_block(b) | !b->live;
}

static int any_stuck(const struct block *b)
{
    for (unsigned i = 0; i < threads; i++)
        if (b->fiber[i].state == READY || b->fiber[i].state == SPINNING)
            return 0;
    return 1;
}

static void run_grid(void)
{
    uint32_t blocks, *start = shim_arrange_blocks(gridDim, &blocks), next = 0, finished = 0;
    int places = shim_options.resident, idle = 0;
    for (int i = 0; i < places; i++)
        place(i)->live = 0;
    while (finished < blocks && !fault) {
        int moved = 0;
        for (int i = 0; i < places && !fault; i++) {
            struct block *b = resident[i];
            if (!b->live && next == blocks)
                continue;
            if (!b->live)
                start_block(i, start[next++]);
            moved |= turn(b);
            finished += !b->live;
            if (b->live && any_stuck(b))
                fault = "threads wait for a meeting that cannot happen";
        }
        idle = moved ? 0 : idle + 1;
        if (idle == SPINS)
            fault = "every resident block waits for another one";
    }
    free(start);
}

/* ---- kernels by name ---- */

#define KERNEL(name, args, threads, blocks) void shim_kernel_##name(const void *);
#include "backend/cuda/kernels.def"
#ifdef SHIM_CHECKED
#include "tests/shim/planted.def"
#endif
#undef KERNEL

static const struct {
    const char *name;
    void (*run)(const void *args);
    size_t args;
    unsigned threads;
} kernels[] = {
#define KERNEL(name, args, threads, blocks) {#name, shim_kernel_##name, sizeof(struct args), threads},
#include "backend/cuda/kernels.def"
#ifdef SHIM_CHECKED
#include "tests/shim/planted.def" /* kernels with a fault */
#endif
#undef KERNEL
};
#define KERNELS (sizeof kernels / sizeof *kernels)

/* wgmma is not executed here: its kernels are found where launches are only noted (SHIM_IDLE). */
#define CANNOT(kernel)                                                                                                 \
    void shim_kernel_##kernel(const void *a)                                                                           \
    {                                                                                                                  \
        (void)a;                                                                                                       \
        shim_fault("wgmma cannot be executed here");                                                                   \
    }
#define WGMMA16(name, ...) CANNOT(gemm16_f16_##name) CANNOT(gemm16_bf16_##name)
#include "backend/cuda/gemm16_wgmma.def"
#undef WGMMA16

size_t shim_args_size(const char *kernel)
{
    if (strstr(kernel, "_wgmma") && !getenv("SHIM_IDLE"))
        return 0;
    for (size_t i = 0; i < KERNELS; i++)
        if (!strcmp(kernels[i].name, kernel))
            return kernels[i].args;
    return 0;
}

const char *shim_launch(const char *kernel, struct shim_dim grid, struct shim_dim block, size_t shared,
                        const void *args)
{
    size_t i = 0;
    while (i < KERNELS && strcmp(kernels[i].name, kernel))
        i++;
    if (i == KERNELS)
        return "there is no such kernel";
    fault = shim_refuse_launch(grid, block, kernels[i].threads, shared);
    if (fault)
        return fault;
    gridDim = grid;
    blockDim = block;
    threads = block.x * block.y * block.z;
    shared_bytes = shared;
    shim_random_state = shim_options.seed;
    body = kernels[i].run;
    body_args = args;
    capability = shim_capability();
    is_other = !shim_options.other_in || strncmp(kernel, shim_options.other_in, strlen(shim_options.other_in)) == 0;
    args_bytes = kernels[i].args;
    run_grid();
    return fault;
}

/* Its code is not looked at: the kernels' sources are executed. */
const char *shim_module(const void *image)
{
    return memcmp(image, "\177ELF", 4) == 0 || memcmp(image, "//", 2) == 0
               ? NULL
               : "a module that is neither machine code nor PTX";
}
