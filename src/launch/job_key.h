/* The key of a job: 32 random bytes shared by its processes and otherwise secret. No process listens or connects
 * without it.
 *
 * What:    from a descriptor, a file or the environment; `repro launch key` prints a new one as 64 hex digits.
 * Flow:    --job-key-fd > --job-key FILE > REPRO_JOB_KEY > REPRO_JOB_KEY_FILE -> struct rp_job_key -> join.h.
 * Owner:   rp_job_key_fini() wipes it; RP_JOB_KEY does that at the end of a scope.
 * Extend:  another source is a function here; no message contains any part of a key.
 *
 * REPRO_JOB_KEY is overwritten in the environment after it was read: children and /proc/PID/environ do not have it.
 * Core files of processes that have a key contain no memory (rp_secret_stay_out_of_cores). A file belongs to this user
 * or to root and is readable by its owner only, as for ssh. One exception: a file of root in memory (tmpfs), as
 * Kubernetes mounts a Secret (mode 0644 by default, through links in its directory); who can read it is a matter of
 * that container.
 */
#pragma once

#include "base/err.h"
#include "comm/channel.h"

struct rp_job_key {
    unsigned char bytes[RP_CHANNEL_KEY];
    const char *source; /* "REPRO_JOB_KEY", "--job-key", ...; NULL: there is none */
};
#define RP_JOB_KEY_HEX (2 * RP_CHANNEL_KEY + 1)

struct rp_job_key_opts {
    const char *file; /* --job-key; "-": standard input; NULL: not given */
    int fd;           /* --job-key-fd; 0: not given */
};

/* 1: a key; 0: there is none; -1: RP_USAGE, RP_IO, RP_MALFORMED. The environment and a descriptor are read once: call
 * it once. */
int rp_job_key_load(struct rp_job_key *k, const struct rp_job_key_opts *o, struct rp_err *err) rp_must_check;
/* Would there be one? "REPRO_JOB_KEY", "REPRO_JOB_KEY_FILE" or NULL; nothing is read or changed. */
const char *rp_job_key_offered(void);
int rp_job_key_new(struct rp_job_key *k, struct rp_err *err) rp_must_check;
void rp_job_key_hex(char out[RP_JOB_KEY_HEX], const struct rp_job_key *k);
void rp_job_key_fini(struct rp_job_key *k);
#define RP_JOB_KEY __attribute__((cleanup(rp_job_key_fini))) struct rp_job_key
