/* One run, from the command line to the sealed bundle. */
#include "cli/run_session.h"

#include "report/escape.h"

#include <inttypes.h>

#define OTHER_DOCUMENTS (12ul << 20) /* besides captures: telemetry of all ranks, facts.json, run.json */

static void run_fini(struct rp_run_session *r)
{
    for (int h = 0; h < r->hosts; h++) {
        json_decref(r->host_before[h]);
        json_decref(r->host_after[h]);
        rp_buf_fini(&r->host_xml[h]);
    }
    free(r->rank_host);
    free(r->host_before);
    free(r->host_after);
    free(r->host_xml);
    rp_run_job_fini(&r->job_of_many);
    rp_run_hosts_fini(&r->elsewhere);
    rp_progress_end(&r->progress);
    rp_recipe_fini(&r->recipe);
    free(r->own_set);
    for (int i = 0; i < r->implied_n; i++)
        free(r->implied[i]);
    rp_run_output_fini(&r->output);
    rp_data_set_fini(&r->data);
    rp_buf_fini(&r->hwloc_xml);
    rp_buf_fini(&r->challenge_bytes);
    json_decref(r->checkpoint);
    json_decref(r->before);
    json_decref(r->after);
    rp_run_documents_free(r->run);
    rp_records_fini(&r->records);
    rp_all_ranks_fini(&r->ranks);
    rp_outcome_fini(&r->outcome);
    rp_attempt_fini(&r->attempt);
    rp_key_free(r->key);
    free(r->key_file);
}

static int load_key(struct rp_run_session *r, struct rp_err *err)
{
    char print[RP_FINGERPRINT_SIZE];
    const int secret = r->o->passphrase_fd > 0 ? (int)r->o->passphrase_fd : -1;
    r->key = rp_key_load_or_create(r->o->key, secret, &r->key_created, err);
    if (!r->key)
        return -1;
    r->key_file = r->o->key ? rp_strdup(r->o->key) : rp_key_default_path(err);
    if (!r->key_file)
        return -1;
    rp_key_fingerprint(r->key, print);
    if (r->o->challenge && rp_recipe_challenge(&r->recipe, r->challenge.nonce, r->challenge.parts, print, err) < 0)
        return rp_wrap(err, "--challenge");
    if (r->key_created)
        rp_cli_note_new_key(r->cli, print);
    if (r->key_created)
        rp_progress_note(&r->progress, "made a new signing key, %s", print);
    else
        rp_progress_note(&r->progress, "signing key %s", print);
    return 0;
}

/* Signs of an NVIDIA GPU: only then a missing GPU is worth a message. */
static int has_nvidia(void)
{
    static const char *const signs[] = {"/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version"};
    const char *visible = getenv("NVIDIA_VISIBLE_DEVICES");
    int found = visible && *visible && strcmp(visible, "void") != 0;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        found |= access(signs[i], F_OK) == 0;
    return found;
}

/* A replication uses the samples of the original, and those of every run have the lengths and ranges of its model. */
static int check_data(const struct rp_run_session *r, struct rp_err *err)
{
    const struct rp_original *first = r->from->first;
    const char *had = first ? first->v->run->facts.data.digest : r->data.digest;
    if (strcmp(had, r->data.digest) != 0)
        return rp_fail(err, RP_MISMATCH, "the samples here have the digest %.24s..., those of the original %.24s...",
                       r->data.digest, had);
    return rp_train_check_data(&r->recipe, r->plan.batch, r->data.path, err);
}

/* Once. */
static int unpack_samples(struct rp_run_session *r, struct rp_err *err)
{
    if (r->data.path)
        return 0;
    rp_progress_phase(&r->progress, "unpacking", NULL);
    return rp_data_prepare(&r->recipe, r->o->store, &r->data, err) < 0 ? rp_wrap(err, "data") : 0;
}

/* Captures before and after the run, beside telemetry and what is written about the run: known before training. */
static int check_captures_fit(const struct rp_run_session *r, struct rp_err *err)
{
    size_t bytes = 0;
    for (int h = 0; h < r->hosts; h++) {
        RP_BUF text = {0};
        rp_json_write(&text, h ? r->host_before[h] : r->before);
        bytes += 2 * text.size;
    }
    if (bytes <= RP_BUNDLE_DOCUMENTS_MAX - OTHER_DOCUMENTS)
        return 0;
    return rp_fail(err, RP_UNAVAILABLE,
                   "the captures of %d hosts take %zu MiB, and a bundle holds %lu MiB of them: use fewer hosts",
                   r->hosts, bytes >> 20, (RP_BUNDLE_DOCUMENTS_MAX - OTHER_DOCUMENTS) >> 20);
}

/* A clock that is set during the run does not move captures out of it. */
static uint64_t wall_of_run(const struct rp_run_session *r)
{
    return rp_wall_since_ns(r->started_ns, r->boot_ns, r->ended_ns);
}

/* This machine and, of a job of several processes, the others at the same time. */
static int capture_before(struct rp_run_session *r, struct rp_err *err)
{
    struct rp_capture_opts c = {
        .root = "/", .identify = r->o->identify, .hwloc_xml = &r->hwloc_xml, .wall_ns = wall_of_run(r)};
    r->before = rp_capture(&c, err);
    if (!r->before || !r->job_of_many.several)
        return r->before ? 0 : -1;
    rp_run_job_untend(&r->job_of_many);
    RP_READ(capture_document, own, r->before);
    if (rp_run_job_ask_captures(&r->job_of_many, own.salt, r->o->identify, err) < 0)
        return -1;
    if (rp_run_job_take_captures(&r->job_of_many, r->host_before, r->host_xml, err) < 0)
        return -1;
    return check_captures_fit(r, err);
}

/* A host that is gone by now ends no run without a bundle: what was trained is sealed as failed. */
static int capture_after(struct rp_run_session *r, struct rp_err *err)
{
    RP_READ(capture_document, before, r->before);
    /* the same salt: hidden values stay comparable */
    struct rp_capture_opts c = {
        .root = "/", .identify = r->o->identify, .salt = before.salt, .wall_ns = wall_of_run(r)};
    struct rp_err gone;
    const int asked =
        r->job_of_many.several && rp_run_job_ask_captures(&r->job_of_many, before.salt, r->o->identify, &gone) == 0;
    rp_run_job_tend(&r->job_of_many);
    r->after = rp_capture(&c, err);
    rp_run_job_untend(&r->job_of_many);
    if (!r->after)
        return -1;
    if (!r->job_of_many.several ||
        (asked && rp_run_job_take_captures(&r->job_of_many, r->host_after, NULL, &gone) == 0))
        return 0;
    if (r->outcome.status == RP_RUN_COMPLETE) {
        r->outcome.status = gone.code == RP_INTERRUPTED ? RP_RUN_INCOMPLETE : RP_RUN_FAILED;
        const struct rp_join *join = &r->job_of_many.joining.join;
        r->outcome.reason.err = gone;
        rp_run_reason_at(&r->outcome.reason, join->lost ? (int)join->member[join->lost].first_rank : -1,
                         "capturing the hosts after the run");
    }
    return 0;
}

/* Samples that were overwritten while they were used are not those of the digest in the bundle. */
static void check_data_stayed(struct rp_run_session *r)
{
    struct rp_err err = {0};
    char shown[72];
    if (r->outcome.status == RP_RUN_FAILED || rp_data_check_same(&r->recipe, &r->data, &err) == 0)
        return;
    if (err.code != RP_MISMATCH) {
        rp_progress_note(&r->progress, "the data were not compared after the run: %s", err.msg);
        return;
    }
    rp_progress_note(&r->progress, "something wrote to '%s': train on files that stay as they are, such as a copy",
                     rp_excerpt(shown, r->data.path)); /* not in the bundle, which has no names of folders */
    r->outcome.status = RP_RUN_FAILED;
    r->outcome.reason.err = err;
    rp_run_reason_at(&r->outcome.reason, -1, "comparing the data after the run");
}

/* What a container loses at its end, unless a volume is mounted there. The ledger, next to the key, is named when it is
 * written to. */
static void note_container_layers(struct rp_run_session *r)
{
    if (!r->output.piped && rp_ledger_is_on_layer(r->output.path))
        rp_progress_note(
            &r->progress,
            "the bundle '%s' will be on this container's own layer, and is lost with it: mount a volume there (-v "
            "\"$PWD:/work\" -w /work), or give -o to a place on one",
            r->output.path);
    if (r->o->no_ledger && rp_ledger_is_on_layer(r->key_file))
        rp_progress_note(&r->progress,
                         "the key '%s' is on this container's own layer, and is lost with it: mount a volume there",
                         r->key_file);
}

/* The estimate measures a product. */
static void note_time(struct rp_run_session *r)
{
    char time[RP_TIME_TEXT];
    double seconds[2];
    const long long steps = rp_job_steps(&r->recipe);
    if (!r->progress.quiet && rp_run_estimate(seconds, r) == 0)
        rp_progress_note(&r->progress, "training: %lld step%s, %s here", steps, rp_s(steps),
                         rp_run_time_text(time, seconds));
}

static int prepare_run(struct rp_run_session *r, struct rp_err *err)
{
    rp_progress_note(&r->progress, "recipe: %s", r->recipe.source_name);
    if (rp_run_degrees_of(&r->recipe) > rp_degrees_world(r->degrees))
        rp_progress_note(&r->progress,
                         "the arithmetic of %lld x %lld x %lld ranks (data x tensor x pipeline), computed by %d",
                         (long long)r->recipe.parallel_data, (long long)r->recipe.parallel_tensor,
                         (long long)r->recipe.parallel_pipeline, rp_degrees_world(r->degrees));
    rp_run_note_processors(r);
    if (*r->passed.msg && has_nvidia())
        rp_progress_note(&r->progress, "no GPU is used: %s", r->passed.msg + strcspn(r->passed.msg, " ") + 1);
    if (r->recipe.ignored)
        rp_progress_note(&r->progress, "ignored keys of model.config, which do not affect the mathematics: %s",
                         r->recipe.ignored);
    const int64_t most = rp_records_most(rp_degrees_world(r->degrees));
    if (rp_job_steps(&r->recipe) >= most) /* the initial state is a record too */
        rp_progress_note(
            &r->progress,
            "the recipe has %lld steps, and a bundle holds %lld: the run will end there, marked incomplete",
            (long long)rp_job_steps(&r->recipe), (long long)most - 1);
    if (rp_run_output_choose(&r->output, r->o->output, r->o->force, r->recipe.source_name, r->started_ns, err) < 0 ||
        rp_run_check_checkpoints(&r->recipe, r->o->force, &r->progress, &r->checkpoint, err) < 0 ||
        rp_run_make_plan(r, err) < 0 || rp_run_check_room(&r->recipe, &r->plan, err) < 0 || load_key(r, err) < 0)
        return -1;
    note_container_layers(r);
    rp_run_note_batch(r);
    if (unpack_samples(r, err) < 0)
        return -1;
    if (check_data(r, err) < 0)
        return -1;
    note_time(r);
    return capture_before(r, err);
}

static int seal_run(struct rp_run_session *r, struct rp_err *err)
{
    struct rp_bundle b = {0};
    rp_interrupt_settle();
    rp_progress_phase(&r->progress, "sealing", NULL);
    if (capture_after(r, err) < 0)
        return -1;
    rp_run_job_tend(&r->job_of_many);
    check_data_stayed(r);
    RP_BUF file = {0};
    int failed = rp_run_add_documents(r, &b, err) < 0 || rp_bundle_seal(&b, r->key, &file, err) < 0 ||
                 rp_run_output_write(&r->output, r->o->force, &file, &r->progress, err) < 0;
    if (!failed) {
        const struct rp_member *m = rp_bundle_find(&b, "statement.dsse.json");
        rp_member_sha256(r->statement, m);
    }
    rp_bundle_fini(&b);
    rp_progress_end(&r->progress);
    return failed ? rp_wrap(err, "sealing '%s'", r->output.path) : 0;
}

static void end_attempt(struct rp_run_session *r, int exit_status)
{
    enum rp_ledger_event e = r->outcome.status == RP_RUN_INCOMPLETE                  ? RP_LEDGER_INTERRUPTED
                             : r->outcome.status == RP_RUN_COMPLETE && *r->statement ? RP_LEDGER_SEALED
                                                                                     : RP_LEDGER_FAILED;
    rp_attempt_end(&r->attempt, e, *r->statement ? r->output.path : NULL, r->statement, exit_status, &r->progress);
}

/* Different bits are sealed like any other result, and reported. */
static int judge_agreement(const struct rp_run_session *r, struct rp_err *err)
{
    const struct rp_agreement *a = r->run ? r->run->figures.agreement : NULL;
    const struct rp_bit_difference *first = a ? a->bits.first_difference : NULL;
    if (!first)
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "the bits differ from those of the original, first at step %" PRId64 ": %s was %s, is %s here",
                   first->step, first->quantity, first->original, first->replication);
}

static const char result_text[] =
    "[/reason:the run is marked {/status t}: {/reason t}\n]"
    "[/results/throughput/value:{/results/throughput/value d3} {/results/throughput/unit t}"
    "[/results/throughput/interval/0:, 95 % interval {/results/throughput/interval/0 d3} to "
    "{/results/throughput/interval/1 d3}][/tokens_per_s:, {/tokens_per_s d1} tokens/s]\n]"
    "[/place:{/place t}\n]"
    "[/ranks_of_arithmetic:arithmetic of {/ranks_of_arithmetic t} ranks, computed by {/ranks t}: not their speed\n]"
    "[/results/loss_first/hex:loss {/results/loss_first x} at the first step, {/results/loss_last x} at the last\n]"
    "[/precision:in {/precision t}\n]"
    "[/agreement/bits/steps:bits {/agreement/bits/equal e} over {/agreement/bits/steps t} steps and "
    "{/agreement/bits/roots t} state roots\n]"
    "[/agreement/throughput/ratio:throughput here / original {/agreement/throughput/ratio d3}"
    "[/agreement/throughput/interval/0:, 95 % interval {/agreement/throughput/interval/0 d3} to "
    "{/agreement/throughput/interval/1 d3}]\n]";

/* The last line of stdout is the bundle's path, also of a failed run; a bundle
 * that is written to stdout has it alone. */
static void print_result(struct rp_run_session *r)
{
    const struct rp_outcome *o = &r->outcome;
    const json_t *run = r->run ? r->run->figures_json : NULL;
    json_t *j = json_pack("{s:o, s:s, s:I, s:O*, s:O*}", "bundle", rp_cli_path(r->output.path), "status",
                          rp_run_status_name(o->status), "steps", (json_int_t)o->steps_done, "results",
                          json_object_get(run, "results"), "agreement", json_object_get(run, "agreement"));
    char precision[RP_PRECISION_TEXT] = "", print[RP_FINGERPRINT_SIZE];
    if (*r->statement) {
        rp_key_fingerprint(r->key, print);
        json_object_update_new(j, json_pack("{s:s, s:s, s:o}", "statement", r->statement, "fingerprint", print,
                                            "recipe", rp_cli_path(r->recipe.source_name)));
    }
    if (o->status != RP_RUN_COMPLETE && *o->reason.err.msg)
        json_object_set_new(j, "reason", json_string(o->reason.err.msg));
    if (r->run && *rp_figures_precision(precision, &r->run->figures))
        json_object_set_new(j, "precision", json_string(precision));
    const double tokens = r->run ? rp_figures_tokens(&r->run->figures) : 0;
    const int64_t arithmetic = r->run ? rp_facts_parallel(&r->run->facts) : 0,
                  ranks = r->run ? r->run->facts.rank_n : 0;
    if (tokens > 0)
        json_object_set_new(j, "tokens_per_s", json_real(tokens));
    if (arithmetic > ranks)
        json_object_set_new(j, "ranks_of_arithmetic", json_integer(arithmetic));
    if (*r->where)
        json_object_update_new(j,
                               json_pack("{s:s, s:I, s:I, s:s}", "place", r->where, "ranks", (json_int_t)ranks, "nodes",
                                         (json_int_t)rp_facts_nodes(&r->run->facts), "devices", r->devices));
    if (r->output.piped) {
        RP_BUF text = {0};
        rp_show(&text, RP_FILL_TEXT, j, result_text);
        json_decref(j);
        rp_progress_end(&r->progress);
        if (!r->cli->quiet)
            fputs(rp_buf_text(&text), stderr);
        return;
    }
    rp_cli_return(r->cli, j, result_text);
    rp_cli_print_path(r->cli, r->output.path);
}

/* What is refused here is a mistake and no attempt: no line in the ledger, nothing to seal. */
static int prepare_to_train(struct rp_run_session *r, struct rp_err *err)
{
    rp_interrupt_catch();
    int failed = prepare_run(r, err) < 0;
    if (!failed && !rp_interrupted())
        return 0;
    if (!failed)
        (void)rp_fail(err, RP_INTERRUPTED, "interrupted");
    return err->code == RP_INTERRUPTED ? rp_wrap(err, "before training began, so there is nothing to seal") : -1;
}

/* Does not fail: a failed run is sealed as such. */
static void train_model(struct rp_run_session *r)
{
    r->job = (struct rp_job){.recipe = &r->recipe, .backend = r->backend, .data = r->data.path, .batch = r->plan.batch};
    if (r->from->first) {
        char print[RP_FINGERPRINT_SIZE];
        rp_key_fingerprint(r->key, print);
        rp_agreement_key(r->root_key, print, r->from->first->v->statement);
        r->job.root_key = r->root_key;
    }
    const struct rp_attempt_key key = {r->key, r->key_file, r->key_created};
    rp_attempt_start(&r->attempt, r->o->no_ledger, &key, r->recipe.sha256, r->recipe.source_name,
                     r->from->first ? r->from->first->v->statement : NULL, &r->progress);
    rp_run_job_untend(&r->job_of_many);
    struct rp_joining *joining = &r->job_of_many.joining;
    const struct rp_job_world world = {&joining->join, joining->key.bytes, joining->where.job};
    rp_supervise(&r->outcome, &r->job, r->degrees, r->job_of_many.several ? &world : NULL, &r->progress);
    r->ended_ns = r->started_ns + (rp_now_ns() - r->begun_ns);
}

/* The exit status, after the bundle was sealed. */
static int judge_run(struct rp_run_session *r, struct rp_err *err)
{
    if (r->outcome.status != RP_RUN_COMPLETE) {
        *err = r->outcome.reason.err;
        return -1;
    }
    if (rp_run_output_judge(&r->output, err) < 0)
        return -1;
    return judge_agreement(r, err);
}

/* On stderr: the last line of stdout is the bundle's path. */
static void print_next_commands(struct rp_run_session *r)
{
    const char *path = r->output.path;
    const size_t n = strlen(path) - (rp_ends_with(path, RP_BUNDLE_ENDING) ? strlen(RP_BUNDLE_ENDING) : 0);
    RP_FREE char *page = rp_asprintf("%.*s.html", (int)n, path), *from = rp_shell_word(path), *to = rp_shell_word(page);
    if (r->cli->json || r->output.piped)
        return;
    fflush(stdout);
    const struct rp_original *first = r->from->first;
    RP_FREE char *original = first ? rp_shell_word(first->path) : NULL;
    rp_progress_note(&r->progress, "next: repro verify %s%s%s", from, first ? " --original " : "",
                     first ? original : "");
    rp_progress_note(&r->progress, "      repro report %s -o %s", from, to);
}

static int train_and_seal(struct rp_run_session *r, struct rp_err *err)
{
    if (prepare_to_train(r, err) < 0)
        return -1;
    train_model(r);
    if (seal_run(r, err) < 0)
        return -1;
    print_result(r);
    if (rp_run_output_verify(&r->output, err) < 0)
        return -1;
    print_next_commands(r);
    return judge_run(r, err);
}

/* Nothing is signed, kept or added to a ledger. */
static int profile_run(struct rp_run_session *r, struct rp_err *err)
{
    if (rp_run_choose_layout(r, err) < 0 || rp_run_check_profile(r, err) < 0)
        return -1;
    rp_interrupt_catch();
    rp_run_note_processors(r);
    if (rp_run_make_plan(r, err) < 0 || rp_run_check_room(&r->recipe, &r->plan, err) < 0 ||
        unpack_samples(r, err) < 0 || check_data(r, err) < 0)
        return -1;
    return rp_run_show_profile(r, err);
}

/* Alone, nothing happens. */
static int join_job(struct rp_run_session *r, struct rp_err *err)
{
    struct rp_run_job *j = &r->job_of_many;
    r->joining = r->o->joining;
    if (r->o->hosts) {
        if (rp_run_hosts_start(&r->elsewhere, r->o, &r->recipe, &r->progress, err) < 0)
            return -1;
        r->joining.place = &r->elsewhere.place;
    }
    if (rp_run_job_detect(j, &r->joining, (int)r->o->ranks, err) < 0)
        return -1;
    if (!j->several)
        return 0;
    if (unpack_samples(r, err) < 0)
        return -1;
    const struct rp_run_job_opts what = {.recipe = &r->recipe, .samples = r->data.digest, .backend = r->backend->name,
                                         .other_programs = r->o->other_programs};
    if (rp_run_job_join(j, &r->joining, &what, &r->progress, err) < 0)
        return -1;
    r->hosts = rp_run_job_hosts(j);
    r->host_before = rp_alloc((size_t)r->hosts * sizeof *r->host_before);
    r->host_after = rp_alloc((size_t)r->hosts * sizeof *r->host_after);
    r->host_xml = rp_alloc((size_t)r->hosts * sizeof *r->host_xml);
    if (j->joining.join.own == 0)
        rp_run_job_tend(j);
    return 0;
}

/* What a process does that does not lead. */
static int follow_job(struct rp_run_session *r, struct rp_err *err)
{
    const struct rp_joining_place *p = r->joining.place;
    const struct rp_follow_opts o = {.recipe = &r->recipe, .backend = r->backend, .data = r->data.path,
                                     .layout = r->o->layout, .identify = r->o->identify, .progress = &r->progress,
                                     .check = p ? p->check : NULL, .check_arg = p ? p->arg : NULL};
    return rp_run_job_follow(&r->job_of_many, &o, err);
}

int rp_run(struct rp_cli *cli, const struct rp_run_opts *o, const struct rp_run_from *from, struct rp_err *err)
{
    __attribute__((cleanup(run_fini))) struct rp_run_session r = {
        .cli = cli, .own = *o, .from = from, .started_ns = rp_wall_ns(), .begun_ns = rp_now_ns(),
        .boot_ns = rp_boottime_ns()};
    r.o = &r.own;
    if (cli->json && o->output && strcmp(o->output, "-") == 0)
        return rp_fail(err, RP_USAGE, "--output - and --json both write to standard output: leave one of them out");
    rp_progress_init(&r.progress, STDERR_FILENO, cli->quiet);
    r.progress.json = cli->events = o->progress && strcmp(o->progress, "json") == 0;
    if (o->challenge && rp_challenge_load(&r.challenge, &r.challenge_bytes, o->challenge, err) < 0)
        return rp_wrap(err, "--challenge");
    if (rp_run_load_recipe(&r, err) < 0)
        return -1;
    if (o->profile)
        return profile_run(&r, err);
    if (o->plan)
        return rp_run_choose_layout(&r, err) < 0 ? -1 : rp_run_show_plan(&r, err);
    if (join_job(&r, err) < 0)
        return -1;
    if (r.job_of_many.several && r.job_of_many.joining.join.own > 0)
        return follow_job(&r, err);
    int failed = rp_run_choose_layout(&r, err) < 0 || train_and_seal(&r, err) < 0;
    end_attempt(&r, failed ? rp_exit_status(err->code) : 0);
    rp_run_hosts_expect_end(&r.elsewhere, failed);
    rp_run_job_end(&r.job_of_many, failed ? err : NULL);
    return failed ? -1 : 0;
}
