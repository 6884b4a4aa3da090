/* A GPU for the tests of the CUDA backend: the test's own libcuda, loaded by path before the backend asks for it by
 * name. */
#pragma once

#include "backend/cuda/inner.h"
#include "tests/shim/run.h"

/* The device, opened once; *options (NULL: not wanted): how the shim orders threads from now on. RP_SHIM_LIBRARY names
 * the library: the runner sets it. */
struct rp_dev *gpu(struct shim_options **options, struct rp_err *err) rp_must_check;
/* The same; a failure ends the program. */
struct rp_dev *gpu_here(struct shim_options **options);
/* Whether case i is compared on this device: GPUs before 8.0 and others share the cases, but with LONG=1. */
int gpu_turn(struct rp_dev *dev, unsigned i);
