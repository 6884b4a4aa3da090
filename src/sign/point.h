/* Which 32 bytes are an acceptable public key of Ed25519.
 *
 * What:    under a point of small order anyone can make valid signatures; and a key has only one encoding (RFC 8032,
 *          5.1.3). OpenSSL checks neither when it reads a key.
 * Flow:    each public key that is read, in any form (key_load.c) -> rp_point_check().
 *          The curve has five y of small order, and every other encoding of one is above the prime.
 */
#pragma once

#include "base/err.h"

/* 0, or -1 RP_MALFORMED; what: the key, for the message. */
int rp_point_check(const unsigned char key[32], const char *what, struct rp_err *err) rp_must_check;
