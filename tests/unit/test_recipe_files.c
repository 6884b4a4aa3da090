/* Recipes from files: names, embedded recipes, config.json of transformers, paths in them. */
#include "tests/unit/recipe_fixture.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>

static const char *put_text(const char *name, const char *text)
{
    return put_file(name, text, strlen(text));
}

TEST(files_with_and_without_ending)
{
    struct rp_recipe r;
    struct rp_err err;
    RP_FREE char *path = rp_strdup(put_text("mine.yaml", "train: {batch_size: 5}\n"));
    CHECK(rp_recipe_load(&r, path, NULL, NULL, 0, &err) == 0 && r.train_batch_size == 5, "%s", err.msg);
    CHECK(strcmp(r.source_name, path) == 0, "%s", r.source_name);
    rp_recipe_fini(&r);
    path[strlen(path) - 5] = 0;
    CHECK(rp_recipe_load(&r, path, NULL, NULL, 0, &err) == 0 && r.train_batch_size == 5, "%s", err.msg);
    rp_recipe_fini(&r);
    REFUSED(rp_recipe_load(&r, "/nowhere/bert_fp32", NULL, NULL, 0, &err) < 0 && err.code == RP_IO, err.msg);
    CHECK(rp_recipe_load(&r, "/", NULL, NULL, 0, &err) < 0 && err.code == RP_IO, "a directory: %s", err.msg);
}

static const char google_config[] =
    "{\n \"attention_probs_dropout_prob\": 0.1,\n \"hidden_act\": \"gelu\",\n \"hidden_dropout_prob\": 0.1,\n"
    " \"hidden_size\": 256,\n \"initializer_range\": 0.02,\n \"intermediate_size\": 1024,\n"
    " \"max_position_embeddings\": 512,\n \"num_attention_heads\": 4,\n \"num_hidden_layers\": 4,\n"
    " \"type_vocab_size\": 2,\n \"vocab_size\": 30522,\n \"model_type\": \"bert\", \"architectures\": [\"X\"]\n}\n";

TEST(published_model_config)
{
    struct rp_recipe r;
    struct rp_err err;
    RP_FREE char *config = rp_strdup(put_text("bert_config.json", google_config));
    RP_FREE char *recipe =
        rp_strdup(put_text("c.yaml", "model:\n  config: bert_config.json\n  num_hidden_layers: 3\n"));
    CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) == 0, "%s", err.msg);
    CHECK(r.model_hidden_size == 256 && r.model_num_attention_heads == 4, "values of the file");
    CHECK(r.model_num_hidden_layers == 3, "a key of the recipe comes before the file's");
    CHECK(r.ignored && strcmp(r.ignored, "model_type, architectures") == 0, "%s", r.ignored ? r.ignored : "NULL");
    RP_JSON *j = rp_recipe_to_json(&r);
    CHECK_STR(origin(j, "model.hidden_size"), "model.config");
    CHECK_STR(origin(j, "model.num_hidden_layers"), "recipe");
    round_trip(&r, "model.config");
    rp_recipe_fini(&r);

    RP_FREE char *set0 = rp_asprintf("model.config=%s", config);
    const char *const set[] = {set0, "model.vocab_size=100"};
    CHECK(rp_recipe_parse(&r, "model.hidden_size: 512", 22, "t.yaml", NULL, set, 2, &err) == 0, "%s", err.msg);
    CHECK(r.model_hidden_size == 256 && r.model_vocab_size == 100,
          "a file named on the command line comes before the recipe's keys");
    rp_recipe_fini(&r);

    static const char *const bad[] = {
        "{\"hidden_sise\": 768}",
        "{\"hidden_act\": \"relu\"}",
        "{\"hidden_size\": \"768\"}",
        "{\"position_embedding_type\": \"relative_key\"}",
        "{\"config\": \"other.json\"}",
        "[]",
        "{\"hidden_size\": 768, \"hidden_size\": 768}",
        "{",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text("bert_config.json", bad[i]);
        REFUSED(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) < 0, err.msg);
    }
    unlink(config);
    CHECK(rp_recipe_load(&r, recipe, NULL, NULL, 0, &err) < 0 && err.code == RP_IO, "a config that is not there: %s",
          err.msg);
    put_text("bert_config.json", google_config);
    REFUSED(rp_recipe_load(&r, recipe, NULL, (const char *const[]){"workload=gpt"}, 1, &err) < 0, err.msg);
}

/* What ships: from the files and from the table inside the program; names and titles for `recipes`. */
TEST(embedded_recipes)
{
    static const struct {
        const char *name;
        int64_t batch, layers;
        double rate;
    } shipped[] = {{"bert_fp32", 32, 12, 1e-4}, {"bert_fp32_b96", 96, 12, 1e-4}, {"bert_adam_fp32", 32, 12, 1.25e-5},
                   {"bert_lamb_fp32", 32, 12, 7.5e-4}, {"bert_tiny_fp32", 8, 2, 1e-3}, {"bert_fp32_max", 0, 12, 1e-4},
                   {"bert_large_fp32", 16, 24, 1e-4}};
    struct rp_recipe r;
    struct rp_err err;
    char here[4096];
    CHECK(getcwd(here, sizeof here) && chdir("/") == 0, "no directory to go to");
    int n;
    const struct rp_recipe_name *names = rp_recipe_names(&n);
    CHECK(n >= 5, "%d names", n);
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        char path[100], expected[100];
        int listed = 0;
        for (int k = 0; k < n; k++)
            listed += strcmp(names[k].name, shipped[i].name) == 0 && strlen(names[k].title) > 10;
        CHECK(listed == 1, "%s is listed %d times", shipped[i].name, listed);
        snprintf(path, sizeof path, "recipes/%s", shipped[i].name);
        snprintf(expected, sizeof expected, "embedded:%s", shipped[i].name);
        for (int form = 0; form < 2; form++) {
            int rc = rp_recipe_load(&r, form ? path : shipped[i].name, "cpu", NULL, 0, &err);
            CHECK(rc == 0, "%s: %s", path, err.msg);
            if (rc < 0)
                continue;
            CHECK(strcmp(r.source_name, expected) == 0, "%s", r.source_name);
            CHECK(r.train_batch_size == shipped[i].batch && r.model_num_hidden_layers == shipped[i].layers &&
                      r.optimizer_learning_rate == shipped[i].rate && r.task_seq_length == 128 &&
                      r.task_max_predictions == 20,
                  "%s: its numbers", path);
            round_trip(&r, path);
            rp_recipe_fini(&r);
        }
    }
    REFUSED(rp_recipe_load(&r, "bert_pf32", "cpu", NULL, 0, &err) < 0, err.msg);
    REFUSED(rp_recipe_load(&r, "gpt/DP_8x1x1_16_1536x61", "cpu", NULL, 0, &err) < 0, err.msg);
    CHECK(chdir(here) == 0, "no way back to %s", here);
}

/* Names of the GPT report's cases: DP_8x1x1_16_1536x16 is data x tensor x pipeline, global batch, width x layers. */
static void check_case(const char *name, const struct rp_recipe *r)
{
    int data, tensor, pipeline, batch, hidden, layers;
    const char *degrees = strpbrk(name, "xX") ? strpbrk(name, "xX") - 1 : name;
    while (degrees > name && degrees[-1] != '_')
        degrees--;
    int n = sscanf(degrees, "%dx%dx%d_%d_%dx%d", &data, &tensor, &pipeline, &batch, &hidden, &layers);
    CHECK(n == 6, "%s", name);
    CHECK(r->parallel_data == data && r->parallel_tensor == tensor && r->parallel_pipeline == pipeline &&
              r->model_hidden_size == hidden && r->model_num_hidden_layers == layers &&
              r->model_intermediate_size == 4 * hidden && r->train_global_batch_size == batch,
          "%s: its sizes", name);
    CHECK(r->train_batch_size * r->train_accumulation_steps * data == batch, "%s: its batch", name);
    CHECK(r->model_padded_vocab_size % (128 * tensor) == 0 && r->model_padded_vocab_size >= 50257 &&
              r->model_padded_vocab_size - 128 * tensor < 50257,
          "%s: a vocabulary of %lld", name, (long long)r->model_padded_vocab_size);
    CHECK(r->model_num_attention_heads * (strstr(name, "768x12") ? 64 : 96) == hidden, "%s: its heads", name);
    CHECK(r->train_recompute == RP_RECOMPUTE_full && r->task_seq_length == 2048 &&
              r->model_max_position_embeddings == 2048 && r->optimizer_clip_form == RP_CLIP_FORM_norm_plus_epsilon &&
              r->schedule_total_steps == 320000 && r->schedule_warmup_steps == 3200 &&
              r->schedule_min_learning_rate == 1e-5 && r->optimizer_learning_rate == 1.5e-4 &&
              r->model_embedding_dropout_prob == 0.1,
          "%s: what all cases share", name);
    const int is_fp16 = strstr(name, "_fp16") != NULL;
    CHECK(r->train_precision == (is_fp16 ? RP_PRECISION_fp16 : RP_PRECISION_fp32), "%s: its precision", name);
    CHECK(!is_fp16 || (r->train_loss_scale == RP_LOSS_SCALE_dynamic && r->train_loss_scale_initial == 0x1p32 &&
                       r->train_loss_scale_window == 1000 && r->train_loss_scale_hysteresis == 2 &&
                       r->train_loss_scale_growth_form == RP_GROWTH_FORM_always &&
                       r->optimizer_on_overflow == RP_ON_OVERFLOW_hold),
          "%s: its loss scale is Megatron-LM's", name);
}

TEST(cases_of_the_gpt_report)
{
    int n, cases = 0, accumulated = 0, other_heads = 0;
    const struct rp_recipe_name *names = rp_recipe_names(&n);
    for (int i = 0; i < n; i++) {
        struct rp_recipe r;
        struct rp_err err;
        if (!names[i].group)
            continue;
        CHECK(strcmp(names[i].group, "gpt") == 0 && strncmp(names[i].name, "gpt/", 4) == 0, "%s", names[i].name);
        int rc = rp_recipe_load(&r, names[i].name, "cuda", NULL, 0, &err);
        CHECK(rc == 0, "%s: %s", names[i].name, err.msg);
        if (rc < 0)
            continue;
        cases++;
        accumulated += r.train_accumulation_steps == 32;
        other_heads += r.model_hidden_size / r.model_num_attention_heads != 96;
        CHECK(!memchr(r.source.data, '@', r.source.size), "%s: a value of the template is missing", names[i].name);
        check_case(names[i].name + 4, &r);
        round_trip(&r, names[i].name);
        rp_recipe_fini(&r);
    }
    CHECK(cases == 36 && accumulated == 8 && other_heads == 2, "%d cases, %d of them accumulate", cases, accumulated);
}

/* With the section of each backend too; a name says its precision. */
TEST(every_embedded_recipe_loads)
{
    int n;
    const struct rp_recipe_name *names = rp_recipe_names(&n);
    for (int i = 0; i < 2 * n; i++) {
        struct rp_recipe r;
        struct rp_err err;
        const struct rp_recipe_name *name = &names[i / 2];
        if (!CHECK(rp_recipe_load(&r, name->name, i % 2 ? "cuda" : "cpu", NULL, 0, &err) == 0, "%s: %s", name->name,
                   err.msg))
            continue;
        const char *precision = rp_choice_name(RP_PRECISIONS, r.train_precision);
        CHECK(!strcmp(name->model, rp_choice_name(RP_MODELS, r.workload)) && !strcmp(name->precision, precision), "%s",
              name->name);
        CHECK(strstr(name->name, precision) || (name->group && !strcmp(precision, "fp32")), "%s is in %s", name->name,
              precision);
        rp_recipe_fini(&r);
    }
}

TEST(lamb_states_its_batch)
{
    struct rp_recipe r;
    struct rp_err err;
    int rc = rp_recipe_load(&r, "bert_lamb_fp32", NULL, NULL, 0, &err);
    CHECK(rc == 0, "%s", err.msg);
    if (rc < 0)
        return;
    CHECK(r.train_accumulation_steps == 2048 && r.train_global_batch_size == 65536 && r.schedule_warmup_steps == 2000 &&
              r.schedule_total_steps == 7038 && r.optimizer_name == RP_OPTIMIZER_lamb &&
              r.schedule_decay == RP_DECAY_sqrt,
          "phase 1 as published");
    rp_recipe_fini(&r);
    CHECK(rp_recipe_load(&r, "bert_lamb_fp32", "cpu", NULL, 0, &err) == 0, "%s", err.msg);
    CHECK(r.train_accumulation_steps < 2048 && r.train_global_batch_size == 65536, "reduced on a CPU, and on record");
    rp_recipe_fini(&r);
}

TEST(settings_that_are_paths_lose_their_folders)
{
    static const char *const cases[] = {"/home/marker/data/wiki", "marker/*.tfrecord", "own", "/",
                                        "../marker/start.safetensors"};
    static const char *const keys[][2] = {{"run.init", "GIVEN"}, {"data.path", "OWN"}, {"model.config", "GIVEN"}};
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const int none = i == sizeof cases / sizeof *cases;
            RP_JSON *j = json_pack("{s:{s:s}, s:{s:s}, s:{s:n}}", keys[k][0], "value", none ? "" : cases[i], "title",
                                   "value", "a/b", "train.x", "value");
            for (int again = 0; again < 2; again++) { /* as verify does with what is hidden already */
                rp_recipe_hide_paths(j);
                CHECK_STR(json_string_value(json_object_get(json_object_get(j, keys[k][0]), "value")),
                          none ? "" : keys[k][1]);
            }
            CHECK_STR(json_string_value(json_object_get(json_object_get(j, "title"), "value")), "a/b");
        }
    static const char *const saved[][2] = {
        {"marker.safetensors", "SAVED"}, {"a/marker", "SAVED"}, {"marker/", "SAVED/"}, {"SAVED", "SAVED"}, {"", ""}};
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
        RP_JSON *j = json_pack("{s:{s:s}}", "run.save", "value", saved[i][0]);
        rp_recipe_hide_paths(j);
        CHECK_STR(json_string_value(json_object_get(json_object_get(j, "run.save"), "value")), saved[i][1]);
    }
}
