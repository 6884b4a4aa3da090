/* Attention on the GPU with every kernel there is for it, each with no byte of shared memory to spare: shapes that fit
 * no tile, key masks of all kinds, scores far apart, products that are subnormal or -0, tensors that are not aligned.
 * All give the bits of the definition and write nothing else; where accesses are checked, nothing else is read.
 * One file: tests of sizes choose among the kernels whose bits the others compare, on the same samples.
 * shims: 800 700 checked checked700 */
#define RP_STORED_TYPE float
#include "backend/cuda/attention.h"
#include "tests/cuda/gpu.h"
#include "tests/ops/define.h"
#include "tests/unit/tap.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define GUARD ((size_t)64) /* bytes around a tensor, but where the shim checks accesses */

enum values { PLAIN, STEEP, TINY, SPECK, KINDS };
/* CAUSAL .. DOCUMENTS: without a mask */
enum keys { ALL, HOLES, SHORT, FIRST, LAST, CAUSAL, OPEN, DOCUMENTS, MASKS, EMPTY = MASKS };

struct sample {
    int batch, seq, heads, dim;
    enum values values;
    enum keys keys;
    float dropout;
    int offset;  /* floats by which tensors are off their alignment */
    int forward; /* nothing else */
};

/* Twice the same: for the definition and for the device, whose memory this process reaches. */
struct tensor {
    unsigned char *side[2];
    size_t bytes; /* with the guards */
};
enum { QKV, D_O, O, TOP, INV, DQKV, DBIAS, TENSORS };

struct job {
    struct sample s;
    struct tensor t[TENSORS], mask;
    uint8_t *keys;
    int32_t *first; /* of DOCUMENTS: the first key of each query */
    float *work;
    struct rp_attention a;
};

static const struct rp_device_opts strict;
static struct shim_options *shim;
static struct rp_cuda *cuda;
/* STEEP: most e are +0, and masked keys have larger scores than others. TINY: scores are the smallest floats or zeros,
 * of both signs. SPECK: the tensors are, so that outputs and gradients are. */
static float draw_float(enum values v)
{
    uint32_t w = random_word();
    float x = (float)((int)(w & 0xffffff) - 0x800000) * 0x1p-23f;
    if (v == PLAIN)
        return x * 2.0f;
    if (v == STEEP)
        return w >> 28 < 2 ? x * 40.0f : x;
    return v == TINY ? x * 0x1p-74f : x * 0x1p-147f;
}

static size_t guard(void)
{
    return shim->checked ? 0 : GUARD;
}

static void *take(size_t bytes)
{
    CUdeviceptr data;
    if (!CHECK(cuda->d->cuMemAlloc(&data, bytes) == CUDA_SUCCESS, "no memory for %zu bytes", bytes))
        exit(1);
    return (void *)(uintptr_t)data;
}

static void give(void *data)
{
    cuda->d->cuMemFree((CUdeviceptr)(uintptr_t)data);
}

static void make(struct tensor *t, size_t bytes)
{
    t->bytes = bytes + 2 * guard();
    for (int k = 0; k < 2; k++) {
        t->side[k] = take(t->bytes);
        memset(t->side[k], 0x5a, t->bytes);
    }
}

static float *floats(const struct job *j, int tensor, int side)
{
    return (float *)(void *)(j->t[tensor].side[side] + guard()) + j->s.offset;
}

static uint8_t *decisions(const struct job *j, int side)
{
    return j->mask.side[side] + guard();
}

static void fill(struct job *j, int tensor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        floats(j, tensor, 0)[i] = floats(j, tensor, 1)[i] = draw_float(j->s.values);
}

static void make_keys(struct job *j)
{
    const struct sample *s = &j->s;
    for (int b = 0; b < s->batch; b++) {
        uint8_t *row = j->keys + b * s->seq;
        int length = s->keys == SHORT ? 1 + (int)(random_word() % (uint32_t)s->seq) : s->seq;
        for (int i = 0; i < s->seq; i++)
            row[i] = s->keys == FIRST  ? i == 0
                     : s->keys == LAST ? i == s->seq - 1
                                       : i < length && (s->keys != HOLES || random_word() % 4);
        if (s->keys == EMPTY) { /* every second sample has no keys */
            memset(row, b % 2, (size_t)s->seq);
            continue;
        }
        row[s->keys == HOLES ? (int)(random_word() % (uint32_t)s->seq) : s->keys == LAST ? s->seq - 1 : 0] = 1;
    }
}

/* Documents of one token, of a few, and of more than a tile of keys. */
static void make_documents(struct job *j)
{
    for (int i = 0; i < j->s.batch * j->s.seq; i++) {
        const int at = i % j->s.seq, start = at == 0 || random_word() % (at / 9 % 2 ? 3 : 83) == 0;
        j->first[i] = start ? at : j->first[i - 1];
    }
}

static void prepare(struct job *j, const struct sample *s)
{
    const size_t rows = (size_t)(s->batch * s->seq), width = (size_t)(s->heads * s->dim), all = rows * (size_t)s->heads;
    const size_t sizes[TENSORS] = {rows * 3 * width, rows * width, rows * width, all, all, rows * 3 * width, 3 * width};
    *j = (struct job){.s = *s, .keys = take(rows), .first = take(rows * sizeof(int32_t)),
                      .work = take(rp_colsum_work((long)rows, 3 * (long)width) * sizeof(float))};
    for (int i = 0; i < TENSORS; i++)
        make(&j->t[i], (sizes[i] + (size_t)s->offset) * sizeof(float));
    make(&j->mask, rp_mask_bytes((long)all, s->seq));
    fill(j, QKV, sizes[QKV]);
    fill(j, D_O, sizes[D_O]);
    make_keys(j);
    make_documents(j);
    j->a = (struct rp_attention){.batch = s->batch, .seq = s->seq, .heads = s->heads, .head_dim = s->dim,
                                 .first_head = s->seq % 3, .causal = s->keys == CAUSAL || s->keys == DOCUMENTS,
                                 .first_key = s->keys == DOCUMENTS ? j->first : NULL,
                                 .key_mask = s->keys < CAUSAL || s->keys == EMPTY ? j->keys : NULL,
                                 .scale = 1.0f / __builtin_sqrtf((float)s->dim)};
    j->a.drop = (struct rp_dropout){.seed = 0x9e3779b97f4a7c15u, .step = 2, .site = 7, .first_sample = 3,
                                    .rows_per_sample = s->heads * s->seq,
                                    .threshold = (uint32_t)((double)s->dropout * 4294967296.0),
                                    .scale = (float)(1.0 / (1.0 - (double)s->dropout))};
}

static void finish(struct job *j)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < TENSORS; i++)
            give(j->t[i].side[k]);
        give(j->mask.side[k]);
    }
    give(j->keys);
    give(j->first);
    give(j->work);
}

static void forward(const struct job *j, const struct rp_ops *op, struct rp_dev *dev, int side)
{
    op->attention_forward(dev, floats(j, O, side), floats(j, TOP, side), floats(j, INV, side), decisions(j, side),
                          floats(j, QKV, side), &j->a);
}

static void backward(const struct job *j, const struct rp_ops *op, struct rp_dev *dev, int side)
{
    const struct rp_attention_grad g = {.a = &j->a, .d_o = floats(j, D_O, side), .qkv = floats(j, QKV, side),
                                        .o = floats(j, O, side), .row_max = floats(j, TOP, side),
                                        .row_inv = floats(j, INV, side), .mask = decisions(j, side),
                                        .dqkv = floats(j, DQKV, side), .dbias = floats(j, DBIAS, side),
                                        .work = j->work};
    op->attention_backward(dev, &g);
}

/* Tensors from..to - 1 and the decisions, with what lies around them. */
static int same(struct job *j, const char *what, int rows, int from, int to)
{
    static const char *const names[] = {"qkv", "do", "o", "max", "inv", "dqkv", "dbias"};
    const struct sample *s = &j->s;
    int good = 1;
    for (int i = from; i < to && good; i++) {
        const struct tensor *t = &j->t[i];
        good = CHECK(
            memcmp(t->side[0], t->side[1], t->bytes) == 0,
            "%s of %d rows: %s differs: batch %d seq %d heads %d dim %d, values %d, keys %d, dropout %g, offset %d",
            what, rows, names[i], s->batch, s->seq, s->heads, s->dim, (int)s->values, (int)s->keys, (double)s->dropout,
            s->offset);
    }
    return good && CHECK(memcmp(j->mask.side[0], j->mask.side[1], j->mask.bytes) == 0, "%s: decisions differ", what);
}

static void forget(struct job *j, int from, int to)
{
    for (int i = from; i < to; i++)
        memset(j->t[i].side[1], 0x5a, j->t[i].bytes);
}

static size_t room; /* of shared memory on the played GPU: what needs more is never launched there */

static void open_device(void)
{
    cuda = rp_cuda_of(gpu_here(&shim));
    if (!room) /* device() leaves less */
        room = cuda->gpu.shared_max;
}

/* Bytes of shared memory of a kernel, see rp_cuda_attention_rows(). */
static size_t forward_shared(const struct sample *s, int id)
{
    return id > 10 ? RP_ATT_STREAM_SHARED((size_t)id - 10, (size_t)s->dim)
                   : RP_ATT_FORWARD_SHARED((size_t)id, (size_t)s->seq);
}

static size_t backward_shared(const struct sample *s, int id)
{
    return id < 10 ? RP_ATT_BACKWARD_SHARED((size_t)id) : RP_ATT_GRADIENTS_SHARED((size_t)s->dim);
}

/* The kernel with this number, of whose shared memory the device has `limit` bytes, on few multiprocessors. */
static struct rp_dev *device(int id, size_t limit, unsigned mix)
{
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix / 3 % 2;
    shim->ahead = mix / 2 % 2;
    shim->strict = 1;
    shim->resident = 1 + (int)(mix % 4);
    shim->seed = mix;
    cuda->attention_forced = id;
    cuda->gpu.shared_max = limit;
    cuda->multiprocessors = 1 + (int)(mix / 5 % 3);
    return &cuda->dev;
}

/* A workspace with no byte to spare, until end_workspace(). */
static struct {
    CUdeviceptr data;
    size_t bytes;
} whole;
static void begin_workspace(size_t bytes)
{
    whole.data = cuda->block[0].data;
    whole.bytes = cuda->workspace_bytes;
    cuda->workspace_bytes = bytes;
    cuda->block[0].data = (CUdeviceptr)(uintptr_t)take(bytes + !bytes);
}
static void end_workspace(void)
{
    give((void *)(uintptr_t)cuda->block[0].data); /* NOLINT(performance-no-int-to-ptr) */
    cuda->block[0].data = whole.data;
    cuda->workspace_bytes = whole.bytes;
}

/* One forward kernel, streams with room for `kept` tiles of scores of each block; returns whether it gave what the
 * definition did. */
static int run_forward(struct job *j, int id, int kept, unsigned mix)
{
    struct rp_dev *dev = device(id, forward_shared(&j->s, id), mix);
    const int all = (j->s.seq + RP_ATT_KEYS - 1) / RP_ATT_KEYS;
    struct rp_err e = {0};
    int ids[2], is_kept;
    const unsigned blocks = rp_cuda_attention_slabs(cuda, &j->a, &is_kept);
    kept = id < 10 ? 0 : kept < all ? kept : all;
    begin_workspace((size_t)kept * blocks * (id > 10 ? RP_ATT_TILE_BYTES(id - 10) : 0));
    rp_cuda_attention_rows(cuda, &j->a, &ids[0], &ids[1]);
    CHECK(ids[0] == id, "kernel %d instead of %d", ids[0], id);
    CHECK(rp_cuda_attention_slabs(cuda, &j->a, &is_kept) == blocks && is_kept == kept,
          "%d tiles are kept, there is room for %d", is_kept, kept);
    forget(j, O, DQKV);
    memset(j->mask.side[1], 0x5a, j->mask.bytes);
    forward(j, dev->op, dev, 1);
    const int good = CHECK(dev->backend->sync(dev, &e) == 0, "%s", e.msg) && same(j, "forward", id, QKV, DQKV);
    end_workspace();
    return good;
}

/* The same backward; streams with room for `strips` of 64 keys of one head. */
static int run_backward(struct job *j, int id, size_t strips, unsigned mix)
{
    const struct sample *s = &j->s;
    const size_t limit = backward_shared(s, id),
                 least = RP_ATT_BACKWARD_SHARED((size_t)4); /* which supports() counts with */
    const size_t heads = (size_t)(s->batch * s->heads), all = heads * (((size_t)s->seq + 63) / 64);
    struct rp_dev *dev = device(id, limit > least ? limit : least, mix);
    struct rp_err e = {0};
    int ids[2];
    strips = id < 10 ? 0 : strips < all ? strips : all;
    begin_workspace((heads * (size_t)s->seq * sizeof(float) + 255) / 256 * 256 +
                    strips * rp_cuda_attention_strip(s->seq));
    rp_cuda_attention_rows(cuda, &j->a, &ids[0], &ids[1]);
    CHECK(ids[1] == id, "kernel %d instead of %d", ids[1], id);
    forget(j, DQKV, TENSORS);
    backward(j, dev->op, dev, 1);
    const int good = CHECK(dev->backend->sync(dev, &e) == 0, "%s", e.msg) && same(j, "backward", id, QKV, TENSORS);
    end_workspace();
    return good;
}

/* Streams keep all, some or no tiles: one of them with each sample, all three with LONG=1. */
static int is_turn(int id, int way, unsigned mix)
{
    return id < 10 ? way == 0 : tap_long() || (unsigned)way == mix % 3;
}

/* Returns how many kernels ran. */
static int run(const struct sample *s, unsigned mix)
{
    static const int forwards[] = {8, 4, 2, 18, 14}, backwards[] = {8, 4, 18};
    const size_t few[] = {SIZE_MAX, (size_t)(s->batch * s->heads) + mix % 2, 1};
    struct job j;
    int good = 1, ran = 0;
    prepare(&j, s);
    forward(&j, &rp_reference_ops, NULL, 0);
    if (!s->forward)
        backward(&j, &rp_reference_ops, NULL, 0);
    for (int i = 0; i < COUNT(forwards) && good; i++)
        for (int way = 0; way < 3 && good && forward_shared(s, forwards[i]) <= room; way++)
            if (is_turn(forwards[i], way, mix + (unsigned)i)) {
                good = run_forward(&j, forwards[i], (int[]){INT_MAX, (int)(mix % 3), 0}[way],
                                   mix + (unsigned)(i + way));
                ran++;
            }
    for (int i = s->dim > RP_ATT_DIM; i < COUNT(backwards) && good && !s->forward; i++)
        for (int way = 0; way < 3 && good && backward_shared(s, backwards[i]) <= room; way++)
            if (is_turn(backwards[i], way, mix + (unsigned)i)) {
                good = run_backward(&j, backwards[i], few[way], mix + (unsigned)(1 + i + way));
                ran++;
            }
    finish(&j);
    return ran;
}

/* Subnormal numbers take a processor a hundred times as long, and long sequences show nothing of them that short ones
 * do not. */
static enum values values_of(int seq, unsigned mix)
{
    return (enum values)(mix % (seq > 130 && !tap_long() ? TINY : KINDS));
}

TEST(every_kernel_gives_the_bits_of_the_definition)
{
    static const float dropouts[] = {0.1f, 0.0f, 0.5f};
    static const struct {
        int batch, seq, heads, dim, times;
    } shapes[] = {{3, 1, 2, 64, 3},  {2, 31, 2, 1, 4},   {2, 33, 3, 64, 8},  {1, 128, 2, 64, 4}, {1, 63, 1, 5, 6},
                  {2, 64, 2, 16, 6}, {1, 129, 1, 60, 5}, {1, 200, 1, 64, 3}, {1, 301, 1, 33, 2}, {1, 512, 1, 64, 2},
                  {2, 65, 1, 80, 5}, {1, 70, 2, 130, 3}, {1, 140, 1, 65, 2}, {1, 17, 1, 300, 2}, {1, 768, 1, 65, 1}};
    unsigned mix = 0;
    int cases = 0;
    open_device();
    for (int i = 0; i < COUNT(shapes); i++)
        for (int n = 0; n < (shim->checked ? shapes[i].seq <= 200 : (shapes[i].times + 1) / 2) ||
                        (tap_long() && n < shapes[i].times);
             n++, mix++) {
            if (!shim->checked && !gpu_turn(gpu_here(NULL), mix))
                continue;
            const struct sample s = {shapes[i].batch,
                                     shapes[i].seq,
                                     shapes[i].heads,
                                     shapes[i].dim,
                                     values_of(shapes[i].seq, mix),
                                     (enum keys)(mix * 3 % MASKS),
                                     dropouts[mix / 2 % 3],
                                     mix % 7 == 3,
                                     0};
            cases += run(&s, mix);
        }
    printf("# %d cases\n", cases);
}

/* Keys after a query are masked, and before its document: lengths around the edges of tiles, and all widths of
 * heads. */
TEST(causal_attention_has_the_bits_of_the_definition)
{
    static const struct {
        int seq, dim;
    } shapes[] = {{1, 8},    {15, 64},  {16, 8},   {17, 96}, {31, 72},  {32, 64},  {33, 128},
                  {63, 96},  {64, 64},  {65, 8},   {65, 96}, {66, 256}, {127, 64}, {128, 128},
                  {129, 96}, {191, 72}, {192, 64}, {193, 8}, {257, 64}};
    unsigned mix = 0;
    open_device();
    for (int i = 0; i < COUNT(shapes); i++, mix++) {
        struct sample s = {
            1 + (i % 5 == 2),    shapes[i].seq, 1 + i % 2, shapes[i].dim, values_of(shapes[i].seq, mix), CAUSAL,
            i % 3 ? 0.1f : 0.0f, mix % 7 == 3,  0};
        for (int documents = 0; documents < 2 && (!shim->checked || shapes[i].seq < 70);
             documents++, s.keys = DOCUMENTS)
            if (shim->checked ? documents == i % 2 || tap_long() : gpu_turn(gpu_here(NULL), mix + (unsigned)documents))
                run(&s, mix);
    }
}

/* Tiles of keys before the document of a query, and of queries after that of a key, are passed over. */
TEST(long_documents_have_the_bits_of_the_definition)
{
    static const int dims[] = {64, 96, 8, 128};
    open_device();
    for (int i = 0; i < COUNT(dims); i++) {
        const struct sample s = {1, 330 + 17 * i, 1, dims[i], PLAIN, DOCUMENTS, i % 2 ? 0.1f : 0.0f, 0, 0};
        if (!shim->checked && gpu_turn(gpu_here(NULL), (unsigned)i))
            run(&s, (unsigned)i);
    }
}

/* A block takes the queries of a sample without keys first, then those of another one, with copies that land late: only
 * the end of a tile waits for copies of the former. Backward every sample has a key (see rp_attention). */
TEST(a_sample_without_keys_leaves_the_next_one_alone)
{
    static const struct sample samples[] = {{3, 70, 2, 64, PLAIN, EMPTY, 0.1f, 0, 1},
                                            {3, 33, 2, 33, PLAIN, EMPTY, 0.0f, 1, 1},
                                            {3, 33, 2, 80, PLAIN, EMPTY, 0.0f, 0, 1},
                                            {3, 17, 2, 130, PLAIN, EMPTY, 0.1f, 0, 1}};
    open_device();
    for (int i = 0; i < COUNT(samples); i++)
        run(&samples[i], 0);
}

/* LONG=1: what only other lengths and widths reach. Masks of many keys of which few are attended to, dropout for keys
 * that no query of a tile attends to, and for all widths of streams tiles that are copied in fours and end within a
 * stage. */
TEST(long_sequences_have_the_bits_of_the_definition)
{
    static const struct sample samples[] = {
        {1, 1412, 1, 72, PLAIN, FIRST, 0.1f, 0, 0}, {1, 1412, 1, 128, PLAIN, FIRST, 0.0f, 0, 0},
        {1, 1412, 1, 64, STEEP, FIRST, 0.1f, 0, 0}, {1, 101, 1, 84, PLAIN, HOLES, 0.0f, 0, 0},
        {1, 115, 1, 132, STEEP, HOLES, 0.1f, 0, 0}, {1, 99, 1, 36, PLAIN, SHORT, 0.1f, 0, 0},
        {1, 120, 1, 101, PLAIN, OPEN, 0.1f, 0, 0}, {1, 170, 1, 131, PLAIN, HOLES, 0.0f, 0, 0},
        {1, 3300, 1, 8, PLAIN, DOCUMENTS, 0.1f, 0, 1}, {1, 3300, 1, 72, PLAIN, DOCUMENTS, 0.1f, 0, 1},
        {1, 3300, 1, 100, PLAIN, DOCUMENTS, 0.1f, 0, 1}};
    open_device();
    for (int i = 0; i < COUNT(samples) && tap_long() && !shim->checked; i++)
        run(&samples[i], (unsigned)i);
}

/* The kernels that should be the fastest, on H100, A100, V100 and T4, for heads of 64. */
TEST(the_kernel_fits_the_gpu_and_the_batch)
{
    static const struct {
        const char *gpu;
        size_t shared, l2;
        int multiprocessors, heads, seq, forward, backward;
    } cases[] = {{"H100", 232448, 50 << 20, 132, 384, 128, 8, 8},  {"H100", 232448, 50 << 20, 132, 96, 128, 4, 18},
                 {"H100", 232448, 50 << 20, 132, 96, 512, 18, 18},{"H100", 232448, 50 << 20, 132, 12, 128, 2, 18},
                 {"A100", 166912, 40 << 20, 108, 384, 128, 8, 4},  {"A100", 166912, 40 << 20, 108, 96, 512, 18, 18},
                 {"V100", 98304, 6 << 20, 80, 384, 128, 4, 8},     {"V100", 98304, 6 << 20, 80, 96, 512, 4, 18},
                 {"T4", 65536, 4 << 20, 40, 96, 512, 14, 18},      {"H100", 232448, 50 << 20, 132, 48, 1024, 18, 18},
                 {"A100", 166912, 40 << 20, 108, 48, 2048, 18, 18}, {"H100", 232448, 50 << 20, 132, 60, 8192, 18, 18},
                 {"H100", 232448, 50 << 20, 132, 96, 32768, 18, 8}};
    for (int i = 0; i < COUNT(cases); i++) {
        const int capability = cases[i].gpu[0] == 'H' ? 90 : cases[i].gpu[0] == 'A' ? 80 : 70;
        const struct rp_cuda c = {.gpu = {.shared_max = cases[i].shared, .capability = capability},
                                  .l2 = cases[i].l2,
                                  .workspace_bytes = rp_cuda_attention_workspace(cases[i].seq),
                                  .multiprocessors = cases[i].multiprocessors};
        const struct rp_attention a = {.batch = cases[i].heads / 12, .heads = 12, .seq = cases[i].seq, .head_dim = 64};
        int f, b;
        rp_cuda_attention_rows(&c, &a, &f, &b);
        CHECK(f == cases[i].forward && b == cases[i].backward, "%s, %d heads of %d: forward %d, backward %d",
              cases[i].gpu, cases[i].heads, cases[i].seq, f, b);
    }
}

/* A slab for each block that runs at the same time: two on a multiprocessor, if shared memory has room for them. */
TEST(slabs_take_what_the_workspace_has)
{
    static const struct {
        size_t shared, l2, workspace;
        int heads, seq;
        unsigned blocks;
        int kept;
    } cases[] = {{232448, 50 << 20, 128 << 20, 48, 1024, 264, 16},
                 {232448, 50 << 20, 128 << 20, 48, 2048, 264, 31},
                 {232448, 1, 128 << 20, 48, 2048, 264, 31},
                 {232448, 50 << 20, 128 << 20, 1, 2048, 32, 32},
                 {98304, 50 << 20, 128 << 20, 48, 2048, 132, 32},
                 {98304, 50 << 20, 132 * 16384 * 7, 48, 2048, 132, 7},
                 {98304, 50 << 20, 132 * 16384 * 7 - 1, 48, 2048, 132, 6},
                 {98304, 50 << 20, 132 * 16384 - 1, 48, 2048, 132, 0},
                 {98304, 50 << 20, 0, 48, 2048, 132, 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        const struct rp_cuda c = {.gpu = {.shared_max = cases[i].shared, .capability = 90},
                                  .l2 = cases[i].l2,
                                  .multiprocessors = 132,
                                  .workspace_bytes = cases[i].workspace,
                                  .attention_forced = 18};
        const struct rp_attention a = {
            .batch = 1, .heads = cases[i].heads, .seq = cases[i].seq, .head_dim = 64, .causal = 1};
        int kept;
        const unsigned blocks = rp_cuda_attention_slabs(&c, &a, &kept);
        CHECK(blocks == cases[i].blocks && kept == cases[i].kept, "case %d: %u blocks keep %d tiles", i, blocks, kept);
    }
}

/* Few keys of all heads, or a tile of keys of some: as many as the workspace has room for, in parts of equal size. */
TEST(parts_of_gradients_are_of_equal_size)
{
    static const struct {
        int heads, seq, strips, part_heads, part_keys;
    } cases[] = {{64, 8192, 31, 22, 1}, {64, 8192, 63, 32, 1}, {64, 8192, 64, 64, 1},
                 {64, 8192, 1, 1, 1}, {64, 8192, 0, 0, 0}, {2, 1024, 20, 2, 8},
                 {2, 1024, 1 << 20, 2, 16}, {2, 1024, 22, 2, 8}, {3, 1000, 35, 3, 8}};
    for (int i = 0; i < COUNT(cases); i++) {
        const size_t d = ((size_t)cases[i].heads * (size_t)cases[i].seq * 4 + 255) / 256 * 256;
        const size_t strips = (size_t)cases[i].strips * rp_cuda_attention_strip(cases[i].seq);
        const struct rp_cuda c = {.multiprocessors = 132, .workspace_bytes = d + strips};
        const struct rp_attention a = {.batch = 1, .heads = cases[i].heads, .seq = cases[i].seq, .head_dim = 64};
        int heads;
        const int keys = rp_cuda_attention_part(&c, &a, &heads);
        CHECK(heads == cases[i].part_heads && keys == cases[i].part_keys, "case %d: %d keys of %d heads", i, keys,
              heads);
    }
}

/* Nothing is computed for a batch without samples, and no kernel is launched. */
TEST(a_batch_may_be_empty)
{
    struct rp_err e = {0};
    uint64_t before[RP_CUDA_KERNELS];
    open_device();
    float *x = take(4 * 3 * 64 * sizeof(float)), *bias = take(3 * 64 * sizeof(float));
    uint8_t *mask = take(128);
    const struct rp_attention a = {.batch = 0, .seq = 4, .heads = 1, .head_dim = 64, .scale = 0.125f};
    struct rp_dev *dev = device(0, room, 0);
    memset(bias, 0x5a, 3 * 64 * sizeof(float));
    memcpy(before, cuda->launches, sizeof before);
    dev->op->attention_forward(dev, x, x, x, mask, x, &a);
    const struct rp_attention_grad g = {.a = &a, .d_o = x, .qkv = x, .o = x, .row_max = x, .row_inv = x, .mask = mask,
                                        .dqkv = x, .dbias = bias, .work = x};
    dev->op->attention_backward(dev, &g);
    CHECK(dev->backend->sync(dev, &e) == 0, "%s", e.msg);
    for (int i = 0; i < (int)(3 * 64 * sizeof(float)); i++)
        CHECK(((unsigned char *)bias)[i] == 0x5a, "byte %d is written", i);
    for (int k = 0; k < RP_CUDA_KERNELS; k++)
        CHECK(cuda->launches[k] == before[k], "%s is launched", rp_cuda_kernels[k].name);
    give(x);
    give(bias);
    give(mask);
}

/* The plan of memory has no device: at most a constant, and enough for one tile of keys of one head. */
TEST(the_workspace_is_bounded)
{
    static const int seqs[] = {1, 64, 65, 256, 257, 1000, 8192}, heads[] = {1, 12, 5000};
    for (int i = 0; i < COUNT(seqs) * COUNT(heads); i++) {
        const int seq = seqs[i % COUNT(seqs)], n = heads[i / COUNT(seqs)];
        struct rp_op_use u = {.op = RP_OP_attention_forward, .batch = 1, .seq = seq, .heads = n, .head_dim = 64};
        const size_t most = rp_cuda_attention_workspace(seq), tiles = ((size_t)seq + 63) / 64, all = (size_t)n * tiles;
        const size_t d = ((size_t)n * (size_t)seq * 4 + 255) / 256 * 256, strip = rp_cuda_attention_strip(seq);
        size_t needs = rp_cuda_needs(&strict, &u) - RP_CUDA_SEMAPHORE_BYTES,
               whole_slabs = (all < 384 ? all : 384) * tiles * 16384;
        CHECK(needs == (whole_slabs < most ? whole_slabs : most), "forward, %d heads of %d: %zu bytes", n, seq, needs);
        u.op = RP_OP_attention_backward;
        needs = rp_cuda_needs(&strict, &u) - RP_CUDA_SEMAPHORE_BYTES;
        CHECK(needs >= d + strip && needs <= d + all * strip, "backward, %d heads of %d: %zu bytes", n, seq, needs);
        CHECK(needs <= most || needs == d + strip, "backward, %d heads of %d: %zu bytes", n, seq, needs);
        CHECK(needs == d + all * strip || needs >= most, "backward, %d heads of %d: %zu bytes", n, seq, needs);
    }
}

/* With what the GPUs since V100 give a block: there is a kernel for 8192 tokens and every width of heads, except the
 * widest on a T4. */
TEST(a_kernel_fits_whatever_is_supported)
{
    static const size_t bytes[] = {98304, 65536, 166912, 101376, 232448};
    static const int dims[] = {8, 64, 72, 96, 128, 200, 256}, seqs[] = {1, 512, 2048, 8192};
    for (int i = 0; i < COUNT(bytes) * COUNT(dims) * COUNT(seqs); i++) {
        const int seq = seqs[i % COUNT(seqs)], dim = dims[i / COUNT(seqs) % COUNT(dims)];
        const size_t has = bytes[i / COUNT(seqs) / COUNT(dims)];
        const struct rp_cuda c = {.gpu.shared_max = has, .multiprocessors = 40};
        const struct rp_attention a = {.batch = 1, .seq = seq, .heads = 2, .head_dim = dim, .causal = 1};
        const struct sample s = {.seq = seq, .dim = dim};
        struct rp_op_use u = {
            .op = RP_OP_attention_forward, .batch = 1, .seq = seq, .heads = 2, .head_dim = dim, .causal = 1};
        struct rp_err e = {0};
        int ids[2];
        rp_cuda_attention_rows(&c, &a, &ids[0], &ids[1]);
        if (has == 65536 && dim == 256 && seq > 512) {
            CHECK(rp_cuda_supports(&c.gpu, RP_NUMERICS_fp32_1, &u, &e) < 0 && e.code == RP_UNAVAILABLE && !ids[0],
                  "kernel %d", ids[0]);
            continue;
        }
        CHECK(rp_cuda_supports(&c.gpu, RP_NUMERICS_fp32_1, &u, &e) == 0, "%zu: %s", has, e.msg);
        CHECK(ids[0] && forward_shared(&s, ids[0]) <= has, "kernel %d for %d keys of %d columns", ids[0], seq, dim);
        u.op = RP_OP_attention_backward;
        CHECK(rp_cuda_supports(&c.gpu, RP_NUMERICS_fp32_1, &u, &e) == 0, "%zu: %s", has, e.msg);
        CHECK(ids[1] && backward_shared(&s, ids[1]) <= has, "kernel %d for %d keys of %d columns, backward", ids[1],
              seq, dim);
    }
}

/* By the driver's own figures, and the device is not touched for it. */
TEST(the_device_is_asked_before_it_is_opened)
{
    const struct rp_device_opts o = {0};
    struct rp_op_use u = {.op = RP_OP_attention_forward, .batch = 2, .seq = 512, .heads = 4, .head_dim = 64};
    struct rp_err e = {0};
    size_t workspace = 1;
    open_device(); /* loads the library */
    CHECK(rp_backend_ask(&rp_backend_cuda, &o, &u, 1, &workspace, &e) == 0 && workspace == rp_cuda_needs(&o, &u),
          "%zu bytes, %s", workspace, e.msg);
    u.seq = 8192;
    u.head_dim = 4096;
    CHECK(rp_backend_ask(&rp_backend_cuda, &o, &u, 1, &workspace, &e) < 0 && e.code == RP_UNAVAILABLE, "code %d",
          e.code);
    CHECK(rp_backend_open(&rp_backend_cuda, &o, &u, 1, &e) == NULL && e.code == RP_UNAVAILABLE, "code %d", e.code);
}
