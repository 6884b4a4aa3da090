/* Loads, stores, atomics, copies, fences and mbarriers: a part of decode.c, which includes it once. */

/* Elements of a load or store, in registers that may be wider than they are. */
static void take_elements(struct ptx_operand *o, s32 *places, int is_load)
{
    int n = take(".v2") ? 2 : take(".v4") ? 4 : 1;
    enum ptx_type t = take_type();
    struct ptx_operand *each = n == 1 ? o : o->part;
    if ((o->kind == K_VECTOR ? o->parts : 1) != n || (n > 1 && o->kind != K_VECTOR) || t == T_PRED)
        simt_refuse("%d elements are expected", n);
    insn->vec = (u8)n;
    insn->bytes = (u8)ptx_bytes_of(t);
    insn->type = (u8)t;
    enum ptx_width width = W_NONE;
    for (int k = 0; k < n; k++) {
        enum ptx_width other = each[k].kind == K_SINK ? width : ptx_width_of(t);
        enum ptx_width w = each[k].kind == K_REGISTER ? each[k].width : other;
        if (each[k].kind != K_SINK && (w < ptx_width_of(t) || (width != W_NONE && !is_same_row(width, w))))
            simt_refuse("element '%s' has another size", each[k].name);
        width = w;
        places[k] = is_load ? destination(&each[k], w) : source(&each[k], w);
    }
    *(is_load ? &insn->wide_d : &insn->wide_value) = width == W64;
}

static void decode_ld(void)
{
    static const char *const orders[] = {".relaxed.gpu", ".acquire.gpu", ".volatile", NULL};
    int order = take_one_of(orders);
    expect_operands(2);
    insn->order = order == 0 || order == 2 ? O_RELAXED : order == 1 ? O_ACQUIRE : O_WEAK;
    insn->space = (u8)take_space();
    insn->is_nc = (u8)take(".nc");
    kernel->has_nc |= insn->is_nc;
    take_elements(&operand[0], insn->d, 1);
    take_address(&operand[1], (enum ptx_space)insn->space, 0);
    if (insn->space == S_PARAM && insn->bytes * insn->vec > (int)kernel->params_aligned)
        simt_refuse("%d bytes at once of parameters that are aligned to %u", insn->bytes * insn->vec,
                    kernel->params_aligned);
}

static void decode_st(void)
{
    static const char *const orders[] = {".relaxed.gpu", ".release.gpu", ".volatile", NULL};
    int order = take_one_of(orders);
    expect_operands(2);
    insn->order = order == 0 || order == 2 ? O_RELAXED : order == 1 ? O_RELEASE : O_WEAK;
    insn->space = (u8)take_space();
    if (insn->space == S_CONST || insn->space == S_PARAM)
        simt_refuse("a store to memory that only can be read");
    take_elements(&operand[1], &insn->s[1], 0);
    take_address(&operand[0], (enum ptx_space)insn->space, 0);
}

static void decode_atomic(int has_result)
{
    static const char *const names[] = {".add", ".min", ".max", ".exch", ".or", ".and", NULL};
    (void)(take(".relaxed") && take(".gpu"));
    must_take(".global");
    int how = take_one_of(names);
    enum ptx_type t = take_type();
    if (how < 0 || t < T_U32 || t > T_S64)
        simt_refuse("an atomic operation of another kind");
    expect_operands(2 + has_result);
    insn->op = OP_ATOMIC;
    insn->space = S_GLOBAL;
    insn->order = O_RELAXED;
    insn->how = (u8)how;
    insn->type = (u8)t;
    insn->bytes = (u8)ptx_bytes_of(t);
    insn->vec = 1;
    if (has_result)
        insn->d[0] = destination(&operand[0], ptx_width_of(t));
    take_address(&operand[has_result], S_GLOBAL, 0);
    insn->s[1] = source(&operand[has_result + 1], ptx_width_of(t));
    insn->wide_d = insn->wide_value = ptx_width_of(t) == W64;
}
static void decode_atom(void)
{
    decode_atomic(1);
}
static void decode_red(void)
{
    decode_atomic(0);
}

/* cp.async.bulk.tensor: to s[0], imm; by the map at s[1], imm2; coordinates s[2], s[3]; the mbarrier at s[4] */
static void decode_tensor_copy(void)
{
    if (ptx_target() < 90)
        simt_refuse("copies of tensors before sm_90");
    must_take(".tensor");
    must_take(".2d");
    must_take(".shared::cluster");
    must_take(".global");
    must_take(".mbarrier::complete_tx::bytes");
    expect_operands(3);
    insn->op = OP_TENSOR_COPY;
    kernel->has_proxies = kernel->has_barriers = 1;
    take_address(&operand[1], S_GLOBAL, 1);
    take_address(&operand[0], S_SHARED, 0);
    if (operand[0].parts || operand[1].parts != 2 || operand[2].kind != K_ADDRESS || operand[2].place < 0 ||
        operand[2].value || operand[2].parts)
        simt_refuse("a copy of a tensor of another kind");
    for (int k = 0; k < 2; k++)
        insn->s[2 + k] = source(&operand[1].part[k], W32);
    insn->s[4] = operand[2].place;
}

/* cp.async: to shared memory (s[0], imm), from global memory (s[1], imm2), the first s[2] bytes, zeros after them */
static void decode_cp(void)
{
    must_take(".async");
    if (take(".commit_group")) {
        insn->op = OP_COPY_COMMIT;
        expect_operands(0);
        return;
    }
    if (take(".wait_group") || take(".wait_all")) {
        insn->op = OP_COPY_WAIT;
        insn->imm = operands ? operand[0].value : -1; /* -1: all, also what is in no group yet */
        if (operands > 1 || (operands && operand[0].kind != K_IMMEDIATE))
            simt_refuse("a wait for a number of groups that is not constant");
        return;
    }
    if (take(".bulk")) {
        decode_tensor_copy();
        return;
    }
    int cg = take(".cg");
    if (!cg)
        must_take(".ca");
    must_take(".shared");
    must_take(".global");
    if (operands != 3 && operands != 4)
        simt_refuse("a copy with %d operands", operands);
    s64 bytes = operand[2].kind == K_IMMEDIATE ? operand[2].value : 0;
    if (cg ? bytes != 16 : bytes != 4 && bytes != 8 && bytes != 16)
        simt_refuse("a copy of another size");
    insn->op = OP_COPY;
    insn->bytes = (u8)bytes;
    take_address(&operand[1], S_GLOBAL, 1);
    take_address(&operand[0], S_SHARED, 0);
    if (operands == 4)
        insn->s[2] = source(&operand[3], W32);
}

static void decode_fence(void)
{
    static const char *const kinds[] = {".gl", ".sc.gpu", ".acq_rel.gpu", NULL};
    if (insn->op == OP_FENCE && ptx_target() >= 90 && take(".proxy.async.shared::cta"))
        insn->op = OP_PROXY_FENCE;
    else if (take_one_of(kinds) < 0)
        simt_refuse("a fence of another kind");
    expect_operands(0);
}

/* mbarrier of shared memory: the object at s[0], imm; s[1]: the arrivals that it counts, the bytes that an arrival
 * expects, or the parity */
static void decode_mbarrier(void)
{
    if (ptx_target() < 90)
        simt_refuse("mbarriers before sm_90");
    kernel->has_barriers = 1;
    const int is_init = take(".init"), is_arrival = !is_init && take(".arrive"),
              expects = is_arrival && take(".expect_tx");
    if (!is_init && !is_arrival) {
        must_take(".try_wait");
        must_take(".parity");
        insn->order = O_ACQUIRE; /* what waits lets others run */
    }
    must_take(".shared::cta");
    must_take(".b64");
    const int has_result = !is_init;
    expect_operands(has_result + (is_arrival && !expects ? 1 : 2));
    insn->op = is_init ? OP_BARRIER_INIT : is_arrival ? OP_BARRIER_ARRIVE : OP_BARRIER_WAIT;
    if (is_arrival && operand[0].kind != K_SINK)
        simt_refuse("the state of a barrier in a register");
    if (insn->op == OP_BARRIER_WAIT)
        insn->pd[0] = predicate(&operand[0]);
    take_address(&operand[has_result], S_SHARED, 0);
    if (!is_arrival || expects)
        insn->s[1] = source(&operand[has_result + 1], W32);
}
