/* mma.sync, ldmatrix and conversions to 16 bits, each by itself: by the shim's built-ins and as PTX, against tables of
 * the fragments, and products whose result tells the arithmetic of one family of GPUs from another's.
 * shims: ptx checked */
#include "ops/functions.h"
#include "tests/cuda/matrix_tables.h"
#include "tests/unit/tap.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define LANES 32
#define WORDS (14 * LANES) /* A, B and C */

static void *library;
static int is_ptx;

#define NAME_OF(function) #function
#define NAME(function) NAME_OF(function)
#define CALL(function, ...)                                                                                            \
    do {                                                                                                               \
        __typeof__(&function) call_;                                                                                   \
        *(void **)&call_ = dlsym(library, NAME(function));                                                             \
        if (!call_ || call_(__VA_ARGS__) != CUDA_SUCCESS)                                                              \
            _exit(3);                                                                                                  \
    } while (0)

static void open_library(void)
{
    const char *path = getenv("RP_SHIM_LIBRARY");
    library = library ? library : dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("Bail out! %s\n", dlerror());
        exit(1);
    }
    is_ptx = strstr(path ? path : "", "/ptx/") != NULL;
    unsetenv("PTX_DIR");
}

/* One block of a kernel of the shim, or of a text, on a device of a capability, in a process of its own: another target
 * is refused there. */
static void launch(const char *name, const char *text, int layout, const uint32_t *in, uint32_t *out, size_t bytes)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr from, to;
    CUdevice device;
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemAlloc, &from, WORDS * 4);
    CALL(cuMemAlloc, &to, bytes);
    CALL(cuMemcpyHtoDAsync, from, in, WORDS * 4, NULL);
    CALL(cuModuleLoadData, &module, text);
    CALL(cuModuleGetFunction, &function, module, name);
    struct {
        CUdeviceptr out, in;
        int n;
    } args = {to, from, layout};
    void *parameters[] = {&args};
    CALL(cuLaunchKernel, function, 1, 1, 1, is_ptx ? LANES : 2 * LANES, 1, 1, 1024, NULL, parameters, NULL);
    CALL(cuMemcpyDtoHAsync, out, to, bytes, NULL);
}

static int run(const char *name, const char *text, int capability, int layout, const uint32_t *in, uint32_t *out,
               size_t bytes)
{
    int of[2], status = -1;
    char number[8];
    if (!CHECK(pipe(of) == 0))
        return 0;
    open_library();
    snprintf(number, sizeof number, "%d", capability);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("SHIM_CAPABILITY", number, 1);
        launch(name, text, layout, in, out, bytes);
        _exit(write(of[1], out, bytes) == (ssize_t)bytes ? 0 : 4);
    }
    close(of[1]);
    ssize_t got = read(of[0], out, bytes);
    close(of[0]);
    waitpid(child, &status, 0);
    return CHECK(status == 0 && got == (ssize_t)bytes, "%s on %d: status %#x", name, capability, status);
}

/* ---- products ---- */

static const struct form {
    const char *name;
    int k, a, b, c; /* registers */
} forms[] = {{"m8n8k4", 4, 2, 2, 8}, {"m16n8k8", 8, 2, 1, 4}, {"m16n8k16", 16, 4, 2, 4}};
enum { M8N8K4, M16N8K8, M16N8K16 };

/* Which element of which lane an element of a matrix is. */
static int a_place(int form, int layout, int row, int k)
{
    return form == M16N8K16  ? a_m16n8k16[row][k]
           : form == M16N8K8 ? a_m16n8k8[row][k]
           : layout & 1      ? a_columns_m8n8k4[row][k]
                             : a_rows_m8n8k4[row][k];
}
static int b_place(int form, int layout, int k, int column)
{
    return form == M16N8K16  ? b_m16n8k16[k][column]
           : form == M16N8K8 ? b_m16n8k8[k][column]
           : layout & 2      ? b_rows_m8n8k4[k][column]
                             : b_columns_m8n8k4[k][column];
}
static int c_place(int form, int row, int column)
{
    return form == M8N8K4 ? c_m8n8k4[row][column] : c_m16n8[row][column];
}

static void put_half(uint32_t *registers, int place, int lanes_higher, uint16_t value)
{
    const int lane = place / 10 + lanes_higher, i = place % 10;
    registers[LANES * (i / 2) + lane] |= (uint32_t)value << 16 * (i % 2);
}

static void text_of_product(char *text, size_t size, int form, int layout, int is_bf16, int capability)
{
    const struct form *f = &forms[form];
    const char *type = is_bf16 ? "bf16" : "f16";
    int n = snprintf(text, size,
                     "//\n.version 8.8\n.target sm_%d\n.address_size 64\n.visible .entry rp_planted_%s(.param .align 8 "
                     ".b8 p[24])\n.maxntid 32, 1, 1\n"
                     "{\n.reg .b32 %%r<32>;\n.reg .b64 %%rd<8>;\nld.param.u64 %%rd1, [p];\nld.param.u64 %%rd2, "
                     "[p+8];\nmov.u32 %%r31, %%laneid;\n"
                     "mul.wide.u32 %%rd3, %%r31, 4;\nadd.s64 %%rd1, %%rd1, %%rd3;\nadd.s64 %%rd2, %%rd2, %%rd3;\n",
                     capability, f->name);
    for (int i = 0; i < 14; i++)
        n += snprintf(text + n, size - (size_t)n, "ld.global.b32 %%r%d, [%%rd2+%d];\n", i, 128 * i);
    n += snprintf(text + n, size - (size_t)n, "mma.sync.aligned.%s.%s.%s.f32.%s.%s.f32 {", f->name,
                  layout & 1 ? "col" : "row", layout & 2 ? "row" : "col", type, type);
    const int groups[][2] = {{6, f->c}, {0, f->a}, {4, f->b}, {6, f->c}};
    for (int g = 0; g < 4; g++) {
        for (int i = 0; i < groups[g][1]; i++)
            n += snprintf(text + n, size - (size_t)n, "%s%%r%d", i ? ", " : "", groups[g][0] + i);
        n += snprintf(text + n, size - (size_t)n, g < 3 ? "}, {" : "};\n");
    }
    for (int i = 0; i < f->c; i++)
        n += snprintf(text + n, size - (size_t)n, "st.global.b32 [%%rd1+%d], %%r%d;\n", 128 * i, 6 + i);
    snprintf(text + n, size - (size_t)n, "ret;\n}\n");
}

/* A number of few bits. */
static uint16_t low(float x, int is_bf16)
{
    const uint32_t b = r_bits(x), e = b >> 23 & 255;
    return is_bf16 ? (uint16_t)(b >> 16)
                   : (uint16_t)(b >> 31 << 15 | (x != 0 ? (e - 112) << 10 | (b >> 13 & 1023) : 0));
}

static int small(void)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (int)(state >> 28) - 8;
}

static void multiply(int form, int layout, int is_bf16, int capability, const uint32_t *in, uint32_t *out)
{
    char name[32], text[4096];
    snprintf(name, sizeof name, "rp_planted_%s", forms[form].name);
    text_of_product(text, sizeof text, form, layout, is_bf16, capability);
    run(name, text, capability, layout | is_bf16 << 2, in, out, 8 * LANES * sizeof *out);
}

/* Small whole numbers, so that every sum is exact: what is compared is which element is where. */
static void compare_places(int form, int layout, int is_bf16, int capability)
{
    const int products = form == M8N8K4 ? 4 : 1, rows = form == M8N8K4 ? 8 : 16, k_steps = forms[form].k;
    static int a[4][16][16], b[4][16][8], c[4][16][8];
    uint32_t in[WORDS] = {0}, out[8 * LANES] = {0};
    int differ = 0;
    for (int q = 0; q < products; q++)
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 16; i++) {
                a[q][i][k] = small(), b[q][k][i % 8] = small(), c[q][i][k % 8] = 16 * small();
            }
    for (int q = 0; q < products; q++) {
        for (int k = 0; k < k_steps; k++) {
            for (int i = 0; i < rows; i++)
                put_half(in, a_place(form, layout, i, k), 4 * q, low((float)a[q][i][k], is_bf16));
            for (int j = 0; j < 8; j++)
                put_half(in + 4 * LANES, b_place(form, layout, k, j), 4 * q, low((float)b[q][k][j], is_bf16));
        }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < 8; j++) {
                const int place = c_place(form, i, j);
                in[(6 + place % 10) * LANES + place / 10 + 4 * q] = r_bits((float)c[q][i][j]);
            }
    }
    multiply(form, layout, is_bf16, capability, in, out);
    for (int q = 0; q < products; q++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < 8; j++) {
                int sum = c[q][i][j];
                for (int k = 0; k < k_steps; k++)
                    sum += a[q][i][k] * b[q][k][j];
                const int place = c_place(form, i, j);
                differ += r_float(out[place % 10 * LANES + place / 10 + 4 * q]) != (float)sum;
            }
    CHECK(differ == 0, "%s on %d, layout %d, %s: %d elements differ", forms[form].name, capability, layout,
          is_bf16 ? "bf16" : "fp16", differ);
}

TEST(every_element_of_a_product_is_where_the_tables_have_it)
{
    for (int layout = 0; layout < 4; layout++)
        compare_places(M8N8K4, layout, 0, 70);
    compare_places(M16N8K8, 0, 0, 75);
    for (int i = 0; i < 4; i++)
        compare_places(M16N8K16, 0, i & 1, i & 2 ? 90 : 80);
}

/* Row 0 of A is x, column 0 of B is y: element (0, 0) of C + x * y. */
static float dot(int form, int capability, const float *x, const float *y, float c)
{
    uint32_t in[WORDS] = {0}, out[8 * LANES] = {0};
    const int place = c_place(form, 0, 0);
    for (int k = 0; k < forms[form].k; k++) {
        put_half(in, a_place(form, 0, 0, k), 0, low(x[k], 0));
        put_half(in + 4 * LANES, b_place(form, 0, k, 0), 0, low(y[k], 0));
    }
    in[(6 + place % 10) * LANES + place / 10] = r_bits(c);
    multiply(form, 0, 0, capability, in, out);
    return r_float(out[place % 10 * LANES + place / 10]);
}

/* Where a family keeps one bit more or less, adds eight products at once or sixteen, one of these is another number. */
TEST(each_family_has_its_arithmetic)
{
    static const struct {
        const char *what;
        float x[16], y[16], c, expected[4]; /* of 70, 75, 80, 90; NAN: not asked */
    } cases[] = {
        {"two products of 2^-24 beside 1",
         {0x1p-12f, 0x1p-12f},
         {0x1p-12f, 0x1p-12f},
         1,
         {1, 1 + 0x1p-23f, 1 + 0x1p-23f, 1 + 0x1p-23f}},
        {"four products of 2^-25 beside 1",
         {0x1p-12f, 0x1p-12f, 0x1p-12f, 0x1p-12f},
         {0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f},
         1,
         {1, 1, 1, 1 + 0x1p-23f}},
        {"2^12 goes in the ninth product",
         {0x1p6f, 0x1p-6f, 0, 0, 0, 0, 0, 0, -0x1p6f},
         {0x1p6f, 0x1p-6f, 0, 0, 0, 0, 0, 0, 0x1p6f},
         0,
         {0x1p12f, 0x1p12f, 0, 0x1p-12f}},
        {"a subnormal factor", {0x1p-14f}, {0x1p-14f}, 0, {0x1p-28f, 0x1p-28f, 0x1p-28f, 0x1p-28f}},
    };
    static const int capabilities[] = {70, 75, 80, 90}, form[] = {M8N8K4, M16N8K8, M16N8K16, M16N8K16};
    for (int i = 0; i < COUNT(cases); i++)
        for (int k = 0; k < 4; k++) {
            const float got = dot(form[k], capabilities[k], cases[i].x, cases[i].y, cases[i].c);
            CHECK(got == cases[i].expected[k], "%s on %d: %a", cases[i].what, capabilities[k], (double)got);
        }
}

/* ---- matrices from shared memory ---- */

static void compare_matrices(int count, int is_transposed)
{
    char name[40], text[4096];
    uint32_t in[WORDS] = {0}, out[4 * LANES] = {0};
    int differ = 0;
    for (int i = 0; i < 2 * 4 * LANES; i++)
        in[i / 2] |= (uint32_t)(i + 1) << 16 * (i % 2);
    snprintf(name, sizeof name, "rp_planted_ldmatrix%s", is_transposed ? "_trans" : "");
    snprintf(
        text, sizeof text,
        "//\n.version 8.8\n.target sm_80\n.address_size 64\n.visible .entry %s(.param .align 8 .b8 p[24])\n.maxntid "
        "32, 1, 1\n"
        "{\n.reg .b32 %%r<16>;\n.reg .b64 %%rd<8>;\n.shared .align 16 .b8 rows[512];\nld.param.u64 %%rd1, "
        "[p];\nld.param.u64 %%rd2, [p+8];\n"
        "mov.u32 %%r1, %%laneid;\nmul.wide.u32 %%rd3, %%r1, 16;\nadd.s64 %%rd2, %%rd2, %%rd3;\n"
        "ld.global.v4.b32 {%%r2, %%r3, %%r4, %%r5}, [%%rd2];\nmov.u32 %%r6, rows;\nmad.lo.s32 %%r7, %%r1, 16, %%r6;\n"
        "st.shared.v4.b32 [%%r7], {%%r2, %%r3, %%r4, %%r5};\nbar.warp.sync -1;\nmov.u32 %%r9, 0;\nmov.u32 %%r10, "
        "0;\nmov.u32 %%r11, 0;\n"
        "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {%s}, [%%r7];\nmul.wide.u32 %%rd3, %%r1, 4;\nadd.s64 %%rd1, "
        "%%rd1, %%rd3;\n"
        "st.global.b32 [%%rd1], %%r8;\nst.global.b32 [%%rd1+128], %%r9;\nst.global.b32 [%%rd1+256], %%r10;\n"
        "st.global.b32 [%%rd1+384], %%r11;\nret;\n}\n",
        name, count, is_transposed ? ".trans" : "",
        count == 1   ? "%r8"
        : count == 2 ? "%r8, %r9"
                     : "%r8, %r9, %r10, %r11");
    run(name, text, 80, 0, in, out, sizeof out);
    for (int j = 0; j < count; j++)
        for (int row = 0; row < 8; row++)
            for (int column = 0; column < 8; column++) {
                const int place = is_transposed ? ldmatrix_trans[row][column] : ldmatrix[row][column];
                differ += (out[j * LANES + place / 10] >> 16 * (place % 10) & 0xffff) !=
                          (uint32_t)(64 * j + 8 * row + column + 1);
            }
    CHECK(differ == 0, "%s of %d: %d elements differ", name, count, differ);
}

TEST(every_element_of_a_matrix_goes_to_the_lane_of_the_tables)
{
    open_library();
    for (int count = is_ptx ? 1 : 4; count <= 4; count *= 2)
        for (int is_transposed = 0; is_transposed < 2; is_transposed++)
            compare_matrices(count, is_transposed);
}

/* ---- conversions ---- */

TEST(conversions_round_to_nearest_and_pack_the_first_above)
{
    static const struct {
        const char *op, *to;
        float a, b;
        uint32_t expected;
    } cases[] = {
        {"cvt.rn.f16.f32", "%rs1", 1 + 0x1p-11f, 0, 0x3c00},    {"cvt.rn.f16.f32", "%rs1", 1 + 0x3p-11f, 0, 0x3c02},
        {"cvt.rn.f16.f32", "%rs1", 65520, 0, 0x7c00},           {"cvt.rn.f16.f32", "%rs1", 0x3p-26f, 0, 0x0001},
        {"cvt.rn.bf16.f32", "%rs1", 1 + 0x1p-8f, 0, 0x3f80},    {"cvt.rn.bf16.f32", "%rs1", -1 - 0x3p-8f, 0, 0xbf82},
        {"cvt.rn.f16x2.f32", "%r1", 1, 2, 0x3c004000},          {"cvt.rn.bf16x2.f32", "%r1", 1, -2, 0x3f80c000},
    };
    open_library();
    if (!is_ptx)
        SKIP("the shim has no such instructions of its own");
    for (int i = 0; i < COUNT(cases); i++) {
        char text[2048];
        uint32_t in[WORDS] = {r_bits(cases[i].a), r_bits(cases[i].b)}, out[2] = {0};
        const int is_pair = strstr(cases[i].op, "x2") != NULL;
        snprintf(text, sizeof text,
                 "//\n.version 8.8\n.target sm_80\n.address_size 64\n.visible .entry rp_case(.param .align 8 .b8 "
                 "p[24])\n.maxntid 32, 1, 1\n"
                 "{\n.reg .b16 %%rs<4>;\n.reg .b32 %%r<4>;\n.reg .f32 %%f<4>;\n.reg .b64 %%rd<4>;\n.reg .pred %%p<2>;\n"
                 "mov.u32 %%r3, %%laneid;\nsetp.ne.u32 %%p1, %%r3, 0;\n@%%p1 ret;\n"
                 "ld.param.u64 %%rd1, [p];\nld.param.u64 %%rd2, [p+8];\nld.global.f32 %%f1, [%%rd2];\nld.global.f32 "
                 "%%f2, [%%rd2+4];\n"
                 "%s %s, %%f1%s;\n%sst.global.b32 [%%rd1], %%r1;\n%sst.global.f32 [%%rd1+4], %%f3;\nret;\n}\n",
                 cases[i].op, cases[i].to, is_pair ? ", %f2" : "",
                 is_pair ? "" : "mov.u16 %rs2, 0;\nmov.b32 %r1, {%rs1, %rs2};\n",
                 is_pair                       ? "mov.f32 %f3, %f1;\n"
                 : strstr(cases[i].op, "bf16") ? "shl.b32 %r2, %r1, 16;\nmov.b32 %f3, %r2;\n"
                                               : "cvt.f32.f16 %f3, %rs1;\n");
        run("rp_case", text, 80, 0, in, out, sizeof out);
        CHECK(out[0] == cases[i].expected, "%s of %a and %a: %#x", cases[i].op, (double)cases[i].a, (double)cases[i].b,
              out[0]);
        const float read = r_float(out[1]), error = read - cases[i].a;
        CHECK(is_pair || read > 65504 || (error < 0 ? -error : error) <= 0x1p-8f, "%s of %a: reads %a", cases[i].op,
              (double)cases[i].a, (double)read);
    }
}
