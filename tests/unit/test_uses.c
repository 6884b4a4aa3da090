/* What a backend says of calls that a run will make: what it supports, the memory it needs, and what a refusal
 * names. */
#include "backend/cpu/inner.h"
#include "backend/cuda/needs.h"
#include "tests/unit/tap.h"

#include <limits.h>

static const struct rp_device_opts strict;

#define MIB ((size_t)1 << 20)
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const struct rp_cuda_gpu gpu = {.name = "a GPU", .capability = 86, .shared_max = 101376};

static const struct rp_backend *cpu(void)
{
    return &rp_backend_cpu;
}

static int ask_cpu(struct rp_op_use u, struct rp_err *err)
{
    const struct rp_device_opts o = {.threads = 2};
    return cpu()->supports(&o, &u, err);
}

static struct rp_op_use sized(enum rp_op op)
{
    return (struct rp_op_use){
        .op = op, .rows = 4096, .width = 768, .depth = 3072, .batch = 32, .seq = 128, .heads = 12, .head_dim = 64};
}

TEST(every_operation_is_supported_in_its_types_and_no_other)
{
    static const enum rp_dtype types[] = {
#define X(id, bytes) RP_##id,
        RP_DTYPES(X)
#undef X
    };
    for (int op = 0; op < RP_OP_COUNT; op++)
        for (int t = 0; t < COUNT(types); t++) {
            struct rp_op_use u = sized((enum rp_op)op);
            struct rp_err e = {0}, f = {0};
            u.dtype = types[t];
            int computes = (int)(rp_op_info[op].types >> types[t] & 1), on_cpu = ask_cpu(u, &e),
                on_gpu = rp_cuda_supports(&gpu, RP_NUMERICS_fp32_1, &u, &f);
            CHECK((on_cpu == 0) == computes && (on_gpu == 0) == computes, "%s in %s", rp_op_info[op].name,
                  rp_dtype_name(types[t]));
            CHECK(computes == (types[t] == RP_F32), "%s in %s", rp_op_info[op].name, rp_dtype_name(types[t]));
            if (computes)
                continue;
            CHECK(e.code == RP_UNAVAILABLE && f.code == RP_UNAVAILABLE, "codes %d, %d", e.code, f.code);
            CHECK(strstr(e.msg, rp_op_info[op].name) == e.msg && strstr(e.msg, rp_dtype_name(types[t])) &&
                      strstr(e.msg, "cpu"),
                  "%s", e.msg);
            CHECK(strstr(f.msg, "cuda"), "%s", f.msg);
        }
}

/* The largest that is supported, and one more of it. */
TEST(sizes_that_kernels_cannot_count_are_refused)
{
    static const struct {
        struct rp_op_use use; /* the last that is supported */
        int cpu_can; /* with one more of `field`: the limit is of GPUs alone */
        size_t field;
    } cases[] = {
#define AT(name) offsetof(struct rp_op_use, name)
        {{.op = RP_OP_attention_forward, .batch = 1, .seq = 1024, .heads = 1, .head_dim = 1024}, 1, AT(seq)},
        {{.op = RP_OP_attention_backward, .batch = 1, .seq = INT_MAX / 192, .heads = 1, .head_dim = 64}, 1, AT(seq)},
        {{.op = RP_OP_attention_forward, .batch = INT_MAX / 4096, .seq = 1024, .heads = 4, .head_dim = 64},
         1,
         AT(batch)},
        {{.op = RP_OP_attention_backward, .batch = 1, .seq = 8192, .heads = 87, .head_dim = 1004}, 1, AT(heads)},
        {{.op = RP_OP_gemm, .rows = 16, .width = 8 << 20, .depth = 16}, 1, AT(width)},
        {{.op = RP_OP_gemm, .rows = 32 * 65535, .width = 32 * 32768, .depth = 1}, 1, AT(rows)},
        {{.op = RP_OP_gather_rows, .rows = 33554430, .width = 16384}, 1, AT(rows)},
        {{.op = RP_OP_embed_forward, .rows = 33554430, .width = 16384}, 1, AT(rows)},
        {{.op = RP_OP_conv_forward, .conv = {2674, 224, 224, 3, 112, 112, 64, 7, 7, 2, 3, 3}}, 1, AT(conv.batch)},
        {{.op = RP_OP_conv_dgrad, .conv = {1, 30, 30, 3, 2, 2, 4, 15, 15, 4, 0, 0}}, 1, AT(conv.kernel_w)},
        {{.op = RP_OP_conv_dgrad, .conv = {1, 30, 30, 3, 2, 2, 4, 3, 3, 4, 0, 0}}, 1, AT(conv.stride)},
        {{.op = RP_OP_conv_wgrad, .conv = {1, 3, 3, 65535, 2, 2, 4, 1, 1, 2, 0, 0}}, 1, AT(conv.in_c)},
        {{.op = RP_OP_conv_wgrad, .conv = {1, 1, 65535, 1, 1, 65535, 1, 1, 1, 1, 0, 0}}, 1, AT(conv.out_w)},
        {{.op = RP_OP_maxpool_forward, .conv = {2047, 1024, 1024, 1, 512, 512, 1, 3, 3, 2, 1, 1}}, 0, AT(conv.batch)},
        {{.op = RP_OP_batchnorm_backward, .rows = 33554430, .width = 512}, 1, AT(rows)},
        {{.op = RP_OP_avgpool_forward, .batch = 33554430, .rows = 1, .width = 512}, 1, AT(batch)},
        {{.op = RP_OP_add, .rows = INT_MAX - 4096, .width = 1024}, 0, AT(rows)},
        {{.op = RP_OP_add, .rows = 1 << 30, .width = 2047}, 0, AT(width)},
        {{.op = RP_OP_adam_update, .rows = 1024, .width = INT_MAX - 4096}, 0, AT(width)},
        {{.op = RP_OP_gemm, .rows = 1, .width = 1, .depth = INT_MAX - 4096}, 0, AT(depth)},
        {{.op = RP_OP_attention_forward, .batch = 1, .seq = 1, .heads = 1, .head_dim = (INT_MAX - 4096) / 3},
         0,
         AT(head_dim)},
        {{.op = RP_OP_conv_forward, .conv = {1, INT_MAX - 4096, 1, 1, 1, 1, 1, 3, 3, 1, 1, 1}}, 0, AT(conv.in_h)},
#undef AT
    };
    for (int i = 0; i < COUNT(cases); i++) {
        struct rp_op_use u = cases[i].use;
        struct rp_err e = {0};
        CHECK(rp_cuda_supports(&gpu, RP_NUMERICS_fp32_1, &u, &e) == 0, "case %d on a GPU: %s", i, e.msg);
        CHECK(ask_cpu(u, &e) == 0, "case %d: %s", i, e.msg);
        *(int *)(void *)((char *)&u + cases[i].field) += 1;
        CHECK(rp_cuda_supports(&gpu, RP_NUMERICS_fp32_1, &u, &e) < 0 && e.code == RP_UNAVAILABLE,
              "case %d: one more is supported on a GPU", i);
        CHECK(strstr(e.msg, rp_op_info[u.op].name) == e.msg && strchr(e.msg, ';'),
              "case %d has no operation or no remedy: %s", i, e.msg);
        CHECK((ask_cpu(u, &e) == 0) == cases[i].cpu_can, "case %d on a CPU: %s", i, e.msg);
    }
}

TEST(a_gpu_refuses_the_arithmetic_of_another_family)
{
    static const struct {
        int capability;
        unsigned has; /* a bit for each row of numerics.def */
    } families[] = {{70, 1u << RP_NUMERICS_fp16_tc4_0},
                    {75, 1u << RP_NUMERICS_fp16_tc8_0},
                    {80, 1u << RP_NUMERICS_fp16_tc8_0 | 1u << RP_NUMERICS_bf16_tc8_0},
                    {89, 1u << RP_NUMERICS_fp16_tc8_0 | 1u << RP_NUMERICS_bf16_tc8_0},
                    {90, 1u << RP_NUMERICS_fp16_tc16_0 | 1u << RP_NUMERICS_bf16_tc16_0},
                    {120, 1u << RP_NUMERICS_fp16_tc16_0 | 1u << RP_NUMERICS_bf16_tc16_0}};
    const struct rp_op_use u = {.op = RP_OP_gemm, .rows = 64, .width = 64, .depth = 64};
    for (int i = 0; i < COUNT(families); i++)
        for (int n = 1; n < RP_NUMERICS_COUNT; n++) {
            const struct rp_cuda_gpu other = {.capability = families[i].capability, .shared_max = 98304};
            struct rp_err e = {0};
            const int is_supported = rp_cuda_supports(&other, (enum rp_numerics)n, &u, &e) == 0;
            CHECK(is_supported == (int)(families[i].has >> n & 1), "%s on %d: %s",
                  rp_numerics_name((enum rp_numerics)n), other.capability, e.msg);
            CHECK(is_supported || (e.code == RP_UNAVAILABLE && strstr(e.msg, rp_numerics_name((enum rp_numerics)n))),
                  "%s", e.msg);
        }
}

/* The results of the chains of a row are in the workspace together. */
TEST(a_gpu_refuses_products_of_more_chains_than_its_workspace_holds)
{
    struct rp_op_use u = {.op = RP_OP_gemm, .rows = 1, .width = 1 << 20, .depth = 8 * RP_LOW_CHAIN};
    struct rp_err e = {0};
    CHECK(rp_cuda_supports(&gpu, RP_NUMERICS_bf16_tc8_0, &u, &e) == 0, "%s", e.msg);
    u.depth++;
    CHECK(rp_cuda_supports(&gpu, RP_NUMERICS_bf16_tc8_0, &u, &e) < 0 && strstr(e.msg, "bytes of results of a row"),
          "%s", e.msg);
    CHECK(rp_cuda_supports(&gpu, RP_NUMERICS_fp32_1, &u, &e) == 0, "%s", e.msg);
}

/* Windows of one pixel are GEMMs; the chains of any weight gradient may be added in turns, which need the
 * semaphores. */
TEST(only_convolutions_that_are_gemms_need_a_workspace)
{
    struct rp_op_use u = {.op = RP_OP_conv_dgrad, .conv = {8, 14, 14, 256, 14, 14, 64, 1, 1, 1, 0, 0}};
    CHECK(rp_cuda_needs(&strict, &u) > RP_CUDA_GEMM_WORKSPACE, "%zu bytes", rp_cuda_needs(&strict, &u));
    u.op = RP_OP_conv_wgrad;
    CHECK(rp_cuda_needs(&strict, &u) > RP_CUDA_GEMM_WORKSPACE, "%zu bytes", rp_cuda_needs(&strict, &u));
    u.conv = (struct rp_conv){8, 14, 14, 256, 14, 14, 64, 3, 3, 1, 1, 1};
    CHECK(rp_cuda_needs(&strict, &u) == 256 + RP_CUDA_SEMAPHORE_BYTES, "%zu bytes", rp_cuda_needs(&strict, &u));
    u = (struct rp_op_use){.op = RP_OP_conv_forward, .conv = {8, 14, 14, 256, 7, 7, 64, 1, 1, 2, 0, 0}};
    CHECK(rp_cuda_needs(&strict, &u) == 0, "%zu bytes", rp_cuda_needs(&strict, &u));
}

TEST(a_refusal_names_operation_shape_limit_and_remedy)
{
    struct rp_op_use u = {.op = RP_OP_attention_forward, .batch = 1, .seq = 9000, .heads = 12, .head_dim = 1024};
    struct rp_err e = {0};
    REFUSED(rp_cuda_supports(&gpu, RP_NUMERICS_fp32_1, &u, &e) < 0, e.msg);
    u.seq = (1 << 24) + 1;
    CHECK(ask_cpu(u, &e) < 0 && e.code == RP_UNAVAILABLE && strstr(e.msg, "16777216") &&
              strstr(e.msg, "task.seq_length"),
          "%s", e.msg);
}

/* Whole huge pages of each thread: packed blocks, and planes of as many rows as are added up apart, 64 to 4096. */
TEST(processors_need_scratch_of_each_thread)
{
    static const struct {
        struct rp_op_use use;
        size_t mib;
    } cases[] = {
        {{.op = RP_OP_gemm, .rows = 1}, 4},
        {{.op = RP_OP_gemm, .rows = 1024}, 4},
        {{.op = RP_OP_gemm, .rows = 4096}, 6},
        {{.op = RP_OP_gemm, .rows = 1 << 20}, 6},
        {{.op = RP_OP_gemm, .rows = 4096, .segment = RP_SEGMENT_LONG}, 6},
        {{.op = RP_OP_gemm, .rows = 4096, .segment = RP_SEGMENT_WGRAD}, 4},
        {{.op = RP_OP_attention_forward, .seq = 128, .head_dim = 64}, 2},
        {{.op = RP_OP_attention_backward, .seq = 2048, .head_dim = 64}, 2},
        {{.op = RP_OP_attention_forward, .seq = 8192, .head_dim = 96}, 10},
        {{.op = RP_OP_attention_backward, .seq = 8192, .head_dim = 256}, 26},
        {{.op = RP_OP_row_sums, .rows = 4096, .width = 768}, 2},
        {{.op = RP_OP_layernorm_backward, .rows = 4096, .width = 768}, 0},
        {{.op = RP_OP_conv_wgrad, .conv = {.in_c = 512, .out_c = 512, .kernel_h = 3, .kernel_w = 3}}, 2},
        {{.op = RP_OP_batchnorm_forward, .rows = 4096, .width = 768}, 0},
    };
    for (int i = 0; i < COUNT(cases); i++)
        for (int threads = 1; threads <= 3; threads++) {
            const struct rp_device_opts o = {.threads = threads};
            size_t is = cpu()->needs(&o, &cases[i].use);
            CHECK(is == (size_t)threads * cases[i].mib * MIB, "case %d, %d threads: %zu bytes", i, threads, is);
        }
}

/* Convolutions: 2 MiB of each thread, and the packed weights once for all of them. */
TEST(processors_share_packed_weights)
{
    const struct rp_op_use forward = {.op = RP_OP_conv_forward,
                                      .conv = {.in_c = 512, .out_c = 512, .kernel_h = 3, .kernel_w = 3}};
    struct rp_op_use gradient = forward;
    size_t one = 0, many = 0;
    gradient.op = RP_OP_conv_dgrad;
    for (int threads = 1; threads <= 64; threads++) {
        const struct rp_device_opts o = {.threads = threads};
        many = cpu()->needs(&o, &forward);
        one = threads == 1 ? many : one;
        CHECK(many >= (size_t)threads * 2 * MIB && many >= (size_t)threads * MIB / 2 + 9 * 512 * 512 * 4,
              "%d threads: %zu bytes", threads, many);
        CHECK(many <= (size_t)threads * 3 * MIB + 12 * MIB, "%d threads: %zu bytes", threads, many);
        CHECK(cpu()->needs(&o, &gradient) == many, "%d threads, as many channels", threads);
    }
    CHECK(one < 14 * MIB, "%zu bytes", one);
}

TEST(gpus_need_a_workspace_behind_which_counters_lie)
{
    static const struct {
        struct rp_op_use use;
        size_t bytes;
    } cases[] = {
        {{.op = RP_OP_gemm, .rows = 1}, 32 * MIB + 65536},
        {{.op = RP_OP_gemm, .rows = 1 << 20, .segment = RP_SEGMENT_WGRAD}, 32 * MIB + 65536},
        {{.op = RP_OP_layernorm_backward, .rows = 8 << 20, .width = 768}, 64 * MIB + 65536},
        {{.op = RP_OP_layernorm_backward, .rows = 33, .width = 768}, 512 + 65536},
        {{.op = RP_OP_find_nonfinite}, 256 + 65536},
        {{.op = RP_OP_attention_backward, .seq = 512}, 0},
    };
    for (int i = 0; i < COUNT(cases); i++)
        CHECK(rp_cuda_needs(&strict, &cases[i].use) == cases[i].bytes, "case %d: %zu bytes", i,
              rp_cuda_needs(&strict, &cases[i].use));
}

TEST(the_workspace_is_the_most_that_a_call_needs)
{
    const struct rp_device_opts o = {.threads = 2};
    struct rp_op_use use[] = {sized(RP_OP_row_sums), sized(RP_OP_gemm), sized(RP_OP_attention_forward)};
    struct rp_err e = {0};
    size_t bytes = 1;
    CHECK(rp_backend_ask(cpu(), &o, use, COUNT(use), &bytes, &e) == 0 && bytes == 12 * MIB, "%zu bytes", bytes);
    CHECK(rp_backend_ask(cpu(), &o, use, 1, &bytes, &e) == 0 && bytes == 4 * MIB, "%zu bytes", bytes);
    CHECK(rp_backend_ask(cpu(), &o, use, 0, &bytes, &e) == 0 && bytes == 0, "%zu bytes", bytes);
    use[1].dtype = RP_I32;
    use[2].dtype = RP_U8;
    CHECK(rp_backend_ask(cpu(), &o, use, COUNT(use), &bytes, &e) < 0 && strstr(e.msg, "I32"),
          "the first is not told: %s", e.msg);
    CHECK(!rp_backend_open(cpu(), &o, use, COUNT(use), &e) && e.code == RP_UNAVAILABLE, "opened for what it cannot do");
}
