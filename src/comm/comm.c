/* Groups of ranks, and collectives as exchanges. */
#include "comm/comm.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

const char *rp_group_name(enum rp_group g)
{
    static const char *const names[RP_GROUPS] = {"world", "data", "tensor", "pipeline"};
    return names[g];
}

void rp_comm_set_coords(struct rp_comm *c, int rank, struct rp_degrees l)
{
    const int t = rank % l.tensor, d = rank / l.tensor % l.data, p = rank / l.tensor / l.data,
              stage = l.data * l.tensor;
    const int world[RP_GROUPS] = {
        [RP_GROUP_WORLD] = rank, [RP_GROUP_DATA] = d, [RP_GROUP_TENSOR] = t, [RP_GROUP_PIPELINE] = p};
    const int size[RP_GROUPS] = {stage * l.pipeline, l.data, l.tensor, l.pipeline};
    const int stride[RP_GROUPS] = {1, l.tensor, 1, stage};
    RP_BUG_IF(rank < 0 || rank >= size[RP_GROUP_WORLD]);
    for (int g = 0; g < RP_GROUPS; g++) {
        c->rank[g] = world[g];
        c->size[g] = size[g];
        c->stride[g] = stride[g];
        c->first[g] = rank - world[g] * stride[g];
    }
}

int rp_comm_ranks_here(const struct rp_comm *c, int *index)
{
    int n = 0;
    *index = 0;
    for (int i = 0; i < c->size[RP_GROUP_WORLD]; i++) {
        const int here = !c->host || c->host[i] == c->host[c->rank[RP_GROUP_WORLD]];
        *index += here && i < c->rank[RP_GROUP_WORLD];
        n += here;
    }
    return n;
}

static int exchange(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, int on_device,
                    struct rp_err *err)
{
    int (*const run)(struct rp_comm *, enum rp_group, const struct rp_transfer *, int, struct rp_err *) =
        on_device && c->op->exchange_device ? c->op->exchange_device : c->op->exchange;
    uint64_t start = rp_now_ns();
    for (int i = 0; i < n; i++) {
        RP_BUG_IF(t[i].peer == c->rank[g] || t[i].peer < 0 || t[i].peer >= c->size[g]);
        if (t[i].send) {
            c->count.sent_bytes += t[i].bytes;
            c->count.sent_in[g] += t[i].bytes;
        } else {
            c->count.received_bytes += t[i].bytes;
        }
    }
    int failed = n > 0 && run(c, g, t, n, err) < 0;
    c->count.exchange_ns += rp_now_ns() - start;
    return failed ? -1 : 0;
}

int rp_comm_exchange(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    return exchange(c, g, t, n, 0, err);
}

int rp_comm_exchange_device(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    return exchange(c, g, t, n, 1, err);
}

/* To and from every other rank: out[i] and in[i], bytes of each direction. */
struct all_pairs {
    struct rp_transfer *t;
    int n;
};

static void add_transfer(struct all_pairs *p, int peer, int send, const void *data, size_t bytes)
{
    if (bytes)
        p->t[p->n++] = (struct rp_transfer){peer, send, (void *)(uintptr_t)data, bytes};
}

int rp_comm_all_gather_pieces(struct rp_comm *c, enum rp_group g, void *data, const struct rp_piece *piece,
                              struct rp_err *err)
{
    const int n = c->size[g], own = c->rank[g];
    RP_FREE struct rp_transfer *t = rp_alloc(2 * (size_t)n * sizeof *t);
    struct all_pairs p = {.t = t};
    for (int k = 1; k < n; k++) {
        int to = (own + k) % n, from = (own + n - k) % n;
        add_transfer(&p, to, 1, (char *)data + piece[own].at, piece[own].bytes);
        add_transfer(&p, from, 0, (char *)data + piece[from].at, piece[from].bytes);
    }
    return rp_comm_exchange(c, g, t, p.n, err);
}

int rp_comm_all_gather(struct rp_comm *c, enum rp_group g, void *out, const void *in, size_t bytes, struct rp_err *err)
{
    const size_t n = (size_t)c->size[g];
    char *own = (char *)out + (size_t)c->rank[g] * bytes;
    RP_FREE struct rp_piece *piece = rp_alloc(n * sizeof *piece);
    for (size_t i = 0; i < n; i++)
        piece[i] = (struct rp_piece){i * bytes, bytes};
    if (own != in)
        memmove(own, in, bytes);
    return rp_comm_all_gather_pieces(c, g, out, piece, err);
}

/* Dissemination: after round k every rank has heard from the 2^(k+1) - 1 before it. */
int rp_comm_barrier(struct rp_comm *c, enum rp_group g, struct rp_err *err)
{
    const int n = c->size[g], own = c->rank[g];
    for (int k = 1; k < n; k *= 2) {
        char sent = 1, got = 0;
        const struct rp_transfer t[] = {{(own + k) % n, 1, &sent, 1}, {(own + n - k % n) % n, 0, &got, 1}};
        if (rp_comm_exchange(c, g, t, 2, err) < 0)
            return -1;
    }
    return 0;
}
