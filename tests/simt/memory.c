/* Every access to memory: aligned, in its address space, within what the kernel may touch, ordered.
 *
 * An asynchronous copy lands as late as it may, at the wait that covers it (SHIM_LATE=0: at once); NaN is there until
 * then.
 */
#include "tests/simt/simt.h"

u32 simt_shared_base = 1024;

void *simt_global_at(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, const char *verb)
{
    static struct {
        uintptr_t begin, end;
        u32 generation;
    } last[64]; /* mostly an instruction goes to the same block of memory again */
    if (address & (bytes - 1))
        simt_fault(w, pc, (int)lane, "%s %u bytes at %#llx, which is not aligned", verb, bytes,
                   (unsigned long long)address);
    if (last[pc & 63].generation != shim_generation || address < last[pc & 63].begin ||
        address + bytes > last[pc & 63].end) {
        last[pc & 63].generation = shim_generation;
        if (!shim_range(address, &last[pc & 63].begin, &last[pc & 63].end) || address + bytes > last[pc & 63].end) {
            last[pc & 63].generation = 0;
            if (simt_launch.strict || address < 65536 || address >> 47)
                simt_fault(w, pc, (int)lane, "%s %u bytes at %#llx, outside of all memory of the GPU", verb, bytes,
                           (unsigned long long)address);
        }
    }
    return (void *)(uintptr_t)address; /* NOLINT */
}

static struct simt_unfenced *unfenced(struct simt_block *b, u32 at)
{
    if (!b->unfenced) {
        const size_t bytes = (SHIM_SHARED_MAX / 4 + 4) * sizeof *b->unfenced;
        b->unfenced = memset(simt_grow(NULL, bytes), 0, bytes);
    }
    return &b->unfenced[at / 4];
}

/* Whether the thread that wrote the word last as the generic proxy has fenced it since. */
static void check_fenced(const struct simt_warp *w, u32 pc, u32 lane, u32 at, const char *verb)
{
    const struct simt_unfenced *x = unfenced(w->block, at);
    const u32 thread = x->writer - 1;
    if (x->writer && w->block->warp[thread / LANES].proxies[thread % LANES] == x->fences)
        simt_fault(w, pc, (int)lane,
                   "%s byte %u of shared memory, which thread %u wrote without a fence of proxies after it", verb, at,
                   thread);
}

void *simt_shared_at(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, enum simt_access kind,
                     const char *verb)
{
    u64 at = address - simt_shared_base;
    u32 other = 0;
    if (address & (bytes - 1))
        simt_fault(w, pc, (int)lane, "%s %u bytes at %#llx of shared memory, which is not aligned", verb, bytes,
                   (unsigned long long)address);
    if (at >= w->block->shared_bytes || at + bytes > w->block->shared_bytes)
        simt_fault(w, pc, (int)lane, "%s %u bytes at %lld of shared memory of %u", verb, bytes, (long long)at,
                   w->block->shared_bytes);
    const char *race = simt_launch.races ? simt_race_shared(w, lane, (u32)at, bytes, kind, &other) : NULL;
    if (race)
        simt_fault(w, pc, (int)lane, "%s byte %lld of shared memory, %s (thread %u)", verb, (long long)at, race, other);
    for (u32 done = 0; simt_launch.kernel->has_proxies && kind != READ && done < bytes; done += 4) {
        if (kind == BY_PROXY)
            check_fenced(w, pc, lane, (u32)at + done, verb);
        *unfenced(w->block, (u32)at + done) =
            (struct simt_unfenced){kind == BY_PROXY ? 0 : w->first + lane + 1, w->proxies[lane]};
    }
    return w->block->shared + at;
}

void *simt_shared_by_proxy(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes)
{
    u8 *const p = simt_shared_at(w, pc, lane, address, bytes, READ, "reads");
    for (u32 done = 0; done < bytes; done += 4)
        check_fenced(w, pc, lane, (u32)(p - w->block->shared) + done, "reads");
    return p;
}

void simt_check_order(const struct simt_warp *w, u32 pc, u32 lane, u64 address, u32 bytes, enum simt_access kind,
                      const char *verb)
{
    u32 other = 0;
    const char *race = simt_launch.races ? simt_race_global(w, lane, address, bytes, kind, &other) : NULL;
    if (race)
        simt_fault(w, pc, (int)lane, "%s %u bytes at %#llx, %s (block %u of the grid)", verb, bytes,
                   (unsigned long long)address, race, other);
}

/* ---- asynchronous copies ---- */

static void land(const struct simt_warp *w, const struct simt_copy *c, u32 m)
{
    EACH_LANE(m)
    {
        u8 *to = simt_shared_at(w, c->pc, lane, c->to[lane], c->bytes, LAND, "copies to");
        memset(to, 0, c->bytes);
        if (c->inside[lane])
            memcpy(to, (const void *)(uintptr_t)c->from[lane], c->inside[lane]); /* NOLINT */
    }
}

struct simt_copy *simt_new_copy(struct simt_warp *w, u32 pc, u32 m, u32 bytes)
{
    if (w->copies == w->copies_room) {
        w->copies_room = w->copies_room ? 2 * w->copies_room : 64;
        w->copy = simt_grow(w->copy, (size_t)w->copies_room * sizeof *w->copy);
    }
    struct simt_copy *c = &w->copy[w->copies];
    c->mask = m;
    c->pc = pc;
    c->bytes = bytes;
    return c;
}

void simt_copy_start(struct simt_warp *w, struct simt_copy *c)
{
    EACH_LANE(c->mask)
    {
        u32 inside = c->inside[lane];
        u64 from = c->from[lane];
        c->group[lane] = w->committed[lane];
        if (inside > c->bytes)
            simt_fault(w, c->pc, (int)lane, "copies %u bytes of %u", inside, c->bytes);
        if (from & (c->bytes - 1))
            simt_fault(w, c->pc, (int)lane, "copies %u bytes from %#llx, which is not aligned", c->bytes,
                       (unsigned long long)from);
        for (u32 done = 0; done < inside; done += 4)
            simt_global_at(w, c->pc, lane, from + done, inside - done < 4 ? 2 : 4, "copies from");
        if (inside)
            simt_check_order(w, c->pc, lane, from, inside, READ, "copies from");
        memset(simt_shared_at(w, c->pc, lane, c->to[lane], c->bytes, WRITE, "copies to"), 0xff, c->bytes);
    }
    if (shim_options.late)
        w->copies++;
    else
        land(w, c, c->mask);
}

/* The newest copy lands first: nothing orders two copies to one address. */
void simt_copy_wait(struct simt_warp *w, u32 m, s64 newest)
{
    int left = 0;
    for (int k = w->copies - 1; k >= 0; k--) {
        struct simt_copy *c = &w->copy[k];
        u32 now = 0;
        EACH_LANE(c->mask & m)
        now |= (u32)(newest < 0 || c->group[lane] + (u64)newest < w->committed[lane]) << lane;
        land(w, c, now);
        c->mask &= ~now;
    }
    for (int k = 0; k < w->copies; k++)
        if (w->copy[k].mask)
            w->copy[left++] = w->copy[k];
    w->copies = left;
}
