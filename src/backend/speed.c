#include "backend/speed.h"

#include "base/clock.h"
#include "base/sort.h"

#include <stdio.h>
#include <string.h>

/* The shapes of a transformer of 12 heads of 64; the larger batch has 96 sequences of 128 tokens. */
#define ROWS 12288
#define HIDDEN 768l
#define INNER 3072l
#define VOCAB 30522l
#define WINDOWS 5
#define CONV_BATCH 32
#define CALLS 160
#define ELEMENTS (ROWS * INNER) /* floats of a large block: [12288, 3072] */
#define CUBE 8192               /* in mixed precision: [8192, 8192] numbers of 16 bits fit */

struct bench {
    struct rp_dev *dev;
    void *x, *y, *z, *w;  /* ELEMENTS floats each, random */
    float *work, *small;  /* column sums; vectors */
    uint8_t *mask, *keys;
    double seconds;
    json_t *rows;
    struct rp_err *err;
};

struct call {
    void (*run)(struct bench *b, const struct call *c);
    const char *what, *name;
    long m, n, k; /* of a GEMM; rows and width; batch and sequence length */
    int ta, tb, segment;
    int heads, dim; /* of causal attention */
    struct rp_conv conv; /* of a convolution */
    double flops, bytes;
};

/* ---- what is called ---- */

static void run_gemm(struct bench *b, const struct call *c)
{
    struct rp_gemm g = {.ta = c->ta, .tb = c->tb, .m = (int)c->m, .n = (int)c->n, .k = (int)c->k, .segment = c->segment,
                        .a = b->x, .lda = c->ta ? c->m : c->k, .b = b->w, .ldb = c->tb ? c->k : c->n, .c = b->y,
                        .ldc = c->n};
    if (rp_is_mixed(b->dev->numerics) && c->ta) { /* gradients of weights are fp32 */
        g.c32 = b->y;
        g.c = NULL;
    }
    b->dev->op->gemm(b->dev, &g);
}

static struct rp_dropout dropout(long rows_per_sample)
{
    return (struct rp_dropout){.seed = 1, .step = 2, .site = 3, .rows_per_sample = (int)rows_per_sample,
                               .threshold = 429496729u, .scale = 1.0f / 0.9f};
}

static struct rp_attention attention(const struct bench *b, const struct call *c)
{
    struct rp_attention a = {.batch = (int)c->m, .seq = (int)c->n, .heads = 12, .head_dim = 64, .scale = 0.125f,
                             .key_mask = b->keys, .drop = dropout(12 * c->n)};
    if (c->dim) {
        a.heads = c->heads;
        a.head_dim = c->dim;
        a.causal = 1;
        a.key_mask = NULL;
        a.drop.threshold = 0;
    }
    return a;
}


static void run_attention(struct bench *b, const struct call *c)
{
    struct rp_attention a = attention(b, c);
    b->dev->op->attention_forward(b->dev, b->y, b->small, b->small + 12 * c->m * c->n, b->mask, b->x, &a);
}

static void run_attention_backward(struct bench *b, const struct call *c)
{
    struct rp_attention a = attention(b, c);
    const struct rp_attention_grad g = {.a = &a, .d_o = b->w, .qkv = b->x, .o = b->y, .row_max = b->small,
                                        .row_inv = b->small + 12 * c->m * c->n, .mask = b->mask, .dqkv = b->z,
                                        .dbias = b->work, .work = b->work + 3 * HIDDEN};
    b->dev->op->attention_backward(b->dev, &g);
}

static void run_layernorm(struct bench *b, const struct call *c)
{
    const struct rp_dropout d = dropout(128);
    const struct rp_layernorm n = {.rows = (int)c->m, .width = (int)c->n, .eps = 1e-12f, .x = b->x, .residual = b->w,
                                   .drop = &d, .gamma = b->work, .beta = b->work + c->n, .y = b->y, .kept = b->z,
                                   .rstd = b->small, .mask = b->mask};
    b->dev->op->residual_layernorm_forward(b->dev, &n);
}

static void run_layernorm_backward(struct bench *b, const struct call *c)
{
    const struct rp_dropout d = dropout(128);
    const struct rp_layernorm_grad g = {.rows = (int)c->m, .width = (int)c->n, .dy = b->w, .kept = b->x,
                                        .rstd = b->small, .gamma = b->work + 3 * c->n, .drop = &d, .mask = b->mask,
                                        .dz = b->y, .dx = b->z, .dgamma = b->work, .dbeta = b->work + c->n,
                                        .dbias = b->work + 2 * c->n, .work = b->work + 4 * c->n};
    b->dev->op->layernorm_backward(b->dev, &g);
}

static void run_gelu(struct bench *b, const struct call *c)
{
    b->dev->op->gelu_forward(b->dev, b->y, b->x, (int)c->m, (int)c->n);
}

static void run_gelu_backward(struct bench *b, const struct call *c)
{
    b->dev->op->gelu_backward(b->dev, b->y, b->work, b->w, b->x, (int)c->m, (int)c->n, b->work + c->n);
}

static void run_gelu_tanh(struct bench *b, const struct call *c)
{
    b->dev->op->gelu_tanh_forward(b->dev, b->y, b->x, (int)c->m, (int)c->n);
}

static void run_gelu_tanh_backward(struct bench *b, const struct call *c)
{
    b->dev->op->gelu_tanh_backward(b->dev, b->y, b->work, b->w, b->x, (int)c->m, (int)c->n, b->work + c->n);
}

static void run_adam(struct bench *b, const struct call *c)
{
    struct rp_adam a = {.grad_scale = 1.0f, .lr = 1e-4f, .beta1 = 0.9f, .one_minus_beta1 = 0.1f, .beta2 = 0.999f,
                        .one_minus_beta2 = 0.001f, .eps = 1e-6f, .weight_decay = 0.01f};
    b->dev->op->adam_update(b->dev, b->y, b->z, b->w, b->x, (size_t)c->m * (size_t)c->n, &a);
}

static void run_add(struct bench *b, const struct call *c)
{
    b->dev->op->add(b->dev, b->y, b->x, b->w, (size_t)c->m * (size_t)c->n);
}

static void run_conv(struct bench *b, const struct call *c)
{
    b->dev->op->conv_forward(b->dev, b->y, NULL, b->x, b->w, &c->conv, b->work);
}

static void run_conv_data(struct bench *b, const struct call *c)
{
    b->dev->op->conv_dgrad(b->dev, b->z, b->y, b->w, NULL, &c->conv);
}

static void run_conv_weights(struct bench *b, const struct call *c)
{
    b->dev->op->conv_wgrad(b->dev, b->z, b->y, b->x, &c->conv, b->work);
}

static void run_batch_norm(struct bench *b, const struct call *c)
{
    const struct rp_batchnorm n = {.rows = (int)c->m, .width = (int)c->n, .eps = 1e-5f, .relu = 1, .x = b->x,
                                   .mean = b->small + 2 * c->n, .gamma = b->small + 3 * c->n,
                                   .beta = b->small + 4 * c->n, .y = b->y, .var = b->small, .rstd = b->small + c->n,
                                   .work = b->work};
    b->dev->op->batchnorm_forward(b->dev, &n);
}

static void run_batch_norm_backward(struct bench *b, const struct call *c)
{
    const struct rp_batchnorm_grad g = {.rows = (int)c->m, .width = (int)c->n, .dy = b->w, .x = b->x, .y = b->y,
                                        .mean = b->small + 2 * c->n, .rstd = b->small + 3 * c->n,
                                        .gamma = b->small + 4 * c->n, .dx = b->z, .dgamma = b->small,
                                        .dbeta = b->small + c->n, .work = b->work};
    b->dev->op->batchnorm_backward(b->dev, &g);
}

static void run_norm(struct bench *b, const struct call *c)
{
    b->dev->op->square_sums(b->dev, b->small, b->x, 1.0f, (size_t)c->m * (size_t)c->n);
}

static void run_digest(struct bench *b, const struct call *c)
{
    b->dev->op->digest_leaves(b->dev, b->mask, b->x, (size_t)c->m * (size_t)c->n);
}

/* ---- the tables ---- */

static struct call gemm_call(const char *what, const char *name, long m, long n, long k)
{
    double x = (double)m, y = (double)n, z = (double)k;
    return (struct call){.run = run_gemm, .what = what, .name = name, .m = m, .n = n, .k = k, .flops = 2.0 * x * y * z,
                         .bytes = 4.0 * (x * z + z * y + x * y)};
}

/* The three GEMMs of every linear layer: forward NT, data gradient NN, weight gradient TN. */
static int gemms(struct call *out)
{
    static const struct {
        const char *name;
        long rows, in, out;
    } layers[] = {{"qkv", 4096, HIDDEN, 3 * HIDDEN}, {"attention output", 4096, HIDDEN, HIDDEN},
                  {"ff1", 4096, HIDDEN, INNER},      {"ff2", 4096, INNER, HIDDEN},
                  {"qkv", ROWS, HIDDEN, 3 * HIDDEN}, {"attention output", ROWS, HIDDEN, HIDDEN},
                  {"ff1", ROWS, HIDDEN, INNER},      {"ff2", ROWS, INNER, HIDDEN},
                  {"decoder", 640, HIDDEN, VOCAB}}; /* 32 samples of 20 predictions */
    int n = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const char *name = layers[i].name;
        long rows = layers[i].rows, in = layers[i].in, width = layers[i].out;
        out[n] = gemm_call("forward NT", name, rows, width, in);
        out[n].tb = 1;
        out[n++].segment = rp_segment((int)in);
        out[n] = gemm_call("data gradient NN", name, rows, in, width);
        out[n++].segment = rp_segment((int)width);
        out[n] = gemm_call("weight gradient TN", name, width, in, rows);
        out[n].ta = 1;
        out[n++].segment = RP_SEGMENT_WGRAD;
    }
    return n;
}

/* Two GEMMs as large as others are measured with. */
static int cubes(struct call *out)
{
    out[0] = gemm_call("forward NT", "large", CUBE, CUBE, CUBE);
    out[0].tb = 1;
    out[1] = gemm_call("data gradient NN", "large", CUBE, CUBE, CUBE);
    return 2;
}

/* Causal attention without dropout; flops of the pairs that the mask leaves. */
static int causal(struct call *out)
{
    static const struct {
        int batch, seq, heads, dim;
        const char *name;
    } sizes[] = {{4, 1024, 12, 64, "12 heads of 64"}, {2, 2048, 12, 64, "12 heads of 64"},
                 {1, 8192, 2, 64, "2 heads of 64"}, {4, 1024, 8, 96, "8 heads of 96"},
                 {4, 1024, 6, 128, "6 heads of 128"}};
    int n = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double tokens = (double)sizes[i].batch * sizes[i].seq, width = (double)sizes[i].heads * sizes[i].dim;
        double pairs = tokens * (sizes[i].seq + 1) / 2;
        struct call c = {.run = run_attention, .what = "causal attention forward", .name = sizes[i].name,
                         .m = sizes[i].batch, .n = sizes[i].seq, .heads = sizes[i].heads, .dim = sizes[i].dim,
                         .flops = 4.0 * pairs * width, .bytes = 4.0 * 4.0 * tokens * width};
        out[n++] = c;
        c.run = run_attention_backward;
        c.what = "causal attention backward";
        c.flops = 10.0 * pairs * width;
        c.bytes = 4.0 * 8.0 * tokens * width;
        out[n++] = c;
    }
    return n;
}

/* The convolutions of ResNet-50 at batch 32, each shape once. */
static int convolutions(struct call *out)
{
    static const struct {
        int size, in, out, kernel, stride;
        const char *name;
    } sizes[] = {
#define CONV(size, in, out, kernel, stride) {size, in, out, kernel, stride, #kernel "x" #kernel "/" #stride " to " #out}
        CONV(224, 3, 64, 7, 2),     CONV(56, 64, 64, 1, 1),     CONV(56, 64, 64, 3, 1),     CONV(56, 64, 256, 1, 1),
        CONV(56, 256, 64, 1, 1),    CONV(56, 256, 128, 1, 1),   CONV(56, 128, 128, 3, 2),   CONV(28, 128, 128, 3, 1),
        CONV(28, 128, 512, 1, 1),   CONV(28, 512, 128, 1, 1),   CONV(56, 256, 512, 1, 2),   CONV(28, 512, 256, 1, 1),
        CONV(28, 256, 256, 3, 2),   CONV(14, 256, 256, 3, 1),   CONV(14, 256, 1024, 1, 1),  CONV(14, 1024, 256, 1, 1),
        CONV(28, 512, 1024, 1, 2),  CONV(14, 1024, 512, 1, 1),  CONV(14, 512, 512, 3, 2),   CONV(7, 512, 512, 3, 1),
        CONV(7, 512, 2048, 1, 1),   CONV(7, 2048, 512, 1, 1),   CONV(14, 1024, 2048, 1, 2),
#undef CONV
    };
    static const struct {
        void (*run)(struct bench *b, const struct call *c);
        const char *what;
    } directions[] = {{run_conv, "convolution"},
                      {run_conv_data, "convolution data gradient"},
                      {run_conv_weights, "convolution weight gradient"}};
    int n = 0;
    for (size_t d = 0; d < sizeof directions / sizeof *directions; d++)
        for (size_t i = d == 1; i < sizeof sizes / sizeof *sizes; i++) { /* images have no gradient */
            const int size = sizes[i].size, to = (size - 1) / sizes[i].stride + 1, pad = sizes[i].kernel / 2;
            struct call c = {.run = directions[d].run, .what = directions[d].what, .name = sizes[i].name,
                             .m = CONV_BATCH, .n = size, .k = sizes[i].in};
            c.conv = (struct rp_conv){
                CONV_BATCH,      size, size, sizes[i].in, to, to, sizes[i].out, sizes[i].kernel, sizes[i].kernel,
                sizes[i].stride, pad,  pad};
            const double outputs = (double)rp_conv_rows(&c.conv) * c.conv.out_c,
                         weights = (double)rp_conv_taps(&c.conv) * c.conv.out_c;
            c.flops = 2.0 * outputs * rp_conv_taps(&c.conv);
            c.bytes = 4.0 * (outputs + weights + (double)CONV_BATCH * size * size * c.conv.in_c);
            out[n++] = c;
        }
    return n;
}

/* Attention at three sizes, then operations limited by memory: how many tensors of rows x width each reads or
 * writes. */
static int list_others(struct call *out)
{
    static const long sizes[][2] = {{32, 128}, {96, 128}, {8, 512}};
    static const struct {
        void (*run)(struct bench *b, const struct call *c);
        const char *what;
        long rows, width;
        double tensors;
    } rows[] = {
        {run_layernorm, "dropout, residual, layer norm", 4096, HIDDEN, 4},
        {run_layernorm_backward, "layer norm backward", 4096, HIDDEN, 4},
        {run_gelu, "GELU", 4096, INNER, 2}, {run_gelu_backward, "GELU backward", 4096, INNER, 3},
        {run_layernorm, "dropout, residual, layer norm", ROWS, HIDDEN, 4},
        {run_layernorm_backward, "layer norm backward", ROWS, HIDDEN, 4},
        {run_gelu, "GELU", ROWS, INNER, 2}, {run_gelu_backward, "GELU backward", ROWS, INNER, 3},
        {run_gelu_tanh, "tanh GELU", ROWS, INNER, 2}, {run_gelu_tanh_backward, "tanh GELU backward", ROWS, INNER, 3},
        {run_batch_norm, "batch norm, ReLU", 100352, 256, 3},
        {run_batch_norm_backward, "batch norm, ReLU backward", 100352, 256, 7}, {run_add, "add", ROWS, INNER, 3},
        {run_adam, "AdamW", ROWS, INNER, 7}, {run_norm, "sum of squares", ROWS, INNER, 1},
        {run_digest, "SHA-256 of a state", 4096, INNER, 1},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double tokens = (double)(sizes[i][0] * sizes[i][1]), s = (double)sizes[i][1];
        out[n++] = (struct call){.run = run_attention, .what = "attention forward", .name = "", .m = sizes[i][0],
                                 .n = sizes[i][1], .flops = 4.0 * tokens * s * HIDDEN,
                                 .bytes = 4.0 * 4.0 * tokens * HIDDEN};
        out[n++] = (struct call){.run = run_attention_backward, .what = "attention backward", .name = "",
                                 .m = sizes[i][0], .n = sizes[i][1], .flops = 10.0 * tokens * s * HIDDEN,
                                 .bytes = 4.0 * 8.0 * tokens * HIDDEN};
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        out[n++] = (struct call){.run = rows[i].run, .what = rows[i].what, .name = "", .m = rows[i].rows,
                                 .n = rows[i].width,
                                 .bytes = 4.0 * rows[i].tensors * (double)rows[i].rows * (double)rows[i].width};
    return n;
}

/* Not every GPU supports long sequences. Fills *use for causal attention and convolutions. */
static int is_supported(const struct rp_backend *b, const struct rp_device_opts *o, const struct call *c,
                        struct rp_op_use *use)
{
    struct rp_err unused;
    if (rp_is_mixed(o->numerics) && c->flops == 0) /* not by tensor cores */
        return 0;
    if (c->dim)
        *use = (struct rp_op_use){.op = c->run == run_attention ? RP_OP_attention_forward : RP_OP_attention_backward,
                                  .batch = (int)c->m, .seq = (int)c->n, .heads = c->heads, .head_dim = c->dim,
                                  .causal = 1};
    else if (c->conv.batch)
        *use = (struct rp_op_use){.op = c->run == run_conv        ? RP_OP_conv_forward
                                        : c->run == run_conv_data ? RP_OP_conv_dgrad
                                                                  : RP_OP_conv_wgrad,
                                  .conv = c->conv};
    else
        return 1;
    return b->supports(o, use, &unused) == 0;
}

/* ---- timing ---- */

static int wait_for_device(struct bench *b)
{
    return b->dev->backend->sync(b->dev, b->err);
}

static double time_calls(struct bench *b, const struct call *c, long calls)
{
    uint64_t start = rp_now_ns();
    for (long i = 0; i < calls; i++)
        c->run(b, c);
    return wait_for_device(b) < 0 ? -1 : (double)(rp_now_ns() - start) * 1e-9;
}

#define SHAPE_TEXT 64

static const char *shape_text(char out[SHAPE_TEXT], const struct call *c)
{
    if (c->conv.batch)
        snprintf(out, SHAPE_TEXT, "%dx%dx%dx%d", c->conv.batch, c->conv.in_h, c->conv.in_w, c->conv.in_c);
    else
        snprintf(out, SHAPE_TEXT, c->k ? "%ldx%ldx%ld" : "%ldx%ld", c->m, c->n, c->k);
    return out;
}

static int measure_call(struct bench *b, const struct call *c, const struct rp_case_watch *progress)
{
    char shape[SHAPE_TEXT], op[80];
    snprintf(op, sizeof op, "%s%s%s", c->what, *c->name ? ", " : "", c->name);
    rp_case_watch_begin(progress, op, (int)json_array_size(b->rows) + 1, shape_text(shape, c));
    double s[WINDOWS], once = time_calls(b, c, 1); /* the first loads the kernel */
    if (once >= 0)
        once = time_calls(b, c, 1);
    if (once < 0)
        return -1;
    long calls = (long)(b->seconds / WINDOWS / (once > 1e-6 ? once : 1e-6)), windows = calls > 0 ? WINDOWS : 1;
    calls = calls < 1 ? 1 : calls > 1000 ? 1000 : calls;
    for (long i = 0; i < windows; i++) {
        s[i] = time_calls(b, c, calls);
        if (s[i] < 0)
            return -1;
        s[i] /= (double)calls;
    }
    json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:I}", "what", c->what, "name", c->name, "shape", shape,
                            "seconds", rp_median(s, (size_t)windows), "flops", c->flops, "bytes", c->bytes, "calls",
                            (json_int_t)(calls * windows));
    json_array_append_new(b->rows, row);
    rp_case_watch_done(progress, row);
    return 0;
}

/* Inputs and outputs have 16 bits a number, except gradients of weights. */
static void store_in_16_bits(struct call *c)
{
    const double weights = c->run == run_conv_weights ? (double)rp_conv_taps(&c->conv) * c->conv.out_c
                           : c->ta                    ? (double)c->m * (double)c->n
                                                      : 0;
    c->bytes = c->bytes / 2 + 2 * weights;
}

static void *new_block(struct bench *b, size_t bytes)
{
    return b->dev->backend->block(b->dev, RP_CLASS_SCRATCH, bytes, b->err);
}

static int prepare(struct bench *b)
{
    void **large[] = {&b->x, &b->y, &b->z, &b->w};
    /* more than the sums of batch norm's 64-row blocks and of the groups of any convolution above */
    size_t work = rp_colsum_work(ROWS, 3 * INNER) + 8 * INNER, small = 24 * ROWS,
        mask = rp_mask_bytes(12 * ROWS, 512);
    for (size_t i = 0; i < 4; i++) {
        *large[i] = new_block(b, ELEMENTS * sizeof(float));
        if (!*large[i])
            return -1;
        b->dev->op->init_normal(b->dev, *large[i], (size_t)ELEMENTS, 0.5f, 1 + i, 7, 1);
    }
    if (rp_is_mixed(b->dev->numerics)) /* both halves of z, whose numbers are fp32; it is written only */
        for (size_t i = 0; i < 4; i++)
            for (size_t half = 0; *large[i] != b->z && half < 2; half++)
                b->dev->op->round_stored(b->dev, rp_stored_at(b->dev, *large[i], (long)(half * ELEMENTS)), b->z, NULL,
                                         (size_t)ELEMENTS);
    b->work = new_block(b, work * sizeof(float));
    b->small = b->work ? new_block(b, small * sizeof(float)) : NULL;
    b->mask = b->small ? new_block(b, mask) : NULL;
    b->keys = b->mask ? new_block(b, ROWS) : NULL;
    unsigned char ones[ROWS];
    memset(ones, 1, sizeof ones);
    if (!b->keys || b->dev->backend->upload(b->dev, b->keys, ones, sizeof ones, b->err) < 0)
        return -1;
    b->dev->op->fill(b->dev, b->work, 1.0f, work);
    b->dev->op->fill(b->dev, b->small, 1.0f, small);
    return wait_for_device(b);
}

struct rp_dev *rp_ops_speed_open(const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err)
{
    struct rp_op_use use[8 + CALLS] = {
        {.op = RP_OP_gemm, .rows = ROWS, .width = VOCAB, .depth = INNER},
        {.op = RP_OP_attention_forward, .batch = 8, .seq = 512, .heads = 12, .head_dim = 64},
        {.op = RP_OP_attention_backward, .batch = 8, .seq = 512, .heads = 12, .head_dim = 64},
        {.op = RP_OP_layernorm_backward, .rows = ROWS, .width = HIDDEN},
        {.op = RP_OP_batchnorm_backward, .rows = 100352, .width = 256},
        {.op = RP_OP_gemm, .rows = CUBE, .width = CUBE, .depth = CUBE},
    };
    struct call calls[CALLS];
    int n = rp_is_mixed(o->numerics) ? 6 : 5, more = causal(calls);
    more += convolutions(calls + more);
    for (int i = 0; i < more; i++)
        if (is_supported(b, o, &calls[i], &use[n]))
            n++;
    return rp_backend_open(b, o, use, n, err);
}

int rp_ops_speed(struct rp_dev *dev, const struct rp_device_opts *o, double seconds, int (*stop)(void),
                 const struct rp_case_watch *progress, json_t **rows, struct rp_err *err)
{
    struct bench b = {.dev = dev, .seconds = seconds, .rows = json_array(), .err = err};
    struct call calls[CALLS];
    struct rp_op_use use;
    int n = gemms(calls);
    n += rp_is_mixed(o->numerics) ? cubes(calls + n) : 0;
    n += list_others(calls + n);
    n += causal(calls + n);
    n += convolutions(calls + n);
    RP_BUG_IF(n > CALLS);
    rp_case_watch_begin(progress, "filling the tensors", 1, "");
    int failed = prepare(&b) < 0;
    for (int i = 0; i < n && rp_is_mixed(o->numerics); i++)
        store_in_16_bits(&calls[i]);
    for (int i = 0; i < n && !failed && !(stop && stop()); i++)
        failed = is_supported(dev->backend, o, &calls[i], &use) && measure_call(&b, &calls[i], progress) < 0;
    *rows = b.rows;
    return failed ? -1 : 0;
}
