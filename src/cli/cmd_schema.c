/* `repro schema`: the JSON Schema of a document of a bundle. */
#include "base/json.h"
#include "bundle/schema.h"
#include "cli/cli.h"
#include "run/facts.h"

/* Generated from facts.def and figures.def, or embedded. */
static json_t *schema_of(const char *name, struct rp_err *err)
{
    size_t size = 0;
    json_t *generated = rp_facts_schema_json(name);
    const char *text = generated ? NULL : rp_schema_text(name, &size);
    if (generated || text)
        return generated ? generated : rp_json_parse(text, size, name, err);
    return rp_fail_null(err, RP_USAGE,
                        "'%.40s' is not a document of a bundle; it has facts, run, env, step, telemetry or statement",
                        name);
}

static int cmd_schema(struct rp_cli *cli, struct rp_err *err)
{
    RP_BUF text = {0};
    cli->result = schema_of(cli->argv[0], err);
    if (!cli->result)
        return -1;
    rp_json_write(&text, cli->result);
    if (!cli->json)
        rp_cli_print(&text);
    return 0;
}

const struct rp_command rp_cmd_schema = {
    .name = "schema",
    .operands = "NAME",
    .summary = "print the JSON Schema of a document of a bundle",
    .details = "NAME is one of these. facts: facts.json, what was said of a run. run: run.json, every figure. env: a "
               "capture. step, telemetry: one line of the records, of the device samples. statement: the payload of "
               "statement.dsse.json. Names are in snake_case; a value has an SI unit, in its name or as 'unit' in the "
               "schema.\n"
               "\n"
               "Examples:\n"
               "  repro schema run | jq '.properties.results'\n",
    .run = cmd_schema,
};
