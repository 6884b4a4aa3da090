/* A made-up corpus in the form of BERT pre-training data, the same bytes on every machine.
 *
 * What:    `data make bert`: sequences with a structure that a model can learn, masked and framed as the original tools do it.
 * Flow:    options -> TFRecord shards. Integer arithmetic on Philox words only.
 * Owner:   the caller owns the buffers and the directory.
 * Extend:  RP_CORPUS_VERSION names the recipe of the bytes: any change of them is a new version.
 *
 * Structure (corpus.c says how it is drawn): word frequencies fall like Zipf's law; a document has a topic, which prefers
 * its own words (so the second sentence of a random pair betrays itself: NSP); a word has a few preferred followers (so a masked word
 * can be guessed from its neighbours: MLM). Pairs are packed as create_pretraining_data does: [CLS] A [SEP] B [SEP], 9 of 10 filled to
 * seq, 1 of 10 shorter; half of the pairs random; 15 % of the tokens predicted, at most `predictions`: 80 % [MASK], 10 % random,
 * 10 % kept.
 */
#ifndef RP_DATA_CORPUS_H
#define RP_DATA_CORPUS_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define RP_CORPUS_VERSION 1

/* ids of the public uncased vocabulary */
enum { RP_TOKEN_PAD = 0, RP_TOKEN_CLS = 101, RP_TOKEN_SEP = 102, RP_TOKEN_MASK = 103, RP_TOKEN_FIRST_WORD = 999 };

struct rp_corpus_opts {
    uint64_t seed;
    int64_t sequences;
    int seq, predictions, vocab, shards;
};
/* What `data make bert` does unless told otherwise, and what the pinned sample is made of. */
#define RP_CORPUS_DEFAULTS {.seed = 1, .sequences = 2048, .seq = 128, .predictions = 20, .vocab = 30522, .shards = 2}

/* "--seq-length 4 is out of range 16..512", by the names that `data make` has for them: RP_USAGE. */
int rp_corpus_check(const struct rp_corpus_opts *o, struct rp_err *err) rp_must_check;
/* Append the bytes of shard i of o->shards: sequences i*n/shards .. (i+1)*n/shards. */
int rp_corpus_shard(struct rp_buf *out, const struct rp_corpus_opts *o, int i, struct rp_err *err) rp_must_check;
void rp_corpus_shard_name(char out[64], const struct rp_corpus_opts *o, int i); /* "bert-00000-of-00002.tfrecord" */
/* All shards into directory dir (made if need be); a file that exists is refused unless force. */
int rp_corpus_write(const struct rp_corpus_opts *o, const char *dir, int force, struct rp_err *err) rp_must_check;
/* All shards as one archive, "bert_sample.tar.xz" and the like; the tar inside is the same bytes everywhere, the compressed form
 * depends on the compressor's version. */
int rp_corpus_write_archive(const struct rp_corpus_opts *o, const char *path, int force, struct rp_err *err) rp_must_check;

#endif
