/* A manifest: the trained tensors of a model, their public names, and where each lies in one block of floats.
 *
 * What:    the list that initialisation, optimizers, norms, state roots and safetensors files all walk in the same order.
 * Flow:    the model adds its tensors in order; everybody else reads.
 * Owner:   struct rp_manifest owns its array; rp_manifest_fini() frees it.
 * Extend:  a model calls rp_manifest_add() for every tensor of its own list; nothing here knows a model.
 *
 * Parameters, each gradient and each optimizer moment are blocks of `floats` floats with the same offsets. Tensors start on 64
 * bytes except where they are joined to the one before (query, key and value are one matrix to a GEMM); what lies between
 * tensors stays zero.
 */
#ifndef RP_MODEL_MANIFEST_H
#define RP_MODEL_MANIFEST_H

#include <stddef.h>

enum rp_init { RP_INIT_NORMAL, RP_INIT_ZERO, RP_INIT_ONE };

struct rp_tensor {
    char name[96];
    int dims;       /* 1 or 2 */
    long shape[2];  /* row-major */
    size_t offset;  /* floats from the start of a block */
    size_t count;   /* floats */
    enum rp_init init;
};

struct rp_manifest {
    struct rp_tensor *t;
    int n, cap;
    size_t floats;     /* of one block, padding included */
    size_t parameters; /* of all tensors, padding not included */
};

/* cols 0: a vector of `rows`. joined: directly behind the tensor before. Returns the offset. */
size_t rp_manifest_add(struct rp_manifest *m, const char *name, enum rp_init init, long rows, long cols, int joined);
int rp_manifest_find(const struct rp_manifest *m, const char *name); /* index, or -1 */
size_t rp_manifest_largest(const struct rp_manifest *m);             /* floats of the largest tensor */
void rp_manifest_fini(struct rp_manifest *m);

#endif
