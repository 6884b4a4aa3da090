/* An encrypted, authenticated stream of bytes between two ranks of a job, over a connected socket.
 *
 * What:    TLS 1.3 with a pre-shared key and X25519: no certificates, tickets, resumption or early data. The key of a
 *          channel is derived from the key of the job, the purpose, the job's id and the ranks of both sides, and these
 *          are the identity that the client sends: a connection from another rank, to another rank, for another purpose
 *          or job fails in the handshake, and so does a recording.
 * Flow:    connected socket -> rp_channel_connect() | rp_channel_accept() -> rp_channel_handshake() until 1 -> read,
 *          write -> rp_channel_end() -> rp_channel_free(). No call waits: after 0 or fewer bytes than asked for, poll()
 *          the socket for rp_channel_events().
 * Owner:   the channel owns the socket and closes it. One thread at a time uses a channel; several channels may be used
 *          by several threads.
 * Extend:  a new use of channels has a purpose of its own.
 *
 * The identity, in clear: "repro1 PURPOSE JOB FROM TO", FROM being the rank of the client.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_CHANNEL_KEY 32      /* bytes of a job's key */
#define RP_CHANNEL_JOB_MAX 64  /* characters of a job's id: letters, digits, '.', '_', '-' */

#define RP_CHANNEL_MEMORY (320 << 10) /* bytes of one channel, at most */

struct rp_channel;

/* What both sides have to agree on. The strings are copied. */
struct rp_channel_opts {
    const unsigned char *key; /* [RP_CHANNEL_KEY] of the job */
    const char *purpose;      /* "control", "data": characters as in a job's id, at most 16 */
    const char *job;
    int own; /* rank of this side; any number of at least -1 that both sides know */
    uint32_t key_records; /* new keys after this number of records sent; 0: 2^22, where RFC 8446 (5.5) allows 2^24.5 */
};

/* fd: a connected stream socket, taken also when this fails (RP_USAGE: the job's id; RP_UNAVAILABLE: no TLS in this
 * program). It becomes non-blocking. */
struct rp_channel *rp_channel_connect(int fd, const struct rp_channel_opts *o, int peer,
                                      struct rp_err *err) rp_must_check;
/* admit(arg, rank) decides whether a client that claims to be `rank` may go on: 1, or 0 with an error. It is called
 * before the client has proved anything: what it changes must not depend on that. NULL: any rank. */
struct rp_channel *rp_channel_accept(int fd, const struct rp_channel_opts *o,
                                     int (*admit)(void *arg, int rank, struct rp_err *err), void *arg,
                                     struct rp_err *err) rp_must_check;
void rp_channel_free(struct rp_channel *c); /* NULL is allowed. Closes the socket */

/* 1: both sides have proved that they know the key (the client learns of a refusal when it reads), 0: not yet.
 * RP_SIGNATURE: the other side does not have the key, or another job's, purpose's or rank's; RP_MALFORMED: it does not
 * speak TLS 1.3; RP_UNAVAILABLE: it is gone. */
int rp_channel_handshake(struct rp_channel *c, struct rp_err *err) rp_must_check;
/* rank of the other side; of a server before the end of its handshake -2 */
int rp_channel_peer(const struct rp_channel *c);
int rp_channel_fd(const struct rp_channel *c);
uint64_t rp_channel_key_updates(const struct rp_channel *c); /* of this side */
short rp_channel_events(const struct rp_channel *c); /* POLLIN, and POLLOUT if something is waiting to be sent */

/* As many bytes as there are, at most `size`: *got, which is 0 if there are none yet. 0, or 1 after the other side's
 * rp_channel_end(), or -1: RP_UNAVAILABLE if the connection ended without that, RP_SIGNATURE if bytes were changed on
 * their way. A caller reads until *got is 0 before it waits: bytes that were decrypted already do not wake poll(). */
int rp_channel_read(struct rp_channel *c, void *data, size_t size, size_t *got, struct rp_err *err) rp_must_check;
/* Takes as many bytes as fit, at most `size`: *took. They are encrypted and may still wait in the channel's own buffer:
 * rp_channel_flush(). */
int rp_channel_write(struct rp_channel *c, const void *data, size_t size, size_t *took,
                     struct rp_err *err) rp_must_check;
/* 1: the kernel has everything that was written; 0: not yet, wait for POLLOUT. */
int rp_channel_flush(struct rp_channel *c, struct rp_err *err) rp_must_check;
/* No more will be written; the other side can tell this from a broken connection. 1, 0 or -1 as rp_channel_flush(). */
int rp_channel_end(struct rp_channel *c, struct rp_err *err) rp_must_check;

/* The rank that an identity claims for this purpose, job and recipient, or -2. */
int rp_channel_identity(const struct rp_channel_opts *o, const void *identity, size_t size);
