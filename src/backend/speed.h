/* How fast a device is at the operations that a step of BERT is made of.
 *
 * What:    every matrix product of BERT-base at batch 32 and 96, attention, and the operations that memory limits, at their real sizes.
 * Flow:    -> an array of {"what", "shape", "seconds", "flops", "bytes", "calls"}: the median of several windows, each as long as
 *          its clock needs; flops and bytes of one call, bytes as few as the operation allows (each input read once, each output written).
 * Owner:   the caller owns *rows; blocks belong to the device, which is closed afterwards.
 * Extend:  a row in one of the tables of speed.c.
 */
#ifndef RP_BACKEND_SPEED_H
#define RP_BACKEND_SPEED_H

#include "backend/backend.h"

#include <jansson.h>

/* A device for it: with the workspace of the largest sizes. */
struct rp_dev *rp_ops_speed_open(const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err) rp_must_check;
/* seconds: about how long one row may take. stop: nonzero ends early, NULL: never. */
int rp_ops_speed(struct rp_dev *dev, double seconds, int (*stop)(void), json_t **rows, struct rp_err *err) rp_must_check;

#endif
