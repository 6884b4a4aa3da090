/* Attention: which kernel, with how many queries in a block. */
#include "backend/cuda/attention.h"
#include "backend/cuda/inner.h"

#include <limits.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define BLOCK_OWN ((size_t)1024) /* bytes of shared memory that CUDA takes for itself in every block */

struct choice {
    int rows; /* queries, or keys, of a thread */
    int is_stream;
    /* of a backward stream: that of keys, which follows attention_gradients with as many keys in a block */
    enum rp_cuda_kernel kernel;
    enum rp_cuda_kernel queries; /* and then that of queries */
};
static const struct choice forward[] = {{8, 0, RP_KERNEL_attention_forward_64, 0},
                                        {4, 0, RP_KERNEL_attention_forward_32, 0},
                                        {2, 0, RP_KERNEL_attention_forward_16, 0}};
/* by columns of a thread: 4, 6, 8 */
static const struct choice forward_streams[3][2] = {
    {{8, 1, RP_KERNEL_attention_stream_8x4, 0}, {4, 1, RP_KERNEL_attention_stream_4x4, 0}},
    {{8, 1, RP_KERNEL_attention_stream_8x6, 0}, {4, 1, RP_KERNEL_attention_stream_4x6, 0}},
    {{8, 1, RP_KERNEL_attention_stream_8x8, 0}, {4, 1, RP_KERNEL_attention_stream_4x8, 0}}};
static const struct choice backward[] = {{8, 0, RP_KERNEL_attention_backward_64, 0},
                                         {4, 0, RP_KERNEL_attention_backward_32, 0}};
static const struct choice backward_wide = {4, 0, RP_KERNEL_attention_backward_wide, 0};
static const struct choice backward_streams[3] = {{8, 1, RP_KERNEL_attention_keys_4, RP_KERNEL_attention_queries_4},
                                                  {8, 1, RP_KERNEL_attention_keys_6, RP_KERNEL_attention_queries_6},
                                                  {8, 1, RP_KERNEL_attention_keys_8, RP_KERNEL_attention_queries_8}};

/* Blocks of a multiprocessor: divide_workspace() counts with those of the forward streams. */
enum {
#define KERNEL(name, args, threads, blocks) BLOCKS_##name = (blocks),
#include "backend/cuda/kernels.def"
#undef KERNEL
};
#define SAME_BLOCKS(shape)                                                                                             \
    _Static_assert((int)BLOCKS_attention_stream_##shape == RP_ATT_STREAM_BLOCKS, #shape " has other blocks")
SAME_BLOCKS(8x4);
SAME_BLOCKS(8x6);
SAME_BLOCKS(8x8);
SAME_BLOCKS(4x4);
SAME_BLOCKS(4x6);
SAME_BLOCKS(4x8);

/* As rp_cuda_attention_rows() numbers them. */
static int id_of(const struct choice *use)
{
    return use ? use->rows + 10 * use->is_stream : 0;
}

/* Per cent of the time of 8 rows for the same work: fewer rows read more shared memory per multiplication, which
 * matters most where a multiprocessor has 128 lanes. */
static long weight(const struct rp_cuda *c, int rows)
{
    const int lanes = c->gpu.capability > 80 ? 128 : 64;
    return rows == 8 ? 100 : rows == 4 ? (lanes == 128 ? 120 : 110) : lanes == 128 ? 200 : 140;
}

static int fits_twice(const struct rp_cuda *c, size_t shared)
{
    return 2 * (shared + BLOCK_OWN) <= c->gpu.shared_max + BLOCK_OWN;
}

/* Relative time of a launch: work of a block times blocks of the busiest multiprocessor, and a quarter more if it runs
 * one block at a time, so that nothing hides that block's waiting (an assumption). LONG_MAX: a block does not fit. */
static long estimate(const struct rp_cuda *c, const struct choice *use, long work, long blocks, size_t shared)
{
    const long each = (blocks + c->multiprocessors - 1) / c->multiprocessors;
    const int alone = each < 2 || !fits_twice(c, shared);
    if (shared > c->gpu.shared_max)
        return LONG_MAX;
    return c->attention_forced == id_of(use) ? 0 : each * work * weight(c, use->rows) * (alone ? 5 : 4);
}

/* What one launch of each kernel of the backward streams takes: of some heads some tiles of 64 keys, for which pd and
 * ds are in the workspace. */
struct attention_part {
    long heads, keys;
};

/* A kernel that can do it. blocks: of the launch; kept: of a forward stream, see struct rp_attention_forward_args;
 * part: of backward streams. */
struct way {
    const struct choice *use;
    long time;
    size_t shared;
    unsigned blocks;
    int kept;
    struct attention_part part;
};
struct ways {
    struct way way[8];
    int n;
};

static void add_way(struct ways *ways, struct way way)
{
    if (way.time == LONG_MAX)
        return;
    RP_BUG_IF(ways->n == COUNT(ways->way));
    ways->way[ways->n++] = way;
}

/* The fastest by estimate (turn < 0), or number `turn` in rotation, from the last on; .use NULL: there is none. */
static struct way pick_way(const struct ways *ways, int turn)
{
    struct way best = {.time = LONG_MAX};
    if (turn >= 0 && ways->n)
        return ways->way[ways->n - 1 - turn % ways->n];
    for (int i = 0; i < ways->n; i++)
        if (ways->way[i].time < best.time)
            best = ways->way[i];
    return best;
}

/* Tiles of 8 * rows rows, over all heads. */
static long tiles(const struct rp_attention *a, int rows)
{
    return (long)a->batch * a->heads * ((a->seq + RP_ATT_QUERIES(rows) - 1) / RP_ATT_QUERIES(rows));
}

/* The number of the streams for this width of heads. */
static int stream_of(const struct rp_attention *a)
{
    return RP_ATT_STREAM_W(a->head_dim) / 2 - 2;
}

/* ---- forward ---- */

/* A block for each slab: as many as run at the same time, each with an equal part of the workspace. */
static void divide_workspace(const struct rp_cuda *c, const struct rp_attention *a, struct way *way)
{
    const long all = tiles(a, way->use->rows);
    const long most = (long)c->multiprocessors * (fits_twice(c, way->shared) ? RP_ATT_STREAM_BLOCKS : 1);
    const size_t needed = (size_t)(a->seq + RP_ATT_KEYS - 1) / RP_ATT_KEYS;
    way->blocks = (unsigned)(all < most ? all : most);
    const size_t room = c->workspace_bytes / way->blocks / RP_ATT_TILE_BYTES(way->use->rows);
    way->kept = (int)(room < needed ? room : needed);
}

/* Per cent of what a block of a kernel with all scores in shared memory does. Scores that are not kept are computed
 * three times instead of once, which is half of the work. Of a score 16 bytes are written and read: that costs a tenth
 * of the time if the L2 cache has all slabs, three tenths if the memory of the GPU has them (counted for H100, A100 and
 * V100 with heads of 64 columns; wider ones hide more). */
static long stream_work(const struct rp_cuda *c, const struct rp_attention *a, const struct way *way)
{
    const long needed = (a->seq + RP_ATT_KEYS - 1) / RP_ATT_KEYS, again = needed - way->kept;
    const size_t slab = (size_t)way->kept * RP_ATT_TILE_BYTES(way->use->rows) / (a->causal ? 2 : 1); /* half is used */
    return 100 + (100 * again + (way->blocks * slab > c->l2 ? 30 : 10) * way->kept) / needed;
}

/* In rotation every stream also runs with one or two blocks that keep one tile each. */
static struct way choose_forward(const struct rp_cuda *c, const struct rp_attention *a, int turn)
{
    struct ways ways = {.n = 0};
    const struct choice *streams = forward_streams[stream_of(a)];
    for (int i = 0; i < COUNT(forward); i++) {
        const struct choice *use = &forward[i];
        struct way way = {.use = use, .shared = RP_ATT_FORWARD_SHARED((size_t)use->rows, (size_t)a->seq)};
        way.blocks = (unsigned)tiles(a, use->rows);
        way.time = estimate(c, use, use->rows * 100, way.blocks, way.shared);
        add_way(&ways, way);
    }
    for (int i = 0; i < COUNT(forward_streams[0]); i++) {
        const struct choice *use = &streams[i];
        struct way way = {.use = use, .shared = RP_ATT_STREAM_SHARED((size_t)use->rows, (size_t)a->head_dim)};
        divide_workspace(c, a, &way);
        way.time = estimate(c, use, use->rows * stream_work(c, a, &way), tiles(a, use->rows), way.shared);
        add_way(&ways, way);
        way.blocks = tiles(a, use->rows) > 2 ? 2 : 1;
        way.kept = way.kept < 1 ? way.kept : 1;
        if (turn >= 0)
            add_way(&ways, way);
    }
    return pick_way(&ways, turn);
}

/* ---- backward ---- */

/* Bytes of D, before pd and ds in the workspace; as in needs.c: both aligned to 256 as memory of the driver is. */
static size_t dots_bytes(const struct rp_attention *a)
{
    return ((size_t)a->batch * (size_t)a->heads * (size_t)a->seq * sizeof(float) + 255) / 256 * 256;
}

/* Few keys of all heads, if not everything fits: their blocks take equally long. Else one tile of keys of as many heads
 * as fit. Parts are of equal size except the last. .heads 0: there is no room. */
static struct attention_part part_of(const struct rp_cuda *c, const struct rp_attention *a)
{
    const long heads = (long)a->batch * a->heads, keys = tiles(a, 8) / heads;
    const size_t dots = dots_bytes(a), room = c->workspace_bytes > dots ? c->workspace_bytes - dots : 0;
    const long fit = (long)(room / rp_cuda_attention_strip(a->seq));
    if (fit < 1)
        return (struct attention_part){0, 0};
    if (fit < heads) {
        const long parts = (heads + fit - 1) / fit;
        return (struct attention_part){(heads + parts - 1) / parts, 1};
    }
    const long parts = (keys + fit / heads - 1) / (fit / heads);
    return (struct attention_part){heads, (keys + parts - 1) / parts};
}

/* Time of the three launches for some keys of some heads, all as if with the shared memory of the first one. A block of
 * queries takes all of these keys and no others. */
static long part_time(const struct rp_cuda *c, const struct rp_attention *a, const struct way *way, long heads,
                      long keys)
{
    const long length = tiles(a, 8) / ((long)a->batch * a->heads);
    return estimate(c, way->use, 44, heads * keys, way->shared) +
           estimate(c, way->use, 22, 2 * heads * keys, way->shared) +
           estimate(c, way->use, 22 * keys, heads * length, way->shared) / length;
}

/* Time of all parts, which have four sizes at most. */
static long streams_time(const struct rp_cuda *c, const struct rp_attention *a, const struct way *way)
{
    const long heads = (long)a->batch * a->heads, keys = tiles(a, 8) / heads;
    const struct attention_part p = way->part;
    const long many = heads / p.heads, rest = heads % p.heads, times = keys / p.keys, end = keys % p.keys;
    long time = many * times * part_time(c, a, way, p.heads, p.keys);
    if (rest)
        time += times * part_time(c, a, way, rest, p.keys);
    if (end)
        time += many * part_time(c, a, way, p.heads, end);
    return time + (rest && end ? part_time(c, a, way, rest, end) : 0);
}

/* Work of 64 keys and all queries is 20 for each product, of which there are five: 100. The streams do the same five
 * products in three launches (two, two, one), plus a tenth for traffic through global memory, as forward (see
 * stream_work()). A head that is one block, for any number of rows, has all tiles of keys. A wide one takes 250: for
 * each square it reads and writes its chains of dq, dk and dv in memory, and waits for them; the factor is an
 * assumption. In rotation the streams also run piecewise: one tile of 64 keys of one head after the other. */
static struct way choose_backward(const struct rp_cuda *c, const struct rp_attention *a, int turn)
{
    struct ways ways = {.n = 0};
    const long heads = (long)a->batch * a->heads, length = tiles(a, 8) / heads;
    struct way streams = {.use = &backward_streams[stream_of(a)], .part = part_of(c, a)};
    for (int i = 0; i < COUNT(backward); i++) {
        const struct choice *use = a->head_dim <= RP_ATT_DIM ? &backward[i] : &backward_wide;
        struct way way = {.use = use, .shared = RP_ATT_BACKWARD_SHARED((size_t)use->rows), .blocks = (unsigned)heads};
        way.time = estimate(c, use, (a->head_dim <= RP_ATT_DIM ? 100 : 250) * length, heads, way.shared);
        if (i == 0 || use != &backward_wide)
            add_way(&ways, way);
    }
    streams.shared = RP_ATT_GRADIENTS_SHARED((size_t)a->head_dim); /* the largest of the three */
    if (streams.part.heads == 0 || streams.shared > c->gpu.shared_max)
        return pick_way(&ways, turn);
    streams.time = streams_time(c, a, &streams);
    add_way(&ways, streams);
    streams.part = (struct attention_part){1, 1};
    if (turn >= 0)
        add_way(&ways, streams);
    return pick_way(&ways, turn);
}

static void launch_backward_streams(struct rp_cuda *c, const struct rp_attention *a, const struct way *way,
                                    struct rp_attention_backward_args *args)
{
    const long heads = (long)a->batch * a->heads, blocks = tiles(a, 8) / heads;
    const struct attention_part part = way->part;
    const size_t products = RP_ATT_PRODUCTS_SHARED((size_t)a->head_dim), at = dots_bytes(a);
    const size_t matrix = (size_t)part.heads * (size_t)part.keys * rp_cuda_attention_strip(a->seq) / 2;
    unsigned char *matrices = rp_cuda_workspace(c, at + 2 * matrix);
    args->pd = (float *)(void *)(matrices + at);
    args->ds = (float *)(void *)(matrices + at + matrix);
    args->span = (int)part.keys * RP_ATT_KEYS;
    for (long head = 0; head < heads; head += part.heads)
        for (long key = 0; key < blocks; key += part.keys) {
            const long n = heads - head < part.heads ? heads - head : part.heads;
            const long keys = blocks - key < part.keys ? blocks - key : part.keys;
            args->head = (int)head;
            args->from = (int)key * RP_ATT_KEYS;
            args->blocks = (int)keys;
            rp_cuda_launch(c, RP_KERNEL_attention_gradients, (struct rp_grid){(unsigned)(n * keys), 1, 1}, way->shared,
                           args);
            rp_cuda_launch(c, way->use->kernel, (struct rp_grid){(unsigned)(2 * n * keys), 1, 1}, products, args);
            args->blocks = (int)blocks;
            rp_cuda_launch(c, way->use->queries, (struct rp_grid){(unsigned)(n * blocks), 1, 1}, products, args);
        }
}

void rp_cuda_attention_rows(const struct rp_cuda *c, const struct rp_attention *a, int *forward_id, int *backward_id)
{
    *forward_id = id_of(choose_forward(c, a, -1).use);
    *backward_id = id_of(choose_backward(c, a, -1).use);
}

int rp_cuda_attention_part(const struct rp_cuda *c, const struct rp_attention *a, int *heads)
{
    const struct attention_part part = part_of(c, a);
    *heads = (int)part.heads;
    return (int)part.keys;
}

unsigned rp_cuda_attention_slabs(const struct rp_cuda *c, const struct rp_attention *a, int *kept)
{
    const struct way way = choose_forward(c, a, -1);
    *kept = way.kept;
    return way.blocks;
}

static int next_turn(struct rp_cuda *c, enum rp_op op, const struct rp_attention *a)
{
    return c->attention_rotates ? c->attentions[op == RP_OP_attention_backward][stream_of(a)]++ : -1;
}

/* The memory plan has checked this already. */
static void check_attention(const struct rp_cuda *c, enum rp_op op, const struct rp_attention *a, const uint8_t *mask)
{
    const struct rp_op_use use = {
        .op = op, .batch = a->batch, .seq = a->seq, .heads = a->heads, .head_dim = a->head_dim};
    struct rp_err err;
    RP_BUG_IF(rp_cuda_supports(&c->gpu, c->dev.numerics, &use, &err) < 0 || ((uintptr_t)mask & 3));
}

void rp_cuda_op_attention_forward(struct rp_dev *dev, rp_stored *o, float *row_max, float *row_inv, uint8_t *mask,
                                  const rp_stored *qkv, const struct rp_attention *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const int width = a->heads * a->head_dim;
    if (a->batch == 0)
        return;
    check_attention(c, RP_OP_attention_forward, a, mask);
    if (rp_is_mixed(dev->numerics)) {
        rp_cuda_attention16_forward(c, o, row_max, row_inv, mask, qkv, a);
        return;
    }
    const struct way way = choose_forward(c, a, next_turn(c, RP_OP_attention_forward, a));
    RP_BUG_IF(!way.use);
    const long all = tiles(a, way.use->rows);
    const size_t slabs = (size_t)way.blocks * (size_t)way.kept * RP_ATT_TILE_BYTES(way.use->rows);
    const struct rp_attention_forward_args args = {.o = rp_cuda_floats(o), .row_max = row_max, .row_inv = row_inv,
                                                   .slabs = slabs ? rp_cuda_workspace(c, slabs) : NULL, .mask = mask,
                                                   .qkv = rp_cuda_floats(qkv), .keys = a->key_mask,
                                                   .first = a->first_key, .seed = a->drop.seed, .seq = a->seq,
                                                   .heads = a->heads, .first_head = a->first_head, .dim = a->head_dim,
                                                   .width = width, .ld = 3 * width, .padded = RP_ATT_PADDED(a->seq),
                                                   .blocks = (int)(all / a->batch / a->heads), .tiles = (int)all,
                                                   .kept_tiles = way.kept,
                                                   .whole = a->head_dim % 4 == 0 && RP_ALIGNED(o, qkv),
                                                   .scale = a->scale, .keep_scale = a->drop.scale, .step = a->drop.step,
                                                   .site = a->drop.site, .first_sample = a->drop.first_sample,
                                                   .threshold = a->drop.threshold, .causal = a->causal};
    rp_cuda_launch(c, way.use->kernel, (struct rp_grid){way.blocks, 1, 1}, way.shared, &args);
}

void rp_cuda_op_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const struct rp_attention *a = g->a;
    const long rows = (long)a->batch * a->seq;
    const int dropout = a->drop.threshold != 0, width = a->heads * a->head_dim;
    if (a->batch == 0)
        return;
    if (rp_is_mixed(dev->numerics)) {
        check_attention(c, RP_OP_attention_backward, a, g->mask);
        rp_cuda_attention16_backward(c, g);
        rp_cuda_op_colsum(dev, g->dbias, g->dqkv, a->batch * a->seq, 3 * width, g->work);
        return;
    }
    float *big_d = rp_cuda_workspace(c, (size_t)rows * (size_t)a->heads * sizeof(float));
    check_attention(c, RP_OP_attention_backward, a, g->mask);
    const struct way way = choose_backward(c, a, next_turn(c, RP_OP_attention_backward, a));
    RP_BUG_IF(!way.use);
    struct rp_attention_backward_args args = {
        .dqkv = rp_cuda_floats(g->dqkv), .d_o = rp_cuda_floats(g->d_o), .big_d = big_d, .row_max = g->row_max,
        .row_inv = g->row_inv, .qkv = rp_cuda_floats(g->qkv),
        .mask = dropout ? g->mask : NULL, .keys = a->key_mask, .first = a->first_key, .seq = a->seq, .heads = a->heads,
        .dim = a->head_dim, .width = width, .ld = 3 * width, .padded = RP_ATT_PADDED(a->seq),
        .whole = a->head_dim % 4 == 0 && RP_ALIGNED(g->dqkv, g->d_o, g->qkv), .scale = a->scale,
        .keep_scale = dropout ? a->drop.scale : 1.0f, .causal = a->causal};
    const unsigned threads = rp_cuda_kernels[RP_KERNEL_attention_dots].threads;
    RP_LAUNCH(c, attention_dots, ((struct rp_grid){(unsigned)((rows * a->heads + threads - 1) / threads), 1, 1}), 0,
              .big_d = big_d, .d_o = rp_cuda_floats(g->d_o), .o = rp_cuda_floats(g->o), .rows = (int)rows,
              .seq = a->seq, .heads = a->heads, .dim = a->head_dim,
              .whole = a->head_dim % 4 == 0 && RP_ALIGNED(g->d_o, g->o));
    if (way.use->is_stream)
        launch_backward_streams(c, a, &way, &args);
    else
        rp_cuda_launch(c, way.use->kernel, (struct rp_grid){way.blocks, 1, 1}, way.shared, &args);
    rp_cuda_op_colsum(dev, g->dbias, g->dqkv, a->batch * a->seq, 3 * width, g->work);
}
