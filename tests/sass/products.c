/* HGMMA of machine code: products of matrices that go on while the threads do. tests/simt/products.h has the products.
 *
 *   WARPGROUP.ARRIVE                 what was written to registers before is there for the products after it
 *   HGMMA sums, gdesc[UR], sums      four uniform registers: the descriptors of A and B; with gsb0 it ends a group
 *   WARPGROUP.DEPBAR.LE gsb0, N      until all but the newest N groups are complete
 *
 * From an HGMMA to the wait that covers its group its sums are in no register: what is there instead is a NaN, so that
 * an instruction that reads it early computes nonsense; one that writes it is found at the next HGMMA or wait, and one
 * between ARRIVE and HGMMA by a copy of all registers.
 */
#include "tests/sass/sass.h"
#include "tests/simt/products.h"

#include <string.h>

#define REGISTERS 255
#define NOWHERE 0x7fe1bad5u /* what is in the register of an open sum */

struct products {
    struct simt_products queue;
    u32 is[REGISTERS][LANES] __attribute__((aligned(64))); /* open sums */
    u32 at_fence[REGISTERS][LANES];                        /* registers at the last ARRIVE, or at the end of a sum */
    u8 open[REGISTERS];                                    /* products of each register */
    int is_fenced;
};

static struct products *of(const struct simt_warp *w)
{
    return w->own;
}

void sass_products_begin(struct simt_warp *w)
{
    if (!w->own)
        w->own = memset(simt_grow(NULL, sizeof *of(w)), 0, sizeof *of(w));
    struct products *p = w->own;
    w->products = &p->queue;
    p->queue.opened = p->queue.committed = p->queue.issued = 0;
    memset(p->open, 0, sizeof p->open);
    p->is_fenced = 0;
}

static void arrive(const struct simt_warp *w)
{
    memcpy(of(w)->at_fence, sass_row(w, SASS_ROW(ROW_R)), sizeof of(w)->at_fence);
    of(w)->is_fenced = 1;
}

static void check_untouched(const struct simt_warp *w, u32 pc, int r)
{
    for (int lane = 0; lane < LANES; lane++)
        if (sass_row(w, SASS_ROW(ROW_R + r))[lane] != NOWHERE)
            simt_fault(w, pc, lane, "R%d was written while a product on it was open", r);
}

static void open_sum(const struct simt_warp *w, u32 pc, int r)
{
    struct products *p = of(w);
    u32 *const row = sass_row(w, SASS_ROW(ROW_R + r));
    if (p->open[r]++) {
        check_untouched(w, pc, r);
        return;
    }
    if (!p->is_fenced || memcmp(row, p->at_fence[r], SIMT_ROW) != 0)
        simt_fault(w, pc, -1, "R%d is a sum that was written after the last WARPGROUP.ARRIVE", r);
    memcpy(p->is[r], row, SIMT_ROW);
    for (int lane = 0; lane < LANES; lane++)
        row[lane] = NOWHERE;
}

static void close_sum(const struct simt_warp *w, int r)
{
    struct products *p = of(w);
    if (--p->open[r])
        return;
    memcpy(sass_row(w, SASS_ROW(ROW_R + r)), p->is[r], SIMT_ROW);
    memcpy(p->at_fence[r], p->is[r], SIMT_ROW);
}

static u64 descriptor(const struct simt_warp *w, s32 place)
{
    return (u64)sass_row(w, place + SASS_ROW(1))[0] << 32 | sass_row(w, place)[0];
}

static void multiply(struct simt_warp *w, u32 pc, const struct sass_insn *i)
{
    static s32 rows[REGISTERS];
    const int first = (i->d - SASS_ROW(ROW_R)) / SASS_ROW(1), sums = (int)i->imm / 2;
    for (int k = 0; k < REGISTERS; k++)
        rows[k] = SASS_ROW(k);
    for (int k = 0; k < sums; k++)
        open_sum(w, pc, first + k);
    const struct simt_product o = {.pc = pc, .a = descriptor(w, i->s[0]), .b = descriptor(w, i->s[0] + SASS_ROW(2)),
                                   .by_rows = i->how, .format = i->flags & BRAIN ? RP_TC_BF16 : RP_TC_FP16,
                                   .sums = sums, .sum = rows + first, .base = (u8 *)of(w)->is};
    simt_product_issue(w, &o);
    if (i->flags & ENDS_GROUP)
        simt_product_commit(w);
}

static void wait(struct simt_warp *w, u32 pc, u32 newest)
{
    const struct simt_products *q = w->products;
    u8 left[REGISTERS] = {0};
    for (int r = 0; r < REGISTERS; r++)
        if (of(w)->open[r])
            check_untouched(w, pc, r);
    simt_product_wait(w, newest);
    for (u32 k = 0; k < q->opened; k++)
        for (int j = 0; j < q->open[k].sums; j++)
            left[q->open[k].sum[j] / SASS_ROW(1)]++;
    for (int r = 0; r < REGISTERS; r++)
        while (of(w)->open[r] > left[r])
            close_sum(w, r);
}

int sass_product(struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    if (i->op != SASS_HGMMA && i->op != SASS_WARPGROUP)
        return 0;
    if (m != ~0u)
        simt_fault(w, pc, __builtin_ctz(~m), "a lane is missing: the whole warp has to be here");
    if (i->op == SASS_HGMMA)
        multiply(w, pc, i);
    else if (i->how == H_ARRIVE)
        arrive(w);
    else
        wait(w, pc, (u32)i->imm);
    return 1;
}
