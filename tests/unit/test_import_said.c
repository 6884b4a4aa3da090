/* Importers: what a log says of itself, under whatever name, is held against what follows from its times. */
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

TEST(rates_have_the_same_names_in_every_format)
{
    static const struct {
        const char *name, *unit;
    } rates[] = {{"samples_per_second", "sequences/s"},
                 {"train_samples_per_second", "sequences/s"},
                 {"Training.Throughput", "sequences/s"},
                 {"average_train_imgs/s", "images/s"},
                 {"train_tokens_per_sec", "tokens/s"}};
    const char *set[] = {"model=bert-base"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    char csv[200], log[600];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        snprintf(csv, sizeof csv, "step,%s\n0,1\n1,40\n2,40\n", rates[i].name);
        snprintf(log, sizeof log,
                 "DLLL {\"type\": \"LOG\", \"step\": [0, 0], \"data\": {\"%s\": 1}}\n"
                 "DLLL {\"type\": \"LOG\", \"step\": [0, 1], \"data\": {\"val_throughput\": 7, \"%s\": 40}}\n"
                 "DLLL {\"type\": \"LOG\", \"step\": [], \"data\": {\"%s\": 50}}\n",
                 rates[i].name, rates[i].name, rates[i].name);
        RP_JSON *a = import_with("csv", &(struct file){"t.csv", csv}, 1, &o),
                *b = import_with("dllogger", &(struct file){"x", log}, 1, &o);
        if (!CHECK(a && b, "%s: %s", rates[i].name, err.msg))
            continue;
        NEAR(value(a, 0), 40);
        NEAR(value(b, 0), 40);
        CHECK_STR(unit(a, 0), rates[i].unit);
        CHECK_STR(unit(b, 0), rates[i].unit);
        SAID(note(b, 0));
    }
    CHECK(rp_rate_rank("eval_throughput") < 0 && rp_rate_rank("train_loss") < 0 && rp_rate_rank("train_") < 0 &&
          rp_rate_rank("") < 0);
    CHECK(rp_rate_rank("train.total_ips") < rp_rate_rank("total_ips") &&
          rp_rate_rank("total_ips") < rp_rate_rank("train.compute_ips"));
}

TEST(tokens_are_held_against_sequences_of_their_length)
{
    const char *set[] = {"model=bert-base", "global_batch=10", "sequence_length=8"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 3};
    RP_JSON *doc = import_with("csv", &(struct file){"t", "step,time,tokens/s\n0,9,1\n1,1,88\n2,1,88\n"}, 1, &o);
    REFUSED(doc, doc ? note(doc, 0) : err.msg);
}

TEST(a_window_that_the_log_does_not_fill_is_named)
{
    static const char log[] = "step,time\n1,1\n2,1\n3,1\n4,1\n5,1\n6,1\n";
    const char *set[] = {"global_batch=10"};
    struct rp_import_opts o = {.from = 3, .to = 500, .set = set, .sets = 1};
    RP_JSON *early = import_with("csv", &(struct file){"t.csv", log}, 1, &o);
    REFUSED(early, early ? note(early, 0) : err.msg);
    o.to = 6;
    RP_JSON *whole = import_with("csv", &(struct file){"t.csv", log}, 1, &o);
    CHECK(whole && !*note(whole, 0), "%s", whole ? note(whole, 0) : err.msg);
    o.from = 7;
    o.to = 500;
    REFUSED(!import_with("csv", &(struct file){"t.csv", log}, 1, &o) && err.code == RP_MALFORMED, err.msg);
    static const char summary[] = "DLLL {\"type\": \"LOG\", \"step\": [], \"data\": {\"throughput\": 91.0}}\n";
    CHECK(!import_with("dllogger", &(struct file){"x", summary}, 1, &o) && err.code == RP_MALFORMED,
          "a summary is not of the window");
}
