/* The public half of an Ed25519 key as X.509 writes it: SubjectPublicKeyInfo, RFC 8410, and PEM, RFC 7468.
 *
 * What:    44 bytes of DER, twelve that are always the same and the key; and the three lines of PEM that OpenSSL makes of them.
 * Flow:    key -> DER (fingerprints), key -> PEM, PEM -> key. OpenSSL's encoders and decoders do the same, and took longer than the
 *          signatures for whoever compares a thousand bundles.
 * Owner:   the caller's arrays.
 * Extend:  nothing: every other form of PEM is OpenSSL's (sign/key.c).
 */
#ifndef RP_SIGN_SPKI_H
#define RP_SIGN_SPKI_H

#include <stddef.h>

#define RP_SPKI_SIZE 44 /* bytes of DER */
#define RP_SPKI_PEM 114 /* characters of PEM, and a NUL */

void rp_spki(unsigned char der[RP_SPKI_SIZE], const unsigned char key[32]);
void rp_spki_pem(char out[RP_SPKI_PEM], const unsigned char key[32]);
/* The very bytes of rp_spki_pem(): 0. Any other form, of a good key as well: -1. */
int rp_spki_read(unsigned char key[32], const char *pem, size_t size);

#endif
