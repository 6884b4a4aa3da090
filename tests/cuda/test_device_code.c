/* The compiled device code keeps the arithmetic's promises: in PTX every instruction rounds once and every fused
 * multiply-add is one that the sources write; in machine code there is none besides; nothing spills. Registers and
 * occupancy are those of kernels.txt, which RP_UPDATE=1 writes. BUILD in the environment is where the code is. */
#define RP_STORED_TYPE float
#include "backend/cuda/inner.h"
#include "backend/speed.h"
#include "base/buf.h"
#include "ops/op_check.h"
#include "tests/cuda/device_code.h"
#include "tests/cuda/expected.h"
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <glob.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARP 32
#define TABLE "tests/cuda/kernels.txt"

/* What a multiprocessor has: 65536 registers, and of others so many. */
static const struct arch {
    const char *name, *ptx; /* the PTX that shows what its arithmetic is */
    int warps, blocks, shared, reserved;
    const char *multiprocessors; /* of its largest product */
} archs[] = {
    {"sm_70", "compute_70", 64, 32, 98304, 0, "80"},        {"sm_75", "compute_70", 32, 16, 65536, 0, "72"},
    {"sm_80", "compute_80", 64, 32, 167936, 1024, "108"},   {"sm_86", "compute_80", 48, 16, 102400, 1024, "84"},
    {"sm_89", "compute_80", 48, 24, 102400, 1024, "142"},   {"sm_90", "compute_90", 64, 32, 233472, 1024, "132"},
    {"sm_100", "compute_100", 64, 32, 233472, 1024, "148"}, {"sm_120", "compute_100", 48, 24, 102400, 1024, "188"},
};
enum { ARCHS = sizeof archs / sizeof *archs };

static const char *build(void)
{
    const char *dir = getenv("BUILD");
    return dir ? dir : "build";
}

/* All files of BUILD/gpu/KIND/ARCH by one of the readers; of sm_90 and compute_90 also what is for sm_90a alone. 0:
 * there are none. */
static int read_all(struct code *c, const char *kind, const char *arch, const char *suffix,
                    int (*reader)(struct code *, const char *, struct rp_err *))
{
    RP_FREE char *pattern = rp_asprintf("%s/gpu/%s/%s/*.txt", build(), kind, arch);
    glob_t found = {0};
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct rp_err err = {0};
        RP_FREE char *path = rp_asprintf("%.*s%s", (int)strlen(found.gl_pathv[i]) - 4, found.gl_pathv[i], suffix);
        if (strstr(found.gl_pathv[i], "_bf16.txt") && atoi(strchr(arch, '_') + 1) < 80) /* has no kernels: stored.def */
            continue;
        CHECK(reader(c, path, &err) == 0, "%s", err.msg);
    }
    globfree(&found);
    if (strcmp(kind, "planted") != 0 && strcmp(strchr(arch, '_'), "_90") == 0) {
        RP_FREE char *more = rp_asprintf("%sa", arch);
        read_all(c, kind, more, suffix, reader);
    }
    return c->n;
}

static int is_there(void)
{
    RP_FREE char *path = rp_asprintf("%s/gpu/images.txt", build());
    return access(path, R_OK) == 0;
}
/* Whether this build has code for it: ARCHS may have named others. */
static int is_built(const char *arch)
{
    RP_FREE char *path = rp_asprintf("%s/gpu/images.txt", build()), *line = rp_asprintf("\n%s ", arch);
    RP_BUF about = {0};
    struct rp_err err = {0};
    return rp_read_file(&about, path, 1 << 16, &err) == 0 && strstr(about.data, line) != NULL;
}

/* Whether this build has that PTX, or machine code that it is behind. */
static int is_needed(const char *ptx)
{
    int found = is_built(ptx) && strcmp(ptx, "compute_100") == 0;
    for (int i = 0; i < ARCHS; i++)
        found |= strcmp(archs[i].ptx, ptx) == 0 && is_built(archs[i].name);
    return found;
}

#define NEEDS_DEVICE_CODE                                                                                              \
    if (!is_there())                                                                                                   \
    SKIP("no device code was built")

/* Whether the code for an architecture, "sm_90", has a kernel. */
static int has_kernel(enum rp_cuda_kernel kernel, const char *arch)
{
    const int number = atoi(strchr(arch, '_') + 1);
    return rp_cuda_is_compiled(kernel, number) || (number == 90 && rp_cuda_is_more(kernel) && is_built("sm_90a"));
}

static int has_all_kernels(const struct code *c, const char *where)
{
    int missing = 0;
    for (int i = 0; i < RP_CUDA_KERNELS; i++) {
        if (!has_kernel((enum rp_cuda_kernel)i, where))
            continue;
        int found = code_find(c, rp_cuda_kernels[i].name) != NULL;
        CHECK(found, "%s has no %s", where, rp_cuda_kernels[i].name);
        missing += !found;
    }
    return !missing;
}

TEST(every_instruction_rounds_once)
{
    static const char *const from[][2] = {
        {"checked", "compute_70"}, {"checked", "compute_80"}, {"checked", "compute_90"}, {"device", "compute_100"}};
    NEEDS_DEVICE_CODE;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        struct code c = {0};
        int is_marked = strcmp(from[i][0], "checked") == 0, fused = 0;
        if (!is_needed(from[i][1]))
            continue;
        read_all(&c, from[i][0], from[i][1], "", code_read_ptx);
        has_all_kernels(&c, from[i][1]);
        for (int k = 0; k < c.n; k++) {
            CHECK(!*c.row[k].refused, "%s in %s for %s", c.row[k].refused, c.row[k].name, from[i][1]);
            CHECK(!is_marked || c.row[k].fused == c.row[k].written, "%s for %s: %d fma that no source writes",
                  c.row[k].name, from[i][1], c.row[k].fused - c.row[k].written);
            fused += c.row[k].fused;
        }
        CHECK(fused > 0, "%s: this test sees no fma anywhere", from[i][1]);
        code_free(&c);
    }
}

TEST(machine_code_fuses_nothing_of_its_own)
{
    int seen = 0;
    NEEDS_DEVICE_CODE;
    for (int i = 0; i < ARCHS; i++) {
        struct code ptx = {0}, sass = {0};
        if (is_built(archs[i].name)) {
            read_all(&sass, "device", archs[i].name, "", code_read_cubin);
            read_all(&ptx, strcmp(archs[i].ptx, "compute_100") == 0 ? "device" : "checked", archs[i].ptx, "",
                     code_read_ptx);
            has_all_kernels(&sass, archs[i].name);
        }
        for (int k = 0; k < sass.n; k++) {
            const struct code_kernel *s = &sass.row[k], *p = code_find(&ptx, s->name);
            if (getenv("RP_SHOW"))
                printf("# %s %s: %d FFMA, %d fma, %d div or sqrt, %d mul, %d add\n", archs[i].name, s->name, s->fused,
                       p ? p->fused : -1, p ? p->expands : -1, p ? p->products : -1, p ? p->sums : -1);
            /* a division or square root is a dozen instructions with FFMA among them */
            CHECK(p && s->fused >= p->fused && s->fused <= p->fused + 12 * p->expands,
                  "%s %s: %d FFMA from %d fma and %d divisions or roots", archs[i].name, s->name, s->fused,
                  p ? p->fused : -1, p ? p->expands : -1);
            seen += s->fused;
        }
        code_free(&ptx);
        code_free(&sass);
    }
    CHECK(seen > 0, "this test sees no FFMA anywhere");
}

TEST(planted_faults_are_found)
{
    static const struct {
        const char *name, *refused;
        int unwritten, fused, local;
    } faults[] = {{"nothing", "", 0, 0, 0},
                  {"unwritten", "", 1, 0, 0},
                  {"contracted", "mul.f32", 0, 0, 0},
                  {"mad", "mad.rn.f32", 0, 1, 0},
                  {"flushed", "add.rn.ftz.f32", 0, 0, 0},
                  {"approximate", "div.approx.f32", 0, 0, 0},
                  {"upwards", "add.rp.f32", 0, 0, 0},
                  {"doubles", "cvt.f64.f32", 0, 0, 0},
                  {"local", "", 0, 0, 1}};
    struct code ptx = {0}, sass = {0};
    NEEDS_DEVICE_CODE;
    read_all(&ptx, "planted", "compute_80", "", code_read_ptx);
    read_all(&sass, "planted", "sm_80", "", code_read_cubin);
    read_all(&sass, "planted", "sm_80", ".txt", code_read_statistics);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        RP_FREE char *name = rp_asprintf("rp_planted_%s", faults[i].name);
        const struct code_kernel *p = code_find(&ptx, name), *s = code_find(&sass, name);
        CHECK(p && s, "there is no %s", name);
        if (!p || !s)
            continue;
        CHECK_STR(p->refused, faults[i].refused);
        CHECK(p->fused - p->written == faults[i].unwritten, "%s: %d fma, %d of them written", name, p->fused,
              p->written);
        CHECK(p->fused || p->expands || s->fused == faults[i].fused, "%s: %d FFMA", name, s->fused);
        CHECK(!s->stack == !faults[i].local, "%s: %d bytes of stack", name, s->stack);
        CHECK(s->registers > 0, "%s: ptxas told nothing", name);
    }
    code_free(&ptx);
    code_free(&sass);
}

/* Blocks that fit on one multiprocessor: registers go to warps in units of 256, to the four partitions evenly. */
static int resident(const struct arch *a, const struct code_kernel *k, int threads, int shared)
{
    int per_warp = (k->registers * WARP + 255) / 256 * 256, warps = (threads + WARP - 1) / WARP;
    int by_registers = 65536 / per_warp / 4 * 4 / warps, by_warps = a->warps / warps, n = a->blocks;
    int each = (k->shared + shared + 127) / 128 * 128 + a->reserved, by_shared = each ? a->shared / each : n;
    n = by_registers < n ? by_registers : n;
    n = by_warps < n ? by_warps : n;
    return by_shared < n ? by_shared : n;
}

/* ---- shared memory: what the host code asks for at BERT's sizes, from launches that are noted and not executed
 * ---- */

/* Every tile that there is for the device, in every form that may take it. */
static void launch_products(struct rp_cuda *c, float *x)
{
    int usable;
    for (int tile = 1; rp_cuda_gemm_tile(c, tile, &usable); tile++)
        for (int form = 0; form < 6 && usable; form++) {
            int ta = form % 3 == 2, tb = form % 3 == 0, pitch = 512 + form / 3;
            struct rp_gemm g = {.ta = ta, .tb = tb, .m = 512, .n = 512, .k = 512, .a = x, .lda = pitch, .b = x,
                                .ldb = pitch, .c = x, .ldc = 512};
            c->gemm_forced.tile = tile;
            c->dev.op->gemm(&c->dev, &g);
        }
    c->gemm_forced.tile = 0;
}

/* Products in mixed precision, in every arithmetic of the device: whole, and in segments. */
static void launch_low_products(struct rp_cuda *c, float *x)
{
    int usable;
    for (int n = 0; n < RP_NUMERICS_COUNT; n++)
        for (int tile = 1; rp_cuda_gemm16_tile(c, tile, &usable); tile++)
            for (int form = 0; form < 4; form++) {
                const int ta = form >> 1, tb = form & 1, k = form == 2 ? 4096 : 256;
                const struct rp_gemm g = {.ta = ta, .tb = tb, .m = 128, .n = 128, .k = k, .a = x, .lda = ta ? 128 : k,
                                          .b = x, .ldb = tb ? k : 128, .c32 = x, .ldc = 128};
                if (!usable || !rp_is_mixed((enum rp_numerics)n) ||
                    !rp_cuda_has_arithmetic(c->gpu.capability, (enum rp_numerics)n))
                    continue;
                c->dev.numerics = (enum rp_numerics)n;
                c->gemm_forced.tile = tile;
                c->dev.op->gemm(&c->dev, &g);
            }
    c->dev.numerics = RP_NUMERICS_fp32_1;
    c->gemm_forced.tile = 0;
}

/* The same for convolutions; and a weight gradient of two groups. */
static void launch_convs(struct rp_cuda *c, float *x)
{
    static const struct rp_conv conv = {1, 14, 14, 64, 14, 14, 64, 3, 3, 1, 1, 1},
                                groups = {1, 65, 65, 4, 65, 65, 4, 1, 1, 1, 0, 0};
    const struct rp_ops *op = c->dev.op;
    int usable;
    for (int tile = 1; rp_cuda_conv_tile(c, tile, &usable); tile++) {
        c->conv_forced = usable ? tile : 0;
        op->conv_forward(&c->dev, x, NULL, x, x, &conv, x);
        op->conv_dgrad(&c->dev, x, x, x, NULL, &conv);
        op->conv_wgrad(&c->dev, x, x, x, &conv, x);
    }
    c->conv_forced = 0;
    op->conv_wgrad(&c->dev, x, x, x, &groups, x);
}

/* Operations in mixed precision, of both types where there are both. */
static void launch_stored(struct rp_cuda *c)
{
    struct rp_err ignored;
    for (int n = 0; n < RP_NUMERICS_COUNT; n++) {
        c->dev.numerics = (enum rp_numerics)n;
        c->dev.stored_bytes = rp_is_mixed(c->dev.numerics) ? sizeof(uint16_t) : sizeof(float);
        if (!rp_is_mixed(c->dev.numerics) || !rp_cuda_has_arithmetic(c->gpu.capability, c->dev.numerics))
            continue;
        for (int op = 0; op < RP_OP_COUNT; op++) {
            struct rp_op_shape s = {.rows = 256, .width = 768, .batch = 1, .seq = 64, .heads = 1, .head_dim = 64,
                                    .variant = 1, .seed = 1, .conv = {1, 8, 8, 64, 4, 4, 64, 3, 3, 2, 1, 1}};
            if (!rp_op_is_stored((enum rp_op)op) || op == RP_OP_gemm)
                continue;
            (void)!rp_ops_compare(NULL, c->dev.op, &c->dev, (enum rp_op)op, &s, &ignored);
            s.head_dim = 128;
            if (op == RP_OP_attention_forward || op == RP_OP_attention_backward)
                (void)!rp_ops_compare(NULL, c->dev.op, &c->dev, (enum rp_op)op, &s, &ignored);
        }
    }
    c->dev.numerics = RP_NUMERICS_fp32_1;
    c->dev.stored_bytes = sizeof(float);
}

static int launch_everything(struct rp_err *err)
{
    struct rp_device_opts o = {0};
    struct rp_err ignored; /* nothing is executed, so nothing compares */
    int differ = 0;
    json_t *rows = NULL;
    struct rp_dev *dev = gpu(NULL, err) ? rp_ops_speed_open(&rp_backend_cuda, &o, err) : NULL;
    float *x = dev ? dev->backend->block(dev, RP_CLASS_SCRATCH, 513 * 513 * sizeof(float), err) : NULL;
    if (!x)
        return -1;
    launch_products(rp_cuda_of(dev), x);
    launch_low_products(rp_cuda_of(dev), x);
    launch_convs(rp_cuda_of(dev), x);
    launch_stored(rp_cuda_of(dev));
    for (int op = 0; op < RP_OP_COUNT; op++) {
        const char *name = rp_op_info[op].name;
        struct rp_op_shape s = {.rows = 256, .width = 768, .depth = 64, .batch = 1, .variant = 1, .seed = 1,
                                .conv = {1, 8, 8, 64, 4, 4, 64, 3, 3, 2, 1, 1}};
        if (strcmp(name, "gemm") != 0 && strncmp(name, "attention", 9) != 0)
            differ += rp_ops_compare(NULL, dev->op, dev, (enum rp_op)op, &s, &ignored) < 0;
    }
    if (!differ)
        return rp_fail(err, RP_BUG, "operations were executed after all");
    return rp_ops_speed(dev, &o, 1e-9, NULL, NULL, &rows, err);
}

/* "KERNEL LAUNCHES BYTES" for each kernel */
static void note_launches(const struct arch *a, struct rp_buf *out)
{
    struct rp_err err = {0};
    char path[] = "/tmp/rp-launches-XXXXXX";
    int status = -1, file = mkstemp(path);
    fflush(stdout);
    pid_t pid = file < 0 ? -1 : fork();
    if (pid == 0) {
        setenv("SHIM_IDLE", path, 1);
        setenv("SHIM_CAPABILITY", a->name + 3, 1);
        setenv("SHIM_MULTIPROCESSORS", a->multiprocessors, 1);
        setenv("RP_CUDA_GRAPHS", "0", 1);
        int failed = launch_everything(&err) < 0;
        if (failed)
            printf("# %s: %s\n", a->name, err.msg);
        exit(failed);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    CHECK(status == 0 && rp_read_file(out, path, 1 << 16, &err) == 0, "%s: status %d", a->name, status);
    if (file >= 0)
        close(file);
    unlink(path);
}

/* -1: not launched */
static int shared_of(const struct rp_buf *launches, const char *kernel)
{
    RP_FREE char *line = rp_asprintf("\n%s ", kernel);
    const char *at = launches->data && strncmp(launches->data, line + 1, strlen(line + 1)) == 0 ? launches->data : NULL;
    int bytes;
    if (!at && launches->data && (at = strstr(launches->data, line)))
        at++;
    return at && sscanf(at + strlen(line) - 1, "%*d %d", &bytes) == 1 ? bytes : -1;
}

static void add_row(struct rp_buf *out, enum rp_cuda_kernel kernel, const struct code *codes,
                    const struct rp_buf *launches)
{
    const struct rp_cuda_kernel_info *info = &rp_cuda_kernels[kernel];
    rp_buf_printf(out, "%-26s %7u", info->name + 3, info->threads);
    for (int i = 0; i < ARCHS; i++) {
        const struct code_kernel *k = code_find(&codes[i], info->name);
        if (!codes[i].n)
            continue;
        if (!has_kernel(kernel, archs[i].name)) {
            rp_buf_puts(out, "   -     -  -");
            continue;
        }
        CHECK(k && k->registers, "nothing is known of %s for %s", info->name, archs[i].name);
        if (!k)
            continue;
        CHECK(!k->spills && !k->stack, "%s for %s: %d bytes spilled, %d bytes of stack", info->name, archs[i].name,
              k->spills, k->stack);
        int shared = shared_of(&launches[i], info->name + 3);
        rp_buf_printf(out, " %3d ", k->registers);
        if (shared < 0)
            rp_buf_puts(out, "    -  -");
        else
            rp_buf_printf(out, "%5.1f %2d", shared / 1024.0, resident(&archs[i], k, (int)info->threads, shared));
    }
    rp_buf_puts(out, "\n");
}

TEST(kernels_are_as_in_the_table)
{
    struct code codes[ARCHS] = {0};
    struct rp_buf launches[ARCHS] = {0};
    struct rp_err err = {0};
    RP_BUF table = {0}, about = {0};
    int built = 0;
    NEEDS_DEVICE_CODE;
    RP_FREE char *path = rp_asprintf("%s/gpu/images.txt", build());
    CHECK(rp_read_file(&about, path, 1 << 16, &err) == 0, "%s", err.msg);
    if (strncmp(about.data, "NVRTC", 5) != 0)
        SKIP("another compiler than that of the table");
    rp_buf_puts(&table,
                "For each architecture: registers of a thread, KiB of shared memory of a block at BERT's sizes, and "
                "blocks that fit on a\n"
                "multiprocessor by registers, shared memory and threads. -: not launched, or not compiled, there.\n"
                "RP_UPDATE=1 BUILD=build build/native/tests/cuda/test_device_code writes this file.\n\nkernel          "
                "           threads");
    for (int i = 0; i < ARCHS; i++) {
        if (!is_built(archs[i].name))
            continue;
        built++;
        read_all(&codes[i], "device", archs[i].name, ".txt", code_read_statistics);
        note_launches(&archs[i], &launches[i]);
        rp_buf_printf(&table, " %12s", archs[i].name);
    }
    rp_buf_puts(&table, "\n");
    for (int i = 0; i < RP_CUDA_KERNELS; i++)
        add_row(&table, (enum rp_cuda_kernel)i, codes, launches);
    for (int i = 0; i < ARCHS; i++) {
        code_free(&codes[i]);
        rp_buf_fini(&launches[i]);
    }
    if (built == ARCHS)
        expect_table(TABLE, &table);
    else
        printf("# %d of %d architectures were built: tests/build/device_code.sh compares the text of the others\n",
               built, ARCHS);
}
