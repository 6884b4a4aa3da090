/* Gradients of the definitions against finite differences.
 *
 * What:    check_gradient(): a gradient in fp32 against central differences of a loss in double; random inputs.
 */
#pragma once

#include "tests/unit/tap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static inline float noise(unsigned *state) /* in (-1, 1) */
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

static inline void fill_noise(float *x, int n, float scale, unsigned seed)
{
    for (int i = 0; i < n; i++)
        x[i] = noise(&seed) * scale;
}

/* A loss in double precision, as a function of one of its inputs x[n]; the other inputs are in *arg. */
typedef double (*loss_fn)(const double *x, const void *arg);

/* Central differences of step 1e-5 in double are good to about 1e-9 here; the gradient is fp32 with sums of at most a
 * few hundred terms of size one, so 2e-5 of the largest element is ten times its rounding. */
static inline void check_gradient(const char *what, loss_fn loss, const void *arg, const float *at,
                                  const float *gradient, int n)
{
    double *x = malloc((size_t)n * sizeof *x), largest = 1e-3, worst = 0;
    int where = 0;
    for (int i = 0; i < n; i++)
        x[i] = (double)at[i];
    for (int i = 0; i < n; i++) {
        double here = x[i], up, down;
        x[i] = here + 1e-5;
        up = loss(x, arg);
        x[i] = here - 1e-5;
        down = loss(x, arg);
        x[i] = here;
        double exact = (up - down) / 2e-5, e = fabs((double)gradient[i] - exact);
        largest = fabs(exact) > largest ? fabs(exact) : largest;
        if (e > worst) {
            worst = e;
            where = i;
        }
    }
    CHECK(worst <= 2e-5 * largest, "%s: element %d is off by %.3g, largest is %.3g", what, where, worst, largest);
    free(x);
}
