/* A subset of HDF5: see the header for its bytes. Every length and address is checked against the file before it is
 * used. */
#include "data/hdf5.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define UNDEFINED UINT64_MAX
#define HEADER_MAX (64u << 10) /* bytes of an object header or a part of it; h5py's have a few hundred */
#define PARTS_MAX 16           /* of an object header */
#define SYMBOLS_MAX 1024
#define HEAP_MAX (1u << 20)
#define DEPTH_MAX 16
#define REPACK "'h5repack -f GZIP=4 FILE NEW' of hdf5-tools, or h5py with compression='gzip', makes it anew"

/* ---- bytes ---- */

static uint64_t get_le(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static const char *name_of(const struct rp_h5 *h)
{
    return h->files->file[h->file].name;
}

static int read_at(struct rp_h5 *h, uint64_t at, void *out, size_t size, const char *what, struct rp_err *err)
{
    const uint64_t all = h->files->file[h->file].size;
    if (at > all || size > all - at)
        return rp_fail(err, RP_MALFORMED,
                       "'%s': %s at byte %llu lies outside of the file of %llu bytes: it is truncated or damaged",
                       name_of(h), what, (unsigned long long)at, (unsigned long long)all);
    return rp_files_read(h->files, h->file, at, out, size, err);
}

static int bad_at(const struct rp_h5 *h, uint64_t at, const char *what, struct rp_err *err)
{
    return rp_fail(err, RP_MALFORMED, "'%s', byte %llu: %s: the file is damaged", name_of(h), (unsigned long long)at,
                   what);
}

static int bad_table(const struct rp_h5 *h, const struct rp_h5_table *t, const char *what, const char *remedy,
                     struct rp_err *err)
{
    return rp_fail(err, RP_MALFORMED, "'%s', data set '%s': %s%s%s", name_of(h), t->name, what, remedy ? "; " : "",
                   remedy ? remedy : "");
}

/* ---- object headers ---- */

struct h5_message {
    int type, flags;
    const unsigned char *data;
    size_t size;
};

typedef int (*message_fn)(struct rp_h5 *h, void *arg, const struct h5_message *m, struct rp_err *err);

struct h5_header { /* blocks of messages that are to be read */
    uint64_t at[PARTS_MAX], size[PARTS_MAX];
    int n;
    int messages;
};

static int add_block(struct rp_h5 *h, struct h5_header *header, uint64_t at, uint64_t size, struct rp_err *err)
{
    if (header->n == PARTS_MAX || size > HEADER_MAX)
        return bad_at(h, at, "an object header of more than 16 parts or 64 KiB", err);
    header->at[header->n] = at;
    header->size[header->n++] = size;
    return 0;
}

static int read_block(struct rp_h5 *h, struct h5_header *header, int i, message_fn take, void *arg, struct rp_err *err)
{
    const uint64_t at = header->at[i];
    const size_t size = (size_t)header->size[i];
    RP_FREE unsigned char *p = rp_alloc(size + 1);
    if (read_at(h, at, p, size, "an object header", err) < 0)
        return -1;
    for (size_t k = 0; k + 8 <= size && header->messages; header->messages--) {
        const struct h5_message m = {(int)get_le(p + k, 2), p[k + 4], p + k + 8, (size_t)get_le(p + k + 2, 2)};
        if (m.size > size - k - 8)
            return bad_at(h, at + k, "a message that is longer than its object header", err);
        if (m.type == 0x10 && m.size < 16)
            return bad_at(h, at + k, "a continuation of fewer than 16 bytes", err);
        if ((m.type == 0x10 ? add_block(h, header, get_le(m.data, 8), get_le(m.data + 8, 8), err)
                            : take(h, arg, &m, err)) < 0)
            return -1;
        k += 8 + m.size;
    }
    return 0;
}

static int read_header(struct rp_h5 *h, uint64_t at, message_fn take, void *arg, struct rp_err *err)
{
    unsigned char p[16];
    struct h5_header header = {0};
    if (read_at(h, at, p, sizeof p, "an object header", err) < 0)
        return -1;
    if (memcmp(p, "OHDR", 4) == 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has objects in the newer form of HDF5: write it with h5py.File(NAME, 'w'), without libver",
                       name_of(h));
    if (p[0] != 1)
        return bad_at(h, at, "not an object header of version 1", err);
    header.messages = (int)get_le(p + 2, 2);
    if (add_block(h, &header, at + 16, get_le(p + 8, 4), err) < 0)
        return -1;
    for (int i = 0; i < header.n; i++)
        if (read_block(h, &header, i, take, arg, err) < 0)
            return -1;
    return 0;
}

/* ---- a table ---- */

struct h5_description { /* which messages it has had, and what is needed later */
    struct rp_h5_table *t;
    int space, type, layout;
    uint64_t tree, bytes; /* of chunks; of contiguous data */
    int chunk_dims, chunk_width;
};

static int take_space(struct rp_h5 *h, struct h5_description *d, const struct h5_message *m, struct rp_err *err)
{
    struct rp_h5_table *t = d->t;
    const size_t head = m->size && m->data[0] == 1 ? 8 : 4;
    if (m->size < 8 || m->data[0] < 1 || m->data[0] > 2)
        return bad_table(h, t, "a data space of another version", REPACK, err);
    t->dims = m->data[1];
    if (t->dims < 1 || t->dims > 2 || m->size < head + 8 * (size_t)t->dims)
        return bad_table(h, t, "expected one or two dimensions", NULL, err);
    const uint64_t rows = get_le(m->data + head, 8), columns = t->dims == 2 ? get_le(m->data + head + 8, 8) : 1;
    if (rows > INT64_MAX / 8 || columns < 1 || columns > 1 << 20)
        return bad_table(h, t, "expected at most 2^60 rows of 1..2^20 columns", NULL, err);
    t->rows = (int64_t)rows;
    t->columns = (int64_t)columns;
    d->space = 1;
    return 0;
}

static int take_type(struct rp_h5 *h, struct h5_description *d, const struct h5_message *m, struct rp_err *err)
{
    struct rp_h5_table *t = d->t;
    static const char *const classes[] = {
        "integers",        "floats",    "times",      "strings",      "bit fields",
        "opaque elements", "compounds", "references", "enumerations", "lists of variable length",
        "arrays"};
    if (m->size < 8 || m->flags & 2)
        return bad_table(h, t, "its type is in another object", REPACK, err);
    const unsigned class = m->data[0] & 15;
    if (class == 9)
        return bad_table(h, t, "lists of variable length, as MLPerf packs its samples",
                         "expected rows of one length: convert the same text with create_pretraining_data.py of "
                         "NVIDIA's DeepLearningExamples, which packs nothing",
                         err);
    if (class != 0) {
        char text[80];
        snprintf(text, sizeof text, "%s, expected integers",
                 class < sizeof classes / sizeof *classes ? classes[class] : "an unknown class");
        return bad_table(h, t, text, NULL, err);
    }
    t->width = (int)get_le(m->data + 4, 4);
    t->is_signed = m->data[1] >> 3 & 1;
    if (m->data[1] & 1)
        return bad_table(h, t, "big-endian integers", "write it with a dtype such as '<i4'", err);
    if ((t->width != 1 && t->width != 2 && t->width != 4 && t->width != 8) || m->size < 12 ||
        get_le(m->data + 8, 2) != 0 || get_le(m->data + 10, 2) != 8u * (unsigned)t->width)
        return bad_table(h, t, "expected integers of 1, 2, 4 or 8 whole bytes", NULL, err);
    d->type = 1;
    return 0;
}

static int take_layout(struct rp_h5 *h, struct h5_description *d, const struct h5_message *m, struct rp_err *err)
{
    struct rp_h5_table *t = d->t;
    if (m->size < 18 || m->data[0] != 3 || m->data[1] < 1 || m->data[1] > 2)
        return bad_table(h, t, "a layout that is neither contiguous nor chunked as h5py writes it by default", REPACK,
                         err);
    d->layout = m->data[1];
    if (d->layout == 1) {
        t->at = get_le(m->data + 2, 8);
        d->bytes = get_le(m->data + 10, 8);
        return 0;
    }
    const int dims = m->data[2] - 1;
    if (dims < 1 || dims > 2 || m->size < 11 + 4 * (size_t)(dims + 1))
        return bad_table(h, t, "chunks of other than one or two dimensions", NULL, err);
    d->tree = get_le(m->data + 3, 8);
    t->chunk[0] = (int64_t)get_le(m->data + 11, 4);
    t->chunk[1] = dims == 2 ? (int64_t)get_le(m->data + 15, 4) : 1;
    d->chunk_dims = dims;
    d->chunk_width = (int)get_le(m->data + 11 + 4 * dims, 4);
    return 0;
}

static int take_filters(struct rp_h5 *h, struct h5_description *d, const struct h5_message *m, struct rp_err *err)
{
    struct rp_h5_table *t = d->t;
    size_t at = 8;
    char text[80];
    if (m->size < 8 || m->data[0] != 1 || m->data[1] > 2)
        return bad_table(h, t, "filters of another version, or more than two", REPACK, err);
    for (t->filters = 0; t->filters < m->data[1]; t->filters++) {
        if (m->size - at < 8)
            return bad_table(h, t, "filters that end early", NULL, err);
        const int id = (int)get_le(m->data + at, 2);
        const size_t name = (size_t)get_le(m->data + at + 2, 2), values = (size_t)get_le(m->data + at + 6, 2);
        const size_t bytes = 8 + ((name + 7) & ~(size_t)7) + 4 * (values + values % 2);
        if (id != RP_H5_DEFLATE && id != RP_H5_SHUFFLE) {
            const char *known = id == 32000 ? " (LZF)" : id == 4 ? " (szip)" : id == 3 ? " (Fletcher's checksum)" : "";
            snprintf(text, sizeof text, "compressed by filter %d%s", id, known);
            return bad_table(h, t, text, REPACK, err);
        }
        if (m->size - at < bytes)
            return bad_table(h, t, "filters that end early", NULL, err);
        t->filter[t->filters] = id;
        at += bytes;
    }
    return t->filters == 2 && t->filter[0] == t->filter[1] ? bad_table(h, t, "one filter twice", REPACK, err) : 0;
}

static int take_message(struct rp_h5 *h, void *arg, const struct h5_message *m, struct rp_err *err)
{
    struct h5_description *d = arg;
    switch (m->type) {
    case 0x01:
        return take_space(h, d, m, err);
    case 0x03:
        return take_type(h, d, m, err);
    case 0x07:
        return bad_table(h, d->t, "its data are in other files", REPACK, err);
    case 0x08:
        return take_layout(h, d, m, err);
    case 0x0b:
        return take_filters(h, d, m, err);
    default:
        return 0;
    }
}

/* ---- chunks ---- */

static int add_chunk(struct rp_h5 *h, struct rp_h5_table *t, const unsigned char *key, uint64_t child, uint64_t at,
                     struct rp_err *err)
{
    uint64_t place[2] = {get_le(key + 8, 8), t->dims == 2 ? get_le(key + 16, 8) : 0};
    const uint64_t size = get_le(key, 4), full = (uint64_t)(t->chunk[0] * t->chunk[1] * t->width);
    if (place[0] % (uint64_t)t->chunk[0] || place[1] % (uint64_t)t->chunk[1] || place[0] >= (uint64_t)t->rows ||
        place[1] >= (uint64_t)t->columns)
        return bad_at(h, at, "a chunk at a place that its data set does not have", err);
    struct rp_h5_chunk *c = &t->part[(int64_t)place[0] / t->chunk[0] * t->across + (int64_t)place[1] / t->chunk[1]];
    if (c->at)
        return bad_at(h, at, "two chunks at one place", err);
    const uint64_t all = h->files->file[h->file].size;
    if (!child || child > all || size > all - child)
        return bad_at(h, at, "a chunk outside of the file", err);
    if (size < 1 || size > full + full / 8 + 1024) /* deflate adds less */
        return bad_at(h, at, "a chunk of no bytes, or of more than it can have", err);
    *c = (struct rp_h5_chunk){.at = child, .size = (uint32_t)size, .skipped = (uint32_t)get_le(key + 4, 4)};
    return 0;
}

/* A node of the index of chunks; its level, -1 of the root. *left: chunks that may still come. */
static int read_chunks(struct rp_h5 *h, struct rp_h5_table *t, uint64_t at, int level, int64_t *left,
                       struct rp_err *err)
{
    unsigned char head[24];
    const size_t key = 8 + 8 * ((size_t)t->dims + 1), each = key + 8;
    if (read_at(h, at, head, sizeof head, "an index of chunks", err) < 0)
        return -1;
    const int own = head[5], n = (int)get_le(head + 6, 2);
    if (memcmp(head, "TREE\1", 5) != 0 || (level >= 0 && own != level) || own > DEPTH_MAX || n < 1)
        return bad_at(h, at, "not a node of an index of chunks of that level", err);
    RP_FREE unsigned char *entry = rp_alloc((size_t)n * each);
    if (read_at(h, at + sizeof head, entry, (size_t)n * each, "an index of chunks", err) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        const unsigned char *p = entry + (size_t)i * each;
        const uint64_t child = get_le(p + key, 8);
        if (own == 0 && --*left < 0)
            return bad_at(h, at, "more chunks than the data set has", err);
        if ((own ? read_chunks(h, t, child, own - 1, left, err)
                 : add_chunk(h, t, p, child, at + sizeof head + (uint64_t)i * each, err)) < 0)
            return -1;
    }
    return 0;
}

static int index_chunks(struct rp_h5 *h, const struct h5_description *d, struct rp_err *err)
{
    struct rp_h5_table *t = d->t;
    const uint64_t size = h->files->file[h->file].size;
    uint64_t bytes;
    if (t->chunk[0] < 1 || t->chunk[1] < 1 ||
        __builtin_mul_overflow((uint64_t)t->chunk[0] * (uint64_t)t->chunk[1], (uint64_t)t->width, &bytes) ||
        bytes > RP_H5_CHUNK_MAX)
        return bad_table(h, t, "chunks of no bytes, or of more than 64 MiB", REPACK, err);
    if (d->chunk_dims != t->dims || d->chunk_width != t->width)
        return bad_table(h, t, "chunks of other dimensions or elements than the data set", NULL, err);
    t->across = (t->columns + t->chunk[1] - 1) / t->chunk[1];
    const uint64_t down = (uint64_t)((t->rows + t->chunk[0] - 1) / t->chunk[0]);
    if (down > size / 32 / (uint64_t)t->across) /* an entry of the index has at least 32 bytes */
        return bad_table(h, t, "it declares more chunks than fit into the file", NULL, err);
    t->parts = (int64_t)down * t->across;
    t->part = rp_alloc((size_t)(t->parts + 1) * sizeof *t->part);
    int64_t left = t->parts;
    if (t->parts && (d->tree == UNDEFINED ? bad_table(h, t, "it was never written", NULL, err)
                                          : read_chunks(h, t, d->tree, -1, &left, err)) < 0)
        return -1;
    return left ? bad_table(h, t, "some of its chunks were never written: was the writing of the file interrupted?",
                            NULL, err)
                : 0;
}

static int describe_table(struct rp_h5 *h, struct rp_h5_table *t, uint64_t header, struct rp_err *err)
{
    struct h5_description d = {.t = t};
    const uint64_t size = h->files->file[h->file].size;
    if (read_header(h, header, take_message, &d, err) < 0)
        return -1;
    if (!d.space || !d.type || !d.layout)
        return bad_table(h, t, "not a data set: it lacks its dimensions, type or layout", NULL, err);
    if (d.layout == 2)
        return index_chunks(h, &d, err);
    if (t->filters)
        return bad_table(h, t, "filters of data that are not chunked", NULL, err);
    const uint64_t row = (uint64_t)t->columns * (uint64_t)t->width;
    if ((uint64_t)t->rows > size / row || (t->rows && (t->at > size || (uint64_t)t->rows * row > size - t->at)) ||
        d.bytes != (uint64_t)t->rows * row)
        return bad_table(h, t, "its data lie outside of the file: it is truncated or damaged", NULL, err);
    return 0;
}

/* ---- the root group ---- */

struct h5_group {
    uint64_t tree, heap; /* of the group */
    int found, symbols;
    char *names;         /* [bytes + 1] the heap */
    uint64_t bytes;
};

static int take_group(struct rp_h5 *h, void *arg, const struct h5_message *m, struct rp_err *err)
{
    struct h5_group *g = arg;
    if (m->type == 0x02 || m->type == 0x0a)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' has groups in the newer form of HDF5: write it with h5py.File(NAME, 'w'), without libver and "
            "track_order",
            name_of(h));
    if (m->type != 0x11 || m->size < 16)
        return 0;
    g->tree = get_le(m->data, 8);
    g->heap = get_le(m->data + 8, 8);
    g->found = 1;
    return 0;
}

static int read_heap(struct rp_h5 *h, struct h5_group *g, struct rp_err *err)
{
    unsigned char p[32];
    if (read_at(h, g->heap, p, sizeof p, "the names of the root group", err) < 0)
        return -1;
    g->bytes = get_le(p + 8, 8);
    if (memcmp(p, "HEAP\0", 5) != 0 || g->bytes > HEAP_MAX)
        return bad_at(h, g->heap, "not a heap of names of at most 1 MiB", err);
    g->names = rp_alloc((size_t)g->bytes + 1);
    return read_at(h, get_le(p + 24, 8), g->names, (size_t)g->bytes, "the names of the root group", err);
}

static int take_symbols(struct rp_h5 *h, struct h5_group *g, uint64_t at, struct rp_err *err)
{
    unsigned char head[8];
    if (read_at(h, at, head, sizeof head, "a list of symbols", err) < 0)
        return -1;
    const int n = (int)get_le(head + 6, 2);
    if (memcmp(head, "SNOD\1", 5) != 0 || (g->symbols += n) > SYMBOLS_MAX || n < 1)
        return bad_at(h, at, "not a list of symbols, or more than 1024 of them", err);
    RP_FREE unsigned char *symbol = rp_alloc((size_t)n * 40);
    if (read_at(h, at + sizeof head, symbol, (size_t)n * 40, "a list of symbols", err) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        const unsigned char *p = symbol + 40 * (size_t)i;
        if (get_le(p, 8) >= g->bytes)
            return bad_at(h, at + 8 + 40 * (uint64_t)i, "a name outside of the heap", err);
        int k = 0;
        while (k < h->tables && strcmp(h->table[k].name, g->names + get_le(p, 8)) != 0)
            k++;
        if (k == h->tables)
            continue;
        if (h->table[k].rows >= 0)
            return bad_table(h, &h->table[k], "it is there twice", NULL, err);
        if (get_le(p + 16, 4) == 2)
            return bad_table(h, &h->table[k], "a symbolic link", REPACK, err);
        h->table[k].rows = 0;
        if (describe_table(h, &h->table[k], get_le(p + 8, 8), err) < 0)
            return -1;
    }
    return 0;
}

/* A node of the group's tree, of that level, or the root's own if -1. */
static int read_group(struct rp_h5 *h, struct h5_group *g, uint64_t at, int level, struct rp_err *err)
{
    unsigned char head[24];
    if (read_at(h, at, head, sizeof head, "a group", err) < 0)
        return -1;
    const int own = head[5], n = (int)get_le(head + 6, 2);
    if (memcmp(head, "TREE\0", 5) != 0 || (level >= 0 && own != level) || own > DEPTH_MAX || (n < 1 && level >= 0) ||
        n > SYMBOLS_MAX)
        return bad_at(h, at, "not a node of a group of that level", err);
    RP_FREE unsigned char *entry = rp_alloc((size_t)n * 16 + 1);
    if (read_at(h, at + sizeof head, entry, (size_t)n * 16, "a group", err) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        const uint64_t child = get_le(entry + 16 * (size_t)i + 8, 8);
        if ((own ? read_group(h, g, child, own - 1, err) : take_symbols(h, g, child, err)) < 0)
            return -1;
    }
    return 0;
}

static int read_root(struct rp_h5 *h, struct rp_err *err)
{
    static const unsigned char magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    const uint64_t size = h->files->file[h->file].size;
    unsigned char p[96];
    struct h5_group g = {0};
    if (size >= sizeof p && rp_files_read(h->files, h->file, 0, p, sizeof p, err) < 0)
        return -1;
    if (size < sizeof p || memcmp(p, magic, sizeof magic) != 0)
        return rp_fail(err, RP_MALFORMED, "'%s' is not an HDF5 file", name_of(h));
    if (p[8] != 0 || p[13] != 8 || p[14] != 8)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' is HDF5 of the newer form %d: write it with h5py.File(NAME, 'w'), without libver, or convert it with "
            "'h5repack FILE NEW' of hdf5-tools",
            name_of(h), p[8]);
    if (get_le(p + 24, 8) != 0)
        return bad_at(h, 24, "a base address other than 0", err);
    if (get_le(p + 40, 8) > size)
        return rp_fail(err, RP_MALFORMED, "'%s' has %llu bytes of %llu: it is truncated", name_of(h),
                       (unsigned long long)size, (unsigned long long)get_le(p + 40, 8));
    if (read_header(h, get_le(p + 64, 8), take_group, &g, err) < 0)
        return -1;
    if (!g.found)
        return bad_at(h, get_le(p + 64, 8), "a root group without a table of symbols", err);
    const int failed = read_heap(h, &g, err) < 0 || read_group(h, &g, g.tree, -1, err) < 0;
    free(g.names);
    return failed ? -1 : 0;
}

int rp_h5_open(struct rp_h5 *h, struct rp_files *files, int file, struct rp_h5_cache *cache, const char *const *name,
               int names, struct rp_err *err)
{
    *h = (struct rp_h5){.files = files, .file = file, .cache = cache, .tables = names};
    RP_BUG_IF(names > RP_H5_TABLES_MAX);
    for (int i = 0; i < names; i++)
        h->table[i] = (struct rp_h5_table){.name = name[i], .rows = -1};
    if (rp_files_check_kind(files, file, err) < 0 || read_root(h, err) < 0)
        return -1;
    for (int i = 0; i < names; i++)
        if (h->table[i].rows < 0)
            return bad_table(h, &h->table[i], "missing", NULL, err);
    return 0;
}
