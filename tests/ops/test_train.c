/* Training as the worker sees it: plan, open, load, step, root, save; exact losses of the small recipe; a loss that
 * falls.
 *
 * Golden values: tests/golden/bert_tiny_fp32.txt, made by the definitions of repro-fp32/1. They change only with a new
 * version of the arithmetic, of the recipe or of the corpus; RP_GOLDEN_UPDATE=1 writes what was computed. */
#include "base/buf.h"
#include "base/json.h"
#include "data/files.h"
#include "data/synthetic/make.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOLDEN "tests/golden/bert_tiny_fp32.txt"

/* -- a corpus of our own -- */

/* Directory with `sequences` made-up samples; made once per name. */
static const char *corpus(const char *name, int sequences, int seq, int predictions, int vocab)
{
    struct rp_err err = {0};
    const struct rp_generator *g = rp_generator_find("bert");
    const char *path = scratch(name);
    struct rp_make_opts o = {
        .sequences = sequences, .seq_length = seq, .max_predictions_per_seq = predictions, .vocab_size = vocab};
    if (access(path, F_OK) != 0)
        CHECK(rp_make_options(&o, g, &err) == 0 && rp_make_directory(g, &o, path, 0, &err) == 0, "%s", err.msg);
    return path;
}

/* -- one training -- */

struct training {
    struct rp_recipe recipe;
    struct rp_plan plan;
    const struct rp_backend *backend;
    struct rp_device_opts device;
    struct rp_dev *dev;
    struct rp_train *train;
};

/* bert_tiny_fp32 with "key=value" settings, NULL at the end, planned for the best instruction set with `threads`. */
static int prepare(struct training *t, const char *isa, int threads, const char *const *set, struct rp_err *err)
{
    int n = 0;
    while (set[n])
        n++;
    *t = (struct training){.backend = &rp_backend_cpu};
    if (rp_recipe_load(&t->recipe, "recipes/bert_tiny_fp32", "cpu", set, n, err) < 0)
        return -1;
    t->device = (struct rp_device_opts){.isa = isa, .threads = threads};
    return rp_train_plan(&t->plan, &t->recipe, NULL, t->backend, &t->device, t->backend->memory(&t->device), err);
}

static int start(struct training *t, const char *isa, int threads, const char *const *set, struct rp_err *err)
{
    if (prepare(t, isa, threads, set, err) < 0)
        return -1;
    t->dev = t->backend->open(&t->device, t->plan.bytes[RP_CLASS_BACKEND], err);
    t->train = t->dev ? rp_train_open(&(struct rp_train_opts){.recipe = &t->recipe, .plan = &t->plan, .dev = t->dev,
                                                              .data = t->recipe.data_path,
                                                              .format = rp_data_format_of(&t->recipe)},
                                      err)
                      : NULL;
    return t->train ? 0 : -1;
}

static void stop(struct training *t)
{
    if (t->train)
        rp_train_close(t->train);
    if (t->dev)
        t->backend->close(t->dev);
    rp_recipe_fini(&t->recipe);
}

static int step(struct training *t, int64_t i, struct rp_step_result *s, struct rp_err *err)
{
    return rp_train_load(t->train, i, err) < 0 ? -1 : rp_train_step(t->train, i, s, err);
}

/* "data.path=..." for a settings list; stays valid */
static const char *data_setting(const char *path)
{
    static char text[4][200];
    static int next;
    char *p = text[next++ & 3];
    snprintf(p, sizeof text[0], "data.path=%s", path);
    return p;
}

/* The recipe names a pinned archive; samples of our own need it gone. */
#define OWN_DATA "data.archive=", "data.sha256="

/* -- golden -- */

/* The corpus by its digest, so that a difference says whether the data or the arithmetic changed; lines "step loss
 * norm"; the root. */
static void record(struct rp_buf *out, const char *isa, int threads)
{
    struct training t;
    struct rp_err err = {0};
    const char *set[] = {OWN_DATA, data_setting(corpus("golden", 64, 128, 20, 30522)), NULL};
    char hex[65] = "";
    struct rp_files files;
    CHECK(rp_files_open(&files, corpus("golden", 64, 128, 20, 30522), ".tfrecord", &err) == 0 &&
              rp_files_digest(&files, hex, &err) == 0,
          "%s", err.msg);
    rp_files_close(&files);
    rp_buf_printf(out, "corpus %s\n", hex);
    CHECK(start(&t, isa, threads, set, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 5 && t.train; i++) {
        struct rp_step_result s;
        char loss[32], norm[32];
        CHECK(step(&t, i, &s, &err) == 0, "%s", err.msg);
        rp_float_hex(loss, s.loss);
        rp_float_hex(norm, s.grad_norm);
        rp_buf_printf(out, "%d %s %s\n", i, loss, norm);
    }
    CHECK(t.train && rp_train_root(t.train, hex, NULL, &err) == 0, "%s", err.msg);
    rp_buf_printf(out, "root %s\n", hex);
    stop(&t);
}

TEST(golden_losses_of_bert_tiny_fp32)
{
    struct rp_err err = {0};
    RP_BUF golden = {0};
    RP_BUF got = {0};
    record(&got, NULL, 2);
    const char *update = getenv("RP_GOLDEN_UPDATE");
    if (update && *update)
        CHECK(rp_write_file(GOLDEN, got.data, got.size, 0644, &err) == 0, "%s", err.msg);
    CHECK(rp_read_file(&golden, GOLDEN, 4096, &err) == 0, "%s", err.msg);
    CHECK_STR(got.data, golden.data);
    RP_BUF other = {0};
    record(&other, "avx2", 3);
    CHECK_STR(other.data, golden.data);
}

/* -- learning -- */

TEST(loss_falls_on_the_made_up_corpus)
{
    struct training t;
    struct rp_err err = {0};
    enum { STEPS = 200, WINDOW = 20 };
    const char *set[] = {OWN_DATA,
                         data_setting(corpus("learn", 2000, 64, 10, 2048)),
                         "model.vocab_size=2048", "task.seq_length=64", "task.max_predictions_per_seq=10",
                         "train.batch_size=16", "train.accumulation_steps=1", "schedule.total_steps=200", NULL};
    double first = 0, last = 0, nsp = 0;
    CHECK(start(&t, NULL, 2, set, &err) == 0, "%s", err.msg);
    for (int i = 0; i < STEPS && t.train; i++) {
        struct rp_step_result s;
        if (!CHECK(step(&t, i, &s, &err) == 0, "%s", err.msg))
            break;
        CHECK(s.samples == 16 && s.counter[1] == 1024 && s.counter[0] > 500 && s.counter[0] <= 1024, "step %d counts",
              i);
        first = i == 0 ? (double)s.loss : first;
        last += i >= STEPS - WINDOW ? (double)s.loss / WINDOW : 0;
        nsp += i >= STEPS - WINDOW ? (double)s.part[1] / WINDOW : 0;
    }
    printf("# loss of the first step %.3f, mean of the last %d %.3f (next sentence %.3f)\n", first, WINDOW, last, nsp);
    CHECK(fabs(first - 8.32) < 0.3, "the first loss should be about ln 2048 + ln 2 = 8.32: %.3f", first);
    CHECK(last < first - 1.5, "loss %.3f -> %.3f", first, last);
    stop(&t);
}

/* -- saving -- */

TEST(save_and_init_continue_the_same_run)
{
    struct training t;
    struct rp_err err = {0};
    struct rp_step_result s;
    char whole[65] = "", again[65] = "", init[200];
    const char *data = data_setting(corpus("continue", 40, 32, 5, 2048));
    const char *set[] = {OWN_DATA, data, "model.vocab_size=2048", "task.seq_length=32",
                         "task.max_predictions_per_seq=5", "train.batch_size=3", NULL, NULL};
    char *file = rp_strdup(scratch("saved.safetensors"));
    CHECK(start(&t, NULL, 1, set, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 6; i++) { /* 36 samples, then into the second epoch */
        CHECK(step(&t, i, &s, &err) == 0, "%s", err.msg);
        if (i == 3)
            CHECK(rp_train_save(t.train, file, &t.recipe, &err) == 0, "%s", err.msg);
    }
    CHECK(rp_train_root(t.train, whole, NULL, &err) == 0, "%s", err.msg);
    stop(&t);
    snprintf(init, sizeof init, "run.init=%s", file);
    set[7] = init;
    CHECK(start(&t, NULL, 2, set, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 2; i++)
        CHECK(step(&t, i, &s, &err) == 0, "%s", err.msg);
    CHECK(rp_train_root(t.train, again, NULL, &err) == 0, "%s", err.msg);
    CHECK_STR(again, whole);
    stop(&t);
    free(file);
}

/* -- memory -- */

TEST(plan_finds_the_largest_batch)
{
    struct training t, larger;
    struct rp_err err = {0};
    const char *most[] = {"train.batch_size=max", NULL};
    char text[64];
    CHECK(prepare(&t, NULL, 2, most, &err) == 0, "%s", err.msg);
    CHECK(t.plan.batch == t.plan.max_batch && t.plan.batch > 100 && t.plan.total <= t.plan.available,
          "batch %lld of %lld", (long long)t.plan.batch, (long long)t.plan.max_batch);
    snprintf(text, sizeof text, "train.batch_size=%lld", (long long)t.plan.max_batch + 1);
    const char *more[] = {text, NULL};
    if (t.plan.max_batch < 65536) {
        CHECK(prepare(&larger, NULL, 2, more, &err) == 0, "%s", err.msg);
        CHECK(larger.plan.total > t.plan.available || larger.plan.available != t.plan.available, "one more fits too");
        CHECK(larger.plan.batch == t.plan.max_batch + 1, "the recipe's batch is planned as it is");
        rp_recipe_fini(&larger.recipe);
    }
    rp_recipe_fini(&t.recipe);
}

/* Peak resident bytes of a child that trains two steps by this plan; 0 when it failed. */
static uint64_t peak_of_child(const char *const *set)
{
    int fd[2];
    uint64_t peak = 0;
    if (pipe(fd) < 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct training t;
        struct rp_err err = {0};
        struct rp_step_result s;
        struct rusage u;
        int bad = start(&t, NULL, 2, set, &err) < 0 || step(&t, 0, &s, &err) < 0 || step(&t, 1, &s, &err) < 0;
        getrusage(RUSAGE_SELF, &u);
        peak = bad ? 0 : (uint64_t)u.ru_maxrss * 1024;
        if (bad)
            printf("# %s\n", err.msg);
        _exit(write(fd[1], &peak, sizeof peak) != sizeof peak);
    }
    close(fd[1]);
    if (read(fd[0], &peak, sizeof peak) != sizeof peak)
        peak = 0;
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return peak;
}

static void compare_memory(const char *const *set)
{
    struct training t;
    struct rp_err err = {0};
    CHECK(prepare(&t, NULL, 2, set, &err) == 0, "%s", err.msg);
    double planned = (double)t.plan.total, peak = (double)peak_of_child(set);
    printf("# planned %.1f MB, peak %.1f MB\n", planned * 1e-6, peak * 1e-6);
    CHECK(peak > 0.95 * planned && peak < 1.05 * planned, "planned %.1f MB, peak %.1f MB", planned * 1e-6, peak * 1e-6);
    rp_recipe_fini(&t.recipe);
}

TEST(peak_memory_is_within_five_percent_of_the_plan)
{
    const char *data = data_setting(corpus("golden", 64, 128, 20, 30522));
    const char *shipped[] = {OWN_DATA, data, NULL};
    const char *larger[] = {OWN_DATA, data, "model.hidden_size=256", "model.num_attention_heads=4",
                            "model.intermediate_size=1024", "model.num_hidden_layers=4", "train.batch_size=16",
                            "train.accumulation_steps=3", NULL};
    compare_memory(shipped);
    compare_memory(larger);
}
