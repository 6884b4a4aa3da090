/* Policies: every rule holds and is broken once, and what is no policy is refused with its place. */
#include "tests/unit/verify_fixture.h"

#include "base/clock.h"
#include "sign/countersign.h"
#include "verify/policy.h"

static int parse(struct rp_policy *p, const char *text, struct rp_err *err)
{
    *err = (struct rp_err){0};
    return rp_policy_parse(p, text, strlen(text), "p.yaml", err);
}

/* Verify fx_path("policy") under that policy; what the row says. */
static enum rp_check_state row(const char *text, const char *trust, int fails, char says[512])
{
    struct rp_policy p;
    struct rp_err err;
    struct rp_verification v;
    RP_FREE char *path = fx_path("policy");
    CHECK(parse(&p, text, &err) == 0, "%s", err.msg);
    struct rp_verify_opts o = {.policy = &p, .trust = trust};
    int rc = rp_verify(&v, path, &o, &err);
    CHECK((rc < 0) == fails && (v.verdict == RP_VERDICT_FAILED) == fails && (!fails || err.code == RP_MISMATCH), "%s: %d, %s, %s", text, rc,
          rp_verdict_text(v.verdict), err.msg);
    memcpy(says, v.check[RP_CHECK_policy].text, 512);
    enum rp_check_state state = v.check[RP_CHECK_policy].state;
    CHECK(json_is_array(v.policy), "no answers");
    rp_verification_fini(&v);
    rp_policy_fini(&p);
    return state;
}

static void holds(const char *text, const char *trust)
{
    char says[512];
    enum rp_check_state is = row(text, trust, 0, says);
    CHECK(is == RP_CHECK_PASSED && strstr(says, "hold"), "%s: %s", text, says);
}

static void broken(const char *text, const char *why)
{
    char says[512];
    enum rp_check_state is = row(text, NULL, 1, says);
    CHECK(is == RP_CHECK_FAILED && strstr(says, why), "%s: expected '%s' in: %s", text, why, says);
}

static void seal(struct fx *x)
{
    struct rp_err err;
    CHECK(fx_report(x, &err) == 0, "%s", err.msg);
    fx_seal(x, "signer", "policy");
}

TEST(rules_hold_or_are_broken)
{
    struct fx x;
    char print[RP_FINGERPRINT_SIZE];
    fx_init(&x);
    struct rp_key_pair *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    rp_key_free(k);
    json_object_set_new(json_object_get(x.run, "tool"), "dirty", json_string("clean"));
    fx_capture_value(x.before, "program", "sha256", json_string(FX_ROOT));
    fx_capture_value(x.after, "program", "sha256", json_string(FX_ROOT));
    seal(&x);
    RP_FREE char *by = rp_asprintf("signed_by: [nobody, \"%s\"]", print);
    RP_FREE char *own = rp_asprintf("recipes: [\"%s\"]", json_string_value(json_object_get(x.run, "recipe_sha256")));
    holds(by, NULL);
    broken("signed_by: [nobody]", "or a name in the trust store");
    broken("signed_by: [\"SHA256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"]", "not in the list");
    broken("countersigned_by: [nobody]", "or a name in the trust store");
    holds("max_age_days: 1000000", NULL);
    broken("max_age_days: 1", "days old, 1 allowed");
    holds(own, NULL);
    broken("recipes: [bert_fp32]", "not in the list");
    broken("recipes: [bert_hoax]", "no recipe 'bert_hoax'");
    holds("programs: [" FX_ROOT "]", NULL);
    broken("programs: [ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff]", "not in the list");
    broken("clean_tree: true", "unknown: the working directory");
    holds("complete: true", NULL);
    holds("min_steps: 6", NULL);
    broken("min_steps: 7", "6 timed steps");
    holds("min_repeats: 2", NULL);
    broken("min_repeats: 3", "2 repeats");
    broken("replayed: 1", "0 steps replayed");
    broken("no_throttling: true", "unknown");
    holds("no_warnings: true", NULL);
    holds("checks: {key: passed}", print);
    holds("checks: {key: note, data: note, outliers: warning}", NULL);
    broken("checks: {key: passed}", "key is 'note', allowed is 'passed'");
    broken("checks: {replay: warning}", "replay is 'skipped'");
    broken("min_steps: 7\nmin_repeats: 3\ncomplete: true\n", "2 of 3 rules do not hold; min_steps");
    json_object_set_new(json_object_get(x.run, "tool"), "dirty", json_string("dirty"));
    seal(&x);
    broken("clean_tree: true", "a tree that is 'dirty'");
    fx_fini(&x);
}

static void git_of(struct fx *x, const char *repo, const char *name, const char *state, json_t *value)
{
    json_t *probes = json_object_get(x->before, "probes"), *git = json_object_get(probes, "git");
    if (!git)
        json_object_set_new(probes, "git", git = json_object());
    if (!json_object_get(git, repo))
        json_object_set_new(git, repo, json_object());
    json_object_set_new(json_object_get(git, repo), name, json_pack("{s:s, s:o, s:s, s:s*}", "state", state, "value", value, "source",
                                                                                "libgit2", "detail", strcmp(state, "error") == 0 ? "a test" : NULL));
    json_object_set(json_object_get(x->after, "probes"), "git", git);
}

TEST(a_tree_is_clean_where_that_is_known)
{
    static const struct {
        const char *repo, *name, *state;
        int value; /* -1: null */
        const char *why; /* NULL: it holds */
    } cases[] = {
        {"workdir", "modified", "absent", -1, NULL}, /* no repository */
        {"workdir", "modified", "ok", 0, NULL},
        {"workdir", "modified", "ok", 3, "3 files and 0 submodules of the repository 'workdir'"},
        {"workdir", "modified", "denied", -1, "unknown: whether the repository 'workdir' was changed is 'denied'"},
        {"workdir", "modified", "error", -1, "is 'error'"},
        {"workdir", "modified", "ok", 0, NULL},
        {"workdir", "submodules_changed", "error", -1, "unknown: whether submodules of the repository 'workdir'"},
        {"workdir", "submodules_changed", "ok", 1, "0 files and 1 submodules"},
        {"workdir", "submodules_changed", "absent", -1, NULL},
        {"model", "modified", "ok", 1, "of the repository 'model'"},
        {"model", "modified", "error", -1, "the repository 'model' was changed is 'error'"},
        {"model", "modified", "ok", 0, NULL},
        {"other", "commit", "absent", -1, "the repository 'other' was changed is 'not captured'"},
    };
    struct fx x;
    fx_init(&x);
    json_object_set_new(json_object_get(x.run, "tool"), "dirty", json_string("clean"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        git_of(&x, cases[i].repo, cases[i].name, cases[i].state, cases[i].value < 0 ? json_null() : json_integer(cases[i].value));
        seal(&x);
        if (cases[i].why)
            broken("clean_tree: true", cases[i].why);
        else
            holds("clean_tree: true", NULL);
    }
    fx_fini(&x);
}

TEST(throttling_is_counted_by_each_counter)
{
    static const struct {
        int core[2], package[2]; /* before and after; -1: not known */
        const char *why;
    } cases[] = {
        {{7, 7}, {-1, -1}, NULL},
        {{7, 7}, {9, 9}, NULL},
        {{7, 9}, {9, 9}, "throttled 2 times"},
        {{2000, 1000}, {1000, 2000}, "core_throttles decreased"}, /* they cancel out */
        {{1000, 2000}, {2000, 1000}, "package_throttles decreased"},
        {{7, 7}, {9, -1}, "unknown: probes.frequency.package_throttles was captured only once"},
        {{-1, 7}, {9, 9}, "unknown: probes.frequency.core_throttles was captured only once"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fx x;
        fx_init(&x);
        for (int k = 0; k < 2; k++) {
            json_t *side = k ? x.after : x.before;
            if (cases[i].core[k] >= 0)
                fx_capture_value(side, "frequency", "core_throttles", json_integer(cases[i].core[k]));
            if (cases[i].package[k] >= 0)
                fx_capture_value(side, "frequency", "package_throttles", json_integer(cases[i].package[k]));
        }
        struct rp_err err;
        CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
        seal(&x);
        if (cases[i].why)
            broken("no_throttling: true", cases[i].why);
        else
            holds("no_throttling: true", NULL);
        fx_fini(&x);
    }
}

/* The whole run so many seconds from now. */
static void move_to(struct fx *x, int64_t seconds)
{
    uint64_t end = rp_wall_ns() + (uint64_t)(seconds * 1000000000);
    const struct {
        json_t *doc;
        const char *key;
        uint64_t before_end_s;
    } times[] = {{x->run, "started_at", 2}, {x->run, "ended_at", 0}, {x->before, "captured_at", 2}, {x->after, "captured_at", 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char text[32];
        rp_rfc3339(text, end - times[i].before_end_s * 1000000000u);
        json_object_set_new(times[i].doc, times[i].key, json_string(text));
    }
    seal(x);
}

TEST(a_run_from_the_future_has_no_age)
{
    struct fx x;
    fx_init(&x);
    move_to(&x, -12 * 3600);
    holds("max_age_days: 1", NULL);
    move_to(&x, -25 * 3600);
    broken("max_age_days: 1", "1.04 days old, 1 allowed");
    move_to(&x, 120); /* two clocks */
    holds("max_age_days: 1", NULL);
    move_to(&x, 900);
    broken("max_age_days: 1000", "15 minutes in the future");
    move_to(&x, 20 * 3600);
    broken("max_age_days: 1000", "the run ends 1200 minutes in the future");
    fx_fini(&x);
}

TEST(who_countersigned_is_asked_for_by_key)
{
    struct fx x;
    struct rp_err err;
    struct rp_bundle b;
    char bob[RP_FINGERPRINT_SIZE], eve[RP_FINGERPRINT_SIZE];
    RP_BUF envelope = {0}, pem = {0}, file = {0};
    RP_FREE char *path = fx_path("policy");
    fx_init(&x);
    fx_seal(&x, "signer", "policy");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    struct rp_countersignature c = {.role = "reviewer", .at = "2026-11-21T06:27:54Z", .program = "repro 0.1.0"};
    struct rp_key_pair *k = fx_key("bob"), *stranger = fx_key("eve");
    CHECK(rp_countersign_seal(&envelope, &c, &rp_bundle_find(&b, "statement.dsse.json")->bytes, k, &err) == 0, "%s", err.msg);
    rp_key_public_pem(k, &pem);
    rp_key_fingerprint(k, bob);
    rp_key_fingerprint(stranger, eve);
    rp_key_free(k);
    rp_key_free(stranger);
    fx_add(&b, "signatures/0.dsse.json", envelope.data, envelope.size);
    fx_add(&b, "signatures/0.pem", pem.data, pem.size);
    CHECK(rp_bundle_pack(&b, &file, &err) == 0 && rp_write_file(path, file.data, file.size, 0644, &err) == 0, "%s", err.msg);
    rp_bundle_fini(&b);
    RP_FREE char *one = rp_asprintf("countersigned_by: [\"%s\"]", bob), *both = rp_asprintf("countersigned_by: [\"%s\", \"%s\"]", bob, eve);
    RP_FREE char *author = rp_asprintf("signed_by: [\"%s\"]", bob);
    holds(one, NULL);
    broken(both, "did not countersign");
    broken(author, "not in the list");
    fx_fini(&x);
}

TEST(what_happened_to_a_run_breaks_rules)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    rp_buf_fini(&x.steps);
    fx_records_until(&x.steps, 1, 3, 2, 2);
    CHECK(fx_documents(&x, "incomplete", "interrupted", &err) == 0, "%s", err.msg);
    seal(&x);
    broken("complete: true", "the run is incomplete");
    fx_fini(&x);
    static const char *const set[] = {"train.batch_size=8"}; /* the same recipe.yaml, another mathematics */
    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, 1, &err) == 0, "%s", err.msg);
    RP_BUF eight = {0};
    for (const char *at = x.steps.data, *hit; at; at = hit) {
        static const char *const was = "\"padded_tokens\":64", *const is = "\"padded_tokens\":128";
        hit = strstr(at, was);
        rp_buf_add(&eight, at, hit ? (size_t)(hit - at) : strlen(at));
        if (hit) {
            rp_buf_puts(&eight, is);
            hit += strlen(was);
        }
    }
    rp_buf_fini(&x.steps);
    for (char *p = eight.data; (p = strstr(p, "\"samples\":4")); p++)
        p[10] = '8';
    x.steps = eight;
    eight = (struct rp_buf){0};
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    seal(&x);
    RP_FREE char *own = rp_asprintf("recipes: [\"%s\"]", json_string_value(json_object_get(x.run, "recipe_sha256")));
    broken(own, "the command line set train.batch_size");
    fx_fini(&x);
    fx_init(&x); /* a device that was throttled */
    x.backend = "cuda";
    x.device = "gpu0 NVIDIA H100 PCIe sm_90";
    for (int i = 0; i < 8; i++)
        rp_buf_printf(&x.samples, "{\"n\":%d,\"ns\":%lld,\"throttle\":[%s]}\n", i, 5000000000ll + 100000100ll * i, i == 3 ? "\"hw_slowdown\"" : "\"gpu_idle\"");
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    seal(&x);
    broken("no_throttling: true", "hw_slowdown in");
    fx_fini(&x);
    for (int known = 0; known < 2; known++) { /* one that was not, as far as is known */
        fx_init(&x);
        x.backend = "cuda";
        x.device = "gpu0 NVIDIA H100 PCIe sm_90";
        for (int i = 0; i < 8; i++)
            rp_buf_printf(&x.samples, "{\"n\":%d,\"ns\":%lld%s}\n", i, 5000000000ll + 100000100ll * i, known || i == 3 ? ",\"throttle\":[]" : "");
        CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
        seal(&x);
        if (known)
            holds("no_throttling: true", NULL);
        else
            broken("no_throttling: true", "unknown: 7 of 8 samples");
        fx_fini(&x);
    }
    fx_init(&x); /* three minutes of which nothing is said */
    set_path(x.run, "elapsed_s", json_real(200));
    set_path(x.run, "ended_at", json_string("2026-09-21T14:16:40Z"));
    set_path(x.after, "captured_at", json_string("2026-09-21T14:16:41Z"));
    seal(&x);
    broken("no_warnings: true", "199.3 s are outside");
    broken("checks: {time: note}", "time is 'warning', allowed is 'note'");
    holds("checks: {time: warning}", NULL);
    fx_fini(&x);
}

TEST(what_is_no_policy_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        enum rp_code code;
        const char *says;
    } cases[] = {
        {"", RP_MALFORMED, "the policy is empty: expected rules"},
        {"# nothing\n", RP_MALFORMED, "the policy is empty"},
        {"- min_steps\n", RP_MALFORMED, "p.yaml:1:1: expected rules"},
        {"complete: true\nmin_step: 3\n", RP_USAGE, "p.yaml:2:1: unknown rule 'min_step': did you mean 'min_steps'?"},
        {"min_steps: 3\nmin_steps: 4\n", RP_USAGE, "p.yaml:2:1: min_steps is given twice, first in line 1"},
        {"min_steps: many\n", RP_USAGE, "p.yaml:1:12: min_steps: expected a whole number"},
        {"min_steps: \"3\"\n", RP_USAGE, "expected a whole number"},
        {"min_steps: 0\n", RP_USAGE, "expected a whole number from 1"},
        {"min_steps: 3x\n", RP_USAGE, "expected a whole number"},
        {"min_steps: 99999999999999999999\n", RP_USAGE, "expected a whole number"},
        {"min_steps: [3]\n", RP_USAGE, "expected a whole number"},
        {"complete: yes\n", RP_USAGE, "complete: expected true, or leave the rule out"},
        {"in_ledger: false\n", RP_USAGE, "p.yaml:1:12: in_ledger: false is not a rule"},
        {"programs: [abc]\n", RP_USAGE, "p.yaml:1:12: programs: expected a list of SHA-256, 64 lower-case hex digits each"},
        {"complete: true\nreport_file: passed\n", RP_USAGE, "p.yaml:2:1: 'report_file' is a check, not a rule: write 'checks: {report_file: passed}'"},
        {"signed_by: alice\n", RP_USAGE, "signed_by: expected a list of words like [alice, ./bob.pem]"},
        {"signed_by: []\n", RP_USAGE, "an empty list"},
        {"signed_by: [{a: b}]\n", RP_USAGE, "expected a list"},
        {"checks: {}\n", RP_USAGE, "p.yaml:1:9: checks: the mapping is empty"},
        {"checks: [key]\n", RP_USAGE, "expected a mapping of checks"},
        {"checks:\n  kee: passed\n", RP_USAGE, "p.yaml:2:3: unknown check 'kee': did you mean 'key'?"},
        {"checks: {policy: passed}\n", RP_USAGE, "unknown check 'policy'"},
        {"checks: {claims: note}\n", RP_USAGE, "unknown check 'claims'"},
        {"checks: {\"\": note}\n", RP_USAGE, "unknown check ''"},
        {"checks: {key: failed}\n", RP_USAGE, "expected passed, note or warning"},
        {"checks: {key: passed, key: note}\n", RP_USAGE, "key is given twice"},
        {"checks: {[key]: passed}\n", RP_USAGE, "expected the name of a check"},
        {"complete: &a true\n", RP_MALFORMED, "an anchor (&name) does not belong in a policy"},
        {"complete: !!bool true\n", RP_MALFORMED, "a tag (!name) does not belong in a policy"},
        {"complete: true\n---\ncomplete: true\n", RP_MALFORMED, "a file holds one policy"},
        {"complete:\ttrue\n", RP_MALFORMED, "a tab"},
        {"complete: true\n\033[31m", RP_MALFORMED, "U+001B does not belong in a policy"},
        {"complete: \xff\n", RP_MALFORMED, "is not UTF-8"},
        {"complete: true # \342\200\256 6\n", RP_MALFORMED, "p.yaml:1:18: character U+202E does not belong in a policy"},
        {"# \342\201\246\ncomplete: true\n", RP_MALFORMED, "p.yaml:1:3: character U+2066"},
        {"signed_by: [\"a\", \"\nno_warnings: true\nmin_steps: 100000\n\"]\n", RP_USAGE, "p.yaml:1:18: a word continues in line 4"},
        {"signed_by: [alice, bob\n  carol]\n", RP_USAGE, "p.yaml:1:20: a word continues in line 2"},
        {"checks:\n  key: >-\n    passed\n", RP_USAGE, "p.yaml:2:8: a word continues in line"},
        {"complete: true\n\"min\n steps\": 6\n", RP_MALFORMED, "p.yaml:3:8: not YAML"},
        {"complete: {", RP_USAGE, "complete: expected"},
        {"checks: {key: ", RP_MALFORMED, "not YAML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_policy p;
        struct rp_err err;
        CHECK(parse(&p, cases[i].text, &err) < 0 && err.code == cases[i].code && strstr(err.msg, cases[i].says), "%s: expected %s in: %s",
              cases[i].text, cases[i].says, err.msg);
        rp_policy_fini(&p);
    }
}

TEST(a_comment_and_a_list_have_every_form_of_yaml)
{
    static const char text[] = "---\r\n#a policy\n#\ncomplete : true # the run ended\n# min_steps: 5\nsigned_by: [alice, # the author\n  \"a # b\"]\n"
                               "recipes:\n  - bert_fp32\nchecks:\n    \"key\": note\n# data: passed\n";
    struct rp_policy p;
    struct rp_err err;
    CHECK(parse(&p, text, &err) == 0, "%s", err.msg);
    CHECK(p.rule[RP_RULE_complete].number == 1 && p.rule[RP_RULE_signed_by].n == 2 && p.rule[RP_RULE_recipes].n == 1);
    CHECK(p.worst[RP_CHECK_key] == RP_CHECK_NOTE && !p.worst[RP_CHECK_data] && !p.rule[RP_RULE_min_steps].line);
    rp_policy_fini(&p);
}
