/* All operations, for the instruction set of the file that includes this: once per instruction set, so without a
 * guard. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/ops_isa.h"
#include "ops/functions.h"
#include "ops/philox.h"

#include <stdatomic.h>

#include "backend/cpu/philox.inc.h"
#include "backend/cpu/low_round.inc.h"
#include "backend/cpu/rows.inc.h"

#include "backend/cpu/exp.inc.h"
#include "backend/cpu/gelu.inc.h"

#include "backend/cpu/pointwise.inc.h"

#include "backend/cpu/chains.inc.h"
#include "backend/cpu/low_product.inc.h"
#include "backend/cpu/low_attention.inc.h"
#include "backend/cpu/attention_head.inc.h"
#include "backend/cpu/attention_forward.inc.h"
#include "backend/cpu/attention_backward.inc.h"
#include "backend/cpu/attention.inc.h"
#include "backend/cpu/loss.inc.h"

#include "backend/cpu/batchnorm.inc.h"
#include "backend/cpu/conv_regions.inc.h"
#include "backend/cpu/conv_job.inc.h"
#include "backend/cpu/conv_gather.inc.h"
#include "backend/cpu/conv_pack.inc.h"
#include "backend/cpu/conv_runs.inc.h"
#include "backend/cpu/conv.inc.h"
#include "backend/cpu/conv_weights.inc.h"
#include "backend/cpu/images.inc.h"

#define cpu_digest_leaves rp_cpu_digest_leaves
const struct rp_ops RP_ISA_NAME(rp_cpu_ops) = {
#define OP(name, types, args, names) .name = cpu_##name,
#include "ops/ops.def"
#undef OP
};
