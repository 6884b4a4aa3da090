/* Public values: published values that were unknown before a given time, so a run derived from one cannot be older.
 *
 * What:    a file as published is recognised by its content, read strictly, and checked as far as that is possible
 *          offline:
 *            drand    {"round", "randomness", "signature"[, "previous_signature"]} of the default chain or quicknet, as
 *                     its relays answer
 *            bitcoin  the 80 bytes of a block header as 160 hex digits
 * Flow:    bytes of the file -> rp_public_value_read() -> kind, nonce, time, what was checked and what is claimed.
 * Owner:   a struct of fixed size of the caller.
 * Extend:  another kind is a reader in public_value.c, a vector as published in tests/unit/test_public_value.c
 *          and a file in the corpus of fuzz_public_value.
 *
 * Checked means: recomputed from these bytes. It costs nothing to make up a drand round whose digests agree: its
 * BLS12-381 signature is not checked, since OpenSSL has no such curve. `proved` is 0, and a verifier who doubts it
 * looks the round up where it was published. A block header cannot be made up for less than RP_PUBLIC_VALUE_WORK
 * expected hashes: `proved` is 1. No list of blocks is known here, so it may be of a private chain, at the price of
 * that work.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_PUBLIC_VALUE_MAX 4096 /* bytes of a file; a round has about 500 */
/* log2 of the expected SHA-256d evaluations that a block's target stands for. Blocks reached it in 2019 and have been
 * above 2^78 since 2024; a machine of 200 terahashes/s would need six years for one header. */
#define RP_PUBLIC_VALUE_WORK 75
#define RP_PUBLIC_VALUE_KINDS "drand round, Bitcoin block header"

struct rp_public_value {
    char kind[16];           /* "drand" or "bitcoin" */
    char name[80];           /* "drand quicknet round 12345", "Bitcoin block 0000...": printable ASCII */
    unsigned char nonce[32]; /* SHA-256 of "repro-public-value/1\n" and the bytes of randomness or the block's hash
                                as it is displayed */
    int64_t time_ns;         /* since 1970: of the round by its number, of the block by what it says; not after 2261 */
    /* how much earlier than time_ns the value may have been known if what is claimed is true: a miner's clock may be
     * two hours fast */
    int64_t early_ns;
    int proved;              /* 1: the cost of making it up was checked here */
    char checked[320];       /* what was recomputed; printable ASCII, no full stop */
    char claimed[300];       /* what was not */
};

/* RP_MALFORMED: the file is none of the kinds, or not in the form of its kind; RP_MISMATCH: a digest does not follow,
 * or too little work. *out is zeroed on failure. Whether time_ns is in the future is the caller's to judge. */
int rp_public_value_read(struct rp_public_value *out, const void *data, size_t size, struct rp_err *err) rp_must_check;
