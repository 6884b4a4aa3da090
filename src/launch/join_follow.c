/* A member until the world is complete: finds the leader, proves itself, and waits for what it decides. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "launch/join_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    HANDSHAKE_MS = 5000, STEP_MS = 100, REFUSED_NS = 1000000000, FIRST_WAIT_MS = 50, LONGEST_WAIT_MS = 1000,
    DECISION_MS = 15000
};
/* the world is complete; rank 0 closed the connection without a word, as if many strangers connect at once */
enum { JOINED = 1, DROPPED };

struct follow {
    struct rp_join *j;
    const struct rp_join_opts *o;
    struct rp_err last;    /* why the last attempt failed */
    uint64_t told, refused_ns; /* when the caller last heard; since when only refusals come */
};

static int report_waiting(struct follow *s, const char *line, struct rp_err *err)
{
    const uint64_t now = rp_now_ns();
    if (s->o->check && s->o->check(s->o->check_arg, err) < 0)
        return -1;
    if (rp_interrupted())
        return rp_fail(err, RP_INTERRUPTED, "interrupted while joining the job");
    if (now - s->told < 1000000000u || !s->o->waiting)
        return 0;
    s->told = now;
    return s->o->waiting(s->o->waiting_arg, line) ? rp_fail(err, RP_INTERRUPTED, "stopped while %s", line) : 0;
}

/* 1: proved on both sides. */
static int shake_hands(struct rp_channel *c, uint64_t deadline, struct rp_err *err)
{
    const uint64_t until = rp_now_ns() + HANDSHAKE_MS * 1000000ull;
    for (;;) {
        int n = rp_channel_handshake(c, err);
        if (n)
            return n;
        if (rp_now_ns() >= until || rp_now_ns() >= deadline)
            return rp_fail(err, RP_UNAVAILABLE, "the process that listens there does not answer");
        struct pollfd p = {.fd = rp_channel_fd(c), .events = rp_channel_events(c)};
        poll(&p, 1, STEP_MS);
    }
}

static struct rp_channel *try_host(struct follow *s, const char *host, struct rp_err *err)
{
    const struct rp_join_opts *o = s->o;
    const struct rp_channel_opts c = {
        .key = o->key->bytes, .purpose = "control", .job = o->where->job, .own = s->j->own};
    int fd = rp_address_connect(host, o->where->port, o->deadline, err);
    struct rp_channel *channel = fd < 0 ? NULL : rp_channel_connect(fd, &c, 0, err);
    if (channel && shake_hands(channel, o->deadline, err) < 0) {
        rp_channel_free(channel);
        return NULL;
    }
    return channel;
}

static int is_refusal(const struct rp_err *e)
{
    return e->code == RP_SIGNATURE || e->code == RP_MALFORMED;
}

/* Every host in turn. A listener without the key may be a job that ended a moment ago, or another program: for some
 * seconds it is asked again. */
static struct rp_channel *try_all(struct follow *s)
{
    const struct rp_rendezvous *r = s->o->where;
    int refused = 0;
    for (int i = 0; i < r->hosts; i++) {
        struct rp_err why = {0};
        struct rp_channel *c = try_host(s, r->host[i].host, &why);
        if (c)
            return c;
        if (is_refusal(&why))
            rp_fail(&s->last, why.code, "%s port %d: %s", r->host[i].host, r->port, why.msg);
        else if (!i && !(s->last.code &&
                         rp_now_ns() >= s->o->deadline)) /* an attempt that the deadline cut short says less */
            s->last = why;                               /* names the address itself */
        refused |= is_refusal(&why);
    }
    s->refused_ns = !refused ? 0 : s->refused_ns ? s->refused_ns : rp_now_ns();
    return NULL;
}

static struct rp_channel *reach_leader(struct follow *s, struct rp_err *err)
{
    int wait = FIRST_WAIT_MS;
    char line[800];
    for (;;) {
        struct rp_channel *c = try_all(s);
        if (c)
            return c;
        const uint64_t now = rp_now_ns();
        RP_FORMAT(line, "looking for rank 0, which %s leads to: %s", s->o->where->source, s->last.msg);
        if ((s->refused_ns && now - s->refused_ns > 5ull * REFUSED_NS) ||
            (is_refusal(&s->last) && now >= s->o->deadline))
            return rp_fail_null(
                err, s->last.code,
                "rank 0, or what is found in its place, refuses this process: %s; do all processes have the same key, "
                "and is the port free for this job?",
                s->last.msg);
        if (now >= s->o->deadline)
            return rp_fail_null(err, RP_UNAVAILABLE, "rank 0 was not reached in time, by %s: %s", s->o->where->source,
                                s->last.msg);
        if (report_waiting(s, line, err) < 0)
            return NULL;
        poll(NULL, 0, wait);
        wait = 2 * wait < LONGEST_WAIT_MS ? 2 * wait : LONGEST_WAIT_MS;
    }
}

/* JOINED, DROPPED, or 0: nothing is decided. */
static int hear_leader(struct follow *s, struct rp_join_link *l, struct rp_err *err)
{
    int got, broken = rp_join_link_pump(l, err) < 0;
    do {
        enum rp_frame type;
        struct rp_err bad;
        RP_JSON *body = NULL;
        got = rp_join_link_take(l, &type, &body, &bad);
        if (got < 0)
            return rp_fail(err, RP_MALFORMED, "rank 0 at %s: %s", l->address, bad.msg);
        if (got && type == RP_FRAME_WORLD)
            return rp_join_parse_world(s->j, body, err) < 0 ? -1 : JOINED;
        if (got && type == RP_FRAME_ABORT) {
            rp_join_read_reason(body, &s->j->failed);
            *err = s->j->failed;
            return -1;
        }
        if (got && type == RP_FRAME_CLOCK && rp_join_answer_clock(s->j, l, body, err) < 0)
            broken = 1;
    } while (got);
    /* A client of TLS 1.3 has finished before the server reads its last message: an end before rank 0 said anything is
     * not a refusal, and this process connects again. */
    if ((broken || l->finished) && !l->taken)
        return DROPPED;
    if (broken || l->finished)
        return rp_fail(err, RP_UNAVAILABLE, "rank 0 at %s ended before all processes had joined", l->address);
    if (rp_now_ns() - l->heard_ns > s->j->silence_ns)
        return rp_fail(err, RP_UNAVAILABLE, "rank 0 at %s: nothing was received for %.0f s", l->address,
                       (double)s->j->silence_ns / 1e9);
    return rp_join_link_beat(l, rp_now_ns(), err);
}

static int wait_decision(struct follow *s, struct rp_join_link *l, struct rp_err *err)
{
    for (;;) {
        int n = hear_leader(s, l, err);
        if (n)
            return n;
        if (rp_now_ns() > s->o->deadline + DECISION_MS * 1000000ull)
            return rp_fail(err, RP_UNAVAILABLE, "rank 0 at %s did not decide in time whether all processes are there",
                           l->address);
        if (report_waiting(s, "waiting for the other processes of the job, as rank 0 does", err) < 0)
            return -1;
        struct pollfd p = {.fd = rp_channel_fd(l->channel), .events = rp_join_link_events(l)};
        poll(&p, 1, STEP_MS);
    }
}

int rp_join_follow(struct rp_join *j, const struct rp_join_opts *o, json_t *own, struct rp_err *err)
{
    struct follow s = {.j = j, .o = o, .told = rp_now_ns()};
    if (rp_rendezvous_learn(o->where, o->deadline, err) < 0)
        return -1;
    j->link = rp_alloc(sizeof *j->link);
    j->links = 1;
    for (int decided = DROPPED; decided == DROPPED;) {
        struct rp_channel *c = reach_leader(&s, err);
        if (!c)
            return -1;
        rp_join_link_open(j->link, c);
        /* a broken connection shows in what follows */
        if (rp_join_link_send(j->link, RP_FRAME_JOIN, own, err) < 0 && err->code == RP_BUG)
            return -1;
        decided = wait_decision(&s, j->link, err);
        if (decided == DROPPED) {
            rp_join_link_close(j->link);
            rp_fail(&s.last, RP_UNAVAILABLE, "%s closed the connection before it said anything", j->link->address);
            if (rp_now_ns() >= o->deadline)
                return rp_fail(err, RP_UNAVAILABLE, "rank 0 was not reached in time: %s", s.last.msg);
            poll(NULL, 0, STEP_MS);
        } else if (decided < 0) {
            return -1;
        }
    }
    RP_FORMAT(j->member[0].address, "%s", j->link->address);
    return 0;
}
