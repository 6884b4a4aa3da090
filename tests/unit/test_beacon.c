/* Signatures of the NIST beacon: a pulse and its certificate as published, pulses by a beacon of the test's own, and what others might
 * give. */
#include "tests/unit/verify_fixture.h"

#include "base/clock.h"
#include "base/text.h"
#include "sign/beacon.h"
#include "sign/public_value.h"
#include "verify/levels.h"

#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#define VECTORS "tests/vectors/public_values/"
#define PULSE_TIME "2026-09-21T14:13:00.000Z"
#define PULSE_SECONDS 1789999980ll

/* ---- a beacon ---- */

struct maker {
    EVP_PKEY *key;
    X509 *certificate;
};

static void maker_fini(struct maker *m)
{
    EVP_PKEY_free(m->key);
    X509_free(m->certificate);
}
#define MAKER __attribute__((cleanup(maker_fini))) struct maker

/* Valid from and until: seconds from the pulse. Takes the key. */
static struct maker make_beacon(EVP_PKEY *key, long from, long until)
{
    struct maker m = {key, X509_new()};
    X509_NAME *name = X509_get_subject_name(m.certificate);
    X509_set_version(m.certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(m.certificate), 4711);
    ASN1_TIME_set(X509_getm_notBefore(m.certificate), PULSE_SECONDS + from);
    ASN1_TIME_set(X509_getm_notAfter(m.certificate), PULSE_SECONDS + until);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)"a b\xc3\xa9" "acon", -1, -1, 0);
    X509_set_issuer_name(m.certificate, name);
    if (!X509_set_pubkey(m.certificate, key) || !X509_sign(m.certificate, key, EVP_sha256()))
        abort();
    return m;
}

static void add_certificate(struct rp_buf *pem, const struct maker *m)
{
    BIO *memory = BIO_new(BIO_s_mem());
    char *text;
    if (!PEM_write_bio_X509(memory, m->certificate))
        abort();
    rp_buf_add(pem, text, (size_t)BIO_get_mem_data(memory, &text));
    BIO_free(memory);
}

/* The only beacon whose key takes long to make. */
static const struct maker *own_beacon(void)
{
    static struct maker m;
    if (!m.key)
        m = make_beacon(EVP_RSA_gen(2048), -3600, 3600);
    return &m;
}

static void close_beacon(void)
{
    struct maker *m = (struct maker *)own_beacon();
    maker_fini(m);
    *m = (struct maker){0};
}

static void add_size(struct rp_buf *out, uint64_t v, int bytes)
{
    while (bytes-- > 0)
        rp_buf_add(out, &(unsigned char){(unsigned char)(v >> 8 * bytes)}, 1);
}

static void add_sized(struct rp_buf *out, const void *data, size_t size)
{
    add_size(out, size, 4);
    rp_buf_add(out, data, size);
}

static void hex_of(char *out, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        snprintf(out + 2 * i, 3, "%02X", ((const unsigned char *)data)[i]);
}

struct pulse_kind {
    const EVP_MD *digest; /* NULL: SHA-512 */
    int pss;
    const char *time;     /* NULL: PULSE_TIME */
    int damage;           /* of the random value, after it was signed */
};

/* As the beacon publishes it: NISTIR 8213 with the sizes that are deployed. */
static void make_pulse(struct rp_buf *out, const struct maker *m, const struct pulse_kind *k)
{
    static const char uri[] = "https://beacon.nist.gov/beacon/2.0/chain/3/pulse/77";
    unsigned char value[64], id[64], digest[64], signature[1024] = {0};
    char value_hex[129], id_hex[129], output_hex[129], signature_hex[2049];
    const char *time = k->time ? k->time : PULSE_TIME;
    RP_BUF text = {0};
    memset(value, 0x5a, sizeof value);
    X509_digest(m->certificate, EVP_sha512(), id, NULL);
    for (int pass = 0; pass < 2; pass++) { /* what is signed, and what is published */
        rp_buf_fini(&text);
        value[3] = pass && k->damage ? 0xa5 : 0x5a;
        add_sized(&text, uri, strlen(uri));
        add_sized(&text, "Version 2.0", 11);
        add_size(&text, 0, 4);
        add_size(&text, 60000, 4);
        add_sized(&text, id, sizeof id);
        add_size(&text, 3, 8);
        add_size(&text, 77, 8);
        add_sized(&text, time, strlen(time));
        add_sized(&text, value, sizeof value);
        add_sized(&text, digest, 0);
        add_size(&text, 0, 4);
        add_sized(&text, digest, 0);
        for (int i = 0; i < 5; i++)
            add_sized(&text, "old", 3);
        add_sized(&text, digest, 0);
        add_size(&text, 0, 4);
        if (pass == 0) {
            EVP_PKEY_CTX *of_key;
            EVP_MD_CTX *c = EVP_MD_CTX_new();
            size_t n = sizeof signature;
            CHECK(EVP_DigestSignInit(c, &of_key, k->digest ? k->digest : EVP_sha512(), NULL, m->key) == 1 &&
                      (!k->pss || EVP_PKEY_CTX_set_rsa_padding(of_key, RSA_PKCS1_PSS_PADDING) == 1) &&
                      EVP_DigestSign(c, signature, &n, (const unsigned char *)text.data, text.size) == 1, "no signature");
            EVP_MD_CTX_free(c);
            n = n < 128 ? 128 : n; /* shorter ones, of other keys than RSA, have no form of their own */
            hex_of(signature_hex, signature, n);
        }
    }
    rp_buf_add(&text, signature, strlen(signature_hex) / 2);
    EVP_Digest(text.data, text.size, digest, NULL, EVP_sha512(), NULL);
    hex_of(value_hex, value, sizeof value);
    hex_of(id_hex, id, sizeof id);
    hex_of(output_hex, digest, sizeof digest);
    rp_buf_printf(out, "{\"pulse\": {\"uri\": \"%s\", \"version\": \"Version 2.0\", \"cipherSuite\": 0, \"period\": 60000, "
                       "\"certificateId\": \"%s\", "
                       "\"chainIndex\": 3, \"pulseIndex\": 77, \"timeStamp\": \"%s\", \"localRandomValue\": \"%s\", \"external\": "
                       "{\"sourceId\": "
                       "\"\", \"statusCode\": 0, \"value\": \"\"}, \"listValues\": [", uri, id_hex, time, value_hex);
    static const char *const types[] = {"previous", "hour", "day", "month", "year"};
    for (int i = 0; i < 5; i++)
        rp_buf_printf(out, "%s{\"uri\": \"\", \"type\": \"%s\", \"value\": \"6f6c64\"}", i ? ", " : "", types[i]);
    rp_buf_printf(out, "], \"precommitmentValue\": \"\", \"statusCode\": 0, \"signatureValue\": \"%s\", \"outputValue\": \"%s\"}}",
                  signature_hex,
                  output_hex);
}

/* ---- reading ---- */

static void load(struct rp_buf *out, const char *path)
{
    struct rp_err err = {0};
    CHECK(rp_read_file(out, path, 1u << 20, &err) == 0, "%s", err.msg);
}

static char *write_pem(const struct rp_buf *pem)
{
    struct rp_err err;
    char *path = fx_path("beacon.pem");
    CHECK(rp_write_file(path, rp_buf_text(pem), pem->size, 0644, &err) == 0, "%s", err.msg);
    return path;
}

static enum rp_code prove(struct rp_public_value *v, const struct rp_buf *pulse, const char *certificates, struct rp_err *err)
{
    *err = (struct rp_err){0};
    RP_BEACON *b = rp_beacon_load(certificates, err);
    if (!b)
        return err->code;
    memset(v, 0xa5, sizeof *v);
    return rp_public_value_prove(v, pulse->data, pulse->size, b, err) == 0 ? RP_OK : err->code;
}

static void refuse_pulse(const struct maker *m, const struct pulse_kind *k)
{
    static const struct rp_public_value zero;
    struct rp_public_value v;
    struct rp_err err;
    RP_BUF pulse = {0}, pem = {0};
    make_pulse(&pulse, m, k);
    add_certificate(&pem, m);
    RP_FREE char *path = write_pem(&pem);
    CHECK(rp_public_value_read(&v, pulse.data, pulse.size, &err) == 0, "%s", err.msg); /* its digests are right */
    CHECK(!v.proved);
    REFUSED(prove(&v, &pulse, path, &err) == RP_SIGNATURE, err.msg);
    CHECK(memcmp(&v, &zero, sizeof v) == 0, "something is left of a refused value");
}

TEST(a_pulse_as_published_is_signed_with_its_certificate)
{
    struct rp_public_value v, read;
    struct rp_err err;
    RP_BUF pulse = {0};
    fx_dir();
    load(&pulse, VECTORS "nist-1-54610.json");
    CHECK(prove(&v, &pulse, VECTORS "nist-1-certificate.pem", &err) == RP_OK, "%s", err.msg);
    CHECK(rp_public_value_read(&read, pulse.data, pulse.size, &err) == 0, "%s", err.msg);
    CHECK(v.proved == 1 && read.proved == 0, "proved %d, without a certificate %d", v.proved, read.proved);
    CHECK(memcmp(v.nonce, read.nonce, sizeof v.nonce) == 0 && v.time_ns == read.time_ns, "another value");
    CHECK(strstr(v.checked, "engine.beacon.nist.gov") && strstr(v.checked, "DigiCert Global CA G2"), "%s", v.checked);
    SAID(v.checked);
    SAID(v.claimed);
}

/* Real pulses after the change of keys of September 2026 cannot be checked by anybody. */
TEST(a_pulse_as_published_with_a_certificate_of_another_key)
{
    struct rp_public_value v;
    struct rp_err err;
    RP_BUF pulse = {0};
    load(&pulse, VECTORS "nist-2-1940454.json");
    CHECK(rp_public_value_read(&v, pulse.data, pulse.size, &err) == 0 && v.time_ns == 1789354800ll * 1000000000, "%s", err.msg);
    REFUSED(prove(&v, &pulse, VECTORS "nist-2-certificate.pem", &err) == RP_SIGNATURE, err.msg);
    REFUSED(prove(&v, &pulse, VECTORS "nist-1-certificate.pem", &err) == RP_SIGNATURE, err.msg);
}

TEST(a_damaged_signature_is_refused)
{
    struct rp_err err;
    struct rp_public_value v;
    RP_BUF pulse = {0}, fields = {0};
    load(&pulse, VECTORS "nist-1-54610.json");
    RP_JSON *j = rp_json_parse(pulse.data, pulse.size, "pulse", &err);
    json_t *p = json_object_get(j, "pulse");
    RP_FREE char *signature = rp_strdup(rp_json_text_at(p, "signatureValue"));
    signature[100] = signature[100] == '0' ? '1' : '0';
    json_object_set_new(p, "signatureValue", json_string(signature));
    rp_json_write(&fields, j);
    REFUSED(prove(&v, &fields, VECTORS "nist-1-certificate.pem", &err) == RP_MISMATCH, err.msg); /* outputValue covers it */
}

TEST(a_beacon_of_ones_own)
{
    struct rp_public_value v;
    struct rp_err err;
    RP_BUF pulse = {0}, pem = {0};
    make_pulse(&pulse, own_beacon(), &(struct pulse_kind){0});
    load(&pem, VECTORS "nist-1-certificate.pem"); /* one of several */
    add_certificate(&pem, own_beacon());
    RP_FREE char *path = write_pem(&pem);
    CHECK(prove(&v, &pulse, path, &err) == RP_OK && v.proved && v.time_ns == PULSE_SECONDS * 1000000000, "%s", err.msg);
    CHECK(rp_plain_size(v.checked, strlen(v.checked), 0) == strlen(v.checked), "%s", v.checked);
    REFUSED(prove(&v, &pulse, VECTORS "nist-1-certificate.pem", &err) == RP_SIGNATURE, err.msg);
}

TEST(other_signatures_are_refused)
{
    refuse_pulse(own_beacon(), &(struct pulse_kind){.digest = EVP_sha256()});
    refuse_pulse(own_beacon(), &(struct pulse_kind){.pss = 1});
    refuse_pulse(own_beacon(), &(struct pulse_kind){.damage = 1});
    refuse_pulse(own_beacon(), &(struct pulse_kind){.time = "2026-09-21T15:13:00.000Z"}); /* the second in which it ends */
    refuse_pulse(own_beacon(), &(struct pulse_kind){.time = "2026-09-21T13:12:59.999Z"});
}

TEST(other_keys_are_refused)
{
    MAKER weak = make_beacon(EVP_RSA_gen(1024), -3600, 3600), curve = make_beacon(EVP_EC_gen("P-256"), -3600, 3600);
    refuse_pulse(&weak, &(struct pulse_kind){0});
    refuse_pulse(&curve, &(struct pulse_kind){0});
}

static void refuse_file(const char *text, size_t size, enum rp_code code)
{
    struct rp_err err = {0};
    RP_BUF pem = {0};
    rp_buf_add(&pem, text, size);
    RP_FREE char *path = write_pem(&pem);
    RP_BEACON *b = rp_beacon_load(path, &err);
    CHECK(!b && err.code == code, "%zu bytes: %s", size, err.msg);
    CHECK(strstr(err.msg, path), "no file in: %s", err.msg);
}

TEST(files_without_certificates_are_refused)
{
    struct rp_err err = {0};
    RP_BUF pem = {0}, many = {0};
    fx_dir();
    load(&pem, VECTORS "nist-1-certificate.pem");
    refuse_file("", 0, RP_MALFORMED);
    refuse_file("no certificate\n", 15, RP_MALFORMED);
    refuse_file(pem.data, pem.size / 2, RP_MALFORMED);
    refuse_file(pem.data, pem.size - 30, RP_MALFORMED);
    for (int i = 0; i <= RP_BEACON_CERTIFICATES; i++)
        add_certificate(&many, own_beacon());
    refuse_file(many.data, many.size, RP_MALFORMED);
    RP_BEACON *none = rp_beacon_load("/nonexistent/beacon.pem", &err);
    CHECK(!none && err.code == RP_IO, "%s", err.msg);
}

TEST(values_that_are_no_pulses)
{
    struct rp_public_value v;
    struct rp_challenge c;
    struct rp_err err;
    RP_BUF round = {0}, file = {0};
    load(&round, VECTORS "drand-quicknet-657413.json");
    REFUSED(prove(&v, &round, VECTORS "nist-1-certificate.pem", &err) == RP_USAGE, err.msg);
    FX_KEY *k = fx_key("lab");
    CHECK(rp_challenge_make(&file, "", k, &err) == 0 && rp_challenge_read(&c, file.data, file.size, &err) == 0, "%s", err.msg);
    RP_BEACON *b = rp_beacon_load(VECTORS "nist-1-certificate.pem", &err);
    CHECK(b && rp_challenge_prove(&c, &file, b, &err) < 0 && err.code == RP_USAGE && *c.by, "%s", err.msg);
}

/* ---- a run that answers a pulse ---- */

static void answer_pulse(struct fx *x)
{
    struct rp_challenge c;
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE];
    make_pulse(&x->challenge, own_beacon(), &(struct pulse_kind){0});
    CHECK(rp_challenge_read(&c, x->challenge.data, x->challenge.size, &err) == 0 && !c.proved, "%s", err.msg);
    FX_SET(x, "evidence.state_root_every=1000");
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    CHECK(rp_recipe_challenge(&x->recipe, c.nonce, print, &err) == 0, "%s", err.msg);
    fx_compute(x);
    fx_seal(x, "signer", "sealed");
}

/* How far the level "timed" comes if every step was replayed, and what the check says. */
static void expect_timed(const struct rp_verify_opts *o, enum rp_check_state state, enum rp_level_state reached)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_verify(&v, path, o, &err) == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_challenge].state == state, "%s: %s", rp_check_state_name(v.check[RP_CHECK_challenge].state),
          v.check[RP_CHECK_challenge].text);
    SAID(v.check[RP_CHECK_challenge].text);
    v.replayed = 7;
    *v.own_setting = 0;
    struct rp_level l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == reached, "timed: %s", l.text);
}

TEST(a_pulse_counts_as_far_as_it_was_checked)
{
    struct rp_err err;
    struct rp_challenge c;
    RP_BUF pem = {0};
    FX(x);
    answer_pulse(&x);
    add_certificate(&pem, own_beacon());
    RP_FREE char *path = write_pem(&pem);
    RP_BEACON *b = rp_beacon_load(path, &err), *other = rp_beacon_load(VECTORS "nist-1-certificate.pem", &err);
    CHECK(b && other, "%s", err.msg);
    const int64_t came = (PULSE_SECONDS + 40) * 1000000000;
    CHECK(rp_challenge_read(&c, x.challenge.data, x.challenge.size, &err) == 0, "%s", err.msg);
    expect_timed(&(struct rp_verify_opts){.received_ns = came}, RP_CHECK_NOTE, RP_LEVEL_NO);
    expect_timed(&(struct rp_verify_opts){.received_ns = came, .beacon = b}, RP_CHECK_PASSED, RP_LEVEL_YES);
    expect_timed(&(struct rp_verify_opts){.received_ns = came, .challenge = &c}, RP_CHECK_PASSED, RP_LEVEL_PART);
    expect_timed(&(struct rp_verify_opts){.received_ns = came, .challenge = &c, .beacon = b}, RP_CHECK_PASSED, RP_LEVEL_YES);
    RP_VERIFICATION v = {0};
    RP_FREE char *sealed = fx_path("sealed");
    err = (struct rp_err){0};
    CHECK(rp_verify(&v, sealed, &(struct rp_verify_opts){.beacon = other}, &err) < 0 && err.code == RP_SIGNATURE &&
              v.check[RP_CHECK_challenge].state == RP_CHECK_FAILED, "%s", err.msg);
}

TEST(a_certificate_without_a_pulse_is_not_silent)
{
    struct rp_err err;
    FX(x);
    fx_seal(&x, "signer", "sealed");
    RP_VERIFICATION v = {0};
    RP_FREE char *sealed = fx_path("sealed");
    RP_BEACON *b = rp_beacon_load(VECTORS "nist-1-certificate.pem", &err);
    CHECK(rp_verify(&v, sealed, &(struct rp_verify_opts){.beacon = b}, &err) == 0, "%s", err.msg);
    SAID(v.check[RP_CHECK_challenge].text);
    close_beacon();
}
