/* The input of a step: samples are read, prepared on the host and uploaded, on devices of their own memory while the
 * step before runs. */
#include "base/buf.h"
#include "base/clock.h"
#include "train/inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PREFETCH_BYTES ((uint64_t)256 << 20) /* more than that is not made in advance */

static struct rp_input *view_at(const struct rp_train *t, char *views, int64_t i)
{
    return (struct rp_input *)(views + (size_t)i * t->net->model->input_size);
}

struct rp_input *rp_train_view(const struct rp_train *t, int64_t i)
{
    return view_at(t, t->in.views, i);
}

/* n views of inputs that lie in `block` one after the other */
static char *views_of(const struct rp_train *t, char *block, int64_t n)
{
    const struct rp_tensors *list = &t->net->tensors[RP_INPUT];
    char *views = rp_alloc((size_t)n * t->net->model->input_size);
    for (int64_t i = 0; i < n; i++)
        rp_tensors_bind(list, block + (size_t)i * list->bytes, (char *)view_at(t, views, i) - (char *)t->net->input);
    return views;
}

/* ---- one micro-batch ---- */

static size_t column_bytes(const struct rp_train *t, int k)
{
    return (size_t)(t->net->batch * t->in.field[k].count) * rp_dtype_bytes(t->in.field[k].dtype);
}

/* The reader has checked every value with file and record; this guards memory against one that did not. */
static int check_ranges(const struct rp_train *t, struct rp_err *err)
{
    for (int k = 0; k < t->in.fields; k++) {
        const struct rp_sample_field *f = &t->in.field[k];
        const void *x = t->in.column[k];
        int bad = 0;
        if (f->dtype == RP_U8 && !f->below)
            continue;
        for (int64_t i = 0, n = t->net->batch * f->count; i < n; i++)
            bad |= f->dtype == RP_F32 ? !isfinite(((const float *)x)[i])
                   : f->dtype == RP_I32
                       ? ((const int32_t *)x)[i] < 0 || (f->below && ((const int32_t *)x)[i] >= f->below)
                       : f->below && ((const uint8_t *)x)[i] >= f->below;
        if (bad)
            return rp_fail(err, RP_MALFORMED, "a sample has a value out of range in field '%s'", f->name);
    }
    return 0;
}

/* Own micro-batch i of a step into the host's view `to`. */
static int prepare_one(struct rp_train *t, int64_t step, int64_t i, struct rp_input *to, struct rp_err *err)
{
    int64_t sample = ((t->base + step) * t->micros + t->first + i) * t->net->batch;
    if (rp_data_get_batch(t->in.data, t->in.field, t->in.fields, sample, t->net->batch, t->in.column, err) < 0 ||
        check_ranges(t, err) < 0)
        return -1;
    char *base = t->in.host + (size_t)(((char *)to - t->in.staged) / (ptrdiff_t)t->net->model->input_size) *
                                  t->net->tensors[RP_INPUT].bytes;
    for (int k = 0; k < t->in.fields; k++)
        if (t->in.copy_at[k])
            memcpy(base + t->in.copy_at[k] - 1, t->in.column[k], column_bytes(t, k));
    return t->net->model->prepare(t->net, to, t->in.column, err) < 0
               ? rp_wrap(err, "'%s', samples %lld to %lld of the run", t->in.path, (long long)sample,
                         (long long)(sample + t->net->batch - 1))
               : 0;
}

/* Staged input k becomes own micro-batch i. */
static int upload(struct rp_train *t, int64_t i, int64_t k, struct rp_err *err)
{
    const struct rp_net *m = t->net;
    struct rp_input *to = view_at(t, t->in.views, i), *from = view_at(t, t->in.staged, k);
    size_t bytes = m->tensors[RP_INPUT].bytes;
    memcpy(to->counter, from->counter, sizeof to->counter);
    for (int g = 0; g < m->n_groups; g++) {
        ptrdiff_t at = (char *)m->groups[g] - (char *)m->input;
        memcpy((char *)to + at, (char *)from + at, sizeof(int));
    }
    return m->dev->backend->upload(m->dev, t->in.slot + (size_t)i * bytes, t->in.host + (size_t)k * bytes, bytes, err);
}

/* ---- a step ---- */

/* All micro-batches of a step into host memory; in the thread, which alone reads data. */
static int prepare_step(void *arg, int64_t step, struct rp_err *err)
{
    struct rp_train *t = arg;
    for (int64_t i = 0; i < t->own; i++)
        if (prepare_one(t, step, i, view_at(t, t->in.staged, i), err) < 0)
            return -1;
    t->in.skipped_ahead = t->in.data->skipped;
    return 0;
}

/* Samples for own micro-batch i, or, if they are prefetched, before the first one those for all; the time counts as
 * waiting. */
static int wait_for_samples(struct rp_train *t, int64_t step, int64_t i, struct rp_err *err)
{
    uint64_t start = rp_now_ns();
    int failed = 0;
    if (!t->in.prefetch)
        failed = prepare_one(t, step, i, view_at(t, t->in.staged, 0), err);
    else if (i == 0)
        failed = rp_prefetch_take(t->in.prefetch, step, err);
    t->in.wait_ns += rp_now_ns() - start;
    return failed;
}

int rp_train_load(struct rp_train *t, int64_t step, struct rp_err *err)
{
    t->in.wait_ns = 0;
    for (int64_t i = 0; i < t->own; i++) {
        if (wait_for_samples(t, step, i, err) < 0)
            return -1;
        t->in.skipped = t->in.prefetch ? t->in.skipped_ahead : t->in.data->skipped;
        if (upload(t, i, t->in.prefetch ? i : 0, err) < 0 || rp_net_alive(t->net, err) < 0)
            return -1;
    }
    if (t->in.prefetch)
        rp_prefetch_start(t->in.prefetch, step + 1);
    return 0;
}

uint64_t rp_train_input_ns(const struct rp_train *t)
{
    return t->in.wait_ns;
}

int64_t rp_train_skipped(const struct rp_train *t)
{
    return t->in.skipped;
}

/* ---- open and close ---- */

int rp_train_input_open(struct rp_train *t, const struct rp_train_opts *o, struct rp_err *err)
{
    struct rp_train_input *in = &t->in;
    const struct rp_recipe *r = o->recipe;
    size_t bytes = t->net->tensors[RP_INPUT].bytes;
    in->format = o->format;
    in->path = o->data;
    in->fields = t->net->model->fields(t->net, in->field);
    struct rp_data_opts opts = rp_data_opts_of(r, t->micros * t->net->batch);
    in->data = in->format->open(o->data, in->field, in->fields, &opts, err);
    if (!in->data)
        return -1;
    for (int k = 0; k < in->fields; k++) {
        int same = rp_tensors_find(&t->net->tensors[RP_INPUT], in->field[k].name);
        in->column[k] = rp_alloc(column_bytes(t, k));
        in->copy_at[k] = same < 0 ? 0 : t->net->tensors[RP_INPUT].t[same].offset + 1;
        const struct rp_tensor *x = same < 0 ? NULL : &t->net->tensors[RP_INPUT].t[same];
        RP_BUG_IF(x && (x->dtype != in->field[k].dtype || rp_tensor_bytes(x) != column_bytes(t, k)));
    }
    /* While a device with memory of its own works, the next step's input is prepared. */
    int prefetch = o->dev->backend->separate_memory && !o->micros && bytes * (uint64_t)t->own <= PREFETCH_BYTES;
    in->staging = prefetch ? (int)t->own : 1;
    in->host = rp_alloc((size_t)in->staging * bytes);
    in->views = views_of(t, in->slot, t->own);
    in->staged = views_of(t, in->host, in->staging);
    if (prefetch)
        in->prefetch = rp_prefetch_new(prepare_step, t, err);
    return prefetch && !in->prefetch ? -1 : 0;
}

void rp_train_input_close(struct rp_train *t)
{
    rp_prefetch_free(t->in.prefetch);
    if (t->in.data)
        t->in.format->close(t->in.data);
    for (int k = 0; k < t->in.fields; k++)
        free(t->in.column[k]);
    free(t->in.host);
    free(t->in.views);
    free(t->in.staged);
}
