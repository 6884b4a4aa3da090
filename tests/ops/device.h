/* CPU devices for the tests of operations: each (instruction set, threads) is opened once and lives as long as the
 * program. */
#pragma once

#include "backend/cpu/inner.h"
#include "tests/unit/tap.h"

#define MAX_THREADS 8

/* NULL when this CPU lacks the instruction set. */
static inline struct rp_dev *device(enum rp_isa isa, int threads)
{
    static struct rp_dev *open[RP_ISA_COUNT][MAX_THREADS];
    struct rp_err err = {0};
    struct rp_device_opts o = {.isa = rp_isa_name(isa), .threads = threads};
    const struct rp_op_use use[] = {
        {.op = RP_OP_gemm, .rows = 4096},
        {.op = RP_OP_attention_backward, .seq = 8192, .head_dim = 16},
        {.op = RP_OP_attention_backward, .seq = 512, .head_dim = 300},
        {.op = RP_OP_conv_forward, .conv = {.in_c = 512, .out_c = 512, .kernel_h = 3, .kernel_w = 3}}};
    if (!rp_isa_usable(isa))
        return NULL;
    if (!open[isa][threads])
        open[isa][threads] = rp_backend_open(&rp_backend_cpu, &o, use, 4, &err);
    CHECK(open[isa][threads] != NULL, "%s", err.msg);
    return open[isa][threads];
}
