#include "launch/join_link.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"

#include <string.h>

enum { BEAT_NS = 1000000000, READ_AT_ONCE = 65536, IN_MAX = RP_FRAME_MAX + READ_AT_ONCE };

void rp_join_link_open(struct rp_join_link *l, struct rp_channel *c)
{
    struct sockaddr_storage peer = {0};
    socklen_t n = sizeof peer;
    *l = (struct rp_join_link){.channel = c, .heard_ns = rp_now_ns()};
    l->sent_ns = l->heard_ns;
    if (getpeername(rp_channel_fd(c), (struct sockaddr *)&peer, &n) == 0)
        rp_address_text(l->address, &peer, 0);
}

void rp_join_link_close(struct rp_join_link *l)
{
    rp_channel_free(l->channel);
    l->channel = NULL;
    rp_buf_fini(&l->in);
    rp_buf_fini(&l->out);
    l->in_at = l->out_at = 0;
}

static int push_out(struct rp_join_link *l, struct rp_err *err)
{
    while (l->out_at < l->out.size) {
        size_t took;
        if (rp_channel_write(l->channel, l->out.data + l->out_at, l->out.size - l->out_at, &took, err) < 0)
            return -1;
        if (!took)
            break;
        l->out_at += took;
    }
    if (l->out_at == l->out.size) {
        rp_buf_fini(&l->out);
        l->out_at = 0;
    }
    return rp_channel_flush(l->channel, err) < 0 ? -1 : 0;
}

int rp_join_link_send(struct rp_join_link *l, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    if (!l->channel)
        return rp_fail(err, RP_UNAVAILABLE, "the connection is closed");
    if (rp_frame_encode(&l->out, type, body, err) < 0)
        return -1;
    l->sent_ns = rp_now_ns();
    return push_out(l, err);
}

int rp_join_link_beat(struct rp_join_link *l, uint64_t now, struct rp_err *err)
{
    RP_JSON *nothing = json_object();
    if (!l->channel || l->finished || now < l->sent_ns + BEAT_NS)
        return 0;
    if (l->out_at < l->out.size) { /* what waits there is as good as a beat */
        l->sent_ns = now;
        return 0;
    }
    return rp_join_link_send(l, RP_FRAME_BEAT, nothing, err);
}

int rp_join_link_pump(struct rp_join_link *l, struct rp_err *err)
{
    if (!l->channel || l->finished)
        return 0;
    l->in.size -= l->in_at;
    if (l->in_at)
        memmove(l->in.data, l->in.data + l->in_at, l->in.size);
    l->in_at = 0;
    struct rp_err unsent = {0}; /* what was received before a connection broke still counts */
    int broken = push_out(l, &unsent) < 0;
    for (l->more = 0; !l->finished;) {
        char bytes[READ_AT_ONCE];
        size_t got;
        if (l->in.size > IN_MAX) {
            l->more = 1;
            break;
        }
        int n = rp_channel_read(l->channel, bytes, sizeof bytes, &got, err);
        if (n < 0)
            return -1;
        l->finished = n == 1;
        if (!got)
            break;
        rp_buf_add(&l->in, bytes, got);
        l->heard_ns = rp_now_ns();
    }
    if (broken)
        *err = unsent;
    return broken ? -1 : 0;
}

int rp_join_link_take(struct rp_join_link *l, enum rp_frame *type, json_t **body, struct rp_err *err)
{
    size_t used;
    const int got = rp_frame_decode_at(l->in.data + l->in_at, l->in.size - l->in_at, &used, type, body, err);
    l->in_at += used;
    l->taken += got > 0;
    return got;
}

int rp_join_link_is_flushed(const struct rp_join_link *l)
{
    return !l->channel || (l->out_at == l->out.size && !(rp_channel_events(l->channel) & POLLOUT));
}

short rp_join_link_events(const struct rp_join_link *l)
{
    return l->finished ? 0 : rp_channel_events(l->channel);
}
