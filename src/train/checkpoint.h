/* Weights, buffers and optimizer state to and from safetensors files.
 *
 * What:    public tensor names; slots of the optimizer as "optimizer.<slot>." + name; metadata "format": "pt" and
 *          "step". A file has all of it. A directory is one of transformers: model.safetensors has weights and buffers,
 *          config.json the settings (of models that have one), optimizer.safetensors the slots.
 * Flow:    blocks -> file or directory (--save); file or directory (--init) -> rp_checkpoint_open(): every name, type,
 *          shape and setting is checked, no data is read -> rp_checkpoint_load(): blocks, in pieces of 1 MiB.
 * Owner:   struct rp_checkpoint owns its files until rp_checkpoint_close(); safe after an open that failed.
 * Extend:  names in files of others are tables of the model (model/public.h).
 *
 * Reading: every weight and buffer must be there as F32, F16 or BF16 with its shape, and nothing else may be, except
 * what others' files carry: aliases of tied tensors (which must have the same bytes), ignored buffers. Names may lack
 * the model's prefix or have an old ending, but not both forms in one file; all may begin with what wrappers of PyTorch
 * put there. Embeddings may lack padding rows, which are then 0. A class of transformers that has no such head lacks
 * the tensors of it: they keep their initialisation, and the description names them. PyTorch's counters of batches go
 * on from where the file has them. NaN and Inf are refused. Slots are F32, all there or none is; with them "step" is
 * the number of steps they have seen, and training goes on from there. Weights may be in several files, which an index
 * lists.
 */
#pragma once

#include "model/model.h"
#include "train/safetensors.h"
#include "train/state.h"

#include <stdint.h>

/* Names of the files in a directory. */
#define RP_CHECKPOINT_WEIGHTS "model.safetensors"
/* after the name: a list of several files, as save_pretrained writes large models */
#define RP_CHECKPOINT_INDEX ".index.json"
#define RP_CHECKPOINT_CONFIG "config.json"
#define RP_CHECKPOINT_OPTIMIZER "optimizer.safetensors"
/* In the metadata of optimizer slots: of a dynamic loss scale "scale good bad at_minimum" of struct rp_loss_scale; and
 * how many steps changed no weight, if any, since the updates are counted on by runs without a loss scale too. */
#define RP_CHECKPOINT_SCALE "loss_scale"
#define RP_CHECKPOINT_SKIPPED "skipped_steps"

struct rp_checkpoint_match {
    const struct rp_st *in;       /* NULL: the files do not have it */
    const struct rp_st_tensor *s;
};

struct rp_checkpoint {
    struct rp_st weights, optimizer; /* the latter only of a directory; fd -1: none */
    const struct rp_public *public;  /* names of the model in other files; or NULL */
    struct rp_checkpoint_match *at;  /* of each entry of the state */
    int n;
    int lacks;                       /* weights and buffers that keep their initialisation */
    const char *class;               /* whose files lack them; NULL: none are lacking */
    int slots;                       /* the files have optimizer slots */
    int64_t step;                    /* that the slots have seen; 0 without them */
    struct rp_loss_scale scale;      /* after that step; as it begins without them */
    int64_t *batches_before;         /* as in rp_trained; rp_checkpoint_load() hands it over */
    json_t *ignored, *unknown;       /* names in config.json; NULL: it was not read */
};

/* state: needs no device. RP_USAGE: a setting of config.json differs from the recipe's. */
int rp_checkpoint_open(struct rp_checkpoint *c, const char *path, const struct rp_recipe *r,
                       const struct rp_trained *state, struct rp_err *err) rp_must_check;
void rp_checkpoint_close(struct rp_checkpoint *c);
/* Everything that the files have, to the device; the rest stays as it is. */
int rp_checkpoint_load(struct rp_checkpoint *c, struct rp_trained *state, struct rp_err *err) rp_must_check;

/* Whether --init PATH fits the recipe, from headers and config.json alone: what rp_checkpoint_open() refuses. *found
 * (or NULL): its description, {"optimizer_state", "steps", "class", "initialised": [name], "types": [name],
 * "config_ignored", "config_unknown"}; class, config_ignored and config_unknown are absent where there is nothing of
 * the kind. */
int rp_checkpoint_check(const char *path, const struct rp_recipe *r, json_t **found, struct rp_err *err) rp_must_check;

/* Whether --save PATH means a directory: an existing one, or a name that ends in '/'. */
int rp_checkpoint_is_directory(const char *path);
/* path: a file, or a directory, which is made unless it exists. alive: NULL, or called with alive_arg between pieces;
 * nonzero: stop, leaving no unfinished file. */
int rp_checkpoint_save(const char *path, const struct rp_recipe *r, const struct rp_trained *state, int64_t step,
                       rp_alive_fn alive, void *alive_arg, struct rp_err *err) rp_must_check;
/* Removes what the process `pid` left unfinished there, after it was killed. */
void rp_checkpoint_remove_unfinished(const char *path, pid_t pid);
