#include "sign/public_value.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NONCE_HEAD "repro-public-value/1\n"
#define VALUES_MAX 16            /* of a document; a round has 5 */
#define SECONDS_MAX 9223372036ll /* what 63 bits of nanoseconds hold */
#define SECOND_NS 1000000000ll

static void set_nonce(struct rp_public_value *out, const void *value, size_t size)
{
    struct rp_sha256 h = {{0}};
    rp_sha256_init(&h);
    rp_sha256_update(&h, NONCE_HEAD, strlen(NONCE_HEAD));
    rp_sha256_update(&h, value, size);
    rp_sha256_final(&h, out->nonce);
}

/* obj.key as `least` to `most` bytes of hex, appended to out. */
static int read_hex(struct rp_buf *out, const json_t *obj, const char *key, size_t least, size_t most, const char *what,
                    struct rp_err *err)
{
    unsigned char bytes[RP_PUBLIC_VALUE_MAX / 2];
    const char *text;
    if (rp_json_str(obj, key, &text, what, err) < 0)
        return -1;
    size_t n = strlen(text) / 2;
    if (least == most && (n != most || rp_unhex(bytes, n, text) < 0))
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not %zu bytes as hex digits", what, key, most);
    if (n < least || n > most || rp_unhex(bytes, n, text) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not %zu to %zu bytes as hex digits", what, key, least, most);
    rp_buf_add(out, bytes, n);
    return 0;
}

/* Every key of the object is one of the list, which ends with NULL. */
static int check_keys(const json_t *obj, const char *const *keys, const char *what, struct rp_err *err)
{
    const char *key;
    char shown[72];
    json_t *v;
    json_object_foreach((json_t *)obj, key, v) {
        int i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return rp_fail(err, RP_MALFORMED, "%s: unexpected property '%s'; give the answer as it was published", what,
                           rp_excerpt(shown, key));
    }
    return 0;
}

/* ---- drand ---- */

/* The two chains of the League of Entropy's main network; a round's number gives its time: genesis + (round - 1) *
 * period. */
static const struct chain {
    const char *name;
    int64_t genesis, period; /* seconds */
    size_t signature;        /* bytes */
    int chained;             /* has previous_signature */
} chains[] = {
    {"default", 1595431050, 30, 96, 1},
    {"quicknet", 1692803367, 3, 48, 0},
};

static const struct chain *find_chain(size_t signature, int chained, struct rp_err *err)
{
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        if (chains[i].signature == signature && chains[i].chained == chained)
            return &chains[i];
    return rp_fail_null(err, RP_MALFORMED,
                        "drand round: a signature of %zu bytes %s previous_signature is neither of the default chain "
                        "nor of quicknet",
                        signature, chained ? "with" : "without");
}

static int read_drand(struct rp_public_value *out, const json_t *j, struct rp_err *err)
{
    static const char *const keys[] = {"round", "randomness", "signature", "previous_signature", NULL};
    RP_BUF randomness = {0}, signature = {0}, previous = {0};
    unsigned char digest[RP_SHA256_SIZE];
    const char *what = "drand round";
    int64_t round;
    int chained = json_object_get(j, "previous_signature") != NULL;
    if (check_keys(j, keys, what, err) < 0 || rp_json_int(j, "round", &round, what, err) < 0 ||
        read_hex(&randomness, j, "randomness", RP_SHA256_SIZE, RP_SHA256_SIZE, what, err) < 0 ||
        read_hex(&signature, j, "signature", 48, 96, what, err) < 0)
        return -1;
    const struct chain *c = find_chain(signature.size, chained, err);
    if (!c)
        return -1;
    size_t before = round == 1 ? RP_SHA256_SIZE : c->signature; /* the first round continues a digest */
    if (chained && read_hex(&previous, j, "previous_signature", before, before, what, err) < 0)
        return -1;
    if (round < 1 || round > (SECONDS_MAX - c->genesis) / c->period)
        return rp_fail(err, RP_MALFORMED, "%s: round %lld does not exist", what, (long long)round);
    rp_sha256_bytes(digest, signature.data, signature.size);
    if (!rp_buf_is(&randomness, digest, sizeof digest))
        return rp_fail(err, RP_MISMATCH, "%s: randomness is not the SHA-256 of signature", what);
    set_nonce(out, randomness.data, randomness.size);
    out->time_ns = (c->genesis + (round - 1) * c->period) * SECOND_NS;
    snprintf(out->name, sizeof out->name, "drand %s round %lld", c->name, (long long)round);
    snprintf(out->checked, sizeof out->checked, "randomness is the SHA-256 of signature");
    snprintf(out->claimed, sizeof out->claimed,
             "that this is the round's signature: BLS12-381 is not checked here, and a made-up one costs nothing; look "
             "round %lld of chain '%s' up at any relay of drand",
             (long long)round, c->name);
    return 0;
}

/* ---- Bitcoin ---- */

/* version 4 | previous block 32 | Merkle root 32 | time 4 | nBits 4 | nonce 4; numbers are little-endian */
#define HEADER_SIZE 80
#define TIME_AT 68
#define BITS_AT 72
#define MINER_CLOCK_S 7200 /* nodes refuse blocks from further in the future */

static uint32_t little_32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* nBits: mantissa * 256^(exponent - 3) as 32 bytes, big-endian; -1 for what no block has: zero, negative, or more than
 * 256 bits. */
static int expand_target(unsigned char target[32], uint32_t bits)
{
    int exponent = (int)(bits >> 24);
    memset(target, 0, 32);
    if ((bits & 0x7fffff) == 0 || bits & 0x800000 || exponent < 3 || exponent > 32)
        return -1;
    for (int i = 0; i < 3; i++)
        target[32 - exponent + i] = (unsigned char)(bits >> 8 * (2 - i));
    return 0;
}

/* log2 of the hashes expected until one is at most the target. */
static double target_work(uint32_t bits)
{
    return 256 - log2((double)(bits & 0x7fffff)) - 8.0 * ((double)(bits >> 24) - 3);
}

static int read_bitcoin(struct rp_public_value *out, const char *text, struct rp_err *err)
{
    unsigned char header[HEADER_SIZE], target[32], hash[RP_SHA256_SIZE], shown[RP_SHA256_SIZE];
    char hex[RP_SHA256_HEX], at[32];
    if (rp_unhex(header, sizeof header, text) < 0)
        return rp_fail(err, RP_MALFORMED, "block header: not the %d hex digits of %d bytes", 2 * HEADER_SIZE,
                       HEADER_SIZE);
    uint32_t bits = little_32(header + BITS_AT), seconds = little_32(header + TIME_AT);
    if (expand_target(target, bits) < 0)
        return rp_fail(err, RP_MALFORMED, "block header: nBits is %08x, which is not a target", bits);
    rp_sha256_bytes(hash, header, sizeof header);
    rp_sha256_bytes(hash, hash, sizeof hash);
    for (int i = 0; i < RP_SHA256_SIZE; i++)
        shown[i] = hash[RP_SHA256_SIZE - 1 - i]; /* displayed as one big-endian number */
    if (memcmp(shown, target, sizeof target) > 0)
        return rp_fail(err, RP_MISMATCH, "block header: its hash is above the target of its nBits");
    if (target_work(bits) < RP_PUBLIC_VALUE_WORK)
        return rp_fail(err, RP_MISMATCH,
                       "block header: its target stands for 2^%.1f hashes, which could be made up; at least 2^%d are "
                       "expected: give a recent block",
                       target_work(bits), RP_PUBLIC_VALUE_WORK);
    set_nonce(out, shown, sizeof shown);
    rp_hex(hex, shown, sizeof shown);
    out->time_ns = seconds * SECOND_NS;
    out->early_ns = MINER_CLOCK_S * SECOND_NS;
    out->proved = 1;
    rp_rfc3339(at, (uint64_t)out->time_ns);
    snprintf(out->name, sizeof out->name, "Bitcoin block %s", hex);
    snprintf(out->checked, sizeof out->checked,
             "its double SHA-256 is below the target of its nBits, which stands for 2^%.1f hashes", target_work(bits));
    snprintf(out->claimed, sizeof out->claimed,
             "its time, %s, is by its miner's clock, which other nodes allow to be two hours fast; that the block "
             "belongs to the chain that others follow: look it up in any block explorer",
             at);
    return 0;
}

/* ---- recognition ---- */

static int read_json(struct rp_public_value *out, const char *text, size_t size, struct rp_err *err)
{
    RP_JSON *j = rp_json_parse_most(text, size, VALUES_MAX, "public value", err);
    if (!j)
        return -1;
    if (!json_object_get(j, "round"))
        return rp_fail(err, RP_MALFORMED, "the document is not a public value: expected a " RP_PUBLIC_VALUE_KINDS);
    snprintf(out->kind, sizeof out->kind, "drand");
    return read_drand(out, j, err);
}

static int read_text(struct rp_public_value *out, const struct rp_buf *text, struct rp_err *err)
{
    const char *p = rp_buf_text(text);
    if (p[strspn(p, " \t\r\n")] == '{')
        return read_json(out, p, text->size, err);
    if (strspn(p, "0123456789abcdefABCDEF") < 16)
        return rp_fail(err, RP_MALFORMED,
                       "the file is not a public value: expected a " RP_PUBLIC_VALUE_KINDS " (in hex)");
    snprintf(out->kind, sizeof out->kind, "bitcoin");
    return read_bitcoin(out, p, err);
}

static int read_value(struct rp_public_value *out, const void *data, size_t size, struct rp_err *err)
{
    RP_BUF text = {0};
    if (size > RP_PUBLIC_VALUE_MAX)
        return rp_fail(err, RP_MALFORMED, "a public value has at most %d bytes; this file has %zu", RP_PUBLIC_VALUE_MAX,
                       size);
    rp_buf_add(&text, data, size);
    if (strlen(rp_buf_text(&text)) != size)
        return rp_fail(err, RP_MALFORMED, "a public value is text; this file contains a zero byte");
    if (size && text.data[0] != '{' && text.data[size - 1] == '\n') /* one line of hex */
        text.data[--text.size] = 0;
    return read_text(out, &text, err);
}

int rp_public_value_read(struct rp_public_value *out, const void *data, size_t size, struct rp_err *err)
{
    *out = (struct rp_public_value){0};
    if (read_value(out, data, size, err) == 0)
        return 0;
    *out = (struct rp_public_value){0};
    return -1;
}
