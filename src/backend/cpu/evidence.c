/* SHA-256 leaves of a tensor, over all threads; the library underneath uses the CPU's SHA instructions. */
#include "backend/cpu/ops_isa.h"
#include "base/hash.h"
#include "ops/functions.h"

#include <string.h>

#define LEAF (RP_LEAF_BYTES / 4)
#define LEAVES_EACH 8

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "leaves are little-endian floats taken from memory as they are"
#endif

struct leaves_job {
    uint8_t *leaves;
    const float *x;
    size_t n;
};

static void digest_leaf(uint8_t *out, const float *x, size_t n)
{
    uint32_t nans = 0;
    for (size_t i = 0; i < n; i++)
        nans |= (uint32_t)(x[i] != x[i]);
    if (!nans) {
        rp_sha256_bytes(out, x, n * sizeof *x);
        return;
    }
    uint32_t canonical[LEAF];
    for (size_t i = 0; i < n; i++)
        canonical[i] = x[i] != x[i] ? 0x7fc00000u : r_bits(x[i]);
    rp_sha256_bytes(out, canonical, n * sizeof *canonical);
}

static void leaves_part(void *arg, int part, int thread)
{
    const struct leaves_job *o = arg;
    (void)thread;
    for (size_t l = (size_t)part * LEAVES_EACH; l * LEAF < o->n && l < ((size_t)part + 1) * LEAVES_EACH; l++) {
        size_t left = o->n - l * LEAF;
        digest_leaf(o->leaves + l * RP_SHA256_SIZE, o->x + l * LEAF, left < LEAF ? left : LEAF);
    }
}

void rp_cpu_digest_leaves(struct rp_dev *dev, uint8_t *leaves, const float *x, size_t n)
{
    struct leaves_job o = {leaves, x, n};
    size_t count = (n + LEAF - 1) / LEAF;
    rp_pool_run(rp_cpu_of(dev)->pool, (int)((count + LEAVES_EACH - 1) / LEAVES_EACH), leaves_part, &o);
}
