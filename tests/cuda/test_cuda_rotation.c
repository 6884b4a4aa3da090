/* The self-test of a large GPU in rotation (RP_CUDA_GEMM and RP_CUDA_ATTENTION) uses every kernel that multiplies
 * matrices or does attention, whatever the number of multiprocessors: launches are noted and not executed, so its
 * results are wrong, which is expected.
 * shims: 800 */
#include "backend/selftest.h"
#include "base/buf.h"
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *capability, *multiprocessors;
    int number; /* the same */
} gpus[] = {{"90", "132", 90}, {"90", "1", 90}, {"80", "108", 80}, {"70", "80", 70}};

/* In a process of its own, which the driver reads its variables in. */
static int run_selftest(int gpu_number)
{
    const struct rp_device_opts o = {0};
    struct rp_err err = {0}, differs = {0};
    json_t *report = json_array();
    struct rp_dev *dev = gpu(NULL, &err) ? rp_ops_selftest_open(&rp_backend_cuda, &o, &err) : NULL;
    if (!dev) {
        printf("# %s\n", err.msg);
        return 1;
    }
    return rp_cuda_of(dev)->gpu.capability != gpus[gpu_number].number ||
           rp_ops_selftest_device(dev, "gpu", NULL, report, &differs) == 0; /* equal, without execution? */
}

/* "KERNEL LAUNCHES BYTES", a line for each kernel */
static void note_launches(int i, struct rp_buf *out)
{
    struct rp_err err = {0};
    char path[] = "/tmp/rp-rotation-XXXXXX";
    int status = -1, file = mkstemp(path);
    fflush(stdout);
    pid_t pid = file < 0 ? -1 : fork();
    if (pid == 0) {
        setenv("SHIM_IDLE", path, 1);
        setenv("SHIM_CAPABILITY", gpus[i].capability, 1);
        setenv("SHIM_MULTIPROCESSORS", gpus[i].multiprocessors, 1);
        setenv("RP_CUDA_GEMM", "rotate", 1);
        setenv("RP_CUDA_ATTENTION", "rotate", 1);
        exit(run_selftest(i));
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    CHECK(status == 0 && rp_read_file(out, path, 1 << 16, &err) == 0, "status %d, %s", status, err.msg);
    if (file >= 0)
        close(file);
    unlink(path);
}

static int is_launched(const struct rp_buf *launches, const char *kernel)
{
    RP_FREE char *line = rp_asprintf("\n%s ", kernel);
    return launches->data &&
           (strncmp(launches->data, line + 1, strlen(line + 1)) == 0 || strstr(launches->data, line) != NULL);
}

TEST(every_kernel_of_attention_and_of_products_is_compared)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        const struct rp_cuda_image image = {.arch = gpus[i].number};
        const struct rp_cuda c = {.image = &image};
        struct rp_buf launches = {0};
        int seen = 0, usable;
        note_launches((int)i, &launches);
        for (int k = 0; k < RP_CUDA_KERNELS; k++) {
            const char *name = rp_cuda_kernels[k].name + 3;
            if (strncmp(name, "attention_", 10) != 0)
                continue;
            CHECK(is_launched(&launches, name), "sm_%s with %s multiprocessors: %s did not run", gpus[i].capability,
                  gpus[i].multiprocessors, name);
            seen++;
        }
        for (int tile = 1; rp_cuda_gemm_tile(&c, tile, &usable); tile++) {
            RP_FREE char *name = rp_asprintf("gemm_%s", rp_cuda_gemm_tile(&c, tile, &usable));
            CHECK(!usable || is_launched(&launches, name), "sm_%s with %s multiprocessors: %s did not run",
                  gpus[i].capability, gpus[i].multiprocessors, name);
            seen += usable;
        }
        CHECK(seen > 20, "%d kernels", seen);
        rp_buf_fini(&launches);
    }
}
