/* The CPU as a device: memory blocks, limits, and the choice of an instruction set. */
#include "backend/cpu/inner.h"

#include "backend/cpu/limits.h"
#include "backend/cpu/low.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define KEYS_MOST (1 << 24) /* with 2^31 elements of heads, the scratch of 4096 threads is within 2^63 bytes */
#define MIB(bytes) ((double)(bytes) / (1 << 20))
#define BLOCKS ((int)(sizeof((struct rp_cpu *)0)->block / sizeof(struct rp_cpu_block)))

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static int threads_of(const struct rp_device_opts *o)
{
    return o->threads > 0 ? o->threads : rp_cpu_count("");
}

static const char *unavailable(const struct rp_device_opts *o)
{
#define LACKING(X, name, machine, flops, ...)                                                                          \
    [RP_ISA_##name] = "instruction set " #name " needs a CPU and a kernel of " #machine " with all of " #__VA_ARGS__,
#define JOINED(X, name, ...) ", " #name
    static const char *const lacking[RP_ISA_COUNT] = {RP_ISA_ROWS(LACKING, )};
    int isa = rp_isa_from_name(o->isa);
    if (isa < 0)
        return "unknown instruction set; one of auto" RP_ISA_ROWS(JOINED, );
    return rp_isa_usable((enum rp_isa)isa) ? NULL : lacking[isa];
#undef LACKING
#undef JOINED
}

static int supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    (void)o;
    if (rp_use_is_attention(u) && u->seq > KEYS_MOST)
        return rp_use_refuse(u, err,
                             "takes more scratch than the cpu backend can count: at most %d; shorten task.seq_length",
                             KEYS_MOST);
    return rp_use_check(u, "cpu", err);
}

static int is_convolution(enum rp_op op)
{
    return op == RP_OP_conv_forward || op == RP_OP_conv_dgrad || op == RP_OP_conv_wgrad;
}

static struct rp_gemm_shape peak_shape(int threads)
{
    return (struct rp_gemm_shape){.rows = 512 * ((threads + 7) / 8), .width = 1024, .depth = 768};
}

/* The share of each thread, since the workspace is the same for all; the weights are packed behind the last thread's
 * own. */
static size_t conv_scratch(const struct rp_op_use *u, size_t threads)
{
    return rp_cpu_conv_private() + (rp_cpu_conv_shared(&u->conv, u->op) + threads - 1) / threads;
}

/* Bytes for all threads together, on any model's device enough for the product whose speed is measured, too. */
static size_t low_scratch(const struct rp_device_opts *o, const struct rp_op_use *u)
{
    const int known = rp_isa_from_name(o->isa), threads = threads_of(o);
    const enum rp_isa isa = known < 0 ? RP_ISA_scalar : (enum rp_isa)known;
    const struct rp_gemm_shape p = peak_shape(threads);
    const struct rp_op_use peak = {.op = RP_OP_gemm, .rows = p.rows, .width = p.width, .depth = p.depth};
    const size_t own = rp_cpu_low_scratch(isa, threads, u),
                 most = u->op == RP_OP_gemm ? rp_cpu_low_scratch(isa, threads, &peak) : 0;
    return own > most ? own : most;
}

/* Each thread gets whole huge pages, so that no two threads share one. */
static size_t count_needs(const struct rp_device_opts *o, const struct rp_op_use *u)
{
    size_t each = is_convolution(u->op)        ? conv_scratch(u, (size_t)threads_of(o))
                  : u->op == RP_OP_gemm        ? rp_cpu_gemm_scratch(u->rows, u->segment)
                  : rp_use_is_attention(u)     ? rp_cpu_attention_scratch(u->seq, u->head_dim)
                  : u->op == RP_OP_row_sums    ? RP_CPU_ROW_SUMS_SCRATCH
                                               : 0;
    if (rp_is_mixed(o->numerics) && (is_convolution(u->op) || u->op == RP_OP_gemm || rp_use_is_attention(u)))
        each = (low_scratch(o, u) + (size_t)threads_of(o) - 1) / (size_t)threads_of(o);
    return (size_t)threads_of(o) * round_up(each, HUGE_PAGE);
}

static uint64_t memory(const struct rp_device_opts *o)
{
    (void)o;
    return rp_cpu_memory("");
}

/* One zeroed mapping, its start moved up to a multiple of 2 MiB so that huge pages fit. Pages are taken when first
 * touched: a limit of a control group would show as a kill by then, so what is reserved is counted here and refused in
 * time. */
static void *map_memory(struct rp_cpu *c, const char *what, size_t bytes, struct rp_err *err)
{
    RP_BUG_IF(c->blocks == BLOCKS);
    uint64_t left = c->allowed > c->reserved ? c->allowed - c->reserved : 0;
    if (bytes > left)
        return rp_fail_null(
            err, RP_UNAVAILABLE,
            "%s: %.1f MiB needed, %.1f MiB left of %.1f MiB that this machine, control group or address space "
            "limit allows; try a smaller batch",
            what, MIB(bytes), MIB(left), MIB(c->allowed));
    size_t size = bytes <= SIZE_MAX - 2 * HUGE_PAGE ? round_up(bytes, 4096) + HUGE_PAGE : bytes;
    unsigned char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return rp_fail_null(err, RP_UNAVAILABLE,
                            "%s: cannot map %.1f MiB: %s; %.1f MiB were free at start; try a smaller batch", what,
                            MIB(size), strerror(errno), MIB(c->allowed));
    c->block[c->blocks++] = (struct rp_cpu_block){p, size};
    c->reserved += bytes;
    unsigned char *data = p + (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    madvise(data, size - (size_t)(data - p), MADV_HUGEPAGE); /* a hint: kernels without huge pages refuse it */
    return data;
}

static void close_device(struct rp_dev *dev)
{
    struct rp_cpu *c = rp_cpu_of(dev);
    if (!c)
        return;
    rp_pool_free(c->pool);
    for (int i = 0; i < c->blocks; i++)
        munmap(c->block[i].data, c->block[i].bytes);
    free(c);
}

static struct rp_dev *open_device(const struct rp_device_opts *o, size_t workspace, struct rp_err *err)
{
    const char *why = unavailable(o);
    if (why)
        return rp_fail_null(err, rp_isa_from_name(o->isa) < 0 ? RP_USAGE : RP_UNAVAILABLE, "cpu backend, isa '%s': %s",
                            o->isa, why);
    struct rp_cpu *c = calloc(1, sizeof *c);
    if (!c)
        return rp_fail_null(err, RP_UNAVAILABLE, "cpu backend: no memory for %zu bytes", sizeof *c);
    c->isa = (enum rp_isa)rp_isa_from_name(o->isa);
    c->threads = threads_of(o);
    c->scratch_each = workspace / (size_t)c->threads / HUGE_PAGE * HUGE_PAGE;
    c->allowed = memory(o);
    c->gemm = rp_cpu_gemm_kernel(c->isa);
    c->tc = rp_tc_kernel(c->isa, 1);
    c->dev.numerics = o->numerics;
    c->dev.stored_bytes = sizeof(rp_stored);
    c->dev.backend = &rp_backend_cpu;
    c->dev.op = rp_cpu_ops(c->isa);
    c->scratch = map_memory(c, rp_class_name(RP_CLASS_BACKEND), (size_t)c->threads * c->scratch_each, err);
    if (c->scratch)
        c->pool = rp_pool_new(c->threads, err);
    if (!c->pool) {
        close_device(&c->dev);
        return NULL;
    }
    return &c->dev;
}

static void *new_block(struct rp_dev *dev, enum rp_class class, size_t bytes, struct rp_err *err)
{
    return map_memory(rp_cpu_of(dev), rp_class_name(class), bytes, err);
}

static int copy_memory(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    (void)dev;
    (void)err;
    if (bytes)
        memcpy(dst, src, bytes);
    return 0;
}

/* ---- for measuring ---- */

static struct rp_gemm_shape peak_gemm(const struct rp_dev *dev)
{
    return peak_shape(((const struct rp_cpu *)dev)->threads);
}

#define COPY_PART ((size_t)1 << 20)
struct copying {
    unsigned char *dst;
    const unsigned char *src;
    size_t bytes;
};

static void copy_part(void *arg, int part, int thread)
{
    const struct copying *c = arg;
    size_t at = (size_t)part * COPY_PART, left = c->bytes - at;
    (void)thread;
    memcpy(c->dst + at, c->src + at, left < COPY_PART ? left : COPY_PART);
}

static void copy_block(struct rp_dev *dev, void *dst, const void *src, size_t bytes)
{
    struct copying c = {dst, src, bytes};
    rp_pool_run(rp_cpu_of(dev)->pool, (int)((bytes + COPY_PART - 1) / COPY_PART), copy_part, &c);
}

static void release_memory(struct rp_dev *dev)
{
    struct rp_cpu *c = rp_cpu_of(dev);
    while (c->blocks > 1) {
        c->blocks--;
        munmap(c->block[c->blocks].data, c->block[c->blocks].bytes);
    }
    c->reserved = (size_t)c->threads * c->scratch_each;
}

/* operations are done when they return, and cannot fail */
static int sync_device(struct rp_dev *dev, struct rp_err *err)
{
    (void)dev;
    (void)err;
    return 0;
}

static void info(const struct rp_dev *dev, struct rp_device_info *out)
{
    const struct rp_cpu *c = (const struct rp_cpu *)dev;
    snprintf(out->kind, sizeof out->kind, "cpu");
    snprintf(out->isa, sizeof out->isa, "%s", rp_isa_name(c->isa));
    rp_isa_brand(out->name);
    out->threads = c->threads;
}

const struct rp_backend rp_backend_cpu = {
    .name = "cpu",
    .summary = "this machine's processors: AVX-512, AVX2, NEON or plain code, the same bits",
    .mixed = sizeof(rp_stored),
    .unavailable = unavailable,
    .supports = supports,
    .needs = count_needs,
    .open = open_device,
    .close = close_device,
    .block = new_block,
    .memory = memory,
    .upload = copy_memory,
    .download = copy_memory,
    .sync = sync_device,
    .info = info,
    .peak_gemm = peak_gemm,
    .copy = copy_block,
    .release = release_memory,
};
