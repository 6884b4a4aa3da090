/* Plain JSON is read as jansson reads it, or not at all. */
#include "base/buf.h"
#include "base/json.h"
#include "base/json_plain.h"
#include "tests/unit/tap.h"

#include <string.h>

/* With the order of keys, and 1 apart from 1.0. */
static char *spelled(const json_t *j)
{
    return json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17));
}

/* 1: read, and as jansson reads it. 0: left to jansson. */
static int read_alike(const char *text, size_t size)
{
    RP_JSON *plain = rp_json_plain(text, size), *other = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    RP_FREE char *one = plain ? spelled(plain) : NULL, *two = other ? spelled(other) : NULL;
    if (plain)
        CHECK(other && strcmp(one, two) == 0, "'%.*s' is '%s', and to jansson '%s'", (int)size, text, one, two ? two : "no JSON");
    return plain != NULL;
}

static const char sample[] = "{\"a\": [1, -20, 0, -0, 3.25, 1e3, -1.5E-7, 0.1e+2, true, false, null], \"\": \"\",\n\t\"k\xc3\xa4\": {\"x y\": []},\r\n"
                             " \"b\": \"text\xe2\x82\xac\", \"big\": 999999999999999999, \"o\": {}} ";

TEST(what_is_plain_is_read)
{
    static const char *const plain[] = {sample, "[]", "{}", " [ ] ", "[[[]],[{}]]", "[0.1]", "[123456789012345678]", "[\"\x7f\"]"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(read_alike(plain[i], strlen(plain[i])), "'%s'", plain[i]);
}

TEST(what_is_not_is_left_to_jansson)
{
    static const char *const other[] = {
        "",          " ",        "1",         "\"a\"",    "null",       "[1",         "{\"a\"",    "{\"a\":",     "{\"a\":1", "[1,]",
        "[,1]",      "{,}",      "[1 2]",     "[01]",     "[-]",        "[1.]",       "[.5]",      "[+1]",        "[1e]",     "[1e+]",
        "[tru]",     "[nullx]",  "[\"\\n\"]", "[\"a\nb\"]", "[\"\xff\"]", "[\"\xc3\"]", "[\"\xed\xa0\x80\"]", "{\"\xff\": 1}", "[1]]", "[1] x",
        "{\"a\":1,\"a\":1}", "{\"a\":1,}", "{a:1}",  "[1e999]",  "[1234567890123456789]", "[1e-999]", "[\"", "[}", "{]",
        "[0.1234567890123456789012345678901234567890123456789012345678901234567890]"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        CHECK(!read_alike(other[i], strlen(other[i])), "'%s'", other[i]);
    CHECK(!read_alike("[\"a\0b\"]", 7) && !read_alike("[1\0]", 4) && !read_alike("[1]\0", 4) && !read_alike("\0[1]", 4), "a NUL byte");
}

/* Every prefix, every byte left out, and every byte replaced by each that means something: at exact size, so that sanitizers see a byte
 * read too many. */
TEST(damaged_texts_are_read_as_jansson_reads_them)
{
    static const char bytes[] = "{}[],:\"\\ \n0123456789+-.eEtfnul\x01\x7f\x80\xc3\xff";
    const size_t n = sizeof sample - 1;
    int read = 0, left = 0;
    for (size_t i = 0; i <= n; i++) {
        RP_FREE char *text = rp_alloc(n);
        RP_FREE char *start = rp_alloc(i + !i);
        memcpy(start, sample, i);
        *(read_alike(start, i) ? &read : &left) += 1;
        memcpy(text, sample, i < n ? i : n - 1);
        if (i < n)
            memcpy(text + i, sample + i + 1, n - i - 1);
        *(read_alike(text, n - 1) ? &read : &left) += 1;
        for (size_t k = 0; i < n && k < sizeof bytes; k++) {
            memcpy(text, sample, n);
            text[i] = bytes[k];
            *(read_alike(text, n) ? &read : &left) += 1;
        }
    }
    CHECK(read > 500 && left > 500, "%d read, %d left to jansson", read, left);
}
