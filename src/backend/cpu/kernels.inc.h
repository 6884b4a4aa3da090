/* All operations but gemm, for the instruction set of the file that includes this. Not a header: it has no guard on purpose. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/ops_isa.h"
#include "ops/functions.h"
#include "ops/philox.h"

#include <stdatomic.h>

#include "backend/cpu/philox.inc.h"
#include "backend/cpu/rows.inc.h"

#include "backend/cpu/pointwise.inc.h"

#include "backend/cpu/attention.inc.h"
#include "backend/cpu/loss.inc.h"

void RP_ISA_NAME(rp_cpu_ops_fill)(struct rp_ops *op)
{
#define cpu_gemm op->gemm /* filled by gemm.c */
#define cpu_digest_leaves rp_cpu_digest_leaves
#define OP(name, types, args) op->name = cpu_##name;
#include "ops/ops.def"
#undef OP
#undef cpu_gemm
#undef cpu_digest_leaves
}
