/* OpenSSL's low-level functions: unlike EVP they need no library initialisation and no allocation, which is what lets a
 * state root hash thousands of small leaves from many threads. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/hash.h"

#include "base/buf.h"
#include "base/interrupt.h"

#include <errno.h>
#include <openssl/sha.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct rp_sha256), "struct rp_sha256 is too small");

static SHA256_CTX *context(struct rp_sha256 *h)
{
    return (SHA256_CTX *)(void *)h->opaque;
}

void rp_sha256_init(struct rp_sha256 *h)
{
    SHA256_Init(context(h));
}

void rp_sha256_update(struct rp_sha256 *h, const void *data, size_t size)
{
    if (size)
        SHA256_Update(context(h), data, size);
}

void rp_sha256_final(struct rp_sha256 *h, unsigned char out[RP_SHA256_SIZE])
{
    SHA256_Final(out, context(h));
}

void rp_sha256_final_hex(struct rp_sha256 *h, char out[RP_SHA256_HEX])
{
    unsigned char digest[RP_SHA256_SIZE];
    rp_sha256_final(h, digest);
    rp_hex(out, digest, sizeof digest);
}

void rp_sha256_bytes(unsigned char out[RP_SHA256_SIZE], const void *data, size_t size)
{
    struct rp_sha256 h = {{0}};
    rp_sha256_init(&h);
    rp_sha256_update(&h, data, size);
    rp_sha256_final(&h, out);
}

uint64_t rp_sha256_word(const void *data, size_t size)
{
    unsigned char digest[RP_SHA256_SIZE];
    uint64_t word = 0;
    rp_sha256_bytes(digest, data, size);
    for (int i = 0; i < 8; i++)
        word = word << 8 | digest[i];
    return word;
}

void rp_sha256_hex(char out[RP_SHA256_HEX], const void *data, size_t size)
{
    struct rp_sha256 h = {{0}};
    rp_sha256_init(&h);
    rp_sha256_update(&h, data, size);
    rp_sha256_final_hex(&h, out);
}

int rp_sha256_fd(char out[RP_SHA256_HEX], int fd, const char *name, uint64_t *size, struct rp_err *err)
{
    enum { chunk = 1 << 18 };
    RP_FREE char *bytes = rp_alloc(chunk);
    struct rp_sha256 h = {{0}};
    uint64_t total = 0;
    ssize_t n;
    rp_sha256_init(&h);
    while ((n = RP_RETRY(pread(fd, bytes, chunk, (off_t)total))) != 0) {
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read '%s': %s", name, strerror(errno));
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while reading '%s'", name);
        rp_sha256_update(&h, bytes, (size_t)n);
        total += (uint64_t)n;
    }
    rp_sha256_final_hex(&h, out);
    if (size)
        *size = total;
    return 0;
}

int rp_sha256_file(char out[RP_SHA256_HEX], const char *path, uint64_t *size, struct rp_err *err)
{
    RP_FD fd = rp_open_regular(path, err);
    return fd < 0 ? -1 : rp_sha256_fd(out, fd, path, size, err);
}
