/* One of several ranks: its place, its device, and how it is connected to the others. */
#include "worker/loop.h"

#include "base/json.h"
#include "worker/worker.h"

#include <unistd.h>

/* Waits for where the others are. */
static int read_peers(struct rp_loop *l, json_t **peers, struct rp_err *err)
{
    enum rp_frame type;
    int got;
    while ((got = rp_frame_decode(&l->in, &type, peers, err)) == 0 || (got > 0 && type == RP_FRAME_COUNT)) {
        char bytes[65536];
        json_decref(*peers);
        ssize_t n = RP_RETRY(read(l->fd, bytes, sizeof bytes));
        if (n <= 0) {
            l->stop = 1;
            return rp_fail(err, RP_INTERRUPTED, "the parent closed before all ranks were there");
        }
        rp_buf_add(&l->in, bytes, (size_t)n);
    }
    if (got < 0 || type == RP_FRAME_PEERS)
        return got < 0 ? -1 : 0;
    json_decref(*peers);
    *peers = NULL;
    l->stop = type == RP_FRAME_STOP;
    return rp_fail(err, l->stop ? RP_INTERRUPTED : RP_MALFORMED, "expected the list of ranks");
}

/* peers: body of the PEERS frame */
static struct rp_world_opts world_opts(struct rp_loop *l, const json_t *peers)
{
    return (struct rp_world_opts){.rank = l->job.rank, .listener = -1, .peers = peers, .route = l->placed.route,
                                  .silence_s = (double)l->job.recipe->run_hang_seconds, .waiting = rp_loop_waiting,
                                  .waiting_arg = l, .lost = &l->lost};
}

struct rp_device_opts rp_loop_device_opts(const struct rp_loop *l)
{
    struct rp_device_opts o = rp_job_device(l->job.recipe);
    if (*l->device_number)
        o.device = l->device_number;
    return o;
}

static int connect_devices(struct rp_loop *l, struct rp_err *err)
{
    RP_JSON *peers = NULL;
    json_t *about = NULL;
    const struct rp_device_opts o = rp_loop_device_opts(l);
    struct rp_comm *c = l->device_ranks->prepare(&l->placed, &o, &about, err);
    if (!c)
        return -1;
    l->comm = c;
    rp_loop_send(l, RP_FRAME_LISTEN, about);
    if (read_peers(l, &peers, err) < 0)
        return -1;
    const struct rp_world_opts world = world_opts(l, peers);
    return l->device_ranks->connect(c, &world, err);
}

/* Ranks that divide tensors or layers exchange stored tensors, whose numbers have 16 bits in mixed precision on GPUs
 * and 32 on processors. */
static int check_storage(const struct rp_rank_of *rank, const struct rp_recipe *r, struct rp_err *err)
{
    int gpus = 0;
    for (int i = 0; i < rp_degrees_world(rank->degrees); i++)
        gpus += rank->gpu[i];
    if (!rp_is_mixed(rp_recipe_numerics(r)) || gpus == 0 || gpus == rp_degrees_world(rank->degrees) ||
        rank->degrees.tensor * rank->degrees.pipeline == 1)
        return 0;
    return rp_fail(err, RP_USAGE,
                   "in mixed precision, ranks on GPUs and on processors can divide micro-batches alone, not tensors or "
                   "layers: take --layout %dx1x1, or GPUs for all",
                   rp_degrees_world(rank->degrees));
}

int rp_loop_connect(struct rp_loop *l, struct rp_err *err)
{
    const struct rp_rank_of *rank = l->job.rank;
    RP_JSON *peers = NULL;
    int port, listener;
    if (!rank)
        return 0;
    if (check_storage(rank, l->job.recipe, err) < 0)
        return -1;
    rp_world_place(&l->placed, rank, l->job.recipe);
    rp_world_share_cpus(rp_world_cpu_sharers(rank));
    if (l->job.backend->separate_memory) {
        const struct rp_device_opts o = rp_loop_device_opts(l);
        RP_BUG_IF(!l->device_ranks);
        if (l->device_ranks->choose(rank, &o, l->placed.route == RP_ROUTE_STAGED, l->device_number, err) < 0)
            return -1;
        if (l->placed.route == RP_ROUTE_DEVICE)
            return connect_devices(l, err);
    }
    listener = rp_world_listen(rank, &port, err);
    if (listener < 0)
        return -1;
    rp_loop_send(l, RP_FRAME_LISTEN, json_pack("{s:i}", "port", port));
    if (read_peers(l, &peers, err) < 0) {
        close(listener);
        return -1;
    }
    struct rp_world_opts o = world_opts(l, peers);
    o.listener = listener;
    struct rp_comm *c = rp_world_open(&o, err);
    if (!c)
        return -1;
    l->comm = c;
    return 0;
}
