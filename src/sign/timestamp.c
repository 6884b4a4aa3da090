#include "sign/timestamp.h"

#include "base/clock.h"
#include "base/openssl.h"
#include "base/text.h"
#include "sign/key.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ts.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ll
#define SECONDS_MAX 9223372035ll /* what 63 bits of nanoseconds hold */
#define ACCURACY_MAX 86400       /* seconds; an authority that is a day wrong stamps nothing */
#define SERIAL_BYTES 34
#define NONCE_BYTES 8
#define SECURITY_LEVEL 2 /* OpenSSL's: 112 bits */

#define SCOPED(type, free_)                                                                                            \
    static void type##_freep(type **p)                                                                                 \
    {                                                                                                                  \
        free_(*p);                                                                                                     \
    }
SCOPED(TS_REQ, TS_REQ_free)
SCOPED(TS_MSG_IMPRINT, TS_MSG_IMPRINT_free)
SCOPED(ASN1_INTEGER, ASN1_INTEGER_free)
SCOPED(X509_ALGOR, X509_ALGOR_free)
SCOPED(BIGNUM, BN_free)
SCOPED(BIO, BIO_free_all)
#define SCOPE(type) __attribute__((cleanup(type##_freep))) type

static const struct digest {
    int nid;
    const char *name;
    size_t size;
} digests[] = {
    {NID_sha256, "SHA-256", 32},
    {NID_sha384, "SHA-384", 48},
    {NID_sha512, "SHA-512", 64},
};

/* NULL: none that is accepted. */
static const struct digest *find_digest(const X509_ALGOR *algorithm)
{
    const ASN1_OBJECT *name = NULL;
    X509_ALGOR_get0(&name, NULL, NULL, algorithm);
    int nid = name ? OBJ_obj2nid(name) : NID_undef;
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (digests[i].nid == nid)
            return &digests[i];
    return NULL;
}

/* With OpenSSL's last reason; of a certificate's verification with what that found. */
static int fail_openssl(struct rp_err *err, enum rp_code code, const char *what)
{
    static const char head[] = "Verify error:";
    const char *data = NULL, *why;
    char shown[72];
    int flags = 0;
    why = ERR_reason_error_string(ERR_peek_last_error_all(NULL, NULL, NULL, &data, &flags));
    if (data && flags & ERR_TXT_STRING && strncmp(data, head, strlen(head)) == 0)
        why = rp_excerpt(shown, data + strlen(head));
    rp_fail(err, code, "%s: %s", what, why ? why : "unknown reason");
    ERR_clear_error();
    return -1;
}

/* ---- requests ---- */

static int set_imprint(TS_REQ *request, const struct rp_buf *statement)
{
    unsigned char digest[32];
    SCOPE(TS_MSG_IMPRINT) *imprint = TS_MSG_IMPRINT_new();
    SCOPE(X509_ALGOR) *algorithm = X509_ALGOR_new();
    return imprint && algorithm && X509_ALGOR_set0(algorithm, OBJ_nid2obj(NID_sha256), V_ASN1_NULL, NULL) &&
           EVP_Digest(rp_buf_text(statement), statement->size, digest, NULL, EVP_sha256(), NULL) &&
           TS_MSG_IMPRINT_set_algo(imprint, algorithm) && TS_MSG_IMPRINT_set_msg(imprint, digest, sizeof digest) &&
           TS_REQ_set_msg_imprint(request, imprint);
}

/* An authority answers it once: some refuse requests without one. */
static int set_nonce(TS_REQ *request)
{
    unsigned char bytes[NONCE_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return 0;
    bytes[0] |= 1; /* no leading zeros */
    SCOPE(BIGNUM) *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    SCOPE(ASN1_INTEGER) *nonce = number ? BN_to_ASN1_INTEGER(number, NULL) : NULL;
    return nonce && TS_REQ_set_nonce(request, nonce);
}

int rp_timestamp_request(struct rp_buf *out, const struct rp_buf *statement, struct rp_err *err)
{
    unsigned char *der = NULL;
    rp_openssl_init();
    SCOPE(TS_REQ) *request = TS_REQ_new();
    if (!request || !TS_REQ_set_version(request, 1) || !set_imprint(request, statement) || !set_nonce(request) ||
        !TS_REQ_set_cert_req(request, 1))
        return fail_openssl(err, RP_BUG, "cannot make a time stamp request");
    int n = i2d_TS_REQ(request, &der);
    if (n <= 0)
        return fail_openssl(err, RP_BUG, "cannot write a time stamp request");
    rp_buf_add(out, der, (size_t)n);
    OPENSSL_free(der);
    return 0;
}

/* ---- responses ---- */

struct token_parts { /* of a response; borrowed from it, except info */
    TS_RESP *response;
    PKCS7 *token;
    TS_TST_INFO *info;
    PKCS7_SIGNER_INFO *signer;
    X509 *certificate; /* of the signer */
};

static void parts_fini(struct token_parts *p)
{
    TS_TST_INFO_free(p->info);
    TS_RESP_free(p->response);
}
#define PARTS __attribute__((cleanup(parts_fini))) struct token_parts

/* The response has status 0 or 1, or this is why not. */
static int check_status(TS_RESP *response, struct rp_err *err)
{
    TS_STATUS_INFO *info = TS_RESP_get_status_info(response);
    const STACK_OF(ASN1_UTF8STRING) *texts = TS_STATUS_INFO_get0_text(info);
    long status = ASN1_INTEGER_get(TS_STATUS_INFO_get0_status(info));
    char shown[72] = "", text[256];
    if (status == 0 || status == 1)
        return 0;
    if (texts && sk_ASN1_UTF8STRING_num(texts) > 0) {
        const ASN1_UTF8STRING *first = sk_ASN1_UTF8STRING_value(texts, 0);
        snprintf(text, sizeof text, "%.*s", ASN1_STRING_length(first), (const char *)ASN1_STRING_get0_data(first));
        rp_excerpt(shown, text);
    }
    return rp_fail(err, RP_MALFORMED, "the authority refused the request: status %ld%s%s%s", status,
                   *shown ? ", '" : "", shown, *shown ? "'" : "");
}

/* The signed content, parsed here once more: nothing may follow it. */
static TS_TST_INFO *parse_info(PKCS7 *token, struct rp_err *err)
{
    TS_TST_INFO *info = PKCS7_to_TS_TST_INFO(token); /* checks types */
    TS_TST_INFO_free(info);
    if (!info) {
        fail_openssl(err, RP_MALFORMED, "the token has no content");
        return NULL;
    }
    const ASN1_OCTET_STRING *content = token->d.sign->contents->d.other->value.octet_string;
    const unsigned char *p = ASN1_STRING_get0_data(content), *end = p + ASN1_STRING_length(content);
    info = d2i_TS_TST_INFO(NULL, &p, end - p);
    if (info && p == end)
        return info;
    TS_TST_INFO_free(info);
    return rp_fail_null(err, RP_MALFORMED, "something follows the token's content");
}

/* One signer, whose certificate is in the token. */
static int find_signer(struct token_parts *p, struct rp_err *err)
{
    STACK_OF(PKCS7_SIGNER_INFO) *signers = PKCS7_get_signer_info(p->token);
    int certificates = sk_X509_num(p->token->d.sign->cert);
    X509_ALGOR *digest = NULL;
    if (!signers || sk_PKCS7_SIGNER_INFO_num(signers) != 1)
        return rp_fail(err, RP_MALFORMED, "the token is not signed once");
    if (certificates < 1 || certificates > RP_TIMESTAMP_CERTIFICATES)
        return rp_fail(err, RP_MALFORMED, "the token has %d certificates; expected 1 to %d",
                       certificates < 0 ? 0 : certificates, RP_TIMESTAMP_CERTIFICATES);
    p->signer = sk_PKCS7_SIGNER_INFO_value(signers, 0);
    PKCS7_SIGNER_INFO_get0_algs(p->signer, NULL, &digest, NULL);
    if (!digest || !find_digest(digest))
        return rp_fail(err, RP_SIGNATURE, "the token is not signed with SHA-256, SHA-384 or SHA-512");
    STACK_OF(X509) *found = PKCS7_get0_signers(p->token, NULL, 0);
    p->certificate = found && sk_X509_num(found) == 1 ? sk_X509_value(found, 0) : NULL;
    sk_X509_free(found);
    ERR_clear_error();
    return p->certificate ? 0
                          : rp_fail(err, RP_MALFORMED, "the certificate that the token was signed with is not in it");
}

static int parse_response(struct token_parts *p, const char *data, size_t size, struct rp_err *err)
{
    const unsigned char *at = (const unsigned char *)data, *end = at + size;
    if (size > RP_TIMESTAMP_SIZE_MAX)
        return rp_fail(err, RP_MALFORMED, "a time stamp response has at most %d bytes; this one has %zu",
                       RP_TIMESTAMP_SIZE_MAX, size);
    rp_openssl_init();
    p->response = size ? d2i_TS_RESP(NULL, &at, (long)size) : NULL;
    ERR_clear_error();
    if (!p->response)
        return rp_fail(err, RP_MALFORMED, "not a time stamp response (RFC 3161, DER)");
    if (at != end)
        return rp_fail(err, RP_MALFORMED, "the file goes on after the time stamp response: %zu byte%s",
                       (size_t)(end - at), rp_s(end - at));
    if (check_status(p->response, err) < 0)
        return -1;
    p->token = TS_RESP_get_token(p->response);
    if (!p->token)
        return rp_fail(err, RP_MALFORMED, "the response contains no token");
    p->info = parse_info(p->token, err);
    return p->info ? find_signer(p, err) : -1;
}

/* ---- the contents of a token ---- */

/* "20260102030405.678Z": of milliseconds */
static int read_time(struct rp_timestamp *out, const TS_TST_INFO *info, struct rp_err *err)
{
    const ASN1_GENERALIZEDTIME *t = TS_TST_INFO_get_time(info);
    char text[40], day[24], shape[24];
    struct tm tm = {0};
    int64_t fraction = 0, unit = SECOND_NS / 10;
    snprintf(text, sizeof text, "%.*s", ASN1_STRING_length(t), (const char *)ASN1_STRING_get0_data(t));
    size_t digits = strspn(text, "0123456789"),
           fractions = text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0;
    size_t n = digits + (fractions ? fractions + 1 : 0);
    if ((size_t)ASN1_STRING_length(t) != n + 1 || digits != 14 || fractions > 9 || strcmp(text + n, "Z") != 0)
        return rp_fail(err, RP_MALFORMED, "the token's time is not in the form that RFC 3161 prescribes");
    RP_FORMAT(shape, "%.4s-%.2s-%.2sT", text, text + 4, text + 6);
    RP_FORMAT(day, "%.11s%.2s:%.2s:%.2sZ", shape, text + 8, text + 10, text + 12);
    if (!rp_is_rfc3339(day) || sscanf(day, "%d-%d-%dT%d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
                                      &tm.tm_min, &tm.tm_sec) != 6)
        return rp_fail(err, RP_MALFORMED, "the token's time does not exist");
    tm.tm_year -= 1900;
    tm.tm_mon--;
    int64_t s = (int64_t)timegm(&tm);
    if (s <= 0 || s > SECONDS_MAX - ACCURACY_MAX - 2)
        return rp_fail(err, RP_MALFORMED, "the token's time, %s, is not after 1970 and before 2262", day);
    for (size_t i = 0; i < fractions; i++, unit /= 10)
        fraction += unit * (text[digits + 1 + i] - '0');
    out->time_ns = s * SECOND_NS + fraction;
    out->unit_ns = 10 * unit;
    return 0;
}

/* A part of the accuracy from 0 to `most`; 0 if it is left out; -1. */
static int64_t accuracy_part(const ASN1_INTEGER *part, int64_t most)
{
    int64_t v = 0;
    if (part && (!ASN1_INTEGER_get_int64(&v, part) || v < 0 || v > most))
        return -1;
    return v;
}

static int read_accuracy(int64_t *ns, TS_TST_INFO *info, struct rp_err *err)
{
    const TS_ACCURACY *a = TS_TST_INFO_get_accuracy(info);
    *ns = -1;
    if (!a)
        return 0;
    int64_t s = accuracy_part(TS_ACCURACY_get_seconds(a), ACCURACY_MAX),
            ms = accuracy_part(TS_ACCURACY_get_millis(a), 999), us = accuracy_part(TS_ACCURACY_get_micros(a), 999);
    if (s < 0 || ms < 0 || us < 0)
        return rp_fail(err, RP_MALFORMED, "the token's accuracy is out of range");
    *ns = s * SECOND_NS + ms * (SECOND_NS / 1000) + us * (SECOND_NS / 1000000);
    return 0;
}

/* The digest that the token is about, if it is that of the statement. */
static const struct digest *check_imprint(TS_TST_INFO *info, const struct rp_buf *statement, struct rp_err *err)
{
    TS_MSG_IMPRINT *imprint = TS_TST_INFO_get_msg_imprint(info);
    const ASN1_OCTET_STRING *is = TS_MSG_IMPRINT_get_msg(imprint);
    const struct digest *d = find_digest(TS_MSG_IMPRINT_get_algo(imprint));
    unsigned char expected[EVP_MAX_MD_SIZE];
    if (!d)
        return rp_fail_null(err, RP_MISMATCH, "the token is not about a SHA-256, SHA-384 or SHA-512");
    if (EVP_Digest(rp_buf_text(statement), statement->size, expected, NULL, EVP_get_digestbynid(d->nid), NULL) != 1) {
        fail_openssl(err, RP_BUG, d->name);
        return NULL;
    }
    if ((size_t)ASN1_STRING_length(is) != d->size || memcmp(ASN1_STRING_get0_data(is), expected, d->size) != 0)
        return rp_fail_null(err, RP_MISMATCH,
                            "the token is about something else, not about this bundle's statement.dsse.json");
    return d;
}

static int read_number(struct rp_timestamp *out, const TS_TST_INFO *info, struct rp_err *err)
{
    const ASN1_INTEGER *serial = TS_TST_INFO_get_serial(info);
    SCOPE(BIGNUM) *number = ASN1_STRING_length(serial) <= SERIAL_BYTES ? ASN1_INTEGER_to_BN(serial, NULL) : NULL;
    char *hex = number ? BN_bn2hex(number) : NULL;
    if (!hex)
        return rp_fail(err, RP_MALFORMED, "the token's serial number has more than %d bytes", SERIAL_BYTES);
    snprintf(out->serial, sizeof out->serial, "%s", hex);
    OPENSSL_free(hex);
    int n = OBJ_obj2txt(out->policy, sizeof out->policy, TS_TST_INFO_get_policy_id((TS_TST_INFO *)info), 1);
    return n > 0 && (size_t)n < sizeof out->policy ? 0 : rp_fail(err, RP_MALFORMED, "the token's policy is too long");
}

static void write_name(char out[RP_TIMESTAMP_NAME], const X509_NAME *name)
{
    char *text = NULL;
    SCOPE(BIO) *memory = BIO_new(BIO_s_mem());
    unsigned long flags = XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB; /* UTF-8 as it is */
    if (memory && X509_NAME_print_ex(memory, name, 0, flags) >= 0) {
        long n = BIO_get_mem_data(memory, &text);
        snprintf(out, RP_TIMESTAMP_NAME, "%.*s", (int)(n < 4096 ? n : 4096), text ? text : "");
    }
    rp_sanitize(out);
}

static int check_extensions(TS_TST_INFO *info, struct rp_err *err)
{
    if (TS_TST_INFO_get_version(info) != 1)
        return rp_fail(err, RP_MALFORMED, "the token is not of version 1");
    for (int i = 0; i < TS_TST_INFO_get_ext_count(info); i++)
        if (X509_EXTENSION_get_critical(TS_TST_INFO_get_ext(info, i)))
            return rp_fail(err, RP_MALFORMED, "the token has a critical extension, which is unknown here");
    return 0;
}

/* The signature is by the certificate in the token, which is for time stamps and nothing else. */
static int check_signature(const struct token_parts *p, struct rp_err *err)
{
    char bytes[4096];
    if (X509_check_purpose(p->certificate, X509_PURPOSE_TIMESTAMP_SIGN, 0) != 1)
        return rp_fail(err, RP_SIGNATURE,
                       "the certificate that the token was signed with is not one for time stamps alone");
    SCOPE(BIO) *content = PKCS7_dataInit(p->token, NULL);
    if (!content)
        return fail_openssl(err, RP_SIGNATURE, "the token's signature cannot be checked");
    while (BIO_read(content, bytes, sizeof bytes) > 0) { /* computes its digest */
    }
    if (PKCS7_signatureVerify(content, p->token, p->signer, p->certificate) == 1)
        return 0;
    return fail_openssl(err, RP_SIGNATURE, "the token is not signed with the certificate in it");
}

static int read_parts(struct rp_timestamp *out, const struct token_parts *p, const struct rp_buf *statement,
                      struct rp_err *err)
{
    const struct digest *d = check_extensions(p->info, err) < 0 ? NULL : check_imprint(p->info, statement, err);
    if (!d || read_time(out, p->info, err) < 0 || read_accuracy(&out->accuracy_ns, p->info, err) < 0 ||
        read_number(out, p->info, err) < 0)
        return -1;
    snprintf(out->hash, sizeof out->hash, "%s", d->name);
    write_name(out->authority, X509_get_subject_name(p->certificate));
    return check_signature(p, err);
}

int rp_timestamp_read(struct rp_timestamp *out, const char *response, size_t size, const struct rp_buf *statement,
                      struct rp_err *err)
{
    PARTS p = {0};
    *out = (struct rp_timestamp){0};
    if (parse_response(&p, response, size, err) == 0 && read_parts(out, &p, statement, err) == 0) {
        ERR_clear_error();
        return 0;
    }
    ERR_clear_error();
    *out = (struct rp_timestamp){0};
    return -1;
}

json_t *rp_timestamp_json(const struct rp_timestamp *t)
{
    char time[32];
    rp_rfc3339(time, (uint64_t)t->time_ns);
    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s}", "time", time, "accuracy_s",
                     t->accuracy_ns < 0 ? json_null() : json_real((double)t->accuracy_ns / 1e9), "authority",
                     t->authority, "serial", t->serial, "policy", t->policy, "hash", t->hash);
}

/* ---- against the verifier's certificates ---- */

struct rp_tsa_ca {
    X509_STORE *store;
};

void rp_tsa_ca_free(struct rp_tsa_ca *ca)
{
    if (ca)
        X509_STORE_free(ca->store);
    free(ca);
}

void rp_tsa_ca_freep(struct rp_tsa_ca **ca)
{
    rp_tsa_ca_free(*ca);
}

/* A certificate needs no passphrase: the file does not get one. */
static int no_passphrase(char *out, int size, int writing, void *arg)
{
    (void)out, (void)size, (void)writing, (void)arg;
    return -1;
}

static int add_certificates(struct rp_tsa_ca *ca, const struct rp_buf *pem, const char *path, struct rp_err *err)
{
    int n = 0;
    X509 *certificate;
    rp_openssl_init();
    SCOPE(BIO) *memory = BIO_new_mem_buf(rp_buf_text(pem), (int)pem->size);
    ca->store = X509_STORE_new();
    if (!memory || !ca->store)
        return fail_openssl(err, RP_BUG, "X509_STORE_new");
    while ((certificate = PEM_read_bio_X509(memory, NULL, no_passphrase, NULL))) {
        int added = X509_STORE_add_cert(ca->store, certificate);
        X509_free(certificate);
        if (!added)
            return fail_openssl(err, RP_MALFORMED, path);
        n++;
    }
    int at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (!at_end)
        return rp_fail(err, RP_MALFORMED, "'%s': certificate %d is damaged", path, n + 1);
    return n ? 0 : rp_fail(err, RP_MALFORMED, "'%s' contains no PEM certificate", path);
}

struct rp_tsa_ca *rp_tsa_ca_load(const char *path, struct rp_err *err)
{
    RP_BUF pem = {0};
    if (rp_read_file(&pem, path, RP_TSA_CA_SIZE_MAX, err) < 0)
        return NULL;
    struct rp_tsa_ca *ca = rp_alloc(sizeof *ca);
    if (add_certificates(ca, &pem, path, err) == 0)
        return ca;
    rp_tsa_ca_free(ca);
    return NULL;
}

/* The file has the authority's certificate itself, which a chain does not end in unless it is a root. */
static int has_own_certificate(const struct rp_tsa_ca *ca, X509 *certificate)
{
    STACK_OF(X509) *all = X509_STORE_get1_all_certs(ca->store);
    int found = 0;
    for (int i = 0; i < sk_X509_num(all); i++)
        found |= X509_cmp(sk_X509_value(all, i), certificate) == 0;
    sk_X509_pop_free(all, X509_free);
    return found && X509_check_issued(certificate, certificate) != X509_V_OK;
}

int rp_timestamp_check(const struct rp_timestamp *t, const char *response, size_t size, const struct rp_tsa_ca *ca,
                       struct rp_err *err)
{
    PARTS p = {0};
    X509_VERIFY_PARAM *param = X509_STORE_get0_param(ca->store);
    if (parse_response(&p, response, size, err) < 0)
        return -1;
    X509_VERIFY_PARAM_set_auth_level(param, SECURITY_LEVEL);
    X509_VERIFY_PARAM_set_time(param, (time_t)(t->time_ns / SECOND_NS));
    if (TS_RESP_verify_signature(p.token, NULL, ca->store, NULL) == 1) {
        ERR_clear_error();
        return 0;
    }
    fail_openssl(err, RP_SIGNATURE, "not by an authority of the CA file");
    if (!has_own_certificate(ca, p.certificate))
        return -1;
    char issuer[RP_TIMESTAMP_NAME] = "";
    write_name(issuer, X509_get_issuer_name(p.certificate));
    return rp_fail(err, RP_SIGNATURE,
                   "the CA file has the authority's own certificate; give the CA certificate that its chain ends in "
                   "(its issuer: '%s')",
                   issuer);
}
