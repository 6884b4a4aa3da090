#include "data/token_files.h"

#include "base/buf.h"
#include "data/shuffle.h"

#include <stdlib.h>
#include <string.h>

#define SEQ_MAX 65535
#define IDS_END ((int64_t)INT32_MAX + 1)

static const size_t token_bytes[] = {
#define X(name, type) [RP_TOKEN_##name] = sizeof(type),
    RP_TOKEN_TYPES(X)
#undef X
};

size_t rp_token_bytes(enum rp_token_type t)
{
    return token_bytes[t];
}

/* ---- open ---- */

static int check_field(struct rp_token_set *s, const struct rp_sample_field *f, struct rp_err *err)
{
    const char *format = s->base.format->name;
    if (strcmp(f->name, RP_TOKENS_FIELD) != 0)
        return rp_fail(err, RP_USAGE,
                       "data.format %s has no field '%s', only " RP_TOKENS_FIELD "; choose another data.format", format,
                       f->name);
    if (f->dtype != RP_I32)
        return rp_fail(err, RP_USAGE, "field '" RP_TOKENS_FIELD "' of data.format %s has elements i32, not %s", format,
                       rp_dtype_name(f->dtype));
    if (f->count < 2 || f->count > SEQ_MAX + 1)
        return rp_fail(err, RP_USAGE, "field '" RP_TOKENS_FIELD "': a sample cannot have %ld tokens, expected 2..%d",
                       f->count, SEQ_MAX + 1);
    s->seq = f->count - 1;
    s->below = f->below ? f->below : IDS_END;
    return 0;
}

int rp_token_set_init(struct rp_token_set *s, const struct rp_data_format *format, const char *path,
                      const struct rp_sample_field *field, int fields, const struct rp_data_opts *o, struct rp_err *err)
{
    *s = (struct rp_token_set){.base.format = format, .opts = *o, .files.last = -1};
    for (int i = 0; i < fields; i++)
        if (check_field(s, &field[i], err) < 0)
            return -1;
    RP_BUG_IF(fields != 1);
    if (rp_data_list(format, &s->files, path, err) < 0)
        return -1;
    s->range = rp_alloc((size_t)s->files.n * sizeof *s->range);
    s->bytes = rp_alloc(RP_TOKEN_CHUNK * sizeof(int64_t));
    for (int i = 0; i < s->files.n; i++)
        if (rp_files_check_kind(&s->files, i, err) < 0)
            return -1;
    return 0;
}

void rp_token_set_fini(struct rp_token_set *s)
{
    rp_files_close(&s->files);
    free(s->range);
    free(s->first);
    free(s->bytes);
}

void rp_token_probe(const struct rp_data_opts *o, int64_t below, struct rp_sample_field *field, int *n)
{
    field[0] = (struct rp_sample_field){RP_TOKENS_FIELD, RP_I32, (o->seq_length ? o->seq_length : 1024) + 1, below};
    *n = 1;
}

/* ---- tokens ---- */

static int64_t token_at(enum rp_token_type t, const unsigned char *bytes, int64_t i)
{
    switch (t) {
#define X(name, type)                                                                                                  \
    case RP_TOKEN_##name: {                                                                                            \
        type v;                                                                                                        \
        memcpy(&v, bytes + (size_t)i * sizeof v, sizeof v);                                                            \
        return (int64_t)v;                                                                                             \
    }
        RP_TOKEN_TYPES(X)
#undef X
    }
    rp_bug(__FILE__, __LINE__, "a type of tokens");
}

static int out_of_range(const struct rp_token_set *s, int i, int64_t at, int64_t value, struct rp_err *err)
{
    return rp_fail(
        err, RP_MALFORMED,
        "'%s', token %lld (from 0) is %lld, expected 0..%lld (model.vocab_size): set that to the size of the "
        "tokens' vocabulary; or the file is damaged, or has tokens of another width",
        s->files.file[i].name, (long long)at, (long long)value, (long long)s->below - 1);
}

int rp_token_read(struct rp_token_set *s, int i, int64_t first, int64_t n, int32_t *out, struct rp_err *err)
{
    const struct rp_token_range *r = &s->range[i];
    size_t width = token_bytes[r->type];
    RP_BUG_IF(first < 0 || n < 0 || n > r->tokens || first > r->tokens - n);
    for (int64_t done = 0; done < n;) {
        int64_t part = n - done < RP_TOKEN_CHUNK ? n - done : RP_TOKEN_CHUNK;
        if (rp_files_read(&s->files, i, r->offset + (uint64_t)(first + done) * width, s->bytes, (size_t)part * width,
                          err) < 0)
            return -1;
        for (int64_t k = 0; k < part; k++) {
            int64_t v = token_at(r->type, s->bytes, k);
            if (v < 0 || v >= s->below)
                return out_of_range(s, i, first + done + k, v, err);
            out[done + k] = (int32_t)v;
        }
        done += part;
    }
    return 0;
}

/* ---- the whole set ---- */

void rp_token_add_fact(struct rp_data_check *out, const char *name, const char *label, const char *unit, int64_t value)
{
    out->fact[out->facts++] = (struct rp_data_fact){name, label, unit, RP_FACT_TOTAL, value};
}

#define SEEN_IDS (1 << 24) /* larger than any vocabulary; a file may have larger ids */

struct seen {
    unsigned char *bit; /* [SEEN_IDS / 8] */
    int64_t distinct, largest;
};

static void count_tokens(struct seen *seen, const int32_t *token, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t id = token[k];
        seen->largest = id > seen->largest ? id : seen->largest;
        if (id >= SEEN_IDS)
            continue;
        unsigned char mask = (unsigned char)(1 << id % 8);
        seen->distinct += !(seen->bit[id / 8] & mask);
        seen->bit[id / 8] |= mask;
    }
}

static int scan_file(struct rp_token_set *s, int i, struct seen *seen, int32_t *row, struct rp_err *err)
{
    for (int64_t at = 0, all = s->range[i].tokens; at < all; at += RP_TOKEN_CHUNK) {
        int64_t n = all - at < RP_TOKEN_CHUNK ? all - at : RP_TOKEN_CHUNK;
        if (rp_token_read(s, i, at, n, row, err) < 0)
            return -1;
        count_tokens(seen, row, n);
    }
    return 0;
}

int rp_token_check(struct rp_token_set *s, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                   void *arg, struct rp_err *err)
{
    RP_FREE int32_t *row = rp_alloc(RP_TOKEN_CHUNK * sizeof *row);
    struct seen seen = {.bit = rp_alloc(SEEN_IDS / 8), .largest = -1};
    int64_t tokens = 0;
    int failed = 0;
    out->files = s->files.n;
    for (int i = 0; i < s->files.n && !failed; i++) {
        out->bytes += s->files.file[i].size;
        tokens += s->range[i].tokens;
        if (tick && tick(arg, i, s->files.n))
            failed = rp_fail(err, RP_INTERRUPTED, "interrupted after %d of %d files", i, s->files.n);
        else
            failed = scan_file(s, i, &seen, row, err);
    }
    free(seen.bit);
    rp_token_add_fact(out, "seq_length", "sequence length", NULL, s->seq);
    rp_token_add_fact(out, "tokens", "tokens", NULL, tokens);
    rp_token_add_fact(out, "distinct_ids", "different ids", NULL, seen.distinct);
    rp_token_add_fact(out, "largest_id", "largest id", NULL, seen.largest);
    return failed ? -1 : rp_files_digest(&s->files, out->digest, err);
}

/* ---- windows ---- */

static struct rp_token_set *set_of(struct rp_dataset *d)
{
    return (struct rp_token_set *)d;
}

void rp_token_windows_close(struct rp_dataset *d)
{
    if (d)
        rp_token_set_fini(set_of(d));
    free(d);
}

static int index_windows(struct rp_token_set *s, rp_token_head_fn head, struct rp_err *err)
{
    s->first = rp_alloc(((size_t)s->files.n + 1) * sizeof *s->first);
    for (int i = 0; i < s->files.n; i++) {
        if (head(s, i, err) < 0)
            return -1;
        if (s->range[i].tokens <= s->seq)
            return rp_fail(
                err, RP_MALFORMED,
                "'%s' has %lld tokens, too few for one sample of task.seq_length + 1 = %ld; leave it out, or "
                "train with shorter sequences",
                s->files.file[i].name, (long long)s->range[i].tokens, s->seq + 1);
        s->first[i + 1] = s->first[i] + (s->range[i].tokens - 1) / s->seq;
    }
    s->count = s->first[s->files.n];
    return 0;
}

struct rp_dataset *rp_token_windows_open(const struct rp_data_format *format, rp_token_head_fn head, const char *path,
                                         const struct rp_sample_field *field, int fields, const struct rp_data_opts *o,
                                         struct rp_err *err)
{
    struct rp_token_set *s = rp_alloc(sizeof *s);
    if (rp_token_set_init(s, format, path, field, fields, o, err) < 0 || index_windows(s, head, err) < 0) {
        rp_token_windows_close(&s->base);
        return NULL;
    }
    return &s->base;
}

int64_t rp_token_windows_count(const struct rp_dataset *d)
{
    return ((const struct rp_token_set *)d)->count;
}

int rp_token_windows_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err)
{
    struct rp_token_set *s = set_of(d);
    int64_t window = rp_sample_record(sample, s->count, s->opts.shuffle, s->opts.seed);
    int lo = 0, hi = s->files.n - 1; /* the last file that begins at or before it */
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (s->first[mid] <= window)
            lo = mid;
        else
            hi = mid - 1;
    }
    return rp_token_read(s, lo, (window - s->first[lo]) * s->seq, s->seq + 1, row[0], err);
}

int rp_token_windows_check(struct rp_dataset *d, struct rp_data_check *out,
                           int (*tick)(void *arg, int64_t done, int64_t all), void *arg, struct rp_err *err)
{
    *out = (struct rp_data_check){.records = set_of(d)->count};
    return rp_token_check(set_of(d), out, tick, arg, err);
}
