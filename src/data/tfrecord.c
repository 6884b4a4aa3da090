#include "data/tfrecord.h"

#include "data/dataset.h"
#include "data/unpacker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined __aarch64__
#include <sys/auxv.h>
#endif

/* ---- CRC-32C: by an instruction, SSE4.2 or of aarch64, or by a table where the CPU lacks it ----
 *
 * Reflected: bit 31 of the register is the coefficient of x^0. table[b] is the register after byte b. */

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 reflected */

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        table[b] = b;
        for (int i = 0; i < 8; i++)
            table[b] = table[b] >> 1 ^ (table[b] & 1 ? POLYNOMIAL : 0);
    }
}

uint32_t rp_crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *p = data;
    pthread_once(&table_once, make_table);
    for (crc = ~crc; size; size--, p++)
        crc = crc >> 8 ^ table[(crc ^ *p) & 255];
    return ~crc;
}

#if defined __x86_64__
#define CRC_TARGET "sse4.2"
#define CRC_8(crc, word) __builtin_ia32_crc32di(crc, word)
#define CRC_1(crc, byte) __builtin_ia32_crc32qi((uint32_t)(crc), byte)
static int has_crc(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#else
#define CRC_TARGET "+crc"
#define CRC_8(crc, word) __builtin_aarch64_crc32cx((uint32_t)(crc), word)
#define CRC_1(crc, byte) __builtin_aarch64_crc32cb((uint32_t)(crc), byte)
static int has_crc(void)
{
    return (getauxval(AT_HWCAP) & 1u << 7) != 0; /* HWCAP_CRC32 */
}
#endif

__attribute__((target(CRC_TARGET)))
static uint32_t crc32c_instruction(uint32_t crc, const unsigned char *p, size_t size)
{
    uint64_t c = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        c = CRC_8(c, word);
    }
    for (; size; size--, p++)
        c = CRC_1(c, *p);
    return ~(uint32_t)c;
}

uint32_t rp_crc32c(uint32_t crc, const void *data, size_t size)
{
    return has_crc() ? crc32c_instruction(crc, data, size) : rp_crc32c_portable(crc, data, size);
}

uint32_t rp_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- frames ---- */

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
        return rp_fail(err, RP_MALFORMED,
                       "the file ends after %llu of the %d bytes of a record's head: it is truncated",
                       (unsigned long long)left, RP_TFRECORD_HEAD);
    uint64_t n = get32(head) | (uint64_t)get32(head + 4) << 32;
    uint32_t want = rp_crc32c_mask(rp_crc32c(0, head, 8)), have = get32(head + 8);
    if (want != have)
        return rp_fail(err, RP_MALFORMED,
                       "checksum of the length is %08x, expected %08x: damaged, or not a TFRecord file", have, want);
    if (n > RP_TFRECORD_MAX)
        return rp_fail(err, RP_MALFORMED, "length %llu is above the limit of %u bytes", (unsigned long long)n,
                       RP_TFRECORD_MAX);
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
        return rp_fail(err, RP_MALFORMED, "checksum of the data is %08x, expected %08x: the record is damaged", have,
                       want);
    return 0;
}

const struct rp_framing rp_framing_tfrecord = {RP_TFRECORD_HEAD, RP_TFRECORD_FRAME - RP_TFRECORD_HEAD, rp_tfrecord_head,
                                               rp_tfrecord_body};

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

/* ---- records of a set of files ---- */

static void add_offset(struct rp_tfrecord_set *s, uint64_t offset)
{
    if ((s->count & (s->count - 1)) == 0)
        s->offset = rp_realloc(s->offset, (s->count ? 2 * (size_t)s->count : 1) * sizeof *s->offset);
    s->offset[s->count++] = offset;
}

static int bad_record(const struct rp_tfrecord_set *s, int file, int64_t in_file, struct rp_err *err)
{
    return rp_wrap(err, "'%s', record %lld (from 0)", s->files.file[file].name, (long long)in_file);
}

/* ---- compressed files ---- */

#define PACKED_RECORDS_FREE (1 << 20) /* records that a compressed file may have, besides one a byte */

struct packed_frames { /* what has been seen of the frames of a compressed file */
    struct rp_tfrecord_set *s;
    int file;
    uint64_t at, start;     /* unpacked bytes so far; where the last frame begins */
    unsigned char head[16];
    size_t have;            /* bytes of the head */
    uint64_t body, left;    /* bytes of the frame after its head; of those, which have not come */
};

static int add_frame(struct packed_frames *p, struct rp_err *err)
{
    struct rp_tfrecord_set *s = p->s;
    const int64_t n = s->count - s->first[p->file];
    uint64_t length;
    if (s->framing->length(&length, p->head, UINT64_MAX, err) < 0)
        return bad_record(s, p->file, n, err);
    if (n > PACKED_RECORDS_FREE && (uint64_t)n > s->files.file[p->file].size)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' is compressed and has more records than bytes: it would fill the memory with their places; "
            "unpack it if that is right",
            s->files.file[p->file].name);
    add_offset(s, p->start);
    p->have = 0;
    p->body = p->left = length + s->framing->tail;
    return 0;
}

static int see_unpacked(void *arg, const unsigned char *data, size_t size, struct rp_err *err)
{
    struct packed_frames *p = arg;
    for (size_t k; size; data += k, size -= k, p->at += k) {
        if (p->left) {
            k = size < p->left ? size : (size_t)p->left;
            p->left -= k;
            continue;
        }
        if (!p->have)
            p->start = p->at;
        k = p->s->framing->head - p->have;
        k = size < k ? size : k;
        memcpy(p->head + p->have, data, k);
        p->have += k;
        if (p->have == p->s->framing->head && add_frame(p, err) < 0)
            return -1;
    }
    return 0;
}

/* Frames of a compressed file, in one pass. */
static int index_packed(struct rp_tfrecord_set *s, int file, enum rp_packing packing, struct rp_err *err)
{
    struct packed_frames p = {.s = s, .file = file};
    uint64_t size, length;
    if (!s->unpacker) {
        s->unpacker = rp_unpacker_new(&s->files, 0);
        s->unpacked = rp_alloc((size_t)s->files.n * sizeof *s->unpacked);
    }
    if (rp_unpacker_scan(s->unpacker, file, packing, see_unpacked, &p, &size, err) < 0)
        return -1;
    s->unpacked[file] = size + 1;
    s->first[file + 1] = s->count;
    const uint64_t left = p.left ? s->framing->head + p.body - p.left : p.have;
    if ((p.left || p.have) && s->framing->length(&length, p.head, left, err) < 0)
        return bad_record(s, file, s->count - s->first[file] - (p.left > 0), err);
    return 0;
}

static uint64_t unpacked_size(const struct rp_tfrecord_set *s, int file)
{
    return s->unpacked && s->unpacked[file] ? s->unpacked[file] - 1 : s->files.file[file].size;
}

static int read_unpacked(struct rp_tfrecord_set *s, int file, uint64_t offset, void *out, size_t size,
                         struct rp_err *err)
{
    return s->unpacked && s->unpacked[file] ? rp_unpacker_read(s->unpacker, file, offset, out, size, err)
                                            : rp_files_read(&s->files, file, offset, out, size, err);
}

/* ---- the index ---- */

/* Heads of all frames of one file. Those of small records are read through a window, since one system call each would
 * dominate the time; after a large record only the next head is read. */
static int index_file(struct rp_tfrecord_set *s, int file, struct rp_err *err)
{
    enum { window = 1 << 18, large = 1 << 14 };
    RP_FREE unsigned char *bytes = rp_alloc(window);
    const struct rp_framing *f = s->framing;
    uint64_t size = s->files.file[file].size, start = 0, end = 0, length = 0;
    s->first[file] = s->count;
    if (rp_files_check_kind(&s->files, file, err) < 0)
        return -1;
    for (uint64_t at = 0; at < size; at += f->head + length + f->tail) {
        uint64_t left = size - at, want = left < f->head ? left : f->head;
        if (at < start || at + want > end) {
            start = at;
            uint64_t take = length > large ? want : window;
            end = left < take ? size : at + take;
            if (rp_files_read(&s->files, file, start, bytes, (size_t)(end - start), err) < 0)
                return -1;
        }
        if (f->length(&length, bytes + (at - start), left, err) < 0) {
            const enum rp_packing packing = at ? RP_PACKING_NONE : rp_packing_of(bytes, (size_t)want);
            return packing ? index_packed(s, file, packing, err) : bad_record(s, file, s->count - s->first[file], err);
        }
        add_offset(s, at);
    }
    s->first[file + 1] = s->count;
    return 0;
}

static int build_index(struct rp_tfrecord_set *s, const char *path, struct rp_err *err)
{
    s->first = rp_alloc(((size_t)s->files.n + 1) * sizeof *s->first);
    for (int i = 0; i < s->files.n; i++)
        if (index_file(s, i, err) < 0)
            return -1;
    return s->count ? 0 : rp_fail(err, RP_MALFORMED, "'%s' has no records", path);
}

int rp_tfrecord_set_init(struct rp_tfrecord_set *s, const struct rp_data_format *format,
                         const struct rp_framing *framing, const char *path, struct rp_err *err)
{
    *s = (struct rp_tfrecord_set){.framing = framing, .files.last = -1};
    if (rp_data_list(format, &s->files, path, err) < 0)
        return -1;
    if (build_index(s, path, err) < 0) {
        rp_tfrecord_set_fini(s);
        return -1;
    }
    return 0;
}

void rp_tfrecord_set_fini(struct rp_tfrecord_set *s)
{
    rp_unpacker_free(s->unpacker);
    rp_files_close(&s->files);
    free(s->unpacked);
    free(s->offset);
    free(s->first);
    free(s->bytes);
    *s = (struct rp_tfrecord_set){.files.last = -1};
}

static int file_of(const struct rp_tfrecord_set *s, int64_t record)
{
    /* the last file whose first record is at or before it; empty files share a start */
    int lo = 0, hi = s->files.n - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (s->first[mid] <= record)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

int rp_tfrecord_set_bad(const struct rp_tfrecord_set *s, int64_t record, struct rp_err *err)
{
    int file = file_of(s, record);
    return bad_record(s, file, record - s->first[file], err);
}

/* The frame of a record into s->bytes. */
static int read_frame(struct rp_tfrecord_set *s, int64_t record, uint64_t *length, struct rp_err *err)
{
    const struct rp_framing *f = s->framing;
    unsigned char head[16];
    int file = file_of(s, record);
    uint64_t offset = s->offset[record], left = unpacked_size(s, file) - offset;
    if (read_unpacked(s, file, offset, head, f->head, err) < 0 || f->length(length, head, left, err) < 0)
        return -1;
    if (*length + f->tail >= s->bytes_cap) { /* one more, so that there is a pointer to no bytes */
        s->bytes_cap = (size_t)*length + f->tail + 1;
        s->bytes = rp_realloc(s->bytes, s->bytes_cap);
    }
    if (read_unpacked(s, file, offset + f->head, s->bytes, (size_t)*length + f->tail, err) < 0)
        return -1;
    return f->body ? f->body(s->bytes, *length, err) : 0;
}

int rp_tfrecord_set_record(struct rp_tfrecord_set *s, int64_t record, const unsigned char **data, size_t *size,
                           struct rp_err *err)
{
    uint64_t length = 0;
    RP_BUG_IF(record < 0 || record >= s->count);
    if (read_frame(s, record, &length, err) < 0)
        return -1;
    *data = s->bytes;
    *size = (size_t)length;
    return 0;
}
