/* wgmma: products of matrices in shared memory, which go on while the threads do.
 *
 * What:    a warp's 16 rows of a product of 64 rows, by the arithmetic of RP_TC16. A product is computed at the wait that covers its group, as late as
 *          it may be (SHIM_LATE=0: at once), and reads shared memory then.
 * Found:   a sum that anything else touches while a product of it is open, or after the last wgmma.fence; memory that was written
 *          without a fence of proxies (memory.c), or is written before the product is complete (races.c, and the bits);
 *          descriptors of which a lane or another warp of the warpgroup has another one, or that mean nothing.
 *
 * PTX_OTHER_PRODUCTS=1: products keep one bit less than they should.
 *
 * A descriptor has, in units of 16 bytes, the first address (bits 0 to 13), a leading (16 to 29) and a stride distance (32 to 45), and the
 * swizzle (62 and 63). With that of 128 bytes, 1, which is the only one here, number i of a line of 64 is in piece i / 8, moved to place
 * piece ^ (address / 128 % 8) of its 128 bytes. Where k is contiguous, lines are rows, 8 of them a stride apart. Else lines are k-steps of 64 rows,
 * 8 of them a stride apart, and the next 64 rows a leading distance away.
 */
#include "tests/ptx/ptx.h"

#include "tests/shim/matrix.h"

#include <stdlib.h>
#include <string.h>

#define OPEN 64 /* products that a warp may have open */
#define DEPTH 16
#define WARPGROUP 4

struct products {
    struct open {
        const struct ptx_insn *i;
        u32 pc, group;
        u64 a, b;
    } open[OPEN];
    u32 opened, committed;
    u32 issued; /* products so far */
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
    p->opened = p->committed = p->issued = 0;
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

/* ---- operands ---- */

static u64 distance(u64 descriptor, int bit)
{
    return (descriptor >> bit & 0x3fff) << 4;
}

static void check_descriptor(const struct simt_warp *w, u32 pc, u64 x)
{
    if (x >> 62 != 1 || (x & 0x3fffc000c000c000u))
        simt_fault(w, pc, -1, "%#llx is no descriptor of a matrix with the swizzle of 128 bytes", (unsigned long long)x);
    if (distance(x, 0) & 0x380)
        simt_fault(w, pc, -1, "a matrix begins at %#llx of shared memory, within eight lines of its swizzle", (unsigned long long)distance(x, 0));
}

/* The address of a piece of 8 numbers: rows from `row` on at k, or k and seven more of a row. */
static u64 piece_at(u64 descriptor, int by_rows, int row, int k)
{
    const u64 lead = distance(descriptor, 16), stride = distance(descriptor, 32);
    const u64 at = distance(descriptor, 0) + (by_rows ? (u64)(k % 8) * 128 + (u64)(k / 8) * stride + (u64)(row % 64 / 8) * 16 + (u64)(row / 64) * lead
                                                      : (u64)(row % 8) * 128 + (u64)(row / 8) * stride + (u64)(k / 8) * 16);
    return at ^ (at >> 7 & 7) << 4;
}

/* `rows` rows from `first` on, or columns of B: x[row - first][k]; NULL: only what reads them is noted. */
static void read_operand(const struct simt_warp *w, u32 pc, u64 descriptor, int by_rows, int first, int rows, u16 (*x)[DEPTH])
{
    const int down = by_rows ? 8 : 1, across = by_rows ? 1 : 8;
    u32 lane = 0;
    for (int r = 0; r < rows; r += down)
        for (int k = 0; k < DEPTH; k += across) {
            const u16 *from = simt_shared_by_proxy(w, pc, lane++ % LANES, piece_at(descriptor, by_rows, first + r, k), 16);
            for (int i = 0; x && i < 8; i++)
                x[r + (by_rows ? i : 0)][k + (by_rows ? 0 : i)] = from[i];
        }
}

static int first_row(const struct simt_warp *w)
{
    return (int)(w->first / LANES % WARPGROUP) * 16;
}

static void note_reads(const struct simt_warp *w, const struct open *o)
{
    read_operand(w, o->pc, o->a, o->i->how & 1, first_row(w), 16, NULL);
    read_operand(w, o->pc, o->b, o->i->how >> 1, 0, 2 * o->i->sums, NULL);
}

static void multiply(const struct simt_warp *w, const struct open *o)
{
    static u16 a[16][DEPTH], b[256][DEPTH];
    static struct shim_line row[16], column[256];
    const int columns = 2 * o->i->sums;
    struct shim_product p = {.format = (enum rp_tc_format)o->i->from, .tc = RP_TC16};
    p.tc.bits -= simt_setting("OTHER_PRODUCTS") != NULL;
    read_operand(w, o->pc, o->a, o->i->how & 1, first_row(w), 16, a);
    read_operand(w, o->pc, o->b, o->i->how >> 1, 0, columns, b);
    for (int i = 0; i < 16; i++)
        shim_take_apart(&row[i], a[i], DEPTH, p.format);
    for (int i = 0; i < columns; i++)
        shim_take_apart(&column[i], b[i], DEPTH, p.format);
    for (int k = 0; k < o->i->sums; k++)
        for (int lane = 0; lane < LANES; lane++) {
            const int r = lane / 4 + (k & 2 ? 8 : 0), c = k / 4 * 8 + 2 * (lane % 4) + (k & 1);
            u32 *const sum = &simt_row32(w, o->i->sum[k])[lane];
            *sum = shim_chain(&p, &row[r], &column[c], a[r], b[c], *sum, DEPTH);
        }
}

/* ---- products ---- */

static u64 descriptor(const struct simt_warp *w, u32 pc, s32 place)
{
    const u64 *x = simt_row64(w, place);
    for (u32 lane = 1; lane < LANES; lane++)
        if (x[lane] != x[0])
            simt_fault(w, pc, (int)lane, "lanes have other descriptors of one matrix");
    check_descriptor(w, pc, x[0]);
    return x[0];
}

/* Warps of a warpgroup issue the same products: another one that has issued as many has this as its last. */
static void compare_warps(const struct simt_warp *w, u32 pc, const struct open *o)
{
    const u32 first = w->first / LANES / WARPGROUP * WARPGROUP;
    if (simt_launch.threads % (LANES * WARPGROUP))
        simt_fault(w, pc, -1, "a warpgroup has four warps");
    for (u32 k = first; k < first + WARPGROUP; k++) {
        const struct products *p = of(&w->block->warp[k]);
        if (p != of(w) && p->issued == of(w)->issued && p->opened && (p->open[p->opened - 1].pc != pc || p->open[p->opened - 1].a != o->a ||
                                                                      p->open[p->opened - 1].b != o->b))
            simt_fault(w, pc, -1, "warp %u of the warpgroup has another product", k);
    }
}

void ptx_product(struct simt_warp *w, u32 pc)
{
    const struct ptx_insn *i = &w->kernel->code[pc];
    struct products *p = of(w);
    struct open *o = &p->open[p->opened];
    if (p->opened == OPEN)
        simt_fault(w, pc, -1, "more than %d products that nothing waits for", OPEN);
    *o = (struct open){.i = i, .pc = pc, .group = p->committed, .a = descriptor(w, pc, i->s[0]), .b = descriptor(w, pc, i->s[1])};
    for (int k = 0; k < i->sums; k++)
        if (p->is_touched[i->sum[k] / (s32)SIMT_ROW])
            simt_fault(w, pc, -1, "adds to a sum that was touched after the last wgmma.fence");
    p->issued++;
    p->opened++;
    compare_warps(w, pc, o);
    for (int k = 0; k < i->sums; k++)
        p->is_open[i->sum[k] / (s32)SIMT_ROW] = 1;
    if (shim_options.late)
        note_reads(w, o);
    else
        multiply(w, o);
}

void ptx_product_commit(struct simt_warp *w)
{
    of(w)->committed++;
}

void ptx_product_wait(struct simt_warp *w, u32 pc)
{
    struct products *p = of(w);
    const u64 newest = (u64)w->kernel->code[pc].imm;
    u32 done = 0;
    for (; done < p->opened && p->open[done].group + newest < p->committed; done++) {
        if (shim_options.late)
            multiply(w, &p->open[done]);
        else
            note_reads(w, &p->open[done]);
    }
    p->opened -= done;
    memmove(p->open, p->open + done, p->opened * sizeof *p->open);
    memset(p->is_open, 0, p->rows);
    for (u32 k = 0; k < p->opened; k++)
        for (int j = 0; j < p->open[k].i->sums; j++)
            p->is_open[p->open[k].i->sum[j] / (s32)SIMT_ROW] = 1;
}
