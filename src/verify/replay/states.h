/* Two files of one training state, element by element; and the root of one.
 *
 * What:    where bits differ: tensor, elements, values.
 * Flow:    safetensors files as `run --save` writes them -> struct rp_state_difference; file and recipe -> state root.
 * Owner:   nothing outlives the calls.
 * Extend:  another figure of the difference is a field, filled in compare_tensor().
 */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "recipe/recipe.h"

#include <inttypes.h>
#include <stdint.h>

struct rp_state_difference {
    int64_t tensors;     /* that differ; 0: all bits are equal, and the other fields are empty */
    char name[128];      /* the first one, in the order of the model */
    int64_t size;        /* its elements */
    int64_t first, last; /* the first and last element that differ */
    int64_t count;       /* how many differ */
    char was[32], here[32]; /* the first one as hex floats */
};

/* RP_MISMATCH: not the same tensors. */
int rp_states_compare(struct rp_state_difference *out, const char *was, const char *here,
                      struct rp_err *err) rp_must_check;
/* RP_MISMATCH: not the tensors of the recipe's model with its optimizer state. */
int rp_state_file_root(char hex[RP_SHA256_HEX], const char *path, const struct rp_recipe *r,
                       struct rp_err *err) rp_must_check;

#define RP_STATE_OF_STEP "step-%" PRId64 ".safetensors"
/* Where the state before step `first` is, if `init` is a directory of states for several parts (`challenge answer`):
 * free it. NULL: there is none of that name, and `init` is what it is. */
char *rp_replay_state_path(const char *init, int64_t first);
