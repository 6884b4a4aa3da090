/* Ed25519 keys in the forms of OpenSSH: public lines, private blocks without a passphrase. */
#include "sign/openssh.h"

#include "sign/passphrase.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <string.h>

#define TYPE "ssh-ed25519"
#define LABEL "OPENSSH PRIVATE KEY-----" /* split: scans for secrets look for the whole line */
#define BEGIN "-----BEGIN " LABEL "\n"
#define END "-----END " LABEL
#define MAGIC "openssh-key-v1" /* with its NUL */

/* ---- the strings of RFC 4251 ---- */

struct ssh_part {
    const unsigned char *p;
    size_t left;
    int damaged; /* something was read past the end */
};

static const unsigned char *take(struct ssh_part *in, size_t n)
{
    const unsigned char *at = in->p;
    in->damaged |= n > in->left;
    if (in->damaged)
        return NULL;
    in->p += n;
    in->left -= n;
    return at;
}

static uint32_t take_number(struct ssh_part *in)
{
    const unsigned char *b = take(in, 4);
    return b ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3] : 0;
}

static struct ssh_part take_string(struct ssh_part *in)
{
    size_t n = take_number(in);
    const unsigned char *at = take(in, n);
    return (struct ssh_part){.p = at, .left = at ? n : 0, .damaged = !at};
}

static bool part_is(struct ssh_part s, const char *text)
{
    return !s.damaged && s.left == strlen(text) && memcmp(s.p, text, s.left) == 0;
}

/* ---- public keys ---- */

static const char *line_end(const char *line, const char *end)
{
    const char *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    return stop ? stop : end;
}

static bool begins_with(const char *line, const char *end, const char *word)
{
    return (size_t)(end - line) >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* "ssh-ed25519 ", and the types that cannot be used here. */
static bool is_key_line(const char *line, const char *end)
{
    return begins_with(line, end, "ssh-") || begins_with(line, end, "ecdsa-sha2-") ||
           begins_with(line, end, "sk-ssh-") || begins_with(line, end, "sk-ecdsa-");
}

bool rp_is_openssh_public(const char *text, size_t size)
{
    for (const char *end = text + size, *line = text; line < end; line = line_end(line, end) + 1)
        if (is_key_line(line, line_end(line, end)))
            return true;
    return false;
}

static int read_line(unsigned char key[32], const char *line, const char *end)
{
    RP_BUF bytes = {0};
    const char *word = line + strlen(TYPE " "), *stop = word;
    while (stop < end && !strchr(" \t\r", *stop))
        stop++;
    if (rp_unbase64(&bytes, word, (size_t)(stop - word)) < 0)
        return -1;
    struct ssh_part in = {.p = (unsigned char *)bytes.data, .left = bytes.size}, type = take_string(&in),
                raw = take_string(&in);
    if (in.damaged || in.left || !part_is(type, TYPE) || raw.left != 32)
        return -1;
    memcpy(key, raw.p, 32);
    return 0;
}

int rp_openssh_public_read(unsigned char key[32], const char *text, size_t size, const char *what, struct rp_err *err)
{
    int n = 0, number = 0;
    for (const char *end = text + size, *line = text; line < end; line = line_end(line, end) + 1) {
        const char *stop = line_end(line, end);
        number++;
        if (!begins_with(line, stop, TYPE " "))
            continue;
        if (read_line(key, line, stop) < 0)
            return rp_fail(err, RP_MALFORMED, "%s: line %d is not an " TYPE " key of OpenSSH", what, number);
        n++;
    }
    if (n > 1)
        return rp_fail(err, RP_MALFORMED, "%s holds %d Ed25519 keys; expected one: keep each in a file of its own",
                       what, n);
    return n ? 0
             : rp_fail(err, RP_MALFORMED, "%s holds no key of type " TYPE "; expected one: ssh-keygen -t ed25519",
                       what);
}

void rp_openssh_public_write(struct rp_buf *out, const struct rp_key_pair *k)
{
    unsigned char blob[4 + sizeof TYPE - 1 + 4 + 32] = "\0\0\0\013" TYPE "\0\0\0\040";
    rp_key_public_bytes(k, blob + sizeof blob - 32);
    rp_buf_puts(out, TYPE " ");
    rp_base64(out, blob, sizeof blob);
    rp_buf_puts(out, "\n");
}

/* ---- private keys ---- */

bool rp_is_openssh_private(const char *text, size_t size)
{
    return memmem(text, size, BEGIN, strlen(BEGIN)) != NULL;
}

/* The bytes of a block; wiped when done. */
struct ssh_block {
    char base64[16384];
    unsigned char bytes[16384 / 4 * 3];
    size_t size;
};
static void wipe_block(struct ssh_block *b)
{
    rp_wipe(b, sizeof *b);
}

static int decode_block(struct ssh_block *b, const char *text, size_t size)
{
    const char *begin = memmem(text, size, BEGIN, strlen(BEGIN)), *at = begin ? begin + strlen(BEGIN) : NULL;
    const char *end = at ? memmem(at, size - (size_t)(at - text), END, strlen(END)) : NULL;
    size_t n = 0;
    for (; end && at < end; at++) {
        if (n == sizeof b->base64)
            return -1;
        if (*at != '\n' && *at != '\r')
            b->base64[n++] = *at;
    }
    if (n < 4 || n % 4 || EVP_DecodeBlock(b->bytes, (unsigned char *)b->base64, (int)n) < 0)
        return -1;
    b->size = n / 4 * 3 - (b->base64[n - 1] == '=') - (b->base64[n - 2] == '=');
    return 0;
}

static bool is_padding(struct ssh_part in)
{
    for (size_t i = 0; i < in.left; i++)
        if (in.p[i] != i + 1)
            return false;
    return in.left < 8;
}

static int read_secret(unsigned char seed[32], struct ssh_part in, struct ssh_part public)
{
    uint32_t check = take_number(&in), again = take_number(&in);
    struct ssh_part type = take_string(&in), key = take_string(&in), both = take_string(&in);
    take_string(&in); /* the comment */
    struct ssh_part public_type = take_string(&public), public_key = take_string(&public);
    if (in.damaged || check != again || !part_is(type, TYPE) || key.left != 32 || both.left != 64 || !is_padding(in) ||
        !part_is(public_type, TYPE) || public_key.left != 32 || memcmp(both.p + 32, key.p, 32) != 0 ||
        memcmp(public_key.p, key.p, 32) != 0)
        return -1;
    memcpy(seed, both.p, 32);
    return 0;
}

int rp_openssh_private_read(unsigned char seed[32], const char *text, size_t size, const char *what,
                            struct rp_err *err)
{
    __attribute__((cleanup(wipe_block))) struct ssh_block block = {.size = 0};
    if (decode_block(&block, text, size) < 0)
        return rp_fail(err, RP_MALFORMED, "%s is damaged: its block is not base64", what);
    struct ssh_part in = {.p = block.bytes, .left = block.size};
    const unsigned char *magic = take(&in, sizeof MAGIC);
    struct ssh_part cipher = take_string(&in), kdf = take_string(&in), options = take_string(&in);
    uint32_t keys = take_number(&in);
    struct ssh_part public = take_string(&in), secret = take_string(&in), type = public;
    if (!magic || memcmp(magic, MAGIC, sizeof MAGIC) != 0 || in.damaged || in.left || keys != 1)
        return rp_fail(err, RP_MALFORMED, "%s is damaged: it is not one key of " MAGIC, what);
    type = take_string(&type);
    if (!part_is(type, TYPE))
        return rp_fail(err, RP_MALFORMED,
                       "%s is an OpenSSH key of another type; expected Ed25519: ssh-keygen -t ed25519", what);
    if (!part_is(cipher, "none") || !part_is(kdf, "none") || options.left)
        return rp_fail(err, RP_UNAVAILABLE,
                       "%s has a passphrase of OpenSSH, which is not asked for: sign with a key of 'repro key new "
                       "--encrypt', or with a copy without it (ssh-keygen -p -N '' -f COPY)",
                       what);
    return read_secret(seed, secret, public) < 0 ? rp_fail(err, RP_MALFORMED, "%s is damaged", what) : 0;
}
