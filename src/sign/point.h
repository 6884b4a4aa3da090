/* Which 32 bytes are a public key of Ed25519 that means something.
 *
 * What:    under a point of small order signatures hold that nobody made; and a key has one form (RFC 8032, 5.1.3). OpenSSL refuses
 *          neither when it reads a key.
 * Flow:    each public key that is read, of whatever form (key.c) -> rp_point_check().
 * Extend:  nothing: the curve has five y of small order, and each other spelling of one is above the prime.
 */
#ifndef RP_SIGN_POINT_H
#define RP_SIGN_POINT_H

#include "base/err.h"

/* 0, or -1 RP_MALFORMED; what: the key, for the message. */
int rp_point_check(const unsigned char key[32], const char *what, struct rp_err *err) rp_must_check;

#endif
