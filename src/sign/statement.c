#include "sign/statement.h"

#include "base/json.h"
#include "base/text.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RP_OBJECT_LIST "sign/statement.def"
#include "base/object_tables.inc.h"

#define VERSION 4 /* of run.json, as RP_PREDICATE_TYPE and RP_FIGURES_SCHEMA name it */

/* 5 of "repro-run/5" or "urn:repro:run:5"; 0: it is not of a later version. */
static long later_version(const struct rp_statement_document *d)
{
    const char *const names[][2] = {{d->schema, "repro-run/"},
                                    {d->schema, "repro-facts/"},
                                    {d->predicate.schema, "repro-run/"},
                                    {d->predicateType, "urn:repro:run:"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *is = rp_text_or_empty(names[i][0]);
        const size_t n = strlen(names[i][1]);
        char *end;
        if (strncmp(is, names[i][1], n) != 0 || is[n] < '1' || is[n] > '9')
            continue;
        const long version = strtol(is + n, &end, 10);
        if (!*end && version > VERSION && version < 1000)
            return version;
    }
    return 0;
}

int rp_statement_version(const json_t *j, const char *what, struct rp_err *err)
{
    static const struct {
        const char *schema, *type, *commit;
    } old[] = {{"repro-run/1", "urn:repro:run:1", "6c88d78"},
               {"repro-run/2", "urn:repro:run:2", "95a6944"},
               {"repro-run/3", "urn:repro:run:3", "af4f365"}};
    RP_READ(statement_document, statement, j);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (rp_same_text(statement.schema, old[i].schema) || rp_same_text(statement.predicate.schema, old[i].schema) ||
            rp_same_text(statement.predicateType, old[i].type))
            return rp_fail(
                err, RP_VERSION,
                "written by an older version of repro: %s is version %zu (%s), and this program reads version "
                "%d; a program built from commit %s reads it",
                what, i + 1, old[i].schema, VERSION, old[i].commit);
    const long later = later_version(&statement);
    return later ? rp_fail(err, RP_VERSION,
                           "written by a newer version of repro: %s is version %ld, and this program reads version %d",
                           what, later, VERSION)
                 : 0;
}

static void copy_keys(json_t *to, const json_t *from, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(from, keys[i]);
        if (v)
            json_object_set(to, keys[i], v);
    }
}

/* The predicate of a command has the rate of its log, if that has one result. */
static json_t *command_predicate(const json_t *facts, const json_t *run, const char *sha256)
{
    static const char *const of_facts[] = {"status", "tool"}, *const of_run[] = {"schema", "recipe_sha256"};
    const json_t *results = rp_json_at(run, "log/result");
    json_t *p = json_pack("{s:s, s:s}", "run_sha256", sha256, "measured_by", "log");
    copy_keys(p, facts, of_facts, sizeof of_facts / sizeof *of_facts);
    copy_keys(p, run, of_run, sizeof of_run / sizeof *of_run);
    if (json_array_size(results) == 1)
        json_object_set(p, "throughput", json_object_get(json_array_get(results, 0), "throughput"));
    return p;
}

json_t *rp_statement_predicate(const json_t *facts, const json_t *run, const char *sha256)
{
    if (strcmp(rp_json_text_at(run, "schema"), "repro-command/1") == 0)
        return command_predicate(facts, run, sha256);
    static const char *const of_facts[] = {"status", "tool", "replicates"}, *const of_run[] = {"schema", "numerics"};
    static const char *const of_results[] = {"throughput",       "loss_first",      "loss_last",
                                             "state_root_first", "state_root_last", "records_sha256"};
    json_t *p = json_pack("{s:s, s:s}", "run_sha256", sha256, "model", rp_json_text_at(run, "model/name"));
    copy_keys(p, facts, of_facts, sizeof of_facts / sizeof *of_facts);
    copy_keys(p, run, of_run, sizeof of_run / sizeof *of_run);
    copy_keys(p, json_object_get(run, "results"), of_results, sizeof of_results / sizeof *of_results);
    return p;
}

json_t *rp_statement(const struct rp_subject *subject, int n, json_t *predicate)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:{s:s}}", "name", subject[i].name, "digest", "sha256", subject[i].sha256));
    return json_pack("{s:s, s:o, s:s, s:o}", "_type", RP_STATEMENT_TYPE, "subject", list, "predicateType",
                     RP_PREDICATE_TYPE, "predicate", predicate);
}

static int text_is(const json_t *j, const char *key, const char *expected, struct rp_err *err)
{
    const char *got;
    if (rp_json_str(j, key, &got, "statement", err) < 0)
        return -1;
    if (strcmp(got, expected) != 0)
        return rp_fail(err, RP_MALFORMED, "statement: %s is '%.80s'; expected '%s'", key, got, expected);
    return 0;
}

static int one_subject(struct rp_subject *s, const json_t *j, int i, struct rp_err *err)
{
    const char *sha256;
    if (!json_is_object(j))
        return rp_fail(err, RP_MALFORMED, "statement: subject %d is not an object", i);
    const json_t *digest = rp_json_obj(j, "digest", "statement", err);
    if (!digest || rp_json_str(j, "name", &s->name, "statement", err) < 0 ||
        rp_json_str(digest, "sha256", &sha256, "statement", err) < 0)
        return rp_wrap(err, "subject %d", i);
    if (!rp_is_sha256(sha256))
        return rp_fail(err, RP_MALFORMED, "statement: subject %d has no SHA-256 of 64 lower-case hex digits", i);
    memcpy(s->sha256, sha256, sizeof s->sha256);
    return 0;
}

int rp_statement_subjects(const json_t *j, struct rp_subject *subject, int max, struct rp_err *err)
{
    if (!json_is_object(j))
        return rp_fail(err, RP_MALFORMED, "statement is not a JSON object");
    const json_t *list = rp_json_arr(j, "subject", "statement", err);
    if (rp_statement_version(j, "the statement", err) < 0)
        return -1;
    if (!list || text_is(j, "_type", RP_STATEMENT_TYPE, err) < 0 ||
        text_is(j, "predicateType", RP_PREDICATE_TYPE, err) < 0 || !rp_json_obj(j, "predicate", "statement", err))
        return -1;
    size_t n = json_array_size(list);
    if (n > (size_t)max)
        return rp_fail(err, RP_MALFORMED, "statement has %zu subjects; at most %d are accepted", n, max);
    for (size_t i = 0; i < n; i++) {
        if (one_subject(&subject[i], json_array_get(list, i), (int)i, err) < 0)
            return -1;
        for (size_t k = 0; k < i; k++)
            if (strcmp(subject[k].name, subject[i].name) == 0)
                return rp_fail(err, RP_MALFORMED, "statement names the subject '%.80s' twice", subject[i].name);
    }
    return (int)n;
}
