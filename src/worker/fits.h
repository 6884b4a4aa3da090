/* What a recipe takes on GPUs of common sizes, planned without one: for `run --plan`.
 *
 * What:    the memory plan for the cuda backend and the largest batch that fits each size; the same for each way to
 *          recompute.
 * Flow:    recipe and batch -> struct rp_fits -> JSON or a table.
 * Extend:  a size of GPUs is an element of memory_mib[] and rp_gpu_gb[] in fits.c, and RP_GPU_SIZES.
 */
#pragma once

#include "base/err.h"
#include "recipe/recipe.h"

#include <jansson.h>
#include <stdint.h>

#define RP_GPU_SIZES 4
extern const int rp_gpu_gb[RP_GPU_SIZES]; /* the sizes by their names: 16, 32, 80, 141 */

struct rp_fits {
    uint64_t activations, total;      /* bytes, of the batch */
    double flops, hardware_flops;     /* per sample */
    int fits[RP_GPU_SIZES];           /* the batch, in GPUs of that size */
    int64_t largest[RP_GPU_SIZES];    /* batch that fits; 0: none */
};

/* For one rank that computes everything. recompute: of enum rp_recompute, instead of the recipe's. RP_UNAVAILABLE: no
 * GPU can train it. */
int rp_fits_plan(struct rp_fits *out, const struct rp_recipe *r, int64_t batch, int recompute,
                 struct rp_err *err) rp_must_check;
/* {"total_bytes", "activation_bytes", "hardware_flops_per_sample", "gpus": [{"gb", "usable_bytes", "fits",
 * "max_batch"}]} */
json_t *rp_fits_to_json(const struct rp_fits *f);
