/* Time stamps of RFC 3161: an authority signed that a bundle existed at a time.
 *
 * What:    members timestamps/N.tsr, N from 0 without gaps: the authority's response as it came, whose token is about
 *          the SHA-256 (or SHA-384, SHA-512) of the exact bytes of statement.dsse.json, and so about the bundle that
 *          this names.
 * Flow:    statement -> rp_timestamp_request() -> an authority -> response -> rp_timestamp_read() -> struct
 *          rp_timestamp, by its own word; rp_timestamp_check() with certificates that the verifier trusts makes it more
 *          than that.
 * Owner:   fixed-size structs of the caller; struct rp_tsa_ca is freed by rp_tsa_ca_free().
 * Extend:  another kind of token (a transparency log's) gets a file of its own and a folder next to timestamps/.
 *
 * Like countersignatures, time stamps are added after sealing: a removed one is not detected. Certificates are checked
 * for the time of the token, so that it still verifies when they have expired. Revocation is not looked up.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

#define RP_TIMESTAMP_MAX 8 /* of a bundle */
#define RP_TIMESTAMP_FOLDER "timestamps/"
#define RP_TIMESTAMP_SIZE_MAX 65536    /* bytes of a response; 2,000 to 7,000 are usual */
#define RP_TIMESTAMP_CERTIFICATES 16   /* in one */
#define RP_TSA_CA_SIZE_MAX (4ul << 20) /* of a file of CA certificates; a system's has 250 KiB */

#define RP_TIMESTAMP_NAME 200
struct rp_timestamp {
    int64_t time_ns;     /* since 1970: when the token was made */
    int64_t unit_ns;     /* of the last digit of that time, after which digits may have been cut off */
    int64_t accuracy_ns; /* the authority's clock may be that wrong; -1: it does not say */
    char hash[16];       /* of the statement: "SHA-256" */
    char serial[72];     /* hex digits: the token's number */
    char policy[80];     /* under which it was made: "1.2.3.4" */
    /* subject of the certificate that it was signed with, UTF-8 without control characters */
    char authority[RP_TIMESTAMP_NAME];
};

/* {"time", "accuracy_s" or null, "authority", "serial", "policy", "hash"}, and the beginning of a line that a template
 * (report/template.h) makes of it. */
json_t *rp_timestamp_json(const struct rp_timestamp *t);
#define RP_TIMESTAMP_TEXT "time-stamped {/time t}[/accuracy_s: (accurate to {/accuracy_s t} s)] by {/authority q}"

struct rp_tsa_ca; /* certificates that the verifier trusts to end a chain */
/* PEM certificates, at least one. */
struct rp_tsa_ca *rp_tsa_ca_load(const char *path, struct rp_err *err) rp_must_check;
void rp_tsa_ca_free(struct rp_tsa_ca *ca);
void rp_tsa_ca_freep(struct rp_tsa_ca **ca);
#define RP_TSA_CA __attribute__((cleanup(rp_tsa_ca_freep))) struct rp_tsa_ca

/* A TimeStampReq: SHA-256 of the statement's bytes, a random nonce, and the request for certificates. */
int rp_timestamp_request(struct rp_buf *out, const struct rp_buf *statement, struct rp_err *err) rp_must_check;
/* A TimeStampResp: RP_MALFORMED: not one, or no token in it (with the authority's text); RP_MISMATCH: about another
 * statement; RP_SIGNATURE: not signed with a certificate in it, or with one that is not for time stamps. */
int rp_timestamp_read(struct rp_timestamp *out, const char *response, size_t size, const struct rp_buf *statement,
                      struct rp_err *err) rp_must_check;
/* Checks a response that rp_timestamp_read() accepted. RP_SIGNATURE: its certificate's chain does not end in one of the
 * CA file, is weak (RSA below 2048 bits, SHA-1), or was not valid at the token's time. */
int rp_timestamp_check(const struct rp_timestamp *t, const char *response, size_t size, const struct rp_tsa_ca *ca,
                       struct rp_err *err) rp_must_check;
