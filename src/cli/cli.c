#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH */
#endif
#include "cli/cli.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/term.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/source.h"
#include "cli/help.h"
#include "cli/parse.h"
#include "ledger/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STACK_KIB 512 /* the commands were seen to need up to 164 KiB */

/* A process started without stdin, stdout or stderr would open its own files under their numbers and print into them. A
 * descriptor that can neither be read nor written takes their place: printing fails, and the exit status shows it. */
static void hold_standard_fds(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/", O_PATH) < 0)
            return;
}

int rp_cli_check_stack(struct rp_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= STACK_KIB * 1024)
        return 0;
    return rp_fail(err, RP_UNAVAILABLE, "the stack is limited to %" PRIu64 " KiB, expected at least %d: ulimit -s 8192",
                   (uint64_t)limit.rlim_cur / 1024, STACK_KIB);
}

/* Before options are parsed: their errors are reported in JSON, too. */
static int wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return 1;
    return 0;
}

/* errno of the first write to stdout that failed. */
static int lost;

static int note_loss(int failed)
{
    if (failed && !lost)
        lost = errno;
    return failed;
}

void rp_cli_print(const struct rp_buf *b)
{
    errno = 0;
    if (b->size)
        note_loss(fwrite(b->data, 1, b->size, stdout) < b->size);
}

void rp_cli_return(struct rp_cli *cli, json_t *document, const char *template)
{
    RP_BUF text = {0};
    json_decref(cli->result);
    cli->result = document;
    if (cli->json || cli->silent)
        return;
    rp_show(&text, rp_cli_fill(), document, template);
    rp_cli_print(&text);
}

enum rp_fill rp_cli_fill(void)
{
    return rp_use_colour(STDOUT_FILENO) ? RP_FILL_COLOURED : RP_FILL_TEXT;
}

int rp_cli_width(void)
{
    const char *columns = getenv("COLUMNS");
    return isatty(STDOUT_FILENO) || (columns && *columns) ? rp_columns(STDOUT_FILENO) : 0;
}

void rp_cli_print_path(const struct rp_cli *cli, const char *path)
{
    if (!cli->json)
        puts(path);
}

json_t *rp_cli_path(const char *path)
{
    RP_FREE char *clean = path ? rp_strdup(path) : NULL;
    json_t *j = path ? json_string(path) : json_null();
    if (j)
        return j;
    rp_sanitize(clean);
    return json_string(clean);
}

void rp_cli_note_new_key(const struct rp_cli *cli, const char *print)
{
    const char *own = getenv("REPRO_KEY");
    if (!cli->quiet || !own || !*own)
        return;
    RP_FREE char *name = rp_strdup(own);
    rp_sanitize(name);
    fprintf(stderr, "repro: note: REPRO_KEY named no file: made a new signing key, '%s', %s\n", name, print);
}

int rp_cli_has_stdout(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    return flags >= 0 && !(flags & O_PATH); /* which hold_standard_fds() put there */
}

int rp_cli_check_readable(const char *option, const char *path, struct rp_err *err)
{
    if (path && access(path, R_OK) < 0)
        return rp_fail(err, RP_IO, "--%s: cannot read '%s': %s", option, path, strerror(errno));
    return 0;
}

/* A file that cannot be read as the kind that is expected: a mistake on the command line, unless it is not there. */
static int refuse_kind(const char *option, const char *expected, struct rp_err *err)
{
    if (err->code != RP_MALFORMED)
        return rp_wrap(err, "--%s", option);
    err->code = RP_USAGE;
    return rp_wrap(err, "--%s: expected %s", option, expected);
}

int rp_cli_check_bundle(const char *option, const char *path, struct rp_err *err)
{
    RP_BUNDLE b = {0};
    if (!path)
        return 0;
    if (rp_cli_check_readable(option, path, err) < 0)
        return -1;
    if (rp_bundle_skim(&b, path, err) == 0 || (err->code != RP_MALFORMED && err->code != RP_IO))
        return 0;
    return refuse_kind(option, "a bundle of 'repro run' (*.repro.tar.zst)", err);
}

/* One line is enough. */
static int stop_at_line(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    (void)line;
    (void)json;
    *(int *)arg = 1;
    return rp_fail(err, RP_INTERRUPTED, "a line was read");
}

int rp_cli_check_ledger(const char *option, const char *path, struct rp_err *err)
{
    struct rp_ledger_summary ignored;
    int found = 0;
    if (!path || rp_ledger_read(path, stop_at_line, &found, &ignored, err) == 0 || found)
        return 0;
    return err->code == RP_MALFORMED || err->code == RP_IO || err->code == RP_USAGE
               ? refuse_kind(option, "a ledger, as its owner gets it from 'repro ledger export'", err)
               : 0;
}

int rp_cli_read_input(struct rp_buf *out, size_t most, struct rp_err *err)
{
    char block[65536];
    ssize_t n;
    while ((n = RP_RETRY(read(STDIN_FILENO, block, sizeof block))) > 0) {
        if (out->size + (size_t)n > most)
            return rp_fail(err, RP_MALFORMED, "standard input has more than %zu bytes", most);
        rp_buf_add(out, block, (size_t)n);
    }
    return n < 0 ? rp_fail(err, RP_IO, "cannot read standard input: %s", strerror(errno)) : 0;
}

static int is_device(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

int rp_cli_write_output(const struct rp_cli *cli, const char *path, int force, const struct rp_buf *text,
                        struct rp_err *err)
{
    if (!path && !cli->json)
        rp_cli_print(text);
    if (!path)
        return 0;
    return (force || is_device(path) ? rp_write_file : rp_write_new_file)(path, text->data, text->size, 0644, err);
}

static int check_output(const char *path, const char *option, int force, struct rp_err *err)
{
    struct stat st;
    if (!*path)
        return rp_fail(err, RP_USAGE, "%s: the name is empty", option);
    if (strcmp(path, "-") == 0)
        return rp_fail(err, RP_USAGE, "%s -: this is not written to standard output; name a file (./- for one named -)",
                       option);
    if (is_device(path))
        return 0;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return rp_fail(err, RP_USAGE, "'%s' exists and is not a regular file; choose another name with %s", path,
                       option);
    if (!force && lstat(path, &st) == 0)
        return rp_fail(err, RP_USAGE, "'%s' exists; choose another name with %s, or give --force", path, option);
    return 0;
}

int rp_cli_check_bundle_output(const char *path, const char *option, int force, struct rp_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return rp_fail(err, RP_USAGE, "%s: '%s' is a %s; a bundle is written to a regular file: choose another name",
                       option, path,
                       S_ISDIR(st.st_mode)    ? "folder"
                       : S_ISFIFO(st.st_mode) ? "pipe"
                       : S_ISSOCK(st.st_mode) ? "socket"
                                              : "device");
    return check_output(path, option, force, err);
}

int rp_cli_check_output(const char *path, int force, struct rp_err *err)
{
    return check_output(path, "--output", force, err);
}

static void print_json(const json_t *j)
{
    RP_BUF text = {0};
    rp_json_write_ascii(&text, j);
    rp_cli_print(&text);
}

const char *rp_cli_output_id(char out[80], const char *command)
{
    int version = 1;
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (strcmp((*c)->name, command) == 0 && (*c)->output)
            version = (*c)->output;
    snprintf(out, 80, "repro-%.40s-output/%d", command, version);
    for (char *p = out; *p; p++)
        *p = *p == ' ' ? '-' : *p;
    return out;
}

/* What a command returns says whose document it is. Documents of bundles have a schema of their own. */
static void print_result(const struct rp_cli *cli, json_t *document)
{
    char id[80];
    if (json_is_object(document) && !json_object_get(document, "schema") && !json_object_get(document, "$schema"))
        json_object_set_new(document, "schema",
                            json_string(rp_cli_output_id(id, cli->command ? cli->command->name : "help")));
    print_json(document);
}

static size_t rank_of_status(int status)
{
    static const int worst_first[] = {130, 70, 4, 5, 6, 3, 11, 7, 9, 10, 8};
    size_t i = 0;
    while (i < sizeof worst_first / sizeof *worst_first && worst_first[i] != status)
        i++;
    return i;
}

int rp_cli_is_worse(enum rp_code code, enum rp_code than)
{
    return rank_of_status(rp_exit_status(code)) < rank_of_status(rp_exit_status(than));
}

json_t *rp_cli_error_json(const struct rp_err *err)
{
    return json_pack("{s:s, s:i, s:s}", "code", rp_code_name(err->code), "exit", rp_exit_status(err->code), "message",
                     err->msg);
}

void rp_cli_print_error(const struct rp_cli *cli, const struct rp_err *err)
{
    if (cli->json) {
        RP_JSON *doc =
            json_is_object(cli->result) ? json_incref(cli->result) : json_pack("{s:s}", "schema", RP_ERROR_SCHEMA);
        json_object_set_new(doc, "error", rp_cli_error_json(err));
        print_result(cli, doc);
    }
    note_loss(fflush(stdout) != 0);
    if (cli->silent)
        return;
    if (cli->events) {
        RP_JSON *event = rp_cli_error_json(err);
        json_object_set_new(event, "event", json_string("error"));
        RP_BUF line = {0};
        rp_json_write_line(&line, event);
        fputs(rp_buf_text(&line), stderr);
        return;
    }
    int colour = rp_use_colour(STDERR_FILENO);
    fprintf(stderr, "%srepro:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "", err->msg);
}

static void print_help(struct rp_cli *cli)
{
    RP_BUF text = {0};
    if (cli->json) {
        print_result(cli, cli->result = rp_help_json(cli->command));
        return;
    }
    if (cli->command)
        rp_help_screen(&text, cli->command);
    else
        rp_help_top_screen(&text);
    rp_cli_print(&text);
}

static int run_command(struct rp_cli *cli, int argc, char **argv, struct rp_err *err)
{
    if (rp_cli_check_stack(err) < 0) {
        rp_cli_print_error(cli, err);
        return -1;
    }
    if (rp_cli_parse(cli, argc, argv, err) < 0) {
        rp_cli_print_error(cli, err);
        if (!cli->command)
            fputs("Try 'repro --help'.\n", stderr);
        else
            fprintf(stderr, "Try 'repro %s --help'.\n", cli->command->name);
        return -1;
    }
    if (cli->help) {
        print_help(cli);
        return 0;
    }
    if (!cli->command->run) {
        rp_fail(err, RP_USAGE, "'%s' needs a subcommand: see 'repro %s --help'", cli->command->name,
                cli->command->name);
    } else if (cli->command->run(cli, err) == 0) {
        if (cli->json && cli->result)
            print_result(cli, cli->result);
        return 0;
    }
    if (err->code == RP_OK)
        rp_fail(err, RP_BUG, "'%s' failed without a message", cli->command->name);
    rp_cli_print_error(cli, err);
    return -1;
}

/* When a printf() fails, errno is overwritten before it is examined. The same write usually fails for the same reason;
 * if it succeeds, the newline does no harm, because the output is incomplete anyway. */
static int reason_of_loss(void)
{
    errno = 0;
    return RP_RETRY(write(STDOUT_FILENO, "\n", 1)) < 0 ? errno : 0;
}

/* Lost output is an error: a full disk, a closed pipe, a closed stdout. */
static int flush_stdout(void)
{
    int failed = ferror(stdout) || lost;
    if (failed && !lost)
        lost = reason_of_loss();
    failed |= note_loss(fflush(stdout) != 0);
    failed |= note_loss(fclose(stdout) != 0);
    if (failed && lost != EPIPE) /* `| head`: only the exit status reports the lost output */
        fprintf(stderr, "repro: cannot write to standard output: %s\n", lost ? strerror(lost) : "write error");
    return failed ? -1 : 0;
}

int rp_cli_main(int argc, char **argv)
{
    struct rp_cli cli = {.json = wants_json(argc, argv)};
    struct rp_err err = {0};
    hold_standard_fds();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is handled like a full disk */
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves must not end a run */
    int status = run_command(&cli, argc, argv, &err) < 0 ? rp_exit_status(err.code) : 0;
    status = cli.status ? cli.status : status;
    if (flush_stdout() < 0 && status == 0)
        status = rp_exit_status(RP_IO);
    rp_cli_fini(&cli);
    return status;
}
