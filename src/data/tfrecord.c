#include "data/tfrecord.h"

static uint32_t get32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

int rp_tfrecord_head(uint64_t *length, const unsigned char *head, uint64_t left, struct rp_err *err)
{
    if (left < RP_TFRECORD_HEAD)
        return rp_fail(err, RP_MALFORMED, "the file ends after %llu of the %d bytes of a record's head: it is truncated",
                       (unsigned long long)left, RP_TFRECORD_HEAD);
    uint64_t n = get32(head) | (uint64_t)get32(head + 4) << 32;
    uint32_t want = rp_crc32c_mask(rp_crc32c(0, head, 8)), have = get32(head + 8);
    if (want != have)
        return rp_fail(err, RP_MALFORMED, "checksum of the length is %08x, expected %08x: damaged, or not a TFRecord file", have,
                       want);
    if (n > RP_TFRECORD_MAX)
        return rp_fail(err, RP_MALFORMED, "length %llu is above the limit of %u bytes", (unsigned long long)n, RP_TFRECORD_MAX);
    if (n > left - RP_TFRECORD_HEAD || left - RP_TFRECORD_HEAD - n < 4)
        return rp_fail(err, RP_MALFORMED, "length %llu, but the file ends %llu bytes after the head: it is truncated",
                       (unsigned long long)n, (unsigned long long)(left - RP_TFRECORD_HEAD));
    *length = n;
    return 0;
}

int rp_tfrecord_body(const unsigned char *data, uint64_t length, struct rp_err *err)
{
    uint32_t want = rp_crc32c_mask(rp_crc32c(0, data, length)), have = get32(data + length);
    if (want != have)
        return rp_fail(err, RP_MALFORMED, "checksum of the data is %08x, expected %08x: the record is damaged", have, want);
    return 0;
}

void rp_tfrecord_append(struct rp_buf *out, const void *data, size_t size)
{
    unsigned char head[RP_TFRECORD_HEAD], tail[4];
    put32(head, (uint32_t)size);
    put32(head + 4, (uint32_t)((uint64_t)size >> 32));
    put32(head + 8, rp_crc32c_mask(rp_crc32c(0, head, 8)));
    put32(tail, rp_crc32c_mask(rp_crc32c(0, data, size)));
    rp_buf_add(out, head, sizeof head);
    rp_buf_add(out, data, size);
    rp_buf_add(out, tail, sizeof tail);
}
