/* The cases of attention: a part of op_check.c, which includes it once. */

/* The first key of each query: documents of many lengths, some of one token, some longer than a block of queries or
 * keys. */
static struct ints first_keys(struct ctx *c, const struct rp_op_shape *s)
{
    struct ints first = indices(c, (size_t)s->batch * (size_t)s->seq, 1);
    for (int i = 0; i < s->batch * s->seq; i++) {
        uint32_t word = draw(c);
        int start = i % s->seq == 0 || word % (i / 7 % 2 ? 5 : 61) == 0;
        first.of[0][i] = start ? i % s->seq : first.of[0][i - 1];
    }
    SHARE(first, s->batch * s->seq);
    return first;
}

static struct rp_attention attention_of(const struct rp_op_shape *s, const uint8_t *keys, const int32_t *first)
{
    const int causal = has(s, RP_VARIANT_CAUSAL);
    return (struct rp_attention){.batch = s->batch,
                                 .seq = s->seq,
                                 .heads = s->heads,
                                 .head_dim = s->head_dim,
                                 .first_head = (int)(s->seed % 3) * 5,
                                 .causal = causal,
                                 .key_mask = causal ? NULL : keys,
                                 .first_key = causal && has(s, RP_VARIANT_DOCUMENTS) ? first : NULL,
                                 .scale = 1.0f / __builtin_sqrtf((float)s->head_dim),
                                 .drop = dropout_of(s, s->heads * s->seq)};
}

CASE(attention_forward)
{
    size_t rows = (size_t)s->batch * (size_t)s->seq, width = (size_t)s->heads * (size_t)s->head_dim;
    size_t head_rows = rows * (size_t)s->heads;
    each qkv = filled(c, rows * 3 * width, 2.0f), o = blank(c, rows * width), top = blank(c, head_rows),
         inv = blank(c, head_rows);
    struct bytes keys = key_mask(c, s), mask = blank_bytes(c, rp_mask_bytes((long)head_rows, s->seq));
    struct ints first = first_keys(c, s);
    for (int k = 0; k < sides(c); k++) {
        struct rp_attention a = attention_of(s, keys.of[k], first.of[k]);
        c->table[k]->attention_forward(c->dev[k], o.of[k], top.of[k], inv.of[k], mask.of[k], qkv.of[k], &a);
    }
}

CASE(attention_backward)
{
    size_t rows = (size_t)s->batch * (size_t)s->seq, width = (size_t)s->heads * (size_t)s->head_dim;
    size_t head_rows = rows * (size_t)s->heads;
    each qkv = filled(c, rows * 3 * width, 2.0f), o = blank(c, rows * width), top = blank(c, head_rows),
         inv = blank(c, head_rows);
    each d_o = filled(c, rows * width, 1.0f), dqkv = blank(c, rows * 3 * width), dbias = blank(c, 3 * width);
    struct bytes keys = key_mask(c, s), mask = blank_bytes(c, rp_mask_bytes((long)head_rows, s->seq));
    struct ints first = first_keys(c, s);
    for (size_t r = 0; has(s, RP_VARIANT_NO_LAST_GRADIENTS) && r < rows; r++)
        for (size_t j = 0; r % (size_t)s->seq >= (size_t)(s->seq + 1) / 2 && j < width; j++)
            d_o.of[0][r * width + j] = j % 3 ? 0.0f : -0.0f;
    SHARE(d_o, rows * width);
    for (int k = 0; k < sides(c); k++) {
        struct rp_attention a = attention_of(s, keys.of[k], first.of[k]);
        const struct rp_attention_grad g = {.a = &a, .d_o = d_o.of[k], .qkv = qkv.of[k], .o = o.of[k],
                                            .row_max = top.of[k], .row_inv = inv.of[k], .mask = mask.of[k],
                                            .dqkv = dqkv.of[k], .dbias = dbias.of[k],
                                            .work = work_of(c, k, rp_colsum_work((long)rows, 3 * (long)width))};
        c->table[k]->attention_forward(c->dev[k], o.of[k], top.of[k], inv.of[k], mask.of[k], qkv.of[k], &a);
        c->table[k]->attention_backward(c->dev[k], &g);
    }
}
