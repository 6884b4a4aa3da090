/* memcpy() and memmove() of the static program. musl copies with `rep movs`, which costs about 30 cycles however little is copied; JSON is
 * read and written a few bytes at a time, and a third of the time of `compare` and `verify` was that. Above some hundred bytes `rep movs`
 * is as good as anything. Programs linked with glibc keep glibc's. */
#include <features.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && (!defined(__GLIBC__) || defined(RP_COPY_TEST))
#include <emmintrin.h>

#pragma GCC optimize("no-tree-loop-distribute-patterns") /* or a loop here becomes a call of what it is in */

enum { LONG = 384 }; /* from here on `rep movs` */

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);

typedef uint16_t __attribute__((may_alias, aligned(1))) two;
typedef uint32_t __attribute__((may_alias, aligned(1))) four;
typedef uint64_t __attribute__((may_alias, aligned(1))) eight;

/* First and last part, which meet or overlap; both are loaded before either is stored, so that the ranges may overlap too. */
#define ENDS(type)                                                                                                                  \
    do {                                                                                                                            \
        type first = *(const type *)s, last = *(const type *)(s + n - sizeof(type));                                                \
        *(type *)d = first;                                                                                                         \
        *(type *)(d + n - sizeof(type)) = last;                                                                                     \
    } while (0)

static inline __m128i get(const char *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}
static inline void put(char *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

/* At most 32 bytes. */
static inline void copy_short(char *d, const char *s, size_t n)
{
    if (n > 16) {
        __m128i first = get(s), last = get(s + n - 16);
        put(d, first);
        put(d + n - 16, last);
    } else if (n >= 8)
        ENDS(eight);
    else if (n >= 4)
        ENDS(four);
    else if (n >= 2)
        ENDS(two);
    else if (n)
        *d = *s;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    char *d = to;
    const char *s = from;
    if (n <= 32) {
        copy_short(d, s, n);
    } else if (n < LONG) {
        __m128i last = get(s + n - 16);
        for (size_t i = 0; i < n - 16; i += 16)
            put(d + i, get(s + i));
        put(d + n - 16, last);
    } else {
        __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
    }
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    char *d = to;
    const char *s = from;
    if (n <= 32) {
        copy_short(d, s, n);
    } else if (d == s) { /* as zstd asks for where bundle/pack.c has read a block into its place */
        return to;
    } else if ((uintptr_t)d - (uintptr_t)s >= n && (uintptr_t)s - (uintptr_t)d >= n) {
        return memcpy(to, from, n);
    } else if (d < s) {
        __m128i last = get(s + n - 16);
        for (size_t i = 0; i < n - 16; i += 16)
            put(d + i, get(s + i));
        put(d + n - 16, last);
    } else {
        __m128i first = get(s);
        for (size_t i = n - 16; i > 0; i = i > 16 ? i - 16 : 0)
            put(d + i, get(s + i));
        put(d, first);
    }
    return to;
}
#else
typedef int rp_copy_is_of_the_c_library; /* C has no empty file */
#endif
