/* The bootstrap: 95 % intervals of a throughput, of a run and of ratios of two.
 *
 * What:    the one implementation for run.json, `replicate` and `compare`. The figure is the median over groups
 *          (repeats) of work / time. Two levels are resampled with replacement: groups, where there are several, and
 *          in each its samples (steps). The interval is the 2.5th and 97.5th percentile of the resamples' figures.
 * Flow:    struct rp_bootstrap + seed -> rp_bootstrap_resample() -> rp_bootstrap_interval(), or rp_bootstrap_ratio()
 *          of two.
 * Owner:   the caller owns the arrays.
 * Extend:  sealed bundles contain these intervals: the order of draws and of additions is part of repro-run/3.
 */
#pragma once

#include <stdint.h>

#define RP_BOOTSTRAP_LEVEL 0.95
#define RP_RESAMPLES 2000 /* the standard error of an end is then 1.5 % of the width, for a normal distribution */

struct rp_bootstrap {
    int64_t groups;
    const int64_t *first; /* [groups + 1]: the first sample of each group; the last one is the number of samples */
    const double *time;   /* of each sample */
    const double *work;   /* of each group */
    double unit;          /* of `time`, per second: 1e9 where it is in nanoseconds */
};

int rp_resamples_of(int64_t samples); /* RP_RESAMPLES, or fewer of very many samples */
double rp_bootstrap_figure(const struct rp_bootstrap *b); /* of the samples themselves */
/* out: n figures. The same ones for the same seed. */
void rp_bootstrap_resample(double *out, int n, const struct rp_bootstrap *b, uint64_t seed);
/* Both sort their n figures. The ratio divides each of `all` by that of `base`, which has another seed, first. */
void rp_bootstrap_interval(double interval[2], double *all, int n);
void rp_bootstrap_ratio(double interval[2], double *all, const double *base, int n);
