/* A backend against the literal definition, bit for bit.
 *
 * What:    one case per row of ops.def: random inputs of a given shape, the operation on both sides, every byte compared, the
 *          inputs and the guard words around each tensor too.
 * Flow:    (table, device, operation, shape) -> 0, or -1 and the first differing element.
 * Owner:   each comparison allocates and frees its own tensors, in memory that the device reaches too.
 * Extend:  a new operation gets case_<name>() in compare.c; without it this does not compile.
 */
#ifndef RP_OPS_COMPARE_H
#define RP_OPS_COMPARE_H

#include "base/err.h"
#include "ops/ops.h"

struct rp_op_shape {
    int rows, width;                  /* of row operations; whole tensors have rows * width elements */
    int batch, seq, heads, head_dim;  /* of attention */
    int depth, segment;               /* of matrix products: k, and the chain length */
    float dropout;                    /* probability; 0: none */
    int in_place;                     /* output over input where the operation allows it */
    int offset;                       /* elements that tensors of floats begin past a multiple of 64 bytes */
    int small;                        /* 1: one value of four is a zero of either sign or too small to be normal; 2: every value is -0 */
    unsigned variant;                 /* other choices, one bit each: transpositions, optional arguments, holes in the key mask */
    uint64_t seed;
};

/* Memory of a device that does not reach this process's: what take() gives both reach by the same address. */
struct rp_op_memory {
    void *(*take)(struct rp_dev *dev, size_t bytes, struct rp_err *err);
    void (*give)(struct rp_dev *dev, void *data);
    int (*wait)(struct rp_dev *dev, struct rp_err *err); /* until the operations are done */
};
int rp_ops_compare(const struct rp_ops *ops, struct rp_dev *dev, enum rp_op op, const struct rp_op_shape *s, struct rp_err *err)
    rp_must_check;
int rp_ops_compare_in(const struct rp_op_memory *memory, const struct rp_ops *ops, struct rp_dev *dev, enum rp_op op,
                      const struct rp_op_shape *s, struct rp_err *err) rp_must_check;

#endif
