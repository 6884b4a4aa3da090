/* The thread pool: every part once, jobs back to back and after sleep, and the state of arithmetic in every thread.
 * Also what the device refuses: memory it has not got, instruction sets it does not know. */
#include "backend/cpu/inner.h"
#include "backend/cpu/float_mode.h"
#include "backend/cpu/limits.h"
#include "base/buf.h"
#include "base/json.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARTS 1000

struct tally {
    int runs[PARTS];     /* plain ints: a part that two threads run at once is a race that TSan reports */
    int by_thread[64];
    int threads, wrong;
    atomic_int come; /* threads, at meet() */
};

static void count(void *arg, int part, int thread)
{
    struct tally *t = arg;
    if (part < 0 || part >= PARTS || thread < 0 || thread >= t->threads) {
        t->wrong = 1;
        return;
    }
    t->runs[part]++;
    t->by_thread[thread]++;
}

static int each_once(const struct tally *t, int parts)
{
    for (int i = 0; i < PARTS; i++)
        if (t->runs[i] != (i < parts))
            return 0;
    return !t->wrong;
}

static void nap(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

TEST(every_part_runs_once)
{
    static const int threads[] = {1, 2, 3, 7};
    static const int parts[] = {0, 1, 2, 3, 7, 8, 64, PARTS};
    for (int t = 0; t < 4; t++) {
        struct rp_err err;
        struct rp_pool *p = rp_pool_new(threads[t], &err);
        CHECK(p, "%d threads: %s", threads[t], err.msg);
        for (int repeat = 0; p && repeat < 60; repeat++)
            for (int i = 0; i < 8; i++) {
                struct tally tally = {.threads = threads[t]};
                rp_pool_run(p, parts[i], count, &tally);
                if (!each_once(&tally, parts[i]))
                    CHECK(0, "%d threads, %d parts, repeat %d", threads[t], parts[i], repeat);
                if (repeat % 16 == 15)
                    nap(300); /* long enough for threads to fall asleep */
            }
        rp_pool_free(p);
    }
}

/* A job's memory is gone when run() returns: a thread that still looked at it would be seen by ASan and TSan. */
TEST(jobs_back_to_back)
{
    struct rp_err err;
    struct rp_pool *p = rp_pool_new(3, &err);
    for (int i = 0; p && i < 20000; i++) {
        struct tally *t = calloc(1, sizeof *t);
        t->threads = 3;
        rp_pool_run(p, 2 + i % 3, count, t);
        if (!each_once(t, 2 + i % 3))
            CHECK(0, "job %d", i);
        free(t);
    }
    CHECK(p, "%s", err.msg);
    rp_pool_free(p);
}

/* The first part of each thread waits for all other threads, which a busy machine may start late: for 5 s at most. */
static void meet(void *arg, int part, int thread)
{
    struct tally *t = arg;
    atomic_fetch_add(&t->come, t->by_thread[thread] == 0);
    for (int i = 0; i < 5000 && atomic_load(&t->come) < t->threads; i++)
        nap(1000);
    count(arg, part, thread);
}

TEST(parts_spread_over_threads)
{
    struct rp_err err;
    struct tally t = {.threads = 4};
    struct rp_pool *p = rp_pool_new(4, &err);
    rp_pool_run(p, 40, meet, &t);
    CHECK(each_once(&t, 40), "40 parts");
    for (int i = 0; i < 4; i++)
        CHECK(t.by_thread[i] > 0, "thread %d did nothing", i);
    rp_pool_free(p);
}

static void read_state(void *arg, int part, int thread)
{
    (void)part;
    nap(1000);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ((int *)arg)[thread] = (rp_float_mode() & RP_FLOAT_ARITHMETIC) || sigismember(&blocked, SIGINT) != (thread > 0);
}

TEST(threads_round_to_nearest_and_leave_signals_to_the_caller)
{
    struct rp_err err;
    int wrong[4] = {0};
    struct rp_pool *p = rp_pool_new(4, &err);
    rp_pool_run(p, 16, read_state, wrong);
    for (int i = 0; i < 4; i++)
        CHECK(!wrong[i], "thread %d", i);
    rp_pool_free(p);
}

/* Flush-to-zero, denormals-are-zero and another rounding are each a defect that stops the program; on aarch64 also the
 * default NaN. */
TEST(other_arithmetic_is_refused)
{
#if defined __x86_64__
    static const unsigned wrong[] = {1u << 15, 1u << 6, 1u << 13, 2u << 13};
#else
    static const unsigned wrong[] = {1u << 24, 1u << 25, 1u << 22, 2u << 22};
#endif
    for (int i = 0; i < 4; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            struct rp_err err;
            if (!freopen("/dev/null", "w", stderr))
                _exit(1);
            rp_float_mode_set(rp_float_mode() | wrong[i]);
            rp_pool_free(rp_pool_new(1, &err));
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 70, "bit %#x: status %#x", wrong[i], (unsigned)status);
    }
}

/* In a child: limits of this process would stay. 0 = as expected. */
static int in_child(int (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS 0 /* their shadow memory does not fit below any address space limit */
#else
#define LIMITS 1
#endif

static struct rp_device_opts options(void)
{
    return (struct rp_device_opts){.threads = 1};
}

static int block_beyond_the_limit(void)
{
    struct rp_err err = {0};
    struct rp_device_opts o = options();
    struct rlimit limit = {512u << 20, 512u << 20};
    if (setrlimit(RLIMIT_AS, &limit))
        return 1;
    const struct rp_backend *cpu = &rp_backend_cpu;
    if (cpu->memory(&o) > 512u << 20)
        return 2;
    struct rp_dev *dev = cpu->open(&o, 4 << 20, &err);
    if (!dev)
        return 3;
    if (cpu->block(dev, RP_CLASS_ACTIVATIONS, (size_t)1 << 30, &err))
        return 4;
    if (err.code != RP_UNAVAILABLE || !strstr(err.msg, "activations: 1024.0 MiB"))
        return 5;
    float *p = cpu->block(dev, RP_CLASS_GRADIENTS, 1000, &err);
    if (!p || (uintptr_t)p % 64 || p[0] != 0.0f || p[249] != 0.0f)
        return 6;
    cpu->close(dev);
    return 0;
}

TEST(memory_that_is_not_there_is_refused)
{
    struct rp_err err = {0};
    struct rp_device_opts o = options();
    const struct rp_backend *cpu = &rp_backend_cpu;
    struct rp_dev *dev = cpu->open(&o, 4 << 20, &err);
    CHECK(dev, "%s", err.msg);
    if (dev) {
        CHECK(!cpu->block(dev, RP_CLASS_OPTIMIZER, (size_t)1 << 60, &err) && err.code == RP_UNAVAILABLE, "an exbibyte");
        CHECK(strstr(err.msg, "optimizer state"), "%s", err.msg);
        cpu->close(dev);
    }
    if (LIMITS) {
        int at = in_child(block_beyond_the_limit);
        CHECK(!at, "step %d", at);
    }
}

/* An instruction set is usable here if and only if the kernel shows its flags. */
TEST(instruction_sets_are_those_of_this_cpu)
{
    struct rp_err err;
    RP_BUF text = {0};
    CHECK(rp_read_file(&text, "/proc/cpuinfo", 1 << 24, &err) == 0, "%s", err.msg);
    const char *from = strstr(rp_buf_text(&text), "\nflags");
    if (!from)
        from = strstr(rp_buf_text(&text), "\nFeatures");
    const char *end = from ? strchr(from + 1, '\n') : NULL;
    if (!end)
        SKIP("/proc/cpuinfo has no flags");
    RP_FREE char *flags = rp_asprintf("%.*s ", (int)(end - from), from);
    for (int i = RP_ISA_auto + 1; i < RP_ISA_COUNT; i++) {
        const struct rp_isa_row *isa = rp_isa_find(rp_isa_name((enum rp_isa)i));
        char word[32];
        bool all = true;
        for (const char *const *f = isa->flag; *f; f++)
            all &= strstr(flags, RP_FORMAT(word, " %s ", *f)) != NULL;
        CHECK(rp_isa_usable((enum rp_isa)i) == all, "%s", isa->name);
        CHECK(rp_isa_from_name(isa->name) == i && isa->flops > 0 && isa->flops <= rp_isa_most_flops(), "%s", isa->name);
    }
    CHECK(!rp_isa_find("sve") && !rp_isa_find("auto") && !rp_isa_find(""), "known");
    CHECK_STR(RP_CHOICES(RP_ISAS), "auto|scalar|avx2|avx512|neon");
}

TEST(arm_processors_have_names)
{
    CHECK_STR(rp_arm_name(0x41, 0xd4f), "Neoverse-V2");
    CHECK_STR(rp_arm_name(0x4e, 4), "Carmel");
    CHECK(!rp_arm_name(0x4e, 0xd4f) && !rp_arm_name(0x41, 0xfff) && !rp_arm_name(0, 0), "known");
}

TEST(devices_say_what_they_are)
{
    char text[RP_DEVICE_TEXT];
    struct rp_err err = {0};
    const struct rp_backend *cpu = &rp_backend_cpu;
    for (int isa = RP_ISA_auto + 1; isa < RP_ISA_COUNT; isa++) {
        struct rp_device_opts o = {.isa = rp_isa_name((enum rp_isa)isa), .threads = 3};
        if (!rp_isa_usable((enum rp_isa)isa)) {
            CHECK(cpu->unavailable(&o) && !cpu->open(&o, 4 << 20, &err) && err.code == RP_UNAVAILABLE, "%s", o.isa);
            continue;
        }
        struct rp_dev *dev = cpu->open(&o, 12 << 20, &err);
        CHECK(!cpu->unavailable(&o) && dev, "%s", err.msg);
        if (!dev)
            continue;
        struct rp_device_info is = {0}, again;
        cpu->info(dev, &is);
        CHECK(!strcmp(is.kind, "cpu") && !strcmp(is.isa, o.isa) && is.threads == 3, "%s %s %d", is.kind, is.isa,
              is.threads);
        CHECK(is.name[0] != ' ' && (!*is.name || is.name[strlen(is.name) - 1] != ' '), "'%s'", is.name);
        RP_JSON *j = rp_device_json(&is);
        CHECK(rp_device_from_json(&again, j) == 0 && memcmp(&again, &is, sizeof is) == 0, "not what it was as JSON");
        CHECK(strstr(rp_device_text(text, j), o.isa) && strstr(text, "3 threads"), "'%s'", text);
        CHECK(rp_cpu_of(dev)->scratch_each == 4 << 20, "%zu bytes of scratch", rp_cpu_of(dev)->scratch_each);
        cpu->close(dev);
    }
    const struct rp_backend *const list[] = {&rp_backend_cpu, NULL};
    struct rp_device_opts o = {.isa = "avx3", .threads = 1};
    CHECK(!rp_backend_find(list, "none") && rp_backend_find(list, "cpu") == &rp_backend_cpu &&
              !strcmp(rp_class_name(RP_CLASS_SCRATCH), "scratch"),
          "names");
    CHECK(!cpu->open(&o, 4 << 20, &err) && err.code == RP_USAGE && strstr(err.msg, "avx3"), "%s", err.msg);
}

/* ---- limits from recorded trees ---- */

static const char *root;

static void put(const char *path, const char *text)
{
    struct rp_err err = {0};
    RP_FREE char *full = rp_asprintf("%s%s", root, path),
                 *dir = rp_asprintf("%.*s", (int)(strrchr(full, '/') - full), full);
    CHECK(rp_mkdirs(dir, 0700, &err) == 0 && rp_write_file(full, text, strlen(text), 0600, &err) == 0, "%s", err.msg);
}

static void new_root(const char *name)
{
    root = scratch(name);
    put("/proc/meminfo", "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n");
}

TEST(memory_limits_of_both_versions)
{
    new_root("memory");
    CHECK(rp_cpu_memory(root) == 4000 * 1024, "MemAvailable");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    CHECK(rp_cpu_memory(root) == 4000 * 1024, "max is no limit");
    put("/sys/fs/cgroup/a/memory.max", "3000000\n"); /* a parent's limit holds too */
    put("/sys/fs/cgroup/a/memory.current", "1000000\n");
    CHECK(rp_cpu_memory(root) == 2000000, "limit - usage");
    put("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 400000\n");
    CHECK(rp_cpu_memory(root) == 2400000, "unused page cache is free");
    put("/sys/fs/cgroup/a/memory.current", "9000000\n");
    CHECK(rp_cpu_memory(root) == 0, "over the limit");
    put("/proc/self/cgroup", "5:cpu,memory:/x\n3:cpuset:/y\n");
    CHECK(rp_cpu_memory(root) == 4000 * 1024, "no version 1 files");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n"); /* a container: its group is the mount itself */
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
    CHECK(rp_cpu_memory(root) == 1500000, "version 1");
    put("/proc/self/cgroup", "garbage\n::\n:\n0::");
    CHECK(rp_cpu_memory(root) == 4000 * 1024, "garbage");
}

TEST(cpu_quota)
{
    int all = rp_cpu_count("");
    CHECK(all >= 1, "%d", all);
    new_root("quota");
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    CHECK(rp_cpu_count(root) == 1, "half a CPU is one thread");
    put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    CHECK(rp_cpu_count(root) >= all, "no quota");
    put("/proc/self/cgroup", "4:cpu,cpuacct:/z\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(rp_cpu_count(root) >= all, "version 1 without a quota");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    CHECK(rp_cpu_count(root) == 1, "version 1");
}

/* Threads share a head: parts of a few queries, or keys; what another part writes is a race that TSan reports. */
TEST(parts_of_a_head_write_their_own_rows)
{
    enum { SEQ = 700, DIM = 8, HEADS = 1 };
    static float qkv[SEQ * 3 * DIM], o[2][SEQ * DIM], top[2][SEQ], inv[2][SEQ], dqkv[2][SEQ * 3 * DIM],
        dbias[2][3 * DIM], work[11 * 3 * DIM];
    static uint8_t mask[2][SEQ * 96];
    const struct rp_op_use use = {
        .op = RP_OP_attention_backward, .batch = 1, .seq = SEQ, .heads = HEADS, .head_dim = DIM, .causal = 1};
    struct rp_attention a = {.batch = 1, .seq = SEQ, .heads = HEADS, .head_dim = DIM, .scale = 0.25f, .causal = 1,
                             .drop = {.seed = 1, .rows_per_sample = SEQ, .threshold = 1u << 30, .scale = 1 / 0.75f}};
    for (int i = 0; i < SEQ * 3 * DIM; i++)
        qkv[i] = (float)(i * 7919 % 1000) * 0.002f - 1.0f;
    for (int side = 0; side < 2; side++) {
        struct rp_err err;
        const struct rp_device_opts opts = {.threads = side ? 4 : 1};
        struct rp_dev *dev = rp_backend_open(&rp_backend_cpu, &opts, &use, 1, &err);
        CHECK(dev, "%s", err.msg);
        if (!dev)
            return;
        dev->op->attention_forward(dev, o[side], top[side], inv[side], mask[side], qkv, &a);
        const struct rp_attention_grad g = {.a = &a, .d_o = qkv, .qkv = qkv, .o = o[side], .row_max = top[side],
                                            .row_inv = inv[side], .mask = mask[side], .dqkv = dqkv[side],
                                            .dbias = dbias[side], .work = work};
        dev->op->attention_backward(dev, &g);
        rp_backend_cpu.close(dev);
    }
    CHECK(!memcmp(o[0], o[1], sizeof o[0]) && !memcmp(top[0], top[1], sizeof top[0]) &&
          !memcmp(inv[0], inv[1], sizeof inv[0]));
    CHECK(!memcmp(mask[0], mask[1], sizeof mask[0]) && !memcmp(dqkv[0], dqkv[1], sizeof dqkv[0]) &&
          !memcmp(dbias[0], dbias[1], sizeof dbias[0]));
}
