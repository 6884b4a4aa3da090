/* What the tests of the model share: a device made of the literal definitions, small models, and samples from a counter.
 *
 * What:    fixture_device("reference" | an instruction set, threads), small_config(), samples_new().
 * Flow:    config -> struct rp_bert with parameters and samples in every slot.
 * Owner:   the test closes what it opens: rp_bert_close() and fixture_close().
 * Extend:  a new size of model is another function beside small_config().
 */
#ifndef RP_TESTS_BERT_FIXTURE_H
#define RP_TESTS_BERT_FIXTURE_H

#include "backend/backend.h"
#include "base/buf.h"
#include "model/bert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURE static __attribute__((unused))

/* -- a device whose operations are the definitions -- */

struct reference_device {
    struct rp_dev dev;
    void *block[16];
    int blocks;
};

static void *reference_block(struct rp_dev *dev, enum rp_class c, size_t bytes, struct rp_err *err)
{
    struct reference_device *r = (struct reference_device *)dev;
    size_t size = ((bytes ? bytes : 1) + 63) & ~(size_t)63;
    void *p = r->blocks < 16 ? aligned_alloc(64, size) : NULL;
    if (!p)
        return rp_fail_null(err, RP_UNAVAILABLE, "no memory for %s", rp_class_name(c));
    return r->block[r->blocks++] = memset(p, 0, size);
}

static int reference_copy(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    (void)dev;
    (void)err;
    memcpy(dst, src, bytes);
    return 0;
}

static int reference_sync(struct rp_dev *dev, struct rp_err *err)
{
    (void)dev;
    (void)err;
    return 0;
}

static void reference_close(struct rp_dev *dev)
{
    struct reference_device *r = (struct reference_device *)dev;
    for (int i = 0; i < r->blocks; i++)
        free(r->block[i]);
    free(r);
}

static int reference_supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    (void)o;
    return rp_use_check(u, "reference", err);
}

static size_t reference_needs(const struct rp_device_opts *o, const struct rp_op_use *u)
{
    (void)o;
    (void)u;
    return 0;
}

static uint64_t reference_memory(const struct rp_device_opts *o)
{
    (void)o;
    return (uint64_t)1 << 30;
}

static const struct rp_backend reference_backend = {
    .name = "reference",
    .close = reference_close,
    .block = reference_block,
    .supports = reference_supports,
    .needs = reference_needs,
    .memory = reference_memory,
    .upload = reference_copy,
    .download = reference_copy,
    .sync = reference_sync,
};

/* NULL when this machine cannot: the caller skips that device. */
FIXTURE struct rp_dev *fixture_device(const char *isa, int threads, int max_seq, int max_rows)
{
    struct rp_err err;
    if (!strcmp(isa, "reference")) {
        struct reference_device *r = rp_alloc(sizeof *r);
        r->dev.backend = &reference_backend;
        r->dev.op = &rp_reference_ops;
        return &r->dev;
    }
    const struct rp_backend *b = &rp_backend_cpu;
    struct rp_device_opts o = {.isa = isa, .threads = threads};
    const struct rp_op_use use[] = {{.op = RP_OP_gemm, .rows = max_rows}, {.op = RP_OP_attention_backward, .seq = max_seq}};
    struct rp_dev *dev = b && !b->unavailable(&o) ? rp_backend_open(b, &o, use, 2, &err) : NULL;
    if (!dev)
        printf("# no %s here\n", isa);
    return dev;
}

FIXTURE void fixture_close(struct rp_dev *dev)
{
    if (dev)
        dev->backend->close(dev);
}

/* -- models -- */

/* Odd sizes everywhere: no width is a power of two, no row count divides a block of 64. */
FIXTURE struct rp_bert_config small_config(void)
{
    return (struct rp_bert_config){.vocab = 83, .hidden = 24, .layers = 2, .heads = 3, .inner = 40, .positions = 16, .types = 2,
                                   .pair = 2, .seq = 11, .predictions = 3, .batch = 3, .micros = 1, .moments = 2, .eps = 1e-12f,
                                   .init_range = 0.2f, .seed_init = 1, .seed_dropout = 2};
}

/* -- samples -- */

static uint32_t sample_state;
static int sample_below(int n) /* numerical recipes' generator: the same samples everywhere */
{
    sample_state = sample_state * 1664525u + 1013904223u;
    return (int)((sample_state >> 8) % (uint32_t)n);
}

/* One micro-batch; the last sample has one unused prediction and padding. Free .ids, everything else lies behind it. */
FIXTURE struct rp_bert_samples samples_new(const struct rp_bert_config *c, uint32_t seed)
{
    int rows = c->batch * c->seq, n = c->batch * c->predictions;
    int32_t *ids = rp_alloc(((size_t)rows * 3 + (size_t)n * 3 + (size_t)c->batch) * 4);
    int32_t *types = ids + rows, *positions = types + rows, *labels = positions + n, *next = labels + n;
    float *weights = (float *)(next + c->batch);
    uint8_t *mask = (uint8_t *)(weights + n);
    sample_state = seed;
    for (int b = 0; b < c->batch; b++) {
        int length = c->seq - (b == c->batch - 1 ? c->seq / 3 : 0), split = length / 2;
        for (int s = 0; s < c->seq; s++) {
            ids[b * c->seq + s] = s < length ? sample_below(c->vocab) : 0;
            types[b * c->seq + s] = s >= split && s < length;
            mask[b * c->seq + s] = s < length;
        }
        for (int p = 0; p < c->predictions; p++) {
            int unused = b == c->batch - 1 && p == c->predictions - 1;
            positions[b * c->predictions + p] = unused ? 0 : 1 + p * (length - 2) / c->predictions;
            labels[b * c->predictions + p] = unused ? 0 : sample_below(c->vocab);
            weights[b * c->predictions + p] = unused ? 0.0f : 1.0f;
        }
        next[b] = sample_below(2);
    }
    return (struct rp_bert_samples){ids, types, mask, positions, labels, weights, next};
}

/* Parameters initialised, samples in every slot. */
FIXTURE struct rp_bert *model_new(const struct rp_bert_config *c, struct rp_dev *dev, uint32_t seed, struct rp_err *err)
{
    struct rp_bert *m = rp_bert_open(c, dev, err);
    if (!m || rp_bert_init(m, err) < 0)
        return NULL;
    for (int i = 0; i < c->micros; i++) {
        struct rp_bert_samples s = samples_new(c, seed + (uint32_t)i);
        int status = rp_bert_input(m, i, &s, err);
        free((void *)s.ids);
        if (status < 0)
            return NULL;
    }
    return m;
}

#endif
