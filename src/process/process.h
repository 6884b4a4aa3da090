/* A process beside this one, and the frames between the two: the worker that trains (worker/), the one that loads GPU libraries (gpu/).
 *
 * What:    start this program again or an embedded one, read its frames, watch it, end it; say what became of it.
 * Flow:    rp_process_start_*() -> rp_frame_write(), rp_process_next() -> rp_process_end(). The other end has its socket as RP_PROCESS_FD.
 *          worker/job.h has the fields of the frames of training; repro-gpu sends HELLO and answers each PROBE with VALUES.
 * Owner:   struct rp_process (in the parent) owns the process and the socket.
 * Extend:  a new record type is one row of RP_FRAMES; a type this build does not know is skipped.
 *
 * A frame is 16 bytes of header and a JSON text:
 *     "RPW1" | u16 version | u16 type | u32 length | u32 0      little endian, length <= RP_FRAME_MAX
 */
#ifndef RP_PROCESS_PROCESS_H
#define RP_PROCESS_PROCESS_H

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
    X(RP_FRAME_DEVICE, "device") /* parent to repro-gpu: {"device", "max_seq", "max_rows"}: can it train? VALUES: job.h */ \
    X(RP_FRAME_SELFTEST, "selftest") /* parent to repro-gpu: {"device"}: VALUES {"report": [...], "failed": why} */  \
    X(RP_FRAME_SPEED, "speed")       /* parent to repro-gpu: {"device", "seconds"}: VALUES likewise, the rows of backend/speed.h */ \
    X(RP_FRAME_SAMPLE, "sample") /* repro-gpu while it trains: one line of steps/rank0.samples.jsonl, or {"reason"}: why none come */

enum rp_frame {
#define X(id, text) id,
    RP_FRAMES(X)
#undef X
    RP_FRAME_COUNT
};

#define RP_PROCESS_FD 3 /* the socket's number in the process that was started */

/* Both ends. Writes one whole frame; threads take turns. */
int rp_frame_write(int fd, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* Take one frame off the front of what has arrived: 1 and *body (a new reference), 0 when it is not all there yet, -1 when the
 * bytes are no frame. A frame of an unknown type is a whole frame with *type == RP_FRAME_COUNT. */
int rp_frame_decode(struct rp_buf *in, enum rp_frame *type, json_t **body, struct rp_err *err) rp_must_check;
/* What the body of a FAILED says, into *err; -1, as rp_fail(). A code of no table counts as a bug of the worker. */
int rp_frame_failure(const json_t *body, struct rp_err *err);

/* Parent side. */
struct rp_process {
    pid_t pid;
    int fd;
    uint64_t last_heard_ns; /* when the last record came that shows life: samples come also while the rest hangs */
    struct rp_buf in;       /* bytes not decoded yet */
    const char *name;       /* in messages */
    int errors;             /* of a program: the other end of its stderr; else -1, the process writes to ours */
};
/* Start this same file again with the one argument `arg`; nothing is sent to it. otherwise: what the child does with its socket where the
 * file cannot be executed again; it returns the exit status. what: in messages. */
int rp_process_start_self(struct rp_process *w, const char *arg, int (*otherwise)(int fd), const char *what,
                          struct rp_err *err) rp_must_check;
/* Start another program; nothing is sent to it. program: its bytes; name: of its process and file; what: in messages.
 * err->sys is ENOENT where the system has not the loader that the program needs. */
int rp_process_start_program(struct rp_process *w, const struct rp_buf *program, const char *name, const char *what,
                             struct rp_err *err) rp_must_check;
/* Wait for the next record at most timeout_ms: 1 record, 0 timeout or a signal, -1 it is gone or broken (and reaped);
 * *err says in words a user understands what happened to it: crashed with signal 11, killed - out of memory?, sent rubbish. */
int rp_process_next(struct rp_process *w, int timeout_ms, enum rp_frame *type, json_t **body, struct rp_err *err) rp_must_check;
void rp_process_stop(struct rp_process *w); /* asks to finish the step at hand */
void rp_process_end(struct rp_process *w);  /* it has said its last word: a program has two seconds to give a GPU back, then as kill */
void rp_process_kill(struct rp_process *w); /* SIGKILL and reap, but a program that a driver holds is left behind; safe to call twice */

#endif
