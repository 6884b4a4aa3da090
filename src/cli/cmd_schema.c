/* `repro schema`: the JSON Schema of a document of a bundle, or of what a command returns with --json. */
#include "base/json.h"
#include "base/text.h"
#include "bundle/schema.h"
#include "capture/doctor/doctor.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/run_scan.h"
#include "compare/compare.h"
#include "ledger/ledger.h"
#include "run/facts.h"
#include "verify/verify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RP_OBJECT_LIST "cli/outputs.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "cli/outputs.def"
#include "base/object_tables.inc.h"

#define DOCUMENT_MAX (64ul << 20)

/* Documents by their name, and outputs of commands. */
static const struct schema {
    const char *name, *title;
    const struct rp_object_type *type; /* NULL: made elsewhere, or written by hand */
    const char *id;                    /* NULL: that of the output */
    int open;                          /* has further keys */
} schemas[] = {
    {.name = "facts", .title = "facts.json: what was reported of a run"},
    {.name = "run", .title = "run.json: every figure of a run"},
    {.name = "command-facts", .title = "facts.json of a command: what was reported of it"},
    {.name = "command", .title = "run.json of a command: every figure of its log"},
    {.name = "step", .title = "one line of steps/rankN.jsonl"},
    {.name = "telemetry", .title = "one line of steps/rankN.telemetry.jsonl"},
    {.name = "env", .title = "env/nodeN.*.json, and what 'repro capture' writes"},
    {.name = "statement", .title = "payload of statement.dsse.json"},
    {.name = "command-statement", .title = "the same of a command"},
    {.name = "ledger", .title = "one line of a ledger, or of the record of verifications"},
    {.name = "error", .title = "a command with --json that fails and returns nothing else"},
    {"compare", "repro compare --json", &rp_type_comparison, RP_COMPARISON_SCHEMA, 0},
    {"layout", "repro compare --layout --json", &rp_type_layout_answer, RP_LAYOUT_SCHEMA, 0},
    {"imported", "what 'repro import' writes", &rp_type_imported_answer, RP_IMPORTED_SCHEMA, 1},
#define OUTPUT(command, returned)                                                                                      \
    {                                                                                                                  \
        .name = command, .title = "repro " command " --json", .type = &rp_type_##returned                              \
    }
    OUTPUT("run", run_answer),
    OUTPUT("exec", exec_answer),
    OUTPUT("replicate", run_answer),
    OUTPUT("verify", verify_answer),
    OUTPUT("report", report_answer),
    OUTPUT("sign", sign_answer),
    OUTPUT("challenge new", challenge_answer),
    OUTPUT("challenge show", challenge_answer),
    OUTPUT("challenge draw", draw_answer),
    OUTPUT("challenge answer", draw_answer),
    OUTPUT("timestamp request", request_answer),
    OUTPUT("timestamp attach", attach_answer),
    OUTPUT("inspect", inspect_answer),
    OUTPUT("schema", schema_answer),
    OUTPUT("capture", explain_answer),
    OUTPUT("capture diff", capture_diff_answer),
    OUTPUT("estimate", estimate_answer),
    OUTPUT("launch", launch_answer),
    OUTPUT("doctor", findings),
    OUTPUT("recipes", recipes_answer),
    OUTPUT("recipes list", recipes_answer),
    OUTPUT("recipes show", recipes_show_answer),
    OUTPUT("recipes check", recipes_check_answer),
    OUTPUT("recipes keys", recipes_keys_answer),
    OUTPUT("data list", data_list_answer),
    {"data check", "repro data check --json", &rp_type_data_check_answer, NULL, 1},
    OUTPUT("data unpack", data_unpack_answer),
    OUTPUT("data make", data_make_answer),
    OUTPUT("data bench", data_bench_answer),
    OUTPUT("ledger list", ledger_list_answer),
    OUTPUT("ledger check", ledger_check_answer),
    OUTPUT("ledger export", ledger_export_answer),
    OUTPUT("ledger head", ledger_head_answer),
    OUTPUT("key new", key_answer),
    OUTPUT("key show", key_answer),
    OUTPUT("key trust", key_trust_answer),
    OUTPUT("export", export_answer),
    {"selftest", "repro selftest --json", &rp_type_selftest_answer, NULL, 1},
    OUTPUT("version", version_answer),
    OUTPUT("help", help_answer),
};
#define SCHEMAS (sizeof schemas / sizeof *schemas)

/* "challenge-new-output" */
static const char *name_of(char name[64], const struct schema *s)
{
    snprintf(name, 64, "%s%s", s->name, s->type && !s->id ? "-output" : "");
    for (char *p = name; *p; p++)
        *p = *p == ' ' ? '-' : *p;
    return name;
}

void rp_schema_names(struct rp_buf *out)
{
    char name[64];
    for (size_t i = 0; i < SCHEMAS; i++)
        rp_buf_printf(out, " %s", name_of(name, &schemas[i]));
}

static json_t *error_schema(void)
{
    return json_pack("{s:s, s:[s, s, s], s:b, s:{s:{s:s}, s:{s:s}, s:{s:s}}}", "type", "object", "required", "code",
                     "exit", "message", "additionalProperties", 0, "properties", "code", "type", "string", "exit",
                     "type", "integer", "message", "type", "string");
}

static json_t *error_document(void)
{
    return json_pack("{s:s, s:s, s:[s, s], s:b, s:{s:o, s:{s:s}}}", "title", "an error", "type", "object", "required",
                     "error", "schema", "additionalProperties", 0, "properties", "error", error_schema(), "schema",
                     "const", RP_ERROR_SCHEMA);
}

/* A command that fails returns "error", and perhaps not all of the rest. */
static json_t *allow_error(json_t *schema)
{
    json_t *required = json_incref(json_object_get(schema, "required"));
    json_object_del(schema, "required");
    json_object_set_new(json_object_get(schema, "properties"), "error", error_schema());
    json_object_set_new(schema, "anyOf",
                        json_pack("[{s:[s, s]}, {s:o}]", "required", "error", "schema", "required", required));
    return schema;
}

static json_t *json_of(const struct schema *s, struct rp_err *err)
{
    char id[80];
    size_t size = 0;
    if (s->type) {
        json_t *j = rp_object_schema(s->type, s->id ? s->id : rp_cli_output_id(id, s->name), s->title);
        if (s->open)
            json_object_del(j, "additionalProperties");
        return allow_error(j);
    }
    if (strcmp(s->name, "error") == 0)
        return error_document();
    json_t *generated = strcmp(s->name, "ledger") == 0 ? rp_ledger_line_schema() : rp_facts_schema_json(s->name);
    const char *text = generated ? NULL : rp_schema_text(s->name, &size);
    return generated ? generated : rp_json_parse(text, size, s->name, err);
}

static void list_schemas(struct rp_cli *cli)
{
    json_t *list = json_array();
    char name[64];
    for (size_t i = 0; i < SCHEMAS; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "name", name_of(name, &schemas[i]), "title", schemas[i].title));
    rp_cli_return(cli, json_pack("{s:o}", "schemas", list), "[/schemas:{/name t}\t{/title t}\n]");
}

static int check_document(struct rp_cli *cli, const json_t *schema, struct rp_err *err)
{
    RP_BUF text = {0};
    char shown[72];
    struct rp_schema *s = rp_schema_new(schema, err);
    RP_JSON *j = NULL;
    if (!s)
        return -1;
    rp_excerpt(shown, cli->argv[1]);
    if (rp_read_file(&text, cli->argv[1], DOCUMENT_MAX, err) == 0)
        j = rp_json_parse(rp_buf_text(&text), text.size, shown, err);
    const int failed = !j || rp_schema_check(s, j, shown, err) < 0;
    rp_schema_free(s);
    if (!failed)
        rp_cli_return(cli, json_pack("{s:s}", "follows", cli->argv[0]), "");
    return failed ? -1 : 0;
}

static int cmd_schema(struct rp_cli *cli, struct rp_err *err)
{
    RP_BUF text = {0};
    char name[64];
    size_t i = 0;
    if (!cli->argc) {
        list_schemas(cli);
        return 0;
    }
    while (i < SCHEMAS && strcmp(name_of(name, &schemas[i]), cli->argv[0]) != 0)
        i++;
    if (i == SCHEMAS)
        return rp_fail(err, RP_USAGE, "there is no schema '%.40s': 'repro schema' lists them", cli->argv[0]);
    RP_JSON *schema = json_of(&schemas[i], err);
    if (!schema)
        return -1;
    if (cli->argc > 1)
        return check_document(cli, schema, err);
    cli->result = json_incref(schema);
    rp_json_write(&text, schema);
    if (!cli->json)
        rp_cli_print(&text);
    return 0;
}

const struct rp_command rp_cmd_schema = {
    .name = "schema",
    .operands = "[NAME [FILE]]",
    .summary = "print the JSON Schema of a document, list them, or check a file by one",
    .details = "Without NAME, the schemas are listed: those of the members of a bundle, of the lines of its records, "
               "of a ledger's lines, and of what each command returns with --json (NAME-output). With FILE, the "
               "document in it is checked: exit status 4 and the path of the first value that does not fit. A failed "
               "command's document has \"error\", and perhaps not all of the rest. Names are in snake_case; a value "
               "has an SI unit, in its name or as 'unit' in the schema.\n"
               "\n"
               "Examples:\n"
               "  repro schema run | jq '.properties.results'\n"
               "  repro verify x.repro.tar.zst --json >v.json; repro schema verify-output v.json\n",
    .run = cmd_schema,
};
