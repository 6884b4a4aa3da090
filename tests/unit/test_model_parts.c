/* The pieces around the mathematics: names, schedule, exclusions, plan, state root, who is to blame for a NaN. */
#include "base/hash.h"
#include "base/json.h"
#include "model/bert_step.h"
#include "model/state_root.h"
#include "tests/unit/bert_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

static struct rp_bert_config base_config(int batch)
{
    return (struct rp_bert_config){.vocab = 30522, .hidden = 768, .layers = 12, .heads = 12, .inner = 3072, .positions = 512, .types = 2,
                                   .pair = 2, .seq = 128, .predictions = 20, .batch = batch, .micros = 1, .moments = 2,
                                   .hidden_dropout = 0.1, .attention_dropout = 0.1};
}

TEST(parameters_of_bert_base)
{
    uint64_t bytes[RP_CLASS_COUNT], n, total = 0;
    struct rp_bert_config c = base_config(32);
    rp_bert_size(&c, bytes, &n);
    CHECK(n == 110106428, "BERT-base has 110106428 parameters with both heads, not %llu", (unsigned long long)n);
    for (int i = 0; i < RP_CLASS_COUNT; i++)
        total += bytes[i];
    CHECK(total > 4e9 && total < 4.5e9, "base b32 s128 plans %.2f GB", (double)total * 1e-9);
    /* forward products of base s128 with 20 predictions, by hand: 12 layers * 128 tokens * (8*768^2 + 4*768*3072 + 4*128*768),
     * 20 * (2*768^2 + 2*768*30522), 2*768^2 + 4*768 */
    CHECK(rp_bert_flops(&c) == 3 * (12 * 128 * (4718592.0 + 9437184.0 + 393216.0) + 20 * (1179648.0 + 46881792.0) + 1182720.0), "%.0f",
          rp_bert_flops(&c));
}

TEST(query_key_value_are_one_matrix)
{
    struct rp_err err;
    struct rp_bert_config c = small_config();
    c.hidden = 10; /* no tensor of this width ends on 64 bytes */
    c.heads = 5;
    struct rp_dev *dev = fixture_device("reference", 1, c.seq, c.seq);
    struct rp_bert *m = rp_bert_open(&c, dev, &err);
    for (int l = 0; l < c.layers; l++) {
        CHECK(m->w.layer[l].k_w == m->w.layer[l].qkv_w + 100 && m->w.layer[l].v_w == m->w.layer[l].qkv_w + 200, "layer %d", l);
        CHECK(m->w.layer[l].k_b == m->w.layer[l].qkv_b + 10 && m->w.layer[l].v_b == m->w.layer[l].qkv_b + 20, "layer %d", l);
        CHECK((uintptr_t)m->w.layer[l].qkv_w % 64 == 0 && (uintptr_t)m->w.layer[l].out_w % 64 == 0, "layer %d", l);
    }
    CHECK((uintptr_t)m->moment[1] % 64 == 0, "blocks follow each other on 64 bytes");
    for (int i = 1; i < m->manifest.n; i++)
        CHECK(m->manifest.t[i].offset >= m->manifest.t[i - 1].offset + m->manifest.t[i - 1].count, "tensor %d overlaps", i);
    CHECK(m->w.nsp_b + 2 <= m->parameters + m->manifest.floats, "the last tensor is outside");
    rp_bert_close(m);
    fixture_close(dev);
}

TEST(learning_rate)
{
    struct rp_optim o = {.lr = 1e-4, .warmup = 4, .total = 16, .decay = RP_DECAY_linear};
    CHECK(rp_learning_rate(&o, 1) == 1e-4 * 0.25, "first step of the warm-up");
    CHECK(rp_learning_rate(&o, 4) == 1e-4, "last step of the warm-up");
    CHECK(rp_learning_rate(&o, 8) == 1e-4 * 0.5, "half way");
    CHECK(rp_learning_rate(&o, 16) == 0 && rp_learning_rate(&o, 1000) == 0, "the end and after");
    o.decay = RP_DECAY_sqrt;
    CHECK(rp_learning_rate(&o, 12) == 1e-4 * 0.5, "sqrt");
    o.decay = RP_DECAY_square;
    CHECK(rp_learning_rate(&o, 8) == 1e-4 * 0.25, "square");
    o.decay = RP_DECAY_constant;
    CHECK(rp_learning_rate(&o, 1000) == 1e-4 && rp_learning_rate(&o, 2) == 1e-4 * 0.5, "constant, with warm-up");
    o.warmup = 0;
    o.decay = RP_DECAY_linear;
    CHECK(rp_learning_rate(&o, 1) == 1e-4 * (1 - 1 / 16.0), "no warm-up");
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

/* The tree of state_root.h once more, over bytes, by its text. */
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

static struct rp_bert *open_small(struct rp_dev **dev)
{
    struct rp_err err;
    struct rp_bert_config c = small_config();
    c.hidden = 72;
    c.vocab = 301; /* the word embedding has two leaves: 301 * 72 * 4 = 86688 bytes */
    *dev = fixture_device("reference", 1, c.seq, c.batch * c.seq);
    return model_new(&c, *dev, 1, &err);
}

static void root_of(struct rp_bert *m, char hex[65], json_t **tensors)
{
    struct rp_err err = {0};
    const float *block[3] = {m->parameters, m->moment[0], m->moment[1]};
    CHECK(rp_state_root(hex, tensors, m->dev, &m->manifest, block, m->leaves, &err) == 0, "%s", err.msg);
}

TEST(state_root_finds_every_tensor)
{
    struct rp_dev *dev;
    struct rp_bert *m = open_small(&dev);
    float *block[3] = {m->parameters, m->moment[0], m->moment[1]};
    char before[65], after[65];
    RP_JSON *old = NULL;
    root_of(m, before, &old);
    CHECK(json_object_size(old) == 3 * (size_t)m->manifest.n, "%zu tensors", json_object_size(old));
    for (int i = 0; i < 3 * m->manifest.n; i++) {
        const struct rp_tensor *t = &m->manifest.t[i % m->manifest.n];
        float *last = block[i / m->manifest.n] + t->offset + t->count - 1, keep = *last;
        RP_JSON *changed = NULL;
        const char *name;
        json_t *hex;
        char full[128];
        *last = nextafterf(keep, 2);
        root_of(m, after, &changed);
        snprintf(full, sizeof full, "%s%s", rp_state_prefix[i / m->manifest.n], t->name);
        CHECK(strcmp(before, after) != 0, "a bit of %s does not reach the root", full);
        json_object_foreach(changed, name, hex)
            CHECK(json_equal(hex, json_object_get(old, name)) == (strcmp(name, full) != 0), "%s changed with %s", name, full);
        *last = keep;
    }
    root_of(m, after, NULL);
    CHECK(!strcmp(before, after), "the root is a function of the state");
    rp_bert_close(m);
    fixture_close(dev);
}

/* One tensor's root from its bytes, by the text of state_root.h: d[i], then the tree. */
TEST(tensor_root_by_definition)
{
    struct rp_dev *dev;
    struct rp_bert *m = open_small(&dev);
    const struct rp_tensor *t = &m->manifest.t[0];
    const char *x = (const char *)(m->parameters + t->offset);
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
    rp_bert_close(m);
    fixture_close(dev);
}

/* -- NaN -- */

static void blame(const char *tensor, size_t element, float value, const char *expected)
{
    struct rp_err err = {0};
    struct rp_dev *dev;
    struct rp_bert *m = open_small(&dev);
    struct rp_recipe r = {.optimizer_learning_rate = 1e-3, .schedule_total_steps = 10};
    struct rp_optim o;
    struct rp_bert_result s;
    rp_optim_init(&o, &r, &m->manifest);
    m->parameters[m->manifest.t[rp_manifest_find(&m->manifest, tensor)].offset + element] = value;
    int status = rp_bert_step(m, &o, 6, &s, &err);
    CHECK(status < 0 && err.code == RP_MISMATCH, "%s: went through", tensor);
    CHECK(strstr(err.msg, "step 6") && strstr(err.msg, expected), "%s: '%s' does not say '%s'", tensor, err.msg, expected);
    rp_optim_fini(&o);
    rp_bert_close(m);
    fixture_close(dev);
}

TEST(nan_and_overflow_name_step_tensor_and_operation)
{
    blame("bert.encoder.layer.1.intermediate.dense.weight", 5, NAN, "tensor 'bert.encoder.layer.1.intermediate.dense.weight' (element 5)");
    blame("cls.seq_relationship.bias", 1, INFINITY, "tensor 'cls.seq_relationship.bias' (element 1)");
    /* finite parameters whose product overflows: the first tensor in forward order is the feed-forward's */
    blame("bert.encoder.layer.0.intermediate.dense.bias", 3, 3e38f, "layer 0 feed-forward output, normalised");
    blame("bert.encoder.layer.1.attention.self.query.bias", 3, 3e38f, "'layer 1 attention context'");
    /* finite loss, infinite gradient: tiny layer norm input scaled up by its gradient */
    blame("cls.predictions.transform.LayerNorm.weight", 3, 3e38f, "not finite");
}

/* -- samples that no reader should let through -- */

TEST(samples_out_of_range)
{
    struct rp_err err = {0};
    struct rp_dev *dev;
    struct rp_bert *m = open_small(&dev);
    for (int what = 0; what < 9; what++) {
        struct rp_bert_samples s = samples_new(&m->c, 5);
        int32_t *ids = (int32_t *)s.ids, *types = (int32_t *)s.types, *positions = (int32_t *)s.positions;
        int32_t *labels = (int32_t *)s.labels, *next = (int32_t *)s.next;
        if (what == 0) ids[4] = m->c.vocab;
        if (what == 1) ids[4] = -1;
        if (what == 2) types[3] = m->c.types;
        if (what == 3) positions[1] = m->c.seq;
        if (what == 4) labels[2] = m->c.vocab;
        if (what == 5) next[1] = 2;
        if (what == 6) memset((uint8_t *)s.mask, 0, (size_t)m->c.seq);
        if (what == 7) ((float *)s.weights)[1] = NAN;
        CHECK((rp_bert_input(m, 0, &s, &err) == 0) == (what == 8), "case %d", what);
        free(ids);
    }
    rp_bert_close(m);
    fixture_close(dev);
}

static int stop_after(void *left)
{
    return --*(int *)left < 0;
}

TEST(stops_between_layers)
{
    struct rp_dev *dev;
    struct rp_bert *m = open_small(&dev);
    struct rp_bert_result s;
    for (int n = 0; n < 7; n++) { /* two layers forward, two halves of two layers backward */
        struct rp_err err = {0};
        int left = n;
        m->alive = stop_after;
        m->alive_arg = &left;
        int status = rp_bert_gradient(m, 0, &s, &err);
        CHECK(n < 6 ? status < 0 && err.code == RP_INTERRUPTED : status == 0, "asked to stop at call %d: %d", n, status);
    }
    rp_bert_close(m);
    fixture_close(dev);
}
