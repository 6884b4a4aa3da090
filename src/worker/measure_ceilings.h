/* Ceilings: the peak rates of a device, measured before and after a run, for comparison with the rates that the run
 * achieved.
 *
 * What:    the backend's GEMM of one fixed shape, copies inside its memory, and copies from the host.
 * Flow:    an open device that holds no blocks -> {"clock": "host" | "device", "gemm": {"m", "n", "k", "calls", "ns":
 *          [..]}, "copy": {"bytes", "calls", "ns"}, "host_to_device": the same, if there is such a link}. ns: how long
 *          each repetition of `times` calls took, without a first one that warms up. run/derive_ceilings.c makes
 *          figures of them.
 * Owner:   the caller owns the result; blocks are released.
 * Extend:  another ceiling is a function like copies(), its repetitions in run/facts.def and run/seal.c, its rate in
 *          run/figures.def and run/derive_ceilings.c.
 */
#pragma once

#include "train/train.h"

struct rp_ceiling_size {
    struct rp_gemm_shape gemm;
    int times;                 /* calls of a repetition */
    size_t copy;               /* bytes of each of the two blocks; more if the product needs it */
    uint64_t gemm_ns, copy_ns; /* about how long each is repeated */
};
/* Sizes for a device; the memory is within that of the plan. */
struct rp_ceiling_size rp_ceiling_size(const struct rp_dev *dev, const struct rp_plan *plan);

/* NULL: no ceilings; *err is RP_OK if that is not a failure (no memory for them, alive() requested a stop, or the
 * backend cannot). */
json_t *rp_ceilings(struct rp_dev *dev, const struct rp_ceiling_size *s, rp_alive_fn alive, void *alive_arg,
                    struct rp_err *err) rp_must_check;
