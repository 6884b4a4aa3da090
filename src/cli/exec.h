/* `repro exec`: what its files share.
 *
 * What:    cmd_exec.c: the command and what the user named; exec_job.c: several processes of one launcher; exec_seal.c:
 *          the bundle.
 * Flow:    options -> struct exec -> the command -> a struct exec_part of each process -> documents and members.
 * Owner:   struct exec owns everything in it; rp_exec_part_fini() what is in a part.
 * Extend:  what a process reports is a field of command_process (run/facts.def), set in rp_exec_own_part(): it travels
 *          to process 0 by itself. Other messages are rows of exec_message.def.
 */
#pragma once

#include "cli/attempt.h"
#include "cli/opts.h"
#include "cli/run_output.h"
#include "run/derive.h"
#include "run/seal.h"
#include "supervise/command.h"
#include "supervise/gpu_watch.h"
#include "supervise/run_job.h"

struct exec_opts {
    const char *log, *unit, *from, *to, *bundle, *key;
    struct rp_opt_list input, output, set;
    struct rp_joining_opts joining;
    long passphrase_fd;
    int force, identify, no_ledger, other_programs;
};

enum { EXEC_STDOUT, EXEC_STDERR, EXEC_FILE, EXEC_TEXTS };
#define EXEC_FILES_MOST 1000 /* of --input and --output, as facts.def has it */

#define RP_OBJECT_LIST "cli/exec_message.def"
#include "base/object_structs.inc.h"

/* What one process of the command has: this one, or another of the job, as its messages say. Bytes are in `text`. */
struct exec_part {
    struct rp_exec_ended end;
    struct rp_exec_finished rest;   /* kept: of the file of --log; NULL: there is none */
    struct rp_buf text[EXEC_TEXTS]; /* sealed bytes of its streams, and of that file */
    int ended, is_whole;            /* ended: it was heard of; is_whole: files and the log too */
};

struct exec {
    struct rp_cli *cli;
    const struct exec_opts *o;
    struct rp_progress progress;
    struct rp_run_documents doc; /* what goes into the bundle; its parts are on the heap */
    struct rp_command_facts *facts;
    struct rp_run_output output;
    struct rp_key_pair *key;
    char *key_file, *file; /* file: that is executed */
    const char *log_file;  /* as given; NULL: the log is a stream, or there is none */
    int key_created;
    struct rp_run_job job;
    struct exec_part *part, *own; /* [parts], by process; of a process that follows only its own is filled */
    struct rp_exec_about *about; /* [parts]; NULL: there is only this process */
    int parts;
    struct rp_captures *node; /* [nodes] */
    struct rp_buf *hwloc_xml;
    int nodes;
    struct rp_gpu_watch gpus;
    int64_t devices; /* of the whole job */
    struct rp_command_end end;
    uint64_t term_ns; /* a second Ctrl-C has sent SIGTERM to the command; 0: none came */
    int killed;       /* ... and SIGKILL later */
    struct rp_attempt attempt;
    struct rp_err unread; /* why the importer refuses the log */
    char log_begins[72];  /* its first line with text, shortened; "": there is none */
    struct rp_err lost;   /* of the job: why it ended for all; code RP_OK: it did not */
    char statement[RP_SHA256_HEX];
    uint64_t begun_ns, boot_ns;    /* monotonic clock and CLOCK_BOOTTIME at the start */
    uint64_t started_ns, ended_ns; /* wall clock at the start, and that plus the monotonic duration */
};

/* ---- exec_part.c ---- */
void rp_exec_part_fini(struct exec_part *p);
/* Digests of --output, and of --input if `inputs`, into the files of this process. */
int rp_exec_digest_file(struct rp_named_file *f, const char *path, struct rp_err *err) rp_must_check;
const char *rp_exec_log_from(const struct exec *x, int text); /* "stdout": whether it is the log; "" */

/* ---- exec_seal.c ---- */
/* This process after its command: its end, streams, log and samples. */
void rp_exec_own_part(struct exec *x);
void rp_exec_digest_outputs(struct exec *x);
/* Bytes beyond `most` go from the middle. */
void rp_exec_shorten(struct rp_buf *text, struct rp_kept_facts *is, size_t most);
/* The process whose log has the figures: the first in whose log the importer finds some. */
int rp_exec_choose_log(const struct exec *x);
int rp_exec_seal(struct exec *x, struct rp_err *err) rp_must_check;

/* ---- exec_job.c ---- */
/* Joins the processes of a launcher; nothing where there is one. */
int rp_exec_join(struct exec *x, struct rp_err *err) rp_must_check;
int rp_exec_leads(const struct exec *x); /* process 0, or the only one */
#define RP_EXEC_STOP_MS 5000 /* between SIGTERM and SIGKILL, for a command that has to end */
/* Which GPUs this process samples, and how many the job has; they are sampled from now on. */
void rp_exec_share_gpus(struct exec *x);
/* Captures of the other hosts, before and after the command. */
int rp_exec_ask_hosts(struct exec *x, int after, struct rp_err *err) rp_must_check;
/* Process 0 lets all begin. */
int rp_exec_begin(struct exec *x, struct rp_err *err) rp_must_check;
/* Around the command: what the others report, and the end of all when one fails. */
void rp_exec_listen(struct exec *x);
void rp_exec_listen_end(struct exec *x);
/* After the command: computes the digests of --output and collects the parts of the other processes. A job that ended
 * early is not an error here: x->lost says why. */
void rp_exec_collect(struct exec *x);
/* The others, from the beginning to the end; run: runs the command. */
int rp_exec_follow(struct exec *x, int (*run)(struct exec *x, struct rp_err *err), struct rp_err *err) rp_must_check;
void rp_exec_end_job(struct exec *x, const struct rp_err *reason);
