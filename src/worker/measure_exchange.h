/* The ceiling of exchanges: how fast all ranks exchange bytes, measured by all at once before and after a run.
 *
 * What:    all-gather and all-to-all over all ranks in a few sizes, over the connections and in the memory that
 *          training uses.
 * Flow:    an open device that holds no blocks, connected ranks -> [{"collective", "bytes", "calls", "ns": [..]}], the
 *          same calls on every rank. run/derive_ceilings.c makes figures of them, with the bandwidths of nccl-tests.
 * Owner:   the caller owns the result; blocks are released, and the communicator's counters are as before.
 * Extend:  another collective is a row of collectives[], which every rank calls in the same order and equally often;
 *          its share of the bus is in run/derive_ceilings.c.
 */
#pragma once

#include "comm/comm.h"
#include "train/train.h"

/* room: bytes of memory that the plan leaves for each of two blocks. An empty list where a rank has no memory for them.
 * Every rank has to call it, and a stop that alive() requests waits until it is over: ranks that stopped at different
 * places would wait for each other. */
json_t *rp_exchange_ceilings(struct rp_dev *dev, struct rp_comm *c, size_t room, rp_alive_fn alive, void *alive_arg,
                             struct rp_err *err) rp_must_check;
