/* Importers of what training programs print for people: lines of public logs with figures computed by hand, and
 * generated logs whose throughput is known, whole and damaged. */
#include "tests/unit/import_fixture.h"
#include "tests/unit/tap.h"

/* github.com/NVIDIA/Megatron-LM/issues/756: Mixtral 8x7B on 16 H100; the arguments are of issue 91 there. */
static const char megatron[] =
    "using world size: 16, data-parallel size: 4, tensor-model-parallel size: 1, pipeline-model-parallel size: 4 \n"
    "------------------------ arguments ------------------------\n"
    "  global_batch_size ............................... 128\n"
    "  num_layers ...................................... 32\n"
    "  params_dtype .................................... torch.bfloat16\n"
    "  seq_length ...................................... 4096\n"
    "  world_size ...................................... 16\n"
    "-------------------- end of arguments ---------------------\n"
    " [2024-04-06 03:02:12] iteration       71/     100 | consumed samples:         9088 | elapsed time per iteration "
    "(ms): 5361.6 | "
    "throughput per GPU (TFLOP/s/GPU): 243.6 | learning rate: 1.420000E-05 | global batch size:   128 | lm loss: "
    "1.818812E+00 | "
    "load_balancing_loss: 1.013377E+00 | loss scale: 1.0 | grad norm: 1.300 | num zeros: 0.0 | number of skipped "
    "iterations:   0 | number of "
    "nan iterations:   0 |\n"
    " [2024-04-06 03:02:18] iteration       72/     100 | consumed samples:         9216 | elapsed time per iteration "
    "(ms): 5470.7 | "
    "throughput per GPU (TFLOP/s/GPU): 238.7 | learning rate: 1.440000E-05 | global batch size:   128 | lm loss: "
    "1.820313E+00 | "
    "load_balancing_loss: 1.019612E+00 | loss scale: 1.0 | grad norm: 1.305 | num zeros: 0.0 | number of skipped "
    "iterations:   0 | number of "
    "nan iterations:   0 |\n"
    " [2024-04-06 03:02:24] iteration       73/     100 | consumed samples:         9344 | elapsed time per iteration "
    "(ms): 5829.9 | "
    "throughput per GPU (TFLOP/s/GPU): 224.0 | learning rate: 1.460000E-05 | global batch size:   128 | lm loss: "
    "1.798953E+00 | "
    "load_balancing_loss: 1.010977E+00 | loss scale: 1.0 | grad norm: 1.539 | num zeros: 0.0 | number of skipped "
    "iterations:   0 | number of "
    "nan iterations:   0 |\n";

TEST(megatron_has_samples_over_the_mean_times_of_its_lines)
{
    RP_JSON *doc = import_one("megatron", "train.log", megatron);
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 2 * 128 / (5.4707 + 5.8299));
    CHECK_STR(unit(doc, 0), "sequences/s");
    CHECK_STR(note(doc, 0), "");
    CHECK_STR(from(doc, 0, "throughput"), "[10,11]");
    CHECK_STR(from(doc, 0, "global_batch"), "10");
    CHECK_STR(from(doc, 0, "sequence_length"), "6");
    CHECK_STR(text(doc, 0, "precision"), "bf16");
    CHECK_STR(text(doc, 0, "framework"), "Megatron-LM");
    SAID(text(doc, 0, "estimator"));
    SAID(text(doc, 0, "timed_window"));
    CHECK(count(doc, 0, "devices") == 16 && count(doc, 0, "sequence_length") == 4096 && count(doc, 0, "layers") == 32);
}

/* github.com/epfLLM/Megatron-LLM/issues/11, without times; github.com/NVIDIA/nccl/issues/743, ten iterations a line;
 * and NeMo: github.com/NVIDIA-BioNeMo/bionemo-recipes/pull/740. */
TEST(older_and_derived_forms_of_megatron)
{
    RP_JSON *old =
        import_one("megatron", "x",
                   " iteration      201/  250000 | consumed samples:       205824 | elapsed time per iteration (ms): "
                   "139113.4 | learning rate: 1.507E-05 | "
                   "global batch size:  1024 | lm loss: 2.373574E+00 | loss scale: 1.0 | grad norm: 0.811 |\n"
                   " iteration      202/  250000 | consumed samples:       206848 | elapsed time per iteration (ms): "
                   "139221.4 | learning rate: 1.515E-05 | "
                   "global batch size:  1024 | lm loss: 2.413736E+00 | loss scale: 1.0 | grad norm: 0.567 |\n"
                   " iteration      203/  250000 | consumed samples:       207872 | elapsed time per iteration (ms): "
                   "140346.9 | learning rate: 1.522E-05 | "
                   "global batch size:  1024 | lm loss: 2.383620E+00 | loss scale: 1.0 | grad norm: 0.155 |\n");
    if (CHECK(old, "%s", err.msg))
        NEAR(value(old, 0), 2048 / (139.2214 + 140.3469));
    RP_JSON *ten = import_one("megatron", "x",
                              " iteration       10/ 1000000 | consumed samples:           40 | elapsed time per "
                              "iteration (ms): 356.2 | learning rate: 0.000E+00 | "
                              "global batch size:     4 | loss scale: 8388608.0 | number of skipped iterations:  10 | "
                              "number of nan iterations:   0 |\n"
                              " iteration       20/ 1000000 | consumed samples:           80 | elapsed time per "
                              "iteration (ms): 140.6 | learning rate: 2.020E-08 | "
                              "global batch size:     4 | lm loss: 1.005022E+01 | loss scale: 32768.0 | number of "
                              "skipped iterations:   8 | number of nan iterations: "
                              "  0 |\n");
    if (CHECK(ten, "%s", err.msg)) {
        NEAR(value(ten, 0), 4 / 0.1406);
        SAID(note(ten, 0));
        const json_t *figure = json_array_get(json_object_get(json_object_get(ten, "provenance"), "figures"), 0);
        const json_t *window = json_object_get(figure, "window");
        CHECK(json_integer_value(json_object_get(window, "steps")) == 10);
        NEAR(json_number_value(json_object_get(window, "seconds")), 1.406);
    }
    RP_JSON *nemo = import_one("megatron", "x",
                               "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | "
                               "global_batch_size: 1 | global_step: 120 | "
                               "reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106\n"
                               "Training epoch 0, iteration 121/149 | lr: 3e-05 | consumed_samples: 122 | "
                               "global_batch_size: 1 | global_step: 121 | "
                               "reduced_train_loss: 1.288 | train_step_timing in s: 0.03163 | val_loss: 4.106\n"
                               "Training epoch 0, iteration 122/149 | lr: 3e-05 | consumed_samples: 123 | "
                               "global_batch_size: 1 | global_step: 122 | "
                               "reduced_train_loss: 1.333 | train_step_timing in s: 0.03215\n"
                               "Training epoch 0, iteration 123/149 | lr: 3e-05 | consumed_samples: 124 | "
                               "global_batch_size: 1 | global_step: 123 | "
                               "reduced_train_loss: 1.333 | train_step_timing in s: 0.0");
    if (CHECK(nemo, "%s", err.msg)) {
        NEAR(value(nemo, 0), 2 / (0.03163 + 0.03215));
        CHECK_STR(text(nemo, 0, "framework"), "NeMo");
        SAID(note(nemo, 0));
    }
}

#define LINE(clock, step, consumed, ms, batch)                                                                         \
    clock " iteration " step "/ 500 | consumed samples: " consumed " | elapsed time per iteration (ms): " ms           \
          " | learning rate: 1.0E-05 | "                                                                               \
          "global batch size: " batch " | lm loss: 1.8E+00 |\n"

TEST(megatron_is_refused_where_two_readings_are_possible)
{
    static const char *const logs[] = {
        LINE("", "10", "1000", "500.0", "100") LINE("", "20", "2000", "500.0", "100")
            LINE("", "30", "2500", "500.0", "100"),                                   /* which batch? */
        LINE("", "10", "1000", "500.0", "100") LINE("", "20", "900", "500.0", "100"), /* falls */
        LINE("", "10", "1000", "500.0", "100") LINE("", "20", "2000", "500.0", "100")
            LINE("", "30", "4000", "500.0", "200"), /* grows */
        LINE(" [2024-04-06 03:02:00]", "10", "1000", "500.0", "100")
            LINE(" [2024-04-06 03:02:05]", "20", "2000", "500.0", "100")
                LINE(" [2024-04-06 03:02:10]", "30", "3000", "5000.0", "100"), /* a sum, not a mean? */
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        REFUSED(!import_one("megatron", "x", logs[i]) && err.code == RP_MALFORMED, err.msg);
    struct rp_import_opts o = {.from = 10, .to = 20};
    RP_JSON *doc = import_with("megatron", &(struct file){"x", logs[2]}, 1, &o);
    if (CHECK(doc, "%s", err.msg))
        NEAR(value(doc, 0), 200);
}

/* github.com/karpathy/nanoGPT/issues/466 (two lines of it), and 215: times before the lines, an evaluation in one. */
#define NANO "tokens per iteration will be: 262,144\n"
#define NANO_STEPS                                                                                                     \
    "iter 340: loss 5.4983, time 33785.52ms, mfu 0.96%\niter 350: loss 5.4702, time 33798.82ms, mfu 0.96%\n"           \
    "iter 360: loss 5.0448, time 33770.99ms, mfu 0.96%\n"

TEST(nanogpt_has_tokens_or_sequences)
{
    RP_JSON *tokens = import_one("nanogpt", "x", NANO NANO_STEPS);
    RP_JSON *sequences =
        import_one("nanogpt", "x", "batch_size = 4\nblock_size = 1024\nOverriding: block_size = 512\n" NANO NANO_STEPS);
    if (!CHECK(tokens && sequences, "%s", err.msg))
        return;
    NEAR(value(tokens, 0), 2 * 262144 / (33.79882 + 33.77099));
    CHECK_STR(unit(tokens, 0), "tokens/s");
    NEAR(value(sequences, 0), 2 * 512 / (33.79882 + 33.77099));
    CHECK_STR(unit(sequences, 0), "sequences/s");
    CHECK_STR(from(sequences, 0, "sequence_length"), "3");
    CHECK_STR(from(sequences, 0, "global_batch"), "4");
    CHECK_STR(from(sequences, 0, "throughput"), "[6,7]");
    SAID(note(sequences, 0));
    RP_JSON *every = import_one("nanogpt", "x", NANO "iter 1: loss 5.0, time 9.00ms\niter 2: loss 5.0, time 9.00ms\n");
    CHECK(every && !*note(every, 0), "%s", every ? note(every, 0) : err.msg);
    REFUSED(!import_one("nanogpt", "x", NANO_STEPS) && err.code == RP_MALFORMED, err.msg);
    REFUSED(!import_one("nanogpt", "x", "block_size = 1000\n" NANO NANO_STEPS) && err.code == RP_MALFORMED, err.msg);
}

TEST(nanogpt_leaves_steps_with_an_evaluation_out)
{
    static const char log[] =
        "tokens per iteration will be: 491,520\n"
        "2023-03-22 09:32:05 iter 2970: loss 3.9453, time 1097.65ms, mfu 15.34%\n"
        "2023-03-22 09:32:16 iter 2980: loss 4.0114, time 1099.18ms, mfu 15.34%\n"
        "2023-03-22 09:32:32 step 3000: train loss 4.0390, val loss 4.0427\nsaving checkpoint to out\n"
        "2023-03-22 09:32:41 iter 3000: loss 4.2490, time 35392.33ms, mfu 13.85%\n"
        "2023-03-22 09:32:52 iter 3010: loss nan, time 1019.95ms, mfu 14.12%\n";
    RP_JSON *doc = import_one("nanogpt", "x", log);
    if (!CHECK(doc, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 2 * 491520 / (1.09918 + 1.01995));
    SAID(note(doc, 0));
    RP_FREE char *late =
        rp_asprintf("%sstep 3000: train loss 4.0, val loss 4.0\nstep 2980: train loss 4.0, val loss 4.0\n", log);
    REFUSED(!import_one("nanogpt", "x", late) && err.code == RP_MALFORMED, err.msg);
    RP_FREE char *twice = rp_asprintf(
        "%s%s", log, "tokens per iteration will be: 491,520\niter 3020: loss 1.0, time 9.00ms, mfu 1.00%\n");
    RP_JSON *two = import_one("nanogpt", "x", twice);
    if (CHECK(two, "%s", err.msg)) {
        NEAR(value(two, 0), value(doc, 0));
        SAID(note(two, 0));
    }
    REFUSED(!import_one("nanogpt", "x", NANO NANO_STEPS "iter 0: loss 9.0, time 3.00ms\n") && err.code == RP_MALFORMED,
            err.msg);
}

/* github.com/karpathy/llm.c/issues/796, with the rows of the table for B = 4, T = 1024 on one GPU, and older forms of
 * the lines. */
#define LLMC                                                                                                           \
    "step   61/74 | loss 3.208939 (+nanz)| norm 1.4800 (+nanz)| lr 3.00e-04 | 44.57 ms | -100.0% bf16 MFU | 91886 "    \
    "tok/s\n"                                                                                                          \
    "step   62/74 | loss 3.464926 (+nanz)| norm 1.3662 (+nanz)| lr 3.00e-04 | 44.57 ms | -100.0% bf16 MFU | 91886 "    \
    "tok/s\n"                                                                                                          \
    "step   63/74 | loss 3.402215 (+nanz)| norm 1.3542 (+nanz)| lr 3.00e-04 | 44.58 ms | -100.0% bf16 MFU | 91886 "    \
    "tok/s\n"

TEST(llmc_has_its_batch_in_a_table)
{
    RP_JSON *doc = import_one("llmc", "x",
                              "| Parameter             | Value                                              |\n"
                              "| micro batch size B    | 4                                                  |\n"
                              "| sequence length T     | 1024                                               |\n"
                              "| total batch size      | 4096                                               |\n"
                              "| device                | NVIDIA GeForce RTX 5090                            |\n"
                              "| precision             | BF16                                               |\n"
                              "| num_processes         | 1                                                  |\n"
                              "=> setting grad_accum_steps=1\n" LLMC);
    RP_JSON *rates = import_one("llmc", "x", LLMC);
    if (!CHECK(doc && rates, "%s", err.msg))
        return;
    NEAR(value(doc, 0), 2 * 4 / (0.04457 + 0.04458));
    CHECK_STR(unit(doc, 0), "sequences/s");
    CHECK_STR(note(doc, 0), "");
    CHECK_STR(text(doc, 0, "precision"), "bf16");
    CHECK_STR(text(doc, 0, "device_model"), "NVIDIA GeForce RTX 5090");
    CHECK(count(doc, 0, "devices") == 1 && count(doc, 0, "batch_per_device") == 4 &&
          count(doc, 0, "global_batch") == 4);
    CHECK_STR(from(doc, 0, "throughput"), "[10,11]");
    NEAR(value(rates, 0), 91886);
    CHECK_STR(unit(rates, 0), "tokens/s");
    SAID(note(rates, 0));
    static const char *const older[] = {
        "step    %d/74: train loss 4.367631 (acc 4.367631) (50.000000 ms, 81920 tok/s)\n",
        "step %d: train loss 4.367631 (took 50.000000 ms)\n",
        "step   %d/100 | train loss 7.577051 | norm 1.1461 | lr 6.86e-05 | (50.00 ms | 81920 tok/s)\n",
        "iteration %d, loss: 4.3677, time: 50.000ms, tok/s: 81920.00, norm: 1.480\n",
        "iteration %d, loss: 4.367631435394287, time: 50.000ms\n"};
    for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
        RP_BUF log = {0};
        rp_buf_puts(&log, "| batch size B          | 4      |\n| sequence length T     | 1024   |\n| num_processes     "
                          "    | 1    |\n");
        for (int step = 1; step < 4; step++) {
            char line[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(line, sizeof line, older[i], step);
#pragma GCC diagnostic pop
            rp_buf_puts(&log, line);
        }
        RP_JSON *old = import_one("llmc", "x", rp_buf_text(&log));
        if (CHECK(old, "form %zu: %s", i, err.msg))
            NEAR(value(old, 0), 80);
    }
    REFUSED(!import_one("llmc", "x", "s:0 tel:11.0\ns:1 trl:10.9\n") && err.code == RP_MALFORMED, err.msg);
}

/* ---- generated logs ---- */

static uint32_t seed;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

#define LINES 120
struct lines {
    char *line[2 * LINES];
    int n, header;
};

static void add(struct lines *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct lines *l, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    l->line[l->n++] = strdup(text);
}

/* 20 lines of steps: the first takes ten times as long, the others `ms`; 32 sequences of 256 tokens each. */
static void generate(struct lines *l, const char *format, double ms)
{
    const int is_nemo = strcmp(format, "nemo") == 0, is_python = strcmp(format, "train_gpt2.py") == 0;
    if (is_nemo) {
        add(l, "Epoch 0: :   0%%|          | 0/500 [00:00<?]");
    } else if (is_python) {
        add(l, "total desired batch size: 8192");
    } else if (strcmp(format, "megatron") == 0) {
        add(l, "------------------------ arguments ------------------------");
        add(l, "  seq_length ...................................... 256");
    } else if (strcmp(format, "nanogpt") == 0) {
        add(l, "block_size = 256 # context");
        add(l, "tokens per iteration will be: 8,192");
    } else {
        add(l, "| Parameter             | Value    |");
        add(l, "| sequence length T     | 256      |");
        add(l, "| total batch size      | 8192     |");
    }
    l->header = l->n;
    for (int i = 0; i < 20; i++) {
        double t = i ? ms : 10 * ms;
        if (is_nemo) { /* behind a progress bar, which ends with the return of a carriage */
            add(l,
                "%sTraining epoch 0, iteration %d/499 | lr: 3e-05 | global_batch_size: 32 | global_step: %d | "
                "reduced_train_loss: 11.03 | consumed_samples: %d | train_step_timing in s: %.8f | val_loss: 4.106",
                i % 3 ? "" : "Epoch 0: :   2%|1  | 10/500 [00:12<20:00, v_num=0, reduced_train_loss=10.5]\r", i, i,
                32 * i + 32, t / 1000);
        } else if (is_python) {
            add(l, "iteration %d, loss: 4.3677, time: %.3fms, tok/s: %.2f, norm: 1.480", i + 1, t, 8192 / t * 1000);
        } else if (strcmp(format, "megatron") == 0) {
            add(l,
                " iteration %8d/     500 | consumed samples: %12d | elapsed time per iteration (ms): %.1f | learning "
                "rate: 1.0E-05 | global batch "
                "size: %5d | lm loss: 1.8E+00 | number of nan iterations:   0 |",
                10 * i + 10, 32 * (10 * i + 10), t, 32);
        } else if (strcmp(format, "nanogpt") == 0) {
            if (i % 7 == 0)
                add(l, "step %d: train loss 4.0390, val loss 4.0427", 10 * i);
            add(l, "iter %d: loss 3.2202, time %.2fms, mfu 16.68%%", 10 * i, i % 7 ? t : 10 * ms);
        } else {
            add(l,
                "step %4d/500 | loss 3.208939 (+nanz)| norm 1.4800 (+nanz)| lr 3.00e-04 | %.2f ms | 58.6%% bf16 MFU | "
                "%.0f tok/s",
                i + 1, t, 8192 / ms * 1000);
        }
    }
}

enum { PERMUTED = 1, REPEATED = 2, TAGGED = 4, CUT = 8, MERGED = 16, ENDED = 32, DAMAGES = 64 };

static void damage(struct rp_buf *out, struct lines *l, int how)
{
    static const char *const tags[] = {"[1,0]<stdout>:", "0: ", "2024-05-01T10:00:00.123456789Z ",
                                       "[default0]:", "10.0.0.1: "};
    const char *tag = how & TAGGED ? tags[draw(5)] : "";
    if (how & PERMUTED)
        for (int i = l->n - 1; i > 0; i--) {
            int j = (int)draw((uint32_t)i + 1);
            char *kept = l->line[i];
            l->line[i] = l->line[j];
            l->line[j] = kept;
        }
    for (int i = 0; i < l->n; i++) {
        int is_step = strstr(l->line[i], "loss") != NULL && !strstr(l->line[i], "val loss");
        for (int copies = how & REPEATED ? 1 + (int)draw(3) : 1; copies > 0; copies--) {
            const char *last = strstr(l->line[i], "train_step_timing"); /* may end a line, whole or cut */
            size_t n = strlen(l->line[i]);
            if (how & CUT && is_step && draw(3) == 0)
                n = draw((uint32_t)(last ? (size_t)(last - l->line[i]) : n) + 1);
            rp_buf_printf(out, "%s%.*s%s", tag, (int)n, l->line[i], how & MERGED && draw(4) == 0 ? "" : "\n");
        }
    }
    if (how & ENDED)
        out->data[out->size = draw((uint32_t)out->size)] = 0;
}

TEST(a_damaged_log_gives_the_truth_or_a_refusal)
{
    static const char *const formats[] = {"megatron", "nanogpt", "llmc", "nemo", "train_gpt2.py"};
    static const char *const importers[] = {"megatron", "nanogpt", "llmc", "megatron", "llmc"};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        int read = 0, refused = 0;
        for (int i = 0; i < (tap_long() ? 20000 : 600); i++) {
            const int how =
                i % DAMAGES & (i & PERMUTED ? ~ENDED : ~0); /* nobody can know what lines out of order ended with */
            seed = (uint32_t)i;
            const double ms = (double)(1 + draw(99999)) / 10;
            struct lines l = {0};
            RP_BUF log = {0};
            generate(&l, formats[f], ms);
            damage(&log, &l, how);
            for (int j = 0; j < l.n; j++)
                free(l.line[j]);
            RP_JSON *doc = import_one(importers[f], "x", rp_buf_text(&log));
            if (!doc) {
                CHECK((how & (PERMUTED | CUT | MERGED | ENDED)) && err.code == RP_MALFORMED,
                      "%s, seed %d, damage %d: %s", formats[f], i, how, err.msg);
                refused++;
                continue;
            }
            const double truth = (strcmp(unit(doc, 0), "tokens/s") == 0 ? 8192 : 32) / ms * 1000;
            CHECK(fabs(value(doc, 0) / truth - 1) < 1e-3, "%s, seed %d, damage %d: %g, truth %g: %s", formats[f], i,
                  how, value(doc, 0), truth, note(doc, 0));
            read++;
        }
        CHECK(read > refused / 2 && refused > 0, "%s: %d read, %d refused", formats[f], read, refused);
    }
}
