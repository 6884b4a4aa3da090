/* Chooses among the compilations of the operations, and says what scratch they need. */
#include "backend/cpu/ops_isa.h"

#define ROW_SUMS_STACK ((size_t)64 * 128 * sizeof(float)) /* a binary counter of 128-column partial sums */

static const struct {
    void (*fill)(struct rp_ops *op);
    size_t (*attention_scratch)(int max_seq);
} isas[RP_ISA_COUNT] = {
    [RP_ISA_SCALAR] = {rp_cpu_ops_fill_scalar, rp_cpu_attention_scratch_scalar},
    [RP_ISA_AVX2] = {rp_cpu_ops_fill_avx2, rp_cpu_attention_scratch_avx2},
    [RP_ISA_AVX512] = {rp_cpu_ops_fill_avx512, rp_cpu_attention_scratch_avx512},
};

void rp_cpu_ops_table(struct rp_ops *op, enum rp_isa isa)
{
    isas[isa].fill(op);
}

size_t rp_cpu_rows_scratch(enum rp_isa isa, int max_seq)
{
    size_t attention = isas[isa].attention_scratch(max_seq);
    return attention > ROW_SUMS_STACK ? attention : ROW_SUMS_STACK;
}
