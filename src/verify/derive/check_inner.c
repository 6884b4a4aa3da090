/* The inner checks: values that are recomputed from signed members. */
#include "base/build.h"
#include "base/embed.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/schema.h"
#include "data/embedded_data.h"
#include "run/derive.h"
#include "run/run.h"
#include "sign/statement.h"
#include "verify/state.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of a capture: a real one of a large machine has some thousands. Those of all nodes are in memory at once. */
enum { CAPTURE_VALUES = 40000, CAPTURES_VALUES = 2000000 };

static const struct rp_buf *member_bytes(const struct rp_verify_state *s, const char *name)
{
    return &rp_bundle_find(&s->bundle, name)->bytes; /* the container check found every required member */
}

/* A member that is canonical and follows its schema; values: the most it may have. */
static json_t *load_document(const struct rp_verify_state *s, const char *name, const struct rp_schema *schema,
                             int64_t values, struct rp_err *err)
{
    const struct rp_buf *bytes = member_bytes(s, name);
    int own = 0, failed;
    json_t *j = schema ? rp_json_parse_own(rp_buf_text(bytes), bytes->size, values, &own, name, err) : NULL;
    failed = !j || rp_statement_version(j, name, err) < 0 || rp_schema_check(schema, j, name, err) < 0;
    if (!failed && !own)
        failed = rp_fail(err, RP_MALFORMED, "%s is not in canonical form (order, white space, numbers)", name);
    if (!failed)
        return j;
    json_decref(j);
    return NULL;
}

static int read_documents(struct rp_verify_state *s, struct rp_err *err)
{
    const int is_command = rp_bundle_kind(&s->bundle) == RP_BUNDLE_COMMAND;
    RP_JSON *facts = load_document(s, "facts.json", rp_facts_schema(is_command ? "command-facts" : "facts", err),
                                   RP_BUNDLE_VALUES_MAX, err);
    RP_JSON *run = facts ? load_document(s, "run.json", rp_facts_schema(is_command ? "command" : "run", err),
                                         RP_BUNDLE_VALUES_MAX, err)
                         : NULL;
    s->run.doc = !run         ? NULL
                 : is_command ? rp_run_documents_read_command(facts, run, err)
                              : rp_run_documents_read(facts, run, err);
    if (!s->run.doc)
        return -1;
    s->run.facts = &s->run.doc->facts;
    s->run.figures = &s->run.doc->figures;
    s->run.nodes = (int)(is_command ? s->run.figures->node_n : s->run.figures->world.nodes);
    s->run.node = rp_alloc((size_t)s->run.nodes * sizeof *s->run.node);
    if (is_command)
        rp_command_sha256(s->run.recipe_sha256, s->run.doc->command);
    else
        rp_sha256_hex(s->run.recipe_sha256, member_bytes(s, "recipe.yaml")->data, member_bytes(s, "recipe.yaml")->size);
    return 0;
}

/* Not a member of ranks (nodes), or one of the n that exist: "steps/rank12.jsonl" of "steps/rank". */
static int is_in_world(const char *name, const char *of, int64_t n)
{
    char *end;
    size_t size = strlen(of);
    return strncmp(name, of, size) != 0 || (name[size] && strtol(name + size, &end, 10) < n && *end == '.');
}

/* Records or captures of other ranks or nodes would be signed but not read by any check. */
static int check_world(const struct rp_verify_state *s, struct rp_err *err)
{
    const int64_t ranks = s->run.facts->rank_n;
    const struct rp_command_facts *c = s->run.doc->command;
    for (int i = 0; i < s->bundle.n; i++) {
        const char *name = s->bundle.member[i].name;
        if (c && (!is_in_world(name, "log/process", c->process_n) ||
                  !is_in_world(name, "telemetry/device", c->device_n)))
            return rp_fail(err, RP_MALFORMED,
                           "member '%s' is of a process or device that the command does not have (facts.json: %" PRId64
                           " processes, %" PRId64 " devices)",
                           name, c->process_n, c->device_n);
        if (!is_in_world(name, "steps/rank", ranks) || !is_in_world(name, "env/node", s->run.nodes))
            return rp_fail(err, RP_MALFORMED,
                           "member '%s' is of a rank or node that the run does not have (facts.json: %" PRId64
                           " ranks, %d nodes)",
                           name, ranks, s->run.nodes);
    }
    return 0;
}

/* Read as a stream: records may need more memory than there is. */
static int read_rank(struct rp_records *out, const struct rp_verify_state *s, int rank, struct rp_err *err)
{
    char sha256[RP_SHA256_HEX];
    const struct rp_member *steps = rp_bundle_find(&s->bundle, RP_OF_RANK(rank, ".jsonl"));
    struct rp_records_in in = {.out = out};
    *out = (struct rp_records){.rank = rank};
    if (!steps)
        return rp_fail(err, RP_MALFORMED, "the member '%s' is missing; facts.json has that rank",
                       RP_OF_RANK(rank, ".jsonl"));
    rp_member_sha256(sha256, steps);
    if (rp_bundle_again(s->fd, steps, rp_records_piece, &in, err) < 0) {
        rp_records_fini(out);
        return -1;
    }
    return rp_records_end(&in, sha256, err);
}

static int read_records(struct rp_verify_state *s, struct rp_err *err)
{
    struct rp_all_ranks *all = &s->run.ranks;
    rp_all_ranks_init(all, rp_facts_degrees(s->run.facts));
    if (rp_run_clocks(&all->clock, s->run.facts, err) < 0)
        return -1;
    all->keep = s->o->keep != NULL;
    for (int i = 0; i < all->ranks; i++) {
        struct rp_records one;
        if (read_rank(&one, s, i, err) < 0)
            return -1;
        if (one.n > rp_records_most(all->ranks)) {
            rp_records_fini(&one);
            return rp_fail(err, RP_MALFORMED, "steps/rank%d.jsonl has more records than one of %d ranks may have", i,
                           all->ranks);
        }
        if (rp_all_ranks_add(all, &s->run.records, &one, err) < 0)
            return -1;
    }
    return 0;
}

/* A run that failed may lack the captures of nodes after the first. */
static int read_nodes(struct rp_verify_state *s, struct rp_err *err)
{
    static const char *const what[] = {".before.json", ".after.json"};
    const int64_t each = CAPTURES_VALUES / 2 / s->run.nodes, values = each < CAPTURE_VALUES ? each : CAPTURE_VALUES;
    const struct rp_schema *schema = rp_schema_load("env", err);
    for (int i = 0; i < s->run.nodes; i++) {
        json_t **to[] = {&s->run.node[i].before, &s->run.node[i].after};
        for (int k = 0; k < 2; k++) {
            const char *name = RP_OF_NODE(i, what[k]);
            const int is_there = i == 0 || rp_bundle_find(&s->bundle, name) != NULL;
            if (!is_there && rp_facts_complete(s->run.facts))
                return rp_fail(err, RP_MALFORMED, "the member '%s' is missing; facts.json has that node", name);
            if (is_there && !(*to[k] = load_document(s, name, schema, i ? values : CAPTURE_VALUES, err)))
                return -1;
        }
    }
    return 0;
}

/* A member of log/ against facts.json: how many bytes are kept, and how many are left out. */
static int check_log_member(const struct rp_verify_state *s, const char *name, const struct rp_kept_facts *is,
                            size_t most, struct rp_err *err)
{
    const struct rp_member *m = rp_bundle_find(&s->bundle, name);
    if (!m != !is)
        return rp_fail(err, RP_MALFORMED, "member '%s' is %s, which contradicts facts.json", name,
                       m ? "there" : "missing");
    if (is && is->dropped > is->bytes)
        return rp_fail(err, RP_MALFORMED, "facts.json: of %s more bytes were dropped than there were", name);
    if (is && m->bytes.size > most)
        return rp_fail(err, RP_MALFORMED, "member '%s' has %zu bytes; of its process the bundle has %zu at most", name,
                       m->bytes.size, most);
    if (is && !is->hidden && (int64_t)m->bytes.size != is->bytes - is->dropped)
        return rp_fail(err, RP_MALFORMED, "member '%s' has %zu bytes; by facts.json it has %" PRId64, name,
                       m->bytes.size, is->bytes - is->dropped);
    return 0;
}

static int check_command(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_command_facts *c = s->run.doc->command;
    const char *log = rp_command_log_member((char[RP_MEMBER_NAME]){0}, c);
    for (int64_t i = 0; i < c->process_n; i++) {
        const struct rp_command_process *p = &c->process[i];
        const char *out = RP_OF_PROCESS((int)i, ".stdout"), *error = RP_OF_PROCESS((int)i, ".stderr");
        const size_t out_most = rp_command_output_most(c->process_n, log && strcmp(log, out) == 0),
                     error_most = rp_command_output_most(c->process_n, log && strcmp(log, error) == 0);
        if (check_log_member(s, out, p->standard_output, out_most, err) < 0 ||
            check_log_member(s, error, p->standard_error, error_most, err) < 0)
            return -1;
    }
    if (check_log_member(s, RP_LOG_FILE, c->log ? c->log->file : NULL, RP_BUNDLE_LOG_MAX, err) < 0)
        return -1;
    if (!c->argv_n)
        return rp_fail(err, RP_MALFORMED, "facts.json: argv is missing");
    if (c->launch ? c->launch->size != c->process_n : c->process_n != 1)
        return rp_fail(err, RP_MALFORMED, "facts.json: %" PRId64 " processes, but the launcher started %" PRId64,
                       c->process_n, c->launch ? c->launch->size : 1);
    return rp_check_text(result, "facts.json, run.json and %d captures follow their schemas", 2 * s->run.nodes);
}

int rp_check_schema(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    if (read_documents(s, err) < 0 || check_world(s, err) < 0 || read_nodes(s, err) < 0)
        return -1;
    if (s->run.doc->command)
        return check_command(s, result, err);
    if (read_records(s, err) < 0)
        return -1;
    if (rp_recipe_from_json(&s->run.recipe, s->run.facts->recipe, err) < 0)
        return rp_wrap(err, "facts.json");
    if (s->run.recipe.train_batch_size == RP_BATCH_MAX)
        s->run.recipe.train_batch_size = s->run.facts->plan.batch;
    return rp_check_text(result, "facts.json, run.json, %" PRId64 " records and %d captures follow their schemas",
                         s->run.records.n, 2 * s->run.nodes);
}

/* ---- settings ---- */

/* Resolves recipe.yaml with the recorded overrides, and with the recorded values of a model.config, which are the
 * signer's word. */
static json_t *resolve_again(const struct rp_verify_state *s, int *overrides, int *configured, struct rp_err *err)
{
    const struct rp_buf *yaml = member_bytes(s, "recipe.yaml");
    struct rp_recipe r;
    const char *key;
    json_t *entry, *out = NULL;
    RP_JSON *config = json_object();
    int n = 0;
    char **set = rp_alloc((json_object_size(s->run.facts->recipe) + 1) * sizeof *set);
    json_object_foreach(s->run.facts->recipe, key, entry) {
        const struct rp_recorded is = rp_recorded(entry);
        if (strcmp(is.origin, rp_origin_name(RP_FROM_CONFIG)) == 0)
            json_object_set(config, key, (json_t *)is.value);
        if (strcmp(is.origin, rp_origin_name(RP_FROM_COMMAND_LINE)) != 0)
            continue;
        RP_FREE char *value = rp_recipe_value_text(is.value);
        set[n++] = rp_asprintf("%s=%s", key, value);
    }
    if (rp_recipe_parse_again(&r, rp_buf_text(yaml), yaml->size, "recipe.yaml", config, s->run.facts->backend,
                              (const char *const *)set, n, err) == 0) {
        const struct rp_challenge_facts *c = s->run.facts->challenge;
        out =
            c && rp_recipe_challenge(&r, c->nonce, c->parts, s->v->fingerprint, err) < 0 ? NULL : rp_recipe_to_json(&r);
        rp_recipe_fini(&r);
    }
    *overrides = n;
    *configured = (int)json_object_size(config);
    for (int i = 0; i < n; i++)
        free(set[i]);
    free(set);
    return out;
}

/* The embedded recipe with these bytes, or NULL. */
static const struct rp_embed *embedded_as(const struct rp_buf *yaml)
{
    const struct rp_embed *e = rp_embed_table;
    while (e->name && !(e->size == yaml->size && yaml->size && memcmp(e->data, yaml->data, e->size) == 0))
        e++;
    return e->name ? e : NULL;
}

/* The run claims an embedded recipe of that name, but this program's differs. That contradicts a run of the same
 * build. Another build may have had another recipe of that name; results are compared by name, so that is a note. */
static int check_other_recipe(const struct rp_verify_state *s, const char *name, struct rp_check_result *result,
                              struct rp_err *err)
{
    const struct rp_build *here = rp_build_record();
    const char *version = s->run.facts->tool.version, *commit = s->run.facts->tool.commit;
    RP_FREE char *path = rp_asprintf("recipes/%s.yaml", name);
    if (strcmp(version, here->version) == 0 && strcmp(commit, here->commit) == 0 && strcmp(here->dirty, "clean") == 0)
        return rp_fail(err, RP_MISMATCH,
                       "recipe.yaml is not the recipe '%.64s' of this program, although the run names this version "
                       "(%s, commit %.12s)",
                       name, here->version, here->commit);
    if (rp_embed_find(path))
        return rp_check_note(result,
                             "recipe.yaml is NOT the recipe '%.64s' of this program (%s); the run was made by %.64s: "
                             "compare the recipes before results under that name",
                             name, here->version, version);
    return rp_check_note(
        result, "the run names the embedded recipe '%.64s', which this program (%s) lacks; it was made by %.64s", name,
        here->version, version);
}

/* What the run has of its own, and no recipe of this program has. The number of samples in a step changes what it does
 * to the model, not the work on a sample. */
static const char *find_own_setting(const struct rp_verify_state *s, const struct rp_embed *same)
{
    const char *key;
    json_t *entry;
    if (!same)
        return "recipe.yaml";
    json_object_foreach(s->run.facts->recipe, key, entry)
        if (strcmp(key, "train.batch_size") != 0 && strcmp(key, "train.accumulation_steps") != 0 &&
            rp_setting_changed_by(key, entry))
            return key;
    return NULL;
}

/* recipe.yaml gives the recorded settings, and these what run.json says of model and arithmetic. *n: set on the
 * command line; *configured: by a model.config. */
static int check_resolved(struct rp_verify_state *s, int *n, int *configured, struct rp_err *err)
{
    char text[400];
    RP_JSON *again = resolve_again(s, n, configured, err);
    if (!again) {
        err->code = RP_MISMATCH; /* it was a valid recipe when it ran */
        return rp_wrap(err, "resolving recipe.yaml again");
    }
    RP_JSON *is = json_deep_copy(s->run.facts->recipe);
    rp_recipe_hide_paths(is); /* recipe.yaml may have names that facts.json has not */
    rp_recipe_hide_paths(again);
    if (rp_check_differ(text, sizeof text, is, again))
        return rp_fail(err, RP_MISMATCH, "facts.json does not follow from recipe.yaml: recipe/%s", text);
    return rp_verify_follows(s, RP_CHECK_recipe, err);
}

int rp_check_recipe(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    static const char prefix[] = "embedded:";
    const char *name = s->run.facts->recipe_name;
    const struct rp_embed *same = embedded_as(member_bytes(s, "recipe.yaml"));
    int n, configured;
    if (check_resolved(s, &n, &configured, err) < 0)
        return -1;
    const char *own = find_own_setting(s, same);
    snprintf(s->v->own_setting, sizeof s->v->own_setting, "%.60s", own ? own : "");
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        name += sizeof prefix - 1;
        RP_FREE char *path = rp_asprintf("recipes/%s.yaml", name);
        if (!same || strcmp(same->name, path) != 0)
            return check_other_recipe(s, name, result, err);
    }
    RP_FREE char *what = same ? rp_asprintf("%s of this program", same->name) : rp_strdup("recipe.yaml");
    if (configured)
        return rp_check_note(
            result,
            "%s, %d keys set on the command line, %d by a model.config that is not in the bundle: the signer's "
            "word",
            what, n, configured);
    return rp_check_text(result, n ? "%s, %d key%s set on the command line" : "%s, unchanged", what, n, rp_s(n));
}

/* ---- ranks ---- */

/* The share of the samples that the place of a rank gives it. */
static int check_rank(const struct rp_verify_state *s, int i, struct rp_err *err)
{
    const int64_t micros = rp_recipe_micro_batches(&s->run.recipe), data = s->run.ranks.degrees.data,
                  d = i / s->run.ranks.degrees.tensor % data;
    const int64_t own = (micros * (d + 1) / data - micros * d / data) * s->run.recipe.train_batch_size;
    if (s->run.records.n < 2 || (int64_t)s->run.ranks.share[i].samples == own)
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "rank %d trained %" PRIu64 " samples a step; its place among %" PRId64 " gives it %" PRId64, i,
                   s->run.ranks.share[i].samples, data, own);
}

/* With several ranks each step has the time in exchanges. */
static int check_exchange_times(const struct rp_verify_state *s, struct rp_err *err)
{
    for (int64_t i = 0; i < s->run.records.n && s->run.ranks.ranks > 1; i++)
        if (s->run.records.r[i].step >= 0 && rp_record_times(&s->run.records, &s->run.records.r[i]).exchange_ns < 0)
            return rp_fail(err, RP_MISMATCH, "step %d lacks exchange_ns, the time in exchanges with other ranks",
                           s->run.records.r[i].step);
    return 0;
}

int rp_check_ranks(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const int ranks = s->run.ranks.ranks;
    if (rp_verify_follows(s, RP_CHECK_ranks, err) < 0)
        return -1;
    for (int i = 0; i < ranks; i++)
        if (check_rank(s, i, err) < 0)
            return -1;
    if (check_exchange_times(s, err) < 0 || rp_verify_world(s, result, err) < 0)
        return -1;
    if (result->state != RP_CHECK_PASSED)
        return 0;
    if (ranks == 1 && s->run.records.n < 2)
        return rp_check_not_applicable(result, "one rank, and no step is recorded");
    if (ranks == 1)
        return rp_check_text(result, "one rank, which trained every sample of its steps");
    const struct rp_rank_share *slow = &s->run.ranks.share[s->run.ranks.slowest];
    const double percent = slow->span_ns ? 100.0 / (double)slow->span_ns : 0;
    char waiting[48] = "unknown how much of that waiting";
    if (slow->wait_ns >= 0)
        RP_FORMAT(waiting, "%.1f %% waiting", (double)slow->wait_ns * percent);
    return rp_check_text(
        result,
        "%d ranks (%d x %d x %d, data x tensor x pipeline) agree; the slowest is rank %d, with %.1f %% of its timed "
        "steps in exchanges, %s",
        ranks, s->run.ranks.degrees.data, s->run.ranks.degrees.tensor, s->run.ranks.degrees.pipeline,
        s->run.ranks.slowest, (double)slow->exchange_ns * percent, waiting);
}

int rp_check_predicate(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char hex[RP_SHA256_HEX], text[400];
    const struct rp_buf *run = member_bytes(s, "run.json");
    (void)result;
    rp_sha256_hex(hex, run->data, run->size);
    RP_JSON *again = rp_statement_predicate(s->run.doc->facts_json, s->run.doc->figures_json, hex);
    if (rp_check_differ(text, sizeof text, json_object_get(s->statement, "predicate"), again))
        return rp_fail(err, RP_MISMATCH, "the statement's predicate does not follow from facts.json and run.json: %s",
                       text);
    return 0;
}

/* By the clock of process 0, with what is not known of the clocks. */
static int ended_before(const struct rp_command_process *a, const struct rp_command_process *b)
{
    const int64_t a_error = a->clock.error_ns > 0 ? a->clock.error_ns : 0,
                  error = a_error + (b->clock.error_ns > 0 ? b->clock.error_ns : 0);
    return a->end_ns - a->clock.monotonic_ns + error < b->end_ns - b->clock.monotonic_ns;
}

static int failed_by_itself(const struct rp_command_process *p)
{
    return p->exit_status != 0 && !p->stopped;
}

/* A process has one end, and that of the command is the first that failed by itself; one that is gone has no times. */
static int check_ends(const struct rp_command_facts *c, struct rp_err *err)
{
    const struct rp_command_process *last = &c->process[c->ended_by];
    const char *why = NULL;
    int64_t failed = 0;
    for (int64_t i = 0; i < c->process_n; i++) {
        const struct rp_command_process *p = &c->process[i];
        const int ends = (p->exit_status != RP_NO_INTEGER) + (p->signal != RP_NO_INTEGER),
                  is_gone = p->start_ns == RP_NO_INTEGER;
        if (ends > 1 || (ends == 0) != is_gone)
            return rp_fail(err, RP_MISMATCH, "process %" PRId64 " %s", i,
                           ends > 1  ? "ended in two ways"
                           : is_gone ? "has an end, but no times"
                                     : "has times, but no end");
        failed += p->exit_status != 0;
        if (!is_gone && last->start_ns != RP_NO_INTEGER && failed_by_itself(p) && ended_before(p, last))
            why = "which failed after another";
    }
    if (!failed && c->ended_by)
        why = "and none failed";
    if (failed && !failed_by_itself(last))
        why = last->stopped ? "which was stopped after another had failed" : "which did not fail";
    return why ? rp_fail(err, RP_MISMATCH, "the end of the command is said to be that of process %" PRId64 ", %s",
                         c->ended_by, why)
               : 0;
}

int rp_check_status(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_facts *f = s->run.facts;
    if (s->run.doc->command && check_ends(s->run.doc->command, err) < 0)
        return -1;
    if (!rp_facts_complete(f))
        return rp_check_note(result, "the run is marked %s: %s", f->status, f->reason ? f->reason : "no reason given");
    if (f->reason)
        return rp_fail(err, RP_MISMATCH, "the run is marked complete, but gives a reason for ending early");
    const struct rp_command_facts *c = s->run.doc->command;
    for (int64_t i = 0; c && i < c->process_n; i++)
        if (c->process[i].exit_status != 0 || c->process[i].stopped)
            return rp_fail(err, RP_MISMATCH,
                           "the command is marked complete, but process %" PRId64 " did not exit with status 0", i);
    return rp_check_text(result, "complete");
}

/* Damaged samples are counted where the recipe allows to replace them, and nowhere else. */
static int check_skipped(const struct rp_verify_state *s, struct rp_err *err)
{
    const int known = s->run.facts->skipped_samples != RP_NO_INTEGER, wanted = s->run.recipe.data_skip_damaged;
    if (known ? wanted : !wanted || !rp_facts_complete(s->run.facts))
        return 0;
    return rp_fail(err, RP_MISMATCH, "data.skip_damaged is %s, but skipped_samples is %s", wanted ? "true" : "false",
                   known ? "recorded" : "null");
}

/* The types of tensors that a file of --init can have, each once. */
static int check_init_types(const struct rp_verify_state *s, struct rp_err *err)
{
    static const char *const types[] = {"F32", "F16", "BF16"};
    const struct rp_init_facts *is = s->run.facts->init;
    for (int64_t i = 0; is && i < is->types_n; i++) {
        int known = RP_IS_IN(types, is->types[i], strlen(is->types[i]));
        for (int64_t k = 0; k < i; k++)
            known = known && strcmp(is->types[i], is->types[k]) != 0;
        if (!known)
            return rp_fail(err, RP_MISMATCH,
                           "facts.json: init/types/%" PRId64 " is not one of F32, F16 and BF16, or is there twice", i);
    }
    return 0;
}

/* Both forms of the loss scale of that file are one number. */
static int check_init_scale(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_init_facts *is = s->run.facts->init;
    const json_t *value = rp_json_at(s->run.doc->facts_json, "init/loss_scale/scale/value");
    if (!is || !is->loss_scale || json_number_value(value) == (double)is->loss_scale->scale)
        return 0;
    return rp_fail(err, RP_MISMATCH, "facts.json: init/loss_scale/scale is %.9g as a number, but %.9g by its bits",
                   json_number_value(value), (double)is->loss_scale->scale);
}

int rp_check_data(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_data_facts *data = &s->run.facts->data;
    const char *wanted = json_string_value(rp_facts_setting(s->run.facts, "data.sha256"));
    const char *own = json_string_value(rp_facts_setting(s->run.facts, "data.path"));
    const char *archive = json_string_value(rp_facts_setting(s->run.facts, "data.archive"));
    if (check_skipped(s, err) < 0 || check_init_types(s, err) < 0 || check_init_scale(s, err) < 0)
        return -1;
    if (!data->pinned)
        return rp_check_note(result, "not pinned: the owner's own samples, digest %s", data->digest);
    if (!wanted || strcmp(data->archive_sha256, wanted) != 0 || !data->archive || !archive ||
        strcmp(data->archive, archive) != 0 || (own && *own))
        return rp_fail(err, RP_MISMATCH, "facts.json marks the samples as pinned, but the settings do not pin them");
    const char *here = rp_embedded_digest(data->archive_sha256);
    const int other = here && strcmp(here, data->digest) != 0;
    if (other && rp_embedded_is_remade(&s->run.recipe))
        return rp_check_note(result,
                             "pinned, archive %s, made again for task.seq_length %" PRId64
                             "; the digest of its samples is checked only by --replay",
                             data->archive_sha256, s->run.recipe.task_seq_length);
    if (other)
        return rp_fail(err, RP_MISMATCH, "the samples of archive %.16s... have the digest %s, facts.json has %.64s",
                       data->archive_sha256, here, data->digest);
    if (here)
        return rp_check_text(result, "pinned, archive %s; its samples have the recorded digest", data->archive_sha256);
    return rp_check_note(result, "pinned, archive %s; the digest of its samples is checked only by --replay",
                         data->archive_sha256);
}
