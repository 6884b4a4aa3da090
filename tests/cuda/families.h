/* Operations of mixed precision on the GPU, in the arithmetic of each family, against their definitions: for
 * test_cuda_*16.c and test_cuda_stored.c.
 *
 * What:    tensors as the definition takes them (fp32) and as the device stores them (16 bits), and a process for each
 *          family and format.
 * Flow:    compare_families() -> the test's function, in each process: take(), fill(), next_order(), the operation on
 *          both sides, count_wrong().
 * Owner:   tensors are freed with the process.
 * Extend:  capabilities and libraries are those of compare_families().
 */
#pragma once

#define RP_STORED_TYPE float
#include "ops/functions.h"
#include "ops/low.h"
#include "tests/cuda/gpu.h"
#include "tests/ops/define.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAMILY static inline
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define SPACE ((size_t)400 << 10) /* numbers of each tensor */

enum { RANDOM, UNDERFLOW, INFINITE };

static struct rp_dev *dev;
static struct shim_options *shim;
static unsigned mix;

struct matrix {
    float *value; /* as the reference takes it */
    void *here;   /* the same as the device stores it */
    void *there;
};

FAMILY const struct rp_arithmetic *arithmetic(void)
{
    return rp_arithmetic_of(dev->numerics);
}

/* Numbers of both signs over a few octaves, some of them zero or subnormal; or none that is ordinary. */
FAMILY float draw(int kind)
{
    const uint32_t w = random_word();
    const float x = (float)((int)(w & 0xffff) - 32768) * 0x1p-15f;
    if (kind == UNDERFLOW)
        return x * 0x1p-24f;
    if (kind == INFINITE && w >> 20 == 7)
        return w & 1 ? __builtin_inff() : w & 2 ? -__builtin_inff() : __builtin_nanf("");
    return w >> 28 == 0 ? x * 0x1p-20f : w >> 28 == 1 ? 0.0f : w >> 28 == 2 ? x * 8 : x;
}

FAMILY void check(int r, const struct rp_err *e)
{
    if (!CHECK(r == 0, "%s", e->msg))
        exit(1);
}

/* n numbers of a matrix, stored as fp32 or in 16 bits. */
FAMILY void fill(struct matrix *x, size_t n, int f32, int kind)
{
    struct rp_err e = {0};
    for (size_t i = 0; i < n; i++) {
        const float v = draw(kind);
        const uint16_t low = rp_low_of(arithmetic()->format, r_bits(v));
        x->value[i] = f32 ? v : r_float(rp_low_value(arithmetic()->format, low));
        if (f32)
            ((float *)x->here)[i] = v;
        else
            ((uint16_t *)x->here)[i] = low;
    }
    check(dev->backend->upload(dev, x->there, x->here, n * (f32 ? 4 : 2), &e), &e);
}

FAMILY void *moved(const struct matrix *x, size_t numbers, int f32)
{
    return (char *)x->there + numbers * (f32 ? 4 : 2);
}

/* What is there as the reference's numbers are, or any NaN for a NaN. */
FAMILY int is_same(const struct matrix *x, size_t i, int f32)
{
    const uint32_t expected = r_bits(x->value[i]);
    const uint32_t got =
        f32 ? ((const uint32_t *)x->here)[i] : rp_low_value(arithmetic()->format, ((const uint16_t *)x->here)[i]);
    return got == expected || ((got & 0x7fffffff) > 0x7f800000 && (expected & 0x7fffffff) > 0x7f800000);
}

/* Fetches n numbers: how many are not the reference's, and in *at the first of them. */
FAMILY size_t count_wrong(const struct matrix *x, size_t n, int f32, size_t *at)
{
    struct rp_err e = {0};
    size_t wrong = 0;
    *at = 0;
    check(dev->backend->download(dev, x->here, x->there, n * (f32 ? 4 : 2), &e), &e);
    for (size_t i = n; i-- > 0;)
        if (!is_same(x, i, f32)) {
            wrong++;
            *at = i;
        }
    return wrong;
}

/* What was fetched, as a number. */
FAMILY double fetched(const struct matrix *x, size_t i, int f32)
{
    if (f32)
        return (double)((const float *)x->here)[i];
    return (double)r_float(rp_low_value(arithmetic()->format, ((const uint16_t *)x->here)[i]));
}

FAMILY void take(struct matrix *const *all, int n)
{
    struct rp_err e = {0};
    for (int i = 0; i < n; i++) {
        all[i]->value = malloc(SPACE * sizeof(float));
        all[i]->here = malloc(SPACE * sizeof(float));
        all[i]->there = dev->backend->block(dev, RP_CLASS_SCRATCH, SPACE * sizeof(float), &e);
        check(all[i]->value && all[i]->here && all[i]->there ? 0 : -1, &e);
    }
}

/* Threads in another order, and copies that are late or early, for each operation. */
FAMILY void next_order(void)
{
    mix++;
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix / 3 & 1;
    shim->ahead = mix / 2 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
}

/* In a process of its own: a device is opened once. `ptx`: the directory of its code, where the library executes
 * PTX. */
FAMILY void compare_family(int capability, enum rp_numerics numerics, const char *ptx, int is_short,
                           void (*compare_all)(int is_short))
{
    char number[8];
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        snprintf(number, sizeof number, "%d", capability);
        setenv("SHIM_CAPABILITY", number, 1);
        if (ptx)
            setenv("PTX_DIR", ptx, 1);
        setenv("RP_CUDA_GRAPHS", "0", 1);
        dev = gpu_here(&shim);
        dev->numerics = numerics;
        dev->stored_bytes = sizeof(uint16_t);
        compare_all(is_short);
        printf("# %s on %d: %u compared\n", rp_numerics_name(numerics), capability, mix);
        fflush(NULL);
        _exit(tap_failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "%s on %d: status %#x", rp_numerics_name(numerics), capability, status);
}

/* compare_all() for every family that the library can be: by PTX, one of its texts each; of the source, one a library.
 * `only`: a variable of the environment with a capability, in place of all. is_short: where it takes long, and on GPUs
 * of 8.0, whose code is that of 9.0, not everything, unless LONG=1 and one capability is named. */
FAMILY void compare_families(const char *only, void (*compare_all)(int is_short))
{
    static const int all[] = {70, 75, 80, 90, 130}; /* 130: of a GPU that gets PTX */
    const char *library = getenv("RP_SHIM_LIBRARY"), *build = getenv("BUILD");
    const int named[] = {getenv(only) ? atoi(getenv(only)) : 0}, *capability = *named ? named : all,
              count = *named ? 1 : COUNT(all);
    const int is_ptx = library && strstr(library, "/ptx/"), is_checked = library && strstr(library, "/checked/");
    const int is_old = library && strstr(library, "/700/"), is_sass = library && strstr(library, "/sass/");
    int done = 0;
    for (int i = 0; i < count; i++) {
        char ptx[512] = "";
        const int is_of_source = is_checked ? capability[i] == 80
                                 : is_old   ? capability[i] == 70
                                            : capability[i] == 80 || capability[i] == 90;
        if (!is_ptx && !is_sass && !is_of_source)
            continue;
        if (is_ptx && !getenv("PTX_DIR")) {
            /* GPUs of 8.0 execute what is compiled for compute_90: the two texts differ in their targets alone */
            snprintf(ptx, sizeof ptx, "%s/gpu/device/compute_%d", build ? build : "build",
                     capability[i] == 130  ? 100
                     : capability[i] == 80 ? 90
                                           : capability[i]);
            if (access(ptx, R_OK) != 0)
                continue;
        }
        for (int n = 0; n < RP_NUMERICS_COUNT; n++)
            if (rp_is_mixed((enum rp_numerics)n) && rp_cuda_has_arithmetic(capability[i], (enum rp_numerics)n)) {
                compare_family(capability[i], (enum rp_numerics)n, *ptx ? ptx : NULL,
                               (is_ptx || is_sass || capability[i] == 80) && !(*named && tap_long()), compare_all);
                done++;
            }
    }
    CHECK(done > 0, "nothing was compared");
}
