/* `run --hosts`: starts the other processes of the job over ssh and tells them who they are.
 *
 * What:    the side of process 0; the other side is cli/host_process.c.
 * Flow:    --hosts -> rp_run_hosts_start() -> .place for supervise/joining.h; the port on which process 0 listens goes
 *          to the others through ssh.
 * Owner:   struct rp_run_hosts owns the processes and the key of the job.
 * Extend:  what a process has to know is a member of make_order(), and read in host_process.c.
 *
 * HOST  {"index", "size", "ranks", "key": 64 hex digits, "name": as in --hosts, "directory": ours, "recipe": {"name",
 *       "text", "config":
 * values of model.config}, "set": ["key=value", ...], "store": --store or null, "identify", "different":
 * --allow-different-programs, "timeout": s}
 */
#pragma once

#include "base/term.h"
#include "cli/run_opts.h"
#include "launch/ssh.h"
#include "recipe/recipe.h"

struct rp_run_hosts {
    struct rp_ssh *ssh; /* NULL: nothing was started */
    struct rp_joining_place place;
    int failed;
};

int rp_run_hosts_start(struct rp_run_hosts *h, const struct rp_run_opts *o, const struct rp_recipe *r,
                       struct rp_progress *progress, struct rp_err *err) rp_must_check;
void rp_run_hosts_expect_end(struct rp_run_hosts *h, int failed); /* before the others hear that the job is over */
void rp_run_hosts_fini(struct rp_run_hosts *h);                   /* waits for them */
