/* Replay of a small real run: equal, or the first step, quantity and tensor that differ; and nothing of the owner's is
 * touched. */
/* exhaustive */
#include "tests/unit/replay_fixture.h"

#include "train/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

TEST(an_honest_run_replays_bit_for_bit_and_writes_nothing)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err = {0};
    RP_FREE char *owner = fx_path("owner.safetensors"), *kept = fx_path("kept.safetensors");
    CHECK(rename(owner, kept) == 0, "the run itself saved nothing");
    CHECK(replay(&r, x->facts, x->steps.data, STEPS, &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.steps == STEPS && r.roots == 3, "diverged %d at %lld, %lld steps, %lld roots", r.diverged,
          (long long)r.step, (long long)r.steps, (long long)r.roots);
    CHECK(replay(&r, x->facts, x->steps.data, 1, &err) == 0 && !r.diverged && r.steps == 1 && r.roots == 1,
          "one step: %s", err.msg);
    CHECK(access(owner, F_OK) < 0, "a replay wrote the file that the bundle named");
    CHECK(rename(kept, owner) == 0, "%s", kept);
}

TEST(the_first_divergence_is_named)
{
    static const struct {
        const char *key;
        int n;
        int64_t step;
        const char *quantity;
    } cases[] = {
        {"\"loss\"", 0, 0, "loss"},           {"\"loss\"", 2, 2, "loss"},
        {"\"grad_norm", 1, 1, "grad_norm"},   {"\"state_root", 0, -1, "state_root"},
        {"\"state_root", 1, 1, "state_root"}, {"\"state_root", 2, 2, "state_root"},
    };
    struct real *x = real();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_replay_result r;
        struct rp_err err = {0};
        RP_FREE char *text = bent_records(x, cases[i].key, cases[i].n);
        CHECK(replay(&r, x->facts, text, STEPS, &err) == 0, "%s", err.msg);
        CHECK(r.diverged && r.step == cases[i].step && strcmp(r.quantity, cases[i].quantity) == 0,
              "case %zu: diverged %d at %lld in %s", i, r.diverged, (long long)r.step, r.diverged ? r.quantity : "-");
        CHECK(strcmp(r.recorded, r.here) != 0, "%s is %s", r.recorded, r.here);
    }
}

static json_t *tensor_root(const json_t *facts, const char *name)
{
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(facts, "tensor_root"), i, one)
        if (strcmp(rp_json_text_at(one, "name"), name) == 0)
            return one;
    CHECK(0, "no root of %s", name);
    return NULL;
}

TEST(a_divergent_tensor_is_named_where_its_root_was_recorded)
{
    static const char *const which[] = {"init", "final"};
    struct real *x = real();
    for (int i = 0; i < 2; i++) {
        struct rp_replay_result r;
        struct rp_err err = {0};
        RP_JSON *run = json_deep_copy(x->facts);
        RP_FREE char *text = bent_records(x, "\"state_root", i ? 2 : 0);
        json_object_set_new(tensor_root(run, "bert.pooler.dense.weight"), which[i], json_string(FX_ROOT));
        CHECK(replay(&r, run, text, STEPS, &err) == 0, "%s", err.msg);
        CHECK(r.diverged && strcmp(r.tensor, "bert.pooler.dense.weight") == 0, "%s: tensor '%s'", which[i], r.tensor);
    }
}

TEST(what_cannot_be_replayed_says_why)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err;
    struct rp_replay_opts o = {.steps = 1, .threads = 1};
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) < 0 && err.code == RP_UNAVAILABLE &&
              strstr(err.msg, "--data"),
          "%s", err.msg);
    CHECK(replay(&r, x->facts, "", 1, &err) < 0 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    RP_JSON *run = json_deep_copy(x->facts);
    json_object_set_new(json_object_get(run, "data"), "digest", json_string(FX_ROOT));
    CHECK(replay(&r, run, x->steps.data, 1, &err) < 0 && err.code == RP_MISMATCH && strstr(err.msg, "digest"), "%s",
          err.msg);
    RP_JSON *init = json_deep_copy(x->facts);
    json_object_set_new(json_object_get(json_object_get(init, "recipe"), "run.init"), "value",
                        json_string("/etc/passwd"));
    CHECK(replay(&r, init, x->steps.data, 1, &err) < 0 && err.code == RP_UNAVAILABLE && strstr(err.msg, "--init"), "%s",
          err.msg);
    RP_JSON *huge = json_deep_copy(x->facts);
    json_object_set_new(json_object_get(huge, "plan"), "batch", json_integer(16777216));
    CHECK(replay(&r, huge, x->steps.data, 1, &err) < 0 && strstr(err.msg, "batch"), "a plan of terabytes: %s", err.msg);
}

/* What facts.json has of the file of --init, in a run that started from it. */
TEST(the_file_that_a_run_started_from_is_the_one_it_described)
{
    static const struct {
        const char *key, *value;
    } lies[] = {
        {"steps", "7"}, {"class", "\"BertForEverything\""}, {"types", "[\"BF16\"]"}, {"optimizer_state", "false"}};
    const struct real *x = real();
    struct rp_recipe r;
    struct rp_err err = {0};
    json_t *found = NULL;
    RP_FREE char *init = fx_path("middle.safetensors");
    RP_JSON *facts = json_deep_copy(x->facts);
    CHECK(rp_recipe_from_json(&r, json_object_get(facts, "recipe"), &err) == 0 &&
              rp_checkpoint_check(init, &r, &found, &err) == 0,
          "%s", err.msg);
    rp_recipe_fini(&r);
    json_object_set_new(json_object_get(json_object_get(facts, "recipe"), "run.init"), "value",
                        json_string("theirs.safetensors"));
    json_object_set_new(facts, "init", found);
    for (size_t i = 0; i <= sizeof lies / sizeof *lies; i++) {
        const int honest = i == sizeof lies / sizeof *lies;
        struct rp_facts of;
        RP_JSON *bent = json_deep_copy(facts);
        if (!honest)
            json_object_set_new(json_object_get(bent, "init"), lies[i].key,
                                json_loads(lies[i].value, JSON_DECODE_ANY, NULL));
        rp_object_read(&of, &rp_type_facts, bent);
        const int rc = rp_replay_check_state(&of, init, 0, &err);
        CHECK(honest ? rc == 0 : rc < 0 && err.code == RP_MISMATCH && strstr(err.msg, lies[i].key), "%zu: %s", i,
              err.msg);
        rp_object_fini(&of, &rp_type_facts);
    }
}

static int middle_with(struct rp_replay_result *r, const char *steps, int64_t first, int64_t n, const char *init,
                       const char *state, struct rp_err *err)
{
    RP_FREE char *from = fx_path(init), *to = state ? fx_path(state) : NULL;
    struct rp_replay_opts o = {
        .first = first, .steps = n, .data = real()->data, .init = init[0] ? from : NULL, .state = to, .threads = 1};
    *err = (struct rp_err){0};
    return replay_with(r, real()->facts, steps, &o, err);
}

TEST(a_replay_begins_in_the_middle_from_the_state_there)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err;
    CHECK(middle_with(&r, x->steps.data, 2, 9, "middle.safetensors", NULL, &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.first == 2 && r.steps == 1 && r.roots == 2 && r.start_root,
          "diverged %d (%s), %lld steps, %lld roots", r.diverged, r.diverged ? r.quantity : "", (long long)r.steps,
          (long long)r.roots);
    /* a step too late */
    CHECK(middle_with(&r, x->steps.data, 2, 1, "owner.safetensors", NULL, &err) == 0, "%s", err.msg);
    CHECK(r.diverged && r.step == 1 && strcmp(r.quantity, "state_root") == 0 && r.agreed < 0, "diverged %d at %lld",
          r.diverged, (long long)r.step);
    /* no root there: the schedule tells */
    CHECK(middle_with(&r, x->steps.data, 1, 1, "middle.safetensors", NULL, &err) == 0, "%s", err.msg);
    CHECK(r.diverged && !r.start_root && r.step == 1 && strcmp(r.quantity, "learning_rate") == 0, "%s",
          r.diverged ? r.quantity : "equal");
    CHECK(middle_with(&r, x->steps.data, 2, 1, "", NULL, &err) < 0 && err.code == RP_UNAVAILABLE &&
              strstr(err.msg, "--init"),
          "%s", err.msg);
    REFUSED(middle_with(&r, x->steps.data, 3, 1, "middle.safetensors", NULL, &err) < 0 && err.code == RP_USAGE,
            err.msg);
    RP_FREE char *text = bent_records(x, "\"loss\"", 2);
    CHECK(middle_with(&r, text, 2, 1, "middle.safetensors", NULL, &err) == 0, "%s", err.msg);
    CHECK(r.diverged && r.step == 2 && strcmp(r.quantity, "loss") == 0 && r.agreed == 2,
          "%s at %lld, agreed until %lld", r.quantity, (long long)r.step, (long long)r.agreed);
}

/* A run that answers a challenge, as its worker sees it. */
static struct real *perturbed(void)
{
    return changed("seed.perturbation=77");
}

static int replay_perturbed(struct rp_replay_result *r, const char *steps, int64_t first, const char *init,
                            struct rp_products *untrained, struct rp_err *err)
{
    RP_FREE char *from = init ? fx_path(init) : NULL;
    struct rp_replay_opts o = {
        .first = first, .steps = 9, .data = real()->data, .init = from, .untrained = untrained, .threads = 1};
    *err = (struct rp_err){0};
    return replay_with(r, perturbed()->facts, steps, &o, err);
}

/* The roots are over the weights before they are moved, so the state of --save has the recorded one, and a replay from
 * it moves them too. */
TEST(a_perturbed_run_replays_from_its_seeds_and_from_its_states)
{
    struct real *x = perturbed();
    struct rp_replay_result r;
    struct rp_products untrained = {0};
    struct rp_err err;
    CHECK(strcmp(x->steps.data, real()->steps.data) != 0, "weights are not perturbed");
    CHECK(replay_perturbed(&r, x->steps.data, 0, NULL, &untrained, &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.steps == STEPS && r.roots == 3 && !r.reached && untrained.all == 0, "diverged %d in %s",
          r.diverged, r.diverged ? r.quantity : "");
    CHECK(replay_perturbed(&r, x->steps.data, 2, "changed.safetensors", &untrained, &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.steps == 1 && r.start_root, "diverged %d in %s", r.diverged, r.diverged ? r.quantity : "");
    CHECK(r.reached && r.reach.used > 0 && r.reach.used <= 1, "%g of the bound in %s", r.reach.used, r.reach.tensor);
    CHECK(r.products.all > 0 && untrained.all > 0 &&
              rp_products_needed(&r.products) > 0.9 * rp_products_needed(&untrained),
          "%g of %g products are spared", r.products.spared, r.products.all);
    RP_JSON *j = rp_replay_json(&r);
    CHECK(json_number_value(rp_json_at(j, "state_before/reach")) == r.reach.used, "json");
    CHECK(replay_perturbed(&r, x->steps.data, 2, "middle.safetensors", &untrained, &err) == 0 && r.diverged,
          "the state of another run: %s", err.msg);
    CHECK(replay_perturbed(&r, x->steps.data, 2, "changed.safetensors", NULL, &err) == 0 && !r.diverged && !r.reached,
          "%s", err.msg);
}

/* The 4 bytes of an element of a saved state, and every file's state root along with them. */
static void bend(const char *file, const char *as, const char *tensor, int64_t element, int64_t last)
{
    struct rp_err err;
    struct rp_st st;
    RP_BUF bytes = {0};
    RP_FREE char *from = fx_path(file), *to = fx_path(as);
    CHECK(rp_read_file(&bytes, from, 1 << 24, &err) == 0 && rp_st_open(&st, from, &err) == 0, "%s", err.msg);
    const struct rp_st_tensor *t = rp_st_find(&st, tensor);
    CHECK(t, "no %s", tensor);
    bytes.data[st.data + t->begin + (uint64_t)element * 4] ^= 1;
    bytes.data[st.data + t->begin + (uint64_t)last * 4] ^= 1;
    rp_st_close(&st);
    CHECK(rp_write_file(to, bytes.data, bytes.size, 0644, &err) == 0, "%s", err.msg);
}

/* The n-th line of the records as JSON, from 0. */
static json_t *record_line(const struct rp_buf *steps, int n)
{
    struct rp_err err;
    const char *at = rp_buf_text(steps);
    while (n--)
        at = strchr(at, '\n') + 1;
    json_t *j = rp_json_parse(at, strcspn(at, "\n"), "record", &err);
    CHECK(j, "%s", err.msg);
    return j;
}

/* A run that was honest for two steps, then went on from a state of its owner's making: the records have its root and
 * what follows from it. */
static void continue_from(struct rp_buf *out, const struct real *x, const char *state)
{
    struct rp_err err = {0};
    struct rp_data_set set;
    struct rp_recipe r;
    RP_BUF again = {0};
    RP_FREE char *init = fx_path(state);
    CHECK(rp_recipe_from_json(&r, json_object_get(x->facts, "recipe"), &err) == 0, "%s", err.msg);
    CHECK(rp_recipe_set(&r, "data.path", x->data, RP_FROM_COMMAND_LINE, &err) == 0 &&
              rp_recipe_set(&r, "run.init", init, RP_FROM_COMMAND_LINE, &err) == 0 &&
              rp_data_prepare(&r, NULL, &set, &err) == 0,
          "%s", err.msg);
    first_step = 2;
    RP_JSON *done = work(&r, set.path, 1, "", &again, &err);
    first_step = 0;
    CHECK(done, "%s", err.msg);
    RP_JSON *before = record_line(&again, 0), *last = record_line(&again, 1), *second = record_line(&x->steps, 2);
    json_object_set(second, "state_root", json_object_get(before, "state_root"));
    json_object_set_new(last, "step", json_integer(2));
    json_object_set_new(last, "phase", json_string("timed"));
    for (int i = 0; i < 2; i++) {
        RP_JSON *line = record_line(&x->steps, i);
        rp_json_write_line(out, line);
    }
    rp_json_write_line(out, second);
    rp_json_write_line(out, last);
    rp_recipe_fini(&r);
    rp_data_set_fini(&set);
}

/* Sets an element of a saved state. */
static void set_element(const char *file, const char *as, const char *tensor, float value)
{
    struct rp_err err;
    struct rp_st st;
    RP_BUF bytes = {0};
    RP_FREE char *from = fx_path(file), *to = fx_path(as);
    CHECK(rp_read_file(&bytes, from, 1 << 24, &err) == 0 && rp_st_open(&st, from, &err) == 0, "%s", err.msg);
    memcpy(bytes.data + st.data + rp_st_find(&st, tensor)->begin, &value, sizeof value);
    rp_st_close(&st);
    CHECK(rp_write_file(to, bytes.data, bytes.size, 0644, &err) == 0, "%s", err.msg);
}

TEST(a_state_out_of_reach_is_found_though_all_bits_follow_from_it)
{
    static const char *const bias = "bert.encoder.layer.0.intermediate.dense.bias";
    struct rp_replay_result r;
    struct rp_products untrained = {0};
    struct rp_err err;
    RP_BUF steps = {0};
    const struct real *x = perturbed();
    set_element("changed.safetensors", "dead.safetensors", bias, -50);
    continue_from(&steps, x, "dead.safetensors");
    CHECK(replay_perturbed(&r, rp_buf_text(&steps), 2, "dead.safetensors", &untrained, &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.start_root && r.steps == 1, "diverged %d in %s", r.diverged, r.diverged ? r.quantity : "");
    CHECK(r.reached && r.reach.used > 1 && strcmp(r.reach.tensor, bias) == 0 && r.reach.element == 0 &&
              r.reach.is == -50,
          "%g of the bound in %s", r.reach.used, r.reach.tensor);
}

TEST(a_divergence_is_narrowed_to_elements_where_the_owner_gives_the_state)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err;
    char root[RP_SHA256_HEX], was[RP_SHA256_HEX];
    CHECK(middle_with(&r, x->steps.data, 0, 9, "", "owner.safetensors", &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.state_compared && r.state.tensors == 0, "%lld tensors differ", (long long)r.state.tensors);
    REFUSED(middle_with(&r, x->steps.data, 0, 9, "", "middle.safetensors", &err) < 0 && err.code == RP_MISMATCH,
            err.msg);
    CHECK(middle_with(&r, x->steps.data, 0, 1, "", "middle.safetensors", &err) < 0 && err.code == RP_UNAVAILABLE, "%s",
          err.msg);
    /* an owner whose last step went wrong in two elements, and who recorded the root of that */
    static const char *const tensor = "bert.encoder.layer.0.output.dense.bias";
    bend("owner.safetensors", "bent.safetensors", tensor, 3, 11);
    RP_FREE char *bent = fx_path("bent.safetensors"), *owner = fx_path("owner.safetensors"),
                 *text = rp_strdup(x->steps.data);
    CHECK(rp_state_file_root(was, owner, &x->recipe, &err) == 0 &&
              rp_state_file_root(root, bent, &x->recipe, &err) == 0,
          "%s", err.msg);
    char *at = strstr(text, was);
    CHECK(at && strcmp(root, was) != 0, "the owner's root is not in the records");
    memcpy(at, root, 64);
    CHECK(middle_with(&r, text, 2, 1, "middle.safetensors", "bent.safetensors", &err) == 0, "%s", err.msg);
    CHECK(r.diverged && r.step == 2 && strcmp(r.quantity, "state_root") == 0 && r.agreed == 2, "%s at %lld", r.quantity,
          (long long)r.step);
    CHECK(r.state_compared && r.state.tensors == 1 && strcmp(r.state.name, tensor) == 0 && r.state.first == 3 &&
              r.state.last == 11 && r.state.count == 2 && r.state.size == 16 &&
              strcmp(r.state.was, r.state.here) != 0 && strstr(r.state.was, "0x1."),
          "%lld tensors, %s %lld to %lld (%lld of %lld), %s %s", (long long)r.state.tensors, r.state.name,
          (long long)r.state.first, (long long)r.state.last, (long long)r.state.count, (long long)r.state.size,
          r.state.was, r.state.here);
    RP_JSON *j = rp_replay_json(&r);
    CHECK(json_integer_value(json_object_get(json_object_get(j, "state"), "first")) == 3 &&
              json_is_false(json_object_get(j, "equal")),
          "json");
}

/* Stops the worker, this program's only child: as one that hangs. */
static int hang(void *arg, const char *what, int64_t step, int64_t steps)
{
    pid_t *worker = arg;
    (void)what, (void)step, (void)steps;
    RP_FREE char *path = rp_asprintf("/proc/self/task/%d/children", (int)getpid());
    FILE *f = *worker ? NULL : fopen(path, "re");
    if (f && fscanf(f, "%d", worker) == 1)
        kill(*worker, SIGSTOP);
    if (f)
        fclose(f);
    return 0;
}

TEST(attacks_on_the_patience_of_a_verifier)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err = {0};
    pid_t worker = 0;
    RP_JSON *patient = json_deep_copy(x->facts);
    json_object_set_new(json_object_get(json_object_get(patient, "recipe"), "run.hang_seconds"), "value",
                        json_integer(86400));
    struct rp_replay_opts o = {.steps = STEPS, .data = x->data, .threads = 1, .progress = hang, .arg = &worker};
    o.limit_ns = 5000000000;
    CHECK(replay_with(&r, patient, x->steps.data, &o, &err) < 0 && err.code == RP_UNAVAILABLE &&
              strstr(err.msg, "--replay-limit"),
          "hangs: %s", err.msg);
    CHECK(worker && kill(worker, 0) < 0, "the worker %d is still there", (int)worker);
    worker = 0;
    o.limit_ns = 1;
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) < 0 && err.code == RP_UNAVAILABLE && !worker,
          "too long: %s", err.msg);
    o.limit_ns = 0;
    o.limit_bytes = 1 << 20;
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) < 0 && err.code == RP_UNAVAILABLE && !worker,
          "too large: %s", err.msg);
}

/* The first time, stops the worker and this process for as long as the replay may take, as Ctrl-Z does. */
static int pause_once(void *arg, const char *what, int64_t step, int64_t steps)
{
    pid_t *worker = arg;
    const int before = *worker != 0;
    hang(arg, what, step, steps);
    if (!before && *worker) {
        sleep(4);
        kill(*worker, SIGCONT);
    }
    return 0;
}

TEST(a_pause_of_the_verifier_is_not_part_of_the_limit)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err = {0};
    pid_t worker = 0;
    struct rp_replay_opts o = {.steps = STEPS, .data = x->data, .threads = 1, .progress = pause_once, .arg = &worker};
    o.limit_ns = 4000000000;
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) == 0 && worker && r.steps == STEPS, "%s", err.msg);
}

TEST(a_worker_that_takes_more_than_the_limit_is_ended)
{
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err = {0};
    struct rp_replay_opts o = {.steps = STEPS, .data = x->data, .threads = 1, .limit_bytes = (uint64_t)400 << 20};
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) == 0 && r.steps == STEPS, "without ballast: %s", err.msg);
    setenv(BALLAST, "800", 1);
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) < 0 && err.code == RP_UNAVAILABLE &&
              strstr(err.msg, "--replay-limit"),
          "%s", err.msg);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "the worker is still there");
    o.limit_bytes = (uint64_t)4 << 30;
    CHECK(replay_with(&r, x->facts, x->steps.data, &o, &err) == 0 && r.steps == STEPS, "within a larger limit: %s",
          err.msg);
    unsetenv(BALLAST);
}

/* Roots that a replicator cannot copy: each counts where it was recomputed, and what comes after the replayed steps
 * does not. */
TEST(keyed_roots_count_as_far_as_they_were_replayed)
{
    static const char signer[] = "SHA256:" FX_ROOT, other[] = "SHA256:ff" FX_ROOT;
    struct real *x = real();
    struct rp_replay_result r;
    struct rp_err err = {0};
    char key[RP_SHA256_HEX];
    RP_BUF steps = {0};
    RP_JSON *run = json_deep_copy(x->facts);
    json_object_set_new(run, "replicates", json_pack("{s:s}", "statement", FX_ROOT));
    rp_agreement_key(key, signer, FX_ROOT);
    root_key = key;
    RP_JSON *done = work(&x->recipe, x->data, 0, "", &steps, &err);
    root_key = NULL;
    CHECK(done, "%s", err.msg);
    struct rp_replay_opts o = {.steps = STEPS, .data = x->data, .threads = 1, .signer = signer};
    CHECK(replay_with(&r, run, steps.data, &o, &err) == 0 && !r.diverged && r.keyed == 2, "%s: %lld keyed roots",
          err.msg, (long long)r.keyed);
    o.steps = 1; /* before the first root */
    CHECK(replay_with(&r, run, steps.data, &o, &err) == 0 && !r.diverged && r.keyed == 0, "%s: %lld keyed roots",
          err.msg, (long long)r.keyed);
    o.steps = STEPS;
    o.signer = other;
    CHECK(replay_with(&r, run, steps.data, &o, &err) == 0 && r.diverged && strcmp(r.quantity, "keyed_root") == 0 &&
              r.step == -1,
          "for another key: step %lld", (long long)r.step);

    o.signer = signer; /* the last one is made up */
    char *last = NULL;
    for (char *p = steps.data; (p = strstr(p, "\"keyed_root\":\"")); p++)
        last = p + strlen("\"keyed_root\":\"");
    *last = *last == '0' ? '1' : '0';
    o.steps = STEPS - 1;
    CHECK(replay_with(&r, run, steps.data, &o, &err) == 0 && !r.diverged && r.keyed == 1, "%s: %lld keyed roots",
          err.msg, (long long)r.keyed);
    o.steps = STEPS;
    CHECK(replay_with(&r, run, steps.data, &o, &err) == 0 && r.diverged && strcmp(r.quantity, "keyed_root") == 0 &&
              r.step == STEPS - 1,
          "step %lld, %s", (long long)r.step, r.quantity);
}

TEST(the_memory_of_a_process_is_what_it_wrote_to)
{
    size_t size = (size_t)64 << 20;
    struct rp_process self = {.pid = getpid()}, none = {.pid = -1};
    uint64_t before = rp_process_memory(&self);
    RP_FREE char *block = rp_alloc(size);
    memset(block, 1, size);
    CHECK(block[size / 2] && rp_process_memory(&self) > before + size / 2, "%llu bytes",
          (unsigned long long)rp_process_memory(&self));
    CHECK(rp_process_memory(&none) == 0, "of no process");
}

/* The worker is another process: what it says of its failure is read, not believed. */
TEST(a_workers_account_of_its_failure_is_taken_apart)
{
    struct rp_err err;
    RP_JSON *good = json_pack("{s:i, s:s}", "code", RP_UNAVAILABLE, "message", "no memory");
    CHECK(rp_frame_failure(good, &err) < 0 && err.code == RP_UNAVAILABLE, "%s", rp_code_name(err.code));
    CHECK_STR(err.msg, "no memory");
    static const json_int_t wrong[] = {RP_OK, -1, RP_INTERRUPTED + 1, (1ll << 32) + RP_IO};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        RP_JSON *odd = json_pack("{s:I}", "code", wrong[i]);
        REFUSED(rp_frame_failure(odd, &err) < 0 && err.code == RP_BUG, err.msg);
    }
}

/* What a bundle has of it: how a worker ended is a number, and no word of another program is in it. */
TEST(reason_of_a_failed_run_has_the_signal_or_exit_status)
{
    static const struct {
        int ended;
        const char *has; /* NULL: neither */
    } cases[] = {{SIGSEGV, ", rank 2, timed after step 3, signal 11: "},
                 {SIGKILL | 0x80, ", signal 9: "},
                 {7 << 8, ", exit status 7: "},
                 {0, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_run_reason r = {.ended = cases[i].ended};
        RP_BUF text = {0};
        (void)rp_fail(&r.err, RP_BUG, "/home/alice said so");
        rp_run_reason_at(&r, 2, "timed after step 3");
        rp_run_reason_text(&text, &r);
        CHECK(cases[i].has ? strstr(text.data, cases[i].has) != NULL
                           : !strstr(text.data, "signal") && !strstr(text.data, "status"),
              "%s", text.data);
        CHECK(!strstr(text.data, "alice"), "%s", text.data);
    }
}
