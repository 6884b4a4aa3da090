/* The parts of a run that a challenge draws for replay.
 *
 * What:    state roots divide a run into parts; some of them are drawn, each at most once, from the nonce of a
 *          challenge and the digest of the bundle's statement.
 * Flow:    records + challenge + statement + number -> first step and number of steps of each, and the odds that they
 *          find nothing.
 * Owner:   rp_draw_fini() frees the list.
 * Extend:  never: both sides must draw the same parts.
 */
#pragma once

#include "base/err.h"
#include "run/facts.h"
#include "run/records.h"
#include "sign/challenge.h"

#include <jansson.h>
#include <stdint.h>

/* As many of 64 parts as make the odds below better than RP_ODDS_MOST. */
#define RP_DRAWS 7
/* The level timed is reached in full up to these odds: the bound of a test at 1 %. */
#define RP_ODDS_MOST 0.01

/* Steps up to a root, from the step after the root before it. */
struct rp_part {
    int64_t first, steps;
};

struct rp_draw {
    int64_t parts;        /* of the run */
    struct rp_part *part; /* [n] those drawn, in the order of the run */
    int n;
    int64_t steps;        /* of those */
    /* A run that skipped half of its steps, in as few parts as have them, passes with this probability. */
    double undetected;
};

/* Why a draw by that challenge will not count for a bundle that came in the second that ends at came_ns since 1970.
 * NULL: it was made later. Both times are whole seconds: a prover who saw the value could sign bundle after bundle in
 * what was left of its second. */
const char *rp_draw_early(const struct rp_challenge *c, int64_t came_s);
/* The same from what everybody knows: the run, and the key that signed it. */
const char *rp_draw_weakness(const struct rp_challenge *c, const struct rp_facts *run, const char *signer);
/* `draws` of the parts, or all where there are fewer. RP_UNAVAILABLE: the run has no state root after a step.
 * statement: SHA-256 of statement.dsse.json, in hex. */
int rp_draw_parts(struct rp_draw *out, const struct rp_records *records, const struct rp_challenge *c,
                  const char *statement, int draws, struct rp_err *err) rp_must_check;
void rp_draw_fini(struct rp_draw *d);
#define RP_DRAW __attribute__((cleanup(rp_draw_fini))) struct rp_draw
json_t *rp_draw_list(const struct rp_draw *d); /* [{"from", "steps"}] of those drawn */
