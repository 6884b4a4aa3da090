/* Our matrix products against MKL and OpenBLAS, in one process, in random order.
 *
 *     gemm_bench ISA THREADS REPEATS OUT.json NAME=LIBRARY... [tc16] [tc8] [tc4]
 *
 * tc16, tc8 and tc4 are our own products of fp16 matrices with a tensor core's sums, which cost several times those in
 * fp32. NAME "mkl" is MKL; any other is a core type of OpenBLAS, one copy of the library per name: a second load of the
 * same file would be the first one. All contenders share the matrices. In each repeat they run once each in a new
 * random order, so that a clock that drifts or a neighbour that wakes up meets all of them; a ratio is the median over
 * repeats of (their time / our time). Weight gradients are chains of 512 and K = 30522 chains of 2048 on our side; the
 * libraries may add in any order.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "backend/cpu/tc_gemm.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define CONTENDERS 8
#define REPEATS 99

/* cblas_sgemm: order, transpose of A and B, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc */
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                         int);

struct contender {
    const char *name;
    sgemm_fn sgemm; /* NULL: ours */
    struct rp_tc tc; /* of ours, if products is not 0 */
};

static struct contender contender[CONTENDERS];
static int contenders;
static const struct rp_tc_kernel *tc_kernel;
static void *tc_scratch;
static struct rp_cpu cpu; /* as much of the device as a product needs: no other operation is linked in */

/* BERT-base, 32 sequences of 128 tokens, 20 predictions each; calls in one step. Weights are stored [out, in]. */
static const struct shape {
    const char *name;
    int m, n, k, ta, tb, calls;
} shapes[] = {
    {"forward qkv", 4096, 2304, 768, 0, 1, 12},      {"forward proj", 4096, 768, 768, 0, 1, 12},
    {"forward ff1", 4096, 3072, 768, 0, 1, 12},      {"forward ff2", 4096, 768, 3072, 0, 1, 12},
    {"forward decoder", 640, 30522, 768, 0, 1, 1},   {"data grad qkv", 4096, 768, 2304, 0, 0, 12},
    {"data grad proj", 4096, 768, 768, 0, 0, 12},    {"data grad ff1", 4096, 768, 3072, 0, 0, 12},
    {"data grad ff2", 4096, 3072, 768, 0, 0, 12},    {"data grad decoder", 640, 768, 30522, 0, 0, 1},
    {"weight grad qkv", 2304, 768, 4096, 1, 0, 12},  {"weight grad proj", 768, 768, 4096, 1, 0, 12},
    {"weight grad ff1", 3072, 768, 4096, 1, 0, 12},  {"weight grad ff2", 768, 3072, 4096, 1, 0, 12},
    {"weight grad decoder", 30522, 768, 640, 1, 0, 1},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t state = 88172645463325252u;

static uint64_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static float *matrix(size_t n, int zero)
{
    size_t bytes = (n * sizeof(float) + (2u << 20) - 1) >> 21 << 21;
    float *p = aligned_alloc(2u << 20, bytes);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < n; i++)
        p[i] = zero ? 0.0f : (float)(random_bits() >> 40) * 0x1p-23f - 1.0f;
    return p;
}

static void *symbol(void *library, const char *const *names)
{
    for (; *names; names++) {
        void *s = dlsym(library, *names);
        if (s)
            return s;
    }
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

/* Both libraries read their environment when they are loaded or first called. Their threads must not spin on into our
 * turn. */
static void load(char *spec, const char *isa, int threads)
{
    static const char *const sgemm[] = {"cblas_sgemm", "scipy_cblas_sgemm", NULL};
    static const char *const set_threads[] = {"MKL_Set_Num_Threads", "openblas_set_num_threads",
                                              "scipy_openblas_set_num_threads", NULL};
    char *path = strchr(spec, '=');
    if (!path || contenders == CONTENDERS) {
        fprintf(stderr, "expected NAME=LIBRARY, at most %d: '%s'\n", CONTENDERS - 1, spec);
        exit(2);
    }
    *path++ = 0;
    setenv("KMP_BLOCKTIME", "1", 1);              /* milliseconds */
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1);   /* 2^20 cycles */
    if (strcmp(spec, "mkl")) /* on some virtual AVX-512 machines OpenBLAS chooses its Haswell kernels by itself */
        setenv("OPENBLAS_CORETYPE", spec, 1);
    else if (!strcmp(isa, "avx2"))
        setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2", 1);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void (*set)(int);
    *(void **)&set = symbol(library, set_threads);
    set(threads);
    contender[contenders].name = spec;
    *(void **)&contender[contenders++].sgemm = symbol(library, sgemm);
}

/* Whether the name is one of the tensor cores'. */
static int add_tensor_core(const char *name)
{
    static const struct contender known[] = {
        {.name = "tc16", .tc = RP_TC16}, {.name = "tc8", .tc = RP_TC8}, {.name = "tc4", .tc = RP_TC4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name) && contenders < CONTENDERS) {
            contender[contenders++] = known[i];
            return 1;
        }
    return 0;
}

struct operands {
    float *a, *b, *c;
    uint16_t *a16, *b16;
};

static uint16_t *halves(const float *x, size_t n)
{
    uint16_t *p = (uint16_t *)matrix((n + 1) / 2, 1);
    for (size_t i = 0; i < n; i++) {
        const _Float16 half = (_Float16)x[i];
        memcpy(p + i, &half, sizeof half);
    }
    return p;
}

static double run(const struct contender *who, const struct shape *s, const struct operands *o)
{
    int lda = s->ta ? s->m : s->k, ldb = s->tb ? s->k : s->n;
    double start = seconds();
    if (who->sgemm) {
        who->sgemm(101, s->ta ? 112 : 111, s->tb ? 112 : 111, s->m, s->n, s->k, 1.0f, o->a, lda, o->b, ldb, 0.0f, o->c,
                   s->n);
    } else if (who->tc.products) {
        const struct rp_tc_gemm g = {.format = RP_TC_FP16, .tc = who->tc, .ta = s->ta, .tb = s->tb, .m = s->m,
                                     .n = s->n, .k = s->k, .a = o->a16, .lda = lda, .b = o->b16, .ldb = ldb, .c = o->c,
                                     .ldc = s->n};
        rp_tc_gemm_run(tc_kernel, cpu.pool, cpu.threads, tc_scratch, &g, NULL);
    } else {
        struct rp_gemm g = {
            .ta = s->ta, .tb = s->tb, .m = s->m, .n = s->n, .k = s->k, .a = o->a, .lda = lda, .b = o->b, .ldb = ldb};
        g.segment = s->ta ? RP_SEGMENT_WGRAD : rp_segment(s->k);
        g.c = o->c;
        g.ldc = s->n;
        rp_cpu_gemm(&cpu.dev, &g);
    }
    return seconds() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *x, int n)
{
    double copy[REPEATS];
    memcpy(copy, x, (size_t)n * sizeof *x);
    qsort(copy, (size_t)n, sizeof *copy, by_value);
    return n % 2 ? copy[n / 2] : (copy[n / 2 - 1] + copy[n / 2]) / 2;
}

struct totals {
    double log_ratio[CONTENDERS], log_best, step[CONTENDERS]; /* step: seconds of all products of one training step */
};

/* time[c][r]: contender c in repeat r */
static void measure(const struct shape *s, int repeats, double time[CONTENDERS][REPEATS])
{
    struct operands o = {.a = matrix((size_t)s->m * (size_t)s->k, 0), .b = matrix((size_t)s->n * (size_t)s->k, 0),
                         .c = matrix((size_t)s->m * (size_t)s->n, 1)};
    o.a16 = halves(o.a, (size_t)s->m * (size_t)s->k);
    o.b16 = halves(o.b, (size_t)s->n * (size_t)s->k);
    for (int r = -1; r < repeats; r++) { /* -1 warms up */
        int order[CONTENDERS];
        for (int c = 0; c < contenders; c++) {
            int at = (int)(random_bits() % (uint64_t)(c + 1));
            order[c] = order[at];
            order[at] = c;
        }
        for (int c = 0; c < contenders; c++) {
            double t = run(&contender[order[c]], s, &o);
            if (r >= 0)
                time[order[c]][r] = t;
        }
    }
    free(o.a);
    free(o.b);
    free(o.c);
    free(o.a16);
    free(o.b16);
}

static void report(FILE *json, const struct shape *s, int repeats, double time[CONTENDERS][REPEATS], struct totals *sum,
                   int last)
{
    double flops = 2.0 * s->m * s->n * s->k, best = HUGE_VAL;
    printf("%-20s %6dx%-6dx%-6d", s->name, s->m, s->n, s->k);
    fprintf(json, "    {\"name\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"seconds\": {", s->name, s->m, s->n, s->k);
    for (int c = 0; c < contenders; c++) {
        double ratio[REPEATS];
        for (int r = 0; r < repeats; r++)
            ratio[r] = time[c][r] / time[0][r];
        double x = median(ratio, repeats), t = median(time[c], repeats);
        sum->log_ratio[c] += log(x);
        sum->step[c] += t * s->calls;
        if (c && !contender[c].tc.products && x < best)
            best = x;
        if (c)
            printf(" %10.3f", x);
        else
            printf(" %10.1f", flops / t * 1e-9);
        fprintf(json, "%s\"%s\": [", c ? ", " : "", contender[c].name);
        for (int r = 0; r < repeats; r++)
            fprintf(json, "%s%.6f", r ? ", " : "", time[c][r]);
        fprintf(json, "]");
    }
    fprintf(json, "}}%s\n", last ? "" : ",");
    sum->log_best += log(best);
    printf(" %10.3f\n", best);
    fflush(stdout);
}

static void header(const char *isa, int threads, int repeats)
{
    printf("%s, %d thread%s, %d repeats: our GF/s, then their time / our time\n%-41s %10s", isa, threads,
           threads > 1 ? "s" : "", repeats, "m x n x k", "GF/s");
    for (int c = 1; c < contenders; c++)
        printf(" %10.10s", contender[c].name);
    printf(" %10s\n", "best");
}

static int open_ours(const char *name, int threads, struct rp_err *err)
{
    int isa = rp_isa_from_name(name);
    if (isa < 0 || !rp_isa_usable((enum rp_isa)isa))
        return rp_fail(err, RP_UNAVAILABLE, "instruction set '%s' is not usable here", name);
    cpu.isa = (enum rp_isa)isa;
    cpu.threads = threads;
    cpu.scratch_each = (rp_cpu_gemm_scratch(4096, 0) + (2u << 20) - 1) >> 21 << 21;
    cpu.scratch = (unsigned char *)matrix((size_t)threads * cpu.scratch_each / sizeof(float), 1);
    cpu.gemm = rp_cpu_gemm_kernel(cpu.isa);
    cpu.pool = rp_pool_new(threads, err);
    tc_kernel = rp_tc_kernel(cpu.isa, 1);
    tc_scratch = matrix((size_t)threads * rp_tc_scratch(tc_kernel) / sizeof(float), 1);
    return cpu.pool ? 0 : -1;
}

int main(int argc, char **argv)
{
    static double time[CONTENDERS][REPEATS];
    struct totals sum = {{0}, 0, {0}};
    struct rp_err err;
    if (argc < 6) {
        fprintf(stderr, "usage: gemm_bench ISA THREADS REPEATS OUT.json NAME=LIBRARY... [tc16] [tc8] [tc4]\n");
        return 2;
    }
    int threads = atoi(argv[2]), repeats = atoi(argv[3]);
    if (threads < 1 || repeats < 1 || repeats > REPEATS) {
        fprintf(stderr, "threads from 1, repeats from 1 to %d\n", REPEATS);
        return 2;
    }
    contender[contenders++].name = "repro";
    for (int i = 5; i < argc; i++)
        if (!add_tensor_core(argv[i]))
            load(argv[i], argv[1], threads);
    if (open_ours(argv[1], threads, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    FILE *json = fopen(argv[4], "w");
    if (!json) {
        perror(argv[4]);
        return 1;
    }
    fprintf(json, "{\n  \"isa\": \"%s\", \"threads\": %d, \"repeats\": %d,\n  \"shapes\": [\n", argv[1], threads,
            repeats);
    header(argv[1], threads, repeats);
    for (int s = 0; s < SHAPES; s++) {
        measure(&shapes[s], repeats, time);
        report(json, &shapes[s], repeats, time, &sum, s == SHAPES - 1);
    }
    printf("%-41s %10s", "geometric mean", "");
    fprintf(json, "  ],\n  \"geometric_mean\": {");
    for (int c = 1; c < contenders; c++) {
        printf(" %10.3f", exp(sum.log_ratio[c] / SHAPES));
        fprintf(json, "\"%s\": %.4f, ", contender[c].name, exp(sum.log_ratio[c] / SHAPES));
    }
    printf(" %10.3f\n%-41s %10.3f", exp(sum.log_best / SHAPES), "products of one training step, s", sum.step[0]);
    fprintf(json, "\"best\": %.4f},\n  \"step_seconds\": {\"repro\": %.4f", exp(sum.log_best / SHAPES), sum.step[0]);
    for (int c = 1; c < contenders; c++) {
        printf(" %10.3f", sum.step[c]);
        fprintf(json, ", \"%s\": %.4f", contender[c].name, sum.step[c]);
    }
    printf("\n\n");
    fprintf(json, "}\n}\n");
    rp_pool_free(cpu.pool);
    return fclose(json) ? 1 : 0;
}
