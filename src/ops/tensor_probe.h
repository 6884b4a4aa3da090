/* Probes: matrices whose product tells the arithmetics of tensor cores apart.
 *
 * What:    three pairs of matrices for each contract of mixed precision, and the sums that it fixes for them.
 *            SUMS    ordinary numbers; one large product among small ones, which are cut off or not; two that cancel
 *                    with small ones between and around them, within a block and across; the smallest factors
 *            CHAINS  ordinary numbers, more k-steps than a chain has
 *            EDGES   sums below the smallest number of fp32 and above the largest, subnormal factors of bf16,
 *                    zeros times large numbers, infinities, NaN. Public models of tensor cores disagree on
 *                    some, which training in its range does not meet: a GPU may differ here
 * Flow:    contract, kind -> matrices and sums. A device multiplies them before a run (backend/cuda/proof.c).
 * Owner:   the caller.
 * Extend:  changed SUMS or CHAINS change the digests in bundles, which tests/ops/test_tensor_core.c has: they
 *          need a contract with another name.
 */
#pragma once

#include "base/hash.h"
#include "ops/ops.h"

enum rp_tc_probe_kind { RP_PROBE_SUMS, RP_PROBE_CHAINS, RP_PROBE_EDGES };
enum { RP_PROBE_ROWS = 64, RP_PROBE_STEPS = 48, RP_PROBE_LONG_ROWS = 8, RP_PROBE_LONG_STEPS = RP_LOW_CHAIN + 16 };
#define RP_PROBE_SUMS_MOST (RP_PROBE_ROWS * RP_PROBE_ROWS)
#define RP_PROBE_NUMBERS_MOST (RP_PROBE_LONG_ROWS * RP_PROBE_LONG_STEPS)

struct rp_tc_probe {
    int rows, steps;                     /* of A; B has as many columns */
    uint16_t a[RP_PROBE_NUMBERS_MOST];   /* [rows][steps] */
    uint16_t b[RP_PROBE_NUMBERS_MOST];   /* [columns][steps] */
    uint32_t sum[RP_PROBE_SUMS_MOST];    /* [rows][columns], bits of fp32 */
};
void rp_tc_probe_fill(struct rp_tc_probe *p, enum rp_numerics n, enum rp_tc_probe_kind kind);
/* Any NaN is one. */
int rp_tc_probe_equal(uint32_t a, uint32_t b);
/* SHA-256 of the sums that the contract fixes: SUMS, then CHAINS, each sum four bytes, the lowest first. */
void rp_tc_probe_digest(char hex[RP_SHA256_HEX], enum rp_numerics n);
/* Adds sums to such a digest. */
void rp_tc_probe_hash(struct rp_sha256 *h, const uint32_t *sum, int n);
