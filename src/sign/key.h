/* Ed25519 keys and signatures (OpenSSL).
 *
 * What:    PKCS#8 PEM private keys (0600, O_EXCL, optionally encrypted), SubjectPublicKeyInfo public keys,
 *          fingerprints. Keys of OpenSSH and public keys of signify and minisign are read too.
 * Flow:    key file -> struct rp_key_pair -> signature bytes; public key + bytes + signature -> 0 or -1.
 * Owner:   struct rp_key_pair is heap, freed and wiped by rp_key_free(). Private bytes never leave this module.
 * Extend:  another tool's public keys and signatures: a strict reader like minisign.c and a case in
 *          load_foreign_public() of key_load.c, signing by rp_key_sign(). For a signature in every bundle also a row of
 *          bundle/members.def, a line in add_stock_forms() of bundle/bundle.c and one in rp_check_stock_signatures() of
 *          verify/outer/check_outer.c.
 *
 * OpenSSL reads no configuration file and loads only its default provider; OPENSSL_CONF is ignored.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

struct rp_key_pair;

/* SHA-256 of the DER SubjectPublicKeyInfo, as "SHA256:" and 64 hex digits. */
#define RP_FINGERPRINT_SIZE 72
#define RP_KEY_NUMBER 8 /* bytes by which signify and minisign identify a key */

/* passphrase NULL: unencrypted. Refuses to overwrite. Creates the directory 0700. */
int rp_key_create(const char *path, const char *passphrase, struct rp_err *err) rp_must_check;
/* The passphrase of an encrypted key is read from passphrase_fd, or if that is -1 from the terminal. */
struct rp_key_pair *rp_key_load(const char *path, int passphrase_fd, struct rp_err *err) rp_must_check;
/* Would rp_key_load() accept it? Without a passphrase: of an encrypted key only the form and the mode are checked. */
int rp_key_check(const char *path, struct rp_err *err) rp_must_check;
/* PEM, or what OpenSSH, signify and minisign write. */
struct rp_key_pair *rp_key_load_public(const char *text, size_t size, const char *what,
                                       struct rp_err *err) rp_must_check;
/* A private or a public key: rp_key_load() or rp_key_load_public(). */
struct rp_key_pair *rp_key_load_any(const char *path, int passphrase_fd, struct rp_err *err) rp_must_check;
struct rp_key_pair *rp_key_load_public_file(const char *path, struct rp_err *err) rp_must_check; /* no private key */
void rp_key_free(struct rp_key_pair *k);
void rp_key_freep(struct rp_key_pair **k);
#define RP_KEY __attribute__((cleanup(rp_key_freep))) struct rp_key_pair

void rp_key_fingerprint(const struct rp_key_pair *k, char out[RP_FINGERPRINT_SIZE]);
void rp_key_public_pem(const struct rp_key_pair *k, struct rp_buf *out);
void rp_key_public_bytes(const struct rp_key_pair *k, unsigned char out[32]);
/* The number that signify or minisign gave the public key, else the first bytes of its fingerprint. */
void rp_key_number(const struct rp_key_pair *k, unsigned char out[RP_KEY_NUMBER]);
int rp_key_sign(const struct rp_key_pair *k, const void *data, size_t size, unsigned char sig[64],
                struct rp_err *err) rp_must_check;
/* 0 good; -1 and RP_SIGNATURE otherwise */
int rp_key_verify(const struct rp_key_pair *k, const void *data, size_t size, const unsigned char sig[64],
                  struct rp_err *err) rp_must_check;

/* $XDG_CONFIG_HOME/repro/leaf, else ~/.config/repro/leaf; free() it. */
char *rp_config_path(const char *leaf, struct rp_err *err) rp_must_check;

/* Default private key: $REPRO_KEY, else $XDG_CONFIG_HOME/repro/key.pem, else ~/.config/repro/key.pem. free() the
 * result. */
char *rp_key_default_path(struct rp_err *err) rp_must_check;
/* The fingerprint of the default key, without asking for a passphrase. -1: this machine has no such key, or
 * RP_UNAVAILABLE: it is encrypted. */
int rp_key_own(char fingerprint[RP_FINGERPRINT_SIZE], struct rp_err *err) rp_must_check;
/* Load path (NULL: the default); a missing default key is created and *created set to 1. */
struct rp_key_pair *rp_key_load_or_create(const char *path, int passphrase_fd, int *created,
                                          struct rp_err *err) rp_must_check;
