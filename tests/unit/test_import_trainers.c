/* Importers of trainers: Trainer of transformers, torchtitan, DeepSpeed. Public logs with figures worked out by hand,
 * and logs with a known figure that are damaged at random: they give that figure, or are refused. */
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

static json_t *import_set(const char *format, const char *log, const char *set)
{
    struct rp_import_opts o = {.from = -1, .to = -1, .set = &set, .sets = 1};
    return import_with(format, &(struct file){"x.log", log}, 1, &o);
}

static double seconds(const json_t *doc)
{
    const json_t *figure = json_array_get(json_object_get(json_object_get(doc, "provenance"), "figures"), 0);
    return json_number_value(json_object_get(json_object_get(figure, "window"), "seconds"));
}

/* ---- Trainer of transformers ---- */

/* https://github.com/HenokB/amharic-to-geez, trainer_state.json: 2752 steps of 4 in 1562.7219 s are 7.044 samples/s. */
static const char state_file[] =
    "{\n  \"best_metric\": null,\n  \"best_model_checkpoint\": null,\n  \"epoch\": 1.0,\n  \"global_step\": 2752,\n"
    "  \"is_hyper_param_search\": false,\n  \"log_history\": [\n"
    "    {\n      \"epoch\": 0.18,\n      \"learning_rate\": 4.091569767441861e-05,\n      \"loss\": 3.4668,\n      "
    "\"step\": 500\n    },\n"
    "    {\n      \"epoch\": 0.91,\n      \"learning_rate\": 4.578488372093023e-06,\n      \"loss\": 2.3678,\n      "
    "\"step\": 2500\n    },\n"
    "    {\n      \"epoch\": 1.0,\n      \"step\": 2752,\n      \"total_flos\": 946916779155456.0,\n      "
    "\"train_loss\": 2.6872192870738894,\n"
    "      \"train_runtime\": 1562.7219,\n      \"train_samples_per_second\": 7.043,\n      "
    "\"train_steps_per_second\": 1.761\n    }\n  ],\n"
    "  \"max_steps\": 2752,\n  \"num_train_epochs\": 1,\n  \"total_flos\": 946916779155456.0,\n  \"trial_name\": "
    "null\n}\n";

TEST(trainer_state_has_a_mean_over_the_whole_training)
{
    RP_JSON *doc = import_one("hf_trainer", "trainer_state.json", state_file),
            *set = import_set("hf_trainer", state_file, "global_batch=4");
    if (!CHECK(doc && set, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 7.043);
    NEAR(value(set, 0), 7.043);
    NEAR(seconds(doc), 1562.7219);
    SAID(text(doc, 0, "estimator"));
    SAID(text(doc, 0, "timed_window"));
    SAID(note(doc, 0));
    CHECK_STR(from(doc, 0, "throughput"), "[25,25]");
    REFUSED(!import_set("hf_trainer", state_file, "global_batc=4"), err.msg);
    RP_JSON *chosen = import_set("hf_trainer", state_file, "global_batch=8");
    if (CHECK(chosen, "%s", err.msg)) {
        NEAR(value(chosen, 0), 8 * 2752 / 1562.7219);
        SAID(note(chosen, 0));
    }
}

/* A training of MRPC as the course of transformers has it: 3 epochs of 3668 samples in 379.1704 s. */
#define HEADER(examples, batch, steps)                                                                                 \
    "[INFO|trainer.py:2405] 2025-03-06 12:04:09,913 >> ***** Running training *****\n"                                 \
    "[INFO|trainer.py:2406] 2025-03-06 12:04:09,913 >>   Num examples = " examples "\n"                                \
    "[INFO|trainer.py:2411] 2025-03-06 12:04:09,914 >>   Total train batch size (w. parallel, distributed & "          \
    "accumulation) = " batch "\n"                                                                                      \
    "[INFO|trainer.py:2413] 2025-03-06 12:04:09,914 >>   Total optimization steps = " steps "\n"
#define DICT(runtime, samples, steps, epoch) \
    "{'train_runtime': " runtime ", 'train_samples_per_second': " samples ", 'train_steps_per_second': " steps \
    ", 'train_loss': 0.3773, 'epoch': " epoch "}\n"
#define OUTPUT(step, runtime, samples, steps, epoch)                                                                   \
    "TrainOutput(global_step=" step ", training_loss=0.37, metrics={'train_runtime': " runtime                         \
    ", 'train_samples_per_second': " samples ", 'train_steps_per_second': " steps                                      \
    ", 'total_flos': 4.0e14, 'train_loss': 0.37, 'epoch': " epoch "})\n"
#define LOSS "{'loss': 2.1, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.1}\n"

TEST(what_the_trainer_prints)
{
    static const char mrpc[] = HEADER("3,668", "8", "1,377") LOSS
        "***** Running Evaluation *****\n  Num examples = 408\n"
        "100%|####| 1377/1377 [06:19<00:00]" DICT("379.1704", "29.021", "3.632", "3.0")
            OUTPUT("1377", "379.1704", "29.021", "3.632", "3.0");
    RP_JSON *doc = import_one("hf_trainer", "x", mrpc);
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 29.021);
    CHECK(count(doc, 0, "global_batch") == 8 && !*note(doc, 0), "%s", note(doc, 0));
    CHECK_STR(from(doc, 0, "throughput"), "[8,8]");
    CHECK_STR(from(doc, 0, "global_batch"), "3");
    RP_JSON *alone = import_one("hf_trainer", "x", DICT("29130.8404", "0.015", "0.002", "9.48"));
    if (CHECK(alone, "%s", err.msg))
        SAID(note(alone, 0)); /* the rate has two digits */
    RP_JSON *five = import_one("hf_trainer", "x", HEADER("3200", "32", "100") DICT("'25'", "'128'", "'4'", "'1'"));
    if (CHECK(five, "%s", err.msg))
        NEAR(value(five, 0), 128);
}

/* The rates of the log count 1000 planned steps of 32: 320 samples/s in 100 s. */
TEST(planned_steps_are_not_those_that_were_done)
{
    RP_JSON *early = import_one("hf_trainer", "x",
                                HEADER("32000", "32", "1000") DICT("100.0", "320.0", "10.0", "0.4")
                                    OUTPUT("400", "100.0", "320.0", "10.0", "0.4"));
    RP_JSON *resumed = import_one("hf_trainer", "x",
                                  HEADER("32000", "32", "1000") "  Continuing training from global step 700\n" DICT(
                                      "100.0", "320.0", "10.0", "1.0"));
    if (!CHECK(early && resumed, "%s", err.msg))
        return;
    NEAR(value(early, 0), 400 * 32 / 100.0);
    NEAR(value(resumed, 0), 300 * 32 / 100.0);
    SAID(text(early, 0, "estimator"));
    SAID(note(early, 0));
    SAID(note(resumed, 0));
    REFUSED(!import_one("hf_trainer", "x", HEADER("32000", "32", "1000") DICT("100.0", "320.0", "10.0", "0.4")),
            err.msg);
}

TEST(two_readings_of_a_training_are_refused)
{
    static const char *const bad[] = {
        /* GRPO: huggingface/trl, issue 3442 */
        HEADER("1283", "4", "1283") DICT("100.0", "12.83", "12.83", "1.0"),
        HEADER("3200", "32", "200") DICT("100.0", "32.0", "1.0", "1.0"),             /* 100 steps or 200 */
        DICT("100.0", "32.0", "1.0", "1.0") DICT("200.0", "32.0", "1.0", "1.0"),     /* two trainings */
        "{'train_runtime': 100.0, 'train_samples_per_second': 1.0, 'epoch': 1.0}\n",
        /* samples or steps: transformers before 4.6 */
        "{'train_runtime': 100.0, 'train_samp\n",
        LOSS,
        HEADER("3200", "32", "100") "  Continuing training from global step 100\n" DICT("1.0", "3200.0", "100.0",
                                                                                        "1.0"),
        "{\"log_history\": [{\"step\": 10, \"loss\": NaN}], \"max_steps\": 20, \"global_step\": 10}",
        "{\"log_history\": [{\"step\": 10}, {\"step\": 5}]}",
        "{\"log_history\": [{\"step\": 10, \"eval_runtime\": 900}, {\"step\": 10, \"train_runtime\": 100.0, "
        "\"train_samples_per_second\": 1.0, \"train_steps_per_second\": 0.1}], \"max_steps\": 10, \"global_step\": 10}",
        "{\"log_history\": [{\"step\": 10, \"train_runtime\": 100.0, \"train_samples_per_second\": 1.0, "
        "\"train_steps_per_second\": 0.1}], \"max_steps\": 10, \"global_step\": 20}",
        "{\"a\": 1}",
        "{",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(!import_one("hf_trainer", "x", bad[i]) && err.code == RP_MALFORMED, err.msg);
    RP_JSON *chosen = import_set("hf_trainer", bad[0], "global_batch=1"),
            *old =
                import_one("hf_trainer", "x",
                           HEADER("3200", "32",
                                  "100") "{'train_runtime': 100.0, 'train_samples_per_second': 1.0, 'epoch': 1.0}\n");
    if (CHECK(chosen && old, "%s", err.msg)) {
        NEAR(value(chosen, 0), 12.83);
        NEAR(value(old, 0), 32); /* the rate is of steps */
    }
    struct rp_import_opts o = {.from = 10, .to = 20};
    REFUSED(!import_with("hf_trainer", &(struct file){"x", LOSS}, 1, &o), err.msg);
}

/* A machine prints each of its dicts; a header begins anew. */
TEST(repeats_of_a_training_are_one)
{
    RP_JSON *doc = import_one("hf_trainer", "x",
                              HEADER("64", "64", "7") HEADER("3200", "32", "100")
                                  DICT("100.2", "31.936", "0.998", "1.0") DICT("100.3", "31.904", "0.997", "1.0"));
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 31.904);
    CHECK(count(doc, 0, "global_batch") == 32);
}

/* ---- torchtitan ---- */

/* https://github.com/pytorch/ao, docs/source/pretraining.rst: 30 steps of 8 sequences of 8192 tokens in 38.986 s, on 8
 * GPUs. */
static const char titan[] = "    [rank0]:[titan] 2025-06-04 11:02:37,404 - root - INFO - step:  1  loss: 12.2611  "
                            "memory: 27.22GiB(28.65%)  tps: 595  tflops: 34.47  mfu: 3.49%\n"
                            "    [rank0]:[titan] 2025-06-04 11:02:49,027 - root - INFO - step: 10  loss: 10.4260  "
                            "memory: 30.89GiB(32.51%)  tps: 6,344  tflops: 367.39  mfu: 37.15%\n"
                            "    [rank0]:[titan] 2025-06-04 11:03:01,988 - root - INFO - step: 20  loss:  8.9482  "
                            "memory: 30.89GiB(32.51%)  tps: 6,321  tflops: 366.06  mfu: 37.01%\n"
                            "    [rank0]:[titan] 2025-06-04 11:03:14,991 - root - INFO - step: 30  loss:  8.1183  "
                            "memory: 30.89GiB(32.51%)  tps: 6,300  tflops: 364.89  mfu: 36.89%\n"
                            "    [rank0]:[titan] 2025-06-04 11:03:28,013 - root - INFO - step: 40  loss:  7.4659  "
                            "memory: 30.89GiB(32.51%)  tps: 6,291  tflops: 364.36  mfu: 36.84%\n";

TEST(tps_of_torchtitan_is_of_one_device)
{
    const char *set[] = {"global_batch=8", "sequence_length=8192", "devices=8"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 3};
    RP_JSON *times = import_with("torchtitan", &(struct file){"x", titan}, 1, &o),
            *rates = import_set("torchtitan", titan, "devices=8");
    if (!CHECK(times && rates, "%s", err.msg))
        return;
    CHECK(fabs(value(times, 0) - 30 * 8 / 38.986) < 1e-6, "%.9g", value(times, 0));
    CHECK(!*note(times, 0), "%s", note(times, 0)); /* 8 x tps agrees */
    CHECK_STR(from(times, 0, "throughput"), "[2,5]");
    NEAR(value(rates, 0), 8 * 3 / (1 / 6321.0 + 1 / 6300.0 + 1 / 6291.0));
    CHECK_STR(unit(rates, 0), "tokens/s");
    SAID(text(rates, 0, "estimator"));
    REFUSED(!import_one("torchtitan", "x", titan), err.msg);
}

#define TITAN(time, text) "[titan] 2025-06-04 11:" time ",000 - root - INFO - " text "\n"
#define TITAN_STEP(time, step, tps)                                                                                    \
    TITAN(time, "\x1b[31mstep: " step "  \x1b[32mloss: 10.4  \x1b[34mtps: " tps "  \x1b[36mtflops: 367.39\x1b[39m")

TEST(headers_of_torchtitan)
{
    static const struct {
        const char *header;
        int64_t batch, length, devices;
    } header[] = {
        {TITAN("00:00", "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]")
             TITAN("00:01", "Training starts at step 1, with local batch size 2, global batch size 8, sequence length "
                            "1024, total steps 100 (warmup 2)"),
         8, 1024, 8},
        {TITAN("00:00", "Building device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=2, cp=1, tp=2, ep=4")
             TITAN("00:01", "Trainer is initialized with local batch size 2, global batch size 8, gradient "
                            "accumulation steps 1, sequence length 1024, total steps 9")
                 TITAN("00:02", "Training starts at step 1"),
         8, 1024, 8},
        {TITAN("00:00", "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1")
             TITAN("00:01", "Trainer is initialized with 1024 tokens per DP rank, 8192 tokens per train step, gradient "
                            "accumulation steps 1, maximum context length 1024, total steps 9 (warmup 2)"),
         8, 1024, 8},
    };
    for (size_t i = 0; i < sizeof header / sizeof *header; i++) {
        RP_FREE char *log = rp_asprintf(
            "%s%s", header[i].header,
            TITAN("00:03", "Model llama3 8B \x1b[31msize: 8,030,261,248 total parameters\x1b[39m")
                TITAN_STEP("01:00", " 1", "100") TITAN_STEP("01:10", "10", "1,024")
                    TITAN("01:15", "validate step: 15  loss: 7.4  tps: 9,999") TITAN_STEP("01:20", "20", "1,024")
                        TITAN_STEP("01:30", "30", "1,024") TITAN("09:00", "Training starts at step 31")
                            TITAN_STEP("09:10", "40", "1,024"));
        RP_JSON *doc = import_one("torchtitan", "x", log);
        if (!CHECK(doc, "%zu: %s", i, err.msg))
            continue;
        NEAR(value(doc, 0), 8 * 20 / 20.0);
        CHECK_STR(text(doc, 0, "model"), "llama3 8B");
        CHECK(count(doc, 0, "parameters") == 8030261248 && count(doc, 0, "devices") == header[i].devices &&
                  count(doc, 0, "global_batch") == header[i].batch &&
                  count(doc, 0, "sequence_length") == header[i].length,
              "%zu", i);
        SAID(note(doc, 0));
    }
}

/* ---- DeepSpeed ---- */

/* https://github.com/deepspeedai/DeepSpeed/issues/1825: 20 steps in 30.289 s; its running mean, which is none of the
 * last 20, is 83.7. */
static const char speed[] = "[2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, "
                            "lr=[5e-05], mom=[[0.9, 0.999]]\n"
                            "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, "
                            "SamplesPerSec=83.48609168106144, MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"
                            "<IPython.core.display.HTML object>\n"
                            "[2022-03-11 02:07:14,130] [INFO] [logging.py:69:log_dist] [Rank 0] step=50, skipped=2, "
                            "lr=[5e-05], mom=[[0.9, 0.999]]\n"
                            "[2022-03-11 02:07:14,130] [INFO] [timer.py:189:stop] 0/50, "
                            "SamplesPerSec=83.73838805358588, MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"
                            "[2022-03-11 02:07:29,274] [INFO] [logging.py:69:log_dist] [Rank 0] step=60, skipped=2, "
                            "lr=[5e-05], mom=[[0.9, 0.999]]\n";
#define SPEED(time, line) "[2023-11-07 01:" time ",000] [INFO] " line "\n"
#define CONFIG(time, batch, micro) \
    SPEED(time, "[logging.py:96:log_dist] [Rank 0] step=0, skipped=0, lr=[3e-05], mom=[(0.9, 0.999)]") \
    SPEED(time, "[config.py:999:print] DeepSpeedEngine configuration:") \
    SPEED(time, "[config.py:1003:print]   gradient_accumulation_steps .. 4") \
    SPEED(time, "[config.py:1003:print]   train_batch_size ............. " batch) \
    SPEED(time, "[config.py:1003:print]   train_micro_batch_size_per_gpu  " micro) \
    SPEED(time, "[config.py:1003:print]   world_size ................... 8")
#define SPEED_STEP(time, step, micro) \
    SPEED(time, "[logging.py:96:log_dist] [Rank 0] step=" step ", skipped=4, lr=[4.9e-05], mom=[(0.9, 0.95)]") \
    SPEED(time, "[timer.py:260:stop] epoch=0/micro_step=" micro "/global_step=" step \
                ", RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=130.0, MemAllocated=4.32GB, MaxMemAllocated=38.49GB")

TEST(deepspeed_counts_steps_of_the_optimizer_by_their_times)
{
    const char *set[] = {"global_batch=128"};
    struct rp_import_opts o = {.from = 40, .to = 60, .set = set, .sets = 1};
    RP_JSON *public = import_with("deepspeed", &(struct file){"x", speed}, 1, &o);
    if (CHECK(public, "%s", err.msg)) {
        CHECK(fabs(value(public, 0) - 20 * 128 / 30.289) < 1e-5, "%.9g", value(public, 0));
        CHECK_STR(from(public, 0, "throughput"), "[1,6]");
    }
    REFUSED(!import_one("deepspeed", "x", speed), err.msg);
    static const char steps[] = SPEED_STEP("10:00", "10", "40") SPEED_STEP("10:10", "20", "80")
        SPEED_STEP("10:20", "30", "120") CONFIG("12:00", "64", "2") SPEED_STEP("19:00", "40", "160");
    RP_FREE char *log = rp_asprintf("%s%s", CONFIG("00:00", "128", "4"), steps),
                 *wrong = rp_asprintf("%s%s", CONFIG("00:00", "12", "4"), steps);
    RP_JSON *doc = import_one("deepspeed", "x", log), *again = import_one("deepspeed", "x", steps);
    REFUSED(!import_one("deepspeed", "x", wrong), err.msg);
    if (!CHECK(doc && again, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 128 * 10 / 10.0);
    CHECK(count(doc, 0, "global_batch") == 128 && count(doc, 0, "accumulation") == 4);
    SAID(note(doc, 0));
    SAID(note(again, 0)); /* no batch: the rates */
    NEAR(value(again, 0), 130);
    REFUSED(!import_one("deepspeed", "x", "hello\n"), err.msg);
}

/* ---- damage ---- */

static uint32_t state = 1;
static uint32_t below(uint32_t n)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % n;
}

static char *logs[3]; /* 128 samples/s each */
static const char *const formats[] = {"hf_trainer", "torchtitan", "deepspeed"};

static void make_logs(void)
{
    RP_BUF t = {0}, d = {0};
    if (logs[0])
        return;
    rp_buf_puts(
        &t,
        TITAN("00:01",
              "Trainer is initialized with local batch size 16, global batch size 128, gradient accumulation steps 1, "
              "sequence length 1024, total steps 200 (warmup 2)"));
    rp_buf_puts(&d, CONFIG("00:00", "128", "4"));
    for (int i = 1; i <= 20; i++) {
        rp_buf_printf(&t,
                      "[titan] 2025-06-04 11:%02d:%02d,500 - root - INFO - step: %2d  loss: 9.1  memory: 1.0GiB(1.0%%) "
                      " tps: 16,384  mfu: 1%%\n",
                      1 + i / 6, i % 6 * 10, 10 * i);
        rp_buf_printf(&d,
                      "[2023-11-07 01:%02d:%02d,250] [INFO] [logging.py:96:log_dist] [Rank 0] step=%d, skipped=0, "
                      "lr=[1e-05], mom=[0.9]\n"
                      "[2023-11-07 01:%02d:%02d,251] [INFO] [timer.py:260:stop] epoch=0/micro_step=%d/global_step=%d, "
                      "RunningAvgSamplesPerSec=1.5, CurrSamplesPerSec=128.0, MemAllocated=4.32GB\n",
                      1 + i / 6, i % 6 * 10, 10 * i, 1 + i / 6, i % 6 * 10, 40 * i, 10 * i);
    }
    logs[0] = rp_strdup(HEADER("25,600", "128", "200") LOSS LOSS LOSS LOSS DICT("200.0", "128.0", "1.0", "1.0"));
    logs[1] = rp_buf_take(&t);
    logs[2] = rp_buf_take(&d);
}

/* Lines twice, with tags of mpirun, srun -l or kubectl, in another order, cut, or written into each other. */
static char *damaged(const char *log)
{
    static const char *const tags[] = {"", "[1,0]<stdout>:", "3: ", "2026-01-01T00:00:00.123456789Z ",
                                       "(trainer pid=77) "};
    RP_BUF out = {0};
    char *line[128];
    int n = 0, kind = (int)below(6);
    RP_FREE char *copy = rp_strdup(log);
    for (char *save, *p = strtok_r(copy, "\n", &save); p && n < 128; p = strtok_r(NULL, "\n", &save))
        line[n++] = p;
    for (int i = 0; kind == 1 && i < 3; i++) { /* another order */
        int a = (int)below((uint32_t)n), b = (int)below((uint32_t)n);
        char *one = line[a];
        line[a] = line[b];
        line[b] = one;
    }
    const char *tag = kind == 2 || !below(3) ? tags[below(5)] : "";
    for (int i = 0; i < n; i++) {
        size_t size = strlen(line[i]), cut = below((uint32_t)size + 1);
        int hit = !below(6);
        if (kind == 3 && hit)
            rp_buf_printf(&out, "%s%.*s\n", tag, (int)cut, line[i]); /* its end is lost */
        else if (kind == 4 && hit)
            rp_buf_printf(&out, "%s%s\n", tag, line[i] + cut); /* its start */
        else if (kind == 5 && hit && i + 1 < n && ++i)
            rp_buf_printf(&out, "%s%.*s%s%s%s\n", tag, (int)cut, line[i - 1], tag, line[i], line[i - 1] + cut);
        else
            rp_buf_printf(&out, "%s%s\n", tag, line[i]);
        if (!kind && hit)
            rp_buf_printf(&out, "%s%s\n", tag, line[i]);
    }
    return rp_buf_take(&out);
}

TEST(damaged_logs_give_the_truth_or_nothing)
{
    int read[3] = {0}, most = tap_long() ? 20000 : 1000;
    make_logs();
    for (int i = 0; i < most; i++) {
        RP_FREE char *log = damaged(logs[i % 3]);
        RP_JSON *doc = import_one(formats[i % 3], "x", log);
        read[i % 3] += doc != NULL;
        CHECK(doc ? fabs(value(doc, 0) / 128 - 1) < 1e-3 : err.code == RP_MALFORMED,
              "%s, seed %d: %g from\n%s", formats[i % 3], i, doc ? value(doc, 0) : 0, log);
    }
    for (int f = 0; f < 3; f++)
        CHECK(read[f] > most / 10, "%s: %d of %d are read", formats[f], read[f], most / 3);
}
