/* A recipe: every key that decides a run, its value, and where the value came from.
 *
 * What:    keys.def lists each key once (type, default, range, choices, help, command line flag); from it follow the struct
 *          fields below, the YAML reader, --set, the flags of `run`, the resolved form in a bundle, and the documentation.
 * Flow:    YAML bytes -> struct rp_recipe (defaults, model.config, recipe, backend section, command line, in that order) -> JSON and back.
 * Owner:   struct rp_recipe owns its strings and the exact bytes; rp_recipe_fini() frees them.
 * Extend:  one row in keys.def; read the field where it is needed.
 */
#ifndef RP_RECIPE_RECIPE_H
#define RP_RECIPE_RECIPE_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

enum rp_origin { RP_FROM_DEFAULT, RP_FROM_RECIPE, RP_FROM_CONFIG, RP_FROM_BACKEND, RP_FROM_COMMAND_LINE };
const char *rp_origin_name(enum rp_origin o); /* "default", "recipe", "model.config", "backend section", "command line" */

#define RP_BATCH_MAX 0 /* train.batch_size: max */

/* The C type behind each key type: I int64_t, F double, S char * (NULL: not set), B int (0/1), C int (index into the choices),
 * L char * (a list of words joined with ',', NULL or "" for none). */
typedef int64_t rp_key_I;
typedef double rp_key_F;
typedef char *rp_key_S;
typedef int rp_key_B;
typedef int rp_key_C;
typedef char *rp_key_L;

struct rp_recipe {
    /* `train.batch_size` is field train_batch_size */
#define KEY(name, field, type, def, lo, hi, choices, flag, help) rp_key_##type field;
#include "recipe/keys.def"
#undef KEY
    enum rp_origin origin[160]; /* by row of keys.def; the table's length is checked against it */
    struct rp_buf source;      /* the exact bytes of the YAML file */
    char *source_name;         /* path or "embedded:bert_fp32" */
    char sha256[65];           /* of source */
    char *ignored;             /* keys of model.config that say nothing about the mathematics, "a, b"; NULL: none */
};

void rp_recipe_fini(struct rp_recipe *r);

/* `where` is a path with or without ".yaml", or the name of an embedded recipe, with or without "recipes/" (a path wins; source_name
 * says which it was). backend: name of the backend whose section applies, NULL: none. set: n_set "key=value" texts from the command
 * line, each key once. On failure nothing is owned by *r. Errors in the file read "file:line:column: ...". */
int rp_recipe_load(struct rp_recipe *r, const char *where, const char *backend, const char *const *set, int n_set,
                   struct rp_err *err) rp_must_check;
/* The same from bytes (a bundle's recipe.yaml, tests, fuzzing); name is used in messages. Bytes have no directory of their own, so
 * a model.config in them is refused; no file is read on their behalf. */
int rp_recipe_parse(struct rp_recipe *r, const char *data, size_t size, const char *name, const char *backend,
                    const char *const *set, int n_set, struct rp_err *err) rp_must_check;

/* The same as it was once done: what a model.config set then, {"model.hidden_size": 1024, ...}, stands for every model.config that is named
 * in the bytes or in `set`, and no file is read either. */
int rp_recipe_parse_again(struct rp_recipe *r, const char *data, size_t size, const char *name, const json_t *config, const char *backend,
                          const char *const *set, int n_set, struct rp_err *err) rp_must_check;

/* {"train.batch_size": {"value": 32, "origin": "recipe"}, ...} for every key. A text that is not set is null, a list is an array,
 * batch_size max is "max"; reals survive the way there and back bit for bit. */
json_t *rp_recipe_to_json(const struct rp_recipe *r);
/* Back again, checked like a recipe; for the worker and for replay. A key that is not there has its default: documents written
 * before the key existed keep their meaning. source, source_name and sha256 stay empty. */
int rp_recipe_from_json(struct rp_recipe *r, const json_t *j, struct rp_err *err) rp_must_check;
/* One value of that form as --set takes it (free it). */
char *rp_recipe_value_text(const json_t *value);
/* One key by name, from text, as --set does it. Checks the value alone; how keys agree with each other is checked by load, parse
 * and from_json. */
int rp_recipe_set(struct rp_recipe *r, const char *key, const char *value, enum rp_origin origin, struct rp_err *err) rp_must_check;

/* The key table, for the command line and the documentation. */
struct rp_key {
    const char *name, *flag, *choices, *help, *def;
    char type;
    double lo, hi;
};
const struct rp_key *rp_key_table(int *n);

/* Embedded recipes: names ("bert_fp32"), first comment line of each. */
struct rp_recipe_name {
    const char *name, *title;
};
const struct rp_recipe_name *rp_recipe_names(int *n);

#endif
