/* What tests/cuda/test_device_code.c has to find, one fault a kernel. */
#include "backend/cuda/device.h"

#define PLANTED(name) extern "C" __global__ void rp_planted_##name(float *x)

PLANTED(nothing)
{
    x[0] = fmaf(x[1], x[2], x[3]) * x[4] + x[5] / x[6] - __builtin_sqrtf(x[7]);
}

PLANTED(unwritten)
{
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(x[0]) : "f"(x[1]), "f"(x[2]), "f"(x[3]));
}

/* Without .rn ptxas may make one instruction of the two, where it is not told otherwise. */
PLANTED(contracted)
{
    asm("{ .reg .f32 t; mul.f32 t, %1, %2; add.f32 %0, t, %3; }" : "=f"(x[0]) : "f"(x[1]), "f"(x[2]), "f"(x[3]));
}

PLANTED(mad)
{
    asm("mad.rn.f32 %0, %1, %2, %3;" : "=f"(x[0]) : "f"(x[1]), "f"(x[2]), "f"(x[3]));
}

PLANTED(flushed)
{
    asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(x[0]) : "f"(x[1]), "f"(x[2]));
}

PLANTED(approximate)
{
    x[0] = __fdividef(x[1], x[2]);
}

PLANTED(upwards)
{
    x[0] = __fadd_ru(x[1], x[2]);
}

PLANTED(doubles)
{
    x[0] = (float)((double)x[1] * (double)x[2] + (double)x[3]);
}

PLANTED(local)
{
    float y[64];
    for (int i = 0; i < 64; i++)
        y[i] = x[i] + 1.0f;
    for (int i = 0; i < 64; i++)
        x[i] = y[(int)x[i + 64] & 63];
}
