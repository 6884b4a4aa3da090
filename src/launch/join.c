/* After the world is complete: messages, heartbeats, clocks, the end. */
#include "launch/join.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "launch/join_link.h"

#include <string.h>

enum { LOOK_MS = 200, AWAY_NS = 2000000000, ABORT_MS = 1000, FRAMES_AT_ONCE = 4096 };

struct rp_join_message {
    struct rp_join_message *next;
    int member;
    enum rp_frame type;
    json_t *body;
};

/* ---- who ---- */

static int member_of(const struct rp_join *j, int link)
{
    return j->lead ? link + 1 : 0;
}

static struct rp_join_link *link_to(const struct rp_join *j, int member)
{
    int i = j->lead ? member - 1 : member;
    return i >= 0 && i < j->links ? &j->link[i] : NULL;
}

/* ---- failures ---- */

static int join_failed(const struct rp_join *j, struct rp_err *err)
{
    if (j->failed.code)
        *err = j->failed;
    return j->failed.code ? -1 : 0;
}

/* Sends the reason to everybody except one, and waits until the kernel has it. */
static void tell_all(struct rp_join *j, int except, const struct rp_err *reason)
{
    RP_JSON *body = rp_join_reason(reason);
    struct rp_err ignored;
    int waiting = 1;
    for (int i = 0; i < j->links; i++)
        if (i != except && j->link[i].channel && !j->link[i].finished &&
            rp_join_link_send(&j->link[i], RP_FRAME_ABORT, body, &ignored) < 0)
            rp_join_link_close(&j->link[i]);
    for (uint64_t until = rp_now_ns() + ABORT_MS * 1000000ull; waiting && rp_now_ns() < until;) {
        waiting = 0;
        for (int i = 0; i < j->links; i++) {
            if (i == except || rp_join_link_is_flushed(&j->link[i]))
                continue;
            if (rp_join_link_pump(&j->link[i], &ignored) < 0)
                rp_join_link_close(&j->link[i]);
            else
                waiting |= !rp_join_link_is_flushed(&j->link[i]);
        }
        if (waiting)
            poll(NULL, 0, 10);
    }
}

/* The job has failed for the reason in *err. The leader passes it on. */
static int end_job(struct rp_join *j, int link, struct rp_err *err)
{
    j->failed = *err;
    j->lost = member_of(j, link);
    if (j->lead)
        tell_all(j, link, err);
    return -1;
}

static int fail_member(struct rp_join *j, int link, const char *what, struct rp_err *err)
{
    char who[200];
    const struct rp_err why = *err;
    rp_join_who(j, member_of(j, link), who);
    rp_fail(err, RP_UNAVAILABLE, "%s: %s", who, what);
    err->sys = why.sys;
    rp_join_link_close(&j->link[link]);
    return end_job(j, link, err);
}

void rp_join_abort(struct rp_join *j, const struct rp_err *reason)
{
    if (!j->failed.code)
        j->failed = *reason;
    tell_all(j, -1, reason);
}

/* ---- sending ---- */

int rp_join_send(struct rp_join *j, int member, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    struct rp_join_link *l = link_to(j, member);
    RP_BUG_IF(!l);
    if (join_failed(j, err) < 0)
        return -1;
    if (rp_join_link_send(l, type, body, err) == 0)
        return 0;
    return err->code == RP_BUG ? -1 : fail_member(j, (int)(l - j->link), "the connection broke", err);
}

int rp_join_broadcast(struct rp_join *j, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    for (int i = 0; i < j->links; i++)
        if (rp_join_send(j, member_of(j, i), type, body, err) < 0)
            return -1;
    return 0;
}

/* ---- clocks ---- */

int rp_join_answer_clock(const struct rp_join *j, struct rp_join_link *l, const json_t *body, struct rp_err *err)
{
    struct rp_join_time t;
    rp_object_read(&t, &rp_type_join_time, body);
    t.wall = (int64_t)j->wall();
    t.monotonic = (int64_t)rp_now_ns();
    RP_JSON *answer = rp_object_json(&t, &rp_type_join_time);
    return rp_join_link_send(l, RP_FRAME_CLOCK, answer, err);
}

/* The shortest round trip wins: its answer was made within half of it around the middle. */
static void take_clock(struct rp_join *j, struct rp_join_link *l, struct rp_job_member *m, const json_t *body)
{
    const uint64_t wall = j->wall(), monotonic = rp_now_ns();
    struct rp_join_time t;
    rp_object_read(&t, &rp_type_join_time, body);
    if (!l->asked_monotonic || t.id != j->clocks)
        return;
    const int64_t trip = (int64_t)(monotonic - l->asked_monotonic), error = trip / 2 + 1;
    if (m->clock.error_ns < 0 || error < m->clock.error_ns)
        m->clock = (struct rp_clock_offset){
            .wall_ns = t.wall - (int64_t)(l->asked_wall + (wall - l->asked_wall) / 2),
            .monotonic_ns = t.monotonic - (int64_t)(l->asked_monotonic + (uint64_t)trip / 2),
            .error_ns = error};
    l->asked_monotonic = 0;
}

static int ask_clock(struct rp_join *j, struct rp_join_link *l, struct rp_err *err)
{
    RP_JSON *ask = json_pack("{s:i}", "id", j->clocks);
    l->asked_wall = j->wall();
    l->asked_monotonic = rp_now_ns();
    return rp_join_link_send(l, RP_FRAME_CLOCK, ask, err);
}

/* ---- receiving ---- */

static void keep_message(struct rp_join *j, int member, enum rp_frame type, json_t *body)
{
    struct rp_join_message *m = rp_alloc(sizeof *m);
    *m = (struct rp_join_message){.member = member, .type = type, .body = json_incref(body)};
    if (j->last)
        j->last->next = m;
    else
        j->first = m;
    j->last = m;
}

static int take_frame(struct rp_join *j, int link, enum rp_frame type, json_t *body, struct rp_err *err)
{
    struct rp_join_link *l = &j->link[link];
    const int member = member_of(j, link);
    if (type == RP_FRAME_BEAT)
        return 0;
    if (type == RP_FRAME_CLOCK && !j->lead)
        return rp_join_answer_clock(j, l, body, err);
    if (type == RP_FRAME_CLOCK) {
        take_clock(j, l, &j->member[member], body);
        return 0;
    }
    if (type == RP_FRAME_ABORT) {
        rp_join_read_reason(body, err);
        return end_job(j, link, err);
    }
    l->farewell |= type == RP_FRAME_BYE;
    keep_message(j, member, type, body);
    return 0;
}

static int pump_link(struct rp_join *j, int link, uint64_t now, struct rp_err *err)
{
    struct rp_join_link *l = &j->link[link];
    int got, broken;
    l->more = 0;
    if (!l->channel || (l->finished && l->farewell))
        return 0;
    broken = rp_join_link_pump(l, err) < 0;
    const uint64_t most = l->taken + FRAMES_AT_ONCE;
    do {
        enum rp_frame type;
        RP_JSON *body = NULL;
        struct rp_err bad;
        got = rp_join_link_take(l, &type, &body, &bad);
        if (got < 0)
            return fail_member(j, link, "received bytes that are not a message", err);
        if (got && take_frame(j, link, type, body, err) < 0)
            return j->failed.code ? -1 : fail_member(j, link, "the connection broke", err);
    } while (got && l->taken < most);
    l->more |= got;
    if (got && (broken || l->finished))
        return 0; /* first what was received */
    if (l->farewell && (broken || l->finished)) {
        rp_join_link_close(l);
        return 0;
    }
    if (broken || l->finished)
        return fail_member(j, link, "the process ended or was killed, or its host did", err);
    if (!l->farewell && now > l->heard_ns && now - l->heard_ns > j->silence_ns) {
        char what[80];
        RP_FORMAT(what, "nothing was received for %.0f s: the host or its network hangs", (double)j->silence_ns / 1e9);
        return fail_member(j, link, what, err);
    }
    return rp_join_link_beat(l, now, err) < 0 ? fail_member(j, link, "the connection broke", err) : 0;
}

/* Time in which this process itself did not look, because it was stopped, does not count as silence of the others. */
static void forgive_absence(struct rp_join *j, uint64_t now)
{
    if (j->looked_ns && now - j->looked_ns > AWAY_NS)
        for (int i = 0; i < j->links; i++)
            j->link[i].heard_ns += now - j->looked_ns;
    j->looked_ns = now;
}

static int pump_all(struct rp_join *j, struct rp_err *err)
{
    const uint64_t now = rp_now_ns();
    forgive_absence(j, now);
    for (int i = 0; i < j->links; i++)
        if (pump_link(j, i, now, err) < 0)
            return -1;
    return 0;
}

int rp_join_poll(const struct rp_join *j, struct pollfd *out, int max)
{
    int n = 0;
    for (int i = 0; i < j->links && n < max; i++)
        if (j->link[i].channel && !j->link[i].finished)
            out[n++] =
                (struct pollfd){.fd = rp_channel_fd(j->link[i].channel), .events = rp_join_link_events(&j->link[i])};
    return n;
}

/* Waits for bytes for at most `ms`. 0: a signal. */
static int wait_bytes(const struct rp_join *j, int ms)
{
    RP_FREE struct pollfd *p = rp_alloc(((size_t)j->links + 1) * sizeof *p);
    for (int i = 0; i < j->links; i++)
        if (j->link[i].more)
            ms = 0;
    return poll(p, (nfds_t)rp_join_poll(j, p, j->links), ms) >= 0 || errno != EINTR;
}

static int give_message(struct rp_join *j, int *member, enum rp_frame *type, json_t **body)
{
    struct rp_join_message *m = j->first;
    if (!m)
        return 0;
    j->first = m->next;
    j->last = j->first ? j->last : NULL;
    *member = m->member;
    *type = m->type;
    *body = m->body;
    free(m);
    return 1;
}

int rp_join_next(struct rp_join *j, int timeout_ms, int *member, enum rp_frame *type, json_t **body, struct rp_err *err)
{
    const uint64_t until = rp_now_ns() + (uint64_t)timeout_ms * 1000000u;
    *body = NULL;
    for (;;) {
        if (j->failed.code == RP_OK && pump_all(j, err) < 0 && !j->first)
            return -1;
        if (give_message(j, member, type, body)) /* what arrived before a failure comes first */
            return 1;
        if (join_failed(j, err) < 0)
            return -1;
        const uint64_t now = rp_now_ns();
        if (now >= until)
            return 0;
        const int left = (int)((until - now + 999999) / 1000000);
        if (!wait_bytes(j, left < LOOK_MS ? left : LOOK_MS))
            return 0;
    }
}

void rp_join_tend(struct rp_join *j, int timeout_ms)
{
    struct rp_err kept;
    if (j->failed.code == RP_OK && pump_all(j, &kept) == 0)
        wait_bytes(j, timeout_ms);
    else
        poll(NULL, 0, timeout_ms); /* nothing left to do; a caller that loops must not spin */
}

int rp_join_clocks(struct rp_join *j, int rounds, int timeout_ms, struct rp_err *err)
{
    const uint64_t until = rp_now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (int i = 1; i < j->members; i++)
        j->member[i].clock.error_ns = -1;
    for (int r = 0; r < rounds; r++) {
        int asked = 1;
        j->clocks++;
        for (int i = 0; i < j->links; i++)
            if (j->link[i].channel && !j->link[i].farewell && ask_clock(j, &j->link[i], err) < 0)
                return fail_member(j, i, "the connection broke", err);
        while (asked) {
            if (pump_all(j, err) < 0)
                return -1;
            asked = 0;
            for (int i = 0; i < j->links; i++)
                asked |= j->link[i].channel && !j->link[i].farewell && j->link[i].asked_monotonic;
            if (asked && rp_now_ns() >= until)
                return 0; /* not measured, or by fewer round trips */
            if (asked)
                wait_bytes(j, 10);
        }
    }
    return 0;
}

/* ---- the end ---- */

static int all_left(const struct rp_join *j)
{
    for (int i = 0; i < j->links; i++)
        if (j->link[i].channel && (!j->link[i].farewell || !rp_join_link_is_flushed(&j->link[i])))
            return 0;
    return 1;
}

int rp_join_close(struct rp_join *j, int timeout_ms, struct rp_err *err)
{
    const uint64_t until = rp_now_ns() + (uint64_t)timeout_ms * 1000000u;
    RP_JSON *nothing = json_object();
    struct rp_err ignored;
    for (int i = 0; i < j->links; i++)
        if (j->link[i].channel && !j->link[i].finished &&
            rp_join_send(j, member_of(j, i), RP_FRAME_BYE, nothing, err) < 0)
            return -1;
    while (!all_left(j)) {
        if (pump_all(j, err) < 0)
            return -1;
        if (rp_now_ns() >= until)
            return rp_fail(err, RP_UNAVAILABLE, "not all processes of the job said that they are done within %d s",
                           timeout_ms / 1000);
        if (!all_left(j))
            wait_bytes(j, LOOK_MS);
    }
    for (int i = 0; i < j->links; i++)
        if (j->link[i].channel && rp_channel_end(j->link[i].channel, &ignored) < 0)
            rp_join_link_close(&j->link[i]);
    rp_join_fini(j);
    return 0;
}

void rp_join_fini(struct rp_join *j)
{
    int member;
    enum rp_frame type;
    json_t *body;
    while (give_message(j, &member, &type, &body))
        json_decref(body);
    for (int i = 0; i < j->links; i++)
        rp_join_link_close(&j->link[i]);
    for (int i = 0; j->member && i < j->members; i++) {
        json_decref(j->member[i].addresses);
        json_decref(j->member[i].about);
    }
    free(j->link);
    free(j->member);
    j->link = NULL;
    j->member = NULL;
    j->links = 0;
}
