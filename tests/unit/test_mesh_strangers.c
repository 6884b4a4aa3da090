/* Connections that are not from the ranks of a job: refused and counted, while the ranks still connect. */
#include "base/little_endian.h"
#include "comm/greet.h"
#include "tests/unit/mesh_fixture.h"
#include "tests/unit/tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

static const unsigned char wrong_key[RP_CHANNEL_KEY] = "wrong";

static int connect_to(int port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RP_BUG_IF(fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) != 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Did the other side close within 20 s? What it sends before that is dropped. */
static int is_closed(int fd)
{
    char bytes[4096];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, 20000) > 0)
        if (recv(fd, bytes, sizeof bytes, 0) <= 0)
            return 1;
    return 0;
}

static int admit_all(void *arg, int rank, int one_host, struct rp_err *err)
{
    (void)arg, (void)rank, (void)one_host, (void)err;
    return 1;
}

static struct rp_greet_opts greet_as(int rank, const char *job, const unsigned char *key)
{
    return (struct rp_greet_opts){.channel = {.key = key, .purpose = "data", .job = job, .own = rank},
                                  .ring_bytes = RP_RING_LEAST, .admit = admit_all};
}

/* ---- attackers ---- */


static void attack_bytes(int port, const void *bytes, size_t size)
{
    const int fd = connect_to(port);
    CHECK(size == 0 || send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
    CHECK(is_closed(fd));
    close(fd);
}

/* Speaks the protocol as some rank, perhaps with what it should not have. The result of its greeting. */
static int attack_as(int port, int rank, const char *job, const unsigned char *key, int to, int one_host,
                     struct rp_err *err)
{
    const struct rp_greet_opts o = greet_as(rank, job, key);
    struct rp_greeting g;
    int r = rp_greet_start(&g, &o, connect_to(port), 1, to, one_host, err);
    for (int i = 0; i < 2000 && r == 0; i++) {
        struct pollfd p = {.fd = rp_greet_fd(&g), .events = rp_greet_events(&g)};
        (void)poll(&p, 1, 10);
        r = rp_greet_step(&g, err);
    }
    if (r < 0 && rp_greet_fd(&g) >= 0)
        CHECK(is_closed(rp_greet_fd(&g)));
    rp_greet_end(&g);
    return r;
}

/* What an honest rank 1 or 2 says to rank 0 in its greeting. */
static void record(struct rp_buf *out, int rank, int one_host)
{
    const struct rp_greet_opts from = greet_as(rank, "job-1", mesh_key), to = greet_as(0, "job-1", mesh_key);
    struct rp_greeting c, s;
    struct rp_err err = {0};
    int a[2], b[2], done = 0;
    char bytes[4096];
    RP_BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a) ||
              socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b));
    CHECK(rp_greet_start(&s, &to, b[1], 0, -1, 0, &err) == 0 &&
          rp_greet_start(&c, &from, a[0], 1, 0, one_host, &err) == 0);
    for (int i = 0; i < 100 && done < 2; i++) {
        done = (rp_greet_step(&c, &err) == 1) + (rp_greet_step(&s, &err) == 1);
        ssize_t n = recv(a[1], bytes, sizeof bytes, 0);
        if (n > 0) {
            rp_buf_add(out, bytes, (size_t)n);
            CHECK(send(b[0], bytes, (size_t)n, 0) == n);
        }
        n = recv(b[0], bytes, sizeof bytes, 0);
        if (n > 0)
            CHECK(send(a[1], bytes, (size_t)n, 0) == n);
    }
    CHECK(done == 2 && s.rank == rank, "%s", err.msg);
    rp_greet_end(&c);
    rp_greet_end(&s);
    close(a[1]);
    close(b[0]);
}

/* A rank of another host connects to somebody who has the key, but says something else where a rank says welcome; NULL:
 * who ends the connection. */
static enum rp_code meet(const char *welcome)
{
    const struct rp_greet_opts own = greet_as(1, "job-1", mesh_key), other = greet_as(0, "job-1", mesh_key);
    struct rp_greeting c;
    struct rp_err err = {0}, ignored;
    int s[2], r = 0, said = 0;
    size_t n;
    RP_BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s));
    CHECK(rp_greet_start(&c, &own, s[0], 1, 0, 0, &err) == 0, "%s", err.msg);
    struct rp_channel *server = rp_channel_accept(s[1], &other.channel, NULL, NULL, &ignored);
    for (int i = 0; i < 200 && r == 0; i++) {
        if (!said && rp_channel_handshake(server, &ignored) == 1) {
            said = welcome
                       ? rp_channel_write(server, welcome, RP_GREET_WELCOME, &n, &ignored) == 0 && n == RP_GREET_WELCOME
                       : rp_channel_end(server, &ignored) >= 0;
            CHECK(said, "%s", ignored.msg);
        }
        if (said)
            (void)!rp_channel_flush(server, &ignored);
        r = rp_greet_step(&c, &err);
    }
    rp_greet_end(&c);
    rp_channel_free(server);
    return r < 0 ? err.code : r ? RP_OK : RP_BUG;
}

TEST(welcomes)
{
    CHECK(meet("RPL5\0\0\0\0") == RP_OK, "an honest one");
    CHECK(meet("RPL6\0\0\0\0") == RP_MALFORMED && meet("RPL5\0\0\0\1") == RP_MALFORMED, "others");
    CHECK(meet(NULL) == RP_UNAVAILABLE, "none");
}

/* A listener to whom nobody says anything. */
TEST(connections_that_end_without_a_byte)
{
    const struct rp_greet_opts own = greet_as(0, "job-1", mesh_key);
    struct rp_greeting g;
    struct rp_err err = {0};
    int s[2];
    RP_BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s));
    CHECK(rp_greet_start(&g, &own, s[0], 0, -1, 0, &err) == 0 && rp_greet_step(&g, &err) == 0, "%s", err.msg);
    close(s[1]);
    CHECK(rp_greet_step(&g, &err) < 0 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    rp_greet_end(&g);
}

static int run_barrier(struct rp_comm *c, void *arg, struct rp_err *err)
{
    (void)arg;
    return rp_comm_barrier(c, RP_GROUP_WORLD, err);
}

/* waiting() of rank 1: it waits for rank 2 once rank 0 has welcomed it. */
static int note_welcome(void *arg, int rank)
{
    if (rank == 2)
        *(_Atomic int *)arg = 1;
    return 0;
}

/* Ranks 0 and 1 on one host, rank 2 on another one. */
TEST(strangers)
{
    static const int host[3] = {0, 0, 1};
    RP_BUF local = {0}, remote = {0};
    struct rp_err err = {0};
    int strangers = 0;
    record(&local, 1, 1);
    record(&remote, 2, 0);
    CHECK(local.size == RP_GREET_HELLO + RP_GREET_PROOF && remote.size > 200);

    struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, host);
    w->run = run_barrier;
    for (int i = 0; i < 3; i++)
        w->ranks[i].opts.greet_s = 1;
    mesh_rank_start(&w->ranks[0]);
    const int port = w->peers[0].port;

    const struct {
        const void *bytes;
        size_t size;
    } texts[] = {
        {"GET / HTTP/1.0\r\n\r\n", 18},
        {"", 0}, {"RPL1", 4}, {"\x16\x03\x01", 3}, {"\x16\x03\x01\x40\x00", 5}, {local.data, local.size},
        {remote.data, remote.size}, {local.data, RP_GREET_HELLO}, {"RPL3", 4},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++, strangers++)
        attack_bytes(port, texts[i].bytes, texts[i].size);

    const struct {
        const char *name, *job;
        const unsigned char *key;
        int rank, to, one_host;
    } greetings[] = {
        {"key", "job-1", wrong_key, 1, 0, 1},          {"key over TLS", "job-1", wrong_key, 2, 0, 0},
        {"job", "job-2", mesh_key, 1, 0, 1},           {"job over TLS", "job-2", mesh_key, 2, 0, 0},
        {"host", "job-1", mesh_key, 2, 0, 1},          {"host over TLS", "job-1", mesh_key, 1, 0, 0},
        {"recipient", "job-1", mesh_key, 1, 2, 1},     {"rank", "job-1", mesh_key, 7, 0, 1},
        {"rank over TLS", "job-1", mesh_key, 3, 0, 0}, {"itself", "job-1", mesh_key, 0, 0, 1},
        {"no rank", "job-1", mesh_key, -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++, strangers++)
        CHECK(attack_as(port, greetings[i].rank, greetings[i].job, greetings[i].key, greetings[i].to,
                        greetings[i].one_host, &err) == -1,
              "wrong %s", greetings[i].name);

    _Atomic int welcome = 0;
    w->ranks[1].opts.waiting = note_welcome;
    w->ranks[1].opts.waiting_arg = (void *)&welcome;
    mesh_rank_start(&w->ranks[1]);
    while (!welcome)
        usleep(1000);
    for (int i = 0; i < 2; i++, strangers++) /* a second rank 1, which has the key */
        CHECK(attack_as(port, 1, "job-1", mesh_key, 0, !i, &err) == -1);
    mesh_rank_start(&w->ranks[2]);
    for (int i = 0; i < 3; i++)
        pthread_join(w->ranks[i].thread, NULL);
    for (int i = 0; i < 3; i++)
        CHECK(w->ranks[i].result == 0, "rank %d: %s", i, w->ranks[i].err.msg);
    CHECK(w->ranks[0].stats.refused == strangers, "%d, not %d", w->ranks[0].stats.refused, strangers);
    CHECK(w->ranks[0].stats.shared_memory == 1 && w->ranks[0].stats.tls == 1);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(connect(fd, (const struct sockaddr *)&to, sizeof to) != 0); /* nothing listens any more */
    close(fd);
    free(w);
}

/* More connections that say nothing than are kept. */
TEST(flood)
{
    enum { FLOOD = 300 };
    int fd[FLOOD];
    static const int host[2] = {0, 1};
    for (int apart = 0; apart < 2; apart++) {
        struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, apart ? host : NULL);
        w->run = run_barrier;
        mesh_rank_start(&w->ranks[0]);
        for (int i = 0; i < FLOOD; i++)
            fd[i] = connect_to(w->peers[0].port);
        mesh_rank_start(&w->ranks[1]);
        for (int i = 0; i < 2; i++)
            pthread_join(w->ranks[i].thread, NULL);
        CHECK(w->ranks[0].result == 0 && w->ranks[1].result == 0 && w->ranks[1].open_s < 8, "%s", w->ranks[1].err.msg);
        CHECK(w->ranks[0].stats.refused == FLOOD, "%d", w->ranks[0].stats.refused);
        for (int i = 0; i < FLOOD; i++)
            close(fd[i]);
        free(w);
    }
}

/* Who listens where rank 0 should be does not have the key. */
struct impostor {
    int listener, served, one_host;
    _Atomic int stop;
};

static void *impostor_thread(void *arg)
{
    struct impostor *im = arg;
    const struct rp_greet_opts o = greet_as(0, "job-1", wrong_key);
    while (!im->stop) {
        struct pollfd p = {.fd = im->listener, .events = POLLIN};
        struct rp_greeting g;
        struct rp_err err;
        if (poll(&p, 1, 20) <= 0)
            continue;
        const int fd = accept4(im->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int r = rp_greet_start(&g, &o, fd, 0, -1, 0, &err);
        for (int i = 0; i < 100 && r == 0; i++) {
            usleep(1000);
            r = rp_greet_step(&g, &err);
        }
        CHECK(r != 1);
        im->served++;
        rp_greet_end(&g);
    }
    return NULL;
}

TEST(impostor)
{
    static const int host[2] = {0, 1};
    for (int apart = 0; apart < 2; apart++) {
        struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, apart ? host : NULL);
        struct impostor im = {.listener = w->ranks[0].opts.listener};
        pthread_t thread;
        RP_BUG_IF(pthread_create(&thread, NULL, impostor_thread, &im) != 0);
        w->ranks[1].opts.open_s = 1.5;
        mesh_rank_start(&w->ranks[1]);
        pthread_join(w->ranks[1].thread, NULL);
        im.stop = 1;
        pthread_join(thread, NULL);
        const struct rp_err *e = &w->ranks[1].err;
        CHECK(w->ranks[1].result < 0 && e->code == RP_UNAVAILABLE && strstr(e->msg, "rank 0 ("), "%s", e->msg);
        CHECK(im.served > 1, "%d", im.served); /* it tried again */
        close(im.listener);
        free(w);
    }
}

/* ---- shared memory ---- */

/* Is it the id of a thread of this process? /proc has the process's files under each of them, and the sanitizers start
 * threads. */
static int is_own_thread(uint64_t id)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%llu", (unsigned long long)id);
    return access(path, F_OK) == 0;
}

TEST(offers)
{
    struct rp_err err = {0};
    struct rp_rings a, b;
    unsigned char offer[RP_RING_OFFER], bad[RP_RING_OFFER];
    for (int kind = RP_RING_MEMFD; kind <= RP_RING_FILE; kind++) {
        CHECK(rp_rings_create(&a, (enum rp_ring_kind)kind, 8192, offer, &err) == 0, "%s", err.msg);
        for (size_t i = 0; i < RP_RING_OFFER; i++) {
            memcpy(bad, offer, sizeof bad);
            bad[i] ^= 1;
            const int r = rp_rings_join(&b, bad, &err);
            const int ignored = (i >= 12 && i < 16) || i >= 40 || (kind == RP_RING_FILE && i >= 4 && i < 12);
            const int same = i >= 4 && i < 8 && is_own_thread(rp_get_le(bad + 4, 4));
            CHECK((r == 0) == (ignored || same), "kind %d, byte %zu", kind, i);
            if (r == 0)
                rp_rings_close(&b);
            else
                CHECK(err.code == RP_UNAVAILABLE || err.code == RP_MALFORMED);
        }
        CHECK(rp_rings_join(&b, offer, &err) == 0, "%s", err.msg);
        rp_rings_settle(&a);
        struct rp_rings late;
        CHECK(rp_rings_join(&late, offer, &err) < 0 && err.code == RP_UNAVAILABLE); /* no name is left */

        unsigned char sent[30000], got[30000];
        size_t out = 0, in = 0, piece = 1;
        for (size_t i = 0; i < sizeof sent; i++)
            sent[i] = (unsigned char)(i * 7 + (i >> 8));
        while (in < sizeof sent) {
            piece = piece * 5 % 4099 + 1;
            out += rp_ring_write(&a.out, sent + out, piece < sizeof sent - out ? piece : sizeof sent - out);
            in += rp_ring_read(&b.in, got + in, piece / 2 + 1 < sizeof sent - in ? piece / 2 + 1 : sizeof sent - in);
            CHECK(!rp_ring_broken(&a.out) && !rp_ring_broken(&b.in));
        }
        CHECK(memcmp(sent, got, sizeof sent) == 0);
        rp_ring_wait_bytes(&a.in);
        CHECK(rp_ring_write(&b.out, "x", 1) == 1 && rp_ring_wanted(&b.out, 1) && !rp_ring_wanted(&b.out, 1));
        memset(b.map, 0xff, 4096); /* a peer that writes anything */
        CHECK(rp_ring_broken(&a.in) && rp_ring_broken(&a.out));
        CHECK(rp_ring_write(&a.out, sent, 100) == 0 && rp_ring_read(&a.in, got, 100) == 0);
        rp_rings_close(&a);
        rp_rings_close(&b);
    }
}
