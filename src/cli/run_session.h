/* One run while it happens: what the run_*.c files share.
 *
 * What:    the state from the options to the sealed bundle; run_plan.c has the ranks' layout and the memory plan,
 *          run_documents.c what goes into the bundle.
 * Flow:    run_session.c fills it in the order of the fields.
 * Owner:   run_session.c frees what it owns.
 * Extend:  a field, and its end in run_fini().
 */
#pragma once

#include "backend/backend.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/term.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "capture/capture.h"
#include "cli/attempt.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "cli/run_checkpoint.h"
#include "cli/run_hosts.h"
#include "cli/run_opts.h"
#include "cli/run_output.h"
#include "launch/launcher.h"
#include "data/store.h"
#include "recipe/recipe.h"
#include "run/agreement.h"
#include "run/derive.h"
#include "run/seal.h"
#include "sign/challenge.h"
#include "sign/key.h"
#include "supervise/run_job.h"
#include "supervise/supervise.h"
#include "worker/fits.h"
#include "worker/job.h"
#include "worker/pace.h"
#include "worker/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rp_run_session {
    struct rp_cli *cli;
    const struct rp_run_opts *o; /* own */
    struct rp_run_opts own;      /* the command line, and settings that it implies */
    const char **own_set;        /* of own, once there are any */
    char *implied[3];            /* "train.accumulation_steps=8", "train.tensor_core=tc16", "title=..." */
    int implied_n;
    int64_t own_batch;           /* samples of a step without the command line; 0: as many as fit, or unknown */
    const struct rp_run_from *from;
    struct rp_recipe recipe;
    const struct rp_backend *backend;
    struct rp_err passed; /* why auto did not choose a GPU, or "" */
    struct rp_device_opts device;
    struct rp_plan plan;
    struct rp_run_output output;
    struct rp_key_pair *key;
    char *key_file;
    int key_created; /* by this run */
    struct rp_data_set data;
    struct rp_challenge challenge;
    struct rp_buf challenge_bytes; /* empty: none */
    json_t *checkpoint;           /* what the file of --init has; NULL: none */
    json_t *before, *after;       /* captures of this node */
    struct rp_run_documents *run; /* of the bundle; NULL before it is sealed */
    struct rp_buf hwloc_xml;      /* empty: hwloc failed */
    struct rp_joining_opts joining; /* of o, with the place that --hosts gives */
    struct rp_run_hosts elsewhere;  /* processes that this one started on other hosts */
    struct rp_run_job job_of_many;
    int hosts;                    /* of the job; captures of those after this one: */
    json_t **host_before, **host_after; /* [hosts], NULL where there is none */
    struct rp_buf *host_xml;
    int *rank_host;               /* [ranks] the host of each; NULL: all are on this one */
    struct rp_degrees degrees;    /* ranks that train */
    struct rp_comm place;         /* of rank 0, not connected: for the plan */
    struct rp_all_ranks ranks;
    struct rp_records records; /* of all ranks, as one list */
    struct rp_job job;
    struct rp_outcome outcome;
    struct rp_progress progress;
    struct rp_attempt attempt;
    char where[RP_PLACE_TEXT];     /* it trained: ranks, nodes, devices; "" before the bundle is made */
    char devices[RP_PLACE_TEXT];
    char root_key[RP_SHA256_HEX];  /* of a replication */
    char statement[RP_SHA256_HEX]; /* of the written bundle, or "" */
    uint64_t begun_ns, boot_ns;    /* monotonic clock and CLOCK_BOOTTIME at the start */
    uint64_t started_ns, ended_ns; /* wall clock at the start, and that plus the monotonic duration */
};

/* ---- run_recipe.c ---- */

int rp_run_parse_layout(struct rp_degrees *d, const char *text, struct rp_err *err) rp_must_check; /* "2x4x1" */
struct rp_degrees rp_run_default_layout(const struct rp_recipe *r, int n); /* of n ranks, without --layout */
/* The recipe with the command line, and the backend; RP_USAGE and others as rp_recipe_load(). */
int rp_run_load_recipe(struct rp_run_session *r, struct rp_err *err) rp_must_check;
/* Notes, once the run is planned: a batch that changes under a fixed learning rate; more threads than processors. */
void rp_run_note_batch(struct rp_run_session *r);
void rp_run_note_processors(struct rp_run_session *r);
struct rp_cpu_sharers rp_run_cpu_sharers(const struct rp_run_session *r); /* of rank 0 */
/* Shortest and longest time of all steps; -1: unknown, as on a GPU and in mixed precision. */
int rp_run_estimate(double seconds[2], const struct rp_run_session *r);
#define RP_TIME_TEXT 64
const char *rp_run_time_text(char out[RP_TIME_TEXT], const double seconds[2]); /* "about 40 to 60 s" */

/* ---- run_plan.c ---- */

/* How the ranks of the run divide the work, and whether they can. */
int rp_run_choose_layout(struct rp_run_session *r, struct rp_err *err) rp_must_check;
int rp_run_make_plan(struct rp_run_session *r, struct rp_err *err) rp_must_check; /* of rank 0 */
int rp_run_show_plan(struct rp_run_session *r, struct rp_err *err) rp_must_check; /* --plan */
/* ranks whose arithmetic the recipe has */
int64_t rp_run_degrees_of(const struct rp_recipe *r);

/* ---- run_profile.c ---- */

int rp_run_check_profile(const struct rp_run_session *r, struct rp_err *err) rp_must_check; /* can it be had? */
/* --profile: trains, and prints where the time of a step goes; once the run is planned and its data are there. */
int rp_run_show_profile(struct rp_run_session *r, struct rp_err *err) rp_must_check;

/* ---- run_documents.c ---- */

/* Documents and records. */
int rp_run_add_documents(struct rp_run_session *r, struct rp_bundle *b, struct rp_err *err) rp_must_check;
