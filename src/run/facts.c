/* The tables of facts.json, run.json and device samples, and their schemas. */
#include "run/facts.h"

#include "bundle/schema.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define RP_OBJECT_LIST "run/facts.def"
#include "base/object_tables.inc.h"
#define RP_OBJECT_LIST "run/figures.def"
#include "base/object_tables.inc.h"
#define RP_OBJECT_LIST "run/sample.def"
#include "base/object_tables.inc.h"

static const struct {
    const char *name, *id, *title;
    const struct rp_object_type *type;
} documents[] = {
    {"facts", RP_FACTS_SCHEMA, "facts.json: what was reported of a run", &rp_type_facts},
    {"run", RP_FIGURES_SCHEMA, "run.json: every figure of a run", &rp_type_figures},
    {"command-facts", RP_COMMAND_FACTS_SCHEMA, "facts.json of a command: what was reported of it",
     &rp_type_command_facts},
    {"command", RP_COMMAND_SCHEMA, "run.json of a command: every figure of its log", &rp_type_command_figures},
    {"telemetry", NULL, "One line of steps/rankN.telemetry.jsonl", &rp_type_device_sample},
};
#define DOCUMENTS (sizeof documents / sizeof *documents)

json_t *rp_facts_schema_json(const char *name)
{
    for (size_t i = 0; i < DOCUMENTS; i++)
        if (strcmp(documents[i].name, name) == 0)
            return rp_object_schema(documents[i].type, documents[i].id, documents[i].title);
    return NULL;
}

static struct rp_schema *compiled[DOCUMENTS];
static struct rp_err failure;

static void compile(void)
{
    for (size_t i = 0; i < DOCUMENTS; i++) {
        json_t *schema = rp_facts_schema_json(documents[i].name);
        compiled[i] = rp_schema_new(schema, &failure);
        json_decref(schema);
    }
}

const struct rp_schema *rp_facts_schema(const char *name, struct rp_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, compile);
    size_t i = 0;
    while (strcmp(documents[i].name, name) != 0)
        RP_BUG_IF(++i == DOCUMENTS);
    if (!compiled[i])
        *err = failure;
    return compiled[i];
}
