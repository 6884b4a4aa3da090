/* Reads the recorded products from the embedded files, and compares definition and kernel with them. */
#include "backend/cpu/tc_recorded.h"

#include "base/buf.h"
#include "base/embed.h"

#include <stdlib.h>
#include <string.h>

enum { LINES = RP_TC_RECORDED_LINES, MOST = 16 };
#define FOLDER "results/published/tensor_core/"

/* A file: of each line a[k], b[k], the addend and the result. */
struct recorded {
    const char *name; /* "H100_fp16.bin" */
    uint16_t a[LINES * MOST], b[LINES * MOST];
    uint32_t addend[LINES], result[LINES];
};

/* 0: it has another format, or sums of another number of products. */
static int read_file(struct recorded *r, const struct rp_embed *file, enum rp_tc_format format, int k)
{
    const char *name = strncmp(file->name, FOLDER, strlen(FOLDER)) == 0 ? file->name + strlen(FOLDER) : "";
    const size_t products = (size_t)k * sizeof *r->a, line = 2 * products + 2 * sizeof *r->addend;
    if (!strstr(name, format == RP_TC_FP16 ? "_fp16.bin" : "_bf16.bin") || file->size != LINES * line)
        return 0;
    r->name = name;
    for (size_t i = 0; i < LINES; i++) {
        const unsigned char *at = file->data + i * line;
        memcpy(r->a + i * (size_t)k, at, products);
        memcpy(r->b + i * (size_t)k, at + products, products);
        memcpy(&r->addend[i], at + 2 * products, sizeof *r->addend);
        memcpy(&r->result[i], at + 2 * products + sizeof *r->addend, sizeof *r->result);
    }
    return 1;
}

/* Each line has operands and an addend of its own: their sums are the diagonal of a matrix. */
static void multiply(uint32_t *c, const struct recorded *r, enum rp_isa isa, enum rp_tc_format format, struct rp_tc tc)
{
    const struct rp_tc_kernel *kernel = rp_tc_kernel(isa, 1);
    RP_FREE char *memory = rp_alloc(rp_tc_scratch(kernel) + 64);
    char *scratch = memory + (64 - (uintptr_t)memory % 64) % 64;
    for (int i = 0; i < LINES; i++)
        c[i * LINES + i] = r->addend[i];
    const struct rp_tc_gemm g = {.format = format, .tc = tc, .tb = 1, .m = LINES, .n = LINES, .k = tc.products,
                                 .a = r->a, .lda = tc.products, .b = r->b, .ldb = tc.products, .c = (float *)c,
                                 .ldc = LINES, .continues = 1};
    rp_tc_gemm_run(kernel, NULL, 1, scratch, &g, NULL);
}

static void compare_line(struct rp_tc_recorded *out, const struct recorded *r, int line, const char *by, uint32_t is,
                         struct rp_err *difference)
{
    if (is == r->result[line])
        return;
    if (!out->failed++)
        (void)!rp_fail(difference, RP_MISMATCH, "%.*s, line %d: by %s 0x%08x, recorded 0x%08x",
                       (int)strcspn(r->name, "."), r->name, line + 1, by, is, r->result[line]);
}

struct rp_tc_recorded rp_tc_compare_recorded(enum rp_isa isa, enum rp_tc_format format, struct rp_tc tc,
                                             struct rp_err *difference)
{
    struct rp_tc_recorded out = {0};
    RP_FREE struct recorded *r = rp_alloc(sizeof *r);
    for (const struct rp_embed *file = rp_embed_table; file->name; file++) {
        if (!read_file(r, file, format, tc.products))
            continue;
        RP_FREE uint32_t *c = rp_alloc((size_t)LINES * LINES * sizeof *c);
        multiply(c, r, isa, format, tc);
        for (int i = 0; i < LINES; i++) {
            const size_t at = (size_t)i * (size_t)tc.products;
            compare_line(&out, r, i, "the definition",
                         rp_tc_chain(format, tc, r->a + at, r->b + at, r->addend[i], tc.products), difference);
            compare_line(&out, r, i, "the kernel", c[i * LINES + i], difference);
        }
        out.gpus++;
        out.cases += 2 * LINES;
    }
    return out;
}
