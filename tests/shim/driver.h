/* What the parts of the tests' libcuda share.
 *
 * What:    counting, failing and hanging of every function; what is held; work on streams.
 * Flow:    driver.c (start, devices, memory), launch.c (modules, launches, graphs), stream.c (streams, events, copies).
 * Owner:   driver.c counts what the product has not given back.
 * Extend:  a function begins with ENTER, one that needs a context with ENTER_CONTEXT, one that gives something back
 *          with GIVE_BACK.
 */
#pragma once

#include "tests/shim/run.h"

#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))

enum thing { CONTEXT, BLOCK, PINNED, STREAM, EVENT, MODULE, GRAPH, EXEC, THINGS };
extern long shim_held[THINGS];
extern uint64_t shim_used;    /* bytes of the GPU */
extern CUresult shim_broken;  /* a failure that stays, as after a lost device */

uint64_t shim_free(void);    /* bytes of it that are left */
int shim_capability(void);
int shim_shared_most(void); /* bytes that a block may have */
uint64_t shim_number(const char *variable, uint64_t otherwise);
CUresult shim_enter(const char *function, long *count, int needs_context);
/* A fault of the program that a driver might let pass and a GPU would not: said, and everything fails from now on. */
CUresult shim_misused(const char *what);

/* One thread at a time; calls within calls are the same thread's. */
int shim_lock(void);
void shim_unlock(const int *locked);
#define LOCKED __attribute__((cleanup(shim_unlock), unused)) const int locked_ = shim_lock()

#define ENTER_AS(needs_context)                                                                                        \
    LOCKED;                                                                                                            \
    static long count_;                                                                                                \
    CUresult entered_ = shim_enter(__func__, &count_, needs_context);                                                  \
    if (entered_ != CUDA_SUCCESS)                                                                                      \
    return entered_
#define ENTER ENTER_AS(0)
#define ENTER_CONTEXT ENTER_AS(1)
#define GIVE_BACK                                                                                                      \
    LOCKED;                                                                                                            \
    static long count_;                                                                                                \
    CUresult entered_ = shim_enter(__func__, &count_, 1)

/* Something that runs on a stream. */
struct shim_work {
    enum { LAUNCH, COPY, SET, RECORD, WAIT, CALL } kind;
    int (*call)(void *data); /* nonzero: done; else called again before anything after it on the stream */
    const char *kernel;
    struct shim_dim grid, block;
    size_t shared;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    CUevent event;
    uint64_t version; /* of the event: which of its records is meant */
    unsigned char args[4096];
};
/* Run it, or queue it: see SHIM_DEFER. A CALL that is not done is queued in any case, and then all that follows. */
CUresult shim_submit(CUstream stream, const struct shim_work *w);
/* Whether work is queued anywhere. */
int shim_is_busy(void);

/* For the libnccl of the tests (tests/fake/nccl.c). */
CUresult shim_call(CUstream stream, int (*call)(void *data), void *data);
int shim_current_device(void); /* -1: no context */
