/* Pieces of 16 bytes. Up to 128 bytes, all are read before the first is written, so that it does not matter how the two
 * ranges overlap; pieces overlap each other instead of loops for the last bytes. */
#include "base/copy.h"

#include <stdint.h>

#define LARGE 1536 /* from which `rep movsq` is as fast */

typedef uint16_t __attribute__((may_alias, aligned(1))) two_bytes;
typedef uint32_t __attribute__((may_alias, aligned(1))) four_bytes;
typedef uint64_t __attribute__((may_alias, aligned(1))) eight_bytes;
typedef uint64_t __attribute__((vector_size(16))) aligned_piece;
typedef aligned_piece __attribute__((may_alias, aligned(1))) piece;

static inline piece load(const unsigned char *p)
{
    return *(const piece *)p;
}

static inline void store(unsigned char *p, piece x)
{
    *(piece *)p = x;
}

#define COPY_ENDS(type)                                                                                                \
    do {                                                                                                               \
        const type first = *(const type *)from, last = *(const type *)(from + n - sizeof last);                        \
        *(type *)to = first;                                                                                           \
        *(type *)(to + n - sizeof last) = last;                                                                        \
    } while (0)

static inline void copy_16(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n >= 8)
        COPY_ENDS(eight_bytes);
    else if (n >= 4)
        COPY_ENDS(four_bytes);
    else if (n >= 2)
        COPY_ENDS(two_bytes);
    else if (n)
        *to = *from;
}

/* 17 to 128 bytes: pairs of pieces, from both ends to the middle. */
static inline void copy_128(unsigned char *to, const unsigned char *from, size_t n)
{
    const unsigned char *end = from + n;
    unsigned char *to_end = to + n;
    const piece a = load(from), b = load(end - 16);
    if (n > 32) {
        const piece c = load(from + 16), d = load(end - 32);
        if (n > 64) {
            const piece e = load(from + 32), f = load(from + 48), g = load(end - 64), h = load(end - 48);
            store(to + 32, e);
            store(to + 48, f);
            store(to_end - 64, g);
            store(to_end - 48, h);
        }
        store(to + 16, c);
        store(to_end - 32, d);
    }
    store(to, a);
    store(to_end - 16, b);
}

/* More than 128 bytes, to an address outside of [from, from + n): the last 64 are read first, since the others may be
 * written over them. */
static inline void copy_up(unsigned char *to, const unsigned char *from, size_t n)
{
    const unsigned char *end = from + n;
    unsigned char *to_end = to + n;
    const piece e = load(end - 64), f = load(end - 48), g = load(end - 32), h = load(end - 16);
#ifdef __x86_64__
    if (n >= LARGE && (uintptr_t)from - (uintptr_t)to >= LARGE) {
        /* To an address that is not a multiple of 8 it is five times as slow. */
        const size_t first = 8 - ((uintptr_t)to & 7);
        size_t words = (n - first) / 8;
        *(eight_bytes *)to = *(const eight_bytes *)from;
        to += first;
        from += first;
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
        from = end;
    }
#endif
    for (; end - from > 64; from += 64, to += 64) {
        const piece a = load(from), b = load(from + 16), c = load(from + 32), d = load(from + 48);
        store(to, a);
        store(to + 16, b);
        store(to + 32, c);
        store(to + 48, d);
    }
    store(to_end - 64, e);
    store(to_end - 48, f);
    store(to_end - 32, g);
    store(to_end - 16, h);
}

/* More than 128 bytes, to an address in [from, from + n). */
static inline void copy_down(unsigned char *to, const unsigned char *from, size_t n)
{
    const piece e = load(from), f = load(from + 16), g = load(from + 32), h = load(from + 48);
    for (; n > 64; n -= 64) {
        const unsigned char *p = from + n;
        const piece a = load(p - 64), b = load(p - 48), c = load(p - 32), d = load(p - 16);
        store(to + n - 64, a);
        store(to + n - 48, b);
        store(to + n - 32, c);
        store(to + n - 16, d);
    }
    store(to, e);
    store(to + 16, f);
    store(to + 32, g);
    store(to + 48, h);
}

void *rp_copy_bytes(void *to, const void *from, size_t n)
{
    if (n <= 16)
        copy_16(to, from, n);
    else if (n <= 128)
        copy_128(to, from, n);
    else if ((uintptr_t)to - (uintptr_t)from >= n)
        copy_up(to, from, n);
    else
        copy_down(to, from, n);
    return to;
}

#if defined(__x86_64__) && !defined(__GLIBC__)
void *memcpy(void *restrict to, const void *restrict from, size_t n) __attribute__((alias("rp_copy_bytes")));
void *memmove(void *to, const void *from, size_t n) __attribute__((alias("rp_copy_bytes")));
#endif
