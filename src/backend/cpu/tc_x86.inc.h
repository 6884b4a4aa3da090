/* The registers of tc_tile.inc.h in AVX2 and AVX-512, and what they need of each to pack. */
#include <immintrin.h>

#if defined __AVX512F__
#define LANES 8 /* doubles of a register */
#define ROWS 4
typedef __m512d vd;
typedef __m512i vi;
#define VD(op) _mm512_##op
#define VI(op) _mm512_##op##_si512
#define AHEAD 1 /* 32 registers */
#else
#define LANES 4
#define ROWS 2
typedef __m256d vd;
typedef __m256i vi;
#define VD(op) _mm256_##op
#define VI(op) _mm256_##op##_si256
#define AHEAD 0
#endif

/* GCC would load it again at each use: loads are what limits these loops. */
#define IN_REGISTER(x) __asm__("" : "+v"(x))

/* Bits of each 16-bit lane, of which only the lowest `products` can be set; where 32-bit lanes can be counted, the
 * bits themselves. */
INLINE vi count_words(vi words, const int products)
{
#if defined __AVX512VPOPCNTDQ__
    (void)products;
    return words;
#else
#if defined __AVX512F__
    const vi of_nibble = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
#else
    const vi of_nibble = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
#endif
    if (products == 4)
        return VD(shuffle_epi8)(of_nibble, words);
    const vi nibble = VD(set1_epi8)(15);
    const vi low = VD(shuffle_epi8)(of_nibble, VI(and)(words, nibble));
    const vi high = VD(shuffle_epi8)(of_nibble, VI(and)(VD(srli_epi16)(words, 4), nibble));
    const vi bytes = VD(add_epi8)(low, high);
    return products == 8 ? bytes : VI(and)(VD(add_epi8)(bytes, VD(srli_epi16)(bytes, 8)), VD(set1_epi16)(255));
#endif
}

/* ---- packing ---- */

#define RANGES struct x86_ranges /* of the numbers that were packed */
struct x86_ranges {
    __m256i least, most, infinite, zero;
};

INLINE RANGES no_range(void)
{
    return (RANGES){_mm256_set1_epi32(9999), _mm256_set1_epi32(-9999), _mm256_setzero_si256(),
                           _mm256_setzero_si256()};
}

static void reduce(struct rp_tc_range *to, RANGES from)
{
    int32_t least[8], most[8];
    _mm256_storeu_si256((__m256i *)least, from.least);
    _mm256_storeu_si256((__m256i *)most, from.most);
    for (int i = 0; i < 8; i++) {
        to->least = least[i] < to->least ? least[i] : to->least;
        to->most = most[i] > to->most ? most[i] : to->most;
    }
    to->infinite |= !_mm256_testz_si256(from.infinite, from.infinite);
    to->zero |= !_mm256_testz_si256(from.zero, from.zero);
}

/* Eight numbers: value times `factor` (of a zero: 2^-300 with its sign), exponent word plus 16 * bias, sign. */
INLINE void convert_eight(double *value, int32_t *word, int32_t *negative, const uint16_t *x, enum rp_tc_format format,
                          double factor, int bias, RANGES *seen)
{
    const int fraction = format == RP_TC_FP16 ? 10 : 7, top = format == RP_TC_FP16 ? 31 : 255;
    const __m128i half = _mm_loadu_si128((const __m128i *)x);
    const __m256i bits = _mm256_cvtepu16_epi32(half);
    const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fff));
    const __m256i zero = _mm256_cmpeq_epi32(size, _mm256_setzero_si256());
    const __m256 number =
        format == RP_TC_FP16 ? _mm256_cvtph_ps(half) : _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    const __m256d sign = _mm256_set1_pd(-0.0);
    UNROLL for (int h = 0; h < 2; h++)
    {
        const __m256d exact = _mm256_cvtps_pd(h ? _mm256_extractf128_ps(number, 1) : _mm256_castps256_ps128(number));
        const __m256d tiny = _mm256_or_pd(_mm256_and_pd(exact, sign), _mm256_set1_pd(0x1p-300));
        const __m128i zeros = h ? _mm256_extracti128_si256(zero, 1) : _mm256_castsi256_si128(zero);
        const __m256d whole = _mm256_blendv_pd(exact, tiny, _mm256_castsi256_pd(_mm256_cvtepi32_epi64(zeros)));
        _mm256_storeu_pd(value + 4 * h, _mm256_mul_pd(whole, _mm256_set1_pd(factor)));
    }
    const __m256i field = _mm256_and_si256(_mm256_srli_epi32(bits, fraction), _mm256_set1_epi32(top));
    const __m256i exponent =
        _mm256_sub_epi32(_mm256_max_epi32(field, _mm256_set1_epi32(1)), _mm256_set1_epi32(top / 2));
    seen->infinite = _mm256_or_si256(seen->infinite, _mm256_cmpeq_epi32(size, _mm256_set1_epi32(top << fraction)));
    seen->zero = _mm256_or_si256(seen->zero, zero);
    seen->least = _mm256_min_epi32(seen->least, _mm256_blendv_epi8(exponent, _mm256_set1_epi32(9999), zero));
    seen->most = _mm256_max_epi32(seen->most, _mm256_blendv_epi8(exponent, _mm256_set1_epi32(-9999), zero));
    const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(exponent, 4), _mm256_set1_epi32(16 * bias));
    _mm256_storeu_si256((__m256i *)word, _mm256_blendv_epi8(sum, _mm256_set1_epi32(ZERO_WORD), zero));
    _mm256_storeu_si256((__m256i *)negative, _mm256_srli_epi32(bits, 15));
}

/* Eight numbers of C to doubles. */
INLINE void load_eight(double *to, const float *from, RANGES *seen)
{
    const __m256i bits = _mm256_loadu_si256((const __m256i *)from);
    const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
    const __m256i zero = _mm256_cmpeq_epi32(size, _mm256_setzero_si256());
    const __m256i exponent = _mm256_sub_epi32(_mm256_srli_epi32(size, 23), _mm256_set1_epi32(127));
    const __m256 number = _mm256_castsi256_ps(_mm256_andnot_si256(zero, bits));
    const __m256i other = _mm256_or_si256(zero, _mm256_cmpgt_epi32(exponent, _mm256_set1_epi32(127)));
    seen->least = _mm256_min_epi32(seen->least, _mm256_blendv_epi8(exponent, _mm256_set1_epi32(9999), other));
    seen->most = _mm256_max_epi32(seen->most, _mm256_blendv_epi8(exponent, _mm256_set1_epi32(-9999), other));
    _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(number)));
    _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(number, 1)));
}

/* And four back. */
INLINE void store_four(float *to, const double *from)
{
    const __m128 x = _mm256_cvtpd_ps(_mm256_loadu_pd(from));
    const __m128 nan = _mm_castsi128_ps(_mm_set1_epi32((int)RP_TC_NAN));
    _mm_storeu_ps(to, _mm_blendv_ps(x, nan, _mm_cmpunord_ps(x, x)));
}

/* ---- the tile ---- */

#if defined __AVX512F__
#define AS_DOUBLES(x) _mm512_castsi512_pd(x)
INLINE vi upper_halves(vd a, vd b)
{
    return _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castpd_ps(a), _mm512_castpd_ps(b), 0xdd));
}
INLINE vi at_least_if_any(vi size, vi least) /* a lane of 0 stays that */
{
    return _mm512_mask_max_epi32(size, _mm512_test_epi32_mask(size, size), size, least);
}
INLINE vd to_fp32(vd s)
{
    const __mmask8 over = _mm512_cmp_pd_mask(_mm512_abs_pd(s), _mm512_set1_pd(0x1p128), _CMP_GE_OQ);
    const vd sign = _mm512_and_pd(s, _mm512_set1_pd(-0.0));
    s = _mm512_mask_or_pd(s, over, sign, _mm512_set1_pd(__builtin_inf()));
    return _mm512_cvtps_pd(_mm512_cvtpd_ps(s));
}
INLINE vd first_24_bits(vd s)
{
    return _mm512_castsi512_pd(_mm512_and_si512(_mm512_castpd_si512(s), _mm512_set1_epi64(~INT64_C(0x1fffffff))));
}
#else
#define AS_DOUBLES(x) _mm256_castsi256_pd(x)
INLINE vi upper_halves(vd a, vd b)
{
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0xdd));
}
INLINE vi at_least_if_any(vi size, vi least)
{
    return _mm256_max_epi32(size, _mm256_andnot_si256(_mm256_cmpeq_epi32(size, _mm256_setzero_si256()), least));
}
INLINE vd to_fp32(vd s)
{
    const vd sign = _mm256_set1_pd(-0.0), infinite = _mm256_set1_pd(__builtin_inf());
    const vd over = _mm256_cmp_pd(_mm256_andnot_pd(sign, s), _mm256_set1_pd(0x1p128), _CMP_GE_OQ);
    s = _mm256_blendv_pd(s, _mm256_or_pd(_mm256_and_pd(s, sign), infinite), over);
    return _mm256_cvtps_pd(_mm256_cvtpd_ps(s));
}
INLINE vd first_24_bits(vd s)
{
    return _mm256_and_pd(s, _mm256_castsi256_pd(_mm256_set1_epi64x(~INT64_C(0x1fffffff))));
}
#endif
