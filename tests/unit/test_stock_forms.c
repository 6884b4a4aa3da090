/* What signify and minisign write: read strictly, byte by byte; tests/cli/sign runs the real tools. */
#include "tests/unit/bundle_fixture.h"

#include "sign/minisign.h"

static const char message[] = "0123  run.json\n";
#define MESSAGE message, sizeof message - 1

/* Made by signify-openbsd 31 and minisign 0.11. */
static const char signify_secret[] = "untrusted comment: my comment secret key\n"
                                     "RWRCSwAAAADH/"
                                     "vsErVUHxfheNw2qmIXQF5pvBIjWuOWz1wAcyBmQJOp+"
                                     "nFxjftc6oaYRwZ96c38wIdgqo4fvNsO7aYiyuDZJPlMJQISaOsuQhUWC6izHWowHqbVtCsnIn8En"
                                     "SDM7CCw=\n";
static const char signify_public[] =
    "untrusted comment: my comment public key\nRWSz1wAcyBmQJD5TCUCEmjrLkIVFguosx1qMB6m1bQrJyJ/BJ0gzOwgs\n";
static const char minisign_secret[] =
    "untrusted comment: minisign encrypted secret key\n"
    "RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAJDP7VQrEZn6WKHCR6FSIe8N898YFbASkav6ILM5HuZ"
    "62q/kTU/vnANSt6ZXi"
    "oa2YdyYHFmfQ7kuDW/zhOtGJ4Av6lVYGt8W1AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
static const char minisign_public[] = "untrusted comment: minisign public key "
                                      "7E66C40A55FB3324\nRWQkM/tVCsRmftSt6ZXioa2YdyYHFmfQ7kuDW/zhOtGJ4Av6lVYGt8W1\n";
/* Signatures of "hello\n", hashed and in the older way. */
static const char minisign_hashed[] =
    "untrusted comment: signature from minisign secret key\n"
    "RUQkM/tVCsRmfp8bYDq7D/Q+9y6ZQvn4OKG94n1v+Jz8wOuH3hM94CgtsCn5/lUXdEvBU+StaXTdxEYHtnidyaA6Z4FfGZ5G0A0=\n"
    "trusted comment: timestamp:1795302468\tfile:x\thashed\n"
    "bYIFCIdhNyl4KeYcigWsjdGSR//xf1VOAUtR4dp91mcRGGwekj+7fJTySWooVM0K2So1iXbqJteXfIL51cwPCA==\n";
static const char minisign_older[] =
    "untrusted comment: signature from minisign secret key\n"
    "RWQkM/tVCsRmfhysnf33xsrajaX3Ga8aiZpwqqKB/Q6ZkI/WqDZNgB/3+bbzoVDrzWQZJybHQZCm8OsMETAZ5WSCeG2u52xPfQ8=\n"
    "trusted comment: timestamp:1795302468\tfile:x\n"
    "/ORv3lRevSAlXRXHvT35mOl6tlQ7A2fQ9uJEysFGJOTktgYFXM5zY87Vz98iSWKXV9samxDQm8FKRaNfJW41AA==\n";
static const char signify_sig[] =
    "untrusted comment: verify with s.pub\n"
    "RWSz1wAcyBmQJLZ4FPpHSE5cLhLjM472BXBGTw5+9aigAjMY8ePmv1eaQQLnNHDFHY7MLNnlH1MCRI1+RdjKNGvSRD6THrftvAs=\n";

static struct rp_key_pair *key_of(const char *text)
{
    struct rp_err err = {0};
    struct rp_key_pair *k = rp_key_load_public(text, strlen(text), "that", &err);
    CHECK(k, "%s", err.msg);
    return k;
}

TEST(signatures_of_the_real_tools_are_accepted)
{
    struct rp_err err = {0};
    FX_KEY *s = key_of(signify_public), *m = key_of(minisign_public);
    CHECK(rp_signify_check(signify_sig, sizeof signify_sig - 1, s, "hello\n", 6, "sig", &err) == 0, "%s", err.msg);
    CHECK(rp_minisign_check(minisign_hashed, sizeof minisign_hashed - 1, m, "hello\n", 6, "sig", &err) == 0, "%s",
          err.msg);
    CHECK(rp_minisign_check(minisign_older, sizeof minisign_older - 1, m, "hello\n", 6, "sig", &err) == 0, "%s",
          err.msg);
    CHECK(rp_signify_check(signify_sig, sizeof signify_sig - 1, m, "hello\n", 6, "sig", &err) < 0 &&
              err.code == RP_SIGNATURE,
          "%s", err.msg);
    CHECK(rp_minisign_check(minisign_hashed, sizeof minisign_hashed - 1, s, "hello\n", 6, "sig", &err) < 0 &&
              err.code == RP_SIGNATURE,
          "%s", err.msg);
    CHECK(rp_minisign_check(minisign_older, sizeof minisign_older - 1, m, "hallo\n", 6, "sig", &err) < 0 &&
              err.code == RP_SIGNATURE,
          "%s", err.msg);
}

typedef int check_fn(const char *text, size_t size, const struct rp_key_pair *k, const void *data, size_t data_size,
                     const char *what, struct rp_err *err);

/* Every bit of every byte, every cut. What may change is named: the first comment, and the key's number. */
static void flip_signature(check_fn *check, struct rp_buf *text, const struct rp_key_pair *k)
{
    struct rp_err err;
    const char *head = strchr(text->data, ':') + 2, *end = strchr(text->data, '\n');
    int harmless = 0;
    CHECK(check(text->data, text->size, k, MESSAGE, "sig", &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < text->size; i++)
        for (int bit = 0; bit < 8; bit += 2) {
            text->data[i] ^= (char)(1 << bit);
            int good = check(text->data, text->size, k, MESSAGE, "sig", &err) == 0;
            const char *at = text->data + i;
            /* base64 digits 3 to 14 stand for the number, with two bits of 'd' and two of the signature beside it */
            if (good) {
                CHECK((at >= head && at < end) || (at > end + 2 && at <= end + 14), "byte %zu, bit %d", i, bit);
                harmless++;
            } else {
                CHECK((err.code == RP_MALFORMED || err.code == RP_SIGNATURE) && *err.msg && !strchr(err.msg, '\n'),
                      "byte %zu: %s", i, err.msg);
            }
            text->data[i] ^= (char)(1 << bit);
        }
    CHECK(harmless > 0, "the comment can be anything, and no change of it was accepted");
    for (size_t n = 0; n < text->size; n++)
        CHECK(check(text->data, n, k, MESSAGE, "sig", &err) < 0, "%zu of %zu bytes", n, text->size);
    rp_buf_puts(text, "\n");
    REFUSED(check(text->data, text->size, k, MESSAGE, "sig", &err) < 0, err.msg);
}

TEST(no_byte_of_a_signature_changes_unnoticed)
{
    struct rp_err err;
    RP_BUF signify = {0}, minisign = {0};
    FX_KEY *k = fx_key("one");
    CHECK(rp_signify_sign(&signify, k, MESSAGE, &err) == 0 &&
              rp_minisign_sign(&minisign, k, MESSAGE, "SHA256SUMS", &err) == 0,
          "%s", err.msg);
    flip_signature(rp_signify_check, &signify, k);
    flip_signature(rp_minisign_check, &minisign, k);
}

TEST(no_byte_of_a_public_key_changes_unnoticed)
{
    struct rp_err err;
    FX_KEY *k = key_of(minisign_public), *other;
    char print[RP_FINGERPRINT_SIZE], theirs[RP_FINGERPRINT_SIZE], text[sizeof minisign_public];
    size_t body = (size_t)(strchr(minisign_public, '\n') - minisign_public) + 1;
    rp_key_fingerprint(k, print);
    memcpy(text, minisign_public, sizeof text);
    for (size_t i = 0; i + 1 < sizeof text; i++)
        for (int bit = 0; bit < 8; bit += 2) {
            text[i] ^= (char)(1 << bit);
            other = rp_key_load_public(text, sizeof text - 1, "that", &err);
            if (other) { /* the comment, the number, or else a key that nobody has */
                rp_key_fingerprint(other, theirs);
                CHECK(i < body + 14 || strcmp(print, theirs) != 0, "byte %zu, bit %d is the same key", i, bit);
            } else {
                CHECK(err.code == RP_MALFORMED && *err.msg && !strchr(err.msg, '\n'), "byte %zu: %s", i, err.msg);
            }
            rp_key_free(other);
            text[i] ^= (char)(1 << bit);
        }
    for (size_t n = 0; n + 1 < sizeof text; n++)
        CHECK(!rp_key_load_public(text, n, "that", &err) && err.code == RP_MALFORMED, "%zu bytes", n);
}

static struct rp_key_pair *load(const char *text, size_t size, struct rp_err *err)
{
    RP_FREE char *path = fx_path("foreign.sec");
    int failed = rp_write_file(path, text, size, 0600, err) < 0;
    CHECK(!failed, "%s", err->msg);
    *err = (struct rp_err){0};
    return rp_key_load(path, -1, err);
}

static void expect_refused(const char *text)
{
    struct rp_err err;
    FX_KEY *k = load(text, strlen(text), &err);
    REFUSED(!k, err.msg);
}

TEST(secret_keys_of_other_tools_are_refused_with_the_remedy)
{
    static const char *const secrets[] = {signify_secret, minisign_secret};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        struct rp_err err;
        FX_KEY *k = load(secrets[i], strlen(secrets[i]), &err);
        REFUSED(!k && err.code == RP_MALFORMED && strstr(err.msg, "'repro key new'"), err.msg);
        REFUSED(!rp_key_load_public(secrets[i], strlen(secrets[i]), "that", &err) && err.code == RP_MALFORMED, err.msg);
    }
}

TEST(what_is_wrong_is_said_with_the_line)
{
    struct rp_err err;
    expect_refused(signify_public);
    expect_refused("untrusted comment: x\nAAAA\n");
    REFUSED(!rp_key_load_public("untrusted comment: x\nAAAA\n", 26, "that", &err), err.msg);
    RP_FREE char *escape = rp_strdup(signify_public);
    escape[25] = 27;
    REFUSED(!rp_key_load_public(escape, strlen(escape), "that", &err), err.msg);
    RP_BUF longest = {0};
    rp_buf_puts(&longest, RP_COMMENT_HEAD);
    for (int i = 0; i < 1100; i++)
        rp_buf_puts(&longest, "x");
    rp_buf_puts(&longest, strchr(signify_public, '\n'));
    REFUSED(!rp_key_load_public(longest.data, longest.size, "that", &err), err.msg);
    /* the third line of minisign, with a byte more than it reads */
    static const char head[] = "trusted comment: ";
    RP_BUF trusted = {0};
    FX_KEY *m = key_of(minisign_public);
    const char *third = strstr(minisign_hashed, "\ntrusted comment: ") + 1;
    rp_buf_add(&trusted, minisign_hashed, (size_t)(third - minisign_hashed));
    rp_buf_puts(&trusted, head);
    for (size_t i = strlen(head); i < 8193; i++)
        rp_buf_puts(&trusted, "x");
    rp_buf_puts(&trusted, strchr(third, '\n'));
    REFUSED(rp_minisign_check(trusted.data, trusted.size, m, "hello\n", 6, "sig", &err) < 0 && err.code == RP_MALFORMED,
            err.msg);
}
