#include "sign/beacon.h"

#include "base/clock.h"
#include "base/openssl.h"
#include "base/text.h"
#include "sign/key.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BITS_MIN 2048

struct rp_beacon {
    X509 *certificate[RP_BEACON_CERTIFICATES];
    int n;
    char path[256]; /* for messages */
};

void rp_beacon_free(struct rp_beacon *b)
{
    for (int i = 0; b && i < b->n; i++)
        X509_free(b->certificate[i]);
    free(b);
}

void rp_beacon_freep(struct rp_beacon **b)
{
    rp_beacon_free(*b);
}

/* A certificate needs no passphrase: the file does not get one. */
static int no_passphrase(char *out, int size, int writing, void *arg)
{
    (void)out, (void)size, (void)writing, (void)arg;
    return -1;
}

static int read_certificates(struct rp_beacon *b, BIO *memory, struct rp_err *err)
{
    X509 *certificate;
    while ((certificate = PEM_read_bio_X509(memory, NULL, no_passphrase, NULL))) {
        if (b->n == RP_BEACON_CERTIFICATES) {
            X509_free(certificate);
            return rp_fail(err, RP_MALFORMED, "'%s' contains more than %d certificates", b->path, RP_BEACON_CERTIFICATES);
        }
        b->certificate[b->n++] = certificate;
    }
    int at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (!at_end)
        return rp_fail(err, RP_MALFORMED, "'%s': certificate %d is damaged", b->path, b->n + 1);
    return b->n ? 0
                : rp_fail(err, RP_MALFORMED, "'%s' contains no PEM certificate; the beacon's are at "
                          "https://beacon.nist.gov/beacon/2.0/certificate/ and the certificateId of the pulse", b->path);
}

struct rp_beacon *rp_beacon_load(const char *path, struct rp_err *err)
{
    RP_BUF pem = {0};
    if (rp_read_file(&pem, path, RP_BEACON_SIZE_MAX, err) < 0)
        return NULL;
    rp_openssl_init();
    struct rp_beacon *b = rp_alloc(sizeof *b);
    BIO *memory = BIO_new_mem_buf(rp_buf_text(&pem), (int)pem.size);
    RP_BUG_IF(!memory);
    snprintf(b->path, sizeof b->path, "%s", path);
    int failed = read_certificates(b, memory, err) < 0;
    BIO_free_all(memory);
    if (!failed)
        return b;
    rp_beacon_free(b);
    return NULL;
}

/* The common name, or what there is of a name. */
static const char *name_of(const X509_NAME *name, char shown[72])
{
    unsigned char *text = NULL;
    int at = X509_NAME_get_index_by_NID((X509_NAME *)name, NID_commonName, -1);
    const X509_NAME_ENTRY *entry = X509_NAME_get_entry(name, at < 0 ? X509_NAME_entry_count(name) - 1 : at);
    int n = entry ? ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry)) : -1;
    char whole[128], ascii[72];
    snprintf(whole, sizeof whole, "%.*s", n > 0 ? n : 0, n > 0 ? (const char *)text : "");
    OPENSSL_free(text);
    rp_excerpt(ascii, whole);
    rp_ascii(shown, 72, ascii);
    return shown;
}

static X509 *find_certificate(const struct rp_beacon *b, const struct rp_buf *id, struct rp_err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char named[2 * RP_BEACON_ID + 1];
    for (int i = 0; i < b->n; i++)
        if (X509_digest(b->certificate[i], EVP_sha512(), digest, NULL) == 1 && rp_buf_is(id, digest, RP_BEACON_ID))
            return b->certificate[i];
    rp_hex(named, id->data, id->size < RP_BEACON_ID ? id->size : RP_BEACON_ID);
    return rp_fail_null(err, RP_SIGNATURE, "'%.200s' lacks the certificate with certificateId %.16s..., which the pulse names; get it from "
                        "https://beacon.nist.gov/beacon/2.0/certificate/ and that id", b->path, named);
}

static int check_valid(const X509 *x, int64_t time_s, struct rp_err *err)
{
    time_t at = (time_t)time_s;
    char when[32];
    if (X509_cmp_time(X509_get0_notBefore(x), &at) < 0 && X509_cmp_time(X509_get0_notAfter(x), &at) > 0)
        return 0;
    rp_rfc3339(when, (uint64_t)time_s * 1000000000u);
    ERR_clear_error();
    return rp_fail(err, RP_SIGNATURE, "the certificate of the pulse was not valid at the pulse's time, %s", when);
}

static int check_signature(EVP_PKEY *key, const struct rp_beacon_pulse *p, struct rp_err *err)
{
    int bits = key ? EVP_PKEY_get_bits(key) : 0;
    if (!key || EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA || bits < KEY_BITS_MIN)
        return rp_fail(err, RP_SIGNATURE, "the certificate of the pulse has no RSA key of at least %d bits", KEY_BITS_MIN);
    if ((size_t)EVP_PKEY_get_size(key) != p->signature->size)
        return rp_fail(err, RP_SIGNATURE, "the pulse's signature has %zu bits, the key of its certificate %d, as in NIST's own pulses "
                       "since September 2026: it cannot be checked, and without --beacon-certificate it is recorded as claimed",
                       8 * p->signature->size, bits);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int good = ctx && EVP_DigestVerifyInit(ctx, NULL, EVP_sha512(), NULL, key) == 1 &&
               EVP_DigestVerify(ctx, (const unsigned char *)p->signature->data, p->signature->size,
                                (const unsigned char *)p->message->data, p->message->size) == 1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good ? 0 : rp_fail(err, RP_SIGNATURE, "the pulse is not signed with the key of its certificate: its signature was made up or "
                                                 "damaged");
}

int rp_beacon_check(const struct rp_beacon *b, const struct rp_beacon_pulse *p, char by[RP_BEACON_BY], struct rp_err *err)
{
    char subject[72], issuer[72];
    X509 *x = find_certificate(b, p->certificate_id, err);
    if (!x || check_valid(x, p->time_s, err) < 0 || check_signature(X509_get0_pubkey(x), p, err) < 0)
        return -1;
    snprintf(by, RP_BEACON_BY, "'%s', issued by '%s'", name_of(X509_get_subject_name(x), subject),
             name_of(X509_get_issuer_name(x), issuer));
    return 0;
}
