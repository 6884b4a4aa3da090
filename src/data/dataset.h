/* A data set: numbered samples, each a list of named fields, read from files in one of several formats.
 *
 * What:    the border between file formats and models: a model asks for fields by name, a format fills them.
 * Flow:    path + wanted fields -> rp_dataset_open() -> rp_dataset_get(sample number) -> the caller's rows.
 * Owner:   whoever opens closes; rows belong to the caller.
 * Extend:  a file with a struct rp_data_format, and one row in the list of formats.
 *
 * Sample numbers count from 0 over the whole run and wrap over epochs; with shuffling every epoch has its own pinned order. Every value is
 * checked before it is handed out; errors are RP_MALFORMED and name file, record and field.
 */
#ifndef RP_DATA_DATASET_H
#define RP_DATA_DATASET_H

#include "base/err.h"
#include "ops/dtype.h"

#include <stdint.h>

/* One field of a sample, as a model wants it. A format refuses a name it does not have and a count that is not that of its records. */
struct rp_sample_field {
    const char *name;    /* the format's public name: "input_ids" */
    enum rp_dtype dtype; /* of the row that get() fills */
    long count;          /* elements of one sample */
    int64_t below;       /* integers are in [0, below); 0: the format's own range */
};

/* What reading every record once found: printed in this order by `data check`. */
struct rp_data_fact {
    const char *name; /* "records", "tokens" */
    int64_t value;
};
struct rp_data_check {
    char digest[65]; /* of the files, as rp_files_digest() */
    struct rp_data_fact fact[12];
    int facts;
};

struct rp_dataset; /* begins with: const struct rp_data_format *format */

struct rp_data_format {
    const char *name;    /* choice of the recipe key data.format */
    const char *summary; /* one line for people */
    struct rp_dataset *(*open)(const char *path, const struct rp_sample_field *field, int fields, int shuffle, uint64_t seed,
                               struct rp_err *err);
    void (*close)(struct rp_dataset *d);
    int64_t (*count)(const struct rp_dataset *d); /* records in all files, at least 1 */
    /* row[i]: where field i of the sample goes. One thread at a time for each data set. */
    int (*get)(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err);
    /* Read every record once, in file order; stops at the first bad one. tick may be NULL; nonzero stops with RP_INTERRUPTED. */
    int (*check)(struct rp_dataset *d, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all), void *arg,
                 struct rp_err *err);
};

const struct rp_data_format *rp_data_format_find(const char *name); /* NULL: there is none of that name */

#endif
