/* Ed25519 keys: making and using them. */
#include "sign/key_inner.h"

#include "base/hash.h"
#include "base/openssl.h"
#include "base/private_file.h"
#include "sign/passphrase.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* scrypt: 16 MiB and five passes, the most that OpenSSL's default memory limit lets every reader open */
#define SCRYPT_N 16384
#define SCRYPT_R 8
#define SCRYPT_P 5

const unsigned char rp_key_der_head[RP_KEY_DER - 32] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                        0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

int rp_key_fail(struct rp_err *err, enum rp_code code, const char *fmt, ...)
{
    char text[400];
    RP_FORMAT_ARGS(text, fmt);
    const char *why = ERR_reason_error_string(ERR_peek_error());
    rp_fail(err, code, "%s (OpenSSL: %s)", text, why ? why : "no reason given");
    ERR_clear_error();
    return -1;
}

struct rp_key_pair *rp_key_new(EVP_PKEY *pkey)
{
    struct rp_key_pair *k = rp_alloc(sizeof *k);
    char print[RP_FINGERPRINT_SIZE];
    k->pkey = pkey;
    rp_key_fingerprint(k, print);
    print[7 + 2 * RP_KEY_NUMBER] = 0;
    RP_BUG_IF(rp_unhex(k->number, RP_KEY_NUMBER, print + 7) < 0);
    return k;
}

void rp_key_free(struct rp_key_pair *k)
{
    if (!k)
        return;
    EVP_PKEY_free(k->pkey); /* OpenSSL wipes the private bytes */
    free(k);
}

void rp_key_freep(struct rp_key_pair **k)
{
    rp_key_free(*k);
}

/* ---- making ---- */

/* PEM text of the key in bio, encrypted when there is a passphrase. */
static int write_pem(BIO *bio, EVP_PKEY *pkey, const char *passphrase, struct rp_err *err)
{
    if (!passphrase) {
        if (!PEM_write_bio_PKCS8PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL))
            return rp_key_fail(err, RP_BUG, "cannot encode a new key");
        return 0;
    }
    PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(pkey);
    X509_ALGOR *pbe = PKCS5_pbe2_set_scrypt(EVP_aes_256_cbc(), NULL, 0, NULL, SCRYPT_N, SCRYPT_R, SCRYPT_P);
    X509_SIG *sealed = info && pbe ? PKCS8_set0_pbe(passphrase, (int)strlen(passphrase), info, pbe) : NULL;
    if (!sealed)
        X509_ALGOR_free(pbe); /* else owned by sealed */
    int ok = sealed && PEM_write_bio_PKCS8(bio, sealed);
    X509_SIG_free(sealed);
    PKCS8_PRIV_KEY_INFO_free(info);
    return ok ? 0 : rp_key_fail(err, RP_BUG, "cannot encrypt a new key");
}

/* The file appears complete or not at all, and never replaces another. */
static int publish_key(const char *tmp, const char *path, struct rp_err *err)
{
    if (rp_publish(tmp, path) == 0)
        return 0;
    if (errno == EEXIST)
        return rp_fail(err, RP_USAGE, "'%s' exists and keys are never overwritten; choose another name or move it away",
                       path);
    return rp_fail(err, RP_IO, "cannot create '%s': %s", path, strerror(errno));
}

#define ELSEWHERE                                                                                                      \
    "name a writable place with REPRO_KEY=FILE, --key FILE of run, or --output of 'key new'; in a container, one on "  \
    "a volume"

static int write_private(const char *path, const char *pem, size_t size, struct rp_err *err)
{
    RP_FREE char *tmp = rp_asprintf("%s.%ld.new", path, (long)getpid());
    unlink(tmp);
    RP_FD fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return rp_fail(err, RP_IO, "cannot create '%s': %s; " ELSEWHERE, path, strerror(errno));
    int failed = 0;
    if (fchmod(fd, 0600) < 0 || rp_write_all(fd, pem, size) < 0 || fsync(fd) < 0)
        failed = rp_fail(err, RP_IO, "cannot write '%s': %s", path, strerror(errno)) < 0;
    failed = failed || publish_key(tmp, path, err) < 0;
    unlink(tmp);
    return failed ? -1 : 0;
}

int rp_key_create(const char *path, const char *passphrase, struct rp_err *err)
{
    rp_openssl_init();
    struct stat st;
    if (lstat(path, &st) == 0)
        return rp_fail(err, RP_USAGE, "'%s' exists and keys are never overwritten; choose another name or move it away",
                       path);
    if (passphrase && !*passphrase)
        return rp_fail(err, RP_USAGE, "the passphrase is empty; leave it out for a key without one");
    RP_FREE char *dir = rp_folder_of(path);
    struct rp_err why = {0};
    if (rp_mkdirs(dir, 0700, &why) < 0) {
        errno = why.sys;
        return rp_fail(err, RP_IO, "cannot make the signing key '%s': %s; " ELSEWHERE, path, why.msg);
    }
    RP_KEY_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    RP_KEY_BIO *bio = BIO_new(BIO_s_secmem());
    if (!pkey || !bio)
        return rp_key_fail(err, RP_UNAVAILABLE, "cannot make an Ed25519 key");
    if (write_pem(bio, pkey, passphrase, err) < 0)
        return -1;
    char *pem;
    long size = BIO_get_mem_data(bio, &pem);
    int failed = write_private(path, pem, (size_t)size, err) < 0;
    rp_wipe(pem, (size_t)size);
    return failed ? -1 : 0;
}

/* ---- using ---- */

static void public_der(const struct rp_key_pair *k, unsigned char der[RP_KEY_DER])
{
    memcpy(der, rp_key_der_head, sizeof rp_key_der_head);
    rp_key_public_bytes(k, der + sizeof rp_key_der_head);
}

void rp_key_fingerprint(const struct rp_key_pair *k, char out[RP_FINGERPRINT_SIZE])
{
    unsigned char der[RP_KEY_DER];
    public_der(k, der);
    memcpy(out, "SHA256:", 7);
    rp_sha256_hex(out + 7, der, sizeof der);
}

void rp_key_public_pem(const struct rp_key_pair *k, struct rp_buf *out)
{
    unsigned char der[RP_KEY_DER];
    public_der(k, der);
    rp_buf_puts(out, "-----BEGIN PUBLIC KEY-----\n");
    rp_base64(out, der, sizeof der);
    rp_buf_puts(out, "\n-----END PUBLIC KEY-----\n");
}

void rp_key_public_bytes(const struct rp_key_pair *k, unsigned char out[32])
{
    size_t n = 32;
    RP_BUG_IF(EVP_PKEY_get_raw_public_key(k->pkey, out, &n) != 1 || n != 32);
}

void rp_key_number(const struct rp_key_pair *k, unsigned char out[RP_KEY_NUMBER])
{
    memcpy(out, k->number, RP_KEY_NUMBER);
}

int rp_key_sign(const struct rp_key_pair *k, const void *data, size_t size, unsigned char sig[64], struct rp_err *err)
{
    rp_openssl_init();
    size_t n = 64;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    int ok = c && EVP_DigestSignInit(c, NULL, NULL, NULL, k->pkey) == 1 &&
             EVP_DigestSign(c, sig, &n, data, size) == 1 && n == 64;
    EVP_MD_CTX_free(c);
    return ok ? 0 : rp_key_fail(err, RP_SIGNATURE, "cannot sign with this key; is it a private one?");
}

int rp_key_verify(const struct rp_key_pair *k, const void *data, size_t size, const unsigned char sig[64],
                  struct rp_err *err)
{
    rp_openssl_init();
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    int ok =
        c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, k->pkey) == 1 && EVP_DigestVerify(c, sig, 64, data, size) == 1;
    EVP_MD_CTX_free(c);
    ERR_clear_error(); /* OpenSSL gives no reason */
    if (ok)
        return 0;
    char print[RP_FINGERPRINT_SIZE];
    rp_key_fingerprint(k, print);
    return rp_fail(err, RP_SIGNATURE, "these bytes were not signed by the key %s", print);
}
