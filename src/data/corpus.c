/* The made-up corpus: how every token is drawn. Version 1; integers only.
 *
 * Randomness: one stream per sequence, words of Philox4x32-10(key = seed, counter = (draw / 4, sequence low, sequence high, "CORP")).
 * A number below n is (word * n) >> 32.
 *
 * Rank: b uniform in 0..B-1, B the bits of the word count W, then uniform in 2^b-1 .. 2^(b+1)-2, drawn again when >= W: every octave
 * is as likely as the next, which is Zipf's 1/rank.
 * Word after word: one time in two a follower of the word before (one of FOLLOWERS fixed ones, the j-th half as likely as the one
 * before), else one time in two a word of the topic (rank * TOPICS + topic, wrapped), else any word. A sentence B that follows
 * A goes on with A's topic and last word; a random B has another topic and begins anew.
 */
#include "data/corpus.h"

#include "data/archive.h"
#include "data/example.h"
#include "data/tfrecord.h"
#include "ops/philox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STREAM 0x434f5250u    /* "CORP" */
#define FOLLOWING 0x464f4c4cu /* "FOLL" */
#define TOPICS 64
#define FOLLOWERS 4
#define MAX_SEQ 512

struct stream {
    uint64_t seed, sequence;
    uint32_t draw, word[4];
};

static uint32_t next(struct stream *s)
{
    if (s->draw % 4 == 0) {
        uint32_t x[4] = {s->draw / 4, (uint32_t)s->sequence, (uint32_t)(s->sequence >> 32), STREAM};
        rp_philox(x, s->seed);
        memcpy(s->word, x, sizeof x);
    }
    return s->word[s->draw++ % 4];
}

static uint32_t below(uint32_t word, uint32_t n)
{
    return (uint32_t)((uint64_t)word * n >> 32);
}

static uint32_t octaves(uint32_t words)
{
    uint32_t bits = 0;
    while (words >> bits)
        bits++;
    return bits;
}

static uint32_t rank(struct stream *s, uint32_t words)
{
    uint32_t bits = octaves(words), r;
    do {
        uint32_t b = below(next(s), bits);
        r = ((1u << b) - 1) + below(next(s), 1u << b);
    } while (r >= words);
    return r;
}

/* The j-th fixed follower of word w: a rank of its own, drawn from (w, j) alone. */
static uint32_t follower(uint64_t seed, uint32_t w, uint32_t j, uint32_t words)
{
    uint32_t bits = octaves(words);
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t x[4] = {w, j, attempt, FOLLOWING};
        rp_philox(x, seed);
        uint32_t b = below(x[0], bits), r = ((1u << b) - 1) + below(x[1], 1u << b);
        if (r < words)
            return r;
    }
}

/* Words 0..words-1; last < 0: the first of a text. */
static uint32_t draw_word(struct stream *s, int64_t last, uint32_t topic, uint32_t words)
{
    uint32_t choice = next(s);
    if (last >= 0 && choice & 1) {
        uint32_t j = 0;
        for (uint32_t coin = next(s); j < FOLLOWERS - 1 && coin & 1; coin >>= 1)
            j++;
        return follower(s->seed, (uint32_t)last, j, words);
    }
    uint32_t r = rank(s, words);
    return choice & 2 ? (uint32_t)(((uint64_t)r * TOPICS + topic) % words) : r;
}

/* One sequence before and after masking. */
struct sequence {
    int64_t ids[MAX_SEQ], mask[MAX_SEQ], segment[MAX_SEQ], position[MAX_SEQ], label[MAX_SEQ], random_next;
    float weight[MAX_SEQ];
    int length;
};

static void put(struct sequence *q, int64_t id, int segment)
{
    q->ids[q->length] = id;
    q->mask[q->length] = 1;
    q->segment[q->length++] = segment;
}

/* [CLS] A [SEP] B [SEP] */
static void fill(struct sequence *q, struct stream *s, const struct rp_corpus_opts *o)
{
    uint32_t words = (uint32_t)(o->vocab - RP_TOKEN_FIRST_WORD), room = (uint32_t)o->seq - 3;
    uint32_t tokens = below(next(s), 10) ? room : 2 + below(next(s), room - 1);
    uint32_t a = tokens < 4 ? 1 : tokens / 4 + below(next(s), tokens / 2 + 1), topic = below(next(s), TOPICS);
    int64_t last = -1;
    q->random_next = next(s) & 1;
    put(q, RP_TOKEN_CLS, 0);
    for (uint32_t i = 0; i < tokens; i++) {
        if (i == a) {
            put(q, RP_TOKEN_SEP, 0);
            if (q->random_next) {
                topic = (topic + 1 + below(next(s), TOPICS - 1)) % TOPICS;
                last = -1;
            }
        }
        last = draw_word(s, last, topic, words);
        put(q, RP_TOKEN_FIRST_WORD + last, i >= a);
    }
    put(q, RP_TOKEN_SEP, 1);
}

static int by_position(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* 15 % of the tokens, special ones never: 80 % [MASK], 10 % another word, 10 % as they are. */
static void mask(struct sequence *q, struct stream *s, const struct rp_corpus_opts *o)
{
    int candidate[MAX_SEQ], n = 0, want = (q->length * 15 + 50) / 100;
    for (int i = 0; i < q->length; i++)
        if (q->ids[i] >= RP_TOKEN_FIRST_WORD)
            candidate[n++] = i;
    want = want < 1 ? 1 : want;
    want = want > o->predictions ? o->predictions : want;
    want = want > n ? n : want;
    for (int i = 0; i < want; i++) { /* the first `want` of a Fisher-Yates shuffle */
        int j = i + (int)below(next(s), (uint32_t)(n - i)), c = candidate[i];
        candidate[i] = candidate[j];
        candidate[j] = c;
    }
    qsort(candidate, (size_t)want, sizeof *candidate, by_position);
    for (int i = 0; i < want; i++) {
        int at = candidate[i];
        uint32_t kind = below(next(s), 10), other = below(next(s), (uint32_t)(o->vocab - RP_TOKEN_FIRST_WORD));
        q->position[i] = at;
        q->label[i] = q->ids[at];
        q->weight[i] = 1.0f;
        if (kind < 8)
            q->ids[at] = RP_TOKEN_MASK;
        else if (kind == 8)
            q->ids[at] = RP_TOKEN_FIRST_WORD + (int64_t)other;
    }
}

static void append_sequence(struct rp_buf *out, const struct rp_corpus_opts *o, int64_t i)
{
    struct stream s = {.seed = o->seed, .sequence = (uint64_t)i};
    struct sequence q;
    RP_BUF example = {0};
    memset(&q, 0, sizeof q);
    fill(&q, &s, o);
    mask(&q, &s, o);
    size_t seq = (size_t)o->seq, p = (size_t)o->predictions;
    struct rp_example_field field[] = {
        {.name = "input_ids", .want = RP_EXAMPLE_INT64, .out.i64 = q.ids, .count = seq},
        {.name = "input_mask", .want = RP_EXAMPLE_INT64, .out.i64 = q.mask, .count = seq},
        {.name = "segment_ids", .want = RP_EXAMPLE_INT64, .out.i64 = q.segment, .count = seq},
        {.name = "masked_lm_positions", .want = RP_EXAMPLE_INT64, .out.i64 = q.position, .count = p},
        {.name = "masked_lm_ids", .want = RP_EXAMPLE_INT64, .out.i64 = q.label, .count = p},
        {.name = "masked_lm_weights", .want = RP_EXAMPLE_FLOAT, .out.f32 = q.weight, .count = p},
        {.name = "next_sentence_labels", .want = RP_EXAMPLE_INT64, .out.i64 = &q.random_next, .count = 1},
    };
    rp_example_write(&example, field, (int)(sizeof field / sizeof *field));
    rp_tfrecord_append(out, example.data, example.size);
}

/* -- shards, files, archive -- */

static int in_range(const char *what, int64_t value, int64_t lo, int64_t hi, struct rp_err *err)
{
    if (value >= lo && value <= hi)
        return 0;
    return rp_fail(err, RP_USAGE, "%s %lld is out of range %lld..%lld", what, (long long)value, (long long)lo, (long long)hi);
}

int rp_corpus_check(const struct rp_corpus_opts *o, struct rp_err *err)
{
    if (in_range("--sequences", o->sequences, 1, 100000000, err) < 0 || in_range("--seq-length", o->seq, 16, MAX_SEQ, err) < 0 ||
        in_range("--max-predictions-per-seq", o->predictions, 1, o->seq, err) < 0 ||
        in_range("--vocab-size", o->vocab, 2048, 1 << 24, err) < 0 ||
        in_range("--shards", o->shards, 1, o->sequences < 100000 ? o->sequences : 100000, err) < 0)
        return -1;
    return 0;
}

int rp_corpus_shard(struct rp_buf *out, const struct rp_corpus_opts *o, int i, struct rp_err *err)
{
    if (rp_corpus_check(o, err) < 0 || in_range("shard", i, 0, o->shards - 1, err) < 0)
        return -1;
    for (int64_t q = i * o->sequences / o->shards; q < (i + 1) * o->sequences / o->shards; q++)
        append_sequence(out, o, q);
    return 0;
}

void rp_corpus_shard_name(char out[64], const struct rp_corpus_opts *o, int i)
{
    snprintf(out, 64, "bert-%05d-of-%05d.tfrecord", i, o->shards);
}

static int refuse_existing(const char *path, int force, struct rp_err *err)
{
    struct stat st;
    if (!force && lstat(path, &st) == 0)
        return rp_fail(err, RP_USAGE, "'%s' exists; choose another name, or give --force", path);
    return 0;
}

int rp_corpus_write(const struct rp_corpus_opts *o, const char *dir, int force, struct rp_err *err)
{
    char name[64];
    if (rp_corpus_check(o, err) < 0 || rp_mkdirs(dir, 0777, err) < 0)
        return -1;
    for (int pass = 0; pass < 2; pass++) /* first see that nothing is in the way, then write */
        for (int i = 0; i < o->shards; i++) {
            RP_BUF bytes = {0};
            rp_corpus_shard_name(name, o, i);
            RP_FREE char *path = rp_asprintf("%s/%s", dir, name);
            if (pass == 0 ? refuse_existing(path, force, err) < 0
                          : rp_corpus_shard(&bytes, o, i, err) < 0 || rp_write_file(path, bytes.data, bytes.size, 0666, err) < 0)
                return -1;
        }
    return 0;
}

int rp_corpus_write_archive(const struct rp_corpus_opts *o, const char *path, int force, struct rp_err *err)
{
    char name[64];
    if (rp_corpus_check(o, err) < 0 || refuse_existing(path, force, err) < 0)
        return -1;
    struct rp_archive_member *member = rp_alloc((size_t)o->shards * sizeof *member);
    int failed = 0;
    for (int i = 0; !failed && i < o->shards; i++) {
        RP_BUF bytes = {0};
        rp_corpus_shard_name(name, o, i);
        failed = rp_corpus_shard(&bytes, o, i, err) < 0;
        size_t size = bytes.size;
        member[i] = (struct rp_archive_member){rp_strdup(name), (unsigned char *)rp_buf_take(&bytes), size};
    }
    failed = failed || rp_archive_write(path, member, o->shards, err) < 0;
    rp_archive_members_free(member, o->shards);
    return failed ? -1 : 0;
}
