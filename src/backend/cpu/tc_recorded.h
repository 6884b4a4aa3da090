/* Products that were recorded on GPUs, against what this CPU emulates.
 *
 * What:    256 sums of 4, 8 or 16 products of each GPU in results/published/tensor_core, which the program embeds.
 * Flow:    the files whose records have as many products as the sums of `tc` -> rp_tc_chain() and a kernel.
 * Owner:   *difference is the caller's.
 * Extend:  another GPU is a file there, GPU_fp16.bin or GPU_bf16.bin.
 */
#pragma once

#include "backend/cpu/tc_gemm.h"

#define RP_TC_RECORDED_LINES 256 /* of a file */

struct rp_tc_recorded {
    int gpus, cases, failed; /* cases: products, each by the definition and by the kernel */
};
/* isa: whose kernel. difference: the first product that differs, RP_MISMATCH with GPU, line and both results. */
struct rp_tc_recorded rp_tc_compare_recorded(enum rp_isa isa, enum rp_tc_format format, struct rp_tc tc,
                                             struct rp_err *difference);
