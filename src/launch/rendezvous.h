/* Where the processes of a job meet: the address of rank 0's control channel, and the id of the job.
 *
 * What:    --join HOST:PORT, else what the launcher offers: a host, and something that only this job has.
 * Flow:    struct rp_launch -> rp_rendezvous_find() -> join.c: rank 0 listens at .port (and publishes it, under Hydra),
 *          the others try every .host in turn.
 * Owner:   rp_rendezvous_fini() closes what the search opened.
 * Extend:  a launcher is a function hint_ROW() in rendezvous.c.
 *
 * The port, unless --port or --join gives one: 61440 + N % 4096, above the ports that kernels hand out by themselves. N
 * is
 *     srun       job id + 257 * step id          torchrun   of "run id:restart count:MASTER_PORT"
 *     openmpi    job family (job id / 65536)     the others of the id of their row
 *     mpich      none: rank 0 takes any port and publishes it through Hydra
 *     --hosts    likewise, through ssh
 * where "of" is the first 8 bytes of the SHA-256 as a big-endian number. MASTER_PORT itself is never used: torchrun's
 * agent holds it.
 */
#pragma once

#include "launch/address.h"
#include "launch/launcher.h"
#include "launch/pmi.h"

#include "comm/channel.h"
#include "process/process.h"

enum { RP_RENDEZVOUS_HOSTS = 8 };

/* How process 0 tells the others where it listens, where it has started them. */
struct rp_rendezvous_talk {
    void *arg;
    int (*publish)(void *arg, const struct rp_meet_frame *where, struct rp_err *err); /* process 0 */
    /* The others. On success the caller finishes *where. */
    int (*learn)(void *arg, struct rp_meet_frame *where, uint64_t deadline, struct rp_err *err);
};

struct rp_rendezvous_opts {
    const char *join; /* --join HOST[:PORT]; NULL: not given */
    int64_t port;     /* --port; 0: not given */
    const struct rp_rendezvous_talk *talk; /* NULL: process 0 has not started the others */
    int keep_pmi; /* a program that this one starts may be an MPI program, to which Hydra's PMI is open until the end */
};

struct rp_rendezvous {
    char job[RP_CHANNEL_JOB_MAX + 1];
    const char *source; /* what named the host: "--join", "MASTER_ADDR", "this host", "PMI" */
    struct rp_address host[RP_RENDEZVOUS_HOSTS]; /* in the order in which they are tried */
    int hosts, port;    /* port 0: any, of rank 0; not known yet, of the others */
    int loopback;       /* all processes are on this host: nobody else can connect */
    int given;          /* by a user, who may have forwarded it: rank 0 need not have that address itself */
    struct rp_pmi pmi;
    int keep_pmi;
    const struct rp_rendezvous_talk *talk; /* borrowed; NULL: none */
};

/* May ask Hydra for the size of the job, which it puts into *l. RP_USAGE: nothing names a host. */
int rp_rendezvous_find(struct rp_rendezvous *r, struct rp_launch *l, const struct rp_rendezvous_opts *o /* or NULL */,
                       uint64_t deadline, struct rp_err *err) rp_must_check;
/* Rank 0, once it listens at `port`: fails if the others would look for it elsewhere. Waits for all of them under
 * Hydra. */
int rp_rendezvous_publish(struct rp_rendezvous *r, int port, uint64_t deadline, struct rp_err *err) rp_must_check;
/* The others, before they connect: fills host and port under Hydra, else does nothing. */
int rp_rendezvous_learn(struct rp_rendezvous *r, uint64_t deadline, struct rp_err *err) rp_must_check;
void rp_rendezvous_fini(struct rp_rendezvous *r);
int rp_rendezvous_port_of(int64_t number); /* 61440 + number % 4096 */
