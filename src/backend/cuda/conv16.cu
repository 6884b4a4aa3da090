/* Convolutions with tensor cores: the tiles of gemm16.cu over gathered images, in both formats. */
#include "backend/cuda/gemm16.cuh"

#define CONV16_KERNEL(kernel, format, rows, columns, down, across, a_by_k, b_by_k, gather_a, gather_b, from)           \
    RP_KERNEL(kernel)                                                                                                  \
    {                                                                                                                  \
        const struct gemm16_shape s = {rows, columns, down, across, a_by_k, b_by_k, format, gather_a, gather_b};       \
        if (__CUDA_ARCH__ >= 10 * (from))                                                                              \
            gemm16_block(&a.g, &s, &a);                                                                                \
        else                                                                                                           \
            RP_TRAP();                                                                                                 \
    }
#define CONV16_TILE(name, rows, columns, down, across, format, type, from)                                             \
    CONV16_KERNEL(conv16_forward_##type##_##name, format, rows, columns, down, across, 1, 1, CONV16_IMAGE,             \
                  CONV16_FILTERS, from)                                                                                \
    CONV16_KERNEL(conv16_dgrad_##type##_##name, format, rows, columns, down, across, 1, 0, CONV16_BACK,                \
                  CONV16_TRANSPOSE, from)                                                                              \
    CONV16_KERNEL(conv16_wgrad_##type##_##name, format, rows, columns, down, across, 0, 0, GEMM16_MATRIX,              \
                  CONV16_PIXELS, from)
CONV16_TILE(128x128, 128, 128, 2, 2, TC_FP16, f16, 80)
CONV16_TILE(64x64, 64, 64, 2, 2, TC_FP16, f16, 70)
CONV16_TILE(128x128, 128, 128, 2, 2, TC_BF16, bf16, 80)
CONV16_TILE(64x64, 64, 64, 2, 2, TC_BF16, bf16, 80)
