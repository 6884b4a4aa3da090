#include "train/checkpoint.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "ops/numerics.h"
#include "train/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20) /* bytes copied at a time between file and device */

/* -- save -- */

static struct rp_st_tensor in_file(const struct rp_state_entry *e)
{
    struct rp_st_tensor s = {.name = (char *)e->name, .dtype = "F32", .dims = rp_tensor_dims(e->t)};
    for (int i = 0; i < s.dims; i++)
        s.shape[i] = e->t->dim[!e->t->channels_first || i == 0 ? i : i == 1 ? 3 : i - 1];
    return s;
}

/* Element i of a tensor in the order of files: [out, in, kh, kw] of a [out, kh, kw, in] here. */
static size_t from_file(const struct rp_tensor *t, size_t i)
{
    const size_t in = (size_t)t->dim[3], window = (size_t)(t->dim[1] * t->dim[2]), each = in * window;
    return i / each * each + i % window * in + i % each / window;
}

struct saver {
    struct rp_st_writer w;
    struct rp_dev *dev;
    void *piece;
    rp_alive_fn alive;
    void *alive_arg;
};

/* Its elements in another order: all in memory. */
static int save_convolution(struct saver *s, const struct rp_state_entry *e, struct rp_err *err)
{
    const size_t bytes = rp_tensor_bytes(e->t);
    RP_FREE float *here = rp_alloc(bytes), *file = rp_alloc(bytes);
    if (s->dev->backend->download(s->dev, here, e->x, bytes, err) < 0)
        return -1;
    for (size_t i = 0; i < e->t->count; i++)
        file[i] = here[from_file(e->t, i)];
    return rp_st_append(&s->w, file, bytes, err);
}

static int save_tensor(struct saver *s, const struct rp_state_entry *e, struct rp_err *err)
{
    const float *x = e->x;
    const size_t bytes = rp_tensor_bytes(e->t);
    if (e->t->channels_first)
        return save_convolution(s, e, err);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        if (s->alive && s->alive(s->alive_arg))
            return rp_fail(err, RP_INTERRUPTED, "stopped while saving");
        if (s->dev->backend->download(s->dev, s->piece, (const char *)x + at, n, err) < 0 ||
            rp_st_append(&s->w, s->piece, n, err) < 0)
            return -1;
    }
    return 0;
}

int rp_checkpoint_save(const char *path, const struct rp_trained *state, int64_t step, rp_alive_fn alive, void *alive_arg,
                       struct rp_err *err)
{
    char text[32];
    int n = rp_state_entries(state);
    RP_FREE struct rp_state_entry *e = rp_alloc((size_t)n * sizeof *e);
    RP_FREE struct rp_st_tensor *list = rp_alloc((size_t)n * sizeof *list);
    RP_FREE void *piece = rp_alloc(PIECE);
    struct saver s = {.dev = state->dev, .piece = piece, .alive = alive, .alive_arg = alive_arg};
    for (int i = 0; i < n; i++) {
        rp_state_entry_at(&e[i], state, i);
        list[i] = in_file(&e[i]);
    }
    snprintf(text, sizeof text, "%lld", (long long)step);
    RP_JSON *metadata = json_pack("{s:s, s:s, s:s, s:s}", "format", "pt", "step", text, "numerics", rp_numerics_name(RP_NUMERICS_fp32_1),
                                  "optimizer", state->optimizer->name);
    if (s.dev->backend->sync(s.dev, err) < 0 || rp_st_create(&s.w, path, list, n, metadata, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (save_tensor(&s, &e[i], err) < 0) {
            rp_st_abort(&s.w);
            return -1;
        }
    return rp_st_commit(&s.w, err);
}

/* -- load -- */

/* Whether the name is the pattern, in which each %d is a number. */
static int matches(const char *pattern, const char *name)
{
    for (; *pattern; pattern++, name++) {
        if (strncmp(pattern, "%d", 2) == 0 && *name >= '0' && *name <= '9') {
            name += strspn(name, "0123456789") - 1;
            pattern++;
        } else if (*pattern != *name)
            return 0;
    }
    return !*name;
}

/* A name without the prefix that files may leave out. */
static const char *short_name(const struct rp_model *model, const char *name)
{
    size_t n = model->prefix ? strlen(model->prefix) : 0;
    return n && strncmp(name, model->prefix, n) == 0 ? name + n : name;
}

static int same_name(const struct rp_model *model, const char *expected, const char *name)
{
    return matches(expected, name) || matches(short_name(model, expected), name);
}

static int refuse_unexpected(const struct rp_st *st, const struct rp_state_entry *e, int n, const struct rp_model *model,
                             struct rp_err *err)
{
    for (int i = 0; i < st->n; i++) {
        const char *name = st->t[i].name;
        int known = 0;
        for (int k = 0; k < n && !known; k++)
            known = same_name(model, e[k].name, name);
        for (const struct rp_alias *a = model->alias; a && a->name && !known; a++)
            known = same_name(model, a->name, name);
        if (!known)
            return rp_fail(err, RP_MALFORMED, "'%s' has a tensor '%.80s', which this model does not have: is it a file of another "
                           "architecture or of more layers?", st->path, name);
    }
    return 0;
}

/* The tensor of the file that fills an entry, checked. */
static const struct rp_st_tensor *wanted(const struct rp_st *st, const struct rp_state_entry *e, const struct rp_model *model,
                                         struct rp_err *err)
{
    const struct rp_st_tensor *s = rp_st_find(st, e->name);
    struct rp_st_tensor expected = in_file(e);
    char have[128], want[128];
    if (!s)
        s = rp_st_find(st, short_name(model, e->name));
    if (!s)
        return rp_fail_null(err, RP_MALFORMED, "'%s' lacks tensor '%s'", st->path, e->name);
    if (strcmp(s->dtype, expected.dtype) != 0)
        return rp_fail_null(err, RP_MALFORMED, "'%s', tensor '%s' is %s; expected F32 (convert it to fp32 first)", st->path, e->name,
                            s->dtype);
    if (e->t->least && s->dims == expected.dims && s->shape[0] >= e->t->least && s->shape[0] < expected.shape[0])
        expected.shape[0] = s->shape[0];
    rp_st_shape(have, s->dims, s->shape);
    rp_st_shape(want, expected.dims, expected.shape);
    if (strcmp(have, want) != 0)
        return rp_fail_null(err, RP_MALFORMED, "'%s', tensor '%s' has shape %s, the recipe's model needs %s", st->path, e->name, have,
                            want);
    return s;
}

/* Means of squares: second moments and running variances. */
static int is_square(const char *name)
{
    return strncmp(name, "optimizer.v.", strlen("optimizer.v.")) == 0 || rp_ends_with(name, ".running_var");
}

static int read_finite(const struct rp_st *st, const struct rp_st_tensor *s, uint64_t at, float *x, size_t bytes, struct rp_err *err)
{
    if (rp_st_read(st, s, at, x, bytes, err) < 0)
        return -1;
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        if (!isfinite(x[i]))
            return rp_fail(err, RP_MISMATCH, "'%s', tensor '%s', element %llu: not finite (%s)", st->path, s->name,
                           (unsigned long long)(at / sizeof(float) + i), isnan(x[i]) ? "NaN" : "Inf");
        else if (x[i] < 0 && is_square(s->name))
            return rp_fail(err, RP_MISMATCH, "'%s', tensor '%s', element %llu: %g, a mean of squares is not negative", st->path, s->name,
                           (unsigned long long)(at / sizeof(float) + i), (double)x[i]);
    return 0;
}

static int load_convolution(const struct rp_st *st, const struct rp_st_tensor *s, struct rp_dev *dev, const struct rp_state_entry *e,
                            struct rp_err *err)
{
    const size_t bytes = rp_tensor_bytes(e->t);
    RP_FREE float *here = rp_alloc(bytes), *file = rp_alloc(bytes);
    if (read_finite(st, s, 0, file, bytes, err) < 0)
        return -1;
    for (size_t i = 0; i < e->t->count; i++)
        here[from_file(e->t, i)] = file[i];
    return dev->backend->upload(dev, e->x, here, bytes, err);
}

static int load_tensor(const struct rp_st *st, const struct rp_st_tensor *s, struct rp_dev *dev, const struct rp_state_entry *e,
                       void *piece, struct rp_err *err)
{
    uint64_t bytes = s->end - s->begin;
    if (e->t->channels_first)
        return load_convolution(st, s, dev, e, err);
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        if (read_finite(st, s, at, piece, n, err) < 0 || dev->backend->upload(dev, (char *)e->x + at, piece, n, err) < 0)
            return -1;
    }
    return 0;
}

/* A tied tensor under its second name must be the same tensor. */
static int check_alias(const struct rp_st *st, const struct rp_alias *a, const struct rp_model *model, void *piece, struct rp_err *err)
{
    const struct rp_st_tensor *x = rp_st_find(st, a->name), *y = a->same ? rp_st_find(st, a->same) : NULL;
    if (a->same && !y)
        y = rp_st_find(st, short_name(model, a->same));
    RP_FREE void *other = rp_alloc(PIECE);
    if (!x || !y)
        return 0;
    uint64_t bytes = x->end - x->begin;
    if (bytes != y->end - y->begin || strcmp(x->dtype, y->dtype) != 0)
        return rp_fail(err, RP_MALFORMED, "'%s': '%s' and '%s' are one tied tensor here but differ in size", st->path, a->name, a->same);
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        if (rp_st_read(st, x, at, piece, n, err) < 0 || rp_st_read(st, y, at, other, n, err) < 0)
            return -1;
        if (memcmp(piece, other, n) != 0)
            return rp_fail(err, RP_MALFORMED, "'%s': '%s' and '%s' are one tied tensor here but differ", st->path, a->name, a->same);
    }
    return 0;
}

/* Slots: all or none. 1 when the file has one. */
static int has_slots(const struct rp_st *st, const struct rp_state_entry *e, int n)
{
    for (int i = 0; i < n; i++)
        if (e[i].slot >= 0 && rp_st_find(st, e[i].name))
            return 1;
    return 0;
}

static int step_of(const struct rp_st *st, int64_t *step, struct rp_err *err)
{
    const char *text = rp_st_metadata(st, "step");
    char *end;
    *step = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    if (*step < 0 || *end || *step > 1000000000)
        return rp_fail(err, RP_MALFORMED, "'%s' has optimizer moments, but no valid \"step\" in its metadata", st->path);
    return 0;
}

/* Slots of another optimizer may have the same names and shapes. */
static int check_optimizer(const struct rp_st *st, const struct rp_trained *state, struct rp_err *err)
{
    const char *saved = rp_st_metadata(st, "optimizer"), *here = state->optimizer->name;
    if (!saved || strcmp(saved, here) == 0)
        return 0;
    return rp_fail(err, RP_MALFORMED,
                   "'%s' was saved by a run with optimizer.name %.40s, the recipe has %s: set the former, or give a file "
                   "without optimizer tensors",
                   st->path, saved, here);
}

static int load_all(const struct rp_st *st, const struct rp_trained *state, const struct rp_model *model, int64_t *step,
                    struct rp_err *err)
{
    int n = rp_state_entries(state);
    RP_FREE struct rp_state_entry *e = rp_alloc((size_t)n * sizeof *e);
    RP_FREE void *piece = rp_alloc(PIECE);
    for (int i = 0; i < n; i++)
        rp_state_entry_at(&e[i], state, i);
    int slots = has_slots(st, e, n);
    *step = 0;
    if (check_optimizer(st, state, err) < 0 || refuse_unexpected(st, e, n, model, err) < 0 || (slots && step_of(st, step, err) < 0))
        return -1;
    for (const struct rp_alias *a = model->alias; a && a->name; a++)
        if (check_alias(st, a, model, piece, err) < 0)
            return -1;
    for (int pass = 0; pass < 2; pass++) /* check all before the first byte is loaded */
        for (int i = 0; i < n; i++) {
            if (e[i].slot >= 0 && !slots)
                continue;
            const struct rp_st_tensor *s = wanted(st, &e[i], model, err);
            if (!s || (pass && load_tensor(st, s, state->dev, &e[i], piece, err) < 0))
                return -1;
        }
    return 0;
}

int rp_checkpoint_load(const char *path, const struct rp_trained *state, const struct rp_model *model, int64_t *step, struct rp_err *err)
{
    struct rp_st st;
    if (rp_st_open(&st, path, err) < 0)
        return -1;
    int status = load_all(&st, state, model, step, err);
    rp_st_close(&st);
    return status;
}
