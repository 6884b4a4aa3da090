/* Child processes and the frames exchanged with them: the worker that trains (worker/), and the one that loads GPU
 * libraries (gpu/).
 *
 * What:    starts this program again or an embedded one, reads its frames, watches and ends it, and reports how it
 *          ended.
 * Flow:    rp_process_start_*() -> rp_frame_write(), rp_process_next() -> rp_process_end(). The child has its socket as
 *          RP_PROCESS_FD. worker/job.h has the fields of the frames of training; repro-gpu sends HELLO and answers each
 *          PROBE with VALUES.
 * Owner:   struct rp_process (in the parent) owns the process and the socket.
 * Extend:  a new frame type is one row of RP_FRAMES; unknown types are skipped. What a receiver reads of its body is an
 *          object of process/frames.def: RP_READ(step_frame, step, body).
 *
 * A frame is 16 bytes of header and a JSON text:
 *     "RPW1" | u16 version | u16 type | u32 length | u32 0      little endian, length <= RP_FRAME_MAX
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/object.h"

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#define RP_FRAME_VERSION 1
#define RP_FRAME_MAX (16u << 20)

#define RP_FRAMES(X)                                                                                                   \
    X(RP_FRAME_JOB, "job")       /* parent: resolved recipe, data path, what to do */                                  \
    X(RP_FRAME_STOP, "stop")     /* parent: finish the step at hand, then DONE */                                      \
    X(RP_FRAME_HELLO, "hello")   /* worker: pid, backend description, plan */                                          \
    X(RP_FRAME_PHASE, "phase")   /* worker: entering a phase; repro-gpu: a case of a report, worker.h */               \
    X(RP_FRAME_ALIVE, "alive")   /* worker: still running, a few a second */                                           \
    X(RP_FRAME_STEP, "step")     /* worker: a line of steps/rank0.jsonl; repro-gpu: a row of a report, worker.h */     \
    X(RP_FRAME_DONE, "done")     /* worker: totals: peak memory, seconds by phase */                                   \
    X(RP_FRAME_FAILED, "failed") /* worker: code and message */                                                        \
    X(RP_FRAME_PROBE, "probe")   /* parent to repro-gpu: {"probe": "nvml"} */                                          \
    X(RP_FRAME_VALUES, "values") /* repro-gpu: {"probe": "nvml", "values": {...}} */                                   \
    X(RP_FRAME_DEVICE, "device") /* parent to repro-gpu: {"device"}: can it train? VALUES: gpu/main.c */ \
    X(RP_FRAME_SELFTEST, "selftest") /* parent to repro-gpu: {"device"}: compare operations; answers: worker.h */ \
    X(RP_FRAME_SPEED, "speed")       /* parent to repro-gpu: {"device", "seconds"}: measure operations, likewise */ \
    /* parent to repro-gpu: {}: which GPUs may a command use? {"devices": [...]}: sample these; gpu/watch.c */         \
    X(RP_FRAME_SAMPLE, "sample")                                                                                       \
    X(RP_FRAME_LISTEN, "listen") /* a worker that is one of several ranks: the port where others reach it */           \
    X(RP_FRAME_PEERS, "peers")   /* parent, to all ranks: where each of them is */                                     \
    /* repro-gpu while it trains: one line of steps/rank0.telemetry.jsonl, or {"reason"}: why none come */             \
    X(RP_FRAME_TELEMETRY, "telemetry")                                                                                 \
    /* between the processes of a job, launch/join.c */                                                                \
    X(RP_FRAME_JOIN, "join")       /* member: who it is and what it brings */                                          \
    X(RP_FRAME_WORLD, "world")     /* leader: all members */                                                           \
    X(RP_FRAME_CLOCK, "clock")     /* leader: {"id"}; member: {"id", "wall", "monotonic"} */                           \
    X(RP_FRAME_BEAT, "beat")       /* both: nothing else was sent for a second */                                      \
    X(RP_FRAME_ABORT, "abort")     /* both: {"code", "message"}: the job ends, for everybody */                        \
    X(RP_FRAME_BYE, "bye")         /* both: nothing more comes, and that is in order */                                \
    /* leader: {"salt"}: capture this machine; member: {"capture", "hwloc"}, or FAILED */                              \
    X(RP_FRAME_CAPTURE, "capture")                                                                                     \
    X(RP_FRAME_RELAY, "relay")     /* member: {"rank", "frame", "body"}: a frame of one of its workers */              \
    X(RP_FRAME_COMMAND, "command") /* both: of exec, cli/exec_message.def */                                           \
    /* to a process that ssh started, launch/ssh.c */                                                                  \
    X(RP_FRAME_HOST, "host")       /* who it is and what it runs: cli/host_process.c */                                \
    X(RP_FRAME_MEET, "meet")       /* where process 0 listens */

enum rp_frame {
#define X(id, text) id,
    RP_FRAMES(X)
#undef X
    RP_FRAME_COUNT
};

#define RP_OBJECT_LIST "process/frames.def"
#include "base/object_structs.inc.h"

#define RP_PROCESS_FD 3 /* the socket's number in the process that was started */

/* Appends one whole frame. */
int rp_frame_encode(struct rp_buf *out, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* Writes one whole frame; thread-safe. */
int rp_frame_write(int fd, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* Takes one frame from the front of the bytes received: 1 and *body (a new reference), 0 if it is incomplete, -1 if the
 * bytes are not a frame. A frame of an unknown type has *type == RP_FRAME_COUNT. */
int rp_frame_decode(struct rp_buf *in, enum rp_frame *type, json_t **body, struct rp_err *err) rp_must_check;
/* Likewise of bytes that stay where they are: a peer may send many small frames, and moving the rest for each takes
 * quadratic time; *used: the bytes of the frame. */
int rp_frame_decode_at(const char *in, size_t size, size_t *used, enum rp_frame *type, json_t **body,
                       struct rp_err *err) rp_must_check;
/* Fills *err from the body of a FAILED frame; -1, as rp_fail(). An unknown code counts as a bug of the worker. */
int rp_frame_failure(const json_t *body, struct rp_err *err);
int rp_frame_failure_of(const struct rp_failed_frame *f, struct rp_err *err); /* the same of a body that was read */

/* Parent side. */
struct rp_process {
    pid_t pid;
    int fd;
    uint64_t last_heard_ns; /* when the last frame arrived, except TELEMETRY, which also arrives while training hangs */
    struct rp_buf in;       /* bytes not decoded yet */
    const char *name;       /* in messages */
    int errors;             /* the read end of a program's stderr; -1: the process writes to ours */
    int ended; /* how it left before its last frame, as waitpid() has it; 0: it did not, or with status 0 */
    int has_tool;           /* pid is a tool that starts the program, and the group of both */
};
/* Starts this executable again with the one argument `arg`; nothing is sent to it. otherwise: run in the child if the
 * file cannot be executed again; returns the exit status. what: in messages. */
int rp_process_start_self(struct rp_process *w, const char *arg, int (*otherwise)(int fd), const char *what,
                          struct rp_err *err) rp_must_check;
/* Starts another program; nothing is sent to it. program: its bytes; name: of its process and file; what: in messages.
 * err->sys is ENOENT if the system lacks the loader that the program needs. */
int rp_process_start_program(struct rp_process *w, const struct rp_buf *program, const char *name, const char *what,
                             struct rp_err *err) rp_must_check;
/* The same under the tool of $RP_GPU_TOOL: its words, separated by spaces or line ends, then the path of the program,
 * which lies in the cache. ncu and compute-sanitizer find a process only if they, or a program with glibc that they
 * watch, started it. Tool and program write to our stderr. Without the variable: rp_process_start_program(). */
int rp_process_start_watched(struct rp_process *w, const struct rp_buf *program, const char *name, const char *what,
                             struct rp_err *err) rp_must_check;
const char *rp_process_tool(void); /* $RP_GPU_TOOL; NULL: none */
/* Waits for the next frame for at most timeout_ms: 1 a frame, 0 timeout or a signal, -1 the process is gone or sent
 * invalid bytes (and is reaped); *err describes what happened to it for a user: crashed with signal 11, killed - out of
 * memory? */
int rp_process_next(struct rp_process *w, int timeout_ms, enum rp_frame *type, json_t **body,
                    struct rp_err *err) rp_must_check;
uint64_t rp_process_memory(const struct rp_process *w); /* bytes in memory, without pages of files; 0: unknown */
void rp_process_stop(struct rp_process *w); /* sends STOP: the worker finishes the current step */
/* After its last frame: closes this side's half of the socket, so that a program that waits for a question leaves,
 * waits for its end (to compute-sanitizer a program that is killed after its last answer has failed), and kills it
 * after wait_ms, a tool not before a minute: 0 if it ended with status 0, otherwise -1, and *err describes how it
 * ended. A process that rp_process_start_self() started is killed at once, and its end is not an error: 0. */
int rp_process_end(struct rp_process *w, int wait_ms, struct rp_err *err);
#define RP_PROCESS_END_MS 2000 /* wait_ms of a program that only has to release a GPU */
/* How long a program may be silent: $RP_GPU_TIMEOUT_MS (1 to RP_PROCESS_LIMIT_MAX_MS), otherwise this. Other limits do
 * not follow the variable, except as rp_worker_gpu_limits() describes (worker/worker.h). */
#define RP_PROCESS_LIMIT_MAX_MS 600000
int rp_process_limit_ms(int otherwise);
/* SIGKILL and reap, except a program that a driver blocks; safe to call twice */
void rp_process_kill(struct rp_process *w);
