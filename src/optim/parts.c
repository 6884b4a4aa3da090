#include "optim/parts.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

void rp_parts_init(struct rp_parts *p, const struct rp_recipe *r, struct rp_comm *comm, size_t bucket)
{
    const int stages = comm->size[RP_GROUP_PIPELINE];
    *p = (struct rp_parts){.comm = comm, .stages = stages, .ranks = comm->size[RP_GROUP_TENSOR],
                           .data = comm->size[RP_GROUP_DATA], .own = comm->rank[RP_GROUP_PIPELINE],
                           .parallel = (int)r->parallel_tensor, .place = rp_alloc((size_t)stages * sizeof *p->place),
                           .net = rp_alloc((size_t)stages * sizeof *p->net),
                           .shares = rp_alloc((size_t)stages * sizeof *p->shares)};
    for (int s = 0; s < stages; s++) {
        p->place[s].host = comm->host;
        rp_comm_set_coords(&p->place[s],
                           rp_parts_world_rank(p, s, comm->rank[RP_GROUP_DATA], comm->rank[RP_GROUP_TENSOR]),
                           (struct rp_degrees){p->data, p->ranks, stages});
        p->net[s] = rp_net_new_on(r, 1, &p->place[s], sizeof(float)); /* for its weights */
        rp_shares_init(&p->shares[s], &p->net[s]->tensors[RP_WEIGHT], p->parallel, &p->place[s], bucket);
    }
}

void rp_parts_fini(struct rp_parts *p)
{
    for (int s = 0; s < p->stages; s++) {
        rp_shares_fini(&p->shares[s]);
        rp_net_free(p->net[s]);
    }
    free(p->place);
    free(p->net);
    free(p->shares);
    *p = (struct rp_parts){0};
}

int rp_parts_owner(const struct rp_parts *p, int i)
{
    int s = 0;
    while (!rp_tensor_is_owned(&p->net[s]->tensors[RP_WEIGHT], rp_parts_weight(p, s, i)))
        s++;
    return s;
}

int rp_parts_second_user(const struct rp_parts *p, int i)
{
    for (int s = 0, owner = rp_parts_owner(p, i); s < p->stages; s++)
        if (s != owner && rp_parts_weight(p, s, i)->count)
            return s;
    return -1;
}

/* Chunks of weight i on one rank of its owner. */
static size_t chunks_of_part(const struct rp_parts *p, int i)
{
    return rp_tensor_parts(rp_parts_weight(p, rp_parts_owner(p, i), i), p->parallel, RP_NORM_CHUNK);
}

/* Ranks of a stage that have different parts of it. */
static int parts_of(const struct rp_parts *p, int i)
{
    return rp_parts_weight(p, 0, i)->ranks;
}

size_t rp_parts_chunks(const struct rp_parts *p, int i)
{
    return chunks_of_part(p, i) * (size_t)parts_of(p, i);
}

static size_t chunks_of_stage(const struct rp_parts *p, int s)
{
    size_t n = 0;
    for (int i = 0; i < p->net[s]->tensors[RP_WEIGHT].n; i++)
        n += rp_tensor_parts(rp_parts_weight(p, s, i), p->parallel, RP_NORM_CHUNK);
    return n;
}

size_t rp_parts_own_chunks(const struct rp_parts *p)
{
    return chunks_of_stage(p, p->own);
}

size_t rp_parts_all_chunks(const struct rp_parts *p)
{
    size_t n = 0;
    for (int i = 0; i < p->net[0]->tensors[RP_WEIGHT].n; i++)
        n += rp_parts_chunks(p, i);
    return n;
}

/* all: of every stage, in order, the chunks of its tensor-parallel ranks, one after the other. */
static void put_in_order(const struct rp_parts *p, char *whole, const char *all, size_t bytes)
{
    RP_FREE size_t *at = rp_alloc((size_t)p->stages * sizeof *at),
                   *chunks = rp_alloc((size_t)p->stages * sizeof *chunks);
    for (int s = 0; s < p->stages; s++) {
        chunks[s] = chunks_of_stage(p, s);
        at[s] = s ? at[s - 1] + (size_t)p->ranks * chunks[s - 1] : 0;
    }
    for (int i = 0; i < p->net[0]->tensors[RP_WEIGHT].n; i++) {
        const int owner = rp_parts_owner(p, i);
        const size_t n = chunks_of_part(p, i);
        for (int r = 0; r < parts_of(p, i); r++, whole += n * bytes)
            memcpy(whole, all + (at[owner] + (size_t)r * chunks[owner]) * bytes, n * bytes);
        for (int s = 0; s < p->stages; s++)
            at[s] += rp_tensor_parts(rp_parts_weight(p, s, i), p->parallel, RP_NORM_CHUNK);
    }
}

int rp_parts_gather(const struct rp_parts *p, void *whole, const void *own, size_t bytes, struct rp_err *err)
{
    RP_FREE struct rp_piece *piece = rp_alloc((size_t)p->stages * sizeof *piece);
    size_t end = 0;
    for (int s = 0; s < p->stages; s++) {
        piece[s] = (struct rp_piece){end, (size_t)p->ranks * chunks_of_stage(p, s) * bytes};
        end += piece[s].bytes;
    }
    RP_FREE char *all = rp_alloc(end + 1);
    char *stage = all + piece[p->own].at;
    const size_t each = piece[p->own].bytes / (size_t)p->ranks, at = (size_t)p->comm->rank[RP_GROUP_TENSOR] * each;
    memcpy(stage + at, own, each);
    if (rp_comm_all_gather(p->comm, RP_GROUP_TENSOR, stage, stage + at, each, err) < 0 ||
        rp_comm_all_gather_pieces(p->comm, RP_GROUP_PIPELINE, all, piece, err) < 0)
        return -1;
    put_in_order(p, whole, all, bytes);
    return 0;
}
