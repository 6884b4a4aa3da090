/* Workers: the process that trains, the one that loads GPU libraries (gpu/), and the frames between them and their parent.
 *
 * What:    parent side: start, read records, watch, stop. Worker side: the training loop over a workload.
 * Flow:    parent sends one JOB; the worker answers HELLO, then PHASE, STEP and ALIVE records, and one
 *          DONE or FAILED; the parent may send STOP. job.h has their fields. repro-gpu says HELLO and answers each PROBE with VALUES.
 * Owner:   struct rp_worker (parent side) owns the process and the socket.
 * Extend:  a new record type is one row of RP_FRAMES; a type this build does not know is skipped.
 *
 * A frame is 16 bytes of header and a JSON text:
 *     "RPW1" | u16 version | u16 type | u32 length | u32 0      little endian, length <= RP_FRAME_MAX
 */
#ifndef RP_WORKER_WORKER_H
#define RP_WORKER_WORKER_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RP_FRAME_VERSION 1
#define RP_FRAME_MAX (16u << 20)

#define RP_FRAMES(X)                                                                                                   \
    X(RP_FRAME_JOB, "job")       /* parent: resolved recipe, data path, what to do */                                  \
    X(RP_FRAME_STOP, "stop")     /* parent: finish the step at hand, then DONE */                                      \
    X(RP_FRAME_HELLO, "hello")   /* worker: pid, backend description, plan */                                          \
    X(RP_FRAME_PHASE, "phase")   /* worker: entering a phase */                                                        \
    X(RP_FRAME_ALIVE, "alive")   /* worker: still moving, at most 5 a second */                                        \
    X(RP_FRAME_STEP, "step")     /* worker: one step record, the line of steps/rank0.jsonl */                          \
    X(RP_FRAME_DONE, "done")     /* worker: totals: peak memory, seconds by phase */                                   \
    X(RP_FRAME_FAILED, "failed") /* worker: code and message */                                                        \
    X(RP_FRAME_PROBE, "probe")   /* parent to repro-gpu: {"probe": "nvml"} */                                          \
    X(RP_FRAME_VALUES, "values") /* repro-gpu: {"probe": "nvml", "values": {...}} */                                   \
    X(RP_FRAME_DEVICE, "device") /* parent to repro-gpu: {"device"}: can it train? VALUES: job.h */                        \
    X(RP_FRAME_SELFTEST, "selftest") /* parent to repro-gpu: {"device"}: VALUES {"report": [...], "failed": why} */  \
    X(RP_FRAME_SPEED, "speed")       /* parent to repro-gpu: {"device", "seconds"}: VALUES likewise, the rows of backend/speed.h */ \
    X(RP_FRAME_SAMPLE, "sample") /* repro-gpu while it trains: one line of steps/rank0.samples.jsonl, or {"reason"}: why none come */

/* What repro-gpu can be asked for, in this order; gpu/gpu.h says what each knows. */
#define RP_GPU_PROBES(X) X(nvml) X(cuda) X(nccl)

enum rp_frame {
#define X(id, text) id,
    RP_FRAMES(X)
#undef X
    RP_FRAME_COUNT
};

#define RP_WORKER_FD 3            /* the socket's number in the worker */
#define RP_WORKER_ARG "--worker"  /* main.c: argv[1] of a worker */

/* Both ends. Writes one whole frame; threads take turns. */
int rp_frame_write(int fd, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* Take one frame off the front of what has arrived: 1 and *body (a new reference), 0 when it is not all there yet, -1 when the
 * bytes are no frame. A frame of an unknown type is a whole frame with *type == RP_FRAME_COUNT. */
int rp_frame_decode(struct rp_buf *in, enum rp_frame *type, json_t **body, struct rp_err *err) rp_must_check;
/* What the body of a FAILED says, into *err; -1, as rp_fail(). A code of no table counts as a bug of the worker. */
int rp_frame_failure(const json_t *body, struct rp_err *err);

/* Worker side: run one job from fd until DONE or FAILED. Returns the process's exit status. */
int rp_worker_main(int fd);
/* Something that looks at the device in a thread of its own while it trains, and sends SAMPLE frames to fd. */
struct rp_sampler {
    void (*start)(const char *pci_address, int fd); /* of the device; "" when it has none */
    void (*stop)(void);                             /* no frame comes after it; waits for a moment at most */
};
/* The same where the JOB frame has been read already; in: what came after it. sampler: may be NULL. */
int rp_worker_train(int fd, struct rp_buf *in, const json_t *job, const struct rp_sampler *sampler);

/* Parent side. */
struct rp_worker {
    pid_t pid;
    int fd;
    uint64_t last_heard_ns; /* when the last record came that shows life: samples come also while the rest hangs */
    struct rp_buf in;       /* bytes not decoded yet */
    const char *name;       /* in messages */
    int errors;             /* of a program: the other end of its stderr; else -1, the worker writes to ours */
};
int rp_worker_start(struct rp_worker *w, const json_t *job, struct rp_err *err) rp_must_check;
/* Every operation on a GPU against the definitions: the rows of backend/selftest.h in *report. RP_UNAVAILABLE: no GPU can be used. */
int rp_worker_selftest_gpu(const char *device, json_t **report, struct rp_err *err) rp_must_check;
/* How fast a GPU is: the rows of backend/speed.h, each taking about so many seconds. */
int rp_worker_speed_gpu(const char *device, double seconds, json_t **report, struct rp_err *err) rp_must_check;
int rp_worker_start_gpu(struct rp_worker *w, struct rp_err *err) rp_must_check; /* repro-gpu, to which nothing is sent yet */
/* Start another program as a worker; nothing is sent to it. program: its bytes; name: of its process and file; what: in messages.
 * err->sys is ENOENT where the system has not the loader that the program needs. */
int rp_worker_start_program(struct rp_worker *w, const struct rp_buf *program, const char *name, const char *what,
                            struct rp_err *err) rp_must_check;
/* Wait for the next record at most timeout_ms: 1 record, 0 timeout or a signal, -1 the worker is gone or broken (it is reaped then);
 * *err says in words a user understands what happened to it: crashed with signal 11, killed - out of memory?, sent rubbish. */
int rp_worker_next(struct rp_worker *w, int timeout_ms, enum rp_frame *type, json_t **body, struct rp_err *err) rp_must_check;
void rp_worker_stop(struct rp_worker *w); /* asks to finish the step at hand */
void rp_worker_end(struct rp_worker *w);  /* it has said its last word: a program has two seconds to give a GPU back, then as kill */
void rp_worker_kill(struct rp_worker *w); /* SIGKILL and reap, but a program that a driver holds is left behind; safe to call twice */

#endif
