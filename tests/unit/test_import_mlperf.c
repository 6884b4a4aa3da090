/* MLPerf results: times to train, scores by MLPerf's rule, and the machine of systems/NAME.json. */
#include "base/sort.h"
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

#include <stdint.h>

#define RUNS 41

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* The lines of a run of some minutes; status NULL: it has no run_stop. */
static char *log_of(const char *benchmark, int batch, int64_t start_ms, int64_t ms, const char *status)
{
    RP_BUF log = {0};
    rp_buf_printf(&log,
                  ":::MLLOG {\"time_ms\": 5, \"key\": \"submission_benchmark\", \"value\": \"%s\", \"metadata\": {}}\n",
                  benchmark);
    rp_buf_puts(&log, ":::MLLOG {\"time_ms\": 5, \"key\": \"submission_org\", \"value\": \"ORG\", \"metadata\": {}}\n");
    rp_buf_puts(
        &log, ":::MLLOG {\"time_ms\": 5, \"key\": \"submission_platform\", \"value\": \"2 x P\", \"metadata\": {}}\n");
    rp_buf_printf(&log, ":::MLLOG {\"time_ms\": 6, \"key\": \"global_batch_size\", \"value\": %d, \"metadata\": {}}\n",
                  batch);
    rp_buf_printf(&log, ":::MLLOG {\"time_ms\": %lld, \"key\": \"run_start\", \"value\": null, \"metadata\": {}}\n",
                  (long long)start_ms);
    if (status)
        rp_buf_printf(&log,
                      ":::MLLOG {\"time_ms\": %lld, \"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": "
                      "\"%s\"}}\n",
                      (long long)(start_ms + ms), status);
    return rp_buf_take(&log);
}

/* The same lines in another order, some of them twice and with the tag of a process. */
static char *disturbed(const char *log)
{
    const char *line[16];
    RP_BUF out = {0};
    int n = 0;
    for (const char *p = log; *p; p = strchr(p, '\n') + 1)
        line[n++] = p;
    for (int i = n - 1; i > 0; i--) {
        const int k = (int)draw((uint64_t)i + 1);
        const char *other = line[i];
        line[i] = line[k];
        line[k] = other;
    }
    for (int i = 0; i < n; i++)
        for (uint64_t times = 1 + draw(2); times; times--)
            rp_buf_printf(&out, "%s%.*s", draw(2) ? "0: " : "", (int)(strchr(line[i], '\n') + 1 - line[i]), line[i]);
    return rp_buf_take(&out);
}

struct runs {
    int n;
    char *log[RUNS];
    char path[RUNS][80];
    double minutes[RUNS];
};

static void make_runs(struct runs *r, const char *benchmark, int n)
{
    r->n = n;
    for (int i = 0; i < n; i++) {
        const int64_t ms = 600000 + (int64_t)draw(600000);
        r->minutes[i] = (double)ms / 60000;
        r->log[i] = log_of(benchmark, 64, 1700000000000 + 1000000 * i, ms, "success");
        snprintf(r->path[i], sizeof r->path[i], "round/ORG/results/M/%s/result_%d.txt", benchmark, i);
    }
}

static void replace(struct runs *r, int i, char *log)
{
    free(r->log[i]);
    r->log[i] = log;
}

static void free_runs(struct runs *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->log[i]);
}

static json_t *import_runs(const struct runs *r, const char *system_path, const char *system)
{
    struct file f[RUNS + 1];
    for (int i = 0; i < r->n; i++)
        f[i] = (struct file){r->path[i], r->log[i]};
    if (system)
        f[r->n] = (struct file){system_path, system};
    return import_with("mllog", f, r->n + (system != NULL), &plain);
}

static double real_at(const json_t *doc, const char *key)
{
    const json_t *v = json_object_get(row(doc, 0), key);
    return v ? json_number_value(v) : NAN;
}

static double score(const json_t *doc)
{
    return real_at(doc, "score_min");
}

/* By the definition: sorted, without `drop` at either end. */
static double expected_score(const struct runs *r, int drop)
{
    double t[RUNS], sum = 0;
    memcpy(t, r->minutes, sizeof t);
    rp_sort_double(t, (size_t)r->n);
    for (int i = drop; i < r->n - drop; i++)
        sum += t[i];
    return sum / (r->n - 2 * drop);
}

static const struct {
    const char *benchmark;
    int runs, drop;
} rules[] = {{"bert", 10, 1}, {"resnet", 5, 1}, {"gpt3", 3, 1}, {"llama31_8b", 10, 1}, {"unet3d", 40, 4}};

TEST(score_is_the_mean_without_fastest_and_slowest_in_any_order_of_files_and_lines)
{
    state = 1;
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        for (int pass = 0; pass < 4; pass++) {
            struct runs r = {0};
            make_runs(&r, rules[k].benchmark, rules[k].runs);
            for (int i = 0; pass && i < r.n; i++)
                replace(&r, i, disturbed(r.log[i]));
            RP_JSON *doc = import_runs(&r, NULL, NULL);
            if (CHECK(doc, "%s: %s", rules[k].benchmark, err.msg)) {
                CHECK(json_array_size(json_object_get(doc, "rows")) == 1);
                NEAR(score(doc), expected_score(&r, rules[k].drop));
                CHECK(isnan(real_at(doc, "time_to_train_min")), "a score is not the time of one run");
                SAID(strstr(note(doc, 0), "score: the mean of") ? note(doc, 0) : "");
            }
            free_runs(&r);
        }
}

TEST(time_to_train_of_each_run_names_its_lines)
{
    state = 2;
    struct runs r = {0};
    make_runs(&r, "bert", 2);
    RP_JSON *two = import_runs(&r, NULL, NULL);
    r.n = 1;
    RP_JSON *one = import_runs(&r, NULL, NULL);
    r.n = 2;
    if (CHECK(one && two, "%s", err.msg)) {
        NEAR(real_at(one, "time_to_train_min"), r.minutes[0]);
        CHECK(isnan(score(one)) && isnan(score(two)));
        for (size_t i = 0; i < 2; i++)
            CHECK_STR(from(two, i, "time_to_train_min"), "[5,6]");
        CHECK(strstr(note(two, 0), "10 runs") && strstr(note(one, 0), "10 runs"), "%s", note(one, 0));
        CHECK_STR(rp_json_text_at(two, "provenance/sources/1/file"), "M/bert/result_1.txt");
    }
    free_runs(&r);
}

TEST(another_number_of_runs_than_the_rule_has_no_score)
{
    state = 3;
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        for (int more = -1; more <= 1; more += 2) {
            struct runs r = {0};
            make_runs(&r, rules[k].benchmark, rules[k].runs + more);
            RP_JSON *doc = import_runs(&r, NULL, NULL);
            CHECK(doc && isnan(score(doc)) && strstr(note(doc, 0), "no score"), "%s: %s", rules[k].benchmark,
                  doc ? note(doc, 0) : err.msg);
            free_runs(&r);
        }
    struct runs r = {0};
    make_runs(&r, "a_benchmark_of_tomorrow", 10);
    RP_JSON *doc = import_runs(&r, NULL, NULL);
    CHECK(doc && isnan(score(doc)) && strstr(note(doc, 0), "not known"), "%s", doc ? note(doc, 0) : err.msg);
    free_runs(&r);
}

/* A run that did not converge is the slowest, whatever its time; one without an end may be a log that was cut. */
TEST(runs_that_failed_are_the_slowest_and_cut_logs_give_no_score)
{
    state = 4;
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        for (int failed = 1; failed <= rules[k].drop + 1; failed++)
            for (int cut = 0; cut < 2; cut++) {
                struct runs r = {0};
                make_runs(&r, rules[k].benchmark, rules[k].runs);
                for (int i = 0; i < failed; i++) {
                    replace(&r, i,
                            log_of(rules[k].benchmark, 64, 1700000000000 + 1000000 * i, 1000, cut ? NULL : "aborted"));
                    r.minutes[i] = 1e6;
                }
                RP_JSON *doc = import_runs(&r, NULL, NULL);
                if (!CHECK(doc, "%s", err.msg)) {
                } else if (failed > rules[k].drop || cut) {
                    CHECK(isnan(score(doc)) && strstr(note(doc, 0), "no score"), "%s: %s", rules[k].benchmark,
                          note(doc, 0));
                } else {
                    NEAR(score(doc), expected_score(&r, rules[k].drop));
                    CHECK(strstr(note(doc, 0), "did not converge"), "%s", note(doc, 0));
                }
                free_runs(&r);
            }
}

TEST(two_runs_in_one_log_give_both_readings_and_no_time)
{
    RP_FREE char *a = log_of("bert", 64, 1700000000000, 600000, "success"),
                 *b = log_of("bert", 64, 1700001000000, 1200000, "success");
    RP_FREE char *both = rp_asprintf("%s%s", a, b);
    RP_JSON *doc = import_one("mllog", "result_0.txt", both);
    if (CHECK(doc, "%s", err.msg)) {
        CHECK(isnan(real_at(doc, "time_to_train_min")), "of which run?");
        CHECK(strstr(note(doc, 0), "lines 5 and 11") && strstr(note(doc, 0), " 10 or "), "%s", note(doc, 0));
    }
}

TEST(a_run_that_is_given_twice_is_refused)
{
    state = 5;
    struct runs r = {0};
    make_runs(&r, "gpt3", 3);
    replace(&r, 2, disturbed(r.log[0]));
    RP_JSON *doc = import_runs(&r, NULL, NULL);
    CHECK(!doc && err.code == RP_USAGE && strstr(err.msg, "M/gpt3/result_0.txt") &&
              strstr(err.msg, "M/gpt3/result_2.txt"),
          "%s", err.msg);
    free_runs(&r);
}

TEST(runs_of_other_settings_have_no_score)
{
    state = 6;
    struct runs r = {0};
    make_runs(&r, "gpt3", 3);
    replace(&r, 1, log_of("gpt3", 32, 1700000000000 + 1000000, 900000, "success"));
    RP_JSON *doc = import_runs(&r, NULL, NULL);
    if (CHECK(doc, "%s", err.msg)) {
        CHECK(isnan(score(doc)) && strstr(note(doc, 0), "global_batch"), "%s", note(doc, 0));
        CHECK(!json_object_get(row(doc, 0), "global_batch"), "it differs");
    }
    free_runs(&r);
}

#define SYSTEM                                                                                                         \
    "{\n \"submitter\": \"ORG\", \"system_name\": \"M\",\n \"number_of_nodes\": \"2\", \"accelerators_per_node\": "    \
    "8,\n"                                                                                                             \
    " \"accelerator_model_name\": \"Test GPU 80GB\", \"framework\": \"F 1.0\"\n}\n"

TEST(a_system_gives_devices_machines_and_software)
{
    state = 7;
    struct runs r = {0};
    make_runs(&r, "resnet", 5);
    RP_JSON *doc = import_runs(&r, "round/ORG/systems/M.json", SYSTEM);
    if (CHECK(doc, "%s", err.msg)) {
        NEAR(score(doc), expected_score(&r, 1));
        CHECK(count(doc, 0, "nodes") == 2 && count(doc, 0, "gpus_per_node") == 8 && count(doc, 0, "devices") == 16);
        CHECK_STR(text(doc, 0, "device_model"), "Test GPU 80GB");
        CHECK_STR(text(doc, 0, "framework"), "F 1.0");
        CHECK_STR(from(doc, 0, "nodes"), "\"M.json\"");
        CHECK(json_array_size(json_object_get(json_object_get(doc, "provenance"), "sources")) == 6);
    }
    free_runs(&r);
}

TEST(a_line_of_sysjson_gives_the_same)
{
    RP_FREE char *log = log_of("bert", 64, 1700000000000, 600000, "success");
    RP_FREE char *all =
        rp_asprintf("+ echo ':::SYSJSON {\"number_of_nodes\":\"9\"}'\n:::SYSJSON "
                    "{\"number_of_nodes\":\"1\",\"accelerators_per_node\":\"4\",\"accelerator_model_name\":\"G\"}\n%s",
                    log);
    RP_JSON *doc = import_one("mllog", "result_0.txt", all);
    if (CHECK(doc, "%s", err.msg)) {
        CHECK(count(doc, 0, "nodes") == 1 && count(doc, 0, "devices") == 4, "%s", note(doc, 0));
        CHECK_STR(from(doc, 0, "nodes"), "2");
        CHECK_STR(text(doc, 0, "device_model"), "G");
    }
}

TEST(a_system_of_other_logs_is_refused)
{
    state = 8;
    struct runs r = {0};
    make_runs(&r, "gpt3", 3);
    static const struct {
        const char *path, *text, *part;
        enum rp_code code;
    } bad[] = {
        {"round/ORG/systems/N.json", SYSTEM, "systems/M.json", RP_USAGE},
        {"round/ORG/systems/M.json", "{\"submitter\": \"ORG\"}", "number_of_nodes", RP_MALFORMED},
        {"round/ORG/systems/M.json", "{\"submitter\": ", "neither a log", RP_MALFORMED},
        {"round/ORG/systems/M.json", "{\"number_of_nodes\": \"1\"}", "accelerators_per_node", RP_MALFORMED},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_JSON *doc = import_runs(&r, bad[i].path, bad[i].text);
        CHECK(!doc && err.code == bad[i].code && strstr(err.msg, bad[i].part), "%zu: %s", i, doc ? "read" : err.msg);
    }
    struct file twice[] = {{"systems/M.json", SYSTEM}, {"other/M.json", SYSTEM}};
    CHECK(!import_with("mllog", twice, 2, &plain) && err.code == RP_USAGE && strstr(err.msg, "twice"), "%s", err.msg);
    CHECK(!import_with("mllog", twice, 1, &plain) && err.code == RP_USAGE && strstr(err.msg, "no logs"), "%s", err.msg);
    for (int i = 0; i < r.n; i++) /* logs of one folder without MLPerf's layout: the only description is theirs */
        snprintf(r.path[i], sizeof r.path[i], "logs/result_%d.txt", i);
    RP_JSON *plainly = import_runs(&r, "N.json", SYSTEM);
    CHECK(plainly && count(plainly, 0, "devices") == 16, "%s", err.msg);
    free_runs(&r);
}
