#include "worker/group.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "worker/worker.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LOOK_NS 1000000000u /* how often a silent worker is looked at */

struct member {
    struct rp_process worker;
    uint64_t alive_ns; /* time of its last message */
    uint64_t look_ns;
    int waiting;  /* for this rank, says its last message; -1: for none */
    int port;     /* where it listens; 0: not yet known */
    int finished; /* has sent DONE */
    int failed;
    int gone;     /* its process was reaped */
    int lost;     /* the rank that made it fail, -1: itself */
    uint64_t failed_ns;
    struct rp_err err;
};

struct rp_group_of_workers {
    int n, next; /* next: to be read, so that no rank is starved */
    int connected; /* PEERS was sent */
    struct member *m;
};

static void mark_failed(struct rp_group_of_workers *g, int rank, const struct rp_err *err, int lost)
{
    struct member *m = &g->m[rank];
    if (m->failed)
        return;
    m->failed = 1;
    m->failed_ns = rp_now_ns();
    m->lost = lost >= 0 && lost < g->n && lost != rank ? lost : -1;
    m->err = *err;
}

static int make_rank(struct rp_rank_of *r, struct rp_degrees degrees, struct rp_err *err)
{
    unsigned char id[8];
    const int world = rp_degrees_world(degrees);
    *r = (struct rp_rank_of){.degrees = degrees, .address = "127.0.0.1", .host = rp_alloc((size_t)world * sizeof *r->host)};
    if (getrandom(r->key, sizeof r->key, 0) != sizeof r->key || getrandom(id, sizeof id, 0) != sizeof id)
        return rp_fail(err, RP_UNAVAILABLE, "no random numbers for the key of the ranks");
    rp_hex(r->id, id, sizeof id);
    return 0;
}

struct rp_group_of_workers *rp_workers_start(const struct rp_job *job, struct rp_degrees degrees, struct rp_err *err)
{
    struct rp_group_of_workers *g = rp_alloc(sizeof *g);
    struct rp_rank_of rank = {0};
    struct rp_job one = *job;
    int failed = 0, n = rp_degrees_world(degrees);
    g->m = rp_alloc((size_t)n * sizeof *g->m);
    if (n > 1)
        failed = make_rank(&rank, degrees, err) < 0;
    for (int i = 0; i < n && !failed; i++) {
        rank.rank = i;
        one.rank = n > 1 ? &rank : NULL;
        g->m[i] = (struct member){.waiting = -1, .lost = -1, .alive_ns = rp_now_ns()};
        failed = rp_job_start(&g->m[i].worker, &one, err) < 0;
        g->n += !failed;
    }
    free(rank.host);
    explicit_bzero(rank.key, sizeof rank.key);
    if (!failed)
        return g;
    rp_workers_end(g);
    return NULL;
}

/* Once the port of every rank is known, each of them gets the list. */
static void connect_all(struct rp_group_of_workers *g)
{
    struct rp_err err;
    RP_JSON *peers = json_array();
    for (int i = 0; i < g->n; i++) {
        if (!g->m[i].port)
            return;
        json_array_append_new(peers, json_pack("[s, i]", "127.0.0.1", g->m[i].port));
    }
    RP_JSON *body = json_pack("{s:O}", "peers", peers);
    g->connected = 1;
    for (int i = 0; i < g->n; i++)
        if (rp_frame_write(g->m[i].worker.fd, RP_FRAME_PEERS, body, &err) < 0)
            mark_failed(g, i, &err, -1);
}

/* What concerns the group itself. */
static void take_frame(struct rp_group_of_workers *g, int rank, enum rp_frame type, const json_t *body)
{
    struct member *m = &g->m[rank];
    struct rp_err err;
    if (type != RP_FRAME_TELEMETRY) { /* sent even if training hangs */
        const json_t *waiting = json_object_get(body, "waiting");
        m->alive_ns = rp_now_ns();
        m->waiting = type == RP_FRAME_ALIVE && json_is_integer(waiting) ? (int)json_integer_value(waiting) : -1;
    }
    if (type == RP_FRAME_LISTEN)
        m->port = (int)json_integer_value(json_object_get(body, "port"));
    if (type == RP_FRAME_LISTEN && !g->connected)
        connect_all(g);
    m->finished |= type == RP_FRAME_DONE;
    if (type == RP_FRAME_FAILED) {
        const json_t *lost = json_object_get(body, "lost");
        (void)rp_frame_failure(body, &err);
        mark_failed(g, rank, &err, json_is_integer(lost) ? (int)json_integer_value(lost) : -1);
    }
}

static int is_over(const struct member *m)
{
    return m->finished || m->failed || m->gone;
}

/* One frame of a rank that may have one. */
static int read_member(struct rp_group_of_workers *g, int rank, int timeout_ms, enum rp_frame *type, json_t **body)
{
    struct member *m = &g->m[rank];
    struct rp_err err;
    int got = rp_process_next(&m->worker, timeout_ms, type, body, &err);
    if (got > 0)
        take_frame(g, rank, *type, *body);
    if (got >= 0)
        return got;
    m->gone = 1;
    mark_failed(g, rank, &err, -1);
    return 0;
}

int rp_workers_next(struct rp_group_of_workers *g, int timeout_ms, int *rank, enum rp_frame *type, json_t **body)
{
    RP_FREE struct pollfd *p = rp_alloc((size_t)g->n * sizeof *p);
    uint64_t now = rp_now_ns();
    *body = NULL;
    if (g->n == 1) {
        *rank = 0;
        return is_over(&g->m[0]) ? 0 : read_member(g, 0, timeout_ms, type, body);
    }
    for (int i = 0; i < g->n; i++) {
        const int at = (g->next + i) % g->n;
        if (!is_over(&g->m[at]) && g->m[at].worker.in.size && read_member(g, at, 0, type, body) > 0) {
            *rank = at; /* a frame that had arrived with another one */
            g->next = at + 1;
            return 1;
        }
        p[i] = (struct pollfd){.fd = is_over(&g->m[i]) ? -1 : g->m[i].worker.fd, .events = POLLIN};
    }
    if (poll(p, (nfds_t)g->n, timeout_ms) < 0)
        return 0;
    for (int i = 0; i < g->n; i++) {
        const int at = (g->next + i) % g->n;
        struct member *m = &g->m[at];
        if (is_over(m) || (!p[at].revents && now - m->look_ns < LOOK_NS))
            continue;
        m->look_ns = now;
        if (read_member(g, at, 1, type, body) > 0) {
            *rank = at;
            g->next = at + 1;
            return 1;
        }
    }
    return 0;
}

int rp_workers_finished(const struct rp_group_of_workers *g)
{
    int over = 0, done = 0;
    for (int i = 0; i < g->n; i++) {
        over += is_over(&g->m[i]);
        done += g->m[i].finished;
    }
    return done == g->n || over == g->n;
}

int rp_workers_failed(const struct rp_group_of_workers *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->m[i].failed && !g->m[i].finished)
            return 1;
    return 0;
}

void rp_workers_reason(const struct rp_group_of_workers *g, struct rp_err *err)
{
    int first = -1, witness = -1, most = -1, blamed = -1;
    for (int i = 0; i < g->n; i++) {
        const struct member *m = &g->m[i];
        int times = 0;
        for (int k = 0; k < g->n; k++)
            times += g->m[k].failed && g->m[k].lost == i;
        if (m->failed && m->lost < 0 && (first < 0 || m->failed_ns < g->m[first].failed_ns))
            first = i;
        if (times > 0 && times > most) {
            most = times;
            blamed = i;
        }
    }
    for (int i = 0; i < g->n && first < 0; i++)
        if (g->m[i].failed && g->m[i].lost == blamed)
            witness = i;
    const struct member *m = &g->m[first >= 0 ? first : witness >= 0 ? witness : 0];
    if (g->n == 1)
        *err = m->err;
    else if (first >= 0)
        (void)rp_fail(err, m->err.code, "rank %d: %s", first, m->err.msg);
    else
        (void)rp_fail(err, m->err.code, "rank %d is gone; rank %d: %s", blamed, witness, m->err.msg);
}

int rp_workers_hung(const struct rp_group_of_workers *g, uint64_t limit_ns, struct rp_err *err)
{
    const uint64_t now = rp_now_ns();
    for (int i = 0; i < g->n; i++) {
        if (is_over(&g->m[i]) || now < g->m[i].alive_ns + limit_ns)
            continue;
        const long long s = (long long)(limit_ns / 1000000000u);
        if (g->n == 1)
            (void)rp_fail(err, RP_UNAVAILABLE, "the worker was silent for %lld s and counts as hung (run.hang_seconds); it was killed", s);
        else
            (void)rp_fail(err, RP_UNAVAILABLE, "rank %d was silent for %lld s and counts as hung (run.hang_seconds); all ranks were killed", i, s);
        return 1;
    }
    return 0;
}

void rp_workers_stop(struct rp_group_of_workers *g)
{
    for (int i = 0; i < g->n; i++)
        if (!is_over(&g->m[i]))
            rp_process_stop(&g->m[i].worker);
}

void rp_workers_end(struct rp_group_of_workers *g)
{
    for (int i = 0; i < g->n; i++) /* at once: the first that dies is not waited for */
        if (!is_over(&g->m[i]) && g->m[i].worker.pid > 0)
            kill(g->m[i].worker.pid, SIGKILL);
    for (int i = 0; i < g->n; i++)
        if ((g->m[i].finished || g->m[i].failed) && !g->m[i].gone)
            rp_process_end(&g->m[i].worker);
        else
            rp_process_kill(&g->m[i].worker);
    free(g->m);
    free(g);
}

pid_t rp_workers_pid(const struct rp_group_of_workers *g, int rank)
{
    return g->m[rank].worker.pid;
}
