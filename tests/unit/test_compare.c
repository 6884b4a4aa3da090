/* Verdicts, confounders, ratios with intervals, scaling. */
#include "compare/compare.h"

#include "base/json.h"
#include "compare/layout.h"
#include "report/escape.h"
#include "verify/verify.h"
#include "tests/unit/compare_rows.h"
#include "tests/unit/scatter.h"

#include <math.h>
#include <stdlib.h>

TEST(comparable_and_its_interval)
{
    struct rp_rows rows = {0};
    complete(&rows);
    struct rp_result *b = complete(&rows);
    b->throughput = 200;
    for (int i = 0; i < 8; i++)
        b->sample[i] *= 2;
    RP_JSON *c = compared(&rows, RP_COMPARABLE), *again = compared(&rows, RP_COMPARABLE);
    const json_t *r = json_object_get(first_pair(c), "ratio");
    double low = json_number_value(json_object_get(r, "low")), high = json_number_value(json_object_get(r, "high"));
    CHECK(json_number_value(json_object_get(r, "value")) == 2 && low > 1.95 && low < 2 && high > 2 && high < 2.05,
          "%g to %g", low, high);
    CHECK(json_equal(c, again) && json_array_size(json_object_get(first_pair(c), "confounders")) == 0);
    b->sample[0] = 150;
    RP_JSON *other = compared(&rows, RP_COMPARABLE);
    CHECK(!json_equal(c, other), "the samples do not matter");
    rp_rows_fini(&rows);
}

/* 500 pairs of results of 100 samples each, of which the second is twice as fast: of 100 intervals of their ratio and
 * of an imported result 95 contain the truth, with a standard error of 1. */
TEST(intervals_contain_the_true_ratio_and_speed_in_95_of_100)
{
    enum { PAIRS = 500, SAMPLES = 100 };
    struct scatter s = {.state = 1};
    int ratios = 0, results = 0;
    for (int k = 0; k < PAIRS; k++) {
        struct rp_rows rows = {0};
        for (int side = 0; side < 2; side++) {
            double rate[SAMPLES], seconds = 0;
            struct rp_result *row = complete(&rows);
            for (int i = 0; i < SAMPLES; i++) {
                rate[i] = (side ? 200 : 100) / scattered(&s, 0.2);
                seconds += 1 / rate[i];
            }
            rp_result_samples(row, rate, SAMPLES);
            row->groups = 1;
            row->group[0] = SAMPLES;
            row->throughput = SAMPLES / seconds;
            free(row->source.sha256);
            row->source.sha256 = rp_asprintf("%064d", 2 * k + side);
        }
        RP_JSON *c = compared(&rows, RP_COMPARABLE);
        const json_t *ratio = json_object_get(first_pair(c), "ratio");
        ratios += json_number_value(json_object_get(ratio, "low")) <= 2 &&
                  2 <= json_number_value(json_object_get(ratio, "high"));
        struct rp_result *row = &rows.row[0];
        row->source.kind = RP_RESULT_IMPORTED;
        rp_result_interval(row);
        results += row->low <= 100 && 100 <= row->high;
        rp_rows_fini(&rows);
    }
    CHECK(ratios >= 465 && ratios <= 485, "%d of %d ratios", ratios, PAIRS);
    CHECK(results >= 465 && results <= 485, "%d of %d results", results, PAIRS);
}

static void processor(struct rp_result *row)
{
    set(row, "gpus_per_node", "0");
    set(row, "threads", "2");
    set(row, "isa", "avx512");
    set(row, "other_work", "none");
}

static void in_gigabytes(struct rp_result *row)
{
    free(row->unit);
    row->unit = rp_strdup("GB/s");
    set(row, "label", "all_reduce 8 B float sum");
}

/* Every confounder by itself: another value, and none; on one side and on both. */
TEST(each_confounder)
{
    static const struct {
        const char *key, *scope;
        int is_work;
    } all[] = {
#define CONFOUNDER(key, name, kind, scope, effect, why) {#key, #scope, #kind[0] == 'W'},
#include "compare/confounders.def"
#undef CONFOUNDER
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char value[RP_RESULT_TEXT_MAX + 1];
        int much = strcmp(all[i].scope, "MUCH") == 0, known_only = much || strcmp(all[i].scope, "KNOWN") == 0;
        const char *of_processors = strcmp(all[i].scope, "PROCESSORS") == 0 ? "0" : "1";
        enum rp_comparable if_unknown = known_only                              ? RP_COMPARABLE
                                        : strcmp(all[i].scope, "REQUIRED") == 0 ? RP_NOT_COMPARABLE
                                                                                : RP_COMPARABLE_WITH_RESERVATIONS;
        struct rp_rows rows = {0};
        complete(&rows);
        complete(&rows);
        struct rp_result *a = rows.row, *b = a + 1;
        set(a, "gpus_per_node", of_processors);
        set(b, "gpus_per_node", of_processors);
        for (int k = 0; k < 2 && *of_processors == '0'; k++)
            processor(&rows.row[k]);
        for (int k = 0; k < 2 && strcmp(all[i].scope, "COLLECTIVES") == 0; k++)
            in_gigabytes(&rows.row[k]);
        set(a, all[i].key, "7");
        set(b, all[i].key, "8");
        if (much) {
            json_decref(compared(&rows, RP_COMPARABLE)); /* 8 is less than a fifth above 7 */
            set(b, all[i].key, "8.5");
        }
        RP_JSON *differs = compared(&rows, all[i].is_work ? RP_NOT_COMPARABLE : RP_COMPARABLE_WITH_RESERVATIONS);
        const json_t *one = json_array_get(json_object_get(first_pair(differs), "confounders"), 0);
        CHECK_STR(json_string_value(json_object_get(one, "key")), all[i].key);
        CHECK_STR(json_string_value(json_object_get(one, "state")), "differs");
        CHECK((json_object_get(first_pair(differs), "ratio") == NULL) == all[i].is_work);
        set(b, all[i].key, "");
        json_decref(compared(&rows, much ? RP_COMPARABLE_WITH_RESERVATIONS : if_unknown)); /* both are bundles */
        set(a, all[i].key, "");
        RP_JSON *unknown = compared(&rows, if_unknown);
        one = json_array_get(json_object_get(first_pair(unknown), "confounders"), 0);
        CHECK(known_only || json_is_null(json_object_get(one, "a")), "%s", all[i].key);
        set(a, all[i].key, "7");
        set(b, all[i].key, "7");
        rp_result_get(value, sizeof value, b, all[i].key);
        CHECK_STR(value, "7");
        const int is_work = strcmp(all[i].key, "other_work") == 0; /* a reservation even where it is the same */
        RP_JSON *equal = compared(&rows, is_work ? RP_COMPARABLE_WITH_RESERVATIONS : RP_COMPARABLE);
        one = json_array_get(json_object_get(first_pair(equal), "confounders"), 0);
        if (is_work)
            CHECK_STR(json_string_value(json_object_get(one, "state")), "equal");
        rp_rows_fini(&rows);
    }
}

/* "bert" does not say which, and is not another model either. */
TEST(less_exact_model)
{
    struct rp_rows rows = {0};
    complete(&rows);
    set(complete(&rows), "model", "bert");
    RP_JSON *c = compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS);
    const json_t *one = json_array_get(json_object_get(first_pair(c), "confounders"), 0);
    CHECK_STR(rp_json_text_at(one, "key"), "model");
    CHECK_STR(rp_json_text_at(one, "state"), "unknown");
    set(&rows.row[1], "model", "bert-large");
    json_decref(compared(&rows, RP_NOT_COMPARABLE));
    set(&rows.row[1], "model", "be");
    json_decref(compared(&rows, RP_NOT_COMPARABLE));
    static const char *const of_family[] = {"gpt of 16 x 1536", "gpt2-124m", "gpt-small"};
    for (size_t i = 0; i < sizeof of_family / sizeof *of_family; i++) {
        set(rows.row, "model", "gpt");
        set(&rows.row[1], "model", of_family[i]);
        json_decref(compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS));
        for (int k = 0; k < 2; k++) { /* of known sizes, the family is enough */
            set(&rows.row[k], "hidden_size", "1536");
            set(&rows.row[k], "layers", "16");
        }
        json_decref(compared(&rows, RP_COMPARABLE));
        set(&rows.row[1], "layers", "24");
        json_decref(compared(&rows, RP_NOT_COMPARABLE));
        set(&rows.row[1], "layers", "");
    }
    set(&rows.row[1], "model", "gptx-small");
    json_decref(compared(&rows, RP_NOT_COMPARABLE));
    rp_rows_fini(&rows);
}

/* The cells of the row of a table that begins with `first` and whose second cell is `second`, or NULL. */
static const json_t *row_of(const json_t *doc, size_t table, const char *first, const char *second)
{
    size_t i, k;
    json_t *block, *cells;
    json_array_foreach((json_t *)doc, i, block)
    {
        if (!json_object_get(block, "columns") || table-- > 0)
            continue;
        json_array_foreach(json_object_get(block, "rows"), k, cells)
            if (strcmp(json_string_value(json_array_get(cells, 0)), first) == 0 &&
                strcmp(json_string_value(json_array_get(cells, 1)), second) == 0)
                return cells;
        return NULL;
    }
    return NULL;
}

/* Each column of each table has a word that is known; a line of nothing has no figure, and one without a result has no
 * evidence at all. */
TEST(cells_of_all_tables)
{
    struct rp_rows rows = {0};
    struct rp_result *nothing = rp_rows_add(&rows);
    for (int t = 0; t < RP_TABLES; t++)
        for (int with = 0; with < 2; with++) {
            RP_DOC d = {0};
            rp_layout_begin(&d, (enum rp_layout_table)t, 1);
            rp_layout_cells(&d, (enum rp_layout_table)t, 1,
                            &(struct rp_line){.row = with ? nothing : NULL, .base = nothing, .number = 7});
            RP_JSON *doc = rp_doc_json(&d);
            const json_t *columns = rp_json_at(doc, "0/columns"), *cells = rp_json_at(doc, "0/rows/0");
            CHECK(json_array_size(columns) && json_array_size(columns) == json_array_size(cells), "table %d", t);
            for (size_t i = 0; i < json_array_size(cells); i++) {
                const char *title = json_string_value(json_array_get(columns, i)),
                           *cell = json_string_value(json_array_get(cells, i));
                int number = strcmp(cell, "7") == 0, figure = strpbrk(cell, "123456890") != NULL;
                CHECK(with ? !figure : number || strcmp(cell, RP_NO_EVIDENCE) == 0, "%s: %s", title, cell);
            }
        }
    rp_rows_fini(&rows);
}

/* A bundle of one device in the cells of its case and no other, with its own model FLOPs. */
TEST(bundle_in_the_layout_of_gpt)
{
    static const char *const values[][2] = {{"model", "gpt of 16 x 1536"}, {"framework", "repro"},
                                            {"sequence_length", "2048"},   {"micro_batch", "2"},
                                            {"data_parallel", "8"},        {"tensor_parallel", "1"},
                                            {"pipeline_parallel", "4"},    {"global_batch", "512"},
                                            {"hidden_size", "1536"},       {"layers", "16"},
                                            {"vocabulary", "50304"},       {"recomputation", "full"},
                                            {"latency_ms", "5120000"},     {"tflops_per_device", "1.25"}};
    struct rp_rows rows = {0};
    struct rp_doc d = {0};
    struct rp_result *row = complete(&rows);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        set(row, values[i][0], values[i][1]);
    row->source.file = rp_strdup("a.zst");
    rp_layout_write(&d, "gpt", &rows);
    RP_JSON *doc = rp_doc_json(&d);
    const json_t *cells = row_of(doc, 0, "DP_PP_8x1x4_512_1536x16", "4"),
                 *other = row_of(doc, 0, "DP_8x1x1_16_1536x16", "1"),
                 *flops = row_of(doc, 1, "DP_PP_8x1x4_512_1536x16", "repro");
    CHECK(cells && other && flops);
    CHECK_STR(json_string_value(json_array_get(cells, 7)), "5120000.00");
    CHECK_STR(json_string_value(json_array_get(other, 7)), RP_NO_EVIDENCE);
    SAID(json_string_value(json_array_get(flops, 4)));
    CHECK_STR(json_string_value(json_array_get(flops, 8)), "204800"); /* tokens/s of 100 sequences/s */
    CHECK_STR(json_string_value(json_array_get(flops, 9)), RP_NO_EVIDENCE);
    CHECK_STR(json_string_value(json_array_get(flops, 10)), "1003.73");
    CHECK_STR(json_string_value(json_array_get(flops, 11)), "1.25");
    CHECK(row_of(doc, 2, "DP_PP_8x1x4_512_1536x16", "a.zst"), "no confounders");
    rp_doc_fini(&d);
    d = (struct rp_doc){0};
    set(&rows.row[0], "layers", "17"); /* of no case */
    rp_layout_write(&d, "gpt", &rows);
    RP_BUF text = {0};
    rp_doc_write(&text, &d, RP_DOC_TEXT);
    CHECK(strstr(text.data, "no case"), "%s", text.data);
    rp_doc_fini(&d);
    rp_rows_fini(&rows);
}

/* What is asked of processors is no noise between GPUs, nor where one side is no processor. */
TEST(threads_of_processors_only)
{
    struct rp_rows rows = {0};
    complete(&rows);
    set(complete(&rows), "threads", "3");
    json_decref(compared(&rows, RP_COMPARABLE));
    processor(&rows.row[1]);
    json_decref(compared(&rows, RP_COMPARABLE));
    processor(&rows.row[0]);
    json_decref(compared(&rows, RP_COMPARABLE));
    set(&rows.row[1], "other_work", "load 5.02 on 2 CPUs, 6 tasks running");
    RP_JSON *c = compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS);
    CHECK_STR(
        json_string_value(json_object_get(json_array_get(json_object_get(first_pair(c), "confounders"), 0), "name")),
        "other work");
    rp_rows_fini(&rows);
}

/* A collective trains nothing: nobody asks it for its optimizer, but for what it moves. */
TEST(collectives)
{
    static const char *const none[] = {"model",   "precision", "batch_per_device", "optimizer",    "clipping",
                                       "dropout", "data",      "padding",          "data_parallel"};
    struct rp_rows rows = {0};
    for (int k = 0; k < 2; k++) {
        struct rp_result *row = complete(&rows);
        in_gigabytes(row);
        for (size_t i = 0; i < sizeof none / sizeof *none; i++)
            set(row, none[i], "");
    }
    json_decref(compared(&rows, RP_COMPARABLE));
    set(&rows.row[1], "nodes", "2");
    json_decref(compared(&rows, RP_COMPARABLE_WITH_RESERVATIONS));
    set(&rows.row[1], "label", "all_reduce 16 B float sum");
    json_decref(compared(&rows, RP_NOT_COMPARABLE));
    rp_rows_fini(&rows);
}
