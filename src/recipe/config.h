/* Models in config.json of transformers, which model.config reads and train/public_config.c compares and writes.
 *
 * What:    inner header of recipe/: for each model, its settings there, and the keys of a recipe that they are.
 * Flow:    model.config: config.json -> model.* rows with origin model.config; --init DIR and --save DIR: the same
 *          tables.
 * Owner:   static tables, each ended by a row without a name.
 * Extend:  a setting that affects the arithmetic of a model is a row of its table in config.c; one that affects none is
 *          a word of `harmless`.
 */
#pragma once

#include "recipe/recipe.h"

#include <jansson.h>

enum rp_setting_kind {
    RP_SETTING_VALUE,      /* must be the value of the recipe's key */
    RP_SETTING_ACTIVATION, /* the same, of a key of RP_ACTIVATIONS, by the name that transformers uses */
    RP_SETTING_INNER,      /* the same; null: four times model.hidden_size */
    RP_SETTING_ROWS,       /* rows of the word embedding: from model.vocab_size to model.padded_vocab_size */
    RP_SETTING_SAVED,      /* written, not compared: it does not affect the tensors of a file */
    RP_SETTING_ONLY        /* must be `value`, the only one that this program computes; not written */
};

struct rp_public_setting {
    const char *name;  /* in config.json */
    const char *value; /* as JSON: what an absent one is */
    enum rp_setting_kind kind;
    const char *key; /* of the recipe; NULL for RP_SETTING_ONLY */
};

/* of its model; NULL: it has no config.json */
const struct rp_public_setting *rp_public_settings(const struct rp_recipe *r);
const char *rp_public_type(const struct rp_recipe *r);                          /* "bert", "gpt2", or NULL */
/* of RP_ACTIVATIONS, by the name that transformers uses; -1: none of them. name may be NULL */
int rp_public_activation(const char *name);
/* Whether a setting of transformers affects the arithmetic of no model. */
int rp_config_is_harmless(const char *name);

/* config.json or bert_config.json at `path`: its values into the model.* rows that `skip` does not mark, with origin
 * model.config. */
int rp_recipe_config(struct rp_recipe *r, const char *path, const char *skip, struct rp_err *err) rp_must_check;
/* The same from the record of a run. */
int rp_recipe_config_recorded(struct rp_recipe *r, const json_t *recorded, const char *skip,
                              struct rp_err *err) rp_must_check;
