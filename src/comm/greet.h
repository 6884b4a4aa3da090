/* The first bytes of a connection between two ranks: who is there, and how they will exchange bytes.
 *
 * What:    a rank of another host gets an encrypted channel (channel.h); one of the same host proves that it knows the
 *          key of the job, and gets rings of shared memory (ring.h), or an encrypted channel over the same connection
 *          where memory cannot be shared.
 * Flow:    connected socket -> rp_greet_start() -> rp_greet_step() whenever poll() reports it, until 1 -> rings or
 *          channel.
 * Owner:   a greeting owns its socket, rings and channel until they are taken (the pointers or descriptor set to NULL
 *          or -1).
 * Extend:  a new form of a message has a new magic; both sides refuse what they do not know. Whatever a rank reads
 *          before the other side has proved that it knows the key of the job belongs here, with inputs in
 *          tests/fuzz/corpus/greet.
 *
 * On one host, C being the rank that connected, S the one that listens; numbers are little-endian:
 *   C > S  HELLO      "RPL1", rank of C, rank of S (32 bits), zeros (32), namespace of process ids (64), nonce (32
 *                     bytes), job (64 bytes, with zeros)
 *   S > C  CHALLENGE  "RPL2", zeros (32), namespace (64), nonce (32 bytes), MAC of "server", HELLO and the above
 *   C > S  PROOF      "RPL3", zeros (32), offer of shared memory, MAC of "client", HELLO, CHALLENGE and the above
 *   S > C  ANSWER     "RPL4", 1: rings, 0: TLS follows (32), MAC of "answer", HELLO, CHALLENGE, PROOF and the above
 * No message can be used in another place or connection: each MAC covers its name and the nonces of both sides.
 * Over TLS the server ends with "RPL5" and zeros (32), so that the client knows that it was let in.
 */
#pragma once

#include "comm/channel.h"
#include "comm/ring.h"

#define RP_GREET_HELLO (24 + 32 + RP_CHANNEL_JOB_MAX)
#define RP_GREET_CHALLENGE (16 + 32 + 32)
#define RP_GREET_PROOF (8 + RP_RING_OFFER + 32)
#define RP_GREET_ANSWER (8 + 32)
#define RP_GREET_TALK (RP_GREET_HELLO + RP_GREET_CHALLENGE + RP_GREET_PROOF + RP_GREET_ANSWER)
#define RP_GREET_WELCOME 8

/* Common to all greetings of a rank; borrowed. */
struct rp_greet_opts {
    struct rp_channel_opts channel; /* key, job and own rank too */
    size_t ring_bytes;
    int no_rings; /* this rank shares no memory */
    /* May this rank connect now, with shared memory or TLS? 1, or 0 with an error. Called before and after it proved
     * who it is. */
    int (*admit)(void *arg, int rank, int one_host, struct rp_err *err);
    void *admit_arg;
};

struct rp_greeting {
    const struct rp_greet_opts *opts;
    int fd;           /* -1: taken, or the channel's */
    int client, rank; /* rank: of the other side; of a server claimed until 1 was returned */
    int state;
    int one_host, refused_rings; /* refused_rings: TLS within a host, because memory cannot be shared */
    struct rp_channel *channel;
    struct rp_rings rings; /* .map: they are used */
    unsigned char talk[RP_GREET_TALK]; /* all messages so far, one after the other */
    size_t size, sent;                 /* of talk; of the welcome */
};

/* client: to `rank`, on the same host or not; else any rank that opts->admit() allows. Takes fd, a connected
 * non-blocking socket. */
int rp_greet_start(struct rp_greeting *g, const struct rp_greet_opts *o, int fd, int client, int rank, int one_host,
                   struct rp_err *err) rp_must_check;
/* 1: the other side has proved that it is `rank`; 0: not yet; -1: refused or gone. */
int rp_greet_step(struct rp_greeting *g, struct rp_err *err) rp_must_check;
int rp_greet_fd(const struct rp_greeting *g);
short rp_greet_events(const struct rp_greeting *g);
void rp_greet_end(struct rp_greeting *g); /* closes what was not taken */
