#include "worker/group.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "comm/secret.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#define LOOK_NS 1000000000u /* how often a silent worker is looked at */

struct member {
    struct rp_process worker;
    int process;       /* number of the process of the job that started it; 0: this one */
    uint64_t alive_ns; /* time of its last message */
    uint64_t look_ns;  /* when its silence was looked at last */
    int waiting;       /* for this rank, by its last message; -1: for none */
    char phase[24];    /* its last PHASE; "": it opens its device */
    char in[24];       /* what it has begun within the phase; "": nothing that has a name */
    long long step;    /* the last one that it has done; -1: none */
    json_t *listen;    /* body of its LISTEN frame; NULL: not yet known */
    int finished;      /* it has sent DONE */
    int gone;          /* its process was reaped */
    int told;          /* that was passed on */
    int failed;
    int lost; /* the rank that made it fail, itself as others say, or RP_LOST_SOME; -1: itself */
    uint64_t failed_ns;
    struct rp_err err;
};

struct rp_group_of_workers {
    int n, next;    /* next: to be read, so that no rank is starved */
    int first;      /* rank of the first */
    int leads;      /* lets ranks find each other */
    int connected;  /* PEERS was sent */
    int lost;       /* once `join` has failed: the first rank of the process that is gone; -1: unknown */
    int stop_asked; /* the number of the process that asked, plus one */
    struct rp_join *join; /* NULL: all are here */
    struct member *m;     /* [n] */
};

int rp_job_member_has_gpus(const struct rp_job_member *m)
{
    return strcmp(rp_json_text_at(m->about, "backend"), rp_choice_name(RP_BACKENDS, RP_BACKEND_cuda)) == 0;
}

int rp_job_member_cpu_set(const struct rp_join *j, int member)
{
    const struct rp_job_member *own = &j->member[member];
    int i = 0;
    while (i < member && (j->member[i].host != own->host || strcmp(rp_json_text_at(j->member[i].about, "cpus"),
                                                                   rp_json_text_at(own->about, "cpus")) != 0))
        i++;
    return i;
}

static void mark_failed(struct rp_group_of_workers *g, int at, const struct rp_err *err, int lost)
{
    struct member *m = &g->m[at];
    if (m->failed)
        return;
    m->failed = 1;
    m->failed_ns = rp_now_ns();
    m->lost = lost >= 0 || lost == RP_LOST_SOME ? lost : -1;
    m->err = *err;
}

static int make_rank(struct rp_rank_of *r, const struct rp_job *job, struct rp_degrees degrees,
                     const struct rp_job_world *world, struct rp_err *err)
{
    unsigned char id[8];
    const int ranks = rp_degrees_world(degrees);
    *r = (struct rp_rank_of){.degrees = degrees,
                             .host = rp_alloc((size_t)ranks * sizeof *r->host),
                             .gpu = rp_alloc((size_t)ranks * sizeof *r->gpu),
                             .cpu_set = rp_alloc((size_t)ranks * sizeof *r->cpu_set)};
    for (int i = 0; i < ranks && !world; i++)
        r->gpu[i] = job->backend->separate_memory;
    if (world) {
        for (int i = 0; i < world->join->members; i++) {
            const struct rp_job_member *m = &world->join->member[i];
            for (int k = m->first_rank; k < m->first_rank + m->ranks; k++) {
                r->host[k] = m->host;
                r->gpu[k] = rp_job_member_has_gpus(m);
                r->cpu_set[k] = rp_job_member_cpu_set(world->join, i);
            }
        }
        memcpy(r->key, world->key, sizeof r->key);
        snprintf(r->id, sizeof r->id, "%s", world->id);
        return 0;
    }
    snprintf(r->address, sizeof r->address, "127.0.0.1");
    rp_secret_stay_out_of_cores();
    if (getrandom(r->key, sizeof r->key, 0) != sizeof r->key || getrandom(id, sizeof id, 0) != sizeof id)
        return rp_fail(err, RP_UNAVAILABLE, "no random numbers for the key of the ranks");
    rp_hex(r->id, id, sizeof id);
    return 0;
}

static struct rp_group_of_workers *group_new(int first, int n)
{
    struct rp_group_of_workers *g = rp_alloc(sizeof *g);
    g->first = first;
    g->n = n;
    g->m = rp_alloc((size_t)n * sizeof *g->m);
    for (int i = 0; i < n; i++)
        g->m[i] = (struct member){.worker = {.pid = -1, .fd = -1, .errors = -1}, .waiting = -1, .lost = -1, .step = -1,
                                  .alive_ns = rp_now_ns()};
    return g;
}

/* The ranks of this process, number `at` of the group and following. of: NULL for a run of one rank. */
static int start_here(struct rp_group_of_workers *g, const struct rp_job *job, const struct rp_rank_of *of, int at,
                      int n, struct rp_err *err)
{
    for (int i = at; i < at + n; i++) {
        struct rp_rank_of rank = of ? *of : (struct rp_rank_of){0};
        struct rp_job one = *job;
        rank.rank = g->first + i;
        one.rank = of ? &rank : NULL;
        int failed = rp_job_start(&g->m[i].worker, &one, err) < 0;
        explicit_bzero(rank.key, sizeof rank.key);
        if (failed)
            return -1;
        g->m[i].alive_ns = rp_now_ns();
    }
    return 0;
}

/* Another process of the job starts its ranks; it has the key. */
static int start_there(struct rp_group_of_workers *g, const struct rp_job *job, const struct rp_rank_of *of,
                       int process, struct rp_err *err)
{
    const struct rp_job_member *m = &g->join->member[process];
    struct rp_rank_of rank = *of;
    struct rp_job one = *job;
    explicit_bzero(rank.key, sizeof rank.key);
    one.rank = &rank;
    one.data = (char *)"";
    RP_JSON *body = json_pack("{s:o, s:i, s:i}", "job", rp_job_encode(&one), "first", m->first_rank, "count", m->ranks);
    for (int i = 0; i < m->ranks; i++)
        g->m[m->first_rank + i].process = process;
    return rp_join_send(g->join, process, RP_FRAME_JOB, body, err);
}

struct rp_group_of_workers *rp_workers_start(const struct rp_job *job, struct rp_degrees degrees,
                                             const struct rp_job_world *world, struct rp_err *err)
{
    const int n = rp_degrees_world(degrees);
    struct rp_group_of_workers *g = group_new(0, n);
    struct rp_rank_of of = {0};
    g->leads = 1;
    g->join = world ? world->join : NULL;
    int failed = n > 1 && make_rank(&of, job, degrees, world, err) < 0;
    failed = failed || start_here(g, job, n > 1 ? &of : NULL, 0, world ? world->join->member[0].ranks : n, err) < 0;
    for (int i = 1; world && i < world->join->members && !failed; i++)
        failed = start_there(g, job, &of, i, err) < 0;
    free(of.host);
    free(of.gpu);
    free(of.cpu_set);
    explicit_bzero(of.key, sizeof of.key);
    if (!failed)
        return g;
    rp_workers_end(g);
    return NULL;
}

struct rp_group_of_workers *rp_workers_start_own(const struct rp_job *job, const struct rp_own_ranks *own,
                                                 struct rp_err *err)
{
    struct rp_group_of_workers *g = group_new(own->first, own->count);
    if (start_here(g, job, &own->of, 0, own->count, err) == 0)
        return g;
    rp_workers_end(g);
    return NULL;
}

void rp_workers_tell(struct rp_group_of_workers *g, enum rp_frame type, const json_t *body)
{
    struct rp_err ignored; /* of a worker that is gone: noticed when its frames are read, with what ended it */
    for (int i = 0; i < g->n; i++)
        if (!g->m[i].process && g->m[i].worker.fd >= 0 && !g->m[i].gone)
            (void)!rp_frame_write(g->m[i].worker.fd, type, body, &ignored);
}

/* Where ranks are, as process `to` of the job reaches them, and what they wrote about themselves. */
static json_t *peers_for(const struct rp_group_of_workers *g, int to)
{
    json_t *peers = json_array(), *ranks = json_array();
    for (int i = 0; i < g->n; i++) {
        const struct rp_job_member *m = g->join ? &g->join->member[g->m[i].process] : NULL;
        const char *address = !m || (m->index == to) ? "127.0.0.1" : m->address;
        RP_READ(listen_frame, port, g->m[i].listen);
        json_array_append_new(peers, json_pack("{s:s, s:I}", "address", address, "port", (json_int_t)port.port));
        json_array_append(ranks, g->m[i].listen);
    }
    return json_pack("{s:o, s:o}", "peers", peers, "ranks", ranks);
}

/* Once every rank can be reached, each of them gets the list. */
static void connect_all(struct rp_group_of_workers *g)
{
    struct rp_err err;
    for (int i = 0; i < g->n; i++)
        if (!g->m[i].listen)
            return;
    RP_JSON *here = peers_for(g, 0);
    g->connected = 1;
    for (int i = 0; i < g->n; i++)
        g->m[i].alive_ns = rp_now_ns(); /* those that had nothing to say begin again */
    rp_workers_tell(g, RP_FRAME_PEERS, here);
    for (int i = 1; g->join && i < g->join->members; i++) {
        RP_JSON *there = peers_for(g, i);
        if (rp_join_send(g->join, i, RP_FRAME_PEERS, there, &err) < 0)
            mark_failed(g, g->join->member[i].first_rank, &err, -1);
    }
}

/* Remembers what a worker is doing, for the message of a hang. */
static void note_phase(struct member *m, enum rp_frame type, const json_t *body)
{
    if (type == RP_FRAME_PHASE || type == RP_FRAME_STEP)
        *m->in = 0;
    if (type == RP_FRAME_PHASE) {
        RP_READ(phase_frame, begun, body);
        if (begun.phase)
            snprintf(m->phase, sizeof m->phase, "%s", begun.phase);
    }
    if (type == RP_FRAME_STEP) {
        RP_READ(step_frame, done, body);
        m->step = done.step;
    }
}

/* A rank that lives waits for another, begins something, or only lives. */
static void note_alive(struct member *m, const json_t *body)
{
    RP_READ(alive_frame, alive, body);
    m->waiting = alive.waiting != RP_NO_INTEGER ? (int)alive.waiting : -1;
    if (alive.in)
        snprintf(m->in, sizeof m->in, "%s", alive.in);
}

/* What concerns the group itself. */
static void take_frame(struct rp_group_of_workers *g, int at, enum rp_frame type, const json_t *body)
{
    struct member *m = &g->m[at];
    struct rp_err err;
    if (type != RP_FRAME_TELEMETRY) { /* sent even if training hangs */
        m->alive_ns = rp_now_ns();
        m->waiting = -1;
    }
    if (type == RP_FRAME_ALIVE)
        note_alive(m, body);
    if (type == RP_FRAME_LISTEN && !m->listen)
        m->listen = json_deep_copy(body);
    if (type == RP_FRAME_LISTEN && g->leads && !g->connected)
        connect_all(g);
    note_phase(m, type, body);
    m->finished |= type == RP_FRAME_DONE;
    if (type == RP_FRAME_FAILED) {
        RP_READ(failed_frame, failed, body);
        (void)rp_frame_failure_of(&failed, &err);
        m->worker.ended = failed.ended > 0 && failed.ended <= UINT16_MAX ? (int)failed.ended : 0;
        mark_failed(g, at, &err, failed.lost != RP_NO_INTEGER ? (int)failed.lost : -1);
    }
}

static int is_over(const struct member *m)
{
    return m->finished || m->failed || m->gone;
}

/* One frame of a worker of this process that may have one. */
static int read_worker(struct rp_group_of_workers *g, int at, int timeout_ms, enum rp_frame *type, json_t **body)
{
    struct member *m = &g->m[at];
    struct rp_err err;
    int got = rp_process_next(&m->worker, timeout_ms, type, body, &err);
    if (got > 0)
        take_frame(g, at, *type, *body);
    if (got >= 0)
        return got;
    m->gone = 1;
    mark_failed(g, at, &err, -1);
    return 0;
}

/* What another process of the job sent: 1, if it is a frame of one of its ranks. */
static int take_message(struct rp_group_of_workers *g, int process, enum rp_frame sent, const json_t *message,
                        int *rank, enum rp_frame *type, json_t **body)
{
    RP_READ(relay_frame, relay, message);
    if (sent == RP_FRAME_STOP && !g->stop_asked)
        g->stop_asked = process + 1;
    if (sent != RP_FRAME_RELAY || relay.rank < 0 || relay.rank >= g->n || g->m[relay.rank].process != process ||
        relay.frame < 0 || relay.frame >= RP_FRAME_COUNT)
        return 0;
    *rank = (int)relay.rank;
    *type = (enum rp_frame)relay.frame;
    *body = relay.body ? json_incref(relay.body) : json_object();
    take_frame(g, *rank, *type, *body);
    return 1;
}

/* The next frame of a rank of another process. */
static int read_join(struct rp_group_of_workers *g, int *rank, enum rp_frame *type, json_t **body)
{
    struct rp_err err;
    int process, got;
    for (;;) {
        enum rp_frame sent;
        RP_JSON *message = NULL;
        got = rp_join_next(g->join, 0, &process, &sent, &message, &err);
        if (got <= 0)
            break;
        if (take_message(g, process, sent, message, rank, type, body))
            return 1;
    }
    for (int i = 0; got < 0 && i < g->n; i++) /* its message names who is gone */
        if (g->m[i].process)
            mark_failed(g, i, &err, -1);
    if (got < 0) {
        g->lost = g->join->lost ? g->join->member[g->join->lost].first_rank : -1;
        g->join = NULL;
    }
    return 0;
}

/* Frames that have arrived already, in turn over the ranks. 1, or 0: there are none. */
static int read_buffered(struct rp_group_of_workers *g, int *rank, enum rp_frame *type, json_t **body)
{
    for (int i = 0; i < g->n; i++) {
        const int at = (g->next + i) % g->n;
        struct member *m = &g->m[at];
        if (m->process || is_over(m) || !m->worker.in.size || read_worker(g, at, 0, type, body) <= 0)
            continue;
        *rank = g->first + at;
        g->next = at + 1;
        return 1;
    }
    return g->join ? read_join(g, rank, type, body) : 0;
}

int rp_workers_next(struct rp_group_of_workers *g, int timeout_ms, int *rank, enum rp_frame *type, json_t **body)
{
    const size_t links = g->join ? (size_t)g->join->members : 0;
    RP_FREE struct pollfd *p = rp_alloc(((size_t)g->n + links) * sizeof *p);
    const uint64_t now = rp_now_ns();
    nfds_t n = (nfds_t)g->n;
    *body = NULL;
    if (g->n == 1 && !g->join) {
        *rank = g->first;
        return is_over(&g->m[0]) ? 0 : read_worker(g, 0, timeout_ms, type, body);
    }
    if (read_buffered(g, rank, type, body))
        return 1;
    for (int i = 0; i < g->n; i++)
        p[i] = (struct pollfd){.fd = g->m[i].process || is_over(&g->m[i]) ? -1 : g->m[i].worker.fd, .events = POLLIN};
    if (g->join)
        n += (nfds_t)rp_join_poll(g->join, p + n, (int)links);
    if (poll(p, n, timeout_ms) < 0)
        return 0;
    for (int i = 0; i < g->n; i++) {
        const int at = (g->next + i) % g->n;
        struct member *m = &g->m[at];
        if (m->process || is_over(m) || (!p[at].revents && now - m->look_ns < LOOK_NS))
            continue;
        m->look_ns = now;
        if (read_worker(g, at, 1, type, body) > 0) {
            *rank = g->first + at;
            g->next = at + 1;
            return 1;
        }
    }
    return g->join ? read_join(g, rank, type, body) : 0;
}

int rp_workers_take_gone(struct rp_group_of_workers *g, int *rank, int *ended, struct rp_err *reason)
{
    for (int i = 0; i < g->n; i++) {
        if (!g->m[i].gone || g->m[i].told)
            continue;
        g->m[i].told = 1;
        *rank = g->first + i;
        *ended = g->m[i].worker.ended;
        *reason = g->m[i].err;
        return 1;
    }
    return 0;
}

int rp_workers_asked_to_stop(const struct rp_group_of_workers *g, char who[200])
{
    if (g->stop_asked && g->join)
        rp_join_who(g->join, g->stop_asked - 1, who);
    return g->stop_asked != 0;
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

/* "rank 3: ", or with its host "rank 3 (node1, 192.0.2.7): "; what the connections report names it already. */
static const char *who_of(const struct rp_group_of_workers *g, int at, char out[240])
{
    char name[200];
    if (g->join && g->m[at].process)
        snprintf(out, 240, "rank %d of %.200s: ", g->first + at, rp_join_who(g->join, g->m[at].process, name));
    else if (g->m[at].process)
        *out = 0;
    else
        snprintf(out, 240, "rank %d: ", g->first + at);
    return out;
}

/* The first of those that fail because of rank g->first + blamed, which saw it: later ones may have heard of it, as
 * that rank itself did. */
static int find_witness(const struct rp_group_of_workers *g, int blamed)
{
    int witness = -1;
    for (int i = 0; i < g->n && blamed >= 0; i++)
        if (i != blamed && g->m[i].failed && g->m[i].lost == g->first + blamed &&
            (witness < 0 || g->m[i].failed_ns < g->m[witness].failed_ns))
            witness = i;
    return witness;
}

/* A word of a PHASE or ALIVE frame, which may have come from another host: one of ours, or "". */
static const char *own_word(const char *word)
{
    static const char *const words[] = {"ceilings", "initialising", "warm-up", "timed", "saving", "state root"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0)
            return words[i];
    return "";
}

/* "initialising", "timed after step 3", "timed after step 3, state root" */
static const char *phase_of(const struct member *m, char out[96])
{
    char step[32] = "";
    const char *phase = own_word(m->phase), *in = own_word(m->in);
    if (m->step >= 0)
        snprintf(step, sizeof step, " after step %lld", m->step);
    snprintf(out, 96, "%s%s%s%s", *phase ? phase : "opening the device", step, *in ? ", " : "", in);
    return out;
}

void rp_run_reason_at(struct rp_run_reason *r, int rank, const char *place)
{
    r->rank = rank;
    RP_FORMAT(r->place, "%s", place);
}

void rp_run_reason_text(struct rp_buf *out, const struct rp_run_reason *r)
{
    rp_buf_puts(out, rp_code_name(r->err.code));
    if (r->rank >= 0)
        rp_buf_printf(out, ", rank %d", r->rank);
    if (*r->place)
        rp_buf_printf(out, ", %s", r->place);
    if (r->ended && WIFSIGNALED(r->ended))
        rp_buf_printf(out, ", signal %d", WTERMSIG(r->ended));
    else if (r->ended)
        rp_buf_printf(out, ", exit status %d", WEXITSTATUS(r->ended));
    if (r->err.code != RP_INTERRUPTED)
        rp_buf_printf(out, ": %s", rp_code_meaning(r->err.code));
}

/* The rank of the group, by its place in it; alone it needs no number. Once a process is gone, all ranks of other
 * processes fail. */
static void set_rank(struct rp_run_reason *r, const struct rp_group_of_workers *g, int at, const struct member *saw)
{
    char place[96];
    int rank = g->n > 1 || g->join ? g->first + at : -1;
    if (!g->join && g->m[at].process)
        rank = g->lost;
    rp_run_reason_at(r, rank, phase_of(saw, place));
}

void rp_workers_reason(const struct rp_group_of_workers *g, struct rp_run_reason *r)
{
    char who[240];
    int first = -1, most = -1, blamed = -1;
    for (int i = 0; i < g->n; i++) {
        const struct member *m = &g->m[i];
        int times = 0;
        for (int k = 0; k < g->n; k++)
            times += g->m[k].failed && g->m[k].lost == g->first + i;
        if (m->failed && m->lost == -1 && (first < 0 || m->failed_ns < g->m[first].failed_ns))
            first = i;
        if (times > 0 && times > most) {
            most = times;
            blamed = i;
        }
    }
    const int witness = find_witness(g, blamed);
    for (int i = 0; i < g->n && first < 0 && witness < 0; i++)
        if (g->m[i].failed) /* by a rank that none of them names, or that no other one names */
            first = i;
    const struct member *m = &g->m[first >= 0 ? first : witness >= 0 ? witness : 0];
    if (g->n == 1 && !g->join)
        r->err = m->err;
    else if (first >= 0)
        (void)rp_fail(&r->err, m->err.code, "%s%s", who_of(g, first, who), m->err.msg);
    else
        (void)rp_fail(&r->err, m->err.code, "%sgone; rank %d: %s", who_of(g, blamed, who), g->first + witness,
                      m->err.msg);
    set_rank(r, g, first >= 0 ? first : blamed, m);
    r->ended = first >= 0 || blamed < 0 ? m->worker.ended : g->m[blamed].worker.ended;
}

void rp_workers_excuse(struct rp_group_of_workers *g, uint64_t ns)
{
    for (int i = 0; i < g->n; i++)
        g->m[i].alive_ns += ns;
}

int rp_workers_hung(const struct rp_group_of_workers *g, uint64_t limit_ns, struct rp_run_reason *r)
{
    const uint64_t now = rp_now_ns();
    char who[240], phase[96];
    for (int i = 0; i < g->n; i++) {
        /* it has nothing to say until all of them listen */
        const int awaits_others = g->n > 1 && !g->connected && g->m[i].listen;
        if (is_over(&g->m[i]) || awaits_others || now < g->m[i].alive_ns + limit_ns)
            continue;
        const long long s = (long long)(limit_ns / 1000000000u);
        if (g->n == 1)
            (void)rp_fail(&r->err, RP_UNAVAILABLE,
                          "the worker was silent for %lld s (%s) and counts as hung (run.hang_seconds); it was killed",
                          s, phase_of(&g->m[i], phase));
        else
            (void)rp_fail(&r->err, RP_UNAVAILABLE,
                          "%ssilent for %lld s (%s): it counts as hung (run.hang_seconds), and all ranks were killed",
                          who_of(g, i, who), s, phase_of(&g->m[i], phase));
        set_rank(r, g, i, &g->m[i]);
        return 1;
    }
    return 0;
}

void rp_workers_stop(struct rp_group_of_workers *g)
{
    struct rp_err ignored; /* of a process that is gone: noticed when its frames are read */
    RP_JSON *nothing = json_object();
    for (int i = 0; i < g->n; i++)
        if (!g->m[i].process && !is_over(&g->m[i]))
            rp_process_stop(&g->m[i].worker);
    if (g->join && g->leads)
        (void)!rp_join_broadcast(g->join, RP_FRAME_STOP, nothing, &ignored);
}

void rp_workers_end(struct rp_group_of_workers *g)
{
    struct rp_err ignored;
    RP_JSON *kill_them = json_pack("{s:b}", "kill", 1);
    if (g->join && g->leads)
        (void)!rp_join_broadcast(g->join, RP_FRAME_STOP, kill_them, &ignored);
    for (int i = 0; i < g->n; i++) /* at once: the first that dies is not waited for */
        if (!is_over(&g->m[i]) && g->m[i].worker.pid > 0)
            kill(g->m[i].worker.pid, SIGKILL);
    for (int i = 0; i < g->n; i++)
        if (g->m[i].process)
            continue;
        else if ((g->m[i].finished || g->m[i].failed) && !g->m[i].gone)
            (void)rp_process_end(&g->m[i].worker, RP_PROCESS_END_MS, &ignored);
        else
            rp_process_kill(&g->m[i].worker);
    for (int i = 0; i < g->n; i++)
        json_decref(g->m[i].listen);
    free(g->m);
    free(g);
}

pid_t rp_workers_pid(const struct rp_group_of_workers *g, int rank)
{
    return g->m[rank - g->first].worker.pid;
}
