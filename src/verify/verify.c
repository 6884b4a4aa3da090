#include "verify/verify.h"

#include "base/buf.h"
#include "base/text.h"
#include "verify/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*const checks[])(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) = {
#define VERIFY(id, of, severity, proves, how) rp_check_##id,
#include "verify/checks.def"
#undef VERIFY
};

/* By any key. The check that needs it reports its failure. */
static struct rp_verify_other *verify_other(const char *path, const char *trust)
{
    struct rp_verify_other *x = rp_alloc(sizeof *x);
    const struct rp_verify_opts o = {.trust = trust, .keep = &x->kept};
    x->failed = rp_verify(&x->v, path, &o, &x->err) < 0 || rp_verified_run(&x->kept, path, &x->err) < 0;
    return x;
}

static void other_free(struct rp_verify_other *x)
{
    if (!x)
        return;
    rp_verification_fini(&x->v);
    rp_verified_fini(&x->kept);
    free(x);
}

static void state_fini(struct rp_verify_state *s)
{
    rp_closep(&s->fd);
    rp_bundle_fini(&s->bundle);
    rp_envelope_fini(&s->envelope);
    rp_key_free(s->key);
    json_decref(s->statement);
    rp_run_fini(&s->run);
    rp_verify_derived_free(s->derived);
    other_free(s->original);
    other_free(s->baseline);
}

void rp_verified_fini(struct rp_verified *kept)
{
    rp_bundle_fini(&kept->bundle);
    rp_run_fini(&kept->run);
}

int rp_verified_run(const struct rp_verified *kept, const char *path, struct rp_err *err)
{
    char shown[72];
    if (!kept->run.doc || !kept->run.doc->command)
        return 0;
    return rp_fail(err, RP_UNAVAILABLE,
                   "'%s' is the bundle of a command (repro exec): this program did not train it and cannot repeat it",
                   rp_excerpt(shown, path));
}

static void move_kept(struct rp_verified *kept, struct rp_verify_state *s)
{
    *kept = (struct rp_verified){s->bundle, s->run};
    s->bundle = (struct rp_bundle){0};
    s->run = (struct rp_run){0};
}

/* By an option of its own. */
static int is_requested(const struct rp_verify_opts *o, int check)
{
    switch (check) {
    case RP_CHECK_replay: return o->replay.steps > 0 || o->draw;
    case RP_CHECK_scaling: return o->baseline != NULL;
    case RP_CHECK_policy: return o->policy != NULL;
    case RP_CHECK_agreement: return o->original || o->replication;
    case RP_CHECK_ledger: return o->ledger != NULL;
    case RP_CHECK_challenge: return o->challenge != NULL;
    case RP_CHECK_timestamps: return o->tsa_ca != NULL;
    default: return 0;
    }
}

/* Without its option such a check has nothing to do. */
static int needs_request(int check)
{
    return check == RP_CHECK_replay || check == RP_CHECK_scaling || check == RP_CHECK_policy;
}

static int is_command(const struct rp_verify_state *s)
{
    return s->run.doc && s->run.doc->command;
}

/* What only a run can answer: -1 where it was requested, since its answer is missing then. */
static int leave_out(struct rp_check_result *r, struct rp_err *err)
{
    if (!r->requested)
        return rp_check_not_applicable(r, "a command, which this program did not train");
    r->state = RP_CHECK_SKIPPED;
    rp_check_text(r, "a command, which this program did not train, cannot be checked that way");
    return rp_fail(err, RP_UNAVAILABLE, "%s: %s", r->name, r->text);
}

/* Runs a check and fills its row; -1 if it did not pass. */
static int run_check(struct rp_verify_state *s, int i, struct rp_err *err)
{
    struct rp_check_result *r = &s->v->check[i];
    char more[sizeof r->text];
    if (is_command(s) && rp_check_of(i) == RP_BUNDLE_RUN)
        return leave_out(r, err);
    r->state = RP_CHECK_PASSED;
    if (i == RP_CHECK_agreement && s->o->original)
        s->original = verify_other(s->o->original, NULL);
    if (i == RP_CHECK_scaling && s->o->baseline)
        s->baseline = verify_other(s->o->baseline, s->o->trust);
    if (checks[i](s, r, err) == 0)
        return 0;
    snprintf(more, sizeof more, "%s", r->text);
    rp_check_text(r, "%s%s%s", err->msg, *more ? "; " : "", more);
    const int other = i == RP_CHECK_agreement || i == RP_CHECK_scaling;
    const int replays = i == RP_CHECK_replay || (other && err->code == RP_UNAVAILABLE);
    if (err->code == RP_MISMATCH && rp_check_severity(i) == RP_SEVERITY_WARN)
        r->state = RP_CHECK_WARNING;
    else if (err->code == RP_VERSION || (err->code != RP_MISMATCH && replays))
        r->state = RP_CHECK_SKIPPED;
    else
        r->state = RP_CHECK_FAILED;
    return -1;
}

/* How many checks did not pass, by what that does to the verdict. */
struct verify_tally {
    int failed, other_version, incomplete, policy;
};

/* The bundle of --original or --baseline may be of another version too: then it is the request that cannot be
 * completed. */
static int *tally_of(struct verify_tally *t, int check, enum rp_check_state state, enum rp_code code)
{
    if (state == RP_CHECK_FAILED)
        return code == RP_POLICY ? &t->policy : &t->failed;
    return code == RP_VERSION && rp_check_severity(check) == RP_SEVERITY_FATAL ? &t->other_version : &t->incomplete;
}

static enum rp_verdict verdict_of(const struct verify_tally *t, const struct rp_verify_state *s)
{
    if (t->failed)
        return RP_VERDICT_FAILED;
    if (t->other_version)
        return RP_VERDICT_OTHER_VERSION;
    if (t->incomplete)
        return RP_VERDICT_INCONCLUSIVE;
    if (t->policy)
        return RP_VERDICT_POLICY;
    if (!rp_facts_complete(s->run.facts))
        return RP_VERDICT_INCOMPLETE;
    return s->v->standing == RP_STANDING_UNKNOWN ? RP_VERDICT_UNKNOWN_KEY : RP_VERDICT_VERIFIED;
}

/* A replay is not started for a bundle that failed. If one could not be completed, the verdict is inconclusive instead
 * of failed. *err: the most serious failure, of several the first. */
static void run_checks(struct rp_verify_state *s, struct verify_tally *t, struct rp_err *err)
{
    int stopped = 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        struct rp_check_result *r = &s->v->check[i];
        struct rp_err e = {0};
        s->v->run = s->run.doc;
        s->v->verdict = t->failed ? RP_VERDICT_FAILED : RP_VERDICT_VERIFIED; /* so far, for the levels of a policy */
        if (stopped || (t->failed && i == RP_CHECK_replay)) {
            rp_check_text(r, "%s",
                          !r->requested && needs_request(i) ? "not requested"
                          : t->other_version                ? "not run: the bundle is of another version"
                                                            : "not run: an earlier check failed");
            continue;
        }
        if (run_check(s, i, &e) == 0 || r->state == RP_CHECK_WARNING)
            continue;
        int *tally = tally_of(t, i, r->state, e.code);
        if (!t->failed && !*tally && (tally == &t->failed || !t->incomplete))
            *err = e;
        ++*tally;
        stopped |= rp_check_severity(i) == RP_SEVERITY_FATAL;
    }
}

static void describe_place(struct rp_verified_place *out, const struct rp_run *r)
{
    if (r->doc->command) {
        *out = (struct rp_verified_place){.nodes = r->nodes, .machines = rp_verify_machines(r)};
        rp_run_machine_text(out->text, r);
        return;
    }
    *out = (struct rp_verified_place){.ranks = r->facts->rank_n,
                             .nodes = r->nodes,
                             .devices = rp_run_devices(r),
                             .machines = rp_verify_machines(r)};
    rp_run_place_text(out->text, r);
    const size_t n = strlen(out->text);
    if (out->machines < out->nodes)
        snprintf(out->text + n, sizeof out->text - n, "; by their captures the nodes are %" PRId64 " machine%s",
                 out->machines, rp_s(out->machines));
}

int rp_verify(struct rp_verification *v, const char *path, const struct rp_verify_opts *o, struct rp_err *err)
{
    struct rp_verify_state s = {.path = path, .o = o, .v = v, .fd = -1};
    struct verify_tally t = {0};
    *v = (struct rp_verification){0};
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        v->check[i] = (struct rp_check_result){
            .name = rp_check_name(i), .proves = rp_check_proves(i), .requested = is_requested(o, i)};
    RP_FORMAT(v->bundle, "%.255s", rp_base_name(path));
    rp_sanitize(v->bundle);
    run_checks(&s, &t, err);
    v->verdict = verdict_of(&t, &s);
    if (v->verdict == RP_VERDICT_INCONCLUSIVE && err->code != RP_INTERRUPTED && err->code != RP_BUG)
        err->code = RP_UNAVAILABLE; /* one exit status, whatever kept the check from its end */
    v->run = rp_run_documents_use(s.run.doc);
    if (v->run && rp_verdict_shows(v->verdict))
        describe_place(&v->place, &s.run);
    if (o->keep && rp_verdict_shows(v->verdict))
        move_kept(o->keep, &s);
    state_fini(&s);
    if (v->verdict > RP_VERDICT_POLICY)
        return 0;
    snprintf(v->why, sizeof v->why, "%s", err->msg);
    return -1;
}

static void free_object(void *object, const struct rp_object_type *type)
{
    if (object)
        rp_object_fini(object, type);
    free(object);
}

void rp_verification_fini(struct rp_verification *v)
{
    rp_run_documents_free(v->run);
    free_object(v->policy, &rp_type_policy_list);
    free_object(v->signatures, &rp_type_countersigned_list);
    free_object(v->timestamps, &rp_type_timestamped_list);
    free_object(v->ledger, &rp_type_attempts_answer);
    free_object(v->scaling, &rp_type_scaling_answer);
    json_decref(v->replay);
    json_decref(v->forked);
    v->run = NULL;
    v->policy = NULL;
    v->signatures = NULL;
    v->timestamps = NULL;
    v->ledger = NULL;
    v->scaling = NULL;
    v->replay = v->forked = NULL;
}
