/* `repro key`: signing keys and trusted keys. */
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "sign/key.h"
#include "sign/openssh.h"
#include "sign/passphrase.h"
#include "sign/signify.h"
#include "sign/trust.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct key_opts {
    const char *output, *name, *form, *until, *remove;
    long passphrase_fd;
    int encrypt, list;
};
#define AT(field) offsetof(struct key_opts, field)

/* ---- key new ---- */

static const struct rp_opt new_opts[] = {
    RP_OPT_OUTPUT(output, "private key file to write; default $REPRO_KEY or ~/.config/repro/key.pem"),
    RP_OPTION_FLAG(encrypt, "encrypt", 'e', "ask for a passphrase on the terminal and encrypt the key with it"),
    RP_OPT_PASSPHRASE_FD(passphrase_fd),
    {0},
};

/* From the file that was written, to check that it can be read. */
static int report_key(struct rp_cli *cli, const char *path, const struct rp_key_pair *k)
{
    char print[RP_FINGERPRINT_SIZE];
    RP_BUF pem = {0};
    rp_key_fingerprint(k, print);
    rp_key_public_pem(k, &pem);
    rp_cli_return(cli,
                  json_pack("{s:o, s:s, s:s}", "path", rp_cli_path(path), "fingerprint", print, "public_key", pem.data),
                  "{/path p}\n{/fingerprint t}\n{/public_key l}");
    return 0;
}

/* Loads the new key. The passphrase goes through a pipe (it is shorter than the buffer of one), to avoid a second
 * prompt. */
static struct rp_key_pair *load_new(const char *path, const struct rp_passphrase *secret, struct rp_err *err)
{
    int fd[2];
    if (!*secret->text)
        return rp_key_load(path, -1, err);
    if (pipe(fd) < 0)
        return rp_fail_null(err, RP_IO, "cannot make a pipe: %s", strerror(errno));
    int failed = rp_write_all(fd[1], secret->text, strlen(secret->text));
    close(fd[1]);
    struct rp_key_pair *k = failed ? rp_fail_null(err, RP_IO, "cannot write to a pipe") : rp_key_load(path, fd[0], err);
    close(fd[0]);
    return k;
}

static int make_key(struct rp_cli *cli, const char *path, struct rp_err *err)
{
    const struct key_opts *o = cli->opts;
    RP_PASSPHRASE secret = {{0}};
    if (o->passphrase_fd > 0) {
        if (rp_passphrase_from_fd(&secret, (int)o->passphrase_fd, err) < 0)
            return -1;
    } else if (o->encrypt && rp_passphrase_ask(&secret, "Passphrase for the new key", 1, err) < 0) {
        return -1;
    }
    if (rp_key_create(path, *secret.text ? secret.text : NULL, err) < 0)
        return -1;
    RP_KEY *k = load_new(path, &secret, err);
    return k ? report_key(cli, path, k) : -1;
}

static int cmd_key_new(struct rp_cli *cli, struct rp_err *err)
{
    const struct key_opts *o = cli->opts;
    if (o->output && strcmp(o->output, "-") == 0)
        return rp_fail(err, RP_USAGE, "--output -: a private key is not written to standard output; name a file");
    RP_FREE char *path = o->output ? rp_strdup(o->output) : rp_key_default_path(err);
    return path ? make_key(cli, path, err) : -1;
}

const struct rp_command rp_cmd_key_new = {
    .name = "key new",
    .operands = "",
    .summary = "make an Ed25519 key pair",
    .details = "The private key is PKCS#8 PEM, readable by its owner only, and never overwritten. 'repro run' makes "
               "one at its first use: this command is for a passphrase or another place. Give the printed fingerprint "
               "and public key to those who shall trust your bundles.\n"
               "\n"
               "A secret key of signify or minisign that has no passphrase is converted by openssl: its 32 bytes begin "
               "at byte 41 of a file of signify, 63 of minisign. Publish the public key that 'repro key show --form' "
               "prints then: it has another number than theirs.\n"
               "  { echo MC4CAQAwBQYDK2VwBCIEIA== | base64 -d; tail -n 1 KEY | base64 -d | tail -c +41 |\n"
               "  head -c 32; } | openssl pkey -inform DER -out key.pem\n"
               "\n"
               "Examples:\n"
               "  repro key new\n"
               "  repro key new --encrypt -o lab.pem\n",
    .opts = new_opts,
    .opts_size = sizeof(struct key_opts),
    .run = cmd_key_new,
};

/* ---- key show ---- */

static const struct rp_opt show_opts[] = {
    RP_OPT_PASSPHRASE_FD(passphrase_fd),
    RP_OPTION_CHOICE(form, "form", 0, "pem|ssh|signify|minisign",
                     "print only the public key; for openssl, ssh-keygen, signify or minisign"),
    {0},
};

/* Nothing but the key, as the tool of that form reads it: for a redirection into a file. */
static int show_form(struct rp_cli *cli, const struct rp_key_pair *k, const char *form)
{
    RP_BUF text = {0};
    char print[RP_FINGERPRINT_SIZE];
    rp_key_fingerprint(k, print);
    if (strcmp(form, "pem") == 0)
        rp_key_public_pem(k, &text);
    else if (strcmp(form, "ssh") == 0)
        rp_openssh_public_write(&text, k);
    else
        rp_foreign_public_write(&text, k, form);
    rp_cli_return(cli, json_pack("{s:s, s:s, s:s}", "form", form, "fingerprint", print, "public_key", text.data),
                  "{/public_key l}");
    return 0;
}

static int cmd_key_show(struct rp_cli *cli, struct rp_err *err)
{
    const struct key_opts *o = cli->opts;
    RP_FREE char *path = cli->argc ? rp_strdup(cli->argv[0]) : rp_key_default_path(err);
    if (!path)
        return -1;
    if (!cli->argc && access(path, F_OK) < 0 && errno == ENOENT)
        return rp_fail(err, RP_IO, "no key at '%s' yet; 'repro key new' or the first 'repro run' makes one", path);
    RP_KEY *k = rp_key_load_any(path, o->passphrase_fd > 0 ? (int)o->passphrase_fd : -1, err);
    if (!k)
        return -1;
    return o->form ? show_form(cli, k, o->form) : report_key(cli, path, k);
}

const struct rp_command rp_cmd_key_show = {
    .name = "key show",
    .operands = "[FILE]",
    .summary = "show the fingerprint and the public key of a key file",
    .details = "FILE is a private or a public key in PEM form or of OpenSSH, or a public key of signify or minisign; "
               "default is the key that 'repro run' signs with. Prints the path, the fingerprint (SHA-256 of the "
               "public key in DER form) and the public key in PEM form, never anything private.\n"
               "\n"
               "Examples:\n"
               "  repro key show --form minisign > me.pub\n"
               "  minisign -V -p me.pub -m SHA256SUMS -x SHA256SUMS.minisig\n",
    .opts = show_opts,
    .opts_size = sizeof(struct key_opts),
    .run = cmd_key_show,
};

/* ---- key trust ---- */

static const struct rp_opt trust_opts[] = {
    RP_OPTION_TEXT(name, "name", 'n', "NAME", "name of the key's owner; default the file's name"),
    RP_OPTION_TEXT(until, "until", 'u', "YYYY-MM-DD", "last day (UTC) on which the key is trusted; default for ever"),
    RP_OPTION_FLAG(list, "list", 'l', "list the trusted keys"),
    RP_OPTION_TEXT(remove, "remove", 0, "NAME", "no longer trust the key of that name"),
    {0},
};

#define TRUSTED "{/name t}\t{/fingerprint t}[/until: [/expired:no longer, it was ]until {/until t}]\n"

static json_t *trusted_json(const struct rp_trusted *t)
{
    return json_pack("{s:s, s:s, s:o*, s:s*, s:b}", "name", t->name, "fingerprint", t->fingerprint, "path",
                     t->path ? rp_cli_path(t->path) : NULL, "until", *t->until ? t->until : NULL, "expired",
                     t->expired);
}

static int list_trusted(struct rp_cli *cli, struct rp_err *err)
{
    struct rp_trust_list list = {0};
    if (rp_trust_list(&list, err) < 0)
        return -1;
    json_t *keys = json_array(), *skipped = json_array();
    for (int i = 0; i < list.n; i++)
        json_array_append_new(keys, trusted_json(&list.key[i]));
    for (int i = 0; i < list.n_skipped; i++) {
        json_array_append_new(skipped, json_string(list.skipped[i]));
        if (!cli->quiet)
            fprintf(stderr, "skipped: %s\n", list.skipped[i]);
    }
    rp_cli_return(cli, json_pack("{s:o, s:o}", "trusted", keys, "skipped", skipped),
                  "[/trusted:" TRUSTED "][!/trusted:no key is trusted yet; add one with 'repro key trust FILE'\n]");
    rp_trust_list_fini(&list);
    return 0;
}

/* "keys/alice.pem" -> "alice" */
static char *name_of(const char *path)
{
    const char *base = rp_base_name(path), *dot = strrchr(base, '.');
    return rp_asprintf("%.*s", (int)(dot && dot > base ? (size_t)(dot - base) : strlen(base)), base);
}

static int add_trusted(struct rp_cli *cli, struct rp_err *err)
{
    const struct key_opts *o = cli->opts;
    struct rp_trusted t = {0};
    RP_KEY *k = rp_key_load_public_file(cli->argv[0], err);
    if (!k)
        return -1;
    RP_FREE char *name = o->name ? rp_strdup(o->name) : name_of(cli->argv[0]);
    if (rp_trust_add(name, o->until, k, err) < 0)
        return -1;
    rp_key_fingerprint(k, t.fingerprint);
    t.name = name;
    if (o->until)
        snprintf(t.until, sizeof t.until, "%s", o->until);
    rp_cli_return(cli, trusted_json(&t), TRUSTED);
    if (!o->name && !cli->quiet && strcmp(name, "key") == 0) /* as everybody's key.pem gives it */
        fprintf(stderr, "repro: note: its name is '%s', as that of the file: --name NAME names the owner\n", name);
    return 0;
}

static int cmd_key_trust(struct rp_cli *cli, struct rp_err *err)
{
    const struct key_opts *o = cli->opts;
    if (cli->argc + o->list + !!o->remove > 1)
        return rp_fail(err, RP_USAGE, "FILE, --list and --remove exclude each other");
    if (!cli->argc && (o->name || o->until))
        return rp_fail(err, RP_USAGE, "--name and --until need a key: repro key trust FILE --name NAME");
    if (cli->argc)
        return add_trusted(cli, err);
    if (!o->remove)
        return list_trusted(cli, err);
    if (rp_trust_remove(o->remove, err) < 0)
        return -1;
    rp_cli_return(cli, json_pack("{s:s}", "removed", o->remove), "{/removed t} is no longer trusted\n");
    return 0;
}

const struct rp_command rp_cmd_key_trust = {
    .name = "key trust",
    .operands = "[FILE]",
    .summary = "trust bundles signed by this public key; without FILE, list trusted keys",
    .details = "FILE is a public key in PEM form, or one of OpenSSH (a line ssh-ed25519 ..., as a git host shows of "
               "its users), signify or minisign. Compare the printed fingerprint with one that you got from its "
               "owner in another way. The keys are files in ~/.config/repro/trust; removing a file ends the trust. "
               "After the day of --until the key is no longer trusted, by the clock of the verifying machine; the "
               "same command with another --until, or without, changes that.\n"
               "\n"
               "Examples:\n"
               "  repro key trust alice.pem\n"
               "  repro key trust downloaded.pub --name lab7 --until 2027-06-30\n"
               "  repro key trust --remove lab7\n",
    .opts = trust_opts,
    .opts_size = sizeof(struct key_opts),
    .run = cmd_key_trust,
};

const struct rp_command rp_cmd_key = {
    .name = "key",
    .operands = "",
    .summary = "make, show and trust signing keys",
    .details = "Examples:\n"
               "  repro key new\n"
               "  repro key show\n"
               "  repro key trust alice.pem\n",
};
