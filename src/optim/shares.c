#include "optim/shares.h"

#include "base/buf.h"
#include "ops/ops.h"

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

void rp_shares_init(struct rp_shares *s, const struct rp_tensors *weights, int parallel, struct rp_comm *comm)
{
    const int n = comm->size[RP_GROUP_DATA];
    *s = (struct rp_shares){.comm = comm, .n = n, .own = comm->rank[RP_GROUP_DATA], .hosts = regular_hosts(comm),
                            .of = rp_alloc((size_t)n * sizeof *s->of), .weights = weights, .parallel = parallel};
    const size_t floats = weights->bytes / sizeof(float);
    const size_t owned = first_owned(weights);
    struct rp_share before = {0};
    for (int i = 0; i < n; i++) {
        struct rp_share *share = &s->of[i % s->hosts * (n / s->hosts) + i / s->hosts];
        *share = (struct rp_share){.lo = before.hi, .first_chunk = before.end_chunk};
        cut_before(s, i + 1 < n ? floats / (size_t)n * (size_t)(i + 1) : floats, &share->hi, &share->end_chunk);
        if (i + 1 == n)
            share->hi = floats; /* with the padding at the end */
        share->slots = owned > share->hi ? share->hi : owned > share->lo ? owned : share->lo;
        before = *share;
    }
}

void rp_shares_fini(struct rp_shares *s)
{
    free(s->of);
    *s = (struct rp_shares){0};
}

size_t rp_share_of_tensor(const struct rp_share *share, const struct rp_tensor *t, size_t *first)
{
    const size_t start = t->offset / sizeof(float), end = start + t->count;
    const size_t lo = share->lo > start ? share->lo : start, hi = share->hi < end ? share->hi : end;
    *first = lo < hi ? lo - start : 0;
    return lo < hi ? hi - lo : 0;
}

int rp_shares_runs(const struct rp_shares *s, int i, struct rp_run_of_chunks *run)
{
    const struct rp_tensor *t = &s->weights->t[i];
    size_t first, count = rp_share_of_tensor(&s->of[s->own], t, &first);
    int runs = 0;
    if (!rp_tensor_shards_are_ranges(t, s->parallel)) {
        *run = (struct rp_run_of_chunks){0, count, 0, rp_tensor_parts(t, s->parallel, RP_NORM_CHUNK)};
        return count > 0;
    }
    const size_t len = t->count / (size_t)rp_tensor_shards(t, s->parallel), per = (len + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK;
    for (size_t at = first; at < first + count; runs++) {
        const size_t end = (at / len + 1) * len < first + count ? (at / len + 1) * len : first + count;
        run[runs] = (struct rp_run_of_chunks){at, end - at, at / len * per + at % len / RP_NORM_CHUNK,
                                              (end - at + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK};
        at = end;
    }
    return runs;
}

void rp_shares_pieces(const struct rp_shares *s, size_t bytes, struct rp_piece *piece)
{
    for (int i = 0; i < s->n; i++)
        piece[i] = (struct rp_piece){s->of[i].first_chunk * bytes, (s->of[i].end_chunk - s->of[i].first_chunk) * bytes};
}

int rp_shares_gather(const struct rp_shares *s, void *chunks, size_t bytes, struct rp_err *err)
{
    RP_FREE struct rp_piece *piece = rp_alloc((size_t)s->n * sizeof *piece);
    rp_shares_pieces(s, bytes, piece);
    return rp_comm_all_gather_pieces(s->comm, RP_GROUP_DATA, chunks, piece, err);
}
