/* A small real run, and its replay.
 *
 * What:    a BERT of one layer, trained here for three steps in a worker, as facts.json and records have it.
 * Flow:    real() or changed() -> rp_replay() through replay(), replay_with(); this same program is the worker.
 * Owner:   forget() at the end of the program.
 * Extend:  another run is changed() in a program of its own.
 */
#pragma once

#include "tests/unit/bundle_fixture.h"

#include "data/store.h"
#include "run/agreement.h"
#include "data/synthetic/make.h"
#include "train/safetensors.h"
#include "worker/group.h"
#include "worker/worker.h"

#define STEPS 3

#define BALLAST "RP_TEST_BALLAST" /* in the environment: MiB that the worker takes besides what it needs */

static void take_ballast(void)
{
    const char *text = getenv(BALLAST);
    size_t size = (text ? strtoul(text, NULL, 10) : 0) << 20;
    void *ballast = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    if (size && ballast != MAP_FAILED)
        memset(ballast, 1, size);
}

/* Replay starts this same program again as its worker. */
__attribute__((constructor)) static void worker(int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], RP_WORKER_ARG) != 0)
        return;
    take_ballast();
    exit(rp_worker_main(RP_PROCESS_FD));
}

static const char yaml[] =
    "model: {vocab_size: 2048, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, "
    "max_position_embeddings: 16}\n"
    "task: {seq_length: 16, max_predictions_per_seq: 2}\n"
    "train: {batch_size: 2}\n"
    "evidence: {state_root_every: 2}\n"
    "run: {threads: 1}\n"
    "measure: {warmup_steps: 1, timed_steps: 2, repeats: 1}\n";

static const char *root_key; /* of the runs of work(): NULL, or as of a replication */
static int64_t first_step;   /* of the run: its number for step 0 of work() */

struct real {
    struct rp_recipe recipe;
    struct rp_buf steps;
    json_t *facts; /* facts.json, which tests copy and bend */
    char *data;
    const char *setting; /* of its command line; or NULL */
    const char *middle, *last; /* files of its states after two steps and at the end */
};

/* So many steps (0: all) through the worker, saving to `save`; the records, and what the worker says last (owned by the
 * caller). */
static json_t *work(struct rp_recipe *r, const char *data, int64_t steps, const char *save, struct rp_buf *out,
                    struct rp_err *err)
{
    struct rp_process w;
    json_t *done = NULL;
    if (rp_recipe_set(r, "run.save", save, RP_FROM_COMMAND_LINE, err) < 0)
        return NULL;
    struct rp_job job = {.recipe = r, .backend = &rp_backend_cpu, .data = (char *)data, .batch = 2, .first = first_step,
                         .steps = steps, .root_key = root_key};
    RP_JSON *body = rp_job_encode(&job);
    if (rp_worker_start(&w, body, err) < 0)
        return NULL;
    while (!done) {
        enum rp_frame type;
        json_t *frame;
        int got = rp_process_next(&w, 60000, &type, &frame, err);
        if (got > 0 && type == RP_FRAME_STEP)
            rp_json_write_line(out, frame);
        if (got > 0 && type == RP_FRAME_DONE)
            done = json_incref(frame);
        if (got > 0 && type == RP_FRAME_FAILED)
            got = rp_fail(err, RP_BUG, "%s", json_string_value(json_object_get(frame, "message")));
        json_decref(frame);
        if (got <= 0)
            break;
    }
    rp_process_kill(&w);
    return done;
}

/* Train once and write facts.json as `run` does; before that two steps only, whose state is kept. */
static int train(struct real *x, struct rp_err *err)
{
    struct rp_data_set set;
    RP_BUF two = {0};
    RP_FREE char *setting = rp_asprintf("data.path=%s", x->data), *save = fx_path(x->last),
                 *middle = fx_path(x->middle);
    const char *sets[] = {setting, x->setting};
    if (rp_recipe_parse(&x->recipe, yaml, sizeof yaml - 1, "small.yaml", "cpu", sets, x->setting ? 2 : 1, err) < 0 ||
        rp_data_prepare(&x->recipe, NULL, &set, err) < 0)
        return -1;
    const struct rp_plan plan = fx_plan(&x->recipe, NULL);
    RP_JSON *data = json_pack("{s:b, s:s}", "pinned", 0, "digest", set.digest);
    RP_JSON *half = work(&x->recipe, set.path, 2, middle, &two, err),
            *done = half ? work(&x->recipe, set.path, 0, save, &x->steps, err) : NULL;
    if (!done)
        return -1;
    const json_t *hello[] = {NULL}, *last[] = {done};
    struct rp_facts facts;
    rp_facts_seal(&facts, &(struct rp_seal){.status = "complete",
                                            .recipe = &x->recipe,
                                            .data = data,
                                            .plan = &plan,
                                            .backend = "cpu",
                                            .degrees = {1, 1, 1},
                                            .hello = hello,
                                            .done = last,
                                            .started_ns = FX_START,
                                            .ended_ns = FX_START});
    x->facts = rp_object_json(&facts, &rp_type_facts);
    rp_object_fini(&facts, &rp_type_facts);
    rp_data_set_fini(&set);
    return 0;
}

static struct real x_real;

static struct real x_changed; /* of the same samples, with the setting of changed() */

static void forget(void) /* for the leak checker */
{
    struct real *all[] = {&x_real, &x_changed};
    for (int i = 0; i < 2; i++) {
        rp_recipe_fini(&all[i]->recipe);
        rp_buf_fini(&all[i]->steps);
        json_decref(all[i]->facts);
    }
    free(x_real.data);
}

static struct real *real(void)
{
    struct real *x = &x_real;
    struct rp_err err = {0};
    struct rp_make_opts o = {
        .seed = 5, .sequences = 32, .seq_length = 16, .max_predictions_per_seq = 2, .vocab_size = 2048, .shards = 1};
    if (x->facts)
        return x;
    RP_FREE char *cache = fx_path("cache");
    setenv("XDG_CACHE_HOME", cache, 1);
    x->data = fx_path("samples");
    x->middle = "middle.safetensors";
    x->last = "owner.safetensors";
    int failed = rp_make_directory(rp_generator_find("bert"), &o, x->data, 0, &err) < 0 || train(x, &err) < 0;
    CHECK(!failed, "%s", err.msg);
    if (failed)
        exit(1);
    atexit(forget);
    return x;
}

static int replay_with(struct rp_replay_result *r, const json_t *facts, const char *steps,
                       const struct rp_replay_opts *o, struct rp_err *err)
{
    struct rp_records records;
    struct rp_facts of;
    if (rp_records_parse(&records, steps, strlen(steps), err) < 0)
        return -1;
    rp_object_read(&of, &rp_type_facts, facts);
    int failed = rp_replay(r, &of, &records, o, err);
    rp_object_fini(&of, &rp_type_facts);
    rp_records_fini(&records);
    return failed;
}

static __attribute__((unused)) int replay(struct rp_replay_result *r, const json_t *facts, const char *steps, int64_t n,
                                          struct rp_err *err)
{
    struct rp_replay_opts o = {.steps = n, .data = real()->data, .threads = 1};
    return replay_with(r, facts, steps, &o, err);
}

/* Another run of the same samples, one in each program. */
static __attribute__((unused)) struct real *changed(const char *setting)
{
    struct real *x = &x_changed;
    struct rp_err err = {0};
    if (!x->facts) {
        *x = (struct real){.setting = setting, .middle = "changed.safetensors", .last = "changed_last.safetensors",
                           .data = real()->data};
        CHECK(train(x, &err) == 0, "%s", err.msg);
    }
    return x;
}

/* The records with the n-th hex text after `key` changed: of a number the last digit, so that the parts of a loss still
 * add up to it. */
static __attribute__((unused)) char *bent_records(const struct real *x, const char *key, int n)
{
    char *text = rp_strdup(x->steps.data), *at = text;
    for (int i = 0; i <= n && at; i++)
        at = strstr(at + 1, key);
    CHECK(at, "no %s", key);
    if (at) {
        at = strstr(at, "\":\"") + 3;
        if (strncmp(at, "0x1.", 4) == 0)
            at = strchr(at, 'p') - 1;
        *at = *at == '8' ? 'c' : '8';
    }
    return text;
}
