/* Errors: one code table, context in front, and nothing in a message that a terminal or JSON would choke on. */
#include "base/err.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <string.h>

TEST(fail_and_wrap)
{
    struct rp_err e;
    errno = ENOENT;
    CHECK(rp_fail(&e, RP_IO, "cannot open '%s'", "x") == -1, "rp_fail returns -1");
    CHECK(e.code == RP_IO && e.sys == ENOENT, "code %d, errno %d", (int)e.code, e.sys);
    CHECK(rp_wrap(&e, "bundle '%s'", "b") == -1, "rp_wrap returns -1");
    CHECK(strcmp(e.msg, "bundle 'b': cannot open 'x'") == 0, "'%s'", e.msg);
    CHECK(e.code == RP_IO && e.sys == ENOENT, "wrapping keeps code and errno");
    CHECK(rp_fail_null(&e, RP_USAGE, "again: %s", e.msg) == NULL, "rp_fail_null returns NULL");
    CHECK(strcmp(e.msg, "again: bundle 'b': cannot open 'x'") == 0, "an argument may point into the message: '%s'",
          e.msg);
}

TEST(long_messages_are_cut)
{
    struct rp_err e;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    rp_fail(&e, RP_IO, "%s", text);
    CHECK(strlen(e.msg) == sizeof e.msg - 1, "%zu bytes", strlen(e.msg));
    rp_wrap(&e, "context");
    CHECK(strlen(e.msg) == sizeof e.msg - 1 && strncmp(e.msg, "context: aaa", 12) == 0, "'%.20s'", e.msg);
    memset(text, 'b', 700);
    text[700] = 0;
    rp_wrap(&e, "%s", text);
    CHECK(strlen(e.msg) == sizeof e.msg - 1 && e.msg[510] == 'b', "a context that is too long by itself");
    /* a character of two bytes across the cut must not leave half of itself */
    memset(text, 'a', 510);
    strcpy(text + 510, "\xc3\xa9");
    rp_fail(&e, RP_IO, "%s", text);
    CHECK(e.msg[510] == '?', "byte 510 is %#x", (unsigned char)e.msg[510]);
}

TEST(messages_are_clean)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\033[31mb", "a?[31mb"},                    /* terminal escape */
        {"a\nb\tc\rd", "a b c?d"},                    /* one line */
        {"a\x7f\x80\xff", "a???"},                    /* DEL and stray bytes */
        {"gr\xc3\xb6\xc3\x9f" "e", "gr\xc3\xb6\xc3\x9f" "e"}, /* UTF-8 stays */
        {"\xc2\x9b" "2J", "??2J"},                    /* C1 control: CSI in one character */
        {"\xc0\xaf", "??"},                           /* overlong */
        {"\xed\xa0\x80", "???"},                      /* surrogate */
        {"\xf4\x90\x80\x80", "????"},                 /* above U+10FFFF */
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},     /* four bytes */
        {"\xe2\x82", "??"},                           /* cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err e;
        rp_fail(&e, RP_IO, "%s", cases[i].in);
        CHECK(strcmp(e.msg, cases[i].out) == 0, "case %zu gives '%s'", i, e.msg);
    }
}

TEST(codes)
{
    CHECK(rp_exit_status(RP_OK) == 0 && rp_exit_status(RP_USAGE) == 2 && rp_exit_status(RP_IO) == 3, "0 2 3");
    CHECK(rp_exit_status(RP_MALFORMED) == 4 && rp_exit_status(RP_MISMATCH) == 5 && rp_exit_status(RP_SIGNATURE) == 6,
          "4 5 6");
    CHECK(rp_exit_status(RP_UNAVAILABLE) == 7 && rp_exit_status(RP_BUG) == 70 && rp_exit_status(RP_INTERRUPTED) == 130,
          "7 70 130");
    CHECK(rp_exit_status((enum rp_code)99) == 70, "a code that does not exist is a bug");
    CHECK(strcmp(rp_code_name(RP_UNAVAILABLE), "unavailable") == 0, "'%s'", rp_code_name(RP_UNAVAILABLE));
    CHECK(strstr(rp_code_meaning(RP_SIGNATURE), "signature") != NULL, "'%s'", rp_code_meaning(RP_SIGNATURE));
}
