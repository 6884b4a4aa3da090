/* Ranks on GPUs that exchange through NCCL, each a process with the tests' driver and the tests' libnccl
 * (tests/fake/nccl.c): bytes, groups, the order of streams, and every way in which it fails. timeout: 240 */
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/library.h"
#include "gpu/nccl_comm.h"
#include "gpu/nccl_library.h"
#include "worker/measure_exchange.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 8
#define LISTEN_S 30.0

struct outcome {
    int ended; /* it returned, and has written the rest */
    enum rp_code code;
    int lost;
    char msg[512], listen[1024];
    int listens, stopped;
};
struct trial {
    struct rp_degrees layout;
    double silence_s; /* 0: any time */
    const char *settings; /* NAME=VALUE words of the environment */
    int (*run)(struct rp_comm *c, struct rp_err *err);
    struct outcome rank[MOST];
    int stop; /* waiting ranks are asked to */
    pid_t pid[MOST];
};
static struct trial *now; /* shared by the processes */

/* ---- a rank ---- */

static int load_libraries(struct rp_err *err)
{
    char path[512], *at;
    const char *driver = getenv("RP_SHIM_LIBRARY");
    if (!driver || !dlopen(driver, RTLD_NOW | RTLD_GLOBAL))
        return rp_fail(err, RP_IO, "RP_SHIM_LIBRARY must name the libcuda.so.1 of the tests");
    snprintf(path, sizeof path, "%s", driver);
    for (int i = 0; i < 3 && (at = strrchr(path, '/')); i++)
        *at = 0;
    snprintf(path + strlen(path), sizeof path - strlen(path), "/fake/nccl/libnccl.so.2");
    if (getenv("NO_NCCL") || dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        return 0;
    return rp_fail(err, RP_IO, "%s", dlerror());
}

static int waiting(void *arg, int rank)
{
    (void)rank;
    return ((struct trial *)arg)->stop;
}

static json_t *await_listens(int n)
{
    json_t *ranks = json_array();
    const uint64_t since = rp_now_ns();
    for (int i = 0; i < n; i++) {
        while (!__atomic_load_n(&now->rank[i].listens, __ATOMIC_ACQUIRE) &&
               (double)(rp_now_ns() - since) * 1e-9 < LISTEN_S)
            usleep(1000);
        json_array_append_new(ranks, json_loads(now->rank[i].listen, 0, NULL));
    }
    return json_pack("{s:o}", "ranks", ranks);
}

static int run_rank(int rank, int *lost, struct rp_err *err)
{
    static int host[MOST], gpu[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct rp_rank_of of = {.rank = rank, .degrees = now->layout, .host = host, .gpu = gpu};
    struct rp_comm placed = {.lost = -1};
    struct rp_device_opts o = {.device = getenv("TEST_DEVICE")};
    char device[RP_DEVICE_NUMBER];
    json_t *about = NULL;
    rp_comm_set_coords(&placed, rank, now->layout);
    if (load_libraries(err) < 0 || rp_nccl_ranks.choose(&of, &o, 0, device, err) < 0)
        return -1;
    o.device = *device ? device : o.device;
    struct rp_comm *c = rp_nccl_ranks.prepare(&placed, &o, &about, err);
    if (!c)
        return -1;
    char *text = json_dumps(about, JSON_COMPACT);
    snprintf(now->rank[rank].listen, sizeof now->rank[rank].listen, "%s", text);
    __atomic_store_n(&now->rank[rank].listens, 1, __ATOMIC_RELEASE);
    json_t *peers = await_listens(placed.size[RP_GROUP_WORLD]);
    const struct rp_world_opts w = {
        .listener = -1, .peers = peers, .silence_s = now->silence_s, .waiting = waiting, .waiting_arg = now};
    int failed = rp_nccl_ranks.connect(c, &w, err) < 0 || now->run(c, err) < 0;
    *lost = c->lost;
    c->op->close(c);
    json_decref(about);
    json_decref(peers);
    free(text);
    return failed ? -1 : 0;
}

static void set_all(const char *settings)
{
    char text[512], *save = NULL;
    snprintf(text, sizeof text, "SHIM_DEVICES=8 CUDA_DEVICE_ORDER=PCI_BUS_ID %s", settings ? settings : "");
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        char *value = strchr(one, '=');
        *value++ = 0;
        setenv(one, value, 1);
    }
}

static void be_rank(int rank)
{
    struct rp_err err = {0};
    struct outcome *o = &now->rank[rank];
    int lost = -1;
    set_all(now->settings);
    int failed = run_rank(rank, &lost, &err) < 0;
    o->code = failed ? err.code : RP_OK;
    o->lost = lost;
    snprintf(o->msg, sizeof o->msg, "%s", failed ? err.msg : "");
    __atomic_store_n(&o->ended, 1, __ATOMIC_RELEASE);
    _exit(0);
}

/* ---- the ranks of a trial ---- */

static int world(void)
{
    return now->layout.data * now->layout.tensor * now->layout.pipeline;
}

static void start(struct trial t)
{
    if (!now)
        now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *now = t;
    fflush(stdout);
    for (int i = 0; i < world(); i++) {
        pid_t pid = fork();
        if (pid == 0)
            be_rank(i);
        now->pid[i] = pid;
    }
}

/* Those that are left when `ends` of them have ended, or nobody else does, are killed. */
static int finish(int ends)
{
    int ended = 0;
    const uint64_t since = rp_now_ns();
    while (ended < ends && (double)(rp_now_ns() - since) * 1e-9 < 60) {
        ended = 0;
        for (int i = 0; i < world(); i++)
            ended += __atomic_load_n(&now->rank[i].ended, __ATOMIC_ACQUIRE);
        usleep(2000);
    }
    for (int i = 0; i < world(); i++) {
        if (!now->rank[i].ended)
            kill(now->pid[i], SIGKILL);
        waitpid(now->pid[i], NULL, 0);
    }
    return ended;
}

static void check_all_good(struct trial t, const char *what)
{
    start(t);
    CHECK(finish(world()) == world(), "%s: not all ranks ended", what);
    for (int i = 0; i < world(); i++)
        CHECK(now->rank[i].code == RP_OK, "%s, rank %d: %s", what, i, now->rank[i].msg);
}

/* ---- bytes ---- */

static unsigned char byte_of(int from, int to, int number, size_t at)
{
    return (unsigned char)((size_t)(from * 31 + to * 17 + number * 7) + at * 13 + at / 251);
}

#define KINDS 6

/* Messages of all sizes with every other member, several in one direction, from and to the host. */
static int exchange_sizes(struct rp_comm *c, enum rp_group g, struct rp_err *err)
{
    static const size_t sizes[KINDS] = {1, 0, 4096, (4u << 20) - 1, 4u << 20, (4u << 20) + 3};
    const int own = c->rank[g], n = c->size[g];
    struct rp_transfer t[2 * MOST * KINDS] = {0};
    int k = 0, wrong = 0;
    for (int peer = 0; peer < n; peer++)
        for (int i = 0; i < KINDS && peer != own; i++) {
            unsigned char *in = malloc(sizes[i] + 1), *out = malloc(sizes[i] + 1);
            for (size_t at = 0; at < sizes[i]; at++)
                out[at] = byte_of(own, peer, i, at);
            t[k++] = (struct rp_transfer){peer, 1, out, sizes[i]};
            t[k++] = (struct rp_transfer){peer, 0, in, sizes[i]};
        }
    int failed = rp_comm_exchange(c, g, t, k, err) < 0;
    for (int i = 0; i < k; i++) {
        const unsigned char *data = t[i].data;
        for (size_t at = 0; !t[i].send && !failed && at < t[i].bytes; at++)
            wrong += data[at] != byte_of(t[i].peer, own, i / 2 % KINDS, at);
        free(t[i].data);
    }
    return failed ? -1 : wrong ? rp_fail(err, RP_MISMATCH, "%d bytes are wrong", wrong) : 0;
}

static int exchange_in_groups(struct rp_comm *c, struct rp_err *err)
{
    for (enum rp_group g = RP_GROUP_WORLD; g < RP_GROUPS; g++) {
        int all[MOST], own = c->rank[RP_GROUP_WORLD];
        if (rp_comm_all_gather(c, g, all, &own, sizeof own, err) < 0 || rp_comm_barrier(c, g, err) < 0)
            return -1;
        for (int i = 0; i < c->size[g]; i++)
            if (all[i] != rp_comm_world_rank(c, g, i))
                return rp_fail(err, RP_MISMATCH, "group %d: member %d is rank %d", (int)g, i, all[i]);
    }
    return exchange_sizes(c, RP_GROUP_DATA, err) < 0 || exchange_sizes(c, RP_GROUP_WORLD, err) < 0 ? -1 : 0;
}

TEST(messages_of_the_host_in_every_group)
{
    check_all_good((struct trial){.layout = {2, 2, 1}, .run = exchange_in_groups}, "2x2x1");
    check_all_good((struct trial){.layout = {1, 1, 3}, .run = exchange_in_groups, .settings = "PLAY_NCCL_POLLS=0"},
                   "1x1x3");
    check_all_good(
        (struct trial){.layout = {2, 1, 1}, .run = exchange_in_groups, .settings = "PLAY_NCCL_POLLS=5 SHIM_DEFER=2"},
        "2x1x1");
}

/* Kernels before and after an exchange, with no wait of the host between them. */
static int exchange_between_kernels(struct rp_comm *c, struct rp_err *err)
{
    enum { N = 100000 };
    static float host[N];
    const int own = c->rank[RP_GROUP_WORLD], n = c->size[RP_GROUP_WORLD], to = (own + 1) % n, from = (own + n - 1) % n;
    char number[16];
    snprintf(number, sizeof number, "%d", own);
    const struct rp_device_opts o = {.device = number};
    struct rp_dev *dev = rp_backend_cuda.open(&o, 0, err);
    if (!dev)
        return -1;
    const struct rp_backend *b = dev->backend;
    c->op->attach(c, dev);
    float *x = b->block(dev, RP_CLASS_PARAMETERS, 2 * sizeof host, err), *y = x + N;
    int failed = !x, wrong = 0;
    for (int i = 1; i <= 3 && !failed; i++) {
        const struct rp_transfer t[] = {{to, 1, x, sizeof host}, {from, 0, y, sizeof host}};
        dev->op->fill(dev, x, (float)(10 * i + own), N);
        failed = rp_comm_exchange_device(c, RP_GROUP_WORLD, t, 2, err) < 0;
        dev->op->add(dev, y, y, x, N);
        dev->op->fill(dev, x, -1.0f, N);
        failed = failed || b->download(dev, host, y, sizeof host, err) < 0;
        for (int k = 0; k < N && !failed; k++)
            wrong += host[k] != (float)(20 * i + own + from);
    }
    failed = failed || rp_comm_barrier(c, RP_GROUP_WORLD, err) < 0;
    return failed ? -1 : wrong ? rp_fail(err, RP_MISMATCH, "%d values are wrong", wrong) : 0;
}

TEST(exchanges_follow_the_stream)
{
    static const char *const settings[] = {"SHIM_DEFER=0", "SHIM_DEFER=1", "SHIM_DEFER=2 PLAY_NCCL_POLLS=0",
                                           "SHIM_DEFER=1 PLAY_NCCL_DELAY_MS=30", "SHIM_DEFER=1 RP_CUDA_GRAPHS=0"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_all_good((struct trial){.layout = {3, 1, 1}, .run = exchange_between_kernels, .settings = settings[i]},
                       settings[i]);
}

/* Every rank measures exchanges between the memory of GPUs, and what was exchanged before counts as before. */
static int measure_exchanges(struct rp_comm *c, struct rp_err *err)
{
    char number[16];
    snprintf(number, sizeof number, "%d", c->rank[RP_GROUP_WORLD]);
    const struct rp_device_opts o = {.device = number};
    struct rp_dev *dev = rp_backend_cuda.open(&o, 0, err);
    if (!dev)
        return -1;
    c->op->attach(c, dev);
    const uint64_t sent = c->count.sent_bytes;
    struct rp_device_info d = {0};
    rp_backend_cuda.info(dev, &d);
    json_t *is = rp_exchange_ceilings(dev, c, (size_t)256 << 10, NULL, NULL, err);
    const size_t n = json_array_size(is);
    const long long bytes = (long long)json_integer_value(json_object_get(json_array_get(is, 0), "bytes"));
    json_decref(is);
    if (!is || rp_comm_barrier(c, RP_GROUP_WORLD, err) < 0)
        return -1;
    if (n != 4 || bytes != 65280 || c->count.sent_bytes <= sent || c->count.sent_bytes > sent + 8 ||
        !c->waits_unknown || !*d.pci_address)
        return rp_fail(err, RP_MISMATCH, "%zu measurements of %lld bytes, %lld bytes sent, at '%s'", n, bytes,
                       (long long)(c->count.sent_bytes - sent), d.pci_address);
    return 0;
}

TEST(exchanges_are_measured)
{
    check_all_good((struct trial){.layout = {3, 1, 1}, .run = measure_exchanges, .settings = "SHIM_DEFER=1"}, "3x1x1");
}

/* ---- failures ---- */

static int exchange_until_failure(struct rp_comm *c, struct rp_err *err)
{
    int all[MOST] = {0};
    for (int i = 0; i < 20; i++)
        if (rp_comm_all_gather(c, RP_GROUP_WORLD, all, &i, sizeof i, err) < 0) {
            struct rp_err again;
            const int usable = rp_comm_barrier(c, RP_GROUP_WORLD, &again) == 0;
            return usable ? rp_fail(err, RP_BUG, "an exchange works after a failure") : -1;
        }
    return 0;
}

/* Rank 1 has a fault; the others fail too, because of another one. */
static void check_fault(const char *settings, int ends, enum rp_code own, enum rp_code others, const char *says)
{
    start((struct trial){.layout = {3, 1, 1}, .silence_s = 1.5, .run = exchange_until_failure, .settings = settings});
    CHECK(finish(ends) == ends, "%s: not %d ranks ended", settings, ends);
    for (int i = 0; i < 3; i++) {
        const struct outcome *o = &now->rank[i];
        if (!o->ended)
            continue;
        CHECK(o->code == (i == 1 ? own : others), "%s, rank %d: %d %s", settings, i, (int)o->code, o->msg);
        if (i != 1)
            CHECK(o->lost == RP_LOST_SOME, "%s, rank %d: it blames %d", settings, i, o->lost);
        if (i == 1 && says)
            CHECK(strstr(o->msg, says) != NULL, "%s: %s", settings, o->msg);
    }
}

TEST(ranks_that_are_gone)
{
    check_fault("PLAY_NCCL_FAULT=1:3:die", 2, RP_OK, RP_UNAVAILABLE, NULL);
    check_fault("PLAY_NCCL_FAULT=1:3:die PLAY_NCCL_NOTICE=1", 2, RP_OK, RP_UNAVAILABLE, NULL);
    check_fault("PLAY_NCCL_FAULT=1:0:die", 2, RP_OK, RP_UNAVAILABLE, NULL);
    check_fault("PLAY_NCCL_FAULT=1:3:stop", 2, RP_OK, RP_UNAVAILABLE, NULL);
    check_fault("PLAY_NCCL_FAULT=1:0:stop", 2, RP_OK, RP_UNAVAILABLE, NULL);
}

TEST(exchanges_that_fail_or_hang)
{
    check_fault("PLAY_NCCL_FAULT=1:3:hang", 3, RP_UNAVAILABLE, RP_UNAVAILABLE, "run.hang_seconds");
    check_fault("PLAY_NCCL_FAULT=1:0:hang", 3, RP_UNAVAILABLE, RP_UNAVAILABLE, "run.hang_seconds");
    check_fault("PLAY_NCCL_FAULT=1:3:call", 3, RP_IO, RP_UNAVAILABLE, "asked for by the test");
    check_fault("PLAY_NCCL_FAULT=1:0:call", 3, RP_IO, RP_UNAVAILABLE, "asked for by the test");
    check_fault("PLAY_NCCL_FAULT=1:3:system", 3, RP_UNAVAILABLE, RP_UNAVAILABLE, "Connection refused");
    check_fault("PLAY_NCCL_FAULT=1:0:system", 3, RP_UNAVAILABLE, RP_UNAVAILABLE, "Connection refused");
    check_fault("PLAY_NCCL_FAULT=1:3:remote PLAY_NCCL_NOTICE=1", 3, RP_UNAVAILABLE, RP_UNAVAILABLE, "remote peer");
}

TEST(messages_whose_sizes_differ)
{
    start((struct trial){
        .layout = {2, 1, 1}, .silence_s = 1.5, .run = exchange_until_failure, .settings = "PLAY_NCCL_FAULT=1:3:size"});
    CHECK(finish(2) == 2, "not all ranks ended");
    CHECK(now->rank[0].code == RP_IO && now->rank[0].lost == -1, "%s", now->rank[0].msg);
    CHECK(now->rank[1].code == RP_UNAVAILABLE || now->rank[1].code == RP_OK, "%s", now->rank[1].msg);
}

TEST(ranks_that_wait_can_be_stopped)
{
    start((struct trial){.layout = {2, 1, 1}, .run = exchange_until_failure, .settings = "PLAY_NCCL_FAULT=1:3:hang"});
    usleep(300000);
    now->stop = 1;
    CHECK(finish(2) == 2, "not all ranks ended");
    for (int i = 0; i < 2; i++)
        CHECK(now->rank[i].code == RP_INTERRUPTED, "rank %d: %s", i, now->rank[i].msg);
}

/* ---- what cannot begin ---- */

static void check_refused(const char *settings, enum rp_code code, const char *const *says)
{
    start((struct trial){.layout = {3, 1, 1}, .run = exchange_until_failure, .settings = settings});
    CHECK(finish(3) == 3, "%s: not all ranks ended", settings);
    for (int i = 0; i < 3; i++) {
        CHECK(now->rank[i].code == code, "%s: %s", settings, now->rank[i].msg);
        for (const char *const *text = says; *text; text++)
            CHECK(strstr(now->rank[i].msg, *text) != NULL, "'%s': %s", *text, now->rank[i].msg);
    }
}

TEST(versions_of_nccl)
{
    check_refused("PLAY_NCCL_VERSION=22005,21803,22005", RP_UNAVAILABLE,
                  (const char *const[]){"2.20.5", "2.18.3", "rank 1", NULL});
    check_refused("PLAY_NCCL_VERSION=21304", RP_UNAVAILABLE, (const char *const[]){"2.13.4", "2.14", NULL});
    check_refused("PLAY_NCCL_VERSION=2804", RP_UNAVAILABLE, (const char *const[]){"2.8.4", "2.14", NULL});
    check_all_good(
        (struct trial){.layout = {2, 1, 1}, .run = exchange_in_groups, .settings = "PLAY_NCCL_VERSION=21403"},
        "2.14.3");
}

TEST(no_nccl)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(rp_library_open("libnccl.so.2") != NULL);
    waitpid(pid, &status, 0);
    if (status)
        SKIP("this machine has NCCL");
    check_refused("NO_NCCL=1", RP_UNAVAILABLE, (const char *const[]){"libnccl.so.2", "2.14", NULL});
}

TEST(a_gpu_for_each_rank)
{
    check_refused("SHIM_DEVICES=2", RP_UNAVAILABLE, (const char *const[]){"3 ranks", "2 GPUs", NULL});
    check_refused("SHIM_DEVICES=1", RP_UNAVAILABLE, (const char *const[]){"ranks 0 and 1", NULL});
    check_refused("TEST_DEVICE=2", RP_USAGE, (const char *const[]){"run.device", "CUDA_VISIBLE_DEVICES", NULL});
    check_all_good((struct trial){.layout = {2, 1, 1}, .run = exchange_in_groups,
                                  .settings = "SHIM_DEVICES=1 NCCL_MULTI_RANK_GPU_ENABLE=1"},
                   "one GPU");
}
