/* Chooses among the compilations of the operations, and says what scratch attention needs. */
#include "backend/cpu/ops_isa.h"

void rp_cpu_ops_table(struct rp_ops *op, enum rp_isa isa)
{
    static void (*const fill[RP_ISA_COUNT])(struct rp_ops *) = {
        [RP_ISA_scalar] = rp_cpu_ops_fill_scalar,
        [RP_ISA_avx2] = rp_cpu_ops_fill_avx2,
        [RP_ISA_avx512] = rp_cpu_ops_fill_avx512,
    };
    if (isa == RP_ISA_scalar && rp_isa_has_fma())
        rp_cpu_ops_fill_scalar_fma(op);
    else
        fill[isa](op);
}

/* struct att_scratch: kt, vt; q, k, v; bias, keep, big_d; s, dp. The same for all instruction sets. */
size_t rp_cpu_attention_scratch(int keys)
{
    size_t seq = ((size_t)keys + RP_ATT_PAD - 1) / RP_ATT_PAD * RP_ATT_PAD, skewed = seq + RP_ATT_SKEW;
    return (2 * RP_ATT_COLUMNS * skewed + 3 * seq * RP_ATT_COLUMNS + 3 * seq + 2 * seq * skewed) * sizeof(float);
}
