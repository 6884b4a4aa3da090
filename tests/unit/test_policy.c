/* Policies: every rule holds and is broken once, and what is no policy is refused with its place. */
#include "tests/unit/verify_fixture.h"

#include "base/clock.h"
#include "sign/countersign.h"

static int parse(struct rp_policy *p, const char *text, struct rp_err *err)
{
    *err = (struct rp_err){0};
    return rp_policy_parse(p, text, strlen(text), "p.yaml", err);
}

static void holds(const char *text, const char *trust)
{
    expect_policy("policy", text, (struct rp_verify_opts){.trust = trust}, 1);
}

static void broken(const char *text)
{
    expect_policy("policy", text, (struct rp_verify_opts){.trust = NULL}, 0);
}

static void seal(const struct fx *x)
{
    fx_seal(x, "signer", "policy");
}

TEST(policies_have_a_size)
{
    struct rp_policy p;
    struct rp_err err;
    RP_FREE char *text = rp_alloc((64 << 10) + 2);
    memset(text, '\n', (64 << 10) + 1);
    memcpy(text, "complete: true", 14);
    CHECK(parse(&p, text, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    text[64 << 10] = 0;
    CHECK(parse(&p, text, &err) == 0, "%s", err.msg);
    rp_policy_fini(&p);
}

TEST(rules_hold_or_are_broken)
{
    char print[RP_FINGERPRINT_SIZE];
    FX(x);
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    set_path(x.facts, "tool/dirty", json_string("clean"));
    fx_capture_both(&x, "program", "sha256", json_string(FX_ROOT));
    seal(&x);
    RP_FREE char *by = rp_asprintf("signed_by: [nobody, \"%s\"]", print);
    RP_FREE char *own = rp_asprintf("recipes: [\"%s\"]", x.doc->figures.recipe_sha256);
    holds(by, NULL);
    broken("signed_by: [nobody]");
    broken("signed_by: [\"SHA256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"]");
    broken("countersigned_by: [nobody]");
    holds("max_age_days: 1000000", NULL);
    holds(own, NULL);
    broken("recipes: [bert_fp32]");
    broken("recipes: [gpt/DP_8x1x1_16_1536x16]");
    holds("programs: [" FX_ROOT "]", NULL);
    broken("programs: [ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff]");
    broken("clean_tree: true");
    holds("complete: true", NULL);
    holds("min_steps: 6", NULL);
    broken("min_steps: 7");
    holds("min_repeats: 2", NULL);
    broken("min_repeats: 3");
    broken("replayed: 1");
    broken("no_throttling: true");
    holds("no_warnings: true", NULL);
    holds("checks: {key: passed}", print);
    holds("checks: {key: note, data: note, outliers: warning}", NULL);
    broken("checks: {key: passed}");
    broken("checks: {replay: warning}");
    broken("min_steps: 7\nmin_repeats: 3\ncomplete: true\n");
    set_path(x.facts, "tool/dirty", json_string("dirty")); /* and not so in the captures */
    seal(&x);
    CHECK(expect_policy("policy", "clean_tree: true", (struct rp_verify_opts){0}, 0) == RP_VERDICT_FAILED,
          "a failed check is hidden");
}

/* Whoever signed_by names is known to the verifier, who wrote the policy; other rules name nobody. */
TEST(policy_that_names_the_signer_makes_the_key_known)
{
    char print[RP_FINGERPRINT_SIZE], rules[200];
    FX(x);
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    seal(&x);
    struct rp_verify_opts any = {.any_key = 1};
    RP_FORMAT(rules, "signed_by: [\"%s\"]", print);
    CHECK(expect_policy("policy", rules, (struct rp_verify_opts){0}, 1) == RP_VERDICT_VERIFIED, "named");
    CHECK(expect_policy("policy", "complete: true", (struct rp_verify_opts){0}, 1) == RP_VERDICT_UNKNOWN_KEY,
          "not named");
    CHECK(expect_policy("policy", "complete: true", any, 1) == RP_VERDICT_VERIFIED, "any");
    CHECK(expect_policy("policy", "levels: [authentic]", any, 0) == RP_VERDICT_POLICY, "any key is not authentic");
    RP_FORMAT(rules, "signed_by: [\"%s\"]\nchecks: {key: passed}\nlevels: [authentic]", print);
    holds(rules, NULL);
}

/* All broken rules are named, also where their reasons do not fit the message. */
TEST(every_broken_rule_is_named)
{
    static const char rules[] =
        "min_steps: 1000\nmin_repeats: 1000\nmin_ranks: 1000\nmin_nodes: 1000\nmin_efficiency_percent: 80\n"
        "replayed: 1000\nin_ledger: true\nledger_checked: true\nmax_attempts_before: 0\n"
        "max_failed_before: 0\nbits_equal: true\nthroughput_within_percent: 5\ncomplete: true\n";
    static const char *const names[] = {"min_steps", "min_repeats", "min_ranks", "min_nodes", "min_efficiency_percent",
                                        "replayed", "in_ledger", "ledger_checked", "max_attempts_before",
                                        "max_failed_before", "bits_equal",
                                        "throughput_within_percent"};
    struct rp_policy p;
    struct rp_verification v;
    struct rp_err err;
    RP_BUF line = {0};
    RP_FREE char *path = fx_path("policy");
    FX(x);
    seal(&x);
    CHECK(parse(&p, rules, &err) == 0, "%s", err.msg);
    struct rp_verify_opts o = {.policy = &p};
    CHECK(rp_verify(&v, path, &o, &err) < 0 && err.code == RP_POLICY, "%s", err.msg);
    rp_verification_line(&line, &v);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(strstr(err.msg, names[i]) && strstr(rp_buf_text(&line), names[i]), "%s: %s; %s", names[i], err.msg,
              rp_buf_text(&line));
    CHECK(!strstr(rp_buf_text(&line), "complete"), "a rule that holds: %s", rp_buf_text(&line));
    CHECK(v.policy && v.policy->row_n == 13, "rules");
    rp_verification_fini(&v);
    rp_policy_fini(&p);
}

static void git_of(struct fx *x, const char *repo, const char *name, const char *state, json_t *value)
{
    json_t *probes = json_object_get(x->before, "probes"), *git = json_object_get(probes, "git");
    if (!git)
        json_object_set_new(probes, "git", git = json_object());
    if (!json_object_get(git, repo))
        json_object_set_new(git, repo, json_object());
    json_object_set_new(json_object_get(git, repo), name,
                        json_pack("{s:s, s:o, s:s, s:s*}", "state", state, "value", value, "source", "libgit2",
                                  "detail", strcmp(state, "error") == 0 ? "a test" : NULL));
    json_object_set(json_object_get(x->after, "probes"), "git", git);
}

TEST(a_tree_is_clean_where_that_is_known)
{
    static const struct {
        const char *repo, *name, *state;
        int value; /* -1: null */
        int holds;
    } cases[] = {
        {"workdir", "modified", "absent", -1, 1}, /* no repository */
        {"workdir", "modified", "ok", 0, 1},
        {"workdir", "modified", "ok", 3, 0},
        {"workdir", "modified", "denied", -1, 0},
        {"workdir", "modified", "error", -1, 0},
        {"workdir", "modified", "ok", 0, 1},
        {"workdir", "submodules_changed", "error", -1, 0},
        {"workdir", "submodules_changed", "ok", 1, 0},
        {"workdir", "submodules_changed", "absent", -1, 1},
        {"model", "modified", "ok", 1, 0},
        {"model", "modified", "error", -1, 0},
        {"model", "modified", "ok", 0, 1},
        {"other", "commit", "absent", -1, 0},
    };
    FX(x);
    set_path(x.facts, "tool/dirty", json_string("clean"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        git_of(&x, cases[i].repo, cases[i].name, cases[i].state,
               cases[i].value < 0 ? json_null() : json_integer(cases[i].value));
        seal(&x);
        expect_policy("policy", "clean_tree: true", (struct rp_verify_opts){.trust = NULL}, cases[i].holds);
    }
}

TEST(throttling_is_counted_by_each_counter)
{
    static const struct {
        int core[2], package[2]; /* before and after; -1: not known */
        int holds;
    } cases[] = {
        {{7, 7}, {-1, -1}, 1},
        {{7, 7}, {9, 9}, 1},
        {{7, 9}, {9, 9}, 0},
        {{2000, 1000}, {1000, 2000}, 0}, /* they cancel out */
        {{1000, 2000}, {2000, 1000}, 0},
        {{7, 7}, {9, -1}, 0},
        {{-1, 7}, {9, 9}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        for (int k = 0; k < 2; k++) {
            json_t *side = k ? x.after : x.before;
            if (cases[i].core[k] >= 0)
                fx_capture_value(side, "frequency", "core_throttles", json_integer(cases[i].core[k]));
            if (cases[i].package[k] >= 0)
                fx_capture_value(side, "frequency", "package_throttles", json_integer(cases[i].package[k]));
        }
        fx_compute(&x);
        seal(&x);
        expect_policy("policy", "no_throttling: true", (struct rp_verify_opts){.trust = NULL}, cases[i].holds);
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
    } times[] = {{x->facts, "started_at", 2},
                 {x->facts, "ended_at", 0},
                 {x->before, "captured_at", 2},
                 {x->after, "captured_at", 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char text[32];
        rp_rfc3339(text, end - times[i].before_end_s * 1000000000u);
        json_object_set_new(times[i].doc, times[i].key, json_string(text));
    }
    seal(x);
}

TEST(a_run_from_the_future_has_no_age)
{
    FX(x);
    move_to(&x, -12 * 3600);
    holds("max_age_days: 1", NULL);
    move_to(&x, -25 * 3600);
    broken("max_age_days: 1");
    move_to(&x, 120); /* two clocks */
    holds("max_age_days: 1", NULL);
    move_to(&x, 900);
    broken("max_age_days: 1000");
    move_to(&x, 3 * 86400);
    expect("policy", NULL, RP_VERDICT_FAILED, RP_CHECK_time, RP_MISMATCH);
    move_to(&x, 20 * 3600);
    broken("max_age_days: 1000");
}

TEST(who_countersigned_is_asked_for_by_key)
{
    struct rp_err err;
    struct rp_bundle b;
    char bob[RP_FINGERPRINT_SIZE], eve[RP_FINGERPRINT_SIZE];
    RP_BUF envelope = {0}, pem = {0}, file = {0};
    RP_FREE char *path = fx_path("policy");
    FX(x);
    fx_seal(&x, "signer", "policy");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    struct rp_countersignature c = {.role = "reviewer", .at = "2026-11-21T06:27:54Z", .program = "repro 0.1.0"};
    FX_KEY *k = fx_key("bob"), *stranger = fx_key("eve");
    CHECK(rp_countersign_seal(&envelope, &c, &rp_bundle_find(&b, "statement.dsse.json")->bytes, k, &err) == 0, "%s",
          err.msg);
    rp_key_public_pem(k, &pem);
    rp_key_fingerprint(k, bob);
    rp_key_fingerprint(stranger, eve);
    fx_add(&b, "signatures/0.dsse.json", envelope.data, envelope.size);
    fx_add(&b, "signatures/0.pem", pem.data, pem.size);
    CHECK(rp_bundle_pack(&b, &file, &err) == 0 && rp_write_file(path, file.data, file.size, 0644, &err) == 0, "%s",
          err.msg);
    rp_bundle_fini(&b);
    RP_FREE char *one = rp_asprintf("countersigned_by: [\"%s\"]", bob),
                 *both = rp_asprintf("countersigned_by: [\"%s\", \"%s\"]", bob, eve);
    RP_FREE char *author = rp_asprintf("signed_by: [\"%s\"]", bob);
    holds(one, NULL);
    broken(both);
    broken(author);
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
    broken("complete: true");
    fx_fini(&x);
    /* the same recipe.yaml, another mathematics */
    fx_init(&x);
    FX_SET(&x, "train.batch_size=8");
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
    fx_compute(&x);
    seal(&x);
    RP_FREE char *own = rp_asprintf("recipes: [\"%s\"]", x.doc->figures.recipe_sha256);
    broken(own);
    fx_again(&x); /* a device that was throttled */
    x.backend = "cuda";
    x.device = "gpu0 NVIDIA H100 PCIe sm_90";
    for (int i = 0; i < 8; i++)
        rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld,\"throttle\":[%s]}\n", i, 5000000000ll + 100000100ll * i,
                      i == 3 ? "\"hw_slowdown\"" : "\"gpu_idle\"");
    fx_compute(&x);
    seal(&x);
    broken("no_throttling: true");
    fx_fini(&x);
    for (int known = 0; known < 2; known++) { /* one that was not, as far as is known */
        fx_init(&x);
        x.backend = "cuda";
        x.device = "gpu0 NVIDIA H100 PCIe sm_90";
        for (int i = 0; i < 8; i++)
            rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld%s}\n", i, 5000000000ll + 100000100ll * i,
                          known || i == 3 ? ",\"throttle\":[]" : "");
        fx_compute(&x);
        seal(&x);
        expect_policy("policy", "no_throttling: true", (struct rp_verify_opts){.trust = NULL}, known);
        fx_fini(&x);
    }
    fx_init(&x); /* three minutes of which nothing is said */
    set_path(x.facts, "elapsed_s", json_real(200));
    set_path(x.facts, "ended_at", json_string("2026-09-21T14:16:40Z"));
    set_path(x.after, "captured_at", json_string("2026-09-21T14:16:41Z"));
    seal(&x);
    broken("no_warnings: true");
    broken("checks: {time: note}");
    holds("checks: {time: warning}", NULL);
    fx_fini(&x);
}

/* Every rule of the list: its example is accepted, and a value of any other form is refused with file, line and
 * rule. */
TEST(every_rule_takes_its_example_and_no_other_form)
{
    static const char *const others[] = {"{a: b}", "[[a]]", "-1",   "2.5.", "570", "570 / s",
                                         "[\"\"]", "true",  "word", "0",    "[0]", "[1.5]"};
    for (int id = 0; id < RP_RULE_COUNT; id++) {
        const struct rp_rule_text *t = rp_rule_text(id);
        struct rp_policy p;
        struct rp_err err;
        RP_FREE char *text = rp_asprintf("complete: true\n%s: %s\n", t->id,
                                         strcmp(t->id, "programs") == 0 ? "[" FX_ROOT "]" : t->example);
        const int again = strcmp(t->id, "complete") == 0; /* given twice */
        CHECK((parse(&p, text, &err) == 0) == !again && (again || p.rule[id].line == 2), "%s: %s", text, err.msg);
        rp_policy_fini(&p);
        int refused = 0;
        for (size_t i = 0; i < sizeof others / sizeof *others && !again; i++) {
            RP_FREE char *other = rp_asprintf("complete: true\n%s: %s\n", t->id, others[i]);
            if (parse(&p, other, &err) < 0) {
                refused++;
                CHECK(strstr(err.msg, "p.yaml:2:") == err.msg && (strstr(err.msg, t->id) || t->type == 'M'), "%s: %s",
                      other, err.msg);
            }
            rp_policy_fini(&p);
        }
        CHECK(again || refused >= 6, "%s takes nearly anything: %d of %zu refused", t->id, refused,
              sizeof others / sizeof *others);
    }
}

/* The words that somebody tries first lead to the rule. */
TEST(word_of_a_buyer_leads_to_its_rule)
{
    static const char *const cases[][2] = {{"age", "max_age_days"}, {"nodes", "min_nodes"}, {"devices", "min_devices"},
                                           {"throughput", "min_throughput"}, {"driver", "min_driver"},
                                           {"batch", "batch_sizes"}, {"precision", "precisions"}, {"recipe", "recipes"},
                                           {"level", "levels"}, {"device_model", "device_models"},
                                           {"min_troughput", "min_throughput"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_policy p;
        struct rp_err err;
        RP_FREE char *text = rp_asprintf("complete: true\n\n%s: 1\n", cases[i][0]),
                     *named = rp_asprintf("'%s'?", cases[i][1]);
        CHECK(parse(&p, text, &err) < 0 && strstr(err.msg, "p.yaml:3:1: ") == err.msg && strstr(err.msg, named),
              "%s: %s", cases[i][0], err.msg);
        rp_policy_fini(&p);
    }
}

TEST(what_was_bought_is_what_ran)
{
    FX(x);
    fx_capture_both(&x, "nvidia", "version", json_string("570.86.10"));
    x.device = "gpu0 NVIDIA H200 sm_90";
    seal(&x);
    static const struct {
        const char *rule;
        int holds;
    } cases[] = {
        {"min_devices: 1", 1}, {"min_devices: 2", 0}, {"precisions: [bf16, fp32]", 1}, {"precisions: [bf16]", 0},
        {"batch_sizes: [2, 4]", 1}, {"batch_sizes: [2, 40]", 0},
        {"min_throughput: 1e3 sequences/s", -1},
        {"min_throughput: 1000 sequences/s", 0},
        {"min_throughput: 1 images/s", 0},
        {"min_driver: 1", 0} /* on processors */,
        {"device_models: [NVIDIA H200]", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_policy p;
        struct rp_err err;
        if (cases[i].holds < 0)
            CHECK(parse(&p, cases[i].rule, &err) < 0, "%s", cases[i].rule);
        else
            expect_policy("policy", cases[i].rule, (struct rp_verify_opts){0}, cases[i].holds);
    }
    /* a rate says little without the recipe that has it */
    RP_FREE char *both = rp_asprintf("min_throughput: 1 sequences/s\nrecipes: [%s]\n", x.doc->figures.recipe_sha256);
    holds(both, NULL);
    struct rp_policy p;
    struct rp_verification v;
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("policy");
    CHECK(parse(&p, "min_throughput: 1 sequences/s", &err) == 0 &&
              rp_verify(&v, path, &(struct rp_verify_opts){.policy = &p}, &err) == 0,
          "%s", err.msg);
    CHECK(v.check[RP_CHECK_policy].state == RP_CHECK_NOTE, "%s", v.check[RP_CHECK_policy].text);
    SAID(v.check[RP_CHECK_policy].text);
    rp_verification_fini(&v);
    rp_policy_fini(&p);
}

/* One message for all that has to be mended, each with its place. */
TEST(every_error_of_a_policy_is_named_at_once)
{
    static const struct {
        const char *text;
        const char *named[6];
    } cases[] = {
        {"min_step: 3\nchecks: {kee: passed, data: fine}\nlevels: [consistent, computd]\ncomplete: true\nrecipes: "
         "[bert_fp23]\n",
         {"p.yaml:1:1: unknown rule 'min_step': did you mean 'min_steps'?",
          "; 2:10: unknown check 'kee': did you mean 'key'?",
          "; 2:29: checks: data:", "; 3:22: levels: unknown level 'computd': did you mean 'computed'?",
          "; 5:11: recipes: 'bert_fp23' is neither", "did you mean 'bert_fp32'?"}},
        {"precisions: [fp23, bf16]\nmin_steps: 0\nmin_steps: 4\nprograms: [abc, [d], {e: f}]\n",
         {"p.yaml:1:14: precisions: unknown precision 'fp23': did you mean 'fp32'?",
          "; 2:12: min_steps:", "; 3:1: min_steps is given twice", "; 4:12: programs:"}},
        {"no_such: {a: [b, {c: d}], e: f}\nmin_steps: [3]\nin_ledger: false\nmin_nodes: 0\n",
         {"p.yaml:1:1: unknown rule 'no_such'", "; 2:12: min_steps:", "; 3:12: in_ledger:", "; 4:12: min_nodes:"}},
        {"min_step: 3\nlevels: [claimed]\ncomplete: !!bool true\n",
         {"p.yaml:1:1: unknown rule 'min_step'", "; 2:10: levels: nothing can require 'claimed'", "; 3:11: "}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_policy p;
        struct rp_err err;
        CHECK(parse(&p, cases[i].text, &err) < 0 && err.code == RP_USAGE, "%s", err.msg);
        for (int k = 0; k < 6 && cases[i].named[k]; k++)
            CHECK(strstr(err.msg, cases[i].named[k]) != NULL, "'%s' is not in: %s", cases[i].named[k], err.msg);
        CHECK(!strchr(err.msg, '\n') && strlen(err.msg) < sizeof err.msg - 1, "%s", err.msg);
        SAID(err.msg);
        rp_policy_fini(&p);
    }
    RP_BUF many = {0}; /* more than a message has room for: they are counted */
    struct rp_policy p;
    struct rp_err err;
    for (int i = 0; i < 60; i++)
        rp_buf_printf(&many, "no_such_rule_%d: 1\n", i);
    CHECK(parse(&p, many.data, &err) < 0 && strstr(err.msg, "more") && strlen(err.msg) < sizeof err.msg - 1, "%s",
          err.msg);
}

TEST(what_is_no_policy_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        enum rp_code code;
    } cases[] = {
        {"", RP_MALFORMED},
        {"# nothing\n", RP_MALFORMED},
        {"{}\n", RP_USAGE},
        {"- min_steps\n", RP_MALFORMED},
        {"complete: true\nmin_step: 3\n", RP_USAGE},
        {"min_steps: 3\nmin_steps: 4\n", RP_USAGE},
        {"min_steps: many\n", RP_USAGE},
        {"min_steps: \"3\"\n", RP_USAGE},
        {"min_steps: 0\n", RP_USAGE},
        {"min_steps: 3x\n", RP_USAGE},
        {"min_steps: 010\n", RP_USAGE},
        {"max_undetected: 001\n", RP_USAGE},
        {"min_throughput: 057 images/s\n", RP_USAGE},
        {"min_steps: 99999999999999999999\n", RP_USAGE},
        {"min_steps: [3]\n", RP_USAGE},
        {"complete: yes\n", RP_USAGE},
        {"in_ledger: false\n", RP_USAGE},
        {"programs: [abc]\n", RP_USAGE},
        {"complete: true\nreplay: passed\n", RP_USAGE},
        {"checks:\n  report_file: note\n", RP_USAGE}, /* checks of earlier programs */
        {"checks:\n  report: passed\n", RP_USAGE},
        {"checks:\n  clock_resolution: passed\n", RP_USAGE},
        {"checks:\n  step_variation: passed\n", RP_USAGE},
        {"signed_by: alice\n", RP_USAGE},
        {"signed_by: []\n", RP_USAGE},
        {"signed_by: [{a: b}]\n", RP_USAGE},
        {"checks: {}\n", RP_USAGE},
        {"checks: [key]\n", RP_USAGE},
        {"checks:\n  kee: passed\n", RP_USAGE},
        {"checks: {policy: passed}\n", RP_USAGE},
        {"checks: {claims: note}\n", RP_USAGE},
        {"checks: {\"\": note}\n", RP_USAGE},
        {"checks: {key: failed}\n", RP_USAGE},
        {"checks: {key: passed, key: note}\n", RP_USAGE},
        {"checks: {[key]: passed}\n", RP_USAGE},
        {"complete: &a true\n", RP_MALFORMED},
        {"complete: !!bool true\n", RP_MALFORMED},
        {"complete: true\n---\ncomplete: true\n", RP_MALFORMED},
        {"complete:\ttrue\n", RP_MALFORMED},
        {"complete: true\n\033[31m", RP_MALFORMED},
        {"complete: \xff\n", RP_MALFORMED},
        {"complete: true # \342\200\256 6\n", RP_MALFORMED},
        {"# \342\201\246\ncomplete: true\n", RP_MALFORMED},
        {"signed_by: [\"a\", \"\nno_warnings: true\nmin_steps: 100000\n\"]\n", RP_USAGE},
        {"signed_by: [alice, bob\n  carol]\n", RP_USAGE},
        {"checks:\n  key: >-\n    passed\n", RP_USAGE},
        {"complete: true\n\"min\n steps\": 6\n", RP_MALFORMED},
        {"complete: {", RP_USAGE},
        {"checks: {key: ", RP_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_policy p;
        struct rp_err err;
        CHECK(parse(&p, cases[i].text, &err) < 0 && err.code == cases[i].code, "%s: %s", cases[i].text, err.msg);
        SAID(err.msg);
        rp_policy_fini(&p);
    }
}

TEST(a_comment_and_a_list_have_every_form_of_yaml)
{
    static const char text[] = "---\r\n#a policy\n#\ncomplete : true # the run ended\n# min_steps: 5\nsigned_by: "
                               "[alice, # the author\n  \"a # b\"]\n"
                               "recipes:\n  - bert_fp32\nchecks:\n    \"key\": note\n# data: passed\n";
    struct rp_policy p;
    struct rp_err err;
    CHECK(parse(&p, text, &err) == 0, "%s", err.msg);
    CHECK(p.rule[RP_RULE_complete].number == 1 && p.rule[RP_RULE_signed_by].n == 2 && p.rule[RP_RULE_recipes].n == 1);
    CHECK(p.worst[RP_CHECK_key] == RP_CHECK_NOTE && !p.worst[RP_CHECK_data] && !p.rule[RP_RULE_min_steps].line);
    rp_policy_fini(&p);
}
