/* Exchanges over the links of a mesh, and what it is made of. */
#include "backend/backend.h"
#include "base/clock.h"
#include "comm/mesh_inner.h"
#include "comm/secret.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 50
#define CALL_NS 100000000ull /* between calls of waiting() */
#define SPIN_NS 4000ull      /* looking for bytes before sleeping, if every rank has a processor */
#define RINGS_TOTAL (64ull << 20)

const char *rp_mesh_name(const struct rp_mesh *m, int rank, char out[96])
{
    const struct rp_mesh_peer *p = &m->peers[rank];
    snprintf(out, 96, strchr(p->address, ':') ? "rank %d ([%.60s]:%d)" : "rank %d (%.60s:%d)", rank, p->address, p->port);
    return out;
}

/* ---- an exchange ---- */

struct exchange {
    struct rp_mesh *m;
    enum rp_group g;
    const struct rp_transfer *t;
    int *next;                /* [n] the transfer after each one in its direction of its link, -1: none */
    struct mesh_link **links; /* with transfers that are not complete */
    int links_n;
    struct pollfd *polled;
    uint64_t moved_ns, called_ns, idle_ns; /* when bytes moved, when waiting() was called, since when none have moved (0: they do) */
};

static int add_transfers(struct exchange *x, int n, struct rp_err *err)
{
    struct rp_mesh *m = x->m;
    for (int i = n - 1; i >= 0; i--) {
        const int rank = rp_comm_world_rank(&m->comm, x->g, x->t[i].peer);
        struct mesh_link *l = &m->links[rank];
        struct mesh_way *w = x->t[i].send ? &l->out : &l->in;
        if (!x->t[i].bytes)
            continue;
        if (!l->open)
            return rp_fail(err, RP_BUG, "rank %d exchanges bytes with rank %d, but only ranks with a group in common were connected",
                           m->comm.rank[RP_GROUP_WORLD], rank);
        if (l->in.next < 0 && l->out.next < 0)
            x->links[x->links_n++] = l;
        x->next[i] = w->next;
        w->next = i;
    }
    return 0;
}

/* One turn for every link; those with nothing left to do leave the list. 1: bytes moved. */
static int move_links(struct exchange *x, struct rp_err *err)
{
    int moved = 0;
    for (int i = 0; i < x->links_n;) {
        struct mesh_link *l = x->links[i];
        const int r = rp_mesh_link_move(x->m, l, x->g, x->t, x->next, err);
        if (r < 0)
            return -1;
        moved |= r;
        if (l->in.next < 0 && l->out.next < 0)
            x->links[i] = x->links[--x->links_n];
        else
            i++;
    }
    return moved;
}

/* Calls waiting() when it is time to, and ends a silence that lasts too long. */
static int check_time(struct exchange *x, int rank, struct rp_err *err)
{
    struct rp_mesh *m = x->m;
    const uint64_t now = rp_now_ns();
    char name[96];
    if (m->comm.waiting && now - x->called_ns >= CALL_NS) {
        x->called_ns = now;
        if (m->comm.waiting(m->comm.waiting_arg, rank) != 0) {
            m->cause = (struct mesh_head){.failed = 1, .what = RP_INTERRUPTED, .rank = m->comm.rank[RP_GROUP_WORLD]};
            return rp_fail(err, RP_INTERRUPTED, "interrupted while waiting for %s", rp_mesh_name(m, rank, name));
        }
    }
    for (int i = 0; i < x->links_n; i++)
        if (rp_mesh_link_cut(m, x->links[i], now, err) < 0)
            return -1;
    if (m->opts.silence_s > 0 && (double)(now - x->moved_ns) > m->opts.silence_s * 1e9) {
        m->cause = (struct mesh_head){.failed = 1, .what = RP_UNAVAILABLE, .rank = rank};
        return rp_fail(err, RP_UNAVAILABLE, "no byte from %s for %.1f s", rp_mesh_name(m, rank, name), (double)(now - x->moved_ns) * 1e-9);
    }
    return 0;
}

/* Nothing can move now: sleeps until something happens. */
static int sleep_until_woken(struct exchange *x, struct rp_err *err)
{
    for (int i = 0; i < x->links_n; i++)
        x->polled[i] = (struct pollfd){.fd = rp_mesh_link_fd(x->links[i]), .events = rp_mesh_link_events(x->links[i])};
    const int n = poll(x->polled, (nfds_t)x->links_n, POLL_MS);
    for (int i = 0; i < x->links_n && n > 0; i++)
        if (x->polled[i].revents)
            rp_mesh_link_woken(x->links[i], x->polled[i].revents);
    return check_time(x, x->links[0]->rank, err);
}

static void count_idle(struct exchange *x, int moved)
{
    if (moved == (x->idle_ns == 0))
        return;
    const uint64_t now = rp_now_ns();
    if (moved)
        x->m->comm.count.wait_ns += now - x->idle_ns;
    x->moved_ns = now;
    x->idle_ns = moved ? 0 : now;
}

static int run_exchange(struct exchange *x, struct rp_err *err)
{
    int asked = 0; /* bells were asked for since bytes moved */
    for (int turns = 1; x->links_n; turns++) {
        const int moved = move_links(x, err);
        if (moved < 0)
            return -1;
        count_idle(x, moved || !x->links_n);
        if (moved) {
            asked = 0;
            if (turns % 8 == 0 && x->links_n && (x->moved_ns = rp_now_ns()) && check_time(x, x->links[0]->rank, err) < 0)
                return -1;
        } else if (x->m->spin && !asked && rp_now_ns() - x->idle_ns < SPIN_NS) {
            continue;
        } else if (!asked) {
            for (int i = 0; i < x->links_n; i++)
                rp_mesh_link_wait(x->links[i]);
            asked = 1; /* and once more over all links: what came in between rings no bell */
        } else {
            if (sleep_until_woken(x, err) < 0)
                return -1;
            asked = 0;
        }
    }
    return 0;
}

static int exchange(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, int on_device, struct rp_err *err)
{
    struct rp_mesh *m = (struct rp_mesh *)c;
    RP_FREE int *next = rp_alloc((size_t)n * sizeof *next);
    RP_FREE struct mesh_link **links = rp_alloc((size_t)m->world * sizeof(struct mesh_link *));
    RP_FREE struct pollfd *polled = rp_alloc((size_t)m->world * sizeof *polled);
    struct exchange x = {.m = m, .g = g, .t = t, .next = next, .links = links, .polled = polled};
    if (m->failed)
        return rp_fail(err, RP_UNAVAILABLE, "an earlier exchange between ranks failed");
    x.moved_ns = x.called_ns = rp_now_ns();
    m->on_device = on_device && m->dev;
    m->cause = (struct mesh_head){.failed = 1, .what = RP_UNAVAILABLE, .rank = c->rank[RP_GROUP_WORLD]};
    if (add_transfers(&x, n, err) == 0 && run_exchange(&x, err) == 0)
        return 0;
    if (x.idle_ns)
        c->count.wait_ns += rp_now_ns() - x.idle_ns;
    m->failed = 1;
    c->lost = m->cause.rank == c->rank[RP_GROUP_WORLD] && !m->blamed ? -1 : m->cause.rank;
    for (int i = 0; i < m->world; i++)
        rp_mesh_link_notify(&m->links[i], &m->cause);
    return -1;
}

static int exchange_host(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    return exchange(c, g, t, n, 0, err);
}

static int exchange_device(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    return exchange(c, g, t, n, 1, err);
}

/* ---- the whole ---- */

static void attach(struct rp_comm *c, struct rp_dev *dev)
{
    struct rp_mesh *m = (struct rp_mesh *)c;
    m->dev = dev->backend->separate_memory ? dev : NULL;
}

static void describe(const struct rp_comm *c, char text[RP_TRANSPORT_TEXT])
{
    struct rp_mesh_stats s;
    rp_mesh_stats(c, &s);
    memcpy(text, s.text, sizeof s.text);
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
    free(m);
}

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
    rp_comm_place(&x, a, l);
    rp_comm_place(&y, b, l);
    for (int g = RP_GROUP_WORLD + 1; g < RP_GROUPS; g++)
        if (x.first[g] == y.first[g] && x.size[g] > 1)
            return 1;
    return !sparse || is_power_of_two(apart) || is_power_of_two(world - apart);
}

void rp_mesh_memory(struct rp_mesh_memory *m, struct rp_degrees l, const int *host, int rank, int sparse)
{
    const int world = l.data * l.tensor * l.pipeline;
    uint64_t pairs = 0, own = 0, channels = 0, most = 0;
    RP_FREE uint64_t *of_host = rp_alloc((size_t)world * sizeof *of_host); /* pairs on the host of each rank, by its first rank */
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

static void copy_options(struct rp_mesh *m, const struct rp_mesh_opts *o)
{
    m->opts = *o;
    m->opts.open_s = o->open_s > 0 ? o->open_s : 60;
    m->opts.greet_s = o->greet_s > 0 ? o->greet_s : 10;
    m->peers = rp_alloc((size_t)m->world * sizeof *m->peers);
    m->host = rp_alloc((size_t)m->world * sizeof *m->host);
    for (int i = 0; i < m->world; i++) {
        m->peers[i] = o->ranks[i];
        m->peers[i].address = rp_strdup(o->ranks[i].address);
        m->host[i] = o->ranks[i].host;
    }
    m->job = rp_strdup(o->job);
    memcpy(m->key, o->key, sizeof m->key);
    m->opts.ranks = m->peers;
    m->opts.job = m->job;
    m->opts.key = m->key;
}

static int ranks_here(const struct rp_mesh *m)
{
    int n = 0;
    for (int i = 0; i < m->world; i++)
        n += m->host[i] == m->host[m->opts.rank];
    return n;
}

struct rp_comm *rp_mesh_open(const struct rp_mesh_opts *o, struct rp_err *err)
{
    static const struct rp_comm_ops op = {exchange_host, mesh_close, exchange_device, attach, describe};
    struct rp_mesh_memory memory;
    if (!rp_secret_is_name(o->job, RP_CHANNEL_JOB_MAX)) {
        close(o->listener);
        return rp_fail_null(err, RP_USAGE, "'%s' is not the id of a job: 1 to %d letters, digits, '.', '_' or '-'", o->job,
                            RP_CHANNEL_JOB_MAX);
    }
    struct rp_mesh *m = rp_alloc(sizeof *m);
    m->world = o->layout.data * o->layout.tensor * o->layout.pipeline;
    copy_options(m, o);
    m->comm = (struct rp_comm){.op = &op, .lost = -1, .transport = "sockets", .host = m->host, .waiting = o->waiting,
                               .waiting_arg = o->waiting_arg};
    rp_comm_place(&m->comm, o->rank, o->layout);
    rp_mesh_memory(&memory, o->layout, m->host, o->rank, o->sparse);
    m->spin = ranks_here(m) <= (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->greet = (struct rp_greet_opts){.channel = {.key = m->key, .purpose = "data", .job = m->job, .own = o->rank},
                                      .ring_bytes = (size_t)memory.ring,
                                      .no_rings = o->no_rings};
    m->links = rp_alloc((size_t)m->world * sizeof *m->links);
    for (int i = 0; i < m->world; i++)
        m->links[i] = (struct mesh_link){.rank = i, .wanted = rp_mesh_connected(o->layout, o->sparse, o->rank, i), .fd = -1,
                                         .connecting = -1, .rings = {.fd = -1}, .in = {.next = -1}, .out = {.next = -1}};
    if (rp_mesh_open_links(m, err) < 0) {
        mesh_close(&m->comm);
        return NULL;
    }
    return &m->comm;
}

void rp_mesh_stats(const struct rp_comm *c, struct rp_mesh_stats *out)
{
    const struct rp_mesh *m = (const struct rp_mesh *)c;
    *out = m->stats;
    size_t n = 0;
    *out->text = 0;
    const struct {
        int count;
        const char *words;
    } parts[] = {{out->rings, out->rings == 1 ? "rank by shared memory" : "ranks by shared memory"},
                 {out->channels, out->rings ? "by TLS" : out->channels == 1 ? "rank by TLS" : "ranks by TLS"},
                 {out->refused_rings, "of these on this host"},
                 {out->strangers, out->strangers == 1 ? "stranger refused" : "strangers refused"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].count && n < sizeof out->text - 48)
            n += (size_t)snprintf(out->text + n, sizeof out->text - n, "%s%d %s", n ? ", " : "", parts[i].count, parts[i].words);
}
