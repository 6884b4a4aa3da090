/* A synthetic corpus for GPT: documents of words (words.h) as token ids. Version 1; integers only. Another byte is a
 * new version.
 *
 * A document has one topic and 32 to 1023 tokens, every octave of lengths as likely as the next. The id of a word is
 * its rank, below vocab_size - 1, which is the id of <|endoftext|> as in GPT-2's vocabulary. The ids do not stand for
 * text. */
#include "data/synthetic/make.h"

#include "data/synthetic/words.h"
#include "data/token_docs.h"

#define STREAM 0x47505431u /* "GPT1" */
#define SHORTEST 32
#define OCTAVES 5

static void gpt_document(struct rp_token_docs *d, const struct rp_make_opts *o, int64_t i)
{
    struct rp_words s = {.seed = (uint64_t)o->seed, .sequence = (uint64_t)i, .stream = STREAM};
    uint32_t words = (uint32_t)o->vocab_size - 1, shortest = SHORTEST << rp_words_below(rp_words_next(&s), OCTAVES);
    uint32_t length = shortest + rp_words_below(rp_words_next(&s), shortest),
             topic = rp_words_below(rp_words_next(&s), RP_WORDS_TOPICS);
    int64_t last = -1;
    for (uint32_t k = 0; k < length; k++) {
        last = rp_words_draw(&s, last, topic, words);
        rp_token_docs_add(d, (uint32_t)last);
    }
    rp_token_docs_close(d);
}

#define GENERATOR(id, name_, token_bytes_)                                                                             \
    extern const struct rp_generator rp_generator_##id;                                                                \
    const struct rp_generator rp_generator_##id = {                                                                    \
        .name = name_,                                                                                                 \
        .format = &rp_data_format_##id,                                                                                \
        .defaults = {.sequences = 512, .vocab_size = 50257, .shards = 1, .seed = 1, .token_bytes = token_bytes_},      \
        .document = gpt_document,                                                                                      \
    };
GENERATOR(llmc, "gpt", 0)
GENERATOR(tokens, "tokens", 2)
GENERATOR(megatron, "megatron", 0)
