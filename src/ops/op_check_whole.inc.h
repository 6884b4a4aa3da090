/* The cases of operations on whole tensors, updates of weights and evidence: a part of op_check.c, which includes it
 * once. */

CASE(weighted_sum)
{
    each loss = filled(c, ALL, 2.0f), coef = filled(c, ALL, 0.1f), out = blank(c, 1);
    EVERY(weighted_sum, out.of[k], loss.of[k], coef.of[k], (int)ALL);
}

CASE(add)
{
    each a = filled(c, ALL, 2.0f), b = filled(c, ALL, 2.0f), dst = s->in_place ? a : blank(c, ALL);
    EVERY(add, dst.of[k], a.of[k], b.of[k], ALL);
}

CASE(fill)
{
    each dst = blank(c, ALL);
    EVERY(fill, dst.of[k], 0.7f, ALL);
}

CASE(round_stored)
{
    each src = filled(c, ALL, s->variant & 1 ? 70000.0f : 2.0f), add = filled(c, ALL, 2.0f),
         dst = s->in_place ? add : blank(c, ALL);
    EVERY(round_stored, dst.of[k], src.of[k], s->in_place ? add.of[k] : NULL, ALL);
}

CASE(add_stored)
{
    each a = filled(c, ALL, 2.0f), b = filled(c, ALL, 2.0f), dst = s->in_place ? a : blank(c, ALL);
    EVERY(add_stored, dst.of[k], a.of[k], b.of[k], ALL);
}

CASE(square_sums)
{
    each x = filled(c, ALL, 2.0f), out = blank(c, ALL / RP_NORM_CHUNK + 1);
    EVERY(square_sums, out.of[k], x.of[k], 1.0f / loss_scale(c), ALL);
}

CASE(tree_sum)
{
    each x = filled(c, ALL, 2.0f), out = blank(c, 1);
    EVERY(tree_sum, out.of[k], x.of[k], ALL);
}

static struct rp_adam adam_of(const struct rp_op_shape *s)
{
    return (struct rp_adam){.grad_scale = 0.37f,
                            .lr = 0.013f,
                            .beta1 = 0.9f,
                            .one_minus_beta1 = 0.1f,
                            .beta2 = 0.999f,
                            .one_minus_beta2 = 0.001f,
                            .eps = 1e-6f,
                            .weight_decay = has(s, RP_VARIANT_DECAY) ? 0.01f : 0.0f,
                            .bias_correction = has(s, RP_VARIANT_BIAS_CORRECTION),
                            .correct1 = 1.23f,
                            .correct2 = 3.21f};
}

CASE(adam_update)
{
    struct rp_adam a = adam_of(s);
    each w = filled(c, ALL, 1.0f), m = filled(c, ALL, 1.0f), v = filled_positive(c, ALL, 1.0f),
         g = filled(c, ALL, 1.0f);
    EVERY(adam_update, w.of[k], m.of[k], v.of[k], g.of[k], ALL, &a);
}

CASE(lamb_direction)
{
    struct rp_adam a = adam_of(s);
    each w = filled(c, ALL, 1.0f), m = filled(c, ALL, 1.0f), v = filled_positive(c, ALL, 1.0f),
         g = filled(c, ALL, 1.0f);
    EVERY(lamb_direction, g.of[k], m.of[k], v.of[k], w.of[k], ALL, &a);
}

CASE(lamb_apply)
{
    each w = filled(c, ALL, 1.0f), u = filled(c, ALL, 1.0f), sums = filled_positive(c, 2, 5.0f);
    if (has(s, RP_VARIANT_NO_WEIGHT_SUM))
        sums.of[0][0] = 0.0f;
    if (has(s, RP_VARIANT_NO_UPDATE_SUM))
        sums.of[0][1] = 0.0f;
    SHARE(sums, 2);
    EVERY(lamb_apply, w.of[k], u.of[k], sums.of[k], 0.00176f, ALL);
}

CASE(sgd_update)
{
    struct rp_sgd a = {.grad_scale = 0.37f,
                       .lr = 0.013f,
                       .momentum = 0.875f,
                       .weight_decay = has(s, RP_VARIANT_DECAY) ? 0.01f : 0.0f,
                       .nesterov = has(s, RP_VARIANT_NESTEROV)};
    each w = filled(c, ALL, 1.0f), m = filled(c, ALL, 1.0f), g = filled(c, ALL, 1.0f);
    EVERY(sgd_update, w.of[k], m.of[k], g.of[k], ALL, &a);
}

CASE(lars_update)
{
    struct rp_lars a = {.grad_scale = 0.37f,
                        .lr = 0.13f,
                        .momentum = 0.9f,
                        .weight_decay = has(s, RP_VARIANT_DECAY) ? 0.01f : 0.0f,
                        .eeta = 0.001f,
                        .eps = 1e-7f,
                        .adapt = has(s, RP_VARIANT_ADAPT),
                        .nesterov = has(s, RP_VARIANT_NESTEROV)};
    each w = filled(c, ALL, 1.0f), m = filled(c, ALL, 1.0f), g = filled(c, ALL, 1.0f),
         sums = filled_positive(c, 2, 5.0f);
    if (s->variant & 8)
        sums.of[0][s->variant >> 4 & 1] = 0.0f;
    SHARE(sums, 2);
    EVERY(lars_update, w.of[k], m.of[k], g.of[k], sums.of[k], ALL, &a);
}

CASE(running_update)
{
    each r = filled(c, ALL, 1.0f), x = filled(c, ALL, 1.0f);
    EVERY(running_update, r.of[k], x.of[k], 1.0003f, 0.1f, ALL);
}

CASE(init_normal)
{
    each w = blank(c, ALL);
    EVERY(init_normal, w.of[k], ALL, 0.02f, 0xfedcba9876543210ull ^ s->seed, 9, !has(s, RP_VARIANT_WHOLE_NORMAL));
}

CASE(perturb)
{
    struct rp_perturbation p = {
        .seed = 0xfedcba9876543210ull ^ s->seed, .root = 300, .tensor = 9, .scale = 0x1p-15f, .parts = 1, .run = ALL};
    each w = filled(c, ALL, 1.0f);
    if (has(s, RP_VARIANT_DIVIDED)) { /* element numbers of more than 32 bits */
        p.parts = 1u << 30;
        p.part = p.parts - 2;
        p.run = s->width;
    }
    EVERY(perturb, w.of[k], ALL, &p);
}

/* NaN of unusual kinds and an infinity. */
static void plant_nonfinite(struct ctx *c, each x, size_t n)
{
    for (int i = 0; i < 3; i++) {
        static const uint32_t bits[3] = {0xffc12345u, 0x7f800001u, 0xff800000u};
        size_t at = draw(c) % n;
        for (int k = 0; k < c->sides; k++)
            memcpy(x.of[k] + at, &bits[i], 4);
    }
}

CASE(digest_leaves)
{
    each x = filled(c, ALL, 2.0f);
    struct bytes leaves = blank_bytes(c, (ALL * 4 + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES * 32);
    if (has(s, RP_VARIANT_NONFINITE))
        plant_nonfinite(c, x, ALL);
    EVERY(digest_leaves, leaves.of[k], x.of[k], ALL);
}

/* Of what is not finite the last element first, an infinity alone; then others, each before the one found last. */
enum { FOUND = 4 };
static size_t plant_before(struct ctx *c, each x, size_t last, int i)
{
    static const uint32_t bits[FOUND] = {0xff800000u, 0x7f800000u, 0xffc12345u, 0x7f800001u};
    const size_t at = i == 0 ? last : last - (last ? 1 + draw(c) % last : 0);
    for (int k = 0; k < c->sides; k++)
        memcpy(x.of[k] + at, &bits[i], 4);
    return at;
}

#define FINDS(name)                                                                                                    \
    CASE(name)                                                                                                         \
    {                                                                                                                  \
        const int plants = has(s, RP_VARIANT_NONFINITE);                                                               \
        each x = filled(c, ALL, 2.0f);                                                                                 \
        struct bytes index = blank_bytes(c, FOUND * sizeof(int64_t));                                                  \
        size_t at = ALL - 1;                                                                                           \
        for (int i = 0; i < (plants ? FOUND : 1); i++) {                                                               \
            at = plants ? plant_before(c, x, at, i) : at;                                                              \
            EVERY(name, (int64_t *)(void *)index.of[k] + i, x.of[k], ALL);                                             \
        }                                                                                                              \
    }
FINDS(find_nonfinite)
FINDS(find_nonfinite_stored)
#undef FINDS
