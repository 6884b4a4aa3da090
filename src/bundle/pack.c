#include "bundle/pack.h"

#include "base/text.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* Block by block: the number and headers of blocks are checked, and ZSTD_decompressStream() would copy the content once
 * more. */
#define ZSTD_STATIC_LINKING_ONLY
#define ZSTD_DISABLE_DEPRECATE_WARNINGS
#include <zstd.h>
#include <zstd_errors.h>

#define BLOCK 512
#define BLOCK_HEADER 3 /* bytes before a block of a frame */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define INPUT_LEAST 8 /* so that small files are read in several pieces too */
#else
#define INPUT_LEAST (1u << 12) /* bytes that are read at once, unless a block is larger */
#endif
#define INPUT (ZSTD_BLOCKSIZE_MAX + BLOCK_HEADER)
#define WINDOW_LOG 23          /* the largest window of a frame; ours had 22 once */
#define OWN_WINDOW_LOG 18      /* fits into a processor's cache; 20 would make a bundle 1 % smaller */
#define LEVEL 9
/* Frames whose content is more than 4 MiB and 100 times their size are bombs: a bundle's densest member, JSON lines,
 * packs 10 to 20 times. */
#define RATIO 100
#define RATIO_SLACK (4u << 20)
/* Blocks of a few bytes, or of none, take as long as large ones: a frame may have this many, and one more for each
 * BLOCK_LEAST bytes. Our blocks have 128 KiB, those of other levels of zstd rarely less than 8. */
#define BLOCKS 4096
#define BLOCK_LEAST 4096

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8], type, link[100], magic[6], version[2],
        owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a ustar header is one block");

static void put_octal(char *field, size_t size, size_t value)
{
    char text[32];
    memcpy(field, RP_FORMAT(text, "%0*zo", (int)size - 1, value), size);
}

static void fill_header(struct ustar *h, const char *name, size_t size)
{
    unsigned sum = 0;
    memset(h, 0, sizeof *h);
    memcpy(h->name, name, strlen(name));
    put_octal(h->mode, sizeof h->mode, 0644);
    put_octal(h->uid, sizeof h->uid, 0);
    put_octal(h->gid, sizeof h->gid, 0);
    put_octal(h->size, sizeof h->size, size);
    put_octal(h->mtime, sizeof h->mtime, 0);
    memset(h->chksum, ' ', sizeof h->chksum);
    h->type = '0';
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)h)[i];
    put_octal(h->chksum, 7, sum); /* six digits, NUL, and the space that is there */
}

static size_t padding_of(size_t size)
{
    return (BLOCK - size % BLOCK) % BLOCK;
}

void rp_tar_add_header(struct rp_buf *tar, const char *name, size_t size)
{
    struct ustar h;
    RP_BUG_IF(strlen(name) > RP_TAR_NAME_MAX);
    fill_header(&h, name, size);
    rp_buf_add(tar, &h, sizeof h);
}

void rp_tar_add(struct rp_buf *tar, const char *name, const void *data, size_t size)
{
    static const char zeros[BLOCK];
    rp_tar_add_header(tar, name, size);
    rp_buf_add(tar, data, size);
    rp_buf_add(tar, zeros, padding_of(size));
}

void rp_tar_end(struct rp_buf *tar)
{
    static const char zeros[2 * BLOCK];
    rp_buf_add(tar, zeros, sizeof zeros);
}

static int is_all_zero(const char *p, size_t n)
{
    while (n--)
        if (*p++)
            return 0;
    return 1;
}

/* The meaning of a type flag other than '0', for the message. */
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

int rp_zst_pack(struct rp_buf *out, const void *data, size_t size, struct rp_err *err)
{
    size_t bound = ZSTD_compressBound(size), n;
    RP_FREE char *bytes = rp_alloc(bound);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    if (!c)
        return rp_fail(err, RP_UNAVAILABLE, "zstd: out of memory");
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, OWN_WINDOW_LOG);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 1);
    n = ZSTD_compress2(c, bytes, bound, data, size);
    ZSTD_freeCCtx(c);
    if (ZSTD_isError(n))
        return rp_fail(err, RP_BUG, "zstd: %s", ZSTD_getErrorName(n));
    rp_buf_add(out, bytes, n);
    return 0;
}

/* ---- reading ---- */

struct rp_unpack {
    int fd;
    uint64_t file_size, file_at;
    char *input;
    const char *in; /* in input: read, but not used yet */
    size_t in_size;
    ZSTD_DCtx *d;
    char *ring;   /* a window of the content, and room for a block */
    size_t ring_size, ring_at, block_max;
    uint64_t blocks;   /* so far */
    int ended;         /* the end of the frame was reached */
    const char *piece; /* in the ring: decompressed, but not used yet */
    size_t piece_size;
    uint64_t content, made; /* bytes of the tar; how many of them were decompressed */
    size_t left, padding;   /* of the current member */
    char safe[RP_TAR_NAME_MAX + 1]; /* its name, for messages */
};

void rp_unpack_free(struct rp_unpack *u)
{
    if (!u)
        return;
    ZSTD_freeDCtx(u->d);
    free(u->input);
    free(u->ring);
    free(u);
}

/* At least `need` bytes of the file in `in`, fewer only where it ends. What is read is the current block and the header
 * of the next one, so that only such a header is ever moved. */
static int read_input(struct rp_unpack *u, size_t need, struct rp_err *err)
{
    if (u->in_size >= need)
        return 0;
    size_t want = need + BLOCK_HEADER > INPUT_LEAST ? need + BLOCK_HEADER : INPUT_LEAST;
    memmove(u->input, u->in, u->in_size);
    want -= u->in_size;
    if (want > u->file_size - u->file_at)
        want = (size_t)(u->file_size - u->file_at);
    ssize_t got = rp_pread_all(u->fd, u->input + u->in_size, want, u->file_at);
    if (got < 0)
        return rp_fail(err, RP_IO, "cannot read the file: %s", strerror(errno));
    if ((size_t)got < want)
        return rp_fail(err, RP_IO, "the file changed while it was read");
    u->in = u->input;
    u->in_size += want;
    u->file_at += want;
    return 0;
}

/* Checks the frame header: ours, with a content size within the limits. */
static int check_frame(struct rp_unpack *u, size_t limit, struct rp_err *err)
{
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    ZSTD_frameHeader h;
    if (u->in_size < 6 || memcmp(u->in, magic, sizeof magic) != 0)
        return rp_fail(err, RP_MALFORMED, "not a zstd file, as bundles are (NAME.repro.tar.zst)");
    if ((u->in[4] & 0x1f) != 0x04)
        return rp_fail(err, RP_MALFORMED, "zstd: the frame needs a checksum, no dictionary, and zero reserved bits");
    if (ZSTD_getFrameHeader(&h, u->in, u->in_size) != 0 || h.frameContentSize == ZSTD_CONTENTSIZE_UNKNOWN)
        return rp_fail(err, RP_MALFORMED,
                       "zstd: the frame does not record the size of its content: it was packed by another program; "
                       "'repro verify DIR' takes the directory of an unpacked bundle");
    if (h.frameContentSize > limit || h.frameContentSize > RATIO_SLACK + RATIO * (unsigned long long)u->file_size)
        return rp_fail(err, RP_MALFORMED,
                       "zstd: %llu bytes in a file of %llu; at most %zu bytes and %d times the file are accepted",
                       h.frameContentSize, (unsigned long long)u->file_size, limit, RATIO);
    if (h.windowSize > (uint64_t)1 << WINDOW_LOG)
        return rp_fail(err, RP_MALFORMED, "zstd: the frame needs a window of %llu bytes; at most %llu are accepted",
                       h.windowSize, 1ull << WINDOW_LOG);
    u->content = h.frameContentSize;
    u->block_max = h.blockSizeMax;
    u->ring_size = ZSTD_decodingBufferSize_min(h.windowSize, h.frameContentSize);
    u->ring = rp_alloc(u->ring_size + 1);
    return 0;
}

struct rp_unpack *rp_unpack_file(int fd, size_t limit, struct rp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return rp_fail_null(err, RP_IO, "cannot look at the file: %s", strerror(errno));
    struct rp_unpack *u = rp_alloc(sizeof *u);
    *u = (struct rp_unpack){
        .fd = fd, .file_size = (uint64_t)st.st_size, .input = rp_alloc(INPUT), .d = ZSTD_createDCtx()};
    u->in = u->input;
    if (!u->d || ZSTD_isError(ZSTD_decompressBegin(u->d)))
        rp_fail(err, RP_UNAVAILABLE, "zstd: out of memory");
    else if (read_input(u, ZSTD_FRAMEHEADERSIZE_MAX, err) == 0 && check_frame(u, limit, err) == 0)
        return u;
    rp_unpack_free(u);
    return NULL;
}

static int fail_damaged(const struct rp_unpack *u, size_t code, struct rp_err *err)
{
    /* the ring has room for all the content, or for a window */
    if (ZSTD_getErrorCode(code) == ZSTD_error_dstSize_tooSmall)
        return rp_fail(err, RP_MALFORMED, "zstd: more content than the frame records");
    return rp_fail(err, RP_MALFORMED, "zstd: damaged after %llu bytes of content: %s", (unsigned long long)u->made,
                   ZSTD_getErrorName(code));
}

/* The three bytes before a block: from the lowest bit on whether it is the last, its type in two bits, its size. */
static int check_block_header(struct rp_unpack *u, struct rp_err *err)
{
    const unsigned char *b = (const unsigned char *)u->in;
    unsigned word = b[0] | (unsigned)b[1] << 8 | (unsigned)b[2] << 16, type = word >> 1 & 3;
    if (++u->blocks > BLOCKS + u->content / BLOCK_LEAST)
        return rp_fail(err, RP_MALFORMED, "zstd: more than %llu blocks for %llu bytes of content",
                       (unsigned long long)u->blocks - 1, (unsigned long long)u->content);
    if (type == 2 && word >> 3 == 0) /* libzstd skips it, but the format has no such block (RFC 8878, 3.1.1.2.4) */
        return rp_fail(err, RP_MALFORMED, "zstd: damaged after %llu bytes of content: a compressed block without bytes",
                       (unsigned long long)u->made);
    return 0;
}

/* One step: a header, a block or the checksum. *n: bytes of content in the ring. */
static int decompress_some(struct rp_unpack *u, size_t need, size_t *n, struct rp_err *err)
{
    if (read_input(u, need, err) < 0)
        return -1;
    if (u->in_size < need)
        return rp_fail(err, RP_MALFORMED, "the file ends early: %llu of %llu bytes of content are there",
                       (unsigned long long)u->made, (unsigned long long)u->content);
    if (ZSTD_nextInputType(u->d) == ZSTDnit_blockHeader && check_block_header(u, err) < 0)
        return -1;
    *n = ZSTD_decompressContinue(u->d, u->ring + u->ring_at, u->ring_size - u->ring_at, u->in, need);
    if (ZSTD_isError(*n))
        return fail_damaged(u, *n, err);
    u->in += need;
    u->in_size -= need;
    return 0;
}

/* Decompresses the next block into `piece`, which is empty at the end of the frame. */
static int next_block(struct rp_unpack *u, struct rp_err *err)
{
    size_t n = 0;
    while (n == 0 && !u->ended) {
        if (u->ring_size < u->content && u->ring_size - u->ring_at < u->block_max)
            u->ring_at = 0;
        if (decompress_some(u, ZSTD_nextSrcSizeToDecompress(u->d), &n, err) < 0)
            return -1;
        u->ended = ZSTD_nextSrcSizeToDecompress(u->d) == 0;
    }
    u->piece = u->ring + u->ring_at;
    u->piece_size = n;
    u->ring_at += n;
    u->made += n;
    if (u->made > u->content)
        return rp_fail(err, RP_MALFORMED, "zstd: more content than the frame records");
    if (u->ended && u->made != u->content)
        return rp_fail(err, RP_MALFORMED, "zstd: less content than the frame records");
    return 0;
}

/* At most `most` bytes from the front, valid until the next call; 0 bytes only at the end. */
static int read_some(struct rp_unpack *u, size_t most, const char **data, size_t *size, struct rp_err *err)
{
    if (u->piece_size == 0 && next_block(u, err) < 0)
        return -1;
    *data = u->piece;
    *size = u->piece_size < most ? u->piece_size : most;
    u->piece += *size;
    u->piece_size -= *size;
    return 0;
}

static int read_exactly(struct rp_unpack *u, void *to, size_t size, struct rp_err *err)
{
    const char *data;
    size_t n;
    for (char *p = to; size; p += n, size -= n) {
        if (read_some(u, size, &data, &n, err) < 0)
            return -1;
        RP_BUG_IF(n == 0); /* the caller has checked how much is left */
        memcpy(p, data, n);
    }
    return 0;
}

static uint64_t bytes_left(const struct rp_unpack *u)
{
    return u->content - u->made + u->piece_size;
}

int rp_tar_piece(struct rp_unpack *u, const char **data, size_t *size, struct rp_err *err)
{
    char zeros[BLOCK];
    if (u->left == 0) {
        size_t n = u->padding;
        u->padding = 0;
        if (read_exactly(u, zeros, n, err) < 0)
            return -1;
        return is_all_zero(zeros, n)
                   ? 0
                   : rp_fail(err, RP_MALFORMED, "tar: the padding after member '%s' is not zero", u->safe);
    }
    if (read_some(u, u->left, data, size, err) < 0)
        return -1;
    RP_BUG_IF(*size == 0);
    u->left -= *size;
    return 1;
}

/* Checks that the frame ends with its checksum, and the file with the frame. */
static int check_end(struct rp_unpack *u, struct rp_err *err)
{
    if (next_block(u, err) < 0) /* reads the checksum; more content would be an error */
        return -1;
    uint64_t after = u->file_size - u->file_at + u->in_size;
    if (!after)
        return 0;
    return rp_fail(err, RP_MALFORMED, "the file goes on after the zstd frame: %llu byte%s", (unsigned long long)after,
                   rp_s((int64_t)after));
}

static int check_last_blocks(struct rp_unpack *u, uint64_t at, struct rp_err *err)
{
    char second[BLOCK] = {1};
    if (bytes_left(u) == BLOCK && read_exactly(u, second, BLOCK, err) < 0)
        return -1;
    if (!is_all_zero(second, BLOCK))
        return rp_fail(err, RP_MALFORMED, "tar does not end with exactly two blocks of zeros at byte %llu",
                       (unsigned long long)at);
    return check_end(u, err);
}

int rp_tar_next(struct rp_unpack *u, char name[RP_TAR_NAME_MAX + 1], size_t *size, struct rp_err *err)
{
    struct ustar h, expected;
    const char *data;
    size_t n;
    int more;
    while ((more = rp_tar_piece(u, &data, &n, err)) > 0) {
    }
    if (more < 0)
        return -1;
    uint64_t at = u->content - bytes_left(u);
    if (bytes_left(u) < BLOCK)
        return rp_fail(err, RP_MALFORMED, "tar ends at byte %llu without its two blocks of zeros",
                       (unsigned long long)u->content);
    if (read_exactly(u, &h, BLOCK, err) < 0)
        return -1;
    if (is_all_zero((const char *)&h, BLOCK))
        return check_last_blocks(u, at, err);
    if (h.name[RP_TAR_NAME_MAX])
        return rp_fail(err, RP_MALFORMED, "tar: the name at byte %llu is longer than %d bytes", (unsigned long long)at,
                       RP_TAR_NAME_MAX);
    memcpy(name, h.name, sizeof h.name);
    rp_ascii(u->safe, sizeof u->safe, name);
    if (h.type != '0')
        return rp_fail(err, RP_MALFORMED, "tar: member '%s' is %s; expected a regular file", u->safe,
                       type_name(h.type));
    if (read_size(h.size, size) < 0)
        return rp_fail(err, RP_MALFORMED, "tar: member '%s' has a size that is not 11 octal digits", u->safe);
    fill_header(&expected, name, *size);
    if (memcmp(&h, &expected, BLOCK) != 0)
        return rp_fail(err, RP_MALFORMED,
                       "tar: the header of member '%s' is not the canonical one (owner, mode, time, checksum or "
                       "unused bytes)",
                       u->safe);
    if (*size > bytes_left(u) || padding_of(*size) > bytes_left(u) - *size)
        return rp_fail(err, RP_MALFORMED, "tar: member '%s' has a size of %zu bytes, but %llu are left", u->safe, *size,
                       (unsigned long long)bytes_left(u));
    u->left = *size;
    u->padding = padding_of(*size);
    return 1;
}
