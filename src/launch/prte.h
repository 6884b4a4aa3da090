/* Where mpirun of Open MPI 5 runs: its runtime (PRRTE) tells a process only the daemon of its own node, at a loopback
 * address.
 *
 * What:    mpirun is daemon 0; the command line of every other daemon has `prte_hnp_uri` with the addresses of daemon
 *          0.
 * Flow:    ancestors of this process -> address list -> rendezvous.c.
 * Owner:   the caller frees the text.
 * Extend:  another option of a daemon is another name for rp_prte_option().
 */
#pragma once

#include <sys/types.h>

/* The argument after `name` in the command line of the nearest ancestor of process pid that has one; NULL: none has, or
 * it cannot be seen, as from within a container. proc: "/proc". */
char *rp_prte_option(const char *proc, pid_t pid, const char *name);
/* The host in the name of a job, "prterun-HOST-PID@N", as mpirun's machine calls itself; NULL: another form. */
char *rp_prte_host(const char *space);
/* The number of the daemon that serves this process, of "SPACE.NUMBER;tcp4://..."; -1: another form. */
int rp_prte_daemon(const char *uri);
