/* Attention, forward: queries of one head, QUERIES at a time, whose scores against all their keys are in scratch; see
 * attention_head.inc.h. */

/* The largest of scores times scale. */
RP_LANE float scores_max(const struct head *x, const float *s, long wide, const int holes)
{
    const vf scale = vset1(x->o->a->scale);
    const float *bias = x->t.bias;
    struct sum128 top; /* lanes of their own: one maximum would wait for the one before */
    max_start(&top);
    EACH_VECTOR(wide, {
        vf v = vload(s + j) * scale;
        if (holes)
            v = v + vload(bias + j);
        top.lane[l] = vmax(top.lane[l], v);
    });
    return max_end(&top) + 0.0f;
}

/* Scores become exponentials; their sum. */
RP_LANE float scores_exp(const struct head *x, float *s, long wide, float m, const int holes)
{
    const vf scale = vset1(x->o->a->scale), vm = vset1(m);
    const uint8_t *bits = x->t.bits;
    struct sum128 sum;
    sum_start(&sum);
#if W == 16
    EACH_VECTOR(wide, {
        vf e = vexp_below(vload(s + j) * scale - vm);
        if (holes)
            e = vkeep(bits, j, e);
        vstore(s + j, e);
        sum.lane[l] = sum.lane[l] + e;
    });
#else /* the sum's lanes fill the registers */
    for (long k = 0; k < wide; k += W) {
        vf e = vexp_below(vload(s + k) * scale - vm);
        vstore(s + k, holes ? vkeep(bits, k, e) : e);
    }
    EACH_VECTOR(wide, { sum.lane[l] = sum.lane[l] + vload(s + j); });
#endif
    return sum_end(&sum);
}

/* Exponentials become probabilities after dropout. */
static void scores_scale(const struct head *x, float *s, long q, long k0, long wide, float inv)
{
    const struct att_job *o = x->o;
    const long row = x->row0 + q;
    const vf vinv = vset1(inv);
    if (o->mask) {
        uint8_t *bits = o->mask + row * (o->decider.stride / 8);
        const vf keep_scale = vset1(o->a->drop.scale);
        decide_first(bits, &o->decider, row, o->a->causal ? keys_of(x, q) : o->decider.width);
        for (long k = 0; k < wide; k += W)
            vstore(s + k, vkeep(bits + k0 / 8, k, (vload(s + k) * vinv) * keep_scale));
    } else {
        for (long k = 0; k < wide; k += W)
            vstore(s + k, vload(s + k) * vinv);
    }
    end_row(s + wide);
}

#define TOGETHER 4 /* queries: each pass over one overlaps the reductions of the others */

/* Scores of queries q .. q + rows - 1 with the keys from k0 on become probabilities after dropout; with holes, k0
 * is 0. */
static void softmax_rows(const struct head *x, float *s, long lds, long q, long rows, long k0)
{
    const struct att_job *o = x->o;
    float m[TOGETHER], inv[TOGETHER];
    long wide[TOGETHER];
    for (long r = 0; r < rows; r++) {
        const long n = keys_of(x, q + r) - k0;
        float *row = s + r * lds;
        cut_row(x, row, q + r, k0, n);
        wide[r] = row_end(n);
        m[r] = x->holes ? scores_max(x, row, wide[r], 1) : scores_max(x, row, wide[r], 0);
    }
    for (long r = 0; r < rows; r++) {
        float *row = s + r * lds;
        inv[r] = 1.0f / (x->holes ? scores_exp(x, row, wide[r], m[r], 1) : scores_exp(x, row, wide[r], m[r], 0));
    }
    for (long r = 0; r < rows; r++) {
        o->row_max[x->row0 + q + r] = m[r];
        o->row_inv[x->row0 + q + r] = inv[r];
        scores_scale(x, s + r * lds, q + r, k0, wide[r], inv[r]);
    }
}

static void forward_block(struct head *x, long q0, long rows)
{
    const struct att_job *o = x->o;
    const long begin = keys_begin(x, q0), keys = keys_of(x, q0 + rows - 1), lds = rp_mask_stride(x->seq) + RP_ATT_SKEW;
    const int causal = o->a->causal;
    pack_rows(x->t.q, o->qkv + x->q0 + q0 * x->ld, x->ld, rows, x->dim);
    for (long k0 = begin; k0 < keys; k0 += BLOCK) {
        struct product s = {.rows = rows, .cols = least_of(BLOCK, padded(keys - k0)), .steps = x->dim, .a = x->t.q,
                            .ar = x->ldc, .at = 1, .b = x->t.kt + k0 / BLOCK * x->dim * LDK, .ldb = LDK,
                            .c = x->t.s + k0, .ldc = lds, .edge = causal ? EDGE_COLUMNS : EDGE_NONE, .shift = q0 - k0};
        chains(&x->ahead, &s);
    }
    for (long r = 0; r < rows; r += TOGETHER)
        softmax_rows(x, x->t.s + r * lds + begin, lds, q0 + r, least_of(TOGETHER, rows - r), begin);
    for (long k0 = begin; k0 < keys; k0 += VALUES) {
        int last = k0 + VALUES >= keys;
        struct product p = {.rows = rows, .cols = x->dim, .steps = least_of(VALUES, keys - k0), .a = x->t.s + k0,
                            .ar = lds, .at = 1, .b = x->t.v + k0 * x->ldc, .ldb = x->ldc,
                            .from = k0 > begin ? x->t.g : NULL, .ldf = x->ldc,
                            .c = last ? o->out + x->o0 + q0 * o->width : x->t.g, .ldc = last ? o->width : x->ldc,
                            .edge = causal ? EDGE_STEPS_TO : EDGE_NONE, .shift = q0 - k0};
        chains(&x->ahead, &p);
    }
}

/* Queries from .. to - 1. */
static void forward_head(struct head *x, long from, long to)
{
    const float *k = x->o->qkv + x->q0 + x->o->width, *v = k + x->o->width;
    const long begin = keys_begin(x, from), keys = keys_of(x, to - 1);
    for (long k0 = begin; k0 < keys; k0 += BLOCK)
        pack_transposed(x->t.kt + k0 / BLOCK * x->dim * LDK, LDK, k + k0 * x->ld, x->ld, least_of(BLOCK, keys - k0),
                        x->dim);
    pack_rows(x->t.v + begin * x->ldc, v + begin * x->ld, x->ld, keys - begin, x->dim);
    for (long q = from; q < to; q += QUERIES)
        forward_block(x, q, least_of(QUERIES, to - q));
}
