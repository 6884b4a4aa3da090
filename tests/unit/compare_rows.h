/* Results about which everything is known, and comparisons of them. */
#pragma once

#include "base/json.h"
#include "compare/compare.h"
#include "tests/unit/tap.h"

#include <string.h>

static __attribute__((unused)) void set(struct rp_result *row, const char *key, const char *text)
{
    struct rp_err err;
    CHECK(rp_result_set(row, key, text, &err) == 0, "%s: %s", key, err.msg);
}

/* Everything known, as of a verified bundle. */
static __attribute__((unused)) struct rp_result *complete(struct rp_rows *rows)
{
    static const char *const values[][2] = {{"model", "bert-base"}, {"task", "pre-training"},
                                            {"sequence_length", "128"}, {"precision", "fp32"},
                                            {"batch_per_device", "32"}, {"accumulation", "1"}, {"optimizer", "adamw"},
                                            {"clipping", "none"}, {"dropout", "0.1"}, {"data", "d"},
                                            {"timed_window", "w"}, {"estimator", "e"}, {"padding", "p"},
                                            {"device_model", "x"}, {"devices", "1"}, {"nodes", "1"}, {"clocks", "c"},
                                            {"framework", "f"}};
    struct rp_result *row = rp_rows_add(rows);
    double samples[8] = {100, 101, 99, 100, 102, 98, 100, 100};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        set(row, values[i][0], values[i][1]);
    rp_result_complete(row);
    rp_result_samples(row, samples, 8);
    row->throughput = 100;
    row->unit = rp_strdup("sequences/s");
    row->source.kind = RP_RESULT_BUNDLE;
    row->source.verdict = rp_strdup("verified");
    row->source.signed_by = rp_strdup("SHA256:x");
    row->source.sha256 = rp_asprintf("%064d", rows->n);
    return row;
}

static __attribute__((unused)) json_t *compared(const struct rp_rows *rows, enum rp_comparable expected)
{
    struct rp_err err;
    enum rp_comparable verdict;
    RP_COMPARISON c = {0};
    CHECK(rp_compare(&c, rows, &verdict, &err) == 0, "%s", err.msg);
    CHECK(verdict == expected, "%s", rp_comparable_text(verdict));
    return rp_comparison_json(&c);
}

static __attribute__((unused)) const json_t *first_pair(const json_t *c)
{
    return json_array_get(json_object_get(c, "pairs"), 0);
}
