/* The registers of tc_tile.inc.h in NEON: what tc_x86.inc.h has in AVX2 and AVX-512, by the same names. */
#include <arm_neon.h>

#define LANES 2 /* doubles of a register */
#define ROWS 4
#define AHEAD 1 /* 32 registers */
typedef float64x2_t vd;
typedef int32x4_t vi;
#define VD(op) neon_##op
#define VI(op) neon_##op

#define IN_REGISTER(x) __asm__("" : "+w"(x))

#define AS_WORDS(x) vreinterpretq_s16_s32(x)
#define AS_UNSIGNED(x) vreinterpretq_u16_s32(x)
#define AS_DOUBLES(x) vreinterpretq_f64_s32(x)

INLINE vd neon_set1_pd(double x) { return vdupq_n_f64(x); }
INLINE vd neon_loadu_pd(const double *p) { return vld1q_f64(p); }
INLINE vd neon_load_pd(const double *p) { return vld1q_f64(p); }
INLINE void neon_storeu_pd(double *p, vd x) { vst1q_f64(p, x); }
INLINE vd neon_add_pd(vd a, vd b) { return vaddq_f64(a, b); }
INLINE vd neon_sub_pd(vd a, vd b) { return vsubq_f64(a, b); }
INLINE vd neon_fmadd_pd(vd a, vd b, vd c) { return vfmaq_f64(c, a, b); }

INLINE vi neon_loadu(const void *p) { return vld1q_s32(p); }
INLINE void neon_storeu(void *p, vi x) { vst1q_s32(p, x); }
INLINE void neon_store(vi *p, vi x) { vst1q_s32((int32_t *)p, x); }
INLINE vi neon_setzero(void) { return vdupq_n_s32(0); }
INLINE vi neon_set1_epi32(int x) { return vdupq_n_s32(x); }
INLINE vi neon_set1_epi16(short x) { return vreinterpretq_s32_s16(vdupq_n_s16(x)); }
INLINE vi neon_and(vi a, vi b) { return vandq_s32(a, b); }
INLINE vi neon_xor(vi a, vi b) { return veorq_s32(a, b); }
INLINE vi neon_add_epi32(vi a, vi b) { return vaddq_s32(a, b); }
INLINE vi neon_max_epi32(vi a, vi b) { return vmaxq_s32(a, b); }
INLINE vi neon_add_epi16(vi a, vi b) { return vreinterpretq_s32_s16(vaddq_s16(AS_WORDS(a), AS_WORDS(b))); }
INLINE vi neon_max_epi16(vi a, vi b) { return vreinterpretq_s32_s16(vmaxq_s16(AS_WORDS(a), AS_WORDS(b))); }
INLINE vi neon_min_epu16(vi a, vi b) { return vreinterpretq_s32_u16(vminq_u16(AS_UNSIGNED(a), AS_UNSIGNED(b))); }
INLINE vi neon_unpacklo_epi32(vi a, vi b) { return vzip1q_s32(a, b); }
INLINE vi neon_unpackhi_epi32(vi a, vi b) { return vzip2q_s32(a, b); }
#define neon_slli_epi32(x, n) vshlq_n_s32(x, n)
#define neon_srli_epi32(x, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n))

INLINE vi count_words(vi words, const int products)
{
    (void)products;
    return vreinterpretq_s32_u16(vpaddlq_u8(vcntq_u8(vreinterpretq_u8_s32(words))));
}

/* ---- packing ---- */

#define RANGES struct neon_ranges /* of the numbers that were packed */
struct neon_ranges {
    int32x4_t least, most;
    uint32x4_t infinite, zero;
};

INLINE RANGES no_range(void)
{
    return (RANGES){vdupq_n_s32(9999), vdupq_n_s32(-9999), vdupq_n_u32(0), vdupq_n_u32(0)};
}

static void reduce(struct rp_tc_range *to, RANGES from)
{
    const int least = vminvq_s32(from.least), most = vmaxvq_s32(from.most);
    to->least = least < to->least ? least : to->least;
    to->most = most > to->most ? most : to->most;
    to->infinite |= vmaxvq_u32(from.infinite) != 0;
    to->zero |= vmaxvq_u32(from.zero) != 0;
}

INLINE void convert_two(double *value, float32x2_t number, uint32x2_t zero, double factor)
{
    const float64x2_t exact = vcvt_f64_f32(number);
    const uint64x2_t sign = vandq_u64(vreinterpretq_u64_f64(exact), vdupq_n_u64(UINT64_C(1) << 63));
    const uint64x2_t tiny = vorrq_u64(sign, vreinterpretq_u64_f64(vdupq_n_f64(0x1p-300)));
    const uint64x2_t zeros = vreinterpretq_u64_s64(vmovl_s32(vreinterpret_s32_u32(zero)));
    vst1q_f64(value, vmulq_f64(vbslq_f64(zeros, vreinterpretq_f64_u64(tiny), exact), vdupq_n_f64(factor)));
}

INLINE void convert_eight(double *value, int32_t *word, int32_t *negative, const uint16_t *x, enum rp_tc_format format,
                          double factor, int bias, RANGES *seen)
{
    const int fraction = format == RP_TC_FP16 ? 10 : 7, top = format == RP_TC_FP16 ? 31 : 255;
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        const uint16x4_t half = vld1_u16(x + i);
        const uint32x4_t bits = vmovl_u16(half), size = vandq_u32(bits, vdupq_n_u32(0x7fff)), zero = vceqzq_u32(size);
        const float32x4_t number = format == RP_TC_FP16 ? vcvt_f32_f16(vreinterpret_f16_u16(half))
                                                        : vreinterpretq_f32_u32(vshlq_n_u32(bits, 16));
        convert_two(value + i, vget_low_f32(number), vget_low_u32(zero), factor);
        convert_two(value + i + 2, vget_high_f32(number), vget_high_u32(zero), factor);
        const int32x4_t field = vreinterpretq_s32_u32(vshlq_u32(size, vdupq_n_s32(-fraction)));
        const int32x4_t exponent = vsubq_s32(vmaxq_s32(field, vdupq_n_s32(1)), vdupq_n_s32(top / 2));
        seen->infinite = vorrq_u32(seen->infinite, vceqq_u32(size, vdupq_n_u32((uint32_t)top << fraction)));
        seen->zero = vorrq_u32(seen->zero, zero);
        seen->least = vminq_s32(seen->least, vbslq_s32(zero, vdupq_n_s32(9999), exponent));
        seen->most = vmaxq_s32(seen->most, vbslq_s32(zero, vdupq_n_s32(-9999), exponent));
        const int32x4_t sum = vaddq_s32(vshlq_n_s32(exponent, 4), vdupq_n_s32(16 * bias));
        vst1q_s32(word + i, vbslq_s32(zero, vdupq_n_s32(ZERO_WORD), sum));
        vst1q_s32(negative + i, vreinterpretq_s32_u32(vshrq_n_u32(bits, 15)));
    }
}

INLINE void load_eight(double *to, const float *from, RANGES *seen)
{
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(from + i));
        const uint32x4_t size = vandq_u32(bits, vdupq_n_u32(INT32_MAX));
        const uint32x4_t zero = vceqzq_u32(size);
        const int32x4_t exponent = vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(size, 23)), vdupq_n_s32(127));
        const float32x4_t number = vreinterpretq_f32_u32(vbicq_u32(bits, zero));
        const uint32x4_t other = vorrq_u32(zero, vcgtq_s32(exponent, vdupq_n_s32(127)));
        seen->least = vminq_s32(seen->least, vbslq_s32(other, vdupq_n_s32(9999), exponent));
        seen->most = vmaxq_s32(seen->most, vbslq_s32(other, vdupq_n_s32(-9999), exponent));
        vst1q_f64(to + i, vcvt_f64_f32(vget_low_f32(number)));
        vst1q_f64(to + i + 2, vcvt_high_f64_f32(number));
    }
}

INLINE void store_four(float *to, const double *from)
{
    const float32x4_t x = vcvt_high_f32_f64(vcvt_f32_f64(vld1q_f64(from)), vld1q_f64(from + 2));
    vst1q_f32(to, vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(RP_TC_NAN))));
}

/* ---- the tile ---- */

INLINE vi upper_halves(vd a, vd b) { return vuzp2q_s32(vreinterpretq_s32_f64(a), vreinterpretq_s32_f64(b)); }

INLINE vi at_least_if_any(vi size, vi least)
{
    return vmaxq_s32(size, vbicq_s32(least, vreinterpretq_s32_u32(vceqzq_s32(size))));
}

INLINE vd to_fp32(vd s)
{
    const uint64x2_t over = vcgeq_f64(vabsq_f64(s), vdupq_n_f64(0x1p128));
    const vd infinite = vbslq_f64(vdupq_n_u64(UINT64_C(1) << 63), s, vdupq_n_f64(__builtin_inf()));
    return vcvt_f64_f32(vcvt_f32_f64(vbslq_f64(over, infinite, s)));
}

INLINE vd first_24_bits(vd s)
{
    return vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(s), vdupq_n_u64(0x1fffffff)));
}
