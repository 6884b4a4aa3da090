/* What processes of Hydra (mpiexec of MPICH and Intel MPI) can tell each other before they are connected: PMI, version
 * 1.
 *
 * What:    put a value, wait for all, get it. Hydra exports neither the host of rank 0 nor an id of the job, and with
 *          -pmi-port no size.
 * Flow:    PMI_FD, or PMI_PORT and PMI_ID -> rp_pmi_open() -> rp_pmi_put() by rank 0 -> rp_pmi_barrier() by all ->
 *          rp_pmi_get() -> rp_pmi_close().
 * Owner:   struct rp_pmi owns the connection; with PMI_FD that descriptor, which is closed on exec from then on.
 * Extend:  a command is a line "cmd=NAME key=value ...", answered by one line. Values have no blanks and less than 256
 *          bytes here.
 *
 * Nothing of this is authenticated: what is learned are addresses, and whoever answers there has to prove that it has
 * the key of the job.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_PMI_VALUE 256

struct rp_pmi {
    int fd; /* -1: closed */
    int64_t rank, size;
    char space[RP_PMI_VALUE]; /* Hydra's name of the job: "kvs_17661_0_1683999341_node1" */
    char line[1024];          /* received, not yet read */
    size_t used;
};

/* deadline: rp_now_ns(). RP_UNAVAILABLE: nobody answers, or not with PMI. */
int rp_pmi_open(struct rp_pmi *p, uint64_t deadline, struct rp_err *err) rp_must_check;
int rp_pmi_put(struct rp_pmi *p, const char *key, const char *value, uint64_t deadline,
               struct rp_err *err) rp_must_check;
int rp_pmi_barrier(struct rp_pmi *p, uint64_t deadline, struct rp_err *err) rp_must_check;
int rp_pmi_get(struct rp_pmi *p, const char *key, char value[RP_PMI_VALUE], uint64_t deadline,
               struct rp_err *err) rp_must_check;
void rp_pmi_close(struct rp_pmi *p); /* tells Hydra that this process is done with PMI, so that its end is no crash */
