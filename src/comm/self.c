/* A world of one: every group has only this rank, and exchanged data stays in place. */
#include "comm/comm.h"

#include <string.h>

static int no_peer(struct rp_comm *c, enum rp_group g, int peer, const void *data, size_t bytes, struct rp_err *err)
{
    (void)c, (void)g, (void)data, (void)bytes;
    return rp_fail(err, RP_BUG, "no rank %d to send to in a world of one", peer);
}

static int no_sender(struct rp_comm *c, enum rp_group g, int peer, void *data, size_t bytes, struct rp_err *err)
{
    return no_peer(c, g, peer, data, bytes, err);
}

static int own_piece(struct rp_comm *c, enum rp_group g, void *out, const void *in, size_t bytes, struct rp_err *err)
{
    (void)c, (void)g, (void)err;
    if (out != in)
        memcpy(out, in, bytes);
    return 0;
}

static int alone(struct rp_comm *c, enum rp_group g, struct rp_err *err)
{
    (void)c, (void)g, (void)err;
    return 0;
}

static void nothing(struct rp_comm *c)
{
    (void)c;
}

struct rp_comm *rp_comm_self(void)
{
    static const struct rp_comm_ops op = {no_peer, no_sender, own_piece, own_piece, alone, nothing};
    static struct rp_comm self = {.op = &op, .size = {1, 1, 1, 1}};
    return &self;
}
