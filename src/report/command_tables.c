/* Another program's command, as reports and pages show it: the results of its log, its words, its end and its files.
 */
#include "report/tables.h"

#include "base/json.h"
#include "bundle/bundle.h"
#include "report/figure.h"
#include "run/derive.h"
#include "run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RESULTS_SHOWN 50
#define PROCESSES_SHOWN 64

#define POINTER 80

/* "/log/result/3/NAME" */
static const char *of_result(char out[POINTER], size_t i, const char *name)
{
    snprintf(out, POINTER, "/log/result/%zu/%s", i, name);
    return out;
}

/* Columns that at least one result has. */
static const struct {
    const char *key, *title, *form;
} columns[] = {
    {"label", "result", "t"},
    {"model", "model", "t"},
    {"task", "task", "t"},
    {"precision", "precision", "t"},
    {"global_batch", "samples per step", "d0"},
    {"devices", "devices, by the log", "d0"},
    {"throughput/value", "#throughput", "d3"},
    {"throughput/unit", "unit", "t"},
    {"time_to_train_min", "#time to train, minutes", "d3"},
    {"timed_window", "timed window", "t"},
    {"estimator", "estimator", "t"},
    {"source/note", "remarks of the importer", "t"},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int is_said(const json_t *run, size_t n, int column)
{
    char at[POINTER];
    for (size_t i = 0; i < n; i++)
        if (rp_pointer(run, of_result(at, i, columns[column].key)))
            return 1;
    return 0;
}

static void put_results(struct rp_doc *d, const json_t *run, size_t n)
{
    RP_BUF titles = {0};
    const size_t most = n < RESULTS_SHOWN ? n : RESULTS_SHOWN;
    for (int k = 0; k < COLUMNS; k++)
        if (is_said(run, most, k))
            rp_buf_printf(&titles, "%s%s", titles.size ? "|" : "", columns[k].title);
    rp_doc_title(d, "Results of the log, " RP_MEASURED_BY_LOG);
    rp_doc_table(d, rp_buf_text(&titles));
    for (size_t i = 0; i < most; i++)
        for (int k = 0; k < COLUMNS; k++) {
            if (!is_said(run, most, k))
                continue;
            char at[POINTER];
            const char *pointer = of_result(at, i, columns[k].key);
            if (rp_pointer(run, pointer))
                rp_doc_figure(d, run, pointer, columns[k].form, "");
            else
                rp_doc_cell(d, "%s", "");
        }
    if (n > most)
        rp_doc_line(d, "%zu further results are in run.json.", n - most);
}

static void put_log(struct rp_doc *d, struct rp_run_documents *r)
{
    const struct rp_log_figures *log = r->observed->log;
    char given[160];
    if (!r->command->log)
        rp_doc_line(d, "No log was named (--log): the bundle has no figure of speed.");
    else if (!log)
        rp_doc_line(d, "The command wrote no log '%s': the bundle has no figure of speed.", r->command->log->name);
    else if (!log->read)
        rp_doc_line(d, "The importer '%s' finds no figure in the log '%s'; repro verify repeats why.",
                    r->command->log->format, r->command->log->name);
    else
        put_results(d, rp_run_shown(r), json_array_size(log->result));
    if (log && log->read && *rp_command_log_given(given, r->command->log))
        rp_doc_line(d, "The signer's word, not the log's: %s.", given);
}

static void put_row(struct rp_doc *d, const json_t *run, const char *name, const char *pointer, const char *form,
                    const char *after)
{
    const json_t *v = rp_pointer(run, pointer);
    if (!v || json_is_null(v))
        return;
    rp_doc_cell(d, "%s", name);
    rp_doc_figure(d, run, pointer, form, after);
}

static void put_kept(struct rp_doc *d, const struct rp_kept_facts *k, const char *name)
{
    if (!k)
        return;
    rp_doc_cell(d, "%s", name);
    rp_doc_cell(d, "%" PRId64, k->bytes);
    rp_doc_cell(d, "%" PRId64, k->dropped);
    rp_doc_cell(d, "%" PRId64, k->hidden);
}

static void put_files(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    if (!r->command->file_n)
        return;
    rp_doc_title(d, "Files that were named");
    rp_doc_table(d, "file|#bytes|SHA-256|before the command");
    for (int64_t i = 0; i < r->command->file_n; i++) {
        const struct rp_named_file *f = &r->command->file[i];
        char at[POINTER];
        if (r->command->process_n > 1)
            rp_doc_cell(d, "%s of process %" PRId64 ": %s", f->role, f->process, f->name);
        else
            rp_doc_cell(d, "%s: %s", f->role, f->name);
        if (f->bytes == RP_NO_INTEGER) {
            rp_doc_cell(d, "%s", "not there");
            rp_doc_cell(d, "%s", "");
        } else {
            rp_doc_figure(d, run, RP_FORMAT(at, "/file/%" PRId64 "/bytes", i), "d0", "");
            rp_doc_figure(d, run, RP_FORMAT(at, "/file/%" PRId64 "/sha256", i), "t", "");
        }
        rp_doc_cell(d, "%s", f->existed ? "there" : "not there");
    }
}

/* The processes of a command with several: who ran where, and how each ended. */
static void put_processes(struct rp_doc *d, struct rp_run_documents *r)
{
    const struct rp_command_facts *c = r->command;
    const json_t *run = rp_run_shown(r);
    char at[POINTER];
    if (c->process_n < 2)
        return;
    rp_doc_title(d, "Processes");
    rp_doc_table(d, "#process|#node|end|#time, s|#processor time, s|#peak memory, MiB");
    for (int64_t i = 0; i < c->process_n && i < PROCESSES_SHOWN; i++) {
        const struct rp_command_process *p = &c->process[i];
        rp_doc_cell(d, "%" PRId64, i);
        rp_doc_figure(d, run, RP_FORMAT(at, "/process/%" PRId64 "/node", i), "d0", "");
        if (p->start_ns == RP_NO_INTEGER) {
            rp_doc_cell(d, "%s", "gone before it reported");
            for (int k = 0; k < 3; k++)
                rp_doc_cell(d, "%s", "-");
            continue;
        }
        const int exited = p->exit_status != RP_NO_INTEGER;
        const int is_first = i == c->ended_by && strcmp(c->status, "complete") != 0;
        rp_doc_cell(d, "%s %" PRId64 "%s", exited ? "status" : "signal", exited ? p->exit_status : p->signal,
                    p->stopped ? ", stopped by repro"
                    : is_first ? ", the first"
                               : "");
        rp_doc_cell(d, "%.3f", (double)(p->end_ns - p->start_ns) / 1e9);
        rp_doc_cell(d, "%.3f", p->user_s + p->system_s);
        rp_doc_figure(d, run, RP_FORMAT(at, "/process/%" PRId64 "/peak_rss_bytes", i), "d1/1048576", "");
    }
    if (c->process_n > PROCESSES_SHOWN)
        rp_doc_line(d, "%" PRId64 " further processes are in facts.json.", c->process_n - PROCESSES_SHOWN);
}

static void put_output(struct rp_doc *d, const struct rp_command_facts *c)
{
    rp_doc_title(d, "What the bundle has of its output");
    rp_doc_table(d, "stream|#bytes written|#left out of the middle|#words hidden");
    for (int64_t i = 0; i < c->process_n && i < PROCESSES_SHOWN; i++) {
        put_kept(d, c->process[i].standard_output, RP_OF_PROCESS((int)i, ".stdout"));
        put_kept(d, c->process[i].standard_error, RP_OF_PROCESS((int)i, ".stderr"));
    }
    put_kept(d, c->log ? c->log->file : NULL, RP_LOG_FILE);
}

void rp_table_command(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    const struct rp_command_facts *c = r->command;
    RP_BUF words = {0};
    rp_doc_line(
        d,
        "repro did not train here: it observed another program's command. Every figure of speed is " RP_MEASURED_BY_LOG
        "; nothing was trained again, and no clock but the signer's bounds it.");
    put_log(d, r);
    for (int64_t i = 0; i < c->argv_n; i++)
        rp_buf_printf(&words, "%s%s", i ? " " : "", c->argv[i]);
    rp_doc_title(d, "The command");
    rp_doc_table(d, "what|value");
    rp_doc_cell(d, "%s", "words");
    rp_doc_cell(d, "%s", rp_buf_text(&words));
    put_row(d, run, "status", "/status", "t", "");
    put_row(d, run, "exit status", "/exit_status", "d0", "");
    put_row(d, run, "ended by signal", "/signal", "d0", "");
    put_row(d, run, "time", "/wall_s", "d3", " s");
    put_row(d, run, "processor time", "/user_s", "d3", " s");
    put_row(d, run, "processor time of the kernel", "/system_s", "d3", " s");
    put_row(d, run, "peak memory of a process", "/peak_rss_bytes", "b", "");
    put_row(d, run, "SHA-256 of the program", "/process/0/program_sha256", "t", "");
    put_row(d, run, "SHA-256 of words and inputs", "/recipe_sha256", "t", "");
    put_row(d, run, "importer", "/log/format", "t", "");
    put_row(d, run, "launcher", "/launch/launcher", "t", "");
    put_row(d, run, "no samples of GPUs", "/no_telemetry", "t", "");
    put_processes(d, r);
    put_files(d, r);
    put_output(d, c);
}
