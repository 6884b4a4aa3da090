#include "train/safetensors.h"

#include "base/buf.h"
#include "base/foreign.h"
#include "base/json.h"
#include "base/text.h"
#include "train/torch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Types that a file may have; the caller decides which it accepts. */
static const struct {
    const char *name;
    int bytes;
} dtypes[] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
              {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};

static uint64_t dtype_bytes(const char *dtype) /* 0: unknown */
{
    size_t i = 0;
    while (i < sizeof dtypes / sizeof *dtypes && strcmp(dtype, dtypes[i].name) != 0)
        i++;
    return i < sizeof dtypes / sizeof *dtypes ? (uint64_t)dtypes[i].bytes : 0;
}

void rp_st_shape(char out[128], int dims, const int64_t *shape)
{
    int n = snprintf(out, 128, "[");
    for (int i = 0; i < dims && n < 100; i++)
        n += snprintf(out + n, 128 - (size_t)n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(out + n, 128 - (size_t)n, "]");
}

/* -- reading -- */

static int read_exactly(const struct rp_st *st, uint64_t at, void *out, size_t size, const char *what,
                        struct rp_err *err)
{
    ssize_t n = rp_pread_all(st->fd, out, size, at);
    if (n < 0)
        return rp_fail(err, RP_IO, "cannot read %s of '%s': %s", what, st->path, strerror(errno));
    return (size_t)n == size ? 0 : rp_fail(err, RP_MALFORMED, "'%s' ends in %s: the file is cut short", st->path, what);
}

static int fail_tensor(const struct rp_st *st, const char *name, const char *why, struct rp_err *err)
{
    char text[64];
    return rp_fail(err, RP_MALFORMED, "'%s', tensor '%s': %s", st->path, rp_ascii(text, sizeof text, name), why);
}

/* Shape and dtype -> bytes of one tensor, at most `most`. */
static int shape_of(const struct rp_st *st, struct rp_st_tensor *t, const json_t *shape, uint64_t most, uint64_t *bytes,
                    struct rp_err *err)
{
    uint64_t n = dtype_bytes(t->dtype);
    if (n == 0)
        return fail_tensor(st, t->name, "unknown dtype (expected F32)", err);
    if (!json_is_array(shape) || json_array_size(shape) > RP_ST_DIMS)
        return fail_tensor(st, t->name, "shape is not a list of at most 8 sizes", err);
    t->dims = (int)json_array_size(shape);
    for (int i = 0; i < t->dims; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return fail_tensor(st, t->name, "shape holds something that is not a size", err);
        t->shape[i] = json_integer_value(d);
        if (__builtin_mul_overflow(n, (uint64_t)t->shape[i], &n) || n > most)
            return fail_tensor(st, t->name, "shape needs more bytes than the file has", err);
    }
    *bytes = n;
    return 0;
}

static int entry_of(const struct rp_st *st, struct rp_st_tensor *t, const char *name, const json_t *j,
                    uint64_t data_bytes, struct rp_err *err)
{
    const json_t *dtype = json_object_get(j, "dtype"), *offsets = json_object_get(j, "data_offsets");
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    uint64_t bytes = 0;
    if (!json_is_string(dtype) || json_object_size(j) != 3)
        return fail_tensor(st, name, "expected exactly dtype, shape and data_offsets", err);
    t->name = name;
    t->dtype = json_string_value(dtype);
    if (shape_of(st, t, json_object_get(j, "shape"), data_bytes, &bytes, err) < 0)
        return -1;
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e) || json_integer_value(b) < 0 ||
        json_integer_value(e) < json_integer_value(b) || (uint64_t)json_integer_value(e) > data_bytes)
        return fail_tensor(st, name, "data_offsets are not [begin, end] inside the file", err);
    t->begin = (uint64_t)json_integer_value(b);
    t->end = (uint64_t)json_integer_value(e);
    if (t->end - t->begin != bytes)
        return fail_tensor(st, name, "data_offsets do not span the bytes that shape and dtype need", err);
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct rp_st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rp_st_tensor *)a)->name, ((const struct rp_st_tensor *)b)->name);
}

/* shared: tensors may have bytes in common, and there are others between them. */
static int entries_of(struct rp_st *st, uint64_t data_bytes, bool shared, struct rp_err *err)
{
    const char *name;
    json_t *j;
    st->t = rp_alloc((json_object_size(st->header) + 1) * sizeof *st->t);
    json_object_foreach(st->header, name, j) {
        if (!strcmp(name, "__metadata__")) {
            if (!json_is_object(j))
                return fail_tensor(st, name, "metadata is not an object", err);
            continue;
        }
        if (entry_of(st, &st->t[st->n], name, j, data_bytes, err) < 0)
            return -1;
        st->n++;
    }
    qsort(st->t, (size_t)st->n, sizeof *st->t, by_offset);
    uint64_t at = 0;
    for (int i = 0; i < st->n && !shared; i++) {
        if (st->t[i].begin != at)
            return fail_tensor(
                st, st->t[i].name,
                st->t[i].begin < at ? "its data overlaps another tensor" : "there is a hole before its data", err);
        at = st->t[i].end;
    }
    if (at != data_bytes && !shared)
        return rp_fail(err, RP_MALFORMED, "'%s': %llu bytes follow the last tensor", st->path,
                       (unsigned long long)(data_bytes - at));
    qsort(st->t, (size_t)st->n, sizeof *st->t, by_name);
    return 0;
}

/* Checkpoints in other forms, whose first bytes would be too long a header, with the command that makes a safetensors
 * file of them. */
static int refuse_other_tool(const char *path, const unsigned char *word, struct rp_err *err)
{
    const unsigned char llmc[] = {0xc6, 0xd7, 0x34, 0x01}; /* 20240326 */
    if (word[0] == 0x80 && word[1] >= 2 && word[1] <= 5)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is a file of torch.save in the form of before PyTorch 1.6: write it again: python3 -c "
                       "\"import torch; torch.save(torch.load('FILE', 'cpu'), 'NEW.pth')\"",
                       path);
    if (memcmp(word, llmc, 4) == 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is a checkpoint of llm.c: make a directory of transformers of it with llm.c's "
                       "'python3 dev/eval/export_hf.py --input FILE --output DIR --dtype float32'",
                       path);
    return 0;
}

static int open_file(struct rp_st *st, const char *path, struct rp_err *err)
{
    struct stat s;
    unsigned char word[8];
    uint64_t length = 0;
    st->path = rp_strdup(path);
    st->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block before it is refused */
    if (st->fd < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    if (fstat(st->fd, &s) < 0 || !S_ISREG(s.st_mode))
        return rp_fail(err, RP_IO, "'%s' is not a regular file", path);
    if (s.st_size < (off_t)sizeof word)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is not a safetensors file: it has %lld byte%s, fewer than the length of a header takes",
                       path, (long long)s.st_size, rp_s(s.st_size));
    if (read_exactly(st, 0, word, sizeof word, "the length of its header", err) < 0)
        return -1;
    const char *kind = rp_foreign_kind_fd(st->fd);
    if (kind)
        return rp_fail(err, RP_MALFORMED, "'%s' %s", path, kind);
    if (rp_is_torch_file(word)) {
        st->header = rp_torch_header(st->fd, (uint64_t)s.st_size, path, err);
        return st->header ? entries_of(st, (uint64_t)s.st_size, true, err) : -1;
    }
    for (int i = 7; i >= 0; i--)
        length = length << 8 | word[i];
    if (length > RP_ST_HEADER_MAX && refuse_other_tool(path, word, err) < 0)
        return -1;
    if (length > RP_ST_HEADER_MAX || length + 8 > (uint64_t)s.st_size)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is not a safetensors file, or is truncated: its header should have %llu bytes, "
                       "expected at most %u and less than the file",
                       path, (unsigned long long)length, RP_ST_HEADER_MAX);
    RP_FREE char *text = rp_alloc((size_t)length + 1);
    if (read_exactly(st, 8, text, (size_t)length, "its header", err) < 0)
        return -1;
    st->header = rp_json_parse(text, (size_t)length, path, err);
    if (!st->header)
        return -1;
    if (!json_is_object(st->header))
        return rp_fail(err, RP_MALFORMED, "'%s': the header is not a JSON object", path);
    st->data = 8 + length;
    return entries_of(st, (uint64_t)s.st_size - st->data, false, err);
}

int rp_st_open(struct rp_st *st, const char *path, struct rp_err *err)
{
    *st = (struct rp_st){.fd = -1};
    if (open_file(st, path, err) < 0) {
        rp_st_close(st);
        return -1;
    }
    return 0;
}

/* -- several files -- */

static int find_shard(const struct rp_st *st, const char *path)
{
    int i = 0;
    while (i < st->shards && strcmp(st->shard[i].path, path) != 0)
        i++;
    return i;
}

/* Opens the files that the map names; each once. */
static int open_shards(struct rp_st *st, const json_t *map, struct rp_err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)map, name, v) {
        const char *file = json_string_value(v);
        if (!file || !*file || strchr(file, '/'))
            return fail_tensor(st, name, "expected the name of a file next to the index", err);
        const int folder = (int)(rp_base_name(st->path) - st->path);
        RP_FREE char *path = rp_asprintf("%.*s%s", folder, st->path, file);
        if (find_shard(st, path) < st->shards)
            continue;
        st->shard = rp_realloc(st->shard, ((size_t)st->shards + 1) * sizeof *st->shard);
        if (rp_st_open(&st->shard[st->shards], path, err) < 0)
            return rp_wrap(err, "'%s'", st->path);
        st->n += st->shard[st->shards++].n;
    }
    return 0;
}

/* One list of all tensors, which has to be the map. */
static int merge_shards(struct rp_st *st, const json_t *map, struct rp_err *err)
{
    int n = 0;
    st->t = rp_alloc(((size_t)st->n + 1) * sizeof *st->t);
    for (int k = 0; k < st->shards; k++)
        for (int i = 0; i < st->shard[k].n; i++) {
            st->t[n] = st->shard[k].t[i];
            st->t[n].shard = k;
            const char *file = json_string_value(json_object_get(map, st->t[n].name));
            if (!file || strcmp(file, rp_base_name(st->shard[k].path)) != 0)
                return fail_tensor(&st->shard[k], st->t[n].name,
                                   "the index does not list it there: do the files belong together?", err);
            n++;
        }
    qsort(st->t, (size_t)n, sizeof *st->t, by_name);
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)map, name, v)
        if (!rp_st_find(st, name))
            return fail_tensor(st, name, "the file that should have it lacks it: do the files belong together?", err);
    return 0;
}

static int open_index(struct rp_st *st, const char *path, struct rp_err *err)
{
    RP_BUF text = {0};
    st->path = rp_strdup(path);
    if (rp_read_file(&text, path, RP_ST_HEADER_MAX, err) < 0)
        return -1;
    const char *kind = rp_foreign_kind(text.data, text.size);
    if (kind)
        return rp_fail(err, RP_MALFORMED, "'%s' %s", path, kind);
    RP_JSON *index = rp_json_parse(rp_buf_text(&text), text.size, path, err);
    if (!index)
        return -1;
    const json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        return rp_fail(err, RP_MALFORMED, "'%s': expected a \"weight_map\" of tensors and their files", path);
    return open_shards(st, map, err) < 0 ? -1 : merge_shards(st, map, err);
}

int rp_st_open_index(struct rp_st *st, const char *path, struct rp_err *err)
{
    *st = (struct rp_st){.fd = -1};
    if (open_index(st, path, err) < 0) {
        rp_st_close(st);
        return -1;
    }
    return 0;
}

void rp_st_unwrap_names(struct rp_st *st)
{
    static const char *const wrappers[] = {"module.", "_orig_mod.", "module."};
    for (size_t w = 0; w < sizeof wrappers / sizeof *wrappers; w++) {
        const size_t length = strlen(wrappers[w]);
        int all = 0;
        while (all < st->n && strncmp(st->t[all].name, wrappers[w], length) == 0)
            all++;
        for (int i = 0; all == st->n && i < st->n; i++) /* the order stays */
            st->t[i].name += length;
    }
}

void rp_st_close(struct rp_st *st)
{
    for (int i = 0; i < st->shards; i++)
        rp_st_close(&st->shard[i]);
    free(st->shard);
    if (st->fd >= 0)
        close(st->fd);
    json_decref(st->header);
    free(st->t);
    free(st->path);
    *st = (struct rp_st){.fd = -1};
}

const struct rp_st_tensor *rp_st_find(const struct rp_st *st, const char *name)
{
    struct rp_st_tensor key = {.name = name};
    return st->n ? bsearch(&key, st->t, (size_t)st->n, sizeof *st->t, by_name) : NULL;
}

const char *rp_st_metadata(const struct rp_st *st, const char *key)
{
    return json_string_value(json_object_get(json_object_get(st->header, "__metadata__"), key));
}

int rp_st_read(const struct rp_st *st, const struct rp_st_tensor *t, uint64_t offset, void *out, size_t size,
               struct rp_err *err)
{
    RP_BUG_IF(offset > t->end - t->begin || size > t->end - t->begin - offset);
    const struct rp_st *in = st->shards ? &st->shard[t->shard] : st;
    return read_exactly(in, in->data + t->begin + offset, out, size, t->name, err);
}

/* IEEE 754 binary16, 1 + 5 + 10 bits. A subnormal m * 2^-24 is (1024 + m) * 2^-24 less 2^-14, both exact in fp32. */
static float widen_half(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = h >> 10 & 31, fraction = h & 1023;
    uint32_t bits =
        exponent == 31 ? 0x7f800000 | fraction << 13 : ((exponent ? exponent : 1) + 112) << 23 | fraction << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    if (!exponent)
        x -= 0x1p-14f;
    memcpy(&bits, &x, sizeof bits);
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

int rp_st_is_float(const struct rp_st_tensor *t)
{
    return strcmp(t->dtype, "F32") == 0 || strcmp(t->dtype, "F16") == 0 || strcmp(t->dtype, "BF16") == 0;
}

int rp_st_read_floats(const struct rp_st *st, const struct rp_st_tensor *t, uint64_t first, float *out, size_t n,
                      struct rp_err *err)
{
    if (strcmp(t->dtype, "F32") == 0)
        return rp_st_read(st, t, first * sizeof *out, out, n * sizeof *out, err);
    const int brain = strcmp(t->dtype, "BF16") == 0;
    const char *half = (char *)out + n * sizeof(uint16_t); /* the upper half, which is widened from its start on */
    if (rp_st_read(st, t, first * sizeof(uint16_t), (char *)out + n * sizeof(uint16_t), n * sizeof(uint16_t), err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, half + i * sizeof h, sizeof h);
        const uint32_t bits = (uint32_t)h << 16;
        if (brain)
            memcpy(&out[i], &bits, sizeof bits);
        else
            out[i] = widen_half(h);
    }
    return 0;
}

/* -- writing -- */

static json_t *header_of(struct rp_st_tensor *t, int n, const json_t *metadata)
{
    json_t *header = json_object();
    uint64_t at = 0;
    if (metadata)
        json_object_set_new(header, "__metadata__", json_deep_copy(metadata));
    for (int i = 0; i < n; i++) {
        const char *dtype = t[i].dtype ? t[i].dtype : "F32";
        uint64_t bytes = dtype_bytes(dtype);
        RP_BUG_IF(strcmp(dtype, "I64") != 0 && t[i].dtype && !rp_st_is_float(&t[i]));
        json_t *shape = json_array();
        for (int d = 0; d < t[i].dims; d++) {
            bytes *= (uint64_t)t[i].shape[d];
            json_array_append_new(shape, json_integer(t[i].shape[d]));
        }
        t[i].begin = at;
        t[i].end = at += bytes;
        json_object_set_new(header, t[i].name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                                      (json_int_t)t[i].begin, (json_int_t)t[i].end));
    }
    return header;
}

char *rp_st_temporary(const char *path, pid_t pid)
{
    return rp_asprintf("%s.%ld.part", path, (long)pid);
}

int rp_st_create(struct rp_st_writer *w, const char *path, struct rp_st_tensor *t, int n, const json_t *metadata,
                 struct rp_err *err)
{
    RP_JSON *header = header_of(t, n, metadata);
    RP_BUF head = {0};
    unsigned char word[8];
    size_t length = json_dumpb(header, NULL, 0, JSON_COMPACT), padded = (length + 7) & ~(size_t)7;
    RP_FREE char *text = rp_alloc(length + 1);
    RP_BUG_IF(json_dumpb(header, text, length, JSON_COMPACT) != length);
    for (int i = 0; i < 8; i++)
        word[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    rp_buf_add(&head, word, sizeof word);
    rp_buf_add(&head, text, length);
    for (size_t i = length; i < padded; i++)
        rp_buf_add(&head, " ", 1); /* tensors start on 8 bytes */
    *w = (struct rp_st_writer){.path = rp_strdup(path), .temporary = rp_st_temporary(path, getpid())};
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    w->fd = open(w->temporary, flags, 0666);
    if (w->fd < 0 && errno == EEXIST && unlink(w->temporary) == 0) /* of a process that had our number and was killed */
        w->fd = open(w->temporary, flags, 0666);
    if (w->fd < 0) {
        (void)rp_fail(err, RP_IO, "cannot make a temporary file next to '%s': %s", path, strerror(errno));
        rp_st_abort(w);
        return -1;
    }
    if (rp_st_append(w, head.data, head.size, err) < 0) {
        rp_st_abort(w);
        return -1;
    }
    return 0;
}

int rp_st_append(struct rp_st_writer *w, const void *data, size_t size, struct rp_err *err)
{
    if (rp_write_all(w->fd, data, size) < 0)
        return rp_fail(err, RP_IO, "cannot write '%s': %s", w->temporary, strerror(errno));
    return 0;
}

int rp_st_commit(struct rp_st_writer *w, struct rp_err *err)
{
    int status = 0;
    if (fsync(w->fd) < 0)
        status = rp_fail(err, RP_IO, "cannot write '%s' to disk: %s", w->temporary, strerror(errno));
    else if (rename(w->temporary, w->path) < 0)
        status = rp_fail(err, RP_IO, "cannot rename '%s' to '%s': %s", w->temporary, w->path, strerror(errno));
    else {
        free(w->temporary);
        w->temporary = NULL;
    }
    rp_st_abort(w);
    return status;
}

void rp_st_abort(struct rp_st_writer *w)
{
    if (!w->path)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temporary)
        unlink(w->temporary);
    free(w->temporary);
    free(w->path);
    *w = (struct rp_st_writer){.fd = -1};
}
