/* The part of a run that a challenge draws for replay.
 *
 * What:    state roots divide a run into parts; one of them is drawn from the nonce of a challenge and the digest of the bundle's statement.
 * Flow:    records + challenge + statement -> first step and number of steps.
 * Owner:   nothing is kept.
 * Extend:  never: both sides must draw the same part.
 */
#pragma once

#include "base/err.h"
#include "run/records.h"
#include "sign/challenge.h"

#include <stdint.h>

/* RP_UNAVAILABLE: the run has no steps between two state roots. statement: SHA-256 of statement.dsse.json, in hex. */
int rp_draw_part(int64_t *first, int64_t *steps, const struct rp_records *records, const struct rp_challenge *c, const char *statement,
                 struct rp_err *err) rp_must_check;
