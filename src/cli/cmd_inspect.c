/* `repro inspect`: the contents of a bundle, unverified. */
#include "backend/backend.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/source.h"
#include "bundle/schema.h"
#include "cli/cli.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* {"name", "size", "sha256", "meaning", "text" when it is UTF-8 and asked for} */
static json_t *member_json(const struct rp_member *m, int with_text)
{
    char hex[RP_SHA256_HEX], name[128];
    rp_sha256_hex(hex, m->bytes.data, m->bytes.size);
    json_t *j = json_pack("{s:s, s:I, s:s, s:s}", "name", rp_ascii(name, sizeof name, m->name), "size",
                          (json_int_t)m->bytes.size, "sha256", hex, "meaning", rp_bundle_meaning(m->name));
    if (with_text)
        json_object_set_new(j, "text", m->bytes.size ? json_stringn(m->bytes.data, m->bytes.size) : json_string(""));
    return j;
}

/* A member that follows its schema, "facts", "run" or those of a command; NULL: it does not. */
static json_t *parse_member(const struct rp_bundle *b, const char *name, const char *schema_name)
{
    struct rp_err ignored;
    const struct rp_member *m = rp_bundle_find(b, name);
    const struct rp_schema *schema = rp_facts_schema(schema_name, &ignored);
    json_t *j = m && schema ? rp_json_parse(m->bytes.data, m->bytes.size, name, &ignored) : NULL;
    if (!j || rp_schema_check(schema, j, name, &ignored) == 0)
        return j;
    json_decref(j);
    return NULL;
}

/* Texts and numbers, of which the exact ones as hex. */
static void add_values(json_t *out, const json_t *from)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)from, key, v) {
        json_t *hex = json_object_get(v, "hex");
        if (hex || json_is_string(v) || json_is_number(v))
            json_object_set(out, key, hex ? hex : v);
    }
}

/* The same of a command: its rate is that of its own log. */
static json_t *command_summary_json(const struct rp_bundle *b)
{
    struct rp_err ignored;
    json_t *out = json_object();
    RP_JSON *facts = parse_member(b, "facts.json", "command-facts"), *figures = parse_member(b, "run.json", "command");
    struct rp_run_documents *d = facts && figures ? rp_run_documents_read_command(facts, figures, &ignored) : NULL;
    if (!d)
        return out;
    const char *unit;
    const double rate = rp_run_throughput(d, &unit);
    add_values(out, facts);
    add_values(out, figures);
    if (!isnan(rate))
        json_object_set_new(out, "throughput by its own log", json_pack("{s:f, s:s}", "value", rate, "unit", unit));
    if (!isnan(rp_run_minutes(d)))
        json_object_set_new(out, "minutes to train by its own log", json_real(rp_run_minutes(d)));
    rp_run_documents_free(d);
    return out;
}

/* Texts and numbers of the run and of its results; empty if its documents do not follow their schemas. */
static json_t *summary_json(const struct rp_bundle *b)
{
    struct rp_err ignored;
    json_t *out = json_object();
    if (rp_bundle_kind(b) == RP_BUNDLE_COMMAND)
        return command_summary_json(b);
    char device[RP_DEVICE_TEXT];
    RP_JSON *facts = parse_member(b, "facts.json", "facts"), *figures = parse_member(b, "run.json", "run");
    struct rp_run_documents *d = facts && figures ? rp_run_documents_read(facts, figures, &ignored) : NULL;
    if (!d)
        return out;
    const struct rp_throughput_figures *t = &d->figures.results.throughput;
    add_values(out, facts);
    add_values(out, figures);
    add_values(out, json_object_get(figures, "results"));
    if (!isnan(t->value))
        json_object_set_new(out, "throughput", json_pack("{s:f, s:s}", "value", t->value, "unit", t->unit));
    if (rp_facts_parallel(&d->facts) > d->facts.rank_n)
        json_object_set_new(out, "ranks_of_arithmetic", json_integer((json_int_t)rp_facts_parallel(&d->facts)));
    if (d->facts.rank[d->figures.world.slowest].device)
        json_object_set_new(out, "device",
                            json_string(rp_rank_device_text(device, &d->facts, d->figures.world.slowest)));
    rp_run_documents_free(d);
    return out;
}

static const char bundle_text[] =
    "{/bundle p} (not checked: see 'repro verify')\n\n"
    "[/members:\r{/size t}\t{/name t}\t{/meaning t}\n]"
    "[/claims:[!#:\nIt claims:\n]  {@ t}\t[!/value:{ t}][/value:{/value t} {/unit t}]\n]";

/* Byte for byte; on a terminal line by line, without control characters. */
static void print_member(const struct rp_buf *bytes)
{
    RP_BUF text = {0};
    if (!isatty(STDOUT_FILENO)) {
        rp_cli_print(bytes);
        return;
    }
    rp_buf_add(&text, bytes->data, bytes->size);
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\n' || !text.data[i])
            text.data[i] = text.data[i] ? 0 : '?';
    for (size_t at = 0; at < text.size; text.data[at++] = '\n') {
        rp_sanitize(text.data + at);
        at += strlen(text.data + at);
    }
    rp_cli_print(&text);
}

static int show_member(struct rp_cli *cli, const struct rp_bundle *b, const char *name, struct rp_err *err)
{
    const struct rp_member *m = rp_bundle_find(b, name);
    if (!m)
        return rp_fail(err, RP_USAGE, "'%s' has no member '%s'; 'repro inspect %s' lists them", cli->argv[0], name,
                       cli->argv[0]);
    if (cli->json)
        cli->result = member_json(m, 1);
    else
        print_member(&m->bytes);
    return 0;
}

static int show_bundle(struct rp_cli *cli, const struct rp_bundle *b)
{
    json_t *members = json_array();
    for (int i = 0; i < b->n; i++)
        json_array_append_new(members, member_json(&b->member[i], 0));
    rp_cli_return(cli, json_pack("{s:o, s:o, s:o, s:b}", "bundle", rp_cli_path(cli->argv[0]), "claims", summary_json(b),
                                 "members", members, "verified", 0), bundle_text);
    return 0;
}

static int cmd_inspect(struct rp_cli *cli, struct rp_err *err)
{
    RP_BUNDLE b = {0};
    if (rp_bundle_open(&b, cli->argv[0], err) < 0)
        return -1;
    return cli->argc > 1 ? show_member(cli, &b, cli->argv[1], err) : show_bundle(cli, &b);
}

const struct rp_command rp_cmd_inspect = {
    .name = "inspect",
    .operands = "BUNDLE [MEMBER]",
    .summary = "list the members of a bundle, or print one",
    .details = "BUNDLE is a file, - for standard input, or a directory into which a bundle was unpacked. "
               "Nothing is verified: the output is what the bundle claims. A member is printed byte for byte; on a "
               "terminal, control characters are replaced by '?'.\n"
               "\n"
               "Examples:\n"
               "  repro inspect bert_fp32.repro.tar.zst recipe.yaml\n"
               "  repro inspect bert_fp32.repro.tar.zst run.json | jq .results\n",
    .run = cmd_inspect,
};
