/* Whole tensors, element by element. */
#include "backend/cuda/device.h"

RP_DEVICE size_t first_element(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
RP_DEVICE size_t all_threads(void)
{
    return (size_t)gridDim.x * blockDim.x;
}

RP_KERNEL(add)
{
    for (size_t i = first_element(); i < a.n; i += all_threads())
        a.dst[i] = a.a[i] + a.b[i];
}

RP_KERNEL(fill)
{
    for (size_t i = first_element(); i < a.n; i += all_threads())
        a.dst[i] = a.value;
}
