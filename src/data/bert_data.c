#include "data/bert_data.h"

#include "base/buf.h"
#include "data/example.h"
#include "data/tfrecord.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a record, and which length each must have. */
#define FIELDS(X)                                                                                                      \
    X(INPUT_IDS, "input_ids", RP_EXAMPLE_INT64, seq)                                                                   \
    X(INPUT_MASK, "input_mask", RP_EXAMPLE_INT64, seq)                                                                 \
    X(SEGMENT_IDS, "segment_ids", RP_EXAMPLE_INT64, seq)                                                               \
    X(POSITIONS, "masked_lm_positions", RP_EXAMPLE_INT64, predictions)                                                 \
    X(IDS, "masked_lm_ids", RP_EXAMPLE_INT64, predictions)                                                             \
    X(WEIGHTS, "masked_lm_weights", RP_EXAMPLE_FLOAT, predictions)                                                     \
    X(LABEL, "next_sentence_labels", RP_EXAMPLE_INT64, label)

enum {
#define X(id, name, kind, length) id,
    FIELDS(X)
#undef X
    FIELD_COUNT
};

struct rp_bert_data {
    struct rp_files files;
    struct rp_bert_limits limits;
    int shuffle;
    uint64_t seed;
    uint64_t *offset; /* [count] of every record's frame in its file */
    int64_t *first;   /* [files.n + 1] number of the first record of each file */
    int64_t count;
    struct rp_example_field field[FIELD_COUNT];
    int64_t *values;  /* what the int64 fields are read into */
    float *weights;
    unsigned char *bytes; /* one record and its checksum */
    size_t bytes_cap;
};

/* ---- index ---- */

static void add_offset(struct rp_bert_data *d, uint64_t offset)
{
    if ((d->count & (d->count - 1)) == 0)
        d->offset = rp_realloc(d->offset, (d->count ? 2 * (size_t)d->count : 1) * sizeof *d->offset);
    d->offset[d->count++] = offset;
}

static int bad_record(const struct rp_bert_data *d, int file, int64_t in_file, struct rp_err *err)
{
    return rp_wrap(err, "'%s', record %lld (from 0)", d->files.file[file].name, (long long)in_file);
}

/* Heads of all frames of one file, through a window: records are small and a system call for each would dominate. */
static int index_file(struct rp_bert_data *d, int file, struct rp_err *err)
{
    enum { window = 1 << 18 };
    RP_FREE unsigned char *bytes = rp_alloc(window);
    uint64_t size = d->files.file[file].size, start = 0, end = 0, length = 0;
    d->first[file] = d->count;
    for (uint64_t at = 0; at < size; at += length + RP_TFRECORD_FRAME) {
        uint64_t left = size - at, want = left < RP_TFRECORD_HEAD ? left : RP_TFRECORD_HEAD;
        if (at < start || at + want > end) {
            start = at;
            end = left < window ? size : at + window;
            if (rp_files_read(&d->files, file, start, bytes, (size_t)(end - start), err) < 0)
                return -1;
        }
        if (rp_tfrecord_head(&length, bytes + (at - start), left, err) < 0)
            return bad_record(d, file, d->count - d->first[file], err);
        add_offset(d, at);
    }
    d->first[file + 1] = d->count;
    return 0;
}

static int build_index(struct rp_bert_data *d, const char *path, struct rp_err *err)
{
    if (rp_files_open(&d->files, path, err) < 0)
        return -1;
    d->first = rp_alloc(((size_t)d->files.n + 1) * sizeof *d->first);
    for (int i = 0; i < d->files.n; i++)
        if (index_file(d, i, err) < 0)
            return -1;
    if (d->count == 0)
        return rp_fail(err, RP_MALFORMED, "'%s' holds no records", path);
    return 0;
}

static void make_fields(struct rp_bert_data *d)
{
    const struct {
        size_t seq, predictions, label;
    } length = {(size_t)d->limits.seq, (size_t)d->limits.predictions, 1};
    d->values = rp_alloc((3 * length.seq + 2 * length.predictions + 1) * sizeof *d->values);
    d->weights = rp_alloc(length.predictions * sizeof *d->weights);
    int64_t *next = d->values;
#define X(id, name_, kind, which)                                                                                      \
    d->field[id] = (struct rp_example_field){.name = name_, .want = kind, .cap = length.which};                        \
    if (kind == RP_EXAMPLE_INT64) {                                                                                    \
        d->field[id].out.i64 = next;                                                                                   \
        next += length.which;                                                                                          \
    } else {                                                                                                           \
        d->field[id].out.f32 = d->weights;                                                                             \
    }
    FIELDS(X)
#undef X
}

struct rp_bert_data *rp_bert_data_open(const char *path, const struct rp_bert_limits *limits, int shuffle, uint64_t seed,
                                       struct rp_err *err)
{
    struct rp_bert_data *d = rp_alloc(sizeof *d);
    d->files.last = -1;
    d->limits = *limits;
    d->shuffle = shuffle;
    d->seed = seed;
    make_fields(d);
    if (build_index(d, path, err) < 0) {
        rp_bert_data_close(d);
        return NULL;
    }
    return d;
}

void rp_bert_data_close(struct rp_bert_data *d)
{
    if (!d)
        return;
    rp_files_close(&d->files);
    free(d->offset);
    free(d->first);
    free(d->values);
    free(d->weights);
    free(d->bytes);
    free(d);
}

int64_t rp_bert_data_count(const struct rp_bert_data *d)
{
    return d->count;
}

int64_t rp_bert_data_record(const struct rp_bert_data *d, int64_t sample)
{
    uint64_t n = (uint64_t)d->count, s = (uint64_t)sample;
    return (int64_t)(d->shuffle ? rp_shuffle(s % n, n, d->seed, s / n) : s % n);
}

/* ---- one record ---- */

static int file_of(const struct rp_bert_data *d, int64_t record)
{
    int lo = 0, hi = d->files.n - 1; /* the last file whose first record is not beyond; empty files share a start */
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (d->first[mid] <= record)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* The frame at `offset` into d->bytes, its data parsed into d->field. */
static int read_record(struct rp_bert_data *d, int file, uint64_t offset, struct rp_err *err)
{
    unsigned char head[RP_TFRECORD_HEAD];
    uint64_t length, left = d->files.file[file].size - offset;
    if (rp_files_read(&d->files, file, offset, head, sizeof head, err) < 0 || rp_tfrecord_head(&length, head, left, err) < 0)
        return -1;
    if (length + 4 > d->bytes_cap) {
        d->bytes_cap = (size_t)length + 4;
        d->bytes = rp_realloc(d->bytes, d->bytes_cap);
    }
    if (rp_files_read(&d->files, file, offset + sizeof head, d->bytes, (size_t)length + 4, err) < 0 ||
        rp_tfrecord_body(d->bytes, length, err) < 0)
        return -1;
    return rp_example_parse(d->bytes, (size_t)length, d->field, FIELD_COUNT, err);
}

static int check_form(const struct rp_bert_data *d, int i, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[i];
    const char *n = f->name;
    if (f->found == RP_EXAMPLE_ABSENT)
        return rp_fail(err, RP_MALFORMED, "field '%s': missing", n);
    if (f->found != f->want)
        return rp_fail(err, RP_MALFORMED, "field '%s': %s, expected %s", n, rp_example_kind_name(f->found),
                       rp_example_kind_name(f->want));
    if (f->count == f->cap)
        return 0;
    if (i == LABEL)
        return rp_fail(err, RP_MALFORMED, "field '%s': %zu values, expected 1", n, f->count);
    int seq = i <= SEGMENT_IDS;
    return rp_fail(err, RP_MALFORMED,
                   "field '%s': %zu values, but %s is %zu; the file was made for another length (try --set %s=%zu, or make the data "
                   "again)",
                   n, f->count, seq ? "task.seq_length" : "task.max_predictions_per_seq", f->cap,
                   seq ? "task.seq_length" : "task.max_predictions_per_seq", f->count);
}

/* Every value of an int64 field in 0 .. below-1. */
static int check_range(const struct rp_bert_data *d, int i, int64_t below, const char *what, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[i];
    for (size_t k = 0; k < f->count; k++)
        if (f->out.i64[k] < 0 || f->out.i64[k] >= below)
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %lld, expected 0..%lld (%s)", f->name, k,
                           (long long)f->out.i64[k], (long long)below - 1, what);
    return 0;
}

static int check_mask(const struct rp_bert_data *d, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[INPUT_MASK];
    for (size_t k = 0; k < f->count; k++)
        if (f->out.i64[k])
            return 0;
    return rp_fail(err, RP_MALFORMED, "field '%s': all zero, expected at least one token", f->name);
}

static int check_weights(const struct rp_bert_data *d, struct rp_err *err)
{
    const struct rp_example_field *w = &d->field[WEIGHTS], *p = &d->field[POSITIONS];
    for (size_t k = 0; k < w->count; k++) {
        float x = w->out.f32[k];
        if (!isfinite(x) || x < 0)
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %g, expected a finite number, 0 or more", w->name,
                           k, (double)x);
        if (x > 0 && !d->field[INPUT_MASK].out.i64[p->out.i64[k]])
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %lld, which is padding (input_mask is 0 there)",
                           p->name, k, (long long)p->out.i64[k]);
    }
    return 0;
}

static int check_record(const struct rp_bert_data *d, struct rp_err *err)
{
    const struct rp_bert_limits *l = &d->limits;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (check_form(d, i, err) < 0)
            return -1;
    if (check_range(d, INPUT_IDS, l->vocab, "model.vocab_size", err) < 0 ||
        check_range(d, INPUT_MASK, 2, "0: padding, 1: token", err) < 0 || check_mask(d, err) < 0 ||
        check_range(d, SEGMENT_IDS, l->type_vocab, "model.type_vocab_size", err) < 0 ||
        check_range(d, POSITIONS, l->seq, "task.seq_length", err) < 0 || check_range(d, IDS, l->vocab, "model.vocab_size", err) < 0 ||
        check_range(d, LABEL, 2, "0: follows, 1: random", err) < 0)
        return -1;
    return check_weights(d, err);
}

static int load_record(struct rp_bert_data *d, int64_t record, struct rp_err *err)
{
    int file = file_of(d, record);
    if (read_record(d, file, d->offset[record], err) < 0 || check_record(d, err) < 0)
        return bad_record(d, file, record - d->first[file], err);
    return 0;
}

static void narrow(int32_t *out, const struct rp_example_field *f)
{
    for (size_t k = 0; k < f->count; k++)
        out[k] = (int32_t)f->out.i64[k];
}

int rp_bert_data_get(struct rp_bert_data *d, int64_t sample, struct rp_bert_sample *out, struct rp_err *err)
{
    RP_BUG_IF(sample < 0);
    if (load_record(d, rp_bert_data_record(d, sample), err) < 0)
        return -1;
    narrow(out->input_ids, &d->field[INPUT_IDS]);
    for (size_t k = 0; k < d->field[INPUT_MASK].count; k++)
        out->input_mask[k] = (uint8_t)d->field[INPUT_MASK].out.i64[k];
    narrow(out->segment_ids, &d->field[SEGMENT_IDS]);
    narrow(out->masked_lm_positions, &d->field[POSITIONS]);
    narrow(out->masked_lm_ids, &d->field[IDS]);
    memcpy(out->masked_lm_weights, d->weights, (size_t)d->limits.predictions * sizeof *d->weights);
    out->next_sentence_label = (int32_t)d->field[LABEL].out.i64[0];
    return 0;
}

/* ---- the whole set ---- */

static void count_record(const struct rp_bert_data *d, struct rp_bert_check *c, unsigned char *seen)
{
    int64_t tokens = 0;
    for (int k = 0; k < d->limits.seq; k++) {
        int64_t id = d->field[INPUT_IDS].out.i64[k];
        tokens += d->field[INPUT_MASK].out.i64[k];
        c->distinct_ids += !seen[id];
        seen[id] = 1;
    }
    for (int k = 0; k < d->limits.predictions; k++)
        c->predictions += d->weights[k] > 0;
    c->tokens += tokens;
    c->full += tokens == d->limits.seq;
    c->random_next += d->field[LABEL].out.i64[0];
}

int rp_bert_data_check(struct rp_bert_data *d, struct rp_bert_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                       void *arg, struct rp_err *err)
{
    RP_FREE unsigned char *seen = rp_alloc((size_t)d->limits.vocab);
    *out = (struct rp_bert_check){.files = d->files.n, .records = d->count};
    for (int i = 0; i < d->files.n; i++)
        out->bytes += d->files.file[i].size;
    for (int64_t i = 0; i < d->count; i++) {
        if (tick && i % 256 == 0 && tick(arg, i, d->count))
            return rp_fail(err, RP_INTERRUPTED, "interrupted after %lld of %lld records", (long long)i, (long long)d->count);
        if (load_record(d, i, err) < 0)
            return -1;
        count_record(d, out, seen);
    }
    return rp_files_digest(&d->files, out->digest, err);
}

int rp_bert_data_probe(const char *path, struct rp_bert_limits *limits, struct rp_err *err)
{
    const struct rp_bert_limits one = {.seq = 1, .predictions = 1, .vocab = 1, .type_vocab = 1};
    struct rp_bert_data *d = rp_bert_data_open(path, &one, 0, 0, err);
    if (!d)
        return -1;
    int file = file_of(d, 0), failed = read_record(d, file, d->offset[0], err) < 0;
    const int needed[] = {INPUT_IDS, POSITIONS};
    for (int i = 0; !failed && i < 2; i++) {
        const struct rp_example_field *f = &d->field[needed[i]];
        if (f->found != f->want || f->count == 0 || f->count > 65536)
            failed = rp_fail(err, RP_MALFORMED, "field '%s': %s of %zu values, expected an int64 list of 1..65536", f->name,
                             rp_example_kind_name(f->found), f->count);
    }
    if (failed) {
        bad_record(d, file, 0, err);
    } else {
        limits->seq = (int)d->field[INPUT_IDS].count;
        limits->predictions = (int)d->field[POSITIONS].count;
    }
    rp_bert_data_close(d);
    return failed ? -1 : 0;
}
