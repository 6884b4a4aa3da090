/* `repro exec`: another program's command, with captures, its raw output and its own log, in a signed bundle. */
#include "cli/exec.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/capture.h"
#include "capture/privacy/secrets.h"
#include "capture/value.h"
#include "import/import.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WORDS_MOST = 4096,       /* of argv, as facts.def has it */
    WORD_MOST = 4000,        /* bytes of one */
    WORDS_BYTES = 256 << 10, /* of all */
    NAME_BYTES = 200
};

#define AT(field) offsetof(struct exec_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_TEXT(log, "log", 0, "FORMAT[:FILE]",
                   "importer of its log: of FILE, of :stderr, else of standard output; 'repro help import'"),
    RP_OPTION_LIST(input, "input", "FILE", "record the digest of this file before the command"),
    RP_OPTION_LIST(output, "output", "FILE", "record the digest of this file after the command"),
    RP_OPTION_LIST(set, "set", "KEY=VALUE", "a value that the log lacks; marked as such"),
    RP_OPTION_CHOICE(unit, "unit", 0, "sequences/s|images/s|tokens/s|samples/s",
                     "unit of throughput, if the log lacks it"),
    RP_OPTION_TEXT(from, "from", 0, "STEP", "first step of the timed window; default by the format"),
    RP_OPTION_TEXT(to, "to", 0, "STEP", "last step of the timed window"),
    RP_OPTION_TEXT(bundle, "bundle", 'o', "FILE", "bundle to write; default by the command's name and the time"),
    RP_OPT_FORCE(force),
    RP_OPT_KEY(key),
    RP_OPT_PASSPHRASE_FD(passphrase_fd),
    RP_OPT_IDENTIFY(identify),
    RP_OPT_NO_LEDGER(no_ledger),
    RP_JOINING_ROWS(joining),
    RP_OPTION_FLAG(other_programs, "allow-different-programs", 0,
                   "accept processes of other builds of the same commit; all must have it"),
    {0},
};

static void exec_fini(struct exec *x)
{
    rp_progress_end(&x->progress);
    json_decref(x->doc.facts_json);
    json_decref(x->doc.figures_json);
    rp_object_fini(x->doc.command, &rp_type_command_facts);
    rp_object_fini(x->doc.observed, &rp_type_command_figures);
    free(x->doc.command);
    free(x->doc.observed);
    rp_run_output_fini(&x->output);
    rp_attempt_fini(&x->attempt);
    rp_key_free(x->key);
    free(x->key_file);
    free(x->file);
    for (int i = 0; i < x->nodes; i++) {
        json_decref(x->node[i].before);
        json_decref(x->node[i].after);
        rp_buf_fini(&x->hwloc_xml[i]);
    }
    free(x->node);
    free(x->hwloc_xml);
    for (int i = 0; i < x->parts; i++) {
        rp_exec_part_fini(&x->part[i]);
        if (x->about)
            rp_object_fini(&x->about[i], &rp_type_exec_about);
    }
    free(x->part);
    free(x->about);
    rp_gpu_watch_fini(&x->gpus);
    rp_command_end_fini(&x->end);
    rp_run_job_fini(&x->job);
}

/* ---- what the user named ---- */

/* A name for documents: at most NAME_BYTES, without folders of persons. */
static char *public_name(const struct exec *x, const char *path)
{
    RP_FREE char *public = rp_public_argument(NULL, path, x->o->identify);
    const size_t n = strlen(public);
    char *name = rp_strdup(n > NAME_BYTES ? public + n - NAME_BYTES : public);
    rp_sanitize(name);
    return name;
}

/* What an earlier command left in the file would count as this one's. */
static int check_no_log(const char *path, struct rp_err *err)
{
    struct stat st;
    if (!*path)
        return rp_fail(err, RP_USAGE, "--log: the name of the file is empty");
    if (stat(path, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0))
        return 0;
    return rp_fail(err, RP_USAGE, "--log: '%s' exists: move it away, so that what is read is what this command writes",
                   path);
}

/* Mistakes in --set are found before the command runs. */
static int check_settings(const struct exec *x, struct rp_err *err)
{
    struct rp_imported draft = {0};
    int failed = 0;
    if (x->o->set.n > 64)
        return rp_fail(err, RP_USAGE, "--set is given %d times; 64 at most", x->o->set.n);
    for (int i = 0; i < x->o->set.n && !failed; i++)
        failed = strlen(x->o->set.item[i]) > 400 ? rp_fail(err, RP_USAGE, "--set: a value has more than 400 bytes")
                                                 : rp_imported_set(&draft, x->o->set.item[i], err);
    rp_imported_fini(&draft);
    return failed ? -1 : 0;
}

/* FORMAT[:FILE]; FILE stderr is the stream, ./stderr a file. */
static int name_log(struct exec *x, struct rp_err *err)
{
    const struct exec_opts *o = x->o;
    if (!o->log)
        return o->set.n || o->unit || o->from || o->to
                   ? rp_fail(err, RP_USAGE, "--set, --unit, --from and --to are about a log: name it with --log")
                   : 0;
    const char *colon = strchr(o->log, ':'), *file = colon ? colon + 1 : NULL;
    RP_FREE char *format = rp_asprintf("%.*s", (int)(colon ? colon - o->log : (long)strlen(o->log)), o->log);
    if (!rp_importer_find(format, err))
        return rp_wrap(err, "--log");
    struct rp_log_facts *log = x->facts->log = rp_alloc(sizeof *log);
    rp_object_init(log, &rp_type_log_facts);
    log->format = rp_strdup(format);
    const int is_error = file && strcmp(file, "stderr") == 0,
              is_file = file && !is_error && strcmp(file, "stdout") != 0;
    log->from = rp_strdup(is_file ? "file" : is_error ? "stderr" : "stdout");
    log->name = is_file ? public_name(x, file) : rp_strdup(x->facts->name);
    log->unit = rp_text_copy(o->unit);
    for (int i = 0; i < o->set.n; i++) {
        char *one = rp_strdup(o->set.item[i]);
        rp_sanitize(one);
        rp_texts_add(&log->set, &log->set_n, one);
    }
    if (rp_import_step(&log->first_step, "from", o->from, err) < 0 ||
        rp_import_step(&log->last_step, "to", o->to, err) < 0)
        return -1;
    if (o->from && o->to && log->first_step >= log->last_step)
        return rp_fail(err, RP_USAGE, "the timed window is empty: --from %s, --to %s", o->from, o->to);
    x->log_file = is_file ? file : NULL;
    return check_settings(x, err) < 0 || (is_file && check_no_log(file, err) < 0) ? -1 : 0;
}

static int name_files(struct exec *x, struct rp_err *err)
{
    const struct rp_opt_list *const lists[] = {&x->o->input, &x->o->output};
    struct exec_part *own = x->own;
    if (x->o->input.n + x->o->output.n > EXEC_FILES_MOST)
        return rp_fail(err, RP_USAGE,
                       "--input and --output name more than %d files: name an archive, or a list of digests",
                       EXEC_FILES_MOST);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->n; i++) {
            struct stat st;
            const char *path = lists[k]->item[i];
            struct rp_named_file *f = rp_object_add(&own->rest.file, &own->rest.file_n, &rp_type_named_file);
            f->process = 0;
            f->role = rp_strdup(k ? "output" : "input");
            f->name = public_name(x, path);
            f->existed = stat(path, &st) == 0;
            if (k && f->existed && !S_ISREG(st.st_mode))
                return rp_fail(err, RP_USAGE,
                               "--output: '%s' is not a regular file; name the files in it, or an archive", path);
            if (!k && f->existed && S_ISDIR(st.st_mode))
                return rp_fail(err, RP_USAGE, "--input: '%s' is a folder; name the files in it, or an archive", path);
            if (!k && rp_exec_digest_file(f, path, err) < 0)
                return rp_wrap(err, "--input");
        }
    return 0;
}

/* argv without credentials and names of persons, and bounded. */
static void name_words(struct exec *x)
{
    struct rp_command_process *is = &x->own->end.process;
    size_t bytes = 0;
    for (int i = 0; i < x->cli->argc; i++) {
        RP_FREE char *word = rp_public_argument(i ? x->cli->argv[i - 1] : NULL, x->cli->argv[i], x->o->identify);
        const size_t n = strlen(word);
        if (i == WORDS_MOST - 1 || bytes + n > WORDS_BYTES) {
            rp_texts_add(&is->argv, &is->argv_n, rp_asprintf("... %d more", x->cli->argc - i));
            break;
        }
        bytes += n;
        char *kept = n > WORD_MOST ? rp_asprintf("%.*s...", WORD_MOST, word) : rp_strdup(word);
        rp_sanitize(kept);
        rp_texts_add(&is->argv, &is->argv_n, kept);
    }
    for (int64_t i = 0; rp_exec_leads(x) && i < is->argv_n; i++)
        rp_texts_add(&x->facts->argv, &x->facts->argv_n, rp_strdup(is->argv[i]));
}

/* ---- before ---- */

static int load_key(struct exec *x, struct rp_err *err)
{
    char print[RP_FINGERPRINT_SIZE];
    x->key =
        rp_key_load_or_create(x->o->key, x->o->passphrase_fd > 0 ? (int)x->o->passphrase_fd : -1, &x->key_created, err);
    x->key_file = !x->key ? NULL : x->o->key ? rp_strdup(x->o->key) : rp_key_default_path(err);
    if (!x->key_file)
        return -1;
    rp_key_fingerprint(x->key, print);
    if (x->key_created)
        rp_cli_note_new_key(x->cli, print);
    rp_progress_note(&x->progress, x->key_created ? "made a new signing key, %s" : "signing key %s", print);
    return 0;
}

/* A process that joins others knows the GPUs by then. */
static void find_gpus(struct exec *x)
{
    if (x->job.several)
        return;
    if (json_object_size(rp_group(x->node[0].before, "probes.gpu.devices")))
        rp_gpu_watch_open(&x->gpus);
    rp_exec_share_gpus(x);
}

static uint64_t wall_of_command(const struct exec *x)
{
    return rp_wall_since_ns(x->started_ns, x->boot_ns, x->ended_ns);
}

static int capture_before(struct exec *x, struct rp_err *err)
{
    const struct rp_capture_opts c = {
        .root = "/", .identify = x->o->identify, .hwloc_xml = &x->hwloc_xml[0], .wall_ns = wall_of_command(x)};
    rp_progress_phase(&x->progress, "capturing", NULL);
    rp_run_job_tend(&x->job);
    x->node[0].before = rp_capture(&c, err);
    rp_run_job_untend(&x->job);
    if (!x->node[0].before || rp_exec_ask_hosts(x, 0, err) < 0)
        return -1;
    find_gpus(x);
    return rp_interrupted()
               ? rp_fail(err, RP_INTERRUPTED, "interrupted before the command began, so there is nothing to seal")
               : 0;
}

/* What is refused here is a mistake and no attempt: no line in the ledger, nothing to seal. A process that does not
 * lead needs no key and writes no bundle. */
static int prepare(struct exec *x, struct rp_err *err)
{
    struct rp_err ignored;
    x->file = rp_command_find(x->cli->argv[0], &x->cli->status, err);
    if (!x->file)
        return -1;
    x->cli->status = 0;
    x->facts->name = public_name(x, rp_base_name(x->cli->argv[0]));
    x->output.option = "--bundle";
    if (name_log(x, err) < 0 || rp_exec_join(x, err) < 0 || name_files(x, err) < 0)
        return -1;
    if (rp_sha256_file(x->own->end.process.program_sha256, x->file, NULL, &ignored) < 0)
        *x->own->end.process.program_sha256 = 0;
    name_words(x);
    if (!rp_exec_leads(x))
        return 0;
    if (rp_run_output_choose(&x->output, x->o->bundle, x->o->force, x->facts->name, x->started_ns, err) < 0 ||
        load_key(x, err) < 0)
        return -1;
    if (!x->o->log) /* hours later it would be too late */
        rp_progress_note(&x->progress, "without --log FORMAT the bundle has no figure of speed ('repro help import' "
                                       "lists the formats)");
    return capture_before(x, err);
}

/* ---- the command ---- */

/* A command that ignores SIGINT would go on for ever: the second Ctrl-C ends it, as it ends `run`. */
static void insist_on_end(struct exec *x)
{
    const int times = rp_command_interrupts();
    if (times >= 2 && !x->term_ns) {
        x->term_ns = rp_now_ns();
        rp_progress_note(&x->progress, "a second Ctrl-C: the command gets TERM, and KILL in %d s or after a third",
                         RP_EXEC_STOP_MS / 1000);
        rp_command_signal(SIGTERM);
    } else if (x->term_ns && !x->killed &&
               (times >= 3 || rp_now_ns() - x->term_ns > RP_EXEC_STOP_MS * 1000000ull)) {
        x->killed = 1;
        rp_progress_note(&x->progress, "the command gets KILL");
        rp_command_signal(SIGKILL);
    }
}

static void handle_tick(void *arg)
{
    struct exec *x = arg;
    insist_on_end(x);
    rp_gpu_watch_take(&x->gpus, x->end.start_ns);
}

/* Hydra's descriptor, which this program closes on exec, is the command's where that is an MPI program. */
static int inherited_pmi(const struct exec *x)
{
    const int fd = x->job.several ? x->job.joining.where.pmi.fd : -1;
    return fd > 2 && !(getenv("PMI_PORT") && getenv("PMI_ID")) ? fd : 0;
}

static int run_command(struct exec *x, struct rp_err *err)
{
    RP_FREE char **argv = rp_alloc(((size_t)x->cli->argc + 1) * sizeof *argv);
    for (int i = 0; i < x->cli->argc; i++)
        argv[i] = (char *)x->cli->argv[i];
    const struct rp_command_opts o = {
        .file = x->file,
        .argv = argv,
        .out = x->cli->json ? STDERR_FILENO : STDOUT_FILENO,
        .out_most = rp_command_output_most(x->parts, *rp_exec_log_from(x, EXEC_STDOUT)),
        .errors_most = rp_command_output_most(x->parts, *rp_exec_log_from(x, EXEC_STDERR)),
        .inherited = inherited_pmi(x),
        .tick = handle_tick,
        .arg = x};
    rp_progress_end(&x->progress);
    fflush(stdout);
    rp_exec_listen(x);
    const int failed = rp_command_run(&x->end, &o, &x->cli->status, err) < 0;
    rp_gpu_watch_end(&x->gpus, x->end.start_ns, x->end.end_ns);
    rp_exec_listen_end(x);
    if (failed)
        return -1;
    rp_interrupt_settle(); /* a signal that ended the command does not keep the bundle from being written; the next one
                              does */
    rp_exec_own_part(x);
    return 0;
}

/* ---- after ---- */

static int capture_after(struct exec *x, struct rp_err *err)
{
    RP_READ(capture_document, before, x->node[0].before);
    /* the same salt: hidden values are compared */
    const struct rp_capture_opts c = {
        .root = "/", .identify = x->o->identify, .salt = before.salt, .wall_ns = wall_of_command(x)};
    const int is_whole = x->lost.code == RP_OK;
    rp_progress_phase(&x->progress, "sealing", NULL);
    if (is_whole)
        rp_run_job_tend(&x->job);
    x->node[0].after = rp_capture(&c, err);
    rp_run_job_untend(&x->job);
    if (x->node[0].after && is_whole)
        (void)!rp_exec_ask_hosts(x, 1, &x->lost); /* a host that is gone by now ends no command without a bundle */
    return x->node[0].after ? 0 : -1;
}

/* On stderr: standard output is the command's. */
static void print_notes(struct exec *x)
{
    const struct rp_command_facts *f = x->facts;
    const char *unit;
    const double rate = rp_run_throughput(&x->doc, &unit);
    const double minutes = rp_run_minutes(&x->doc);
    const size_t results = x->doc.observed->log ? json_array_size(x->doc.observed->log->result) : 0;
    rp_progress_end(&x->progress);
    if (x->lost.code != RP_OK)
        rp_progress_note(&x->progress, "%s", x->lost.msg);
    if (f->reason)
        rp_progress_note(&x->progress, "%s: sealed as %s", f->reason, f->status);
    const struct rp_kept_facts *kept = rp_command_log_kept(f);
    if (kept && kept->dropped)
        rp_progress_note(&x->progress,
                         "the log has %" PRId64 " bytes, of which the bundle lacks %" PRId64
                         " in the middle: figures come from the rest",
                         kept->bytes, kept->dropped);
    if (f->log && x->doc.observed->log && !x->doc.observed->log->read)
        rp_progress_note(&x->progress,
                         "the importer '%s' finds no figure in the log: %s; the log %s%s ('repro help import' has the "
                         "formats)",
                         f->log->format, x->unread.msg, *x->log_begins ? "begins with: " : "is empty", x->log_begins);
    else if (!isnan(rate))
        rp_progress_note(&x->progress, "%.3f %s, " RP_MEASURED_BY_LOG, rate, unit);
    else if (!isnan(minutes))
        rp_progress_note(&x->progress, "%.3f minutes to train, " RP_MEASURED_BY_LOG, minutes);
    else if (x->doc.observed->log)
        rp_progress_note(&x->progress, "%zu result%s, " RP_MEASURED_BY_LOG,
                         results, rp_s((int64_t)results));
    if (rp_command_too_short(x->doc.observed))
        rp_progress_note(&x->progress,
                         "the log times %.1f s, but the command took %.1f s: it is the log of something else, has the "
                         "steps of an earlier command too, or was misread, and 'repro verify' fails (--from names the "
                         "first step)",
                         rp_command_log_s(x->doc.observed), x->doc.observed->wall_s);
    if (rp_command_rates_s(x->doc.observed) > 0)
        rp_progress_note(&x->progress,
                         "by the rates and the samples per step of the log its steps took %.1f s, but the command took "
                         "%.1f s: it is the log of something else, or was misread, and 'repro verify' warns of it",
                         rp_command_rates_s(x->doc.observed), x->doc.observed->wall_s);
    rp_progress_note(&x->progress, "bundle: %s", x->output.path);
}

static void return_document(struct exec *x)
{
    char print[RP_FINGERPRINT_SIZE];
    const struct rp_command_facts *f = x->facts;
    const char *unit;
    const double rate = rp_run_throughput(&x->doc, &unit);
    rp_key_fingerprint(x->key, print);
    json_t *j =
        json_pack("{s:o, s:s, s:s, s:s, s:s, s:i}", "bundle", rp_cli_path(x->output.path), "statement", x->statement,
                  "fingerprint", print, "status", f->status, "command", f->name, "exit", x->cli->status);
    if (!isnan(rate))
        json_object_set_new(j, "throughput",
                            json_pack("{s:f, s:s, s:s}", "value", rate, "unit", unit, "measured_by", "log"));
    json_object_set_new(
        j, "results",
        json_integer(x->doc.observed->log ? (json_int_t)json_array_size(x->doc.observed->log->result) : 0));
    rp_cli_return(x->cli, j, "");
}

static void end_attempt(struct exec *x, int exit_status)
{
    const char *status = x->facts->status;
    const int sealed = *x->statement != 0;
    const enum rp_ledger_event e = status && strcmp(status, "incomplete") == 0           ? RP_LEDGER_INTERRUPTED
                                   : sealed && status && strcmp(status, "complete") == 0 ? RP_LEDGER_SEALED
                                                                                         : RP_LEDGER_FAILED;
    rp_attempt_end(&x->attempt, e, sealed ? x->output.path : NULL, x->statement, exit_status, &x->progress);
}

/* From the line in the ledger on, everything is recorded. */
static int run_and_seal(struct exec *x, struct rp_err *err)
{
    if (rp_exec_begin(x, err) < 0 || run_command(x, err) < 0)
        return -1;
    rp_exec_collect(x);
    x->ended_ns = x->started_ns + (rp_now_ns() - x->begun_ns);
    if (capture_after(x, err) < 0)
        return -1;
    rp_run_job_tend(&x->job);
    const int failed = rp_exec_seal(x, err) < 0;
    rp_run_job_untend(&x->job);
    if (failed)
        return -1;
    print_notes(x);
    return_document(x);
    if (!rp_command_too_short(x->doc.observed) && rp_run_output_verify(&x->output, err) < 0)
        return -1;
    return rp_run_output_judge(&x->output, err);
}

/* Ctrl-C before and after the command. What was ignored stays ignored (nohup, and SIGINT of background jobs), for the
 * command too. */
static void catch_signals(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before[sizeof caught / sizeof *caught];
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], NULL, &before[i]);
    rp_interrupt_catch();
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        if (before[i].sa_handler == SIG_IGN)
            signal(caught[i], SIG_IGN);
}

static int cmd_exec(struct rp_cli *cli, struct rp_err *err)
{
    __attribute__((cleanup(exec_fini))) struct exec x = {.cli = cli,
                                                         .o = cli->opts,
                                                         .started_ns = rp_wall_ns(),
                                                         .begun_ns = rp_now_ns(),
                                                         .boot_ns = rp_boottime_ns(),
                                                         .end = {.exit_status = -1, .signal = -1}};
    char digest[RP_SHA256_HEX];
    x.facts = x.doc.command = rp_alloc(sizeof *x.doc.command);
    x.doc.observed = rp_alloc(sizeof *x.doc.observed);
    rp_object_init(x.doc.command, &rp_type_command_facts);
    rp_object_init(x.doc.observed, &rp_type_command_figures);
    rp_progress_init(&x.progress, STDERR_FILENO, cli->quiet);
    if (x.o->bundle && strcmp(x.o->bundle, "-") == 0)
        return rp_fail(err, RP_USAGE, "--bundle -: standard output is the command's; name a file");
    catch_signals();
    int failed = prepare(&x, err) < 0;
    if (!failed && !rp_exec_leads(&x))
        return rp_exec_follow(&x, run_command, err);
    if (!failed) {
        const struct rp_attempt_key key = {x.key, x.key_file, x.key_created};
        const struct rp_command_facts now = {.argv = x.facts->argv,
                                             .argv_n = x.facts->argv_n,
                                             .file = x.own->rest.file,
                                             .file_n = x.own->rest.file_n};
        rp_command_sha256(digest, &now);
        rp_attempt_start(&x.attempt, x.o->no_ledger, &key, digest, x.facts->name, NULL, &x.progress);
        failed = run_and_seal(&x, err) < 0;
        end_attempt(&x, cli->status ? cli->status : failed ? rp_exit_status(err->code) : 0);
    }
    rp_exec_end_job(&x, failed ? err : NULL);
    return failed ? -1 : 0;
}

const struct rp_command rp_cmd_exec = {
    .name = "exec",
    .operands = "-- COMMAND [ARG...]",
    .summary = "run another program's training, and seal its log, output and machine",
    .details =
        "The command runs as without repro: in this directory, with this environment and standard input. Its output "
        "appears at once, and its exit status is that of repro. Standard output and error are pipes: Python needs -u, "
        "or PYTHONUNBUFFERED=1, to write to them without delay.\n"
        "\n"
        "The bundle has captures of the machine before and after (the git state of this directory and the container "
        "are in them), the command line, standard output and error, the file of --log, digests of the program and of "
        "the files of --input and --output, times, peak memory and the ledger entry. 'verify', 'report' and 'compare' "
        "take it.\n"
        "\n"
        "Figures come from the log alone: the importer reads the bytes in the bundle, and 'verify' reads them again. "
        "They are the command's own measurement, and every report says so. Such a bundle can reach the levels "
        "authentic and consistent ('repro help verify'), never computed or timed. Without --log it has no figure of "
        "speed.\n"
        "\n"
        "--log: FORMAT reads standard output, FORMAT:stderr standard error, FORMAT:FILE a file that the command "
        "writes, which must not exist before. Formats:\n"
#define FORMAT(id, reads) "  " #id ": " reads "\n"
#include "import/formats.def"
#undef FORMAT
        "\n"
        "What is kept: of each stream and of the log at most 6 MiB, half from the beginning and half from the end. "
        "Words that look like credentials, the values of secret variables and, without --identify, names of persons "
        "and machines are replaced by (withheld), in the command line too. Numbers stay. Look through a bundle before "
        "you publish it: 'repro inspect BUNDLE " RP_LOG_STDOUT "'.\n"
        "\n"
        "GPUs that the command can use, by CUDA_VISIBLE_DEVICES, are sampled every 100 ms while it runs: clocks, "
        "power, temperature, throttling and utilization, with the figures that runs have. A long command keeps every "
        "second, fourth, ... sample: at most 8192 of a GPU, 32768 of all.\n"
        "\n"
        "Several processes: start the launcher with repro ('repro exec -- torchrun train.py'), which makes one bundle "
        "of this host; or repro with the launcher ('srun repro exec -- python train.py'), which makes one bundle of "
        "all hosts, sealed by process 0. The latter needs the key of the job in every process, and takes the options "
        "of the launcher below, both as 'repro run' does ('repro help launch'). The bundle has captures of every host, "
        "and the exit status, output and files of every process; all but the log share 4 MiB. The log is that of the "
        "first process in whose log the importer finds a figure: give all the same --log, or only the one that writes "
        "it. When a process fails or disappears, the others get TERM, and KILL after 5 s; the bundle is sealed as "
        "failed, and all end with the status of the process that failed first, or 7 if one disappeared. If an MPI "
        "program ends without MPI_Finalize, mpirun may end repro before it has sealed.\n"
        "\n"
        "Signals: INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the command. If it goes on, a second Ctrl-C "
        "sends TERM, and KILL 5 s later or with a third. Whatever ends it, the bundle is sealed, marked failed or "
        "incomplete if the status is not 0. Exit statuses 126 and 127: the command cannot be executed, or does not "
        "exist; then there is no bundle.\n"
        "\n"
        "With --json standard output is the result, and the command's goes to standard error.\n"
        "\n"
        "Examples:\n"
        "  repro exec --log dllogger:dllogger.json --input train.py -- python -u train.py --batch 32\n"
        "  repro exec --log csv:steps.csv --set global_batch=256 --output model.pt -- ./train.sh\n"
        "  export REPRO_JOB_KEY=$(repro launch key)\n"
        "  srun repro exec --log csv --set global_batch=256 -- python -u train.py\n",
    .opts = opts,
    .opts_size = sizeof(struct exec_opts),
    .more = "launcher",
    .more_are = "those of jobs",
    .run = cmd_exec,
};
