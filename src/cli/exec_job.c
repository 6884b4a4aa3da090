/* Several processes of one launcher that run a command as one job: they begin together, one that fails ends all, and
 * process 0 gets what each of them has.
 *
 * Messages after the captures of the hosts, all of them COMMAND frames; "what" names them, exec_message.def has the
 * rest. From process 0, or from a member to it:
 *
 *   process 0   begin      all start their command
 *   member      ended      its end, streams and samples
 *   process 0   stop       another process failed: the command gets SIGTERM, later SIGKILL
 *   process 0   finish     all have ended: digests of files; one process sends the whole log
 *   member      finished
 *   process 0   over       the bundle is sealed
 */
#include "cli/exec.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/capture.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RP_OBJECT_LIST "cli/exec_message.def"
#include "base/object_tables.inc.h"

enum {
    STEP_MS = 100,
    FINISH_S = 600,       /* for digests of files of other hosts */
    FAREWELL_MS = 5000,
    CAPTURES_BYTES = 12 << 20, /* of the documents of a bundle; output, samples and figures have the rest */
};

/* ---- joining ---- */

int rp_exec_leads(const struct exec *x)
{
    return !x->job.several || x->job.joining.join.own == 0;
}

static struct rp_join *join_of(struct exec *x)
{
    return &x->job.joining.join;
}

static json_t *about_of(const struct exec *x)
{
    struct rp_exec_about about = {.log = x->facts->log};
    for (int i = 0; i < x->gpus.n; i++)
        rp_texts_add(&about.gpus, &about.gpus_n, (char *)x->gpus.gpu[i].address);
    json_t *j = rp_object_json(&about, &rp_type_exec_about);
    free(about.gpus);
    return j;
}

static int take_about(struct exec *x, struct rp_err *err)
{
    const struct rp_join *j = join_of(x);
    x->about = rp_alloc((size_t)x->parts * sizeof *x->about);
    for (int i = 0; i < x->parts; i++)
        if (rp_object_take(&x->about[i], &rp_type_exec_about, j->member[i].about, "JOIN", err) < 0)
            return -1;
    return 0;
}

/* Processes that name a log name the same one: all of them notice where they do not. */
static int agree_on_log(struct exec *x, struct rp_err *err)
{
    RP_JSON *first = NULL;
    int by = 0;
    for (int i = 0; i < x->parts; i++) {
        const struct rp_log_facts *was = x->about[by].log, *log = x->about[i].log;
        RP_JSON *j = log ? rp_object_json(log, &rp_type_log_facts) : NULL;
        if (first && j && !json_equal(first, j))
            return rp_fail(err, RP_USAGE,
                           "process %d names the log '%.30s' of '%.60s', and process %d '%.30s' of '%.60s' with its "
                           "settings: name one log, or only on the process that writes it",
                           by, was->format, was->name, i, log->format, log->name);
        if (first || !j)
            continue;
        by = i;
        first = json_incref(j);
    }
    if (!first || x->facts->log || !rp_exec_leads(x))
        return 0;
    x->facts->log = rp_alloc(sizeof *x->facts->log);
    rp_object_read(x->facts->log, &rp_type_log_facts, first);
    return 0;
}

static int check_size(struct exec *x, struct rp_err *err)
{
    if (x->parts > RP_BUNDLE_RANKS_MAX || x->nodes > RP_BUNDLE_NODES_MAX)
        return rp_fail(err, RP_UNAVAILABLE,
                       "%d processes on %d hosts: a bundle holds %d processes on %d hosts; start repro once on each "
                       "host, around the launcher of that host",
                       x->parts, x->nodes, RP_BUNDLE_RANKS_MAX, RP_BUNDLE_NODES_MAX);
    return 0;
}

/* A GPU is sampled by the first process of its host that sees it. */
static int is_ours(struct exec *x, int member, const char *address)
{
    const struct rp_join *j = join_of(x);
    for (int i = 0; i < member; i++)
        for (int64_t k = 0; k < x->about[i].gpus_n && j->member[i].host == j->member[member].host; k++)
            if (strcmp(x->about[i].gpus[k], address) == 0)
                return 0;
    return 1;
}

void rp_exec_share_gpus(struct exec *x)
{
    char keep[RP_WATCHED_MAX];
    memset(keep, 1, sizeof keep);
    x->devices = x->gpus.n;
    if (x->job.several) {
        x->devices = 0;
        for (int i = 0; i < x->parts; i++)
            for (int64_t k = 0; k < x->about[i].gpus_n; k++)
                x->devices += is_ours(x, i, x->about[i].gpus[k]);
        for (int i = 0; i < x->gpus.n; i++)
            keep[i] = (char)is_ours(x, join_of(x)->own, x->gpus.gpu[i].address);
    }
    rp_gpu_watch_start(&x->gpus, keep, rp_telemetry_most_of_command((int)x->devices));
}

int rp_exec_join(struct exec *x, struct rp_err *err)
{
    struct rp_joining_opts o = x->o->joining;
    o.keep_pmi = 1;
    if (rp_run_job_detect(&x->job, &o, 0, err) < 0)
        return -1;
    x->parts = x->nodes = 1;
    if (x->job.several) {
        rp_gpu_watch_open(&x->gpus);
        RP_JSON *about = about_of(x);
        const struct rp_run_job_opts what = {.other_programs = x->o->other_programs, .about = about};
        if (rp_run_job_join(&x->job, &o, &what, &x->progress, err) < 0)
            return -1;
        x->parts = join_of(x)->members;
        x->nodes = rp_run_job_hosts(&x->job);
    }
    x->part = rp_alloc((size_t)x->parts * sizeof *x->part);
    x->node = rp_alloc((size_t)x->nodes * sizeof *x->node);
    x->hwloc_xml = rp_alloc((size_t)x->nodes * sizeof *x->hwloc_xml);
    for (int i = 0; i < x->parts; i++)
        rp_object_init(&x->part[i].end, &rp_type_exec_ended);
    x->own = &x->part[x->job.several ? join_of(x)->own : 0];
    if (!x->job.several)
        return 0;
    const int failed = check_size(x, err) < 0 || take_about(x, err) < 0 || agree_on_log(x, err) < 0;
    if (failed)
        rp_join_abort(join_of(x), err);
    else
        rp_exec_share_gpus(x);
    return failed ? -1 : 0;
}

/* ---- captures ---- */

int rp_exec_ask_hosts(struct exec *x, int after, struct rp_err *err)
{
    RP_READ(capture_document, first, x->node[0].before);
    RP_FREE json_t **document = rp_alloc((size_t)x->nodes * sizeof *document);
    size_t bytes = 0;
    if (!x->job.several)
        return 0;
    const int failed = rp_run_job_ask_captures(&x->job, first.salt, x->o->identify, err) < 0 ||
                       rp_run_job_take_captures(&x->job, document, after ? NULL : x->hwloc_xml, err) < 0;
    for (int i = 1; i < x->nodes; i++)
        if (after)
            x->node[i].after = document[i];
        else
            x->node[i].before = document[i];
    for (int i = 0; i < x->nodes && !failed && !after; i++) {
        RP_BUF text = {0};
        rp_json_write(&text, x->node[i].before);
        bytes += 2 * text.size;
    }
    if (bytes > CAPTURES_BYTES)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the captures of %d hosts take %zu MiB, and the bundle of a command holds %d MiB of them",
                       x->nodes, bytes >> 20, CAPTURES_BYTES >> 20);
    return failed ? -1 : 0;
}

/* ---- messages ---- */

/* type NULL: it has nothing but its name. */
static json_t *exec_message(const char *what, const void *object, const struct rp_object_type *type)
{
    json_t *j = type ? rp_object_json(object, type) : json_object();
    json_object_set_new(j, "what", json_string(what));
    return j;
}

static int is_message(const json_t *body, const char *what)
{
    return strcmp(rp_json_text_at(body, "what"), what) == 0;
}

static int tell_all(struct exec *x, const char *what, const void *object, const struct rp_object_type *type,
                    struct rp_err *err)
{
    RP_JSON *body = exec_message(what, object, type);
    return rp_join_broadcast(join_of(x), RP_FRAME_COMMAND, body, err);
}

static char *base64_of(const struct rp_buf *bytes)
{
    struct rp_buf text = {0};
    rp_base64(&text, rp_buf_text(bytes), bytes->size);
    return rp_buf_take(&text);
}

static int take_bytes(struct rp_buf *to, char **base64, const char *what, size_t most, struct rp_err *err)
{
    const char *text = *base64 ? *base64 : "";
    rp_buf_fini(to);
    if (rp_unbase64(to, text, strlen(text)) < 0 || to->size > most)
        return rp_fail(err, RP_MALFORMED, "a process of the job sent '%s' in another form, or more of it than agreed",
                       what);
    free(*base64);
    *base64 = NULL;
    return 0;
}

/* What a process that does not have the log sends of a stream. */
static char *stream_share(const struct exec *x, int stream, struct rp_kept_facts *is)
{
    RP_BUF text = {0};
    rp_buf_add(&text, rp_buf_text(&x->own->text[stream]), x->own->text[stream].size);
    rp_exec_shorten(&text, is, rp_command_output_most(x->parts, 0));
    return base64_of(&text);
}

/* Both streams are sent with that share; the whole ones are kept here until "finish". */
static json_t *ended_message(const struct exec *x)
{
    struct rp_exec_ended m = x->own->end; /* with parts of its own: */
    struct rp_kept_facts out = *m.process.standard_output, errors = *m.process.standard_error;
    RP_FREE char *out_text = stream_share(x, EXEC_STDOUT, &out), *errors_text = stream_share(x, EXEC_STDERR, &errors);
    m.process.standard_output = &out;
    m.process.standard_error = &errors;
    m.out = out_text;
    m.errors = errors_text;
    return exec_message("ended", &m, &rp_type_exec_ended);
}

static int take_ended(struct exec *x, int member, const json_t *body, struct rp_err *err)
{
    struct exec_part *p = &x->part[member];
    struct rp_exec_ended *e = &p->end;
    const struct rp_command_process *is = &e->process;
    const size_t most = rp_command_output_most(x->parts, 0);
    if (p->ended)
        return rp_fail(err, RP_MALFORMED, "process %d of the job ended twice", member);
    rp_object_fini(e, &rp_type_exec_ended);
    if (rp_object_take(e, &rp_type_exec_ended, body, "ended", err) < 0 ||
        take_bytes(&p->text[EXEC_STDOUT], &e->out, "out", most, err) < 0 ||
        take_bytes(&p->text[EXEC_STDERR], &e->errors, "errors", most, err) < 0)
        return -1;
    if (e->device_n > RP_WATCHED_MAX)
        return rp_fail(err, RP_MALFORMED, "process %d of the job sent samples of %lld GPUs", member,
                       (long long)e->device_n);
    if (!is->standard_output || !is->standard_error || is->start_ns == RP_NO_INTEGER || is->end_ns < is->start_ns)
        return rp_fail(err, RP_MALFORMED, "process %d of the job sent an end without streams or times", member);
    for (int64_t i = 0; i < e->device_n; i++) {
        rp_sanitize(e->device[i].address);
        rp_sanitize(e->device[i].reason);
    }
    p->ended = 1;
    return 0;
}

static struct rp_kept_facts *kept_of(const struct exec_part *p, int text)
{
    return text == EXEC_STDOUT   ? p->end.process.standard_output
           : text == EXEC_STDERR ? p->end.process.standard_error
                                 : p->rest.kept;
}

/* log: process 0 asked for the whole log. */
static json_t *finished_message(struct exec *x, int log)
{
    const struct exec_part *p = x->own;
    RP_FREE char *bytes = NULL;
    rp_exec_digest_outputs(x);
    struct rp_exec_finished m = p->rest; /* whose parts it has */
    m.kept = NULL;
    for (int i = 0; i < EXEC_TEXTS && log && !bytes; i++) {
        if (!*rp_exec_log_from(x, i) || !kept_of(p, i))
            continue;
        m.kept = kept_of(p, i);
        m.log = bytes = base64_of(&p->text[i]);
    }
    return exec_message("finished", &m, &rp_type_exec_finished);
}

static int take_finished(struct exec *x, int member, const json_t *body, struct rp_err *err)
{
    struct exec_part *p = &x->part[member];
    struct rp_exec_finished *f = &p->rest;
    if (p->is_whole || !p->ended)
        return rp_fail(err, RP_MALFORMED, "process %d of the job finished twice, or before its command", member);
    if (rp_object_take(f, &rp_type_exec_finished, body, "finished", err) < 0)
        return -1;
    if (f->file_n > EXEC_FILES_MOST)
        return rp_fail(err, RP_MALFORMED, "process %d of the job named %lld files", member, (long long)f->file_n);
    for (int i = 0; i < EXEC_TEXTS && f->kept; i++) {
        if (!*rp_exec_log_from(x, i))
            continue;
        if (take_bytes(&p->text[i], &f->log, "log", RP_BUNDLE_LOG_MAX, err) < 0)
            return -1;
        if (i == EXEC_FILE)
            break;
        *kept_of(p, i) = *f->kept;
        free(f->kept);
        f->kept = NULL;
    }
    p->is_whole = 1;
    return 0;
}

/* ---- while the command runs ---- */

static struct {
    pthread_t thread;
    int running, end;
    uint64_t stop_ns;   /* the command was asked to end; 0: not */
    int told, killed;   /* by which signal */
    int others;         /* the others were asked to */
    struct rp_err bad;  /* a message that was refused */
} listener;

/* Process 0, once a process has failed: the others stop, and so does this one. 0: none has failed. A connection that is
 * gone is the next failure of rp_join_next(). */
static int stop_all(struct exec *x)
{
    struct rp_err ignored;
    int failed = 0;
    for (int i = 0; i < x->parts; i++)
        failed |= x->part[i].ended && x->part[i].end.process.exit_status != 0;
    if (failed && !listener.others++)
        (void)!tell_all(x, "stop", NULL, NULL, &ignored);
    return failed;
}

/* By the listening thread: the command gets SIGTERM once it is there, and SIGKILL when it does not end. */
static void stop_command(int stop)
{
    if (stop && !listener.stop_ns)
        listener.stop_ns = rp_now_ns();
    if (!listener.stop_ns)
        return;
    if (!listener.told)
        listener.told = rp_command_signal(SIGTERM);
    else if (!listener.killed && rp_now_ns() - listener.stop_ns > RP_EXEC_STOP_MS * 1000000ull)
        listener.killed = rp_command_signal(SIGKILL);
}

/* Nonzero: the command has to end. */
static int take_news(struct exec *x, int member, const json_t *body)
{
    struct rp_err err = {0};
    if (!rp_exec_leads(x))
        return is_message(body, "stop");
    if (!is_message(body, "ended"))
        return 0;
    if (take_ended(x, member, body, &err) < 0) {
        listener.bad = err;
        return 1;
    }
    return stop_all(x);
}

static void *take_all_news(void *arg)
{
    struct exec *x = arg;
    while (!__atomic_load_n(&listener.end, __ATOMIC_ACQUIRE)) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int member, stop = 0;
        if (x->lost.code != RP_OK) {
            nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
        } else {
            const int got = rp_join_next(join_of(x), STEP_MS, &member, &type, &body, &x->lost);
            stop = got < 0 || (got > 0 && type == RP_FRAME_COMMAND && take_news(x, member, body));
        }
        stop_command(stop);
    }
    return NULL;
}

void rp_exec_listen(struct exec *x)
{
    sigset_t all, before;
    if (!x->job.several)
        return;
    memset(&listener, 0, sizeof listener);
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    listener.running = pthread_create(&listener.thread, NULL, take_all_news, x) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void rp_exec_listen_end(struct exec *x)
{
    const struct rp_command_end *e = &x->end;
    if (!listener.running)
        return;
    __atomic_store_n(&listener.end, 1, __ATOMIC_RELEASE);
    pthread_join(listener.thread, NULL);
    listener.running = 0;
    x->own->end.process.stopped = listener.told && e->exit_status != 0 && (uint64_t)e->end_ns >= listener.stop_ns;
    if (listener.bad.code != RP_OK && x->lost.code == RP_OK) {
        x->lost = listener.bad;
        rp_join_abort(join_of(x), &x->lost);
    }
}

/* ---- process 0 ---- */

int rp_exec_begin(struct exec *x, struct rp_err *err)
{
    return x->job.several ? tell_all(x, "begin", NULL, NULL, err) : 0;
}

/* Until every process that is there has `ended`, or is whole; -1: x->lost. */
static int wait_for_all(struct exec *x, int whole, uint64_t until)
{
    for (;;) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int member, missing = 0;
        for (int i = 0; i < x->parts; i++)
            missing += whole ? !x->part[i].is_whole : !x->part[i].ended;
        if (!missing)
            return 0;
        int got = rp_join_next(join_of(x), STEP_MS, &member, &type, &body, &x->lost);
        if (got > 0 && type == RP_FRAME_COMMAND && is_message(body, "ended"))
            got = take_ended(x, member, body, &x->lost);
        else if (got > 0 && type == RP_FRAME_COMMAND && is_message(body, "finished"))
            got = take_finished(x, member, body, &x->lost);
        if (got >= 0)
            (void)stop_all(x);
        if (got >= 0 && rp_interrupted())
            got = rp_fail(&x->lost, RP_INTERRUPTED, "interrupted while the other processes ended");
        if (got >= 0 && until && rp_now_ns() > until)
            got = rp_fail(&x->lost, RP_UNAVAILABLE, "%d process%s did not report files within %d s", missing,
                          missing == 1 ? "" : "es", FINISH_S);
        if (got < 0)
            return -1;
    }
}

void rp_exec_collect(struct exec *x)
{
    if (!x->job.several) {
        rp_exec_digest_outputs(x);
        return;
    }
    if (x->lost.code != RP_OK || wait_for_all(x, 0, 0) < 0)
        return;
    const struct rp_exec_finish finish = {rp_exec_choose_log(x)};
    if (tell_all(x, "finish", &finish, &rp_type_exec_finish, &x->lost) < 0)
        return;
    rp_run_job_tend(&x->job);
    rp_exec_digest_outputs(x);
    rp_run_job_untend(&x->job);
    x->own->is_whole = 1;
    (void)wait_for_all(x, 1, rp_now_ns() + FINISH_S * 1000000000ull);
}

void rp_exec_end_job(struct exec *x, const struct rp_err *reason)
{
    struct rp_err ignored;
    const struct rp_exec_over over = {x->cli->status};
    if (!x->job.several)
        return;
    if (!reason && x->lost.code == RP_OK)
        (void)!tell_all(x, "over", &over, &rp_type_exec_over, &ignored);
    rp_run_job_end(&x->job, reason ? reason : x->lost.code != RP_OK ? &x->lost : NULL);
}

/* ---- the others ---- */

static int send_finished(struct exec *x, const json_t *asked, struct rp_err *err)
{
    struct rp_exec_finish finish;
    if (rp_object_take(&finish, &rp_type_exec_finish, asked, "finish", err) < 0)
        return -1;
    rp_run_job_tend(&x->job); /* digests of large files take long */
    RP_JSON *body = finished_message(x, finish.log == join_of(x)->own);
    rp_run_job_untend(&x->job);
    return rp_join_send(join_of(x), 0, RP_FRAME_COMMAND, body, err);
}

static int begin_exec(struct exec *x, int (*run)(struct exec *, struct rp_err *), struct rp_err *err)
{
    if (run(x, err) < 0)
        return -1;
    if (x->lost.code != RP_OK) {
        *err = x->lost;
        return -1;
    }
    RP_JSON *body = ended_message(x);
    return rp_join_send(join_of(x), 0, RP_FRAME_COMMAND, body, err);
}

/* 1: it is over. */
static int follow_once(struct exec *x, int (*run)(struct exec *, struct rp_err *), struct rp_err *err)
{
    enum rp_frame type;
    RP_JSON *body = NULL;
    int member, got = rp_join_next(join_of(x), STEP_MS, &member, &type, &body, err);
    if (got <= 0)
        return got < 0               ? -1
               : rp_interrupted() ? rp_fail(err, RP_INTERRUPTED, "interrupted outside the command")
                                  : 0;
    if (type == RP_FRAME_CAPTURE)
        return rp_run_job_send_capture(&x->job, body, err);
    if (type == RP_FRAME_BYE)
        return 1;
    if (type != RP_FRAME_COMMAND)
        return 0;
    if (is_message(body, "begin"))
        return begin_exec(x, run, err);
    if (is_message(body, "finish"))
        return send_finished(x, body, err);
    if (!is_message(body, "over"))
        return 0;
    struct rp_exec_over over;
    if (rp_object_take(&over, &rp_type_exec_over, body, "over", err) < 0)
        return -1;
    x->cli->status = (int)over.exit;
    return 1;
}

int rp_exec_follow(struct exec *x, int (*run)(struct exec *x, struct rp_err *err), struct rp_err *err)
{
    struct rp_err ignored;
    int over = 0;
    while (!over)
        over = follow_once(x, run, err);
    if (over < 0)
        rp_join_abort(join_of(x), err);
    else
        (void)!rp_join_close(join_of(x), FAREWELL_MS, &ignored);
    return over < 0 ? -1 : 0;
}
