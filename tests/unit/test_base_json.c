/* JSON in and out, and floats that survive the way exactly. */
#include "base/json.h"
#include "base/json_own.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int refused(const char *text, size_t size, const char *expected)
{
    struct rp_err e = {0};
    RP_JSON *j = rp_json_parse(text, size, "doc.json", &e);
    int good = !j && e.code == RP_MALFORMED && strncmp(e.msg, "doc.json:", 9) == 0 && strstr(e.msg, expected);
    if (!good)
        fprintf(stderr, "# '%.40s': %s\n", text, j ? "accepted" : e.msg);
    return good;
}

TEST(parse_refuses)
{
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"", "doc.json:"},
        {"{", "doc.json:1"},
        {"{\"a\":1,\"a\":2}", "duplicate"},
        {"{\"a\":1}\n{}", "doc.json:2"},
        {"[1,]", "doc.json:1"},
        {"{'a':1}", "doc.json"},
        {"[01]", "doc.json"},
        {"[1e999]", "doc.json"},
        {"[NaN]", "doc.json"},
        {"[\"\xff\"]", "doc.json"},
        {"[99999999999999999999]", "doc.json"},
        {"[\"\\u0000\"]", "doc.json"},
        {"{\n  \"a\": tru\n}", "doc.json:2:"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(refused(bad[i].text, strlen(bad[i].text), bad[i].expected), "case %zu", i);
    CHECK(refused("[\"a\0b\"]", 7, "doc.json"), "a NUL byte");
    CHECK(refused(NULL, 0, "doc.json"), "nothing at all");
}

TEST(depth_is_bounded)
{
    RP_BUF deep = {0}, fine = {0};
    struct rp_err e;
    for (int i = 0; i < 1000000; i++)
        rp_buf_add(&deep, "[", 1);
    CHECK(refused(deep.data, deep.size, "deeper"), "a million brackets");
    rp_buf_puts(&fine, "[\"");
    for (int i = 0; i < 1000; i++)
        rp_buf_puts(&fine, "[{\\\"");
    rp_buf_puts(&fine, "\"]");
    RP_JSON *j = rp_json_parse(fine.data, fine.size, "doc.json", &e);
    CHECK(j != NULL, "brackets inside a string are text: %s", e.msg);
}

TEST(strings_are_bounded)
{
    RP_BUF text = {0};
    rp_buf_puts(&text, "[\n\"");
    for (int i = 0; i < 4 << 20; i++)
        rp_buf_add(&text, i == 100 ? "\\" : i == 101 ? "\"" : "x", 1);
    rp_buf_puts(&text, "\"]");
    struct rp_err e;
    RP_JSON *j = rp_json_parse(text.data, text.size, "doc.json", &e);
    CHECK(j != NULL, "4 MiB: %s", e.msg);
    text.size -= 2;
    rp_buf_puts(&text, "x\"]");
    CHECK(refused(text.data, text.size, "doc.json:2: "), "one more");
}

TEST(the_number_of_values_is_bounded)
{
    RP_BUF many = {0}, fine = {0};
    struct rp_err e;
    rp_buf_puts(&many, "[{}");
    for (int i = 0; i < 1000000; i++)
        rp_buf_puts(&many, ",{}");
    rp_buf_puts(&many, "]");
    CHECK(refused(many.data, many.size, "more than 1000000 values"), "a million objects");
    rp_buf_puts(&fine, "[\"");
    for (int i = 0; i < 1000001; i++)
        rp_buf_puts(&fine, ",");
    rp_buf_puts(&fine, "\"]");
    RP_JSON *j = rp_json_parse(fine.data, fine.size, "doc.json", &e);
    CHECK(j != NULL, "commas inside a string are text: %s", e.msg);
}

TEST(equal_documents_are_equal_bytes)
{
    struct rp_err e;
    static const char a[] = "{\"b\":[1,2.5],\"a\":{\"z\":null,\"y\":\"\xc3\xa9\"}}",
                      b[] = " {\"a\" : {\"y\":\"\\u00e9\",\"z\":null},\n\"b\":[1,25e-1]}";
    RP_JSON *ja = rp_json_parse(a, sizeof a - 1, "a", &e), *jb = rp_json_parse(b, sizeof b - 1, "b", &e);
    RP_BUF ta = {0}, tb = {0}, line = {0};
    rp_json_write(&ta, ja);
    rp_json_write(&tb, jb);
    rp_json_write_line(&line, ja);
    CHECK(strcmp(ta.data, tb.data) == 0, "%s differs from %s", ta.data, tb.data);
    CHECK(strcmp(line.data, "{\"a\":{\"y\":\"\xc3\xa9\",\"z\":null},\"b\":[1,2.5]}\n") == 0, "%s", line.data);
    CHECK(ta.data[ta.size - 1] == '\n' && strchr(ta.data, '\n') != ta.data + ta.size - 1,
          "indented, with a final newline");
}

TEST(reals_survive)
{
    static const double values[] = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 1e-5, 123456789.125, 0.0};
    struct rp_err e;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        RP_JSON *j = json_pack("{s:f}", "x", values[i]);
        RP_BUF text = {0};
        rp_json_write_line(&text, j);
        RP_JSON *k = rp_json_parse(text.data, text.size, "x", &e);
        double back = json_real_value(json_object_get(k, "x"));
        CHECK(k && memcmp(&back, &values[i], sizeof back) == 0, "%s", text.data);
    }
}

/* Texts and whole numbers stay as they are; documents of older versions, with 17 digits, are our own too. */
TEST(reals_are_written_as_short_as_they_can_be)
{
    static const char old[] =
        "{\n  \"0.94999999999999996\": \"0.94999999999999996\",\n  \"n\": 1764260000000000000,\n  \"x\": [\n    "
        "0.94999999999999996,\n    -1.0000000000000001e-05,\n    1.0000000000000001e+300,\n    "
        "123456789012345680.0,\n    0.33333333333333331,\n    1.0\n  ]\n}\n";
    struct rp_err e;
    RP_BUF once = {0}, again = {0};
    int own = 0;
    RP_JSON *j = rp_json_parse(old, sizeof old - 1, "old", &e);
    CHECK(j, "%s", e.msg);
    rp_json_write(&once, j);
    CHECK_STR(once.data, "{\n  \"0.94999999999999996\": \"0.94999999999999996\",\n  \"n\": 1764260000000000000,\n  "
                         "\"x\": [\n    0.95,\n    "
                         "-1e-5,\n    1e300,\n    1.2345678901234568e17,\n    0.3333333333333333,\n    1.0\n  ]\n}\n");
    RP_JSON *k = rp_json_parse_own(once.data, once.size, 1000, &own, "new", &e);
    CHECK(own && json_equal(j, k), "not the same numbers");
    rp_json_write(&again, k);
    CHECK(rp_buf_is(&again, once.data, once.size), "written in two ways");
    RP_JSON *written_before = rp_json_parse_own("{\n  \"x\": 0.94999999999999996\n}\n", 31, 1000, &own, "old", &e);
    CHECK(written_before && own, "refused: the form of older versions");
    RP_JSON *neither = rp_json_parse_own("{\n  \"x\": 0.949999999999999960\n}\n", 32, 1000, &own, "neither", &e);
    CHECK(neither && !own, "taken: another form");
}

/* Either it is refused, or it is what is written of the document. */
static int is_refused_or_own(const char *text, size_t size)
{
    RP_BUF written = {0};
    RP_JSON *own = rp_json_read_own(text, size, 1000),
            *j = own ? json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!own)
        return 1;
    rp_json_write(&written, own);
    return j && json_equal(own, j) && rp_buf_is(&written, text, size);
}

TEST(own_form_with_any_change_is_refused_or_another_own_form)
{
    static const char text[] =
        "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": {\n    \"d\": [\n      -1,\n      0,\n      9223372036854775807,\n"
        "      0.5,\n      -12.25,\n      1e-7,\n      0.3333333333333333\n    ]\n  },\n"
        "  \"e\": \"\\\"\\\\\\b\\f\\n\\r\\t\\u001F/\\u0001 \303\251 \177\",\n  \"f\": true,\n  \"g\": false,\n"
        "  \"h\": null,\n  \"hh\": \"\"\n}\n";
    static const char others[] = "\"\\/{}[]:,.+-eE0129abnu \n\t\001\377\303";
    const size_t n = sizeof text - 1;
    char changed[sizeof text + 1];
    RP_JSON *j = rp_json_read_own(text, n, 1000), *same = json_loadb(text, n, 0, NULL);
    CHECK(j && json_equal(j, same), "refused");
    CHECK(is_refused_or_own(text, n), "not what is written");
    for (size_t at = 0; at < n; at++) {
        for (size_t k = 0; k < sizeof others; k++) {
            memcpy(changed, text, n);
            changed[at] = others[k];
            CHECK(is_refused_or_own(changed, n), "byte %zu is %#x", at, others[k]);
            memcpy(changed + at + 1, text + at, n - at);
            CHECK(is_refused_or_own(changed, n + 1), "%#x before byte %zu", others[k], at);
        }
        memcpy(changed, text, at);
        memcpy(changed + at, text + at + 1, n - at - 1);
        CHECK(is_refused_or_own(changed, n - 1), "without byte %zu", at);
        CHECK(!rp_json_read_own(text, at, 1000), "cut at byte %zu", at);
    }
}

TEST(own_form_of_any_real_is_read)
{
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        static const double tens[] = {1, 10, 1e3, 1e5, 1e9, 1e14};
        RP_BUF text = {0};
        double x;
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &bits, sizeof x);
        if (i % 2) /* a decimal number of some digits */
            x = (double)(int64_t)(bits >> (24 + i % 32)) / tens[i / 2 % 6];
        if (!isfinite(x))
            continue;
        RP_JSON *j = json_pack("[f]", x);
        rp_json_write(&text, j);
        RP_JSON *own = rp_json_read_own(text.data, text.size, 10);
        CHECK(own && json_equal(own, j), "%.17g: %s", x, text.data);
    }
}

TEST(own_form_has_the_limits_of_others)
{
    for (int n = 60; n < 70; n++) { /* lists in lists */
        RP_BUF text = {0};
        RP_JSON *j = json_array();
        for (int i = 1; i < n; i++) {
            json_t *outer = json_pack("[O]", j);
            json_decref(j);
            j = outer;
        }
        rp_json_write(&text, j);
        RP_JSON *own = rp_json_read_own(text.data, text.size, n), *few = rp_json_read_own(text.data, text.size, n - 1);
        CHECK(!own == (n > 64), "%d lists", n);
        CHECK(!few, "%d lists of %d values", n, n - 1);
    }
}

TEST(getters_name_what_they_want)
{
    struct rp_err e;
    static const char text[] = "{\"s\":\"t\",\"i\":3,\"r\":2.5,\"o\":{},\"a\":[]}";
    RP_JSON *j = rp_json_parse(text, sizeof text - 1, "run.json", &e);
    const char *s = "";
    int64_t i = 0;
    CHECK(rp_json_str(j, "s", &s, "run.json", &e) == 0 && strcmp(s, "t") == 0, "string");
    CHECK(rp_json_int(j, "i", &i, "run.json", &e) == 0 && i == 3, "integer");
    CHECK(rp_json_obj(j, "o", "run.json", &e) && rp_json_arr(j, "a", "run.json", &e), "object and array");
    CHECK(rp_json_int(j, "r", &i, "run.json", &e) < 0 && e.code == RP_MALFORMED, "a real is no integer");
    CHECK(strstr(e.msg, "run.json") && strstr(e.msg, "'r'") && strstr(e.msg, "an integer"), "%s", e.msg);
    CHECK(rp_json_str(j, "x", &s, "run.json", &e) < 0 && strstr(e.msg, "missing"), "%s", e.msg);
    CHECK(rp_json_obj(j, "a", "run.json", &e) == NULL && rp_json_arr(j, "o", "run.json", &e) == NULL,
          "object is not array");
    CHECK(rp_json_str(NULL, "x", &s, "run.json", &e) < 0 && rp_json_str(json_object_get(j, "a"), "x", &s, "a", &e) < 0,
          "not an object");
}

TEST(hex_floats_are_exact)
{
    static const uint32_t bits[] = {0,          0x80000000, 1,          0x007fffff, 0x00800000, 0x3f800000,
                                    0x3dcccccd, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000};
    char text[32];
    float back;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        float x;
        memcpy(&x, &bits[i], sizeof x);
        rp_float_hex(text, x);
        CHECK(rp_float_unhex(&back, text) == 0 && memcmp(&x, &back, sizeof x) == 0, "%#x as %s", bits[i], text);
    }
    for (uint32_t i = 0; i < 100000; i++) {
        const uint32_t any = i * 2654435761u;
        char expected[32];
        float x;
        memcpy(&x, &any, sizeof x);
        if (!isfinite(x))
            continue;
        rp_float_hex(text, x);
        snprintf(expected, sizeof expected, "%a", (double)x);
        CHECK(strcmp(text, expected) == 0 && rp_float_unhex(&back, text) == 0 && memcmp(&x, &back, sizeof x) == 0,
              "%#x as %s, not %s", any, text, expected);
    }
    for (uint32_t i = 0; i < 100000; i++) { /* a text with another character is refused, or is that of another float */
        const uint32_t any = i * 2654435761u;
        float x;
        memcpy(&x, &any, sizeof x);
        if (!isfinite(x))
            continue;
        rp_float_hex(text, x);
        const size_t n = strlen(text);
        CHECK(rp_float_unhex_own(&back, text, n) == 0 && memcmp(&x, &back, sizeof x) == 0, "%s", text);
        text[i % n] = "0123456789abcdefABXxpP+-. "[i / 7 % 26];
        if (rp_float_unhex_own(&back, text, n) == 0) {
            char again[32];
            rp_float_hex(again, back);
            CHECK(strncmp(again, text, n) == 0 && !again[n], "%s is written as %s", text, again);
        }
    }
    rp_float_hex(text, -NAN);
    CHECK(strcmp(text, "nan") == 0 && rp_float_unhex(&back, text) == 0 && isnan(back), "NaN has one text: %s", text);
    rp_float_hex(text, 1.5f);
    CHECK(strcmp(text, "0x1.8p+0") == 0, "'%s'", text);
    CHECK(rp_float_unhex(&back, "0x1.8000000000000p+0") == 0 && back == 1.5f, "other writers' zeros");
    static const char *const bad[] = {"",        "1.5",     "0x1",      "0x1p+200", "0x1p-150", "0x1.0000001p+0",
                                      " 0x1p+0", "0x1p+0 ", "+0x1p+0",  "infinity", "NAN",      "-nan",
                                      "0xp+0",   "0x1p",    "--0x1p+0", "0x1p+0x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(rp_float_unhex(&back, bad[i]) < 0, "'%s' was accepted", bad[i]);
}

static int reads_as_strtod(const char *text)
{
    const double expected = strtod(text, NULL), x = rp_json_real(text, strcspn(text, ",}"));
    if (memcmp(&x, &expected, sizeof x) == 0)
        return 1;
    fprintf(stderr, "# '%s' is %a, expected %a\n", text, x, expected);
    return 0;
}

/* Against strtod(): of 1 to 19 digits with exponents around those that need no strtod(), and between two doubles. */
TEST(real_numbers_are_the_nearest_doubles)
{
    static const char *const some[] = {
        "0.0",
        "-0.0",
        "0e5",
        "1",
        "-1.5",
        "0.1,",
        "1e-27",
        "1e-28",
        "9.999999999999999e22",
        "5e-324",
        "1e400",
        "1E-5}",
        "1.0e+5",
        "2.5e-0",
        "1e-99999",
        "9007199254740993.0",
        "9007199254740995.0",
        "900719925474099.25",
        "4503599627370497.5",
        "4503599627370496.5",
        "9223372036854775807.0",
        "0.50000000000000005551",
        "0.500000000000000166533453693773481063544750213623046875",
        "9999999999999999999.0",
        "0.000000000000000000000000001",
        "18446744073709551615.0",
        "100000000000000000000.0",
    };
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        CHECK(reads_as_strtod(some[i]), "%s", some[i]);
    for (int i = 0; i < 100000; i++) {
        char text[64];
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t digits = state >> (1 + state % 60);
        const int tens = (int)(state >> 33) % 30;
        if (i % 2)
            snprintf(text, sizeof text, "%s%.*g,", i % 3 ? "" : "-", 15 + i % 3, (double)digits / pow(10, tens));
        else
            snprintf(text, sizeof text, "%llu.%lluE-%d}", (unsigned long long)(digits >> 32),
                     (unsigned long long)(digits & 0xffffff), tens);
        CHECK(reads_as_strtod(text), "%s", text);
    }
    for (uint64_t i = 0; i < 20000; i++) { /* halfway between two doubles: 2^53 + odd, divided by a power of 2 */
        char text[64];
        snprintf(text, sizeof text, "%.*f", (int)(i % 3), (double)(0x10000000000000ull + i) / 4);
        CHECK(reads_as_strtod(text), "%s", text);
        snprintf(text, sizeof text, "%llu.5", (unsigned long long)(0x10000000000000ull + i));
        CHECK(reads_as_strtod(text), "%s", text);
    }
}
