/* Before a run in mixed precision: whether this GPU's tensor cores add products as its arithmetic has them
 * (ops/tensor_core.h).
 *
 * Every tile of gemm16.def for this GPU multiplies two matrices of 64 x 48 whose rows and columns are made to tell
 * arithmetics apart: ordinary numbers; one large product among small ones, which are cut off or not; two that cancel
 * with small ones between and around them, within a block and across; numbers below the smallest normal one. A longer
 * product has two chains. Other kernels use the same instruction. */
#include "backend/cuda/cuda.h"
#include "ops/functions.h"
#include "ops/low.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 64, STEPS = 48, LONG_SIZE = 8, LONG_STEPS = RP_LOW_CHAIN + 16 };
#define ROOM ((size_t)1 << 20) /* of the workspace, from its middle on: a product of two chains uses its begin */
#define NUMBERS (LONG_SIZE * LONG_STEPS)
#define LONG_TILE "64x64_nt" /* which every GPU has */

struct proof {
    struct rp_cuda *c;
    const struct rp_arithmetic *is;
    uint32_t state;
    uint16_t a[NUMBERS], b[NUMBERS], sent[NUMBERS]; /* by k: rows of A, columns of B */
    uint32_t got[SIZE * SIZE];
};

static uint32_t next(struct proof *p)
{
    p->state ^= p->state << 13;
    p->state ^= p->state >> 17;
    p->state ^= p->state << 5;
    return p->state;
}

/* +-1.m times 2^exponent. */
static uint16_t number(struct proof *p, int exponent)
{
    const uint32_t w = next(p);
    return rp_low_of(p->is->format, (w & 0x80000000u) | (uint32_t)(127 + exponent) << 23 | (w & 0x7fffff));
}

/* Row `i` of A: one of four kinds. Columns of B are ordinary, or powers of two of both signs. */
static void fill_row(struct proof *p, uint16_t *row, int i)
{
    const int is_bf16 = p->is->format == RP_TC_BF16, kind = i / 16, first = (5 * i) % STEPS,
              second = (first + 1 + 7 * (i % 5)) % STEPS;
    for (int k = 0; k < STEPS; k++) {
        row[k] = number(p, kind == 0 ? (int)(next(p) % 3) : kind == 3 ? (is_bf16 ? -100 : -15) : -(int)(next(p) % 14));
        if (kind == 3 && !is_bf16)
            row[k] = (uint16_t)((row[k] & 0x8000) | (next(p) & 0x3ff)); /* subnormal */
    }
    if (kind == 1 || kind == 2)
        row[first] = rp_low_of(p->is->format, r_bits(1024.0f));
    if (kind == 2)
        row[second] = rp_low_of(p->is->format, r_bits(-1024.0f));
}

static void fill(struct proof *p)
{
    for (int i = 0; i < SIZE; i++) {
        fill_row(p, p->a + i * STEPS, i);
        for (int k = 0; k < STEPS; k++) {
            /* the same power for large numbers that are to cancel, in half of the columns */
            const uint32_t power = r_bits(i > 31 && next(p) & 1 ? -1.0f : 1.0f) + ((uint32_t)(i % 4) << 23);
            p->b[i * STEPS + k] = i < 16 ? number(p, 0) : rp_low_of(p->is->format, power);
        }
    }
}

static void fill_long(struct proof *p)
{
    for (int i = 0; i < NUMBERS; i++) {
        p->a[i] = number(p, -1);
        p->b[i] = number(p, -1);
    }
}

/* Sends a matrix that lies by k, or transposed. */
static int send(struct proof *p, void *to, const uint16_t *x, int rows, int steps, int transposed, struct rp_err *err)
{
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < steps; k++)
            p->sent[transposed ? k * rows + i : i * steps + k] = x[i * steps + k];
    return p->c->dev.backend->upload(&p->c->dev, to, p->sent, (size_t)rows * (size_t)steps * sizeof *p->sent, err);
}

static uint32_t expected(const struct proof *p, int i, int j, int steps)
{
    const uint16_t *a = p->a + i * steps, *b = p->b + j * steps;
    const int first = steps < RP_LOW_CHAIN ? steps : RP_LOW_CHAIN;
    const uint32_t one = rp_tc_chain(p->is->format, p->is->tc, a, b, 0, first);
    if (first == steps)
        return one;
    return r_bits(r_float(one) +
                  r_float(rp_tc_chain(p->is->format, p->is->tc, a + first, b + first, 0, steps - first)));
}

/* One product by a tile, "128x128_nt" and so on. */
static int prove_tile(struct proof *p, int tile, const char *name, int size, int steps, struct rp_err *err)
{
    struct rp_cuda *c = p->c;
    const char *form = strchr(name, '_') + 1;
    const int ta = form[0] == 't', tb = form[1] == 't';
    unsigned char *const room =
        (unsigned char *)rp_cuda_workspace(c, c->workspace_bytes) + c->workspace_bytes / 2 / 256 * 256;
    unsigned char *const b = room + NUMBERS * sizeof(uint16_t), *const out = b + NUMBERS * sizeof(uint16_t);
    const struct rp_gemm g = {.ta = ta,
                              .tb = tb,
                              .m = size,
                              .n = size,
                              .k = steps,
                              .lda = ta ? size : steps,
                              .ldb = tb ? steps : size,
                              .ldc = size,
                              .a = (const rp_stored *)(void *)room,
                              .b = (const rp_stored *)(void *)b,
                              .c32 = (float *)(void *)out};
    if (send(p, room, p->a, size, steps, ta, err) < 0 || send(p, b, p->b, size, steps, !tb, err) < 0)
        return -1;
    c->gemm_forced.tile = tile;
    rp_cuda_gemm16(c, &g);
    c->gemm_forced.tile = 0;
    if (c->dev.backend->download(&c->dev, p->got, out, (size_t)size * (size_t)size * sizeof *p->got, err) < 0)
        return -1;
    for (int i = 0; i < size * size; i++) {
        const uint32_t should = expected(p, i / size, i % size, steps);
        if (p->got[i] != should)
            return rp_fail(
                err, RP_UNAVAILABLE,
                "the tensor cores of %s do not compute as %s has it: kernel gemm16 %s, product %d of %d k-steps is "
                "0x%08x, not 0x%08x (a 0x%04x 0x%04x .., b 0x%04x 0x%04x ..); set train.precision to fp32, or use --backend cpu",
                c->gpu.name, rp_numerics_name(c->dev.numerics), name, i, steps, p->got[i], should,
                p->a[i / size * steps], p->a[i / size * steps + 1], p->b[i % size * steps], p->b[i % size * steps + 1]);
    }
    return 0;
}

int rp_cuda_prove(struct rp_cuda *c, struct rp_err *err)
{
    struct proof *p = c->workspace_bytes >= 2 * ROOM ? malloc(sizeof *p) : NULL;
    int failed = 0, usable;
    const char *name;
    if (c->workspace_bytes < 2 * ROOM)
        return 0; /* no product will be computed */
    if (!p)
        return rp_fail(err, RP_UNAVAILABLE, "cuda backend: no memory for %zu bytes", sizeof *p);
    *p = (struct proof){.c = c, .is = rp_arithmetic_of(c->dev.numerics), .state = 0x2545f491};
    fill(p);
    for (int tile = 1; !failed && (name = rp_cuda_gemm16_tile(c, tile, &usable)); tile++)
        failed = usable && prove_tile(p, tile, name, SIZE, STEPS, err) < 0;
    fill_long(p);
    for (int tile = 1, done = 0; !failed && !done && (name = rp_cuda_gemm16_tile(c, tile, &usable)); tile++) {
        done = usable && strcmp(name, LONG_TILE) == 0;
        failed = done && prove_tile(p, tile, name, LONG_SIZE, LONG_STEPS, err) < 0;
    }
    free(p);
    return failed ? -1 : 0;
}
