/* Ranks on GPUs: a transport of comm.h by NCCL's Send and Recv.
 *
 * What:    one NCCL communicator of all ranks; messages within a group go to the world ranks of its members. NCCL
 *          reduces nothing here.
 * Flow:    rp_nccl_ranks, the functions of worker/rank.h: choose, prepare, connect -> c->op->attach() ->
 *          rp_comm_exchange_device() in the order of the device's stream; rp_comm_exchange() through a buffer of the
 *          GPU -> c->op->close().
 * Owner:   the communicator retains the GPU's primary context and owns its buffer; it is closed before the device.
 * Extend:  another function of NCCL is a row in nccl_library.h.
 *
 * The communicator does not block: after each call its state is polled, and so is the end of the messages, so that this
 * rank reports that it is alive, ends when it is asked to, and gives up after silence_s. NCCL does not notice that a
 * rank of the same host is gone: the parent of the workers does (worker/group.h), and ends them. After any failure the
 * communicator is aborted.
 *
 * NCCL does not compare sizes: messages whose sizes differ are noticed as silence. It does not tell which rank is
 * waited for, nor for how long: comm.wait_ns stays unknown.
 */
#pragma once

#include "worker/rank.h"

extern const struct rp_device_ranks rp_nccl_ranks;
