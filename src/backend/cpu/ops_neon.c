/* Operations in NEON: see ops_isa.h. */
#define RP_NEON
#define RP_ISA_NAME(name) name##_neon
#include "backend/cpu/kernels.inc.h"
