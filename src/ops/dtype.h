/* Element types: every tensor and every operation carries one.
 *
 * What:    the list of types a tensor may have, their sizes and their names in safetensors files.
 * Flow:    RP_DTYPES drives the enum, rp_dtype_bytes() and rp_dtype_name().
 * Extend:  one row here; add the type to its operations in ops.def, and to supports() of backends. An arithmetic
 *          contract of its own is a row of numerics.def.
 */
#pragma once

#include <stddef.h>

/* X(id, bytes of an element) */
#define RP_DTYPES(X) X(F32, 4) X(I32, 4) X(U8, 1) X(F16, 2) X(BF16, 2)

enum rp_dtype {
#define X(id, bytes) RP_##id,
    RP_DTYPES(X)
#undef X
    RP_STORED /* of a tensor in a model's lists: as the device stores results of operations (rp_stored of ops.h) */
};
/* Sets of them: RP_IN_F32 | RP_IN_U8 */
enum {
#define X(id, bytes) RP_IN_##id = 1 << RP_##id,
    RP_DTYPES(X)
#undef X
};

static inline size_t rp_dtype_bytes(enum rp_dtype t)
{
    static const unsigned char size[] = {
#define X(id, bytes) bytes,
        RP_DTYPES(X)
#undef X
    };
    return size[t];
}

/* As safetensors files spell it: "F32" */
static inline const char *rp_dtype_name(enum rp_dtype t)
{
    static const char *const name[] = {
#define X(id, bytes) #id,
        RP_DTYPES(X)
#undef X
    };
    return name[t];
}
