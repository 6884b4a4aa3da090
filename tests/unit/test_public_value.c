/* Public values as published (tests/vectors/public_values), and what others might give instead. */
/* exhaustive */
#include "tests/unit/tap.h"

#include "base/buf.h"
#include "base/text.h"
#include "sign/public_value.h"

#define SECOND 1000000000ll

/* Nonces were computed apart from this program, with Python's hashlib. */
static const struct vector {
    const char *file, *kind, *name;
    long long time_s, early_s;
    int proved;
    const char *nonce;
} vectors[] = {
    {"drand-default-1.json", "drand", "drand default round 1", 1595431050, 0, 0,
     "2a15ae4c76ad3cf325a4bf683871ca71ac9ae79ea11b5de5e80f727c9114152f"},
    {"drand-default-3311596.json", "drand", "drand default round 3311596", 1694778900, 0, 0,
     "c1afb8292ddbdebde7550a1190f4fc6fb5f9f53c5e3e0fe95d166be68b7b593e"},
    {"drand-quicknet-657413.json", "drand", "drand quicknet round 657413", 1694775603, 0, 0,
     "8f8bc612c300ab50c3f60f718b1695d20b3ac4137e59d27bb7338cac1b7b0b8b"},
    {"bitcoin-794143.hex", "bitcoin", "Bitcoin block 0000000000000000000293bf6e86820d867cc4ca13cd98326af85bb3bebab9ac",
     1686638166, 7200, 1, "725200905dbdd29f0a46628d08f54d89a88c70bb15f6f5d916b772cae019fc6c"},
    {"bitcoin-840000.hex", "bitcoin", "Bitcoin block 0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5",
     1713571767, 7200, 1, "d3a8738c2c2c8fd83f126164b0a7c79e91d18a61b83600f8c6b8c186a1550523"},
};
#define VECTORS (sizeof vectors / sizeof *vectors)

static void load(struct rp_buf *out, const char *file)
{
    struct rp_err err = {0};
    char path[128];
    CHECK(rp_read_file(out, RP_FORMAT(path, "tests/vectors/public_values/%s", file), 1u << 20, &err) == 0, "%s",
          err.msg);
}

static int is_zero(const struct rp_public_value *v)
{
    static const struct rp_public_value zero;
    return memcmp(v, &zero, sizeof zero) == 0;
}

/* The code of the refusal, RP_OK if it was accepted. */
static enum rp_code read_value(struct rp_public_value *out, const void *data, size_t size, struct rp_err *err)
{
    *err = (struct rp_err){0};
    memset(out, 0xa5, sizeof *out);
    if (rp_public_value_read(out, data, size, err) == 0)
        return RP_OK;
    CHECK(is_zero(out), "something is left of a refused value");
    CHECK(*err->msg && err->code != RP_OK);
    return err->code;
}

TEST(values_as_published_are_read)
{
    for (size_t i = 0; i < VECTORS; i++) {
        const struct vector *x = &vectors[i];
        struct rp_public_value v;
        struct rp_err err;
        char nonce[65];
        RP_BUF text = {0};
        load(&text, x->file);
        if (!CHECK(read_value(&v, text.data, text.size, &err) == RP_OK, "%s: %s", x->file, err.msg))
            continue;
        rp_hex(nonce, v.nonce, sizeof v.nonce);
        CHECK_STR(v.kind, x->kind);
        CHECK_STR(v.name, x->name);
        CHECK_STR(nonce, x->nonce);
        CHECK(v.time_ns == x->time_s * SECOND, "%s: %lld", x->file, (long long)v.time_ns);
        CHECK(v.early_ns == x->early_s * SECOND && v.proved == x->proved);
        CHECK(rp_plain_size(v.checked, strlen(v.checked), 0) == strlen(v.checked) && *v.checked);
        CHECK(rp_plain_size(v.claimed, strlen(v.claimed), 0) == strlen(v.claimed) && *v.claimed);
        CHECK(strlen(v.checked) < sizeof v.checked - 1 && strlen(v.claimed) < sizeof v.claimed - 1,
              "%s: its text is cut", x->file);
        SAID(v.checked);
        SAID(v.claimed);
    }
}

TEST(blocks_that_were_easy_to_find_are_refused)
{
    static const char *const files[] = {"bitcoin-0.hex", "bitcoin-125552.hex", "bitcoin-491133.hex"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rp_public_value v;
        struct rp_err err;
        RP_BUF text = {0};
        load(&text, files[i]);
        REFUSED(read_value(&v, text.data, text.size, &err) == RP_MISMATCH, err.msg);
    }
}

TEST(nothing_cut_off_is_accepted)
{
    for (size_t i = 0; i < VECTORS; i++) {
        RP_BUF text = {0};
        load(&text, vectors[i].file);
        while (text.size && text.data[text.size - 1] == '\n')
            text.size--;
        for (size_t n = 0; n < text.size; n++) {
            struct rp_public_value v;
            struct rp_err err;
            RP_FREE char *cut = rp_alloc(n ? n : 1); /* so that reading past the end is noticed */
            memcpy(cut, text.data, n);
            CHECK(read_value(&v, cut, n, &err) == RP_MALFORMED, "%s: %zu bytes", vectors[i].file, n);
        }
    }
}

/* What may change: the case of digits, blanks, and of drand the round's number and the signature before it, which are
 * claimed. */
TEST(no_flipped_bit_changes_the_nonce)
{
    for (size_t i = 0; i < VECTORS; i++) {
        struct rp_public_value was, v;
        struct rp_err err;
        RP_BUF text = {0};
        load(&text, vectors[i].file);
        CHECK(read_value(&was, text.data, text.size, &err) == RP_OK);
        int accepted = 0;
        for (size_t bit = 0; bit < 8 * text.size; bit++) {
            text.data[bit / 8] = (char)(text.data[bit / 8] ^ 1 << bit % 8);
            if (read_value(&v, text.data, text.size, &err) == RP_OK) {
                CHECK(memcmp(v.nonce, was.nonce, sizeof v.nonce) == 0, "%s: bit %zu", vectors[i].file, bit);
                CHECK(v.time_ns == was.time_ns || strcmp(v.kind, "drand") == 0, "%s: bit %zu", vectors[i].file, bit);
                accepted++;
            }
            text.data[bit / 8] = (char)(text.data[bit / 8] ^ 1 << bit % 8);
        }
        CHECK(accepted > 0 && accepted < 2 * (int)text.size, "%s: %d accepted", vectors[i].file, accepted);
    }
}

/* The vector with the first `from` replaced by `to`. */
static void edit(struct rp_buf *out, const char *file, const char *from, const char *to)
{
    RP_BUF text = {0};
    load(&text, file);
    char *at = strstr(text.data, from);
    if (!CHECK(at, "%s: no '%s'", file, from))
        return;
    rp_buf_add(out, text.data, (size_t)(at - text.data));
    rp_buf_puts(out, to);
    rp_buf_puts(out, at + strlen(from));
}

static void refuse_edit(const char *file, const char *from, const char *to, enum rp_code code)
{
    struct rp_public_value v;
    struct rp_err err;
    RP_BUF text = {0};
    edit(&text, file, from, to);
    REFUSED(read_value(&v, rp_buf_text(&text), text.size, &err) == code, err.msg);
}

TEST(rounds_that_do_not_fit_are_refused)
{
    const char *q = "drand-quicknet-657413.json", *d = "drand-default-3311596.json";
    refuse_edit(q, "fc1873", "fc1874", RP_MISMATCH);
    refuse_edit(q, "b71371", "b71372", RP_MISMATCH);
    refuse_edit(q, "657413", "0", RP_MALFORMED);
    refuse_edit(q, "657413", "-1", RP_MALFORMED);
    refuse_edit(q, "657413", "9223372036854775807", RP_MALFORMED);
    refuse_edit(q, "657413", "9223372036854775808", RP_MALFORMED);
    refuse_edit(q, "657413", "657413.0", RP_MALFORMED);
    refuse_edit(q, "657413", "\"657413\"", RP_MALFORMED);
    refuse_edit(q, "\"round\"", "\"period\":3,\"round\"", RP_MALFORMED);
    refuse_edit(q, "\"round\"", "\"round\":1,\"round\"", RP_MALFORMED);
    refuse_edit(q, "\"randomness\"", "\"random\\u001bness\"", RP_MALFORMED);
    refuse_edit(q, "\"}", "\",\"previous_signature\":\"\"}", RP_MALFORMED);
    refuse_edit(q, "d97b\"", "d97b00\"", RP_MALFORMED);
    refuse_edit(q, "d97b\"", "d9\"", RP_MALFORMED);
    refuse_edit(q, "d97b\"", "d97g\"", RP_MALFORMED);
    refuse_edit(d, "\"previous_signature\"", "\"previous\"", RP_MALFORMED);
    refuse_edit(d, "\"8ed588", "\"588", RP_MALFORMED);
    refuse_edit(d, "\"8ed588", "\"zed588", RP_MALFORMED);
    refuse_edit(d, "3311596", "1", RP_MALFORMED); /* whose previous signature has 32 bytes */
}

TEST(the_last_round_that_a_time_holds)
{
    struct rp_public_value v;
    struct rp_err err;
    RP_BUF text = {0}, next = {0};
    edit(&text, "drand-quicknet-657413.json", "657413", "2510189556");
    CHECK(read_value(&v, text.data, text.size, &err) == RP_OK && v.time_ns == 9223372032 * SECOND, "%s", err.msg);
    edit(&next, "drand-quicknet-657413.json", "657413", "2510189557");
    CHECK(read_value(&v, next.data, next.size, &err) == RP_MALFORMED);
}

TEST(headers_that_do_not_fit_are_refused)
{
    const char *b = "bitcoin-840000.hex";
    refuse_edit(b, "00e05f2a", "01e05f2a", RP_MISMATCH);
    refuse_edit(b, "19420317", "19420318", RP_MISMATCH); /* an easier target, but another hash */
    refuse_edit(b, "19420317", "1942ff17", RP_MALFORMED);
    refuse_edit(b, "19420317", "00000017", RP_MALFORMED);
    refuse_edit(b, "19420317", "19420302", RP_MALFORMED);
    refuse_edit(b, "19420317", "19420321", RP_MALFORMED);
    refuse_edit(b, "177d9863ea", "177d9863eg", RP_MALFORMED);
    refuse_edit(b, "63ea", "63ea00", RP_MALFORMED);
    refuse_edit(b, "63ea\n", "63ea\n\n", RP_MALFORMED);
    refuse_edit(b, "63ea\n", "63ea \n", RP_MALFORMED);
    refuse_edit(b, "00e05f2a", "0x00e05f2a", RP_MALFORMED);
}

TEST(other_files_are_refused)
{
    static const char *const texts[] = {"", "\n", "{}", "[]", "{\"period\": {}}", "{\"round\": null}", "{\"round\": 1}",
                                        "not a value", "\x7f" "ELF",
                                        "{\"a\": {\"round\": 1}}", "[{\"round\": 1}]", "0123456789abcdef", "  {"};
    struct rp_public_value v;
    struct rp_err err;
    RP_BUF large = {0}, zero = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        REFUSED(read_value(&v, texts[i], strlen(texts[i]), &err) == RP_MALFORMED, err.msg);
    load(&zero, "drand-quicknet-657413.json");
    zero.data[zero.size - 1] = 0;
    REFUSED(read_value(&v, zero.data, zero.size, &err) == RP_MALFORMED, err.msg);
    load(&large, "drand-quicknet-657413.json");
    while (large.size < RP_PUBLIC_VALUE_MAX)
        rp_buf_add(&large, " ", 1);
    CHECK(read_value(&v, large.data, large.size, &err) == RP_OK, "%s", err.msg);
    rp_buf_add(&large, " ", 1);
    REFUSED(read_value(&v, large.data, large.size, &err) == RP_MALFORMED, err.msg);
}
