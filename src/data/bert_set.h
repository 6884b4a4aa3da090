/* A data set of BERT's samples: what the formats bert_tfrecord, bert_ofrecord and bert_hdf5 share.
 *
 * What:    records of seven named lists -> checked samples; the numbers that `data check` reports.
 * Flow:    a format has a reader, which fills struct rp_example_field of one record; its rp_data_format uses the
 *          functions below.
 * Owner:   struct rp_bert_set, with which a format's own struct begins, owns the values of the record that was read
 *          last.
 * Extend:  another format is a file with a struct rp_bert_reader and a struct rp_data_format; names of fields never
 *          change.
 *
 * A caller may want only some of the fields: only those are checked, each by itself and against the others that are
 * wanted.
 */
#pragma once

#include "data/dataset.h"
#include "data/example.h"

enum {
    RP_BERT_INPUT_IDS, RP_BERT_INPUT_MASK, RP_BERT_SEGMENT_IDS, RP_BERT_POSITIONS, RP_BERT_IDS, RP_BERT_WEIGHTS,
    RP_BERT_LABEL, RP_BERT_FIELDS
};
/* number of values of a field, shared by several fields */
enum { RP_BERT_SEQ, RP_BERT_PREDICTIONS, RP_BERT_ONE, RP_BERT_LENGTHS };

struct rp_bert_set;
struct rp_bert_reader {
    size_t size; /* of the format's struct */
    /* Sets files and count; the format's struct is zero behind the set. After a failure close() is called all the
     * same. */
    int (*open)(struct rp_bert_set *s, const char *path, struct rp_err *err);
    void (*close)(struct rp_bert_set *s);
    /* One record into s->field: found and count of all, values of those with cap. RP_MALFORMED without the place. */
    int (*read)(struct rp_bert_set *s, int64_t record, struct rp_err *err);
    /* Puts the file and the record's number there before the message in *err; always -1. */
    int (*place)(const struct rp_bert_set *s, int64_t record, struct rp_err *err);
};

struct rp_bert_set {
    struct rp_dataset base;
    const struct rp_bert_reader *reader;
    struct rp_files *files; /* the format's */
    int64_t count;          /* records, at least 1 */
    int shuffle;
    uint64_t seed;
    long length[RP_BERT_LENGTHS];   /* 0: no field of that length is wanted */
    int row[RP_BERT_FIELDS];        /* its index among the wanted fields, -1: not wanted */
    int64_t below[RP_BERT_FIELDS];
    struct rp_example_field field[RP_BERT_FIELDS]; /* of the record that was read last; cap 0: not wanted */
    void *values[RP_BERT_FIELDS];
};

struct rp_dataset *rp_bert_open(const struct rp_data_format *format, const struct rp_bert_reader *reader,
                                const char *path, const struct rp_sample_field *field, int n,
                                const struct rp_data_opts *o, struct rp_err *err);
int rp_bert_probe(const struct rp_data_format *format, const char *path, const struct rp_data_opts *o,
                  struct rp_sample_field *field, int *n, struct rp_err *err) rp_must_check;
/* Members of struct rp_data_format. */
void rp_bert_close(struct rp_dataset *d);
int64_t rp_bert_count(const struct rp_dataset *d);
int rp_bert_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err);
int rp_bert_check(struct rp_dataset *d, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                  void *arg, struct rp_err *err);
