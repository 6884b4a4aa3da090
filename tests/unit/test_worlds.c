/* Runs of several ranks as evidence: tables of worlds, exchanges, places of ranks. Figures follow, and lies are
 * found. */
#include "tests/unit/ranks.h"
#include "tests/unit/world_fixture.h"

#include "compare/compare.h"
#include "compare/layout.h"
#include "verify/state.h"
#include "worker/measure_exchange.h"

#include <math.h>

static const char h100[] = "gpu0 NVIDIA H100 PCIe sm_90";

/* ---- tables of worlds ---- */

/* Three worlds of one work, the smallest not first, and a run of other work. */
static void load_worlds(struct rp_rows *rows)
{
    static const char *const files[] = {"two", "one", "eight", "other"};
    const char *names[4];
    char *paths[4];
    struct rp_err err;
    const struct rp_result_opts o = {0};
    wide("one", (struct width){.percent = 100});
    wide("two", (struct width){.ranks = 2, .percent = 125});
    wide("eight", (struct width){.ranks = 8, .nodes = 2, .percent = 160});
    wide("other", (struct width){.ranks = 4, .percent = 125, .set = {"optimizer.clip_norm=0"}});
    for (int i = 0; i < 4; i++)
        names[i] = paths[i] = fx_path(files[i]);
    CHECK(rp_rows_load_all(rows, names, 4, &o, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 4; i++)
        free(paths[i]);
}

static int is_near(double x, double y)
{
    return fabs(x - y) < 0.005 * y;
}

TEST(worlds_of_one_work_scale_against_the_smallest)
{
    struct rp_err err;
    enum rp_comparable verdict;
    RP_ROWS rows = {0};
    load_worlds(&rows);
    RP_COMPARISON c = {0};
    CHECK(rp_compare(&c, &rows, &verdict, &err) == 0, "%s", err.msg);
    static const struct {
        long long row, devices;
        double speedup;
    } expected[] = {{1, 1, 1}, {0, 2, 1.6}, {2, 8, 5}};
    CHECK(c.scaling_n == 3, "%lld worlds", (long long)c.scaling_n);
    for (int64_t i = 0; i < 3 && c.scaling_n == 3; i++) {
        const struct rp_scaling_entry *s = &c.scaling[i];
        CHECK(s->row == expected[i].row && s->devices == expected[i].devices && s->base == 1, "world %lld: row %lld",
              (long long)i, (long long)s->row);
        CHECK(is_near(s->speedup, expected[i].speedup), "%g", s->speedup);
        CHECK(is_near(s->efficiency, expected[i].speedup / (double)expected[i].devices), "%g", s->efficiency);
        CHECK_STR(s->global_batch, i ? "proportional" : "constant");
    }
    const struct rp_result *eight = &rows.row[2];
    CHECK(eight->slowest_rank == 0 && eight->slowest_node == 0 && eight->nodes == 2 && eight->devices == 8, "rank %lld",
          (long long)eight->slowest_rank);
    CHECK_STR(eight->rank_layout, "8x1x1");
    CHECK(is_near(eight->exchange_share, 0.0576) && eight->wait_share == 0, "%g %g", eight->exchange_share,
          eight->wait_share);
    CHECK(rows.row[1].slowest_rank == 0 && rows.row[1].exchange_share == 0, "the slowest of one");
}

/* The same in every form, and a cell for what is unknown. */
TEST(worlds_as_tables)
{
    static const enum rp_doc_format forms[] = {RP_DOC_TEXT, RP_DOC_MD, RP_DOC_CSV};
    struct rp_err err;
    enum rp_comparable verdict;
    RP_ROWS rows = {0};
    RP_DOC layout = {0}, flat = {0};
    load_worlds(&rows);
    RP_COMPARISON c = {0};
    CHECK(rp_compare(&c, &rows, &verdict, &err) == 0, "%s", err.msg);
    rp_layout_write(&layout, "scaling", &rows);
    RP_JSON *j = rp_doc_json(&layout);
    const json_t *table = NULL;
    for (size_t i = 0; i < json_array_size(j) && !table; i++)
        table = json_object_get(json_array_get(j, i), "columns") ? json_array_get(j, i) : NULL;
    const json_t *columns = json_object_get(table, "columns"), *all = json_object_get(table, "rows");
    CHECK(json_array_size(all) == 3 && json_array_size(columns) == 14, "%zu rows of %zu columns", json_array_size(all),
          json_array_size(columns));
    static const struct {
        int row, column;
        const char *is;
    } cells[] = {{0, 4, "1x1x1"},  {0, 13, "-"},          {1, 2, "1"},     {1, 3, "2"},    {1, 6, "8, proportional"},
                 {1, 8, "1.60"},   {1, 10, "80.0 %"},     {2, 4, "8x1x1"}, {2, 8, "5.00"}, {2, 10, "62.5 %"},
                 {2, 11, "5.8 %"}, {2, 13, "0 of node 0"}};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        CHECK_STR(json_string_value(json_array_get(json_array_get(all, (size_t)cells[i].row), (size_t)cells[i].column)),
                  cells[i].is);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        RP_BUF text = {0};
        rp_doc_write(&text, &layout, forms[i]);
        CHECK(strstr(text.data, "62.5 %") && strstr(text.data, "8x1x1"), "%s", text.data);
    }
    RP_BUF csv = {0};
    rp_compare_flat(&flat, &rows, &c);
    rp_doc_write(&csv, &flat, RP_DOC_CSV);
    CHECK(strstr(csv.data, "global_batch_scaling,exchange_share,wait_share,slowest_rank,slowest_node\n") &&
              strstr(csv.data, ",proportional,"),
          "%s", csv.data);
}

/* Ranks on processors are the devices of DLPerf's tables. */
TEST(worlds_in_the_layout_of_dlperf)
{
    RP_ROWS rows = {0};
    RP_DOC d = {0};
    int found = 0;
    load_worlds(&rows);
    rp_layout_write(&d, "dlperf", &rows);
    RP_JSON *j = rp_doc_json(&d);
    size_t i, k;
    json_t *block, *row;
    json_array_foreach(j, i, block)
        json_array_foreach(json_object_get(block, "rows"), k, row)
            if (json_array_size(row) == 7 && strcmp(json_string_value(json_array_get(row, 0)), "2") == 0) {
                CHECK_STR(json_string_value(json_array_get(row, 1)), "0 (CPU)");
                CHECK_STR(json_string_value(json_array_get(row, 5)), "5.00");
                found++;
            }
    CHECK(found == 1, "%d rows of the largest world", found);
}

/* Work per step that stays: a world of the same global batch, and one of another model, which is another series. */
TEST(other_ways_to_scale)
{
    RP_ROWS rows = {0};
    RP_JSON *notes = json_array();
    static const struct {
        int64_t devices, hidden, global, accumulation;
        double rate;
    } runs[] = {
        {1, 768, 64, 16, 10}, {4, 768, 64, 16, 36}, {8, 768, 96, 12, 90}, {2, 1024, 64, 16, 30}, {16, 768, 0, 1, 100}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct rp_result *row = rp_rows_add(&rows);
        row->source.kind = RP_RESULT_BUNDLE;
        row->devices = row->threads = runs[i].devices;
        row->hidden_size = runs[i].hidden;
        row->global_batch = runs[i].global;
        row->accumulation = runs[i].accumulation;
        row->throughput = runs[i].rate;
        row->unit = rp_strdup("sequences/s");
    }
    RP_COMPARISON c = {0};
    rp_scaling(&c, &rows);
    static const struct {
        long long row, base;
        const char *batch;
    } expected[] = {{0, 0, "constant"}, {1, 0, "constant"}, {2, 0, "other"}, {4, 0, ""}};
    CHECK(c.scaling_n == 4, "%lld", (long long)c.scaling_n);
    for (int64_t i = 0; i < 4 && c.scaling_n == 4; i++) {
        const struct rp_scaling_entry *s = &c.scaling[i];
        CHECK(s->row == expected[i].row && s->base == expected[i].base, "%lld: %lld", (long long)i, (long long)s->row);
        CHECK_STR(s->global_batch ? s->global_batch : "", expected[i].batch);
    }
    CHECK(c.notes_n == 1, "%lld notes", (long long)c.notes_n); /* 90 of 8 */
}

/* What the table leaves out is compared with what is most like it; results of others are of other work anyway. */
TEST(why_a_bundle_is_not_in_the_table)
{
    RP_ROWS rows = {0};
    static const struct {
        int64_t devices, hidden;
        const char *isa;
    } runs[] = {{1, 768, "avx2"}, {2, 768, "avx2"}, {2, 768, "avx512"}, {4, 1024, "avx2"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct rp_result *row = rp_rows_add(&rows);
        row->source.kind = RP_RESULT_BUNDLE;
        row->devices = row->threads = runs[i].devices;
        row->hidden_size = runs[i].hidden;
        row->isa = rp_strdup(runs[i].isa);
        row->throughput = 10;
        row->unit = rp_strdup("sequences/s");
    }
    rp_rows_add(&rows)->throughput = 10;
    RP_COMPARISON c = {0};
    rp_scaling(&c, &rows);
    const int64_t before = c.notes_n;
    rp_scaling_explain(&c, &rows);
    CHECK(c.scaling_n == 2 && c.notes_n == before + 2, "%lld rows, %lld notes", (long long)c.scaling_n,
          (long long)c.notes_n);
    for (int64_t i = before; i < c.notes_n; i++)
        SAID(c.notes[i]);
}

/* ---- exchanges ---- */

/* What the workers of two ranks measured: 1 MB in 1 ms, and in 2 ms. */
static json_t *exchange_of(int64_t ns)
{
    return json_pack("[{s:s, s:I, s:i, s:[I, I]}, {s:s, s:I, s:i, s:[I]}]", "collective", "all_gather", "bytes",
                     (json_int_t)1000000, "calls", 1, "ns", (json_int_t)ns + 5, (json_int_t)ns, "collective",
                     "all_to_all", "bytes", (json_int_t)1000000, "calls", 1, "ns", (json_int_t)(2 * ns));
}

static void with_exchanges(struct fx *x, int ranks)
{
    json_t *ceilings = fx_ceilings(10000000, 11000000);
    json_object_set_new(json_object_get(ceilings, "before"), "exchange", exchange_of(1000000));
    json_object_set_new(json_object_get(ceilings, "after"), "exchange", exchange_of(1250000));
    json_decref(x->done);
    x->done = json_pack("{s:o, s:{s:i, s:i, s:i, s:i}}", "ceilings", ceilings, "exchange", "levels", 1,
                        "bytes_per_step", 4000000, "bytes_per_step_between_hosts", 0, "sent_bytes", 30000000);
    widen(x, (struct width){.ranks = ranks, .percent = 100});
}

TEST(rates_of_exchanges_follow_from_their_repetitions)
{
    FX(x);
    with_exchanges(&x, 2);
    seal_world(&x, "sealed");
    const struct rp_ceiling_figures *is = x.doc->figures.ceilings;
    const struct rp_exchange_rates *row = is->before->exchange;
    CHECK(is->before->exchange_n == 2 && row[0].bytes_per_s == 1e9 && row[0].bus_bytes_per_s == 5e8, "%g %g",
          row[0].bytes_per_s, row[0].bus_bytes_per_s);
    CHECK(row[1].bus_bytes_per_s == 2.5e8, "of two ranks half is sent");
    CHECK(is_near(is->exchange->least_s, 0.008) && is_near(is->exchange->measured_s, 0.01), "%g %g",
          is->exchange->least_s, is->exchange->measured_s);
    fx_said(&x, "### Exchanges");
    expect_state_of("sealed", RP_CHECK_ceilings, RP_CHECK_PASSED);
    static const struct {
        const char *path;
        double number;
        enum rp_check_id check;
        enum rp_code code;
    } bends[] = {{"ceilings/before/exchange/0/bytes_per_s", 2e9, RP_CHECK_ceilings, RP_MISMATCH},
                 {"ceilings/before/exchange/0/bus_bytes_per_s", 1e9, RP_CHECK_ceilings, RP_MISMATCH},
                 {"ceilings/after/exchange/1/bus_bytes_per_s", 1e12, RP_CHECK_ceilings, RP_MISMATCH},
                 {"ceilings/exchange/least_s", 0.001, RP_CHECK_ceilings, RP_MISMATCH},
                 {"ceilings/exchange/measured_s", 0.5, RP_CHECK_ceilings, RP_MISMATCH},
                 {"ceilings/before/exchange/0/bytes_per_s", -1, RP_CHECK_schema, RP_MALFORMED}};
    RP_JSON *keep = json_deep_copy(x.run);
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        set_path(x.run, bends[i].path, json_real(bends[i].number));
        refused(&x, bends[i].check, bends[i].code);
        RP_JSON *again = json_deep_copy(keep);
        fx_restore(x.run, again);
    }
    /* more time than the phase had */
    set_path(x.facts, "rank/0/phases_s/ceilings", json_real(0.02));
    refused(&x, RP_CHECK_ceilings, RP_MISMATCH);
}

/* Two ranks exchange at 0.5 GB/s at best: 12 MB in 10 ms took less than half of what they take, 9 MB did not. */
TEST(exchanges_faster_than_their_ceiling)
{
    static const int bytes[] = {9000000, 12000000};
    for (int i = 0; i < 2; i++) {
        FX(x);
        with_exchanges(&x, 2);
        json_object_set_new(json_object_get(x.done, "exchange"), "bytes_per_step", json_integer(bytes[i]));
        json_object_set_new(json_object_get(x.done, "exchange"), "sent_bytes", json_integer(bytes[i] * 8));
        seal_world(&x, "sealed");
        expect_state_of("sealed", RP_CHECK_ceilings, i ? RP_CHECK_WARNING : RP_CHECK_PASSED);
    }
}

/* One rank exchanges with nobody. */
TEST(one_rank_has_no_exchanges)
{
    FX(x);
    fx_compute(&x);
    CHECK(!x.doc->figures.ceilings->before->exchange_n && !x.doc->figures.ceilings->exchange, "exchanges of one rank");
    set_path(x.run, "ceilings/before/exchange", json_pack("[{s:f, s:f}]", "bytes_per_s", 1e9, "bus_bytes_per_s", 5e8));
    refused(&x, RP_CHECK_ceilings, RP_MISMATCH);
}

struct measured {
    json_t *of[3];
    size_t room[3];
    uint64_t sent[3];
};

static int measure(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct measured *m = arg;
    const int rank = c->rank[RP_GROUP_WORLD];
    const struct rp_device_opts o = {.isa = "scalar", .threads = 1};
    struct rp_dev *dev = rp_backend_cpu.open(&o, 4096, err);
    if (!dev)
        return -1;
    c->count = (struct rp_comm_count){.sent_bytes = 77, .sent_in = {70, 7}, .wait_ns = 5};
    const struct rp_comm_count before = c->count;
    m->of[rank] = rp_exchange_ceilings(dev, c, m->room[rank], NULL, NULL, err);
    m->sent[rank] = memcmp(&before, &c->count, sizeof before) == 0 ? c->count.sent_bytes : 0;
    rp_backend_cpu.close(dev);
    return m->of[rank] ? 0 : -1;
}

/* The ranks agree on the sizes, whatever memory each has, and on how often. */
TEST(all_ranks_measure_the_same_exchanges)
{
    static const struct {
        size_t room[3], sizes, bytes;
    } cases[] = {{{(size_t)64 << 20, (size_t)64 << 20, (size_t)64 << 20}, 3, 65280},
                 {{(size_t)64 << 20, 100000, (size_t)1 << 20}, 2, 65280},
                 {{(size_t)64 << 20, 2000, 2000}, 1, 1536},
                 {{(size_t)64 << 20, 0, 2000}, 0, 0},
                 {{512, 512, 512}, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct measured m = {0};
        struct rp_err err = {0};
        memcpy(m.room, cases[i].room, sizeof m.room);
        CHECK(ranks_run((struct rp_degrees){3, 1, 1}, NULL, measure, &m, &err) == 0, "%s", err.msg);
        for (int rank = 0; rank < 3; rank++) {
            const json_t *first = json_array_get(m.of[rank], 0);
            CHECK(json_array_size(m.of[rank]) == 2 * cases[i].sizes, "rank %d: %zu", rank, json_array_size(m.of[rank]));
            CHECK(rp_json_integer_at(first, "bytes") == (long long)cases[i].bytes, "%lld",
                  rp_json_integer_at(first, "bytes"));
            CHECK(json_array_size(json_object_get(first, "ns")) ==
                      json_array_size(json_object_get(json_array_get(m.of[0], 0), "ns")),
                  "repetitions");
            CHECK(m.sent[rank] == 77, "%llu bytes counted as of the run", (unsigned long long)m.sent[rank]);
        }
        for (int rank = 0; rank < 3; rank++)
            json_decref(m.of[rank]);
    }
}

/* One rank is asked to stop. */
static int stop_rank(void *arg)
{
    return ++*(int *)arg > 3;
}

static int measure_and_stop(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct measured *m = arg;
    const int rank = c->rank[RP_GROUP_WORLD];
    int asked = rank == 1 ? 0 : -1000000;
    const struct rp_device_opts o = {.isa = "scalar", .threads = 1};
    struct rp_dev *dev = rp_backend_cpu.open(&o, 4096, err);
    m->of[rank] = dev ? rp_exchange_ceilings(dev, c, 1 << 20, stop_rank, &asked, err) : NULL;
    if (dev)
        rp_backend_cpu.close(dev);
    return m->of[rank] ? rp_comm_barrier(c, RP_GROUP_WORLD, err) : -1;
}

TEST(ranks_stay_in_step_when_one_is_asked_to_stop)
{
    struct measured m = {0};
    struct rp_err err = {0};
    CHECK(ranks_run((struct rp_degrees){3, 1, 1}, NULL, measure_and_stop, &m, &err) == 0, "%s", err.msg);
    for (int rank = 0; rank < 3; rank++) {
        CHECK(json_array_size(m.of[rank]) == 4, "rank %d: %zu", rank, json_array_size(m.of[rank]));
        json_decref(m.of[rank]);
    }
}

/* ---- times of ranks ---- */

/* A key of every record of a rank is left out. */
static void without(struct rp_buf *steps, const char *key, int all)
{
    char *at;
    while ((at = strstr(steps->data, key))) {
        char *end = at + strcspn(at + 1, ",}") + 1;
        memmove(at, end, strlen(end) + 1);
        if (!all)
            break;
    }
    steps->size = strlen(steps->data);
}

/* NCCL does not tell how long it waited: unknown is not zero, in any table. */
TEST(unknown_waiting_is_not_zero)
{
    struct rp_err err;
    FX(x);
    widen(&x, (struct width){.ranks = 2, .percent = 100, .device = h100});
    for (int i = 0; i < 2; i++) {
        fx_records_of_rank(&x.of_rank[i], &x.steps, i);
        without(&x.of_rank[i], ",\"wait_ns\"", 1);
    }
    seal_world(&x, "sealed");
    RP_BUF report = {0};
    fx_report(&report, &x);
    CHECK(isnan(x.doc->figures.rank[0].wait_s) && isnan(x.doc->figures.rank[1].wait_s), "a time that nobody measured");
    CHECK(strstr(report.data, "| - |"), "%s", report.data);
    expect_state_of("sealed", RP_CHECK_ranks, RP_CHECK_PASSED);
    set_path(x.run, "rank/1/wait_s", json_real(0));
    refused(&x, RP_CHECK_ranks, RP_MISMATCH);
    /* some steps only */
    fx_again(&x);
    widen(&x, (struct width){.ranks = 2, .percent = 100});
    fx_records_of_rank(&x.of_rank[1], &x.steps, 1);
    without(&x.of_rank[1], ",\"wait_ns\"", 0);
    CHECK(fx_documents(&x, "complete", NULL, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    SAID(err.msg);
}

/* ---- places ---- */

TEST(ranks_ran_where_their_nodes_are)
{
    FX(x);
    widen(&x, (struct width){.ranks = 4, .nodes = 2, .percent = 100});
    fx_capture_both(&x, "cpu", "online", json_string("0-7"));
    for (int i = 0; i < 4; i++) {
        char cpus[16];
        x.hello[i] = json_pack("{s:o, s:s}", "device", fx_device("isa=avx2 threads=1"), "cpus",
                               RP_FORMAT(cpus, "%d-%d", i % 2 * 4, i % 2 * 4 + 3));
    }
    seal_world(&x, "sealed");
    CHECK_STR(x.doc->facts.rank[3].cpus, "4-7");
    expect_state_of("sealed", RP_CHECK_environment, RP_CHECK_PASSED);
    static const struct {
        int rank;
        const char *path, *text;
        enum rp_check_id check;
        enum rp_check_state state;
    } bends[] = {
        {1, "cpus", "4-8", RP_CHECK_environment, RP_CHECK_FAILED},
        {1, "cpus", "7-4", RP_CHECK_environment, RP_CHECK_FAILED},
        {1, "cpus", "99999999999999999999", RP_CHECK_environment, RP_CHECK_FAILED},
        {1, "cpus", "0-3", RP_CHECK_environment, RP_CHECK_NOTE},
        {2, "device/isa", "sse9", RP_CHECK_environment, RP_CHECK_NOTE},
        {2, "device/isa", "sse9", RP_CHECK_peak, RP_CHECK_NOTE},
        {0, "device/isa", "scalar", RP_CHECK_environment, RP_CHECK_FAILED},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        RP_JSON *keep = json_deep_copy(x.facts);
        set_path(fx_rank(&x, bends[i].rank), bends[i].path, json_string(bends[i].text));
        expect_state(&x, bends[i].check, bends[i].state);
        fx_restore(x.facts, keep);
    }
    set_path(x.facts, "rank/3/peak_rss_bytes", json_integer(1ll << 60));
    refused(&x, RP_CHECK_ranks, RP_MISMATCH); /* the run has the most of any rank */
    fx_capture_both(&x, "memory", "total", json_integer(1ll << 34));
    fx_derive(&x);
    CHECK(x.doc->figures.peak_rss_bytes == 1ll << 60, "the most of any rank");
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
}

/* A GPU of a capture, at an address. */
static json_t *captured_gpu(const char *name, const char *address)
{
    return json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}}", "name", "state", "ok", "value", name, "source", "NVML",
                     "pci_address", "state", "ok", "value", address, "source", "NVML");
}

TEST(gpus_of_ranks_are_those_of_their_nodes)
{
    static const char name[] = "NVIDIA H100 PCIe";
    FX(x);
    widen(&x, (struct width){.ranks = 4, .nodes = 2, .percent = 100, .device = h100});
    fx_gpus(&x, json_pack("{s:o, s:o}", "gpu0", captured_gpu(name, "00000000:19:00.0"), "gpu1",
                          captured_gpu(name, "00000000:1A:00.0")));
    json_decref(x.done);
    x.done = json_pack("{s:{s:i, s:i}}", "device_bytes", "reserved", 100000, "used", 200000);
    seal_world(&x, "sealed");
    CHECK_STR(x.doc->facts.rank[3].device->pci_address, "0000:1a:00.0");
    CHECK(x.doc->facts.rank[3].device_bytes->used == 200000, "memory of each");
    expect_state_of("sealed", RP_CHECK_environment, RP_CHECK_PASSED);
    static const struct {
        int rank;
        const char *path, *text;
        enum rp_check_state state;
    } bends[] = {
        {1, "device/pci_address", "0000:1b:00.0", RP_CHECK_FAILED}, /* there is none */
        {1, "device/pci_address", "0000:19:00.0", RP_CHECK_NOTE},   /* that of rank 0 */
        {1, "device/pci_address", NULL, RP_CHECK_WARNING},          /* perhaps */
        {3, "device/name", "Tesla V100-SXM2-16GB", RP_CHECK_FAILED},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        RP_JSON *keep = json_deep_copy(x.facts);
        set_path(fx_rank(&x, bends[i].rank), bends[i].path, bends[i].text ? json_string(bends[i].text) : json_null());
        expect_state(&x, RP_CHECK_environment, bends[i].state);
        fx_restore(x.facts, keep);
    }
    set_path(x.facts, "rank/2/device_bytes/reserved", json_integer(7)); /* less than the parameters */
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
    set_path(x.facts, "rank/0/device_bytes/used", json_integer(-7));
    refused(&x, RP_CHECK_schema, RP_MALFORMED);
}
