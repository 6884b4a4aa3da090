#include "worker/measure_ceilings.h"

#include "base/clock.h"

#define REPETITIONS_MIN 2
#define REPETITIONS_MAX 64
#define SEED_FLOATS 65536 /* random ones, repeated: a product of zeros takes less power and time */
#define FEED_BYTES ((size_t)8 << 20)
#define FEED_TIMES 16

struct probe {
    struct rp_dev *dev;
    const struct rp_backend *backend;
    struct rp_ceiling_size size;
    float *a, *b;   /* two blocks of `bytes`; the first is random, and holds both factors */
    size_t bytes;
    rp_alive_fn alive;
    void *alive_arg;
};

/* An accelerator's clock rises for a while, and the time of a launch must not matter. On processors the memory of the
 * process must stay within its plan. */
struct rp_ceiling_size rp_ceiling_size(const struct rp_dev *dev, const struct rp_plan *plan)
{
    struct rp_ceiling_size s = {.times = 4, .copy = (size_t)256 << 20, .gemm_ns = 250000000, .copy_ns = 100000000};
    if (!dev->backend->separate_memory) {
        uint64_t room = plan->total - plan->host - plan->connections - plan->bytes[RP_CLASS_BACKEND];
        s = (struct rp_ceiling_size){.times = 1, .copy = (size_t)64 << 20, .gemm_ns = 100000000, .copy_ns = 40000000};
        s.copy = room / 2 < s.copy ? (size_t)room / 2 : s.copy;
    }
    if (dev->backend->peak_gemm)
        s.gemm = dev->backend->peak_gemm(dev);
    return s;
}

/* ---- what is repeated ---- */

static void products(struct probe *p)
{
    const struct rp_gemm_shape *s = &p->size.gemm;
    const rp_stored *a = (const rp_stored *)(const void *)p->a;
    struct rp_gemm g = {.m = s->rows, .n = s->width, .k = s->depth, .a = a, .lda = s->depth,
                        .b = rp_stored_at(p->dev, a, (long)s->rows * s->depth), .ldb = s->width,
                        .c = (rp_stored *)(void *)p->b, .ldc = s->width};
    for (int i = 0; i < p->size.times; i++)
        p->dev->op->gemm(p->dev, &g);
}

static void run_copies(struct probe *p)
{
    for (int i = 0; i < p->size.times; i++)
        p->backend->copy(p->dev, p->b, p->a, p->bytes);
}

static size_t feed_bytes(const struct probe *p)
{
    return p->bytes < FEED_BYTES ? p->bytes : FEED_BYTES;
}

static void run_uploads(struct probe *p)
{
    p->backend->upload_repeated(p->dev, p->b, feed_bytes(p), FEED_TIMES);
}

static int time_once(struct probe *p, void (*work)(struct probe *), uint64_t *ns, struct rp_err *err)
{
    const struct rp_backend *b = p->backend;
    uint64_t start = rp_now_ns();
    if (b->time_begin && b->time_begin(p->dev, err) < 0)
        return -1;
    work(p);
    if (b->sync(p->dev, err) < 0)
        return -1;
    *ns = rp_now_ns() - start;
    return b->time_end ? b->time_end(p->dev, ns, err) : 0;
}

/* The times of repetitions, for about `budget` ns; NULL: it failed, or a stop was requested. The first one, which
 * touches pages and loads kernels, never counts; after one that was longer than the budget, a device that is slow
 * needs only one more. */
static json_t *repeat_probe(struct probe *p, void (*work)(struct probe *), uint64_t budget, struct rp_err *err)
{
    json_t *all = json_array();
    uint64_t begin = 0, ns = 0;
    int least = REPETITIONS_MIN;
    for (int i = -1; i < REPETITIONS_MAX && (i < least || rp_now_ns() - begin < budget); i++) {
        if ((p->alive && p->alive(p->alive_arg)) || time_once(p, work, &ns, err) < 0) {
            json_decref(all);
            return NULL;
        }
        if (i >= 0) {
            json_array_append_new(all, json_integer((json_int_t)ns));
            continue;
        }
        least = ns > budget ? 1 : least;
        begin = rp_now_ns();
    }
    return all;
}

/* ---- blocks ---- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static int prepare(struct probe *p, struct rp_err *err)
{
    const struct rp_gemm_shape *s = &p->size.gemm;
    size_t m = (size_t)s->rows, n = (size_t)s->width, k = (size_t)s->depth;
    p->bytes = larger(p->size.copy, larger(m * k + k * n, m * n) * sizeof(float)) / 256 * 256;
    p->a = p->backend->block(p->dev, RP_CLASS_SCRATCH, p->bytes, err);
    p->b = p->a ? p->backend->block(p->dev, RP_CLASS_SCRATCH, p->bytes, err) : NULL;
    if (!p->b)
        return -1;
    size_t all = p->bytes / sizeof(float), filled = all < SEED_FLOATS ? all : SEED_FLOATS;
    p->dev->op->init_normal(p->dev, p->a, filled, 1.0f, 1, 0, 1);
    for (size_t more; filled < all; filled += more) {
        more = filled < all - filled ? filled : all - filled;
        p->backend->copy(p->dev, p->a + filled, p->a, more * sizeof(float));
    }
    if (rp_is_mixed(p->dev->numerics)) { /* halves of fp32 numbers have infinities and NaN among them */
        p->dev->op->round_stored(p->dev, (rp_stored *)(void *)p->b, p->a, NULL, m * k + k * n);
        p->backend->copy(p->dev, p->a, p->b, (m * k + k * n) * p->dev->stored_bytes);
    }
    return p->backend->sync(p->dev, err);
}

static json_t *measure_probe(struct probe *p, struct rp_err *err)
{
    const struct rp_ceiling_size *s = &p->size;
    json_t *copy = NULL, *feed = NULL, *gemm = repeat_probe(p, products, s->gemm_ns, err);
    if (gemm)
        copy = repeat_probe(p, run_copies, s->copy_ns, err);
    if (copy && p->backend->upload_repeated)
        feed = repeat_probe(p, run_uploads, s->copy_ns, err);
    if (!copy || (p->backend->upload_repeated && !feed)) {
        json_decref(gemm);
        json_decref(copy);
        return NULL;
    }
    json_t *out = json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:o}, s:{s:I, s:i, s:o}}", "clock",
                            p->backend->time_begin ? "device" : "host", "gemm", "m", s->gemm.rows, "n", s->gemm.width,
                            "k", s->gemm.depth, "calls", s->times, "ns", gemm, "copy", "bytes", (json_int_t)p->bytes,
                            "calls", s->times, "ns", copy);
    if (feed)
        json_object_set_new(
            out, "host_to_device",
            json_pack("{s:I, s:i, s:o}", "bytes", (json_int_t)feed_bytes(p), "calls", FEED_TIMES, "ns", feed));
    return out;
}

json_t *rp_ceilings(struct rp_dev *dev, const struct rp_ceiling_size *s, rp_alive_fn alive, void *alive_arg,
                    struct rp_err *err)
{
    struct probe p = {.dev = dev, .backend = dev->backend, .size = *s, .alive = alive, .alive_arg = alive_arg};
    *err = (struct rp_err){0};
    if (!p.backend->release || !p.backend->copy || !p.backend->peak_gemm)
        return NULL;
    int no_room = prepare(&p, err) < 0 && err->code == RP_UNAVAILABLE;
    json_t *out = err->code == RP_OK ? measure_probe(&p, err) : NULL;
    p.backend->release(dev);
    if (no_room)
        *err = (struct rp_err){0};
    return out;
}
