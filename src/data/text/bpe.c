#include "base/text.h"
#include "data/text/bpe_table.h"
#include "data/text/pretokens.h"

#include <stdlib.h>
#include <string.h>

#define WORDS (1u << 19)     /* places of the cache, at most half of them used */
#define WORD_MAX 64          /* longer pre-tokens are not cached */
#define GONE UINT32_MAX

struct rp_bpe_merge *rp_bpe_find(const struct rp_bpe *b, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    for (size_t i = h >> 20;; i++) {
        struct rp_bpe_merge *m = &b->merge[i & (b->merge_places - 1)];
        if (m->rank == UINT32_MAX || (m->left == left && m->right == right))
            return m;
    }
}

void rp_bpe_free(struct rp_bpe *b)
{
    if (!b)
        return;
    free(b->merge);
    free(b->word);
    rp_buf_fini(&b->text);
    free(b->id);
    free(b->part);
    free(b->heap);
    free(b);
}

int64_t rp_bpe_vocabulary(const struct rp_bpe *b)
{
    return b->vocabulary;
}

uint32_t rp_bpe_eod(const struct rp_bpe *b)
{
    return b->eod;
}

/* ---- merging one pre-token ----
 *
 * Parts are a list over the bytes of the pre-token: id[i], GONE once part i was merged into the one before, and the
 * indices of its neighbours. The heap holds rank << 32 | index of the left part for every pair that had a merge when it
 * arose; pairs that have changed since are skipped: a rank belongs to one pair, so it is enough to compare ranks. */

static void heap_push(uint64_t *heap, size_t *n, uint64_t v)
{
    size_t i = (*n)++;
    for (; i && heap[(i - 1) / 2] > v; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = v;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], v = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        child += child + 1 < *n && heap[child + 1] < heap[child];
        if (heap[child] >= v)
            break;
        heap[i] = heap[child];
    }
    heap[i] = v;
    return top;
}

static uint32_t pair_rank(const struct rp_bpe *b, uint32_t left, uint32_t right)
{
    return rp_bpe_find(b, left, right)->rank;
}

static void make_room(struct rp_bpe *b, size_t n)
{
    if (b->part_cap >= n)
        return;
    b->part_cap = 2 * n;
    b->part = rp_realloc(b->part, 3 * b->part_cap * sizeof *b->part);
    b->heap = rp_realloc(b->heap, 3 * b->part_cap * sizeof *b->heap); /* n - 1 pairs, and two new ones for each merge */
}

/* Parts of a pre-token of n bytes; returns their number. They are the first ids of b->part. */
static size_t merge_word(struct rp_bpe *b, const unsigned char *p, size_t n)
{
    make_room(b, n);
    uint32_t *id = b->part, *before = id + b->part_cap, *after = before + b->part_cap, last = (uint32_t)n;
    size_t pairs = 0, parts = 0;
    for (uint32_t i = 0; i < last; i++) {
        id[i] = b->byte[p[i]];
        before[i] = i - 1;
        after[i] = i + 1;
    }
    for (uint32_t i = 0; i + 1 < last; i++) {
        uint32_t rank = pair_rank(b, id[i], id[i + 1]);
        if (rank != UINT32_MAX)
            heap_push(b->heap, &pairs, (uint64_t)rank << 32 | i);
    }
    while (pairs) {
        uint64_t top = heap_pop(b->heap, &pairs);
        uint32_t i = (uint32_t)top, j = after[i];
        if (id[i] == GONE || j == last)
            continue;
        const struct rp_bpe_merge *m = rp_bpe_find(b, id[i], id[j]);
        if (m->rank != top >> 32)
            continue;
        id[i] = m->id;
        id[j] = GONE;
        after[i] = after[j];
        if (after[i] != last)
            before[after[i]] = i;
        uint32_t rank = after[i] != last ? pair_rank(b, id[i], id[after[i]]) : UINT32_MAX;
        if (rank != UINT32_MAX)
            heap_push(b->heap, &pairs, (uint64_t)rank << 32 | i);
        rank = i ? pair_rank(b, id[before[i]], id[i]) : UINT32_MAX;
        if (rank != UINT32_MAX)
            heap_push(b->heap, &pairs, (uint64_t)rank << 32 | before[i]);
    }
    for (uint32_t i = 0; i < last; i = after[i])
        id[parts++] = id[i];
    return parts;
}

/* ---- the cache ---- */

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u, w;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, p, n);
    h = (h ^ w) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

static struct rp_bpe_word *find_word(struct rp_bpe *b, const char *p, size_t n, uint64_t hash)
{
    for (size_t i = hash;; i++) {
        struct rp_bpe_word *w = &b->word[i & (WORDS - 1)];
        if (!w->size || (w->hash == hash && w->size == n && memcmp(b->text.data + w->text, p, n) == 0))
            return w;
    }
}

static void keep_word(struct rp_bpe *b, struct rp_bpe_word *w, const char *p, size_t n, uint64_t hash, size_t parts)
{
    if (b->words >= WORDS / 2)
        return;
    if (b->ids_cap - b->ids < parts) {
        b->ids_cap = 2 * b->ids_cap + parts + 4096;
        b->id = rp_realloc(b->id, b->ids_cap * sizeof *b->id);
    }
    *w = (struct rp_bpe_word){hash, b->text.size, b->ids, (uint32_t)n, (uint32_t)parts};
    rp_buf_add(&b->text, p, n);
    memcpy(b->id + b->ids, b->part, parts * sizeof *b->id);
    b->ids += parts;
    b->words++;
}

static void add_ids(struct rp_token_docs *out, const uint32_t *id, size_t n)
{
    rp_token_docs_reserve(out, n);
    memcpy(out->id + out->ids, id, n * sizeof *id);
    out->ids += n;
}

static void encode_word(struct rp_bpe *b, const char *p, size_t n, struct rp_token_docs *out)
{
    uint64_t hash = 0;
    struct rp_bpe_word *w = NULL;
    if (n <= WORD_MAX) {
        hash = hash_bytes(p, n);
        w = find_word(b, p, n, hash);
        if (w->size) {
            add_ids(out, b->id + w->ids, w->n);
            return;
        }
    }
    size_t parts = merge_word(b, (const unsigned char *)p, n);
    add_ids(out, b->part, parts);
    if (w)
        keep_word(b, w, p, n, hash, parts);
}

static int check_utf8(const char *text, size_t n, struct rp_err *err)
{
    unsigned c;
    for (size_t i = 0, length; i < n; i += length) {
        length = (unsigned char)text[i] < 128 ? 1 : rp_utf8(text + i, n - i, &c);
        if (!length)
            return rp_fail(err, RP_MALFORMED, "byte %zu (from 0) is not UTF-8; convert the text first (iconv -t UTF-8)",
                           i);
    }
    return 0;
}

int rp_bpe_encode(struct rp_bpe *b, const char *text, size_t n, struct rp_token_docs *out, struct rp_err *err)
{
    if (check_utf8(text, n, err) < 0)
        return -1;
    if (!b->word)
        b->word = rp_alloc(WORDS * sizeof *b->word);
    for (size_t at = 0, length; at < n; at += length) {
        length = rp_pretoken(text + at, n - at);
        if (length > UINT32_MAX / 4)
            return rp_fail(err, RP_MALFORMED, "a word of %zu bytes at byte %zu (from 0) is too long", length, at);
        encode_word(b, text + at, length, out);
    }
    return 0;
}
