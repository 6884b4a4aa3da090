/* Launches between two looks of the host become a graph that is made once and then changed and repeated. */
#include "tests/cuda/alone.h"
#include "tests/unit/scratch.h"

#define N 1000
#define LAUNCHES 12

/* y = value, then LAUNCHES - 1 times y = y + x; returns y[N - 1] */
static float round_of(struct rp_dev *dev, float *x, float *y, float value)
{
    struct rp_err err = {0};
    float host[N] = {0};
    dev->op->fill(dev, y, value, N);
    for (int i = 1; i < LAUNCHES; i++)
        dev->op->add(dev, y, y, x, N);
    CHECK(dev->backend->sync(dev, &err) == 0 && dev->backend->download(dev, host, y, sizeof host, &err) == 0, "%s",
          err.msg);
    return host[N - 1];
}

static float *block(struct rp_dev *dev)
{
    struct rp_err err = {0};
    float *p = dev->backend->block(dev, RP_CLASS_SCRATCH, N * sizeof(float), &err);
    CHECK(p != NULL, "%s", err.msg);
    return p;
}

static long called(const char *log, const char *function)
{
    char line[128], name[64];
    long n = 0, found = 0;
    FILE *f = fopen(log, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "called %63s %ld", name, &n) == 2 && strcmp(name, function) == 0)
            found = n;
    if (f)
        fclose(f);
    return found;
}

static void four_rounds(void)
{
    struct rp_dev *dev = gpu_here(NULL);
    float *x = block(dev), *y = block(dev);
    for (int i = 0; i < 4; i++)
        CHECK(round_of(dev, x, y, (float)(i / 2)) == (float)(i / 2)); /* 0 0 1 1: one argument changes once */
    dev->backend->close(dev);
}

/* The driver counts from its start and writes its log at its end. */
static const char *logged(void (*body)(void))
{
    const char *path = scratch("log");
    unlink(path);
    setenv("SHIM_LOG", path, 1);
    alone(body, "0");
    unsetenv("SHIM_LOG");
    return path;
}

static void count_calls(const char *graphs, long want_graphs, long want_changes, long want_launches)
{
    setenv("RP_CUDA_GRAPHS", graphs, 1);
    const char *path = logged(four_rounds);
    unsetenv("RP_CUDA_GRAPHS");
    CHECK(called(path, "cuGraphLaunch") == want_graphs, "%ld graphs", called(path, "cuGraphLaunch"));
    long changes = called(path, "cuGraphExecKernelNodeSetParams_v2"); /* bytes between fields may change too */
    CHECK(changes >= want_changes && changes <= 3 * want_changes, "%ld changes", changes);
    CHECK(called(path, "cuLaunchKernel") == want_launches, "%ld launches", called(path, "cuLaunchKernel"));
}

TEST(a_repeated_sequence_is_one_graph_and_only_what_changed_is_told)
{
    count_calls("1", 4, 1, 0);
}

/* The launches of a kernel by its name; -1: this device cannot run it. */
static long launches_of(struct rp_dev *dev, const char *kernel)
{
    const char *name;
    uint64_t n;
    for (int i = 0; (name = dev->backend->kernel(dev, i, &n)); i++)
        if (strcmp(name, kernel) == 0)
            return (long)n;
    return -1;
}

static void launch_and_count(void)
{
    struct rp_dev *dev = gpu_here(NULL);
    float *x = block(dev), *y = block(dev);
    CHECK(launches_of(dev, "add") == 0 && launches_of(dev, "rp_add") == -1);
    CHECK(launches_of(dev, "gemm_128x128_nt") == 0 && launches_of(dev, "gemm_128x128w_nt") == -1,
          "tiles of another architecture");
    for (int i = 0; i < 4; i++)
        (void)round_of(dev, x, y, 1.0f);
    CHECK(launches_of(dev, "fill") == 4 && launches_of(dev, "add") == 4 * (LAUNCHES - 1), "fill %ld, add %ld",
          launches_of(dev, "fill"), launches_of(dev, "add"));
    dev->backend->close(dev);
}

static void fail_and_count(void)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    float *x = block(dev), *y = block(dev);
    for (int i = 0; i < LAUNCHES; i++)
        dev->op->add(dev, y, y, x, N);
    CHECK(dev->backend->sync(dev, &err) < 0 && launches_of(dev, "add") == 0,
          "%ld launches although the driver refused them", launches_of(dev, "add"));
    dev->backend->close(dev);
}

TEST(launches_of_each_kernel_are_counted_with_and_without_graphs)
{
    alone(launch_and_count, "0");
    setenv("RP_CUDA_GRAPHS", "0", 1);
    alone(launch_and_count, "0");
    unsetenv("RP_CUDA_GRAPHS");
    setenv("SHIM_FAIL", "cuGraphLaunch:1", 1);
    alone(fail_and_count, "0");
    unsetenv("SHIM_FAIL");
}

TEST(without_graphs_each_kernel_is_launched)
{
    count_calls("0", 0, 0, 4 * LAUNCHES);
}

static void turns(void)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    float *x = block(dev), *y = block(dev), host[N];
    for (int turn = 0; turn < 6; turn++) { /* two lengths by turns, then one that is too short for a graph */
        int n = turn == 5 ? 3 : 10 + turn % 2;
        dev->op->fill(dev, x, (float)turn, N);
        dev->op->fill(dev, y, 0.0f, N);
        for (int i = 0; i < n; i++)
            dev->op->add(dev, y, y, x, N);
        CHECK(dev->backend->download(dev, host, y, sizeof host, &err) == 0, "%s", err.msg);
        CHECK(host[0] == (float)(turn * n) && host[N - 1] == host[0], "turn %d: %g", turn, (double)host[0]);
    }
}

/* More sequences than are kept: the rest is launched as it comes. */
static void many(void)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    float *x = block(dev), *y = block(dev), host[N];
    for (int n = 8; n < 60; n++) {
        dev->op->fill(dev, x, 1.0f, N);
        dev->op->fill(dev, y, 0.0f, N);
        for (int i = 0; i < n; i++)
            dev->op->add(dev, y, y, x, N);
        CHECK(dev->backend->download(dev, host, y, sizeof host, &err) == 0, "%s", err.msg);
        CHECK(host[N / 2] == (float)n, "%d: %g", n, (double)host[N / 2]);
    }
}

/* Grids may change: there are another number of rows, say. */
static void sizes(void)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    float *x = block(dev), *y = block(dev), host[N];
    for (size_t n = 1; n < N; n += 333) {
        dev->op->fill(dev, y, -1.0f, N);
        dev->op->fill(dev, x, 1.0f, N);
        dev->op->fill(dev, y, 0.0f, n);
        for (int i = 0; i < 10; i++)
            dev->op->add(dev, y, y, x, n);
        CHECK(dev->backend->download(dev, host, y, sizeof host, &err) == 0, "%s", err.msg);
        CHECK(host[0] == 10.0f && host[n - 1] == 10.0f, "%zu: %g", n, (double)host[n - 1]);
        CHECK(host[n] == -1.0f && host[N - 1] == -1.0f, "%zu: %g", n, (double)host[n]);
    }
    dev->backend->close(dev);
}

TEST(a_graph_takes_other_sizes)
{
    const char *path = logged(sizes);
    CHECK(called(path, "cuGraphCreate") == 1, "%ld graphs", called(path, "cuGraphCreate"));
}

TEST(another_sequence_is_another_graph)
{
    for (const char *how = "012"; *how; how++)
        alone(turns, (char[]){*how, 0});
}

TEST(many_sequences)
{
    alone(many, "1");
}
