/* Tables of Lightning and of Weights & Biases: the truth that a table was made from, or a refusal. */
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

#include <stdint.h>

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static const char *refused_or(const json_t *doc)
{
    return doc ? note(doc, 0) : err.msg;
}

/* ---- Lightning's CSVLogger with its ThroughputMonitor ---- */

struct training {
    int world, batch, accumulation, every, rows;
    double step_s; /* of an optimizer step */
};

enum { PLAIN, UNEVEN = 1, RESTARTED = 2, NO_RATES = 4, ONE_ROW = 8 };

/* The rows that log_every_n_steps asks for, with those of validations and learning rates between them. */
static char *metrics_csv(const struct training *t, int how)
{
    RP_BUF out = {0};
    rp_buf_puts(&out, "epoch,lr-AdamW,step,train/batches,train/device/batches_per_sec,train/device/samples_per_sec,"
                      "train/samples,train/samples_per_sec,train/time,train_loss,val_loss\n");
    for (int i = 1; i <= (how & ONE_ROW ? 1 : t->rows); i++) {
        const int restart = how & RESTARTED && i > t->rows / 2 ? t->rows / 2 : 0;
        const int step = i * t->every - 1, steps = (i - restart) * t->every, batches = steps * t->accumulation;
        const int samples = batches * t->batch - (how & UNEVEN && i > 3 ? 1 : 0);
        const double rate = t->batch * t->accumulation / t->step_s;
        rp_buf_printf(&out, ",0.001,%d,,,,,,,,\n", step);
        rp_buf_printf(&out, "0,,%d,%d,%.17g,", step, batches, t->accumulation / t->step_s);
        if (how & NO_RATES)
            rp_buf_printf(&out, ",%d,,%.17g,,\n", samples, steps * t->step_s);
        else if (t->world > 1)
            rp_buf_printf(&out, "%.17g,%d,%.17g,%.17g,,\n", rate, samples, rate * t->world, steps * t->step_s);
        else
            rp_buf_printf(&out, "%.17g,%d,,%.17g,,\n", rate, samples, steps * t->step_s);
        rp_buf_printf(&out, "0,,%d,,,,,,,2.5,\n", step);
        if (i % 3 == 0)
            rp_buf_printf(&out, "0,,%d,,,,,,,,3.5\n", step);
    }
    return rp_buf_take(&out);
}

static const struct training trainings[] = {
    {1, 32, 1, 50, 20, 0.125}, {4, 16, 2, 10, 12, 0.5}, {8, 1, 1, 1, 40, 0.0625}, {2, 7, 3, 5, 9, 0.25}};

TEST(lightnings_monitor_gives_batch_devices_and_throughput)
{
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        const struct training *t = &trainings[i];
        RP_FREE char *table = metrics_csv(t, PLAIN);
        RP_JSON *doc = import_one("csv", "metrics.csv", table);
        if (!CHECK(doc, "%zu: %s", i, err.msg))
            continue;
        NEAR(value(doc, 0), t->world * t->batch * t->accumulation / t->step_s);
        CHECK_STR(unit(doc, 0), "samples/s");
        CHECK(count(doc, 0, "devices") == t->world && count(doc, 0, "batch_per_device") == t->batch &&
                  count(doc, 0, "accumulation") == t->accumulation,
              "%zu", i);
        CHECK_STR(text(doc, 0, "estimator"), "samples / seconds between the times of two lines");
    }
}

TEST(lightnings_tables_that_contradict_themselves_are_refused)
{
    static const struct {
        int how;
        const char *part;
    } bad[] = {{UNEVEN, "no whole batch"}, {RESTARTED, "second run"}, {ONE_ROW, "window"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_FREE char *table = metrics_csv(&trainings[1], bad[i].how);
        RP_JSON *doc = import_one("csv", "metrics.csv", table);
        CHECK(!doc && err.code == RP_MALFORMED && strstr(err.msg, bad[i].part), "%zu: %s", i, refused_or(doc));
    }
    /* Without rates, which the monitor writes after a hundred batches, the number of devices is unknown. */
    RP_FREE char *early = metrics_csv(&trainings[1], NO_RATES);
    RP_JSON *unknown = import_one("csv", "metrics.csv", early);
    CHECK(!unknown && strstr(err.msg, "global_batch"), "%s", refused_or(unknown));
    const char *set[] = {"devices=4"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    RP_JSON *given = import_with("csv", &(struct file){"metrics.csv", early}, 1, &o);
    if (CHECK(given, "%s", err.msg))
        NEAR(value(given, 0), 4 * 16 * 2 / 0.5);
    /* The table of a training without the monitor: lightning_logs/version_0 of 0Xero7/slm_training at d4575f90. */
    RP_JSON *plain_table = import_one("csv", "metrics.csv",
                                      "epoch,epoch_time,step,train_loss_epoch,train_loss_step,val_loss\n"
                                      "0,,49,,8.620475769042969,\n0,,99,,7.601476669311523,\n"
                                      "0,155.4527130126953,286,7.640378952026367,,\n");
    CHECK(!plain_table && strstr(err.msg, "ThroughputMonitor"), "%s", refused_or(plain_table));
}

TEST(units_in_names_of_columns_are_read)
{
    static const struct {
        const char *name;
        double seconds; /* of a value of 100; 0: unknown */
    } columns[] = {{"Time (s)", 100}, {"Step Time (ms)", 0.1}, {"Batch time [ms]", 0.1}, {"batch time (sec)", 100},
                   {"Throughput (samples/s)", 0.32}, {"Time (min)", 0}, {"Loss (ms)", 0}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        RP_FREE char *table = rp_asprintf("Step,%s\n1,100\n2,100\n3,100\n", columns[i].name);
        const char *set[] = {"global_batch=32"};
        struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1, .unit = "samples/s"};
        RP_JSON *doc = import_with("csv", &(struct file){"table.csv", table}, 1, &o);
        CHECK(!doc == !columns[i].seconds, "%s: %s", columns[i].name, refused_or(doc));
        if (doc && columns[i].seconds)
            NEAR(value(doc, 0), 32 / columns[i].seconds);
    }
}

/* Rows in another order, some of them twice, or the end cut off: the truth, or a refusal. */
TEST(disturbed_tables_of_lightning_give_the_truth_or_a_refusal)
{
    int read = 0, refused = 0;
    state = 1;
    for (int pass = 0; pass < 300; pass++) {
        const struct training *t = &trainings[pass % 4];
        RP_FREE char *table = metrics_csv(t, PLAIN);
        RP_BUF out = {0};
        const char *line[200];
        int n = 0;
        for (const char *p = table; *p; p = strchr(p, '\n') + 1)
            line[n++] = p;
        for (int swaps = pass % 3; swaps; swaps--) {
            const int a = 1 + (int)draw((uint64_t)n - 1), b = 1 + (int)draw((uint64_t)n - 1);
            const char *other = line[a];
            line[a] = line[b];
            line[b] = other;
        }
        for (int i = 0; i < n; i++)
            for (int times = 1 + (i && draw(8) == 0); times; times--)
                rp_buf_add(&out, line[i], (size_t)(strchr(line[i], '\n') + 1 - line[i]));
        if (pass % 5 == 0)
            out.data[out.size - 1 - draw(out.size / 2)] = 0;
        RP_JSON *doc = import_one("csv", "metrics.csv", rp_buf_text(&out));
        read += doc != NULL;
        refused += !doc;
        if (doc)
            NEAR(value(doc, 0), t->world * t->batch * t->accumulation / t->step_s);
    }
    CHECK(read > 50 && refused > 10, "%d read, %d refused", read, refused);
}

/* ---- Weights & Biases ---- */

TEST(a_chart_of_wandb_is_of_one_run)
{
    RP_JSON *doc =
        import_one("csv", "wandb_export.csv",
                   "\"Step\",\"swift-1 - throughput/tokens_per_sec\",\"swift-1 - throughput/tokens_per_sec__MIN\","
                   "\"swift-1 - throughput/tokens_per_sec__MAX\"\n"
                   "\"0\",\"10\",\"10\",\"10\"\n\"10\",\"200\",\"200\",\"200\"\n\"20\",\"300\",\"200\",\"600\"\n");
    if (CHECK(doc, "%s", err.msg)) {
        NEAR(value(doc, 0), 240);
        CHECK_STR(unit(doc, 0), "tokens/s");
        CHECK(strstr(note(doc, 0), "averaged by the export over several: 1 value"), "%s", note(doc, 0));
    }
    RP_JSON *two = import_one("csv", "wandb_export.csv",
                              "\"Step\",\"a - tokens_per_sec\",\"b - tokens_per_sec\"\n\"0\",\"10\",\"20\"\n");
    CHECK(!two && strstr(err.msg, "two runs") && strstr(err.msg, "'a - ") && strstr(err.msg, "'b - "), "%s",
          refused_or(two));
}

/* Its own step counts calls of wandb.log, here two for each step of the training. */
static char *history(int own_step, int seconds_per_step)
{
    RP_BUF out = {0};
    for (int i = 0; i < 10; i++) {
        rp_buf_printf(&out, "{\"loss\": 2.5, %s%.0d%s\"_runtime\": %d.5, \"_timestamp\": %d.5, \"_step\": %d}\n",
                      own_step ? "\"train/global_step\": " : "", own_step ? i + 1 : 0, own_step ? ", " : "",
                      seconds_per_step * i, 1582070918 + seconds_per_step * i, 2 * i);
        rp_buf_printf(&out, "{\"lr\": 0.5, \"image\": {\"_type\": \"image-file\"}, \"_step\": %d}\n", 2 * i + 1);
    }
    return rp_buf_take(&out);
}

TEST(steps_of_wandb_are_calls_unless_the_training_has_its_own)
{
    const char *set[] = {"global_batch=16"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    RP_FREE char *calls = history(0, 4), *own = history(1, 4);
    RP_JSON *unclear = import_with("csv", &(struct file){"wandb-history.jsonl", calls}, 1, &o);
    CHECK(!unclear && strstr(err.msg, "wandb.log") && strstr(err.msg, "8 samples/s"), "%s", refused_or(unclear));
    RP_JSON *doc = import_with("csv", &(struct file){"wandb-history.jsonl", own}, 1, &o);
    if (CHECK(doc, "%s", err.msg)) {
        NEAR(value(doc, 0), 4);
        CHECK(strstr(note(doc, 0), "10 rows"), "%s", note(doc, 0));
        CHECK_STR(from(doc, 0, "throughput"), "[3,19]");
    }
    /* The same as run.history().to_csv() has it. */
    RP_JSON *table = import_with("csv",
                                 &(struct file){"history.csv", ",loss,train/global_step,_runtime,_timestamp,_step\n"
                                                               "0,2.5,1,0.5,100.5,0\n1,2.5,2,4.5,104.5,2\n"
                                                               "2,2.5,3,8.5,108.5,4\n"},
                                 1, &o);
    if (CHECK(table, "%s", err.msg))
        NEAR(value(table, 0), 4);
    RP_JSON *late =
        import_with("csv",
                    &(struct file){"h.jsonl", "{\"_step\": 0, \"_timestamp\": 1}\n{\"_step\": 1, \"_timestamp\": 2}\n"
                                              "{\"_step\": 2, \"global_step\": 9, \"_timestamp\": 3}\n"},
                    1, &o);
    CHECK(!late && strstr(err.msg, "global_step") && strstr(err.msg, "_step"), "%s", refused_or(late));
}

/* As wandb-summary.json of marin-community/marin at 6f723ba6, in part. */
TEST(a_summary_of_wandb_has_one_rate_or_none)
{
    RP_JSON *doc =
        import_one("csv", "wandb-summary.json",
                   "{\"throughput/tokens_per_second\":1.051947651870781e+06,\"_timestamp\":1.7458693822968822e+09,"
                   "\"_step\":197429,\"_wandb\":{\"runtime\":0},\"_runtime\":435440.309247063,"
                   "\"throughput/examples_per_second\":256.8231571950149,\"eval/loss\":2.46}\n");
    if (CHECK(doc, "%s", err.msg)) {
        NEAR(value(doc, 0), 256.8231571950149);
        CHECK_STR(unit(doc, 0), "samples/s");
        CHECK(strstr(note(doc, 0), "last step"), "%s", note(doc, 0));
    }
    RP_JSON *none =
        import_one("csv", "wandb-summary.json", "{\"_step\": 9, \"_runtime\": 90, \"_wandb\": {\"runtime\": 90}}\n");
    CHECK(!none && strstr(err.msg, "history"), "%s", refused_or(none));
    RP_JSON *other = import_one("csv", "x.json", "{\"step\": 1,\n");
    CHECK(!other && err.code == RP_MALFORMED && strstr(err.msg, "JSON object"), "%s", refused_or(other));
}
