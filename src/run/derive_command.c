/* run.json of a command: what the importer of its log reads in the sealed bytes. */
#include "run/derive.h"

#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "import/import.h"

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
        if (strcmp(facts->file[i].role, "input") == 0)
            json_array_append_new(json_object_get(j, "inputs"), json_string(facts->file[i].sha256));
    rp_json_write_line(&line, j);
    rp_sha256_hex(out, line.data, line.size);
}

const char *rp_command_log_member(const struct rp_command_facts *facts)
{
    const struct rp_log_facts *log = facts->log;
    if (!log)
        return NULL;
    if (strcmp(log->from, "file") == 0)
        return log->file ? RP_LOG_FILE : NULL;
    return strcmp(log->from, "stdout") == 0 ? RP_LOG_STDOUT : RP_LOG_STDERR;
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

int rp_derive_command(struct rp_command_figures *out, const struct rp_command_facts *facts,
                      const struct rp_captures *node, const struct rp_buf *log, struct rp_err *why, struct rp_err *err)
{
    rp_object_init(out, &rp_type_command_figures);
    rp_command_sha256(out->recipe_sha256, facts);
    if (rp_derive_changes(&out->node, &out->node_n, node, 1, err) < 0)
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
        const json_t *seconds = rp_json_at(one, "window/seconds");
        most = json_number_value(seconds) > most ? json_number_value(seconds) : most;
    }
    return most;
}

int rp_command_too_short(const struct rp_command_facts *facts, const struct rp_command_figures *figures)
{
    return rp_command_log_s(figures) > facts->wall_s * CLOCK_DRIFT + CLOCK_SLACK_S;
}
