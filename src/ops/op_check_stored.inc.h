/* Stored tensors of a device that keeps them in 16 bits: a part of op_check.c, which includes it once. The cases have
 * fp32 numbers; for the time of a call the device gets 16 bits, and the reference the same numbers, rounded. */

#define STORED_TENSORS 8
#define STORED_GUARD 64 /* elements before and after each */

struct stored_call {
    const struct rp_ops *ops;
    struct rp_dev *dev;
    struct ctx *c;
    int side, tensors;
    enum rp_tc_format format;
    struct {
        float *at;
        uint16_t *block, *low; /* low: of the data; the reference has none of its own */
        size_t n;
        int foreign;
    } tensor[STORED_TENSORS];
};

/* The comparison of this thread: operations get no more than a device. */
static _Thread_local struct ctx *comparing;

static struct stored_call stored_begin(struct rp_dev *dev)
{
    struct ctx *c = comparing;
    int side = 0;
    while (c->dev[side] != dev)
        side++;
    return (struct stored_call){
        .ops = c->own[side], .dev = dev, .c = c, .side = side, .format = rp_arithmetic_of(dev->numerics)->format};
}

static uint16_t *stored_block(struct ctx *c, struct rp_dev *dev, size_t bytes, int *foreign)
{
    void *p = NULL;
    if (c->memory && c->failed.code == RP_OK)
        p = c->memory->take(dev, bytes, &c->failed);
    *foreign = p != NULL;
    if (!p)
        p = aligned_alloc(64, bytes);
    RP_BUG_IF(!p);
    memset(p, 0x5a, bytes);
    return p;
}

static size_t stored_bytes(const struct ctx *c, size_t n)
{
    return ((n + 2 * STORED_GUARD + (size_t)c->shape->offset) * sizeof(uint16_t) + 63) / 64 * 64;
}

static void *stored_tensor(struct stored_call *w, const void *at, size_t n, int is_result)
{
    int i = 0;
    (void)is_result;
    if (!at)
        return NULL;
    while (i < w->tensors && w->tensor[i].at != at)
        i++;
    RP_BUG_IF(i == STORED_TENSORS || (i < w->tensors && w->tensor[i].n != n));
    if (i == w->tensors) {
        float *x = (float *)(uintptr_t)at;
        w->tensor[w->tensors++].at = x;
        w->tensor[i].n = n;
        w->tensor[i].low = NULL;
        if (w->side > 0) {
            w->tensor[i].block = stored_block(w->c, w->dev, stored_bytes(w->c, n), &w->tensor[i].foreign);
            w->tensor[i].low = w->tensor[i].block + STORED_GUARD + w->c->shape->offset;
        }
        for (size_t k = 0; k < n; k++) {
            const uint16_t low = rp_low_of(w->format, r_bits(x[k]));
            x[k] = r_float(rp_low_value(w->format, low));
            if (w->side > 0)
                w->tensor[i].low[k] = low;
        }
    }
    return w->side > 0 ? (void *)w->tensor[i].low : (void *)w->tensor[i].at;
}

static void stored_end(struct stored_call *w)
{
    struct ctx *c = w->c;
    if (w->side > 0 && c->memory && c->failed.code == RP_OK)
        (void)!c->memory->wait(w->dev, &c->failed);
    for (int i = 0; i < w->tensors && w->side > 0; i++) {
        const size_t all = stored_bytes(c, w->tensor[i].n) / sizeof(uint16_t),
                     first = STORED_GUARD + (size_t)c->shape->offset;
        for (size_t k = 0; k < all; k++)
            if (k >= first && k < first + w->tensor[i].n)
                w->tensor[i].at[k - first] = r_float(rp_low_value(w->format, w->tensor[i].block[k]));
            else if (w->tensor[i].block[k] != 0x5a5a)
                c->has_overrun[w->side] = 1;
        if (w->tensor[i].foreign)
            c->memory->give(w->dev, w->tensor[i].block);
        else
            free(w->tensor[i].block);
    }
}

#include "ops/stored_calls.inc.h"

int rp_op_is_stored(enum rp_op op)
{
    struct rp_ops t = rp_reference_ops;
    const size_t row = sizeof t / RP_OP_COUNT;
    stored_rows_of(&t);
    return memcmp((const char *)&t + op * row, (const char *)&rp_reference_ops + op * row, row) != 0;
}

static int is_narrow(const struct ctx *c)
{
    return c->dev[1]->stored_bytes == sizeof(uint16_t);
}
