/* Arithmetic contracts: under which rules the numbers of a run were computed.
 *
 * What:    numerics.def as an enumeration with names.
 * Flow:    a recipe's train.precision -> enum rp_numerics -> "numerics" of run.json, statements and checkpoints.
 * Extend:  a row of numerics.def; schemas list the names (tests/unit/test_schema.c).
 */
#pragma once

#include "ops/dtype.h"
#include "ops/tensor_core.h"

enum rp_numerics {
#define NUMERICS(id, name, storage, sums, replayable, what) RP_NUMERICS_##id,
#include "ops/numerics.def"
#undef NUMERICS
    RP_NUMERICS_COUNT
};

static inline const char *rp_numerics_name(enum rp_numerics n)
{
    static const char *const names[] = {
#define NUMERICS(id, name, storage, sums, replayable, what) name,
#include "ops/numerics.def"
#undef NUMERICS
    };
    return names[n];
}

/* What operations store, and how they sum products. */
struct rp_arithmetic {
    enum rp_dtype storage; /* of activations, their gradients and the weights of products */
    enum rp_tc_format format; /* with 16 bits */
    struct rp_tc tc;          /* with 16 bits */
};

static inline const struct rp_arithmetic *rp_arithmetic_of(enum rp_numerics n)
{
#define RP_SUMS_F32 {0}
#define RP_SUMS_TC4 RP_TC4
#define RP_SUMS_TC8 RP_TC8
#define RP_SUMS_TC16 RP_TC16
    static const struct rp_arithmetic arithmetic[] = {
#define NUMERICS(id, name, storage, sums, replayable, what) \
    {RP_##storage, RP_##storage == RP_BF16 ? RP_TC_BF16 : RP_TC_FP16, RP_SUMS_##sums},
#include "ops/numerics.def"
#undef NUMERICS
    };
    return &arithmetic[n];
}

/* Mixed precision: activations are stored in 16 bits. */
static inline int rp_is_mixed(enum rp_numerics n)
{
    return rp_arithmetic_of(n)->storage != RP_F32;
}
