/* GEMM in mixed precision on the GPU: every tile of gemm16.def, both formats, in the arithmetic of each family, on
 * shapes that fit no tile, aligned and not, and with segments of k. All give the bits of ops/reference_low.inc.h and
 * write nothing else.
 * timeout: 600
 * shims: 800 700 ptx */
#include "tests/cuda/families.h"
#include "ops/tensor_probe.h"

/* slack: pitches beyond the rows: 0 none, 1 to the next multiple of 8, 2 odd; offset: of every matrix, in numbers;
 * kind: of A and B */
struct sample {
    int m, n, k, ta, tb, slack, offset, bias, add, in_place, f32;
    int kind;
};

static struct matrix a_data, b_data, c_data, add_data, bias_data;

static long pitch(int n, int slack)
{
    return slack == 0 ? n : slack == 1 ? (n + 7) / 8 * 8 : n + 3 - n % 2;
}

static int compare(const struct sample *s, int tile)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_dev reference = {.op = &rp_reference_ops, .numerics = dev->numerics};
    const size_t o = (size_t)s->offset, front = 64 + o;
    struct rp_gemm g = {.ta = s->ta, .tb = s->tb, .m = s->m, .n = s->n, .k = s->k,
                        .lda = pitch(s->ta ? s->m : s->k, s->slack), .ldb = pitch(s->tb ? s->k : s->n, s->slack),
                        .ldc = pitch(s->n, s->slack)};
    g.ldadd = g.ldc + (s->in_place ? 0 : 5);
    const size_t all = front + (size_t)s->m * (size_t)g.ldc + 64, added = front + (size_t)s->m * (size_t)g.ldadd;
    int usable;
    next_order();
    fill(&a_data, o + (size_t)g.lda * (size_t)(s->ta ? s->k : s->m), 0, s->kind);
    fill(&b_data, o + (size_t)g.ldb * (size_t)(s->tb ? s->n : s->k), 0, s->kind);
    fill(&c_data, all, s->f32, RANDOM);
    fill(&add_data, added, s->f32, RANDOM);
    fill(&bias_data, o + (size_t)s->n, 1, RANDOM);
    struct rp_gemm there = g;
    g.a = a_data.value + o, g.b = b_data.value + o, g.c = c_data.value + front;
    there.a = moved(&a_data, o, 0), there.b = moved(&b_data, o, 0), there.c = moved(&c_data, front, s->f32);
    if (s->bias)
        g.bias = bias_data.value + o, there.bias = moved(&bias_data, o, 1);
    if (s->add)
        g.add = s->in_place ? g.c : add_data.value + front,
        there.add = s->in_place ? there.c : moved(&add_data, front, s->f32);
    if (s->f32) {
        g.c32 = g.c, there.c32 = there.c, g.add32 = g.add, there.add32 = there.add;
        g.c = there.c = NULL;
        g.add = there.add = NULL;
    }
    c->gemm_forced.tile = tile;
    dev->op->gemm(dev, &there);
    c->gemm_forced.tile = 0;
    rp_reference_ops.gemm(&reference, &g);
    size_t first;
    const size_t bad = count_wrong(&c_data, all, s->f32, &first);
    CHECK(bad == 0,
          "%s, %s: %d x %d x %d, ta %d tb %d, slack %d offset %d, bias %d add %d in place %d, fp32 %d, kind %d, order "
          "%d late %d: %zu differ, the first at %ld, %ld: %a, expected %a",
          rp_numerics_name(dev->numerics), rp_cuda_gemm16_tile(c, c->gemm_done.tile, &usable), s->m, s->n, s->k, s->ta,
          s->tb, s->slack, s->offset, s->bias, s->add, s->in_place, s->f32, s->kind, (int)shim->order, shim->late, bad,
          ((long)first - (long)front) / g.ldc, ((long)first - (long)front) % g.ldc, fetched(&c_data, first, s->f32),
          (double)c_data.value[first]);
    return c->gemm_done.tile;
}

/* ---- what is compared in one arithmetic ---- */

static const int sizes[][3] = {{200, 196, 100}, {65, 70, 33}, {1, 1, 1},  {130, 129, 64},
                               {5, 300, 40},    {300, 3, 17}, {16, 24, 0}};

/* only: "" or what the names of the tiles begin with */
static void compare_tiles(int is_short, const char *only)
{
    static int done[64];
    int usable;
    const char *name;
    for (int tile = 1; (name = rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable)); tile++)
        for (int i = is_short ? tile % COUNT(sizes) : 0;
             usable && strncmp(name, only, strlen(only)) == 0 && i < COUNT(sizes); i += is_short ? 3 : 1)
            for (int slack = is_short ? (tile + i) % 3 : 0; slack < 3; slack += is_short ? 3 : 1) {
                const char *form = strchr(name, '_');
                const struct sample s = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .ta = form[1] == 't',
                                         .tb = form[2] == 't', .slack = slack, .offset = slack == 2 ? 1 + i : 0,
                                         .bias = (tile + i + slack) % 3 == 1, .add = (tile + i) % 4 > 1,
                                         .in_place = (tile + i) % 4 > 2, .f32 = (tile + slack) % 2};
                done[tile] += compare(&s, tile) == tile;
            }
    for (int tile = 1; (name = rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable)); tile++)
        CHECK(!usable || strncmp(name, only, strlen(only)) != 0 || done[tile] >= (is_short ? 1 : 3),
              "%s was used %d times", name, done[tile]);
}

/* Sums of segments: in order where k is longer than a chain may be, in a tree for a weight gradient; with little
 * workspace. every: 2 for half of them, of the other half the other format */
static void compare_segments(int tile, int every)
{
    static const struct sample samples[] = {
        {.m = 20, .n = 24, .k = 8300, .tb = 1, .bias = 1, .add = 1, .in_place = 1},
        {.m = 7, .n = 9, .k = 24577, .slack = 2, .f32 = 1},
        {.m = 40, .n = 30, .k = 4100, .ta = 1, .f32 = 1, .slack = 1},
        {.m = 9, .n = 8, .k = 33000, .ta = 1, .f32 = 1, .add = 1},
        {.m = 33, .n = 17, .k = 2048, .ta = 1, .f32 = 1, .offset = 1, .add = 1, .in_place = 1},
        {.m = 30, .n = 31, .k = 2047, .ta = 1},
        {.m = 12, .n = 5, .k = 4100, .ta = 1, .tb = 1, .bias = 1},
    };
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t workspace = c->workspace_bytes;
    for (int i = arithmetic()->format == RP_TC_BF16 ? every - 1 : 0; i < COUNT(samples); i += every)
        compare(&samples[i], tile);
    c->workspace_bytes = 7 * rp_cuda_low_row_bytes(24, 2);
    compare(&samples[0], tile);
    c->workspace_bytes = workspace;
}

static void compare_extremes(void)
{
    for (int kind = UNDERFLOW; kind <= INFINITE; kind++)
        for (int form = tap_long() ? 0 : kind & 1; form < 4; form += tap_long() ? 1 : 2)
            compare(
                &(struct sample){
                    .m = 70, .n = 66, .k = 40, .ta = form >> 1, .tb = form & 1, .f32 = kind == UNDERFLOW, .kind = kind},
                0);
}

static void compare_all(int is_short)
{
    struct matrix *const all[] = {&a_data, &b_data, &c_data, &add_data, &bias_data};
    take(all, COUNT(all));
    compare_tiles(shim->checked || is_short || !tap_long(), "");
    compare_segments(0, is_short && !tap_long() ? 2 : 1);
    if (!shim->checked)
        compare_extremes();
}

/* The proof has used every tile that a run may choose. */
static void check_every_tile_was_proved(void)
{
    const struct rp_cuda *c = rp_cuda_of(dev);
    int usable, count = 0;
    const char *tile;
    for (int number = 1; (tile = rp_cuda_gemm16_tile(c, number, &usable)); number++) {
        char name[64];
        snprintf(name, sizeof name, "rp_gemm16_%s_%s", arithmetic()->format == RP_TC_BF16 ? "bf16" : "f16", tile);
        for (int k = 0; usable && k < RP_CUDA_KERNELS; k++)
            if (strcmp(rp_cuda_kernels[k].name, name) == 0) {
                CHECK(c->launches[k] > 0, "%s was not proved", name);
                count++;
            }
    }
    CHECK(count >= 7, "%d tiles", count);
}

static void check_other_kernels_were_proved(void)
{
    const struct rp_cuda *c = rp_cuda_of(dev);
    const char *format = arithmetic()->format == RP_TC_BF16 ? "_bf16" : "_f16";
    int count = 0;
    for (int k = 0; k < RP_CUDA_KERNELS; k++) {
        const char *name = rp_cuda_kernels[k].name;
        const int is_conv = strncmp(name, "rp_conv16_", 10) == 0;
        if ((!is_conv && strncmp(name, "rp_attention16_", 15) != 0) || !strstr(name, format) ||
            (is_conv && strstr(name, "128") && c->image->arch < 80))
            continue;
        CHECK(c->launches[k] > 0, "%s was not proved", name);
        count++;
    }
    CHECK(count >= 10, "%d kernels", count);
}

/* Only the kernels of one operation add otherwise, by so many bits that rounding to 16 does not hide it. */
static void prove_other_operations(void)
{
    static const struct {
        const char *kernels, *op;
    } all[] = {{"conv16_forward", "conv_forward"}, {"conv16_dgrad", "conv_dgrad"},
               {"conv16_wgrad", "conv_wgrad"}, {"attention16_forward", "attention_backward"},
               {"attention16_keys", "attention_backward"}, {"attention16_queries", "attention_backward"}};
    const struct rp_tc own = arithmetic()->tc;
    shim->other = (struct rp_tc){own.products, own.bits - 8, own.floor};
    for (int i = 0; i < COUNT(all); i++) {
        struct rp_err e = {0};
        shim->other_in = all[i].kernels;
        CHECK(rp_cuda_prove(rp_cuda_of(dev), &e) < 0 && e.code == RP_UNAVAILABLE && strstr(e.msg, all[i].op), "%s: %s",
              all[i].kernels, e.msg);
    }
    shim->other_in = NULL;
    shim->other.products = 0;
}

/* Tensor cores that keep one bit less or more, or add half as many products at a time. */
static void prove_others(int is_short)
{
    const struct rp_tc own = arithmetic()->tc;
    const struct rp_tc others[] = {{own.products, own.bits - 1, own.floor}, {own.products, own.bits + 1, own.floor},
                                   {own.products / 2, own.bits, own.floor}};
    struct rp_device_proof *proof = &rp_cuda_of(dev)->proof;
    const size_t workspace = rp_cuda_of(dev)->workspace_bytes;
    char digest[RP_SHA256_HEX];
    struct rp_err e = {0};
    check(rp_cuda_prove(rp_cuda_of(dev), &e), &e);
    rp_tc_probe_digest(digest, dev->numerics);
    CHECK(strcmp(proof->outcome, "proved") == 0 && strcmp(proof->sums_sha256, digest) == 0 && proof->edges == 0,
          "%s: %s, %s, %d edges", rp_numerics_name(dev->numerics), proof->outcome, proof->sums_sha256, proof->edges);
    check_every_tile_was_proved();
    check_other_kernels_were_proved();
    if (!is_short)
        prove_other_operations();
    rp_cuda_of(dev)->workspace_bytes = 1 << 20;
    check(rp_cuda_prove(rp_cuda_of(dev), &e), &e);
    CHECK(strcmp(proof->outcome, "unproven") == 0 && !*proof->sums_sha256, "without memory: %s", proof->outcome);
    rp_cuda_of(dev)->workspace_bytes = workspace;
    for (int i = 0; i < COUNT(others); i++) {
        shim->other = others[i];
        CHECK(rp_cuda_prove(rp_cuda_of(dev), &e) < 0 && e.code == RP_UNAVAILABLE && strstr(e.msg, "do not compute as"),
              "%s, other %d: %s", rp_numerics_name(dev->numerics), i, e.msg);
    }
    if (arithmetic()->format == RP_TC_BF16) { /* which training does not meet */
        shim->other = (struct rp_tc){own.products, own.bits, own.floor + 1};
        check(rp_cuda_prove(rp_cuda_of(dev), &e), &e);
        CHECK(strcmp(proof->sums_sha256, digest) == 0 && proof->edges > 0, "another floor: %d edges", proof->edges);
    }
    shim->other.products = 0;
    check(rp_cuda_prove(rp_cuda_of(dev), &e), &e);
}

TEST(a_gpu_with_other_tensor_cores_is_refused)
{
    const char *library = getenv("RP_SHIM_LIBRARY");
    if (library && !strstr(library, "/800/") && !strstr(library, "/700/"))
        SKIP("executes the text of products itself");
    else
        compare_families("GEMM16", prove_others);
}

/* The compiled code of each family does all of this too, with every access checked. */
TEST(every_tile_has_the_bits_of_the_reference_in_the_arithmetic_of_each_family)
{
    const char *library = getenv("RP_SHIM_LIBRARY");
    if (!tap_long() && library && (strstr(library, "/800/") || strstr(library, "/700/")))
        SKIP("executed as PTX: LONG=1");
    else
        compare_families("GEMM16", compare_all);
}

/* ---- wgmma ---- */

static const char *chosen(void)
{
    int usable;
    return rp_cuda_gemm16_tile(rp_cuda_of(dev), rp_cuda_of(dev)->gemm_done.tile, &usable);
}

/* Chosen after it gave the right sums, and only then: by products that keep another number of bits it is not. */
static void prove_wgmma(void)
{
    const struct sample s = {.m = 256, .n = 256, .k = 64, .tb = 1};
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_err e = {0};
    compare(&s, 0);
    CHECK(strncmp(chosen(), "wgmma", 5) != 0, "%s before its sums were looked at", chosen());
    check(rp_cuda_prove(c, &e), &e);
    CHECK(c->has_wgmma && strcmp(c->proof.outcome, "proved") == 0, "not proved");
    compare(&s, 0);
    CHECK(strncmp(chosen(), "wgmma256_nt", 11) == 0, "%s is chosen", chosen());
    c->without_wgmma = 1;
    check(rp_cuda_prove(c, &e), &e);
    CHECK(!c->has_wgmma && strcmp(c->proof.instruction, "mma") == 0, "asked to leave it out: %s", c->proof.instruction);
    c->without_wgmma = 0;
    setenv("PTX_OTHER_PRODUCTS", "1", 1);
    setenv("SASS_OTHER_PRODUCTS", "1", 1);
    check(rp_cuda_prove(c, &e), &e);
    CHECK(!c->has_wgmma && strcmp(c->proof.outcome, "proved") == 0, "with one bit less: proved");
    unsetenv("PTX_OTHER_PRODUCTS");
    unsetenv("SASS_OTHER_PRODUCTS");
    compare(&s, 0);
    CHECK(strncmp(chosen(), "128x128_nt", 10) == 0, "%s is chosen", chosen());
}

static void compare_wgmma(int is_short)
{
    struct matrix *const all[] = {&a_data, &b_data, &c_data, &add_data, &bias_data};
    take(all, COUNT(all));
    int usable;
    const char *name;
    compare_tiles(is_short, "wgmma");
    for (int tile = 1; (name = rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable)); tile++)
        for (int has_maps = 0; strncmp(name, "wgmma", 5) == 0 && has_maps < 2; has_maps++) {
            const struct sample s = {.m = 130, .n = 264, .k = 328, .ta = name[9] == 't', .tb = name[10] == 't',
                                     .slack = 1, .f32 = has_maps};
            setenv("SHIM_TENSOR_MAPS", has_maps ? "1" : "0", 1); /* copies by threads, too */
            compare(&s, tile);
        }
    unsetenv("SHIM_TENSOR_MAPS");
    for (int tile = 1; (name = rp_cuda_gemm16_tile(rp_cuda_of(dev), tile, &usable)); tile++)
        if (strcmp(name, "wgmma256_tn") == 0 || (!is_short && strncmp(name, "wgmma", 5) == 0))
            compare_segments(tile, 1);
    prove_wgmma();
    CHECK(rp_cuda_of(dev)->more != NULL, "there is no image for sm_90a");
}

/* Machine code, or PTX: without PTX_DIR compute_90 as test_device_code reads it, because what ships has machine code
 * for it. */
TEST(wgmma_has_the_bits_of_the_reference)
{
    const char *library = getenv("RP_SHIM_LIBRARY"), *build = getenv("BUILD");
    const int is_sass = library && strstr(library, "/sass/") && getenv("SASS_DIR");
    const char *named = getenv(is_sass ? "SASS_DIR" : "PTX_DIR");
    char ptx[512], code[512], more[520];
    snprintf(ptx, sizeof ptx, "%s/gpu/checked/compute_90", build ? build : "build");
    snprintf(code, sizeof code, "%s", named ? named : ptx);
    snprintf(more, sizeof more, "%sa", code);
    if (!is_sass && (!library || !strstr(library, "/ptx/")))
        SKIP("executes compiled code");
    if (access(code, R_OK) != 0 || access(more, R_OK) != 0)
        SKIP("there is no code for sm_90a (ARCHS)");
    for (int n = 0; n < RP_NUMERICS_COUNT; n++)
        if (rp_is_mixed((enum rp_numerics)n) && rp_cuda_has_arithmetic(90, (enum rp_numerics)n))
            compare_family(90, (enum rp_numerics)n, named ? NULL : ptx, !tap_long(), compare_wgmma);
}
