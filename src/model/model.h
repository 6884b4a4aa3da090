/* A model: what can be trained, as a row of declarations and functions.
 *
 * What:    the border between the trainer and the mathematics of one model.
 * Flow:    the recipe key `workload` -> rp_model_of() -> struct rp_model.
 * Owner:   static data.
 * Extend:  a folder beside bert/ that fills a struct rp_model, and one row in models.c.
 */
#ifndef RP_MODEL_MODEL_H
#define RP_MODEL_MODEL_H

#include "recipe/recipe.h"

#include <stdint.h>

#define RP_LOSS_PARTS_MAX 4
#define RP_COUNTERS_MAX 4

/* Something a step counts beside its samples: tokens, say. */
struct rp_counter {
    const char *name;
    /* How many a sample has, where every sample has as many; NULL: it varies, and is at most that of the counter `most`. */
    int64_t (*per_sample)(const struct rp_recipe *r);
    int most; /* index of a counter, only where per_sample is NULL */
};

struct rp_model {
    const char *name, *sample_unit;                  /* "bert", "sequences" */
    const char *loss_part[RP_LOSS_PARTS_MAX + 1];    /* ended by NULL; they add up to the loss. None: the loss has no parts */
    struct rp_counter counter[RP_COUNTERS_MAX + 1];  /* ended by a name of NULL */
};

const struct rp_model *rp_model_find(const char *name); /* NULL: there is none of that name */
const struct rp_model *rp_model_of(const struct rp_recipe *r); /* NULL: not built in */
/* RP_UNAVAILABLE, with the place in the recipe, where its model is not built in. */
int rp_model_check(const struct rp_recipe *r, struct rp_err *err) rp_must_check;

/* Of lists ended by NULL. */
int rp_model_loss_parts(const struct rp_model *m);
int rp_model_counters(const struct rp_model *m);

#endif
