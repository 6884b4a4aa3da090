#include "sign/signify.h"

#include "base/text.h"

#include <openssl/evp.h>
#include <string.h>

#define COMMENT_MAX 1024 /* of signify and minisign */
#define BASE64_MAX (RP_RECORD_MAX / 3 * 4 + 4)

int rp_is_commented(const char *text, size_t size)
{
    return size >= strlen(RP_COMMENT_HEAD) && memcmp(text, RP_COMMENT_HEAD, strlen(RP_COMMENT_HEAD)) == 0;
}

/* Bytes before the newline, or -1 where there is none. */
static ssize_t line_size(const char *text, size_t left)
{
    const char *end = left ? memchr(text, '\n', left) : NULL;
    return end ? end - text : -1;
}

size_t rp_record_size(const char *text, size_t size)
{
    ssize_t first = line_size(text, size);
    if (first < 0)
        return 0;
    text += first + 1;
    ssize_t n = line_size(text, size - (size_t)first - 1);
    if (n < 4 || n % 4)
        return 0;
    return (size_t)n / 4 * 3 - (text[n - 1] == '=') - (text[n - 2] == '=');
}

/* Strict base64. */
static int decode(unsigned char *out, size_t size, const char *text, size_t n)
{
    unsigned char bytes[RP_RECORD_MAX + 3], again[BASE64_MAX + 1];
    if (size > RP_RECORD_MAX || n != (size + 2) / 3 * 4 ||
        EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)n) < 0)
        return -1;
    EVP_EncodeBlock(again, bytes, (int)size);
    if (memcmp(again, text, n) != 0)
        return -1;
    memcpy(out, bytes, size);
    return 0;
}

int rp_record_line(unsigned char *out, size_t size, const char **text, size_t *left, const char *what, int number,
                   struct rp_err *err)
{
    ssize_t n = line_size(*text, *left);
    if (n < 0)
        return rp_fail(err, RP_MALFORMED, "%s: line %d does not end with a newline", what, number);
    if (decode(out, size, *text, (size_t)n) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: line %d is not the base64 of %zu bytes", what, number, size);
    *text += n + 1;
    *left -= (size_t)n + 1;
    return 0;
}

/* A comment is not trusted, but it may be shown on a terminal. */
static int check_comment(const char *text, size_t n, const char *what, struct rp_err *err)
{
    if (n > COMMENT_MAX)
        return rp_fail(err, RP_MALFORMED, "%s: line 1 has %zu bytes; a comment has %d at most", what, n, COMMENT_MAX);
    size_t plain = rp_plain_size(text, n, 1);
    return plain == n ? 0
                      : rp_fail(err, RP_MALFORMED,
                                "%s: line 1 contains a control character or invalid UTF-8 at byte %zu", what, plain);
}

int rp_record_read(unsigned char *out, size_t size, const char *kinds, const char **text, size_t *left,
                   const char *what, struct rp_err *err)
{
    ssize_t n = line_size(*text, *left);
    if (n < 0 || !rp_is_commented(*text, (size_t)n))
        return rp_fail(err, RP_MALFORMED, "%s: line 1 does not begin with '%s'", what, RP_COMMENT_HEAD);
    if (check_comment(*text, (size_t)n, what, err) < 0)
        return -1;
    *text += n + 1;
    *left -= (size_t)n + 1;
    if (rp_record_line(out, size, text, left, what, 2, err) < 0)
        return -1;
    for (; *kinds; kinds += 2)
        if (memcmp(out, kinds, 2) == 0)
            return 0;
    return rp_fail(err, RP_MALFORMED, "%s: line 2 is of another algorithm than Ed25519", what);
}

int rp_record_end(size_t left, const char *what, int number, struct rp_err *err)
{
    return left ? rp_fail(err, RP_MALFORMED, "%s: %zu bytes follow line %d", what, left, number) : 0;
}

void rp_record_write(struct rp_buf *out, const char *comment, const void *bytes, size_t size)
{
    rp_buf_printf(out, "%s%s\n", RP_COMMENT_HEAD, comment);
    rp_base64(out, bytes, size);
    rp_buf_puts(out, "\n");
}

/* ---- public keys ---- */

struct public_record {
    unsigned char kind[2], number[RP_KEY_NUMBER], key[32];
};
_Static_assert(sizeof(struct public_record) == 42 && sizeof(struct rp_signature_record) == 74, "no padding");

int rp_foreign_public_read(struct rp_foreign_public *p, const char *text, size_t size, const char *what,
                           struct rp_err *err)
{
    struct public_record r;
    if (rp_record_read((unsigned char *)&r, sizeof r, "Ed", &text, &size, what, err) < 0 ||
        rp_record_end(size, what, 2, err) < 0)
        return -1;
    memcpy(p->number, r.number, sizeof p->number);
    memcpy(p->key, r.key, sizeof p->key);
    return 0;
}

void rp_foreign_public_write(struct rp_buf *out, const struct rp_key_pair *k, const char *tool)
{
    struct public_record r = {.kind = "Ed"};
    char print[RP_FINGERPRINT_SIZE];
    rp_key_number(k, r.number);
    rp_key_public_bytes(k, r.key);
    rp_key_fingerprint(k, print);
    RP_FREE char *comment = rp_asprintf("%s public key of %s", tool, print);
    rp_record_write(out, comment, &r, sizeof r);
}

/* ---- signatures ---- */

int rp_signify_sign(struct rp_buf *out, const struct rp_key_pair *k, const void *data, size_t size, struct rp_err *err)
{
    struct rp_signature_record r = {.kind = "Ed"};
    char print[RP_FINGERPRINT_SIZE];
    if (rp_key_sign(k, data, size, r.sig, err) < 0)
        return -1;
    rp_key_number(k, r.number);
    rp_key_fingerprint(k, print);
    RP_FREE char *comment = rp_asprintf("signify signature by %s", print);
    rp_record_write(out, comment, &r, sizeof r);
    return 0;
}

int rp_signify_check(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size,
                     const char *what, struct rp_err *err)
{
    struct rp_signature_record r;
    if (rp_record_read((unsigned char *)&r, sizeof r, "Ed", &text, &size, what, err) < 0 ||
        rp_record_end(size, what, 2, err) < 0)
        return -1;
    return rp_key_verify(k, data, data_size, r.sig, err) < 0 ? rp_wrap(err, "%s", what) : 0;
}
