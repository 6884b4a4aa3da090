/* Checkpoints as other tools publish them: classes, old names, narrow types, directories with config.json. */
#include "base/json.h"
#include "train/checkpoint.h"
#include "train/public_config.h"
#include "tests/unit/scratch.h"
#include "tests/unit/train_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

/* -- files -- */

/* A safetensors file under construction: every tensor is added whole. */
struct file {
    json_t *header;
    struct rp_buf data;
};

static void add_tensor(struct file *f, const char *name, const char *dtype, const struct rp_tensor *t, const void *data,
                       size_t size)
{
    json_t *shape = json_array();
    for (int d = 0; d < rp_tensor_dims(t); d++)
        json_array_append_new(shape, json_integer(t->dim[d]));
    if (!f->header)
        f->header = json_object();
    json_object_set_new(f->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                                  (json_int_t)f->data.size, (json_int_t)(f->data.size + size)));
    rp_buf_add(&f->data, data, size);
}

static const char *write_tensors(struct file *f, const char *name)
{
    RP_BUF out = {0}, header = {0};
    rp_json_write(&header, f->header);
    const uint64_t n = header.size;
    rp_buf_add(&out, &n, sizeof n);
    rp_buf_add(&out, header.data, header.size);
    rp_buf_add(&out, f->data.data, f->data.size);
    json_decref(f->header);
    rp_buf_fini(&f->data);
    *f = (struct file){0};
    return put_file(name, out.data, out.size);
}

/* How a file of others differs from ours. */
struct form {
    int old;             /* gamma and beta */
    int without_prefix;
    const char *lacks[4];
    const char *dtype;   /* NULL: F32 */
    const char *wrapper; /* before every name */
    int shard, shards;   /* only every shards-th tensor; 0: all */
};

static const char *name_in(char out[RP_TENSOR_NAME], const char *name, const struct form *form)
{
    const char *at = form->without_prefix && strncmp(name, "bert.", 5) == 0 ? name + 5 : name;
    const char *end = form->old ? strstr(at, "LayerNorm.") : NULL;
    if (form->wrapper)
        snprintf(out, RP_TENSOR_NAME, "%s%s", form->wrapper, at);
    else if (end)
        snprintf(out, RP_TENSOR_NAME, "%.*sLayerNorm.%s", (int)(end - at), at,
                 strstr(end, "weight") ? "gamma" : "beta");
    else
        snprintf(out, RP_TENSOR_NAME, "%s", at);
    return out;
}

static int is_lacking(const struct form *form, const char *name)
{
    for (int i = 0; i < 4 && form->lacks[i]; i++)
        if (strncmp(name, form->lacks[i], strlen(form->lacks[i])) == 0)
            return 1;
    return 0;
}

/* Narrow floats: the upper half of the bits, or, as F16, whole numbers from -3 to 3 times 2^-24, its smallest. */
static uint16_t narrow(float x, const char *dtype)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return strcmp(dtype, "BF16") == 0 ? (uint16_t)(bits >> 16) : (uint16_t)((bits & 3) | (bits & 0x80000000) >> 16);
}

static float widened(uint16_t h, const char *dtype)
{
    float x;
    const uint32_t bits = (uint32_t)h << 16;
    memcpy(&x, &bits, sizeof x);
    return strcmp(dtype, "BF16") == 0 ? x : (h & 0x8000 ? -1.0f : 1.0f) * ldexpf((float)(h & 3), -24);
}

/* The weights of a trainer, which become what the file says of them. */
static const char *write_form(struct rp_train *from, const struct form *form, const char *file_name)
{
    struct file f = {0};
    const struct rp_tensors *l = from->state.weights;
    for (int i = 0; i < l->n; i++) {
        char name[RP_TENSOR_NAME], other[RP_TENSOR_NAME];
        float *x = rp_tensor_in(from->state.w, &l->t[i]);
        if (is_lacking(form, rp_tensor_name(name, &l->t[i])) || (form->shards && i % form->shards != form->shard))
            continue;
        RP_FREE uint16_t *half = rp_alloc(l->t[i].count * sizeof *half);
        for (size_t k = 0; form->dtype && k < l->t[i].count; k++) {
            half[k] = narrow(x[k], form->dtype);
            x[k] = widened(half[k], form->dtype);
        }
        if (form->dtype)
            add_tensor(&f, name_in(other, name, form), form->dtype, &l->t[i], half, l->t[i].count * sizeof *half);
        else
            add_tensor(&f, name_in(other, name, form), "F32", &l->t[i], x, l->t[i].count * sizeof *x);
    }
    return write_tensors(&f, file_name);
}

static void open_small(struct fixture *f, const struct rp_recipe *base, int64_t seed, const char *init)
{
    struct rp_err err;
    struct rp_recipe r = *base; /* of which nothing is owned here */
    r.seed_init = seed;
    r.run_init = (char *)init;
    CHECK(fixture_open(f, &r, "reference", 1, 1, NULL, &err) == 0, "%s", err.msg);
}

/* -- types -- */

TEST(every_narrow_float_is_widened_exactly)
{
    static const char *const types[] = {"F16", "BF16"};
    const struct rp_tensor t = {.dim = {65536}};
    RP_FREE uint16_t *all = rp_alloc(65536 * sizeof *all);
    RP_FREE float *x = rp_alloc(65536 * sizeof *x);
    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        struct file f = {0};
        struct rp_err err = {0};
        struct rp_st st;
        int exponent_bits = k ? 8 : 5, fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1,
            wrong = 0;
        add_tensor(&f, "x", types[k], &t, all, 65536 * sizeof *all);
        CHECK(rp_st_open(&st, write_tensors(&f, "all"), &err) == 0, "%s", err.msg);
        CHECK(rp_st_read_floats(&st, rp_st_find(&st, "x"), 0, x, 65536, &err) == 0, "%s", err.msg);
        for (int i = 0; i < 65536; i++) {
            int sign = i >> 15, exponent = i >> fraction_bits & ((1 << exponent_bits) - 1),
                fraction = i & ((1 << fraction_bits) - 1);
            double is =
                ldexp(fraction + (exponent ? 1 << fraction_bits : 0), (exponent ? exponent : 1) - bias - fraction_bits);
            int special = exponent == (1 << exponent_bits) - 1;
            wrong += special ? (fraction ? !isnan(x[i]) : !isinf(x[i])) : (double)x[i] != (sign ? -is : is);
            wrong += !isnan(x[i]) && !signbit(x[i]) != !sign;
        }
        CHECK(wrong == 0, "%s: %d values", types[k], wrong);
        float last[3];
        CHECK(rp_st_read_floats(&st, rp_st_find(&st, "x"), 1024, last, 3, &err) == 0 &&
                  !memcmp(last, x + 1024, sizeof last),
              "a piece");
        rp_st_close(&st);
    }
}

TEST(narrow_weights)
{
    struct rp_recipe r = small_recipe();
    for (int k = 0; k < 2; k++) {
        struct fixture f, g;
        struct form form = {.dtype = k ? "BF16" : "F16"};
        open_small(&f, &r, 1, NULL);
        const char *path = write_form(f.t, &form, "narrow");
        open_small(&g, &r, 2, path);
        CHECK(g.t && !memcmp(f.t->state.w, g.t->state.w, f.t->state.weights->bytes), "%s", form.dtype);
        fixture_fini(&f);
        fixture_fini(&g);
    }
    rp_recipe_fini(&r);
}

/* -- several files, wrappers -- */

/* As save_pretrained(max_shard_size=...) writes them: shards and model.safetensors.index.json. */
static json_t *write_shards(struct rp_train *from, const struct form *like)
{
    static const char *const files[] = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors"};
    json_t *map = json_object();
    for (int k = 0; k < 3; k++) {
        struct form form = *like;
        form.shard = k;
        form.shards = 3;
        write_form(from, &form, files[k]);
        for (int i = k; i < from->state.weights->n; i += 3) {
            char name[RP_TENSOR_NAME], other[RP_TENSOR_NAME];
            json_object_set_new(map, name_in(other, rp_tensor_name(name, &from->state.weights->t[i]), &form),
                                json_string(files[k]));
        }
    }
    return json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1234, "weight_map", map);
}

static const char *put_index(const json_t *index)
{
    RP_BUF out = {0};
    rp_json_write(&out, index);
    return put_file("model.safetensors.index.json", out.data, out.size);
}

TEST(weights_in_several_files_and_wrapped_names)
{
    static const char *const wrappers[] = {NULL, "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."};
    struct rp_recipe r = small_recipe();
    for (size_t k = 0; k < 2 * sizeof wrappers / sizeof *wrappers; k++) {
        const struct form form = {.wrapper = wrappers[k / 2]};
        struct fixture f, g;
        open_small(&f, &r, 1, NULL);
        RP_JSON *index = write_shards(f.t, &form);
        RP_FREE char *path = rp_strdup(k % 2 ? put_index(index) : write_form(f.t, &form, "whole"));
        open_small(&g, &r, 2, path);
        CHECK(g.t && !memcmp(f.t->state.w, g.t->state.w, f.t->state.weights->bytes), "%s, %s", path,
              form.wrapper ? form.wrapper : "plain");
        fixture_fini(&f);
        fixture_fini(&g);
    }
    rp_recipe_fini(&r);
}

TEST(indices_that_are_not_of_their_files)
{
    static const struct {
        const char *tensor, *file, *why;
    } c[] = {
        {"bert.pooler.dense.bias", NULL, "the index does not list it there"},
        {"bert.pooler.dense.bias", "model-00001-of-00003.safetensors", "do the files belong together"},
        {"bert.embeddings.more", "model-00002-of-00003.safetensors", "lacks it"},
        {"bert.embeddings.more", "model-00004-of-00004.safetensors", "cannot open"},
        {"bert.embeddings.more", "../model-00002-of-00003.safetensors", "next to the index"},
        {"bert.embeddings.more", "", "next to the index"},
    };
    struct rp_err err = {0};
    struct rp_recipe r = small_recipe();
    struct fixture f;
    open_small(&f, &r, 1, NULL);
    RP_JSON *index = write_shards(f.t, &(struct form){0});
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        RP_JSON *bent = json_deep_copy(index);
        if (c[i].file)
            json_object_set_new(json_object_get(bent, "weight_map"), c[i].tensor, json_string(c[i].file));
        else
            json_object_del(json_object_get(bent, "weight_map"), c[i].tensor);
        CHECK(rp_checkpoint_check(put_index(bent), &r, NULL, &err) < 0 && strstr(err.msg, c[i].why), "case %zu: %s", i,
              err.msg);
    }
    CHECK(rp_checkpoint_check(put_file("x.index.json", "{}", 2), &r, NULL, &err) < 0 && strstr(err.msg, "weight_map"),
          "%s", err.msg);
    CHECK(rp_checkpoint_check(put_index(index), &r, NULL, &err) == 0, "%s", err.msg);
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

/* The first bytes of torch.save since 1.6, before, of llm.c's write_model, and of a clone without git-lfs. */
TEST(checkpoints_of_other_tools_are_named_with_what_converts_them)
{
    static const struct {
        const char *head, *why;
    } c[] = {
        {"PK\3\4\0\0\10\10\0\0\0\0\0\0archive/data.pkl", "cut short"},
        {"\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.", "torch.save("},
        {"\xc6\xd7\x34\1\3\0\0\0\0\4\0\0\x51\xc4\0\0", "dev/eval/export_hf.py"},
        {"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"},
    };
    struct rp_err err = {0};
    struct rp_recipe r = small_recipe();
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char bytes[64] = "";
        memcpy(bytes, c[i].head, 16);
        if (i == 3)
            snprintf(bytes, sizeof bytes, "%s", c[i].head);
        REFUSED(rp_checkpoint_check(put_file("weights.bin", bytes, sizeof bytes), &r, NULL, &err) < 0 &&
                    err.code == RP_MALFORMED,
                err.msg);
        CHECK(strstr(err.msg, c[i].why), "%s", err.msg);
    }
    rp_recipe_fini(&r);
}

/* -- classes -- */

/* The description that run.json gets. */
static json_t *found_in(const char *path, const struct rp_recipe *r)
{
    struct rp_err err = {0};
    json_t *found = NULL;
    CHECK(rp_checkpoint_check(path, r, &found, &err) == 0 && found, "%s", err.msg);
    return found;
}

TEST(classes_of_transformers)
{
    static const struct {
        struct form form;
        const char *class;
        int initialised;
    } cases[] = {
        {{.old = 0}, NULL, 0},
        {{.old = 1}, NULL, 0},
        {{.without_prefix = 1}, NULL, 0},
        {{.lacks = {"bert.pooler.", "cls.seq_"}}, "BertForMaskedLM", 4},
        {{.old = 1, .lacks = {"bert.pooler.", "cls.seq_"}}, "BertForMaskedLM", 4},
        {{.lacks = {"cls.seq_"}}, "BertForMaskedLM with pooler", 2},
        {{.without_prefix = 1, .lacks = {"cls."}}, "BertModel", 7},
        {{.old = 1, .without_prefix = 1, .lacks = {"cls."}}, "BertModel", 7},
        {{.without_prefix = 1, .lacks = {"cls.", "bert.pooler."}}, "BertModel without pooler", 9},
        {{.lacks = {"cls.predictions."}}, "BertForNextSentencePrediction", 5},
    };
    struct rp_recipe r = small_recipe();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture f, g, plain;
        open_small(&f, &r, 1, NULL);
        open_small(&plain, &r, 2, NULL);
        const char *path = write_form(f.t, &cases[k].form, "class");
        open_small(&g, &r, 2, path);
        const struct rp_tensors *l = f.t->state.weights;
        for (int i = 0; i < l->n; i++) {
            char name[RP_TENSOR_NAME];
            struct rp_train *from = is_lacking(&cases[k].form, rp_tensor_name(name, &l->t[i])) ? plain.t : f.t;
            CHECK(
                !memcmp(rp_tensor_in(g.t->state.w, &l->t[i]), rp_tensor_in(from->state.w, &l->t[i]), l->t[i].count * 4),
                "case %zu: %s", k, name);
        }
        RP_JSON *found = found_in(path, &r);
        CHECK((int)json_array_size(json_object_get(found, "initialised")) == cases[k].initialised, "case %zu: %zu", k,
              json_array_size(json_object_get(found, "initialised")));
        CHECK_STR(rp_json_text_at(found, "class"), cases[k].class ? cases[k].class : "");
        fixture_fini(&f);
        fixture_fini(&g);
        fixture_fini(&plain);
    }
    rp_recipe_fini(&r);
}

/* What no class lacks must be there, and one tensor has one name. */
TEST(files_of_no_class)
{
    static const struct form cases[] = {
        {.lacks = {"bert.pooler.dense.bias"}},
        {.lacks = {"bert.pooler."}},
        {.lacks = {"cls.seq_relationship.bias"}},
        {.lacks = {"bert.pooler.", "cls.seq_", "bert.encoder.layer.1.output.LayerNorm.bias"}},
        {.lacks = {"bert."}},
    };
    struct rp_recipe r = small_recipe();
    struct fixture f;
    open_small(&f, &r, 1, NULL);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct rp_err err = {0};
        const char *path = write_form(f.t, &cases[k], "partial");
        REFUSED(rp_checkpoint_check(path, &r, NULL, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    static const struct form forms[] = {{.old = 1}, {.without_prefix = 1}, {.old = 1, .without_prefix = 1}};
    const struct rp_tensor *t = NULL;
    char name[RP_TENSOR_NAME], other[RP_TENSOR_NAME];
    for (int i = 0; i < f.t->state.weights->n; i++)
        if (strcmp(rp_tensor_name(name, &f.t->state.weights->t[i]), "bert.embeddings.LayerNorm.weight") == 0)
            t = &f.t->state.weights->t[i];
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        struct rp_err err = {0};
        struct file twice = {0};
        add_tensor(&twice, rp_tensor_name(name, t), "F32", t, rp_tensor_in(f.t->state.w, t), t->count * 4);
        add_tensor(&twice, name_in(other, name, &forms[k]), "F32", t, rp_tensor_in(f.t->state.w, t), t->count * 4);
        const char *path = write_tensors(&twice, "twice");
        REFUSED(rp_checkpoint_check(path, &r, NULL, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

/* -- directories -- */

static void save_dir(struct rp_train *t, const struct rp_recipe *r, const char *path, int64_t step)
{
    struct rp_err err = {0};
    CHECK(rp_checkpoint_save(path, r, &t->state, step, NULL, NULL, &err) == 0, "%s", err.msg);
}

static void train(struct rp_train *t, int64_t from, int64_t to)
{
    struct rp_err err = {0};
    struct rp_step_result s;
    for (int64_t step = from; step < to; step++)
        CHECK(rp_train_step(t, step, &s, &err) == 0, "%s", err.msg);
}

/* Two steps, a directory, two steps: the state root of four steps, of a file and of a directory alike. */
TEST(a_directory_continues_the_run)
{
    struct rp_recipe recipes[2] = {small_recipe(), small_gpt()};
    for (int k = 0; k < 2; k++) {
        const struct rp_recipe *r = &recipes[k];
        struct rp_err err = {0};
        struct fixture whole, second;
        char want[65], is[65];
        RP_FREE char *dir = rp_asprintf("%s/", scratch(k ? "gpt" : "bert"));
        open_small(&whole, r, 1, NULL);
        train(whole.t, 0, 2);
        save_dir(whole.t, r, dir, 2);
        train(whole.t, 2, 4);
        CHECK(rp_train_root(whole.t, want, NULL, &err) == 0, "%s", err.msg);
        open_small(&second, r, 99, dir);
        CHECK(second.t && second.t->base == 2, "model %d", k);
        train(second.t, 0, 2); /* counted from the file's */
        CHECK(rp_train_root(second.t, is, NULL, &err) == 0, "%s", err.msg);
        CHECK_STR(is, want);
        fixture_fini(&whole);
        fixture_fini(&second);
        RP_JSON *found = found_in(dir, r);
        CHECK(json_is_true(json_object_get(found, "optimizer_state")) && rp_json_integer_at(found, "steps") == 2 &&
              json_array_size(json_object_get(found, "config_unknown")) == 0);
        rp_recipe_fini(&recipes[k]);
    }
}

/* A file named model.safetensors in a directory without the rest is the same file. */
TEST(parts_of_a_directory)
{
    struct rp_err err = {0};
    struct rp_recipe r = small_recipe();
    struct fixture f;
    open_small(&f, &r, 1, NULL);
    const char *other = scratch_new(), *dir = scratch_new();
    save_dir(f.t, &r, dir, 5);
    save_dir(f.t, &r, other, 6);
    RP_FREE char *slots = rp_asprintf("%s/optimizer.safetensors", dir),
                 *others = rp_asprintf("%s/optimizer.safetensors", other);
    RP_FREE char *weights = rp_asprintf("%s/model.safetensors", dir),
                 *index = rp_asprintf("%s/model.safetensors.index.json", dir);
    RP_FREE char *config = rp_asprintf("%s/config.json", dir);
    CHECK(rename(others, slots) == 0);
    REFUSED(rp_checkpoint_check(dir, &r, NULL, &err) < 0 && err.code == RP_MISMATCH, err.msg);
    CHECK(unlink(slots) == 0 && unlink(config) == 0);
    RP_JSON *found = found_in(dir, &r);
    CHECK(json_is_false(json_object_get(found, "optimizer_state")) && !json_object_get(found, "config_ignored"));
    CHECK(rename(weights, slots) == 0);
    REFUSED(rp_checkpoint_check(dir, &r, NULL, &err) < 0 && err.code == RP_IO, err.msg);
    CHECK(rename(slots, index) == 0); /* an index that is none */
    REFUSED(rp_checkpoint_check(dir, &r, NULL, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    REFUSED(rp_checkpoint_check(index, &r, NULL, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

/* A save over an older one that ends early leaves no optimizer state of another step. */
static int at_the_second(void *calls)
{
    return ++*(int *)calls == 2;
}

TEST(a_save_that_is_stopped)
{
    struct rp_err err = {0};
    struct rp_recipe r = small_recipe();
    struct fixture f;
    int calls = 0;
    open_small(&f, &r, 1, NULL);
    const char *dir = scratch_new();
    save_dir(f.t, &r, dir, 5);
    CHECK(rp_checkpoint_save(dir, &r, &f.t->state, 6, at_the_second, &calls, &err) < 0 && err.code == RP_INTERRUPTED);
    RP_JSON *found = found_in(dir, &r);
    CHECK(json_is_false(json_object_get(found, "optimizer_state")));
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

/* -- config.json -- */

/* Sets one setting of the text that the recipe makes; value NULL: removes it. */
static int check_with(const struct rp_recipe *r, const char *name, const char *value, json_t *unknown,
                      struct rp_err *err)
{
    RP_BUF text = {0};
    rp_public_config_write(&text, r);
    RP_JSON *config = rp_json_parse(rp_buf_text(&text), text.size, "config", err);
    if (value)
        json_object_set_new(config, name, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(config, name);
    RP_BUF edited = {0};
    rp_json_write(&edited, config);
    RP_JSON *ignored = json_array();
    return rp_public_config_check(put_file("config.json", edited.data, edited.size), r, ignored, unknown, err);
}

/* What was saved says all that a recipe has to know: of either model, over a recipe with other sizes. */
TEST(a_saved_config_is_a_model_config)
{
    static const char *const other[] = {
        "workload: bert\nmodel.hidden_size: 256\ntask.seq_length: 16\ntask.max_predictions_per_seq: 2\n",
        "workload: gpt\nmodel.num_hidden_layers: 7\ntask.seq_length: 16\n"};
    struct rp_recipe again;
    struct rp_err err;
    for (int gpt = 0; gpt < 2; gpt++) {
        struct rp_recipe r = gpt ? small_gpt() : small_recipe();
        RP_BUF text = {0};
        rp_public_config_write(&text, &r);
        const char *path = put_file("config.json", text.data, text.size);
        RP_FREE char *set = rp_asprintf("model.config=%s", path);
        RP_JSON *ignored = json_array(), *unknown = json_array();
        if (CHECK(rp_recipe_parse(&again, other[gpt], strlen(other[gpt]), "r.yaml", "cpu", (const char *const[]){set},
                                  1, &err) == 0,
                  "%s", err.msg)) {
            CHECK(rp_public_config_check(path, &again, ignored, unknown, &err) == 0, "%s", err.msg);
            CHECK(again.model_hidden_size == r.model_hidden_size &&
                  again.model_num_hidden_layers == r.model_num_hidden_layers);
            rp_recipe_fini(&again);
        }
        rp_recipe_fini(&r);
    }
}

TEST(settings_that_differ)
{
    static const struct {
        int gpt;
        const char *name, *value;
        int accepted;
    } cases[] = {
        {0, "vocab_size", "84", 0}, {0, "hidden_size", "32", 0}, {0, "num_hidden_layers", "3", 0},
        {0, "num_attention_heads", "2", 0}, {0, "intermediate_size", "96", 0}, {0, "hidden_act", "\"gelu_new\"", 0},
        {0, "hidden_act", "\"relu\"", 0}, {0, "hidden_act", "7", 0}, {0, "hidden_dropout_prob", "0.1", 0},
        {0, "attention_probs_dropout_prob", "0.1", 0}, {0, "max_position_embeddings", "17", 0},
        {0, "type_vocab_size", "1", 0}, {0, "layer_norm_eps", "1e-5", 0}, {0, "layer_norm_eps", "\"1e-12\"", 0},
        {0, "position_embedding_type", "\"relative_key\"", 0}, {0, "is_decoder", "true", 0},
        {0, "tie_word_embeddings", "false", 0}, {0, "model_type", "\"roberta\"", 0}, {0, "model_type", "3", 0},
        {0, "pruned_heads", "{\"1\": [0]}", 0},
        {0, "hidden_size", NULL, 0}, {0, "initializer_range", "0.5", 1}, {0, "hidden_dropout_prob", "0.0", 1},
        {0, "layer_norm_eps", NULL, 1}, {0, "hidden_act", NULL, 1}, {0, "position_embedding_type", "\"absolute\"", 1},
        {0, "pad_token_id", "0", 1}, {0, "model_type", NULL, 1},
        {0, "pruned_heads", "{}", 1},
        {1, "n_inner", "null", 0}, {1, "n_inner", NULL, 0}, {1, "vocab_size", "80", 0}, {1, "vocab_size", "85", 0},
        {1, "activation_function", "\"gelu\"", 0}, {1, "scale_attn_weights", "false", 0},
        {1, "scale_attn_by_inverse_layer_idx", "true", 0}, {1, "resid_pdrop", NULL, 0}, {1, "n_layer", "\"2\"", 0},
        {1, "vocab_size", "81", 1}, {1, "vocab_size", "83", 1}, {1, "n_ctx", "1024", 1},
        {1, "activation_function", "\"gelu_pytorch_tanh\"", 1}, {1, "activation_function", NULL, 1},
        {1, "layer_norm_epsilon", "0.00001", 1},
    };
    struct rp_recipe recipes[2] = {small_recipe(), small_gpt()};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err = {0};
        RP_JSON *unknown = json_array();
        int status = check_with(&recipes[cases[i].gpt], cases[i].name, cases[i].value, unknown, &err);
        CHECK(json_array_size(unknown) == 0, "%s", cases[i].name);
        if (cases[i].accepted)
            CHECK(status == 0, "%s: %s", cases[i].name, err.msg);
        else
            REFUSED(status < 0 && err.code == RP_USAGE, err.msg);
    }
    struct rp_err err = {0};
    RP_JSON *unknown = json_array();
    CHECK(check_with(&recipes[0], "rope_theta", "10000", unknown, &err) == 0, "%s", err.msg);
    CHECK_STR(json_string_value(json_array_get(unknown, 0)), "rope_theta");
    recipes[1].model_intermediate_size = 96;
    CHECK(check_with(&recipes[1], "n_inner", "null", unknown, &err) == 0 &&
              check_with(&recipes[1], "n_inner", NULL, unknown, &err) == 0,
          "%s", err.msg);
    rp_recipe_fini(&recipes[0]);
    rp_recipe_fini(&recipes[1]);
}

TEST(config_files_that_are_none)
{
    static const char *const bad[] = {"", "[]", "{", "{\"a\": 1, \"a\": 2}", "7"};
    struct rp_recipe r = small_recipe(), images;
    static const char yaml[] = "workload: resnet50\n";
    struct rp_err err = {0};
    RP_JSON *ignored = json_array(), *unknown = json_array();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(rp_public_config_check(put_file("c", bad[i], strlen(bad[i])), &r, ignored, unknown, &err) < 0 &&
                  err.code == RP_MALFORMED,
              "%zu", i);
    CHECK(rp_recipe_parse(&images, yaml, sizeof yaml - 1, "r.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    REFUSED(rp_public_config_check(put_file("c", "{}", 2), &images, ignored, unknown, &err) < 0 && err.code == RP_USAGE,
            err.msg);
    rp_recipe_fini(&r);
    rp_recipe_fini(&images);
}
