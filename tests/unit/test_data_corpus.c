/* The made-up corpus: form of every sequence, rates of the original masking, and structure that a model can learn. */
#include "tests/unit/tap.h"

#include "data/synthetic/make.h"
#include "tests/unit/data_fixture.h"

static struct rp_err err;
enum { S = 128, P = 20, N = 2048 };
enum { CLS = 101, SEP = 102, MASK = 103, FIRST_WORD = 999 }; /* of the public uncased vocabulary */

static int32_t ids[N][S], segment[N][S], position[N][P], label[N][P], next_label[N];
static uint8_t mask[N][S];
static float weight[N][P];

static const struct rp_generator *bert(void)
{
    return rp_generator_find("bert");
}

static struct rp_make_opts complete(struct rp_make_opts o)
{
    CHECK(rp_make_options(&o, bert(), &err) == 0, "%s", err.msg);
    return o;
}

/* The default corpus in file order, read as any user of it would. */
static int load(void)
{
    static int loaded;
    if (loaded)
        return 1;
    const struct rp_make_opts defaults = complete((struct rp_make_opts){0});
    const struct rp_sample_field want[] = BERT_WANTS(S, P, defaults.vocab_size);
    if (!CHECK(rp_make_directory(bert(), &defaults, scratch("corpus"), 0, &err) == 0, "%s", err.msg))
        return 0;
    struct rp_dataset *d = open_bert(scratch("corpus"), want, 0, 0, &err);
    loaded = d && d->format->count(d) == N;
    for (int i = 0; loaded && i < N; i++) {
        void *const row[] = {ids[i], mask[i], segment[i], position[i], label[i], weight[i], &next_label[i]};
        loaded = d->format->get(d, i, row, &err) == 0;
    }
    close_data(d);
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
            if (ids[i][k] == SEP && separators++ == 0)
                first = k;
            bad += k < n && segment[i][k] != (separators > 0 && k > first);
        }
        bad += ids[i][0] != CLS || separators != 2 || ids[i][n - 1] != SEP || first < 2 || first > n - 3;
        int want = (n * 15 + 50) / 100, used = 0, before = 0;
        for (int k = 0; k < P; k++) {
            if (weight[i][k] == 0) {
                bad += position[i][k] || label[i][k];
                continue;
            }
            bad += k != used++ || position[i][k] <= before || position[i][k] == first || position[i][k] >= n - 1;
            bad += label[i][k] < FIRST_WORD || weight[i][k] != 1.0f;
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
                masked += id == MASK;
                kept += id == label[i][k];
                other += id != MASK && id != label[i][k];
            }
    }
    CHECK(full * 1000 / N >= 870 && full * 1000 / N <= 930, "%d of %d full", full, N);
    CHECK(random_next * 1000 / N >= 455 && random_next * 1000 / N <= 545, "%d random", random_next);
    CHECK(masked * 1000 / all >= 790 && masked * 1000 / all <= 810, "%d of %d masked", masked, all);
    CHECK(kept * 1000 / all >= 92 && kept * 1000 / all <= 108 && other * 1000 / all >= 92 && other * 1000 / all <= 108,
          "%d %d", kept, other);
}

/* ---- structure ---- */

static int is_word(int i, int k)
{
    return mask[i][k] && ids[i][k] >= FIRST_WORD;
}

TEST(word_frequencies_fall_like_zipf)
{
    int count[32] = {0}, all = 0;
    for (int i = 0; load() && i < N; i++)
        for (int k = 0; k < S; k++)
            if (is_word(i, k)) {
                count[31 - __builtin_clz((unsigned)(ids[i][k] - FIRST_WORD + 1))]++;
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
    return is_word(i, k) && ids[i][k] >= FIRST_WORD + 16;
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
            n += is_word(i, a) && !segment[i][a] && segment[i][b] && ids[i][a] == ids[i][b] &&
                 ids[i][a] >= FIRST_WORD + 64;
    return n;
}

TEST(a_random_second_sentence_betrays_itself)
{
    long shared[2] = {0}, n[2] = {0};
    for (int i = 0; load() && i < N; i++) {
        n[next_label[i]]++;
        shared[next_label[i]] += shared_words(i);
    }
    CHECK(n[0] && n[1] && shared[0] * n[1] * 2 > shared[1] * n[0] * 3,
          "%ld words shared in %ld true pairs, %ld in %ld random ones", shared[0], n[0], shared[1], n[1]);
}

/* ---- making ---- */

TEST(shards_are_the_same_sequences_however_many)
{
    struct rp_make_opts one = complete((struct rp_make_opts){.sequences = 50, .shards = 1});
    struct rp_make_opts three = complete((struct rp_make_opts){.sequences = 50, .shards = 3});
    RP_BUF a = {0}, b = {0};
    CHECK(rp_make_shard(&a, bert(), &one, 0, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 3; i++)
        CHECK(rp_make_shard(&b, bert(), &three, i, &err) == 0, "%s", err.msg);
    CHECK(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
    b.size = 0;
    one.seed = 2;
    CHECK(rp_make_shard(&b, bert(), &one, 0, &err) == 0, "%s", err.msg);
    CHECK(a.size != b.size || memcmp(a.data, b.data, a.size) != 0);
}

TEST(other_lengths_and_vocabularies)
{
    static const struct {
        int seq, predictions, vocab;
    } c[] = {{16, 1, 2048}, {16, 16, 30522}, {512, 80, 30522}, {33, 5, 119547}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const struct rp_make_opts o = complete((struct rp_make_opts){.seed = 5, .sequences = 300,
                                                                     .seq_length = c[i].seq, .vocab_size = c[i].vocab,
                                                                     .max_predictions_per_seq = c[i].predictions,
                                                                     .shards = 1});
        const struct rp_sample_field want[] = BERT_WANTS(c[i].seq, c[i].predictions, c[i].vocab);
        struct rp_data_check k;
        RP_BUF b = {0};
        CHECK(rp_make_shard(&b, bert(), &o, 0, &err) == 0, "%s", err.msg);
        struct rp_dataset *d = open_bert(put_file("other.tfrecord", b.data, b.size), want, 0, 0, &err);
        CHECK(d && check_data(d, &k, &err) == 0 && k.records == 300, "%s", err.msg);
        close_data(d);
    }
}

static void options_fail(struct rp_make_opts o, const struct rp_generator *g)
{
    REFUSED(rp_make_options(&o, g, &err) < 0 && err.code == RP_USAGE, err.msg);
}

TEST(refusals)
{
    options_fail((struct rp_make_opts){.seq_length = 4}, bert());
    options_fail((struct rp_make_opts){.sequences = -1}, bert());
    options_fail((struct rp_make_opts){.sequences = 2, .shards = 3}, bert());
    options_fail((struct rp_make_opts){.max_predictions_per_seq = 129}, bert());
    const struct rp_generator other = {.name = "other", .defaults = {.sequences = 1, .shards = 1}};
    options_fail((struct rp_make_opts){.vocab_size = 5000}, &other);
    struct rp_make_opts o = {0};
    CHECK(rp_make_options(&o, &other, &err) == 0 && o.sequences == 1 && o.vocab_size == 0, "%s", err.msg);
    o = complete((struct rp_make_opts){.sequences = 4});
    CHECK(rp_make_directory(bert(), &o, scratch("twice"), 0, &err) == 0);
    CHECK(rp_make_directory(bert(), &o, scratch("twice"), 0, &err) < 0 && err.code == RP_USAGE &&
              strstr(err.msg, "--force"),
          "%s", err.msg);
    CHECK(rp_make_directory(bert(), &o, scratch("twice"), 1, &err) == 0);
}

TEST(generators_are_found_by_name_and_by_format)
{
    for (int i = 0; rp_generators[i]; i++) {
        const struct rp_generator *g = rp_generators[i];
        CHECK(rp_generator_find(g->name) == g && rp_generator_find(g->format->name) == g &&
                  rp_data_format_find(g->format->name) == g->format,
              "%s", g->name);
    }
    CHECK(!rp_generator_find("imagenet"));
}

/* ---- documents of tokens ---- */

/* The same documents in every format of tokens, the end of a document before each in llm.c's and after each in the
 * others. */
TEST(documents_of_tokens_in_every_format)
{
    static const char *const names[] = {"llmc", "tokens", "megatron"};
    enum { SEQ_T = 50 };
    int32_t row[3][SEQ_T + 1];
    int64_t tokens[3], distinct[3];
    for (int i = 0; i < 3; i++) {
        const struct rp_generator *g = rp_generator_find(names[i]);
        struct rp_make_opts o = {.sequences = 20, .shards = 2, .token_bytes = i == 1 ? 4 : 0};
        const struct rp_sample_field f = {"tokens", RP_I32, SEQ_T + 1, 50257};
        const struct rp_data_opts read = {.token_bytes = 4};
        void *const rows[] = {row[i]};
        struct rp_data_check c = {0};
        CHECK(rp_make_options(&o, g, &err) == 0 && rp_make_directory(g, &o, scratch(names[i]), 0, &err) == 0, "%s",
              err.msg);
        struct rp_dataset *d = g->format->open(scratch(names[i]), &f, 1, &read, &err);
        CHECK(d && check_data(d, &c, &err) == 0 && d->format->get(d, 0, rows, &err) == 0, "%s", err.msg);
        CHECK(c.files == (i == 2 ? 4 : 2) && fact(&c, "largest_id") == 50256);
        tokens[i] = fact(&c, "tokens");
        distinct[i] = fact(&c, "distinct_ids");
        if (i == 2)
            CHECK(fact(&c, "documents") == 20);
        close_data(d);
    }
    CHECK(tokens[0] > 20 * 33 && tokens[0] == tokens[1] && tokens[1] == tokens[2] && distinct[0] == distinct[1] &&
          distinct[1] == distinct[2]);
    CHECK(row[0][0] == 50256 && memcmp(row[0] + 1, row[1], SEQ_T * sizeof **row) == 0 &&
          memcmp(row[1], row[2], sizeof *row) == 0);
}

/* Followers: of pairs of neighbours that come up, most come up again. */
TEST(documents_of_tokens_have_structure)
{
    const struct rp_generator *g = rp_generator_find("gpt");
    struct rp_make_opts o = {0};
    RP_BUF b = {0};
    CHECK(rp_make_options(&o, g, &err) == 0 && rp_make_shard(&b, g, &o, 0, &err) == 0, "%s", err.msg);
    const uint16_t *id = (const uint16_t *)(b.data + 1024);
    long n = (long)(b.size - 1024) / 2, again[2] = {0}, common = 0;
    CHECK(n > 100000 && n < 200000, "%ld tokens", n);
    for (int apart = 1; apart <= 2; apart++) {
        memset(seen, 0, sizeof seen);
        for (long i = 0; i + apart < n; i++)
            if (id[i] >= 16 && id[i + apart] >= 16) {
                uint32_t h = (uint32_t)id[i] * 0x9e3779b1u ^ (uint32_t)id[i + apart] * 0x85ebca6bu;
                again[apart - 1] += ++seen[(h ^ h >> 15) % BUCKETS] == 4;
            }
    }
    for (long i = 0; i < n; i++)
        common += id[i] < 256;
    CHECK(again[0] > 2 * again[1], "%ld pairs of neighbours come up four times, %ld of tokens two apart", again[0],
          again[1]);
    CHECK(common * 100 > n * 30 && common * 100 < n * 80, "%ld of %ld tokens are below 256", common, n);
}
