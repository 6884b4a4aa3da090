#include "bundle/pack.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define BLOCK 512
#define CHUNK (1u << 17)
#define LEVEL 9
/* Frames whose content is more than 4 MiB and 100 times their size are bombs: a bundle's densest member, JSON lines, packs 10 to 20
 * times. */
#define RATIO 100
#define RATIO_SLACK (4u << 20)

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8], type, link[100], magic[6], version[2], owner[32],
        group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a ustar header is one block");

static void octal(char *field, size_t size, size_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%0*zo", (int)size - 1, value);
    memcpy(field, text, size);
}

static void header(struct ustar *h, const char *name, size_t size)
{
    unsigned sum = 0;
    memset(h, 0, sizeof *h);
    memcpy(h->name, name, strlen(name));
    octal(h->mode, sizeof h->mode, 0644);
    octal(h->uid, sizeof h->uid, 0);
    octal(h->gid, sizeof h->gid, 0);
    octal(h->size, sizeof h->size, size);
    octal(h->mtime, sizeof h->mtime, 0);
    memset(h->chksum, ' ', sizeof h->chksum);
    h->type = '0';
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)h)[i];
    octal(h->chksum, 7, sum); /* six digits, NUL, and the space that is there */
}

static size_t padding(size_t size)
{
    return (BLOCK - size % BLOCK) % BLOCK;
}

void rp_tar_add(struct rp_buf *tar, const char *name, const void *data, size_t size)
{
    static const char zeros[BLOCK];
    struct ustar h;
    RP_BUG_IF(strlen(name) > RP_TAR_NAME_MAX);
    header(&h, name, size);
    rp_buf_add(tar, &h, sizeof h);
    rp_buf_add(tar, data, size);
    rp_buf_add(tar, zeros, padding(size));
}

void rp_tar_end(struct rp_buf *tar)
{
    static const char zeros[2 * BLOCK];
    rp_buf_add(tar, zeros, sizeof zeros);
}

static int all_zero(const char *p, size_t n)
{
    while (n--)
        if (*p++)
            return 0;
    return 1;
}

/* What a type flag other than '0' says, for the message. */
static const char *type_name(char type)
{
    static const char *const names[] = {"a hard link",       "a symbolic link", "a character device",
                                        "a block device",    "a directory",     "a named pipe"};
    return type >= '1' && type <= '6' ? names[type - '1'] : "an extension record";
}

static int read_size(const char field[12], size_t *size)
{
    *size = 0;
    for (int i = 0; i < 11; i++) {
        if (field[i] < '0' || field[i] > '7')
            return -1;
        *size = *size * 8 + (size_t)(field[i] - '0');
    }
    return field[11] ? -1 : 0;
}

int rp_tar_next(const struct rp_buf *tar, size_t *at, char name[RP_TAR_NAME_MAX + 1], const char **data, size_t *size,
                struct rp_err *err)
{
    struct ustar h, expected;
    char safe[RP_TAR_NAME_MAX + 1];
    size_t left = tar->size - *at;
    if (left < BLOCK)
        return rp_fail(err, RP_MALFORMED, "tar ends at byte %zu without its two blocks of zeros", tar->size);
    memcpy(&h, tar->data + *at, BLOCK);
    if (all_zero((const char *)&h, BLOCK)) {
        if (left != 2 * BLOCK || !all_zero(tar->data + *at, left))
            return rp_fail(err, RP_MALFORMED, "tar does not end with exactly two blocks of zeros at byte %zu", *at);
        return 0;
    }
    if (h.name[RP_TAR_NAME_MAX])
        return rp_fail(err, RP_MALFORMED, "tar: the name at byte %zu is longer than %d bytes", *at, RP_TAR_NAME_MAX);
    memcpy(name, h.name, sizeof h.name);
    rp_safe(safe, sizeof safe, name);
    if (h.type != '0')
        return rp_fail(err, RP_MALFORMED, "tar: member '%s' is %s; expected a regular file", safe, type_name(h.type));
    if (read_size(h.size, size) < 0)
        return rp_fail(err, RP_MALFORMED, "tar: member '%s' has a size that is not 11 octal digits", safe);
    header(&expected, name, *size);
    if (memcmp(&h, &expected, BLOCK) != 0)
        return rp_fail(err, RP_MALFORMED, "tar: the header of member '%s' is not the canonical one (owner, mode, time, checksum or "
                                          "unused bytes)",
                       safe);
    if (*size > left - BLOCK || padding(*size) > left - BLOCK - *size)
        return rp_fail(err, RP_MALFORMED, "tar: member '%s' says %zu bytes and %zu are left", safe, *size, left - BLOCK);
    *data = tar->data + *at + BLOCK;
    if (!all_zero(*data + *size, padding(*size)))
        return rp_fail(err, RP_MALFORMED, "tar: the padding after member '%s' is not zero", safe);
    *at += BLOCK + *size + padding(*size);
    return 1;
}

int rp_zst_pack(struct rp_buf *out, const void *data, size_t size, struct rp_err *err)
{
    size_t bound = ZSTD_compressBound(size), n;
    RP_FREE char *bytes = rp_alloc(bound);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    if (!c)
        return rp_fail(err, RP_UNAVAILABLE, "zstd: out of memory");
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 1);
    n = ZSTD_compress2(c, bytes, bound, data, size);
    ZSTD_freeCCtx(c);
    if (ZSTD_isError(n))
        return rp_fail(err, RP_BUG, "zstd: %s", ZSTD_getErrorName(n));
    rp_buf_add(out, bytes, n);
    return 0;
}

/* The frame header: ours, and honest about a size within the limits. */
static int check_frame(const void *data, size_t size, size_t limit, unsigned long long *content, struct rp_err *err)
{
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    if (size < 6 || memcmp(data, magic, sizeof magic) != 0)
        return rp_fail(err, RP_MALFORMED, "not a zstd file");
    if ((((const unsigned char *)data)[4] & 0x1f) != 0x04)
        return rp_fail(err, RP_MALFORMED, "zstd: the frame needs a checksum, no dictionary, and zero reserved bits");
    *content = ZSTD_getFrameContentSize(data, size);
    if (*content == ZSTD_CONTENTSIZE_UNKNOWN || *content == ZSTD_CONTENTSIZE_ERROR)
        return rp_fail(err, RP_MALFORMED, "zstd: the frame does not say how large its content is");
    if (*content > limit || *content > RATIO_SLACK + RATIO * (unsigned long long)size)
        return rp_fail(err, RP_MALFORMED, "zstd: %llu bytes in a file of %zu; at most %zu bytes and %d times the file are accepted",
                       *content, size, limit, RATIO);
    return 0;
}

static int decompress(ZSTD_DCtx *d, struct rp_buf *out, const void *data, size_t size, unsigned long long content, struct rp_err *err)
{
    RP_FREE char *chunk = rp_alloc(CHUNK);
    ZSTD_inBuffer in = {data, size, 0};
    for (;;) {
        ZSTD_outBuffer o = {chunk, CHUNK, 0};
        size_t left = ZSTD_decompressStream(d, &o, &in);
        if (ZSTD_isError(left))
            return rp_fail(err, RP_MALFORMED, "zstd: damaged near byte %zu: %s", in.pos, ZSTD_getErrorName(left));
        rp_buf_add(out, chunk, o.pos);
        if (out->size > content)
            return rp_fail(err, RP_MALFORMED, "zstd: more content than the frame says");
        if (left == 0)
            break;
        if (in.pos == size && o.pos < CHUNK)
            return rp_fail(err, RP_MALFORMED, "the file ends early: %zu of %llu bytes of content are there", out->size, content);
    }
    if (in.pos != size)
        return rp_fail(err, RP_MALFORMED, "%zu bytes follow the end of the zstd frame", size - in.pos);
    if (out->size != content)
        return rp_fail(err, RP_MALFORMED, "zstd: less content than the frame says");
    return 0;
}

int rp_zst_unpack(struct rp_buf *out, const void *data, size_t size, size_t limit, struct rp_err *err)
{
    unsigned long long content = 0;
    if (check_frame(data, size, limit, &content, err) < 0)
        return -1;
    ZSTD_DCtx *d = ZSTD_createDCtx();
    if (!d)
        return rp_fail(err, RP_UNAVAILABLE, "zstd: out of memory");
    int failed = decompress(d, out, data, size, content, err) < 0;
    ZSTD_freeDCtx(d);
    return failed ? -1 : 0;
}
