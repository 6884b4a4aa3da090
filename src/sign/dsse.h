/* DSSE v1 envelopes: the signed bytes and their signature in one JSON file.
 *
 * What:    {"payload": base64, "payloadType": "application/vnd.in-toto+json", "signatures": [{"keyid", "sig": base64}]}
 * Flow:    payload + key -> envelope text; envelope text -> payload and signature, not yet verified -> rp_dsse_check().
 * Owner:   struct rp_envelope owns its payload; rp_envelope_fini().
 * Extend:  a second signature form is another entry of "signatures"; today exactly one is written and accepted.
 *
 * What is signed is PAE(type, body) = "DSSEv1" SP len(type) SP type SP len(body) SP body, lengths in decimal bytes.
 * Only the exact form that rp_dsse_seal() writes is accepted, so no byte of an envelope can change undetected.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "sign/key.h"

#define RP_DSSE_PAYLOAD_TYPE "application/vnd.in-toto+json"

struct rp_envelope {
    struct rp_buf payload; /* exact bytes; do not parse before rp_dsse_check() */
    unsigned char sig[64];
    char keyid[RP_FINGERPRINT_SIZE]; /* a hint, not trusted */
};

int rp_dsse_seal(struct rp_buf *out, const void *payload, size_t size, const struct rp_key_pair *key,
                 struct rp_err *err) rp_must_check;
/* RP_MALFORMED */
int rp_dsse_parse(struct rp_envelope *e, const char *text, size_t size, struct rp_err *err) rp_must_check;
/* RP_SIGNATURE */
int rp_dsse_check(const struct rp_envelope *e, const struct rp_key_pair *key, struct rp_err *err) rp_must_check;
void rp_envelope_fini(struct rp_envelope *e);
void rp_dsse_pae(struct rp_buf *out, const char *type, const void *body, size_t size);
