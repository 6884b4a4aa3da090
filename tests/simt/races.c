/* Accesses that nothing orders, whether or not the order that was run shows it.
 *
 * Shared memory: two threads touch a word, one of them writes, and between the two is neither a barrier of the block
 * nor, within one warp, one of the warp (a shuffle orders no memory), nor an mbarrier that orders them (barriers.c). Of
 * each word the last write and the last readers are kept; where a kernel has mbarriers, the last reader of each warp,
 * with the time. Global memory: the same for all threads of a launch. Blocks are ordered by release and acquire: a
 * block has seen what another did before its barrier n if one of its threads acquired, before this block's last
 * barrier, what a thread of the other released after that barrier, directly or through a third block. A relaxed load or
 * atomic that returns what was released acquires it at the thread's next fence. A fence before a relaxed store is not
 * taken for a release. Atomics, relaxed accesses, acquires and releases of one word need no order among themselves; a
 * plain access and one of them do. Of the atomics on a word the last one and the last one of another block are kept.
 */
#include "tests/simt/simt.h"

#include <stdlib.h>
#include <string.h>

static u8 bytes_touched(u64 at, u32 bytes)
{
    return (u8)(bytes >= 4 ? 15 : ((1u << bytes) - 1) << (at & 3));
}

/* ---- shared memory ---- */

struct shared_word {
    u32 write_epoch, write_warp_epoch, read_epoch, read_warp_epoch;
    u16 writer, reader;
    u8 written, read;           /* bytes */
    u8 more_readers, more_warps; /* other threads of the warp, other warps have read it */
    u32 write_time;              /* of the mbarriers */
};

/* Where a kernel has mbarriers: of a word, of each warp that has read it after the last write, the time of the last
 * time, and the lane. */
#define EVERY_LANE LANES /* more than one of the warp */
#define READ_AT(time, lane) ((time) << 6 | (lane))
struct readers {
    u32 epoch;
    u32 at[SHIM_THREADS / LANES];
};

/* One word after another takes what the warps of this kernel need. */
static struct readers *readers_of(const struct simt_block *b, u32 word)
{
    static u32 *words[SHIM_RESIDENT];
    static int warps[SHIM_RESIDENT];
    u32 **of = &words[b->place];
    if (warps[b->place] < b->warps) {
        free(*of);
        *of = calloc(SHIM_SHARED_MAX / 4 + 4, (1 + (size_t)b->warps) * sizeof **of); /* most of it is never touched */
        if (!*of)
            abort();
        warps[b->place] = b->warps;
    }
    struct readers *x = (void *)(*of + word * (1 + (size_t)warps[b->place]));
    if (x->epoch != b->epoch) {
        x->epoch = b->epoch;
        memset(x->at, 0, (size_t)b->warps * sizeof *x->at);
    }
    return x;
}

static void note_reader(const struct simt_block *b, u32 me, u32 word)
{
    u32 *const at = &readers_of(b, word)->at[me / LANES];
    *at = READ_AT(simt_barriers_time(b), !*at || *at % 64 == me % LANES ? me % LANES : EVERY_LANE);
}

/* A reader of the word that nothing orders before `me`, which writes it; -1: none. */
static s32 unordered_reader(const struct simt_block *b, u32 me, u32 word)
{
    struct readers *x = readers_of(b, word);
    for (u32 k = 0; k < (u32)b->warps; k++) {
        const u32 at = x->at[k], all = at % 64 == EVERY_LANE, first = LANES * k + (all ? 0 : at % 64);
        for (u32 reader = first; at && reader < first + (all ? LANES : 1); reader++)
            if (!simt_barriers_order(b, reader, at / 64, me))
                return (s32)reader;
        x->at[k] = 0;
    }
    return -1;
}

const char *simt_race_shared(const struct simt_warp *w, u32 lane, u32 at, u32 bytes, enum simt_access kind, u32 *other)
{
    static struct shared_word *words[SHIM_RESIDENT];
    const struct simt_block *b = w->block;
    const u32 me = w->first + lane;
    const int has_barriers = w->kernel->has_barriers;
    struct shared_word **of = &words[b->place];
    if (!*of)
        *of = memset(simt_grow(NULL, (SHIM_SHARED_MAX / 4 + 4) * sizeof **of), 0,
                     (SHIM_SHARED_MAX / 4 + 4) * sizeof **of);
    for (u32 done = 0; done < bytes; done += 4) {
        struct shared_word *x = &(*of)[(at + done) / 4];
        u8 touched = bytes_touched(at, bytes);
        int same_warp = x->writer / LANES == me / LANES;
        if (x->write_epoch == b->epoch && x->writer != me && (x->written & touched) &&
            (!same_warp || x->write_warp_epoch == w->epoch) &&
            !(has_barriers && simt_barriers_order(b, x->writer, x->write_time, me))) {
            *other = x->writer;
            return "which another thread writes, and nothing orders them";
        }
        same_warp = x->reader / LANES == me / LANES;
        if (kind == READ && has_barriers) {
            note_reader(b, me, (at + done) / 4);
            continue;
        }
        if (kind == READ) {
            if (x->read_epoch != b->epoch) {
                x->more_readers = x->more_warps = x->read = 0;
            } else {
                x->more_warps |= !same_warp;
                x->more_readers |= x->reader != me && same_warp && x->read_warp_epoch == w->epoch;
            }
            x->read_epoch = b->epoch;
            x->read_warp_epoch = w->epoch;
            x->reader = (u16)me;
            x->read |= touched;
            continue;
        }
        const s32 reader = has_barriers ? unordered_reader(b, me, (at + done) / 4) : -1;
        if (reader >= 0) {
            *other = (u32)reader;
            return "which another thread reads, and nothing orders them";
        }
        if (!has_barriers && x->read_epoch == b->epoch && (x->read & touched) &&
            (x->more_warps || !same_warp || ((x->more_readers || x->reader != me) && x->read_warp_epoch == w->epoch))) {
            *other = x->reader;
            return "which another thread reads, and nothing orders them";
        }
        x->write_epoch = b->epoch;
        x->write_warp_epoch = w->epoch;
        x->write_time = has_barriers ? simt_barriers_time(b) : 0;
        x->writer = (u16)me;
        x->written = touched;
    }
    return NULL;
}

/* ---- global memory ---- */

struct global_access {
    u32 block;              /* + 1; 0: none */
    u32 barriers, epoch;    /* of the block and the warp, then */
    u16 thread;
    u8 bytes;
};
struct global_word {
    /* other_atomic: the last one of another block than the last */
    struct global_access write, read, atomic, other_atomic;
    u8 nc_read, nc_written;
};
#define PAGE_WORDS 1024
struct page {
    u64 number; /* of 4 KiB, + 1 */
    u32 launch;
    struct global_word *word;
};
static struct page *pages;
static size_t pages_used, pages_room;
static u32 launch;

static struct page *find_page(u64 number)
{
    size_t i = (size_t)(number * 0x9e3779b97f4a7c15u >> 32) & (pages_room - 1);
    while (pages[i].number && pages[i].number != number)
        i = (i + 1) & (pages_room - 1);
    return &pages[i];
}

static void grow_pages(void)
{
    struct page *old = pages;
    size_t n = pages_room;
    pages_room = n ? 2 * n : 1 << 12;
    pages = memset(simt_grow(NULL, pages_room * sizeof *pages), 0, pages_room * sizeof *pages);
    for (size_t i = 0; i < n; i++)
        if (old[i].number)
            *find_page(old[i].number) = old[i];
    free(old);
}

static struct global_word *global_word(u64 address)
{
    static struct page *last;
    u64 number = (address >> 12) + 1;
    if (2 * pages_used >= pages_room) {
        grow_pages();
        last = NULL;
    }
    if (!last || last->number != number)
        last = find_page(number);
    if (!last->number) {
        *last = (struct page){.number = number, .word = simt_grow(NULL, PAGE_WORDS * sizeof *last->word)};
        pages_used++;
    }
    if (last->launch != launch) {
        last->launch = launch;
        memset(last->word, 0, PAGE_WORDS * sizeof *last->word);
    }
    return &last->word[(address & 4095) / 4];
}

void simt_races_begin(void)
{
    launch++;
}

static void see(struct simt_seen *s, u32 block, u32 barriers)
{
    for (int i = 0; i < s->n; i++)
        if (s->of[i].block == block) {
            s->of[i].barriers = barriers > s->of[i].barriers ? barriers : s->of[i].barriers;
            return;
        }
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 8;
        s->of = simt_grow(s->of, (size_t)s->room * sizeof *s->of);
    }
    s->of[s->n++] = (struct simt_seen_of){block, barriers};
}

static void see_all(struct simt_seen *to, const struct simt_seen *from)
{
    for (int i = 0; i < from->n; i++)
        see(to, from->of[i].block, from->of[i].barriers);
}

void simt_races_barrier(struct simt_block *b)
{
    see_all(&b->seen, &b->soon);
    b->soon.n = 0;
    b->barriers++;
}

/* A word through which blocks are ordered: what the last release to it had seen. */
static struct flag {
    u64 address;
    u32 launch;
    struct simt_seen seen;
} *flags;
static int n_flags;

/* What thread `me` has observed and not acquired. */
static struct simt_seen *observed_by(struct simt_block *b, u32 me)
{
    int i = 0;
    while (i < b->observers && b->observer[i].thread != me)
        i++;
    if (i == b->observers_room) {
        b->observer = simt_grow(b->observer, (size_t)(i + 1) * sizeof *b->observer);
        b->observer[b->observers_room++] = (struct simt_observer){.thread = me};
    }
    if (i == b->observers) { /* the list of an earlier block is reused */
        b->observer[b->observers++].thread = me;
        b->observer[i].seen.n = 0;
    }
    return &b->observer[i].seen;
}

static void order_blocks(struct simt_block *b, u32 me, u64 address, enum simt_access kind)
{
    int i = 0;
    while (i < n_flags && flags[i].address != address)
        i++;
    if (i == n_flags && kind == OBSERVE)
        return;
    if (i == n_flags) {
        flags = simt_grow(flags, (size_t)(n_flags + 1) * sizeof *flags);
        flags[n_flags++] = (struct flag){.address = address};
    }
    if (kind == RELEASE) {
        flags[i].launch = launch;
        flags[i].seen.n = 0;
        see_all(&flags[i].seen, &b->seen);
        see(&flags[i].seen, b->number, b->barriers);
    } else if (flags[i].launch == launch) {
        see_all(kind == ACQUIRE ? &b->soon : observed_by(b, me), &flags[i].seen);
    }
}

void simt_races_fence(const struct simt_warp *w, u32 m)
{
    struct simt_block *b = w->block;
    for (int i = 0; i < b->observers; i++) {
        const u32 thread = b->observer[i].thread;
        if (thread / LANES == w->first / LANES && (m >> thread % LANES & 1))
            see_all(&b->soon, &b->observer[i].seen);
    }
}

static int is_ordered(const struct simt_warp *w, u32 me, const struct global_access *x)
{
    const struct simt_block *b = w->block;
    if (x->block == b->number + 1)
        return x->thread == me || x->barriers < b->barriers || (x->thread / LANES == me / LANES && x->epoch < w->epoch);
    for (int i = 0; i < b->seen.n; i++)
        if (b->seen.of[i].block + 1 == x->block)
            return b->seen.of[i].barriers > x->barriers;
    return 0;
}

static int is_race(const struct simt_warp *w, u32 me, const struct global_access *before, u8 bytes, u32 *other)
{
    if (!before->block || !(before->bytes & bytes) || is_ordered(w, me, before))
        return 0;
    *other = before->block - 1;
    return 1;
}

const char *simt_race_global(const struct simt_warp *w, u32 lane, u64 address, u32 bytes, enum simt_access kind,
                             u32 *other)
{
    struct simt_block *b = w->block;
    const u32 me = w->first + lane;
    int is_plain = kind == READ || kind == WRITE;
    if (kind == ACQUIRE || kind == RELEASE || kind == OBSERVE)
        order_blocks(b, me, address, kind);
    for (u64 a = address & ~3ull; a < address + bytes; a += 4) {
        struct global_word *x = global_word(a);
        struct global_access now = {b->number + 1, b->barriers, w->epoch, (u16)me, bytes_touched(address, bytes)};
        if (is_race(w, me, &x->write, now.bytes, other))
            return "which another thread writes, and nothing orders them";
        if (is_plain &&
            (is_race(w, me, &x->atomic, now.bytes, other) || is_race(w, me, &x->other_atomic, now.bytes, other)))
            return "which another thread changes atomically, and nothing orders them";
        if (kind != READ && is_race(w, me, &x->read, now.bytes, other))
            return "which another thread reads, and nothing orders them";
        if (!is_plain && x->atomic.block != now.block)
            x->other_atomic = x->atomic;
        *(kind == READ ? &x->read : kind == WRITE ? &x->write : &x->atomic) = now;
    }
    return NULL;
}

const char *simt_race_nc(u64 address, u32 bytes, int is_nc, int is_write)
{
    for (u64 a = address & ~3ull; (is_nc || is_write) && a < address + bytes; a += 4) {
        struct global_word *x = global_word(a);
        x->nc_read |= is_nc != 0;
        x->nc_written |= is_write != 0;
        if (x->nc_read && x->nc_written)
            return "which this launch both writes and reads through ld.global.nc";
    }
    return NULL;
}
