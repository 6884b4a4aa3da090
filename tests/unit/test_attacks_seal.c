/* Attacks on what is signed and by whom: envelope, statement, key, sums, and statements that were signed for something
 * else. */
#include "tests/unit/attack.h"

#include "verify/provenance.h"

#define DSSE "statement.dsse.json"
#define ZEROS43 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

/* ---- bytes changed after signing ---- */

static const struct bend changed[] = {
    {"run.json changed and nothing else", "run.json", "\"device\"", "\"devic3\"", LEFT, RP_CHECK_digests, 5},
    {"facts.json changed and nothing else", "facts.json", "\"complete\"", "\"complet3\"", LEFT, RP_CHECK_digests, 5},
    {"a byte of a record", "steps/rank0.jsonl", "\"tokens\":5", "\"tokens\":6", LEFT, RP_CHECK_digests, 5},
    {"a record more", "steps/rank0.jsonl", "", "{}\n", LEFT, RP_CHECK_digests, 5},
    {"no records", "steps/rank0.jsonl", "^", "\n", LEFT, RP_CHECK_digests, 5},
    {"a faster machine in a capture", "env/node0.before.json", "A | B", "B | B", LEFT, RP_CHECK_digests, 5},
    {"another recipe", "recipe.yaml", "tiny", "huge", LEFT, RP_CHECK_digests, 5},
    {"a script that says OK", "verify.sh", "set -eu", "exit 0", LEFT, RP_CHECK_digests, 5},
    {"sums that fit something else", "SHA256SUMS", "^", "#", LEFT, RP_CHECK_digests, 5},
    {"a signify signature changed", "SHA256SUMS.sig", "", "\n", LEFT, RP_CHECK_digests, 5},
    {"a minisign signature changed", "SHA256SUMS.minisig", "\ntrusted comment: ", "\ntrusted comment: x", LEFT,
     RP_CHECK_digests, 5},

    /* ---- the envelope ---- */
    {"a payload key twice", DSSE, "\"payloadType\"", "\"payload\": \"e30=\",\n  \"payloadType\"", LEFT,
     RP_CHECK_signature, 4},
    {"a payload type twice", DSSE, "\"signatures\"", "\"payloadType\": \"text/plain\",\n  \"signatures\"", LEFT,
     RP_CHECK_signature, 4},
    {"a signature key twice", DSSE, "\"sig\"", "\"sig\": \"" ZEROS43 ZEROS43 "==\",\n      \"sig\"", LEFT,
     RP_CHECK_signature, 4},
    {"a key id twice", DSSE, "\"keyid\"", "\"keyid\": \"\",\n      \"keyid\"", LEFT, RP_CHECK_signature, 4},
    {"one more field", DSSE, "\"payload\"", "\"a\": 1,\n  \"payload\"", LEFT, RP_CHECK_signature, 4},
    {"one more field of the signature", DSSE, "\"sig\"", "\"public\": \"\",\n      \"sig\"", LEFT, RP_CHECK_signature,
     4},
    {"a Cyrillic letter in a key", DSSE, "\"payload\"", "\"p\xd0\xb0yload\"", LEFT, RP_CHECK_signature, 4},
    {"both, the Cyrillic one first", DSSE, "\"payload\"", "\"p\xd0\xb0yload\": \"e30=\",\n  \"payload\"", LEFT,
     RP_CHECK_signature, 4},
    {"a zero-width blank in a key", DSSE, "\"sig\"", "\"sig\xe2\x80\x8b\"", LEFT, RP_CHECK_signature, 4},
    {"an escaped letter in a key", DSSE, "\"payload\"", "\"p\\u0061yload\"", LEFT, RP_CHECK_signature, 4},
    {"an escaped slash", DSSE, "application/vnd", "application\\/vnd", LEFT, RP_CHECK_signature, 4},
    {"another payload type", DSSE, "application/vnd.in-toto+json", "application/json", LEFT, RP_CHECK_signature, 4},
    {"a payload type in capitals", DSSE, "application/vnd", "Application/vnd", LEFT, RP_CHECK_signature, 4},
    {"a payload type with an end inside", DSSE, "in-toto+json", "in-toto+json\\u0000", LEFT, RP_CHECK_signature, 4},
    {"a payload that is a number", DSSE, "\"payload\": \"", "\"payload\": 1, \"x\": \"", LEFT, RP_CHECK_signature, 4},
    {"a payload that is NaN", DSSE, "\"payload\": \"", "\"payload\": NaN, \"x\": \"", LEFT, RP_CHECK_signature, 4},
    {"a payload beyond all numbers", DSSE, "\"payload\": \"", "\"payload\": 1e999, \"x\": \"", LEFT, RP_CHECK_signature,
     4},
    {"an empty payload", DSSE, "/payload", "\"\"", LEFT, RP_CHECK_signature, 4},
    {"a payload of two bytes", DSSE, "/payload", "\"e30=\"", LEFT, RP_CHECK_signature, 6},
    {"a blank in the payload", DSSE, "\"payload\": \"", "\"payload\": \" ", LEFT, RP_CHECK_signature, 4},
    {"a line break in the payload", DSSE, "\"payload\": \"ew", "\"payload\": \"e\\nw", LEFT, RP_CHECK_signature, 4},
    {"base64 for URLs", DSSE, "\"payload\": \"ew", "\"payload\": \"-w", LEFT, RP_CHECK_signature, 4},
    {"a changed payload", DSSE, "\"payload\": \"ew", "\"payload\": \"fw", LEFT, RP_CHECK_signature, 6},
    {"no signature", DSSE, "/signatures", "[]", LEFT, RP_CHECK_signature, 4},
    {"a signature that is none", DSSE, "/signatures/0", "null", LEFT, RP_CHECK_signature, 4},
    {"two signatures", DSSE, "\"signatures\": [", "\"signatures\": [{\"keyid\": \"\", \"sig\": \"\"},", LEFT,
     RP_CHECK_signature, 4},
    {"a signature of zeros", DSSE, "/signatures/0/sig", "\"" ZEROS43 ZEROS43 "==\"", LEFT, RP_CHECK_signature, 6},
    {"a signature of 66 bytes", DSSE, "/signatures/0/sig", "\"" ZEROS43 ZEROS43 "AA\"", LEFT, RP_CHECK_signature, 4},
    {"an empty signature", DSSE, "/signatures/0/sig", "\"\"", LEFT, RP_CHECK_signature, 4},
    {"a signature without padding", DSSE, "==\"\n", "\"\n", LEFT, RP_CHECK_signature, 4},
    {"no key id", DSSE, "/signatures/0/keyid", NULL, LEFT, RP_CHECK_signature, 4},
    {"an empty key id", DSSE, "/signatures/0/keyid", "\"\"", LEFT, RP_CHECK_signature, 6},
    {"somebody else's key id", DSSE, "/signatures/0/keyid", "\"SHA256:" FX_ROOT "\"", LEFT, RP_CHECK_signature, 6},
    {"a key id that clears the screen", DSSE, "/signatures/0/keyid", "\"\\u001b[2Jverified\"", LEFT, RP_CHECK_signature,
     6},
    {"a key id of a thousand bytes", DSSE, "/signatures/0/keyid", "\"" FX_ROOT FX_ROOT "\"", LEFT, RP_CHECK_signature,
     4},
    {"an envelope that is a list", DSSE, "^", "[", LEFT, RP_CHECK_signature, 4},
    {"two envelopes", DSSE, "", "{}\n", LEFT, RP_CHECK_signature, 4},
    {"a byte order mark", DSSE, "^", "\xef\xbb\xbf", LEFT, RP_CHECK_signature, 4},
    {"a comment", DSSE, "^", "// signed\n", LEFT, RP_CHECK_signature, 4},
    {"a trailing comma", DSSE, "\n  ]\n", "\n  ],\n", LEFT, RP_CHECK_signature, 4},
    {"a blank line at the end", DSSE, "", "\n", LEFT, RP_CHECK_signature, 4},
    {"carriage returns", DSSE, "\n", "\r\n", LEFT, RP_CHECK_signature, 4},

    /* ---- the key ---- */
    {"no key", "key.pem", "-----BEGIN PUBLIC KEY-----", "", LEFT, RP_CHECK_signature, 4},
    {"a secret key", "key.pem", "BEGIN PUBLIC", "BEGIN PRIVATE", LEFT, RP_CHECK_signature, 4},
    {"text before the key", "key.pem", "^", "signed by the authors\n", LEFT, RP_CHECK_signature, 4},
    {"text after the key", "key.pem", "", "trusted\n", LEFT, RP_CHECK_signature, 4},
    {"a key of another kind", "key.pem", "MCowBQYDK2Vw", "MCowBQYDK2Vu", LEFT, RP_CHECK_signature, 4},
    {"a key in other line ends", "key.pem", "KEY-----\n", "KEY-----\r\n", LEFT, RP_CHECK_signature, 4},
};

TEST(attacks_after_signing)
{
    ATTACKS(changed);
}

/* ---- statements that the attacker writes and signs ---- */

static const struct bend statements[] = {
    {"an older statement", "", "in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1", ENVELOPE, RP_CHECK_statement, 4},
    {"a statement about a build", "", "/predicateType", "\"https://slsa.dev/provenance/v1\"", ENVELOPE,
     RP_CHECK_statement, 4},
    {"a predicate of yesterday", "", "/predicateType", "\"urn:repro:run:3\"", ENVELOPE, RP_CHECK_statement, 11},
    {"a predicate of the day before", "", "/predicateType", "\"urn:repro:run:2\"", ENVELOPE, RP_CHECK_statement, 11},
    {"the first predicate of all", "", "/predicateType", "\"urn:repro:run:1\"", ENVELOPE, RP_CHECK_statement, 11},
    {"a predicate of tomorrow", "", "/predicateType", "\"urn:repro:run:5\"", ENVELOPE, RP_CHECK_statement, 11},
    {"a predicate twice", "", "\"predicate\"", "\"predicate\": {},\n  \"predicate\"", ENVELOPE, RP_CHECK_statement, 4},
    {"subjects twice", "", "\"subject\"", "\"subject\": [],\n  \"subject\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a digest twice in one subject", "", "\"sha256\"", "\"sha256\": \"" FX_ROOT "\",\n        \"sha256\"", ENVELOPE,
     RP_CHECK_statement, 4},
    {"a digest by another function", "", "/subject/0/digest/sha512", "\"" FX_ROOT "\"", ENVELOPE, RP_CHECK_statement,
     4},
    {"a SHA-1", "", "/subject/0/digest", "{\"sha1\": \"da39a3ee5e6b4b0d3255bfef95601890afd80709\"}", ENVELOPE,
     RP_CHECK_statement, 4},
    {"a digest in capitals", "", "/subject/0/digest/sha256",
     "\"FF112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a digest with a digit less", "", "/subject/0/digest/sha256",
     "\"0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a digest of something else", "", "/subject/0/digest/sha256", "\"" FX_ROOT "\"", ENVELOPE, RP_CHECK_digests, 5},
    {"a subject less", "", "/subject/0", NULL, ENVELOPE, RP_CHECK_digests, 5},
    {"no subjects", "", "/subject", "[]", ENVELOPE, RP_CHECK_statement, 4},
    {"a subject that is not there", "", "/subject/0/name", "\"steps/rank7.jsonl\"", ENVELOPE, RP_CHECK_digests, 5},
    {"a subject in another case", "", "/subject/0/name", "\"Run.json\"", ENVELOPE, RP_CHECK_digests, 5},
    {"a subject that leads out", "", "/subject/0/name", "\"../run.json\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a subject in Cyrillic", "", "/subject/0/name", "\"run.js\xd0\xben\"", ENVELOPE, RP_CHECK_statement, 4},
    {"one subject twice", "", "/subject/1", "{\"digest\": {\"sha256\": \"" FX_ROOT "\"}, \"name\": \"facts.json\"}",
     ENVELOPE, RP_CHECK_digests, 4},
    {"a subject with an address", "", "/subject/0/uri", "\"http://example.org/\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a field beside the predicate", "", "/note", "\"trust me\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a claim beside the figures", "", "/predicate/certified", "true", ENVELOPE, RP_CHECK_statement, 4},
    {"a faster run in the statement", "", "/predicate/throughput/value", "1000.5", ENVELOPE, RP_CHECK_predicate, 5},
    {"a speed that is no number", "", "/predicate/throughput/value", "\"1000\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a narrower interval", "", "/predicate/throughput/interval", "[38.8, 38.9]", ENVELOPE, RP_CHECK_predicate, 5},
    {"a better loss", "", "/predicate/loss_last/hex", "\"0x1p-3\"", ENVELOPE, RP_CHECK_predicate, 5},
    {"a better loss beside its bits", "", "/predicate/loss_last/value", "0.125", ENVELOPE, RP_CHECK_predicate, 5},
    {"a loss without its bits", "", "/predicate/loss_last", "0.125", ENVELOPE, RP_CHECK_statement, 4},
    {"another state", "", "/predicate/state_root_last",
     "\"ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"", ENVELOPE, RP_CHECK_predicate, 5},
    {"no figure of the speed", "", "/predicate/throughput/value", NULL, ENVELOPE, RP_CHECK_statement, 4},
    {"another model in the statement", "", "/predicate/model", "\"gpt\"", ENVELOPE, RP_CHECK_predicate, 5},
    {"a status that the facts have not", "", "/predicate/status", "\"failed\"", ENVELOPE, RP_CHECK_predicate, 5},
    {"another run.json", "", "/predicate/run_sha256", "\"" FX_ROOT "\"", ENVELOPE, RP_CHECK_predicate, 5},
    {"another program", "", "/predicate/tool/version", "\"9.9.9\"", ENVELOPE, RP_CHECK_predicate, 5},
    {"other arithmetic", "", "/predicate/numerics", "\"repro-fp64/1\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a status of one's own", "", "/predicate/status", "\"certified\"", ENVELOPE, RP_CHECK_statement, 4},
    {"NaN in the statement", "", "\"value\": ", "\"value\": NaN, \"x\": ", ENVELOPE, RP_CHECK_statement, 4},
    {"infinity in the statement", "", "\"value\": ", "\"value\": Infinity, \"x\": ", ENVELOPE, RP_CHECK_statement, 4},
    {"a number beyond double", "", "\"value\": ", "\"value\": 1e400, \"x\": ", ENVELOPE, RP_CHECK_statement, 4},
    {"an integer beyond 64 bits", "", "\"value\": ", "\"value\": 99999999999999999999, \"x\": ", ENVELOPE,
     RP_CHECK_statement, 4},
    {"a blank more", "", "\n", " \n", ENVELOPE, RP_CHECK_statement, 4},
    {"no end of the last line", "", "\n}\n", "\n}", ENVELOPE, RP_CHECK_statement, 4},
    {"a number spelled longer", "", "\"value\": ", "\"value\": 0", ENVELOPE, RP_CHECK_statement, 4},
    {"a statement that is a text", "", "^", "\"", ENVELOPE, RP_CHECK_statement, 4},
    {"a statement in Latin-1", "", "complete", "compl\xe9te", ENVELOPE, RP_CHECK_statement, 4},

    /* ---- beside the statement, signed by the attacker ---- */
    {"sums that lie", "SHA256SUMS", "^", "00", SEALED, RP_CHECK_helper_files, 5},
    {"sums of nothing", "SHA256SUMS", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  x\n",
     SEALED, RP_CHECK_helper_files, 5},
    {"sums with an escape of sha256sum", "SHA256SUMS", "^", "\\", SEALED, RP_CHECK_helper_files, 5},
    {"a signify signature of something else", "SHA256SUMS.sig", "", "x", SEALED, RP_CHECK_stock_signatures, 4},
    {"a minisign comment that was not signed", "SHA256SUMS.minisig", "\ntrusted comment: ", "\ntrusted comment: x",
     SEALED, RP_CHECK_stock_signatures, 6},
    {"a script that says OK, signed", "verify.sh", "set -eu", "exit 0", SEALED,
     KEY_ALONE}, /* a note: older versions wrote others */
};

TEST(attacks_by_statements)
{
    ATTACKS(statements);
    expect_state_of("attack", RP_CHECK_helper_files, RP_CHECK_NOTE); /* of the last row */
}

/* ---- signatures made for something else ---- */

static void open_honest(struct fx *x, struct rp_bundle *b, const char *key)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("attack");
    fx_seal(x, key, "attack");
    CHECK(rp_bundle_open(b, path, &err) == 0, "%s", err.msg);
}

TEST(a_member_more)
{
    FX_KEY *key = fx_key("signer");
    for (int listed = 0; listed < 2; listed++) {
        struct rp_bundle b;
        FX(x);
        open_honest(&x, &b, "signer");
        fx_add(&b, "steps/rank1.jsonl", "{}\n", 3);
        if (listed) {
            attack_sums(&b, "", key);
            attack_sign(&b, x.facts, x.run, NULL, key);
        }
        attack_pack(&b);
        if (listed)
            attack_expect("records of a rank that does not exist", NULL, RP_CHECK_schema, 4);
        else
            attack_expect("a member that nobody signed", NULL, RP_CHECK_digests, 5);
        rp_bundle_fini(&b);
    }
}

/* A statement of the attacker's own instead of the honest one. */
static void state_instead(struct rp_bundle *b, const struct rp_key_pair *key, json_t *statement)
{
    RP_BUF payload = {0};
    rp_json_write(&payload, statement);
    json_decref(statement);
    attack_sign(b, NULL, NULL, &payload, key);
    attack_pack(b);
}

TEST(statements_of_another_form)
{
    static const struct {
        const char *name, *statement;
    } rows[] = {
        {"a list", "[]"},
        {"subjects that are texts", "{\"_type\": \"https://in-toto.io/Statement/v1\", \"subject\": [\"run.json\"]}"}};
    FX_KEY *key = fx_key("signer");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rp_bundle b;
        FX(x);
        open_honest(&x, &b, "signer");
        state_instead(&b, key, json_loads(rows[i].statement, 0, NULL));
        attack_expect(rows[i].name, NULL, RP_CHECK_statement, 4);
        rp_bundle_fini(&b);
    }
}

TEST(subjects_in_another_order)
{
    struct rp_err err;
    struct rp_bundle b;
    struct rp_envelope e;
    FX_KEY *key = fx_key("signer");
    FX(x);
    open_honest(&x, &b, "signer");
    const struct rp_buf *is = attack_bytes(&b, DSSE);
    CHECK(rp_dsse_parse(&e, is->data, is->size, &err) == 0, "%s", err.msg);
    json_t *statement = rp_json_parse(e.payload.data, e.payload.size, DSSE, &err),
           *subject = json_object_get(statement, "subject");
    json_array_append(subject, json_array_get(subject, 0));
    json_array_remove(subject, 0);
    rp_envelope_fini(&e);
    state_instead(&b, key, statement);
    attack_expect("the first subject last", NULL, RP_CHECK_digests, 5);
    rp_bundle_fini(&b);
}

static void swap_members(struct rp_bundle *a, struct rp_bundle *b, const char *name)
{
    struct rp_buf *p = attack_bytes(a, name), *q = attack_bytes(b, name), t = *p;
    *p = *q;
    *q = t;
}

/* Two bundles of one signer, the second of a run that was slower, and of two. */
TEST(attacks_by_replay)
{
    static const struct {
        const char *name, *second, *members[3];
        enum rp_check_id check;
        int status;
    } rows[] = {
        {"the statement of another bundle", "signer", {DSSE}, RP_CHECK_digests, 5},
        {"statement and sums of another bundle", "signer", {DSSE, "SHA256SUMS"}, RP_CHECK_digests, 5},
        {"facts.json of another bundle", "signer", {"facts.json"}, RP_CHECK_digests, 5},
        {"facts.json and run.json of another bundle", "signer", {"facts.json", "run.json"}, RP_CHECK_digests, 5},
        {"statement and run.json of another bundle", "signer", {DSSE, "run.json"}, RP_CHECK_digests, 5},
        {"records of another bundle", "signer", {"steps/rank0.jsonl"}, RP_CHECK_digests, 5},
        {"the capture of another bundle", "signer", {"env/node0.after.json"}, RP_CHECK_digests, 5},
        {"somebody else's key", "attacker", {"key.pem"}, RP_CHECK_signature, 6},
        {"somebody else's statement", "attacker", {DSSE}, RP_CHECK_signature, 6},
        {"somebody else's statement and key", "attacker", {DSSE, "key.pem"}, RP_CHECK_digests, 5},
        {"somebody else's signature of the sums", "attacker", {"SHA256SUMS.sig"}, RP_CHECK_digests, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fx x, y;
        struct rp_bundle a, b;
        fx_init(&x);
        fx_init(&y);
        memcpy(strstr(y.steps.data, "\"tokens\":5"), "\"tokens\":6", 10);
        json_object_set_new(y.after, "captured_at", json_string("2026-09-21T14:13:24Z"));
        y.done = json_pack("{s:i}", "peak_rss_bytes", 23456789);
        fx_compute(&y);
        open_honest(&x, &a, "signer");
        open_honest(&y, &b, rows[i].second);
        for (int k = 0; k < 3 && rows[i].members[k]; k++)
            swap_members(&a, &b, rows[i].members[k]);
        attack_pack(&a);
        attack_expect(rows[i].name, NULL, rows[i].check, rows[i].status);
        rp_bundle_fini(&a);
        rp_bundle_fini(&b);
        fx_fini(&x);
        fx_fini(&y);
    }
}

/* Ed25519 is S modulo L: the same signature with S + L must not pass, or there are two. */
TEST(attacks_on_the_mathematics)
{
    static const unsigned char l[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,       0xd6,
                                        0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
    static const char identity[] =
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC "
        "KEY-----\n";
    struct rp_bundle b;
    struct rp_envelope e;
    struct rp_err err;
    RP_BUF sig = {0}, quoted = {0};
    FX(x);
    open_honest(&x, &b, "signer");
    struct rp_buf *is = attack_bytes(&b, DSSE);
    CHECK(rp_dsse_parse(&e, is->data, is->size, &err) == 0, "%s", err.msg);
    unsigned carry = 0;
    for (int i = 0; i < 32; i++) {
        carry += e.sig[32 + i] + l[i];
        e.sig[32 + i] = (unsigned char)carry;
        carry >>= 8;
    }
    rp_base64(&sig, e.sig, 64);
    rp_buf_printf(&quoted, "\"%s\"", sig.data);
    struct bend row = {"a signature with S + L", DSSE, "/signatures/0/sig", quoted.data, LEFT, RP_CHECK_signature, 6};
    bend_bytes(is, &row);
    attack_pack(&b);
    attack_expect(row.name, NULL, row.check, row.status);

    /* the key that is the neutral element: R neutral and S zero would fit every message */
    rp_buf_fini(attack_bytes(&b, "key.pem"));
    rp_buf_puts(attack_bytes(&b, "key.pem"), identity);
    struct rp_key_pair *key = rp_key_load_public(identity, sizeof identity - 1, "key.pem", &err);
    memset(e.sig, 0, sizeof e.sig);
    e.sig[0] = 1;
    if (key) {
        RP_BUF again = {0};
        char print[RP_FINGERPRINT_SIZE];
        rp_key_fingerprint(key, print);
        rp_buf_fini(&sig);
        rp_base64(&sig, e.sig, 64);
        rp_buf_fini(&quoted);
        rp_buf_printf(&quoted, "\"%s\"", print);
        struct bend id = {"keyid", DSSE, "/signatures/0/keyid", quoted.data, LEFT, RP_CHECK_signature, 6};
        bend_bytes(is, &id);
        rp_buf_printf(&again, "\"%s\"", sig.data);
        row.is = again.data;
        bend_bytes(is, &row);
        rp_key_free(key);
    }
    attack_pack(&b);
    attack_expect("a key that every message fits", NULL, RP_CHECK_signature, key ? 6 : 4);
    rp_envelope_fini(&e);
    rp_bundle_fini(&b);
}

/* A release of one small file, which its statement names once, or twice. */
TEST(a_release_that_names_a_file_twice)
{
    static const char subject[] = "{\"name\": \"file\", \"digest\": {\"sha256\": "
                                  "\"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\"}}"; /* of "x" */
    fx_dir();
    FX_KEY *key = fx_key("signer");
    RP_FREE char *path = fx_path("release.json"), *file = fx_path("file"), *pem = fx_path("key.pem");
    RP_BUF public = {0};
    struct rp_err err = {0};
    rp_key_public_pem(key, &public);
    CHECK(rp_write_file(file, "x", 1, 0644, &err) == 0 &&
              rp_write_file(pem, public.data, public.size, 0644, &err) == 0,
          "%s", err.msg);
    for (int twice = 0; twice < 2; twice++) {
        RP_BUF envelope = {0};
        json_t *document;
        RP_FREE char *statement = rp_asprintf("{\"_type\": \"https://in-toto.io/Statement/v1\", \"predicateType\": "
                                              "\"https://slsa.dev/provenance/v1\", \"subject\": [%s%s%s]}",
                                              subject, twice ? ", " : "", twice ? subject : "");
        CHECK(rp_dsse_seal(&envelope, statement, strlen(statement), key, &err) == 0 &&
                  rp_write_file(path, envelope.data, envelope.size, 0644, &err) == 0,
              "%s", err.msg);
        const int failed = rp_provenance_verify(&document, path, NULL, 1, &err) < 0;
        CHECK(failed == twice && (!twice || err.code == RP_MALFORMED), "%s", err.msg);
        if (twice)
            SAID(err.msg);
        json_decref(document);
    }
}
