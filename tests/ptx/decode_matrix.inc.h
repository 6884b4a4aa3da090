/* mma.sync, ldmatrix and wgmma: a part of decode.c, which includes it once. */

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
    static const char *const shapes[] = {".m8n8k4", ".m16n8k8", ".m16n8k16", NULL},
                             *const layouts[] = {".row", ".col", NULL}, *const formats[] = {".f16", ".bf16", NULL};
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

/* wgmma of fp16 or bf16 with sums in fp32: the sums, the descriptors of A and B in s; how: 1: A comes by rows, 2: B
 * does; imm: the groups that wait_group leaves */
static void decode_wgmma(void)
{
    static const char *const formats[] = {".f16", ".bf16", NULL};
    int columns = 0, taken = 0;
    if (ptx_target() != 90 || !ptx_target_is_a())
        simt_refuse("wgmma is an instruction of sm_90a alone");
    kernel->has_proxies = 1;
    const int is_fence = take(".fence"), is_commit = !is_fence && take(".commit_group"),
              is_wait = !is_fence && !is_commit && take(".wait_group");
    if (!is_fence && !is_commit && !is_wait)
        must_take(".mma_async");
    must_take(".sync");
    must_take(".aligned");
    if (is_fence || is_commit || is_wait) {
        expect_operands(is_wait);
        if (is_wait && (operand[0].kind != K_IMMEDIATE || operand[0].value < 0))
            simt_refuse("a wait for a number of groups that is not constant");
        insn->op = is_fence ? OP_PRODUCT_FENCE : is_commit ? OP_PRODUCT_COMMIT : OP_PRODUCT_WAIT;
        insn->imm = is_wait ? operand[0].value : 0;
        return;
    }
    if (sscanf(modifiers, ".m64n%dk16%n", &columns, &taken) != 1 || !taken || columns % 8 || columns < 8 ||
        columns > 256)
        simt_refuse("a product of matrices of another kind");
    modifiers += taken;
    must_take(".f32");
    const int format = take_one_of(formats), again = take_one_of(formats);
    if (format < 0 || format != again)
        simt_refuse("a product of matrices of another kind");
    expect_operands(8);
    for (int k = 3; k < 8; k++)
        if (operand[k].kind != K_IMMEDIATE || (operand[k].value != 1 && (k < 6 || operand[k].value != 0)))
            simt_refuse("a product that is not added, or of negated matrices");
    insn->from = format ? RP_TC_BF16 : RP_TC_FP16;
    insn->how = (u8)(operand[6].value | operand[7].value << 1);
    insn->sums = (u16)(columns / 2);
    insn->sum = simt_grow(NULL, insn->sums * sizeof *insn->sum);
    take_registers(&operand[0], insn->sums, insn->sum, 1);
    take_sources(&operand[1], 2, W64);
}
