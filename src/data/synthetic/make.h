/* Making data sets: generated samples in one of the data formats, the same bytes on every machine, or documents that
 * were tokenised.
 *
 * What:    one generator per format, and the options, shards, directories and archives that they share.
 * Flow:    options -> bytes of each shard -> files in a directory, or members of an archive.
 * Extend:  a file with a struct rp_generator, one row in make.c, and its new options in options.def.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "data/dataset.h"
#include "data/token_docs.h"

struct rp_make_opts { /* 0: the generator's default */
#define OPTION(field, name, letter, def, lo, hi, help) long field;
#include "data/synthetic/options.def"
#undef OPTION
};

struct rp_generator {
    const char *name; /* operand of `data make`, and the first part of the shards' names: "bert" */
    const struct rp_data_format *format;
    struct rp_make_opts defaults; /* 0: it does not have that option */
    /* Checks options against each other, once each is in its range; RP_USAGE. NULL: they are independent. */
    int (*check)(const struct rp_make_opts *o, struct rp_err *err);
    /* One of: appends sample i of o->sequences to a file; appends document i, which the format's make() writes; these
     * documents. */
    void (*sample)(struct rp_buf *out, const struct rp_make_opts *o, int64_t i);
    void (*document)(struct rp_token_docs *d, const struct rp_make_opts *o, int64_t i);
    const struct rp_token_docs *documents;
};

extern const struct rp_generator *const rp_generators[]; /* ended by NULL */
const struct rp_generator *rp_generator_find(const char *name); /* its name or its format's; NULL: unknown */

/* Fills in defaults, then checks: RP_USAGE "--seq-length 4 is out of range 16..512". */
int rp_make_options(struct rp_make_opts *o, const struct rp_generator *g, struct rp_err *err) rp_must_check;
/* After rp_make_options(): the name of file k of shard i, "bert-00000-of-00002.tfrecord", and the bytes of all files of
 * that shard, as many as the format has endings: samples i*n/shards .. (i+1)*n/shards. */
void rp_make_shard_name(char out[64], const struct rp_generator *g, const struct rp_make_opts *o, int i, int k);
int rp_make_shard(struct rp_buf *out, const struct rp_generator *g, const struct rp_make_opts *o, int i,
                  struct rp_err *err) rp_must_check;
int rp_refuse_existing(const char *path, struct rp_err *err) rp_must_check; /* RP_USAGE */
/* Writes all shards into dir, which is made if needed. RP_USAGE if a file exists, unless force. */
int rp_make_directory(const struct rp_generator *g, const struct rp_make_opts *o, const char *dir, int force,
                      struct rp_err *err) rp_must_check;
/* All shards as one archive in memory, compressed by the ending of `path`. */
int rp_make_archive_bytes(struct rp_buf *out, const struct rp_generator *g, const struct rp_make_opts *o,
                          const char *path, struct rp_err *err) rp_must_check;
/* Writes all shards as one archive, "bert_sample.tar.xz". The tar inside is the same bytes everywhere; the compressed
 * bytes depend on the compressor's version. */
int rp_make_archive(const struct rp_generator *g, const struct rp_make_opts *o, const char *path, int force,
                    struct rp_err *err) rp_must_check;
