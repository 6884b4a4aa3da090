/* The choice between the compilations of the operations, and the scratch that attention needs. */
#include "backend/cpu/ops_isa.h"

const struct rp_ops *rp_cpu_ops(enum rp_isa isa)
{
    if (isa == RP_ISA_scalar)
        return rp_isa_has_fma() ? &rp_cpu_ops_scalar_fma : &rp_cpu_ops_scalar;
    return isa == RP_ISA_avx2 ? &rp_cpu_ops_avx2 : &rp_cpu_ops_avx512;
}

/* struct att_scratch: forward q, g, kt, s, v; backward q, g, dq, kt, vt, s, dp, k, dk, dv, big_d; both bias, bits. The larger one, the
 * same for all instruction sets. */
size_t rp_cpu_attention_scratch(int keys, int head_dim)
{
    const size_t block = RP_ATT_BLOCK, queries = RP_ATT_QUERIES, skew = RP_ATT_SKEW, dim = (size_t)head_dim;
    size_t seq = (size_t)rp_mask_stride(keys), row = (dim + RP_ATT_PAD - 1) / RP_ATT_PAD * RP_ATT_PAD, line = block + skew;
    size_t forward = 2 * queries * row + seq / block * dim * line + queries * (seq + skew) + seq * row;
    size_t backward = 3 * seq * row + 2 * dim * line + 2 * block * line + 3 * block * row + seq;
    return ((forward > backward ? forward : backward) + seq + seq / 32) * sizeof(float);
}
