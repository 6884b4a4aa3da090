/* A process of a job that `run --hosts` started on this machine over ssh.
 *
 * What:    reads who it is from standard input, trains its ranks as --node-rank does, and ends when standard input
 *          does.
 * Flow:    remote_start.sh -> repro --host-process NONCE [DIRECTORY] -> "NONCE ready" -> HOST and MEET frames
 *          (cli/run_hosts.h) -> rp_run().
 * Owner:   the file and the directory that were made for this process are removed at once: it needs neither.
 * Extend:  a member of HOST is read in take_order().
 */
#pragma once

int rp_host_process_main(int argc, char **argv); /* the exit status */
