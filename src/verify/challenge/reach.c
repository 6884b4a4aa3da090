/* Bounds of what training can do to a weight, and a file of weights against them. */
#include "verify/challenge/reach.h"

#include "base/buf.h"
#include "model/model.h"
#include "optim/loss_scale.h"
#include "train/checkpoint.h"
#include "train/file_order.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 18) /* floats in memory */
#define MARGIN                                                                                                         \
    1.01 /* on what a step does: roundings of the slots, of norms and of host scalars are below a thousandth of it */
#define ROUNDED 0x1p-22         /* of a weight, in a step or a perturbation: a few units in its last place */
#define NORM_MEDIANS                                                                                                   \
    64 /* a recorded norm counts up to so many medians of all: one that is made up moves the bound no further */
#define TINY 1e-16 /* of a slot m, whose v may be 0 by underflow: over epsilon it moves nothing */
#define PERTURBED (0x1p-10 * (1 + 0x1p-10))

/* How far a weight can be: of an element, or of a tensor by norms. */
struct weight_bound {
    int by_norm;
    double a, b;     /* element: a + b |w0|; norm: a */
    double momentum; /* norm: of the slot, at most */
    double start;    /* norm: of w0 */
    double s, root;  /* deviation of the initialisation; square root of the number of elements */
    double decay;
    int excluded;
};

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What bounds one step. */
struct step_bound {
    double lr, ratio, norm; /* ratio: of |m| / (sqrt(v) + eps); norm: of the clipped gradient */
    int skipped;            /* its gradient overflowed: it moves nothing, the slots included */
};

/* Norms, at most NORM_MEDIANS times their median. */
static void list_norms(struct step_bound *step, const struct rp_records *rs, const struct rp_optim *o, int64_t steps)
{
    RP_FREE double *all = rp_alloc((size_t)(rs->n + 1) * sizeof *all);
    int64_t n = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        double x = (double)r->grad_norm;
        if (r->overflow && r->step < steps)
            step[r->step].skipped = 1;
        if (r->step < 0 || r->overflow)
            continue;
        if (o->clip > 0 && x > (double)o->clip)
            x = (double)o->clip;
        all[n++] = x;
        if (r->step < steps)
            step[r->step].norm = x;
    }
    qsort(all, (size_t)n, sizeof *all, by_value);
    for (int64_t i = 0; n && i < steps; i++)
        step[i].norm = fmin(step[i].norm, NORM_MEDIANS * all[n / 2]);
}

/* What bounds |m| / sqrt(v) after t steps. */
static double slot_ratio(const struct rp_optim *o, int64_t t)
{
    if (o->beta2 <= 0)
        return INFINITY;
    const double q = o->beta1 * o->beta1 / o->beta2, n = (double)t;
    const double sum = fabs(q - 1) < 1e-9 ? n : (1 - pow(q, n)) / (1 - q);
    return (1 - o->beta1) / sqrt(1 - o->beta2) * sqrt(sum);
}

/* The same with what the rule makes of both. */
static double adam_ratio(const struct rp_optim *o, int64_t t)
{
    const double n = (double)t, c = slot_ratio(o, t);
    return o->bias_correction ? c / (1 - pow(o->beta1, n)) * sqrt(1 - pow(o->beta2, n)) : c;
}

static void perturb(struct weight_bound *b)
{
    if (b->by_norm) {
        b->a += PERTURBED * (b->start + b->a + b->s * b->root);
    } else {
        b->a += (PERTURBED + ROUNDED) * b->a + PERTURBED * b->s;
        b->b += (PERTURBED + ROUNDED) * (1 + b->b);
    }
}

static void advance_adam(struct weight_bound *b, double lr, double ratio)
{
    b->a += MARGIN * lr * (ratio + b->decay * b->a) + ROUNDED * b->a;
    b->b += (MARGIN * lr * b->decay + ROUNDED) * (1 + b->b);
}

static void advance_bound(struct weight_bound *b, const struct rp_optim *o, enum rp_optimizer_id id,
                          const struct step_bound *step)
{
    const double lr = step->lr, ratio = step->ratio, norm = step->norm;
    const double w = b->start + b->a, rounded = ROUNDED * w;
    switch (id) {
    case RP_OPTIMIZER_adamw:
        advance_adam(b, lr, ratio);
        return;
    case RP_OPTIMIZER_lamb:
        if (!b->by_norm)
            advance_adam(b, lr, ratio);
        else /* of a tensor that is all 0 the trust ratio is 1 */
            b->a += MARGIN * lr * (b->start > 0 ? w : fmax(w, ratio * b->root)) + rounded;
        return;
    case RP_OPTIMIZER_sgd: {
        const double d = norm + b->decay * w;
        b->momentum = o->momentum * b->momentum + d;
        b->a += MARGIN * lr * (o->nesterov ? o->momentum * b->momentum + d : b->momentum) + rounded;
        return;
    }
    case RP_OPTIMIZER_lars: { /* trust * d is at most eeta ||w||; with trust ratio 1, of zeros, gradient and decay */
        const double d =
            lr * (b->excluded ? norm : fmax(fmax(o->trust, b->decay) * w, b->start > 0 ? 0 : norm + b->decay * w));
        b->momentum = o->momentum * b->momentum + MARGIN * d;
        b->a += (o->nesterov ? o->momentum * b->momentum + MARGIN * d : b->momentum) + rounded;
        return;
    }
    case RP_OPTIMIZER_COUNT:
        break;
    }
}

/* After `steps` steps, with a perturbation before each that follows a root. */
static void bound_weight(struct weight_bound *b, const struct rp_optim *o, const struct rp_recipe *r,
                         const struct step_bound *step, int64_t steps)
{
    const int64_t every = r->evidence_state_root_every;
    for (int64_t t = 1; t <= steps; t++) {
        if (r->seed_perturbation && (every > 0 ? (t - 1) % every == 0 : t == 1))
            perturb(b);
        if (!step[t - 1].skipped)
            advance_bound(b, o, (enum rp_optimizer_id)r->optimizer_name, &step[t - 1]);
    }
}

/* A weight of the file against its initialisation. */
struct comparison {
    struct rp_reach *out;
    const struct weight_bound *b;
    float *is, *initial; /* a piece of it */
    const struct rp_tensor *t;
};

static void note_worst(struct rp_reach *out, const struct rp_tensor *t, int64_t element, double initial, double is,
                       double distance, double far)
{
    const double used = far > 0 ? distance / far : distance > 0 ? INFINITY : 0;
    if (out->used > 1 || used <= out->used) /* the first one that is too far is kept */
        return;
    *out = (struct rp_reach){
        .used = isnan(used) ? INFINITY : used, .element = element, .initial = initial, .is = is, .far = far};
    rp_tensor_name(out->tensor, t);
}

static void compare_elements(const struct comparison *c, size_t first, size_t n, double *squares)
{
    for (size_t i = 0; i < n; i++) {
        const double w0 = (double)c->initial[i], w = (double)c->is[i], distance = fabs(w - w0);
        if (c->b->by_norm)
            *squares += distance * distance;
        else if (!(distance <= c->out->used * (c->b->a + c->b->b * fabs(w0))))
            note_worst(c->out, c->t, (int64_t)(first + i), w0, w, isnan(distance) ? INFINITY : distance,
                       c->b->a + c->b->b * fabs(w0));
    }
}

/* A convolution's elements are in another order in files: all at once. */
static int compare_convolution(const struct comparison *c, const struct rp_net *m, int number,
                               const struct rp_checkpoint_match *at, double *squares, struct rp_err *err)
{
    RP_FREE float *file = rp_alloc(c->t->count * sizeof *file);
    if (rp_st_read_floats(at->in, at->s, 0, file, c->t->count, err) < 0)
        return -1;
    for (size_t i = 0; i < c->t->count; i++)
        c->is[rp_from_file(c->t, i)] = file[i];
    rp_train_initial(c->initial, m, c->t, number, 0, c->t->count);
    compare_elements(c, 0, c->t->count, squares);
    return 0;
}

static int compare_weight(struct rp_reach *out, const struct weight_bound *b, const struct rp_net *m, int number,
                          const struct rp_checkpoint_match *at, struct rp_err *err)
{
    const struct rp_tensor *t = &m->tensors[RP_WEIGHT].t[number];
    const size_t room = t->channels_first || t->count < PIECE ? t->count : PIECE;
    RP_FREE float *is = rp_alloc(room * sizeof *is), *initial = rp_alloc(room * sizeof *initial);
    const struct comparison c = {out, b, is, initial, t};
    double squares = 0;
    if ((at->s->end - at->s->begin) / sizeof(float) != t->count)
        return rp_fail(err, RP_MISMATCH, "'%s', tensor '%s' has not %zu elements", at->in->path, at->s->name, t->count);
    if (t->channels_first && compare_convolution(&c, m, number, at, &squares, err) < 0)
        return -1;
    for (size_t first = 0, n; !t->channels_first && first < t->count; first += n) {
        n = t->count - first < room ? t->count - first : room;
        if (rp_st_read_floats(at->in, at->s, first, is, n, err) < 0)
            return -1;
        rp_train_initial(initial, m, t, number, first, n);
        compare_elements(&c, first, n, &squares);
    }
    if (b->by_norm)
        note_worst(out, t, -1, 0, sqrt(squares), isnan(squares) ? INFINITY : sqrt(squares), b->a);
    return 0;
}

/* The norm of the initialisation; only bounds by norms need it. */
static double initial_norm(const struct rp_net *m, int number)
{
    const struct rp_tensor *t = &m->tensors[RP_WEIGHT].t[number];
    const size_t room = t->count < PIECE ? t->count : PIECE;
    RP_FREE float *w = rp_alloc(room * sizeof *w);
    double squares = 0;
    for (size_t first = 0, n; first < t->count; first += n) {
        n = t->count - first < room ? t->count - first : room;
        rp_train_initial(w, m, t, number, first, n);
        for (size_t i = 0; i < n; i++)
            squares += (double)w[i] * (double)w[i];
    }
    return sqrt(squares);
}

/* ---- slots ---- */

/* The slots of a weight, as in the file: bounds have no order. */
struct slots {
    const struct rp_checkpoint_match *at[RP_SLOTS_MAX];
    const char *name; /* of the first */
    double ratio;     /* of adamw and lamb; else 0 */
    double norm;      /* of the momentum of sgd and lars */
};

static void note_slot(struct rp_reach *out, const struct slots *s, const struct rp_tensor *t, int64_t element,
                      double is, double far)
{
    char name[RP_TENSOR_NAME];
    if (out->used > 1)
        return;
    note_worst(out, t, element, 0, is, isfinite(is) ? fabs(is) : INFINITY, far);
    rp_tensor_name(name, t);
    RP_FORMAT(out->tensor, "optimizer.%s.%s", s->name, name);
}

/* One that is made up, such as a huge m with v of 0, makes the next step move its weight as far as one likes, after
 * this state was looked at. A huge v only stops it. */
static int compare_slots(struct rp_reach *out, const struct slots *s, const struct rp_tensor *t, struct rp_err *err)
{
    const size_t room = t->count < PIECE ? t->count : PIECE;
    const int both = s->ratio > 0;
    RP_FREE float *m = rp_alloc(room * sizeof *m), *v = rp_alloc((both ? room : 1) * sizeof *v);
    double squares = 0;
    for (size_t first = 0, n; first < t->count; first += n) {
        n = t->count - first < room ? t->count - first : room;
        if (rp_st_read_floats(s->at[0]->in, s->at[0]->s, first, m, n, err) < 0 ||
            (both && rp_st_read_floats(s->at[1]->in, s->at[1]->s, first, v, n, err) < 0))
            return -1;
        for (size_t i = 0; i < n; i++) {
            const double is = (double)m[i], far = both ? MARGIN * s->ratio * sqrt((double)v[i]) + TINY : INFINITY;
            squares += is * is;
            if (!(fabs(is) <= far))
                note_slot(out, s, t, (int64_t)(first + i), is, isnan(far) ? 0 : far);
        }
    }
    if (!both && !(sqrt(squares) <= MARGIN * s->norm + TINY))
        note_slot(out, s, t, -1, sqrt(squares), MARGIN * s->norm + TINY);
    return 0;
}

static int compare_all(struct rp_reach *out, const struct rp_checkpoint *c, const struct rp_net *m,
                       const struct rp_recipe *r, const struct rp_records *records, int64_t steps, struct rp_err *err)
{
    const struct rp_tensors *l = &m->tensors[RP_WEIGHT];
    struct rp_optim o;
    int failed = 0;
    rp_optim_init(&o, r, l);
    RP_FREE struct step_bound *step = rp_alloc((size_t)(steps + 1) * sizeof *step);
    list_norms(step, records, &o, steps);
    const struct rp_loss_scale_rule rule = rp_loss_scale_rule_of(r);
    struct rp_loss_scale scale = rp_loss_scale_begin(&rule);
    for (int64_t t = 1; t <= steps; t++) {
        step[t - 1].lr = rp_learning_rate(&o, rp_loss_scale_scheduled(&scale, &rule, t));
        step[t - 1].ratio = adam_ratio(&o, t - scale.skipped);
        rp_loss_scale_next(&scale, &rule, step[t - 1].skipped);
    }
    const int64_t updates = steps > scale.skipped ? steps - scale.skipped : 1;
    for (int i = 0; i < l->n && !failed; i++) {
        const int elementwise =
            r->optimizer_name == RP_OPTIMIZER_adamw || (r->optimizer_name == RP_OPTIMIZER_lamb && o.excluded[i]);
        struct weight_bound b = {.by_norm = !elementwise,
                                 .s = (double)rp_train_deviation(m, &l->t[i]),
                                 .root = sqrt((double)l->t[i].count),
                                 .decay = o.excluded[i] ? 0 : o.weight_decay,
                                 .excluded = o.excluded[i]};
        if (!c->at[i].in) /* a head that the file's class lacks keeps its initialisation */
            continue;
        b.start = b.by_norm ? initial_norm(m, i) : 0;
        bound_weight(&b, &o, r, step, steps);
        failed = compare_weight(out, &b, m, i, &c->at[i], err) < 0;
        struct slots s = {.name = o.optimizer->slot[0], .norm = b.momentum,
                          .ratio = rp_optimizer_slots(o.optimizer) > 1 ? slot_ratio(&o, updates) : 0};
        for (int k = 0; k < rp_optimizer_slots(o.optimizer); k++)
            s.at[k] = &c->at[l->n + m->tensors[RP_BUFFER].n + k * l->n + i];
        if (!failed && s.at[0] && s.at[0]->in)
            failed = compare_slots(out, &s, &l->t[i], err) < 0;
    }
    rp_optim_fini(&o);
    return failed ? -1 : 0;
}

int rp_reach_check(struct rp_reach *out, const char *path, const struct rp_recipe *r, const struct rp_records *records,
                   int64_t steps, struct rp_err *err)
{
    struct rp_net *m = rp_net_new(r, 1);
    const struct rp_trained s = {
        .optimizer = rp_optimizer_of(r), .weights = &m->tensors[RP_WEIGHT], .buffers = &m->tensors[RP_BUFFER]};
    struct rp_checkpoint c;
    *out = (struct rp_reach){.element = -1};
    int failed = rp_checkpoint_open(&c, path, r, &s, err) < 0;
    if (!failed) {
        failed = compare_all(out, &c, m, r, records, steps, err) < 0;
        rp_checkpoint_close(&c);
    }
    rp_net_free(m);
    return failed ? -1 : 0;
}
