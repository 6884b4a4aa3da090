/* A synthetic corpus for BERT pre-training: sequences with a structure that a model can learn. Version 1; integers only. Any change of the
 * bytes is a new version.
 *
 * Word frequencies follow Zipf's law; a document has a topic, which prefers its own words, so the second sentence of a random pair can be
 * recognised (NSP); a word has a few preferred followers, so a masked word can be guessed from its neighbours (MLM). Pairs are packed as
 * create_pretraining_data does: [CLS] A [SEP] B [SEP], 9 of 10 filled to seq, 1 of 10 shorter; half of the pairs random; 15 % of the tokens
 * predicted, at most max_predictions_per_seq: 80 % [MASK], 10 % random, 10 % kept.
 *
 * Randomness: one stream per sequence, words of Philox4x32-10(key = seed, counter = (draw / 4, sequence low, sequence high, "CORP")).
 * A number below n is (word * n) >> 32.
 *
 * Rank: b uniform in 0..B-1, B the bits of the word count W, then uniform in 2^b-1 .. 2^(b+1)-2, drawn again when >= W: every octave
 * is as likely as the next, which is Zipf's 1/rank.
 * Word after word: one time in two a follower of the word before (one of FOLLOWERS fixed ones, the j-th half as likely as the one
 * before), else one time in two a word of the topic (rank * TOPICS + topic, wrapped), else any word. A sentence B that follows
 * A continues with A's topic and last word; a random B starts with another topic and no last word.
 */
#include "data/synthetic/make.h"

#include "base/sort.h"
#include "data/example.h"
#include "data/tfrecord.h"
#include "ops/philox.h"

#include <string.h>

/* ids of the public uncased vocabulary */
enum { CLS = 101, SEP = 102, MASK = 103, FIRST_WORD = 999 };

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

static void add_token(struct sequence *q, int64_t id, int segment)
{
    q->ids[q->length] = id;
    q->mask[q->length] = 1;
    q->segment[q->length++] = segment;
}

/* [CLS] A [SEP] B [SEP] */
static void add_sentences(struct sequence *q, struct stream *s, const struct rp_make_opts *o)
{
    uint32_t words = (uint32_t)(o->vocab_size - FIRST_WORD), room = (uint32_t)o->seq_length - 3;
    uint32_t tokens = below(next(s), 10) ? room : 2 + below(next(s), room - 1);
    uint32_t a = tokens < 4 ? 1 : tokens / 4 + below(next(s), tokens / 2 + 1), topic = below(next(s), TOPICS);
    int64_t last = -1;
    q->random_next = next(s) & 1;
    add_token(q, CLS, 0);
    for (uint32_t i = 0; i < tokens; i++) {
        if (i == a) {
            add_token(q, SEP, 0);
            if (q->random_next) {
                topic = (topic + 1 + below(next(s), TOPICS - 1)) % TOPICS;
                last = -1;
            }
        }
        last = draw_word(s, last, topic, words);
        add_token(q, FIRST_WORD + last, i >= a);
    }
    add_token(q, SEP, 1);
}

/* 15 % of the tokens, except special ones: 80 % become [MASK], 10 % another word, 10 % stay. */
static void mask_tokens(struct sequence *q, struct stream *s, const struct rp_make_opts *o)
{
    int64_t candidate[MAX_SEQ];
    int n = 0, want = (q->length * 15 + 50) / 100;
    for (int i = 0; i < q->length; i++)
        if (q->ids[i] >= FIRST_WORD)
            candidate[n++] = i;
    want = want < 1 ? 1 : want;
    want = want > o->max_predictions_per_seq ? (int)o->max_predictions_per_seq : want;
    want = want > n ? n : want;
    for (int i = 0; i < want; i++) { /* the first `want` of a Fisher-Yates shuffle */
        int j = i + (int)below(next(s), (uint32_t)(n - i));
        int64_t c = candidate[i];
        candidate[i] = candidate[j];
        candidate[j] = c;
    }
    rp_sort_int64(candidate, (size_t)want);
    for (int i = 0; i < want; i++) {
        int64_t at = candidate[i];
        uint32_t kind = below(next(s), 10), other = below(next(s), (uint32_t)(o->vocab_size - FIRST_WORD));
        q->position[i] = at;
        q->label[i] = q->ids[at];
        q->weight[i] = 1.0f;
        if (kind < 8)
            q->ids[at] = MASK;
        else if (kind == 8)
            q->ids[at] = FIRST_WORD + (int64_t)other;
    }
}

static void bert_sample(struct rp_buf *out, const struct rp_make_opts *o, int64_t i)
{
    struct stream s = {.seed = (uint64_t)o->seed, .sequence = (uint64_t)i};
    struct sequence q;
    RP_BUF example = {0};
    memset(&q, 0, sizeof q);
    add_sentences(&q, &s, o);
    mask_tokens(&q, &s, o);
    size_t seq = (size_t)o->seq_length, p = (size_t)o->max_predictions_per_seq;
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

static int bert_check(const struct rp_make_opts *o, struct rp_err *err)
{
    if (o->max_predictions_per_seq > o->seq_length)
        return rp_fail(err, RP_USAGE, "--max-predictions-per-seq %ld is out of range 1..%ld", o->max_predictions_per_seq, o->seq_length);
    return 0;
}

extern const struct rp_generator rp_generator_bert;
const struct rp_generator rp_generator_bert = {
    .name = "bert",
    .format = &rp_data_format_bert_tfrecord,
    .defaults = {
#define OPTION(field, name, letter, def, lo, hi, help) .field = def,
#include "data/synthetic/options.def"
#undef OPTION
    },
    .check = bert_check,
    .sample = bert_sample,
};
