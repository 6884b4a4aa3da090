/* The bootstrap: intervals that can be computed by hand, the same bits for the same seed, and what 95 % means. */
#include "base/bootstrap.h"
#include "tests/unit/scatter.h"
#include "tests/unit/tap.h"

#include <string.h>

TEST(figure_is_the_median_over_groups)
{
    const double time[] = {1, 3, 10, 1, 1, 1}, work[] = {2, 4, 9};
    const int64_t first[] = {0, 2, 3, 6};
    const struct rp_bootstrap b = {3, first, time, work, 1}; /* 0.5, 0.4, 3 */
    CHECK(rp_bootstrap_figure(&b) == 0.5, "%g", rp_bootstrap_figure(&b));
    const struct rp_bootstrap ms = {3, first, time, work, 1000};
    CHECK(rp_bootstrap_figure(&ms) == 500, "%g", rp_bootstrap_figure(&ms));
}

TEST(resamples_follow_from_the_seed)
{
    const double time[] = {1, 2, 3, 4, 5}, work[] = {3, 2};
    const int64_t first[] = {0, 3, 5};
    const struct rp_bootstrap b = {2, first, time, work, 1};
    double a[50], again[50], other[50], interval[2];
    rp_bootstrap_resample(a, 50, &b, 1);
    rp_bootstrap_resample(again, 50, &b, 1);
    rp_bootstrap_resample(other, 50, &b, 2);
    CHECK(!memcmp(a, again, sizeof a) && memcmp(a, other, sizeof a), "seeds");
    for (int i = 0; i < 50; i++)
        CHECK(a[i] >= 2 / 10.0 && a[i] <= 3 / 3.0, "%g", a[i]);
    const struct rp_bootstrap equal = {1, (const int64_t[]){0, 3}, (const double[]){2, 2, 2}, (const double[]){3}, 1};
    rp_bootstrap_resample(a, 50, &equal, 1);
    rp_bootstrap_interval(interval, a, 50);
    CHECK(interval[0] == 0.5 && interval[1] == 0.5, "%g %g", interval[0], interval[1]);
}

static int64_t draw(int64_t n, uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)(((unsigned __int128)(z ^ (z >> 31)) * (uint64_t)n) >> 64);
}

/* Intervals are in sealed bundles: whatever the times are, a sum has the bits of additions in the order of draws. */
TEST(sums_are_those_of_the_draws_in_their_order)
{
    enum { N = 100, RESAMPLES = 20 };
    static const struct {
        double base, step;
    } kinds[] = {{3, 1}, {0x1p40, 12345}, {0, 0x1p33}, {0.1, 0.7}, {0x1p53, 2}, {0x1p47, 1}, {-5, 1}, {1e300, 1e290}};
    const int64_t first[] = {0, N};
    const double work[] = {7};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        double time[N], out[RESAMPLES];
        uint64_t seed = kind;
        for (int i = 0; i < N; i++)
            time[i] = kinds[kind].base + kinds[kind].step * (i * 37 % N);
        rp_bootstrap_resample(out, RESAMPLES, &(struct rp_bootstrap){1, first, time, work, 1e9}, seed);
        for (int r = 0; r < RESAMPLES; r++) {
            double sum = 0;
            for (int i = 0; i < N; i++)
                sum += time[draw(N, &seed)];
            CHECK(out[r] == 7 / (sum / 1e9), "kind %zu, resample %d: %a, expected %a", kind, r, out[r],
                  7 / (sum / 1e9));
        }
    }
}

TEST(interval_has_the_2nd_and_the_98th_of_hundred)
{
    double all[100], base[100], interval[2];
    for (int i = 0; i < 100; i++) {
        all[i] = 100 - i;
        base[i] = 2;
    }
    rp_bootstrap_interval(interval, all, 100);
    CHECK(interval[0] == 2 && interval[1] == 97, "%g %g", interval[0], interval[1]); /* ranks 2 and 97 */
    rp_bootstrap_ratio(interval, all, base, 100);
    CHECK(interval[0] == 1 && interval[1] == 48.5, "%g %g", interval[0], interval[1]);
    CHECK(rp_resamples_of(2) == 2000 && rp_resamples_of(50000) == 2000 && rp_resamples_of(50001) == 200, "number");
}

/* 200 runs of 50 steps of a known speed: the intervals of about 190 contain it. The standard error is 1.5 %, and the
 * bootstrap of 50 samples is about 1 % too narrow. */
TEST(interval_contains_the_true_speed_in_95_of_100_runs)
{
    enum { RUNS = 200, STEPS = 50 };
    const int64_t first[] = {0, STEPS};
    const double work[] = {STEPS};
    static double all[RP_RESAMPLES];
    struct scatter s = {.state = 1};
    int inside = 0;
    for (int r = 0; r < RUNS; r++) {
        double time[STEPS], interval[2];
        for (int i = 0; i < STEPS; i++)
            time[i] = scattered(&s, 0.2);
        rp_bootstrap_resample(all, RP_RESAMPLES, &(struct rp_bootstrap){1, first, time, work, 1}, s.state);
        rp_bootstrap_interval(interval, all, RP_RESAMPLES);
        inside += interval[0] <= 1 && 1 <= interval[1];
    }
    CHECK(inside >= 180 && inside <= 198, "%d of %d", inside, RUNS);
}
