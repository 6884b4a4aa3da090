/* How long training takes here, before it begins: from some GEMMs and the FLOPs of the steps.
 *
 * What:    an estimate for people, for `run`, `run --plan` and `verify --replay`.
 * Flow:    a plan for a device of this program + FLOPs -> shortest and longest time in seconds.
 * Owner:   the device is opened and closed here; it must not be open already.
 * Extend:  another use passes the FLOPs of what it computes; the shares of a GEMM's speed are in pace.c.
 */
#pragma once

#include "train/train.h"

/* flops: of everything that one rank computes; probe_ns: about how long the GEMM is repeated at most, and no longer
 * than a tenth of the work. -1: unknown, as for the device of a GPU worker, which this program cannot open. */
int rp_pace(double seconds[2], const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_plan *plan,
            double flops, uint64_t probe_ns);
