/* With LONG=1 every operation with each access to memory checked (tests/shim/check.c), at small sizes; and that the
 * checks find what they are for.
 * shims: checked checked700 */
#include "ops/op_check.h"
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* What the kernel of planted.cu comes to, on 64 floats: "" for nothing, else what the shim says. In a process of its
 * own: a fault stays. */
static void launch(const char *kernel, char *said, size_t size)
{
    int in[2], status;
    size_t n = 0;
    ssize_t got;
    if (!CHECK(pipe(in) == 0))
        return;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rp_err e = {0};
        struct shim_options *shim;
        struct rp_dev *dev = gpu(&shim, &e);
        struct rp_cuda *c = rp_cuda_of(dev);
        CUfunction f;
        char name[64];
        struct {
            float *out;
            const float *in;
            int n;
        } args = {.n = 64};
        void *parameters[] = {&args};
        dup2(in[1], 2);
        snprintf(name, sizeof name, "rp_planted_%s", kernel);
        if (!dev || !(args.out = dev->backend->block(dev, RP_CLASS_SCRATCH, 256, &e)) ||
            !(args.in = dev->backend->block(dev, RP_CLASS_SCRATCH, 256, &e)))
            _exit(2);
        *shim = (struct shim_options){.resident = 1, .checked = 1, .strict = 1};
        if (c->d->cuModuleGetFunction(&f, c->module[0], name) != CUDA_SUCCESS)
            _exit(2);
        _exit(c->d->cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 256, c->stream, parameters, NULL) == CUDA_SUCCESS ? 0 : 1);
    }
    close(in[1]);
    while (n < size - 1 && (got = read(in[0], said + n, size - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = '\0';
    close(in[0]);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (n != 0), "%s: status %#x, '%s'", kernel, status, said);
}

TEST(planted_faults_are_found)
{
    static const struct {
        const char *kernel, *said;
    } faults[] = {
        {"fine", ""},
        {"fine_copy", ""},
        {"no_barrier", "nothing orders them"},
        {"no_barrier_after", "nothing orders them"},
        {"no_warp_barrier", "nothing orders them"},
        {"warp_barrier_only", "nothing orders them"},
        {"same_word", "which is written by another and nothing orders them"},
        {"behind_shared", "writes byte 256 of shared memory, which is more than the block has"},
        {"copy_behind_shared", "an asynchronous copy writes outside of shared memory"},
        {"copy_not_waited_for", "where an asynchronous copy is under way"},
        {"copy_not_shown", "nothing orders them"},
        {"copy_over_readers", "where an asynchronous copy is under way"},
        {"divergent", "threads of one block meet at different barriers"},
        {"early_return", "some threads of a block returned while others wait at a barrier"},
        {"behind_block", "reads memory outside of every block of the driver"},
        {"before_block", "writes memory outside of every block of the driver"},
        {"lane_is_missing", "a lane of the warp is not there or has returned"},
        {"matrix_not_shown", "nothing orders them"},
    };
    for (int i = 0; i < COUNT(faults); i++) {
        char said[512] = "";
        launch(faults[i].kernel, said, sizeof said);
        CHECK(*faults[i].said ? strstr(said, faults[i].said) != NULL : !*said, "%s: '%s'", faults[i].kernel, said);
    }
}

static const struct rp_op_shape shapes[] = {
    {.rows = 1, .width = 1, .depth = 1, .batch = 1, .seq = 1, .heads = 1, .head_dim = 1, .dropout = 0.1f,
     .conv = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
    {.rows = 5, .width = 33, .depth = 77, .batch = 2, .seq = 7, .heads = 2, .head_dim = 5, .in_place = 1, .variant = 3,
     .conv = {2, 9, 7, 5, 9, 7, 5, 3, 3, 1, 1, 1}},
    {.rows = 65, .width = 240, .depth = 31, .segment = 8, .batch = 1, .seq = 33, .heads = 2, .head_dim = 64,
     .dropout = 0.1f, .variant = 6, .conv = {1, 11, 10, 16, 6, 5, 16, 3, 3, 2, 1, 1}},
    {.rows = 130, .width = 77, .depth = 70, .segment = 30, .batch = 1, .seq = 128, .heads = 1, .head_dim = 80,
     .dropout = 0.5f, .in_place = 1, .variant = 13,
     .conv = {1, 2, 2, 460, 2, 2, 460, 3, 3, 1, 1, 1}}, /* sums in segments */
    {.rows = 70, .width = 132, .depth = 64, .segment = 16, .batch = 1, .seq = 140, .heads = 1, .head_dim = 64,
     .dropout = 0.1f, .variant = 1, .conv = {1, 66, 65, 8, 66, 65, 8, 3, 3, 1, 1, 1}}, /* groups of rows */
    {.rows = 200, .width = 768, .depth = 20, .batch = 1, .seq = 64, .heads = 1, .head_dim = 64, .variant = 2,
     .offset = 1, .conv = {2, 8, 9, 68, 8, 9, 68, 1, 1, 1, 0, 0}},
};

TEST(no_operation_has_a_race_or_leaves_its_memory)
{
    struct rp_err e = {0};
    struct shim_options *shim;
    struct rp_dev *dev = gpu_here(&shim);
    const struct rp_op_memory memory = {dev->backend->shared, dev->backend->free_shared, dev->backend->sync};
    shim->strict = 1;
    for (int op = 0; op < RP_OP_COUNT; op++) {
        clock_t begin = clock();
        for (int i = 0; i < COUNT(shapes); i++) {
            shim->order = (enum shim_order)(i % SHIM_ORDERS);
            shim->late = i & 1;
            shim->resident = 1 + i % 3;
            CHECK(rp_ops_compare(&memory, dev->op, dev, (enum rp_op)op, &shapes[i], &e) == 0, "shape %d: %s", i, e.msg);
        }
        printf("# %s: %.1f s\n", rp_op_info[op].name, (double)(clock() - begin) / CLOCKS_PER_SEC);
    }
}
