/* The pieces around the mathematics: names, schedule, exclusions, plan, state root, who is to blame for a NaN. */
#include "base/hash.h"
#include "base/json.h"
#include "tests/unit/train_fixture.h"
#include "train/state.h"
#include "tests/unit/tap.h"

#include <math.h>

static void base_recipe(struct rp_recipe *r)
{
    static const char yaml[] = "workload: bert\n"; /* BERT-base b32 s128, by the defaults of the keys */
    struct rp_err err = {0};
    CHECK(rp_recipe_parse(r, yaml, sizeof yaml - 1, "base.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
}

TEST(parameters_of_bert_base)
{
    struct rp_recipe r;
    struct rp_plan plan;
    struct rp_err err = {0};
    base_recipe(&r);
    CHECK(rp_train_size(&plan, &r, NULL, &reference_backend, &(struct rp_device_opts){0}, &err) == 0, "%s", err.msg);
    CHECK(plan.parameters == 110106428, "BERT-base has 110106428 parameters with both heads, not %llu",
          (unsigned long long)plan.parameters);
    CHECK(plan.total > 4e9 && plan.total < 4.5e9, "base b32 s128 plans %.2f GB", (double)plan.total * 1e-9);
    /* forward products of base s128 with 20 predictions, by hand: 12 layers * 128 tokens * (8*768^2 + 4*768*3072 +
     * 4*128*768), 20 * (2*768^2 + 2*768*30522), 2*768^2 + 4*768 */
    CHECK(plan.flops_per_sample ==
              3 * (12 * 128 * (4718592.0 + 9437184.0 + 393216.0) + 20 * (1179648.0 + 46881792.0) + 1182720.0),
          "%.0f", plan.flops_per_sample);
    CHECK(!plan.hardware_flops_formula, "BERT computes nothing again");
    rp_recipe_fini(&r);
}

/* Parameters 12 l h^2 (1 + 13 / (12 h)) + (V + s) h and the last norm; FLOPs by the formulas that plans state. */
TEST(gpt_report_by_hand)
{
    int n, cases = 0;
    const struct rp_recipe_name *names = rp_recipe_names(&n);
    for (int i = 0; i < n; i++) {
        struct rp_recipe r;
        struct rp_err err = {0};
        if (!names[i].group)
            continue;
        int rc = rp_recipe_load(&r, names[i].name, NULL, NULL, 0, &err);
        CHECK(rc == 0, "%s", err.msg);
        if (rc < 0)
            continue;
        cases++;
        const double l = (double)r.model_num_hidden_layers, h = (double)r.model_hidden_size,
                     v = (double)r.model_padded_vocab_size, s = 2048;
        const double attention = 2 * h * s * (s + 1), model = 3 * (l * (24 * s * h * h + attention) + 2 * s * h * v);
        const double again[] = {0, l * attention, l * (16 * s * h * h + attention)};
        for (int mode = 0; mode < RP_RECOMPUTE_COUNT; mode++) {
            struct rp_plan plan;
            r.train_recompute = mode;
            CHECK(rp_train_size(&plan, &r, NULL, &reference_backend, &(struct rp_device_opts){0}, &err) == 0, "%s",
                  err.msg);
            CHECK((double)plan.parameters == l * (12 * h * h + 13 * h) + (v + s) * h + 2 * h, "%s: %llu", names[i].name,
                  (unsigned long long)plan.parameters);
            CHECK(plan.flops_per_sample == model, "%s: %.0f", names[i].name, plan.flops_per_sample);
            CHECK(plan.hardware_flops_per_sample == model + again[mode] && plan.hardware_flops_formula,
                  "%s, mode %d: %.0f", names[i].name, mode, plan.hardware_flops_per_sample);
        }
        rp_recipe_fini(&r);
    }
    CHECK(cases == 2 * 18, "%d", cases); /* fp32 and fp16 */
}

/* -- the list of tensors -- */

static const struct rp_tensor *weight(const struct rp_train *t, const char *name)
{
    int i = rp_tensors_find(t->state.weights, name);
    CHECK(i >= 0, "no weight '%s'", name);
    return &t->state.weights->t[i < 0 ? 0 : i];
}

TEST(query_key_value_are_one_matrix)
{
    struct rp_err err;
    struct fixture f;
    struct rp_recipe r = small_recipe();
    r.model_hidden_size = 10; /* no tensor of this width ends on 64 bytes */
    r.model_num_attention_heads = 5;
    CHECK(fixture_open(&f, &r, "reference", 1, 1, NULL, &err) == 0, "%s", err.msg);
    const struct rp_tensors *w = f.t->state.weights;
    for (int l = 0; l < 2; l++) {
        static const char *const parts[] = {"query", "key", "value"};
        char name[RP_TENSOR_NAME];
        size_t first[2] = {0};
        for (int k = 0; k < 3; k++)
            for (int bias = 0; bias < 2; bias++) {
                snprintf(name, sizeof name, "bert.encoder.layer.%d.attention.self.%s.%s", l, parts[k],
                         bias ? "bias" : "weight");
                const struct rp_tensor *t = weight(f.t, name);
                first[bias] = k ? first[bias] : t->offset;
                CHECK(t->offset == first[bias] + (size_t)k * (bias ? 10 : 100) * sizeof(float), "%s at %zu", name,
                      t->offset);
                CHECK(t->layer == l + 1 && t->stage == l + 1 && t->shard == 1, "%s", name);
            }
        CHECK(first[0] % 64 == 0 && first[1] % 64 == 0, "layer %d", l);
    }
    CHECK(w->bytes % 64 == 0 && w->elements == f.plan.parameters, "blocks follow each other on 64 bytes");
    for (int i = 1; i < w->n; i++)
        CHECK(w->t[i].offset >= w->t[i - 1].offset + rp_tensor_bytes(&w->t[i - 1]), "tensor %d overlaps", i);
    CHECK(w->t[w->n - 1].offset + rp_tensor_bytes(&w->t[w->n - 1]) <= w->bytes, "the last tensor is outside");
    rp_recipe_fini(&r);
    fixture_fini(&f);
}

TEST(lists_of_tensors)
{
    struct rp_tensors l = {0};
    float *a[2], *c; /* a[1]: in a copy */
    unsigned char *b, block[256];
    rp_tensors_add(&l, &(struct rp_tensor){.name = "layer %d a", .at = &a[0], .dim = {3, 5}, .layer = 8});
    rp_tensors_add(&l, &(struct rp_tensor){.name = "b", .at = &b, .dtype = RP_U8, .dim = {7}, .room = 65});
    rp_tensors_add(&l, &(struct rp_tensor){.name = "c", .at = &c, .dim = {2}, .joined = 1});
    rp_tensors_end(&l);
    char name[RP_TENSOR_NAME];
    CHECK_STR(rp_tensor_name(name, &l.t[0]), "layer 7 a");
    CHECK(rp_tensors_find(&l, "layer 7 a") == 0 && rp_tensors_find(&l, "c") == 2 &&
              rp_tensors_find(&l, "layer %d a") == -1,
          "found");
    CHECK(rp_tensor_dims(&l.t[0]) == 2 && rp_tensor_bytes(&l.t[0]) == 60 && rp_tensor_bytes(&l.t[1]) == 7, "sizes");
    CHECK(l.t[1].offset == 64 && l.t[2].offset == 129 && l.bytes == 192 && l.elements == 24, "offsets");
    rp_tensors_bind(&l, block, 0);
    CHECK((void *)a[0] == block && b == block + 64 && (unsigned char *)c == block + 129, "bound");
    l.n = 1;
    rp_tensors_bind(&l, block + 1, (char *)&a[1] - (char *)&a[0]);
    CHECK((unsigned char *)a[1] == block + 1 && (void *)a[0] == block,
          "a copy's pointers are set, and not those that were declared");
    CHECK(rp_tensors_largest(&l) == 60, "largest");
    rp_tensors_fini(&l);
}

TEST(learning_rate)
{
    static const struct {
        enum rp_decay decay;
        int64_t warmup, t;
        double share; /* of the peak */
    } cases[] = {{RP_DECAY_linear, 4, 1, 0.25}, {RP_DECAY_linear, 4, 4, 1},    {RP_DECAY_linear, 4, 8, 0.5},
                 {RP_DECAY_linear, 4, 16, 0},   {RP_DECAY_linear, 4, 1000, 0}, {RP_DECAY_linear, 0, 1, 1 - 1 / 16.0},
                 {RP_DECAY_sqrt, 4, 12, 0.5},   {RP_DECAY_square, 4, 8, 0.25}, {RP_DECAY_constant, 4, 1000, 1},
                 {RP_DECAY_constant, 4, 2, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rp_optim o = {.lr = 1e-4, .warmup = cases[i].warmup, .total = 16, .decay = cases[i].decay};
        CHECK(rp_learning_rate(&o, cases[i].t) == 1e-4 * cases[i].share, "case %zu: %g", i,
              rp_learning_rate(&o, cases[i].t));
    }
}

TEST(excluded_names)
{
    const char *words = "LayerNorm,bias";
    CHECK(rp_name_excluded("bert.embeddings.LayerNorm.weight", words), "layer norm");
    CHECK(rp_name_excluded("cls.predictions.bias", words), "bias");
    CHECK(!rp_name_excluded("bert.pooler.dense.weight", words), "weight");
    CHECK(!rp_name_excluded("bert.pooler.dense.bias", "") && !rp_name_excluded("x.bias", NULL), "no words");
    CHECK(!rp_name_excluded("x.weight", ",") && rp_name_excluded("x.weight", ",weight"), "empty words match nothing");
}

/* The tree of state.h once more, over bytes, by its text. */
static void tree_by_definition(unsigned char out[32], unsigned char (*leaf)[64], const size_t *size, long n)
{
    unsigned char text[1 + 64];
    if (n == 1) {
        text[0] = 0;
        memcpy(text + 1, leaf[0], size[0]);
        rp_sha256_bytes(out, text, 1 + size[0]);
        return;
    }
    long k = 1;
    while (2 * k < n)
        k *= 2;
    text[0] = 1;
    tree_by_definition(text + 1, leaf, size, k);
    tree_by_definition(text + 33, leaf + k, size + k, n - k);
    rp_sha256_bytes(out, text, sizeof text);
}

TEST(merkle_trees_of_every_size)
{
    unsigned char leaf[33][64] = {{0}}, flat[33][32], got[32], expected[32];
    size_t size[33];
    for (int i = 0; i < 33; i++) {
        size[i] = 32;
        memset(leaf[i], i + 1, 32);
        memset(flat[i], i + 1, 32);
    }
    for (long n = 1; n <= 33; n++) {
        rp_merkle(got, flat[0], n, 32);
        tree_by_definition(expected, leaf, size, n);
        CHECK(!memcmp(got, expected, 32), "%ld leaves", n);
    }
}

static struct rp_train *open_small(struct fixture *f)
{
    struct rp_err err;
    struct rp_recipe r = small_recipe();
    r.model_hidden_size = 72;
    r.model_vocab_size = 301; /* the word embedding has six leaves: 301 * 72 * 4 = 86688 bytes */
    CHECK(fixture_open(f, &r, "reference", 1, 1, NULL, &err) == 0, "%s", err.msg);
    rp_recipe_fini(&r);
    return f->t;
}

static void root_of(struct rp_train *t, char hex[65], json_t **tensors)
{
    struct rp_err err = {0};
    CHECK(rp_train_root(t, hex, tensors, &err) == 0, "%s", err.msg);
}

TEST(state_root_finds_every_tensor)
{
    struct fixture f;
    struct rp_train *m = open_small(&f);
    char before[65], after[65];
    RP_JSON *old = NULL;
    root_of(m, before, &old);
    int n = rp_state_entries(&m->state);
    CHECK(n == 3 * m->state.weights->n && json_object_size(old) == (size_t)n, "%zu tensors", json_object_size(old));
    for (int i = 0; i < n; i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, &m->state, i);
        float *last = e.x + e.t->count - 1, keep = *last;
        RP_JSON *changed = NULL;
        const char *name;
        json_t *hex;
        *last = nextafterf(keep, 2);
        root_of(m, after, &changed);
        CHECK(strcmp(before, after) != 0, "a bit of %s does not reach the root", e.name);
        json_object_foreach(changed, name, hex)
            CHECK(json_equal(hex, json_object_get(old, name)) == (strcmp(name, e.name) != 0), "%s changed with %s",
                  name, e.name);
        *last = keep;
    }
    root_of(m, after, NULL);
    CHECK(!strcmp(before, after), "the root is a function of the state");
    fixture_fini(&f);
}

/* One tensor's root from its bytes, by the text of state.h: d[i], then the tree. */
TEST(tensor_root_by_definition)
{
    struct fixture f;
    struct rp_train *m = open_small(&f);
    const struct rp_tensor *t = &m->state.weights->t[0];
    const char *x = (const char *)rp_tensor_in(m->state.w, t);
    size_t bytes = t->count * 4, n = 0, size[8];
    unsigned char leaf[8][64], root[32];
    char text[65], whole[65];
    RP_JSON *tensors = NULL;
    for (size_t at = 0; at < bytes; at += 16384, n++) {
        rp_sha256_bytes(leaf[n], x + at, bytes - at < 16384 ? bytes - at : 16384);
        size[n] = 32;
    }
    tree_by_definition(root, leaf, size, (long)n);
    rp_hex(text, root, 32);
    root_of(m, whole, &tensors);
    CHECK(n == 6 && !strcmp(text, json_string_value(json_object_get(tensors, t->name))), "%s", t->name);
    fixture_fini(&f);
}

/* -- NaN -- */

static void blame(const char *tensor, size_t element, float value)
{
    struct rp_err err = {0};
    struct fixture f;
    struct rp_train *m = open_small(&f);
    struct rp_step_result r;
    rp_tensor_in(m->state.w, weight(m, tensor))[element] = value;
    int status = rp_train_step(m, 6, &r, &err);
    REFUSED(status < 0 && err.code == RP_MISMATCH, err.msg);
    fixture_fini(&f);
}

TEST(nan_and_overflow_name_step_tensor_and_operation)
{
    blame("bert.encoder.layer.1.intermediate.dense.weight", 5, NAN);
    blame("cls.seq_relationship.bias", 1, INFINITY);
    /* finite parameters whose product overflows: the first tensor in forward order is the feed-forward's */
    blame("bert.encoder.layer.0.intermediate.dense.bias", 3, 3e38f);
    blame("bert.encoder.layer.1.attention.self.query.bias", 3, 3e38f);
    /* finite loss, infinite gradient: tiny layer norm input scaled up by its gradient */
    blame("cls.predictions.transform.LayerNorm.weight", 3, 3e38f);
}

/* -- samples that no reader should let through -- */

TEST(samples_out_of_range)
{
    struct rp_err err = {0};
    struct rp_recipe r = small_recipe();
    for (int what = 0; what < 9; what++) {
        struct fixture f;
        struct fixture_data d = samples_new(&r, 5);
        int32_t *ids = d.column[FX_IDS];
        if (what == 0) ids[4] = (int32_t)r.model_vocab_size;
        if (what == 1) ids[4] = -1;
        if (what == 2) ((int32_t *)d.column[FX_TYPES])[3] = (int32_t)r.model_type_vocab_size;
        if (what == 3) ((int32_t *)d.column[FX_POSITIONS])[1] = (int32_t)r.task_seq_length;
        if (what == 4) ((int32_t *)d.column[FX_LABELS])[2] = (int32_t)r.model_vocab_size;
        if (what == 5) ((int32_t *)d.column[FX_NEXT])[1] = 2;
        if (what == 6) ((uint8_t *)d.column[FX_MASK])[3] = 2;
        if (what == 7) ((float *)d.column[FX_WEIGHTS])[1] = NAN;
        int status = fixture_open(&f, &r, "reference", 1, 0, &d, &err);
        CHECK(what == 8 ? status == 0 : status < 0 && err.code == RP_MALFORMED, "case %d: %s", what, err.msg);
        fixture_fini(&f);
        samples_free(&d);
    }
    rp_recipe_fini(&r);
}

static int stop_after(void *left)
{
    return --*(int *)left < 0;
}

TEST(stops_between_layers)
{
    struct fixture f;
    struct rp_train *m = open_small(&f);
    struct rp_losses s;
    /* two layers forward, the gradient of the logits, two halves of two layers backward */
    for (int n = 0; n < 8; n++) {
        struct rp_err err = {0};
        int left = n;
        m->net->alive = stop_after;
        m->net->alive_arg = &left;
        int status = rp_train_gradient(m, 0, &s, &err);
        CHECK(n < 7 ? status < 0 && err.code == RP_INTERRUPTED : status == 0, "asked to stop at call %d: %d", n,
              status);
    }
    fixture_fini(&f);
}
