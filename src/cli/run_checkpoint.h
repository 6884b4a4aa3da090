/* The files of --init and --save, before training starts.
 *
 * What:    whether what --init names fits the recipe, and whether --save can be written hours later and has room.
 * Flow:    recipe -> checks and messages -> description of the file of --init for facts.json.
 * Owner:   *found is a new reference of the caller's.
 * Extend:  what a checkpoint may contain is in train/checkpoint.h.
 */
#pragma once

#include "base/term.h"
#include "recipe/recipe.h"
#include "train/train.h"

#include <jansson.h>

/* *found: as of rp_checkpoint_check(), NULL without --init. force: --save may replace files. */
int rp_run_check_checkpoints(const struct rp_recipe *r, int force, struct rp_progress *progress, json_t **found,
                             struct rp_err *err) rp_must_check;
/* Room for --save, which is written next to existing files, hours later. */
int rp_run_check_room(const struct rp_recipe *r, const struct rp_plan *plan, struct rp_err *err) rp_must_check;
