/* Shared by the files of sign/key.h.
 *
 * What:    the key as OpenSSL holds it, its public form in DER, and OpenSSL's reasons in messages.
 * Flow:    key_load.c reads keys, key.c makes and uses them.
 * Owner:   rp_key_new() takes the EVP_PKEY.
 */
#pragma once

#include "sign/key.h"

#include <openssl/bio.h>
#include <openssl/evp.h>

struct rp_key_pair {
    EVP_PKEY *pkey;
    unsigned char number[RP_KEY_NUMBER];
};
struct rp_key_pair *rp_key_new(EVP_PKEY *pkey);

/* The SubjectPublicKeyInfo of RFC 8410: SEQUENCE { SEQUENCE { id-Ed25519 }, BIT STRING of 32 bytes }. */
#define RP_KEY_DER 44 /* bytes: the head, then the key */
extern const unsigned char rp_key_der_head[RP_KEY_DER - 32];

/* Fails with the message and OpenSSL's reason, and clears OpenSSL's queue. */
int rp_key_fail(struct rp_err *err, enum rp_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static inline void rp_key_bio_freep(BIO **b)
{
    BIO_free_all(*b);
}
#define RP_KEY_BIO __attribute__((cleanup(rp_key_bio_freep))) BIO

static inline void rp_key_pkey_freep(EVP_PKEY **k)
{
    EVP_PKEY_free(*k);
}
#define RP_KEY_PKEY __attribute__((cleanup(rp_key_pkey_freep))) EVP_PKEY
