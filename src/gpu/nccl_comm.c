#include "gpu/nccl_comm.h"

#include "backend/cuda/inner.h"
#include "base/buf.h"
#include "base/clock.h"
#include "gpu/nccl_library.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALL_EVERY_NS 100000000u
#define SPIN_NS 5000000u         /* of waiting, before it sleeps between looks */
#define ROOM ((size_t)16 << 20)  /* of messages from host memory, in each direction */
#define ALIGN ((size_t)256)      /* of a piece in the buffer */
#define PIECE_LEAST ((size_t)64 << 10)
#define PIECE_MOST ((size_t)4 << 20)
#define CLOSE_S 10.0             /* for the end of a communicator without failures */

struct nccl_comm {
    struct rp_comm comm;
    const struct rp_nccl *n;
    const struct rp_driver *d;
    rp_nccl_handle handle;
    CUdevice device;
    CUcontext context;
    CUstream own, stream; /* stream: the one that messages are queued on */
    CUevent done;
    struct rp_cuda *cuda; /* NULL: not attached yet */
    CUdeviceptr room;     /* host memory on its way: pieces, one for each message */
    size_t room_bytes, piece;
    double silence_s;
    uint64_t called_ns;
    struct rp_nccl_id id; /* of rank 0 */
    char uuid[48], name[48];
};

#define TRY(call, what)                                                                                                \
    do {                                                                                                               \
        CUresult r_ = m->d->call;                                                                                      \
        if (r_ != CUDA_SUCCESS)                                                                                        \
            return rp_driver_fail(m->d, r_, what, err);                                                                \
    } while (0)

/* ---- failures and waiting ---- */

static void give_up(struct nccl_comm *m)
{
    if (m->handle)
        m->n->ncclCommAbort(m->handle);
    m->handle = NULL;
}

static int nccl_fail(struct nccl_comm *m, int result, const char *what, struct rp_err *err)
{
    const char *text = m->n->ncclGetErrorString(result), *last = m->n->ncclGetLastError(m->handle);
    /* also what a rank that is gone leaves behind */
    const int peer = result == RP_NCCL_REMOTE || result == RP_NCCL_SYSTEM;
    char line[200]; /* the first of NCCL's last error */
    snprintf(line, sizeof line, "%.*s", (int)strcspn(last ? last : "", "\n"), last ? last : "");
    if (peer)
        m->comm.lost = RP_LOST_SOME;
    (void)rp_fail(err, peer ? RP_UNAVAILABLE : RP_IO, "%s: %s: %s (%d)%s%s; NCCL_DEBUG=WARN shows more",
                  m->comm.transport, what, text ? text : "unknown error", result, *line ? ": " : "", line);
    return -1;
}

/* A moment of waiting that began at `since`. -1: it is over. */
static int wait_more(struct nccl_comm *m, uint64_t since, double limit_s, struct rp_err *err)
{
    const uint64_t now = rp_now_ns();
    if (now - m->called_ns >= CALL_EVERY_NS) {
        m->called_ns = now;
        if (m->comm.waiting && m->comm.waiting(m->comm.waiting_arg, -1))
            return rp_fail(err, RP_INTERRUPTED, "stopped while it waited for other ranks");
    }
    if (limit_s > 0 && (double)(now - since) * 1e-9 > limit_s) {
        m->comm.lost = RP_LOST_SOME;
        return rp_fail(err, RP_UNAVAILABLE,
                       "%s: an exchange did not end within %.0f s (twice run.hang_seconds): is the network between the "
                       "GPUs in order? NCCL_DEBUG=INFO shows what it uses",
                       m->comm.transport, limit_s);
    }
    if (now - since < SPIN_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return 0;
}

/* Until a call of NCCL is complete, whose result is given. */
static int await_call(struct nccl_comm *m, int result, double limit_s, const char *what, struct rp_err *err)
{
    const uint64_t since = rp_now_ns();
    while (result == RP_NCCL_IN_PROGRESS) {
        const int failed = m->n->ncclCommGetAsyncError(m->handle, &result);
        if (failed != RP_NCCL_OK)
            result = failed;
        if (result == RP_NCCL_IN_PROGRESS && wait_more(m, since, limit_s, err) < 0)
            return -1;
    }
    return result == RP_NCCL_OK ? 0 : nccl_fail(m, result, what, err);
}

/* Until the messages that were queued last are complete. */
static int await_messages(struct nccl_comm *m, struct rp_err *err)
{
    const uint64_t since = rp_now_ns();
    CUresult r;
    TRY(cuEventRecord(m->done, m->stream), "cuEventRecord");
    while ((r = m->d->cuEventQuery(m->done)) == CUDA_ERROR_NOT_READY) {
        int result = RP_NCCL_OK;
        const int failed = m->n->ncclCommGetAsyncError(m->handle, &result);
        if (failed != RP_NCCL_OK || (result != RP_NCCL_OK && result != RP_NCCL_IN_PROGRESS))
            return nccl_fail(m, failed != RP_NCCL_OK ? failed : result, "an exchange", err);
        if (wait_more(m, since, m->silence_s, err) < 0)
            return -1;
    }
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(m->d, r, "waiting for an exchange", err);
}

/* ---- exchange ---- */

static int is_failure(int result)
{
    return result != RP_NCCL_OK && result != RP_NCCL_IN_PROGRESS;
}

static int run_messages(struct nccl_comm *m, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    const struct rp_nccl *nccl = m->n;
    int result = nccl->ncclGroupStart();
    if (is_failure(result))
        return nccl_fail(m, result, "ncclGroupStart", err);
    for (int i = 0; i < n && !is_failure(result); i++) {
        const int peer = rp_comm_world_rank(&m->comm, g, t[i].peer);
        if (t[i].bytes && t[i].send)
            result = nccl->ncclSend(t[i].data, t[i].bytes, RP_NCCL_INT8, peer, m->handle, m->stream);
        else if (t[i].bytes)
            result = nccl->ncclRecv(t[i].data, t[i].bytes, RP_NCCL_INT8, peer, m->handle, m->stream);
    }
    const int ended = nccl->ncclGroupEnd();
    if (is_failure(result))
        return nccl_fail(m, result, "queueing messages", err);
    return await_call(m, ended, m->silence_s, "starting an exchange", err) < 0 ? -1 : await_messages(m, err);
}

static int check_usable(struct nccl_comm *m, struct rp_err *err)
{
    if (!m->handle)
        return rp_fail(err, RP_UNAVAILABLE, "%s: an exchange failed before", m->comm.transport);
    if (!m->cuda)
        return 0;
    rp_cuda_flush(m->cuda);
    return rp_cuda_report(m->cuda, err);
}

static int exchange_device(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    struct nccl_comm *m = (struct nccl_comm *)c;
    if (check_usable(m, err) == 0 && run_messages(m, g, t, n, err) == 0)
        return 0;
    give_up(m);
    return -1;
}

static int make_room(struct nccl_comm *m, size_t bytes, struct rp_err *err)
{
    if (bytes <= m->room_bytes)
        return 0;
    if (m->room)
        m->d->cuMemFree(m->room);
    m->room = 0;
    m->room_bytes = 0;
    TRY(cuMemAlloc(&m->room, bytes), "the buffer of the communicator");
    m->room_bytes = bytes;
    return 0;
}

/* Bytes of the buffer for the next piece of a message with `left` bytes to go. */
static size_t room_for(const struct nccl_comm *m, size_t left)
{
    return ((left < m->piece ? left : m->piece) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Bytes [at, at + piece) of every message. Both sides divide a message in the same way, and every rank begins with its
 * first piece. */
static int exchange_pieces(struct nccl_comm *m, enum rp_group g, const struct rp_transfer *t, int n, size_t at,
                           struct rp_transfer *staged, struct rp_err *err)
{
    int k = 0;
    CUdeviceptr place = m->room;
    for (int i = 0; i < n; i++) {
        if (t[i].bytes <= at)
            continue;
        const size_t left = t[i].bytes - at, bytes = left < m->piece ? left : m->piece;
        /* NOLINT(performance-no-int-to-ptr) */
        staged[k++] = (struct rp_transfer){t[i].peer, t[i].send, (void *)(uintptr_t)place, bytes};
        if (t[i].send)
            TRY(cuMemcpyHtoDAsync(place, (const char *)t[i].data + at, bytes, m->stream),
                "copying a message to the GPU");
        place += room_for(m, left);
    }
    if (run_messages(m, g, staged, k, err) < 0)
        return -1;
    for (int i = 0, j = 0; i < n; i++) {
        if (t[i].bytes <= at)
            continue;
        if (!t[i].send)
            TRY(cuMemcpyDtoHAsync((char *)t[i].data + at, (CUdeviceptr)(uintptr_t)staged[j].data, staged[j].bytes,
                                  m->stream),
                "copying a message from the GPU");
        j++;
    }
    TRY(cuStreamSynchronize(m->stream), "waiting for a message");
    return 0;
}

static int exchange_host(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err)
{
    struct nccl_comm *m = (struct nccl_comm *)c;
    RP_FREE struct rp_transfer *staged = rp_alloc((size_t)n * sizeof *staged);
    size_t most = 0, room = 0; /* the first pieces are the largest */
    for (int i = 0; i < n; i++) {
        most = t[i].bytes > most ? t[i].bytes : most;
        room += room_for(m, t[i].bytes);
    }
    int failed = check_usable(m, err) < 0 || make_room(m, room, err) < 0;
    for (size_t at = 0; at < most && !failed; at += m->piece)
        failed = exchange_pieces(m, g, t, n, at, staged, err) < 0;
    if (failed)
        give_up(m);
    return failed ? -1 : 0;
}

/* ---- open and close ---- */

static void finish(struct nccl_comm *m)
{
    struct rp_err ignored;
    m->called_ns = rp_now_ns();
    /* others stop too, wherever they are */
    if (!m->handle || (m->comm.waiting && m->comm.waiting(m->comm.waiting_arg, -1)) ||
        await_call(m, m->n->ncclCommFinalize(m->handle), CLOSE_S, "ncclCommFinalize", &ignored) < 0) {
        give_up(m);
        return;
    }
    m->n->ncclCommDestroy(m->handle);
    m->handle = NULL;
}

static void close_comm(struct rp_comm *c)
{
    struct nccl_comm *m = (struct nccl_comm *)c;
    if (m->n)
        finish(m);
    if (m->stream)
        m->d->cuStreamSynchronize(m->stream);
    if (m->room)
        m->d->cuMemFree(m->room);
    if (m->done)
        m->d->cuEventDestroy(m->done);
    if (m->own)
        m->d->cuStreamDestroy(m->own);
    if (m->context)
        m->d->cuDevicePrimaryCtxRelease(m->device);
    free(m);
}

/* Rank i on GPUs of its host takes GPU i, unless the recipe names one; a process that sees one GPU takes that. */
static int choose_gpu(const struct rp_rank_of *rank, const struct rp_device_opts *o, int share,
                      char device[RP_DEVICE_NUMBER], struct rp_err *err)
{
    const struct rp_driver *d = rp_driver_load(err);
    int index, count = 0;
    const int ranks = rp_world_gpus_here(rank, &index);
    CUresult r = d ? d->cuDeviceGetCount(&count) : CUDA_SUCCESS;
    *device = 0;
    if (!d || r != CUDA_SUCCESS)
        return d ? rp_driver_fail(d, r, "cuDeviceGetCount", err) : -1;
    if (ranks > 1 && o->device && *o->device)
        return rp_fail(
            err, RP_USAGE,
            "run.device '%s': %d ranks on one host take GPUs 0 to %d; choose others with CUDA_VISIBLE_DEVICES",
            o->device, ranks, ranks - 1);
    if (ranks > 1 && count > 1 && count < ranks && !share)
        return rp_fail(
            err, RP_UNAVAILABLE,
            "%d ranks on this host, and CUDA shows %d GPUs here: a rank needs a GPU of its own, or with --set "
            "run.transport=sockets some have one together",
            ranks, count);
    if (ranks > 1)
        snprintf(device, RP_DEVICE_NUMBER, "%d", count > 1 ? index % count : 0);
    return 0;
}

static int prepare_gpu(struct nccl_comm *m, const struct rp_device_opts *o, struct rp_err *err)
{
    CUuuid u;
    int ordinal;
    if (rp_cuda_choose(m->d, o, &m->device, &ordinal, err) < 0)
        return -1;
    TRY(cuDeviceGetUuid(&u, m->device), "cuDeviceGetUuid");
    rp_hex(m->uuid, (const unsigned char *)u.bytes, sizeof u.bytes);
    TRY(cuDevicePrimaryCtxRetain(&m->context, m->device), "making a context on this GPU");
    TRY(cuCtxSetCurrent(m->context), "cuCtxSetCurrent");
    TRY(cuStreamCreate(&m->own, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    TRY(cuEventCreate(&m->done, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    m->stream = m->own;
    return 0;
}

static int prepare_library(struct nccl_comm *m, json_t **about, struct rp_err *err)
{
    char text[32], hex[2 * sizeof m->id.bytes + 1];
    m->n = rp_nccl_load(err);
    if (!m->n)
        return -1;
    snprintf(m->name, sizeof m->name, "NCCL %s", rp_nccl_version_text(text, m->n->version));
    *about = json_pack("{s:i, s:s}", "nccl", m->n->version, "gpu", m->uuid);
    if (m->comm.rank[RP_GROUP_WORLD] > 0)
        return 0;
    const int result = m->n->ncclGetUniqueId(&m->id);
    if (result != RP_NCCL_OK)
        return nccl_fail(m, result, "ncclGetUniqueId", err);
    rp_hex(hex, m->id.bytes, sizeof m->id.bytes);
    json_object_set_new(*about, "id", json_string(hex));
    return 0;
}

static void attach_device(struct rp_comm *c, struct rp_dev *dev)
{
    struct nccl_comm *m = (struct nccl_comm *)c;
    m->cuda = rp_cuda_of(dev);
    m->stream = m->cuda->stream;
}

static void connections(const struct rp_comm *c, struct rp_connections *out)
{
    *out = (struct rp_connections){0};
    RP_FORMAT(out->nccl, "%s", c->transport + strlen("NCCL "));
}

static struct rp_comm *prepare(const struct rp_comm *placed, const struct rp_device_opts *o, json_t **about,
                               struct rp_err *err)
{
    static const struct rp_comm_ops op = {.exchange = exchange_host,
                                          .close = close_comm,
                                          .exchange_device = exchange_device,
                                          .attach = attach_device,
                                          .connections = connections};
    struct nccl_comm *m = rp_alloc(sizeof *m);
    const size_t each = ROOM / (size_t)placed->size[RP_GROUP_WORLD];
    m->comm = *placed;
    m->comm.op = &op;
    m->comm.lost = -1;
    m->comm.transport = m->name;
    m->comm.waits_unknown = 1;
    m->piece = each < PIECE_LEAST ? PIECE_LEAST : each > PIECE_MOST ? PIECE_MOST : each;
    m->d = rp_driver_load(err);
    if (m->d && prepare_gpu(m, o, err) == 0 && prepare_library(m, about, err) == 0)
        return &m->comm;
    json_decref(*about);
    *about = NULL;
    close_comm(&m->comm);
    return NULL;
}

/* What every rank wrote about itself: one version of NCCL, a GPU for each, the id of rank 0. */
static int read_ranks(struct nccl_comm *m, const json_t *peers, struct rp_err *err)
{
    RP_READ(peers_frame, all, peers);
    const int n = m->comm.size[RP_GROUP_WORLD];
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE"); /* an experiment of NCCL 2.30 */
    char a[32], b[32];
    for (int i = 0; i < n; i++) {
        const struct rp_listen_frame *one = i < all.ranks_n ? &all.ranks[i] : NULL;
        if (!one || one->nccl == RP_NO_INTEGER || !one->gpu)
            return rp_fail(err, RP_MALFORMED, "the list of ranks lacks the GPU of rank %d", i);
        if (one->nccl != all.ranks[0].nccl)
            return rp_fail(err, RP_UNAVAILABLE,
                           "rank %d has NCCL %s, rank 0 has NCCL %s: all ranks need the same version, so use the same "
                           "container image",
                           i, rp_nccl_version_text(a, (int)one->nccl), rp_nccl_version_text(b, (int)all.ranks[0].nccl));
        for (int k = 0; k < i && !(shared && strcmp(shared, "1") == 0); k++)
            if (strcmp(one->gpu, all.ranks[k].gpu) == 0)
                return rp_fail(err, RP_UNAVAILABLE,
                               "ranks %d and %d have the same GPU: with NCCL a rank needs a GPU of its own; --set "
                               "run.transport=sockets lets ranks share one",
                               k, i);
    }
    const char *id = n > 0 ? all.ranks[0].id : NULL;
    if (!id || rp_unhex(m->id.bytes, sizeof m->id.bytes, id) < 0)
        return rp_fail(err, RP_MALFORMED, "the list of ranks lacks the id of NCCL's communicator");
    return 0;
}

/* A few bytes between any two ranks: NCCL connects them at their first message, and reserves memory for that. */
static int exchange_with_all(struct nccl_comm *m, struct rp_err *err)
{
    const int n = m->comm.size[RP_GROUP_WORLD], own = m->comm.rank[RP_GROUP_WORLD];
    RP_FREE int *all = rp_alloc((size_t)n * sizeof *all);
    all[own] = own;
    if (rp_comm_all_gather(&m->comm, RP_GROUP_WORLD, all, &all[own], sizeof *all, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (all[i] != i)
            return rp_fail(err, RP_MISMATCH, "%s: rank %d answered as rank %d", m->comm.transport, i, all[i]);
    return 0;
}

static int connect_ranks(struct rp_comm *c, const struct rp_world_opts *o, struct rp_err *err)
{
    struct nccl_comm *m = (struct nccl_comm *)c;
    const int n = c->size[RP_GROUP_WORLD];
    struct rp_nccl_config config = RP_NCCL_CONFIG;
    c->waiting = o->waiting;
    c->waiting_arg = o->waiting_arg;
    m->silence_s = 2 * o->silence_s; /* the parent, which sees who is silent, is first */
    if (read_ranks(m, o->peers, err) < 0 || make_room(m, 2 * (size_t)n * m->piece, err) < 0)
        return -1;
    const int result = m->n->ncclCommInitRankConfig(&m->handle, n, m->id, c->rank[RP_GROUP_WORLD], &config);
    if (await_call(m, result, m->silence_s, "connecting the ranks", err) < 0) {
        give_up(m);
        return -1;
    }
    if (exchange_with_all(m, err) < 0)
        return -1;
    c->count = (struct rp_comm_count){0};
    return 0;
}

const struct rp_device_ranks rp_nccl_ranks = {choose_gpu, prepare, connect_ranks};
