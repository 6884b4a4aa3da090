#include "model/checkpoint.h"

#include "base/buf.h"
#include "base/json.h"
#include "model/safetensors.h"
#include "model/state_root.h"
#include "ops/numerics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20) /* bytes on their way between file and device */

/* -- save -- */

/* names: 3 * n texts that live as long as the list */
static void list_tensors(struct rp_st_tensor *list, char (*names)[128], const struct rp_manifest *m)
{
    for (int i = 0; i < 3 * m->n; i++) {
        const struct rp_tensor *t = &m->t[i % m->n];
        snprintf(names[i], sizeof *names, "%s%s", rp_state_prefix[i / m->n], t->name);
        list[i] = (struct rp_st_tensor){.name = names[i], .dtype = "F32", .dims = t->dims, .shape = {t->shape[0], t->shape[1]}};
    }
}

struct saver {
    struct rp_st_writer w;
    struct rp_dev *dev;
    void *piece;
    int (*alive)(void *);
    void *alive_arg;
};

static int save_tensor(struct saver *s, const float *x, size_t bytes, struct rp_err *err)
{
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

int rp_checkpoint_save(const char *path, struct rp_dev *dev, const struct rp_manifest *m, float *const block[3], int64_t step,
                       int (*alive)(void *), void *alive_arg, struct rp_err *err)
{
    char text[32];
    RP_FREE struct rp_st_tensor *list = rp_alloc(3 * (size_t)m->n * sizeof *list);
    RP_FREE char(*names)[128] = rp_alloc(3 * (size_t)m->n * sizeof *names);
    RP_FREE void *piece = rp_alloc(PIECE);
    struct saver s = {.dev = dev, .piece = piece, .alive = alive, .alive_arg = alive_arg};
    list_tensors(list, names, m);
    snprintf(text, sizeof text, "%lld", (long long)step);
    RP_JSON *metadata = json_pack("{s:s, s:s, s:s}", "format", "pt", "step", text, "numerics",
                                  rp_numerics_name(RP_NUMERICS_fp32_1));
    if (dev->backend->sync(dev, err) < 0 || rp_st_create(&s.w, path, list, 3 * m->n, metadata, err) < 0)
        return -1;
    for (int i = 0; i < 3 * m->n; i++) {
        const struct rp_tensor *t = &m->t[i % m->n];
        if (save_tensor(&s, block[i / m->n] + t->offset, t->count * sizeof(float), err) < 0) {
            rp_st_abort(&s.w);
            return -1;
        }
    }
    return rp_st_commit(&s.w, err);
}

/* -- load -- */

/* Is there a tensor in the file that nobody asks for? */
static int refuse_unexpected(const struct rp_st *st, const struct rp_manifest *m, const struct rp_alias *aliases, struct rp_err *err)
{
    for (int i = 0; i < st->n; i++) {
        const char *name = st->t[i].name, *base = name;
        int known = 0;
        for (int k = 1; k < 3; k++)
            if (!strncmp(name, rp_state_prefix[k], strlen(rp_state_prefix[k])))
                base = name + strlen(rp_state_prefix[k]);
        known = rp_manifest_find(m, base) >= 0;
        for (const struct rp_alias *a = aliases; a && a->name && !known; a++)
            known = !strcmp(a->name, name);
        if (!known)
            return rp_fail(err, RP_MALFORMED, "'%s' holds tensor '%.80s', which this model does not have: is it a file of another "
                           "architecture or of more layers?", st->path, name);
    }
    return 0;
}

/* The tensor of the file that fills `t`, checked. */
static const struct rp_st_tensor *wanted(const struct rp_st *st, const char *name, const struct rp_tensor *t, struct rp_err *err)
{
    const struct rp_st_tensor *s = rp_st_find(st, name);
    char have[128], want[128];
    int64_t shape[2] = {t->shape[0], t->shape[1]};
    if (!s)
        return rp_fail_null(err, RP_MALFORMED, "'%s' lacks tensor '%s'", st->path, name);
    if (strcmp(s->dtype, "F32") != 0)
        return rp_fail_null(err, RP_MALFORMED, "'%s', tensor '%s' is %s; expected F32 (convert it to fp32 first)", st->path, name,
                            s->dtype);
    rp_st_shape(have, s->dims, s->shape);
    rp_st_shape(want, t->dims, shape);
    if (strcmp(have, want) != 0)
        return rp_fail_null(err, RP_MALFORMED, "'%s', tensor '%s' has shape %s, the recipe's model needs %s", st->path, name, have, want);
    return s;
}

static int load_tensor(const struct rp_st *st, const struct rp_st_tensor *s, struct rp_dev *dev, float *x, void *piece,
                       struct rp_err *err)
{
    uint64_t bytes = s->end - s->begin;
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        if (rp_st_read(st, s, at, piece, n, err) < 0)
            return -1;
        for (size_t i = 0; i < n / sizeof(float); i++)
            if (!isfinite(((const float *)piece)[i]))
                return rp_fail(err, RP_MISMATCH, "'%s', tensor '%s', element %llu: not finite (%s)", st->path, s->name,
                               (unsigned long long)(at / sizeof(float) + i), isnan(((const float *)piece)[i]) ? "NaN" : "Inf");
        if (dev->backend->upload(dev, (char *)x + at, piece, n, err) < 0)
            return -1;
    }
    return 0;
}

/* A tied tensor under its second name must be the same tensor. */
static int check_alias(const struct rp_st *st, const struct rp_alias *a, void *piece, struct rp_err *err)
{
    const struct rp_st_tensor *x = rp_st_find(st, a->name), *y = a->same ? rp_st_find(st, a->same) : NULL;
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

/* Moments: all or none. 1 when they are there. */
static int has_moments(const struct rp_st *st)
{
    for (int i = 0; i < st->n; i++)
        for (int k = 1; k < 3; k++)
            if (!strncmp(st->t[i].name, rp_state_prefix[k], strlen(rp_state_prefix[k])))
                return 1;
    return 0;
}

static int step_of(const struct rp_st *st, int64_t *step, struct rp_err *err)
{
    const char *text = rp_st_metadata(st, "step");
    char *end;
    *step = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    if (*step < 0 || *end || *step > 1000000000)
        return rp_fail(err, RP_MALFORMED, "'%s' holds optimizer moments but its metadata has no valid \"step\"", st->path);
    return 0;
}

static int load_all(const struct rp_st *st, struct rp_dev *dev, const struct rp_manifest *m, float *const block[3],
                    const struct rp_alias *aliases, int64_t *step, struct rp_err *err)
{
    RP_FREE void *piece = rp_alloc(PIECE);
    int blocks = has_moments(st) ? 3 : 1;
    *step = 0;
    if (refuse_unexpected(st, m, aliases, err) < 0 || (blocks == 3 && step_of(st, step, err) < 0))
        return -1;
    for (const struct rp_alias *a = aliases; a && a->name; a++)
        if (check_alias(st, a, piece, err) < 0)
            return -1;
    for (int pass = 0; pass < 2; pass++) /* check all before the first byte is loaded */
        for (int i = 0; i < blocks * m->n; i++) {
            const struct rp_tensor *t = &m->t[i % m->n];
            char name[128];
            snprintf(name, sizeof name, "%s%s", rp_state_prefix[i / m->n], t->name);
            const struct rp_st_tensor *s = wanted(st, name, t, err);
            if (!s || (pass && load_tensor(st, s, dev, block[i / m->n] + t->offset, piece, err) < 0))
                return -1;
        }
    return 0;
}

int rp_checkpoint_load(const char *path, struct rp_dev *dev, const struct rp_manifest *m, float *const block[3],
                       const struct rp_alias *aliases, int64_t *step, struct rp_err *err)
{
    struct rp_st st;
    if (rp_st_open(&st, path, err) < 0)
        return -1;
    int status = load_all(&st, dev, m, block, aliases, step, err);
    rp_st_close(&st);
    return status;
}
