/* The tables of a byte pair encoding, between their reader (bpe_load.c) and the encoder (bpe.c). */
#pragma once

#include "data/text/bpe.h"

struct rp_bpe_merge { /* left, right -> id; rank UINT32_MAX: a free place */
    uint32_t left, right, rank, id;
};

struct rp_bpe_word { /* ids of a pre-token, cached; size 0: a free place */
    uint64_t hash;
    size_t text, ids; /* offsets in text[] and id[] of the cache */
    uint32_t size, n;
};

struct rp_bpe {
    uint32_t byte[256]; /* ids of single bytes */
    uint32_t eod;
    int64_t vocabulary;
    struct rp_bpe_merge *merge; /* hash table of merge_places, a power of two */
    size_t merge_places;
    struct rp_bpe_word *word; /* hash table, of the size in bpe.c */
    size_t words;
    struct rp_buf text;
    uint32_t *id;
    size_t ids, ids_cap;
    uint32_t *part; /* the pre-token that is merged: ids and links */
    uint64_t *heap;
    size_t part_cap; /* of part and heap */
};

/* The place of a pair, or the free place where it belongs. */
struct rp_bpe_merge *rp_bpe_find(const struct rp_bpe *b, uint32_t left, uint32_t right);
