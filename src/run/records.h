/* Step records: the lines of steps/rankN.jsonl, parsed into structs.
 *
 * What:    one pass over the bytes; every line checked for form (as strictly as bundle/schemas/step.schema.json),
 *          order and times.
 * Flow:    JSON lines, whole or piece by piece -> struct rp_records.
 * Owner:   struct rp_records owns its arrays; rp_records_fini().
 * Extend:  a key is a row of worker/step.def, a field here where figures need it, and a property in
 *          bundle/schemas/step.schema.json.
 *
 * A run of RP_RECORDS_MAX steps with a state root at each takes 43 MiB here: verify's limit is 64 MiB, so the size of
 * a record matters.
 */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "comm/comm.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "worker/job.h"

#include <stddef.h>
#include <stdint.h>

#define RP_RECORDS_MAX 400000
#define RP_RECORD_LINE_MAX (1024 + 17 * RP_MICRO_LOSSES_STEP) /* with the longest hex float and a blank for each */
/* The limit of records for each rank: verify compares one rank with the others, and has two in memory; those of all
 * have to fit into a bundle (RP_BUNDLE_TOTAL_MAX), at some 300 bytes a line. */
static inline int64_t rp_records_most(int64_t ranks)
{
    const int64_t two = RP_RECORDS_MAX / 2, all = 3 * RP_RECORDS_MAX;
    return ranks < 2 ? RP_RECORDS_MAX : ranks * two <= all ? two : all / ranks;
}

struct rp_step_record {
    int64_t start_ns, end_ns, root_ns;
    int64_t input_ns; /* waiting for samples, before start_ns */
    double learning_rate;
    float loss, grad_norm;
    int32_t step, repeat; /* step -1: the state before the first step, which has only a root */
    uint32_t samples;
    uint32_t timed : 1;
    uint32_t overflow : 1; /* it changed no weight, and grad_norm is infinite */
    uint32_t scale : 9;    /* of the loss, for rp_record_loss_scale(); 0: it has none */
    uint32_t root : 21;    /* index in rp_records.root, from 1; 0: none was taken; at most RP_RECORDS_MAX */
};
/* Times that only some runs have; -1: unknown. */
struct rp_record_times {
    int64_t exchange_ns, wait_ns; /* of one of several ranks: in exchanges, and of that waiting for others */
    int64_t device_ns; /* from the first to the last work of the step by the clock of the device, which has its own */
};
/* The loss scale of a step that has one: a power of two. */
float rp_record_loss_scale(const struct rp_step_record *r);

#define RP_NAMES_MAX (RP_COUNTERS_MAX > RP_LOSS_PARTS_MAX ? RP_COUNTERS_MAX : RP_LOSS_PARTS_MAX)
struct rp_record_names { /* of the first step, and so of all: in ascending order */
    int n;
    char name[RP_NAMES_MAX][32];
};
struct rp_records {
    int rank;
    struct rp_step_record *r;
    struct rp_record_times *times; /* [n]; NULL: no record has any */
    int64_t n;
    struct rp_record_names part, counter;
    float *loss_part; /* [n][part.n] */
    uint32_t *count;  /* [n][counter.n] */
    int micros;       /* of a step, whose losses were recorded one by one; 0: they were not */
    float *micro_loss; /* [n][micros]: of this rank's; after rp_all_ranks_add() of all */
    unsigned char (*root)[RP_SHA256_SIZE];
    unsigned char (*keyed)[RP_SHA256_SIZE]; /* keyed_root of each root, of a replication; else NULL */
    int64_t roots;
    int overlaps;       /* there are exchanges beside the backward pass, */
    int64_t overlap_ns; /* so long in timed steps; a sum, because records are many */
    char sha256[RP_SHA256_HEX]; /* of the bytes */
};
struct rp_record_times rp_record_times(const struct rp_records *rs, const struct rp_step_record *r);
/* in the order of rs->part */
const float *rp_record_loss_parts(const struct rp_records *rs, const struct rp_step_record *r);
/* in the order of rs->counter */
const uint32_t *rp_record_counts(const struct rp_records *rs, const struct rp_step_record *r);
/* of a step: [rs->micros] */
const float *rp_record_micro_losses(const struct rp_records *rs, const struct rp_step_record *r);
/* its index there, or -1 */
int rp_step_name_index(const struct rp_record_names *names, const char *name);
/* "" if none was taken */
void rp_record_root(char out[RP_SHA256_HEX], const struct rp_records *rs, const struct rp_step_record *r);
/* "": not there */
void rp_record_keyed_root(char out[RP_SHA256_HEX], const struct rp_records *rs, const struct rp_step_record *r);

/* Form: RP_MALFORMED with the line number. Impossible numbers (not finite, time running backwards): RP_MISMATCH. */
int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err) rp_must_check;
int rp_records_parse_rank(struct rp_records *out, int rank, const char *text, size_t size,
                          struct rp_err *err) rp_must_check;

/* The same piece by piece: {.out = &records} (*out: zeroed, except the rank), rp_records_piece()..., rp_records_end()
 * with the digest of all bytes, which the caller computes. After a failure *out is empty. */
struct rp_records_in {
    struct rp_records *out;
    int64_t room, times_room, roots_room, keyed_room, parts_room, counts_room, micro_room;
    size_t held; /* bytes of an incomplete line */
    char line[RP_RECORD_LINE_MAX];
};
int rp_records_piece(void *in, const char *data, size_t size, struct rp_err *err) rp_must_check;
int rp_records_end(struct rp_records_in *in, const char *sha256, struct rp_err *err) rp_must_check;

/* Do they agree with the recipe and its model: phases, repeats, samples per step, names of loss parts and counters,
 * bounds of counters, learning rates (of a run that started from a file, unless init is unknown), loss
 * scales, state roots; complete: all steps, and roots at both ends. init: the files that it started from, or NULL. */
struct rp_init_facts; /* run/facts.h */
int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, const struct rp_init_facts *init,
                     int complete, struct rp_err *err) rp_must_check;
int64_t rp_records_steps(const struct rp_records *rs); /* the number of the last step, plus 1 */
void rp_records_fini(struct rp_records *rs);

/* ---- several ranks ---- */

/* Figures of a run of several ranks are computed from one list: samples and counters are sums over data-parallel ranks
 * (those that share a model have the same samples), times are those of the rank whose timed steps took longest by its
 * own clock, losses, norms and roots are the same on all. */
struct rp_rank_share {
    /* timed steps from the first start to the last end; in them; wait_ns -1: unknown */
    int64_t span_ns, exchange_ns, wait_ns;
    int64_t overlap_ns;                    /* in exchanges beside the backward pass; -1: unknown */
    int64_t begun_ns, ended_ns;            /* its first step began, its last one ended; by its own clock */
    int64_t from_ns;                       /* its first timed step began; -1: none was timed */
    uint64_t samples;                      /* of each step */
    /* of the lengths of all steps, equal for equal ones; 0: fewer than RP_LENGTHS_LEAST, or by a clock of whole us */
    uint64_t lengths;
    char sha256[RP_SHA256_HEX];            /* of its records */
};
#define RP_LENGTHS_LEAST 5 /* steps: two honest ranks have one equal by chance in some thousand, and all never */
/* A rank's monotonic clock minus that of rank 0, to within error_ns; -1: unknown. */
struct rp_rank_clock {
    int64_t offset_ns, error_ns;
};
/* One step by the clock of rank 0: the latest beginning and the earliest end on any rank, and on which. */
struct rp_step_span {
    int64_t begun_ns, ended_ns;
    int begun_on, ended_on;
};
enum rp_rank_time { RP_RANK_STEP, RP_RANK_EXCHANGE, RP_RANK_WAIT, RP_RANK_TIMES };
#define RP_RANK_STEPS_KEPT 1000000 /* of all ranks: 12 MB */
struct rp_all_ranks {
    struct rp_degrees degrees;
    /* set after init: times of every step are kept, unless there are more than RP_RANK_STEPS_KEPT */
    int keep;
    int64_t steps;               /* of each rank in `seconds`; 0: not kept, or none */
    float *seconds;              /* [ranks][RP_RANK_TIMES][steps]; NaN: unknown */
    int ranks, n;                /* of the run; added so far */
    int slowest;                 /* rank whose times the list has */
    struct rp_rank_share *share; /* [ranks] */
    struct rp_rank_clock *clock; /* [ranks], of the caller until rp_all_ranks_fini(); NULL: spans are not wanted */
    struct rp_step_span *span;   /* [records], as far as clocks are known; NULL without clocks */
    struct rp_rank_micros {
        int n;                   /* micro-batches of each step */
        float *loss;             /* [records][n] */
    } *micro;                    /* [data-parallel ranks], until all ranks are there */
};
void rp_all_ranks_init(struct rp_all_ranks *a, struct rp_degrees degrees);
/* Rank a->n: the first becomes *all, the others are added to it. *one is emptied. RP_MISMATCH: a rank disagrees with
 * the first, or a loss is not the mean of those of its micro-batches, named with step and quantity. After the last one
 * all->sha256 is that of the digests of all ranks, one a line. */
int rp_all_ranks_add(struct rp_all_ranks *a, struct rp_records *all, struct rp_records *one,
                     struct rp_err *err) rp_must_check;
void rp_all_ranks_fini(struct rp_all_ranks *a);
/* [a->steps], which is not 0 */
const float *rp_rank_seconds(const struct rp_all_ranks *a, int rank, enum rp_rank_time what);
