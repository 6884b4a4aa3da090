/* Norms, the optimizers, and the parameters' first values. Bytes moved: each tensor once. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/tree.cuh"
#include "ops/functions.h"
#include "ops/ops.h"
#include "ops/philox.h"

RP_DEVICE float chunk_squares(const float *x, size_t n, int wide)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    RP_UNROLL_BY(8)
    for (int i = 4 * rp_lane(); i < RP_NORM_CHUNK; i += RP_PIECE) {
        float4 v = rp_get4(x + i, (long)n - i, wide);
        sum = rp_add4(sum, rp_mul4(v, v));
    }
    return rp_sum128(sum);
}

/* A warp for each chunk. */
RP_KERNEL(square_sums)
{
    size_t chunk = rp_warp(), first = chunk * RP_NORM_CHUNK;
    float sum;
    if (first >= a.n)
        return;
    if (a.wide && a.n - first >= RP_NORM_CHUNK)
        sum = chunk_squares(a.x + first, RP_NORM_CHUNK, 1);
    else
        sum = chunk_squares(a.x + first, a.n - first, 0);
    if (rp_lane() == 0)
        a.out[chunk] = sum;
}

/* One block: a few ten thousand sums. */
RP_KERNEL(tree_sum)
{
    struct rp_tree t = {a.x, 0, (long)a.n, 1, 1, 1};
    float sum = rp_tree_sum(&t, RP_SHARED(float));
    if (threadIdx.x == 0)
        a.out[0] = sum; /* of nothing: +0 */
}

/* Moments of an element, and the update before the learning rate. */
RP_DEVICE float adam_direction(const struct rp_adam *s, float *m, float *v, float w, float g)
{
    float gs = g * s->grad_scale;
    *m = fmaf(s->beta1, *m, s->one_minus_beta1 * gs);
    *v = fmaf(s->beta2, *v, s->one_minus_beta2 * (gs * gs));
    float mh = s->bias_correction ? *m * s->correct1 : *m;
    float vh = s->bias_correction ? *v * s->correct2 : *v;
    float u = mh / (sqrtf(vh) + s->eps);
    return s->weight_decay != 0.0f ? fmaf(s->weight_decay, w, u) : u;
}

RP_DEVICE float4 adam_direction4(const struct rp_adam *s, float4 *m, float4 *v, float4 w, float4 g)
{
    float4 u;
    u.x = adam_direction(s, &m->x, &v->x, w.x, g.x);
    u.y = adam_direction(s, &m->y, &v->y, w.y, g.y);
    u.z = adam_direction(s, &m->z, &v->z, w.z, g.z);
    u.w = adam_direction(s, &m->w, &v->w, w.w, g.w);
    return u;
}

RP_DEVICE float4 applied4(float rate, float4 u, float4 w)
{
    return make_float4(fmaf(-rate, u.x, w.x), fmaf(-rate, u.y, w.y), fmaf(-rate, u.z, w.z), fmaf(-rate, u.w, w.w));
}

RP_DEVICE void adam4(const rp_args_adam_update *a, size_t i, long n, int wide)
{
    float4 w = rp_get4(a->w + i, n, wide), m = rp_get4(a->m + i, n, wide), v = rp_get4(a->v + i, n, wide);
    float4 u = adam_direction4(&a->adam, &m, &v, w, rp_get4(a->g + i, n, wide));
    rp_put4(a->m + i, m, n, wide);
    rp_put4(a->v + i, v, n, wide);
    rp_put4(a->w + i, applied4(a->adam.lr, u, w), n, wide);
}
RP_KERNEL(adam_update)
{
    RP_EACH4(&a, a.n, a.wide, adam4);
}

RP_DEVICE void lamb4(const rp_args_lamb_direction *a, size_t i, long n, int wide)
{
    float4 w = rp_get4(a->w + i, n, wide), m = rp_get4(a->m + i, n, wide), v = rp_get4(a->v + i, n, wide);
    float4 u = adam_direction4(&a->adam, &m, &v, w, rp_get4(a->u_over_g + i, n, wide));
    rp_put4(a->m + i, m, n, wide);
    rp_put4(a->v + i, v, n, wide);
    rp_put4(a->u_over_g + i, u, n, wide);
}
RP_KERNEL(lamb_direction)
{
    RP_EACH4(&a, a.n, a.wide, lamb4);
}

struct applying {
    float *w;
    const float *u;
    float rate;
};
RP_DEVICE void apply4(const struct applying *a, size_t i, long n, int wide)
{
    rp_put4(a->w + i, applied4(a->rate, rp_get4(a->u + i, n, wide), rp_get4(a->w + i, n, wide)), n, wide);
}
RP_KERNEL(lamb_apply)
{
    float norm_w = sqrtf(a.sums[0]), norm_u = sqrtf(a.sums[1]);
    float ratio = norm_w > 0.0f && norm_u > 0.0f ? norm_w / norm_u : 1.0f;
    struct applying b = {a.w, a.u, a.lr * ratio};
    RP_EACH4(&b, a.n, a.wide, apply4);
}

/* ---- SGD and LARS ---- */

RP_DEVICE float sgd_step(const struct rp_sgd *s, float *m, float w, float g)
{
    float gs = g * s->grad_scale, d = s->weight_decay != 0.0f ? fmaf(s->weight_decay, w, gs) : gs;
    *m = fmaf(s->momentum, *m, d);
    return fmaf(-s->lr, s->nesterov ? fmaf(s->momentum, *m, d) : *m, w);
}
RP_DEVICE void sgd4(const rp_args_sgd_update *a, size_t i, long n, int wide)
{
    float4 w = rp_get4(a->w + i, n, wide), m = rp_get4(a->m + i, n, wide), g = rp_get4(a->g + i, n, wide);
    w.x = sgd_step(&a->sgd, &m.x, w.x, g.x);
    w.y = sgd_step(&a->sgd, &m.y, w.y, g.y);
    w.z = sgd_step(&a->sgd, &m.z, w.z, g.z);
    w.w = sgd_step(&a->sgd, &m.w, w.w, g.w);
    rp_put4(a->m + i, m, n, wide);
    rp_put4(a->w + i, w, n, wide);
}
RP_KERNEL(sgd_update)
{
    RP_EACH4(&a, a.n, a.wide, sgd4);
}

struct adapting {
    const rp_args_lars_update *a;
    float rate;
};
RP_DEVICE float lars_step(const struct rp_lars *s, float rate, float *m, float w, float g)
{
    float gs = g * s->grad_scale, d = s->adapt ? fmaf(s->weight_decay, w, gs) : gs, v = rate * d;
    *m = s->momentum * *m - v;
    return w + (s->nesterov ? s->momentum * *m - v : *m);
}
RP_DEVICE void lars4(const struct adapting *b, size_t i, long n, int wide)
{
    const rp_args_lars_update *a = b->a;
    float4 w = rp_get4(a->w + i, n, wide), m = rp_get4(a->m + i, n, wide), g = rp_get4(a->g + i, n, wide);
    w.x = lars_step(&a->lars, b->rate, &m.x, w.x, g.x);
    w.y = lars_step(&a->lars, b->rate, &m.y, w.y, g.y);
    w.z = lars_step(&a->lars, b->rate, &m.z, w.z, g.z);
    w.w = lars_step(&a->lars, b->rate, &m.w, w.w, g.w);
    rp_put4(a->m + i, m, n, wide);
    rp_put4(a->w + i, w, n, wide);
}
RP_KERNEL(lars_update)
{
    float trust = 1.0f;
    if (a.lars.adapt) {
        float norm_w = sqrtf(a.sums[0]), norm_g = sqrtf(a.sums[1]) * a.lars.grad_scale;
        if (norm_w > 0.0f && norm_g > 0.0f)
            trust = a.lars.eeta * norm_w / (fmaf(a.lars.weight_decay, norm_w, norm_g) + a.lars.eps);
    }
    struct adapting b = {&a, a.lars.lr * trust};
    RP_EACH4(&b, a.n, a.wide, lars4);
}

RP_DEVICE float running(const rp_args_running_update *a, float r, float x)
{
    return fmaf(a->momentum, x * a->factor, a->rest * r);
}
RP_KERNEL(running_update)
{
    const size_t fours = a.wide ? a.n / 4 * 4 : 0;
    for (size_t i = 4 * rp_thread(); i < fours; i += 4 * rp_threads()) {
        float4 r = rp_get4(a.r + i, 4, 1), x = rp_get4(a.x + i, 4, 1);
        rp_put4(a.r + i, make_float4(running(&a, r.x, x.x), running(&a, r.y, x.y), running(&a, r.z, x.z), running(&a, r.w, x.w)), 4, 1);
    }
    for (size_t i = fours + rp_thread(); i < a.n; i += rp_threads())
        a.r[i] = running(&a, a.r[i], a.x[i]);
}

RP_DEVICE void init4(const rp_args_init_normal *a, size_t i, long n, int wide)
{
    uint64_t quad = (uint64_t)i / 4;
    uint32_t x[4] = {(uint32_t)quad, (uint32_t)(quad >> 32), RP_PHILOX_INIT, a->tensor};
    rp_philox(x, a->seed);
    float4 w;
    if (a->truncated)
        w = make_float4(r_truncated_normal(x[0]), r_truncated_normal(x[1]), r_truncated_normal(x[2]), r_truncated_normal(x[3]));
    else
        w = make_float4(r_normal(x[0]), r_normal(x[1]), r_normal(x[2]), r_normal(x[3]));
    rp_put4(a->w + i, make_float4(a->std * w.x, a->std * w.y, a->std * w.z, a->std * w.w), n, wide);
}
RP_KERNEL(init_normal)
{
    RP_EACH4(&a, a.n, a.wide, init4);
}

RP_DEVICE float perturbed(const rp_args_perturb *a, size_t j, float w)
{
    const struct rp_perturbation *p = &a->p;
    /* of a part both have 32 bits: division of 64 takes a call */
    const uint32_t run = (uint32_t)p->run, at = (uint32_t)j;
    uint64_t e = j;
    if (p->parts != 1)
        e = ((a->runs + at / run) * p->parts + p->part) * run + at % run;
    uint32_t x[4] = {(uint32_t)(e / 2), (uint32_t)(e / 2 >> 32), p->root, p->tensor};
    rp_philox(x, p->seed);
    const uint32_t word[2] = {e % 2 ? x[2] : x[0], e % 2 ? x[3] : x[1]};
    return r_perturbed(w, word, p->scale);
}
RP_KERNEL(perturb)
{
    for (size_t j = rp_thread(); j < a.n; j += rp_threads())
        a.w[j] = perturbed(&a, j, a.w[j]);
}
