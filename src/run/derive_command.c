/* run.json of a command: what the importer of its log reads in the sealed bytes. */
#include "run/derive.h"

#include "base/json.h"
#include "base/text.h"
#include "import/import.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* run.json is a document of 4 MiB and 160,000 values; what a log has beyond this is in the log. */
#define RESULTS_MOST 500
#define SAMPLES_MOST 20000 /* of all results */
#define CLOCK_DRIFT 1.01   /* of the clock of the log, which may be a wall clock */
#define CLOCK_SLACK_S 1.0  /* a log may have whole seconds */
#define BYTES_MOST (1ul << 20)

void rp_command_sha256(char out[RP_SHA256_HEX], const struct rp_command_facts *facts)
{
    RP_JSON *j = json_pack("{s:[], s:[]}", "argv", "inputs");
    RP_BUF line = {0};
    for (int64_t i = 0; i < facts->argv_n; i++)
        json_array_append_new(json_object_get(j, "argv"), json_string(facts->argv[i]));
    for (int64_t i = 0; i < facts->file_n; i++)
        if (facts->file[i].process == 0 && strcmp(facts->file[i].role, "input") == 0)
            json_array_append_new(json_object_get(j, "inputs"), json_string(facts->file[i].sha256));
    rp_json_write_line(&line, j);
    rp_sha256_hex(out, line.data, line.size);
}

const char *rp_command_log_member(char out[RP_MEMBER_NAME], const struct rp_command_facts *facts)
{
    const struct rp_log_facts *log = facts->log;
    if (!log)
        return NULL;
    if (strcmp(log->from, "file") == 0)
        return log->file ? RP_LOG_FILE : NULL;
    if (log->process >= facts->process_n || !facts->process[log->process].standard_output)
        return NULL;
    return rp_member_name(out, "log/process", (int)log->process,
                          strcmp(log->from, "stdout") == 0 ? ".stdout" : ".stderr");
}

const struct rp_kept_facts *rp_command_log_kept(const struct rp_command_facts *facts)
{
    const struct rp_log_facts *log = facts->log;
    if (!log || strcmp(log->from, "file") == 0)
        return log ? log->file : NULL;
    if (log->process >= facts->process_n)
        return NULL;
    const struct rp_command_process *p = &facts->process[log->process];
    return strcmp(log->from, "stdout") == 0 ? p->standard_output : p->standard_error;
}

size_t rp_command_output_most(int64_t processes, int is_log)
{
    const size_t share = processes > 1 ? RP_BUNDLE_OUTPUT_MAX / (2 * (size_t)processes) : RP_BUNDLE_LOG_MAX;
    return is_log ? RP_BUNDLE_LOG_MAX : share;
}

/* Samples of all results together are few enough: those of a result that has too many are left out. */
static void bound_samples(json_t *rows)
{
    size_t i, room = SAMPLES_MOST;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const size_t n = json_array_size(json_object_get(row, "samples"));
        if (n <= room) {
            room -= n;
            continue;
        }
        json_object_del(row, "samples");
        json_object_del(row, "sample_groups");
    }
}

static int check_size(const json_t *results, const json_t *evidence, struct rp_err *why)
{
    RP_BUF text = {0};
    if (!json_array_size(results))
        return rp_fail(why, RP_MALFORMED, "the log has no results");
    if (json_array_size(results) > RESULTS_MOST)
        return rp_fail(why, RP_MALFORMED, "the log has %zu results; a bundle holds %d", json_array_size(results),
                       RESULTS_MOST);
    rp_json_write(&text, results);
    rp_json_write(&text, evidence);
    return text.size <= BYTES_MOST
               ? 0
               : rp_fail(why, RP_MALFORMED, "the results of the log take %zu bytes; a bundle holds %lu", text.size,
                         BYTES_MOST);
}

/* -1: the importer refuses the bytes. */
static int read_log(struct rp_log_figures *out, struct rp_import *im, const struct rp_log_facts *log,
                    const struct rp_buf *bytes, struct rp_err *why)
{
    const struct rp_import_opts o = {.from = log->first_step == RP_NO_INTEGER ? -1 : log->first_step,
                                     .to = log->last_step == RP_NO_INTEGER ? -1 : log->last_step,
                                     .set = (const char **)log->set,
                                     .sets = (int)log->set_n,
                                     .unit = log->unit};
    if (rp_import_memory(im, log->name, rp_buf_text(bytes), bytes->size, &o, why) < 0)
        return -1;
    RP_JSON *evidence = json_array(), *rows = rp_import_rows(im, evidence);
    bound_samples(rows);
    if (check_size(rows, evidence, why) < 0)
        return -1;
    out->result = json_incref(rows);
    out->evidence = json_incref(evidence);
    return 0;
}

int rp_command_log_reads(const struct rp_log_facts *log, const struct rp_buf *bytes)
{
    struct rp_err why = {0};
    struct rp_log_figures ignored;
    struct rp_import im = {.importer = rp_importer_find(log->format, &why)};
    rp_object_init(&ignored, &rp_type_log_figures);
    const int reads = im.importer && read_log(&ignored, &im, log, bytes, &why) == 0;
    if (im.importer)
        rp_import_fini(&im);
    rp_object_fini(&ignored, &rp_type_log_figures);
    return reads;
}

const char *rp_command_log_given(char text[160], const struct rp_log_facts *log)
{
    size_t n = 0;
    *text = 0;
    for (int64_t i = 0; i <= log->set_n; i++) {
        const char *one = i < log->set_n ? log->set[i] : log->unit;
        if (!one || n + 4 > 160)
            continue;
        n += (size_t)snprintf(text + n, 160 - n, "%s%.60s", n ? ", " : "", one);
    }
    if (log->first_step != RP_NO_INTEGER && n < 160)
        n += (size_t)snprintf(text + n, 160 - n, "%sfrom step %" PRId64, n ? ", " : "", log->first_step);
    if (log->last_step != RP_NO_INTEGER && n < 160)
        snprintf(text + n, 160 - n, "%sto step %" PRId64, n ? ", " : "", log->last_step);
    return text;
}

static int derive_log(struct rp_log_figures *out, const struct rp_log_facts *log, const struct rp_buf *bytes,
                      struct rp_err *why, struct rp_err *err)
{
    struct rp_import im = {.importer = rp_importer_find(log->format, err)};
    if (!im.importer) {
        err->code = RP_MISMATCH;
        return rp_wrap(err, "facts.json: log/format");
    }
    rp_sha256_hex(out->sha256, rp_buf_text(bytes), bytes->size);
    out->read = read_log(out, &im, log, bytes, why) == 0;
    if (!out->read) {
        out->result = json_array();
        out->evidence = json_array();
    }
    rp_import_fini(&im);
    return 0;
}

/* By the clock of process 0. What a process that is gone did not report is left out. */
static void derive_processes(struct rp_command_figures *out, const struct rp_command_facts *facts)
{
    int64_t from = INT64_MAX, to = 0;
    out->user_s = out->system_s = 0;
    out->peak_rss_bytes = 0;
    for (int64_t i = 0; i < facts->process_n; i++) {
        const struct rp_command_process *p = &facts->process[i];
        const int64_t apart = p->clock.monotonic_ns;
        if (p->start_ns == RP_NO_INTEGER || p->end_ns == RP_NO_INTEGER)
            continue;
        from = p->start_ns - apart < from ? p->start_ns - apart : from;
        to = p->end_ns - apart > to ? p->end_ns - apart : to;
        out->user_s += isnan(p->user_s) ? 0 : p->user_s;
        out->system_s += isnan(p->system_s) ? 0 : p->system_s;
        out->peak_rss_bytes = p->peak_rss_bytes > out->peak_rss_bytes ? p->peak_rss_bytes : out->peak_rss_bytes;
    }
    out->wall_s = to > from ? (double)(to - from) / 1e9 : 0;
    if (facts->ended_by < facts->process_n) {
        out->exit_status = facts->process[facts->ended_by].exit_status;
        out->signal = facts->process[facts->ended_by].signal;
    }
}

int rp_command_nodes(const struct rp_command_facts *facts)
{
    int64_t n = 1;
    for (int64_t i = 0; i < facts->process_n; i++)
        n = facts->process[i].node >= n ? facts->process[i].node + 1 : n;
    return (int)n;
}

int rp_derive_command(struct rp_command_figures *out, const struct rp_command_facts *facts,
                      const struct rp_captures *node, const struct rp_buf *log, struct rp_err *why, struct rp_err *err)
{
    rp_object_init(out, &rp_type_command_figures);
    rp_command_sha256(out->recipe_sha256, facts);
    derive_processes(out, facts);
    for (int64_t i = 0; i < facts->device_n; i++)
        (void)rp_object_add(&out->device, &out->device_n, &rp_type_device_figures);
    if (rp_derive_changes(&out->node, &out->node_n, node, rp_command_nodes(facts), err) < 0)
        return -1;
    if (!log)
        return 0;
    out->log = rp_alloc(sizeof *out->log);
    rp_object_init(out->log, &rp_type_log_figures);
    return derive_log(out->log, facts->log, log, why, err);
}

double rp_command_log_s(const struct rp_command_figures *figures)
{
    const json_t *one;
    size_t i;
    double most = 0;
    json_array_foreach(figures->log ? figures->log->evidence : NULL, i, one) {
        RP_READ(log_evidence, evidence, one);
        most = fmax(most, fmax(evidence.window.seconds, 60 * evidence.run.minutes)); /* of which it has one */
    }
    return most;
}

static int is_too_long(double seconds, const struct rp_command_figures *figures)
{
    return seconds > figures->wall_s * CLOCK_DRIFT + CLOCK_SLACK_S;
}

int rp_command_too_short(const struct rp_command_figures *figures)
{
    return is_too_long(rp_command_log_s(figures), figures);
}

/* The time of a result whose estimator is the mean of printed rates: one step for each. */
static double seconds_of_rates(const struct rp_log_result *result, const struct rp_log_evidence *evidence)
{
    const char *unit = rp_text_or_empty(result->throughput.unit);
    double samples = result->global_batch * evidence->printed.count;
    if (!isnan(evidence->window.seconds) || !(result->throughput.value > 0))
        return 0;
    if (rp_same_text(unit, "tokens/s"))
        samples *= result->sequence_length;
    else if (!rp_same_text(unit, "sequences/s") && !rp_same_text(unit, "images/s") && !rp_same_text(unit, "samples/s"))
        return 0;
    return isnan(samples) ? 0 : samples / result->throughput.value;
}

double rp_command_rates_s(const struct rp_command_figures *figures)
{
    const struct rp_log_figures *log = figures->log;
    const json_t *one;
    size_t i;
    double most = 0;
    if (!log || json_array_size(log->result) != json_array_size(log->evidence))
        return 0;
    json_array_foreach(log->result, i, one) {
        RP_READ(log_result, result, one);
        RP_READ(log_evidence, evidence, json_array_get(log->evidence, i));
        most = fmax(most, seconds_of_rates(&result, &evidence));
    }
    return is_too_long(most, figures) ? most : 0;
}
