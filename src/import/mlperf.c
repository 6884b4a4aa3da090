/* Scores and machines of MLPerf training results. */
#include "import/mlperf.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS 60000.0
#define RUNS_MOST 40

/* Runs of a result, and how many of the fastest, and of the slowest, do not count. A run that did not converge is one
 * of the slowest. */
static const struct rule {
    const char *benchmark;
    int runs, drop;
} rules[] = {
    {"bert", 10, 1},
    {"deepseekv3_671b", 3, 1},
    {"dlrm", 5, 1},
    {"dlrm_dcnv2", 10, 1},
    {"flux1", 10, 1},
    {"gnn", 10, 1},
    {"gnmt", 10, 1},
    {"gpt3", 3, 1},
    {"gpt_oss_20b", 10, 1},
    {"llama2_70b_lora", 10, 1},
    {"llama31_405b", 3, 1},
    {"llama31_8b", 10, 1},
    {"maskrcnn", 5, 1},
    {"minigo", 10, 1},
    {"ncf", 10, 1},
    {"resnet", 5, 1},
    {"retinanet", 5, 1},
    {"rgat", 10, 1},
    {"rnnt", 10, 1},
    {"ssd", 5, 1},
    {"stable_diffusion", 10, 1},
    {"transformer", 10, 1},
    {"unet3d", RUNS_MOST, 4},
};

static const struct rule *rule_of(const char *benchmark)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].benchmark, benchmark) == 0)
            return &rules[i];
    return NULL;
}

/* ---- one run ---- */

void rp_mlperf_event(struct rp_mlperf_event *e, double ms, int64_t line)
{
    if (isnan(ms))
        return;
    if (!e->line) {
        e->ms = ms;
        e->line = line;
    } else if (!e->other_line && ms != e->ms) {
        e->other_ms = ms;
        e->other_line = line;
    }
}

static void note_second_run(struct rp_imported *d, const struct rp_mlperf_run *r)
{
    const struct rp_mlperf_event *e = r->start.other_line ? &r->start : &r->stop;
    const double other = r->start.other_line ? r->stop.ms - e->other_ms : e->other_ms - r->start.ms;
    rp_imported_note(d,
                     "lines %" PRId64 " and %" PRId64
                     " both have a %s: the time to train is %.6g or %.6g minutes; give each run as a file",
                     e->line, e->other_line, e == &r->start ? "run_start" : "run_stop",
                     (r->stop.ms - r->start.ms) / MINUTE_MS, other / MINUTE_MS);
}

/* Minutes of a run that succeeded; NaN: there are none, and a note has the reason. */
static double minutes_of(struct rp_imported *d, const struct rp_mlperf_run *r)
{
    const double minutes = (r->stop.ms - r->start.ms) / MINUTE_MS;
    if (!r->stop.line) {
        rp_imported_note(d, "no run_stop: the run did not end, or the log is cut off");
    } else if (r->start.other_line || r->stop.other_line) {
        note_second_run(d, r);
    } else if (!(minutes > 0 && minutes < 1e9)) {
        rp_imported_note(d, "run_stop, line %" PRId64 ", is not after run_start, line %" PRId64, r->stop.line,
                         r->start.line);
    } else if (strcmp(r->status, "success") != 0) {
        rp_imported_note(d, "run of %.6g minutes, status %.20s", minutes, *r->status ? r->status : "unknown");
    } else {
        return minutes;
    }
    return NAN;
}

void rp_mlperf_run(struct rp_imported *d, const struct rp_mlperf_run *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!r->start.line)
        return;
    const double minutes = minutes_of(d, r);
    json_t *run = json_object();
    if (minutes > 0) {
        rp_imported_real(d, "time_to_train_min", minutes, r->start.line);
        json_object_set_new(d->from, "time_to_train_min",
                            json_pack("[I, I]", (json_int_t)r->start.line, (json_int_t)r->stop.line));
        json_object_set_new(run, "minutes", json_real(minutes));
    }
    const int is_one = !r->start.other_line && !r->stop.other_line;
    const char *const texts[][2] = {{"benchmark", r->benchmark},
                                    {"division", r->division},
                                    {"platform", r->platform},
                                    {"status", r->stop.line && is_one ? r->status : ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i][1])
            json_object_set_new(run, texts[i][0], json_string(texts[i][1]));
    if (is_one)
        json_object_set_new(run, "started_ms", json_integer((json_int_t)r->start.ms));
    rp_imported_beside(d, "run", run);
    if (*r->benchmark)
        d->same = rp_asprintf("%.*s\n%s\n%s", slash ? (int)(slash - path) : 0, path, r->benchmark, r->org);
}

/* ---- the score ---- */

struct timed {
    double minutes;
    const char *file;
};

/* The name of a log without its folder, which the runs share. */
static const char *leaf_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

static int compare_minutes(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    return x->minutes < y->minutes ? -1 : x->minutes > y->minutes;
}

static const json_t *run_of(const struct rp_imported *d)
{
    return json_object_get(d->extra, "run");
}

/* A fact, or what the log says of its run, as text: "unknown" where it says nothing. */
static char *value_of(const struct rp_imported *d, const char *key)
{
    RP_BUF text = {0};
    const json_t *v = json_object_get(d->row, key);
    v = v ? v : json_object_get(run_of(d), key);
    if (v)
        rp_json_write_plain(&text, v);
    else
        rp_buf_puts(&text, "unknown");
    return rp_buf_take(&text);
}

/* Runs of one result have one setting and one machine. */
static int is_mixed(struct rp_buf *note, const struct rp_imported *const *run, int n)
{
    static const char *const keys[] = {"global_batch", "platform", "division", "nodes", "gpus_per_node"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int k = 1; k < n; k++) {
            RP_FREE char *first = value_of(run[0], keys[i]), *other = value_of(run[k], keys[i]);
            if (strcmp(first, other) == 0)
                continue;
            rp_buf_printf(note, "no score: %s is %.60s in %.60s and %.60s in %.60s", keys[i], first,
                          leaf_of(run[0]->file), other, leaf_of(run[k]->file));
            return 1;
        }
    return 0;
}

/* Mean of the sorted times without the fastest and the slowest; NaN: more failed than may be dropped. */
static double mean_of(const struct timed *t, int n, const struct rule *rule)
{
    double sum = 0;
    int last = rule->runs - rule->drop;
    if (n < last)
        return NAN;
    for (int i = rule->drop; i < last; i++)
        sum += t[i].minutes;
    return sum / (last - rule->drop);
}

static void describe_score(struct rp_buf *note, const struct timed *t, int n, const struct rule *rule,
                           const char *failed)
{
    rp_buf_printf(note, "score: the mean of %d of %d runs, without ", rule->runs - 2 * rule->drop, rule->runs);
    if (rule->drop > 1)
        rp_buf_printf(note, "the %d fastest and the %d slowest", rule->drop, rule->drop);
    else
        rp_buf_printf(note, "the fastest (%.80s, %.6g min) and ", t->file, t->minutes);
    if (rule->drop > 1 && n < rule->runs)
        rp_buf_printf(note, ", of which %d did not converge", rule->runs - n);
    else if (rule->drop == 1 && n < rule->runs)
        rp_buf_printf(note, "%.80s, which did not converge", failed);
    else if (rule->drop == 1)
        rp_buf_printf(note, "the slowest (%.80s, %.6g min)", t[n - 1].file, t[n - 1].minutes);
}

static void put_score(json_t *row, struct rp_buf *note, const struct rp_imported *const *run, const struct rule *rule)
{
    struct timed t[RUNS_MOST];
    const char *failed = NULL, *unclear = NULL;
    int n = 0, unclear_runs = 0;
    for (int i = 0; i < rule->runs; i++) {
        RP_READ(mlperf_said, said, run_of(run[i]));
        if (said.minutes > 0) {
            t[n++] = (struct timed){said.minutes, leaf_of(run[i]->file)};
        } else if (*rp_text_or_empty(said.status) && strcmp(said.status, "success") != 0) {
            failed = leaf_of(run[i]->file);
        } else {
            unclear = leaf_of(run[i]->file);
            unclear_runs++;
        }
    }
    qsort(t, (size_t)n, sizeof *t, compare_minutes);
    const double score = mean_of(t, n, rule);
    if (isnan(score)) {
        rp_buf_printf(note, "no score: %d of %d runs have no time to train, and the rule allows %d", rule->runs - n,
                      rule->runs, rule->drop);
    } else if (unclear) {
        rp_buf_printf(note,
                      "no score: %.80s has no end with a status%s; if that is a run that did not converge, the score "
                      "is %.6g minutes",
                      unclear, unclear_runs > 1 ? ", and others neither" : "", score);
    } else {
        json_object_set_new(row, "score_min", json_real(score));
        describe_score(note, t, n, rule, failed);
    }
}

void rp_mlperf_merge(json_t *row, struct rp_buf *note, const struct rp_imported *const *run, int n)
{
    RP_READ(mlperf_said, first, run_of(run[0]));
    const char *benchmark = rp_text_or_empty(first.benchmark);
    const struct rule *rule = rule_of(benchmark);
    if (!*benchmark || (n == 1 && isnan(first.minutes)))
        return;
    if (n > 1)
        json_object_del(row, "time_to_train_min");
    if (!rule)
        rp_buf_printf(note, "no score: how many runs MLPerf asks for is not known for '%.40s'", benchmark);
    else if (n != rule->runs)
        rp_buf_printf(note, "no score: MLPerf's rule for %s is %d runs, not %d", benchmark, rule->runs, n);
    else if (!is_mixed(note, run, n))
        put_score(row, note, run, rule);
}

/* ---- the machine ---- */

static void put_fact(struct rp_imported *d, const char *key, const json_t *v, int64_t line, const char *file)
{
    const json_t *was = json_object_get(d->row, key);
    struct rp_imported one = {0};
    rp_tagged_fact(&one, key, v, line);
    const json_t *is = json_object_get(one.row, key);
    if (!is) {
    } else if (!was) {
        rp_tagged_fact(d, key, v, line);
        if (!line)
            json_object_set_new(d->from, key, json_string(file));
    } else if (json_is_integer(was) && !json_equal(was, is)) { /* names of one thing differ often */
        rp_imported_note(d, "%s is %lld, but %s has %lld", key, json_integer_value(was), line ? "SYSJSON" : file,
                         json_integer_value(is));
    }
    rp_imported_fini(&one);
}

void rp_mlperf_system(struct rp_imported *d, const struct rp_mlperf_system *s, int64_t line, const char *file)
{
    const int64_t devices = rp_imported_get(d, "devices");
    put_fact(d, "nodes", s->number_of_nodes, line, file);
    put_fact(d, "gpus_per_node", s->accelerators_per_node, line, file);
    RP_JSON *model = json_string(s->accelerator_model_name ? s->accelerator_model_name : "");
    RP_JSON *framework = json_string(s->framework ? s->framework : "");
    put_fact(d, "device_model", model, line, file);
    put_fact(d, "framework", framework, line, file);
    if (devices < 0)
        rp_imported_infer(d);
}

/* "NAME" of ".../systems/NAME.json". */
static char *name_of_system(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return rp_asprintf("%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
}

int rp_mlperf_add_system(struct rp_import_source *src, const struct rp_buf *text, struct rp_err *err)
{
    RP_FREE char *name = name_of_system(src->path);
    /* Published descriptions give keys twice: the last counts, as in Python. */
    RP_JSON *j = json_loadb(rp_buf_text(text), text->size, 0, NULL);
    if (!json_object_get(j, "number_of_nodes") || !json_object_get(j, "accelerators_per_node"))
        return rp_fail(
            err, RP_MALFORMED,
            "%s: neither a log with lines of :::MLLOG nor a description of a system, systems/NAME.json of MLPerf: an "
            "object with number_of_nodes and accelerators_per_node",
            src->lines.name);
    if (!src->import->systems)
        src->import->systems = json_object();
    if (json_object_get(src->import->systems, name))
        return rp_fail(err, RP_USAGE, "%s: a description of the system '%s' is given twice", src->lines.name, name);
    json_object_set(src->import->systems, name, j);
    return 0;
}

/* The folder of a result's logs, as in results/NAME/BENCHMARK. */
struct result_folder {
    const char *name, *within; /* NAME; "results", or what there is in its place */
    int name_n, within_n;
};

static const char *name_before(const char *from, const char *end)
{
    while (end > from && end[-1] != '/')
        end--;
    return end;
}

static struct result_folder folder_of(const struct rp_imported *d)
{
    const char *path = d->same, *end = path + strcspn(path, "\n");
    const char *benchmark = name_before(path, end), *name_end = benchmark > path ? benchmark - 1 : path,
               *name = name_before(path, name_end);
    const char *within_end = name > path ? name - 1 : path, *within = name_before(path, within_end);
    return (struct result_folder){name, within, (int)(name_end - name), (int)(within_end - within)};
}

static int is_text(const char *text, int n, const char *word)
{
    return (int)strlen(word) == n && strncmp(text, word, (size_t)n) == 0;
}

/* The description of a draft's machine: the one named as its folder, or the only one if no folder has a name of its
 * own. */
static const char *system_of(const struct rp_import *im, const struct rp_imported *d)
{
    const struct result_folder f = folder_of(d);
    const char *name = NULL;
    json_t *value;
    json_object_foreach(im->systems, name, value) {
        if (is_text(f.name, f.name_n, name))
            return name;
    }
    name = json_object_iter_key(json_object_iter(im->systems));
    if (json_object_size(im->systems) > 1 || is_text(f.within, f.within_n, "results"))
        return NULL;
    for (int i = 0; i < im->n; i++) {
        const struct result_folder other = im->draft[i].same ? folder_of(&im->draft[i]) : f;
        if (other.name_n != f.name_n || strncmp(other.name, f.name, (size_t)f.name_n) != 0)
            return NULL;
    }
    return name;
}

static int find_copies(const struct rp_import *im, struct rp_err *err)
{
    for (int i = 1; i < im->n; i++)
        for (int k = 0; k < i; k++) {
            const struct rp_imported *a = &im->draft[k], *b = &im->draft[i];
            RP_READ(mlperf_said, x, run_of(a));
            RP_READ(mlperf_said, y, run_of(b));
            if (!rp_same_text(a->same, b->same) || x.started_ms == RP_NO_INTEGER || x.started_ms != y.started_ms)
                continue;
            return rp_fail(err, RP_USAGE, "'%s' and '%s' are the same run: both have the run_start of %lld", a->file,
                           b->file, (long long)x.started_ms);
        }
    return 0;
}

int rp_mlperf_finish(struct rp_import *im, struct rp_err *err)
{
    if (json_object_size(im->systems) && !im->n)
        return rp_fail(err, RP_USAGE,
                       "no logs with these descriptions of systems: name results/NAME/BENCHMARK/result_*.txt too");
    if (find_copies(im, err) < 0)
        return -1;
    for (int i = 0; i < im->n && json_object_size(im->systems); i++) {
        struct rp_imported *d = &im->draft[i];
        if (!d->same)
            continue;
        const char *name = system_of(im, d);
        if (!name)
            return rp_fail(err, RP_USAGE, "'%s': no description of its system: add systems/%.*s.json", d->file,
                           folder_of(d).name_n, folder_of(d).name);
        RP_FREE char *file = rp_asprintf("%s.json", name);
        RP_READ(mlperf_system, system, json_object_get(im->systems, name));
        rp_mlperf_system(d, &system, 0, file);
    }
    return 0;
}
