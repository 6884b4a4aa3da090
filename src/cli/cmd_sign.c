/* `repro sign`: adds a countersignature to a bundle. */
#include "base/build.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/amend.h"
#include "cli/opts.h"
#include "cli/replay_progress.h"
#include "sign/countersign.h"
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sign_opts {
    const char *role, *note, *replication, *data, *init, *store, *output, *key;
    long passphrase_fd;
    int force;
};
#define AT(field) offsetof(struct sign_opts, field)

static const struct rp_opt opts[] = {
    RP_OPTION_CHOICE(role, "role", 'r', RP_COUNTERSIGN_ROLES, "your role; default reviewer"),
    RP_OPTION_TEXT(note, "note", 'n', "TEXT", "one line that is signed with it"),
    RP_OPT_REPLICATION(replication, "your replication of it, which is replayed to its first state root"),
    RP_OPTION_TEXT(data, "data", 0, "DIR", "the samples, if the replication used its owner's"),
    RP_OPTION_TEXT(init, "init", 0, "FILE", "the file that the replication started from"),
    RP_OPT_STORE(store),
    RP_OPT_OUTPUT(output, "signed bundle to write; default: BUNDLE is replaced"),
    RP_OPT_FORCE(force),
    RP_OPT_KEY(key),
    RP_OPT_PASSPHRASE_FD(passphrase_fd),
    {0},
};

static struct rp_key_pair *load_key(const struct rp_cli *cli, const struct sign_opts *o,
                                    char print[RP_FINGERPRINT_SIZE], struct rp_err *err)
{
    int created = 0;
    struct rp_key_pair *k =
        rp_key_load_or_create(o->key, o->passphrase_fd > 0 ? (int)o->passphrase_fd : -1, &created, err);
    if (!k)
        return NULL;
    rp_key_fingerprint(k, print);
    if (created && !cli->quiet)
        fprintf(stderr, "made a new signing key, %s\n", print);
    if (created)
        rp_cli_note_new_key(cli, print);
    return k;
}

static int check_signer(const struct rp_verification *v, const char *print, const char *role, struct rp_err *err)
{
    const char *before = rp_countersign_role(v, print);
    if (strcmp(print, v->fingerprint) == 0)
        return rp_fail(err, RP_USAGE, "this key is the author's; a countersignature is by another key (--key FILE)");
    if (before && strcmp(before, role) == 0)
        return rp_fail(err, RP_USAGE, "this key signed the bundle as %s before", role);
    if (v->signatures && v->signatures->row_n >= RP_COUNTERSIGN_MAX)
        return rp_fail(err, RP_USAGE, "the bundle has %d countersignatures, the maximum", RP_COUNTERSIGN_MAX);
    return 0;
}

/* Steps up to the first keyed root after a step; 0: there is none. */
static int64_t steps_to_keyed_root(const struct rp_records *rs)
{
    char keyed[RP_SHA256_HEX];
    for (int64_t i = 0; i < rs->n; i++) {
        rp_record_keyed_root(keyed, rs, &rs->r[i]);
        if (*keyed && rs->r[i].step >= 0)
            return rs->r[i].step + 1;
    }
    return 0;
}

/* Its first keyed root is computed here: copied roots are those of another key. */
static int replay_replication(const struct sign_opts *o, const struct rp_verify_opts *vo, int64_t steps, int quiet,
                              struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    struct rp_replay_progress progress = {0};
    struct rp_verify_opts with = *vo;
    with.keep = NULL;
    with.replay = (struct rp_replay_opts){.steps = steps,
                                          .data = o->data,
                                          .init = o->init,
                                          .store = o->store,
                                          .begin = rp_replay_show_estimate,
                                          .progress = rp_replay_show_step,
                                          .arg = &progress};
    rp_progress_init(&progress.line, STDERR_FILENO, quiet);
    rp_interrupt_catch();
    rp_progress_phase(&progress.line, "replay", NULL);
    int failed = rp_verify(&v, o->replication, &with, err) < 0;
    rp_progress_end(&progress.line);
    if (failed)
        return -1;
    return v.keyed ? 0 : rp_fail(err, RP_MISMATCH, "no keyed root of it was recomputed");
}

/* The replication that is named: it verifies against this bundle, has its bits, and the same key signed it and computed
 * a keyed root. */
static int take_replication(struct rp_countersignature *c, const struct sign_opts *o, const char *path,
                            const char *print, int quiet, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    const char *replication = o->replication;
    const struct rp_verify_opts vo = {.original = path, .keep = &kept};
    if (!replication)
        return o->data || o->init
                   ? rp_fail(err, RP_USAGE, "--data and --init are for the replay of --replication: give that too")
                   : 0;
    if (strcmp(c->role, "replicator") != 0)
        return rp_fail(err, RP_USAGE, "--replication: only a replicator names one (--role replicator)");
    if (rp_verify(&v, replication, &vo, err) < 0)
        return rp_wrap(err,
                       err->code == RP_MISMATCH ? "--replication '%s' does not agree with this bundle, the original"
                                                : "--replication '%s'",
                       replication);
    if (strcmp(v.fingerprint, print) != 0)
        return rp_fail(err, RP_SIGNATURE, "--replication '%s' is by %s, not by the key that countersigns", replication,
                       v.fingerprint);
    if (v.run->figures.agreement->bits.equal != 1)
        return rp_fail(err, RP_MISMATCH, "--replication '%s': its bits are not those of this bundle", replication);
    int64_t steps = steps_to_keyed_root(&kept.run.records);
    if (!steps)
        return rp_fail(err, RP_UNAVAILABLE,
                       "--replication '%s' has no state root after a step, so that nothing shows who computed it: "
                       "sign without --replication, or repeat the run to its end",
                       replication);
    if (replay_replication(o, &vo, steps, quiet, err) < 0)
        return rp_wrap(err, "--replication '%s'", replication);
    snprintf(c->replication, sizeof c->replication, "%s", v.statement);
    return 0;
}

static int add_members(struct rp_bundle *b, size_t number, const struct rp_countersignature *c,
                       const struct rp_key_pair *k, struct rp_err *err)
{
    RP_BUF envelope = {0}, pem = {0};
    RP_FREE char *name = rp_asprintf(RP_COUNTERSIGN_FOLDER "%zu.dsse.json", number);
    RP_FREE char *key_name = rp_asprintf(RP_COUNTERSIGN_FOLDER "%zu.pem", number);
    rp_key_public_pem(k, &pem);
    if (rp_countersign_seal(&envelope, c, &rp_bundle_find(b, "statement.dsse.json")->bytes, k, err) < 0)
        return -1;
    if (rp_bundle_add(b, name, envelope.data, envelope.size, err) < 0)
        return -1;
    return rp_bundle_add(b, key_name, pem.data, pem.size, err);
}

static void print_countersignature(struct rp_cli *cli, const struct rp_verification *v,
                                   const struct rp_countersignature *c, const char *print, const char *path)
{
    RP_BUF line = {0};
    rp_verification_line(&line, v);
    rp_cli_return(cli,
                  json_pack("{s:o, s:I, s:s, s:s, s:s, s:s, s:s, s:s*}", "bundle", rp_cli_path(path), "number",
                            (json_int_t)(v->signatures ? v->signatures->row_n : 0), "role", c->role, "fingerprint",
                            print, "author", v->fingerprint, "at", c->at, "verdict", line.data, "replication",
                            *c->replication ? c->replication : NULL),
                  "the bundle, by {/author t}: {/verdict p}\ncountersigned as {/role t} by {/fingerprint t}\n");
    rp_cli_print_path(cli, path);
}

static int countersign(struct rp_cli *cli, const char *path, mode_t mode, struct rp_err *err)
{
    const struct sign_opts *o = cli->opts;
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_verify_opts vo = {.keep = &kept};
    struct rp_countersignature c = {.role = "reviewer"};
    char print[RP_FINGERPRINT_SIZE];
    const char *to = o->output ? o->output : path;
    if (o->note && strlen(o->note) >= sizeof c.note)
        return rp_fail(err, RP_USAGE, "the note has %zu bytes; %zu at most", strlen(o->note), sizeof c.note - 1);
    snprintf(c.role, sizeof c.role, "%s", o->role ? o->role : "reviewer");
    snprintf(c.note, sizeof c.note, "%s", o->note ? o->note : "");
    snprintf(c.program, sizeof c.program, "repro %s", rp_build_record()->version);
    rp_rfc3339(c.at, rp_wall_ns());
    if (rp_verify(&v, path, &vo, err) < 0)
        return rp_wrap(err, "nothing was signed: the bundle does not verify");
    RP_KEY *k = load_key(cli, o, print, err);
    RP_BUNDLE whole = {0};
    if (!k || check_signer(&v, print, c.role, err) < 0 || take_replication(&c, o, path, print, cli->quiet, err) < 0 ||
        rp_amend_read(&whole, path, &kept.bundle, err) < 0 ||
        add_members(&whole, (size_t)(v.signatures ? v.signatures->row_n : 0), &c, k, err) < 0 ||
        rp_amend_write(&whole, to, o->output && !o->force, mode, err) < 0)
        return -1;
    print_countersignature(cli, &v, &c, print, to);
    return 0;
}

static int cmd_sign(struct rp_cli *cli, struct rp_err *err)
{
    const struct sign_opts *o = cli->opts;
    struct stat st = {0};
    RP_FREE char *path = NULL;
    RP_FD lock = rp_amend_open(&path, &st, cli->argv[0], o->output, o->force, err);
    return lock < 0 ? -1 : countersign(cli, path, st.st_mode & 0777, err);
}

const struct rp_command rp_cmd_sign = {
    .name = "sign",
    .operands = "BUNDLE",
    .summary = "add a countersignature to another's bundle",
    .details = "Verifies the bundle and signs the digest of statement.dsse.json, which covers every other member. The "
               "author's signature stays unchanged and alone decides authorship, whatever the role. 'repro verify' "
               "lists every countersignature with role, date, note and trust; an invalid one fails the bundle. At most "
               "32. The file is replaced atomically.\n"
               "\n"
               "A role is what the signer says. A replicator gives --replication, the bundle of 'repro replicate' made "
               "with the same key: it is verified against this bundle, trained again up to its first state root, whose "
               "keyed root cannot be copied from another run, and its digest is signed. Others read \"says to be a "
               "replicator\" until they give that bundle to 'repro verify --replication'.\n"
               "\n"
               "A bundle does not record the number of its countersignatures: a removed one is not detected.\n"
               "\n"
               "Examples:\n"
               "  repro sign a.repro.tar.zst --role reviewer --note \"replayed on a Zen 4\"\n"
               "  repro sign a.repro.tar.zst --role replicator --replication mine.repro.tar.zst --key lab.pem\n",
    .opts = opts,
    .opts_size = sizeof(struct sign_opts),
    .run = cmd_sign,
};
