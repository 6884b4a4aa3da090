#include "data/synthetic/words.h"

#include "ops/philox.h"

#include <string.h>

#define FOLLOWING 0x464f4c4cu /* "FOLL" */

uint32_t rp_words_next(struct rp_words *s)
{
    if (s->draw % 4 == 0) {
        uint32_t x[4] = {s->draw / 4, (uint32_t)s->sequence, (uint32_t)(s->sequence >> 32), s->stream};
        rp_philox(x, s->seed);
        memcpy(s->word, x, sizeof x);
    }
    return s->word[s->draw++ % 4];
}

uint32_t rp_words_below(uint32_t random, uint32_t n)
{
    return (uint32_t)((uint64_t)random * n >> 32);
}

static uint32_t octaves(uint32_t words)
{
    uint32_t bits = 0;
    while (words >> bits)
        bits++;
    return bits;
}

static uint32_t rank(struct rp_words *s, uint32_t words)
{
    uint32_t bits = octaves(words), r;
    do {
        uint32_t b = rp_words_below(rp_words_next(s), bits);
        r = ((1u << b) - 1) + rp_words_below(rp_words_next(s), 1u << b);
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
        uint32_t b = rp_words_below(x[0], bits), r = ((1u << b) - 1) + rp_words_below(x[1], 1u << b);
        if (r < words)
            return r;
    }
}

uint32_t rp_words_draw(struct rp_words *s, int64_t last, uint32_t topic, uint32_t words)
{
    uint32_t choice = rp_words_next(s);
    if (last >= 0 && choice & 1) {
        uint32_t j = 0;
        for (uint32_t coin = rp_words_next(s); j < RP_WORDS_FOLLOWERS - 1 && coin & 1; coin >>= 1)
            j++;
        return follower(s->seed, (uint32_t)last, j, words);
    }
    uint32_t r = rank(s, words);
    return choice & 2 ? (uint32_t)(((uint64_t)r * RP_WORDS_TOPICS + topic) % words) : r;
}
