/* Where the time of training steps goes, by operation.
 *
 * What:    times every operation of a device whose operations are done when they return, and counts what each call has
 *          to compute and to move.
 * Flow:    (rp_profile_begin() -> a step -> rp_profile_end())* -> rp_profile_take(): struct rp_profile of profile.def,
 *          sums over all these steps.
 * Owner:   one device at a time is profiled; between end and begin its operations are its own. The caller of take()
 *          finishes the struct.
 * Extend:  an operation of ops.def needs a COST_<name> in profile.c.
 */
#pragma once

#include "backend/backend.h"
#include "base/object.h"

#define RP_OBJECT_LIST "train/profile.def"
#include "base/object_structs.inc.h"

void rp_profile_begin(struct rp_dev *dev);
void rp_profile_end(struct rp_dev *dev);
/* Also ends counting: the next begin() starts anew. */
void rp_profile_take(struct rp_profile *out);
