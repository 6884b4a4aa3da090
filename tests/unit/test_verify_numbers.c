/* What verify says about figures, times and claims that the right key signed and that do not fit together. */
#include "tests/unit/verify_fixture.h"

#include <time.h>

/* Change a number inside run.json and make everything else consistent with the change: only the records still tell the truth. */
TEST(altered_numbers_are_caught_whoever_signs)
{
    struct fx x;
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE];
    struct rp_key_pair *k;
    fx_init(&x);
    k = fx_key("signer");
    rp_key_fingerprint(k, print);
    rp_key_free(k);
    json_t *results = json_object_get(x.run, "results");
    json_t *rate = json_object_get(results, "throughput");
    json_object_set_new(rate, "value", json_real(json_real_value(json_object_get(rate, "value")) * 2));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "altered");
    expect("altered", print, RP_VERDICT_FAILED, RP_CHECK_numbers, RP_MISMATCH, "results/throughput/value is");
    fx_seal(&x, "attacker", "attacked");
    expect("attacked", print, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE, "signed by another key");
    expect("attacked", NULL, RP_VERDICT_FAILED, RP_CHECK_numbers, RP_MISMATCH, "results/throughput/value is");
    fx_fini(&x);
}

/* Every leaf of the results, one after the other, changed and signed by the right key. */
TEST(every_single_figure_is_recomputed)
{
    struct fx x;
    fx_init(&x);
    const char *key;
    json_t *value;
    RP_JSON *keep = json_deep_copy(json_object_get(x.run, "results"));
    json_object_foreach(keep, key, value)
    {
        RP_JSON *bent = json_deep_copy(keep);
        char says[96];
        json_t *other = json_is_string(value) && strlen(json_string_value(value)) == 64
                            ? json_string("ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
                        : json_is_string(value)                  ? json_string("0x1p+0")
                        : json_is_integer(value)                 ? json_integer(json_integer_value(value) + 1)
                        : json_is_real(value)                    ? json_real(json_real_value(value) + 0.25)
                        : json_is_array(value) && json_is_real(json_array_get(value, 0)) ? json_pack("[f, f]", 1.0, 2.0)
                        : json_is_array(value)                   ? json_array()
                                                                 : NULL;
        if (other) {
            json_object_set_new(bent, key, other);
        } else { /* an object: bend its first number */
            const char *sub;
            json_t *v;
            json_object_foreach(json_object_get(bent, key), sub, v)
            {
                json_object_set_new(json_object_get(bent, key), sub,
                                    json_is_integer(v) ? json_integer(json_integer_value(v) + 1) : json_real(json_number_value(v) + 0.5));
                break;
            }
        }
        json_object_set(x.run, "results", bent);
        fx_seal(&x, "signer", "bent");
        snprintf(says, sizeof says, "results/%s", key);
        expect("bent", NULL, RP_VERDICT_FAILED, RP_CHECK_numbers, RP_MISMATCH, says);
    }
    fx_fini(&x);
}

TEST(claims_that_do_not_fit_together_are_refused)
{
    const struct {
        const char *path;
        json_t *value;
        enum rp_check_id check;
        enum rp_code code;
        const char *says;
    } bends[] = {
        {"schema", json_string("repro-run/3"), RP_CHECK_statement, RP_MALFORMED, "/schema"},
        {"numerics", json_string("fp32"), RP_CHECK_statement, RP_MALFORMED, "/numerics"},
        {"surprise", json_true(), RP_CHECK_schema, RP_MALFORMED, "surprise"},
        {"status", json_string("splendid"), RP_CHECK_statement, RP_MALFORMED, "/status"},
        {"plan/batch", json_integer(INT64_MAX), RP_CHECK_schema, RP_MALFORMED, "/plan/batch"},
        {"recipe/train.batch_size/value", json_integer(64), RP_CHECK_recipe, RP_MISMATCH, "train.batch_size/value is 64, expected 4"},
        {"recipe/train.batch_size/origin", json_string("command line"), RP_CHECK_report, RP_MISMATCH, "report.md"},
        {"recipe/train.nonsense", json_pack("{s:i, s:s}", "value", 1, "origin", "recipe"), RP_CHECK_schema, RP_MALFORMED, "train.nonsense"},
        {"recipe_sha256", json_string(FX_ROOT), RP_CHECK_recipe, RP_MISMATCH, "SHA-256"},
        {"plan/flops_per_sample", json_real(1e15), RP_CHECK_plan, RP_MISMATCH, "flops_per_sample"},
        {"plan/hardware_flops_per_sample", json_real(1e15), RP_CHECK_plan, RP_MISMATCH, "the model computes nothing again"},
        {"plan/parameters", json_integer(1), RP_CHECK_plan, RP_MISMATCH, "parameters"},
        {"plan/batch", json_integer(5), RP_CHECK_plan, RP_MISMATCH, "batch"},
        {"elapsed_s", json_real(0.5), RP_CHECK_report, RP_MISMATCH, "report.md"},
        {"tensor_roots", json_pack("{s:{}}", "init"), RP_CHECK_state_roots, RP_MISMATCH, "tensor_roots/init: there is no root for the tensor 'bert.emb"},
        {"data/archive_sha256", json_string("ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"), RP_CHECK_data, RP_MISMATCH, "pin"},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        struct fx x;
        fx_init(&x);
        set_path(x.run, bends[i].path, bends[i].value);
        fx_seal(&x, "signer", "bent");
        expect("bent", NULL, bends[i].check == RP_CHECK_COUNT ? RP_VERDICT_UNKNOWN_KEY : RP_VERDICT_FAILED, bends[i].check, bends[i].code,
               bends[i].says);
        fx_fini(&x);
    }
}

TEST(time_adds_up_or_the_run_is_refused)
{
    static const struct {
        const char *path, *value;
        double number;
        const char *says;
    } bends[] = {
        {"elapsed_s", NULL, 600, "elapsed_s is 600.000"},
        {"elapsed_s", NULL, 0.5, "elapsed_s is 0.500"},
        {"ended_at", "2026-09-21T14:13:19Z", 0, "elapsed_s"},
        {"phases_s/timed", NULL, 30, "phases add up to"},
        {"phases_s/timed", NULL, 0.5, "the phase 'timed' took 0.500 s"},
        {"started_at", "2026-08-52T14:13:20Z", 0, "does not exist"},
    };
    struct rp_err err;
    struct fx x;
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        fx_init(&x);
        set_path(x.run, bends[i].path, bends[i].value ? json_string(bends[i].value) : json_real(bends[i].number));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "late");
        expect("late", NULL, RP_VERDICT_FAILED, RP_CHECK_time, RP_MISMATCH, bends[i].says);
        fx_fini(&x);
    }
    fx_init(&x); /* a capture "before" that was made after */
    set_path(x.before, "captured_at", json_string("2026-09-21T14:20:00Z"));
    fx_seal(&x, "signer", "late");
    expect("late", NULL, RP_VERDICT_FAILED, RP_CHECK_time, RP_MISMATCH, "captures");
    fx_fini(&x);

    fx_init(&x); /* steps without any spread, honestly computed from */
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x.steps, i, 1, 3, 1000000000 + i * 101000000, 100000000, i == 6);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "flat");
    expect("flat", NULL, RP_VERDICT_FAILED, RP_CHECK_step_variation, RP_MISMATCH, "took exactly 100000000 ns");
    fx_fini(&x);

    fx_init(&x); /* a clock of nanoseconds that shows whole milliseconds, and one that may */
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x.steps, i, 1, 3, 1000000000 + i * 111000000, 100000000 + i * 1000000, i == 6);
    fx_capture_value(x.before, "clock", "source", json_string("jiffies"));
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "round");
    accept("round", NULL, RP_VERDICT_UNKNOWN_KEY);
    fx_capture_value(x.before, "clock", "source", json_string("tsc"));
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "round");
    expect("round", NULL, RP_VERDICT_FAILED, RP_CHECK_clock_resolution, RP_MISMATCH, "whole microsecond");
    fx_fini(&x);

    fx_init(&x); /* steps that span more than the run */
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x.steps, i, 1, 3, 1000000000 + i * 2001000000ll, 2000000000 + i, i == 6);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "long");
    expect("long", NULL, RP_VERDICT_FAILED, RP_CHECK_time, RP_MISMATCH, "the steps span");
    fx_fini(&x);
}

/* The records say it themselves, results and report follow from them, and the right key signs. */
TEST(records_that_cannot_be_are_refused)
{
    static const struct {
        const char *was, *is; /* in the first place where it stands; as long as each other or not */
        enum rp_check_id check;
        enum rp_code code;
        const char *says;
    } bends[] = {
        {"\"padded_tokens\":64", "\"padded_tokens\":4096", RP_CHECK_numbers, RP_MISMATCH, "4 samples of 16 have 64"},
        {"\"nsp\":\"0x0p+0\"", "\"nsp\":\"none\"", RP_CHECK_schema, RP_MALFORMED, "'nsp' is not a hex float"},
        {"\"mlm\":\"0x1.9p+2\",\"nsp\":\"0x0p+0\"", "\"mlm\":\"0x1.4p+2\",\"nsp\":\"0x1p-1\"", RP_CHECK_schema, RP_MISMATCH,
         "add up to 5.5, the loss is 6.25"},
        {"\"mlm\":\"0x1.9p+2\"", "\"mlm\":\"inf\"", RP_CHECK_schema, RP_MISMATCH, "'mlm' is inf"},
        {"\"learning_rate\":9", "\"learning_rate\":8", RP_CHECK_numbers, RP_MISMATCH, "step 0 has the learning rate 8"},
        {"\"phase\"", "\"pause\":\"none\",\"phase\"", RP_CHECK_schema, RP_MALFORMED, "known keys only"},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        struct fx x;
        RP_BUF bent = {0};
        fx_init(&x);
        char *at = strstr(x.steps.data, bends[i].was);
        CHECK(at, "no %s", bends[i].was);
        rp_buf_add(&bent, x.steps.data, (size_t)(at - x.steps.data));
        rp_buf_puts(&bent, bends[i].is);
        rp_buf_puts(&bent, at + strlen(bends[i].was));
        rp_buf_fini(&x.steps);
        x.steps = bent;
        bent = (struct rp_buf){0};
        fx_seal(&x, "signer", "cannot");
        expect("cannot", NULL, RP_VERDICT_FAILED, bends[i].check, bends[i].code, bends[i].says);
        fx_fini(&x);
    }
}

/* How many steps a file had behind it is not in the bundle, so the schedule says nothing then, and verify says that. */
TEST(learning_rates_of_a_run_from_a_file_are_the_signers_word)
{
    static const char *const set[] = {"run.init=theirs.safetensors"};
    struct fx x;
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    RP_FREE char *path = fx_path("init");
    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 1, &err) == 0, "%s", err.msg);
    rp_buf_fini(&x.steps);
    fx_peak = 5e-5;
    fx_records(&x.steps, 1, 3, 2);
    fx_peak = 1e-4;
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "init");
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(strstr(v.check[RP_CHECK_claims].text, "learning rates") && !strstr(v.check[RP_CHECK_numbers].text, "learning rates"), "%s",
          v.check[RP_CHECK_claims].text);
    rp_verification_fini(&v);
    fx_fini(&x);
}

/* What no check recomputes is listed in every verdict. */
TEST(claims_are_called_claims)
{
    static const char *const claimed[] = {"steps began and ended", "device", "peak_rss_bytes", "phases_s", "counters", "losses", "unless replayed"};
    struct fx x;
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    RP_FREE char *path = fx_path("claims");
    fx_init(&x);
    fx_seal(&x, "signer", "claims");
    CHECK(rp_verify(&v, path, &o, &err) == 0 && v.check[RP_CHECK_claims].state == RP_CHECK_NOTE, "%s", err.msg);
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++)
        CHECK(strstr(v.check[RP_CHECK_claims].text, claimed[i]), "no %s in: %s", claimed[i], v.check[RP_CHECK_claims].text);
    CHECK(!strstr(v.check[RP_CHECK_claims].text, "learning rates"), "they follow from the schedule");
    rp_verification_fini(&v);
    fx_fini(&x);
}

/* One record must not cost a dozen of regular expressions: a megabyte of them fits many. */
TEST(a_long_run_is_verified_in_little_time)
{
    enum { STEPS = 60000 };
    struct fx x;
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    const char *const set[] = {"measure.warmup_steps=0", "measure.timed_steps=60000", "measure.repeats=1"};
    RP_FREE char *path = fx_path("long");
    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 3, &err) == 0, "%s", err.msg);
    rp_buf_fini(&x.steps);
    fx_records(&x.steps, 0, STEPS, 1);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    set_path(x.run, "elapsed_s", json_real(86405)); /* the steps span two hours */
    set_path(x.run, "ended_at", json_string("2026-09-22T14:13:25Z"));
    set_path(x.after, "captured_at", json_string("2026-09-22T14:13:25Z"));
    set_path(x.run, "phases_s/timed", json_real(7000));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "long");
    clock_t start = clock();
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    double s = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK(s < 3, "%.1f s of processor time for %d steps", s, STEPS);
    rp_verification_fini(&v);
    fx_fini(&x);
}

TEST(faster_than_any_processor_is_refused)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x.steps, i, 1, 3, 1000000000 + 500 * i, 100 + i, i == 6);
    x.done = json_pack("{s:o}", "ceilings", fx_ceilings(10000, 10000)); /* that a lie agrees with itself does not help it */
    json_t *cpu = json_object_get(json_object_get(x.before, "probes"), "cpu");
    fx_capture_value(x.before, "cpu", "threads", json_integer(64)); /* of which the run says that it used one */
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    double rate = json_number_value(json_object_get(json_object_get(x.run, "results"), "flops_per_s"));
    CHECK(rate > 1e12 && rate < 4096e12, "%g does not lie between the bound of one thread and that of all", rate);
    fx_seal(&x, "signer", "fast");
    expect("fast", NULL, RP_VERDICT_FAILED, RP_CHECK_peak, RP_MISMATCH, "the peak of at most 1 avx2 threads");
    set_path(x.run, "device", fx_device("isa=avx512 threads=256"));
    fx_capture_value(x.before, "cpu", "threads", json_integer(1));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "fast");
    expect("fast", NULL, RP_VERDICT_FAILED, RP_CHECK_environment, RP_MISMATCH, "the device has 256 threads");
    set_path(x.run, "recipe/run.threads/value", json_integer(256)); /* as many as its user asked for */
    set_path(x.run, "recipe/run.threads/origin", json_string("command line"));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "fast");
    expect("fast", NULL, RP_VERDICT_FAILED, RP_CHECK_peak, RP_MISMATCH, "the peak of at most 1 avx512 threads");
    json_object_del(cpu, "threads"); /* nobody knows how many there were */
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    set_path(x.run, "device", fx_device("isa=avx512 threads=256"));
    set_path(x.run, "tool/commit", json_string("0123456789abcdef0123456789abcdef01234567")); /* memory of so many threads was not planned */
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "fast");
    accept("fast", NULL, RP_VERDICT_UNKNOWN_KEY);
    fx_fini(&x);
}

/* Everything that the check of the machine compares, bent, with reports that follow from it and signed by the right key. */
TEST(machines_that_contradict_the_run_are_refused)
{
    static const struct {
        const char *path, *group, *name; /* a path of run.json, or a value of the capture before (and `after` of the one after) */
        const char *text, *after;
        double number; /* where there is no text */
        const char *says;
        enum rp_check_id check;
    } bends[] = {
        {"device/isa", NULL, NULL, "avx9000", NULL, 0, "'device'", RP_CHECK_environment},
        {"device/isa", NULL, NULL, "avx512", NULL, 0, "no avx512f", RP_CHECK_environment},
        {"tool/commit", NULL, NULL, "0123456789", NULL, 0, "tool/commit", RP_CHECK_environment},
        {"peak_rss_bytes", NULL, NULL, NULL, NULL, 1000, "less than the parameters", RP_CHECK_environment},
        {"peak_rss_bytes", NULL, NULL, NULL, NULL, 2e16, "the machine had", RP_CHECK_environment},
        {"plan/total_bytes", NULL, NULL, NULL, NULL, 5, "total_bytes is 5", RP_CHECK_environment},
        {"plan/bytes/parameters", NULL, NULL, NULL, NULL, 0, "total_bytes is", RP_CHECK_environment},
        {"plan/bytes/gpu cache", NULL, NULL, NULL, NULL, 0, "gpu cache", RP_CHECK_memory},
        {"plan/available_bytes", NULL, NULL, NULL, NULL, 2e16, "but the captured machine had", RP_CHECK_memory},
        {NULL, "cpu", "model_name", "slow", "fast", 0, "cpu.model_name", RP_CHECK_same_host},
        {NULL, "program", "sha256", "this", "that", 0, "program.sha256", RP_CHECK_same_host},
        {NULL, "kernel", "uptime", NULL, NULL, 9000, "uptime", RP_CHECK_same_host},
    };
    struct rp_err err;
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        struct fx x;
        fx_init(&x);
        fx_capture_value(x.before, "cpu", "flags", json_pack("[s, s, s, s]", "avx", "avx2", "fma", "f16c"));
        fx_capture_value(x.before, "memory", "total", json_integer(10000000000000000));
        fx_capture_value(x.before, "program", "commit", json_incref(json_object_get(json_object_get(x.run, "tool"), "commit")));
        fx_capture_value(x.before, "kernel", "uptime", json_real(100.25));
        fx_capture_value(x.after, "kernel", "uptime", json_real(103.5));
        CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "machine");
        accept("machine", NULL, RP_VERDICT_UNKNOWN_KEY);
        if (bends[i].path)
            set_path(x.run, bends[i].path, bends[i].text ? json_string(bends[i].text) : json_integer((json_int_t)bends[i].number));
        else
            fx_capture_value(x.before, bends[i].group, bends[i].name, bends[i].text ? json_string(bends[i].text) : json_real(bends[i].number));
        if (bends[i].after)
            fx_capture_value(x.after, bends[i].group, bends[i].name, json_string(bends[i].after));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "machine");
        expect("machine", NULL, RP_VERDICT_FAILED, bends[i].check, RP_MISMATCH, bends[i].says);
        fx_fini(&x);
    }
}

TEST(a_device_that_the_settings_did_not_ask_for_is_refused)
{
    static const struct {
        const char *set, *says;
    } asked[] = {{"run.isa=avx512", "and 1 threads"}, {"run.threads=3", "and 1 threads"}};
    struct rp_err err;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct fx x;
        const char *const set[] = {asked[i].set};
        fx_init(&x);
        rp_recipe_fini(&x.recipe);
        CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 1, &err) == 0, "%s", err.msg);
        CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "asked");
        expect("asked", NULL, RP_VERDICT_FAILED, RP_CHECK_environment, RP_MISMATCH, asked[i].says);
        fx_fini(&x);
    }
}
