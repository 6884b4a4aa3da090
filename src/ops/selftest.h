/* Self-test: every operation on small awkward sizes, on every instruction set usable here, bit for bit against the reference.
 *
 * What:    what `repro selftest` runs on a machine before its numbers are believed.
 * Flow:    op table x instruction sets x sizes -> a report and one answer.
 * Owner:   the caller owns *report.
 * Extend:  an operation gets its case beside the others in selftest.c.
 */
#ifndef RP_OPS_SELFTEST_H
#define RP_OPS_SELFTEST_H

#include "base/err.h"

#include <jansson.h>

/* *report: [{"op", "isa", "cases": n, "failed": n, "detail": text when failed}, ...]; filled on failure too.
 * verbose: one line per row on stderr as it is done. 0: all equal; -1 and RP_MISMATCH: the first that differs. */
int rp_ops_selftest(int verbose, json_t **report, struct rp_err *err) rp_must_check;

#endif
