/* One vector register of floats, for whichever instruction set this file is compiled for.
 *
 * What:    W lanes of type vf with load, store, fma, max, selection by decision bits; the arithmetic operators are the
 *          compiler's.
 * Flow:    kernels written once in *.inc.h become AVX-512 (W = 16), AVX2 (W = 8), NEON (W = 4) or plain scalar code (W
 *          = 1).
 * Extend:  another instruction set is one more block below and one more ops_<isa>.c. Operations must round exactly
 *          once: no approximate reciprocals, no horizontal adds whose order is not written out.
 *
 * Include it first, with the optimisation below in force: loops over functions.h are left to the compiler's vectoriser,
 * which never changes an order of roundings. errno and exception flags are not used, so sqrt and selects vectorise. A
 * loop that copies a few vectors stays a loop: a call of memcpy would take longer than the copy.
 */
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __OPTIMIZE__ /* tests: quick to compile */
#pragma GCC optimize("no-math-errno,no-trapping-math")
#else
#pragma GCC optimize("O3,no-math-errno,no-trapping-math,no-tree-loop-distribute-patterns")
#endif
#endif

#if defined __x86_64__
#include <immintrin.h>
#elif defined RP_NEON /* ops_neon.c: the scalar code of that machine has its vectors, too */
#include <arm_neon.h>
#endif
#include <stdint.h>
#include <string.h>

#define RP_LANE static inline __attribute__((always_inline))

/* A tile of attention's products has TILE_ROWS rows, or SHORT_ROWS, and up to TILE_VECTORS vectors of columns. */
#if defined(__AVX512F__)

#define W 16
#define TILE_ROWS 6
#define SHORT_ROWS 4
#define TILE_VECTORS 4
typedef __m512 vf;
RP_LANE vf vset1(float x)
{
    return _mm512_set1_ps(x);
}
RP_LANE vf vload(const float *p)
{
    return _mm512_loadu_ps(p);
}
RP_LANE void vstore(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
RP_LANE vf vload_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
RP_LANE void vstore_n(float *p, vf x, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
}
RP_LANE vf vfirst(vf x, int n)
{
    return _mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), x);
}
RP_LANE void vstream(float *p, vf x)
{
    _mm512_stream_ps(p, x);
}
RP_LANE vf vfma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
RP_LANE vf vfnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
} /* fma(-a, b, c) */
RP_LANE vf vmax(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
RP_LANE vf vsqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
RP_LANE vf vpositive(vf y, vf x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), x);
}
RP_LANE vf vkeep(const uint8_t *mask, long j, vf x) /* lanes j.. whose decision bit is 0 become +0 */
{
    uint16_t bits;
    memcpy(&bits, mask + j / 8, 2);
    return _mm512_maskz_mov_ps(bits, x);
}
RP_LANE float vhmax(vf x) { return _mm512_reduce_max_ps(x); }
RP_LANE float vhalve(vf x) /* lanes l + (l + 8), then 4, 2, 1 */
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

#elif defined(__AVX2__)

#define W 8
#define TILE_ROWS 6
#define SHORT_ROWS 4
#define TILE_VECTORS 2
typedef __m256 vf;
RP_LANE __m256i vfirst_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
RP_LANE vf vset1(float x) { return _mm256_set1_ps(x); }
RP_LANE vf vload(const float *p) { return _mm256_loadu_ps(p); }
RP_LANE void vstore(float *p, vf x) { _mm256_storeu_ps(p, x); }
RP_LANE vf vload_n(const float *p, int n) { return _mm256_maskload_ps(p, vfirst_mask(n)); }
RP_LANE void vstore_n(float *p, vf x, int n) { _mm256_maskstore_ps(p, vfirst_mask(n), x); }
RP_LANE vf vfirst(vf x, int n) { return _mm256_and_ps(x, _mm256_castsi256_ps(vfirst_mask(n))); }
RP_LANE void vstream(float *p, vf x) { _mm256_stream_ps(p, x); }
RP_LANE vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
RP_LANE vf vfnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
RP_LANE vf vmax(vf a, vf b) { return _mm256_max_ps(a, b); }
RP_LANE vf vsqrt(vf a) { return _mm256_sqrt_ps(a); }
RP_LANE vf vpositive(vf y, vf x) { return _mm256_and_ps(_mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ), x); }
RP_LANE vf vkeep(const uint8_t *mask, long j, vf x)
{
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i bits = _mm256_and_si256(_mm256_set1_epi32(mask[j / 8]), bit);
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, bit)));
}
RP_LANE float vhmax(vf x)
{
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
RP_LANE float vhalve(vf x)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

#elif defined RP_NEON

#define W 4
#define TILE_ROWS 8
#define SHORT_ROWS 8
#define TILE_VECTORS 3
typedef float32x4_t vf;
RP_LANE uint32x4_t vfirst_mask(int n)
{
    const int32_t lane[4] = {0, 1, 2, 3};
    return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane));
}
RP_LANE vf vmasked(vf x, uint32x4_t mask) { return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), mask)); }
RP_LANE vf vset1(float x) { return vdupq_n_f32(x); }
RP_LANE vf vload(const float *p) { return vld1q_f32(p); }
RP_LANE void vstore(float *p, vf x) { vst1q_f32(p, x); }
RP_LANE vf vload_n(const float *p, int n) /* reads no element that does not exist */
{
    vf x = vdupq_n_f32(0.0f);
    if (n > 0)
        x = vld1q_lane_f32(p, x, 0);
    if (n > 1)
        x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        x = vld1q_lane_f32(p + 2, x, 2);
    return n > 3 ? vld1q_f32(p) : x;
}
RP_LANE void vstore_n(float *p, vf x, int n)
{
    if (n > 0)
        vst1q_lane_f32(p, x, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, x, 2);
    if (n > 3)
        vst1q_lane_f32(p + 3, x, 3);
}
RP_LANE vf vfirst(vf x, int n) { return vmasked(x, vfirst_mask(n)); }
RP_LANE void vstream(float *p, vf x) { vst1q_f32(p, x); }
RP_LANE vf vfma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
RP_LANE vf vfnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
/* as on x86-64: b where one is NaN, or both are zeros */
RP_LANE vf vmax(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
RP_LANE vf vsqrt(vf a) { return vsqrtq_f32(a); }
RP_LANE vf vpositive(vf y, vf x) { return vmasked(x, vcgtq_f32(y, vdupq_n_f32(0.0f))); }
RP_LANE vf vkeep(const uint8_t *mask, long j, vf x)
{
    const uint32_t bit[4] = {1, 2, 4, 8};
    return vmasked(x, vtstq_u32(vdupq_n_u32((uint32_t)mask[j / 8] >> (j & 7)), vld1q_u32(bit)));
}
RP_LANE float vhmax(vf x)
{
    const float a = vgetq_lane_f32(x, 0), b = vgetq_lane_f32(x, 1), c = vgetq_lane_f32(x, 2), d = vgetq_lane_f32(x, 3);
    const float e = a > c ? a : c, f = b > d ? b : d;
    return e > f ? e : f;
}
RP_LANE float vhalve(vf x) /* lanes l + (l + 2), then 1 */
{
    const float32x2_t a = vadd_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(a, 0) + vget_lane_f32(a, 1);
}

#else

#define W 1
#define TILE_ROWS 4
#define SHORT_ROWS 4
#define TILE_VECTORS 2
typedef float vf;
RP_LANE vf vset1(float x) { return x; }
RP_LANE vf vload(const float *p) { return *p; }
RP_LANE void vstore(float *p, vf x) { *p = x; }
RP_LANE vf vload_n(const float *p, int n) { return n ? *p : 0.0f; }
RP_LANE void vstore_n(float *p, vf x, int n)
{
    if (n)
        *p = x;
}
RP_LANE vf vfirst(vf x, int n) { return n ? x : 0.0f; }
RP_LANE void vstream(float *p, vf x) { *p = x; }
RP_LANE vf vfma(vf a, vf b, vf c) { return __builtin_fmaf(a, b, c); }
RP_LANE vf vfnma(vf a, vf b, vf c) { return __builtin_fmaf(-a, b, c); }
RP_LANE vf vmax(vf a, vf b) { return a > b ? a : b; }
RP_LANE vf vsqrt(vf a) { return __builtin_sqrtf(a); }
RP_LANE vf vpositive(vf y, vf x) { return y > 0.0f ? x : 0.0f; } /* lanes of x where y > 0, else +0 */
RP_LANE vf vkeep(const uint8_t *mask, long j, vf x) { return mask[j / 8] >> (j & 7) & 1 ? x : 0.0f; }
RP_LANE float vhmax(vf x) { return x; }
RP_LANE float vhalve(vf x) { return x; }

#endif

#define VECTORS_128 (128 / W)
#if W > 1
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL
#endif

RP_LANE vf vget(const float *p, int n) { return n == W ? vload(p) : vload_n(p, n); }
RP_LANE void vput(float *p, vf x, int n)
{
    if (n == W)
        vstore(p, x);
    else
        vstore_n(p, x, n);
}

/* vget() and vput() of tensors that pass through the caches, with FAR_AHEAD elements from what is used to what is
 * prefetched. One core of a Xeon reads 12 GB/s without it, 16 GB/s with it, as too few lines are under way, and a store
 * to a line that is not in the cache holds up the stores that follow it. Vectors of less than half a line would
 * prefetch each line many times. */
#define FAR_AHEAD 512
RP_LANE vf vget_far(const float *p, int n)
{
    if (W * sizeof(float) >= 32)
        __builtin_prefetch(p + FAR_AHEAD);
    return vget(p, n);
}
RP_LANE void vput_far(float *p, vf x, int n)
{
    if (W * sizeof(float) >= 32)
        __builtin_prefetch(p + FAR_AHEAD, 1);
    vput(p, x, n);
}

/* Run the statements for every vector of a row: element j, its vector `l` of the 128-lane block, and n <= W lanes that
 * exist. Whole blocks of 128 are unrolled, so that per-vector accumulators indexed by l live in registers. */
#define EACH_VECTOR(width, ...)                                                                                        \
    do {                                                                                                               \
        long block_ = 0;                                                                                               \
        for (; block_ + 128 <= (width); block_ += 128) {                                                               \
            UNROLL for (int l = 0; l < VECTORS_128; l++)                                                               \
            {                                                                                                          \
                const long j = block_ + l * W;                                                                         \
                const int n = W;                                                                                       \
                (void)n;                                                                                               \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
        if (block_ < (width)) {                                                                                        \
            UNROLL for (int l = 0; l < VECTORS_128; l++)                                                               \
            {                                                                                                          \
                const long j = block_ + l * W;                                                                         \
                if (j < (width)) {                                                                                     \
                    const int n = (width)-j < W ? (int)((width)-j) : W;                                                \
                    (void)n;                                                                                           \
                    __VA_ARGS__                                                                                        \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* sum128: vector l of every block is added to lane group l; vectors must have +0 in lanes that do not exist. */
struct sum128 {
    vf lane[VECTORS_128];
};
RP_LANE void sum_start(struct sum128 *s)
{
    UNROLL for (int l = 0; l < VECTORS_128; l++) s->lane[l] = vset1(0.0f);
}
RP_LANE float sum_end(struct sum128 *s)
{
    UNROLL for (int half = VECTORS_128 / 2; half > 0; half /= 2)
    {
        UNROLL for (int l = 0; l < half; l++) s->lane[l] = s->lane[l] + s->lane[l + half];
    }
    return vhalve(s->lane[0]);
}

/* The largest of all lanes, in the same struct: any order gives it. */
RP_LANE void max_start(struct sum128 *m)
{
    UNROLL for (int l = 0; l < VECTORS_128; l++) m->lane[l] = vset1(-__builtin_inff());
}
RP_LANE float max_end(struct sum128 *m)
{
    UNROLL for (int half = VECTORS_128 / 2; half > 0; half /= 2)
    {
        UNROLL for (int l = 0; l < half; l++) m->lane[l] = vmax(m->lane[l], m->lane[l + half]);
    }
    return vhmax(m->lane[0]);
}
