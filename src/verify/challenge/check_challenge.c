/* The check `challenge`: what the run's seeds were derived from, and what others' clocks say about how long the run can
 * have taken. */
#include "base/clock.h"
#include "base/json.h"
#include "sign/challenge.h"
#include "sign/trust.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLACK_S 1.0    /* of clocks that count seconds */
#define CLOCKS_S 300.0 /* clocks of two machines differ by less */

/* Samples of every step up to the last state root, warm-up too: all of it was computed between the two moments, and any
 * part of it can be drawn. */
static int64_t all_samples(const struct rp_verify_state *s)
{
    int64_t n = 0, sum = 0;
    for (int64_t i = 0; i < s->run.records.n; i++) {
        const struct rp_step_record *r = &s->run.records.r[i];
        sum += r->step >= 0 ? r->samples : 0;
        n = r->root ? sum : n;
    }
    return n;
}

/* By the verifier, who may have countersigned since: the clock is theirs. */
static int is_mine(const struct rp_challenge *c)
{
    char own[RP_FINGERPRINT_SIZE];
    struct rp_err none = {0};
    return rp_key_own(own, &none) == 0 && strcmp(own, c->by) == 0;
}

int rp_verify_own_challenge(const struct rp_verify_state *s, const struct rp_challenge *c)
{
    return *c->by &&
           (strcmp(c->by, s->v->fingerprint) == 0 || (rp_countersign_role(s->v, c->by) && !is_mine(c)));
}

/* A key that the verifier trusts, and neither the signer's own nor one that countersigned for them. */
static int is_independent(const struct rp_verify_state *s, const struct rp_challenge *c, char name[RP_TRUST_NAME])
{
    char until[RP_DATE_SIZE];
    struct rp_err none = {0};
    return *c->by && !rp_verify_own_challenge(s, c) && rp_trust_find(c->by, name, until, &none) > 0;
}

int rp_verify_vouched_challenge(const struct rp_verify_state *s, const struct rp_challenge *c)
{
    char name[RP_TRUST_NAME];
    if (!*c->by)
        return c->proved;
    return is_independent(s, c, name) || is_mine(c);
}

void rp_verify_challenger(char out[RP_CHALLENGER], const struct rp_verify_state *s, const struct rp_challenge *c)
{
    char name[RP_TRUST_NAME] = "";
    if (!*c->by)
        snprintf(out, RP_CHALLENGER, "%.100s%s", c->note, c->proved ? "" : ", whose signature was not checked");
    else if (is_independent(s, c, name))
        snprintf(out, RP_CHALLENGER, "'%.128s'", name);
    else
        snprintf(out, RP_CHALLENGER, "%.80s, which is not in your trust store", c->by);
}

/* Given by the verifier: whose word its moment is. */
static void describe_given(struct rp_timed *t, const struct rp_challenge *c, const char *made, const char *name)
{
    if (!*c->by && c->proved)
        RP_FORMAT(t->before_by, "%.150s of %.20s", c->note, made);
    else if (!*c->by)
        RP_FORMAT(t->before_by, "%.150s of %.20s (which counts because you gave it)", c->note, made);
    else if (*name)
        RP_FORMAT(t->before_by, "the challenge of %.20s by '%.128s' (on whose clock it rests)", made, name);
    else
        RP_FORMAT(
            t->before_by,
            "the challenge of %.20s by %.80s (not in your trust store; it counts as your own because you gave it)",
            made, c->by);
}

/* The earlier end of the time, and who vouches for it; 0: only people whom the verifier does not trust. */
static int bound_start(struct rp_timed *t, const struct rp_verify_state *s, const struct rp_challenge *c)
{
    char made[32], name[RP_TRUST_NAME] = "";
    int trusted = is_independent(s, c, name);
    rp_rfc3339(made, c->made_ns);
    /* whatever its source: its date is claimed by the signer */
    if (s->o->challenge && rp_verify_own_challenge(s, c)) {
        RP_FORMAT(t->before_by,
                  "the challenge of %.20s is by the signer's own key or one that countersigned: no clock but theirs "
                  "bounds the run",
                  made);
        return 0;
    }
    if (s->o->challenge) {
        describe_given(t, c, made, trusted ? name : "");
        t->claimed = !*c->by && !c->proved;
    } else if (c->proved)
        RP_FORMAT(t->before_by, "%.150s of %.20s", c->note, made);
    else if (trusted)
        RP_FORMAT(t->before_by, "the challenge of %.20s by '%.128s' (on whose clock it rests)", made, name);
    else {
        RP_FORMAT(t->before_by, "it answers a challenge of %.20s by %.90s, which is not trusted here: --challenge FILE",
                  made,
                  !*c->by                                  ? c->note
                  : strcmp(c->by, s->v->fingerprint) == 0 ? "the signer's own key"
                                                           : c->by);
        return 0;
    }
    t->not_before_ns = (int64_t)c->made_ns;
    return 1;
}

/* Received by the verifier, who has it now, or stamped before. */
static void bound_end(struct rp_timed *t, const struct rp_verify_state *s)
{
    char when[32];
    int64_t received = s->o->received_ns ? s->o->received_ns : (int64_t)rp_wall_ns(), stamped = s->v->stamped_ns;
    t->not_after_ns = stamped && stamped < received ? stamped : received;
    rp_rfc3339(when, (uint64_t)t->not_after_ns);
    RP_FORMAT(t->after_by, "%s %.20s", t->not_after_ns == received ? "received" : "stamped by an authority of --tsa-ca",
              when);
}

/* Does a seed change a bit of the run? It starts from one, or shuffles, crops or drops by one. */
static int depends_on_seeds(const struct rp_verify_state *s)
{
    const char *key;
    json_t *entry;
    int depends = !rp_verify_starts_from_file(s) || s->run.recipe.data_shuffle;
    json_object_foreach(s->run.facts->recipe, key, entry) {
        const json_t *value = rp_recorded(entry).value;
        depends |=
            strstr(key, "dropout") && strncmp(key, "seed.", strlen("seed.")) != 0 && json_number_value(value) > 0;
        depends |= strcmp(key, "data.augment") == 0 && strcmp(json_string_value(value), "none") != 0;
    }
    return depends;
}

static int bound_time(const struct rp_verify_state *s, const struct rp_challenge *c, struct rp_check_result *result,
                      struct rp_err *err)
{
    struct rp_timed *t = &s->v->timed;
    const struct rp_throughput_figures *claimed = &s->run.figures->results.throughput;
    const double elapsed = s->run.facts->elapsed_s;
    if (!depends_on_seeds(s)) {
        RP_FORMAT(t->before_by, "it answers a challenge, but starts from a file and neither shuffles nor drops "
                                "anything: its bits may be older");
        return rp_check_warn(result, "%s", t->before_by);
    }
    if (!bound_start(t, s, c))
        return rp_check_note(result, "%s", t->before_by);
    bound_end(t, s);
    t->seconds = (double)(t->not_after_ns - t->not_before_ns) / 1e9;
    if (t->seconds <= 0)
        return rp_fail(err, RP_MISMATCH, "%s is later than the end (%s)", t->before_by, t->after_by);
    if (elapsed > t->seconds + SLACK_S)
        return rp_fail(err, RP_MISMATCH, "the run says that it took %.0f s, but %.0f s lie between %s and its end (%s)",
                       elapsed, t->seconds, t->before_by, t->after_by);
    t->samples = all_samples(s);
    t->rate = (double)t->samples / t->seconds;
    if (!isnan(claimed->value))
        return rp_check_text(result, "%.4g %s between %s and its end (%s) if all steps were computed; %.4g claimed",
                             t->rate, claimed->unit, t->before_by, t->after_by, claimed->value);
    return rp_check_text(result, "%" PRId64 " samples between %s and their end (%s)", t->samples, t->before_by,
                         t->after_by);
}

static int check_member(struct rp_challenge *c, const struct rp_verify_state *s, const struct rp_member *m,
                        struct rp_err *err)
{
    char text[400];
    if (rp_challenge_read(c, rp_buf_text(&m->bytes), m->bytes.size, err) < 0) {
        err->code = RP_MISMATCH;
        return rp_wrap(err, RP_CHALLENGE_MEMBER);
    }
    RP_JSON *is = rp_object_json(s->run.facts->challenge, &rp_type_challenge_facts), *again = rp_challenge_json(c);
    if (!*c->by)
        json_object_set_new(again, "by", json_null());
    if (rp_check_differ(text, sizeof text, is, again))
        return rp_fail(err, RP_MISMATCH, "challenge in facts.json does not follow from the member: challenge/%s", text);
    if (s->o->challenge && strcmp(s->o->challenge->sha256, c->sha256) != 0)
        return rp_fail(err, RP_MISMATCH, "the run answers another challenge, made %s, not the one of --challenge",
                       rp_json_text_at(again, "made_at"));
    return 0;
}

int rp_check_challenge(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_challenge c;
    const struct rp_member *m = rp_bundle_find(&s->bundle, RP_CHALLENGE_MEMBER);
    const struct rp_challenge_facts *is = s->run.facts->challenge;
    if (!m && !is && s->o->challenge)
        return rp_fail(err, RP_MISMATCH,
                       "the run answers no challenge: its bits may be older than the one of --challenge");
    if (!m && !is)
        return rp_check_not_applicable(result, "the run answers no challenge: it may be of any age, and its speed is "
                                               "the signer's word");
    if (!m || !is)
        return rp_fail(err, RP_MISMATCH, "%s",
                       m ? "the bundle has a challenge that facts.json does not name"
                         : "facts.json names a challenge that is not in the bundle");
    if (check_member(&c, s, m, err) < 0)
        return -1;
    double started = rp_wall_time(s->run.facts->started_at), made = (double)c.made_ns / 1e9;
    if (started + CLOCKS_S < made)
        return rp_fail(err, RP_MISMATCH,
                       "the run began %.0f s before its challenge was made: one of the two clocks is wrong",
                       made - started);
    return bound_time(s, &c, result, err);
}
