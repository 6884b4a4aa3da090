/* The speed of a device in the operations of a training step, in the arithmetic in which it is opened.
 *
 * What:    the GEMMs of a transformer of width 768 (BERT-base) at batch 32 and 96, attention, and the operations
 *          limited by memory; causal attention up to 8192 tokens as far as the device supports it; the convolutions of
 *          ResNet-50 at batch 32. In mixed precision what tensor cores compute: GEMMs, also of 8192 cubed, attention
 *          and convolutions.
 * Flow:    -> an array of {"what", "name", "shape", "seconds", "flops", "bytes", "calls"}: the median of several
 *          windows; flops and bytes of one call, where bytes counts each input and each output once.
 * Owner:   the caller owns *rows, and closes the device, which owns the blocks.
 * Extend:  a row in one of the tables of speed.c.
 */
#pragma once

#include "backend/backend.h"
#include "backend/case_watch.h"

#include <jansson.h>

/* Opens a device with the workspace of the largest sizes. */
struct rp_dev *rp_ops_speed_open(const struct rp_backend *b, const struct rp_device_opts *o,
                                 struct rp_err *err) rp_must_check;
/* seconds: about how long one row takes. stop: returns nonzero to end early; may be NULL. -1: the device failed in the
 * row that the last begin() names; *rows has those before. */
int rp_ops_speed(struct rp_dev *dev, const struct rp_device_opts *o, double seconds, int (*stop)(void),
                 const struct rp_case_watch *progress, json_t **rows, struct rp_err *err) rp_must_check;
