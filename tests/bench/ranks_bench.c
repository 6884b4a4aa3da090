/* How fast ranks exchange bytes on this machine: bandwidth through shared memory and over TLS, against memcpy of as many bytes at the same
 * time; latency of a barrier; time to connect.
 *
 *     ranks_bench MIB REPEATS
 *
 * Each rank is a process. Two ranks send each other MIB MiB at once; then both copy as much in memory, at once too, and so on in turns. A
 * barrier is the median of many. Medians over repeats; one line of `name value unit` each. */
#include "base/buf.h"
#include "base/clock.h"
#include "comm/channel.h"
#include "comm/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64
#define REPEATS 101
#define BARRIERS 500

struct result {
    double exchange_cpu_s[2], open_s, barrier_us[BARRIERS], exchange_s[REPEATS], copy_s[REPEATS];
};

static size_t bytes;
static int repeats;
static struct result *result; /* [MOST], shared by all processes */

static double now_s(void)
{
    return (double)rp_now_ns() * 1e-9;
}

/* Of the user, and of the kernel. */
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

static void exchange_and_copy(struct rp_comm *c, struct result *r)
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
    int fd[MOST];
    memset(result, 0, MOST * sizeof *result);
    for (int i = 0; i < n; i++) {
        peers[i] = (struct rp_mesh_peer){.address = "127.0.0.1", .host = apart ? i : 0};
        fd[i] = rp_mesh_listen("127.0.0.1", 0, &peers[i].port, &err);
        must(fd[i] >= 0, &err);
    }
    for (int i = 0; i < n; i++) {
        if (fork() != 0)
            continue;
        const double start = now_s();
        const struct rp_mesh_opts o = {.rank = i, .layout = {n, 1, 1}, .ranks = peers, .key = key, .job = "bench", .listener = fd[i]};
        for (int k = 0; k < n; k++)
            if (k != i)
                close(fd[k]);
        struct rp_comm *c = rp_mesh_open(&o, &err);
        must(c != NULL, &err);
        result[i].open_s = now_s() - start;
        barriers(c, &result[i]);
        if (with_bytes)
            exchange_and_copy(c, &result[i]);
        c->op->close(c);
        _exit(0);
    }
    for (int i = 0, status; i < n; i++) {
        close(fd[i]);
        if (wait(&status) < 0 || status != 0)
            exit(1);
    }
}

static void report_bytes(const char *how)
{
    const double gb = 2 * (double)bytes * 1e-9; /* of both directions */
    const double exchange = median(result[0].exchange_s, repeats), copy = median(result[0].copy_s, repeats);
    printf("%-28s %8.3f GB/s   memcpy of the same bytes %8.3f GB/s   ratio %.2f   processor time %.2f + %.2f s/GB\n", how, gb / exchange,
           gb / copy, copy / exchange, 2 * result[0].exchange_cpu_s[0] / gb, 2 * result[0].exchange_cpu_s[1] / gb);
}

int main(int argc, char **argv)
{
    bytes = argc == 3 ? (size_t)atol(argv[1]) << 20 : 0;
    repeats = argc == 3 ? atoi(argv[2]) : 0;
    if (bytes < 1 || repeats < 1 || repeats > REPEATS) {
        fprintf(stderr, "usage: ranks_bench MIB REPEATS\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    result = mmap(NULL, MOST * sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_ranks(2, 0, 1);
    report_bytes("2 ranks, shared memory");
    run_ranks(2, 1, 1);
    report_bytes("2 ranks, TLS over loopback");
    for (int apart = 0; apart < 2; apart++)
        for (int n = 2; n <= 32; n *= 4) {
            double slowest = 0;
            run_ranks(n, apart, 0);
            for (int i = 0; i < n; i++)
                slowest = result[i].open_s > slowest ? result[i].open_s : slowest;
            printf("%2d ranks, %-18s %8.1f us a barrier   %8.1f ms to connect\n", n, apart ? "TLS over loopback" : "shared memory",
                   median(result[0].barrier_us, BARRIERS), slowest * 1e3);
        }
    return 0;
}
