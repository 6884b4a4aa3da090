/* The machines of runs: what counts as one machine, as other work and as a device; and which facts and figures are
 * compared. */
#include "compare/compare.h"

#include "base/json.h"
#include "compare/layout.h"
#include "report/escape.h"
#include "verify/verify.h"
#include "tests/unit/compare_fixture.h"
#include "tests/unit/compare_rows.h"

#include <math.h>
#include <stdlib.h>

/* ---- machines ---- */

static json_t *leaf(const char *json)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    CHECK(value, "%s", json);
    return json_pack("{s:s, s:s, s:o}", "state", "ok", "source", "test", "value", value);
}

/* A capture of two CPUs; path=JSON pairs, ended by NULL, replace values of it. */
static json_t *capture(const char *const *change)
{
    static const char *const values[][3] = {{"cpu", "model_name", "\"Xeon\""}, {"cpu", "family", "\"6\""},
                                            {"cpu", "model", "\"207\""}, {"cpu", "stepping", "\"8\""},
                                            {"cpu", "cores", "2"}, {"cpu", "online", "\"0-1\""},
                                            {"cpu", "allowed", "\"0-1\""}, {"kernel", "load_1min", "0.1"},
                                            {"kernel", "tasks_running", "1"}, {"gpu", "count", "0"},
                                            {"frequency", "governor", "\"performance\""}};
    json_t *probes = json_object();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const char *value = values[i][2];
        for (const char *const *c = change; c && *c; c += 2)
            value = strcmp(c[0], values[i][1]) == 0 ? c[1] : value;
        if (!json_object_get(probes, values[i][0]))
            json_object_set_new(probes, values[i][0], json_object());
        if (*value)
            json_object_set_new(json_object_get(probes, values[i][0]), values[i][1], leaf(value));
    }
    return json_pack("{s:b, s:s, s:o}", "identified", 1, "salt", "x", "probes", probes);
}

/* "isa=avx512 threads=2" of rank 0; "" of a worker that never said. */
static void set_processor(struct rp_run_documents *d, const char *text)
{
    char isa[16];
    int threads;
    if (!*text)
        return;
    CHECK(sscanf(text, "isa=%15s threads=%d", isa, &threads) == 2, "%s", text);
    struct rp_device_facts *device = d->facts.rank[0].device = rp_alloc(sizeof *device);
    rp_object_init(device, &rp_type_device_facts);
    device->kind = rp_strdup("cpu");
    device->name = rp_strdup("");
    device->isa = rp_strdup(isa);
    device->threads = threads;
}

static struct rp_run run_of(struct rp_run_documents *d, struct rp_captures *node)
{
    return (struct rp_run){.doc = d, .facts = &d->facts, .figures = &d->figures, .node = node, .nodes = 1};
}

/* Its row, as of a bundle that verified; takes the reference. */
static struct rp_result *add_run(struct rp_rows *rows, struct rp_run_documents *d, json_t *env)
{
    struct rp_verification v = {.run = d, .fingerprint = "SHA256:x"};
    struct rp_captures node = {.before = env};
    struct rp_verified kept = {.run = run_of(d, &node)};
    struct rp_result *row = rp_rows_add_verified(rows, &v, &kept);
    rp_run_documents_free(d);
    return row;
}

/* The row of a verified bundle with that device and that capture; everything that they do not say is as in
 * complete(). */
static struct rp_result *run_on(struct rp_rows *rows, const char *device, const char *const *change)
{
    struct rp_rows of = {0};
    RP_JSON *env = capture(change);
    struct rp_run_documents *d = documents("cpu", 1);
    set_processor(d, device);
    const struct rp_result *from = add_run(&of, d, env);
    struct rp_result *row = complete(rows);
    static const char *const keys[] = {"device_model", "devices", "threads", "isa", "other_work", "clocks",
                                       "gpus_per_node"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[RP_RESULT_TEXT_MAX + 1];
        rp_result_get(text, sizeof text, from, keys[i]);
        set(row, keys[i], text);
    }
    row->environment = json_incref(env);
    rp_rows_fini(&of);
    return row;
}

/* Two runs, the second of which was made so: the verdict; the names of the confounders with both values are golden
 * words. */
static void expect_pair(const char *device, const char *const *change, enum rp_comparable verdict)
{
    struct rp_rows rows = {0};
    RP_BUF all = {0};
    run_on(&rows, "isa=avx512 threads=2", NULL);
    run_on(&rows, device, change);
    RP_JSON *c = compared(&rows, verdict);
    const json_t *list = json_object_get(first_pair(c), "confounders");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *a = json_string_value(json_object_get(one, "a")), *b = json_string_value(json_object_get(one, "b"));
        rp_buf_printf(&all, "%s: %s | %s\n", json_string_value(json_object_get(one, "name")), a ? a : "?", b ? b : "?");
    }
    SAID(rp_buf_text(&all));
    rp_rows_fini(&rows);
}
#define CHANGE(...) (const char *const[]){__VA_ARGS__, NULL}

TEST(one_recipe_twice_on_one_machine)
{
    expect_pair("isa=avx512 threads=2", NULL, RP_COMPARABLE);
    /* the load that the first run left behind, and a GPU that a run on processors does not use */
    expect_pair("isa=avx512 threads=2", CHANGE("load_1min", "2.24"), RP_COMPARABLE);
    expect_pair("isa=avx512 threads=2", CHANGE("count", "8"), RP_COMPARABLE);
}

TEST(one_recipe_otherwise)
{
    expect_pair("isa=avx512 threads=1", NULL, RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx2 threads=2", NULL, RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("load_1min", "5.02", "tasks_running", "6"),
                RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("load_1min", ""), RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("load_1min", "5.02", "tasks_running", ""),
                RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("", NULL, RP_COMPARABLE_WITH_RESERVATIONS);
    /* of another processor the cores are told with it */
    expect_pair("isa=avx512 threads=2", CHANGE("model", "\"143\"", "cores", "4"), RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("stepping", "\"6\""), RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("governor", "\"powersave\""), RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("allowed", ""), RP_COMPARABLE_WITH_RESERVATIONS);
    char longest[400]; /* a value that goes on and on is cut */
    snprintf(longest, sizeof longest, "\"0%0150d\\u00e9\"", 7);
    expect_pair("isa=avx512 threads=2", CHANGE("allowed", longest), RP_COMPARABLE_WITH_RESERVATIONS);
    expect_pair("isa=avx512 threads=2", CHANGE("cores", "4", "allowed", "\"0\\u001b\""),
                RP_COMPARABLE_WITH_RESERVATIONS);
}

/* Settings that change the work of a model of the same name and size. */
TEST(row_of_a_run_has_its_predictions_and_every_dropout)
{
    static const struct {
        const char *recipe;
        int64_t predictions;
        const char *dropout;
    } cases[] = {
        {"{\"task.max_predictions_per_seq\": {\"value\": 1, \"origin\": \"command line\"}}", 1, "none"},
        {"{\"model.hidden_dropout_prob\": {\"value\": 0.1}, \"model.attention_probs_dropout_prob\": {\"value\": 0.1}, "
         "\"model.embedding_dropout_prob\": {\"value\": 0.1}}", -1, "0.1"},
        {"{\"model.hidden_dropout_prob\": {\"value\": 0.1}, \"model.attention_probs_dropout_prob\": {\"value\": 0}, "
         "\"model.embedding_dropout_prob\": {\"value\": 0}}", -1, "0.1, attention 0, embedding 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_rows rows = {0};
        struct rp_run_documents *d = documents("cpu", 1);
        RP_JSON *env = capture(NULL);
        json_decref(d->facts.recipe);
        d->facts.recipe = json_loads(cases[i].recipe, 0, NULL);
        const struct rp_result *row = add_run(&rows, d, env);
        CHECK(row->predictions == cases[i].predictions, "case %zu: %lld", i, (long long)row->predictions);
        CHECK_STR(row->dropout, cases[i].dropout);
        rp_rows_fini(&rows);
    }
}

/* A probe that is taken out is no machine that is alike. */
TEST(what_is_left_out_is_not_the_same)
{
    struct rp_rows rows = {0};
    run_on(&rows, "isa=avx512 threads=2", NULL);
    run_on(&rows, "isa=avx512 threads=2", NULL);
    json_decref(compared(&rows, RP_COMPARABLE));
    CHECK(json_object_del(json_object_get(rows.row[1].environment, "probes"), "cpu") == 0, "no cpu");
    RP_JSON *c = compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS);
    const json_t *one = json_array_get(json_object_get(first_pair(c), "confounders"), 0);
    CHECK_STR(json_string_value(json_object_get(one, "key")), "environment_unknown");
    CHECK_STR(json_string_value(json_object_get(one, "b")), "cpu not captured");
    CHECK(json_integer_value(json_object_get(json_object_get(first_pair(c), "environment"), "not_compared")) == 1,
          "not counted");
    rp_rows_fini(&rows);
}

/* The second bundle is the run of the first, sealed again. */
TEST(step_records_of_another_bundle_are_noted)
{
    struct rp_rows rows = {0};
    RP_JSON *env = capture(NULL);
    for (int i = 0; i < 3; i++) {
        struct rp_run_documents *d = documents("cpu", 1);
        memset(d->figures.results.records_sha256, i < 2 ? 'a' : 'b', RP_SHA256_HEX - 1);
        add_run(&rows, d, env)->source.statement = rp_asprintf("%d", i);
    }
    RP_JSON *c = compared(&rows, RP_NOT_COMPARABLE);
    RP_BUF notes = {0};
    rp_json_write_line(&notes, json_object_get(c, "notes"));
    CHECK(strstr(notes.data, "2 has the step records of 1") && !strstr(notes.data, "3 has"), "%s", notes.data);
    rp_rows_fini(&rows);
}

static void add_change(struct rp_node_figures *node, const char *field, const char *value)
{
    struct rp_change *c = rp_object_add(&node->change, &node->change_n, &rp_type_change);
    c->field = rp_strdup(field);
    c->after = leaf(value);
}

/* After the run: what it did itself is no other work. */
TEST(work_that_came_while_it_ran)
{
    static const struct {
        const char *load, *running;
    } cases[] = {{"2.2", "1"}, {"2.4", "4"}, {"4.1", "3"}, {"4.1", "1"}, {"\"x\"", "3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_rows rows = {0};
        RP_JSON *env = capture(NULL);
        struct rp_run_documents *d = documents("cpu", 1);
        set_processor(d, "isa=avx512 threads=2");
        add_change(d->figures.node, "kernel.load_1min", cases[i].load);
        add_change(d->figures.node, "kernel.tasks_running", cases[i].running);
        SAID(add_run(&rows, d, env)->other_work); /* only the third */
        rp_rows_fini(&rows);
    }
}

/* Among several nodes the first that had other work; one that does not say leaves it unknown. */
TEST(other_work_on_any_node)
{
    static const struct {
        const char *second, *is;
    } cases[] = {{"0.1", "none"}, {"5.02", "load 5.02 before the run on node 1, 6 tasks running"}, {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_rows rows = {0};
        const char *const change[] = {"load_1min", cases[i].second, "tasks_running", "6", NULL};
        struct rp_captures node[2] = {{.before = capture(NULL)}, {.before = capture(change)}};
        struct rp_run_documents *d = documents("cpu", 2);
        d->facts.rank[1].node = 1;
        rp_object_add(&d->figures.node, &d->figures.node_n, &rp_type_node_figures);
        const struct rp_run run = {.doc = d, .facts = &d->facts, .figures = &d->figures, .node = node, .nodes = 2};
        struct rp_result *row = rp_rows_add(&rows);
        rp_result_other_work(row, &run);
        CHECK(!row->other_work == !cases[i].is, "%s", row->other_work ? row->other_work : "unknown");
        if (cases[i].is)
            CHECK_STR(row->other_work, cases[i].is);
        rp_run_documents_free(d);
        json_decref(node[0].before);
        json_decref(node[1].before);
        rp_rows_fini(&rows);
    }
}

TEST(hardware_of_a_run_has_its_threads)
{
    struct rp_rows rows = {0};
    RP_FREE char *text = rp_result_hardware(run_on(&rows, "isa=avx512 threads=1", NULL));
    CHECK_STR(text, "1 thread of Xeon (model 6/207/8)");
    struct rp_result shared = {
        .device_model = (char[]){"Xeon"}, .threads = 32, .devices = 8}; /* of 32 ranks on a machine of 8 */
    RP_FREE char *of_ranks = rp_result_hardware(&shared);
    CHECK_STR(of_ranks, "8 threads of Xeon");
    rp_rows_fini(&rows);
}

/* Devices are GPUs or threads, whatever the degrees and the ranks; memory of GPUs is their own. */
TEST(devices_of_a_run_are_gpus_or_threads)
{
    static const struct {
        const char *kind;
        int64_t devices, gpus, mib;
    } cases[] = {{"cuda", 2, 2, 5}, {"cpu", 3, 0, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_rows of = {0};
        RP_JSON *env = capture(NULL);
        struct rp_run_documents *d = documents(cases[i].kind, 2);
        d->facts.recipe = json_pack("{s:{s:i}, s:{s:i}}", "parallel.data", "value", 8, "parallel.tensor", "value", 4);
        d->figures.peak_rss_bytes = 3 << 20;
        if (strcmp(cases[i].kind, "cpu") == 0)
            set_processor(d, "isa=avx512 threads=2"); /* rank 1 does not say, and has one at least */
        d->facts.rank[1].device_bytes = rp_alloc(sizeof *d->facts.rank[1].device_bytes);
        d->facts.rank[1].device_bytes->used = 5 << 20;
        const struct rp_result *row = add_run(&of, d, env);
        CHECK(row->devices == cases[i].devices && row->gpus_per_node == cases[i].gpus, "%s: %lld", cases[i].kind,
              (long long)row->devices);
        CHECK(row->nodes == 1 && row->data_parallel == 8, "%lld nodes", (long long)row->nodes);
        CHECK(rp_result_ranks(row) == 2, "%lld ranks", (long long)rp_result_ranks(row));
        CHECK(row->memory_mib_per_device == (double)cases[i].mib, "%s: %g MiB", cases[i].kind,
              row->memory_mib_per_device);
        rp_rows_fini(&of);
    }
}

/* The same threads, divided among ranks: as many devices, and a reservation of its own. */
TEST(ranks_on_processors_are_no_devices)
{
    struct rp_rows rows = {0};
    run_on(&rows, "isa=avx512 threads=2", NULL);
    struct rp_result *two = run_on(&rows, "isa=avx512 threads=2", NULL);
    set(&rows.row[0], "rank_layout", "1x1x1");
    set(two, "rank_layout", "2x1x1");
    RP_JSON *c = compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS);
    const json_t *list = json_object_get(first_pair(c), "confounders");
    CHECK(json_array_size(list) == 1, "%zu reservations", json_array_size(list));
    CHECK_STR(rp_json_text_at(json_array_get(list, 0), "key"), "rank_layout");
    CHECK(!rp_json_at(first_pair(c), "ratio/per_device"), "one of them has more devices");
    rp_rows_fini(&rows);
}

/* ---- facts and figures ---- */

static const json_t *named(const json_t *pair, const char *list, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(pair, list), i, one)
        if (strcmp(rp_json_text_at(one, "name"), name) == 0)
            return one;
    return NULL;
}

/* The first labelled field of such a type in an object and its parts; *at: where the value is. */
static const struct rp_object_field *labelled(void **at, void *object, const struct rp_object_type *type,
                                              enum rp_field_type of)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        *at = (char *)object + f->offset;
        if (f->type == of && *f->label)
            return f;
        const struct rp_object_field *below = f->type == RP_IS_PART ? labelled(at, *at, f->of, of) : NULL;
        if (below)
            return below;
    }
    return NULL;
}

static struct rp_result *add_written(struct rp_rows *rows, struct rp_run_documents *d)
{
    RP_JSON *env = capture(NULL);
    d->facts_json = rp_object_json(&d->facts, &rp_type_facts);
    d->figures_json = rp_object_json(&d->figures, &rp_type_figures);
    return add_run(rows, d, env);
}

/* A row with a label is compared without more: facts where they differ, figures always. Times and digests differ
 * between any two runs. */
TEST(labelled_facts_and_figures_are_compared)
{
    struct rp_rows rows = {0};
    struct rp_run_documents *a = documents("cpu", 1), *b = documents("cpu", 1);
    void *fact, *figure, *when;
    const struct rp_object_field *of_facts = labelled(&fact, &b->facts, &rp_type_facts, RP_IS_COUNT),
                                 *of_figures = labelled(&figure, &b->figures, &rp_type_figures, RP_IS_COUNT),
                                 *time = labelled(&when, &b->facts, &rp_type_facts, RP_IS_TIME);
    CHECK(of_facts && of_figures && time, "no labels in facts.def and figures.def");
    if (!of_facts || !of_figures || !time)
        return;
    *(int64_t *)fact = *(int64_t *)figure = 77;
    free(*(char **)when);
    *(char **)when = rp_strdup("2026-09-22T00:00:00Z");
    add_written(&rows, a);
    add_written(&rows, b);
    struct rp_pair of;
    rp_object_init(&of, &rp_type_pair);
    rp_compare_labelled(&of, &rows.row[0], &rows.row[1]);
    RP_JSON *pair = rp_object_json(&of, &rp_type_pair);
    rp_object_fini(&of, &rp_type_pair);
    CHECK(rp_json_integer_at(named(pair, "facts", of_facts->label), "b") == 77, "not compared: %s", of_facts->label);
    CHECK(json_array_size(json_object_get(pair, "facts")) == 1, "other facts differ too");
    CHECK(!named(pair, "facts", time->label), "a time of day is compared");
    CHECK(rp_json_integer_at(named(pair, "figures", of_figures->label), "b") == 77, "not side by side: %s",
          of_figures->label);
    struct rp_confounding *named_already = rp_object_add(&of.confounders, &of.confounders_n, &rp_type_confounding);
    named_already->name = rp_strdup(of_facts->label);
    rp_compare_labelled(&of, &rows.row[0], &rows.row[1]);
    CHECK(!of.facts_n, "a confounder is listed twice");
    rp_object_fini(&of, &rp_type_pair);
    rp_rows_fini(&rows);
}

TEST(no_unit_and_no_evidence)
{
    struct rp_rows rows = {0};
    complete(&rows);
    struct rp_result *b = complete(&rows);
    free(b->source.signed_by);
    b->source.signed_by = NULL;
    json_decref(compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS));
    b->source.kind = RP_RESULT_IMPORTED;
    json_decref(compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS));
    free(b->unit);
    b->unit = rp_strdup("tokens/s");
    json_decref(compared(&rows, RP_NOT_COMPARABLE));
    free(b->unit);
    b->unit = NULL;
    b->throughput = NAN;
    json_decref(compared(&rows, RP_NOT_COMPARABLE));
    rp_rows_fini(&rows);
}

TEST(estimate_is_median_of_harmonic_means)
{
    struct rp_rows rows = {0};
    struct rp_result *row = rp_rows_add(&rows);
    double samples[6] = {50, 100, 10, 10, 30, 60};
    CHECK(isnan(rp_result_estimate(row)));
    rp_result_samples(row, samples, 6);
    CHECK(rp_result_estimate(row) == 40, "%g", rp_result_estimate(row));
    row->groups = 3;
    row->group[0] = row->group[1] = row->group[2] = 2;
    CHECK(fabs(rp_result_estimate(row) - 40) < 1e-9, "%g", rp_result_estimate(row)); /* 66.7, 10, 40 */
    row->throughput = 70;
    struct rp_result *other = rp_rows_add(&rows);
    other->throughput = 1;
    RP_JSON *c = compared(&rows, RP_NOT_COMPARABLE);
    const char *note = json_string_value(json_array_get(json_object_get(c, "notes"), 0));
    CHECK(note && strstr(note, "70") && strstr(note, "40"), "%s", note);
    rp_rows_fini(&rows);
}
