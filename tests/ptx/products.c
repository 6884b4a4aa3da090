/* wgmma of PTX: which registers are sums of an open product, and what touches them. tests/simt/products.h has the rest.
 *
 * Found:   a sum that anything else touches while a product of it is open, or after the last wgmma.fence; descriptors
 *          of which a lane has another one.
 */
#include "tests/ptx/ptx.h"
#include "tests/simt/products.h"

#include <stdlib.h>
#include <string.h>

struct products {
    struct simt_products queue;
    u8 *is_open, *is_touched; /* by place */
    u32 rows;
};

static struct products *of(const struct simt_warp *w)
{
    return w->own;
}

void ptx_products_begin(struct simt_warp *w)
{
    struct products *p = w->own;
    if (!p)
        p = w->own = memset(simt_grow(NULL, sizeof *p), 0, sizeof *p);
    const u32 rows = w->kernel->arena / SIMT_ROW + 1;
    if (p->rows < rows) {
        p->is_open = simt_grow(p->is_open, rows);
        p->is_touched = simt_grow(p->is_touched, rows);
        p->rows = rows;
    }
    memset(p->is_open, 0, p->rows);
    memset(p->is_touched, 1, p->rows);
    w->products = &p->queue;
    p->queue.opened = p->queue.committed = p->queue.issued = 0;
}

/* ---- who touches sums ---- */

#define EACH_PLACE(i, place)                                                                                           \
    for (int k_ = 0; k_ < PTX_SOURCES + PTX_RESULTS; k_++)                                                             \
        if ((place = k_ < PTX_SOURCES ? (i)->s[k_] : (i)->d[k_ - PTX_SOURCES]) >= 0)

void ptx_find_touches(struct simt_kernel *k)
{
    u8 *const is_sum = memset(simt_grow(NULL, k->arena / SIMT_ROW + 1), 0, k->arena / SIMT_ROW + 1);
    s32 place;
    for (u32 n = 0; n < k->n; n++)
        for (int j = 0; j < k->code[n].sums; j++)
            is_sum[k->code[n].sum[j] / (s32)SIMT_ROW] = 1;
    for (u32 n = 0; n < k->n; n++)
        EACH_PLACE(&k->code[n], place)
            k->code[n].touches |= is_sum[place / (s32)SIMT_ROW];
    free(is_sum);
}

void ptx_touch(const struct simt_warp *w, u32 pc)
{
    s32 place;
    EACH_PLACE(&w->kernel->code[pc], place) {
        if (of(w)->is_open[place / (s32)SIMT_ROW])
            simt_fault(w, pc, -1, "touches a sum of a product that no wgmma.wait_group has waited for");
        of(w)->is_touched[place / (s32)SIMT_ROW] = 1;
    }
}

void ptx_product_fence(struct simt_warp *w)
{
    memset(of(w)->is_touched, 0, of(w)->rows);
}

/* ---- products ---- */

static u64 descriptor(const struct simt_warp *w, u32 pc, s32 place)
{
    const u64 *x = simt_row64(w, place);
    for (u32 lane = 1; lane < LANES; lane++)
        if (x[lane] != x[0])
            simt_fault(w, pc, (int)lane, "lanes have other descriptors of one matrix");
    return x[0];
}

void ptx_product(struct simt_warp *w, u32 pc)
{
    const struct ptx_insn *i = &w->kernel->code[pc];
    const struct simt_product o = {.pc = pc, .a = descriptor(w, pc, i->s[0]), .b = descriptor(w, pc, i->s[1]),
                                   .by_rows = i->how, .format = (enum rp_tc_format)i->from, .sums = i->sums,
                                   .sum = i->sum, .base = w->r};
    for (int k = 0; k < i->sums; k++)
        if (of(w)->is_touched[i->sum[k] / (s32)SIMT_ROW])
            simt_fault(w, pc, -1, "adds to a sum that was touched after the last wgmma.fence");
    for (int k = 0; k < i->sums; k++)
        of(w)->is_open[i->sum[k] / (s32)SIMT_ROW] = 1;
    simt_product_issue(w, &o);
}

void ptx_product_wait(struct simt_warp *w, u32 pc)
{
    struct products *p = of(w);
    simt_product_wait(w, (u64)w->kernel->code[pc].imm);
    memset(p->is_open, 0, p->rows);
    for (u32 k = 0; k < p->queue.opened; k++)
        for (int j = 0; j < p->queue.open[k].sums; j++)
            p->is_open[p->queue.open[k].sum[j] / (s32)SIMT_ROW] = 1;
}
