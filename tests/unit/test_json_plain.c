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

static int owns; /* of the texts below, so many had our own spelling */

/* 1: read, and as jansson reads it, its spelling judged as by writing it again. 0: left to jansson. */
static int read_alike(const char *text, size_t size)
{
    int own = 0;
    RP_JSON *plain = rp_json_plain(text, size, 1000, &own), *other = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    RP_FREE char *one = plain ? spelled(plain) : NULL, *two = other ? spelled(other) : NULL;
    RP_BUF again = {0};
    if (!plain)
        return 0;
    CHECK(other && strcmp(one, two) == 0, "'%.*s' is '%s', and to jansson '%s'", (int)size, text, one, two ? two : "no JSON");
    rp_json_write(&again, plain);
    CHECK(own == rp_buf_is(&again, text, size), "'%.*s' is %sour own spelling", (int)size, text, own ? "" : "not ");
    owns += own;
    return 1;
}

static const char sample[] = "{\"a\": [1, -20, 0, -0, 3.25, 1e3, -1.5E-7, 0.1e+2, true, false, null], \"\": \"\",\n\t\"k\xc3\xa4\": {\"x y\": []},\r\n"
                             " \"b\": \"text\xe2\x82\xac\", \"big\": 999999999999999999, \"o\": {}} ";

TEST(what_is_plain_is_read)
{
    static const char *const plain[] = {sample, "[]", "{}", " [ 1 ] ", "[[[]],[{}]]", "[0.1]", "[123456789012345678]", "[\"\x7f\"]"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(read_alike(plain[i], strlen(plain[i])), "'%s'", plain[i]);
}

TEST(what_is_not_is_left_to_jansson)
{
    static const char *const other[] = {
        "",          " ",        "1",         "\"a\"",    "null",       "[1",         "{\"a\"",    "{\"a\":",     "{\"a\":1", "[1,]",
        "[,1]",      "{,}",      "[1 2]",     "[01]",     "[-]",        "[1.]",       "[.5]",      "[+1]",        "[1e]",     "[1e+]",
        "[tru]",     "[nullx]", "[ ]", "{ }",  "[\"\\n\"]", "[\"a\nb\"]", "[\"\xff\"]", "[\"\xc3\"]", "[\"\xed\xa0\x80\"]", "{\"\xff\": 1}", "[1]]", "[1] x",
        "{\"a\":1,\"a\":1}", "{\"a\":1,}", "{a:1}",  "[1e999]",  "[1234567890123456789]", "[1e-999]", "[\"", "[}", "{]",
        "[0.1234567890123456789012345678901234567890123456789012345678901234567890]"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        CHECK(!read_alike(other[i], strlen(other[i])), "'%s'", other[i]);
    CHECK(!read_alike("[\"a\0b\"]", 7) && !read_alike("[1\0]", 4) && !read_alike("[1]\0", 4) && !read_alike("\0[1]", 4), "a NUL byte");
}

/* Every prefix, every byte left out, and every byte replaced by each that means something: at exact size, so that sanitizers see a byte
 * read too many. */
static void damage(const char *whole, size_t n)
{
    static const char bytes[] = "{}[],:\"\\ \n0123456789+-.eEtfnul\x01\x7f\x80\xc3\xff";
    int read = 0, left = 0;
    for (size_t i = 0; i <= n; i++) {
        RP_FREE char *text = rp_alloc(n);
        RP_FREE char *start = rp_alloc(i + !i);
        memcpy(start, whole, i);
        *(read_alike(start, i) ? &read : &left) += 1;
        memcpy(text, whole, i < n ? i : n - 1);
        if (i < n)
            memcpy(text + i, whole + i + 1, n - i - 1);
        *(read_alike(text, n - 1) ? &read : &left) += 1;
        for (size_t k = 0; i < n && k < sizeof bytes; k++) {
            memcpy(text, whole, n);
            text[i] = bytes[k];
            *(read_alike(text, n) ? &read : &left) += 1;
        }
    }
    CHECK(read > 500 && left > 500, "%d read, %d left to jansson", read, left);
}

TEST(damaged_texts_are_read_as_jansson_reads_them)
{
    damage(sample, sizeof sample - 1);
}

static const char own_sample[] = "{\n  \"\": \"\",\n  \"B\": 0.10000000000000001,\n  \"a\": [\n    1,\n    -20,\n    -0.0,\n    1e22,\n    1.4999999999999999e-7,\n    true,\n"
                                 "    false,\n    null,\n    {}\n  ],\n  \"aa\": {\n    \"x\": [],\n    \"y\": [\n      [\n        3\n      ]\n    ]\n"
                                 "  },\n  \"k\xc3\xa4\": \"\xe2\x82\xac\"\n}\n";

TEST(our_own_spelling_is_known_and_no_other_taken_for_it)
{
    owns = 0;
    read_alike(own_sample, sizeof own_sample - 1);
    CHECK(owns == 1, "our own spelling is not known");
    damage(own_sample, sizeof own_sample - 1);
    CHECK(owns > 200, "%d damaged texts are spelled as we spell", owns); /* another digit, another letter */
}

TEST(bounds_are_those_of_the_full_reader)
{
    static const struct {
        const char *text;
        int values;
    } cases[] = {{"[]", 1}, {"[1]", 1}, {"[1, 2]", 2}, {"{\"a\": 1, \"b\": []}", 3}, {"[[], [], {}]", 6}, {"[[[[1]]]]", 4}};
    struct rp_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int most = 0; most < 12; most++) {
            int own;
            RP_JSON *plain = rp_json_plain(cases[i].text, strlen(cases[i].text), most, &own);
            RP_JSON *j = rp_json_parse_most(cases[i].text, strlen(cases[i].text), most, "x.json", &err);
            CHECK((j != NULL) == (most >= cases[i].values), "%s: %d values", cases[i].text, most);
            CHECK(!plain || j, "%s: %d values, taken by one reader only", cases[i].text, most);
            CHECK(plain || most < cases[i].values + 2, "%s: %d values are left to the slow reader", cases[i].text, most);
        }
    for (int depth = 63; depth <= 66; depth++) {
        RP_BUF text = {0};
        for (int i = 0; i < 2 * depth; i++)
            rp_buf_puts(&text, i < depth ? "[" : "]");
        RP_JSON *j = rp_json_parse(text.data, text.size, "deep.json", &err);
        CHECK((j != NULL) == (depth <= RP_JSON_DEPTH_MAX), "%d levels", depth);
    }
}
