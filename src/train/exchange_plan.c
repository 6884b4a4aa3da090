#include "train/exchange_plan.h"

#include "base/buf.h"
#include "train/exchange.h"

/* of more ranks those of the first and the last host stand for all: shares differ by one chunk at most */
#define RANKS_COUNTED 64

static void raise_to(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

/* A level's exchanges: the pieces of the largest share of every bucket, then the weights. */
static void count_calls(int calls[2], struct rp_exchange_bytes *updated, const struct rp_exchange *x,
                        const struct rp_exchange_level *l, const int *host)
{
    int between = 0;
    for (int k = 0; k < l->n; k++) {
        const int away = host[l->member[k]] != host[x->shares->own];
        for (int b = 0; b < x->shares->buckets && k != l->own; b++)
            if (away)
                updated->between += l->updated_bytes[b * l->n + l->own];
            else
                updated->within += l->updated_bytes[b * l->n + l->own];
        between |= away;
    }
    for (int b = 0; b < x->shares->buckets; b++)
        calls[between] += l->most[b] ? (int)((l->most[b] + x->piece - 1) / x->piece) : 1;
    calls[between]++;
}

static void count_rank(struct rp_exchange_plan *out, const struct rp_net *m, int64_t micros, int rank, const int *host,
                       size_t bucket)
{
    struct rp_comm comm = {.host = host, .lost = -1};
    struct rp_shares shares;
    struct rp_exchange x;
    struct rp_exchange_bytes updated = {0};
    uint64_t merged = 0;
    int calls[2] = {0};
    rp_comm_set_coords(&comm, rank, (struct rp_degrees){out->ranks, 1, 1});
    rp_shares_init(&shares, &m->tensors[RP_WEIGHT], m->parallel, &comm, bucket);
    rp_exchange_open(&x, m, &shares, micros * out->ranks);
    for (int i = 0; i < x.levels; i++) {
        const struct rp_exchange_level *l = &x.level[i];
        count_calls(calls, &updated, &x, l, host);
        for (int b = 0; b < shares.buckets; b++) /* two are read, one is written */
            merged += (uint64_t)(l->first_node[l->n] - 1) * l->floats[b * l->n + l->own] * 3 * sizeof(float);
    }
    raise_to(&out->gradients.within, x.sent_bytes - x.between_bytes - updated.within);
    raise_to(&out->gradients.between, x.between_bytes - updated.between);
    raise_to(&out->updated.within, updated.within);
    raise_to(&out->updated.between, updated.between);
    raise_to(&out->merged, merged);
    out->calls_within = calls[0] > out->calls_within ? calls[0] : out->calls_within;
    out->calls_between = calls[1] > out->calls_between ? calls[1] : out->calls_between;
    out->levels = x.levels;
    rp_exchange_close(&x);
    rp_shares_fini(&shares);
}

void rp_exchange_count(struct rp_exchange_plan *out, const struct rp_net *m, int64_t micros, int ranks, int per_host,
                       size_t bucket)
{
    const int each = per_host < ranks ? per_host : ranks;
    RP_FREE int *host = rp_alloc((size_t)ranks * sizeof *host);
    RP_BUG_IF(each < 1 || ranks % each || micros < 1);
    *out = (struct rp_exchange_plan){.ranks = ranks, .hosts = ranks / each, .weights = m->tensors[RP_WEIGHT].bytes};
    for (int i = 0; i < ranks; i++)
        host[i] = i / each;
    if (ranks > 1)
        for (int i = 0; i < ranks; i++)
            if (ranks <= RANKS_COUNTED || host[i] == 0 || host[i] == out->hosts - 1)
                count_rank(out, m, micros, i, host, bucket);
}
