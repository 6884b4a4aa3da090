/* The check `replay`. */
#include "base/text.h"
#include "verify/challenge/draw.h"
#include "verify/state.h"

#include <inttypes.h>
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
        rp_check_text(result, "%s%sat the end %" PRId64 " tensor%s, first %.90s, elements %" PRId64 " to %" PRId64 " (%" PRId64
                             " of %" PRId64 "): %s recorded, %s here",
                     tensors, *tensors ? "; " : "", d->tensors, d->tensors == 1 ? " differs" : "s differ", d->name, d->first, d->last,
                         d->count, d->size, d->was, d->here);
    else if (r->state_compared)
        rp_check_text(result, "%s%sat the end all bits are equal again", tensors, *tensors ? "; " : "");
    else
        rp_check_text(result, "%s", tensors);
}

static int fail_diverged(const struct rp_replay_result *r, struct rp_check_result *result, struct rp_err *err)
{
    char agreed[96] = "";
    describe_divergence(r, result);
    if (r->step < r->first && r->first > 0)
        return rp_fail(err, RP_MISMATCH,
                       "the file of --init is not the state before step %" PRId64 ": its root is %.18s..., recorded is %.18s...",
                       r->first, r->here, r->recorded);
    if (r->step < 0)
        return rp_fail(err, RP_MISMATCH, "the state before the first step differs: %s recorded %.18s, here %.18s", r->quantity, r->recorded,
                       r->here);
    if (r->agreed >= 0)
        snprintf(agreed, sizeof agreed, "; the state before step %" PRId64 " was still equal", r->agreed);
    if (!r->start_root && r->first > 0)
        snprintf(agreed, sizeof agreed, "; no root was recorded to check --init, the state before step %" PRId64, r->first);
    return rp_fail(err, RP_MISMATCH, "first divergent step %" PRId64 ": %s recorded %.24s, here %.24s%s", r->step, r->quantity, r->recorded,
                   r->here, agreed);
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
        snprintf(out, 160, "; a step took %.3f s here, %.3f s by the signer's clock, on the same model of CPU with the same threads",
                 r->step_s[1], r->step_s[0]);
    return out;
}

/* A value that was there before the bundle came could be known when it was sealed: then it is a replay like any other. When it came is the
 * verifier's word (--received): the time in the bundle is the signer's. NULL: the draw counts, else why it does not. */
static const char *draw_weakness(const struct rp_verify_state *s)
{
    const struct rp_challenge *c = s->o->draw;
    const struct rp_challenge_facts *answered = s->run.facts->challenge;
    double ended = rp_wall_time(s->run.facts->ended_at), made = (double)c->made_ns / 1e9;
    double came = (double)(s->o->received_ns / 1000000000);
    if (rp_verify_own_challenge(s, c))
        return "its challenge is by the signer's own key or one that countersigned";
    if (answered && strcmp(c->sha256, answered->sha256) == 0)
        return "it is the challenge that the run answers";
    if (!s->o->received_ns)
        return "without --received, the bundle may be younger than its challenge";
    return made >= came && made >= ended ? NULL : "its challenge was made before the bundle came";
}

/* Whether the part was drawn, and by whom. */
static void judge_draw(struct rp_verify_state *s, struct rp_check_result *result)
{
    const char *why = s->o->draw ? draw_weakness(s) : NULL;
    s->v->drawn = s->o->draw && !why;
    if (s->v->drawn)
        rp_verify_challenger(s->v->drawn_by, s, s->o->draw);
    if (why)
        rp_check_text(result, "%.340s; not a draw that counts: %s", result->text, why);
}

/* --draw: the part between two state roots that the challenge draws for this bundle. */
static int draw_steps(const struct rp_verify_state *s, struct rp_replay_opts *o, struct rp_err *err)
{
    return rp_draw_part(&o->first, &o->steps, &s->run.records, s->o->draw, s->v->statement, err);
}

int rp_check_replay(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_replay_result r;
    struct rp_replay_opts o = s->o->replay;
    char all[48], times[160];
    if (s->o->draw && draw_steps(s, &o, err) < 0)
        return -1;
    o.before = s->run.node[0].before;
    o.signer = s->v->fingerprint;
    if (o.steps <= 0)
        return rp_check_skip(result, "not requested; --replay K trains the first K steps again");
    if (rp_replay(&r, s->run.facts, &s->run.records, &o, err) < 0)
        return rp_wrap(err, "replay");
    s->v->replay = rp_replay_json(&r);
    if (r.diverged)
        return fail_diverged(&r, result, err);
    if (r.state_compared && r.state.tensors) { /* equal roots and different states: a defect */
        describe_divergence(&r, result);
        return rp_fail(err, RP_BUG, "the states have equal roots and differ");
    }
    s->v->replay_from = r.first;
    s->v->replayed = r.steps;
    s->v->keyed = r.keyed;
    if (r.first == 0)
        rp_check_text(result, "bit-equal: %" PRId64 " step%s and %" PRId64 " state root%s%s%s%s", r.steps, rp_s(r.steps), r.roots,
                      rp_s(r.roots), describe_limit(all, &o, &r),
                     r.state_compared ? "; every element of the last state" : "", describe_times(times, &r));
    else
        rp_check_text(result, "bit-equal: %" PRId64 " step%s from step %" PRId64 " on and %" PRId64 " state root%s%s%s%s%s", r.steps,
                      rp_s(r.steps), r.first,
                     r.roots, rp_s(r.roots), describe_limit(all, &o, &r),
                     r.start_root ? "; --init has the recorded root" : "; no root was recorded there, --init is checked only by the losses "
                                                                       "after it",
                     r.state_compared ? "; every element of the last state" : "", describe_times(times, &r));
    judge_draw(s, result);
    return 0;
}
