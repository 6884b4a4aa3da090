/* Every access of device code to memory, looked at. Only in BUILD/shim/checked: there the device code is compiled with
 * gcc's -fsanitize=thread, which puts a call before each access; its library is not linked, these functions stand in
 * for it.
 *
 * Shared memory: an access outside of the block's is a fault, and so are two accesses to one word by different threads,
 * at least one of which writes, with nothing between that orders them: a barrier, or a meeting of their warp if they
 * are in the same one. Whether a thread order of the shim happens to show the race does not matter. An asynchronous
 * copy owns what it writes until it was waited for. Global memory: with shim_options.strict every address has to be in
 * a block of the driver.
 *
 * For each word the last write is kept, and three reads: the last one, the one before by another lane of its warp, and
 * the last one of another warp. If any read is not ordered before a write, one of these three is not. Parts of a word
 * that different threads write are no race, and are not told from races exactly: only the last one's bytes are known.
 */
#include "tests/shim/run.h"

#include <stdio.h>

#define WORDS (SHIM_SHARED_MAX / 4)
#define STACK ((uintptr_t)128 << 10)

struct access {
    uint32_t stamp, warp_epoch; /* stamp 0: none */
    uint16_t thread;
    uint8_t bytes, atomic; /* which of the word */
};

struct word {
    struct access write, read, mate, stranger;
    uint32_t copied_by, copying; /* the thread, and the block: 0 or another block's: no copy is under way */
};
static struct word words[SHIM_RESIDENT][WORDS];

enum { READ, WRITE, ATOMIC };
static const char *const verbs[] = {"reads", "writes", "changes"};

/* of this library */
extern char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

/* what: after the address; other: the thread it names, or -1 */
static __attribute__((noreturn)) void fault(const char *what, int other, int kind, const void *at, const void *caller)
{
    static char text[256];
    size_t in_shared = (size_t)((const unsigned char *)at - shim_now.shared);
    char place[48], who[24];
    snprintf(place, sizeof place, in_shared < SHIM_SHARED_MAX ? "byte %zu of shared memory" : "memory", in_shared);
    snprintf(who, sizeof who, other < 0 ? "" : " (thread %d)", other);
    snprintf(text, sizeof text, "thread %u %s %s%s%s, at +%#zx", shim_now.thread, verbs[kind], place, what, who,
             (size_t)((const char *)caller - __ehdr_start));
    shim_fault(text);
    __builtin_unreachable();
}

/* Whether nothing orders `earlier` before this thread's access to these bytes now. */
static int unordered(const struct access *earlier, unsigned bytes)
{
    if (earlier->stamp != shim_now.stamp || earlier->thread == shim_now.thread || !(earlier->bytes & bytes))
        return 0;
    return earlier->thread / 32 != shim_now.thread / 32 || earlier->warp_epoch == shim_now.warp_epoch;
}

static void note_read(struct word *w, const struct access *now)
{
    if (w->read.stamp != now->stamp)
        w->mate.stamp = w->stranger.stamp = 0;
    else if (w->read.thread / 32 != now->thread / 32) {
        w->stranger = w->read;
        w->mate.stamp = 0;
    } else if (w->read.thread != now->thread)
        w->mate = w->read;
    w->read = *now;
}

static void look_at_word(const unsigned char *at, unsigned bytes, int kind, const void *caller)
{
    struct word *w = &words[shim_now.resident][(size_t)(at - shim_now.shared) / 4];
    struct access now = {shim_now.stamp, shim_now.warp_epoch, (uint16_t)shim_now.thread, (uint8_t)bytes,
                         kind == ATOMIC};
    if (w->copying == shim_now.block)
        fault(", where an asynchronous copy is under way", (int)w->copied_by, kind, at, caller);
    if (unordered(&w->write, bytes) && !(now.atomic && w->write.atomic))
        fault(", which is written by another and nothing orders them", w->write.thread, kind, at, caller);
    if (kind == READ) {
        note_read(w, &now);
        return;
    }
    const struct access *reads[] = {&w->read, &w->mate, &w->stranger};
    for (int i = 0; i < 3; i++)
        if (unordered(reads[i], bytes))
            fault(", which is read by another and nothing orders them", reads[i]->thread, kind, at, caller);
    w->write = now;
}

static void look(const void *address, size_t bytes, int kind, const void *caller)
{
    const unsigned char *at = address;
    size_t in_shared = (size_t)(at - shim_now.shared);
    if (!shim_now.shared)
        return;
    if (in_shared < SHIM_SHARED_MAX) {
        if (in_shared + bytes > shim_now.shared_bytes)
            fault(", which is more than the block has", -1, kind, at, caller);
        for (size_t done = 0; done < bytes;) {
            size_t first = (size_t)(at + done - shim_now.shared) & 3,
                   n = 4 - first < bytes - done ? 4 - first : bytes - done;
            look_at_word(at + done, ((1u << n) - 1) << first, kind, caller);
            done += n;
        }
        return;
    }
    if (!shim_options.strict || shim_where(at, bytes) != SHIM_ELSEWHERE ||
        (address >= (void *)__ehdr_start && address < (void *)_end) ||
        (size_t)(at - (const unsigned char *)shim_now.args) < shim_now.args_bytes)
        return;
    fault(" outside of every block of the driver", -1, kind, at, caller);
}

static void look_at_copy(const void *to, const void *from, size_t inside, size_t bytes, int landed)
{
    const void *caller = __builtin_return_address(0);
    struct word *w = &words[shim_now.resident][(size_t)((const unsigned char *)to - shim_now.shared) / 4];
    for (size_t i = 0; i < bytes / 4 && landed; i++)
        w[i].copying = 0;
    if (inside)
        look(from, inside, READ, caller);
    look(to, bytes, WRITE, caller);
    for (size_t i = 0; i < bytes / 4 && !landed; i++) {
        w[i].copying = shim_now.block;
        w[i].copied_by = shim_now.thread;
    }
}

__attribute__((constructor)) static void listen(void)
{
    shim_on_copy = look_at_copy;
    shim_options.checked = 1;
}

/* ---- what gcc calls ---- */

#define CALLER __builtin_return_address(0)
/* what would be registers: most of all accesses */
#define IN_STACK(at) ((uintptr_t)(at) - (uintptr_t)__builtin_frame_address(0) < STACK)
#define ACCESS(name, bytes, kind)                                                                                      \
    void name(void *at);                                                                                               \
    void name(void *at)                                                                                                \
    {                                                                                                                  \
        if (!IN_STACK(at))                                                                                             \
            look(at, bytes, kind, CALLER);                                                                             \
    }
#define SIZE(bytes)                                                                                                    \
    ACCESS(__tsan_read##bytes, bytes, READ)                                                                            \
    ACCESS(__tsan_write##bytes, bytes, WRITE)                                                                          \
    ACCESS(__tsan_unaligned_read##bytes, bytes, READ)                                                                  \
    ACCESS(__tsan_unaligned_write##bytes, bytes, WRITE)
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

void __tsan_read_range(void *at, long bytes);
void __tsan_write_range(void *at, long bytes);
void __tsan_read_range(void *at, long bytes)
{
    if (!IN_STACK(at))
        look(at, (size_t)bytes, READ, CALLER);
}
void __tsan_write_range(void *at, long bytes)
{
    if (!IN_STACK(at))
        look(at, (size_t)bytes, WRITE, CALLER);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

/* Atomics are calls instead of instructions. */
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
}
#define ATOMICS(bits, type)                                                                                            \
    type __tsan_atomic##bits##_load(const volatile void *at, int order);                                               \
    type __tsan_atomic##bits##_load(const volatile void *at, int order)                                                \
    {                                                                                                                  \
        look((const void *)at, sizeof(type), ATOMIC, CALLER);                                                          \
        return (void)order, *(const volatile type *)at;                                                                \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile void *at, type value, int order);                                        \
    void __tsan_atomic##bits##_store(volatile void *at, type value, int order)                                         \
    {                                                                                                                  \
        look((const void *)at, sizeof(type), ATOMIC, CALLER);                                                          \
        (void)order, *(volatile type *)at = value;                                                                     \
    }                                                                                                                  \
    type __tsan_atomic##bits##_fetch_add(volatile void *at, type value, int order);                                    \
    type __tsan_atomic##bits##_fetch_add(volatile void *at, type value, int order)                                     \
    {                                                                                                                  \
        look((const void *)at, sizeof(type), ATOMIC, CALLER);                                                          \
        type old = *(volatile type *)at;                                                                               \
        *(volatile type *)at = old + value;                                                                            \
        return (void)order, old;                                                                                       \
    }
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
