/* Arithmetic contracts: under which rules the numbers of a run were computed.
 *
 * What:    numerics.def as an enumeration with names.
 * Flow:    a recipe's train.precision -> enum rp_numerics -> "numerics" of run.json, statements and checkpoints.
 * Extend:  a row of numerics.def; schemas list the names (tests/unit/test_schema.c).
 */
#pragma once

#include "ops/dtype.h"

enum rp_numerics {
#define NUMERICS(id, name, storage, accumulation, replayable, what) RP_NUMERICS_##id,
#include "ops/numerics.def"
#undef NUMERICS
    RP_NUMERICS_COUNT
};

static inline const char *rp_numerics_name(enum rp_numerics n)
{
    static const char *const names[] = {
#define NUMERICS(id, name, storage, accumulation, replayable, what) name,
#include "ops/numerics.def"
#undef NUMERICS
    };
    return names[n];
}
