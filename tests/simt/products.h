/* Products of matrices in shared memory that go on while their threads do: wgmma of PTX, HGMMA of machine code.
 *
 * What:    a warp's 16 rows of a product of 64 rows, by the arithmetic of RP_TC16. A product is computed at the wait
 *          that covers its group, as late as it may be (SHIM_LATE=0: at once), and reads shared memory then.
 * Flow:    issue -> commit -> wait; products on the same sums are added in the order of their issue.
 * Found:   memory that was written without a fence of proxies (memory.c), or is written before the product is complete
 *          (races.c, and the bits); descriptors that mean nothing, or of which another warp of the warpgroup has
 *          another one.
 * Owner:   the executor, of the queue of each warp (simt_warp.products) and of its sums: it finds what touches a sum
 *          too early.
 */
#pragma once

#include "ops/tensor_core.h"
#include "tests/simt/simt.h"

#define SIMT_PRODUCTS 64 /* that a warp may have open */

struct simt_product {
    u32 pc, group;
    u64 a, b;                  /* descriptors */
    u8 by_rows;                /* 1: A comes by rows, 2: B does */
    enum rp_tc_format format;
    int sums;                  /* of a lane: half of the columns */
    const s32 *sum;            /* [sums] rows from `base` on */
    u8 *base;
};

struct simt_products {
    struct simt_product open[SIMT_PRODUCTS];
    u32 opened, committed, issued;
};

void simt_product_issue(struct simt_warp *w, const struct simt_product *product); /* its group is the queue's */
void simt_product_commit(struct simt_warp *w);
void simt_product_wait(struct simt_warp *w, u64 newest); /* all but that many groups are complete */
