/* --save: one file with everything, or a directory as transformers writes it, with the optimizer's slots apart.
 *
 * With several ranks, rank 0 writes the files, and every rank walks the same entries in the same pieces to send it what
 * it alone has. */
#include "base/buf.h"
#include "base/text.h"
#include "ops/low.h"
#include "ops/numerics.h"
#include "train/batch_counts.h"
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
    enum rp_precision precision; /* of the weights */
    enum rp_numerics numerics;
    int scales; /* the loss, dynamically */
    const struct rp_public *public;
    struct rp_st_writer w;
    int writes; /* this is the rank that does */
    const struct rp_trained *state;
    int64_t step;
    float *piece, *part; /* of the file, of a rank */
    rp_alive_fn alive;
    void *alive_arg;
};

/* The first element of a rank's part that is in the whole at or after `at`. */
static size_t part_before(const struct rp_tensor *t, int rank, size_t at)
{
    size_t lo = 0, hi = t->count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (rp_tensor_whole_element(t, rank, mid) < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Elements [from, to) of the part of a tensor that one rank has. */
struct part_range {
    const struct rp_tensor *t; /* on that rank */
    int owner, rank;           /* its number in the world, and among the ranks that divide the tensor */
    const float *on_device;    /* the part, there */
    size_t from, to;
};

/* From the owner's memory to their places in x, which begins at element `first` of the whole, on the rank that
 * writes. */
static int fetch_part(struct saver *s, const struct part_range *r, size_t first, float *x, struct rp_err *err)
{
    const struct rp_parts *p = s->state->parts;
    const int own = p->comm->rank[RP_GROUP_WORLD] == r->owner;
    if (r->from >= r->to || (!own && !s->writes))
        return 0;
    const size_t n = r->to - r->from;
    const struct rp_transfer m = {own ? 0 : r->owner, own, s->part, n * sizeof *x};
    if (own && s->state->dev->backend->download(s->state->dev, s->part, r->on_device + r->from, m.bytes, err) < 0)
        return -1;
    if (r->owner > 0 && rp_comm_exchange(p->comm, RP_GROUP_WORLD, &m, 1, err) < 0)
        return -1;
    for (size_t j = 0, run = rp_tensor_whole_run(r->t), k; s->writes && j < n; j += k) {
        const size_t left = run - (r->from + j) % run;
        k = left < n - j ? left : n - j;
        memcpy(x + rp_tensor_whole_element(r->t, r->rank, r->from + j) - first, s->part + j, k * sizeof *x);
    }
    return 0;
}

/* A buffer: every rank has it. */
static int fetch_buffer(struct saver *s, const struct rp_state_entry *e, size_t first, float *x, size_t n,
                        struct rp_err *err)
{
    return s->writes ? s->state->dev->backend->download(s->state->dev, x, e->x + first, n * sizeof *x, err) : 0;
}

/* Elements [first, first + n), at most a piece, of the whole of an entry to x on the rank that writes: from all ranks
 * that have some. */
static int fetch_floats(struct saver *s, const struct rp_state_entry *e, size_t first, float *x, size_t n,
                        struct rp_err *err)
{
    const struct rp_parts *p = s->state->parts;
    const struct rp_tensors *weights = s->state->weights;
    if (e->t < weights->t || e->t >= weights->t + weights->n)
        return fetch_buffer(s, e, first, x, n, err);
    const int i = (int)(e->t - weights->t), stage = rp_parts_owner(p, i);
    const struct rp_tensor *t = rp_parts_weight(p, stage, i);
    const int divided = e->slot >= 0 || s->state->shares.master;
    for (int r = 0; r < t->ranks; r++) {
        const size_t lo = part_before(t, r, first), hi = part_before(t, r, first + n);
        for (int d = 0; d < (divided ? p->data : 1); d++) {
            struct part_range part = {t, rp_parts_world_rank(p, stage, d, r), r, e->x, lo, hi};
            if (divided) {
                size_t at, count = rp_share_of_tensor(&p->shares[stage], d, t, &at);
                part.from = at > lo ? at : lo;
                part.to = at + count < hi ? at + count : hi;
            }
            if (fetch_part(s, &part, first, x, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* What a file has of n floats, in place; returns bytes. */
static size_t as_saved(const struct saver *s, float *x, size_t n)
{
    const enum rp_tc_format format = s->precision == RP_PRECISION_bf16 ? RP_TC_BF16 : RP_TC_FP16;
    unsigned char *out = (unsigned char *)x;
    if (s->precision == RP_PRECISION_fp32)
        return n * sizeof *x;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const uint16_t low = rp_low_of(format, bits);
        memcpy(out + i * sizeof low, &low, sizeof low);
    }
    return n * sizeof(uint16_t);
}

/* Its elements in another order: all in memory. */
static int save_convolution(struct saver *s, const struct rp_state_entry *e, struct rp_err *err)
{
    const size_t bytes = rp_tensor_bytes(e->t);
    RP_FREE float *here = rp_alloc(bytes), *file = rp_alloc(bytes);
    for (size_t at = 0, most = PIECE / sizeof *here; at < e->t->count; at += most)
        if (fetch_floats(s, e, at, here + at, e->t->count - at < most ? e->t->count - at : most, err) < 0)
            return -1;
    for (size_t i = 0; i < e->t->count; i++)
        file[i] = here[rp_from_file(e->t, i)];
    return s->writes ? rp_st_append(&s->w, file, as_saved(s, file, e->t->count), err) : 0;
}

static int save_tensor(struct saver *s, const struct rp_state_entry *e, struct rp_err *err)
{
    const size_t most = PIECE / sizeof(float);
    if (e->t->channels_first)
        return save_convolution(s, e, err);
    for (size_t at = 0; at < e->t->whole; at += most) {
        size_t n = e->t->whole - at < most ? e->t->whole - at : most;
        if (s->alive && s->alive(s->alive_arg))
            return rp_fail(err, RP_INTERRUPTED, "stopped while saving");
        if (fetch_floats(s, e, at, s->piece, n, err) < 0 ||
            (s->writes && rp_st_append(&s->w, s->piece, as_saved(s, s->piece, n), err) < 0))
            return -1;
    }
    return 0;
}

/* optimizer: of the slots in the file; NULL: it has none. */
static json_t *metadata_of(const struct saver *s, const char *optimizer)
{
    const struct rp_loss_scale *x = &s->state->scale;
    char text[32], scale[100], skipped[32];
    snprintf(text, sizeof text, "%lld", (long long)s->step);
    snprintf(scale, sizeof scale, "%a %lld %lld %lld", (double)x->scale, (long long)x->good, (long long)x->bad,
             (long long)x->at_minimum);
    snprintf(skipped, sizeof skipped, "%lld", (long long)x->skipped);
    return json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*}", "format", "pt", "step", text, "numerics",
                     rp_numerics_name(s->numerics), RP_CHECKPOINT_SCALE, s->scales ? scale : NULL,
                     RP_CHECKPOINT_SKIPPED, x->skipped ? skipped : NULL, "optimizer", optimizer);
}

/* Counters of batches of the buffers: rows of a file's list, with names to free, and values. Returns their number. */
static int list_counters(const struct saver *s, struct rp_st_tensor *list, char **name, int64_t *count)
{
    const struct rp_tensors *buffers = s->state->buffers;
    int n = 0;
    for (int i = 0; i < buffers->n; i++) {
        if (!(name[n] = rp_batch_counter_name(s->public, &buffers->t[i])))
            continue;
        list[n] = (struct rp_st_tensor){.name = name[n], .dtype = "I64"};
        count[n++] = s->step + (s->state->batches_before ? s->state->batches_before[i] : 0);
    }
    return n;
}

/* The file with its header and, where it has the buffers, their counters: first, so that 8 bytes lie on 8. list: room
 * for those too, and then the n entries. */
static int create_file(struct saver *s, const char *path, struct rp_st_tensor *list, int n, int has_buffers,
                       const char *optimizer, struct rp_err *err)
{
    const size_t room = (size_t)s->state->buffers->n + 1;
    RP_FREE char **name = rp_alloc(room * sizeof *name);
    RP_FREE int64_t *count = rp_alloc(room * sizeof *count);
    const int counters = has_buffers ? list_counters(s, list, name, count) : 0;
    json_t *metadata = metadata_of(s, optimizer);
    memmove(list + counters, list + room, (size_t)n * sizeof *list);
    int failed = rp_st_create(&s->w, path, list, counters + n, metadata, err) < 0;
    json_decref(metadata);
    for (int i = 0; i < counters; i++)
        free(name[i]);
    if (failed || !counters || rp_st_append(&s->w, count, (size_t)counters * sizeof *count, err) == 0)
        return failed ? -1 : 0;
    rp_st_abort(&s->w);
    return -1;
}

/* A file of `n` entries from number `first` on. */
static int save_entries(struct saver *s, const char *path, int first, int n, const char *optimizer, struct rp_err *err)
{
    const size_t room = (size_t)s->state->buffers->n + 1;
    RP_FREE struct rp_state_entry *e = rp_alloc((size_t)n * sizeof *e);
    RP_FREE struct rp_st_tensor *list = rp_alloc(((size_t)n + room) * sizeof *list);
    for (int i = 0; i < n; i++) {
        struct rp_st_tensor *t = &list[room + (size_t)i];
        rp_state_entry_at(&e[i], s->state, first + i);
        *t = rp_in_file(&e[i]);
        t->dtype = s->precision == RP_PRECISION_fp32 ? t->dtype : s->precision == RP_PRECISION_fp16 ? "F16" : "BF16";
    }
    if (s->writes && create_file(s, path, list, n, first == 0, optimizer, err) < 0)
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
    RP_FREE char *file = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_WEIGHTS),
                 *slots = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_OPTIMIZER);
    if (s->writes && mkdir(dir, 0777) < 0 && errno != EEXIST)
        return rp_fail(err, RP_IO, "cannot make the directory '%s': %s", dir, strerror(errno));
    if (s->writes && unlink(slots) < 0 && errno != ENOENT)
        return rp_fail(err, RP_IO, "cannot replace '%s': %s", slots, strerror(errno));
    if (save_entries(s, file, 0, weights, NULL, err) < 0 || (s->writes && save_config(dir, r, err) < 0))
        return -1;
    return n > weights && s->precision == RP_PRECISION_fp32
               ? save_entries(s, slots, weights, n - weights, s->state->optimizer->name, err)
               : 0;
}

int rp_checkpoint_is_directory(const char *path)
{
    struct stat st;
    return rp_ends_with(path, "/") || (lstat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

int rp_checkpoint_save(const char *path, const struct rp_recipe *r, const struct rp_trained *state, int64_t step,
                       rp_alive_fn alive, void *alive_arg, struct rp_err *err)
{
    RP_FREE float *piece = rp_alloc(PIECE), *part = rp_alloc(PIECE);
    struct saver s = {.writes = state->parts->comm->rank[RP_GROUP_WORLD] == 0, .state = state, .step = step,
                      .numerics = rp_recipe_numerics(r), .precision = (enum rp_precision)r->run_save_precision,
                      .scales = rp_loss_scale_rule_of(r).is_dynamic, .public = rp_model_of(r)->public, .piece = piece,
                      .part = part, .alive = alive, .alive_arg = alive_arg};
    if (s.precision != RP_PRECISION_fp32 && !rp_checkpoint_is_directory(path))
        return rp_fail(
            err, RP_USAGE,
            "run.save_precision %s is for a directory: '%s' is a file, which has the optimizer state too; name '%s/'",
            rp_choice_name(RP_PRECISIONS, s.precision), path, path);
    if (state->dev->backend->sync(state->dev, err) < 0)
        return -1;
    return rp_checkpoint_is_directory(path)
               ? save_directory(&s, path, r, err)
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
