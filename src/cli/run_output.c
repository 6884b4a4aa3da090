#include "cli/run_output.h"

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "verify/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUMBERS_MAX 1000 /* names tried after one that exists */

/* "bert_fp32-20261121T064001Z.repro.tar.zst": the recipe's name without folders and ending */
static char *default_name(const char *recipe_name, uint64_t started_ns)
{
    char time[32];
    rp_rfc3339(time, started_ns);
    const char *name = rp_base_name(recipe_name), *colon = name == recipe_name ? strrchr(name, ':') : NULL;
    name = colon ? colon + 1 : name;
    size_t len = strlen(name) - (rp_ends_with(name, ".yaml") ? 5 : 0);
    return rp_asprintf("%.*s-%.4s%.2s%.2sT%.2s%.2s%.2sZ" RP_BUNDLE_ENDING, (int)len, name, time, time + 5, time + 8,
                       time + 11, time + 14, time + 17);
}

/* "a.repro.tar.zst" -> "a-2.repro.tar.zst" */
static char *numbered_name(const char *path, int i)
{
    const char *ending = rp_ends_with(path, RP_BUNDLE_ENDING) ? RP_BUNDLE_ENDING : "";
    return rp_asprintf("%.*s-%d%s", (int)(strlen(path) - strlen(ending)), path, i, ending);
}

static void replace_path(struct rp_run_output *out, char *path)
{
    free(out->path);
    out->path = path;
}

/* Tests with a new file: an existing one, perhaps a link, is not opened. */
int rp_run_can_create(const char *path, struct rp_err *err)
{
    RP_FREE char *probe = rp_asprintf("%s.%ld.probe", path, (long)getpid());
    RP_FD fd = open(probe, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return rp_fail(err, RP_IO, "cannot create '%s': %s", path, strerror(errno));
    unlink(probe);
    return 0;
}

static int choose_pipe(struct rp_run_output *out, struct rp_err *err)
{
    if (isatty(STDOUT_FILENO) || !rp_cli_has_stdout())
        return rp_fail(err, RP_USAGE, "--output -: a bundle is binary: redirect standard output to a file or a pipe");
    out->named = out->piped = 1;
    out->path = rp_strdup("-");
    return 0;
}

/* A pipe that is closed by now is a lost bundle. */
static int write_pipe(struct rp_run_output *out, const struct rp_buf *file, struct rp_err *err)
{
    const int fd = memfd_create("bundle", MFD_CLOEXEC);
    if (fd > 0 && rp_write_all(fd, file->data, file->size) == 0)
        out->memory = fd;
    else if (fd >= 0)
        close(fd);
    if (rp_write_all(STDOUT_FILENO, file->data, file->size) == 0)
        return 0;
    return rp_fail(err, RP_IO, "cannot write the bundle to standard output: %s", strerror(errno));
}

int rp_run_output_choose(struct rp_run_output *out, const char *given, int force, const char *recipe_name,
                         uint64_t started_ns, struct rp_err *err)
{
    struct stat st;
    RP_FREE char *own = default_name(recipe_name, started_ns);
    if (given && strcmp(given, "-") == 0)
        return choose_pipe(out, err);
    out->named = given && !(stat(given, &st) == 0 && S_ISDIR(st.st_mode));
    if (out->named)
        out->path = rp_strdup(given);
    else if (given)
        out->path = rp_asprintf("%s%s%s", given, given[strlen(given) - 1] == '/' ? "" : "/", own);
    else
        out->path = rp_strdup(own);
    RP_FREE char *first = rp_strdup(out->path); /* another run may have started in this second */
    for (int i = 2; !out->named && !force && i <= NUMBERS_MAX && lstat(out->path, &st) == 0; i++)
        replace_path(out, numbered_name(first, i));
    const char *option = out->option ? out->option : "--output";
    if (rp_cli_check_bundle_output(out->path, option, force, err) < 0)
        return -1;
    return rp_run_can_create(out->path, err) < 0 ? rp_wrap(err, "the bundle (%s chooses another place)", option) : 0;
}

/* Writes out->path, or the next free name. */
static int write_new(struct rp_run_output *out, const struct rp_buf *file, struct rp_progress *progress,
                     struct rp_err *err)
{
    RP_FREE char *wanted = rp_strdup(out->path);
    for (int i = 2; rp_write_new_file(out->path, file->data, file->size, 0644, err) < 0; i++) {
        if (err->sys != EEXIST || i > NUMBERS_MAX)
            return -1;
        replace_path(out, numbered_name(wanted, i));
        out->taken = 1;
    }
    if (out->taken)
        rp_progress_note(progress, "'%s' appeared during the run and was not replaced; the bundle is '%s'", wanted,
                         out->path);
    return 0;
}

int rp_run_output_write(struct rp_run_output *out, int force, const struct rp_buf *file, struct rp_progress *progress,
                        struct rp_err *err)
{
    if (out->piped)
        return write_pipe(out, file, err);
    if ((force ? rp_write_file(out->path, file->data, file->size, 0644, err) : write_new(out, file, progress, err)) ==
        0)
        return 0;
    struct rp_err ignored;
    const char *tmp = getenv("TMPDIR");
    RP_FREE char *wanted = rp_strdup(out->path);
    replace_path(out, rp_asprintf("%s/%s", tmp && *tmp ? tmp : "/tmp", rp_base_name(wanted)));
    if (write_new(out, file, progress, &ignored) < 0) {
        replace_path(out, rp_strdup(wanted));
        return -1;
    }
    rp_progress_note(progress, "'%s' cannot be written any more; the bundle is '%s'", wanted, out->path);
    out->unwritable = *err;
    return 0;
}

int rp_run_output_judge(const struct rp_run_output *out, struct rp_err *err)
{
    if (out->unwritable.code != RP_OK)
        return rp_fail(err, RP_IO, "%s; the bundle was saved as '%s'", out->unwritable.msg, out->path);
    if (out->taken && out->named)
        return rp_fail(err, RP_IO, "the file of %s appeared during the run; the bundle was saved as '%s'",
                       out->option ? out->option : "--output", out->path);
    return 0;
}

int rp_run_output_verify(const struct rp_run_output *out, struct rp_err *err)
{
    struct rp_err why = {0};
    RP_VERIFICATION v = {0};
    const struct rp_verify_opts o = {0};
    RP_FREE char *path = out->memory ? rp_asprintf("/proc/self/fd/%d", out->memory) : rp_strdup(out->path);
    if (out->piped && access(path, R_OK) < 0) /* no /proc */
        return 0;
    if (rp_verify(&v, path, &o, &why) == 0)
        return 0;
    return rp_fail(
        err, RP_BUG,
        "'%s' is sealed, but does not verify: %s; if 'repro selftest' finds this device right, please report it "
        "with that file",
        out->path, why.msg);
}

void rp_run_output_fini(struct rp_run_output *out)
{
    free(out->path);
    out->path = NULL;
    if (out->memory)
        close(out->memory);
}
