/* Whether training can have led to a state: how far the optimizer's rule moves a weight from its initialisation.
 *
 * What:    a bound for each weight and its slots after S steps, from the learning rates, the perturbations and, for
 *          sgd and lars, the recorded gradient norms. A state that is handed over has to be within it; otherwise biases
 *          of -1e6, which make activations 0, would be a state like any other.
 * Flow:    recipe + records + S -> bounds; file -> distances from the initialisation -> the first weight too far away.
 * Owner:   nothing outlives the call.
 * Extend:  an optimizer is a case in advance() of reach.c, by its expressions in ops/NUMERICS.md.
 *
 * With w0 the initialisation, in exact arithmetic, and a margin for roundings:
 *   adamw      |w - w0| <= A + B |w0| for each element: a step moves it by at most lr (C + decay |w|), where
 *              C = (1 - b1) / sqrt(1 - b2) * sqrt(sum of (b1^2 / b2)^k for k < t) bounds m / (sqrt(v) + eps), by
 *              Cauchy-Schwarz
 *   lamb       ||w - w0|| <= D for each tensor: a step moves it by lr ||w||; excluded tensors as adamw
 *   sgd, lars  ||w - w0|| <= D: momentum of gradients whose norm is the recorded one, clipped; lars: of at most
 *              eeta ||w||
 *   slots      adamw, lamb: |m| <= C sqrt(v) for each element; sgd, lars: ||m|| <= what those norms add up to.
 *              Otherwise a made-up m would move its weight out of reach in the next step, after this state was looked
 *              at
 *   each root  |w| moves by at most 2^-10 (|w| + s), s the deviation of the initialisation
 * The bounds add up what all steps can do in one direction, so they are wide: they grow with the sum of the learning
 * rates.
 */
#pragma once

#include "base/err.h"
#include "recipe/recipe.h"
#include "run/records.h"

#include <stdint.h>

struct rp_reach {
    double used; /* the largest share of a bound that a weight of the state takes; above 1: the first such weight: */
    char tensor[168]; /* or of its slot: "optimizer.m." and its name */
    int64_t element;         /* -1: the whole tensor, by its norm */
    double initial, is, far; /* its values; how far it can be. Of a norm: 0, the distance, how far it can be */
};

/* The state after `steps` steps in the file `path`, of a run that started from the seeds of the recipe. 0: looked at,
 * *out has the finding. */
int rp_reach_check(struct rp_reach *out, const char *path, const struct rp_recipe *r, const struct rp_records *records,
                   int64_t steps, struct rp_err *err) rp_must_check;
