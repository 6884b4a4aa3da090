/* Samples of BERT pre-training, read from TFRecord files and checked.
 *
 * What:    a data set opened once, read by sample number; every value is checked before it is handed out.
 * Flow:    files -> index of records -> (seed, sample number) -> one record -> rows of a batch.
 * Owner:   struct rp_bert_data owns files and index; struct rp_bert_sample points at rows the caller owns.
 * Extend:  a new field is one row of the field table in bert_data.c, its check, and its pointer in rp_bert_sample.
 *
 * Sample s belongs to epoch e = s / n and is record P_e(s mod n), n the number of records. Without shuffling P_e is the identity.
 * With it P_e is a permutation of 0..n-1 by cycle-walking a Feistel network: w = number of bits of n-1, at least 2, rounded up to
 * even; x of w bits is split in halves (L, R); eight rounds (L, R) = (R, L xor (F(r, R) mod 2^(w/2))), where F is word 0 of
 * Philox4x32-10(key = seed, counter = (R, r, e low, e high)); repeated until x < n. No state, any sample in O(1), same everywhere.
 * Errors read: 'FILE', record 17 (from 0), field 'input_ids': what was found and what was expected. They are RP_MALFORMED.
 */
#ifndef RP_DATA_BERT_DATA_H
#define RP_DATA_BERT_DATA_H

#include "base/err.h"
#include "data/files.h"

#include <stdint.h>

/* What the model can take; every record is checked against it. */
struct rp_bert_limits {
    int seq;         /* length of input_ids, input_mask, segment_ids */
    int predictions; /* length of masked_lm_positions, _ids, _weights */
    int vocab;       /* input_ids and masked_lm_ids are below */
    int type_vocab;  /* segment_ids are below */
};

/* One sample. The caller points each at its row; get() fills all of it or fails. */
struct rp_bert_sample {
    int32_t *input_ids;            /* [seq] */
    uint8_t *input_mask;           /* [seq] 0 or 1, at least one 1 */
    int32_t *segment_ids;          /* [seq] */
    int32_t *masked_lm_positions;  /* [predictions] */
    int32_t *masked_lm_ids;        /* [predictions] */
    float *masked_lm_weights;      /* [predictions] finite, >= 0; > 0 only where the position is not padding */
    int32_t next_sentence_label;   /* 0: B follows A, 1: random */
};

struct rp_bert_data;

/* path as in data/files.h. Opens every file, walks every frame head (lengths and their checksums) and counts; records themselves are
 * checked when they are read. shuffle 0: file order. */
struct rp_bert_data *rp_bert_data_open(const char *path, const struct rp_bert_limits *limits, int shuffle, uint64_t seed,
                                       struct rp_err *err) rp_must_check;
void rp_bert_data_close(struct rp_bert_data *d); /* NULL is fine */

int64_t rp_bert_data_count(const struct rp_bert_data *d); /* records in all files, at least 1 */
/* sample counts from 0 over the whole run and wraps over epochs. Not for several threads at once on the same d. */
int rp_bert_data_get(struct rp_bert_data *d, int64_t sample, struct rp_bert_sample *out, struct rp_err *err) rp_must_check;
/* Which record sample s is: number over all files. */
int64_t rp_bert_data_record(const struct rp_bert_data *d, int64_t sample);

/* Read everything once, in file order, and say what is there. Stops at the first bad record. */
struct rp_bert_check {
    int files;
    uint64_t bytes;
    int64_t records;
    int64_t tokens;      /* input_mask = 1 */
    int64_t predictions; /* weights > 0 */
    int64_t full;        /* records without padding */
    int64_t random_next; /* records with label 1 */
    int64_t distinct_ids; /* different values in input_ids */
    char digest[65];     /* as rp_files_digest() */
};
/* tick (or NULL) is called now and then with records done and all; nonzero stops with RP_INTERRUPTED. */
int rp_bert_data_check(struct rp_bert_data *d, struct rp_bert_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                       void *arg, struct rp_err *err) rp_must_check;

/* What lengths the first record has, so that `data check` need not be told: fills seq and predictions of *limits. */
int rp_bert_data_probe(const char *path, struct rp_bert_limits *limits, struct rp_err *err) rp_must_check;

/* The permutation itself: bijective on 0..n-1 for every (seed, epoch). */
uint64_t rp_shuffle(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);

#endif
