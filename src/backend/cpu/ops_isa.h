/* The operations other than gemm, compiled once per instruction set from the same text.
 *
 * What:    what ops_scalar.c, ops_scalar_fma.c, ops_avx2.c and ops_avx512.c give to ops.c, which chooses.
 * Flow:    ops_<isa>.c defines RP_ISA_NAME and includes kernels.inc.h; the table follows from ops.def.
 * Owner:   static code only.
 * Extend:  an operation is cpu_<name>() in one of the *.inc.h; another instruction set is one more such file and a row in ops.c.
 */
#ifndef RP_BACKEND_CPU_OPS_ISA_H
#define RP_BACKEND_CPU_OPS_ISA_H

#include "backend/cpu/cpu.h"

void rp_cpu_ops_fill_scalar(struct rp_ops *op);
void rp_cpu_ops_fill_scalar_fma(struct rp_ops *op);
void rp_cpu_ops_fill_avx2(struct rp_ops *op);
void rp_cpu_ops_fill_avx512(struct rp_ops *op);

/* Sizes of attention's scratch, the same for all. */
#define RP_ATT_PAD 16      /* rows and columns of scratch are padded to this with zeros */
#define RP_ATT_COLUMNS 128 /* of a head packed at a time */
#define RP_ATT_SKEW 16     /* extra columns of the square tiles: a power-of-two stride would share few cache sets */

/* evidence.c: hashing is the same for all */
void rp_cpu_digest_leaves(struct rp_dev *dev, uint8_t *leaves, const float *x, size_t n);

#endif
