/* Operations in AVX512: see ops_isa.h. */
#define RP_ISA_NAME(name) name##_avx512
#include "backend/cpu/kernels.inc.h"
