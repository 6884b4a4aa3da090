/* Countersignatures: statements of others about a sealed bundle, in addition to its author's signature.
 *
 * What:    members signatures/N.dsse.json and signatures/N.pem, N from 0 without gaps: a DSSE envelope around an
 *          in-toto Statement whose only subject is statement.dsse.json, and so all that this names, and the public key
 *          that it is checked with:
 *
 *            {"_type", "predicate": {"at", "note", "program", "role"}, "predicateType": "urn:repro:signature:1",
 *             "subject": [{"digest": {"sha256"}, "name": "statement.dsse.json"}]}
 *
 *          The predicate of a replicator may have "replication", the SHA-256 of the statement.dsse.json of a
 *          replication by the same key; `repro sign` verifies that bundle first and recomputes a keyed root of it; so
 *          does `repro verify --replication`. The role is a claim of the signer: authorship is decided only by the key
 *          of statement.dsse.json.
 * Flow:    struct rp_countersignature + key -> member; member + key -> struct rp_countersignature, after its signature
 *          was verified.
 * Owner:   fixed-size structs of the caller.
 * Extend:  another role is a word of RP_COUNTERSIGN_ROLES; another key of the predicate goes into write_statement() of
 *          countersign.c.
 *
 * A bundle does not record its number of countersignatures: the removal of one is not detected.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "sign/key.h"

#define RP_COUNTERSIGN_MAX 32
#define RP_COUNTERSIGN_ROLES "author|replicator|reviewer"
#define RP_COUNTERSIGN_TYPE "urn:repro:signature:1"
#define RP_COUNTERSIGN_FOLDER "signatures/"

struct rp_countersignature {
    char role[16], at[32], program[64];
    char note[501];       /* UTF-8 without control characters; "" for none */
    char replication[65]; /* of a replicator: the replication that is named; "" for none */
};

/* RP_USAGE: an invalid role or note. statement: the bytes of statement.dsse.json. */
int rp_countersign_seal(struct rp_buf *out, const struct rp_countersignature *c, const struct rp_buf *statement,
                        const struct rp_key_pair *key, struct rp_err *err) rp_must_check;
/* RP_SIGNATURE: not by this key; RP_MISMATCH: about another statement; RP_MALFORMED: not in the form of
 * rp_countersign_seal(). */
int rp_countersign_open(struct rp_countersignature *c, const char *text, size_t size, const struct rp_buf *statement,
                    const struct rp_key_pair *key, struct rp_err *err) rp_must_check;
