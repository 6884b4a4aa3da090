/* The driver's library, loaded at run time.
 *
 * What:    a table of the functions of driver.def, and how a failure of one becomes a message.
 * Flow:    rp_driver_load() -> struct rp_driver; d->cuMemAlloc(...) -> CUresult -> rp_driver_fail().
 * Owner:   the library stays loaded: NVIDIA's cannot be unloaded safely.
 * Extend:  a function is a row of driver.def; a new CUDA version is a row of releases[] in driver.c.
 *
 * This is the driver's interface, not the runtime's: it has few functions, each documented, so that a library of the
 * tests can replace it (tests/shim/driver.c), and it reports errors of lost devices and old drivers directly.
 */
#pragma once

#include "base/err.h"

#include <cuda.h>

struct rp_driver {
#define DRIVER(f, symbol, cuda) __typeof__(f) *f;
#include "backend/cuda/driver.def"
#undef DRIVER
    int version; /* 12090 */
};

#define RP_DRIVER_OLDEST 12000 /* CUDA 12.0, driver 525: what cubins of NVRTC 12.9 need */

/* Loaded and initialised once in a process. RP_UNAVAILABLE: no library, too old, or it does not start; see the
 * message. */
const struct rp_driver *rp_driver_load(struct rp_err *err) rp_must_check;

/* The release of the driver, "525.60.13", from the text of /proc/driver/nvidia/version; -1: it has none. */
int rp_driver_release(char out[32], const char *text) rp_must_check;

/* `what` failed with r: fills *err with the driver's name for it and, where one is known, the remedy. Always -1. */
int rp_driver_fail(const struct rp_driver *d, CUresult r, const char *what, struct rp_err *err);
