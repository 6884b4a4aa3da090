/* "world" of run.json: the ranks of a run.
 *
 * What:    how many ranks trained on how many nodes; of several, each one's place, device, and time in exchanges.
 * Flow:    records of all ranks + what their workers reported -> the object; verify recomputes what follows from records.
 * Owner:   the caller owns the json_t; the parts are borrowed.
 *
 * Bytes of rank[].exchange, all of which the rank sent:
 *   levels, bytes_per_step(_between_hosts)  planned: the exchange of gradients, and of weights or merged gradients, within the data-parallel
 *                                           group (train/exchange.h) in one step. Losses and sums of norms are not counted
 *   sent_bytes                              counted: every message in every group, from the first to the last, with state roots and checkpoints
 *   sent_bytes_by_group                     that by group: data as above and losses, norms and roots; tensor: parts of tensors; pipeline:
 *                                           activations and their gradients; world: tied weights, figures of all ranks, checkpoints
 * Extend:  a value of a rank is a line in rank_json() and a property in bundle/schemas/run.schema.json.
 */
#pragma once

#include "comm/comm.h"
#include "run/records.h"

#include <jansson.h>

struct rp_world_doc {
    struct rp_degrees degrees;      /* ranks of each kind */
    const int *host;                /* [ranks] number of each rank's node; NULL: one node */
    const json_t *launch, *processes; /* what started the processes of the job, and who is where (launch/join.h); NULL: there was one */
    const struct rp_all_ranks *all; /* complete; NULL: only one rank */
    const json_t *const *hello, *const *done; /* [ranks] as in worker/job.h; each may be NULL */
    const json_t *const *telemetry; /* [ranks] figures, or {"reason"}; each may be NULL */
};
json_t *rp_world_json(const struct rp_world_doc *d);
/* What of rank i follows from its records: {"samples_per_step", "records_sha256", "timed_s", "exchange_s"}, "wait_s" where it is known, and
 * "overlap_s" where they have overlap_ns. */
json_t *rp_world_rank_of_records(const struct rp_rank_share *s);
