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

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct challenge_opts {
    const char *output, *note, *key, *draw, *data, *init, *store, *isa;
    long passphrase_fd, threads;
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
    if (created && !cli->quiet) {
        char print[RP_FINGERPRINT_SIZE];
        rp_key_fingerprint(key, print);
        fprintf(stderr, "made a new signing key, %s\n", print);
    }
    if (!key || rp_challenge_make(&text, o->note ? o->note : "", key, err) < 0 ||
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
    RP_OPT_OUTPUT(output, "file to write; default standard output"),
    RP_OPT_FORCE(force),
    RP_OPTION_TEXT(note, "note", 'n', "TEXT", "one line that is signed with it, such as for whom and for what it is"),
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
               "Example:\n"
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
                  "kind\t{/kind t}\nnonce\t{/nonce t}\nmade\t{/made_at t}\n[/by:by\t{/by t}\n]"
                  "[/note:note\t{/note p}\n]checked\t{/checked p}\n");
    return 0;
}

const struct rp_command rp_cmd_challenge_show = {
    .name = "challenge show",
    .operands = "FILE",
    .summary = "check a challenge or public value, and print it",
    .details = "Of a challenge the signature is checked; of a public value what can be recomputed without a network: "
               "see 'checked'.\n"
               "\n"
               "Examples:\n"
               "  repro challenge show mine.challenge\n"
               "  repro challenge show bitcoin-840000.hex\n",
    .run = cmd_challenge_show,
};

/* ---- challenge draw, challenge answer ---- */

/* Verifies the bundle and draws a part of its run. */
static int draw_part(int64_t *first, int64_t *steps, struct rp_verification *v, struct rp_verified *kept,
                     const struct rp_cli *cli, struct rp_err *err)
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
    return rp_draw_part(first, steps, &kept->run.records, &c, v->statement, err);
}

static int cmd_challenge_draw(struct rp_cli *cli, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    int64_t first, steps;
    if (draw_part(&first, &steps, &v, &kept, cli, err) < 0)
        return -1;
    rp_cli_return(cli, json_pack("{s:I, s:I}", "from", (json_int_t)first, "steps", (json_int_t)steps),
                  "{/from t}:{/steps t}\n");
    if (!cli->json && !cli->quiet && first > 0)
        fprintf(stderr,
                "drawn: %" PRId64 " step%s from step %" PRId64 " on; the signer hands over the state before it with "
                "'repro challenge answer', and you replay the part with 'repro verify --received file --draw FILE "
                "--init STATE'\n",
                steps, rp_s(steps), first);
    else if (!cli->json && !cli->quiet)
        fprintf(stderr,
                "drawn: the first %" PRId64 " step%s, which need no state: 'repro verify --received file --draw FILE' "
                "replays them\n",
                steps, rp_s(steps));
    return 0;
}

#define DRAW                                                                                                           \
    RP_OPTION_TEXT(draw, "draw", 0, "FILE",                                                                            \
                   "the challenge that draws; the drawer's second one, made after the bundle came")

static const struct rp_opt draw_opts[] = {DRAW, {0}};

const struct rp_command rp_cmd_challenge_draw = {
    .name = "challenge draw",
    .operands = "BUNDLE",
    .summary = "print the part of a run that a challenge draws, as S:K",
    .details = "S is the first of K steps between two state roots, drawn from the nonce of the challenge and the "
               "digest of the bundle.\n"
               "\n"
               "Example:\n"
               "  repro challenge draw theirs.repro.tar.zst --draw second.challenge\n",
    .opts = draw_opts,
    .opts_size = sizeof(struct challenge_opts),
    .run = cmd_challenge_draw,
};

/* Trains the steps before the part again, comparing bits, and writes the state after them. */
static int write_state(struct rp_cli *cli, int64_t first, const struct rp_verified *kept, struct rp_err *err)
{
    const struct challenge_opts *o = cli->opts;
    struct rp_replay_result r;
    struct rp_replay_progress p = {0};
    rp_progress_init(&p.line, STDERR_FILENO, cli->quiet);
    const struct rp_replay_opts ro = {.steps = first,
                                      .data = o->data,
                                      .init = o->init,
                                      .save = o->output,
                                      .store = o->store,
                                      .isa = o->isa,
                                      .threads = o->threads,
                                      .begin = rp_replay_show_estimate,
                                      .progress = rp_replay_show_step,
                                      .arg = &p};
    rp_interrupt_catch();
    rp_progress_phase(&p.line, "recomputing", NULL);
    int failed = rp_replay(&r, kept->run.facts, &kept->run.records, &ro, err) < 0;
    rp_progress_end(&p.line);
    if (!failed && r.diverged)
        return rp_fail(err, RP_MISMATCH, "no state is handed over: step %" PRId64 " gives other bits here (%s)", r.step,
                       r.quantity);
    return failed ? -1 : 0;
}

static int cmd_challenge_answer(struct rp_cli *cli, struct rp_err *err)
{
    const struct challenge_opts *o = cli->opts;
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    int64_t first, steps;
    struct stat st;
    if (!o->output)
        return rp_fail(err, RP_USAGE, "--output is missing: the file for the state");
    if (lstat(o->output, &st) == 0 && !S_ISREG(st.st_mode)) /* the state is written next to it and moved there */
        return rp_fail(err, RP_USAGE, "'%s' exists and is not a regular file; choose another name with --output",
                       o->output);
    if (rp_cli_check_output(o->output, o->force, err) < 0 || draw_part(&first, &steps, &v, &kept, cli, err) < 0)
        return -1;
    if (first > 0 && write_state(cli, first, &kept, err) < 0)
        return -1;
    rp_cli_return(cli, json_pack("{s:I, s:I, s:o*}", "from", (json_int_t)first, "steps", (json_int_t)steps, "state",
                                 first ? rp_cli_path(o->output) : NULL),
                  "[/state:the state before step {/from t}, for 'repro verify --draw FILE --init STATE':\n{/state p}\n]"
                  "[!/state:the part begins with the first step, and needs no state\n]");
    return 0;
}

static const struct rp_opt answer_opts[] = {
    DRAW,
    RP_OPT_OUTPUT(output, "file for the state, in the form of run --save"),
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
    .summary = "write the state before the part that a challenge draws",
    .details = "Trains the steps before that part again, on any machine, and writes parameters and optimizer state for "
               "the challenger, who replays the part from them.\n"
               "\n"
               "Example:\n"
               "  repro challenge answer mine.repro.tar.zst --draw second.challenge -o state.safetensors\n",
    .opts = answer_opts,
    .opts_size = sizeof(struct challenge_opts),
    .run = cmd_challenge_answer,
};

const struct rp_command rp_cmd_challenge = {
    .name = "challenge",
    .operands = "",
    .summary = "prove a speed to somebody who doubts it",
    .details =
        "A signature shows who claims a speed, not that it is true: the signer's clock and captures are the signer's "
        "word. But the bits of a run can be obtained only by computing them, so a run whose bits were unknown before a "
        "given time was computed after it.\n"
        "\n"
        "1. The challenger makes a challenge and sends it:\n"
        "  repro challenge new -o c1\n"
        "2. The prover runs with it, and sends the bundle at once:\n"
        "  repro run bert_fp32 --challenge c1\n"
        "3. The challenger verifies. Data order, dropout and initialisation follow from c1, so all samples were "
        "computed between the two moments of the challenger's clock: samples / time is a throughput that no clock of "
        "the prover's can raise.\n"
        "  repro verify b.repro.tar.zst --challenge c1 --received file\n"
        "4. The challenger draws a part of the run, which could not be known when the bundle was sealed:\n"
        "  repro challenge new -o c2\n"
        "5. The prover hands over the state before it; the challenger replays the part from there:\n"
        "  repro challenge answer b.repro.tar.zst --draw c2 -o state.safetensors\n"
        "  repro verify b.repro.tar.zst --challenge c1 --received file --draw c2 --init state.safetensors\n"
        "\n"
        "A run that skipped a share f of its parts is caught by each draw with probability f: repeat 4 and 5. A draw "
        "that was made before the bundle came, such as c1, is an ordinary replay: the prover could seal bundle after "
        "bundle until a favourable part is drawn. So is any draw without --received: the time in the bundle is the "
        "prover's.\n"
        "\n"
        "Without a challenger: --challenge takes a public value (a drand round or a Bitcoin block header) as the "
        "earliest moment, and 'repro timestamp' adds the latest. Whatever can be recomputed from such a file is "
        "recomputed: the work of a block counts by itself. A drand round, whose signature is not checked, counts only "
        "if the verifier gives the same file with --challenge, and then in part. A challenge by the signer's own key "
        "or by one that countersigned never counts, also if the verifier names it.\n"
        "\n"
        "The seeds follow from challenge, signer and recipe. Only recipes of this program, with at most batch size and "
        "number of steps changed, reach the level timed: another recipe or setting may leave little to compute.\n"
        "\n"
        "What this does not prove, and what a cheat costs:\n"
        "  that the named machine did it: a faster one, rented, gives the same bits\n"
        "  that one device did it: ten that share the work look like one that is ten times as fast\n"
        "  that nothing else was tried: c1 can be answered several times, and the best sent\n"
        "  the speed without start and end: capture, ceilings and transport count; make the run long\n"
        "  skipping a part costs only a made-up state; a draw finds it with the probability above\n"
        "  a run from a file (--init) that neither shuffles nor drops anything: no seed changes its bits\n",
};
