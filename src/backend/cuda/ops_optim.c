/* Norms, optimizers, initialisation. */
#include "backend/cuda/inner.h"

void rp_cuda_op_square_sums(struct rp_dev *dev, float *out, const float *x, float factor, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t chunks = (n + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK,
           warps = rp_cuda_kernels[RP_KERNEL_square_sums].threads / 32;
    const struct rp_grid grid = {(unsigned)((chunks + warps - 1) / warps), 1, 1};
    if (factor != 1.0f)
        RP_LAUNCH_LOW(c, scaled_squares, grid, 0, .out = out, .x = x, .factor = factor, .n = n, .wide = RP_ALIGNED(x));
    else
        RP_LAUNCH(c, square_sums, grid, 0, .out = out, .x = x, .n = n, .wide = RP_ALIGNED(x));
}

void rp_cuda_op_tree_sum(struct rp_dev *dev, float *out, const float *x, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t warps = rp_cuda_kernels[RP_KERNEL_tree_sum].threads / 32;
    RP_LAUNCH(c, tree_sum, ((struct rp_grid){1, 1, 1}), RP_TREE_FLOATS(warps, 1) * sizeof(float), .out = out, .x = x,
              .n = n);
}

void rp_cuda_op_adam_update(struct rp_dev *dev, float *w, float *m, float *v, const float *g, size_t n,
                            const struct rp_adam *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, adam_update, SPREAD4(c, adam_update, n), 0, .w = w, .m = m, .v = v, .g = g, .n = n, .adam = *a,
              .wide = RP_ALIGNED(w, m, v, g));
}

void rp_cuda_op_lamb_direction(struct rp_dev *dev, float *u_over_g, float *m, float *v, const float *w, size_t n,
                               const struct rp_adam *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, lamb_direction, SPREAD4(c, lamb_direction, n), 0, .u_over_g = u_over_g, .m = m, .v = v, .w = w, .n = n,
              .adam = *a, .wide = RP_ALIGNED(u_over_g, m, v, w));
}

void rp_cuda_op_lamb_apply(struct rp_dev *dev, float *w, const float *u, const float *sums, float lr, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, lamb_apply, SPREAD4(c, lamb_apply, n), 0, .w = w, .u = u, .sums = sums, .lr = lr, .n = n,
              .wide = RP_ALIGNED(w, u));
}

void rp_cuda_op_sgd_update(struct rp_dev *dev, float *w, float *m, const float *g, size_t n, const struct rp_sgd *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, sgd_update, SPREAD4(c, sgd_update, n), 0, .w = w, .m = m, .g = g, .n = n, .sgd = *a,
              .wide = RP_ALIGNED(w, m, g));
}

void rp_cuda_op_lars_update(struct rp_dev *dev, float *w, float *m, const float *g, const float *sums, size_t n,
                            const struct rp_lars *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, lars_update, SPREAD4(c, lars_update, n), 0, .w = w, .m = m, .g = g, .sums = sums, .n = n, .lars = *a,
              .wide = RP_ALIGNED(w, m, g));
}

void rp_cuda_op_running_update(struct rp_dev *dev, float *r, const float *x, float factor, float momentum, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, running_update, SPREAD4(c, running_update, n), 0, .r = r, .x = x, .n = n, .factor = factor,
              .momentum = momentum, .rest = 1.0f - momentum, .wide = RP_ALIGNED(r, x));
}

void rp_cuda_op_init_normal(struct rp_dev *dev, float *w, size_t n, float std, uint64_t seed, uint32_t tensor,
                            int truncated)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, init_normal, SPREAD4(c, init_normal, n), 0, .w = w, .n = n, .std = std, .seed = seed, .tensor = tensor,
              .truncated = truncated, .wide = RP_ALIGNED(w));
}

void rp_cuda_op_perturb(struct rp_dev *dev, float *w, size_t n, const struct rp_perturbation *p)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_BUG_IF(p->run == 0 || (p->parts != 1 && p->run > UINT32_MAX));
    const size_t most = p->parts == 1 ? n : UINT32_MAX / p->run * p->run; /* whole runs */
    for (size_t first = 0, m; first < n; first += m) {
        m = n - first < most ? n - first : most;
        RP_LAUNCH(c, perturb, SPREAD4(c, perturb, m), 0, .w = w + first, .n = m, .runs = first / p->run, .p = *p);
    }
}
