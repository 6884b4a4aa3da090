/* Products of matrices, matrices from shared memory, and numbers of 16 bits. tests/shim/matrix.h maps lanes. */
#include "ops/low.h"
#include "tests/sass/lanes.h"
#include "tests/shim/matrix.h"

static enum rp_tc_format format_of(const struct sass_insn *i)
{
    return i->flags & BRAIN ? RP_TC_BF16 : RP_TC_FP16;
}

static void need_whole_warp(const struct simt_warp *w, u32 pc, u32 m)
{
    if (m != ~0u)
        simt_fault(w, pc, __builtin_ctz(~m), "a lane is missing: the whole warp has to be here");
}

/* Sources are read before a result is written: the sums mostly are in the same registers. */
static void multiply(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    const struct sass_unit *u = w->kernel->own;
    struct shim_product p = {.form = (enum shim_form)i->imm, .format = format_of(i)};
    struct shim_registers r;
    need_whole_warp(w, pc, m);
    if (!shim_tc_of(p.form, u->arch, &p.tc))
        simt_fault(w, pc, -1, "this device has no such product of matrices");
    for (int k = 0; k < shim_registers_a(p.form); k++)
        memcpy(r.a[k], sass_row(w, i->s[0] + SASS_ROW(k)), SIMT_ROW);
    for (int k = 0; k < shim_registers_b(p.form); k++)
        memcpy(r.b[k], sass_row(w, i->s[1] + SASS_ROW(k)), SIMT_ROW);
    for (int k = 0; k < 4; k++)
        memcpy(r.c[k], sass_row(w, i->s[2] + SASS_ROW(k)), SIMT_ROW);
    shim_multiply(&p, &r);
    for (int k = 0; k < 4; k++)
        memcpy(sass_row(w, i->d + SASS_ROW(k)), r.c[k], SIMT_ROW);
}

static void load_matrices(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    u16 row[LANES][8];
    need_whole_warp(w, pc, m);
    for (u32 lane = 0; lane < LANES; lane++)
        memcpy(row[lane], simt_shared_at(w, pc, lane, sass_address(w, i, 0, lane), 16, READ, "reads"),
               sizeof row[lane]);
    for (int j = 0; j < 4; j++)
        for (int lane = 0; lane < LANES; lane++)
            sass_row(w, i->d + SASS_ROW(j))[lane] = shim_matrix_register(row, j, lane, (i->flags & TRANSPOSED) != 0);
}

/* The first source is the upper half. */
static void pack(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    SOURCES(floats);
    PUT((u32)rp_low_of(format_of(i), a[l]) << 16 | rp_low_of(format_of(i), b[l]))
}

/* The lower half. The upper one is 0 on sm_100 and later, where ptxas counts on it; elsewhere it is not known. */
static void round_low(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    const struct sass_unit *u = w->kernel->own;
    const u32 upper = u->arch >= 100 ? 0 : 0x5a5a0000u;
    SOURCES(floats);
    PUT(upper | rp_low_of(format_of(i), a[l]))
}

static void unpack(const struct simt_warp *w, const struct sass_insn *i, u32 m)
{
    const u32 *from = sass_row(w, i->s[1]);
    PUT(rp_low_value(RP_TC_FP16, (u16)(from[l] >> (i->byte[1] == 6 ? 16 : 0))))
}

int sass_matrix(const struct simt_warp *w, u32 pc, const struct sass_insn *i, u32 m)
{
    switch (i->op) {
    case SASS_HMMA:
        multiply(w, pc, i, m);
        return 1;
    case SASS_LDSM:
        load_matrices(w, pc, i, m);
        return 1;
    case SASS_F2FP:
        pack(w, i, m);
        return 1;
    case SASS_F2F:
        round_low(w, i, m);
        return 1;
    case SASS_HADD2:
        unpack(w, i, m);
        return 1;
    default:
        return 0;
    }
}
