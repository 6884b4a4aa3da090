/* Small kernels of 64 threads, each with one fault but the first two; test_cuda_checks.c launches them. Most give the right results in most
 * orders of threads: that they are faults is for check.c to say. */
#include "backend/cuda/device.h"
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
