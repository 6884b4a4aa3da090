/* The worker: the process in which one rank trains.
 *
 * What:    parent side: start it, or query repro-gpu (cuda.c). Worker side: the phases of a training (phases.c).
 * Flow:    the parent sends one JOB; the worker answers HELLO, then PHASE, STEP and ALIVE, and one DONE or FAILED; the
 *          parent may send STOP. job.h has their fields.
 * Owner:   the caller of a start owns the struct rp_process.
 * Extend:  a backend is a row in backends.c. Another query of repro-gpu is a frame (process/process.h), a function like
 *          rp_worker_speed_gpu() and a branch in gpu/main.c.
 */
#pragma once

#include "backend/backend.h"
#include "process/process.h"

#define RP_WORKER_ARG "--worker" /* main.c: argv[1] of a worker */

/* The backends of repro, best first, ended by NULL: backends.c. */
extern const struct rp_backend *const rp_backends[];
extern const struct rp_backend rp_worker_cuda; /* queries repro-gpu, and never opens a device: cuda.c */

/* ---- parent side ---- */

/* this executable again, with that job */
int rp_worker_start(struct rp_process *w, const json_t *job, struct rp_err *err) rp_must_check;
/* repro-gpu, without sending it anything: to compute, under the tool of $RP_GPU_TOOL if there is one. */
int rp_worker_start_gpu(struct rp_process *w, struct rp_err *err) rp_must_check;

/* What repro-gpu reports while it compares or measures operations. It sends PHASE {"op", "case": from 1, "shape"}
 * before each case, STEP with each row, and at last VALUES {"kernels", "failed": {"code", "message"}, or "unavailable":
 * why}. Silence of more than a minute counts as a hang, five minutes until the first case, in which a driver may have
 * to compile the kernels: rp_worker_gpu_limits(). */
struct rp_gpu_report {
    void (*done)(const json_t *row); /* called for each row as it comes; may be NULL */
    json_t *rows;    /* of backend/selftest.h or backend/speed.h: all, or those before the device failed */
    json_t *kernels; /* {name: launches} of every kernel of the device, rp_backend.kernel(); NULL: no answer */
    /* {"op", "case", "shape"} in which the worker hung or crashed, or its device failed; case 0: while it opened the
     * device; NULL: neither, also of a GPU that cannot be used */
    json_t *stopped;
    char note[256]; /* what went wrong when the worker ended, after its answer; "": nothing */
};
void rp_gpu_report_fini(struct rp_gpu_report *r);
/* $RP_GPU_TIMEOUT_MS is the limit of silence. Opening the device takes at most that, but always gets a minute; the end
 * of the process gets ten seconds, or that up to a minute, as compute-sanitizer writes its report then. */
struct rp_gpu_limits {
    int silence_ms; /* between cases */
    int open_ms;    /* before the first case */
    int end_ms;     /* after the last answer */
};
struct rp_gpu_limits rp_worker_gpu_limits(void);
/* Every operation on a GPU against the definitions: in strict fp32, or in each arithmetic of mixed precision that it
 * has. RP_MISMATCH: some differ; RP_UNAVAILABLE: the GPU cannot be used, or, with r->stopped, it hung. */
int rp_worker_selftest_gpu(const char *device, int mixed, struct rp_gpu_report *r, struct rp_err *err) rp_must_check;
/* How fast a GPU is, each row taking about this many seconds; mixed: in bf16, or fp16 where it has no bf16. */
int rp_worker_speed_gpu(const char *device, int mixed, double seconds, struct rp_gpu_report *r,
                        struct rp_err *err) rp_must_check;

/* Products that tensor cores of the GPU add at a time in the precision of o->numerics: 4, 8 or 16; 0: it has none for
 * it, or is not there. */
int rp_worker_gpu_tensor_core(const struct rp_device_opts *o);

/* ---- worker side ---- */

/* Run one job from fd until DONE or FAILED. Returns the process's exit status. */
int rp_worker_main(int fd);
/* Telemetry of the device, read in a thread of its own while it trains and sent to fd as TELEMETRY frames. */
struct rp_sampler {
    void (*start)(const char *pci_address, int fd); /* of the device; "" when it has none */
    void (*stop)(void);                             /* no frame is sent after it; waits only briefly */
};
struct rp_device_ranks; /* rank.h */
/* The same after the JOB frame was read, on one of these backends; in: the bytes that came after it. sampler: may be
 * NULL; device_ranks: how ranks choose their devices and exchange if one of the backends has memory of its own, else
 * NULL. */
int rp_worker_train(int fd, struct rp_buf *in, const json_t *job, const struct rp_backend *const *backends,
                    const struct rp_sampler *sampler, const struct rp_device_ranks *device_ranks);
