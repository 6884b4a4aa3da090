/* The state of a training: every weight, untrained buffer and optimizer slot by name, and one SHA-256 for all of them.
 *
 * What:    one list that state roots, checkpoints and comparisons walk; Merkle trees over 16 KiB leaves of every
 *          tensor, and one over the tensors, so that a mismatch can be narrowed.
 * Flow:    struct rp_trained -> entries -> 64 hex digits, and the root of each tensor by name.
 * Owner:   *tensors is a new reference of the caller.
 * Extend:  never for repro-fp32/1: a changed byte here is a new version.
 *
 *   d[i]        = SHA-256(the i-th 16384 bytes of the tensor, little-endian fp32, the last leaf shorter, NaN as
 *               0x7fc00000)
 *   tensor root = tree over leaves d[i]                          (32 bytes each)
 *   state root  = tree over leaves  name || 0x00 || tensor root  (name without NUL)
 *   tree(one leaf) = SHA-256(0x00 || leaf);  tree(n) = SHA-256(0x01 || tree(first k) || tree(rest)), k the largest
 *                                            power of two
 *   below n: the tree of RFC 6962, so that a leaf can never be taken for a node.
 * With tensor-parallel degree T > 1 a tensor with a shard axis has the leaves of shard 0, then those of shard 1, ...; a
 * shard of columns is taken row by row. Tensors in order: weights, buffers, then for each slot of the optimizer
 * "optimizer.<slot>." + name of every weight.
 */
#pragma once

#include "base/err.h"
#include "optim/optim.h"

#include <jansson.h>
#include <stdint.h>

#define RP_STATE_NAME (RP_TENSOR_NAME + 32)

struct rp_state_entry {
    char name[RP_STATE_NAME];
    const struct rp_tensor *t;
    int slot; /* of the optimizer; -1: a weight or buffer */
    float *x; /* on the device; NULL where there is none */
};
int rp_state_entries(const struct rp_trained *s);
void rp_state_entry_at(struct rp_state_entry *e, const struct rp_trained *s, int i);

/* tensors: {"name": "hex"} of each, or NULL. */
int rp_state_root(char hex[65], json_t **tensors, const struct rp_trained *s, struct rp_err *err) rp_must_check;
/* A digest that requires the state itself, its roots do not suffice: of one leaf of each tensor, chosen by the key.
 *   leaf   number (first 8 bytes of SHA-256(key || "\n" || name), big-endian) modulo the number of leaves of the tensor
 *   digest SHA-256("repro-keyed-root/1\n" || key || "\n" || for each tensor in order: name || 0x00 || leaf), NaN as in
 *   state roots */
int rp_state_keyed_root(char hex[65], const struct rp_trained *s, const char *key, struct rp_err *err) rp_must_check;
/* The state root from the roots of the tensors, without a device. RP_MISMATCH: not the tensors of that state. */
int rp_state_root_of(char hex[65], const struct rp_trained *s, const json_t *tensors, struct rp_err *err) rp_must_check;

size_t rp_state_leaves(const struct rp_tensors *l, int parallel); /* of the tensor with most of them */

/* tree over n >= 1 leaves of `size` bytes each */
void rp_merkle(unsigned char out[32], const unsigned char *leaves, long n, size_t size);
