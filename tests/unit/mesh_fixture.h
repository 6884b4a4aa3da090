/* Ranks as threads of one process, connected by sockets.
 *
 * What:    mesh_world_new() listens for every rank; mesh_world_run() opens a communicator in a thread for each and
 *          calls a function.
 * Flow:    layout, hosts, options -> threads -> a result, an error and statistics of each rank.
 */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "comm/channel.h"
#include "comm/mesh.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESH_MOST 64

static const unsigned char mesh_key[RP_CHANNEL_KEY] = "thirty-two bytes for this job...";

struct mesh_world;
struct mesh_rank {
    struct mesh_world *world;
    struct rp_mesh_opts opts;
    unsigned delay_ms; /* before it opens */
    pthread_t thread;
    int result;
    struct rp_err err;
    struct rp_connections stats;
    double open_s, run_s;
};

struct mesh_world {
    int n;
    struct rp_mesh_peer peers[MESH_MOST];
    struct mesh_rank ranks[MESH_MOST];
    int (*run)(struct rp_comm *c, void *arg, struct rp_err *err); /* NULL: opening is all */
    void *arg;
};

/* A message, by its seed. In words: sanitizers take as long for a byte. data: as rp_alloc() returns it */
__attribute__((unused)) static void mesh_fill(unsigned char *data, size_t bytes, unsigned seed)
{
    uint64_t word = seed, *to = (uint64_t *)(void *)data;
    const size_t words = bytes / sizeof word;
    for (size_t i = 0; i < words; i++)
        to[i] = word = word * 6364136223846793005u + 1442695040888963407u;
    word = word * 6364136223846793005u + 1442695040888963407u;
    memcpy(to + words, &word, bytes % sizeof word);
}

/* host: number of each rank's host; NULL: one host. */
__attribute__((unused)) static struct mesh_world *mesh_world_new(struct rp_degrees layout, const int *host)
{
    struct mesh_world *w = rp_alloc(sizeof *w);
    w->n = layout.data * layout.tensor * layout.pipeline;
    RP_BUG_IF(w->n > MESH_MOST);
    for (int i = 0; i < w->n; i++) {
        struct rp_err err;
        int port;
        const int fd = rp_mesh_listen("127.0.0.1", 0, &port, &err);
        RP_BUG_IF(fd < 0);
        w->peers[i] = (struct rp_mesh_peer){"127.0.0.1", port, host ? host[i] : 0};
        w->ranks[i].world = w;
        w->ranks[i].opts = (struct rp_mesh_opts){.rank = i, .layout = layout, .ranks = w->peers, .key = mesh_key,
                                                 .job = "job-1", .listener = fd, .open_s = 60, .silence_s = 60};
    }
    return w;
}

static void *mesh_rank_thread(void *arg)
{
    struct mesh_rank *r = arg;
    usleep(r->delay_ms * 1000);
    const uint64_t start = rp_now_ns();
    struct rp_comm *c = rp_mesh_open(&r->opts, &r->err);
    r->open_s = (double)(rp_now_ns() - start) * 1e-9;
    r->result = c ? 0 : -1;
    if (!c)
        return NULL;
    c->op->connections(c, &r->stats);
    if (r->world->run)
        r->result = r->world->run(c, r->world->arg, &r->err);
    r->run_s = (double)(rp_now_ns() - start) * 1e-9 - r->open_s;
    c->op->close(c);
    return NULL;
}

__attribute__((unused)) static void mesh_rank_start(struct mesh_rank *r)
{
    RP_BUG_IF(pthread_create(&r->thread, NULL, mesh_rank_thread, r) != 0);
}

__attribute__((unused)) static void
mesh_world_run(struct mesh_world *w, int (*run)(struct rp_comm *c, void *arg, struct rp_err *err), void *arg)
{
    w->run = run;
    w->arg = arg;
    for (int i = 0; i < w->n; i++)
        mesh_rank_start(&w->ranks[i]);
    for (int i = 0; i < w->n; i++)
        pthread_join(w->ranks[i].thread, NULL);
}
