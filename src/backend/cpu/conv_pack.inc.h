/* The weights of a convolution as panels of B, [panel][k][nr], zero padded: all of them, once per call, by all threads.
 * The same pass finds out whether a weight is infinite or NaN. */

#define CONV_PACK_STEPS 64 /* k-steps packed at a time */

/* Forward: rows of w are columns of B; 16 steps of a panel at a time. */
static void conv_pack_forward(const struct conv_job *o, long k0, long k1)
{
    const struct rp_gemm_kernel *kernel = o->kernel;
    const long nr = kernel->nr;
    for (long panel = 0; panel < o->panels.count; panel++)
        for (long k = k0; k < k1; k += 16) {
            const long steps = least_of(16, k1 - k), cols = conv_columns(&o->panels, panel);
            const float *src = o->w + conv_column(&o->panels, panel) * o->k + k;
            float *dst = o->packed + (panel * o->k + k) * nr;
            long c = 0;
            if (steps == 16) {
                c = cols - cols % kernel->lanes;
                kernel->transpose(dst, src, o->k, (int)c);
            }
            for (; c < nr; c++)
                for (long s = 0; s < steps; s++)
                    dst[s * nr + c] = c < cols ? src[c * o->k + s] : 0.0f;
        }
}

static const float *conv_gradient_row(const struct conv_job *o, long k)
{
    return o->w + (k % o->channels * o->taps + conv_tap(o, k / o->channels)) * o->in_c;
}

/* Gradient: the input channels of a tap are a row of B. */
static void conv_pack_gradient(const struct conv_job *o, long k0, long k1)
{
    const long nr = o->kernel->nr, whole = o->panels.whole, stride = o->k * nr;
    for (long k = k0; k < k1; k++) {
        const float *src = conv_gradient_row(o, k), *soon = k + 4 < k1 ? conv_gradient_row(o, k + 4) : src;
        float *dst = o->packed + k * nr;
        o->kernel->copy_row(dst, stride, src, soon, (int)whole);
        for (long panel = whole; panel < o->panels.count; panel++) {
            const long cols = conv_columns(&o->panels, panel);
            conv_copy(dst + panel * stride, src + conv_column(&o->panels, panel), cols);
            conv_zero(dst + panel * stride + cols, nr - cols);
        }
    }
}

/* Whether a packed weight is infinite or NaN: 0 times it is NaN, whatever else is added. */
static void conv_watch(const struct conv_job *o, long k0, long k1)
{
    vf s = vset1(0.0f);
    float lane[W], all = 0;
    for (long panel = 0; panel < o->panels.count; panel++)
        for (long i = k0 * o->kernel->nr; i < k1 * o->kernel->nr; i += W)
            s = vfma(vload(o->packed + panel * o->k * o->kernel->nr + i), vset1(0.0f), s);
    vstore(lane, s);
    for (int i = 0; i < W; i++)
        all += lane[i];
    if (all != 0)
        atomic_store(o->is_spoiled, 1);
}

static void conv_pack_part(void *arg, int part, int thread)
{
    const struct conv_job *o = arg;
    const long k0 = (long)part * CONV_PACK_STEPS, k1 = least_of(o->k, k0 + CONV_PACK_STEPS);
    (void)thread;
    (o->is_gradient ? conv_pack_gradient : conv_pack_forward)(o, k0, k1);
    if (o->regions > 1)
        conv_watch(o, k0, k1);
}
