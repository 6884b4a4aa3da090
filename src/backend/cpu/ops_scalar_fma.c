/* The scalar operations for a CPU that has the FMA instruction: one instruction instead of the library's fmaf, the same
 * bits. */
#pragma GCC target("fma")
#define RP_ISA_NAME(name) name##_scalar_fma
#include "backend/cpu/kernels.inc.h"
