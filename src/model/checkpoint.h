/* Parameters and optimizer state to and from safetensors files.
 *
 * What:    public tensor names; moments as "optimizer.m." and "optimizer.v." + name; metadata "format": "pt" and "step".
 * Flow:    blocks -> file (--save), file -> blocks (--init), in pieces of 1 MiB.
 * Owner:   blocks are borrowed.
 * Extend:  a model that shares tensors under a second name passes it in `aliases`.
 *
 * Reading: every parameter must be there as F32 with its shape, and nothing else may be, except what others' files carry: aliases of
 * tied tensors (which must hold the same bytes) and ignored buffers. NaN and Inf are refused. Moments are all there or none is; with
 * them "step" says how many steps they have seen, and training goes on from there.
 */
#ifndef RP_MODEL_CHECKPOINT_H
#define RP_MODEL_CHECKPOINT_H

#include "backend/backend.h"
#include "model/manifest.h"

#include <stdint.h>

/* {name in a file, the manifest's name of the same tensor or NULL: not a trained tensor}, ended by {NULL} */
struct rp_alias {
    const char *name, *same;
};

/* alive: NULL, or called with alive_arg between pieces; nonzero: stop, leaving no file. */
int rp_checkpoint_save(const char *path, struct rp_dev *dev, const struct rp_manifest *m, float *const block[3], int64_t step,
                       int (*alive)(void *), void *alive_arg, struct rp_err *err) rp_must_check;
/* *step: steps behind the moments; 0 when the file has none (the moments are then left alone). */
int rp_checkpoint_load(const char *path, struct rp_dev *dev, const struct rp_manifest *m, float *const block[3],
                       const struct rp_alias *aliases, int64_t *step, struct rp_err *err) rp_must_check;

#endif
