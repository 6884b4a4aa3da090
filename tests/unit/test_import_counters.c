/* Logs whose counters, names and times can be read in two ways: the right figure, or a refusal. */
#include "base/json.h"
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- nccl-tests ---- */

/* A run of a collective over ranks that are placed round robin on hosts; 8 MB in `us`. */
static void put_nccl(struct rp_buf *out, const char *tag, const char *collective, int ranks, int hosts,
                     const char *column, double us)
{
    if (collective)
        rp_buf_printf(out, "%s# Collective test starting: %s_perf\n", tag, collective);
    rp_buf_printf(
        out, "%s# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n",
        tag);
    rp_buf_printf(out, "%s# Using devices\n", tag);
    for (int i = 0; i < ranks; i++)
        rp_buf_printf(out, "%s#  Rank %2d Group  0 Pid %d on 3f9c1ab2d4e%d device %d [0000:04:00] Test GPU 80GB\n", tag,
                      i, 6899 + i, i % hosts, i);
    rp_buf_printf(out, "%s#       size   count  type  redop  root  time  algbw  busbw  %s  time  algbw  busbw  %s\n",
                  tag, column, column);
    rp_buf_printf(out, "%s3f9c1ab2d4e0:77:77 [0] NCCL INFO Bootstrap : Using eth0\n", tag);
    rp_buf_printf(out, "%s2026-11-29 10:00:00 a message of something else\n", tag);
    rp_buf_printf(out, "%s  8000000  2000000  float  sum  -1  %.1f  1.0  N/A  5e-07  N/A  N/A  N/A  N/A\n", tag, us);
    rp_buf_printf(out, "%s# Out of bounds values : 0 OK\n", tag);
}

TEST(every_table_of_nccl_has_its_own_ranks_hosts_and_collective)
{
    static const char *const tags[] = {"", "[1,0]<stdout>:", "0: ", "node-1:  ", "2026-11-29T10:00:00.123456789Z "};
    static const struct {
        const char *collective;
        int ranks, hosts;
        double factor;
    } runs[] = {{"all_reduce", 8, 2, 2 * 7 / 8.0},
                {"all_gather", 4, 3, 3 / 4.0},
                {"all_gather", 4, 1, 3 / 4.0},
                {"all_reduce", 2, 2, 1}};
    for (size_t t = 0; t < sizeof tags / sizeof *tags; t++) {
        RP_BUF log = {0};
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
            put_nccl(&log, tags[t], runs[i].collective, runs[i].ranks, runs[i].hosts, "#wrong", 100.0);
        RP_JSON *doc = import_one("nccl", "a.txt", rp_buf_text(&log));
        if (!CHECK(doc, "'%s': %s", tags[t], err.msg))
            continue;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            NEAR(value(doc, i), 8e6 / 100e-6 / 1e9 * runs[i].factor);
            CHECK(count(doc, i, "devices") == runs[i].ranks && count(doc, i, "nodes") == runs[i].hosts, "'%s', run %zu",
                  tags[t], i);
            CHECK_STR(text(doc, i, "task"), runs[i].collective);
        }
    }
}

/* A run without that line has no name; it does not take that of the run before it. */
TEST(an_unnamed_run_of_nccl_has_no_bandwidth_of_ours)
{
    RP_BUF log = {0};
    put_nccl(&log, "", "all_gather", 4, 1, "#wrong", 100.0);
    put_nccl(&log, "", NULL, 8, 1, "#wrong", 100.0);
    RP_JSON *doc = import_one("nccl", "a.txt", rp_buf_text(&log));
    if (!CHECK(doc, "%s", err.msg))
        return;
    CHECK(json_array_size(json_object_get(doc, "rows")) == 2 && !json_object_get(row(doc, 1), "task"));
    CHECK(count(doc, 1, "devices") == 8);
}

TEST(the_error_of_old_nccl_tests_is_no_count)
{
    static const struct {
        const char *column;
        int noted;
    } of[] = {{"error", 0}, {"#wrong", 1}};
    for (size_t i = 0; i < 2; i++) {
        RP_BUF log = {0};
        put_nccl(&log, "", "all_reduce", 8, 1, of[i].column, 100.0);
        RP_JSON *doc = import_one("nccl", "a.txt", rp_buf_text(&log));
        if (CHECK(doc, "%s", err.msg))
            CHECK((*note(doc, 0) != 0) == of[i].noted, "%s: '%s'", of[i].column, note(doc, 0));
    }
}

TEST(a_row_of_nccl_that_was_cut_is_refused)
{
    RP_BUF log = {0};
    put_nccl(&log, "", "all_reduce", 8, 1, "#wrong", 100.0);
    rp_buf_puts(&log, "  8000000  2000000  flo\n");
    CHECK(!import_one("nccl", "a.txt", rp_buf_text(&log)) && strstr(err.msg, "columns"), "%s", err.msg);
}

TEST(nccl_json_is_read_without_its_environment)
{
    RP_JSON *doc = import_one(
        "nccl", "a.json",
        "{\"version\":1,\"args\":[\"/opt/x/"
        "all_gather_perf\",\"-J\",\"a.json\"],\"env\":[\"TOKEN=secret\"],\"config\":{\"iterations\":20,\"devices\":"
        "[{\"rank\":0,\"hostname\":\"a\",\"device_info\":\"G\"},{\"rank\":1,\"hostname\":\"a\",\"device_info\":\"G\"}"
        "]},\"results\":[{\"size\":4000000,"
        "\"count\":1,\"type\":\"float\",\"redop\":\"none\",\"root\":\"-1\",\"out_of_place\":{\"time\":100.0,\"alg_"
        "bw\":40.0,\"bus_bw\":20.0,"
        "\"nwrong\":0.0},\"in_place\":null}]}");
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 20);
    CHECK(json_array_size(json_object_get(doc, "rows")) == 1);
    RP_BUF all = {0};
    rp_json_write(&all, doc);
    CHECK(!strstr(all.data, "secret"));
}

/* ---- MLPerf ---- */

#define MLLOG(ms, key, metadata)                                                                                       \
    ":::MLLOG {\"time_ms\": " #ms ", \"key\": \"" key "\", \"value\": \"\", \"metadata\": {" metadata "}}\n"
#define BATCH(n) ":::MLLOG {\"time_ms\": 1, \"key\": \"global_batch_size\", \"value\": " #n ", \"metadata\": {}}\n"

TEST(mllog_counters_that_do_not_fit_give_no_figure)
{
    static const struct {
        const char *what, *log;
        double expected; /* 0: none */
    } logs[] = {
        {"steps at the start of blocks, samples at their end",
         BATCH(8) MLLOG(1000, "run_start", "") MLLOG(2160000, "block_stop", "\"samples_count\": 1536") MLLOG(
             2160000, "block_start", "\"samples_count\": 192") MLLOG(2760000, "block_stop", "\"samples_count\": 1920")
             MLLOG(2760000, "block_start", "\"samples_count\": 240")
                 MLLOG(3360000, "block_stop", "\"samples_count\": 2304"),
         0},
        {"blocks that go on where the one before ended",
         BATCH(8) MLLOG(1000, "block_start", "\"samples_count\": 0") MLLOG(2000, "block_stop", "\"samples_count\": 16")
             MLLOG(2500, "block_start", "\"samples_count\": 16") MLLOG(3500, "block_stop", "\"samples_count\": 40"),
         20},
        {"the size of a block at both ends, as its steps say",
         BATCH(64) MLLOG(1000, "block_start", "\"samples_count\": 12288, \"step\": 0")
             MLLOG(17000, "block_stop", "\"samples_count\": 12288, \"step\": 192")
                 MLLOG(18000, "block_start", "\"samples_count\": 12288, \"step\": 192")
                     MLLOG(34000, "block_stop", "\"samples_count\": 12288, \"step\": 384"),
         768},
        {"the same count at both ends, and other steps",
         BATCH(64) MLLOG(1000, "block_start", "\"samples_count\": 12288, \"step\": 0")
             MLLOG(17000, "block_stop", "\"samples_count\": 12288, \"step\": 100"),
         0},
        {"the same count at both ends alone", BATCH(64) MLLOG(1000, "block_start", "\"samples_count\": 12288")
                                                  MLLOG(17000, "block_stop", "\"samples_count\": 12288"),
         0},
        {"samples that are not steps times the batch",
         BATCH(64) MLLOG(1000, "block_start", "\"samples_count\": 0, \"step\": 0")
             MLLOG(17000, "block_stop", "\"samples_count\": 12288, \"step\": 100"),
         0},
        {"samples that are", BATCH(64) MLLOG(1000, "block_start", "\"samples_count\": 0, \"step\": 0")
                                 MLLOG(17000, "block_stop", "\"samples_count\": 12288, \"step\": 192"),
         768},
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        RP_JSON *doc = import_one("mllog", "a.log", logs[i].log);
        if (!CHECK(doc, "%s: %s", logs[i].what, err.msg))
            continue;
        const double got = json_object_get(row(doc, 0), "throughput") ? value(doc, 0) : 0;
        CHECK(fabs(got - logs[i].expected) < 1e-9, "%s: %g", logs[i].what, got);
        CHECK(got > 0 || *note(doc, 0), "%s: no reason", logs[i].what);
    }
}

TEST(mllog_dates_are_those_of_their_line)
{
    RP_JSON *doc = import_one("mllog", "a.log",
                              BATCH(8) MLLOG(1700000000000, "run_start", "")
                                  MLLOG(1700000001000, "block_start", "\"samples_count\": 0")
                                      MLLOG(1700000002000, "block_stop", "\"samples_count\": 16"));
    if (CHECK(doc, "%s", err.msg))
        CHECK_STR(from(doc, 0, "date"), "2");
}

/* ---- tables ---- */

TEST(times_that_rise_with_every_row_are_no_durations)
{
    static const struct {
        const char *text;
        double expected; /* 0: refused */
    } tables[] = {
        {"step,time\n10,10\n20,20\n30,30\n", 0},
        {"step,time\n1,1000\n2,1010\n3,1020\n", 0},
        {"step,seconds\n1,0.5\n2,0.8\n3,1.9\n", 0},
        {"step,time_ms\n1,100\n2,200\n3,300\n4,400\n", 0},
        {"step,elapsed\n10,10\n20,20\n30,30\n", 16.0},
        {"step,step_time\n1,10\n2,20\n3,30\n", 16 * 2 / 50.0},
        {"step,time\n1,1.00\n2,1.02\n3,1.03\n4,1.01\n", 16 * 3 / 3.06},
        {"step,time\n1,9\n2,0.5\n3,1.5\n", 16},
        {"step,time\n1,1\n2,2\n", 8}, /* two rows say nothing */
    };
    const char *set[] = {"global_batch=16"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        RP_JSON *doc = import_with("csv", &(struct file){"t.csv", tables[i].text}, 1, &o);
        if (tables[i].expected > 0)
            CHECK(doc && fabs(value(doc, 0) - tables[i].expected) < 1e-9, "table %zu: %s %g", i, err.msg,
                  doc ? value(doc, 0) : 0);
        else
            CHECK(!doc && err.code == RP_MALFORMED && strstr(err.msg, "elapsed") && strstr(err.msg, "step_time"),
                  "table %zu: %s", i, doc ? "read" : err.msg);
    }
}
