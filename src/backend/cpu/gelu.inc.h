/* r_gelu(), r_gelu_tanh() and their gradients of functions.h for vectors: the same roundings.
 * Compiled once per instruction set by ops_<isa>.c; tests/ops/test_bits.c compares them with the functions.
 *
 * Each step of a polynomial waits for the one before it, and a processor's scheduler holds the instructions of two or
 * three of these functions. So GELU_VECTORS vectors take one stage after the other: the polynomial of all of them, then
 * the exponential of all of them. A stage of all of them is as many instructions as a scheduler holds. */

#if W >= 8
#define GELU_VECTORS 4
#define GELU_STAGE(...)                                                                                                \
    UNROLL for (int i = 0; i < GELU_VECTORS; i++)                                                                      \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

#if W == 16
RP_LANE vf vmin(vf a, vf b) { return _mm512_min_ps(a, b); }
RP_LANE vf vabs(vf x) { return _mm512_abs_ps(x); }
RP_LANE vf vless(vf a, vf b, vf x, vf y) /* lanes of x where a < b, else of y */
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
RP_LANE vf vwith_sign(vf y, vf x) /* y | sign of x */
{
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(y), _mm512_castps_si512(x), sign, 0xf8));
}
RP_LANE vf vexp_near(vf x)
{
    vf t, n, p = vexp_parts(x, &t, &n);
    return _mm512_scalef_ps(p, n);
}
#else
RP_LANE vf vmin(vf a, vf b) { return _mm256_min_ps(a, b); }
RP_LANE vf vabs(vf x) { return _mm256_andnot_ps(vset1(-0.0f), x); }
RP_LANE vf vless(vf a, vf b, vf x, vf y) { return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
RP_LANE vf vwith_sign(vf y, vf x) { return _mm256_or_ps(y, _mm256_and_ps(x, vset1(-0.0f))); }
RP_LANE vf vexp_near(vf x)
{
    vf t, n, p = vexp_parts(x, &t, &n);
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127 - 0x4b400000));
    return p * _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}
#endif

/* ---- tanh and erf of absolute values: where they are large, and where they are small ---- */

/* vmin, as vmax, returns its second operand where that is NaN. */
RP_LANE vf vtanh_large(vf ax)
{
    const vf a = vmin(vset1(10.0f), ax);
    return vset1(1.0f) - vset1(2.0f) / (vexp_near(a + a) + vset1(1.0f));
}

RP_LANE vf vtanh_small(vf ax)
{
    const vf z = ax * ax;
    vf q = vset1(0x1.389e68p-9f);
    q = vfma(q, z, vset1(-0x1.14df3p-7f));
    q = vfma(q, z, vset1(0x1.65608p-6f));
    q = vfma(q, z, vset1(-0x1.ba193ep-5f));
    q = vfma(q, z, vset1(0x1.111136p-3f));
    q = vfma(q, z, vset1(-0x1.555556p-2f));
    return vfma(q * z, ax, ax);
}

/* The coefficients of h have the opposite sign, so that h is -h of r_erf(). */
RP_LANE vf verf_large(vf ax)
{
    const vf a = vmin(vset1(4.0f), ax);
    vf h = vset1(-0x1.2782c4p-25f);
    h = vfma(h, a, vset1(0x1.3f7ab4p-19f));
    h = vfma(h, a, vset1(-0x1.bc8e34p-15f));
    h = vfma(h, a, vset1(0x1.4c1aep-11f));
    h = vfma(h, a, vset1(-0x1.3fcfp-8f));
    h = vfma(h, a, vset1(0x1.b50bacp-6f));
    h = vfma(h, a, vset1(-0x1.c44bfap-4f));
    h = vfma(h, a, vset1(-0x1.43591p-1f));
    h = vfma(h, a, vset1(-0x1.215fcp0f));
    h = vfma(h, a, vset1(0x1.6b70dep-12f));
    return vset1(1.0f) - vexp_near(h);
}

RP_LANE vf verf_small(vf ax)
{
    const vf z = ax * ax;
    vf q = vset1(0x1.58c4b6p-14f);
    q = vfma(q, z, vset1(-0x1.a90b76p-11f));
    q = vfma(q, z, vset1(0x1.54a622p-8f));
    q = vfma(q, z, vset1(-0x1.b80b26p-6f));
    q = vfma(q, z, vset1(0x1.ce2dep-4f));
    q = vfma(q, z, vset1(-0x1.812742p-2f));
    q = vfma(q, z, vset1(0x1.06eba8p-3f));
    return vfma(ax, q, ax);
}

/* ---- GELU_VECTORS vectors ---- */

RP_LANE void tanh_vectors(vf *y, const vf *x)
{
    vf small[GELU_VECTORS];
    GELU_STAGE(y[i] = vtanh_large(vabs(x[i]));)
    GELU_STAGE(small[i] = vtanh_small(vabs(x[i]));)
    GELU_STAGE(y[i] = vwith_sign(vless(vabs(x[i]), vset1(0.625f), small[i], y[i]), x[i]);)
}

RP_LANE void erf_vectors(vf *y, const vf *x)
{
    vf small[GELU_VECTORS];
    GELU_STAGE(y[i] = verf_large(vabs(x[i]));)
    GELU_STAGE(small[i] = verf_small(vabs(x[i]));)
    GELU_STAGE(y[i] = vwith_sign(vless(vabs(x[i]), vset1(0.95f), small[i], y[i]), x[i]);)
}

RP_LANE void gelu_vectors(vf *y, const vf *u)
{
    vf x[GELU_VECTORS];
    GELU_STAGE(x[i] = u[i] * vset1(0x1.6a09e6p-1f);)
    erf_vectors(y, x);
    GELU_STAGE(y[i] = (vset1(0.5f) * u[i]) * (vset1(1.0f) + y[i]);)
}

RP_LANE void gelu_grad_vectors(vf *y, const vf *u)
{
    vf x[GELU_VECTORS];
    GELU_STAGE(x[i] = u[i] * vset1(0x1.6a09e6p-1f);)
    erf_vectors(y, x);
    GELU_STAGE(x[i] = vexp_below(vset1(-0.5f) * (u[i] * u[i])) * vset1(0x1.988454p-2f);)
    GELU_STAGE(y[i] = vfma(u[i], x[i], vset1(0.5f) * (vset1(1.0f) + y[i]));)
}

RP_LANE vf gelu_tanh_limit(vf u)
{
    return vmax(vset1(-16.0f), vmin(vset1(16.0f), u));
}

/* The argument of tanh. */
RP_LANE void gelu_tanh_inner(vf *t, const vf *v)
{
    GELU_STAGE(t[i] = v[i] * vfma(vset1(0x1.2444f2p-5f), v[i] * v[i], vset1(0x1.988454p-1f));)
}

RP_LANE void gelu_tanh_vectors(vf *y, const vf *u)
{
    vf v[GELU_VECTORS], t[GELU_VECTORS];
    GELU_STAGE(v[i] = gelu_tanh_limit(u[i]);)
    gelu_tanh_inner(t, v);
    tanh_vectors(y, t);
    GELU_STAGE(y[i] = (vset1(0.5f) * u[i]) * (vset1(1.0f) + y[i]);)
}

RP_LANE void gelu_tanh_grad_vectors(vf *y, const vf *u)
{
    vf v[GELU_VECTORS], h[GELU_VECTORS];
    GELU_STAGE(v[i] = gelu_tanh_limit(u[i]);)
    gelu_tanh_inner(y, v);
    tanh_vectors(h, y);
    GELU_STAGE(
        const vf slope = vfma(vset1(0x1.b6676cp-4f), v[i] * v[i], vset1(0x1.988454p-1f));
        y[i] = vfma((vset1(0.5f) * v[i]) * vfnma(h[i], h[i], vset1(1.0f)), slope, vset1(0.5f) * (vset1(1.0f) + h[i]));)
}

/* Whole groups of vectors of y = f(x), or of y = dy * f(x); the number of elements, at most n. */
RP_LANE long gelu_groups(float *y, const float *dy, const float *x, long n, void (*f)(vf *, const vf *))
{
    long j = 0;
    for (; j + GELU_VECTORS * W <= n; j += GELU_VECTORS * W) {
        vf u[GELU_VECTORS], v[GELU_VECTORS];
        GELU_STAGE(u[i] = vget_far(x + j + i * W, W);)
        f(v, u);
        if (dy)
            GELU_STAGE(v[i] = vget_far(dy + j + i * W, W) * v[i];)
        GELU_STAGE(vput_far(y + j + i * W, v[i], W);)
    }
    return j;
}
#else /* all is left to the compiler's vectors */
#define gelu_groups(y, dy, x, n, f) 0
#endif

#define GELU(name)                                                                                                     \
    static void run_##name(float *y, const float *x, long n)                                                           \
    {                                                                                                                  \
        long j = gelu_groups(y, NULL, x, n, name##_vectors);                                                           \
        _Pragma("GCC ivdep") for (; j < n; j++) y[j] = r_##name(x[j]);                                                 \
    }                                                                                                                  \
    static void run_##name##_backward(float *dx, const float *dy, const float *x, long n)                              \
    {                                                                                                                  \
        long j = gelu_groups(dx, dy, x, n, name##_grad_vectors);                                                       \
        _Pragma("GCC ivdep") for (; j < n; j++) dx[j] = dy[j] * r_##name##_grad(x[j]);                                 \
    }
GELU(gelu)
GELU(gelu_tanh)
#undef GELU
