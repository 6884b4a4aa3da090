/* SHA-256, of bytes and of files (OpenSSL underneath: SHA-NI where the CPU has it).
 *
 * Flow:    bytes -> 32 bytes or 64 hex digits, at once or as a stream.
 * Owner:   struct rp_sha256 contains its context; nothing is allocated.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_SHA256_SIZE 32
#define RP_SHA256_HEX 65 /* with the NUL */

struct rp_sha256 {
    uint64_t opaque[16]; /* large enough for OpenSSL's SHA256_CTX; checked at compile time in hash.c */
};

void rp_sha256_init(struct rp_sha256 *h);
void rp_sha256_update(struct rp_sha256 *h, const void *data, size_t size);
void rp_sha256_final(struct rp_sha256 *h, unsigned char out[RP_SHA256_SIZE]);
void rp_sha256_final_hex(struct rp_sha256 *h, char out[RP_SHA256_HEX]);
void rp_sha256_bytes(unsigned char out[RP_SHA256_SIZE], const void *data, size_t size);
void rp_sha256_hex(char out[RP_SHA256_HEX], const void *data, size_t size);
uint64_t rp_sha256_word(const void *data, size_t size); /* the first 8 bytes, big-endian */
/* The digest of the file from its beginning, wherever the descriptor's offset is; name: in messages. */
int rp_sha256_fd(char out[RP_SHA256_HEX], int fd, const char *name, uint64_t *size /* or NULL */,
                 struct rp_err *err) rp_must_check;
int rp_sha256_file(char out[RP_SHA256_HEX], const char *path, uint64_t *size /* or NULL */,
                   struct rp_err *err) rp_must_check;
