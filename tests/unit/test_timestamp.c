/* Time stamps: requests and responses in any form. tests/unit/test_timestamps.c has them in bundles,
 * tests/cli/sign/timestamp.sh the `openssl ts` command as authority. */
/* exhaustive */
#include "tests/unit/scratch.h"
#include "tests/unit/tsa_fixture.h"

#include "base/hash.h"
#include "base/text.h"
#include "sign/timestamp.h"

#define SECOND 1000000000ll

static const struct rp_buf statement = {.data = (char[]){"{\"payload\": 1}\n"}, .size = 15};
static const struct rp_buf other = {.data = (char[]){"{\"payload\": 2}\n"}, .size = 15};

static void stamp(struct rp_buf *out, const struct tsa *t, const struct rp_buf *of, struct tsa_stamp s)
{
    RP_BUF request = {0};
    struct rp_err err = {0};
    CHECK(rp_timestamp_request(&request, of, &err) == 0, "%s", err.msg);
    tsa_write(out, tsa_answer(t, &request, s));
}

static struct rp_tsa_ca *ca_of(const struct tsa *t)
{
    RP_BUF pem = {0};
    struct rp_err err = {0};
    tsa_root_pem(t, &pem);
    put_file("ca.pem", pem.data, pem.size);
    struct rp_tsa_ca *ca = rp_tsa_ca_load(scratch("ca.pem"), &err);
    CHECK(ca, "%s", err.msg);
    return ca;
}

static enum rp_code read_stamp(struct rp_timestamp *t, const struct rp_buf *response, struct rp_err *err)
{
    *err = (struct rp_err){0};
    return rp_timestamp_read(t, response->data, response->size, &statement, err) == 0 ? RP_OK : err->code;
}

static enum rp_code check_stamp(const struct rp_timestamp *t, const struct rp_buf *response, const struct rp_tsa_ca *ca,
                                struct rp_err *err)
{
    *err = (struct rp_err){0};
    return rp_timestamp_check(t, response->data, response->size, ca, err) == 0 ? RP_OK : err->code;
}

TEST(a_request_asks_for_the_digest_of_the_statement)
{
    RP_BUF one = {0}, two = {0};
    struct rp_err err = {0};
    char hex[RP_SHA256_HEX + 2];
    unsigned char digest[32];
    CHECK(rp_timestamp_request(&one, &statement, &err) == 0 && rp_timestamp_request(&two, &statement, &err) == 0, "%s",
          err.msg);
    CHECK(!rp_buf_is(&one, two.data, two.size), "the nonce is not random");
    const unsigned char *p = (const unsigned char *)one.data;
    TS_REQ *r = d2i_TS_REQ(NULL, &p, (long)one.size);
    if (!CHECK(r && p == (const unsigned char *)one.data + one.size))
        return;
    const ASN1_OCTET_STRING *is = TS_MSG_IMPRINT_get_msg(TS_REQ_get_msg_imprint(r));
    rp_sha256_bytes(digest, statement.data, statement.size);
    CHECK(ASN1_STRING_length(is) == 32 && memcmp(ASN1_STRING_get0_data(is), digest, 32) == 0);
    CHECK(TS_REQ_get_cert_req(r) && ASN1_STRING_length(TS_REQ_get_nonce(r)) >= 8 && TS_REQ_get_version(r) == 1);
    OBJ_obj2txt(hex, sizeof hex, TS_MSG_IMPRINT_get_algo(TS_REQ_get_msg_imprint(r))->algorithm, 1);
    CHECK_STR(hex, "2.16.840.1.101.3.4.2.1");
    TS_REQ_free(r);
}

TEST(tokens_are_read_and_checked)
{
    static const char *const keys[] = {"RSA", "EC"};
    for (int i = 0; i < 4; i++) {
        struct rp_timestamp t;
        struct rp_err err;
        RP_BUF response = {0};
        TSA a = {0};
        tsa_make(&a, (struct tsa_kind){.key = keys[i % 2], .until = TSA_DAY}); /* has expired since */
        RP_TSA_CA *ca = ca_of(&a);
        stamp(&response, &a, &statement,
              (struct tsa_stamp){.usec = 250000, .digits = 2, .accuracy_s = i, .accuracy_ms = 5 * i, .accuracy_us = i,
                                 .signer = i < 2 ? EVP_sha256() : EVP_sha512(), .chain = i > 1});
        CHECK(read_stamp(&t, &response, &err) == RP_OK, "%s", err.msg);
        CHECK(t.time_ns == TSA_T0 * SECOND + SECOND / 4, "%lld", (long long)t.time_ns);
        CHECK(t.unit_ns == SECOND / 100, "%lld", (long long)t.unit_ns);
        CHECK(t.accuracy_ns == (i ? i * (SECOND + 5001000) : -1), "%lld", (long long)t.accuracy_ns);
        CHECK_STR(t.hash, "SHA-256");
        CHECK_STR(t.serial, "ABC123");
        CHECK_STR(t.policy, "1.2.3.4.1");
        CHECK_STR(t.authority, "CN=authority,O=Exact \xc3\x9chr");
        CHECK(check_stamp(&t, &response, ca, &err) == RP_OK, "%s", err.msg);
    }
}

/* The chain has to hold when the token was made. */
TEST(tokens_outside_their_certificates_validity_are_refused)
{
    static const long long times[] = {TSA_T0 - 2 * TSA_DAY, TSA_T0 + 2 * TSA_DAY};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC", .until = TSA_DAY});
    RP_TSA_CA *ca = ca_of(&a);
    for (int i = 0; i < 2; i++) {
        struct rp_timestamp t;
        struct rp_err err;
        RP_BUF response = {0};
        stamp(&response, &a, &statement, (struct tsa_stamp){.time = times[i]});
        CHECK(read_stamp(&t, &response, &err) == RP_OK, "%s", err.msg);
        REFUSED(check_stamp(&t, &response, ca, &err) == RP_SIGNATURE, err.msg);
    }
}

TEST(another_authority_or_a_weak_one_is_refused)
{
    struct rp_timestamp t;
    struct rp_err err;
    RP_BUF response = {0}, weak = {0};
    TSA a = {0}, b = {0}, c = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    tsa_make(&b, (struct tsa_kind){.key = "EC"});
    tsa_make(&c, (struct tsa_kind){.key = "RSA", .bits = 1024});
    RP_TSA_CA *other_ca = ca_of(&b), *weak_ca = ca_of(&c);
    stamp(&response, &a, &statement, (struct tsa_stamp){0});
    CHECK(read_stamp(&t, &response, &err) == RP_OK, "%s", err.msg);
    REFUSED(check_stamp(&t, &response, other_ca, &err) == RP_SIGNATURE, err.msg);
    stamp(&weak, &c, &statement, (struct tsa_stamp){0});
    CHECK(read_stamp(&t, &weak, &err) == RP_OK, "%s", err.msg);
    REFUSED(check_stamp(&t, &weak, weak_ca, &err) == RP_SIGNATURE, err.msg);
}

TEST(a_token_about_something_else_is_refused)
{
    struct rp_timestamp t;
    struct rp_err err;
    RP_BUF response = {0};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    stamp(&response, &a, &other, (struct tsa_stamp){0});
    REFUSED(read_stamp(&t, &response, &err) == RP_MISMATCH, err.msg);
}

/* OpenSSL makes no token with a certificate that is not for it: such a one takes the place of the right one. */
TEST(certificates_that_are_not_for_time_stamps_are_refused)
{
    static const char *const usages[] = {"critical,serverAuth", "timeStamping", "critical,timeStamping,codeSigning",
                                         ""};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    for (size_t i = 0; i < sizeof usages / sizeof *usages; i++) {
        struct rp_timestamp t;
        struct rp_err err = {0};
        RP_BUF request = {0}, response = {0};
        CHECK(rp_timestamp_request(&request, &statement, &err) == 0, "%s", err.msg);
        TS_RESP *r = tsa_answer(&a, &request, (struct tsa_stamp){0});
        STACK_OF(X509) *list = TS_RESP_get_token(r)->d.sign->cert;
        while (sk_X509_num(list))
            X509_free(sk_X509_pop(list));
        sk_X509_push(list, tsa_other_certificate(&a, usages[i]));
        tsa_write(&response, r);
        REFUSED(read_stamp(&t, &response, &err) == RP_SIGNATURE, err.msg);
    }
}

/* For the authority, before the first digest is fetched: base/openssl.c leaves out the table by which it would get its
 * number. */
__attribute__((constructor)) static void know_sha1(void)
{
    EVP_add_digest(EVP_sha1());
}

TEST(weak_digests_are_refused)
{
    struct rp_timestamp t;
    struct rp_err err;
    RP_BUF response = {0};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    stamp(&response, &a, &statement, (struct tsa_stamp){.signer = EVP_sha1()});
    REFUSED(read_stamp(&t, &response, &err) == RP_SIGNATURE, err.msg);
}

static void refuse_response(TS_RESP *r)
{
    struct rp_timestamp t;
    struct rp_err err;
    RP_BUF response = {0};
    tsa_write(&response, r);
    REFUSED(read_stamp(&t, &response, &err) == RP_MALFORMED, err.msg);
}

/* The signed content with one change; that the signature does not hold any more is found later. */
static void bend_content(TS_RESP *r, void (*bend)(TS_TST_INFO *info), const char *after)
{
    ASN1_OCTET_STRING *content = TS_RESP_get_token(r)->d.sign->contents->d.other->value.octet_string;
    const unsigned char *p = ASN1_STRING_get0_data(content);
    TS_TST_INFO *info = d2i_TS_TST_INFO(NULL, &p, ASN1_STRING_length(content));
    unsigned char *der = NULL;
    RP_BUF all = {0};
    if (bend)
        bend(info);
    const int n = i2d_TS_TST_INFO(info, &der);
    rp_buf_add(&all, der, (size_t)n);
    rp_buf_puts(&all, after);
    ASN1_OCTET_STRING_set(content, (const unsigned char *)all.data, (int)all.size);
    OPENSSL_free(der);
    TS_TST_INFO_free(info);
}

static void bend_extension(TS_TST_INFO *info)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_key_usage, "critical,digitalSignature");
    TS_TST_INFO_add_ext(info, e, -1);
    X509_EXTENSION_free(e);
}

static void bend_version(TS_TST_INFO *info)
{
    TS_TST_INFO_set_version(info, 2);
}

static void bend_serial(TS_TST_INFO *info)
{
    BIGNUM *large = BN_new();
    BN_set_bit(large, 400);
    ASN1_INTEGER *n = BN_to_ASN1_INTEGER(large, NULL);
    TS_TST_INFO_set_serial(info, n);
    ASN1_INTEGER_free(n);
    BN_free(large);
}

static void bend_accuracy(TS_TST_INFO *info)
{
    TS_ACCURACY *a = TS_ACCURACY_new();
    ASN1_INTEGER *n = ASN1_INTEGER_new();
    ASN1_INTEGER_set(n, 1000);
    TS_ACCURACY_set_millis(a, n);
    TS_TST_INFO_set_accuracy(info, a);
    ASN1_INTEGER_free(n);
    TS_ACCURACY_free(a);
}

static void bend_time(TS_TST_INFO *info, const char *text)
{
    ASN1_GENERALIZEDTIME *t = ASN1_GENERALIZEDTIME_new();
    ASN1_STRING_set(t, text, -1);
    TS_TST_INFO_set_time(info, t);
    ASN1_GENERALIZEDTIME_free(t);
}

static void bend_too_early(TS_TST_INFO *info)
{
    bend_time(info, "19691231235959Z");
}

static void bend_too_late(TS_TST_INFO *info)
{
    bend_time(info, "22640101000000Z");
}

static void bend_no_day(TS_TST_INFO *info)
{
    bend_time(info, "20230230000000Z");
}

static void bend_no_zone(TS_TST_INFO *info)
{
    bend_time(info, "20230228000000");
}

TEST(contents_that_no_token_has_are_refused)
{
    static void (*const bends[])(TS_TST_INFO *) = {bend_extension, bend_version,  bend_serial, bend_accuracy,
                                                   bend_too_early, bend_too_late, bend_no_day, bend_no_zone};
    RP_BUF request = {0};
    struct rp_err err = {0};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    CHECK(rp_timestamp_request(&request, &statement, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        TS_RESP *r = tsa_answer(&a, &request, (struct tsa_stamp){0});
        bend_content(r, bends[i], "");
        refuse_response(r);
    }
    TS_RESP *r = tsa_answer(&a, &request, (struct tsa_stamp){0});
    bend_content(r, NULL, "x");
    refuse_response(r);
    r = tsa_answer(&a, &request, (struct tsa_stamp){0}); /* signed twice by the same */
    STACK_OF(PKCS7_SIGNER_INFO) *signers = TS_RESP_get_token(r)->d.sign->signer_info;
    sk_PKCS7_SIGNER_INFO_push(signers, PKCS7_SIGNER_INFO_new());
    PKCS7_SIGNER_INFO *second = sk_PKCS7_SIGNER_INFO_value(signers, 1), *first = sk_PKCS7_SIGNER_INFO_value(signers, 0);
    unsigned char *der = NULL;
    const int n = i2d_PKCS7_SIGNER_INFO(first, &der);
    const unsigned char *p = der;
    d2i_PKCS7_SIGNER_INFO(&second, &p, n);
    sk_PKCS7_SIGNER_INFO_set(signers, 1, second);
    OPENSSL_free(der);
    refuse_response(r);
    TS_STATUS_INFO *granted = TS_STATUS_INFO_new(); /* a status alone */
    TS_STATUS_INFO_set_status(granted, 0);
    r = TS_RESP_new();
    TS_RESP_set_status_info(r, granted);
    TS_STATUS_INFO_free(granted);
    refuse_response(r);
}

/* Who takes the authority's certificate for that of its CA is told which one is meant. */
TEST(the_authoritys_own_certificate_is_no_ca)
{
    RP_BUF response = {0}, pem = {0};
    struct rp_timestamp t;
    struct rp_err err = {0};
    TSA a = {0};
    char *text;
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    stamp(&response, &a, &statement, (struct tsa_stamp){0});
    BIO *b = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(b, a.certificate);
    const long n = BIO_get_mem_data(b, &text);
    rp_buf_add(&pem, text, (size_t)n);
    BIO_free(b);
    put_file("own.pem", pem.data, pem.size);
    RP_TSA_CA *ca = rp_tsa_ca_load(scratch("own.pem"), &err);
    if (!CHECK(ca && read_stamp(&t, &response, &err) == RP_OK, "%s", err.msg))
        return;
    CHECK(check_stamp(&t, &response, ca, &err) == RP_SIGNATURE && strstr(err.msg, "CN=intermediate"), "%s", err.msg);
}

TEST(responses_without_a_usable_token_are_refused)
{
    RP_BUF request = {0}, many = {0};
    struct rp_err err = {0};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    CHECK(rp_timestamp_request(&request, &statement, &err) == 0, "%s", err.msg);

    request.data[request.size / 2] = (char)(request.data[request.size / 2] ^ 1);
    RP_BUF junk = {0};
    rp_buf_add(&junk, "\x30\x03\x02\x01\x01", 5); /* the authority says that this is no request */
    TS_RESP *rejected = tsa_answer(&a, &junk, (struct tsa_stamp){0});
    if (CHECK(rejected))
        refuse_response(rejected);
    request.data[request.size / 2] = (char)(request.data[request.size / 2] ^ 1);

    TS_RESP *r = tsa_answer(&a, &request, (struct tsa_stamp){0});
    STACK_OF(X509) *list = TS_RESP_get_token(r)->d.sign->cert;
    while (sk_X509_num(list))
        X509_free(sk_X509_pop(list));
    refuse_response(r);

    r = tsa_answer(&a, &request, (struct tsa_stamp){0});
    list = TS_RESP_get_token(r)->d.sign->cert;
    while (sk_X509_num(list) <= RP_TIMESTAMP_CERTIFICATES)
        sk_X509_push(list, X509_dup(a.root));
    refuse_response(r);

    r = tsa_answer(&a, &request, (struct tsa_stamp){.time = 7000000000000000});
    if (r)
        refuse_response(r);
    while (many.size <= RP_TIMESTAMP_SIZE_MAX)
        rp_buf_add(&many, "0", 1);
    struct rp_timestamp t;
    REFUSED(read_stamp(&t, &many, &err) == RP_MALFORMED, err.msg);
    REFUSED(read_stamp(&t, &request, &err) == RP_MALFORMED, err.msg);
}

TEST(nothing_cut_off_is_accepted)
{
    struct rp_timestamp t;
    struct rp_err err;
    RP_BUF response = {0};
    TSA a = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    stamp(&response, &a, &statement, (struct tsa_stamp){.accuracy_s = 1});
    for (size_t n = 0; n < response.size; n++) {
        RP_FREE char *cut = rp_alloc(n ? n : 1);
        memcpy(cut, response.data, n);
        struct rp_buf part = {.data = cut, .size = n};
        CHECK(read_stamp(&t, &part, &err) == RP_MALFORMED, "%zu bytes", n);
    }
    rp_buf_add(&response, "", 1);
    REFUSED(read_stamp(&t, &response, &err) == RP_MALFORMED, err.msg);
}

/* What is signed cannot change; the status, and certificates that are not the signer's, can without a word about the
 * time. With LONG=1 each bit, else every seventh. */
TEST(no_flipped_bit_changes_what_a_token_says)
{
    struct rp_timestamp was, t;
    struct rp_err err;
    RP_BUF response = {0};
    TSA a = {0};
    int refused = 0;
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    RP_TSA_CA *ca = ca_of(&a);
    stamp(&response, &a, &statement, (struct tsa_stamp){.accuracy_s = 1});
    CHECK(read_stamp(&was, &response, &err) == RP_OK, "%s", err.msg);
    for (size_t bit = 0; bit < 8 * response.size; bit += tap_long() ? 1 : 7) {
        response.data[bit / 8] = (char)(response.data[bit / 8] ^ 1 << bit % 8);
        if (read_stamp(&t, &response, &err) != RP_OK || check_stamp(&t, &response, ca, &err) != RP_OK) {
            CHECK(*err.msg && rp_plain_size(err.msg, strlen(err.msg), 0) == strlen(err.msg), "bit %zu: %s", bit,
                  err.msg);
            refused++;
        } else {
            CHECK(memcmp(&t, &was, sizeof t) == 0, "bit %zu", bit);
        }
        response.data[bit / 8] = (char)(response.data[bit / 8] ^ 1 << bit % 8);
    }
    CHECK(refused > 500, "%d refused", refused);
}

TEST(ca_files_are_read_strictly)
{
    struct rp_err err = {0};
    RP_BUF pem = {0}, cut = {0}, two = {0};
    TSA a = {0}, b = {0};
    tsa_make(&a, (struct tsa_kind){.key = "EC"});
    tsa_make(&b, (struct tsa_kind){.key = "EC"});
    tsa_root_pem(&a, &pem);
    rp_buf_add(&cut, pem.data, pem.size);
    cut.data[pem.size / 2] = '!';
    scratch_dir();
    put_file("cut.pem", cut.data, cut.size);
    put_file("empty.pem", "hello\n", 6);
    CHECK(!rp_tsa_ca_load(scratch("cut.pem"), &err) && err.code == RP_MALFORMED, "%s", err.msg);
    CHECK(!rp_tsa_ca_load(scratch("empty.pem"), &err) && err.code == RP_MALFORMED, "%s", err.msg);
    CHECK(!rp_tsa_ca_load(scratch("none.pem"), &err) && err.code == RP_IO, "%s", err.msg);
    tsa_root_pem(&b, &two);
    rp_buf_add(&two, pem.data, pem.size);
    put_file("two.pem", two.data, two.size);
    RP_TSA_CA *ca = rp_tsa_ca_load(scratch("two.pem"), &err);
    struct rp_timestamp t;
    RP_BUF response = {0};
    stamp(&response, &a, &statement, (struct tsa_stamp){0});
    CHECK(read_stamp(&t, &response, &err) == RP_OK && ca && check_stamp(&t, &response, ca, &err) == RP_OK, "%s",
          err.msg);
}
