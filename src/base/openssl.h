/* OpenSSL's one-time initialisation, for signatures and for encrypted connections.
 *
 * What:    the tables of digests that X.509 and PKCS #7 look into, and locked memory for private keys.
 * Flow:    rp_openssl_init() before anything else of OpenSSL is used, except for base/hash.h.
 * Owner:   the process.
 * Extend:  another digest of certificates is a line here.
 */
#pragma once

void rp_openssl_init(void); /* more often does no harm */
