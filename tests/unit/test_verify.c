/* What verify says about honest, damaged, forged and re-signed bundles: which check fails, with which exit status. */
#include "tests/unit/verify_fixture.h"

#include "base/build.h"
#include "base/hash.h"
#include "bundle/pack.h"
#include "data/embedded_data.h"
#include "data/files.h"
#include "sign/dsse.h"
#include "sign/minisign.h"
#include "sign/statement.h"
#include "sign/trust.h"
#include "verify/policy.h"

TEST(an_honest_bundle_verifies_and_the_key_decides_the_verdict)
{
    struct fx x;
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE], other[RP_FINGERPRINT_SIZE];
    RP_BUF pem = {0};
    fx_init(&x);
    fx_seal(&x, "signer", "good");
    accept("good", NULL, RP_VERDICT_UNKNOWN_KEY);

    struct rp_key_pair *k = fx_key("signer"), *k2 = fx_key("stranger");
    RP_FREE char *file = fx_path("signer.pub"), *file2 = fx_path("stranger.pub");
    rp_key_fingerprint(k, print);
    rp_key_fingerprint(k2, other);
    rp_key_public_pem(k, &pem);
    CHECK(rp_write_file(file, pem.data, pem.size, 0644, &err) == 0, "%s", err.msg);
    accept("good", print, RP_VERDICT_VERIFIED);
    accept("good", file, RP_VERDICT_VERIFIED);
    expect("good", other, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE, "signed by another key");

    CHECK(rp_trust_add("alice", NULL, k, &err) == 0, "%s", err.msg);
    accept("good", NULL, RP_VERDICT_VERIFIED);
    accept("good", "alice", RP_VERDICT_VERIFIED);
    expect("good", "bob", RP_VERDICT_FAILED, RP_CHECK_key, RP_USAGE, "name in the trust store");
    expect("good", "SHA256:00", RP_VERDICT_FAILED, RP_CHECK_key, RP_USAGE, "not a fingerprint");
    CHECK(rp_trust_add("alice.pem", NULL, k, &err) < 0 && err.code == RP_USAGE, "a name that reads as a file");
    RP_BUF pem2 = {0};
    rp_key_public_pem(k2, &pem2);
    CHECK(rp_write_file(file2, pem2.data, pem2.size, 0644, &err) == 0, "%s", err.msg);
    expect("good", file2, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE, "signed by another key");
    CHECK(rp_trust_add("alice", NULL, k2, &err) < 0 && err.code == RP_USAGE, "a name was given to another key");
    CHECK(rp_trust_add("../alice", NULL, k2, &err) < 0 && err.code == RP_USAGE, "a name with a slash");

    RP_FREE char *stored = fx_path("repro/trust/alice.pem"), *bad = fx_path("repro/trust/aaa.pem");
    char text[512];
    CHECK(rp_write_file(bad, "x", 1, 0644, &err) == 0, "%s", err.msg); /* says nothing of alice, and is named where that matters */
    accept("good", NULL, RP_VERDICT_VERIFIED);
    CHECK(unlink(stored) == 0, "%s", stored);
    accept("good", NULL, RP_VERDICT_UNKNOWN_KEY);
    CHECK(state_of("good", RP_CHECK_key, text) == RP_CHECK_NOTE && strstr(text, "aaa.pem"), "%s", text);
    CHECK(unlink(bad) == 0, "%s", bad);
    rp_key_free(k);
    rp_key_free(k2);
    fx_fini(&x);
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
        CHECK(rp_files_open(&files, path, ".tfrecord|.bin", &err) == 0 && rp_files_digest(&files, digest, &err) == 0, "%s", err.msg);
        rp_files_close(&files);
        const char *listed = rp_embedded_digest(sha256);
        CHECK(listed && strcmp(listed, digest) == 0, "%s: write {\"%s\", \"%s\"} into digests[] of data/embedded_data.c", name, sha256, digest);
    }
    CHECK(n > 0 && !rp_embedded_digest(FX_ROOT), "%d archives", n);
}

TEST(samples_of_an_archive_in_this_program_have_its_digest)
{
    struct rp_archive_source archive;
    struct rp_files files;
    struct fx x;
    struct rp_err err;
    char sha256[RP_SHA256_HEX], digest[RP_SHA256_HEX], text[512];
    CHECK(rp_embedded_archive("bert_sample.tar.zst", &archive) == 0, "no sample is embedded");
    rp_sha256_hex(sha256, archive.data, archive.size);
    CHECK(rp_files_open(&files, "embedded:bert_sample.tar.zst", ".tfrecord", &err) == 0 && rp_files_digest(&files, digest, &err) == 0, "%s", err.msg);
    rp_files_close(&files);
    RP_FREE char *pin = rp_asprintf("data.sha256=%s", sha256);
    const char *const set[] = {"data.archive=bert_sample.tar.zst", pin};
    fx_init(&x);
    fx_seal(&x, "signer", "sample");
    CHECK(state_of("sample", RP_CHECK_data, text) == RP_CHECK_NOTE && strstr(text, "only by --replay"), "another archive: %s", text);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 2, &err) == 0, "%s", err.msg);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    set_path(x.run, "data/archive_sha256", json_string(sha256));
    set_path(x.run, "data/archive", json_string("bert_sample.tar.zst"));
    set_path(x.run, "data/digest", json_string(digest));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "sample");
    CHECK(state_of("sample", RP_CHECK_data, text) == RP_CHECK_PASSED && strstr(text, "have the recorded digest"), "%s", text);
    set_path(x.run, "data/digest", json_string(FX_ROOT));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "sample");
    expect("sample", NULL, RP_VERDICT_FAILED, RP_CHECK_data, RP_MISMATCH, "have the digest");
    set_path(x.run, "data/digest", json_string(digest));
    set_path(x.run, "data/archive", json_string("imagenet.tar.zst"));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "sample");
    expect("sample", NULL, RP_VERDICT_FAILED, RP_CHECK_data, RP_MISMATCH, "do not pin them");
    fx_fini(&x);
}

TEST(a_recipe_under_the_name_of_an_embedded_one_is_compared_with_it)
{
    struct fx x;
    char text[512];
    fx_init(&x);
    set_path(x.run, "recipe_name", json_string("embedded:bert_fp32"));
    fx_seal(&x, "signer", "named");
    expect("named", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH, "recipe.yaml is not the recipe 'bert_fp32' of this program");
    fx_build.dirty = "dirty";
    CHECK(state_of("named", RP_CHECK_recipe, text) == RP_CHECK_NOTE && strstr(text, "is NOT the recipe 'bert_fp32'"), "%s", text);
    fx_build.dirty = "clean";
    set_path(x.run, "tool/commit", json_string("0123456789abcdef0123456789abcdef01234567")); /* another build had another recipe, or so it says */
    struct rp_err err;
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "named");
    CHECK(state_of("named", RP_CHECK_recipe, text) == RP_CHECK_NOTE && strstr(text, "is NOT the recipe 'bert_fp32'"), "%s", text);
    set_path(x.run, "recipe_name", json_string("embedded:bert_huge"));
    fx_seal(&x, "signer", "named");
    CHECK(state_of("named", RP_CHECK_recipe, text) == RP_CHECK_NOTE && strstr(text, "bert_huge"), "%s", text);
    fx_fini(&x);
}

TEST(a_backend_of_another_build_changes_no_figure)
{
    struct fx x;
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    RP_FREE char *path = fx_path("other");
    fx_init(&x);
    set_path(x.run, "backend", json_string("abacus"));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "other");
    CHECK(rp_verify(&v, path, &o, &err) == 0 && v.check[RP_CHECK_plan].state == RP_CHECK_NOTE, "%s", err.msg);
    CHECK(strstr(v.check[RP_CHECK_plan].text, "no backend 'abacus'"), "%s", v.check[RP_CHECK_plan].text);
    rp_verification_fini(&v);
    set_path(x.run, "plan/flops_per_sample", json_real(1e9));
    fx_seal(&x, "signer", "other");
    expect("other", NULL, RP_VERDICT_FAILED, RP_CHECK_plan, RP_MISMATCH, "flops_per_sample");
    fx_fini(&x);
}

TEST(runs_that_did_not_end_verify_and_say_so)
{
    struct fx x;
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    fx_init(&x);
    rp_buf_fini(&x.steps);
    fx_records_until(&x.steps, 1, 3, 2, 2); /* two of seven steps */
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MISMATCH, "two of seven steps passed as complete");
    x.run = NULL;
    CHECK(fx_documents(&x, "incomplete", "interrupted \xff after 2 steps", &err) == 0, "%s", err.msg);
    CHECK(strncmp(x.report.data, "# INCOMPLETE RUN", 16) == 0, "the first line is: %.40s", x.report.data);
    fx_seal(&x, "signer", "half");
    RP_FREE char *path = fx_path("half");
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_status].state == RP_CHECK_NOTE && strstr(v.check[RP_CHECK_status].text, "incomplete"), "%s", v.check[RP_CHECK_status].text);
    rp_verification_fini(&v);
    set_path(x.run, "data/pinned", json_false());
    CHECK(fx_report(&x, &err) == 0 && strstr(x.report.data, "not a pinned archive"), "not pinned is not said");
    fx_seal(&x, "signer", "half");
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_data].state == RP_CHECK_NOTE, "%s", v.check[RP_CHECK_data].text);
    RP_BUF text = {0}, json = {0};
    RP_JSON *j = rp_verification_json(&v);
    rp_verification_text(&text, &v, 0);
    rp_json_write(&json, j);
    CHECK(strstr(text.data, "not pinned") && strstr(text.data, "verified, but the key is unknown") && !strchr(text.data, 27), "%s", text.data);
    CHECK(strstr(json.data, "\"verified-unknown-key\""), "%s", json.data);
    rp_verification_fini(&v);
    fx_fini(&x);
}

/* What changed between the captures is listed, in the report too, and cannot be left out or added. */
TEST(changes_during_the_run_are_those_of_the_captures)
{
    struct fx x;
    struct rp_err err;
    char text[512];
    fx_init(&x);
    fx_seal(&x, "signer", "changed");
    CHECK(state_of("changed", RP_CHECK_changes, text) == RP_CHECK_PASSED && strstr(text, "0 values"), "%s", text);
    CHECK(strstr(x.report.data, "0 of 0 values that differ"), "the report does not say that nothing changed");

    set_path(x.after, "probes/cpu/model/value", json_string("B | C"));
    set_path(x.after, "probes/cpu/l3", json_pack("{s:s, s:i, s:s, s:s}", "state", "ok", "value", 7, "unit", "B", "source", "/sys"));
    fx_seal(&x, "signer", "changed");
    expect("changed", NULL, RP_VERDICT_FAILED, RP_CHECK_changes, RP_MISMATCH, "environment_changes/");
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    CHECK(strstr(x.report.data, "| cpu.model | high | A \\| B \\<b\\> | B \\| C |\n"), "%s", strstr(x.report.data, "## What changed"));
    CHECK(strstr(x.report.data, "| cpu.l3 | medium | absent | 7 B |\n"), "%s", strstr(x.report.data, "## What changed"));
    fx_seal(&x, "signer", "changed");
    CHECK(state_of("changed", RP_CHECK_changes, text) == RP_CHECK_NOTE && strstr(text, "2 values, 2 of high or medium"), "%s", text);

    /* another version may grade otherwise, but not find something else */
    json_t *list = json_object_get(x.run, "environment_changes");
    json_object_set_new(json_array_get(list, 1), "impact", json_string("none"));
    CHECK(fx_report(&x, &err) == 0 && strstr(x.report.data, "1 of 2 values that differ"), "%s", x.report.data);
    fx_seal(&x, "signer", "changed");
    CHECK(state_of("changed", RP_CHECK_changes, text) == RP_CHECK_NOTE && strstr(text, "grades 1 of them"), "%s", text);
    CHECK(json_array_remove(list, 1) == 0 && fx_report(&x, &err) == 0, "no second change");
    fx_seal(&x, "signer", "changed");
    expect("changed", NULL, RP_VERDICT_FAILED, RP_CHECK_changes, RP_MISMATCH, "environment_changes/");
    fx_fini(&x);
}

TEST(report_and_records_are_bound_to_run_json)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    char *number = strstr(x.report.data, "**");
    CHECK(number, "no headline");
    number[2] = number[2] == '9' ? '8' : '9';
    fx_seal(&x, "signer", "boast");
    expect("boast", NULL, RP_VERDICT_FAILED, RP_CHECK_report, RP_MISMATCH, "report.md does not follow from run.json, from line 5");
    fx_fini(&x);
    fx_init(&x); /* a loss that was better than it was */
    char *loss = strstr(x.steps.data, FX_LOSS("0x1.9p+2"));
    CHECK(loss, "no loss");
    memcpy(loss, FX_LOSS("0x1.0p+2"), sizeof FX_LOSS("0x1.0p+2") - 1);
    fx_seal(&x, "signer", "rosy");
    expect("rosy", NULL, RP_VERDICT_FAILED, RP_CHECK_schema, RP_MALFORMED, "which this program writes as");
    memcpy(loss, FX_LOSS("0x1.1p+2"), sizeof FX_LOSS("0x1.1p+2") - 1);
    fx_seal(&x, "signer", "rosy");
    expect("rosy", NULL, RP_VERDICT_FAILED, RP_CHECK_numbers, RP_MISMATCH, "does not follow from the records");
    fx_fini(&x);
    fx_init(&x);
    x.recipe.source.data[3] ^= 1; /* inside the comment: the same settings, other bytes */
    fx_seal(&x, "signer", "recipe");
    expect("recipe", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH, "SHA-256");
    fx_fini(&x);
    (void)err;
}

/* ---- below the seal: statements and envelopes made by hand ---- */

struct forged {
    struct rp_bundle b;     /* sealed, then bent */
    struct rp_key_pair *key;
    struct rp_subject subject[RP_BUNDLE_MEMBERS_MAX];
    json_t *predicate;
};

static void forge_begin(struct forged *f, struct fx *x)
{
    struct rp_err err;
    char hex[RP_SHA256_HEX];
    RP_FREE char *path = fx_path("forged");
    fx_init(x);
    fx_seal(x, "signer", "forged");
    *f = (struct forged){.key = fx_key("signer")};
    CHECK(rp_bundle_open(&f->b, path, &err) == 0, "%s", err.msg);
    const struct rp_member *run = rp_bundle_find(&f->b, "run.json");
    rp_sha256_hex(hex, run->bytes.data, run->bytes.size);
    f->predicate = rp_statement_predicate(x->run, hex);
}

static struct rp_buf *bytes_of(struct forged *f, const char *name)
{
    return (struct rp_buf *)&rp_bundle_find(&f->b, name)->bytes;
}

static void set_bytes(struct forged *f, const char *name, const char *data, size_t size)
{
    struct rp_buf *b = bytes_of(f, name);
    rp_buf_fini(b);
    rp_buf_add(b, data, size);
}

/* Sign this statement (takes it) with the right key and write the file. */
static void forge_end(struct forged *f, struct fx *x, json_t *statement)
{
    struct rp_err err;
    RP_BUF payload = {0}, envelope = {0}, tar = {0}, file = {0};
    RP_FREE char *path = fx_path("forged");
    if (statement) {
        rp_json_write(&payload, statement);
        CHECK(rp_dsse_seal(&envelope, payload.data, payload.size, f->key, &err) == 0, "%s", err.msg);
        set_bytes(f, "statement.dsse.json", envelope.data, envelope.size);
    }
    for (int i = 0; i < f->b.n; i++)
        rp_tar_add(&tar, f->b.member[i].name, f->b.member[i].bytes.data, f->b.member[i].bytes.size);
    rp_tar_end(&tar);
    CHECK(rp_zst_pack(&file, tar.data, tar.size, &err) == 0 && rp_write_file(path, file.data, file.size, 0644, &err) == 0, "%s", err.msg);
    json_decref(statement);
    json_decref(f->predicate);
    rp_bundle_fini(&f->b);
    rp_key_free(f->key);
    fx_fini(x);
}

/* SHA256SUMS of what the members are now, and both signatures of it. */
static void sum_again(struct forged *f)
{
    RP_BUF sums = {0}, signify = {0}, minisign = {0};
    struct rp_err err;
    rp_bundle_sums(&sums, &f->b);
    CHECK(rp_signify_sign(&signify, f->key, sums.data, sums.size, &err) == 0, "%s", err.msg);
    CHECK(rp_minisign_sign(&minisign, f->key, sums.data, sums.size, "SHA256SUMS", &err) == 0, "%s", err.msg);
    set_bytes(f, "SHA256SUMS", sums.data, sums.size);
    set_bytes(f, "SHA256SUMS.sig", signify.data, signify.size);
    set_bytes(f, "SHA256SUMS.minisig", minisign.data, minisign.size);
}

static json_t *statement_of(struct forged *f)
{
    int n = rp_bundle_subjects(&f->b, f->subject);
    return rp_statement(f->subject, n, json_incref(f->predicate));
}

TEST(statements_made_by_hand)
{
    struct forged f;
    struct fx x;
    json_t *j;
    forge_begin(&f, &x);
    forge_end(&f, &x, statement_of(&f));
    accept("forged", NULL, RP_VERDICT_UNKNOWN_KEY); /* the forger's tools can make an honest bundle */

    forge_begin(&f, &x); /* a member changed after signing */
    bytes_of(&f, "report.md")->data[0] ^= 1;
    forge_end(&f, &x, NULL);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_digests, RP_MISMATCH, "member 'report.md'");

    forge_begin(&f, &x); /* two members swapped */
    struct rp_buf *a = bytes_of(&f, "env/node0.before.json"), *b = bytes_of(&f, "env/node0.after.json"), t = *a;
    *a = *b;
    *b = t;
    forge_end(&f, &x, NULL);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_digests, RP_MISMATCH, "env/node0");

    forge_begin(&f, &x); /* a member that nobody signed */
    fx_add(&f.b, "steps/rank1.jsonl", "{}\n", 3);
    forge_end(&f, &x, NULL);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_digests, RP_MISMATCH, "steps/rank1.jsonl");

    forge_begin(&f, &x); /* signed, and of a rank that does not exist */
    fx_add(&f.b, "steps/rank1.jsonl", "{}\n", 3);
    sum_again(&f);
    forge_end(&f, &x, statement_of(&f));
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_schema, RP_MALFORMED, "steps/rank1.jsonl");

    forge_begin(&f, &x); /* a subject that steps/rank0.samples.jsonl */
    j = statement_of(&f);
    json_array_append_new(json_object_get(j, "subject"), json_pack("{s:s, s:{s:s}}", "name", "steps/rank1.jsonl", "digest", "sha256", FX_ROOT));
    forge_end(&f, &x, j);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_digests, RP_MISMATCH, "missing");

    forge_begin(&f, &x); /* one subject twice, one not at all */
    j = statement_of(&f);
    json_array_set(json_object_get(j, "subject"), 1, json_array_get(json_object_get(j, "subject"), 0));
    forge_end(&f, &x, j);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_digests, RP_MALFORMED, "twice");

    forge_begin(&f, &x); /* a statement about something else */
    j = statement_of(&f);
    json_object_set_new(j, "predicateType", json_string("https://slsa.dev/provenance/v1"));
    forge_end(&f, &x, j);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_statement, RP_MALFORMED, "/predicateType");

    forge_begin(&f, &x); /* a rounder number in the signed summary */
    json_object_set_new(json_object_get(f.predicate, "throughput"), "value", json_real(1000));
    forge_end(&f, &x, statement_of(&f));
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_predicate, RP_MISMATCH, "throughput/value is 1000");

    forge_begin(&f, &x); /* SHA256SUMS that lies, signed */
    bytes_of(&f, "SHA256SUMS")->data[0] ^= 1;
    forge_end(&f, &x, statement_of(&f));
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_helper_files, RP_MISMATCH, "SHA256SUMS");

    forge_begin(&f, &x); /* the right run.json in another spelling, signed */
    rp_buf_add(bytes_of(&f, "run.json"), " ", 1);
    forge_end(&f, &x, statement_of(&f));
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_helper_files, RP_MISMATCH, "SHA256SUMS");
}

TEST(another_script_is_remarked_on)
{
    struct forged f;
    struct fx x;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    struct rp_err err;
    RP_FREE char *path = fx_path("forged");
    forge_begin(&f, &x);
    set_bytes(&f, "verify.sh", "echo OK\n", 8);
    sum_again(&f);
    forge_end(&f, &x, statement_of(&f));
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_helper_files].state == RP_CHECK_NOTE, "%s", v.check[RP_CHECK_helper_files].text);
    rp_verification_fini(&v);
}

TEST(keys_in_the_bundle_are_held_to_the_signature)
{
    struct forged f;
    struct fx x;
    RP_BUF pem = {0};
    forge_begin(&f, &x); /* somebody else's key.pem */
    struct rp_key_pair *k = fx_key("stranger");
    rp_key_public_pem(k, &pem);
    rp_key_free(k);
    set_bytes(&f, "key.pem", pem.data, pem.size);
    forge_end(&f, &x, NULL);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_signature, RP_SIGNATURE, "names the key");

    forge_begin(&f, &x); /* text around the key */
    rp_buf_puts(bytes_of(&f, "key.pem"), "\n");
    forge_end(&f, &x, NULL);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_signature, RP_MALFORMED, "key.pem");

    forge_begin(&f, &x);
    set_bytes(&f, "key.pem", "no key", 6);
    forge_end(&f, &x, NULL);
    expect("forged", NULL, RP_VERDICT_FAILED, RP_CHECK_signature, RP_MALFORMED, "key.pem holds no PEM public key");
}

TEST(overrides_resolve_again)
{
    static const char *const set[] = {"train.batch_size=2", "optimizer.learning_rate=3.5e-4", "optimizer.exclude_from_weight_decay=bias",
                                      "data.shuffle=false", "title=another title", "measure.timed_steps=2"};
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 6, &err) == 0, "%s", err.msg);
    rp_buf_fini(&x.steps);
    fx_records(&x.steps, 1, 2, 2);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MISMATCH && strstr(err.msg, "samples"),
          "records of batch 4 passed for a recipe of batch 2: %s", err.msg);
    x.run = NULL;
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set + 1, 5, &err) == 0, "%s", err.msg);
    rp_buf_fini(&x.steps);
    fx_peak = 3.5e-4;
    fx_records(&x.steps, 1, 2, 2);
    fx_peak = 1e-4;
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    CHECK(strstr(x.report.data, "| optimizer.learning_rate | 0.00035 | command line |"), "no list of overrides");
    fx_seal(&x, "signer", "overridden");
    accept("overridden", NULL, RP_VERDICT_UNKNOWN_KEY);
    fx_fini(&x);
}

/* Every key of the model is in every bundle, those that have their default as well: a reader would take what is left out for nothing. */
TEST(a_setting_that_was_left_out_is_missed)
{
    struct fx x;
    fx_init(&x);
    json_t *recipe = json_object_get(x.run, "recipe");
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++) {
        if (!(k[i].models >> RP_MODEL_bert & 1u))
            continue;
        json_t *entry = json_incref(json_object_get(recipe, k[i].name));
        CHECK(json_object_del(recipe, k[i].name) == 0, "no %s", k[i].name);
        fx_seal(&x, "signer", "less");
        expect("less", NULL, RP_VERDICT_FAILED, RP_CHECK_schema, RP_MALFORMED, k[i].name);
        json_object_set_new(recipe, k[i].name, entry);
    }
    fx_fini(&x);
}

/* A model that this build knows by name alone: its bundle cannot be computed again here. */
TEST(a_model_that_is_not_built_in_is_refused)
{
    struct fx x;
    fx_init(&x);
    json_t *recipe = json_object_get(x.run, "recipe");
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++)
        if (!(k[i].models >> RP_MODEL_resnet50 & 1u))
            json_object_del(recipe, k[i].name);
    set_path(recipe, "workload/value", json_string("resnet50"));
    fx_seal(&x, "signer", "resnet50");
    expect("resnet50", NULL, RP_VERDICT_FAILED, RP_CHECK_schema, RP_UNAVAILABLE, "this build cannot train resnet50");
    fx_fini(&x);
}

/* What a model.config set is the signer's word, and nothing else is. */
TEST(a_model_config_frees_no_other_setting)
{
    static const char yaml[] = "workload: bert\nmodel: {config: model.json}\n"
                               "task: {seq_length: 16, max_predictions_per_seq: 2}\ntrain: {batch_size: 4}\ndata: {archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
                               "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";
    static const char config[] = "{\"vocab_size\": 256, \"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 32, "
                                 "\"max_position_embeddings\": 16}";
    struct fx x;
    struct rp_err err;
    char text[512];
    RP_FREE char *file = fx_path("model.json"), *recipe = fx_path("with_config.yaml");
    CHECK(rp_write_file(file, config, sizeof config - 1, 0600, &err) == 0 && rp_write_file(recipe, yaml, sizeof yaml - 1, 0600, &err) == 0, "%s", err.msg);
    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_load(&x.recipe, recipe, "cpu", NULL, 0, &err) == 0, "%s", err.msg);
    CHECK(unlink(file) == 0, "model.json"); /* whoever verifies does not have it */
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "configured");
    CHECK(state_of("configured", RP_CHECK_recipe, text) == RP_CHECK_NOTE && strstr(text, "6 by a model.config that is not in the bundle"), "%s", text);
    RP_FREE char *rule = rp_asprintf("recipes: [%s]\n", x.recipe.sha256), *sealed = fx_path("configured");
    struct rp_policy policy;
    struct rp_verification v;
    CHECK(rp_policy_parse(&policy, rule, strlen(rule), "p.yaml", &err) == 0, "%s", err.msg);
    struct rp_verify_opts asked = {.policy = &policy};
    CHECK(rp_verify(&v, sealed, &asked, &err) < 0 && strstr(v.check[RP_CHECK_policy].text, "but a model.config set model."), "%s",
          v.check[RP_CHECK_policy].text);
    rp_verification_fini(&v);
    rp_policy_fini(&policy);
    json_t *settings = json_object_get(x.run, "recipe"), *clip = json_object_get(settings, "optimizer.clip_norm");
    json_object_set_new(clip, "value", json_real(0.5));
    json_object_set_new(clip, "origin", json_string("recipe"));
    fx_seal(&x, "signer", "configured");
    expect("configured", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH, "optimizer.clip_norm");
    json_object_set_new(clip, "origin", json_string("model.config"));
    fx_seal(&x, "signer", "configured");
    expect("configured", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH, "model.config: it cannot set 'optimizer.clip_norm'");
    fx_fini(&x);
    fx_init(&x); /* a recipe that names no model.config */
    json_object_set_new(json_object_get(json_object_get(x.run, "recipe"), "model.config"), "value", json_string("model.json"));
    fx_seal(&x, "signer", "configured");
    expect("configured", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH, "model.config/value is \"model.json\"");
    fx_fini(&x);
}

/* Version 1 is refused by its name wherever a bundle is read; a bundle of that version may lack what each has today. */
TEST(a_bundle_of_version_1_is_refused_by_name)
{
    static const char says[] = "is version 1 (repro-run/1); this program reads version 2; a program built from commit 6c88d78 reads it";
    struct fx x;
    struct rp_err err;
    struct rp_bundle b, less = {0};
    RP_BUF packed = {0};
    RP_FREE char *path = fx_path("version1"), *cut = fx_path("cut");
    fx_init(&x);
    json_object_set_new(x.run, "schema", json_string("repro-run/1"));
    fx_seal(&x, "signer", "version1");
    expect("version1", NULL, RP_VERDICT_FAILED, RP_CHECK_statement, RP_MALFORMED, says);
    CHECK(rp_exit_status(RP_MALFORMED) == 4, "exit status");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    for (int i = 0; i < b.n; i++)
        if (strcmp(b.member[i].name, "SHA256SUMS.sig") != 0)
            fx_add(&less, b.member[i].name, b.member[i].bytes.data, b.member[i].bytes.size);
    CHECK(rp_bundle_pack(&less, &packed, &err) == 0 && rp_write_file(cut, packed.data, packed.size, 0644, &err) == 0, "%s", err.msg);
    expect("cut", NULL, RP_VERDICT_FAILED, RP_CHECK_container, RP_MALFORMED, says);
    rp_bundle_fini(&b);
    rp_bundle_fini(&less);
    fx_fini(&x);
}
