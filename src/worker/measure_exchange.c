#include "worker/measure_exchange.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define REPETITIONS_MIN 2
#define REPETITIONS_MAX 12
#define BUDGET_NS 40000000u   /* of one size and collective, about */
#define TOO_LONG_NS 500000000u /* a larger size is not measured after this */
#define ALIGNED 256

static const size_t sizes[] = {(size_t)64 << 10, (size_t)1 << 20, (size_t)16 << 20};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

struct exchange_probe {
    struct rp_dev *dev;
    struct rp_comm *comm;
    char *in, *out;
    size_t piece; /* from one rank to another */
    struct rp_transfer *t; /* two for each other rank */
    rp_alive_fn alive;
    void *alive_arg;
};

/* ---- what is measured ---- */

/* To every rank `from`, or the piece of `from` that has that rank's number; from every rank its piece of `out`. */
static int exchange_all(struct exchange_probe *p, char *from, int numbered, struct rp_err *err)
{
    const int n = p->comm->size[RP_GROUP_WORLD], own = p->comm->rank[RP_GROUP_WORLD];
    int k = 0;
    for (int i = 1; i < n; i++) {
        const int to = (own + i) % n, peer = (own + n - i) % n;
        p->t[k++] = (struct rp_transfer){to, 1, from + (numbered ? (size_t)to * p->piece : 0), p->piece};
        p->t[k++] = (struct rp_transfer){peer, 0, p->out + (size_t)peer * p->piece, p->piece};
    }
    return rp_comm_exchange_device(p->comm, RP_GROUP_WORLD, p->t, k, err);
}

/* In place. */
static int all_gather(struct exchange_probe *p, struct rp_err *err)
{
    return exchange_all(p, p->out + (size_t)p->comm->rank[RP_GROUP_WORLD] * p->piece, 0, err);
}

static int all_to_all(struct exchange_probe *p, struct rp_err *err)
{
    return exchange_all(p, p->in, 1, err);
}

static const struct {
    const char *name;
    int (*run)(struct exchange_probe *p, struct rp_err *err);
} collectives[] = {{"all_gather", all_gather}, {"all_to_all", all_to_all}};
#define COLLECTIVES ((int)(sizeof collectives / sizeof *collectives))

/* ---- repetitions ---- */

/* The least or the most of what all ranks have. Sizes and repetitions depend on a rank's memory and speed: ranks that
 * did not agree on them would wait for each other for ever. */
static int agree_on_value(struct rp_comm *c, uint64_t *value, int most, struct rp_err *err)
{
    const int n = c->size[RP_GROUP_WORLD];
    RP_FREE uint64_t *all = rp_alloc((size_t)n * sizeof *all);
    if (rp_comm_all_gather(c, RP_GROUP_WORLD, all, value, sizeof *value, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (most ? all[i] > *value : all[i] < *value)
            *value = all[i];
    return 0;
}

/* The ranks begin together: one that comes late would find everything there already. */
static int time_once(struct exchange_probe *p, int collective, uint64_t *ns, struct rp_err *err)
{
    if (p->alive)
        (void)p->alive(p->alive_arg);
    if (rp_comm_barrier(p->comm, RP_GROUP_WORLD, err) < 0)
        return -1;
    const uint64_t start = rp_now_ns();
    if (collectives[collective].run(p, err) < 0)
        return -1;
    *ns = rp_now_ns() - start;
    return 0;
}

/* As many repetitions as the slowest rank has time for. *longest: the first of them, on that rank. */
static json_t *repeat_exchange(struct exchange_probe *p, int collective, uint64_t *longest, struct rp_err *err)
{
    uint64_t ns;
    json_t *all = json_array();
    if (time_once(p, collective, &ns, err) == 0 && time_once(p, collective, longest, err) == 0 &&
        agree_on_value(p->comm, longest, 1, err) == 0) {
        const uint64_t fits = BUDGET_NS / (*longest + 1);
        const int n = fits < REPETITIONS_MIN ? REPETITIONS_MIN : fits > REPETITIONS_MAX ? REPETITIONS_MAX : (int)fits;
        int i = 0;
        for (; i < n && time_once(p, collective, &ns, err) == 0; i++)
            json_array_append_new(all, json_integer((json_int_t)ns));
        if (i == n)
            return all;
    }
    json_decref(all);
    return NULL;
}

static int measure_exchange(json_t *out, struct exchange_probe *p, size_t room, struct rp_err *err)
{
    const size_t n = (size_t)p->comm->size[RP_GROUP_WORLD];
    uint64_t longest = 0;
    for (int s = 0; s < SIZES && longest < TOO_LONG_NS; s++) {
        uint64_t of_size = 0;
        p->piece = (sizes[s] < room ? sizes[s] : room) / n / ALIGNED * ALIGNED;
        if (!p->piece || (s && sizes[s - 1] >= room))
            continue;
        for (int k = 0; k < COLLECTIVES; k++) {
            json_t *all = repeat_exchange(p, k, &longest, err);
            if (!all)
                return -1;
            of_size = longest > of_size ? longest : of_size;
            json_array_append_new(out, json_pack("{s:s, s:I, s:i, s:o}", "collective", collectives[k].name, "bytes",
                                                 (json_int_t)(p->piece * n), "calls", 1, "ns", all));
        }
        longest = of_size;
    }
    return 0;
}

/* ---- blocks ---- */

/* 0: no memory for them, which is not a failure. */
static uint64_t take_blocks(struct exchange_probe *p, size_t room)
{
    struct rp_err no_room;
    const size_t most = sizes[SIZES - 1], bytes = (room < most ? room : most) / ALIGNED * ALIGNED;
    p->in = bytes ? p->dev->backend->block(p->dev, RP_CLASS_SCRATCH, bytes, &no_room) : NULL;
    p->out = p->in ? p->dev->backend->block(p->dev, RP_CLASS_SCRATCH, bytes, &no_room) : NULL;
    return p->out ? bytes : 0;
}

json_t *rp_exchange_ceilings(struct rp_dev *dev, struct rp_comm *c, size_t room, rp_alive_fn alive, void *alive_arg,
                             struct rp_err *err)
{
    const int n = c->size[RP_GROUP_WORLD];
    RP_FREE struct rp_transfer *t = rp_alloc(2 * (size_t)n * sizeof *t);
    struct exchange_probe p = {.dev = dev, .comm = c, .t = t, .alive = alive, .alive_arg = alive_arg};
    const struct rp_comm_count before = c->count;
    json_t *out = json_array();
    *err = (struct rp_err){0};
    uint64_t bytes = dev->backend->release ? take_blocks(&p, room) : 0;
    int failed = agree_on_value(c, &bytes, 0, err) < 0 || (bytes && measure_exchange(out, &p, (size_t)bytes, err) < 0);
    if (dev->backend->release)
        dev->backend->release(dev);
    c->count = before; /* what the run exchanges is counted, not this */
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}
