/* A recipe: every key that decides a run, its value, and the origin of the value.
 *
 * What:    keys.def lists each key once (type, default, range, choices, help, command line flag); from it follow the
 *          struct fields below, the YAML reader, --set, the flags of `run`, the resolved form in a bundle, and the
 *          documentation.
 * Flow:    YAML bytes -> struct rp_recipe (defaults, model.config, recipe, backend section, command line, in that
 *          order) -> JSON and back.
 * Owner:   struct rp_recipe owns its strings and the exact bytes; rp_recipe_fini() frees them.
 * Extend:  one row in keys.def, which describes its columns; use the field where it is needed.
 *
 * The key `workload`, wherever it is written, names the model, and the model decides which rows are keys of the recipe.
 * The fields of other rows keep their defaults, cannot be set and are not in the resolved form.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "ops/numerics.h"
#include "recipe/choices.h"

#include <jansson.h>
#include <stdint.h>

enum rp_origin {
    RP_FROM_DEFAULT, RP_FROM_RECIPE, RP_FROM_CONFIG, RP_FROM_BACKEND, RP_FROM_COMMAND_LINE, RP_FROM_CHALLENGE
};
/* "default", "recipe", "model.config", "backend section", "command line", "challenge" */
const char *rp_origin_name(enum rp_origin o);

#define RP_BATCH_MAX 0 /* train.batch_size: max */
#define RP_KEYS_MAX 160
#define RP_RECIPE_MAX (256u << 10) /* bytes of a recipe */

struct rp_place { /* of a text in a recipe, from 1; line 0: not in the file */
    int line, col;
};

/* The C type behind each key type: I int64_t, F double, S char * (NULL: not set), B int (0/1), C int (of an enum of
 * choices.h), L char * (a list of words joined with ',', NULL or "" for none). */
typedef int64_t rp_key_I;
typedef double rp_key_F;
typedef char *rp_key_S;
typedef int rp_key_B;
typedef int rp_key_C;
typedef char *rp_key_L;

struct rp_recipe {
    /* `train.batch_size` is field train_batch_size */
#define KEY(name, field, type, models, def, lo, hi, choices, flag, help) rp_key_##type field;
#include "recipe/keys.def"
#undef KEY
    enum rp_origin origin[RP_KEYS_MAX]; /* by row of keys.def */
    struct rp_place place[RP_KEYS_MAX]; /* of the value */
    struct rp_buf source;      /* the exact bytes of the YAML file */
    char *source_name;         /* path or "embedded:bert_fp32" */
    char sha256[65];           /* of source */
    char *ignored;             /* keys of model.config that do not affect the mathematics, "a, b"; NULL: none */
};

void rp_recipe_fini(struct rp_recipe *r);

/* The arithmetic that it fixes. */
enum rp_numerics rp_recipe_numerics(const struct rp_recipe *r);

/* Micro-batches of a step, over all ranks. */
static inline int64_t rp_recipe_micro_batches(const struct rp_recipe *r)
{
    return r->train_accumulation_steps * r->parallel_data;
}


/* `where` is a path with or without ".yaml", or the name of an embedded recipe, with or without "recipes/" (a path
 * wins; source_name says which it was). backend: name of the backend whose section applies, NULL: none. set: n_set
 * texts of the command line, each key once: "key=value", or "--flag=value" from the option that a key has of its own.
 * On failure nothing is owned by *r. Errors in the file read "file:line:column: ...". */
int rp_recipe_load(struct rp_recipe *r, const char *where, const char *backend, const char *const *set, int n_set,
                   struct rp_err *err) rp_must_check;
/* The same from bytes (a bundle's recipe.yaml, tests, fuzzing); name is used in messages. Bytes have no directory of
 * their own, so a model.config in them is refused; no file is read on their behalf. */
int rp_recipe_parse(struct rp_recipe *r, const char *data, size_t size, const char *name, const char *backend,
                    const char *const *set, int n_set, struct rp_err *err) rp_must_check;

/* rp_recipe_parse() for a recorded run: `config`, the values that a model.config had set, {"model.hidden_size": 1024,
 * ...}, replaces every model.config in the bytes or in `set`; no file is read. */
int rp_recipe_parse_again(struct rp_recipe *r, const char *data, size_t size, const char *name, const json_t *config,
                          const char *backend, const char *const *set, int n_set, struct rp_err *err) rp_must_check;

/* All mistakes of a recipe, as rp_recipe_parse() and rp_recipe_load() would report one after the other; n 0: none. An
 * item's message begins with "file:line:column: " where it has a place. */
#define RP_MISTAKES_MAX 64
struct rp_mistakes { /* in the order of the file */
    struct rp_err item[RP_MISTAKES_MAX];
    int line[RP_MISTAKES_MAX]; /* 0: of none */
    int n;
};
/* As rp_recipe_load(), but reads on after a mistake. 0: *r is right, and the caller's; -1: m->n > 0, or *err is set
 * because it could not be read at all. */
int rp_recipe_load_all(struct rp_recipe *r, struct rp_mistakes *m, const char *where, struct rp_err *err) rp_must_check;
/* The same from bytes; name is used in messages. */
int rp_recipe_parse_all(struct rp_recipe *r, struct rp_mistakes *m, const char *data, size_t size, const char *name,
                        struct rp_err *err) rp_must_check;

/* {"train.batch_size": {"value": 32, "origin": "recipe"}, ...} for every key of the model. A text that is not set is
 * null, a list is an array, batch_size max is "max"; reals are exact. A key that is LATER in keys.def is there only if
 * something set it. */
json_t *rp_recipe_to_json(const struct rp_recipe *r);
/* An entry of that form, which may be NULL; origin: "" where there is none. */
struct rp_recorded {
    const json_t *value;
    const char *origin;
};
struct rp_recorded rp_recorded(const json_t *entry);
/* Adds the LATER keys with their defaults. */
void rp_recipe_complete(json_t *recipe);
/* The reverse, checked like a recipe; for the worker and for replay. Exactly the keys of the model must be present,
 * LATER ones may be absent. source, source_name and sha256 stay empty. */
int rp_recipe_from_json(struct rp_recipe *r, const json_t *j, struct rp_err *err) rp_must_check;
/* In that form, of settings that name files of the user only that they do: "OWN", "GIVEN", "SAVED", or "SAVED/" for a
 * folder. */
void rp_recipe_hide_paths(json_t *recipe);
/* One value of that form as text for --set (free it). */
char *rp_recipe_value_text(const json_t *value);
/* Is that text of the command line, "key=value" or "--flag=value", one of that key? */
int rp_setting_is_of(const char *set, const char *key);
/* Sets one key, as --set does. Checks only the value; load, parse and from_json check keys against each other. */
int rp_recipe_set(struct rp_recipe *r, const char *key, const char *value, enum rp_origin origin,
                  struct rp_err *err) rp_must_check;

/* What a challenge sets, after everything else: every seed.* of the model is the first 52 bits (31 of seed.data with
 * data.order megatron) of SHA-256("repro-seed/1\n" NONCE "\n" SIGNER "\n" SHA-256 of the recipe "\n" KEY "\n"), and
 * evidence.state_root_every the steps divided by `parts`, rounded down, at least 1. nonce: 64 hex digits; signer:
 * fingerprint, so that an answer cannot be copied. RP_USAGE: one of these keys was set on the command line. */
int rp_recipe_challenge(struct rp_recipe *r, const char *nonce, int64_t parts, const char *signer,
                        struct rp_err *err) rp_must_check;

/* The key table, for the command line and the documentation. */
struct rp_key {
    const char *name, *flag, *choices, *help, *def;
    char type;
    unsigned models; /* bit 1 << enum rp_model_id */
    double lo, hi;
};
const struct rp_key *rp_key_table(int *n);
const char *rp_key_default(const struct rp_key *k, int model); /* of enum rp_model_id */
int rp_model_parse(const char *name, struct rp_err *err); /* enum rp_model_id; -1: RP_USAGE names the nearest one */

/* Embedded recipes: names ("bert_fp32", "gpt/CASE"), first comment line of each, by model, precision and name; those of
 * a group are the last. */
struct rp_recipe_name {
    const char *name, *title;
    const char *model, *precision; /* as the recipe writes them; "": it does not */
    const char *group;             /* "gpt"; NULL: none */
};
const struct rp_recipe_name *rp_recipe_names(int *n);
