#include "sign/minisign.h"

#include "base/text.h"
#include "sign/passphrase.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>

#define TRUSTED_HEAD "trusted comment: "
#define TRUSTED_MAX 8192 /* of minisign, with its head */
#define SCRYPT_MEMORY_MAX (1ull << 30) /* minisign's own default */
#define SCRYPT_WORK_MAX (1ull << 25)   /* likewise: N * r * p * 4 */

struct minisign_secret_record {
    unsigned char kind[2], kdf[2], check[2], salt[32], operations[8], memory[8];
    struct hidden {
        unsigned char number[RP_KEY_NUMBER], pair[64], checksum[32];
    } hidden;
};
_Static_assert(sizeof(struct minisign_secret_record) == 158, "no padding");

static int blake2b_512(unsigned char out[64], const void *data, size_t size, struct rp_err *err)
{
    return EVP_Digest(data, size, out, NULL, EVP_blake2b512(), NULL) == 1 ? 0 : rp_fail(err, RP_BUG, "BLAKE2b-512 is not there");
}

/* ---- signatures ---- */

/* What the second signature is over. */
static void signed_comment(struct rp_buf *out, const unsigned char sig[64], const char *comment, size_t n)
{
    rp_buf_add(out, sig, 64);
    rp_buf_add(out, comment, n);
}

int rp_minisign_sign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, const char *file, struct rp_err *err)
{
    struct rp_signature_record r = {.kind = "ED"};
    unsigned char digest[64], global[64];
    char print[RP_FINGERPRINT_SIZE];
    RP_BUF both = {0};
    rp_key_fingerprint(k, print);
    RP_FREE char *comment = rp_asprintf("minisign signature by %s", print);
    RP_FREE char *trusted = rp_asprintf("file:%s\thashed", file);
    if (blake2b_512(digest, data, size, err) < 0 || rp_key_sign(k, digest, sizeof digest, r.sig, err) < 0)
        return -1;
    signed_comment(&both, r.sig, trusted, strlen(trusted));
    if (rp_key_sign(k, both.data, both.size, global, err) < 0)
        return -1;
    rp_key_number(k, r.number);
    rp_record_write(out, comment, &r, sizeof r);
    rp_buf_printf(out, "%s%s\n", TRUSTED_HEAD, trusted);
    rp_base64(out, global, sizeof global);
    rp_buf_puts(out, "\n");
    return 0;
}

/* The third line: the comment without its head, borrowed; *text and *left move past it. */
static const char *trusted_comment(size_t *n, const char **text, size_t *left, const char *what, struct rp_err *err)
{
    size_t head = strlen(TRUSTED_HEAD);
    const char *line = *text, *end = *left ? memchr(line, '\n', *left) : NULL;
    if (!end || (size_t)(end - line) < head || memcmp(line, TRUSTED_HEAD, head) != 0)
        return rp_fail_null(err, RP_MALFORMED, "%s: line 3 does not begin with '%s'", what, TRUSTED_HEAD);
    if (end - line > TRUSTED_MAX)
        return rp_fail_null(err, RP_MALFORMED, "%s: line 3 has more than %d bytes", what, TRUSTED_MAX);
    *n = (size_t)(end - line) - head;
    *left -= (size_t)(end - line) + 1;
    *text = end + 1;
    size_t plain = rp_plain_size(line + head, *n, 1);
    if (plain < *n)
        return rp_fail_null(err, RP_MALFORMED, "%s: line 3 contains a control character or invalid UTF-8 at byte %zu", what, head + plain);
    return line + head;
}

int rp_minisign_check(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size, const char *what,
                      struct rp_err *err)
{
    struct rp_signature_record r;
    unsigned char digest[64], global[64];
    RP_BUF both = {0};
    size_t n = 0;
    if (rp_record_read((unsigned char *)&r, sizeof r, "EdED", &text, &size, what, err) < 0)
        return -1;
    const char *trusted = trusted_comment(&n, &text, &size, what, err);
    if (!trusted || rp_record_line(global, sizeof global, &text, &size, what, 4, err) < 0 || rp_record_end(size, what, 4, err) < 0)
        return -1;
    int hashed = r.kind[1] == 'D';
    if (hashed && blake2b_512(digest, data, data_size, err) < 0)
        return -1;
    if (rp_key_verify(k, hashed ? digest : data, hashed ? sizeof digest : data_size, r.sig, err) < 0)
        return rp_wrap(err, "%s", what);
    signed_comment(&both, r.sig, trusted, n);
    return rp_key_verify(k, both.data, both.size, global, err) < 0 ? rp_wrap(err, "%s: trusted comment", what) : 0;
}

/* ---- secret keys ---- */

static void record_fini(struct minisign_secret_record *r)
{
    rp_wipe(r, sizeof *r);
}
#define RECORD __attribute__((cleanup(record_fini))) struct minisign_secret_record

static int read_secret(struct minisign_secret_record *r, const char *text, size_t size, const char *what, struct rp_err *err)
{
    if (rp_record_read((unsigned char *)r, sizeof *r, "Ed", &text, &size, what, err) < 0 || rp_record_end(size, what, 2, err) < 0)
        return -1;
    if ((memcmp(r->kdf, "Sc", 2) != 0 && memcmp(r->kdf, "\0", 2) != 0) || memcmp(r->check, "B2", 2) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: line 2 names a way to encrypt or to check that minisign does not have", what);
    return 0;
}

int rp_minisign_is_encrypted(const char *text, size_t size, const char *what, struct rp_err *err)
{
    RECORD r;
    return read_secret(&r, text, size, what, err) < 0 ? -1 : r.kdf[0] != 0;
}

static uint64_t little_endian(const unsigned char b[8])
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | b[i];
    return v;
}

/* The largest power of two that is at most `most`, but 2 at least. */
static uint64_t power_of_two(uint64_t most)
{
    uint64_t n = 2;
    while (n <= most / 2)
        n *= 2;
    return n;
}

/* The parameters that libsodium derives from its two limits: r is 8, N by memory or, where there is plenty, by operations. */
static int xor_scrypt(struct minisign_secret_record *r, const char *passphrase, const char *what, struct rp_err *err)
{
    struct hidden pad;
    uint64_t operations = little_endian(r->operations), memory = little_endian(r->memory), n, p = 1;
    if (operations > SCRYPT_WORK_MAX || memory > SCRYPT_MEMORY_MAX)
        return rp_fail(err, RP_MALFORMED, "%s needs more work or memory than any key of minisign (%llu operations, %llu bytes)", what,
                       (unsigned long long)operations, (unsigned long long)memory);
    if (operations < 32768)
        operations = 32768;
    if (operations < memory / 32) {
        n = power_of_two(operations / 32);
    } else {
        n = power_of_two(memory / 1024);
        p = operations / 4 / n / 8;
    }
    if (EVP_PBE_scrypt(passphrase, strlen(passphrase), r->salt, sizeof r->salt, n, 8, p, 2 * SCRYPT_MEMORY_MAX, (unsigned char *)&pad,
                       sizeof pad) != 1) {
        ERR_clear_error();
        return rp_fail(err, RP_UNAVAILABLE, "%s: scrypt with the %llu MiB that this key needs is not possible here", what,
                       (unsigned long long)(n >> 10));
    }
    for (size_t i = 0; i < sizeof pad; i++)
        ((unsigned char *)&r->hidden)[i] ^= ((unsigned char *)&pad)[i];
    rp_wipe(&pad, sizeof pad);
    return 0;
}

int rp_minisign_open(struct rp_foreign_secret *out, const char *text, size_t size, const char *passphrase, const char *what,
                     struct rp_err *err)
{
    RECORD r;
    if (read_secret(&r, text, size, what, err) < 0)
        return -1;
    RP_BUG_IF(r.kdf[0] && !passphrase);
    if (r.kdf[0] && xor_scrypt(&r, passphrase, what, err) < 0)
        return -1;
    memcpy(out->number, r.hidden.number, sizeof out->number);
    memcpy(out->seed, r.hidden.pair, 32);
    memcpy(out->key, r.hidden.pair + 32, 32);
    return 0;
}
