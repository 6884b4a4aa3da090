/* Samples that a step has twice, whose second pass need not be computed.
 *
 * What:    a step with more samples than the data set, or one at the end of an epoch, takes some of them twice. Without
 *          dropout and random crops their activations and gradients are the same.
 * Flow:    recipe, step, samples of a step and of the data set -> how many.
 * Owner:   nothing is kept.
 * Extend:  another random decision for each sample is a condition in rp_samples_are_distinct().
 */
#pragma once

#include "recipe/recipe.h"

#include <stdint.h>

/* Every sample of a step is computed in a way of its own, whatever it is. */
int rp_samples_are_distinct(const struct rp_recipe *r);
/* How many of the n samples of that step it had before, in a data set of `records`. An order of Megatron-LM repeats
 * none within its schedule. */
int64_t rp_samples_repeated(const struct rp_recipe *r, int64_t step, int64_t n, int64_t records);
