/* Signatures and secret keys as minisign writes them; its public keys are signify's.
 *
 * What:    a signature has four lines:
 *
 *            untrusted comment: TEXT
 *            base64 of   "ED" | number 8 | signature 64      of BLAKE2b-512 of the file; "Ed": of the file itself, as before minisign 0.11
 *            trusted comment: TEXT
 *            base64 of   signature 64                        of the first signature's 64 bytes and TEXT of the line before
 *
 *          a secret key two, the second being the base64 of
 *            "Ed" | "Sc" or two zeros | "B2" | salt 32 | operations 8 | memory 8, little endian | number 8 | seed 32 |
 *            public key 32 | checksum 32
 *          With "Sc" the last 104 bytes are XORed with scrypt(passphrase, salt). The checksum is BLAKE2b-256 of "Ed", number, seed and
 *          public key; it is not checked, because a wrong passphrase or a damaged byte leaves two halves of a key that do not match
 *          (key.c).
 * Flow:    as in signify.h.
 * Owner:   as in signify.h.
 */
#pragma once

#include "sign/signify.h"

/* file: what the trusted comment calls the signed bytes. */
int rp_minisign_sign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, const char *file,
                     struct rp_err *err) rp_must_check;
/* 0: both signatures are by k; the key number of the first is ignored. RP_MALFORMED or RP_SIGNATURE otherwise. */
int rp_minisign_check(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size, const char *what,
                      struct rp_err *err) rp_must_check;

/* 1: it needs a passphrase, 0: it does not, -1: it is not a secret key of minisign. */
int rp_minisign_is_encrypted(const char *text, size_t size, const char *what, struct rp_err *err) rp_must_check;
/* With a wrong passphrase *out is not a key pair. The memory that its scrypt needs is minisign's choice, 1 GiB by default. */
int rp_minisign_open(struct rp_foreign_secret *out, const char *text, size_t size, const char *passphrase /* or NULL */, const char *what,
                     struct rp_err *err) rp_must_check;
