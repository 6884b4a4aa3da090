/* config.json of transformers, against a recipe and from it.
 *
 * What:    whether the settings of a published model are those of the recipe; the file that describes a saved one.
 * Flow:    --init DIR: config.json -> rp_public_config_check() -> names of ignored and unknown settings; --save DIR:
 *          recipe -> config.json.
 * Owner:   `ignored` and `unknown` are arrays of the caller's.
 * Extend:  the settings of a model are in recipe/config.c.
 */
#pragma once

#include "base/buf.h"
#include "model/model.h"

#include <jansson.h>

/* Reads `path`. RP_USAGE: a setting differs from the recipe's, both values are named. */
int rp_public_config_check(const char *path, const struct rp_recipe *r, json_t *ignored, json_t *unknown,
                           struct rp_err *err) rp_must_check;
/* The text of config.json; the recipe's model has one (struct rp_public, class). */
void rp_public_config_write(struct rp_buf *out, const struct rp_recipe *r);
