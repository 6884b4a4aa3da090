/* Megatron-LM's indexed datasets: tokens in NAME.bin, sequences and documents in NAME.idx, little endian.
 *
 *     .idx: "MMIDIDX\0\0" | u64 version 1 | u8 type | u64 sequences S | u64 entries of the document index D
 *           | int32 length[S] | int64 pointer[S], bytes into .bin | int64 document[D], from 0 to S | int8 mode[S] or
 *           nothing
 *     type: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16 (6 and 7 are floats)
 *     .bin: the tokens of all sequences, one after the other
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
#include "data/token_files.h"

#include "base/buf.h"
#include "data/numpy_order.h"
#include "data/shuffle.h"
#include "data/token_docs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "MMIDIDX\0"                     /* 9 bytes with the NUL of the literal */
#define OLD_MAGIC "TNTIDX\0"                  /* 8 bytes: fairseq's formats, --dataset-impl lazy and cached */
#define HEADER 34
#define MARK 64                               /* sequences between two entries of mark[] */
#define EPOCH_OF_SEQUENCES ((uint64_t)1 << 63) /* the order of sequences is not that of samples */

struct megatron {
    struct rp_token_set set;
    int pairs, *bin;      /* [pairs] index of a .bin among set.files */
    int64_t *pair_first;  /* [pairs + 1] its first sequence */
    int64_t *start;       /* [sequences + 1] first token of each, counted over all pairs */
    int64_t sequences, documents;
    int64_t used, tokens; /* of the split: the first sequences, and their tokens */
    uint32_t *order;      /* [ordered] sequences in the order of this epoch, or of all epochs */
    int64_t ordered, *mark; /* [ordered / MARK + 1] position of every MARK-th entry's first token in that order */
    int64_t epoch;        /* that order is of; -1: none yet */
    uint32_t *sample;     /* [set.count] order of the samples; NULL: by rp_shuffle() */
};

/* ---- files ---- */

static const char *ending_of(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0 ? name + n - m : NULL;
}

/* "a/b.idx" -> "a/b.bin" and back (free it); NULL: neither. */
static char *other_of(const char *name)
{
    const char *idx = ending_of(name, ".idx"), *bin = ending_of(name, ".bin"), *end = idx ? idx : bin;
    return end ? rp_asprintf("%.*s%s", (int)(end - name), name, idx ? ".bin" : ".idx") : NULL;
}

static int add_others(struct rp_files *f, struct rp_err *err)
{
    struct stat st;
    char **other = rp_alloc((size_t)f->n * sizeof *other);
    int n = 0, failed = 0;
    for (int i = 0; i < f->n && !failed; i++) {
        const char *name = f->file[i].name;
        char *o = other_of(name);
        if (!o)
            failed = rp_fail(err, RP_MALFORMED,
                             "'%s' is neither .bin nor .idx; a data set of data.format megatron is NAME.bin and "
                             "NAME.idx",
                             name);
        else if (rp_files_find(f, o) < 0 && (f->file[i].data || stat(o, &st) < 0))
            failed = rp_fail(
                err, RP_IO, "'%s' has no '%s' next to it; both are needed, as preprocess_data.py writes them", name, o);
        else if (rp_files_find(f, o) < 0)
            other[n++] = o, o = NULL;
        free(o);
    }
    if (!failed)
        failed = rp_files_add(f, other, n, err) < 0;
    for (int i = 0; i < n; i++)
        free(other[i]);
    free(other);
    return failed ? -1 : 0;
}

/* path: as in files.h; also NAME without its ending, as in Megatron-LM's --data-path. */
static int megatron_list(struct rp_files *f, const char *path, struct rp_err *err)
{
    struct stat st;
    RP_FREE char *index = rp_asprintf("%s.idx", path);
    int prefix = stat(path, &st) < 0 && stat(index, &st) == 0;
    if (rp_files_open(f, prefix ? index : path, ".idx|.bin", err) < 0)
        return -1;
    if (add_others(f, err) < 0) {
        rp_files_close(f);
        return -1;
    }
    return 0;
}

/* ---- the index ---- */

struct idx { /* a file read from its start to its end */
    struct rp_files *files;
    int i;
    const char *name;
    uint64_t at, size;
    unsigned char *bytes; /* of set.bytes */
    size_t used, have;
};

static int idx_value(struct idx *x, size_t width, uint64_t *v, struct rp_err *err)
{
    if (x->have - x->used < width) {
        uint64_t rest = x->size - x->at;
        size_t kept = x->have - x->used, more = rest < RP_TOKEN_CHUNK ? (size_t)rest : RP_TOKEN_CHUNK;
        memmove(x->bytes, x->bytes + x->used, kept);
        if (rp_files_read(x->files, x->i, x->at, x->bytes + kept, more, err) < 0)
            return -1;
        x->at += more;
        x->used = 0;
        x->have = kept + more;
    }
    *v = 0;
    memcpy(v, x->bytes + x->used, width);
    x->used += width;
    return 0;
}

static int check_magic(const struct idx *x, const unsigned char *h, struct rp_err *err)
{
    if (memcmp(h, OLD_MAGIC, 8) == 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is an index of the old implementations lazy and cached; make it again with "
                       "preprocess_data.py --dataset-impl mmap",
                       x->name);
    return memcmp(h, MAGIC, 9) == 0
               ? 0
               : rp_fail(err, RP_MALFORMED, "'%s' is not an index of Megatron-LM: it does not begin with MMIDIDX",
                         x->name);
}

static int check_type(const struct idx *x, unsigned code, enum rp_token_type *type, struct rp_err *err)
{
    static const struct {
        enum rp_token_type type;
        const char *refused;
    } types[] = {
        {0, "no type"},       {RP_TOKEN_U8, NULL},  {RP_TOKEN_I8, NULL}, {RP_TOKEN_I16, NULL},
        {RP_TOKEN_I32, NULL}, {RP_TOKEN_I64, NULL}, {0, "float64"},      {0, "float32, or float64 of old versions"},
        {RP_TOKEN_U16, NULL}};
    unsigned n = sizeof types / sizeof *types;
    if (code >= n || types[code].refused)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' has elements of type %u (%s), expected whole numbers: 1 uint8, 2 int8, 3 int16, 4 int32, 5 "
            "int64 or 8 uint16",
            x->name, code, code < n ? types[code].refused : "unknown");
    *type = types[code].type;
    return 0;
}

/* *modes: whether the index ends with one byte for each sequence. */
static int read_header(struct idx *x, enum rp_token_type *type, uint64_t *s, uint64_t *d, int *modes,
                       struct rp_err *err)
{
    unsigned char h[HEADER];
    if (x->size < HEADER)
        return rp_fail(err, RP_MALFORMED, "'%s' has %llu bytes, fewer than the header of %d: it is truncated", x->name,
                       (unsigned long long)x->size, HEADER);
    for (int k = 0; k < HEADER; k++) {
        uint64_t v;
        if (idx_value(x, 1, &v, err) < 0)
            return -1;
        h[k] = (unsigned char)v;
    }
    uint64_t version;
    memcpy(&version, h + 9, 8);
    memcpy(s, h + 18, 8);
    memcpy(d, h + 26, 8);
    if (check_magic(x, h, err) < 0)
        return -1;
    if (version != 1)
        return rp_fail(err, RP_MALFORMED, "'%s' has version %llu, expected 1", x->name, (unsigned long long)version);
    if (check_type(x, h[17], type, err) < 0)
        return -1;
    uint64_t room = x->size - HEADER;
    int fits = *s <= room / 12 && *d <= (room - 12 * *s) / 8;
    uint64_t rest = fits ? room - 12 * *s - 8 * *d : 0;
    if (!fits || (rest && rest != *s))
        return rp_fail(err, RP_MALFORMED,
                       "'%s' announces %llu sequences and %llu entries of the document index, which are not the %llu "
                       "bytes of the file: it is truncated or damaged",
                       x->name, (unsigned long long)*s, (unsigned long long)*d, (unsigned long long)x->size);
    *modes = rest != 0;
    return *s && *d >= 2 ? 0 : rp_fail(err, RP_MALFORMED, "'%s' has no documents", x->name);
}

static int read_lengths(struct megatron *m, struct idx *x, uint64_t s, struct rp_err *err)
{
    if ((uint64_t)m->sequences + s >= UINT32_MAX)
        return rp_fail(err, RP_MALFORMED, "'%s': more than %lu sequences", x->name, (unsigned long)UINT32_MAX - 1);
    m->start = rp_realloc(m->start, ((size_t)m->sequences + s + 1) * sizeof *m->start);
    int64_t *start = m->start + m->sequences;
    if (m->sequences == 0)
        start[0] = 0;
    for (uint64_t k = 0; k < s; k++) {
        uint64_t v;
        if (idx_value(x, 4, &v, err) < 0)
            return -1;
        if (v > INT32_MAX)
            return rp_fail(err, RP_MALFORMED, "'%s': sequence %llu (from 0) has the length %ld", x->name,
                           (unsigned long long)k, (long)(int32_t)v);
        start[k + 1] = start[k] + (int64_t)v;
    }
    return 0;
}

static int check_pointers(struct megatron *m, struct idx *x, uint64_t s, size_t width, struct rp_err *err)
{
    const int64_t *start = m->start + m->sequences;
    for (uint64_t k = 0; k < s; k++) {
        uint64_t v, want = (uint64_t)(start[k] - start[0]) * width;
        if (idx_value(x, 8, &v, err) < 0)
            return -1;
        if (v != want)
            return rp_fail(err, RP_MALFORMED,
                           "'%s': sequence %llu (from 0) begins at byte %llu, expected %llu, where the one before it "
                           "ends: the index is damaged",
                           x->name, (unsigned long long)k, (unsigned long long)v, (unsigned long long)want);
    }
    return 0;
}

static int check_documents(struct idx *x, uint64_t s, uint64_t d, struct rp_err *err)
{
    uint64_t last = 0;
    for (uint64_t k = 0; k < d; k++) {
        uint64_t v;
        if (idx_value(x, 8, &v, err) < 0)
            return -1;
        if (v < last || v > s || (k == 0 && v) || (k == d - 1 && v != s))
            return rp_fail(err, RP_MALFORMED,
                           "'%s': entry %llu (from 0) of the document index is %lld after %llu; expected numbers that "
                           "rise from 0 to %llu, the number of sequences",
                           x->name, (unsigned long long)k, (long long)v, (unsigned long long)last,
                           (unsigned long long)s);
        last = v;
    }
    return 0;
}

static int check_modes(struct idx *x, uint64_t s, struct rp_err *err)
{
    for (uint64_t k = 0; k < s; k++) {
        uint64_t v;
        if (idx_value(x, 1, &v, err) < 0)
            return -1;
        if (v)
            return rp_fail(err, RP_MALFORMED, "'%s': sequence %llu (from 0) has mode %llu, which is not text (0)",
                           x->name, (unsigned long long)k, (unsigned long long)v);
    }
    return 0;
}

/* File i is an index, file b its .bin. */
static int read_pair(struct megatron *m, int i, int b, struct rp_err *err)
{
    struct rp_files *f = &m->set.files;
    struct idx x = {.files = f, .i = i, .name = f->file[i].name, .size = f->file[i].size, .bytes = m->set.bytes};
    enum rp_token_type type = RP_TOKEN_U8;
    uint64_t s = 0, d = 0;
    int modes = 0;
    if (read_header(&x, &type, &s, &d, &modes, err) < 0 || read_lengths(m, &x, s, err) < 0 ||
        check_pointers(m, &x, s, rp_token_bytes(type), err) < 0 || check_documents(&x, s, d, err) < 0 ||
        (modes && check_modes(&x, s, err) < 0))
        return -1;
    int64_t tokens = m->start[m->sequences + (int64_t)s] - m->start[m->sequences];
    if ((uint64_t)tokens * rp_token_bytes(type) != f->file[b].size)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has %llu bytes, expected %llu: '%s' lists %lld tokens of %zu bytes; one of them is "
                       "truncated, or they do not belong together",
                       f->file[b].name, (unsigned long long)f->file[b].size,
                       (unsigned long long)tokens * rp_token_bytes(type), x.name, (long long)tokens,
                       rp_token_bytes(type));
    m->set.range[b] = (struct rp_token_range){type, 0, tokens};
    m->bin[m->pairs] = b;
    m->sequences += (int64_t)s;
    m->documents += (int64_t)d - 1;
    m->pair_first[++m->pairs] = m->sequences;
    return 0;
}

static int read_pairs(struct megatron *m, struct rp_err *err)
{
    const struct rp_files *f = &m->set.files;
    m->bin = rp_alloc((size_t)f->n * sizeof *m->bin);
    m->pair_first = rp_alloc(((size_t)f->n + 1) * sizeof *m->pair_first);
    for (int i = 0; i < f->n; i++)
        if (ending_of(f->file[i].name, ".idx")) {
            RP_FREE char *other = other_of(f->file[i].name);
            if (read_pair(m, i, rp_files_find(f, other), err) < 0)
                return -1;
        }
    return 0;
}

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
    if (m->pairs > 1)
        return rp_fail(err, RP_USAGE,
                       "data.split is for one data set, but there are %d; leave it out, or name one of them", m->pairs);
    double all = (double)m->sequences, end = 0;
    for (int k = 0; k < 3; k++)
        end += rint(share[k] / sum * all);
    m->used = (int64_t)(rint(share[0] / sum * all) - (m->set.opts.order == RP_DATA_ORDER_megatron_2x ? end - all : 0));
    return m->used > 0 ? 0
                       : rp_fail(err, RP_MALFORMED, "data.split '%.40s' leaves none of %lld sequences for training",
                                 split, (long long)m->sequences);
}

/* ---- orders ---- */

static void mark_order(struct megatron *m)
{
    int64_t at = 0;
    m->mark = rp_realloc(m->mark, ((size_t)(m->ordered / MARK) + 1) * sizeof *m->mark);
    for (int64_t k = 0; k < m->ordered; k++) {
        if (k % MARK == 0)
            m->mark[k / MARK] = at;
        at += m->start[m->order[k] + 1] - m->start[m->order[k]];
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
    if (m->pairs > 1)
        return rp_fail(
            err, RP_USAGE,
            "data.order megatron is for one data set, but there are %d, which Megatron-LM would blend; name one "
            "of them, or set data.order to philox",
            m->pairs);
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
    m->used = m->sequences;
    m->epoch = -1;
    if (split && *split && split_sequences(m, split, err) < 0)
        return -1;
    m->tokens = m->start[m->used];
    if (m->tokens <= m->set.seq)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has %lld tokens in %lld documents, too few for one sample of task.seq_length + 1 = %ld",
                       m->set.files.file[m->bin[0]].name, (long long)m->tokens, (long long)m->documents,
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
    free(m->bin);
    free(m->pair_first);
    free(m->start);
    free(m->order);
    free(m->mark);
    free(m->sample);
    free(m);
}

static struct rp_dataset *megatron_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    struct megatron *m = rp_alloc(sizeof *m);
    if (rp_token_set_init(&m->set, &rp_data_format_megatron, path, field, n, o, err) < 0 || read_pairs(m, err) < 0 ||
        plan_order(m, err) < 0) {
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
        int64_t s = m->order[k], length = m->start[s + 1] - m->start[s];
        if (skip >= length) {
            skip -= length;
            continue;
        }
        int64_t pair = last_at_most(m->pair_first, m->pairs, s), part = length - skip < n ? length - skip : n;
        if (rp_token_read(&m->set, m->bin[pair], m->start[s] - m->start[m->pair_first[pair]] + skip, part, out, err) <
            0)
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
    rp_token_add_fact(out, "documents", "documents", NULL, m->documents);
    rp_token_add_fact(out, "sequences", NULL, "sequences", m->sequences);
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

static void add_number(struct rp_buf *b, int64_t v, size_t width)
{
    rp_buf_add(b, &v, width); /* little endian */
}

/* As preprocess_data.py --append-eod: uint16 if the vocabulary is below 65500, else int32; a document is one
 * sequence. */
static int megatron_make(struct rp_buf *file, const struct rp_token_docs *d, int64_t first, int64_t end,
                         const struct rp_data_opts *o, struct rp_err *err)
{
    struct rp_buf *bin = &file[0], *idx = &file[1];
    int width = d->vocabulary < 65500 ? 2 : 4;
    int64_t n = end - first, at = 0;
    (void)o;
    rp_buf_add(idx, MAGIC, 9);
    add_number(idx, 1, 8);
    add_number(idx, width == 2 ? 8 : 4, 1);
    add_number(idx, n, 8);
    add_number(idx, n + 1, 8);
    for (int64_t i = first; i < end; i++) {
        int64_t length = rp_token_docs_length(d, i);
        if (length > INT32_MAX)
            return rp_fail(
                err, RP_USAGE,
                "data.format megatron: document %lld (from 0) has %lld tokens, more than a sequence can have",
                (long long)i, (long long)length);
        add_number(idx, length, 4);
    }
    for (int64_t i = first; i < end; at += width * rp_token_docs_length(d, i++))
        add_number(idx, at, 8);
    for (int64_t i = 0; i <= n; i++)
        add_number(idx, i, 8);
    rp_token_docs_write(bin, d, first, end, 0, width);
    return 0;
}

const struct rp_data_format rp_data_format_megatron = {
    .name = "megatron",
    .summary = "Megatron-LM: NAME.bin and NAME.idx",
    .in_name = ".idx|.bin",
    .endings = {".bin", ".idx"},
    .make = megatron_make,
    .list = megatron_list,
    .probe = megatron_probe,
    .open = megatron_open,
    .close = megatron_close,
    .count = megatron_count,
    .get = megatron_get,
    .check = megatron_check,
};
