/* The inner checks: values that are recomputed from signed members. */
#include "base/build.h"
#include "base/embed.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/schema.h"
#include "data/embedded_data.h"
#include "report/report.h"
#include "run/results.h"
#include "run/run_json.h"
#include "run/world.h"
#include "sign/statement.h"
#include "verify/state.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of a capture: a real one of a large machine has some thousands. Those of all nodes are in memory at once. */
enum { CAPTURE_VALUES = 40000, CAPTURES_VALUES = 2000000 };

static const struct rp_buf *member(const struct rp_verify_state *s, const char *name)
{
    return &rp_bundle_find(&s->bundle, name)->bytes; /* the container check found every required member */
}

/* A member that is canonical and follows its schema; values: the most it may have. */
static json_t *load_document(const struct rp_verify_state *s, const char *name, const char *schema_name, int64_t values, struct rp_err *err)
{
    const struct rp_buf *bytes = member(s, name);
    int own = 0, failed;
    json_t *j = rp_json_parse_own(rp_buf_text(bytes), bytes->size, values, &own, name, err);
    const struct rp_schema *schema = rp_schema_load(schema_name, err);
    failed = !j || rp_statement_version(j, name, err) < 0 || !schema || rp_schema_check(schema, j, name, err) < 0;
    if (!failed && !own)
        failed = rp_fail(err, RP_MALFORMED, "%s is not in canonical form (order, white space, numbers)", name);
    if (!failed)
        return j;
    json_decref(j);
    return NULL;
}

/* Not a member of ranks (nodes), or one of the n that exist: "steps/rank12.jsonl" of "steps/rank". */
static int is_in_world(const char *name, const char *of, int n)
{
    char *end;
    size_t size = strlen(of);
    return strncmp(name, of, size) != 0 || (name[size] && strtol(name + size, &end, 10) < n && *end == '.');
}

/* Records or captures of other ranks or nodes would be signed but not read by any check. */
static int check_world(const struct rp_verify_state *s, struct rp_err *err)
{
    int ranks = (int)json_integer_value(rp_json_at(s->run.json, "world/ranks"));
    int nodes = (int)json_integer_value(rp_json_at(s->run.json, "world/nodes"));
    if (nodes > ranks)
        return rp_fail(err, RP_MALFORMED, "run.json: the run has %d ranks on %d nodes", ranks, nodes);
    for (int i = 0; i < s->bundle.n; i++) {
        const char *name = s->bundle.member[i].name;
        if (!is_in_world(name, "steps/rank", ranks) || !is_in_world(name, "env/node", nodes))
            return rp_fail(err, RP_MALFORMED, "member '%s' is of a rank or node that the run does not have (world: %d ranks, %d nodes)",
                           name, ranks, nodes);
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
        return rp_fail(err, RP_MALFORMED, "the member '%s' is missing; run.json has that rank", RP_OF_RANK(rank, ".jsonl"));
    rp_member_sha256(sha256, steps);
    if (rp_bundle_again(s->fd, steps, rp_records_piece, &in, err) < 0) {
        rp_records_fini(out);
        return -1;
    }
    return rp_records_end(&in, sha256, err);
}

static int read_records(struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_degrees d = rp_run_layout(s->run.json);
    if ((int64_t)d.data * d.tensor * d.pipeline != rp_run_ranks(s->run.json))
        return rp_fail(err, RP_MALFORMED, "run.json: %d x %d x %d ranks are not %" PRId64, d.data, d.tensor, d.pipeline,
                       rp_run_ranks(s->run.json));
    rp_all_ranks_init(&s->run.ranks, d);
    if (s->run.ranks.ranks > 1 && rp_run_clocks(&s->run.ranks.clock, &s->run, s->run.ranks.ranks, err) < 0)
        return -1;
    s->run.ranks.keep = s->o->keep != NULL;
    for (int i = 0; i < s->run.ranks.ranks; i++) {
        struct rp_records one;
        if (read_rank(&one, s, i, err) < 0)
            return -1;
        if (one.n > rp_records_most(s->run.ranks.ranks)) {
            rp_records_fini(&one);
            return rp_fail(err, RP_MALFORMED, "steps/rank%d.jsonl has more records than a run of several ranks may have", i);
        }
        if (rp_all_ranks_add(&s->run.ranks, &s->run.records, &one, err) < 0)
            return -1;
    }
    return 0;
}

/* Of a run that failed, the captures of nodes after the first that are there. */
static int read_nodes(struct rp_verify_state *s, struct rp_err *err)
{
    static const char *const what[] = {".before.json", ".after.json"};
    const int complete = rp_run_is_complete(s->run.json), nodes = (int)rp_json_integer_at(s->run.json, "world/nodes");
    const int64_t each = CAPTURES_VALUES / 2 / nodes, values = each < CAPTURE_VALUES ? each : CAPTURE_VALUES;
    s->run.node = rp_alloc((size_t)nodes * sizeof *s->run.node);
    s->run.nodes = nodes;
    for (int i = 0; i < nodes; i++) {
        json_t **to[] = {&s->run.node[i].before, &s->run.node[i].after};
        for (int k = 0; k < 2; k++) {
            const char *name = RP_OF_NODE(i, what[k]);
            const int is_there = i == 0 || rp_bundle_find(&s->bundle, name) != NULL;
            if (!is_there && complete)
                return rp_fail(err, RP_MALFORMED, "the member '%s' is missing; run.json has that node", name);
            if (is_there && !(*to[k] = load_document(s, name, "env", i ? values : CAPTURE_VALUES, err)))
                return -1;
        }
    }
    return 0;
}

int rp_check_schema(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    s->run.json = load_document(s, "run.json", "run", RP_BUNDLE_VALUES_MAX, err);
    if (!s->run.json || check_world(s, err) < 0)
        return -1;
    if (read_nodes(s, err) < 0 || read_records(s, err) < 0)
        return -1;
    if (rp_recipe_from_json(&s->run.recipe, json_object_get(s->run.json, "recipe"), err) < 0)
        return rp_wrap(err, "run.json");
    if (s->run.recipe.train_batch_size == RP_BATCH_MAX)
        s->run.recipe.train_batch_size = json_integer_value(rp_json_at(s->run.json, "plan/batch"));
    return rp_check_text(result, "run.json, %" PRId64 " records and %d captures follow their schemas", s->run.records.n,
                         2 * s->run.nodes);
}

/* ---- settings ---- */

/* Resolves recipe.yaml with the recorded overrides, and with the recorded values of a model.config, which are the signer's word. */
static json_t *resolve_again(const struct rp_verify_state *s, int *overrides, int *configured, struct rp_err *err)
{
    const struct rp_buf *yaml = member(s, "recipe.yaml");
    struct rp_recipe r;
    const char *key;
    json_t *entry, *out = NULL;
    RP_JSON *config = json_object();
    int n = 0;
    char **set = rp_alloc((json_object_size(json_object_get(s->run.json, "recipe")) + 1) * sizeof *set);
    json_object_foreach(json_object_get(s->run.json, "recipe"), key, entry) {
        const char *origin = json_string_value(json_object_get(entry, "origin"));
        if (strcmp(origin, rp_origin_name(RP_FROM_CONFIG)) == 0)
            json_object_set(config, key, json_object_get(entry, "value"));
        if (strcmp(origin, rp_origin_name(RP_FROM_COMMAND_LINE)) != 0)
            continue;
        RP_FREE char *value = rp_recipe_value_text(json_object_get(entry, "value"));
        set[n++] = rp_asprintf("%s=%s", key, value);
    }
    if (rp_recipe_parse_again(&r, rp_buf_text(yaml), yaml->size, "recipe.yaml", config,
                              json_string_value(json_object_get(s->run.json, "backend")), (const char *const *)set, n,
                              err) == 0) {
        const char *nonce = json_string_value(rp_json_at(s->run.json, "challenge/nonce"));
        out = nonce && rp_recipe_challenge(&r, nonce, s->v->fingerprint, err) < 0 ? NULL : rp_recipe_to_json(&r);
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

/* The run claims an embedded recipe of that name, but this program's differs. That contradicts a run of the same build. Another build may
 * have had another recipe of that name; results are compared by name, so that is a note. */
static int check_other_recipe(const struct rp_verify_state *s, const char *name, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_build *here = rp_build_record();
    const char *version = rp_json_text_at(s->run.json, "tool/version"),
               *commit = rp_json_text_at(s->run.json, "tool/commit");
    RP_FREE char *path = rp_asprintf("recipes/%s.yaml", name);
    if (strcmp(version, here->version) == 0 && strcmp(commit, here->commit) == 0 && strcmp(here->dirty, "clean") == 0)
        return rp_fail(err, RP_MISMATCH, "recipe.yaml is not the recipe '%.64s' of this program, although the run names this version "
                                         "(%s, commit %.12s)", name, here->version, here->commit);
    if (rp_embed_find(path))
        return rp_check_note(result,
                             "recipe.yaml is NOT the recipe '%.64s' of this program (%s); the run was made by %.64s: compare the recipes "
                             "before results under that name",
                             name, here->version, version);
    return rp_check_note(result, "the run names the embedded recipe '%.64s', which this program (%s) lacks; it was made by %.64s", name,
                         here->version, version);
}

/* What the run has of its own, and no recipe of this program has. The number of samples in a step changes what it does to the model, not the
 * work on a sample. */
static const char *find_own_setting(const struct rp_verify_state *s, const struct rp_embed *same)
{
    static const char *const sizes[] = {"train.batch_size", "train.accumulation_steps"};
    const char *by, *key = rp_run_changed_setting(s->run.json, &by);
    if (!same)
        return "recipe.yaml";
    return key && strcmp(key, sizes[0]) != 0 && strcmp(key, sizes[1]) != 0 ? key : NULL;
}

int rp_check_recipe(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char hex[RP_SHA256_HEX], text[400];
    const char *recorded = json_string_value(json_object_get(s->run.json, "recipe_sha256"));
    const struct rp_buf *yaml = member(s, "recipe.yaml");
    int n, configured;
    rp_sha256_hex(hex, yaml->data, yaml->size);
    if (strcmp(hex, recorded) != 0)
        return rp_fail(err, RP_MISMATCH, "run.json names a recipe with SHA-256 %.16s..., recipe.yaml has %.16s...", recorded, hex);
    RP_JSON *again = resolve_again(s, &n, &configured, err);
    if (!again) {
        err->code = RP_MISMATCH; /* it was a valid recipe when it ran */
        return rp_wrap(err, "resolving recipe.yaml again");
    }
    RP_JSON *is = json_deep_copy(json_object_get(s->run.json, "recipe"));
    rp_recipe_hide_folders(is); /* recipe.yaml may have folders that run.json has not */
    rp_recipe_hide_folders(again);
    if (rp_check_differ(text, sizeof text, is, again))
        return rp_fail(err, RP_MISMATCH, "run.json does not follow from recipe.yaml: %s", text);
    RP_JSON *model = rp_run_model(&s->run.recipe);
    if (rp_check_differ(text, sizeof text, json_object_get(s->run.json, "model"), model))
        return rp_fail(err, RP_MISMATCH, "model in run.json does not follow from the recipe: model/%s", text);
    if (strcmp(rp_json_text_at(s->run.json, "numerics"), rp_run_numerics(&s->run.recipe)) != 0)
        return rp_fail(err, RP_MISMATCH, "numerics is '%.40s', expected '%s' for the recipe's precision",
                       rp_json_text_at(s->run.json, "numerics"), rp_run_numerics(&s->run.recipe));
    static const char prefix[] = "embedded:";
    const char *name = json_string_value(json_object_get(s->run.json, "recipe_name"));
    const struct rp_embed *same = embedded_as(yaml);
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
        return rp_check_note(result, "%s, %d keys set on the command line, %d by a model.config that is not in the bundle: the signer's "
                                     "word",
                             what, n, configured);
    return rp_check_text(result, n ? "%s, %d key%s set on the command line" : "%s, unchanged", what, n, rp_s(n));
}

/* ---- ranks ---- */

/* The values of `expected` are those of `is`, which may have more. */
static int has_values(char *text, size_t size, const json_t *is, const json_t *expected)
{
    const char *key;
    json_t *v;
    char one[200];
    json_object_foreach((json_t *)expected, key, v)
        if (rp_check_differ(one, sizeof one, json_object_get(is, key), v)) {
            snprintf(text, size, "%s: %s", key, one);
            return 0;
        }
    return 1;
}

/* Rank i of run.json: its figures, and the share of the samples that its place gives it. */
static int check_rank(const struct rp_verify_state *s, int i, struct rp_err *err)
{
    const json_t *is = json_array_get(rp_json_at(s->run.json, "world/rank"), (size_t)i);
    const int64_t micros = rp_recipe_micro_batches(&s->run.recipe), data = s->run.ranks.degrees.data,
                  d = i / s->run.ranks.degrees.tensor % data;
    const int64_t own = micros * (d + 1) / data - micros * d / data;
    RP_JSON *expected = rp_world_rank_of_records(&s->run.ranks.share[i]);
    char text[260];
    json_object_set_new(expected, "rank", json_integer(i));
    if (!has_values(text, sizeof text, is, expected))
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d does not follow from its records: %s", i, text);
    if (json_object_get(is, "wait_s") && !json_object_get(expected, "wait_s"))
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d has wait_s, but its records have no wait_ns", i);
    if (s->run.records.n > 1 && (int64_t)s->run.ranks.share[i].samples != own * s->run.recipe.train_batch_size)
        return rp_fail(err, RP_MISMATCH,
                       "rank %d trained %" PRIu64 " samples a step; its place among %" PRId64 " gives it %" PRId64, i,
                       s->run.ranks.share[i].samples, data, own * s->run.recipe.train_batch_size);
    if (rp_json_integer_at(is, "node") >= rp_json_integer_at(s->run.json, "world/nodes"))
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d is on a node that the run does not have", i);
    return 0;
}

int rp_check_ranks(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *world = json_object_get(s->run.json, "world");
    const int ranks = s->run.ranks.ranks;
    if (ranks == 1)
        return json_object_size(world) == 2 ? rp_check_text(result, "one rank")
                                            : rp_fail(err, RP_MISMATCH, "run.json: the world of one rank has values of several");
    if (json_array_size(json_object_get(world, "rank")) != (size_t)ranks ||
        rp_json_integer_at(world, "slowest") != s->run.ranks.slowest)
        return rp_fail(err, RP_MISMATCH, "run.json: the list of ranks, or the slowest of them, does not follow from the records");
    for (int i = 0; i < ranks; i++)
        if (check_rank(s, i, err) < 0)
            return -1;
    for (int64_t i = 0; i < s->run.records.n; i++)
        if (s->run.records.r[i].step >= 0 && s->run.records.r[i].exchange_ns < 0)
            return rp_fail(err, RP_MISMATCH, "step %d lacks exchange_ns, the time in exchanges with other ranks",
                           s->run.records.r[i].step);
    if (rp_verify_world(s, result, err) < 0)
        return -1;
    if (result->state != RP_CHECK_PASSED)
        return 0;
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

/* ---- figures ---- */

/* The run started from parameters that are not in the bundle. */
static int starts_from_file(const struct rp_verify_state *s)
{
    return s->run.recipe.run_init && *s->run.recipe.run_init;
}

int rp_check_numbers(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char text[400];
    int complete = strcmp(json_string_value(json_object_get(s->run.json, "status")), "complete") == 0;
    RP_JSON *again = rp_results(&s->run.records, &s->run.recipe, json_object_get(s->run.json, "plan"), complete, err);
    if (!again)
        return -1;
    if (rp_check_differ(text, sizeof text, json_object_get(s->run.json, "results"), again))
        return rp_fail(err, RP_MISMATCH, "run.json does not follow from the records: results/%s", text);
    const json_t *input = json_object_get(again, "input");
    *text = 0;
    if (strcmp(rp_json_text_at(input, "limited_by"), "input") == 0)
        RP_FORMAT(text, "; limited by its input, %.1f %% of the timed steps", rp_json_number_at(input, "share") * 100);
    else if (strcmp(rp_json_text_at(input, "limited_by"), "exchange") == 0)
        RP_FORMAT(text, "; limited by exchanges between ranks, %.1f %% of the timed steps", rp_json_number_at(input, "exchange_share") * 100);
    return rp_check_text(result, "every figure recomputed from %" PRId64 " records%s%s", s->run.records.n,
                         starts_from_file(s) ? "" : "; learning rates are those of the schedule", text);
}

static int check_one_report(const struct rp_report *r, const struct rp_report_source *from, const struct rp_buf *is, struct rp_err *err)
{
    RP_BUF again = {0};
    if (r->write(&again, from, err) < 0)
        return -1;
    if (rp_buf_is(&again, is->data, is->size))
        return 0;
    size_t i = 0, line = 1;
    for (; i < again.size && i < is->size && again.data[i] == is->data[i]; i++)
        line += again.data[i] == '\n';
    return rp_fail(err, RP_MISMATCH, "%s does not follow from run.json, from line %zu on", r->member, line);
}

int rp_check_report(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_report_source from = {.run = s->run.json,
                                    .before = s->run.node[0].before,
                                    .after = s->run.node[0].after,
                                    .recipe = member(s, "recipe.yaml"),
                                    .records = &s->run.records};
    (void)result;
    for (const struct rp_report *r = rp_reports; r->member; r++) {
        const struct rp_member *m = rp_bundle_find(&s->bundle, r->member); /* the container check found those that are required */
        if (m && check_one_report(r, &from, &m->bytes, err) < 0)
            return -1;
    }
    return 0;
}

int rp_check_predicate(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char hex[RP_SHA256_HEX], text[400];
    const struct rp_buf *run = member(s, "run.json");
    (void)result;
    rp_sha256_hex(hex, run->data, run->size);
    RP_JSON *again = rp_statement_predicate(s->run.json, hex);
    if (rp_check_differ(text, sizeof text, json_object_get(s->statement, "predicate"), again))
        return rp_fail(err, RP_MISMATCH, "the statement's predicate does not follow from run.json: %s", text);
    return 0;
}

/* ---- claims ---- */

int rp_check_status(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const char *status = rp_json_text_at(s->run.json, "status"),
               *reason = json_string_value(json_object_get(s->run.json, "reason"));
    if (strcmp(status, "complete") != 0)
        return rp_check_note(result, "the run is marked %s: %s", status, reason ? reason : "no reason given");
    if (reason)
        return rp_fail(err, RP_MISMATCH, "the run is marked complete, but gives a reason for ending early");
    return rp_check_text(result, "complete");
}

/* Damaged samples are counted where the recipe allows to replace them, and nowhere else. */
static int check_skipped(const struct rp_verify_state *s, struct rp_err *err)
{
    const json_t *is = json_object_get(s->run.json, "skipped_samples");
    int complete = strcmp(rp_json_text_at(s->run.json, "status"), "complete") == 0;
    if (!is == !s->run.recipe.data_skip_damaged && (!is || json_is_integer(is) || !complete))
        return 0;
    return rp_fail(err, RP_MISMATCH, "data.skip_damaged is %s, but skipped_samples is %s",
                   s->run.recipe.data_skip_damaged ? "true" : "false",
                   !is                ? "missing"
                   : json_is_null(is) ? "null"
                                      : "recorded");
}

int rp_check_data(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *data = json_object_get(s->run.json, "data");
    const char *sha256 = json_string_value(json_object_get(data, "archive_sha256"));
    const char *wanted = json_string_value(rp_run_setting(s->run.json, "data.sha256"));
    const char *own = json_string_value(rp_run_setting(s->run.json, "data.path")),
               *digest = json_string_value(json_object_get(data, "digest"));
    const char *name = json_string_value(json_object_get(data, "archive"));
    const char *archive = json_string_value(rp_run_setting(s->run.json, "data.archive"));
    if (check_skipped(s, err) < 0)
        return -1;
    if (!json_is_true(json_object_get(data, "pinned")))
        return rp_check_note(result, "not pinned: the owner's own samples, digest %s", digest);
    if (!sha256 || !wanted || strcmp(sha256, wanted) != 0 || !name || !archive || strcmp(name, archive) != 0 || (own && *own))
        return rp_fail(err, RP_MISMATCH, "run.json marks the samples as pinned, but the settings do not pin them");
    const char *here = rp_embedded_digest(sha256);
    if (here && strcmp(here, digest) != 0)
        return rp_fail(err, RP_MISMATCH, "the samples of archive %.16s... have the digest %s, run.json has %.64s", sha256, here, digest);
    if (here)
        return rp_check_text(result, "pinned, archive %s; its samples have the recorded digest", sha256);
    return rp_check_note(result, "pinned, archive %s; the digest of its samples is checked only by --replay", sha256);
}

/* Values that a consistent forger could have invented, listed with every verdict. */
int rp_check_claims(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int64_t steps = s->run.records.n ? s->run.records.r[s->run.records.n - 1].step + 1 : 0, from = s->v->replay_from,
            again = s->v->replayed;
    char rest[96] = "; counters, losses, gradient norms and state roots unless replayed";
    (void)err;
    if (again == steps)
        *rest = 0;
    else if (again && !from)
        snprintf(rest, sizeof rest, "; counters, losses, gradient norms and state roots after the first %" PRId64 " step%s", again,
                 rp_s(again));
    else if (again)
        snprintf(rest, sizeof rest, "; counters, losses, gradient norms and state roots except of steps %" PRId64 " to %" PRId64, from,
                 from + again - 1);
    return rp_check_note(result,
                         "not recomputed, the signer's word: when steps began and ended, captures, device, "
                         "peak_rss_bytes, phases_s, names"
                         "%s%s%s%s%s%s%s%s%s",
                         s->v->check[RP_CHECK_data].state != RP_CHECK_PASSED && !again ? ", digest of the samples" : "",
                         json_object_get(s->run.json, "skipped_samples") ? ", number of damaged samples" : "",
                         json_object_get(s->run.json, "ceilings") ? ", times of ceilings" : "",
                         json_object_get(s->run.json, "telemetry") ? ", telemetry" : "",
                         s->run.ranks.ranks > 1 ? ", on which machine each rank ran, clocks of hosts, transports" : "",
                         ", place in the ledger",
                         json_object_get(s->run.json, "agreement") ? ", that a replication trained at all" : "",
                         starts_from_file(s) && again < steps ? ", learning rates" : "", rest);
}
