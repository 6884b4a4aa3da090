/* Ed25519 keys as OpenSSH writes them: lines of public keys, and private key files without a passphrase.
 *
 * What:    a public key is a line, as in id_ed25519.pub, authorized_keys or what a git host shows of a user:
 *
 *            ssh-ed25519 BASE64 COMMENT        base64 of   string "ssh-ed25519" | string key 32
 *
 *          a private key is a block "OPENSSH PRIVATE KEY" of base64 of
 *
 *            "openssh-key-v1" NUL | string cipher "none" | string kdf "none" | string "" | number of keys 1
 *            string of   public key, as above
 *            string of   check 4 | the same 4 | string "ssh-ed25519" | string key 32 | string seed 32, key 32
 *                        | string comment | bytes 1, 2, 3, ... up to a multiple of 8
 *
 *          where string is a length of 4 bytes, highest first, and that many bytes.
 * Flow:    text -> 32 bytes; key -> text.
 * Owner:   fixed-size arrays of the caller.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "sign/key.h"

#include <stdbool.h>

/* Does a line of the text begin with the name of a type of public keys? */
bool rp_is_openssh_public(const char *text, size_t size);
bool rp_is_openssh_private(const char *text, size_t size);
/* The one ssh-ed25519 key among the lines: keys of other types, comments and empty lines are skipped. */
int rp_openssh_public_read(unsigned char key[32], const char *text, size_t size, const char *what,
                           struct rp_err *err) rp_must_check;
/* RP_UNAVAILABLE: it has a passphrase. */
int rp_openssh_private_read(unsigned char seed[32], const char *text, size_t size, const char *what,
                            struct rp_err *err) rp_must_check;
void rp_openssh_public_write(struct rp_buf *out, const struct rp_key_pair *k);
