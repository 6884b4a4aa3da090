/* What is measured beside the steps: the device's clock and memory, ceilings. Figures follow, lies are found, older bundles stay valid. */
#include "tests/unit/verify_fixture.h"

#include "backend/backend.h"
#include "bundle/schema.h"
#include "worker/ceilings.h"

/* ---- the device's clock ---- */

/* The fixture's records with the device's time: less than the step's by `less`. */
static void with_device_time(struct fx *x, int64_t less)
{
    RP_BUF out = {0};
    for (char *line = x->steps.data, *end; line < x->steps.data + x->steps.size; line = end + 1) {
        long long start = 0, stop = 0;
        const char *at = strstr(line, "\"start_ns\":");
        end = strchr(line, '\n');
        if (at && at < end && sscanf(line, "{\"end_ns\":%lld", &stop) == 1 && sscanf(at, "\"start_ns\":%lld", &start) == 1)
            rp_buf_printf(&out, "{\"device_ns\":%lld,%.*s\n", stop - start - (long long)less, (int)(end - line - 1), line + 1);
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
    expect("memory", NULL, RP_VERDICT_FAILED, RP_CHECK_machine, RP_MISMATCH, "the CPU backend has no memory of its own");
    x.backend = "cuda";
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0 && strstr(x.report.data, "Memory of the device: "), "%s", err.msg);
    fx_seal(&x, "signer", "memory");
    accept("memory", NULL, RP_VERDICT_UNKNOWN_KEY);
    static const long bends[] = {1, -1000000000};
    for (int i = 0; i < 2; i++) {
        set_path(x.run, "device_bytes/reserved", json_integer(i ? 7 : total + bends[i]));
        CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
        fx_seal(&x, "signer", "memory");
        expect("memory", NULL, RP_VERDICT_FAILED, RP_CHECK_machine, RP_MISMATCH, "device_bytes/reserved is");
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
    CHECK(state_of("ceilings", RP_CHECK_ceilings, text) == RP_CHECK_PASSED && strstr(text, "of its matrix product's ceiling"), "%s", text);
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
            expect("under", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "its own matrix product did at best");
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
    expect("none", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "asked for ceilings");
    CHECK(json_object_del(json_object_get(x.run, "recipe"), "measure.ceilings") == 0, "no key");
    fx_seal(&x, "signer", "none"); /* as bundles were before there was such a key */
    CHECK(state_of("none", RP_CHECK_ceilings, text) == RP_CHECK_NOTE && strstr(text, "older"), "%s", text);
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
    expect("half", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "the phase 'ceilings' took 0.010 s, and its repetitions 0.032 s");
    fx_fini(&x);

    fx_init(&x);
    rp_recipe_fini(&x.recipe);
    CHECK(rp_recipe_parse(&x.recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", off, 1, &err) == 0, "%s", err.msg);
    CHECK(fx_documents(&x, "complete", NULL, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "off");
    expect("off", NULL, RP_VERDICT_FAILED, RP_CHECK_ceilings, RP_MISMATCH, "turned ceilings off");
    json_object_del(x.run, "ceilings");
    CHECK(fx_report(&x, &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "off");
    CHECK(state_of("off", RP_CHECK_ceilings, text) == RP_CHECK_PASSED && strstr(text, "not asked for"), "%s", text);
    fx_fini(&x);
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
    struct rp_device_opts o = {.threads = 2, .max_seq = 16, .max_rows = 64};
    struct rp_plan plan = {.total = (uint64_t)20 << 20, .host = (uint64_t)5 << 20};
    struct rp_dev *dev = rp_backend_find("cpu")->open(&o, &err);
    CHECK(dev, "%s", err.msg);
    struct rp_ceiling_size s = rp_ceiling_size(dev, &plan);
    CHECK(s.copy == (size_t)15 << 19 && s.product.rows == 512 && s.times == 1, "%zu bytes, %d rows", s.copy, s.product.rows);
    s = (struct rp_ceiling_size){.product = {33, 65, 31}, .times = 3, .copy = 1000001, .gemm_ns = 2000000, .copy_ns = 1000000};
    RP_JSON *first = rp_ceilings(dev, &s, NULL, NULL, &err), *again = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(first && again, "%s", err.msg);
    RP_JSON *both = json_pack("{s:O, s:O}", "before", first, "after", again), *schema = rp_schema_load("run", &err);
    const json_t *ns = json_object_get(json_object_get(first, "gemm"), "ns");
    CHECK(json_array_size(ns) >= 2 && json_array_size(ns) <= 64, "%zu repetitions", json_array_size(ns));
    CHECK(json_integer_value(json_object_get(json_object_get(first, "copy"), "bytes")) == 1000001 / 256 * 256, "bytes");
    CHECK(schema && !json_object_get(first, "host_to_device") && strcmp(json_string_value(json_object_get(first, "clock")), "host") == 0, "%s", err.msg);
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
