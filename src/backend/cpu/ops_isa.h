/* The operations other than gemm, compiled once per instruction set from the same text.
 *
 * What:    the tables of ops_<isa>.c for every row of base/isa.h and of ops_scalar_fma.c, between which ops.c chooses.
 * Flow:    ops_<isa>.c defines RP_ISA_NAME and includes kernels.inc.h; the table follows from ops.def.
 * Extend:  an operation is cpu_<name>() in one of the *.inc.h; an instruction set is such a file and a row of
 *          base/isa.h.
 */
#pragma once

#include "backend/cpu/inner.h"

#define ROW(X, name, ...) extern const struct rp_ops rp_cpu_ops_##name;
RP_ISA_ROWS(ROW, )
#undef ROW
extern const struct rp_ops rp_cpu_ops_scalar_fma;

/* Sizes of attention's scratch, the same for all. */
#define RP_ATT_PAD 16     /* rows and columns of scratch are padded to this with zeros */
#define RP_ATT_BLOCK 128  /* keys packed together; backward also queries */
#define RP_ATT_QUERIES 32 /* whose scores against all keys are in scratch */
#define RP_ATT_SKEW 16    /* extra columns of squares: a power-of-two stride would share few cache sets */

/* evidence.c: hashing is the same for all */
void rp_cpu_digest_leaves(struct rp_dev *dev, uint8_t *leaves, const float *x, size_t n);
