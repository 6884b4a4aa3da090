/* Attention with tensor cores: kernels for heads of up to 64 and up to 128 columns, in both formats. */
#include "backend/cuda/attention16_forward.cuh"

#include "backend/cuda/attention16_backward.cuh"

#if __CUDA_ARCH__ >= 800
#define HAS_BF16 1
#else
#define HAS_BF16 0
#endif
#define ATTENTION16(name, call)                                                                                        \
    RP_KERNEL(name)                                                                                                    \
    {                                                                                                                  \
        call;                                                                                                          \
    }
#define ATTENTION16_BF16(name, call)                                                                                   \
    RP_KERNEL(name)                                                                                                    \
    {                                                                                                                  \
        if (HAS_BF16)                                                                                                  \
            call;                                                                                                      \
        else                                                                                                           \
            RP_TRAP();                                                                                                 \
    }
#define WIDTHS(width)                                                                                                  \
    ATTENTION16(attention16_forward_f16_##width, att16_forward(&a, width, TC_FP16))                                    \
    ATTENTION16(attention16_keys_f16_##width, att16_gradients(&a, 1, width, TC_FP16))                                  \
    ATTENTION16(attention16_queries_f16_##width, att16_gradients(&a, 0, width, TC_FP16))                               \
    ATTENTION16_BF16(attention16_forward_bf16_##width, att16_forward(&a, width, TC_BF16))                              \
    ATTENTION16_BF16(attention16_keys_bf16_##width, att16_gradients(&a, 1, width, TC_BF16))                            \
    ATTENTION16_BF16(attention16_queries_bf16_##width, att16_gradients(&a, 0, width, TC_BF16))
WIDTHS(64)
WIDTHS(128)
ATTENTION16(attention16_dots_f16, att16_big_d(&a, TC_FP16))
ATTENTION16_BF16(attention16_dots_bf16, att16_big_d(&a, TC_BF16))
