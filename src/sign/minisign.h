/* Signatures as minisign writes them; its public keys are signify's.
 *
 * What:    a signature has four lines:
 *
 *            untrusted comment: TEXT
 *            base64 of   "ED" | number 8 | signature 64      of BLAKE2b-512 of the file; "Ed": of the file itself, as
 *                                                            before minisign 0.11
 *            trusted comment: TEXT
 *            base64 of   signature 64                        of the first signature's 64 bytes and TEXT of the line
 *                                                            before
 *
 * Flow:    as in signify.h.
 * Owner:   as in signify.h.
 */
#pragma once

#include "sign/signify.h"

/* file: what the trusted comment calls the signed bytes. */
int rp_minisign_sign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, const char *file,
                     struct rp_err *err) rp_must_check;
/* 0: both signatures are by k; the key number of the first is ignored. RP_MALFORMED or RP_SIGNATURE otherwise. */
int rp_minisign_check(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size,
                      const char *what, struct rp_err *err) rp_must_check;
