/* The functions of repro-fp32/1: r_exp, r_log, r_tanh, r_erf, r_gelu in two forms, their gradients, and normal
 * quantiles.
 *
 * What:    normative C. Every backend computes these expressions, rounding for rounding; the constants never change.
 * Flow:    binary32 -> binary32, by add, sub, mul, fma, div, comparison and integer operations only; a product and a
 *          sum are one rounding exactly where fmaf is written.
 * Owner:   none. The digests below cover all 2^32 inputs; tests/ops/test_functions.c checks them.
 * Extend:  a new function gets its row in RP_FUNCTIONS with its digests. A changed constant is a new version of the
 *          arithmetic.
 *
 * Straight-line code with selects, so that one source serves scalar code, vectorised loops and device code. A backend
 * for another language defines RP_FN before including it.
 */
#pragma once

#ifndef __CUDACC_RTC__ /* it has no such header: backend/cuda/device.h makes the types */
#include <stdint.h>
#endif

#ifndef RP_FN
#define RP_FN static inline __attribute__((always_inline))
#endif

RP_FN float r_float(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
RP_FN uint32_t r_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e^x = 2^n * e^r, n = round(x / ln 2), |r| <= ln 2 / 2: writes n, returns e^r. x in [-104, 88.8]. */
RP_FN float r_exp_parts(float x, int32_t *n_out)
{
    float t = __builtin_fmaf(x, 0x1.715476p0f, 12582912.0f); /* 1.5 * 2^23: the sum's low bits are n */
    float n = t - 12582912.0f;
    *n_out = (int32_t)(r_bits(t) - 0x4b400000u);
    float r = __builtin_fmaf(n, -0x1.62e4p-1f, x);
    r = __builtin_fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.6d4e7ep-10f;
    p = __builtin_fmaf(p, r, 0x1.120c44p-7f);
    p = __builtin_fmaf(p, r, 0x1.5554e8p-5f);
    p = __builtin_fmaf(p, r, 0x1.5554dcp-3f);
    p = __builtin_fmaf(p, r, 0.5f);
    p = __builtin_fmaf(p, r, 1.0f);
    return __builtin_fmaf(p, r, 1.0f);
}

/* e^x for x in [-87, 88], where 2^n is a normal float: the same bits as r_exp. */
RP_FN float r_exp_near(float x)
{
    int32_t n;
    float p = r_exp_parts(x, &n);
    return p * r_float((uint32_t)(n + 127) << 23);
}

/* 2^n * p in two factors, so that subnormal results round once and results above the largest float become +inf. */
RP_FN float r_scale_exp(float p, int32_t n)
{
    int32_t half = n >> 1;
    return (p * r_float((uint32_t)(half + 127) << 23)) * r_float((uint32_t)(n - half + 127) << 23);
}

/* e^x. NaN -> NaN, -inf -> +0. */
RP_FN float r_exp(float x)
{
    float c = x > 88.8f ? 88.8f : x;
    c = c < -104.0f ? -104.0f : c;
    int32_t n;
    float p = r_exp_parts(c, &n);
    return r_scale_exp(p, n);
}

/* e^x for x <= 88: the same bits as r_exp, one comparison less. What a softmax needs. */
RP_FN float r_exp_below(float x)
{
    int32_t n;
    float p = r_exp_parts(x < -104.0f ? -104.0f : x, &n);
    return r_scale_exp(p, n);
}

/* ln x = e ln 2 + ln m, m in [sqrt 1/2, sqrt 2). Subnormal x is scaled by 2^25 first. ln +-0 = -inf, ln +inf = +inf;
 * negative x and NaN give NaN. */
RP_FN float r_log(float x)
{
    int tiny = x < 0x1p-126f;
    float c = tiny ? x * 0x1p25f : x;
    uint32_t b = r_bits(c);
    int32_t e = (int32_t)(b - 0x3f3504f3u) >> 23;
    float f = r_float(b - ((uint32_t)e << 23)) - 1.0f;
    float p = -0x1.495bcep-4f;
    p = __builtin_fmaf(p, f, 0x1.08a48cp-3f);
    p = __builtin_fmaf(p, f, -0x1.0bf66ep-3f);
    p = __builtin_fmaf(p, f, 0x1.2244bp-3f);
    p = __builtin_fmaf(p, f, -0x1.5487d6p-3f);
    p = __builtin_fmaf(p, f, 0x1.99a7a6p-3f);
    p = __builtin_fmaf(p, f, -0x1.000222p-2f);
    p = __builtin_fmaf(p, f, 0x1.555548p-2f);
    p = __builtin_fmaf(p, f, -0x1.fffffep-2f);
    p = __builtin_fmaf(f * f, p, f);
    float y = __builtin_fmaf((float)(tiny ? e - 25 : e), 0x1.62e43p-1f, p);
    y = x == 0.0f ? -__builtin_inff() : y;
    y = x == __builtin_inff() ? x : y;
    return x >= 0.0f ? y : __builtin_nanf("");
}

/* |x| < 0.625: an odd polynomial; else 1 - 2/(e^2|x| + 1), with |x| limited to 10. */
RP_FN float r_tanh(float x)
{
    uint32_t sign = r_bits(x) & 0x80000000u;
    float ax = r_float(r_bits(x) & 0x7fffffffu);
    float a = ax > 10.0f ? 10.0f : ax;
    float big = 1.0f - 2.0f / (r_exp_near(a + a) + 1.0f);
    float z = ax * ax;
    float q = 0x1.389e68p-9f;
    q = __builtin_fmaf(q, z, -0x1.14df3p-7f);
    q = __builtin_fmaf(q, z, 0x1.65608p-6f);
    q = __builtin_fmaf(q, z, -0x1.ba193ep-5f);
    q = __builtin_fmaf(q, z, 0x1.111136p-3f);
    q = __builtin_fmaf(q, z, -0x1.555556p-2f);
    float small = __builtin_fmaf(q * z, ax, ax);
    float y = ax < 0.625f ? small : big;
    return r_float(r_bits(y) | sign);
}

/* |x| < 0.95: an odd polynomial; else 1 - e^-h(|x|) with a polynomial h and |x| limited to 4. */
RP_FN float r_erf(float x)
{
    uint32_t sign = r_bits(x) & 0x80000000u;
    float ax = r_float(r_bits(x) & 0x7fffffffu);
    float a = ax > 4.0f ? 4.0f : ax;
    float h = 0x1.2782c4p-25f;
    h = __builtin_fmaf(h, a, -0x1.3f7ab4p-19f);
    h = __builtin_fmaf(h, a, 0x1.bc8e34p-15f);
    h = __builtin_fmaf(h, a, -0x1.4c1aep-11f);
    h = __builtin_fmaf(h, a, 0x1.3fcfp-8f);
    h = __builtin_fmaf(h, a, -0x1.b50bacp-6f);
    h = __builtin_fmaf(h, a, 0x1.c44bfap-4f);
    h = __builtin_fmaf(h, a, 0x1.43591p-1f);
    h = __builtin_fmaf(h, a, 0x1.215fcp0f);
    h = __builtin_fmaf(h, a, -0x1.6b70dep-12f);
    float big = 1.0f - r_exp_near(-h);
    float z = ax * ax;
    float q = 0x1.58c4b6p-14f;
    q = __builtin_fmaf(q, z, -0x1.a90b76p-11f);
    q = __builtin_fmaf(q, z, 0x1.54a622p-8f);
    q = __builtin_fmaf(q, z, -0x1.b80b26p-6f);
    q = __builtin_fmaf(q, z, 0x1.ce2dep-4f);
    q = __builtin_fmaf(q, z, -0x1.812742p-2f);
    q = __builtin_fmaf(q, z, 0x1.06eba8p-3f);
    float small = __builtin_fmaf(ax, q, ax);
    float y = ax < 0.95f ? small : big;
    return r_float(r_bits(y) | sign);
}

/* u/2 * (1 + erf(u / sqrt 2)) */
RP_FN float r_gelu(float u)
{
    return (0.5f * u) * (1.0f + r_erf(u * 0x1.6a09e6p-1f));
}

/* d gelu / du = (1 + erf(u / sqrt 2)) / 2 + u * e^(-u^2/2) / sqrt(2 pi) */
RP_FN float r_gelu_grad(float u)
{
    float c = 0.5f * (1.0f + r_erf(u * 0x1.6a09e6p-1f));
    float p = r_exp_below(-0.5f * (u * u)) * 0x1.988454p-2f;
    return __builtin_fmaf(u, p, c);
}

/* u is limited to +-16 where it is cubed: tanh is +-1 there, and no product overflows. */
RP_FN float r_gelu_tanh_limit(float u)
{
    float v = u > 16.0f ? 16.0f : u;
    return v < -16.0f ? -16.0f : v;
}

/* u/2 * (1 + tanh(sqrt(2/pi) * (u + 0.044715 u^3))) */
RP_FN float r_gelu_tanh(float u)
{
    float v = r_gelu_tanh_limit(u);
    float t = v * __builtin_fmaf(0x1.2444f2p-5f, v * v, 0x1.988454p-1f);
    return (0.5f * u) * (1.0f + r_tanh(t));
}

/* d gelu / du = (1 + tanh t) / 2 + u/2 * (1 - tanh^2 t) * dt/du */
RP_FN float r_gelu_tanh_grad(float u)
{
    float v = r_gelu_tanh_limit(u), z = v * v;
    float h = r_tanh(v * __builtin_fmaf(0x1.2444f2p-5f, z, 0x1.988454p-1f));
    float slope = __builtin_fmaf(0x1.b6676cp-4f, z, 0x1.988454p-1f);
    return __builtin_fmaf((0.5f * v) * __builtin_fmaf(-h, h, 1.0f), slope, 0.5f * (1.0f + h));
}

/* A word of randomness -> normal distribution truncated to (-2, 2), by its quantile function. t = (2k + 1) / 2^23 - 1
 * with k = word / 512 is exact, odd around 0 and never 0. With a = t * erf(sqrt 2), sqrt(2) * erfinv(a) = t * P(-ln(1 -
 * a^2)). */
RP_FN float r_truncated_normal(uint32_t word)
{
    float t = (float)(int32_t)((word >> 9) * 2u - 0x7fffffu) * 0x1p-23f;
    float a = t * 0x1.e8b43p-1f;
    float w = -r_log(__builtin_fmaf(-a, a, 1.0f));
    float p = -0x1.a02cc2p-18f;
    p = __builtin_fmaf(p, w, 0x1.6ee7b8p-14f);
    p = __builtin_fmaf(p, w, -0x1.b4aca2p-13f);
    p = __builtin_fmaf(p, w, -0x1.999868p-9f);
    p = __builtin_fmaf(p, w, 0x1.fe8606p-7f);
    p = __builtin_fmaf(p, w, 0x1.40b498p-2f);
    p = __builtin_fmaf(p, w, 0x1.323feep0f);
    float z = t * p;
    z = z > 0x1.fffffep0f ? 0x1.fffffep0f : z;
    return z < -0x1.fffffep0f ? -0x1.fffffep0f : z;
}

/* A word of randomness -> normal distribution, by its quantile function: t as above, sqrt(2) * erfinv(t) = t * P(w)
 * with w = -ln(1 - t^2), P in w - 2.5 for w < 5, else in sqrt(w) - 3. |z| is at most 5.3. */
RP_FN float r_normal(uint32_t word)
{
    float t = (float)(int32_t)((word >> 9) * 2u - 0x7fffffu) * 0x1p-23f;
    float w = -r_log(__builtin_fmaf(-t, t, 1.0f));
    float v = w - 2.5f;
    float p = 0x1.5ad836p-25f;
    p = __builtin_fmaf(p, v, 0x1.050a92p-21f);
    p = __builtin_fmaf(p, v, -0x1.4eee78p-18f);
    p = __builtin_fmaf(p, v, -0x1.a15f42p-18f);
    p = __builtin_fmaf(p, v, 0x1.442b28p-12f);
    p = __builtin_fmaf(p, v, -0x1.d0c86cp-10f);
    p = __builtin_fmaf(p, v, -0x1.8332aap-8f);
    p = __builtin_fmaf(p, v, 0x1.652c86p-2f);
    p = __builtin_fmaf(p, v, 0x1.0fc8bep+1f);
    float s = __builtin_sqrtf(w) - 3.0f;
    float q = -0x1.cea454p-14f;
    q = __builtin_fmaf(q, s, 0x1.93a278p-10f);
    q = __builtin_fmaf(q, s, -0x1.425c4ap-8f);
    q = __builtin_fmaf(q, s, 0x1.0f64bep-7f);
    q = __builtin_fmaf(q, s, -0x1.63fda2p-7f);
    q = __builtin_fmaf(q, s, 0x1.b48798p-7f);
    q = __builtin_fmaf(q, s, 0x1.6aa574p+0f);
    q = __builtin_fmaf(q, s, 0x1.00696ep+2f);
    return t * (w < 5.0f ? p : q);
}

/* Two words of randomness -> w, moved by less than 2^-10 of itself and by less than `scale`. */
RP_FN float r_perturbed(float w, const uint32_t word[2], float scale)
{
    float u = (float)((int32_t)(word[0] >> 8) - (1 << 23)) * 0x1p-33f;
    float v = (float)((int32_t)(word[1] >> 8) - (1 << 23)) * 0x1p-23f;
    float step = scale * v;
    return __builtin_fmaf(w, u, w) + step;
}

/* Name, SHA-256 of the outputs for all inputs 0 .. 2^32-1 in ascending order (little-endian words, NaN as 0x7fc00000),
 * and the same for every RP_FUNCTION_STRIDE-th input from 0. */
#define RP_FUNCTION_STRIDE 4093
#define RP_FUNCTIONS(X) \
    X(r_exp, "9c67bafe14162168df10517a39048b23d7cf5cd6d386d61e82c2403e7744e4cd", \
      "7af747a0166eded492e21343703123d6ba4bd746a6791835948413a31c8c2561") \
    X(r_log, "76dae6957915582d9dbbbdfeffaf510512e36174b226d9d2b32c6b90a4756c6c", \
      "78426467830ecac6b01eb68c27d91aed3347a9fcca5ab5ec1ea07c17d7193f2d") \
    X(r_tanh, "bc4a79d3d10c596e55b34e219116de1935720f3a99339455c9b555bbb18eef8b", \
      "df1140b8fa2bf463424aee51f0f1000bc55a42a7875f875ea68c8aa51eeebd2c") \
    X(r_erf, "b0a849d2bf7766696075e50197491d3c83a6b2ef22c3609892f1c47a60eddea0", \
      "21b9e2d6d5c32fc55fece52857e5de5dc56ee1b1a4c7cfedf908749e7359ef11") \
    X(r_gelu, "f2e13b49c634f6fd1b09f5d9b56e768707f672cdd96c581a1852583b9d5c9492", \
      "da0fcbbbf0e7fab48467a4154304d132193266d8f755b2b2a12165f819df3062") \
    X(r_gelu_grad, "7e050a3268249cb924ede8b744fa7b61a4fc0d7b5664c4583dfe76874b229260", \
      "a49f4eeb515f8add6b63dac97412b115c93edf472ccf8e65a4febc8fd8412532") \
    X(r_gelu_tanh, "fb9ccfd738c7c81922f8af3dc450a3de7397f4e70568fde402fcee4300af389f", \
      "bc9322553a08d1a79e965ea2ef327c9d81bcc1a86d8c7fa45965fe1ddf237677") \
    X(r_gelu_tanh_grad, "fcafe8acf1516237f274cdd7d3ec05ea89ce97ff833fc522f09e3aac867107e4", \
      "afed989014e5209d525248a9887bdd436b17fbbf2150a4a4312866860a81b6d2") \
    X(r_truncated_normal, "925e6837358a920a15c0df8755ec36990d10de11fc709d86bfd552574c118383", \
      "cc80b29e580e3a0a8ec5a98c5e5f7bbaeaec4dce7c81112d0e8b9ad951e61e7c") \
    X(r_normal, "ff5b892960b9d8996c516192a5e5d4a9efe280678415c288a5e236108e1bca30", \
      "e6974fc0812248d7a23c6b0af71992bcc5bb716c66386ece9c182a13e878200b")
