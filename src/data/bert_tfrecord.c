/* Samples of BERT pre-training: TFRecord files of tf.Example, as create_pretraining_data.py writes them.
 *
 * A caller may want only some of the fields: only those are checked, each by itself and against the others that are wanted. */
#include "data/dataset.h"

#include "base/buf.h"
#include "data/example.h"
#include "data/shuffle.h"
#include "data/tfrecord.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_IDS, INPUT_MASK, SEGMENT_IDS, POSITIONS, IDS, WEIGHTS, LABEL, FIELD_COUNT };
enum { SEQ, PREDICTIONS, ONE, LENGTH_COUNT }; /* number of values of a field, shared by several fields */
#define COUNT_MAX 65536
#define IDS_END ((int64_t)INT32_MAX + 1)

static const char *const length_key[LENGTH_COUNT] = {"task.seq_length", "task.max_predictions_per_seq", "one per record"};

static const struct {
    const char *name;
    enum rp_example_kind kind;
    enum rp_dtype dtype;
    int length;
    int64_t below, most; /* values are below: in public data, and at most; 0: positions in the sequence */
    const char *range;
} fields[FIELD_COUNT] = {
    [INPUT_IDS] = {"input_ids", RP_EXAMPLE_INT64, RP_I32, SEQ, 30522, IDS_END, "model.vocab_size"},
    [INPUT_MASK] = {"input_mask", RP_EXAMPLE_INT64, RP_U8, SEQ, 2, 2, "0: padding, 1: token"},
    [SEGMENT_IDS] = {"segment_ids", RP_EXAMPLE_INT64, RP_I32, SEQ, 2, IDS_END, "model.type_vocab_size"},
    [POSITIONS] = {"masked_lm_positions", RP_EXAMPLE_INT64, RP_I32, PREDICTIONS, 0, 0, "task.seq_length"},
    [IDS] = {"masked_lm_ids", RP_EXAMPLE_INT64, RP_I32, PREDICTIONS, 30522, IDS_END, "model.vocab_size"},
    [WEIGHTS] = {"masked_lm_weights", RP_EXAMPLE_FLOAT, RP_F32, PREDICTIONS, 0, 0, NULL},
    [LABEL] = {"next_sentence_labels", RP_EXAMPLE_INT64, RP_I32, ONE, 2, 2, "0: follows, 1: random"},
};

struct bert_data {
    struct rp_dataset base;
    struct rp_tfrecord_set set;
    int shuffle;
    uint64_t seed;
    long length[LENGTH_COUNT];   /* 0: no field of that length is wanted */
    int row[FIELD_COUNT];        /* its index among the wanted fields, -1: not wanted */
    int64_t below[FIELD_COUNT];
    struct rp_example_field field[FIELD_COUNT]; /* of the record that was read last; cap 0: not wanted */
    void *values[FIELD_COUNT];
};

static struct bert_data *bert(struct rp_dataset *d)
{
    return (struct bert_data *)d;
}

/* ---- open ---- */

static int unknown_field(const char *name, struct rp_err *err)
{
    RP_BUF names = {0};
    for (int id = 0; id < FIELD_COUNT; id++)
        rp_buf_printf(&names, "%s%s", id ? ", " : "", fields[id].name);
    return rp_fail(err, RP_USAGE, "data.format bert_tfrecord has no field '%s', only %s; choose another data.format",
                   name, rp_buf_text(&names));
}

static int add_field(struct bert_data *d, int i, const struct rp_sample_field *want, struct rp_err *err)
{
    int id = 0;
    while (id < FIELD_COUNT && strcmp(fields[id].name, want->name) != 0)
        id++;
    if (id == FIELD_COUNT)
        return unknown_field(want->name, err);
    RP_BUG_IF(d->row[id] >= 0);
    if (want->dtype != fields[id].dtype)
        return rp_fail(err, RP_USAGE, "field '%s' of data.format bert_tfrecord has elements %s, not %s", want->name,
                       rp_dtype_name(fields[id].dtype), rp_dtype_name(want->dtype));
    long *length = &d->length[fields[id].length];
    if (want->count < 1 || want->count > COUNT_MAX)
        return rp_fail(err, RP_USAGE, "field '%s': a record cannot have %ld values, expected 1..%d", want->name, want->count, COUNT_MAX);
    if (*length && want->count != *length)
        return rp_fail(err, RP_USAGE, "field '%s': %ld values are wanted, but records of data.format bert_tfrecord have %ld (%s)",
                       want->name, want->count, *length, length_key[fields[id].length]);
    *length = want->count;
    d->row[id] = i;
    d->below[id] = want->below;
    return 0;
}

static void size_fields(struct bert_data *d)
{
    for (int id = 0; id < FIELD_COUNT; id++) {
        struct rp_example_field *f = &d->field[id];
        int64_t most = fields[id].most ? fields[id].most : d->length[SEQ] ? d->length[SEQ] : COUNT_MAX;
        int64_t below = d->below[id] ? d->below[id] : fields[id].below ? fields[id].below : most;
        d->below[id] = below < most ? below : most;
        *f = (struct rp_example_field){.name = fields[id].name, .want = fields[id].kind};
        if (d->row[id] < 0)
            continue;
        f->cap = (size_t)d->length[fields[id].length];
        d->values[id] = rp_alloc(f->cap * sizeof(int64_t));
        if (f->want == RP_EXAMPLE_INT64)
            f->out.i64 = d->values[id];
        else
            f->out.f32 = d->values[id];
    }
}

static void bert_close(struct rp_dataset *base)
{
    struct bert_data *d = bert(base);
    if (!d)
        return;
    rp_tfrecord_set_fini(&d->set);
    for (int id = 0; id < FIELD_COUNT; id++)
        free(d->values[id]);
    free(d);
}

static struct rp_dataset *bert_open(const char *path, const struct rp_sample_field *field, int n, const struct rp_data_opts *o,
                                    struct rp_err *err)
{
    struct bert_data *d = rp_alloc(sizeof *d);
    int failed = 0;
    *d = (struct bert_data){.base.format = &rp_data_format_bert_tfrecord, .shuffle = o->shuffle, .seed = o->seed, .length[ONE] = 1};
    memset(d->row, -1, sizeof d->row);
    for (int i = 0; !failed && i < n; i++)
        failed = add_field(d, i, &field[i], err) < 0;
    size_fields(d);
    if (failed || rp_tfrecord_set_init(&d->set, &rp_data_format_bert_tfrecord, &rp_framing_tfrecord, path, err) < 0) {
        bert_close(&d->base);
        return NULL;
    }
    return &d->base;
}

static int64_t bert_count(const struct rp_dataset *d)
{
    return ((const struct bert_data *)d)->set.count;
}

/* ---- one record ---- */

static int check_form(const struct bert_data *d, int id, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[id];
    const char *n = f->name;
    if (f->found == RP_EXAMPLE_ABSENT)
        return rp_fail(err, RP_MALFORMED, "field '%s': missing", n);
    if (f->found != f->want)
        return rp_fail(err, RP_MALFORMED, "field '%s': %s, expected %s", n, rp_example_kind_name(f->found),
                       rp_example_kind_name(f->want));
    if (f->count == f->cap)
        return 0;
    if (fields[id].length == ONE)
        return rp_fail(err, RP_MALFORMED, "field '%s': %zu values, expected 1", n, f->count);
    const char *key = length_key[fields[id].length];
    return rp_fail(err, RP_MALFORMED,
                   "field '%s': %zu values, but %s is %zu; the file was made for another length: try --set %s=%zu, or make the data again",
                   n, f->count, key, f->cap, key, f->count);
}

static int check_range(const struct bert_data *d, int id, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[id];
    for (size_t k = 0; k < f->cap; k++)
        if (f->out.i64[k] < 0 || f->out.i64[k] >= d->below[id])
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %lld, expected 0..%lld (%s)", f->name, k,
                           (long long)f->out.i64[k], (long long)d->below[id] - 1, fields[id].range);
    return 0;
}

static int check_mask(const struct bert_data *d, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[INPUT_MASK];
    for (size_t k = 0; k < f->cap; k++)
        if (f->out.i64[k])
            return 0;
    return rp_fail(err, RP_MALFORMED, "field '%s': all zero, expected at least one token", f->name);
}

static int check_weights(const struct bert_data *d, struct rp_err *err)
{
    const struct rp_example_field *w = &d->field[WEIGHTS], *p = &d->field[POSITIONS], *mask = &d->field[INPUT_MASK];
    for (size_t k = 0; k < w->cap; k++) {
        float x = w->out.f32[k];
        if (!isfinite(x) || x < 0)
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %g, expected a finite number, 0 or more", w->name,
                           k, (double)x);
        if (x > 0 && p->cap && mask->cap && !mask->out.i64[p->out.i64[k]])
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %lld, which is padding (input_mask is 0 there)",
                           p->name, k, (long long)p->out.i64[k]);
    }
    return 0;
}

static int check_record(const struct bert_data *d, struct rp_err *err)
{
    for (int id = 0; id < FIELD_COUNT; id++)
        if (d->row[id] >= 0 && check_form(d, id, err) < 0)
            return -1;
    for (int id = 0; id < FIELD_COUNT; id++)
        if (d->row[id] >= 0 && ((fields[id].range && check_range(d, id, err) < 0) || (id == INPUT_MASK && check_mask(d, err) < 0)))
            return -1;
    return check_weights(d, err);
}

static int load_record(struct bert_data *d, int64_t record, int (*check)(const struct bert_data *d, struct rp_err *err), struct rp_err *err)
{
    const unsigned char *data;
    size_t size;
    if (rp_tfrecord_set_read(&d->set, record, &data, &size, err) < 0)
        return -1;
    if (rp_example_parse(data, size, d->field, FIELD_COUNT, err) < 0 || check(d, err) < 0)
        return rp_tfrecord_set_bad(&d->set, record, err);
    return 0;
}

static void copy_field(void *row, const struct rp_example_field *f, enum rp_dtype dtype)
{
    int32_t *i32 = row;
    uint8_t *u8 = row;
    if (dtype == RP_F32)
        memcpy(row, f->out.f32, f->cap * sizeof *f->out.f32);
    for (size_t k = 0; dtype == RP_I32 && k < f->cap; k++)
        i32[k] = (int32_t)f->out.i64[k];
    for (size_t k = 0; dtype == RP_U8 && k < f->cap; k++)
        u8[k] = (uint8_t)f->out.i64[k];
}

static int bert_get(struct rp_dataset *base, int64_t sample, void *const *row, struct rp_err *err)
{
    struct bert_data *d = bert(base);
    if (load_record(d, rp_sample_record(sample, d->set.count, d->shuffle, d->seed), check_record, err) < 0)
        return -1;
    for (int id = 0; id < FIELD_COUNT; id++)
        if (d->row[id] >= 0)
            copy_field(row[d->row[id]], &d->field[id], fields[id].dtype);
    return 0;
}

/* ---- the whole set ---- */

/* Counts that `data check` reports; each is of one field. */
enum { SEQ_LENGTH, MAX_PREDICTIONS, TOKENS, FULL, MASKED, RANDOM_NEXT, DISTINCT_IDS, FACT_COUNT };
static const struct {
    struct rp_data_fact fact;
    int field;
} facts[FACT_COUNT] = {
    [SEQ_LENGTH] = {{"seq_length", "sequence length", NULL, RP_FACT_TOTAL, 0}, INPUT_IDS},
    [MAX_PREDICTIONS] = {{"max_predictions_per_seq", NULL, "predictions", RP_FACT_TOTAL, 0}, WEIGHTS},
    [TOKENS] = {{"tokens", "tokens", NULL, RP_FACT_PER_RECORD, 0}, INPUT_MASK}, /* input_mask = 1 */
    [FULL] = {{"full_records", NULL, "full", RP_FACT_SHARE_OF_RECORDS, 0}, INPUT_MASK}, /* without padding */
    [MASKED] = {{"predictions", "masked predictions", NULL, RP_FACT_PER_RECORD, 0}, WEIGHTS}, /* weights > 0 */
    [RANDOM_NEXT] = {{"random_next", "random next sentence", NULL, RP_FACT_SHARE_OF_RECORDS, 0}, LABEL}, /* label 1 */
    [DISTINCT_IDS] = {{"distinct_ids", "different ids", NULL, RP_FACT_TOTAL, 0}, INPUT_IDS},
};

static void count_record(const struct bert_data *d, int64_t value[FACT_COUNT], unsigned char *seen)
{
    const struct rp_example_field *f = d->field;
    int64_t tokens = 0;
    for (size_t k = 0; k < f[INPUT_IDS].cap; k++) {
        int64_t id = f[INPUT_IDS].out.i64[k];
        value[DISTINCT_IDS] += !seen[id];
        seen[id] = 1;
    }
    for (size_t k = 0; k < f[INPUT_MASK].cap; k++)
        tokens += f[INPUT_MASK].out.i64[k];
    for (size_t k = 0; k < f[WEIGHTS].cap; k++)
        value[MASKED] += f[WEIGHTS].out.f32[k] > 0;
    value[TOKENS] += tokens;
    value[FULL] += tokens == d->length[SEQ];
    value[RANDOM_NEXT] += f[LABEL].cap ? f[LABEL].out.i64[0] : 0;
}

static int bert_check(struct rp_dataset *base, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all), void *arg,
                      struct rp_err *err)
{
    struct bert_data *d = bert(base);
    int64_t n = d->set.count, value[FACT_COUNT] = {[SEQ_LENGTH] = d->length[SEQ], [MAX_PREDICTIONS] = d->length[PREDICTIONS]};
    RP_FREE unsigned char *seen = rp_alloc((size_t)d->below[INPUT_IDS]);
    *out = (struct rp_data_check){.files = d->set.files.n, .records = n};
    for (int i = 0; i < d->set.files.n; i++)
        out->bytes += d->set.files.file[i].size;
    for (int64_t i = 0; i < n; i++) {
        if (tick && i % 256 == 0 && tick(arg, i, n))
            return rp_fail(err, RP_INTERRUPTED, "interrupted after %lld of %lld records", (long long)i, (long long)n);
        if (load_record(d, i, check_record, err) < 0)
            return -1;
        count_record(d, value, seen);
    }
    for (int i = 0; i < FACT_COUNT; i++)
        if (d->row[facts[i].field] >= 0) {
            out->fact[out->facts] = facts[i].fact;
            out->fact[out->facts++].value = value[i];
        }
    return rp_files_digest(&d->set.files, out->digest, err);
}

static const int counted[LENGTH_COUNT] = {[SEQ] = INPUT_IDS, [PREDICTIONS] = POSITIONS, [ONE] = -1}; /* the field that defines a length */

static int check_counts(const struct bert_data *d, struct rp_err *err)
{
    for (int i = 0; i < ONE; i++) {
        const struct rp_example_field *f = &d->field[counted[i]];
        if (f->found != f->want || f->count == 0 || f->count > COUNT_MAX)
            return rp_fail(err, RP_MALFORMED, "field '%s': %s of %zu values, expected an int64 list of 1..%d", f->name,
                           rp_example_kind_name(f->found), f->count, COUNT_MAX);
    }
    return 0;
}

static int bert_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n, struct rp_err *err)
{
    struct bert_data *d = bert(bert_open(path, NULL, 0, o, err));
    int failed = !d || load_record(d, 0, check_counts, err) < 0;
    for (int id = 0; !failed && id < FIELD_COUNT; id++) {
        int from = counted[fields[id].length];
        long count = from < 0 ? 1 : (long)d->field[from].count;
        field[id] = (struct rp_sample_field){fields[id].name, fields[id].dtype, count, fields[id].below};
    }
    *n = failed ? 0 : FIELD_COUNT;
    bert_close((struct rp_dataset *)d);
    return failed ? -1 : 0;
}

const struct rp_data_format rp_data_format_bert_tfrecord = {
    .name = "bert_tfrecord",
    .summary = "BERT pre-training: TFRecord files of tf.Example",
    .in_name = RP_TFRECORD_IN_NAME,
    .endings = {RP_TFRECORD_IN_NAME},
    .probe = bert_probe,
    .open = bert_open,
    .close = bert_close,
    .count = bert_count,
    .get = bert_get,
    .check = bert_check,
};
