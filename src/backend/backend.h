/* A backend executes the operations on a device.
 *
 * What:    the interface between models and devices.
 * Flow:    supports() and needs() of every call that a run will make -> bytes of workspace; open() -> struct rp_dev;
 *          blocks of memory in, operations through dev->op, sync(), close().
 * Owner:   the backend owns every block until close(); one block per tensor class, nothing is allocated in a step.
 * Extend:  a folder with a struct rp_backend and an rp_ops table, and one row in the list of the program that has it:
 *          worker/backends.c of repro, gpu/main.c of repro-gpu. unavailable() refuses instead of crashing.
 */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "ops/ops.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define RP_MEMORY_UNKNOWN UINT64_MAX

/* Tensor classes: the rows of a memory plan, in the order in which they are printed. */
enum rp_class {
    RP_CLASS_PARAMETERS, RP_CLASS_GRADIENTS, RP_CLASS_OPTIMIZER, RP_CLASS_ACTIVATIONS, RP_CLASS_SCRATCH, RP_CLASS_INPUT,
    RP_CLASS_BACKEND,
    RP_CLASS_COUNT
};
const char *rp_class_name(enum rp_class c); /* "optimizer state" */
const char *rp_class_key(enum rp_class c);  /* in documents: "optimizer_state" */

struct rp_device_opts {
    const char *isa; /* cpu: one of RP_ISAS; NULL: auto */
    int threads;     /* cpu: 0 = every CPU this process may use */
    const char *device; /* cuda: a number from 0 or a UUID ("GPU-..."); NULL or "": the first */
    enum rp_numerics numerics; /* the arithmetic of a run; 0: strict fp32 */
    int any_tensor_core; /* the same precision with the sums of another family of tensor cores will do */
    int answer_s; /* of a remote backend: seconds in which its worker must answer; 0: the limit of worker/gpu_proxy.c */
};

/* One call of an operation as a run will make it: decides whether a device supports it, and how much memory it
 * needs. */
struct rp_op_use {
    enum rp_op op;
    enum rp_dtype dtype;
    int rows, width, depth;          /* of a GEMM m, n, k; whole tensors have rows * width elements */
    int segment;                     /* of a GEMM, as in struct rp_gemm */
    int batch, seq, heads, head_dim, causal; /* of attention */
    struct rp_conv conv;             /* of a convolution or pool */
};

/* Whether the tensor cores of a GPU gave the sums of its arithmetic (ops/tensor_probe.h) when it was opened. */
struct rp_device_proof {
    char outcome[12];                /* "proved", "unproven": none was computed; "": not in mixed precision */
    char sums_sha256[RP_SHA256_HEX]; /* proved: rp_tc_probe_digest() of what it computed */
    int edges;                       /* proved: RP_PROBE_EDGES that differ */
    char instruction[8];             /* proved: that of products of matrices may be "wgmma"; else all are "mma" */
};

/* An opened device, as documents describe it: {"kind": "cpu", "name", "isa", "threads"} or {"kind": "cuda", "name",
 * "index", "compute_capability": "9.0"}, in mixed precision with "tensor_core": {"outcome", "sums_sha256", "edges",
 * "instruction"}. */
struct rp_device_info {
    char kind[16], name[128]; /* "cpu", "cuda"; the vendor's name for it, "" if unknown */
    char isa[16];             /* of a CPU */
    int threads;              /* of a CPU */
    int index, major, minor;  /* of a GPU: its number, its compute capability */
    char pci_address[24];     /* of a GPU: "0000:65:00.0"; "": unknown */
    struct rp_device_proof proof; /* of a GPU */
};
json_t *rp_device_json(const struct rp_device_info *d);
int rp_device_from_json(struct rp_device_info *out, const json_t *j); /* 0; -1 for null, and then *out is empty */
/* For people: "AMD EPYC 7B13, avx512, 2 threads", "NVIDIA H200, device 0, compute capability 9.0"; "unknown". Returns
 * text. */
#define RP_DEVICE_TEXT 240
const char *rp_device_text(char text[RP_DEVICE_TEXT], const json_t *j);

struct rp_gemm_shape {
    int rows, width, depth; /* m, n, k */
};

struct rp_backend {
    const char *name, *summary;
    int separate_memory; /* memory() is the device's own, not the process's */
    size_t mixed; /* bytes of a stored element in mixed precision; 0: it computes in strict fp32 alone */
    int remote; /* this program cannot open it: a worker answers for it and trains on it (worker/gpu_proxy.c) */
    /* NULL if usable here, else the reason (static text): "no AVX2", "no driver" */
    const char *(*unavailable)(const struct rp_device_opts *o);
    /* 0, or -1 with RP_UNAVAILABLE: operation, shape, limit and remedy. Nothing is allocated. */
    int (*supports)(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err);
    /* bytes of workspace for such a call */
    size_t (*needs)(const struct rp_device_opts *o, const struct rp_op_use *u);
    /* workspace: the maximum of needs() over all calls, RP_CLASS_BACKEND of the plan; operations that need none run
     * with 0 */
    struct rp_dev *(*open)(const struct rp_device_opts *o, size_t workspace, struct rp_err *err);
    void (*close)(struct rp_dev *dev);
    /* one zeroed block, aligned to at least 64 bytes; NULL and *err if there is no memory */
    void *(*block)(struct rp_dev *dev, enum rp_class c, size_t bytes, struct rp_err *err);
    /* bytes a run may use here (device, machine or cgroup limit, what is free), or RP_MEMORY_UNKNOWN */
    uint64_t (*memory)(const struct rp_device_opts *o);
    /* memory that host and device access by the same address, for comparing their results; NULL: all blocks are */
    void *(*shared)(struct rp_dev *dev, size_t bytes, struct rp_err *err);
    void (*free_shared)(struct rp_dev *dev, void *data);
    int (*upload)(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err);
    int (*download)(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err);
    int (*sync)(struct rp_dev *dev, struct rp_err *err); /* waits, and reports the first failure since the last sync */
    void (*info)(const struct rp_dev *dev, struct rp_device_info *out); /* *out is zeroed by the caller */

    /* ---- a second queue of operations, for another thread; NULL: the operations of ops/reference.c do on the same
     * memory ---- */
    /* It shares the device's blocks, and has the operations that need no workspace, and sync(); close() it before the
     * device. */
    struct rp_dev *(*second_queue)(struct rp_dev *dev, struct rp_err *err);
    /* in another thread than that of open(), before anything else there */
    int (*bind_thread)(struct rp_dev *dev, struct rp_err *err);
    /* What dev queues from now on waits for what `first`, the device itself, has queued: called by the thread of
     * `first`. */
    int (*wait_for)(struct rp_dev *dev, struct rp_dev *first, struct rp_err *err);

    /* ---- for measuring; NULL: not available ---- */
    /* The GEMM whose speed is the device's ceiling: a few milliseconds long, or a few tenths of a second in plain code.
     * Do not change it: another shape would be another ceiling. */
    struct rp_gemm_shape (*peak_gemm)(const struct rp_dev *dev);
    /* The device's own clock: nanoseconds from time_begin() to the end of the work that the last sync() or download()
     * waited for. */
    int (*time_begin)(struct rp_dev *dev, struct rp_err *err);
    int (*time_end)(struct rp_dev *dev, uint64_t *ns, struct rp_err *err);
    /* between blocks; queued like an operation */
    void (*copy)(struct rp_dev *dev, void *dst, const void *src, size_t bytes);
    /* from the host, for its bandwidth; queued */
    void (*upload_repeated)(struct rp_dev *dev, void *dst, size_t bytes, int times);
    void (*release)(struct rp_dev *dev); /* frees every block; the device stays open */
    /* Bytes that open() and block() reserved, and by how much the device's free memory has shrunk since just before
     * open() */
    int (*used_memory)(struct rp_dev *dev, uint64_t *reserved, uint64_t *used, struct rp_err *err);
    void (*address)(const struct rp_dev *dev, char text[32]); /* on the PCI bus, "0000:65:00.0"; "": none */
    /* The name of kernel `number`, from 0, of those that this device can run, and its launches since it was opened;
     * NULL: there are fewer */
    const char *(*kernel)(const struct rp_dev *dev, int number, uint64_t *launches);
};

extern const struct rp_backend rp_backend_cpu;  /* cpu/cpu.c */
extern const struct rp_backend rp_backend_cuda; /* cuda/cuda.c; in repro-gpu only */
/* In a list ended by NULL; NULL: unknown name. */
const struct rp_backend *rp_backend_find(const struct rp_backend *const *list, const char *name);

/* Checks supports() of n calls; *workspace: the maximum of needs(). */
int rp_backend_ask(const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_op_use *use, int n,
                   size_t *workspace, struct rp_err *err) rp_must_check;
/* Checks the calls, then opens the device with their workspace. */
struct rp_dev *rp_backend_open(const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_op_use *use,
                               int n, struct rp_err *err) rp_must_check;

/* For supports(): limits of every backend, which are the element types of ops.def and sizes within an int and 2^41
 * elements. */
int rp_use_check(const struct rp_op_use *u, const char *backend, struct rp_err *err) rp_must_check;
/* Returns -1 with RP_UNAVAILABLE: "gemm of 2 x 3 x 4 " and the text, which names limit and remedy. */
int rp_use_refuse(const struct rp_op_use *u, struct rp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses a call that has `is` of `what`, if that is more than `most`. */
int rp_use_limit(const struct rp_op_use *u, const char *what, double is, double most, struct rp_err *err) rp_must_check;
/* Bytes of an element of a stored tensor on its devices. */
static inline size_t rp_stored_bytes(const struct rp_backend *b, enum rp_numerics n)
{
    return rp_is_mixed(n) && b->mixed ? b->mixed : sizeof(float);
}
static inline int rp_use_is_attention(const struct rp_op_use *u)
{
    return u->op == RP_OP_attention_forward || u->op == RP_OP_attention_backward;
}
