/* Synthetic words with the statistics of language: Zipf's law, topics, and words that follow each other.
 *
 * What:    words 0..words-1 by rank, in streams that are the same on every machine; integers only. Any change of the
 *          words is a new version of every corpus.
 * Flow:    seed, stream, sequence number -> random words; last word and topic -> the next word.
 *
 * Randomness: one stream per sequence, words of Philox4x32-10(key = seed, counter = (draw / 4, sequence low, sequence
 * high, stream)). A number below n is (word * n) >> 32.
 *
 * Rank: b uniform in 0..B-1, B the bits of the word count W, then uniform in 2^b-1 .. 2^(b+1)-2, drawn again when >= W:
 * every octave is as likely as the next, which is Zipf's 1/rank. Word after word: one time in two a follower of the
 * word before (one of RP_WORDS_FOLLOWERS fixed ones, the j-th half as likely as the one before), else one time in two a
 * word of the topic (rank * TOPICS + topic, wrapped), else any word.
 */
#pragma once

#include <stdint.h>

#define RP_WORDS_TOPICS 64
#define RP_WORDS_FOLLOWERS 4

struct rp_words { /* one stream; set the first three */
    uint64_t seed, sequence;
    uint32_t stream; /* four letters, of the corpus */
    uint32_t draw, word[4];
};

uint32_t rp_words_next(struct rp_words *s); /* 32 random bits */
uint32_t rp_words_below(uint32_t random, uint32_t n);
/* last < 0: the first word of a text. */
uint32_t rp_words_draw(struct rp_words *s, int64_t last, uint32_t topic, uint32_t words);
