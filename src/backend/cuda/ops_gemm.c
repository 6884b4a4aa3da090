/* Matrix products. */
#include "backend/cuda/cuda.h"

size_t rp_cuda_gemm_workspace(const struct rp_device_opts *o)
{
    (void)o;
    return 0;
}
