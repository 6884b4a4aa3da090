#include "sign/spki.h"

#include <openssl/evp.h>
#include <string.h>

#define BEGIN "-----BEGIN PUBLIC KEY-----\n"
#define END "\n-----END PUBLIC KEY-----\n"
#define BASE64 ((RP_SPKI_SIZE + 2) / 3 * 4)

/* SEQUENCE { SEQUENCE { id-Ed25519 }, BIT STRING of 32 bytes */
static const unsigned char head[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
_Static_assert(sizeof head + 32 == RP_SPKI_SIZE && sizeof BEGIN END + BASE64 == RP_SPKI_PEM, "sizes in spki.h");

void rp_spki(unsigned char der[RP_SPKI_SIZE], const unsigned char key[32])
{
    memcpy(der, head, sizeof head);
    memcpy(der + sizeof head, key, 32);
}

void rp_spki_pem(char out[RP_SPKI_PEM], const unsigned char key[32])
{
    unsigned char der[RP_SPKI_SIZE];
    rp_spki(der, key);
    memcpy(out, BEGIN, sizeof BEGIN - 1);
    EVP_EncodeBlock((unsigned char *)out + sizeof BEGIN - 1, der, sizeof der);
    memcpy(out + sizeof BEGIN - 1 + BASE64, END, sizeof END);
}

int rp_spki_read(unsigned char key[32], const char *pem, size_t size)
{
    unsigned char der[BASE64 / 4 * 3];
    char again[RP_SPKI_PEM];
    if (size != sizeof again - 1 || EVP_DecodeBlock(der, (const unsigned char *)pem + sizeof BEGIN - 1, BASE64) != (int)sizeof der)
        return -1;
    memcpy(key, der + sizeof head, 32);
    rp_spki_pem(again, key);
    return memcmp(pem, again, size) == 0 ? 0 : -1;
}
