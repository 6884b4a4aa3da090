/* What is measured beside the steps: the device's clock and memory, ceilings. Figures follow, lies are found. */
#include "tests/unit/verify_fixture.h"

#include "backend/backend.h"
#include "worker/measure_ceilings.h"

/* ---- the device's clock ---- */

/* The fixture's records with the device's time: less than the step's by `less`. */
static void with_device_time(struct fx *x, int64_t less)
{
    RP_BUF out = {0};
    for (char *line = x->steps.data, *end; line < x->steps.data + x->steps.size; line = end + 1) {
        long long start = 0, stop = 0;
        const char *at = strstr(line, "\"start_ns\":"), *from = strstr(line, "\"end_ns\":");
        end = strchr(line, '\n');
        if (at && at < end && from && sscanf(from, "\"end_ns\":%lld", &stop) == 1 && sscanf(at, "\"start_ns\":%lld", &start) == 1)
            rp_buf_printf(&out, "%.*s\"device_ns\":%lld,%.*s\n", (int)(from - line), line, stop - start - (long long)less, (int)(end - from), from);
        else
            rp_buf_printf(&out, "%.*s\n", (int)(end - line), line);
    }
    rp_buf_fini(&x->steps);
    x->steps = out;
    out = (struct rp_buf){0};
}

TEST(time_of_the_device_becomes_a_share_of_the_windows)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    const json_t *results = json_object_get(x.run, "results");
    CHECK(!json_object_get(results, "device_share"), "a share without a clock");
    x.backend = "cuda";
    x.device = "gpu0 Shim GPU sm_80";
    with_device_time(&x, 4000000);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    results = json_object_get(x.run, "results");
    /* by hand: steps of 100 ms and 1.000003 ms times 0, 1, 4, 2, 2, 4, 1; the first is warm-up; 1 ms between two, windows of 3 */
    double steps = 0.6 + 0.001000003 * (1 + 4 + 2 + 2 + 4 + 1), windows = steps + 4 * 0.001;
    CHECK(json_real_value(json_object_get(results, "device_s")) - (steps - 6 * 0.004) < 1e-12, "%.12f", json_real_value(json_object_get(results, "device_s")));
    double share = json_real_value(json_object_get(results, "device_share")) - (steps - 6 * 0.004) / windows;
    CHECK(share < 1e-12 && share > -1e-12, "%g off", share);
    CHECK(strstr(x.report.data, "The device worked for 0.59"), "the report does not say it");
    fx_seal(&x, "signer", "device");
    accept("device", NULL, RP_VERDICT_UNKNOWN_KEY);
    set_path(x.run, "results/device_share", json_real(0.99));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "device");
    expect("device", NULL, RP_VERDICT_FAILED, RP_CHECK_numbers, RP_MISMATCH, "results/device_share is");
    fx_fini(&x);
}

TEST(a_device_does_not_work_longer_than_its_step)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    with_device_time(&x, -100000); /* two clocks: a thousandth and two microseconds of 100 ms */
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    with_device_time(&x, 0);
    fx_fini(&x);
    fx_init(&x);
    with_device_time(&x, -110000);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MISMATCH && strstr(err.msg, "the device worked on it for"), "%s", err.msg);
    fx_fini(&x);
    fx_init(&x);
    with_device_time(&x, 1000);
    char *second = strstr(strstr(x.steps.data, "device_ns") + 1, "\"device_ns\"");
    memmove(second, strchr(second, ',') + 1, strlen(strchr(second, ',') + 1) + 1);
    x.steps.size = strlen(x.steps.data);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && strstr(err.msg, "step 1 has no time of the device"), "%s", err.msg);
    fx_fini(&x);
}

/* ---- its memory ---- */

TEST(memory_of_the_device_fits_the_plan)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    json_int_t total = json_integer_value(json_object_get(json_object_get(x.run, "plan"), "total_bytes"));
    x.done = json_pack("{s:{s:I, s:I}}", "device_bytes", "reserved", total, "taken", total + 4096);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "memory");
    expect("memory", NULL, RP_VERDICT_FAILED, RP_CHECK_environment, RP_MISMATCH, "the CPU backend has no memory of its own");
    x.backend = "cuda";
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0 && strstr(x.report.data, "Memory of the device: "), "%s", err.msg);
    fx_seal(&x, "signer", "memory");
    accept("memory", NULL, RP_VERDICT_UNKNOWN_KEY);
    static const long bends[] = {1, -1000000000};
    for (int i = 0; i < 2; i++) {
        set_path(x.run, "device_bytes/reserved", json_integer(i ? 7 : total + bends[i]));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "memory");
        expect("memory", NULL, RP_VERDICT_FAILED, RP_CHECK_environment, RP_MISMATCH, "device_bytes/reserved is");
    }
    fx_fini(&x);
}

/* ---- ceilings ---- */

TEST(rates_of_ceilings_follow_from_their_repetitions)
{
    struct fx x;
    struct rp_err err;
    char text[512];
    fx_init(&x);
    const json_t *is = json_object_get(x.run, "ceilings"), *before = json_object_get(is, "before");
    double gemm = json_real_value(json_object_get(json_object_get(before, "gemm"), "flops_per_s"));
    double copy = json_real_value(json_object_get(json_object_get(before, "copy"), "bytes_per_s"));
    CHECK(gemm == 2.0 * 512 * 1024 * 768 / 0.01, "%.17g", gemm);
    CHECK(copy == 2.0 * 67108864 / 0.012345678, "%.17g", copy);
    double share = json_real_value(json_object_get(json_object_get(is, "achieved"), "gemm_share"));
    CHECK(share == json_real_value(json_object_get(json_object_get(x.run, "results"), "flops_per_s")) / gemm, "not of the higher one: %g", share);
    CHECK(strstr(x.report.data, "| matrix product, 512x1024x768 | 80.53 | 73.21 | GFLOP/s; "), "the report does not show them");
    fx_seal(&x, "signer", "ceilings");
    CHECK(state_of("ceilings", RP_CHECK_ceilings, text) == RP_CHECK_PASSED && strstr(text, "of its GEMM ceiling"), "%s", text);
    static const struct {
        const char *path, *says;
        double number;
    } bends[] = {
        {"ceilings/before/gemm/flops_per_s", "ceilings/before/gemm/flops_per_s is", 8e11},
        {"ceilings/after/copy/bytes_per_s", "ceilings/after/copy/bytes_per_s is", 1e9},
        {"ceilings/achieved/gemm_share", "ceilings/achieved/gemm_share is", 0.5},
        {"ceilings/achieved/flops_per_s", "ceilings/achieved/flops_per_s is", 1e9},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        RP_JSON *keep = json_deep_copy(is);
        set_path(x.run, bends[i].path, json_real(bends[i].number));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "ceilings");
        expect("ceilings", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, bends[i].says);
        json_object_set(x.run, "ceilings", keep);
        is = json_object_get(x.run, "ceilings");
    }
    fx_fini(&x);
}

/* The fixture's run with products of so many nanoseconds before and after. */
static void run_under(struct fx *x, int64_t before, int64_t after, const char *backend)
{
    struct rp_err err;
    fx_init(x);
    x->backend = backend;
    x->done = json_pack("{s:o}", "ceilings", fx_ceilings(before, after));
    CHECK(fx_documents(x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(x, "signer", "under");
}

TEST(a_run_stays_below_its_ceiling_within_what_clocks_do)
{
    struct fx x;
    char text[512];
    run_under(&x, 10, 10, NULL);
    double rate = json_real_value(json_object_get(json_object_get(x.run, "results"), "flops_per_s"));
    int64_t same = (int64_t)(2e9 * 512 * 1024 * 768 / rate); /* nanoseconds of a product at which the share is 1 */
    fx_fini(&x);
    static const struct {
        const char *backend;
        double before, after; /* in parts of the run's speed */
        enum rp_check_state state;
    } cases[] = {
        {NULL, 1.01, 0.5, RP_CHECK_PASSED},  {NULL, 0.5, 1.01, RP_CHECK_PASSED},  {NULL, 0.9, 0.9, RP_CHECK_NOTE},   {NULL, 0.51, 0.4, RP_CHECK_NOTE},
        {NULL, 0.49, 0.49, RP_CHECK_FAILED}, {"cuda", 1.01, 1, RP_CHECK_PASSED}, {"cuda", 0.82, 0.8, RP_CHECK_NOTE}, {"cuda", 0.78, 0.78, RP_CHECK_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_under(&x, (int64_t)((double)same / cases[i].before), (int64_t)((double)same / cases[i].after), cases[i].backend);
        if (cases[i].state == RP_CHECK_FAILED)
            expect("under", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "its own GEMM ceiling");
        else
            CHECK(state_of("under", RP_CHECK_ceilings, text) == cases[i].state, "case %zu: %s", i, text);
        fx_fini(&x);
    }
}

TEST(ceilings_are_there_when_the_settings_say_so)
{
    static const char *const off[] = {"measure.ceilings=false"};
    struct fx x;
    struct rp_err err;
    char text[512];
    fx_init(&x);
    RP_JSON *keep = json_deep_copy(json_object_get(x.run, "ceilings"));
    CHECK(json_object_del(x.run, "ceilings") == 0 && fx_report(&x, &err) == 0 && !strstr(x.report.data, "at best"), "no ceilings");
    fx_seal(&x, "signer", "none");
    expect("none", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "require ceilings");
    fx_fini(&x);

    fx_init(&x);
    set_path(x.run, "ceilings/after", json_null());
    set_path(x.run, "ceilings/achieved/gemm_share", json_incref(json_object_get(json_object_get(keep, "achieved"), "gemm_share")));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "half");
    CHECK(state_of("half", RP_CHECK_ceilings, text) == RP_CHECK_NOTE && strstr(text, "not measured after"), "%s", text);
    set_path(x.run, "phases_s/ceilings", json_real(0.01));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "half");
    expect("half", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "the phase 'ceilings' took 0.010 s");
    fx_fini(&x);

    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", off, 1, &err) == 0, "%s", err.msg);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "off");
    expect("off", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "turn ceilings off");
    json_object_del(x.run, "ceilings");
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "off");
    CHECK(state_of("off", RP_CHECK_ceilings, text) == RP_CHECK_PASSED && strstr(text, "turned off"), "%s", text);
    fx_fini(&x);
}

/* ---- samples ---- */

/* n samples from `start` on, every 100 ms and a little: clocks rise, power falls, every third is throttled. */
static void with_samples(struct fx *x, int64_t start, int n, int every)
{
    rp_buf_fini(&x->samples);
    for (int i = 0; i < n; i++)
        rp_buf_printf(&x->samples, "{\"clock_memory_hz\":1593000000,\"clock_sm_hz\":%lld,\"n\":%d,\"ns\":%lld,\"power_mw\":%d,"
                                   "\"temperature_c\":%d,\"throttle\":[%s],\"utilization\":99}\n",
                      1000000000ll + 15000000ll * i, i * every, (long long)start + 100000100ll * i * every, 700000 - 1000 * i, 40 + i,
                      i % 3 ? "\"gpu_idle\"" : "\"hw_slowdown\",\"sw_power_cap\"");
    x->backend = "cuda";
    x->device = "gpu0 Shim GPU sm_80";
}

#define FIRST 5000000000ll /* the fixture's first step */

TEST(figures_of_samples_cover_the_timed_steps)
{
    struct fx x;
    struct rp_err err;
    char text[512];
    fx_init(&x);
    with_samples(&x, FIRST - 350000000, 12, 1); /* at -350, -250, -150, -50, 50, 150 ... 750 ms */
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    const json_t *is = json_object_get(x.run, "samples"), *power = json_object_get(is, "power_w"), *clock = json_object_get(is, "clock_sm_hz");
    /* the timed steps are from 101 ms to 0.6 s + 14 * 1.000003 ms + 6 * 1 ms later: samples 5 to 10 (at 150 to 650 ms) */
    double span = (0.6 + 0.001000003 * 14 + 0.005), energy = 692.5 * span;
    CHECK(json_integer_value(json_object_get(is, "timed")) == 6, "%lld samples", (long long)json_integer_value(json_object_get(is, "timed")));
    CHECK(json_real_value(json_object_get(clock, "min")) == 1.075e9 && json_real_value(json_object_get(clock, "max")) == 1.15e9 &&
              json_real_value(json_object_get(clock, "median")) == 1.1125e9 && json_real_value(json_object_get(clock, "mean")) == 1.1125e9, "clocks");
    CHECK(json_real_value(json_object_get(power, "mean")) == 692.5, "%.17g W", json_real_value(json_object_get(power, "mean")));
    double off = json_real_value(json_object_get(is, "energy_j")) - energy, each = json_real_value(json_object_get(is, "energy_per_sample_j")) - energy / 24;
    CHECK(off < 1e-9 && off > -1e-9 && each < 1e-9 && each > -1e-9, "%g J off, %g J each", off, each);
    CHECK(json_real_value(json_object_get(json_object_get(is, "throttle"), "sw_power_cap")) == 2.0 / 6, "samples 6 and 9 are throttled");
    CHECK(strstr(x.report.data, "| power | 690.0 | 692.5 | 692.5 | 695.0 | W |") &&
              strstr(x.report.data, "Throttled, in percent of the samples: gpu\\_idle 66.7, hw\\_slowdown 33.3, sw\\_power\\_cap 33.3."), "%s", x.report.data);
    fx_seal(&x, "signer", "samples");
    CHECK(state_of("samples", RP_CHECK_telemetry, text) == RP_CHECK_NOTE && strstr(text, "sw_power_cap in 33 %") && !strstr(text, "gpu_idle"), "%s", text);
    CHECK(state_of("samples", RP_CHECK_claims, text) == RP_CHECK_NOTE && strstr(text, "samples"), "%s", text);
    static const char *const bends[] = {"samples/power_w/mean", "samples/energy_j", "samples/throttle/sw_power_cap", "samples/clock_sm_hz/max"};
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        RP_JSON *keep = json_deep_copy(json_object_get(x.run, "samples"));
        set_path(x.run, bends[i], json_real(0.25));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "samples");
        expect("samples", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, RP_MISMATCH, bends[i]);
        json_object_set(x.run, "samples", keep);
    }
    fx_fini(&x);
}

/* What is not known is neither zero nor part of a mean. */
TEST(values_that_no_sample_knows_are_null)
{
    struct fx x;
    struct rp_err err;
    fx_init(&x);
    x.backend = "cuda";
    rp_buf_printf(&x.samples, "{\"clock_sm_hz\":1000,\"n\":0,\"ns\":%lld}\n{\"n\":1,\"ns\":%lld,\"throttle\":[]}\n", FIRST + 200000000, FIRST + 300000000);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    const json_t *is = json_object_get(x.run, "samples");
    CHECK(json_is_null(json_object_get(is, "power_w")) && json_is_null(json_object_get(is, "energy_j")) && json_is_null(json_object_get(is, "energy_per_sample_j")), "power");
    CHECK(json_real_value(json_object_get(json_object_get(is, "clock_sm_hz"), "mean")) == 1000, "the mean of one");
    CHECK(json_is_object(json_object_get(is, "throttle")) && json_object_size(json_object_get(is, "throttle")) == 0, "throttled by nothing");
    CHECK(strstr(x.report.data, "| power | - | - | - | - | W |") && strstr(x.report.data, "samples: never."), "%s", x.report.data);
    fx_seal(&x, "signer", "unknown");
    accept("unknown", NULL, RP_VERDICT_UNKNOWN_KEY);
    fx_fini(&x);
}

TEST(samples_that_cannot_be_are_refused)
{
    static const struct {
        int64_t start; /* after the first step's */
        int n, every;
        const char *was, *is; /* in the text, where something is replaced */
        enum rp_code code;
        const char *says;
    } cases[] = {
        {0, 5, 1, "\"n\":3,", "\"n\":4,", RP_MISMATCH, "rank0.samples.jsonl:4 is sample 4: some are missing"},
        {0, 5, 1, "\"n\":0,", "\"n\":1,", RP_MISMATCH, "rank0.samples.jsonl:1 is sample 1"},
        {0, 5, 3, NULL, NULL, RP_MISMATCH, "rank0.samples.jsonl:2 is sample 3"},
        {0, 5, 1, "\"n\":3,\"ns\":53", "\"n\":3,\"ns\":51", RP_MISMATCH, "rank0.samples.jsonl:4 was taken before"},
        {0, 5, 1, "\"power_mw\":699000", "\"power_mw\":-1", RP_MALFORMED, "/power_mw"},
        {0, 5, 1, "\"power_mw\":699000", "\"power_mw\":699000.0", RP_MALFORMED, "/power_mw"},
        {0, 5, 1, "{\"clock_memory_hz\"", "{ \"clock_memory_hz\"", RP_MALFORMED, "not written"},
        {0, 5, 1, "\"utilization\":99", "\"weather\":99", RP_MALFORMED, "weather"},
        {-3000000000, 5, 1, NULL, NULL, RP_MISMATCH, "steps and samples span"},
        {2600000000, 12, 1, NULL, NULL, RP_MISMATCH, "steps and samples span"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fx x;
        struct rp_err err;
        fx_init(&x);
        with_samples(&x, FIRST + cases[i].start, cases[i].n, cases[i].every);
        RP_BUF bent = {0};
        if (cases[i].was) {
            char *at = strstr(x.samples.data, cases[i].was);
            CHECK(at, "no %s", cases[i].was);
            rp_buf_add(&bent, x.samples.data, (size_t)(at - x.samples.data));
            rp_buf_puts(&bent, cases[i].is);
            rp_buf_puts(&bent, at + strlen(cases[i].was));
            with_samples(&x, FIRST, 5, 1);
        } else {
            rp_buf_add(&bent, x.samples.data, x.samples.size);
            if (cases[i].every == 3)
                with_samples(&x, FIRST, 5, 1);
        }
        CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%zu: %s", i, err.msg);
        rp_buf_fini(&x.samples);
        x.samples = bent;
        bent = (struct rp_buf){0};
        fx_seal(&x, "signer", "cannot");
        expect("cannot", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, cases[i].code, cases[i].says);
        fx_fini(&x);
    }
    struct fx x; /* twice as many as there were: each a hundred milliseconds by its number, half of that by its clock */
    struct rp_err err;
    fx_init(&x);
    for (int i = 0; i < 16; i++)
        rp_buf_printf(&x.samples, "{\"n\":%d,\"ns\":%lld}\n", i, FIRST + 50000000ll * i);
    x.backend = "cuda";
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "cannot");
    expect("cannot", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, RP_MISMATCH, "15 samples in 0.750 s");
    fx_fini(&x);
    char text[512];
    fx_init(&x); /* they end early */
    with_samples(&x, FIRST + 150000000, 1, 1);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "few");
    CHECK(state_of("few", RP_CHECK_telemetry, text) == RP_CHECK_NOTE && strstr(text, "1 samples in the timed windows, 6 expected; throttled"), "%s", text);
    fx_fini(&x);
}

TEST(samples_and_their_figures_belong_together)
{
    struct fx x;
    struct rp_err err;
    char text[512];
    fx_init(&x);
    with_samples(&x, FIRST, 7, 1);
    x.backend = NULL;
    x.device = NULL;
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "apart");
    expect("apart", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, RP_MISMATCH, "the CPU backend trained");
    x.backend = "cuda";
    x.device = "gpu0 NVIDIA H100 PCIe sm_90";
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    RP_JSON *keep = json_incref(json_object_get(x.run, "samples"));
    json_object_del(x.run, "samples");
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "apart");
    expect("apart", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, RP_MISMATCH, "has no figures of it");
    rp_buf_fini(&x.samples);
    fx_seal(&x, "signer", "apart");
    CHECK(state_of("apart", RP_CHECK_telemetry, text) == RP_CHECK_NOTE && strcmp(text, "none") == 0, "%s", text);
    json_object_set(x.run, "samples", keep);
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "apart");
    expect("apart", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, RP_MISMATCH, "steps/rank0.samples.jsonl");
    x.no_samples = "libnvidia-ml.so.1: | none |";
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0 && strstr(x.report.data, "The device was not sampled: libnvidia-ml.so.1: \\| none \\|."), "%s", x.report.data);
    fx_seal(&x, "signer", "apart");
    CHECK(state_of("apart", RP_CHECK_telemetry, text) == RP_CHECK_NOTE && strstr(text, "none: libnvidia-ml"), "%s", text);
    fx_fini(&x);
    /* a name that is no path, longer than any: the report is rendered from what a stranger wrote */
    fx_init(&x);
    with_samples(&x, FIRST, 7, 1);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    json_object_set_new(json_object_get(json_object_get(x.run, "samples"), "throttle"),
                        "a/b/0123456789012345678901234567890123456789012345678901234567890123456789", json_real(1));
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "apart");
    expect("apart", NULL, RP_VERDICT_FAILED, RP_CHECK_telemetry, RP_MISMATCH, "samples/throttle/a/b/0123");
    fx_fini(&x);
}

static json_t *sample(int64_t n)
{
    return json_pack("{s:I, s:I, s:I, s:[s]}", "n", (json_int_t)n, "ns", (json_int_t)(1 + n * RP_TELEMETRY_PERIOD_NS), "power_mw", (json_int_t)(300000 + n % 7),
                     "throttle", "gpu_idle");
}

/* However long a run is: never more than the limit, evenly spaced, and the file says it. */
TEST(long_runs_are_thinned_out)
{
    static const struct {
        int64_t taken, kept, every;
    } cases[] = {{0, 0, 1}, {1, 1, 1}, {RP_TELEMETRY_MAX, RP_TELEMETRY_MAX, 1}, {RP_TELEMETRY_MAX + 1, RP_TELEMETRY_MAX / 2 + 1, 2},
                 {2 * RP_TELEMETRY_MAX, RP_TELEMETRY_MAX, 2}, {5 * RP_TELEMETRY_MAX, 5 * RP_TELEMETRY_MAX / 8, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_sampling s = {0};
        struct rp_telemetry again;
        struct rp_err err;
        RP_BUF text = {0};
        for (int64_t n = 0; n < cases[i].taken; n++) {
            RP_JSON *body = sample(n);
            rp_sampling_add(&s, body);
        }
        rp_sampling_write(&text, &s);
        CHECK(!*s.reason && rp_telemetry_parse(&again, rp_buf_text(&text), text.size, &err) == 0, "%s%s", s.reason, err.msg);
        CHECK(again.n == cases[i].kept && again.every == cases[i].every, "of %lld: %lld kept, one in %lld", (long long)cases[i].taken, (long long)again.n,
              (long long)again.every);
        rp_telemetry_fini(&again);
        rp_sampling_fini(&s);
    }
}

/* Nothing that the GPU worker says is believed. */
TEST(what_is_no_sample_ends_them)
{
    static const char *const bad[] = {"{\"n\":2,\"ns\":300000000,\"power_mw\":\"a lot\"}", "{\"n\":3,\"ns\":300000000}", "{\"n\":2,\"ns\":7}", "{}",
                                      "{\"n\":2,\"ns\":300000000,\"surprise\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_sampling s = {0};
        RP_JSON *a = sample(0), *b = sample(1), *c = json_loads(bad[i], 0, NULL), *d = sample(2);
        rp_sampling_add(&s, a);
        rp_sampling_add(&s, b);
        rp_sampling_add(&s, c);
        rp_sampling_add(&s, d);
        CHECK(c && json_array_size(s.line) == 2 && strstr(s.reason, "not a sample"), "%s: %zu kept, %s", bad[i], json_array_size(s.line), s.reason);
        rp_sampling_fini(&s);
    }
    struct rp_sampling s = {0};
    RP_JSON *why = json_pack("{s:s}", "reason", "no \033[31m library"), *late = sample(0);
    rp_sampling_add(&s, why);
    rp_sampling_add(&s, late);
    CHECK(json_array_size(s.line) == 0 && strcmp(s.reason, "no ?[31m library") == 0, "%s", s.reason);
    rp_sampling_fini(&s);
}

/* ---- measuring them ---- */

static int asked; /* calls of stop_after() */
static int stop_after(void *arg)
{
    return ++asked > *(const int *)arg;
}

TEST(ceilings_of_the_processors_are_measured)
{
    struct rp_err err;
    struct rp_device_opts o = {.threads = 2};
    const struct rp_op_use use = {.op = RP_OP_gemm, .rows = 64};
    struct rp_plan plan = {.total = (uint64_t)20 << 20, .host = (uint64_t)5 << 20};
    struct rp_dev *dev = rp_backend_open(&rp_backend_cpu, &o, &use, 1, &err);
    CHECK(dev, "%s", err.msg);
    struct rp_ceiling_size s = rp_ceiling_size(dev, &plan);
    CHECK(s.copy == (size_t)15 << 19 && s.gemm.rows == 512 && s.times == 1, "%zu bytes, %d rows", s.copy, s.gemm.rows);
    s = (struct rp_ceiling_size){.gemm = {33, 65, 31}, .times = 3, .copy = 1000001, .gemm_ns = 50000000, .copy_ns = 50000000};
    RP_JSON *first = rp_ceilings(dev, &s, NULL, NULL, &err), *again = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(first && again, "%s", err.msg);
    const json_t *ns = json_object_get(json_object_get(first, "gemm"), "ns");
    CHECK(json_array_size(ns) >= 2 && json_array_size(ns) <= 64, "%zu repetitions", json_array_size(ns));
    CHECK(json_integer_value(json_object_get(json_object_get(first, "copy"), "bytes")) == 1000001 / 256 * 256, "bytes");
    CHECK(!json_object_get(first, "host_to_device") && strcmp(json_string_value(json_object_get(first, "clock")), "host") == 0, "%s", err.msg);
    for (int n = 0; n < 4; n++) { /* asked to stop: at once, and no failure */
        asked = 0;
        json_t *none = rp_ceilings(dev, &s, stop_after, &n, &err);
        CHECK(!none && err.code == RP_OK && asked == n + 1, "stopped after %d: %d calls, %s", n, asked, err.msg);
        json_decref(none);
    }
    s.copy = (size_t)1 << 50; /* no machine has that: no ceilings, no failure, and what was taken is given back */
    json_t *none = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(!none && err.code == RP_OK, "%s", err.msg);
    json_decref(none);
    CHECK(dev->backend->block(dev, RP_CLASS_SCRATCH, 4096, &err), "%s", err.msg);
    dev->backend->close(dev);
}

TEST(the_device_is_the_captured_one)
{
    struct fx x;
    struct rp_err err;
    static const char *const names[] = {"AMD EPYC", "NVIDIA H200"};
    fx_init(&x);
    fx_capture_value(x.before, "cpu", "model_name", json_string(names[0]));
    fx_capture_value(x.after, "cpu", "model_name", json_string(names[0]));
    for (int i = 0; i < 2; i++) {
        CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
        json_object_set_new(json_object_get(x.run, "device"), "name", json_string(names[i]));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "named");
        char text[512] = "";
        enum rp_check_state state = state_of("named", RP_CHECK_environment, text);
        CHECK(state == (i ? RP_CHECK_NOTE : RP_CHECK_PASSED), "%s", text);
        CHECK(!i || (strstr(text, names[0]) && strstr(text, names[1])), "%s", text);
    }
    fx_fini(&x);
}
