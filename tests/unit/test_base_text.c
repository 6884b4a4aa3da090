/* Foreign text: what is UTF-8, what a terminal would obey, what is shown of it. */
#include "base/buf.h"
#include "base/text.h"
#include "tests/unit/tap.h"

#include <string.h>

TEST(utf8_is_decoded_in_its_shortest_form_only)
{
    static const struct {
        const char *bytes;
        size_t length; /* 0: malformed */
        unsigned c;
    } row[] = {
        {"a", 1, 'a'},
        {"\x7f", 1, 0x7f},
        {"\xc2\x80", 2, 0x80},
        {"\xdf\xbf", 2, 0x7ff},
        {"\xe0\xa0\x80", 3, 0x800},
        {"\xed\x9f\xbf", 3, 0xd7ff},
        {"\xee\x80\x80", 3, 0xe000},
        {"\xf0\x90\x80\x80", 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\x80", 0, 0},             /* continues nothing */
        {"\xc1\xbf", 0, 0},         /* overlong */
        {"\xe0\x9f\xbf", 0, 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0, 0}, /* overlong */
        {"\xed\xa0\x80", 0, 0},     /* surrogate */
        {"\xed\xbf\xbf", 0, 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0, 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 0, 0}, /* above U+10FFFF */
        {"\xe2\x82", 0, 0},         /* cut short */
        {"\xe2\x28\xa1", 0, 0},     /* an ASCII letter inside */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        unsigned c = 0;
        size_t n = rp_utf8(row[i].bytes, strlen(row[i].bytes), &c);
        CHECK(n == row[i].length && c == row[i].c, "row %zu: %zu bytes, U+%04X", i, n, c);
    }
}

TEST(controls_are_c0_del_and_c1)
{
    for (unsigned c = 0; c < 0x200; c++)
        CHECK(rp_is_control(c) == (c <= 0x1f || (c >= 0x7f && c <= 0x9f)), "U+%04X", c);
}

TEST(what_turns_text_or_is_not_seen_hides)
{
    static const unsigned hides[] = {0xad,   0x34f,  0x61c,  0x115f, 0x17b4, 0x180e,  0x200b,  0x200c,
                                     0x200d, 0x200e, 0x200f, 0x2028, 0x202e, 0x2060,  0x2064,  0x2066,
                                     0x206f, 0x3164, 0xfeff, 0xffa0, 0xfff9, 0xe0001, 0xe0041, 0xe0100};
    static const unsigned seen[] = {' ',    '~',    0xa0,   0xac,   0xae,   0x34e,   0x350,   0x2010,
                                    0x2014, 0x200a, 0x202f, 0x205f, 0x2070, 0x3000,  0x3163,  0x4e2d,
                                    0xfe0f, 0xfefe, 0xff21, 0xfffc, 0xfffd, 0x1f600, 0xdffff, 0xe1000};
    for (size_t i = 0; i < sizeof hides / sizeof *hides; i++)
        CHECK(rp_is_invisible(hides[i]), "U+%04X", hides[i]);
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        CHECK(!rp_is_invisible(seen[i]), "U+%04X", seen[i]);
    for (unsigned c = 0; c < 0x110000; c++)
        CHECK(!rp_is_bidi_control(c) || rp_is_invisible(c), "U+%04X", c);
    char text[] = "a\xe2\x80\x8b" "b\xc2\xad" "c\xef\xbb\xbf" "d\xf3\xa0\x81\x81" "e\xe2\x81\xa4", shown[72];
    CHECK_STR(rp_excerpt(shown, text), "a?b?c?d?e?");
    rp_sanitize(text);
    CHECK_STR(text, "a???b??c???d????e???");
}

TEST(quotes_end_where_the_text_does)
{
    static const char *const cases[][2] = {{"", "\"\""}, {"good", "\"good\""},
                                           {"good\" (trusted as NVIDIA Corp)", "\"good\\\" (trusted as NVIDIA Corp)\""},
                                           {"\\\"", "\"\\\\\\\"\""}, {"a\033[2J\xe2\x80\x8b", "\"a?[2J???\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *quoted = rp_quote(cases[i][0]);
        CHECK_STR(quoted, cases[i][1]);
    }
}

TEST(digests_are_64_lower_case_digits)
{
    char hex[66] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    CHECK(rp_is_sha256(hex));
    hex[63] = 'F';
    CHECK(!rp_is_sha256(hex), "upper case");
    hex[63] = 0;
    CHECK(!rp_is_sha256(hex), "63 digits");
    memcpy(hex + 63, "00", 3);
    CHECK(!rp_is_sha256(hex), "65 digits");
    hex[64] = '\n';
    CHECK(!rp_is_sha256(hex), "a line end after 64 digits");
}

TEST(foreign_text_is_shown_harmless_and_cut)
{
    char safe[6], shown[72];
    CHECK_STR(rp_ascii(safe, sizeof safe, "\x7f\033\xc3\xa9z and more"), "????z");
    CHECK_STR(rp_excerpt(shown, "caf\xc3\xa9 \033[2J \xc2\x9b \xff"), "caf\xc3\xa9 ?[2J ? ?");
    RP_BUF text = {0};
    for (int i = 0; i < 59; i++)
        rp_buf_puts(&text, "x");
    rp_buf_puts(&text, "y");
    CHECK(strcmp(rp_excerpt(shown, text.data), text.data) == 0, "60 bytes fit");
    text.data[59] = 0;
    text.size = 59;
    rp_buf_puts(&text, "\xc3\xa9"); /* its second byte would be the 61st */
    CHECK(strlen(rp_excerpt(shown, text.data)) == 62 && strcmp(shown + 58, "x...") == 0, "%s", shown);
}

TEST(numbers_as_a_list)
{
    char out[24];
    rp_list_numbers(out, sizeof out, "\0\1\0\1\1\1\0\1", 8);
    CHECK_STR(out, "1, 3-5, 7");
    rp_list_numbers(out, sizeof out, "\1\0\1\0\1\0\1\0\1\0\1\0\1", 13);
    CHECK_STR(out, "0, 2, 4, 6, 8, ...");
}
