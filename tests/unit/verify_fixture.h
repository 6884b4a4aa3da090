/* Verify a bundle of the fixture and say which check has to fail first. */
#ifndef REPRO_TESTS_VERIFY_FIXTURE_H
#define REPRO_TESTS_VERIFY_FIXTURE_H

#include "base/build.h"
#include "tests/unit/bundle_fixture.h"

/* The build record of these tests, in place of the one of librepro.a: what they check does not depend on the state of the checkout. */
static struct rp_build fx_build = {.version = "1.2.3", .commit = "89abcdef0123456789abcdef0123456789abcdef", .dirty = "clean",
                                   .compiler = "a compiler", .flags = "-O2", .deps = "", .gpu_worker = "", .device_code = ""};

const struct rp_build *rp_build_record(void)
{
    return &fx_build;
}

/* Verify fx_path(file); `failed` is the check that must fail first, or RP_CHECK_COUNT for none. */
static __attribute__((unused)) void expect(const char *file, const char *trust, enum rp_verdict verdict, enum rp_check_id failed,
                                           enum rp_code code, const char *says)
{
    struct rp_verification v;
    struct rp_verify_opts o = {.trust = trust};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path(file);
    int rc = rp_verify(&v, path, &o, &err);
    CHECK((rc < 0) == (verdict == RP_VERDICT_FAILED) && v.verdict == verdict, "%s: verdict %s, rc %d: %s", says, rp_verdict_text(v.verdict), rc, err.msg);
    CHECK(err.code == code, "%s: %s: %s", says, rp_code_name(err.code), err.msg);
    for (int i = 0; i < (int)failed && i < RP_CHECK_COUNT; i++)
        CHECK(v.check[i].state != RP_CHECK_FAILED, "%s: %s failed too early: %s", says, v.check[i].name, v.check[i].text);
    if (failed < RP_CHECK_COUNT) {
        CHECK(v.check[failed].state == RP_CHECK_FAILED, "%s: %s did not fail but %s", says, v.check[failed].name, err.msg);
        CHECK(strstr(err.msg, says), "expected '%s' in: %s", says, err.msg);
    }
    rp_verification_fini(&v);
}

static __attribute__((unused)) void accept(const char *file, const char *trust, enum rp_verdict verdict)
{
    expect(file, trust, verdict, RP_CHECK_COUNT, RP_OK, file);
}

/* The value at PATH/TO/KEY of a document, which takes the reference. */
static __attribute__((unused)) void set_path(json_t *j, const char *path, json_t *value)
{
    char key[64];
    size_t n;
    for (; path[n = strcspn(path, "/")]; path += n + 1) {
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        j = json_object_get(j, key);
    }
    CHECK(json_object_set_new(j, path, value) == 0, "no %s", path);
}

/* The state of one check of fx_path(file), which verifies, and what it says. */
static __attribute__((unused)) enum rp_check_state state_of(const char *file, enum rp_check_id id, char text[512])
{
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    struct rp_err err;
    RP_FREE char *path = fx_path(file);
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    memcpy(text, v.check[id].text, 512);
    enum rp_check_state state = v.check[id].state;
    rp_verification_fini(&v);
    return state;
}

/* The page with the first `was` after `behind` replaced. */
static __attribute__((unused)) void bend(struct rp_buf *out, const struct rp_buf *page, const char *behind, const char *was, const char *is)
{
    const char *at = strstr(page->data, behind);
    at = at ? strstr(at, was) : NULL;
    CHECK(at, "no '%s' behind '%s'", was, behind);
    if (!at)
        return;
    rp_buf_add(out, page->data, (size_t)(at - page->data));
    rp_buf_puts(out, is);
    rp_buf_puts(out, at + strlen(was));
}

#endif
