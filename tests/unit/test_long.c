/* Long input from strangers costs time by its length, not by its square: what once did not is here, in processor time
 * against itself. */
#include "tests/unit/verify_fixture.h"

#include "compare/layout.h"
#include "ledger/ledger.h"
#include "run/agreement.h"

#include <math.h>
#include <time.h>

#define RECIPE "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `lines` lines of `runs` runs: first all runs start, then they end in the order in which they started; *third: digest
 * of the third line. */
static void long_ledger(struct rp_buf *out, int runs, int lines, char third[RP_SHA256_HEX])
{
    char head[RP_SHA256_HEX] = RP_LEDGER_NOTHING;
    for (int i = 0; i < lines; i++) {
        RP_BUF bare = {0};
        char run[32] = "";
        if (i >= runs)
            snprintf(run, sizeof run, ",\"run\":%d", i - runs + 1);
        rp_buf_printf(
            &bare,
            "{\"at\":\"2026-11-22T05:46:08Z\",\"event\":\"%s\",\"n\":%d,\"previous\":\"%s\",\"recipe\":\"" RECIPE
            "\"%s}\n",
            i < runs ? "started" : "failed", i + 1, head, run);
        rp_sha256_hex(head, bare.data, bare.size);
        rp_buf_add(out, bare.data, bare.size - 2);
        rp_buf_printf(out, ",\"sha256\":\"%s\"}\n", head);
        if (i == 2)
            memcpy(third, head, sizeof head);
    }
}

TEST(many_open_runs_in_a_ledger)
{
    enum { RUNS = 40000, PART = 8 };
    RP_BUF text = {0}, part = {0};
    struct rp_ledger_summary s;
    struct rp_ledger_standing place;
    struct rp_err err = {0};
    char third[RP_SHA256_HEX] = "";
    fx_dir();
    RP_FREE char *path = fx_path("long.jsonl"), *begin = fx_path("begin.jsonl");
    long_ledger(&part, RUNS, 2 * RUNS / PART, third);
    long_ledger(&text, RUNS, 2 * RUNS, third);
    CHECK(rp_write_file(path, text.data, text.size, 0600, &err) == 0 &&
              rp_write_file(begin, part.data, part.size, 0600, &err) == 0,
          "%s", err.msg);
    struct rp_facts facts = {.ledger = {.position = 3, .earlier = 2}};
    RP_FORMAT(facts.ledger.head, "%s", third);
    double t0 = cpu_s();
    int failed = rp_ledger_read(begin, NULL, NULL, &s, &err);
    double t1 = cpu_s(), reading = PART * (t1 - t0);
    CHECK(!failed && s.lines == 2 * RUNS / PART, "%s", err.msg);
    failed = rp_ledger_find(path, &facts, RECIPE, "", &place, &err);
    double finding = cpu_s() - t1;
    CHECK(!failed && place.failed == 2 && place.later == RUNS - 3, "%s", err.msg);
    /* the square would be 8 times; the processor time of equal work differs by a third on a busy machine */
    CHECK(finding < 3 * reading + 0.05, "reading takes %.2f s, finding %.2f s", reading, finding);
}

/* Each row a section and a series of its own. */
static double dlperf_s(int n)
{
    RP_BUF csv = {0};
    struct rp_rows rows = {0};
    struct rp_doc d = {0};
    struct rp_err err = {0};
    rp_buf_puts(&csv, "model,precision,batch_per_device,framework,nodes,gpus,throughput,unit\n");
    for (int i = 0; i < n; i++)
        rp_buf_printf(&csv, "bert-base,fp32,%d,f%d,1,1,%d,sequences/s\n", i + 1, i, i + 1);
    CHECK(rp_rows_from_csv(&rows, csv.data, csv.size, "long.csv", NULL, &err) == 0 && rows.n == n, "%s", err.msg);
    double t0 = cpu_s();
    rp_layout_write(&d, "dlperf", &rows);
    double took = cpu_s() - t0;
    rp_doc_fini(&d);
    rp_rows_fini(&rows);
    return took;
}

TEST(many_series_in_the_layout_of_dlperf)
{
    double few = dlperf_s(125), many = dlperf_s(1000);
    /* the cube would be 512 times */
    CHECK(many < 130 * few + 0.1, "8 times the rows take %.3f s instead of %.3f s", many, few);
}

static void long_records(struct rp_records *rs, int64_t n)
{
    *rs = (struct rp_records){.r = rp_alloc((size_t)n * sizeof *rs->r), .n = n, .sha256 = RECIPE};
    for (int64_t i = 0; i < n; i++)
        rs->r[i] = (struct rp_step_record){.start_ns = i * 1000000, .end_ns = i * 1000000 + 900000 + i % 7,
                                           .step = (int32_t)i, .repeat = 1, .samples = 1, .timed = 1};
}

/* Seconds that the agreement of a run of n steps with itself takes. */
static double agreement_s(int64_t n)
{
    struct rp_records rs;
    struct rp_err err = {0};
    struct rp_agreement is;
    struct rp_facts facts;
    struct rp_figures figures;
    RP_JSON *before = fx_capture("2026-09-21T14:13:20Z");
    rp_object_init(&facts, &rp_type_facts);
    rp_object_init(&figures, &rp_type_figures);
    facts.recipe = json_object();
    figures.results.steps.timed = n;
    figures.results.throughput.value = 1000;
    figures.results.throughput.unit = rp_strdup("sequences/s");
    long_records(&rs, n);
    const struct rp_agreement_side side = {&facts, &figures, before, &rs};
    double t0 = cpu_s();
    int failed = rp_agreement_derive(&is, &side, &side, &err);
    double took = cpu_s() - t0;
    CHECK(!failed && !isnan(is.throughput.interval[0]), "%s", err.msg);
    rp_object_fini(&is, &rp_type_agreement);
    rp_object_fini(&facts, &rp_type_facts);
    rp_object_fini(&figures, &rp_type_figures);
    rp_records_fini(&rs);
    return took;
}

/* Above 50000 timed steps there are fewer draws, as for the interval of each run: shorter runs keep the intervals that
 * they were sealed with. */
TEST(agreement_of_long_runs)
{
    double draws_2000 = agreement_s(50000), draws_200 = agreement_s(50001);
    CHECK(draws_200 < 0.4 * draws_2000, "%.3f s, and one step more takes %.3f s", draws_2000, draws_200);
}
