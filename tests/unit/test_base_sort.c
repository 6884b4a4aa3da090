/* Numbers in order, against the C library's sort. */
#include "base/sort.h"
#include "tests/unit/tap.h"

#include <stdlib.h>

#define MOST 3000

static int by_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t draw(void)
{
    static uint64_t state = 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

TEST(integers_and_doubles_come_out_in_order)
{
    static int64_t a[MOST], b[MOST];
    static double x[MOST], y[MOST];
    for (size_t n = 0; n < MOST; n = n * 3 / 2 + 1)
        for (unsigned cut = 0; cut < 64; cut += 7) { /* few values and many, of both signs */
            for (size_t i = 0; i < n; i++) {
                a[i] = b[i] = (int64_t)(draw() << cut) >> cut / 2;
                x[i] = y[i] = (double)a[i] * (i % 3 ? 1e-300 : 1e270);
            }
            rp_sort_int64(a, n);
            rp_sort_double(x, n);
            qsort(b, n, sizeof *b, by_int64);
            qsort(y, n, sizeof *y, by_double);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++)
                wrong += a[i] != b[i] || x[i] != y[i];
            CHECK(wrong == 0, "%zu of %zu numbers with %u bits cut are out of place", wrong, n, cut);
        }
}

TEST(the_median_is_the_one_in_the_middle_or_the_mean_of_two)
{
    double one[] = {7}, two[] = {3, 1}, odd[] = {5, -1, 3}, even[] = {4, 1, 3, 2}, many[101];
    CHECK(rp_median(one, 1) == 7 && rp_median(two, 2) == 2 && rp_median(odd, 3) == 3 && rp_median(even, 4) == 2.5);
    for (int i = 0; i < 101; i++)
        many[i] = (i * 37) % 101;
    CHECK(rp_median(many, 101) == 50 && many[0] == 0 && many[100] == 100);
}
