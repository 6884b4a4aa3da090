/* Channels of a program without OpenSSL's libssl, which is repro-gpu: its ranks of several hosts cannot be connected by sockets. None can
 * be opened, so the functions that take one are never called. */
#include "comm/channel.h"

#include "base/buf.h"

static struct rp_channel *refuse(int fd, struct rp_err *err)
{
    rp_closep(&fd);
    return rp_fail_null(err, RP_UNAVAILABLE, "the GPU worker has no encrypted connections");
}

static void bug_if_called(const struct rp_channel *c)
{
    (void)c;
    rp_bug(__FILE__, __LINE__, "a channel without TLS");
}

struct rp_channel *rp_channel_connect(int fd, const struct rp_channel_opts *o, int peer, struct rp_err *err)
{
    (void)o, (void)peer;
    return refuse(fd, err);
}

struct rp_channel *rp_channel_accept(int fd, const struct rp_channel_opts *o, int (*admit)(void *arg, int rank, struct rp_err *err),
                                     void *arg, struct rp_err *err)
{
    (void)o, (void)admit, (void)arg;
    return refuse(fd, err);
}

void rp_channel_free(struct rp_channel *c)
{
    RP_BUG_IF(c);
}

int rp_channel_handshake(struct rp_channel *c, struct rp_err *err)
{
    (void)err;
    bug_if_called(c);
    return -1;
}

int rp_channel_peer(const struct rp_channel *c)
{
    bug_if_called(c);
    return -2;
}

int rp_channel_fd(const struct rp_channel *c)
{
    bug_if_called(c);
    return -1;
}

short rp_channel_events(const struct rp_channel *c)
{
    bug_if_called(c);
    return 0;
}

int rp_channel_read(struct rp_channel *c, void *data, size_t size, size_t *got, struct rp_err *err)
{
    (void)data, (void)size, (void)got, (void)err;
    bug_if_called(c);
    return -1;
}

int rp_channel_write(struct rp_channel *c, const void *data, size_t size, size_t *took, struct rp_err *err)
{
    (void)data, (void)size, (void)took, (void)err;
    bug_if_called(c);
    return -1;
}

int rp_channel_flush(struct rp_channel *c, struct rp_err *err)
{
    return rp_channel_handshake(c, err);
}

int rp_channel_end(struct rp_channel *c, struct rp_err *err)
{
    return rp_channel_handshake(c, err);
}
