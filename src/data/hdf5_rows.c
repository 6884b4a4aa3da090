/* Rows of HDF5 tables: chunks are unpacked once and kept while there is room. */
#include "data/hdf5.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- the cache ---- */

struct cached_chunk {
    unsigned char *data;
    size_t size;
    uint64_t used;              /* when: of the cache's clock */
    struct rp_h5_chunk *owner;
};

struct rp_h5_cache {
    struct cached_chunk *chunk;
    int n, cap;
    uint64_t bytes, most, clock;
    unsigned char *packed, *mixed; /* scratch: as stored; before the shuffle is undone */
    size_t packed_size, mixed_size;
};

struct rp_h5_cache *rp_h5_cache_new(uint64_t bytes)
{
    struct rp_h5_cache *c = rp_alloc(sizeof *c);
    c->most = bytes ? bytes : RP_H5_CACHE_BYTES;
    return c;
}

void rp_h5_cache_free(struct rp_h5_cache *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n; i++)
        free(c->chunk[i].data);
    free(c->chunk);
    free(c->packed);
    free(c->mixed);
    free(c);
}

static unsigned char *reserve_room(unsigned char **p, size_t *have, size_t size)
{
    if (size > *have) {
        *p = rp_realloc(*p, size);
        *have = size;
    }
    return *p;
}

static void drop_chunk(struct rp_h5_cache *c, int i)
{
    c->bytes -= c->chunk[i].size;
    c->chunk[i].owner->cached = 0;
    free(c->chunk[i].data);
    c->chunk[i] = c->chunk[--c->n];
    if (i < c->n)
        c->chunk[i].owner->cached = i + 1;
}

/* A place for that many bytes; the oldest go. */
static struct cached_chunk *add_cached(struct rp_h5_cache *c, struct rp_h5_chunk *owner, size_t size)
{
    while (c->n && c->bytes + size > c->most) {
        int oldest = 0;
        for (int i = 1; i < c->n; i++)
            if (c->chunk[i].used < c->chunk[oldest].used)
                oldest = i;
        drop_chunk(c, oldest);
    }
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->chunk = rp_realloc(c->chunk, (size_t)c->cap * sizeof *c->chunk);
    }
    c->chunk[c->n] = (struct cached_chunk){.data = rp_alloc(size), .size = size, .owner = owner};
    c->bytes += size;
    owner->cached = c->n + 1;
    return &c->chunk[c->n++];
}

static int inflate_chunk(const unsigned char *in, size_t size, unsigned char *out, size_t full, struct rp_err *err)
{
    z_stream z = {
        .next_in = (unsigned char *)in, .avail_in = (unsigned)size, .next_out = out, .avail_out = (unsigned)full};
    if (inflateInit(&z) != Z_OK)
        return rp_fail(err, RP_UNAVAILABLE, "out of memory");
    const int rc = inflate(&z, Z_FINISH);
    const int whole = rc == Z_STREAM_END && !z.avail_out && !z.avail_in;
    inflateEnd(&z);
    return whole ? 0 : rp_fail(err, RP_MALFORMED, "a chunk does not unpack to its %zu bytes: it is damaged", full);
}

/* Byte k of every element, k by k, to elements. */
static void unshuffle(unsigned char *out, const unsigned char *in, size_t full, size_t width)
{
    const size_t n = full / width;
    for (size_t k = 0; k < width; k++)
        for (size_t i = 0; i < n; i++)
            out[i * width + k] = in[k * n + i];
}

/* Stored bytes to those of the chunk: filters were applied in their order, so that the last is undone first. */
static int unfilter(struct rp_h5_cache *c, const struct rp_h5_table *t, const struct rp_h5_chunk *part,
                    unsigned char *out, size_t full, struct rp_err *err)
{
    const unsigned char *in = c->packed;
    size_t size = part->size;
    unsigned char *scratch = reserve_room(&c->mixed, &c->mixed_size, full);
    int left = 0;
    for (int i = 0; i < t->filters; i++)
        left += !(part->skipped >> i & 1);
    for (int i = t->filters - 1; i >= 0; i--) {
        if (part->skipped >> i & 1)
            continue;
        unsigned char *to = --left ? scratch : out;
        if (t->filter[i] == RP_H5_DEFLATE ? inflate_chunk(in, size, to, full, err) < 0 : size != full)
            return t->filter[i] == RP_H5_DEFLATE
                       ? -1
                       : rp_fail(err, RP_MALFORMED, "a chunk has %zu bytes, expected %zu: it is damaged", size, full);
        if (t->filter[i] == RP_H5_SHUFFLE)
            unshuffle(to, in, full, (size_t)t->width);
        in = to;
        size = full;
    }
    if (size != full)
        return rp_fail(err, RP_MALFORMED, "a chunk has %zu bytes, expected %zu: it is damaged", size, full);
    if (in != out)
        memcpy(out, in, full);
    return 0;
}

static int load_chunk(struct rp_h5 *h, struct rp_h5_table *t, struct rp_h5_chunk *part, const unsigned char **data,
                      struct rp_err *err)
{
    struct rp_h5_cache *c = h->cache;
    const size_t full = (size_t)(t->chunk[0] * t->chunk[1] * t->width);
    if (!part->cached) {
        if (rp_files_read(h->files, h->file, part->at, reserve_room(&c->packed, &c->packed_size, part->size),
                          part->size, err) < 0)
            return -1;
        struct cached_chunk *new = add_cached(c, part, full);
        if (unfilter(c, t, part, new->data, full, err) < 0) {
            drop_chunk(c, part->cached - 1);
            return rp_wrap(err, "data set '%s', byte %llu", t->name, (unsigned long long)part->at);
        }
    }
    struct cached_chunk *have = &c->chunk[part->cached - 1];
    have->used = ++c->clock;
    *data = have->data;
    return 0;
}

void rp_h5_close(struct rp_h5 *h)
{
    for (int i = 0; i < h->tables; i++) {
        struct rp_h5_table *t = &h->table[i];
        for (int64_t k = 0; h->cache && k < t->parts; k++)
            if (t->part[k].cached)
                drop_chunk(h->cache, t->part[k].cached - 1);
        free(t->part);
    }
    *h = (struct rp_h5){0};
}

/* ---- rows ---- */

static uint64_t element(const unsigned char *p, int width)
{
    uint64_t v = 0;
    for (int i = 0; i < width; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void widen(int64_t *out, const unsigned char *p, int64_t n, int width, int is_signed)
{
    for (int64_t i = 0; i < n; i++, p += width) {
        const uint64_t v = element(p, width);
        const int unused = 64 - 8 * width;
        /* from 2^63 on negative: readers refuse it */
        out[i] = is_signed ? (int64_t)(v << unused) >> unused : (int64_t)v;
    }
}

int rp_h5_row(struct rp_h5 *h, int table, int64_t row, int64_t *out, struct rp_err *err)
{
    struct rp_h5_table *t = &h->table[table];
    RP_BUG_IF(row < 0 || row >= t->rows);
    if (!t->chunk[0]) {
        const size_t bytes = (size_t)t->columns * (size_t)t->width;
        RP_FREE unsigned char *p = rp_alloc(bytes);
        if (rp_files_read(h->files, h->file, t->at + (uint64_t)row * bytes, p, bytes, err) < 0)
            return -1;
        widen(out, p, t->columns, t->width, t->is_signed);
        return 0;
    }
    for (int64_t k = 0; k < t->across; k++) {
        const unsigned char *data = NULL;
        const int64_t first = k * t->chunk[1], n = t->columns - first < t->chunk[1] ? t->columns - first : t->chunk[1];
        if (load_chunk(h, t, &t->part[row / t->chunk[0] * t->across + k], &data, err) < 0)
            return -1;
        widen(out + first, data + row % t->chunk[0] * t->chunk[1] * t->width, n, t->width, t->is_signed);
    }
    return 0;
}
