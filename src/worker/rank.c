#include "worker/rank.h"

#include "backend/cpu/limits.h"
#include "base/buf.h"
#include "comm/mesh.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Times the parent's limit: the parent sees which rank is silent, the connections only which one is waited for, and a
 * rank that waits is not silent. */
enum { SILENCES = 4 };

enum rp_route rp_world_route(const struct rp_recipe *r, int gpus)
{
    return gpus == 0 ? RP_ROUTE_HOST : r->run_transport == RP_TRANSPORT_sockets ? RP_ROUTE_STAGED : RP_ROUTE_DEVICE;
}

void rp_world_place(struct rp_comm *c, const struct rp_rank_of *rank, const struct rp_recipe *r)
{
    int gpus = 0;
    for (int i = 0; i < rp_degrees_world(rank->degrees); i++)
        gpus += rank->gpu[i];
    *c = (struct rp_comm){.host = rank->host, .route = rp_world_route(r, gpus)};
    rp_comm_set_coords(c, rank->rank, rank->degrees);
}

int rp_world_gpus_here(const struct rp_rank_of *rank, int *index)
{
    int n = 0;
    *index = 0;
    for (int i = 0; i < rp_degrees_world(rank->degrees); i++) {
        const int here = rank->gpu[i] && rank->host[i] == rank->host[rank->rank];
        *index += here && i < rank->rank;
        n += here;
    }
    return n;
}

struct rp_cpu_sharers rp_world_cpu_sharers(const struct rp_rank_of *rank)
{
    struct rp_cpu_sharers s = {0};
    for (int i = 0; i < rp_degrees_world(rank->degrees); i++) {
        const int same = rank->host[i] == rank->host[rank->rank] &&
                         (!rank->cpu_set || rank->cpu_set[i] == rank->cpu_set[rank->rank]);
        s.index += same && i < rank->rank;
        s.ranks += same;
    }
    return s;
}

/* Numbers of the first processor of a rank, and of the one after its last. */
static int part_of_cpus(struct rp_cpu_sharers s, int cpus, int *first)
{
    *first = s.ranks <= cpus ? s.index * cpus / s.ranks : s.index % cpus;
    return s.ranks <= cpus ? (s.index + 1) * cpus / s.ranks : *first + 1;
}

int rp_world_cpus(struct rp_cpu_sharers s)
{
    int first, end = part_of_cpus(s, rp_cpu_count("/"), &first);
    return end - first;
}

void rp_world_share_cpus(struct rp_cpu_sharers s)
{
    cpu_set_t all, own;
    int first, seen = 0;
    if (s.ranks < 2 || sched_getaffinity(0, sizeof all, &all) < 0)
        return;
    const int end = part_of_cpus(s, CPU_COUNT(&all), &first);
    CPU_ZERO(&own);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            if (seen >= first && seen < end)
                CPU_SET(i, &own);
            seen++;
        }
    (void)!sched_setaffinity(0, sizeof own, &own); /* refused: they share all */
}

char *rp_world_cpu_list(void)
{
    cpu_set_t own;
    RP_BUF out = {0};
    if (sched_getaffinity(0, sizeof own, &own) < 0)
        return NULL;
    for (int i = 0, end; i < CPU_SETSIZE; i = end + 1) {
        for (end = i; end < CPU_SETSIZE && CPU_ISSET(end, &own); end++)
            ;
        if (end > i)
            rp_buf_printf(&out, "%s%d", out.size ? "," : "", i);
        if (end > i + 1)
            rp_buf_printf(&out, "-%d", end - 1);
    }
    return out.size ? rp_buf_take(&out) : NULL;
}

int rp_world_listen(const struct rp_rank_of *rank, int *port, struct rp_err *err)
{
    return rp_mesh_listen(*rank->address ? rank->address : NULL, 0, port, err);
}

/* Addresses stay those of the frame. */
static struct rp_mesh_peer *peers_of(const struct rp_rank_of *rank, const struct rp_peers_frame *frame,
                                     struct rp_err *err)
{
    const int n = rp_degrees_world(rank->degrees);
    struct rp_mesh_peer *peer = rp_alloc((size_t)n * sizeof *peer);
    for (int i = 0; i < n; i++) {
        const struct rp_peer_place *at = i < frame->peers_n ? &frame->peers[i] : NULL;
        if (!at || !at->address) {
            free(peer);
            return rp_fail_null(err, RP_MALFORMED, "the list of ranks lacks the address of rank %d", i);
        }
        peer[i] = (struct rp_mesh_peer){at->address, (int)at->port, rank->host[i]};
    }
    return peer;
}

struct rp_comm *rp_world_open(const struct rp_world_opts *o, struct rp_err *err)
{
    RP_READ(peers_frame, frame, o->peers);
    RP_FREE struct rp_mesh_peer *peer = peers_of(o->rank, &frame, err);
    if (!peer) {
        close(o->listener);
        return NULL;
    }
    const struct rp_mesh_opts opts = {.rank = o->rank->rank, .layout = o->rank->degrees, .ranks = peer,
                                      .key = o->rank->key, .job = o->rank->id, .listener = o->listener,
                                      .silence_s = SILENCES * o->silence_s, .waiting = o->waiting,
                                      .waiting_arg = o->waiting_arg, .lost = o->lost};
    struct rp_comm *c = rp_mesh_open(&opts, err);
    if (c) {
        c->host = o->rank->host;
        c->route = o->route;
    }
    return c;
}
