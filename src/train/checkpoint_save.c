/* --save: one file with everything, or a directory as transformers writes it, with the optimizer's slots apart.
 *
 * With several ranks, rank 0 writes the files, and every rank walks the same entries in the same pieces to send it the slots that it has. */
#include "base/buf.h"
#include "base/text.h"
#include "ops/numerics.h"
#include "train/checkpoint.h"
#include "train/file_order.h"
#include "train/public_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20) /* bytes copied at a time from device to file */

struct saver {
    struct rp_st_writer w;
    int writes; /* this is the rank that does */
    const struct rp_trained *state;
    int64_t step;
    float *piece;
    rp_alive_fn alive;
    void *alive_arg;
};

/* Elements [first, first + n) of an entry to x on the rank that writes: from itself, or from those that have them. */
static int fetch(struct saver *s, const struct rp_state_entry *e, size_t first, float *x, size_t n, struct rp_err *err)
{
    const struct rp_shares *shares = &s->state->shares;
    struct rp_dev *dev = s->state->dev;
    if (e->slot < 0)
        return s->writes ? dev->backend->download(dev, x, e->x + first, n * sizeof *x, err) : 0;
    for (int r = 0; r < shares->n; r++) {
        size_t from, to = rp_share_of_tensor(&shares->of[r], e->t, &from);
        to = to + from < first + n ? to + from : first + n;
        from = from > first ? from : first;
        if (from >= to)
            continue;
        const struct rp_transfer t = {r == shares->own ? 0 : r, r == shares->own, x + (from - first), (to - from) * sizeof *x};
        if (r == shares->own && dev->backend->download(dev, t.data, e->x + from, t.bytes, err) < 0)
            return -1;
        if (r > 0 && (s->writes || r == shares->own) && rp_comm_exchange(shares->comm, RP_GROUP_DATA, &t, 1, err) < 0)
            return -1;
    }
    return 0;
}

/* Its elements in another order: all in memory. */
static int save_convolution(struct saver *s, const struct rp_state_entry *e, struct rp_err *err)
{
    const size_t bytes = rp_tensor_bytes(e->t);
    RP_FREE float *here = rp_alloc(bytes), *file = rp_alloc(bytes);
    if (fetch(s, e, 0, here, e->t->count, err) < 0)
        return -1;
    for (size_t i = 0; i < e->t->count; i++)
        file[i] = here[rp_from_file(e->t, i)];
    return s->writes ? rp_st_append(&s->w, file, bytes, err) : 0;
}

static int save_tensor(struct saver *s, const struct rp_state_entry *e, struct rp_err *err)
{
    const size_t most = PIECE / sizeof(float);
    if (e->t->channels_first)
        return save_convolution(s, e, err);
    for (size_t at = 0; at < e->t->count; at += most) {
        size_t n = e->t->count - at < most ? e->t->count - at : most;
        if (s->alive && s->alive(s->alive_arg))
            return rp_fail(err, RP_INTERRUPTED, "stopped while saving");
        if (fetch(s, e, at, s->piece, n, err) < 0 || (s->writes && rp_st_append(&s->w, s->piece, n * sizeof(float), err) < 0))
            return -1;
    }
    return 0;
}

/* optimizer: of the slots in the file; NULL: it has none. */
static json_t *metadata_of(const struct saver *s, const char *optimizer)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)s->step);
    return json_pack("{s:s, s:s, s:s, s:s*}", "format", "pt", "step", text, "numerics", rp_numerics_name(RP_NUMERICS_fp32_1), "optimizer",
                     optimizer);
}

/* A file of `n` entries from number `first` on. */
static int save_entries(struct saver *s, const char *path, int first, int n, const char *optimizer, struct rp_err *err)
{
    RP_FREE struct rp_state_entry *e = rp_alloc((size_t)n * sizeof *e);
    RP_FREE struct rp_st_tensor *list = rp_alloc((size_t)n * sizeof *list);
    json_t *metadata = metadata_of(s, optimizer);
    for (int i = 0; i < n; i++) {
        rp_state_entry_at(&e[i], s->state, first + i);
        list[i] = rp_in_file(&e[i]);
    }
    int failed = s->writes && rp_st_create(&s->w, path, list, n, metadata, err) < 0;
    json_decref(metadata);
    if (failed)
        return -1;
    for (int i = 0; i < n; i++)
        if (save_tensor(s, &e[i], err) < 0) {
            if (s->writes)
                rp_st_abort(&s->w);
            return -1;
        }
    return s->writes ? rp_st_commit(&s->w, err) : 0;
}

static int save_config(const char *dir, const struct rp_recipe *r, struct rp_err *err)
{
    const struct rp_public *p = rp_model_of(r)->public;
    RP_BUF text = {0};
    if (!p || !p->class)
        return 0;
    RP_FREE char *path = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_CONFIG);
    rp_public_config_write(&text, r);
    return rp_write_file(path, text.data, text.size, 0666, err);
}

/* Slots of an older state never lie next to new weights: they go first and come last. */
static int save_directory(struct saver *s, const char *dir, const struct rp_recipe *r, struct rp_err *err)
{
    const int n = rp_state_entries(s->state), weights = s->state->weights->n + s->state->buffers->n;
    RP_FREE char *file = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_WEIGHTS), *slots = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_OPTIMIZER);
    if (s->writes && mkdir(dir, 0777) < 0 && errno != EEXIST)
        return rp_fail(err, RP_IO, "cannot make the directory '%s': %s", dir, strerror(errno));
    if (s->writes && unlink(slots) < 0 && errno != ENOENT)
        return rp_fail(err, RP_IO, "cannot replace '%s': %s", slots, strerror(errno));
    if (save_entries(s, file, 0, weights, NULL, err) < 0 || (s->writes && save_config(dir, r, err) < 0))
        return -1;
    return n > weights ? save_entries(s, slots, weights, n - weights, s->state->optimizer->name, err) : 0;
}

int rp_checkpoint_is_directory(const char *path)
{
    struct stat st;
    return rp_ends_with(path, "/") || (lstat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

int rp_checkpoint_save(const char *path, const struct rp_recipe *r, const struct rp_trained *state, int64_t step, rp_alive_fn alive,
                       void *alive_arg, struct rp_err *err)
{
    RP_FREE float *piece = rp_alloc(PIECE);
    struct saver s = {.writes = state->shares.own == 0, .state = state, .step = step, .piece = piece, .alive = alive, .alive_arg = alive_arg};
    if (state->dev->backend->sync(state->dev, err) < 0)
        return -1;
    return rp_checkpoint_is_directory(path) ? save_directory(&s, path, r, err)
                                            : save_entries(&s, path, 0, rp_state_entries(state), state->optimizer->name, err);
}

void rp_checkpoint_remove_unfinished(const char *path, pid_t pid)
{
    static const char *const files[] = {RP_CHECKPOINT_WEIGHTS, RP_CHECKPOINT_OPTIMIZER};
    if (!rp_checkpoint_is_directory(path)) {
        RP_FREE char *file = rp_st_temporary(path, pid);
        unlink(file);
        return;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        RP_FREE char *whole = rp_asprintf("%s/%s", path, files[i]), *file = rp_st_temporary(whole, pid);
        unlink(file);
    }
}
