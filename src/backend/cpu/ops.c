/* The choice between the compilations of the operations, and the scratch that attention and convolutions need. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/ops_isa.h"

const struct rp_ops *rp_cpu_ops(enum rp_isa isa)
{
    static const struct rp_ops *const tables[RP_ISA_COUNT] = {
#define ROW(X, name, machine, ...) [RP_ISA_##name] = RP_KERNELS_##machine(&rp_cpu_ops_##name),
        RP_ISA_ROWS(ROW, )
#undef ROW
    };
    return isa == RP_ISA_scalar && rp_isa_chooses_fma() ? RP_KERNELS_x86_64(&rp_cpu_ops_scalar_fma) : tables[isa];
}

/* struct att_scratch: forward q, g, kt, s, v; backward q, g, dq, kt, vt, s, dp, k, dk, dv, big_d; both bias, bits. The
 * larger one, the same for all instruction sets. */
size_t rp_cpu_attention_scratch(int keys, int head_dim)
{
    const size_t block = RP_ATT_BLOCK, queries = RP_ATT_QUERIES, skew = RP_ATT_SKEW, dim = (size_t)head_dim;
    size_t seq = (size_t)rp_mask_stride(keys), row = (dim + RP_ATT_PAD - 1) / RP_ATT_PAD * RP_ATT_PAD,
           line = block + skew;
    size_t forward = 2 * queries * row + seq / block * dim * line + queries * (seq + skew) + seq * row;
    size_t backward = 3 * seq * row + 2 * dim * line + 2 * block * line + 3 * block * row + seq;
    return ((forward > backward ? forward : backward) + seq + seq / 32) * sizeof(float);
}

/* Forward and data gradient: strip, two planes; weight gradient: columns, two slabs of dy. See conv_job.inc.h. */
size_t rp_cpu_conv_private(void)
{
    const size_t strip = (size_t)RP_GEMM_GROUP * (RP_CONV_KC + 16), plane = (size_t)RP_CONV_ROWS * RP_CONV_COLS;
    const size_t columns = (size_t)RP_CONV_CHAIN * RP_CONV_COLS, slab = (size_t)(RP_CONV_CHAIN + 4) * RP_CONV_SLAB;
    const size_t rows = strip + 2 * plane, weights = columns + 2 * slab;
    return ((rows > weights ? rows : weights) * sizeof(float) + 4095) / 4096 * 4096;
}

/* A data gradient has the taps of one class of pixels at a time, at most all. Columns are padded to panels. */
size_t rp_cpu_conv_shared(const struct rp_conv *c, enum rp_op op)
{
    const size_t taps = (size_t)c->kernel_h * (size_t)c->kernel_w, in = (size_t)c->in_c, out = (size_t)c->out_c;
    const size_t k = taps * (op == RP_OP_conv_forward ? in : out), n = op == RP_OP_conv_forward ? out : in;
    return op == RP_OP_conv_wgrad ? 0 : k * (n + RP_GEMM_NR_MAX) * sizeof(float);
}
