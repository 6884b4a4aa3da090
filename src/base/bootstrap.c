/* Resampling of two levels, percentile intervals. Only +, / and comparisons of doubles: the same bits everywhere. */
#include "base/bootstrap.h"

#include "base/buf.h"
#include "base/sort.h"

#include <stdlib.h>

#define EXACT 0x1p53       /* whole numbers up to it are doubles */
#define MANY_SAMPLES 50000 /* more have a tenth of the resamples, which bounds the time of an interval to seconds */

int rp_resamples_of(int64_t samples)
{
    return samples > MANY_SAMPLES ? RP_RESAMPLES / 10 : RP_RESAMPLES;
}

/* 0 .. n - 1 by SplitMix64. */
static int64_t draw_below(int64_t n, uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)(((unsigned __int128)(z ^ (z >> 31)) * (uint64_t)n) >> 64); /* the bias of n / 2^64 is negligible */
}

double rp_bootstrap_figure(const struct rp_bootstrap *b)
{
    RP_FREE double *rate = rp_alloc((size_t)b->groups * sizeof *rate);
    for (int64_t g = 0; g < b->groups; g++) {
        double time = 0;
        for (int64_t i = b->first[g]; i < b->first[g + 1]; i++)
            time += b->time[i];
        rate[g] = b->work[g] / (time / b->unit);
    }
    return rp_median(rate, (size_t)b->groups);
}

/* Where the times are whole numbers whose sums are exact in any order: how much each exceeds the least one. Half as
 * many bytes: the times of a long run do not fit into a second-level cache of 2 MiB, and most of the time went into
 * waiting for them. NULL: other times. */
static uint32_t *excess_of(const struct rp_bootstrap *b, double *least)
{
    const int64_t samples = b->first[b->groups];
    double most = 0;
    *least = samples ? b->time[0] : 0;
    for (int64_t i = 0; i < samples; i++) {
        const double t = b->time[i];
        if (!(t >= 0 && t <= EXACT) || t != (double)(int64_t)t)
            return NULL;
        *least = t < *least ? t : *least;
        most = t > most ? t : most;
    }
    if (most - *least > UINT32_MAX || most * (double)samples > EXACT)
        return NULL;
    uint32_t *excess = rp_alloc((size_t)samples * sizeof *excess);
    for (int64_t i = 0; i < samples; i++)
        excess[i] = (uint32_t)(b->time[i] - *least);
    return excess;
}

static double sum_draws(const double *time, int64_t samples, uint64_t *seed)
{
    double sum = 0;
    for (int64_t i = 0; i < samples; i++)
        sum += time[draw_below(samples, seed)];
    return sum;
}

static uint64_t sum_excess(const uint32_t *excess, int64_t samples, uint64_t *seed)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < samples; i++)
        sum += excess[draw_below(samples, seed)];
    return sum;
}

void rp_bootstrap_resample(double *out, int n, const struct rp_bootstrap *b, uint64_t seed)
{
    double least;
    RP_FREE double *rate = rp_alloc((size_t)b->groups * sizeof *rate);
    RP_FREE uint32_t *excess = excess_of(b, &least);
    for (int r = 0; r < n; r++) {
        for (int64_t g = 0; g < b->groups; g++) {
            const int64_t from = b->groups > 1 ? draw_below(b->groups, &seed) : 0;
            const int64_t first = b->first[from], samples = b->first[from + 1] - first;
            const double time = excess ? (double)samples * least + (double)sum_excess(excess + first, samples, &seed)
                                       : sum_draws(b->time + first, samples, &seed);
            rate[g] = b->work[from] / (time / b->unit);
        }
        out[r] = rp_median(rate, (size_t)b->groups);
    }
}

void rp_bootstrap_interval(double interval[2], double *all, int n)
{
    rp_sort_double(all, (size_t)n);
    interval[0] = all[n * 25 / 1000 - 1]; /* nearest rank */
    interval[1] = all[n * 975 / 1000 - 1];
}

void rp_bootstrap_ratio(double interval[2], double *all, const double *base, int n)
{
    for (int i = 0; i < n; i++)
        all[i] /= base[i];
    rp_bootstrap_interval(interval, all, n);
}
