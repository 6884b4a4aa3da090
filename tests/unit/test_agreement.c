/* A run that says it repeats another: what it says follows from both bundles, or the check fails. */
#include "tests/unit/agreement_fixture.h"

#include "verify/policy.h"

static enum rp_check_state agreement_state(const char *original, char text[512], struct rp_err *err)
{
    struct rp_verification v;
    RP_FREE char *second = fx_path("second.zst");
    struct rp_verify_opts o = {.original = original};
    *err = (struct rp_err){0};
    int failed = rp_verify(&v, second, &o, err) < 0;
    enum rp_check_state state = v.check[RP_CHECK_agreement].state;
    memcpy(text, v.check[RP_CHECK_agreement].text, 512);
    CHECK(failed == (v.verdict == RP_VERDICT_FAILED), "%s", err->msg);
    rp_verification_fini(&v);
    return state;
}

static void expect_refused(struct fx *x, const char *says)
{
    char text[512];
    struct rp_err err;
    seal_second(x);
    enum rp_check_state state = agreement_state(first_path(), text, &err);
    CHECK(state == RP_CHECK_FAILED && err.code == RP_MISMATCH && strstr(text, says), "expected '%s' in: %d %s (%s)", says, (int)state, text, err.msg);
}

TEST(an_honest_replication)
{
    struct fx x;
    char text[512];
    struct rp_err err;
    second_run(&x);
    fx_capture_value(x.before, "cpu", "stepping", json_string("3")); /* of low impact */
    say_agreement(&x);
    seal_second(&x);
    enum rp_check_state state = agreement_state(NULL, text, &err);
    CHECK(state == RP_CHECK_NOTE && strstr(text, "replicates first.zst"), "%s %s", text, err.msg);
    state = agreement_state(first_path(), text, &err);
    CHECK(state == RP_CHECK_PASSED && strstr(text, "bits equal over 7 steps and 2 state roots"), "%s %s", text, err.msg);
    CHECK(strstr(text, "2 environment values differ, 1 of high or medium impact"), "%s", text);
    CHECK(strstr(x.report.data, "\n1 of 2 values that differ between the two machines"), "%s", x.report.data); /* as the report counts them */
    CHECK(strstr(x.report.data, "| bits | equal; 7 steps and 2 state roots compared |"), "%s", x.report.data);
    CHECK(strstr(x.report.data, "| cpu.model\\_name | "), "the processor is listed");
    const json_t *rate = json_object_get(json_object_get(x.run, "agreement"), "throughput"), *ends = json_object_get(rate, "interval");
    double ratio = json_number_value(json_object_get(rate, "ratio")), low = json_number_value(json_array_get(ends, 0));
    double high = json_number_value(json_array_get(ends, 1));
    CHECK(ratio > 0.8 && ratio < 0.95 && low <= ratio && ratio <= high && low > 0.8 && high < 1, "%g in %g to %g", ratio, low, high);
    CHECK(strstr(x.report.data, first_v.statement), "the statement is named");
    fx_fini(&x);
}

TEST(other_bits_are_found_and_named)
{
    struct fx x;
    char text[512];
    struct rp_err err;
    second_run(&x);
    char *loss = strstr(x.steps.data, FX_LOSS("0x1.6p+2")); /* of step 3 */
    CHECK(loss, "no such loss");
    memcpy(loss, FX_LOSS("0x1.6p+1"), sizeof FX_LOSS("0x1.6p+1") - 1);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    say_agreement(&x);
    const json_t *bits = json_object_get(json_object_get(x.run, "agreement"), "bits"), *d = json_object_get(bits, "first_difference");
    CHECK(json_is_false(json_object_get(bits, "equal")) && json_integer_value(json_object_get(d, "step")) == 3, "step");
    CHECK_STR(json_string_value(json_object_get(d, "quantity")), "mlm");
    CHECK_STR(json_string_value(json_object_get(d, "first")), "0x1.6p+2");
    CHECK_STR(json_string_value(json_object_get(d, "here")), "0x1.6p+1");
    seal_second(&x);
    enum rp_check_state state = agreement_state(first_path(), text, &err);
    CHECK(state == RP_CHECK_NOTE && strstr(text, "NOT EQUAL"), "%s %s", text, err.msg);
    CHECK(strstr(x.report.data, "NOT EQUAL") && strstr(x.report.data, "step 3, mlm: first 0x1.6p+2, here 0x1.6p+1"), "the report says it");
    set_path(x.run, "agreement/bits/equal", json_true()); /* and a lie about it */
    set_path(x.run, "agreement/bits/first_difference", json_null());
    expect_refused(&x, "agreement/bits");
    fx_fini(&x);
}

/* A policy over second.zst with first.zst beside it: whether bits_equal holds, and what it says. */
static int bits_rule(char says[256])
{
    struct rp_verification v;
    struct rp_policy p;
    struct rp_err err;
    RP_FREE char *second = fx_path("second.zst");
    static const char text[] = "bits_equal: true\n";
    CHECK(rp_policy_parse(&p, text, sizeof text - 1, "p.yaml", &err) == 0, "%s", err.msg);
    struct rp_verify_opts o = {.original = first_path(), .policy = &p};
    int failed = rp_verify(&v, second, &o, &err) < 0;
    CHECK(!failed || v.check[RP_CHECK_policy].state == RP_CHECK_FAILED, "%s", err.msg);
    const char *said = json_string_value(json_object_get(json_array_get(v.policy, 0), "text"));
    snprintf(says, 256, "%s", said ? said : "");
    rp_verification_fini(&v);
    rp_policy_fini(&p);
    return !failed;
}

TEST(equal_bits_are_those_of_every_step)
{
    struct fx x;
    char text[512], says[256];
    struct rp_err err;
    second_run(&x);
    say_agreement(&x);
    seal_second(&x);
    int holds = bits_rule(says);
    CHECK(holds && strstr(says, "equal over 7 steps"), "%s", says);
    fx_fini(&x);
    for (int steps = 0; steps <= 3; steps += 3) { /* broken off */
        second_run(&x);
        char *cut = x.steps.data;
        for (int line = 0; line <= steps; line++)
            cut = strchr(cut, '\n') + 1;
        *cut = 0;
        x.steps.size = (size_t)(cut - x.steps.data);
        CHECK(fx_documents(&x, "incomplete", "interrupted", &err) == 0, "%s", err.msg);
        say_agreement(&x);
        CHECK(json_is_true(json_object_get(json_object_get(json_object_get(x.run, "agreement"), "bits"), "equal")), "%d steps", steps);
        seal_second(&x);
        enum rp_check_state state = agreement_state(first_path(), text, &err);
        RP_FREE char *expected = rp_asprintf("bits equal over %d of the original's 7 steps", steps);
        CHECK(state == RP_CHECK_NOTE && strstr(text, expected), "%s %s", text, err.msg);
        RP_FREE char *rule = rp_asprintf("equal over %d steps; the run has %d, the original 7", steps, steps);
        holds = bits_rule(says);
        CHECK(!holds && strstr(says, rule), "%s", says);
        fx_fini(&x);
    }
}

TEST(lies_about_the_other_run)
{
    static const struct {
        const char *path, *value, *says;
    } lies[] = {
        {"agreement/throughput/ratio", "1.25", "agreement/throughput/ratio"},
        {"agreement/throughput/first", "30.0", "agreement/throughput/first"},
        {"agreement/throughput/here", "30.0", "is not the throughput of this run"},
        {"agreement/throughput/interval", "[0.99, 1.01]", "agreement/throughput/interval"},
        {"agreement/bits/steps", "700", "agreement/bits/steps"},
        {"agreement/environment", "[]", "agreement/environment"},
        {"agreement/settings", "[{\"key\": \"run.isa\", \"first\": \"auto\", \"here\": \"avx2\"}]", "agreement/settings"},
        {"replicates/statement", "\"" FX_ROOT "\"", "not the replicated run"},
        {"replicates/signer", "\"SHA256:" FX_ROOT "\"", "not the replicated run"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct fx x;
        second_run(&x);
        say_agreement(&x);
        set_path(x.run, lies[i].path, json_loads(lies[i].value, JSON_DECODE_ANY, NULL));
        expect_refused(&x, lies[i].says);
        fx_fini(&x);
    }
}

TEST(half_a_replication_is_none)
{
    struct fx x;
    second_run(&x);
    expect_refused(&x, "--original was given");
    say_agreement(&x);
    json_object_del(x.run, "agreement");
    expect_refused(&x, "only one of");
    say_agreement(&x);
    json_object_del(x.run, "replicates");
    expect_refused(&x, "only one of");
    fx_fini(&x);
}

TEST(other_settings_or_data_are_no_replication)
{
    struct fx x;
    struct rp_err err;
    second_run(&x);
    say_agreement(&x);
    set_path(x.run, "data/digest", json_string("another"));
    expect_refused(&x, "its data differ");
    fx_fini(&x);
    second_run(&x);
    x.recipe.seed_data++;
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    say_agreement(&x);
    expect_refused(&x, "seed.data differs");
    fx_fini(&x);
}
