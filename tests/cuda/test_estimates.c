/* How fast the matrix products may be, by estimate: what their main loops consist of, and for BERT's products on three GPUs the tile that
 * the host code takes and the share of the peak that it expects. tests/cuda/estimates.txt has them, RP_UPDATE=1 writes it; the rates
 * in gemm.def, by which the host code chooses, have to be those of the loops. */
#include "backend/cuda/cuda.h"
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
#define TILE(name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b, from, before, rate)            \
    {#name, from, before, rate},
#include "backend/cuda/gemm.def"
#undef TILE
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
        if (strncmp(kernel, "rp_gemm_", 8) == 0 && strcmp(kernel + 8, tiles[i].name) == 0 && l->arch >= tiles[i].from &&
            l->arch < tiles[i].before)
            CHECK(sass_main_loop(&l->loop[i], code, bytes, l->arch), "%s for sm_%d: no main loop is found", kernel, l->arch);
}

static const char *device_code(char path[256], int arch)
{
    const char *build = getenv("BUILD");
    snprintf(path, 256, "%s/gpu/device/sm_%d/gemm", build ? build : "build", arch);
    return path;
}

static void tile_table(struct rp_buf *out, const struct loops *loops)
{
    rp_buf_puts(out, "kernel              ");
    for (int i = 0; i < ARCHS; i++)
        rp_buf_printf(out, "      sm_%d", archs[i]);
    rp_buf_puts(out, "  rate\n");
    for (int t = 0; t < TILES; t++) {
        rp_buf_printf(out, "gemm_%-15s", tiles[t].name);
        for (int i = 0; i < ARCHS; i++) {
            const struct sass_loop *l = &loops[i].loop[t];
            if (l->ffma)
                rp_buf_printf(out, "  %3.0f %4.1f%c", 100.0 * l->ffma / l->instructions, 100.0 * l->bound, l->local ? '!' : ' ');
            else
                rp_buf_puts(out, "    -    - ");
        }
        const struct sass_loop *last = &loops[tiles[t].before > 90 ? ARCHS - 1 : 1].loop[t];
        double issue = 100.0 * (tiles[t].before > 90 ? last->bound : (double)last->ffma / last->instructions);
        CHECK(issue - tiles[t].rate < 3 && tiles[t].rate - issue < 3, "gemm_%s counts with %d per cent, its loop is worth %.1f",
              tiles[t].name, tiles[t].rate, issue);
        rp_buf_printf(out, "  %4d\n", tiles[t].rate);
    }
}

/* ---- products ---- */

static const struct {
    const char *name;
    int arch, multiprocessors, shared, lanes; /* lanes: multiply-adds of a multiprocessor a cycle */
    double ghz;                               /* the boost clock of the data sheet */
} gpus[] = {{"H200", 90, 132, 232448, 128, 1.98}, {"A100", 80, 108, 166912, 64, 1.41}, {"V100", 70, 80, 98304, 64, 1.53}};
enum { GPUS = sizeof gpus / sizeof *gpus };

static void product_row(struct rp_buf *out, struct rp_gemm g)
{
    static const char *const modes[] = {"", "whole", "parallel", "serial"};
    g.lda = g.ta ? g.m : g.k;
    g.ldb = g.tb ? g.k : g.n;
    g.ldc = g.n;
    rp_buf_printf(out, "%s %5d x %5d x %5d", g.ta ? "TN" : g.tb ? "NT" : "NN", g.m, g.n, g.k);
    for (int i = 0; i < GPUS; i++) {
        struct rp_cuda_image image = {.arch = gpus[i].arch};
        struct rp_cuda c = {.image = &image,
                            .multiprocessors = gpus[i].multiprocessors,
                            .gpu.shared_max = (size_t)gpus[i].shared,
                            .workspace_bytes = RP_CUDA_GEMM_WORKSPACE};
        struct rp_cuda_gemm how = rp_cuda_gemm_choice(&c, &g);
        int usable;
        double ideal = (double)g.m * g.n * g.k / ((double)gpus[i].lanes * gpus[i].multiprocessors);
        rp_buf_printf(out, "  %-12s %-8s %3.0f %6.1f", rp_cuda_gemm_tile(&c, how.tile, &usable), modes[how.mode], 100 * ideal / how.cycles,
                      2e-3 * g.m * g.n * g.k / (how.cycles / gpus[i].ghz));
        CHECK(how.cycles >= ideal, "%s is expected to do %dx%dx%d faster than it can", gpus[i].name, g.m, g.n, g.k);
    }
    rp_buf_puts(out, "\n");
}

static void product_table(struct rp_buf *out)
{
    static const int layers[][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}; /* in, out */
    rp_buf_printf(out, "%24s", "");
    for (int i = 0; i < GPUS; i++)
        rp_buf_printf(out, "%*s%s, %.1f TFLOP/s", i ? 34 - 16 - (int)strlen(gpus[i - 1].name) : 2, "", gpus[i].name,
                      2e-3 * gpus[i].lanes * gpus[i].multiprocessors * gpus[i].ghz);
    rp_buf_puts(out, "\n");
    for (int rows = 4096; rows <= 12288; rows *= 3)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            int in = layers[i][0], width = layers[i][1];
            product_row(out, (struct rp_gemm){.tb = 1, .m = rows, .n = width, .k = in});
            product_row(out, (struct rp_gemm){.m = rows, .n = in, .k = width});
            product_row(out, (struct rp_gemm){.ta = 1, .m = width, .n = in, .k = rows, .segment = RP_SEGMENT_WGRAD});
        }
    product_row(out, (struct rp_gemm){.tb = 1, .m = 640, .n = 30522, .k = 768});
    product_row(out, (struct rp_gemm){.m = 640, .n = 768, .k = 30522, .segment = RP_SEGMENT_LONG});
    product_row(out, (struct rp_gemm){.ta = 1, .m = 30522, .n = 768, .k = 640, .segment = RP_SEGMENT_WGRAD});
}

TEST(products_are_as_fast_as_in_the_table_by_estimate)
{
    static struct loops loops[ARCHS];
    char path[256];
    struct rp_err err = {0};
    RP_BUF table = {0};
    if (access(device_code(path, 90), R_OK) != 0)
        SKIP("no device code was built");
    for (int i = 0; i < ARCHS; i++) {
        loops[i].arch = archs[i];
        CHECK(code_each_text(device_code(path, archs[i]), add_kernel, &loops[i], &err) == 0, "%s", err.msg);
    }
    rp_buf_puts(
        &table,
        "Matrix products by estimate: no GPU has run this. The goal is 95 % of cuBLAS in strict fp32, which `make gpu-check` measures;\n"
        "what cuBLAS reaches is not known here. RP_UPDATE=1 BUILD=build build/native/tests/cuda/test_estimates writes this file.\n\n"
        "Main loops: per cent of instructions that are FFMA, and per cent of the peak that the model of tests/cuda/sass.h allows;\n"
        "!: local memory in the loop. rate: what the choice of tiles counts with (src/backend/cuda/gemm.def), sm_90 or the last "
        "before.\n\n");
    tile_table(&table, loops);
    rp_buf_puts(&table, "\nBERT-base, batch 32 and 96 of length 128 and the head: tile, how segments are added, per cent of peak, TFLOP/s "
                        "at boost clock.\n\n");
    product_table(&table);
    expect_table(TABLE, &table);
}
