/* Figures against a second implementation, records that make no sense, and the report's words. */
#include "tests/unit/bundle_fixture.h"
#include "tests/unit/scatter.h"

#include "bundle/schema.h"
#include "run/records.h"

#include <math.h>

#define DIR "tests/vectors/results/"

/* "results" of run.json from the lines of one rank; NULL: they are not those of such a run. */
static json_t *results_of_text(const char *text, size_t size, const struct rp_recipe *r, double flops, int complete,
                               struct rp_err *err)
{
    struct rp_records records;
    struct rp_figures figures;
    json_t *j = NULL;
    if (rp_records_parse(&records, text, size, err) < 0)
        return NULL;
    rp_object_init(&figures, &rp_type_figures);
    figures.model.flops_per_sample = flops;
    if (rp_records_match(&records, r, NULL, complete, err) == 0) {
        rp_derive_results(&figures, &records, rp_model_of(r));
        j = rp_object_json(&figures.results, &rp_type_results);
    }
    rp_object_fini(&figures, &rp_type_figures);
    rp_records_fini(&records);
    return j;
}

/* Every value that is known is the other one's, to its last digit. */
static void compare(const json_t *is, const json_t *should, const char *path)
{
    const char *key;
    json_t *v;
    RP_BUF a = {0}, b = {0};
    if (json_is_object(is) && json_is_object(should)) {
        json_object_foreach((json_t *)is, key, v) {
            RP_FREE char *below = rp_asprintf("%s/%s", path, key);
            compare(v, json_object_get(should, key), below);
        }
        json_object_foreach((json_t *)should, key, v)
            CHECK(json_object_get(is, key), "no %s/%s", path, key);
    } else if (json_is_array(is) && json_array_size(is) == json_array_size(should)) {
        for (size_t i = 0; i < json_array_size(is); i++)
            compare(json_array_get(is, i), json_array_get(should, i), path);
    } else {
        rp_json_write_line(&a, is);
        rp_json_write_line(&b, should ? should : json_null());
        CHECK(strcmp(a.data, b.data) == 0, "%s\n#  is       %s#  expected %s", path, a.data, b.data);
    }
}

TEST(figures_equal_those_of_a_second_implementation)
{
    static const char yaml[] =
        "task: {seq_length: 128}\ntrain: {batch_size: 8}\nschedule: {decay: constant}\n"
        "measure: {warmup_steps: 2, timed_steps: 5, repeats: 3}\nevidence: {state_root_every: 4}\n";
    RP_BUF steps = {0}, expected = {0};
    struct rp_err err = {0};
    struct rp_recipe r;
    CHECK(rp_read_file(&steps, DIR "steps.jsonl", 1 << 20, &err) == 0 &&
              rp_read_file(&expected, DIR "results.json", 1 << 20, &err) == 0,
          "%s", err.msg);
    CHECK(rp_recipe_parse(&r, yaml, sizeof yaml - 1, "y", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    RP_JSON *is = results_of_text(steps.data, steps.size, &r, 2.5e9, 1, &err);
    RP_JSON *should = rp_json_parse(expected.data, expected.size, "results.json", &err);
    if (CHECK(is && should, "%s", err.msg))
        compare(is, should, "results");
    rp_recipe_fini(&r);
}

/* Lines of step records for a recipe of no warm-up, `timed` steps, and a state root after so many each; 0: after the
 * last alone. */
static json_t *results_with_roots(const char *text, int timed, int repeats, int complete, int every, struct rp_err *err)
{
    struct rp_recipe r;
    RP_FREE char *yaml =
        rp_asprintf("task: {seq_length: 16, max_predictions_per_seq: 2}\ntrain: {batch_size: 4}\n"
                    "measure: {warmup_steps: 0, timed_steps: %d, repeats: %d}\nevidence: {state_root_every: %d}\n",
                    timed, repeats, every);
    int failed = rp_recipe_parse(&r, yaml, strlen(yaml), "y", NULL, NULL, 0, err);
    CHECK(!failed, "%s", err->msg);
    json_t *j = results_of_text(text, strlen(text), &r, 1, complete, err);
    rp_recipe_fini(&r);
    return j;
}

static json_t *results_of(const char *text, int timed, int repeats, int complete, struct rp_err *err)
{
    return results_with_roots(text, timed, repeats, complete, 0, err);
}

static double real_at(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

TEST(throughput_is_samples_over_the_window_not_a_mean_of_rates)
{
    RP_BUF t = {0};
    struct rp_err err = {0};
    fx_step(&t, 0, 0, 2, 0, 1000000000, 500000000);            /* 1 s, then a state root of 0.5 s */
    fx_step(&t, 1, 0, 2, 2000000000, 3000000000, 1);           /* 0.5 s of loading, then 3 s */
    RP_JSON *j = results_with_roots(t.data, 2, 1, 0, 1, &err);
    CHECK(j, "%s", err.msg);
    /* 5 s less the root */
    CHECK(json_number_value(rp_json_at(j, "throughput/value")) == 8 / 4.5, "%.17g",
          json_number_value(rp_json_at(j, "throughput/value")));
    CHECK(real_at(j, "between_steps_s") == 0.5, "%.17g", real_at(j, "between_steps_s"));
    CHECK(real_at(json_object_get(j, "step_s"), "median") == 2 && real_at(json_object_get(j, "step_s"), "min") == 1 &&
              real_at(json_object_get(j, "step_s"), "p90") == 3,
          "step times");
    json_t *ends = (json_t *)rp_json_at(j, "throughput/interval");
    double lo = json_number_value(json_array_get(ends, 0)), hi = json_number_value(json_array_get(ends, 1));
    /* cycles of 1.5 s and 3 s: both extremes are drawn 1 time in 4 */
    CHECK(lo == 8 / 6.0 && hi == 8 / 3.0, "%.17g %.17g", lo, hi);
}

/* The smallest time that so many of a hundred steps do not exceed, of steps of 1, 2, 3 ... ms in another order. */
TEST(percentiles_are_nearest_ranks)
{
    static const struct {
        int n;
        double median, p90, p99;
    } rows[] = {{1, 1, 1, 1},    {2, 1.5, 2, 2},      {9, 5, 9, 9},       {10, 5.5, 9, 10},
                {11, 6, 10, 11}, {100, 50.5, 90, 99}, {101, 51, 91, 100}, {200, 100.5, 180, 198}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int n = rows[i].n;
        struct rp_err err = {0};
        RP_BUF t = {0};
        /* 37 divides no n */
        for (int k = 0; k < n; k++)
            fx_step(&t, k, 0, n, 1000000000ll * (k + 1), 1000000ll * ((k * 37 + 5) % n + 1), k == n - 1);
        RP_JSON *j = results_of(t.data, n, 1, 0, &err);
        const json_t *is = json_object_get(j, "step_s");
        const double ms[] = {1, rows[i].median, rows[i].p90, rows[i].p99, n};
        static const char *const keys[] = {"min", "median", "p90", "p99", "max"};
        for (int k = 0; k < 5; k++)
            CHECK(fabs(1000 * real_at(is, keys[k]) - ms[k]) < 1e-9, "%s of %d steps: %.9g ms, not %.9g", keys[k], n,
                  1000 * real_at(is, keys[k]), ms[k]);
    }
}

/* ---- what 95 % means ---- */

/* 500 runs of steps of 1 s in the mean, scattered as step times are: no step is much faster. The standard error of a
 * share of 95 % is then 1 %. */
TEST(interval_of_a_run_contains_the_true_speed_in_95_of_100_runs)
{
    enum { RUNS = 500, STEPS = 100 };
    struct rp_recipe r;
    struct rp_err err = {0};
    struct scatter s = {.state = 1};
    int inside = 0, known = 0;
    static const char yaml[] = "task: {seq_length: 16, max_predictions_per_seq: 2}\ntrain: {batch_size: 4}\n"
                               "measure: {warmup_steps: 0, timed_steps: 100, repeats: 1}\n";
    CHECK(rp_recipe_parse(&r, yaml, sizeof yaml - 1, "y", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    for (int run = 0; run < RUNS; run++) {
        RP_BUF t = {0};
        int64_t now = 1;
        for (int i = 0; i < STEPS; i++) {
            const int64_t ns = (int64_t)(1e9 * scattered(&s, 0.2));
            fx_step(&t, i, 0, STEPS, now, ns, i == STEPS - 1);
            now += ns;
        }
        RP_JSON *j = results_of_text(t.data, t.size, &r, 1, 0, &err);
        const json_t *is = rp_json_at(j, "throughput/interval");
        known += real_at(rp_json_at(j, "throughput"), "level") == 0.95;
        inside += json_number_value(json_array_get(is, 0)) <= 4 && 4 <= json_number_value(json_array_get(is, 1));
    }
    CHECK(known == RUNS, "%s", err.msg);
    CHECK(inside >= 465 && inside <= 485, "%d of %d", inside, RUNS);
    rp_recipe_fini(&r);
}

/* Steps of 0.9 s in a window and before it: what a step waited counts wherever it was, that of the warm-up nowhere. */
TEST(the_input_or_the_device_sets_the_pace)
{
    static const struct {
        int64_t waits[3];
        double waited, share;
        const char *limited_by;
    } cases[] = {{{100000000, 100000000, 100000000}, 0.3, 0.1, "input"},
                 {{100000000, 100000000, 99999999}, 0.299999999, 0.0999999997, "device"},
                 {{0, 0, 0}, 0, 0, "device"},
                 {{0, 0, 900000000}, 0.9, 0.25, "input"}};
    struct rp_err err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF t = {0};
        for (int k = 0; k < 3; k++) {
            fx_input_ns = cases[i].waits[k];
            fx_step(&t, k, 0, 3, 1000000000 + k * 2000000000ll, 900000000, k == 2);
        }
        fx_input_ns = 0;
        RP_JSON *j = results_of(t.data, 3, 1, 0, &err);
        const json_t *is = json_object_get(j, "input");
        CHECK(real_at(is, "waited_s") == cases[i].waited && fabs(real_at(is, "share") - cases[i].share) < 1e-9,
              "case %zu: %.17g s, %.17g", i, real_at(is, "waited_s"), real_at(is, "share"));
        CHECK_STR(rp_json_text_at(is, "limited_by"), cases[i].limited_by);
        CHECK(real_at(is, "median_s") == (i < 2 ? 0.1 : 0), "case %zu: %.17g", i, real_at(is, "median_s"));
    }
    RP_JSON *none = results_of("", 3, 1, 0, &err);
    CHECK(json_is_null(rp_json_at(none, "input/limited_by")) && json_is_null(rp_json_at(none, "input/share")),
          "nothing was timed");
}

TEST(repeats_become_one_figure_by_their_median)
{
    RP_BUF t = {0};
    struct rp_err err = {0};
    int64_t now = 0, ns[4] = {1000000000, 4000000000, 2000000000, 500000000};
    for (int i = 0; i < 4; i++) {
        fx_step(&t, i, 0, 1, now, ns[i], i == 3);
        now += ns[i];
    }
    RP_JSON *j = results_of(t.data, 1, 4, 0, &err); /* 4, 1, 2, 8 samples/s */
    CHECK(json_number_value(rp_json_at(j, "throughput/value")) == 3, "%.17g: %s",
          json_number_value(rp_json_at(j, "throughput/value")), err.msg);
    CHECK(json_array_size(json_object_get(j, "windows")) == 4, "windows");
}

TEST(little_or_nothing_measured_is_null_and_never_zero)
{
    struct rp_err err = {0};
    RP_BUF one = {0};
    RP_JSON *none = results_of("", 3, 1, 0, &err);
    CHECK(none && json_is_null(rp_json_at(none, "throughput/value")) && !json_object_get(none, "step_s") &&
              json_is_null(json_object_get(none, "loss_last")) && json_is_null(json_object_get(none, "flops_per_s")),
          "%s", err.msg);
    fx_step(&one, 0, 0, 3, 0, 2000000000, 0);
    RP_JSON *j = results_of(one.data, 3, 1, 0, &err);
    CHECK(json_number_value(rp_json_at(j, "throughput/value")) == 2 &&
              json_is_null((json_t *)rp_json_at(j, "throughput/interval")),
          "%s", err.msg);
}

/* Two good steps, with one text replaced by another. */
static void bent(const char *from, const char *to, enum rp_code code)
{
    RP_BUF t = {0};
    struct rp_err err = {0};
    fx_step(&t, 0, 0, 2, 1000, 100, 50);
    fx_step(&t, 1, 0, 2, 2000, 100, 50);
    fx_bend(&t, from, to);
    RP_JSON *j = results_with_roots(t.data, 2, 1, 0, 1, &err);
    CHECK(!j && err.code == code, "'%s' for '%s': %s", to, from, j ? "accepted" : err.msg);
    SAID(err.msg);
}

/* The first step takes 100 ns. overlap_ns is not part of exchange_ns, and of one of several ranks only. */
static int parse_exchanges(struct rp_records *rs, int exchange_ns, int overlap_ns, struct rp_err *err)
{
    RP_BUF t = {0};
    RP_FREE char *exchange = rp_asprintf("\"end_ns\":1100,\"exchange_ns\":%d,", exchange_ns);
    RP_FREE char *overlap = rp_asprintf("\"overlap_ns\":%d,\"phase\":\"timed\"", overlap_ns);
    fx_step(&t, 0, 0, 2, 1000, 100, 50);
    if (exchange_ns >= 0)
        fx_bend(&t, "\"end_ns\":1100,", exchange);
    fx_bend(&t, "\"phase\":\"timed\"", overlap);
    if (exchange_ns >= 0)
        fx_bend(&t, "\"step\":0", "\"step\":0,\"wait_ns\":7");
    *rs = (struct rp_records){0};
    return rp_records_parse(rs, t.data, t.size, err);
}

/* With several ranks the larger one of both sets the pace, if it is at least a tenth. */
TEST(exchanges_may_set_the_pace)
{
    static const struct {
        int64_t input, exchange; /* ns, of a second */
        const char *limited_by;
    } cases[] = {{0, 99000000, "device"},
                 {0, 100000000, "exchange"},
                 {200000000, 150000000, "input"},
                 {150000000, 200000000, "exchange"}};
    struct rp_err err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF t = {0};
        fx_input_ns = cases[i].input;
        fx_step(&t, 0, 0, 3, 1000000000, 1000000000 - cases[i].input, 1);
        fx_input_ns = 0;
        char exchange[64];
        fx_bend(&t, "\"grad_norm\"",
                RP_FORMAT(exchange, "\"exchange_ns\":%lld,\"grad_norm\"", (long long)cases[i].exchange));
        fx_bend(&t, "\"step\":0", "\"step\":0,\"wait_ns\":7");
        RP_JSON *j = results_of(t.data, 1, 1, 0, &err);
        const json_t *is = json_object_get(j, "input");
        CHECK_STR(rp_json_text_at(is, "limited_by"), cases[i].limited_by);
        CHECK(fabs(real_at(is, "exchange_share") - (double)cases[i].exchange * 1e-9) < 1e-9, "case %zu: %.17g", i,
              real_at(is, "exchange_share"));
    }
}

TEST(exchanges_beside_the_backward_pass)
{
    struct rp_records rs;
    struct rp_err err = {0};
    CHECK(parse_exchanges(&rs, 60, 40, &err) == 0 && rs.overlaps && rs.overlap_ns == 40, "%s", err.msg);
    const struct rp_record_times t = rp_record_times(&rs, &rs.r[0]);
    CHECK(t.exchange_ns == 60 && t.wait_ns == 7 && t.device_ns == -1, "%lld, %lld", (long long)t.exchange_ns,
          (long long)t.wait_ns);
    rp_records_fini(&rs);
    CHECK(parse_exchanges(&rs, 60, 41, &err) < 0 && err.code == RP_MISMATCH, "more than the step: %s", err.msg);
    CHECK(parse_exchanges(&rs, 60, -1, &err) < 0 && err.code == RP_MALFORMED, "negative: %s", err.msg);
    CHECK(parse_exchanges(&rs, -1, 4, &err) < 0 && err.code == RP_MALFORMED, "without exchange_ns: %s", err.msg);
}

TEST(records_that_make_no_sense_are_refused_with_their_line)
{
    bent("\"loss\":\"0x1.9p+2\"", "\"loss\":\"nan\"", RP_MISMATCH);
    bent("\"loss\":\"0x1.9p+2\"", "\"loss\":\"inf\"", RP_MISMATCH);
    bent("\"loss\":\"0x1.9p+2\"", "\"loss\":\"6.25\"", RP_MALFORMED);
    bent("\"loss\":\"0x1.9p+2\"", "\"loss\":\"0x3.2p+1\"", RP_MALFORMED);
    bent("\"loss\":\"0x1.9p+2\"", "\"loss\":6.25", RP_MALFORMED);
    bent("\"loss\":\"0x1.9p+2\",", "", RP_MALFORMED);
    bent("\"grad_norm\":\"0x1.2p+1\"", "\"grad_norm\":\"-inf\"", RP_MISMATCH);
    bent("\"end_ns\":1100", "\"end_ns\":1000", RP_MISMATCH);
    bent("\"end_ns\":1100", "\"end_ns\":-5", RP_MALFORMED);
    bent("\"end_ns\":1100", "\"end_ns\":99999999999999999999", RP_MALFORMED);
    bent("\"end_ns\":1100", "\"end_ns\":2001", RP_MISMATCH);
    bent("\"root_ns\":50", "\"root_ns\":901", RP_MISMATCH);
    bent("\"root_ns\":50,", "", RP_MALFORMED);
    bent("\"step\":1", "\"step\":2", RP_MALFORMED);
    bent("\"step\":0", "\"step\":1", RP_MALFORMED);
    bent("\"repeat\":0", "\"repeat\":1", RP_MISMATCH);
    bent("\"phase\":\"timed\"", "\"phase\":\"warm-up\"", RP_MISMATCH);
    bent("\"phase\":\"timed\"", "\"phase\":\"sleep\"", RP_MALFORMED);
    bent("\"phase\":\"timed\"", "\"phase\":\"init\"", RP_MALFORMED);
    bent("\"samples\":4", "\"samples\":5", RP_MISMATCH);
    bent("\"samples\":4", "\"samples\":0", RP_MALFORMED);
    bent("\"samples\":4", "\"samples\":9223372036854775807", RP_MALFORMED);
    bent("\"tokens\":50", "\"tokens\":65", RP_MISMATCH);
    bent("\"tokens\":50", "\"tokens\":-1", RP_MALFORMED);
    bent("\"tokens\":50", "\"tokens\":4294967296", RP_MALFORMED);
    bent("\"tokens\":50", "\"tokens\":\"50\"", RP_MALFORMED);
    bent("\"padded_tokens\":64", "\"padded_tokens\":60", RP_MISMATCH);
    bent("\"tokens\":50", "\"words\":50", RP_MALFORMED);
    bent("\"tokens\":51", "\"words\":51", RP_MALFORMED);
    bent(",\"tokens\":51", "", RP_MALFORMED);
    bent("\"tokens\":51", "\"tokens\":51,\"words\":3", RP_MALFORMED);
    bent("\"padded_tokens\":64,\"tokens\":50", "\"tokens\":50,\"padded_tokens\":64", RP_MALFORMED);
    bent("\"counters\":{\"padded_tokens\":64,\"tokens\":50}", "\"counters\":{}", RP_MALFORMED);
    bent("\"counters\":{\"padded_tokens\":64,\"tokens\":50}", "\"counters\":7", RP_MALFORMED);
    bent("\"counters\":{\"padded_tokens\":64,\"tokens\":51},", "", RP_MALFORMED);
    bent("\"mlm\":\"0x1.9p+2\"", "\"mlm\":\"nan\"", RP_MISMATCH);
    bent("\"mlm\":\"0x1.9p+2\"", "\"mlm\":\"0x1.8p+2\"", RP_MISMATCH);
    bent("\"nsp\":\"0x0p+0\"", "\"nsp\":\"none\"", RP_MALFORMED);
    bent("\"mlm\":\"0x1.9p+2\"", "\"mlm\":{}", RP_MALFORMED);
    bent("\"rank\":0", "\"rank\":1", RP_MALFORMED);
    bent("\"rank\":0,", "", RP_MALFORMED);
    bent("\"step\":1}\n", "\"step\":1}", RP_MALFORMED);
    bent("\"step\":1}\n", "\"step\":1}\n\n", RP_MALFORMED);
    bent("\"step\":0}\n", "\"step\":0,\"step\":0}\n", RP_MALFORMED);
    bent("\"state_root\":\"0", "\"state_root\":\"F", RP_MALFORMED);
    bent("\"input_ns\":0", "\"input_ns\":1001", RP_MISMATCH); /* the clock stood at 1000 */
    bent("\"input_ns\":0,", "", RP_MALFORMED);
    bent("\"input_ns\":0", "\"input_ns\":-1", RP_MALFORMED);
    bent("\"input_ns\":0", "\"input_ns\":0.5", RP_MALFORMED);
    bent("\"learning_rate\":9", "\"learning_rate\":-9", RP_MALFORMED);
    bent("\"learning_rate\":9", "\"learning_rate\":7", RP_MISMATCH);
    /* a whole number */
    bent("\"learning_rate\":9.9999899999999998e-05", "\"learning_rate\":1234567890123456789", RP_MALFORMED);
    bent("\"end_ns\":1100,", "\"end_ns\":1100,\"exchange_ns\":101,", RP_MISMATCH);  /* longer than the step */
    bent("\"end_ns\":1100,", "\"end_ns\":1100,\"exchange_ns\":60,", RP_MALFORMED);  /* in one step only */
    bent("\"samples\":4,\"start_ns\":2000", "\"samples\":5,\"start_ns\":2000", RP_MISMATCH);
}

/* Every place where `from` stands. */
static void replace_all(struct rp_buf *text, const char *from, const char *to)
{
    RP_BUF out = {0};
    const char *at = rp_buf_text(text), *next;
    for (; *from && (next = strstr(at, from)); at = next + strlen(from)) {
        rp_buf_add(&out, at, (size_t)(next - at));
        rp_buf_puts(&out, to);
    }
    rp_buf_puts(&out, at);
    rp_buf_fini(text);
    *text = out;
    out = (struct rp_buf){0};
}

/* The second of two ranks, whose records are those of the first but for some texts. */
TEST(ranks_that_disagree_are_refused_with_their_file)
{
    static const char first[] = "0x1.9p+2", root[] = FX_ROOT;
    static const struct {
        const char *what, *from, *to, *also, *to_also;
    } rows[] = {
        {"the loss", first, "0x1.8p+2", "", ""},
        {"parts of the same sum", "\"loss_parts\":{\"mlm\":\"0x1.9p+2\",\"nsp\":\"0x0p+0\"}",
         "\"loss_parts\":{\"mlm\":\"0x1.8p+2\",\"nsp\":\"0x1p-2\"}", "", ""},
        {"the norm", "\"grad_norm\":\"0x1.2p+1\"", "\"grad_norm\":\"0x1.3p+1\"", "", ""},
        {"the learning rate", "\"learning_rate\":9.9999899999999998e-05", "\"learning_rate\":9e-05", "", ""},
        {"the phase", "\"phase\":\"timed\"", "\"phase\":\"warm-up\"", "", ""},
        {"the repeat", "\"repeat\":0", "\"repeat\":1", "", ""},
        {"the state", root, "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "", ""},
        {"no state root", "\"root_ns\":50,", "", "\"state_root\":\"" FX_ROOT "\",", ""},
        {"names of counters", "\"tokens\"", "\"words\"", "", ""},
        {"names of parts", "\"nsp\"", "\"sop\"", "", ""},
    };
    for (size_t i = 0; i <= sizeof rows / sizeof *rows; i++) {
        struct rp_all_ranks a;
        struct rp_records all = {0}, one = {0}, other = {.rank = 1};
        struct rp_err err = {0};
        RP_BUF t = {0};
        const int shorter = i == sizeof rows / sizeof *rows;
        fx_step(&t, 0, 0, 2, 1000, 100, 50);
        fx_step(&t, 1, 0, 2, 2000, 100, 50);
        CHECK(rp_records_parse(&one, t.data, t.size, &err) == 0, "%s", err.msg);
        replace_all(&t, "\"rank\":0", "\"rank\":1");
        if (shorter) {
            t.size = (size_t)(strchr(t.data, '\n') + 1 - t.data);
        } else {
            replace_all(&t, rows[i].from, rows[i].to);
            replace_all(&t, rows[i].also, rows[i].to_also);
        }
        const char *what = shorter ? "a record less" : rows[i].what;
        struct rp_records_in in = {.out = &other};
        CHECK(rp_records_piece(&in, t.data, t.size, &err) == 0 && rp_records_end(&in, root, &err) == 0, "%s: %s", what,
              err.msg);
        rp_all_ranks_init(&a, (struct rp_degrees){2, 1, 1});
        CHECK(rp_all_ranks_add(&a, &all, &one, &err) == 0, "%s: %s", what, err.msg);
        CHECK(rp_all_ranks_add(&a, &all, &other, &err) < 0 && err.code == RP_MISMATCH &&
                  strstr(err.msg, "steps/rank1.jsonl"),
              "%s: %s", what, err.msg);
        rp_records_fini(&other);
        rp_records_fini(&all);
        rp_all_ranks_fini(&a);
    }
}

TEST(a_complete_run_has_all_its_steps_and_both_roots)
{
    RP_BUF t = {0}, no_init = {0}, no_last = {0}, more = {0};
    struct rp_err err = {0};
    fx_records(&t, 0, 2, 1);
    RP_JSON *j = results_of(t.data, 2, 1, 1, &err);
    CHECK(j, "%s", err.msg);
    RP_JSON *few = results_of(t.data, 3, 1, 1, &err);
    CHECK(!few && err.code == RP_MISMATCH, "%s", err.msg);
    SAID(err.msg);
    RP_JSON *many = results_of(t.data, 1, 1, 0, &err);
    CHECK(!many, "an incomplete run of more steps than asked for");
    SAID(err.msg);
    rp_buf_puts(&no_init, strchr(t.data, '\n') + 1);
    RP_JSON *a = results_of(no_init.data, 2, 1, 1, &err);
    CHECK(!a, "no state root before the first step");
    SAID(err.msg);
    fx_step(&no_last, 0, 0, 1, 0, 10, 0);
    rp_buf_puts(&more, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    rp_buf_puts(&more, no_last.data);
    RP_JSON *b = results_of(more.data, 1, 1, 1, &err);
    CHECK(!b, "no state root after the last step");
    SAID(err.msg);
}

/* What a root took is no part of the throughput: whoever puts one where the recipe has none would be faster by it. */
TEST(state_roots_are_where_the_recipe_asks_for_them)
{
    static const struct {
        int every, with[4], good; /* after which of four steps there is one */
    } cases[] = {
        {0, {0, 0, 0, 1}, 1}, {0, {0, 0, 0, 0}, 0}, {0, {0, 1, 0, 1}, 0}, {0, {1, 1, 1, 1}, 0},
        {2, {0, 1, 0, 1}, 1}, {2, {0, 0, 0, 1}, 0}, {2, {1, 1, 0, 1}, 0}, {3, {0, 0, 1, 1}, 1},
        {3, {0, 0, 1, 0}, 0}, {1, {1, 1, 1, 1}, 1}, {1, {1, 0, 1, 1}, 0}, {5, {0, 0, 0, 1}, 1},
    };
    /* of a run that was broken off: the last one of all may be missing */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int steps = 1; steps <= 4; steps++) {
            RP_BUF t = {0};
            struct rp_err err = {0};
            int bad = -1;
            for (int k = 0; k < steps; k++) {
                fx_step(&t, k, 0, 4, 1000 + 1000 * k, 100, cases[i].with[k]);
                int due = k == 3 || (cases[i].every && (k + 1) % cases[i].every == 0);
                bad = bad < 0 && due != cases[i].with[k] ? k : bad;
            }
            RP_JSON *j = results_with_roots(t.data, 4, 1, 0, cases[i].every, &err);
            CHECK(steps < 4 || cases[i].good == (bad < 0), "case %zu", i);
            CHECK(bad < 0 ? j != NULL : !j && err.code == RP_MISMATCH, "case %zu, %d steps: %s", i, steps, err.msg);
            SAID(bad < 0 ? "good" : err.msg);
        }
}

TEST(the_report_repeats_run_json_and_nothing_acts_in_it)
{
    struct rp_err err;
    char number[64];
    RP_BUF text = {0}, again = {0}, title = {0}, device = {0}, failed = {0};
    FX(x);
    json_object_clear(json_object_get(json_object_get(x.before, "probes"), "program")); /* every build is another */
    fx_report(&text, &x);
    SAID(text.data); /* the whole report */
    snprintf(number, sizeof number, "| **%.3f** |", x.doc->figures.results.throughput.value);
    CHECK(strstr(text.data, number), "no %s", number);
    fx_report(&again, &x);
    CHECK_STR(again.data, text.data);
    json_object_set_new((json_t *)rp_json_at(x.facts, "recipe/title"), "value", json_string("a\n# b\033[2J`c`"));
    fx_report(&title, &x);
    CHECK(strncmp(title.data, "# a \\# b \\[2J\\`c\\`\n", 19) == 0 && !strchr(title.data, 27), "%.40s", title.data);
    /* CSI, C1, bidi override and isolate, mark */
    set_path(x.facts, "rank/0/device/name", json_string("\033[31m\302\233\342\200\256\342\201\246\330\234"));
    fx_report(&device, &x);
    CHECK(strstr(device.data, "\\[31m") && !strchr(device.data, 27) && !strstr(device.data, "\302\233") &&
              !strstr(device.data, "\342\200\256") && !strstr(device.data, "\342\201\246") &&
              !strstr(device.data, "\330\234"),
          "the terminal obeys the device's name");
    CHECK(fx_documents(&x, "failed", "the worker crashed", &err) == 0, "%s", err.msg);
    fx_report(&failed, &x);
    CHECK(strncmp(failed.data, "# FAILED RUN: tiny\n", 19) == 0, "%.80s", failed.data);
}
