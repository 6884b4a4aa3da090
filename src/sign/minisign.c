#include "sign/minisign.h"

#include "base/text.h"

#include <openssl/evp.h>
#include <string.h>

#define TRUSTED_HEAD "trusted comment: "
#define TRUSTED_MAX 8192 /* of minisign, with its head */

static int blake2b_512(unsigned char out[64], const void *data, size_t size, struct rp_err *err)
{
    return EVP_Digest(data, size, out, NULL, EVP_blake2b512(), NULL) == 1
               ? 0
               : rp_fail(err, RP_BUG, "BLAKE2b-512 is not there");
}

/* What the second signature is over. */
static void signed_comment(struct rp_buf *out, const unsigned char sig[64], const char *comment, size_t n)
{
    rp_buf_add(out, sig, 64);
    rp_buf_add(out, comment, n);
}

int rp_minisign_sign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, const char *file,
                     struct rp_err *err)
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
        return rp_fail_null(err, RP_MALFORMED, "%s: line 3 contains a control character or invalid UTF-8 at byte %zu",
                            what, head + plain);
    return line + head;
}

int rp_minisign_check(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size,
                      const char *what, struct rp_err *err)
{
    struct rp_signature_record r;
    unsigned char digest[64], global[64];
    RP_BUF both = {0};
    size_t n = 0;
    if (rp_record_read((unsigned char *)&r, sizeof r, "EdED", &text, &size, what, err) < 0)
        return -1;
    const char *trusted = trusted_comment(&n, &text, &size, what, err);
    if (!trusted || rp_record_line(global, sizeof global, &text, &size, what, 4, err) < 0 ||
        rp_record_end(size, what, 4, err) < 0)
        return -1;
    int hashed = r.kind[1] == 'D';
    if (hashed && blake2b_512(digest, data, data_size, err) < 0)
        return -1;
    if (rp_key_verify(k, hashed ? digest : data, hashed ? sizeof digest : data_size, r.sig, err) < 0)
        return rp_wrap(err, "%s", what);
    signed_comment(&both, r.sig, trusted, n);
    return rp_key_verify(k, both.data, both.size, global, err) < 0 ? rp_wrap(err, "%s: trusted comment", what) : 0;
}
