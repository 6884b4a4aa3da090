/* Message authentication with a key that both sides have, and keys derived from one.
 *
 * What:    HMAC-SHA256 (RFC 2104), comparison in constant time, random bytes. Nothing here needs OpenSSL's TLS:
 *          repro-gpu has it too.
 * Flow:    the key of a job -> rp_secret_derive() with a label and the identities -> one key for each purpose.
 * Owner:   everything is the caller's; secrets are wiped with explicit_bzero().
 * Extend:  a new purpose is a new label; labels end with a version.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define RP_SECRET_SIZE 32

void rp_secret_mac(unsigned char out[RP_SECRET_SIZE], const void *key, size_t key_size, const void *data, size_t size);
/* The key for one purpose: the MAC of "LABEL\0" and the context. */
void rp_secret_derive(unsigned char out[RP_SECRET_SIZE], const unsigned char key[RP_SECRET_SIZE], const char *label,
                      const void *context, size_t size);
int rp_secret_equal(const void *a, const void *b, size_t size); /* in time that depends on the size only */
/* 1 to `max` letters, digits, '.', '_' and '-': what a context names a job or a purpose with. */
int rp_secret_is_name(const char *s, size_t max);
int rp_secret_random(void *out, size_t size, struct rp_err *err) rp_must_check;
/* Before a secret comes: a core file of this process and of those that it starts has no memory at all. Not by
 * PR_SET_DUMPABLE, which also takes /proc/self/environ and /proc/self/fd from a user who is not root; that is the
 * second choice, where /proc is not there. */
void rp_secret_stay_out_of_cores(void);
