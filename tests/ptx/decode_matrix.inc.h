/* mma.sync and ldmatrix: a part of decode.c, which includes it once. */

static void take_registers(const struct ptx_operand *o, int n, s32 *places, int are_written)
{
    if (n == 1 ? o->kind != K_REGISTER && (o->kind != K_VECTOR || o->parts != 1) : o->kind != K_VECTOR || o->parts != n)
        simt_refuse("%d registers of a matrix are expected", n);
    for (int k = 0; k < n; k++) {
        const struct ptx_operand *each = o->kind == K_VECTOR ? &o->part[k] : o;
        places[k] = are_written ? destination(each, W32) : source(each, W32);
        if (places[k] < 0)
            simt_refuse("a matrix without a register");
    }
}

/* mma.sync of fp16 or bf16 with sums in fp32: d, then a, b and c in s; how: the layout, imm: the shape */
static void decode_mma(void)
{
    static const char *const shapes[] = {".m8n8k4", ".m16n8k8", ".m16n8k16", NULL}, *const layouts[] = {".row", ".col", NULL},
                      *const formats[] = {".f16", ".bf16", NULL};
    struct rp_tc tc;
    must_take(".sync");
    must_take(".aligned");
    const int shape = take_one_of(shapes), a = take_one_of(layouts), b = take_one_of(layouts);
    must_take(".f32");
    const int format = take_one_of(formats), again = take_one_of(formats);
    must_take(".f32");
    if (shape < 0 || a < 0 || b < 0 || format < 0 || format != again || (shape != SHIM_M8N8K4 && (a != 0 || b != 1)) ||
        (shape == SHIM_M8N8K4 && format != 0) || (format == 1 && ptx_target() < 80))
        simt_refuse("a product of matrices of another kind");
    if (!shim_tc_of((enum shim_form)shape, ptx_target(), &tc))
        simt_refuse("products of matrices of this shape are not one instruction of sm_%d", ptx_target());
    expect_operands(4);
    insn->imm = shape;
    insn->how = (u8)((a == 1 ? SHIM_A_BY_COLUMNS : 0) | (b == 0 ? SHIM_B_BY_ROWS : 0));
    insn->from = format ? RP_TC_BF16 : RP_TC_FP16;
    const enum shim_form f = (enum shim_form)shape;
    const int n[] = {shim_registers_a(f), shim_registers_b(f), shim_registers_c(f)};
    take_registers(&operand[0], n[2], insn->d, 1);
    take_registers(&operand[1], n[0], insn->s, 0);
    take_registers(&operand[2], n[1], insn->s + n[0], 0);
    take_registers(&operand[3], n[2], insn->s + n[0] + n[1], 0);
}

/* vec: matrices; how: transposed */
static void decode_ldmatrix(void)
{
    static const char *const numbers[] = {".x1", ".x2", ".x4", NULL};
    must_take(".sync");
    must_take(".aligned");
    must_take(".m8n8");
    const int n = take_one_of(numbers);
    insn->how = (u8)take(".trans");
    must_take(".shared");
    must_take(".b16");
    if (n < 0 || ptx_target() < 75)
        simt_refuse("matrices of another number, or before sm_75");
    expect_operands(2);
    insn->vec = (u8)(1 << n);
    insn->bytes = 16;
    insn->space = S_SHARED;
    take_registers(&operand[0], insn->vec, insn->d, 1);
    take_address(&operand[1], S_SHARED, 0);
}
