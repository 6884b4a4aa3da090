/* Prefetching of input: another thread prepares the next step's input while the device computes this step.
 *
 * What:    one thread that calls prepare(arg, step) for one step at a time.
 * Flow:    rp_prefetch_start(step + 1) after the upload of a step; rp_prefetch_take(step) before the next: waits for
 *          that step, or, if another one was started, prepares it in the calling thread. take() reports a failure of
 *          its step.
 * Owner:   the caller of new() frees; the thread uses `arg` from start() until take() or free() has returned.
 * Extend:  more than one step ahead is a ring of what prepare() writes to.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

typedef int (*rp_prepare_fn)(void *arg, int64_t step, struct rp_err *err);

struct rp_prefetch;
struct rp_prefetch *rp_prefetch_new(rp_prepare_fn prepare, void *arg, struct rp_err *err) rp_must_check;
void rp_prefetch_start(struct rp_prefetch *p, int64_t step);
int rp_prefetch_take(struct rp_prefetch *p, int64_t step, struct rp_err *err) rp_must_check;
void rp_prefetch_free(struct rp_prefetch *p);
