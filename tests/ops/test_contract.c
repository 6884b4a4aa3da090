/* The comparison must be able to fail. Here the AVX2 kernels are compiled once more, from the same text, but with
 * multiplications and additions contracted to fma, which the product never allows; every operation that has such a pair
 * must be caught. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("O2,fp-contract=fast")
#endif
#pragma GCC target("avx2,fma,f16c")

#define RP_ISA_NAME(name) name##_contracted
struct rp_ops;
extern const struct rp_ops rp_cpu_ops_contracted;

#undef __AVX512F__ /* the AVX2 text even where the whole file is compiled for more */
#include "backend/cpu/kernels.inc.h"

#include "ops/op_check.h"
#include "tests/ops/device.h"

/* Operations with a product that is rounded before it is added in one expression. */
static const struct {
    enum rp_op op;
    unsigned variant;
} with_products[] = {
    {RP_OP_layernorm_forward, 0},
    {RP_OP_residual_layernorm_forward, 0},
    {RP_OP_residual_layernorm_forward, RP_VARIANT_KEEP_SUM},
    {RP_OP_layernorm_backward, 0},
    {RP_OP_layernorm_backward, RP_VARIANT_ADD_GRADIENT},
    {RP_OP_attention_forward, 0},
    {RP_OP_attention_forward, RP_VARIANT_CAUSAL},
    {RP_OP_attention_backward, 0},
    {RP_OP_attention_backward, RP_VARIANT_CAUSAL},
    {RP_OP_attention_forward, RP_VARIANT_CAUSAL | RP_VARIANT_DOCUMENTS},
    {RP_OP_attention_backward, RP_VARIANT_CAUSAL | RP_VARIANT_DOCUMENTS},
    {RP_OP_weighted_sum, 0},
    {RP_OP_square_sums, 0},
    {RP_OP_batchnorm_forward, 0},
    {RP_OP_batchnorm_forward, RP_VARIANT_STATISTICS},
    {RP_OP_batchnorm_backward, 0},
    {RP_OP_batchnorm_backward, RP_VARIANT_RELU | RP_VARIANT_ADD_INPUT},
    {RP_OP_softmax_xent_smoothed, 0},
    {RP_OP_lars_update, RP_VARIANT_ADAPT},
    {RP_OP_lars_update, RP_VARIANT_NESTEROV},
};
#define SEEDS 40 /* one number of a whole tensor seldom shows a last bit: it is rounded away with the large sum */

static const struct rp_op_shape shape = {.rows = 65, .width = 240, .batch = 2, .seq = 33, .heads = 2, .head_dim = 80,
                                         .dropout = 0.1f, .seed = 5}; /* head_dim 80: its scale is no power of two */

TEST(contracted_kernels_are_caught)
{
    struct rp_dev *dev = device(RP_ISA_avx2, 2);
    if (!dev)
        SKIP("this CPU lacks AVX2");
    for (size_t i = 0; i < sizeof with_products / sizeof *with_products; i++) {
        struct rp_err e = {0};
        enum rp_op op = with_products[i].op;
        int caught = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            struct rp_op_shape s = shape;
            s.seed = (uint64_t)seed;
            s.variant = with_products[i].variant;
            caught += rp_ops_compare(NULL, &rp_cpu_ops_contracted, dev, op, &s, &e) < 0 && e.code == RP_MISMATCH;
        }
        CHECK(caught > 0, "%s, variant %u, was contracted, and no comparison failed", rp_op_info[op].name,
              with_products[i].variant);
    }
}

TEST(the_product_build_is_not_contracted)
{
    struct rp_dev *dev = device(RP_ISA_avx2, 2);
    if (!dev)
        SKIP("this CPU lacks AVX2");
    for (size_t i = 0; i < sizeof with_products / sizeof *with_products; i++) {
        struct rp_err e = {0};
        struct rp_op_shape s = shape;
        s.variant = with_products[i].variant;
        CHECK(rp_ops_compare(NULL, dev->op, dev, with_products[i].op, &s, &e) == 0, "%s", e.msg);
    }
}
