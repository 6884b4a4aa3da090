/* The two halves of the GPU probe: querying the worker repro-gpu, and validating its answers.
 *
 * What:    internal header of capture/; the tests use their own worker and answers.
 * Flow:    program -> process -> {"nvml": {...}, "cuda": {...}, "nccl": {...}} -> values. With "failed": why the rest
 *          is missing; with "absent": why this system can run no worker at all.
 * Owner:   the caller owns the json_t.
 * Extend:  another query, for another library, is a name in RP_GPU_PROBES and a file in gpu/. A value: gpu/gpu.h.
 *
 * A record of a machine keeps the answers in /.repro/gpu.json, with hidden texts already hidden.
 */
#pragma once

#include "capture/probe.h"

/* The queries of repro-gpu, in this order; gpu/gpu.h lists their values. */
#define RP_GPU_PROBES(X) X(nvml) X(cuda) X(nccl)

#define RP_GPU_TIMEOUT_MS 10000 /* for one answer; $RP_GPU_TIMEOUT_MS takes its place */

/* Start the program and send it all queries; each answer must arrive within limit_ms. The first failure ends the
 * queries. Never NULL. */
json_t *rp_gpu_ask(const struct rp_buf *program, int limit_ms);
/* Values from untrusted answers: anything without the form of a value becomes an error. */
void rp_gpu_put(struct rp_probe *p, const json_t *answers);
