/* The recipe reader: what it takes, what it refuses and with which words, and that nothing is lost on the way through
 * JSON. Files: test_recipe_files.c. */
#include "tests/unit/recipe_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* One refusal, whose message has one line. */
struct refusal {
    const char *text;
    enum rp_code code;
};
struct set_refusal {
    struct refusal is;
    const char *set[2]; /* from the command line */
};

static void check_refusal(const struct refusal *c, const char *const set[2])
{
    struct rp_recipe r;
    struct rp_err err = {0};
    int rc = rp_recipe_parse(&r, c->text, strlen(c->text), "t.yaml", "cpu", set, !set[0] ? 0 : set[1] ? 2 : 1, &err);
    CHECK(rc < 0 && err.code == c->code, "%s %s: code %s", c->text, set[0] ? set[0] : "", rp_code_name(err.code));
    CHECK(!strchr(err.msg, '\n'), "%s", err.msg);
    SAID(err.msg);
}

static void check_refusals(const struct refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_refusal(&cases[i], (const char *const[2]){NULL, NULL});
}

TEST(keys_are_refused_with_place_form_and_nearest)
{
    static const struct refusal cases[] = {
        {"train:\n  batchsize: 8\n", RP_USAGE},
        {"batch_size: 8\n", RP_USAGE},
        {"optimiser:\n  name: lamb\n", RP_USAGE},
        {"optimizer:\n  naem: lamb\n", RP_USAGE},
        {"xyzzy: 1\n", RP_USAGE},
        {"train:\n  batch_size: 8\n  batch_size: 9\n", RP_USAGE},
        {"train:\n  batch_size: 8\ntrain.batch_size: 8\n", RP_USAGE},
        {"train:\n  batch_size: 8\ntrain:\n  precision: fp32\n", RP_USAGE},
        {"train:\n  batch_size: many\n", RP_USAGE},
        {"train:\n  batch_size: 8.0\n", RP_USAGE},
        {"train:\n  batch_size: \"8\"\n", RP_USAGE},
        {"train:\n  batch_size:\n", RP_USAGE},
        {"train:\n  batch_size: [8]\n", RP_USAGE},
        {"train:\n  batch_size: {a: 8}\n", RP_USAGE},
        {"train:\n  batch_size: 65537\n", RP_USAGE},
        {"train:\n  batch_size: 0\n", RP_USAGE},
        {"train:\n  batch_size: 99999999999999999999\n", RP_USAGE},
        {"seed:\n  init: 9007199254740993\n", RP_USAGE},
        {"seed:\n  init: -1\n", RP_USAGE},
        {"seed:\n  init: 010\n", RP_USAGE},
        {"seed:\n  init: 0o10\n", RP_USAGE},
        {"seed:\n  init: 0x10\n", RP_USAGE},
        {"seed:\n  init: 1_000\n", RP_USAGE},
        {"optimizer:\n  learning_rate: 1_0e-4\n", RP_USAGE},
        {"optimizer:\n  learning_rate: .inf\n", RP_USAGE},
        {"optimizer:\n  learning_rate: .nan\n", RP_USAGE},
        {"optimizer:\n  learning_rate: 0x1p-3\n", RP_USAGE},
        {"optimizer:\n  learning_rate: 1e999\n", RP_USAGE},
        {"optimizer:\n  learning_rate: -1e-4\n", RP_USAGE},
        {"optimizer:\n  bias_correction: yes\n", RP_USAGE},
        {"optimizer:\n  name: adam\n", RP_USAGE},
        {"optimizer:\n  exclude_from_weight_decay: bias\n", RP_USAGE},
        {"optimizer:\n  exclude_from_weight_decay: [[bias]]\n", RP_USAGE},
        {"optimizer:\n  exclude_from_weight_decay: [a b]\n", RP_USAGE},
        {"title: 12\n", RP_USAGE},
        {"title: ~\n", RP_USAGE},
        {"title: |\n  a\n  b\n", RP_USAGE},
        {"train: 8\n", RP_USAGE},
        {"title: {a: b}\n", RP_USAGE},
        {"? [a]\n: b\n", RP_USAGE},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
}

TEST(hostile_yaml_is_refused)
{
    static const struct refusal cases[] = {
        {"a: &a [x, x]\nb: &b [*a, *a]\n", RP_USAGE},
        {"title: &a hello\n", RP_MALFORMED},
        {"title: *a\n", RP_MALFORMED},
        {"train: &t\n  batch_size: 8\n", RP_MALFORMED},
        {"title: !!str hello\n", RP_MALFORMED},
        {"title: !!python/object:os.system hello\n", RP_MALFORMED},
        {"%TAG ! tag:x:\n---\ntitle: a\n", RP_MALFORMED},
        {"<<: {train.batch_size: 8}\n", RP_MALFORMED},
        {"train:\n  <<: {batch_size: 8}\n", RP_MALFORMED},
        {"title: a\n---\ntitle: b\n", RP_MALFORMED},
        {"train:\n\tbatch_size: 8\n", RP_MALFORMED},
        {"title: a \xff\n", RP_MALFORMED},
        {"title: \xc0\xaf\n", RP_MALFORMED},
        {"title: \xed\xa0\x80\n", RP_MALFORMED},
        {"# caf\xc3\xa9 \x1b[31m\n", RP_MALFORMED},
        {"# caf\xc3\xa9 \xe2\x80\xae gnp.exe\n", RP_MALFORMED},
        {"title: \"a\\0b\"\n", RP_MALFORMED},
        {"title: \"a\\x1b[31m\"\n", RP_USAGE},
        {"", RP_MALFORMED},
        {"# nothing\n", RP_MALFORMED},
        {"[a, b]\n", RP_MALFORMED},
        {"train: {batch_size: 8\n", RP_MALFORMED},
        {"title: \"a\n", RP_MALFORMED},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);

    struct rp_recipe r;
    struct rp_err err;
    CHECK(rp_recipe_parse(&r, "title: a\0b", 10, "t.yaml", NULL, NULL, 0, &err) < 0 && err.code == RP_MALFORMED,
          "a NUL byte");
}

/* The largest inputs of each nasty kind end at once and in an error. */
TEST(size_and_depth_are_bounded)
{
    static const char *const units[] = {"[",   "{a: ", "train: {", "- ",  "? ",  "#",  "&a ",
                                        "*a ", "'",    "a",        "a: ", "-\n", "\n", "a,"};
    const size_t limit = 256u << 10;
    char *text = malloc(limit + 2);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        struct rp_recipe r;
        struct rp_err err;
        size_t n = strlen(units[u]), size = limit / n * n;
        for (size_t i = 0; i < size; i += n)
            memcpy(text + i, units[u], n);
        clock_t start = clock();
        CHECK(rp_recipe_parse(&r, text, size, "t.yaml", NULL, NULL, 0, &err) < 0, "'%s' repeated was accepted",
              units[u]);
        CHECK(clock() - start < 2 * CLOCKS_PER_SEC, "'%s' repeated took more than 2 s", units[u]);
    }
    memset(text, '#', limit + 1);
    memcpy(text + limit - 9, "\ntitle: a", 9);
    struct rp_recipe r;
    struct rp_err err;
    CHECK(rp_recipe_parse(&r, text, limit, "t.yaml", NULL, NULL, 0, &err) == 0, "256 KiB are allowed: %s", err.msg);
    rp_recipe_fini(&r);
    CHECK(rp_recipe_parse(&r, text, limit + 1, "t.yaml", NULL, NULL, 0, &err) < 0 && err.code == RP_MALFORMED,
          "one byte more is not");
    free(text);
}

TEST(keys_must_agree)
{
#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    static const struct refusal cases[] = {
        {"model:\n  hidden_size: 100\n  num_attention_heads: 3\n", RP_USAGE},
        {"model:\n  hidden_size: 100\n", RP_USAGE},
        {"model.max_position_embeddings: 64\ntask.seq_length: 65\n", RP_USAGE},
        {"task: {seq_length: 16, max_predictions_per_seq: 17}\n", RP_USAGE},
        {"data:\n  archive: a.tar\n", RP_USAGE},
        {"data:\n  sha256: " SHA "\n", RP_USAGE},
        {"data:\n  archive: a.tar\n  sha256: 0123\n", RP_USAGE},
        {"data:\n  archive: a.tar\n  sha256: abcd\n", RP_USAGE},
        {"data:\n  archive: ../a.tar\n  sha256: " SHA "\n", RP_USAGE},
        {"data:\n  archive: a.tar\n  path: /x\n  sha256: " SHA "\n", RP_USAGE},
        {"schedule: {warmup_steps: 11, total_steps: 10}\n", RP_USAGE},
        {"train: {batch_size: 8, accumulation_steps: 2, global_batch_size: 15}\n", RP_USAGE},
        {"train: {accumulation_steps: 8}\nbackend: {cpu: {train.accumulation_steps: 2}}\n", RP_USAGE},
        {"model: {config: bert_config.json}\n", RP_USAGE},
        {"workload: resnet50\ntask.image_size: 300\n", RP_USAGE},
        {"workload: resnet50\ndata: {crop_area_min: 0.5, crop_area_max: 0.25}\n", RP_USAGE},
        {"workload: resnet50\ndata: {crop_ratio_min: 1.5}\n", RP_USAGE},
        {"workload: resnet50\ndata: {label_base: 2}\n", RP_USAGE},
        {"workload: gpt\ndata: {flip: 0.5}\n", RP_USAGE},
        {"schedule: {decay: step}\n", RP_USAGE},
        {"workload: gpt\nschedule: {decay: step}\n", RP_USAGE},
        {"workload: resnet50\nschedule: {decay: step}\n", RP_USAGE},
        {"train: {tensor_core: tc16}\n", RP_USAGE},
        {"train: {precision: bf16, tensor_core: tc4}\n", RP_USAGE},
        {"train: {precision: bf16, loss_scale: dynamic}\n", RP_USAGE},
        {"train: {precision: bf16}\noptimizer: {on_overflow: advance}\n", RP_USAGE},
        {"train: {precision: fp16, loss_scale_initial: 3}\n", RP_USAGE},
        {"train: {precision: fp16, loss_scale_minimum: 3}\n", RP_USAGE},
        {"train: {precision: fp16, loss_scale_initial: 2, loss_scale_minimum: 4}\n", RP_USAGE},
        {"train: {precision: fp16, loss_scale: none, loss_scale_initial: 8}\n", RP_USAGE},
        {"train: {precision: fp16, loss_scale: fixed, loss_scale_window: 8}\n", RP_USAGE},
        {"train: {precision: fp16, loss_scale: fixed}\noptimizer: {on_overflow: hold}\n", RP_USAGE},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
}

/* The dynamic scale of a recipe can be taken out by an option, and its keys stay without effect. */
TEST(an_option_takes_the_loss_scale_out_of_a_recipe)
{
    static const char text[] = "train: {precision: fp16, loss_scale_initial: 8, loss_scale_window: 2}\n";
    static const struct {
        const char *set[2];
        int n, is_refused;
    } cases[] = {{{"train.loss_scale=none"}, 1, 0},
                 {{"train.loss_scale=fixed"}, 1, 0},
                 {{"train.loss_scale=fixed", "train.loss_scale_initial=16"}, 2, 0},
                 {{"train.loss_scale=fixed", "train.loss_scale_hysteresis=2"}, 2, 1},
                 {{"train.loss_scale=none", "train.loss_scale_initial=16"}, 2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_recipe r;
        struct rp_err err;
        const int failed =
            rp_recipe_parse(&r, text, strlen(text), "t.yaml", NULL, cases[i].set, cases[i].n, &err) < 0;
        CHECK(failed == cases[i].is_refused && (!failed || err.code == RP_USAGE), "case %zu: %s", i,
              failed ? err.msg : "allowed");
        if (!failed)
            rp_recipe_fini(&r);
    }
}

/* A recipe has the keys of its model and no others, wherever it says which that is. */
TEST(keys_of_another_model_are_refused)
{
    static const struct refusal cases[] = {
        {"workload: gpt\nmodel:\n  type_vocab_size: 2\n", RP_USAGE},
        {"model:\n  type_vocab_size: 2\nworkload: gpt\n", RP_USAGE},
        {"task.seq_length: 8\nworkload: resnet50\n", RP_USAGE},
        {"workload: gpt\ndata.token_bytes: 3\n", RP_USAGE},
        {"workload: gpt\ndata: {format: tokens, split: '9,1'}\n", RP_USAGE},
        {"workload: gpt\ndata: {format: llmc, order: megatron}\n", RP_USAGE},
        {"workload: gpt\ndata: {format: megatron, order: megatron, shuffle: false}\n", RP_USAGE},
        {"workload: gpt\nseed.data: 4294967296\ndata: {format: megatron, order: megatron}\n", RP_USAGE},
        {"workload: gtp\n", RP_USAGE},
        {"workload: gpt\nmodel: {hidden_size: 100}\n", RP_USAGE},
        {"workload: gpt\nbackend: {cpu: {model.type_vocab_size: 2}}\n", RP_USAGE},
    };
    static const struct set_refusal told[] = {
        {{"workload: gpt\n", RP_USAGE}, {"model.type_vocab_size=3"}},
        {{"model:\n  type_vocab_size: 2\n", RP_USAGE}, {"workload=gpt"}},
        {{"title: a\n", RP_USAGE}, {"task.seq_length=3", "workload=resnet50"}},
        {{"title: a\n", RP_USAGE}, {"workload=gtp"}},
        {{"title: a\n", RP_USAGE}, {"workload=gpt", "workload=gpt"}},
    };
    struct rp_recipe r;
    struct rp_err err;
    check_refusals(cases, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        check_refusal(&told[i].is, told[i].set);
    static const char *const to_bert[] = {"workload=bert", "model.type_vocab_size=3"};
    CHECK(rp_recipe_parse(&r, "workload: resnet50\n", 19, "t.yaml", NULL, to_bert, 2, &err) == 0, "%s", err.msg);
    CHECK(r.workload == RP_MODEL_bert && r.model_type_vocab_size == 3, "the command line decides");
    rp_recipe_fini(&r);
}

/* Every row, for every model: in the resolved form and settable exactly where the table says so. */
TEST(each_model_has_its_keys)
{
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int m = 0; m < RP_MODEL_COUNT; m++) {
        struct rp_recipe r;
        struct rp_err err;
        RP_FREE char *text = rp_asprintf("workload: %s\n", rp_choice_name(RP_MODELS, m));
        CHECK(parse(&r, text, NULL, &err) == 0, "%s", err.msg);
        RP_JSON *j = rp_recipe_to_json(&r);
        CHECK(!json_object_get(j, "run.overlap_kib"), "a key that older programs do not know, although nothing set it");
        rp_recipe_complete(j);
        int here = 0;
        for (int i = 0; i < n; i++) {
            int has = (k[i].models >> m & 1u) != 0;
            here += has;
            CHECK(has == (json_object_get(j, k[i].name) != NULL), "%s: %s", text, k[i].name);
            if (i > 2 && strncmp(k[i].name, "data.", 5) != 0)
                CHECK(has == (rp_recipe_set(&r, k[i].name, k[i].def, RP_FROM_COMMAND_LINE, &err) == 0), "%s: %s", text,
                      k[i].name);
        }
        CHECK((int)json_object_size(j) == here && here < n, "%s: %d of %d keys", text, here, n);
        rp_recipe_fini(&r);
    }
}

TEST(a_backend_section_only_shortens)
{
    static const struct refusal cases[] = {
        {"backend: {cpu: {optimizer.learning_rate: 1}}\n", RP_USAGE},
        {"backend: {cpu: {train: {batch_size: 1}}}\n", RP_USAGE},
        {"backend: {cpu: {measure.estimator: median}}\n", RP_USAGE},
        {"backend: {gpu: {measure.repeats: 1}}\n", RP_USAGE},
        {"backend: {auto: {measure.repeats: 1}}\n", RP_USAGE},
        {"backend: {cpu: {measure.repeat: 1}}\n", RP_USAGE},
        {"backend: {cpu: {measure: {repeats: 3}}}\nmeasure: {repeats: 2}\n", RP_USAGE},
        {"backend: {cpu: {measure.repeats: 1, measure: {repeats: 1}}}\n", RP_USAGE},
        {"backend: 3\n", RP_USAGE},
        {"backend: {cpu: 3}\n", RP_USAGE},
    };
    static const char text[] = "backend:\n  cpu:\n    train.accumulation_steps: 2\n    measure:\n      timed_steps: 4\n"
                               "train: {batch_size: 4, accumulation_steps: 16, global_batch_size: 64}\nmeasure: "
                               "{timed_steps: 100, repeats: 7}\n";
    struct rp_recipe r;
    struct rp_err err;
    check_refusals(cases, sizeof cases / sizeof *cases);
    CHECK(parse(&r, text, "cpu", &err) == 0, "%s", err.msg);
    CHECK(r.train_accumulation_steps == 2 && r.measure_timed_steps == 4 && r.measure_repeats == 7 &&
              r.train_global_batch_size == 64,
          "%lld %lld", (long long)r.train_accumulation_steps, (long long)r.measure_timed_steps);
    rp_recipe_fini(&r);
    CHECK(parse(&r, text, NULL, &err) == 0, "%s", err.msg);
    CHECK(r.train_accumulation_steps == 16 && r.measure_timed_steps == 100, "the section applied without its backend");
    rp_recipe_fini(&r);
}

TEST(origins_and_the_command_line)
{
    static const char text[] = "train: {batch_size: 4}\nmeasure: {timed_steps: 9}\nbackend: {cpu: "
                               "{measure.timed_steps: 5, measure.warmup_steps: 0}}\n"
                               "data: {archive: a.tar, sha256: " SHA "}\n";
    static const char *const set[] = {"measure.warmup_steps=3", "train.batch_size=max", "data.path=/my own/data",
                                      "optimizer.exclude_from_weight_decay=bias"};
    struct rp_recipe r;
    struct rp_err err;
    CHECK(rp_recipe_parse(&r, text, strlen(text), "t.yaml", "cpu", set, 4, &err) == 0, "%s", err.msg);
    RP_JSON *j = rp_recipe_to_json(&r);
    CHECK(r.train_batch_size == RP_BATCH_MAX && r.measure_warmup_steps == 3 && r.measure_timed_steps == 5, "values");
    CHECK_STR(origin(j, "train.batch_size"), "command line");
    CHECK_STR(origin(j, "measure.timed_steps"), "backend section");
    CHECK_STR(origin(j, "measure.warmup_steps"), "command line");
    CHECK_STR(origin(j, "seed.init"), "default");
    CHECK(r.data_path && !r.data_archive && !r.data_sha256, "the user's own data takes the archive's place");
    CHECK(strcmp(r.optimizer_exclude, "bias") == 0, "%s", r.optimizer_exclude);
    CHECK(strlen(r.sha256) == 64 && r.source.size == strlen(text) && memcmp(r.source.data, text, r.source.size) == 0,
          "exact bytes");
    rp_recipe_fini(&r);

#define REST text, RP_USAGE
    static const struct set_refusal bad[] = {
        {{REST}, {"train.batch_size=8", "train.batch_size=8"}},
        {{REST}, {"train.batch_size"}},
        {{REST}, {"=8"}},
        {{REST}, {"train.batch_siz=8"}},
        {{REST}, {"model.num_attention_heads=7"}},
        {{REST}, {"data.path=/x", "data.archive=y"}},
        {{REST}, {"title=\x1b[2J\xff"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_refusal(&bad[i].is, bad[i].set);
}

TEST(numbers_are_exact)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"1e-4", 1e-4}, {"+.5", .5}, {"5.", 5.}, {"1.25e-5", 1.25e-5}, {"0.1", 0.1}, {"1E+0", 1}, {"0", 0},
                 {"0.30000000000000004", 0.1 + 0.2},
                 {"4.9406564584124654e-324", 4.9406564584124654e-324}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_recipe r;
        struct rp_err err;
        char text[100];
        snprintf(text, sizeof text, "optimizer: {learning_rate: %s}\n", cases[i].text);
        CHECK(parse(&r, text, NULL, &err) == 0, "%s: %s", cases[i].text, err.msg);
        CHECK(r.optimizer_learning_rate == cases[i].value, "%s: %.17g", cases[i].text, r.optimizer_learning_rate);
        rp_recipe_fini(&r);
    }
}

/* A value that is not the default, for every key of the table, through text, JSON bytes and back. */
static void other_value(const struct rp_key *k, char *out, size_t size)
{
    const char *bar;
    switch (k->type) {
    case 'I':
        snprintf(out, size, "%.0f", k->lo == k->hi ? k->lo : k->lo + 1 == atof(k->def) ? k->lo + 2 : k->lo + 1);
        break;
    case 'F':
        snprintf(out, size, "%.17g", k->lo + (k->hi - k->lo) / 3);
        break;
    case 'B':
        snprintf(out, size, "%s", strcmp(k->def, "true") == 0 ? "false" : "true");
        break;
    case 'C':
        bar = strrchr(k->choices, '|');
        snprintf(out, size, "%s", bar ? bar + 1 : k->choices);
        break;
    case 'L':
        snprintf(out, size, "a,b.c,d_e");
        break;
    default:
        snprintf(out, size, "caf\xc3\xa9 \"x\" \\ %s", k->name);
    }
}

TEST(every_key_survives_json)
{
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++) {
        static const char base[] =
            "model: {hidden_size: 64, num_attention_heads: 1}\ntask: {seq_length: 2, max_predictions_per_seq: 1}\n";
        char value[300], set0[400];
        struct rp_recipe r;
        struct rp_err err;
        if (strncmp(k[i].name, "data.", 5) == 0 || strcmp(k[i].name, "model.config") == 0)
            continue; /* tied to each other: below */
        if (strcmp(k[i].name, "workload") == 0 || !(k[i].models >> RP_MODEL_bert & 1u) ||
            strcmp(k[i].name, "parallel.tensor") == 0 || strcmp(k[i].name, "parallel.pipeline") == 0)
            continue; /* the base has keys of bert, which is not divided: each_model_has_its_keys */
        other_value(&k[i], value, sizeof value);
        if (strcmp(k[i].name, "run.device") == 0)
            snprintf(value, sizeof value, "7"); /* no free text */
        if (strcmp(k[i].name, "optimizer.name") == 0)
            snprintf(value, sizeof value, "lamb"); /* others are those of resnet50 */
        if (strcmp(k[i].name, "schedule.decay") == 0)
            snprintf(value, sizeof value, "cosine"); /* step, too */
        if (strncmp(k[i].name, "train.loss_scale_", 17) == 0 && k[i].type == 'F')
            snprintf(value, sizeof value, "%s", strstr(k[i].name, "minimum") ? "2" : "4096"); /* powers of two */
        snprintf(set0, sizeof set0, "%s=%s", k[i].name, value);
        const char *const set[] = {set0, "train.precision=fp16"};
        const int is_mixed = strncmp(k[i].name, "train.loss_scale", 16) == 0 ||
                             strcmp(k[i].name, "train.tensor_core") == 0 ||
                             strcmp(k[i].name, "optimizer.on_overflow") == 0; /* refused in strict fp32 */
        CHECK(rp_recipe_parse(&r, base, strlen(base), "t.yaml", "cpu", set, 1 + is_mixed, &err) == 0, "%s: %s", set0,
              err.msg);
        RP_JSON *j = rp_recipe_to_json(&r);
        CHECK(strcmp(origin(j, k[i].name), "command line") == 0, "%s", k[i].name);
        round_trip(&r, set0);
        rp_recipe_fini(&r);
    }
    struct rp_recipe r;
    struct rp_err err;
    CHECK(parse(&r, "train: {batch_size: max}\ndata: {archive: a.tar.zst, sha256: " SHA ", shuffle: false}\n", NULL,
                &err) == 0,
          "%s", err.msg);
    round_trip(&r, "max and data");
    rp_recipe_fini(&r);
}

TEST(json_is_checked_like_a_recipe)
{
    static const char *const cases[] = {
        "[]",
        "{\"train.batch_siz\": {\"value\": 1, \"origin\": \"recipe\"}}",
        "{\"train.batch_size\": {\"value\": 1}}",
        "{\"train.batch_size\": 1}",
        "{\"train.batch_size\": {\"value\": 1, \"origin\": \"thin air\"}}",
        "{\"train.batch_size\": {\"value\": 1.0, \"origin\": \"recipe\"}}",
        "{\"train.batch_size\": {\"value\": 0, \"origin\": \"recipe\"}}",
        "{\"train.batch_size\": {\"value\": null, \"origin\": \"recipe\"}}",
        "{\"optimizer.name\": {\"value\": \"sgdx\", \"origin\": \"recipe\"}}",
        "{\"optimizer.exclude_from_weight_decay\": {\"value\": [\"a,b\"], \"origin\": \"recipe\"}}",
        "{\"optimizer.bias_correction\": {\"value\": 1, \"origin\": \"recipe\"}}",
        "{\"optimizer.learning_rate\": {\"value\": 11, \"origin\": \"recipe\"}}",
        "{}",
        "{\"workload\": {\"value\": \"gpt3\", \"origin\": \"recipe\"}}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_recipe r;
        struct rp_err err;
        RP_JSON *j = json_loads(cases[i], 0, NULL);
        REFUSED(rp_recipe_from_json(&r, j, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    }
}

/* Exactly the keys of the model: none may be missing, none may be another model's. */
TEST(json_has_the_keys_of_its_model)
{
    struct rp_recipe r, again;
    struct rp_err err;
    int n;
    const struct rp_key *k = rp_key_table(&n);
    CHECK(parse(&r, "workload: gpt\n", NULL, &err) == 0, "%s", err.msg);
    round_trip(&r, "gpt");
    RP_JSON *j = rp_recipe_to_json(&r);
    for (int i = 0; i < n; i++) {
        json_t *entry = json_incref(json_object_get(j, k[i].name));
        if (!entry)
            continue;
        json_object_del(j, k[i].name);
        int rc = rp_recipe_from_json(&again, j, &err);
        CHECK(rc < 0 && err.code == RP_MALFORMED, "accepted without %s", k[i].name);
        CHECK(strcmp(k[i].name, "workload") == 0 || strstr(err.msg, k[i].name), "%s", err.msg);
        json_object_set_new(j, k[i].name, entry);
    }
    json_object_set_new(j, "model.type_vocab_size", json_pack("{s:i, s:s}", "value", 2, "origin", "default"));
    REFUSED(rp_recipe_from_json(&again, j, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    json_object_del(j, "model.type_vocab_size");
    json_object_set_new(json_object_get(j, "model.hidden_size"), "value", json_integer(100));
    REFUSED(rp_recipe_from_json(&again, j, &err) < 0, err.msg);
    rp_recipe_fini(&r);
}
