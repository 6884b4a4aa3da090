/* `repro verify`: checks a bundle and prints one verdict. */
#include "base/build.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/attempt.h"
#include "cli/opts.h"
#include "cli/replay_progress.h"
#include "recipe/choices.h"
#include "sign/timestamp.h"
#include "sign/trust.h"
#include "verify/policy/policy.h"
#include "verify/provenance.h"
#include "verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct verify_opts {
    const char *trust, *policy, *baseline, *data, *init, *state, *store, *isa, *replay, *replay_micro, *limit, *ledger,
        *original, *replication;
    const char *challenge, *received, *draw, *tsa_ca;
    long threads, draws;
    int any_key, all, list, no_ledger;
};

#define STEPS_MAX 1000000000

#define AT(field) offsetof(struct verify_opts, field)
static const struct rp_opt opts[] = {
    RP_OPT_TRUST(trust),
    RP_OPT_ANY_KEY(any_key),
    RP_OPTION_TEXT(policy, "policy", 'p', "FILE", "YAML rules that the bundle must meet: signer, age, recipe, steps"),
    RP_OPTION_TEXT(replay, "replay", 'r', "K|S:K",
                   "train the first K steps again and compare bits, or K steps from step S on"),
    RP_OPTION_TEXT(replay_micro, "replay-micro", 0, "N|S:N",
                   "replay: forward passes of N micro-batches of step 0, or of step S"),
    RP_OPTION_TEXT(limit, "replay-limit", 0, "TIME[,MEMORY]",
                   "replay: most time and memory, as 30m,8G; default 1h, half of what is free"),
    RP_OPTION_TEXT(challenge, "challenge", 0, "FILE",
                   "the challenge that you made: the run must answer it, which bounds its time"),
    RP_OPTION_TEXT(received, "received", 0, "TIME|file",
                   "when the bundle came, as 2026-11-23T12:00:00Z or its file's time; default now"),
    RP_OPTION_TEXT(draw, "draw", 0, "FILE", "replay the parts that this challenge draws, made after the bundle came"),
    RP_OPTION_INT(draws, "draws", 0, 1, RP_PARTS_MOST, "how many parts; default 7, enough of 64 for the level timed"),
    RP_OPTION_TEXT(baseline, "baseline", 0, "BUNDLE",
                   "run on fewer threads or devices: fail if the speed-up exceeds ideal; must be signed by the key "
                   "of --trust where that is given"),
    RP_OPTION_TEXT(data, "data", 0, "DIR", "replay: the samples, if the run used its owner's"),
    RP_OPTION_TEXT(init, "init", 0, "FILE",
                   "replay: file that the run started from; of S:K or --draw the state before"),
    RP_OPTION_TEXT(state, "state", 0, "FILE",
                   "replay: the owner's state at its end (run --save), to compare by element"),
    RP_OPT_ORIGINAL(original),
    RP_OPT_REPLICATION(replication, "a replication that a countersignature names: compare and replay it too"),
    RP_OPT_LEDGER(ledger),
    RP_OPT_TSA_CA(tsa_ca),
    RP_OPTION_FLAG(no_ledger, "no-ledger", 0, "do not record this verification"),
    RP_OPTION_FLAG(all, "all", 'a',
                   "print every check; default only those that failed, have a remark or were requested"),
    RP_OPTION_FLAG(list, "list", 'l',
                   "list every check with its id, severity, what it proves and how; reads no bundle"),
    RP_OPT_STORE(store),
    RP_OPTION_CHOICE(isa, "isa", 0, RP_CHOICES(RP_ISAS), "replay: instruction set, which does not change the bits"),
    RP_OPTION_INT(threads, "threads", 0, 0, 4096, "replay: number of threads; the bits do not depend on it"),
    {0},
};

/* A whole number from lo to STEPS_MAX, followed by `end`; *rest: what follows that. */
static int parse_count(int64_t *out, const char *text, char end, const char **rest, int64_t lo)
{
    char *stop;
    long long v = *text >= '0' && *text <= '9' ? strtoll(text, &stop, 10) : -1;
    if (v < lo || v > STEPS_MAX || *stop != end)
        return -1;
    *out = v;
    *rest = stop + (end != 0);
    return 0;
}

/* "N", or "S:N": a number, and where to begin. */
static int parse_from(int64_t *first, int64_t *n, const char *text)
{
    const char *count = text;
    if (strchr(text, ':') && parse_count(first, text, ':', &count, 0) < 0)
        return -1;
    return parse_count(n, count, 0, &count, 1);
}

static int parse_replay_micro(struct rp_replay_opts *o, const char *text, struct rp_err *err)
{
    o->steps = 1;
    if (parse_from(&o->first, &o->micros, text) == 0)
        return 0;
    return rp_fail(
        err, RP_USAGE,
        "option '--replay-micro': '%.40s' is neither a number of micro-batches from 1 to %d nor S:N, N of step S", text,
        STEPS_MAX);
}

static int parse_replay(struct rp_replay_opts *o, const char *text, struct rp_err *err)
{
    if (parse_from(&o->first, &o->steps, text) == 0)
        return 0;
    return rp_fail(
        err, RP_USAGE,
        "option '--replay': '%.40s' is neither a number of steps from 1 to %d nor S:K, K steps from step S on", text,
        STEPS_MAX);
}

/* A positive number and one of `units`, of which the first has the factor factor[0]; *rest: what follows. 0: it is
 * none. */
static uint64_t parse_amount(const char *text, const char *units, const uint64_t *factor, const char **rest)
{
    char *stop = (char *)text;
    unsigned long long v = *text >= '0' && *text <= '9' ? strtoull(text, &stop, 10) : 0;
    const char *unit = *stop ? strchr(units, *stop) : NULL;
    *rest = stop + (unit != NULL);
    return unit && v <= INT64_MAX / factor[unit - units] ? v * factor[unit - units] : 0;
}

static int parse_limit(struct rp_replay_opts *o, const char *text, struct rp_err *err)
{
    static const uint64_t time[] = {1000000000, 60000000000, 3600000000000},
                          memory[] = {1 << 20, 1 << 30, (uint64_t)1 << 40};
    const char *rest;
    o->limit_ns = parse_amount(text, "smh", time, &rest);
    int both = *rest == ',';
    if (both)
        o->limit_bytes = parse_amount(rest + 1, "MGT", memory, &rest);
    if (o->limit_ns && !*rest && (!both || o->limit_bytes))
        return 0;
    return rp_fail(err, RP_USAGE,
                   "option '--replay-limit': '%.40s' is neither a time, such as 90s, 30m or 2h, nor a time and memory, "
                   "such as 2h,8G",
                   text);
}

/* --received: a time, or that of the file. */
static int parse_received(int64_t *ns, const char *text, const char *bundle, struct rp_err *err)
{
    struct stat st;
    int64_t seconds = rp_rfc3339_seconds(text);
    const int of_file = strcmp(text, "file") == 0 && stat(bundle, &st) == 0;
    if (strcmp(text, "file") == 0 && strcmp(bundle, "-") == 0)
        return rp_fail(err, RP_USAGE, "--received=file: standard input has no time; give it as 2026-11-23T12:00:00Z");
    if (of_file && S_ISDIR(st.st_mode))
        return rp_fail(
            err, RP_USAGE,
            "--received=file: the time of a directory is not that of its files; give it as 2026-11-23T12:00:00Z");
    /* copying may keep the first, not the second */
    if (of_file)
        seconds = st.st_mtime > st.st_ctime ? st.st_mtime : st.st_ctime;
    if (seconds < 0)
        return rp_fail(err, RP_USAGE,
                       "option '--received': '%.40s' is neither a time like 2026-11-23T12:00:00Z nor the word file",
                       text);
    *ns = (seconds + 1) * 1000000000; /* to the end of that second */
    return *ns <= (int64_t)rp_wall_ns() + 1000000000
               ? 0
               : rp_fail(err, RP_USAGE, "option '--received': %.40s is in the future", text);
}

static int list_checks(struct rp_cli *cli, struct rp_err *err)
{
    if (cli->argc)
        return rp_fail(err, RP_USAGE, "--list reads no bundle: repro verify --list");
    rp_cli_return(cli, rp_checks_json(),
                  "[/checks:{/check t -17} {/severity t -6} {/proves p}\n                         {/how p}\n]");
    return 0;
}

/* What the options name, read before the bundle. */
struct inputs {
    const struct verify_opts *o;
    struct rp_policy policy;
    struct rp_tsa_ca *tsa_ca;
    struct rp_challenge challenge, draw;
    char *seen;           /* the record of verifications, or NULL */
};

static void inputs_fini(struct inputs *in)
{
    rp_policy_fini(&in->policy);
    rp_tsa_ca_free(in->tsa_ca);
    free(in->seen);
}

/* A mistyped option or file name is not a finding about the bundle: it ends the command without a verdict and without a
 * ledger entry. */
static int check_arguments(const struct rp_cli *cli, struct rp_err *err)
{
    const struct verify_opts *o = cli->opts;
    const char *const bundles[][2] = {
        {"baseline", o->baseline}, {"original", o->original}, {"replication", o->replication}};
    if (o->draw && o->replay)
        return rp_fail(err, RP_USAGE, "--draw chooses the steps of the replay, and so does --replay: give one of them");
    if (o->replay_micro && (o->draw || o->replay))
        return rp_fail(err, RP_USAGE,
                       "--replay-micro computes parts of one step, --%s trains whole steps: give one of them",
                       o->draw ? "draw" : "replay");
    char key[RP_FINGERPRINT_SIZE];
    if (cli->argc < 1)
        return rp_fail(err, RP_USAGE, "missing operand: repro verify BUNDLE; 'repro help verify' explains it");
    if (o->trust && o->any_key)
        return rp_fail(err, RP_USAGE, "--trust names the signer, and --any-key accepts every one: give one of them");
    if (o->trust && rp_trust_resolve(key, o->trust, err) < 0)
        return rp_wrap(err, "--trust");
    for (size_t i = 0; i < sizeof bundles / sizeof *bundles; i++)
        if (rp_cli_check_bundle(bundles[i][0], bundles[i][1], err) < 0)
            return -1;
    if (rp_cli_check_ledger("ledger", o->ledger, err) < 0 || rp_cli_check_readable("tsa-ca", o->tsa_ca, err) < 0 ||
        rp_cli_check_readable("init", o->init, err) < 0 || rp_cli_check_readable("state", o->state, err) < 0)
        return -1;
    if (o->limit && !o->replay && !o->replay_micro && !o->draw)
        return rp_fail(err, RP_USAGE, "--replay-limit is for a replay: give --replay too");
    if (o->received && !o->challenge && !o->draw)
        return rp_fail(
            err, RP_USAGE,
            "--received is the time until which --challenge is counted, and before which --draw was not made: "
            "give one of them");
    if (o->replication && !o->replay && !o->draw)
        return rp_fail(err, RP_USAGE,
                       "--replication is replayed, since equal bits can be copied: give --replay or --draw too");
    const char *const of_one[][2] = {{"original", o->original},   {"replication", o->replication},
                                     {"challenge", o->challenge}, {"draw", o->draw},
                                     {"init", o->init},           {"state", o->state}};
    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++)
        if (of_one[i][1] && cli->argc > 1)
            return rp_fail(err, RP_USAGE, "--%s is about one bundle: give one BUNDLE, not %d", of_one[i][0], cli->argc);
    const int from_stdin = cli->argc > 0 && strcmp(cli->argv[0], "-") == 0;
    if (o->received && strcmp(o->received, "file") == 0 && from_stdin)
        return rp_fail(err, RP_USAGE, "--received=file: standard input has no time; give it as 2026-11-23T12:00:00Z");
    if (o->replication && from_stdin)
        return rp_fail(err, RP_USAGE, "--replication compares with the bundle again: give that as a file");
    if (o->draws && !o->draw)
        return rp_fail(err, RP_USAGE, "--draws is how many parts --draw draws: give --draw too");
    if (o->state && !o->replay)
        return rp_fail(err, RP_USAGE, "--state is compared at the end of a replay: give --replay too");
    return 0;
}

static int load_challenge(struct rp_challenge *c, const char *option, const char *path, struct rp_err *err)
{
    RP_BUF bytes = {0};
    if (path && rp_challenge_load(c, &bytes, path, err) < 0)
        return rp_wrap(err, "%s", option);
    return 0;
}

static int load_inputs(struct inputs *in, struct rp_err *err)
{
    if (load_challenge(&in->challenge, "--challenge", in->o->challenge, err) < 0 ||
        load_challenge(&in->draw, "--draw", in->o->draw, err) < 0)
        return -1;
    struct rp_err no_home;
    in->seen = rp_ledger_verified_path(&no_home);
    if (in->o->tsa_ca && !(in->tsa_ca = rp_tsa_ca_load(in->o->tsa_ca, err)))
        return rp_wrap(err, "--tsa-ca");
    return in->o->policy ? rp_policy_load(&in->policy, in->o->policy, err) : 0;
}

static int make_options(struct rp_verify_opts *out, struct inputs *in, const char *bundle,
                        struct rp_replay_progress *progress, struct rp_err *err)
{
    const struct verify_opts *o = in->o;
    *out = (struct rp_verify_opts){.trust = o->trust,
                                   .any_key = o->any_key,
                                   .policy = o->policy ? &in->policy : NULL,
                                   .challenge = o->challenge ? &in->challenge : NULL,
                                   .draw = o->draw ? &in->draw : NULL,
                                   .draws = (int)o->draws,
                                   .baseline = o->baseline,
                                   .ledger = o->ledger,
                                   .seen = in->seen,
                                   .original = o->original,
                                   .replication = o->replication,
                                   .tsa_ca = in->tsa_ca,
                                   .replay = {.data = o->data,
                                              .init = o->init,
                                              .state = o->state,
                                              .store = o->store,
                                              .isa = o->isa,
                                              .threads = o->threads,
                                              .begin = rp_replay_show_estimate,
                                              .remark = rp_replay_show_remark,
                                              .progress = rp_replay_show_step,
                                              .arg = progress}};
    if ((o->limit && parse_limit(&out->replay, o->limit, err) < 0) ||
        (o->received && parse_received(&out->received_ns, o->received, bundle, err) < 0))
        return -1;
    return o->replay         ? parse_replay(&out->replay, o->replay, err)
           : o->replay_micro ? parse_replay_micro(&out->replay, o->replay_micro, err)
                             : 0;
}

/* Ctrl-C is caught for a replay only: the other checks are short. */
static int run_checks(struct rp_verification *v, const struct rp_cli *cli, const char *bundle,
                      const struct rp_verify_opts *vo, struct rp_progress *progress, struct rp_err *err)
{
    int replay = vo->replay.steps > 0 || vo->draw;
    rp_progress_init(progress, STDERR_FILENO, cli->quiet || !replay);
    if (replay)
        rp_interrupt_catch();
    rp_progress_phase(progress, "replay", NULL);
    int failed = rp_verify(v, bundle, vo, err) < 0 || rp_verdict_accepts(v, err) < 0;
    rp_progress_end(progress);
    return failed ? -1 : 0;
}

/* The reason why nothing can be recorded is printed once, whatever the number of bundles. */
static void add_ledger_entry(const struct rp_cli *cli, const struct rp_verification *v, const char *bundle,
                             int exit_status)
{
    const struct verify_opts *o = cli->opts;
    struct rp_progress progress;
    rp_progress_init(&progress, STDERR_FILENO, cli->quiet || bundle != cli->argv[0]);
    if (!o->no_ledger)
        rp_attempt_verified(bundle, v, exit_status, &progress);
}

static void print_verification(const struct rp_cli *cli, const json_t *document, const char *bundle, int first)
{
    const struct verify_opts *o = cli->opts;
    RP_BUF text = {0};
    if (!first)
        rp_buf_puts(&text, "\n");
    if (!json_object_get(document, "provenance"))
        rp_verification_text(&text, rp_cli_fill(), document, cli->argc > 1 ? bundle : NULL, o->all, rp_cli_width());
    else
        rp_show(&text, rp_cli_fill(), document, rp_provenance_text);
    rp_cli_print(&text);
}

/* The build that verified. */
static json_t *program_json(void)
{
    const struct rp_build *b = rp_build_record();
    return json_pack("{s:s, s:s, s:s}", "version", b->version, "commit", b->commit, "dirty", b->dirty);
}

/* The provenance of a release instead of a bundle: what else is about a bundle is refused. */
static int verify_release(struct rp_cli *cli, const char *path, json_t **document, struct rp_err *err)
{
    const struct verify_opts *o = cli->opts;
    const char *const of_bundles[][2] = {{"policy", o->policy},
                                         {"replay", o->replay},
                                         {"replay-micro", o->replay_micro},
                                         {"challenge", o->challenge},
                                         {"draw", o->draw},
                                         {"baseline", o->baseline},
                                         {"original", o->original},
                                         {"replication", o->replication},
                                         {"ledger", o->ledger},
                                         {"tsa-ca", o->tsa_ca}};
    *document = NULL;
    if (cli->argc > 1)
        return rp_fail(err, RP_USAGE, "'%s' is the provenance of a release, not a bundle: verify it by itself", path);
    for (size_t i = 0; i < sizeof of_bundles / sizeof *of_bundles; i++)
        if (of_bundles[i][1])
            return rp_fail(err, RP_USAGE, "--%s is about a bundle, and '%s' is the provenance of a release",
                           of_bundles[i][0], path);
    return rp_provenance_verify(document, path, o->trust, o->any_key, err);
}

/* One bundle; *document: what is known of it, NULL where it could not be read, and there is no verdict. */
static int verify_bundle(struct rp_cli *cli, struct inputs *in, const char *bundle, json_t **document,
                         struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    struct rp_verify_opts vo;
    struct rp_replay_progress progress = {0};
    *document = NULL;
    if (rp_provenance_is(bundle))
        return verify_release(cli, bundle, document, err);
    if (make_options(&vo, in, bundle, &progress, err) < 0)
        return -1;
    const int failed = run_checks(&v, cli, bundle, &vo, &progress.line, err) < 0;
    const int status = failed ? rp_exit_status(err->code) : 0;
    if (v.check[RP_CHECK_container].state == RP_CHECK_FAILED && err->code == RP_IO)
        return -1;
    add_ledger_entry(cli, &v, bundle, status);
    *document = rp_verification_json(&v);
    return failed ? -1 : 0;
}

/* What the document of a bundle has whether or not there is a verdict. */
static void complete_document(json_t *document, const char *bundle, const struct rp_err *e)
{
    json_object_set_new(document, "bundle", rp_cli_path(bundle));
    json_object_set_new(document, "exit", json_integer(rp_exit_status(e->code)));
    json_object_set_new(document, "program", program_json());
}

/* The last line for several bundles: how many have each verdict, and which ones are not fine. */
static void print_tally(const json_t *list)
{
    RP_BUF text = {0};
    const size_t n = json_array_size(list);
    rp_buf_printf(&text, "\n%zu bundles:", n);
    size_t fine = 0, bad = 0;
    for (size_t i = 0; i < n; i++)
        fine += json_integer_value(json_object_get(json_array_get(list, i), "exit")) == 0;
    if (fine)
        rp_buf_printf(&text, " %zu verified", fine);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        const char *verdict = rp_json_text_at(one, "summary");
        if (json_integer_value(json_object_get(one, "exit")) == 0)
            continue;
        RP_FREE char *name = rp_strdup(rp_json_text_at(one, "bundle"));
        rp_sanitize(name);
        rp_buf_printf(&text, "%s %s: %.*s", fine || bad++ ? "," : "", name,
                      *verdict ? (int)strcspn(verdict, ":") : 8, *verdict ? verdict : "not read");
    }
    rp_buf_puts(&text, "\n");
    rp_cli_print(&text);
}

/* The status is that of the worst bundle. With --quiet it is the only result. */
static int verify_bundles(struct rp_cli *cli, struct inputs *in, struct rp_err *err)
{
    json_t *list = json_array(), *document;
    int failed = 0;
    for (int i = 0; i < cli->argc; i++) {
        struct rp_err e = {0};
        const int bad = verify_bundle(cli, in, cli->argv[i], &document, &e) < 0;
        if (bad && (!failed++ || rp_cli_is_worse(e.code, err->code))) {
            *err = e;
            cli->silent = cli->quiet && document;
            if (document && cli->argc > 1 && !strstr(err->msg, cli->argv[i]))
                (void)rp_wrap(err, "%s", cli->argv[i]);
        }
        if (!document && e.code == RP_USAGE) { /* of an option, not of a bundle */
            json_decref(list);
            return -1;
        }
        if (document && !cli->json && !cli->quiet)
            print_verification(cli, document, cli->argv[i], i == 0);
        if (!document && failed > 1)
            fprintf(stderr, "repro: %s\n", e.msg);
        if (!document)
            document = json_object();
        complete_document(document, cli->argv[i], &e);
        if (bad && cli->argc > 1)
            json_object_set_new(document, "error", rp_cli_error_json(&e));
        json_array_append_new(list, document);
        if (e.code == RP_INTERRUPTED)
            break;
    }
    if (cli->argc > 1 && !cli->json && !cli->quiet)
        print_tally(list);
    if (cli->argc > 1)
        cli->result = json_pack("{s:o, s:i}", "bundles", list, "exit", failed ? rp_exit_status(err->code) : 0);
    else {
        cli->result = json_incref(json_array_get(list, 0));
        json_decref(list);
    }
    return failed ? -1 : 0;
}

static int cmd_verify(struct rp_cli *cli, struct rp_err *err)
{
    const struct verify_opts *o = cli->opts;
    if (o->list)
        return list_checks(cli, err);
    __attribute__((cleanup(inputs_fini))) struct inputs in = {.o = o};
    if (check_arguments(cli, err) < 0 || load_inputs(&in, err) < 0)
        return -1;
    return verify_bundles(cli, &in, err);
}

const struct rp_command rp_cmd_verify = {
    .name = "verify",
    .operands = "BUNDLE... | --list",
    .summary = "check a bundle: signature, digests, figures, replay",
    .details =
        "BUNDLE is a file, - for standard input, the directory of an unpacked bundle, or by itself the provenance of a "
        "release (*.intoto.dsse.json), whose verdict begins \"release verified\". Each has its verdict; the exit "
        "status is that of the worst. --quiet prints nothing.\n"
        "\n"
        "Prints the verdict in the first line: verified, with what keeps it from status 0 (an unknown key, a run that "
        "ended early, a broken policy), failed, inconclusive if a replay was requested and could not be completed, or "
        "not checked, for a bundle of another version. Then come the checks that failed, warn or have a remark, and "
        "those that an option asked for (--all: every check), and what the verdict covers: authentic (signed by a key "
        "that you trust), consistent (what follows from the signed records was recomputed), computed (steps trained "
        "again here), timed (bounded by a clock that is not the signer's: 'repro help challenge'), and claimed: the "
        "rest, above all the speed and the machine, which no signature proves. Nothing in the file is parsed before "
        "its signature is checked, and the key inside a bundle is not trusted by itself: name one with --trust, or add "
        "it to your trust store with 'repro key trust'. A word without a / that does not end in .pem is a name in that "
        "store: write ./FILE for a file in the working directory.\n"
        "\n"
        "Each check has a stable id; --list prints what each one proves, how, and what its failure means. A warning "
        "does not change the exit status, but the verdict names it. A check that had nothing to check is not "
        "applicable (n/a): it does not count as passed. The last row, claims, lists the values that no check "
        "recomputes: they rest on the signer's word.\n"
        "\n"
        "A policy is a YAML file with one rule a line, and every rule must hold; it cannot forgive a failed check. "
        "Rules, checks, levels, recipes and signers of unknown names are refused with status 2 before the bundle is "
        "read, all at once. results/policy.yaml is an example with comments. The rules:\n"
#define RULE(id, of, type, example, meaning) "  " #id ": " example "\n      " meaning "\n"
#include "verify/policy/policy.def"
#undef RULE
        "\n"
        "Attempts before the first line of a ledger are unknown: there, and in a ledger that begins a day or more "
        "after its key was made, in_ledger and max_attempts_before hold with a note, which 'checks: {ledger: passed}' "
        "refuses.\n"
        "\n"
        "A replay needs the bundle and the files of --data and --init if the run used its owner's. --replay S:K begins "
        "in the middle: --init is the state before step S, and must have the state root that was recorded there, if "
        "one was (evidence.state_root_every). With --state the replay continues after a divergence, and its end is "
        "compared with the owner's state, element by element.\n"
        "\n"
        "--replay-micro is for steps too long to train here: forward passes of N micro-batches, chosen at random, must "
        "give the recorded losses. Gradients are not compared, and the level computed stays as it is.\n"
        "\n"
        "A replay takes at most an hour and half of the memory that is free; --replay-limit 2h,8G sets other limits. "
        "What exceeds them is not started, or ended, and the verdict is inconclusive. The bundle has no influence on "
        "them.\n"
        "\n"
        "A countersignature reads \"says to be a replicator\" until --replication gives the bundle that it names: that "
        "is verified against this one, and the steps of --replay are trained for it too, which recomputes its keyed "
        "roots. Those depend on the key that signed it and cannot be copied from another run.\n"
        "\n"
        "Time stamps ('repro timestamp') are checked with the certificates of --tsa-ca: at least one must be by an "
        "authority of that file, and the run must not have ended later. Without --tsa-ca they are an unchecked claim. "
        "An unsuitable one fails the bundle in any case.\n"
        "\n"
        "The verification and its verdict become a line of your own record ('repro ledger list --verified') unless "
        "--no-ledger is given. Bundles of one key that cannot be in one ledger are a warning of the check ledger, "
        "forked or restarted ledger: one line with different runs, lines against the order of time, ledgers that began "
        "at different times, or a line that a bundle verified here cites and the file of --ledger lacks. So is a run "
        "in no ledger whose key has one, and a ledger that began after a run of its key was verified here.\n"
        "\n"
        "Exit status 0: no check failed, the run reached its end, and the key that signed is the one of --trust, one "
        "of signed_by in the policy, one in your trust store, or your own. 8: as 0, but the key is unknown; --any-key "
        "makes that 0. 10: no check failed, but the run failed or ended early, whether or not the key is known. 9: no "
        "check failed, but the bundle breaks rules of the policy. 7: inconclusive. 11: written by another version of "
        "repro, so nothing was checked. 4: the bundle is malformed; 5: a recomputed value differs; 6: signature or "
        "key. Where several apply, the status is the first of 4 to 6, 11, 7, 9, 10, 8.\n"
        "\n"
        "Examples:\n"
        "  repro verify - --trust their-key.pem -q <run.repro.tar.zst && echo accepted\n"
        "  repro verify bert_fp32.repro.tar.zst --trust their-key.pem --replay 2\n"
        "  repro verify answer.repro.tar.zst --trust their-key.pem --challenge mine.challenge --received file\n",
    .opts = opts,
    .opts_size = sizeof(struct verify_opts),
    .more = "store",
    .more_are = "where and how a replay is computed",
    .output = 2,
    .run = cmd_verify,
};
