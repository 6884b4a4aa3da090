/* Shared by the tests of src/data/: records made field by field.
 *
 * What:    struct sample, a good record of seq 8 and 2 predictions that tests spoil; reading it back.
 * Flow:    sample -> tf.Example -> TFRecord -> file.
 * Extend:  include after tap.h; a new field of BERT data gets its array here.
 */
#pragma once

#include "base/buf.h"
#include "data/archive.h"
#include "data/dataset.h"
#include "data/example.h"
#include "data/tfrecord.h"
#include "tests/unit/scratch.h"

#include <sys/stat.h>

enum { SEQ = 8, PREDICTIONS = 2, VOCAB = 50 };

/* What BERT asks its data for. */
enum { BERT_FIELDS = 7 };
#define BERT_WANTS(seq, predictions, vocab)                                                                            \
    {                                                                                                                  \
        {"input_ids", RP_I32, seq, vocab}, {"input_mask", RP_U8, seq, 2}, {"segment_ids", RP_I32, seq, 2},             \
            {"masked_lm_positions", RP_I32, predictions, seq}, {"masked_lm_ids", RP_I32, predictions, vocab},          \
            {"masked_lm_weights", RP_F32, predictions, 0}, {"next_sentence_labels", RP_I32, 1, 2},                     \
    }
static const struct rp_sample_field small_fields[BERT_FIELDS] = BERT_WANTS(SEQ, PREDICTIONS, VOCAB);

static inline struct rp_dataset *open_bert(const char *path, const struct rp_sample_field *field, int shuffle,
                                           uint64_t seed, struct rp_err *err)
{
    const struct rp_data_opts o = {.shuffle = shuffle, .seed = seed};
    return rp_data_format_find("bert_tfrecord")->open(path, field ? field : small_fields, BERT_FIELDS, &o, err);
}

static inline int write_archive(const char *path, const struct rp_archive_member *member, int n, struct rp_err *err)
{
    RP_BUF bytes = {0};
    return rp_archive_make(&bytes, path, member, n, err) < 0 ? -1
                                                             : rp_write_file(path, bytes.data, bytes.size, 0666, err);
}

static inline void close_data(struct rp_dataset *d)
{
    if (d)
        d->format->close(d);
}

static inline int check_data(struct rp_dataset *d, struct rp_data_check *c, struct rp_err *err)
{
    return d->format->check(d, c, NULL, NULL, err);
}

/* A number of the check; -1: it is not reported. */
static inline int64_t fact(const struct rp_data_check *c, const char *name)
{
    for (int i = 0; i < c->facts; i++)
        if (strcmp(c->fact[i].name, name) == 0)
            return c->fact[i].value;
    return -1;
}

struct sample {
    int64_t ids[SEQ + 2], mask[SEQ + 2], segments[SEQ + 2], positions[PREDICTIONS + 2], labels[PREDICTIONS + 2],
        next[2];
    float weights[PREDICTIONS + 2];
    struct rp_example_field field[7];
};

/* Tokens 10.. with two of padding at the end; predictions at 1 and 4. `n` makes records differ. */
static inline void good_sample(struct sample *s, int n)
{
    *s = (struct sample){.positions = {1, 4}, .labels = {11, 14}, .weights = {1, 0.5f}, .next = {n % 2}};
    for (int i = 0; i < SEQ - 2; i++) {
        s->ids[i] = 10 + (i + n) % 40;
        s->mask[i] = 1;
        s->segments[i] = i > 3;
    }
    struct rp_example_field f[7] = {
        {.name = "input_ids", .want = RP_EXAMPLE_INT64, .out.i64 = s->ids, .count = SEQ},
        {.name = "input_mask", .want = RP_EXAMPLE_INT64, .out.i64 = s->mask, .count = SEQ},
        {.name = "segment_ids", .want = RP_EXAMPLE_INT64, .out.i64 = s->segments, .count = SEQ},
        {.name = "masked_lm_positions", .want = RP_EXAMPLE_INT64, .out.i64 = s->positions, .count = PREDICTIONS},
        {.name = "masked_lm_ids", .want = RP_EXAMPLE_INT64, .out.i64 = s->labels, .count = PREDICTIONS},
        {.name = "masked_lm_weights", .want = RP_EXAMPLE_FLOAT, .out.f32 = s->weights, .count = PREDICTIONS},
        {.name = "next_sentence_labels", .want = RP_EXAMPLE_INT64, .out.i64 = s->next, .count = 1},
    };
    memcpy(s->field, f, sizeof f);
}

static inline void add_sample(struct rp_buf *file, const struct sample *s)
{
    RP_BUF message = {0};
    rp_example_write(&message, s->field, 7);
    rp_tfrecord_append(file, message.data, message.size);
}

/* A file of n good records whose ids begin at 10 + (first + i) % 40. */
static inline const char *put_samples(const char *name, int first, int n)
{
    RP_BUF file = {0};
    struct sample s;
    for (int i = 0; i < n; i++) {
        good_sample(&s, first + i);
        add_sample(&file, &s);
    }
    return put_file(name, rp_buf_text(&file), file.size);
}

/* Rows for one sample. */
struct rows {
    int32_t ids[SEQ], segments[SEQ], positions[PREDICTIONS], labels[PREDICTIONS], next;
    uint8_t mask[SEQ];
    float weights[PREDICTIONS];
};

static inline int get_sample(struct rp_dataset *d, int64_t sample, struct rows *r, struct rp_err *err)
{
    void *const row[BERT_FIELDS] = {r->ids, r->mask, r->segments, r->positions, r->labels, r->weights, &r->next};
    memset(r, 0xee, sizeof *r);
    return d->format->get(d, sample, row, err);
}
