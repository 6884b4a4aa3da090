/* The choice between the compilations of the operations, and the scratch that attention needs. */
#include "backend/cpu/ops_isa.h"

const struct rp_ops *rp_cpu_ops(enum rp_isa isa)
{
    if (isa == RP_ISA_scalar)
        return rp_isa_has_fma() ? &rp_cpu_ops_scalar_fma : &rp_cpu_ops_scalar;
    return isa == RP_ISA_avx2 ? &rp_cpu_ops_avx2 : &rp_cpu_ops_avx512;
}

/* struct att_scratch: kt, vt; q, k, v; bias, keep, big_d; s, dp. The same for all instruction sets. */
size_t rp_cpu_attention_scratch(int keys)
{
    size_t seq = ((size_t)keys + RP_ATT_PAD - 1) / RP_ATT_PAD * RP_ATT_PAD, skewed = seq + RP_ATT_SKEW;
    return (2 * RP_ATT_COLUMNS * skewed + 3 * seq * RP_ATT_COLUMNS + 3 * seq + 2 * seq * skewed) * sizeof(float);
}
