/* What is measured beside the steps: the device's clock and memory, ceilings. Figures follow, lies are found. */
#include "tests/unit/verify_fixture.h"

#include "backend/backend.h"
#include "worker/measure_ceilings.h"

#include <math.h>

/* ---- the device's clock ---- */

/* The fixture's records with the device's time: less than the step's by `less`. */
static void with_device_time(struct fx *x, int64_t less)
{
    RP_BUF out = {0};
    for (char *line = x->steps.data, *end; line < x->steps.data + x->steps.size; line = end + 1) {
        long long start = 0, stop = 0;
        const char *at = strstr(line, "\"start_ns\":"), *from = strstr(line, "\"end_ns\":");
        end = strchr(line, '\n');
        if (at && at < end && from && sscanf(from, "\"end_ns\":%lld", &stop) == 1 &&
            sscanf(at, "\"start_ns\":%lld", &start) == 1)
            rp_buf_printf(&out, "%.*s\"device_ns\":%lld,%.*s\n", (int)(from - line), line,
                          stop - start - (long long)less, (int)(end - from), from);
        else
            rp_buf_printf(&out, "%.*s\n", (int)(end - line), line);
    }
    rp_buf_fini(&x->steps);
    x->steps = out;
    out = (struct rp_buf){0};
}

TEST(time_of_the_device_becomes_a_share_of_the_windows)
{
    FX(x);
    CHECK(isnan(x.doc->figures.results.device_share), "a share without a clock");
    x.backend = "cuda";
    x.device = "gpu0 Shim GPU sm_80";
    with_device_time(&x, 4000000);
    fx_compute(&x);
    const struct rp_results *results = &x.doc->figures.results;
    /* by hand: steps of 100 ms and 1.000003 ms times 0, 1, 4, 2, 2, 4, 1; the first is warm-up; 1 ms between two,
     * windows of 3 */
    double steps = 0.6 + 0.001000003 * (1 + 4 + 2 + 2 + 4 + 1), windows = steps + 4 * 0.001;
    CHECK(fabs(results->device_s - (steps - 6 * 0.004)) < 1e-12, "%.12f", results->device_s);
    CHECK(fabs(results->device_share - (steps - 6 * 0.004) / windows) < 1e-12, "%g", results->device_share);
    fx_said(&x, "## The device");
    accepted(&x);
    set_path(x.run, "results/device_share", json_real(0.99));
    refused(&x, RP_CHECK_numbers, RP_MISMATCH);
}

TEST(a_device_does_not_work_longer_than_its_step)
{
    struct rp_err err;
    FX(x);
    with_device_time(&x, -100000); /* two clocks: a thousandth and two microseconds of 100 ms */
    fx_compute(&x);
    with_device_time(&x, 0);
    fx_again(&x);
    with_device_time(&x, -110000);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MISMATCH, "%s", err.msg);
    SAID(err.msg);
    fx_again(&x);
    with_device_time(&x, 1000);
    char *second = strstr(strstr(x.steps.data, "device_ns") + 1, "\"device_ns\"");
    memmove(second, strchr(second, ',') + 1, strlen(strchr(second, ',') + 1) + 1);
    x.steps.size = strlen(x.steps.data);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0, "a step without a time of the device");
    SAID(err.msg);
}

/* ---- its memory ---- */

TEST(memory_of_the_device_fits_the_plan)
{
    FX(x);
    const struct rp_plan_facts *plan = &x.doc->facts.plan; /* of a processor: with the host's memory */
    const int64_t total = plan->total_bytes - plan->host_bytes - plan->decoder_bytes - plan->connection_bytes;
    x.done =
        json_pack("{s:{s:I, s:I}}", "device_bytes", "reserved", (json_int_t)total, "used", (json_int_t)total + 4096);
    fx_compute(&x);
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
    x.backend = "cuda";
    fx_compute(&x);
    fx_said(&x, "## The device");
    accepted(&x);
    const int64_t bends[] = {total + 1, 7};
    for (int i = 0; i < 2; i++) {
        set_path(x.facts, "rank/0/device_bytes/reserved", json_integer(bends[i]));
        refused(&x, RP_CHECK_environment, RP_MISMATCH);
    }
}

/* ---- ceilings ---- */

TEST(rates_of_ceilings_follow_from_their_repetitions)
{
    FX(x);
    const struct rp_ceiling_figures *is = x.doc->figures.ceilings;
    const double gemm = is->before->gemm_flops_per_s, copy = is->before->copy_bytes_per_s;
    CHECK(gemm == 2.0 * 512 * 1024 * 768 / 0.01, "%.17g", gemm);
    CHECK(copy == 2.0 * 67108864 / 0.012345678, "%.17g", copy);
    CHECK(is->gemm_share == x.doc->figures.results.flops_per_s / gemm, "not of the higher one: %g", is->gemm_share);
    expect_state(&x, RP_CHECK_ceilings, RP_CHECK_PASSED);
    static const struct {
        const char *path;
        double number;
    } bends[] = {{"ceilings/before/gemm_flops_per_s", 8e11},
                 {"ceilings/after/copy_bytes_per_s", 1e9},
                 {"ceilings/gemm_share", 0.5}};
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        RP_JSON *keep = json_deep_copy(x.run);
        set_path(x.run, bends[i].path, json_real(bends[i].number));
        refused(&x, RP_CHECK_ceilings, RP_MISMATCH);
        fx_restore(x.run, keep);
    }
}

/* The fixture's run with products of so many nanoseconds before and after. */
static void run_under(struct fx *x, int64_t before, int64_t after, const char *backend)
{
    fx_again(x);
    x->backend = backend;
    x->done = json_pack("{s:o}", "ceilings", fx_ceilings(before, after));
    fx_compute(x);
}

TEST(a_run_stays_below_its_ceiling_within_what_clocks_do)
{
    FX(x);
    run_under(&x, 10, 10, NULL);
    const double rate = x.doc->figures.results.flops_per_s;
    int64_t same = (int64_t)(2e9 * 512 * 1024 * 768 / rate); /* nanoseconds of a product at which the share is 1 */
    static const struct {
        const char *backend;
        double before, after; /* in parts of the run's speed */
        enum rp_check_state state;
    } cases[] = {
        {NULL, 1.01, 0.5, RP_CHECK_PASSED}, {NULL, 0.5, 1.01, RP_CHECK_PASSED},    {NULL, 0.9, 0.9, RP_CHECK_NOTE},
        {NULL, 0.51, 0.4, RP_CHECK_NOTE},   {NULL, 0.49, 0.49, RP_CHECK_FAILED},   {"cuda", 1.01, 1, RP_CHECK_PASSED},
        {"cuda", 0.82, 0.8, RP_CHECK_NOTE}, {"cuda", 0.78, 0.78, RP_CHECK_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_under(&x, (int64_t)((double)same / cases[i].before), (int64_t)((double)same / cases[i].after),
                  cases[i].backend);
        expect_state(&x, RP_CHECK_ceilings, cases[i].state);
    }
}

TEST(ceilings_are_there_when_the_settings_say_so)
{
    FX(x);
    CHECK(json_object_del(x.facts, "ceilings") == 0, "no ceilings");
    fx_derive(&x);
    refused(&x, RP_CHECK_ceilings, RP_MISMATCH);
    fx_again(&x);
    json_object_del(json_object_get(x.facts, "ceilings"), "after");
    fx_derive(&x);
    expect_state(&x, RP_CHECK_ceilings, RP_CHECK_NOTE);
    set_path(x.facts, "rank/0/phases_s/ceilings", json_real(0.01));
    refused(&x, RP_CHECK_ceilings, RP_MISMATCH);
    fx_again(&x);
    FX_SET(&x, "measure.ceilings=false");
    fx_compute(&x);
    refused(&x, RP_CHECK_ceilings, RP_MISMATCH);
    json_object_del(x.facts, "ceilings");
    fx_derive(&x);
    expect_state(&x, RP_CHECK_ceilings, RP_CHECK_NOT_APPLICABLE);
}

/* ---- samples ---- */

/* n samples from `start` on, every 100 ms and a little: clocks rise, power falls, every third is throttled. */
static void with_samples(struct fx *x, int64_t start, int n, int every)
{
    rp_buf_fini(&x->telemetry);
    for (int i = 0; i < n; i++)
        rp_buf_printf(&x->telemetry,
                      "{\"clock_memory_hz\":1593000000,\"clock_sm_hz\":%lld,\"n\":%d,\"ns\":%lld,\"power_mw\":%d,"
                      "\"temperature_c\":%d,\"throttle\":[%s],\"utilization\":99}\n",
                      1000000000ll + 15000000ll * i, i * every, (long long)start + 100000100ll * i * every,
                      700000 - 1000 * i, 40 + i, i % 3 ? "\"gpu_idle\"" : "\"hw_slowdown\",\"sw_power_cap\"");
    x->backend = "cuda";
    x->device = "gpu0 Shim GPU sm_80";
}

#define FIRST 5000000000ll /* the fixture's first step */

TEST(figures_of_samples_cover_the_timed_steps)
{
    FX(x);
    with_samples(&x, FIRST - 350000000, 12, 1); /* at -350, -250, -150, -50, 50, 150 ... 750 ms */
    fx_compute(&x);
    const struct rp_telemetry_figures *is = x.doc->figures.telemetry;
    /* the timed steps are from 101 ms to 0.6 s + 14 * 1.000003 ms + 6 * 1 ms later: samples 5 to 10 (at 150 to 650
     * ms) */
    double span = (0.6 + 0.001000003 * 14 + 0.005), energy = 692.5 * span;
    CHECK(is->timed == 6 && x.doc->figures.rank[0].telemetry->timed == 6, "%lld samples", (long long)is->timed);
    CHECK(is->clock_sm_hz->min == 1.075e9 && is->clock_sm_hz->max == 1.15e9 && is->clock_sm_hz->median == 1.1125e9 &&
              is->clock_sm_hz->mean == 1.1125e9,
          "clocks");
    CHECK(is->power_w->mean == 692.5, "%.17g W", is->power_w->mean);
    CHECK(fabs(is->energy_j - energy) < 1e-9 && fabs(is->energy_per_sample_j - energy / 24) < 1e-9, "%g J, %g J each",
          is->energy_j, is->energy_per_sample_j);
    CHECK(is->throttle_samples == 6 && is->throttle_n == 3, "%lld samples", (long long)is->throttle_samples);
    CHECK_STR(is->throttle[2].reason, "sw_power_cap"); /* in the order of names */
    CHECK(is->throttle[2].share == 2.0 / 6, "samples 6 and 9 are throttled");
    fx_said(&x, "## The device");
    expect_state(&x, RP_CHECK_telemetry, RP_CHECK_NOTE);
    expect_state_of("sealed", RP_CHECK_claims, RP_CHECK_NOTE);
    static const char *const bends[] = {"telemetry/power_w/mean", "telemetry/energy_j", "telemetry/throttle/2/share",
                                        "telemetry/clock_sm_hz/max", "rank/0/telemetry/power_w/mean"};
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        RP_JSON *keep = json_deep_copy(x.run);
        set_path(x.run, bends[i], json_real(0.25));
        refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
        fx_restore(x.run, keep);
    }
}

/* What is not known is neither zero nor part of a mean. */
TEST(values_that_no_sample_knows_are_null)
{
    FX(x);
    x.backend = "cuda";
    rp_buf_printf(&x.telemetry, "{\"clock_sm_hz\":1000,\"n\":0,\"ns\":%lld}\n{\"n\":1,\"ns\":%lld,\"throttle\":[]}\n",
                  FIRST + 200000000, FIRST + 300000000);
    fx_compute(&x);
    const struct rp_telemetry_figures *is = x.doc->figures.telemetry;
    CHECK(!is->power_w && isnan(is->energy_j) && isnan(is->energy_per_sample_j), "power");
    CHECK(is->clock_sm_hz->mean == 1000, "the mean of one");
    CHECK(is->throttle_samples == 1 && is->throttle_n == 0, "throttled by nothing");
    fx_said(&x, "## The device");
    accepted(&x);
}

TEST(samples_that_cannot_be_are_refused)
{
    static const struct {
        int64_t start; /* after the first step's */
        int n, every;
        const char *was, *is; /* in the text, where something is replaced */
        enum rp_code code;
    } cases[] = {
        {0, 5, 1, "\"n\":3,", "\"n\":4,", RP_MISMATCH},
        {0, 5, 1, "\"n\":0,", "\"n\":1,", RP_MISMATCH},
        {0, 5, 3, NULL, NULL, RP_MISMATCH},
        {0, 5, 1, "\"n\":3,\"ns\":53", "\"n\":3,\"ns\":51", RP_MISMATCH},
        {0, 5, 1, "\"power_mw\":699000", "\"power_mw\":-1", RP_MALFORMED},
        {0, 5, 1, "\"power_mw\":699000", "\"power_mw\":699000.0", RP_MALFORMED},
        {0, 5, 1, "{\"clock_memory_hz\"", "{ \"clock_memory_hz\"", RP_MALFORMED},
        {0, 5, 1, "\"utilization\":99", "\"weather\":99", RP_MALFORMED},
        {-3000000000, 5, 1, NULL, NULL, RP_MISMATCH},
        {2600000000, 12, 1, NULL, NULL, RP_MISMATCH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        with_samples(&x, FIRST + cases[i].start, cases[i].n, cases[i].every);
        struct rp_buf bent = x.telemetry;
        x.telemetry = (struct rp_buf){0};
        if (cases[i].was)
            fx_bend(&bent, cases[i].was, cases[i].is);
        if (cases[i].was || cases[i].every == 3) /* figures follow from what the samples were, or cannot be computed */
            with_samples(&x, FIRST, 5, 1);
        else
            rp_buf_add(&x.telemetry, bent.data, bent.size);
        fx_compute(&x);
        rp_buf_fini(&x.telemetry);
        x.telemetry = bent;
        refused(&x, RP_CHECK_telemetry, cases[i].code);
    }
    FX(x); /* twice as many as there were: each a hundred milliseconds by its number, half of that by its clock */
    for (int i = 0; i < 16; i++)
        rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld}\n", i, FIRST + 50000000ll * i);
    x.backend = "cuda";
    fx_compute(&x);
    refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
    fx_again(&x); /* they end early */
    with_samples(&x, FIRST + 150000000, 1, 1);
    fx_compute(&x);
    expect_state(&x, RP_CHECK_telemetry, RP_CHECK_NOTE);
}

TEST(samples_and_their_figures_belong_together)
{
    FX(x);
    with_samples(&x, FIRST, 7, 1);
    x.backend = NULL;
    x.device = NULL;
    fx_compute(&x);
    refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
    x.backend = "cuda";
    x.device = "gpu0 NVIDIA H100 PCIe sm_90";
    fx_compute(&x);
    RP_JSON *keep = json_deep_copy(x.run);
    json_object_del(x.run, "telemetry");
    refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
    json_object_del((json_t *)rp_json_at(x.run, "rank/0"), "telemetry");
    refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
    rp_buf_fini(&x.telemetry);
    expect_state(&x, RP_CHECK_telemetry, RP_CHECK_WARNING);
    fx_restore(x.run, keep);
    refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
    x.no_telemetry = "libnvidia-ml.so.1: | none |";
    fx_compute(&x);
    RP_BUF report = {0};
    fx_report(&report, &x);
    CHECK(strstr(report.data, " libnvidia-ml.so.1: \\| none \\|."), "%s", report.data);
    expect_state(&x, RP_CHECK_telemetry, RP_CHECK_WARNING);
    fx_again(&x); /* a reason that no sample has */
    with_samples(&x, FIRST, 7, 1);
    fx_compute(&x);
    set_path(
        x.run, "telemetry/throttle",
        json_pack("[{s:s, s:f}]", "reason", "a/b/01234567890123456789012345678901234567890123456789", "share", 1.0));
    refused(&x, RP_CHECK_telemetry, RP_MISMATCH);
}

static json_t *sample(int64_t n)
{
    return json_pack("{s:I, s:I, s:I, s:[s]}", "n", (json_int_t)n, "ns", (json_int_t)(1 + n * RP_TELEMETRY_PERIOD_NS),
                     "power_mw", (json_int_t)(300000 + n % 7), "throttle", "gpu_idle");
}

/* However long a run is: never more than the limit, evenly spaced, and the file says it. */
TEST(long_runs_are_thinned_out)
{
    static const struct {
        int64_t taken, kept, every;
    } cases[] = {{0, 0, 1},
                 {1, 1, 1},
                 {RP_TELEMETRY_MAX, RP_TELEMETRY_MAX, 1},
                 {RP_TELEMETRY_MAX + 1, RP_TELEMETRY_MAX / 2 + 1, 2},
                 {2 * RP_TELEMETRY_MAX, RP_TELEMETRY_MAX, 2},
                 {5 * RP_TELEMETRY_MAX, 5 * RP_TELEMETRY_MAX / 8, 8}};
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
        CHECK(!*s.reason &&
                  rp_telemetry_parse(&again, "samples", rp_telemetry_most(1), rp_buf_text(&text), text.size, &err) == 0,
              "%s%s", s.reason, err.msg);
        CHECK(again.n == cases[i].kept && again.every == cases[i].every, "of %lld: %lld kept, one in %lld",
              (long long)cases[i].taken, (long long)again.n, (long long)again.every);
        rp_telemetry_fini(&again);
        rp_sampling_fini(&s);
    }
}

/* Nothing that the GPU worker says is believed. */
TEST(what_is_no_sample_ends_them)
{
    static const char *const bad[] = {"{\"n\":2,\"ns\":300000000,\"power_mw\":\"a lot\"}", "{\"n\":3,\"ns\":300000000}",
                                      "{\"n\":2,\"ns\":7}", "{}", "{\"n\":2,\"ns\":300000000,\"surprise\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_sampling s = {0};
        RP_JSON *a = sample(0), *b = sample(1), *c = json_loads(bad[i], 0, NULL), *d = sample(2);
        rp_sampling_add(&s, a);
        rp_sampling_add(&s, b);
        rp_sampling_add(&s, c);
        rp_sampling_add(&s, d);
        CHECK(c && s.n == 2 && *s.reason, "%s: %lld kept, %s", bad[i], (long long)s.n, s.reason);
        rp_sampling_fini(&s);
    }
    struct rp_sampling s = {0};
    RP_JSON *why = json_pack("{s:s}", "reason", "no \033[31m library"), *late = sample(0);
    rp_sampling_add(&s, why);
    rp_sampling_add(&s, late);
    CHECK(s.n == 0 && strcmp(s.reason, "no ?[31m library") == 0, "%s", s.reason);
    rp_sampling_fini(&s);
}

/* ---- measuring them ---- */

static int asked; /* calls of stop_after() */
static int stop_after(void *arg)
{
    return ++asked > *(const int *)arg;
}

#define COLD_NS 300000000
static int cold; /* 1: the next copy of a whole block takes so long */
static void copy_slowly_at_first(struct rp_dev *dev, void *to, const void *from, size_t bytes)
{
    if (cold && bytes == 1000001 / 256 * 256) {
        nanosleep(&(struct timespec){.tv_nsec = COLD_NS}, NULL);
        cold = 0;
    }
    rp_backend_cpu.copy(dev, to, from, bytes);
}

/* A first copy that takes longer than there is time for is not the ceiling. */
TEST(cold_copy_is_no_ceiling)
{
    struct rp_err err;
    struct rp_device_opts o = {.threads = 1};
    const struct rp_op_use use = {.op = RP_OP_gemm, .rows = 64};
    struct rp_dev *dev = rp_backend_open(&rp_backend_cpu, &o, &use, 1, &err);
    CHECK(dev, "%s", err.msg);
    struct rp_backend backend = *dev->backend;
    const struct rp_backend *const own = dev->backend;
    backend.copy = copy_slowly_at_first;
    dev->backend = &backend;
    const struct rp_ceiling_size s = {
        .gemm = {33, 65, 31}, .times = 1, .copy = 1000001, .gemm_ns = 1, .copy_ns = COLD_NS / 10};
    cold = 1;
    RP_JSON *is = rp_ceilings(dev, &s, NULL, NULL, &err);
    const json_t *ns = json_object_get(json_object_get(is, "copy"), "ns");
    CHECK(!cold && json_array_size(ns) > 1, "%zu copies", json_array_size(ns));
    for (size_t i = 0; i < json_array_size(ns); i++)
        CHECK(json_integer_value(json_array_get(ns, i)) < COLD_NS, "%lld ns",
              (long long)json_integer_value(json_array_get(ns, i)));
    dev->backend = own;
    dev->backend->close(dev);
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
    s = (struct rp_ceiling_size){
        .gemm = {33, 65, 31}, .times = 3, .copy = 1000001, .gemm_ns = UINT64_MAX, .copy_ns = 1};
    RP_JSON *first = rp_ceilings(dev, &s, NULL, NULL, &err), *again = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(first && again, "%s", err.msg);
    const json_t *gemm = json_object_get(json_object_get(first, "gemm"), "ns"),
                 *copy = json_object_get(json_object_get(first, "copy"), "ns");
    CHECK(json_array_size(gemm) == 64 && json_array_size(copy) == 1, "%zu products in all time, %zu copies in none",
          json_array_size(gemm), json_array_size(copy));
    CHECK(json_integer_value(json_object_get(json_object_get(first, "copy"), "bytes")) == 1000001 / 256 * 256, "bytes");
    CHECK(!json_object_get(first, "host_to_device") &&
              strcmp(json_string_value(json_object_get(first, "clock")), "host") == 0,
          "%s", err.msg);
    for (int n = 0; n < 4; n++) { /* asked to stop: at once, and no failure */
        asked = 0;
        RP_JSON *none = rp_ceilings(dev, &s, stop_after, &n, &err);
        CHECK(!none && err.code == RP_OK && asked == n + 1, "stopped after %d: %d calls, %s", n, asked, err.msg);
    }
    s.copy = (size_t)1 << 50; /* no machine has that: no ceilings, no failure, and what was taken is given back */
    RP_JSON *none = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(!none && err.code == RP_OK, "%s", err.msg);
    CHECK(dev->backend->block(dev, RP_CLASS_SCRATCH, 4096, &err), "%s", err.msg);
    dev->backend->close(dev);
}

TEST(the_device_is_the_captured_one)
{
    static const char *const names[] = {"AMD EPYC", "QEMU Virtual CPU"};
    FX(x);
    fx_capture_both(&x, "cpu", "model_name", json_string(names[0]));
    for (int i = 0; i < 2; i++) {
        fx_compute(&x);
        set_path(x.facts, "rank/0/device/name", json_string(names[i]));
        expect_state(&x, RP_CHECK_environment, i ? RP_CHECK_WARNING : RP_CHECK_PASSED);
    }
}
