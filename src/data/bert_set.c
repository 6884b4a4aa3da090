/* The fields of BERT's samples, their checks and what is counted. */
#include "data/bert_set.h"

#include "base/buf.h"
#include "data/shuffle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 65536
#define IDS_END ((int64_t)INT32_MAX + 1)

static const char *const length_key[RP_BERT_LENGTHS] = {"task.seq_length", "task.max_predictions_per_seq",
                                                        "one per record"};

static const struct {
    const char *name;
    enum rp_example_kind kind;
    enum rp_dtype dtype;
    int length;
    int64_t below, most; /* values are below: in public data, and at most; 0: positions in the sequence */
    const char *range;
} fields[RP_BERT_FIELDS] = {
    [RP_BERT_INPUT_IDS] = {"input_ids", RP_EXAMPLE_INT64, RP_I32, RP_BERT_SEQ, 30522, IDS_END, "model.vocab_size"},
    [RP_BERT_INPUT_MASK] = {"input_mask", RP_EXAMPLE_INT64, RP_U8, RP_BERT_SEQ, 2, 2, "0: padding, 1: token"},
    [RP_BERT_SEGMENT_IDS] = {"segment_ids", RP_EXAMPLE_INT64, RP_I32, RP_BERT_SEQ, 2, IDS_END, "model.type_vocab_size"},
    [RP_BERT_POSITIONS] = {"masked_lm_positions", RP_EXAMPLE_INT64, RP_I32, RP_BERT_PREDICTIONS, 0, 0,
                           "task.seq_length"},
    [RP_BERT_IDS] = {"masked_lm_ids", RP_EXAMPLE_INT64, RP_I32, RP_BERT_PREDICTIONS, 30522, IDS_END,
                     "model.vocab_size"},
    [RP_BERT_WEIGHTS] = {"masked_lm_weights", RP_EXAMPLE_FLOAT, RP_F32, RP_BERT_PREDICTIONS, 0, 0, NULL},
    [RP_BERT_LABEL] = {"next_sentence_labels", RP_EXAMPLE_INT64, RP_I32, RP_BERT_ONE, 2, 2, "0: follows, 1: random"},
};

static struct rp_bert_set *bert(struct rp_dataset *d)
{
    return (struct rp_bert_set *)d;
}

/* ---- open ---- */

static int unknown_field(const struct rp_bert_set *d, const char *name, struct rp_err *err)
{
    RP_BUF names = {0};
    for (int id = 0; id < RP_BERT_FIELDS; id++)
        rp_buf_printf(&names, "%s%s", id ? ", " : "", fields[id].name);
    return rp_fail(err, RP_USAGE, "data.format %s has no field '%s', only %s; choose another data.format",
                   d->base.format->name, name, rp_buf_text(&names));
}

static int add_field(struct rp_bert_set *d, int i, const struct rp_sample_field *want, struct rp_err *err)
{
    int id = 0;
    while (id < RP_BERT_FIELDS && strcmp(fields[id].name, want->name) != 0)
        id++;
    if (id == RP_BERT_FIELDS)
        return unknown_field(d, want->name, err);
    RP_BUG_IF(d->row[id] >= 0);
    if (want->dtype != fields[id].dtype)
        return rp_fail(err, RP_USAGE, "field '%s' of data.format %s has elements %s, not %s", want->name,
                       d->base.format->name, rp_dtype_name(fields[id].dtype), rp_dtype_name(want->dtype));
    long *length = &d->length[fields[id].length];
    if (want->count < 1 || want->count > COUNT_MAX)
        return rp_fail(err, RP_USAGE, "field '%s': a record cannot have %ld values, expected 1..%d", want->name,
                       want->count, COUNT_MAX);
    if (*length && want->count != *length)
        return rp_fail(err, RP_USAGE, "field '%s': %ld values are wanted, but records of data.format %s have %ld (%s)",
                       want->name, want->count, d->base.format->name, *length, length_key[fields[id].length]);
    *length = want->count;
    d->row[id] = i;
    d->below[id] = want->below;
    return 0;
}

static void size_fields(struct rp_bert_set *d)
{
    for (int id = 0; id < RP_BERT_FIELDS; id++) {
        struct rp_example_field *f = &d->field[id];
        int64_t most = fields[id].most ? fields[id].most : d->length[RP_BERT_SEQ] ? d->length[RP_BERT_SEQ] : COUNT_MAX;
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

void rp_bert_close(struct rp_dataset *base)
{
    struct rp_bert_set *d = bert(base);
    if (!d)
        return;
    d->reader->close(d);
    for (int id = 0; id < RP_BERT_FIELDS; id++)
        free(d->values[id]);
    free(d);
}

struct rp_dataset *rp_bert_open(const struct rp_data_format *format, const struct rp_bert_reader *reader,
                                const char *path, const struct rp_sample_field *field, int n,
                                const struct rp_data_opts *o, struct rp_err *err)
{
    struct rp_bert_set *d = rp_alloc(reader->size);
    int failed = 0;
    *d = (struct rp_bert_set){
        .base.format = format, .reader = reader, .shuffle = o->shuffle, .seed = o->seed, .length[RP_BERT_ONE] = 1};
    memset(d->row, -1, sizeof d->row);
    for (int i = 0; !failed && i < n; i++)
        failed = add_field(d, i, &field[i], err) < 0;
    size_fields(d);
    if (failed || reader->open(d, path, err) < 0) {
        rp_bert_close(&d->base);
        return NULL;
    }
    return &d->base;
}

int64_t rp_bert_count(const struct rp_dataset *d)
{
    return ((const struct rp_bert_set *)d)->count;
}

/* ---- one record ---- */

static int check_form(const struct rp_bert_set *d, int id, struct rp_err *err)
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
    if (fields[id].length == RP_BERT_ONE)
        return rp_fail(err, RP_MALFORMED, "field '%s': %zu values, expected 1", n, f->count);
    const char *key = length_key[fields[id].length];
    return rp_fail(err, RP_MALFORMED,
                   "field '%s': %zu values, but %s is %zu; the file was made for another length: try --set %s=%zu, or "
                   "make the data again",
                   n, f->count, key, f->cap, key, f->count);
}

static int check_range(const struct rp_bert_set *d, int id, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[id];
    for (size_t k = 0; k < f->cap; k++)
        if (f->out.i64[k] < 0 || f->out.i64[k] >= d->below[id])
            return rp_fail(err, RP_MALFORMED, "field '%s': value %zu (from 0) is %lld, expected 0..%lld (%s)", f->name,
                           k, (long long)f->out.i64[k], (long long)d->below[id] - 1, fields[id].range);
    return 0;
}

static int check_mask(const struct rp_bert_set *d, struct rp_err *err)
{
    const struct rp_example_field *f = &d->field[RP_BERT_INPUT_MASK];
    for (size_t k = 0; k < f->cap; k++)
        if (f->out.i64[k])
            return 0;
    return rp_fail(err, RP_MALFORMED, "field '%s': all zero, expected at least one token", f->name);
}

static int check_weights(const struct rp_bert_set *d, struct rp_err *err)
{
    const struct rp_example_field *w = &d->field[RP_BERT_WEIGHTS], *p = &d->field[RP_BERT_POSITIONS],
                                  *mask = &d->field[RP_BERT_INPUT_MASK];
    for (size_t k = 0; k < w->cap; k++) {
        float x = w->out.f32[k];
        if (!isfinite(x) || x < 0)
            return rp_fail(err, RP_MALFORMED,
                           "field '%s': value %zu (from 0) is %g, expected a finite number, 0 or more", w->name, k,
                           (double)x);
        if (x > 0 && p->cap && mask->cap && !mask->out.i64[p->out.i64[k]])
            return rp_fail(err, RP_MALFORMED,
                           "field '%s': value %zu (from 0) is %lld, which is padding (input_mask is 0 there)", p->name,
                           k, (long long)p->out.i64[k]);
    }
    return 0;
}

static int check_record(const struct rp_bert_set *d, struct rp_err *err)
{
    for (int id = 0; id < RP_BERT_FIELDS; id++)
        if (d->row[id] >= 0 && check_form(d, id, err) < 0)
            return -1;
    for (int id = 0; id < RP_BERT_FIELDS; id++)
        if (d->row[id] >= 0 &&
            ((fields[id].range && check_range(d, id, err) < 0) || (id == RP_BERT_INPUT_MASK && check_mask(d, err) < 0)))
            return -1;
    return check_weights(d, err);
}

static int load_record(struct rp_bert_set *d, int64_t record,
                       int (*check)(const struct rp_bert_set *d, struct rp_err *err), struct rp_err *err)
{
    return d->reader->read(d, record, err) < 0 || check(d, err) < 0 ? d->reader->place(d, record, err) : 0;
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

int rp_bert_get(struct rp_dataset *base, int64_t sample, void *const *row, struct rp_err *err)
{
    struct rp_bert_set *d = bert(base);
    if (load_record(d, rp_sample_record(sample, d->count, d->shuffle, d->seed), check_record, err) < 0)
        return -1;
    for (int id = 0; id < RP_BERT_FIELDS; id++)
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
    /* label 1 */
    [SEQ_LENGTH] = {{"seq_length", "sequence length", NULL, RP_FACT_TOTAL, 0}, RP_BERT_INPUT_IDS},
    [MAX_PREDICTIONS] = {{"max_predictions_per_seq", NULL, "predictions", RP_FACT_TOTAL, 0}, RP_BERT_WEIGHTS},
    [TOKENS] = {{"tokens", "tokens", NULL, RP_FACT_PER_RECORD, 0}, RP_BERT_INPUT_MASK}, /* input_mask = 1 */
    [FULL] = {{"full_records", NULL, "full", RP_FACT_SHARE_OF_RECORDS, 0}, RP_BERT_INPUT_MASK}, /* without padding */
    [MASKED] = {{"predictions", "masked predictions", NULL, RP_FACT_PER_RECORD, 0}, RP_BERT_WEIGHTS}, /* weights > 0 */
    [RANDOM_NEXT] = {{"random_next", "random next sentence", NULL, RP_FACT_SHARE_OF_RECORDS, 0}, RP_BERT_LABEL},
    [DISTINCT_IDS] = {{"distinct_ids", "different ids", NULL, RP_FACT_TOTAL, 0}, RP_BERT_INPUT_IDS},
};

static void count_record(const struct rp_bert_set *d, int64_t value[FACT_COUNT], unsigned char *seen)
{
    const struct rp_example_field *f = d->field;
    int64_t tokens = 0;
    for (size_t k = 0; k < f[RP_BERT_INPUT_IDS].cap; k++) {
        int64_t id = f[RP_BERT_INPUT_IDS].out.i64[k];
        value[DISTINCT_IDS] += !seen[id];
        seen[id] = 1;
    }
    for (size_t k = 0; k < f[RP_BERT_INPUT_MASK].cap; k++)
        tokens += f[RP_BERT_INPUT_MASK].out.i64[k];
    for (size_t k = 0; k < f[RP_BERT_WEIGHTS].cap; k++)
        value[MASKED] += f[RP_BERT_WEIGHTS].out.f32[k] > 0;
    value[TOKENS] += tokens;
    value[FULL] += tokens == d->length[RP_BERT_SEQ];
    value[RANDOM_NEXT] += f[RP_BERT_LABEL].cap ? f[RP_BERT_LABEL].out.i64[0] : 0;
}

int rp_bert_check(struct rp_dataset *base, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                  void *arg, struct rp_err *err)
{
    struct rp_bert_set *d = bert(base);
    int64_t n = d->count,
            value[FACT_COUNT] = {
                [SEQ_LENGTH] = d->length[RP_BERT_SEQ], [MAX_PREDICTIONS] = d->length[RP_BERT_PREDICTIONS]};
    RP_FREE unsigned char *seen = rp_alloc((size_t)d->below[RP_BERT_INPUT_IDS]);
    *out = (struct rp_data_check){.files = d->files->n, .records = n};
    for (int i = 0; i < d->files->n; i++)
        out->bytes += d->files->file[i].size;
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
    return rp_files_digest(d->files, out->digest, err);
}

/* The field that defines a length. */
static const int counted[RP_BERT_LENGTHS] = {
    [RP_BERT_SEQ] = RP_BERT_INPUT_IDS, [RP_BERT_PREDICTIONS] = RP_BERT_POSITIONS, [RP_BERT_ONE] = -1};

static int check_counts(const struct rp_bert_set *d, struct rp_err *err)
{
    for (int i = 0; i < RP_BERT_ONE; i++) {
        const struct rp_example_field *f = &d->field[counted[i]];
        if (f->found != f->want || f->count == 0 || f->count > COUNT_MAX)
            return rp_fail(err, RP_MALFORMED, "field '%s': %s of %zu values, expected an int64 list of 1..%d", f->name,
                           rp_example_kind_name(f->found), f->count, COUNT_MAX);
    }
    return 0;
}

int rp_bert_probe(const struct rp_data_format *format, const char *path, const struct rp_data_opts *o,
                  struct rp_sample_field *field, int *n, struct rp_err *err)
{
    struct rp_bert_set *d = bert(format->open(path, NULL, 0, o, err));
    int failed = !d || load_record(d, 0, check_counts, err) < 0;
    for (int id = 0; !failed && id < RP_BERT_FIELDS; id++) {
        int from = counted[fields[id].length];
        long count = from < 0 ? 1 : (long)d->field[from].count;
        field[id] = (struct rp_sample_field){fields[id].name, fields[id].dtype, count, fields[id].below};
    }
    *n = failed ? 0 : RP_BERT_FIELDS;
    rp_bert_close((struct rp_dataset *)d);
    return failed ? -1 : 0;
}
