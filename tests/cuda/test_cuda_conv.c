/* Weight gradients on the GPU: each kernel of conv.def in each mode, and for windows of one pixel each kernel of the
 * GEMM, on sizes at which chains, groups, images and channels end within a tile. All give the bits of the definition
 * and leave the semaphores at 0. And which kernels are launched for which window.
 * shims: 800 700 checked checked700 */
#define RP_STORED_TYPE float
#include "base/buf.h"
#include "ops/op_check.h"
#include "tests/cuda/alone.h"

#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define CONV(n, h, w, c, oh, ow, oc, kh, kw, s, top, left) {n, h, w, c, oh, ow, oc, kh, kw, s, top, left}

static const char *const modes[] = {"", "whole", "parallel", "serial"};
static struct shim_options *shim;

static struct rp_cuda *device(void)
{
    setenv("RP_CUDA_GRAPHS", "0", 0);
    setenv("SHIM_MULTIPROCESSORS", "132", 0);
    struct rp_cuda *c = rp_cuda_of(gpu_here(&shim));
    shim->strict = shim->checked;
    return c;
}

/* One weight gradient against the definition; offset: from alignment; mix: the order of threads, and values. */
static int compare(struct rp_cuda *c, const struct rp_conv *v, int offset, unsigned mix)
{
    static unsigned semaphores[RP_CUDA_SEMAPHORES];
    const struct rp_backend *b = c->dev.backend;
    const struct rp_op_memory memory = {b->shared, b->free_shared, b->sync};
    const struct rp_op_shape s = {.conv = *v, .offset = offset, .small = mix % 4 == 1, .seed = mix};
    struct rp_err e = {0};
    int used = 0;
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix / 3 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
    if (!CHECK(rp_ops_compare(&memory, c->dev.op, &c->dev, RP_OP_conv_wgrad, &s, &e) == 0 &&
                   b->download(&c->dev, semaphores, c->semaphores, sizeof semaphores, &e) == 0,
               "%s, order %d, %d resident", e.msg, (int)shim->order, shim->resident))
        return -1;
    for (int i = 0; i < RP_CUDA_SEMAPHORES; i++)
        used += semaphores[i] != 0;
    return CHECK(used == 0, "%d semaphores are not 0", used) ? 0 : -1;
}

/* Fewer rows than k-steps of a tile; images of fewer, so that one tile has several images and rows of them, without and
 * with a stride; exactly one group; a group and two rows; channels without alignment; the largest window. With checks
 * of every access: only the third. */
enum { CHECKED = 2 };
static const struct rp_conv windows[] = {
    CONV(1, 3, 2, 8, 3, 2, 12, 3, 3, 1, 1, 1),   CONV(60, 3, 3, 8, 3, 3, 12, 3, 3, 1, 1, 1),
    CONV(90, 5, 3, 12, 3, 2, 20, 3, 3, 2, 1, 1), CONV(60, 6, 6, 68, 3, 3, 132, 1, 1, 2, 0, 0),
    CONV(64, 8, 8, 4, 8, 8, 4, 3, 3, 1, 1, 1),   CONV(683, 5, 3, 4, 3, 2, 4, 3, 3, 2, 1, 1),
    CONV(40, 5, 7, 5, 3, 4, 7, 3, 2, 2, 1, 0),   CONV(1, 9, 20, 4, 9, 20, 8, 15, 15, 1, 7, 7),
};

TEST(each_tile_of_windows_in_each_mode_has_the_bits_of_the_definition)
{
    struct rp_cuda *c = device();
    const char *name;
    int usable;
    unsigned mix = 0;
    for (int tile = 1; (name = rp_cuda_conv_tile(c, tile, &usable)) != NULL; tile++)
        for (int mode = 1 + RP_GEMM_WHOLE; mode <= 1 + RP_GEMM_SERIAL && usable && strncmp(name, "wgrad", 5) == 0;
             mode += RP_GEMM_SERIAL) {
            int done = 0;
            for (int i = shim->checked ? CHECKED : 0; i < (shim->checked ? CHECKED + 1 : COUNT(windows)); i++) {
                c->conv_forced = tile;
                c->gemm_forced.mode = mode;
                compare(c, &windows[i], i == 0, ++mix);
                done += c->conv_done.tile == tile && c->conv_done.mode == mode;
            }
            CHECK(done >= (shim->checked ? 1 : 5), "%s %s: done %d times", name, modes[mode], done);
        }
    c->conv_forced = c->gemm_forced.mode = 0;
}

/* Windows of one pixel: two chains; one row more than a group; a row more than two groups, and channels without
 * alignment. The first fits every tile; of the others some do not, and then another one is taken. */
static const struct rp_conv pixels[] = {
    CONV(9, 8, 8, 200, 8, 8, 196, 1, 1, 1, 0, 0), CONV(17, 241, 1, 132, 241, 1, 68, 1, 1, 1, 0, 0),
    CONV(3, 2731, 1, 8, 2731, 1, 5, 1, 1, 1, 0, 0),
};

TEST(each_tile_of_the_gemm_computes_the_groups_of_one_pixel_windows)
{
    struct rp_cuda *c = device();
    const char *name;
    int usable;
    unsigned mix = 0;
    for (int tile = 1; (name = rp_cuda_gemm_tile(c, tile, &usable)) != NULL; tile++)
        for (int mode = 1 + RP_GEMM_WHOLE;
             mode <= 1 + RP_GEMM_SERIAL && usable && (!strchr(name, '_') || strstr(name, "_tn"));
             mode += RP_GEMM_SERIAL) {
            const int is_small = strncmp(name, "64x128", 6) == 0 || !strchr(name, '_');
            int done = 0;
            for (int i = 0; i < (shim->checked || !is_small ? 1 : COUNT(pixels)); i++) {
                c->gemm_forced = (struct rp_cuda_gemm){.tile = tile, .mode = mode};
                compare(c, &pixels[i], i == 2, ++mix);
                done += !c->conv_done.tile && c->gemm_done.tile == tile && c->gemm_done.mode == mode;
            }
            CHECK(done >= (shim->checked || !is_small ? 1 : 2), "%s %s: done %d times", name, modes[mode], done);
        }
    c->gemm_forced = (struct rp_cuda_gemm){0};
}

/* ---- which kernels ---- */

/* What a weight gradient launches: a GEMM or a kernel of conv.def, and for several groups a tree. */
static const struct launched {
    struct rp_conv conv;
    int gemms, trees, long_trees;
} launches[] = {
    {CONV(128, 14, 14, 256, 14, 14, 1024, 1, 1, 1, 0, 0), 1, 1, 0},
    {CONV(128, 14, 14, 255, 14, 14, 1023, 1, 1, 1, 0, 0), 1, 1, 0}, /* without alignment */
    {CONV(128, 56, 56, 64, 56, 56, 256, 1, 1, 1, 0, 0), 0, 1, 0},   /* no tile of the GEMM has 64 columns */
    {CONV(128, 28, 28, 512, 14, 14, 1024, 1, 1, 2, 0, 0), 0, 1, 0}, /* a stride */
    {CONV(128, 14, 14, 256, 15, 14, 1024, 1, 1, 1, 1, 0), 0, 1, 0}, /* a border */
    {CONV(128, 14, 14, 256, 14, 14, 256, 3, 3, 1, 1, 1), 0, 1, 0},
    {CONV(64, 8, 8, 256, 8, 8, 1024, 1, 1, 1, 0, 0), 2, 0, 0},      /* one group: split over blocks, and the sum */
    {CONV(169, 56, 56, 256, 56, 56, 128, 1, 1, 1, 0, 0), 1, 0, 1},  /* 129.4 groups */
};
static const struct launched *launching;

static void launch_one(void)
{
    struct rp_cuda *c = device();
    float *any = c->dev.backend->block(&c->dev, RP_CLASS_SCRATCH, 1 << 20, &(struct rp_err){0});
    if (CHECK(any != NULL))
        c->dev.op->conv_wgrad(&c->dev, any, any, any, &launching->conv, any);
    CHECK(c->dev.backend->sync(&c->dev, &(struct rp_err){0}) == 0);
}

/* Launches of kernels whose names begin so. */
static long launches_of(const char *list, const char *prefix)
{
    long n = 0, count;
    char name[64];
    for (const char *line = list; line && sscanf(line, "%63s %ld", name, &count) == 2; line = strchr(line, '\n') + 1)
        n += strncmp(name, prefix, strlen(prefix)) == 0 ? count : 0;
    return n;
}

/* Nothing is executed: the tests' driver notes what is launched on a GPU as large as an H200. */
TEST(windows_of_one_pixel_are_one_gemm_and_others_one_kernel_of_their_own)
{
    if (device()->image->arch < 80 || shim->checked)
        SKIP("what is chosen depends on the GPU and is the same everywhere else");
    for (int i = 0; i < COUNT(launches); i++) {
        char path[] = "/tmp/rp-launches-XXXXXX";
        struct rp_err err = {0};
        RP_BUF list = {0};
        int file = mkstemp(path);
        if (!CHECK(file >= 0))
            return;
        close(file);
        setenv("SHIM_IDLE", path, 1);
        launching = &launches[i];
        alone(launch_one, "0");
        unsetenv("SHIM_IDLE");
        CHECK(rp_read_file(&list, path, 1 << 16, &err) == 0, "%s", err.msg);
        unlink(path);
        const struct launched *l = launching;
        CHECK(launches_of(list.data, "gemm_") == l->gemms && launches_of(list.data, "conv_wgrad_") == !l->gemms &&
                  launches_of(list.data, "group_tree") == l->trees &&
                  launches_of(list.data, "column_tree") == l->long_trees &&
                  launches_of(list.data, "") == l->gemms + !l->gemms + l->trees + l->long_trees,
              "case %d: %s", i, list.data);
    }
}
