/* Importers: figures of small logs in the form of each program, with numbers that can be worked out by hand. */
#include "base/json.h"
#include "compare/result.h"
#include "tests/unit/golden.h"
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const char oneflow[] =
    "batch_size_per_device = 24\ngpu_num_per_node = 2\nnum_nodes = 1\nseq_length = 128\n"
    "step: 19, total_loss: 9.725, mlm_loss: 8.960, nsp_loss: 0.766, throughput: 50.000 1600000000.0\n"
    "step: 39, total_loss: 9.525, mlm_loss: 8.860, nsp_loss: 0.666, throughput: 96.000 1600000010.0\n"
    "step: 59, total_loss: 9.425, mlm_loss: 8.760, nsp_loss: 0.666, throughput: 160.000 1600000016.0\n"
    "step: 119, total_loss: 8.0, mlm_loss: 7.3, nsp_loss: 0.7, throughput: 120.0 1600000040.0\n"
    "step: 139, total_loss: 8.0, mlm_loss: 7.3, nsp_loss: 0.7, throughput: 120.0 1600009999.0\n";

TEST(oneflow_counts_from_step_19_to_step_119_by_the_times_behind_the_lines)
{
    RP_JSON *doc = import_one("dlperf", "/home/somebody/logs/1n2g/bert_b24_fp32_1.log", oneflow);
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 48.0 * 100 / 40); /* samples per step * steps / seconds */
    CHECK_STR(unit(doc, 0), "sequences/s");
    SAID(text(doc, 0, "timed_window"));
    CHECK_STR(text(doc, 0, "model"), "bert-base");
    CHECK_STR(text(doc, 0, "precision"), "fp32");
    CHECK_STR(text(doc, 0, "framework"), "OneFlow");
    CHECK(count(doc, 0, "global_batch") == 48 && count(doc, 0, "devices") == 2 &&
          count(doc, 0, "sequence_length") == 128);
    CHECK(json_is_true(json_object_get(doc, "unsigned")));
    CHECK(!json_object_get(row(doc, 0), "samples"), "the lines are not equally far apart");
    SAID(note(doc, 0));
    CHECK_STR(from(doc, 0, "throughput"), "[5,8]");
    CHECK_STR(from(doc, 0, "sequence_length"), "4");
    SAID(from(doc, 0, "precision"));
    SAID(from(doc, 0, "batch_per_device"));
    CHECK_STR(json_string_value(json_object_get(json_object_get(row(doc, 0), "source"), "file")),
              "1n2g/bert_b24_fp32_1.log");
    RP_BUF all = {0};
    rp_json_write(&all, doc);
    CHECK(!strstr(all.data, "somebody"), "where the logs are kept is nobody's business");
}

/* Names of the tables of DLPerf, so that its logs meet them; what the log itself or the command line says goes
 * before. */
TEST(models_of_dlperf_have_the_names_of_its_tables)
{
    static const struct {
        const char *path, *log, *set, *model;
    } cases[] = {{"rn50_b128_fp32_1.log", "", NULL, "resnet50-v1.5"},
                 {"r50_b128_fp32_1.log", "model = resnet50\n", NULL, "resnet50-v1.5"},
                 {"bert_b32_fp32_1.log", "", NULL, "bert-base"},
                 {"bert_b32_fp32_1.log", "num_hidden_layers = 24\n", NULL, "bert-large"},
                 {"bert_b32_fp32_1.log", "num_hidden_layers = 3\n", NULL, "bert"},
                 {"bert_b32_fp32_1.log", "", "model=bert", "bert"},
                 {"vgg16_b32_fp32_1.log", "", NULL, "vgg16"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_import_opts o = {
            .from = -1, .to = -1, .set = (const char **)&cases[i].set, .sets = cases[i].set != NULL};
        RP_FREE char *log = rp_asprintf("%s%s", cases[i].log, oneflow);
        RP_JSON *doc = import_with("dlperf", &(struct file){cases[i].path, log}, 1, &o);
        if (!CHECK(doc, "%s", err.msg))
            continue;
        CHECK_STR(text(doc, 0, "model"), cases[i].model);
        SAID(note(doc, 0)); /* only the third is taken to be of some size */
    }
}

TEST(the_window_can_be_chosen)
{
    struct rp_import_opts o = {.from = 39, .to = 200};
    RP_JSON *doc = import_with("dlperf", &(struct file){"x.log", oneflow}, 1, &o);
    if (CHECK(doc, "%s", err.msg))
        NEAR(value(doc, 0), 48.0 * 100 / 9989);
    o = (struct rp_import_opts){.from = 130, .to = 135};
    CHECK(!import_with("dlperf", &(struct file){"x.log", oneflow}, 1, &o) && strstr(err.msg, "steps 130 to 135") &&
              err.code == RP_MALFORMED,
          "%s", err.msg);
}

TEST(repeats_become_one_row_their_median)
{
    char log[3][256];
    const char *paths[] = {"a/1n1g/bert_b32_fp32_1.log", "a/1n1g/bert_b32_fp32_2.log", "a/1n1g/bert_b32_fp32_3.log"};
    struct file f[4];
    for (int i = 0; i < 3; i++) {
        snprintf(log[i], sizeof log[i],
                 "step: 19, l: 1, throughput: 1.0 1600000000.0\nstep: 119, l: 1, throughput: 1.0 16000000%d.0\n",
                 10 + 10 * i);
        f[i] = (struct file){paths[i], log[i]};
    }
    f[3] = (struct file){"a/1n2g/bert_b32_fp32_1.log", log[0]};
    RP_JSON *doc = import_with("dlperf", f, 4, &plain);
    if (!CHECK(doc, "%s", err.msg))
        return;
    CHECK(json_array_size(json_object_get(doc, "rows")) == 2);
    NEAR(value(doc, 0), 3200.0 / 20);
    NEAR(value(doc, 1), 6400.0 / 10);
    const json_t *samples = json_object_get(row(doc, 0), "samples");
    CHECK(json_array_size(samples) == 3);
    NEAR(json_number_value(json_array_get(samples, 0)), 320);
    SAID(text(doc, 0, "estimator"));
    CHECK(json_array_size(json_object_get(row(doc, 0), "links")) == 3);
    CHECK(!json_object_get(json_object_get(doc, "provenance"), "file"), "it is several files");
}

/* Two lines of each program, 4 samples a step on one device; what is expected is worked out in the last column. */
TEST(every_program_of_dlperf_is_read)
{
    static const struct {
        const char *framework, *unit, *log;
        double expected;
    } program[] = {
        {"OneFlow", "images/s",
         "train: epoch 0, iter 20, loss: 7.08, top_1: 0.0, top_k: 0.0, samples/s: 398.8 1597933942.5\n"
         "train: epoch 0, iter 120, loss: 1.05, top_1: 1.0, top_k: 1.0, samples/s: 591.7 1597933952.5\n",
         4 * 100 / 10.0},
        {"NGC PyTorch", "sequences/s",
         "DLL 2020-09-15 23:59:59.500000 - Training Epoch: 0 Training Iteration: 25  average_loss : 11.1  step_loss : "
         "11.0\n"
         "DLL 2020-09-16 00:00:01.500000 - Training Epoch: 0 Training Iteration: 35  average_loss : 11.1  step_loss : "
         "11.0\n",
         4 * 10 / 2.0},
        {"NGC TensorFlow 1.x", "sequences/s",
         "DLL 2020-12-08 10:00:00.000 - Iteration: 20  throughput_train : 142.3 seq/s mlm_loss : 10.3  nsp_loss : "
         "0.67\n"
         "DLL 2020-12-08 10:00:05.000 - Iteration: 30  throughput_train : 142.3 seq/s mlm_loss : 10.3  nsp_loss : "
         "0.67\n",
         4 * 10 / 5.0},
        {"NGC PyTorch", "images/s",
         "DLL 2020-09-15 14:29:13.000000 - Epoch: 0 Iteration: 25  train.loss : 7.09  train.total_ips : 267.44 img/s\n"
         "DLL 2020-09-15 14:29:14.000000 - Epoch: 0 Iteration: 26  train.loss : 6.93  train.total_ips : 4294.91 "
         "img/s\n",
         4.0},
        {"MXNet", "sequences/s",
         "INFO:root:[step 101]\tmlm_loss= 9.1\tthroughput=1.2K tks/s\tlr=0.00 time=1.1, latency=250.0 ms/batch\n"
         "INFO:root:[step 102]\tmlm_loss= 9.1\tthroughput=1.2K tks/s\tlr=0.00 time=1.1, latency=750.0 ms/batch\n",
         8 / 1.0},
        {"MXNet", "images/s",
         "2020-08-18 13:56:29,000:INFO: Epoch[0] Batch [0-20] Speed: 392.10 samples/sec accuracy=0.1\n"
         "2020-08-18 13:56:29,100:INFO: Epoch[0] Batch [0-20] Speed: 392.10 samples/sec accuracy=0.1\n"
         "2020-08-18 13:56:31,000:INFO: Epoch[0] Batch [20-40] Speed: 392.10 samples/sec accuracy=0.1\n",
         4 * 20 / 2.0},
        {"PaddlePaddle", "images/s",
         "2020-08-18 13:56:29,000-INFO: [Pass 0, train batch 19] loss 7.1, acc1 0.0, lr 0.1, elapse 0.5000 sec\n"
         "2020-08-18 13:56:30,500-INFO: [Pass 0, train batch 20] loss 7.1, acc1 0.0, lr 0.1, elapse 0.5000 sec\n",
         4 / 1.5},
        {"PaddlePaddle", "sequences/s",
         "epoch: 0, progress: 1/1, step: 20, loss: 11.1, ppl: 3.1, next_sent_acc: 0.5, speed: 0.500000 steps/s, file: "
         "a\n"
         "epoch: 0, progress: 1/1, step: 40, loss: 11.1, ppl: 3.1, next_sent_acc: 0.5, speed: 0.250000 steps/s, file: "
         "a\n",
         8 / 6.0},
        {"PyTorch", "images/s",
         "Epoch: [0][26/53]\tTime  0.250 ( 2.620)\tData  0.108 ( 0.072)\tLoss 2.0e+01\n"
         "Epoch: [0][27/53]\tTime  0.500 ( 2.620)\tData  0.108 ( 0.072)\tLoss 2.0e+01\n",
         8 / 0.75},
        {"TensorFlow 2.x", "images/s",
         "I0915 23:59:58.000000 1397 keras_utils.py:145] TimeHistory: 12.83 seconds, 997.9 examples/second between "
         "steps 0 and 100\n"
         "I0916 00:00:03.000000 1397 keras_utils.py:145] TimeHistory: 12.83 seconds, 997.9 examples/second between "
         "steps 100 and 200\n"
         "I0916 00:00:08.000000 1397 keras_utils.py:145] TimeHistory: 12.83 seconds, 997.9 examples/second between "
         "steps 200 and 300\n",
         4 * 100 / 5.0},
        {"TensorFlow 2.x", "sequences/s",
         "I0815 12:00:00.500000 1397 model_training_utils.py:450] Train Step: 20/200  / loss = 11.0\n"
         "I0815 12:00:01.500000 1397 model_training_utils.py:450] Train Step: 21/200  / loss = 11.0\n",
         4.0},
    };
    for (size_t i = 0; i < sizeof program / sizeof *program; i++) {
        RP_JSON *doc = import_one("dlperf", "1n1g/net_b4_fp32_1.log", program[i].log);
        if (!CHECK(doc, "program %zu: %s", i, err.msg))
            continue;
        CHECK(fabs(value(doc, 0) - program[i].expected) < 1e-6 * program[i].expected, "program %zu: %g, expected %g", i,
              value(doc, 0), program[i].expected);
        CHECK(strcmp(unit(doc, 0), program[i].unit) == 0 &&
                  strcmp(text(doc, 0, "framework"), program[i].framework) == 0,
              "program %zu: %s, %s", i, unit(doc, 0), text(doc, 0, "framework"));
    }
}

/* A new epoch or steps that begin again end the window; a step without a time does not count. */
TEST(what_ends_the_window)
{
#define TWO "step: 19, l: 1, throughput: 1.0 1600000000.0\nstep: 39, l: 1, throughput: 1.0 1600000010.0\n"
    static const char *const logs[] = {
        "train: epoch 0, iter 20, loss: 1, samples/s: 1.0 1600000000.0\ntrain: epoch 0, iter 40, loss: 1, samples/s: "
        "1.0 1600000010.0\n"
        "train: epoch 1, iter 60, loss: 1, samples/s: 1.0 1600000900.0\n",
        TWO "step: 19, l: 1, throughput: 1.0 1600000500.0\nstep: 59, l: 1, throughput: 1.0 1600000900.0\n",
        TWO "step: 59, l: 1, throughput: 1.0 1600\n"};
    for (int i = 0; i < 3; i++) {
        RP_JSON *doc = import_one("dlperf", i ? "1n1g/bert_b4_fp32.log" : "1n1g/rn50_b4_fp32.log", logs[i]);
        if (!CHECK(doc, "%s", err.msg))
            continue;
        NEAR(value(doc, 0), 4 * 20 / 10.0);
        CHECK_STR(from(doc, 0, "throughput"), "[1,2]");
        CHECK(i < 2 || *note(doc, 0), "the step without a time is not noted");
    }
}

TEST(rates_without_times_are_called_a_mean)
{
    const char *log =
        "step: 19, l: 1, throughput: 50.0\nstep: 39, l: 1, throughput: 100.0\nstep: 59, l: 1, throughput: 400.0\n";
    RP_JSON *doc = import_one("dlperf", "unknown.log", log);
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 3 / (1 / 50.0 + 1 / 100.0 + 1 / 400.0));
    SAID(text(doc, 0, "estimator"));
    CHECK(count(doc, 0, "batch_per_device") == -1 && !text(doc, 0, "precision") && !text(doc, 0, "model"),
          "nothing says so");
    CHECK(json_array_size(json_object_get(row(doc, 0), "samples")) == 3);
}

TEST(dllogger_times_count_before_rates)
{
    static const char log[] = "DLLL {\"timestamp\": \"1600000000.0\", \"elapsedtime\": \"0\", \"type\": \"METADATA\", "
                              "\"metric\": \"train.total_ips\", \"metadata\": {\"unit\": \"img/s\"}}\n"
                              "DLLL {\"timestamp\": \"1600000000.0\", \"type\": \"LOG\", \"step\": \"PARAMETER\", "
                              "\"data\": {\"arch\": \"resnet50\", \"batch_size\": 99, \"world_size\": 8, "
                              "\"amp\": true}}\n"
                              "0: DLLL {\"timestamp\": \"1600000010.0\", \"type\": \"LOG\", \"step\": [0, 0], "
                              "\"data\": {\"train.total_ips\": 1.0}}\n"
                              "DLLL {\"timestamp\": \"1600000020.0\", \"type\": \"LOG\", \"step\": [0, 1], \"data\": "
                              "{\"train.total_ips\": 100.0}}\n"
                              "DLLL {\"timestamp\": \"1600000022.0\", \"type\": \"LOG\", \"step\": [0, 2], \"data\": "
                              "{\"train.total_ips\": 120.0}}\n"
                              "DLLL {\"timestamp\": \"160000002DLLL {\n"
                              "DLLL {\"timestamp\": \"1600000024.0\", \"type\": \"LOG\", \"step\": [0, 3], \"data\": "
                              "{\"train.total_ips\": 120.0}}\n"
                              "DLLL {\"timestamp\": \"1600000090.0\", \"type\": \"LOG\", \"step\": [0], \"data\": "
                              "{\"train.total_ips\": 90.0}}\n"
                              "DLLL {\"timestamp\": \"1600000099.0\", \"type\": \"LOG\", \"step\": [], \"data\": "
                              "{\"train.total_ips\": 91.0}}\n";
    RP_JSON *rates = import_one("dllogger", "raw.json", log);
    const char *set[] = {"global_batch=256"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    RP_JSON *times = import_with("dllogger", &(struct file){"raw.json", log}, 1, &o);
    if (!CHECK(rates && times, "%s", err.msg))
        return;
    NEAR(value(times, 0), 256 * 2 / 4.0);
    CHECK(!strstr(note(times, 0), "repeat"), "the end of an epoch is no step: %s", note(times, 0));
    CHECK_STR(unit(times, 0), "images/s");
    CHECK_STR(from(times, 0, "global_batch"), "\"command line\"");
    SAID(note(times, 0));
    CHECK(count(times, 0, "devices") == 8 && count(times, 0, "batch_per_device") == -1);
    CHECK_STR(text(times, 0, "precision"), "amp");
    NEAR(value(rates, 0), 120);
    CHECK(strstr(note(rates, 0), "--set global_batch=N"), "%s", note(rates, 0));
    RP_JSON *summary = import_one("dllogger", "raw.json",
                                  "DLLL {\"type\": \"LOG\", \"step\": [], \"data\": {\"throughput\": 91.0}}\n");
    if (CHECK(summary, "%s", err.msg))
        NEAR(value(summary, 0), 91);
}

TEST(mllog_counts_blocks_and_leaves_evaluation_out)
{
    RP_JSON *doc = import_one(
        "mllog", "result_0.txt",
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1000, \"event_type\": \"POINT_IN_TIME\", \"key\": "
        "\"submission_benchmark\", \"value\": \"bert\", \"metadata\": {}}\n"
        ":::MLLOG {\"time_ms\": 1000, \"key\": \"submission_org\", \"value\": \"ORG\", \"metadata\": {}}\n"
        ":::MLLOG {\"time_ms\": 1000, \"key\": \"global_batch_size\", \"value\": 56, \"metadata\": {}}\n"
        "0: :::MLLOG {\"time_ms\": 2000, \"key\": \"run_start\", \"value\": null, \"metadata\": {}}\n"
        ":::MLLOG {\"time_ms\": 2000, \"key\": \"block_start\", \"value\": null, \"metadata\": {\"samples_count\": "
        "0}}\n"
        ":::MLLOG {\"time_ms\": 2400, \"key\": \"epoch_start\", \"value\": null, \"metadata\": {\"epoch_num\": 1, "
        "\"samples_count\": 200}}\n"
        ":::MLLOG {\"time_ms\": 2500, \"key\": \"tracked_stats\", \"value\": {\"throughput\": 500}, \"metadata\": "
        "{\"step\": 1}}\n"
        ":::MLLOG {\"time_ms\": 4000, \"key\": \"block_stop\", \"value\": null, \"metadata\": {\"samples_count\": "
        "1000}}\n"
        ":::MLLOG {\"time_ms\": 9000, \"key\": \"eval_accuracy\", \"value\": 0.71, \"metadata\": {\"epoch_num\": 1}}\n"
        ":::MLLOG {\"time_ms\": 9000, \"key\": \"block_start\", \"value\": null, \"metadata\": {\"samples_count\": "
        "1000}}\n"
        ":::MLLOG {\"time_ms\": 10000, \"key\": \"block_stop\", \"value\": null, \"metadata\": {\"samples_count\": "
        "3000}}\n"
        ":::MLLOG {\"time_ms\": 12000, \"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": "
        "\"success\"}}\n");
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 3000 / 3.0);
    CHECK_STR(unit(doc, 0), "sequences/s");
    CHECK_STR(text(doc, 0, "label"), "ORG bert-large");
    SAID(note(doc, 0));
    CHECK_STR(text(doc, 0, "date"), "1970-01-01T00:00:02Z");
    CHECK_STR(from(doc, 0, "throughput"), "[5,11]");
    CHECK_STR(from(doc, 0, "global_batch"), "3");
    RP_JSON *steps =
        import_one("mllog", "a",
                   ":::MLLOG {\"time_ms\": 1000, \"key\": \"global_batch_size\", \"value\": 56, \"metadata\": {}}\n"
                   ":::MLLOG {\"time_ms\": 2000, \"key\": \"block_start\", \"metadata\": {\"step_num\": 10}}\n"
                   ":::MLLOG {\"time_ms\": 6000, \"key\": \"block_stop\", \"metadata\": {\"step_num\": 30}}\n"
                   ":::MLLOG {\"time_ms\": 7000, \"key\": \"block_start\", \"metadata\": {\"step_num\": 30}}\n"
                   ":::MLLOG {\"time_ms\": 8000, \"key\": \"block_stop\", \"metadata\": {\"step_num\": 50}}\n");
    if (CHECK(steps, "%s", err.msg)) {
        is_near(value(steps, 0), 56 * 40 / 5.0, __LINE__);
        CHECK(json_array_size(json_object_get(row(steps, 0), "samples")) == 2);
        is_near(json_number_value(json_array_get(json_object_get(row(steps, 0), "samples"), 1)), 56 * 20, __LINE__);
    }
    CHECK(!json_object_get(row(doc, 0), "samples"), "its blocks are of several sizes");
    RP_JSON *none = import_one(
        "mllog", "a", ":::MLLOG {\"time_ms\": 2000, \"key\": \"run_start\", \"value\": null, \"metadata\": {}}\n");
    CHECK(none && !json_object_get(row(none, 0), "throughput") && strstr(note(none, 0), "no throughput"));
    static const char rates[] =
        ":::MLLOG {\"time_ms\": 1, \"key\": \"submission_benchmark\", \"value\": \"%s\", \"metadata\": {}}\n"
        ":::MLLOG {\"time_ms\": 2, \"key\": \"submission_platform\", \"value\": \"8 x P\", \"metadata\": {}}\n"
        ":::MLLOG {\"time_ms\": 3, \"key\": \"tracked_stats\", \"value\": {\"throughput\": 500}, \"metadata\": {}}\n"
        ":::MLLOG {\"time_ms\": 4, \"key\": \"tracked_stats\", \"value\": {\"throughput\": 700}, \"metadata\": {}}\n";
    RP_FREE char *of_bert = rp_asprintf(rates, "bert");
    RP_FREE char *of_gpt = rp_asprintf(rates, "gpt3");
    RP_JSON *bert = import_one("mllog", "a", of_bert), *gpt = import_one("mllog", "a", of_gpt);
    is_near(value(bert, 0), 600, __LINE__);
    CHECK_STR(text(bert, 0, "label"), "bert-large, 8 x P");
    SAID(text(bert, 0, "estimator"));
    CHECK_STR(from(bert, 0, "throughput"), "[3,4]");
    CHECK(gpt && !json_object_get(row(gpt, 0), "throughput"), "it may be tokens");
}

static const char nccl_text[] = "# Collective test starting: ./build/all_reduce_perf\n"
                                "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 "
                                "agg iters: 1 validation: 1 graph: 0\n"
                                "#  Rank  0 Group  0 Pid   6899 on   node-a device  0 [0000:04:00] Test GPU 80GB\n"
                                "#  Rank  1 Group  0 Pid   6899 on   node-a device  1 [0000:05:00] Test GPU 80GB\n"
                                "#  Rank  2 Group  0 Pid   6899 on   node-b device  0 [0000:04:00] Test GPU 80GB\n"
                                "#  Rank  3 Group  0 Pid   6899 on   node-b device  1 [0000:05:00] Test GPU 80GB\n"
                                "#       size         count      type   redop    root     time   algbw   busbw  #wrong "
                                "    time   algbw   busbw  #wrong\n"
                                "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)         "
                                "   (us)  (GB/s)  (GB/s)       \n"
                                "node-a:6899:6899 [0] NCCL INFO something\n"
                                "     8000000       2000000     float     sum      -1    100.0   80.00  120.00       0 "
                                "   200.0   40.00   99.00       3\n"
                                "# Avg bus bandwidth    : 90.0\n";

TEST(nccl_bandwidth_follows_from_size_time_and_ranks)
{
    RP_JSON *doc = import_one("nccl", "a.txt", nccl_text);
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 8e6 / 100e-6 / 1e9 * 2 * 3 / 4);
    NEAR(value(doc, 1), 8e6 / 200e-6 / 1e9 * 2 * 3 / 4);
    CHECK_STR(unit(doc, 0), "GB/s");
    SAID(text(doc, 0, "label"));
    CHECK_STR(text(doc, 0, "device_model"), "Test GPU 80GB");
    SAID(text(doc, 0, "timed_window"));
    CHECK(count(doc, 0, "devices") == 4 && count(doc, 0, "nodes") == 2);
    CHECK_STR(text(doc, 1, "label"), "all_reduce 8000000 B float sum, in place");
    CHECK_STR(note(doc, 0), "");
    SAID(note(doc, 1));
    CHECK_STR(from(doc, 1, "throughput"), "[10,10]");
}

/* Both figures are rounded where they are printed: 0.2 % and the last digit of the bandwidth, of which large ones have
 * two. */
TEST(nccl_bandwidth_that_the_log_itself_prints_otherwise_is_noted)
{
    static const struct {
        const char *us, *printed; /* of 8 MB over 4 ranks: 12000 / us */
        int noted;
    } rows[] = {{"1200.0", "10.02", 0}, {"1200.0", "10.03", 1}, {"1200.0", "9.98", 0},  {"1200.0", "9.97", 1},
                {"100.0", "120.30", 0}, {"100.0", "120.31", 1}, {"100.0", "119.69", 1}, {"10.0", "1258", 0},
                {"10.0", "1263", 1},    {"1200.0", "N/A", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RP_BUF text = {0};
        const char *table = strstr(nccl_text, "     8000000");
        rp_buf_add(&text, nccl_text, (size_t)(table - nccl_text));
        rp_buf_printf(&text, "8000000 2000000 float sum -1 %s 1 %s 0 N/A N/A N/A N/A\n", rows[i].us, rows[i].printed);
        RP_JSON *doc = import_one("nccl", "a.txt", rp_buf_text(&text));
        if (CHECK(doc, "%s", err.msg))
            CHECK((*note(doc, 0) != 0) == rows[i].noted, "%s us, %s GB/s: '%s'", rows[i].us, rows[i].printed,
                  note(doc, 0));
    }
}

TEST(nccl_of_mpirun_with_tags_is_the_same)
{
    RP_BUF tagged = {0};
    for (const char *p = nccl_text, *end; *p; p = end + 1) {
        end = strchr(p, '\n');
        rp_buf_printf(&tagged, "[1,0]<stdout>:%.*s\n", (int)(end - p), p);
    }
    RP_JSON *plainly = import_one("nccl", "a.txt", nccl_text), *doc = import_one("nccl", "a.txt", tagged.data);
    if (CHECK(doc, "%s", err.msg))
        CHECK(value(doc, 0) == value(plainly, 0) && value(doc, 1) == value(plainly, 1) &&
              count(doc, 0, "devices") == 4);
}

TEST(csv_columns_are_found_by_name)
{
    const char *set[] = {"global_batch=10"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    static const struct {
        const char *text;
        double expected;
    } table[] = {
        {"step,time,loss\n0,9,1\n1,0.5,1\n2,1.5,1\n", 20 / 2.0},
        {"loss;step_time_ms;Step\n1;9000;0\n1;500;1\n1;1500;2\n", 20 / 2.0},
        {"Wall time,Step,Value\n1600000000.5,10,1\n1600000001.5,20,1\n1600000003.5,30,1\n", 10 * 10 / 2.0},
        {"\xef\xbb\xbfiteration\tthroughput\n1\t1\n2\t20\n3\t60\n", 30},
        {"# made by hand\n\"step\",\"note, quoted\",\"time\"\n0,\"a \"\"b\"\"\",9\n1,\"c,d\",2\n", 10 / 2.0},
        {"timestamp,global_batch\n2020-01-01 00:00:00,10\n2020-01-01 00:00:05,10\n2020-01-01 00:00:06,10\n", 10 / 1.0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        RP_JSON *doc = import_with("csv", &(struct file){"t.csv", table[i].text}, 1, &o);
        CHECK(doc && fabs(value(doc, 0) - table[i].expected) < 1e-9, "table %zu: %s %g", i, err.msg,
              doc ? value(doc, 0) : 0);
    }
}

TEST(errors_have_a_place_and_a_remedy)
{
    static const struct {
        const char *format, *text;
    } bad[] = {
        {"csv", "step,loss\n1,2\n"},
        {"csv", "step,time\n1,2\n2\n"},
        {"csv", "step,time\n1,2,3\n"},
        {"csv", "step,time\n1,zwei\n"},
        {"csv", "step,time\n1,-2\n"},
        {"csv", "step,time\n1.5,2\n"},
        {"csv", "step,time\n1,\"2\n"},
        {"csv", "step,time\n1,1\n2,1\n"},
        {"csv", "timestamp,global_batch\n100,1\n90,1\n80,1\n"},
        {"csv", "timestamp,global_batch\n1,1\n1e300,1\n"},
        {"csv", ""},
        {"dlperf", "hello\n"},
        {"dlperf", "step: 19, a, throughput: 5.0 1600000000.0\n"},
        {"dllogger", "hello\n"},
        {"dllogger", "DLLL {]\n"},
        {"mllog", "DLLL {}\n"},
        {"nccl", "12 3\n"},
        {"nccl", "# size count type redop time algbw busbw\n12 3\n"},
        {"nccl", "# nothing\n"},
        {"nccl", "{\"results\": [{\"out_of_place\": {\"time\": 1}}]}"},
        {"nccl", "{"},
        {"csv", "step,\"time\n1,2\n"},
        {"csv", "step,\"time\"x\n1,2\n"},
        {"mllog", ":::MLLOG {\"time_ms\": 1, \"key\": \"x\", \"value\": 1, \"metadata\": {}}\n"},
        {"nccl", "# size count type redop time algbw busbw\n1x 3 float sum 1 1 1\n"},
        {"nccl", "# size count type redop time algbw busbw\n99999999999999999999 3 float sum 1 1 1\n"},
        {"nanogpt", "iter 1: loss 2.0, time 3.00ms\n"},
    };
    RP_BUF messages = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_JSON *doc = import_one(bad[i].format, "x", bad[i].text);
        CHECK(!doc && err.code == RP_MALFORMED, "%zu: '%s'", i, doc ? "no error" : err.msg);
        rp_buf_printf(&messages, "%s\n", err.msg);
    }
    golden("tests/unit/import_messages.txt", &messages);
}

TEST(tables_have_a_number_of_columns)
{
    for (int columns = 256; columns < 258; columns++) {
        RP_BUF text = {0};
        rp_buf_puts(&text, "step,time");
        for (int i = 2; i < columns; i++)
            rp_buf_printf(&text, ",c%d", i);
        rp_buf_puts(&text, "\n");
        for (int row = 0; row < 3; row++) {
            rp_buf_printf(&text, "%d,1", row);
            for (int i = 2; i < columns; i++)
                rp_buf_puts(&text, ",");
            rp_buf_puts(&text, "\n");
        }
        static const char *set[] = {"global_batch=10"};
        struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
        RP_JSON *doc = import_with("csv", &(struct file){"t.csv", rp_buf_text(&text)}, 1, &o);
        CHECK(columns > 256 ? !doc && err.code == RP_MALFORMED : doc != NULL, "%d columns: %s", columns, err.msg);
    }
}

TEST(logs_are_regular_files)
{
    static const char *const paths[] = {"/", "/dev/null", "/nowhere/at/all"};
    struct rp_lines l;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        CHECK(rp_lines_open(&l, paths[i], "log.txt", &err) < 0 && err.code == RP_IO && strstr(err.msg, "log.txt"),
              "%s: %s", paths[i], err.msg);
        rp_lines_fini(&l);
    }
}

/* Every line of a file that is read in pieces, the ends of the pieces wherever they fall, is the line of the same bytes
 * in memory. */
TEST(a_file_has_the_lines_of_its_bytes)
{
    char path[] = "/tmp/repro-test-lines-XXXXXX";
    RP_BUF bytes = {0};
    char *line, *same, hex[RP_SHA256_HEX], expected[RP_SHA256_HEX];
    size_t n, m;
    for (int i = 0; bytes.size < 3u << 20; i++) {
        rp_buf_printf(&bytes, "%d ", i);
        for (int j = 0; j < i % 977; j++)
            rp_buf_add(&bytes, "x", 1);
        rp_buf_add(&bytes, i % 3 ? "\n" : i % 2 ? "\r\n" : "\0\n", i % 3 ? 1 : 2);
    }
    rp_buf_puts(&bytes, "no end");
    struct rp_lines file, memory;
    int fd = mkstemp(path);
    close(fd);
    if (!CHECK(fd >= 0 && rp_write_file(path, bytes.data, bytes.size, 0600, &err) == 0 &&
                   rp_lines_open(&file, path, "x", &err) == 0,
               "%s", err.msg))
        return;
    rp_lines_memory(&memory, "x", bytes.data, bytes.size);
    int one, two;
    do {
        one = rp_lines_next(&file, &line, &n, &err);
        two = rp_lines_next(&memory, &same, &m, &err);
        if (!CHECK(one == two && (one < 1 || (n == m && memcmp(line, same, n + 1) == 0)), "line %lld",
                   (long long)file.number))
            break;
        CHECK(one < 1 || (strlen(line) == n && (!n || line[n - 1] != '\r')));
    } while (one > 0);
    rp_sha256_hex(expected, bytes.data, bytes.size);
    rp_lines_digest(hex, &file);
    CHECK_STR(hex, expected);
    CHECK(file.number > 1000 && file.number == memory.number && file.bytes == bytes.size);
    rp_lines_fini(&file);
    rp_lines_fini(&memory);
    CHECK(remove(path) == 0);
}

TEST(a_line_has_a_limit)
{
    RP_BUF log = {0};
    char *as = rp_alloc(RP_LOG_LINE_MAX + 2);
    memset(as, 'a', RP_LOG_LINE_MAX + 1);
    rp_buf_printf(&log, "one\n%s\nstep: 19, a, throughput: 5.0\n", as);
    REFUSED(!import_one("dlperf", "x", log.data), err.msg);
    as[RP_LOG_LINE_MAX] = 0;
    log.size = 0;
    rp_buf_printf(&log, "one\n%s\nstep: 19, a, throughput: 5.0\n", as);
    RP_JSON *doc = import_one("dlperf", "x", log.data);
    CHECK(doc, "%s", err.msg);
    free(as);
}

TEST(foreign_text_comes_out_clean)
{
    const char *set[] = {"label=a\x1b[31m\xe2\x80\xae" "b\xff"};
    struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = 1};
    RP_JSON *doc = import_with(
        "dlperf", &(struct file){"x\x1b_b4_fp32.log", "model = \x1b]0;x\x07\nstep: 19, a, throughput: 5.0\n"}, 1, &o);
    if (!CHECK(doc, "%s", err.msg))
        return;
    RP_BUF all = {0};
    rp_json_write(&all, doc);
    for (size_t i = 0; i < all.size; i++)
        CHECK(all.data[i] == '\n' || (all.data[i] >= ' ' && all.data[i] <= '~'), "byte %02x",
              (unsigned char)all.data[i]);
    CHECK(!strstr(all.data, "\\u"), "%s", all.data);
}

TEST(set_takes_the_keys_of_a_result_and_no_others)
{
    static const char *const bad[] = {"global_batch",     "global_bach=3",   "global_batch=-3", "devices=0",
                                      "gpus_per_node=-1", "global_batch=3x", "throughput=3",    "=3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_import_opts o = {.from = -1, .to = -1, .set = (const char *[]){bad[i]}, .sets = 1};
        CHECK(!import_with("csv", &(struct file){"x", "time\n1\n"}, 1, &o) && err.code == RP_USAGE, "%zu: %s", i,
              err.msg);
    }
    for (const struct rp_fact *f = rp_facts; f->key; f++)
        CHECK(rp_result_has_key(f->key), "%s", f->key);
}

TEST(every_document_is_one_that_compare_reads)
{
    const struct {
        const char *format, *text;
    } log[] = {{"dlperf", oneflow}, {"nccl", nccl_text}, {"csv", "step,throughput\n0,1\n1,2\n2,3\n"}};
    for (size_t i = 0; i < sizeof log / sizeof *log; i++) {
        RP_JSON *doc = import_one(log[i].format, "1n2g/a_b24_fp32_1.log", log[i].text);
        struct rp_rows rows = {0};
        CHECK(doc && rp_rows_from_json(&rows, doc, "x.json", NULL, &err) == 0 && rows.n > 0, "%zu: %s", i, err.msg);
        if (doc && rows.n)
            NEAR(rows.row[0].throughput, value(doc, 0));
        rp_rows_fini(&rows);
    }
}

TEST(an_unknown_format_is_refused_with_the_nearest)
{
    REFUSED(!rp_importer_find("mlog", &err) && err.code == RP_USAGE, err.msg);
    REFUSED(!rp_importer_find("zzzzz", &err), err.msg);
}
