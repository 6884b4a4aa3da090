/* Ranks that are connected by sockets: exchanges against what they should give, and what goes wrong in them. */
#include "tests/unit/mesh_fixture.h"
#include "tests/unit/mesh_messages.h"
#include "tests/unit/tap.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

/* ---- random exchanges ---- */

static int run_plan(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const struct plan *p = arg;
    for (int i = 0; i < p->rounds; i++) {
        const enum rp_group g = (enum rp_group)(1 + mix(p->seed, (unsigned)i) % (RP_GROUPS - 1));
        if (plan_round(c, p, i, g, err) < 0 || rp_comm_barrier(c, i % 2 ? RP_GROUP_WORLD : RP_GROUP_DATA, err) < 0)
            return -1;
    }
    return c->count.wait_ns <= c->count.exchange_ns ? 0 : rp_fail(err, RP_BUG, "waited longer than it exchanged");
}

static void check_world(struct mesh_world *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        CHECK(w->ranks[i].result == 0, "%s: rank %d: %s", name, i, w->ranks[i].err.msg);
}

/* hosts: ranks of one host in a row; 0: all of one host. */
static void exchange_at_random(struct rp_degrees layout, int on_host, int sparse, int rounds, size_t most)
{
    int host[MESH_MOST] = {0}, within = 0, between = 0;
    char name[64];
    struct plan plan = {
        .seed = (unsigned)(layout.data * 100 + on_host), .rounds = (rounds + LESS - 1) / LESS, .most = most};
    RP_FORMAT(name, "%dx%dx%d, %d on a host", layout.data, layout.tensor, layout.pipeline, on_host);
    for (int i = 0; i < MESH_MOST; i++)
        host[i] = on_host ? i / on_host : 0;
    struct mesh_world *w = mesh_world_new(layout, host);
    for (int i = 0; i < w->n; i++)
        w->ranks[i].opts.sparse = sparse;
    mesh_world_run(w, run_plan, &plan);
    check_world(w, name);
    for (int i = 1; i < w->n; i++)
        if (rp_mesh_connected(layout, sparse, 0, i))
            *(host[i] == host[0] ? &within : &between) += 1;
    CHECK(w->ranks[0].stats.shared_memory == within && w->ranks[0].stats.tls == between &&
              w->ranks[0].stats.refused == 0,
          "%s: %d and %d", name, w->ranks[0].stats.shared_memory, w->ranks[0].stats.tls);
    free(w);
}

TEST(two_ranks)
{
    exchange_at_random((struct rp_degrees){2, 1, 1}, 0, 0, 60, 3000000);
    exchange_at_random((struct rp_degrees){1, 2, 1}, 1, 0, 60, 3000000);
}

TEST(three_ranks)
{
    exchange_at_random((struct rp_degrees){3, 1, 1}, 0, 0, 40, 1000000);
    exchange_at_random((struct rp_degrees){1, 1, 3}, 1, 1, 40, 1000000);
    exchange_at_random((struct rp_degrees){3, 1, 1}, 2, 0, 40, 1000000);
}

TEST(eight_ranks)
{
    exchange_at_random((struct rp_degrees){8, 1, 1}, 0, 0, 20, 300000);
    exchange_at_random((struct rp_degrees){2, 2, 2}, 1, 1, 20, 300000);
    exchange_at_random((struct rp_degrees){4, 2, 1}, 3, 0, 20, 300000);
}

TEST(thirty_two_ranks)
{
    exchange_at_random((struct rp_degrees){32, 1, 1}, 0, 0, 6, 70000);
    exchange_at_random((struct rp_degrees){4, 4, 2}, 1, 1, 6, 70000);
    exchange_at_random((struct rp_degrees){4, 2, 4}, 8, 1, 6, 70000);
}

static int run_collectives(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const int n = c->size[RP_GROUP_WORLD], own = c->rank[RP_GROUP_WORLD];
    int mine = own * own, all[MESH_MOST] = {0};
    (void)arg;
    if (rp_comm_all_gather(c, RP_GROUP_WORLD, all, &mine, sizeof mine, err) < 0 ||
        rp_comm_barrier(c, RP_GROUP_WORLD, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (all[i] != i * i)
            return rp_fail(err, RP_MISMATCH, "piece %d", i);
    return 0;
}

TEST(collectives)
{
    static const int host[5] = {0, 0, 1, 1, 1};
    struct mesh_world *w = mesh_world_new((struct rp_degrees){5, 1, 1}, host);
    mesh_world_run(w, run_collectives, NULL);
    check_world(w, "collectives");
    free(w);
}

/* ---- what is expected to fail ---- */

struct sizes {
    size_t sent, expected;
    enum rp_group group;
};

static int run_sizes(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const struct sizes *s = arg;
    const int own = c->rank[RP_GROUP_DATA];
    RP_FREE char *data = rp_alloc(s->sent + s->expected);
    const struct rp_transfer t = {!own, own == 0, data, own == 0 ? s->sent : s->expected};
    return rp_comm_exchange(c, own == 0 ? s->group : RP_GROUP_DATA, &t, 1, err);
}

static void check_sizes(struct sizes s, const int *host)
{
    char sent[32], expected[32];
    struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, host);
    mesh_world_run(w, run_sizes, &s);
    const struct rp_err *e = &w->ranks[1].err;
    CHECK(w->ranks[1].result < 0 && e->code == RP_MISMATCH, "%s", e->msg);
    CHECK(strstr(e->msg, "rank 0 ") && strstr(e->msg, "rank 1"), "%s", e->msg);
    if (s.group == RP_GROUP_DATA) {
        CHECK(strstr(e->msg, RP_FORMAT(sent, " %zu ", s.sent)) &&
                  strstr(e->msg, RP_FORMAT(expected, " %zu", s.expected)),
              "%s", e->msg);
        e = &w->ranks[0].err; /* the sender learns of it if it is not done */
        CHECK(s.sent < 1000000 || (w->ranks[0].result < 0 && e->code == RP_MISMATCH && strstr(e->msg, expected)), "%s",
              e->msg);
    }
    free(w);
}

TEST(sizes_differ)
{
    static const int apart[2] = {0, 1};
    for (int k = 0; k < 2; k++) {
        check_sizes((struct sizes){5, 6, RP_GROUP_DATA}, k ? apart : NULL);
        check_sizes((struct sizes){6, 5, RP_GROUP_WORLD}, k ? apart : NULL);
    }
    check_sizes((struct sizes){20000000, 1, RP_GROUP_DATA}, NULL);
}

enum { BIG = (64 << 20) / LESS };

/* Rank 0 sends to rank 1, which is killed in the middle; rank 2 waits for rank 0. */
static int send_big(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const int own = c->rank[RP_GROUP_WORLD];
    RP_FREE char *data = rp_alloc(BIG);
    const struct rp_transfer t = {own == 0, own == 0, data, own == 2 ? 1 : BIG};
    (void)arg;
    const int failed = rp_comm_exchange(c, RP_GROUP_WORLD, &t, 1, err);
    CHECK(!failed || own == 1 || c->lost == 1, "rank %d lost %d", own, c->lost);
    return failed;
}

static void be_killed(struct mesh_rank *r)
{
    struct rp_err err;
    const struct itimerval soon = {.it_value = {.tv_usec = 4000}};
    struct rp_comm *c = rp_mesh_open(&r->opts, &err);
    RP_BUG_IF(!c);
    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_REAL, &soon, NULL);
    (void)!send_big(c, NULL, &err);
    _exit(0); /* the transfer was faster */
}

static void kill_a_rank(const int *host)
{
    struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, host);
    const pid_t pid = fork();
    int status = 0;
    if (pid == 0)
        be_killed(&w->ranks[1]);
    w->run = send_big;
    mesh_rank_start(&w->ranks[0]);
    mesh_rank_start(&w->ranks[2]);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    const uint64_t killed = rp_now_ns();
    pthread_join(w->ranks[0].thread, NULL);
    pthread_join(w->ranks[2].thread, NULL);
    CHECK((double)(rp_now_ns() - killed) < 5e9);
    char name[64];
    RP_FORMAT(name, "rank 1 (127.0.0.1:%d)", w->peers[1].port);
    for (int i = 0; i < 3; i += 2) { /* rank 2 waits for rank 0, which tells it */
        const struct rp_err *e = &w->ranks[i].err;
        CHECK(w->ranks[i].result < 0 && e->code == RP_UNAVAILABLE && strstr(e->msg, name), "rank %d: %s", i, e->msg);
    }
    close(w->ranks[1].opts.listener);
    free(w);
}

TEST(killed_in_a_transfer)
{
    static const int apart[3] = {0, 1, 2};
    kill_a_rank(NULL);
    kill_a_rank(apart);
}

static int run_big(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const int own = c->rank[RP_GROUP_WORLD];
    RP_FREE unsigned char *out = rp_alloc(BIG + 1), *in = rp_alloc(BIG + 1);
    const struct rp_transfer t[] = {{!own, 0, in, BIG + 1}, {!own, 1, out, 0}, {!own, 1, out, BIG + 1}};
    (void)arg;
    mesh_fill(out, BIG + 1, 7);
    if (rp_comm_exchange(c, RP_GROUP_DATA, t, 3, err) < 0)
        return -1;
    return memcmp(in, out, BIG + 1) == 0 ? 0 : rp_fail(err, RP_MISMATCH, "bytes differ");
}

TEST(big_messages)
{
    static const int apart[2] = {0, 1};
    for (int k = 0; k < 2; k++) {
        struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, k ? apart : NULL);
        mesh_world_run(w, run_big, NULL);
        check_world(w, "big");
        free(w);
    }
}

/* Rank 1 is cut off from rank 0 in the middle of a message, or while rank 0 waits for one. */
struct cut {
    int sends;
    _Atomic int here;
};

static int run_cut(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct cut *cut = arg;
    RP_FREE char *data = rp_alloc(BIG);
    const struct rp_transfer t = {1, cut->sends, data, BIG};
    if (rp_comm_barrier(c, RP_GROUP_WORLD, err) < 0)
        return -1;
    cut->here++;
    if (c->rank[RP_GROUP_WORLD] == 0)
        return rp_comm_exchange(c, RP_GROUP_WORLD, &t, 1, err);
    while (cut->here > 0)
        usleep(10000);
    return 0;
}

/* The loopback of a network of its own. */
static int set_loopback(int up)
{
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = (short)(up ? IFF_UP | IFF_RUNNING : 0)};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), failed = ioctl(fd, SIOCSIFFLAGS, &r);
    close(fd);
    return failed;
}

static int cut_off(void)
{
    static const int apart[2] = {0, 1};
    if (unshare(CLONE_NEWNET) != 0 || set_loopback(1) != 0)
        return 77;
    struct mesh_world *w[2];
    struct cut cut[2] = {{.sends = 0}, {.sends = 1}};
    for (int k = 0; k < 2; k++) {
        w[k] = mesh_world_new((struct rp_degrees){2, 1, 1}, apart);
        w[k]->run = run_cut;
        w[k]->arg = &cut[k];
        for (int i = 0; i < 2; i++)
            mesh_rank_start(&w[k]->ranks[i]);
        while (cut[k].here < 2)
            usleep(1000);
    }
    usleep(500000);
    set_loopback(0);
    for (int k = 0; k < 2; k++) {
        pthread_join(w[k]->ranks[0].thread, NULL);
        cut[k].here = -1;
        pthread_join(w[k]->ranks[1].thread, NULL);
        const struct mesh_rank *r = &w[k]->ranks[0];
        CHECK(r->result < 0 && r->err.code == RP_UNAVAILABLE && strstr(r->err.msg, "rank 1 (") && r->run_s > 4 &&
                  r->run_s < 25,
              "%f s: %s", r->run_s, r->err.msg);
        free(w[k]);
    }
    return tap_failures != 0;
}

TEST(cut_off)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(cut_off());
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("may not create a network namespace");
    CHECK(status == 0);
}

static int stop_after_three(void *arg, int rank)
{
    int *calls = arg;
    return rank == 1 && ++*calls >= 3;
}

/* Rank 0 waits for rank 1, which does nothing until rank 0 has given up. */
static int wait_for_one(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const _Atomic int *over = arg;
    char byte = 1;
    const struct rp_transfer t = {1, 0, &byte, 1};
    if (c->rank[RP_GROUP_WORLD] == 0)
        return rp_comm_exchange(c, RP_GROUP_WORLD, &t, 1, err);
    while (!*over)
        usleep(1000);
    return 0;
}

static void give_up(struct mesh_world *w)
{
    _Atomic int over = 0;
    w->run = wait_for_one;
    w->arg = (void *)&over;
    for (int i = 0; i < 2; i++)
        mesh_rank_start(&w->ranks[i]);
    pthread_join(w->ranks[0].thread, NULL);
    over = 1;
    pthread_join(w->ranks[1].thread, NULL);
}

TEST(interrupted_and_silent)
{
    int calls = 0;
    struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, NULL);
    w->ranks[0].opts.waiting = stop_after_three;
    w->ranks[0].opts.waiting_arg = &calls;
    give_up(w);
    CHECK(w->ranks[0].result < 0 && w->ranks[0].err.code == RP_INTERRUPTED && calls == 3, "%s", w->ranks[0].err.msg);
    free(w);

    w = mesh_world_new((struct rp_degrees){2, 1, 1}, NULL);
    w->ranks[0].opts.silence_s = 0.5;
    give_up(w);
    const struct mesh_rank *r = &w->ranks[0];
    CHECK(r->result < 0 && r->err.code == RP_UNAVAILABLE && strstr(r->err.msg, "no byte from rank 1 (") &&
              r->run_s >= 0.5,
          "%f s: %s", r->run_s, r->err.msg);
    free(w);
}

/* ---- opening ---- */

TEST(slow_joiner)
{
    for (int slow = 0; slow < 3; slow += 2) {
        static const int host[3] = {0, 0, 1};
        struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, host);
        w->ranks[slow].delay_ms = 1200;
        mesh_world_run(w, run_collectives, NULL);
        check_world(w, "slow");
        CHECK(w->ranks[1].open_s > 0.5 || slow == 2, "%f", w->ranks[1].open_s); /* its thread may begin late */
        free(w);
    }
}

TEST(missing_rank)
{
    struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, NULL);
    for (int i = 0; i < 3; i++)
        w->ranks[i].opts.open_s = 2; /* ranks 0 and 2 find each other in this time */
    mesh_rank_start(&w->ranks[0]);
    mesh_rank_start(&w->ranks[2]);
    pthread_join(w->ranks[0].thread, NULL);
    pthread_join(w->ranks[2].thread, NULL);
    for (int i = 0; i < 3; i += 2) {
        const struct rp_err *e = &w->ranks[i].err;
        CHECK(w->ranks[i].result < 0 && e->code == RP_UNAVAILABLE && strstr(e->msg, "rank 1 ("), "rank %d: %s", i,
              e->msg);
    }
    close(w->ranks[1].opts.listener);
    free(w);
}

/* Between ranks of one host that cannot share memory, or will not. */
TEST(no_shared_memory)
{
    for (int refusing = 0; refusing < 3; refusing++) {
        struct plan plan = {.seed = 5, .rounds = 10, .most = 500000};
        struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, NULL);
        w->ranks[refusing].opts.no_rings = 1;
        mesh_world_run(w, run_plan, &plan);
        check_world(w, "refused");
        for (int i = 0; i < 3; i++) {
            const struct rp_connections *s = &w->ranks[i].stats;
            CHECK(s->tls == (i == refusing ? 2 : 1) && s->tls_on_host == s->tls && s->shared_memory == 2 - s->tls,
                  "rank %d: %d by TLS", i, s->tls);
        }
        free(w);
    }
}

/* A rank in a container of its own: other process ids, and perhaps another /dev/shm. */
static void contain_a_rank(int own_shm, int *rings, int *refused)
{
    struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            (own_shm && mount("none", "/dev/shm", "tmpfs", 0, "size=1m") != 0))
            _exit(77);
        const pid_t inner = fork(); /* the first one in the new namespace */
        if (inner == 0) {
            struct rp_err err;
            struct rp_comm *c = rp_mesh_open(&w->ranks[1].opts, &err);
            _exit(!c || run_collectives(c, NULL, &err) < 0);
        }
        int status = 1;
        waitpid(inner, &status, 0);
        _exit(status != 0);
    }
    int status = 0;
    w->ranks[0].opts.open_s = 20;
    usleep(300000);
    if (waitpid(pid, &status, WNOHANG) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        close(w->ranks[0].opts.listener);
        *rings = -1;
    } else {
        w->run = run_collectives;
        mesh_rank_start(&w->ranks[0]);
        pthread_join(w->ranks[0].thread, NULL);
        waitpid(pid, &status, 0);
        CHECK(w->ranks[0].result == 0 && status == 0, "%s", w->ranks[0].err.msg);
        *rings = w->ranks[0].stats.shared_memory;
        *refused = w->ranks[0].stats.tls_on_host;
    }
    close(w->ranks[1].opts.listener);
    free(w);
}

TEST(containers)
{
    int rings = 0, refused = 0;
    contain_a_rank(0, &rings, &refused);
    if (rings < 0)
        SKIP("may not create namespaces");
    CHECK(rings == 1 && refused == 0);
    contain_a_rank(1, &rings, &refused);
    CHECK(rings == 0 && refused == 1);
}

TEST(many_open_soon)
{
    struct mesh_world *w = mesh_world_new((struct rp_degrees){32, 1, 1}, NULL);
    mesh_world_run(w, run_collectives, NULL);
    check_world(w, "32");
    double slowest = 0;
    for (int i = 0; i < w->n; i++)
        slowest = w->ranks[i].open_s > slowest ? w->ranks[i].open_s : slowest;
    CHECK(slowest < 20, "%f", slowest);
    free(w);
}

/* ---- plans ---- */

TEST(memory)
{
    static const struct rp_degrees layouts[] = {{2, 1, 1}, {32, 1, 1}, {4, 4, 2}, {64, 1, 1}, {8, 8, 1}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const int world = layouts[i].data * layouts[i].tensor * layouts[i].pipeline;
        for (int on_host = 1; on_host <= world; on_host *= 2) {
            int host[MESH_MOST], sum = 0;
            for (int k = 0; k < world; k++)
                host[k] = k / on_host;
            struct rp_mesh_memory m;
            uint64_t created = 0;
            for (int k = 0; k < world; k++) {
                rp_mesh_memory(&m, layouts[i], host, k, 0);
                created += host[k] == 0 ? m.created : 0;
                sum += m.host > (64u << 20) + 4096u * 2016;
            }
            CHECK(sum == 0 && created == m.host, "%d ranks, %d on a host: %llu", world, on_host,
                  (unsigned long long)m.host);
            CHECK((m.host == 0) == (on_host == 1) && (m.buffers == 0) == (on_host == world));
        }
    }
}

TEST(connections)
{
    const struct rp_degrees l = {4, 4, 2};
    int links = 0;
    for (int a = 0; a < 32; a++)
        for (int b = 0; b < 32; b++) {
            CHECK(rp_mesh_connected(l, 1, a, b) == rp_mesh_connected(l, 1, b, a) &&
                  rp_mesh_connected(l, 0, a, b) == (a != b));
            links += rp_mesh_connected(l, 1, a, b);
        }
    CHECK(links < 32 * 31 / 2, "%d", links);
}

TEST(one_rank_and_bad_job)
{
    struct mesh_world *w = mesh_world_new((struct rp_degrees){1, 1, 1}, NULL);
    mesh_world_run(w, run_collectives, NULL);
    check_world(w, "alone");
    free(w);
    w = mesh_world_new((struct rp_degrees){1, 1, 1}, NULL);
    w->ranks[0].opts.job = "not a name";
    mesh_world_run(w, NULL, NULL);
    CHECK(w->ranks[0].result < 0 && w->ranks[0].err.code == RP_USAGE);
    free(w);
}

TEST(ipv6)
{
    struct rp_err err = {0};
    static const int host[3] = {0, 0, 1};
    struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, host);
    int other = -1;
    for (int i = 0; i < 3; i++) {
        close(w->ranks[i].opts.listener);
        w->peers[i].address = "::1";
        w->ranks[i].opts.listener = other = rp_mesh_listen("::1", 0, &w->peers[i].port, &err);
    }
    if (other >= 0) {
        mesh_world_run(w, run_collectives, NULL);
        check_world(w, "ipv6");
    }
    free(w);
    if (other < 0)
        SKIP("no IPv6 here");
}

TEST(addresses)
{
    struct rp_err err = {0};
    int port;
    CHECK(rp_mesh_listen("not an address", 0, &port, &err) < 0 && err.code == RP_USAGE);
    const int fd = rp_mesh_listen(NULL, 0, &port, &err), again = rp_mesh_listen(NULL, port, &port, &err);
    CHECK(fd >= 0 && port > 0 && again < 0 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    close(fd);
}
