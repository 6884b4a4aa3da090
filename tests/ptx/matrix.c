/* Instructions of PTX that a whole warp executes on matrices: mma.sync and ldmatrix. tests/shim/matrix.h has the maps
 * of lanes. */
#include "tests/ptx/ptx.h"

#include "tests/shim/matrix.h"

#include <string.h>

/* Every source is read before a result is written: the sums often are in the same registers. */
void ptx_multiply(const struct simt_warp *w, u32 pc)
{
    const struct ptx_insn *i = &w->kernel->code[pc];
    struct shim_product p = {.form = (enum shim_form)i->imm, .layout = i->how, .format = (enum rp_tc_format)i->from};
    struct shim_registers r;
    const int a = shim_registers_a(p.form), b = shim_registers_b(p.form), c = shim_registers_c(p.form);
    if (!shim_tc_of(p.form, ptx_target(), &p.tc))
        simt_fault(w, pc, -1, "this device has no such product of matrices");
    for (int k = 0; k < a; k++)
        memcpy(r.a[k], simt_row32(w, i->s[k]), SIMT_ROW);
    for (int k = 0; k < b; k++)
        memcpy(r.b[k], simt_row32(w, i->s[a + k]), SIMT_ROW);
    for (int k = 0; k < c; k++)
        memcpy(r.c[k], simt_row32(w, i->s[a + b + k]), SIMT_ROW);
    shim_multiply(&p, &r);
    for (int k = 0; k < c; k++)
        memcpy(simt_row32(w, i->d[k]), r.c[k], SIMT_ROW);
}

/* Up to sm_75 every lane has to give an address in shared memory, also where fewer are used. */
void ptx_load_matrix(const struct simt_warp *w, u32 pc)
{
    const struct ptx_insn *i = &w->kernel->code[pc];
    const u32 rows = 8u * i->vec, given = ptx_target() <= 75 ? LANES : rows;
    u16 row[LANES][8];
    for (u32 lane = 0; lane < given; lane++) {
        const void *from = simt_shared_at(w, pc, lane, ptx_address_of(w, i, lane), 16, READ, "reads");
        memcpy(row[lane], from, sizeof row[lane]);
    }
    for (int j = 0; j < i->vec; j++)
        for (int lane = 0; lane < LANES; lane++)
            simt_row32(w, i->d[j])[lane] = shim_matrix_register(row, j, lane, i->how);
}
