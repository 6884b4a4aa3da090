/* Inside the mesh: its ranks and links. mesh_link.c moves bytes, mesh.c runs exchanges, mesh_open.c connects
 * them. */
#pragma once

#include "base/buf.h"

#include <pthread.h>
#include <stdatomic.h>

#include "comm/greet.h"
#include "comm/mesh.h"

/* What precedes a message, and what a rank sends when it gives up. Numbers are little-endian.
 *   0  "RPM1": a message; "RPX1": the sender failed and closes
 *   4  message: the group; failure: the code (8 bits), zeros (24)
 *   8  message: the sender; failure: the rank that is the cause (32); RP_MISMATCH: the rank that it sent to (32)
 *  16  message: its number; failure: RP_MISMATCH: the bytes that were sent (64)
 *  24  message: its bytes; failure: RP_MISMATCH: the bytes that were expected (64) */
#define HEAD 32

struct mesh_head {
    int failed;
    unsigned what; /* enum rp_group or enum rp_code */
    int rank, to;
    uint64_t number, bytes;
};

/* One direction of a link. */
struct mesh_way {
    int next;             /* index of the transfer under way, -1: none */
    uint64_t number;      /* messages before it */
    uint64_t at;          /* bytes of its head and data that have passed */
    unsigned char head[HEAD];
    /* [MESH_WINDOW] on the host: bytes `from` to `to` of the data of a message of the device; NULL: not used yet */
    unsigned char *window;
    uint64_t from, to;
};
#define MESH_WINDOW ((size_t)1 << 20)

/* This rank's connection with another one. */
struct mesh_link {
    int rank, wanted, open;
    int fd;                     /* of shared memory's bell; a channel has its own */
    struct rp_rings rings;      /* .map NULL: a channel */
    struct rp_channel *channel;
    struct mesh_way in, out;
    unsigned char notice[HEAD]; /* what came over the socket of the bell */
    size_t noticed;
    int ended;                  /* the other side closed the connection */
    uint64_t checked_ns, unanswered_ns; /* for rp_mesh_link_cut() */
    int unanswered;                     /* bytes, likewise */
    /* while opening */
    struct rp_greeting *greeting; /* of this rank, which connects */
    int connecting;               /* descriptor without a connection yet, or -1 */
    uint64_t retry_at, retry_ns;
    struct rp_err last;
};

/* A second communicator of the same ranks, for another thread. */
struct mesh_duplicate {
    struct rp_comm comm;
    struct rp_mesh *m;
};

struct rp_mesh {
    struct rp_comm comm;
    struct mesh_duplicate duplicate;
    struct rp_mesh_opts opts; /* its pointers: to copies */
    int world, *host;
    struct rp_mesh_peer *peers;
    char *job;
    unsigned char key[RP_CHANNEL_KEY];
    struct mesh_link *links; /* [world] */
    struct rp_greet_opts greet;
    struct rp_connections stats;
    int spin;   /* more processors than ranks of this host */
    struct rp_dev *dev;   /* attached, with memory of its own; NULL: all buffers are of the host */
    atomic_int failed;    /* only close() is left */
    pthread_mutex_t lock;
    /* under the lock */
    unsigned busy;          /* groups with an exchange under way: bits 1 << group */
    struct mesh_head cause; /* of the first failure */
    int lost;               /* rp_comm.lost of it */
    const struct rp_comm *by; /* whose exchange it was */
    struct rp_err why;
    int told;               /* the others know */
};

/* One exchange: two of different groups use different links, so each may have a thread. */
struct mesh_exchange {
    struct rp_mesh *m;
    struct rp_comm *comm; /* whose exchange it is: the mesh's own, or its duplicate */
    enum rp_group g;
    const struct rp_transfer *t;
    int *next;            /* [n] the transfer after each one in its direction of its link, -1: none */
    int on_device;        /* the buffers are the attached device's */
    struct mesh_head cause; /* of its failure */
    int blamed;             /* another rank reports that this one is gone: the failure is not its own */
};

/* ---- mesh_link.c ---- */

/* The name of a rank in messages: "rank 3 (10.0.0.1:4000)". */
const char *rp_mesh_name(const struct rp_mesh *m, int rank, char out[96]);
/* Moves bytes of the transfers of both directions. 1: some moved; 0: none; -1: a failure, with its x->cause. */
int rp_mesh_link_move(struct mesh_exchange *x, struct mesh_link *l, struct rp_err *err) rp_must_check;
void rp_mesh_link_wait(struct mesh_link *l); /* asks for the bell */
short rp_mesh_link_events(const struct mesh_link *l); /* for poll(), while transfers are under way */
int rp_mesh_link_fd(const struct mesh_link *l);
void rp_mesh_link_woken(struct mesh_link *l, short events); /* what poll() reported */
/* -1: the network is cut */
int rp_mesh_link_cut(struct mesh_exchange *x, struct mesh_link *l, uint64_t now, struct rp_err *err) rp_must_check;
/* Tells the other side, as far as that is possible without waiting, why this one closes. */
void rp_mesh_link_notify(struct mesh_link *l, const struct mesh_head *h);
void rp_mesh_link_close(struct mesh_link *l);

/* ---- mesh.c ---- */

extern const struct rp_comm_ops rp_mesh_ops; /* of an opened mesh */
