/* Bootstrap: groups (repeats) are resampled with replacement, and the samples (steps) in each; the figure of each resample is computed. The
 * same two levels as for the interval of a bundle (run/results.c). */
#include "base/sort.h"
#include "compare/compare.h"
#include "run/results.h"

#include <math.h>
#include <stdlib.h>

/* Time per unit of work of every sample, and where its group begins; the last entry of `first` is the end. */
struct resampling {
    double *time, *rate; /* rate: room for one figure per group */
    int64_t *first, groups;
};

static void resampling_init(struct resampling *r, const struct rp_result *row)
{
    r->groups = row->groups;
    r->time = rp_alloc((size_t)row->samples * sizeof *r->time);
    r->rate = rp_alloc((size_t)row->groups * sizeof *r->rate);
    r->first = rp_alloc((size_t)(row->groups + 1) * sizeof *r->first);
    for (int64_t i = 0; i < row->samples; i++)
        r->time[i] = 1 / row->sample[i];
    for (int64_t g = 0; g < row->groups; g++)
        r->first[g + 1] = r->first[g] + row->group[g];
}

static void resampling_fini(struct resampling *r)
{
    free(r->time);
    free(r->rate);
    free(r->first);
}

double rp_result_estimate(const struct rp_result *row)
{
    struct resampling r;
    if (row->samples < 1)
        return NAN;
    resampling_init(&r, row);
    for (int64_t g = 0; g < r.groups; g++) {
        double sum = 0;
        for (int64_t i = r.first[g]; i < r.first[g + 1]; i++)
            sum += r.time[i];
        r.rate[g] = (double)row->group[g] / sum;
    }
    double figure = rp_median(r.rate, (size_t)r.groups);
    resampling_fini(&r);
    return figure;
}

void rp_bootstrap(double *out, int replicates, const struct rp_result *row, uint64_t seed)
{
    struct resampling r;
    resampling_init(&r, row);
    for (int b = 0; b < replicates; b++) {
        for (int64_t g = 0; g < r.groups; g++) {
            int64_t from = r.groups > 1 ? rp_results_draw(&seed, r.groups) : 0, n = r.first[from + 1] - r.first[from];
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += r.time[r.first[from] + rp_results_draw(&seed, n)];
            r.rate[g] = (double)n / sum;
        }
        out[b] = rp_median(r.rate, (size_t)r.groups);
    }
    resampling_fini(&r);
}
