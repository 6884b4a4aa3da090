/* One value of a key, from text or JSON; its expected form in words; and the nearest known name for an unknown one.
 *
 * What:    inner header of recipe/: everything that depends on key types. Rows are addressed by their index in
 *          keys.def.
 * Flow:    text or JSON -> struct rp_value (type and range checked) -> field of struct rp_recipe -> JSON.
 * Owner:   a value owns its text until rp_value_store() moves it into the recipe or rp_value_fini() frees it.
 * Extend:  a new key type is one case in each switch of keys.c.
 */
#pragma once

#include "recipe/recipe.h"

enum {
#define KEY(name, field, type, models, def, lo, hi, choices, flag, help) RP_KEY_##field,
#include "recipe/keys.def"
#undef KEY
    RP_KEY_COUNT
};

/* one bit a model: the column `models` of keys.def, and the rules of check.c */
#define FOR(model) (1u << RP_MODEL_##model)
#define ALL ((1u << RP_MODEL_COUNT) - 1)

struct rp_value {
    int64_t i; /* I; B and C as 0/1 and index */
    double f;
    char *s; /* S, L: words joined with ','; NULL: not set */
};

void rp_value_fini(struct rp_value *v);
void rp_value_store(struct rp_recipe *r, int key, struct rp_value *v, enum rp_origin origin); /* moves *v */

const struct rp_key *rp_key_at(int key);
int64_t rp_key_int(const struct rp_recipe *r, int key); /* of an I row */
int rp_key_is_later(const struct rp_recipe *r, int key); /* LATER in keys.def, of its model */
int rp_key_find(const char *name);                      /* row, or -1 */
/* The row whose name, or the last part of it, is nearest; -1: none is close. */
int rp_key_nearest(const char *name);
int rp_key_applies(const struct rp_recipe *r, int key); /* whether it is a key of the recipe's model */
/* -1 with RP_USAGE if it is not */
int rp_key_refuse(const struct rp_recipe *r, int key, struct rp_err *err) rp_must_check;
/* The expected form of a value: "a whole number from 1 to 65536, or max". Returns out. */
#define RP_KEY_FORM 200
const char *rp_key_form(char out[RP_KEY_FORM], int key);

/* Checks type and range. The message starts with the key's name and contains the expected form. */
int rp_value_parse(struct rp_value *v, int key, const char *text, struct rp_err *err) rp_must_check;
int rp_value_from_json(struct rp_value *v, int key, const json_t *j, struct rp_err *err) rp_must_check;
json_t *rp_value_to_json(const struct rp_recipe *r, int key);

/* Returns -1 with RP_USAGE: "unknown key 'x'", and "did you mean 'y'?" if one is close. */
int rp_key_unknown(const char *name, struct rp_err *err);

/* Whether YAML reads this plain word as another type than text: null, true, 12, 1e-4. */
int rp_text_is_typed(const char *text);

void rp_recipe_defaults(struct rp_recipe *r); /* initialises *r */
/* those of its model, where they differ; before other keys are set */
void rp_recipe_model_defaults(struct rp_recipe *r);
/* The source of the values of a model.config: the file itself, or the record of a run. Both NULL: model.config is
 * refused. */
struct rp_config_source {
    const char *dir_of;     /* a file in the same directory */
    const json_t *recorded; /* {"model.hidden_size": 1024, ...}: no file is read */
};

/* rp_recipe_parse() of *source, which it owns from then on, also on failure. */
int rp_recipe_from_source(struct rp_recipe *r, struct rp_buf *source, const char *name,
                          const struct rp_config_source *config, const char *backend, const char *const *set, int n_set,
                          struct rp_mistakes *m, struct rp_err *err) rp_must_check;

/* Runs one of the checks that compare keys with each other; `check` counts from 0. *key: the key at fault. Returns 1
 * where there are no more checks. */
int rp_recipe_check(const struct rp_recipe *r, int check, int *key, struct rp_err *err) rp_must_check;
