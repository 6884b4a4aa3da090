/* NAME.bin and NAME.idx of Megatron-LM: finding both, reading the index, and writing them. */
#include "data/megatron_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "MMIDIDX\0"                     /* 9 bytes with the NUL of the literal */
#define OLD_MAGIC "TNTIDX\0"                  /* 8 bytes: fairseq's formats, --dataset-impl lazy and cached */
#define HEADER 34

/* ---- files ---- */

static const char *ending_of(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0 ? name + n - m : NULL;
}

/* "a/b.idx" -> "a/b.bin" and back (free it); NULL: neither. */
static char *other_of(const char *name)
{
    const char *idx = ending_of(name, ".idx"), *bin = ending_of(name, ".bin"), *end = idx ? idx : bin;
    return end ? rp_asprintf("%.*s%s", (int)(end - name), name, idx ? ".bin" : ".idx") : NULL;
}

static int add_others(struct rp_files *f, struct rp_err *err)
{
    struct stat st;
    char **other = rp_alloc((size_t)f->n * sizeof *other);
    int n = 0, failed = 0;
    for (int i = 0; i < f->n && !failed; i++) {
        const char *name = f->file[i].name;
        char *o = other_of(name);
        if (!o)
            failed = rp_fail(err, RP_MALFORMED,
                             "'%s' is neither .bin nor .idx; a data set of data.format megatron is NAME.bin and "
                             "NAME.idx",
                             name);
        else if (rp_files_find(f, o) < 0 && (f->file[i].data || stat(o, &st) < 0))
            failed = rp_fail(
                err, RP_IO, "'%s' has no '%s' next to it; both are needed, as preprocess_data.py writes them", name, o);
        else if (rp_files_find(f, o) < 0)
            other[n++] = o, o = NULL;
        free(o);
    }
    if (!failed)
        failed = rp_files_add(f, other, n, err) < 0;
    for (int i = 0; i < n; i++)
        free(other[i]);
    free(other);
    return failed ? -1 : 0;
}

int rp_megatron_list(struct rp_files *f, const char *path, struct rp_err *err)
{
    struct stat st;
    RP_FREE char *index = rp_asprintf("%s.idx", path);
    int prefix = stat(path, &st) < 0 && stat(index, &st) == 0;
    if (rp_files_open(f, prefix ? index : path, ".idx|.bin", err) < 0)
        return -1;
    if (add_others(f, err) < 0) {
        rp_files_close(f);
        return -1;
    }
    return 0;
}

/* ---- the index ---- */

struct idx { /* a file read from its start to its end */
    struct rp_files *files;
    int i;
    const char *name;
    uint64_t at, size;
    unsigned char *bytes; /* of set.bytes */
    size_t used, have;
};

static int idx_value(struct idx *x, size_t width, uint64_t *v, struct rp_err *err)
{
    if (x->have - x->used < width) {
        uint64_t rest = x->size - x->at;
        size_t kept = x->have - x->used, more = rest < RP_TOKEN_CHUNK ? (size_t)rest : RP_TOKEN_CHUNK;
        memmove(x->bytes, x->bytes + x->used, kept);
        if (rp_files_read(x->files, x->i, x->at, x->bytes + kept, more, err) < 0)
            return -1;
        x->at += more;
        x->used = 0;
        x->have = kept + more;
    }
    *v = 0;
    memcpy(v, x->bytes + x->used, width);
    x->used += width;
    return 0;
}

static int check_magic(const struct idx *x, const unsigned char *h, struct rp_err *err)
{
    if (memcmp(h, OLD_MAGIC, 8) == 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is an index of the old implementations lazy and cached; make it again with "
                       "preprocess_data.py --dataset-impl mmap",
                       x->name);
    return memcmp(h, MAGIC, 9) == 0
               ? 0
               : rp_fail(err, RP_MALFORMED, "'%s' is not an index of Megatron-LM: it does not begin with MMIDIDX",
                         x->name);
}

static int check_type(const struct idx *x, unsigned code, enum rp_token_type *type, struct rp_err *err)
{
    static const struct {
        enum rp_token_type type;
        const char *refused;
    } types[] = {
        {0, "no type"},       {RP_TOKEN_U8, NULL},  {RP_TOKEN_I8, NULL}, {RP_TOKEN_I16, NULL},
        {RP_TOKEN_I32, NULL}, {RP_TOKEN_I64, NULL}, {0, "float64"},      {0, "float32, or float64 of old versions"},
        {RP_TOKEN_U16, NULL}};
    unsigned n = sizeof types / sizeof *types;
    if (code >= n || types[code].refused)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' has elements of type %u (%s), expected whole numbers: 1 uint8, 2 int8, 3 int16, 4 int32, 5 "
            "int64 or 8 uint16",
            x->name, code, code < n ? types[code].refused : "unknown");
    *type = types[code].type;
    return 0;
}

/* *modes: whether the index ends with one byte for each sequence. */
static int read_header(struct idx *x, enum rp_token_type *type, uint64_t *s, uint64_t *d, int *modes,
                       struct rp_err *err)
{
    unsigned char h[HEADER];
    if (x->size < HEADER)
        return rp_fail(err, RP_MALFORMED, "'%s' has %llu bytes, fewer than the header of %d: it is truncated", x->name,
                       (unsigned long long)x->size, HEADER);
    for (int k = 0; k < HEADER; k++) {
        uint64_t v;
        if (idx_value(x, 1, &v, err) < 0)
            return -1;
        h[k] = (unsigned char)v;
    }
    uint64_t version;
    memcpy(&version, h + 9, 8);
    memcpy(s, h + 18, 8);
    memcpy(d, h + 26, 8);
    if (check_magic(x, h, err) < 0)
        return -1;
    if (version != 1)
        return rp_fail(err, RP_MALFORMED, "'%s' has version %llu, expected 1", x->name, (unsigned long long)version);
    if (check_type(x, h[17], type, err) < 0)
        return -1;
    uint64_t room = x->size - HEADER;
    int fits = *s <= room / 12 && *d <= (room - 12 * *s) / 8;
    uint64_t rest = fits ? room - 12 * *s - 8 * *d : 0;
    if (!fits || (rest && rest != *s))
        return rp_fail(err, RP_MALFORMED,
                       "'%s' announces %llu sequences and %llu entries of the document index, which are not the %llu "
                       "bytes of the file: it is truncated or damaged",
                       x->name, (unsigned long long)*s, (unsigned long long)*d, (unsigned long long)x->size);
    *modes = rest != 0;
    return *s && *d >= 2 ? 0 : rp_fail(err, RP_MALFORMED, "'%s' has no documents", x->name);
}

static int read_lengths(struct rp_megatron_index *m, struct idx *x, uint64_t s, struct rp_err *err)
{
    if ((uint64_t)m->sequences + s >= UINT32_MAX)
        return rp_fail(err, RP_MALFORMED, "'%s': more than %lu sequences", x->name, (unsigned long)UINT32_MAX - 1);
    m->start = rp_realloc(m->start, ((size_t)m->sequences + s + 1) * sizeof *m->start);
    int64_t *start = m->start + m->sequences;
    if (m->sequences == 0)
        start[0] = 0;
    for (uint64_t k = 0; k < s; k++) {
        uint64_t v;
        if (idx_value(x, 4, &v, err) < 0)
            return -1;
        if (v > INT32_MAX)
            return rp_fail(err, RP_MALFORMED, "'%s': sequence %llu (from 0) has the length %ld", x->name,
                           (unsigned long long)k, (long)(int32_t)v);
        start[k + 1] = start[k] + (int64_t)v;
    }
    return 0;
}

static int check_pointers(struct rp_megatron_index *m, struct idx *x, uint64_t s, size_t width, struct rp_err *err)
{
    const int64_t *start = m->start + m->sequences;
    for (uint64_t k = 0; k < s; k++) {
        uint64_t v, want = (uint64_t)(start[k] - start[0]) * width;
        if (idx_value(x, 8, &v, err) < 0)
            return -1;
        if (v != want)
            return rp_fail(err, RP_MALFORMED,
                           "'%s': sequence %llu (from 0) begins at byte %llu, expected %llu, where the one before it "
                           "ends: the index is damaged",
                           x->name, (unsigned long long)k, (unsigned long long)v, (unsigned long long)want);
    }
    return 0;
}

static int check_documents(struct idx *x, uint64_t s, uint64_t d, struct rp_err *err)
{
    uint64_t last = 0;
    for (uint64_t k = 0; k < d; k++) {
        uint64_t v;
        if (idx_value(x, 8, &v, err) < 0)
            return -1;
        if (v < last || v > s || (k == 0 && v) || (k == d - 1 && v != s))
            return rp_fail(err, RP_MALFORMED,
                           "'%s': entry %llu (from 0) of the document index is %lld after %llu; expected numbers that "
                           "rise from 0 to %llu, the number of sequences",
                           x->name, (unsigned long long)k, (long long)v, (unsigned long long)last,
                           (unsigned long long)s);
        last = v;
    }
    return 0;
}

static int check_modes(struct idx *x, uint64_t s, struct rp_err *err)
{
    for (uint64_t k = 0; k < s; k++) {
        uint64_t v;
        if (idx_value(x, 1, &v, err) < 0)
            return -1;
        if (v)
            return rp_fail(err, RP_MALFORMED, "'%s': sequence %llu (from 0) has mode %llu, which is not text (0)",
                           x->name, (unsigned long long)k, (unsigned long long)v);
    }
    return 0;
}

/* File i is an index, file b its .bin. */
static int read_pair(struct rp_megatron_index *m, struct rp_token_set *set, int i, int b, struct rp_err *err)
{
    struct rp_files *f = &set->files;
    struct idx x = {.files = f, .i = i, .name = f->file[i].name, .size = f->file[i].size, .bytes = set->bytes};
    enum rp_token_type type = RP_TOKEN_U8;
    uint64_t s = 0, d = 0;
    int modes = 0;
    if (read_header(&x, &type, &s, &d, &modes, err) < 0 || read_lengths(m, &x, s, err) < 0 ||
        check_pointers(m, &x, s, rp_token_bytes(type), err) < 0 || check_documents(&x, s, d, err) < 0 ||
        (modes && check_modes(&x, s, err) < 0))
        return -1;
    int64_t tokens = m->start[m->sequences + (int64_t)s] - m->start[m->sequences];
    if ((uint64_t)tokens * rp_token_bytes(type) != f->file[b].size)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has %llu bytes, expected %llu: '%s' lists %lld tokens of %zu bytes; one of them is "
                       "truncated, or they do not belong together",
                       f->file[b].name, (unsigned long long)f->file[b].size,
                       (unsigned long long)tokens * rp_token_bytes(type), x.name, (long long)tokens,
                       rp_token_bytes(type));
    set->range[b] = (struct rp_token_range){type, 0, tokens};
    m->bin[m->pairs] = b;
    m->sequences += (int64_t)s;
    m->documents += (int64_t)d - 1;
    m->pair_first[++m->pairs] = m->sequences;
    return 0;
}

int rp_megatron_index_read(struct rp_megatron_index *m, struct rp_token_set *set, struct rp_err *err)
{
    const struct rp_files *f = &set->files;
    m->bin = rp_alloc((size_t)f->n * sizeof *m->bin);
    m->pair_first = rp_alloc(((size_t)f->n + 1) * sizeof *m->pair_first);
    for (int i = 0; i < f->n; i++)
        if (ending_of(f->file[i].name, ".idx")) {
            RP_FREE char *other = other_of(f->file[i].name);
            if (read_pair(m, set, i, rp_files_find(f, other), err) < 0)
                return -1;
        }
    return 0;
}

void rp_megatron_index_fini(struct rp_megatron_index *m)
{
    free(m->bin);
    free(m->pair_first);
    free(m->start);
    *m = (struct rp_megatron_index){0};
}

/* ---- writing ---- */

static void add_number(struct rp_buf *b, int64_t v, size_t width)
{
    rp_buf_add(b, &v, width); /* little endian */
}

/* As preprocess_data.py --append-eod: uint16 if the vocabulary is below 65500, else int32; a document is one
 * sequence. */
int rp_megatron_make(struct rp_buf *file, const struct rp_token_docs *d, int64_t first, int64_t end,
                     const struct rp_data_opts *o, struct rp_err *err)
{
    struct rp_buf *bin = &file[0], *idx = &file[1];
    int width = d->vocabulary < 65500 ? 2 : 4;
    int64_t n = end - first, at = 0;
    (void)o;
    rp_buf_add(idx, MAGIC, 9);
    add_number(idx, 1, 8);
    add_number(idx, width == 2 ? 8 : 4, 1);
    add_number(idx, n, 8);
    add_number(idx, n + 1, 8);
    for (int64_t i = first; i < end; i++) {
        int64_t length = rp_token_docs_length(d, i);
        if (length > INT32_MAX)
            return rp_fail(
                err, RP_USAGE,
                "data.format megatron: document %lld (from 0) has %lld tokens, more than a sequence can have",
                (long long)i, (long long)length);
        add_number(idx, length, 4);
    }
    for (int64_t i = first; i < end; at += width * rp_token_docs_length(d, i++))
        add_number(idx, at, 8);
    for (int64_t i = 0; i <= n; i++)
        add_number(idx, i, 8);
    rp_token_docs_write(bin, d, first, end, 0, width);
    return 0;
}
