/* A device that keeps stored tensors in 16 bits, as GPUs do, and whose operations are the definitions.
 *
 * What:    narrow_backend, narrow_ops(): every operation on a stored tensor reads it into fp32 numbers, has the
 *          definition compute with these, and keeps the 16 bits of the results. Mixed precision alone.
 * Flow:    fixture_device_for(.., "narrow", ..): what addresses of stored tensors, their sizes and exchanges assume of
 *          an element of 4 bytes shows as other bits, or to the address sanitizer.
 * Owner:   nothing is kept between operations.
 * Extend:  an operation on stored tensors is in ops/stored_calls.inc.h; without it, its definition reads 16-bit values
 *          as floats.
 */
#pragma once

#include "backend/backend.h"
#include "base/buf.h"
#include "base/err.h"
#include "ops/functions.h"
#include "ops/low.h"

#include <stdlib.h>

#define NARROW_TENSORS 8

/* The stored tensors of one call, as fp32 numbers. */
struct stored_call {
    const struct rp_ops *ops;
    struct rp_dev *dev;
    enum rp_tc_format format;
    struct {
        uint16_t *at;
        float *x;
        size_t n;
        int is_result;
    } tensor[NARROW_TENSORS];
    int tensors;
};

static inline struct stored_call stored_begin(struct rp_dev *dev)
{
    RP_BUG_IF(!rp_is_mixed(dev->numerics) || dev->stored_bytes != sizeof(uint16_t));
    return (struct stored_call){
        .ops = &rp_reference_ops, .dev = dev, .format = rp_arithmetic_of(dev->numerics)->format};
}

/* n elements from `at` on; in place: a tensor that was named before. */
static inline void *stored_tensor(struct stored_call *w, const void *at, size_t n, int is_result)
{
    int i = 0;
    if (!at)
        return NULL;
    while (i < w->tensors && w->tensor[i].at != at)
        i++;
    RP_BUG_IF(i == NARROW_TENSORS || (i < w->tensors && w->tensor[i].n != n));
    if (i == w->tensors) {
        w->tensor[w->tensors++].at = (uint16_t *)(uintptr_t)at;
        w->tensor[i].n = n;
        w->tensor[i].x = rp_alloc((n ? n : 1) * sizeof(float));
        for (size_t k = 0; k < n; k++)
            w->tensor[i].x[k] = r_float(rp_low_value(w->format, w->tensor[i].at[k]));
    }
    w->tensor[i].is_result |= is_result;
    return w->tensor[i].x;
}
static inline void stored_end(struct stored_call *w)
{
    for (int i = 0; i < w->tensors; i++) {
        for (size_t k = 0; w->tensor[i].is_result && k < w->tensor[i].n; k++)
            w->tensor[i].at[k] = rp_low_of(w->format, r_bits(w->tensor[i].x[k]));
        free(w->tensor[i].x);
    }
}

#include "ops/stored_calls.inc.h"

static inline struct rp_ops narrow_ops(void)
{
    struct rp_ops t = rp_reference_ops;
    stored_rows_of(&t);
    return t;
}
