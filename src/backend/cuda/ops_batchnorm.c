/* Batch norm. */
#include "backend/cuda/cuda.h"

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
    RP_LAUNCH(c, column_mean, ((struct rp_grid){strips_of, 1, 1}), RP_TREE_FLOATS(each, RP_TREE_COLUMNS) * sizeof(float), .mean = mean,
              .rstd = rstd, .work = work, .inv = 1.0f / (float)rows, .eps = eps,
              .blocks = (int)(((long)rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS), .width = width);
}

void rp_cuda_op_batchnorm_apply(struct rp_dev *dev, float *y, const float *x, const float *mean, const float *rstd, const float *gamma,
                                const float *beta, const float *add, int relu, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t quads = quads_of(rows, width);
    RP_LAUNCH(c, batchnorm_apply, rp_cuda_spread(c, RP_KERNEL_batchnorm_apply, quads), 0, .y = y, .x = x, .mean = mean, .rstd = rstd,
              .gamma = gamma, .beta = beta, .add = add, .quads = quads, .relu = relu, .width = width,
              .wide = width % 4 == 0 && RP_ALIGNED(y, x, mean, rstd, gamma, beta, add));
}

void rp_cuda_op_batchnorm_forward(struct rp_dev *dev, float *y, float *var, float *rstd, const float *x, const float *mean,
                                  const float *gamma, const float *beta, const float *add, float eps, int relu, int rows, int width,
                                  float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, batchnorm_squares, strips(RP_KERNEL_batchnorm_squares, rows, width), 0, .work = work, .x = x, .mean = mean, .rows = rows,
              .width = width);
    rp_cuda_column_mean(c, var, rstd, eps, work, rows, width);
    if (y)
        rp_cuda_op_batchnorm_apply(dev, y, x, mean, rstd, gamma, beta, add, relu, rows, width);
}

void rp_cuda_op_batchnorm_backward(struct rp_dev *dev, float *dx, float *dadd, float *dgamma, float *dbeta, const float *dy,
                                   const float *x, const float *y, const float *mean, const float *rstd, const float *gamma, int rows,
                                   int width, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t part = rp_colsum_work(rows, width), quads = quads_of(rows, width);
    RP_LAUNCH(c, batchnorm_sums, strips(RP_KERNEL_batchnorm_sums, rows, width), 0, .work = work, .dy = dy, .x = x, .y = y, .mean = mean,
              .rstd = rstd, .part = (long)part, .rows = rows, .width = width);
    rp_cuda_column_tree(c, (float *const[3]){dgamma, dbeta}, 2, work, part, rows, width);
    RP_LAUNCH(c, batchnorm_backward, rp_cuda_spread(c, RP_KERNEL_batchnorm_backward, quads), 0, .dx = dx, .dadd = dadd, .dy = dy, .x = x,
              .y = y, .mean = mean, .rstd = rstd, .gamma = gamma, .dgamma = dgamma, .dbeta = dbeta, .quads = quads,
              .inv = 1.0f / (float)rows, .width = width,
              .wide = width % 4 == 0 && RP_ALIGNED(dx, dadd, dy, x, y, mean, rstd, gamma, dgamma, dbeta));
}
