/* Comparison of two captures: differences, values that cannot be compared, and their likely impact on throughput.
 *
 * What:    one walk over both documents; `repro capture diff` shows its result, a run lists it for its two captures, `verify` repeats it.
 * Flow:    two documents of the form of bundle/schemas/env.schema.json -> lists of differences with the grades of fields.def.
 * Owner:   the caller owns the json_t.
 * Extend:  a field is graded in fields.def; nothing here names one.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>

/* {"different": [D...]       known on both sides, or there on one and absent on the other
 *  "one_side": [D...]        known on one side; on the other denied, in error or not looked for
 *  "not_comparable": [D...]  hidden, with another salt or in clear on the other side
 *  "unknown": ["field"...]   known on neither side and not absent on both
 *  "not_captured": ["probe"...]  probes that ran on one side only
 *  "equal": n, "absent": n}  absent on both sides
 * Equal: also the limit "max" and none at all, and sizes of memory that differ by less than 1 % (APPROX in fields.def); not equal: the same
 * number in two units.
 * D = {"field", "pattern": of its row in fields.def or null, "impact": "high", "volatile": bool, "a": side, "b": side}
 *      and of the rows of the topology's matrix, whose lists have an order, "cells": [{"to": "GPU3", "a": "NV1", "b": "NV2"}...]
 * side = {"state", "value", "unit"} of the value, {"values": how many known ones a whole group has}, or null: not there.
 * In order of the fields. An unknown field counts as medium: it may matter.
 * Fails only for names that no capture has: RP_MALFORMED. */
json_t *rp_capture_compare(const json_t *a, const json_t *b, struct rp_err *err) rp_must_check;

/* The changes of a node in run.json: "different", "one_side" and "not_comparable" as one list in the order of the
 * fields, value by value, without "pattern" and with "before" and "after" for "a" and "b", and only identical values
 * are equal: except for the grades it does not depend on fields.def, so that later versions compute the same list. */
json_t *rp_capture_changes(const json_t *before, const json_t *after, struct rp_err *err) rp_must_check;

/* Is a D or such a change a setting that is likely to change the throughput: of high or medium impact, and not
 * volatile? A figure measured across such a difference describes neither side. */
int rp_change_matters(const char *impact, int varies);
int rp_capture_important(const json_t *difference);
/* The words of `list` that `other` lacks, as a new list; NULL unless both are lists of at most 4096 words. */
json_t *rp_capture_only_here(const json_t *list, const json_t *other);
