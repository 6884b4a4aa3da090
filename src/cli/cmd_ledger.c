/* `repro ledger`: lists, checks and exports the ledger of attempts. */
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "ledger/ledger.h"
#include "verify/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ledger_opts {
    const char *bundle, *output, *head;
    long last;
    int force, verified;
};
#define AT(field) offsetof(struct ledger_opts, field)
#define OPT_VERIFIED                                                                                                   \
    RP_OPTION_FLAG(verified, "verified", 'v', "your record of verified bundles; default is the ledger of your runs")

#define OPERAND_HELP                                                                                                   \
    "FILE is a ledger or an export of one; default is your own: $REPRO_LEDGER, else ledger-<fingerprint>.jsonl in "    \
    "the folder of your key. Each key has a ledger, next to its file."

/* NULL without *err: there is none yet. */
static char *path_of(const struct rp_cli *cli, struct rp_err *err)
{
    const struct ledger_opts *o = cli->opts;
    *err = (struct rp_err){0};
    if (cli->argc && o->verified)
        return rp_fail_null(err, RP_USAGE, "--verified names your own record: leave FILE out");
    if (o->verified) {
        RP_FREE char *path = rp_ledger_verified_path(err);
        return path && access(path, F_OK) == 0 ? rp_strdup(path) : NULL;
    }
    return cli->argc ? rp_strdup(cli->argv[0]) : rp_ledger_own_path(err);
}

static char *existing_path(const struct rp_cli *cli, struct rp_err *err)
{
    char *path = path_of(cli, err);
    if (!path && err->code == RP_OK)
        (void)rp_fail(err, RP_IO, "there is no ledger yet: the first run begins one, next to its key; or name a FILE");
    return path;
}

/* ---- ledger list ---- */

struct ledger_list {
    json_t *lines;
    size_t last; /* 0: all */
};

static int collect_line(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct ledger_list *l = arg;
    (void)line;
    (void)err;
    json_array_append(l->lines, (json_t *)json);
    if (l->last && json_array_size(l->lines) > l->last)
        json_array_remove(l->lines, 0);
    return 0;
}

#define LIST_TEXT(none)                                                                                                \
    "[/lines:\r{/n t}\t{/at t}\t{/event t}"                                                                            \
    "\t[/recipe_name:{/recipe_name t}][!/recipe_name:[/recipe:recipe {/recipe t12}]]\t[/run:run of line {/run t}]"     \
    "\t[/bundle/name:{/bundle/name t}]\t[/verdict:{/verdict t}][/check: ({/check t})]"                                 \
    "\t[/replicates:replicates {/replicates t16}]\t[/torn:after a torn line]\t[/exit:exit {/exit t}]\n]"               \
    "[!/lines:[/whole:" none "\n]]"

static int cmd_ledger_list(struct rp_cli *cli, struct rp_err *err)
{
    const struct ledger_opts *o = cli->opts;
    struct rp_ledger_summary s;
    RP_FREE char *path = path_of(cli, err);
    struct ledger_list l = {.lines = json_array(), .last = (size_t)o->last};
    if (!path && err->code != RP_OK)
        return -1;
    const int none = !path || (!cli->argc && access(path, F_OK) < 0);
    const int failed = !none && rp_ledger_read(path, collect_line, &l, &s, err) < 0; /* valid lines are listed anyway */
    rp_cli_return(cli, json_pack("{s:o, s:o, s:b}", "ledger", rp_cli_path(path), "lines", l.lines, "whole", !failed),
                  o->verified ? LIST_TEXT("no verifications yet") : LIST_TEXT("no attempts yet"));
    return failed ? -1 : 0;
}

static const struct rp_opt list_opts[] = {
    RP_OPTION_INT(last, "last", 'n', 1, 1000000000, "only the last N lines"),
    OPT_VERIFIED,
    {0},
};

const struct rp_command rp_cmd_ledger_list = {
    .name = "ledger list",
    .operands = "[FILE]",
    .summary = "list the attempts, oldest first",
    .details = OPERAND_HELP "\n"
               "\n"
               "Examples:\n"
               "  repro ledger list --last 20\n"
               "  repro ledger list --json | jq '.lines[] | select(.event == \"sealed\")'\n",
    .opts = list_opts,
    .opts_size = sizeof(struct ledger_opts),
    .run = cmd_ledger_list,
};

/* ---- ledger check ---- */

struct ledger_tally {
    int64_t started, sealed, failed, interrupted;
    int64_t judged, refused, inconclusive; /* judged: lines of verify with any verdict */
};

static int count_line(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct ledger_tally *t = arg;
    (void)json;
    (void)err;
    int64_t *const of[] = {&t->started, &t->sealed, &t->failed, &t->interrupted, &t->judged};
    for (int e = RP_LEDGER_STARTED; e <= RP_LEDGER_VERIFIED; e++)
        *of[e] += strcmp(line->event, rp_ledger_event_name((enum rp_ledger_event)e)) == 0;
    t->refused += rp_same_text(line->verdict, rp_verdict_name(RP_VERDICT_FAILED));
    t->inconclusive += rp_same_text(line->verdict, rp_verdict_name(RP_VERDICT_INCONCLUSIVE));
    return 0;
}

/* "SHA256:HEX line 57 sha256 HEX": the key, the last line and its digest, in one line that other tools can sign or
 * time-stamp. */
#define HEAD_FORM "%s line %" PRId64 " sha256 %s\n"
#define HEAD_FILE_MAX 4096

struct ledger_head {
    char key[RP_FINGERPRINT_SIZE], head[RP_SHA256_HEX];
    int64_t position;
    int found;
};

static int parse_head(struct ledger_head *h, const char *text, const char *file, struct rp_err *err)
{
    RP_BUF again = {0};
    if (sscanf(text, "%71s line %" SCNd64 " sha256 %64s", h->key, &h->position, h->head) == 3)
        rp_buf_printf(&again, HEAD_FORM, h->key, h->position, h->head);
    if (h->position < 1 || !rp_is_sha256(h->head) || strcmp(rp_buf_text(&again), text) != 0)
        return rp_fail(err, RP_MALFORMED, "'%s' is not the line that 'repro ledger head' prints", file);
    return 0;
}

static int find_head(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct ledger_head *h = arg;
    (void)json;
    (void)err;
    if (line->n == h->position)
        h->found = strcmp(line->sha256, h->head) == 0;
    return 0;
}

static int check_bundle(const struct ledger_opts *o, const char *path, char said[512], struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    struct rp_verify_opts vo = {.ledger = path};
    int failed = rp_verify(&v, o->bundle, &vo, err) < 0;
    snprintf(said, 512, "%s", v.check[RP_CHECK_ledger].text);
    return failed ? rp_wrap(err, "--bundle") : 0;
}

/* A line by `ledger head`, which the ledger has to contain still. */
static int check_head(const char *path, const char *file, struct rp_err *err)
{
    struct ledger_head h = {0};
    struct rp_ledger_summary s;
    RP_BUF text = {0};
    if (rp_read_file(&text, file, HEAD_FILE_MAX, err) < 0 || parse_head(&h, rp_buf_text(&text), file, err) < 0 ||
        rp_ledger_read(path, find_head, &h, &s, err) < 0)
        return rp_wrap(err, "--head");
    if (!h.found)
        return rp_fail(err, RP_MISMATCH,
                       "--head: line %" PRId64 " of ledger '%s' is not the head in '%s': it has %" PRId64
                       " line%s, and was cut, rewritten or begun anew",
                       h.position, path, file, s.lines, rp_s(s.lines));
    if (strcmp(h.key, s.key) != 0)
        return rp_fail(err, RP_MISMATCH, "--head: ledger '%s' is of another key than the head in '%s'", path, file);
    return 0;
}

static json_t *check_json(const char *path, int good, const struct rp_ledger_summary *s, const struct ledger_tally *t,
                          const char *said)
{
    return json_pack("{s:o, s:b, s:I, s:s, s:s*, s:s*, s:b, s:I, s:s*, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
                     "s:I, s:I, s:s*}",
                     "ledger", rp_cli_path(path), "good", good, "lines", (json_int_t)s->lines, "head", s->head,
                     "fingerprint", *s->key ? s->key : NULL, "key_made", *s->made ? s->made : NULL, "key_made_by_file",
                     s->by_file, "unsigned_lines", (json_int_t)s->unsigned_lines, "begun", *s->begun ? s->begun : NULL,
                     "started", (json_int_t)t->started, "sealed", (json_int_t)t->sealed, "failed",
                     (json_int_t)t->failed, "interrupted", (json_int_t)t->interrupted, "without_end",
                     (json_int_t)(t->started - t->sealed - t->failed - t->interrupted), "checked",
                     (json_int_t)t->judged, "verified", (json_int_t)(t->judged - t->refused - t->inconclusive),
                     "refused", (json_int_t)t->refused, "inconclusive", (json_int_t)t->inconclusive, "torn_bytes",
                     (json_int_t)s->torn, "aside_bytes", (json_int_t)s->aside, "bundle", *said ? said : NULL);
}

static const char check_text[] =
    "{/lines t} line{/lines s}, chain intact, head {/head t}\n"
    "[/fingerprint:signed by {/fingerprint t}[/key_made:, made {/key_made t}][/key_made_by_file: (time of its file)]"
    "[/unsigned_lines:; the first {/unsigned_lines t} not signed, as by older versions]\nbegun {/begun t}\n]"
    "[!/fingerprint:[/started:not signed, as by older versions: anyone with access to the file could have written "
    "it\n]]"
    "[/started:{/started t} run{/started s} started: {/sealed t} sealed, {/failed t} failed, {/interrupted t} "
    "interrupted, {/without_end t} without an end (killed, or still running)\n]"
    "[/checked:{/checked t} bundle{/checked s} checked: {/verified t} verified, {/refused t} failed, "
    "{/inconclusive t} inconclusive\n]"
    "[/aside_bytes:{/aside_bytes t} bytes of torn lines are kept in '{/ledger p}" RP_LEDGER_ASIDE "'\n]"
    "[/bundle:{/bundle p}\n]";

static int cmd_ledger_check(struct rp_cli *cli, struct rp_err *err)
{
    const struct ledger_opts *o = cli->opts;
    struct rp_ledger_summary s;
    struct ledger_tally t = {0};
    char said[512] = "";
    RP_FREE char *path = existing_path(cli, err);
    if (!path)
        return -1;
    int failed = rp_ledger_read(path, count_line, &t, &s, err) < 0;
    if (!failed && o->head)
        failed = check_head(path, o->head, err) < 0;
    if (!failed && o->bundle)
        failed = check_bundle(o, path, said, err) < 0;
    rp_cli_return(cli, check_json(path, !failed, &s, &t, said), failed ? "" : check_text);
    return failed ? -1 : 0;
}

static const struct rp_opt check_opts[] = {
    RP_OPTION_TEXT(bundle, "bundle", 'b', "BUNDLE",
                   "verify this bundle and find its entry; counts the other runs of its recipe"),
    RP_OPTION_TEXT(head, "head", 0, "HEAD",
                   "a line kept from 'repro ledger head'; the ledger must still contain that line"),
    OPT_VERIFIED,
    {0},
};

const struct rp_command rp_cmd_ledger_check = {
    .name = "ledger check",
    .operands = "[FILE]",
    .summary = "check the hash chain, and the entry of a bundle",
    .details = OPERAND_HELP
    "\n"
    "\n"
    "Each line has its own SHA-256 and that of the previous line, and is signed by the key of the first one: changed, "
    "removed, inserted and foreign lines are detected, and so are a second end of a run and an end without a start. "
    "The owner of the key can still cut the file or begin a new one. That is detected by a bundle that cites a later "
    "line, by a head kept from before (--head), and by 'repro verify' where it has seen another bundle of this key. "
    "Exit status 5: the chain is broken, or is not the one that the bundle or head cites; 4: a line is malformed, not "
    "signed or torn; 6: a signature is wrong.\n"
    "\n"
    "With stock tools, line N: sed -n Np FILE | jq -cS 'del(.sha256)' | sha256sum. Its signature is Ed25519 over the "
    "output of jq -cS 'del(.sha256, .signature)'; the key is .key.public of the first line, in base64.\n"
    "\n"
    "Examples:\n"
    "  repro ledger check\n"
    "  repro ledger check their-ledger.jsonl --bundle theirs.repro.tar.zst\n",
    .opts = check_opts,
    .opts_size = sizeof(struct ledger_opts),
    .run = cmd_ledger_check,
};

/* ---- ledger export ---- */

static int export_line(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    (void)line;
    (void)err;
    rp_json_write_line(arg, json);
    return 0;
}

static int cmd_ledger_export(struct rp_cli *cli, struct rp_err *err)
{
    const struct ledger_opts *o = cli->opts;
    struct rp_ledger_summary s;
    RP_BUF out = {0};
    RP_FREE char *path = existing_path(cli, err);
    if (!path)
        return -1;
    if (o->output && rp_cli_check_output(o->output, o->force, err) < 0)
        return -1;
    if (rp_ledger_read(path, export_line, &out, &s, err) < 0)
        return rp_wrap(err, "nothing is exported");
    if (rp_cli_write_output(cli, o->output, o->force, &out, err) < 0)
        return -1;
    if (cli->json)
        cli->result = json_pack("{s:s, s:s*, s:I, s:s, s:s*}", "ledger", path, "output", o->output, "lines",
                                (json_int_t)s.lines, "head", s.head, "text", o->output ? NULL : rp_buf_text(&out));
    return 0;
}

static const struct rp_opt export_opts[] = {
    RP_OPT_OUTPUT_OR_STDOUT(output, "file to write; default -, standard output"), RP_OPT_FORCE(force), {0}};

const struct rp_command rp_cmd_ledger_export = {
    .name = "ledger export",
    .operands = "[FILE]",
    .summary = "check the ledger and write it out, to go with a bundle",
    .details = "Every line as it is: names of recipes and bundles without folders, digests, times, exit statuses; "
               "nothing identifies the machine or its users. The chain is exported whole: left-out lines would break "
               "it. " OPERAND_HELP "\n"
               "\n"
               "Examples:\n"
               "  repro ledger export -o ledger.jsonl\n",
    .opts = export_opts,
    .opts_size = sizeof(struct ledger_opts),
    .run = cmd_ledger_export,
};

/* ---- ledger head ---- */

static int cmd_ledger_head(struct rp_cli *cli, struct rp_err *err)
{
    const struct ledger_opts *o = cli->opts;
    struct rp_ledger_summary s;
    RP_BUF out = {0};
    RP_FREE char *path = existing_path(cli, err);
    if (!path)
        return -1;
    if (o->output && rp_cli_check_output(o->output, o->force, err) < 0)
        return -1;
    if (rp_ledger_read(path, NULL, NULL, &s, err) < 0)
        return -1;
    if (!*s.key)
        return rp_fail(err, RP_SIGNATURE,
                       "ledger '%s' is not signed, so its head names no key; the next run signs its line", path);
    rp_buf_printf(&out, HEAD_FORM, s.key, s.lines, s.head);
    if (rp_cli_write_output(cli, o->output, o->force, &out, err) < 0)
        return -1;
    if (cli->json)
        cli->result = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "ledger", path, "fingerprint", s.key, "position",
                                (json_int_t)s.lines, "head", s.head, "at", s.at, "line", out.data);
    return 0;
}

static const struct rp_opt head_opts[] = {
    RP_OPT_OUTPUT_OR_STDOUT(output, "file to write; default -, standard output"), RP_OPT_FORCE(force), {0}};

const struct rp_command rp_cmd_ledger_head = {
    .name = "ledger head",
    .operands = "[FILE]",
    .summary = "print key, number and digest of the last line",
    .details = "One line, \"SHA256:... line 57 sha256 ...\", which covers every line before it. Publish it, have it "
               "countersigned, or have it time-stamped, with any tool: from then on the ledger cannot be cut or begun "
               "anew without notice. 'repro ledger check --head' compares. " OPERAND_HELP "\n"
               "\n"
               "Examples:\n"
               "  repro ledger head -o head.txt\n"
               "  openssl ts -query -data head.txt -sha256 -cert -out head.tsq\n"
               "  ssh-keygen -Y sign -n repro-ledger -f ~/.ssh/id_ed25519 head.txt\n",
    .opts = head_opts,
    .opts_size = sizeof(struct ledger_opts),
    .run = cmd_ledger_head,
};

const struct rp_command rp_cmd_ledger = {
    .name = "ledger",
    .operands = "",
    .summary = "list, check and export the ledger of attempts, including failed ones",
    .details = "Every attempt becomes a signed line of the ledger next to the key before it trains, and each bundle "
               "cites its line: publishing the best of ten runs reveals the other nine. 'list' shows the lines, "
               "'check' follows the chain, 'export' writes it out to go with a bundle, 'head' prints its last digest, "
               "which others can sign or time-stamp.\n"
               "\n"
               "Examples:\n"
               "  repro ledger list\n"
               "  repro ledger export -o ledger.jsonl\n",
};
