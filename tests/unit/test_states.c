/* Files of a training state that somebody hands over: their roots are those of the state, differences are found, and
 * others are refused. */
#include "tests/unit/noise_images.h"
#include "tests/unit/scratch.h"

#include "base/hash.h"
#include "train/state.h"
#include "verify/replay/states.h"

#include <math.h>

/* Numbers of both signs in every tensor that is trained, a NaN with bits of its own among them. */
static void fill(struct rp_train *t)
{
    static const uint32_t nan = 0xffc12345u;
    const struct rp_trained *s = &t->state;
    for (int i = 0; i < rp_state_entries(s); i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, s, i);
        for (size_t k = 0; k < e.t->count; k++)
            e.x[k] = (float)sample_below(20001) / 10000.0f - 1.0f;
    }
    memcpy(&s->w[3], &nan, sizeof nan);
}

/* The file of that state has its root; with another bit it has another one. */
static void check_root(struct rp_train *t, const struct rp_recipe *r, const char *name)
{
    struct rp_err err = {0};
    char root[RP_SHA256_HEX], is[RP_SHA256_HEX] = "";
    const char *path = scratch(name);
    fill(t);
    CHECK(rp_state_root(root, NULL, &t->state, &err) == 0 && rp_train_save(t, path, r, &err) == 0, "%s: %s", name,
          err.msg);
    CHECK(rp_state_file_root(is, path, r, &err) == 0, "%s: %s", name, err.msg);
    CHECK_STR(is, root);
    t->state.w[40] += 1;
    CHECK(rp_train_save(t, path, r, &err) == 0 && rp_state_file_root(is, path, r, &err) == 0 && strcmp(is, root) != 0,
          "%s: %s", name, err.msg);
}

TEST(a_file_has_the_root_of_its_state)
{
    struct rp_recipe recipes[] = {small_recipe(), small_gpt(), small_gpt()};
    static const char *const names[] = {"bert", "gpt", "gpt_tensor"};
    recipes[2].parallel_tensor = 3;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        struct fixture f;
        struct rp_err err;
        if (CHECK(fixture_open(&f, &recipes[i], "reference", 1, 1, NULL, &err) == 0, "%s: %s", names[i], err.msg))
            check_root(f.t, &recipes[i], names[i]);
        fixture_fini(&f);
        rp_recipe_fini(&recipes[i]);
    }
}

/* Convolutions are in another order in files. */
TEST(a_file_of_resnet_has_the_root_of_its_state)
{
    struct noise_train n;
    struct rp_err err;
    noise_train_open(
        &n,
        "workload: resnet50\nmodel: {width: 4, blocks: \"1,1,1,1\", num_classes: 7}\ntask: {image_size: 16}\n"
        "train: {batch_size: 2}\noptimizer: {name: sgd}\n",
        &err);
    if (CHECK(n.t, "%s", err.msg))
        check_root(n.t, &n.recipe, "resnet");
    noise_train_close(&n);
}

/* ---- files under construction ---- */

struct tensor {
    const char *name;
    int n;
    const char *dtype; /* NULL: F32 */
};

/* A file of zeros, with tensors in the order of the list. */
static const char *file_of(const char *name, const struct tensor *t, int n)
{
    RP_BUF out = {0}, header = {0};
    uint64_t at = 0, length;
    for (int i = 0; i < n; i++) {
        const uint64_t size = (uint64_t)t[i].n * (t[i].dtype && strcmp(t[i].dtype, "U8") == 0 ? 1 : 4);
        rp_buf_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%llu,%llu]}", i ? "," : "{",
                      t[i].name, t[i].dtype ? t[i].dtype : "F32", t[i].n, (unsigned long long)at,
                      (unsigned long long)(at + size));
        at += size;
    }
    rp_buf_puts(&header, n ? "}" : "{}");
    length = header.size;
    rp_buf_add(&out, &length, sizeof length);
    rp_buf_add(&out, header.data, header.size);
    for (uint64_t i = 0; i < at; i++)
        rp_buf_add(&out, "", 1);
    return put_file(name, out.data, out.size);
}

TEST(files_with_other_tensors_are_not_compared)
{
    static const struct tensor own[] = {{"a", 4, NULL}, {"b", 2, NULL}};
    static const struct tensor other[][2] = {{{"a", 4, NULL}, {"c", 2, NULL}},
                                             {{"a", 4, NULL}, {"b", 3, NULL}},
                                             {{"a", 4, NULL}, {"b", 2, "I32"}},
                                             {{"a", 4, NULL}, {"b", 8, "U8"}},
                                             {{"A\\u001b[31m", 4, NULL}, {"b", 2, NULL}}};
    struct rp_state_difference d;
    struct rp_err err;
    RP_FREE char *was = rp_strdup(file_of("was", own, 2));
    CHECK(rp_states_compare(&d, was, was, &err) == 0 && d.tensors == 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const char *here = file_of("here", other[i], 2);
        CHECK(rp_states_compare(&d, was, here, &err) < 0 && err.code == RP_MISMATCH && !strpbrk(err.msg, "\n\033"),
              "%zu: %s", i, err.msg);
        CHECK(rp_states_compare(&d, here, was, &err) < 0 && err.code == RP_MISMATCH, "%zu, the other way: %s", i,
              err.msg);
    }
    CHECK(rp_states_compare(&d, scratch("none"), was, &err) < 0 && err.code == RP_IO, "%s", err.msg);
    CHECK(rp_states_compare(&d, was, scratch("none"), &err) < 0 && err.code == RP_IO, "%s", err.msg);
}

TEST(files_of_another_model_have_no_root)
{
    static const char *const weight = "bert.embeddings.LayerNorm.weight";
    struct rp_recipe r = small_recipe();
    const struct tensor rows[][1] = {{{weight, 23, NULL}},
                                     {{weight, 0, NULL}},
                                     {{"unknown", 0, NULL}},
                                     {{"unknown", 3, "U8"}},
                                     {{"unknown", 3, NULL}},
                                     {{"optimizer.unknown", 3, NULL}},
                                     {{"optimizer.m.unknown", 3, NULL}},
                                     {{weight, 24, NULL}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char root[RP_SHA256_HEX];
        struct rp_err err;
        CHECK(rp_state_file_root(root, file_of("other", rows[i], 1), &r, &err) < 0 && err.code == RP_MISMATCH,
              "%zu: %s", i, err.msg);
    }
    rp_recipe_fini(&r);
}
