/* The static program's own memcpy() and memmove(), under other names: every length around the borders, at every alignment and overlap. */
#include "tests/unit/tap.h"

#include <string.h>

#define RP_COPY_TEST
#define memcpy own_memcpy
#define memmove own_memmove
#include "src/base/copy.c"
#undef memcpy
#undef memmove

enum { MOST = 900, ROOM = MOST + 256 };

static void fill(unsigned char *p)
{
    for (int i = 0; i < ROOM; i++)
        p[i] = (unsigned char)(i * 37 + i / 251 + 1);
}

/* Byte by byte, through a copy: no function of the library is believed here. */
static int good(const unsigned char *is, int to, int from, int n)
{
    unsigned char was[ROOM];
    fill(was);
    for (int i = 0; i < ROOM; i++)
        if (is[i] != was[i >= to && i < to + n ? from + i - to : i])
            return 0;
    return 1;
}

TEST(copies_are_whole_and_touch_nothing_else)
{
    static unsigned char source[ROOM], to[ROOM];
    fill(source);
    for (int n = 0; n <= MOST; n += n < 100 ? 1 : 7)
        for (int a = 0; a < 17; a += n < 100 ? 1 : 5)
            for (int b = 0; b < 17; b += 3) {
                fill(to);
                CHECK(own_memcpy(to + a, source + b, (size_t)n) == to + a);
                if (!CHECK(good(to, a, b, n), "%d bytes from +%d to +%d", n, b, a))
                    return;
            }
}

TEST(moves_survive_every_overlap)
{
    static unsigned char p[ROOM];
    for (int n = 0; n <= MOST; n += n < 70 ? 1 : 23)
        for (int distance = -100; distance <= 100; distance += n < 70 ? 1 : 3) {
            fill(p);
            CHECK(own_memmove(p + 110 + distance, p + 110, (size_t)n) == p + 110 + distance);
            if (!CHECK(good(p, 110 + distance, 110, n), "%d bytes by %d", n, distance))
                return;
        }
}
