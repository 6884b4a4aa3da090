/* The matrix product on the GPU in every way it can be done: each tile of gemm.def, each way to add segments, on shapes
 * that fit no tile, aligned and not. All give the bits of the definition, write nothing else, and leave the semaphores
 * at 0.
 * shims: 800 700 checked checked700 */
#define RP_STORED_TYPE float
#include "tests/cuda/gpu.h"
#include "tests/ops/define.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODES 3
#define SPACE ((size_t)1 << 20) /* floats of each matrix */
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const char *const modes[] = {"as it comes", "whole", "parallel", "serial"};

/* One product: sizes, how far pitches go beyond the rows and data beyond alignment, what is added. */
struct sample {
    int m, n, k, segment, ta, tb, slack, offset, bias, add, in_place, kind;
};
enum { RANDOM, UNDERFLOW, INFINITE };

static struct matrix {
    float *here, *there; /* same bytes: of this process, of the device */
} a_data, b_data, c_data, bias_data, add_data;
static float *expected;

static struct shim_options *shim;
/* Both signs, four decades, now and then zero or so small that products are subnormal. */
static float random_float(void)
{
    uint32_t w = random_word();
    float x = (float)((int)(w & 0xffff) - 32768) * 0x1p-15f;
    return w >> 28 == 0 ? x * 1e-25f : w >> 28 == 1 ? x * 1e3f : w >> 24 == 0x20 ? -0.0f : x;
}

static int send(struct rp_dev *dev, const struct matrix *x, size_t n)
{
    struct rp_err e = {0};
    return CHECK(dev->backend->upload(dev, x->there, x->here, n * sizeof(float), &e) == 0, "%s", e.msg);
}

static struct rp_dev *device(void)
{
    struct matrix *all[] = {&a_data, &b_data, &c_data, &bias_data, &add_data};
    struct rp_err e = {0};
    struct rp_dev *dev = gpu_here(&shim);
    for (int i = 0; i < COUNT(all) && !all[i]->here; i++) {
        all[i]->here = malloc(SPACE * sizeof(float));
        all[i]->there = dev->backend->block(dev, RP_CLASS_SCRATCH, SPACE * sizeof(float), &e);
        if (!CHECK(all[i]->here && all[i]->there, "%s", e.msg))
            exit(1);
        for (size_t j = 0; j < SPACE; j++)
            all[i]->here[j] = random_float();
        send(dev, all[i], SPACE);
    }
    shim->strict = 1;
    expected = expected ? expected : malloc(SPACE * sizeof(float));
    return dev;
}

static int same(float x, float y)
{
    return isnan(x) ? isnan(y) : memcmp(&x, &y, sizeof x) == 0;
}

/* ---- one product ---- */

static long pitch(int n, int slack)
{
    return slack == 0 ? n : slack == 1 ? (n + 3) / 4 * 4 : n + 7;
}

/* Only the extraordinary changes A and B. */
static void fill(struct rp_dev *dev, int kind)
{
    for (size_t i = 0; i < SPACE; i++) {
        a_data.here[i] = kind == UNDERFLOW ? 1e-30f : random_float(); /* every product underflows to -0 */
        b_data.here[i] = kind == UNDERFLOW ? -1e-30f : random_float();
    }
    for (size_t i = 77; i < SPACE && kind == INFINITE; i += 9001)
        a_data.here[i] = i & 1 ? INFINITY : NAN;
    send(dev, &a_data, SPACE);
    send(dev, &b_data, SPACE);
}

/* The product with pointers into what this process has, or the device. */
static struct rp_gemm product(const struct sample *s, int there)
{
#define OF(x) (there ? (x).there : (x).here)
    struct rp_gemm g = {.ta = s->ta, .tb = s->tb, .m = s->m, .n = s->n, .k = s->k, .segment = s->segment,
                        .a = OF(a_data) + s->offset, .lda = pitch(s->ta ? s->m : s->k, s->slack),
                        .b = OF(b_data) + s->offset, .ldb = pitch(s->tb ? s->k : s->n, s->slack),
                        .c = OF(c_data) + 64 + s->offset, .ldc = pitch(s->n, s->slack),
                        .bias = s->bias ? OF(bias_data) + s->offset : NULL, .ldadd = pitch(s->n, s->slack)};
    if (s->add)
        g.add = s->in_place ? g.c : OF(add_data) + s->offset;
    return g;
}

/* In a block of its own with nothing behind it, for the checks of accesses: *block is to be given back. */
static const float *tight(struct rp_dev *dev, const struct matrix *x, long offset, long rows, long columns, long ld,
                          void **block)
{
    struct rp_err e = {0};
    size_t n = (size_t)(offset + (rows - 1) * ld + columns);
    float *data = *block = dev->backend->shared(dev, n * sizeof(float), &e);
    if (!CHECK(data != NULL, "%s", e.msg))
        exit(1);
    memcpy(data, x->here, n * sizeof(float));
    return data + offset;
}

/* With the forced tile and mode, if possible; returns those that were used. */
static struct rp_cuda_gemm compare(struct rp_dev *dev, const struct sample *s, struct rp_cuda_gemm forced, unsigned mix)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_err e = {0};
    struct rp_gemm here = product(s, 0), there = product(s, 1);
    void *blocks[2] = {NULL, NULL};
    size_t size = 128 + (size_t)s->offset + (size_t)s->m * (size_t)here.ldc, bad = 0, first = 0;
    static unsigned semaphores[RP_CUDA_SEMAPHORES];
    int usable;
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix / 3 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
    for (size_t i = 0; i < size; i++)
        c_data.here[i] = random_float();
    send(dev, &c_data, size);
    if (shim->checked) {
        there.a = tight(dev, &a_data, s->offset, s->ta ? s->k : s->m, s->ta ? s->m : s->k, there.lda, &blocks[0]);
        there.b = tight(dev, &b_data, s->offset, s->tb ? s->n : s->k, s->tb ? s->k : s->n, there.ldb, &blocks[1]);
    }
    c->gemm_forced = forced;
    dev->op->gemm(dev, &there);
    define_gemm(&here);
    CHECK(dev->backend->download(dev, expected, c_data.there, size * sizeof(float), &e) == 0 &&
              dev->backend->download(dev, semaphores, c->semaphores, sizeof semaphores, &e) == 0, "%s", e.msg);
    for (int i = 0; i < 2 && blocks[i]; i++)
        dev->backend->free_shared(dev, blocks[i]);
    for (size_t i = size; i-- > 0;)
        if (!same(expected[i], c_data.here[i])) {
            bad++;
            first = i;
        }
    for (int i = 0; i < RP_CUDA_SEMAPHORES; i++)
        bad += semaphores[i] != 0;
    CHECK(bad == 0,
          "%s, %s, %d x %d x %d, segment %d, ta %d tb %d, slack %d offset %d, bias %d add %d in place %d, order %d "
          "late %d resident %d: %zu differ, the first at %zu",
          rp_cuda_gemm_tile(c, c->gemm_done.tile, &usable), modes[c->gemm_done.mode], s->m, s->n, s->k, s->segment,
          s->ta, s->tb, s->slack, s->offset, s->bias, s->add, s->in_place, (int)shim->order, shim->late, shim->resident,
          bad, first);
    return c->gemm_done;
}

/* ---- tests ---- */

/* Whether tile `number` could do it, from its name: "64x128_tn". */
static int suits(struct rp_dev *dev, int number, const struct sample *s)
{
    int usable;
    const char *name = rp_cuda_gemm_tile(rp_cuda_of(dev), number, &usable), *form = strchr(name, '_');
    int rows = 0, columns = 0;
    sscanf(name, "%dx%d", &rows, &columns);
    return !form || (s->m >= rows && s->n >= columns && (form[1] == 't') == s->ta && (form[2] == 't') == s->tb);
}

/* All tiles in all ways. `done` counts what was done as wished, [tile][mode]. */
static void all_ways(struct rp_dev *dev, struct sample s, int (*done)[MODES + 1], unsigned *mix)
{
    int usable;
    for (int tile = 1; rp_cuda_gemm_tile(rp_cuda_of(dev), tile, &usable); tile++)
        for (int mode = 1; mode <= (s.segment && s.segment < s.k ? MODES : 1) && usable && suits(dev, tile, &s);
             mode++) {
            s.bias = ++*mix % 3 == 1;
            s.add = *mix % 4 > 1;
            s.in_place = *mix % 8 > 4;
            struct rp_cuda_gemm how = compare(dev, &s, (struct rp_cuda_gemm){.tile = tile, .mode = mode}, *mix);
            done[tile][mode] += how.tile == tile && how.mode == mode;
        }
}

/* Where every access is checked: the first alone, in a way that lets each tile do it once. */
static const struct {
    int m, n, k, segment;
} shapes[] = {{196, 200, 40, 18}, {77, 301, 1023, 512}, {1, 1, 1, 0},      {129, 65, 513, 100}, {260, 388, 100, 0},
              {200, 196, 516, 64}, {2, 300, 70, 0},    {300, 2, 33, 0},    {64, 128, 16, 0},    {192, 192, 48, 9},
              {193, 193, 40, 16},  {400, 130, 100, 67}, {64, 600, 90, 30},  {70, 130, 4100, 2048}};

TEST(every_tile_in_every_way_has_the_bits_of_the_definition)
{
    static int done[64][MODES + 1];
    struct rp_dev *dev = device();
    unsigned mix = 0;
    fill(dev, RANDOM);
    for (int i = 0; i < (shim->checked ? 1 : COUNT(shapes)); i++)
        for (int form = 0; form < 4; form++)
            for (int slack = 0; slack < 3; slack++) {
                int as_none = slack == 1 && (shapes[i].m | shapes[i].n | shapes[i].k) % 4 == 0,
                    long_ones = shapes[i].k > 1000;
                if (!shim->checked && !gpu_turn(dev, (unsigned)(i + form / 2 + slack)))
                    continue;
                if (as_none || (long_ones && slack != form % 3) || (shim->checked && slack != (form & 1 ? 2 : 0)))
                    continue;
                struct sample s = {.m = shapes[i].m, .n = shapes[i].n, .k = shapes[i].k, .segment = shapes[i].segment,
                                   .ta = form >> 1, .tb = form & 1, .slack = slack,
                                   .offset = slack == 2 ? 1 + i % 3 : 0};
                all_ways(dev, s, done, &mix);
            }
    const char *name;
    int usable, all = 0;
    for (int tile = 1; (name = rp_cuda_gemm_tile(rp_cuda_of(dev), tile, &usable)) != NULL; tile++)
        for (int mode = 1; mode <= MODES; mode++) {
            CHECK(!usable || done[tile][mode] >= (tap_long() && !shim->checked ? 3 : 1), "%s %s: done %d times", name,
                  modes[mode], done[tile][mode]);
            all += done[tile][mode];
        }
    printf("# %d products\n", all);
}

TEST(a_zero_has_one_sign_and_what_is_not_finite_stays_in_its_row)
{
    static int done[64][MODES + 1];
    struct rp_dev *dev = device();
    unsigned mix = 5;
    if (shim->checked)
        SKIP("with checks it takes long and sees nothing new");
    for (int kind = UNDERFLOW; kind <= INFINITE; kind++) {
        fill(dev, kind);
        for (int form = 0; form < 4; form++)
            if (gpu_turn(dev, (unsigned)(kind + form / 2)))
                all_ways(dev,
                         (struct sample){.m = 193, .n = 196, .k = 40, .segment = 18, .ta = form >> 1, .tb = form & 1},
                         done, &mix);
    }
}

/* The gradient of an embedding that is also the output layer: blocks of rows, each one chain, are added to it. */
TEST(one_chain_is_added_to_its_own_result)
{
    struct rp_dev *dev = device();
    int usable;
    unsigned mix = 0;
    fill(dev, RANDOM);
    for (int tile = 1; rp_cuda_gemm_tile(rp_cuda_of(dev), tile, &usable); tile++)
        for (int form = 0; form < 4; form++, mix++) {
            const struct sample s = {
                .m = 200, .n = 196, .k = 64, .segment = 64, .ta = form >> 1, .tb = form & 1, .add = 1, .in_place = 1};
            if (usable && suits(dev, tile, &s) && !(shim->checked && form != 2))
                CHECK(compare(dev, &s, (struct rp_cuda_gemm){.tile = tile}, mix).tile == tile, "tile %d", tile);
        }
}

/* Sums of segments that have to be in the workspace, which is too small for all rows. */
TEST(a_long_product_added_to_itself_is_done_in_bands)
{
    struct rp_dev *dev = device();
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t workspace = c->workspace_bytes;
    fill(dev, RANDOM);
    for (unsigned mix = 0; mix < 12; mix++) {
        struct sample s = {.m = 300, .n = 132, .k = 70, .segment = 30, .ta = mix >> 1 & 1, .tb = mix & 1, .bias = 1,
                           .add = 1, .in_place = 1};
        c->workspace_bytes = mix % 3 ? 70 * 132 * sizeof(float) : 3 * 132 * sizeof(float);
        compare(dev, &s, (struct rp_cuda_gemm){.mode = (int)(1 + mix % 3)}, mix);
    }
    c->workspace_bytes = workspace;
}

/* The semaphores are at 0 again whenever a graph reaches the next GEMM. */
TEST(turns_work_again_and_again_within_a_graph)
{
    struct rp_dev *dev = device();
    struct rp_err e = {0};
    struct rp_cuda *c = rp_cuda_of(dev);
    struct sample s = {.m = 200, .n = 132, .k = 64, .segment = 16};
    struct rp_gemm here = product(&s, 0), there = product(&s, 1);
    c->gemm_forced = (struct rp_cuda_gemm){.mode = 1 + RP_GEMM_SERIAL};
    define_gemm(&here);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 10; i++)
            dev->op->gemm(dev, &there);
        CHECK(c->gemm_done.mode == 1 + RP_GEMM_SERIAL);
        CHECK(dev->backend->download(dev, expected, c_data.there, SPACE * sizeof(float), &e) == 0, "%s", e.msg);
        CHECK(memcmp(expected + 64, here.c, (size_t)s.m * (size_t)s.n * sizeof(float)) == 0, "step %d", step);
    }
}

/* As selftest calls them on a GPU (PRODUCTS in backend/selftest.c), after some others. */
TEST(rotation_takes_every_way)
{
    struct rp_dev *dev = device();
    struct rp_cuda *c = rp_cuda_of(dev);
    int done[64][MODES + 1] = {{0}}, usable;
    c->gemm_forced = (struct rp_cuda_gemm){.mode = 0};
    c->gemm_rotates = 1;
    c->gemms = 5;
    for (int i = 0; i < 80; i++) {
        struct sample s = {.m = 200, .n = 196, .k = 40, .segment = 36, .ta = i & 1, .tb = i >> 1 & 1};
        struct rp_gemm g = product(&s, 1);
        dev->op->gemm(dev, &g);
        done[c->gemm_done.tile][c->gemm_done.mode]++;
    }
    c->gemm_rotates = 0;
    for (int tile = 1; rp_cuda_gemm_tile(c, tile, &usable); tile++)
        for (int mode = 1; mode <= MODES; mode++)
            CHECK(!usable || done[tile][mode], "%s %s", rp_cuda_gemm_tile(c, tile, &usable), modes[mode]);
}

/* What is chosen for the products of BERT-base: batch 32 of length 128 and its head; forward, gradients of data and of
 * weights. Every choice has the same bits: a line that changes here is a decision about speed. */
TEST(choices)
{
    static const struct {
        const char *gpu;
        int arch, multiprocessors, shared;
        const char *chosen[9];
    } gpus[] = {
        {"H100, H200", 90, 132, 232448,
         {"192x192_nt whole", "192x128_nt whole", "64x128_nn whole", "192x192_tn parallel", "128x128_tn serial",
          "128x128_nt whole", "64x128_nn parallel", "64x128_tn1 serial", "32x32 whole"}},
        {"A100", 80, 108, 166912,
         {"64x128_nt whole", "128x128_nt whole", "128x128_nn whole", "128x128_tn parallel", "128x128_tn serial",
          "64x128_nt whole", "64x128_nn parallel", "64x128_tn1 serial", "32x32 whole"}},
        {"V100", 70, 80, 98304,
         {"64x128_nt whole", "64x128_nt whole", "64x128_nn whole", "64x128_tn parallel", "64x128_tn serial",
          "64x128_nt whole", "64x128_nn parallel", "64x128_tn1 whole", "32x32 whole"}},
        {"RTX 4090", 89, 128, 101376,
         {"64x128_nt whole", "64x128_nt whole", "64x128_nn whole", "192x192_tn parallel", "192x192_tn serial",
          "128x128_nt whole", "128x128_nn parallel", "64x128_tn1 serial", "32x32 whole"}},
        {"T4", 75, 40, 65536,
         {"64x128_nt whole", "64x128_nt whole", "64x128_nn whole", "64x128_tn serial", "64x128_tn serial",
          "64x128_nt whole", "64x128_nn serial", "64x128_tn1 whole", "32x32 whole"}},
    };
    static const struct rp_gemm products[] = {{.tb = 1, .m = 4096, .n = 2304, .k = 768},
                                              {.tb = 1, .m = 4096, .n = 768, .k = 3072},
                                              {.m = 4096, .n = 768, .k = 2304},
                                              {.ta = 1, .m = 768, .n = 768, .k = 4096, .segment = 512},
                                              {.ta = 1, .m = 3072, .n = 768, .k = 12288, .segment = 512},
                                              {.tb = 1, .m = 640, .n = 30522, .k = 768},
                                              {.m = 640, .n = 768, .k = 30522, .segment = 2048},
                                              {.ta = 1, .m = 30522, .n = 768, .k = 640, .segment = 512},
                                              {.tb = 1, .m = 32, .n = 2, .k = 768}};
    for (int i = 0; i < COUNT(gpus); i++)
        for (int j = 0; j < COUNT(products); j++) {
            struct rp_cuda_image image = {.arch = gpus[i].arch};
            struct rp_cuda c = {.image = &image, .multiprocessors = gpus[i].multiprocessors,
                                .gpu.shared_max = (size_t)gpus[i].shared, .workspace_bytes = RP_CUDA_GEMM_WORKSPACE};
            struct rp_gemm g = products[j];
            char text[64];
            int usable;
            g.lda = g.ta ? g.m : g.k;
            g.ldb = g.tb ? g.k : g.n;
            g.ldc = g.n;
            struct rp_cuda_gemm how = rp_cuda_gemm_choice(&c, &g, 0);
            snprintf(text, sizeof text, "%s %s", rp_cuda_gemm_tile(&c, how.tile, &usable), modes[how.mode]);
            CHECK(usable && strcmp(text, gpus[i].chosen[j]) == 0, "%s, %d x %d x %d: %s, not %s", gpus[i].gpu, g.m, g.n,
                  g.k, text, gpus[i].chosen[j]);
        }
}

TEST(a_tile_fits_the_memory_that_a_block_may_have)
{
    struct rp_cuda_image image = {.arch = 90};
    struct rp_cuda c = {.image = &image, .multiprocessors = 132, .gpu.shared_max = 49152,
                        .workspace_bytes = RP_CUDA_GEMM_WORKSPACE};
    struct rp_gemm g = {.tb = 1, .m = 4096, .n = 2304, .k = 768, .lda = 768, .ldb = 768, .ldc = 2304};
    int usable;
    CHECK_STR(rp_cuda_gemm_tile(&c, rp_cuda_gemm_choice(&c, &g, 0).tile, &usable), "64x128_nt");
}
