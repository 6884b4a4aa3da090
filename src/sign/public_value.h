/* Public values: published values that were unknown before a given time, so a run derived from one cannot be older.
 *
 * What:    a file as published is recognised by its content, read strictly, and checked as far as that is possible offline:
 *            drand    {"round", "randomness", "signature"[, "previous_signature"]} of the default chain or quicknet, as its relays answer
 *            nist     {"pulse": {...}} of the NIST randomness beacon 2.0, as it answers
 *            bitcoin  the 80 bytes of a block header as 160 hex digits
 * Flow:    bytes of the file -> rp_public_value_read() -> kind, nonce, time, what was checked and what is claimed.
 * Owner:   a struct of fixed size of the caller.
 * Extend:  another kind is a row of kinds[] in public_value.c with its reader, a vector as published in tests/unit/test_public_value.c
 *          and a file in the corpus of fuzz_public_value.
 *
 * Checked means: recomputed from these bytes. It costs nothing to make up a drand round or a pulse whose digests agree, unless its
 * signature is checked: OpenSSL has no BLS12-381 for drand's, and a pulse needs the beacon's certificate (sign/beacon.h). Without that
 * check `proved` is 0, and whoever doubts looks the number up where it was published. A block header cannot be made up for less than
 * RP_PUBLIC_VALUE_WORK expected hashes: `proved` is 1. No list of blocks is known here, so it may be of a private chain, at the price of
 * that work.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_PUBLIC_VALUE_MAX 16384 /* bytes of a file; a pulse has about 4,000 */
/* log2 of the expected SHA-256d evaluations that a block's target stands for. Blocks reached it in 2019 and have been above 2^78 since
 * 2024; a machine of 200 terahashes/s would need six years for one header. */
#define RP_PUBLIC_VALUE_WORK 75
#define RP_PUBLIC_VALUE_KINDS "drand round, NIST beacon 2.0 pulse, Bitcoin block header"

struct rp_public_value {
    char kind[16];           /* "drand", "nist" or "bitcoin" */
    char name[80];           /* "drand quicknet round 12345", "NIST beacon chain 2 pulse 678", "Bitcoin block 0000...": printable ASCII */
    unsigned char nonce[32]; /* SHA-256 of "repro-public-value/1\n" and the bytes of randomness, outputValue or the block's hash as it is
                                displayed */
    int64_t time_ns;         /* since 1970: of the round by its number, of the pulse and the block by what they say; not after 2261 */
    int64_t early_ns;        /* how much earlier than time_ns the value may have been known if what is claimed is true: a miner's clock
                                may be two hours fast, a pulse is published after its time: 0 */
    int proved;              /* 1: its signature, or the cost of making it up, was checked here */
    char checked[320];       /* what was recomputed; printable ASCII, no full stop */
    char claimed[300];       /* what was not */
};

/* RP_MALFORMED: the file is none of the kinds, or not in the form of its kind; RP_MISMATCH: a digest does not follow, or too little work.
 * *out is zeroed on failure. Whether time_ns is in the future is the caller's to judge. */
int rp_public_value_read(struct rp_public_value *out, const void *data, size_t size, struct rp_err *err) rp_must_check;
/* The same with the signature of a pulse. RP_SIGNATURE: not signed with a certificate of the beacon; RP_USAGE: not a pulse. */
struct rp_beacon;
int rp_public_value_prove(struct rp_public_value *out, const void *data, size_t size, const struct rp_beacon *beacon,
                          struct rp_err *err) rp_must_check;
