/* State root: one SHA-256 for all parameters and optimizer state, that can be narrowed to a tensor.
 *
 * What:    Merkle trees over 16 KiB leaves of every tensor, and one over the tensors.
 * Flow:    blocks + manifest -> 64 hex digits, and the root of each tensor by name.
 * Owner:   *tensors is a new reference of the caller.
 * Extend:  never for repro-fp32/1: a changed byte here is a new version.
 *
 *   d[i]        = SHA-256(the i-th 16384 bytes of the tensor, little-endian fp32, the last leaf shorter, NaN as 0x7fc00000)
 *   tensor root = tree over leaves d[i]                          (32 bytes each)
 *   state root  = tree over leaves  name || 0x00 || tensor root  (name without NUL)
 *   tree(one leaf) = SHA-256(0x00 || leaf);  tree(n) = SHA-256(0x01 || tree(first k) || tree(rest)), k the largest power of two
 *   below n: the tree of RFC 6962, so that a leaf can never be taken for a node.
 * Tensors in order: parameters, then "optimizer.m." + name for all, then "optimizer.v." + name for all.
 */
#ifndef RP_MODEL_STATE_ROOT_H
#define RP_MODEL_STATE_ROOT_H

#include "backend/backend.h"
#include "base/err.h"
#include "model/manifest.h"

#include <jansson.h>
#include <stdint.h>

/* leaves: device memory, 32 bytes for every 16 KiB of the largest tensor. tensors may be NULL. */
int rp_state_root(char hex[65], json_t **tensors, struct rp_dev *dev, const struct rp_manifest *m, const float *const block[3],
                  uint8_t *leaves, struct rp_err *err) rp_must_check;

/* The same from the roots of the tensors: {"name": "hex"}. RP_MISMATCH: not the tensors of the manifest. */
int rp_state_root_of(char hex[65], const struct rp_manifest *m, const json_t *tensors, struct rp_err *err) rp_must_check;

extern const char *const rp_state_prefix[3]; /* "", "optimizer.m.", "optimizer.v." */

/* tree over n >= 1 leaves of `size` bytes each */
void rp_merkle(unsigned char out[32], const unsigned char *leaves, long n, size_t size);

#endif
