/* Byte-level byte pair encoding of GPT-2, with a vocabulary of the user's.
 *
 * What:    text -> the ids that GPT-2's public tokenizer gives it.
 * Flow:    vocab.json and merges.txt, or tokenizer.json -> struct rp_bpe; UTF-8 text -> pre-tokens (pretokens.h) ->
 *          merges by rank -> ids.
 * Owner:   struct rp_bpe owns its tables and a cache of the pre-tokens it has seen; rp_bpe_free().
 *
 * Of the adjacent pairs of a pre-token that have a merge, the one of lowest rank is merged first, the leftmost of
 * equals, until there is none. Text is always text: "<|endoftext|>" in it does not become the special token, which only
 * separates documents.
 */
#pragma once

#include "base/err.h"
#include "data/token_docs.h"

#define RP_BPE_EOD "<|endoftext|>"

struct rp_bpe;

/* vocab and merges, or tokenizer. RP_MALFORMED names file, place and what disagrees. */
struct rp_bpe *rp_bpe_load(const char *vocab, const char *merges, struct rp_err *err) rp_must_check;
struct rp_bpe *rp_bpe_load_tokenizer(const char *tokenizer, struct rp_err *err) rp_must_check;
void rp_bpe_free(struct rp_bpe *b); /* NULL is fine */
int64_t rp_bpe_vocabulary(const struct rp_bpe *b); /* ids are below */
uint32_t rp_bpe_eod(const struct rp_bpe *b);
/* Appends the ids of the text to the last document of `out`. RP_MALFORMED: "byte 17 (from 0) is not UTF-8". */
int rp_bpe_encode(struct rp_bpe *b, const char *text, size_t n, struct rp_token_docs *out,
                  struct rp_err *err) rp_must_check;

/* Lines that were left out, and why the first of them was. */
struct rp_text_skipped {
    int64_t lines;
    struct rp_err first;
};

/* Appends the documents of a file: every line of NAME.jsonl or NAME.json is an object whose "text" is one, as
 * preprocess_data.py reads them (json_line.h); any other file is one. Documents without text are left out. skipped:
 * lines that cannot be read are left out and added to it; NULL: they are RP_MALFORMED. */
int rp_text_documents(struct rp_bpe *b, const char *path, struct rp_token_docs *out, struct rp_text_skipped *skipped,
                      struct rp_err *err) rp_must_check;
