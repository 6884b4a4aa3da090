/* Batch norm. */
#include "backend/cuda/inner.h"

/* A thread for each column of 64 rows. */
static struct rp_grid strips(enum rp_cuda_kernel kernel, int rows, int width)
{
    size_t threads = rp_cuda_kernels[kernel].threads, blocks = ((size_t)rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS;
    return (struct rp_grid){(unsigned)(blocks * (((size_t)width + threads - 1) / threads)), 1, 1};
}

static size_t quads_of(int rows, int width)
{
    return (size_t)rows * (((size_t)width + 3) / 4);
}

void rp_cuda_column_mean(struct rp_cuda *c, float *mean, float *rstd, float eps, const float *work, int rows, int width)
{
    const unsigned strips_of = ((unsigned)width + RP_TREE_COLUMNS - 1) / RP_TREE_COLUMNS;
    const unsigned each = rp_cuda_kernels[RP_KERNEL_column_mean].threads / 32;
    RP_LAUNCH(c, column_mean, ((struct rp_grid){strips_of, 1, 1}),
              RP_TREE_FLOATS(each, RP_TREE_COLUMNS) * sizeof(float), .mean = mean, .rstd = rstd, .work = work,
              .inv = 1.0f / (float)rows, .eps = eps,
              .blocks = (int)(((long)rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS), .width = width);
}

void rp_cuda_op_batchnorm_apply(struct rp_dev *dev, const struct rp_batchnorm *n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t quads = quads_of(n->rows, n->width);
    RP_LAUNCH_STORED(c, batchnorm_apply, rp_cuda_spread(c, RP_KERNEL_batchnorm_apply, quads), 0, .y = n->y, .x = n->x,
                     .mean = n->mean, .rstd = n->rstd, .gamma = n->gamma, .beta = n->beta, .add = n->add,
                     .quads = quads, .relu = n->relu, .width = n->width,
                     .wide = n->width % 4 == 0 && RP_ALIGNED(n->y, n->x, n->mean, n->rstd, n->gamma, n->beta, n->add));
}

void rp_cuda_op_batchnorm_forward(struct rp_dev *dev, const struct rp_batchnorm *n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH_STORED(c, batchnorm_squares, strips(RP_KERNEL_batchnorm_squares, n->rows, n->width), 0, .work = n->work,
                     .x = n->x, .mean = n->mean, .rows = n->rows, .width = n->width);
    rp_cuda_column_mean(c, n->var, n->rstd, n->eps, n->work, n->rows, n->width);
    if (n->y)
        rp_cuda_op_batchnorm_apply(dev, n);
}

void rp_cuda_op_batchnorm_backward(struct rp_dev *dev, const struct rp_batchnorm_grad *g)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t part = rp_colsum_work(g->rows, g->width), quads = quads_of(g->rows, g->width);
    const int wide = g->width % 4 == 0 && RP_ALIGNED(g->dx, g->dadd, g->dy, g->x, g->y, g->mean, g->rstd, g->gamma,
                                                     g->dgamma, g->dbeta);
    RP_LAUNCH_STORED(c, batchnorm_sums, strips(RP_KERNEL_batchnorm_sums, g->rows, g->width), 0, .work = g->work,
                     .dy = g->dy, .x = g->x, .y = g->y, .mean = g->mean, .rstd = g->rstd, .part = (long)part,
                     .rows = g->rows, .width = g->width);
    rp_cuda_column_tree(c, (float *const[3]){g->dgamma, g->dbeta}, 2, g->work, part, g->rows, g->width);
    RP_LAUNCH_STORED(c, batchnorm_backward, rp_cuda_spread(c, RP_KERNEL_batchnorm_backward, quads), 0, .dx = g->dx,
                     .dadd = g->dadd, .dy = g->dy, .x = g->x, .y = g->y, .mean = g->mean, .rstd = g->rstd,
                     .gamma = g->gamma, .dgamma = g->dgamma, .dbeta = g->dbeta, .quads = quads,
                     .inv = 1.0f / (float)g->rows, .width = g->width, .wide = wide);
}
