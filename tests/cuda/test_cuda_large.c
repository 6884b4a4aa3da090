/* Tensors of more than 2^31 elements, as the largest batch of a GPU with 141 GB has them: no offset and no grid is cut
 * to 32 bits. The memory is only addresses; of each grid the last blocks run, and what they make of the last rows is
 * what a small tensor with the same rows gives. timeout: 120 */
#define RP_STORED_TYPE float
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <sys/mman.h>

#define SEQ 128
#define BATCH 22657 /* rows * 768 > 2^31 */
#define ROWS ((long)BATCH * SEQ)
#define WIDTH 768
#define TAIL SEQ    /* rows that have values */
#define DROPOUT 0x1999999au

static struct rp_dev *dev;
static struct shim_options *shim;

/* Addresses for so many elements of 4 bytes, +0 where nobody writes. */
static void *room(size_t elements)
{
    void *p = mmap(NULL, elements * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
static void give(void *p, size_t elements)
{
    munmap(p, elements * 4);
}

/* Values for the last TAIL rows; returns where they begin. */
static float *fill_tail(float *x, long rows, long width, unsigned seed)
{
    float *tail = x + (rows - TAIL) * width;
    for (long i = 0; i < TAIL * width; i++)
        tail[i] = (float)((i * 7919 + seed * 104729) % 2003 - 1001) / 512.0f;
    return tail;
}

/* 0: no addresses. */
static int start(void)
{
    const size_t most = (size_t)ROWS * WIDTH * 10;
    void *p = room(most);
    if (!p)
        return 0;
    give(p, most);
    struct rp_err err = {0};
    setenv("RP_CUDA_GRAPHS", "0", 1);
    setenv("SHIM_L2", "2000000000", 1); /* few parts of the rows */
    dev = gpu(&shim, &err);
    CHECK(dev, "%s", err.msg);
    shim->order = SHIM_FORWARD;
    return 1;
}
#define START                                                                                                          \
    if (!start())                                                                                                      \
    SKIP("83 GiB of addresses cannot be had here")

/* One operation on the large tensors, by the last blocks, then on the small ones. */
#define BOTH(blocks, large, small)                                                                                     \
    do {                                                                                                               \
        struct rp_err err_ = {0};                                                                                      \
        shim->last = (blocks);                                                                                         \
        large;                                                                                                         \
        shim->last = 0;                                                                                                \
        small;                                                                                                         \
        CHECK(dev->backend->sync(dev, &err_) == 0, "%s", err_.msg);                                                    \
    } while (0)

/* The last `rows` of each. */
static int same_end(const float *large, long all, const float *small, long few, long rows, long width)
{
    return memcmp(large + (all - rows) * width, small + (few - rows) * width, (size_t)(rows * width) * 4) == 0;
}

static struct rp_dropout drop(uint32_t first_sample, int rows_per_sample)
{
    return (struct rp_dropout){.seed = 5, .step = 3, .site = 2, .first_sample = first_sample,
                               .rows_per_sample = rows_per_sample, .threshold = DROPOUT, .scale = 1.1f};
}

TEST(rows)
{
    START;
    const struct rp_ops *op = dev->op;
    const size_t n = (size_t)ROWS * WIDTH, bits = (size_t)rp_mask_bytes(ROWS, WIDTH) / 4;
    const struct rp_dropout all = drop(0, SEQ), end = drop(BATCH - 1, SEQ);
    float *x = room(n), *y = room(n), *h = room(n), *rstd = room(ROWS), *work = room(3 * rp_colsum_work(ROWS, WIDTH));
    float *small = room(3 * TAIL * WIDTH), *sums = room(WIDTH);
    uint8_t *mask = room(bits), *small_mask = room(TAIL * WIDTH);
    int32_t *index = room(ROWS), *zeros = room(ROWS);
    float *tail = fill_tail(x, ROWS, WIDTH, 1), *gamma = tail, *beta = tail + WIDTH;
    float *small_h = small + TAIL * WIDTH, *small_rstd = small_h + TAIL * WIDTH;
    for (long i = 0; i < TAIL; i++)
        index[ROWS - TAIL + i] = (int32_t)(ROWS - 1 - i);
    BOTH(16, op->gather_rows(dev, y, x, index, (int)ROWS, WIDTH),
         op->gather_rows(dev, small, x, index + ROWS - TAIL, TAIL, WIDTH));
    CHECK(same_end(y, ROWS, small, TAIL, 16, WIDTH) && memcmp(small, x + (size_t)(ROWS - 1) * WIDTH, WIDTH * 4) == 0,
          "gather_rows");
    const float *type = x + (size_t)(ROWS - 1) * WIDTH;
    BOTH(16, op->embed_forward(dev, y, index, zeros, NULL, x, type, tail, (int)ROWS, SEQ, WIDTH),
         op->embed_forward(dev, small, index + ROWS - TAIL, zeros, NULL, x, type, tail, TAIL, SEQ, WIDTH));
    CHECK(same_end(y, ROWS, small, TAIL, 16, WIDTH) && y[n - 1] != 0, "embed_forward");
    BOTH(16, op->dropout_forward(dev, y, mask, x, &all, (int)ROWS, WIDTH),
         op->dropout_forward(dev, small, small_mask, tail, &end, TAIL, WIDTH));
    CHECK(same_end(y, ROWS, small, TAIL, 16, WIDTH), "dropout_forward");
    const struct rp_layernorm n_all = {.rows = (int)ROWS, .width = WIDTH, .eps = 1e-6f, .x = x, .residual = x,
                                       .drop = &all, .gamma = gamma, .beta = beta, .y = y, .kept = h, .rstd = rstd,
                                       .mask = mask};
    const struct rp_layernorm n_end = {.rows = TAIL, .width = WIDTH, .eps = 1e-6f, .x = tail, .residual = tail,
                                       .drop = &end, .gamma = gamma, .beta = beta, .y = small, .kept = small_h,
                                       .rstd = small_rstd, .mask = small_mask};
    BOTH(16, op->residual_layernorm_forward(dev, &n_all), op->residual_layernorm_forward(dev, &n_end));
    CHECK(same_end(y, ROWS, small, TAIL, 64, WIDTH) && same_end(h, ROWS, small_h, TAIL, 64, WIDTH),
          "residual_layernorm_forward");
    CHECK(same_end((float *)(void *)mask, ROWS, (float *)(void *)small_mask, TAIL, 64, WIDTH / 32) &&
              rstd[ROWS - 1] > 0,
          "its decisions");
    BOTH(16, op->dropout_backward(dev, y, x, mask, &all, (int)ROWS, WIDTH),
         op->dropout_backward(dev, small, tail, small_mask, &end, TAIL, WIDTH));
    CHECK(same_end(y, ROWS, small, TAIL, 16, WIDTH), "dropout_backward");
    const struct rp_dropout none = {.scale = 1};
    const struct rp_layernorm_grad g_all = {.rows = (int)ROWS, .width = WIDTH, .dy = x, .kept = h, .rstd = rstd,
                                            .gamma = gamma, .drop = &none, .dz = y, .dgamma = sums, .dbeta = sums,
                                            .dbias = sums, .work = work};
    struct rp_layernorm_grad g_end = g_all;
    g_end.rows = TAIL;
    g_end.dy = tail;
    g_end.kept = small_h;
    g_end.rstd = small_rstd;
    g_end.dz = small;
    BOTH(8, op->layernorm_backward(dev, &g_all), op->layernorm_backward(dev, &g_end));
    CHECK(same_end(y, ROWS, small, TAIL, 64, WIDTH) && y[n - 1] != 0, "layernorm_backward");
    BOTH(6, op->gelu_backward(dev, y, sums, x, x, (int)ROWS, WIDTH, work),
         op->gelu_backward(dev, small, sums, tail, tail, TAIL, WIDTH, work));
    CHECK(same_end(y, ROWS, small, TAIL, 64, WIDTH) && y[n - 1] != 0, "gelu_backward");
    BOTH(6, op->colsum(dev, sums, x, (int)ROWS, WIDTH, work), op->colsum(dev, sums, tail, TAIL, WIDTH, work));
    CHECK(memcmp(work + rp_colsum_work(ROWS, WIDTH) - WIDTH, work + WIDTH, WIDTH * 4) == 0, "colsum");
    give(x, n);
    give(y, n);
    give(h, n);
    give(work, 3 * rp_colsum_work(ROWS, WIDTH));
}

TEST(softmax_over_the_vocabulary)
{
    enum { CLASSES = 30522, N = 70400 }; /* of 3520 sequences */
    START;
    float *z = room((size_t)N * CLASSES), *loss = room(2 * N), *coef = room(N), *small = room(CLASSES);
    int32_t *labels = room(N);
    float *last = z + (size_t)(N - 1) * CLASSES;
    for (int i = 0; i < CLASSES; i++)
        last[i] = small[i] = (float)(i % 97) / 9.0f;
    labels[N - 1] = CLASSES - 1;
    coef[N - 1] = 0.5f;
    BOTH(1, dev->op->softmax_xent(dev, loss, z, CLASSES, labels, coef, 1.0f, N, CLASSES, 1),
         dev->op->softmax_xent(dev, loss + N, small, CLASSES, labels + N - 1, coef + N - 1, 1.0f, 1, CLASSES, 1));
    CHECK(memcmp(last, small, sizeof *small * CLASSES) == 0 && loss[N - 1] == loss[N] && loss[N] > 0);
    give(z, (size_t)N * CLASSES);
}

TEST(products)
{
    enum { K = 64, PITCH = 40000000 };
    START;
    const size_t n = (size_t)ROWS * WIDTH;
    float *x = room(n), *c = room(n), *b = room(WIDTH * WIDTH), *small = room(TAIL * WIDTH),
          *tail = fill_tail(x, ROWS, WIDTH, 2);
    for (long row = TAIL; row <= WIDTH; row += TAIL)
        fill_tail(b, row, WIDTH, 3 + (unsigned)row);
    /* rows of A and C */
    struct rp_gemm big = {
        .m = (int)ROWS, .n = WIDTH, .k = K, .a = x, .lda = WIDTH, .tb = 1, .b = b, .ldb = WIDTH, .c = c, .ldc = WIDTH};
    struct rp_gemm few = big;
    few.m = TAIL;
    few.a = tail;
    few.c = small;
    BOTH(64, dev->op->gemm(dev, &big), dev->op->gemm(dev, &few));
    CHECK(same_end(c, ROWS, small, TAIL, 32, WIDTH) && c[n - 1] != 0, "rows");
    /* columns of C, rows of B */
    big = (struct rp_gemm){
        .m = 32, .n = (int)ROWS, .k = K, .a = b, .lda = WIDTH, .tb = 1, .b = x, .ldb = WIDTH, .c = c, .ldc = ROWS};
    few = big;
    few.n = TAIL;
    few.b = tail;
    few.c = small;
    few.ldc = TAIL;
    BOTH(8, dev->op->gemm(dev, &big), dev->op->gemm(dev, &few));
    for (int i = 0; i < 32; i++)
        CHECK(memcmp(c + (size_t)i * ROWS + ROWS - 32, small + i * TAIL + TAIL - 32, 32 * 4) == 0, "columns, row %d",
              i);
    /* steps of k: A and B are far apart from step to step */
    float *far = room((size_t)PITCH * K);
    for (size_t k = 0; k < K; k++)
        memcpy(far + k * PITCH, b + k * WIDTH, WIDTH * 4);
    big = (struct rp_gemm){
        .m = 128, .n = 128, .k = K, .ta = 1, .a = far, .lda = PITCH, .b = far + 128, .ldb = PITCH, .c = c, .ldc = 128};
    few = big;
    few.a = b;
    few.b = b + 128;
    few.lda = few.ldb = WIDTH;
    few.c = small;
    BOTH(0, dev->op->gemm(dev, &big), dev->op->gemm(dev, &few));
    CHECK(memcmp(c, small, 128 * 128 * 4) == 0 && small[0] != 0, "steps of k");
    give(x, n);
    give(c, n);
    give(far, (size_t)PITCH * K);
}

/* The largest batch whose images have fewer than 2^31 elements. */
TEST(convolutions)
{
    enum { IMAGES = 10699, SIDE = 56, CHANNELS = 64, PIXELS = SIDE * SIDE, TAPS = 9 * CHANNELS, COMPARED = 512 };
    START;
    const struct rp_ops *op = dev->op;
    const struct rp_conv all = {IMAGES, SIDE, SIDE, CHANNELS, SIDE, SIDE, CHANNELS, 3, 3, 1, 1, 1};
    struct rp_conv one = all;
    const long rows = rp_conv_rows(&all), groups = (rows + RP_CONV_GROUP - 1) / RP_CONV_GROUP,
               first = (groups - 1) * RP_CONV_GROUP;
    const size_t n = (size_t)rows * CHANNELS;
    float *x = room(n), *y = room(n), *w = room(CHANNELS * TAPS), *dw = room(CHANNELS * TAPS),
          *work = room(rp_conv_wgrad_work(&all));
    float *last = x + (rows - PIXELS) * CHANNELS, *small = room(PIXELS * CHANNELS);
    const struct rp_op_use use = {.op = RP_OP_conv_wgrad, .conv = all};
    struct rp_err err = {0};
    CHECK(rp_cuda_supports(&rp_cuda_of(dev)->gpu, RP_NUMERICS_fp32_1, &use, &err) == 0, "%s", err.msg);
    one.batch = 1;
    for (long row = rows - PIXELS + TAIL; row <= rows; row += TAIL)
        fill_tail(x, row, CHANNELS, (unsigned)(rows - row));
    fill_tail(x, rows, CHANNELS, 1);
    for (long row = TAIL; row < TAPS + TAIL; row += TAIL)
        fill_tail(w, row < TAPS ? row : TAPS, CHANNELS, 8 + (unsigned)row);
    BOTH(8, op->conv_forward(dev, y, NULL, x, w, &all, NULL), op->conv_forward(dev, small, NULL, last, w, &one, NULL));
    CHECK(same_end(y, rows, small, PIXELS, COMPARED, CHANNELS) && y[n - 1] != 0, "conv_forward");
    BOTH(8, op->conv_dgrad(dev, y, x, w, NULL, &all), op->conv_dgrad(dev, small, last, w, NULL, &one));
    CHECK(same_end(y, rows, small, PIXELS, COMPARED, CHANNELS) && y[n - 1] != 0, "conv_dgrad");
    /* of the last group of rows, all of which are in the last image; the gradient of the outputs is x again */
    CHECK(first > rows - PIXELS, "the last group has rows of %ld images", (rows - first) / PIXELS + 1);
    shim->last = 9; /* tiles of 64 x 64, or more than there are */
    op->conv_wgrad(dev, dw, x, x, &all, work);
    shim->last = 0;
    CHECK(dev->backend->sync(dev, &err) == 0, "%s", err.msg);
    for (int k = 0; k < TAPS * CHANNELS; k += 101) {
        const int o = k / TAPS, tap = k % TAPS / CHANNELS, c = k % CHANNELS;
        float sum = 0, chain = 0;
        for (long r = first; r < rows; r++) {
            const long h = r / SIDE % SIDE + tap / 3 - 1, v = r % SIDE + tap % 3 - 1,
                       in = r / PIXELS * PIXELS + h * SIDE + v;
            chain = __builtin_fmaf(x[r * CHANNELS + o],
                                   h < 0 || h >= SIDE || v < 0 || v >= SIDE ? 0.0f : x[in * CHANNELS + c], chain);
            if ((r - first) % RP_CONV_CHAIN == RP_CONV_CHAIN - 1 || r == rows - 1) {
                sum = sum + chain;
                chain = 0;
            }
        }
        CHECK(work[(size_t)(groups - 1) * TAPS * CHANNELS + (size_t)k] == sum, "conv_wgrad: weight %d", k);
    }
    give(x, n);
    give(y, n);
    give(work, rp_conv_wgrad_work(&all));
}

TEST(attention)
{
    enum { HEADS = 12, DIM = 64, LD = 3 * HEADS * DIM };
    START;
    const size_t n = (size_t)ROWS * WIDTH, stats = (size_t)ROWS * HEADS,
                 bits = (size_t)rp_mask_bytes((long)stats, SEQ) / 4;
    float *qkv = room(3 * n), *dqkv = room(3 * n), *o = room(n), *d_o = room(n), *top = room(stats), *inv = room(stats);
    float *work = room(rp_colsum_work(ROWS, LD)), *dbias = room(LD), *small = room(5 * TAIL * WIDTH),
          *small_top = room(2 * TAIL * HEADS);
    uint8_t *keys = room((size_t)ROWS / 4), *mask = room(bits),
            *small_mask = room(rp_mask_bytes(TAIL * HEADS, SEQ) / 4);
    float *small_dqkv = small + TAIL * WIDTH, *tail = fill_tail(qkv, ROWS, LD, 4),
          *d_tail = fill_tail(d_o, ROWS, WIDTH, 5);
    memset(keys + ROWS - TAIL, 1, TAIL - 3);
    struct rp_attention all = {.batch = BATCH, .seq = SEQ, .heads = HEADS, .head_dim = DIM, .scale = 0.125f,
                               .key_mask = keys, .drop = drop(0, HEADS * SEQ)},
                        end = all;
    end.batch = 1;
    end.key_mask = keys + ROWS - TAIL;
    end.drop = drop(BATCH - 1, HEADS * SEQ);
    BOTH(HEADS * 8, dev->op->attention_forward(dev, o, top, inv, mask, qkv, &all),
         dev->op->attention_forward(dev, small, small_top, small_top + TAIL * HEADS, small_mask, tail, &end));
    CHECK(same_end(o, ROWS, small, TAIL, TAIL, WIDTH) && o[n - 1] != 0, "outputs");
    CHECK(same_end(top, ROWS, small_top, TAIL, TAIL, HEADS) &&
              same_end(inv, ROWS, small_top + TAIL * HEADS, TAIL, TAIL, HEADS),
          "sums");
    struct rp_cuda *c = rp_cuda_of(dev);
    const CUdeviceptr workspace = c->block[0].data;
    const size_t workspace_bytes = c->workspace_bytes;
    c->block[0].data = (CUdeviceptr)(uintptr_t)room(stats);
    c->workspace_bytes = stats * 4;
    const struct rp_attention_grad g_all = {.a = &all, .d_o = d_o, .qkv = qkv, .o = o, .row_max = top, .row_inv = inv,
                                            .mask = mask, .dqkv = dqkv, .dbias = dbias, .work = work};
    const struct rp_attention_grad g_end = {.a = &end, .d_o = d_tail, .qkv = tail, .o = small, .row_max = small_top,
                                            .row_inv = small_top + TAIL * HEADS, .mask = small_mask, .dqkv = small_dqkv,
                                            .dbias = dbias, .work = work};
    BOTH(HEADS, dev->op->attention_backward(dev, &g_all), dev->op->attention_backward(dev, &g_end));
    give((void *)(uintptr_t)c->block[0].data, stats); /* NOLINT(performance-no-int-to-ptr) */
    c->block[0].data = workspace;
    c->workspace_bytes = workspace_bytes;
    CHECK(same_end(dqkv, ROWS, small_dqkv, TAIL, TAIL, LD) && dqkv[3 * n - (size_t)TAIL * LD] != 0, "gradients");
    give(qkv, 3 * n);
    give(dqkv, 3 * n);
    give(o, n);
    give(d_o, n);
}

/* All of the forward pass of 4352 tokens, with LONG=1 of 8192, the most; of the gradients the blocks with the last keys
 * and those with the first queries. */
TEST(a_long_causal_sequence)
{
    enum { DIM = 8, LD = 3 * DIM, KEYS = 2048, QUERIES = 2048 };
    const size_t tokens = tap_long() ? 8192 : 4352;
    START;
    struct rp_err err = {0};
    const size_t bits = rp_mask_bytes((long)tokens, (int)tokens) / 4;
    float *qkv = room(tokens * LD), *d_o = room(tokens * DIM), *work = room(rp_colsum_work((long)tokens, LD)),
          *dbias = room(LD);
    float *o[2], *top[2], *inv[2], *dqkv[2];
    uint8_t *mask[2];
    const struct rp_attention a = {
        .batch = 1, .seq = (int)tokens, .heads = 1, .head_dim = DIM, .scale = 0.35f, .causal = 1,
        .drop = drop(3, (int)tokens)};
    for (long i = TAIL; i <= (long)tokens; i += TAIL) {
        fill_tail(qkv, i, LD, 6 + (unsigned)i);
        fill_tail(d_o, i, DIM, 7 + (unsigned)i);
    }
    for (int k = 0; k < 2; k++) {
        o[k] = room(tokens * DIM), dqkv[k] = room(tokens * LD);
        top[k] = room(tokens), inv[k] = room(tokens), mask[k] = room(bits);
        const struct rp_ops *op = k ? dev->op : &rp_reference_ops;
        op->attention_forward(k ? dev : NULL, o[k], top[k], inv[k], mask[k], qkv, &a);
        shim->last = k ? 64 : 0; /* blocks of 32 keys, of at least 32 queries; all that compute D */
        const struct rp_attention_grad g = {.a = &a, .d_o = d_o, .qkv = qkv, .o = o[k], .row_max = top[k],
                                            .row_inv = inv[k], .mask = mask[k], .dqkv = dqkv[k], .dbias = dbias,
                                            .work = work};
        op->attention_backward(k ? dev : NULL, &g);
        shim->last = 0;
    }
    CHECK(dev->backend->sync(dev, &err) == 0, "%s", err.msg);
    CHECK(memcmp(o[0], o[1], tokens * DIM * 4) == 0 && memcmp(top[0], top[1], tokens * 4) == 0 &&
              memcmp(inv[0], inv[1], tokens * 4) == 0,
          "outputs");
    CHECK(memcmp(mask[0], mask[1], bits * 4) == 0 && mask[0][bits * 4 - 1], "decisions");
    for (int row = 0; row < (int)tokens; row++) {
        const float *x = dqkv[0] + (size_t)row * LD, *y = dqkv[1] + (size_t)row * LD;
        if (row >= QUERIES && row < (int)tokens - KEYS)
            continue;
        CHECK(memcmp(row < QUERIES ? x : x + DIM, row < QUERIES ? y : y + DIM, (row < QUERIES ? 1u : 2u) * DIM * 4) ==
                  0,
              "row %d", row);
        /* one key: its probability does not depend on the query */
        CHECK(row == 0 || x[row < QUERIES ? 0 : DIM] != 0, "row %d", row);
    }
}
