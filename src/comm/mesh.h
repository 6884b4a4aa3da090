/* Ranks connected by sockets: shared memory within a host, TLS 1.3 between hosts.
 *
 * What:    a transport of comm.h for buffers of host memory. On one host a connection carries a byte that wakes the
 *          other side, and its end tells of a death; the data goes through rings of shared memory (ring.h). Between
 *          hosts it goes through encrypted channels. Messages of a device with memory of its own are copied to and from
 *          the host window by window: the other side does not notice.
 * Flow:    rp_mesh_listen() -> the port, which all ranks learn from each other -> rp_mesh_open() on every rank ->
 *          rp_comm_exchange() -> c->op->close().
 * Owner:   rp_mesh_open() takes the listener and copies what its options point to; an attached device is borrowed. One
 *          thread at a time uses a communicator; a second one has op->duplicate(), for another group.
 * Extend:  messages of another kind are a magic in mesh_inner.h; a connection's first bytes are in greet.h.
 *
 * Of two ranks the higher one connects to the lower one. A listening rank accepts connections until all ranks are
 * connected: those without the key of the job, of another job, or of a rank that is connected already are refused and
 * counted; they cost little memory and time, and ranks that are refused by mistake try again. After that nothing
 * listens.
 *
 * Every message is preceded by its number and size; numbers count the messages in one direction between two ranks.
 */
#pragma once

#include "comm/comm.h"

struct rp_mesh_peer {
    const char *address; /* IPv4 or IPv6, in numbers */
    int port;
    int host; /* number of its host: equal for ranks of one host */
};

struct rp_mesh_opts {
    int rank;
    struct rp_degrees layout;
    const struct rp_mesh_peer *ranks; /* [world], this rank too */
    const unsigned char *key;         /* of the job: RP_CHANNEL_KEY bytes */
    const char *job;                  /* its id: as in channel.h */
    int listener;                     /* of rp_mesh_listen() */
    double open_s;                    /* the time to connect all ranks; 0: 60 */
    double greet_s;                   /* the time that a connection has to prove where it comes from; 0: 10 */
    double silence_s;                 /* in an exchange, without a byte of any rank; 0: any time */
    /* connect only ranks with a group other than the world in common, and those of the world's barrier */
    int sparse;
    int no_rings;                     /* share no memory */
    int (*waiting)(void *arg, int rank); /* as in comm.h; while opening too */
    void *waiting_arg;
    int *lost; /* set where opening fails because of a rank; NULL: not asked */
};

/* Memory of connections. */
struct rp_mesh_memory {
    uint64_t ring;    /* bytes of one ring; each pair of ranks of a host has two */
    uint64_t host;    /* shared memory of all ranks on the rank's host */
    uint64_t created; /* of that what this rank allocates: the sum over the ranks of a host is `host` */
    uint64_t buffers; /* of this rank's encrypted channels, at most */
};

/* address: NULL for all addresses of this host, IPv4 and IPv6; port: 0 for any. The descriptor, and its port in *bound.
 * Only rp_mesh_open() answers what connects. */
int rp_mesh_listen(const char *address, int port, int *bound, struct rp_err *err) rp_must_check;
/* RP_UNAVAILABLE: a rank did not come in time, named with what happened last; RP_INTERRUPTED. */
struct rp_comm *rp_mesh_open(const struct rp_mesh_opts *o, struct rp_err *err) rp_must_check;
/* host: number of each rank's host, NULL: one host. */
void rp_mesh_memory(struct rp_mesh_memory *m, struct rp_degrees l, const int *host, int rank, int sparse);
/* Do these ranks get a connection? */
int rp_mesh_connected(struct rp_degrees l, int sparse, int a, int b);
