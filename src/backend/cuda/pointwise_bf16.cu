/* pointwise.cu for tensors stored as bf16. Devices before compute capability 8.0 have no bf16. */
#if __CUDA_ARCH__ >= 800 || defined(RP_SHIM)
#define RP_STORE bf16
#include "backend/cuda/pointwise.cu"
#endif
