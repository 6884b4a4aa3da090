/* The bytes of one link: heads and data of messages, through rings or an encrypted channel. */
#include "backend/backend.h"
#include "base/little_endian.h"
#include "comm/mesh_inner.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TOGETHER 8192 /* bytes of a message that go with its head in one piece */
#define PIECES 8      /* of one direction, before the other has its turn */
#define PIECE_MOST (1u << 18)
#define BELL 'b'
#define CHECK_NS 1000000000ull
#define CUT_NS 9000000000ull

/* ---- heads ---- */

static void write_head(unsigned char out[HEAD], const struct mesh_head *h)
{
    memset(out, 0, HEAD);
    memcpy(out, h->failed ? "RPX1" : "RPM1", 4);
    rp_put_le(out + 4, h->what, 1);
    rp_put_le(out + 8, (uint32_t)h->rank, 4);
    rp_put_le(out + 12, (uint32_t)h->to, 4);
    rp_put_le(out + 16, h->number, 8);
    rp_put_le(out + 24, h->bytes, 8);
}

/* -1: not a head */
static int read_head(struct mesh_head *h, const unsigned char in[HEAD])
{
    const int failed = memcmp(in, "RPX1", 4) == 0;
    *h = (struct mesh_head){failed,
                            in[4],
                            (int)rp_get_le(in + 8, 4),
                            (int)rp_get_le(in + 12, 4),
                            rp_get_le(in + 16, 8),
                            rp_get_le(in + 24, 8)};
    return failed || memcmp(in, "RPM1", 4) == 0 ? 0 : -1;
}

/* ---- failures ---- */

const char *rp_mesh_name(const struct rp_mesh *m, int rank, char out[96])
{
    const struct rp_mesh_peer *p = &m->peers[rank];
    snprintf(out, 96, strchr(p->address, ':') ? "rank %d ([%.60s]:%d)" : "rank %d (%.60s:%d)", rank, p->address,
             p->port);
    return out;
}

static int fail_lost_rank(struct mesh_exchange *x, const struct mesh_link *l, const char *why, struct rp_err *err)
{
    char name[96];
    x->cause = (struct mesh_head){.failed = 1, .what = RP_UNAVAILABLE, .rank = l->rank};
    return rp_fail(err, RP_UNAVAILABLE, "%s is gone: %s", rp_mesh_name(x->m, l->rank, name), why);
}

static int fail_mismatch(const struct mesh_exchange *x, struct rp_err *err)
{
    const struct mesh_head *h = &x->cause;
    char name[96];
    if (h->number == h->bytes)
        return rp_fail(err, RP_MISMATCH, "%s sent rank %d another message than it expected",
                       rp_mesh_name(x->m, h->rank, name), h->to);
    return rp_fail(err, RP_MISMATCH, "%s sent %llu bytes to rank %d, which expected %llu",
                   rp_mesh_name(x->m, h->rank, name), (unsigned long long)h->number, h->to,
                   (unsigned long long)h->bytes);
}

/* The other side gave up, and names the rank that made it. */
static int fail_reported(struct mesh_exchange *x, const struct mesh_link *l, const struct mesh_head *h,
                         struct rp_err *err)
{
    const int own = x->comm->rank[RP_GROUP_WORLD];
    char name[96], cause[96];
    rp_mesh_name(x->m, l->rank, name);
    x->cause = *h;
    if (h->rank < 0 || h->rank >= x->m->world)
        return fail_lost_rank(x, l, "it sent a report that is not one", err);
    if (h->what == RP_MISMATCH)
        return fail_mismatch(x, err);
    if (h->rank == l->rank)
        return rp_fail(err, RP_UNAVAILABLE, "%s stopped: %s", name, rp_code_meaning((enum rp_code)h->what));
    x->blamed = h->rank == own;
    return rp_fail(err, RP_UNAVAILABLE, "%s failed, as %s reports", rp_mesh_name(x->m, h->rank, cause), name);
}

/* ---- bytes ---- */

/* Wakes the other side. A full socket has bells that it has not heard yet. */
static void ring_bell(struct mesh_link *l)
{
    const char bell = BELL;
    if (RP_RETRY(send(l->fd, &bell, 1, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        l->ended = 1;
}

static int link_write(struct mesh_link *l, const void *data, size_t size, size_t *took, struct rp_err *err)
{
    if (l->channel)
        return rp_channel_write(l->channel, data, size, took, err);
    *took = rp_ring_write(&l->rings.out, data, size);
    if (*took && rp_ring_wanted(&l->rings.out, 1))
        ring_bell(l);
    return 0;
}

static int link_read(struct mesh_link *l, void *data, size_t size, size_t *got, struct rp_err *err)
{
    if (l->channel)
        return rp_channel_read(l->channel, data, size, got, err);
    *got = rp_ring_read(&l->rings.in, data, size);
    if (*got && rp_ring_wanted(&l->rings.in, 0))
        ring_bell(l);
    return 0;
}

/* ---- data ---- */

/* Bytes [at, at + *size) of a message's data that can be sent now. */
static const unsigned char *data_to_send(const struct mesh_exchange *x, struct mesh_way *w, const struct rp_transfer *t,
                                         uint64_t at, size_t *size, struct rp_err *err)
{
    *size = t->bytes - (size_t)at;
    if (!x->on_device)
        return (const unsigned char *)t->data + at;
    if (!w->window)
        w->window = rp_alloc(MESH_WINDOW);
    if (at < w->from || at >= w->to) {
        const size_t n = *size < MESH_WINDOW ? *size : MESH_WINDOW;
        if (n && x->m->dev->backend->download(x->m->dev, w->window, (const char *)t->data + at, n, err) < 0)
            return NULL;
        w->from = at;
        w->to = at + n;
    }
    *size = (size_t)(w->to - at);
    return w->window + (at - w->from);
}

/* Where bytes of a message's data go from `at` on: *size of them. */
static unsigned char *place_for_data(const struct mesh_exchange *x, struct mesh_way *w, const struct rp_transfer *t,
                                     uint64_t at, size_t *size)
{
    *size = t->bytes - (size_t)at;
    if (!x->on_device)
        return (unsigned char *)t->data + at;
    if (!w->window)
        w->window = rp_alloc(MESH_WINDOW);
    if (at == w->to) { /* the window was passed on */
        w->from = at;
        w->to = at + (*size < MESH_WINDOW ? *size : MESH_WINDOW);
    }
    *size = (size_t)(w->to - at);
    return w->window + (at - w->from);
}

/* Data has arrived up to `at`: a full window goes to the device. */
static int pass_window_on(const struct mesh_exchange *x, const struct mesh_way *w, const struct rp_transfer *t,
                          uint64_t at, struct rp_err *err)
{
    if (!x->on_device || at != w->to || at == w->from)
        return 0;
    return x->m->dev->backend->upload(x->m->dev, (char *)t->data + w->from, w->window, (size_t)(w->to - w->from), err);
}

static void message_done(struct mesh_way *w, const int *next)
{
    w->next = next[w->next];
    w->number++;
    w->at = w->from = w->to = 0;
}

/* The next bytes of the message under way, head and data as one stream; NULL: the device failed. */
static const void *next_bytes(const struct mesh_exchange *x, struct mesh_way *w, const struct rp_transfer *t,
                              unsigned char together[HEAD + TOGETHER], size_t *size, struct rp_err *err)
{
    if (w->at >= HEAD)
        return data_to_send(x, w, t, w->at - HEAD, size, err);
    const unsigned char *data = data_to_send(x, w, t, 0, size, err);
    if (!data)
        return NULL;
    *size = *size < TOGETHER ? *size : TOGETHER;
    memcpy(together, w->head, HEAD);
    memcpy(together + HEAD, data, *size);
    *size += HEAD - (size_t)w->at;
    return together + w->at;
}

static int move_out(struct mesh_exchange *x, struct mesh_link *l, struct rp_err *err)
{
    unsigned char together[HEAD + TOGETHER];
    struct mesh_way *w = &l->out;
    struct rp_err why;
    int moved = 0;
    for (int k = 0; k < PIECES && w->next >= 0; k++) {
        const struct rp_transfer *now = &x->t[w->next];
        const struct mesh_head head = {
            .what = x->g, .rank = x->comm->rank[RP_GROUP_WORLD], .number = w->number, .bytes = now->bytes};
        size_t took = 0, size;
        if (w->at == 0)
            write_head(w->head, &head);
        const void *piece = next_bytes(x, w, now, together, &size, err);
        if (!piece)
            return -1;
        if (size && link_write(l, piece, size < PIECE_MOST ? size : PIECE_MOST, &took, &why) < 0)
            return fail_lost_rank(x, l, why.msg, err);
        w->at += took;
        moved |= took > 0;
        if (w->at == HEAD + now->bytes) {
            const int sent = l->channel ? rp_channel_flush(l->channel, &why) : 1;
            if (sent < 0)
                return fail_lost_rank(x, l, why.msg, err);
            if (!sent)
                return moved;
            message_done(w, x->next);
            moved = 1;
        } else if (!took) {
            return moved;
        }
    }
    return moved;
}

/* Is it the message that is expected? */
static int check_head(struct mesh_exchange *x, const struct mesh_link *l, uint64_t bytes, struct rp_err *err)
{
    const int own = x->comm->rank[RP_GROUP_WORLD];
    struct mesh_head h;
    char name[96];
    if (read_head(&h, l->in.head) < 0)
        return fail_lost_rank(x, l, "it sent something that is not a message", err);
    if (h.failed)
        return fail_reported(x, l, &h, err);
    if (h.what == x->g && h.number == l->in.number && h.rank == l->rank && h.bytes == bytes)
        return 0;
    x->cause = (struct mesh_head){.failed = 1, .what = RP_MISMATCH, .rank = l->rank, .to = own};
    if (h.what != x->g || h.number != l->in.number || h.rank != l->rank)
        return rp_fail(err, RP_MISMATCH,
                       "%s sent message %llu of the %s group to rank %d, which expected message %llu of the %s group",
                       rp_mesh_name(x->m, l->rank, name), (unsigned long long)h.number,
                       h.what < RP_GROUPS ? rp_group_name((enum rp_group)h.what) : "?", own,
                       (unsigned long long)l->in.number, rp_group_name(x->g));
    x->cause.number = h.bytes;
    x->cause.bytes = bytes;
    return fail_mismatch(x, err);
}

static int move_in(struct mesh_exchange *x, struct mesh_link *l, struct rp_err *err)
{
    struct mesh_way *w = &l->in;
    struct rp_err why;
    int moved = 0;
    for (int k = 0; k < 2 * PIECES && w->next >= 0; k++) {
        const struct rp_transfer *now = &x->t[w->next];
        const int in_head = w->at < HEAD;
        size_t got, size = HEAD - (size_t)w->at;
        void *to = in_head ? w->head + w->at : place_for_data(x, w, now, w->at - HEAD, &size);
        const int r = link_read(l, to, size < PIECE_MOST ? size : PIECE_MOST, &got, &why);
        if (r != 0)
            return fail_lost_rank(x, l, r < 0 ? why.msg : "it closed the connection", err);
        if (!got)
            break;
        w->at += got;
        moved = 1;
        if (in_head && w->at == HEAD && check_head(x, l, now->bytes, err) < 0)
            return -1;
        if (!in_head && pass_window_on(x, w, now, w->at - HEAD, err) < 0)
            return -1;
        if (w->at == HEAD + now->bytes)
            message_done(w, x->next);
    }
    return moved;
}

/* Bells, and perhaps a report of a failure after them. */
static void hear_bells(struct mesh_link *l)
{
    unsigned char bytes[256] = {0};
    ssize_t n;
    while ((n = RP_RETRY(recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT))) > 0)
        for (ssize_t i = 0; i < n; i++)
            if (l->noticed < HEAD && (l->noticed || bytes[i] != BELL))
                l->notice[l->noticed++] = bytes[i];
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        l->ended = 1;
    if (l->noticed == HEAD)
        l->ended = 1;
}

/* The connection ended in the middle of transfers, after the last byte that came over it. */
static int fail_ended(struct mesh_exchange *x, struct mesh_link *l, struct rp_err *err)
{
    struct mesh_head h;
    struct rp_err ignored;
    size_t got;
    if (!l->channel)
        hear_bells(l); /* ringing may have failed before they were heard */
    else if (l->in.at == 0 && rp_channel_read(l->channel, l->notice, HEAD, &got, &ignored) == 0)
        l->noticed = got;
    if (l->noticed == HEAD && read_head(&h, l->notice) == 0 && h.failed)
        return fail_reported(x, l, &h, err);
    return fail_lost_rank(x, l, "its connection ended", err);
}

int rp_mesh_link_move(struct mesh_exchange *x, struct mesh_link *l, struct rp_err *err)
{
    const int ended = l->ended; /* before looking for the last bytes */
    const int out = l->out.next >= 0 && !ended ? move_out(x, l, err) : 0;
    if (out < 0)
        return -1;
    const int in = l->in.next >= 0 ? move_in(x, l, err) : 0;
    if (in < 0)
        return -1;
    if (!l->channel && (rp_ring_broken(&l->rings.in) || rp_ring_broken(&l->rings.out)))
        return fail_lost_rank(x, l, "it broke the memory that it shares", err);
    if (ended && !in && (l->in.next >= 0 || l->out.next >= 0))
        return fail_ended(x, l, err);
    return in || out;
}

/* ---- waiting ---- */

void rp_mesh_link_wait(struct mesh_link *l)
{
    if (!l->channel && l->in.next >= 0)
        rp_ring_wait_bytes(&l->rings.in);
    if (!l->channel && l->out.next >= 0)
        rp_ring_wait_room(&l->rings.out);
}

/* A channel is not asked for bytes that belong to a later exchange: they would wake every poll(). */
short rp_mesh_link_events(const struct mesh_link *l)
{
    if (!l->channel)
        return POLLIN;
    return (short)((l->in.next >= 0 ? POLLIN : 0) | (rp_channel_events(l->channel) & POLLOUT) | POLLRDHUP);
}

int rp_mesh_link_fd(const struct mesh_link *l)
{
    return l->channel ? rp_channel_fd(l->channel) : l->fd;
}

void rp_mesh_link_woken(struct mesh_link *l, short events)
{
    if (!l->channel && events)
        hear_bells(l);
    else if (l->in.next < 0 && (events & (POLLRDHUP | POLLHUP | POLLERR)))
        l->ended = 1;
}

/* Sampled once a second: data, or the question whether the other side has room for more, is sent again and again
 * without an answer. A network that loses much may be at that in every sample and still deliver: then what waits for an
 * answer is not the same. */
int rp_mesh_link_cut(struct mesh_exchange *x, struct mesh_link *l, uint64_t now, struct rp_err *err)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    int queued = 0;
    if (!l->channel || now - l->checked_ns < CHECK_NS)
        return 0;
    l->checked_ns = now;
    const int fd = rp_channel_fd(l->channel);
    const int again =
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 && (info.tcpi_retransmits || info.tcpi_probes);
    const int moved = ioctl(fd, SIOCOUTQ, &queued) < 0 || queued != l->unanswered;
    l->unanswered = queued;
    if (!again)
        l->unanswered_ns = 0;
    else if (!l->unanswered_ns || moved)
        l->unanswered_ns = now;
    else if (now - l->unanswered_ns >= CUT_NS)
        return fail_lost_rank(x, l, "the network does not deliver anything to it", err);
    return 0;
}

/* ---- the end ---- */

void rp_mesh_link_notify(struct mesh_link *l, const struct mesh_head *h)
{
    unsigned char head[HEAD];
    struct rp_err ignored;
    size_t took;
    write_head(head, h);
    if (!l->open)
        return;
    if (!l->channel)
        (void)!send(l->fd, head, HEAD, MSG_NOSIGNAL | MSG_DONTWAIT);
    else if (l->out.at == 0 && rp_channel_write(l->channel, head, HEAD, &took, &ignored) == 0)
        (void)!rp_channel_flush(l->channel, &ignored);
}

void rp_mesh_link_close(struct mesh_link *l)
{
    struct rp_err ignored;
    if (l->channel)
        (void)!rp_channel_end(l->channel, &ignored);
    rp_channel_free(l->channel);
    l->channel = NULL;
    rp_closep(&l->fd);
    rp_rings_close(&l->rings);
    free(l->in.window);
    free(l->out.window);
    l->in.window = l->out.window = NULL;
    l->open = 0;
}
