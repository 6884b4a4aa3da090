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

/* Losses that follow from the recipe alone. */
struct rp_loss_expected {
    double guess;       /* of guessing, without having learnt anything */
    double first, off;  /* of the first step of an initialised model, and by how much it may be off; off < 0: not known */
};

struct rp_model {
    const char *name, *sample_unit;                  /* "bert", "sequences" */
    const char *task;                                /* what is trained, in published tables: "pre-training" */
    const char *loss_part[RP_LOSS_PARTS_MAX + 1];    /* ended by NULL; they add up to the loss. None: the loss has no parts */
    struct rp_counter counter[RP_COUNTERS_MAX + 1];  /* ended by a name of NULL */
    const char *(*alias)(const struct rp_recipe *r); /* what tables call a model of these sizes: "bert-base"; NULL: it has no name */
    struct rp_loss_expected (*expected_loss)(const struct rp_recipe *r, int64_t samples);
};

const struct rp_model *rp_model_find(const char *name); /* NULL: there is none of that name */
const struct rp_model *rp_model_of(const struct rp_recipe *r);

/* Of lists ended by NULL. */
int rp_model_loss_parts(const struct rp_model *m);
int rp_model_counters(const struct rp_model *m);

#endif
