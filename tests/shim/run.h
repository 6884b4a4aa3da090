/* The shim from outside: launching, and how threads are ordered.
 *
 * What:    shim_launch() runs one kernel of kernels.def to its end; shim_options says in which order.
 * Flow:    tests/shim/driver.c, the libcuda of the tests, calls it for cuLaunchKernel.
 * Owner:   see shim.h.
 * Extend:  an order is a value of enum shim_order and its permutation in arrange().
 */
#ifndef RP_TESTS_SHIM_RUN_H
#define RP_TESTS_SHIM_RUN_H

#include "tests/shim/shim.h"

enum shim_order { SHIM_FORWARD, SHIM_REVERSE, SHIM_SCRAMBLED, SHIM_ORDERS };

struct shim_options {
    enum shim_order order; /* of threads between meetings, of warps, and in which blocks start */
    int late;              /* copies land at the wait that must cover them, not at once */
    int ahead;             /* a warp runs until it waits for its block before the next one does; else all go from meeting to meeting */
    int resident;          /* blocks at a time, at most SHIM_RESIDENT */
    uint64_t seed;         /* of the permutations */
};
#define SHIM_RESIDENT 8
#define SHIM_THREADS 1024
#define SHIM_SHARED_MAX 232448 /* bytes a block may have on sm_90 */
extern __attribute__((visibility("default"))) struct shim_options shim_options;

/* NULL, or what went wrong, in words (static text): barrier divergence, a deadlock, a launch no GPU would take. Memory is then as
 * the kernel left it. */
const char *shim_launch(const char *kernel, struct shim_dim grid, struct shim_dim block, size_t shared, const void *args);

/* Whether kernels.def has the kernel, and the size of its arguments (0: no such kernel). */
size_t shim_args_size(const char *kernel);

/* For the checks of memory accesses: who runs. */
struct shim_place {
    const unsigned char *shared;
    size_t shared_bytes;
    unsigned thread, epoch, warp_epoch; /* barriers passed by the block, meetings passed by the warp */
    int resident;                       /* which of the resident blocks */
};
int shim_where(struct shim_place *p); /* 0 outside of kernels */
void shim_fault(const char *what);    /* stop this launch with a message (static text); does not return */
extern void (*shim_on_block)(int resident); /* NULL, or called when a block starts on one of the places */

#endif
