/* Access at random to deflate: places at the starts of blocks, each with the window before it. */
#include "data/unpacker.h"

#include "base/buf.h"
#include "base/interrupt.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define WINDOW (1u << MAX_WBITS)
#define INPUT 65536
#define DISTANCE (1u << 20)
#define GZIP_BITS (16 + MAX_WBITS)

struct unpacker_place {
    int file;
    int bits;           /* of the byte before `in` that belong to the block; -1: a member begins here */
    uint64_t in, out;   /* bytes of the file, of what it unpacks to */
    unsigned size;
    unsigned char *window; /* [size] */
};

struct rp_unpacker {
    struct rp_files *files;
    enum rp_packing *packing; /* [files->n] */
    struct unpacker_place *place; /* [n] by file and out */
    int n;
    uint64_t distance;
    /* the stream */
    z_stream z;
    int open;           /* z has to be ended */
    int raw;            /* it began at a block: the trailer of the member is not its part */
    int file;           /* -1: none */
    uint64_t in, out;   /* after the input that was read, after the output */
    unsigned char input[INPUT], output[WINDOW];
};

enum rp_packing rp_packing_of(const void *head, size_t n)
{
    const unsigned char *p = head;
    if (n > 2 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8)
        return RP_PACKING_GZIP;
    if (n > 2 && (p[0] & 15) == 8 && p[0] >> 4 <= 7 && (p[0] << 8 | p[1]) % 31 == 0)
        return RP_PACKING_ZLIB;
    return RP_PACKING_NONE;
}

/* "gzip" */
static const char *packing_name(enum rp_packing packing)
{
    return packing == RP_PACKING_GZIP ? "gzip" : packing == RP_PACKING_ZLIB ? "zlib" : "nothing";
}

struct rp_unpacker *rp_unpacker_new(struct rp_files *files, uint64_t distance)
{
    struct rp_unpacker *u = rp_alloc(sizeof *u);
    *u = (struct rp_unpacker){.files = files, .file = -1, .distance = distance ? distance : DISTANCE};
    u->packing = rp_alloc((size_t)files->n * sizeof *u->packing);
    u->place = rp_alloc(RP_UNPACKER_PLACES * sizeof *u->place);
    return u;
}

static void end_stream(struct rp_unpacker *u)
{
    if (u->open)
        inflateEnd(&u->z);
    u->open = 0;
    u->file = -1;
}

void rp_unpacker_free(struct rp_unpacker *u)
{
    if (!u)
        return;
    end_stream(u);
    for (int i = 0; i < u->n; i++)
        free(u->place[i].window);
    free(u->place);
    free(u->packing);
    free(u);
}

int rp_unpacker_places(const struct rp_unpacker *u)
{
    return u->n;
}

/* ---- the stream ---- */

static int bad_stream(const struct rp_unpacker *u, int file, const char *why, struct rp_err *err)
{
    return rp_fail(err, RP_MALFORMED,
                   "'%s', compressed with %s: %s at byte %llu; copy it again, or see what '%s <FILE' makes of it",
                   u->files->file[file].name, packing_name(u->packing[file]), why,
                   (unsigned long long)(u->in - u->z.avail_in),
                   u->packing[file] == RP_PACKING_GZIP ? "gzip -dc" : "pigz -dcz");
}

static int fill_input(struct rp_unpacker *u, struct rp_err *err)
{
    const uint64_t left = u->files->file[u->file].size - u->in;
    const size_t n = left < INPUT ? (size_t)left : INPUT;
    if (rp_files_read(u->files, u->file, u->in, u->input, n, err) < 0)
        return -1;
    u->z.next_in = u->input;
    u->z.avail_in = (unsigned)n;
    u->in += n;
    return 0;
}

/* From byte `in` of a file on, which unpacks to byte `out`; bits of a place. */
static int begin_stream(struct rp_unpacker *u, int file, uint64_t in, uint64_t out, int bits, struct rp_err *err)
{
    end_stream(u);
    u->z = (z_stream){0};
    u->raw = bits >= 0;
    if (inflateInit2(&u->z, u->raw ? -MAX_WBITS : u->packing[file] == RP_PACKING_GZIP ? GZIP_BITS : MAX_WBITS) != Z_OK)
        return rp_fail(err, RP_UNAVAILABLE, "out of memory");
    u->open = 1;
    u->file = file;
    u->in = in;
    u->out = out;
    return 0;
}

static int begin_at_place(struct rp_unpacker *u, const struct unpacker_place *p, struct rp_err *err)
{
    if (begin_stream(u, p->file, p->in - (p->bits > 0), p->out, p->bits, err) < 0)
        return -1;
    if (p->bits > 0) {
        if (fill_input(u, err) < 0)
            return -1;
        u->z.avail_in--;
        inflatePrime(&u->z, p->bits, *u->z.next_in++ >> (8 - p->bits));
    }
    if (p->size)
        inflateSetDictionary(&u->z, p->window, p->size);
    return 0;
}

/* Skips bytes of the input. 0: it ends before. */
static int skip_input(struct rp_unpacker *u, unsigned n, struct rp_err *err)
{
    for (unsigned k; n; n -= k) {
        if (!u->z.avail_in && fill_input(u, err) < 0)
            return -1;
        if (!u->z.avail_in)
            return 0;
        k = u->z.avail_in < n ? u->z.avail_in : n;
        u->z.next_in += k;
        u->z.avail_in -= k;
    }
    return 1;
}

/* After the end of a member: 1: another one begins; 0: the file ends. */
static int next_member(struct rp_unpacker *u, struct rp_err *err)
{
    const int file = u->file;
    if (u->raw && skip_input(u, u->packing[file] == RP_PACKING_GZIP ? 8 : 4, err) < 0)
        return -1;
    if (!u->z.avail_in && fill_input(u, err) < 0)
        return -1;
    if (!u->z.avail_in)
        return 0;
    if (u->packing[file] != RP_PACKING_GZIP || u->z.next_in[0] != 0x1f)
        return bad_stream(u, file, "more bytes follow the end of the compressed data", err);
    return begin_stream(u, file, u->in - u->z.avail_in, u->out, -1, err) < 0 ? -1 : 1;
}

/* Some more output of at most `size` bytes, at least to the end of a block. *n 0 and *end: the file ends. *block: a
 * block ends here that is not the last of its member, or a member begins. */
static int inflate_some(struct rp_unpacker *u, unsigned char *out, size_t size, size_t *n, int *block, int *end,
                        struct rp_err *err)
{
    *block = *end = 0;
    if (!u->z.avail_in && fill_input(u, err) < 0)
        return -1;
    const int dry = !u->z.avail_in;
    u->z.next_out = out;
    u->z.avail_out = (unsigned)size;
    const int rc = inflate(&u->z, Z_BLOCK);
    *n = size - u->z.avail_out;
    u->out += *n;
    if (rc == Z_STREAM_END) {
        const int more = next_member(u, err);
        *block = more > 0;
        *end = more == 0;
        return more < 0 ? -1 : 0;
    }
    if (rc == Z_NEED_DICT)
        return bad_stream(u, u->file, "a dictionary is needed that is not there", err);
    if (rc == Z_MEM_ERROR)
        return rp_fail(err, RP_UNAVAILABLE, "out of memory");
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        return bad_stream(u, u->file, u->z.msg ? u->z.msg : "damaged", err);
    if (dry && !*n && rc == Z_BUF_ERROR)
        return bad_stream(u, u->file, "the data end too early", err);
    *block = (u->z.data_type & 128) && !(u->z.data_type & 64);
    return 0;
}

/* ---- places ---- */

static void drop_every_second(struct rp_unpacker *u)
{
    int n = 0;
    for (int i = 0; i < u->n; i++)
        if (i % 2 == 0)
            u->place[n++] = u->place[i];
        else
            free(u->place[i].window);
    u->n = n;
    u->distance *= 2;
}

static void add_place(struct rp_unpacker *u, int file, uint64_t in, int bits)
{
    if (u->n == RP_UNPACKER_PLACES)
        drop_every_second(u);
    struct unpacker_place *p = &u->place[u->n++];
    *p = (struct unpacker_place){.file = file, .bits = bits, .in = in, .out = u->out};
    if (bits < 0)
        return;
    p->window = rp_alloc(WINDOW);
    inflateGetDictionary(&u->z, p->window, &p->size);
}

int rp_unpacker_scan(struct rp_unpacker *u, int i, enum rp_packing packing, rp_unpacker_sink_fn sink, void *arg,
                     uint64_t *size, struct rp_err *err)
{
    int block, end = 0;
    uint64_t last = 0;
    RP_BUG_IF(u->n && u->place[u->n - 1].file >= i);
    u->packing[i] = packing;
    if (begin_stream(u, i, 0, 0, -1, err) < 0)
        return -1;
    while (!end) {
        size_t n;
        if (inflate_some(u, u->output, sizeof u->output, &n, &block, &end, err) < 0 ||
            (n && sink(arg, u->output, n, err) < 0))
            return -1;
        const uint64_t in = u->in - u->z.avail_in;
        if (u->out > RP_UNPACKER_RATIO_FREE && u->out / RP_UNPACKER_RATIO > in)
            return bad_stream(u, i, "more than 250 unpacked bytes a byte", err);
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while unpacking '%s'", u->files->file[i].name);
        if (!block || u->out - last < u->distance)
            continue;
        add_place(u, i, in, u->raw ? 0 : u->z.total_in || u->z.total_out ? u->z.data_type & 7 : -1);
        last = u->out;
    }
    *size = u->out;
    end_stream(u);
    return 0;
}

/* The last place of the file at or before `offset`; NULL: its start. */
static const struct unpacker_place *place_before(const struct rp_unpacker *u, int file, uint64_t offset)
{
    int lo = 0, hi = u->n; /* the first place after */
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        const struct unpacker_place *p = &u->place[mid];
        if (p->file < file || (p->file == file && p->out <= offset))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && u->place[lo - 1].file == file ? &u->place[lo - 1] : NULL;
}

int rp_unpacker_read(struct rp_unpacker *u, int i, uint64_t offset, void *out, size_t size, struct rp_err *err)
{
    const struct unpacker_place *p = place_before(u, i, offset);
    const uint64_t from = p ? p->out : 0;
    unsigned char *to = out;
    int block, end = 0;
    if (u->file != i || u->out > offset || u->out < from) {
        if ((p ? begin_at_place(u, p, err) : begin_stream(u, i, 0, 0, -1, err)) < 0)
            return -1;
    }
    while (size && !end) {
        const int skips = u->out < offset;
        const uint64_t left = skips ? offset - u->out : size;
        const size_t room = left < WINDOW ? (size_t)left : WINDOW;
        size_t n;
        if (inflate_some(u, skips ? u->output : to, room, &n, &block, &end, err) < 0) {
            end_stream(u);
            return -1;
        }
        to += skips ? 0 : n;
        size -= skips ? 0 : n;
        offset += skips ? 0 : n;
    }
    if (end)
        end_stream(u);
    return !size ? 0
                 : rp_fail(err, RP_IO, "'%s' changed while it was in use: it unpacks to fewer bytes",
                           u->files->file[i].name);
}
