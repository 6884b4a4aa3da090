/* A model in files of other tools: names of its tensors, classes that have only some of them.
 *
 * What:    struct rp_public, constant tables of a model; a model without them reads and writes only its own names.
 * Flow:    train/checkpoint.c matches the tensors of a file, train/public_config.c compares and writes config.json.
 * Owner:   static tables, each ended by a row without a name.
 * Extend:  a class whose files lack tensors is a row of `lacking`; the settings of config.json are in recipe/config.c.
 */
#pragma once

/* A second name of a tensor; same NULL: a tensor that is not trained. %d: any number. */
struct rp_alias {
    const char *name, *same;
};

/* Names that end in `old` are those of the tensors whose names end in `now`. */
struct rp_old_ending {
    const char *old, *now;
};

/* A class whose files lack the tensors whose names begin with one of these. */
struct rp_lacking {
    const char *name, *lacks[4];
};

struct rp_public {
    /* of transformers, which has exactly the model's tensors: "BertForPreTraining"; NULL: no config.json */
    const char *class;
    const char *end_token;    /* key of the recipe with the id of the end-of-document token; NULL: not written */
    const char *prefix;       /* of names that files may leave out; or NULL */
    /* next to a buffer whose name ends in the former, files count batches under the latter; or NULL */
    const char *counted, *counter;
    const struct rp_alias *alias;
    const struct rp_old_ending *old;         /* or NULL */
    const struct rp_lacking *lacking;        /* or NULL */
};
