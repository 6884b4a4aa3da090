/* Files of token ids: what data.format llmc, tokens and megatron share.
 *
 * What:    tokens at known places in files, read into rows with every value checked; and data sets of windows inside
 *          one file.
 * Flow:    path -> files -> head() of each -> windows; sample number -> field "tokens": seq + 1 ids, the first seq of
 *          them inputs, the last seq labels.
 * Owner:   struct rp_token_set owns files and arrays; rp_token_set_fini() frees them.
 * Extend:  a format of a header and tokens is a head() and a row of functions, like llmc.c; other samples build on
 *          rp_token_read(), like megatron.c.
 *
 * Window w of a file begins at its token w * seq, so neighbours share one token. A file of t tokens has (t - 1) / seq
 * windows; the tail is not used, and no window crosses files.
 */
#pragma once

#include "data/dataset.h"
#include "data/files.h"

#define RP_TOKENS_FIELD "tokens"

/* Little endian. */
#define RP_TOKEN_TYPES(X)                                                                                              \
    X(U8, uint8_t) X(I8, int8_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t) X(U16, uint16_t) X(U32, uint32_t)
enum rp_token_type {
#define X(name, type) RP_TOKEN_##name,
    RP_TOKEN_TYPES(X)
#undef X
};
size_t rp_token_bytes(enum rp_token_type t);

struct rp_token_range { /* the tokens of one file */
    enum rp_token_type type;
    uint64_t offset; /* of the first one, in bytes */
    int64_t tokens;
};

struct rp_token_set {
    struct rp_dataset base;
    struct rp_data_opts opts; /* split: not owned */
    struct rp_files files;
    struct rp_token_range *range; /* [files.n] */
    long seq;
    int64_t below;    /* ids are in [0, below) */
    int64_t *first;   /* [files.n + 1] number of the first window of each file; NULL: samples are not windows */
    int64_t count;    /* samples of an epoch */
    unsigned char *bytes; /* of RP_TOKEN_CHUNK tokens */
};
#define RP_TOKEN_CHUNK 65536

/* Checks the wanted fields, which can only be "tokens", and lists the files. The caller frees s after a failure too. */
int rp_token_set_init(struct rp_token_set *s, const struct rp_data_format *format, const char *path,
                      const struct rp_sample_field *field, int fields, const struct rp_data_opts *o,
                      struct rp_err *err) rp_must_check;
void rp_token_set_fini(struct rp_token_set *s);
/* n tokens of file i from token `first` on, checked. */
int rp_token_read(struct rp_token_set *s, int i, int64_t first, int64_t n, int32_t *out,
                  struct rp_err *err) rp_must_check;
/* data check: reads every token. The caller has set out->records and may have added facts. */
int rp_token_check(struct rp_token_set *s, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                   void *arg, struct rp_err *err) rp_must_check;
void rp_token_add_fact(struct rp_data_check *out, const char *name, const char *label, const char *unit, int64_t value);
/* The one field of such formats, for probe(). */
void rp_token_probe(const struct rp_data_opts *o, int64_t below, struct rp_sample_field *field, int *n);

/* 1: two words that begin a file are those of llm.c's header (llmc.c). */
int rp_token_is_llmc(const int32_t *header);

/* A file that begins like numpy's NAME.npy; where its tokens are, RP_MALFORMED if they are none (npy.c). */
int rp_token_is_npy(const void *head, size_t n);
int rp_token_npy(struct rp_files *files, int i, struct rp_token_range *out, struct rp_err *err) rp_must_check;

/* Data sets of windows. head() fills s->range[i] from file i, whose size it checks. */
typedef int (*rp_token_head_fn)(struct rp_token_set *s, int i, struct rp_err *err);
struct rp_dataset *rp_token_windows_open(const struct rp_data_format *format, rp_token_head_fn head, const char *path,
                                         const struct rp_sample_field *field, int fields, const struct rp_data_opts *o,
                                         struct rp_err *err);
void rp_token_windows_close(struct rp_dataset *d);
int64_t rp_token_windows_count(const struct rp_dataset *d);
int rp_token_windows_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err);
int rp_token_windows_check(struct rp_dataset *d, struct rp_data_check *out,
                           int (*tick)(void *arg, int64_t done, int64_t all), void *arg, struct rp_err *err);
