/* Attacks on runs in mixed precision: their loss scales, the steps whose gradient overflowed, and the arithmetic that a
 * device cannot have. */
#include "tests/unit/attack.h"

#include "optim/loss_scale.h"
#include "optim/optim.h"
#include "train/state.h"

#define STEPS "steps/rank0.jsonl"
#define FACTS "facts.json"
#define RUN "run.json"
#define ROOT_OF_WEIGHTS "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Steps 0 and 2 overflow; the scale grows after two steps without: 16, 15, 15, 14, 14, 15, 15 as powers of two. */
static const int overflows[7] = {1, 0, 1, 0, 0, 0, 0};
static const int all_overflow[7] = {1, 1, 1, 1, 1, 1, 1};

static const char of_text[] = "title: tiny\n"
                              "model: {vocab_size: 256, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
                              "intermediate_size: 32, max_position_embeddings: 32}\n"
                              "task: {seq_length: 16, max_predictions_per_seq: 2}\n"
                              "train: {batch_size: 4, precision: fp16, tensor_core: tc8, loss_scale_window: 2}\n"
                              "schedule: {warmup_steps: 100}\n"
                              "data: {archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
                              "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";
static const char of_images[] = "workload: resnet50\n"
                                "title: tiny\n"
                                "model: {width: 4, blocks: '1,1,1,1', num_classes: 10}\n"
                                "task: {image_size: 32}\n"
                                "train: {batch_size: 4, precision: fp16, tensor_core: tc8}\n"
                                "data: {format: imagenet_tfrecord, archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
                                "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";

/* What a record has of the model. */
static const struct {
    const char *counters, *loss;
} words[] = {{"\"counters\":{\"padded_tokens\":64,\"tokens\":50}",
              "\"loss\":\"0x1.9p+2\",\"loss_parts\":{\"mlm\":\"0x1.9p+2\",\"nsp\":\"0x0p+0\"}"},
             {"\"counters\":{\"correct\":1,\"images\":4}",
              "\"loss\":\"0x1.28p+1\",\"loss_parts\":{\"cross_entropy\":\"0x1.28p+1\",\"weight_decay\":\"0x0p+0\"}"}};

static double rate_of(const struct fx *x, int64_t scheduled)
{
    const struct rp_optim o = rp_schedule_of(&x->recipe);
    return rp_learning_rate(&o, scheduled);
}

/* Seven steps of which some overflow, as the rule has it; every step has a state root where `every`, else the last. */
static void put_steps(struct fx *x, const int *overflow, int every, const char *first_root, const char *last_root)
{
    const struct rp_loss_scale_rule rule = rp_loss_scale_rule_of(&x->recipe);
    struct rp_loss_scale s = rp_loss_scale_begin(&rule);
    const int images = strcmp(rp_model_of(&x->recipe)->name, "resnet50") == 0;
    int64_t now = 5000000000;
    rp_buf_fini(&x->steps);
    rp_buf_printf(&x->steps, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"%s\",\"step\":-1}\n",
                  first_root);
    for (int i = 0; i < 7; i++) {
        const int64_t ns = 100000000 + 1000003 * ((i % 7) * (i % 7) % 7);
        const int root = every || i == 6;
        char norm[16], own[96] = "";
        snprintf(norm, sizeof norm, overflow[i] ? "inf" : "0x1.%dp+1", i + 1);
        if (root)
            snprintf(own, sizeof own, "\"state_root\":\"%.64s\",", last_root);
        rp_buf_printf(
            &x->steps,
            "{%s,\"end_ns\":%lld,\"grad_norm\":\"%s\",\"input_ns\":0,\"learning_rate\":%.17g,%s,\"loss_scale\":\"%a\","
            "\"overflow\":%d,\"phase\":\"%s\",\"rank\":0,\"repeat\":%d,%s\"samples\":4,\"start_ns\":%lld,%s\"step\":%d}"
            "\n",
            words[images].counters, (long long)(now + ns), norm, rate_of(x, rp_loss_scale_scheduled(&s, &rule, i + 1)),
            words[images].loss, (double)s.scale, overflow[i], i ? "timed" : "warm-up", i ? (i - 1) / 3 : 0,
            root ? "\"root_ns\":500000," : "", (long long)now, own, i);
        rp_loss_scale_next(&s, &rule, overflow[i]);
        now += ns + 1000000;
    }
}

static void take_recipe(struct fx *x, const char *recipe, size_t size, const char *const *set, int n)
{
    struct rp_err err = {0};
    rp_recipe_fini(&x->recipe);
    CHECK(rp_recipe_parse(&x->recipe, recipe, size, "tiny.yaml", "cpu", set, n, &err) == 0, "%s", err.msg);
}

/* An honest run with settings of a command line. */
static void make_with(struct fx *x, const char *const *set, int n)
{
    take_recipe(x, of_text, sizeof of_text - 1, set, n);
    put_steps(x, overflows, 0, FX_ROOT, FX_ROOT);
    fx_compute(x);
}

static void make(struct fx *x)
{
    make_with(x, NULL, 0);
}

/* ---- honest runs ---- */

TEST(honest_run_that_skips_two_steps_verifies)
{
    static const char *const scales[7] = {"0x1p+16", "0x1p+15", "0x1p+15", "0x1p+14", "0x1p+14", "0x1p+15", "0x1p+15"};
    char text[RP_PRECISION_TEXT];
    FX(x);
    make(&x);
    const char *at = x.steps.data;
    for (int i = 0; i < 7; i++) { /* by hand, not by the rule */
        at = strstr(at + 1, "\"loss_scale\":");
        CHECK(at && strncmp(at + 14, scales[i], strlen(scales[i])) == 0, "step %d: %.24s", i, at ? at : "");
    }
    const struct rp_results *r = &x.doc->figures.results;
    CHECK(r->loss_scaling && r->loss_scaling->initial == 65536 && r->loss_scaling->final == 32768, "scales");
    CHECK(r->loss_scaling->skipped == 2 && r->loss_scaling->skipped_timed == 1 &&
              r->loss_scaling->skipped_share == 1.0 / 6,
          "skipped");
    CHECK(r->grad_norm_first == 0x1.2p+1f && r->grad_norm_last == 0x1.7p+1f, "norms of steps that overflowed");
    CHECK_STR(rp_figures_precision(text, &x.doc->figures),
              "fp16, tc8, loss scale 65536 to 32768, 2 steps skipped (1 of 6 timed ones)");
    accepted(&x);
}

TEST(honest_runs_of_other_settings_verify)
{
    static const char *const sets[][3] = {
        {"optimizer.on_overflow=advance", "", ""},
        {"train.loss_scale_hysteresis=2", "train.tensor_core=tc16", ""},
        {"train.loss_scale_growth_form=always", "train.loss_scale_minimum=16384", "train.tensor_core=tc4"},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        FX(x);
        make_with(&x, sets[i], sets[i][1][0] ? sets[i][2][0] ? 3 : 2 : 1);
        accepted(&x);
    }
}

/* bf16 and fp16 without a scale have no such keys, and strict fp32 has no such figures. */
TEST(runs_without_a_loss_scale_have_no_keys_of_it)
{
    FX(fp32);
    CHECK(!strstr(fp32.steps.data, "loss_scale") &&
              !json_object_get(json_object_get(fp32.run, "results"), "loss_scaling"),
          "keys in fp32");
    char text[RP_PRECISION_TEXT];
    CHECK_STR(rp_figures_precision(text, &fp32.doc->figures), "");
    static const char *const sets[][2] = {{"train.precision=bf16", "bf16, tc8"},
                                          {"train.loss_scale=none", "fp16, tc8"}};
    for (size_t i = 0; i < 2; i++) {
        FX(x);
        const char *const set[] = {sets[i][0]};
        RP_FREE char *recipe = rp_strdup(of_text);
        char *window = strstr(recipe, ", loss_scale_window: 2");
        if (i == 0)
            memset(window, ' ', strlen(", loss_scale_window: 2"));
        take_recipe(&x, recipe, strlen(recipe), set, 1);
        put_steps(&x, (const int[7]){0}, 0, FX_ROOT, FX_ROOT);
        while (strstr(x.steps.data, "\"loss_scale\":\"0x1p+0\",\"overflow\":0,"))
            fx_bend(&x.steps, "\"loss_scale\":\"0x1p+0\",\"overflow\":0,", "");
        fx_compute(&x);
        CHECK(!json_object_get(json_object_get(x.run, "results"), "loss_scaling"), "figures of a scale");
        CHECK_STR(rp_figures_precision(text, &x.doc->figures), sets[i][1]);
        accepted(&x);
    }
}

/* ---- records and figures ---- */

#define SCALE(scale, overflow) "\"loss_scale\":\"" scale "\",\"overflow\":" overflow

static const struct bend attacks[] = {
    {"a smaller scale of one step", STEPS, SCALE("0x1p+14", "0"), SCALE("0x1p+13", "0"), SEALED, RP_CHECK_numbers, 5},
    {"a larger first scale than the recipe's", STEPS, SCALE("0x1p+16", "1"), SCALE("0x1p+17", "1"), SEALED,
     RP_CHECK_numbers, 5},
    {"a scale that is not a power of two", STEPS, SCALE("0x1p+15", "0"), SCALE("0x1.8p+15", "0"), SEALED,
     RP_CHECK_schema, 5},
    {"a scale of nothing", STEPS, SCALE("0x1p+15", "0"), SCALE("0x0p+0", "0"), SEALED, RP_CHECK_schema, 5},
    {"a negative scale", STEPS, SCALE("0x1p+15", "0"), SCALE("-0x1p+15", "0"), SEALED, RP_CHECK_schema, 5},
    {"a record without overflow", STEPS, ",\"overflow\":0", "", SEALED, RP_CHECK_schema, 4},
    {"a record without a scale", STEPS, "\"loss_scale\":\"0x1p+15\",", "", SEALED, RP_CHECK_schema, 4},
    {"a record with neither", STEPS, SCALE("0x1p+15", "0") ",", "", SEALED, RP_CHECK_numbers, 5},
    {"an overflow of 2", STEPS, SCALE("0x1p+16", "1"), SCALE("0x1p+16", "2"), SEALED, RP_CHECK_schema, 4},
    {"an overflow with a finite norm", STEPS, SCALE("0x1p+15", "0"), SCALE("0x1p+15", "1"), SEALED, RP_CHECK_schema, 5},
    {"an infinite norm without an overflow", STEPS, SCALE("0x1p+16", "1"), SCALE("0x1p+16", "0"), SEALED,
     RP_CHECK_schema, 5},
    {"a norm that is not a number", STEPS, "\"grad_norm\":\"inf\"", "\"grad_norm\":\"nan\"", SEALED, RP_CHECK_schema,
     5},
    {"an infinite norm below zero", STEPS, "\"grad_norm\":\"inf\"", "\"grad_norm\":\"-inf\"", SEALED, RP_CHECK_schema,
     5},
    {"another final scale", RUN, "/results/loss_scaling/final", "{\"hex\": \"0x1p+16\", \"value\": 65536.0}", SEALED,
     RP_CHECK_numbers, 5},
    {"another initial scale", RUN, "/results/loss_scaling/initial", "{\"hex\": \"0x1p+15\", \"value\": 32768.0}",
     SEALED, RP_CHECK_numbers, 5},
    {"a step less skipped", RUN, "/results/loss_scaling/skipped", "1", SEALED, RP_CHECK_numbers, 5},
    {"no timed step skipped", RUN, "/results/loss_scaling/skipped_timed", "0", SEALED, RP_CHECK_numbers, 5},
    {"a smaller share of skipped steps", RUN, "/results/loss_scaling/skipped_share", "0.0", SEALED, RP_CHECK_numbers,
     5},
    {"no figures of the scale", RUN, "/results/loss_scaling", NULL, SEALED, RP_CHECK_numbers, 5},
    {"the arithmetic of another tensor core", RUN, "/numerics", "\"repro-fp16-tc16/0\"", SEALED, RP_CHECK_recipe, 5},
    {"strict fp32 claimed", RUN, "/numerics", "\"repro-fp32/1\"", SEALED, RP_CHECK_recipe, 5},
    {"another tensor core in the settings", FACTS, "/recipe/train.tensor_core/value", "\"tc16\"", SEALED,
     RP_CHECK_recipe, 5},
    {"another window in the settings", FACTS, "/recipe/train.loss_scale_window/value", "3", SEALED, RP_CHECK_recipe, 5},
    {"a state of the scale of a run that begins", FACTS, "/init",
     "{\"optimizer_state\": true, \"steps\": 5, \"class\": null, \"loss_scale\": {\"scale\": {\"hex\": \"0x1p+16\", "
     "\"value\": 65536.0}, \"good\": 0, \"bad\": 0, \"at_minimum\": 0, \"skipped\": 5}}",
     SEALED, RP_CHECK_numbers, 5},
};

TEST(attacks_on_loss_scales)
{
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        FX(x);
        make(&x);
        attack_on(&x, &attacks[i]);
    }
}

static const struct bend of_fp32[] = {
    {"a loss scale in strict fp32", STEPS, "\"phase\":\"timed\"", SCALE("0x1p+16", "0") ",\"phase\":\"timed\"", SEALED,
     RP_CHECK_numbers, 5},
    {"an overflow in strict fp32", STEPS, "\"grad_norm\":\"0x1.3p+1\"", "\"grad_norm\":\"inf\"", SEALED,
     RP_CHECK_schema, 5},
    {"figures of a loss scale in strict fp32", RUN, "/results/loss_scaling",
     "{\"final\": {\"hex\": \"0x1p+16\", \"value\": 65536.0}, \"initial\": {\"hex\": \"0x1p+16\", \"value\": 65536.0}, "
     "\"skipped\": 0, \"skipped_share\": 0.0, \"skipped_timed\": 0}",
     SEALED, RP_CHECK_numbers, 5},
    {"fp16 claimed of strict fp32", RUN, "/numerics", "\"repro-fp16-tc16/0\"", SEALED, RP_CHECK_recipe, 5},
};

TEST(attacks_with_loss_scales_on_strict_fp32)
{
    ATTACKS(of_fp32);
}

/* ---- several changes that hide each other ---- */

struct changes {
    const char *name, *member;
    const char *text[4][2]; /* what it was, what it is */
    enum rp_check_id check;
    int status;
};

static void attack_with(struct fx *x, const struct changes *c)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_FREE char *path = fx_path("attack");
    FX_KEY *key = fx_key("attacker");
    fx_seal(x, "attacker", "attack");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 4 && c->text[i][0]; i++)
        fx_bend(attack_bytes(&b, c->member), c->text[i][0], c->text[i][1]);
    attack_seal(&b, x->facts, x->run, &(struct bend){.name = c->name, .member = c->member, .check = c->check}, key);
    attack_pack(&b);
    rp_bundle_fini(&b);
    attack_expect(c->name, NULL, c->check, c->status);
}

/* A run that goes on from a file with a loss scale, in which both forms of the scale are there. */
TEST(a_scale_of_a_file_in_two_forms)
{
    static const char *const from[] = {"run.init=theirs.safetensors"};
    for (int wrong = 0; wrong < 2; wrong++) {
        FX(x);
        make_with(&x, from, 1);
        json_object_set_new(x.facts, "init",
                            json_pack("{s:b, s:i, s:n, s:[], s:[s], s:[], s:[], s:{s:{s:s, s:f}, s:i, s:i, s:i, s:i}}",
                                      "optimizer_state", 1, "steps", 0, "class", "initialised", "types", "F32",
                                      "config_ignored", "config_unknown", "loss_scale", "scale", "hex", "0x1p+16",
                                      "value", 65536.0, "good", 0, "bad", 0, "at_minimum", 0, "skipped", 0));
        fx_derive(&x);
        if (wrong)
            set_path(x.facts, "init/loss_scale/scale/value", json_real(1.0));
        if (wrong)
            refused(&x, RP_CHECK_data, RP_MISMATCH);
        else
            accepted(&x);
    }
}

static const struct changes hidden[] = {
    {"a skip hidden behind a norm that was invented",
     STEPS,
     {{"\"grad_norm\":\"inf\"", "\"grad_norm\":\"0x1.1p+1\""}, {SCALE("0x1p+16", "1"), SCALE("0x1p+16", "0")}},
     RP_CHECK_numbers,
     5},
    {"a step that was skipped on paper alone",
     STEPS,
     {{"\"grad_norm\":\"0x1.4p+1\"", "\"grad_norm\":\"inf\""}, {SCALE("0x1p+14", "0"), SCALE("0x1p+14", "1")}},
     RP_CHECK_numbers,
     5},
};

TEST(attacks_that_hide_or_invent_a_skip)
{
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        FX(x);
        make(&x);
        attack_with(&x, &hidden[i]);
    }
}

/* With optimizer.on_overflow hold the schedule stands still in a step that is skipped. */
TEST(a_skipped_step_counted_by_the_schedule)
{
    char was[64], is[64];
    FX(x);
    make(&x);
    snprintf(was, sizeof was, "\"learning_rate\":%.17g", rate_of(&x, 5 - 2)); /* of step 4, after two skips */
    snprintf(is, sizeof is, "\"learning_rate\":%.17g", rate_of(&x, 5));
    fx_bend(&x.steps, was, was); /* it is there */
    attack_with(&x,
                &(struct changes){"a skipped step counted by the schedule", STEPS, {{was, is}}, RP_CHECK_numbers, 5});
}

/* ---- ranks, roots, devices ---- */

TEST(another_overflow_on_another_rank)
{
    const char *const set[] = {"train.accumulation_steps=2"};
    const struct changes c = {
        "an overflow that one of two ranks did not have",
        "steps/rank1.jsonl",
        {{"\"grad_norm\":\"inf\"", "\"grad_norm\":\"0x1.1p+1\""}, {SCALE("0x1p+16", "1"), SCALE("0x1p+16", "0")}},
        RP_CHECK_schema,
        5};
    const struct changes d = {"a scale that one of two ranks did not have",
                              "steps/rank1.jsonl",
                              {{SCALE("0x1p+14", "0"), SCALE("0x1p+13", "0")}},
                              RP_CHECK_schema,
                              5};
    const struct changes *const both[] = {&c, &d};
    for (int i = 0; i < 2; i++) {
        FX(x);
        x.ranks = 2;
        make_with(&x, set, 1);
        accepted(&x);
        attack_with(&x, both[i]);
    }
}

static const struct bend roots[] = {
    {"a state that changed in a skipped step", STEPS, "\"start_ns\":5000000000,\"state_root\":\"00112233",
     "\"start_ns\":5000000000,\"state_root\":\"ff112233", COMPUTED, RP_CHECK_state_roots, 5},
};

TEST(roots_that_differ_across_a_skip)
{
    const char *const set[] = {"evidence.state_root_every=1"};
    for (int honest = 0; honest < 2; honest++) {
        FX(x);
        take_recipe(&x, of_text, sizeof of_text - 1, set, 1);
        put_steps(&x, overflows, 1, FX_ROOT, FX_ROOT);
        fx_compute(&x);
        if (honest)
            accepted(&x);
        else
            attack_on(&x, &roots[0]);
    }
}

/* The state root of a run of images moves with the running statistics; the roots of its weights do not. */
static void make_images(struct fx *x, const char *moved)
{
    struct rp_err err;
    char hex[2][RP_SHA256_HEX];
    json_t *root[2] = {json_object(), json_object()};
    take_recipe(x, of_images, sizeof of_images - 1, NULL, 0);
    struct rp_net *m = rp_net_new(&x->recipe, 1);
    const struct rp_trained s = {
        .optimizer = rp_optimizer_of(&x->recipe), .weights = &m->tensors[RP_WEIGHT], .buffers = &m->tensors[RP_BUFFER]};
    for (int i = 0; i < rp_state_entries(&s); i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, &s, i);
        const int moves = strcmp(e.name, moved) == 0;
        json_object_set_new(root[0], e.name, json_string(FX_ROOT));
        json_object_set_new(root[1], e.name, json_string(moves ? ROOT_OF_WEIGHTS : FX_ROOT));
    }
    for (int i = 0; i < 2; i++)
        CHECK(rp_train_root_of(&x->recipe, root[i], hex[i], &err) == 0, "%s", err.msg);
    rp_net_free(m);
    x->done = json_pack("{s:{s:o, s:o}}", "tensor_roots", "init", root[0], "final", root[1]);
    put_steps(x, all_overflow, 0, hex[0], hex[1]);
    fx_compute(x);
}

TEST(weights_that_move_while_every_step_is_skipped)
{
    FX(x);
    make_images(&x, "bn1.running_mean");
    accepted(&x);
    static const char *const moved[] = {"conv1.weight", "fc.bias"};
    for (int i = 0; i < 2; i++) {
        FX(y);
        make_images(&y, moved[i]);
        refused(&y, RP_CHECK_state_roots, RP_MISMATCH);
    }
}

/* A run on a GPU, of whose telemetry and times nothing is made up: only the first failure counts. */
static void on_gpu(struct fx *x, const char *tensor_core, const char *device)
{
    const char *const set[] = {tensor_core};
    x->backend = "cuda";
    x->device = device;
    make_with(x, set, 1);
}

TEST(arithmetic_that_a_device_cannot_compute)
{
    static const struct {
        const char *core, *device;
    } cases[] = {{"train.tensor_core=tc16", "gpu0 NVIDIA A100-SXM4-40GB sm_80"},
                 {"train.tensor_core=tc8", "gpu0 NVIDIA H100 PCIe sm_90"},
                 {"train.tensor_core=tc4", "gpu0 Tesla T4 sm_75"},
                 {"train.tensor_core=tc8", "gpu0 Tesla V100-SXM2-16GB sm_70"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        on_gpu(&x, cases[i].core, cases[i].device);
        fx_seal(&x, "attacker", "attack");
        attack_expect_named(cases[i].core, NULL, RP_CHECK_environment, 5, "cannot compute (train.tensor_core)");
    }
}

/* The state of one check of the sealed attack, whatever the others find. */
static enum rp_check_state state_of(enum rp_check_id id, char text[512])
{
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    struct rp_err err;
    RP_FREE char *path = fx_path("attack");
    (void)!rp_verify(&v, path, &o, &err);
    const enum rp_check_state state = v.check[id].state;
    snprintf(text, 512, "%s", v.check[id].text);
    rp_verification_fini(&v);
    return state;
}

/* An H100 PCIe has 51 TFLOP/s in fp32 and 819 with its tensor cores; a processor emulates them, and has no other
 * peak. */
TEST(the_peak_of_mixed_precision_is_that_of_tensor_cores)
{
    static const struct {
        const char *device, *core;
        int64_t ns; /* of 805 MFLOP */
        enum rp_check_state state;
    } cases[] = {{"gpu0 NVIDIA H100 PCIe sm_90", "train.tensor_core=tc16", 5000, RP_CHECK_PASSED},
                 {"gpu0 NVIDIA H100 PCIe sm_90", "train.tensor_core=tc16", 900, RP_CHECK_FAILED},
                 {"gpu0 NVIDIA H100 PCIe sm_90", NULL, 20000, RP_CHECK_PASSED},
                 {"gpu0 NVIDIA H100 PCIe sm_90", NULL, 5000, RP_CHECK_FAILED},
                 {"gpu0 NVIDIA A100-SXM4-40GB sm_80", "train.tensor_core=tc8", 2700, RP_CHECK_PASSED},
                 {"gpu0 NVIDIA A100-SXM4-40GB sm_80", "train.tensor_core=tc8", 2400, RP_CHECK_FAILED},
                 {"isa=avx2 threads=1", "train.tensor_core=tc16", 5000, RP_CHECK_FAILED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        FX(x);
        x.device = cases[i].device;
        x.backend = *x.device == 'g' ? "cuda" : "cpu";
        x.done = json_pack("{s:o}", "ceilings", fx_ceilings(cases[i].ns, cases[i].ns));
        if (cases[i].core)
            make_with(&x, &cases[i].core, 1);
        else
            fx_compute(&x);
        fx_seal(&x, "attacker", "attack");
        CHECK(state_of(RP_CHECK_peak, text) == cases[i].state, "%s, %lld ns: %s", cases[i].device,
              (long long)cases[i].ns, text);
        const int on_cores = cases[i].core && *x.device == 'g';
        CHECK(!on_cores == !strstr(text, "the tensor-core peak of "), "%s: %s", cases[i].device, text);
    }
}

static const struct proof_case {
    const char *name, *key, *value; /* of the device's "tensor_core"; "" key: the whole; NULL value: none */
    enum rp_check_state state;
    const char *names;
    int is_a100;
} proofs[] = {
    {"as it was", "edges", "0", RP_CHECK_PASSED, "", 0},
    {"some edges", "edges", "17", RP_CHECK_NOTE, "17 of 4096 sums", 0},
    {"not tested", "", "{\"outcome\": \"unproven\", \"sums_sha256\": null, \"edges\": null, \"instruction\": null}",
     RP_CHECK_WARNING, "were not tested", 0},
    {"nothing of them", "", NULL, RP_CHECK_FAILED, "is not recorded", 0},
    {"another digest", "sums_sha256", "\"" FX_ROOT "\"", RP_CHECK_FAILED, "no contract that is known here", 0},
    {"the digest of another family", "sums_sha256",
     "\"4bada579feada68b2197e9de223f5cc7f40f9604a5e60e9af9467af4e8381743\"", RP_CHECK_FAILED,
     "gave the sums of repro-bf16-tc16/0 before the run, not those of repro-fp16-tc16/0", 0},
    {"proved without a digest", "sums_sha256", "null", RP_CHECK_FAILED, "does not agree", 0},
    {"by wgmma", "instruction", "\"wgmma\"", RP_CHECK_PASSED, "", 0},
    {"by wgmma on another GPU", "instruction", "\"wgmma\"", RP_CHECK_FAILED, "capability 8.0 does not have", 1},
    {"proved by no instruction", "instruction", "null", RP_CHECK_FAILED, "does not agree", 0},
    {"unproven with a digest", "outcome", "\"unproven\"", RP_CHECK_FAILED, "does not agree", 0},
};

TEST(attacks_on_the_test_of_tensor_cores)
{
    char text[512];
    for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++) {
        const struct proof_case *r = &proofs[i];
        FX(x);
        on_gpu(&x, r->is_a100 ? "train.tensor_core=tc8" : "train.tensor_core=tc16",
               r->is_a100 ? "gpu0 NVIDIA A100-SXM4-40GB sm_80" : "gpu0 NVIDIA H100 PCIe sm_90");
        const struct rp_plan_facts *plan = &x.doc->facts.plan;
        const json_int_t reserved =
            (json_int_t)(plan->total_bytes - plan->host_bytes - plan->decoder_bytes - plan->connection_bytes);
        x.done = json_pack("{s:{s:I, s:I}}", "device_bytes", "reserved", reserved, "used", reserved);
        fx_compute(&x);
        json_t *device = (json_t *)rp_json_at(x.facts, "rank/0/device"), *core = json_object_get(device, "tensor_core"),
               *value = r->value ? json_loads(r->value, JSON_DECODE_ANY, NULL) : NULL;
        if (!value)
            json_object_del(device, "tensor_core");
        else
            json_object_set_new(*r->key ? core : device, *r->key ? r->key : "tensor_core", value);
        fx_derive(&x);
        fx_seal(&x, "attacker", "attack");
        const enum rp_check_state state = state_of(RP_CHECK_environment, text);
        CHECK(state == r->state, "%s: %d, %s", r->name, (int)state, text);
        CHECK(strstr(text, r->names), "%s: %s", r->name, text);
        if (*text)
            SAID(text);
    }
}

TEST(tensor_cores_of_a_run_that_has_no_use_for_them)
{
    char text[512];
    const char *const devices[] = {"gpu0 NVIDIA H100 PCIe sm_90", "isa=avx2 threads=1"};
    const char *const names[] = {"strict fp32, which has no use", "is not a device of the backend"};
    for (int i = 0; i < 2; i++) {
        FX(x);
        x.device = devices[i];
        x.backend = i ? "cpu" : "cuda";
        fx_compute(&x);
        json_object_set_new((json_t *)rp_json_at(x.facts, "rank/0/device"), "tensor_core",
                            json_pack("{s:s, s:s, s:i, s:s}", "outcome", "proved", "sums_sha256", FX_ROOT, "edges", 0,
                                      "instruction", "mma"));
        fx_derive(&x);
        fx_seal(&x, "attacker", "attack");
        CHECK(state_of(RP_CHECK_environment, text) == RP_CHECK_FAILED && strstr(text, names[i]), "%s", text);
    }
}

TEST(mixed_precision_on_a_gpu_with_those_tensor_cores)
{
    char text[512];
    FX(x);
    on_gpu(&x, "train.tensor_core=tc8", "gpu0 NVIDIA A100-SXM4-40GB sm_80");
    fx_seal(&x, "attacker", "attack");
    CHECK(state_of(RP_CHECK_environment, text) != RP_CHECK_FAILED || !strstr(text, "tc8"), "%s", text);
}
