/* Compares devices with the literal definition, bit for bit.
 *
 * What:    one case per row of ops.def: random inputs of a given shape, the operation on every side, then every byte is
 *          compared, including the inputs and guard bytes around each tensor.
 * Flow:    (table, device, operation, shape) -> 0, or -1 and the first differing element.
 * Extend:  a new operation needs case_<name>() in op_check.c or a part of it (op_check_*.inc.h); without it this does
 *          not compile.
 */
#pragma once

#include "base/err.h"
#include "ops/ops.h"

struct rp_op_shape {
    int rows, width;                  /* of row operations; whole tensors have rows * width elements */
    int batch, seq, heads, head_dim;  /* of attention */
    int depth, segment;               /* of matrix products: k, and the chain length */
    struct rp_conv conv;              /* of convolutions and pools */
    int shards;                       /* of softmax_xent; 0: 1 */
    float dropout;                    /* probability; 0: none */
    int in_place;                     /* output over input, if the operation allows it */
    int offset;                       /* tensors of floats start this many elements after a multiple of 64 bytes */
    /* 1: one value of four is a zero of either sign or subnormal; 2: every value is -0 */
    int small;
    unsigned variant;                 /* other choices, bits of enum rp_variant */
    uint64_t seed;
};

/* Each operation uses some of these; bits have another meaning for another operation. */
enum rp_variant {
    /* gemm and copy_columns; ALIGNED: if the sizes are; ODD_C: gemm, the pitch of c is odd all the same */
    RP_VARIANT_TA = 1, RP_VARIANT_TB = 2, RP_VARIANT_BIAS = 4, RP_VARIANT_ADD = 8, RP_VARIANT_ALIGNED = 16,
    RP_VARIANT_ODD_C = 32,
    /* attention; CAUSAL: without key_mask; DOCUMENTS: causal with first_key */
    RP_VARIANT_KEY_HOLES = 1, RP_VARIANT_SHORT_SAMPLES = 2, RP_VARIANT_NO_LAST_GRADIENTS = 4,
    RP_VARIANT_CAUSAL = 8, RP_VARIANT_DOCUMENTS = 16,
    /* embed_forward */
    RP_VARIANT_NO_TYPES = 1, RP_VARIANT_POSITION_IDS = 2,
    /* residual_layernorm_forward: z, over residual in place */
    RP_VARIANT_KEEP_SUM = 1,
    /* layernorm_backward; NO_DX and NO_DROP: without dropout; ADD_GRADIENT: add; ADD_OVER: dz == add */
    RP_VARIANT_NO_DX = 1, RP_VARIANT_NO_DBIAS = 2, RP_VARIANT_NO_DROP = 4,
    RP_VARIANT_ADD_GRADIENT = 16, RP_VARIANT_ADD_OVER = 32,
    /* dropout: the first decision is at the threshold: kept */
    RP_VARIANT_AT_THRESHOLD = 8,
    /* row_sums; SINGLES: groups of 1, but 70 in every 97th */
    RP_VARIANT_ONE_GROUP = 1, RP_VARIANT_ADD_ROWS = 2, RP_VARIANT_SINGLES = 4,
    /* adam_update, lamb_direction; DECAY: sgd_update and lars_update, too */
    RP_VARIANT_BIAS_CORRECTION = 1, RP_VARIANT_DECAY = 2,
    /* lamb_apply: the sum is 0 */
    RP_VARIANT_NO_WEIGHT_SUM = 1, RP_VARIANT_NO_UPDATE_SUM = 2,
    /* conv_forward; conv_dgrad */
    RP_VARIANT_NO_MEAN = 1, RP_VARIANT_ADDED = 2,
    /* batchnorm_*; STATISTICS: no y; OVER_ADDED: y == add */
    RP_VARIANT_RELU = 1, RP_VARIANT_ADD_INPUT = 2, RP_VARIANT_STATISTICS = 4, RP_VARIANT_OVER_ADDED = 8,
    /* sgd_update, lars_update */
    RP_VARIANT_NESTEROV = 1, RP_VARIANT_ADAPT = 4,
    /* init_normal: not truncated */
    RP_VARIANT_WHOLE_NORMAL = 1,
    /* perturb: of a part of a tensor */
    RP_VARIANT_DIVIDED = 1,
    /* evidence: some NaN and infinities among the values */
    RP_VARIANT_NONFINITE = 1,
};

/* Memory that the host and a device with separate memory access by the same address. */
struct rp_op_memory {
    void *(*take)(struct rp_dev *dev, size_t bytes, struct rp_err *err);
    void (*give)(struct rp_dev *dev, void *data);
    int (*wait)(struct rp_dev *dev, struct rp_err *err); /* until the operations are done */
};
/* Whether it reads or writes stored tensors. */
int rp_op_is_stored(enum rp_op op);
/* memory: NULL if the device accesses all memory. */
int rp_ops_compare(const struct rp_op_memory *memory, const struct rp_ops *ops, struct rp_dev *dev, enum rp_op op,
                   const struct rp_op_shape *s, struct rp_err *err) rp_must_check;
/* Several devices with one arithmetic, of which none stores 16 bits or all do: the reference computes the case once.
 * err: one for each, RP_OK where nothing differs. Returns how many differ or failed. */
#define RP_OP_DEVICES 5 /* at most */
int rp_ops_compare_all(const struct rp_op_memory *memory, struct rp_dev *const *dev, int n, enum rp_op op,
                       const struct rp_op_shape *s, struct rp_err *err) rp_must_check;
