/* nccl-tests: one result per size, out of place and in place. What it prints is a table whose head line names the
 * columns (they differ from version to version); its -J file is one JSON object, which also has the whole environment
 * of the process: nothing of that is used. Bandwidth is computed again from size and time; algorithm bandwidth times a
 * factor of the collective and the ranks is bus bandwidth. */
#include "base/json.h"
#include "base/text.h"
#include "import/import.h"
#include "import/scan.h"
#include "import/tagged.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX 64
#define JSON_MAX (64ul << 20)
#define UNIT "GB/s" /* of bus bandwidth, 1e9 bytes */

static const struct {
    const char *name;
    double of_ranks, less; /* factor: of_ranks * (n - less) / n, or 1 where of_ranks is 0 */
} collectives[] = {
    {"all_reduce", 2, 1}, {"all_gather", 1, 1}, {"reduce_scatter", 1, 1}, {"alltoall", 1, 1}, {"gather", 1, 1},
    {"scatter", 1, 1},    {"broadcast", 0, 0},  {"reduce", 0, 0},         {"sendrecv", 0, 0},
};

struct nccl {
    struct rp_buf json;          /* of a -J file */
    int is_json, columns;
    char column[WORDS_MAX][16];  /* names of the head line */
    int64_t rows;                /* of all runs */
    /* of the run at hand: a file may have several, one after the other */
    int64_t ranks, iterations, run_rows;
    json_t *hosts;               /* {name: 1}; launchers may place neighbouring ranks on different ones; NULL: none */
    char collective[24];
};

static void begin_run(struct nccl *s)
{
    json_decref(s->hosts);
    s->hosts = NULL;
    s->ranks = s->iterations = s->run_rows = 0;
    *s->collective = 0;
    s->columns = 0;
}

struct result { /* one cell: out of place or in place */
    int64_t size, line;
    const char *type, *op;
    double us, algbw, busbw, wrong; /* NaN: unknown */
    int in_place;
};

/* "./build/all_reduce_perf" */
static void take_collective(struct nccl *s, const char *program)
{
    program = rp_base_name(program);
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives && !*s->collective; i++) {
        size_t n = strlen(collectives[i].name);
        if (strncmp(program, collectives[i].name, n) == 0 && strncmp(program + n, "_perf", 5) == 0)
            snprintf(s->collective, sizeof s->collective, "%s", collectives[i].name);
    }
}

static void take_rank(struct rp_import_source *src, struct nccl *s, const char *host, size_t n, const char *device,
                      int64_t line)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), host);
    s->hosts = s->hosts ? s->hosts : json_object();
    json_object_set_new_nocheck(s->hosts, name, json_true());
    s->ranks++;
    rp_imported_text(&src->draft, "device_model", device, line);
}

/* ---- results ---- */

static double factor_of(const struct nccl *s)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(collectives[i].name, s->collective) == 0) {
            double n = (double)s->ranks;
            return collectives[i].of_ranks == 0 ? 1
                   : n > 1                      ? collectives[i].of_ranks * (n - collectives[i].less) / n
                                                : NAN;
        }
    return NAN;
}

static void put_bandwidth(const struct nccl *s, struct rp_imported *d, const struct result *r)
{
    double bus = (double)r->size / (r->us * 1e3) * factor_of(s);
    if (rp_is_figure(bus)) {
        /* both are printed: the time with at least 4 digits, the bandwidth with 2 decimals or 2 significant digits */
        double tolerance = 0.006 + 0.002 * bus + (r->busbw >= 1000 ? 0.05 * bus : r->busbw >= 100 ? 0.06 : 0);
        rp_imported_throughput(d, bus, UNIT, r->line, r->line);
        json_object_set_new(d->row, "estimator",
                            json_string("bus bandwidth: bytes / mean time, times the factor of the collective"));
        if (!isnan(r->busbw) && fabs(bus - r->busbw) > tolerance)
            rp_imported_note(d, "the log itself prints %.6g " UNIT, r->busbw);
    } else if (rp_is_figure(r->busbw)) {
        rp_imported_throughput(d, r->busbw, UNIT, r->line, r->line);
        json_object_set_new(d->row, "estimator", json_string("bus bandwidth as the log prints it"));
        rp_imported_note(d, *s->collective ? "the number of ranks is unknown" : "the collective is unknown");
    }
    if (rp_is_figure(r->busbw))
        rp_imported_beside(d, "printed",
                           json_pack("{s:f, s:s, s:I}", "value", r->busbw, "unit", UNIT, "count", (json_int_t)1));
}

static int put_result(struct rp_import_source *src, struct nccl *s, const struct result *r, struct rp_err *err)
{
    if (!(r->us > 0 && r->us < 1e15)) /* "N/A": not measured */
        return 0;
    char text[160];
    struct rp_imported d = {.row = json_deep_copy(src->draft.row),
                            .from = json_deep_copy(src->draft.from)}; /* facts of every result */
    d.row = d.row ? d.row : json_object();
    d.from = d.from ? d.from : json_object();
    if (s->ranks)
        rp_imported_count(&d, "devices", s->ranks, r->line);
    if (s->hosts)
        rp_imported_count(&d, "nodes", (int64_t)json_object_size(s->hosts), r->line);
    if (*s->collective)
        rp_imported_text(&d, "task", s->collective, r->line);
    snprintf(text, sizeof text, "%.24s %" PRId64 " B %.20s %.20s, %s", *s->collective ? s->collective : "collective",
             r->size, r->type, r->op, r->in_place ? "in place" : "out of place");
    rp_imported_text(&d, "label", text, r->line);
    rp_imported_real(&d, "latency_ms", r->us / 1e3, r->line);
    if (s->iterations > 0) {
        snprintf(text, sizeof text, "mean over %" PRId64 " iterations", s->iterations);
        json_object_set_new(d.row, "timed_window", json_string(text));
    }
    put_bandwidth(s, &d, r);
    if (r->wrong > 0)
        rp_imported_note(&d, "%.6g values are wrong", r->wrong);
    s->rows++;
    s->run_rows++;
    int failed = rp_import_add(src, &d, err) < 0;
    rp_imported_fini(&d);
    return failed ? -1 : 0;
}

/* ---- text ---- */

static int split_words(char *line, char **word)
{
    int n = 0;
    for (char *p = line + strspn(line, " \t"); *p && n < WORDS_MAX; p += strspn(p, " \t")) {
        word[n++] = p;
        p += strcspn(p, " \t");
        if (*p)
            *p++ = 0;
    }
    return n;
}

static void take_head(struct nccl *s, char *line)
{
    char *word[WORDS_MAX];
    int n = split_words(line + 1, word);
    if (n < 6 || strcmp(word[0], "size") != 0)
        return;
    s->columns = n;
    for (int i = 0; i < n; i++)
        snprintf(s->column[i], sizeof s->column[i], "%s", word[i]);
}

/* "#  Rank  0 Group  0 Pid   6899 on host device  0 [0000:04:00] NVIDIA H100 80GB HBM3" */
static void take_comment(struct rp_import_source *src, struct nccl *s, char *line)
{
    const char *on = rp_scan_after(line, " on "), *device = on ? rp_scan_after(on, "] ") : NULL, *at;
    const int begins =
        strstr(line, "Collective test starting: ") || strstr(line, "nThread ") || strstr(line, "Using devices");
    int64_t v;
    if (begins && (s->ranks || s->run_rows))
        begin_run(s);
    if (rp_scan_after(line, "Rank ") && device) {
        on += strspn(on, " ");
        take_rank(src, s, on, strcspn(on, " "), device, src->lines.number);
    } else if ((at = rp_scan_after(line, "Collective test starting: "))) {
        take_collective(s, at);
    } else if ((at = rp_scan_after(line, " iters: ")) && strstr(line, "nThread")) {
        const char *second = strstr(line, "warmup iters: ") ? rp_scan_after(at, " iters: ") : at;
        if (second && rp_scan_count(second, &v))
            s->iterations = v;
    } else if (strstr(line, "size") && strstr(line, "busbw")) {
        take_head(s, line);
    }
}

static double number_of(const char *word)
{
    double v;
    const char *end = rp_scan_real(word, &v);
    return end && !*end ? v : NAN;
}

/* A size and a count, or the beginning of such a line. Messages of NCCL, dates and names of hosts may begin with a
 * digit too. */
static int is_row(char *const *word, int n)
{
    for (int i = 0; i < n && i < 2; i++)
        if (word[i][strspn(word[i], "0123456789")])
            return 0;
    return 1;
}

static int table_line(struct rp_import_source *src, struct nccl *s, char *line, struct rp_err *err)
{
    char *word[WORDS_MAX];
    int n = split_words(line, word), named = s->columns, cells = 0;
    if (named && strcmp(s->column[named - 1], "timestamp") == 0) /* it is two words */
        named++;
    if (!is_row(word, n) && (!s->columns || n != named))
        return 0;
    if (!s->columns)
        return rp_lines_fail(&src->lines, err, "a line of numbers before the head line '# size count type ...'");
    if (n != named)
        return rp_lines_fail(&src->lines, err, "%d columns, but the head line names %d", n, named);
    struct result r = {
        .line = src->lines.number, .type = "", .op = "", .us = NAN, .algbw = NAN, .busbw = NAN, .wrong = NAN};
    const char *end = rp_scan_count(word[0], &r.size);
    if (!end || *end)
        return rp_lines_fail(&src->lines, err, "the size is not a number of bytes");
    for (int i = 1; i <= s->columns; i++) {
        const char *name = i < s->columns ? s->column[i] : "time"; /* the end closes the last cell */
        if (strcmp(name, "time") == 0 || strcmp(name, "cputime") == 0) {
            if (cells++ && put_result(src, s, &r, err) < 0)
                return -1;
            r.us = i < s->columns ? number_of(word[i]) : NAN;
            r.algbw = r.busbw = r.wrong = NAN;
            r.in_place = cells > 1;
        } else if (strcmp(name, "type") == 0) {
            r.type = word[i];
        } else if (strcmp(name, "redop") == 0) {
            r.op = word[i];
        } else if (strcmp(name, "busbw") == 0) {
            r.busbw = number_of(word[i]);
        } else if (strcmp(name, "#wrong") == 0) { /* "error", before 2.13, is the largest deviation */
            r.wrong = number_of(word[i]);
        }
    }
    return 0;
}

/* What follows the tag that a launcher puts before each line; NULL: there is none. "[1,0]<stdout>:" of mpirun, "0: " of
 * srun -l, "node1: " of pdsh, "2026-11-29T10:00:00.123456789Z " of kubectl logs. */
static const char *after_tag(const char *line)
{
    if (*line == '[')
        return rp_scan_after(line, "<stdout>:");
    const size_t n = strcspn(line, " \t");
    if (n < 2 || !line[n])
        return NULL;
    const int is_stamp = n > 19 && line[4] == '-' && line[10] == 'T' && isdigit((unsigned char)*line);
    const char next = line[n + strspn(line + n, " \t")];
    return is_stamp || (line[n - 1] == ':' && (next == '#' || isdigit((unsigned char)next))) ? line + n + 1 : NULL;
}

static int nccl_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct nccl *s = state;
    const char *tag = after_tag(line);
    size -= tag ? (size_t)(tag - line) : 0;
    line += tag ? tag - line : 0;
    char *p = line + strspn(line, " \t");
    if (*p == '{' && !s->rows && !s->columns)
        s->is_json = 1;
    if (s->is_json) {
        if (s->json.size + size > JSON_MAX)
            return rp_lines_fail(&src->lines, err, "more than %lu MiB of JSON", JSON_MAX >> 20);
        rp_buf_add(&s->json, line, size);
        rp_buf_add(&s->json, "\n", 1);
        return 0;
    }
    if (*p == '#')
        take_comment(src, s, p);
    return isdigit((unsigned char)*p) ? table_line(src, s, p, err) : 0; /* messages of NCCL and of mpirun lie between */
}

/* ---- JSON ---- */

static void take_config(struct rp_import_source *src, struct nccl *s, const struct rp_nccl_document *doc)
{
    if (doc->args_n && doc->args[0])
        take_collective(s, doc->args[0]);
    s->iterations = doc->config.iterations;
    for (int64_t i = 0; i < doc->config.devices_n; i++) {
        const struct rp_nccl_device *d = &doc->config.devices[i];
        take_rank(src, s, d->hostname ? d->hostname : "", d->hostname ? strlen(d->hostname) : 0,
                  d->device_info ? d->device_info : "", 1);
    }
}

static int json_cell(struct rp_import_source *src, struct nccl *s, const struct rp_nccl_result *one, int in_place,
                     struct rp_err *err)
{
    const struct rp_nccl_cell *cell = in_place ? one->in_place : one->out_of_place;
    double size = rp_tagged_real(one->size);
    if (!cell)
        return 0;
    if (!(size >= 0 && size < 1e15))
        return rp_lines_fail(&src->lines, err, "result %" PRId64 " has no 'size' in bytes", s->rows + 1);
    struct result r = {.size = (int64_t)size,
                       .line = 1,
                       .type = one->type ? one->type : "",
                       .op = one->redop ? one->redop : "",
                       .us = rp_tagged_real(cell->time ? cell->time : cell->cpu_time),
                       .busbw = rp_tagged_real(cell->bus_bw),
                       .wrong = rp_tagged_real(cell->nwrong),
                       .in_place = in_place};
    return put_result(src, s, &r, err);
}

static int read_json(struct rp_import_source *src, struct nccl *s, struct rp_err *err)
{
    struct rp_nccl_document doc;
    RP_JSON *json = rp_json_parse(s->json.data, s->json.size, src->lines.name, err);
    if (!json)
        return -1;
    rp_object_read(&doc, &rp_type_nccl_document, json);
    take_config(src, s, &doc);
    int failed = 0;
    for (int64_t i = 0; i < doc.results_n && !failed; i++)
        failed = json_cell(src, s, &doc.results[i], 0, err) < 0 || json_cell(src, s, &doc.results[i], 1, err) < 0;
    rp_object_fini(&doc, &rp_type_nccl_document);
    return failed ? -1 : 0;
}

static int nccl_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct nccl *s = state;
    if (s->is_json && read_json(src, s, err) < 0)
        return -1;
    if (!s->rows)
        return rp_fail(err, RP_MALFORMED, "%s: no line of a table of nccl-tests; is this the right format?",
                       src->lines.name);
    return 0;
}

static void nccl_fini(void *state)
{
    struct nccl *s = state;
    json_decref(s->hosts);
    rp_buf_fini(&s->json);
}

const struct rp_importer rp_importer_nccl = {
    .name = "nccl",
    .state = sizeof(struct nccl),
    .line = nccl_line,
    .end = nccl_end,
    .fini = nccl_fini,
};
