/* Weights, buffers and optimizer state to and from safetensors files.
 *
 * What:    public tensor names; slots of the optimizer as "optimizer.<slot>." + name; metadata "format": "pt" and "step".
 *          Convolutions are [out, in, kh, kw] in files and [out, kh, kw, in] here.
 * Flow:    blocks -> file (--save), file -> blocks (--init), in pieces of 1 MiB.
 * Extend:  a model that shares tensors under a second name lists it in its aliases.
 *
 * Reading: every parameter must be there as F32 with its shape, and nothing else may be, except what others' files carry: aliases of
 * tied tensors (which must hold the same bytes), names without the model's prefix, ignored buffers, and embeddings without padding rows,
 * which are then 0. NaN and Inf are refused. Slots are all there or none is; with
 * them "step" is the number of steps they have seen, and training goes on from there.
 */
#pragma once

#include "model/model.h"
#include "train/state.h"

#include <stdint.h>

/* alive: NULL, or called with alive_arg between pieces; nonzero: stop, leaving no file. */
int rp_checkpoint_save(const char *path, const struct rp_trained *state, int64_t step, rp_alive_fn alive, void *alive_arg,
                       struct rp_err *err) rp_must_check;
/* *step: steps that the slots have seen; 0 if the file has no slots, which are then not loaded. model: for the names of
 * others' files. */
int rp_checkpoint_load(const char *path, const struct rp_trained *state, const struct rp_model *model, int64_t *step,
                       struct rp_err *err) rp_must_check;
