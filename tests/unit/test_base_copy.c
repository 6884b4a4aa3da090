/* Copies of every size, at every alignment and overlap, against a loop over bytes. */
#include "base/copy.h"
#include "tests/unit/tap.h"

#include <string.h>

enum { ROOM = 9100 };
static unsigned char is[ROOM], expected[ROOM], before[ROOM];

static int copies_as_bytes(size_t to, size_t from, size_t n)
{
    memcpy(is, before, ROOM);
    memcpy(expected, before, ROOM);
    for (size_t i = 0; i < n; i++)
        expected[to + i] = before[from + i];
    return rp_copy_bytes(is + to, is + from, n) == is + to && memcmp(is, expected, ROOM) == 0;
}

TEST(copies_equal_a_loop_over_bytes)
{
    static const int apart[] = {-3000, -1536, -1535, -200, -64, -17, -16, -8,   -1,   0,
                                1,     7,     15,    16,   63,  65,  200, 1535, 1536, 3000};
    static const size_t sizes[] = {191, 192, 193, 255, 256, 257, 1000, 1535, 1536, 1537, 1544, 2000, 2999, 3000};
    for (size_t i = 0; i < ROOM; i++)
        before[i] = (unsigned char)(i * 167 + i / 256 * 13);
    for (size_t k = 0; k < sizeof apart / sizeof *apart; k++) {
        for (size_t n = 0; n <= 140; n++)
            CHECK(copies_as_bytes((size_t)(3000 + apart[k]), 3000, n), "%zu bytes, %d apart", n, apart[k]);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t from = 3000; from < 3009; from++)
                CHECK(copies_as_bytes((size_t)((int)from + apart[k]), from, sizes[i]), "%zu bytes at %zu, %d apart",
                      sizes[i], from, apart[k]);
    }
}
