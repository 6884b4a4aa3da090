/* Time stamping authorities of a test: certificates and tokens of any time and form, made with OpenSSL.
 *
 * What:    tsa_make() makes an authority with a root and an intermediate; tsa_stamp() answers a request.
 * Owner:   struct tsa is freed by tsa_fini().
 */
#pragma once

#include "base/buf.h"
#include "tests/unit/tap.h"

#include <openssl/pem.h>
#include <openssl/ts.h>
#include <openssl/x509v3.h>

#define TSA_T0 1700000000ll /* 2023-11-14T22:13:20Z: when they stamp, unless a test says otherwise */
#define TSA_DAY 86400ll

struct tsa {
    EVP_PKEY *root_key, *middle_key, *key;
    X509 *root, *middle, *certificate;
};
struct tsa_kind {
    const char *key;     /* "RSA" or "EC" */
    const char *usage;   /* of extended keys; NULL: that of an authority */
    long long until;     /* seconds after TSA_T0 that the authority is valid; 0: a year */
    int bits;            /* of RSA; 0: 2048 */
};
struct tsa_stamp {
    long long time; /* 0: TSA_T0 */
    long usec;
    unsigned digits; /* of the fraction */
    int accuracy_s, accuracy_ms, accuracy_us;
    const EVP_MD *signer; /* NULL: SHA-256 */
    int chain;            /* its identifiers are signed too */
};

static EVP_PKEY *tsa_key(const struct tsa_kind *kind)
{
    return strcmp(kind->key, "EC") == 0 ? EVP_EC_gen("P-256") : EVP_RSA_gen((unsigned)(kind->bits ? kind->bits : 2048));
}

static void tsa_extend(X509 *x, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    if (!e || !X509_add_ext(x, e, -1))
        abort();
    X509_EXTENSION_free(e);
}

static X509 *tsa_certificate(const char *name, EVP_PKEY *key, const X509 *issuer, EVP_PKEY *issuer_key,
                             const char *usage, long long until)
{
    X509 *x = X509_new();
    X509_NAME *n = X509_get_subject_name(x);
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 4711);
    ASN1_TIME_set(X509_getm_notBefore(x), TSA_T0 - TSA_DAY);
    ASN1_TIME_set(X509_getm_notAfter(x), TSA_T0 + (until ? until : 365 * TSA_DAY));
    X509_NAME_add_entry_by_txt(n, "O", MBSTRING_UTF8, (const unsigned char *)"Exact \xc3\x9chr", -1, -1, 0);
    X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
    X509_set_pubkey(x, key);
    tsa_extend(x, NID_basic_constraints, usage ? "critical,CA:FALSE" : "critical,CA:TRUE");
    tsa_extend(x, NID_key_usage, usage ? "critical,digitalSignature" : "critical,keyCertSign");
    if (usage && *usage)
        tsa_extend(x, NID_ext_key_usage, usage);
    if (!X509_sign(x, issuer_key, EVP_sha256()))
        abort();
    return x;
}

static __attribute__((unused)) void tsa_make(struct tsa *t, struct tsa_kind kind)
{
    static int made;
    char name[32]; /* OpenSSL finds an issuer by its name */
    const char *usage = kind.usage ? kind.usage : "critical,timeStamping";
    t->root_key = tsa_key(&kind);
    t->middle_key = tsa_key(&kind);
    t->key = tsa_key(&kind);
    t->root = tsa_certificate(RP_FORMAT(name, "root %d", made++), t->root_key, NULL, t->root_key, NULL, 3650 * TSA_DAY);
    t->middle = tsa_certificate("intermediate", t->middle_key, t->root, t->root_key, NULL, 3650 * TSA_DAY);
    t->certificate = tsa_certificate("authority", t->key, t->middle, t->middle_key, usage, kind.until);
}

static __attribute__((unused)) void tsa_fini(struct tsa *t)
{
    EVP_PKEY_free(t->root_key), EVP_PKEY_free(t->middle_key), EVP_PKEY_free(t->key);
    X509_free(t->root), X509_free(t->middle), X509_free(t->certificate);
    *t = (struct tsa){0};
}
#define TSA __attribute__((cleanup(tsa_fini))) struct tsa

/* The same authority with a certificate of another usage: OpenSSL makes no token with it, but one can be put into a
 * token. */
static __attribute__((unused)) X509 *tsa_other_certificate(const struct tsa *t, const char *usage)
{
    return tsa_certificate("authority", t->key, t->middle, t->middle_key, usage, 0);
}

static __attribute__((unused)) void tsa_root_pem(const struct tsa *t, struct rp_buf *out)
{
    char *text;
    BIO *b = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(b, t->root);
    long n = BIO_get_mem_data(b, &text);
    rp_buf_add(out, text, (size_t)n);
    BIO_free(b);
}

static ASN1_INTEGER *tsa_serial(TS_RESP_CTX *c, void *arg)
{
    (void)c, (void)arg;
    ASN1_INTEGER *n = ASN1_INTEGER_new();
    ASN1_INTEGER_set(n, 0xabc123);
    return n;
}

static int tsa_time(TS_RESP_CTX *c, void *arg, long *sec, long *usec)
{
    const struct tsa_stamp *s = arg;
    (void)c;
    *sec = (long)(s->time ? s->time : TSA_T0);
    *usec = s->usec;
    return 1;
}

/* The response, NULL if the authority failed; free it. */
static __attribute__((unused)) TS_RESP *tsa_answer(const struct tsa *t, const struct rp_buf *request,
                                                   struct tsa_stamp s)
{
    TS_RESP_CTX *c = TS_RESP_CTX_new();
    STACK_OF(X509) *certificates = sk_X509_new_null();
    ASN1_OBJECT *policy = OBJ_txt2obj("1.2.3.4.1", 1);
    BIO *b = BIO_new_mem_buf(request->data, (int)request->size);
    sk_X509_push(certificates, t->middle);
    if (s.chain)
        sk_X509_push(certificates, t->root);
    TS_RESP_CTX_set_signer_cert(c, t->certificate);
    TS_RESP_CTX_set_signer_key(c, t->key);
    TS_RESP_CTX_set_signer_digest(c, s.signer ? s.signer : EVP_sha256());
    TS_RESP_CTX_set_ess_cert_id_digest(c, EVP_sha256());
    TS_RESP_CTX_set_def_policy(c, policy);
    TS_RESP_CTX_set_certs(c, certificates);
    TS_RESP_CTX_add_md(c, EVP_sha256());
    TS_RESP_CTX_set_serial_cb(c, tsa_serial, NULL);
    TS_RESP_CTX_set_time_cb(c, tsa_time, &s);
    TS_RESP_CTX_set_clock_precision_digits(c, s.digits);
    if (s.accuracy_s || s.accuracy_ms || s.accuracy_us)
        TS_RESP_CTX_set_accuracy(c, s.accuracy_s, s.accuracy_ms, s.accuracy_us);
    if (s.chain)
        TS_RESP_CTX_add_flags(c, TS_ESS_CERT_ID_CHAIN);
    TS_RESP *r = TS_RESP_create_response(c, b);
    BIO_free(b);
    ASN1_OBJECT_free(policy);
    sk_X509_free(certificates);
    TS_RESP_CTX_free(c);
    return r;
}

static __attribute__((unused)) void tsa_write(struct rp_buf *out, TS_RESP *r)
{
    unsigned char *der = NULL;
    int n = i2d_TS_RESP(r, &der);
    if (n <= 0)
        abort();
    rp_buf_add(out, der, (size_t)n);
    OPENSSL_free(der);
    TS_RESP_free(r);
}
