/* The shim from outside: launching, and how threads are ordered.
 *
 * What:    shim_launch() runs one kernel of kernels.def to its end; shim_options says in which order.
 * Flow:    tests/shim/driver.c, the libcuda of the tests, calls it for cuLaunchKernel.
 * Extend:  an order is a value of enum shim_order and its permutation in shim_arrange().
 */
#pragma once

#include "ops/tensor_core.h"
#include "tests/shim/shim.h"

enum shim_order { SHIM_FORWARD, SHIM_REVERSE, SHIM_SCRAMBLED, SHIM_ORDERS };

struct shim_options {
    enum shim_order order; /* of threads between meetings, of warps, and in which blocks start */
    int late;              /* copies land at the wait that must cover them, not at once, the newest first */
    /* a warp runs until it waits for its block before the next one does; else all go from meeting to meeting */
    int ahead;
    int resident;          /* blocks at a time, at most SHIM_RESIDENT */
    uint64_t seed;         /* of the permutations */
    struct rp_tc other;    /* products > 0: the sums of its tensor cores, instead of the device's own */
    const char *other_in;  /* in kernels whose names begin so, without rp_; NULL: in all */
    /* nonzero: only so many blocks, the last ones of each grid: what is at the end of tensors larger than memory */
    unsigned last;
    int checked;           /* built with checks of every access (check.c) */
    int strict;            /* with checks: kernels may touch nothing but memory that the driver gave */
};
#define SHIM_RESIDENT 8
#define SHIM_THREADS 1024
#define SHIM_SHARED_MAX 232448 /* bytes a block may have on sm_90 */
extern __attribute__((visibility("default"))) struct shim_options shim_options;

/* NULL, or what went wrong, in words (static text): barrier divergence, a deadlock, a launch no GPU would take. Memory
 * is then as the kernel left it. */
const char *shim_launch(const char *kernel, struct shim_dim grid, struct shim_dim block, size_t shared,
                        const void *args);

/* Whether kernels.def has the kernel, and the size of its arguments (0: no such kernel). */
size_t shim_args_size(const char *kernel);

/* For the executors (order.c): random numbers, which follow from the state that the launch sets; threads, warps or
 * blocks in the order of the options; the blocks of a grid that run, in the order in which they start (free() them);
 * why no GPU would take a launch, or NULL. */
extern uint64_t shim_random_state;
uint32_t shim_random(void);
void shim_arrange(uint32_t *order, uint32_t n);
uint32_t *shim_arrange_blocks(struct shim_dim grid, uint32_t *blocks);
const char *shim_refuse_launch(struct shim_dim grid, struct shim_dim block, unsigned threads, size_t shared);

/* For the checks of memory accesses (check.c): who runs. */
struct shim_place {
    const unsigned char *shared; /* of the block; NULL outside of kernels */
    size_t shared_bytes, args_bytes;
    const void *args;            /* of the kernel */
    unsigned thread, warp_epoch; /* meetings that its warp has passed */
    uint32_t stamp;              /* another one in every block and after each of its barriers */
    uint32_t block;              /* another one in every block */
    int resident;                /* which of the resident blocks */
};
extern struct shim_place shim_now;
void shim_fault(const char *what); /* stop this launch with a message (static text); does not return */
/* NULL, or called when an asynchronous copy starts, of `inside` bytes and zeros after them, and when it has landed. */
extern void (*shim_on_copy)(const void *to, const void *from, size_t inside, size_t bytes, int landed);

/* The memory of the GPU (memory.c): aligned to 256 bytes, with whatever was there before. */
void *shim_take(size_t bytes, int host); /* host: page-locked memory of the host, which the GPU reaches too */
size_t shim_give(void *data); /* its size */
enum shim_where { SHIM_ELSEWHERE, SHIM_DEVICE, SHIM_PAGE_LOCKED };
/* SHIM_ELSEWHERE: not all of it is in one block that was taken */
enum shim_where shim_where(const void *data, size_t bytes);
int shim_range(uintptr_t at, uintptr_t *begin, uintptr_t *end); /* of the block that has the address; 0: none has it */
extern uint32_t shim_generation; /* another one whenever memory was taken or given back */

/* NULL, or why a module that the program loads is refused (static text). */
const char *shim_module(const void *image);
