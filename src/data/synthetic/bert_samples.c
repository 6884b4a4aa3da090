/* A synthetic corpus for BERT pre-training: sequences with a structure that a model can learn. Version 1; integers
 * only. Any change of the bytes is a new version.
 *
 * The words are those of words.h: the second sentence of a random pair can be recognised by its topic (NSP), a masked
 * word can be guessed from its neighbours (MLM). A sentence B that follows A continues with A's topic and last word; a
 * random B starts with another topic and no last word. Pairs are packed as create_pretraining_data does: [CLS] A [SEP]
 * B [SEP], 9 of 10 filled to seq, 1 of 10 shorter; half of the pairs random; 15 % of the tokens predicted, at most
 * max_predictions_per_seq: 80 % [MASK], 10 % random, 10 % kept.
 */
#include "data/synthetic/make.h"

#include "base/sort.h"
#include "data/example.h"
#include "data/synthetic/words.h"
#include "data/tfrecord.h"

#include <string.h>

/* ids of the public uncased vocabulary */
enum { CLS = 101, SEP = 102, MASK = 103, FIRST_WORD = 999 };

#define STREAM 0x434f5250u /* "CORP" */
#define MAX_SEQ 512

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
static void add_sentences(struct sequence *q, struct rp_words *s, const struct rp_make_opts *o)
{
    uint32_t words = (uint32_t)(o->vocab_size - FIRST_WORD), room = (uint32_t)o->seq_length - 3;
    uint32_t tokens = rp_words_below(rp_words_next(s), 10) ? room : 2 + rp_words_below(rp_words_next(s), room - 1);
    uint32_t a = tokens < 4 ? 1 : tokens / 4 + rp_words_below(rp_words_next(s), tokens / 2 + 1);
    uint32_t topic = rp_words_below(rp_words_next(s), RP_WORDS_TOPICS);
    int64_t last = -1;
    q->random_next = rp_words_next(s) & 1;
    add_token(q, CLS, 0);
    for (uint32_t i = 0; i < tokens; i++) {
        if (i == a) {
            add_token(q, SEP, 0);
            if (q->random_next) {
                topic = (topic + 1 + rp_words_below(rp_words_next(s), RP_WORDS_TOPICS - 1)) % RP_WORDS_TOPICS;
                last = -1;
            }
        }
        last = rp_words_draw(s, last, topic, words);
        add_token(q, FIRST_WORD + last, i >= a);
    }
    add_token(q, SEP, 1);
}

/* 15 % of the tokens, except special ones: 80 % become [MASK], 10 % another word, 10 % stay. */
static void mask_tokens(struct sequence *q, struct rp_words *s, const struct rp_make_opts *o)
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
        int j = i + (int)rp_words_below(rp_words_next(s), (uint32_t)(n - i));
        int64_t c = candidate[i];
        candidate[i] = candidate[j];
        candidate[j] = c;
    }
    rp_sort_int64(candidate, (size_t)want);
    for (int i = 0; i < want; i++) {
        int64_t at = candidate[i];
        uint32_t kind = rp_words_below(rp_words_next(s), 10);
        uint32_t other = rp_words_below(rp_words_next(s), (uint32_t)(o->vocab_size - FIRST_WORD));
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
    struct rp_words s = {.seed = (uint64_t)o->seed, .sequence = (uint64_t)i, .stream = STREAM};
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
        return rp_fail(err, RP_USAGE, "--max-predictions-per-seq %ld is out of range 1..%ld",
                       o->max_predictions_per_seq, o->seq_length);
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
