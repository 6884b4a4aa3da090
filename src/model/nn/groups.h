/* Host functions for a model's input: rows grouped by the row they are summed into, and the canonical sum of a short
 * list.
 *
 * What:    the index lists of row_sums (gradients of lookups without atomics), and sum128 on the host.
 * Flow:    keys of n rows -> struct rp_row_groups in memory that was declared with rp_net_groups().
 * Extend:  another canonical sum on the host goes here, with its rule of ops/NUMERICS.md.
 */
#pragma once

#include "ops/ops.h"

/* Keys, none negative, become ascending, and rows ascending within a key. */
void rp_group_rows(struct rp_row_groups *g, const int32_t *keys, int n);
/* The same for keys in [from, end) alone, counted from `from`. */
void rp_group_rows_in(struct rp_row_groups *g, const int32_t *keys, int n, int32_t from, int32_t end);
float rp_sum128(const float *x, int n);
