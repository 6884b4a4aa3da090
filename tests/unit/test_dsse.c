/* Envelopes: the published encoding, one spelling, one signature. */
#include "tests/unit/bundle_fixture.h"

#include "sign/dsse.h"
#include "sign/statement.h"

TEST(pae_is_the_published_one)
{
    RP_BUF pae = {0}, empty = {0};
    rp_dsse_pae(&pae, "http://example.com/HelloWorld", "hello world", 11); /* from the DSSE protocol document */
    CHECK_STR(pae.data, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    rp_dsse_pae(&empty, "", "", 0);
    CHECK_STR(empty.data, "DSSEv1 0  0 ");
}

static const char payload[] = "{\n  \"a\": 1\n}\n";

static void envelope(struct rp_buf *out, const char *key)
{
    struct rp_err err;
    FX_KEY *k = fx_key(key);
    CHECK(rp_dsse_seal(out, payload, sizeof payload - 1, k, &err) == 0, "%s", err.msg);
}

static int opens(const char *text, size_t size, struct rp_key_pair *k, struct rp_err *err)
{
    struct rp_envelope e;
    int ok = rp_dsse_parse(&e, text, size, err) == 0;
    if (ok) {
        ok = rp_dsse_check(&e, k, err) == 0;
        rp_envelope_fini(&e);
    }
    return ok;
}

static int good(const char *text, size_t size, const char *key, struct rp_err *err)
{
    FX_KEY *k = fx_key(key);
    return opens(text, size, k, err);
}

TEST(a_sealed_envelope_opens_with_its_key_only)
{
    RP_BUF e = {0};
    struct rp_err err = {0};
    fx_dir();
    envelope(&e, "one");
    CHECK(good(e.data, e.size, "one", &err), "%s", err.msg);
    CHECK(!good(e.data, e.size, "two", &err) && err.code == RP_SIGNATURE, "%s", err.msg);
}

TEST(no_byte_of_an_envelope_changes_unnoticed)
{
    RP_BUF e = {0};
    struct rp_err err;
    envelope(&e, "one");
    FX_KEY *k = fx_key("one");
    CHECK(opens(e.data, e.size, k, &err), "%s", err.msg);
    for (size_t i = 0; i < e.size; i++)
        for (int mask = 1; mask < 256; mask = 2 * mask + (mask == 64)) { /* each bit, then 129 */
            e.data[i] = (char)(e.data[i] ^ mask);
            CHECK(!opens(e.data, e.size, k, &err), "byte %zu ^ %02x", i, (unsigned)mask);
            e.data[i] = (char)(e.data[i] ^ mask);
        }
    for (size_t n = 0; n < e.size; n++)
        CHECK(!opens(e.data, n, k, &err), "%zu of %zu bytes", n, e.size);
}

/* The envelope with its parts replaced; NULL leaves a part. */
static void expect_refused(json_t *j, enum rp_code code)
{
    RP_BUF text = {0};
    struct rp_err err = {0};
    rp_json_write(&text, j);
    json_decref(j);
    REFUSED(!good(text.data, text.size, "one", &err) && err.code == code, err.msg);
}

TEST(envelopes_of_another_form_are_refused)
{
    RP_BUF e = {0};
    struct rp_err err;
    envelope(&e, "one");
    RP_JSON *j = rp_json_parse(e.data, e.size, "e", &err);
    json_t *sig = json_array_get(json_object_get(j, "signatures"), 0), *c;
    const char *b64 = json_string_value(json_object_get(j, "payload"));
    CHECK(strchr(b64, '='), "the payload of this test needs padding: %s", b64);

    c = json_deep_copy(j);
    json_object_set_new(c, "payloadType", json_string("text/plain"));
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_array_append(json_object_get(c, "signatures"), sig);
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_array_clear(json_object_get(c, "signatures"));
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    for (int i = 0; i < 100000; i++)
        json_array_append(json_object_get(c, "signatures"), sig);
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_object_set_new(c, "extra", json_true());
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_object_del(c, "payload");
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_object_set_new(c, "payload", json_string(""));
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_object_set_new(json_array_get(json_object_get(c, "signatures"), 0), "keyid", json_string("SHA256:00"));
    expect_refused(c, RP_SIGNATURE);
    c = json_deep_copy(j);
    RP_FREE char *huge = rp_alloc(1 << 20);
    memset(huge, 'a', (1 << 20) - 1);
    json_object_set_new(json_array_get(json_object_get(c, "signatures"), 0), "keyid", json_string(huge));
    expect_refused(c, RP_MALFORMED);
    c = json_deep_copy(j);
    json_object_set_new(json_array_get(json_object_get(c, "signatures"), 0), "sig", json_string("AAAA"));
    expect_refused(c, RP_MALFORMED);
    expect_refused(json_array(), RP_MALFORMED);
    expect_refused(json_pack("{s:s%, s:s, s:[i]}", "payload", b64, strlen(b64), "payloadType", RP_DSSE_PAYLOAD_TYPE,
                             "signatures", 1),
                   RP_MALFORMED);
}

/* Other ways to write the same payload bytes in base64. */
TEST(base64_has_one_spelling)
{
    RP_BUF e = {0};
    struct rp_err err;
    envelope(&e, "one");
    RP_JSON *j = rp_json_parse(e.data, e.size, "e", &err);
    const char *b64 = json_string_value(json_object_get(j, "payload"));
    size_t n = strlen(b64), pad = n - strcspn(b64, "=");
    RP_FREE char *bare = rp_asprintf("%.*s", (int)(n - pad), b64);
    RP_FREE char *lines = rp_asprintf("%.4s\n%s", b64, b64 + 4);
    RP_FREE char *space = rp_asprintf("%s ", b64);
    RP_FREE char *more = rp_asprintf("%s====", b64);
    RP_FREE char *bits = rp_strdup(b64); /* unused bits of the last digit set */
    bits[n - pad - 1]++;
    const char *const variants[] = {bare, lines, space, more, bits};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        RP_JSON *c = json_deep_copy(j);
        RP_BUF text = {0};
        json_object_set_new(c, "payload", json_string(variants[i]));
        rp_json_write(&text, c);
        CHECK(!good(text.data, text.size, "one", &err) && err.code == RP_MALFORMED, "variant %zu: %s", i, err.msg);
    }
    FX_KEY *k = fx_key("one"); /* bytes that need + and / : the URL alphabet is another spelling */
    RP_BUF other = {0};
    CHECK(rp_dsse_seal(&other, "\xff\xef\xbe\xff\xef\xbe", 6, k, &err) == 0, "%s", err.msg);
    CHECK(good(other.data, other.size, "one", &err), "%s", err.msg);
    char *plus = strstr(other.data, "/+++");
    CHECK(plus, "expected /+++ in %s", other.data);
    if (plus)
        memcpy(plus, "_---", 4);
    CHECK(!good(other.data, other.size, "one", &err) && err.code == RP_MALFORMED, "%s", err.msg);
}

TEST(statement_subjects_are_bounded_and_unique)
{
    struct rp_subject s[3] = {{"a", FX_ROOT}, {"b", FX_ROOT}, {"c", FX_ROOT}}, back[3];
    struct rp_err err;
    RP_JSON *j = rp_statement(s, 3, json_object());
    CHECK(rp_statement_subjects(j, back, 3, &err) == 3 && strcmp(back[2].name, "c") == 0, "%s", err.msg);
    CHECK(rp_statement_subjects(j, back, 2, &err) < 0 && err.code == RP_MALFORMED,
          "three subjects where two are accepted");
    s[2].name = "a";
    RP_JSON *twice = rp_statement(s, 3, json_object());
    CHECK(rp_statement_subjects(twice, back, 3, &err) < 0 && strstr(err.msg, "twice"), "%s", err.msg);
    s[1].sha256[0] = 'G';
    RP_JSON *bad = rp_statement(s, 2, json_object());
    REFUSED(rp_statement_subjects(bad, back, 3, &err) < 0, err.msg);
    json_object_set_new(j, "_type", json_string("https://in-toto.io/Statement/v0.1"));
    CHECK(rp_statement_subjects(j, back, 3, &err) < 0 && strstr(err.msg, "_type"), "%s", err.msg);
}
