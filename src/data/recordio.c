/* MXNet's RecordIO of images: NAME.rec, with or without the NAME.idx that im2rec writes next to it.
 *
 * .rec: parts one after the other, little endian, each padded with zeros to 4 bytes:
 *     u32 0xced7230a | u32 kind << 29 | length | length bytes | padding
 * kind 0: a whole record; 1, 2, 3: first, middle and last part of a record that was cut at every 4 aligned bytes equal
 * to the magic number, which are left out and belong between the parts. A record:
 *     u32 flag | f32 label | u64 id | u64 id2 | flag x f32: labels, if flag > 0 | the JPEG file
 * The first label counts, a whole number from 0. .idx: a line "KEY<tab>OFFSET" for each record, in any order.
 *
 * The format has no checksum. open() reads the head of every record, and the offsets of an .idx must be those of the
 * records. Samples are numbered by their places in the .rec. */
#include "base/buf.h"
#include "base/text.h"
#include "data/image/image_set.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0xced7230au
#define PART_HEAD 8
#define RECORD_HEAD 24
#define IDX_MAX (1ull << 30)

struct recordio {
    struct rp_image_set set;
    struct rp_files files; /* NAME.rec, each after its NAME.idx, if it has one */
    uint64_t *offset;      /* [count] of every record's first part */
    int32_t *file;         /* [count] index of its .rec */
    int64_t count, cap;
};

static uint32_t get_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- parts ---- */

/* left: bytes from the head to the end of the file. */
static int parse_part_header(const uint8_t *head, uint64_t left, unsigned *kind, uint64_t *length, struct rp_err *err)
{
    if (left < PART_HEAD)
        return rp_fail(err, RP_MALFORMED,
                       "the file ends after %llu of the %d bytes of a record's head: it is truncated",
                       (unsigned long long)left, PART_HEAD);
    if (get_u32(head) != MAGIC)
        return rp_fail(err, RP_MALFORMED, "begins with %08x, expected RecordIO's %08x: damaged, or not a RecordIO file",
                       get_u32(head), MAGIC);
    *kind = get_u32(head + 4) >> 29;
    *length = get_u32(head + 4) & 0x1fffffff;
    if (*kind > 3)
        return rp_fail(err, RP_MALFORMED, "a part of kind %u, expected 0..3", *kind);
    if (*length > RP_IMAGE_BYTES_MAX)
        return rp_fail(err, RP_MALFORMED, "length %llu is above the limit of %u bytes", (unsigned long long)*length,
                       RP_IMAGE_BYTES_MAX);
    if (((*length + 3) & ~3ull) > left - PART_HEAD)
        return rp_fail(err, RP_MALFORMED, "length %llu, but the file ends %llu bytes after the head: it is truncated",
                       (unsigned long long)*length, (unsigned long long)(left - PART_HEAD));
    return 0;
}

static void add_record(struct recordio *x, int file, uint64_t offset)
{
    if (x->count == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 1024;
        x->offset = rp_realloc(x->offset, (size_t)x->cap * sizeof *x->offset);
        x->file = rp_realloc(x->file, (size_t)x->cap * sizeof *x->file);
    }
    x->offset[x->count] = offset;
    x->file[x->count++] = file;
}

static int at_byte(const struct recordio *x, int file, uint64_t at, struct rp_err *err)
{
    return rp_wrap(err, "'%s', byte %llu", x->files.file[file].name, (unsigned long long)at);
}

/* Heads of small parts are read through a window, since one system call each would take longer than the reading. */
static int index_parts(struct recordio *x, int file, struct rp_err *err)
{
    enum { window = 1 << 16, large = 1 << 14 };
    RP_FREE uint8_t *bytes = rp_alloc(window);
    uint64_t size = x->files.file[file].size, start = 0, end = 0, length = 0;
    unsigned kind = 0, before = 0;
    for (uint64_t at = 0; at < size; at += PART_HEAD + ((length + 3) & ~3ull)) {
        uint64_t left = size - at, want = left < PART_HEAD ? left : PART_HEAD;
        if (at < start || at + want > end) {
            start = at;
            uint64_t take = length > large ? want : window;
            end = left < take ? size : at + take;
            if (rp_files_read(&x->files, file, start, bytes, (size_t)(end - start), err) < 0)
                return -1;
        }
        int failed = parse_part_header(bytes + (at - start), left, &kind, &length, err) < 0;
        int inside = before == 1 || before == 2;
        if (!failed && inside != (kind == 2 || kind == 3))
            failed = rp_fail(err, RP_MALFORMED, "a part of kind %u after one of kind %u: a record is incomplete", kind,
                             before) < 0;
        if (failed)
            return at_byte(x, file, at, err);
        if (!inside)
            add_record(x, file, at);
        before = kind;
    }
    if (before == 1 || before == 2)
        return rp_fail(err, RP_MALFORMED, "'%s' ends inside a record: it is truncated", x->files.file[file].name);
    return 0;
}

/* ---- the index ---- */

static int by_offset(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Offsets of the lines of an index, ascending; NULL and *err set. */
static uint64_t *read_index(struct recordio *x, int file, int64_t *n, struct rp_err *err)
{
    const char *name = x->files.file[file].name;
    uint64_t size = x->files.file[file].size;
    *n = 0;
    if (size > IDX_MAX)
        return rp_fail_null(err, RP_MALFORMED, "'%s' has more than %llu bytes", name, IDX_MAX);
    RP_FREE char *text = rp_alloc((size_t)size + 1);
    if (rp_files_read(&x->files, file, 0, text, (size_t)size, err) < 0)
        return NULL;
    uint64_t *offset = rp_alloc((size_t)(size / 4 + 1) * sizeof *offset); /* the shortest line has 4 bytes: "0\t0\n" */
    for (char *p = text, *end; *p; p = end + 1) {
        end = strchrnul(p, '\n');
        char *tab = memchr(p, '\t', (size_t)(end - p)), *digits = tab ? tab + 1 : p, *rest = digits;
        while (rest < end && *rest >= '0' && *rest <= '9')
            rest++;
        int cr = rest < end && *rest == '\r';
        if (!tab || tab == p || rest == digits || rest - digits > 18 || rest + cr != end) {
            free(offset);
            return rp_fail_null(err, RP_MALFORMED, "'%s', line %lld: expected a key, a tab and an offset", name,
                                (long long)*n + 1);
        }
        offset[(*n)++] = strtoull(digits, NULL, 10);
        if (!*end)
            break;
    }
    qsort(offset, (size_t)*n, sizeof *offset, by_offset);
    return offset;
}

/* The records from `first` on are those of the .rec next to this .idx. */
static int compare_index(struct recordio *x, int idx, int64_t first, struct rp_err *err)
{
    int64_t n, records = x->count - first;
    RP_FREE uint64_t *offset = read_index(x, idx, &n, err);
    if (!offset)
        return -1;
    const char *name = x->files.file[idx].name, *rec = x->files.file[idx + 1].name;
    if (n != records)
        return rp_fail(err, RP_MALFORMED, "'%s' has %lld lines, '%s' %lld records: it was made for another file", name,
                       (long long)n, rec, (long long)records);
    for (int64_t i = 0; i < n; i++)
        if (offset[i] != x->offset[first + i])
            return rp_fail(err, RP_MALFORMED,
                           "'%s' has a record at byte %llu, where '%s' has none: it was made for another file", name,
                           (unsigned long long)offset[i], rec);
    return 0;
}

/* Whether files i and i + 1 are NAME.idx and NAME.rec. */
static int is_pair(const struct rp_files *f, int i)
{
    const char *a = f->file[i].name, *b = i + 1 < f->n ? f->file[i + 1].name : "";
    const size_t n = strlen(a);
    return rp_ends_with(a, ".idx") && rp_ends_with(b, ".rec") && strlen(b) == n && memcmp(a, b, n - 4) == 0;
}

/* One name stands for both files, of which only the .rec has to be there. */
static int add_named(struct rp_files *f, const char *path, struct rp_err *err)
{
    const int stem = (int)strlen(path) - 4;
    RP_FREE char *idx = rp_asprintf("%.*s.idx", stem, path), *rec = rp_asprintf("%.*s.rec", stem, path);
    char *both[] = {rec, idx};
    *f = (struct rp_files){.last = -1};
    if (rp_files_add(f, both, access(idx, F_OK) == 0 ? 2 : 1, err) == 0)
        return 0;
    rp_files_close(f);
    return -1;
}

static int list_records(struct rp_files *f, const char *path, struct rp_err *err)
{
    const int is_named = (rp_ends_with(path, ".rec") || rp_ends_with(path, ".idx")) && !strpbrk(path, "*?[");
    if ((is_named ? add_named(f, path, err) : rp_files_open(f, path, rp_data_format_recordio.in_name, err)) < 0)
        return -1;
    for (int i = 0; i < f->n; i += 1 + is_pair(f, i)) {
        const char *name = f->file[i].name;
        if (rp_ends_with(name, ".rec") || is_pair(f, i))
            continue;
        rp_fail(err, RP_IO, "'%s' is neither a .rec file nor the .idx of a .rec file in this folder", name);
        rp_files_close(f);
        return -1;
    }
    return 0;
}

static int open_records(struct recordio *x, const char *path, struct rp_err *err)
{
    if (list_records(&x->files, path, err) < 0)
        return -1;
    for (int i = 0, paired; i < x->files.n; i += 1 + paired) {
        const int64_t first = x->count;
        paired = is_pair(&x->files, i);
        if (rp_files_check_kind(&x->files, i, err) < 0 || rp_files_check_kind(&x->files, i + paired, err) < 0 ||
            index_parts(x, i + paired, err) < 0 || (paired && compare_index(x, i, first, err) < 0))
            return -1;
    }
    return x->count ? 0 : rp_fail(err, RP_MALFORMED, "'%s' has no records", path);
}

/* ---- records ---- */

/* All parts of a record into the room, with the magic number between them. */
static int read_parts(struct recordio *x, int64_t record, struct rp_image_room *room, size_t *size, struct rp_err *err)
{
    int file = x->file[record];
    uint64_t at = x->offset[record], end = x->files.file[file].size, length;
    RP_FREE uint8_t *more = NULL;
    size_t cap = 0;
    uint8_t head[PART_HEAD];
    unsigned kind = 0;
    for (*size = 0;; at += PART_HEAD + ((length + 3) & ~3ull)) {
        if (at + PART_HEAD > end)
            return rp_fail(err, RP_MALFORMED, "the file ends inside a record");
        if (rp_files_read(&x->files, file, at, head, PART_HEAD, err) < 0 ||
            parse_part_header(head, end - at, &kind, &length, err) < 0)
            return -1;
        if (*size + length + 4 > RP_IMAGE_BYTES_MAX)
            return rp_fail(err, RP_MALFORMED, "the record has more than %u bytes", RP_IMAGE_BYTES_MAX);
        if (*size + length + 4 > cap) {
            cap = 2 * cap > *size + (size_t)length + 4 ? 2 * cap : *size + (size_t)length + 4;
            more = rp_realloc(more, cap);
        }
        if (rp_files_read(&x->files, file, at + PART_HEAD, more + *size, (size_t)length, err) < 0)
            return -1;
        *size += (size_t)length;
        if (kind == 0 || kind == 3)
            break;
        for (int i = 0; i < 4; i++)
            more[(*size)++] = (uint8_t)(MAGIC >> 8 * i);
    }
    memcpy(rp_image_room(room, *size + 1), more, *size);
    return 0;
}

static int whole_label(const uint8_t *p, int64_t *label, struct rp_err *err)
{
    uint32_t bits = get_u32(p);
    float x;
    memcpy(&x, &bits, sizeof x);
    if (!(x >= -1e9f && x <= 1e9f) || x != (float)(int32_t)x)
        return rp_fail(err, RP_MALFORMED, "label %g is not a whole number", (double)x);
    *label = (int64_t)x;
    return 0;
}

static int read_image(struct rp_image_set *s, int64_t record, struct rp_image_room *room, struct rp_image_record *out,
                      struct rp_err *err)
{
    struct recordio *x = (struct recordio *)s;
    size_t size;
    if (read_parts(x, record, room, &size, err) < 0)
        return -1;
    if (size < RECORD_HEAD)
        return rp_fail(err, RP_MALFORMED, "%zu bytes, fewer than the %d of an image record's head", size, RECORD_HEAD);
    uint64_t labels = get_u32(room->p), id = get_u32(room->p + 8) | (uint64_t)get_u32(room->p + 12) << 32;
    if (labels > (size - RECORD_HEAD) / 4)
        return rp_fail(err, RP_MALFORMED, "%llu labels in a record of %zu bytes", (unsigned long long)labels, size);
    if (whole_label(room->p + (labels ? RECORD_HEAD : 4), &out->label, err) < 0)
        return -1;
    out->bytes = room->p + RECORD_HEAD + 4 * labels;
    out->size = size - RECORD_HEAD - 4 * (size_t)labels;
    snprintf(out->name, sizeof out->name, "id %llu", (unsigned long long)id);
    return 0;
}

static int place_image(const struct rp_image_set *s, int64_t record, struct rp_err *err)
{
    const struct recordio *x = (const struct recordio *)s;
    int64_t first = record;
    while (first > 0 && x->file[first - 1] == x->file[record])
        first--;
    return rp_wrap(err, "'%s', record %lld (from 0) at byte %llu", x->files.file[x->file[record]].name,
                   (long long)(record - first), (unsigned long long)x->offset[record]);
}

static const struct rp_image_reader reader = {.label_base = 0, .read = read_image, .place = place_image};

/* ---- the format ---- */

static void recordio_close(struct rp_dataset *d)
{
    struct recordio *x = (struct recordio *)d;
    if (!x)
        return;
    rp_image_set_fini(&x->set);
    rp_files_close(&x->files);
    free(x->offset);
    free(x->file);
    free(x);
}

static struct rp_dataset *recordio_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    struct recordio *x = rp_alloc(sizeof *x);
    x->files.last = -1;
    x->set.files = &x->files;
    if (rp_image_set_init(&x->set, &rp_data_format_recordio, &reader, field, n, o, err) < 0 ||
        open_records(x, path, err) < 0) {
        recordio_close(&x->set.base);
        return NULL;
    }
    x->set.count = x->count;
    return &x->set.base;
}

static int recordio_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                          struct rp_err *err)
{
    struct rp_files files;
    *n = 0;
    if (list_records(&files, path, err) < 0)
        return -1;
    rp_files_close(&files);
    rp_image_fields(o, 1000, field, n);
    return 0;
}

const struct rp_data_format rp_data_format_recordio = {
    .name = "recordio",
    .summary = "images: MXNet's RecordIO, .rec with or without .idx",
    .in_name = ".rec|.idx",
    .endings = {".rec", ".idx"},
    .list = list_records,
    .probe = recordio_probe,
    .open = recordio_open,
    .close = recordio_close,
    .count = rp_image_count,
    .get = rp_image_get,
    .get_batch = rp_image_get_batch,
    .working_bytes = rp_image_working_bytes,
    .check = rp_image_check,
};
