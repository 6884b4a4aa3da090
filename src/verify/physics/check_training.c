/* Plausibility of losses and gradient norms, and the state roots of the listed tensors. */
#include "base/json.h"
#include "base/text.h"
#include "model/model.h"
#include "run/derive.h"
#include "train/train.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROUNDED 1e-3        /* a cross-entropy near zero may be rounded below it */
#define DIVERGED 20.0       /* times the loss of a random guess */
#define SAME_STEPS 4
#define ROOTS_MUCH 10.0     /* % of the time of timed steps and the roots between them */
#define ROOTS_LONG 60.0     /* seconds of both: a shorter run may be a test with many roots */

/* ---- loss ---- */

static const struct rp_step_record *first_step(const struct rp_records *rs)
{
    int64_t i = rs->n && rs->r[0].step < 0;
    return i < rs->n ? &rs->r[i] : NULL;
}

/* Is it one of the parts that the loss of this recipe has? */
static int is_part(const struct rp_verify_state *s, const char *name)
{
    const struct rp_model *m = rp_model_of(&s->run.recipe);
    int n = m->loss_parts_of ? m->loss_parts_of(&s->run.recipe) : rp_model_loss_parts(m), i = 0;
    while (i < n && strcmp(m->loss_part[i], name) != 0)
        i++;
    return i < n;
}

static int check_range(const struct rp_verify_state *s, double guess, int64_t *high, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    *high = -1;
    for (int64_t i = 0; i < rs->n; i++) {
        double loss = rs->r[i].step < 0 ? 0 : (double)rs->r[i].loss;
        if (!(loss > -ROUNDED))
            return rp_fail(err, RP_MISMATCH, "step %d: loss %.6g; a cross-entropy is not negative", rs->r[i].step,
                           loss);
        for (int k = 0; k < rs->part.n && rs->r[i].step >= 0; k++) {
            /* none is negative, so that the loss bounds each of them */
            double part = (double)rp_record_loss_parts(rs, &rs->r[i])[k];
            if (!(part > -ROUNDED))
                return rp_fail(err, RP_MISMATCH, "step %d: '%s' is %.6g; a part of the loss is not negative",
                               rs->r[i].step, rs->part.name[k], part);
            if (part != 0 && !is_part(s, rs->part.name[k]))
                return rp_fail(err, RP_MISMATCH, "step %d: '%s' is %.6g; the loss of this recipe has no such part",
                               rs->r[i].step, rs->part.name[k], part);
        }
        if (loss > DIVERGED * guess && *high < 0)
            *high = rs->r[i].step;
    }
    return 0;
}

int rp_check_loss(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int64_t high;
    const struct rp_step_record *first = first_step(&s->run.records);
    if (!first)
        return rp_check_not_applicable(result, "no steps are recorded");
    struct rp_loss_expected e = rp_model_expected_loss(&s->run.recipe, first->samples);
    double is = (double)first->loss;
    if (check_range(s, e.guess, &high, err) < 0)
        return -1;
    const int unlikely = !rp_verify_starts_from_file(s) && e.off >= 0 && fabs(is - e.first) > e.off;
    /* a step of one token over and over is not many samples, and embeddings predict the token that they are given */
    const char *own = json_string_value(rp_facts_setting(s->run.facts, "data.path"));
    if (unlikely && own && *own)
        return rp_check_warn(result,
                             "the first loss is %.4f, expected %.4f within %.2f from the initialisation of this "
                             "recipe, unless the first samples of the signer's own data repeat few tokens",
                             is, e.first, e.off);
    if (unlikely)
        return rp_fail(err, RP_MISMATCH,
                       "the first loss is %.4f, expected %.4f within %.2f from the initialisation of this recipe", is,
                       e.first, e.off);
    if (high >= 0)
        return rp_check_warn(result,
                             "step %" PRId64 " has more than %.0f times the loss of a random guess: training diverged",
                             high, DIVERGED);
    if (rp_verify_starts_from_file(s))
        return rp_check_text(result, "first loss %.4f; training started from a file", is);
    if (e.off < 0)
        return rp_check_text(result, "first loss %.4f; no expectation for this initialisation", is);
    return rp_check_text(result, "first loss %.4f, expected %.4f for an untrained model of this size", is, e.first);
}

/* ---- gradients ---- */

int rp_check_gradients(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    const struct rp_step_record *first = NULL;
    int64_t n = 0, same = 0, skipped = 0;
    double least = INFINITY, most = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        skipped += r->overflow;
        if (r->overflow) /* its norm is infinite: run/records.c */
            continue;
        double norm = r->step < 0 ? 1 : (double)r->grad_norm;
        if (!(norm > 0) || !isfinite(norm))
            return rp_fail(err, RP_MISMATCH, "step %d: gradient norm %.6g; expected a positive number", r->step,
                           norm);
        if (r->step < 0)
            continue;
        n++;
        first = first ? first : r;
        same += r->grad_norm == first->grad_norm;
        least = norm < least ? norm : least;
        most = norm > most ? norm : most;
    }
    char hex[32] = "";
    if (first)
        rp_float_hex(hex, first->grad_norm);
    if (n >= SAME_STEPS && same == n)
        return rp_fail(err, RP_MISMATCH, "all %" PRId64 " steps have the gradient norm %s: other samples give another",
                       n, hex);
    if (n + skipped == 0)
        return rp_check_not_applicable(result, "no steps are recorded");
    if (n == 0)
        return rp_check_warn(result, "the gradients of all %" PRId64 " steps overflowed: no weight changed", skipped);
    if (skipped > n) /* such a step ends early: its time is not that of training */
        return rp_check_warn(result, "%" PRId64 " of %" PRId64 " steps overflowed and changed no weight", skipped,
                             n + skipped);
    char and[64] = "";
    if (skipped)
        RP_FORMAT(and, "; %" PRId64 " step%s overflowed and changed no weight", skipped, rp_s(skipped));
    return rp_check_text(result, "%" PRId64 " norms from %.4g to %.4g%s", n, least, most, and);
}

/* ---- state_roots ---- */

/* The listed roots of tensors at one end of the run, by name; NULL: there are none. */
static json_t *roots_of(const struct rp_facts *f, int final)
{
    json_t *roots = json_object();
    for (int64_t i = 0; i < f->tensor_root_n; i++) {
        const char *root = final ? f->tensor_root[i].final : f->tensor_root[i].init;
        if (*root)
            json_object_set_new(roots, f->tensor_root[i].name, json_string(root));
    }
    if (json_object_size(roots))
        return roots;
    json_decref(roots);
    return NULL;
}

/* A tensor that is listed twice would have a root that is not recomputed. */
static int check_names(const struct rp_facts *f, struct rp_err *err)
{
    char safe[100];
    for (int64_t i = 0; i < f->tensor_root_n; i++)
        if (!*f->tensor_root[i].init && !*f->tensor_root[i].final)
            return rp_fail(err, RP_MISMATCH, "facts.json: tensor_root/%" PRId64 " has no root", i);
    for (int64_t i = 1; i < f->tensor_root_n; i++)
        if (strcmp(f->tensor_root[i - 1].name, f->tensor_root[i].name) >= 0)
            return rp_fail(err, RP_MISMATCH,
                           "facts.json: tensor_root/%" PRId64 ", '%s', is not in the order of the names", i,
                           rp_ascii(safe, sizeof safe, f->tensor_root[i].name));
    return 0;
}

/* Compares the root over the listed tensors with the recorded one. 1: equal; 0: one of them is missing. */
static int check_root(const struct rp_verify_state *s, int final, const struct rp_step_record *r, struct rp_err *err)
{
    char root[RP_SHA256_HEX], recorded[RP_SHA256_HEX];
    const char *which = final ? "final" : "init";
    RP_JSON *tensors = roots_of(s->run.facts, final);
    if (!tensors || !r || !r->root)
        return 0;
    if (rp_train_root_of(&s->run.recipe, tensors, root, err) < 0)
        return rp_wrap(err, "tensor_root/*/%s", which);
    rp_record_root(recorded, &s->run.records, r);
    if (strcmp(root, recorded) == 0)
        return 1;
    return rp_fail(err, RP_MISMATCH, "tensor_root/*/%s gives the state root %.16s..., recorded is %.16s...", which,
                   root, recorded);
}

/* The time of state roots between timed steps, which throughput leaves out. 1: more than ROOTS_MUCH; 2: and of a long
 * run. */
static int describe_root_time(char text[120], const struct rp_records *rs)
{
    double roots = 0, steps = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i], *next = i + 1 < rs->n ? r + 1 : NULL;
        if (!r->timed)
            continue;
        int inside = next && next->repeat == r->repeat;
        steps += (double)rp_cycle_ns(r, inside ? next : NULL) / 1e9;
        roots += inside ? (double)r->root_ns / 1e9 : 0;
        n += inside && r->root;
    }
    double share = roots > 0 ? 100 * roots / (roots + steps) : 0;
    *text = 0;
    if (n)
        snprintf(text, 120,
                 "; %" PRId64 " root%s between timed steps took %.3g s, %.3g %% of the time, not counted in throughput",
                 n, rp_s(n), roots, share);
    return share <= ROOTS_MUCH ? 0 : roots + steps < ROOTS_LONG ? 1 : 2;
}

/* ---- steps that change no weight ---- */

/* Running statistics move in every step: a tensor of that name is one. */
static int is_statistic(const struct rp_net *m, const char *name)
{
    char own[RP_TENSOR_NAME];
    for (int i = 0; i < m->tensors[RP_BUFFER].n; i++) {
        rp_tensor_name(own, &m->tensors[RP_BUFFER].t[i]);
        if (strcmp(own, name) == 0)
            return 1;
    }
    return 0;
}

/* After a run without a single update every other tensor is what it was. */
static int check_unchanged_tensors(const struct rp_verify_state *s, const struct rp_net *m, struct rp_err *err)
{
    char safe[100];
    for (int64_t i = 0; i < s->run.facts->tensor_root_n; i++) {
        const struct rp_tensor_root *t = &s->run.facts->tensor_root[i];
        if (*t->init && *t->final && strcmp(t->init, t->final) != 0 && !is_statistic(m, t->name))
            return rp_fail(
                err, RP_MISMATCH,
                "every step overflowed and changed no weight, but the roots of '%s' before and after them differ",
                rp_ascii(safe, sizeof safe, t->name));
    }
    return 0;
}

/* Two roots with nothing but overflows between them are equal, but where statistics run or weights are perturbed. */
static int check_skips(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    const struct rp_step_record *before = NULL;
    char was[RP_SHA256_HEX], is[RP_SHA256_HEX];
    int updates = 0, all = 0, failed = 0;
    if (!s->run.figures->results.loss_scaling || s->run.recipe.seed_perturbation)
        return 0;
    struct rp_net *m = rp_net_new(&s->run.recipe, 1);
    for (int64_t i = 0; i < rs->n && !failed; i++) {
        const struct rp_step_record *r = &rs->r[i];
        updates += r->step >= 0 && !r->overflow;
        all += r->step >= 0 && !r->overflow;
        if (!r->root)
            continue;
        rp_record_root(is, rs, r);
        if (before && !updates && !m->tensors[RP_BUFFER].n && strcmp(was, is) != 0)
            failed = rp_fail(err, RP_MISMATCH,
                             "from step %d to step %d every gradient overflowed and no weight changed, but the state "
                             "root before them is %.16s..., after them %.16s...",
                             before->step + 1, r->step, was, is) < 0;
        before = r;
        memcpy(was, is, sizeof was);
        updates = 0;
    }
    if (!failed && !all && rs->n && rs->r[0].step < 0)
        failed = check_unchanged_tensors(s, m, err) < 0;
    rp_net_free(m);
    return failed ? -1 : 0;
}

int rp_check_state_roots(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    if (check_names(s->run.facts, err) < 0 || check_skips(s, err) < 0)
        return -1;
    int init = check_root(s, 0, rs->n && rs->r[0].step < 0 ? &rs->r[0] : NULL, err);
    int final = init < 0 ? -1 : check_root(s, 1, rs->n ? &rs->r[rs->n - 1] : NULL, err);
    if (final < 0)
        return -1;
    char cost[120];
    int much = describe_root_time(cost, rs);
    if (!init && !final)
        return rp_check_not_applicable(result, "no tensor roots are listed%s", cost);
    result->state = much > 1 && !s->run.facts->challenge ? RP_CHECK_WARNING /* which prescribes how many */
                    : init && final && !much             ? RP_CHECK_PASSED
                                                         : RP_CHECK_NOTE;
    return rp_check_text(result, "%s%s",
                         init && final ? "before and after the run, recomputed from the tensor roots"
                         : init        ? "before the run only"
                                       : "after the run only",
                         cost);
}
