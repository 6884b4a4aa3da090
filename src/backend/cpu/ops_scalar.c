/* Operations in plain scalar code: see ops_isa.h. */
#define RP_ISA_NAME(name) name##_scalar
#include "backend/cpu/kernels.inc.h"
