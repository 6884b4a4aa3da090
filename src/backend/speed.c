#include "backend/speed.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 12288 /* most rows: batch 96, sequence 128 */
#define HIDDEN 768l
#define INNER 3072l
#define VOCAB 30522l
#define WINDOWS 5
#define ELEMENTS (ROWS * INNER) /* floats of a large block: [12288, 3072] */

struct bench {
    struct rp_dev *dev;
    float *x, *y, *z, *w; /* ELEMENTS floats each, random */
    float *work, *small;  /* column sums; vectors */
    uint8_t *mask, *keys;
    double seconds;
    json_t *rows;
    struct rp_err *err;
};

struct call {
    void (*run)(struct bench *b, const struct call *c);
    const char *what, *name;
    long m, n, k; /* of a product; rows and width; batch and sequence */
    int ta, tb, segment;
    double flops, bytes;
};

/* ---- what is called ---- */

static void run_gemm(struct bench *b, const struct call *c)
{
    struct rp_gemm g = {.ta = c->ta, .tb = c->tb, .m = (int)c->m, .n = (int)c->n, .k = (int)c->k, .segment = c->segment, .a = b->x,
                        .lda = c->ta ? c->m : c->k, .b = b->w, .ldb = c->tb ? c->k : c->n, .c = b->y, .ldc = c->n};
    b->dev->op->gemm(b->dev, &g);
}

static struct rp_dropout dropout(long rows_per_sample)
{
    return (struct rp_dropout){.seed = 1, .step = 2, .site = 3, .rows_per_sample = (int)rows_per_sample, .threshold = 429496729u,
                               .scale = 1.0f / 0.9f};
}

static struct rp_attention attention(const struct bench *b, const struct call *c)
{
    return (struct rp_attention){.batch = (int)c->m, .seq = (int)c->n, .heads = 12, .head_dim = 64, .scale = 0.125f, .key_mask = b->keys,
                                 .drop = dropout(12 * c->n)};
}

static void run_attention(struct bench *b, const struct call *c)
{
    struct rp_attention a = attention(b, c);
    b->dev->op->attention_forward(b->dev, b->y, b->small, b->small + 12 * c->m * c->n, b->mask, b->x, &a);
}

static void run_attention_backward(struct bench *b, const struct call *c)
{
    struct rp_attention a = attention(b, c);
    b->dev->op->attention_backward(b->dev, b->z, b->work, b->w, b->y, b->small, b->small + 12 * c->m * c->n, b->mask, b->x, &a,
                                   b->work + 3 * HIDDEN);
}

static void run_layernorm(struct bench *b, const struct call *c)
{
    struct rp_dropout d = dropout(128);
    b->dev->op->residual_layernorm_forward(b->dev, b->y, b->z, b->small, b->mask, b->x, b->w, &d, b->work, b->work + c->n, 1e-12f,
                                           (int)c->m, (int)c->n);
}

static void run_layernorm_backward(struct bench *b, const struct call *c)
{
    struct rp_dropout d = dropout(128);
    b->dev->op->layernorm_backward(b->dev, b->y, b->z, b->work, b->work + c->n, b->work + 2 * c->n, b->w, b->x, b->small,
                                   b->work + 3 * c->n, b->mask, &d, (int)c->m, (int)c->n, b->work + 4 * c->n);
}

static void run_gelu(struct bench *b, const struct call *c)
{
    b->dev->op->gelu_forward(b->dev, b->y, b->x, (int)c->m, (int)c->n);
}

static void run_gelu_backward(struct bench *b, const struct call *c)
{
    b->dev->op->gelu_backward(b->dev, b->y, b->work, b->w, b->x, (int)c->m, (int)c->n, b->work + c->n);
}

static void run_adam(struct bench *b, const struct call *c)
{
    struct rp_adam a = {1.0f, 1e-4f, 0.9f, 0.1f, 0.999f, 0.001f, 1e-6f, 0.01f, 0, 0.0f, 0.0f};
    b->dev->op->adam_update(b->dev, b->y, b->z, b->w, b->x, (size_t)c->m * (size_t)c->n, &a);
}

static void run_add(struct bench *b, const struct call *c)
{
    b->dev->op->add(b->dev, b->y, b->x, b->w, (size_t)c->m * (size_t)c->n);
}

static void run_norm(struct bench *b, const struct call *c)
{
    b->dev->op->square_sums(b->dev, b->small, b->x, (size_t)c->m * (size_t)c->n);
}

static void run_digest(struct bench *b, const struct call *c)
{
    b->dev->op->digest_leaves(b->dev, b->mask, b->x, (size_t)c->m * (size_t)c->n);
}

/* ---- the tables ---- */

/* The products of one layer for `rows` rows: forward NT, data gradient NN, weight gradient TN. */
static int products(struct call *out, long rows)
{
    static const struct {
        const char *name;
        long in, out;
    } layers[] = {{"qkv", HIDDEN, 3 * HIDDEN}, {"attention output", HIDDEN, HIDDEN}, {"ff1", HIDDEN, INNER}, {"ff2", INNER, HIDDEN}};
    int n = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        long in = layers[i].in, width = layers[i].out;
        out[n++] = (struct call){run_gemm, "forward NT", layers[i].name, rows, width, in, 0, 1, 0, 0, 0};
        out[n++] = (struct call){run_gemm, "data gradient NN", layers[i].name, rows, in, width, 0, 0, 0, 0, 0};
        out[n++] = (struct call){run_gemm, "weight gradient TN", layers[i].name, width, in, rows, 1, 0, RP_SEGMENT_WGRAD, 0, 0};
    }
    for (int i = 0; i < n; i++) {
        out[i].flops = 2.0 * (double)out[i].m * (double)out[i].n * (double)out[i].k;
        out[i].bytes = 4.0 * ((double)out[i].m * (double)out[i].k + (double)out[i].k * (double)out[i].n +
                              (double)out[i].m * (double)out[i].n);
    }
    return n;
}

static int decoder(struct call *out)
{
    long rows = 640; /* 32 samples of 20 predictions */
    out[0] = (struct call){run_gemm, "forward NT", "decoder", rows, VOCAB, HIDDEN, 0, 1, 0, 0, 0};
    out[1] = (struct call){run_gemm, "data gradient NN", "decoder", rows, HIDDEN, VOCAB, 0, 0, RP_SEGMENT_LONG, 0, 0};
    out[2] = (struct call){run_gemm, "weight gradient TN", "decoder", VOCAB, HIDDEN, rows, 1, 0, RP_SEGMENT_WGRAD, 0, 0};
    for (int i = 0; i < 3; i++) {
        out[i].flops = 2.0 * (double)rows * (double)VOCAB * (double)HIDDEN;
        out[i].bytes = 4.0 * (double)(rows * VOCAB + rows * HIDDEN + VOCAB * HIDDEN);
    }
    return 3;
}

/* floats: tensors of rows x width that are read or written at least once */
static struct call whole(void (*run)(struct bench *, const struct call *), const char *what, long rows, long width, double floats)
{
    return (struct call){run, what, "", rows, width, 0, 0, 0, 0, 0, 4.0 * floats * (double)rows * (double)width};
}

static int others(struct call *out)
{
    static const long sizes[][2] = {{32, 128}, {96, 128}, {8, 512}};
    int n = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double bs = (double)(sizes[i][0] * sizes[i][1]), s = (double)sizes[i][1];
        out[n++] = (struct call){run_attention, "attention forward", "", sizes[i][0], sizes[i][1], 0, 0, 0, 0, 4.0 * bs * s * HIDDEN,
                                 4.0 * 4.0 * bs * HIDDEN};
        out[n++] = (struct call){run_attention_backward, "attention backward", "", sizes[i][0], sizes[i][1], 0, 0, 0, 0,
                                 10.0 * bs * s * HIDDEN, 4.0 * 8.0 * bs * HIDDEN};
    }
    for (long rows = 4096; rows <= ROWS; rows *= 3) {
        out[n++] = whole(run_layernorm, "dropout, residual, layer norm", rows, HIDDEN, 4);
        out[n++] = whole(run_layernorm_backward, "layer norm backward", rows, HIDDEN, 4);
        out[n++] = whole(run_gelu, "GELU", rows, INNER, 2);
        out[n++] = whole(run_gelu_backward, "GELU backward", rows, INNER, 3);
    }
    out[n++] = whole(run_add, "add", ROWS, INNER, 3);
    out[n++] = whole(run_adam, "AdamW", ROWS, INNER, 7);
    out[n++] = whole(run_norm, "sum of squares", ROWS, INNER, 1);
    out[n++] = whole(run_digest, "SHA-256 of a state", 4096, INNER, 1);
    return n;
}

/* ---- timing ---- */

static int wait(struct bench *b)
{
    return b->dev->backend->sync(b->dev, b->err);
}

static double timed(struct bench *b, const struct call *c, long calls)
{
    uint64_t start = rp_now_ns();
    for (long i = 0; i < calls; i++)
        c->run(b, c);
    return wait(b) < 0 ? -1 : (double)(rp_now_ns() - start) * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(struct bench *b, const struct call *c)
{
    double s[WINDOWS], once = timed(b, c, 1); /* the first loads the kernel */
    if (once >= 0)
        once = timed(b, c, 1);
    if (once < 0)
        return -1;
    long calls = (long)(b->seconds / WINDOWS / (once > 1e-6 ? once : 1e-6)), windows = calls > 0 ? WINDOWS : 1;
    calls = calls < 1 ? 1 : calls > 1000 ? 1000 : calls;
    for (long i = 0; i < windows; i++) {
        s[i] = timed(b, c, calls);
        if (s[i] < 0)
            return -1;
        s[i] /= (double)calls;
    }
    char shape[64];
    qsort(s, (size_t)windows, sizeof *s, by_value);
    snprintf(shape, sizeof shape, c->k ? "%ldx%ldx%ld" : "%ldx%ld", c->m, c->n, c->k);
    json_array_append_new(b->rows, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:I}", "what", c->what, "name", c->name, "shape", shape,
                                             "seconds", s[windows / 2], "flops", c->flops, "bytes", c->bytes, "calls",
                                             (json_int_t)(calls * windows)));
    return 0;
}

static void *block(struct bench *b, size_t bytes)
{
    return b->dev->backend->block(b->dev, RP_CLASS_SCRATCH, bytes, b->err);
}

static int prepare(struct bench *b)
{
    float **large[] = {&b->x, &b->y, &b->z, &b->w};
    size_t work = rp_colsum_work(ROWS, 3 * INNER) + 8 * INNER, small = 24 * ROWS,
        mask = rp_mask_bytes(12 * ROWS, 512);
    for (size_t i = 0; i < 4; i++) {
        *large[i] = block(b, ELEMENTS * sizeof(float));
        if (!*large[i])
            return -1;
        b->dev->op->init_normal(b->dev, *large[i], (size_t)ELEMENTS, 0.5f, 1 + i, 7);
    }
    b->work = block(b, work * sizeof(float));
    b->small = b->work ? block(b, small * sizeof(float)) : NULL;
    b->mask = b->small ? block(b, mask) : NULL;
    b->keys = b->mask ? block(b, ROWS) : NULL;
    unsigned char ones[ROWS];
    memset(ones, 1, sizeof ones);
    if (!b->keys || b->dev->backend->upload(b->dev, b->keys, ones, sizeof ones, b->err) < 0)
        return -1;
    b->dev->op->fill(b->dev, b->work, 1.0f, work);
    b->dev->op->fill(b->dev, b->small, 1.0f, small);
    return wait(b);
}

struct rp_dev *rp_ops_speed_open(const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err)
{
    static const struct rp_op_use most[] = {
        {.op = RP_OP_gemm, .rows = ROWS, .width = VOCAB, .depth = INNER},
        {.op = RP_OP_attention_forward, .batch = 8, .seq = 512, .heads = 12, .head_dim = 64},
        {.op = RP_OP_attention_backward, .batch = 8, .seq = 512, .heads = 12, .head_dim = 64},
        {.op = RP_OP_layernorm_backward, .rows = ROWS, .width = HIDDEN},
    };
    return rp_backend_open(b, o, most, sizeof most / sizeof *most, err);
}

int rp_ops_speed(struct rp_dev *dev, double seconds, int (*stop)(void), json_t **rows, struct rp_err *err)
{
    struct bench b = {.dev = dev, .seconds = seconds, .rows = json_array(), .err = err};
    struct call calls[80];
    int n = products(calls, 4096);
    n += products(calls + n, ROWS);
    n += decoder(calls + n);
    n += others(calls + n);
    int failed = prepare(&b) < 0;
    for (int i = 0; i < n && !failed && !(stop && stop()); i++)
        failed = measure(&b, &calls[i]) < 0;
    *rows = b.rows;
    return failed ? -1 : 0;
}
