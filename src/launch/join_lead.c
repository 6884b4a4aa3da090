/* The leader until the world is complete: takes connections, and decides when everybody is there. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/join_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    GREETING_MS = 10000, /* a connection has this long to prove that it knows the key */
    STRANGERS = 64,
    AT_ONCE = 16, /* connections that are accepted before the others have their turn */
    ROUND_MS = 100,
    REFUSE_MS = 1000
};

/* A connection; join is NULL until its JOIN arrived; said: its values, which judge_all() checks. */
struct newcomer {
    struct rp_join_link link;
    int proved;
    uint64_t until;
    json_t *join;
    struct rp_join_request said;
};

struct join_leader {
    struct rp_join *j;
    const struct rp_join_opts *o;
    int listener, port;
    struct newcomer *all;
    int n, room;
    struct rp_err last; /* why a connection was dropped */
    const struct rp_err *refusal; /* set: everybody gets it */
};

static void drop_newcomer(struct join_leader *s, int i)
{
    rp_join_link_close(&s->all[i].link);
    json_decref(s->all[i].join);
    rp_object_fini(&s->all[i].said, &rp_type_join_request);
    s->all[i] = s->all[--s->n];
}

static int count_joined(const struct join_leader *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->all[i].join != NULL;
    return n;
}

/* With many connections that have not proved to know the key, the oldest of them goes. A process of the job that is
 * among them comes back. */
static void drop_oldest_stranger(struct join_leader *s)
{
    int oldest = -1, n = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->all[i].proved == 1)
            continue;
        n++;
        if (oldest < 0 || s->all[i].until < s->all[oldest].until)
            oldest = i;
    }
    if (n < STRANGERS + s->j->members)
        return;
    s->j->strangers++;
    rp_fail(&s->last, RP_UNAVAILABLE,
            "a connection from %s had not yet proved its key, and %d such connections were open",
            s->all[oldest].link.address, n);
    drop_newcomer(s, oldest);
}

static void accept_all(struct join_leader *s)
{
    const struct rp_channel_opts c = {.key = s->o->key->bytes, .purpose = "control", .job = s->o->where->job, .own = 0};
    int fd;
    for (int i = 0; i < AT_ONCE && (fd = rp_address_accept(s->listener)) >= 0; i++) {
        struct rp_channel *channel = rp_channel_accept(fd, &c, NULL, NULL, &s->last);
        if (!channel)
            continue;
        drop_oldest_stranger(s);
        if (s->n == s->room) {
            s->room = s->room ? 2 * s->room : 64;
            s->all = rp_realloc(s->all, (size_t)s->room * sizeof *s->all);
        }
        s->all[s->n] = (struct newcomer){.until = rp_now_ns() + GREETING_MS * 1000000ull};
        rp_join_link_open(&s->all[s->n++].link, channel);
    }
}

static int refuse_newcomer(struct newcomer *c, const struct rp_err *why, struct rp_err *err)
{
    RP_JSON *body = rp_join_reason(why);
    return rp_join_link_send(&c->link, RP_FRAME_ABORT, body, err);
}

/* -1: the connection is of no use, with the reason in *err. */
static int hear_newcomer(struct join_leader *s, struct newcomer *c, uint64_t now, struct rp_err *err)
{
    enum rp_frame type;
    RP_JSON *body = NULL;
    if (!c->proved) {
        RP_JSON *nothing = json_object();
        if ((c->proved = rp_channel_handshake(c->link.channel, err)) < 1) {
            if (c->proved == 0 && now > c->until)
                return rp_fail(err, RP_UNAVAILABLE, "a connection from %s sent nothing for %d s", c->link.address,
                               GREETING_MS / 1000);
            return c->proved;
        }
        if (rp_join_link_send(&c->link, RP_FRAME_BEAT, nothing, err) < 0) /* the answer to a proof that was accepted */
            return -1;
    }
    int broken = rp_join_link_pump(&c->link, err) < 0, got = rp_join_link_take(&c->link, &type, &body, err);
    if (got < 0 || (broken && !got))
        return -1;
    if (c->link.finished)
        return rp_fail(err, RP_UNAVAILABLE, "a process at %s left again before all were there", c->link.address);
    if (got && type == RP_FRAME_JOIN && !c->join) {
        c->join = json_incref(body);
        rp_object_read(&c->said, &rp_type_join_request, body);
        if (s->refusal)
            return refuse_newcomer(c, s->refusal, err);
    }
    if (got && type == RP_FRAME_ABORT) {
        rp_join_read_reason(body, err);
        return -1;
    }
    return rp_join_link_beat(&c->link, now, err);
}

static void lead_round(struct join_leader *s)
{
    RP_FREE struct pollfd *p = rp_alloc(((size_t)s->n + 1) * sizeof *p);
    p[0] = (struct pollfd){.fd = s->listener, .events = POLLIN};
    for (int i = 0; i < s->n; i++)
        p[i + 1] = (struct pollfd){.fd = rp_channel_fd(s->all[i].link.channel),
                                   .events = rp_channel_events(s->all[i].link.channel)};
    poll(p, (nfds_t)s->n + 1, ROUND_MS);
    const uint64_t now = rp_now_ns();
    for (int i = s->n - 1; i >= 0; i--) {
        struct rp_err why = {0};
        if (hear_newcomer(s, &s->all[i], now, &why) < 0) {
            if (!s->all[i].proved || s->all[i].proved < 0)
                s->j->strangers++;
            s->last = why;
            drop_newcomer(s, i);
        }
    }
    accept_all(s);
}

/* ---- who is missing ---- */

static int64_t index_of(const struct newcomer *c)
{
    return c->join ? c->said.index : -1;
}

/* "2, 5-7"; the number of processes that did not join */
static int list_missing(const struct join_leader *s, char *out, size_t size)
{
    const int n = s->j->members;
    int missing = 0;
    RP_FREE char *absent = rp_alloc((size_t)n);
    memset(absent + 1, 1, (size_t)n - 1);
    for (int i = 0; i < s->n; i++)
        if (index_of(&s->all[i]) > 0 && index_of(&s->all[i]) < n)
            absent[index_of(&s->all[i])] = 0;
    for (int i = 0; i < n; i++)
        missing += absent[i];
    rp_list_numbers(out, size, absent, n);
    return missing;
}

/* 0 when all connections that are to come are there; -1: the time is over, or the caller stops. */
static int wait_for_all(struct join_leader *s, struct rp_err *err)
{
    const struct rp_join_opts *o = s->o;
    char list[120], line[800];
    for (uint64_t told = rp_now_ns(); count_joined(s) < s->j->members - 1;) {
        lead_round(s);
        const uint64_t now = rp_now_ns();
        if (o->check && o->check(o->check_arg, err) < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while waiting for the other processes of the job");
        if (now - told < 1000000000u && now < o->deadline)
            continue;
        told = now;
        const int missing = list_missing(s, list, sizeof list);
        RP_FORMAT(line, "waiting at port %d for %d of %d processes: %s%s%s", s->port, missing, s->j->members, list,
                  s->last.code ? "; refused: " : "", s->last.code ? s->last.msg : "");
        if (o->waiting && o->waiting(o->waiting_arg, line))
            return rp_fail(err, RP_INTERRUPTED, "stopped while %s", line);
        if (now >= o->deadline)
            return 0;
    }
    return 0;
}

/* ---- judging ---- */

static void quote_fact(char out[80], const json_t *facts, const char *name)
{
    char shown[72];
    const char *value = json_string_value(json_object_get(facts, name));
    snprintf(out, 80, value ? "'%s'" : "none", value ? rp_excerpt(shown, value) : "");
}

/* Names the first fact in which they differ, and how many others there are. */
static int compare_facts(const struct newcomer *c, const struct rp_join_request *own, const char *who,
                         struct rp_err *err)
{
    const json_t *mine = own->facts, *theirs = c->said.facts;
    const char *name, *first = NULL;
    json_t *ignored;
    int others = -1;
    char a[80], b[80], what[72], more[32] = "", at[72];
    for (int turn = 0; turn < 2; turn++) /* what only one of them has is found from its side */
        json_object_foreach((json_t *)(turn ? theirs : mine), name, ignored)
        {
            if (json_equal(json_object_get(theirs, name), json_object_get(mine, name)) ||
                (turn && json_object_get(mine, name)))
                continue;
            first = first ? first : name;
            others++;
        }
    if (!first)
        return 0;
    if (others > 0)
        RP_FORMAT(more, " (and in %d more)", others);
    quote_fact(a, theirs, first);
    quote_fact(b, mine, first);
    return rp_fail(err, RP_MISMATCH, "the processes of the job differ in %s%s: %s has %s, rank 0 (%s) %s",
                   rp_excerpt(what, first), more, who, a, rp_excerpt(at, own->name ? own->name : ""), b);
}

static void describe_newcomer(const struct newcomer *c, char out[200])
{
    char name[72];
    snprintf(out, 200, "process %lld (%s, %s)", (long long)index_of(c),
             rp_excerpt(name, c->said.name ? c->said.name : ""), c->link.address);
}

/* Each is checked by itself, against the leader, and against the others of the same number. */
static int judge_all(const struct join_leader *s, const struct rp_join_request *own, struct rp_err *err)
{
    const int n = s->j->members;
    RP_FREE int *by_index = rp_alloc((size_t)n * sizeof *by_index);
    char who[200], other[200], list[120];
    for (int i = 0; i < s->n; i++) {
        const struct newcomer *c = &s->all[i];
        if (!c->join)
            continue;
        describe_newcomer(c, who);
        struct rp_join_request checked;
        const int malformed = rp_join_check(&checked, c->join, n, err) < 0;
        rp_object_fini(&checked, &rp_type_join_request);
        if (malformed)
            return rp_wrap(err, "%s", c->link.address);
        const int64_t index = index_of(c);
        if (index != rp_channel_peer(c->link.channel))
            return rp_fail(err, RP_MALFORMED, "%s proved to be process %d", who, rp_channel_peer(c->link.channel));
        if (index == 0 || by_index[index]) {
            if (index)
                describe_newcomer(&s->all[by_index[index] - 1], other);
            return rp_fail(err, RP_USAGE,
                           "two processes have number %lld: %s and %s; were two jobs started with one key?",
                           (long long)index, who, index ? other : "the leading process");
        }
        by_index[index] = i + 1;
        if (compare_facts(c, own, who, err) < 0)
            return -1;
    }
    const int missing = list_missing(s, list, sizeof list);
    if (!missing)
        return 0;
    if (s->j->strangers)
        return rp_fail(err, RP_UNAVAILABLE,
                       "%d of %d processes did not join in time (--join-timeout): %s; connections refused: %llu, the "
                       "last one because: %s",
                       missing, n, list, (unsigned long long)s->j->strangers, s->last.msg);
    if (s->last.code)
        return rp_fail(err, RP_UNAVAILABLE,
                       "%d of %d processes did not join in time (--join-timeout): %s; the last connection that ended "
                       "did because: %s",
                       missing, n, list, s->last.msg);
    return rp_fail(err, RP_UNAVAILABLE, "%d of %d processes did not join in time (--join-timeout): %s", missing, n,
                   list);
}

/* Everybody who joined gets the reason, and so does who still comes within a second. */
static void refuse_all(struct join_leader *s, const struct rp_err *why)
{
    struct rp_err ignored;
    s->refusal = why;
    for (int i = s->n - 1; i >= 0; i--)
        if (s->all[i].join && refuse_newcomer(&s->all[i], why, &ignored) < 0)
            drop_newcomer(s, i);
    for (uint64_t until = rp_now_ns() + REFUSE_MS * 1000000ull; rp_now_ns() < until;)
        lead_round(s);
}

/* The links, in the order of the processes. */
static void keep_links(struct join_leader *s, const struct rp_join_request *own)
{
    struct rp_join *j = s->j;
    RP_FREE struct rp_join_request *joins = rp_alloc((size_t)j->members * sizeof *joins); /* borrowed */
    j->links = j->members - 1;
    j->link = rp_alloc((size_t)j->links * sizeof *j->link);
    joins[0] = *own;
    for (int i = 0; i < s->n; i++) {
        const int64_t index = index_of(&s->all[i]);
        if (index < 0)
            continue;
        j->link[index - 1] = s->all[i].link;
        s->all[i].link = (struct rp_join_link){.channel = NULL};
        joins[index] = s->all[i].said;
        RP_FORMAT(j->member[index].address, "%s", j->link[index - 1].address);
    }
    rp_join_make_world(j, joins);
}

static int listen_for_job(struct rp_rendezvous *r, int *port, struct rp_err *err)
{
    *port = r->port;
    int fd = rp_address_listen(port, r->loopback, err);
    if (fd < 0 && err->sys == EADDRINUSE)
        return rp_fail(err, RP_UNAVAILABLE,
                       "port %d of this host, which follows from the id of the job or was given, is in use: by "
                       "another job, or by another process 0 of this one? Give every process of a job the same --port "
                       "N",
                       *port);
    return fd;
}

int rp_join_lead(struct rp_join *j, const struct rp_join_opts *o, json_t *own, struct rp_err *err)
{
    struct join_leader s = {.j = j, .o = o};
    struct rp_join_request mine;
    RP_FD listener = listen_for_job(o->where, &s.port, err);
    if (listener < 0 || rp_rendezvous_publish(o->where, s.port, o->deadline, err) < 0)
        return -1;
    s.listener = listener;
    rp_object_read(&mine, &rp_type_join_request, own);
    int failed = wait_for_all(&s, err) < 0 || judge_all(&s, &mine, err) < 0;
    if (failed)
        refuse_all(&s, err);
    else
        keep_links(&s, &mine);
    rp_object_fini(&mine, &rp_type_join_request);
    while (s.n)
        drop_newcomer(&s, s.n - 1);
    free(s.all);
    return failed ? -1 : 0;
}
