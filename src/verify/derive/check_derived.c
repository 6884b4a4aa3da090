/* run.json, derived again from the other members. Each check of the derived values sees its own part of the document.
 * */
#include "run/derive.h"

#include "base/json.h"
#include "base/text.h"
#include "verify/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MEDIAN_MOST 1.05  /* times the rate of all windows: above that it is not noise */
#define MEDIAN_LEAST 60.0 /* seconds of windows, since other work can slow half of a short run down */
#define BETWEEN_MOST 0.1  /* of the time: as for a run that is limited by its input */
#define BETWEEN_LEAST 1.0 /* seconds: the system may stop a short run for some tenths of it */

/* ---- whose a value is ---- */

enum {
    NO_CHECK = -1,
    ON_CPU = -2,      /* `memory`, which computes what a CPU allocates */
    GIVEN_LEDGER = -3 /* `ledger`, where --ledger has the entry */
};

/* The first row that matches the beginning of a pointer; * is any name. A value that no other check explains is of
 * `numbers`. */
static const struct owner {
    const char *path;
    int check;
} of_figures[] = {
    {"node/*/change/*/impact", NO_CHECK}, /* grades, which other versions may assign differently */
    {"node/*/change/*/varies", NO_CHECK},
    {"agreement/environment/*/impact", NO_CHECK},
    {"agreement/environment/*/varies", NO_CHECK},
    {"agreement", RP_CHECK_agreement},
    {"rank/*/telemetry", RP_CHECK_telemetry},
    {"device", RP_CHECK_telemetry}, /* of a command */
    {"telemetry", RP_CHECK_telemetry},
    {"rank", RP_CHECK_ranks},
    {"world", RP_CHECK_ranks},
    {"peak_rss_bytes", RP_CHECK_ranks},
    {"node", RP_CHECK_changes},
    {"ceilings", RP_CHECK_ceilings},
    {"model/parameters", RP_CHECK_plan},
    {"model/flops_per_sample", RP_CHECK_plan},
    {"model/hardware_flops_per_sample", RP_CHECK_plan},
    {"numerics", RP_CHECK_recipe},
    {"model", RP_CHECK_recipe},
    {"recipe_sha256", RP_CHECK_recipe},
    {"", RP_CHECK_numbers},
};

/* Facts that a check computes from other members, or compares with what the verifier has; where it passes, they are no
 * claims. */
static const struct owner of_facts[] = {
    {"schema", RP_CHECK_schema},
    {"recipe", RP_CHECK_recipe},
    {"layout", RP_CHECK_ranks},
    {"plan/available_bytes", NO_CHECK},
    {"plan/batch", RP_CHECK_memory},
    {"plan/bytes", RP_CHECK_memory},
    {"plan", ON_CPU},
    {"data", RP_CHECK_data},
    {"rank/*/device/tensor_core/sums_sha256", RP_CHECK_environment},
    {"tensor_root", RP_CHECK_state_roots},
    {"challenge", RP_CHECK_challenge},
    {"replicates/bundle", NO_CHECK},
    {"replicates", RP_CHECK_agreement},
    {"ledger/overlapping", NO_CHECK},
    {"ledger/container_layer", NO_CHECK},
    {"ledger", GIVEN_LEDGER},
    {"", NO_CHECK},
};

static int matches_path(const char *pattern, const char *path)
{
    while (*pattern) {
        const size_t n = strcspn(path, "/"), k = strcspn(pattern, "/");
        if (!*path || (*pattern != '*' && (n != k || strncmp(pattern, path, n) != 0)))
            return 0;
        pattern += k + (pattern[k] == '/');
        path += n + (path[n] == '/');
    }
    return 1;
}

static int owner_of(const struct owner *rows, const char *path)
{
    while (!matches_path(rows->path, path))
        rows++;
    return rows->check;
}

static int is_owned(const char *path, int check)
{
    return owner_of(of_figures, path) == check;
}

/* No other check explains the figures of a command but the changes of its machine and its devices. */
static int is_owned_of_command(const char *path, int check)
{
    const int owner = owner_of(of_figures, path);
    const int has_own = owner == NO_CHECK || owner == RP_CHECK_changes || owner == RP_CHECK_telemetry;
    return (has_own ? owner : RP_CHECK_numbers) == check;
}

/* ---- the figures ---- */

struct rp_verify_derived {
    struct rp_figures figures;
    json_t *json;
    int failed, equal; /* equal: to run.json, except for an agreement */
    struct rp_err why; /* of the figures that need records and settings to agree */
    struct rp_err telemetry;
    struct rp_err log; /* why the importer does not read the log of a command; code RP_OK: it does, or there is none */
};

void rp_verify_derived_free(struct rp_verify_derived *d)
{
    if (!d)
        return;
    rp_object_fini(&d->figures, &rp_type_figures);
    json_decref(d->json);
    free(d);
}

/* From the sealed bytes of the log; `figures` has what checks of captures read. */
static void derive_command(struct rp_verify_state *s, struct rp_verify_derived *d)
{
    const struct rp_command_facts *facts = s->run.doc->command;
    char at[RP_MEMBER_NAME];
    const char *name = rp_command_log_member(at, facts);
    const struct rp_member *log = name ? rp_bundle_find(&s->bundle, name) : NULL;
    struct rp_command_figures figures;
    d->failed = rp_derive_command(&figures, facts, s->run.node, log ? &log->bytes : NULL, &d->log, &d->why) < 0;
    if (!d->failed) {
        if (rp_verify_read_devices(s, &figures, &d->telemetry) < 0)
            RP_BUG_IF(d->telemetry.code == RP_OK);
        rp_derive_devices(&figures);
        d->json = rp_object_json(&figures, &rp_type_command_figures);
        json_object_set_new(d->json, "schema", json_string(RP_COMMAND_SCHEMA));
        rp_object_read(&d->figures, &rp_type_figures, d->json);
        d->equal = json_equal(d->json, s->run.doc->figures_json);
    }
    rp_object_fini(&figures, &rp_type_command_figures);
}

static struct rp_verify_derived *derive_figures(struct rp_verify_state *s)
{
    if (s->derived)
        return s->derived;
    struct rp_verify_derived *d = s->derived = rp_alloc(sizeof *d);
    if (s->run.doc->command) {
        derive_command(s, d);
        return d;
    }
    d->failed = rp_derive(&d->figures, &s->run, &d->why) < 0;
    if (d->failed)
        return d;
    if (rp_verify_read_telemetry(s, &d->figures, &d->telemetry) < 0)
        RP_BUG_IF(d->telemetry.code == RP_OK);
    rp_derive_telemetry_of_all(&d->figures, s->run.facts, &s->run.records);
    d->json = rp_object_json(&d->figures, &rp_type_figures);
    json_object_set_new(d->json, "schema", json_string(RP_FIGURES_SCHEMA));
    if (s->run.figures->agreement)
        json_object_set(d->json, "agreement", json_object_get(s->run.doc->figures_json, "agreement"));
    d->equal = json_equal(d->json, s->run.doc->figures_json);
    return d;
}

const struct rp_figures *rp_verify_figures(struct rp_verify_state *s)
{
    const struct rp_verify_derived *d = derive_figures(s);
    return d->failed ? NULL : &d->figures;
}

int rp_verify_follows(struct rp_verify_state *s, enum rp_check_id check, struct rp_err *err)
{
    char text[400];
    const struct rp_verify_derived *d = derive_figures(s);
    if (d->failed) {
        *err = d->why;
        return check == RP_CHECK_numbers ? -1 : 0; /* one check reports that there is nothing to compare with */
    }
    if (check == RP_CHECK_telemetry && d->telemetry.code != RP_OK) {
        *err = d->telemetry;
        return -1;
    }
    if (!d->equal && rp_check_differ_where(text, sizeof text, s->run.doc->figures_json, d->json,
                                           s->run.doc->command ? is_owned_of_command : is_owned, check))
        return rp_fail(err, RP_MISMATCH, "run.json does not follow from the other members: %s", text);
    return 0;
}

/* What the bundle has of the log of a command, and what the importer made of it. */
static int check_log(const struct rp_verify_derived *d, const struct rp_run_documents *doc,
                     struct rp_check_result *result)
{
    const struct rp_log_facts *log = doc->command->log;
    if (!log)
        return rp_check_not_applicable(result, "no log was named (--log): the bundle has no figure of speed");
    if (!doc->observed->log)
        return rp_check_note(result, "the command wrote no log '%.100s'", log->name);
    const struct rp_kept_facts *kept = rp_command_log_kept(doc->command);
    const int64_t n = (int64_t)json_array_size(doc->observed->log->result);
    char lacks[80] = "", given[160];
    if (kept && kept->dropped)
        RP_FORMAT(lacks, ", which lacks %" PRId64 " of %" PRId64 " bytes in its middle", kept->dropped, kept->bytes);
    if (!doc->observed->log->read)
        return rp_check_note(result, "the importer '%.31s' finds no figure in the log%s: %.300s", log->format, lacks,
                             d->log.msg);
    /* a batch that the log does not have gives it any speed */
    if (n && *rp_command_log_given(given, log))
        return rp_check_note(result,
                             "%" PRId64 " result%s recomputed from the log%s; the signer's word, not the log's: %s", n,
                             rp_s(n), lacks, given);
    if (*lacks)
        return rp_check_note(result, "%" PRId64 " result%s recomputed from the log%s", n, rp_s(n), lacks);
    return rp_check_text(result, "%" PRId64 " result%s of the command's own log recomputed by the importer '%.31s'", n,
                         rp_s(n), log->format);
}

/* The share of the time that lies before the timed windows, since the window before or, of the first one, since the
 * program waited for its samples; 0 where it is short. State roots have a check of their own. */
static double share_between_windows(const struct rp_records *rs)
{
    int64_t inside = 0, between = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i], *before = i && r[-1].timed ? r - 1 : NULL,
                                    *next = i + 1 < rs->n && r[1].repeat == r->repeat ? r + 1 : NULL;
        if (!r->timed)
            continue;
        inside += rp_cycle_ns(r, next);
        if (!before)
            between += r->input_ns;
        else if (before->repeat != r->repeat)
            between += r->start_ns - before->end_ns - before->root_ns;
    }
    const double s = (double)between / 1e9;
    return s < BETWEEN_LEAST ? 0 : s / (s + (double)inside / 1e9);
}

/* How many times the samples over the seconds of all windows the throughput is, their median: a run that is slow in
 * less than half of its windows shows the speed of the others. 1 where there is little to judge by. */
static double median_over_mean(const struct rp_results *r)
{
    double samples = 0, seconds = 0;
    for (int64_t i = 0; i < r->windows_n; i++) {
        samples += (double)r->windows[i].samples;
        seconds += r->windows[i].seconds;
    }
    return seconds < MEDIAN_LEAST ? 1 : r->throughput.value * seconds / samples;
}

int rp_check_numbers(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char limit[100] = "";
    const struct rp_input_figures *input = &s->run.figures->results.input;
    if (rp_verify_follows(s, RP_CHECK_numbers, err) < 0)
        return -1;
    if (s->run.doc->command)
        return check_log(s->derived, s->run.doc, result);
    if (input->limited_by && strcmp(input->limited_by, "input") == 0)
        RP_FORMAT(limit, "; limited by its input, %.1f %% of the timed steps", input->share * 100);
    else if (input->limited_by && strcmp(input->limited_by, "exchange") == 0)
        RP_FORMAT(limit, "; limited by exchanges between ranks, %.1f %% of the timed steps",
                  input->exchange_share * 100);
    const double between = share_between_windows(&s->run.records);
    if (between > BETWEEN_MOST)
        return rp_check_warn(result,
                             "%.1f %% of the time lies before and between the timed windows, whose throughput leaves "
                             "it out, loading included: longer windows count it (measure.timed_steps)%s",
                             100 * between, limit);
    const double median = median_over_mean(&s->run.figures->results);
    if (median > MEDIAN_MOST)
        return rp_check_warn(result,
                             "the throughput, the median of %" PRId64 " timed windows, is %.1f %% above the samples "
                             "over the seconds of all of them: some windows were much slower%s",
                             s->run.figures->results.windows_n, 100 * (median - 1), limit);
    return rp_check_text(result, "every figure recomputed from %" PRId64 " records%s%s", s->run.records.n,
                         rp_verify_starts_from_file(s) ? "" : "; learning rates are those of the schedule", limit);
}

static int is_of_agreement(const char *path, int what)
{
    (void)what;
    RP_FREE char *at = rp_asprintf("agreement/%s", path);
    return is_owned(at, RP_CHECK_agreement);
}

int rp_verify_agreement_differs(char *text, size_t size, const json_t *is, const json_t *expected)
{
    return rp_check_differ_where(text, size, is, expected, is_of_agreement, 0);
}

/* ---- claims ---- */

int rp_verify_starts_from_file(const struct rp_verify_state *s)
{
    return s->run.recipe.run_init && *s->run.recipe.run_init;
}

/* Whether a check passed that computes the fact, or compares it with what the verifier gave. */
static int is_covered(const struct rp_verify_state *s, const char *path)
{
    int check = owner_of(of_facts, path);
    if (strcmp(path, "data/digest") == 0 && s->v->replayed > 0)
        return 1;
    if (check == GIVEN_LEDGER)
        return s->v->ledger != NULL;
    if (check == ON_CPU)
        check = rp_rank_on_cpu(s->run.facts, 0) ? RP_CHECK_memory : NO_CHECK;
    if (check == RP_CHECK_agreement) /* a note where equal bits may be copied */
        return s->v->original;
    return check >= 0 && s->v->check[check].state == RP_CHECK_PASSED;
}

static int is_present(const json_t *v)
{
    return v && !json_is_null(v) && (!json_is_array(v) || json_array_size(v));
}

/* An object has a value of that name, or an element of a list has one. */
static int has_value(const json_t *of, const char *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)of, i, one)
        if (is_present(json_object_get(one, name)))
            return 1;
    return is_present(json_object_get(of, name));
}

/* Names of the facts below `path` that are the signer's word; whether all are that are said. */
static int list_claims(struct rp_buf *out, const struct rp_verify_state *s, const struct rp_object_type *type,
                       const json_t *is, const char *path)
{
    int all = 1;
    for (int i = 0; i < type->n; i++) {
        const char *name = type->field[i].name;
        RP_FREE char *at = rp_asprintf("%s/%s", path, name);
        const int covered = is_covered(s, at);
        if (!has_value(is, name))
            continue;
        all &= !covered;
        if (!covered)
            rp_buf_printf(out, "%s%s", out->size ? " " : "", name);
    }
    return all;
}

/* "status, elapsed_s, tool, plan (available_bytes), rank (node device cpus)": a part by its name where all of it is
 * the signer's word, but what is said of a rank by names. */
static void add_claims(struct rp_buf *out, const struct rp_verify_state *s)
{
    const struct rp_object_type *type = s->run.doc->command ? &rp_type_command_facts : &rp_type_facts;
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        const json_t *v = json_object_get(s->run.doc->facts_json, f->name);
        RP_BUF parts = {0};
        if (!is_present(v) || (!f->of && is_covered(s, f->name)))
            continue;
        const int all = !f->of || list_claims(&parts, s, f->of, v, f->name);
        if (f->of && !parts.size)
            continue;
        rp_buf_printf(out, "%s%s", out->size ? ", " : "", f->name);
        if (f->of && (!all || f->type == RP_IS_LIST))
            rp_buf_printf(out, " (%s)", rp_buf_text(&parts));
    }
}

/* What of the records was not trained again. */
static void describe_replayed(char out[120], const struct rp_verify_state *s)
{
    const int64_t steps = rp_records_steps(&s->run.records), from = s->v->replay_from, again = s->v->replayed;
    static const char what[] = "; counters, losses, gradient norms and state roots";
    *out = 0;
    if (s->v->replayed_parts > 1 && again < steps)
        snprintf(out, 120, "%s except of %" PRId64 " parts", what, s->v->replayed_parts);
    else if (again == 0 && steps > 0)
        snprintf(out, 120, "%s unless replayed", what);
    else if (again == 1 && steps > 1 && !from)
        snprintf(out, 120, "%s after the first step", what);
    else if (again < steps && !from)
        snprintf(out, 120, "%s after the first %" PRId64 " steps", what, again);
    else if (again < steps)
        snprintf(out, 120, "%s except of steps %" PRId64 " to %" PRId64, what, from, from + again - 1);
}

/* Values that a consistent forger could have invented, listed with every verdict. */
int rp_check_claims(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char rest[120];
    RP_BUF facts = {0};
    (void)err;
    add_claims(&facts, s);
    if (s->run.doc->command)
        return rp_check_note(result,
                             "not recomputed, the signer's word: what the command did, its output and its log, "
                             "captures%s; of facts.json %s",
                             s->run.figures->telemetry ? ", telemetry" : "", rp_buf_text(&facts));
    describe_replayed(rest, s);
    return rp_check_note(
        result, "not recomputed, the signer's word: when steps began and ended, captures%s%s%s; of facts.json %s",
        s->run.figures->telemetry ? ", telemetry" : "",
        rp_verify_starts_from_file(s) && *rest ? ", learning rates" : "", rest, rp_buf_text(&facts));
}
