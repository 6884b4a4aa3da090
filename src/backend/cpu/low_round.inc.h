/* Mixed precision: rounding to 16 bits. Compiled once per instruction set by ops_<isa>.c.
 *
 * Values of 16 bits lie in memory as the fp32 numbers that they are: the passes over rows and elements are those of
 * strict fp32, and a result is rounded by one pass more. Next to an emulated product, which takes four to seven times
 * as long as one of strict fp32, neither that pass nor the width of memory counts. Operands of products are converted
 * to 16 bits, exactly, before they are packed. */

#include "ops/low.h"

/* ---- rounding ---- */

/* NULL: strict fp32. */
static const struct rp_arithmetic *low_of(const struct rp_dev *dev)
{
    return rp_is_mixed(dev->numerics) ? rp_arithmetic_of(dev->numerics) : NULL;
}

static float low_rounded(float x, enum rp_tc_format format)
{
    return r_float(rp_low_value(format, rp_low_of(format, r_bits(x))));
}

/* The 16 bits of x, which they can represent or are nearest to. */
#if W == 16
RP_LANE __m256i low_bits(vf x, enum rp_tc_format format)
{
    const __m512i b = _mm512_castps_si512(x);
    __m256i r;
    if (format == RP_TC_FP16)
        r = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    else {
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
        const __m512i up = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        r = _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
    }
    return _mm256_mask_mov_epi16(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm256_set1_epi16(0x7fff));
}
RP_LANE vf low_value(__m256i bits, enum rp_tc_format format)
{
    return format == RP_TC_FP16 ? _mm512_cvtph_ps(bits)
                                : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
RP_LANE vf low_vector(vf x, enum rp_tc_format format)
{
    /* the conversion makes a NaN quiet, and its payload does not change */
    return low_value(low_bits(x, format), format);
}
RP_LANE void low_put(uint16_t *p, vf x, enum rp_tc_format format)
{
    _mm256_storeu_si256((__m256i *)p, low_bits(x, format));
}
#elif W == 8
RP_LANE __m128i low_bits(vf x, enum rp_tc_format format)
{
    const __m256i b = _mm256_castps_si256(x);
    const __m128i half = _mm_set1_epi16(0x7fff);
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m128i is_nan = _mm_packs_epi32(_mm_castps_si128(_mm256_castps256_ps128(nan)),
                                           _mm_castps_si128(_mm256_extractf128_ps(nan, 1)));
    __m128i r;
    if (format == RP_TC_FP16)
        r = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    else {
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
        const __m256i up = _mm256_srli_epi32(_mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
        r = _mm_packus_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256(up, 1));
    }
    return _mm_blendv_epi8(r, half, is_nan);
}
RP_LANE vf low_value(__m128i bits, enum rp_tc_format format)
{
    return format == RP_TC_FP16 ? _mm256_cvtph_ps(bits)
                                : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
RP_LANE vf low_vector(vf x, enum rp_tc_format format)
{
    return low_value(low_bits(x, format), format);
}
RP_LANE void low_put(uint16_t *p, vf x, enum rp_tc_format format)
{
    _mm_storeu_si128((__m128i *)p, low_bits(x, format));
}
#elif W == 4
RP_LANE uint16x4_t low_bits(vf x, enum rp_tc_format format)
{
    const uint32x4_t b = vreinterpretq_u32_f32(x), number = vceqq_f32(x, x);
    uint16x4_t r;
    if (format == RP_TC_FP16)
        r = vreinterpret_u16_f16(vcvt_f16_f32(x));
    else {
        const uint32x4_t odd = vandq_u32(vshrq_n_u32(b, 16), vdupq_n_u32(1));
        r = vshrn_n_u32(vaddq_u32(b, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
    }
    return vbsl_u16(vmovn_u32(number), r, vdup_n_u16(0x7fff));
}
RP_LANE vf low_value(uint16x4_t bits, enum rp_tc_format format)
{
    return format == RP_TC_FP16 ? vcvt_f32_f16(vreinterpret_f16_u16(bits))
                                : vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}
RP_LANE vf low_vector(vf x, enum rp_tc_format format)
{
    return low_value(low_bits(x, format), format);
}
RP_LANE void low_put(uint16_t *p, vf x, enum rp_tc_format format)
{
    vst1_u16(p, low_bits(x, format));
}
#else
RP_LANE vf low_vector(vf x, enum rp_tc_format format) { return low_rounded(x, format); }
RP_LANE void low_put(uint16_t *p, vf x, enum rp_tc_format format) { *p = rp_low_of(format, r_bits(x)); }
#endif

static void low_convert(uint16_t *restrict dst, const float *restrict src, long n, enum rp_tc_format format)
{
    long i = 0;
    for (; i + W <= n; i += W)
        low_put(dst + i, vload(src + i), format);
    for (; i < n; i++)
        dst[i] = rp_low_of(format, r_bits(src[i]));
}

static void low_round_row(float *dst, const float *src, long n, enum rp_tc_format format)
{
    long i = 0;
    for (; i + W <= n; i += W)
        vstore(dst + i, low_vector(vload(src + i), format));
    for (; i < n; i++)
        dst[i] = low_rounded(src[i], format);
}

#define LOW_RUN 16384 /* elements handed to a thread at a time */

struct low_round_job {
    float *dst;
    const float *src;
    size_t n;
    enum rp_tc_format format;
};

static void low_round_part(void *arg, int part, int thread)
{
    const struct low_round_job *o = arg;
    const size_t at = (size_t)part * LOW_RUN, left = o->n - at;
    (void)thread;
    low_round_row(o->dst + at, o->src + at, left < LOW_RUN ? (long)left : LOW_RUN, o->format);
}

static void low_round(struct rp_dev *dev, float *dst, const float *src, size_t n)
{
    struct low_round_job o = {dst, src, n, rp_arithmetic_of(dev->numerics)->format};
    if (rp_is_mixed(dev->numerics))
        rp_pool_run(rp_cpu_of(dev)->pool, (int)((n + LOW_RUN - 1) / LOW_RUN), low_round_part, &o);
    else if (dst != src)
        memcpy(dst, src, n * sizeof *dst);
}

/* What the kernel of strict fp32 has computed, as it is stored; nothing in strict fp32. */
static void low_store(struct rp_dev *dev, float *x, size_t n)
{
    low_round(dev, x, x, n);
}
