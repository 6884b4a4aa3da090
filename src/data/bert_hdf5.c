/* Samples of BERT pre-training in HDF5 files, as create_pretraining_data.py of NVIDIA's DeepLearningExamples (PyTorch)
 * writes them: in the root group the data sets
 *
 *     input_ids, input_mask, segment_ids           [samples, sequence length]
 *     masked_lm_positions, masked_lm_ids           [samples, predictions]
 *     next_sentence_labels                         [samples]
 *
 * of integers of any width. There are no weights: as its training does, the predictions before the first position 0,
 * where [CLS] stands, count 1, and the others 0. */
#include "base/buf.h"
#include "data/bert_set.h"
#include "data/hdf5.h"

#include <stdlib.h>
#include <string.h>

enum { TABLES = 6 };
static const int field_of[TABLES] = {RP_BERT_INPUT_IDS, RP_BERT_INPUT_MASK, RP_BERT_SEGMENT_IDS,
                                     RP_BERT_POSITIONS, RP_BERT_IDS,        RP_BERT_LABEL};
enum { AT_POSITIONS = 3 };

struct bert_hdf5 {
    struct rp_bert_set set;
    struct rp_files files;
    struct rp_h5_cache *cache;
    struct rp_h5 *h;     /* [files.n] */
    int64_t *first;      /* [files.n + 1] number of the first record of each file */
    int64_t *positions;  /* of the record that was read last */
};

static struct bert_hdf5 *hdf5(struct rp_bert_set *s)
{
    return (struct bert_hdf5 *)s;
}

/* All tables have a row for each sample. */
static int check_rows(const struct bert_hdf5 *x, const struct rp_h5 *h, struct rp_err *err)
{
    for (int i = 1; i < TABLES; i++)
        if (h->table[i].rows != h->table[0].rows)
            return rp_fail(err, RP_MALFORMED,
                           "'%s', data set '%s' has %lld rows, '%s' has %lld: expected one for each sample",
                           x->files.file[h->file].name, h->table[i].name, (long long)h->table[i].rows, h->table[0].name,
                           (long long)h->table[0].rows);
    return 0;
}

static int open_hdf5(struct rp_bert_set *s, const char *path, struct rp_err *err)
{
    struct bert_hdf5 *x = hdf5(s);
    const char *name[TABLES];
    x->files.last = -1; /* closed also if there are none */
    if (rp_data_list(s->base.format, &x->files, path, err) < 0)
        return -1;
    s->files = &x->files;
    x->cache = rp_h5_cache_new(0);
    x->h = rp_alloc((size_t)x->files.n * sizeof *x->h);
    x->first = rp_alloc(((size_t)x->files.n + 1) * sizeof *x->first);
    for (int i = 0; i < TABLES; i++)
        name[i] = s->field[field_of[i]].name;
    for (int i = 0; i < x->files.n; i++) {
        if (rp_h5_open(&x->h[i], &x->files, i, x->cache, name, TABLES, err) < 0 || check_rows(x, &x->h[i], err) < 0)
            return -1;
        x->first[i + 1] = x->first[i] + x->h[i].table[0].rows;
    }
    s->count = x->first[x->files.n];
    return s->count ? 0 : rp_fail(err, RP_MALFORMED, "'%s' has no samples", path);
}

static void close_hdf5(struct rp_bert_set *s)
{
    struct bert_hdf5 *x = hdf5(s);
    for (int i = 0; x->h && i < x->files.n; i++)
        rp_h5_close(&x->h[i]);
    rp_h5_cache_free(x->cache);
    rp_files_close(&x->files);
    free(x->h);
    free(x->first);
    free(x->positions);
}

static int file_of(const struct bert_hdf5 *x, int64_t record)
{
    /* the last file whose first record is at or before it; empty files share a start */
    int lo = 0, hi = x->files.n - 1;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (x->first[mid] <= record)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static int read_weights(struct bert_hdf5 *x, struct rp_h5 *h, int64_t row, struct rp_example_field *f,
                        struct rp_err *err)
{
    const struct rp_h5_table *t = &h->table[AT_POSITIONS];
    f->found = RP_EXAMPLE_FLOAT;
    f->count = (size_t)t->columns;
    if (f->cap != f->count) /* not wanted, or refused */
        return 0;
    x->positions = rp_realloc(x->positions, f->count * sizeof *x->positions);
    if (rp_h5_row(h, AT_POSITIONS, row, x->positions, err) < 0)
        return -1;
    float weight = 1;
    for (size_t k = 0; k < f->count; k++) {
        weight = x->positions[k] == 0 ? 0 : weight;
        f->out.f32[k] = weight;
    }
    return 0;
}

static int read_hdf5(struct rp_bert_set *s, int64_t record, struct rp_err *err)
{
    struct bert_hdf5 *x = hdf5(s);
    const int file = file_of(x, record);
    struct rp_h5 *h = &x->h[file];
    const int64_t row = record - x->first[file];
    for (int i = 0; i < TABLES; i++) {
        struct rp_example_field *f = &s->field[field_of[i]];
        f->found = RP_EXAMPLE_INT64;
        f->count = (size_t)h->table[i].columns;
        if (f->cap == f->count && rp_h5_row(h, i, row, f->out.i64, err) < 0)
            return -1;
    }
    return read_weights(x, h, row, &s->field[RP_BERT_WEIGHTS], err);
}

static int place_hdf5(const struct rp_bert_set *s, int64_t record, struct rp_err *err)
{
    const struct bert_hdf5 *x = (const struct bert_hdf5 *)s;
    const int file = file_of(x, record);
    return rp_wrap(err, "'%s', record %lld (from 0)", x->files.file[file].name, (long long)(record - x->first[file]));
}

static const struct rp_bert_reader reader = {sizeof(struct bert_hdf5), open_hdf5, close_hdf5, read_hdf5, place_hdf5};

static struct rp_dataset *hdf5_open(const char *path, const struct rp_sample_field *field, int n,
                                    const struct rp_data_opts *o, struct rp_err *err)
{
    return rp_bert_open(&rp_data_format_bert_hdf5, &reader, path, field, n, o, err);
}

static int hdf5_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                      struct rp_err *err)
{
    return rp_bert_probe(&rp_data_format_bert_hdf5, path, o, field, n, err);
}

/* Chunks that are kept unpacked. */
static uint64_t hdf5_working_bytes(const struct rp_data_opts *o)
{
    (void)o;
    return RP_H5_CACHE_BYTES;
}

const struct rp_data_format rp_data_format_bert_hdf5 = {
    .name = "bert_hdf5",
    .summary = "BERT pre-training: HDF5 files of NVIDIA's DeepLearningExamples",
    .in_name = ".hdf5|.h5",
    .endings = {".hdf5"},
    .probe = hdf5_probe,
    .open = hdf5_open,
    .close = rp_bert_close,
    .count = rp_bert_count,
    .get = rp_bert_get,
    .working_bytes = hdf5_working_bytes,
    .check = rp_bert_check,
};
