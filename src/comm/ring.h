/* Two rings of shared memory between two processes of one host: a stream of bytes in each direction.
 *
 * What:    one producer and one consumer for each ring, no locks. A side that has nothing to do sets a flag in the
 *          ring, and the other side then rings a bell, which is the caller's (a byte over a socket).
 * Flow:    rp_rings_create() -> the offer, sent to the other process by a way that is authenticated -> rp_rings_join()
 *          -> write, read.
 * Owner:   the mapping is the caller's until rp_rings_close(). The memory has no name once both sides have it; it goes
 *          with the last mapping.
 * Extend:  another way to share memory is an enum rp_ring_kind with a case in create and join.
 *
 * The file: one page with the token and the positions of both rings, then the bytes of the ring of the creator, then
 * those of the other one. Positions count all bytes that ever passed; the ring's size is a power of two.
 */
#pragma once

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RP_RING_LEAST 4096
#define RP_RING_MOST (1 << 20)
#define RP_RING_TOKEN 16
#define RP_RING_OFFER 48 /* bytes of an offer as it is sent */

enum rp_ring_kind {
    /* opened through /proc/PID/fd: both processes see the same process ids. It needs no room in /dev/shm */
    RP_RING_NONE,
    RP_RING_MEMFD,
    RP_RING_FILE,  /* of /dev/shm, which containers may share */
    RP_RING_KINDS,
};

struct rp_ring_half; /* the positions, in shared memory */
struct rp_ring {
    struct rp_ring_half *at;
    unsigned char *data;
    uint64_t size, position; /* position: this side's */
};

struct rp_rings {
    void *map; /* NULL: closed */
    size_t map_size;
    int fd; /* of the creator until rp_rings_settle(), else -1 */
    enum rp_ring_kind kind;
    unsigned char token[RP_RING_TOKEN];
    struct rp_ring in, out;
};

/* This process's namespace of process ids: those with the same number can share a RP_RING_MEMFD. 0: not known. */
uint64_t rp_ring_namespace(void);
/* ring_bytes: of each of both rings, a power of two from RP_RING_LEAST to RP_RING_MOST. RP_UNAVAILABLE: memory cannot
 * be shared so. */
int rp_rings_create(struct rp_rings *r, enum rp_ring_kind kind, size_t ring_bytes, unsigned char offer[RP_RING_OFFER],
                    struct rp_err *err) rp_must_check;
/* RP_UNAVAILABLE: this process cannot open what is offered; RP_MALFORMED: it is not an offer. */
int rp_rings_join(struct rp_rings *r, const unsigned char offer[RP_RING_OFFER], struct rp_err *err) rp_must_check;
/* the other side has joined, or will not: no process can open the memory any more */
void rp_rings_settle(struct rp_rings *r);
void rp_rings_close(struct rp_rings *r);

/* As many bytes as fit or are there, at most a quarter of the ring, so that both sides work at the same time; 0: none
 * now. */
size_t rp_ring_write(struct rp_ring *r, const void *data, size_t size);
size_t rp_ring_read(struct rp_ring *r, void *data, size_t size);
int rp_ring_broken(const struct rp_ring *r); /* positions that no working peer writes */
/* Asks for the bell after the next write or read of the other side. A caller sets it, looks once more, and then
 * waits. */
void rp_ring_wait_bytes(struct rp_ring *in);
void rp_ring_wait_room(struct rp_ring *out);
/* After a write or read: 1 if the other side asked for the bell, once. */
int rp_ring_wanted(struct rp_ring *r, int after_write);
