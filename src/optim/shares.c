#include "optim/shares.h"

#include "base/buf.h"
#include "ops/ops.h"

#include <limits.h>
#include <stdlib.h>

int rp_tensor_shards_are_ranges(const struct rp_tensor *t, int parallel)
{
    return rp_tensor_shards(t, parallel) == 1 || (t->shard == 1 && t->pieces < 2);
}

/* Whether ranks have as many neighbours on every host: then the number of hosts, else 1. */
static int regular_hosts(const struct rp_comm *c)
{
    const int n = c->size[RP_GROUP_DATA];
    int hosts = 1;
    if (!c->host)
        return 1;
#define HOST(i) c->host[rp_comm_world_rank(c, RP_GROUP_DATA, i)]
    for (int i = 1; i < n; i++)
        hosts += HOST(i) != HOST(i - 1);
    if (n % hosts)
        return 1;
    for (int i = 1; i < n; i++)
        if ((HOST(i) != HOST(i - 1)) != (i % (n / hosts) == 0))
            return 1;
    for (int i = 0; i < hosts; i++)
        for (int j = 0; j < i; j++)
            if (HOST(i * (n / hosts)) == HOST(j * (n / hosts)))
                return 1;
#undef HOST
    return hosts;
}

/* The cut at or before a float of the block, and the number of chunks before it. */
static void cut_before(const struct rp_shares *s, size_t at, size_t *cut, size_t *chunk)
{
    *cut = *chunk = 0;
    for (int i = 0; i < s->weights->n; i++) {
        const struct rp_tensor *t = &s->weights->t[i];
        const size_t start = t->offset / sizeof(float), chunks = rp_tensor_parts(t, s->parallel, RP_NORM_CHUNK);
        if (!t->count)
            continue;
        if (at < start + t->count) {
            if (at <= start)
                *cut = at < start ? *cut : start; /* in the padding before it, or where it begins */
            else if (rp_tensor_shards_are_ranges(t, s->parallel)) {
                const size_t len = t->count / (size_t)rp_tensor_shards(t, s->parallel), shard = (at - start) / len;
                const size_t within = (at - start) % len / RP_NORM_CHUNK;
                *cut = start + shard * len + within * RP_NORM_CHUNK;
                *chunk += shard * ((len + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK) + within;
            } else
                *cut = start;
            return;
        }
        *chunk += chunks;
        *cut = start + t->count;
    }
}

/* Where the first weight begins that this stage owns. */
static size_t first_owned(const struct rp_tensors *weights)
{
    int i = 0;
    while (i < weights->n && !rp_tensor_is_owned(weights, &weights->t[i]))
        i++;
    return i < weights->n ? weights->t[i].offset / sizeof(float) : weights->bytes / sizeof(float);
}

/* Buckets end where the layer in forward order changes, once they have at least that many floats. */
static void fill_buckets(struct rp_shares *s, size_t least)
{
    const struct rp_tensors *l = s->weights;
    struct rp_bucket now = {.layer = INT_MAX};
    s->bucket = rp_alloc(((size_t)l->n + 1) * sizeof *s->bucket);
    for (int i = 0, before = INT_MAX; i < l->n; i++) {
        const struct rp_tensor *t = &l->t[i];
        const size_t start = t->offset / sizeof(float);
        if (!t->count)
            continue;
        if (least && before != INT_MAX && t->stage != before && !t->joined && start - now.lo >= least) {
            now.hi = start;
            s->bucket[s->buckets++] = now;
            now = (struct rp_bucket){.lo = start, .layer = INT_MAX};
        }
        now.layer = t->stage < now.layer ? t->stage : now.layer;
        before = t->stage;
    }
    now.hi = l->bytes / sizeof(float); /* with the padding at the end */
    s->bucket[s->buckets++] = now;
}

/* Divides bucket b among the ranks; before: the range before it in the block. Returns the last range. */
static struct rp_share divide_bucket(struct rp_shares *s, int b, struct rp_share before, size_t owned)
{
    const struct rp_bucket *bucket = &s->bucket[b];
    for (int i = 0; i < s->n; i++) {
        struct rp_share *share = &s->of[(i % s->hosts * (s->n / s->hosts) + i / s->hosts) * s->buckets + b];
        const size_t whole = bucket->hi - bucket->lo,
                     end = i + 1 < s->n ? bucket->lo + whole / (size_t)s->n * (size_t)(i + 1) : bucket->hi;
        *share = (struct rp_share){.lo = before.hi, .first_chunk = before.end_chunk};
        cut_before(s, end, &share->hi, &share->end_chunk);
        if (i + 1 == s->n)
            share->hi = bucket->hi;
        share->slots = owned > share->hi ? share->hi : owned > share->lo ? owned : share->lo;
        before = *share;
    }
    return before;
}

static void share_init(struct rp_shares *s, size_t least)
{
    struct rp_share last = {0};
    s->masters = s->weights->bytes / sizeof(float);
    fill_buckets(s, least);
    s->of = rp_alloc((size_t)s->n * (size_t)s->buckets * sizeof *s->of);
    for (int b = 0; b < s->buckets; b++)
        last = divide_bucket(s, b, last, first_owned(s->weights));
    for (int r = 0; r < s->n; r++)
        for (int b = 1; b < s->buckets; b++) {
            const struct rp_share *before = rp_share_at(s, r, b - 1);
            s->of[r * s->buckets + b].slots_at = before->slots_at + (before->hi - before->slots);
        }
}

void rp_shares_init(struct rp_shares *s, const struct rp_tensors *weights, int parallel, struct rp_comm *comm,
                    size_t least)
{
    *s = (struct rp_shares){.comm = comm, .n = comm->size[RP_GROUP_DATA], .own = comm->rank[RP_GROUP_DATA],
                            .hosts = regular_hosts(comm), .weights = weights, .parallel = parallel};
    share_init(s, least);
}

void rp_shares_init_whole(struct rp_shares *s, const struct rp_tensors *weights, int parallel, struct rp_comm *comm)
{
    *s = (struct rp_shares){.comm = comm, .n = 1, .hosts = 1, .weights = weights, .parallel = parallel};
    share_init(s, 0);
}

/* Vectors keep the distances that they have in the list: a run of them is one message. */
void rp_shares_divide_masters(struct rp_shares *s)
{
    enum { LINE = 16 }; /* floats */
    const struct rp_tensors *l = s->weights;
    RP_BUG_IF(s->master);
    s->master = rp_alloc(((size_t)l->n + 1) * sizeof *s->master);
    s->masters = 0;
    for (int i = 0; i < l->n; i++) {
        const struct rp_tensor *t = &l->t[i];
        const int is_matrix = rp_tensor_dims(t) > 1;
        size_t first, n = is_matrix ? rp_share_of_tensor(s, s->own, t, &first) : t->count;
        if (is_matrix && !rp_tensor_is_owned(l, t))
            n = 0;
        if (n && (is_matrix || !t->joined))
            s->masters = (s->masters + LINE - 1) / LINE * LINE;
        s->master[i] = s->masters;
        s->masters += n;
    }
    s->masters = (s->masters + LINE - 1) / LINE * LINE;
}

void rp_shares_fini(struct rp_shares *s)
{
    free(s->master);
    free(s->bucket);
    free(s->of);
    *s = (struct rp_shares){0};
}

/* The bucket of a weight. */
static int bucket_of(const struct rp_shares *s, const struct rp_tensor *t)
{
    int b = 0;
    while (b + 1 < s->buckets && t->offset / sizeof(float) >= s->bucket[b].hi)
        b++;
    return b;
}

size_t rp_share_of_tensor(const struct rp_shares *s, int rank, const struct rp_tensor *t, size_t *first)
{
    const struct rp_share *share = rp_share_at(s, rank, bucket_of(s, t));
    const size_t start = t->offset / sizeof(float), end = start + t->count;
    const size_t lo = share->lo > start ? share->lo : start, hi = share->hi < end ? share->hi : end;
    *first = lo < hi ? lo - start : 0;
    return lo < hi ? hi - lo : 0;
}

size_t rp_shares_slots(const struct rp_shares *s)
{
    const struct rp_share *last = rp_share_at(s, s->own, s->buckets - 1);
    return last->slots_at + (last->hi - last->slots);
}

size_t rp_shares_slot_of(const struct rp_shares *s, const struct rp_tensor *t, size_t first)
{
    const struct rp_share *share = rp_share_at(s, s->own, bucket_of(s, t));
    return share->slots_at + (t->offset / sizeof(float) + first - share->slots);
}

size_t rp_shares_master_of(const struct rp_shares *s, int i, size_t first)
{
    const struct rp_tensor *t = &s->weights->t[i];
    if (!s->master)
        return t->offset / sizeof(float) + first;
    return s->master[i] + (rp_tensor_dims(t) > 1 ? 0 : first);
}

int rp_shares_owner(const struct rp_shares *s, size_t chunk)
{
    for (int i = 0; i < s->n * s->buckets; i++)
        if (chunk >= s->of[i].first_chunk && chunk < s->of[i].end_chunk)
            return i / s->buckets;
    return 0;
}

int rp_shares_runs(const struct rp_shares *s, int i, struct rp_run_of_chunks *run)
{
    const struct rp_tensor *t = &s->weights->t[i];
    size_t first, count = rp_share_of_tensor(s, s->own, t, &first);
    int runs = 0;
    if (!rp_tensor_shards_are_ranges(t, s->parallel)) {
        *run = (struct rp_run_of_chunks){0, count, 0, rp_tensor_parts(t, s->parallel, RP_NORM_CHUNK)};
        return count > 0;
    }
    const size_t len = t->count / (size_t)rp_tensor_shards(t, s->parallel),
                 per = (len + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK;
    for (size_t at = first; at < first + count; runs++) {
        const size_t end = (at / len + 1) * len < first + count ? (at / len + 1) * len : first + count;
        run[runs] = (struct rp_run_of_chunks){at, end - at, at / len * per + at % len / RP_NORM_CHUNK,
                                              (end - at + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK};
        at = end;
    }
    return runs;
}

/* t: room for 2 * n * buckets messages; returns their number. */
static int list_chunks(const struct rp_shares *s, struct rp_transfer *t, void *chunks, size_t bytes)
{
    int n = 0;
    for (int k = 1; k < s->n; k++) {
        const int to = (s->own + k) % s->n, from = (s->own + s->n - k) % s->n;
        for (int b = 0; b < s->buckets; b++) {
            const struct rp_share *own = rp_share_at(s, s->own, b), *other = rp_share_at(s, from, b);
            const size_t sent = (own->end_chunk - own->first_chunk) * bytes,
                         got = (other->end_chunk - other->first_chunk) * bytes;
            if (sent)
                t[n++] = (struct rp_transfer){to, 1, (char *)chunks + own->first_chunk * bytes, sent};
            if (got)
                t[n++] = (struct rp_transfer){from, 0, (char *)chunks + other->first_chunk * bytes, got};
        }
    }
    return n;
}

static int gather_chunks(const struct rp_shares *s, void *chunks, size_t bytes,
                         int (*exchange)(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                                         struct rp_err *err),
                         struct rp_err *err)
{
    RP_FREE struct rp_transfer *t = rp_alloc((2 * (size_t)s->n * (size_t)s->buckets + 1) * sizeof *t);
    return exchange(s->comm, RP_GROUP_DATA, t, list_chunks(s, t, chunks, bytes), err);
}

int rp_shares_gather(const struct rp_shares *s, void *chunks, size_t bytes, struct rp_err *err)
{
    return gather_chunks(s, chunks, bytes, rp_comm_exchange, err);
}

int rp_shares_gather_device(const struct rp_shares *s, void *chunks, size_t bytes, struct rp_err *err)
{
    return gather_chunks(s, chunks, bytes, rp_comm_exchange_device, err);
}
