/* mbarrier objects in shared memory: phases that complete when all arrivals and all bytes of copies are there, and what
 * they order.
 *
 * What:    of each object the phase, the arrivals that are missing and the bytes that are missing. Its 8 bytes in
 *          shared memory contain a mark of that state, so that whatever overwrites them is found.
 * Flow:    init -> arrive (with the bytes to expect) and complete -> the next phase; a wait looks whether a phase is
 *          complete, and the executor lets others run where it is not.
 * Found:   an object that was not initialised, was initialised twice, was overwritten, or whose initialisation nothing
 *          orders before its use; more arrivals than it counts; a wait that misses a whole phase; a wait that never
 *          ends, with what is missing (simt_barriers_stuck).
 * Order:   with races every thread knows up to which time it has seen each other one. Times are those of the block:
 *          each arrival is another one. An arrival releases what its thread did and knows; a wait that ends acquires
 *          what the arrivals of that phase released. Lanes that meet at a barrier of their warp know the same.
 */
#include "tests/simt/simt.h"

#include <stdlib.h>
#include <string.h>

#define MOST 32 /* objects of a block */
#define COUNT_MOST ((1u << 20) - 1)

struct object {
    u32 at, count, phase,
        missing;                /* address; arrivals of a phase; phases that are complete; arrivals that are missing */
    s64 bytes;                  /* that are missing */
    u32 thread, epoch, proxies; /* which initialised it, and when */
    u32 *gathered,
        *released; /* of each thread: time up to which the arrivals of this phase and the last one have seen it */
    u32 *waited;   /* of each thread: phases of which it knows that they are complete */
};

struct simt_barriers {
    struct object object[MOST];
    int n;
    u32 time;
    u32 *known; /* [thread][other thread]: time up to which the first has seen the second */
};

static u32 threads_of(void)
{
    return simt_launch.threads;
}

static u32 *zeros(u32 *p, size_t n)
{
    return memset(simt_grow(p, n * sizeof *p), 0, n * sizeof *p);
}

void simt_barriers_begin(struct simt_block *b)
{
    if (!b->objects)
        b->objects = memset(simt_grow(NULL, sizeof *b->objects), 0, sizeof *b->objects);
    b->objects->n = 0;
    b->objects->time = 1;
    if (simt_launch.races)
        b->objects->known = zeros(b->objects->known, (size_t)threads_of() * threads_of());
}

/* ---- order ---- */

static void learn(u32 *to, const u32 *from)
{
    const u32 n = threads_of();
    for (u32 i = 0; i < n; i++)
        to[i] = to[i] > from[i] ? to[i] : from[i];
}

static u32 *known_to(const struct simt_block *b, u32 thread)
{
    return b->objects->known + (size_t)thread * threads_of();
}

u32 simt_barriers_time(const struct simt_block *b)
{
    return b->objects->time;
}

int simt_barriers_order(const struct simt_block *b, u32 before, u32 time, u32 after)
{
    return before == after || known_to(b, after)[before] > time;
}

void simt_barriers_join(const struct simt_warp *w, u32 m)
{
    static u32 all[SHIM_THREADS];
    if (!w->kernel->has_barriers || !simt_launch.races)
        return;
    const u32 time = ++w->block->objects->time;
    memset(all, 0, sizeof all);
    EACH_LANE(m)
    {
        learn(all, known_to(w->block, w->first + lane));
        all[w->first + lane] = time;
    }
    EACH_LANE(m)
    memcpy(known_to(w->block, w->first + lane), all, threads_of() * sizeof *all);
}

/* ---- objects ---- */

static u64 mark_of(const struct object *o)
{
    const u64 state = (u64)o->phase << 32 | o->missing;
    return ((state ^ (u64)o->bytes << 20 ^ o->at) * 0x9e3779b97f4a7c15u) | 1;
}

static u8 *bytes_of(const struct simt_warp *w, u32 pc, u32 lane, u64 address)
{
    const u64 at = address - simt_shared_base;
    if (address % 8 || at + 8 > w->block->shared_bytes)
        simt_fault(w, pc, (int)lane,
                   "has a barrier at %#llx of shared memory of %u, which is not aligned or outside of it",
                   (unsigned long long)address, w->block->shared_bytes);
    return w->block->shared + at;
}

static void set_mark(const struct simt_warp *w, u32 pc, u32 lane, const struct object *o)
{
    const u64 mark = mark_of(o);
    memcpy(bytes_of(w, pc, lane, o->at), &mark, sizeof mark);
}

static struct object *find(const struct simt_warp *w, u64 address)
{
    struct simt_barriers *s = w->block->objects;
    for (int i = 0; i < s->n; i++)
        if (s->object[i].at == address)
            return &s->object[i];
    return NULL;
}

static struct object *object_at(const struct simt_warp *w, u32 pc, u32 lane, u64 address)
{
    u64 mark;
    struct object *o = find(w, address);
    memcpy(&mark, bytes_of(w, pc, lane, address), sizeof mark);
    if (!o)
        simt_fault(w, pc, (int)lane, "the barrier at %#llx of shared memory is not initialised",
                   (unsigned long long)address);
    if (mark != mark_of(o))
        simt_fault(w, pc, (int)lane, "the barrier at %#x of shared memory was overwritten", o->at);
    if (o->thread != w->first + lane && o->epoch == w->block->epoch)
        simt_fault(w, pc, (int)lane,
                   "thread %u initialised the barrier at %#x of shared memory, and nothing orders that before",
                   o->thread, o->at);
    return o;
}

void simt_barrier_init(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 count)
{
    struct simt_barriers *s = w->block->objects;
    bytes_of(w, pc, lane, address);
    if (find(w, address))
        simt_fault(w, pc, (int)lane, "the barrier at %#llx of shared memory is initialised a second time",
                   (unsigned long long)address);
    if (!count || count > COUNT_MOST || s->n == MOST)
        simt_fault(w, pc, (int)lane, "a barrier of %u arrivals, or more than %d barriers", count, MOST);
    struct object *o = &s->object[s->n++], was = *o;
    *o = (struct object){.at = (u32)address,
                         .count = count,
                         .missing = count,
                         .thread = w->first + lane,
                         .epoch = w->block->epoch,
                         .proxies = w->proxies[lane],
                         .waited = zeros(was.waited, threads_of()),
                         .gathered = was.gathered,
                         .released = was.released};
    if (simt_launch.races) {
        o->gathered = zeros(was.gathered, threads_of());
        o->released = zeros(was.released, threads_of());
    }
    set_mark(w, pc, lane, o);
}

static void end_phase(const struct simt_warp *w, u32 pc, u32 lane, struct object *o)
{
    if (!o->missing && !o->bytes) {
        o->phase++;
        o->missing = o->count;
        if (simt_launch.races)
            memcpy(o->released, o->gathered, threads_of() * sizeof *o->released);
    }
    set_mark(w, pc, lane, o);
}

static void release(const struct simt_warp *w, u32 lane, struct object *o)
{
    const u32 me = w->first + lane;
    if (!simt_launch.races)
        return;
    learn(o->gathered, known_to(w->block, me));
    o->gathered[me] = ++w->block->objects->time;
}

void simt_barrier_arrive(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes)
{
    struct object *o = object_at(w, pc, lane, address);
    if (!o->missing)
        simt_fault(w, pc, (int)lane, "more than %u threads arrive in phase %u of the barrier at %#x of shared memory",
                   o->count, o->phase, o->at);
    o->bytes += bytes;
    o->missing--;
    release(w, lane, o);
    end_phase(w, pc, lane, o);
}

void simt_barrier_complete(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes)
{
    struct object *o = object_at(w, pc, lane, address);
    o->bytes -= bytes;
    if (!o->missing && o->bytes < 0)
        simt_fault(w, pc, (int)lane, "copies more bytes than phase %u of the barrier at %#x of shared memory expects",
                   o->phase, o->at);
    release(w, lane, o);
    end_phase(w, pc, lane, o);
}

int simt_barrier_is_complete(struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 parity)
{
    struct object *o = object_at(w, pc, lane, address);
    const u32 me = w->first + lane;
    if (parity > 1)
        simt_fault(w, pc, (int)lane, "waits for a phase of parity %u", parity);
    if (o->phase >= o->waited[me] + 2)
        simt_fault(w, pc, (int)lane,
                   "waits for a phase of the barrier at %#x of shared memory: %u are complete, and this thread has "
                   "waited for %u",
                   o->at, o->phase, o->waited[me]);
    w->waits_at = (o->phase & 1) == parity ? (u32)address : 0;
    w->waits_pc = pc;
    if (w->waits_at)
        return 0;
    o->waited[me] = o->phase;
    if (simt_launch.races)
        learn(known_to(w->block, me), o->released);
    return 1;
}

void simt_barrier_check_proxy(const struct simt_warp *w, u32 pc, u32 lane, u64 address)
{
    const struct object *o = object_at(w, pc, lane, address);
    if (w->block->warp[o->thread / LANES].proxies[o->thread % LANES] == o->proxies)
        simt_fault(w, pc, (int)lane,
                   "completes the barrier at %#x, which thread %u initialised without a fence of proxies after it",
                   o->at, o->thread);
}

void simt_barriers_stuck(const struct simt_block *b)
{
    for (int k = 0; b->is_live && k < b->warps; k++) {
        const struct simt_warp *w = &b->warp[k];
        const struct object *o = w->groups && w->waits_at ? find(w, w->waits_at) : NULL;
        if (o)
            simt_fault(w, w->waits_pc, -1,
                       "waits for ever for phase %u of the barrier at %#x of shared memory: %u of %u arrivals and %lld "
                       "bytes are missing",
                       o->phase, o->at, o->missing, o->count, (long long)o->bytes);
    }
}
