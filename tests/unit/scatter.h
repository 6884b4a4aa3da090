/* Step times of simulated runs: log-normal with the mean 1, the same ones every time. */
#pragma once

#include <math.h>
#include <stdint.h>

struct scatter {
    uint64_t state;
};

/* 0 to 1, without the ends. */
static double scatter_uniform(struct scatter *s)
{
    s->state = s->state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(s->state >> 11) + 0.5) / 9007199254740992.0;
}

/* sigma: of the logarithm. */
static double scattered(struct scatter *s, double sigma)
{
    const double radius = sqrt(-2 * log(scatter_uniform(s)));
    return exp(sigma * radius * cos(6.283185307179586 * scatter_uniform(s)) - sigma * sigma / 2);
}
