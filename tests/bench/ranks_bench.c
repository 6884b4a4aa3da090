/* How fast ranks exchange bytes on this machine: bandwidth through shared memory and over TLS, against memcpy of as
 * many bytes at the same time, TLS also against plain TCP; latency of a barrier; time to connect.
 *
 *     ranks_bench MIB REPEATS [NAMESPACE ADDRESS NAMESPACE ADDRESS]
 *
 * Each rank is a process. Two ranks send each other MIB MiB at once; then both copy as much in memory, at once too,
 * then send it by TCP without encryption, and so on in turns. With two network namespaces (of `ip netns`) the ranks
 * apart are in these, at their addresses, instead of on loopback. A barrier is the median of many. Medians over
 * repeats; one line of `name value unit` each. */
#include "base/buf.h"
#include "base/clock.h"
#include "comm/channel.h"
#include "comm/mesh.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64
#define REPEATS 101
#define BARRIERS 500

struct result {
    double exchange_cpu_s[2], open_s, barrier_us[BARRIERS], exchange_s[REPEATS], copy_s[REPEATS], tcp_s[REPEATS];
};

static const char *space[2], *address[2]; /* of ranks that are apart; NULL: here, on loopback */

static size_t bytes;
static int repeats;
static struct result *result; /* [MOST], shared by all processes */

static double now_s(void)
{
    return (double)rp_now_ns() * 1e-9;
}

/* Processor seconds in user space, and in the kernel. */
static void cpu_s(double out[2])
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    out[0] = (double)used.ru_utime.tv_sec + 1e-6 * (double)used.ru_utime.tv_usec;
    out[1] = (double)used.ru_stime.tv_sec + 1e-6 * (double)used.ru_stime.tv_usec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void must(int good, const struct rp_err *err)
{
    if (!good) {
        fprintf(stderr, "ranks_bench: %s\n", err->msg);
        _exit(1);
    }
}

static void enter_namespace(int i)
{
    char path[256];
    if (!space[i])
        return;
    snprintf(path, sizeof path, "/run/netns/%s", space[i]);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0) {
        perror(path);
        _exit(1);
    }
    close(fd);
}

/* A connection without encryption between ranks 0 and 1; listener: of rank 1. */
static int connect_plainly(int rank, int listener, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct pollfd asked = {.fd = listener, .events = POLLIN}; /* which does not block */
    if (rank == 1)
        return poll(&asked, 1, 10000) == 1 ? accept(listener, NULL, NULL) : -1;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, address[1] ? address[1] : "127.0.0.1", &to.sin_addr);
    return connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ? -1 : fd;
}

/* Both directions at once. */
static int exchange_plainly(int fd, char *in, const char *out)
{
    size_t got = 0, sent = 0;
    while (got < bytes || sent < bytes) {
        struct pollfd p = {.fd = fd, .events = (short)((got < bytes ? POLLIN : 0) | (sent < bytes ? POLLOUT : 0))};
        if (poll(&p, 1, -1) < 0)
            return -1;
        const ssize_t n = p.revents & POLLIN ? recv(fd, in + got, bytes - got, MSG_DONTWAIT) : 0;
        const ssize_t k =
            p.revents & POLLOUT && sent < bytes ? send(fd, out + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if ((n <= 0 && p.revents & POLLIN) || p.revents & (POLLERR | POLLNVAL))
            return -1;
        got += (size_t)n;
        sent += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

/* plain: a connection without encryption; -1: none */
static void exchange_and_copy(struct rp_comm *c, struct result *r, int plain)
{
    struct rp_err err = {0};
    const int peer = !c->rank[RP_GROUP_WORLD];
    char *in = rp_alloc(bytes), *out = rp_alloc(bytes);
    const struct rp_transfer t[] = {{peer, 0, in, bytes}, {peer, 1, out, bytes}};
    memset(out, 1 + peer, bytes);
    memset(in, 9, bytes);
    for (int i = 0; i <= repeats; i++) { /* the first one is not counted */
        double start, before[2], after[2];
        must(rp_comm_barrier(c, RP_GROUP_WORLD, &err) == 0, &err);
        cpu_s(before);
        start = now_s();
        must(rp_comm_exchange(c, RP_GROUP_WORLD, t, 2, &err) == 0, &err);
        if (i)
            r->exchange_s[i - 1] = now_s() - start;
        cpu_s(after);
        for (int k = 0; k < 2 && i; k++)
            r->exchange_cpu_s[k] += (after[k] - before[k]) / repeats;
        must(in[bytes - 1] == 2 - peer, &err);
        must(rp_comm_barrier(c, RP_GROUP_WORLD, &err) == 0, &err);
        start = now_s();
        memcpy(in, out, bytes);
        if (i)
            r->copy_s[i - 1] = now_s() - start;
        if (plain < 0)
            continue;
        must(rp_comm_barrier(c, RP_GROUP_WORLD, &err) == 0, &err);
        start = now_s();
        snprintf(err.msg, sizeof err.msg, "the plain connection ended");
        must(exchange_plainly(plain, in, out) == 0, &err);
        if (i)
            r->tcp_s[i - 1] = now_s() - start;
    }
    free(in);
    free(out);
}

static void barriers(struct rp_comm *c, struct result *r)
{
    struct rp_err err = {0};
    for (int i = 0; i < BARRIERS; i++) {
        const double start = now_s();
        must(rp_comm_barrier(c, RP_GROUP_WORLD, &err) == 0, &err);
        r->barrier_us[i] = (now_s() - start) * 1e6;
    }
}

/* Ranks as processes, all of one host or each of its own; results in result[]. */
static void run_ranks(int n, int apart, int with_bytes)
{
    static const unsigned char key[RP_CHANNEL_KEY] = "a key for measuring";
    struct rp_mesh_peer peers[MOST];
    struct rp_err err = {0};
    int fd[MOST], listener = -1, port = 0, here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    memset(result, 0, MOST * sizeof *result);
    for (int i = 0; i < n; i++) {
        const char *at = apart && n == 2 && address[i] ? address[i] : "127.0.0.1";
        if (apart && n == 2)
            enter_namespace(i);
        peers[i] = (struct rp_mesh_peer){.address = at, .host = apart ? i : 0};
        fd[i] = rp_mesh_listen(at, 0, &peers[i].port, &err);
        must(fd[i] >= 0, &err);
        if (apart && i == 1)
            listener = rp_mesh_listen(at, 0, &port, &err);
        must(!apart || i != 1 || listener >= 0, &err);
    }
    if (apart && space[0] && setns(here, CLONE_NEWNET) < 0)
        exit(1);
    close(here);
    for (int i = 0; i < n; i++) {
        if (fork() != 0)
            continue;
        if (apart && n == 2)
            enter_namespace(i);
        const double start = now_s();
        const struct rp_mesh_opts o = {
            .rank = i, .layout = {n, 1, 1}, .ranks = peers, .key = key, .job = "bench", .listener = fd[i]};
        for (int k = 0; k < n; k++)
            if (k != i)
                close(fd[k]);
        struct rp_comm *c = rp_mesh_open(&o, &err);
        must(c != NULL, &err);
        result[i].open_s = now_s() - start;
        barriers(c, &result[i]);
        const int plain = with_bytes && apart ? connect_plainly(i, listener, port) : -1;
        snprintf(err.msg, sizeof err.msg, "no plain connection");
        must(plain >= 0 || !with_bytes || !apart, &err);
        if (with_bytes)
            exchange_and_copy(c, &result[i], plain);
        c->op->close(c);
        _exit(0);
    }
    if (listener >= 0)
        close(listener);
    for (int i = 0, status; i < n; i++) {
        close(fd[i]);
        if (wait(&status) < 0 || status != 0)
            exit(1);
    }
}

static void report_bytes(const char *how, int apart)
{
    const double gb = 2 * (double)bytes * 1e-9; /* of both directions */
    const double exchange = median(result[0].exchange_s, repeats), copy = median(result[0].copy_s, repeats);
    printf("%-28s %8.3f GB/s   memcpy of the same bytes %8.3f GB/s   ratio %.2f   processor time %.2f + %.2f s/GB\n",
           how, gb / exchange, gb / copy, copy / exchange, 2 * result[0].exchange_cpu_s[0] / gb,
           2 * result[0].exchange_cpu_s[1] / gb);
    if (!apart)
        return;
    const double tcp = median(result[0].tcp_s, repeats);
    printf("%-28s %8.3f GB/s   TLS by plain TCP %.2f\n", space[0] ? "  TCP between namespaces" : "  TCP over loopback",
           gb / tcp, tcp / exchange);
}

int main(int argc, char **argv)
{
    const int given = argc == 3 || argc == 7;
    bytes = given ? (size_t)atol(argv[1]) << 20 : 0;
    repeats = given ? atoi(argv[2]) : 0;
    if (bytes < 1 || repeats < 1 || repeats > REPEATS) {
        fprintf(stderr, "usage: ranks_bench MIB REPEATS [NAMESPACE ADDRESS NAMESPACE ADDRESS]\n");
        return 2;
    }
    for (int i = 0; i < 2 && argc == 7; i++) {
        space[i] = argv[3 + 2 * i];
        address[i] = argv[4 + 2 * i];
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    result = mmap(NULL, MOST * sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_ranks(2, 0, 1);
    report_bytes("2 ranks, shared memory", 0);
    run_ranks(2, 1, 1);
    report_bytes(space[0] ? "2 ranks, TLS between namespaces" : "2 ranks, TLS over loopback", 1);
    if (argc == 7)
        return 0;
    for (int apart = 0; apart < 2; apart++)
        for (int n = 2; n <= 32; n *= 4) {
            double slowest = 0;
            run_ranks(n, apart, 0);
            for (int i = 0; i < n; i++)
                slowest = result[i].open_s > slowest ? result[i].open_s : slowest;
            printf("%2d ranks, %-18s %8.1f us a barrier   %8.1f ms to connect\n", n,
                   apart ? "TLS over loopback" : "shared memory", median(result[0].barrier_us, BARRIERS),
                   slowest * 1e3);
        }
    return 0;
}
