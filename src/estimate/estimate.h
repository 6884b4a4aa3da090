/* An estimate of data-parallel training on a machine that is not here: exact bytes, rates from data sheets and
 * published measurements.
 *
 * What:    the time of a step on 1, 8, 16 ... GPUs as a range, and the links of the model against published figures of
 *          nccl-tests.
 * Flow:    recipe + struct rp_machine + seconds of a micro-batch -> rp_estimate() for each number of GPUs. Bytes:
 *          train/exchange_plan.h.
 * Owner:   tables are static; struct rp_estimate has no pointers to free.
 * Extend:  a machine is a row of machines.def, with its GPU in verify/physics/peaks.def and its links in links.def; a
 *          published figure of nccl-tests is a row of measured.def. tests/unit/test_estimate.c requires that figures
 *          lie where their role says, and that the counted bytes are those that ranks send.
 *
 * Seconds of a step = micro-batches * seconds of one + exchange - what is hidden.
 *   exchange = bytes within the host / link + bytes between hosts / adapters + merging / memory + calls * latency; the
 *   first two at the same time if there is one level. Of the range's worse end nothing is hidden; of its better end the
 *   exchange of gradients is, during the backward pass of the last micro-batch (two thirds of its time), while the new
 *   weights and the merging of nodes never are.
 * Not in it: reading data, stragglers, congestion of switches, the launch of kernels, clocks that sink under load.
 */
#pragma once

#include "base/err.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "train/exchange_plan.h"

struct rp_range {
    double low, high;
};

struct rp_link {
    const char *id, *name;
    double gb_per_s;            /* of one, in each direction */
    struct rp_range share;      /* of that */
    struct rp_range latency_us, peer_us;
    const char *source;
};

struct rp_machine {
    const char *id, *gpu;
    int per_host;
    const struct rp_link *within, *between;
    int adapters;               /* of a host */
    const char *source;
    double flops, memory;       /* of a GPU: FLOP/s in fp32, bytes/s; memory 0: unknown */
    struct rp_range within_bytes, between_bytes; /* a second, of one GPU in each direction */
};

/* Known by its id, with its GPU's rates; NULL: RP_USAGE. */
int rp_machine_find(struct rp_machine *out, const char *id, struct rp_err *err) rp_must_check;
const char *rp_machine_id(int i); /* NULL: no more */

/* Shares of a GPU's fp32 peak that training reaches: low, high and where they are from. */
extern const struct rp_range rp_share_of_peak;
extern const char rp_share_of_peak_source[];

struct rp_estimate_opts {
    const struct rp_machine *machine;
    const struct rp_net *net;   /* declared, of one rank */
    int64_t micros, batch;      /* micro-batches of each GPU, samples of each */
    size_t bucket;              /* of rp_overlap_bucket(); 0: nothing is hidden */
    struct rp_range micro_s;    /* forward and backward of one */
};

struct rp_estimate {
    int gpus;
    struct rp_exchange_plan plan;
    struct rp_range compute_s, exchange_s; /* of a step */
    double hidden_s;            /* of exchange_s.low, at best */
    struct rp_range samples_per_s, efficiency; /* efficiency: against as many single GPUs */
    double ring, host_ring;     /* bytes that a rank sends, that leave a host, by those of a ring all-reduce; 0: none */
};
/* RP_USAGE: not a number of whole hosts. */
int rp_estimate(struct rp_estimate *out, const struct rp_estimate_opts *o, int gpus, struct rp_err *err) rp_must_check;

/* ---- the links against published figures ---- */

enum rp_measured_role { RP_MEASURED_SETS, RP_MEASURED_CHECKS, RP_MEASURED_OUTSIDE };
struct rp_measured {
    int hosts, per_host, adapters;
    const char *collective;     /* "ring", "alltoall", "sendrecv" */
    const char *within, *between; /* links by their ids */
    enum rp_measured_role role;
    double published;           /* GB/s of bus bandwidth */
    struct rp_range modelled;
    /* of the published figure from the nearer end of the range, 0: within it; of one that checks at most
     * RP_MEASURED_SLACK */
    double deviation;
    const char *source;
};
#define RP_MEASURED_SLACK 0.05
/* Row i; 0: there is none. */
int rp_measured_row(struct rp_measured *out, int i);
const char *rp_measured_role_name(enum rp_measured_role r); /* "sets", "checks", "outside" */
