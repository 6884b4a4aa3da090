/* r_exp_below() of functions.h for a vector: the same roundings, for passes that also load, add up and store.
 * Compiled once per instruction set by ops_<isa>.c; tests/ops/test_bits.c compares it with the function. */

#if W == 1
RP_LANE vf vexp_below(vf x) { return r_exp_below(x); }
#else
/* e^r of r_exp_parts(); t is 1.5 * 2^23 + n. */
RP_LANE vf vexp_parts(vf x, vf *t, vf *n)
{
    const vf magic = vset1(12582912.0f);
    *t = vfma(x, vset1(0x1.715476p0f), magic);
    *n = *t - magic;
    vf r = vfma(*n, vset1(-0x1.62e4p-1f), x);
    r = vfma(*n, vset1(-0x1.7f7d1cp-20f), r);
    vf p = vset1(0x1.6d4e7ep-10f);
    p = vfma(p, r, vset1(0x1.120c44p-7f));
    p = vfma(p, r, vset1(0x1.5554e8p-5f));
    p = vfma(p, r, vset1(0x1.5554dcp-3f));
    p = vfma(p, r, vset1(0.5f));
    p = vfma(p, r, vset1(1.0f));
    return vfma(p, r, vset1(1.0f));
}

/* On x86-64 the +0 of arguments below -104 is selected. The function's product gives the same, but underflows: some 150
 * cycles of Intel's processors, and most rows of attention end with scores of -inf. vmax returns its second operand
 * where that is NaN. */
RP_LANE vf vexp_below(vf x)
{
#if W == 16
    vf t, n, p = vexp_parts(x, &t, &n);
    const __mmask16 counts = _mm512_cmp_ps_mask(x, vset1(-104.0f), _CMP_NLT_UQ); /* NaN too */
    return _mm512_maskz_scalef_ps(counts, p, n); /* p * 2^n, rounded once where it is subnormal */
#elif W == 4
    vf t, n, p = vexp_parts(vmax(vset1(-104.0f), x), &t, &n);
    const int32x4_t all = vsubq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(0x4b400000));
    const int32x4_t half = vshrq_n_s32(all, 1), bias = vdupq_n_s32(127);
    const int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(all, half), bias), 23);
    return (p * vreinterpretq_f32_s32(first)) * vreinterpretq_f32_s32(second);
#else
    vf t, n, p = vexp_parts(vmax(vset1(-104.0f), x), &t, &n);
    p = _mm256_and_ps(p, _mm256_cmp_ps(x, vset1(-104.0f), _CMP_NLT_UQ));
    __m256i all = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000));
    __m256i half = _mm256_srai_epi32(all, 1), bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(all, half), bias), 23);
    return (p * _mm256_castsi256_ps(first)) * _mm256_castsi256_ps(second);
#endif
}
#endif
