/* Exchanges over the links of a mesh, its end, and the memory that it takes. */
#include "backend/backend.h"
#include "base/clock.h"
#include "comm/mesh_inner.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 50
#define CALL_NS 100000000ull    /* between calls of waiting() */
#define PAUSED_NS 2000000000ull /* without a call: this process was stopped, and the others perhaps with it */
#define SPIN_NS 4000ull         /* looking for bytes before sleeping, if every rank has a processor */
#define RINGS_TOTAL (64ull << 20)

/* ---- an exchange ---- */

struct links {
    struct mesh_link **l; /* with transfers that are not complete */
    int n;
    struct pollfd *polled;
    /* when bytes moved, when waiting() was called, since when none have moved (0: they do) */
    uint64_t moved_ns, called_ns, idle_ns;
};

static int add_transfers(struct mesh_exchange *x, struct links *all, int n, struct rp_err *err)
{
    for (int i = n - 1; i >= 0; i--) {
        const int rank = rp_comm_world_rank(x->comm, x->g, x->t[i].peer);
        struct mesh_link *l = &x->m->links[rank];
        struct mesh_way *w = x->t[i].send ? &l->out : &l->in;
        if (!x->t[i].bytes)
            continue;
        if (!l->open)
            return rp_fail(err, RP_BUG,
                           "rank %d exchanges bytes with rank %d, but only ranks with a group in common were connected",
                           x->comm->rank[RP_GROUP_WORLD], rank);
        if (l->in.next < 0 && l->out.next < 0)
            all->l[all->n++] = l;
        x->next[i] = w->next;
        w->next = i;
    }
    return 0;
}

/* One turn for every link; those with nothing left to do leave the list. 1: bytes moved. */
static int move_links(struct mesh_exchange *x, struct links *all, struct rp_err *err)
{
    int moved = 0;
    for (int i = 0; i < all->n;) {
        struct mesh_link *l = all->l[i];
        const int r = rp_mesh_link_move(x, l, err);
        if (r < 0)
            return -1;
        moved |= r;
        if (l->in.next < 0 && l->out.next < 0)
            all->l[i] = all->l[--all->n];
        else
            i++;
    }
    return moved;
}

/* An exchange failed before: that of another thread is the reason why this one ends. */
static int fail_too(struct rp_mesh *m, struct rp_comm *c, struct rp_err *err)
{
    pthread_mutex_lock(&m->lock);
    const int of_another = m->by != c;
    c->lost = m->lost;
    *err = m->why;
    pthread_mutex_unlock(&m->lock);
    return of_another ? -1 : rp_fail(err, RP_UNAVAILABLE, "an earlier exchange between ranks failed");
}

/* Calls waiting() when it is time to, and ends a silence that lasts too long. */
static int check_time(struct mesh_exchange *x, struct links *all, int rank, struct rp_err *err)
{
    struct rp_comm *c = x->comm;
    const uint64_t now = rp_now_ns();
    char name[96];
    if (atomic_load(&x->m->failed))
        return fail_too(x->m, c, err);
    if (c->waiting && now - all->called_ns >= CALL_NS) {
        if (now - all->called_ns >= PAUSED_NS)
            all->moved_ns = now;
        all->called_ns = now;
        if (c->waiting(c->waiting_arg, rank) != 0) {
            x->cause = (struct mesh_head){.failed = 1, .what = RP_INTERRUPTED, .rank = c->rank[RP_GROUP_WORLD]};
            return rp_fail(err, RP_INTERRUPTED, "interrupted while waiting for %s", rp_mesh_name(x->m, rank, name));
        }
    }
    for (int i = 0; i < all->n; i++)
        if (rp_mesh_link_cut(x, all->l[i], now, err) < 0)
            return -1;
    if (x->m->opts.silence_s > 0 && (double)(now - all->moved_ns) > x->m->opts.silence_s * 1e9) {
        x->cause = (struct mesh_head){.failed = 1, .what = RP_UNAVAILABLE, .rank = rank};
        return rp_fail(err, RP_UNAVAILABLE, "no byte from %s for %.1f s", rp_mesh_name(x->m, rank, name),
                       (double)(now - all->moved_ns) * 1e-9);
    }
    return 0;
}

/* Nothing can move now: sleeps until something happens. */
static int sleep_until_woken(struct mesh_exchange *x, struct links *all, struct rp_err *err)
{
    for (int i = 0; i < all->n; i++)
        all->polled[i] = (struct pollfd){.fd = rp_mesh_link_fd(all->l[i]), .events = rp_mesh_link_events(all->l[i])};
    const int n = poll(all->polled, (nfds_t)all->n, POLL_MS);
    for (int i = 0; i < all->n && n > 0; i++)
        if (all->polled[i].revents)
            rp_mesh_link_woken(all->l[i], all->polled[i].revents);
    return check_time(x, all, all->l[0]->rank, err);
}

static void count_idle(struct rp_comm *c, struct links *all, int moved)
{
    if (moved == (all->idle_ns == 0))
        return;
    const uint64_t now = rp_now_ns();
    if (moved)
        c->count.wait_ns += now - all->idle_ns;
    all->moved_ns = now;
    all->idle_ns = moved ? 0 : now;
}

static int move_all(struct mesh_exchange *x, struct links *all, struct rp_err *err)
{
    int asked = 0; /* bells were asked for since bytes moved */
    for (int turns = 1; all->n; turns++) {
        const int moved = move_links(x, all, err);
        if (moved < 0)
            return -1;
        count_idle(x->comm, all, moved || !all->n);
        if (moved) {
            asked = 0;
            if (turns % 8 == 0 && all->n && (all->moved_ns = rp_now_ns()) &&
                check_time(x, all, all->l[0]->rank, err) < 0)
                return -1;
        } else if (x->m->spin && !asked && rp_now_ns() - all->idle_ns < SPIN_NS) {
            continue;
        } else if (!asked) {
            for (int i = 0; i < all->n; i++)
                rp_mesh_link_wait(all->l[i]);
            asked = 1; /* and once more over all links: what came in between rings no bell */
        } else {
            if (sleep_until_woken(x, all, err) < 0)
                return -1;
            asked = 0;
        }
    }
    return 0;
}

/* ---- exchanges of two threads ---- */

/* Two ranks have at most one group besides the world in common, so that different groups have different links. */
static int claim_group(struct mesh_exchange *x, struct rp_err *err)
{
    struct rp_mesh *m = x->m;
    const unsigned world = 1u << RP_GROUP_WORLD, own = 1u << x->g;
    pthread_mutex_lock(&m->lock);
    const int failed = atomic_load(&m->failed), clash = (m->busy & (own | world)) || (own == world && m->busy);
    if (!failed && !clash)
        m->busy |= own;
    pthread_mutex_unlock(&m->lock);
    if (failed)
        return fail_too(m, x->comm, err);
    return clash ? rp_fail(err, RP_BUG, "two exchanges in the %s group at once", rp_group_name(x->g)) : 0;
}

/* The first failure is the cause of all. Other ranks learn of it when no thread uses a link any more. */
static void release_group(struct mesh_exchange *x, int failed, const struct rp_err *err)
{
    struct rp_mesh *m = x->m;
    const int own = x->comm->rank[RP_GROUP_WORLD];
    pthread_mutex_lock(&m->lock);
    m->busy &= ~(1u << x->g);
    if (failed && !atomic_load(&m->failed)) {
        m->cause = x->cause;
        m->lost = x->cause.rank == own && !x->blamed ? -1 : x->cause.rank;
        m->by = x->comm;
        m->why = *err;
        atomic_store(&m->failed, 1);
    }
    if (failed)
        x->comm->lost = m->lost;
    const int tell = atomic_load(&m->failed) && !m->busy && !m->told;
    m->told |= tell;
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < m->world && tell; i++)
        rp_mesh_link_notify(&m->links[i], &m->cause);
}

static int exchange(struct rp_mesh *m, struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                    int on_device, struct rp_err *err)
{
    RP_FREE int *next = rp_alloc((size_t)n * sizeof *next);
    RP_FREE struct mesh_link **links = rp_alloc((size_t)m->world * sizeof(struct mesh_link *));
    RP_FREE struct pollfd *polled = rp_alloc((size_t)m->world * sizeof *polled);
    struct links all = {.l = links, .polled = polled};
    struct mesh_exchange x = {.m = m, .comm = c, .g = g, .t = t, .next = next, .on_device = on_device && m->dev,
                              .cause = {.failed = 1, .what = RP_UNAVAILABLE, .rank = c->rank[RP_GROUP_WORLD]}};
    if (claim_group(&x, err) < 0)
        return -1;
    all.moved_ns = all.called_ns = rp_now_ns();
    const int failed = add_transfers(&x, &all, n, err) < 0 || move_all(&x, &all, err) < 0;
    if (failed && all.idle_ns)
        c->count.wait_ns += rp_now_ns() - all.idle_ns;
    release_group(&x, failed, err);
    return failed ? -1 : 0;
}

static int exchange_host(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    return exchange((struct rp_mesh *)c, c, g, t, n, 0, err);
}

static int exchange_device(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    return exchange((struct rp_mesh *)c, c, g, t, n, 1, err);
}

static int exchange_duplicate(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                              struct rp_err *err)
{
    return exchange(((struct mesh_duplicate *)c)->m, c, g, t, n, 0, err);
}

static void close_duplicate(struct rp_comm *c)
{
    (void)c; /* it is a part of the other */
}

/* Same ranks and links, with counts and a waiting() of its own. */
static struct rp_comm *duplicate(struct rp_comm *c)
{
    static const struct rp_comm_ops op = {.exchange = exchange_duplicate, .close = close_duplicate};
    struct rp_mesh *m = (struct rp_mesh *)c;
    m->duplicate = (struct mesh_duplicate){.comm = *c, .m = m};
    m->duplicate.comm.op = &op;
    m->duplicate.comm.count = (struct rp_comm_count){0};
    m->duplicate.comm.waiting = NULL;
    return &m->duplicate.comm;
}

/* ---- the whole ---- */

static void attach_device(struct rp_comm *c, struct rp_dev *dev)
{
    struct rp_mesh *m = (struct rp_mesh *)c;
    m->dev = dev->backend->separate_memory ? dev : NULL;
}

static void connections(const struct rp_comm *c, struct rp_connections *out)
{
    *out = ((const struct rp_mesh *)c)->stats;
}

static void mesh_close(struct rp_comm *c)
{
    struct rp_mesh *m = (struct rp_mesh *)c;
    for (int i = 0; i < m->world; i++)
        rp_mesh_link_close(&m->links[i]);
    for (int i = 0; i < m->world; i++)
        free((void *)(uintptr_t)m->peers[i].address);
    free(m->links);
    free(m->peers);
    free(m->host);
    free(m->job);
    explicit_bzero(m->key, sizeof m->key);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

const struct rp_comm_ops rp_mesh_ops = {exchange_host, mesh_close,  exchange_device,
                                        attach_device, connections, duplicate};

static int is_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

int rp_mesh_connected(struct rp_degrees l, int sparse, int a, int b)
{
    const int world = l.data * l.tensor * l.pipeline, apart = ((b - a) % world + world) % world;
    struct rp_comm x = {0}, y = {0};
    if (a == b)
        return 0;
    rp_comm_set_coords(&x, a, l);
    rp_comm_set_coords(&y, b, l);
    for (int g = RP_GROUP_WORLD + 1; g < RP_GROUPS; g++)
        if (x.first[g] == y.first[g] && x.size[g] > 1)
            return 1;
    return !sparse || is_power_of_two(apart) || is_power_of_two(world - apart);
}

void rp_mesh_memory(struct rp_mesh_memory *m, struct rp_degrees l, const int *host, int rank, int sparse)
{
    const int world = l.data * l.tensor * l.pipeline;
    uint64_t pairs = 0, own = 0, channels = 0, most = 0;
    /* pairs on the host of each rank, by its first rank */
    RP_FREE uint64_t *of_host = rp_alloc((size_t)world * sizeof *of_host);
    for (int a = 0; a < world; a++)
        for (int b = 0, first = -1; b < world; b++) {
            const int together = !host || host[a] == host[b];
            if (together && first < 0)
                first = b;
            if (b < a && together && rp_mesh_connected(l, sparse, a, b))
                of_host[first]++;
            if (a == rank && !together && rp_mesh_connected(l, sparse, a, b))
                channels++;
            if (a == rank && b < a && together && rp_mesh_connected(l, sparse, a, b))
                own++;
        }
    for (int a = 0; a < world; a++) {
        most = of_host[a] > most ? of_host[a] : most;
        if ((!host || host[a] == host[rank]) && of_host[a])
            pairs = of_host[a];
    }
    *m = (struct rp_mesh_memory){.ring = RP_RING_MOST};
    while (m->ring > RP_RING_LEAST && 2 * most * m->ring > RINGS_TOTAL)
        m->ring /= 2;
    m->host = pairs * (2 * m->ring + 4096);
    m->created = own * (2 * m->ring + 4096);
    m->buffers = channels * (uint64_t)RP_CHANNEL_MEMORY;
}
