/* Rows: from documents, from CSV, from bundles; what is hostile is refused, what is unknown stays unknown. */
#include "compare/result.h"
#include "tests/unit/golden.h"
#include "tests/unit/verify_fixture.h"

#include <math.h>

static int load_json(struct rp_rows *rows, const char *row, struct rp_err *err)
{
    RP_FREE char *text = rp_asprintf("{\"schema\": \"" RP_IMPORTED_SCHEMA
                                     "\", \"provenance\": {\"format\": \"dlperf\"}, \"rows\": [%s], "
                                     "\"unsigned\": true}",
                                     row);
    RP_JSON *doc = rp_json_parse(text, strlen(text), "x.json", err);
    return doc ? rp_rows_from_json(rows, doc, "x.json", FX_ROOT, err) : -1;
}

TEST(imported_round_trip)
{
    struct rp_rows rows = {0};
    struct rp_err err = {0};
    CHECK(load_json(&rows,
                    "{\"label\": \"a\", \"model\": \"bert-base\", \"batch_per_device\": 32, \"dropout\": 0.1, "
                    "\"gpus_per_node\": 0, \"throughput\": {\"value\": 10, \"unit\": \"sequences/s\", \"low\": 9, "
                    "\"high\": 11}, \"samples\": [9, 10, 11.5], \"sample_groups\": [1, 2], \"links\": [\"log\"], "
                    "\"speedup\": 7.5, \"source\": {\"kind\": \"imported\", \"signed_by\": \"SHA256:me\", \"sha256\": "
                    "\"abc\", \"line\": 7, \"file\": \"f.log\"}}",
                    &err) == 0,
          "%s", err.msg);
    const struct rp_result *r = rows.row;
    CHECK(rows.n == 1 && r->batch_per_device == 32 && r->sequence_length == -1 && isnan(r->latency_ms) &&
          !r->precision);
    CHECK(r->gpus_per_node == 0 && r->samples == 3 && r->groups == 2 && r->group[1] == 2 && r->links == 1);
    CHECK_STR(r->dropout, "0.1");
    CHECK(r->source.kind == RP_RESULT_IMPORTED && !r->source.signed_by && !r->source.verdict && r->source.line == 7,
          "it says who it is");
    CHECK_STR(r->source.sha256, FX_ROOT);
    CHECK_STR(r->source.format, "dlperf");
    RP_JSON *j = rp_result_to_json(r);
    json_object_del(j, "source");
    RP_BUF text = {0};
    rp_json_write_line(&text, j);
    struct rp_rows again = {0};
    CHECK(load_json(&again, text.data, &err) == 0, "%s", err.msg);
    RP_JSON *k = rp_result_to_json(again.row);
    json_object_del(k, "source");
    CHECK(json_equal(j, k) && json_object_size(j) == 10, "%s", text.data);
    rp_rows_fini(&rows);
    rp_rows_fini(&again);
}

TEST(imported_refused)
{
    static const char *const bad[] = {
        "{\"batch_per_device\": -1}",
        "{\"batch_per_device\": 1.5}",
        "{\"batch_per_device\": 1e300}",
        "{\"batch_per_device\": \"32\"}",
        "{\"latency_ms\": 0}",
        "{\"model\": [1]}",
        "{\"model\": \"a\\u0000b\"}",
        "{\"batch\": 3}",
        "{\"modeI\": \"x\"}",
        "{\"source\": {\"kind\": \"bundle\"}}",
        "{\"source\": {\"kind\": \"published\"}}",
        "{\"source\": {\"kind\": 1}}",
        "{\"throughput\": 3}",
        "{\"throughput\": {\"value\": 3}}",
        "{\"throughput\": {\"value\": -3, \"unit\": \"x/s\"}}",
        "{\"throughput\": {\"value\": 3, \"unit\": \"x/s\", \"low\": 4, \"high\": 2}}",
        "{\"throughput\": {\"value\": 3, \"unit\": \"x/s\", \"low\": 2}}",
        "{\"samples\": [1, null]}",
        "{\"samples\": [1, 0]}",
        "{\"samples\": [1, 2], \"sample_groups\": [1]}",
        "{\"samples\": [1, 2], \"sample_groups\": [3, -1]}",
        "{\"sample_groups\": [1]}",
        "{\"links\": 3}",
        "7",
        "{\"model\": \"a\", \"model\": \"b\"}",
        "{\"latency_ms\": 1e999}",
        "{\"latency_ms\": NaN}",
    };
    RP_BUF messages = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_rows rows = {0};
        struct rp_err err = {0};
        CHECK(load_json(&rows, bad[i], &err) < 0 && err.code == RP_MALFORMED, "%s: %s", bad[i], err.msg);
        rp_buf_printf(&messages, "%s\n", err.msg);
        rp_rows_fini(&rows);
    }
    golden("tests/unit/row_messages.txt", &messages);
    struct rp_err err = {0};
    struct rp_rows rows = {0};
    RP_BUF text = {0};
    rp_buf_puts(&text, "{\"model\": \"");
    for (int i = 0; i <= RP_RESULT_TEXT_MAX; i++)
        rp_buf_puts(&text, "a");
    rp_buf_puts(&text, "\"}");
    CHECK(load_json(&rows, text.data, &err) < 0, "%s", err.msg);
    rp_rows_fini(&rows);
}

TEST(foreign_text_is_cleaned)
{
    struct rp_rows rows = {0};
    struct rp_err err = {0};
    CHECK(load_json(&rows, "{\"label\": \"a\\u001b[2Jb\\u202ec\\nd\"}", &err) == 0, "%s", err.msg);
    CHECK_STR(rows.row->label, "a?[2Jb???c d");
    rp_rows_fini(&rows);
}

TEST(published)
{
    static const struct {
        const char *name;
        int rows;
    } files[] = {{"dlperf_v100", 168}, {"gpt_v100", 36}, {"oneflow_v100_2020-08", 8}, {"published_other", 26}};
    struct rp_result_opts o = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rp_rows rows = {0};
        struct rp_err err = {0};
        RP_FREE char *what = rp_asprintf("published:%s", files[i].name);
        CHECK(rp_rows_load(&rows, what, &o, &err) == 0 && rows.n == files[i].rows, "%s: %d rows, %s", what, rows.n,
              err.msg);
        for (int k = 0; k < rows.n; k++)
            CHECK(rows.row[k].throughput > 0 && rows.row[k].unit && rows.row[k].devices > 0 &&
                  rows.row[k].source.kind == RP_RESULT_PUBLISHED);
        rp_rows_fini(&rows);
    }
    struct rp_rows rows = {0};
    struct rp_err err = {0};
    CHECK(rp_rows_load(&rows, "published:dlperf_v100#model=BERT-base,gpus=1,framework=oneflow,batch=32,note=", &o,
                       &err) == 0,
          "%s", err.msg);
    CHECK(rows.n == 1 && rows.row->throughput == 152.89 && rows.row->source.line == 66, "%d", rows.n);
    CHECK(rp_rows_load(&rows, "published:gpt_v100#label=MP_1x8x1_16_1536x16,framework=Megatron-LM", &o, &err) == 0 &&
          rows.n == 2);
    CHECK(rows.row[1].throughput == 23.11 && rows.row[1].latency_ms == 692.44 &&
          rows.row[1].tflops_per_device == 28.99 && rows.row[1].tensor_parallel == 8 && rows.row[1].devices == 8);
    CHECK(rp_rows_load(&rows, "published:dlperf_v100#gpus=3", &o, &err) < 0 && err.code == RP_USAGE && rows.n == 2,
          "%s", err.msg);
    CHECK(rp_rows_load(&rows, "published:dlperf_v100#gpu", &o, &err) < 0 && err.code == RP_USAGE, "%s", err.msg);
    CHECK(rp_rows_load(&rows, "published:dlperf_v100#gpuz=1", &o, &err) < 0 && strstr(err.msg, "property 'gpuz'"), "%s",
          err.msg);
    CHECK(rp_rows_load(&rows, "published:../../LICENSE", &o, &err) < 0 && strstr(err.msg, "dlperf_v100, gpt_v100"),
          "%s", err.msg);
    rp_rows_fini(&rows);
}

TEST(csv_forms)
{
    struct rp_rows rows = {0};
    struct rp_err err = {0};
    const char *good = "\xef\xbb\xbf" "label,throughput,unit\r\n\"a, \"\"b\"\" c\",1e2,images/s\r\n\r\nd,,\r\n";
    CHECK(rp_rows_from_csv(&rows, good, strlen(good), "x.csv", NULL, &err) == 0 && rows.n == 2, "%s", err.msg);
    CHECK_STR(rows.row[0].label, "a, \"b\" c");
    CHECK(rows.row[0].throughput == 100 && isnan(rows.row[1].throughput) && rows.row[1].source.line == 4);
    rp_rows_fini(&rows);
    static const char *const bad[] = {
        "",
        "label\na\n",
        "throughput,unit,nonsense\n1,x/s,2\n",
        "throughput,throughput\n1,2\n",
        "gpus,devices,throughput\n1,2,3\n",
        "throughput,unit\n1\n",
        "throughput,unit\n1,\n",
        "throughput,unit\nnan,x/s\n",
        "throughput,unit\n0x10,x/s\n",
        "throughput,unit\n1e999,x/s\n",
        "throughput,unit\n1e30,x/s\n",
        "throughput,unit\n-1,x/s\n",
        "throughput,unit,gpus\n1,x/s,1.5\n",
        "throughput,unit\n\"1,x/s\n",
        "throughput,unit\n\"1\"2,x/s\n",
        "throughput,unit\n1\"2,x/s\n",
        "_sequences_per_s\n1\n",
    };
    RP_BUF messages = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(rp_rows_from_csv(&rows, bad[i], strlen(bad[i]), "x.csv", NULL, &err) < 0 && err.code == RP_MALFORMED,
              "%s: %s", bad[i], err.msg);
        rp_buf_printf(&messages, "%s\n", err.msg);
        rp_rows_fini(&rows);
    }
    golden("tests/unit/csv_messages.txt", &messages);
    rp_rows_fini(&rows);
}

TEST(bundle)
{
    struct rp_rows rows = {0};
    struct rp_err err = {0};
    struct rp_result_opts o = {0};
    FX(x);
    fx_seal(&x, "key.pem", "a.repro");
    RP_FREE char *path = fx_path("a.repro"), *bad = fx_path("bad.repro");
    CHECK(rp_rows_load(&rows, path, &o, &err) == 0 && rows.n == 1, "%s", err.msg);
    const struct rp_result *r = rows.row;
    CHECK_STR(r->model, "bert of 1 x 16");
    CHECK_STR(r->clipping, "global norm 1");
    SAID(r->source.verdict);
    CHECK(r->source.kind == RP_RESULT_BUNDLE && r->source.signed_by && strncmp(r->source.signed_by, "SHA256:", 7) == 0);
    CHECK(r->batch_per_device == 4 && r->global_batch == 4 && r->devices == 1 && r->samples == 6 && r->groups == 2 &&
          r->group[0] == 3);
    CHECK(r->throughput == x.doc->figures.results.throughput.value);
    CHECK(r->run && strcmp(r->run->facts.recipe_name, x.doc->facts.recipe_name) == 0, "not its documents");
    double sum = 1 / r->sample[0] + 1 / r->sample[1] + 1 / r->sample[2], rate = 3 / sum;
    const json_t *window = json_array_get(json_object_get(json_object_get(x.run, "results"), "windows"), 0);
    CHECK(fabs(rate / json_number_value(json_object_get(window, "throughput")) - 1) < 1e-12,
          "the cycles are not those of the window");
    rp_rows_fini(&rows);

    set_path(x.run, "results/throughput/value", json_real(1e6));
    fx_seal(&x, "key.pem", "bad.repro");
    CHECK(rp_rows_load(&rows, bad, &o, &err) < 0 && err.code == RP_MISMATCH, "%s", err.msg);
    rp_rows_fini(&rows);
    o.unverified = 1;
    CHECK(rp_rows_load(&rows, bad, &o, &err) == 0 && rows.row->throughput == 1e6 && !rows.row->source.signed_by, "%s",
          err.msg);
    CHECK(strncmp(rows.row->source.verdict, "NOT VERIFIED: ", 14) == 0 && rows.row->samples == 0, "%s",
          rows.row->source.verdict);
    rp_rows_fini(&rows);
}
