/* The check `replay`. */
#include "base/clock.h"
#include "base/text.h"
#include "verify/challenge/draw.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The first tensor and elements that differ; appended to the message of the failure. */
static void describe_divergence(const struct rp_replay_result *r, struct rp_check_result *result)
{
    char tensors[200] = "";
    const struct rp_state_difference *d = &r->state;
    if (*r->tensor)
        snprintf(tensors, sizeof tensors, "first divergent tensor: %.120s (of %" PRId64 ")", r->tensor, r->tensors);
    if (r->state_compared && d->tensors)
        rp_check_text(result,
                      "%s%sat the end %" PRId64 " tensor%s, first %.90s, elements %" PRId64 " to %" PRId64 " (%" PRId64
                      " of %" PRId64 "): %s recorded, %s here",
                      tensors, *tensors ? "; " : "", d->tensors, d->tensors == 1 ? " differs" : "s differ", d->name,
                      d->first, d->last, d->count, d->size, d->was, d->here);
    else if (r->state_compared)
        rp_check_text(result, "%s%sat the end all bits are equal again", tensors, *tensors ? "; " : "");
    else
        rp_check_text(result, "%s", tensors);
}

static int fail_diverged(const struct rp_replay_result *r, struct rp_check_result *result, struct rp_err *err)
{
    char agreed[96] = "";
    if (r->micro >= 0)
        return rp_fail(err, RP_MISMATCH,
                       "step %" PRId64 ": the loss of micro-batch %" PRId64 " is recorded as %.24s, here it is %.24s%s",
                       r->step, r->micro, r->recorded, r->here,
                       r->start_root || r->first == 0 ? ""
                                                      : "; no root was recorded to check --init, the state before");
    describe_divergence(r, result);
    if (r->step < r->first && r->first > 0)
        return rp_fail(err, RP_MISMATCH,
                       "the file of --init is not the state before step %" PRId64
                       ": its root is %.18s..., recorded is %.18s...",
                       r->first, r->here, r->recorded);
    if (r->step < 0)
        return rp_fail(err, RP_MISMATCH, "the state before the first step differs: %s recorded %.18s, here %.18s",
                       r->quantity, r->recorded, r->here);
    if (r->agreed >= 0)
        snprintf(agreed, sizeof agreed, "; the state before step %" PRId64 " was still equal", r->agreed);
    if (!r->start_root && r->first > 0)
        snprintf(agreed, sizeof agreed, "; no root was recorded to check --init, the state before step %" PRId64,
                 r->first);
    return rp_fail(err, RP_MISMATCH, "first divergent step %" PRId64 ": %s recorded %.24s, here %.24s%s", r->step,
                   r->quantity, r->recorded, r->here, agreed);
}

/* A remark if fewer steps than requested exist. */
static const char *describe_limit(char out[48], const struct rp_replay_opts *o, const struct rp_replay_result *r)
{
    *out = 0;
    if (r->steps < o->steps)
        snprintf(out, 48, "; the run has %" PRId64 " step%s", r->first + r->steps, rp_s(r->first + r->steps));
    return out;
}

/* Next to the recorded time, where this is the captured model of CPU and nothing else ran. */
static const char *describe_times(char out[160], const struct rp_replay_result *r)
{
    *out = 0;
    if (r->same_device && r->step_s[1] > 0)
        snprintf(
            out, 160,
            "; a step took %.3f s here, %.3f s by the signer's clock, on the same model of CPU with the same threads",
            r->step_s[1], r->step_s[0]);
    return out;
}

/* A value that was there before the bundle came could be known when it was sealed: then it is a replay like any other.
 * When it came is the verifier's word (--received): the time in the bundle is the signer's. NULL: the draw counts, else
 * why it does not. */
static const char *draw_weakness(const struct rp_verify_state *s)
{
    const struct rp_challenge *c = s->o->draw;
    const char *why = rp_draw_weakness(c, s->run.facts, s->v->fingerprint);
    if (why || rp_verify_own_challenge(s, c))
        return why ? why : "its challenge is by the signer's own key or one that countersigned";
    if (!rp_verify_vouched_challenge(s, c))
        return "its challenge is neither yours, nor by a key in your trust store, nor a public value that was checked "
               "here: its author can have chosen the parts";
    if (!s->o->received_ns)
        return "without --received, the bundle may be younger than its challenge";
    return rp_draw_early(c, s->o->received_ns);
}

/* Before the replay, which takes its time: what it will not show. */
static void warn_of_draw(const struct rp_verify_state *s, const struct rp_draw *d)
{
    const struct rp_replay_opts *o = &s->o->replay;
    const char *why = s->o->draw ? draw_weakness(s) : NULL;
    RP_FREE char *text =
        why ? rp_asprintf("this draw will not count: %s", why)
        : d->undetected > RP_ODDS_MOST
            ? rp_asprintf("this draw will not reach the level timed in full: with %d of %" PRId64 " parts a run that "
                          "skipped half of its work passes with 1 in %.0f, and at most 1 in %.0f is accepted (--draws)",
                          d->n, d->parts, floor(1 / d->undetected), 1 / RP_ODDS_MOST)
            : NULL;
    if (text && o->remark)
        o->remark(o->arg, text);
}

/* Whether the parts were drawn, and by whom. */
static void judge_draw(struct rp_verify_state *s, struct rp_check_result *result)
{
    const char *why = s->o->draw ? draw_weakness(s) : NULL;
    s->v->drawn = s->o->draw && !why;
    if (s->v->drawn)
        rp_verify_challenger(s->v->drawn_by, s, s->o->draw);
    if (why)
        rp_check_text(result, "%.340s; not a draw that counts: %s", result->text, why);
}

/* The parts to replay: those that --draw draws for this bundle, or the one of --replay. RP_UNAVAILABLE: there is none.
 */
static int choose_parts(struct rp_draw *d, const struct rp_verify_state *s, struct rp_err *err)
{
    if (s->o->draw)
        return rp_draw_parts(d, &s->run.records, s->o->draw, s->v->statement, s->o->draws ? s->o->draws : RP_DRAWS,
                             err);
    d->part = rp_alloc(sizeof *d->part);
    *d->part = (struct rp_part){s->o->replay.first, s->o->replay.steps};
    d->n = s->o->replay.steps > 0;
    return 0;
}

/* All parts as one result: *all has those before. */
static void add_result(struct rp_replay_result *all, const struct rp_replay_result *r)
{
    struct rp_replay_result sum = *r;
    sum.first = all->first;
    sum.steps += all->steps;
    sum.roots += all->roots;
    sum.keyed += all->keyed;
    sum.start_root &= all->start_root;
    *all = sum;
}

/* The file with the state before part i: --init, or one in that directory; *path: free it. Of several parts the first
 * step needs none, unless the run started from a file. */
static int find_state(char **path, const struct rp_verify_state *s, const struct rp_draw *d, int i, struct rp_err *err)
{
    const char *init = s->o->replay.init;
    const int64_t first = d->part[i].first;
    char *in = s->o->draw ? rp_replay_state_path(init, first) : NULL;
    *path = in ? in : init && d->n == 1 ? rp_strdup(init) : NULL;
    if (*path || !init || (first == 0 && !rp_verify_starts_from_file(s)))
        return 0;
    return rp_fail(err, RP_UNAVAILABLE,
                   "--init: '%s' has no " RP_STATE_OF_STEP ": the signer writes the states before %d parts with 'repro "
                   "challenge answer --draws %d'%s",
                   init, first, d->n, d->n, first ? "" : ", and hands over the file that the run started from");
}

/* Every state that is needed is there and fits, before the first part is trained. */
static int check_states(const struct rp_verify_state *s, const struct rp_draw *d, struct rp_err *err)
{
    for (int i = 0; i < d->n; i++) {
        RP_FREE char *state = NULL;
        if (find_state(&state, s, d, i, err) < 0)
            return -1;
        if (state && rp_replay_check_state(s->run.facts, state, d->part[i].first, err) < 0)
            return rp_wrap(err, "--init");
    }
    return 0;
}

/* One part after the other, within the limit of time for all; *all: the sum, or the one that failed or diverged.
 * *needed: as of struct rp_verification. */
static int replay_parts(struct rp_replay_result *all, double *needed, const struct rp_verify_state *s,
                        const struct rp_draw *d, struct rp_err *err)
{
    struct rp_replay_opts o = s->o->replay;
    const uint64_t start = rp_now_ns(), limit = o.limit_ns ? o.limit_ns : RP_REPLAY_LIMIT_NS;
    struct rp_products untrained = {0};
    o.before = s->run.node[0].before;
    o.signer = s->v->fingerprint;
    o.untrained = &untrained;
    for (int i = 0; i < d->n; i++) {
        struct rp_replay_result r;
        RP_FREE char *state = NULL;
        const uint64_t spent = rp_now_ns() - start;
        o.first = d->part[i].first;
        o.steps = d->part[i].steps;
        if (find_state(&state, s, d, i, err) < 0)
            return -1;
        o.init = state;
        o.limit_ns = spent < limit ? limit - spent : 1;
        if (rp_replay(&r, s->run.facts, &s->run.records, &o, err) < 0)
            return d->n > 1 ? rp_wrap(err, "replay of part %d of %d", i + 1, d->n) : rp_wrap(err, "replay");
        if (i == 0)
            *all = r;
        else
            add_result(all, &r);
        if (r.diverged || (r.state_compared && r.state.tensors) || (r.reached && r.reach.used > 1)) {
            *all = r;
            return 0;
        }
        if (r.products.all > 0)
            *needed = fmin(*needed, rp_products_needed(&r.products) / rp_products_needed(&untrained));
    }
    return 0;
}

/* The first weight of a state handed over that training cannot have moved so far. */
static int fail_unreachable(const struct rp_replay_result *r, struct rp_err *err)
{
    const struct rp_reach *x = &r->reach;
    char element[256];
    if (x->element >= 0)
        snprintf(element, sizeof element, "element %" PRId64 " of '%s' begins as %.4g and is %.4g", x->element,
                 x->tensor, x->initial, x->is);
    else
        snprintf(element, sizeof element, "'%s' is at a distance of %.4g from its beginning", x->tensor, x->is);
    return rp_fail(err, RP_MISMATCH,
                   "the state before step %" PRId64 " cannot be reached from the seeds of the run: %s; %" PRId64
                   " steps move it by at most %.3g",
                   r->first, element, r->first, x->far);
}

/* "17, 803 and 911"; of many the first. */
static char *list_micro_batches(const struct rp_replay_result *r)
{
    RP_BUF text = {0};
    const int64_t shown = r->micros > 12 ? 10 : r->micros;
    for (int64_t i = 0; i < shown; i++)
        rp_buf_printf(&text, "%s%" PRId64, i == 0 ? "" : i == r->micros - 1 ? " and " : ", ", r->micro_batch[i]);
    return r->micros > shown ? rp_asprintf("%s and %" PRId64 " more", text.data, r->micros - shown)
                             : rp_strdup(text.data);
}

/* Single micro-batches prove no step: the level stays what it is. */
static void describe_micro_batches(const struct rp_replay_result *r, struct rp_check_result *result)
{
    RP_FREE char *list = list_micro_batches(r);
    rp_check_text(result,
                  "bit-equal: the loss%s of %" PRId64 " of %" PRId64 " micro-batches of step %" PRId64
                  ", chosen here (%s): forward passes%s; gradients are compared by --replay only",
                  r->micros == 1 ? "" : "es", r->micros, r->of_micros, r->first, list,
                  r->start_root ? r->first ? ", from a state with the recorded root" : ""
                                : ", from --init, whose root was not recorded");
}

static void describe_equal(const struct rp_verify_state *s, const struct rp_draw *d, const struct rp_replay_result *r,
                           struct rp_check_result *result)
{
    char all[48], times[160];
    const char *whole = r->state_compared ? "; every element of the last state" : "";
    if (d->n > 1)
        rp_check_text(result, "bit-equal: %" PRId64 " step%s in %d of %" PRId64 " parts and %" PRId64 " state root%s%s",
                      r->steps, rp_s(r->steps), d->n, d->parts, r->roots, rp_s(r->roots), describe_times(times, r));
    else if (r->first == 0)
        rp_check_text(result, "bit-equal: %" PRId64 " step%s and %" PRId64 " state root%s%s%s%s", r->steps,
                      rp_s(r->steps), r->roots, rp_s(r->roots), describe_limit(all, &s->o->replay, r), whole,
                      describe_times(times, r));
    else
        rp_check_text(
            result, "bit-equal: %" PRId64 " step%s from step %" PRId64 " on and %" PRId64 " state root%s%s%s%s%s",
            r->steps, rp_s(r->steps), r->first, r->roots, rp_s(r->roots), describe_limit(all, &s->o->replay, r),
            r->start_root ? "; --init has the recorded root"
                          : "; no root was recorded there, --init is checked only by the losses after it",
            whole, describe_times(times, r));
}

static json_t *result_json(const struct rp_replay_result *r, const struct rp_draw *d)
{
    json_t *j = rp_replay_json(r);
    if (d->parts && !r->diverged)
        json_object_set_new(j, "drawn",
                            json_pack("{s:I, s:o, s:f}", "of", (json_int_t)d->parts, "parts", rp_draw_list(d),
                                      "undetected", d->undetected));
    return j;
}

/* What the replay showed, for the verdict and in words. */
static int judge_result(struct rp_verify_state *s, const struct rp_draw *d, const struct rp_replay_result *r,
                        double needed, struct rp_check_result *result, struct rp_err *err)
{
    s->v->replay = result_json(r, d);
    if (r->diverged)
        return fail_diverged(r, result, err);
    if (r->state_compared && r->state.tensors) { /* equal roots and different states: a defect */
        describe_divergence(r, result);
        return rp_fail(err, RP_BUG, "the states have equal roots and differ");
    }
    if (r->reached && r->reach.used > 1)
        return fail_unreachable(r, err);
    s->v->replay_from = r->first;
    if (r->of_micros) {
        s->v->micros = r->micros;
        s->v->of_micros = r->of_micros;
        describe_micro_batches(r, result);
        return 0;
    }
    s->v->replayed = r->steps;
    s->v->keyed = r->keyed;
    s->v->parts = d->parts;
    s->v->replayed_parts = d->parts ? d->n : 0;
    s->v->undetected = d->undetected;
    s->v->needed = isfinite(needed) ? needed : 0;
    s->v->from_file = rp_verify_starts_from_file(s);
    s->v->repeated = r->samples ? (double)r->repeated / (double)r->samples : 0;
    describe_equal(s, d, r, result);
    if (s->v->needed > 0)
        rp_check_text(result, "%.400s; %.1f %% of the products of an untrained state are needed", result->text,
                      100 * s->v->needed);
    judge_draw(s, result);
    return 0;
}

static int check_parts(struct rp_verify_state *s, const struct rp_draw *d, struct rp_check_result *result,
                       struct rp_err *err)
{
    struct rp_replay_result r = {0};
    double needed = INFINITY;
    if (d->n == 0)
        return rp_check_skip(result, "not requested; --replay K trains the first K steps again");
    warn_of_draw(s, d);
    const int failed = check_states(s, d, err) < 0 || replay_parts(&r, &needed, s, d, err) < 0 ||
                       judge_result(s, d, &r, needed, result, err) < 0;
    rp_replay_result_fini(&r);
    return failed ? -1 : 0;
}

int rp_check_replay(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_DRAW d = {0};
    return choose_parts(&d, s, err) < 0 || check_parts(s, &d, result, err) < 0 ? -1 : 0;
}
