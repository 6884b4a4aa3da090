#include "train/checkpoint.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "train/batch_counts.h"
#include "train/file_order.h"
#include "train/public_config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20) /* bytes copied at a time from file to device */

/* -- names -- */

/* Whether the name is the pattern, in which each %d is a number. */
static int matches_pattern(const char *pattern, const char *name)
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
static const char *short_name(const struct rp_public *p, const char *name)
{
    size_t n = p && p->prefix ? strlen(p->prefix) : 0;
    return n && strncmp(name, p->prefix, n) == 0 ? name + n : name;
}

/* The name with its old ending; NULL: it has none. free() it. */
static char *old_name(const struct rp_public *p, const char *name)
{
    for (const struct rp_old_ending *o = p ? p->old : NULL; o && o->old; o++)
        if (rp_ends_with(name, o->now))
            return rp_asprintf("%.*s%s", (int)(strlen(name) - strlen(o->now)), name, o->old);
    return NULL;
}

/* The tensor of that name in any form that files have. -1: there are several. */
static int find_weight(const struct rp_st_tensor **found, const struct rp_st *st, const struct rp_public *p,
                       const char *name, struct rp_err *err)
{
    RP_FREE char *old = old_name(p, name);
    const char *form[] = {name, old, short_name(p, name), old ? short_name(p, old) : NULL};
    *found = NULL;
    for (int i = 0; i < 4; i++) {
        if (i >= 2 && form[i] == form[i - 2]) /* without a prefix there is no shorter form */
            continue;
        const struct rp_st_tensor *s = form[i] ? rp_st_find(st, form[i]) : NULL;
        if (s && *found)
            return rp_fail(err, RP_MALFORMED, "'%s' has '%s' and '%s', which are two names of one tensor", st->path,
                           (*found)->name, s->name);
        *found = s ? s : *found;
    }
    return 0;
}

static int is_alias(const struct rp_public *p, const char *name)
{
    for (const struct rp_alias *a = p ? p->alias : NULL; a && a->name; a++)
        if (matches_pattern(a->name, name) || matches_pattern(short_name(p, a->name), name))
            return 1;
    return 0;
}

/* -- what the files have -- */

static int check_tensor(const struct rp_st *st, const struct rp_st_tensor *s, const struct rp_state_entry *e,
                        struct rp_err *err)
{
    struct rp_st_tensor expected = rp_in_file(e);
    char have[128], want[128];
    if (e->slot >= 0 ? strcmp(s->dtype, "F32") != 0 : !rp_st_is_float(s))
        return rp_fail(err, RP_MALFORMED, "'%s', tensor '%s' is %s; expected F32%s", st->path, s->name, s->dtype,
                       e->slot >= 0 ? "" : ", F16 or BF16 (convert it first)");
    if (e->t->least && s->dims == expected.dims && s->shape[0] >= e->t->least && s->shape[0] < expected.shape[0])
        expected.shape[0] = s->shape[0];
    rp_st_shape(have, s->dims, s->shape);
    rp_st_shape(want, expected.dims, expected.shape);
    if (strcmp(have, want) != 0)
        return rp_fail(err, RP_MALFORMED, "'%s', tensor '%s' has shape %s, the recipe's model needs %s", st->path,
                       s->name, have, want);
    return 0;
}

static int refuse_unexpected(const struct rp_checkpoint *c, const struct rp_st *st, const struct rp_tensors *buffers,
                             struct rp_err *err)
{
    RP_FREE char *used = rp_alloc((size_t)st->n + 1);
    for (int i = 0; i < c->n; i++)
        if (c->at[i].in == st)
            used[c->at[i].s - st->t] = 1;
    for (int i = 0; i < st->n; i++)
        if (!used[i] && (st != &c->weights ||
                         (!is_alias(c->public, st->t[i].name) && !rp_is_batch_counter(c->public, buffers, &st->t[i]))))
            return rp_fail(err, RP_MALFORMED,
                           "'%s' has a tensor '%.80s', which this model does not have: is it a file of another "
                           "architecture or of more layers?",
                           st->path, st->t[i].name);
    return 0;
}

static int has_prefix(const char *const *prefix, const char *name)
{
    for (; *prefix; prefix++)
        if (strncmp(name, *prefix, strlen(*prefix)) == 0)
            return 1;
    return 0;
}

/* Whether the class lacks exactly what the files lack. */
static int lacks_the_same(const struct rp_lacking *class, const struct rp_checkpoint *c, const struct rp_state_entry *e)
{
    for (int i = 0; i < c->n && e[i].slot < 0; i++)
        if (has_prefix(class->lacks, e[i].name) != !c->at[i].in)
            return 0;
    return 1;
}

/* Heads that a class of transformers does not have keep their initialisation; anything else must be there. */
static int judge_lacking(struct rp_checkpoint *c, const struct rp_state_entry *e, struct rp_err *err)
{
    const char *first = NULL;
    for (int i = 0; i < c->n && e[i].slot < 0; i++)
        if (!c->at[i].in) {
            first = first ? first : e[i].name;
            c->lacks++;
        }
    for (const struct rp_lacking *l = c->public ? c->public->lacking : NULL;
         first && !c->slots && l && l->name && !c->class; l++)
        if (lacks_the_same(l, c, e))
            c->class = l->name;
    return !first || c->class ? 0 : rp_fail(err, RP_MALFORMED, "'%s' lacks tensor '%s'", c->weights.path, first);
}

static int match_weights(struct rp_checkpoint *c, const struct rp_state_entry *e, struct rp_err *err)
{
    for (int i = 0; i < c->n && e[i].slot < 0; i++) {
        const struct rp_st_tensor *s;
        if (find_weight(&s, &c->weights, c->public, e[i].name, err) < 0)
            return -1;
        if (s)
            c->at[i] = (struct rp_checkpoint_match){&c->weights, s};
    }
    return 0;
}

/* Slots: all or none. */
static int match_slots(struct rp_checkpoint *c, const struct rp_state_entry *e, struct rp_err *err)
{
    const struct rp_st *in = c->optimizer.fd >= 0 ? &c->optimizer : &c->weights;
    const char *lacking = NULL;
    for (int i = 0; i < c->n; i++) {
        const struct rp_st_tensor *s = e[i].slot >= 0 ? rp_st_find(in, e[i].name) : NULL;
        if (s) {
            c->at[i] = (struct rp_checkpoint_match){in, s};
            c->slots = 1;
        } else if (e[i].slot >= 0 && !lacking)
            lacking = e[i].name;
    }
    if (lacking && (c->slots || c->optimizer.fd >= 0))
        return rp_fail(err, RP_MALFORMED, "'%s' lacks tensor '%s'", in->path, lacking);
    return 0;
}

/* A count in the metadata. -1: it is not there, or not a number of at most `most`. */
static int64_t count_of(const struct rp_st *st, const char *key, int64_t most)
{
    const char *text = rp_st_metadata(st, key);
    char *end = NULL;
    const int64_t n = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    return n < 0 || *end || n > most ? -1 : n;
}

static int step_of(const struct rp_st *st, int64_t *step, struct rp_err *err)
{
    *step = count_of(st, "step", 1000000000);
    if (*step < 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' belongs to optimizer moments, but has no valid \"step\" in its metadata", st->path);
    return 0;
}

/* A power of two, and counts that `step` steps can have. */
static int is_possible(const struct rp_loss_scale *s, int64_t step)
{
    int exponent;
    return s->scale > 0 && frexpf(s->scale, &exponent) == 0.5f && s->good >= 0 && s->good <= step - s->skipped &&
           s->bad >= 0 && s->bad <= s->skipped && s->at_minimum >= 0 && s->at_minimum <= s->bad;
}

/* A dynamic loss scale goes on where the file was saved. Any other begins, and so does one that the file lacks. */
static int scale_of(struct rp_checkpoint *c, const struct rp_st *in, const struct rp_loss_scale_rule *rule,
                    struct rp_err *err)
{
    const char *text = rp_st_metadata(in, RP_CHECKPOINT_SCALE);
    struct rp_loss_scale s = rp_loss_scale_begin(rule);
    long long good, bad, at_minimum;
    int end = 0;
    if (rp_st_metadata(in, RP_CHECKPOINT_SKIPPED) && (s.skipped = count_of(in, RP_CHECKPOINT_SKIPPED, c->step)) < 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has no valid \"" RP_CHECKPOINT_SKIPPED
                       "\" in its metadata: expected at most its %lld steps",
                       in->path, (long long)c->step);
    c->scale = s;
    if (!text)
        return 0;
    const int fits = strlen(text) <= 100;
    const int n = fits ? sscanf(text, "%a %lld %lld %lld%n", &s.scale, &good, &bad, &at_minimum, &end) : 0;
    if (n == 4) {
        s.good = good;
        s.bad = bad;
        s.at_minimum = at_minimum;
    }
    if (n != 4 || text[end] || !is_possible(&s, c->step))
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has no valid \"" RP_CHECKPOINT_SCALE
                       "\" in its metadata: expected a power of two and counts of good steps, overflows and overflows "
                       "at the least scale, of %lld steps, %lld of them skipped",
                       in->path, (long long)c->step, (long long)s.skipped);
    c->scale = rule->is_dynamic ? s : c->scale;
    return 0;
}

/* Slots of another optimizer may have the same names and shapes; those of another moment do not belong to these
 * weights. */
static int check_slots(struct rp_checkpoint *c, const struct rp_trained *state, const struct rp_loss_scale_rule *rule,
                       struct rp_err *err)
{
    const struct rp_st *in = c->optimizer.fd >= 0 ? &c->optimizer : &c->weights;
    const char *saved = rp_st_metadata(in, "optimizer"), *here = state->optimizer->name;
    int64_t step;
    if (saved && strcmp(saved, here) != 0)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' was saved by a run with optimizer.name %.40s, the recipe has %s: set the former, or give a file "
            "without optimizer tensors",
            in->path, saved, here);
    if (!c->slots)
        return 0;
    if (step_of(in, &c->step, err) < 0 || scale_of(c, in, rule, err) < 0)
        return -1;
    if (in == &c->weights)
        return 0;
    if (step_of(&c->weights, &step, err) < 0)
        return -1;
    return step == c->step ? 0
                           : rp_fail(err, RP_MISMATCH,
                                     "'%s' is of step %lld, '%s' of step %lld: they do not belong together; without "
                                     "the former training starts with new moments",
                                     in->path, (long long)c->step, c->weights.path, (long long)step);
}

static int match_all(struct rp_checkpoint *c, const struct rp_trained *state, const struct rp_loss_scale_rule *rule,
                     struct rp_err *err)
{
    RP_FREE struct rp_state_entry *e = rp_alloc((size_t)c->n * sizeof *e);
    for (int i = 0; i < c->n; i++)
        rp_state_entry_at(&e[i], state, i);
    if (match_weights(c, e, err) < 0 || match_slots(c, e, err) < 0 || check_slots(c, state, rule, err) < 0 ||
        rp_batch_counts_read(&c->batches_before, &c->weights, c->public, state->buffers, c->step, err) < 0 ||
        refuse_unexpected(c, &c->weights, state->buffers, err) < 0 ||
        (c->optimizer.fd >= 0 && refuse_unexpected(c, &c->optimizer, state->buffers, err) < 0) ||
        judge_lacking(c, e, err) < 0)
        return -1;
    for (int i = 0; i < c->n; i++)
        if (c->at[i].in && check_tensor(c->at[i].in, c->at[i].s, &e[i], err) < 0)
            return -1;
    return 0;
}

/* -- open -- */

static int file_exists(const char *dir, const char *name)
{
    RP_FREE char *path = rp_asprintf("%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* The weights of a directory: one file or the index of several, safetensors first, as in transformers. */
static int open_weights(struct rp_st *st, const char *dir, struct rp_err *err)
{
    static const char *const files[] = {RP_CHECKPOINT_WEIGHTS, RP_CHECKPOINT_WEIGHTS RP_CHECKPOINT_INDEX,
                                        "pytorch_model.bin", "pytorch_model.bin" RP_CHECKPOINT_INDEX};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        RP_FREE char *path = rp_asprintf("%s/%s", dir, files[i]);
        if (file_exists(dir, files[i]))
            return i % 2 ? rp_st_open_index(st, path, err) : rp_st_open(st, path, err);
    }
    return rp_fail(err, RP_IO, "'%s' has no %s and no pytorch_model.bin", dir, RP_CHECKPOINT_WEIGHTS);
}

static int open_directory(struct rp_checkpoint *c, const char *dir, const struct rp_recipe *r, struct rp_err *err)
{
    RP_FREE char *config = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_CONFIG);
    RP_FREE char *optimizer = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_OPTIMIZER);
    if (open_weights(&c->weights, dir, err) < 0)
        return -1;
    if (file_exists(dir, RP_CHECKPOINT_CONFIG)) {
        c->ignored = json_array();
        c->unknown = json_array();
        if (rp_public_config_check(config, r, c->ignored, c->unknown, err) < 0)
            return -1;
    }
    return file_exists(dir, RP_CHECKPOINT_OPTIMIZER) ? rp_st_open(&c->optimizer, optimizer, err) : 0;
}

static int open_files(struct rp_checkpoint *c, const char *path, const struct rp_recipe *r, struct rp_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_directory(c, path, r, err);
    return rp_ends_with(path, RP_CHECKPOINT_INDEX) ? rp_st_open_index(&c->weights, path, err)
                                                   : rp_st_open(&c->weights, path, err);
}

int rp_checkpoint_open(struct rp_checkpoint *c, const char *path, const struct rp_recipe *r,
                       const struct rp_trained *state, struct rp_err *err)
{
    *c = (struct rp_checkpoint){.weights = {.fd = -1}, .optimizer = {.fd = -1}, .public = rp_model_of(r)->public,
                                .n = rp_state_entries(state)};
    const struct rp_loss_scale_rule rule = rp_loss_scale_rule_of(r);
    c->scale = rp_loss_scale_begin(&rule);
    c->at = rp_alloc((size_t)c->n * sizeof *c->at);
    int failed = open_files(c, path, r, err) < 0;
    if (!failed)
        rp_st_unwrap_names(&c->weights);
    failed = failed || match_all(c, state, &rule, err) < 0;
    if (failed)
        rp_checkpoint_close(c);
    return failed ? -1 : 0;
}

void rp_checkpoint_close(struct rp_checkpoint *c)
{
    rp_st_close(&c->weights);
    rp_st_close(&c->optimizer);
    free(c->at);
    free(c->batches_before);
    json_decref(c->ignored);
    json_decref(c->unknown);
    *c = (struct rp_checkpoint){.weights = {.fd = -1}, .optimizer = {.fd = -1}};
}

static json_t *scale_json(const struct rp_loss_scale *s)
{
    char hex[32];
    rp_float_hex(hex, s->scale);
    return json_pack("{s:{s:s, s:f}, s:I, s:I, s:I, s:I}", "scale", "hex", hex, "value", (double)s->scale, "good",
                     (json_int_t)s->good, "bad", (json_int_t)s->bad, "at_minimum", (json_int_t)s->at_minimum, "skipped",
                     (json_int_t)s->skipped);
}

static json_t *describe_checkpoint(const struct rp_checkpoint *c, const struct rp_trained *state, int scaled)
{
    json_t *names = json_array(), *types = json_array();
    static const char *const all[] = {"F32", "F16", "BF16"};
    int has[3] = {0};
    for (int i = 0; i < c->n; i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, state, i);
        if (e.slot < 0 && !c->at[i].in)
            json_array_append_new(names, json_string(e.name));
        for (int k = 0; k < 3; k++)
            has[k] |= c->at[i].in && strcmp(c->at[i].s->dtype, all[k]) == 0;
    }
    for (int k = 0; k < 3; k++)
        if (has[k])
            json_array_append_new(types, json_string(all[k]));
    return json_pack("{s:b, s:I, s:s*, s:o, s:o, s:O*, s:O*, s:o*}", "optimizer_state", c->slots, "steps",
                     (json_int_t)c->step, "class", c->class, "initialised", names, "types", types, "config_ignored",
                     c->ignored, "config_unknown", c->unknown, "loss_scale",
                     scaled && c->slots ? scale_json(&c->scale) : NULL);
}

int rp_checkpoint_check(const char *path, const struct rp_recipe *r, json_t **found, struct rp_err *err)
{
    struct rp_net *m = rp_net_new(r, 1);
    struct rp_trained s = {
        .optimizer = rp_optimizer_of(r), .weights = &m->tensors[RP_WEIGHT], .buffers = &m->tensors[RP_BUFFER]};
    struct rp_checkpoint c;
    int failed = rp_checkpoint_open(&c, path, r, &s, err) < 0;
    if (!failed && found)
        *found = describe_checkpoint(&c, &s, rp_loss_is_scaled(r));
    if (!failed)
        rp_checkpoint_close(&c);
    rp_net_free(m);
    return failed ? -1 : 0;
}

/* -- load -- */

/* Means of squares: second moments and running variances. */
static int is_square(const char *name)
{
    return strncmp(name, "optimizer.v.", strlen("optimizer.v.")) == 0 || rp_ends_with(name, ".running_var");
}

/* n floats from element `first` on */
static int read_finite(const struct rp_checkpoint_match *at, uint64_t first, float *x, size_t n, struct rp_err *err)
{
    const char *path = at->in->path, *name = at->s->name;
    if (rp_st_read_floats(at->in, at->s, first, x, n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return rp_fail(err, RP_MISMATCH, "'%s', tensor '%s', element %llu: not finite (%s)", path, name,
                           (unsigned long long)(first + i), isnan(x[i]) ? "NaN" : "Inf");
        else if (x[i] < 0 && is_square(name))
            return rp_fail(err, RP_MISMATCH, "'%s', tensor '%s', element %llu: %g, a mean of squares is not negative",
                           path, name, (unsigned long long)(first + i), (double)x[i]);
    return 0;
}

/* Elements [first, first + n) of this rank's part of an entry, as far as its share has them. */
static int upload_own(const struct rp_trained *s, const struct rp_state_entry *e, size_t first, const float *x,
                      size_t n, struct rp_err *err)
{
    size_t from = 0, to = e->t->count;
    if (e->slot >= 0) {
        to = rp_share_of_tensor(&s->shares, s->shares.own, e->t, &from);
        to += from;
    }
    from = from > first ? from : first;
    to = to < first + n ? to : first + n;
    return from < to ? s->dev->backend->upload(s->dev, e->x + from, x + (from - first), (to - from) * sizeof *x, err)
                     : 0;
}

static int load_convolution(const struct rp_checkpoint_match *at, const struct rp_trained *s,
                            const struct rp_state_entry *e, struct rp_err *err)
{
    const size_t bytes = rp_tensor_bytes(e->t);
    RP_FREE float *here = rp_alloc(bytes), *file = rp_alloc(bytes);
    if (read_finite(at, 0, file, e->t->count, err) < 0)
        return -1;
    for (size_t i = 0; i < e->t->count; i++)
        here[rp_from_file(e->t, i)] = file[i];
    return upload_own(s, e, 0, here, e->t->count, err);
}

/* n elements from number `whole` on; the file has the first `has` of them all, and the others are 0. */
static int read_run(const struct rp_checkpoint_match *at, size_t has, size_t whole, float *x, size_t n,
                    struct rp_err *err)
{
    const size_t there = whole >= has ? 0 : has - whole < n ? has - whole : n;
    memset(x + there, 0, (n - there) * sizeof *x);
    return there ? read_finite(at, whole, x, there, err) : 0;
}

/* The part of this rank. Rows that the file lacks are 0. */
static int load_tensor(const struct rp_checkpoint_match *at, const struct rp_trained *s, const struct rp_state_entry *e,
                       float *piece, struct rp_err *err)
{
    const size_t most = PIECE / sizeof *piece, run = rp_tensor_whole_run(e->t);
    size_t has = 1, n;
    if (e->t->channels_first)
        return load_convolution(at, s, e, err);
    for (int i = 0; i < at->s->dims; i++)
        has *= (size_t)at->s->shape[i];
    for (size_t first = 0; first < e->t->count; first += n) {
        n = 0;
        while (n < most && first + n < e->t->count) {
            const size_t left = run - (first + n) % run, k = left < most - n ? left : most - n;
            if (read_run(at, has, rp_tensor_whole_element(e->t, s->weights->rank, first + n), piece + n, k, err) < 0)
                return -1;
            n += k;
        }
        if (upload_own(s, e, first, piece, n, err) < 0)
            return -1;
    }
    return 0;
}

/* A tied tensor under its second name must be the same tensor. */
static int check_alias(const struct rp_st *st, const struct rp_alias *a, const struct rp_public *p, void *piece,
                       struct rp_err *err)
{
    const struct rp_st_tensor *x, *y = NULL;
    RP_FREE void *other = rp_alloc(PIECE);
    if (find_weight(&x, st, p, a->name, err) < 0 || (a->same && find_weight(&y, st, p, a->same, err) < 0))
        return -1;
    if (!x || !y)
        return 0;
    uint64_t bytes = x->end - x->begin;
    if (bytes != y->end - y->begin || strcmp(x->dtype, y->dtype) != 0)
        return rp_fail(err, RP_MALFORMED, "'%s': '%s' and '%s' are one tied tensor here but differ in size", st->path,
                       a->name, a->same);
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        if (rp_st_read(st, x, at, piece, n, err) < 0 || rp_st_read(st, y, at, other, n, err) < 0)
            return -1;
        if (memcmp(piece, other, n) != 0)
            return rp_fail(err, RP_MALFORMED, "'%s': '%s' and '%s' are one tied tensor here but differ", st->path,
                           a->name, a->same);
    }
    return 0;
}

int rp_checkpoint_load(struct rp_checkpoint *c, struct rp_trained *state, struct rp_err *err)
{
    RP_FREE void *piece = rp_alloc(PIECE);
    for (const struct rp_alias *a = c->public ? c->public->alias : NULL; a && a->name; a++)
        if (check_alias(&c->weights, a, c->public, piece, err) < 0)
            return -1;
    for (int i = 0; i < c->n; i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, state, i);
        if (e.slot >= 0 && !rp_tensor_is_owned(state->weights, e.t)) /* another stage updates it */
            continue;
        if (c->at[i].in && load_tensor(&c->at[i], state, &e, piece, err) < 0)
            return -1;
    }
    free(state->batches_before);
    state->batches_before = c->batches_before;
    c->batches_before = NULL;
    return 0;
}
