/* Verify a bundle of the fixture and say which check has to fail first. */
#pragma once

#include "base/build.h"
#include "tests/unit/bundle_fixture.h"
#include "verify/policy/policy.h"

/* The build record of these tests, in place of the one of librepro.a: what they check does not depend on the state of
 * the checkout. */
static struct rp_build fx_build = {.version = "1.2.3", .commit = "89abcdef0123456789abcdef0123456789abcdef",
                                   .dirty = "clean", .compiler = "a compiler", .flags = "-O2", .deps = "",
                                   .gpu_worker = "", .device_code = ""};

const struct rp_build *rp_build_record(void)
{
    return &fx_build;
}

/* Verify fx_path(file); `failed` is the check that must fail first, or RP_CHECK_COUNT for none. */
static __attribute__((unused)) void expect(const char *file, const char *trust, enum rp_verdict verdict,
                                           enum rp_check_id failed, enum rp_code code)
{
    struct rp_verification v;
    struct rp_verify_opts o = {.trust = trust};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path(file);
    int rc = rp_verify(&v, path, &o, &err);
    const int other_version = verdict == RP_VERDICT_OTHER_VERSION;
    CHECK((rc < 0) == (verdict == RP_VERDICT_FAILED || other_version) && v.verdict == verdict,
          "%s: verdict %s, rc %d: %s", file, rp_verdict_text(v.verdict), rc, err.msg);
    CHECK(err.code == code, "%s: %s: %s", file, rp_code_name(err.code), err.msg);
    for (int i = 0; i < (int)failed && i < RP_CHECK_COUNT; i++)
        CHECK(v.check[i].state != RP_CHECK_FAILED, "%s: %s failed too early: %s", file, v.check[i].name,
              v.check[i].text);
    if (failed < RP_CHECK_COUNT) {
        CHECK(v.check[failed].state == (other_version ? RP_CHECK_SKIPPED : RP_CHECK_FAILED),
              "%s: %s did not fail but %s", file, v.check[failed].name, err.msg);
        SAID(err.msg);
    }
    rp_verification_fini(&v);
}

static __attribute__((unused)) void accept(const char *file, const char *trust, enum rp_verdict verdict)
{
    expect(file, trust, verdict, RP_CHECK_COUNT, RP_OK);
}

/* The state of one check of fx_path(file), which verifies. */
static __attribute__((unused)) void expect_state_of(const char *file, enum rp_check_id id, enum rp_check_state state)
{
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    struct rp_err err;
    RP_FREE char *path = fx_path(file);
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s: %s", file, err.msg);
    CHECK(v.check[id].state == state, "%s is '%s': %s", v.check[id].name, rp_check_state_name(v.check[id].state),
          v.check[id].text);
    SAID(v.check[id].text);
    rp_verification_fini(&v);
}

/* What x has now, sealed: it verifies, or that check fails first, with that code. */
static __attribute__((unused)) void accepted(const struct fx *x)
{
    const int complete = strcmp(rp_json_text_at(x->facts, "status"), "complete") == 0;
    fx_seal(x, "signer", "sealed");
    accept("sealed", NULL, complete ? RP_VERDICT_UNKNOWN_KEY : RP_VERDICT_INCOMPLETE);
}

static __attribute__((unused)) void refused(const struct fx *x, enum rp_check_id failed, enum rp_code code)
{
    fx_seal(x, "signer", "sealed");
    expect("sealed", NULL, RP_VERDICT_FAILED, failed, code);
}

/* The state of one check; where it fails, nothing fails before. */
static __attribute__((unused)) void expect_state(const struct fx *x, enum rp_check_id id, enum rp_check_state state)
{
    if (state == RP_CHECK_FAILED) {
        refused(x, id, RP_MISMATCH);
        return;
    }
    fx_seal(x, "signer", "sealed");
    expect_state_of("sealed", id, state);
}

/* The verdict on fx_path(file) under these rules of a policy: a failed check outweighs a broken rule. */
static __attribute__((unused)) enum rp_verdict expect_policy(const char *file, const char *rules,
                                                             struct rp_verify_opts o, int holds)
{
    struct rp_policy p;
    struct rp_verification v;
    struct rp_err err = {0};
    RP_FREE char *path = fx_path(file);
    CHECK(rp_policy_parse(&p, rules, strlen(rules), "p.yaml", &err) == 0, "%s", err.msg);
    o.policy = &p;
    int failed = rp_verify(&v, path, &o, &err) < 0;
    int earlier = 0;
    for (int i = 0; i < RP_CHECK_policy; i++)
        earlier |= v.check[i].state == RP_CHECK_FAILED;
    CHECK(failed == !holds && (!failed || v.verdict == (earlier ? RP_VERDICT_FAILED : RP_VERDICT_POLICY)), "%s: %s",
          rules, err.msg);
    CHECK(!failed || (err.code == RP_POLICY) == !earlier, "%s: %s", rules, err.msg);
    CHECK(v.check[RP_CHECK_policy].state == (holds ? RP_CHECK_PASSED : RP_CHECK_FAILED) && v.policy,
          "%s: %s", rules, v.check[RP_CHECK_policy].text);
    SAID(v.check[RP_CHECK_policy].text);
    const enum rp_verdict verdict = v.verdict;
    rp_verification_fini(&v);
    rp_policy_fini(&p);
    return verdict;
}

/* A bundle sealed by "author", open for members that are added after sealing. */
static __attribute__((unused)) void begin_amended(struct rp_bundle *b)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("sealed");
    FX(x);
    fx_seal(&x, "author", "sealed");
    CHECK(rp_bundle_open(b, path, &err) == 0, "%s", err.msg);
}

/* That bundle as fx_path(file). */
static __attribute__((unused)) void finish_amended(struct rp_bundle *b, const char *file)
{
    struct rp_err err;
    RP_BUF bytes = {0};
    RP_FREE char *path = fx_path(file);
    CHECK(rp_bundle_pack(b, &bytes, &err) == 0 && rp_write_file(path, bytes.data, bytes.size, 0644, &err) == 0, "%s",
          err.msg);
    rp_bundle_fini(b);
}
