/* The bundle of a command: what each process has of it, the documents, and the members. */
#include "cli/exec.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/privacy/secrets.h"

#include <string.h>

static const char *const streams[] = {"stdout", "stderr", "file"};

/* ---- of this process ---- */

const char *rp_exec_log_from(const struct exec *x, int text)
{
    return x->facts->log && strcmp(x->facts->log->from, streams[text]) == 0 ? streams[text] : "";
}

void rp_exec_shorten(struct rp_buf *text, struct rp_kept_facts *is, size_t most)
{
    struct rp_kept k = {.most = most};
    struct rp_buf less = {0};
    int64_t dropped;
    if (text->size <= most)
        return;
    rp_kept_add(&k, text->data, text->size);
    rp_kept_text(&less, &dropped, &k);
    rp_kept_fini(&k);
    is->dropped += dropped;
    rp_buf_fini(text);
    *text = less;
}

/* What replaces words may be longer than they are. */
static void seal_kept(const struct exec *x, struct rp_buf *text, const struct rp_kept *k, struct rp_kept_facts *is)
{
    RP_BUF raw = {0};
    rp_kept_text(&raw, &is->dropped, k);
    is->bytes = k->bytes;
    is->hidden = rp_public_output(text, rp_buf_text(&raw), raw.size, x->o->identify);
    rp_exec_shorten(text, is, k->most ? k->most : RP_BUNDLE_LOG_MAX);
}

static struct rp_kept_facts *new_kept(void)
{
    struct rp_kept_facts *is = rp_alloc(sizeof *is);
    rp_object_init(is, &rp_type_kept_facts);
    is->bytes = is->dropped = is->hidden = 0;
    return is;
}

static void take_samples(struct exec *x)
{
    struct exec_part *p = x->own;
    for (int i = 0; i < x->gpus.n; i++) {
        const struct rp_watched_gpu *gpu = &x->gpus.gpu[i];
        struct rp_exec_device *d = rp_object_add(&p->end.device, &p->end.device_n, &rp_type_exec_device);
        struct rp_buf lines = {0};
        rp_sampling_write(&lines, &gpu->samples);
        *d = (struct rp_exec_device){rp_strdup(gpu->address), rp_strdup(gpu->samples.reason), rp_buf_take(&lines)};
    }
}

static void judge_log(struct exec *x)
{
    struct exec_part *p = x->own;
    for (int i = 0; i < EXEC_TEXTS; i++) {
        if (!x->o->log || !*rp_exec_log_from(x, i))
            continue;
        p->end.has_log = i != EXEC_FILE || p->rest.kept;
        p->end.reads_log = p->end.has_log && rp_command_log_reads(x->facts->log, &p->text[i]);
    }
}

/* The file of --log as it is now, into the own part. */
static void read_log_file(struct exec *x)
{
    struct rp_err why = {0};
    struct rp_kept kept = {0};
    struct exec_part *p = x->own;
    if (!x->log_file)
        return;
    if (rp_kept_file(&kept, x->log_file, &why) == 0) {
        p->rest.kept = new_kept();
        seal_kept(x, &p->text[EXEC_FILE], &kept, p->rest.kept);
    } else if (x->parts == 1) {
        rp_progress_note(&x->progress, "--log: %s: the bundle has no figure of speed", why.msg);
    }
    rp_kept_fini(&kept);
}

void rp_exec_own_part(struct exec *x)
{
    struct exec_part *p = x->own;
    const struct rp_command_end *e = &x->end;
    struct rp_command_process *is = &p->end.process;
    is->exit_status = e->exit_status >= 0 ? e->exit_status : RP_NO_INTEGER;
    is->signal = e->signal >= 0 ? e->signal : RP_NO_INTEGER;
    is->start_ns = e->start_ns;
    is->end_ns = e->end_ns;
    is->user_s = e->user_s;
    is->system_s = e->system_s;
    is->peak_rss_bytes = e->peak_rss_bytes;
    is->standard_output = new_kept();
    is->standard_error = new_kept();
    seal_kept(x, &p->text[EXEC_STDOUT], &e->out, is->standard_output);
    seal_kept(x, &p->text[EXEC_STDERR], &e->errors, is->standard_error);
    p->end.interrupted = e->interrupted;
    p->ended = 1;
    read_log_file(x);
    judge_log(x);
    take_samples(x);
}

void rp_exec_digest_outputs(struct exec *x)
{
    int at = x->o->input.n;
    for (int i = 0; i < x->o->output.n; i++, at++) {
        struct rp_err why = {0};
        if (rp_exec_digest_file(&x->own->rest.file[at], x->o->output.item[i], &why) < 0)
            rp_progress_note(&x->progress, "--output, a file that the command writes: %s (the bundle: --bundle)",
                             why.msg);
    }
}

/* ---- of all ---- */

int rp_exec_choose_log(const struct exec *x)
{
    int first = -1;
    for (int i = 0; i < x->parts; i++)
        if (x->part[i].end.reads_log)
            return i;
        else if (x->part[i].end.has_log && first < 0)
            first = i;
    return first < 0 ? 0 : first;
}

/* Its exit status, or 128 plus the signal that ended it. */
static int status_of(const struct rp_command_process *p)
{
    return p->exit_status != RP_NO_INTEGER ? (int)p->exit_status
           : p->signal != RP_NO_INTEGER    ? 128 + (int)p->signal
                                           : rp_exit_status(RP_UNAVAILABLE);
}

/* The first that failed by itself, by the clock of process 0; where the job ended early and none did, one that is
 * gone. */
static int ended_by(const struct exec *x)
{
    int first = -1, gone = -1;
    int64_t at = 0;
    for (int i = 0; i < x->parts; i++) {
        const struct rp_command_process *p = &x->facts->process[i];
        const int64_t end = p->end_ns - p->clock.monotonic_ns;
        if (!x->part[i].ended) {
            gone = gone < 0 || i == x->job.joining.join.lost ? i : gone;
            continue;
        }
        if (p->exit_status == 0 || p->stopped || (first >= 0 && end >= at))
            continue;
        first = i;
        at = end;
    }
    return first >= 0 ? first : gone >= 0 ? gone : 0;
}

static void describe_end(struct exec *x)
{
    struct rp_command_facts *f = x->facts;
    const struct rp_command_process *p;
    RP_BUF why = {0};
    int failed = 0, interrupted = 0;
    for (int i = 0; i < x->parts; i++) {
        failed += f->process[i].exit_status != 0;
        interrupted = interrupted ? interrupted : (int)x->part[i].end.interrupted;
    }
    f->ended_by = ended_by(x);
    p = &f->process[f->ended_by];
    failed += x->lost.code != RP_OK; /* after all commands, such as a capture that did not come */
    f->status = rp_strdup(!failed ? "complete" : interrupted ? "incomplete" : "failed");
    x->cli->status = status_of(p);
    if (!failed)
        return;
    if (x->cli->status == 0) {
        x->cli->status = rp_exit_status(x->lost.code);
        f->reason = rp_asprintf("after the command: %s", rp_code_meaning(x->lost.code));
        return;
    }
    if (x->parts > 1)
        rp_buf_printf(&why, "process %lld of ", (long long)f->ended_by);
    if (p->exit_status == RP_NO_INTEGER && p->signal == RP_NO_INTEGER) {
        rp_buf_printf(&why, "the command was gone: %s", rp_code_meaning(x->lost.code)); /* the message names hosts */
    } else if (p->exit_status != RP_NO_INTEGER) {
        rp_buf_printf(&why, "the command ended with status %lld", (long long)p->exit_status);
    } else {
        rp_buf_printf(&why, "the command was ended by signal %lld", (long long)p->signal);
    }
    if (interrupted)
        rp_buf_printf(&why, "; signal %d was passed on to it", interrupted);
    f->reason = rp_buf_take(&why);
    rp_sanitize(f->reason);
}

static int has_same_file(const struct rp_command_facts *f, const struct rp_named_file *is)
{
    for (int64_t i = 0; i < f->file_n && f->file[i].process == 0; i++)
        if (strcmp(f->file[i].role, is->role) == 0 && strcmp(f->file[i].name, is->name) == 0 &&
            strcmp(f->file[i].sha256, is->sha256) == 0 && f->file[i].existed == is->existed)
            return 1;
    return 0;
}

static void add_files(struct rp_command_facts *f, struct exec_part *p, int process)
{
    for (int64_t i = 0; i < p->rest.file_n && f->file_n < EXEC_FILES_MOST; i++) {
        if (process && has_same_file(f, &p->rest.file[i]))
            continue;
        struct rp_named_file *to = rp_object_add(&f->file, &f->file_n, &rp_type_named_file);
        *to = p->rest.file[i];
        to->process = process;
        rp_object_init(&p->rest.file[i], &rp_type_named_file); /* its texts are the other's now */
    }
}

static void add_devices(struct rp_command_facts *f, const struct exec_part *p, int process)
{
    for (int64_t i = 0; i < p->end.device_n; i++) {
        struct rp_command_device *d = rp_object_add(&f->device, &f->device_n, &rp_type_command_device);
        d->process = process;
        d->pci_address = rp_strdup(p->end.device[i].address);
        d->no_telemetry = *p->end.device[i].reason ? rp_strdup(p->end.device[i].reason) : NULL;
    }
}

static int same_words(const struct rp_command_process *p, const struct rp_command_facts *f)
{
    int same = p->argv_n == f->argv_n;
    for (int64_t i = 0; i < p->argv_n && same; i++)
        same = strcmp(p->argv[i], f->argv[i]) == 0;
    return same;
}

/* The parts into facts.json. */
static void add_part(struct exec *x, int process)
{
    struct rp_command_facts *f = x->facts;
    struct exec_part *p = &x->part[process];
    struct rp_command_process *to = rp_object_add(&f->process, &f->process_n, &rp_type_command_process);
    const struct rp_job_member *m = x->parts > 1 ? &x->job.joining.join.member[process] : NULL;
    struct rp_command_process *is = &p->end.process;
    is->node = m ? m->host : 0;
    is->clock = m && process ? (struct rp_clock_facts){m->clock.wall_ns, m->clock.monotonic_ns, m->clock.error_ns}
                             : (struct rp_clock_facts){0};
    if (process == 0 || same_words(is, f)) {
        for (int64_t i = 0; i < is->argv_n; i++)
            free(is->argv[i]);
        free(is->argv);
        is->argv = NULL;
        is->argv_n = 0;
    }
    *to = *is;
    rp_object_init(is, &rp_type_command_process); /* its parts are the other's now */
    add_files(f, p, process);
    add_devices(f, p, process);
}

static void add_log(struct exec *x)
{
    struct rp_log_facts *log = x->facts->log;
    if (!log)
        return;
    log->process = rp_exec_choose_log(x);
    struct exec_part *p = &x->part[log->process];
    log->file = p->rest.kept;
    p->rest.kept = NULL;
}

/* The streams that are not the log have their share. */
static void shorten_all(struct exec *x)
{
    char at[RP_MEMBER_NAME];
    const char *log = rp_command_log_member(at, x->facts);
    for (int i = 0; i < x->parts; i++) {
        struct exec_part *p = &x->part[i];
        const char *out = RP_OF_PROCESS(i, ".stdout"), *errors = RP_OF_PROCESS(i, ".stderr");
        if (!p->ended)
            continue;
        rp_exec_shorten(&p->text[EXEC_STDOUT], x->facts->process[i].standard_output,
                        rp_command_output_most(x->parts, log && strcmp(log, out) == 0));
        rp_exec_shorten(&p->text[EXEC_STDERR], x->facts->process[i].standard_error,
                        rp_command_output_most(x->parts, log && strcmp(log, errors) == 0));
    }
}

static char *time_text(uint64_t ns)
{
    char when[32];
    rp_rfc3339(when, ns);
    return rp_strdup(when);
}

/* A process that is gone after its command had ended did not finish: nothing of it is whole. */
static void forget_lost(struct exec *x)
{
    const int lost = x->parts > 1 && x->lost.code != RP_OK ? x->job.joining.join.lost : 0;
    struct exec_part *p = &x->part[lost];
    if (!lost || !p->ended)
        return;
    rp_exec_part_fini(p);
    *p = (struct exec_part){0};
    rp_object_init(&p->end, &rp_type_exec_ended);
}

static void fill_facts(struct exec *x)
{
    struct rp_command_facts *f = x->facts;
    RP_JSON *ledger = rp_attempt_json(&x->attempt);
    f->started_at = time_text(x->started_ns);
    f->ended_at = time_text(x->ended_ns);
    f->elapsed_s = (double)(x->ended_ns - x->started_ns) / 1e9;
    rp_build_facts_seal(&f->tool);
    rp_object_read(&f->ledger, &rp_type_ledger_facts, ledger);
    forget_lost(x);
    for (int i = 0; i < x->parts; i++)
        add_part(x, i);
    describe_end(x);
    add_log(x);
    shorten_all(x);
    if (!f->device_n)
        f->no_telemetry = rp_strdup(*x->gpus.reason ? x->gpus.reason : "no GPU was found");
    if (x->parts < 2)
        return;
    RP_JSON *launch = rp_launch_to_json(&x->job.joining.launch);
    f->launch = rp_alloc(sizeof *f->launch);
    rp_object_read(f->launch, &rp_type_launch_facts, launch);
}

/* ---- members ---- */

static int add_json(struct rp_bundle *b, const char *name, const json_t *j, struct rp_err *err)
{
    RP_BUF text = {0};
    rp_json_write(&text, j);
    return rp_bundle_add(b, name, text.data, text.size, err);
}

static int add_text(struct rp_bundle *b, const char *name, const struct rp_buf *text, struct rp_err *err)
{
    return rp_bundle_add(b, name, rp_buf_text(text), text->size, err);
}

static int add_captures(struct exec *x, struct rp_bundle *b, struct rp_err *err)
{
    for (int i = 0; i < x->nodes; i++)
        if ((x->node[i].before && add_json(b, RP_OF_NODE(i, ".before.json"), x->node[i].before, err) < 0) ||
            (x->node[i].after && add_json(b, RP_OF_NODE(i, ".after.json"), x->node[i].after, err) < 0) ||
            (x->hwloc_xml[i].size && add_text(b, RP_OF_NODE(i, ".hwloc.xml"), &x->hwloc_xml[i], err) < 0))
            return -1;
    return 0;
}

/* *log: the bytes of the one with the figures. */
static int add_logs(struct exec *x, struct rp_bundle *b, const struct rp_buf **log, struct rp_err *err)
{
    char at[RP_MEMBER_NAME];
    const char *name = rp_command_log_member(at, x->facts);
    for (int i = 0; i < x->parts; i++) {
        const char *const names[] = {RP_OF_PROCESS(i, ".stdout"), RP_OF_PROCESS(i, ".stderr"), RP_LOG_FILE};
        for (int k = 0; k < EXEC_TEXTS && x->part[i].ended; k++) {
            if (k == EXEC_FILE && !(x->facts->log && x->facts->log->file && x->facts->log->process == i))
                continue;
            if (add_text(b, names[k], &x->part[i].text[k], err) < 0)
                return -1;
            *log = name && strcmp(name, names[k]) == 0 ? &x->part[i].text[k] : *log;
        }
    }
    return 0;
}

static int add_telemetry(struct exec *x, struct rp_bundle *b, struct rp_err *err)
{
    int at = 0;
    for (int i = 0; i < x->parts; i++)
        for (int64_t k = 0; k < x->part[i].end.device_n; k++, at++) {
            const char *lines = x->part[i].end.device[k].lines;
            const size_t size = strlen(lines);
            struct rp_telemetry parsed;
            const char *name = RP_OF_DEVICE(at);
            if (!size || !x->part[i].ended)
                continue;
            if (rp_telemetry_parse(&parsed, name, rp_telemetry_most_of_command((int)x->facts->device_n),
                                   lines, size, err) < 0)
                return -1;
            rp_derive_device(x->doc.observed, at, &parsed, &x->facts->process[i]);
            rp_telemetry_fini(&parsed);
            if (rp_bundle_add(b, name, lines, size, err) < 0)
                return -1;
        }
    rp_derive_devices(x->doc.observed);
    return 0;
}

static void note_begin(struct exec *x, const struct rp_buf *log)
{
    const char *text = rp_buf_text(log);
    text += strspn(text, " \t\r\n");
    RP_FREE char *line = rp_asprintf("%.*s", (int)strcspn(text, "\r\n"), text);
    rp_excerpt(x->log_begins, line);
}

static int add_members(struct exec *x, struct rp_bundle *b, struct rp_err *err)
{
    const struct rp_buf *log = NULL;
    if (add_logs(x, b, &log, err) < 0 ||
        rp_derive_command(x->doc.observed, x->facts, x->node, log, &x->unread, err) < 0 || add_telemetry(x, b, err) < 0)
        return -1;
    if (log)
        note_begin(x, log);
    rp_run_documents_write(&x->doc);
    if (add_json(b, "facts.json", x->doc.facts_json, err) < 0 || add_json(b, "run.json", x->doc.figures_json, err) < 0)
        return -1;
    return add_captures(x, b, err);
}

int rp_exec_seal(struct exec *x, struct rp_err *err)
{
    struct rp_bundle b = {0};
    RP_BUF file = {0};
    fill_facts(x);
    int failed = add_members(x, &b, err) < 0 || rp_bundle_seal(&b, x->key, &file, err) < 0 ||
                 rp_run_output_write(&x->output, x->o->force, &file, &x->progress, err) < 0;
    if (!failed)
        rp_member_sha256(x->statement, rp_bundle_find(&b, "statement.dsse.json"));
    rp_bundle_fini(&b);
    return failed ? rp_wrap(err, "sealing '%s'", x->output.path) : 0;
}
