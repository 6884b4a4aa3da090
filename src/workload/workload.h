/* A workload is something that can be trained: one table row, one folder under model/ for its mathematics.
 *
 * What:    the border between the worker's loop (worker/) and what it trains.
 * Flow:    plan() sizes everything without allocating, size() the same without a look at this machine; open() allocates and
 *          initialises; step() trains one step; root() digests.
 * Owner:   struct rp_train belongs to the workload; the worker holds the pointer between open() and close().
 * Extend:  a .c file with its functions and one row in workload.c.
 */
#ifndef RP_WORKLOAD_WORKLOAD_H
#define RP_WORKLOAD_WORKLOAD_H

#include "backend/backend.h"
#include "base/err.h"
#include "model/model.h"
#include "recipe/recipe.h"

#include <jansson.h>
#include <stdint.h>

/* The memory plan: bytes per tensor class, and what follows from it. */
struct rp_plan {
    uint64_t bytes[RP_CLASS_COUNT];
    uint64_t host;      /* code, stacks, libraries, data in flight: estimated */
    uint64_t total;     /* sum of the above */
    uint64_t available; /* what the backend says a run may use */
    int64_t batch;      /* batch size planned for (the recipe's, or the largest that fits for `max`) */
    int64_t max_batch;  /* largest batch that fits in `available` */
    uint64_t parameters; /* count of trained scalars */
    double flops_per_sample; /* model FLOPs, forward and backward, by the formula below */
    const char *flops_formula;
};

/* What one step produced. Times are not here: the worker takes them around step(). */
struct rp_step_result {
    float loss, grad_norm;     /* loss: mean over micro-batches; norm before clipping */
    float part[RP_LOSS_PARTS_MAX]; /* parts of loss, as the model lists them */
    double learning_rate;
    int64_t samples, counter[RP_COUNTERS_MAX]; /* counters as the model lists them */
};

struct rp_train; /* one opened workload */

/* Called by a workload between pieces of a step (a layer, a micro-batch): shows life, and nonzero means stop now. */
typedef int (*rp_alive_fn)(void *arg);

struct rp_workload {
    const struct rp_model *model;
    /* Fill *plan for the recipe on this backend. A recipe that is inconsistent (hidden % heads) is RP_USAGE naming the key. */
    int (*plan)(struct rp_plan *plan, const struct rp_recipe *r, const struct rp_backend *backend, const struct rp_device_opts *o,
                struct rp_err *err);
    /* The same for the recipe's batch, which has to be a number, without a look at what this machine has: available and max_batch stay
     * 0. */
    int (*size)(struct rp_plan *plan, const struct rp_recipe *r, const struct rp_backend *backend, const struct rp_device_opts *o,
                struct rp_err *err);
    /* data: directory, file or glob that holds the samples. Allocates every block, initialises or loads parameters. */
    struct rp_train *(*open)(const struct rp_recipe *r, const struct rp_plan *plan, struct rp_dev *dev, const char *data,
                             rp_alive_fn alive, void *alive_arg, struct rp_err *err);
    void (*close)(struct rp_train *t);
    /* Read and check the next step's samples (outside the timed part), then train it. step counts from 0. */
    int (*load)(struct rp_train *t, int64_t step, struct rp_err *err);
    int (*step)(struct rp_train *t, int64_t step, struct rp_step_result *out, struct rp_err *err);
    /* Merkle root over parameters and optimizer state in manifest order; per-tensor roots into *tensors ({"name": "hex"}) unless NULL. */
    int (*root)(struct rp_train *t, char hex[65], json_t **tensors, struct rp_err *err);
    /* That root from those of the tensors, as a bundle lists them, without a device. RP_MISMATCH: other tensors than the recipe's. */
    int (*root_of)(const struct rp_recipe *r, const json_t *tensors, char hex[65], struct rp_err *err);
    int (*save)(struct rp_train *t, const char *path, struct rp_err *err);
};

extern const struct rp_workload *const rp_workloads[RP_MODEL_COUNT]; /* NULL: not built in */
const struct rp_workload *rp_workload_find(const char *name);

#endif
