#include "cli/attempt.h"

#include "base/buf.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_SHOWN 200

/* A file's name without its folders, as printable ASCII. */
static json_t *name_json(const char *path)
{
    char safe[NAME_MAX_SHOWN];
    return json_string(rp_ascii(safe, sizeof safe, rp_base_name(path)));
}

static json_t *bundle_json(const char *path, const char *statement)
{
    return json_pack("{s:o, s:s*}", "name", name_json(path), "statement", statement && *statement ? statement : NULL);
}

/* Problems of the ledger are progress messages and never fail the command. */
static void append_entry(const char *path, int named, enum rp_ledger_event e, const struct rp_ledger_ref *start, json_t *fields,
                   struct rp_ledger_ref *mark, struct rp_meter *meter)
{
    struct rp_err why = {0};
    if (rp_ledger_append(path, named, e, start, fields, mark, &why) < 0)
        rp_meter_note(meter, "not in the ledger: %s", why.msg);
    if (mark->torn)
        rp_meter_note(meter,
                      "the ledger ended in %" PRIu64 " bytes of a torn line, as after a crash: kept in '%s" RP_LEDGER_ASIDE "'",
                      mark->torn, path);
}

void rp_attempt_start(struct rp_attempt *a, int off, const char *recipe_sha256, const char *recipe_name, const char *replicates,
                      struct rp_meter *meter)
{
    *a = (struct rp_attempt){.off = off, .recipe = rp_strdup(recipe_sha256), .recipe_name = rp_strdup(recipe_name)};
    a->path = rp_ledger_path(&a->named);
    if (!off)
        append_entry(a->path, a->named, RP_LEDGER_STARTED, NULL,
               json_pack("{s:s, s:o, s:s*}", "recipe", recipe_sha256, "recipe_name", name_json(recipe_name), "replicates", replicates),
               &a->mark, meter);
}

json_t *rp_attempt_json(const struct rp_attempt *a)
{
    if (a->off)
        return json_pack("{s:s}", "reason", "turned off with --no-ledger");
    if (a->mark.position == 0)
        return json_pack("{s:s}", "reason", a->mark.reason);
    return json_pack("{s:I, s:s, s:I}", "position", (json_int_t)a->mark.position, "head", a->mark.head, "earlier",
                     (json_int_t)a->mark.earlier);
}

void rp_attempt_end(const struct rp_attempt *a, enum rp_ledger_event e, const char *bundle, const char *statement, int exit_status,
                    struct rp_meter *meter)
{
    struct rp_ledger_ref mark;
    if (a->off || a->mark.position == 0) /* no entry for the start */
        return;
    json_t *fields = json_pack("{s:s, s:o, s:i, s:o*}", "recipe", a->recipe, "recipe_name", name_json(a->recipe_name), "exit", exit_status,
                               "bundle", bundle ? bundle_json(bundle, statement) : NULL);
    append_entry(a->path, a->named, e, &a->mark, fields, &mark, meter);
}

void rp_attempt_fini(struct rp_attempt *a)
{
    free(a->path);
    free(a->recipe);
    free(a->recipe_name);
    *a = (struct rp_attempt){0};
}

void rp_attempt_verified(const char *bundle, const struct rp_verification *v, int exit_status, struct rp_meter *meter)
{
    struct rp_ledger_ref mark;
    int named, failed = 0;
    while (failed < RP_CHECK_COUNT && v->check[failed].state != RP_CHECK_FAILED)
        failed++;
    RP_FREE char *path = rp_ledger_path(&named);
    append_entry(path, named, RP_LEDGER_VERIFIED, NULL,
           json_pack("{s:o, s:s, s:s*, s:s*, s:i}", "bundle", bundle_json(bundle, v->statement), "verdict", rp_verdict_name(v->verdict),
                     "check", failed < RP_CHECK_COUNT ? v->check[failed].name : NULL, "recipe",
                     json_string_value(json_object_get(v->run, "recipe_sha256")), "exit", exit_status),
           &mark, meter);
}
