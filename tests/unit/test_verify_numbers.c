/* What verify says about figures, times and claims that the right key signed and that do not fit together. */
#include "tests/unit/verify_fixture.h"

/* Steps of `length` ns and `more` for each, begun `apart` ns after one another. */
static void steps_of(struct fx *x, int64_t apart, int64_t length, int64_t more)
{
    rp_buf_fini(&x->steps);
    rp_buf_puts(&x->steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x->steps, i, 1, 3, 1000000000 + i * apart, length + i * more, i == 6);
}

TEST(time_adds_up_or_the_run_is_refused)
{
    FX(x); /* a capture "before" that was made after */
    set_path(x.before, "captured_at", json_string("2026-09-21T14:20:00Z"));
    refused(&x, RP_CHECK_time, RP_MISMATCH);
    fx_again(&x); /* steps that span more than the run */
    steps_of(&x, 2001000000, 2000000000, 1);
    fx_compute(&x);
    refused(&x, RP_CHECK_time, RP_MISMATCH);
}

/* By adjtimex() a clock runs up to a tenth slower, and every step is that much faster. */
TEST(a_clock_that_was_slowed_down_is_a_warning)
{
    FX(x);
    fx_capture_both(&x, "clock", "rate_correction", json_real(-499.9));
    fx_compute(&x);
    expect_state(&x, RP_CHECK_time, RP_CHECK_PASSED);
    fx_capture_both(&x, "clock", "rate_correction", json_real(-100012.5));
    fx_compute(&x);
    expect_state(&x, RP_CHECK_time, RP_CHECK_WARNING);
}

/* A rate that is set back before the last capture is seen by CLOCK_MONOTONIC_RAW, which it does not change. */
TEST(a_clock_that_was_slow_between_the_captures_is_a_warning)
{
    static const struct {
        double trained, raw;
        int64_t captured_ns, raw_ns;
        enum rp_check_state state;
    } cases[] = {{0.7, 0.7000001, 2000000000, 2000000900, RP_CHECK_PASSED},
                 {0.7, 0.77, 2000000000, 2000000900, RP_CHECK_WARNING},
                 {0.7, 0.7, 2000000000, 2100000000, RP_CHECK_WARNING},
                 {0.6, 0.6, 2000000000, 2000000900, RP_CHECK_FAILED}}; /* less than its phases */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        x.done = json_pack("{s:{s:f, s:f}}", "trained_s", "monotonic", cases[i].trained, "raw", cases[i].raw);
        fx_capture_both(&x, "clock", "monotonic", json_integer(5000000000));
        fx_capture_both(&x, "clock", "monotonic_raw", json_integer(7000000000));
        fx_capture_value(x.after, "clock", "monotonic", json_integer(5000000000 + cases[i].captured_ns));
        fx_capture_value(x.after, "clock", "monotonic_raw", json_integer(7000000000 + cases[i].raw_ns));
        fx_compute(&x);
        expect_state(&x, RP_CHECK_time, cases[i].state);
    }
}

/* Windows of 3 steps in which nothing waits; before each of them the program waits for 1.1 s. */
TEST(time_that_the_windows_leave_out_is_a_warning)
{
    FX(x);
    steps_of(&x, 100000000, 99000000, 1);
    fx_compute(&x);
    expect_state(&x, RP_CHECK_numbers, RP_CHECK_PASSED);
    const double rate = x.doc->figures.results.throughput.value;
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x.steps, i, 1, 3, 1000000000 + i * 100000000 + (i + 2) / 3 * 1100000000ll, 99000000 + i, i == 6);
    fx_compute(&x);
    CHECK(x.doc->figures.results.throughput.value / rate > 0.99, "the throughput counts it");
    expect_state(&x, RP_CHECK_numbers, RP_CHECK_WARNING);
}

/* Two windows, of 21 and 63 s: their median rate is a third above that of both together. */
TEST(a_median_far_above_the_rate_of_all_windows_is_a_warning)
{
    FX(x);
    int64_t now = 1000000000;
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++) {
        const int64_t ns = (i > 3 ? 21000000000ll : 7000000000ll) + i;
        fx_step(&x.steps, i, 1, 3, now, ns, i == 6);
        now += ns + 1000000;
    }
    json_decref(x.done);
    x.done = json_pack("{s:{s:f, s:f}}", "phases_s", "warm_up", 7.1, "timed", 84.1);
    fx_compute(&x);
    set_path(x.facts, "elapsed_s", json_real(100));
    set_path(x.facts, "ended_at", json_string("2026-09-21T14:15:00Z"));
    set_path(x.after, "captured_at", json_string("2026-09-21T14:15:00Z"));
    fx_derive(&x);
    expect_state(&x, RP_CHECK_numbers, RP_CHECK_WARNING);
}

/* How many steps a file had behind it is not in the bundle, so the schedule says nothing then, and verify says that. */
TEST(learning_rates_of_a_run_from_a_file_are_the_signers_word)
{
    FX(x);
    FX_SET(&x, "run.init=theirs.safetensors");
    rp_buf_fini(&x.steps);
    fx_peak = 5e-5;
    fx_records(&x.steps, 1, 3, 2);
    fx_peak = 1e-4;
    fx_compute(&x);
    expect_state(&x, RP_CHECK_claims, RP_CHECK_NOTE);
    expect_state(&x, RP_CHECK_numbers, RP_CHECK_PASSED);
}

/* What no check recomputes is listed in every verdict. */
TEST(claims_are_called_claims)
{
    FX(x);
    expect_state(&x, RP_CHECK_claims, RP_CHECK_NOTE);
}

TEST(faster_than_any_processor_is_refused)
{
    FX(x);
    steps_of(&x, 500, 100, 1);
    /* that a lie agrees with itself does not help it */
    x.done = json_pack("{s:o}", "ceilings", fx_ceilings(10000, 10000));
    json_t *cpu = json_object_get(json_object_get(x.before, "probes"), "cpu");
    fx_capture_value(x.before, "cpu", "threads", json_integer(64)); /* of which the run says that it used one */
    fx_compute(&x);
    const double rate = x.doc->figures.results.flops_per_s;
    CHECK(rate > 1e12 && rate < 4096e12, "%g does not lie between the bound of one thread and that of all", rate);
    refused(&x, RP_CHECK_peak, RP_MISMATCH);
    set_path(x.facts, "rank/0/device", fx_device("isa=avx512 threads=256"));
    fx_capture_value(x.before, "cpu", "threads", json_integer(1));
    fx_derive(&x);
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
    set_path(x.facts, "recipe/run.threads/value", json_integer(256)); /* as many as its user asked for */
    set_path(x.facts, "recipe/run.threads/origin", json_string("command line"));
    refused(&x, RP_CHECK_peak, RP_MISMATCH);
    json_object_set(cpu, "threads", json_object_get(cpu, "vendor")); /* absent: nobody knows how many there were */
    fx_compute(&x);
    set_path(x.facts, "rank/0/device", fx_device("isa=avx512 threads=256"));
    fx_other_build(&x); /* memory of so many threads was not planned */
    fx_derive(&x);
    accepted(&x);
}

/* An instruction set of another version: neither a failure nor a guess, and not enough for a policy. */
TEST(unknown_instruction_set_is_a_note)
{
    FX(x);
    steps_of(&x, 500, 100, 1); /* faster than any processor */
    x.done = json_pack("{s:o}", "ceilings", fx_ceilings(10000, 10000));
    fx_compute(&x);
    refused(&x, RP_CHECK_peak, RP_MISMATCH);
    set_path(x.facts, "rank/0/device", fx_device("isa=sve threads=1"));
    fx_derive(&x);
    expect_state(&x, RP_CHECK_environment, RP_CHECK_NOTE);
    expect_state_of("sealed", RP_CHECK_peak, RP_CHECK_NOTE);
    static const char *const rules[] = {"checks: {environment: passed}", "checks: {peak: passed}"};
    for (int i = 0; i < 2; i++)
        expect_policy("sealed", rules[i], (struct rp_verify_opts){0}, 0);
    set_path(x.facts, "rank/0/device", fx_device("isa=sve threads=4097"));
    fx_derive(&x);
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
}

/* Everything that the check of the machine compares, bent, with reports that follow from it and signed by the right
 * key. */
TEST(machines_that_contradict_the_run_are_refused)
{
    static const struct {
        const char *path, *group,
            *name; /* a path of facts.json, or a value of the capture before (and `after` of the one after) */
        const char *text, *after;
        double number; /* where there is no text */
        enum rp_check_id check;
    } bends[] = {
        {"rank/0/device/isa", NULL, NULL, "avx512", NULL, 0, RP_CHECK_environment},
        {"tool/commit", NULL, NULL, "0123456789", NULL, 0, RP_CHECK_environment},
        {"rank/0/peak_rss_bytes", NULL, NULL, NULL, NULL, 1000, RP_CHECK_environment},
        {"rank/0/peak_rss_bytes", NULL, NULL, NULL, NULL, 2e16, RP_CHECK_environment},
        {"plan/total_bytes", NULL, NULL, NULL, NULL, 5, RP_CHECK_environment},
        {"plan/bytes/parameters", NULL, NULL, NULL, NULL, 0, RP_CHECK_environment},
        {"plan/available_bytes", NULL, NULL, NULL, NULL, 2e16, RP_CHECK_memory},
        {NULL, "cpu", "model_name", "slow", "fast", 0, RP_CHECK_same_host},
        {NULL, "program", "sha256", "this", "that", 0, RP_CHECK_same_host},
        {NULL, "kernel", "uptime", NULL, NULL, 9000, RP_CHECK_same_host},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        FX(x);
        fx_capture_value(x.before, "cpu", "flags", json_pack("[s, s, s, s]", "avx", "avx2", "fma", "f16c"));
        fx_capture_value(x.before, "memory", "total", json_integer(10000000000000000));
        fx_capture_value(x.before, "program", "commit", json_string(x.doc->facts.tool.commit));
        fx_capture_value(x.before, "kernel", "uptime", json_real(100.25));
        fx_capture_value(x.after, "kernel", "uptime", json_real(103.5));
        fx_compute(&x);
        accepted(&x);
        if (bends[i].path)
            set_path(x.facts, bends[i].path,
                     bends[i].text ? json_string(bends[i].text) : json_integer((json_int_t)bends[i].number));
        else
            fx_capture_value(x.before, bends[i].group, bends[i].name,
                             bends[i].text ? json_string(bends[i].text) : json_real(bends[i].number));
        if (bends[i].after)
            fx_capture_value(x.after, bends[i].group, bends[i].name, json_string(bends[i].after));
        fx_derive(&x);
        refused(&x, bends[i].check, RP_MISMATCH);
    }
}

TEST(a_device_that_the_settings_did_not_ask_for_is_refused)
{
    static const char *const asked[] = {"run.isa=avx512", "run.threads=3"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        FX(x);
        FX_SET(&x, asked[i]);
        fx_compute(&x);
        refused(&x, RP_CHECK_environment, RP_MISMATCH);
    }
}
