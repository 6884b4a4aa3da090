/* Rows: embeddings, layer norm, dropout, rows gathered and added up. */
#include "backend/cuda/inner.h"

/* A warp for each of n items. */
static struct rp_grid warps(enum rp_cuda_kernel kernel, size_t n)
{
    size_t each = rp_cuda_kernels[kernel].threads / 32;
    return (struct rp_grid){(unsigned)((n + each - 1) / each), 1, 1};
}
#define WARPS(name, n) warps(RP_KERNEL_##name, (size_t)(n))

/* Pieces of 128 columns */
static size_t pieces(int rows, int width)
{
    return (size_t)rows * (((size_t)width + 127) / 128);
}

void rp_cuda_op_embed_forward(struct rp_dev *dev, rp_stored *z, const int32_t *ids, const int32_t *type_ids,
                              const int32_t *position_ids, const rp_stored *word, const rp_stored *type,
                              const rp_stored *position, int rows, int seq, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    int wide = width % 4 == 0 && RP_ALIGNED(z, word, type, position);
    RP_LAUNCH_STORED(c, embed_forward, WARPS(embed_forward, pieces(rows, width)), 0, .z = z, .ids = ids,
                     .type_ids = type_ids, .position_ids = position_ids, .word = word, .type = type,
                     .position = position, .rows = rows, .seq = seq, .width = width, .wide = wide);
}

void rp_cuda_op_gather_rows(struct rp_dev *dev, rp_stored *y, const rp_stored *x, const int32_t *index, int n,
                            int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    int wide = width % 4 == 0 && RP_ALIGNED(y, x);
    RP_LAUNCH_STORED(c, gather_rows, WARPS(gather_rows, pieces(n, width)), 0, .y = y, .x = x, .index = index, .n = n,
                     .width = width, .wide = wide);
}

void rp_cuda_op_copy_columns(struct rp_dev *dev, void *dst, long ldd, const void *src, long lds, int rows, int cols,
                             int bytes)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    if (bytes == sizeof(uint16_t)) {
        RP_LAUNCH_LOW(c, copy_stored, warps(RP_LOW_KERNEL(c, copy_stored), (size_t)rows), 0, .dst = dst, .src = src,
                      .ldd = ldd, .lds = lds, .rows = rows, .cols = cols);
        return;
    }
    RP_BUG_IF(bytes != sizeof(float));
    int wide = cols % 4 == 0 && ldd % 4 == 0 && lds % 4 == 0 && RP_ALIGNED(dst, src);
    RP_LAUNCH(c, copy_columns, WARPS(copy_columns, pieces(rows, cols)), 0, .dst = dst, .src = src, .ldd = ldd,
              .lds = lds, .rows = rows, .cols = cols, .wide = wide);
}

/* Strict fp32 stores what it is given. */
void rp_cuda_op_round_stored(struct rp_dev *dev, rp_stored *dst, const float *src, const rp_stored *add, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t most = (size_t)1 << 30;
    float *to = rp_cuda_floats(dst);
    if (rp_is_mixed(dev->numerics)) {
        RP_LAUNCH_LOW(c, round_stored, rp_cuda_spread(c, RP_LOW_KERNEL(c, round_stored), (n + 3) / 4), 0, .dst = dst,
                      .src = src, .add = add, .n = n, .wide = RP_ALIGNED(dst, src, add));
        return;
    }
    if (add) {
        rp_cuda_op_add(dev, to, src, rp_cuda_floats(add), n);
        return;
    }
    for (size_t i = 0, part; i < n; i += part) {
        part = n - i < most ? n - i : most;
        rp_cuda_op_copy_columns(dev, to + i, (long)part, src + i, (long)part, 1, (int)part, sizeof *src);
    }
}

void rp_cuda_op_add_stored(struct rp_dev *dev, rp_stored *dst, const rp_stored *a, const rp_stored *b, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    if (rp_is_mixed(dev->numerics))
        RP_LAUNCH_LOW(c, add_stored, rp_cuda_spread(c, RP_LOW_KERNEL(c, add_stored), (n + 3) / 4), 0, .dst = dst,
                      .a = a, .b = b, .n = n, .wide = RP_ALIGNED(dst, a, b));
    else
        rp_cuda_op_add(dev, rp_cuda_floats(dst), rp_cuda_floats(a), rp_cuda_floats(b), n);
}

void rp_cuda_op_bias_add(struct rp_dev *dev, rp_stored *y, const float *x, const float *bias, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    int wide = width % 4 == 0 && RP_ALIGNED(y, x, bias);
    RP_LAUNCH_STORED(c, bias_add, WARPS(bias_add, pieces(rows, width)), 0, .y = y, .x = x, .bias = bias, .rows = rows,
                     .width = width, .wide = wide);
}

/* ---- dropout ---- */

void rp_cuda_op_dropout_forward(struct rp_dev *dev, rp_stored *y, uint8_t *mask, const rp_stored *x,
                                const struct rp_dropout *drop, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_dropout d = rp_cuda_drop(drop);
    int wide = width % 4 == 0 && RP_ALIGNED(y, x);
    if (d.threshold || y != x)
        RP_LAUNCH_STORED(c, dropout_forward, WARPS(dropout_forward, pieces(rows, width)), 0, .y = y, .mask = mask,
                         .x = x, .drop = d, .rows = rows, .width = width, .wide = wide);
}

void rp_cuda_op_dropout_backward(struct rp_dev *dev, rp_stored *dx, const rp_stored *dy, const uint8_t *mask,
                                 const struct rp_dropout *drop, int rows, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_dropout d = rp_cuda_drop(drop);
    int wide = width % 4 == 0 && RP_ALIGNED(dx, dy);
    if (d.threshold || dx != dy)
        RP_LAUNCH_STORED(c, dropout_backward, WARPS(dropout_backward, pieces(rows, width)), 0, .dx = dx, .dy = dy,
                         .mask = mask, .drop = d, .rows = rows, .width = width, .wide = wide);
}

/* ---- layer norm ---- */

void rp_cuda_op_residual_layernorm_forward(struct rp_dev *dev, const struct rp_layernorm *n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    int wide = n->width % 4 == 0 && RP_ALIGNED(n->y, n->z, n->kept, n->x, n->residual, n->gamma, n->beta);
    const struct rp_layernorm_forward16_args a = {.n = {.y = n->y,
                                                        .z = n->z,
                                                        .kept = n->kept,
                                                        .rstd = n->rstd,
                                                        .mask = n->mask,
                                                        .x = n->x,
                                                        .residual = n->residual,
                                                        .gamma = n->gamma,
                                                        .beta = n->beta,
                                                        .drop = rp_cuda_drop(n->drop),
                                                        .eps = n->eps,
                                                        .inv = 1.0f / (float)n->width,
                                                        .rows = n->rows,
                                                        .width = n->width,
                                                        .wide = wide},
                                                  .mean = n->mean};
    const int kept = wide && n->width <= RP_NORM_KEPT;
    enum rp_cuda_kernel kernel = kept ? RP_STORED_KERNEL(c, layernorm_kept) : RP_STORED_KERNEL(c, layernorm_forward);
    rp_cuda_launch(c, kernel, warps(kernel, (size_t)n->rows), 0, &a);
}

void rp_cuda_op_layernorm_forward(struct rp_dev *dev, const struct rp_layernorm *n)
{
    const struct rp_layernorm plain = rp_layernorm_plain(n);
    rp_cuda_op_residual_layernorm_forward(dev, &plain);
}

void rp_cuda_op_layernorm_apply(struct rp_dev *dev, const struct rp_layernorm *n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    int wide = n->width % 4 == 0 && RP_ALIGNED(n->y, n->kept, n->gamma, n->beta);
    const struct rp_layernorm_apply16_args a = {.n = {.y = n->y,
                                                      .kept = n->kept,
                                                      .gamma = n->gamma,
                                                      .beta = n->beta,
                                                      .rows = n->rows,
                                                      .width = n->width,
                                                      .wide = wide},
                                                .mean = n->mean,
                                                .rstd = n->rstd};
    rp_cuda_launch(c, RP_STORED_KERNEL(c, layernorm_apply), WARPS(layernorm_apply, pieces(n->rows, n->width)), 0, &a);
}

/* Rows of dy and of what was kept that stay in the L2 cache between two kernels, a multiple of 64; all rows if that
 * would be too few to keep the multiprocessors busy. */
static long rows_at_a_time(const struct rp_cuda *c, long rows, int width)
{
    size_t bytes = (size_t)rows * (size_t)width * 8, most = c->l2 / 4 * 3 + 1; /* a virtual GPU may report an L2 of 0 */
    long parts = (long)((bytes + most - 1) / most), part = parts > 1 ? (rows + parts - 1) / parts : rows;
    part = part < 16l * c->multiprocessors ? rows : part;
    return (part + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS * RP_COLSUM_ROWS;
}

void rp_cuda_op_layernorm_backward(struct rp_dev *dev, const struct rp_layernorm_grad *g)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_dropout d = rp_cuda_drop(g->drop);
    const int rows = g->rows, width = g->width;
    float *sums = rp_cuda_workspace(c, (size_t)rows * 2 * sizeof *sums); /* s1 and s2 of each row */
    size_t part = rp_colsum_work(rows, width);
    int wide = width % 4 == 0 && RP_ALIGNED(g->dy, g->kept, g->gamma);
    float inv = 1.0f / (float)width;
    unsigned threads = rp_cuda_kernels[RP_KERNEL_layernorm_columns].threads,
             strips = ((unsigned)width + threads - 1) / threads;
    for (long row = 0, most = rows_at_a_time(c, rows, width); row < rows; row += most) {
        long end = rows - row < most ? rows : row + most, blocks = (end - row + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS;
        const struct rp_layernorm_sums16_args first = {.n = {.sums = sums,
                                                             .dy = g->dy,
                                                             .kept = g->kept,
                                                             .gamma = g->gamma,
                                                             .row0 = row,
                                                             .end = end,
                                                             .inv = inv,
                                                             .width = width,
                                                             .wide = wide},
                                                       .mean = g->mean,
                                                       .rstd = g->rstd};
        rp_cuda_launch(c, RP_STORED_KERNEL(c, layernorm_sums), WARPS(layernorm_sums, end - row), 0, &first);
        const struct rp_layernorm_columns16_args second = {.n = {.dz = g->dz,
                                                                 .dx = g->dx == g->dz ? NULL : g->dx,
                                                                 .work = g->work,
                                                                 .dy = g->dy,
                                                                 .add = g->add,
                                                                 .kept = g->kept,
                                                                 .rstd = g->rstd,
                                                                 .gamma = g->gamma,
                                                                 .sums = sums,
                                                                 .mask = g->mask,
                                                                 .part = (long)part,
                                                                 .row0 = row,
                                                                 .end = end,
                                                                 .threshold = d.threshold,
                                                                 .scale = d.scale,
                                                                 .bias = g->dbias != NULL,
                                                                 .width = width},
                                                           .mean = g->mean};
        rp_cuda_launch(c, RP_STORED_KERNEL(c, layernorm_columns), (struct rp_grid){(unsigned)blocks * strips, 1, 1},
                       RP_COLSUM_ROWS * 4 * sizeof(float), &second);
    }
    rp_cuda_column_tree(c, (float *const[3]){g->dgamma, g->dbeta, g->dbias}, g->dbias ? 3 : 2, g->work, part, rows,
                        width);
}

/* ---- rows added up ---- */

/* Long groups: narrow strips of columns if there are few groups, so that there are enough blocks. */
static void sum_long_groups(struct rp_cuda *c, float *dst, const rp_stored *src, const struct rp_row_groups *g,
                            int width, int add, int small)
{
    size_t columns = g->n < 16 ? 8 : 16, warps_each = rp_cuda_kernels[RP_KERNEL_row_sums_long].threads / 32;
    unsigned strips = (unsigned)(((size_t)width + columns - 1) / columns);
    /* blocks per strip, for 4 on each multiprocessor */
    unsigned share = ((unsigned)c->multiprocessors * 4 + strips - 1) / strips;
    share = share < (unsigned)g->n ? share : (unsigned)g->n;
    RP_LAUNCH_STORED(c, row_sums_long, ((struct rp_grid){strips, share, 1}),
                     (warps_each + RP_TREE_FLOATS(warps_each, columns)) * sizeof(float), .dst = dst, .src = src,
                     .key = g->key, .start = g->start, .source = g->source, .n = g->n, .width = width, .add = add,
                     .small = small, .columns = (int)columns);
}

void rp_cuda_op_row_sums(struct rp_dev *dev, float *dst, const rp_stored *src, const struct rp_row_groups *groups,
                         int width, int add)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    int wide = width % 4 == 0 && RP_ALIGNED(dst, src), small = groups->n > 4 ? RP_GROUP_SMALL : 0;
    size_t shared = rp_cuda_kernels[RP_KERNEL_row_sums].threads * RP_GROUP_LEVELS * 4 * sizeof(float);
    if (small)
        RP_LAUNCH_STORED(c, row_sums, WARPS(row_sums, pieces(groups->n, width)), shared, .dst = dst, .src = src,
                         .key = groups->key, .start = groups->start, .source = groups->source, .n = groups->n,
                         .width = width, .add = add, .wide = wide);
    sum_long_groups(c, dst, src, groups, width, add, small);
}

/* sum[p][column] = tree over `blocks` rows of part p. */
static void launch_tree(struct rp_cuda *c, float *const sum[3], int parts, const float *work, size_t part, int blocks,
                        long width)
{
    unsigned strips = (unsigned)((width + RP_TREE_COLUMNS - 1) / RP_TREE_COLUMNS);
    unsigned each = rp_cuda_kernels[RP_KERNEL_column_tree].threads / 32;
    RP_LAUNCH(c, column_tree, ((struct rp_grid){strips, (unsigned)parts, 1}),
              RP_TREE_FLOATS(each, RP_TREE_COLUMNS) * sizeof(float),
              .sum = {sum[0], parts > 1 ? sum[1] : NULL, parts > 2 ? sum[2] : NULL}, .work = work, .part = (long)part,
              .blocks = blocks, .width = (int)width);
}

void rp_cuda_column_tree(struct rp_cuda *c, float *const sum[3], int parts, const float *work, size_t part, int rows,
                         int width)
{
    if (rows > 0)
        launch_tree(c, sum, parts, work, part, (int)(((long)rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS), width);
}

void rp_cuda_tree(struct rp_cuda *c, float *sum, const float *work, int rows, long width)
{
    launch_tree(c, (float *const[3]){sum}, 1, work, 0, rows, width);
}
