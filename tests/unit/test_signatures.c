/* Several signatures on one bundle: counter-signatures, and SHA256SUMS in the forms of signify and minisign. */
#include "tests/unit/verify_fixture.h"

#include "base/hash.h"
#include "sign/countersign.h"
#include "sign/dsse.h"
#include "sign/minisign.h"
#include "sign/statement.h"
#include "sign/trust.h"

static struct rp_countersignature word(const char *role)
{
    struct rp_countersignature c = {
        .at = "2026-11-21T06:27:54Z", .program = "repro 0.1.0", .note = "looked at \xc3\xa9verything"};
    snprintf(c.role, sizeof c.role, "%s", role);
    return c;
}

static void put(struct rp_bundle *b, int number, const char *envelope, size_t size, const char *key)
{
    RP_BUF pem = {0};
    RP_FREE char *name = rp_asprintf("signatures/%d.dsse.json", number),
                 *key_name = rp_asprintf("signatures/%d.pem", number);
    FX_KEY *k = fx_key(key);
    rp_key_public_pem(k, &pem);
    fx_add(b, name, envelope, size);
    fx_add(b, key_name, pem.data, pem.size);
}

static void countersign(struct rp_bundle *b, int number, const char *key, const char *role)
{
    struct rp_err err;
    RP_BUF envelope = {0};
    struct rp_countersignature c = word(role);
    FX_KEY *k = fx_key(key);
    CHECK(rp_countersign_seal(&envelope, &c, &rp_bundle_find(b, "statement.dsse.json")->bytes, k, &err) == 0, "%s",
          err.msg);
    put(b, number, envelope.data, envelope.size, key);
}

static void fingerprint(const char *key, char print[RP_FINGERPRINT_SIZE])
{
    FX_KEY *k = fx_key(key);
    rp_key_fingerprint(k, print);
}

/* A replication is named by a replicator, by a digest; the text says who only claims a role. */
TEST(a_replicator_names_a_replication)
{
    static const struct {
        const char *role, *replication;
        int sealed, says; /* without the replication; it is sealed and named only by a replicator */
    } cases[] = {
        {"replicator", "", 1, 1}, {"reviewer", "", 1, 0}, {"author", "", 1, 1},
        {"replicator", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 1, 1},
        {"reviewer", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 0, 0},
        {"replicator", "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", 0, 0},
        {"replicator", "0123", 0, 0},
    };
    FX_KEY *k = fx_key("bob");
    struct rp_buf of = {.data = (char *)"x", .size = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_countersignature c = word(cases[i].role), back;
        struct rp_err err = {0};
        RP_BUF envelope = {0};
        snprintf(c.replication, sizeof c.replication, "%s", cases[i].replication);
        int sealed = rp_countersign_seal(&envelope, &c, &of, k, &err) == 0;
        CHECK(sealed == cases[i].sealed && (sealed || err.code == RP_USAGE), "case %zu: %s", i, err.msg);
        if (!sealed)
            continue;
        CHECK(rp_countersign_open(&back, envelope.data, envelope.size, &of, k, &err) == 0, "case %zu: %s", i, err.msg);
        CHECK_STR(back.replication, cases[i].replication);
        struct rp_countersigned_answer row = {.role = back.role,
                                              .fingerprint = (char *)"SHA256:x",
                                              .replication = *back.replication ? back.replication : NULL};
        CHECK(rp_countersign_says(&row) == cases[i].says, "case %zu", i);
        RP_BUF text = {0};
        rp_countersign_text(&text, &row);
        SAID(text.data);
        if (!*back.replication)
            continue;
        RP_BUF replayed = {0};
        row.replicated = 1;
        CHECK(!rp_countersign_says(&row), "a replication that was replayed");
        rp_countersign_text(&replayed, &row);
        SAID(replayed.data);
    }
}

TEST(every_signature_is_listed_and_the_authors_key_decides)
{
    struct rp_bundle b;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    struct rp_err err;
    char author[RP_FINGERPRINT_SIZE], bob[RP_FINGERPRINT_SIZE];
    RP_FREE char *path = fx_path("signed");
    fx_dir();
    fingerprint("author", author);
    fingerprint("bob", bob);
    begin_amended(&b);
    countersign(&b, 0, "bob", "reviewer");
    countersign(&b, 1, "carol", "author"); /* may claim what she likes */
    countersign(&b, 2, "bob", "replicator");
    finish_amended(&b, "signed");
    accept("signed", NULL, RP_VERDICT_UNKNOWN_KEY);
    accept("signed", author, RP_VERDICT_VERIFIED);
    expect("signed", bob, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE);
    expect("signed", "SHA256:" FX_ROOT, RP_VERDICT_FAILED, RP_CHECK_key, RP_SIGNATURE);
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK_STR(v.fingerprint, author);
    CHECK(v.signatures->row_n == 3, "%lld", (long long)v.signatures->row_n);
    const struct rp_countersigned_answer *one = &v.signatures->row[1];
    CHECK_STR(one->role, "author");
    CHECK(one->valid && one->trusted == 0, "valid and not trusted");
    rp_verification_fini(&v);

    FX_KEY *k = fx_key("bob"), *a = fx_key("author");
    CHECK(rp_trust_add("bob", NULL, k, &err) == 0, "%s", err.msg);
    accept("signed", NULL, RP_VERDICT_UNKNOWN_KEY); /* whoever trusts bob does not know the author by that */
    expect_state_of("signed", RP_CHECK_countersignatures, RP_CHECK_PASSED);
    CHECK(rp_trust_add("alice", NULL, a, &err) == 0, "%s", err.msg);
    accept("signed", NULL, RP_VERDICT_VERIFIED);
    accept("signed", "bob", RP_VERDICT_VERIFIED);
    CHECK(rp_trust_remove("alice", &err) == 0 && rp_trust_remove("bob", &err) == 0, "%s", err.msg);
    begin_amended(&b);
    finish_amended(&b, "signed");
    expect_state_of("signed", RP_CHECK_countersignatures, RP_CHECK_NOT_APPLICABLE);
}

static void signed_wrong(struct rp_bundle *b, enum rp_code code)
{
    finish_amended(b, "signed");
    expect("signed", NULL, RP_VERDICT_FAILED, RP_CHECK_countersignatures, code);
}

/* The same key in other bytes would have another digest, and two signatures of one person would look like those of
 * two. */
TEST(key_of_a_countersignature_in_another_form_is_refused)
{
    static const char *const forms[][2] = {
        {"", "\n"}, {"bob's key\n", ""}, {"", "-----BEGIN PUBLIC KEY-----\n"}, {"", NULL}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct rp_bundle b;
        begin_amended(&b);
        countersign(&b, 0, "bob", "reviewer");
        struct rp_buf *pem = (struct rp_buf *)(uintptr_t)&rp_bundle_find(&b, "signatures/0.pem")->bytes;
        RP_BUF other = {0};
        rp_buf_printf(&other, "%s%s%s", forms[i][0], rp_buf_text(pem), forms[i][1] ? forms[i][1] : "");
        if (!forms[i][1])
            other.size--; /* without the line end */
        rp_buf_fini(pem);
        rp_buf_add(pem, other.data, other.size);
        signed_wrong(&b, RP_MALFORMED);
    }
}

/* The envelope of a payload that no honest program writes, by `key`. */
static void put_payload(struct rp_bundle *b, const char *key, json_t *statement)
{
    struct rp_err err;
    RP_BUF payload = {0}, envelope = {0};
    FX_KEY *k = fx_key(key);
    rp_json_write(&payload, statement);
    json_decref(statement);
    CHECK(rp_dsse_seal(&envelope, payload.data, payload.size, k, &err) == 0, "%s", err.msg);
    put(b, 0, envelope.data, envelope.size, key);
}

static json_t *honest(const struct rp_bundle *b)
{
    const struct rp_buf *of = &rp_bundle_find(b, "statement.dsse.json")->bytes;
    char hex[RP_SHA256_HEX];
    rp_sha256_hex(hex, of->data, of->size);
    return json_pack("{s:s, s:[{s:s, s:{s:s}}], s:s, s:{s:s, s:s, s:s, s:s}}", "_type", RP_STATEMENT_TYPE, "subject",
                     "name", "statement.dsse.json", "digest", "sha256", hex, "predicateType", RP_COUNTERSIGN_TYPE,
                     "predicate", "role", "reviewer", "note", "", "at", "2026-11-21T06:27:54Z", "program", "p");
}

static void refused_with(const char *path, json_t *value, enum rp_code code)
{
    struct rp_bundle b;
    begin_amended(&b);
    json_t *j = honest(&b);
    if (value)
        set_path(j, path, value);
    put_payload(&b, "bob", j);
    if (value) {
        signed_wrong(&b, code);
    } else {
        finish_amended(&b, "signed");
        accept("signed", NULL, RP_VERDICT_UNKNOWN_KEY);
    }
}

TEST(statements_about_a_bundle_have_one_form)
{
    refused_with(NULL, NULL, RP_OK);
    refused_with("predicateType", json_string("urn:repro:run:1"), RP_MALFORMED);
    refused_with("_type", json_string("https://in-toto.io/Statement/v0.1"), RP_MALFORMED);
    refused_with("predicate/role", json_string("owner"), RP_MALFORMED);
    refused_with("predicate/role", json_string("a role of more than fifteen bytes"), RP_MALFORMED);
    refused_with("predicate/role", json_null(), RP_MALFORMED);
    refused_with("predicate/at", json_string("2026-02-30T00:00:00Z"), RP_MALFORMED);
    refused_with("predicate/at", json_string("2026-11-21T24:00:00Z"), RP_MALFORMED);
    refused_with("predicate/at", json_string("yesterday"), RP_MALFORMED);
    refused_with("predicate/note", json_string("\033[2Jverified"), RP_MALFORMED);
    refused_with("predicate/note", json_string("line\nverified"), RP_MALFORMED);
    refused_with("predicate/note", json_string("a\xe2\x80\xae" "b"), RP_MALFORMED);
    refused_with("predicate/program", json_string("\xc2\x9b"), RP_MALFORMED);
    refused_with("predicate/more", json_true(), RP_MALFORMED);
    refused_with("more", json_true(), RP_MALFORMED);
    refused_with("predicate", json_string("x"), RP_MALFORMED);
    refused_with("subject", json_array(), RP_MALFORMED);
    refused_with("subject", json_pack("[{s:s, s:{s:s}}]", "name", "statement.dsse.json", "digest", "sha256", FX_ROOT),
                 RP_MISMATCH);
    RP_FREE char *huge = rp_alloc(601);
    memset(huge, 'a', 600);
    refused_with("predicate/note", json_string(huge), RP_MALFORMED);
}

TEST(words_that_are_no_statement)
{
    static const char *const payloads[] = {"[]", "\"x\"", "7", "{}", "", "{", "null"};
    FX_KEY *k = fx_key("bob");
    struct rp_buf of = {.data = (char *)"x", .size = 1};
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        struct rp_countersignature c;
        struct rp_err err = {0};
        RP_BUF envelope = {0};
        CHECK(rp_dsse_seal(&envelope, payloads[i], strlen(payloads[i]), k, &err) == 0, "%s", err.msg);
        CHECK(rp_countersign_open(&c, envelope.data, envelope.size, &of, k, &err) < 0 && err.code == RP_MALFORMED,
              "'%s': %s", payloads[i], err.msg);
    }
}

TEST(signatures_that_do_not_hold_fail_the_bundle)
{
    struct rp_bundle b;
    RP_BUF copy = {0};
    begin_amended(&b); /* the number 0 steps/rank0.telemetry.jsonl */
    countersign(&b, 1, "bob", "reviewer");
    signed_wrong(&b, RP_MALFORMED);
    begin_amended(&b); /* no key beside it */
    countersign(&b, 0, "bob", "reviewer");
    rp_buf_add(&copy, rp_bundle_find(&b, "signatures/0.dsse.json")->bytes.data,
               rp_bundle_find(&b, "signatures/0.dsse.json")->bytes.size);
    rp_bundle_fini(&b);
    begin_amended(&b);
    fx_add(&b, "signatures/0.dsse.json", copy.data, copy.size);
    signed_wrong(&b, RP_MALFORMED);
    begin_amended(&b); /* somebody else's key beside it */
    put(&b, 0, copy.data, copy.size, "carol");
    signed_wrong(&b, RP_SIGNATURE);
    FX(x); /* one that was made for another bundle: the fixture's records differ then */
    x.recipe.source.data[3] ^= 1;
    fx_seal(&x, "author", "sealed");
    RP_FREE char *path = fx_path("sealed");
    struct rp_err err;
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    put(&b, 0, copy.data, copy.size, "bob");
    signed_wrong(&b, RP_MISMATCH);
    begin_amended(&b);
    countersign(&b, 0, "bob", "reviewer");
    countersign(&b, 1, "bob", "reviewer");
    signed_wrong(&b, RP_MALFORMED);
    begin_amended(&b);
    countersign(&b, 0, "author", "reviewer");
    signed_wrong(&b, RP_MALFORMED);
    begin_amended(&b);
    for (int i = 0; i <= RP_COUNTERSIGN_MAX; i++)
        put(&b, i, "x", 1, "bob");
    signed_wrong(&b, RP_MALFORMED);
}

TEST(no_byte_of_a_counter_signature_changes_unnoticed)
{
    struct rp_err err;
    struct rp_countersignature c = word("reviewer"), back;
    RP_BUF envelope = {0}, of = {0};
    FX_KEY *k = fx_key("bob");
    rp_buf_puts(&of, "{}\n");
    CHECK(rp_countersign_seal(&envelope, &c, &of, k, &err) == 0 &&
              rp_countersign_open(&back, envelope.data, envelope.size, &of, k, &err) == 0,
          "%s", err.msg);
    CHECK_STR(back.note, c.note);
    for (size_t i = 0; i < envelope.size; i++) {
        envelope.data[i] ^= (char)(1 << i % 8);
        CHECK(rp_countersign_open(&back, envelope.data, envelope.size, &of, k, &err) < 0, "byte %zu", i);
        envelope.data[i] ^= (char)(1 << i % 8);
    }
}

/* ---- SHA256SUMS in two more forms ---- */

typedef int sign_fn(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, struct rp_err *err);

static int minisign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, struct rp_err *err)
{
    return rp_minisign_sign(out, k, data, size, "SHA256SUMS", err);
}

/* A form in which `key` signed SHA256SUMS, or what stands for it. */
static void add_form(struct rp_bundle *b, const char *name, sign_fn *sign, const char *key, const char *instead)
{
    struct rp_err err;
    RP_BUF form = {0};
    FX_KEY *k = fx_key(key);
    const struct rp_buf *sums = &rp_bundle_find(b, "SHA256SUMS")->bytes;
    CHECK(sign(&form, k, instead ? instead : sums->data, instead ? strlen(instead) : sums->size, &err) == 0, "%s",
          err.msg);
    fx_add(b, name, form.data, form.size);
}

struct form {
    sign_fn *sign;
    const char *key, *instead;
};

/* The bundle with these two (NULL: without), signed again by the author as a whole. */
static void with_forms(const struct form *sig, const struct form *minisig)
{
    struct rp_bundle b, bent = {0};
    static struct rp_subject subject[RP_BUNDLE_MEMBERS_MAX];
    struct rp_err err;
    char hex[RP_SHA256_HEX];
    RP_BUF payload = {0}, envelope = {0};
    FX_KEY *k = fx_key("author");
    begin_amended(&b);
    for (int i = 0; i < b.n; i++)
        if (strncmp(b.member[i].name, "SHA256SUMS.", 11) != 0 && strcmp(b.member[i].name, "statement.dsse.json") != 0)
            fx_add(&bent, b.member[i].name, b.member[i].bytes.data, b.member[i].bytes.size);
    if (sig)
        add_form(&bent, "SHA256SUMS.sig", sig->sign, sig->key, sig->instead);
    if (minisig)
        add_form(&bent, "SHA256SUMS.minisig", minisig->sign, minisig->key, minisig->instead);
    const struct rp_buf *facts = &rp_bundle_find(&b, "facts.json")->bytes,
                        *run = &rp_bundle_find(&b, "run.json")->bytes;
    rp_sha256_hex(hex, run->data, run->size);
    int n = rp_bundle_subjects(&bent, subject);
    RP_JSON *said = rp_json_parse(facts->data, facts->size, "facts.json", &err),
            *doc = rp_json_parse(run->data, run->size, "run.json", &err);
    RP_JSON *statement = rp_statement(subject, n, rp_statement_predicate(said, doc, hex));
    rp_json_write(&payload, statement);
    CHECK(rp_dsse_seal(&envelope, payload.data, payload.size, k, &err) == 0, "%s", err.msg);
    fx_add(&bent, "statement.dsse.json", envelope.data, envelope.size);
    rp_bundle_fini(&b);
    finish_amended(&bent, "signed");
}

TEST(both_forms_are_by_the_key_that_signed_the_statement)
{
    static const struct form sig = {rp_signify_sign, "author", NULL}, minisig = {minisign, "author", NULL};
    static const struct {
        struct form sig, minisig;
        enum rp_code code;
    } bad[] = {
        {{rp_signify_sign, "stranger", NULL}, {minisign, "author", NULL}, RP_SIGNATURE},
        {{rp_signify_sign, "author", NULL}, {minisign, "stranger", NULL}, RP_SIGNATURE},
        {{rp_signify_sign, "author", "x"}, {minisign, "author", NULL}, RP_SIGNATURE},
        {{rp_signify_sign, "author", NULL}, {minisign, "author", "x"}, RP_SIGNATURE},
        {{minisign, "author", NULL}, {minisign, "author", NULL}, RP_MALFORMED},
        {{rp_signify_sign, "author", NULL}, {rp_signify_sign, "author", NULL}, RP_MALFORMED},
    };
    with_forms(&sig, &minisig);
    expect_state_of("signed", RP_CHECK_stock_signatures, RP_CHECK_PASSED);
    with_forms(&sig, NULL);
    expect("signed", NULL, RP_VERDICT_FAILED, RP_CHECK_container, RP_MALFORMED);
    with_forms(NULL, &minisig);
    expect("signed", NULL, RP_VERDICT_FAILED, RP_CHECK_container, RP_MALFORMED);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        with_forms(&bad[i].sig, &bad[i].minisig);
        expect("signed", NULL, RP_VERDICT_FAILED, RP_CHECK_stock_signatures, bad[i].code);
    }
}
