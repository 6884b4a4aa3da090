/* The made-up corpus: form of every sequence, rates of the original masking, and structure that a model can learn. */
#include "tests/unit/tap.h"

#include "data/archive.h"
#include "data/corpus.h"
#include "data/embedded.h"
#include "tests/unit/data_fixture.h"

static struct rp_err err;
static const struct rp_corpus_opts defaults = RP_CORPUS_DEFAULTS;
enum { S = 128, P = 20, N = 2048 };

static int32_t ids[N][S], segment[N][S], position[N][P], label[N][P], next_label[N];
static uint8_t mask[N][S];
static float weight[N][P];

/* The default corpus in file order, read as any user of it would. */
static int load(void)
{
    static int loaded;
    if (loaded)
        return 1;
    const struct rp_bert_limits l = {.seq = S, .predictions = P, .vocab = defaults.vocab, .type_vocab = 2};
    if (!CHECK(rp_corpus_write(&defaults, scratch("corpus"), 0, &err) == 0, "%s", err.msg))
        return 0;
    struct rp_bert_data *d = rp_bert_data_open(scratch("corpus"), &l, 0, 0, &err);
    loaded = d && rp_bert_data_count(d) == N;
    for (int i = 0; loaded && i < N; i++) {
        struct rp_bert_sample s = {ids[i], mask[i], segment[i], position[i], label[i], weight[i], 0};
        loaded = rp_bert_data_get(d, i, &s, &err) == 0;
        next_label[i] = s.next_sentence_label;
    }
    rp_bert_data_close(d);
    return CHECK(loaded, "%s", err.msg);
}

static int length(int i)
{
    int n = 0;
    while (n < S && mask[i][n])
        n++;
    return n;
}

TEST(every_sequence_has_the_form_of_bert)
{
    int bad = 0;
    for (int i = 0; load() && i < N; i++) {
        int n = length(i), separators = 0, first = 0;
        for (int k = 0; k < S; k++) {
            bad += mask[i][k] != (k < n) || (k >= n && (ids[i][k] || segment[i][k]));
            if (ids[i][k] == RP_TOKEN_SEP && separators++ == 0)
                first = k;
            bad += k < n && segment[i][k] != (separators > 0 && k > first);
        }
        bad += ids[i][0] != RP_TOKEN_CLS || separators != 2 || ids[i][n - 1] != RP_TOKEN_SEP || first < 2 || first > n - 3;
        int want = (n * 15 + 50) / 100, used = 0, before = 0;
        for (int k = 0; k < P; k++) {
            if (weight[i][k] == 0) {
                bad += position[i][k] || label[i][k];
                continue;
            }
            bad += k != used++ || position[i][k] <= before || position[i][k] == first || position[i][k] >= n - 1;
            bad += label[i][k] < RP_TOKEN_FIRST_WORD || weight[i][k] != 1.0f;
            before = position[i][k];
        }
        bad += used != (want < 1 ? 1 : want > P ? P : want) && n >= 8;
    }
    CHECK(bad == 0, "%d faults", bad);
}

/* Shares in per mille; N is large enough for these bounds to be more than four standard deviations away. */
TEST(rates_are_those_of_the_original)
{
    int full = 0, random_next = 0, masked = 0, kept = 0, other = 0, all = 0;
    for (int i = 0; load() && i < N; i++) {
        full += length(i) == S;
        random_next += next_label[i];
        for (int k = 0; k < P; k++)
            if (weight[i][k] > 0) {
                int id = ids[i][position[i][k]];
                all++;
                masked += id == RP_TOKEN_MASK;
                kept += id == label[i][k];
                other += id != RP_TOKEN_MASK && id != label[i][k];
            }
    }
    CHECK(full * 1000 / N >= 870 && full * 1000 / N <= 930, "%d of %d full", full, N);
    CHECK(random_next * 1000 / N >= 455 && random_next * 1000 / N <= 545, "%d random", random_next);
    CHECK(masked * 1000 / all >= 790 && masked * 1000 / all <= 810, "%d of %d masked", masked, all);
    CHECK(kept * 1000 / all >= 92 && kept * 1000 / all <= 108 && other * 1000 / all >= 92 && other * 1000 / all <= 108, "%d %d", kept, other);
}

/* ---- structure ---- */

static int is_word(int i, int k)
{
    return mask[i][k] && ids[i][k] >= RP_TOKEN_FIRST_WORD;
}

TEST(word_frequencies_fall_like_zipf)
{
    int count[32] = {0}, all = 0;
    for (int i = 0; load() && i < N; i++)
        for (int k = 0; k < S; k++)
            if (is_word(i, k)) {
                count[31 - __builtin_clz((unsigned)(ids[i][k] - RP_TOKEN_FIRST_WORD + 1))]++;
                all++;
            }
    int low = 0;
    for (int octave = 0; octave < 14; octave++)
        low += count[octave] * 100 < all * 2;
    CHECK(low == 0, "%d of 14 octaves of ranks hold less than 2 %% of the tokens", low);
    CHECK(count[0] * 100 > all * 2 && count[13] * 100 < all * 40);
}

enum { BUCKETS = 1 << 22 };
static uint16_t seen[BUCKETS];

/* The most common words meet often by chance: only those of rank 16 and above count. */
static int is_rare(int i, int k)
{
    return is_word(i, k) && ids[i][k] >= RP_TOKEN_FIRST_WORD + 16;
}

/* How many pairs (word at k of sequence i, word at k+1 of sequence i + apart) come up at least four times. */
static int repeated_pairs(int apart)
{
    int n = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i + 1 < N; i++)
        for (int k = 1; k + 1 < S; k++)
            if (is_rare(i, k) && is_rare((i + apart) % N, k + 1)) {
                uint32_t h = (uint32_t)ids[i][k] * 0x9e3779b1u ^ (uint32_t)ids[(i + apart) % N][k + 1] * 0x85ebca6bu;
                n += ++seen[(h ^ h >> 15) % BUCKETS] == 4;
            }
    return n;
}

TEST(neighbours_tell_of_each_other)
{
    if (!load())
        return;
    int near = repeated_pairs(0), far = repeated_pairs(1);
    CHECK(near > 3 * far, "%d repeated pairs of neighbours, %d of strangers", near, far);
}

/* Words of rank 64 and above that occur in both sentences. */
static int shared_words(int i)
{
    int n = 0;
    for (int a = 1; a < S; a++)
        for (int b = a + 1; b < S; b++)
            n += is_word(i, a) && !segment[i][a] && segment[i][b] && ids[i][a] == ids[i][b] && ids[i][a] >= RP_TOKEN_FIRST_WORD + 64;
    return n;
}

TEST(a_random_second_sentence_betrays_itself)
{
    long shared[2] = {0}, n[2] = {0};
    for (int i = 0; load() && i < N; i++) {
        n[next_label[i]]++;
        shared[next_label[i]] += shared_words(i);
    }
    CHECK(n[0] && n[1] && shared[0] * n[1] * 2 > shared[1] * n[0] * 3, "%ld words shared in %ld true pairs, %ld in %ld random ones",
          shared[0], n[0], shared[1], n[1]);
}

/* ---- making ---- */

TEST(shards_are_the_same_sequences_however_many)
{
    struct rp_corpus_opts one = defaults, three = defaults;
    RP_BUF a = {0}, b = {0};
    one.sequences = three.sequences = 50;
    one.shards = 1;
    three.shards = 3;
    CHECK(rp_corpus_shard(&a, &one, 0, &err) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(rp_corpus_shard(&b, &three, i, &err) == 0);
    CHECK(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
    b.size = 0;
    one.seed = 2;
    CHECK(rp_corpus_shard(&b, &one, 0, &err) == 0 && (a.size != b.size || memcmp(a.data, b.data, a.size) != 0));
}

TEST(other_lengths_and_vocabularies)
{
    static const struct {
        int seq, predictions, vocab;
    } c[] = {{16, 1, 2048}, {16, 16, 30522}, {512, 80, 30522}, {33, 5, 119547}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct rp_corpus_opts o = {.seed = 5, .sequences = 300, .seq = c[i].seq, .predictions = c[i].predictions, .vocab = c[i].vocab, .shards = 1};
        const struct rp_bert_limits l = {.seq = o.seq, .predictions = o.predictions, .vocab = o.vocab, .type_vocab = 2};
        struct rp_bert_check k;
        RP_BUF b = {0};
        CHECK(rp_corpus_shard(&b, &o, 0, &err) == 0, "%s", err.msg);
        struct rp_bert_data *d = rp_bert_data_open(put_file("other.tfrecord", b.data, b.size), &l, 0, 0, &err);
        CHECK(d && rp_bert_data_check(d, &k, NULL, NULL, &err) == 0 && k.records == 300, "%s", err.msg);
        rp_bert_data_close(d);
    }
}

TEST(refusals)
{
    struct rp_corpus_opts o = defaults;
    o.seq = 4;
    CHECK(rp_corpus_check(&o, &err) < 0 && err.code == RP_USAGE);
    CHECK_STR(err.msg, "--seq-length 4 is out of range 16..512");
    o = defaults;
    o.shards = 3;
    o.sequences = 2;
    CHECK(rp_corpus_check(&o, &err) < 0 && err.code == RP_USAGE);
    o = defaults;
    o.predictions = 129;
    CHECK(rp_corpus_check(&o, &err) < 0 && err.code == RP_USAGE);
    o = defaults;
    o.sequences = 4;
    CHECK(rp_corpus_write(&o, scratch("twice"), 0, &err) == 0);
    CHECK(rp_corpus_write(&o, scratch("twice"), 0, &err) < 0 && err.code == RP_USAGE && strstr(err.msg, "--force"), "%s", err.msg);
    CHECK(rp_corpus_write(&o, scratch("twice"), 1, &err) == 0);
}
