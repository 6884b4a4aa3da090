/* A data set: numbered samples, each a list of named fields, read from files in one of several formats.
 *
 * What:    the interface between file formats and models: a model wants fields by name, a format fills them.
 * Flow:    data.format -> rp_data_format_of() -> open(path, wanted fields) -> get(sample number) -> the caller's rows.
 * Owner:   the caller closes what it opened, and owns the rows.
 * Extend:  data/NAME.c with struct rp_data_format rp_data_format_NAME, and NAME in RP_DATA_FORMATS of recipe/choices.h.
 *          Formats in TFRecord files build on tfrecord.h, files of tokens on token_files.h, images on
 *          image/image_set.h. With a `make` function, `data make` writes the format from texts; generated samples:
 *          synthetic/make.h.
 *
 * Sample numbers count from 0 over the whole run and wrap over epochs; with shuffling every epoch has its own pinned
 * order (shuffle.h). Every value is checked before get() returns it. Errors are RP_MALFORMED: "'FILE', record 17 (from
 * 0), field 'input_ids': " and then what was found and what was expected.
 */
#pragma once

#include "base/err.h"
#include "data/files.h"
#include "data/image/options.h"
#include "ops/dtype.h"
#include "recipe/recipe.h"

#include <stdint.h>

#define RP_SAMPLE_FIELDS_MAX 16
#define RP_SHARD_FILES_MAX 2

struct rp_token_docs; /* data/token_docs.h */
struct rp_buf;

/* One field of a sample, as a model wants it. */
struct rp_sample_field {
    const char *name;    /* the format's public name: "input_ids" */
    enum rp_dtype dtype; /* of the row that get() fills */
    long count;          /* elements of one sample */
    int64_t below;       /* integers are in [0, below); 0: the format's own range */
};

/* How `data check` shows a number. */
enum rp_fact_form { RP_FACT_TOTAL, RP_FACT_PER_RECORD, RP_FACT_SHARE_OF_RECORDS };

struct rp_data_fact {
    const char *name;  /* member of the JSON form: "full_records" */
    const char *label; /* begins a line for people; NULL: continues the line of the fact before */
    const char *unit;  /* follows the number, or NULL */
    enum rp_fact_form form;
    int64_t value;
};

/* The result of reading every record once, in the order in which `data check` reports it. */
struct rp_data_check {
    int files;
    uint64_t bytes;
    int64_t records;
    char digest[65]; /* of the files, as rp_files_digest() */
    struct rp_data_fact fact[12];
    int facts;
};

/* How samples are cut and ordered: keys of the recipe. {0}: file order, defaults. */
struct rp_data_opts {
    int shuffle;       /* data.shuffle; 0: file order */
    uint64_t seed;     /* seed.data */
    int order;         /* enum rp_data_order: data.order */
    int64_t samples;   /* of the whole schedule, on which Megatron-LM's order depends; 0: one epoch */
    const char *split; /* data.split, NULL or "": all documents */
    int token_bytes;   /* data.token_bytes; 0: 2 */
    long seq_length;   /* for probe() of files that have no length of their own; 0: 1024 */
    struct rp_image_opts image;
};
/* step_samples: samples of one optimizer step. */
struct rp_data_opts rp_data_opts_of(const struct rp_recipe *r, int64_t step_samples);

struct rp_dataset { /* a format's own struct begins with it */
    const struct rp_data_format *format;
    _Atomic(int64_t) skipped; /* samples whose record was damaged, so that another one was used (data.skip_damaged) */
};

struct rp_data_format {
    const char *name;    /* choice of the recipe key data.format */
    const char *summary; /* one line for people */
    /* part of the names of its files, by which they are found in directories and archives: ".tfrecord" */
    const char *in_name;
    /* Lists the files of `path`; NULL: rp_files_open() with in_name. */
    int (*list)(struct rp_files *files, const char *path, struct rp_err *err);
    /* The fields of the format, with the counts of the first record at `path` and the ranges of public data. field:
     * array of RP_SAMPLE_FIELDS_MAX. */
    int (*probe)(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                 struct rp_err *err);
    /* path: file, directory, glob or "embedded:NAME" (files.h). RP_USAGE: a field that the format does not have, or a
     * count that no record can have; records are checked against the counts when they are read. */
    struct rp_dataset *(*open)(const char *path, const struct rp_sample_field *field, int fields,
                               const struct rp_data_opts *o, struct rp_err *err);
    void (*close)(struct rp_dataset *d);          /* NULL is fine */
    int64_t (*count)(const struct rp_dataset *d); /* records in all files, at least 1 */
    /* Writes field i of the sample to row[i]. At most one thread may use a data set at a time. */
    int (*get)(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err);
    /* The same for n samples from `sample` on, into column[i] of [n, count]; NULL: one after the other by get(). */
    int (*get_batch)(struct rp_dataset *d, int64_t sample, int64_t n, void *const *column, struct rp_err *err);
    /* Memory of the threads that decode, or of what is kept unpacked, without the data set's index; NULL: none worth
     * counting. Follows from the options alone. */
    uint64_t (*working_bytes)(const struct rp_data_opts *o);
    /* Reads every record once, in file order, up to the first bad one. tick: NULL, or returns nonzero to stop with
     * RP_INTERRUPTED. */
    int (*check)(struct rp_dataset *d, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                 void *arg, struct rp_err *err);
    /* For `data make`. endings: of the files of a shard. make, or NULL: appends the bytes of a shard with documents
     * first..end-1 to each of its files. RP_USAGE: ids or sizes that the format cannot have. */
    const char *endings[RP_SHARD_FILES_MAX];
    int (*make)(struct rp_buf *file, const struct rp_token_docs *d, int64_t first, int64_t end,
                const struct rp_data_opts *o, struct rp_err *err);
};

#define X(name) extern const struct rp_data_format rp_data_format_##name;
RP_DATA_FORMATS(X)
#undef X
extern const struct rp_data_format *const rp_data_formats[]; /* by enum rp_data_format_id, ended by NULL */
const struct rp_data_format *rp_data_format_find(const char *name); /* NULL: unknown name */
const struct rp_data_format *rp_data_format_of(const struct rp_recipe *r);
/* n samples from `sample` on into column[i], [n, field[i].count] of the fields that the data set was opened with. */
int rp_data_get_batch(struct rp_dataset *d, const struct rp_sample_field *field, int fields, int64_t sample, int64_t n,
                      void *const *column, struct rp_err *err) rp_must_check;
/* The files of a data set in that format: rp_files_close() them. */
int rp_data_list(const struct rp_data_format *format, struct rp_files *files, const char *path,
                 struct rp_err *err) rp_must_check;
