/* Ranks as threads of one process, which exchange by copying: what is above a transport is tested with them.
 *
 * What:    ranks_run() calls a function once per rank, each in a thread of its own with a communicator.
 * Flow:    layout -> threads -> their results; a failed exchange ends the others.
 * Owner:   the function borrows its communicator.
 */
#pragma once

#include "base/buf.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS_MAX 64

struct ranks_message {
    const struct rp_transfer *sent; /* NULL: none is waiting */
};

struct ranks_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size, failed;
    struct ranks_message box[RANKS_MAX][RANKS_MAX]; /* [from][to] */
    int (*run)(struct rp_comm *c, void *arg, struct rp_err *err);
    void *arg;
    const int *host;
    struct rp_degrees layout;
};

/* Another communicator of the same rank, for a second thread. */
struct ranks_duplicate {
    struct rp_comm comm;
    struct ranks_world *world;
};

struct ranks_comm {
    struct rp_comm comm;
    struct ranks_world *world;
    struct ranks_duplicate duplicate;
    pthread_t thread;
    int result;
    struct rp_err err;
};

/* 50 ms at most: waiting() is called as by other transports. */
static inline void ranks_wait(struct ranks_world *w)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
}

/* One message of each direction and pair at a time: the next one waits until it was taken. */
static inline int ranks_exchange(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                                 struct rp_err *err)
{
    struct ranks_world *w = ((struct ranks_duplicate *)c)->world; /* both begin alike */
    const int own = c->rank[RP_GROUP_WORLD];
    RP_FREE char *done = rp_alloc((size_t)n + 1); /* 1: posted, 2: complete */
    int left = n;
    pthread_mutex_lock(&w->lock);
    while (left && !w->failed) {
        int moved = 0;
        /* a transfer before, in the same direction with the same peer, is not complete */
        char busy[2][RANKS_MAX] = {{0}};
        for (int i = 0; i < n; i++) {
            const int peer = rp_comm_world_rank(c, g, t[i].peer);
            struct ranks_message *box = t[i].send ? &w->box[own][peer] : &w->box[peer][own];
            if (done[i] == 2 || busy[t[i].send][peer])
                continue;
            busy[t[i].send][peer] = 1;
            if (t[i].send && !done[i] && !box->sent) {
                box->sent = &t[i];
                done[i] = 1;
                moved = 1;
            } else if (t[i].send && done[i] && box->sent != &t[i]) {
                done[i] = 2;
                left--;
                moved = 1;
            } else if (!t[i].send && box->sent) {
                if (box->sent->bytes != t[i].bytes) {
                    w->failed = 1;
                    (void)rp_fail(err, RP_MISMATCH, "rank %d sent %zu bytes to rank %d, which expected %zu", peer,
                                  box->sent->bytes, own, t[i].bytes);
                    break;
                }
                memcpy(t[i].data, box->sent->data, t[i].bytes);
                box->sent = NULL;
                done[i] = 2;
                left--;
                moved = 1;
            }
        }
        if (!moved && c->waiting && c->waiting(c->waiting_arg, -1)) {
            w->failed = 1;
            (void)rp_fail(err, RP_INTERRUPTED, "interrupted");
        }
        if (moved || w->failed)
            pthread_cond_broadcast(&w->changed);
        else
            ranks_wait(w);
    }
    int failed = w->failed;
    pthread_mutex_unlock(&w->lock);
    if (!failed)
        return 0;
    return err->code ? -1 : rp_fail(err, RP_UNAVAILABLE, "another rank failed");
}

static inline void ranks_close(struct rp_comm *c)
{
    (void)c;
}

static inline struct rp_comm *ranks_duplicate(struct rp_comm *c)
{
    struct ranks_comm *rank = (struct ranks_comm *)c;
    rank->duplicate = (struct ranks_duplicate){*c, rank->world};
    rank->duplicate.comm.count = (struct rp_comm_count){0};
    return &rank->duplicate.comm;
}

static inline void *ranks_thread(void *arg)
{
    struct ranks_comm *c = arg;
    struct ranks_world *w = c->world;
    c->result = w->run(&c->comm, w->arg, &c->err);
    if (c->result < 0) {
        pthread_mutex_lock(&w->lock);
        w->failed = 1;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

/* host: number of each rank's host, or NULL. -1 with the error of the first rank that failed. */
static inline int ranks_run(struct rp_degrees layout, const int *host,
                            int (*run)(struct rp_comm *c, void *arg, struct rp_err *err), void *arg, struct rp_err *err)
{
    static const struct rp_comm_ops op = {.exchange = ranks_exchange, .close = ranks_close,
                                           .duplicate = ranks_duplicate};
    const int n = layout.data * layout.tensor * layout.pipeline;
    RP_BUG_IF(n > RANKS_MAX);
    struct ranks_world *w = rp_alloc(sizeof *w);
    struct ranks_comm *c = rp_alloc((size_t)n * sizeof *c);
    *w = (struct ranks_world){
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .size = n, .run = run, .arg = arg};
    int failed = 0;
    for (int i = 0; i < n; i++) {
        c[i] = (struct ranks_comm){.comm = {.op = &op, .transport = "threads", .host = host}, .world = w};
        rp_comm_set_coords(&c[i].comm, i, layout);
        RP_BUG_IF(pthread_create(&c[i].thread, NULL, ranks_thread, &c[i]) != 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(c[i].thread, NULL);
    for (int i = n - 1; i >= 0; i--)
        if (c[i].result < 0 && (!failed || strcmp(c[i].err.msg, "another rank failed") != 0)) {
            *err = c[i].err;
            failed = 1;
        }
    free(c);
    free(w);
    return failed ? -1 : 0;
}
