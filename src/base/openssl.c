#include "base/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#define SECRET_HEAP 65536 /* bytes, and the least that is handed out of them; powers of two */
#define SECRET_LEAST 32

void rp_openssl_init(void)
{
    /* Everything used here comes from the provider: loading the older tables of names would take half a millisecond. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS,
                        NULL);
    /* X.509 and PKCS #7 look digests up in those tables all the same, and one that was used before it is in them is not
     * found. */
    EVP_add_digest(EVP_sha256());
    EVP_add_digest(EVP_sha384());
    EVP_add_digest(EVP_sha512());
    /* Private keys stay in memory during a run: not in core dumps and, if the limit on locked memory allows, not in
     * swap. */
    if (!CRYPTO_secure_malloc_initialized())
        CRYPTO_secure_malloc_init(SECRET_HEAP, SECRET_LEAST);
    ERR_clear_error();
}
