/* Connecting the ranks of a mesh: all connections at once, each one a state machine, in one loop around poll(). */
#include "base/clock.h"
#include "comm/mesh_inner.h"
#include "comm/secret.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_MS 50
#define CALL_NS 100000000ull
#define RETRY_NS 20000000ull /* before the second try; then twice as long each time */
#define RETRY_MOST_NS 1000000000ull
#define STRANGERS 64         /* connections that have not proved anything, beyond one for each rank */

/* ---- sockets ---- */

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* A cut cable closes nothing: the kernel asks the other side after 5 s of silence, and gives up after 5 s more. It does
 * not ask while data waits to be acknowledged: rp_mesh_link_cut(). TCP_USER_TIMEOUT would also end connections to a
 * rank that computes for so long that its buffers are full. Ranks that share memory share a kernel, which closes what a
 * dead process had open; asked by thousands of connections at once, as those of 200 ranks are, it drops questions and
 * ends connections of ranks that live. */
static void set_options(int fd, int has_memory)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (has_memory)
        return;
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
}

static int resolve_address(const char *address, int port, int passive, struct addrinfo **out, struct rp_err *err)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
                                   .ai_socktype = SOCK_STREAM};
    char service[16];
    RP_FORMAT(service, "%d", port);
    const int e = getaddrinfo(address, service, &hints, out);
    return e == 0 ? 0
                  : rp_fail(err, RP_USAGE, "'%s' is not an IP address: %s", address ? address : "", gai_strerror(e));
}

static int listen_at(const struct addrinfo *a)
{
    RP_FD fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (a->ai_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    return bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0 ? -1 : rp_fd_take(&fd);
}

int rp_mesh_listen(const char *address, int port, int *bound, struct rp_err *err)
{
    static const char *const all[] = {"::", "0.0.0.0"}; /* a kernel without IPv6 refuses the first */
    int fd = -1, e = 0;
    for (int i = 0; i < (address ? 1 : 2) && fd < 0; i++) {
        struct addrinfo *found;
        if (resolve_address(address ? address : all[i], port, 1, &found, err) < 0)
            return -1;
        fd = listen_at(found);
        e = errno;
        freeaddrinfo(found);
    }
    if (fd < 0)
        return rp_fail(err, RP_UNAVAILABLE, "cannot listen at port %d of %s: %s", port, address ? address : "this host",
                       strerror(e));
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } is = {.v6 = {.sin6_port = 0}};
    socklen_t n = sizeof is;
    if (getsockname(fd, &is.any, &n) < 0) {
        close(fd);
        return rp_fail(err, RP_UNAVAILABLE, "cannot tell the port of a listening socket: %s", strerror(errno));
    }
    *bound = ntohs(is.any.sa_family == AF_INET6 ? is.v6.sin6_port : is.v4.sin_port);
    return fd;
}

/* ---- the loop ---- */

struct opening {
    struct rp_mesh *m;
    int listener, missing; /* ranks without a connection */
    struct incoming {
        struct rp_greeting *greeting; /* whose channel has its address */
        uint64_t until;
    } *incoming;
    int incoming_n, incoming_most;
    struct pollfd *polled;
    uint64_t start_ns, called_ns;
    struct rp_err refused; /* why the last stranger was one */
};

static int admit_rank(void *arg, int rank, int one_host, struct rp_err *err)
{
    const struct rp_mesh *m = arg;
    const int own = m->opts.rank;
    if (rank <= own || rank >= m->world || !m->links[rank].wanted)
        return rp_fail(err, RP_SIGNATURE, "a connection from rank %d to rank %d, which expects none from there", rank,
                       own) == 0;
    if (m->links[rank].open)
        return rp_fail(err, RP_SIGNATURE, "a second connection from rank %d to rank %d", rank, own) == 0;
    if (one_host != (m->host[rank] == m->host[own]))
        return rp_fail(err, RP_SIGNATURE, "a connection from rank %d to rank %d as if they were on %s", rank, own,
                       one_host ? "one host" : "different hosts") == 0;
    return 1;
}

/* What the greeting has opened becomes the link of its rank. */
static void take_link(struct opening *o, struct rp_greeting *g)
{
    struct mesh_link *l = &o->m->links[g->rank];
    set_options(rp_greet_fd(g), !g->channel);
    l->open = 1;
    l->channel = g->channel;
    g->channel = NULL;
    l->fd = rp_fd_take(&g->fd);
    l->rings = g->rings;
    g->rings = (struct rp_rings){.fd = -1};
    o->m->stats.shared_memory += !l->channel;
    o->m->stats.tls += l->channel != NULL;
    o->m->stats.tls_on_host += g->refused_rings;
    o->missing--;
}

/* ---- from higher ranks ---- */

/* why: NULL: it is a rank. */
static void drop_incoming(struct opening *o, int i, const struct rp_err *why)
{
    rp_greet_end(o->incoming[i].greeting);
    free(o->incoming[i].greeting);
    o->incoming[i] = o->incoming[--o->incoming_n];
    o->m->stats.refused += why != NULL;
    if (why)
        o->refused = *why;
}

static int fail_slow(struct rp_err *err)
{
    return rp_fail(err, RP_UNAVAILABLE, "a connection did not prove in time that it is from a rank of this job");
}

static void accept_all(struct opening *o)
{
    struct rp_err why;
    int fd;
    while ((fd = (int)RP_RETRY(accept4(o->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))) >= 0) {
        int oldest = 0;
        for (int i = 1; i < o->incoming_n; i++)
            if (o->incoming[i].until < o->incoming[oldest].until)
                oldest = i;
        if (o->incoming_n == o->incoming_most && fail_slow(&why) < 0)
            drop_incoming(o, oldest, &why);
        struct incoming *in = &o->incoming[o->incoming_n++];
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        in->greeting = rp_alloc(sizeof *in->greeting);
        in->until = rp_now_ns() + (uint64_t)(o->m->opts.greet_s * 1e9);
        if (rp_greet_start(in->greeting, &o->m->greet, fd, 0, -1, 0, &why) < 0)
            drop_incoming(o, o->incoming_n - 1, &why);
    }
}

static void step_incoming(struct opening *o)
{
    struct rp_err why;
    const uint64_t now = rp_now_ns();
    for (int i = 0; i < o->incoming_n;) {
        struct incoming *in = &o->incoming[i];
        const int r = rp_greet_step(in->greeting, &why);
        if (r > 0) {
            take_link(o, in->greeting);
            drop_incoming(o, i, NULL);
        } else if (r < 0 || (now > in->until && fail_slow(&why) < 0)) {
            drop_incoming(o, i, &why);
        } else {
            i++;
        }
    }
}

/* ---- to lower ranks ---- */

static void try_again(struct mesh_link *l, const struct rp_err *why)
{
    l->last = *why;
    rp_closep(&l->connecting);
    if (l->greeting)
        rp_greet_end(l->greeting);
    free(l->greeting);
    l->greeting = NULL;
    l->retry_ns = !l->retry_ns ? RETRY_NS : 2 * l->retry_ns < RETRY_MOST_NS ? 2 * l->retry_ns : RETRY_MOST_NS;
    l->retry_at = rp_now_ns() + l->retry_ns;
}

/* RP_IO: trying again does not help. */
static int start_connecting(const struct rp_mesh *m, struct mesh_link *l, struct rp_err *err)
{
    const struct rp_mesh_peer *p = &m->peers[l->rank];
    struct addrinfo *found;
    if (resolve_address(p->address, p->port, 0, &found, err) < 0)
        return -1;
    RP_FD fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int r = fd < 0 ? -1 : connect(fd, found->ai_addr, found->ai_addrlen), e = errno;
    freeaddrinfo(found);
    if (r < 0 && e == ENETUNREACH && strncmp(p->address, "127.", 4) == 0)
        return rp_fail(err, RP_IO,
                       "cannot reach the other ranks of this host at %s: the loopback interface is down ('ip link set "
                       "lo up')",
                       p->address);
    if (r < 0 && e != EINPROGRESS && e != EINTR)
        return rp_fail(err, RP_UNAVAILABLE, "%s", strerror(e));
    l->connecting = rp_fd_take(&fd);
    return 0;
}

/* The connection is there, or could not be made. 0: not decided. */
static int finish_connecting(struct rp_mesh *m, struct mesh_link *l, struct rp_err *err)
{
    struct pollfd p = {.fd = l->connecting, .events = POLLOUT};
    int e = 0;
    socklen_t n = sizeof e;
    if (RP_RETRY(poll(&p, 1, 0)) <= 0)
        return 0;
    if (getsockopt(l->connecting, SOL_SOCKET, SO_ERROR, &e, &n) < 0 || e)
        return rp_fail(err, RP_UNAVAILABLE, "%s", strerror(e ? e : errno));
    set_option(l->connecting, IPPROTO_TCP, TCP_NODELAY, 1);
    l->greeting = rp_alloc(sizeof *l->greeting);
    if (rp_greet_start(l->greeting, &m->greet, rp_fd_take(&l->connecting), 1, l->rank,
                       m->host[l->rank] == m->host[m->opts.rank], err) < 0)
        return -1;
    return 1;
}

static int step_outgoing(struct opening *o, struct mesh_link *l, struct rp_err *err)
{
    if (!l->greeting && l->connecting < 0) {
        if (rp_now_ns() < l->retry_at)
            return 0;
        if (start_connecting(o->m, l, err) < 0)
            return -1;
    }
    if (!l->greeting) {
        const int r = finish_connecting(o->m, l, err);
        if (r <= 0)
            return r;
    }
    const int r = rp_greet_step(l->greeting, err);
    if (r > 0) {
        take_link(o, l->greeting);
        rp_greet_end(l->greeting);
        free(l->greeting);
        l->greeting = NULL;
    }
    return r;
}

/* ---- waiting ---- */

/* There is one. */
static const struct mesh_link *first_missing(const struct rp_mesh *m)
{
    const struct mesh_link *l = m->links;
    while (!l->wanted || l->open)
        l++;
    return l;
}

static int check_time(struct opening *o, struct rp_err *err)
{
    const struct rp_mesh *m = o->m;
    const struct mesh_link *l = first_missing(m);
    const uint64_t now = rp_now_ns();
    char name[96];
    if (m->comm.waiting && now - o->called_ns >= CALL_NS) {
        o->called_ns = now;
        if (m->comm.waiting(m->comm.waiting_arg, l->rank) != 0)
            return rp_fail(err, RP_INTERRUPTED, "interrupted while connecting to %s", rp_mesh_name(m, l->rank, name));
    }
    if ((double)(now - o->start_ns) <= m->opts.open_s * 1e9)
        return 0;
    const char *refused = m->stats.refused ? o->refused.msg : "";
    if (m->opts.lost)
        *m->opts.lost = l->rank;
    rp_mesh_name(m, l->rank, name);
    if (l->rank > m->opts.rank)
        return rp_fail(
            err, RP_UNAVAILABLE,
            "%s did not connect to rank %d within %.1f s (%d of %d ranks missing; strangers refused: %d%s%s)", name,
            m->opts.rank, m->opts.open_s, o->missing, m->world, m->stats.refused, *refused ? ", the last one: " : "",
            refused);
    return rp_fail(err, RP_UNAVAILABLE, "rank %d cannot connect to %s within %.1f s: %s (%d of %d ranks missing)",
                   m->opts.rank, name, m->opts.open_s, *l->last.msg ? l->last.msg : "no answer", o->missing, m->world);
}

static void wait_for_sockets(struct opening *o)
{
    const struct rp_mesh *m = o->m;
    nfds_t n = 0;
    int ms = POLL_MS;
    o->polled[n++] = (struct pollfd){.fd = o->listener, .events = POLLIN};
    for (int i = 0; i < o->incoming_n; i++)
        o->polled[n++] = (struct pollfd){.fd = rp_greet_fd(o->incoming[i].greeting),
                                         .events = rp_greet_events(o->incoming[i].greeting)};
    for (int i = 0; i < m->opts.rank; i++) {
        const struct mesh_link *l = &m->links[i];
        if (l->greeting)
            o->polled[n++] = (struct pollfd){.fd = rp_greet_fd(l->greeting), .events = rp_greet_events(l->greeting)};
        else if (l->connecting >= 0)
            o->polled[n++] = (struct pollfd){.fd = l->connecting, .events = POLLOUT};
        else if (l->wanted && !l->open)
            ms = (int)(RETRY_NS / 1000000);
    }
    (void)poll(o->polled, n, ms);
}

static int connect_all(struct opening *o, struct rp_err *err)
{
    struct rp_mesh *m = o->m;
    while (o->missing) {
        for (int i = 0; i < m->opts.rank; i++) {
            struct rp_err why;
            struct mesh_link *l = &m->links[i];
            if (!l->wanted || l->open || step_outgoing(o, l, &why) >= 0)
                continue;
            if (why.code == RP_IO) { /* see start_connecting() */
                *err = why;
                err->code = RP_UNAVAILABLE;
                return -1;
            }
            try_again(l, &why);
        }
        accept_all(o);
        step_incoming(o);
        if (!o->missing)
            break;
        if (check_time(o, err) < 0)
            return -1;
        wait_for_sockets(o);
    }
    return 0;
}

/* Enough descriptors for all connections and what else the process opens. */
static void allow_descriptors(int world)
{
    struct rlimit limit;
    const rlim_t need = (rlim_t)world + STRANGERS + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need && limit.rlim_max > limit.rlim_cur) {
        limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* takes opts.listener */
static int open_links(struct rp_mesh *m, struct rp_err *err)
{
    RP_FD listener = m->opts.listener;
    const int most = m->world + STRANGERS;
    RP_FREE struct incoming *incoming = rp_alloc((size_t)most * sizeof *incoming);
    RP_FREE struct pollfd *polled = rp_alloc((size_t)(1 + most + m->world) * sizeof *polled);
    struct opening o = {.m = m, .listener = listener, .incoming = incoming, .incoming_most = most, .polled = polled};
    m->greet.admit = admit_rank;
    m->greet.admit_arg = m;
    allow_descriptors(m->world);
    for (int i = 0; i < m->world; i++)
        o.missing += m->links[i].wanted;
    o.start_ns = o.called_ns = rp_now_ns();
    const int failed = connect_all(&o, err);
    struct rp_err why;
    while (o.incoming_n && fail_slow(&why) < 0)
        drop_incoming(&o, o.incoming_n - 1, &why);
    for (int i = 0; i < m->world; i++) {
        struct mesh_link *l = &m->links[i];
        rp_closep(&l->connecting);
        if (l->greeting)
            rp_greet_end(l->greeting);
        free(l->greeting);
        l->greeting = NULL;
    }
    return failed;
}

/* ---- the whole ---- */

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
    struct rp_mesh_memory memory;
    if (!rp_secret_is_name(o->job, RP_CHANNEL_JOB_MAX)) {
        close(o->listener);
        return rp_fail_null(err, RP_USAGE, "'%s' is not the id of a job: 1 to %d letters, digits, '.', '_' or '-'",
                            o->job, RP_CHANNEL_JOB_MAX);
    }
    struct rp_mesh *m = rp_alloc(sizeof *m);
    m->world = o->layout.data * o->layout.tensor * o->layout.pipeline;
    pthread_mutex_init(&m->lock, NULL);
    copy_options(m, o);
    m->comm = (struct rp_comm){.op = &rp_mesh_ops, .lost = -1, .transport = "sockets", .host = m->host,
                               .waiting = o->waiting, .waiting_arg = o->waiting_arg};
    rp_comm_set_coords(&m->comm, o->rank, o->layout);
    rp_mesh_memory(&memory, o->layout, m->host, o->rank, o->sparse);
    m->spin = ranks_here(m) <= (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->greet = (struct rp_greet_opts){.channel = {.key = m->key, .purpose = "data", .job = m->job, .own = o->rank},
                                      .ring_bytes = (size_t)memory.ring,
                                      .no_rings = o->no_rings};
    m->links = rp_alloc((size_t)m->world * sizeof *m->links);
    for (int i = 0; i < m->world; i++)
        m->links[i] = (struct mesh_link){.rank = i,
                                         .wanted = rp_mesh_connected(o->layout, o->sparse, o->rank, i),
                                         .fd = -1,
                                         .connecting = -1,
                                         .rings = {.fd = -1},
                                         .in = {.next = -1},
                                         .out = {.next = -1}};
    if (open_links(m, err) < 0) {
        rp_mesh_ops.close(&m->comm);
        return NULL;
    }
    return &m->comm;
}
