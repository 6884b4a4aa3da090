/* The convolutions of the CPU backend as a shared library for conv_torch.py: as much of a device as these operations
 * need. */
#include "backend/cpu/ops_isa.h"

#include <stdio.h>
#include <sys/mman.h>

static struct rp_cpu cpu;

/* 0, or -1 with a message on standard error. */
int bench_open(const char *isa, int threads);
int bench_open(const char *isa, int threads)
{
    struct rp_err err = {0};
    const size_t huge = (size_t)2 << 20;
    const struct rp_conv largest = {.in_c = 512, .out_c = 512, .kernel_h = 3, .kernel_w = 3};
    cpu.isa = (enum rp_isa)rp_isa_from_name(isa);
    if (!rp_isa_usable(cpu.isa)) {
        fprintf(stderr, "instruction set '%s' is not usable here\n", isa);
        return -1;
    }
    cpu.threads = threads;
    cpu.gemm = rp_cpu_gemm_kernel(cpu.isa);
    cpu.scratch_each = rp_cpu_conv_private() + rp_cpu_conv_shared(&largest, RP_OP_conv_forward) / (size_t)threads;
    cpu.scratch_each = (cpu.scratch_each + huge - 1) / huge * huge;
    cpu.scratch = aligned_alloc(huge, (size_t)threads * cpu.scratch_each);
    if (cpu.scratch)
        madvise(cpu.scratch, (size_t)threads * cpu.scratch_each, MADV_HUGEPAGE);
    cpu.pool = cpu.scratch ? rp_pool_new(threads, &err) : NULL;
    if (!cpu.pool)
        fprintf(stderr, "cannot start: %s\n", err.msg);
    return cpu.pool ? 0 : -1;
}

/* Floats of `work` for both directions that take some. */
long bench_work(const struct rp_conv *c);
long bench_work(const struct rp_conv *c)
{
    const size_t forward = rp_colsum_work(rp_conv_rows(c), c->out_c), weights = rp_conv_wgrad_work(c);
    return (long)(forward > weights ? forward : weights);
}

/* direction: 0 forward, 1 data gradient, 2 weight gradient; mean may be NULL */
void bench_conv(int direction, const struct rp_conv *c, float *x, float *w, float *y, float *mean, float *work);
void bench_conv(int direction, const struct rp_conv *c, float *x, float *w, float *y, float *mean, float *work)
{
    const struct rp_ops *op = rp_cpu_ops(cpu.isa);
    if (direction == 0)
        op->conv_forward(&cpu.dev, y, mean, x, w, c, work);
    else if (direction == 1)
        op->conv_dgrad(&cpu.dev, x, y, w, NULL, c);
    else
        op->conv_wgrad(&cpu.dev, w, y, x, c, work);
}
