/* The GPU probe's two halves: asking the worker repro-gpu, and making values of what it said.
 *
 * What:    inner header of capture/; the tests give a worker and answers of their own.
 * Flow:    program -> process -> {"nvml": {...}, "cuda": {...}, "nccl": {...}} -> values. With "failed": why the rest is missing; with
 *          "absent": why this system can run no worker at all.
 * Owner:   the caller owns the json_t.
 * Extend:  what else to ask is a name in RP_GPU_PROBES and a file in gpu/.
 *
 * A record of a machine keeps the answers in /.repro/gpu.json, with what is to be hidden hidden.
 */
#ifndef RP_CAPTURE_GPU_H
#define RP_CAPTURE_GPU_H

#include "capture/probe.h"

/* What repro-gpu can be asked for, in this order; gpu/gpu.h says what each knows. */
#define RP_GPU_PROBES(X) X(nvml) X(cuda) X(nccl)

#define RP_GPU_TIMEOUT_MS 10000 /* for one answer; $RP_GPU_TIMEOUT_MS takes its place */

/* Start the program and ask it for everything, each answer within so many milliseconds. What fails ends the asking. Never NULL. */
json_t *rp_gpu_ask(const struct rp_buf *program, int limit_ms);
/* Values from answers of which nothing is believed: what has not the shape of a value becomes an error. */
void rp_gpu_put(struct rp_probe *p, const json_t *answers);

#endif
