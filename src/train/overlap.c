#include "train/overlap.h"

#include "base/buf.h"
#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_BYTES ((size_t)1 << 20)
#define TURN_NS 50000000 /* between calls of waiting() */

struct rp_overlap {
    struct rp_exchange *x;
    struct rp_comm *own, *lent; /* the training thread's; what the thread exchanges with: the same, or its duplicate */
    struct rp_dev *side; /* a second queue of the device; NULL: plain */
    struct rp_dev plain; /* operations on the host's memory */
    float *const *block;
    float *room;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    int entered;  /* the thread can use the device, or has failed to */
    int running;  /* the thread has the communicator */
    int end;      /* it is to give it back after the piece at hand */
    int stop;     /* it is to return */
    int ready;    /* this bucket and later ones are complete */
    int failed;
    struct rp_err err;
    /* the last piece: when it began, how long it was in exchanges, and of that without any byte */
    uint64_t piece_ns, moved_ns, idle_ns;
    /* of the training thread */
    struct rp_net *m;
    const struct rp_grad_tree *tree;
    int64_t index;
    int merged;   /* this bucket and later ones are merged with the tree of this rank */
    uint64_t begun_ns, own_ns;     /* begin(), and exchange_ns of its communicator then */
    uint64_t exchange_ns, wait_ns; /* of the one that is lent */
    int (*waiting)(void *arg, int rank);
    void *waiting_arg;
    /* of both */
    atomic_int waits_for, interrupted;
};

size_t rp_overlap_bucket(const struct rp_recipe *r, const struct rp_comm *c)
{
    if (c->route == RP_ROUTE_STAGED || c->size[RP_GROUP_DATA] == 1 ||
        (c->size[RP_GROUP_TENSOR] > 1 && c->route != RP_ROUTE_HOST))
        return 0;
    return (size_t)r->run_overlap_kib * 1024 / sizeof(float);
}

int rp_overlap_here(size_t bucket, const struct rp_comm *c)
{
    return bucket > 0 && c->rank[RP_GROUP_PIPELINE] == 0;
}

/* ---- the thread ---- */

/* rp_comm.waiting() of its exchanges: the training thread talks to the parent. */
static int note_waiting(void *arg, int rank)
{
    struct rp_overlap *o = arg;
    atomic_store(&o->waits_for, rank);
    return atomic_load(&o->interrupted);
}

static int exchange_piece(struct rp_overlap *o, struct rp_err *err)
{
    const struct rp_comm *c = o->lent;
    const uint64_t start = rp_now_ns(), exchange_ns = c->count.exchange_ns, wait_ns = c->count.wait_ns;
    const int failed = rp_exchange_piece(o->x, o->side ? o->side : &o->plain, o->block, o->room, err);
    atomic_store(&o->waits_for, -1);
    o->piece_ns = start;
    o->moved_ns = c->count.exchange_ns - exchange_ns;
    o->idle_ns = c->count.wait_ns - wait_ns;
    return failed;
}

/* Until what the second queue has is done. */
static int empty_queue(struct rp_overlap *o, struct rp_err *err)
{
    return o->side ? o->side->backend->sync(o->side, err) : 0;
}

static void *exchange_thread(void *arg)
{
    struct rp_overlap *o = arg;
    pthread_mutex_lock(&o->lock);
    o->failed = o->side && o->side->backend->bind_thread(o->side, &o->err) < 0;
    o->entered = 1;
    pthread_cond_broadcast(&o->changed);
    while (!o->stop) {
        const int bucket = o->running ? rp_exchange_bucket(o->x) : -1;
        if (o->running && (o->end || o->failed || bucket < 0)) {
            struct rp_err err = {0};
            pthread_mutex_unlock(&o->lock);
            const int failed = empty_queue(o, &err) < 0;
            pthread_mutex_lock(&o->lock);
            if (failed && !o->failed)
                o->err = err;
            o->failed |= failed;
            o->running = 0;
            pthread_cond_broadcast(&o->changed);
        } else if (!o->running || bucket < o->ready) {
            pthread_cond_wait(&o->changed, &o->lock);
        } else {
            struct rp_err err = {0};
            pthread_mutex_unlock(&o->lock);
            const int failed = exchange_piece(o, &err) < 0;
            pthread_mutex_lock(&o->lock);
            o->failed = failed;
            o->err = err;
        }
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static int start_thread(struct rp_overlap *o)
{
    pthread_attr_t a;
    pthread_condattr_t clock;
    sigset_t all, old;
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&o->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
    int e = pthread_create(&o->thread, &a, exchange_thread, o);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&a);
    return e;
}

static void free_parts(struct rp_overlap *o)
{
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    if (o->side)
        o->side->backend->close(o->side);
    free(o);
}

struct rp_overlap *rp_overlap_new(struct rp_exchange *x, float *const *block, float *room, struct rp_err *err)
{
    const struct rp_backend *b = x->dev->backend;
    struct rp_comm *c = x->comm;
    struct rp_overlap *o = rp_alloc(sizeof *o);
    struct rp_comm *lent = c->size[RP_GROUP_TENSOR] > 1 ? c->op->duplicate(c) : c;
    *o = (struct rp_overlap){.x = x, .own = c, .lent = lent, .block = block, .room = room,
                             .plain = {.op = &rp_reference_ops}};
    if (b->second_queue && !(o->side = b->second_queue(x->dev, err))) {
        free(o);
        return NULL;
    }
    const int e = start_thread(o);
    if (e) {
        free_parts(o);
        return rp_fail_null(err, RP_UNAVAILABLE,
                            "cannot start a thread for the exchange of gradients: %s; run.overlap_kib off needs none",
                            strerror(e));
    }
    pthread_mutex_lock(&o->lock);
    while (!o->entered)
        pthread_cond_wait(&o->changed, &o->lock);
    const int failed = o->failed;
    *err = failed ? o->err : *err;
    pthread_mutex_unlock(&o->lock);
    if (!failed)
        return o;
    rp_overlap_free(o);
    return NULL;
}

void rp_overlap_free(struct rp_overlap *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->stop = 1;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    free_parts(o);
}

/* ---- the training thread ---- */

/* Merges buckets from number `from` on with the tree of this rank. */
static void merge_buckets(struct rp_overlap *o, int from)
{
    while (o->merged > from)
        for (const struct rp_extent *e = o->x->bucket[--o->merged]; e->floats; e++)
            rp_grad_tree_merge_early(o->tree, o->index, e->at, e->floats);
}

/* As rp_gradients_ready_fn. */
static void announce_layer(struct rp_net *m, int layer, void *arg)
{
    struct rp_overlap *o = arg;
    int from = o->merged;
    while (from > 0 && o->x->shares->bucket[from - 1].layer >= layer)
        from--;
    struct rp_err err = {0};
    const int more = from < o->merged;
    merge_buckets(o, from);
    const int lost = more && o->side && o->side->backend->wait_for(o->side, o->x->dev, &err) < 0;
    pthread_mutex_lock(&o->lock);
    if (!lost)
        o->ready = from;
    if ((lost || o->failed) && !m->failed.code)
        m->failed = lost ? err : o->err;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

void rp_overlap_begin(struct rp_overlap *o, struct rp_net *m, const struct rp_grad_tree *tree, int64_t index)
{
    struct rp_comm *c = o->lent;
    rp_exchange_begin(o->x);
    o->x->comm = c;
    m->gradients_ready = announce_layer;
    m->gradients_ready_arg = o;
    pthread_mutex_lock(&o->lock);
    RP_BUG_IF(o->running);
    o->m = m;
    o->tree = tree;
    o->index = index;
    o->merged = o->ready = o->x->shares->buckets;
    o->end = o->failed = 0;
    o->err = (struct rp_err){0};
    o->piece_ns = o->moved_ns = o->idle_ns = 0;
    o->begun_ns = rp_now_ns();
    o->own_ns = o->own->count.exchange_ns;
    o->exchange_ns = c->count.exchange_ns;
    o->wait_ns = c->count.wait_ns;
    o->waiting = o->own->waiting;
    o->waiting_arg = o->own->waiting_arg;
    atomic_store(&o->waits_for, -1);
    atomic_store(&o->interrupted, 0);
    c->waiting = note_waiting;
    c->waiting_arg = o;
    if (o->side)
        c->op->attach(c, o->side);
    o->running = 1;
    pthread_mutex_unlock(&o->lock);
}

/* Until the thread has given the communicator back. */
static void take_back(struct rp_overlap *o)
{
    pthread_mutex_lock(&o->lock);
    o->end = 1;
    pthread_cond_broadcast(&o->changed);
    while (o->running) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TURN_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&o->changed, &o->lock, &until);
        if (!o->running || !o->waiting)
            continue;
        pthread_mutex_unlock(&o->lock);
        if (o->waiting(o->waiting_arg, atomic_load(&o->waits_for)))
            atomic_store(&o->interrupted, 1);
        pthread_mutex_lock(&o->lock);
    }
    pthread_mutex_unlock(&o->lock);
}

/* The training waited from `since` on. What its thread exchanged before is beside the backward pass, as far as that did
 * not exchange itself. */
static void count_time(const struct rp_overlap *o, uint64_t since)
{
    struct rp_comm *c = o->lent;
    const uint64_t computed = since - o->begun_ns - (c == o->own ? 0 : o->own->count.exchange_ns - o->own_ns);
    const uint64_t all = c->count.exchange_ns - o->exchange_ns, from = o->piece_ns > since ? o->piece_ns : since,
                   end = o->piece_ns + o->moved_ns;
    const uint64_t after = end > from ? end - from : 0; /* of the last piece: all others ended before */
    c->count.exchange_ns = o->exchange_ns + (rp_now_ns() - since);
    c->count.wait_ns = o->wait_ns + (o->idle_ns < after ? o->idle_ns : after);
    const uint64_t beside = all - (after < all ? after : all);
    c->count.overlap_ns += beside < computed ? beside : computed;
}

/* What the thread did with a communicator of its own counts as this rank's. */
static void add_counts(struct rp_comm *to, struct rp_comm *from)
{
    to->count.sent_bytes += from->count.sent_bytes;
    to->count.received_bytes += from->count.received_bytes;
    for (int g = 0; g < RP_GROUPS; g++)
        to->count.sent_in[g] += from->count.sent_in[g];
    to->count.exchange_ns += from->count.exchange_ns;
    to->count.wait_ns += from->count.wait_ns;
    to->count.overlap_ns += from->count.overlap_ns;
    from->count = (struct rp_comm_count){0};
}

int rp_overlap_end(struct rp_overlap *o, int failed, struct rp_err *err)
{
    struct rp_comm *c = o->lent;
    o->m->gradients_ready = NULL;
    if (!failed) {
        merge_buckets(o, 0);
        /* a GPU has all of the backward pass still before it */
        failed = o->side && o->side->backend->sync(o->x->dev, err) < 0;
    }
    if (failed)
        atomic_store(&o->interrupted, 1);
    const uint64_t since = rp_now_ns();
    take_back(o);
    if (o->side)
        c->op->attach(c, o->x->dev);
    c->waiting = o->waiting;
    c->waiting_arg = o->waiting_arg;
    count_time(o, since);
    o->x->comm = o->own;
    if (c != o->own)
        add_counts(o->own, c);
    if (o->failed && o->own->lost == -1)
        o->own->lost = c->lost;
    if (!failed && o->failed)
        *err = o->err;
    return failed || o->failed ? -1 : 0;
}
