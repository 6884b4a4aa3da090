/* A backend is a device that executes the operations: one table row here, one folder beside this file.
 *
 * What:    the border between models and devices.
 * Flow:    supports() and needs() of every call that a run will make -> bytes of workspace; open() -> struct rp_dev; blocks of memory in,
 *          operations through dev->op, sync(), close().
 * Owner:   the backend owns every block it hands out until close(); one block per tensor class, nothing allocated in a step.
 * Extend:  a folder with open() and an rp_ops table, and one row in the list of the program that has it: worker/backends.c of repro,
 *          gpu/main.c of repro-gpu. unavailable() refuses instead of crashing.
 */
#ifndef RP_BACKEND_BACKEND_H
#define RP_BACKEND_BACKEND_H

#include "base/err.h"
#include "ops/ops.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Tensor classes: the rows of a memory plan, in the order they are printed. */
#define RP_CLASSES(X)                                                                                                  \
    X(RP_CLASS_PARAMETERS, "parameters")                                                                               \
    X(RP_CLASS_GRADIENTS, "gradients")                                                                                 \
    X(RP_CLASS_OPTIMIZER, "optimizer state")                                                                           \
    X(RP_CLASS_ACTIVATIONS, "activations")                                                                             \
    X(RP_CLASS_SCRATCH, "scratch")                                                                                     \
    X(RP_CLASS_INPUT, "input batches")                                                                                 \
    X(RP_CLASS_BACKEND, "backend buffers")
enum rp_class {
#define X(id, text) id,
    RP_CLASSES(X)
#undef X
    RP_CLASS_COUNT
};
const char *rp_class_name(enum rp_class c);

struct rp_device_opts {
    const char *isa; /* cpu: one of RP_ISAS; NULL: auto */
    int threads;     /* cpu: 0 = every CPU this process may use */
    const char *device; /* cuda: a number from 0 or a UUID ("GPU-..."); NULL or "": the first */
};

/* One call of an operation as a run will make it: what decides whether a device can do it, and with how much memory. */
struct rp_op_use {
    enum rp_op op;
    enum rp_dtype dtype;
    int rows, width, depth;          /* of a product m, n, k; whole tensors have rows * width elements */
    int segment;                     /* of a product, as in struct rp_gemm */
    int batch, seq, heads, head_dim; /* of attention */
};

/* A device that was opened, as documents name it: {"kind": "cpu", "name", "isa", "threads"} or {"kind": "cuda", "name", "index",
 * "compute_capability": "9.0"}. */
struct rp_device_info {
    char kind[16], name[128]; /* "cpu", "cuda"; what its maker calls it, "" where it does not say */
    char isa[16];             /* of a CPU, and */
    int threads;
    int index, major, minor; /* of a GPU: its number, its compute capability */
};
json_t *rp_device_json(const struct rp_device_info *d);
int rp_device_from_json(struct rp_device_info *out, const json_t *j); /* 0; -1 for null, and then *out is empty */
/* For people: "AMD EPYC 7B13, avx512, 2 threads", "NVIDIA H200, device 0, compute capability 9.0"; "unknown". Returns text. */
#define RP_DEVICE_TEXT 240
const char *rp_device_text(char text[RP_DEVICE_TEXT], const json_t *j);

struct rp_dev {
    const struct rp_backend *backend;
    const struct rp_ops *op;
    /* the backend's own fields follow */
};

struct rp_product {
    int rows, width, depth;
};

struct rp_backend {
    const char *name, *summary;
    int separate_memory; /* memory() is the device's own: what the process itself takes is no part of it */
    int remote; /* this program cannot open it: it asks, and lets train, the worker that can (worker/cuda.c) */
    /* NULL when usable here, else why not (static text): "no AVX2", "no driver" */
    const char *(*unavailable)(const struct rp_device_opts *o);
    /* 0, or -1 with RP_UNAVAILABLE: operation, shape, limit and remedy. Nothing is allocated. */
    int (*supports)(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err);
    /* bytes of the backend's own memory that such a call takes */
    size_t (*needs)(const struct rp_device_opts *o, const struct rp_op_use *u);
    /* workspace: the most that needs() says of any call, RP_CLASS_BACKEND of the plan; operations that need none run with 0 */
    struct rp_dev *(*open)(const struct rp_device_opts *o, size_t workspace, struct rp_err *err);
    void (*close)(struct rp_dev *dev);
    /* one zeroed block, aligned to at least 64 bytes; NULL and *err when it cannot be had */
    void *(*block)(struct rp_dev *dev, enum rp_class c, size_t bytes, struct rp_err *err);
    uint64_t (*memory)(const struct rp_device_opts *o);  /* bytes a run may use here (device, machine or cgroup limit, what is free) */
    /* memory that host and device both reach by the same address, for comparing them; NULL: all of it is (see block) */
    void *(*shared)(struct rp_dev *dev, size_t bytes, struct rp_err *err);
    void (*free_shared)(struct rp_dev *dev, void *data);
    int (*upload)(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err);
    int (*download)(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err);
    int (*sync)(struct rp_dev *dev, struct rp_err *err); /* wait; report the first failure since the last sync */
    void (*info)(const struct rp_dev *dev, struct rp_device_info *out); /* what was chosen; *out is zeroed */

    /* ---- for measuring; NULL where a device has no such thing ---- */
    /* The matrix product whose speed is the device's ceiling: a few milliseconds long, or a few tenths of a second in plain code. Another
     * shape would be another ceiling, so that these stay as they are. */
    struct rp_product (*product)(const struct rp_dev *dev);
    /* The device's own clock: nanoseconds from time_begin() until the end of what the last sync() or download() after it waited for. */
    int (*time_begin)(struct rp_dev *dev, struct rp_err *err);
    int (*time_end)(struct rp_dev *dev, uint64_t *ns, struct rp_err *err);
    void (*copy)(struct rp_dev *dev, void *dst, const void *src, size_t bytes); /* between blocks; queued like an operation */
    void (*feed)(struct rp_dev *dev, void *dst, size_t bytes, int times); /* the same bytes from the host as fast as the link takes them */
    void (*release)(struct rp_dev *dev); /* gives back every block that was handed out; the device stays open */
    /* What block() and open() reserved, and by how much what is free on the device has shrunk since just before; 0 or -1 */
    int (*taken)(struct rp_dev *dev, uint64_t *reserved, uint64_t *taken, struct rp_err *err);
    void (*address)(const struct rp_dev *dev, char text[32]); /* on the PCI bus, "0000:65:00.0"; "" when it has none */
};

extern const struct rp_backend rp_backend_cpu;  /* cpu/cpu.c */
extern const struct rp_backend rp_backend_cuda; /* cuda/cuda.c; in repro-gpu only */
/* In a list ended by NULL; NULL if there is none of that name. */
const struct rp_backend *rp_backend_find(const struct rp_backend *const *list, const char *name);

/* supports() of each of n calls, the first refusal is *err; and the most that one needs. */
int rp_backend_ask(const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_op_use *use, int n, size_t *workspace,
                   struct rp_err *err) rp_must_check;
/* Ask, then open with that workspace. */
struct rp_dev *rp_backend_open(const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_op_use *use, int n,
                               struct rp_err *err) rp_must_check;

/* For supports(). What no backend can do: another element type than in ops.def, and sizes beyond an int or 2^41 elements. */
int rp_use_check(const struct rp_op_use *u, const char *backend, struct rp_err *err) rp_must_check;
/* -1 with RP_UNAVAILABLE: "gemm of 2 x 3 x 4 " and the text, which names limit and remedy. */
int rp_use_refuse(const struct rp_op_use *u, struct rp_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Refused when `is` of `what` is more than most. */
int rp_use_limit(const struct rp_op_use *u, const char *what, double is, double most, struct rp_err *err) rp_must_check;
static inline int rp_use_is_attention(const struct rp_op_use *u)
{
    return u->op == RP_OP_attention_forward || u->op == RP_OP_attention_backward;
}

#endif
