/* Does this machine compute what the definitions say? Every operation on small awkward sizes.
 *
 * What:    ops/compare.h over a device, for `repro selftest`.
 * Flow:    -> an array of {"op", "isa", "cases", "failed"}; a line per operation on standard error when verbose.
 * Owner:   the caller owns *report, which is set in every case.
 * Extend:  shapes are a table in selftest.c; an operation takes part through its case in ops/compare.c.
 */
#ifndef RP_BACKEND_SELFTEST_H
#define RP_BACKEND_SELFTEST_H

#include "backend/backend.h"

#include <jansson.h>

/* The CPU backend in every instruction set usable here. -1 when anything differs: *err names the first operation and element. */
int rp_ops_selftest(int verbose, json_t **report, struct rp_err *err) rp_must_check;
/* A device for it: with the workspace of these sizes. */
struct rp_dev *rp_ops_selftest_open(const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err) rp_must_check;
/* One open device, its rows with that name, appended to the report. The same result. */
int rp_ops_selftest_device(struct rp_dev *dev, const char *isa, int verbose, json_t *report, struct rp_err *err) rp_must_check;

#endif
