/* Mixed precision among comparisons and layouts: beside the amp of published tables. */
#include "compare/layout.h"
#include "tests/unit/compare_rows.h"

#include <string.h>

/* The key of the first confounder of two results that are as given; "": none. */
static void expect_first(const struct rp_rows *rows, enum rp_comparable verdict, const char *key, const char *state)
{
    RP_JSON *c = compared(rows, verdict);
    const json_t *one = json_array_get(json_object_get(first_pair(c), "confounders"), 0);
    CHECK(strcmp(rp_json_text_at(one, "key"), key) == 0 && strcmp(rp_json_text_at(one, "state"), state) == 0, "%s: %s",
          key, rp_json_text_at(one, "key"));
}

/* What tables name amp is fp16, and bf16 where the device has it. */
TEST(precision_amp_of_a_table_equals_fp16_and_mostly_bf16)
{
    static const struct {
        const char *a, *b, *device;
        int equal;
    } cases[] = {{"fp16", "amp", "x", 1},
                 {"AMP", "fp16", "Tesla V100-SXM2-16GB", 1},
                 {"bf16", "amp", "NVIDIA A100-SXM4-40GB", 1},
                 {"bf16", "amp", "Tesla V100-SXM2-16GB", 0},
                 {"amp", "bf16", "Tesla T4", 0},
                 {"fp16", "bf16", "x", 0},
                 {"fp32", "amp", "x", 0},
                 {"tf32", "amp", "x", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_rows rows = {0};
        set(complete(&rows), "precision", cases[i].a);
        set(complete(&rows), "precision", cases[i].b);
        for (int k = 0; k < 2; k++)
            set(&rows.row[k], "device_model", cases[i].device);
        expect_first(&rows, cases[i].equal ? RP_COMPARABLE : RP_COMPARABLE_WITH_RESERVATIONS,
                     cases[i].equal ? "" : "precision", cases[i].equal ? "" : "differs");
        rp_rows_fini(&rows);
    }
}

/* A table does not tell how many steps its runs skipped; strict fp32 skips none. */
TEST(skipped_steps_of_one_result_are_a_reservation_unless_the_other_is_fp32)
{
    struct rp_rows rows = {0};
    struct rp_result *a = complete(&rows), *b = complete(&rows);
    a = rows.row;
    set(a, "precision", "fp16");
    set(b, "precision", "amp");
    a->skipped_steps = 0;
    expect_first(&rows, RP_COMPARABLE, "", "");
    set(a, "skipped_steps", "0.125");
    expect_first(&rows, RP_COMPARABLE_WITH_RESERVATIONS, "skipped_steps", "unknown");
    set(b, "skipped_steps", "0.125");
    expect_first(&rows, RP_COMPARABLE, "", "");
    set(b, "skipped_steps", "");
    set(b, "precision", "fp32");
    RP_JSON *c = compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS);
    CHECK(json_array_size(json_object_get(first_pair(c), "confounders")) == 1, "more than the precision");
    set(b, "precision", "fp16");
    a->skipped_steps = 0;
    set(a, "loss_scaling", "fixed at 128");
    set(b, "loss_scaling", "dynamic from 65536, window 2000, hysteresis 1");
    set(a, "arithmetic", "fp16, tc8"); /* shown, and no reservation */
    set(b, "arithmetic", "fp16, tc16");
    RP_JSON *scaled = compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS);
    const json_t *all = json_object_get(first_pair(scaled), "confounders");
    CHECK(json_array_size(all) == 1 && strcmp(rp_json_text_at(json_array_get(all, 0), "key"), "loss_scaling") == 0,
          "%zu", json_array_size(all));
    rp_rows_fini(&rows);
}

/* Results of fp16 and bf16 stand in the columns and tables of amp. */
TEST(layouts_have_mixed_precision_beside_amp)
{
    static const char *const layouts[][2] = {{"paddle", "| 1 | no evidence | 321.50 | no evidence | no evidence |"},
                                             {"dlperf", "| 1 | 1 | 300 | 321.50 |"}};
    for (size_t i = 0; i < 2; i++) {
        struct rp_rows rows = {0};
        struct rp_doc d = {0};
        RP_BUF out = {0};
        struct rp_result *table = complete(&rows);
        set(table, "precision", "amp");
        set(table, "batch_per_device", "64");
        set(table, "batch_mode", "fixed");
        table->throughput = 300;
        table->source.kind = RP_RESULT_PUBLISHED;
        struct rp_result *bundle = complete(&rows);
        set(bundle, "precision", "fp16");
        set(bundle, "arithmetic", "fp16, tc16");
        set(bundle, "batch_per_device", "64");
        set(bundle, "batch_mode", "fixed");
        set(bundle, "framework", "repro 1");
        bundle->throughput = 321.5;
        bundle->source.kind = RP_RESULT_IMPORTED; /* it has no documents */
        rp_layout_write(&d, layouts[i][0], &rows);
        rp_doc_write(&out, &d, RP_DOC_MD);
        CHECK(strstr(rp_buf_text(&out), layouts[i][1]), "%s: %s", layouts[i][0], rp_buf_text(&out));
        CHECK(i == 0 || strstr(rp_buf_text(&out), "bert-base, amp, batch size per device: 64"), "%s",
              rp_buf_text(&out));
        CHECK(i == 0 || strstr(rp_buf_text(&out), "repro 1, fp16, tc16"), "%s", rp_buf_text(&out));
        rp_doc_fini(&d);
        rp_rows_fini(&rows);
    }
}
