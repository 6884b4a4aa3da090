/* Intervals of comparable results: the samples of a row as the bootstrap takes them (base/bootstrap.h). */
#include "base/bootstrap.h"
#include "base/hash.h"
#include "compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time per unit of work of every sample: one unit each. */
static void samples_init(struct rp_bootstrap *b, const struct rp_result *row)
{
    int64_t *first = rp_alloc((size_t)(row->groups + 1) * sizeof *first);
    double *time = rp_alloc((size_t)row->samples * sizeof *time);
    double *work = rp_alloc((size_t)row->groups * sizeof *work);
    for (int64_t i = 0; i < row->samples; i++)
        time[i] = 1 / row->sample[i];
    for (int64_t g = 0; g < row->groups; g++) {
        first[g + 1] = first[g] + row->group[g];
        work[g] = (double)row->group[g];
    }
    *b = (struct rp_bootstrap){row->groups, first, time, work, 1};
}

static void samples_fini(struct rp_bootstrap *b)
{
    free((void *)b->first);
    free((void *)b->time);
    free((void *)b->work);
}

/* From the digest of the file and the line of the result. Both sides of a ratio are resampled independently. */
static uint64_t seed_of(const struct rp_result *row, int is_base)
{
    char text[200];
    unsigned char digest[RP_SHA256_SIZE];
    uint64_t seed = 0;
    snprintf(text, sizeof text, "%s %lld %d", row->source.sha256 ? row->source.sha256 : "", (long long)row->source.line,
             is_base);
    rp_sha256_bytes(digest, text, strlen(text));
    memcpy(&seed, digest, sizeof seed);
    return seed;
}

double rp_result_estimate(const struct rp_result *row)
{
    struct rp_bootstrap b;
    if (row->samples < 1)
        return NAN;
    samples_init(&b, row);
    const double figure = rp_bootstrap_figure(&b);
    samples_fini(&b);
    return figure;
}

double *rp_result_resample(const struct rp_result *row, int n, int is_base)
{
    struct rp_bootstrap b;
    double *all = rp_alloc((size_t)n * sizeof *all);
    samples_init(&b, row);
    rp_bootstrap_resample(all, n, &b, seed_of(row, is_base));
    samples_fini(&b);
    return all;
}

int rp_result_is_of_samples(const struct rp_result *row)
{
    return fabs(rp_result_estimate(row) / row->throughput - 1) <= 1e-4;
}

void rp_result_interval(struct rp_result *row)
{
    double interval[2];
    const int n = rp_resamples_of(row->samples);
    if (row->source.kind == RP_RESULT_BUNDLE || row->samples < 2 || !isnan(row->low) ||
        !rp_result_is_of_samples(row))
        return;
    RP_FREE double *all = rp_result_resample(row, n, 0);
    rp_bootstrap_interval(interval, all, n);
    row->low = interval[0];
    row->high = interval[1];
}
