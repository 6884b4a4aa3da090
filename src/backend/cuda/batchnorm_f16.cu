/* batchnorm.cu for tensors stored as fp16. */
#define RP_STORE f16
#include "backend/cuda/batchnorm.cu"
