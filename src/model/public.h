/* A model in files of other tools: names of its tensors, classes that have only some of them, settings of config.json.
 *
 * What:    struct rp_public, constant tables of a model; a model without them reads and writes only its own names.
 * Flow:    train/checkpoint.c matches the tensors of a file, train/public_config.c compares and writes config.json.
 * Owner:   static tables, each ended by a row without a name.
 * Extend:  a class whose files lack tensors is a row of `lacking`; a setting that affects the arithmetic is a row of `setting`. Settings that
 *          affect it in no model are in train/public_config.c.
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

struct rp_public {
    const char *class, *type; /* of transformers, which has exactly the model's tensors: "BertForPreTraining", "bert"; NULL: no config.json */
    const char *end_token;    /* key of the recipe with the id of the end-of-document token; NULL: not written */
    const char *prefix;       /* of names that files may leave out; or NULL */
    const struct rp_alias *alias;
    const struct rp_old_ending *old;         /* or NULL */
    const struct rp_lacking *lacking;        /* or NULL */
    const struct rp_public_setting *setting; /* NULL where class is */
};
