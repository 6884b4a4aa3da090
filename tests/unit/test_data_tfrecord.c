/* Checksums against published vectors and each other; frames; every damaged byte is noticed. */
#include "tests/unit/tap.h"

#include "tests/unit/data_fixture.h"

TEST(crc32c_published_vectors)
{
    unsigned char b[48];
    memset(b, 0, 32);
    CHECK(rp_crc32c(0, b, 32) == 0x8a9136aau); /* RFC 3720, B.4 */
    memset(b, 0xff, 32);
    CHECK(rp_crc32c(0, b, 32) == 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        b[i] = (unsigned char)i;
    CHECK(rp_crc32c(0, b, 32) == 0x46dd794eu);
    CHECK(rp_crc32c(0, "123456789", 9) == 0xe3069283u);
    CHECK(rp_crc32c_portable(0, "123456789", 9) == 0xe3069283u);
    CHECK(rp_crc32c(0, NULL, 0) == 0);
}

TEST(crc32c_hardware_equals_portable)
{
    static unsigned char b[5016];
    uint32_t x = 1;
    int bad = 0;
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    for (size_t n = 0; n < 5000; n += n < 40 ? 1 : 61)
        for (size_t at = 0; at < 9; at++)
            bad += rp_crc32c(x, b + at, n) != rp_crc32c_portable(x, b + at, n);
    CHECK(bad == 0, "%d differ", bad);
    CHECK(rp_crc32c(rp_crc32c(0, b, 1000), b + 1000, 999) == rp_crc32c_portable(0, b, 1999));
}

/* The frame TensorFlow writes for the record "hello": length 5, and checksums masked as its documentation says. */
TEST(frame_bytes)
{
    RP_BUF out = {0};
    char hex[64];
    rp_tfrecord_append(&out, "hello", 5);
    CHECK(out.size == 21);
    uint32_t head = rp_crc32c_portable(0, "\5\0\0\0\0\0\0\0", 8), body = rp_crc32c_portable(0, "hello", 5);
    CHECK(body == 0x9a71bb4cu);
    head = (head >> 15 | head << 17) + 0xa282ead8u;
    body = (body >> 15 | body << 17) + 0xa282ead8u;
    snprintf(hex, sizeof hex, "%02x%02x%02x%02x", head & 255, head >> 8 & 255, head >> 16 & 255, head >> 24);
    char got[64];
    rp_hex(got, out.data, 8);
    CHECK_STR(got, "0500000000000000");
    rp_hex(got, out.data + 8, 4);
    CHECK_STR(got, hex);
    snprintf(hex, sizeof hex, "%02x%02x%02x%02x", body & 255, body >> 8 & 255, body >> 16 & 255, body >> 24);
    rp_hex(got, out.data + 17, 4);
    CHECK_STR(got, hex);
}

TEST(frame_refusals)
{
    RP_BUF f = {0};
    struct rp_err err;
    uint64_t length;
    rp_tfrecord_append(&f, "hello", 5);
    unsigned char *p = (unsigned char *)f.data;
    CHECK(rp_tfrecord_head(&length, p, 21, &err) == 0 && length == 5);
    CHECK(rp_tfrecord_body(p + 12, 5, &err) == 0);
    REFUSED(rp_tfrecord_head(&length, p, 11, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    REFUSED(rp_tfrecord_head(&length, p, 20, &err) < 0, err.msg);
    /* a huge length with a good checksum */
    memset(p, 0xff, 8);
    uint32_t c = rp_crc32c_mask(rp_crc32c(0, p, 8));
    for (int i = 0; i < 4; i++)
        p[8 + i] = (unsigned char)(c >> 8 * i);
    REFUSED(rp_tfrecord_head(&length, p, UINT64_MAX, &err) < 0, err.msg);
}

/* -1 when the set could not be opened or checked. */
static int check_bytes(const void *data, size_t size, struct rp_err *err)
{
    struct rp_data_check c;
    const char *path = put_file("flip.tfrecord", data, size);
    struct rp_dataset *d = open_bert(path, NULL, 0, 0, err);
    int rc = d ? check_data(d, &c, err) : -1;
    close_data(d);
    return rc;
}

TEST(every_changed_byte_and_every_truncation_is_noticed)
{
    RP_BUF f = {0};
    struct sample s;
    struct rp_err err;
    size_t first = 0;
    for (int i = 0; i < 2; i++) {
        good_sample(&s, i);
        add_sample(&f, &s);
        if (i == 0)
            first = f.size;
    }
    CHECK(check_bytes(f.data, f.size, &err) == 0, "%s", err.msg);
    int missed = 0, code = 0;
    for (size_t i = 0; i < f.size; i++) {
        const unsigned char flips[] = {1, 0x80, 0xff};
        for (int k = 0; k < 3; k++) {
            f.data[i] ^= (char)flips[k];
            missed += check_bytes(f.data, f.size, &err) == 0;
            code += err.code != RP_MALFORMED || !strstr(err.msg, i < first ? "record 0 (from 0)" : "record 1 (from 0)");
            f.data[i] ^= (char)flips[k];
        }
    }
    CHECK(missed == 0 && code == 0, "%d changes unnoticed, %d with another code or record", missed, code);
    for (size_t n = 0; n < f.size; n++)
        missed += n != first && check_bytes(f.data, n, &err) == 0; /* cut between records it is a shorter good file */
    CHECK(missed == 0, "%d truncations unnoticed", missed);
}
