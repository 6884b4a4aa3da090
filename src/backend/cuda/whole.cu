/* Whole tensors, element by element. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"

RP_DEVICE void add4(const rp_args_add *a, size_t i, long n, int wide)
{
    rp_put4(a->dst + i, rp_add4(rp_get4(a->a + i, n, wide), rp_get4(a->b + i, n, wide)), n, wide);
}
RP_KERNEL(add)
{
    RP_EACH4(&a, a.n, a.wide, add4);
}

RP_DEVICE void fill4(const rp_args_fill *a, size_t i, long n, int wide)
{
    rp_put4(a->dst + i, make_float4(a->value, a->value, a->value, a->value), n, wide);
}
RP_KERNEL(fill)
{
    RP_EACH4(&a, a.n, a.wide, fill4);
}
