/* `repro verify`: is this bundle what it says, and who says so. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/term.h"
#include "base/text.h"
#include "cli/attempt.h"
#include "cli/opts.h"
#include "page/page.h"
#include "recipe/choices.h"
#include "sign/trust.h"
#include "verify/policy.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct verify_opts {
    const char *trust, *policy, *base, *report, *data, *init, *state, *store, *isa, *replay, *ledger, *original;
    struct rp_opt_list beside;
    long threads;
    int list, no_ledger;
};

#define STEPS_MAX 1000000000

#define AT(field) offsetof(struct verify_opts, field)
static const struct rp_opt opts[] = {
    RP_OPT_TRUST(trust),
    RP_ROW_TEXT(policy, "policy", 'p', "FILE", "YAML rules that the bundle must meet: signer, age, recipe, steps; listed above"),
    RP_ROW_TEXT(replay, "replay", 'r', "K|S:K", "train the first K steps again and compare bits, or K steps from step S on"),
    RP_ROW_TEXT(report, "report", 0, "FILE", "check the body of a page or Markdown file of 'repro report' against the bundle"),
    RP_ROW_LIST(beside, "beside", "BUNDLE", "another bundle of the page given with --report; repeat for each"),
    RP_ROW_TEXT(base, "base", 0, "BUNDLE", "run of fewer threads or devices, by the same key: fail if the speed-up exceeds ideal scaling"),
    RP_ROW_TEXT(data, "data", 0, "DIR", "for a replay of a run on its owner's data: where those data are here"),
    RP_ROW_TEXT(init, "init", 0, "FILE", "for a replay: the file that the run started from; for S:K the state before step S"),
    RP_ROW_TEXT(state, "state", 0, "FILE", "the owner's state after the last replayed step (run --save): report differences by element"),
    RP_OPT_STORE(store),
    RP_ROW_CHOICE(isa, "isa", 0, RP_CHOICES(RP_ISAS), "instruction set of the replay; the bits do not depend on it"),
    RP_ROW_INT(threads, "threads", 0, 0, 4096, "threads of the replay; the bits do not depend on it"),
    RP_ROW_FLAG(list, "list", 'l', "list every check: id, severity, what it proves and how; no bundle is read"),
    RP_OPT_ORIGINAL(original),
    RP_OPT_LEDGER(ledger),
    RP_OPT_NO_LEDGER(no_ledger),
    {0},
};

struct progress {
    struct rp_meter meter;
    int64_t shown; /* steps; the replay also calls between steps */
    uint64_t start_ns;
};

static void say_estimate(void *arg, int64_t first, int64_t steps, const double seconds[2])
{
    struct progress *p = arg;
    char time[64] = "";
    if (seconds)
        snprintf(time, sizeof time, ", %.*f to %.*f s here", seconds[0] < 9.5, seconds[0], seconds[0] < 9.5, seconds[1]);
    rp_meter_note(&p->meter, "replay: steps %lld to %lld%s", (long long)first, (long long)(first + steps - 1), time);
    p->start_ns = rp_now_ns();
}

static int show_progress(void *arg, int64_t step, int64_t steps)
{
    struct progress *p = arg;
    double each = (double)(rp_now_ns() - p->start_ns) / 1e9 / (double)(step ? step : 1);
    if (step > p->shown)
        rp_meter_step(&p->meter, (int)step, (int)steps, NAN, 0, "", each * (double)(steps - step));
    p->shown = step;
    return rp_interrupted();
}

/* A whole number from lo up, that ends at `end`. */
static int whole(int64_t *out, const char *text, char end, const char **rest, int64_t lo)
{
    char *stop;
    long long v = *text >= '0' && *text <= '9' ? strtoll(text, &stop, 10) : -1;
    if (v < lo || v > STEPS_MAX || *stop != end)
        return -1;
    *out = v;
    *rest = stop + (end != 0);
    return 0;
}

static int parse_replay(struct rp_replay_opts *o, const char *text, struct rp_err *err)
{
    const char *count = text;
    if (strchr(text, ':') && whole(&o->first, text, ':', &count, 0) < 0)
        count = "";
    if (whole(&o->steps, count, 0, &count, 1) == 0)
        return 0;
    return rp_fail(err, RP_USAGE, "option '--replay': '%.40s' is neither a number of steps from 1 to %d nor S:K, K steps from step S on",
                   text, STEPS_MAX);
}

static int list_checks(struct rp_cli *cli, struct rp_err *err)
{
    RP_BUF text = {0};
    if (cli->argc)
        return rp_fail(err, RP_USAGE, "--list reads no bundle: repro verify --list");
    if (cli->json) {
        cli->result = rp_checks_json();
        return 0;
    }
    rp_checks_text(&text);
    rp_cli_print(&text);
    return 0;
}

/* The others on a page of several, each verified like this one. */
struct beside {
    struct rp_verification v[RP_PAGE_BUNDLES];
    struct rp_verified kept[RP_PAGE_BUNDLES];
    struct rp_shown_bundle b[RP_PAGE_BUNDLES];
    int n;
};

static int verify_beside(struct beside *all, const struct verify_opts *o, struct rp_err *err)
{
    for (int i = 0; i < o->beside.n; i++) {
        struct rp_verify_opts vo = {.trust = o->trust, .keep = &all->kept[i]};
        struct rp_err why = {0};
        int failed = rp_verify(&all->v[i], o->beside.item[i], &vo, &why) < 0;
        all->n++;
        if (failed)
            return rp_fail(err, RP_UNAVAILABLE, "not decided: --beside: '%s' does not verify: %s", o->beside.item[i], why.msg);
        all->b[i] = (struct rp_shown_bundle){.name = o->beside.item[i], .v = &all->v[i], .kept = &all->kept[i]};
    }
    return 0;
}

struct page {
    const struct rp_buf *bytes;
    const char *bundle; /* its name */
    const struct verify_opts *o;
};

/* --report: rp_verify_page. */
static int check_page(void *arg, const struct rp_verification *v, const struct rp_verified *kept, struct rp_check_result *found,
                      struct rp_err *err)
{
    const struct page *p = arg;
    struct rp_shown_bundle b = {.name = p->bundle, .v = v, .kept = kept};
    struct beside *all = rp_alloc(sizeof *all);
    int failed = verify_beside(all, p->o, err) < 0 || rp_page_check(found, p->bytes, &b, all->b, all->n, err) < 0;
    for (int i = 0; i < all->n; i++) {
        rp_verified_fini(&all->kept[i]);
        rp_verification_fini(&all->v[i]);
    }
    free(all);
    return failed ? rp_wrap(err, "%s", p->o->report) : 0;
}

/* A mistake in what the user names says nothing about the bundle: then there is no verdict and no line in the ledger. */
static int check_named(const struct verify_opts *o, struct rp_err *err)
{
    const char *const files[][2] = {{"base", o->base}, {"ledger", o->ledger}, {"original", o->original}};
    char key[RP_FINGERPRINT_SIZE];
    if (o->trust && rp_trust_resolve(key, o->trust, err) < 0)
        return rp_wrap(err, "--trust");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (rp_cli_check_readable(files[i][0], files[i][1], err) < 0)
            return -1;
    for (int i = 0; i < o->beside.n; i++)
        if (rp_cli_check_readable("beside", o->beside.item[i], err) < 0)
            return -1;
    if (o->beside.n && !o->report)
        return rp_fail(err, RP_USAGE, "--beside names what else is on the page of --report: there is none");
    if (o->beside.n >= RP_PAGE_BUNDLES)
        return rp_fail(err, RP_USAGE, "a page has at most %d bundles", RP_PAGE_BUNDLES);
    return 0;
}

static int cmd_verify(struct rp_cli *cli, struct rp_err *err)
{
    const struct verify_opts *o = cli->opts;
    if (o->list)
        return list_checks(cli, err);
    if (cli->argc < 1)
        return rp_fail(err, RP_USAGE, "missing operand: repro verify BUNDLE; see 'repro verify --help'");
    if (check_named(o, err) < 0)
        return -1;
    __attribute__((cleanup(rp_verification_fini))) struct rp_verification v = {0};
    __attribute__((cleanup(rp_policy_fini))) struct rp_policy policy = {0};
    struct progress progress = {0};
    struct rp_meter *meter = &progress.meter;
    RP_BUF bytes = {0};
    struct page page = {.bytes = &bytes, .bundle = cli->argv[0], .o = o};
    if (o->state && !o->replay)
        return rp_fail(err, RP_USAGE, "--state is compared after a replay: name the steps with --replay");
    if (o->report && rp_read_file(&bytes, o->report, RP_PAGE_MAX, err) < 0)
        return -1;
    if (o->policy && rp_policy_load(&policy, o->policy, err) < 0)
        return -1;
    rp_meter_init(meter, STDERR_FILENO, cli->quiet || !o->replay);
    struct rp_verify_opts vo = {.trust = o->trust,
                                .policy = o->policy ? &policy : NULL,
                                .page = o->report ? check_page : NULL,
                                .page_arg = &page,
                                .base = o->base,
                                .ledger = o->ledger,
                                .original = o->original,
                                .replay = {.data = o->data,
                                           .init = o->init,
                                           .state = o->state,
                                           .store = o->store,
                                           .isa = o->isa,
                                           .threads = o->threads,
                                           .begin = say_estimate,
                                           .progress = show_progress,
                                           .arg = &progress}};
    if (o->replay && parse_replay(&vo.replay, o->replay, err) < 0)
        return -1;
    if (o->replay) /* the checks before it are short, and what a replay has found so far is worth a table */
        rp_interrupt_catch();
    rp_meter_phase(meter, "replay", NULL);
    int failed = rp_verify(&v, cli->argv[0], &vo, err) < 0;
    rp_meter_end(meter);
    if (v.check[RP_CHECK_container].state == RP_CHECK_FAILED && err->code == RP_IO) /* it was not read: nothing was judged */
        return -1;
    rp_meter_init(meter, STDERR_FILENO, cli->quiet);
    if (!o->no_ledger)
        rp_attempt_verified(cli->argv[0], &v, failed ? rp_exit_status(err->code) : 0, meter);
    if (cli->json) {
        cli->result = rp_verification_json(&v);
    } else {
        RP_BUF text = {0};
        rp_verification_text(&text, &v, rp_use_colour(STDOUT_FILENO));
        rp_cli_print(&text);
    }
    return failed ? -1 : 0;
}

const struct rp_command rp_cmd_verify = {
    .name = "verify",
    .operands = "BUNDLE",
    .min_operands = 0, /* --list has none */
    .max_operands = 1,
    .summary = "check a bundle: signature, digests, figures, replay",
    .details =
        "Prints a table of checks and one verdict: verified, verified but the key is unknown, failed, or not decided where a replay, or a "
        "page to compare, was asked for and could not be done in full. Nothing in the file is "
        "believed before its signature is checked, and a key inside the bundle is never trusted by itself: name one with --trust, or "
        "put it in your trust store with 'repro key trust'. A word without a / that does not end in .pem is a name of that store and never "
        "a file: write ./FILE for a file in the working directory.\n"
        "\n"
        "Every row has a stable id; --list says what each proves, how, and what its failure means. A warning does not decide the verdict.\n"
        "\n"
        "A policy is YAML, one rule a line, and holds when every rule does; it cannot forgive a failed check. results/policy.yaml is an "
        "example with comments. The rules:\n"
#define RULE(id, type, example, meaning) "  " #id ": " example "\n      " meaning "\n"
#include "verify/policy.def"
#undef RULE
        "\n"
        "The last row of the table, claims, lists what no check recomputes: those values rest on the signer's word.\n"
        "\n"
        "A replay needs the bundle only, and what --data and --init name. --replay S:K begins in the middle: the state before step S comes "
        "from --init and must have the root that was recorded there, where one was (evidence.state_root_every). With --state the replay "
        "goes on past a divergence and its end is compared with the owner's, element by element.\n"
        "\n"
        "A page made by 'repro report' proves nothing by itself; --report makes its body again from the bundle and compares it byte for "
        "byte: where it differs, the first figure or line that does is named. The box 'as verified by', with the verdict, trusted keys and "
        "what --ledger and --original added, is the word of the page's maker and is not compared. A page of several bundles is compared "
        "when the others are named with --beside; with less, only what it shows of this bundle is, and of a page by another version of "
        "repro only its figures: then the verdict is not decided (status 7).\n"
        "\n"
        "What was verified, and how that ended, becomes a line of your own ledger ('repro ledger list'), unless --no-ledger is given.\n"
        "\n"
        "Exit status 0 means that every check passed, also when no key is known to compare with; with --trust it means that "
        "this key signed. 4: not a well-formed bundle; 5: something recomputed differs, a page says "
        "something else, or the policy does not hold; 6: signature or key; 7: not decided.\n"
        "\n"
        "Examples:\n"
        "  repro verify bert_fp32.repro.tar.zst\n"
        "  repro verify bert_fp32.repro.tar.zst --trust their-key.pem --replay 2\n",
    .opts = opts,
    .opts_size = sizeof(struct verify_opts),
    .run = cmd_verify,
};
