/* Checks that this machine computes the defined results: every operation on small awkward sizes.
 *
 * What:    ops/op_check.h over a device, for `repro selftest`.
 * Flow:    -> an array of {"op", "isa", "numerics", "cases", "failed"}, with "difference", a message, for the first
 *          failed case of an operation; each is also reported when it is done (case_watch.h).
 * Owner:   the caller owns *report, which is always set.
 * Extend:  shapes are a table in selftest.c; the operations are those of ops/op_check.c.
 */
#pragma once

#include "backend/backend.h"
#include "backend/case_watch.h"

#include <jansson.h>

/* The CPU backend in every usable instruction set, in strict fp32 or in each arithmetic of mixed precision. -1 if
 * anything differs: *err names the first operation and element. */
int rp_ops_selftest(int mixed, const struct rp_case_watch *progress, json_t **report, struct rp_err *err) rp_must_check;
/* Opens a device with the workspace of these sizes. */
struct rp_dev *rp_ops_selftest_open(const struct rp_backend *b, const struct rp_device_opts *o,
                                    struct rp_err *err) rp_must_check;
/* The same for an open device; appends rows with this isa to the report. Another code than RP_MISMATCH: the device
 * itself failed, in the case that the last begin() named, and nothing after it was compared. */
int rp_ops_selftest_device(struct rp_dev *dev, const char *isa, const struct rp_case_watch *progress, json_t *report,
                           struct rp_err *err) rp_must_check;
/* The same for up to RP_OP_DEVICES devices of one backend and arithmetic, case by case: the definition is computed once
 * for all of them. Returns how many have an error. */
struct rp_tested {
    struct rp_dev *dev;
    const char *isa;
    json_t *report;
    struct rp_err err; /* RP_OK before */
};
int rp_ops_selftest_devices(struct rp_tested *t, int n, const struct rp_case_watch *progress) rp_must_check;
