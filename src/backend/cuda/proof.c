/* Before a run in mixed precision: whether this GPU's tensor cores add products as its arithmetic has them
 * (ops/tensor_core.h).
 *
 * Every tile of gemm16.def for this GPU multiplies the matrices of ops/tensor_probe.h; one of them also those of two
 * chains, and those of edges, whose sums may differ and are counted. The kernels of convolutions and attention use the
 * same instruction, and most of their sums are seen after rounding only: each computes a small case, which must have
 * the bits of its definition.
 *
 * The tiles of gemm16_wgmma.def use another one: they are chosen if they give all of these sums too, in each way to
 * copy, and those of edges as the other instruction gave them. Else the GPU goes on without them. RP_CUDA_GEMM=mma does
 * not try them, for a GPU that they stop. */
#include "backend/cuda/inner.h"
#include "ops/op_check.h"
#include "ops/tensor_probe.h"

#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)1 << 20) /* of the workspace, from its middle on: a product of two chains uses its begin */
#define ONE_TILE "64x64_nt"    /* which every GPU has */
#define REPEAT 4               /* that makes 256 rows and columns: every warp of every tile has its part */

struct proof {
    struct rp_cuda *c;
    struct rp_tc_probe probe;
    uint16_t sent[RP_PROBE_NUMBERS_MOST];
    /* Where the operands lie; what is not aligned is copied number by number, the other one in pieces. */
    enum { ALIGNED, A_UNALIGNED, B_UNALIGNED, WAYS } way;
    int repeat; /* times that every row of A and column of B comes: 1, or REPEAT */
    uint32_t got[REPEAT * REPEAT * RP_PROBE_SUMS_MOST];
    uint32_t edges[RP_PROBE_SUMS_MOST];  /* by a tile of gemm16.def */
};

static int is_wgmma(const char *tile)
{
    return strncmp(tile, "wgmma", 5) == 0;
}

/* Sends a matrix that lies by k, or transposed. */
static int send(struct proof *p, void *to, const uint16_t *x, int transposed, struct rp_err *err)
{
    const int rows = p->probe.rows, steps = p->probe.steps;
    for (int i = 0; i < p->repeat * rows; i++)
        for (int k = 0; k < steps; k++)
            p->sent[transposed ? k * p->repeat * rows + i : i * steps + k] = x[i % rows * steps + k];
    return p->c->dev.backend->upload(&p->c->dev, to, p->sent,
                                     (size_t)p->repeat * (size_t)rows * (size_t)steps * sizeof *p->sent, err);
}

/* One product by a tile, "128x128_nt" and so on: fills p->got. */
static int multiply(struct proof *p, int tile, const char *name, struct rp_err *err)
{
    struct rp_cuda *c = p->c;
    const int size = p->repeat * p->probe.rows, steps = p->probe.steps;
    const char *form = strchr(name, '_') + 1;
    const int ta = form[0] == 't', tb = form[1] == 't';
    unsigned char *const room =
        (unsigned char *)rp_cuda_workspace(c, c->workspace_bytes) + c->workspace_bytes / 2 / 256 * 256;
    const size_t apart = sizeof p->sent + 256;
    unsigned char *const a = room + (p->way == A_UNALIGNED ? sizeof *p->sent : 0);
    unsigned char *const b = room + apart + (p->way == B_UNALIGNED ? sizeof *p->sent : 0);
    unsigned char *const out = room + 2 * apart;
    const struct rp_gemm g = {.ta = ta,
                              .tb = tb,
                              .m = size,
                              .n = size,
                              .k = steps,
                              .lda = ta ? size : steps,
                              .ldb = tb ? steps : size,
                              .ldc = size,
                              .a = (const rp_stored *)(void *)a,
                              .b = (const rp_stored *)(void *)b,
                              .c32 = (float *)(void *)out};
    if (send(p, a, p->probe.a, ta, err) < 0 || send(p, b, p->probe.b, !tb, err) < 0)
        return -1;
    c->gemm_forced.tile = tile;
    rp_cuda_gemm16(c, &g);
    c->gemm_forced.tile = 0;
    return c->dev.backend->download(&c->dev, p->got, out, (size_t)size * (size_t)size * sizeof *p->got, err);
}

static int prove_tile(struct proof *p, int tile, const char *name, struct rp_err *err)
{
    const struct rp_tc_probe *is = &p->probe;
    if (multiply(p, tile, name, err) < 0)
        return -1;
    for (int i = 0; i < is->rows * is->rows; i++) {
        const uint16_t *a = is->a + i / is->rows * is->steps, *b = is->b + i % is->rows * is->steps;
        if (p->got[i] != is->sum[i])
            return rp_fail(
                err, RP_UNAVAILABLE,
                "the tensor cores of %s do not compute as %s has it: kernel gemm16 %s, product %d of %d k-steps is "
                "0x%08x, not 0x%08x (a 0x%04x 0x%04x .., b 0x%04x 0x%04x ..); set train.precision to fp32, or use "
                "--backend cpu",
                p->c->gpu.name, rp_numerics_name(p->c->dev.numerics), name, i, is->steps, p->got[i], is->sum[i], a[0],
                a[1], b[0], b[1]);
    }
    return 0;
}

/* The digest is that of what one tile computed. */
static int prove_one(struct proof *p, int tile, struct rp_err *err)
{
    struct rp_device_proof *proof = &p->c->proof;
    struct rp_sha256 h;
    rp_sha256_init(&h);
    for (int kind = RP_PROBE_SUMS; kind <= RP_PROBE_CHAINS; kind++) {
        rp_tc_probe_fill(&p->probe, p->c->dev.numerics, (enum rp_tc_probe_kind)kind);
        if (prove_tile(p, tile, ONE_TILE, err) < 0)
            return -1;
        rp_tc_probe_hash(&h, p->got, p->probe.rows * p->probe.rows);
    }
    rp_sha256_final_hex(&h, proof->sums_sha256);
    rp_tc_probe_fill(&p->probe, p->c->dev.numerics, RP_PROBE_EDGES);
    if (multiply(p, tile, ONE_TILE, err) < 0)
        return -1;
    for (int i = 0; i < p->probe.rows * p->probe.rows; i++)
        proof->edges += !rp_tc_probe_equal(p->got[i], p->probe.sum[i]);
    memcpy(p->edges, p->got, sizeof p->edges);
    snprintf(proof->outcome, sizeof proof->outcome, "proved");
    return 0;
}

/* Fills c->has_wgmma. -1: the GPU failed, and cannot go on: its context is lost. */
static int prove_wgmma(struct proof *p, struct rp_err *err)
{
    int usable, equal = 1, tiles = 0;
    const char *name;
    for (int kind = RP_PROBE_SUMS; kind <= RP_PROBE_EDGES; kind++) {
        rp_tc_probe_fill(&p->probe, p->c->dev.numerics, (enum rp_tc_probe_kind)kind);
        const uint32_t *const sum = kind == RP_PROBE_EDGES ? p->edges : p->probe.sum;
        const int rows = p->probe.rows;
        p->repeat = kind == RP_PROBE_CHAINS ? 1 : REPEAT;
        const int size = p->repeat * rows;
        for (int tile = 1; (name = rp_cuda_gemm16_tile(p->c, tile, &usable)); tile++) {
            /* has other segments */
            if (!usable || !is_wgmma(name) || (kind == RP_PROBE_CHAINS && strchr(name, '_')[1] == 't'))
                continue;
            for (p->way = ALIGNED; equal && p->way < (kind == RP_PROBE_SUMS ? WAYS : A_UNALIGNED); p->way++) {
                if (multiply(p, tile, name, err) < 0)
                    return -1;
                for (int i = 0; i < size * size; i++)
                    equal &= rp_tc_probe_equal(p->got[i], sum[i / size % rows * rows + i % size % rows]);
            }
            tiles++;
        }
    }
    p->c->has_wgmma = equal && tiles > 0;
    return 0;
}

/* Convolutions and attention: every kernel of them, in a block or two. */
static int prove_operations(struct rp_cuda *c, struct rp_err *err)
{
#define WINDOW .conv = {1, 6, 5, 16, 6, 5, 24, 3, 3, 1, 1, 1}
#define HEAD(columns) .batch = 1, .seq = 24, .heads = 1, .head_dim = columns
    static const struct {
        enum rp_op op;
        struct rp_op_shape shape;
    } all[] = {
        {RP_OP_conv_forward, {WINDOW}},           {RP_OP_conv_forward, {WINDOW}},
        {RP_OP_conv_dgrad, {WINDOW}},             {RP_OP_conv_dgrad, {WINDOW}},
        {RP_OP_conv_wgrad, {WINDOW}},             {RP_OP_conv_wgrad, {WINDOW}},
        {RP_OP_attention_backward, {HEAD(64)}},   {RP_OP_attention_backward, {HEAD(96)}}, /* forward, too */
    };
#undef WINDOW
#undef HEAD
    const struct rp_backend *b = c->dev.backend;
    const struct rp_op_memory memory = {b->shared, b->free_shared, b->sync};
    const int rotates = c->gemm_rotates;
    int failed = 0;
    c->gemm_rotates = 1; /* a convolution takes the other tile than the one before */
    for (size_t i = 0; i < sizeof all / sizeof *all && !failed; i++)
        failed = rp_ops_compare(&memory, c->dev.op, &c->dev, all[i].op, &all[i].shape, err) < 0;
    c->gemm_rotates = rotates;
    if (failed && err->code == RP_MISMATCH) {
        const struct rp_err is = *err;
        return rp_fail(err, RP_UNAVAILABLE,
                       "the tensor cores of %s do not compute as %s has it: %s; set train.precision to fp32, or use "
                       "--backend cpu",
                       c->gpu.name, rp_numerics_name(c->dev.numerics), is.msg);
    }
    return failed ? -1 : 0;
}

int rp_cuda_prove(struct rp_cuda *c, struct rp_err *err)
{
    struct proof *p = c->workspace_bytes >= 2 * ROOM ? malloc(sizeof *p) : NULL;
    int failed = 0, usable, one = 0;
    const char *name;
    c->proof = (struct rp_device_proof){.outcome = "unproven"};
    c->has_wgmma = 0;
    if (c->workspace_bytes < 2 * ROOM)
        return 0; /* no product will be computed */
    if (!p)
        return rp_fail(err, RP_UNAVAILABLE, "cuda backend: no memory for %zu bytes", sizeof *p);
    p->c = c;
    p->repeat = 1;
    rp_tc_probe_fill(&p->probe, c->dev.numerics, RP_PROBE_SUMS);
    for (int tile = 1; !failed && (name = rp_cuda_gemm16_tile(c, tile, &usable)); tile++)
        if (usable && strcmp(name, ONE_TILE) == 0)
            one = tile;
        else if (usable && !is_wgmma(name))
            failed = prove_tile(p, tile, name, err) < 0;
    if (!failed && one)
        failed = prove_one(p, one, err) < 0 || prove_operations(c, err) < 0;
    if (!failed && one && !c->without_wgmma && prove_wgmma(p, err) < 0) {
        failed = 1;
        rp_wrap(err, "a GEMM by wgmma, before the run (RP_CUDA_GEMM=mma does without these kernels)");
    }
    if (!failed && one)
        snprintf(c->proof.instruction, sizeof c->proof.instruction, c->has_wgmma ? "wgmma" : "mma");
    free(p);
    return failed ? -1 : 0;
}
