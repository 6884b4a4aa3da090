/* Attention in mixed precision on the GPU: heads of both widths, aligned and not, sequences that fit no tile, every
 * kind of mask and dropout. All give the bits of ops/reference_attention.inc.h and write nothing else.
 * timeout: 600
 * shims: 800 700 ptx */
#include "tests/cuda/families.h"

struct sample {
    int batch, seq, heads, dim, causal, keys, first, dropout, offset, kind;
};

static struct matrix qkv, out, d_out, d_qkv, row_max, row_inv;
static struct bytes {
    uint8_t *value, *here;
    void *there;
} mask, keys, first;
#define MASK_BYTES ((size_t)64 << 10)

static void take_bytes(struct bytes *x)
{
    struct rp_err e = {0};
    x->value = malloc(MASK_BYTES);
    x->here = malloc(MASK_BYTES);
    x->there = dev->backend->block(dev, RP_CLASS_SCRATCH, MASK_BYTES, &e);
    check(x->value && x->here && x->there ? 0 : -1, &e);
}

static void send_bytes(struct bytes *x)
{
    struct rp_err e = {0};
    check(dev->backend->upload(dev, x->there, x->value, MASK_BYTES, &e), &e);
}

/* Every query has a key: the first is always attended to, unless a document begins later, with the query itself. */
static void draw_masks(const struct sample *s)
{
    for (int i = 0; i < s->batch * s->seq; i++) {
        const int q = i % s->seq;
        keys.value[i] = q == 0 || random_word() % 4 != 0;
        ((int32_t *)(void *)first.value)[i] = q >= 70 ? 70 : q >= 9 ? 9 : 0;
    }
    send_bytes(&keys);
    send_bytes(&first);
}

static void compare_numbers(const struct sample *s, const struct matrix *x, size_t n, int f32, const char *what)
{
    size_t at;
    const size_t bad = count_wrong(x, n, f32, &at);
    CHECK(bad == 0,
          "%s: %s of %d x %d, %d heads of %d, causal %d, keys %d, first %d, dropout %d, offset %d, kind %d: %zu "
          "differ, the first at %zu: %a, expected %a",
          rp_numerics_name(dev->numerics), what, s->batch, s->seq, s->heads, s->dim, s->causal, s->keys, s->first,
          s->dropout, s->offset, s->kind, bad, at,
          fetched(x, at, f32), (double)x->value[at]);
}

static void compare_mask(const struct sample *s)
{
    struct rp_err e = {0};
    size_t bad = 0, at = 0;
    check(dev->backend->download(dev, mask.here, mask.there, MASK_BYTES, &e), &e);
    for (size_t i = MASK_BYTES; i-- > 0;)
        if (mask.here[i] != mask.value[i]) {
            bad++;
            at = i;
        }
    CHECK(bad == 0, "decisions of %d x %d, %d heads, causal %d: %zu bytes differ, the first at %zu: %#x, expected %#x",
          s->batch, s->seq, s->heads, s->causal, bad, at, mask.here[at], mask.value[at]);
}

/* NaN after the last row: where a kernel reads it, not even a probability of zero hides it. */
static void end_with_nan(const struct matrix *x, size_t n)
{
    static uint16_t nan[1024];
    struct rp_err e = {0};
    memset(nan, 0x7f, sizeof nan);
    for (int i = 0; i < COUNT(nan); i++)
        nan[i] |= 0x80;
    check(dev->backend->upload(dev, moved(x, n, 0), nan, sizeof nan, &e), &e);
}

static void compare_sample(const struct sample *s)
{
    static float scratch[3 * 1024], work[1 << 20];
    static float *bias, *bias_work;
    struct rp_dev reference = {.op = &rp_reference_ops, .numerics = dev->numerics};
    struct rp_err e = {0};
    const size_t o = (size_t)s->offset, rows = (size_t)s->batch * (size_t)s->seq,
                 width = (size_t)s->heads * (size_t)s->dim,
                 scores = (size_t)s->batch * (size_t)s->heads * (size_t)s->seq, end = 64;
    struct rp_attention a = {.batch = s->batch,
                             .seq = s->seq,
                             .heads = s->heads,
                             .head_dim = s->dim,
                             .causal = s->causal,
                             .first_head = 3,
                             .scale = 1.0f / sqrtf((float)s->dim),
                             .drop = {.seed = 0x1234567890abcdef + mix,
                                      .step = 3,
                                      .site = 4,
                                      .first_sample = 5,
                                      .rows_per_sample = s->heads * s->seq,
                                      .threshold = s->dropout ? 1u << 30 : 0,
                                      .scale = s->dropout ? 1.0f / 0.75f : 1.0f}};
    struct rp_attention b = a;
    bias = bias ? bias : dev->backend->block(dev, RP_CLASS_SCRATCH, sizeof scratch, &e);
    bias_work = bias_work ? bias_work : dev->backend->block(dev, RP_CLASS_SCRATCH, sizeof work, &e);
    next_order();
    draw_masks(s);
    a.key_mask = s->keys ? keys.value : NULL, b.key_mask = s->keys ? keys.there : NULL;
    a.first_key = s->first ? (int32_t *)(void *)first.value : NULL, b.first_key = s->first ? first.there : NULL;
    fill(&qkv, o + rows * 3 * width, 0, s->kind);
    fill(&out, o + rows * width + end, 0, RANDOM);
    fill(&d_out, o + rows * width, 0, s->kind);
    fill(&d_qkv, o + rows * 3 * width + end, 0, RANDOM);
    fill(&row_max, scores + end, 1, RANDOM);
    fill(&row_inv, scores + end, 1, RANDOM);
    end_with_nan(&qkv, o + rows * 3 * width);
    end_with_nan(&d_out, o + rows * width);
    for (size_t i = 0; i < MASK_BYTES; i++)
        mask.value[i] = (uint8_t)random_word();
    send_bytes(&mask);
    rp_reference_ops.attention_forward(&reference, (rp_stored *)(out.value + o), row_max.value, row_inv.value,
                                       mask.value, (const rp_stored *)(qkv.value + o), &a);
    dev->op->attention_forward(dev, moved(&out, o, 0), row_max.there, row_inv.there, mask.there, moved(&qkv, o, 0), &b);
    compare_numbers(s, &out, o + rows * width + end, 0, "outputs");
    compare_numbers(s, &row_max, scores + end, 1, "largest scores");
    compare_numbers(s, &row_inv, scores + end, 1, "inverses");
    compare_mask(s);
    struct rp_attention_grad g = {.a = &a,
                                  .dqkv = (rp_stored *)(d_qkv.value + o),
                                  .dbias = scratch,
                                  .d_o = (const rp_stored *)(d_out.value + o),
                                  .o = (const rp_stored *)(out.value + o),
                                  .qkv = (const rp_stored *)(qkv.value + o),
                                  .row_max = row_max.value,
                                  .row_inv = row_inv.value,
                                  .mask = mask.value,
                                  .work = work};
    struct rp_attention_grad h = {.a = &b,
                                  .dqkv = moved(&d_qkv, o, 0),
                                  .dbias = bias,
                                  .d_o = moved(&d_out, o, 0),
                                  .o = moved(&out, o, 0),
                                  .qkv = moved(&qkv, o, 0),
                                  .row_max = row_max.there,
                                  .row_inv = row_inv.there,
                                  .mask = mask.there,
                                  .work = bias_work};
    rp_reference_ops.attention_backward(&reference, &g);
    rp_cuda_attention16_backward(rp_cuda_of(dev), &h);
    compare_numbers(s, &d_qkv, o + rows * 3 * width + end, 0, "gradients");
}

static void compare_all(int is_short)
{
    static const struct sample samples[] = {
        {.batch = 1, .seq = 101, .heads = 2, .dim = 16, .keys = 1, .dropout = 1},
        {.batch = 1, .seq = 130, .heads = 1, .dim = 80, .causal = 1, .dropout = 1, .first = 1},
        {.batch = 2, .seq = 33, .heads = 2, .dim = 21, .dropout = 1, .offset = 3, .keys = 1},
        {.batch = 1, .seq = 64, .heads = 1, .dim = 64, .causal = 1},
        {.batch = 1, .seq = 1, .heads = 3, .dim = 8},
        {.batch = 1, .seq = 150, .heads = 1, .dim = 128, .keys = 1, .causal = 1, .dropout = 1},
        {.batch = 2, .seq = 129, .heads = 2, .dim = 32, .first = 1, .causal = 1},
        {.batch = 1, .seq = 65, .heads = 2, .dim = 100, .offset = 1, .dropout = 1},
        {.batch = 1, .seq = 200, .heads = 1, .dim = 64, .dropout = 1, .causal = 1, .first = 1},
        {.batch = 1, .seq = 40, .heads = 1, .dim = 64, .kind = UNDERFLOW},
        {.batch = 1, .seq = 129, .heads = 2, .dim = 61, .offset = 1, .keys = 1},
        {.batch = 1, .seq = 193, .heads = 1, .dim = 125, .offset = 1, .keys = 1},
    };
    struct matrix *const all[] = {&qkv, &out, &d_out, &d_qkv, &row_max, &row_inv};
    take(all, COUNT(all));
    take_bytes(&mask);
    take_bytes(&keys);
    take_bytes(&first);
    for (int i = 0; i < (tap_long() ? COUNT(samples) : is_short ? 3 : 7); i++)
        compare_sample(&samples[i]);
}

TEST(both_widths_have_the_bits_of_the_reference_in_the_arithmetic_of_each_family)
{
    compare_families("ATTENTION16", compare_all);
}
