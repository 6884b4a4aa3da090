/* SHA-256 in one go, in pieces, and of files; the clock's text. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(pieces_do_not_matter)
{
    unsigned char bytes[1000], whole[32], parts[32];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    rp_sha256_bytes(whole, bytes, sizeof bytes);
    for (size_t piece = 1; piece < 200; piece += 7) {
        struct rp_sha256 h;
        rp_sha256_init(&h);
        for (size_t i = 0; i < sizeof bytes; i += piece)
            rp_sha256_update(&h, bytes + i, sizeof bytes - i < piece ? sizeof bytes - i : piece);
        rp_sha256_final(&h, parts);
        CHECK(memcmp(whole, parts, 32) == 0, "pieces of %zu bytes", piece);
    }
}

/* FIPS 180-4's long example. */
TEST(a_million_times_a)
{
    static char text[1000000];
    char hex[RP_SHA256_HEX];
    memset(text, 'a', sizeof text);
    rp_sha256_hex(hex, text, sizeof text);
    CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(files)
{
    char hex[RP_SHA256_HEX], expected[RP_SHA256_HEX], path[] = "/tmp/repro-test-hash-XXXXXX";
    struct rp_err e;
    uint64_t size = 0;
    RP_BUF bytes = {0};
    for (int i = 0; i < 100000; i++)
        rp_buf_printf(&bytes, "%d\n", i);
    int fd = mkstemp(path);
    CHECK(fd >= 0 && rp_write_all(fd, bytes.data, bytes.size) == 0, "cannot write %s", path);
    close(fd);
    rp_sha256_hex(expected, bytes.data, bytes.size);
    CHECK(rp_sha256_file(hex, path, &size, &e) == 0 && strcmp(hex, expected) == 0, "%s", e.msg);
    CHECK(size == bytes.size, "%llu bytes", (unsigned long long)size);
    unlink(path);
    CHECK(rp_sha256_file(hex, path, NULL, &e) < 0 && e.code == RP_IO && strstr(e.msg, path), "%s", e.msg);
    CHECK(rp_sha256_file(hex, "/", NULL, &e) < 0 && strstr(e.msg, "a directory"), "%s", e.msg);
}

TEST(time_as_text)
{
    char text[32];
    rp_rfc3339(text, 0);
    CHECK(strcmp(text, "1970-01-01T00:00:00Z") == 0, "%s", text);
    rp_rfc3339(text, 1795242415123456789ull);
    CHECK(strcmp(text, "2026-11-21T06:26:55Z") == 0, "%s", text);
    uint64_t a = rp_now_ns(), b = rp_now_ns();
    CHECK(b >= a && rp_wall_ns() > 1700000000ull * 1000000000ull, "clocks");
}

TEST(signal_right_after_another_is_its_echo)
{
    volatile uint64_t last = 0;
    int echo = 0;
    CHECK(!rp_interrupt_is_echo(&last) && last, "the first is none");
    for (int i = 0; i < 20; i++) /* this process may not run for a while */
        echo |= rp_interrupt_is_echo(&last);
    CHECK(echo, "one after the other are two signals");
    last = rp_now_ns() - 90000000;
    CHECK(!rp_interrupt_is_echo(&last), "a second Ctrl-C within 90 ms is lost");
}
