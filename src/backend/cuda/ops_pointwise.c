/* GELU, tanh, column sums. */
#include "backend/cuda/inner.h"

/* A thread for each column and 64 rows. */
static struct rp_grid strips(enum rp_cuda_kernel kernel, int rows, int width)
{
    size_t threads = rp_cuda_kernels[kernel].threads, blocks = ((size_t)rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS;
    return (struct rp_grid){(unsigned)(blocks * (((size_t)width + threads - 1) / threads)), 1, 1};
}

void rp_cuda_op_gelu_forward(struct rp_dev *dev, rp_stored *g, const rp_stored *u, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t n = (size_t)rows * (size_t)width;
    RP_LAUNCH_STORED(c, gelu_forward, SPREAD4(c, gelu_forward, n), 0, .g = g, .u = u, .n = n, .wide = RP_ALIGNED(g, u));
}

void rp_cuda_op_gelu_tanh_forward(struct rp_dev *dev, rp_stored *g, const rp_stored *u, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t n = (size_t)rows * (size_t)width;
    RP_LAUNCH_STORED(c, gelu_tanh_forward, SPREAD4(c, gelu_tanh_forward, n), 0, .g = g, .u = u, .n = n,
                     .wide = RP_ALIGNED(g, u));
}

void rp_cuda_op_tanh_forward(struct rp_dev *dev, rp_stored *y, const rp_stored *x, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t n = (size_t)rows * (size_t)width;
    RP_LAUNCH_STORED(c, tanh_forward, SPREAD4(c, tanh_forward, n), 0, .y = y, .x = x, .n = n, .wide = RP_ALIGNED(y, x));
}

static void end_sum(struct rp_cuda *c, float *dbias, const float *work, int rows, int width)
{
    rp_cuda_column_tree(c, (float *const[3]){dbias}, 1, work, 0, rows, width);
}

void rp_cuda_op_gelu_backward(struct rp_dev *dev, rp_stored *du, float *dbias, const rp_stored *dg, const rp_stored *u,
                              int rows, int width, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH_STORED(c, gelu_backward, strips(RP_KERNEL_gelu_backward, rows, width), 0, .du = du, .work = work,
                     .dg = dg, .u = u, .rows = rows, .width = width);
    end_sum(c, dbias, work, rows, width);
}

void rp_cuda_op_gelu_tanh_backward(struct rp_dev *dev, rp_stored *du, float *dbias, const rp_stored *dg,
                                   const rp_stored *u, int rows, int width, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH_STORED(c, gelu_tanh_backward, strips(RP_KERNEL_gelu_tanh_backward, rows, width), 0, .du = du,
                     .work = work, .dg = dg, .u = u, .rows = rows, .width = width);
    end_sum(c, dbias, work, rows, width);
}

void rp_cuda_op_tanh_backward(struct rp_dev *dev, rp_stored *dx, float *dbias, const rp_stored *dy, const rp_stored *y,
                              int rows, int width, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH_STORED(c, tanh_backward, strips(RP_KERNEL_tanh_backward, rows, width), 0, .dx = dx, .work = work,
                     .dy = dy, .y = y, .rows = rows, .width = width);
    end_sum(c, dbias, work, rows, width);
}

void rp_cuda_column_sums(struct rp_cuda *c, float *work, const rp_stored *x, int rows, int width)
{
    RP_LAUNCH_STORED(c, colsum, strips(RP_KERNEL_colsum, rows, width), 0, .work = work, .x = x, .rows = rows,
                     .width = width);
}

void rp_cuda_op_colsum(struct rp_dev *dev, float *dbias, const rp_stored *dy, int rows, int width, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    rp_cuda_column_sums(c, work, dy, rows, width);
    end_sum(c, dbias, work, rows, width);
}
