/* Processes of a job on other hosts: the program copies itself there and starts itself, by the system's ssh.
 *
 * What:    one ssh a host, until its process of the job runs, and then its lines on our standard error, until it has
 *          ended.
 * Flow:    rp_ssh_start() runs `ssh ... -- HOST "sh"`, sends remote_start.sh and, where it is missing, this program,
 *          which then reads frames: HOST, who it is (cli/host_process.c), then what rp_ssh_tell() sends. A thread reads
 *          and writes. rp_ssh_end() waits for all.
 * Owner:   struct rp_ssh owns its processes and the thread.
 * Extend:  an option of ssh is a word of fixed_words[]; an answer of a host's shell is a line in remote_start.sh and a
 *          case of take_answer(); a host that behaves in another way is a name in tests/cli/ranks/played_ssh.inc.
 *
 * Nothing secret is in the arguments or the environment of a process: the key of the job is in the HOST frame. The
 * process there ends when its standard input does. Every ssh has a session of its own: Ctrl-C reaches this program
 * alone.
 */
#pragma once

#include "base/err.h"
#include "process/process.h"

#include <jansson.h>
#include <stdint.h>

#define RP_HOST_PROCESS_ARG "--host-process" /* main.c: argv[1] of a process that remote_start.sh started */
/* Also for fish and csh, which takes ! for history within single quotes and allows no line end there: so what runs on a
 * host is one constant line, and the script follows it on standard input. */
#define RP_SSH_COMMAND "exec sh -c 'read -r line && eval \"$line\"'"
enum { RP_SSH_NONCE = 33, RP_SSH_WORDS = 64 };

struct rp_ssh;

struct rp_ssh_opts {
    const char *const *host; /* [n] as ssh takes them, checked by hosts.h */
    json_t *const *order;    /* [n] body of the HOST frame of each */
    int n;
    const char *command; /* "ssh -p 2222": words without quotes; NULL: "ssh" */
    int keep;            /* the program stays in the cache of each host */
    uint64_t deadline;   /* rp_now_ns() until which all have to run */
};

/* Until the program runs on every host. NULL: *err names a host, and nothing runs. */
struct rp_ssh *rp_ssh_start(const struct rp_ssh_opts *o, struct rp_err *err) rp_must_check;
/* A frame to every process. */
int rp_ssh_tell(struct rp_ssh *s, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* -1: a process has ended; *err names its host and what it wrote. */
int rp_ssh_check(struct rp_ssh *s, struct rp_err *err) rp_must_check;
/* From now on processes end because the job does, and what they write about it is not shown. NULL: nothing to do. */
void rp_ssh_expect_end(struct rp_ssh *s);
/* Those that do not end by themselves within some seconds are ended. failed: they have no reason to wait. NULL: nothing
 * to do. */
void rp_ssh_end(struct rp_ssh *s, int failed);

/* The words of one ssh, ended by NULL: those of the command, which is changed, then ours. RP_USAGE: no word, or too
 * many. */
int rp_ssh_words(char *words[RP_SSH_WORDS], char *command, const char *host, struct rp_err *err) rp_must_check;
