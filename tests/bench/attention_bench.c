/* The attention of the CPU backend as a shared library for attention_torch.py: as much of a device as these two
 * operations need. */
#include "backend/cpu/ops_isa.h"

#include <stdio.h>
#include <sys/mman.h>

static struct rp_cpu cpu;

/* 0, or -1 with a message on standard error. The scratch fits sequences of up to `seq` and heads of up to `dim`. */
int bench_open(const char *isa, int threads, int seq, int dim);
int bench_open(const char *isa, int threads, int seq, int dim)
{
    struct rp_err err = {0};
    const size_t huge = (size_t)2 << 20;
    cpu.isa = (enum rp_isa)rp_isa_from_name(isa);
    if (!rp_isa_usable(cpu.isa)) {
        fprintf(stderr, "instruction set '%s' is not usable here\n", isa);
        return -1;
    }
    cpu.threads = threads;
    cpu.scratch_each = (rp_cpu_attention_scratch(seq, dim) + huge - 1) / huge * huge;
    cpu.scratch = aligned_alloc(huge, (size_t)threads * cpu.scratch_each);
    if (cpu.scratch)
        madvise(cpu.scratch, (size_t)threads * cpu.scratch_each, MADV_HUGEPAGE);
    cpu.pool = cpu.scratch ? rp_pool_new(threads, &err) : NULL;
    if (!cpu.pool)
        fprintf(stderr, "cannot start: %s\n", err.msg);
    return cpu.pool ? 0 : -1;
}

struct call {
    int batch, seq, heads, dim, causal;
    const float *qkv, *d_o;
    float *o, *row_max, *row_inv, *dqkv, *dbias, *work;
};

static struct rp_attention attention_of(const struct call *c)
{
    return (struct rp_attention){.batch = c->batch, .seq = c->seq, .heads = c->heads, .head_dim = c->dim,
                                 .causal = c->causal, .scale = 1.0f / __builtin_sqrtf((float)c->dim)};
}

void bench_forward(const struct call *c);
void bench_forward(const struct call *c)
{
    struct rp_attention a = attention_of(c);
    rp_cpu_ops(cpu.isa)->attention_forward(&cpu.dev, c->o, c->row_max, c->row_inv, NULL, c->qkv, &a);
}

void bench_backward(const struct call *c);
void bench_backward(const struct call *c)
{
    struct rp_attention a = attention_of(c);
    const struct rp_attention_grad g = {.a = &a, .d_o = c->d_o, .qkv = c->qkv, .o = c->o, .row_max = c->row_max,
                                        .row_inv = c->row_inv, .dqkv = c->dqkv, .dbias = c->dbias, .work = c->work};
    rp_cpu_ops(cpu.isa)->attention_backward(&cpu.dev, &g);
}
