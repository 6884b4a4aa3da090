/* Numbers in ascending order, of both signs. */
#include "base/sort.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

TEST(integers_and_doubles_come_out_in_order)
{
    enum { N = 1000 };
    static int64_t a[N];
    static double x[N];
    for (size_t i = 0; i < N; i++) {
        a[i] = ((int64_t)i * 7919 % N - N / 2) * (INT64_MAX / N);
        x[i] = (double)a[i] * (i % 3 ? 1e-300 : 1e270);
    }
    rp_sort_int64(a, N);
    rp_sort_double(x, N);
    size_t wrong = 0;
    for (size_t i = 1; i < N; i++)
        wrong += a[i - 1] >= a[i] || x[i - 1] > x[i];
    CHECK(wrong == 0, "%zu numbers are out of place", wrong);
    rp_sort_int64(a, 0);
    rp_sort_double(x, 0);
}

TEST(any_number_of_values_keeps_all_of_them)
{
    static const char *const words[] = {"", "a", "ab", "b", "ba", "\303\251", "a"};
    int64_t a[200];
    const char *text[200];
    for (size_t n = 0; n <= 200; n++) {
        int before[7] = {0}, after[7] = {0};
        for (size_t i = 0; i < n; i++) {
            a[i] = (int64_t)(i * 37 % 13);
            text[i] = words[i * 5 % 7];
            before[i * 5 % 7]++;
        }
        rp_sort_int64(a, n);
        rp_sort_text(text, n);
        for (size_t i = 1; i < n; i++)
            CHECK(a[i - 1] <= a[i] && strcmp(text[i - 1], text[i]) <= 0, "%zu of %zu", i, n);
        int64_t sum = 0, expected = 0;
        for (size_t i = 0; i < n; i++) {
            sum += a[i] * a[i];
            expected += (int64_t)(i * 37 % 13) * (int64_t)(i * 37 % 13);
            for (int k = 0; k < 7; k++)
                after[k] += text[i] == words[k];
        }
        CHECK(sum == expected, "%zu integers are others", n);
        for (int k = 0; k < 7; k++)
            CHECK(before[k] == after[k] || words[k] == words[1], "%zu texts: '%s' %d times, %d before", n, words[k],
                  after[k], before[k]);
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

static uint64_t next_bits(uint64_t *state)
{
    return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

/* Each value is one of the sorted ones as often as it was before: the sums of their bits, and of squares of these, are
 * the same. */
TEST(many_numbers_of_any_size_come_out_in_order)
{
    enum { N = 5000 };
    static int64_t a[N];
    static double x[N];
    uint64_t state = 1;
    for (int shift = 0; shift < 64; shift += 9) {
        uint64_t sum = 0, after = 0, sum_x = 0, after_x = 0;
        for (int i = 0; i < N; i++) {
            a[i] = (int64_t)next_bits(&state) >> shift;
            x[i] = i % 50 ? ldexp((double)a[i], (int)(state >> 20) % 2000 - 1000) : i % 100 ? 0.0 : -0.0;
            uint64_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            sum += (uint64_t)a[i] * (uint64_t)a[i] + (uint64_t)a[i];
            sum_x += (bits | 1) * bits;
        }
        rp_sort_int64(a, N);
        rp_sort_double(x, N);
        for (int i = 0; i < N; i++) {
            uint64_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            after += (uint64_t)a[i] * (uint64_t)a[i] + (uint64_t)a[i];
            after_x += (bits | 1) * bits;
            CHECK(i == 0 || (a[i - 1] <= a[i] && x[i - 1] <= x[i]), "shift %d: %d of %d", shift, i, N);
        }
        CHECK(sum == after && sum_x == after_x, "shift %d: the numbers are others", shift);
    }
}

TEST(zeros_of_both_signs_keep_their_order)
{
    double x[600];
    for (int i = 0; i < 600; i++)
        x[i] = i % 3 == 0 ? 0.0 : i % 3 == 1 ? -0.0 : i < 300 ? 1.0 : -1.0;
    rp_sort_double(x, 600);
    for (int i = 0; i < 400; i++)
        CHECK(x[100 + i] == 0 && !signbit(x[100 + i]) == (i % 2 == 0), "%d: %g", i, x[100 + i]);
}
