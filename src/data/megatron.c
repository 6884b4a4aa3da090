/* Megatron-LM's indexed datasets (megatron_index.h) as samples.
 *
 * Samples are those of Megatron-LM's GPTDataset (core, and 2.x, commit 8aa4619), which treats every sequence as a
 * document: the sequences of an epoch in some order are one row of T tokens, and sample i is its tokens i * seq .. (i +
 * 1) * seq, so neighbours share one. data.split keeps the first sequences only, as many as Megatron-LM's --split gives
 * to training: in core its share, rounded; in 2.x (data.order megatron_2x) that, less what the roundings of all three
 * shares have too much.
 *
 * data.order philox: an epoch has (T - 1) / seq samples; sequences and samples have new pinned orders in every epoch
 * (shuffle.h), and without data.shuffle those of the file. Several .bin files are one row, in the order of their names.
 *
 * data.order megatron: the arrays doc_idx, sample_idx and shuffle_idx of GPTDataset exactly, from numpy's
 * RandomState(seed.data), for N = schedule.total_steps * global batch samples. E epochs suffice for N. All E * D
 * sequences are shuffled as one array, and so are the samples; but if the last of several epochs gives less than 80 %
 * of an epoch's samples, its sequences and samples are shuffled apart and come last. sample_idx is not stored: it says
 * where token i * seq lies. Sample numbers beyond the arrays begin again. They take 4 bytes for each of N samples and
 * for each sequence of every epoch. */
#include "data/megatron_index.h"

#include "data/numpy_order.h"
#include "data/shuffle.h"

#include <math.h>
#include <stdlib.h>

#define MARK 64                               /* sequences between two entries of mark[] */
#define EPOCH_OF_SEQUENCES ((uint64_t)1 << 63) /* the order of sequences is not that of samples */

struct megatron {
    struct rp_token_set set;
    struct rp_megatron_index index;
    int64_t used, tokens; /* of the split: the first sequences, and their tokens */
    uint32_t *order;      /* [ordered] sequences in the order of this epoch, or of all epochs */
    int64_t ordered, *mark; /* [ordered / MARK + 1] position of every MARK-th entry's first token in that order */
    int64_t epoch;        /* that order is of; -1: none yet */
    uint32_t *sample;     /* [set.count] order of the samples; NULL: by rp_shuffle() */
};

/* ---- the split ---- */

/* Sequences for training: convert_split_vector_to_split_matrix() of Megatron core, or get_train_valid_test_split_() of
 * 2.x. Roundings are those of Python, halves to even. */
static int split_sequences(struct megatron *m, const char *split, struct rp_err *err)
{
    double share[3] = {0}, sum = 0;
    int n = 0;
    const char *p = split;
    while (n < 3) {
        char *end = NULL;
        share[n] = strtod(p, &end);
        sum += share[n];
        if (end == p || !(share[n] >= 0) || (*end && *end != ',' && *end != '/'))
            return rp_fail(err, RP_USAGE, "data.split '%.40s': expected up to three numbers such as 949,50,1", split);
        n++;
        if (!*end)
            break;
        p = end + 1;
    }
    if (!(sum > 0) || !isfinite(sum))
        return rp_fail(err, RP_USAGE, "data.split '%.40s': the sum of the numbers must be more than 0", split);
    if (m->index.pairs > 1)
        return rp_fail(err, RP_USAGE,
                       "data.split is for one data set, but there are %d; leave it out, or name one of them",
                       m->index.pairs);
    double all = (double)m->index.sequences, end = 0;
    for (int k = 0; k < 3; k++)
        end += rint(share[k] / sum * all);
    m->used = (int64_t)(rint(share[0] / sum * all) - (m->set.opts.order == RP_DATA_ORDER_megatron_2x ? end - all : 0));
    return m->used > 0 ? 0
                       : rp_fail(err, RP_MALFORMED, "data.split '%.40s' leaves none of %lld sequences for training",
                                 split, (long long)m->index.sequences);
}

/* ---- orders ---- */

static void mark_order(struct megatron *m)
{
    int64_t at = 0;
    m->mark = rp_realloc(m->mark, ((size_t)(m->ordered / MARK) + 1) * sizeof *m->mark);
    for (int64_t k = 0; k < m->ordered; k++) {
        if (k % MARK == 0)
            m->mark[k / MARK] = at;
        at += m->index.start[m->order[k] + 1] - m->index.start[m->order[k]];
    }
}

static void order_epoch(struct megatron *m, int64_t epoch)
{
    if (m->epoch == epoch || (m->epoch >= 0 && !m->set.opts.shuffle))
        return;
    for (int64_t k = 0; k < m->used; k++)
        m->order[k] = m->set.opts.shuffle ? (uint32_t)rp_shuffle((uint64_t)k, (uint64_t)m->used, m->set.opts.seed,
                                                                 (uint64_t)epoch | EPOCH_OF_SEQUENCES)
                                          : (uint32_t)k;
    m->epoch = epoch;
    mark_order(m);
}

static void count_up(uint32_t *v, uint32_t first, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        v[k] = first + (uint32_t)k;
}

/* doc_idx and shuffle_idx of GPTDataset for that many epochs; apart: the last one is shuffled by itself. */
static void order_as_megatron(struct megatron *m, int64_t epochs, int apart)
{
    struct rp_mt19937 g;
    int64_t seq = m->set.seq, whole = apart ? epochs - 1 : epochs;
    int64_t samples = apart ? (whole * m->tokens - 1) / seq : m->set.count;
    rp_mt19937_init(&g, (uint32_t)m->set.opts.seed);
    for (int64_t e = 0; e < epochs; e++)
        count_up(m->order + e * m->used, 0, m->used);
    rp_numpy_shuffle(&g, m->order, (uint32_t)(whole * m->used));
    if (apart)
        rp_numpy_shuffle(&g, m->order + whole * m->used, (uint32_t)m->used);
    count_up(m->sample, 0, m->set.count);
    rp_numpy_shuffle(&g, m->sample, (uint32_t)samples);
    if (samples < m->set.count)
        rp_numpy_shuffle(&g, m->sample + samples, (uint32_t)(m->set.count - samples));
    m->epoch = 0;
    mark_order(m);
}

static int plan_megatron(struct megatron *m, struct rp_err *err)
{
    int64_t seq = m->set.seq, per_epoch = (m->tokens - 1) / seq,
            want = m->set.opts.samples ? m->set.opts.samples : per_epoch;
    if (m->index.pairs > 1)
        return rp_fail(
            err, RP_USAGE,
            "data.order megatron is for one data set, but there are %d, which Megatron-LM would blend; name one "
            "of them, or set data.order to philox",
            m->index.pairs);
    /* the smallest with (epochs * tokens - 1) / seq >= want */
    int64_t epochs = want < INT32_MAX ? (want * seq + m->tokens) / m->tokens : INT64_MAX;
    if (epochs > UINT32_MAX / m->used || (epochs * m->tokens - 1) / seq >= UINT32_MAX)
        return rp_fail(
            err, RP_USAGE,
            "data.order megatron: %lld samples (schedule.total_steps * global batch) are too many for arrays of "
            "this size; lower schedule.total_steps, or set data.order to philox",
            (long long)want);
    int64_t before = epochs > 1 ? ((epochs - 1) * m->tokens - 1) / seq : 0;
    int apart = epochs > 1 && want - before < (int64_t)(0.80 * (double)per_epoch);
    m->set.count = (epochs * m->tokens - 1) / seq;
    m->ordered = epochs * m->used;
    m->order = rp_alloc((size_t)m->ordered * sizeof *m->order);
    m->sample = rp_alloc((size_t)m->set.count * sizeof *m->sample);
    order_as_megatron(m, epochs, apart);
    return 0;
}

static int plan_order(struct megatron *m, struct rp_err *err)
{
    const char *split = m->set.opts.split;
    m->used = m->index.sequences;
    m->epoch = -1;
    if (split && *split && split_sequences(m, split, err) < 0)
        return -1;
    m->tokens = m->index.start[m->used];
    if (m->tokens <= m->set.seq)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has %lld tokens in %lld documents, too few for one sample of task.seq_length + 1 = %ld",
                       m->set.files.file[m->index.bin[0]].name, (long long)m->tokens, (long long)m->index.documents,
                       m->set.seq + 1);
    if (m->set.opts.order != RP_DATA_ORDER_philox)
        return plan_megatron(m, err);
    m->set.count = (m->tokens - 1) / m->set.seq;
    m->ordered = m->used;
    m->order = rp_alloc((size_t)m->ordered * sizeof *m->order);
    return 0;
}

/* ---- open, get, check ---- */

static struct megatron *megatron_of(struct rp_dataset *d)
{
    return (struct megatron *)d;
}

static void megatron_close(struct rp_dataset *d)
{
    struct megatron *m = megatron_of(d);
    if (!m)
        return;
    rp_token_set_fini(&m->set);
    rp_megatron_index_fini(&m->index);
    free(m->order);
    free(m->mark);
    free(m->sample);
    free(m);
}

static struct rp_dataset *megatron_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    struct megatron *m = rp_alloc(sizeof *m);
    if (rp_token_set_init(&m->set, &rp_data_format_megatron, path, field, n, o, err) < 0 ||
        rp_megatron_index_read(&m->index, &m->set, err) < 0 || plan_order(m, err) < 0) {
        megatron_close(&m->set.base);
        return NULL;
    }
    return &m->set.base;
}

static int64_t megatron_count(const struct rp_dataset *d)
{
    return ((const struct megatron *)d)->set.count;
}

/* The last of n rising numbers that is at most v. */
static int64_t last_at_most(const int64_t *v_of, int64_t n, int64_t v)
{
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (v_of[mid] <= v)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* n tokens from position `at` of the row that the ordered sequences are. */
static int read_row(struct megatron *m, int64_t at, int64_t n, int32_t *out, struct rp_err *err)
{
    int64_t mark = last_at_most(m->mark, (m->ordered + MARK - 1) / MARK, at), skip = at - m->mark[mark];
    for (int64_t k = mark * MARK; n > 0; k++) {
        RP_BUG_IF(k >= m->ordered);
        int64_t s = m->order[k], length = m->index.start[s + 1] - m->index.start[s];
        if (skip >= length) {
            skip -= length;
            continue;
        }
        int64_t pair = last_at_most(m->index.pair_first, m->index.pairs, s),
                part = length - skip < n ? length - skip : n;
        if (rp_token_read(&m->set, m->index.bin[pair],
                          m->index.start[s] - m->index.start[m->index.pair_first[pair]] + skip, part, out, err) < 0)
            return -1;
        skip = 0;
        out += part;
        n -= part;
    }
    return 0;
}

static int megatron_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err)
{
    struct megatron *m = megatron_of(d);
    int64_t n = m->set.count, i = sample % n;
    if (m->sample) {
        i = m->sample[i];
    } else {
        order_epoch(m, sample / n);
        i = rp_sample_record(sample, n, m->set.opts.shuffle, m->set.opts.seed);
    }
    return read_row(m, i * m->set.seq, m->set.seq + 1, row[0], err);
}

static int megatron_check(struct rp_dataset *d, struct rp_data_check *out,
                          int (*tick)(void *arg, int64_t done, int64_t all), void *arg, struct rp_err *err)
{
    struct megatron *m = megatron_of(d);
    *out = (struct rp_data_check){.records = m->set.count};
    rp_token_add_fact(out, "documents", "documents", NULL, m->index.documents);
    rp_token_add_fact(out, "sequences", NULL, "sequences", m->index.sequences);
    return rp_token_check(&m->set, out, tick, arg, err);
}

static int megatron_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                          struct rp_err *err)
{
    (void)path;
    (void)err;
    rp_token_probe(o, 0, field, n);
    return 0;
}

const struct rp_data_format rp_data_format_megatron = {
    .name = "megatron",
    .summary = "Megatron-LM: NAME.bin and NAME.idx",
    .in_name = ".idx|.bin",
    .endings = {".bin", ".idx"},
    .make = rp_megatron_make,
    .list = rp_megatron_list,
    .probe = megatron_probe,
    .open = megatron_open,
    .close = megatron_close,
    .count = megatron_count,
    .get = megatron_get,
    .check = megatron_check,
};
