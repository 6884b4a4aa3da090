/* GEMM in mixed precision on the GPU: every tile of gemm16.def, both formats, in the arithmetic of each family, on shapes that fit no tile,
 * aligned and not, and with segments of k. All give the bits of ops/reference_low.inc.h and write nothing else.
 * shims: 800 700 ptx */
#define RP_STORED_TYPE float
#include "ops/low.h"
#include "tests/cuda/gpu.h"
#include "tests/ops/define.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define SPACE ((size_t)400 << 10) /* numbers of each matrix */

/* slack: pitches beyond the rows: 0 none, 1 to the next multiple of 8, 2 odd; offset: of every matrix, in numbers; kind: of A and B */
struct sample {
    int m, n, k, ta, tb, slack, offset, bias, add, in_place, f32;
    enum { RANDOM, UNDERFLOW, INFINITE } kind;
};

static struct rp_dev *dev;
static struct shim_options *shim;
static unsigned mix;

static struct matrix {
    float *value;  /* as the reference takes it */
    void *here;    /* the same as the device stores it */
    void *there;
} a_data, b_data, c_data, add_data, bias_data;

static const struct rp_arithmetic *arithmetic(void)
{
    return rp_arithmetic_of(dev->numerics);
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Numbers of both signs over a few octaves, some of them zero or subnormal; or none that is ordinary. */
static float draw(int kind)
{
    const uint32_t w = random_word();
    const float x = (float)((int)(w & 0xffff) - 32768) * 0x1p-15f;
    if (kind == UNDERFLOW)
        return x * 0x1p-24f;
    if (kind == INFINITE && w >> 20 == 7)
        return w & 1 ? __builtin_inff() : w & 2 ? -__builtin_inff() : __builtin_nanf("");
    return w >> 28 == 0 ? x * 0x1p-20f : w >> 28 == 1 ? 0.0f : w >> 28 == 2 ? x * 8 : x;
}

static void check(int r, const struct rp_err *e)
{
    if (!CHECK(r == 0, "%s", e->msg))
        exit(1);
}

/* n numbers of a matrix, stored as fp32 or in 16 bits. */
static void fill(struct matrix *x, size_t n, int f32, int kind)
{
    struct rp_err e = {0};
    for (size_t i = 0; i < n; i++) {
        const float v = draw(kind);
        const uint16_t low = rp_low_of(arithmetic()->format, bits_of(v));
        x->value[i] = f32 ? v : float_of(rp_low_value(arithmetic()->format, low));
        if (f32)
            ((float *)x->here)[i] = v;
        else
            ((uint16_t *)x->here)[i] = low;
    }
    check(dev->backend->upload(dev, x->there, x->here, n * (f32 ? 4 : 2), &e), &e);
}

static long pitch(int n, int slack)
{
    return slack == 0 ? n : slack == 1 ? (n + 7) / 8 * 8 : n + 3 - n % 2;
}

static void *moved(const struct matrix *x, size_t numbers, int f32)
{
    return (char *)x->there + numbers * (f32 ? 4 : 2);
}

/* What is there as the reference's numbers are, or any NaN for a NaN. */
static int is_same(const struct matrix *x, size_t i, int f32)
{
    const uint32_t expected = bits_of(x->value[i]);
    const uint32_t got = f32 ? ((const uint32_t *)x->here)[i] : rp_low_value(arithmetic()->format, ((const uint16_t *)x->here)[i]);
    return got == expected || ((got & 0x7fffffff) > 0x7f800000 && (expected & 0x7fffffff) > 0x7f800000);
}

static int compare(const struct sample *s, int tile)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_dev reference = {.op = &rp_reference_ops, .numerics = dev->numerics};
    struct rp_err e = {0};
    const size_t o = (size_t)s->offset, front = 64 + o;
    struct rp_gemm g = {.ta = s->ta, .tb = s->tb, .m = s->m, .n = s->n, .k = s->k, .lda = pitch(s->ta ? s->m : s->k, s->slack),
                        .ldb = pitch(s->tb ? s->k : s->n, s->slack), .ldc = pitch(s->n, s->slack)};
    g.ldadd = g.ldc;
    const size_t all = front + (size_t)s->m * (size_t)g.ldc + 64;
    int usable;
    mix++;
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix / 3 & 1;
    shim->ahead = mix / 2 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
    fill(&a_data, o + (size_t)g.lda * (size_t)(s->ta ? s->k : s->m), 0, s->kind);
    fill(&b_data, o + (size_t)g.ldb * (size_t)(s->tb ? s->n : s->k), 0, s->kind);
    fill(&c_data, all, s->f32, RANDOM);
    fill(&add_data, all, s->f32, RANDOM);
    fill(&bias_data, o + (size_t)s->n, 1, RANDOM);
    struct rp_gemm there = g;
    g.a = a_data.value + o, g.b = b_data.value + o, g.c = c_data.value + front;
    there.a = moved(&a_data, o, 0), there.b = moved(&b_data, o, 0), there.c = moved(&c_data, front, s->f32);
    if (s->bias)
        g.bias = bias_data.value + o, there.bias = moved(&bias_data, o, 1);
    if (s->add)
        g.add = s->in_place ? g.c : add_data.value + front, there.add = s->in_place ? there.c : moved(&add_data, front, s->f32);
    if (s->f32) {
        g.c32 = g.c, there.c32 = there.c, g.add32 = g.add, there.add32 = there.add;
        g.c = there.c = NULL;
        g.add = there.add = NULL;
    }
    c->gemm_forced.tile = tile;
    dev->op->gemm(dev, &there);
    c->gemm_forced.tile = 0;
    rp_reference_ops.gemm(&reference, &g);
    check(dev->backend->download(dev, c_data.here, c_data.there, all * (s->f32 ? 4 : 2), &e), &e);
    size_t bad = 0, first = 0;
    for (size_t i = all; i-- > 0;)
        if (!is_same(&c_data, i, s->f32)) {
            bad++;
            first = i;
        }
    CHECK(bad == 0, "%s, %s: %d x %d x %d, ta %d tb %d, slack %d offset %d, bias %d add %d in place %d, fp32 %d, kind %d, order %d late %d: "
          "%zu differ, the first at %ld, %ld: %a, expected %a", rp_numerics_name(dev->numerics),
          rp_cuda_gemm16_tile(c, c->gemm_done.tile, &usable), s->m, s->n, s->k, s->ta, s->tb, s->slack, s->offset, s->bias, s->add, s->in_place,
          s->f32, (int)s->kind, (int)shim->order, shim->late, bad, ((long)first - (long)front) / g.ldc, ((long)first - (long)front) % g.ldc,
          (double)(s->f32 ? ((float *)c_data.here)[first] : float_of(rp_low_value(arithmetic()->format, ((uint16_t *)c_data.here)[first]))),
          (double)c_data.value[first]);
    return c->gemm_done.tile;
}

static void take_memory(void)
{
    struct matrix *const all[] = {&a_data, &b_data, &c_data, &add_data, &bias_data};
    struct rp_err e = {0};
    for (int i = 0; i < COUNT(all); i++) {
        all[i]->value = malloc(SPACE * sizeof(float));
        all[i]->here = malloc(SPACE * sizeof(float));
        all[i]->there = dev->backend->block(dev, RP_CLASS_SCRATCH, SPACE * sizeof(float), &e);
        check(all[i]->value && all[i]->here && all[i]->there ? 0 : -1, &e);
    }
}

/* ---- what is compared in one arithmetic ---- */

static const int sizes[][3] = {{200, 196, 100}, {65, 70, 33}, {1, 1, 1}, {130, 129, 64}, {5, 300, 40}, {300, 3, 17}, {16, 24, 0}};

static void compare_tiles(int is_short)
{
    static int done[64];
    int usable;
    for (int tile = 1; rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable); tile++)
        for (int i = is_short ? tile % COUNT(sizes) : 0; usable && i < COUNT(sizes); i += is_short ? 3 : 1)
            for (int slack = 0; slack < 3; slack++) {
                const char *form = strchr(rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable), '_');
                const struct sample s = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .ta = form[1] == 't', .tb = form[2] == 't',
                                         .slack = slack, .offset = slack == 2 ? 1 + i : 0, .bias = (tile + i + slack) % 3 == 1,
                                         .add = (tile + i) % 4 > 1, .in_place = (tile + i) % 4 > 2, .f32 = (tile + slack) % 2};
                done[tile] += compare(&s, tile) == tile;
            }
    for (int tile = 1; rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable); tile++)
        CHECK(!usable || done[tile] >= 3, "%s was used %d times", rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable), done[tile]);
}

/* Sums of segments: in order where k is longer than a chain may be, in a tree for a weight gradient; with little workspace. */
static void compare_segments(void)
{
    static const struct sample samples[] = {
        {.m = 20, .n = 24, .k = 8300, .tb = 1, .bias = 1, .add = 1, .in_place = 1}, {.m = 7, .n = 9, .k = 24577, .slack = 2, .f32 = 1},
        {.m = 40, .n = 30, .k = 4100, .ta = 1, .f32 = 1, .slack = 1},               {.m = 9, .n = 8, .k = 33000, .ta = 1, .f32 = 1, .add = 1},
        {.m = 33, .n = 17, .k = 2048, .ta = 1, .f32 = 1, .offset = 1, .add = 1, .in_place = 1}, {.m = 30, .n = 31, .k = 2047, .ta = 1},
        {.m = 12, .n = 5, .k = 4100, .ta = 1, .tb = 1, .bias = 1},
    };
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t workspace = c->workspace_bytes;
    for (int i = 0; i < COUNT(samples); i++)
        compare(&samples[i], 0);
    c->workspace_bytes = 7 * rp_cuda_low_row_bytes(24, 2);
    compare(&samples[0], 0);
    c->workspace_bytes = workspace;
}

static void compare_extremes(void)
{
    for (int kind = UNDERFLOW; kind <= INFINITE; kind++)
        for (int form = 0; form < 4; form++)
            compare(&(struct sample){.m = 70, .n = 66, .k = 40, .ta = form >> 1, .tb = form & 1, .f32 = kind == UNDERFLOW, .kind = kind}, 0);
}

/* In a process of its own: a device is opened once. `ptx`: the directory of its code, where the library executes PTX. is_short: not every
 * size with every tile. */
static void compare_all(int capability, enum rp_numerics numerics, const char *ptx, int is_short)
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
        take_memory();
        compare_tiles(shim->checked || is_short || !tap_long());
        compare_segments();
        if (!shim->checked)
            compare_extremes();
        printf("# %s on %d: %u products\n", rp_numerics_name(numerics), capability, mix);
        fflush(NULL);
        _exit(tap_failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "%s on %d: status %#x", rp_numerics_name(numerics), capability, status);
}

TEST(every_tile_has_the_bits_of_the_reference_in_the_arithmetic_of_each_family)
{
    static const int all[] = {70, 75, 80, 90, 130}; /* 130: of a GPU that gets PTX */
    const char *library = getenv("RP_SHIM_LIBRARY"), *build = getenv("BUILD"), *only = getenv("GEMM16");
    const int named[] = {only ? atoi(only) : 0}, *capability = only ? named : all, count = only ? 1 : COUNT(all);
    const int is_ptx = library && strstr(library, "/ptx/"), is_checked = library && strstr(library, "/checked/");
    const int is_old = library && strstr(library, "/700/"), is_sass = library && strstr(library, "/sass/");
    int done = 0;
    for (int i = 0; i < count; i++) {
        char ptx[512] = "";
        const int is_of_source = is_checked ? capability[i] == 80 : is_old ? capability[i] == 70 : capability[i] == 80 || capability[i] == 90;
        if (!is_ptx && !is_sass && !is_of_source)
            continue;
        if (is_ptx && !getenv("PTX_DIR")) {
            snprintf(ptx, sizeof ptx, "%s/gpu/device/compute_%d", build ? build : "build", capability[i] == 130 ? 100 : capability[i]);
            if (access(ptx, R_OK) != 0)
                continue;
        }
        for (int n = 0; n < RP_NUMERICS_COUNT; n++)
            if (rp_is_mixed((enum rp_numerics)n) && rp_cuda_has_arithmetic(capability[i], (enum rp_numerics)n)) {
                compare_all(capability[i], (enum rp_numerics)n, *ptx ? ptx : NULL, is_ptx || is_sass);
                done++;
            }
    }
    CHECK(done > 0, "nothing was compared");
}
