/* Products of matrices in shared memory that go on while their threads do (wgmma, HGMMA): what the executors of PTX and
 * of machine code share.
 *
 * PTX_OTHER_PRODUCTS=1, SASS_OTHER_PRODUCTS=1: products keep one bit less than they should.
 *
 * A descriptor has, in units of 16 bytes, the first address (bits 0 to 13), a leading (16 to 29) and a stride distance
 * (32 to 45), and the swizzle (62 and 63). With that of 128 bytes, 1, which is the only one here, number i of a line of
 * 64 is in piece i / 8, moved to place piece ^ (address / 128 % 8) of its 128 bytes. Where k is contiguous, lines are
 * rows, 8 of them a stride apart. Else lines are k-steps of 64 rows, 8 of them a stride apart, and the next 64 rows a
 * leading distance away.
 */
#include "tests/simt/products.h"

#include "tests/shim/matrix.h"

#include <string.h>

#define DEPTH 16
#define WARPGROUP 4

/* ---- operands ---- */

static u64 distance(u64 descriptor, int bit)
{
    return (descriptor >> bit & 0x3fff) << 4;
}

static void check_descriptor(const struct simt_warp *w, u32 pc, u64 x)
{
    if (x >> 62 != 1 || (x & 0x3fffc000c000c000u))
        simt_fault(w, pc, -1, "%#llx is no descriptor of a matrix with the swizzle of 128 bytes",
                   (unsigned long long)x);
    if (distance(x, 0) & 0x380)
        simt_fault(w, pc, -1, "a matrix begins at %#llx of shared memory, within eight lines of its swizzle",
                   (unsigned long long)distance(x, 0));
}

/* The address of a piece of 8 numbers: rows from `row` on at k, or k and seven more of a row. */
static u64 piece_at(u64 descriptor, int by_rows, int row, int k)
{
    const u64 lead = distance(descriptor, 16), stride = distance(descriptor, 32);
    const u64 at =
        distance(descriptor, 0) +
        (by_rows ? (u64)(k % 8) * 128 + (u64)(k / 8) * stride + (u64)(row % 64 / 8) * 16 + (u64)(row / 64) * lead
                 : (u64)(row % 8) * 128 + (u64)(row / 8) * stride + (u64)(k / 8) * 16);
    return at ^ (at >> 7 & 7) << 4;
}

/* `rows` rows from `first` on, or columns of B: x[row - first][k]; NULL: only what reads them is noted. */
static void read_operand(const struct simt_warp *w, u32 pc, u64 descriptor, int by_rows, int first, int rows,
                         u16 (*x)[DEPTH])
{
    const int down = by_rows ? 8 : 1, across = by_rows ? 1 : 8;
    u32 lane = 0;
    for (int r = 0; r < rows; r += down)
        for (int k = 0; k < DEPTH; k += across) {
            const u16 *from =
                simt_shared_by_proxy(w, pc, lane++ % LANES, piece_at(descriptor, by_rows, first + r, k), 16);
            for (int i = 0; x && i < 8; i++)
                x[r + (by_rows ? i : 0)][k + (by_rows ? 0 : i)] = from[i];
        }
}

static int first_row(const struct simt_warp *w)
{
    return (int)(w->first / LANES % WARPGROUP) * 16;
}

static void note_reads(const struct simt_warp *w, const struct simt_product *o)
{
    read_operand(w, o->pc, o->a, o->by_rows & 1, first_row(w), 16, NULL);
    read_operand(w, o->pc, o->b, o->by_rows >> 1, 0, 2 * o->sums, NULL);
}

static void multiply(const struct simt_warp *w, const struct simt_product *o)
{
    static u16 a[16][DEPTH], b[256][DEPTH];
    static struct shim_line row[16], column[256];
    const int columns = 2 * o->sums;
    struct shim_product p = {.format = o->format, .tc = RP_TC16};
    p.tc.bits -= simt_setting("OTHER_PRODUCTS") != NULL;
    read_operand(w, o->pc, o->a, o->by_rows & 1, first_row(w), 16, a);
    read_operand(w, o->pc, o->b, o->by_rows >> 1, 0, columns, b);
    for (int i = 0; i < 16; i++)
        shim_take_apart(&row[i], a[i], DEPTH, p.format);
    for (int i = 0; i < columns; i++)
        shim_take_apart(&column[i], b[i], DEPTH, p.format);
    for (int k = 0; k < o->sums; k++)
        for (int lane = 0; lane < LANES; lane++) {
            const int r = lane / 4 + (k & 2 ? 8 : 0), c = k / 4 * 8 + 2 * (lane % 4) + (k & 1);
            u32 *const sum = &((u32 *)__builtin_assume_aligned(o->base + o->sum[k], 64))[lane];
            *sum = shim_chain(&p, &row[r], &column[c], a[r], b[c], *sum, DEPTH);
        }
}

/* ---- products ---- */

/* Warps of a warpgroup issue the same products: another one that has issued as many has this as its last. */
static void compare_warps(const struct simt_warp *w, const struct simt_product *o)
{
    const u32 first = w->first / LANES / WARPGROUP * WARPGROUP;
    if (simt_launch.threads % (LANES * WARPGROUP))
        simt_fault(w, o->pc, -1, "a warpgroup has four warps");
    for (u32 k = first; k < first + WARPGROUP; k++) {
        const struct simt_products *p = w->block->warp[k].products;
        const struct simt_product *last = p && p->opened ? &p->open[p->opened - 1] : NULL;
        if (last && p != w->products && p->issued == w->products->issued &&
            (last->pc != o->pc || last->a != o->a || last->b != o->b))
            simt_fault(w, o->pc, -1, "warp %u of the warpgroup has another product", k);
    }
}

void simt_product_issue(struct simt_warp *w, const struct simt_product *product)
{
    struct simt_products *p = w->products;
    if (p->opened == SIMT_PRODUCTS)
        simt_fault(w, product->pc, -1, "more than %d products that nothing waits for", SIMT_PRODUCTS);
    struct simt_product *o = &p->open[p->opened++];
    *o = *product;
    o->group = p->committed;
    check_descriptor(w, o->pc, o->a);
    check_descriptor(w, o->pc, o->b);
    p->issued++;
    compare_warps(w, o);
    if (shim_options.late)
        note_reads(w, o);
    else
        multiply(w, o);
}

void simt_product_commit(struct simt_warp *w)
{
    w->products->committed++;
}

void simt_product_wait(struct simt_warp *w, u64 newest)
{
    struct simt_products *p = w->products;
    u32 done = 0;
    for (; done < p->opened && p->open[done].group + newest < p->committed; done++) {
        if (shim_options.late)
            multiply(w, &p->open[done]);
        else
            note_reads(w, &p->open[done]);
    }
    if (done)
        simt_barriers_join(w, ~0u); /* what the products have read, all lanes have read */
    p->opened -= done;
    memmove(p->open, p->open + done, p->opened * sizeof *p->open);
}
