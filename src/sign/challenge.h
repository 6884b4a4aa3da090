/* Challenges: values that were unknown before a given time, from which a run derives its seeds.
 *
 * What:    a file by `repro challenge new`: a DSSE envelope, signed by the challenger, around the statement
 *
 *            {"_type", "predicate": {"at", "key": PEM, "note", "parts", "program"},
 *             "predicateType": "urn:repro:challenge:1", "subject": [{"digest": {"sha256": NONCE}, "name": "nonce"}]}
 *
 *          or a public value (sign/public_value.h). The bundle of a run that answers it has the exact bytes as the
 *          member `challenge`.
 * Flow:    key -> file; file -> struct rp_challenge -> seeds (recipe/recipe.h), and parts of a run to replay
 *          (verify/challenge/draw.h).
 * Owner:   fixed-size structs of the caller.
 * Extend:  another kind of file is another reader in rp_challenge_read().
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "sign/key.h"

#include <jansson.h>
#include <stdint.h>

#define RP_CHALLENGE_TYPE "urn:repro:challenge:1"
#define RP_CHALLENGE_MEMBER "challenge"
#define RP_CHALLENGE_MAX 65536 /* bytes of a file */
/* Parts that state roots divide a run into, of which some are drawn: fewer make the odds of a draw poor, and each root
 * takes time. */
#define RP_PARTS_LEAST 64 /* also of a public value */
#define RP_PARTS_MOST 4096

struct rp_challenge {
    char kind[16];                /* "repro", or that of a public value */
    char sha256[RP_SHA256_HEX];   /* of the file */
    char nonce[RP_SHA256_HEX];    /* 32 bytes in hex */
    uint64_t made_ns;             /* since 1970, by the clock of its maker */
    char by[RP_FINGERPRINT_SIZE]; /* the challenger's key; "" for a public value */
    int64_t parts;                /* that a run is divided into, or as many as it has steps */
    char note[201];               /* UTF-8 without control characters; "" for none */
    int proved;                   /* the age of this public value was checked here */
    char checked[640];            /* what was checked, and what was not; printable ASCII */
};

/* A new one with a random nonce. RP_USAGE: a note that is too long or has control characters, or that number of parts.
 */
int rp_challenge_make(struct rp_buf *out, const char *note, int64_t parts, const struct rp_key_pair *key,
                      struct rp_err *err) rp_must_check;
/* RP_SIGNATURE: not signed by the key that it names; RP_MALFORMED: anything else that is wrong. */
int rp_challenge_read(struct rp_challenge *c, const void *data, size_t size, struct rp_err *err) rp_must_check;
int rp_challenge_load(struct rp_challenge *c, struct rp_buf *bytes, const char *path, struct rp_err *err) rp_must_check;

/* facts.json's "challenge": {"kind", "sha256", "nonce", "made_at", "parts", "by"}, without "by" for a public value. */
json_t *rp_challenge_json(const struct rp_challenge *c);

/* Draw number `i` of several, from 0: a number below n that follows from the nonce and from the bundle whose statement
 * has that SHA-256. */
uint64_t rp_challenge_draw(const struct rp_challenge *c, const char *statement, int i, uint64_t n);
