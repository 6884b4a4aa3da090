/* The normative functions and the generator: digests of their outputs, known answers, accuracy against the C library.
 * LONG=1 in the environment takes the digests over all 2^32 inputs (minutes); otherwise over every
 * RP_FUNCTION_STRIDE-th. */
#include "base/buf.h"
#include "base/hash.h"
#include "ops/functions.h"
#include "ops/philox.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK 4096

#define CALL(name) static float call_##name(uint32_t x) { return name(r_float(x)); }
CALL(r_exp)
CALL(r_log)
CALL(r_tanh)
CALL(r_erf)
CALL(r_gelu)
CALL(r_gelu_grad)
CALL(r_gelu_tanh)
CALL(r_gelu_tanh_grad)
static float call_r_truncated_normal(uint32_t x)
{
    return r_truncated_normal(x);
}

static float call_r_normal(uint32_t x)
{
    return r_normal(x);
}

/* Outputs for inputs 0, stride, 2*stride, ... below 2^32, as little-endian words with NaN as 0x7fc00000. */
static void digest(char hex[RP_SHA256_HEX], float (*f)(uint32_t), uint64_t stride)
{
    static uint32_t out[CHUNK];
    struct rp_sha256 h;
    unsigned char bytes[RP_SHA256_SIZE];
    int n = 0;
    rp_sha256_init(&h);
    for (uint64_t x = 0; x < (uint64_t)1 << 32; x += stride) {
        float y = f((uint32_t)x);
        out[n++] = y != y ? 0x7fc00000u : r_bits(y);
        if (n == CHUNK) {
            rp_sha256_update(&h, out, sizeof out);
            n = 0;
        }
    }
    rp_sha256_update(&h, out, (size_t)n * sizeof *out);
    rp_sha256_final(&h, bytes);
    rp_hex(hex, bytes, sizeof bytes);
}

TEST(digests)
{
    static const struct {
        const char *name, *full, *strided;
        float (*f)(uint32_t);
    } functions[] = {
#define X(name, full, strided) {#name, full, strided, call_##name},
        RP_FUNCTIONS(X)
#undef X
    };
    int all = tap_long();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char hex[RP_SHA256_HEX];
        digest(hex, functions[i].f, all ? 1 : RP_FUNCTION_STRIDE);
        CHECK(!strcmp(hex, all ? functions[i].full : functions[i].strided), "%s: %s", functions[i].name, hex);
    }
}

/* The special forms that kernels use where they know the range give the bits of the general one. */
TEST(exp_in_a_range)
{
    for (uint64_t b = 0; b < (uint64_t)1 << 32; b += 1009) {
        float x = r_float((uint32_t)b);
        if (x <= 88.0f)
            CHECK(r_bits(r_exp_below(x)) == r_bits(r_exp(x)), "x = %a", (double)x);
        if (x >= -87.0f && x <= 88.0f)
            CHECK(r_bits(r_exp_near(x)) == r_bits(r_exp(x)), "x = %a", (double)x);
    }
}

/* Distance from the double result in units of the float's last place; results below the normal range count as
 * absolute. */
static double ulps(float got, double exact)
{
    int e;
    frexp(exact, &e);
    return fabs((double)got - exact) / ldexp(1.0, (e < -125 ? -125 : e) - 24);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

/* Bounds are the largest error over all inputs, rounded up; gelu and its gradient have absolute ones, as their small
 * results are differences of larger numbers. */
TEST(accuracy)
{
    double worst[8] = {0};
    for (uint64_t b = 0; b < (uint64_t)1 << 32; b += 4007) {
        float x = r_float((uint32_t)b);
        double d = (double)x, v;
        if (!isfinite(x))
            continue;
        if (d > -87 && d < 88.7 && (v = ulps(r_exp(x), exp(d))) > worst[0])
            worst[0] = v;
        if (d > 0 && (v = ulps(r_log(x), log(d))) > worst[1])
            worst[1] = v;
        if ((v = ulps(r_tanh(x), tanh(d))) > worst[2])
            worst[2] = v;
        if ((v = ulps(r_erf(x), erf(d))) > worst[3])
            worst[3] = v;
        if ((v = fabs((double)r_gelu(x) - d * normal_cdf(d)) / (1 + fabs(d))) > worst[4])
            worst[4] = v;
        if ((v = fabs((double)r_gelu_grad(x) - (normal_cdf(d) + d * exp(-d * d / 2) * 0.39894228040143267794))) >
            worst[5])
            worst[5] = v;
        double t = tanh(0.79788456080286535588 * (d + 0.044715 * d * d * d)), e = 0.5 * (1 + t);
        double g = fabs(d) > 50 ? d > 0 : e + 0.5 * d * (1 - t * t) * 0.79788456080286535588 * (1 + 0.134145 * d * d);
        if ((v = fabs((double)r_gelu_tanh(x) - (fabs(d) > 50 ? d > 0 ? d : 0 : d * e)) / (1 + fabs(d))) > worst[6])
            worst[6] = v;
        if ((v = fabs((double)r_gelu_tanh_grad(x) - g)) > worst[7])
            worst[7] = v;
    }
    CHECK(worst[0] < 1.0, "exp %.3f ulp", worst[0]);
    CHECK(worst[1] < 1.0, "log %.3f ulp", worst[1]);
    CHECK(worst[2] < 1.5, "tanh %.3f ulp", worst[2]);
    CHECK(worst[3] < 1.2, "erf %.3f ulp", worst[3]);
    CHECK(worst[4] < 1.5e-7, "gelu %.3g", worst[4]);
    CHECK(worst[5] < 2.5e-7, "gelu gradient %.3g", worst[5]);
    CHECK(worst[6] < 1.5e-7, "tanh gelu %.3g", worst[6]);
    CHECK(worst[7] < 7e-7, "tanh gelu gradient %.3g", worst[7]);
}

TEST(special_values)
{
    float inf = INFINITY;
    CHECK(r_exp(-inf) == 0 && !signbit(r_exp(-inf)) && r_exp(inf) == inf && isnan(r_exp(NAN)));
    CHECK(r_exp(0.0f) == 1.0f && r_exp(-0.0f) == 1.0f && r_exp(-103.0f) > 0 && r_exp(88.73f) == inf);
    CHECK(r_log(0.0f) == -inf && r_log(-0.0f) == -inf && r_log(inf) == inf && isnan(r_log(-1.0f)) && isnan(r_log(NAN)));
    CHECK(r_log(1.0f) == 0 && !signbit(r_log(1.0f)));
    CHECK(fabs((double)r_log(0x1p-149f) - log(0x1p-149)) < 1e-5, "subnormal: %a", (double)r_log(0x1p-149f));
    CHECK(r_tanh(inf) == 1 && r_tanh(-inf) == -1 && isnan(r_tanh(NAN)) && signbit(r_tanh(-0.0f)) && r_tanh(-0.0f) == 0);
    CHECK(r_erf(inf) == 1 && r_erf(-inf) == -1 && isnan(r_erf(NAN)) && signbit(r_erf(-0.0f)) && r_erf(-0.0f) == 0);
    CHECK(isnan(r_gelu(NAN)) && r_gelu(0.0f) == 0 && r_gelu_grad(0.0f) == 0.5f && r_gelu_grad(20.0f) == 1 &&
          r_gelu_grad(-20.0f) == 0);
    CHECK(isnan(r_gelu_tanh(NAN)) && r_gelu_tanh(0.0f) == 0 && r_gelu_tanh(1e30f) == 1e30f && r_gelu_tanh(-1e30f) == 0);
    CHECK(isnan(r_gelu_tanh_grad(NAN)) && r_gelu_tanh_grad(0.0f) == 0.5f && r_gelu_tanh_grad(1e30f) == 1 &&
          r_gelu_tanh_grad(-1e30f) == 0);
}

/* All 2^23 values the quantile can take: increasing, odd, inside (-2, 2), and of the distribution's variance and
 * shape. */
TEST(truncated_normal)
{
    double sum = 0, square = 0, worst = 0;
    const double mass = erf(sqrt(2.0)); /* of (-2, 2) */
    float last = -3;
    int rising = 1, odd = 1;
    for (uint32_t k = 0; k < 1u << 23; k++) {
        float z = r_truncated_normal(k << 9 | (k & 511));
        double p = (2.0 * k + 1) * 0x1p-23 - 1;
        double e = fabs(erf((double)z / sqrt(2.0)) / mass - p);
        rising &= z >= last;
        odd &= k % 64 || z == -r_truncated_normal(~(k << 9));
        last = z;
        sum += (double)z;
        square += (double)z * (double)z;
        if (e > worst)
            worst = e;
    }
    CHECK(rising && odd && last < 2.0f && r_truncated_normal(0) == -last);
    CHECK(worst < 2e-7, "probability off by %.3g", worst);
    CHECK(fabs(sum) < 1e-3 && fabs(square / (1 << 23) - 0.7737413) < 1e-6, "mean %g variance %.8f", sum / (1 << 23),
          square / (1 << 23));
}

TEST(normal)
{
    double sum = 0, square = 0, worst = 0;
    float last = -6;
    int rising = 1, odd = 1;
    for (uint32_t k = 0; k < 1u << 23; k++) {
        float z = r_normal(k << 9 | (k & 511));
        double p = ((double)k + 0.5) * 0x1p-23, e = fabs(normal_cdf((double)z) - p);
        rising &= z >= last - 4e-6f; /* where the two polynomials meet */
        odd &= k % 64 || z == -r_normal(~(k << 9));
        last = z;
        sum += (double)z;
        square += (double)z * (double)z;
        if (e > worst)
            worst = e;
    }
    CHECK(rising && odd && last > 5.2f && last < 5.3f && r_normal(0) == -last);
    CHECK(worst < 2e-7, "probability off by %.3g", worst);
    CHECK(fabs(sum) < 1e-3 && fabs(square / (1 << 23) - 1) < 1e-5, "mean %g variance %.8f", sum / (1 << 23),
          square / (1 << 23));
}

/* The known answers that come with the published generator: zeros, ones, digits of pi. */
TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, ~(uint64_t)0, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822ull,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t x[4];
        memcpy(x, known[i].counter, sizeof x);
        rp_philox(x, known[i].key);
        CHECK(!memcmp(x, known[i].out, sizeof x), "vector %zu: %08x %08x %08x %08x", i, x[0], x[1], x[2], x[3]);
    }
}
