/* Operations in AVX2: see ops_isa.h. */
#define RP_ISA_NAME(name) name##_avx2
#include "backend/cpu/kernels.inc.h"
