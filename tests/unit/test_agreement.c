/* A run that says it repeats another: what it says follows from both bundles, or the check fails. */
#include "tests/unit/agreement_fixture.h"

/* The state of the check where the original is first.zst, or not given. */
static void expect_agreement(const char *original, enum rp_check_state state)
{
    struct rp_verification v;
    struct rp_err err = {0};
    RP_FREE char *second = fx_path("second.zst");
    struct rp_verify_opts o = {.original = original};
    int failed = rp_verify(&v, second, &o, &err) < 0;
    CHECK(v.check[RP_CHECK_agreement].state == state && failed == (state == RP_CHECK_FAILED) &&
              failed == (v.verdict == RP_VERDICT_FAILED) && (!failed || err.code == RP_MISMATCH),
          "%s %s", v.check[RP_CHECK_agreement].text, err.msg);
    SAID(v.check[RP_CHECK_agreement].text);
    rp_verification_fini(&v);
}

static void expect_refused(const struct fx *x)
{
    seal_second(x);
    expect_agreement(first_path(), RP_CHECK_FAILED);
}

TEST(an_honest_replication)
{
    FX_SECOND(x);
    fx_capture_both(&x, "cpu", "stepping", json_string("3")); /* of low impact */
    say_agreement(&x);
    seal_second(&x);
    expect_agreement(NULL, RP_CHECK_NOTE);
    expect_agreement(first_path(), RP_CHECK_NOTE); /* nothing was replayed: bits can be copied */
    fx_said(&x, "## Replication");
    const json_t *rate = json_object_get(json_object_get(x.run, "agreement"), "throughput"),
                 *ends = json_object_get(rate, "interval");
    double ratio = json_number_value(json_object_get(rate, "ratio")), low = json_number_value(json_array_get(ends, 0));
    double high = json_number_value(json_array_get(ends, 1));
    CHECK(ratio > 0.8 && ratio < 0.95 && low <= ratio && ratio <= high && low > 0.8 && high < 1, "%g in %g to %g",
          ratio, low, high);
    RP_BUF report = {0};
    fx_report(&report, &x);
    CHECK(strstr(report.data, first_v.statement), "the statement is named");
}

TEST(other_bits_are_found_and_named)
{
    FX_SECOND(x);
    char *loss = strstr(x.steps.data, FX_LOSS("0x1.6p+2")); /* of step 3 */
    CHECK(loss, "no such loss");
    memcpy(loss, FX_LOSS("0x1.6p+1"), sizeof FX_LOSS("0x1.6p+1") - 1);
    fx_compute(&x);
    say_agreement(&x);
    const json_t *bits = json_object_get(json_object_get(x.run, "agreement"), "bits"),
                 *d = json_object_get(bits, "first_difference");
    CHECK(json_is_false(json_object_get(bits, "equal")) && json_integer_value(json_object_get(d, "step")) == 3, "step");
    CHECK_STR(json_string_value(json_object_get(d, "quantity")), "mlm");
    CHECK_STR(json_string_value(json_object_get(d, "original")), "0x1.6p+2");
    CHECK_STR(json_string_value(json_object_get(d, "replication")), "0x1.6p+1");
    seal_second(&x);
    expect_agreement(first_path(), RP_CHECK_NOTE);
    fx_said(&x, "## Replication");
    set_path(x.run, "agreement/bits/equal", json_true()); /* and a lie about it */
    json_object_del((json_t *)rp_json_at(x.run, "agreement/bits"), "first_difference");
    expect_refused(&x);
}

TEST(equal_bits_are_those_of_every_step)
{
    struct rp_err err;
    FX_SECOND(x);
    say_agreement(&x);
    seal_second(&x);
    /* nothing was replayed: tests/cli/ledger/replicate.sh */
    expect_policy("second.zst", "bits_equal: true", (struct rp_verify_opts){.original = first_path()}, 0);
    for (int steps = 0; steps <= 3; steps += 3) { /* broken off */
        fx_fini(&x);
        second_run(&x);
        char *cut = x.steps.data;
        for (int line = 0; line <= steps; line++)
            cut = strchr(cut, '\n') + 1;
        *cut = 0;
        x.steps.size = (size_t)(cut - x.steps.data);
        CHECK(fx_documents(&x, "incomplete", "interrupted", &err) == 0, "%s", err.msg);
        say_agreement(&x);
        CHECK(json_is_true(json_object_get(json_object_get(json_object_get(x.run, "agreement"), "bits"), "equal")),
              "%d steps", steps);
        seal_second(&x);
        expect_agreement(first_path(), RP_CHECK_NOTE);
        expect_policy("second.zst", "bits_equal: true", (struct rp_verify_opts){.original = first_path()}, 0);
    }
}

TEST(roots_copied_from_the_original_are_found)
{
    FX_SECOND(x);
    fx_bend(&x.steps, "\"keyed_root\":\"" FX_ROOT "\",", "");
    struct rp_err err;
    struct rp_records records;
    CHECK(rp_records_parse(&records, x.steps.data, x.steps.size, &err) < 0 && err.code == RP_MALFORMED,
          "some have one: %s", err.msg);
    fx_bend(&x.steps, "\"keyed_root\":\"" FX_ROOT "\",", "");
    fx_compute(&x);
    say_agreement(&x);
    expect_refused(&x);
}

TEST(lies_about_the_other_run)
{
    static const struct {
        const char *path, *value;
    } lies[] = {
        {"agreement/throughput/ratio", "1.25"},
        {"agreement/throughput/original", "30.0"},
        {"agreement/throughput/replication", "30.0"},
        {"agreement/throughput/interval", "[0.99, 1.01]"},
        {"agreement/bits/steps", "700"},
        {"agreement/environment", "[]"},
        {"agreement/settings", "[{\"key\": \"run.isa\", \"original\": \"auto\", \"replication\": \"avx2\"}]"},
        {"replicates/statement", "\"" FX_ROOT "\""},
        {"replicates/signer", "\"SHA256:" FX_ROOT "\""},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        FX_SECOND(x);
        say_agreement(&x);
        set_path(strncmp(lies[i].path, "agreement", 9) == 0 ? x.run : x.facts, lies[i].path,
                 json_loads(lies[i].value, JSON_DECODE_ANY, NULL));
        expect_refused(&x);
    }
}

TEST(half_a_replication_is_none)
{
    FX_SECOND(x);
    expect_refused(&x);
    say_agreement(&x);
    json_object_del(x.run, "agreement");
    expect_refused(&x);
    say_agreement(&x);
    json_object_del(x.facts, "replicates");
    expect_refused(&x);
}

TEST(other_settings_or_data_are_no_replication)
{
    FX_SECOND(x);
    say_agreement(&x);
    set_path(x.facts, "data/digest", json_string("another"));
    expect_refused(&x);
    fx_fini(&x);
    second_run(&x);
    x.recipe.seed_data++;
    fx_compute(&x);
    say_agreement(&x);
    expect_refused(&x);
}
