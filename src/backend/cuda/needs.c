/* The limits of the kernels, and their workspace. Part of both programs: uses no driver. */
#include "backend/cuda/needs.h"

#include "backend/cuda/attention.h"
#include "backend/cuda/kernels.h"

#include <stdint.h>

#define PIECES_MOST 4294967040.0 /* warps are numbered by 32 bits */
#define GEMM_TILE 32             /* rows and columns of the smallest tile */
#define TILE(name, threads, blocks, rows, columns, ...)                                                                \
    _Static_assert(rows >= GEMM_TILE && columns >= GEMM_TILE, #name " is smaller");
#include "backend/cuda/gemm.def"
#undef TILE

static double cut(double a, double b)
{
    return (double)(int64_t)((a + b - 1) / b);
}

/* With the fewest queries that a block may have: 16 forward, 32 in streams and backward. */
static size_t attention_shared(enum rp_op op, size_t seq, size_t dim)
{
    const size_t kept = RP_ATT_FORWARD_SHARED((size_t)2, seq), stream = RP_ATT_STREAM_SHARED((size_t)4, dim);
    return op != RP_OP_attention_forward ? RP_ATT_BACKWARD_SHARED((size_t)4) : kept < stream ? kept : stream;
}

static int supports_attention(const struct rp_cuda_gpu *gpu, const struct rp_op_use *u, struct rp_err *err)
{
    const double scores = (double)u->batch * u->heads * u->seq, sample = 3.0 * u->heads * u->head_dim * u->seq;
    const size_t dim = (size_t)u->head_dim;
    size_t most = 0;
    if (attention_shared(u->op, (size_t)u->seq, dim) > gpu->shared_max) {
        while (attention_shared(u->op, most + 64, dim) <= gpu->shared_max)
            most += 64;
        return rp_use_refuse(
            u, err,
            "does not fit this GPU's shared memory (%zu KiB): at most %zu; shorten task.seq_length, or use "
            "--backend cpu",
            gpu->shared_max / 1024, most);
    }
    if (sample > INT32_MAX)
        return rp_use_refuse(u, err,
                             "and %d heads has %.0f numbers in a sample, at most %d can be counted on GPUs; shorten "
                             "task.seq_length, or use --backend cpu",
                             u->heads, sample, INT32_MAX);
    return rp_use_limit(u, "rows of scores", scores, INT32_MAX, err);
}

/* Mixed precision: its arithmetic is the GPU's. */
static int supports_arithmetic(const struct rp_cuda_gpu *gpu, enum rp_numerics n, const struct rp_op_use *u,
                               struct rp_err *err)
{
    if (rp_cuda_has_arithmetic(gpu->capability, n))
        return 0;
    return rp_use_refuse(
        u, err,
        "cannot be computed as %s has it by GPUs of compute capability %d.%d; set train.tensor_core to auto, or use "
        "--backend cpu",
        rp_numerics_name(n), gpu->capability / 10, gpu->capability % 10);
}

/* In mixed precision a head's columns are in registers. */
static int supports_low_attention(const struct rp_cuda_gpu *gpu, enum rp_numerics n, const struct rp_op_use *u,
                                  struct rp_err *err)
{
    const double rows = (double)u->batch * u->heads * u->seq, sample = 3.0 * u->heads * u->head_dim * u->seq;
    if (supports_arithmetic(gpu, n, u, err) < 0)
        return -1;
    if (u->head_dim > RP_ATT16_DIM)
        return rp_use_refuse(
            u, err,
            "has heads of %d columns, at most %d in mixed precision on GPUs; set train.precision to fp32, or use "
            "--backend cpu",
            u->head_dim, RP_ATT16_DIM);
    if (sample > INT32_MAX)
        return rp_use_refuse(u, err,
                             "and %d heads has %.0f numbers in a sample, at most %d can be counted on GPUs; shorten "
                             "task.seq_length, or use --backend cpu",
                             u->heads, sample, INT32_MAX);
    return rp_use_limit(u, "rows of scores", rows, INT32_MAX, err);
}

/* A block for each tile; the workspace holds at least one row. */
static int supports_gemm(const struct rp_op_use *u, struct rp_err *err)
{
    const int columns = (int)(RP_CUDA_GEMM_WORKSPACE / sizeof(float));
    if (u->width > columns)
        return rp_use_refuse(u, err, "has more columns than the cuda backend can handle, at most %d; use --backend cpu",
                             columns);
    return rp_use_limit(u, "tiles", cut(u->rows, GEMM_TILE) * cut(u->width, GEMM_TILE), INT32_MAX, err);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Offsets within a tensor and numbers of blocks have 32 bits; see RP_CONV_BY for what is divided. */
static int supports_conv(const struct rp_op_use *u, struct rp_err *err)
{
    const struct rp_conv *v = &u->conv;
    const double rows = (double)v->batch * v->out_h * v->out_w, pixels = (double)v->batch * v->in_h * v->in_w;
    const double taps = (double)v->kernel_h * v->kernel_w, most = larger(v->in_c, v->out_c);
    const double elements = larger(larger(rows * v->out_c, pixels * v->in_c), taps * v->in_c * v->out_c);
    const double tiles = cut(v->out_c, 64) * cut(taps * v->in_c, 64) * cut(rows, RP_CONV_GROUP);
    if (v->kernel_h > RP_CONV_KERNEL_MOST || v->kernel_w > RP_CONV_KERNEL_MOST || v->stride > RP_CONV_STRIDE_MOST)
        return rp_use_refuse(
            u, err,
            "has a window of %d x %d and a stride of %d, at most %d x %d and %d are supported on GPUs; use "
            "--backend cpu",
            v->kernel_h, v->kernel_w, v->stride, RP_CONV_KERNEL_MOST, RP_CONV_KERNEL_MOST, RP_CONV_STRIDE_MOST);
    if (taps * most * most > UINT32_MAX)
        return rp_use_refuse(
            u, err,
            "has too many channels for GPUs: window x channels x channels is %.0f, at most %u; use --backend cpu",
            taps * most * most, UINT32_MAX);
    return rp_use_limit(u, "elements in a tensor", elements, INT32_MAX, err) < 0 ||
                   rp_use_limit(u, "rows x pixels of a side", rows * larger(v->out_h, v->out_w), UINT32_MAX, err) < 0 ||
                   rp_use_limit(u, "tiles of a weight gradient", u->op == RP_OP_conv_wgrad ? tiles : 0, INT32_MAX,
                                err) < 0
               ? -1
               : 0;
}

/* Mixed precision, in addition: k-steps and rows that are divided, and the workspace holds a row of the results of all
 * chains. */
static int supports_low_conv(const struct rp_cuda_gpu *gpu, enum rp_numerics n, const struct rp_op_use *u,
                             struct rp_err *err)
{
    const struct rp_conv *v = &u->conv;
    const int channels = v->in_c > v->out_c ? v->in_c : v->out_c, taps = rp_conv_taps(v), rows = (int)rp_conv_rows(v);
    const double row = rp_low_row(v->kernel_w, channels), pixels = (double)v->batch * v->in_h * v->in_w;
    const int is_weight = u->op == RP_OP_conv_wgrad, outputs = u->op == RP_OP_conv_dgrad ? v->in_c : v->out_c;
    const int width = is_weight ? taps : outputs;
    const int segments = is_weight ? rp_cuda_low_segments(rows, rp_low_segment(v->out_c, taps, rows))
                                   : rp_cuda_low_segments((int)(v->kernel_h * row), RP_LOW_CHAIN);
    if (supports_arithmetic(gpu, n, u, err) < 0 || supports_conv(u, err) < 0)
        return -1;
    return rp_use_limit(u, "k-steps of a window x of a row", v->kernel_h * row * row, UINT32_MAX, err) < 0 ||
                   rp_use_limit(u, "pixels x those of a side", pixels * larger(v->in_h, v->in_w), UINT32_MAX, err) <
                       0 ||
                   rp_use_limit(u, "chains of a product", segments, RP_CUDA_LOW_SEGMENTS, err) < 0 ||
                   rp_use_limit(u, "bytes of results of a row", (double)rp_cuda_low_row_bytes(width, segments),
                                RP_CUDA_GEMM_WORKSPACE, err) < 0
               ? -1
               : 0;
}

/* A product of mixed precision: the workspace holds a row of the results of all chains, whichever operand is
 * transposed. */
static int supports_low_gemm(const struct rp_cuda_gpu *gpu, enum rp_numerics n, const struct rp_op_use *u,
                             struct rp_err *err)
{
    const int chains = rp_cuda_low_segments(u->depth, RP_LOW_CHAIN),
              pieces = rp_cuda_low_segments(u->depth, rp_low_segment(u->rows, u->width, u->depth)),
              segments = chains > pieces ? chains : pieces;
    if (supports_arithmetic(gpu, n, u, err) < 0)
        return -1;
    return rp_use_limit(u, "chains of a product", segments, RP_CUDA_LOW_SEGMENTS, err) < 0 ||
                   rp_use_limit(u, "bytes of results of a row", (double)rp_cuda_low_row_bytes(u->width, segments),
                                RP_CUDA_GEMM_WORKSPACE, err) < 0
               ? -1
               : 0;
}

int rp_cuda_supports(const struct rp_cuda_gpu *gpu, enum rp_numerics n, const struct rp_op_use *u, struct rp_err *err)
{
    if (rp_use_check(u, "cuda", err) < 0)
        return -1;
    switch (u->op) {
    case RP_OP_gemm:
        return rp_is_mixed(n) && supports_low_gemm(gpu, n, u, err) < 0 ? -1 : supports_gemm(u, err);
    case RP_OP_attention_forward:
    case RP_OP_attention_backward:
        return rp_is_mixed(n) ? supports_low_attention(gpu, n, u, err) : supports_attention(gpu, u, err);
    case RP_OP_conv_forward:
    case RP_OP_conv_dgrad:
    case RP_OP_conv_wgrad:
        return rp_is_mixed(n) ? supports_low_conv(gpu, n, u, err) : supports_conv(u, err);
    case RP_OP_maxpool_forward:
    case RP_OP_maxpool_backward:
        return rp_use_limit(u, "fours of channels",
                            larger((double)u->conv.in_h * u->conv.in_w, (double)u->conv.out_h * u->conv.out_w) *
                                u->conv.batch * cut(u->conv.in_c, 4),
                            PIECES_MOST, err);
    case RP_OP_batchnorm_forward:
    case RP_OP_batchnorm_apply:
    case RP_OP_batchnorm_backward:
        return rp_use_limit(u, "fours of channels", u->rows * cut(u->width, 4), PIECES_MOST, err);
    case RP_OP_avgpool_forward:
    case RP_OP_avgpool_backward:
        return rp_use_limit(u, "fours of channels", (double)u->batch * u->rows * cut(u->width, 4), PIECES_MOST, err);
    case RP_OP_embed_forward:
    case RP_OP_gather_rows:
    case RP_OP_dropout_forward:
    case RP_OP_dropout_backward:
    case RP_OP_row_sums:
    case RP_OP_bias_add:
    case RP_OP_copy_columns:
    case RP_OP_layernorm_apply:
        return rp_use_limit(u, "pieces of 128 columns", u->rows * cut(u->width, 128), PIECES_MOST, err);
    default:
        return 0;
    }
}

#define MULTIPROCESSORS 192 /* of the largest GPU */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Slabs for all tiles of queries, or for those that run at the same time. What is missing in a workspace is computed
 * again. */
static size_t forward_workspace(const struct rp_op_use *u)
{
    const size_t rows = RP_ATT_QUERIES(8),
                 tiles = (size_t)u->batch * (size_t)u->heads * (((size_t)u->seq + rows - 1) / rows);
    const size_t slab = ((size_t)u->seq + RP_ATT_KEYS - 1) / RP_ATT_KEYS * RP_ATT_TILE_BYTES(8);
    return smaller(smaller(tiles, (size_t)MULTIPROCESSORS * RP_ATT_STREAM_BLOCKS) * slab,
                   rp_cuda_attention_workspace(u->seq));
}

/* D of the backward pass, aligned. */
static size_t dots_bytes(const struct rp_op_use *u)
{
    return ((size_t)u->batch * (size_t)u->heads * (size_t)u->seq * sizeof(float) + 255) / 256 * 256;
}

/* D, and pd and ds of all keys, but at least of 64. */
static size_t backward_workspace(const struct rp_op_use *u)
{
    const size_t heads = (size_t)u->batch * (size_t)u->heads, strip = rp_cuda_attention_strip(u->seq),
                 d = dots_bytes(u), all = heads * (((size_t)u->seq + 63) / 64) * strip;
    const size_t most = rp_cuda_attention_workspace(u->seq);
    return d + smaller(all, d + strip < most ? most - d : strip);
}

size_t rp_cuda_needs(const struct rp_device_opts *o, const struct rp_op_use *u)
{
    const int may_be = u->op == RP_OP_conv_forward || u->op == RP_OP_conv_dgrad || u->op == RP_OP_conv_wgrad;
    const int is_low = rp_is_mixed(o->numerics);
    const int is_gemm = u->op == RP_OP_gemm || (may_be && (is_low || rp_cuda_is_pointwise(&u->conv)));
    size_t bytes = is_gemm                             ? RP_CUDA_GEMM_WORKSPACE
                   : u->op == RP_OP_layernorm_backward ? (size_t)u->rows * 2 * sizeof(float) /* two sums of each row */
                   : u->op == RP_OP_attention_forward  ? is_low ? 0 : forward_workspace(u)
                   : u->op == RP_OP_attention_backward ? is_low ? dots_bytes(u) : backward_workspace(u)
                   : u->op == RP_OP_find_nonfinite || u->op == RP_OP_find_nonfinite_stored ? sizeof(uint64_t)
                   : u->op == RP_OP_conv_wgrad         ? sizeof(unsigned) /* the semaphores alone */
                                                       : 0;
    return bytes ? (bytes + 255) / 256 * 256 + RP_CUDA_SEMAPHORE_BYTES : 0;
}
