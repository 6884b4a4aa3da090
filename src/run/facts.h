/* The structs of facts.json, run.json and device samples: facts.def, figures.def and sample.def.
 *
 * What:    struct rp_facts, what was reported of a run, and struct rp_figures, what follows from it, with the structs
 * of their parts; of another program's command struct rp_command_facts and struct rp_command_figures. Flow: facts.json
 * -> struct rp_facts; rp_derive() -> struct rp_figures -> run.json. Owner:   rp_object_fini() of base/object.h frees
 * them. Extend:  a row of facts.def, figures.def or sample.def.
 */
#pragma once

#include "base/object.h"

struct rp_schema; /* bundle/schema.h */

#define RP_FACTS_SCHEMA "repro-facts/4"
#define RP_FIGURES_SCHEMA "repro-run/4"
#define RP_COMMAND_FACTS_SCHEMA "repro-command-facts/1" /* of the bundle of a command, likewise */
#define RP_COMMAND_SCHEMA "repro-command/1"

#define RP_SCHEMA_SETTING "{\"type\": [\"string\", \"number\", \"boolean\", \"array\", \"null\"]}"
#define RP_SCHEMA_SETTINGS                                                                                             \
    "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"object\", \"required\": [\"value\", \"origin\"], "  \
    "\"additionalProperties\": false, \"properties\": {\"value\": " RP_SCHEMA_SETTING                                  \
    ", \"origin\": {\"enum\": [\"default\", \"recipe\", "                                                              \
    "\"model.config\", \"backend section\", \"command line\", \"challenge\"]}}}}"
#define RP_SCHEMA_OBJECTS "{\"type\": \"array\", \"items\": {\"type\": \"object\"}}"
#define RP_SCHEMA_CAPTURED                                                                                             \
    "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"state\": {\"enum\": [\"ok\", "         \
    "\"absent\", \"denied\", "                                                                                         \
    "\"error\"]}, \"value\": {\"type\": [\"string\", \"number\", \"array\", \"null\"], \"items\": {\"type\": "         \
    "\"string\"}}, \"unit\": "                                                                                         \
    "{\"type\": \"string\", \"minLength\": 1, \"maxLength\": 32}}}"

#define RP_OBJECT_LIST "run/facts.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "run/figures.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "run/sample.def"
#include "base/object_structs.inc.h"

/* The schema "facts", "run", "command-facts", "command" or "telemetry" (one line), compiled once; not to be freed. */
const struct rp_schema *rp_facts_schema(const char *name, struct rp_err *err) rp_must_check;
json_t *rp_facts_schema_json(const char *name); /* the JSON Schema; NULL: another name */
