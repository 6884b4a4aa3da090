/* How fast the matrix products, convolutions and attention may be, by estimate: what their main loops consist of, and
 * for BERT's and GPT's products and attention and ResNet-50's convolutions on three GPUs the kernel that the host code
 * takes and the share of the peak that is expected of it. tests/cuda/estimates.txt has them, RP_UPDATE=1 writes it. The
 * rates in gemm.def and conv.def, by which the host code chooses, are measured: at most what the loops allow. */
#include "backend/cuda/attention.h"
#include "backend/cuda/inner.h"
#include "tests/cuda/device_code.h"
#include "tests/cuda/expected.h"
#include "tests/cuda/sass.h"

#include <string.h>
#include <unistd.h>

#define TABLE "tests/cuda/estimates.txt"

static const struct {
    const char *name;
    int from, before, rate;
} tiles[] = {
#define TILE(name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b, from,      \
             before, rate)                                                                                             \
    {"gemm_" #name, from, before, rate},
#include "backend/cuda/gemm.def"
#undef TILE
#define FORWARD(name, ...) CONV("conv_forward_" #name, __VA_ARGS__)
#define DGRAD(name, ...) CONV("conv_dgrad_" #name, __VA_ARGS__)
#define WGRAD(name, ...) CONV("conv_wgrad_" #name, __VA_ARGS__)
#define CONV(name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across, vectors, from, before,   \
             rate)                                                                                                     \
    {name, from, before, rate},
#include "backend/cuda/conv.def"
#undef FORWARD
#undef DGRAD
#undef WGRAD
#undef CONV
};
enum { TILES = sizeof tiles / sizeof *tiles };

static const int archs[] = {70, 75, 80, 86, 89, 90};
enum { ARCHS = sizeof archs / sizeof *archs };

struct loops {
    int arch;
    struct sass_loop loop[TILES];
};

static void add_kernel(void *user, const char *kernel, const unsigned char *code, size_t bytes)
{
    struct loops *l = user;
    for (int i = 0; i < TILES; i++)
        if (strncmp(kernel, "rp_", 3) == 0 && strcmp(kernel + 3, tiles[i].name) == 0 && l->arch >= tiles[i].from &&
            l->arch < tiles[i].before)
            CHECK(sass_main_loop(&l->loop[i], code, bytes, l->arch), "%s for sm_%d: no main loop is found", kernel,
                  l->arch);
}

static const char *device_code(char path[256], int arch, const char *part)
{
    const char *build = getenv("BUILD");
    snprintf(path, 256, "%s/gpu/device/sm_%d/%s", build ? build : "build", arch, part);
    return path;
}

static void tile_table(struct rp_buf *out, const struct loops *loops)
{
    rp_buf_puts(out, "kernel              ");
    for (int i = 0; i < ARCHS; i++)
        rp_buf_printf(out, "      sm_%d", archs[i]);
    rp_buf_puts(out, "  rate\n");
    for (int t = 0; t < TILES; t++) {
        rp_buf_printf(out, "%-20s", tiles[t].name);
        for (int i = 0; i < ARCHS; i++) {
            const struct sass_loop *l = &loops[i].loop[t];
            if (l->ffma)
                rp_buf_printf(out, "  %3.0f %4.1f%c", 100.0 * l->ffma / l->instructions, 100.0 * l->bound,
                              l->local ? '!' : ' ');
            else
                rp_buf_puts(out, "    -    - ");
        }
        const struct sass_loop *last = &loops[tiles[t].before > 90 ? ARCHS - 1 : 1].loop[t];
        const double issue = 100.0 * (tiles[t].before > 90 ? last->bound : (double)last->ffma / last->instructions);
        CHECK(tiles[t].rate <= issue && tiles[t].rate > issue / 2, "%s counts with %d per cent, its loop allows %.1f",
              tiles[t].name, tiles[t].rate, issue);
        rp_buf_printf(out, "  %4d\n", tiles[t].rate);
    }
}

/* ---- products with tensor cores ---- */

static const struct {
    const char *name;
    int from, before;
} tiles16[] = {
    /* those of gemm16.def and gemm16_wgmma.def first, in their order */
#define TILE16(name, threads, blocks, rows, columns, down, across, a_by_k, b_by_k, from, before)                       \
    {"gemm16_f16_" #name, from, before},
#include "backend/cuda/gemm16.def"
#undef TILE16
#define WGMMA16(name, ...) {"gemm16_f16_" #name, 90, 91},
#include "backend/cuda/gemm16_wgmma.def"
#undef WGMMA16
    {"conv16_forward_f16_128x128", 80, 999}, {"conv16_dgrad_f16_128x128", 80, 999},
    {"conv16_wgrad_f16_128x128", 80, 999},   {"conv16_forward_f16_64x64", 70, 999},
    {"conv16_dgrad_f16_64x64", 70, 999},     {"conv16_wgrad_f16_64x64", 70, 999},
    {"attention16_forward_f16_64", 70, 999}, {"attention16_keys_f16_64", 70, 999},
    {"attention16_queries_f16_64", 70, 999}, {"attention16_forward_f16_128", 70, 999},
    {"attention16_keys_f16_128", 70, 999},   {"attention16_queries_f16_128", 70, 999},
};
static const char *const parts16[] = {"gemm16", "conv16", "attention16"};
enum { TILES16 = sizeof tiles16 / sizeof *tiles16 };
static const int archs16[] = {70, 75, 80, 89, 90, 100, 120};
enum { ARCHS16 = sizeof archs16 / sizeof *archs16 };
static struct loops16 {
    int arch;
    struct sass_product_loop loop[TILES16];
} loops16[ARCHS16];

static void add_kernel16(void *user, const char *kernel, const unsigned char *code, size_t bytes)
{
    struct loops16 *l = user;
    for (int i = 0; i < TILES16; i++)
        if (strncmp(kernel, "rp_", 3) == 0 && strcmp(kernel + 3, tiles16[i].name) == 0 && l->arch >= tiles16[i].from &&
            l->arch < tiles16[i].before) {
            CHECK(sass_product_loop(&l->loop[i], code, bytes, l->arch), "%s for sm_%d: no main loop is found", kernel,
                  l->arch);
            /* where ptxas finds sums touched too early, it waits after each HGMMA */
            CHECK(!strstr(kernel, "_wgmma") ||
                      (l->loop[i].products == 4 && l->loop[i].fences == 1 && l->loop[i].waits == 1),
                  "%s: %d HGMMA in the loop, %d fences, %d waits", kernel, l->loop[i].products, l->loop[i].fences,
                  l->loop[i].waits);
            CHECK(!l->loop[i].local, "%s for sm_%d: local memory in the loop", kernel, l->arch);
        }
}

static void tile16_table(struct rp_buf *out)
{
    rp_buf_puts(out, "\nProducts in mixed precision, of fp16; with bf16 loops are the same. Per cent of the main "
                     "loop's instructions that are HMMA,\n"
                     "of wgmma HGMMA, and per cent of the tensor cores' peak that the model of tests/cuda/sass.h "
                     "allows. By mma.sync no more than about 62 per\n"
                     "cent of it can be had on sm_90 (by wgmma 78), and a fifth or a quarter on sm_100, as others have "
                     "measured. The loops contain the code for\n"
                     "operands that are not aligned, which others jump over: they can reach more. Of attention it is "
                     "the innermost loop\n"
                     "with most products.\n\nkernel                      ");
    for (int i = 0; i < ARCHS16; i++)
        rp_buf_printf(out, "%*ssm_%d", archs16[i] < 100 ? 6 : 5, "", archs16[i]);
    rp_buf_puts(out, "\n");
    for (int t = 0; t < TILES16; t++) {
        rp_buf_printf(out, "%-28s", tiles16[t].name);
        for (int i = 0; i < ARCHS16; i++)
            if (loops16[i].loop[t].products)
                rp_buf_printf(out, "  %3.0f %4.0f",
                              100.0 * loops16[i].loop[t].products / loops16[i].loop[t].instructions,
                              100.0 * loops16[i].loop[t].bound);
            else
                rp_buf_puts(out, "    -    -");
        rp_buf_puts(out, "\n");
    }
}

/* cap: what mma.sync reaches of the peak at most. By wgmma others have measured up to 78 per cent (cuBLAS on H100). */
#define WGMMA_CAP 0.78
static const struct {
    const char *name;
    int arch, multiprocessors, shared;
    double ghz, terabytes, cap;
} tensor_gpus[] = {{"V100", 70, 80, 98304, 1.53, 0.9, 1},
                   {"A100", 80, 108, 166912, 1.41, 1.555, 1},
                   {"H100", 90, 132, 232448, 1.83, 3.35, 0.62},
                   {"B200", 100, 148, 232448, 1.85, 8.0, 0.25}};
enum { TENSOR_GPUS = sizeof tensor_gpus / sizeof *tensor_gpus };

/* The longer of the arithmetic, by the tile that is taken and what its loop allows, and of reading A and B and writing
 * C once. */
static void low_product_row(struct rp_buf *out, struct rp_gemm g)
{
    const double bytes = 2.0 * ((double)g.m * g.k + (double)g.n * g.k) + (g.ta ? 4.0 : 2.0) * g.m * g.n;
    rp_buf_printf(out, "%s %5d x %5d x %5d", g.ta ? "TN" : g.tb ? "NT" : "NN", g.m, g.n, g.k);
    for (int i = 0; i < TENSOR_GPUS; i++) {
        const struct rp_cuda_image image = {.arch = tensor_gpus[i].arch};
        const int has_wgmma = tensor_gpus[i].arch == 90;
        const struct rp_cuda c = {.image = &image, .more = has_wgmma ? &image : NULL, .has_wgmma = has_wgmma,
                                  .multiprocessors = tensor_gpus[i].multiprocessors,
                                  .gpu.shared_max = (size_t)tensor_gpus[i].shared,
                                  .workspace_bytes = RP_CUDA_GEMM_WORKSPACE};
        const int rate = sass_tensor_rate(tensor_gpus[i].arch);
        const struct rp_cuda_gemm how = rp_cuda_gemm16_choice(&c, &g, rate);
        double share = 0;
        int usable;
        for (int a = 0; a < ARCHS16; a++)
            share = archs16[a] == tensor_gpus[i].arch ? loops16[a].loop[how.tile - 1].bound : share;
        const char *tile = rp_cuda_gemm16_tile(&c, how.tile, &usable);
        const int is_wgmma = strncmp(tile, "wgmma", 5) == 0;
        const double cap = is_wgmma ? WGMMA_CAP : tensor_gpus[i].cap;
        share = share < cap ? share : cap;
        const double work = (double)g.m * g.n * g.k, ideal = work / ((double)rate * tensor_gpus[i].multiprocessors);
        const double seconds = how.cycles / share / tensor_gpus[i].ghz * 1e-9,
                     moving = bytes / tensor_gpus[i].terabytes * 1e-12;
        CHECK(how.cycles >= ideal * 0.999, "%s is expected to do %dx%dx%d faster than it can", tensor_gpus[i].name, g.m,
              g.n, g.k);
        rp_buf_printf(out, "  %-11s %4.0f%c", rp_cuda_gemm16_tile(&c, how.tile, &usable),
                      2e-12 * work / (seconds > moving ? seconds : moving), moving > seconds ? 'm' : ' ');
    }
    rp_buf_puts(out, "\n");
}

static void low_product_table(struct rp_buf *out)
{
    rp_buf_puts(out, "\nBERT-base in mixed precision, 8192 rows, and a product of 8192 cubed: the tile that is taken "
                     "and TFLOP/s by that bound,\n"
                     "in whole rounds of blocks; m: memory is slower. Nothing of this was measured.\n\n");
    rp_buf_printf(out, "%22s", "");
    for (int i = 0; i < TENSOR_GPUS; i++)
        rp_buf_printf(out, "  %-4s (%4.0f)       ", tensor_gpus[i].name,
                      2e-3 * sass_tensor_rate(tensor_gpus[i].arch) * tensor_gpus[i].multiprocessors *
                          tensor_gpus[i].ghz);
    rp_buf_puts(out, "\n");
    for (int i = 0; i < 4; i++) {
        const int in = i == 3 ? 3072 : 768, width = (int[]){2304, 768, 3072, 768}[i];
        low_product_row(out, (struct rp_gemm){.tb = 1, .m = 8192, .n = width, .k = in});
        low_product_row(out, (struct rp_gemm){.m = 8192, .n = in, .k = width});
        low_product_row(out, (struct rp_gemm){.ta = 1, .m = width, .n = in, .k = 8192});
    }
    low_product_row(out, (struct rp_gemm){.tb = 1, .m = 8192, .n = 8192, .k = 8192});
}

/* ---- products ---- */

static const struct {
    const char *name;
    int arch, multiprocessors, shared, lanes; /* lanes: multiply-adds of a multiprocessor a cycle */
    double ghz;                               /* the boost clock of the data sheet */
    double terabytes;                         /* a second, from and to memory, of the data sheet */
    size_t l2;
} gpus[] = {{"H200", 90, 132, 232448, 128, 1.98, 4.8, 50 << 20},
            {"A100", 80, 108, 166912, 64, 1.41, 1.555, 40 << 20},
            {"V100", 70, 80, 98304, 64, 1.53, 0.9, 6 << 20}};
enum { GPUS = sizeof gpus / sizeof *gpus };

static struct rp_cuda device_of(int gpu, struct rp_cuda_image *image)
{
    *image = (struct rp_cuda_image){.arch = gpus[gpu].arch};
    return (struct rp_cuda){.image = image,
                            .multiprocessors = gpus[gpu].multiprocessors,
                            .gpu.shared_max = (size_t)gpus[gpu].shared,
                            .workspace_bytes = RP_CUDA_GEMM_WORKSPACE};
}

/* As the kernels take them: rows one after another. */
static void product_row(struct rp_buf *out, struct rp_gemm g)
{
    static const char *const modes[] = {"", "whole", "parallel", "serial"};
    g.lda = g.ta ? g.m : g.k;
    g.ldb = g.tb ? g.k : g.n;
    g.ldc = g.n;
    rp_buf_printf(out, "%s %5d x %5d x %5d", g.ta ? "TN" : g.tb ? "NT" : "NN", g.m, g.n, g.k);
    for (int i = 0; i < GPUS; i++) {
        struct rp_cuda_image image;
        struct rp_cuda c = device_of(i, &image);
        struct rp_cuda_gemm how = rp_cuda_gemm_choice(&c, &g, 0);
        int usable;
        double ideal = (double)g.m * g.n * g.k / ((double)gpus[i].lanes * gpus[i].multiprocessors);
        rp_buf_printf(out, "  %-12s %-8s %3.0f %6.1f", rp_cuda_gemm_tile(&c, how.tile, &usable), modes[how.mode],
                      100 * ideal / how.cycles, 2e-3 * g.m * g.n * g.k / (how.cycles / gpus[i].ghz));
        CHECK(how.cycles >= ideal, "%s is expected to do %dx%dx%d faster than it can", gpus[i].name, g.m, g.n, g.k);
    }
    rp_buf_puts(out, "\n");
}

/* Output, data gradient and weight gradient of a layer. */
static void layer_rows(struct rp_buf *out, int rows, int in, int width)
{
    product_row(out, (struct rp_gemm){.tb = 1, .m = rows, .n = width, .k = in, .segment = rp_segment(in)});
    product_row(out, (struct rp_gemm){.m = rows, .n = in, .k = width, .segment = rp_segment(width)});
    product_row(out, (struct rp_gemm){.ta = 1, .m = width, .n = in, .k = rows, .segment = RP_SEGMENT_WGRAD});
}

static void gpu_names(struct rp_buf *out)
{
    rp_buf_printf(out, "%24s", "");
    for (int i = 0; i < GPUS; i++)
        rp_buf_printf(out, "%*s%s, %.1f TFLOP/s", i ? 34 - 16 - (int)strlen(gpus[i - 1].name) : 2, "", gpus[i].name,
                      2e-3 * gpus[i].lanes * gpus[i].multiprocessors * gpus[i].ghz);
    rp_buf_puts(out, "\n");
}

static void product_table(struct rp_buf *out)
{
    gpu_names(out);
    for (int rows = 4096; rows <= 12288; rows *= 3)
        for (int i = 0; i < 4; i++)
            layer_rows(out, rows, i == 3 ? 3072 : 768, (int[]){2304, 768, 3072, 768}[i]);
    layer_rows(out, 640, 768, 30522);
    rp_buf_puts(out, "\nGPT: 768 wide (GPT-2 124M, the layers above at 4096 rows) and 1536 wide with 8192 rows; logits "
                     "in blocks of 512 rows.\n\n");
    gpu_names(out);
    layer_rows(out, 512, 768, 50304);
    for (int i = 0; i < 4; i++)
        layer_rows(out, 8192, i == 3 ? 6144 : 1536, (int[]){4608, 1536, 6144, 1536}[i]);
    layer_rows(out, 512, 1536, 50304);
}

/* ---- convolutions ---- */

enum { BATCH = 128 };

/* Square images and windows; padding half of the window. Times: as often as ResNet-50 has it. */
static const struct {
    int in, in_c, out_c, kernel, stride, times;
} layers[] = {{224, 3, 64, 7, 2, 1},
              {56, 64, 64, 1, 1, 1},     {56, 64, 64, 3, 1, 3},   {56, 64, 256, 1, 1, 4},   {56, 256, 64, 1, 1, 2},
              {56, 256, 128, 1, 1, 1},   {56, 128, 128, 3, 2, 1}, {28, 128, 512, 1, 1, 4},  {56, 256, 512, 1, 2, 1},
              {28, 512, 128, 1, 1, 3},   {28, 128, 128, 3, 1, 3}, {28, 512, 256, 1, 1, 1},  {28, 256, 256, 3, 2, 1},
              {14, 256, 1024, 1, 1, 6},  {28, 512, 1024, 1, 2, 1}, {14, 1024, 256, 1, 1, 5}, {14, 256, 256, 3, 1, 5},
              {14, 1024, 512, 1, 1, 1},  {14, 512, 512, 3, 2, 1}, {7, 512, 2048, 1, 1, 3},  {14, 1024, 2048, 1, 2, 1},
              {7, 2048, 512, 1, 1, 2},   {7, 512, 512, 3, 1, 2}};
enum { LAYERS = sizeof layers / sizeof *layers };

static struct rp_conv conv_of(int i)
{
    const int in = layers[i].in, out = in / layers[i].stride, kernel = layers[i].kernel;
    return (struct rp_conv){BATCH,           in,     in,     layers[i].in_c,   out,        out,
                            layers[i].out_c, kernel, kernel, layers[i].stride, kernel / 2, kernel / 2};
}

static void conv_cell(struct rp_buf *out, int gpu, enum rp_op op, int layer, double *useful, double *seconds)
{
    const struct rp_conv v = conv_of(layer);
    struct rp_cuda_image image;
    const struct rp_cuda c = device_of(gpu, &image);
    const struct rp_cuda_conv how = rp_cuda_conv_choice(&c, op, &v);
    const double work = (double)rp_conv_rows(&v) * v.out_c * rp_conv_taps(&v);
    const double ideal = work / ((double)gpus[gpu].lanes * gpus[gpu].multiprocessors);
    const char *name;
    int usable;
    if (how.tile)
        name = rp_cuda_conv_tile(&c, how.tile, &usable);
    else
        name = rp_cuda_gemm_tile(&c, how.gemm.tile, &usable);
    CHECK(how.cycles >= ideal, "%s is expected to do layer %d faster than it can", gpus[gpu].name, layer);
    rp_buf_printf(out, "  %-16s %3.0f %6.1f", name, 100 * ideal / how.cycles,
                  2e-3 * work / (how.cycles / gpus[gpu].ghz));
    useful[gpu] += layers[layer].times * work;
    seconds[gpu] += layers[layer].times * how.cycles / gpus[gpu].ghz * 1e-9;
}

static void conv_table(struct rp_buf *out)
{
    static const struct {
        enum rp_op op;
        const char *name;
    } directions[] = {{RP_OP_conv_forward, "forward"}, {RP_OP_conv_dgrad, "dgrad"}, {RP_OP_conv_wgrad, "wgrad"}};
    rp_buf_printf(out, "%38s", "");
    for (int i = 0; i < GPUS; i++)
        rp_buf_printf(out, "  %-27s", gpus[i].name);
    rp_buf_puts(out, "\n");
    for (int d = 0; d < 3; d++) {
        double useful[GPUS] = {0}, seconds[GPUS] = {0};
        for (int i = 0; i < LAYERS; i++) {
            if (d == 1 && i == 0)
                continue; /* nobody needs the gradient of the images */
            rp_buf_printf(out, "%-7s %3d x %4d -> %4d, %dx%d / %d x %d", directions[d].name, layers[i].in,
                          layers[i].in_c, layers[i].out_c, layers[i].kernel, layers[i].kernel, layers[i].stride,
                          layers[i].times);
            for (int g = 0; g < GPUS; g++)
                conv_cell(out, g, directions[d].op, i, useful, seconds);
            rp_buf_puts(out, "\n");
        }
        rp_buf_printf(out, "%-38s", "all");
        for (int g = 0; g < GPUS; g++)
            rp_buf_printf(out, "  %6.2f ms        %3.0f %6.1f", 1e3 * seconds[g],
                          100 * useful[g] / seconds[g] / (1e9 * gpus[g].ghz * gpus[g].lanes * gpus[g].multiprocessors),
                          2e-12 * useful[g] / seconds[g]);
        rp_buf_puts(out, "\n");
    }
}

#include "tests/cuda/estimates_attention.inc.h"

/* The loss: bytes from and to memory, at the rate of the data sheet; rows of more classes are read again from the
 * cache. */
static void loss_table(struct rp_buf *out)
{
    for (int i = 0; i < GPUS; i++)
        rp_buf_printf(out, "softmax_xent, 512 x 50304: %-5s %6.1f us\n", gpus[i].name,
                      2.0 * 4 * 512 * 50304 / gpus[i].terabytes * 1e-6);
}

#define NOT_ALL_BUILT                                                                                                  \
    "not all architectures were built (ARCHS): tests/build/device_code.sh compares the text of the others"

/* NULL: done; else why the device code is not there. */
static const char *read_loops16(void)
{
    char path[256];
    struct rp_err err = {0};
    for (int i = 0; i < ARCHS16; i++) {
        loops16[i].arch = archs16[i];
        if (access(device_code(path, archs16[i], "gemm16"), R_OK) != 0)
            return NOT_ALL_BUILT;
        for (size_t p = 0; p < sizeof parts16 / sizeof *parts16; p++)
            CHECK(code_each_text(device_code(path, archs16[i], parts16[p]), add_kernel16, &loops16[i], &err) == 0, "%s",
                  err.msg);
        if (archs16[i] == 90 && access(device_code(path, 90, "../sm_90a/gemm16_wgmma"), R_OK) != 0)
            return "sm_90a was not built (ARCHS): tests/build/device_code.sh compares its text";
        if (archs16[i] == 90)
            CHECK(code_each_text(device_code(path, 90, "../sm_90a/gemm16_wgmma"), add_kernel16, &loops16[i], &err) == 0,
                  "%s", err.msg);
    }
    return NULL;
}

static const char *read_loops(struct loops loops[ARCHS], struct attention_loops attention[ARCHS])
{
    char path[256];
    struct rp_err err = {0};
    if (access(device_code(path, 90, "gemm"), R_OK) != 0)
        return "no device code was built";
    for (int i = 0; i < ARCHS; i++)
        if (access(device_code(path, archs[i], "gemm"), R_OK) != 0)
            return NOT_ALL_BUILT;
    for (int i = 0; i < ARCHS; i++) {
        loops[i].arch = archs[i];
        CHECK(code_each_text(device_code(path, archs[i], "gemm"), add_kernel, &loops[i], &err) == 0, "%s", err.msg);
        CHECK(code_each_text(device_code(path, archs[i], "conv"), add_kernel, &loops[i], &err) == 0, "%s", err.msg);
        attention[i].arch = archs[i];
        for (int p = 0; p < PARTS; p++)
            CHECK(code_each_text(device_code(path, archs[i], attention_parts[p]), add_attention, &attention[i], &err) ==
                      0,
                  "%s", err.msg);
    }
    return NULL;
}

TEST(products_are_as_fast_as_in_the_table_by_estimate)
{
    static struct loops loops[ARCHS];
    static struct attention_loops attention[ARCHS];
    RP_BUF table = {0};
    const char *missing = read_loops(loops, attention);
    missing = missing ? missing : read_loops16();
    if (missing)
        SKIP(missing);
    rp_buf_puts(
        &table,
        "Matrix products by estimate. Rates and costs of matrix products were measured on an H200 on 2026-11-27, but\n"
        "not on other GPUs. The goal is 95 % of cuBLAS in strict fp32, which `make gpu-check` measures.\n"
        "RP_UPDATE=1 BUILD=build build/native/tests/cuda/test_estimates writes this file.\n\n"
        "Main loops (of 192x192: the inner one, without copies): per cent of instructions that are FFMA, and per cent\n"
        "of the peak that the model of tests/cuda/sass.h allows; !: local memory in the loop. rate: what the choice\n"
        "of tiles counts with (src/backend/cuda/gemm.def, conv.def), measured for sm_90.\n\n");
    tile_table(&table, loops);
    rp_buf_puts(&table, "\nBERT-base, batch 32 and 96 of length 128 and the head: tile, how segments are added, per "
                        "cent of peak, TFLOP/s at boost clock.\n\n");
    product_table(&table);
    rp_buf_puts(&table,
                "\nResNet-50, batch 128: side of the square image, channels, window / stride x how many of them: tile "
                "of conv.def (with its\n"
                "direction) or gemm.def, per cent of peak (padding and absent taps are no useful work), TFLOP/s.\n\n");
    conv_table(&table);
    rp_buf_puts(&table, "\nAttention: of the loop with most FFMA the same as above. Then causal attention, batch x "
                        "heads x tokens x columns of a head:\n"
                        "kernel (of backward in streams: that of dk and dv), useful work in per cent of peak, TFLOP/s; "
                        "what streams keep comes from memory.\n\n");
    attention_table(&table, attention);
    tile16_table(&table);
    low_product_table(&table);
    rp_buf_puts(&table, "\nThe loss, if a row is read and written once:\n\n");
    loss_table(&table);
    expect_table(TABLE, &table);
}
