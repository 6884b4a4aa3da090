/* Certificates of the NIST randomness beacon, with which the signature of a pulse can be checked.
 *
 * What:    a PEM file with the beacon's certificates, one or several, since it changes its key every year or two. A pulse names its own by
 *          the SHA-512 of the DER form (certificateId), and is signed with RSA (PKCS #1 v1.5) over the SHA-512 of its fields.
 * Flow:    file -> struct rp_beacon -> rp_beacon_check() of one pulse (sign/public_value.c serialises it).
 * Owner:   struct rp_beacon is freed by rp_beacon_free().
 * Extend:  another cipherSuite is another digest in rp_beacon_check(), once a beacon uses it.
 *
 * The file does not prove that a certificate is NIST's; the verifier has to get it from NIST, which serves it at
 * https://beacon.nist.gov/beacon/2.0/certificate/ and the certificateId. Its chain and revocation are not looked up. Pulses of September
 * 2026 name a certificate whose key has 2048 bits and carry signatures of 4096: those are refused, as they are by every other tool.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define RP_BEACON_SIZE_MAX 262144 /* bytes of the file */
#define RP_BEACON_CERTIFICATES 32 /* in it */
#define RP_BEACON_ID 64           /* bytes of a certificateId */

struct rp_beacon;
struct rp_beacon_pulse {
    const struct rp_buf *certificate_id, *message, *signature; /* message: the fields that are signed */
    int64_t time_s;                                            /* since 1970 */
};

/* RP_MALFORMED: no PEM certificate, a damaged one, or too many. */
struct rp_beacon *rp_beacon_load(const char *path, struct rp_err *err) rp_must_check;
void rp_beacon_free(struct rp_beacon *b);
void rp_beacon_freep(struct rp_beacon **b);
#define RP_BEACON __attribute__((cleanup(rp_beacon_freep))) struct rp_beacon

/* by: "'engine.beacon.nist.gov', issued by 'DigiCert Global CA G2'", printable ASCII. RP_SIGNATURE: none of the certificates is the one
 * that the pulse names, or it was not valid at the pulse's time, has no RSA key of at least 2048 bits, or has not signed it. */
#define RP_BEACON_BY 180
int rp_beacon_check(const struct rp_beacon *b, const struct rp_beacon_pulse *p, char by[RP_BEACON_BY], struct rp_err *err) rp_must_check;
