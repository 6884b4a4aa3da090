/* The processes of a job as one: they join, agree, and exchange control messages until the end.
 *
 * What:    rank 0's process leads: the others connect only to it (tensors travel over comm/). Each brings one rank,
 *          or all ranks of its node. The leader compares what has to be equal, numbers hosts and ranks, measures the
 *          clocks, and then carries messages, a heartbeat, and the news that somebody is gone.
 * Flow:    launcher.h, rendezvous.h, job_key.h -> rp_join_open() -> rp_join_send(), rp_join_next() ... ->
 *          rp_join_close(). Channels are TLS 1.3 with the key of the job (comm/channel.h, purpose "control"), messages
 *          are frames (process/process.h).
 * Owner:   struct rp_join owns channels and members; rp_join_fini() closes without a word, as a crash would.
 * Extend:  a quantity that has to be equal everywhere is a member of opts.facts, something the leader should know one
 *          of opts.about, both where rp_joining_open() is called: neither needs code here. A message is a row of
 *          RP_FRAMES.
 *
 * The calls are for one thread, and one of them has to be called every second: heartbeats are sent and answered
 * inside. A process from which nothing came for 8 s is taken for dead, as is one whose connection ends without a
 * farewell: rp_join_next() fails with RP_UNAVAILABLE, naming ranks, host and address, and the leader has told
 * everybody else by then. After any failure only rp_join_abort() and rp_join_fini() are of use.
 *
 * join.def has the bodies of JOIN, WORLD, CLOCK and ABORT.
 */
#pragma once

#include "launch/job_key.h"
#include "launch/launcher.h"
#include "launch/rendezvous.h"
#include "process/process.h"

#include <jansson.h>
#include <poll.h>
#include <stdint.h>

#define RP_JOIN_PROTOCOL 1
#define RP_JOIN_MAX 4096 /* processes */

/* Another clock minus the leader's, in nanoseconds, known to +- `error_ns` (half of the shortest round trip). */
struct rp_clock_offset {
    int64_t wall_ns, monotonic_ns, error_ns; /* of CLOCK_REALTIME and CLOCK_MONOTONIC; error_ns -1: not measured */
};

struct rp_job_member {
    int index;             /* number of the process: rank or node of the launcher; 0 leads */
    int first_rank, ranks; /* its ranks of the world: first_rank, first_rank + 1, ... */
    int host;              /* equal for processes of one machine (boot id); numbered as they appear by index */
    /* equal for those that also share its network: they see the same devices, unless something hides some */
    int place;
    int local_rank;        /* ranks of the same place below first_rank: what chooses the device */
    char name[64];         /* host name: for messages; hide it in documents */
    /* from which it reached the leader; the leader's own: at which this process reached it */
    char address[RP_ADDRESS_TEXT];
    json_t *addresses, *about;     /* its interfaces; what it brought as opts.about */
    struct rp_clock_offset clock;  /* of the leader: 0 */
};

struct rp_join_link;
struct rp_join {
    int own, members, world; /* index of this process; processes; ranks of all of them */
    struct rp_job_member *member;
    uint64_t strangers;      /* connections to the leader that proved nothing */
    int lost;                /* of the leader: the process that is gone or ended the job; 0: none */
    /* private: */
    int lead, links;
    struct rp_join_link *link; /* leader: of process i + 1; else one, to the leader */
    struct rp_join_message *first, *last;
    struct rp_err failed;
    uint64_t silence_ns, looked_ns;
    uint64_t (*wall)(void);
    int clocks; /* rounds that the leader has begun */
};

struct rp_join_opts {
    const struct rp_launch *launch; /* kind, rank and size: index and number of processes */
    struct rp_rendezvous *where;
    const struct rp_job_key *key;   /* rp_join_check_key() */
    int ranks;                      /* that this process brings, at least 1 */
    const json_t *facts;            /* {name: text}: must be the same everywhere; NULL: nothing */
    const json_t *about;            /* object; NULL: nothing */
    uint64_t deadline;              /* rp_now_ns() until which the world must be complete */
    /* Called at least every second while processes are missing, with a line such as "waiting for 2 of 8 processes: 3,
     * 7". Nonzero: stop with RP_INTERRUPTED. May be NULL. */
    int (*waiting)(void *arg, const char *line);
    void *waiting_arg;
    /* Called every tenth of a second while processes are missing: -1 and *err ends the job for all. May be NULL. */
    int (*check)(void *arg, struct rp_err *err);
    void *check_arg;
    int silence_ms;         /* 0: 8000 */
    uint64_t (*wall)(void); /* for tests of clocks that differ; NULL: rp_wall_ns */
    const char *machine;    /* for tests of several hosts: what identifies this one; NULL: its boot id and network */
};

/* RP_USAGE with the launcher's remedy: several processes and no key of the job. */
int rp_join_check_key(const struct rp_launch *l, const struct rp_job_key *key, struct rp_err *err) rp_must_check;

/* Leads if launch->rank is 0, else follows. Everybody succeeds, or everybody that could be reached fails with the same
 * message: RP_MISMATCH if they differ, RP_USAGE if ranks or sizes do, RP_UNAVAILABLE if somebody is missing. A launch
 * of one process has no connections. */
int rp_join_open(struct rp_join *j, const struct rp_join_opts *o, struct rp_err *err) rp_must_check;

/* To one process (members: only 0) or to all others. Returns before it has arrived; a body has at most RP_FRAME_MAX
 * bytes. */
int rp_join_send(struct rp_join *j, int member, enum rp_frame type, const json_t *body,
                 struct rp_err *err) rp_must_check;
int rp_join_broadcast(struct rp_join *j, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* The next message: 1, its sender and a new reference in *body; 0: none within timeout_ms; -1: somebody is gone, or
 * ended the job. A frame RP_FRAME_BYE comes once from everyone who closes in order. */
int rp_join_next(struct rp_join *j, int timeout_ms, int *member, enum rp_frame *type, json_t **body,
                 struct rp_err *err) rp_must_check;
/* Sends and answers heartbeats for up to timeout_ms; messages are kept for rp_join_next(), and so is a failure. */
void rp_join_tend(struct rp_join *j, int timeout_ms);
/* What to poll() together with other descriptors before rp_join_next(j, 0, ...): how many were written, at most `max`.
 * */
int rp_join_poll(const struct rp_join *j, struct pollfd *out, int max);

/* Leader: measures all clocks again, `rounds` round trips each. Messages that arrive meanwhile are kept for
 * rp_join_next(). */
int rp_join_clocks(struct rp_join *j, int rounds, int timeout_ms, struct rp_err *err) rp_must_check;

/* The job ends for everybody: their next call fails with this code and message, within a second if their connection
 * works. */
void rp_join_abort(struct rp_join *j, const struct rp_err *reason);
/* The orderly end: says farewell and waits up to timeout_ms for the others' farewells. */
int rp_join_close(struct rp_join *j, int timeout_ms, struct rp_err *err) rp_must_check;
void rp_join_fini(struct rp_join *j); /* closes; safe to call twice */

/* [{"index", "first_rank", "ranks", "host", "network_namespace", "local_rank", "clock": {...}, "program": SHA-256, if
 * about has it}]: who is where, without names and addresses. */
json_t *rp_join_to_json(const struct rp_join *j);
/* Those of a process: "rank 3", "ranks 8 to 15". Returns out. */
const char *rp_join_ranks(const struct rp_job_member *m, char out[48]);
/* "rank 3 (node1, 192.0.2.7)", "ranks 8 to 15 (...)" */
const char *rp_join_who(const struct rp_join *j, int member, char out[200]);
