/* What verify says about honest, damaged, forged and re-signed bundles: which check fails, with which exit status. */
#include "report/template.h"
#include "tests/unit/verify_fixture.h"

#include "base/build.h"
#include "base/hash.h"
#include "data/embedded_data.h"
#include "data/files.h"
#include "sign/trust.h"

TEST(an_honest_bundle_verifies_and_the_key_decides_the_verdict)
{
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE], other[RP_FINGERPRINT_SIZE];
    RP_BUF pem = {0};
    FX(x);
    accepted(&x);

    FX_KEY *k = fx_key("signer"), *k2 = fx_key("stranger");
    RP_FREE char *file = fx_path("signer.pub"), *file2 = fx_path("stranger.pub");
    rp_key_fingerprint(k, print);
    rp_key_fingerprint(k2, other);
    rp_key_public_pem(k, &pem);
    CHECK(rp_write_file(file, pem.data, pem.size, 0644, &err) == 0, "%s", err.msg);
    accept("sealed", print, RP_VERDICT_VERIFIED);
    accept("sealed", file, RP_VERDICT_VERIFIED);
    expect("sealed", other, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE);

    CHECK(rp_trust_add("alice", NULL, k, &err) == 0, "%s", err.msg);
    accept("sealed", NULL, RP_VERDICT_VERIFIED);
    accept("sealed", "alice", RP_VERDICT_VERIFIED);
    expect("sealed", "bob", RP_VERDICT_FAILED, RP_CHECK_key, RP_USAGE);
    expect("sealed", "SHA256:00", RP_VERDICT_FAILED, RP_CHECK_key, RP_USAGE);
    CHECK(rp_trust_add("alice.pem", NULL, k, &err) < 0 && err.code == RP_USAGE, "a name that reads as a file");
    RP_BUF pem2 = {0};
    rp_key_public_pem(k2, &pem2);
    CHECK(rp_write_file(file2, pem2.data, pem2.size, 0644, &err) == 0, "%s", err.msg);
    expect("sealed", file2, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE);
    CHECK(rp_trust_add("alice", NULL, k2, &err) < 0 && err.code == RP_USAGE, "a name was given to another key");
    CHECK(rp_trust_add("../alice", NULL, k2, &err) < 0 && err.code == RP_USAGE, "a name with a slash");

    RP_FREE char *stored = fx_path("repro/trust/alice.pem"), *bad = fx_path("repro/trust/aaa.pem");
    /* says nothing of alice, and is named where that matters */
    CHECK(rp_write_file(bad, "x", 1, 0644, &err) == 0, "%s", err.msg);
    accept("sealed", NULL, RP_VERDICT_VERIFIED);
    CHECK(unlink(stored) == 0, "%s", stored);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
    expect_state_of("sealed", RP_CHECK_key, RP_CHECK_NOTE);
    CHECK(unlink(bad) == 0, "%s", bad);
}

TEST(digests_of_embedded_archives_are_those_of_their_samples)
{
    const char *name;
    int n = 0;
    for (; (name = rp_embedded_archive_name(n)); n++) {
        struct rp_archive_source archive;
        struct rp_files files;
        struct rp_err err;
        char sha256[RP_SHA256_HEX], digest[RP_SHA256_HEX];
        RP_FREE char *path = rp_asprintf(RP_FILES_EMBEDDED "%s", name);
        CHECK(rp_embedded_archive(name, &archive) == 0, "%s", name);
        rp_sha256_hex(sha256, archive.data, archive.size);
        CHECK(rp_files_open(&files, path, ".tfrecord|.bin|-of-", &err) == 0 &&
                  rp_files_digest(&files, digest, &err) == 0,
              "%s", err.msg);
        rp_files_close(&files);
        const char *listed = rp_embedded_digest(sha256);
        CHECK(listed && strcmp(listed, digest) == 0,
              "%s: write {\"%s\", \"%s\"} into digests[] of data/embedded_data.c", name, sha256, digest);
    }
    CHECK(n > 0 && !rp_embedded_digest(FX_ROOT), "%d archives", n);
}

TEST(samples_of_an_archive_in_this_program_have_its_digest)
{
    struct rp_archive_source archive;
    struct rp_files files;
    struct rp_err err;
    char sha256[RP_SHA256_HEX], digest[RP_SHA256_HEX];
    CHECK(rp_embedded_archive("bert_sample.tar.zst", &archive) == 0, "no sample is embedded");
    rp_sha256_hex(sha256, archive.data, archive.size);
    CHECK(rp_files_open(&files, "embedded:bert_sample.tar.zst", ".tfrecord", &err) == 0 &&
              rp_files_digest(&files, digest, &err) == 0,
          "%s", err.msg);
    rp_files_close(&files);
    RP_FREE char *pin = rp_asprintf("data.sha256=%s", sha256);
    FX(x);
    expect_state(&x, RP_CHECK_data, RP_CHECK_NOTE);
    FX_SET(&x, "data.archive=bert_sample.tar.zst", pin);
    fx_compute(&x);
    set_path(x.facts, "data/archive_sha256", json_string(sha256));
    set_path(x.facts, "data/archive", json_string("bert_sample.tar.zst"));
    set_path(x.facts, "data/digest", json_string(digest));
    expect_state(&x, RP_CHECK_data, RP_CHECK_PASSED);
    set_path(x.facts, "data/digest", json_string(FX_ROOT)); /* of the sample made again for 16 tokens, perhaps */
    expect_state(&x, RP_CHECK_data, RP_CHECK_NOTE);
    set_path(x.facts, "data/digest", json_string(digest));
    set_path(x.facts, "data/archive", json_string("imagenet.tar.zst"));
    refused(&x, RP_CHECK_data, RP_MISMATCH);
}

TEST(other_samples_than_those_of_an_embedded_archive_are_refused)
{
    struct rp_archive_source archive;
    char sha256[RP_SHA256_HEX];
    CHECK(rp_embedded_archive("gpt_sample.tar.zst", &archive) == 0, "no sample is embedded");
    rp_sha256_hex(sha256, archive.data, archive.size);
    RP_FREE char *pin = rp_asprintf("data.sha256=%s", sha256);
    FX(x);
    FX_SET(&x, "data.archive=gpt_sample.tar.zst", pin);
    fx_compute(&x);
    set_path(x.facts, "data/archive_sha256", json_string(sha256));
    set_path(x.facts, "data/archive", json_string("gpt_sample.tar.zst"));
    set_path(x.facts, "data/digest", json_string(FX_ROOT));
    refused(&x, RP_CHECK_data, RP_MISMATCH);
}

/* The embedded sample of BERT has sequences of 128 tokens and 20 predictions. */
TEST(only_other_lengths_make_the_sample_again)
{
    char pin[] = "d9b5800599a0088feef16500bba741d3e4ba74f05622458c27dcbc86a5ce045a", other[] = "another";
    struct rp_recipe r = {.data_sha256 = pin, .task_seq_length = 128, .task_max_predictions = 20};
    CHECK(!rp_embedded_is_remade(&r), "its own lengths");
    r.task_seq_length = 64;
    CHECK(rp_embedded_is_remade(&r), "another length");
    r.task_seq_length = 128;
    r.task_max_predictions = 19;
    CHECK(rp_embedded_is_remade(&r), "other predictions");
    r.data_sha256 = other;
    CHECK(!rp_embedded_is_remade(&r), "another archive");
}

TEST(a_recipe_under_the_name_of_an_embedded_one_is_compared_with_it)
{
    FX(x);
    set_path(x.facts, "recipe_name", json_string("embedded:bert_fp32"));
    refused(&x, RP_CHECK_recipe, RP_MISMATCH);
    fx_build.dirty = "dirty";
    expect_state_of("sealed", RP_CHECK_recipe, RP_CHECK_NOTE);
    fx_build.dirty = "clean";
    fx_other_build(&x); /* another build had another recipe, or so it says */
    expect_state(&x, RP_CHECK_recipe, RP_CHECK_NOTE);
    set_path(x.facts, "recipe_name", json_string("embedded:bert_huge"));
    expect_state(&x, RP_CHECK_recipe, RP_CHECK_NOTE);
}

TEST(a_backend_of_another_build_changes_no_figure)
{
    FX(x);
    set_path(x.facts, "backend", json_string("abacus"));
    expect_state(&x, RP_CHECK_plan, RP_CHECK_NOTE);
    set_path(x.run, "model/flops_per_sample", json_real(1e9));
    refused(&x, RP_CHECK_plan, RP_MISMATCH);
}

TEST(runs_that_did_not_end_verify_and_say_so)
{
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    FX(x);
    rp_buf_fini(&x.steps);
    fx_records_until(&x.steps, 1, 3, 2, 2); /* two of seven steps */
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MISMATCH,
          "two of seven steps passed as complete");
    CHECK(fx_documents(&x, "incomplete", "interrupted \xff after 2 steps", &err) == 0, "%s", err.msg);
    RP_BUF report = {0};
    fx_report(&report, &x);
    CHECK(strncmp(report.data, "# INCOMPLETE RUN", 16) == 0, "%.40s", report.data);
    expect_state(&x, RP_CHECK_status, RP_CHECK_NOTE);
    set_path(x.facts, "data/pinned", json_false());
    expect_state(&x, RP_CHECK_data, RP_CHECK_NOTE);
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    RP_BUF text = {0};
    RP_JSON *j = rp_verification_json(&v);
    rp_verification_text(&text, RP_FILL_TEXT, j, NULL, 1, 0);
    CHECK(!strchr(text.data, 27), "%s", text.data);
    SAID(text.data); /* every line of a verification */
    CHECK_STR(rp_json_text_at(j, "verdict"), "verified-incomplete"); /* whose key it is comes after that */
    rp_verification_fini(&v);
}

/* What changed between the captures is listed, in the report too, and cannot be left out or added. */
TEST(changes_during_the_run_are_those_of_the_captures)
{
    FX(x);
    expect_state(&x, RP_CHECK_changes, RP_CHECK_PASSED);
    set_path(x.after, "probes/cpu/model/value", json_string("B | C"));
    set_path(x.after, "probes/cpu/l3",
             json_pack("{s:s, s:i, s:s, s:s}", "state", "ok", "value", 7, "unit", "B", "source", "/sys"));
    refused(&x, RP_CHECK_changes, RP_MISMATCH);
    fx_compute(&x);
    fx_said(&x, "## What changed");
    expect_state(&x, RP_CHECK_changes, RP_CHECK_NOTE);

    /* another version may grade otherwise, but not find something else */
    set_path(x.run, "node/0/change/1/impact", json_string("none"));
    set_path(x.run, "node/0/change/1/varies", json_true());
    expect_state(&x, RP_CHECK_changes, RP_CHECK_NOTE);
    CHECK(json_array_remove((json_t *)rp_json_at(x.run, "node/0/change"), 1) == 0, "no second change");
    refused(&x, RP_CHECK_changes, RP_MISMATCH);
}

TEST(overrides_resolve_again)
{
    static const char *const set[] = {"train.batch_size=2", "optimizer.learning_rate=3.5e-4",
                                      "optimizer.exclude_from_weight_decay=bias", "data.shuffle=false",
                                      "title=another title", "measure.timed_steps=2", NULL};
    struct rp_err err;
    FX(x);
    fx_set(&x, set);
    rp_buf_fini(&x.steps);
    fx_records(&x.steps, 1, 2, 2);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MISMATCH,
          "records of batch 4 passed for a recipe of batch 2: %s", err.msg);
    fx_set(&x, set + 1);
    rp_buf_fini(&x.steps);
    fx_peak = 3.5e-4;
    fx_records(&x.steps, 1, 2, 2);
    fx_peak = 1e-4;
    fx_compute(&x);
    RP_BUF report = {0};
    fx_report(&report, &x);
    CHECK(strstr(report.data, "| optimizer.learning\\_rate | 0.00035 | command line |"), "no list of overrides");
    accepted(&x);
}

/* Every key of the model is in every bundle, those that have their default as well: a reader would take what is left
 * out for nothing. Only keys that are younger than published bundles are absent while nothing sets them; the settings
 * are computed again, which finds one that was set and left out. */
TEST(a_setting_that_was_left_out_is_missed)
{
    FX(x);
    json_t *recipe = json_object_get(x.facts, "recipe");
    RP_JSON *later = json_object();
    rp_recipe_complete(later);
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++) {
        if (!(k[i].models >> RP_MODEL_bert & 1u) || json_object_get(later, k[i].name))
            continue;
        json_t *entry = json_incref(json_object_get(recipe, k[i].name));
        CHECK(json_object_del(recipe, k[i].name) == 0, "no %s", k[i].name);
        refused(&x, RP_CHECK_schema, RP_MALFORMED);
        json_object_set_new(recipe, k[i].name, entry);
    }
}

/* What a model.config set is the signer's word, and nothing else is. */
TEST(a_model_config_frees_no_other_setting)
{
    static const char yaml[] = "workload: bert\nmodel: {config: model.json}\n"
                               "task: {seq_length: 16, max_predictions_per_seq: 2}\ntrain: {batch_size: 4}\ndata: "
                               "{archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
                               "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";
    static const char config[] = "{\"vocab_size\": 256, \"hidden_size\": 16, \"num_hidden_layers\": 1, "
                                 "\"num_attention_heads\": 2, \"intermediate_size\": 32, \"max_position_embeddings\": "
                                 "16}";
    struct rp_err err;
    RP_FREE char *file = fx_path("model.json"), *recipe = fx_path("with_config.yaml");
    CHECK(rp_write_file(file, config, sizeof config - 1, 0600, &err) == 0 &&
              rp_write_file(recipe, yaml, sizeof yaml - 1, 0600, &err) == 0,
          "%s", err.msg);
    FX(x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_load(&x.recipe, recipe, "cpu", NULL, 0, &err) == 0, "%s", err.msg);
    CHECK(unlink(file) == 0, "model.json"); /* whoever verifies does not have it */
    fx_compute(&x);
    expect_state(&x, RP_CHECK_recipe, RP_CHECK_NOTE);
    RP_FREE char *rule = rp_asprintf("recipes: [%s]\n", x.recipe.sha256);
    expect_policy("sealed", rule, (struct rp_verify_opts){.trust = NULL}, 0);
    json_t *settings = json_object_get(x.facts, "recipe"), *clip = json_object_get(settings, "optimizer.clip_norm");
    json_object_set_new(clip, "value", json_real(0.5));
    json_object_set_new(clip, "origin", json_string("recipe"));
    refused(&x, RP_CHECK_recipe, RP_MISMATCH);
    json_object_set_new(clip, "origin", json_string("model.config"));
    refused(&x, RP_CHECK_recipe, RP_MISMATCH);
    fx_again(&x); /* a recipe that names no model.config */
    json_object_set_new((json_t *)rp_json_at(x.facts, "recipe/model.config"), "value", json_string("model.json"));
    refused(&x, RP_CHECK_recipe, RP_MISMATCH);
}

/* Other versions are named wherever a bundle is read, and are not called forged; a bundle of theirs may lack what each
 * has today. What is no version of repro, or not well-formed, stays a failure. */
TEST(bundle_of_another_version_is_not_checked_and_not_called_forged)
{
    struct rp_err err;
    struct rp_bundle b, less = {0};
    RP_BUF packed = {0};
    RP_FREE char *path = fx_path("sealed"), *cut = fx_path("cut");
    FX(x);
    static const struct {
        const char *schema;
        enum rp_code code;
    } cases[] = {{"repro-run/5", RP_VERSION},   {"repro-run/12", RP_VERSION},    {"repro-run/0", RP_MALFORMED},
                 {"repro-run/", RP_MALFORMED},  {"repro-run/5x", RP_MALFORMED},  {"repro-run/05", RP_MALFORMED},
                 {"repro-run/1", RP_VERSION},   {"repro-run/2", RP_VERSION},     {"repro-run/3", RP_VERSION}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int other = cases[i].code == RP_VERSION;
        json_object_set_new(x.run, "schema", json_string(cases[i].schema));
        fx_seal(&x, "signer", "sealed");
        expect("sealed", NULL, other ? RP_VERDICT_OTHER_VERSION : RP_VERDICT_FAILED, RP_CHECK_statement, cases[i].code);
    }
    CHECK(rp_exit_status(RP_VERSION) == 11, "exit status");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    for (int i = 0; i < b.n; i++)
        if (strcmp(b.member[i].name, "SHA256SUMS.sig") != 0)
            fx_add(&less, b.member[i].name, b.member[i].bytes.data, b.member[i].bytes.size);
    CHECK(rp_bundle_pack(&less, &packed, &err) == 0 && rp_write_file(cut, packed.data, packed.size, 0644, &err) == 0,
          "%s", err.msg);
    expect("cut", NULL, RP_VERDICT_OTHER_VERSION, RP_CHECK_container, RP_VERSION);
    rp_bundle_fini(&b);
    rp_bundle_fini(&less);
}
