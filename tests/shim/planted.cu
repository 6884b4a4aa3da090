/* Small kernels of 64 threads, each with one fault but the first two; test_cuda_checks.c launches them. Most give the
 * right results in most orders of threads: that they are faults is for check.c to say. */
#include "backend/cuda/device.h"
#include "backend/cuda/tensor_core.cuh"
#include "tests/shim/planted.h"

#define KERNEL(name, args, threads, blocks) typedef struct args rp_args_##name;
#include "tests/shim/planted.def"
#undef KERNEL

#define T threadIdx.x
#define S RP_SHARED(float)

RP_KERNEL(planted_fine)
{
    S[T] = a.in[T];
    __syncthreads();
    const float x = S[63 - T];
    __syncthreads();
    S[T] = x;
    __syncwarp();
    a.out[T] = S[T ^ 1];
}

RP_KERNEL(planted_fine_copy)
{
    rp_copy4(&S[T], &a.in[T]);
    rp_copy_commit();
    rp_copy_wait(0);
    __syncthreads();
    a.out[T] = S[63 - T];
    __syncthreads();
    rp_copy4_or_zero(&S[T], a.in, 0);
    rp_copy_wait(0);
}

RP_KERNEL(planted_no_barrier)
{
    S[T] = a.in[T];
    a.out[T] = S[63 - T];
}

RP_KERNEL(planted_no_barrier_after)
{
    S[T] = a.in[T];
    __syncthreads();
    a.out[T] = S[63 - T];
    S[T] = 0.0f;
}

RP_KERNEL(planted_no_warp_barrier)
{
    S[T] = a.in[T];
    a.out[T] = S[T ^ 1];
}

RP_KERNEL(planted_warp_barrier_only)
{
    S[T] = a.in[T];
    __syncwarp();
    a.out[T] = S[T ^ 32];
}

RP_KERNEL(planted_same_word)
{
    S[0] = 1.0f;
    a.out[T] = 1.0f;
}

RP_KERNEL(planted_behind_shared)
{
    S[T + 1] = a.in[T];
}

RP_KERNEL(planted_copy_behind_shared)
{
    rp_copy4(&S[T + 1], &a.in[T]);
    rp_copy_wait(0);
}

RP_KERNEL(planted_copy_not_waited_for)
{
    rp_copy4(&S[T], &a.in[T]);
    rp_copy_commit();
    __syncthreads();
    a.out[T] = S[T];
    rp_copy_wait(0);
}

RP_KERNEL(planted_copy_not_shown)
{
    rp_copy4(&S[T], &a.in[T]);
    rp_copy_wait(0);
    a.out[T] = S[63 - T];
}

RP_KERNEL(planted_copy_over_readers)
{
    S[T] = a.in[T];
    __syncthreads();
    a.out[T] = S[63 - T];
    rp_copy4(&S[T], &a.in[T]);
    rp_copy_wait(0);
}

RP_KERNEL(planted_divergent)
{
    if ((int)T < a.n / 2)
        __syncthreads();
    else
        __syncthreads();
}

RP_KERNEL(planted_early_return)
{
    if ((int)T == a.n - 1)
        return;
    __syncthreads();
}

RP_KERNEL(planted_behind_block)
{
    a.out[T] = a.in[T + 1];
}

RP_KERNEL(planted_before_block)
{
    a.out[(int)T - 1] = a.in[T];
}

/* One product by each warp: registers of A, B and C, 32 lanes each, for test_matrix.c. */
RP_DEVICE void planted_multiply(const struct rp_planted_args *a, int form)
{
    const int lane = (int)T % 32;
    const int format = a->n >> 2 & 1, layout = a->n & 3, sums = form ? 4 : 8;
    float d[8] = {0};
    uint32_t x[6];
    for (int i = 0; i < 6; i++)
        x[i] = __float_as_uint(a->in[32 * i + lane]);
    for (int i = 0; i < sums; i++)
        d[i] = a->in[32 * (6 + i) + lane];
    if (form == 0)
        rp_mma_m8n8k4(d, x, x + 4, (unsigned)layout);
    else if (form == 1)
        rp_mma_m16n8k8(d, x, x + 4, format);
    else
        rp_mma_m16n8k16(d, x, x + 4, format);
    for (int i = 0; i < 8 && T < 32; i++)
        a->out[32 * i + lane] = d[i];
}

RP_KERNEL(planted_m8n8k4)
{
    planted_multiply(&a, 0);
}

RP_KERNEL(planted_m16n8k8)
{
    planted_multiply(&a, 1);
}

RP_KERNEL(planted_m16n8k16)
{
    planted_multiply(&a, 2);
}

/* Each warp reads rows that it wrote itself: 8 * 4 floats of 16 bytes. */
RP_DEVICE void planted_matrices(const struct rp_planted_args *a, int is_transposed)
{
    const int lane = (int)T % 32, warp = (int)T / 32;
    uint32_t d[4];
    float *const own = S + 128 * warp;
    for (int i = 0; i < 4; i++)
        own[4 * lane + i] = a->in[4 * lane + i];
    __syncwarp();
    if (is_transposed)
        rp_ldmatrix_x4_trans(d, rp_smem_of(own + 4 * lane));
    else
        rp_ldmatrix_x4(d, rp_smem_of(own + 4 * lane));
    for (int i = 0; i < 4 && T < 32; i++)
        a->out[32 * i + lane] = __uint_as_float(d[i]);
}

RP_KERNEL(planted_ldmatrix)
{
    planted_matrices(&a, 0);
}

RP_KERNEL(planted_ldmatrix_trans)
{
    planted_matrices(&a, 1);
}

RP_KERNEL(planted_lane_is_missing)
{
    float d[4] = {0};
    const uint32_t x[6] = {0};
    if (T != 5)
        rp_mma_m16n8k16(d, x, x + 4, TC_FP16);
    a.out[T] = d[0];
}

RP_KERNEL(planted_matrix_not_shown)
{
    uint32_t d[4];
    S[T] = a.in[T];
    rp_ldmatrix_x4(d, rp_smem_of(S + 4 * (T % 8)));
    a.out[T] = __uint_as_float(d[0]);
}
