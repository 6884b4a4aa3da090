/* `repro challenge`: makes challenges, and answers what they draw. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "cli/replay_progress.h"
#include "sign/challenge.h"
#include "verify/challenge/draw.h"
#include "verify/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct challenge_opts {
    const char *output, *note, *key, *draw, *data, *init, *store, *isa;
    long passphrase_fd, threads, parts, draws;
    int force;
};
#define AT(field) offsetof(struct challenge_opts, field)

/* ---- challenge new ---- */

static int cmd_challenge_new(struct rp_cli *cli, struct rp_err *err)
{
    const struct challenge_opts *o = cli->opts;
    struct rp_challenge c;
    char made[32];
    int created = 0;
    RP_BUF text = {0};
    if (o->output && rp_cli_check_output(o->output, o->force, err) < 0)
        return -1;
    RP_KEY *key = rp_key_load_or_create(o->key, o->passphrase_fd > 0 ? (int)o->passphrase_fd : -1, &created, err);
    if (created && key) {
        char print[RP_FINGERPRINT_SIZE];
        rp_key_fingerprint(key, print);
        if (!cli->quiet)
            fprintf(stderr, "made a new signing key, %s\n", print);
        rp_cli_note_new_key(cli, print);
    }
    if (!key || rp_challenge_make(&text, o->note ? o->note : "", o->parts ? o->parts : RP_PARTS_LEAST, key, err) < 0 ||
        rp_challenge_read(&c, text.data, text.size, err) < 0)
        return -1;
    if (rp_cli_write_output(cli, o->output, o->force, &text, err) < 0)
        return -1;
    rp_rfc3339(made, c.made_ns);
    if (cli->json)
        cli->result = rp_challenge_json(&c);
    else if (!cli->quiet)
        fprintf(stderr, "made %s, signed by %s; keep this file: 'repro verify --challenge' needs it\n", made, c.by);
    return 0;
}

static const struct rp_opt new_opts[] = {
    RP_OPT_OUTPUT_OR_STDOUT(output, "file to write; default -, standard output"),
    RP_OPT_FORCE(force),
    RP_OPTION_TEXT(note, "note", 'n', "TEXT", "one line that is signed with it, such as for whom and for what it is"),
    RP_OPTION_INT(parts, "parts", 0, RP_PARTS_LEAST, RP_PARTS_MOST,
                  "parts that state roots divide the run into; default 64"),
    RP_OPT_KEY(key),
    RP_OPT_PASSPHRASE_FD(passphrase_fd),
    {0},
};

const struct rp_command rp_cmd_challenge_new = {
    .name = "challenge new",
    .operands = "",
    .summary = "make a challenge: a signed, dated random value",
    .details = "Send the file to the person who claims a speed, and keep a copy. Its time is read from your clock; the "
               "bound counts from it.\n"
               "\n"
               "Examples:\n"
               "  repro challenge new -o mine.challenge --note \"for the H200 offer\"\n",
    .opts = new_opts,
    .opts_size = sizeof(struct challenge_opts),
    .run = cmd_challenge_new,
};

/* ---- challenge show ---- */

static int cmd_challenge_show(struct rp_cli *cli, struct rp_err *err)
{
    struct rp_challenge c;
    RP_BUF bytes = {0};
    if (rp_challenge_load(&c, &bytes, cli->argv[0], err) < 0)
        return -1;
    json_t *j = rp_challenge_json(&c);
    json_object_update_new(j, json_pack("{s:s, s:s, s:b}", "note", c.note, "checked", c.checked, "proved", c.proved));
    rp_cli_return(cli, j,
                  "kind\t{/kind t}\nnonce\t{/nonce t}\nmade\t{/made_at t}\nparts\t{/parts t}\n[/by:by\t{/by t}\n]"
                  "[/note:note\t{/note p}\n]checked\t{/checked p}\n");
    return 0;
}

const struct rp_command rp_cmd_challenge_show = {
    .name = "challenge show",
    .operands = "FILE",
    .summary = "check a challenge or public value, and print it",
    .details = "Checks the signature of a challenge, and of a public value what can be recomputed without a network: "
               "see 'checked'.\n"
               "\n"
               "Examples:\n"
               "  repro challenge show mine.challenge\n"
               "  repro challenge show bitcoin-840000.hex\n",
    .run = cmd_challenge_show,
};

/* ---- challenge draw, challenge answer ---- */

/* Verifies the bundle and draws parts of its run. */
static int draw_parts(struct rp_draw *d, struct rp_verification *v, struct rp_verified *kept, const struct rp_cli *cli,
                      struct rp_err *err)
{
    const struct challenge_opts *o = cli->opts;
    struct rp_challenge c;
    RP_BUF bytes = {0};
    const struct rp_verify_opts vo = {.keep = kept};
    if (!o->draw)
        return rp_fail(err, RP_USAGE, "--draw is missing: the challenge that draws, made after the bundle came");
    if (rp_challenge_load(&c, &bytes, o->draw, err) < 0)
        return rp_wrap(err, "--draw");
    if (rp_verify(v, cli->argv[0], &vo, err) < 0)
        return rp_wrap(err, "'%s' does not verify", cli->argv[0]);
    if (rp_verified_run(kept, cli->argv[0], err) < 0)
        return -1;
    const char *why = rp_draw_weakness(&c, kept->run.facts, v->fingerprint);
    if (why && !cli->quiet)
        fprintf(stderr, "this draw will not count: %s\n", why);
    return rp_draw_parts(d, &kept->run.records, &c, v->statement, o->draws ? (int)o->draws : RP_DRAWS, err);
}

static json_t *draw_json(const struct rp_draw *d)
{
    return json_pack("{s:I, s:o, s:I, s:f}", "of", (json_int_t)d->parts, "parts", rp_draw_list(d), "steps",
                     (json_int_t)d->steps, "undetected", d->undetected);
}

/* What comes next, and what these parts are worth. */
static void explain_draw(const struct rp_draw *d)
{
    char odds[32] = "not at all";
    const char *s = d->n > 1 ? "s" : "";
    if (d->undetected > 0)
        snprintf(odds, sizeof odds, "with 1 in %.0f", floor(1 / d->undetected));
    fprintf(stderr,
            "drawn: %d of %" PRId64 " parts, %" PRId64 " step%s; a run that skipped half of its work passes %s\n", d->n,
            d->parts, d->steps, rp_s(d->steps), odds);
    if (d->n == 1 && d->part[0].first == 0)
        fprintf(stderr, "they need no state: 'repro verify --received file --draw FILE --draws 1' replays them\n");
    else
        fprintf(stderr,
                "the signer hands over the state%s before them with 'repro challenge answer', and you replay them with "
                "'repro verify --received file --draw FILE --draws %d --init STATE%s'\n",
                s, d->n, d->n > 1 ? "S" : "");
}

static int cmd_challenge_draw(struct rp_cli *cli, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    RP_DRAW d = {0};
    if (draw_parts(&d, &v, &kept, cli, err) < 0)
        return -1;
    rp_cli_return(cli, draw_json(&d), "[/parts:{/from t}:{/steps t}\n]");
    if (!cli->json && !cli->quiet)
        explain_draw(&d);
    return 0;
}

#define DRAW                                                                                                           \
    RP_OPTION_TEXT(draw, "draw", 0, "FILE",                                                                            \
                   "the challenge that draws; the drawer's second one, made after the bundle came"),                   \
        RP_OPTION_INT(draws, "draws", 0, 1, RP_PARTS_MOST,                                                             \
                      "how many parts; default 7, enough of 64 for the level timed")

static const struct rp_opt draw_opts[] = {DRAW, {0}};

const struct rp_command rp_cmd_challenge_draw = {
    .name = "challenge draw",
    .operands = "BUNDLE",
    .summary = "print the parts of a run that a challenge draws, as S:K",
    .details = "S is the first of K steps between two state roots. The parts are drawn from the nonce of the challenge "
               "and the digest of the bundle, each at most once.\n"
               "\n"
               "Examples:\n"
               "  repro challenge draw theirs.repro.tar.zst --draw second.challenge\n",
    .opts = draw_opts,
    .opts_size = sizeof(struct challenge_opts),
    .run = cmd_challenge_draw,
};

/* What the states of an answer are computed with. */
struct state_writer {
    const struct challenge_opts *o;
    const struct rp_verified *kept;
    struct rp_replay_progress progress;
};

/* Trains steps [from, to) again, comparing bits, from the state `init`, and writes the state after them. */
static int write_state(struct state_writer *a, const char *path, int64_t from, int64_t to, const char *init,
                       struct rp_err *err)
{
    struct rp_replay_result r;
    const struct rp_replay_opts ro = {.first = from,
                                      .steps = to - from,
                                      .data = a->o->data,
                                      .init = init,
                                      .save = path,
                                      .store = a->o->store,
                                      .isa = a->o->isa,
                                      .threads = a->o->threads,
                                      .begin = rp_replay_show_estimate,
                                      .progress = rp_replay_show_step,
                                      .arg = &a->progress};
    a->progress.shown = 0;
    if (rp_replay(&r, a->kept->run.facts, &a->kept->run.records, &ro, err) < 0)
        return -1;
    if (!r.diverged)
        return 0;
    return rp_fail(err, RP_MISMATCH, "no state is handed over: step %" PRId64 " gives other bits here (%s)", r.step,
                   r.quantity);
}

/* The file of the state before a part: --output, or of several parts a name in that directory. Free it. */
static char *state_path(const struct challenge_opts *o, const struct rp_draw *d, int64_t first)
{
    return d->n == 1 ? rp_strdup(o->output) : rp_asprintf("%s/" RP_STATE_OF_STEP, o->output, first);
}

/* Each state from the one before it. */
static int write_states(json_t *written, const struct rp_cli *cli, const struct rp_draw *d,
                        const struct rp_verified *kept, struct rp_err *err)
{
    struct state_writer a = {.o = cli->opts, .kept = kept};
    RP_FREE char *before = NULL;
    int64_t from = 0;
    int failed = 0;
    rp_progress_init(&a.progress.line, STDERR_FILENO, cli->quiet);
    rp_interrupt_catch();
    rp_progress_phase(&a.progress.line, "recomputing", NULL);
    for (int i = 0; i < d->n && !failed; i++) {
        const int64_t to = d->part[i].first;
        if (to == 0)
            continue;
        char *path = state_path(a.o, d, to);
        failed = write_state(&a, path, from, to, before ? before : a.o->init, err) < 0;
        json_array_append_new(written, rp_cli_path(path));
        free(before);
        before = path;
        from = to;
    }
    rp_progress_end(&a.progress.line);
    return failed ? -1 : 0;
}

/* No file is there that would be replaced; of several states the directory is made. */
static int prepare_output(const struct challenge_opts *o, const struct rp_draw *d, struct rp_err *err)
{
    struct stat st;
    const int there = lstat(o->output, &st) == 0;
    if (d->n == 1 && there && !S_ISREG(st.st_mode)) /* the state is written next to it and moved there */
        return rp_fail(err, RP_USAGE, "'%s' exists and is not a regular file; choose another name with --output",
                       o->output);
    if (d->n > 1 && there && !S_ISDIR(st.st_mode))
        return rp_fail(
            err, RP_USAGE,
            "'%s' exists and is not a directory, and the states of %d parts are several files; choose another name "
            "with --output",
            o->output, d->n);
    if (d->n > 1 && !there && mkdir(o->output, 0777) < 0)
        return rp_fail(err, RP_IO, "cannot make the directory '%s' for the states: %s", o->output, strerror(errno));
    for (int i = 0; i < d->n; i++) {
        RP_FREE char *path = state_path(o, d, d->part[i].first);
        if (d->part[i].first && rp_cli_check_output(path, o->force, err) < 0)
            return -1;
    }
    return 0;
}

static int cmd_challenge_answer(struct rp_cli *cli, struct rp_err *err)
{
    const struct challenge_opts *o = cli->opts;
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    RP_DRAW d = {0};
    RP_JSON *written = json_array();
    if (!o->output)
        return rp_fail(err, RP_USAGE,
                       "--output is missing: the directory for the states, or with --draws 1 the file for the state");
    if (draw_parts(&d, &v, &kept, cli, err) < 0)
        return -1;
    if (o->init && rp_replay_check_state(kept.run.facts, o->init, 0, err) < 0)
        return rp_wrap(err, "--init");
    if (prepare_output(o, &d, err) < 0 ||
        write_states(written, cli, &d, &kept, err) < 0)
        return -1;
    json_t *j = draw_json(&d);
    json_object_set(j, "states", written);
    RP_FREE char *text = rp_asprintf(
        "[/states/0:the states before these parts, for 'repro verify --received file --draw FILE --draws %d --init "
        "%s':\n[/states:{ p}\n]]"
        "[!/states/0:the part begins with the first step, and needs no state: 'repro verify --received file --draw "
        "FILE --draws %d'\n]",
        d.n, d.n > 1 ? "STATES" : "STATE", d.n);
    rp_cli_return(cli, j, text);
    return 0;
}

static const struct rp_opt answer_opts[] = {
    DRAW,
    RP_OPT_OUTPUT(output, "directory for the states, or with --draws 1 the file, as of run --save"),
    RP_OPT_FORCE(force),
    RP_OPTION_TEXT(data, "data", 0, "DIR", "the samples, if the run used its owner's"),
    RP_OPTION_TEXT(init, "init", 0, "FILE", "the file that the run started from"),
    RP_OPT_STORE(store),
    RP_OPTION_CHOICE(isa, "isa", 0, RP_CHOICES(RP_ISAS), "instruction set, which does not change the bits"),
    RP_OPTION_INT(threads, "threads", 0, 0, 4096, "number of threads; the bits do not depend on it"),
    {0},
};

const struct rp_command rp_cmd_challenge_answer = {
    .name = "challenge answer",
    .operands = "BUNDLE",
    .summary = "write the states before the parts that a challenge draws",
    .details =
        "Trains the steps before those parts again, on any machine, and writes parameters and optimizer state for "
        "the challenger, who replays the parts from them. Each state is a file step-S.safetensors of a directory.\n"
        "\n"
        "Examples:\n"
        "  repro challenge answer mine.repro.tar.zst --draw second.challenge -o states\n",
    .opts = answer_opts,
    .opts_size = sizeof(struct challenge_opts),
    .run = cmd_challenge_answer,
};

const struct rp_command rp_cmd_challenge = {
    .name = "challenge",
    .operands = "",
    .summary = "prove a speed to a skeptic",
    .details =
        "A signature shows who claims a speed, not that it is true: the signer's clock and captures are the signer's "
        "word. But the bits of a run can be obtained only by computing them, so a run whose bits were unknown before a "
        "given time was computed after it.\n"
        "\n"
        "1. The challenger makes a challenge and sends it:\n"
        "  repro challenge new -o c1\n"
        "2. The prover runs with it, and sends the bundle and its public key (p.pem) at once:\n"
        "  repro run bert_fp32 --challenge c1\n"
        "3. The challenger verifies. Data order, dropout and initialisation follow from c1, so all samples were "
        "computed between the two moments of the challenger's clock: samples / time is a throughput that no clock of "
        "the prover's can raise.\n"
        "  repro verify b.repro.tar.zst --trust p.pem --challenge c1 --received file\n"
        "4. The challenger draws parts of the run, which could not be known when the bundle was sealed:\n"
        "  repro challenge new -o c2\n"
        "5. The prover hands over the states before them; the challenger replays the parts from there:\n"
        "  repro challenge answer b.repro.tar.zst --draw c2 -o states\n"
        "  repro verify b.repro.tar.zst --trust p.pem --challenge c1 --received file --draw c2 --init states\n"
        "\n"
        "State roots divide the run into parts: c1 says how many, at least 64, or one for each step of a shorter run. "
        "A part that was not computed as recorded is found if it is drawn. Of 64 parts 7 are drawn (--draws N draws "
        "more): a run that skipped half of its work passes with 1 in 184. The level timed is reached in full up to 1 "
        "in 100, and states the odds; max_undetected of a policy sets another limit.\n"
        "\n"
        "A draw that was made before the bundle came, such as c1, or in the same second is an ordinary replay: the "
        "prover could seal bundle after bundle until favourable parts are drawn. So is any draw without --received: "
        "the time in the bundle is the prover's.\n"
        "\n"
        "Without a challenger: --challenge takes a public value (a drand round or a Bitcoin block header) as the "
        "earliest moment, and 'repro timestamp' adds the latest. Whatever can be recomputed from such a file is "
        "recomputed: the work of a block counts by itself. A drand round, whose signature is not checked, counts only "
        "if the verifier gives the same file with --challenge, and then in part. A challenge by the signer's own key "
        "or by one that countersigned never counts, also if the verifier names it, unless the key is the verifier's "
        "own.\n"
        "\n"
        "The seeds follow from challenge, signer and recipe. Only recipes of this program, with at most batch size and "
        "number of steps changed, reach the level timed in full: another recipe or setting may leave little to "
        "compute. Neither does a run whose steps have samples twice without dropout or random crops, because its batch "
        "is larger than its data: one of the two need not be computed.\n"
        "\n"
        "A made-up state hides one false part from all draws but its own, and would make every later part cheap: with "
        "zeros for weights most products are 0. Three checks of a state that is handed over, each with its limit:\n"
        "\n"
        "After every root the nonce moves each weight, by less than a thousandth of itself plus a thousandth of the "
        "deviation of its initialisation, so that zeros and equal weights become dense and distinct. A bias of -1e6 "
        "remains one.\n"
        "\n"
        "Each weight is where the optimizer can have moved it since the initialisation. The bound adds up learning "
        "rates (adamw) or norms (lamb, sgd, lars; a recorded norm counts up to 64 times the median of all). It is wide "
        "after thousands of steps, and early with sgd, where it allows dead activations. So are its slots: m within "
        "what the recorded v allows (adamw, lamb), momentum within the norms (sgd, lars); a made-up one would move the "
        "weights away in the step after.\n"
        "\n"
        "Products with a factor of 0, sums that their bias absorbs, rows that repeat and attention to a single key are "
        "counted for 8 samples and compared with an untrained state: with fewer than 80 % needed the level is reached "
        "in part. So the speed shown can be 1.25 times the machine's, and savings of another kind are not counted. A "
        "run from a file (--init) has neither of the latter two, and is timed in part.\n"
        "\n"
        "What this does not prove, and what a cheat costs:\n"
        "  that the named machine did it: a faster one, rented, gives the same bits\n"
        "  that one device did it: ten that share the work look like one that is ten times as fast\n"
        "  that nothing else was tried: c1 can be answered several times, and the best sent\n"
        "  the speed without start and end: capture, ceilings and transport count; make the run long\n"
        "  that no part was skipped: fewer than half of them remain likelier than the odds above\n"
        "  a run from a file (--init) that neither shuffles nor drops anything: no seed changes its bits\n"
        "\n"
        "Examples:\n"
        "  repro challenge new -o c1 --note \"for the H200 offer\"\n"
        "  repro run bert_fp32 --challenge c1\n"
        "  repro verify b.repro.tar.zst --trust p.pem --challenge c1 --received file\n",
};
