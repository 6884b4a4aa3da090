/* A libnccl.so.2 for tests: communicators that do not block, grouped Send and Recv between processes of this machine,
 * in the order of the streams of the tests' driver. The bytes go through sockets that the unique id names. It is strict
 * where NCCL's documentation is: no call before the one under way has settled, messages reach the stream when the call
 * has settled and not before, and a communicator that was not finalized is aborted. As with NCCL, a rank of this
 * machine that dies is noticed by nobody.
 *
 *   PLAY_NCCL_VERSION=N[,N...]    of the process on GPU 0, 1, ... (22005); the last one is for all that follow
 *   PLAY_NCCL_POLLS=N             looks before a call settles (2)
 *   PLAY_NCCL_DELAY_MS=N          that the messages of a group take at least (0)
 *   PLAY_NCCL_FAULT=RANK:N:WHAT   in the N-th group of messages of that rank, from 1; 0: when it connects
 *       die, stop   the process ends without a word; it is stopped
 *       hang        the messages never move
 *       call        ncclGroupEnd or ncclCommInitRankConfig fails: ncclInternalError
 *       system      the communicator fails later: ncclSystemError
 *       remote      the same: ncclRemoteError
 *       size        the sender states other sizes: the receiver fails with ncclInvalidUsage
 *       lost        what arrives is thrown away: the memory keeps what it had
 *       swap        the longest message and the longest from another peer, or from the same if there is one, lie at
 *                   each other's place, as far as both reach
 *   PLAY_NCCL_LOG=FILE            a line for each group: RANK GROUP MESSAGES
 *   PLAY_NCCL_NOTICE=1            the end of another process makes communicators fail: ncclRemoteError */
#include "tests/shim/driver.h"

#include "gpu/nccl_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RANKS 64
#define MARK "played NCCL "

struct message {
    struct ncclComm *comm;
    int peer, send;
    unsigned char *data;
    uint64_t bytes, at, head; /* head: bytes of the size that passed */
    uint64_t size;            /* as the other side has it */
    struct message *next;
};
/* The messages between ncclGroupStart and ncclGroupEnd. */
struct group {
    struct ncclComm *comm;
    CUstream stream;
    struct message *first, **last;
    unsigned char *swapped[2]; /* what changes places at the end */
    uint64_t swapped_bytes;
    int hangs;
    double not_before;
};
struct ncclComm {
    int rank, ranks, listener, fd[RANKS];
    int polls;      /* looks until the call under way has settled */
    int connecting, aborted, finalized;
    int error, unfinished; /* unfinished: groups */
    long groups;
    char name[80], last_error[128];
    struct message *out[RANKS], *in[RANKS];
    struct group *launch; /* when the call has settled */
};

static int depth;
static struct group *open_group;

/* ---- settings ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static void *of_driver(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver ? dlsym(driver, name) : NULL;
}

static int fault(const struct ncclComm *c, long group, const char *what)
{
    long rank, number;
    char text[16];
    const char *is = getenv("PLAY_NCCL_FAULT");
    return is && sscanf(is, "%ld:%ld:%15s", &rank, &number, text) == 3 && rank == c->rank && number == group &&
           strcmp(text, what) == 0;
}

static int fail(struct ncclComm *c, int error, const char *why)
{
    c->error = error;
    snprintf(c->last_error, sizeof c->last_error, "%s\n", why);
    return error;
}

/* Faults that are the same wherever they happen. */
static int meet_fault(struct ncclComm *c, long group)
{
    if (fault(c, group, "die"))
        raise(SIGKILL);
    if (fault(c, group, "stop"))
        raise(SIGSTOP);
    if (fault(c, group, "system"))
        fail(c, RP_NCCL_SYSTEM, "socketConnect: Connection refused");
    if (fault(c, group, "remote"))
        fail(c, RP_NCCL_REMOTE, "socketProgress: Connection closed by remote peer");
    return fault(c, group, "call") ? fail(c, RP_NCCL_INTERNAL, "asked for by the test") : RP_NCCL_OK;
}

/* ---- connections ---- */

/* A name without a file. */
static struct sockaddr_un place_of(const struct ncclComm *c, int rank)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s/%d", c->name, rank);
    return a;
}

static void connect_lower(struct ncclComm *c)
{
    const int32_t own = c->rank;
    for (int i = 0; i < c->rank; i++) {
        const struct sockaddr_un a = place_of(c, i);
        const int fd = c->fd[i] < 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0 &&
            send(fd, &own, sizeof own, MSG_NOSIGNAL) == sizeof own)
            c->fd[i] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

static void accept_higher(struct ncclComm *c)
{
    int fd;
    while ((fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int32_t rank = -1;
        if (recv(fd, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank <= c->rank || rank >= c->ranks)
            abort();
        c->fd[rank] = fd;
    }
}

static void go_on_connecting(struct ncclComm *c)
{
    connect_lower(c);
    accept_higher(c);
    for (int i = 0; i < c->ranks; i++)
        if (i != c->rank && c->fd[i] < 0)
            return;
    close(c->listener);
    c->connecting = 0;
}

/* ---- messages ---- */

/* Bytes of the size, then of the data, as many as go now. 1: all of it. */
static int move(struct ncclComm *c, struct message *m)
{
    while (m->head < sizeof m->size || m->at < m->bytes) {
        const int head = m->head < sizeof m->size;
        unsigned char *p = head ? (unsigned char *)&m->size + m->head : m->data + m->at;
        const size_t left = head ? sizeof m->size - m->head : m->bytes - m->at;
        const ssize_t n = m->send ? send(c->fd[m->peer], p, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : recv(c->fd[m->peer], p, left, MSG_DONTWAIT);
        if (n <= 0) {
            if ((n == 0 || (errno != EAGAIN && errno != EINTR)) && setting("PLAY_NCCL_NOTICE", 0))
                fail(c, RP_NCCL_REMOTE, "socketProgress: Connection closed by remote peer");
            return 0;
        }
        *(head ? &m->head : &m->at) += (uint64_t)n;
        if (!m->send && m->head == sizeof m->size && m->size != m->bytes) {
            fail(c, RP_NCCL_USAGE, "a message has another size than expected");
            return 0;
        }
    }
    return 1;
}

static void progress(struct ncclComm *c, struct message **queue)
{
    while (*queue && !c->error && move(c, *queue)) {
        struct message *m = *queue;
        *queue = m->next;
        free(m);
    }
}

static void append(struct message **queue, struct message *m)
{
    while (*queue)
        queue = &(*queue)->next;
    m->next = NULL;
    *queue = m;
}

static void lose_messages(struct group *g)
{
    for (struct message *m = g->first; m; m = m->next)
        if (!m->send && !(m->data = malloc(m->bytes + 1))) /* for good: it is a test */
            abort();
}

static void mark_swapped(struct group *g)
{
    const struct message *first = NULL, *second = NULL;
    for (const struct message *m = g->first; m; m = m->next)
        if (!m->send && (!first || m->bytes > first->bytes))
            first = m;
    for (const struct message *m = g->first; m; m = m->next) {
        const int other = first && m->peer != first->peer, had = second && second->peer != first->peer;
        if (!m->send && m != first && (!second || other > had || (other == had && m->bytes > second->bytes)))
            second = m;
    }
    if (!second)
        return;
    g->swapped[0] = first->data;
    g->swapped[1] = second->data;
    g->swapped_bytes = second->bytes < first->bytes ? second->bytes : first->bytes;
}

static void swap_marked(struct group *g)
{
    for (uint64_t i = 0; i < g->swapped_bytes; i++) {
        const unsigned char x = g->swapped[0][i];
        g->swapped[0][i] = g->swapped[1][i];
        g->swapped[1][i] = x;
    }
}

static void log_group(const struct ncclComm *c, const struct group *g)
{
    const char *path = getenv("PLAY_NCCL_LOG");
    FILE *f = path && *path ? fopen(path, "a") : NULL;
    int n = 0;
    for (const struct message *m = g->first; m; m = m->next)
        n++;
    if (f && (fprintf(f, "%d %ld %d\n", c->rank, c->groups, n) < 0 || fclose(f) != 0))
        abort();
}

/* On the stream: 1 when all messages of the group have passed. */
static int run_group(void *data)
{
    struct group *g = data;
    struct ncclComm *c = g->comm;
    if (c->aborted)
        return 1;
    if (g->hangs || now() < g->not_before || c->error)
        return 0;
    while (g->first) {
        struct message *m = g->first;
        g->first = m->next;
        append(m->send ? &c->out[m->peer] : &c->in[m->peer], m);
    }
    int left = 0;
    for (int i = 0; i < c->ranks; i++) {
        progress(c, &c->out[i]);
        progress(c, &c->in[i]);
        left += c->out[i] || c->in[i];
    }
    if (left)
        return 0;
    swap_marked(g);
    c->unfinished--;
    free(g);
    return 1;
}

/* ---- the interface ---- */

#define API(type, name, args)                                                                                          \
    EXPORT type name args;                                                                                             \
    EXPORT type name args

API(int, ncclGetVersion, (int *version))
{
    const char *text = getenv("PLAY_NCCL_VERSION");
    int (*device)(void) = (int (*)(void))of_driver("shim_current_device");
    int at = device ? device() : 0;
    *version = 22005;
    for (char *end; text && *text; text = *end ? end + 1 : end) {
        *version = (int)strtol(text, &end, 10);
        if (at-- <= 0)
            break;
    }
    return RP_NCCL_OK;
}

API(const char *, ncclGetErrorString, (int result))
{
    static const char *const words[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return words[result & 7];
}

API(const char *, ncclGetLastError, (rp_nccl_handle c))
{
    return c ? c->last_error : "";
}

API(int, ncclGetUniqueId, (struct rp_nccl_id * id))
{
    memset(id->bytes, 0, sizeof id->bytes);
    snprintf((char *)id->bytes, sizeof id->bytes, MARK "%ld %.9f", (long)getpid(), now());
    return RP_NCCL_OK;
}

API(int, ncclCommInitRankConfig,
    (rp_nccl_handle * out, int ranks, struct rp_nccl_id id, int rank, struct rp_nccl_config *config))
{
    struct ncclComm *c = calloc(1, sizeof *c);
    *out = c;
    if (!c || ranks > RANKS || memcmp(id.bytes, MARK, strlen(MARK)) != 0 || config->size != 24 ||
        config->magic != 0xcafebeef || config->version < 21400 || config->blocking)
        return RP_NCCL_ARGUMENT;
    *c = (struct ncclComm){.rank = rank, .ranks = ranks, .connecting = 1, .polls = (int)setting("PLAY_NCCL_POLLS", 2)};
    snprintf(c->name, sizeof c->name, "%.70s", (const char *)id.bytes + strlen(MARK));
    for (int i = 0; i < ranks; i++)
        c->fd[i] = -1;
    if (meet_fault(c, 0) != RP_NCCL_OK)
        return c->error;
    const struct sockaddr_un a = place_of(c, rank);
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->listener < 0 || bind(c->listener, (const struct sockaddr *)&a, sizeof a) < 0 ||
        listen(c->listener, RANKS) < 0)
        return fail(c, RP_NCCL_SYSTEM, "bind");
    return RP_NCCL_IN_PROGRESS;
}

static int is_settled(const struct ncclComm *c)
{
    return !c->connecting && !c->launch && c->polls <= 0;
}

static void launch(struct ncclComm *c)
{
    CUresult (*call)(CUstream, int (*)(void *), void *) =
        (CUresult(*)(CUstream, int (*)(void *), void *))of_driver("shim_call");
    struct group *g = c->launch;
    c->launch = NULL;
    if (!call || call(g->stream, run_group, g) != CUDA_SUCCESS)
        fail(c, RP_NCCL_CUDA, "the stream refuses the messages");
}

API(int, ncclCommGetAsyncError, (rp_nccl_handle c, int *result))
{
    if (c->polls > 0)
        c->polls--;
    else if (c->connecting && !fault(c, 0, "hang") && !c->error)
        go_on_connecting(c);
    else if (c->launch)
        launch(c);
    *result = c->error ? c->error : is_settled(c) ? RP_NCCL_OK : RP_NCCL_IN_PROGRESS;
    return RP_NCCL_OK;
}

API(int, ncclGroupStart, (void))
{
    depth++;
    return RP_NCCL_OK;
}

static int add(rp_nccl_handle c, const void *data, size_t count, int type, int peer, int send, CUstream stream)
{
    if (!is_settled(c) || c->error || !depth || type != RP_NCCL_INT8 || peer < 0 || peer >= c->ranks ||
        peer == c->rank || c->finalized)
        return fail(c, RP_NCCL_USAGE, "a message at the wrong time, or to a wrong rank");
    if (!open_group) {
        open_group = calloc(1, sizeof *open_group);
        if (!open_group)
            abort();
        *open_group = (struct group){.comm = c, .stream = stream, .last = &open_group->first};
    }
    struct message *m = calloc(1, sizeof *m);
    if (!m || open_group->comm != c || open_group->stream != stream)
        abort();
    *m = (struct message){
        .comm = c, .peer = peer, .send = send, .data = (unsigned char *)(uintptr_t)data, .bytes = count, .size = count};
    *open_group->last = m;
    open_group->last = &m->next;
    return RP_NCCL_OK;
}

API(int, ncclSend, (const void *data, size_t count, int type, int peer, rp_nccl_handle c, CUstream stream))
{
    return add(c, data, count, type, peer, 1, stream);
}

API(int, ncclRecv, (void *data, size_t count, int type, int peer, rp_nccl_handle c, CUstream stream))
{
    return add(c, data, count, type, peer, 0, stream);
}

API(int, ncclGroupEnd, (void))
{
    struct group *g = open_group;
    if (--depth || !g)
        return RP_NCCL_OK;
    struct ncclComm *c = g->comm;
    open_group = NULL;
    c->groups++;
    if (meet_fault(c, c->groups) != RP_NCCL_OK)
        return c->error;
    g->hangs = fault(c, c->groups, "hang");
    g->not_before = now() + (double)setting("PLAY_NCCL_DELAY_MS", 0) * 1e-3;
    for (struct message *m = g->first; m && fault(c, c->groups, "size"); m = m->next)
        m->size += m->send ? 4 : 0;
    if (fault(c, c->groups, "lost"))
        lose_messages(g);
    if (fault(c, c->groups, "swap"))
        mark_swapped(g);
    log_group(c, g);
    c->unfinished++;
    c->launch = g;
    c->polls = (int)setting("PLAY_NCCL_POLLS", 2);
    if (c->polls > 0)
        return RP_NCCL_IN_PROGRESS;
    launch(c);
    return c->error;
}

API(int, ncclCommFinalize, (rp_nccl_handle c))
{
    if (!is_settled(c) || c->error || c->unfinished || c->finalized)
        return fail(c, RP_NCCL_USAGE, "finalized at the wrong time");
    c->finalized = 1;
    c->polls = (int)setting("PLAY_NCCL_POLLS", 2);
    return c->polls > 0 ? RP_NCCL_IN_PROGRESS : RP_NCCL_OK;
}

/* What is queued on a stream may still look at it: the memory stays. */
static void end(struct ncclComm *c)
{
    if (c->connecting)
        close(c->listener);
    for (int i = 0; i < c->ranks; i++)
        if (c->fd[i] >= 0)
            close(c->fd[i]);
    c->aborted = 1;
}

API(int, ncclCommDestroy, (rp_nccl_handle c))
{
    if (!c->finalized || c->aborted || c->polls > 0)
        return RP_NCCL_USAGE;
    end(c);
    return RP_NCCL_OK;
}

API(int, ncclCommAbort, (rp_nccl_handle c))
{
    end(c);
    return RP_NCCL_OK;
}
